"""The memory bank against whole states kept in lists; and a file that is as before or as after, whoever reads it and whatever strikes."""
import os
import signal
import sqlite3
import tempfile
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from memnb.memma.bank import NothingToUndo
from memnb.memma.bank import (
    ACTIONS, applied, Change, change_from_json, change_to_json, DuplicateEntry, Edit, Entry,
    place_of, said_by, state_after, UnknownEntry)
from memnb.retrieval.vectors import HybridIndex
from memnb.memma.bank import ConflictError, Extent, Journal, Receipt
from memnb.memma.bank import IndexStore, MemoryBank
from memnb.core.storage import MemoryFileError, write_memory
from memnb.core.retriever import as_retriever, Hit, Retriever
from memnb.core.conversation import Snippet
from memnb.core.time import TimeSpan
from strikes import Struck, count_anew, forked, kill, needs_fork, strike, watched

WORDS = 'boat sea red blue sail'.split()
DAYS = (None, TimeSpan.day(date(2024, 5, 1)), TimeSpan.day(date(2024, 10, 1)), TimeSpan(date(2024, 5, 1), date(2024, 5, 1), 'span'))
PEOPLE = (None, 'Ana', 'ana', 'Ben')
TURNS = ('D1:1', 'D1:2', 'D2:1', 'D2:10')
NOON = datetime(2024, 1, 1, 12)


class Shelf:
    """A foreign store: counts common words, returns ids. It may fail after it has done what it was asked."""

    def __init__(self):
        self.texts, self.failures = {}, 0

    def put(self, entry_id, text, time, sources):
        self.texts[entry_id] = text
        self._fail()

    def remove(self, entry_id):
        self.texts.pop(entry_id, None)
        self._fail()

    def _fail(self):
        if self.failures:
            self.failures -= 1
            raise ConnectionError('the store is gone')

    def search(self, query, k=10):
        asked = set(query.lower().split())
        scored = [(id, len(asked & set(text.lower().split()))) for id, text in self.texts.items()]
        return sorted(scored, key=lambda pair: (-pair[1], place_of(pair[0])))[:k]


def words_only():
    return IndexStore(embedder=None)


def added(number, text='boat', *sources, **more):
    """A change that adds entry m<number>."""
    return Change(number, 'ADD', f'm{number}', Entry(f'm{number}', text, sources), number, evidence=sources, **more)


def rows_of(bank):
    """What a file has of a namespace, as it stands there."""
    rows = bank.journal._file.execute('SELECT * FROM changes WHERE namespace = ? ORDER BY number', (bank.namespace,)).fetchall()
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
    with patch.object(sqlite3, 'connect', lambda *rest, **options: real(*rest, **{**options, 'timeout': .05})):
        yield


# ---- edits and changes ---------------------------------------------------------------------------------------------------


texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=2).map(' '.join)
ids = st.integers(1, 6).map('m{}'.format)
sources = st.lists(st.sampled_from(TURNS), max_size=2).map(tuple)
whens = st.none() | st.integers(0, 9).map(lambda hours: NOON + timedelta(hours=hours))
some_edits = st.one_of(
    st.builds(Edit, st.just('ADD'), texts, time=st.sampled_from(DAYS), speaker=st.sampled_from(PEOPLE), sources=sources),
    st.builds(Edit, st.just('UPDATE'), texts, ids, time=st.sampled_from(DAYS), speaker=st.sampled_from(PEOPLE), sources=sources),
    st.builds(Edit, st.just('DELETE'), entry=ids, sources=sources, reason=st.just('gone')),
    st.builds(Edit, st.just('NONE'), entry=st.none() | ids, sources=sources))
edit_lists = st.lists(some_edits, min_size=1, max_size=4)

anything = st.text(st.characters(exclude_categories=['Cs']), max_size=8)
spans = st.builds(lambda one, other, kind, label: TimeSpan(min(one, other), max(one, other), kind, label), st.dates(), st.dates(),
                  st.sampled_from(['day', 'month', 'span']), st.none() | anything)
moments = st.datetimes(timezones=st.none() | st.integers(-720, 720).map(lambda minutes: timezone(timedelta(minutes=minutes))))
entries = st.builds(Entry, st.just('m1'), anything, st.lists(anything).map(tuple), st.none() | spans, st.none() | anything, st.none() | moments,
                    st.none() | anything, st.none() | st.integers(0, 9))
changes = st.builds(Change, st.integers(1, 2 ** 40), st.sampled_from([*ACTIONS, 'UNDO']), st.just('m1'), st.none() | entries, st.integers(1, 9),
                    anything, st.lists(anything).map(tuple), st.none() | moments, st.none() | st.integers(1, 9))


@settings(max_examples=60)
@given(changes)
def test_a_change_goes_through_json_and_comes_back(change):
    again = change_from_json(change_to_json(change))
    assert again == change and change_to_json(again) == change_to_json(change)
    assert again.after is None or again.after.time is None or again.after.time.label == change.after.time.label


@pytest.mark.parametrize('old, new', [('"number":3', '"number":"3"'), ('"number":3', '"number":3.5'), ('"ADD"', '"add"'), ('"m3"', '"m4"'),
                                      ('2024-05-01', '2024-05-32'), ('["D1:1"]', '"D1:1"'), ('"batch":3', '"batch":null'), ('}', ''), ('{', '['),
                                      ('2024-01-01T12:00:00', 'noon')])
def test_a_change_that_is_another_one_now_is_refused(old, new):
    entry = Entry('m3', 'boat', ('D1:1',), DAYS[1], 'Ana', NOON)
    text = change_to_json(Change(3, 'ADD', 'm3', entry, 3, 'why', ('D1:1',), NOON))
    assert old in text and change_from_json(text)
    with pytest.raises(ValueError, match='^a change: expected what change_to_json writes; .+: '):
        change_from_json(text.replace(old, new, 1))


