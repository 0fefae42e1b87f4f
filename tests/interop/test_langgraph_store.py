"""Loops over a store of LangGraph: the real `InMemoryStore`, with an index of vectors and without one, asked plainly and awaited."""
import asyncio
from functools import cache

import pytest

pytest.importorskip('langgraph.store.memory')

from langgraph.store.base import InvalidNamespaceError
from langgraph.store.base.batch import AsyncBatchedBaseStore
from langgraph.store.memory import InMemoryStore

from contract import DERIVED, EVIDENCE, LAWS, QUESTION, SNIPPETS, TURNS, ids
from memnb.retrieval.vectors import WordLlamaEmbedder
from memnb.adapters.stores import Fields, fields_of, waited
from memnb.adapters.stores import from_langgraph_store

HOME = ('memories', 'sample')


def embed(texts):
    return WordLlamaEmbedder()(texts).tolist()


def refusing(texts):
    raise ConnectionError('no embedder')


def new_store(indexed=True, embed=embed):
    return InMemoryStore(index={'dims': 256, 'embed': embed, 'fields': ['text']} if indexed else None)


def put(store, snippets, namespace=HOME, names=Fields(), **options):
    for number, snippet in enumerate(snippets):
        store.put(namespace, f'key {number}', {names.text: snippet.text} | fields_of(snippet, names), **options)
    return store


def maker(indexed, awaited):
    @cache
    def filled(snippets):
        return from_langgraph_store(put(new_store(indexed), snippets), HOME, awaited=awaited)

    def make(snippets):
        return filled(tuple(snippets))
    if indexed:
        make.broken = lambda: from_langgraph_store(new_store(embed=refusing), HOME, awaited=awaited)
    return make


MAKERS = {'indexed': maker(True, False), 'awaited': maker(True, True), 'no index': maker(False, False), 'no index, awaited': maker(False, True)}


