"""Loops over the facts of graphiti: its real `Graphiti` over Kuzu, a graph database that runs in the process.

The stand-ins for its three models are subclasses of its own base classes; the model and the cross-encoder fail if they are asked.
The graph is filled by nodes, episodes and edges of its own, so that nothing has to be extracted. Its telemetry is off."""

import os
import sys
import warnings
from datetime import date, datetime, timezone

import pytest

os.environ['GRAPHITI_TELEMETRY_ENABLED'] = 'false'
pytest.importorskip('graphiti_core')
pytest.importorskip('kuzu')

from contract import EVIDENCE, ids, maker, properties_of, QUESTION, TURNS
from graphiti_core import Graphiti
from graphiti_core.cross_encoder.client import CrossEncoderClient
from graphiti_core.driver.kuzu_driver import KuzuDriver
from graphiti_core.edges import EntityEdge
from graphiti_core.embedder.client import EmbedderClient
from graphiti_core.llm_client.client import LLMClient
from graphiti_core.nodes import EntityNode, EpisodeType, EpisodicNode
from graphiti_core.search.search_config_recipes import EDGE_HYBRID_SEARCH_RRF

from memnb.adapters.stores import from_graphiti
from memnb.core.retriever import waited
from memnb.core.time import TimeSpan
from memnb.memr3.loop import MemR3
from memnb.retrieval.vectors import WordLlamaEmbedder

NOW = datetime(2024, 12, 31, tzinfo=timezone.utc)


class LocalEmbedder(EmbedderClient):
    async def create(self, input_data):
        return WordLlamaEmbedder()([input_data if isinstance(input_data, str) else ' '.join(input_data)])[0].tolist()


class NoModel(LLMClient):
    async def _generate_response(self, *arguments, **options):
        raise AssertionError('a model was asked')


class NoRanker(CrossEncoderClient):
    async def rank(self, query, passages):
        raise AssertionError('a cross-encoder was asked')


def new_graph():
    with warnings.catch_warnings():
        warnings.simplefilter('ignore', DeprecationWarning)  # Kuzu's own project has ended; its wheels go on
        driver = KuzuDriver(':memory:')
    graph = Graphiti(graph_driver=driver, llm_client=NoModel(None), embedder=LocalEmbedder(), cross_encoder=NoRanker())
    waited(driver.graph_ops.build_indices_and_constraints)(driver)  # the driver's own method of that name makes none
    return graph


async def save_facts(graph, edges, group='sample'):
    """Edges between two nodes of a group, each with its embedding."""
    ends = [
        EntityNode(name=name, group_id=group, created_at=NOW, name_embedding=[0.0] * 256) for name in ('Tobin', 'Zofia')
    ]
    for node in ends:
        await node.save(graph.driver)
    for edge in edges:
        edge.source_node_uuid, edge.target_node_uuid = (node.uuid for node in ends)
        await edge.generate_embedding(graph.embedder)
        await edge.save(graph.driver)


def fact(text, uuid='a fact', group='sample', **fields):
    return EntityEdge(
        uuid=uuid,
        group_id=group,
        source_node_uuid='',
        target_node_uuid='',
        created_at=NOW,
        name='SAID',
        fact=text,
        **fields,
    )


def midnight(day):
    return day and datetime(day.year, day.month, day.day)


def edge_of(snippet):
    """A snippet as a fact: true during its days, and told when it was said."""
    days = snippet.day
    return fact(
        snippet.text,
        snippet.id,
        episodes=list(snippet.sources),
        reference_time=snippet.said,
        valid_at=midnight(days and days.start),
        invalid_at=midnight(days and days.end),
    )


def facts_of(edges):
    graph = new_graph()
    waited(save_facts)(graph, edges)
    return graph


def broken():
    graph = new_graph()
    waited(graph.driver.execute_query)("CALL DROP_FTS_INDEX('RelatesToNode_', 'edge_name_and_fact')")
    return from_graphiti(graph, ['sample'])


make = maker(
    lambda snippets: from_graphiti(facts_of([edge_of(snippet) for snippet in snippets]), ['sample']),
    broken,
    ('ids', 'scores', 'times'),
)
test_property = properties_of({'graphiti': make})


def test_hits_are_those_of_graphiti_with_the_scores_that_its_plain_search_leaves_out():
    graph = facts_of([edge_of(snippet) for snippet in TURNS])
    recipe = EDGE_HYBRID_SEARCH_RRF.model_copy(update={'limit': 3})
    plain = waited(graph.search_)(QUESTION, config=recipe, group_ids=['sample'])
    hits = from_graphiti(graph, ['sample']).search(QUESTION, 3)
    expected = [(edge.uuid, score) for edge, score in zip(plain.edges, plain.edge_reranker_scores)]
    assert [(hit.snippet.id, hit.score) for hit in hits] == expected != []
    assert EDGE_HYBRID_SEARCH_RRF.limit == 10  # graphiti's own `search` writes into it, see below
    try:
        assert [edge.uuid for edge in waited(graph.search)(QUESTION, group_ids=['sample'], num_results=3)] == ids(hits)
        assert EDGE_HYBRID_SEARCH_RRF.limit == 3
    finally:
        EDGE_HYBRID_SEARCH_RRF.limit = 10