@pytest.mark.parametrize('fields, error', [
    (dict(action='ADD'), ValueError), (dict(action='ADD', text=' \n'), ValueError), (dict(action='ADD', text='x', entry='m1'), ValueError),
    (dict(action='add', text='x'), ValueError), (dict(action='UPDATE', text='x'), ValueError), (dict(action='UPDATE', entry='m1'), ValueError),
    (dict(action='DELETE'), ValueError), (dict(action='DELETE', text='x', entry='m1'), ValueError), (dict(action='UPDATE', text='x', entry=' '), ValueError),
    (dict(action='ADD', text='half \ud83d'), ValueError), (dict(action='ADD', text='x', reason='\udc00'), ValueError),
    (dict(action='ADD', text='x', sources=('\udc00',)), ValueError), (dict(action='ADD', text='x', speaker='\udc00'), ValueError),
    (dict(action='DELETE', entry='m\udc00'), ValueError),
    (dict(action='ADD', text=7), TypeError), (dict(action='ADD', text='x', time='May'), TypeError), (dict(action='ADD', text='x', speaker=3), TypeError),
    (dict(action='ADD', text='x', time=date(2024, 5, 1)), TypeError), (dict(action='UPDATE', text='x', entry=1), TypeError),
    (dict(action='ADD', text='x', sources='D1:1'), TypeError), (dict(action='ADD', text='x', sources=(1,)), TypeError),
    (dict(action='ADD', text='x', reason=None), TypeError), (dict(action='ADD', text='x', sources=None), TypeError)])
def test_an_edit_that_cannot_be_meant_is_refused_at_once(fields, error):
    with pytest.raises(error):
        Edit(**fields)


def test_an_edit_keeps_what_it_is_given_and_each_turn_once():
    assert Edit('ADD', 'x', sources=['b', 'a', 'b']).sources == ('b', 'a')
    assert Edit('ADD', 'wise 🦉 ', speaker='Zoë').text == 'wise 🦉 '
    assert Edit('NONE', 'some text', entry='m1')


@given(texts, texts, st.sampled_from(DAYS), st.sampled_from(DAYS), st.sampled_from(PEOPLE), st.sampled_from(PEOPLE))
def test_entries_are_one_if_words_time_and_speaker_are(text, other, day, another, who, whom):
    one, two = Entry('m1', text, ('a',), day, who, NOON), Entry('m2', f' {other.upper()}\n', ('b',), another, whom)
    same = text == other and day == another and (who or '').lower() == (whom or '').lower()
    assert (said_by(one) == said_by(two)) is same


def test_ids_are_in_the_order_in_which_they_are_given():
    given_ids = [f'm{number}' for number in range(1, 120)]
    assert sorted(reversed(given_ids), key=place_of) == given_ids
    assert list(state_after(added(number) for number in range(119, 0, -1))) == given_ids


def test_what_an_edit_makes_of_an_entry():
    entry = Entry('m1', 'old', ('a', 'b'), DAYS[1], 'Ana', NOON)
    later = NOON + timedelta(1)
    update = Edit('UPDATE', 'new', 'm1', sources=('b', 'c'))
    assert applied(entry, update, 'm1', later) == Entry('m1', 'new', ('a', 'b', 'c'), DAYS[1], 'Ana', later)
    assert applied(entry, update, 'm1').said == NOON
    assert applied(entry, replace(update, text='old', time=DAYS[2], speaker='Ben'), 'm1', later) == Entry('m1', 'old', ('a', 'b', 'c'), DAYS[2], 'Ben', NOON)
    assert applied(entry, Edit('NONE', entry='m1'), 'm1', later) is entry and applied(None, Edit('NONE'), None, later) is None
    assert applied(entry, Edit('DELETE', entry='m1'), 'm1', later) is None
    for edit in (update, Edit('DELETE', entry='m1'), Edit('NONE', entry='m1')):
        with pytest.raises(UnknownEntry, match=f"^{edit.action}: no entry 'm1'$"):
            applied(None, edit, 'm1', later)


def test_a_change_reads_as_a_line():
    assert str(Change(7, 'UNDO', 'm1', None, 7, 'wrong', undoes=5)) == '7. UNDO of change 5 m1 (wrong)'
    assert str(added(3, 'boat', reason='why', when=NOON)) == '3. ADD m3 boat (why)'
    assert str(Change(8, 'NONE', None, None, 8)) == '8. NONE'


# ---- any history, against whole states in lists --------------------------------------------------------------------------


class Plain:
    """A namespace as a list of whole states: states[n] is what stood after change n."""

    def __init__(self):
        self.states, self.rows, self.given, self.steps = [{}], [], 0, []

    def copy(self):
        other = Plain()
        other.states, other.rows, other.given, other.steps = list(self.states), list(self.rows), self.given, list(self.steps)
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
        self.rows.append(dict(number=len(self.states) - 1, action=action, entry=id, after=after, evidence=evidence, when=when, reason=reason))

    def same_as(self, text, time, speaker):
        key = ' '.join(text.split()).lower(), time, (speaker or '').lower()
        return next((id for id, one in self.now.items() if key == (' '.join(one['text'].split()).lower(), one['time'], (one['speaker'] or '').lower())), None)

    def at(self, when):
        if when is not None and self.when is not None and when < self.when:
            raise ValueError
        return when if when is not None else self.when

    def edit(self, edit, when):
        action, id, fields = edit.action, edit.entry, dict(text=edit.text, time=edit.time, speaker=edit.speaker)
        reason, there = edit.reason, self.same_as(**fields) if action == 'ADD' else None
        if there:
            action, id, fields = 'UPDATE' if set(edit.sources) - set(self.now[there]['sources']) else 'NONE', there, dict(text=self.now[there]['text'])
            reason = reason or 'it is there already'
        if action == 'ADD':
            self.given += 1
            id, after = f'm{self.given}', dict(fields, sources=edit.sources, said=when)
        elif id is not None and id not in self.now:
            raise UnknownEntry
        else:
            after = self.now.get(id)
        if action == 'UPDATE':
            merged = after['sources'] + tuple(one for one in edit.sources if one not in after['sources'])
            after = dict(after, **{name: value for name, value in fields.items() if value is not None}, sources=merged,
                         said=when if when and fields['text'] != after['text'] else after['said'])
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
        for row in reversed(rows):
            self.note('UNDO', row['entry'], self.states[row['number'] - 1].get(row['entry']), (), when)
        assert self.now == self.states[rows[0]['number'] - 1]
        return [row['entry'] for row in reversed(rows)]

    def forget(self, ids, turns):
        have = {row['entry'] for row in self.rows}
        if not ids <= have:
            raise UnknownEntry
        rested = [row for row in self.rows if turns & {*row['evidence'], *(row['after'] or {}).get('sources', ())}]
        gone, numbers = ids | {row['entry'] for row in rested} - {None}, {row['number'] for row in rested}
        left = [row for row in self.rows if row['entry'] not in gone and row['number'] not in numbers]
        receipt = sorted(gone, key=place_of), len(self.rows) - len(left)
        self.rows = left
        self.states = [{id: entry for id, entry in state.items() if id not in gone} for state in self.states]
        self.steps = [rows for step in self.steps if (rows := [row for row in step if row['entry'] not in gone])]
        return receipt

    def as_of(self, when):
        if isinstance(when, int):
            return self.states[min(when, len(self.states) - 1)]
        return self.states[max((row['number'] for row in self.rows if row['when'] is None or row['when'] <= when), default=0)]


