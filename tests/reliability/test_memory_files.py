"""Files of memories: what was forgotten is gone or it is said, damage is found, a full or read-only disk closes nobody out."""

import os
import sqlite3
import stat
import warnings
from contextlib import closing
from dataclasses import replace
from unittest.mock import patch

import pytest
from pydantic import BaseModel

from memnb.adapters.turn_store import TurnStore
from memnb.core import storage
from memnb.core.conversation import Session, Turn
from memnb.core.models import RecordedLM, RecordError, ScriptedLM
from memnb.core.roles import Role
from memnb.core.storage import MemoryFile, MemoryFileError
from memnb.evaluation.datasets import load_sample
from memnb.memma.bank import MemoryBank
from memnb.remem.graph import GistGraph

SECRET = 'SECRETPIN'
ONE = replace(load_sample(), sessions=load_sample().sessions[:1], questions=())


class Said(BaseModel):
    text: str


TOLD = Role('told', 'Repeat it as JSON.', '{text}', Said)


def bank_with_a_secret(path):
    bank = MemoryBank(path)
    for text in ('a red boat', f'the code is {SECRET}', 'a dog'):
        bank.add(text)
    return bank


def store_with_a_secret(path):
    store = TurnStore(path)
    for text in ('a red boat', f'the code is {SECRET}', 'a dog'):
        store.remember(text, 'Ana')
    return store


def graph_with_a_secret(path):
    graph = GistGraph.of(ONE)
    graph.save(path)
    return graph


def bytes_of(path):
    return b''.join(one.read_bytes() for one in path.parent.iterdir() if one.name.startswith(path.name))


def full(file):
    raise sqlite3.OperationalError('database or disk is full')


# ------------------------------------------------------------------ a full disk (M3)


@pytest.mark.parametrize('begun', [bank_with_a_secret, store_with_a_secret])
def test_a_file_that_could_not_be_swept_is_opened_and_swept_by_the_next_change(tmp_path, begun):
    path = tmp_path / 'file'
    owner = begun(path)
    with patch.object(storage, '_vacuum', full), pytest.raises(MemoryFileError, match='copies may be left'):
        owner.forget(['m2'] if isinstance(owner, MemoryBank) else ['T2'])
    owner.close()
    kind = type(owner)
    with (
        patch.object(storage, '_vacuum', full),
        pytest.warns(UserWarning, match='copies may be left'),
        closing(kind(path)) as again,
    ):
        assert not [hit for hit in again.search(SECRET, 5) if SECRET in hit.snippet.text] and len(
            again.search('boat', 5)
        )
    with warnings.catch_warnings(), closing(kind(path)) as again:
        warnings.simplefilter('error')
        again.add('later') if kind is MemoryBank else again.remember('later')
    with closing(sqlite3.connect(path)) as file:
        assert file.execute("SELECT count(*) FROM memory WHERE name = 'unswept'").fetchone() == (0,)
    assert SECRET.encode() not in bytes_of(path)


def test_a_graph_that_could_not_be_swept_is_swept_by_the_next_save_and_has_no_conflict(tmp_path):
    path = tmp_path / 'graph'
    graph = GistGraph.of(replace(ONE, sessions=load_sample().sessions[:2]))
    graph.save(path)
    graph.forget('D1')
    with patch.object(storage, '_vacuum', full), pytest.raises(MemoryFileError, match='copies may be left'):
        graph.save(path)
    with patch.object(storage, '_vacuum', full), pytest.warns(UserWarning, match='copies may be left'):
        assert GistGraph.load(path).sessions == ('D2',)
    graph.forget('D2')
    graph.save(path)
    assert b'D1:' not in path.read_bytes() and GistGraph.load(path).sessions == ()


# ------------------------------------------------------------------ forgetting while another process reads (M11)


