"""Loops over LangChain: its `InMemoryVectorStore`, a retriever over it in each of its kinds of search, and stores of a
user's own."""

import copy
import os
from functools import cache

import pytest

os.environ['LANGSMITH_TRACING'] = os.environ['LANGCHAIN_TRACING_V2'] = 'false'  # nothing is reported anywhere
pytest.importorskip('langchain_core')

from contract import EVIDENCE, ids, maker, properties_of, QUERIES, QUESTION, SNIPPETS, TURNS
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.runnables import RunnableLambda
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore

from memnb.adapters.stores import Fields, fields_of, from_langchain
from memnb.core.time import TimeSpan
from memnb.retrieval.vectors import WordLlamaEmbedder


@cache
def vector_of(text):
    return WordLlamaEmbedder()([text])[0].tolist()


class LocalEmbeddings(Embeddings):
    def embed_documents(self, texts):
        return [vector_of(text) for text in texts]

    def embed_query(self, text):
        return vector_of(text)


class Refusing(LocalEmbeddings):
    def embed_query(self, text):
        raise ConnectionError('no embedder')


def filled(snippets, kind=InMemoryVectorStore, embeddings=LocalEmbeddings, names=Fields()):
    store = kind(embeddings())
    texts, metadata = [snippet.text for snippet in snippets], [fields_of(snippet, names) for snippet in snippets]
    store.add_texts(texts, metadata, ids=[snippet.id for snippet in snippets])
    return store


class Plain(VectorStore):
    """A store as a user writes one: it can be called, and takes no options. `inner` does the work."""

    def __init__(self, embeddings):
        self.inner = InMemoryVectorStore(embeddings)

    def add_texts(self, texts, metadatas=None, *, ids=None, **options):
        return self.inner.add_texts(texts, metadatas, ids=ids)

    def similarity_search(self, query, k=4, **options):
        assert not options, options
        return self.inner.similarity_search(query, k)

    @classmethod
    def from_texts(cls, texts, embedding, metadatas=None, **options):
        raise NotImplementedError


WAYS = {
    'store': (InMemoryVectorStore, from_langchain),
    'plain store': (Plain, from_langchain),
    'retriever': (InMemoryVectorStore, lambda store: from_langchain(store.as_retriever())),
}


def maker_of(kind, adapt):
    return maker(
        lambda snippets: adapt(filled(snippets, kind)),
        lambda: adapt(filled(TURNS[:3], kind, Refusing)),
        ('ids', 'times', 'fields'),
    )


MAKERS = {name: maker_of(*way) for name, way in WAYS.items()}
test_property = properties_of(MAKERS)


def test_all_find_the_same():
    stores = {name: make(SNIPPETS) for name, make in MAKERS.items()}
    for query in QUERIES:
        four = ids(stores['store'].search(query, 4))
        for options in ({}, {'exclude': four}, {'during': TimeSpan.month(2024, 2)}):
            found = [store.search(query, 9, **options) for store in stores.values()]
            assert len({tuple(hit.snippet for hit in hits) for hits in found}) == 1


def by_tobin(document):
    return document.metadata['speaker'] == 'Tobin'


@pytest.mark.parametrize(
    'options',
    [
        {},
        {'search_kwargs': {'k': 1}},
        {'search_type': 'mmr'},
        {'search_type': 'mmr', 'search_kwargs': {'k': 2, 'fetch_k': 3}},
        {'search_kwargs': {'filter': by_tobin}},
    ],
)
def test_a_retriever_gives_as_many_as_are_wanted_and_stays_as_it_was(options):
    retriever = filled(TURNS).as_retriever(**options)
    before, kept = retriever.invoke(QUESTION), copy.copy(retriever.search_kwargs)
    adapted = from_langchain(retriever)
    whole = [snippet for snippet in TURNS if 'filter' not in retriever.search_kwargs or snippet.speaker == 'Tobin']
    for k, gone in ((1, 0), (7, 0), (7, 9), (30, 3), (100, 0)):
        found = adapted.search(QUESTION, k, exclude=[snippet.id for snippet in whole[:gone]])
        assert len(found) == min(k, len(whole) - gone) and {hit.snippet for hit in found} <= set(whole)
    assert retriever.invoke(QUESTION) == before and retriever.search_kwargs == kept


def test_a_chain_has_no_size():
    retriever = filled(TURNS).as_retriever(search_kwargs={'k': 6})
    chain = from_langchain(retriever | RunnableLambda(lambda documents: documents[::-1]))
    assert len(chain.search(QUESTION, 20)) == 6
    assert ids(chain.search(QUESTION, 3)) == ids(from_langchain(retriever).search(QUESTION, 6))[::-1][:3]
    assert (
        chain.search(QUESTION, 3, exclude=ids(chain.search(QUESTION, 6))) == []
    )  # there are others, but it does not give them


def test_names_of_your_own():
    names = Fields(id='turn', said='at', speaker='who', sources='from', session='talk', position='nr', time='when')
    store = from_langchain(filled(SNIPPETS, names=names), names)
    assert {hit.snippet for hit in store.search(QUESTION, 100)} == set(SNIPPETS)
    assert EVIDENCE not in ids(store.search(QUESTION, 100, exclude=[EVIDENCE]))


@pytest.mark.parametrize('thing', [LocalEmbeddings(), None, 'retriever', [Document('x')]])
def test_what_is_no_store_is_refused(thing):
    with pytest.raises(TypeError, match=f'expected a store or a retriever of LangChain, got {type(thing).__name__}'):
        from_langchain(thing)
