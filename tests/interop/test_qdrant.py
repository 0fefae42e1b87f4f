"""Loops over Qdrant: the real client with its embedded engine, in memory, on a path and awaited, and over HTTP to the loopback with
the engine of the server behind it."""
import importlib
import warnings
from contextlib import ExitStack
from dataclasses import replace
from datetime import date, datetime
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip('qdrant_client')

from qdrant_client import AsyncQdrantClient, QdrantClient, models

import memnb.adapters.stores as stores
from contract import EVIDENCE, LAWS, ODD, QUERIES, QUESTION, SNIPPETS, TURNS, ids, its_claims_are_true
from memnb.retrieval.vectors import DimensionMismatch, EmbedderMismatch, Vectors, WordLlamaEmbedder
from memnb.retrieval.vectors import DenseIndex
from memnb.adapters.stores import Fields, fields_of
from memnb.memr3.loop import MemR3
from memnb.retrieval.bm25 import DuplicateSnippet
from memnb.core.retriever import passes
from memnb.core.conversation import Snippet
from memnb.core.time import TimeSpan
from memnb.adapters.stores import _day_fields, _FIRST, _point_id, fill_qdrant, from_qdrant, qdrant_filter

EMBED = WordLlamaEmbedder()
HAS_ENGINE = importlib.util.find_spec('qdrant_edge') is not None
needs_engine = pytest.mark.skipif(not HAS_ENGINE, reason='qdrant-edge-py, the engine of the server, is not installed')


@cache
def vectors_of(text):
    return EMBED([text])[0]


def embed(texts):
    """Each text once: the laws ask the same questions over and over."""
    return np.array([vectors_of(text) for text in texts])


embed.name = EMBED.name


@pytest.fixture(scope='module')
def wire():
    """The address of a Qdrant behind HTTP, and what it is asked."""
    from qdrant_wire import served
    with served() as (url, asked):
        yield url, asked


def memory_client(number):
    return QdrantClient(':memory:')


def awaited_client(number):
    return AsyncQdrantClient(':memory:')


def maker(client_of):
    """`make` over clients that a function of a running number makes; each with a collection of its own name."""
    numbers = iter(range(10 ** 6))

    @cache
    def filled(snippets):
        number = next(numbers)
        client = client_of(number)
        fill_qdrant(client, f'turns{number}', snippets, embed)
        return from_qdrant(client, f'turns{number}', embed)

    def make(snippets):
        return filled(tuple(snippets))
    return make


def dropped(client):
    """A store whose collection was dropped after it was adapted."""
    fill_qdrant(client, 'dropped', TURNS[:3], embed)
    store = from_qdrant(client, 'dropped', embed)
    stores._plain(client.delete_collection)('dropped')
    return store


MAKERS = {'in memory': maker(memory_client), 'awaited': maker(awaited_client)}
MAKERS['in memory'].broken = lambda: dropped(QdrantClient(':memory:'))
MAKERS['awaited'].broken = lambda: dropped(AsyncQdrantClient(':memory:'))


