"""Loops over mem0: its real `Memory` and `AsyncMemory` over an embedded Qdrant, filled with infer=False, so that no model is asked.

The embedder is a stand-in of mem0's own base class. Its telemetry is off, and its folder is a temporary one."""
import asyncio
import logging
import os
import tempfile
import warnings
from functools import cache

import pytest

os.environ['MEM0_TELEMETRY'] = 'False'
os.environ.setdefault('MEM0_DIR', tempfile.mkdtemp(prefix='mem0-'))
pytest.importorskip('mem0')
pytest.importorskip('qdrant_client')
logging.getLogger('mem0').setLevel(logging.ERROR)  # it warns that spaCy and fastembed are missing; both are optional

from mem0 import AsyncMemory, Memory
from mem0.embeddings.base import EmbeddingBase
from mem0.memory import telemetry
from qdrant_client import QdrantClient

from contract import EVIDENCE, LAWS, QUESTION, SNIPPETS, TURNS, ids
from memnb.retrieval.vectors import WordLlamaEmbedder
from memnb.adapters.stores import Fields, fields_of, waited
from memnb.adapters.stores import from_mem0

NAMES = Fields(id='snippet_id')


class LocalEmbedder(EmbeddingBase):
    def embed(self, text, memory_action=None):
        return WordLlamaEmbedder()([text])[0].tolist()


def config(**store):
    store = store or {'client': QdrantClient(':memory:')}
    return {'vector_store': {'provider': 'qdrant', 'config': {'collection_name': 'memories', 'embedding_model_dims': 256, **store}},
            'embedder': {'provider': 'lmstudio', 'config': {'embedding_dims': 256}},  # replaced below; nothing is asked at its address
            'llm': {'provider': 'lmstudio', 'config': {}}, 'history_db_path': ':memory:'}


def new_memory(kind=Memory, **store):
    with warnings.catch_warnings():
        warnings.simplefilter('ignore', UserWarning)  # it asks an embedded Qdrant for indexes of payloads, which has none
        memory = kind.from_config(config(**store))
    memory.embedding_model = LocalEmbedder()
    return memory


def put(memory, snippets, user_id='tobin'):
    add = waited(memory.add) if isinstance(memory, AsyncMemory) else memory.add
    for snippet in snippets:
        add(snippet.text, user_id=user_id, metadata=fields_of(snippet, NAMES), infer=False)
    return memory


def maker(kind):
    @cache
    def filled(snippets):
        memory = put(new_memory(kind), snippets)
        put(memory, TURNS[:3], user_id='a-stranger')  # whose memories never come
        return from_mem0(memory, 'tobin')

    def make(snippets):
        return filled(tuple(snippets))

    def broken():
        memory = new_memory(kind)
        memory.vector_store.delete_col()
        return from_mem0(memory, 'tobin')
    make.broken = broken
    return make


MAKERS = {'Memory': maker(Memory), 'AsyncMemory': maker(AsyncMemory)}


def test_its_telemetry_is_off():
    assert telemetry.MEM0_TELEMETRY is False


