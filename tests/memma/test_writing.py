"""Writing a session: hostile replies against a simpler bank, the bounded view against its definition, and sessions that are whole or not there."""

from dataclasses import replace
from datetime import date, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memnb.core.conversation import Session, Turn
from memnb.memma.bank import BEFORE, Edit, replay
from memnb.memma.prompts import EditLine, EditsReply, GuidanceReply
from memnb.core.models import ScriptedLM
from memnb.memma.bank import IndexStore, MemoryBank
from memnb.core.roles import Call, LMError, ServerError, Usage
from memnb.core.time import TimeSpan
from memnb.memma.construction import bounded_view, construct

NOTHING = GuidanceReply(facts=[])
SENTENCES = (
    'I live in Oslo now, above the bakery.',
    'Rolf sold the old hive yesterday.',
    'Good morning!',
    'My dog has four legs and a red collar.',
    'Our vet is Dr. Quill.',
    'Did you play the cello?',
    'I play the viola every Sunday.',
    'Hm.',
    'We moved to Bergen in 2019.',
)


def words_only():
    return IndexStore(embedder=None)


def a_bank(*texts):
    """A bank with entries of an earlier session."""
    bank = MemoryBank(backend=words_only)
    bank.apply(Edit('ADD', text, speaker='Ines', sources=(f'P:{place}',)) for place, text in enumerate(texts))
    return bank


def a_session(texts, time=None, people=('Rolf', 'Ines')):
    return Session('S', tuple(Turn(f'S:{place}', people[place % 2], text) for place, text in enumerate(texts, 1)), time)


def line(action, text='', *turns, **more):
    return EditLine(action=action, text=text, turns=list(turns), **more)


class Obstinate(ScriptedLM):
    """One that is content with what was made of its edits."""

    def call(self, role, /, **inputs):
        if inputs.get('undone'):
            return Call(role.name, EditsReply(edits=[]), Usage())
        return super().call(role, **inputs)


def written_by(bank, session, *replies, **options):
    """What is written where a model gives these lists of lines, one for each chunk."""
    return construct(
        bank, session, Obstinate([EditsReply(edits=lines) for lines in replies]), guidance=False, **options
    )


def refused(written):
    return [note for note in written.notes if ' is refused: ' in note]


# --- the bounded view