def plainly(found):
    """Entries of a bank as the model has them."""
    return {id: dict(text=one.text, time=one.time, speaker=one.speaker, sources=one.sources, said=one.said) for id, one in found.items()}


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
        self.banks = {(space, who): MemoryBank(journal=self.journals[who], namespace=space, backend=(Shelf, words_only)[who])
                      for space in self.models for who in (0, 1)}

    def teardown(self):
        if hasattr(self, 'folder'):
            for journal in self.journals:
                journal.close()
            self.folder.cleanup()

    @contextmanager
    def other_is_untouched(self, space):
        other = self.banks['theirs' if space == 'ours' else 'ours', 0]
        before = rows_of(other), list(other)
        yield
        assert (rows_of(other), list(other)) == before

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
        when = trial.at(when)
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
            assert self.outcome(lambda: [(one.action, one.entry) for one in self.banks[space, who].apply(edits, when)]) == expected

    @rule(first=edit_lists, inner=edit_lists, last=edit_lists, fails=st.sampled_from(['inner', 'outer', 'no']), look=st.booleans(), **where)
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
            undone = trial.undo(trial.at(when))
            self.models[space] = trial
            return undone
        expected = self.outcome(model)
        with self.other_is_untouched(space):
            found = self.outcome(lambda: self.banks[space, who].undo(when=when))
        assert ([one.entry for one in found if one.action == 'UNDO'] if isinstance(found, list) else found) == expected

    @rule(ids=st.sets(ids, max_size=2), turns=st.sets(st.sampled_from(TURNS), max_size=1), **where)
    def forget(self, space, who, ids, turns):
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

    @rule(failures=st.integers(0, 2), query=texts, k=st.integers(0, 9), exclude=st.sets(ids, max_size=2), during=st.sampled_from(DAYS), **where)
    def search(self, space, who, failures, query, k, exclude, during):
        bank, fresh = self.banks[space, who], HybridIndex(None, spread=False) if who else Shelf()
        if not who:
            bank._store.failures = failures
            for _ in range(failures):
                with suppress(ConnectionError):
                    bank.search(query)
            bank._store.failures = 0
            for one in bank:
                fresh.put(one.id, one.text, None, ())
            expected = [(id, score) for id, score in fresh.search(query, 99)
                        if id not in exclude and (during is None or bank[id].day is not None and bank[id].day.overlaps(during))][:k]
        else:
            fresh.add(bank)
            expected = [(hit.snippet.id, hit.score) for hit in fresh.search(query, k, exclude=exclude, during=during)]
        found = bank.search(query, k, exclude=exclude, during=during)
        assert [(hit.snippet.id, hit.score) for hit in found] == expected
        assert all(hit.snippet is bank[hit.snippet.id] or hit.snippet == bank[hit.snippet.id] for hit in found)
        assert not bank._stale
        assert who or bank._store.texts == {one.id: one.text for one in bank}

    @rule(**where)
    def feed_back(self, space, who):
        """What was searched and is remembered once more changes no entry."""
        bank, model = self.banks[space, who], self.models[space]
        before = list(bank)
        for hit in bank.search('red boat', 50):
            one = hit.snippet
            self.apply(space, who, [Edit('ADD', one.text.upper(), time=one.time, speaker=one.speaker, sources=one.sources)], None)
        assert list(bank) == before and len(model.now) == len(before)

    @rule(number=st.integers(0, 40), when=whens.filter(bool), **where)
    def look_back(self, space, who, number, when):
        bank, model = self.banks[space, who], self.models[space]
        assert plainly(bank.as_of(number)) == model.as_of(number) and plainly(bank.as_of(when)) == model.as_of(when)
        for id in {row['entry'] for row in model.rows} - {None}:
            expected = [(row['number'], row['action'], row['evidence'], row['when'], row['reason']) for row in model.rows if row['entry'] == id and row['action'] != 'UNDO']
            history = bank.history(id)
            assert [(one.number, one.action, one.evidence, one.when, one.reason) for one in history if one.action != 'UNDO'] == expected
            assert bank.as_of(number).get(id) == next((one.after for one in reversed(history) if one.number <= number), None)
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
            assert list(state_after(found).values()) == list(bank)
            assert (extent := bank.journal.extent(space)).last == len(model.states) - 1 and extent.given == model.given
            assert len({said_by(one) for one in bank}) == len(bank) == len(bank._same)


Banks.TestCase.settings = settings(max_examples=40, stateful_step_count=20)
test_banks = Banks.TestCase


# ---- transactions and times ----------------------------------------------------------------------------------------------


def test_all_edits_of_a_list_or_none_and_the_number_and_id_are_given_again():
    bank = MemoryBank(backend=Shelf)
    bank.add('boat', sources=('D1:1',))
    before = all_of(bank)
    for edits in ([Edit('ADD', 'sea'), Edit('DELETE', entry='m9')], [Edit('DELETE', entry='m1'), 'no edit'], [Edit('ADD', 'sea'), None]):
        with pytest.raises((UnknownEntry, TypeError)):
            bank.apply(edits)
        assert all_of(bank) == before

    def failing():
        yield Edit('ADD', 'sea')
        assert 'm2' in bank
        raise Left
    with pytest.raises(Left):
        bank.apply(failing())
    assert all_of(bank) == before and bank.add('sky').id == 'm2'


