"""Loops over LlamaIndex: an index in memory, retrievers of several classes, and ones of a user's own."""

from concurrent.futures import ThreadPoolExecutor
from functools import cache

import pytest

pytest.importorskip('llama_index.core')

from contract import ids, maker, properties_of, QUERIES, QUESTION, SNIPPETS, TURNS
from llama_index.core import SummaryIndex, VectorStoreIndex
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.llms import MockLLM
from llama_index.core.retrievers import BaseRetriever, QueryFusionRetriever
from llama_index.core.schema import NodeWithScore, TextNode

from memnb.adapters.stores import Fields, fields_of, from_llamaindex
from memnb.retrieval.vectors import DenseIndex, WordLlamaEmbedder


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
    return [
        TextNode(
            id_=snippet.id,
            text=snippet.text,
            metadata=fields_of(snippet, names),
            excluded_embed_metadata_keys=list(fields_of(snippet, names)),
        )
        for snippet in snippets
    ]


def index_of(snippets, broken=False):
    return VectorStoreIndex(nodes_of(snippets), embed_model=LocalEmbedding(broken=broken))


class Fixed(BaseRetriever):
    """A retriever that gives the same nodes for every question."""

    def __init__(self, nodes):
        super().__init__()
        self.nodes = nodes

    def _retrieve(self, query_bundle):
        return self.nodes


WAYS = {'index': from_llamaindex, 'retriever': lambda index: from_llamaindex(index.as_retriever(similarity_top_k=3))}
MAKERS = {
    name: maker(
        lambda snippets, way=way: way(index_of(snippets)), lambda way=way: way(index_of(TURNS[:3], broken=True))
    )
    for name, way in WAYS.items()
}
test_property = properties_of(MAKERS)


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


def test_retrievers_without_scores_and_without_a_size():
    everything = from_llamaindex(SummaryIndex(nodes_of(SNIPPETS)))  # gives all nodes, for any question
    assert len(everything.search(QUESTION, 1000)) == len(SNIPPETS)
    assert {hit.score for hit in everything.search(QUESTION, 5)} == {None}
    few = from_llamaindex(Fixed(index_of(SNIPPETS).as_retriever().retrieve(QUESTION)))
    assert (
        few.search(QUESTION, 3, exclude=ids(few.search(QUESTION, 9))) == []
    )  # there are others, but it does not give them


def test_a_fusion_has_its_own_number():
    parts = [index_of(TURNS).as_retriever(similarity_top_k=8), index_of(TURNS).as_retriever(similarity_top_k=5)]
    fusion = from_llamaindex(
        QueryFusionRetriever(parts, llm=MockLLM(), num_queries=1, use_async=False, similarity_top_k=2)
    )
    assert len(fusion.search(QUESTION, 3)) == 3
    assert len(fusion.search(QUESTION, 100)) == 8  # its parts give no more


def test_ids_scores_and_texts_of_nodes():
    said = {'said': '2024-02-03', 'speaker': 'Ada'}
    nodes = [
        NodeWithScore(node=TextNode(id_='theirs', text='one', metadata={'id': 'ours'}), score=0.5),
        NodeWithScore(node=TextNode(id_='n2', text='two'), score=None),
        NodeWithScore(node=TextNode(id_='n3', text='three', metadata=said), score=0),
    ]
    found = from_llamaindex(Fixed(nodes)).search('x', 9)
    assert [(hit.snippet.id, hit.score) for hit in found] == [('ours', 0.5), ('n2', None), ('n3', 0.0)]
    assert found[2].snippet.line == '[3 February 2024] Ada: three'  # the metadata are no part of the text
    nodes[0].node.metadata['said'] = 'some day'
    with pytest.raises(ValueError, match="'ours'.*'said'.*'some day'"):
        from_llamaindex(Fixed(nodes)).search('x')


@pytest.mark.parametrize('thing', [None, 'retriever', LocalEmbedding()])
def test_what_is_no_retriever_is_refused(thing):
    with pytest.raises(TypeError, match=f'expected a store or a retriever of LlamaIndex, got {type(thing).__name__}'):
        from_llamaindex(thing)
