"""What is awake against sums over plain triples, and what is offered against a sort of everything that is awake."""

import math
from collections import Counter
from dataclasses import replace
from datetime import date, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakes import Letters
from memnb.mragent.activation import _ASPECT, _CONTEXT, _LIKE, _MOST, _PERSON, _TAG, _time_ids, Activation
from memnb.mragent.prompts import Recollection
from memnb.mragent.contents import Episode, SemanticUnit
from memnb.mragent.cues import cue_id
from memnb.mragent.labels import Branch
from memnb.mragent.graph import CueTagGraph
from memnb.mragent.labels import are_lookalikes
from memnb.retrieval.vectors import without_names, WordLlamaEmbedder
from memnb.core.time import MONTHS, parse_date, TimeSpan

NAMES = ('Ada', 'Bo Finn')
WORDS = ('boat', 'boats', 'ship', 'concert', 'concertina', 'music', 'Ada', 'bo finn', 'lesson', '2024')
TAGS = ('boat trip', 'Boat Trips', 'ship trip', 'music lesson', 'song')
ASKED = (
    'boat',
    'Ships',
    'concert',
    'musical',
    'Ada',
    'zebra',
    '',
    '…',
    'July 2024',
    '3 July 2024',
    '2024',
    'since 2019',
    'summer 2024',
)
QUESTIONS = (
    'When did Ada take a boat?',
    'What music do Ada and Bo Finn like?',
    'Who sings?',
    'Did Bo Finn hear the concert?',
)
TIMES = (
    None,
    TimeSpan.day(date(2024, 7, 3)),
    TimeSpan.month(2024, 7),
    TimeSpan.month(2024, 5),
    TimeSpan.year(2024),
    TimeSpan(date(2019, 1, 1), None, 'year'),
)
DAY = datetime(2024, 7, 9, 18)


def graph_of(episodes, units=(), names=NAMES, **options):
    """A graph of sessions of three episodes."""
    graph = CueTagGraph(names=names, embedder=Letters(letters='aeiou'), **options)
    for number in range(0, max(len(episodes), 1), 3):
        some = [
            replace(one, session=f'D{number}', position=place)
            for place, one in enumerate(episodes[number : number + 3])
        ]
        graph.keep(
            f'D{number}',
            Recollection(tuple(some), tuple(replace(one, session=f'D{number}') for one in units if not number)),
        )
    return graph


def episode(number, cues, tag='song', time=None, speaker='Ada', text=''):
    return Episode(
        f'e{number:02}',
        text or f'event {number}',
        (f't{number}',),
        time,
        speaker,
        DAY,
        title='An event',
        tag=tag,
        cues=tuple(cues),
    )


made = st.tuples(
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=4),
    st.sampled_from(TAGS),
    st.sampled_from(TIMES),
    st.sampled_from(NAMES),
)
worlds = st.lists(made, max_size=8).map(
    lambda some: graph_of([episode(number, *one) for number, one in enumerate(some)])
)
wakings = st.lists(st.tuples(st.sampled_from(ASKED), st.sampled_from([0.2, 0.3, 1.0])), max_size=5)
questions = st.sampled_from(QUESTIONS)


def woken(graph, question, given_wakings, **options):
    awake = Activation(graph, question, **options)
    for cue, weight in given_wakings:
        awake.activate(cue, weight)
    return awake


# ------------------------------------------------------------------ the oracle: sums over the list of triples


def cosines(labels, text):
    """Of each label with a text, by its id, in float64."""
    ids = sorted(one.id for one in labels.index)
    rows = np.array(WordLlamaEmbedder()([*(labels.spelling(id) for id in ids), text]), float)
    rows /= np.where(lengths := np.sqrt((rows**2).sum(axis=1, keepdims=True)), lengths, 1)
    return dict(zip(ids, (rows[:-1] @ rows[-1]).tolist()))


def by_days(span):
    """The ids of all months of a span, a day at a time, and of its years if it touches more than three months."""
    days = [span.start + timedelta(days=number) for number in range((span.end - span.start).days + 1)]
    months = {(day.year, day.month) for day in days}
    years = {day.year for day in days}
    if len(months) > 3 and len(years) > 10:
        return set()
    return {cue_id(f'{MONTHS[month - 1]} {year}') for year, month in months} | {
        cue_id(str(year)) for year in years if len(months) > 3
    }


def degree(graph, cue):
    return sum(one == cue for one, _, _ in graph.episodic)


def rarity(graph, count):
    return math.log(1 + len(graph.episodes) / max(1, count))


def given_weights(graph, wakings):
    """What each stored cue weighs, and each span, by the definitions."""
    degree, weights, times = Counter(cue for cue, _, _ in graph.episodic), Counter(), Counter()
    for cue, weight in wakings:
        span, parts = parse_date(cue), {}
        if cue_id(cue) in map(cue_id, graph.names):
            continue
        if span and span.start and span.end:
            times[span.start, span.end] = max(times[span.start, span.end], weight)
            continue
        if span is None and len(graph.cues):
            near = sorted(cosines(graph.cues, cue).items(), key=lambda pair: (-round(pair[1], 5), pair[0]))
            near = [pair for pair in near if pair[1] >= 0.5]
            best = [pair for pair in near if not are_lookalikes(cue, graph.cues.spelling(pair[0]), pair[1])]
            parts = {id: _LIKE * cosine for id, cosine in best[: _MOST + 1]}
        if cue in graph.cues:
            parts[cue_id(cue)] = 1
        for id, part in parts.items():
            if id not in map(cue_id, graph.names):
                weights[id] = max(weights[id], weight * part * rarity(graph, degree[id]))
    return +weights, times