def test_what_is_there_already_is_told_from_what_is_new():
    bank = MemoryBank(backend=Shelf)
    bank.add('Red boat', speaker='Ana', sources=('D1:1',), when=NOON)
    assert [one.action for one in bank.apply([Edit('ADD', ' red  BOAT', speaker='ANA'), Edit('ADD', 'red boat', speaker='ana', sources=('D1:1',))])] == ['NONE'] * 2
    [again] = bank.apply([Edit('ADD', 'red boat', speaker='Ana', sources=('D2:1', 'D1:1'), reason='again')], NOON + timedelta(1))
    assert (again.action, again.entry, again.evidence, again.reason) == ('UPDATE', 'm1', ('D2:1', 'D1:1'), 'again')
    assert list(bank) == [Entry('m1', 'Red boat', ('D1:1', 'D2:1'), None, 'Ana', NOON)]
    assert [one.reason for one in bank.history('m1')] == ['', 'it is there already', 'it is there already', 'again']
    for other in (dict(text='red boat'), dict(text='red boats', speaker='Ana'), dict(text='red boat', speaker='Ana', time=DAYS[1])):
        bank.add(**other)
    assert len(bank) == 4
    with pytest.raises(DuplicateEntry, match='UPDATE of m2: m1 says the same already'):
        bank.update('m2', 'RED BOAT', speaker='ana')
    with pytest.raises(DuplicateEntry):
        bank.apply([Edit('ADD', 'sail'), Edit('UPDATE', 'Sail', 'm3', speaker=None, time=None), Edit('UPDATE', 'red boat', 'm3')])
    assert bank.update('m1', 'RED boat').text == 'RED boat' and len(bank) == 4
    bank.delete('m1')
    assert bank.add('red boat', speaker='Ana').id == 'm5'


def test_undo_takes_back_what_was_done_and_no_greeting():
    bank = MemoryBank(backend=Shelf)
    bank.apply([Edit('ADD', 'boat'), Edit('NONE'), Edit('UPDATE', 'red boat', 'm1')])
    bank.apply([Edit('NONE', entry='m1'), Edit('NONE')])
    with bank.transaction():
        bank.add('sea')
        assert [one.action for one in bank.history('m2')] == ['ADD'] and list(bank.as_of(6)) == ['m1', 'm2'] and list(bank.as_of(5)) == ['m1']
    assert [(one.action, one.entry, one.undoes) for one in bank.undo('no sea')] == [('UNDO', 'm2', 6)]
    assert [(one.entry, one.undoes, one.reason) for one in bank.undo('no boat')] == [('m1', 3, 'no boat'), ('m1', 1, 'no boat')]
    assert len(bank) == 0 and [one.text for one in bank.as_of(8).values()] == ['boat']
    with pytest.raises(NothingToUndo):
        bank.undo()


def test_a_transaction_reads_one_state_and_its_changes_are_one_batch(path):
    with MemoryBank(path, backend=Shelf) as bank, MemoryBank(path, backend=Shelf) as other:
        with bank.transaction():
            assert len(bank) == 0
            other.add('boat')
            assert len(bank) == 0 and not bank.search('boat') and bank.as_of(9) == {}
            with pytest.raises(UnknownEntry):
                bank.history('m1')
        assert len(bank) == 1
        with pytest.raises(ConflictError, match='nothing was written: expected .*last=1.*, it is .*last=2.* now'):
            with bank.transaction():
                assert 'm2' not in bank
                other.add('sea')
                assert 'm2' not in bank
                bank.add('sea, since there is none')
        assert [one.text for one in bank] == ['boat', 'sea']
        with bank.transaction():
            bank.add('red')
            bank.update('m1', 'red boat')
        assert [one.batch for one in bank.journal.changes('default')] == [1, 2, 3, 3]
        bank.undo()
        assert [one.text for one in bank] == ['boat', 'sea']
        with pytest.raises(RuntimeError, match='leave the transaction by an exception'), bank.transaction():
            bank.add('blue')
            bank.undo()
        with pytest.raises(RuntimeError, match='not inside a transaction'), bank.transaction():
            bank.forget(['m1'])
        assert [one.text for one in bank] == ['boat', 'sea']


def test_what_is_written_between_two_looks_is_seen_at_the_next(path):
    with MemoryBank(path, backend=Shelf) as bank, MemoryBank(path, backend=Shelf) as other:
        other.add('boat')
        real, once = Journal.extent, [1]

        def then_another_writes(self, namespace):
            found = real(self, namespace)
            if self is bank.journal and once:
                once.pop()
                other.update('m1', 'red boat')
            return found
        with patch.object(Journal, 'extent', then_another_writes):
            assert [one.text for one in bank] == ['boat']
            assert [one.text for one in bank] == ['red boat']


def test_someone_else_forgets_while_a_transaction_is_open(path):
    with MemoryBank(path, backend=Shelf) as bank, MemoryBank(path, backend=Shelf) as other:
        bank.add('boat')
        bank.search('boat')
        with pytest.raises(ConflictError), bank.transaction():
            other.forget(['m1'])
            bank.update('m1', 'a boat all the same')
        assert len(bank) == 0 and not bank.search('boat') and bank._store.texts == {} and not bank.journal.changes('default')


