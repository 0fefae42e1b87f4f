"""The eight tools against a reading of all contents, change against a diary, and calls that nobody can have meant."""

import json
from collections import Counter
from datetime import date, timedelta

import pytest
from hypothesis import given, settings, strategies as st
from jsonschema import Draft202012Validator

from graphs import (
    ASPECTS,
    CUES,
    MERGES,
    PEOPLE,
    TAGS,
    TEXTS,
    TIMES,
    built,
    classes,
    diary,
    event_extracts,
    every,
    in_time,
    pairs,
    shown,
    triples,
    unit_extracts,
)
from memnb.mragent.contents import Episode, SemanticUnit
from memnb.mragent.cues import cue_id
from memnb.mragent.graph import CueTagGraph
from memnb.mragent.tools import Branches, CueTools
from memnb.mragent.prompts import Recollection
from memnb.core.roles import strict_schema
from memnb.core.retriever import as_retriever
from memnb.core.time import TimeSpan
from memnb.core.calls import choice_of
from memnb.core.tools import Observation, OUTPUT_ANSWER, PAGE_SIZE, ToolError

PAPER = {
    'query_tag_events': ['cue', 'tag'],
    'query_conversation_time': ['event'],
    'query_event_keywords': ['event'],
    'query_event_context': ['event'],
    'query_personal_information': ['person'],
    'query_personal_aspect': ['person', 'aspect'],
    'query_topic_events': ['topic'],
    'query_cue_tags': ['cue'],
}  # table 4, and eq. 13
merges = st.sampled_from(MERGES)
DAYS = [date(2023, 12, 31) + timedelta(number) for number in (0, 1, 26, 27, 31, 32, 33, 34, 60)]


def ids(observation):
    return [hit.snippet.id for hit in observation.hits]


def refusal(function, *given, **named):
    with pytest.raises(ToolError) as refused:
        function(*given, **named)
    return str(refused.value)


# --- events


@settings(max_examples=15)
@given(event_extracts, merges)
def test_branches_are_pairs_that_lead_somewhere_with_how_much_is_there(found, merge):
    graph, told = built(CueTagGraph, found, merge=merge), triples(found, merge)
    ways = shown(one.tag for one in every(found))
    for cue in {c for c, g, v in told} | {'nothing'}:
        tags = {g for c, g, v in told if c == cue}
        behind = {g: {v for c, h, v in told if (c, h) == (cue, g)} for g in tags}
        made = graph.branches_of(cue)
        assert Counter((one.tag, one.count) for one in made) == Counter((ways[g], len(behind[g])) for g in tags)
        assert made == sorted(made, key=lambda one: (-one.count, one.tag)) and {one.kind for one in made} <= {'event'}
        assert all(
            one.cue == graph.cues.spelling(cue) and one.line == f'{one.cue} → {one.tag} ({one.count})' for one in made
        )


@settings(max_examples=15)
@given(event_extracts, merges)
def test_the_events_of_a_cue_and_a_tag(found, merge):
    graph, told, merged = built(CueTagGraph, found, merge=merge), triples(found, merge), classes(found, merge)
    look = CueTools(graph)
    by_id, ways = {one.id: one for one in every(found)}, shown(one.tag for one in every(found))
    for cue in (*CUES, 'JANUARY 2024', 'zeppelin'):
        for tag in (*TAGS, 'zeppelin'):
            group = merged.get(cue_id(tag), (None,))
            behind = [by_id[v] for c, g, v in told if (c, g) == (cue_id(cue), group[0])]
            if behind:
                seen = look.query_tag_events(cue, tag)
                assert [hit.snippet for hit in seen.hits] == in_time(behind)[:PAGE_SIZE] and not seen.error
                assert seen.note.startswith(f'{len(in_time(behind))} event')
                assert seen.note.split(';')[0].endswith(f'behind {graph.cues.spelling(cue_id(cue))} → {ways[group[0]]}')
            else:
                error = refusal(look.query_tag_events, cue, tag)
                own = {ways[g] for c, g, v in told if c == cue_id(cue)}
                assert error.startswith(
                    'tag: ' if own or cue_id(cue) in {c for c, g, v in told} else 'cue: there is no cue'
                )
                assert all(one in error for one in own)


