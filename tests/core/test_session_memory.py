"""Memories made of sessions: one state for any history, and a file that is as before or as after, whatever strikes."""

import contextlib
import os
import re
import shutil
import signal
import sqlite3
import tempfile
import time
from collections import Counter
from datetime import datetime
from functools import partial
from pathlib import Path

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from fakes import Letters
from memnb.core.conversation import Session, Turn
from memnb.core.conversation import ChatError
from memnb.retrieval.hybrid import HybridIndex
from memnb.core.storage import MemoryFileError
from memnb.core.roles import Usage
from memnb.core.storage import session_digest, DuplicateSession, SessionMemory, UnknownSession
from memnb.core.conversation import Snippet
from strikes import Struck, forked, kill, needs_fork, saved, watched

NAMES = 'Ana Ben Cleo Dov Edda'.split()
WORDS = NAMES + 'boat sea red blue sail'.split()


class Names(SessionMemory):
    """Which names are said in which sessions; and each turn in an index, with a vector."""

    kind = 'names'

    def __init__(self, least=1, embedder=None, lm=None):
        super().__init__()
        self.least, self.lm, self.said = least, lm, {}
        self.index = HybridIndex(embedder or Letters())

    model = property(lambda self: self.index.dense.model)

    def extract(self, session):
        if self.lm is not None:
            self.lm(session)
        texts = {turn.id: turn.text for turn in session.turns}
        names = Counter(name for text in texts.values() for name in re.findall(r'[A-Z]\w+', text))
        return {'names': dict(names), 'texts': texts}, {'names': Usage(1, len(session.turns), 1)}

    def put(self, name, session_id, times):
        self.said.setdefault(name, {})[session_id] = times

    def drop(self, name, session_id):
        del self.said[name][session_id]
        if not self.said[name]:
            del self.said[name]

    def changes(self, session_id, extract, vectors):
        turns = [Snippet(id, text) for id, text in extract['texts'].items()]
        yield partial(self.index.add, turns, vectors), partial(self.index.remove, extract['texts'])
        for name, times in extract['names'].items():
            yield partial(self.put, name, session_id, times), partial(self.drop, name, session_id)

    def counts(self):
        return {'names': len(self.said), 'turns': len(self.index)}

    def vectors(self, session_id, extract):
        return {id: self.index.dense.vector(id) for id in extract['texts']}

    def settings(self):
        return {'least': self.least}

    def state(self):
        """All that can be seen of it."""
        found = [[(hit.snippet.id, hit.score) for hit in self.index.search(query, 50)] for query in ('boat Ana', 'sea')]
        rows = {one.id: self.index.dense.vector(one.id).tobytes() for one in self.index}
        return self.sessions, self.said, found, rows, self.usage, {id: self.extract_of(id) for id in self.sessions}


def session(id, texts, first=1):
    """A session with turns id:1, id:2, …"""
    return Session(
        id, [Turn(f'{id}:{place}', 'Ana', text) for place, text in enumerate(texts, first)], datetime(2024, 1, 1)
    )


def built(sessions, **options):
    memory = Names(**options)
    for one in sessions:
        memory.add(one)
    return memory


texts = st.lists(st.lists(st.sampled_from(WORDS), max_size=5).map(' '.join), max_size=4)
SOME = [session(f'D{n}', [f'{NAMES[n % 5]} and {NAMES[n % 3]} in a {WORDS[5 + n % 5]}'] * (n % 4)) for n in range(1, 9)]


@pytest.fixture
def path(tmp_path):
    return tmp_path / 'memory?#%41.db'


# ---- one state for any history -------------------------------------------------------------------------------------------