def test_times_do_not_go_back_and_one_that_is_not_given_is_that_of_the_last():
    bank, zone = MemoryBank(backend=Shelf), timezone(timedelta(hours=1))
    bank.add('boat')
    bank.add('sea', when=NOON)
    assert bank.add('sail').said == NOON and bank.history('m3')[0].when == NOON and bank['m1'].said is None
    with pytest.raises(ValueError, match='expected 2024-01-01 12:00:00 or later, the time of the last change, got 2024-01-01 11:59'):
        bank.add('red', when=NOON - timedelta(minutes=1))
    for strange in (NOON.date(), 'noon', 1704110400, False):
        with pytest.raises(TypeError, match='when: expected a datetime'):
            bank.add('red', when=strange)
    for do in (lambda: bank.add('red', when=NOON.replace(tzinfo=zone)), lambda: bank.as_of(NOON.replace(tzinfo=zone))):
        with pytest.raises(ValueError, match='expected one without a zone'):
            do()
    with pytest.raises(TypeError, match='as_of: expected a datetime or the number of a change'):
        bank.as_of(NOON.date())
    assert len(bank) == 3 and list(bank.as_of(NOON - timedelta(1))) == ['m1'] and list(bank.as_of(NOON)) == ['m1', 'm2', 'm3']
    zoned = MemoryBank(backend=Shelf)
    zoned.add('boat', when=NOON.replace(tzinfo=zone))
    zoned.add('sea', when=NOON.replace(tzinfo=timezone.utc))
    with pytest.raises(ValueError, match='expected 2024-01-01 12:00:00\\+00:00 or later'):
        zoned.add('red', when=NOON.replace(tzinfo=zone))
    with pytest.raises(ValueError, match='expected one with a zone'):
        zoned.add('red', when=NOON)


def test_the_last_time_is_that_of_the_last_change_that_is_left(path):
    with MemoryBank(path, backend=Shelf) as bank, MemoryBank(path, backend=Shelf) as other:
        bank.add('boat', when=NOON)
        bank.add('sea', when=NOON + timedelta(2))
        assert len(other) == 2
        bank.forget(['m2'])
        for one, hours in ((other, 1), (bank, 2)):
            assert one.add(f'sail {hours}', when=NOON + timedelta(hours=hours)).said == NOON + timedelta(hours=hours)
        bank.forget(['m1', 'm3', 'm4'])
        assert other.add('sky').said is None and list(other.as_of(NOON - timedelta(9))) == ['m5']


def test_an_entry_that_is_as_it_was_is_not_put_into_the_index_again():
    class Counted(Shelf):
        count = 0

        def put(self, *fields):
            self.count += 1
            super().put(*fields)
    bank = MemoryBank(backend=Counted)
    bank.apply(Edit('ADD', f'fact {number}') for number in range(9))
    assert bank._store.count == 0 and bank.search('fact') and bank._store.count == 9
    bank.update('m1', 'boat')
    bank.update('m1', 'red boat')
    bank.undo()
    bank.undo()
    with suppress(UnknownEntry):
        bank.apply([Edit('ADD', 'sea'), Edit('DELETE', entry='m2'), Edit('DELETE', entry='m99')])
    bank.forget(['m9'])
    assert len(bank.search('fact')) == 8 and bank._store.count == 9
    bank.update('m1', 'boat')
    assert len(bank.search('boat')) == 8 and bank._store.count == 10


def test_a_text_is_kept_to_the_letter_and_may_be_long(path):
    long = 'boat \0 \u2028 🦉 ' * 10_000
    with MemoryBank(path, backend=Shelf) as bank:
        bank.add(long, speaker='\n', sources=('D1:1', '\0'), reason=long)
    with MemoryBank(path, backend=Shelf) as bank:
        assert bank['m1'] == Entry('m1', long, ('D1:1', '\0'), None, '\n', None) and bank.history('m1')[0].reason == long
        assert bank.add(long.upper(), speaker='').id == 'm2'
        assert bank.add(long.upper(), speaker='\n', sources=('D1:1',)).text == long


def test_ids_go_on_after_the_ninth_and_are_never_given_twice(path):
    with MemoryBank(path, backend=Shelf) as bank:
        bank.apply(Edit('ADD', f'fact {number}') for number in range(12))
        assert [one.id for one in bank][7:] == ['m8', 'm9', 'm10', 'm11', 'm12']
        assert bank.forget(['m12', 'm2']).entries == ('m2', 'm12')
        bank.undo()
        assert len(bank) == 0
    with MemoryBank(path, backend=Shelf) as bank:
        assert bank.add('one more').id == 'm13'


# ---- namespaces, forgetting ----------------------------------------------------------------------------------------------


def test_what_is_forgotten_is_in_no_file_no_state_no_index_and_no_other_bank(path):
    with MemoryBank(path, backend=Shelf) as bank, MemoryBank(path, backend=words_only) as other:
        bank.apply([Edit('ADD', 'Secretly seasick', speaker='Secretary', sources=('Secret:1',), reason='a secret'), Edit('ADD', 'boat', sources=('D1:1',))])
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


def test_a_batch_that_is_forgotten_in_part_is_undone_in_the_other_part():
    bank = MemoryBank(backend=Shelf)
    bank.apply([Edit('ADD', 'boat'), Edit('ADD', 'sea', sources=('D1:1',))])
    bank.apply([Edit('UPDATE', 'red boat', 'm1'), Edit('UPDATE', 'red sea', 'm2')])
    bank.undo()
    bank.forget(['m2'])
    assert [one.text for one in bank] == ['boat']
    bank.apply([Edit('UPDATE', 'blue boat', 'm1'), Edit('ADD', 'sky')])
    bank.forget(['m3'])
    bank.undo()
    assert [one.text for one in bank] == ['boat']
    bank.undo()
    assert len(bank) == 0


@pytest.mark.parametrize('wrong, error', [(dict(entries='m1'), TypeError), (dict(turns='D1:1'), TypeError), (dict(entries=['m1', 'm9']), UnknownEntry)])
def test_what_cannot_be_forgotten_changes_nothing(wrong, error):
    bank = MemoryBank(backend=Shelf)
    bank.add('boat', sources=('D1:1',))
    before = all_of(bank)
    with pytest.raises(error):
        bank.forget(**wrong)
    assert all_of(bank) == before
    assert bank.forget(turns=['D9:9']) == bank.forget() == Receipt('default', (), 0) and all_of(bank) == before


