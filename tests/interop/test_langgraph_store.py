"""Loops over a store of LangGraph: the real `InMemoryStore`, with an index of vectors and without one."""

import pytest

pytest.importorskip('langgraph.store.memory')

from contract import DERIVED, EVIDENCE, ids, maker, properties_of, QUESTION, SNIPPETS, TURNS
from langgraph.store.base import InvalidNamespaceError
from langgraph.store.memory import InMemoryStore

from memnb.adapters.stores import Fields, fields_of, from_langgraph_store
from memnb.retrieval.vectors import WordLlamaEmbedder

HOME = ('memories', 'sample')


def embed(texts):
    return WordLlamaEmbedder()(texts).tolist()


def refusing(texts):
    raise ConnectionError('no embedder')


def new_store(indexed=True, embed=embed):
    return InMemoryStore(index={'dims': 256, 'embed': embed, 'fields': ['text']} if indexed else None)


def put(store, snippets, namespace=HOME, names=Fields()):
    for number, snippet in enumerate(snippets):
        store.put(namespace, f'key {number}', {names.text: snippet.text} | fields_of(snippet, names))
    return store


def maker_of(indexed):
    return maker(
        lambda snippets: from_langgraph_store(put(new_store(indexed), snippets), HOME),
        (lambda: from_langgraph_store(new_store(embed=refusing), HOME)) if indexed else None,
    )


test_property = properties_of({'indexed': maker_of(True), 'no index': maker_of(False)})


def test_a_store_without_an_index_is_ranked_here_and_read_to_its_end():
    store, many = new_store(False), 2100
    for number in range(many - 1):
        store.put(HOME, str(number), {'text': f'remark {number} about the weather'})
    store.put(HOME, 'last', {'text': 'the concertina is in the cupboard, says the weather'})
    assert [item.key for item in store.search(HOME, query='concertina', limit=1)] == [
        '0'
    ]  # the store's own answer: its oldest item
    found = from_langgraph_store(store, HOME)
    assert ids(found.search('concertina', 3)) == ['last']
    assert len(found.search('weather', 5000)) == many


@pytest.mark.parametrize('indexed', [True, False])
def test_below_a_namespace_keys_and_ids_may_repeat(indexed):
    store = new_store(indexed)
    for friend in ('tobin', 'zofia'):
        put(store, TURNS[:2], ('people', friend))
    put(store, TURNS[:1], ('other', 'tobin'))

    def found(*namespace):
        return ids(from_langgraph_store(store, namespace).search(TURNS[0].text, 10))

    assert {'tobin/D1:1', 'zofia/D1:1'} <= set(found('people')) and len(found('people')) == len(set(found('people')))
    assert all('/' not in id for id in found('people', 'zofia'))
    assert found('other') == ['tobin/D1:1']
    assert {'people/tobin/D1:1', 'people/zofia/D1:1', 'other/tobin/D1:1'} <= set(found())


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
    with pytest.raises(TypeError, match="record 'the key': expected a text in 'text'"):
        from_langgraph_store(store, HOME).search('x')


def test_fields_may_have_other_names_and_an_item_without_an_id_goes_by_its_key():
    names = Fields(
        id='number',
        text='content',
        time='when',
        said='told',
        speaker='who',
        sources='from',
        session='talk',
        position='place',
    )
    found = from_langgraph_store(put(new_store(), SNIPPETS, names=names), HOME, names).search(QUESTION, len(SNIPPETS))
    assert {hit.snippet for hit in found} == set(SNIPPETS) and EVIDENCE in ids(found)
    store = new_store()
    store.put(HOME, 'a', {'text': DERIVED[2].text, 'mood': 'glad'})
    assert ids(from_langgraph_store(store, HOME).search('lesson')) == ['a']
