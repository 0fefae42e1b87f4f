"""What is awake against sums over plain triples, and what is offered against a sort of everything that is awake."""
import inspect
import math
import re
from collections import Counter
from dataclasses import replace
from datetime import date, datetime, timedelta
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memnb.mragent import activation as module
from memnb.mragent.activation import (
    Activation, ASPECT, aspect_scores, CONTEXT, CUES, ENTRY, LIKE, MOST, NEAR, PERSON, TAG,
    tag_nearness, time_ids)
from memnb.rules.mragent import cues_rule, dates_in
from memnb.mragent.prompts import ASPECTS
from memnb.mragent.graph import cue_id, Episode, SemanticUnit
from memnb.mragent.graph import Branch
from memnb.mragent.tools import CueTagGraph
from memnb.evaluation.datasets import load_sample
from memnb.retrieval.vectors import without_names, WordLlamaEmbedder
from memnb.mragent.loop import MRAgent
from memnb.retrieval.bm25 import UnknownSnippet
from memnb.mragent.prompts import Recollection
from memnb.core.time import MONTHS
from memnb.core.time import parse_date, TimeSpan

NAMES = ('Ada', 'Bo Finn')
WORDS = ('boat', 'boats', 'ship', 'concert', 'concertina', 'music', 'Ada', 'bo finn', 'lesson', '2024')
TAGS = ('boat trip', 'Boat Trips', 'ship trip', 'music lesson', 'song')
ASKED = ('boat', 'Ships', 'concert', 'musical', 'Ada', 'zebra', '', '…', 'July 2024', '3 July 2024', '2024', 'since 2019', 'summer 2024')
QUESTIONS = ('When did Ada take a boat?', 'What music do Ada and Bo Finn like?', 'Who sings?', 'Did Bo Finn hear the concert?')
TIMES = (None, TimeSpan.day(date(2024, 7, 3)), TimeSpan.month(2024, 7), TimeSpan.month(2024, 5), TimeSpan.year(2024), TimeSpan(date(2019, 1, 1), None, 'year'))
DAY = datetime(2024, 7, 9, 18)


class Letters:
    """Counts some letters: enough for the episodes, which are only searched here."""
    name = 'letters'

    def __call__(self, texts):
        return np.array([[text.count(letter) for letter in 'aeiou'] for text in texts], float)


def graph_of(episodes, units=(), names=NAMES, **options):
    """A graph of sessions of three episodes."""
    graph = CueTagGraph(names=names, embedder=Letters(), **options)
    for number in range(0, max(len(episodes), 1), 3):
        some = [replace(one, session=f'D{number}', position=place) for place, one in enumerate(episodes[number:number + 3])]
        graph.keep(f'D{number}', Recollection(tuple(some), tuple(replace(one, session=f'D{number}') for one in units if not number)))
    return graph


def episode(number, cues, tag='song', time=None, speaker='Ada', text=''):
    return Episode(f'e{number:02}', text or f'event {number}', (f't{number}',), time, speaker, DAY, title='An event', tag=tag, cues=tuple(cues))


made = st.tuples(st.lists(st.sampled_from(WORDS), min_size=1, max_size=4), st.sampled_from(TAGS), st.sampled_from(TIMES), st.sampled_from(NAMES))
worlds = st.lists(made, max_size=8).map(lambda some: graph_of([episode(number, *one) for number, one in enumerate(some)]))
wakings = st.lists(st.tuples(st.sampled_from(ASKED), st.sampled_from([.2, .3, 1.0])), max_size=5)
questions = st.sampled_from(QUESTIONS)


def woken(graph, question, given_wakings, **options):
    awake = Activation(graph, question, **options)
    for cue, weight in given_wakings:
        awake.wake(cue, weight)
    return awake


# ------------------------------------------------------------------ the oracle: sums over the list of triples