def test_namespaces_are_as_separate_as_two_files(path, tmp_path):
    with MemoryBank(path, backend=Shelf) as ours, MemoryBank(tmp_path / 'alone', namespace="o'urs%_", backend=Shelf) as alone:
        theirs = ours.within("o'urs%_")
        for bank in (ours, theirs, alone):
            bank.apply([Edit('ADD', 'boat', sources=('D1:1',)), Edit('ADD', 'sea')])
        before = all_of(theirs)
        assert before == all_of(alone)
        ours.update('m1', 'red boat')
        ours.undo()
        ours.forget(['m2'], turns=['D1:1'])
        assert len(ours) == 0 and all_of(theirs) == before
        assert ours.journal.namespaces() == ('default', "o'urs%_") and ours.within('third').journal.namespaces() == ('default', "o'urs%_")
        for wrong in ('', None, 3):
            with pytest.raises(ValueError, match='namespace: expected a name'):
                ours.within(wrong)
        with pytest.raises(ValueError, match='backend: expected a function that makes a new index'):
            ours.within('fourth', lambda: ours._store)


def test_the_forgetting_of_an_entry_that_is_written_meanwhile_finds_it(path):
    """Another process writes of the turn between the wish to forget it and the deed."""
    with MemoryBank(path, backend=Shelf) as bank, MemoryBank(path, backend=Shelf) as other:
        bank.add('boat', sources=('D1:1',))
        real = Journal.sweep

        def late(self):
            if self is bank.journal and not other.as_of(1).get('late') and len(other) == 1:
                other.add('sea', sources=('D1:1',))
            real(self)
        with patch.object(Journal, 'sweep', late):
            assert bank.forget(turns=['D1:1']).entries == ('m1', 'm2')
        assert len(bank) == len(other) == 0


# ---- behind and before the bank ------------------------------------------------------------------------------------------


def test_a_bank_is_a_retriever_and_a_collection():
    bank = MemoryBank(backend=words_only)
    bank.add('red boat', time=DAYS[1], sources=('D1:1',))
    assert isinstance(bank, Retriever) and as_retriever(bank) is bank
    assert 'm1' in bank and 'm2' not in bank and 1 not in bank and None not in bank and ['m1'] not in bank and bank['m1'] not in bank
    assert [hit.snippet for hit in bank.search('boat')] == [bank['m1']] and not bank.search('boat', exclude=['m1']) and not bank.search('boat', 0)
    assert bank.search('boat', during=DAYS[1]) and not bank.search('boat', during=DAYS[2])
    with pytest.raises(UnknownEntry, match="^no entry 'm2' among the 1 of 'default'$"):
        bank['m2']
    for wrong in (dict(query=3), dict(query='x', k=-1), dict(query='x', k=1.5), dict(query='x', exclude='m1')):
        with pytest.raises((TypeError, ValueError)):
            bank.search(**wrong)


def test_the_index_of_its_own_finds_what_a_fresh_one_finds():
    bank = MemoryBank()
    for number in range(30):
        bank.add(f'{WORDS[number % 5]} number {number}', speaker=PEOPLE[number % 4])
        if number % 7 == 3:
            bank.search('boat')
            bank.update(f'm{number}', f'blue {number}')
    bank.delete('m5')
    bank.undo()
    bank.forget(['m9'])
    fresh = HybridIndex(spread=False)
    fresh.add(bank)
    for query in ('boat', 'Ana: a blue thing', 'number 7'):
        assert bank.search(query, 40) == fresh.search(query, 40)


def test_the_index_of_its_own_keeps_what_stores_promise():
    store = words_only()
    for text in ('boat', 'sea'):
        store.put('m1', text, DAYS[1], ('D1:1',))
    assert [hit.snippet for hit in store.search('sea boat')] == [Entry('m1', 'sea', ('D1:1',), DAYS[1])]
    store.remove('m1')
    store.remove('m1')
    assert store.search('sea') == []


@pytest.mark.parametrize('shape', [lambda id: id, lambda id: (id, .5), lambda id: Snippet(id, 'other'), lambda id: Hit(Snippet(id, 'other'), .5)])
def test_a_store_may_answer_in_any_of_these_ways(shape):
    class Other(Shelf):
        def search(self, query, k=10):
            return [shape(id) for id, _ in super().search(query, k)] * 2
    bank = MemoryBank(backend=Other)
    bank.add('boat')
    bank.add('sea')
    assert [hit.snippet for hit in bank.search('sea')] == [bank['m2'], bank['m1']]
    assert [hit.snippet.id for hit in bank.search('sea', 1, exclude=['m2'])] == ['m1']


@pytest.mark.parametrize('answer', [['boat'], [('m2', 1.0)], [Snippet('D1:1', 'boat')]])
def test_a_store_that_finds_what_is_no_entry_is_wrong_and_says_so(answer):
    class Wrong(Shelf):
        def search(self, query, k=10):
            return answer
    bank = MemoryBank(backend=Wrong)
    bank.add('boat')
    with pytest.raises(UnknownEntry, match='Wrong.search: expected ids of entries, got '):
        bank.search('boat')


def test_a_store_that_fails_half_way_is_set_right_and_forgets_what_it_took():
    bank = MemoryBank(backend=Shelf)
    bank.apply([Edit('ADD', 'boat'), Edit('ADD', 'sea'), Edit('ADD', 'sail')])
    for change in (lambda: None, lambda: bank.update('m2', 'red sea'), lambda: bank.delete('m3'), lambda: bank.undo()):
        change()
        bank._store.failures = 1
        with pytest.raises(ConnectionError):
            bank.search('boat')
        bank.search('boat')
        assert bank._store.texts == {one.id: one.text for one in bank}
    bank.update('m1', 'blue boat')
    bank._store.failures = 1
    with pytest.raises(ConnectionError):
        bank.search('boat')
    bank.undo()
    assert bank.search('boat') and bank._store.texts == {one.id: one.text for one in bank}
    bank.add('secret')
    bank._store.failures = 1
    with pytest.raises(ConnectionError):
        bank.search('boat')
    assert 'm4' in bank._store.texts
    bank.forget(['m4'])
    assert 'm4' not in bank._store.texts and not bank.journal.changes('default', entry='m4')


