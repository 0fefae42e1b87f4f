"""The store of an assistant's turns, against a dictionary; with two openers, in threads, and struck or killed after every statement."""

import os
import sqlite3
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import Bundle, invariant, rule, RuleBasedStateMachine
from strikes import forked, kill, needs_fork, strike, Struck, watched, Watched

from memnb.adapters.turn_store import TurnStore
from memnb.core.conversation import Conversation, Snippet, UnknownTurn
from memnb.core.storage import MemoryFileError
from memnb.core.time import TimeSpan
from memnb.retrieval.hybrid import HybridIndex

TEXTS = st.sampled_from(
    ['the red concertina', 'a red canoe', 'my niece came', 'żółw and 亀 🐢', 'a\0b', "'); DROP TABLE turns; --", 'T1']
)
SPEAKERS = st.sampled_from(['', 'Tobin', 'Zofia'])
MOMENTS = st.sampled_from(
    [None, datetime(2024, 5, 8, 14, 30), datetime(2024, 5, 8), datetime(2023, 12, 31, 23, 59, 59, 5)]
)


def snippet(id, speaker, text, said):
    """What a turn is to be, written without the store."""
    day = said and TimeSpan.day(said.date())
    return Snippet(id, text, (id,), day, speaker or None, said, f'{said:%Y-%m-%d}' if said else 'undated', int(id[1:]))


def bytes_of(path):
    """Everything that stands in the file and beside it."""
    return b''.join(one.read_bytes() for one in path.parent.iterdir() if one.name.startswith(path.name))


class Stores(RuleBasedStateMachine):
    """Two openers of one file, and a dictionary that is told the same."""

    ids = Bundle('ids')

    def __init__(self):
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / 'turns.sqlite'
        self.stores = [TurnStore(self.path), TurnStore(self.path)]
        self.oracle, self.ever = {}, set()

    @rule(target=ids, which=st.booleans(), text=TEXTS, speaker=SPEAKERS, said=MOMENTS)
    def remember(self, which, text, speaker, said):
        turn = self.stores[which].remember(text, speaker, said)
        assert (turn.speaker, turn.text, turn.time) == (speaker, text, said)
        assert turn.id not in self.ever  # also of those that were forgotten
        self.ever.add(turn.id)
        self.oracle[turn.id] = snippet(turn.id, speaker, text, said)
        return turn.id

    @rule(
        which=st.booleans(),
        chosen=st.one_of(
            st.lists(ids, max_size=2), st.lists(st.one_of(ids, st.sampled_from(['T0', 'T01', 'x', '1'])), max_size=3)
        ),
        session=st.sampled_from([None, None, None, '2024-05-08', '2023-12-31', 'undated', '', '2024']),
    )
    def forget(self, which, chosen, session):
        of_day = {id for id, one in self.oracle.items() if one.session == session}
        if not set(chosen) <= set(self.oracle) or session is not None and not of_day:
            with pytest.raises(UnknownTurn, match='nothing was forgotten'):
                self.stores[which].forget(chosen, session)
        else:
            gone = self.stores[which].forget(chosen, session)
            assert len(gone) == len({one.id for one in gone})
            assert {one.id: one for one in gone} == {id: self.oracle.pop(id) for id in {*chosen, *of_day}}

    @rule(
        query=st.sampled_from(['red', 'Tobin: niece', '亀', 'T1', '']),
        k=st.integers(0, 6),
        exclude=st.frozensets(ids, max_size=2),
        during=st.sampled_from([None, TimeSpan.year(2024), TimeSpan.year(1999)]),
    )
    def search(self, query, k, exclude, during):
        fresh = HybridIndex(names=sorted({one.speaker for one in self.oracle.values() if one.speaker}))
        fresh.add(self.oracle.values())
        for store in self.stores:  # both followed what either has done
            assert store.search(query, k, exclude=exclude, during=during) == fresh.search(
                query, k, exclude=exclude, during=during
            )

    @rule(which=st.booleans())
    def open_again(self, which):
        self.stores[which].close()
        self.stores[which] = TurnStore(self.path)

    @invariant()
    def both_hold_the_same(self):
        expected = [self.oracle[id] for id in sorted(self.oracle, key=lambda id: int(id[1:]))]
        for store in self.stores:
            assert store.turns(self.ever) == expected
            turns = [turn for session in store.conversation().sessions for turn in session.turns]
            assert {turn.id: (turn.speaker, turn.text, turn.time) for turn in turns} == {
                one.id: (one.speaker or '', one.text, one.said) for one in expected
            }

    def teardown(self):
        for store in self.stores:
            store.close()
        self.folder.cleanup()


TestStores = Stores.TestCase
TestStores.settings = settings(max_examples=25, stateful_step_count=20)


# ------------------------------------------------------------------ what is kept, whatever happens