def test_what_is_there_costs_nothing_and_another_under_its_id_is_refused():
    asked = []
    memory = built(SOME, lm=asked.append)
    before = memory.state()
    memory.add(Session('D2', SOME[1].turns, SOME[1].time))
    assert len(asked) == len(SOME)
    for other in (
        session('D2', ['other']),
        Session('D2', SOME[1].turns, None),
        Session('D2', SOME[1].turns[:-1], SOME[1].time),
    ):
        with pytest.raises(DuplicateSession, match=r"another session 'D2' is there: forget\('D2'\) first"):
            memory.add(other)
    with pytest.raises(DuplicateSession, match="turn 'D1:1' of session 'E' is there already, in session 'D1'"):
        memory.add(Session('E', [Turn('E:1', 'Ana', 'hello'), SOME[0].turns[0]]))
    with pytest.raises(DuplicateSession, match="session 'E' has a turn id twice: 'E:2'"):
        memory.add(Session('E', [Turn(id, 'Ana', 'hello') for id in ('E:1', 'E:2', 'E:3', 'E:2')]))
    with pytest.raises(ChatError, match="expected a list of messages, got 'D9'"):
        memory.add('D9')
    assert memory.state() == before and len(asked) == len(SOME) and 'E' not in memory
    memory.forget('D1')
    memory.add(Session('E', SOME[0].turns))
    assert 'E' in memory and 'D1' not in memory


@pytest.mark.parametrize('failing', range(1, 4))
@pytest.mark.parametrize('change', ['put', 'drop'])
def test_even_ctrl_c_between_two_changes_changes_nothing(change, failing, monkeypatch):
    memory, more = built([session('D1', ['Ana met Ben', 'Cleo'])]), session('D2', ['Ben met Cleo and Dov'])
    before, real, calls = memory.state(), getattr(Names, change), []

    def interrupted(*given):
        calls.append(given)
        if len(calls) == failing:
            raise KeyboardInterrupt
        real(*given)

    monkeypatch.setattr(Names, change, interrupted)
    with pytest.raises(KeyboardInterrupt):
        memory.add(more) if change == 'put' else memory.forget('D1')
    monkeypatch.undo()
    assert memory.state() == before
    memory.add(more)
    memory.forget('D1')
    assert memory.state() == built([more]).state()


def test_forgetting_counts_what_rested_on_a_session_alone():
    memory = built([session('D1', ['Ana met Ben', 'boat']), session('D2', ['Ben met Cleo'])])
    assert memory.forget('D1') == {'names': 1, 'turns': 2}
    assert sorted(memory.said) == ['Ben', 'Cleo']
    with pytest.raises(UnknownSession, match="^no session 'D1' among the 1 of this Names$"):
        memory.forget('D1')
    with pytest.raises(KeyError):
        memory.extract_of('D1')
    assert memory.forget('D2') == {'names': 2, 'turns': 1}
    assert memory.state() == Names().state()


def test_an_extract_can_be_kept_without_a_session(path):
    mine = {'names': {'Ana': 2}, 'texts': {'f1': 'Ana Ana'}}
    memory = built(SOME[:2])
    memory.keep('facts', mine)
    memory.keep('facts', dict(mine))
    assert memory.said['Ana']['facts'] == 2 and memory.usage == built(SOME[:2]).usage
    with pytest.raises(DuplicateSession, match="'facts'"):
        memory.keep('facts', {'names': {}, 'texts': {}})
    with pytest.raises(DuplicateSession, match="'facts'"):
        memory.add(session('facts', ['hello']))
    memory.keep('by digest', {'names': {}, 'texts': {}}, 'v1')
    with pytest.raises(DuplicateSession):
        memory.keep('by digest', {'names': {}, 'texts': {}}, 'v2')
    memory.save(path)
    again = Names.load(path)
    again.keep('facts', mine)
    assert again.state() == memory.state()
    again.forget('facts')
    again.keep('more', mine)


@pytest.mark.parametrize('id', [3, None])
def test_what_is_kept_has_a_text_for_an_id(id):
    memory = built(SOME[:1])
    before = memory.state()
    with pytest.raises(TypeError, match='keep: expected a session id'):
        memory.keep(id, {'names': {}, 'texts': {}})
    assert memory.state() == before