def cosines(labels, text):
    """Of each label with a text, by its id, in float64."""
    ids = sorted(one.id for one in labels.index)
    rows = np.array(WordLlamaEmbedder()([*(labels.shown(id) for id in ids), text]), float)
    rows /= np.where(lengths := np.sqrt((rows ** 2).sum(axis=1, keepdims=True)), lengths, 1)
    return dict(zip(ids, (rows[:-1] @ rows[-1]).tolist()))


def by_days(span):
    """The ids of all months of a span, a day at a time, and of its years if it touches more than three months."""
    days = [span.start + timedelta(days=number) for number in range((span.end - span.start).days + 1)]
    months = {(day.year, day.month) for day in days}
    years = {day.year for day in days}
    if len(months) > 3 and len(years) > 10:
        return set()
    return {cue_id(f'{MONTHS[month - 1]} {year}') for year, month in months} | {cue_id(str(year)) for year in years if len(months) > 3}


def rarity(graph, count):
    return math.log(1 + len(graph.episodes) / max(1, count))


def given_weights(graph, wakings):
    """What each stored cue weighs, and each span, by the definitions."""
    degree, weights, times = Counter(cue for cue, _, _ in graph.episodic), Counter(), Counter()
    for cue, weight in wakings:
        span, parts = parse_date(cue), {}
        if span and span.start and span.end:
            times[span.start, span.end] = max(times[span.start, span.end], weight)
            continue
        if span is None and len(graph.cues):
            best = sorted(cosines(graph.cues, cue).items(), key=lambda pair: (-round(pair[1], 5), pair[0]))[:MOST + 1]
            parts = {id: LIKE * cosine for id, cosine in best if cosine >= NEAR}
        if cue in graph.cues:
            parts[cue_id(cue)] = 1
        for id, part in parts.items():
            if id not in map(cue_id, graph.names):
                weights[id] = max(weights[id], weight * part * rarity(graph, degree[id]))
    return +weights, times


def reasons(graph, wakings):
    """Of each episode the weights of what leads to it, with the cue and tag of each."""
    weights, times = given_weights(graph, wakings)
    found = {one.id: [(weights[cue], cue, tag) for cue, tag, content in graph.episodic if content == one.id and weights[cue]] for one in graph.episodes}
    for (start, end), weight in times.items():
        span = TimeSpan(start, end, 'span')
        ways = {content: (cue, tag) for cue, tag, content in graph.episodic
                if cue in by_days(span) and graph.time_of(content) and graph.time_of(content).overlaps(span)}
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
        worths[one] = (sums.get(one, 0) / max(sums.values(), default=1) + context.get(one, 0)
                       + (TAG * (tags[near] - low) / (high - low) if near and high > low else 0)
                       + (PERSON if len(people) == 1 and graph.episodes[one].speaker == people[0] else 0))
    return worths


# ------------------------------------------------------------------ waking

@settings(max_examples=40)
@given(worlds, questions, wakings)
def test_scores_and_ways_are_sums_over_the_triples(graph, question, wakings):
    awake, expected = woken(graph, question, wakings), reasons(graph, wakings)
    assert awake.scores == pytest.approx({one: sum(weight for weight, _, _ in some) for one, some in expected.items()}, abs=1e-5)
    for one, (weight, cue, tag) in awake.ways.items():
        assert weight == pytest.approx(max(expected[one])[0], abs=1e-5)
        assert any(known == pytest.approx(weight, abs=1e-5) for known, *_ in expected[one])
        assert one in graph.contents_from(cue, tag)


@settings(max_examples=25)
@given(worlds, questions, st.lists(st.tuples(st.sampled_from(ASKED), st.sampled_from([.3, 1.0])), max_size=3))
def test_neither_order_nor_repetition_matters(graph, question, wakings):
    first = woken(graph, question, wakings)
    for order in permutations(wakings):
        other = woken(graph, question, [*order, *wakings])
        assert other.scores == pytest.approx(first.scores) and other.weights == pytest.approx(first.weights) and other.times == first.times
        assert {one: way[1:] for one, way in other.ways.items()} == {one: way[1:] for one, way in first.ways.items()}