@pytest.mark.parametrize('law', LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize('make', MAKERS.values(), ids=MAKERS)
def test_law(law, make):
    law(make)


@pytest.fixture(scope='module')
def over_wire(wire):
    """`make` over HTTP, plain and awaited."""
    url, _ = wire
    made = {'plain': maker(lambda number: QdrantClient(url=url)), 'awaited': maker(lambda number: AsyncQdrantClient(url=url))}
    made['plain'].broken = lambda: dropped(QdrantClient(url=url))
    made['awaited'].broken = lambda: dropped(AsyncQdrantClient(url=url))
    return made


@needs_engine
@pytest.mark.parametrize('law', LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize('kind', ['plain', 'awaited'])
def test_law_over_http(law, kind, over_wire):
    law(over_wire[kind])


@needs_engine
def test_what_goes_over_the_wire(wire):
    url, asked = wire
    with pytest.warns(UserWarning, match='insecure connection'):
        client = QdrantClient(url=url, api_key='a key')
    del asked[:]
    fill_qdrant(client, 'wired', TURNS[:5], embed, batch=2)
    asked[:] = [one for one in asked if one[1] != '/']  # at some time it asks for the version, too
    assert [(method, path) for method, path, _, _ in asked] == [('GET', '/collections/wired/exists'), ('PUT', '/collections/wired'), *[('PUT', '/collections/wired/index?wait=true')] * 3,
                    ('GET', '/collections/wired'), *[('POST', '/collections/wired/points')] * 3, *[('PUT', '/collections/wired/points?wait=true')] * 3]
    assert asked[1][2]['vectors'] == {'size': 256, 'distance': 'Cosine'} and asked[1][2]['metadata'] == {'embedder': 'wordllama-256'}
    assert [len(body['points']) for _, path, body, _ in asked if path.endswith('points?wait=true')] == [2, 2, 1]
    first = asked[9][2]['points'][0]
    assert first['id'] == _point_id('D1:1') and first['payload'] == {**fields_of(TURNS[0]), 'text': TURNS[0].text, **_day_fields(TURNS[0].day)}
    store = from_qdrant(client, 'wired', embed)
    del asked[:]
    found = store.search(QUESTION, 3, exclude=['D1:1'], during=TimeSpan.month(2024, 1))
    (method, path, body, headers), = asked  # one request a search: nothing is over-fetched
    assert (method, path, body['limit'], body['with_payload']) == ('POST', '/collections/wired/points/query', 3, True)
    assert models.Filter.model_validate(body['filter']) == qdrant_filter(['D1:1'], TimeSpan.month(2024, 1))
    assert body['query']['nearest'] == pytest.approx(embed([QUESTION])[0].tolist())
    assert {name.lower(): value for name, value in headers.items()}['api-key'] == 'a key'
    assert len(found) == 3


@needs_engine
def test_a_number_that_no_point_can_have_is_no_id_of_qdrants(over_wire):
    store = over_wire['plain'](SNIPPETS)
    assert store.search(QUESTION, 3, exclude=['9' * 30, '-1', '²', '007', str(2 ** 64)]) == store.search(QUESTION, 3)


@needs_engine
def test_a_server_finds_what_the_embedded_one_finds(over_wire):
    here, there = MAKERS['in memory'](SNIPPETS), over_wire['plain'](SNIPPETS)
    for query in QUERIES:
        for options in ({}, {'exclude': ids(here.search(query, 4))}, {'during': TimeSpan.month(2024, 2)}):
            ours, its = here.search(query, 10, **options), there.search(query, 10, **options)
            assert [hit.snippet for hit in its] == [hit.snippet for hit in ours]
            assert [hit.score for hit in its] == pytest.approx([hit.score for hit in ours], abs=1e-5)


def test_it_finds_what_a_dense_index_finds():
    dense, store = DenseIndex(EMBED), MAKERS['in memory'](SNIPPETS)
    dense.add(SNIPPETS)
    for query in QUERIES + ODD:
        ours, its = dense.search(query, 12), store.search(query, 12)
        assert [hit.score for hit in its] == pytest.approx([hit.score for hit in ours], abs=1e-5)
        if len({round(hit.score, 4) for hit in ours}) == 12:  # otherwise ties may come in any order
            assert [hit.snippet for hit in its] == [hit.snippet for hit in ours]


DAYS = st.dates(date(2015, 1, 1), date(2026, 12, 31)) | st.sampled_from([date.min, date.max])
SPANS = st.builds(lambda a, b, side: TimeSpan(None if side == 'no start' else min(a, b), None if side == 'no end' else max(a, b)),
                  DAYS, DAYS, st.sampled_from(['both', 'no start', 'no end']))
WHEN = st.none() | SPANS


@given(st.lists(WHEN, min_size=1, max_size=12), SPANS, st.data())
@settings(max_examples=25)
def test_the_filter_alone_is_passes(times, during, data):
    snippets = [Snippet(data.draw(st.sampled_from([f't{number}', str(number), _point_id(str(number))])), f'text {number}', (), time)
                for number, time in enumerate(times)]
    exclude = data.draw(st.sets(st.sampled_from([snippet.id for snippet in snippets] + ['5', 'x', _point_id('t0')])))
    client = QdrantClient(':memory:')
    fill_qdrant(client, 'some', snippets, lambda texts: np.ones((len(texts), 2)))
    for span in (during, None):
        left = client.query_points('some', [1.0, 0.0], limit=50, query_filter=qdrant_filter(exclude, span)).points
        assert {point.payload['id'] for point in left} == {snippet.id for snippet in snippets if passes(snippet, exclude, span)}


@needs_engine
@given(st.lists(WHEN, min_size=1, max_size=8), st.lists(SPANS, min_size=1, max_size=6), st.data())
@settings(max_examples=6)
def test_the_filter_alone_is_passes_in_the_engine_of_the_server(times, spans, data):
    import tempfile

    import qdrant_edge as edge
    from qdrant_wire import to_edge
    snippets = [Snippet(f't{number}', f'text {number}', (), time) for number, time in enumerate(times)]
    exclude = data.draw(st.sets(st.sampled_from([snippet.id for snippet in snippets])))
    with tempfile.TemporaryDirectory() as folder:
        shard = edge.EdgeShard.create(folder, edge.EdgeConfig(vectors=edge.EdgeVectorParams(2, edge.Distance.Cosine)))
        shard.update(edge.UpdateOperation.upsert_points([edge.Point(_point_id(one.id), [1.0, 0.0], {**fields_of(one), **_day_fields(one.day)})
                                                         for one in snippets]))
        for span in spans:
            wanted = to_edge(qdrant_filter(exclude, span))
            left = shard.query(edge.QueryRequest(50, query=edge.Query.Nearest([1.0, 0.0]), with_payload=True, filter=wanted))
            assert {point.payload['id'] for point in left} == {snippet.id for snippet in snippets if passes(snippet, exclude, span)}
        shard.close()


def bare(value):
    """What is said in a request, without what is left empty."""
    if isinstance(value, dict):
        return {name: bare(one) for name, one in value.items() if one not in (None, [])}
    return [bare(one) for one in value] if isinstance(value, list) else value


def test_the_filter_survives_grpc():
    """The client can also speak gRPC to a server; no server here does, but what is written can be read back."""
    from qdrant_client.conversions.conversion import GrpcToRest, RestToGrpc
    only = models.Filter(must=[models.FieldCondition(key='who', match=models.MatchValue(value='Ada'))])
    for options in ({'exclude': ['D1:5', '17', _point_id('x')]}, {'during': TimeSpan.month(2024, 2)},
                    {'exclude': ['a'], 'during': TimeSpan(None, date(2024, 1, 1)), 'only': only}):
        asked = qdrant_filter(**options)
        assert bare(GrpcToRest.convert_filter(RestToGrpc.convert_filter(asked)).model_dump()) == bare(asked.model_dump())


@given(st.text(max_size=40))
@settings(max_examples=25)
def test_any_exclude_is_a_filter(text):
    client = QdrantClient(':memory:')
    fill_qdrant(client, 'one', [Snippet('a', 'text')], lambda texts: np.ones((len(texts), 2)))
    store = from_qdrant(client, 'one', lambda texts: np.ones((len(texts), 2)))
    assert ids(store.search('x', 3, exclude=[text])) == ['a'] * (text != 'a')


def test_on_a_path_it_is_there_tomorrow(tmp_path):
    first = QdrantClient(path=str(tmp_path))
    fill_qdrant(first, 'turns', TURNS[:20], embed)
    found = from_qdrant(first, 'turns', embed).search(QUESTION, 5)
    first.close()
    again = QdrantClient(path=str(tmp_path))
    same = from_qdrant(again, 'turns', embed).search(QUESTION, 5)
    assert [hit.snippet for hit in same] == [hit.snippet for hit in found]
    assert [hit.score for hit in same] == pytest.approx([hit.score for hit in found])
    again.close()


def theirs(payload_of, vectors=models.VectorParams(size=256, distance=models.Distance.COSINE), vector_of=lambda text: embed([text])[0].tolist()):
    client = QdrantClient(':memory:')
    client.create_collection('chat', vectors)
    client.upsert('chat', [models.PointStruct(id=number, vector=vector_of(snippet.text), payload=payload_of(snippet))
                           for number, snippet in enumerate(TURNS)])
    return client


def test_a_collection_that_somebody_else_filled():
    client = theirs(lambda snippet: {'page_content': snippet.text, 'metadata': {'at': str(snippet.said), 'who': snippet.speaker}})
    names = Fields(text='page_content', said='metadata.at', speaker='metadata.who')
    store = from_qdrant(client, 'chat', embed, names)
    everything = store.search(QUESTION, 100)
    assert len(everything) == len(TURNS) and {hit.snippet.speaker for hit in everything} == {'Tobin', 'Zofia'}
    gone = ids(everything)[:5]
    calls, ask = [], store._ask

    def spy(query, limit, exclude=(), during=None):
        calls.append(limit)
        return ask(query, limit, exclude=exclude, during=during)
    store._ask = spy
    assert ids(store.search(QUESTION, 4, exclude=gone)) == ids(everything)[5:9] and calls == [4]  # by Qdrant's own ids, at once
    span = TimeSpan.day(TURNS[-1].said)
    assert ids(store.search(QUESTION, 3, during=span)) == [hit.snippet.id for hit in everything if hit.snippet.day.overlaps(span)][:3]
    assert MemR3(store).ask(QUESTION).answer == '8 January 2024'
    his = models.Filter(must=[models.FieldCondition(key='metadata.who', match=models.MatchValue(value='Tobin'))])
    assert {hit.snippet.speaker for hit in from_qdrant(client, 'chat', embed, names, only=his).search(QUESTION, 100, exclude=gone)} == {'Tobin'}


def test_an_id_that_only_looks_like_one_of_qdrants():
    client = theirs(lambda snippet: {'id': f'{int(snippet.id.split(":")[1]) + 1}', 'text': snippet.text} if snippet.session == 'D1' else {'text': snippet.text})
    store = from_qdrant(client, 'chat', embed)
    hidden = ids(store.search(QUESTION, 100))
    assert '3' in hidden and '3' not in ids(store.search(QUESTION, 100, exclude=['3']))
    by_ours = [point.id for point in client.query_points('chat', [1.0] * 256, limit=100, query_filter=qdrant_filter(['3'])).points]
    assert 3 in by_ours and 1 not in by_ours  # point 3 has another id of ours; the point with our id 3 is Qdrant's number 1


def test_several_vectors_and_distances():
    euclid = models.VectorParams(size=256, distance=models.Distance.EUCLID)
    client = theirs(lambda snippet: {'text': snippet.text}, {'words': euclid, 'other': models.VectorParams(size=2, distance=models.Distance.DOT)},
                    lambda text: {'words': embed([text])[0].tolist(), 'other': [0.0, 1.0]})
    with pytest.raises(ValueError, match="using: expected one of the vectors .*words.*, got None"):
        from_qdrant(client, 'chat', embed)
    hits = from_qdrant(client, 'chat', embed, using='words').search(TURNS[4].text, 6)
    assert hits[0].snippet.text == TURNS[4].text and hits[0].score == pytest.approx(0, abs=1e-3)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True) and hits[-1].score < 0


class Backwards(WordLlamaEmbedder):
    name = 'backwards-256'

    def __call__(self, texts):
        return super().__call__(texts)[:, ::-1]


@pytest.mark.parametrize('client', [QdrantClient, AsyncQdrantClient])
def test_models_do_not_mix(client):
    client = client(':memory:')
    fill_qdrant(client, 'turns', TURNS[:3])
    for act in (lambda: from_qdrant(client, 'turns', Backwards()), lambda: fill_qdrant(client, 'turns', TURNS[3:5], Backwards())):
        with pytest.raises(EmbedderMismatch, match="holds vectors of 'wordllama-256', the embedder is 'backwards-256'"):
            act()
    small = lambda texts: np.ones((len(texts), 3))  # noqa: E731
    with pytest.raises(DimensionMismatch, match='holds 256 dimensions, the embedder gave 3'):
        fill_qdrant(client, 'turns', TURNS[3:5], small)
    with pytest.raises(DimensionMismatch):
        from_qdrant(client, 'turns', small).search('x')
    assert stores._plain(client.count)('turns').count == 3  # nothing was put in on the way


@pytest.mark.parametrize('rows', [lambda texts: np.full((len(texts), 256), np.nan), lambda texts: np.ones(256), lambda texts: [], lambda texts: np.ones((9, 256))])
def test_no_vectors_are_an_error(rows):
    client = QdrantClient(':memory:')
    fill_qdrant(client, 'turns', TURNS[:3], embed)
    with pytest.raises(ValueError, match='rows of finite numbers'):
        from_qdrant(client, 'turns', rows).search('x')
    with pytest.raises(ValueError, match='rows of finite numbers'):
        fill_qdrant(client, 'other', TURNS[:3], rows)
    assert not client.collection_exists('other')


def test_bad_input_says_so():
    client = QdrantClient(':memory:')
    with pytest.raises(ValueError, match='nowhere not found'):
        from_qdrant(client, 'nowhere')
    with pytest.raises(DuplicateSnippet, match="two different snippets 'D1:1'"):
        fill_qdrant(client, 'turns', [TURNS[0], replace(TURNS[0], text='other')], embed)
    assert not client.collection_exists('turns')
    fill_qdrant(client, 'turns', [TURNS[0], TURNS[0]], embed)
    with pytest.raises(ValueError, match=r"expected a text in 'body', got the fields \['id', 'memnb_first_day'"):
        from_qdrant(client, 'turns', embed, Fields(text='body')).search('x')


@pytest.mark.parametrize('client', [QdrantClient, AsyncQdrantClient])
def test_filling_twice_is_filling_once(client):
    client, embedded = client(':memory:'), []

    def counted(texts):
        embedded.extend(texts)
        return embed(texts)
    fill_qdrant(client, 'turns', SNIPPETS[:20], counted, batch=7)
    for _ in range(2):
        fill_qdrant(client, 'turns', SNIPPETS, counted, batch=7)
    assert stores._plain(client.count)('turns').count == len(SNIPPETS)
    assert sorted(embedded) == sorted(['memory'] + [snippet.text for snippet in SNIPPETS])  # each once


def test_another_snippet_under_a_known_id_is_refused_unless_it_is_meant():
    client = QdrantClient(':memory:')
    fill_qdrant(client, 'turns', SNIPPETS, embed)
    others = [replace(TURNS[4], text='Gerald is a tortoise.', time=TimeSpan.year(2001), said=None), replace(TURNS[4], speaker=None), replace(TURNS[4], sources=())]
    for other in others:
        with pytest.raises(DuplicateSnippet, match="another snippet 'D1:5' is in collection 'turns'"):
            fill_qdrant(client, 'turns', [Snippet('new', 'a new one'), other], embed)
        assert client.count('turns').count == len(SNIPPETS)  # nothing came in on the way
    fill_qdrant(client, 'turns', others[:1], embed, replace=True)
    assert client.count('turns').count == len(SNIPPETS)
    assert from_qdrant(client, 'turns', embed).search('tortoise', 1, during=TimeSpan.year(2001))[0].snippet == others[0]
    client.set_payload('turns', {'mood': 'glad'}, [_point_id('D1:1')])  # a field that is not ours makes no other snippet
    fill_qdrant(client, 'turns', TURNS[:1], embed)
    assert client.retrieve('turns', [_point_id('D1:1')])[0].payload['mood'] == 'glad'


def test_names_of_your_own_and_any_function_as_a_model():
    names = Fields(id='key', text='body', said='at', speaker='who', sources='from', session='talk', position='nr', time='when')
    nameless = Vectors(EMBED, ['Tobin', 'Zofia']).of
    client = QdrantClient(':memory:')
    fill_qdrant(client, 'turns', SNIPPETS, nameless, names)
    store = from_qdrant(client, 'turns', nameless, names)
    assert {hit.snippet for hit in store.search(QUESTION, 100)} == set(SNIPPETS)
    assert EVIDENCE in ids(store.search(QUESTION, 5))


@pytest.mark.parametrize('faster', [True, False])
def test_two_processes_make_one_collection(faster, monkeypatch):
    client, answers = QdrantClient(':memory:'), iter([False, faster])
    if faster:
        fill_qdrant(client, 'turns', TURNS[:3], embed)
    else:
        monkeypatch.setattr(client, 'create_collection', lambda *_, **__: 1 / 0)
    monkeypatch.setattr(client, 'collection_exists', lambda collection: next(answers))  # it comes between the question and the making
    if faster:
        fill_qdrant(client, 'turns', TURNS[:5], embed)
        assert client.count('turns').count == 5
    else:
        with pytest.raises(ZeroDivisionError):
            fill_qdrant(client, 'turns', TURNS[:5], embed)


def test_no_warning_about_indexes_and_none_swallowed():
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        fill_qdrant(QdrantClient(':memory:'), 'turns', TURNS[:2], embed)


def test_a_day_and_a_moment_at_the_edges():
    client = QdrantClient(':memory:')
    night = [Snippet('eve', 'late', said=datetime(2024, 1, 31, 23, 59)), Snippet('morn', 'early', said=datetime(2024, 2, 1)), Snippet('never', 'none')]
    fill_qdrant(client, 'turns', night, embed)
    store = from_qdrant(client, 'turns', embed)
    assert set(ids(store.search('x', during=TimeSpan.month(2024, 1)))) == {'eve'}
    assert set(ids(store.search('x', during=TimeSpan.month(2024, 2)))) == {'morn'}
    assert set(ids(store.search('x', during=TimeSpan(None, date.max)))) == {'eve', 'morn'}
    assert client.retrieve('turns', [_point_id('never')])[0].payload[_FIRST] > 99991231


# Laws that see what is broken in the filter

@pytest.mark.parametrize('broken', ['exclude', 'during'])
def test_a_filter_that_is_broken_is_seen(broken, monkeypatch):
    def forgetful(exclude, during, only, names):
        return qdrant_filter((), during, only, names) if broken == 'exclude' else qdrant_filter(exclude, None, only, names)
    monkeypatch.setattr(stores, 'qdrant_filter', forgetful)
    with pytest.raises(AssertionError):
        its_claims_are_true(maker(memory_client))