@pytest.mark.parametrize('law', LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize('make', MAKERS.values(), ids=MAKERS)
def test_law(law, make):
    law(make)


def test_hits_are_those_of_mem0_in_its_order():
    memory = put(new_memory(), TURNS)
    plain = memory.search(QUESTION, filters={'user_id': 'tobin'}, top_k=5, threshold=0.0)['results']
    assert [(hit.snippet.text, hit.score) for hit in from_mem0(memory, 'tobin').search(QUESTION, 5)] == [(one['memory'], one['score']) for one in plain]


def test_mem0_keeps_no_field_called_id():
    memory = new_memory()
    memory.add('a text', user_id='tobin', metadata={'id': 'mine', 'speaker': 'Tobin'}, infer=False)
    found, = memory.search('a text', filters={'user_id': 'tobin'})['results']
    assert found['metadata'] == {'speaker': 'Tobin'}
    hit, = from_mem0(memory, 'tobin').search('a text')
    assert (hit.snippet.id, hit.snippet.speaker) == (found['id'], 'Tobin')


def test_the_name_of_a_message_is_its_speaker():
    memory = new_memory()
    memory.add([{'role': 'user', 'name': 'Zofia', 'content': 'I tuned the organ.'}, {'role': 'assistant', 'content': 'Well done.'}], user_id='tobin', infer=False)
    assert {hit.snippet.text: hit.snippet.speaker for hit in from_mem0(memory, 'tobin').search('organ')} == {'I tuned the organ.': 'Zofia', 'Well done.': None}
    named = new_memory()
    named.add([{'role': 'user', 'name': 'zk', 'content': 'I tuned the organ.'}], user_id='tobin', metadata={'speaker': 'Zofia'}, infer=False)
    assert from_mem0(named, 'tobin').search('organ')[0].snippet.speaker == 'Zofia'


def test_fields_that_are_not_kept_stay_empty():
    memory = new_memory()
    memory.add([{'role': 'user', 'name': 'Zofia', 'content': 'I tuned the organ.'}], user_id='tobin', metadata={'session': 'D1', 'speaker': 'Z'}, infer=False)
    names = Fields(id='snippet_id', speaker=None, session=None, sources=None, position=None, time=None, said=None)
    hit, = from_mem0(memory, 'tobin', names=names).search('organ')
    assert (hit.snippet.speaker, hit.snippet.session, hit.snippet.sources, hit.snippet.position, hit.snippet.day) == (None, None, (), None, None)


def test_what_mem0_refuses_to_show():
    memory = put(new_memory(), TURNS)
    shown = ids(from_mem0(memory, 'tobin').search(QUESTION, 100))
    vectors = {snippet.id: WordLlamaEmbedder()([snippet.text, QUESTION]) for snippet in TURNS}
    assert set(shown) == {id for id, (text, query) in vectors.items() if text @ query >= 0} != set(vectors)


def test_owners_do_not_mix_and_filters_are_passed_on():
    memory = put(put(new_memory(), TURNS[:4], 'tobin'), TURNS[4:8], 'zofia')
    query = ' '.join(snippet.text for snippet in TURNS[:8])  # near to all: what has a cosine below 0 is never shown
    assert {*ids(from_mem0(memory, 'zofia').search(query, 50))} == {snippet.id for snippet in TURNS[4:8]}
    memory.add('of another run', user_id='zofia', run_id='second', infer=False)
    only = from_mem0(memory, filters={'user_id': 'zofia', 'run_id': 'second'})
    assert [hit.snippet.text for hit in only.search('another run')] == ['of another run']
    by_tobin = {snippet.id for snippet in TURNS[4:8] if snippet.speaker == 'Tobin'}
    assert {*ids(from_mem0(memory, 'zofia', {'session': 'D1', 'speaker': 'Tobin'}).search(query, 50))} == by_tobin != set()


def test_filters_are_not_changed_by_a_search():
    memory, filters = put(new_memory(), TURNS[:4]), {'user_id': ' tobin ', 'speaker': {'ne': 'Zofia'}}
    store = from_mem0(memory, filters=filters)
    assert store.search(QUESTION) == store.search(QUESTION) != []
    assert filters == {'user_id': ' tobin ', 'speaker': {'ne': 'Zofia'}}


@pytest.mark.parametrize('whose', [{}, {'filters': {}}, {'filters': {'speaker': 'Tobin'}}])
def test_whose_memories_must_be_said(whose):
    with pytest.raises(ValueError, match='expected a user_id'):
        from_mem0(new_memory(), **whose)


def test_a_threshold_is_passed_on_and_said():
    memory = put(new_memory(), TURNS)
    all_of_them, near = from_mem0(memory, 'tobin'), from_mem0(memory, 'tobin', threshold=0.4)
    scores = [hit.score for hit in all_of_them.search(QUESTION, 100)]
    assert ids(near.search(QUESTION, 100)) == ids(all_of_them.search(QUESTION, 100))[:sum(score >= 0.4 for score in scores)] != []
    assert '0.4' in near.note


def test_a_store_in_a_folder_is_found_again(tmp_path):
    memory = put(new_memory(path=str(tmp_path / 'qdrant'), on_disk=True), TURNS)
    before = ids(from_mem0(memory, 'tobin').search(QUESTION, 5))
    memory.vector_store.client.close()
    again = new_memory(path=str(tmp_path / 'qdrant'), on_disk=True)
    assert ids(from_mem0(again, 'tobin').search(QUESTION, 5)) == before
    assert EVIDENCE in ids(from_mem0(again, 'tobin').search(TURNS[4].text, 3))


def test_memories_without_metadata_have_mem0s_ids_and_no_time():
    memory = new_memory()
    added = memory.add('Tobin plays the concertina.', user_id='tobin', infer=False)['results'][0]
    hit, = from_mem0(memory, 'tobin').search('concertina')
    assert (hit.snippet.id, hit.snippet.day, hit.snippet.sources) == (added['id'], None, ())


def test_an_async_memory_may_be_filled_within_a_loop_and_asked_there():
    async def main():
        memory = new_memory(AsyncMemory)
        await memory.add('Tobin plays the concertina.', user_id='tobin', infer=False)
        return from_mem0(memory, 'tobin').search('concertina')
    assert len(asyncio.run(main())) == 1
