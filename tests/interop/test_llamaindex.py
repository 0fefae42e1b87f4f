"""Loops over LlamaIndex: an index in memory, retrievers of several classes, and ones of a user's own."""
import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import pytest

pytest.importorskip('llama_index.core')

from llama_index.core import SummaryIndex, VectorStoreIndex
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.llms import MockLLM
from llama_index.core.retrievers import BaseRetriever, QueryFusionRetriever
from llama_index.core.schema import NodeWithScore, TextNode

import memnb.adapters.stores as retrievers
from contract import LAWS, QUERIES, QUESTION, SNIPPETS, TURNS, a_limit_is_passed_on, ids
from memnb.retrieval.vectors import WordLlamaEmbedder
from memnb.retrieval.vectors import DenseIndex
from memnb.adapters.stores import Fields, fields_of
from memnb.adapters.stores import _resized, from_llamaindex


@cache
def vector_of(text):
    return WordLlamaEmbedder()([text])[0].tolist()


class LocalEmbedding(BaseEmbedding):
    broken: bool = False

    def _get_text_embedding(self, text):
        return vector_of(text)

    def _get_query_embedding(self, query):
        if self.broken:
            raise ConnectionError('no embedder')
        return vector_of(query)

    async def _aget_query_embedding(self, query):
        return self._get_query_embedding(query)


def nodes_of(snippets, names=Fields()):
    return [TextNode(id_=snippet.id, text=snippet.text, metadata=fields_of(snippet, names),
                     excluded_embed_metadata_keys=list(fields_of(snippet, names))) for snippet in snippets]


def index_of(snippets, broken=False):
    return VectorStoreIndex(nodes_of(snippets), embed_model=LocalEmbedding(broken=broken))


class Awaited(BaseRetriever):
    """A retriever that can only be awaited, with a number of its own."""
    def __init__(self, inner, top_k=2):
        super().__init__()
        self.inner, self.top_k = inner, top_k

    def _retrieve(self, query_bundle):
        raise NotImplementedError('await it')

    async def _aretrieve(self, query_bundle):
        await asyncio.sleep(0)
        return await _resized(self.inner, self.top_k).aretrieve(query_bundle)


WAYS = {'index': lambda index: index, 'retriever': lambda index: index.as_retriever(similarity_top_k=3), 'awaited': lambda index: Awaited(index.as_retriever())}


def maker(way):
    @cache
    def adapted(snippets):
        return from_llamaindex(way(index_of(snippets)))

    def make(snippets):
        return adapted(tuple(snippets))
    make.broken = lambda: from_llamaindex(way(index_of(TURNS[:3], broken=True)))
    return make


MAKERS = {name: maker(way) for name, way in WAYS.items()}


@pytest.mark.parametrize('law', LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize('make', MAKERS.values(), ids=MAKERS)
def test_law(law, make):
    law(make)


def test_it_finds_what_a_dense_index_finds():
    dense = DenseIndex()
    dense.add(SNIPPETS)
    for query in QUERIES:
        ours = dense.search(query, 9)
        for make in MAKERS.values():
            its = make(SNIPPETS).search(query, 9)
            assert [hit.snippet for hit in its] == [hit.snippet for hit in ours]
            assert [hit.score for hit in its] == pytest.approx([hit.score for hit in ours], abs=1e-5)


def test_the_owners_retriever_stays_as_it_was_also_under_threads():
    retriever = index_of(TURNS).as_retriever(similarity_top_k=3)
    adapted = from_llamaindex(retriever)
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda k: len(adapted.search(QUESTION, k)), list(range(1, 20)) * 3))
    assert found == list(range(1, 20)) * 3
    assert len(retriever.retrieve(QUESTION)) == 3 == retriever.similarity_top_k


def test_without_the_copy_the_owner_would_notice(monkeypatch):
    monkeypatch.setattr(retrievers, 'copy', lambda thing: thing)
    retriever = index_of(TURNS).as_retriever()
    from_llamaindex(retriever).search(QUESTION, 9)
    assert len(retriever.retrieve(QUESTION)) == 9