def test_groups_do_not_mix():
    graph = facts_of([edge_of(snippet) for snippet in TURNS[:5]])
    waited(save_facts)(graph, [fact('Nela has a concertina.', 'N', 'nela')], 'nela')
    assert ids(from_graphiti(graph, ['nela']).search('concertina')) == ['N']
    assert 'N' not in ids(from_graphiti(graph, ['sample']).search('concertina'))
    assert {'N', EVIDENCE} <= set(ids(from_graphiti(graph).search('concertina')))
    assert {'N', EVIDENCE} <= set(ids(from_graphiti(graph, ('nela', 'sample')).search('concertina')))


def test_bad_input_is_an_error(monkeypatch):
    graph = new_graph()
    for groups in ('sample', [], ()):
        with pytest.raises(ValueError, match='group_ids: expected None or a collection'):
            from_graphiti(graph, groups)
    monkeypatch.setitem(sys.modules, 'graphiti_core.search.search_config_recipes', None)
    with pytest.raises(ImportError, match=r"pip install 'memnb\[interop\]'"):
        from_graphiti(graph)


def test_a_fact_is_dated_by_its_truth_and_by_its_telling_only_where_that_is_unknown():
    told, lesson = datetime(2024, 1, 9, 19, 15), datetime(2024, 1, 8)
    known = fact('Tobin had a concertina lesson.', 'known', valid_at=lesson, invalid_at=lesson, reference_time=told)
    unknown = fact('Tobin likes the concertina.', 'unknown', reference_time=told)
    store = from_graphiti(facts_of([known, unknown, fact('A concertina squeaks.', 'never')]))
    assert {hit.snippet.line for hit in store.search('concertina')} == {
        '[8 January 2024] Tobin had a concertina lesson.',
        '[9 January 2024] Tobin likes the concertina.',
        'A concertina squeaks.',
    }
    assert ids(store.search('concertina', during=TimeSpan.day(told.date()))) == ['unknown']


DAYS = [None, date(2023, 12, 30), date(2023, 12, 31), date(2024, 1, 1), date(2024, 1, 2), date(2024, 1, 3)]


def test_a_fact_is_true_from_its_start_to_its_end():
    """Each start with each end, against a set of spans."""
    pairs = {f'{start} {end}': (start, end) for start in DAYS for end in DAYS if None in (start, end) or start <= end}
    facts = [
        fact('concertina', name, valid_at=midnight(start), invalid_at=midnight(end))
        for name, (start, end) in pairs.items()
    ]
    store = from_graphiti(
        facts_of([*facts, fact('concertina', 'reversed', valid_at=midnight(DAYS[4]), invalid_at=midnight(DAYS[2]))])
    )
    pairs['reversed'] = DAYS[4], None  # what ends before it starts has no end
    assert len(store.search('concertina', 100)) == len(pairs)
    spans = [TimeSpan(first, last, 'span') for first in DAYS[1:] for last in DAYS[1:] if first <= last]
    for span in [*spans, TimeSpan(None, date(1, 1, 3)), TimeSpan(None, date.max), TimeSpan(date(9999, 12, 30), None)]:
        expected = {
            name
            for name, (start, end) in pairs.items()
            if (start or end) and span.overlaps(TimeSpan(start, end, 'span'))
        }
        assert set(ids(store.search('concertina', 100, during=span))) == expected


def test_episodes_are_the_sources_that_a_loop_reads():
    graph = new_graph()
    episodes = [
        EpisodicNode(
            uuid=snippet.id,
            name=snippet.id,
            group_id='sample',
            created_at=NOW,
            source=EpisodeType.message,
            source_description='a chat',
            content=snippet.text,
            valid_at=snippet.said,
        )
        for snippet in TURNS
    ]

    async def fill():
        for episode in episodes:
            await episode.save(graph.driver)
        lesson = fact(
            'Tobin had his first lesson on the concertina on 8 January 2024.',
            'lesson',
            episodes=[EVIDENCE, 'D2:14'],
            valid_at=datetime(2024, 1, 8),
            reference_time=TURNS[4].said,
        )
        await save_facts(graph, [lesson, fact('Zofia restores a church organ.', 'organ', episodes=['D2:5'])])

    waited(fill)()
    trace = MemR3(from_graphiti(graph, ['sample'])).ask(QUESTION)
    assert (trace.error, trace.answer, trace.evidence) == (None, '8 January 2024', [EVIDENCE, 'D2:14'])
    kept = waited(EpisodicNode.get_by_uuid)(graph.driver, trace.evidence[0])
    assert kept.content == TURNS[4].text