def test_usage_is_added_by_role_and_is_that_of_what_is_there(path):
    memory = built(SOME)
    assert memory.usage == {'names': Usage(8, sum(len(one.turns) for one in SOME), 8)}
    memory.save(path)
    again = Names.load(path)
    assert again.usage == memory.usage
    again.forget('D3')
    assert again.usage['names'].calls == 7
    assert Names().usage == {}


# ---- the file ------------------------------------------------------------------------------------------------------------


def writes(log):
    return Counter(
        ' '.join(sql.split()[:3]) for sql in log if sql.split()[0] in ('INSERT', 'DELETE', 'CREATE', 'VACUUM')
    )


def test_only_what_is_new_is_written(path):
    memory = built(SOME[:5])
    memory.save(path)
    bytes_before = path.read_bytes()
    with watched() as log:
        memory.save(path)
    assert not writes(log) and path.read_bytes() == bytes_before
    memory = Names.load(path)
    with watched() as log:
        memory.save(path)
    assert not writes(log) and path.read_bytes() == bytes_before
    memory.add(SOME[5])
    with watched() as log:
        memory.save(path)
    assert writes(log) == {'INSERT INTO sessions': 1, 'INSERT OR REPLACE': 1}
    memory.least = 7
    with watched() as log:
        memory.save(path)
    assert writes(log) == {'INSERT OR REPLACE': 2} and Names.load(path).least == 7
    memory.forget('D2')
    with watched() as log:
        memory.save(path)
    assert (
        writes(log)['DELETE FROM sessions'] == 1
        and writes(log)['INSERT INTO sessions'] == 0
        and writes(log)['VACUUM'] == 1
    )
    assert Names.load(path).state() == memory.state()
    assert [one.name for one in path.parent.iterdir()] == [path.name]


def test_the_same_session_with_another_extract_is_written_again(path):
    built(SOME[:3]).save(path)
    other = built(SOME[:2])
    other.keep('D3', {'names': {'Zoe': 1}, 'texts': {}}, session_digest(SOME[2]))
    other.save(path, overwrite=True)
    assert Names.load(path).state() == other.state()


def save_and_die(memory, path, number):
    with watched(number, kill):
        memory.save(path, overwrite=True)
    os._exit(0)


@needs_fork
def test_a_process_killed_after_any_statement_leaves_the_file_before_or_after(path):
    before, after = built(SOME[:3]), built(SOME[2:5])
    states, seen = {'before': before.state(), 'after': after.state()}, Counter()
    for number in range(1, 200):
        shutil.rmtree(path.parent)
        path.parent.mkdir()
        before.save(path)
        process = forked(save_and_die, after, path, number)
        process.join()
        state = Names.load(path).state()
        seen[next(name for name in states if states[name] == state)] += 1
        if process.exitcode == 0:
            break
        assert process.exitcode == -signal.SIGKILL
    assert seen['before'] > 10 and seen['after'] > 1


def save_for_ever(memories, path, pause=0):
    while True:
        for memory in memories:
            memory.save(path, overwrite=True)
            time.sleep(pause)


MANY = [session(f'D{n}', [f'{NAMES[n % 5]} {n} sail'] * 12) for n in range(40)]


@needs_fork
def test_another_process_reads_meanwhile(path):
    memories = built(MANY[:30]), built(MANY[10:])
    states, seen = [memory.state() for memory in memories], Counter()
    memories[0].save(path)
    process = forked(save_for_ever, memories, path, 0.01)
    try:
        for _ in range(12):
            seen[states.index(Names.load(path).state())] += 1
    finally:
        process.kill()
        process.join()
    assert sum(seen.values()) == 12


def gone_words(path, *words):
    """Those of the words that some file in the folder still holds."""
    data = b''.join(one.read_bytes() for one in path.parent.iterdir())
    return [word for word in words if word.encode() in data]