@settings(max_examples=40)
@given(worlds, wakings, st.sampled_from(ASKED), st.sampled_from([.1, .3, .7, 1.0]))
def test_waking_never_lowers_and_says_whether_it_did_something(graph, wakings, cue, weight):
    awake = woken(graph, QUESTIONS[0], wakings)
    before = dict(awake.scores)
    said = awake.wake(cue, weight)
    assert awake.scores.keys() >= before.keys() and all(awake.scores[one] >= score for one, score in before.items())
    assert said == (awake.scores != before) and awake.wake(cue, weight) is False and awake.wake(cue, weight / 2) is False


@settings(max_examples=40)
@given(worlds, wakings, st.sampled_from([.2, .5]))
def test_a_stronger_weight_never_lowers_a_score(graph, wakings, part):
    strong, weak = (woken(graph, QUESTIONS[0], [(cue, factor * weight) for cue, weight in wakings]) for factor in (1, part))
    assert strong.scores.keys() == weak.scores.keys()
    assert all(strong.scores[one] >= weak.scores[one] for one in weak.scores)


def test_a_time_that_comes_again_with_more_weight_is_woken_by_the_difference():
    graph = graph_of([episode(0, ['boat'], time=TIMES[1]), episode(1, ['ship'])])
    weak, strong = woken(graph, 'Who?', [('3 July 2024', .3)]), woken(graph, 'Who?', [('3 July 2024', .3), ('July 3, 2024', 1.0)])
    assert weak.scores == pytest.approx({'e00': .3 * math.log(3)}) and strong.scores == pytest.approx({'e00': math.log(3)})


@settings(max_examples=30)
@given(worlds)
def test_the_fewer_a_cue_leads_to_the_rarer_it_is(graph):
    awake = Activation(graph, 'Who?')
    for cue in (*graph.episodic.cues, 'zebra'):
        assert awake.rarity(cue) == awake.rarity(cue) == math.log(1 + len(graph.episodes) / max(1, graph.degree(cue)))
    ranked = sorted(graph.episodic.cues, key=graph.degree)
    assert [awake.rarity(cue) for cue in ranked] == sorted((awake.rarity(cue) for cue in ranked), reverse=True)


@settings(max_examples=30)
@given(worlds, st.sampled_from(['Ada', 'ada', 'Bo Finn', 'Bo Finns']))
def test_a_name_wakes_nothing_but_may_be_turned_to(graph, name):
    awake = Activation(graph, 'Who sings?')
    assert awake.wake(name) is False or set(awake.weights).isdisjoint(map(cue_id, NAMES))
    assert set(awake.weights).isdisjoint(map(cue_id, NAMES))
    assert awake.turn_to(name) is True and awake.turn_to(name) is False and awake.turn_to('boat') is False
    assert awake.people == (next(known for known in NAMES if cue_id(known) == cue_id(name)),)


def test_a_speaker_is_one_cue_among_others_where_no_names_are_known():
    graph = graph_of([episode(0, ['Ada']), episode(1, ['boat'])], names=())
    assert woken(graph, 'Who?', [('Ada', 1.0)]).scores.keys() == {'e00'}


def test_what_is_near_is_woken_by_a_part():
    graph = graph_of([episode(0, ['concertina']), episode(1, ['ship']), episode(2, ['zoo'])])
    near = cosines(graph.cues, 'concert')
    assert NEAR < near['concertina'] and max(near['zoo'], near['ship']) < NEAR
    awake = woken(graph, 'Who?', [('concert', 1.0)])
    assert awake.scores == pytest.approx({'e00': LIKE * near['concertina'] * math.log(4)}, abs=1e-5)
    weak = woken(graph, 'Who?', [('concert', .5)])
    assert weak.scores['e00'] == pytest.approx(awake.scores['e00'] / 2)