@pytest.mark.parametrize('begun', [bank_with_a_secret, store_with_a_secret])
def test_forgetting_is_refused_while_another_reads_and_then_leaves_no_byte(tmp_path, begun):
    path = tmp_path / 'file'
    owner = begun(path)
    file = owner.journal if isinstance(owner, MemoryBank) else owner._file
    name = ['m2'] if isinstance(owner, MemoryBank) else ['T2']
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute('BEGIN')
        reader.execute('SELECT count(*) FROM sqlite_master').fetchone()
        file.rows('PRAGMA busy_timeout = 50')
        with pytest.raises(MemoryFileError, match='locked'):
            owner.forget(name)
        assert SECRET in owner.search(SECRET, 1)[0].snippet.text  # all is kept
        reader.execute('COMMIT')
    owner.forget(name)
    assert SECRET.encode() not in bytes_of(path) and len(owner.search('boat', 5))
    owner.close()


# ------------------------------------------------------------------ damage inside a page (L4)


@pytest.mark.parametrize(
    'begun, sql',
    [
        (bank_with_a_secret, "UPDATE changes SET change = replace(change, 'red', 'bed')"),
        (bank_with_a_secret, "UPDATE extents SET given = given + 1"),
        (store_with_a_secret, "UPDATE turns SET text = 'a bed boat' WHERE number = 1"),
        (store_with_a_secret, "UPDATE turns SET speaker = 'Eve' WHERE number = 2"),
        (store_with_a_secret, "UPDATE turns SET said = '2024-05-08T00:00:00' WHERE number = 2"),
        (store_with_a_secret, "UPDATE turns SET number = 77 WHERE number = 3"),
    ],
)
def test_a_row_that_is_not_as_it_was_written_is_an_error(tmp_path, begun, sql):
    path = tmp_path / 'file'
    owner = begun(path)
    owner.close()
    with closing(sqlite3.connect(path)) as file, file:
        file.execute(sql)
    with pytest.raises(MemoryFileError, match='damaged'):
        with closing(type(owner)(path)) as again:
            again.search('boat', 5)


@pytest.mark.parametrize(
    'begun, sql',
    [
        (bank_with_a_secret, 'DELETE FROM changes WHERE number = (SELECT max(number) FROM changes)'),
        (bank_with_a_secret, 'DELETE FROM changes WHERE number = 2'),
        (bank_with_a_secret, 'DELETE FROM changes'),
        (bank_with_a_secret, "DELETE FROM extents WHERE namespace = 'default'"),
        (bank_with_a_secret, 'DELETE FROM extents'),
        (store_with_a_secret, 'DELETE FROM turns WHERE number = 2'),
        (store_with_a_secret, 'DELETE FROM turns WHERE number = (SELECT max(number) FROM turns)'),
        (store_with_a_secret, 'DELETE FROM turns'),
        (store_with_a_secret, "DELETE FROM memory WHERE name = 'seal'"),
        (store_with_a_secret, "DELETE FROM memory WHERE name = 'names'"),
        (store_with_a_secret, "UPDATE memory SET value = 'x' WHERE name = 'seal'"),
        (store_with_a_secret, "UPDATE turns SET checksum = NULL WHERE number = 2"),
    ],
)
def test_a_row_that_has_vanished_is_an_error(tmp_path, begun, sql):
    """Otherwise a deleted entry would be back, or an update lost, without a word."""
    path = tmp_path / 'file'
    with closing(begun(path)) as owner:
        owner.forget(['m1'] if isinstance(owner, MemoryBank) else ['T1'])
        owner.remember('a blue boat', 'Ada') if isinstance(owner, TurnStore) else owner.add('a blue boat')
    with closing(sqlite3.connect(path)) as file, file:
        assert file.execute(sql).rowcount
    with pytest.raises(MemoryFileError, match='damaged'):
        with closing(type(owner)(path)) as again:
            again.search('boat', 5)
    if isinstance(owner, TurnStore):
        with closing(TurnStore(path)) as again, pytest.raises(MemoryFileError, match='damaged'):
            again.conversation()