def test_a_file_that_was_not_swept_is_swept_when_it_is_opened(path):
    memory = built([session(f'id{n:09}', [f'Secret{n} boat']) for n in range(40)])
    memory.save(path)
    for n in range(0, 40, 3):
        memory.forget(f'id{n:09}')
    number = 1
    while True:  # strike right after the commit
        with watched(number) as log:
            with pytest.raises(Struck):
                memory.save(path)
        if saved(log):
            break
        number += 1
    with watched() as log:
        assert Names.load(path).state() == memory.state()
    assert writes(log) == {'VACUUM': 1, 'DELETE FROM memory': 1}
    assert not gone_words(path, 'Secret0 ', 'Secret3 ', 'id000000039')


def test_a_save_that_is_struck_anywhere_is_no_conflict_for_the_next(path):
    memory = built(SOME[:3])
    memory.save(path)
    for number in range(1, 30):
        for change in (lambda: memory.add(SOME[4]), lambda: memory.forget('D5')):
            change()
            with watched(number), contextlib.suppress(Struck):
                memory.save(path)
    memory.save(path)
    assert Names.load(path).state() == memory.state() == built(SOME[:3]).state()


# ---- files that are none -------------------------------------------------------------------------------------------------


class Others(Names):
    kind = 'others'


def test_other_files_are_refused_by_name_and_left_alone(path):
    with pytest.raises(MemoryFileError, match=re.escape(f'{path}: there is no such file')):
        Names.load(path)
    assert not path.exists()
    path.write_bytes(b'')
    with pytest.raises(MemoryFileError, match='empty; nothing was saved'):
        Names.load(path)
    for content in (b'some text, no SQLite at all, and long enough to have a head ' * 20, b'x'):
        path.write_bytes(content)
        for attempt in (Names.load, built(SOME).save):
            with pytest.raises(MemoryFileError, match=re.escape(str(path))):
                attempt(path)
        assert path.read_bytes() == content
    path.unlink()
    connection = sqlite3.connect(path)
    connection.execute('CREATE TABLE mine (x)')
    connection.close()
    content = path.read_bytes()
    for attempt in (Names.load, built(SOME).save):
        with pytest.raises(MemoryFileError, match='an SQLite file, but not of a memory'):
            attempt(path)
    assert path.read_bytes() == content
    for attempt in (Names.load, built(SOME).save):
        with pytest.raises(MemoryFileError, match=re.escape(str(path.parent))):
            attempt(path.parent)
    with pytest.raises(MemoryFileError, match='No such file'):
        built(SOME).save(path.parent / 'no' / 'such')


def test_another_kind_or_a_newer_format_is_refused(path):
    built(SOME).save(path)
    content = path.read_bytes()
    for attempt in (Others.load, Others().save):
        with pytest.raises(MemoryFileError, match="expected a memory of kind 'others', found 'names'; in Python"):
            attempt(path)
    connection = sqlite3.connect(path)
    connection.execute('PRAGMA user_version = 3')
    connection.close()
    for attempt in (Names.load, built(SOME).save):
        with pytest.raises(MemoryFileError, match='a newer version of memnb .format 3, this one reads 2.'):
            attempt(path)
    connection = sqlite3.connect(path)
    connection.execute('PRAGMA user_version = 2')
    connection.close()
    assert len(path.read_bytes()) == len(content) and Names.load(path).state() == built(SOME).state()