@settings(max_examples=15)
@given(event_extracts, merges)
def test_an_event_is_behind_a_branch_exactly_if_the_branch_is_among_its_keywords(found, merge):
    graph = built(CueTagGraph, found, merge=merge)
    look = CueTools(graph)
    forth = {
        (way, one)
        for cue in graph.episodic.cues
        for way in graph.branches_of(cue)
        for one in ids(look.query_tag_events(way.cue, way.tag))
    }
    seen = {one.id: look.query_event_keywords(one.id) for one in graph.episodes}
    assert forth == {(way, id) for id in seen for way in seen[id].branches}
    merged = classes(found, merge)
    for one in every(found):
        assert {(cue_id(way.cue), merged[cue_id(way.tag)]) for way in seen[one.id].branches} == {
            (cue, merged[tag]) for cue, tag in pairs(one)
        }
        assert all(way.cue in seen[one.id].note for way in seen[one.id].branches)


@settings(max_examples=15)
@given(event_extracts)
def test_the_time_and_the_neighbours_of_an_event(found):
    graph = built(CueTagGraph, found)
    look = CueTools(graph)
    for session, recollection in found.items():
        line = [one.id for one in recollection.episodes]
        for place, one in enumerate(recollection.episodes):
            note = look.query_conversation_time(f' ({one.id}) ').note
            assert note.startswith(f'{one.id}: ') and (
                f'happened {one.time}' in note if one.time else 'nobody said when' in note
            )
            assert ('told on 1 February 2024' in note) == (one.said is not None)
            assert ids(look.query_event_context(one.id)) == line[place + 1 : place + 2] + (
                line[place - 1 : place] if place else []
            )


# --- people, and what holds of them


@settings(max_examples=30)
@given(unit_extracts)
def test_what_holds_of_a_person_is_what_a_diary_says(found):
    graph, units = built(CueTagGraph, found), every(found, 'units')
    look = CueTools(graph)
    page = diary(units, date(2024, 3, 20))
    for person in PEOPLE:
        its = [one for one in units if cue_id(one.person) == cue_id(person)]
        for aspect in {cue_id(one.aspect) for one in its}:
            wanted = [one for one in its if cue_id(one.aspect) == aspect]
            seen = look.query_personal_aspect(person, aspect.upper())
            holds = in_time([one for one in wanted if one.id in page])[::-1]
            past = in_time([one for one in wanted if one.id not in page])[::-1]
            assert ids(seen) == [one.id for one in holds + past][:PAGE_SIZE]
            assert seen.note.startswith(f'{len(wanted)} fact')
            replaced = {hit.snippet.id for hit in seen.hits if hit.snippet.line.endswith(' [no longer]')}
            assert replaced == {one.id for one in past} & set(ids(seen))


@settings(max_examples=25)
@given(unit_extracts)
def test_the_aspects_of_a_person_are_counted_and_no_fact_is_read(found):
    graph, units = built(CueTagGraph, found), every(found, 'units')
    look = CueTools(graph)
    ways = shown(one.aspect for one in units)
    for person in PEOPLE:
        counts = Counter(ways[cue_id(one.aspect)] for one in units if cue_id(one.person) == cue_id(person))
        if not counts:
            names = {graph.cues.spelling(cue_id(one.person)) for one in units} or {'nobody'}
            for error in (
                refusal(look.query_personal_information, person),
                refusal(look.query_personal_aspect, person, 'job'),
            ):
                assert error.startswith('person: ') and all(name in error for name in names)
            continue
        seen = look.query_personal_information(person)
        assert isinstance(seen, Branches) and not seen.hits
        assert {one.tag: one.count for one in seen.branches} == counts and {one.kind for one in seen.branches} == {
            'aspect'
        }
        assert [one.count for one in seen.branches] == sorted(counts.values(), reverse=True)
        for aspect in set(ASPECTS) | {'zeppelin'}:
            if cue_id(aspect) not in {cue_id(one) for one in counts}:
                error = refusal(look.query_personal_aspect, person, aspect)
                assert error.startswith('aspect: ') and all(one in error for one in counts)