def test_nothing_is_forgotten_while_the_store_cannot_forget_and_it_can_be_asked_again():
    bank = MemoryBank(backend=Shelf)
    bank.apply([Edit('ADD', 'secret'), Edit('ADD', 'boat')])
    bank.search('boat')
    bank.delete('m1')
    bank._store.failures = 1
    with pytest.raises(ConnectionError):
        bank.forget(['m2'])
    assert bank.history('m2')
    bank._store.failures = 1
    bank._store.texts.pop('m1', None)
    with pytest.raises(ConnectionError):
        bank.forget(['m1'])
    bank._store.failures = 0
    assert bank.forget(['m1', 'm2']).entries == ('m1', 'm2') and bank._store.texts == {} and len(bank) == 0


def test_an_embedder_that_fails_leaves_the_bank_as_it_was():
    class Down:
        name, down = 'down', False

        def __call__(self, texts):
            if self.down:
                raise ConnectionError('no embedder')
            return [[len(text), 1.0] for text in texts]
    embedder = Down()
    bank = MemoryBank(backend=lambda: IndexStore(embedder=embedder))
    bank.add('boat')
    first = bank.search('boat')
    embedder.down = True
    bank.update('m1', 'boats')
    bank.add('sea')
    with pytest.raises(ConnectionError):
        bank.search('boat')
    assert [one.text for one in bank] == ['boats', 'sea']
    embedder.down = False
    assert first and [hit.snippet.text for hit in bank.search('boat')] == ['boats', 'sea'] and len(bank._store.index) == 2


def test_a_bank_closes_its_file_and_one_that_cannot_be_opened_leaves_none_open(path):
    with MemoryBank(path, backend=Shelf) as bank:
        bank.add('boat')
        other = bank.within('other')
    for one in (bank, other):
        with pytest.raises(MemoryFileError, match='closed database'):
            one.add('sea')
    bank.close()
    with patch.object(Journal, 'close', autospec=True, side_effect=Journal.close) as close:
        for count, wrong in enumerate((dict(namespace=''), dict(backend=lambda: 1 / 0)), 1):
            with pytest.raises((ValueError, ZeroDivisionError)):
                MemoryBank(path, **wrong)
            assert close.call_count == count
    with closing(Journal(path)) as journal:
        with pytest.raises(ZeroDivisionError):
            MemoryBank(journal=journal, backend=lambda: 1 / 0)
        assert journal.namespaces() == ('default',)
        with pytest.raises(ValueError, match='expected a path or a journal'):
            MemoryBank(path, journal=journal)


# ---- the file ------------------------------------------------------------------------------------------------------------


def begun(path):
    with MemoryBank(path, backend=Shelf) as bank:
        bank.apply([Edit('ADD', 'boat'), Edit('ADD', 'a secret', sources=('D1:1',))])
        bank.within('other').add('a secret of theirs')


DEEDS = {'apply': lambda bank: bank.apply([Edit('ADD', f'fact {number}') for number in range(4)] + [Edit('DELETE', entry='m1')]),
         'undo': lambda bank: bank.undo(), 'forget': lambda bank: bank.forget(['m2'])}


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
        assert not seen[-1] or deed != 'forget' or b''.join(file.read_bytes() for file in path.parent.glob(f'{path.name}*')).count(b'a secret') == 1
        if not died:
            break
    assert not died and seen == sorted(seen) and set(seen) == {0, 1}


def read_until_full(path):
    """A reader that sees whole batches only, in each namespace; 0 if all is well."""
    with MemoryBank(path, backend=Shelf) as bank:
        count = 0
        while count < 150:
            state = list(bank)
            assert len(state) % 5 == 0 and len(state) >= count and [one.id for one in state] == [f'm{number}' for number in range(1, len(state) + 1)]
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
        assert all(len(set(names[start:start + 5])) == 1 for start in range(0, 150, 5))


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
    with closing(sqlite3.connect(path, isolation_level=None)) as reader, impatient(), MemoryBank(path, backend=Shelf) as bank:
        reader.execute('BEGIN')
        reader.execute('SELECT * FROM changes').fetchone()
        for do in (lambda: bank.add('sea'), lambda: bank.forget(['m2']), lambda: bank.undo()):
            with pytest.raises(MemoryFileError, match='database is locked'):
                do()
            assert len(bank) == 2 and bank.search('secret')[0].snippet.id == 'm2'
        reader.execute('ROLLBACK')
        assert all_of(bank) == before[0] and bank.forget(['m2']).entries == ('m2',)


def test_a_file_that_could_not_be_swept_is_swept_at_the_next_chance(path):
    for again in (lambda bank: bank.forget(['m2']), lambda bank: bank.forget(), lambda bank: Journal(path).close()):
        path.unlink(missing_ok=True)
        begun(path)
        real, blocked = Journal.sweep, []

        def once(self):
            blocked.append(1)
            if len(blocked) == 2:
                raise MemoryFileError('database is locked')
            real(self)
        with MemoryBank(path, backend=Shelf) as bank:
            with patch.object(Journal, 'sweep', once), pytest.raises(MemoryFileError):
                bank.forget(['m2'])
            assert b'unswept' in path.read_bytes() and path.read_bytes().count(b'a secret') == 1 and len(bank) == 1
            with suppress(UnknownEntry):
                again(bank)
            assert b'unswept' not in path.read_bytes() and path.read_bytes().count(b'a secret') == 1


def test_a_second_process_may_make_the_tables_first(path):
    real, first = Journal._transaction, []

    def slow(self, mode='IMMEDIATE'):
        if mode == 'IMMEDIATE' and not first:
            first.append(1)
            begun(path)
        return real(self, mode)
    with patch.object(Journal, '_transaction', slow), closing(Journal(path)) as journal:
        assert journal.namespaces() == ('default', 'other')