@pytest.mark.parametrize(
    'damage, message',
    [
        (
            "UPDATE sessions SET record = replace(record, 'Ana', 'Eve') WHERE id = 'D5'",
            "damaged: session 'D5' is not as it was written",
        ),
        ("UPDATE sessions SET id = 'D33' WHERE id = 'D3'", "session 'D33'"),
        ("UPDATE sessions SET record = x'00ff' WHERE id = 'D3'", "session 'D3'"),
        ("UPDATE sessions SET vectors = zeroblob(24) WHERE id = 'D3'", "session 'D3'"),
        ("DELETE FROM sessions WHERE id = 'D4'", 'its settings or its list of sessions'),
        ("UPDATE memory SET value = '{}' WHERE name = 'head'", 'its settings'),
        ("DELETE FROM memory WHERE name = 'head'", 'nothing was saved'),
        ("DELETE FROM memory WHERE name = 'checksum'", 'its settings'),
        ('DROP TABLE sessions', 'damaged: its tables are others'),
    ],
)
def test_damage_is_found_and_named(path, damage, message):
    built(SOME).save(path)
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute(damage)
    connection.close()
    with pytest.raises(MemoryFileError, match=message) as error:
        Names.load(path)
    assert str(error.value).startswith(f'{path}: ')


def test_an_extract_that_the_subclass_cannot_read_is_named(path):
    class Newer(Names):
        def extract_from_json(self, value):
            return value['relations']

    built(SOME).save(path)
    with pytest.raises(MemoryFileError, match=r"memory.*: session 'D1': KeyError: 'relations'"):
        Newer.load(path)


def test_an_extract_that_is_no_json_leaves_the_file_alone(path):
    memory = built(SOME[:2])
    memory.save(path)
    content = path.read_bytes()
    for value, error in ((float('nan'), ValueError), ({1, 2}, TypeError)):
        broken = built(SOME[:3])
        broken.keep('facts', {'names': {'Ana': value}, 'texts': {}}, 'digest')
        with pytest.raises(error):
            broken.save(path, overwrite=True)
    assert path.read_bytes() == content


def test_vectors_of_another_model_are_not_taken(path):
    memory = built(SOME)
    memory.save(path)
    other = Letters('other', 'inds')
    with pytest.raises(MemoryFileError, match="its vectors are of 'letters', and this memory embeds by 'other'"):
        Names.load(path, embedder=other)
    again = Names.load(path, embedder=other, embed_anew=True)
    anew = built(SOME, embedder=other)
    assert again.state() == anew.state() != memory.state()
    again.save(path)
    with pytest.raises(MemoryFileError, match="of 'other'"):
        Names.load(path)
    assert Names.load(path, embedder=Letters('other', 'inds')).state() == anew.state()


# ---- any history, against a plain dict -----------------------------------------------------------------------------------


class History(RuleBasedStateMachine):
    """Adding, forgetting, saving, opening and being struck in any order; the model is two dicts of sessions."""

    def __init__(self):
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / 'memory'
        self.memory, self.now, self.saved = Names(), {}, None

    def teardown(self):
        self.folder.cleanup()

    @rule(number=st.integers(1, 6), said=texts)
    def add(self, number, said):
        one = session(f'D{number}', said)
        if self.now.get(one.id, one) == one:
            self.memory.add(one)
            self.now[one.id] = one
        else:
            with pytest.raises(DuplicateSession):
                self.memory.add(one)

    @rule(number=st.integers(1, 6))
    def forget(self, number):
        id = f'D{number}'
        if id in self.now:
            self.memory.forget(id)
            del self.now[id]
        else:
            with pytest.raises(UnknownSession):
                self.memory.forget(id)

    @rule()
    def save(self):
        self.memory.save(self.path)
        self.saved = dict(self.now)

    @rule(number=st.integers(1, 30))
    def be_struck_while_saving(self, number):
        with watched(number) as log:
            try:
                self.memory.save(self.path)
            except Struck:
                pass
        if saved(log):
            self.saved = dict(self.now)

    @precondition(lambda self: self.saved is not None)
    @rule()
    def die_and_open(self):
        embedder = Letters()
        self.memory, self.now = Names.load(self.path, embedder=embedder), dict(self.saved)
        assert embedder.asked == 0

    @invariant()
    def is_as_if_built_from_what_is_there(self):
        assert self.memory.sessions == tuple(sorted(self.now))
        assert self.memory.state() == built(self.now.values()).state()


History.TestCase.settings = settings(max_examples=20, stateful_step_count=12)
test_history = History.TestCase