@pytest.mark.parametrize('law', LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize('make', MAKERS.values(), ids=MAKERS)
def test_law(law, make):
    law(make)


def test_scores_are_those_of_the_store_and_there_are_none_without_an_index():
    store = put(new_store(), TURNS)
    plain = store.search(HOME, query=QUESTION, limit=5)
    assert [(hit.snippet.text, hit.score) for hit in from_langgraph_store(store, HOME).search(QUESTION, 5)] == [(item.value['text'], item.score) for item in plain]
    assert {hit.score for hit in MAKERS['no index'](TURNS).search(QUESTION, 5)} == {None}


def test_a_store_without_an_index_is_ranked_here_and_read_to_its_end():
    store, many = new_store(False), 2100
    for number in range(many):
        store.put(HOME, str(number), {'text': f'remark {number} about the weather'})
    store.put(HOME, 'last', {'text': 'the concertina is in the cupboard'})
    assert [item.key for item in store.search(HOME, query='concertina', limit=1)] == ['0']  # the store's own answer: its oldest item
    found = from_langgraph_store(store, HOME)
    assert ids(found.search('concertina', 3)) == ['last']
    assert len(found.search('weather', 5000)) == many
    for number in (1000, 2000):  # a whole number of pages
        exact = new_store(False)
        for place in range(number):
            exact.put(HOME, str(place), {'text': 'weather'})
        assert len(from_langgraph_store(exact, HOME).search('weather', 5000)) == number


def test_an_index_may_be_denied_or_claimed_by_hand():
    store = put(new_store(), TURNS)
    assert ids(from_langgraph_store(store, HOME, indexed=False).search(QUESTION, 5)) == ids(MAKERS['no index'](TURNS).search(QUESTION, 5))
    unindexed = put(new_store(False), TURNS)
    assert ids(from_langgraph_store(unindexed, HOME, indexed=True).search(QUESTION, 3)) == ids_of_first(3)


def ids_of_first(number):
    return [snippet.id for snippet in TURNS[:number]]


def test_what_is_not_embedded_comes_last_and_has_no_score():
    store = put(new_store(), TURNS[:3])
    store.put(HOME, 'aside', {'text': 'not embedded'}, index=False)
    assert [hit.score is None for hit in from_langgraph_store(store, HOME).search(QUESTION, 10)] == [False] * 3 + [True]


@pytest.mark.parametrize('indexed', [True, False])
def test_below_a_namespace_keys_and_ids_may_repeat(indexed):
    store = new_store(indexed)
    for friend in ('tobin', 'zofia'):
        put(store, TURNS[:2], ('people', friend))
    put(store, TURNS[:1], ('other', 'tobin'))
    found = ids(from_langgraph_store(store, ('people',)).search(TURNS[0].text, 10))
    assert {'tobin/D1:1', 'zofia/D1:1'} <= set(found) and all('/' in id for id in found) and len(found) == len(set(found))
    assert all('/' not in id for id in ids(from_langgraph_store(store, ('people', 'zofia')).search(TURNS[0].text, 10)))
    assert ids(from_langgraph_store(store, ('other',)).search(TURNS[0].text, 10)) == ['tobin/D1:1']
    everything = ids(from_langgraph_store(store, ()).search(TURNS[0].text, 10))
    assert {'people/tobin/D1:1', 'people/zofia/D1:1', 'other/tobin/D1:1'} <= set(everything)


@pytest.mark.parametrize('namespace', ['memories', 7, None, {'memories'}])
def test_a_namespace_is_a_tuple_of_labels(namespace):
    with pytest.raises(TypeError, match='expected a tuple of labels'):
        from_langgraph_store(new_store(), namespace)


@pytest.mark.parametrize('namespace', [('anna@x.org',), ('memories', ''), ('memories', 3), ('a', None)])
def test_a_namespace_that_langgraph_refuses_is_refused_at_once(namespace):
    with pytest.raises(ValueError, match='namespace'):
        from_langgraph_store(new_store(), namespace)
    with pytest.raises(InvalidNamespaceError):
        new_store().put(namespace, 'key', {'text': 'x'})


@pytest.mark.parametrize('value', [{'kind': 'Memory', 'content': 'x'}, {'text': None}, {'text': ['x']}])
def test_an_item_without_a_text_is_named(value):
    store = new_store(False)
    store.put(HOME, 'the key', value)
    with pytest.raises(ValueError, match="item 'the key': expected a text under 'text'"):
        from_langgraph_store(store, HOME).search('x')


def test_fields_may_have_other_names():
    names = Fields(id='number', text='content', time='when', said='told', speaker='who', sources='from', session='talk', position='place')
    store = put(new_store(), SNIPPETS, names=names)
    found = from_langgraph_store(store, HOME, names).search(QUESTION, len(SNIPPETS))
    assert {hit.snippet for hit in found} == set(SNIPPETS)
    assert EVIDENCE in ids(found)


def test_an_item_that_is_no_snippet_goes_by_its_key():
    store = new_store()
    store.put(HOME, 'a', {'text': DERIVED[2].text, 'mood': 'glad'})
    assert ids(from_langgraph_store(store, HOME).search('lesson')) == ['a']


class OnlyAwaited(AsyncBatchedBaseStore):
    """A store as LangGraph's own asynchronous ones are made: it belongs to the event loop on which it was opened."""
    def __init__(self, inner):
        super().__init__()
        self.inner, self.index_config = inner, inner.index_config

    def batch(self, ops):
        raise NotImplementedError('only awaited')

    async def abatch(self, ops):
        return await self.inner.abatch(ops)


async def opened(snippets):
    store = OnlyAwaited(new_store())
    for snippet in snippets:
        await store.aput(HOME, snippet.id, {'text': snippet.text} | fields_of(snippet))
    return store


def test_a_store_that_can_only_be_awaited_is_opened_and_asked_through_waited():
    store = from_langgraph_store(waited(opened)(TURNS), HOME, awaited=True)
    assert store.search(QUESTION, 5) == MAKERS['indexed'](TURNS).search(QUESTION, 5)

    async def within():
        return store.search(QUESTION, 5)
    assert asyncio.run(within()) == store.search(QUESTION, 5)


@pytest.mark.parametrize('awaited', [True, False])
def test_one_that_was_opened_on_the_loop_that_waits_says_so_and_does_not_hang(awaited):
    async def within():
        return from_langgraph_store(await opened(TURNS[:2]), HOME, awaited=awaited).search(QUESTION, 5)
    with pytest.raises(Exception, match='different loop|main thread|different thread'):
        asyncio.run(asyncio.wait_for(within(), 20))