def fact(id, aspect, day, slot, person='Tobin'):
    return SemanticUnit(
        f'S1/{id}',
        id,
        (f'S1:{id}',),
        TimeSpan.day(date.fromisoformat(day)),
        session='S1',
        person=person,
        aspect=aspect,
        slot=slot,
    )


def test_events_and_labels_come_in_pages():
    events = tuple(
        Episode(
            f'S1/e{number}',
            f'event {number}',
            (f'S1:{number}',),
            session='S1',
            position=number,
            tag='test',
            cues=('Tobin', *(f'word{place}' for place in range(30 * (number == 0)))),
        )
        for number in range(15)
    )
    units = tuple(fact(f'u{number}', f'aspect{number}', '2024-01-01', '') for number in range(30))
    graph = CueTagGraph(merge=None)
    look = CueTools(graph)
    graph.keep('S1', Recollection(events, units))
    first, second = look.query_tag_events('Tobin', 'test'), look.query_tag_events('Tobin', 'test', 10)
    assert (
        first.note == '15 events behind Tobin → test; 5 more: offset=10'
        and second.note == '15 events behind Tobin → test'
    )
    assert [hit.snippet.id for hit in (*first.hits, *second.hits)] == [one.id for one in events]
    words, more = look.query_event_keywords('S1/e0'), look.query_event_keywords('S1/e0', 24)
    assert words.note.endswith('; 7 more: offset=24') and words.note.count('word') + more.note.count('word') == 30
    assert words.branches == more.branches and len(words.branches) == 31
    aspects = look.query_personal_information('Tobin')
    assert (
        aspects.note.count('aspect') == 24
        and aspects.note.endswith('; 6 more: offset=24')
        and len(aspects.branches) == 30
    )


# --- topics


@settings(max_examples=15)
@given(event_extracts, st.data())
def test_the_events_of_a_topic(found, data):
    everything = sorted(one.id for one in every(found))
    drawn = (
        data.draw(
            st.dictionaries(
                st.sampled_from(['Bread and lakes', 'Tobin: books', 'Tobin: trams']),
                st.lists(st.sampled_from(everything), min_size=1, unique=True),
            )
        )
        if everything
        else {}
    )
    graph = built(CueTagGraph, found, topics={'of': everything, 'topics': sorted(map(list, drawn.items()))})
    look = CueTools(graph)
    sessions = {one.id: one.session for one in every(found)}
    drawn = {title: ids for title, ids in drawn.items() if len(ids) > 2 and len({sessions[id] for id in ids}) > 1}
    for title, members in drawn.items():
        seen = look.query_topic_events(title.upper())
        expected = in_time([one for one in every(found) if one.id in members])
        assert [hit.snippet for hit in seen.hits] == expected[:PAGE_SIZE]
        assert seen.note.startswith(f'{len(expected)} event') and f'of the topic {title}' in seen.note
    error = refusal(look.query_topic_events, 'books about zeppelins')
    assert (
        error.startswith('topic: there is no topic')
        and all(title in error for title in drawn)
        and ('there are none' in error) == (not drawn)
    )
    if 'Tobin: books' in drawn:
        assert error.split('there are ')[1].startswith('Tobin: books')  # what shares a word comes first


# --- what nobody can have meant

ODD = [
    '',
    ' ',
    '()',
    'zeppelin',
    'D99/e1',
    '31 February 2023',
    '0000',
    '²',
    '١٢',
    'topic:',
    '\x00',
    '\ud800',
    "it's\n",
    'x' * 500,
    'since 1990',
    '9999-12-31',
    'test',
    'Tobin',
    'Bread',
    'S1/e1',
    'job',
    '2 August 2024',
    'January 2024',
    'last week',
    '<b>',
    '12/12/12',
]
odd = (
    st.sampled_from(ODD)
    | st.text(max_size=30)
    | st.text('0123456789-/. ²abcMay', max_size=12)
    | st.lists(st.sampled_from(ODD), max_size=3).map(' '.join)
)