def test_an_open_time_is_woken_as_it_is_written_and_no_other():
    graph = graph_of([episode(0, ['2019']), episode(1, ['2018'], time=TimeSpan.year(2020))])
    assert parse_date('since 2019').end is None and cosines(graph.cues, 'since 2019')['2018'] >= NEAR
    awake = Activation(graph, 'Who?')
    assert awake.wake('since 2019') and awake.weights.keys() == {'2019'} and not awake.times and awake.scores.keys() == {'e00'}


def test_no_more_than_three_are_woken_because_they_are_near():
    graph = graph_of([episode(number, [cue]) for number, cue in enumerate(('concerts hall', 'concert hall', 'hall concert', 'concert room', 'concert', 'concert band', 'concerts abroad'))])
    assert sum(cosine >= NEAR for cosine in cosines(graph.cues, 'concert').values()) > MOST + 1 == 4
    assert len(woken(graph, 'Who?', [('concert', 1.0)]).weights) == MOST + 1


def test_nothing_is_awake_in_an_empty_memory():
    awake = woken(CueTagGraph(names=NAMES), QUESTIONS[0], [(cue, 1.0) for cue in ASKED])
    assert (awake.scores, awake.branches((), 9), awake.aspect_branches(), awake.nearness('song')) == ({}, [], [], 0.0)


# ------------------------------------------------------------------ times

@given(st.dates(date(1990, 1, 1), date(2030, 1, 1)), st.integers(0, 4200))
def test_the_cues_of_a_span_are_those_of_its_days(start, days):
    span = TimeSpan(start, start + timedelta(days=days), 'span')
    found = time_ids(span)
    assert set(found) == by_days(span) and len(set(found)) == len(found)


def test_an_open_span_and_a_very_long_one_have_no_cues():
    assert time_ids(TIMES[-1]) == time_ids(TimeSpan(date(1900, 1, 1), date(2000, 1, 1), 'span')) == []


@pytest.mark.parametrize('text, dates', [
    ('What did Ada do on 8 January 2024?', ['8 January 2024']), ('And in July 2023, or in 2022?', ['July 2023', '2022']),
    ('What did she do last week, or yesterday?', []), ('Who sang in May?', []), ('Who won?', []), ('', []),
    ('Was it on May 23, 2023 or in the summer of 2022?', ['May 23, 2023', 'summer of 2022'])])
def test_dates_are_those_that_need_no_day_to_reckon_from(text, dates):
    assert dates_in(text) == dates and cues_rule(text, NAMES).cues[len(cues_rule(text, NAMES).cues) - len(dates):] == dates


@settings(max_examples=30)
@given(worlds, st.sampled_from(['July 2024', '3 July 2024', 'summer 2024', '2024', '4 July 2024']))
def test_a_date_wakes_what_overlaps_it_and_nothing_else(graph, text):
    span = parse_date(text)
    closed = {one.id for one in graph.episodes if one.time and one.time.start and one.time.end}
    found = {one for one in closed if graph.time_of(one).overlaps(span)}
    awake = woken(graph, 'Who?', [(text, 1.0)])
    short = {one for one in found if graph.time_of(one).days <= 31 or span.days > 92}  # what is as long as a year is found by a year
    assert short <= awake.scores.keys() <= {one.id for one in graph.episodes if one.time and one.time.overlaps(span)}
    assert not awake.weights and len({round(score, 9) for score in awake.scores.values()}) <= 1


# ------------------------------------------------------------------ what is offered

