"""Loops over LangChain: its `InMemoryVectorStore`, with a filter and without, a retriever over it in each of its kinds of search, and
stores and retrievers of a user's own that have no scores, or can only be awaited."""
import asyncio
import copy
import os
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import pytest

os.environ['LANGSMITH_TRACING'] = os.environ['LANGCHAIN_TRACING_V2'] = 'false'  # nothing is reported anywhere
pytest.importorskip('langchain_core')

from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore

import memnb.adapters.stores as retrievers
from contract import EVIDENCE, LAWS, QUERIES, QUESTION, SNIPPETS, TURNS, a_limit_is_passed_on, ids
from memnb.retrieval.vectors import WordLlamaEmbedder
from memnb.adapters.stores import Fields, fields_of
from memnb.memr3.loop import MemR3
from memnb.adapters.stores import _resized, document_filter, from_langchain
from memnb.core.retriever import passes
from memnb.core.conversation import content_id
from memnb.core.time import TimeSpan


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
    store.add_texts([snippet.text for snippet in snippets], [fields_of(snippet, names) for snippet in snippets], ids=[snippet.id for snippet in snippets])
    return store


class Plain(VectorStore):
    """A store as a user writes one: it can be called, has no scores, and takes no options. `inner` does the work."""
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


class Awaited(Plain):
    """A store that can only be awaited, and has scores."""
    def similarity_search(self, query, k=4, **options):
        raise NotImplementedError('await it')

    async def asimilarity_search_with_score(self, query, k=4, **options):
        await asyncio.sleep(0)
        return await self.inner.asimilarity_search_with_score(query, k)


class AwaitedRetriever(BaseRetriever):
    """A retriever that can only be awaited, with a `k` of its own."""
    inner: InMemoryVectorStore
    k: int = 2

    def _get_relevant_documents(self, query, *, run_manager):
        raise NotImplementedError('await it')

    async def _aget_relevant_documents(self, query, *, run_manager):
        await asyncio.sleep(0)
        return await self.inner.asimilarity_search(query, self.k)


WAYS = {
    'store': (InMemoryVectorStore, from_langchain),
    'store with a filter': (InMemoryVectorStore, lambda store: from_langchain(store, mask=document_filter())),
    'store without scores': (Plain, from_langchain),
    'awaited store': (Awaited, from_langchain),
    'retriever': (InMemoryVectorStore, lambda store: from_langchain(store.as_retriever())),
    'awaited retriever': (InMemoryVectorStore, lambda store: from_langchain(AwaitedRetriever(inner=store)))}


def maker(kind, adapt):
    @cache
    def adapted(snippets):
        return adapt(filled(snippets, kind))

    def make(snippets):
        return adapted(tuple(snippets))
    make.broken = lambda: adapt(filled(TURNS[:3], kind, Refusing))
    return make


MAKERS = {name: maker(*way) for name, way in WAYS.items()}


@pytest.mark.parametrize('law', LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize('make', MAKERS.values(), ids=MAKERS)
def test_law(law, make):
    law(make)


def test_what_each_says_of_itself():
    does = {name: make(SNIPPETS).does for name, make in MAKERS.items()}
    assert [name for name in does if does[name]['scores'] == 'its own'] == ['store', 'store with a filter', 'awaited store']
    assert [name for name in does if does[name]['exclude'] == 'by the store'] == ['store with a filter']


def test_all_find_the_same():
    stores = [make(SNIPPETS) for make in MAKERS.values()]
    for query in QUERIES:
        for options in ({}, {'exclude': ids(stores[0].search(query, 4))}, {'during': TimeSpan.month(2024, 2)}):
            assert len({tuple(hit.snippet for hit in store.search(query, 9, **options)) for store in stores}) == 1


@pytest.mark.parametrize('options', [{}, {'search_kwargs': {'k': 1}}, {'search_type': 'mmr'}, {'search_type': 'mmr', 'search_kwargs': {'k': 2, 'fetch_k': 3}},
                                     {'search_kwargs': {'filter': lambda document: document.metadata['speaker'] == 'Tobin'}}])
def test_a_retriever_gives_as_many_as_are_wanted_and_stays_as_it_was(options):
    store = filled(TURNS)
    retriever = store.as_retriever(**options)
    before, kept = retriever.invoke(QUESTION), copy.deepcopy({**retriever.search_kwargs, 'filter': None})
    adapted = from_langchain(retriever)
    whole = [snippet for snippet in TURNS if 'filter' not in retriever.search_kwargs or snippet.speaker == 'Tobin']
    for k, gone in ((1, 0), (7, 0), (7, 9), (30, 3), (100, 0)):
        found = adapted.search(QUESTION, k, exclude=[snippet.id for snippet in whole[:gone]])
        assert len(found) == min(k, len(whole) - gone) and {hit.snippet for hit in found} <= set(whole)
    assert retriever.invoke(QUESTION) == before and {**retriever.search_kwargs, 'filter': None} == kept


def test_a_threshold_of_the_retriever_holds():
    class Related(InMemoryVectorStore):
        def _select_relevance_score_fn(self):
            return lambda score: min(max(score, 0.0), 1.0)
    retriever = filled(TURNS, Related).as_retriever(search_type='similarity_score_threshold', search_kwargs={'score_threshold': .1})
    found = from_langchain(retriever).search(QUESTION, 100)
    scores = {hit.snippet.id: hit.score for hit in from_langchain(filled(TURNS)).search(QUESTION, 100)}
    assert ids(found) == [id for id in scores if scores[id] >= .1] and 1 < len(found) < len(TURNS)


def test_two_threads_want_different_numbers_of_one_retriever():
    retriever = filled(TURNS).as_retriever()
    adapted = from_langchain(retriever)
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda k: len(adapted.search(QUESTION, k)), list(range(1, 30)) * 4))
    assert found == list(range(1, 30)) * 4