def test_changes_are_appended_in_order_to_what_the_writer_knew(path):
    with closing(Journal(path)) as journal:
        known = journal.append('ours', [added(1), added(2)], Extent(), 2)
        assert known == journal.extent('ours') == Extent(2, 2, 0) and journal.extent('theirs') == Extent()
        for wrong in ([added(4)], [added(3), added(3)], [added(3), added(5)]):
            with pytest.raises(ValueError, match='append: expected the numbers 3 to '):
                journal.append('ours', wrong, known, 4)
        for stale in (Extent(), Extent(1, 2, 0), Extent(2, 1, 0), Extent(2, 2, 1)):
            with pytest.raises(ConflictError):
                journal.append('ours', [added(stale.last + 1)], stale, 3)
        assert [one.number for one in journal.changes('ours')] == [1, 2] and journal.extent('ours') == known
        assert journal.changes('ours', 1) == journal.changes('ours', entry='m2') == [added(2)] and journal.changes('ours', to=1) == [added(1)]
        assert journal.before('ours', 'm2', 3) == added(2).after and journal.before('ours', 'm2', 2) is None
        assert [[one.number for one in journal.backwards('ours', chunk)] for chunk in (1, 2, 9)] == [[2, 1]] * 3


def test_whatever_names_a_turn_goes_with_it(path):
    with closing(Journal(path)) as journal:
        made = [added(1, 'boat', 'D1:1'), replace(added(2, 'sea', 'D1:2'), evidence=()), replace(added(3), evidence=('D1:3',)),
                Change(4, 'NONE', None, None, 4, evidence=('D1:4',)), added(5, 'sky', 'D1:11'), Change(6, 'DELETE', 'm5', None, 6)]
        known = journal.append('ours', made, Extent(), 5)
        for number in range(1, 5):
            assert journal.forget('ours', turns=[f'D1:{number}']) == Receipt('ours', (f'm{number}',) if number < 4 else (), 1)
            assert journal.changes('ours') == made[number:]
        assert journal.extent('ours') == replace(known, forgotten=4) and journal.forget('ours', ['m5']).changes == 2


def test_the_history_of_one_entry_costs_no_look_at_the_others():
    bank, steps = MemoryBank(backend=Shelf), []
    bank.apply(Edit('ADD', f'fact {number}') for number in range(2000))
    bank.journal._file.set_progress_handler(lambda: steps.append(1) and 0, 100)
    assert len(bank.history('m700')) == 1 and bank.journal.before('default', 'm700', 1900) and len(bank) == 2000
    assert len(steps) < 10
    assert len(bank.as_of(1000)) == 1000 and len(steps) > 100
    assert [one.number for one in bank.journal.backwards('default')] == list(range(2000, 0, -1))


DAMAGES = ["UPDATE changes SET change = replace(change, 'boat', x'ff') WHERE number = 1", "UPDATE changes SET change = '' WHERE number = 1",
           "UPDATE changes SET change = substr(change, 1, 30) WHERE number = 2", "UPDATE changes SET change = '{}' WHERE number = 2",
           "UPDATE changes SET number = 9 WHERE number = 2", "UPDATE changes SET entry = 'm7' WHERE number = 1", "UPDATE changes SET change = x'00' WHERE number = 1",
           "UPDATE extents SET last = 'many'", 'UPDATE extents SET last = NULL', 'UPDATE extents SET forgotten = -1', 'UPDATE extents SET given = 1.5',
           'DROP TABLE changes', 'DROP TABLE extents', "UPDATE memory SET value = 'gist graph' WHERE name = 'kind'", 'DELETE FROM memory',
           'PRAGMA user_version = 99', 'PRAGMA application_id = 7', 'DROP TABLE memory']


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


def test_what_is_no_bank_is_refused_and_not_touched(tmp_path):
    letter, cut, other, graph = (tmp_path / name for name in ('letter', 'cut', 'other', 'graph'))
    letter.write_text('Dear Zofia')
    begun(cut)
    cut.write_bytes(cut.read_bytes()[:3000])
    with closing(sqlite3.connect(other)) as file:
        file.execute('CREATE TABLE mine (x)')
    write_memory(graph, 'gist graph', {}, None, {}, None)
    for path in (letter, cut, other, graph):
        before = path.read_bytes()
        with pytest.raises(MemoryFileError, match=path.name):
            MemoryBank(path)
        assert path.read_bytes() == before
    for path in (tmp_path, tmp_path / 'no' / 'folder', f'{tmp_path}/bank\0more'):
        with pytest.raises(MemoryFileError):
            MemoryBank(path)
    assert {one.name for one in tmp_path.iterdir()} == {'letter', 'cut', 'other', 'graph'}
    (tmp_path / 'empty').touch()
    MemoryBank(tmp_path / 'empty').close()
    with pytest.raises(MemoryFileError):
        MemoryBank(namespace='half \ud83d')


# ------------------------------------------------------------------ by turn, and by age

@given(st.lists(st.tuples(st.sampled_from(['add', 'update', 'delete', 'undo', 'forget']), st.integers(0, 9),
                          st.lists(st.sampled_from('abcd'), max_size=3)), max_size=14))
def test_what_rests_on_turns_and_what_came_last_are_what_a_scan_finds(steps):
    bank = MemoryBank()
    for number, (act, place, turns) in enumerate(steps):
        entries = list(bank)
        one = entries[place % len(entries)].id if entries else None
        if act == 'add':
            bank.add(f'fact {number}', sources=tuple(turns))
        elif act == 'undo' and bank.journal.extent('default').last:
            try:
                bank.undo()
            except NothingToUndo:
                pass
        elif one and act == 'update':
            bank.update(one, f'fact {number}', sources=tuple(turns))
        elif one and act == 'delete':
            bank.delete(one)
        elif one and act == 'forget':
            bank.forget([one])
        left = list(bank)
        for wanted in ((), ('a',), ('b', 'c'), ('z',)):
            assert bank.resting_on(wanted) == [entry for entry in left if {*wanted} & {*entry.sources}]
        for count in range(4):
            assert bank.latest(count) == left[max(0, len(left) - count):]


def test_when_it_was_said_may_differ_from_when_it_is_recorded():
    bank = MemoryBank()
    when, said = datetime(2024, 6, 1), datetime(2024, 5, 3)
    [change] = bank.apply([Edit('ADD', 'Ana lost a kayak.', said=said)], when)
    assert bank[change.entry].said == said and change.when == when
    [change] = bank.apply([Edit('UPDATE', 'Ana lost a red kayak.', change.entry)], when)
    assert bank[change.entry].said == when
    with pytest.raises(TypeError, match='said: expected'):
        Edit('ADD', 'x', said='yesterday')