def work(path, said):
    """Remember five turns and forget two; `said` hears what has been acknowledged."""
    store = TurnStore(path)
    for text in ('one', 'two', 'three'):
        said(store.remember(text).id)
    said([one.id for one in store.forget(['T1', 'T3'])])
    for text in ('four', 'five'):
        said(store.remember(text).id)
    store.close()


STATES = [
    {},
    {'T1': 'one'},
    {'T1': 'one', 'T2': 'two'},
    {'T1': 'one', 'T2': 'two', 'T3': 'three'},
    {'T2': 'two'},
    {'T2': 'two', 'T4': 'four'},
    {'T2': 'two', 'T4': 'four', 'T5': 'five'},
]


def state_of(path):
    """What the file holds, as whoever comes next sees it."""
    with closing(TurnStore(path)) as store:
        return {turn.id: turn.text for turn in store.conversation().turns}


def count(tmp_path):
    """How many statements the work takes."""
    with watched() as log:
        work(tmp_path / 'whole.sqlite', lambda word: None)
    return len(log)


@needs_fork
def test_a_process_that_is_killed_anywhere_loses_nothing_that_it_acknowledged(tmp_path):
    for number in range(1, count(tmp_path) + 1):
        path, heard = tmp_path / f'{number}.sqlite', tmp_path / f'{number}.heard'

        def child():
            with watched(number, kill):
                work(path, lambda word: os.write(os.open(heard, os.O_WRONLY | os.O_CREAT | os.O_APPEND), b'.'))

        process = forked(child)
        process.join()
        assert process.exitcode == -9
        acknowledged = len(heard.read_bytes()) if heard.exists() else 0
        found = state_of(path)
        assert found in STATES[acknowledged : acknowledged + 2], (number, acknowledged, found)
        if 'T3' not in found and 'T2' in found and STATES.index(found) > 3:
            assert b'three' not in bytes_of(path), number  # who opens it next sweeps


def test_a_store_that_is_struck_anywhere_goes_on(tmp_path):
    for number in range(1, count(tmp_path) + 1):
        path, acknowledged = tmp_path / f'{number}.sqlite', []
        with watched(number, strike):
            with pytest.raises(Struck):
                work(path, acknowledged.append)
        assert state_of(path) in STATES[len(acknowledged) : len(acknowledged) + 2], number
    with closing(TurnStore(tmp_path / 'same.sqlite')) as store:
        store._file.close()
        with watched():
            store._file._file = sqlite3.connect(store.path, isolation_level=None)
            Watched.log.clear()
            Watched.strike_at, Watched.strike = 2, staticmethod(strike)  # after BEGIN and INSERT
            with pytest.raises(Struck):
                store.remember('lost')
            Watched.strike_at = None
        assert store.remember('kept').id == 'T1' and len(store.search('kept')) == 1


def test_what_is_forgotten_leaves_no_byte_behind(tmp_path):
    path = tmp_path / 'turns.sqlite'
    with closing(TurnStore(path)) as store, closing(TurnStore(path)) as other:
        for number in range(300):
            store.remember(f'word{number} ' * 20, 'Tobin', datetime(2024, 5, 1 + number % 28))
        assert b'word17 ' in bytes_of(path) and other.search('word17')
        store.forget(['T18'])
        assert b'word17 ' not in bytes_of(path)
        other.forget(session='2024-05-05')
        assert b'word4 ' not in bytes_of(path) and b'word5 ' in bytes_of(path)
        assert [hit.snippet.id for hit in store.search('word17', 300) if hit.snippet.id in ('T18', 'T5')] == []


@needs_fork
def test_processes_share_a_file(tmp_path):
    path = tmp_path / 'turns.sqlite'

    def child(name):
        with closing(TurnStore(path)) as store:
            mine = [store.remember(f'{name} {number}', name).id for number in range(15)]
            store.forget(mine[5:7])

    children = [forked(child, name) for name in ('Ann', 'Ben', 'Cas', 'Dot')]
    for process in children:
        process.join()
        assert process.exitcode == 0
    with closing(TurnStore(path)) as store:
        turns = store.conversation().turns
        assert len(turns) == len({turn.id for turn in turns}) == 4 * 13
        for name in ('Ann', 'Ben', 'Cas', 'Dot'):  # in the order of their process
            assert [turn.text for turn in turns if turn.speaker == name] == [
                f'{name} {n}' for n in range(15) if n not in (5, 6)
            ]