@settings(max_examples=40)
@given(worlds, questions, wakings, st.sets(st.integers(0, 7)), st.sets(st.integers(0, 7), max_size=2), st.integers(0, 6), st.booleans())
def test_branches_are_a_sort_of_all_that_is_awake_and_unread(graph, question, wakings, read, events, most, tags):
    awake, known = woken(graph, question, wakings, tags=tags), {one.id for one in graph.episodes}
    context = {}
    for event in sorted({f'e{number:02}' for number in events} & known):
        awake.wake_around(event)
        context |= {near: CONTEXT for near in graph.around(event)}
    read = {f'e{number:02}' for number in read}
    found = {one: [(weight, *awake.ways[one][1:])] for one, weight in awake.scores.items()}
    worths = worth_of(graph, question, found, context, awake.people)
    if not tags:
        tagged = worth_of(graph, question, found, context, awake.people)
        near = {one: TAG * tag_nearness(graph, without_names(question, NAMES))(awake.ways[one][2]) if one in awake.ways else 0 for one in tagged}
        worths = {one: worth - near[one] for one, worth in tagged.items()}
    assert awake.worths(worths) == pytest.approx(worths)
    exact, best = awake.worths(worths), {}
    for one in worths.keys() - read:
        pair = awake.ways[one][1:] if one in awake.ways else (awake.context[one][1], '')
        best[pair] = max(best.get(pair, 0), exact[one])
    offered = awake.branches(read, most)
    assert offered == [awake.branch(*pair) for pair in sorted(best, key=lambda pair: (-best[pair], pair))[:most]]
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
    assert read >= awake.scores.keys()


@settings(max_examples=25)
@given(st.lists(made, max_size=6), questions, wakings, st.randoms(use_true_random=False))
def test_the_order_of_sessions_does_not_matter(some, question, wakings, chance):
    forward = graph_of([episode(number, *one) for number, one in enumerate(some)])
    other, sessions = CueTagGraph(names=NAMES, embedder=Letters()), list(forward.sessions)
    chance.shuffle(sessions)
    for session in sessions:
        other.keep(session, forward.extract_of(session))
    one, two = woken(forward, question, wakings), woken(other, question, wakings)
    assert one.scores == two.scores and one.ways == two.ways and one.branches((), 9) == two.branches((), 9)


def test_episodes_that_differ_in_the_speaker_alone():
    graph = graph_of([episode(0, ['boat'], speaker='Bo Finn'), episode(1, ['boat'], speaker='Ada'), episode(2, ['boat'], speaker=None)])
    one = woken(graph, 'When did Ada take a boat?', [('boat', 1.0)])
    assert one.worths(['e01'])['e01'] == one.worths(['e00'])['e00'] + PERSON == one.worths(['e02'])['e02'] + PERSON
    two = woken(graph, 'When did Ada and Bo Finn take a boat?', [('boat', 1.0)])
    assert len(set(two.worths(['e00', 'e01', 'e02']).values())) == 1
    assert two.turn_to('Bo Finn') and two.worths(['e00'])['e00'] > two.worths(['e01'])['e01']


def test_a_nearer_tag_comes_first_and_is_half_a_top_score():
    graph = graph_of([episode(0, ['boat'], tag='song'), episode(1, ['boat'], tag='boat trip'), episode(2, ['boat'], tag='music lesson')])
    awake = woken(graph, 'Which boat trip?', [('boat', 1.0)])
    worths = awake.worths(awake.scores)
    assert awake.branches((), 1) == [Branch('boat', 'boat trip', 1)] and max(worths.values()) == worths['e01'] == 1 + TAG and min(worths.values()) == 1


def test_a_branch_is_worth_the_best_episode_behind_it():
    behind = [episode(number, ['boat'], speaker='Ada' if number == 2 else 'Bo Finn') for number in range(7)]
    graph = graph_of([*behind, episode(7, ['zoo'], tag='music lesson', speaker='Bo Finn')])
    awake = woken(graph, 'When did Ada take a boat?', [('boat', 1.0), ('zoo', .8)], tags=False)
    worths = awake.worths(awake.scores)
    assert worths['e02'] > worths['e07'] > worths['e03'] == worths['e06']
    assert [way.cue for way in awake.branches((), 9)] == ['boat', 'zoo'] and [way.cue for way in awake.branches(['e02'], 9)] == ['zoo', 'boat']


