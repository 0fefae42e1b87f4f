"""Extraction: nothing a session says is lost, and nothing a model got wrong is lost either."""

import json
from dataclasses import replace
from datetime import date, datetime

import pytest
from hypothesis import example, given, strategies as st

from memnb.core.conversation import Session, Turn
from memnb.evaluation.datasets import load_sample
from memnb.core.text import event_time, tokenize
from memnb.remem.prompts import Extract, extract

from memnb.rules.remem import gists_rule
from memnb.remem.facts import Fact, Gist
from memnb.retrieval.hybrid import HybridIndex
from memnb.core.models import ScriptedLM
from memnb.core.roles import ServerError, Usage
from memnb.core.time import find_times, TimeSpan

SAMPLE = load_sample()
MOMENTS = st.datetimes(datetime(1990, 1, 1), datetime(2030, 1, 1)).map(lambda moment: moment.replace(microsecond=0))
WORDS = st.lists(
    st.sampled_from(
        '''I you we Nell love bought boats rye yesterday. last week wow thanks! a the in 2016 Ghent? my your it's "no" (red)
wonderful swims and, harbour'''.split()
    ),
    max_size=14,
).map(' '.join)
TURNS = st.builds(
    Turn,
    st.just('x'),
    st.sampled_from(['Tobin', 'Zofia', 'Nell']),
    WORDS | st.text(max_size=30),
    st.none() | MOMENTS,
    st.none() | st.sampled_from(['a photo of a boat', 'a red hat']),
)
SESSIONS = st.builds(
    lambda turns, time: Session('D1', tuple(replace(turn, id=f'D1:{n}') for n, turn in enumerate(turns, 1)), time),
    st.lists(TURNS, max_size=5),
    st.none() | MOMENTS,
)


def words_of(text, names):
    "The oracle of content: stems that are neither small talk nor a name, by the tokenizer alone."
    from memnb.core.text import SMALL_TALK

    return {stem for stem in tokenize(text) if stem not in SMALL_TALK and stem not in tokenize(' '.join(names))}


@example(Session('D1', (Turn('D1:1', 'Tobin', 'I swims'),)))
@given(SESSIONS)
def test_no_turn_and_no_word_is_lost(session):
    names, lines = session.speakers, gists_rule(session).gists
    for turn in session.turns:
        mine = ' '.join(line.text for line in lines if turn.id in line.turns)
        wanted = words_of(turn.text, names)
        assert bool(mine) >= bool(wanted)
        if turn.caption:
            assert turn.caption in mine
        assert not mine or not turn.text.isascii() or wanted <= set(tokenize(mine)), (turn.text, mine)


@given(SESSIONS)
def test_what_the_rule_takes_is_well_formed(session):
    made, cost = extract(session)
    ids = [turn.id for turn in session.turns]
    assert made.notes == () and cost == ({'gists': Usage(), 'facts': Usage()} if ids else {})
    for item in (*made.gists, *made.facts):
        turn = session.turns[ids.index(item.sources[0])]
        assert item.session == 'D1' and item.speaker == turn.speaker and item.said == (turn.time or session.time)
    assert [gist.position for gist in made.gists] == list(range(len(made.gists)))
    assert [gist.id for gist in made.gists] == [f'D1/g{n}' for n in range(1, len(made.gists) + 1)]
    assert [fact.id for fact in made.facts] == [f'D1/f{n}' for n in range(1, len(made.facts) + 1)]
    HybridIndex(None).add([*made.gists, *made.facts])  # ids and places are unique


@given(SESSIONS, st.booleans(), st.booleans())
def test_gists_and_facts_are_asked_apart(session, gists, facts):
    both, (some, cost) = extract(session)[0], extract(session, gists=gists, facts=facts)
    assert some.gists == (both.gists if gists else ()) and some.facts == (both.facts if facts else ())
    assert set(cost) == {name for name, wanted in (('gists', gists), ('facts', facts)) if wanted and session.turns}