@pytest.mark.parametrize(
    'sql',
    [
        "DELETE FROM failed WHERE namespace = 'default'",
        "UPDATE failed SET namespace = 'theirs' WHERE namespace = 'default'",
        "UPDATE failed SET sessions = (SELECT sessions FROM failed WHERE namespace = 'ours') WHERE namespace = 'default'",
        "UPDATE failed SET checksum = 'c' WHERE namespace = 'default'",
        "DELETE FROM extents WHERE namespace = ''",
    ],
)
def test_failed_sessions_that_have_vanished_are_an_error(tmp_path, sql):
    """Otherwise nobody would try them again."""
    path = tmp_path / 'file'
    with closing(bank_with_a_secret(path)) as bank:
        for space in ('default', 'ours'):
            with bank.within(space).failed_sessions() as failed:
                failed.sessions['D9'] = Session('D9', (Turn('D9:1', 'Ada', 'Hi.'),))
                failed['D9'] = f'no reply in {space}'
        assert bank.journal.namespaces() == ('default',)
        bank.forget(['m1'])  # they stay
    with closing(MemoryBank(path)) as again:
        assert [*again.failed] == ['D9']
    with closing(sqlite3.connect(path)) as file, file:
        assert file.execute(sql).rowcount
    with pytest.raises(MemoryFileError, match='damaged: failed sessions'):
        MemoryBank(path)


@pytest.mark.parametrize('begun', [bank_with_a_secret, store_with_a_secret, graph_with_a_secret])
@pytest.mark.parametrize('shift, age', [(-1, 'an older'), (1, 'a newer')])
def test_a_file_of_another_version_says_which_and_what_to_do(tmp_path, begun, shift, age):
    path = tmp_path / 'file'
    owner = begun(path)
    owner.close() if not isinstance(owner, GistGraph) else None
    with closing(sqlite3.connect(path)) as file:
        [format] = file.execute('PRAGMA user_version').fetchone()
        file.execute(f'PRAGMA user_version = {format + shift}')
    told = f'written by {age} version of memnb .format {format + shift}, this one reads {format}.; open it with that version'
    with pytest.raises(MemoryFileError, match=told):
        owner.load(path) if isinstance(owner, GistGraph) else type(owner)(path)


@pytest.mark.parametrize('begun', [bank_with_a_secret, store_with_a_secret, graph_with_a_secret])
def test_a_file_with_other_tables_is_refused_with_a_clear_sentence(tmp_path, begun):
    """As an early version wrote them, under the format of later ones."""
    path = tmp_path / 'file'
    owner = begun(path)
    owner.close() if not isinstance(owner, GistGraph) else None
    table = {MemoryBank: 'changes', TurnStore: 'turns'}.get(type(owner), 'sessions')
    with closing(sqlite3.connect(path)) as file, file:
        file.execute(f'ALTER TABLE {table} RENAME COLUMN checksum TO seal')
    with pytest.raises(MemoryFileError, match='another version of memnb.* its tables are others; open it with'):
        owner.load(path) if isinstance(owner, GistGraph) else type(owner)(path)


def test_an_empty_file_is_a_new_memory(tmp_path):  # SQLite itself makes one before it writes the first byte
    path = tmp_path / 'file'
    path.touch()
    with closing(TurnStore(path)) as store:
        assert store.remember('a red boat').id == 'T1'


# ------------------------------------------------------------------ names of files (L5)