def reasons(graph, wakings):
    """Of each episode the weights of what leads to it, with the cue and tag of each."""
    weights, times = given_weights(graph, wakings)
    found = {
        one.id: [(weights[cue], cue, tag) for cue, tag, content in graph.episodic if content == one.id and weights[cue]]
        for one in graph.episodes
    }
    for (start, end), weight in times.items():
        span = TimeSpan(start, end, 'span')
        ways = {
            content: (cue, tag)
            for cue, tag, content in graph.episodic
            if cue in by_days(span) and graph.episodes[content].time and graph.episodes[content].time.overlaps(span)
        }
        for one, way in ways.items():
            found[one].append((weight * rarity(graph, len(ways)), *way))
    return {one: some for one, some in found.items() if some}


def worth_of(graph, question, found, context, people):
    """The worth of each episode by its definition."""
    tags = graph.tags.index.scores(without_names(question, graph.names))
    low, high = min(tags.values(), default=0), max(tags.values(), default=0)
    sums = {one: sum(weight for weight, _, _ in some) for one, some in found.items()}
    worths = {}
    for one in {*sums, *context}:
        near = max(found[one])[2] if one in found else None
        worths[one] = (
            sums.get(one, 0) / max(sums.values(), default=1)
            + context.get(one, 0)
            + (_TAG * (tags[near] - low) / (high - low) if near and high > low else 0)
            + (_PERSON if len(people) == 1 and graph.episodes[one].speaker == people[0] else 0)
        )
    return worths


# ------------------------------------------------------------------ waking


@settings(max_examples=40)
@given(worlds, questions, wakings)
def test_scores_and_ways_are_sums_over_the_triples(graph, question, wakings):
    awake, expected = woken(graph, question, wakings), reasons(graph, wakings)
    assert awake.sums == pytest.approx(
        {one: sum(weight for weight, _, _ in some) for one, some in expected.items()}, abs=1e-5
    )
    for one, (weight, cue, tag) in awake.paths.items():
        assert weight == pytest.approx(max(expected[one])[0], abs=1e-5)
        assert any(known == pytest.approx(weight, abs=1e-5) for known, *_ in expected[one])
        assert one in graph.contents_from(cue, tag)


@settings(max_examples=40)
@given(worlds, wakings, st.sampled_from(ASKED), st.sampled_from([0.1, 0.3, 0.7, 1.0]))
def test_waking_never_lowers_and_says_whether_it_did_something(graph, wakings, cue, weight):
    awake = woken(graph, QUESTIONS[0], wakings)
    before = dict(awake.sums)
    said = awake.activate(cue, weight)
    assert awake.sums.keys() >= before.keys() and all(awake.sums[one] >= score for one, score in before.items())
    assert (
        said == (awake.sums != before)
        and awake.activate(cue, weight) is False
        and awake.activate(cue, weight / 2) is False
    )


@settings(max_examples=30)
@given(worlds, st.sampled_from(['Ada', 'ada', 'Bo Finn', 'Bo Finns']))
def test_a_name_wakes_nothing_but_may_be_turned_to(graph, name):
    awake = Activation(graph, 'Who sings?')
    assert awake.activate(name) is False or set(awake.weights).isdisjoint(map(cue_id, NAMES))
    assert set(awake.weights).isdisjoint(map(cue_id, NAMES))
    assert awake.turn_to(name) is True and awake.turn_to(name) is False and awake.turn_to('boat') is False
    assert awake.people == (next(known for known in NAMES if cue_id(known) == cue_id(name)),)


# ------------------------------------------------------------------ times


@given(st.dates(date(1990, 1, 1), date(2030, 1, 1)), st.integers(0, 4200))
def test_the_cues_of_a_span_are_those_of_its_days(start, days):
    span = TimeSpan(start, start + timedelta(days=days), 'span')
    found = _time_ids(span)
    assert set(found) == by_days(span) and len(set(found)) == len(found)


@settings(max_examples=30)
@given(worlds, st.sampled_from(['July 2024', '3 July 2024', 'summer 2024', '2024', '4 July 2024']))
def test_a_date_wakes_what_overlaps_it_and_nothing_else(graph, text):
    span = parse_date(text)
    closed = {one.id for one in graph.episodes if one.time and one.time.start and one.time.end}
    found = {one for one in closed if graph.episodes[one].time.overlaps(span)}
    awake = woken(graph, 'Who?', [(text, 1.0)])
    short = {
        one for one in found if graph.episodes[one].time.days <= 31 or span.days > 92
    }  # what is as long as a year is found by a year
    assert short <= awake.sums.keys() <= {one.id for one in graph.episodes if one.time and one.time.overlaps(span)}
    assert (
        set(awake.weights) <= {(span.start, span.end)} and len({round(score, 9) for score in awake.sums.values()}) <= 1
    )