def test_of_equal_branches_the_first_in_the_alphabet_comes_first():
    cues = ['zoo', 'violin', 'lamp', 'tram', 'bread', 'greenhouse', 'island', 'mittens']
    graph = graph_of([episode(number, [cue]) for number, cue in enumerate(cues)])
    awake = woken(graph, 'Who?', [(cue, 1.0) for cue in cues])
    assert len(set(awake.worths(awake.scores).values())) == 1 and [way.cue for way in awake.branches((), 5)] == sorted(cues)[:5]


@settings(max_examples=30)
@given(worlds, questions)
def test_the_nearness_of_tags_is_that_of_their_index(graph, question):
    scores = graph.tags.index.scores(question)
    low, high = min(scores.values(), default=0), max(scores.values(), default=0)
    near = tag_nearness(graph, question)
    assert {tag: near(tag) for tag in scores} == {tag: (score - low) / (high - low) if high > low else 0 for tag, score in scores.items()}
    assert near('no such tag') == 0


def test_merged_tags_open_one_branch_each_and_count_all_behind_them():
    graph = graph_of([episode(0, ['boat'], tag='boat trip'), episode(1, ['boat'], tag='boat journey')], merge=.5)
    assert len(graph.tags.merged('boat trip')) == 2
    awake = woken(graph, 'Who?', [('boat', 1.0)])
    assert {way.count for way in awake.branches((), 9)} == {2} and awake.behind(awake.branches((), 1)[0]) == {'e00', 'e01'}


def test_two_tellings_of_one_event_count_once():
    same = 'Ada took the boat to the island and sang.'
    graph = graph_of([episode(0, ['boat'], text=same), episode(1, ['boat'], text=same), episode(2, ['boat'], text='Bo went home.')], consolidate=.999)
    assert len(graph.tellings('e00')) == 2
    assert woken(graph, 'Who?', [('boat', 1.0)]).branches((), 1)[0].count == 2


# ------------------------------------------------------------------ neighbours, entries, aspects

def test_a_neighbour_keeps_the_best_word_for_it():
    graph = graph_of([episode(number, ['boat']) for number in range(3)])
    awake = Activation(graph, 'Who?')
    awake.wake_around('e01', .2)
    assert awake.context == {'e00': (.2, 'e01'), 'e02': (.2, 'e01')}
    awake.wake_around('e01', .1)
    assert awake.context['e00'] == (.2, 'e01')
    awake.wake_around('e01')
    assert awake.context['e00'] == (CONTEXT, 'e01')
    assert awake.branches((), 9) == [Branch('e01', '', 2, 'context')] and awake.branches(['e00', 'e02'], 9) == []
    with pytest.raises(UnknownSnippet):
        awake.wake_around('e99')


@settings(max_examples=40)
@given(worlds, st.lists(st.integers(0, 7), unique=True, max_size=4))
def test_an_entry_is_by_the_rarest_cue_in_the_order_given(graph, chosen):
    chosen = [one for one in (f'e{number:02}' for number in chosen) if one in graph.episodes]
    awake = Activation(graph, 'Who?')
    awake.enter(iter(chosen))
    assert awake.scores == {one: 1 / (1 + place) for place, one in enumerate(chosen)}
    for one, (_, cue, tag) in awake.ways.items():
        mine = [(graph.degree(other), other) for other, _, content in graph.episodic if content == one]
        assert graph.degree(cue) == min(mine)[0] and cue == max(other for degree, other in mine if degree == min(mine)[0])
        assert (cue, tag, one) in graph.episodic


def test_where_no_cue_fits_the_walk_enters_by_a_search_once_and_says_so():
    graph = graph_of([episode(number, ['boat'], text=f'Ada rows the boat, {number}.') for number in range(7)])
    walks = [step for step in MRAgent(graph, stop_early=False).ask('Who is at the zebra crossing?').steps if step.kind == 'walk']
    assert walks[0].searched and walks[0].reasoning.startswith('No cue of the question is stored.') and sum(step.searched for step in walks) == 1
    found = MRAgent(graph, breadth=1).ask('Who rows the boat?')
    walk = next(step for step in found.steps if step.kind == 'walk')
    assert not walk.searched and walk.reasoning.startswith('Awake: ')
    assert ENTRY >= 5