@settings(max_examples=100)
@given(st.data(), st.sampled_from([*PAPER, 'output_answer']), st.booleans())
def test_no_call_with_texts_ends_in_anything_but_an_observation_or_a_typed_error(data, name, empty):
    graph = _EMPTY if empty else _SMALL
    tool = next(one for one in graph.tools() if one.name == name)
    try:
        assert isinstance(tool(**{argument: data.draw(odd) for argument in tool.arguments.model_fields}), Observation)
    except ToolError as error:
        assert str(error).split(':')[0] in (*tool.arguments.model_fields, name) and len(str(error)) < 2000


UNKNOWN = st.sampled_from(['zeppelin', '', ' ', 'D99/e1', '²', 'x' * 300, '<b>', 'topic:']) | st.text(
    'qxz ', max_size=8
)


@settings(max_examples=60)
@given(
    st.data(),
    st.sampled_from([(name, argument) for name, arguments in PAPER.items() for argument in arguments]),
    st.booleans(),
)
def test_what_does_not_exist_is_named_and_refused_in_every_place(data, place, empty):
    (name, argument), unknown = place, data.draw(UNKNOWN)
    graph, right = (
        (_EMPTY if empty else _SMALL),
        {'cue': 'test', 'tag': 'Bread', 'event': 'S1/e1', 'person': 'Tobin', 'aspect': 'job', 'topic': 'Baking'},
    )
    tool = next(one for one in graph.tools() if one.name == name)
    error = refusal(tool, **{**{one: right[one] for one in PAPER[name]}, argument: unknown})
    assert error.startswith(f'{PAPER[name][0] if empty else argument}: ')
    if not empty:
        assert repr(unknown)[:20] in error and isinstance(tool(**{one: right[one] for one in PAPER[name]}), Observation)


def some_extracts():
    baking = Episode(
        'S1/e1', TEXTS[0], ('S1:1',), TIMES[1], session='S1', position=0, tag='Bread', cues=('test', 'Tobin')
    )
    later = Episode('S1/e2', TEXTS[3], ('S1:2',), TIMES[2], session='S1', position=1, tag='Camping', cues=('lake',))
    more = Episode('S2/e1', TEXTS[1], ('S2:1',), TIMES[1], session='S2', position=0, tag='Trip', cues=('lake',))
    return {
        'S2': Recollection((more,)),
        'S1': Recollection((baking, later), (fact('u1', 'job', '2024-08-26', 'line'),)),
    }


_EMPTY, _SMALL = (
    CueTagGraph(),
    built(
        CueTagGraph,
        some_extracts(),
        topics={'of': ['S1/e1', 'S1/e2', 'S2/e1'], 'topics': [['Baking', ['S1/e1', 'S1/e2', 'S2/e1']]]},
    ),
)

# --- schema


def test_the_tools_are_the_papers():
    tools = _SMALL.tools()
    assert (
        [tool.name for tool in tools] == [*PAPER, 'output_answer']
        and tools[-1] is OUTPUT_ANSWER
        and [tool.ends for tool in tools] == [False] * 8 + [True]
    )
    for tool in tools[:-1]:
        parameters = tool.arguments.model_json_schema()
        assert parameters['required'] == PAPER[tool.name]
        assert set(parameters['properties']) - {'offset', 'about'} == set(PAPER[tool.name])
        assert all(field['description'] for field in parameters['properties'].values()) and tool.description[-1] == '.'
        Draft202012Validator.check_schema(parameters)
    json.dumps(strict_schema(choice_of(tools)))


# --- a retriever


def test_it_is_a_retriever():
    query, january = 'a race in the rain', TimeSpan.month(2024, 1)
    whole = _SMALL.search(query)
    assert as_retriever(_SMALL) is _SMALL and len(whole) == 4
    assert {hit.snippet for hit in whole} == {*_SMALL.episodes, *_SMALL.units}
    assert [hit.score for hit in whole] == sorted((hit.score for hit in whole), reverse=True)
    assert _SMALL.search(query, 2, exclude=[whole[0].snippet.id]) == whole[1:3]
    inside = [hit for hit in whole if hit.snippet.day and hit.snippet.day.overlaps(january)]
    assert inside and _SMALL.search(query, during=january) == inside