SPANS = st.none() | st.builds(
    lambda kind, day: TimeSpan.of(kind, day),
    st.sampled_from(['day', 'week', 'month', 'season', 'year', 'decade']),
    st.dates(date(1900, 1, 1), date(2100, 1, 1)),
)
OPEN = st.builds(
    lambda day, left: TimeSpan(None, day) if left else TimeSpan(day, None), st.dates(date(1900, 1, 1)), st.booleans()
)
TEXTS = st.text(min_size=1, max_size=20).filter(str.strip)
ITEMS = {
    'sources': st.lists(st.text(max_size=5), max_size=3),
    'speaker': st.none() | st.text(max_size=5),
    'said': st.none() | MOMENTS,
    'session': st.none() | st.text(max_size=5),
    'position': st.none() | st.integers(0, 99),
}
GIST = st.builds(Gist, TEXTS, st.text(), time=SPANS | OPEN, **ITEMS)
FACT = st.builds(
    lambda *parts, start, end, said, sources: Fact.of(
        *parts, start_time=start, end_time=end if start is None else start, record_time=said, sources=sources
    ),
    TEXTS,
    TEXTS,
    TEXTS,
    start=SPANS,
    end=SPANS,
    said=st.none() | MOMENTS,
    sources=ITEMS['sources'],
)


@given(
    st.builds(
        Extract,
        st.lists(GIST, max_size=3).map(tuple),
        st.lists(FACT, max_size=3).map(tuple),
        st.lists(st.text(), max_size=2).map(tuple),
    )
)
def test_json_and_back(made):
    text = made.to_json()
    assert Extract.from_json(text) == made and Extract.from_json(text).to_json() == text
    assert text.isascii()


SESSION = SAMPLE.sessions[4]
IDS = [turn.id for turn in SESSION.turns]
GOOD = {
    'subject': 'Tobin',
    'predicate': 'ran',
    'object': 'a race',
    'point_in_time': None,
    'start_time': None,
    'end_time': None,
    'turns': ['D5:1'],
}
FAULTS = [
    ({'turns': ['D5:1', 'D6:1']}, 'D6:1'),
    ({'turns': ['D5']}, 'D5'),
    ({'subject': ' '}, 'empty'),
    ({'object': ''}, 'empty'),
    ({'point_in_time': 'long ago'}, 'long ago'),
    ({'start_time': 'soon'}, 'soon'),
    ({'start_time': '2020', 'end_time': '2019'}, 'before'),
    ({'turns': []}, 'charged'),
]


def from_script(gists=None, facts=None):
    "The extract of one session from a script of lines."
    replies = [{'gists': gists}] * (gists is not None) + [{'facts': facts}] * (facts is not None)
    return extract(SESSION, ScriptedLM(replies), gists=gists is not None, facts=facts is not None)[0]


@given(st.lists(st.sampled_from([None, *range(len(FAULTS))]), max_size=6))
def test_every_fault_has_its_note(chosen):
    lines = [GOOD if number is None else GOOD | FAULTS[number][0] for number in chosen]
    made = from_script(facts=lines)
    expected = [(f'fact {place}', FAULTS[number][1]) for place, number in enumerate(chosen, 1) if number is not None]
    assert len(made.notes) == len(expected) + sum(number == 1 for number in chosen)  # an id that is none leaves no turn
    for what, words in expected:
        assert any(note.startswith(what) and words in note for note in made.notes)
    assert len(made.facts) == sum(number not in (2, 3) for number in chosen)
    assert all(fact.sources and set(fact.sources) <= set(IDS) for fact in made.facts)


