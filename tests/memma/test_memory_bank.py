"""The memory bank against whole states kept in lists; and a file that is as before or as after, whoever reads it and whatever strikes."""

import os
import signal
import sqlite3
import tempfile
from contextlib import closing, contextmanager, suppress
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from memnb.memma.bank import (
    _CHANGE,
    _entry_key,
    _Extent,
    _id_order,
    Change,
    DuplicateEntry,
    Edit,
    Entry,
    IndexStore,
    Journal,
    MemoryBank,
    NothingToUndo,
    Receipt,
    replay,
    UnknownEntry,
)
from memnb.core.retriever import passes
from memnb.retrieval.hybrid import HybridIndex
from memnb.core.storage import ConflictError, MemoryFileError
from memnb.core.conversation import Session, Snippet, Turn
from memnb.memma.loop import MemMA
from memnb.core.time import TimeSpan
from strikes import Struck, count_anew, forked, kill, needs_fork, strike, watched

WORDS = 'boat sea red blue sail'.split()
DAYS = (
    None,
    TimeSpan.day(date(2024, 5, 1)),
    TimeSpan.day(date(2024, 10, 1)),
    TimeSpan(date(2024, 5, 1), date(2024, 5, 1), 'span'),
)
PEOPLE = (None, 'Ana', 'ana', 'Ben')
TURNS = ('D1:1', 'D1:2', 'D2:1', 'D2:10')
NOON = datetime(2024, 5, 1, 12)


class Shelf:
    """A foreign store: counts common words, returns entries. It may fail after it has done what it was asked."""

    def __init__(self):
        self.entries, self.failures = {}, 0

    @property
    def texts(self):
        return {id: entry.text for id, entry in self.entries.items()}

    def put(self, entries):
        for entry in entries:
            self.entries[entry.id] = entry
            self._fail()

    def remove(self, entry_id):
        self.entries.pop(entry_id, None)
        self._fail()

    def _fail(self):
        if self.failures:
            self.failures -= 1
            raise ConnectionError('the store is gone')

    def search(self, query, k=10):
        asked = set(query.lower().split())
        scored = [(entry, len(asked & set(entry.text.lower().split()))) for entry in self.entries.values()]
        return sorted(scored, key=lambda pair: (-pair[1], _id_order(pair[0].id)))[:k]


def words_only():
    return IndexStore(embedder=None)


def added(number, text='boat', *sources, **more):
    """A change that adds entry m<number>."""
    return Change(number, 'ADD', f'm{number}', Entry(f'm{number}', text, sources), number, evidence=sources, **more)


def rows_of(bank):
    """What a file has of a namespace, as it stands there."""
    rows = bank.journal._file.execute(
        'SELECT * FROM changes WHERE namespace = ? ORDER BY number', (bank.namespace,)
    ).fetchall()
    return rows, bank.journal.extent(bank.namespace)


def all_of(bank):
    """All that can be seen of a bank."""
    last = bank.journal.extent(bank.namespace).last
    return list(bank), [bank.as_of(number) for number in range(last + 1)], rows_of(bank), bank.search('red boat', 50)


@pytest.fixture
def path(tmp_path):
    return tmp_path / 'bank?#%41.db'


@contextmanager
def impatient():
    """Nobody waits for a lock for long."""
    real = sqlite3.connect
    with patch.object(sqlite3, 'connect', lambda *rest, **options: real(*rest, **{**options, 'timeout': 0.05})):
        yield


# ---- edits and changes ---------------------------------------------------------------------------------------------------

texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=2).map(' '.join)
ids = st.integers(1, 6).map('m{}'.format)
sources = st.lists(st.sampled_from(TURNS), max_size=2).map(tuple)
whens = st.none() | st.integers(0, 9).map(lambda number: NOON + timedelta(hours=8 * number))
some_edits = st.one_of(
    st.builds(
        Edit, st.just('ADD'), texts, time=st.sampled_from(DAYS), speaker=st.sampled_from(PEOPLE), sources=sources
    ),
    st.builds(
        Edit,
        st.just('UPDATE'),
        texts,
        ids,
        time=st.sampled_from(DAYS),
        speaker=st.sampled_from(PEOPLE),
        sources=sources,
    ),
    st.builds(Edit, st.just('DELETE'), entry=ids, sources=sources, reason=st.just('gone')),
    st.builds(Edit, st.just('NONE'), entry=st.none() | ids, sources=sources),
)
edit_lists = st.lists(some_edits, min_size=1, max_size=4)

