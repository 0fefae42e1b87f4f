"""Loops over mem0: its real `Memory` and `AsyncMemory` over an embedded Qdrant, filled with infer=False, so that no model is asked.

The embedder is a stand-in of mem0's own base class. Its telemetry is off, and its folder is a temporary one."""

import logging
import os
import tempfile
import warnings

import pytest

os.environ['MEM0_TELEMETRY'] = 'False'
os.environ.setdefault('MEM0_DIR', tempfile.mkdtemp(prefix='mem0-'))
pytest.importorskip('mem0')
pytest.importorskip('qdrant_client')
logging.getLogger('mem0').setLevel(logging.ERROR)  # it warns that spaCy and fastembed are missing; both are optional

from contract import ids, maker, properties_of, QUESTION, TURNS
from mem0 import AsyncMemory, Memory
from mem0.embeddings.base import EmbeddingBase
from qdrant_client import QdrantClient

from memnb.adapters.stores import Fields, fields_of, from_mem0
from memnb.core.retriever import waited
from memnb.retrieval.vectors import WordLlamaEmbedder

NAMES = Fields(id='snippet_id')


class LocalEmbedder(EmbeddingBase):
    def embed(self, text, memory_action=None):
        return WordLlamaEmbedder()([text])[0].tolist()


def new_memory(kind=Memory, **store):
    store = store or {'client': QdrantClient(':memory:')}
    config = {
        'vector_store': {
            'provider': 'qdrant',
            'config': {'collection_name': 'memories', 'embedding_model_dims': 256, **store},
        },
        'embedder': {
            'provider': 'lmstudio',
            'config': {'embedding_dims': 256},
        },  # replaced below; nothing is asked at its address
        'llm': {'provider': 'lmstudio', 'config': {}},
        'history_db_path': ':memory:',
    }
    with warnings.catch_warnings():
        warnings.simplefilter(
            'ignore', UserWarning
        )  # it asks an embedded Qdrant for indexes of payloads, which has none
        memory = kind.from_config(config)
    memory.embedding_model = LocalEmbedder()
    return memory


def put(memory, snippets, user_id='tobin'):
    add = waited(memory.add) if isinstance(memory, AsyncMemory) else memory.add
    for snippet in snippets:
        add(snippet.text, user_id=user_id, metadata=fields_of(snippet, NAMES), infer=False)
    return memory


def maker_of(kind):
    def adapt(snippets):
        memory = put(new_memory(kind), snippets)
        put(memory, TURNS[:3], user_id='a-stranger')  # whose memories never come
        return from_mem0(memory, {'user_id': 'tobin'})

    def broken():
        memory = new_memory(kind)
        memory.vector_store.delete_col()
        return from_mem0(memory, {'user_id': 'tobin'})

    return maker(adapt, broken)


test_property = properties_of({'Memory': maker_of(Memory), 'AsyncMemory': maker_of(AsyncMemory)})


def test_hits_are_those_of_mem0_in_its_order():
    memory = put(new_memory(), TURNS)
    plain = memory.search(QUESTION, filters={'user_id': 'tobin'}, top_k=5, threshold=0.0)['results']
    found = from_mem0(memory, {'user_id': 'tobin'}).search(QUESTION, 5)
    assert [(hit.snippet.text, hit.score) for hit in found] == [(one['memory'], one['score']) for one in plain]


def test_the_name_of_a_message_is_its_speaker():
    memory = new_memory()
    messages = [
        {'role': 'user', 'name': 'Zofia', 'content': 'I tuned the organ.'},
        {'role': 'assistant', 'content': 'Well done.'},
    ]
    memory.add(messages, user_id='tobin', infer=False)
    speakers = {
        hit.snippet.text: hit.snippet.speaker for hit in from_mem0(memory, {'user_id': 'tobin'}).search('organ')
    }
    assert speakers == {'I tuned the organ.': 'Zofia', 'Well done.': None}
    nameless = from_mem0(memory, {'user_id': 'tobin'}, Fields(id=None, speaker=None)).search('organ')
    assert {hit.snippet.speaker for hit in nameless} == {None}


def test_owners_do_not_mix_and_filters_are_passed_on():
    memory = put(put(new_memory(), TURNS[:4], 'tobin'), TURNS[4:8], 'zofia')
    query = ' '.join(snippet.text for snippet in TURNS[:8])  # near to all: what has a cosine below 0 is never shown
    assert {*ids(from_mem0(memory, {'user_id': 'zofia'}).search(query, 50))} == {snippet.id for snippet in TURNS[4:8]}
    memory.add('of another run', user_id='zofia', run_id='second', infer=False)
    filters = {'user_id': 'zofia', 'run_id': 'second'}
    assert [hit.snippet.text for hit in from_mem0(memory, filters).search('another run')] == ['of another run']
    assert filters == {'user_id': 'zofia', 'run_id': 'second'}
    by_tobin = {snippet.id for snippet in TURNS[4:8] if snippet.speaker == 'Tobin'}
    assert (
        {*ids(from_mem0(memory, {'user_id': 'zofia', 'session': 'D1', 'speaker': 'Tobin'}).search(query, 50))}
        == by_tobin
        != set()
    )
