"""The gist graph against Algorithm 1 written down naively, and its tools against scans of everything that was put in."""

import json
import math
import tempfile
from collections import Counter
from dataclasses import replace
from datetime import date, datetime
from itertools import count
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from fakes import Buckets
from memnb.remem.prompts import Extract
from memnb.remem.facts import Fact, Gist, OPERATORS, Window
from memnb.remem.graph import _VOTE, _VOTERS, FactTable, GistGraph
from memnb.remem.tools import _best, GraphTools, PAGE_SIZE
from memnb.core.roles import RuleLM
from memnb.evaluation.datasets import load_sample
from memnb.evaluation.examples import ExampleLM
from memnb.core.conversation import DuplicateSnippet, Session, Turn
from memnb.core.run import Run
from memnb.core.storage import DuplicateSession, UnknownSession
from memnb.core.time import TimeSpan
from memnb.core.tools import Observation, ToolError
from memnb.retrieval.vectors import DenseIndex

THRESHOLD = 0.8123  # no cosine of two small vectors of whole numbers comes near it
WORDS = ('cow', 'tram', 'bun', 'harbour', 'clock', 'Ada', 'Bo', 'lamp')
PHRASES = ('Ada', 'ada', 'Bo', 'Tram', 'tram', 'the clock', 'harbour lamp', 'bun  cow', 'moon')
PREDICATES = ('bought', 'Bought', 'lost', 'moved to')
TIMES = ('1950', '1951-03', '1951-03-04', '1953', '1960-12')


def graph_of(extracts: dict[str, Extract], **options) -> GistGraph:
    graph = GistGraph(**{'embedder': Buckets(), 'synonymy': THRESHOLD, **options})
    for session, found in extracts.items():
        graph.keep(session, found)
    return graph


@st.composite
def extracts(draw, session: str, most: int = 4) -> Extract:
    said = datetime(1951, 1 + int(session[1:]) % 12, 5, 10)
    turns = st.lists(st.sampled_from([f'{session}:{turn}' for turn in range(3)]), min_size=1, max_size=3)
    times = st.none() | st.sampled_from(TIMES)
    gists, facts = [], []
    for place in range(draw(st.integers(0, most))):
        text = ' '.join(draw(st.lists(st.sampled_from(WORDS), min_size=1, max_size=5)))
        day = TimeSpan.day(draw(st.sampled_from([date(1950, 2, 3), date(1951, 3, 4)])))
        gists.append(
            Gist(
                f'{session}/g{place}',
                text,
                tuple(draw(turns)),
                draw(st.sampled_from([None, day])),
                None,
                said,
                session,
                place,
            )
        )
    for place in range(draw(st.integers(0, most))):
        start, end = sorted([draw(times), draw(times)], key=str)
        start, end = (None if start == 'None' else start), (None if end == 'None' else end)
        phrases = draw(st.sampled_from(PHRASES)), draw(st.sampled_from(PREDICATES)), draw(st.sampled_from(PHRASES))
        facts.append(
            Fact.of(
                *phrases,
                start_time=start,
                end_time=end,
                record_time=said,
                sources=tuple(draw(turns)),
                id=f'{session}/f{place}',
                session=session,
                position=place,
            )
        )
    return Extract(tuple(gists), tuple(facts))


def worlds(sessions: int = 3, most: int = 4):
    "Extracts of some sessions, in a drawn order."
    names = [f'S{number}' for number in range(sessions)]
    return st.permutations(names).flatmap(
        lambda order: st.tuples(*(extracts(name, most) for name in order)).map(lambda found: dict(zip(order, found)))
    )


def key(text: str) -> str:
    return ' '.join(text.split()).lower()


def algorithm_1(found: dict[str, Extract]) -> dict:
    "Algorithm 1 of the paper, line by line."
    gists, phrases, relations, context, synonymy = {}, set(), [], set(), {}
    for session in sorted(found):
        local = set()
        for gist in found[session].gists:
            gists[gist.id] = gist.text
        for fact in found[session].facts:
            phrases |= {key(fact.subject), key(fact.object)}
            relations.append((frozenset([key(fact.subject), key(fact.object)]), fact.id, fact.predicate))
            local |= {key(fact.subject), key(fact.object)}
        for gist in found[session].gists:
            context |= {(gist.id, phrase) for phrase in local}
    rows = {id: Buckets()([text])[0] for id, text in gists.items()}
    for a in gists:
        for b in gists:
            lengths = math.sqrt(float(rows[a] @ rows[a])) * math.sqrt(float(rows[b] @ rows[b]))
            if a < b and float(rows[a] @ rows[b]) / lengths >= THRESHOLD:
                synonymy[a, b] = float(rows[a] @ rows[b]) / lengths
    return {'gists': gists, 'phrases': phrases, 'relations': relations, 'context': context, 'synonymy': synonymy}