anything = st.text(st.characters(exclude_categories=['Cs']), max_size=8)
spans = st.builds(
    lambda one, other, kind, label: TimeSpan(min(one, other), max(one, other), kind, label),
    st.dates(),
    st.dates(),
    st.sampled_from(['day', 'month', 'span']),
    st.none() | anything,
)
moments = st.datetimes(
    timezones=st.none() | st.integers(-720, 720).map(lambda minutes: timezone(timedelta(minutes=minutes)))
)
entries = st.builds(
    Entry,
    st.just('m1'),
    anything,
    st.lists(anything).map(tuple),
    st.none() | spans,
    st.none() | anything,
    st.none() | moments,
    st.none() | anything,
    st.none() | st.integers(0, 9),
)
changes = st.builds(
    Change,
    st.integers(1, 2**40),
    st.sampled_from(['ADD', 'UPDATE', 'DELETE', 'NONE', 'UNDO']),
    st.just('m1'),
    st.none() | entries,
    st.integers(1, 9),
    anything,
    st.lists(anything).map(tuple),
    st.none() | moments,
    st.none() | st.integers(1, 9),
)


@settings(max_examples=60)
@given(changes)
def test_a_change_goes_through_json_and_comes_back(change):
    again = _CHANGE.validate_json(_CHANGE.dump_json(change, exclude_defaults=True), strict=True)
    assert again == change
    assert again.after is None or again.after.time is None or again.after.time.label == change.after.time.label


@pytest.mark.parametrize(
    'fields',
    [
        dict(action='ADD'),
        dict(action='ADD', text=' \n'),
        dict(action='ADD', text='x', entry='m1'),
        dict(action='add', text='x'),
        dict(action='UPDATE', text='x'),
        dict(action='UPDATE', entry='m1'),
        dict(action='DELETE'),
        dict(action='ADD', text='half \ud83d'),
        dict(action='ADD', text='x', time='May'),
        dict(action='ADD', text='x', said='yesterday'),
        dict(action='ADD', text='x', sources='D1:1'),
    ],
)
def test_an_edit_that_cannot_be_meant_is_refused_at_once(fields):
    with pytest.raises(ValueError):
        Edit(**fields)


@given(texts, texts, st.sampled_from(DAYS), st.sampled_from(DAYS), st.sampled_from(PEOPLE), st.sampled_from(PEOPLE))
def test_entries_are_one_if_words_time_and_speaker_are(text, other, day, another, who, whom):
    one, two = Entry('m1', text, ('a',), day, who, NOON), Entry('m2', f' {other.upper()}\n', ('b',), another, whom)
    same = text == other and day == another and (who or '').lower() == (whom or '').lower()
    assert (_entry_key(one) == _entry_key(two)) is same


# ---- any history, against whole states in lists --------------------------------------------------------------------------


class Plain:
    """A namespace as a list of whole states: states[n] is what stood after change n."""

    def __init__(self):
        self.states, self.rows, self.given, self.steps = [{}], [], 0, []

    def copy(self):
        other = Plain()
        other.states, other.rows, other.given, other.steps = (
            list(self.states),
            list(self.rows),
            self.given,
            list(self.steps),
        )
        return other

    @property
    def now(self):
        return self.states[-1]

    @property
    def when(self):
        return self.rows[-1]['when'] if self.rows else None

    def note(self, action, id, after, evidence, when, reason=''):
        state = {other: entry for other, entry in self.now.items() if other != id}
        self.states.append({**state, id: after} if after else state)
        self.rows.append(
            dict(
                number=len(self.states) - 1,
                action=action,
                entry=id,
                after=after,
                evidence=evidence,
                when=when or self.when,
                reason=reason,
            )
        )

    def same_as(self, text, time, speaker):
        key = ' '.join(text.split()).lower(), time, (speaker or '').lower()
        return next(
            (
                id
                for id, one in self.now.items()
                if key == (' '.join(one['text'].split()).lower(), one['time'], (one['speaker'] or '').lower())
            ),
            None,
        )

    def edit(self, edit, when):
        action, id, fields = edit.action, edit.entry, dict(text=edit.text, time=edit.time, speaker=edit.speaker)
        reason, there = edit.reason, self.same_as(**fields) if action == 'ADD' else None
        if there:
            action, id, fields = (
                'UPDATE' if set(edit.sources) - set(self.now[there]['sources']) else 'NONE',
                there,
                dict(text=self.now[there]['text']),
            )
            reason = reason or 'it is there already'
        if action == 'ADD':
            self.given += 1
            id, after = f'm{self.given}', dict(fields, sources=edit.sources, said=when)
        elif id is not None and id not in self.now:
            raise UnknownEntry
        else:
            after = self.now.get(id)
        if action == 'UPDATE':
            before, merged = after, after['sources'] + tuple(one for one in edit.sources if one not in after['sources'])
            after = dict(after, **{name: value for name, value in fields.items() if value is not None}, sources=merged)
            if fields['text'] != before['text']:
                after['said'] = when or (None if edit.sources else before['said'])
                if (
                    edit.time is None
                    and after['said'] != before['said']
                    and before['said']
                    and before['time'] == TimeSpan.day(before['said'])
                ):
                    after['time'] = None
            if self.same_as(after['text'], after['time'], after['speaker']) not in (None, id):
                raise DuplicateEntry
        self.note(action, id, None if action == 'DELETE' else after, edit.sources, when, reason)
        return action, id

    def step(self, start):
        """All changes since are one transaction, which can be undone."""
        if rows := [row for row in self.rows[start:] if row['action'] != 'NONE']:
            self.steps.append(rows)

    def undo(self, when):
        if not self.steps:
            raise NothingToUndo
        rows = self.steps.pop()
        before, ids = self.states[rows[0]['number'] - 1], list(dict.fromkeys(row['entry'] for row in rows))
        for id in ids:
            self.note('UNDO', id, before.get(id), (), when)
        assert self.now == before
        return ids

    def forget(self, ids, turns):
        have = {row['entry'] for row in self.rows}
        if not ids <= have:
            raise UnknownEntry
        if turns:  # a reason without turns goes
            for row in self.rows:
                row['reason'] = row['reason'] if row['evidence'] else ''
        rested = [row for row in self.rows if turns & {*row['evidence'], *(row['after'] or {}).get('sources', ())}]
        gone, numbers = ids | {row['entry'] for row in rested} - {None}, {row['number'] for row in rested}
        left = [row for row in self.rows if row['entry'] not in gone and row['number'] not in numbers]
        receipt = sorted(gone, key=_id_order), len(self.rows) - len(left)
        if self.rows and not left:  # nothing stays of the namespace
            self.__init__()
            return receipt
        self.rows = left
        self.states = [{id: entry for id, entry in state.items() if id not in gone} for state in self.states]
        self.steps = [rows for step in self.steps if (rows := [row for row in step if row['entry'] not in gone])]
        return receipt

    def as_of(self, when):
        if isinstance(when, int):
            return self.states[min(when, len(self.states) - 1)]
        later = [row['number'] for row in self.rows if row['when'] and row['when'] > when]
        return self.states[min(later) - 1] if later else self.now