def test_threads_share_a_store(tmp_path):
    with closing(TurnStore(tmp_path / 'turns.sqlite')) as store:

        def busy(name):
            mine = [store.remember(f'{name} {number}', name).id for number in range(10)]
            assert {hit.snippet.id for hit in store.search(name, 100)} >= set(mine)
            return [one.id for one in store.forget(mine[:2])]

        with ThreadPoolExecutor(6) as threads:
            gone = {id for ids in threads.map(busy, [f'name{number}' for number in range(6)]) for id in ids}
        left = {f'T{number}' for number in range(1, 61)} - gone
        assert len(gone) == 12 and {turn.id for turn in store.conversation().turns} == left
        assert {hit.snippet.id for hit in store.search('name1', 100)} == left


def test_a_word_that_no_turn_has_is_named(tmp_path):
    with TurnStore(tmp_path / 'turns') as store:
        store.remember('We sold two kayaks.')
        assert store.remark_on('swap kayaks') == ' (nowhere in the memory: swap)'


def test_a_conversation_is_stored_once(tmp_path):
    def talk(*texts):
        return Conversation.of(
            'talk',
            [
                (None, [('Ada', text) for text in texts[:1]]),
                (datetime(2024, 5, 8), [('Ben', text) for text in texts[1:]]),
            ],
        )

    with closing(TurnStore(tmp_path / 'turns.sqlite')) as store:
        gone = store.remember('gone')
        assert [one.id for one in store.remember_all(talk('hi', 'ok', 'ok'))] == [
            'T2',
            'T3',
            'T4',
        ]  # said twice, kept twice
        assert (
            store.remember_all(talk('hi', 'ok', 'ok'))
            == store.remember_all(talk('hi', 'ok'))
            == store.remember_all(talk())
            == []
        )
        store.forget([gone.id, 'T4'])
        assert [(one.id, one.text) for one in store.remember_all(talk('hi', 'ok', 'ok', 'new'))] == [
            ('T5', 'ok'),
            ('T6', 'new'),
        ]  # T4 is never used again
        assert store.remember('last', 'Ben').id == 'T7'
        assert [(one.id, one.session, one.speaker) for one in store.turns(['T2', 'T3'])] == [
            ('T2', 'undated', 'Ada'),
            ('T3', '2024-05-08', 'Ben'),
        ]
        assert {hit.snippet.id for hit in store.search('ok', 10)} == {'T2', 'T3', 'T5', 'T6', 'T7'}


def test_a_conversation_is_stored_whole_or_not_at_all(tmp_path):
    talk, path = Conversation.of('talk', [(None, [('Ada', 'one'), ('Ada', 'two')])]), tmp_path / 'turns.sqlite'
    TurnStore(path).close()
    with watched() as log:
        TurnStore(path).remember_all(talk)
    for number in range(1, len(log) + 1):
        path = tmp_path / f'{number}.sqlite'
        TurnStore(path).close()
        with watched(number, strike), pytest.raises(Struck):
            TurnStore(path).remember_all(talk)
        with closing(TurnStore(path)) as store:
            assert len(store.conversation().turns) in (0, 2), number


# ------------------------------------------------------------------ what is refused


def test_a_full_disk_is_said_and_nothing_is_lost(tmp_path):
    with closing(TurnStore(tmp_path / 'turns.sqlite')) as store:
        store.remember('small')
        store._file.rows('PRAGMA max_page_count = 1')  # SQLite makes it the number of pages that there are
        with pytest.raises(MemoryFileError, match='full'):
            store.remember('large ' * 10_000)
        assert [turn.text for turn in store.conversation().turns] == ['small']
        store._file.rows('PRAGMA max_page_count = 100000')
        assert store.remember('large ' * 10_000).id == 'T2'


@pytest.mark.parametrize(
    'wrong', [dict(text=None), dict(text=b'x'), dict(text='x', speaker=None), dict(text='x', said='2024')]
)
def test_turns_of_other_types_are_refused(wrong, tmp_path):
    with closing(TurnStore(tmp_path / 'turns.sqlite')) as store:
        with pytest.raises(ValueError, match='expected'):
            store.remember(**wrong)
        assert store.conversation().turns == ()


@pytest.mark.parametrize('change', ['{"Ada": "Be', '{"Tobin": "Zofia"}', '[' * 9000, '', b'{}'])
def test_the_names_of_speakers_are_sealed(change, tmp_path):
    path = tmp_path / 'turns.sqlite'
    with TurnStore(path) as store:
        store.remember('the red concertina', 'Tobin')
    with closing(sqlite3.connect(path)) as file, file:
        [(value,)] = file.execute("SELECT value FROM memory WHERE name = 'names'")
        changed = change if isinstance(change, bytes) else value[:16] + change
        file.execute("UPDATE memory SET value = ? WHERE name = 'names'", [changed])
    with TurnStore(path) as store:
        for write in (lambda: store.remember('a red canoe', 'Zofia'), lambda: store.forget(['T1'])):
            with pytest.raises(MemoryFileError, match='turns.sqlite: the names of the speakers are damaged'):
                write()