def told(observation: Observation) -> tuple:
    "Everything that an observation says, scores to the last bit."
    return observation.line, observation.value, [(hit.snippet, hit.score) for hit in observation.hits]


def snapshot(graph: GistGraph) -> dict:
    "All that can be seen of a graph."
    tools = {tool.name: tool for tool in graph.tools()}
    years = {'start_time': '1951', 'end_time': '1950', 'start_operator': 'le', 'end_operator': 'ge'}
    seen = {
        'counts': graph.counts(),
        'sessions': graph.sessions,
        'chunks': graph.chunks,
        'synonyms': graph.synonyms,
        'phrases': graph.chunks_of,
        'gists': {gist.id: graph.phrases_of(gist.id) for gist in graph.gists},
        'turns': graph.by_turn,
    }
    for query in ('Ada cow tram', 'the harbour clock', 'zzz'):
        seen[query] = [(hit.snippet, hit.score) for hit in graph.search(query, 7)]
        for name in ('semantic_retrieve', 'lexical_retrieve'):
            seen[name, query] = told(tools[name](query=query)), told(tools[name](query=query, **years))
    for gist in graph.gists:
        seen[gist.id] = (
            told(tools['find_gist_contexts'](gist_id=gist.id)),
            told(tools['find_gist_contexts'](gist_id=gist.id, **years)),
        )
    for phrase in ('ada', 'TRAM', 'nowhere', 'cow'):
        for name in ('subject', 'predicate', 'object'):
            seen[name, phrase] = told(tools['find_entity_contexts'](**{name: phrase}, ordering='desc', limit=3))
    return seen


# the graph


@given(worlds())
@settings(max_examples=40)
def test_the_graph_is_that_of_algorithm_1(found):
    graph, plain = graph_of(found), algorithm_1(found)
    net = graph.to_networkx()
    edges = {
        kind: [(a, b, name, data) for a, b, name, data in net.edges(keys=True, data=True) if data['kind'] == kind]
        for kind in ('relation', 'context', 'synonymy')
    }
    assert set(net) == {('gist', id) for id in plain['gists']} | {('phrase', one) for one in plain['phrases']}
    pairs = [(a[1], b[1]) if a[0] == 'gist' else (b[1], a[1]) for a, b, _, _ in edges['context']]
    assert Counter(pairs) == Counter(plain['context'])
    relations = [(frozenset([a[1], b[1]]), name, data['label']) for a, b, name, data in edges['relation']]
    assert sorted(relations, key=lambda one: one[1]) == sorted(plain['relations'], key=lambda one: one[1])
    assert all(
        graph.facts[name].subject.lower().split() == data['subject'].split() for _, _, name, data in edges['relation']
    )
    near = {tuple(sorted([a[1], b[1]])): data['cosine'] for a, b, _, data in edges['synonymy']}
    assert near == pytest.approx(plain['synonymy'], abs=1e-6) and len(edges['synonymy']) == len(near)
    for gist in plain['gists']:
        assert set(graph.phrases_of(gist)) == {phrase for one, phrase in plain['context'] if one == gist}
        assert {b[1] for b in net[('gist', gist)] if b[0] == 'phrase'} == set(graph.phrases_of(gist))
    sizes = [len(plain[name]) for name in ('phrases', 'gists', 'relations', 'context', 'synonymy')]
    assert list(graph.counts().values()) == sizes


@given(worlds(2), extracts('S7'), st.integers(1, 2))
@settings(max_examples=14)
def test_an_embedder_that_fails_leaves_all_as_it_was(found, more, fails_at):
    embedder = Buckets()
    graph = graph_of(found, embedder=embedder)
    before = snapshot(graph)
    embedder.calls, embedder.fails_at = 0, fails_at
    needed = bool(more.gists) + bool(more.facts)
    if needed >= fails_at:
        with pytest.raises(RuntimeError, match='down'):
            graph.keep('S7', more)
    else:
        graph.keep('S7', more)
        graph.forget('S7')
    embedder.fails_at = None
    assert snapshot(graph) == before
    graph.keep('S7', more)
    assert snapshot(graph) == snapshot(graph_of({**found, 'S7': more}))