def plainly(found):
    """Entries of a bank as the model has them."""
    return {
        id: dict(text=one.text, time=one.time, speaker=one.speaker, sources=one.sources, said=one.said)
        for id, one in found.items()
    }


class Left(Exception):
    """How a transaction is left."""


FAULTS = (UnknownEntry, DuplicateEntry, NothingToUndo, ValueError)


class Banks(RuleBasedStateMachine):
    """Two open banks on each of two namespaces of one file, one with a foreign store, do anything in any order."""

    @initialize(in_memory=st.booleans())
    def begin(self, in_memory):
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / 'bank'
        self.models = {'ours': Plain(), 'theirs': Plain()}
        self.in_memory = in_memory
        self.open()

    def open(self):
        self.journals = [Journal()] * 2 if self.in_memory else [Journal(self.path), Journal(self.path)]
        self.banks = {
            (space, who): MemoryBank(self.journals[who], namespace=space, backend=(Shelf, words_only)[who])
            for space in self.models
            for who in (0, 1)
        }

    def teardown(self):
        if hasattr(self, 'folder'):
            for journal in self.journals:
                journal.close()
            self.folder.cleanup()

    @contextmanager
    def other_is_untouched(self, space):
        other = self.banks['theirs' if space == 'ours' else 'ours', 0]
        rows, extent = rows_of(other)
        before = rows, extent[:2], list(other)
        yield
        rows, extent = rows_of(other)  # the count of forgettings is the file's
        assert (rows, extent[:2], list(other)) == before

    def outcome(self, do):
        """What a call gives, or the kind of its error."""
        try:
            return do()
        except FAULTS as error:
            return next(kind for kind in FAULTS if isinstance(error, kind))

    where = dict(space=st.sampled_from(['ours', 'theirs']), who=st.sampled_from([0, 1]))

    def model_edits(self, model, edits, when):
        """The model after these edits, all or none, and what came of them."""
        trial, start = model.copy(), len(model.rows)
        did = [trial.edit(edit, when) for edit in edits]
        return trial, start, did

    @rule(edits=edit_lists, when=whens, **where)
    def apply(self, space, who, edits, when):
        def model():
            trial, start, did = self.model_edits(self.models[space], edits, when)
            trial.step(start)
            self.models[space] = trial
            return did

        expected = self.outcome(model)
        with self.other_is_untouched(space):
            assert (
                self.outcome(lambda: [(one.action, one.entry) for one in self.banks[space, who].apply(edits, when)])
                == expected
            )

    @rule(
        first=edit_lists,
        inner=edit_lists,
        last=edit_lists,
        fails=st.sampled_from(['inner', 'outer', 'no']),
        look=st.booleans(),
        **where,
    )
    def transaction(self, space, who, first, inner, last, fails, look):
        bank, trial, start = self.banks[space, who], self.models[space].copy(), len(self.models[space].rows)
        with self.other_is_untouched(space), suppress(Left):
            with bank.transaction():
                for edits, within in ((first, False), (inner, True), (last, False)):
                    before, expected = trial, self.outcome(lambda: self.model_edits(trial, edits, None))
                    try:
                        with bank.transaction():
                            found = self.outcome(lambda: bank.apply(edits))
                            if look:
                                bank.search('red boat')
                            if within and fails == 'inner':
                                raise Left
                    except Left:
                        expected = None
                    if isinstance(expected, tuple):
                        trial = expected[0]
                        assert [(one.action, one.entry) for one in found] == expected[2]
                    else:
                        assert expected is None or found == expected
                        trial = before
                    assert plainly({one.id: one for one in bank}) == trial.now
                if fails == 'outer':
                    raise Left
            trial.step(start)
            self.models[space] = trial

    @rule(mine=edit_lists, theirs=edit_lists, **where)
    def two_at_once(self, space, who, mine, theirs):
        """The one who comes second is told, and nothing of it is left; where nothing was staged, nothing is written."""
        slow, late = self.banks[space, who], False
        try:
            with slow.transaction():
                staged, before = self.outcome(lambda: slow.apply(mine)), list(slow)
                rows, model = len(self.models[space].rows), self.models[space]
                self.apply(space, 1 - who, theirs, None)
                late = isinstance(staged, list) and len(self.models[space].rows) > rows
                assert list(slow) == before
                if isinstance(staged, list) and not late:
                    raise Left
        except (ConflictError, Left) as error:
            assert isinstance(error, ConflictError) is late
            assert late or self.models[space] is model

    @rule(when=whens, **where)
    def undo(self, space, who, when):
        def model():
            trial = self.models[space].copy()
            undone = trial.undo(when)
            self.models[space] = trial
            return undone

        expected = self.outcome(model)
        with self.other_is_untouched(space):
            found = self.outcome(lambda: self.banks[space, who].undo(when=when))
        assert ([one.entry for one in found if one.action == 'UNDO'] if isinstance(found, list) else found) == expected

    @rule(ids=st.sets(ids, max_size=2), turns=st.sets(st.sampled_from(TURNS), max_size=1), **where)
    def forget(self, space, who, ids, turns):
        """Entries, and turns on which all versions of an entry rest; `test_ownership` has those of which some do."""
        rows = [row for row in self.models[space].rows if row['action'] != 'UNDO' and row['entry'] not in ids]
        resting = {row['entry'] for row in rows if turns & {*row['evidence']}} - {None}
        if any(row['entry'] in resting and not turns & {*row['evidence']} for row in rows):
            turns = set()
        expected = self.outcome(lambda: self.models[space].forget(ids, turns))
        with self.other_is_untouched(space):
            found = self.outcome(lambda: self.banks[space, who].forget(ids, turns=turns))
        if isinstance(expected, tuple):
            assert found == Receipt(space, tuple(expected[0]), expected[1])
        else:
            assert found == expected

    @precondition(lambda self: not self.in_memory)
    @rule()
    def reopen(self):
        for journal in self.journals:
            journal.close()
        self.open()

    @rule(
        failures=st.integers(0, 2),
        query=texts,
        k=st.integers(0, 9),
        exclude=st.sets(ids, max_size=2),
        during=st.sampled_from(DAYS),
        **where,
    )
    def search(self, space, who, failures, query, k, exclude, during):
        bank, fresh = self.banks[space, who], HybridIndex(None, spread=False, ranker=None) if who else Shelf()
        if not who:
            bank._store.failures = failures
            for _ in range(failures):
                with suppress(ConnectionError):
                    bank.search(query)
            bank._store.failures = 0
            for one in bank:
                fresh.put([one])
            expected = [
                (entry.id, score) for entry, score in fresh.search(query, 99) if passes(entry, exclude, during)
            ][:k]
        else:
            fresh.add(bank)
            expected = [(hit.snippet.id, hit.score) for hit in fresh.search(query, k, exclude=exclude, during=during)]
        found = bank.search(query, k, exclude=exclude, during=during)
        assert [(hit.snippet.id, hit.score) for hit in found] == expected
        assert all(hit.snippet is bank[hit.snippet.id] or hit.snippet == bank[hit.snippet.id] for hit in found)
        assert who or bank._store.texts == {one.id: one.text for one in bank}

    @rule(**where)
    def feed_back(self, space, who):
        """What was searched and is remembered once more changes no entry."""
        bank, model = self.banks[space, who], self.models[space]
        before = list(bank)
        for hit in bank.search('red boat', 50):
            one = hit.snippet
            self.apply(
                space,
                who,
                [Edit('ADD', one.text.upper(), time=one.time, speaker=one.speaker, sources=one.sources)],
                None,
            )
        assert list(bank) == before and len(model.now) == len(before)

    @rule(number=st.integers(0, 40), when=whens.filter(bool), **where)
    def look_back(self, space, who, number, when):
        bank, model = self.banks[space, who], self.models[space]
        assert plainly(bank.as_of(number)) == model.as_of(number) and plainly(bank.as_of(when)) == model.as_of(when)
        for id in {row['entry'] for row in model.rows} - {None}:
            expected = [
                (row['number'], row['action'], row['evidence'], row['when'], row['reason'])
                for row in model.rows
                if row['entry'] == id and row['action'] != 'UNDO'
            ]
            history = bank.history(id)
            assert [
                (one.number, one.action, one.evidence, one.when, one.reason) for one in history if one.action != 'UNDO'
            ] == expected
            assert bank.as_of(number).get(id) == next(
                (one.after for one in reversed(history) if one.number <= number), None
            )
        gone = {f'm{n}' for n in range(1, model.given + 2)} - {row['entry'] for row in model.rows}
        for id in gone:
            assert self.outcome(lambda: bank.history(id)) is UnknownEntry and id not in bank

    @invariant()
    def is_as_the_model(self):
        for (space, who), bank in getattr(self, 'banks', {}).items():
            model = self.models[space]
            assert plainly({one.id: one for one in bank}) == model.now and len(bank) == len(model.now)
            assert [one.id for one in bank] == sorted(model.now, key=lambda id: int(id[1:]))
            found = bank.journal.changes(space)
            assert [one.number for one in found] == [row['number'] for row in model.rows]
            assert list(replay(found).values()) == list(bank)
            assert (extent := bank.journal.extent(space)).last == len(
                model.states
            ) - 1 and extent.id_count == model.given
            assert len({_entry_key(one) for one in bank}) == len(bank) == len(bank._state.ids)


