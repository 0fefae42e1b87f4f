"""Loops over Qdrant: the real client with its embedded engine."""

import itertools
from functools import cache

import numpy as np
import pytest

pytest.importorskip('qdrant_client')

from contract import ids, maker, ODD, properties_of, QUERIES, QUESTION, SNIPPETS, TURNS
from qdrant_client import models, QdrantClient

from memnb.adapters.stores import Fields, fields_of, from_qdrant
from memnb.core.time import TimeSpan
from memnb.memr3.loop import MemR3
from memnb.retrieval.vectors import DenseIndex, DimensionMismatch, EmbedderMismatch, WordLlamaEmbedder

EMBED = WordLlamaEmbedder()


@cache
def vector_of(text):
    return EMBED([text])[0]


def embed(texts):
    """Each text once: the properties ask the same questions over and over."""
    return np.array([vector_of(text) for text in texts])


embed.name = EMBED.name


def fill(client, name, snippets, embed=embed):
    """A collection of snippets, which names its embedder, as it is filled with Qdrant's client."""
    vectors = models.VectorParams(size=256, distance=models.Distance.COSINE)
    client.create_collection(name, vectors, metadata={'embedder': embed.name})
    rows = embed([snippet.text for snippet in snippets]) if snippets else []
    points = [
        models.PointStruct(id=number, vector=row.tolist(), payload={**fields_of(snippet), 'text': snippet.text})
        for number, (snippet, row) in enumerate(zip(snippets, rows))
    ]
    if points:
        client.upsert(name, points)


def maker_of(new_client):
    """`make` over new clients; each snippet list has a collection of its own name."""
    numbers = itertools.count()

    def adapt(snippets):
        client, name = new_client(), f'turns{next(numbers)}'
        fill(client, name, snippets)
        return from_qdrant(client, name, embed)

    def broken():
        """A store whose collection was dropped after it was adapted."""
        client = new_client()
        fill(client, 'dropped', TURNS[:3])
        store = from_qdrant(client, 'dropped', embed)
        client.delete_collection('dropped')
        return store

    return maker(adapt, broken)


make = maker_of(lambda: QdrantClient(':memory:'))
test_property = properties_of({'in memory': make})


def test_it_finds_what_a_dense_index_finds():
    dense, store = DenseIndex(EMBED), make(SNIPPETS)
    dense.add(SNIPPETS)
    for query in QUERIES + ODD:
        ours, its = dense.search(query, 12), store.search(query, 12)
        assert [hit.score for hit in its] == pytest.approx([hit.score for hit in ours], abs=1e-5)
        if len({round(hit.score, 4) for hit in ours}) == 12:  # otherwise ties may come in any order
            assert [hit.snippet for hit in its] == [hit.snippet for hit in ours]


def ones(texts):
    return np.ones((len(texts), 2))


def other_collection(
    payload_of, vectors=models.VectorParams(size=256, distance=models.Distance.COSINE), vector_of=lambda row: row
):
    """A collection that this package did not fill."""
    client = QdrantClient(':memory:')
    client.create_collection('chat', vectors)
    client.upsert(
        'chat',
        [
            models.PointStruct(
                id=number, vector=vector_of(embed([snippet.text])[0].tolist()), payload=payload_of(snippet)
            )
            for number, snippet in enumerate(TURNS)
        ],
    )
    return client


def test_a_collection_that_somebody_else_filled():
    client = other_collection(
        lambda one: {'page_content': one.text, 'metadata': {'at': str(one.said), 'who': one.speaker}}
    )
    names = Fields(text='page_content', said='metadata.at', speaker='metadata.who')
    store = from_qdrant(client, 'chat', embed, names)
    everything = store.search(QUESTION, 100)
    assert len(everything) == len(TURNS) and {hit.snippet.speaker for hit in everything} == {'Tobin', 'Zofia'}
    gone = ids(everything)[:5]  # Qdrant's own ids, which the payload does not have: filtered here
    assert ids(store.search(QUESTION, 4, exclude=gone)) == ids(everything)[5:9]
    span = TimeSpan.day(TURNS[-1].said)
    wanted = [hit.snippet.id for hit in everything if hit.snippet.day.overlaps(span)]
    assert ids(store.search(QUESTION, 3, during=span)) == wanted[:3]
    assert MemR3(store).ask(QUESTION).answer == '8 January 2024'
    his = models.Filter(must=[models.FieldCondition(key='metadata.who', match=models.MatchValue(value='Tobin'))])
    only = from_qdrant(client, 'chat', embed, names, only=his)
    assert {hit.snippet.speaker for hit in only.search(QUESTION, 100, exclude=gone)} == {'Tobin'}


def test_several_vectors_and_distances():
    euclid = models.VectorParams(size=256, distance=models.Distance.EUCLID)
    other = models.VectorParams(size=2, distance=models.Distance.DOT)
    client = other_collection(
        lambda snippet: {'text': snippet.text},
        {'words': euclid, 'other': other},
        lambda row: {'words': row, 'other': [0.0, 1.0]},
    )
    with pytest.raises(ValueError, match="using: expected one of the vectors .*words.*, got None"):
        from_qdrant(client, 'chat', embed)
    hits = from_qdrant(client, 'chat', embed, using='words').search(TURNS[4].text, 6)
    assert hits[0].snippet.text == TURNS[4].text and hits[0].score == pytest.approx(0, abs=1e-3)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True) and hits[-1].score < 0


class Backwards(WordLlamaEmbedder):
    name = 'backwards-256'

    def __call__(self, texts):
        return super().__call__(texts)[:, ::-1]


def test_models_do_not_mix():
    client = QdrantClient(':memory:')
    fill(client, 'turns', TURNS[:3])
    with pytest.raises(EmbedderMismatch, match="holds vectors of 'wordllama-256', the embedder is 'backwards-256'"):
        from_qdrant(client, 'turns', Backwards())
    with pytest.raises(DimensionMismatch, match='expected vectors of 256 dimensions, got 2'):
        from_qdrant(client, 'turns', ones).search('x')


def test_bad_input_is_an_error():
    client = QdrantClient(':memory:')
    with pytest.raises(ValueError, match='nowhere not found'):
        from_qdrant(client, 'nowhere')
    fill(client, 'turns', TURNS[:1])
    with pytest.raises(TypeError, match=r"expected a text in 'body', got None among \['id', 'time'|\['id', 'said'"):
        from_qdrant(client, 'turns', embed, Fields(text='body')).search('x')