def test_a_chain_has_no_knob_and_says_so():
    retriever = filled(TURNS).as_retriever(search_kwargs={'k': 6})
    chain = from_langchain(retriever | RunnableLambda(lambda documents: documents[::-1]))
    assert len(chain.search(QUESTION, 20)) == 6 and 'no more' in chain.note
    assert ids(chain.search(QUESTION, 3)) == ids(from_langchain(retriever).search(QUESTION, 6))[::-1][:3]
    assert chain.search(QUESTION, 3, exclude=ids(chain.search(QUESTION, 6))) == []  # there are others, but it does not give them


def test_a_chain_that_is_awaited():
    async def later(query):
        return [Document(f'{query} was found', id='7')]
    with pytest.raises(TypeError, match='ainvoke'):
        from_langchain(RunnableLambda(later)).search('Gerald', 3)
    chain = from_langchain(RunnableLambda(later), awaited=True)

    async def within():
        return chain.search('Gerald', 3)
    assert ids(chain.search('Gerald', 3)) == ids(asyncio.run(within())) == ['7']


def test_awaited_or_called_is_the_same():
    for kind, adapt in ((InMemoryVectorStore, lambda store: store), (Plain, lambda store: store), (InMemoryVectorStore, InMemoryVectorStore.as_retriever)):
        store = adapt(filled(TURNS, kind))
        assert from_langchain(store, awaited=True).search(QUESTION, 9) == from_langchain(store).search(QUESTION, 9)


def test_ids_of_ours_of_theirs_and_of_nobody():
    documents = [Document('one', id='theirs', metadata={'id': 'ours'}), Document('two', id='theirs 2'), Document('three'), Document('four', metadata={'id': 4})]
    found = from_langchain(RunnableLambda(lambda query: documents)).search('x', 9)
    assert ids(found) == ['ours', 'theirs 2', content_id('three'), '4']


class Distances(InMemoryVectorStore):
    def similarity_search_with_score(self, query, k=4, **options):
        return [(document, 1 - score) for document, score in super().similarity_search_with_score(query, k, **options)]


def test_distances_are_turned_round_and_never_taken_for_scores():
    far = filled(TURNS, Distances)
    with pytest.raises(ValueError, match='distances=True'):
        from_langchain(far).search(QUESTION)
    near = from_langchain(far, distances=True).search(QUESTION)
    assert ids(near) == ids(from_langchain(filled(TURNS)).search(QUESTION))
    assert [hit.score for hit in near] == sorted((hit.score for hit in near), reverse=True)
    with pytest.raises(ValueError, match='distances=False'):
        from_langchain(filled(TURNS), distances=True).search(QUESTION)
    assert 'distances=True' in MemR3(from_langchain(far)).ask(QUESTION).error


def test_names_of_your_own():
    names = Fields(id='turn', said='at', speaker='who', sources='from', session='talk', position='nr', time='when')
    store = from_langchain(filled(SNIPPETS, names=names), names, mask=document_filter(names))
    assert {hit.snippet for hit in store.search(QUESTION, 100)} == set(SNIPPETS)
    assert EVIDENCE not in ids(store.search(QUESTION, 100, exclude=[EVIDENCE]))


def test_what_is_no_store_says_so():
    for thing in (LocalEmbeddings(), None, 'retriever', [Document('x')]):
        with pytest.raises(TypeError, match=f'expected a VectorStore or a retriever of LangChain, got {type(thing).__name__}'):
            from_langchain(thing)


@given(st.sets(st.sampled_from([snippet.id for snippet in SNIPPETS])), st.integers(0, 40), st.sampled_from([None, TimeSpan.month(2024, 1), TimeSpan.year(2016)]))
@settings(max_examples=25)
def test_made_up_for_or_by_the_store_is_the_same(exclude, k, during):
    here, there = MAKERS['store'](SNIPPETS), MAKERS['store with a filter'](SNIPPETS)
    ours, its = here.search(QUESTION, k, exclude=exclude, during=during), there.search(QUESTION, k, exclude=exclude, during=during)
    assert ids(ours) == ids(its) and [hit.score for hit in ours] == pytest.approx([hit.score for hit in its])
    left = [snippet for snippet in SNIPPETS if passes(snippet, exclude, during)]
    assert len(ours) == min(k, len(left))


def test_without_the_copy_the_owner_would_notice(monkeypatch):
    monkeypatch.setattr(retrievers, 'copy', lambda thing: thing)
    retriever = filled(TURNS).as_retriever()
    from_langchain(retriever).search(QUESTION, 9)
    assert len(retriever.invoke(QUESTION)) == 9


def test_a_limit_that_is_not_passed_on_is_seen(monkeypatch):
    monkeypatch.setattr(retrievers, '_resized', lambda retriever, limit: _resized(retriever, 30))
    with pytest.raises(AssertionError):
        a_limit_is_passed_on(lambda snippets: from_langchain(filled(snippets).as_retriever()))