two_ids, two_texts, two_days = (
    st.sampled_from(['m1', 'm2']),
    st.sampled_from(['boat', 'sea']),
    st.sampled_from(DAYS[:2]),
)
steps = st.none() | st.one_of(
    st.builds(Edit, st.just('ADD'), two_texts, time=two_days, sources=sources),
    st.builds(Edit, st.just('UPDATE'), two_texts, two_ids, time=two_days, sources=sources),
    st.builds(Edit, st.just('DELETE'), entry=two_ids),
)


@settings(max_examples=200)
@given(st.lists(st.tuples(steps, whens), max_size=8))
def test_what_was_believed_at_any_time(history):
    """Edits, with None for an undo, at times in any order."""
    bank, model = MemoryBank(backend=Shelf), Plain()
    for edit, when in history:
        trial, start = model.copy(), len(model.rows)
        try:
            trial.undo(when) if edit is None else trial.edit(edit, when)
        except FAULTS as error:
            with pytest.raises(type(error)):
                bank.undo(when=when) if edit is None else bank.apply([edit], when)
        else:
            bank.undo(when=when) if edit is None else bank.apply([edit], when)
            model = trial
            if edit is not None:
                model.step(start)
    for hours in range(-24, 100, 4):
        when = NOON + timedelta(hours=hours)
        assert plainly(bank.as_of(when)) == model.as_of(when)