def test_retrievers_without_scores_and_without_a_knob():
    everything = from_llamaindex(SummaryIndex(nodes_of(SNIPPETS)))  # gives all nodes, for any question
    assert len(everything.search(QUESTION, 1000)) == len(SNIPPETS) and {hit.score for hit in everything.search(QUESTION, 5)} == {None}
    assert 'no more' in everything.note
    few = from_llamaindex(Fixed(index_of(SNIPPETS).as_retriever().retrieve(QUESTION)))
    assert few.search(QUESTION, 3, exclude=ids(few.search(QUESTION, 9))) == []  # there are others, but it does not give them


def test_a_fusion_has_its_own_number_and_those_of_its_parts():
    parts = [index_of(TURNS).as_retriever(similarity_top_k=8), index_of(TURNS).as_retriever(similarity_top_k=5)]
    fusion = from_llamaindex(QueryFusionRetriever(parts, llm=MockLLM(), num_queries=1, use_async=False, similarity_top_k=2))
    assert len(fusion.search(QUESTION, 3)) == 3
    assert len(fusion.search(QUESTION, 100)) == 8  # its parts give no more


def test_a_fusion_of_its_own_loops_works_in_a_running_one_if_it_is_awaited():
    parts = [index_of(TURNS).as_retriever(similarity_top_k=8)] * 2
    fusion = from_llamaindex(QueryFusionRetriever(parts, llm=MockLLM(), num_queries=1, use_async=True), awaited=True)

    async def within():
        return fusion.search(QUESTION, 5)
    assert asyncio.run(within()) == fusion.search(QUESTION, 5) != []


def test_awaited_where_calling_it_fails():
    class Fails(Awaited):
        def _retrieve(self, query_bundle):
            raise RuntimeError('this loop is running already')
    retriever = Fails(index_of(TURNS).as_retriever())
    with pytest.raises(RuntimeError, match='running already'):
        from_llamaindex(retriever).search(QUESTION)
    assert ids(from_llamaindex(retriever, awaited=True).search(QUESTION, 5)) == ids(MAKERS['index'](TURNS).search(QUESTION, 5))


class Fixed(BaseRetriever):
    def __init__(self, nodes):
        super().__init__()
        self.nodes = nodes

    def _retrieve(self, query_bundle):
        return self.nodes


def test_ids_scores_and_texts_of_nodes():
    nodes = [NodeWithScore(node=TextNode(id_='theirs', text='one', metadata={'id': 'ours'}), score=.5), NodeWithScore(node=TextNode(id_='n2', text='two'), score=None),
             NodeWithScore(node=TextNode(id_='n3', text='three', metadata={'said': '2024-02-03', 'speaker': 'Ada'}), score=0)]
    found = from_llamaindex(Fixed(nodes)).search('x', 9)
    assert [(hit.snippet.id, hit.score) for hit in found] == [('ours', .5), ('n2', None), ('n3', 0.0)]
    assert found[2].snippet.line == '[3 February 2024] Ada: three'  # the metadata are no part of the text


def test_names_of_your_own():
    names = Fields(id='turn', said='at', speaker='who', sources='from', session='talk', position='nr', time='when')
    store = from_llamaindex(VectorStoreIndex(nodes_of(SNIPPETS, names), embed_model=LocalEmbedding()), names)
    assert {hit.snippet for hit in store.search(QUESTION, 100)} == set(SNIPPETS)


def test_a_time_that_cannot_be_read_is_said():
    node = NodeWithScore(node=TextNode(id_='n', text='one', metadata={'said': 'some day'}), score=.5)
    with pytest.raises(ValueError, match="'n'.*'said'.*'some day'"):
        from_llamaindex(Fixed([node])).search('x')


def test_what_is_no_retriever_says_so():
    for thing in (None, 'retriever', LocalEmbedding()):
        with pytest.raises(TypeError, match=f'expected a retriever or an index of LlamaIndex, got {type(thing).__name__}'):
            from_llamaindex(thing)


def test_a_limit_that_is_not_passed_on_is_seen(monkeypatch):
    monkeypatch.setattr(retrievers, '_resized', lambda retriever, limit: _resized(retriever, 30))
    with pytest.raises(AssertionError):
        a_limit_is_passed_on(lambda snippets: from_llamaindex(index_of(snippets)))