def test_gists_of_a_model():
    made = from_script(
        gists=[
            {'text': '[13 April 2024, 9:10 am] Tobin  ran last Sunday (7 April 2024).', 'turns': ['(D5:1)', 'D5:1']},
            {'text': '[1 May 2020, 9:10 am] Nell ran.', 'turns': ['D5:3']},
            {'text': '', 'turns': ['D5:4']},
            {'text': 'Both are proud.', 'turns': ['D5:4', 'D5:5']},
            {'text': '[sic] Rain.', 'turns': []},
        ]
    )
    assert [gist.text for gist in made.gists] == [
        'Tobin ran last Sunday (7 April 2024).',
        'Nell ran.',
        'Both are proud.',
        '[sic] Rain.',
    ]
    assert [gist.id for gist in made.gists] == ['D5/g1', 'D5/g2', 'D5/g4', 'D5/g5']
    assert [gist.position for gist in made.gists] == [0, 1, 3, 4]
    assert [gist.speaker for gist in made.gists] == ['Tobin', 'Tobin', None, None]
    assert made.gists[0].sources == ('D5:1',) and made.gists[3].sources == tuple(IDS)
    assert made.gists[0].time == TimeSpan.day(date(2024, 4, 7)) and made.gists[1].time == TimeSpan.day(
        date(2024, 4, 13)
    )
    assert [note.split(':')[0] for note in made.notes] == ['gist 2', 'gist 3', 'gist 5']


@pytest.mark.parametrize(
    'times, start, end',
    [
        ({'point_in_time': '7 April 2024'}, TimeSpan.day(date(2024, 4, 7)), TimeSpan.day(date(2024, 4, 7))),
        ({'point_in_time': 'last Sunday'}, TimeSpan.day(date(2024, 4, 7)), TimeSpan.day(date(2024, 4, 7))),
        ({'point_in_time': 'since 2018'}, TimeSpan.year(2018), None),
        ({'point_in_time': '2019', 'start_time': '2018', 'end_time': '2020'}, TimeSpan.year(2019), TimeSpan.year(2019)),
        ({'start_time': '2018'}, TimeSpan.year(2018), None),
        ({'start_time': 'since 2018', 'end_time': 'until March 2020'}, TimeSpan.year(2018), TimeSpan.month(2020, 3)),
        ({'end_time': '2020-03'}, None, TimeSpan.month(2020, 3)),
        ({'point_in_time': 'by 7 April 2024'}, None, TimeSpan.day(date(2024, 4, 7))),
        ({'end_time': 'Not later than March 2020'}, None, TimeSpan.month(2020, 3)),
        ({'point_in_time': 'about 7 April 2024'}, TimeSpan.month(2024, 4), TimeSpan.month(2024, 4)),
        ({'point_in_time': 'by about 7 April 2024'}, None, TimeSpan.month(2024, 4)),
        ({'start_time': 'around the 3rd of May 2019'}, TimeSpan.month(2019, 5), None),
        ({'point_in_time': ' '}, None, None),
    ],
)
def test_times_of_a_fact(times, start, end):
    made = from_script(facts=[GOOD | times])
    assert made.notes == () and (made.facts[0].start, made.facts[0].end) == (start, end)


@given(
    st.dates(date(1990, 1, 1), date(2030, 1, 1)),
    st.sampled_from(
        [
            'yesterday',
            'last week',
            'in 2016',
            '3 May 2020',
            'no time',
            'today',
            'today as in 2016',
            'today and yesterday',
        ]
    ),
)
def test_a_gist_happened_at_its_first_other_time(day, words):
    gist = Gist('g', f'Nell swam {words}.', said=datetime(day.year, day.month, day.day, 9))
    others = [span for _, _, span in find_times(gist.text, day) if span != TimeSpan.day(day)]
    assert event_time(gist) == (others or [TimeSpan.day(day)])[0]