@pytest.mark.parametrize('owner, method', [(FactTable, 'add'), (DenseIndex, 'similar')])
def test_a_step_that_fails_undoes_those_before_it(owner, method, monkeypatch):
    graph, gist = graph_of({}), Gist('g', 'Ada lost a bun', ('S1:1',), session='S1')
    monkeypatch.setattr(owner, method, Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        graph.keep('S1', Extract((gist,)))
    monkeypatch.undo()
    assert snapshot(graph) == snapshot(graph_of({}))
    graph.keep('S1', Extract((gist,)))


# the tools


def scanned(facts, subject, predicate, object, window, ordering, limit, offset):
    "What is found by looking at every fact."

    def ordinal(day, missing):
        return missing if day is None else day.toordinal()

    kept = [
        fact
        for fact in facts
        if window.passes(fact)
        and all(
            wanted is None or key(wanted) == key(has)
            for wanted, has in ((subject, fact.subject), (predicate, fact.predicate), (object, fact.object))
        )
    ]
    late = 10**7
    orders = {
        'asc': lambda fact: (
            ordinal(fact.start and fact.start.start, late),
            ordinal(fact.end and fact.end.end, late),
            fact.id,
        ),
        'desc': lambda fact: (-ordinal(fact.end and fact.end.end, -1), fact.id),
        None: lambda fact: fact.id,
    }
    return sorted(kept, key=orders[ordering])[offset : None if limit is None else offset + limit]


@given(worlds(2, 5), st.data())
@settings(max_examples=60)
def test_find_entity_contexts_is_a_scan(found, data):
    def maybe(pool):
        return data.draw(st.none() | st.sampled_from(pool))

    graph = graph_of(found)
    phrases = {'subject': maybe(PHRASES), 'predicate': maybe(PREDICATES), 'object': maybe(PHRASES)}
    times = {
        'start_time': maybe(TIMES),
        'end_time': maybe(TIMES),
        'start_operator': data.draw(st.sampled_from(OPERATORS)),
        'end_operator': data.draw(st.sampled_from(OPERATORS)),
    }
    cut = {
        'ordering': maybe(['asc', 'desc']),
        'limit': data.draw(st.none() | st.integers(1, 3)),
        'offset': data.draw(st.integers(0, 2)),
    }
    tool = next(one for one in graph.tools() if one.name == 'find_entity_contexts')
    if not any(phrases.values()):
        with pytest.raises(ToolError, match='at least one'):
            tool(**phrases, **times, **cut)
        return
    seen = tool(**phrases, **times, **cut)
    every = [fact for one in found.values() for fact in one.facts]
    expected = scanned(every, *phrases.values(), Window(*times.values()), *cut.values())
    assert [hit.snippet for hit in seen.hits if isinstance(hit.snippet, Fact)] == expected
    gists = [hit.snippet for hit in seen.hits if isinstance(hit.snippet, Gist)]
    turns = {turn for fact in expected for turn in fact.sources}
    window = Window(*times.values())
    assert {gist.id for gist in gists} == {
        gist.id for one in found.values() for gist in one.gists if turns & set(gist.sources) and window.passes(gist)
    }
    for how, number in (
        ('count', len(expected)),
        ('count_unique_subjects', len({key(fact.subject) for fact in expected})),
        ('count_unique_objects', len({key(fact.object) for fact in expected})),
    ):
        assert tool(**phrases, **times, **cut, aggregation=how).value == number


@given(
    worlds(3, 5),
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(' '.join),
    st.none() | st.sampled_from(TIMES),
    st.sampled_from(OPERATORS),
    st.sampled_from(['dense', 'lexical']),
)
@settings(max_examples=35)
def test_a_retrieval_shows_the_best_of_what_lies_in_the_window(found, query, start, operator, kind):
    graph = graph_of(found)
    look = GraphTools(graph)
    tool = {'dense': look.semantic_retrieve, 'lexical': look.lexical_retrieve}[kind]
    window, expected = Window(start, None, operator, 'le'), []
    for index in (graph.gists, graph.triples):
        scores = getattr(index, kind).scores(query)
        kept = [id for id in scores if window.passes(index[id])]
        if kind == 'lexical' or any(scores.values()):
            expected += sorted(kept, key=lambda id: (-scores[id], id))[:PAGE_SIZE]
    assert [hit.snippet.id for hit in tool(query, start, None, operator).hits] == expected


@given(worlds(3, 5), st.none() | st.sampled_from(TIMES))
@settings(max_examples=40)
def test_around_a_gist_stand_its_synonyms_and_the_facts_of_its_phrases(found, end):
    graph, plain, window = graph_of(found), algorithm_1(found), Window(None, end)
    for gist in graph.gists:
        hits = GraphTools(graph).find_gist_contexts(gist.id, end_time=end).hits
        assert all(window.passes(hit.snippet) for hit in hits)
        near = [hit.snippet.id for hit in hits if isinstance(hit.snippet, Gist)]
        synonyms = {one for pair in plain['synonymy'] if gist.id in pair for one in pair} | {gist.id}
        assert set(near) == {one for one in synonyms if window.passes(graph.gists[one])} and (
            gist.id not in near or near[0] == gist.id
        )
        phrases = {phrase for one, phrase in plain['context'] if one == gist.id}
        joined = {
            fact.id: fact
            for one in found.values()
            for fact in one.facts
            if {key(fact.subject), key(fact.object)} & phrases and window.passes(fact)
        }
        facts = [hit.snippet for hit in hits if isinstance(hit.snippet, Fact)]
        assert {fact.id for fact in facts} <= set(joined) and len(facts) == min(PAGE_SIZE, len(joined))
        beside = [bool(set(fact.sources) & set(gist.sources)) for fact in facts]
        assert beside == sorted(beside, reverse=True)
        scores = [hit.score for hit in hits if isinstance(hit.snippet, Fact)]
        own = sum(beside)
        assert scores == sorted(scores[:own], reverse=True) + sorted(scores[own:], reverse=True)


@given(worlds(3, 5), st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(' '.join))
@settings(max_examples=30)
def test_in_a_plain_search_facts_vote_for_the_gists_of_their_turns(found, query):
    graph = graph_of(found)
    if not len(graph.gists):
        assert graph.search(query) == graph.triples.search(query)
        return
    scores = graph.gists.scores(query)
    for hit in graph.triples.search(query, _VOTERS):
        for gist in graph.gists:
            if set(gist.sources) & set(hit.snippet.sources):
                scores[gist.id] = max(scores[gist.id], graph.gists.scores(query)[gist.id] + _VOTE * hit.score)
    of_itself = graph.triples.scores(query)
    scores |= {fact.id: of_itself[fact.id] for one in found.values() if not one.gists for fact in one.facts}
    hits = graph.search(query, 100)
    assert {hit.snippet.id: hit.score for hit in hits} == pytest.approx(scores, abs=1e-9)
    assert graph.search(query, 2, exclude=[hits[0].snippet.id]) == hits[1:3]


SMALL = Extract(
    (
        Gist('S1/g0', 'Ada bought a cow', ('S1:0',), session='S1', said=datetime(1951, 3, 4, 9)),
        Gist('S1/g1', 'Bo lost the lamp', ('S1:1',), session='S1', said=datetime(1951, 3, 4, 9)),
    ),
    (
        Fact.of('Ada', 'bought', 'a cow', point_in_time='1951-03', sources=('S1:0',), id='S1/f0', session='S1'),
        Fact.of('Bo', 'lost', 'the lamp', sources=('S1:1',), id='S1/f1', session='S1'),
    ),
)


@pytest.mark.parametrize('facts_only', [False, True])
def test_a_plain_search_can_travel_in_time(facts_only):
    found = {'S1': SMALL if not facts_only else replace(SMALL, gists=())}
    graph = graph_of(found)
    for span in (TimeSpan.month(1951, 3), TimeSpan.year(1999)):
        hits = graph.search('Ada bought a cow', 5)
        inside = [hit for hit in hits if hit.snippet.day and hit.snippet.day.overlaps(span)]
        assert hits and graph.search('Ada bought a cow', 5, during=span) == inside
        assert bool(inside) == (span.start.year == 1951)


@pytest.mark.parametrize(
    'name, arguments, message',
    [
        ('semantic_retrieve', {'query': ' '}, 'query: expected some words'),
        ('lexical_retrieve', {'query': ''}, 'query: expected some words'),
        ('lexical_retrieve', {}, 'query'),
        ('lexical_retrieve', {'query': 'cow', 'start_time': 'soon'}, "start_time: expected a date such as '2023'"),
        (
            'semantic_retrieve',
            {'query': 'cow', 'end_operator': 'before'},
            "end_operator: .*'lt', 'le', 'eq', 'ge' or 'gt'",
        ),
        ('find_gist_contexts', {'gist_id': 'S1/g9'}, "got 'S1/g9'"),
        ('find_gist_contexts', {'gist_id': 'S1/f0'}, "got 'S1/f0'"),
        ('find_gist_contexts', {'gist_id': '1'}, 'it showed no gist'),
        ('find_gist_contexts', {'gist_id': '9' * 5000}, 'gist_id: expected the id of a gist'),
        ('find_entity_contexts', {}, 'at least one of subject, predicate, object'),
        ('find_entity_contexts', {'subject': ' ', 'object': ''}, 'at least one'),
        ('find_entity_contexts', {'subject': 'Ada', 'limit': 0}, 'limit, offset: expected at least 1'),
        ('find_entity_contexts', {'subject': 'Ada', 'offset': -1}, 'limit, offset: expected at least 1'),
        ('find_entity_contexts', {'subject': 'Ada', 'ordering': 'up'}, "ordering: .*'asc' or 'desc'"),
        ('find_entity_contexts', {'subject': 'Ada', 'aggregation': 'sum'}, 'aggregation: .*count_unique_objects'),
        ('find_entity_contexts', {'person': 'Ada'}, r'at least one of .* \(ignored: person\)'),
        ('lexical_retrieve', {'query': 'cow', 'offset': -1}, 'offset: Input should be greater than or equal to 0'),
    ],
)
def test_a_wrong_argument_is_told_what_is_allowed(name, arguments, message):
    tool = next(one for one in graph_of({'S1': SMALL}).tools() if one.name == name)
    with pytest.raises(ToolError, match=message):
        tool(**arguments)


@pytest.mark.parametrize(
    'arguments, note',
    [
        ({'subject': 'Ada Lee'}, "0 facts: none has the subject 'Ada Lee'; near it: Ada"),
        ({'subject': 'Ada', 'predicate': 'lost'}, '0 facts: none has all of these'),
        ({'subject': 'Ada', 'start_time': '1999'}, '0 facts: 1 lie outside these times or the offset'),
        ({'subject': 'Ada', 'offset': 3}, '0 facts: 1 lie outside these times or the offset'),
        (
            {'subject': 'Ada', 'start_time': '1999', 'aggregation': 'count'},
            'count: 0; 0 facts: 1 lie outside these times',
        ),
        ({'subject': 'Bo', 'start_time': '', 'end_time': ' '}, '1 fact and 1 gist'),
    ],
)
def test_nothing_found_says_why(arguments, note):
    assert GraphTools(graph_of({'S1': SMALL})).find_entity_contexts(**arguments).note.startswith(note)


def test_a_retrieval_that_finds_nothing_says_why():
    graph = graph_of({'S1': SMALL}, names=('Ada',))
    assert (
        'look for it as a word' in GraphTools(graph).semantic_retrieve('Ada').note
        and not GraphTools(graph).semantic_retrieve('Ada').hits
    )
    assert 'other words may say' in GraphTools(graph).lexical_retrieve('zzz').note
    assert 'nothing lies within these times' in GraphTools(graph).lexical_retrieve('cow', '1999').note
    assert [hit.snippet.id for hit in GraphTools(graph).lexical_retrieve('lamp', '1950').hits] == ['S1/g1']


@pytest.mark.parametrize(
    'options, error, message',
    [
        ({'names': 'Ada'}, TypeError, "expected a sequence of names, got the text 'Ada'"),
        *(({'synonymy': wrong}, ValueError, 'synonymy: expected a cosine or None') for wrong in (math.nan, 80, -2)),
    ],
)
def test_switches_that_mean_nothing_are_refused_when_the_graph_is_made(options, error, message):
    with pytest.raises(error, match=message):
        GistGraph(**options)
    for cosine in (None, -1, 0, np.float32(0.8), 1):
        json.dumps(GistGraph(synonymy=cosine).settings())


# ten at a time


def test_facts_come_ten_at_a_time_and_all_are_counted():
    look = GraphTools(
        GistGraph.from_facts([('Ada', 'bought', f'boat {number:02}') for number in range(25)], embedder=Buckets())
    )
    pages = [look.find_entity_contexts('Ada', offset=offset) for offset in (0, 10, 20)]
    assert [page.note for page in pages] == [
        '25 facts, 10 shown from 1; offset=10 shows more',
        '25 facts, 10 shown from 11; offset=20 shows more',
        '5 facts',
    ]
    assert len({hit.snippet.id for page in pages for hit in page.hits}) == 25
    assert (
        look.find_entity_contexts('Ada', aggregation='count').value
        == 25
        == len(look.find_entity_contexts('Ada', limit=99).hits)
    )
    first, second = look.lexical_retrieve('boat'), look.lexical_retrieve('boat', offset=10)
    assert (
        first.note.endswith('; more: offset=10') and len(second.hits) == 10 and not set(first.hits) & set(second.hits)
    )
    assert len(look.lexical_retrieve('boat', offset=20).hits) == 5 and not look.lexical_retrieve('boat', offset=30).hits


def test_what_stands_around_a_gist_comes_ten_at_a_time():
    facts = tuple(
        Fact.of('Ada', 'bought', f'boat {number:02}', sources=('S1:0',), id=f'S1/f{number}', session='S1')
        for number in range(12)
    )
    gist = Gist('S1/g0', 'Ada bought boats', ('S1:0',), session='S1')
    look = GraphTools(graph_of({'S1': Extract((gist,), facts)}))
    first, second = look.find_gist_contexts('S1/g0'), look.find_gist_contexts('S1/g0', offset=10)
    assert (
        first.note == '1 gist and 10 facts around S1/g0; 2 more: offset=10'
        and second.note == '0 gists and 2 facts around S1/g0'
    )
    assert len({hit.snippet.id for hit in (*first.hits, *second.hits)}) == 13


# numbers


def tools_of_small(**options):
    return {tool.name: tool for tool in graph_of({'S1': SMALL}, **options).tools()}


def test_a_number_means_the_last_observation():
    tools = tools_of_small()
    assert tools['find_entity_contexts'](subject='Ada').line.splitlines()[2].startswith('2. (S1/g0) [')
    assert tools['find_gist_contexts'](gist_id='2').hits[0].snippet.id == 'S1/g0'
    with pytest.raises(ToolError, match=r'observation \(1\), got .2.'):
        tools['find_gist_contexts'](gist_id=2)
    with pytest.raises(ToolError):
        tools['semantic_retrieve'](query='cow', start_time='soon')
    assert tools['find_gist_contexts'](gist_id=' 1 ').hits[0].snippet.id == 'S1/g0'
    assert tools['find_gist_contexts'](gist_id='S1/g1').hits[0].snippet.id == 'S1/g1'
    tools['find_entity_contexts'](subject='Ada', aggregation='count')
    with pytest.raises(ToolError, match='it showed no gist'):
        tools['find_gist_contexts'](gist_id='1')


def test_a_number_beyond_the_budget_means_nothing():
    graph = graph_of({'S1': SMALL})
    tools = {tool.name: tool for tool in graph.tools()}
    run = Run('Who?', 'test', RuleLM(), graph, None, 1)
    seen = run.use(tools['semantic_retrieve'], {'query': 'cow'}, 1)
    assert [hit.snippet.id for hit in seen.hits] == ['S1/g0'] and len(run.trace.read) == 1
    refused = run.use(tools['find_gist_contexts'], {'gist_id': '2'}, 2)
    assert refused.error and 'observation (1)' in refused.note
    assert run.use(tools['find_gist_contexts'], {'gist_id': '1'}, 3).hits[0].snippet.id == 'S1/g0'


# facts of one's own

TRIPLES = [
    ('Ada', 'bought', 'a cow'),
    {'subject': 'Ada', 'predicate': 'sold', 'object': 'a cow', 'point_in_time': '1952'},
    Fact.of('Bo', 'bought', 'a tram', start_time='1950', end_time='1951'),
]


def test_facts_of_ones_own_in_any_order_and_given_twice():
    graph = GistGraph.from_facts(TRIPLES, embedder=Buckets())
    again = GistGraph.from_facts([*TRIPLES[::-1], TRIPLES[0]], embedder=Buckets())
    assert snapshot(graph) == snapshot(again) and len(graph.facts) == 3
    graph.add_facts(TRIPLES[::-1])
    with pytest.raises(DuplicateSession):
        graph.add_facts(TRIPLES[:1])
    assert len(graph.facts) == 3


def test_two_sessions_may_say_the_same():
    graph = GistGraph.from_facts(TRIPLES, embedder=Buckets())
    graph.add_facts(TRIPLES[:2], 'again')
    assert len(graph.facts) == 5 and GraphTools(graph).find_entity_contexts('ADA', aggregation='count').value == 4
    assert graph.forget('again')['relation edges'] == 2 and snapshot(graph) == snapshot(
        GistGraph.from_facts(TRIPLES, embedder=Buckets())
    )
    fixed = Fact.of('Ada', 'bought', 'a cow', id='mine')
    graph.add_facts([fixed], 'x')
    with pytest.raises(DuplicateSnippet):
        graph.add_facts([fixed], 'y')


@settings(max_examples=40)
@given(extracts('S1'), extracts('S2'), st.sampled_from(['mail', 'a cow', 'tram mail']), st.integers(0, 9))
def test_facts_without_gists_stand_beside_the_gists_of_others(one, two, query, k):
    graph = graph_of({'S1': one, 'S2': two})
    graph.add_facts(TRIPLES, 'own')
    bare = {session for session in graph.sessions if not graph.chunks[session].gists}
    everything = [
        *graph.gists.search(query, 99, bonus=graph._votes(query)),
        *(hit for hit in graph.triples.search(query, 99) if hit.snippet.session in bare),
    ]
    assert graph.search(query, k) == sorted(everything, key=lambda hit: (-hit.score, hit.snippet.id))[:k]
    assert {fact.id for fact in graph.facts if fact.session == 'own'} <= {
        hit.snippet.id for hit in graph.search(query, 99)
    }


@pytest.mark.parametrize(
    'wrong', [[('a', 'b')], ['abc'], [b'abc'], [{'a', 'b', 'c'}], [None], [('a', ' ', 'c')], [{'subject': 'a'}]]
)
def test_what_is_no_fact_is_refused(wrong):
    with pytest.raises((ValueError, TypeError)):
        GistGraph.from_facts(wrong, embedder=Buckets())


# the graph as a memory like any other


@pytest.mark.parametrize('kind', ['dense', 'lexical'])
def test_a_retrieval_looks_on_until_it_has_ten(kind):
    graph = graph_of({}, synonymy=None)
    graph.keep(
        'S1',
        Extract(
            tuple(
                Gist(f'g{number:04}', 'cow', session='S1', time=TimeSpan.year(1900 + number % 100))
                for number in range(3000)
            )
        ),
    )
    index = getattr(graph.gists, kind)
    kept = _best(index, 'cow', Window('1999'))
    assert len(kept) == PAGE_SIZE and all(hit.snippet.time == TimeSpan.year(1999) for hit in kept)


class Machine(RuleBasedStateMachine):
    "A graph that is changed in all ways, beside a dictionary of what it should hold."

    @initialize()
    def begin(self):
        self.model, self.numbers, self.graph = {}, count(), graph_of({}, with_gists=False)

    @rule(
        found=st.sampled_from(['S0', 'S1', 'S2', 'S3']).flatmap(
            lambda name: st.tuples(st.just(name), extracts(name, 3))
        )
    )
    def add(self, found):
        name, extract = found
        if self.model.get(name, extract) != extract:
            with pytest.raises(DuplicateSession):
                self.graph.keep(name, extract)
        else:
            self.graph.keep(name, extract)
            self.model[name] = extract

    @rule(triples=st.lists(st.tuples(*map(st.sampled_from, (PHRASES, PREDICATES, PHRASES))), min_size=1, max_size=3))
    def add_facts(self, triples):
        name = f'facts {next(self.numbers)}'
        self.graph.add_facts(triples, name)
        self.model[name] = self.graph.extract_of(name)
        assert {(fact.subject, fact.predicate, fact.object) for fact in self.model[name].facts} == {
            tuple(' '.join(part.split()) for part in triple) for triple in triples
        }

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def forget(self, data):
        name, before = data.draw(st.sampled_from(sorted(self.model))), self.graph.counts()
        lost = self.graph.forget(name)
        del self.model[name]
        assert lost == {kind: before[kind] - number for kind, number in self.graph.counts().items()}
        with pytest.raises(UnknownSession):
            self.graph.forget(name)

    @rule()
    def reopen(self):
        with tempfile.TemporaryDirectory() as folder:
            self.graph.save(f'{folder}/graph.sqlite')
            again = GistGraph.load(f'{folder}/graph.sqlite', embedder=Buckets())
        assert not again.with_gists and again.settings() == self.graph.settings()
        self.graph = again

    @rule()
    def ask(self):
        in_another_order = dict(sorted(self.model.items()))
        assert snapshot(self.graph) == snapshot(graph_of(in_another_order))

    @invariant()
    def holds_what_was_put_in(self):
        facts = [fact.id for found in self.model.values() for fact in found.facts]
        assert self.graph.counts()['relation edges'] == len(facts) and sorted(
            fact.id for fact in self.graph.facts
        ) == sorted(facts)
        assert set(self.graph.chunks_of) == {
            key(name) for found in self.model.values() for fact in found.facts for name in (fact.subject, fact.object)
        }
        assert self.graph.sessions == tuple(sorted(self.model))


TestMachine = Machine.TestCase
TestMachine.settings = settings(max_examples=10, stateful_step_count=12)


# ------------------------------------------------------------------ what was said, and what is known


def test_the_extractor_is_shown_a_few_facts_of_earlier_sessions_however_these_were_added(tmp_path):
    sample, prompts, path = load_sample(), [], tmp_path / 'graph'

    class Hearing(ExampleLM):
        def call(self, role, /, **inputs):
            if role.name == 'facts':
                prompts.append(role.render(inputs)[1])
            return super().call(role, **inputs)

    graph = GistGraph(Hearing(), names=sample.speakers)
    for session in sample.sessions:
        graph.add(session)
        graph.save(path)
        graph = GistGraph.load(path, lm=Hearing())
    one_by_one, prompts[:] = [*prompts], []
    GistGraph.of(sample, Hearing())
    assert prompts == one_by_one and len(prompts) == 14
    shown = [prompt.split('Earlier facts:')[1].split('\n')[1:] for prompt in prompts]
    assert shown[0] == ['None'] and [len(lines) for lines in shown[2:]] == [25] * 12
    assert '- (Nell, is the sister of, Tobin)' in shown[1]
    assert 'Dr. Amsel' in str(shown[4:13]) and 'Dr. Amsel' not in str(shown[13])  # where it is not spoken of


def test_a_gist_leads_to_its_neighbours_and_to_what_was_said(tmp_path):
    sample, path = load_sample(), tmp_path / 'graph'
    GistGraph.of(sample).save(path)
    graph = GistGraph.load(path)
    [find] = [tool for tool in graph.tools() if tool.name == 'find_turns']
    for gist in graph.gists:
        hits = find(gist_id=gist.id).hits
        beside = [other for other in graph.gists
                  if other.session == gist.session and abs(other.position - gist.position) <= 1]  # fmt: skip
        assert {hit.snippet for hit in hits[: len(beside)]} == set(beside)
        turns = [(hit.snippet.id, hit.snippet.text) for hit in hits[len(beside) :]]
        assert turns == [(id, sample.turn(id).content) for id in gist.sources]
    run = Run('Who?', 'remem', RuleLM(), budget=2)
    run.use(find, {'gist_id': 'D5/g4'}, 1)
    assert len(run.trace.read) == 2


def test_capitals_do_not_make_another_subject():
    graph = GistGraph.from_facts([('Ada', 'owns', 'a boat'), ('ada', 'owns', 'a kite')])
    assert graph.facts.aggregate(list(graph.facts), 'count_unique_subjects') == 1


@pytest.mark.parametrize('with_gists', [False, True])
def test_what_is_excluded_never_comes_where_a_session_has_facts_alone(with_gists):
    graph = GistGraph.of([Session('D1', [Turn('D1:1', 'Ada', 'I bought a boat.')])]) if with_gists else GistGraph()
    graph.add_facts([('Ada', 'owns', 'a red boat'), ('Bo', 'owns', 'a red kite')])
    found = [hit.snippet for hit in graph.search('Who owns a red boat?', 10)]
    assert any('red boat' in snippet.text for snippet in found)
    for snippet in found:
        rest = [hit.snippet for hit in graph.search('Who owns a red boat?', 10, exclude=[*snippet.sources, snippet.id])]
        assert snippet.id not in {other.id for other in rest}
        assert not set(snippet.sources) & {source for other in rest for source in other.sources}