def unit(number, person, aspect):
    return SemanticUnit(f'u{number}', f'fact {number}', (f't{number}',), said=DAY, person=person, aspect=aspect)


def test_aspects_are_offered_for_the_people_asked_about_nearest_first():
    units = [unit(0, 'Ada', 'music'), unit(1, 'Ada', 'pets'), unit(2, 'Bo Finn', 'music'), unit(3, 'Ada', 'sailing boats'), unit(4, 'Ada', 'music')]
    graph = graph_of([episode(0, ['boat'])], units)
    scores = aspect_scores(graph, 'Which instrument does she play in the band?')
    rows = np.array(WordLlamaEmbedder()(['Which instrument does she play in the band?', ASPECTS['music'], 'sailing boats', ASPECTS['pets']]), float)
    rows /= np.sqrt((rows ** 2).sum(axis=1, keepdims=True))
    assert scores['music'] == pytest.approx(rows[0] @ rows[1]) and scores[cue_id('sailing boats')] == pytest.approx(rows[0] @ rows[2])
    assert scores['pet'] == pytest.approx(rows[0] @ rows[3])
    awake = Activation(graph, 'Which instrument does Ada play in the band?')
    expected = sorted((one for one in ('music', 'pets', 'sailing boats') if awake.aspects[cue_id(one)] >= ASPECT), key=lambda one: -awake.aspects[cue_id(one)])
    assert 'music' in expected and len(expected) < 3
    assert awake.aspect_branches() == [Branch('Ada', one, {'music': 2}.get(one, 1), 'aspect') for one in expected]
    assert Activation(graph, 'Which instrument do people play in the band?').aspect_branches() == []
    assert Activation(graph, 'Which instrument does Ada play in the band?', units=False).aspect_branches() == []
    for question in ('Which song does Ada sing to her pet dog?', 'Does Ada play the guitar and sing to dog and cat?'):
        awake = Activation(graph, question)
        found = awake.aspect_branches()
        assert len(found) >= 2 and [awake.aspects[cue_id(way.tag)] for way in found] == sorted((awake.aspects[cue_id(way.tag)] for way in found), reverse=True)
    both = Activation(graph, 'Which instrument do Ada and Bo Finn play in the band?').aspect_branches()
    assert [way.cue for way in both][:2] == ['Ada', 'Bo Finn']


# ------------------------------------------------------------------ the role, and what it may see

def test_the_role_of_cues():
    system, user = CUES.render({'question': 'Where did {Ada} go?', 'speakers': NAMES})
    assert user.endswith('Question: Where did {Ada} go?') and 'People: Ada, Bo Finn' in user and '"cues"' in system and '{{' not in system
    assert 'People: not known' in CUES.render({'question': 'Who?', 'speakers': ()})[1]
    assert cues_rule('What did Ada buy with Bo Finn in July 2024?', NAMES).cues == ['Ada', 'Bo Finn', 'buy', 'July 2024']


def test_no_gold_is_seen():
    assert list(inspect.signature(Activation).parameters) == ['graph', 'question', 'tags', 'units']
    assert not re.search(r'\.(category|evidence|answer|adversarial_answer)\b', inspect.getsource(module))
    sample = load_sample()
    blind, seeing = CueTagGraph.of(replace(sample, questions=())), CueTagGraph.of(sample)
    for one in sample.questions[::4]:
        asked = [(cue, 1.0) for cue in cues_rule(one.text, seeing.names).cues]
        first, second = woken(blind, one.text, asked), woken(seeing, one.text, asked)
        assert (first.scores, first.branches((), 30), first.aspect_branches()) == (second.scores, second.branches((), 30), second.aspect_branches())