Banks.TestCase.settings = settings(max_examples=40, stateful_step_count=20)
test_banks = Banks.TestCase


# ---- forgetting ----------------------------------------------------------------------------------------------


def test_what_is_forgotten_is_in_no_file_no_state_no_index_and_no_other_bank(path):
    with MemoryBank(path, backend=Shelf) as bank, MemoryBank(path, backend=words_only) as other:
        bank.apply(
            [
                Edit('ADD', 'Secretly seasick', speaker='Secretary', sources=('Secret:1',), reason='a secret'),
                Edit('ADD', 'boat', sources=('D1:1',)),
            ]
        )
        bank.update('m1', 'Secret no more', sources=('D9:9',))
        bank.apply([Edit('NONE', sources=('Secret:1',), reason='secretive')])
        bank.delete('m1', reason='secrecy')
        bank.undo('secrets')
        assert bank.search('secret')[0].score == 1 and other.search('secret')
        receipt = bank.forget(turns=['D9:9', 'Secret:1'])
        assert receipt == Receipt('default', ('m1',), 5)
        for one in (bank, other):
            assert [hit.snippet.text for hit in one.search('secret', 9)] in ([], ['boat'])
            assert [one.as_of(number) for number in range(9)] == [one.as_of(0), one.as_of(0), *[{'m2': one['m2']}] * 7]
        assert bank._store.texts == {'m2': 'boat'} and 'm1' not in other._store.index
        left = b''.join(file.read_bytes() for file in path.parent.iterdir())
        assert b'ecre' not in left and b'D9:9' not in left and b'boat' in left
        bank.undo()
        assert len(bank) == 0
        with pytest.raises(NothingToUndo, match="namespace 'default': nothing to undo"):
            bank.undo()


# ---- behind and before the bank ------------------------------------------------------------------------------------------