# ------------------------------------------------------------------ what is offered


@settings(max_examples=40)
@given(
    worlds,
    questions,
    wakings,
    st.sets(st.integers(0, 7)),
    st.sets(st.integers(0, 7), max_size=2),
    st.integers(0, 6),
    st.booleans(),
)
def test_branches_are_a_sort_of_all_that_is_awake_and_unread(graph, question, wakings, read, events, most, tags):
    awake, known = woken(graph, question, wakings, tags=tags), {one.id for one in graph.episodes}
    context = {}
    for event in sorted({f'e{number:02}' for number in events} & known):
        awake.activate_beside(event)
        context |= {near: _CONTEXT for near in graph.around(event)}
    read = {f'e{number:02}' for number in read}
    found = {one: [(weight, *awake.paths[one][1:])] for one, weight in awake.sums.items()}
    worths = worth_of(graph, question, found, context, awake.people)
    if not tags:
        tagged = worth_of(graph, question, found, context, awake.people)
        full = woken(graph, question, wakings)
        worths = {
            one: worth - _TAG * full._tags.get(awake.paths[one][2], 0) if one in awake.paths else worth
            for one, worth in tagged.items()
        }
    assert awake.scores_of(worths) == pytest.approx(worths)
    exact, best = awake.scores_of(worths), {}
    for one in worths.keys() - read:
        pair = awake.paths[one][1:] if one in awake.paths else (awake.beside[one], '')
        best[pair] = max(best.get(pair, 0), exact[one])
    offered = awake.branches(read, most)
    assert offered == [awake._branch(*pair) for pair in sorted(best, key=lambda pair: (-best[pair], pair))[:most]]
    for way in offered:
        behind = set(graph.around(way.cue)) if way.kind == 'context' else awake.behind(way)
        assert behind - read and way.count == len(behind)
        assert (way.kind == 'context') == (way.tag == '')


@settings(max_examples=30)
@given(worlds, questions, wakings)
def test_who_follows_the_branches_reads_all_that_is_awake(graph, question, wakings):
    awake, read = woken(graph, question, wakings), set()
    while ways := awake.branches(read, 2):
        assert len(set(ways)) <= len(ways) <= 2
        new = awake.behind(ways[0]) - read
        assert new
        read |= new
    assert read >= awake.sums.keys()


# ------------------------------------------------------------------ neighbours, entries, aspects


@settings(max_examples=40)
@given(worlds, st.lists(st.integers(0, 7), unique=True, max_size=4))
def test_an_entry_is_by_the_rarest_cue_in_the_order_given(graph, chosen):
    chosen = [one for one in (f'e{number:02}' for number in chosen) if one in graph.episodes]
    awake = Activation(graph, 'Who?')
    awake.enter(iter(chosen))
    assert awake.sums == {one: 1 / (1 + place) for place, one in enumerate(chosen)}
    for one, (_, cue, tag) in awake.paths.items():
        mine = [(degree(graph, other), other) for other, _, content in graph.episodic if content == one]
        assert degree(graph, cue) == min(mine)[0] and cue == max(
            other for degree, other in mine if degree == min(mine)[0]
        )
        assert (cue, tag, one) in graph.episodic


def unit(number, person, aspect):
    return SemanticUnit(f'u{number}', f'fact {number}', (f't{number}',), said=DAY, person=person, aspect=aspect)


def test_aspects_are_offered_for_the_people_asked_about_nearest_first():
    units = [
        unit(0, 'Ada', 'music'),
        unit(1, 'Ada', 'pets'),
        unit(2, 'Bo Finn', 'music'),
        unit(3, 'Ada', 'sailing boats'),
        unit(4, 'Ada', 'music'),
    ]
    graph = graph_of([episode(0, ['boat'])], units)
    awake = Activation(graph, 'Which instrument does Ada play in the band?')
    expected = sorted(
        (one for one in ('music', 'pets', 'sailing boats') if awake._aspects[cue_id(one)] >= _ASPECT),
        key=lambda one: -awake._aspects[cue_id(one)],
    )
    assert 'music' in expected and len(expected) < 3
    assert awake.aspect_branches() == [Branch('Ada', one, {'music': 2}.get(one, 1), 'aspect') for one in expected]
    assert Activation(graph, 'Which instrument do people play in the band?').aspect_branches() == []
    assert Activation(graph, 'Which instrument does Ada play in the band?', units=False).aspect_branches() == []
    awake = Activation(graph, 'Does Ada like music or pets?')
    near = [awake._aspects[cue_id(way.tag)] for way in awake.aspect_branches()]
    assert len(near) >= 2 and near == sorted(near, reverse=True)
    both = Activation(graph, 'Which instrument do Ada and Bo Finn play in the band?').aspect_branches()
    assert [way.cue for way in both][:2] == ['Ada', 'Bo Finn']