@given(
    st.dates(date(1990, 1, 1), date(2030, 1, 1)),
    st.dates(date(1990, 1, 1), date(2030, 1, 1)),
    st.sampled_from(
        [
            'yesterday',
            'last week',
            'on the second of August',
            "on New Year's Day",
            'on Thursday',
            'in April, after the frost',
        ]
    ),
)
def test_a_gist_happened_at_the_time_in_brackets(said, day, words):
    gist = Gist(
        'g', f'Nell swam {words} ({day.day} {day:%B %Y}) as in 2016.', said=datetime(said.year, said.month, said.day, 9)
    )
    assert event_time(gist) == TimeSpan.day(day)


@given(SESSIONS)
def test_one_call_gives_what_two_give(session):
    (both, cost), (apart, _) = extract(session, one_call=True), extract(session)
    assert both == apart and set(cost) == ({'memories'} if session.turns else set())


def test_what_one_reply_says_of_both_is_validated_alike():
    lines = {'gists': [{'text': 'Tobin ran.', 'turns': ['D5:1']}], 'facts': [GOOD | {'point_in_time': 'soon'}]}
    both, _ = extract(SESSION, ScriptedLM({'memories': [lines]}), one_call=True)
    assert both == extract(SESSION, ScriptedLM([lines, lines]))[0] and len(both.notes) == 1


def test_a_server_that_fails_takes_the_cost_with_it():
    with pytest.raises(ServerError) as caught:
        extract(SESSION, ScriptedLM([{'gists': []}, ServerError('gone')]))
    assert caught.value.usage.calls == 1


def test_yesterday_is_read_against_the_day_of_the_turn():
    turn = Turn('D1:1', 'Tobin', 'I bought a boat yesterday.', time=datetime(2024, 4, 14, 9))
    made, _ = extract(Session('D1', (turn,), datetime(2024, 1, 1)))
    day = TimeSpan.day(date(2024, 4, 13))
    assert (made.gists[0].text, made.gists[0].time) == ('Tobin bought a boat yesterday (13 April 2024).', day)
    assert made.facts[0].start == made.facts[0].end == day


@pytest.mark.parametrize('text', ['', '[]', 'null', '[' * 100_000])
def test_other_json_is_refused(text):
    with pytest.raises(ValueError, match='extract: expected what to_json writes'):
        Extract.from_json(text)


@pytest.mark.parametrize(
    'damage',
    [
        {'notes': 'abc'},
        {'notes': [1]},
        {'gists': {}},
        {'facts': {}},
        {'gists': 'a'},
        {'notes': {}},
        {'gists': [{'id': '1', 'text': '2', 'sources': [3], 'said': None}]},
        {'gists': [{'id': '1', 'text': '2', 'said': None}]},
        {'facts': [{'id': '1', 'text': '2', 'sources': [], 'said': None}]},
        {
            'facts': [
                {'id': '1', 'text': '2', 'sources': [], 'said': None, 'subject': 'a', 'predicate': ' ', 'object': 'b'}
            ]
        },
    ],
)
def test_a_damaged_extract_is_refused(damage):
    with pytest.raises(ValueError, match='extract: expected what to_json writes'):
        Extract.from_json(json.dumps({'gists': [], 'facts': [], 'notes': []} | damage))


@pytest.mark.parametrize(
    'cited, sources, notes',
    [
        (['(D5:1, D5:3)'], ('D5:1', 'D5:3'), 0),
        (['D5:1; D5:3', 'D5:1'], ('D5:1', 'D5:3'), 0),
        (['[D5:3].'], ('D5:3',), 0),
        (['D5:1, D5:99'], ('D5:1',), 1),
        (['D5:1,'], ('D5:1',), 0),
        ([''], tuple(IDS), 1),
        (['D5:99, D6:1'], tuple(IDS), 3),
    ],
)
def test_several_ids_in_one_text(cited, sources, notes):
    made = from_script(facts=[GOOD | {'turns': cited}])
    assert (made.facts[0].sources, len(made.notes)) == (sources, notes)


def test_names_are_no_text():
    with pytest.raises(TypeError, match="speakers: expected a sequence of names, got the text 'Tobin'"):
        extract(SESSION, speakers='Tobin')