def test_a_store_that_finds_what_is_no_entry_is_wrong_and_says_so():
    class Wrong(Shelf):
        def search(self, query, k=10):
            return [Snippet('D1:1', 'boat')]

    bank = MemoryBank(backend=Wrong)
    bank.add('boat')
    with pytest.raises(UnknownEntry, match="no entry 'D1:1' among the 1 of 'default'"):
        bank.search('boat')


def test_a_bank_closes_its_file_and_one_that_cannot_be_opened_leaves_none_open(path):
    with MemoryBank(path, backend=Shelf) as bank:
        bank.add('boat')
        other = bank.within('other')
    for one in (bank, other):
        with pytest.raises(MemoryFileError, match='closed database'):
            one.add('sea')
    bank.close()
    with patch.object(Journal, 'close', autospec=True, side_effect=Journal.close) as close:
        with pytest.raises(ZeroDivisionError):
            MemoryBank(path, backend=lambda: 1 / 0)
        assert close.call_count == 1
    with closing(Journal(path)) as journal:
        with pytest.raises(ZeroDivisionError):
            MemoryBank(journal, backend=lambda: 1 / 0)
        assert journal.namespaces() == ('default',)


# ---- the file ------------------------------------------------------------------------------------------------------------


def begun(path):
    with MemoryBank(path, backend=Shelf) as bank:
        bank.apply([Edit('ADD', 'boat'), Edit('ADD', 'a secret', sources=('D1:1',))])
        bank.within('other').add('a secret of theirs')


DEEDS = {
    'apply': lambda bank: bank.apply(
        [Edit('ADD', f'fact {number}') for number in range(4)] + [Edit('DELETE', entry='m1')]
    ),
    'undo': lambda bank: bank.undo(),
    'forget': lambda bank: bank.forget(['m2']),
}


def do_until_struck(path, deed, number, how=strike):
    """Whether the deed was done before the number-th statement after opening, and the log of these statements."""
    with watched(how=how) as log:
        bank = MemoryBank(path, backend=Shelf)
        bank.search('boat')
        count_anew(number)
        try:
            with bank:
                DEEDS[deed](bank)
        except Struck:
            return False, log
    return True, log


def seen_in(path):
    with MemoryBank(path, backend=Shelf) as bank:
        return all_of(bank), all_of(bank.within('other'))


@pytest.fixture(params=DEEDS)
def deed(request, tmp_path):
    """A deed, and what is seen before and after it."""
    begun(tmp_path / 'model')
    before = seen_in(tmp_path / 'model')
    with MemoryBank(tmp_path / 'model', backend=Shelf) as bank:
        DEEDS[request.param](bank)
    after = seen_in(tmp_path / 'model')
    assert before[0] != after[0] and before[1] == after[1]
    return request.param, before, after


def test_a_fault_after_any_statement_leaves_the_bank_before_or_after(path, deed):
    deed, before, after = deed
    for number in range(1, 60):
        path.unlink(missing_ok=True)
        begun(path)
        done, log = do_until_struck(path, deed, number)
        committed = 'COMMIT' in log
        assert seen_in(path) == (after if committed else before)
        assert not committed or deed != 'forget' or path.read_bytes().count(b'a secret') == 1
        if done:
            break
    assert done and number > 4


def killed(path, deed, number):
    process = forked(lambda: (do_until_struck(path, deed, number, kill), os._exit(0)))
    process.join(60)
    return process.exitcode == -signal.SIGKILL


@needs_fork
def test_a_process_killed_after_any_statement_leaves_the_bank_before_or_after(path, deed):
    deed, before, after = deed
    seen = []
    for number in range(1, 40):
        for file in path.parent.glob(f'{path.name}*'):
            file.unlink()
        begun(path)
        died = killed(path, deed, number)
        seen.append((before, after).index(seen_in(path)))
        assert (
            not seen[-1]
            or deed != 'forget'
            or b''.join(file.read_bytes() for file in path.parent.glob(f'{path.name}*')).count(b'a secret') == 1
        )
        if not died:
            break
    assert not died and seen == sorted(seen) and set(seen) == {0, 1}


def read_until_full(path):
    """A reader that sees whole batches only, in each namespace; 0 if all is well."""
    with MemoryBank(path, backend=Shelf) as bank:
        count = 0
        while count < 150:
            state = list(bank)
            assert (
                len(state) % 5 == 0
                and len(state) >= count
                and [one.id for one in state] == [f'm{number}' for number in range(1, len(state) + 1)]
            )
            assert len(bank.search('fact', 200)) >= len(state)
            count = len(state)
    os._exit(0)


def write_too(path, name, times):
    """A writer that looks again when it came too late."""
    with MemoryBank(path, backend=Shelf) as bank:
        while times:
            with suppress(ConflictError):
                bank.apply([Edit('ADD', f'fact {number} of {name} {times}') for number in range(5)])
                times -= 1
    os._exit(0)