def test_a_path_is_a_path_and_never_an_address(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ('file:t.db?mode=memory', 'a#b', '50%'):
        with closing(TurnStore(name)) as store:
            store.remember('a red boat')
        with closing(TurnStore(name)) as store:
            assert store.search('boat', 1)[0].snippet.text == 'a red boat'
        assert (tmp_path / name).is_file()


@pytest.mark.parametrize(
    'open_it',
    [TurnStore, MemoryBank, lambda path: RecordedLM(ScriptedLM([]), path), lambda path: GistGraph.of(ONE).save(path)],
)
def test_names_that_no_file_can_have_are_typed_errors(tmp_path, open_it):
    for name in ('a\0b', 'x' * 300):
        with pytest.raises((MemoryFileError, RecordError)):
            open_it(str(tmp_path / name))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize('open_it', [TurnStore, MemoryBank, lambda path: GistGraph.of(ONE).save(path)])
def test_sqlites_name_for_no_file_is_refused(tmp_path, monkeypatch, open_it):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(MemoryFileError, match="':memory:' is no file: give a path, or None"):
        open_it(':memory:')
    assert not list(tmp_path.iterdir())


# ------------------------------------------------------------------ who can read them (L7), and a disk that cannot be written (L8)


def test_nobody_but_the_owner_reads_a_new_file(tmp_path):
    store_with_a_secret(tmp_path / 'turns').close()
    bank_with_a_secret(tmp_path / 'bank').close()
    RecordedLM(ScriptedLM([{'text': 'x'}]), tmp_path / 'record').ask(TOLD, text='x')
    GistGraph.of(ONE).save(tmp_path / 'graph')
    found = {one.name: stat.S_IMODE(one.stat().st_mode) for one in tmp_path.iterdir()}
    assert set(found) == {'turns', 'bank', 'record', 'graph'} and set(found.values()) == {0o600}
    (tmp_path / 'shared').touch(0o640)
    store_with_a_secret(tmp_path / 'shared').close()
    assert stat.S_IMODE((tmp_path / 'shared').stat().st_mode) == 0o640  # what somebody chose stays


@pytest.mark.parametrize('begun', [bank_with_a_secret, store_with_a_secret])
def test_a_file_that_cannot_be_written_can_be_read(tmp_path, begun):
    path = tmp_path / 'file'
    owner = begun(path)
    owner.close()
    real = storage._connect
    with patch.object(storage, '_connect', lambda path, mode: real(path, 'ro')), closing(type(owner)(path)) as again:
        assert again.search('boat', 1)[0].snippet.text.endswith('a red boat')
        with pytest.raises(MemoryFileError, match='readonly'):
            again.add('x') if isinstance(again, MemoryBank) else again.remember('x')


# ------------------------------------------------------------------ a record can forget (M12), and keeps what was paid for (M7)


def test_a_record_forgets_every_reply_with_a_text(tmp_path):
    path = tmp_path / 'record'
    lm = RecordedLM(ScriptedLM([{'text': text} for text in ('fine', f'so "{SECRET}"', 'well')]), path)
    for text in (f'"{SECRET}"\nand é', 'what is it?', 'how are you?'):
        lm.ask(TOLD, text=text)
    assert SECRET.encode() in bytes_of(path)
    assert lm.forget(f'"{SECRET}"') == 2 and lm.forget(SECRET) == 0
    assert SECRET.encode() not in bytes_of(path)
    replay = RecordedLM(lm.lm, path, 'replay')
    assert replay.ask(TOLD, text='how are you?').text == 'well'
    with pytest.raises(RecordError):
        replay.ask(TOLD, text='what is it?')
    with pytest.raises(ValueError, match='expected some words'):
        lm.forget(' ')


def test_a_reply_that_cannot_be_recorded_is_not_thrown_away(tmp_path):
    lm = RecordedLM(ScriptedLM([{'text': 'one'}, {'text': 'two'}]), tmp_path / 'record')
    lm.ask(TOLD, text='first')
    real = MemoryFile.rows

    def rows(self, sql, *values):
        if sql.startswith('INSERT'):
            with storage._sqlite_errors(self.path):
                raise sqlite3.OperationalError('disk I/O error')
        return real(self, sql, *values)

    with (
        patch.object(MemoryFile, 'rows', rows),
        pytest.warns(UserWarning, match='a reply was not recorded: .*disk I/O error'),
    ):
        call = lm.call(TOLD, text='second')
    assert call.reply.text == 'two' and call.usage.calls == 1


def test_a_record_refuses_the_file_of_a_memory_and_leaves_it_as_it_is(tmp_path):
    path = tmp_path / 'file'
    bank_with_a_secret(path).close()
    before = path.read_bytes()
    with pytest.raises(RecordError, match='replies'):
        RecordedLM(ScriptedLM([]), path)
    assert path.read_bytes() == before and os.listdir(tmp_path) == ['file']