@settings(max_examples=30)
@given(st.lists(st.sampled_from(SENTENCES), max_size=8), st.integers(0, 30), st.none() | st.integers(0, 20))
def test_the_view_is_what_it_says(texts, entries, size):
    bank = a_bank(*(f'{SENTENCES[place % 9]} {place}' for place in range(entries)))
    turns, all_of_it = a_session(texts).turns, list(bank)
    view = bounded_view(bank, turns, size)
    most = size if size is not None else 12
    assert len(view) == len(set(view)) <= most and all(bank[entry.id] == entry for entry in view)
    newest = all_of_it[len(all_of_it) - min(most // 3, len(all_of_it)) :]
    assert set(newest) <= set(view)
    nearest = [hits[0].snippet for turn in turns if (hits := bank.search(turn.text, 1))]
    places = most - len(newest)
    assert set(list(dict.fromkeys(nearest))[:places]) <= set(view)
    if size is None:
        assert set(nearest) <= set(view)


# --- the border, against a simpler bank

IDS = ('m1', 'm2', 'm3', 'm4', 'm5', 'm9')
LINES = st.builds(
    lambda action, text, entry, turns: EditLine(action=action, text=text, entry=entry, turns=turns, speaker='Ines'),
    st.sampled_from(('ADD', 'UPDATE', 'DELETE', 'NONE')),
    st.sampled_from(('', '  ', 'one', 'two', 'three ', 'four', 'two five', 'three cello')),
    st.none() | st.sampled_from(IDS),
    st.lists(st.sampled_from(('S:1', 'S:2', 'S:9', 'P:1', '')), max_size=3),
)


def by_hand(lines, state, ids):
    """What becomes of lines: entries as (text, turns), how many are refused, and ids given. All is in the view.

    Behind an UPDATE stands what the entry said."""
    shown, out = set(state), 0
    for one in lines:
        text, turns = (
            one.text.strip(),
            [turn for turn in dict.fromkeys(one.turns) if turn in ('S:1', 'S:2')] or ['S:1', 'S:2'],
        )
        if one.action == 'NONE':
            out += one.entry is not None and (one.entry not in shown or one.entry not in state)
            continue
        adds = one.action == 'ADD'
        if one.action == 'UPDATE' and one.entry in shown & state.keys() and text:
            old = state[one.entry][0]
            text = old if old.partition(BEFORE)[0] == text else f'{text}{BEFORE}Ines: {old})'
        same = next((id for id, (there, _) in state.items() if there == text), None)
        missing = one.action != 'ADD' and (one.entry not in shown or one.entry not in state)
        if (
            missing
            or (one.action != 'DELETE' and not text)
            or (one.action == 'UPDATE' and not adds and same not in (None, one.entry))
        ):
            out += 1
        elif one.action == 'DELETE':
            del state[one.entry]
        else:
            id = same if adds else one.entry
            if id is None:
                ids += 1
                id = f'm{ids}'
            state[id] = text, list(dict.fromkeys([*state.get(id, ('', []))[1], *turns]))
    return state, out, ids


@settings(max_examples=80)
@given(st.lists(st.lists(LINES, max_size=7), min_size=1, max_size=2))
def test_lines_do_what_a_simpler_bank_does(replies):
    bank = a_bank('one', 'two', 'three')
    state, given_ids = {entry.id: (entry.text, list(entry.sources)) for entry in bank}, 3
    for lines in replies:
        written = written_by(bank, a_session(['Bees.', 'A cello.'], people=('Ines', 'Ines')), lines, view=99)
        state, out, given_ids = by_hand(lines, state, given_ids)
        assert {entry.id: (entry.text, list(entry.sources)) for entry in bank} == state
        assert len(refused(written)) == out and len(written.changes) == len(lines) - out


# --- hostile replies

TEXTS = st.one_of(
    st.just(''),
    st.sampled_from(
        ('one', 'ONE', 'Rolf moved yesterday.', '(before: ', '\ud800', 'a\x00b', '{"edits": []}', '<b>', '9' * 5000)
    ),
    st.text(max_size=12),
)
HOSTILE = st.fixed_dictionaries(
    {
        'action': st.sampled_from(('ADD', 'UPDATE', 'DELETE', 'NONE')),
        'text': TEXTS,
        'entry': st.none() | st.sampled_from((*IDS, '[m2]', '', ' ')) | TEXTS,
        'speaker': st.none() | TEXTS,
        'turns': st.lists(st.sampled_from(('S:1', '(S:1, S:3)', 'P:1', 'S', '')) | TEXTS, max_size=4),
        'reason': TEXTS,
    }
)


@settings(max_examples=60)
@given(
    st.lists(st.lists(HOSTILE, max_size=6), min_size=3, max_size=3),
    st.integers(1, 4),
    st.sampled_from(('fact', 'chunk')),
    st.none() | st.integers(0, 4),
    st.none() | st.just(datetime(2024, 5, 1)),
)
def test_whatever_a_model_replies_every_line_is_a_change_or_one_refusal(replies, turns, per, view, time):
    bank, session = a_bank('one', 'two', 'three'), a_session(('Bees.', 'We moved last week.', ''), time)
    before, used = {entry.id: entry for entry in bank}, replies[: -(-len(session.turns) // turns)]
    model = Obstinate([EditsReply.model_validate({'edits': lines}) for lines in replies])
    written = construct(bank, session, model, guidance=False, turns=turns, per=per, view=view)
    ids, lines = {turn.id for turn in session.turns}, [one for lines in used for one in lines]
    assert len(written.changes) + len(refused(written)) == len(lines)
    size = {1: 1, 2: 2}.get(turns, 3)  # of the equal parts of three turns
    for chunk in (session.turns[start : start + size] for start in range(0, 3, size)):
        own = {turn.id for turn in chunk}
        assert (
            per == 'fact'
            or sum(change.action != 'NONE' and bool(own & set(change.evidence)) for change in written.changes) <= 1
        )
    assert all(
        set(change.evidence) <= ids and (change.evidence or change.action == 'NONE') for change in written.changes
    )
    assert replay(bank.journal.changes('default')) == {entry.id: entry for entry in bank}
    touched = {change.entry for change in written.changes if change.action in ('UPDATE', 'DELETE')}
    for entry in bank:
        assert entry.sources and set(entry.sources) <= ids | {'P:0', 'P:1', 'P:2'}
        assert (ids & set(entry.sources) and entry.text.strip()) or entry == before[entry.id]
    assert all(before[id] == bank[id] for id in before if id not in touched and not ids & set(bank[id].sources))
    assert touched <= bank.as_of(10**9).keys() | {change.entry for change in written.changes if change.after is None}
    bank.search('one')


def test_a_none_keeps_its_evidence_so_that_what_it_quotes_can_be_forgotten():
    bank = a_bank('one')
    written = written_by(
        bank,
        a_session(['A secret.', 'Oh.']),
        [line('NONE', '', 'S:1', reason='she tells her secret'), line('NONE', entry='m7', reason='x')],
    )
    assert [change.evidence for change in written.changes] == [('S:1',)]
    assert len(written.notes) == 1 and "'m7'" in written.notes[0]
    bank.forget(turns=['S:1'])
    assert not any('secret' in str(change) for change in bank.journal.changes('default'))


def test_the_time_is_that_of_the_text_and_what_was_so_before_dates_nothing():
    bank, session = (
        a_bank('Ines lived in Bergen.'),
        a_session(['I moved to Oslo yesterday.', 'Told in 2020.'], datetime(2024, 5, 2)),
    )
    written_by(
        bank,
        session,
        [
            line('UPDATE', 'Ines lives in Oslo. (before: Ines moved to Bergen in 2019.)', 'S:1', entry='m1'),
            line('ADD', 'Ines moved yesterday.', 'S:1'),
            line('ADD', 'Rolf was told in 2020.', 'S:2'),
        ],
    )
    assert [entry.time for entry in bank] == [
        TimeSpan.day(date(2024, 5, 2)),
        TimeSpan.day(date(2024, 5, 1)),
        TimeSpan.year(2020),
    ]
    assert [entry.speaker for entry in bank] == ['Ines', 'Ines', 'Rolf']
    assert {entry.said for entry in bank} == {session.time}


def test_an_update_leaves_behind_it_who_said_what_when_before():
    """The paper's case H.1-2: the violin does not take the place of the clarinet. In the paper's way the text stands alone."""
    for per, behind in (
        (
            'fact',
            ' (before: [4 May 2024] Rolf: Rolf begins the violin tomorrow. (before: [1 May 2024] Ines: He is slow.))',
        ),
        ('chunk', ''),
    ):
        bank = MemoryBank(backend=words_only)
        bank.add('He is slow.', speaker='Ines', when=datetime(2024, 5, 1))
        for day, text, who in ((4, 'Rolf begins the violin tomorrow.', 'Rolf'), (9, 'Rolf plays the violin.', 'Rolf')):
            session = replace(a_session([text], datetime(2024, 5, day), (who, who)), id=f'S{day}')
            written = written_by(bank, session, [line('UPDATE', text, entry='m1', speaker=who)], per=per)
            assert not [note for note in written.notes if 'cites no turn' not in note]
        assert bank['m1'].line == f'[9 May 2024] Rolf: Rolf plays the violin.{behind}'
        written_by(bank, session, [line('UPDATE', 'Rolf plays the violin.', entry='m1')], per=per)
        assert bank['m1'].text == f'Rolf plays the violin.{behind}'  # once


def test_an_older_session_replaces_nothing_that_was_said_later():
    bank = MemoryBank(backend=words_only)
    bank.add('Ines lives in Lund.', speaker='Ines', when=datetime(2024, 6, 1))
    lines = [line('UPDATE', 'Ines lives in Lund or Oslo.', 'S:1', entry='m1')]
    written = written_by(bank, a_session(['I live in Oslo.'], datetime(2024, 5, 1)), lines)
    assert [entry.line for entry in bank] == [
        '[1 June 2024] Ines: Ines lives in Lund.',
        '[1 May 2024] Ines: Ines lives in Lund or Oslo.',
    ]
    assert written.notes == ('S:1, edit 1: added, not an UPDATE: m1 was said later: Ines lives in Lund or Oslo.',)


def test_an_update_of_the_same_day_replaces_whatever_the_hour():
    """Messages of a day may come in any order, and a session often has one time for all of them."""
    text = 'Ines lives in Lund or Oslo.'
    for hour in (10, 23):
        bank = MemoryBank(backend=words_only)
        bank.add('Ines lives in Lund.', speaker='Ines', when=datetime(2024, 6, 1, 20))
        lines = [line('UPDATE', text, 'S:1', entry='m1')]
        written = written_by(bank, a_session(['I live in Oslo.'], datetime(2024, 6, 1, hour)), lines)
        assert [entry.text.partition(' (before')[0] for entry in bank] == [text] and not written.notes


def test_one_edit_is_written_for_a_chunk_where_one_is_asked_for():
    bank = a_bank()
    lines = [line('NONE', '', 'S:1', reason='a greeting'), line('ADD', 'one', 'S:1'), line('ADD', 'two', 'S:1')]
    written = written_by(bank, a_session(['Bees.']), lines, per='chunk')
    assert [entry.text for entry in bank] == ['one']
    assert written.notes == ('S:1, edit 3 is refused: one edit is written for a chunk: two',)


class Recording(ScriptedLM):
    """One that keeps what its writer was given."""

    def __init__(self, replies):
        super().__init__(replies)
        self.given = []

    def call(self, role, /, **inputs):
        self.given += [(role.render(inputs)[1], inputs)] if role.name == 'write' else []
        return super().call(role, **inputs)


def test_the_writer_sees_what_each_fact_may_change_though_small_talk_crowds_it_out():
    bank = a_bank(
        'The opening day is 13 May.',
        *(f'Small talk of the kettle, and so it will be, number {place}.' for place in range(40)),
    )
    session = a_session(['Small talk of the kettle!', 'So small a kettle will talk.'])
    facts = [{'text': 'The opening day is in July.'}, {'text': 'The opening day was moved.'}]
    stale = line('UPDATE', 'The opening day is in July.', 'S:2', entry='m1')
    model = Recording({'guide': [GuidanceReply(facts=facts)], 'write': [EditsReply(edits=[stale])]})
    assert 'm1' not in [entry.id for entry in bounded_view(bank, session.turns)]
    assert construct(bank, session, model).notes == ()
    [(prompt, inputs)] = model.given
    assert all(0 < len(hits) <= 2 for hits in inputs['found']) and len(inputs['view']) <= 6
    assert 'in July.\n  - m1 Ines: The opening day is 13 May.' in prompt and '- m1 (as above)' in prompt
    assert bank['m1'].text.startswith('The opening day is in July. (before: ')
    model = Recording({'guide': [GuidanceReply(facts=facts)], 'write': [EditsReply(edits=[])]})
    construct(bank, session, model, per='chunk')  # the paper's way: the bounded view
    assert 'found' not in model.given[0][1] and 'm1' not in [entry.id for entry in model.given[0][1]['view']]


def test_under_a_fact_stands_no_entry_that_shares_a_name_alone():
    bank = a_bank('Ines keeps bees.', 'Ines plays the viola.')
    facts = [{'text': 'Ines has a third beehive with black bees.'}, {'text': 'Ines sold the car.'}]
    points = [{'kind': 'conflict', 'fact': 2, 'entry': 'm2'}]
    for given, view in (([], ['m1']), (points, ['m2', 'm1'])):
        model = Recording({'guide': [GuidanceReply(facts=facts, points=given)], 'write': [EditsReply(edits=[])]})
        construct(bank, a_session(['Bees!', 'And a car.']), model)
        [(prompt, inputs)] = model.given
        assert [[entry.id for entry in entries] for entries in inputs['found']] == [['m1'], []]
        assert [entry.id for entry in inputs['view']] == view and ('Entries:\n- m2' in prompt) == bool(given)


def test_the_writer_is_asked_again_only_for_what_it_can_put_right():
    """Who said something is put right without it, and what another said of themself it may not change at all."""
    texts = ['I live in Oslo.', 'I am well.']
    own = line('ADD', 'Ines is well.', 'S:2', speaker='Zoe')
    odd = line('ADD', 'Rolf lives in Oslo.', 'S:1', 'S:9')
    others = line('UPDATE', 'Ada lives in Oslo.', 'S:1', entry='m1')
    late = line('UPDATE', 'Rolf lives in Oslo.', 'S:1', entry='m2')
    for lines, count in (([own, odd], 0), ([others], 0), ([late], 1), ([line('ADD', ' ', 'S:1')], 1)):
        bank = MemoryBank(backend=words_only)
        bank.add('Ada lives in Rome.', speaker='Ada')
        bank.add('Rolf lives in Lund.', speaker='Rolf', when=datetime(2024, 6, 1))
        model = Recording([EditsReply(edits=lines), EditsReply(edits=[])])
        written = construct(bank, a_session(texts, datetime(2024, 5, 1), ('Ines', 'Rolf')), model, guidance=False)
        assert written.notes and len(model.given) == 1 + count
        if count:
            prompt = model.given[-1][0]
            assert 'not made as you asked:' in prompt and 'Facts of the messages' not in prompt


@pytest.mark.parametrize('per', ['fact', 'chunk'])
def test_what_was_not_made_as_asked_is_told_once_and_may_be_put_right(per):
    bank = a_bank('Rolf is ill.')
    lines = [line('UPDATE', 'Rolf is well.', 'S:2', entry='m9'), line('UPDATE', 'Rolf is well.', 'S:2', entry='m9')]
    right = line('UPDATE', 'Rolf is well.', 'S:2', entry='m1')
    model = Recording([EditsReply(edits=lines), EditsReply(edits=[right, *lines]), LMError('once only')])
    written = construct(bank, a_session(['Hm.', 'Rolf is well.']), model, guidance=False, per=per)
    if per == 'chunk':
        assert len(model.given) == 1 and bank['m1'].text == 'Rolf is ill.'
        return
    (_, first), (prompt, second) = model.given
    assert (
        'undone' not in first and prompt.count("expected an entry of the view, got 'm9'") == len(second['undone']) == 2
    )
    assert len(refused(written)) == 4 and bank['m1'].text.startswith('Rolf is well.')


def test_what_is_shown_again_stands_now():
    bank = a_bank('Rolf is ill.', 'Rolf is tired.')
    lines = [line('UPDATE', 'Rolf is well.', 'S:2', entry='m1'), line('DELETE', '', 'S:2', entry='m1')]
    lines.append(line('UPDATE', 'Rolf is awake.', 'S:2', entry='m9'))
    model = Recording([EditsReply(edits=lines), EditsReply(edits=[])])
    construct(bank, a_session(['Hm.', 'Rolf is well.']), model, guidance=False)
    assert [entry.id for entry in bank] == [entry.id for entry in model.given[1][1]['view']] == ['m2']


def test_where_nobody_puts_it_right_the_session_is_written_with_a_note():
    bank = a_bank()
    lines = [line('ADD', 'Rolf is well.', 'S:1'), line('DELETE', '', 'S:1', entry='m9')]
    model = ScriptedLM([EditsReply(edits=lines), LMError('gone')])
    written = construct(bank, a_session(['I am well.']), model, guidance=False)
    assert [entry.text for entry in bank] == ['Rolf is well.']
    assert written.notes[-1] == 'S:1: nothing was put right: LMError: gone'


@pytest.mark.parametrize(
    'turns, at_most, sizes',
    [(17, 18, [17]), (18, 8, [6, 6, 6]), (17, 8, [6, 6, 5]), (10, 9, [5, 5]), (3, 1, [1, 1, 1])],
)
def test_a_session_is_cut_into_equal_parts_without_leftovers(turns, at_most, sizes):
    model = Recording([EditsReply(edits=[])] * len(sizes))
    construct(a_bank(), a_session(['Hm.'] * turns), model, guidance=False, turns=at_most)
    assert [len(inputs['chunk'].turns) for _, inputs in model.given] == sizes


# --- whole or not at all


@settings(max_examples=20)
@given(st.integers(1, 5), st.booleans(), st.data())
def test_a_model_that_fails_leaves_nothing_but_the_bill(turns, guidance, data):
    session = a_session(SENTENCES[:5], datetime(2024, 5, 1))
    calls = -(-len(session.turns) // turns) * (1 + guidance)
    place = data.draw(st.integers(0, calls - 1))
    replies = [
        NOTHING
        if guidance and number % 2 == 0
        else EditsReply(edits=[line('ADD', f'fact {number}'), line('DELETE', entry='m1')])
        for number in range(place)
    ]
    bank = a_bank(*SENTENCES)
    was = list(bank), bank.search('cello'), bank.journal.extent('default')
    error = data.draw(st.sampled_from((ServerError('gone'), LMError('no'))))
    with pytest.raises(LMError) as caught:
        construct(bank, session, Obstinate([*replies, error]), turns=turns, guidance=guidance)
    assert caught.value.usage.calls == place
    assert (list(bank), bank.search('cello'), bank.journal.extent('default')) == was
    whole = [
        NOTHING if guidance and number % 2 == 0 else EditsReply(edits=[line('ADD', f'fact {number}')])
        for number in range(calls)
    ]
    written = construct(bank, session, Obstinate(whole), turns=turns, guidance=guidance)
    assert (
        sum(usage.calls for usage in written.cost.values()) == calls
        and len({change.batch for change in written.changes}) == 1
    )


def test_a_failed_session_leaves_the_transaction_around_it_open():
    bank = a_bank('one')
    with bank.transaction():
        bank.add('two')
        with pytest.raises(LMError):
            construct(
                bank,
                a_session(['a', 'b']),
                ScriptedLM([EditsReply(edits=[line('ADD', 'three')])]),
                turns=1,
                guidance=False,
            )
        bank.add('four')
    assert [entry.text for entry in bank] == ['one', 'two', 'four']


def test_what_cannot_be_written_is_refused_before_anybody_is_asked():
    bank, model = a_bank(), ScriptedLM([])
    bank.add('one')
    for options, kind, words in (
        ({'per': 'turn'}, ValueError, "'fact' or 'chunk'"),
        ({'turns': 0}, ValueError, '1 or more'),
        ({'turns': '8'}, TypeError, 'turns: expected a whole number'),
        ({'view': -1}, ValueError, 'view: expected 0 or more'),
        ({'speakers': 'Ines'}, TypeError, 'sequence of names'),
    ):
        with pytest.raises(kind, match=words):
            construct(bank, a_session(['Bees.']), model, **options)
    assert model.prompts == [] and len(bank) == 1
    assert construct(bank, a_session([]), model).changes == ()


# --- by rule

SESSIONS = st.lists(st.sampled_from(SENTENCES), min_size=1, max_size=7).map(
    lambda texts: a_session(texts, datetime(2024, 5, 1))
)


@settings(max_examples=15)
@given(SESSIONS, st.sampled_from((2, 3, 100)))
def test_rules_without_guidance_write_the_same_at_any_length_and_once(session, turns):
    one, other = a_bank('Ines keeps bees.'), a_bank('Ines keeps bees.')
    construct(one, session, guidance=False, turns=1)
    construct(other, session, guidance=False, turns=turns)
    was = list(one)
    assert list(other) == was
    construct(one, session, guidance=False, turns=turns)
    assert list(one) == was