@needs_fork
def test_readers_and_writers_at_once_see_whole_batches_and_lose_none(path):
    MemoryBank(path).close()
    others = [forked(read_until_full, path), *(forked(write_too, path, name, 15) for name in 'ab')]
    for one in others:
        one.join(60)
        one.kill()
    assert [one.exitcode for one in others] == [0, 0, 0]
    with MemoryBank(path, backend=Shelf) as bank:
        assert len({one.text for one in bank}) == 150
        batches = [one.batch for one in bank.journal.changes('default')]
        assert batches == sorted(batches) and all(batches.count(one) == 5 for one in set(batches))
        names = [bank.as_of(number)[f'm{number}'].text[7:] for number in range(1, 151)]
        assert all(len(set(names[start : start + 5])) == 1 for start in range(0, 150, 5))


def test_a_bank_can_be_read_while_another_process_is_about_to_write(path):
    begun(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as writer, impatient():
        writer.execute('BEGIN IMMEDIATE')
        with MemoryBank(path, backend=Shelf) as bank:
            assert len(bank) == 2 and bank.history('m2')
            with pytest.raises(MemoryFileError, match='database is locked'):
                bank.add('sea')
            assert len(bank) == 2 and 'm3' not in bank
            writer.execute('ROLLBACK')
            assert bank.add('sea').id == 'm3'


def test_a_commit_that_is_refused_is_none_and_can_be_tried_again(path):
    begun(path)
    before = seen_in(path)
    with (
        closing(sqlite3.connect(path, isolation_level=None)) as reader,
        impatient(),
        MemoryBank(path, backend=Shelf) as bank,
    ):
        reader.execute('BEGIN')
        reader.execute('SELECT * FROM changes').fetchone()
        for do in (lambda: bank.add('sea'), lambda: bank.forget(['m2']), lambda: bank.undo()):
            with pytest.raises(MemoryFileError, match='database is locked'):
                do()
            assert len(bank) == 2 and bank.search('secret')[0].snippet.id == 'm2'
        reader.execute('ROLLBACK')
        assert all_of(bank) == before[0] and bank.forget(['m2']).entries == ('m2',)


def test_a_second_process_may_make_the_tables_first(path):
    real, first = Journal.transaction, []

    def slow(self, mode='IMMEDIATE'):
        if mode == 'IMMEDIATE' and not first:
            first.append(1)
            begun(path)
        return real(self, mode)

    with patch.object(Journal, 'transaction', slow), closing(Journal(path)) as journal:
        assert journal.namespaces() == ('default', 'other')


def test_changes_are_appended_in_order_to_what_the_writer_knew(path):
    with closing(Journal(path)) as journal:
        known = journal.append('ours', [added(1), added(2)], _Extent(), 2)
        assert known == journal.extent('ours') and known[:3] == (2, 2, 0) and journal.extent('theirs') == _Extent()
        for stale in (_Extent(), _Extent(1, 2, 0), _Extent(2, 1, 0), _Extent(2, 2, 1)):
            with pytest.raises(ConflictError):
                journal.append('ours', [added(stale.last + 1)], stale, 3)
        assert [one.number for one in journal.changes('ours')] == [1, 2] and journal.extent('ours') == known
        assert journal.changes('ours', 1) == [added(2)] and journal.changes('ours', to=1) == [added(1)]


DAMAGES = [
    "UPDATE changes SET change = replace(change, 'boat', x'ff') WHERE number = 1",
    "UPDATE changes SET change = substr(change, 1, 30) WHERE number = 2",
    "UPDATE changes SET change = '{}' WHERE number = 2",
    "UPDATE changes SET number = 9 WHERE number = 2",
    "UPDATE changes SET entry = 'm7' WHERE number = 1",
    "UPDATE extents SET last = 'many'",
    'UPDATE extents SET forgotten = -1',
    'DROP TABLE changes',
    'DROP TABLE extents',
    'DELETE FROM memory',
    "UPDATE memory SET value = 'gist graph' WHERE name = 'kind'",
    'PRAGMA user_version = 99',
    'PRAGMA application_id = 7',
    'DROP TABLE memory',
]


@pytest.mark.parametrize('damage', DAMAGES)
def test_a_damaged_bank_is_an_error_that_names_the_file(path, damage):
    with MemoryBank(path, backend=Shelf) as bank:
        bank.apply([Edit('ADD', 'boat'), Edit('ADD', 'sea')])
    with closing(sqlite3.connect(path)) as file:
        file.execute(damage)
        file.execute("UPDATE extents SET last = 9 WHERE last = 2") if 'number = 9' in damage else None
        file.commit()
    with pytest.raises(MemoryFileError, match='bank'):
        MemoryBank(path, backend=Shelf)


def test_a_damaged_file_is_not_sealed_anew_by_forgetting(path):
    with MemoryBank(path, backend=Shelf) as bank:
        bank.apply([Edit('ADD', 'boat', sources=['t']), Edit('ADD', 'sea')])
        with closing(sqlite3.connect(path)) as file, file:
            file.execute('DELETE FROM changes WHERE number = 2')
        with pytest.raises(MemoryFileError, match='damaged: changes of .default. have vanished'):
            bank.forget(turns=['t'])
    with pytest.raises(MemoryFileError, match='damaged'):
        MemoryBank(path, backend=Shelf)


def test_a_namespace_that_cannot_be_written_is_refused():
    with pytest.raises(MemoryFileError):
        MemoryBank(namespace='half \ud83d')


def test_when_it_was_said_may_differ_from_when_it_is_recorded():
    bank = MemoryBank()
    when, said = datetime(2024, 6, 1), datetime(2024, 5, 3)
    [change] = bank.apply([Edit('ADD', 'Ana lost a kayak.', said=said)], when)
    assert bank[change.entry].said == said and change.when == when
    [change] = bank.apply([Edit('UPDATE', 'Ana lost a red kayak.', change.entry)], when)
    assert bank[change.entry].said == when


def test_an_update_of_a_session_without_a_time_is_undated():
    """The day on which the old text was said is not that of the new one; a time that the text has stays."""
    bank, may = MemoryBank(), datetime(2024, 5, 3)  # `update` without turns corrects the words of a session
    for time in (TimeSpan.day(may), TimeSpan.month(2024, 2)):
        entry = bank.add(f'Ana lost a kayak in {time}.', time=time, when=may)
        assert bank.update(entry.id, f'Ana lost the kayak in {time}.').line.startswith('[3 May 2024]')
        bank.update(entry.id, f'Ana lost a red kayak in {time}.', sources=['D2:1'])
    first, second = bank
    assert (first.said, first.time, first.day) == (None, None, None) and second.time == TimeSpan.month(2024, 2)


def test_what_was_believed_then():
    bank = MemoryBank()
    first = bank.add('Ana lives in Oslo.', when=datetime(2024, 4, 1))
    bank.update(first.id, 'Ana lives in Lund.', time=TimeSpan.month(2024, 5), when=datetime(2024, 7, 20, 9))
    oslo, lund = ['Ana lives in Oslo.'], ['Ana lives in Lund.']

    def believed(when):
        return [entry.text for entry in bank.as_of(when).values()]

    for when in (
        'May 2024',
        '2024-05-03',
        date(2024, 5, 3),
        datetime(2024, 7, 20, 8),
        TimeSpan.month(2024, 6),
        TimeSpan(None, date(2024, 5, 1)),
    ):
        assert believed(when) == oslo
    for when in (
        'July 2024',
        date(2024, 7, 20),
        datetime(2024, 7, 20, 9),
        TimeSpan(date(2024, 5, 1), None),
        datetime(2024, 7, 20, 9, tzinfo=timezone.utc),
    ):
        assert believed(when) == lund
    for wrong in ('last May', None):
        with pytest.raises(ValueError, match=f"when: expected a date such as .*, got '{wrong}'"):
            bank.as_of(wrong)


def test_an_older_session_that_is_told_late_is_not_believed_before():
    bank = MemoryBank()
    bank.add('Ana lives in Lund.', when=datetime(2024, 6, 1))
    bank.add('Ana was born in Oslo.', when=datetime(2024, 5, 1))
    assert [list(bank.as_of(when)) for when in ('May 2024', 'June 2024')] == [[], ['m1', 'm2']]


def test_a_session_without_a_time_takes_none_from_the_one_before():
    memory = MemMA()
    for name, when in (('S1', datetime(2024, 5, 1)), ('S2', None)):
        memory.remember(Session(name, [Turn(f'{name}:1', 'Ana', f'I sold boat {name}.')], when))
    first, second = memory.bank
    assert first.said == datetime(2024, 5, 1) and (second.said, second.time, second.day) == (None, None, None)


def test_undo_brings_back_when_an_entry_was_said():
    bank = MemoryBank(backend=Shelf)
    bank.add('a red boat', when=datetime(2024, 5, 1))
    before = list(bank)
    bank.update('m1', 'a blue boat', when=datetime(2024, 6, 1))
    assert bank['m1'].said == datetime(2024, 6, 1)
    bank.undo()
    assert list(bank) == before and bank['m1'].said == before[0].said


def test_a_transaction_that_fails_does_not_set_the_clock():
    bank = MemoryBank(backend=Shelf)
    bank.add('a red boat', when=datetime(2024, 5, 1))
    with suppress(RuntimeError), bank.transaction():
        bank.add('a kite', when=datetime(2030, 1, 1))
        raise RuntimeError
    bank.add('a dog')
    assert bank.history('m2')[0].when == datetime(2024, 5, 1)
