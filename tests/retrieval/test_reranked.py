"""The ranking over other stores: what it may show, its masks, its order, and what it shows of a long text."""

from dataclasses import replace
from datetime import datetime

import pytest
from hypothesis import given, settings, strategies as st

from fakes import Letters
from memnb.core.conversation import Snippet
from memnb.core.retriever import as_retriever, passes
from memnb.core.time import TimeSpan
from memnb.retrieval.bm25 import LexicalIndex
from memnb.retrieval.hybrid import HybridIndex
from memnb.retrieval.reranked import Reranked

texts = st.lists(st.sampled_from('red boat. sea sail blue storm Ana?'.split()), min_size=1, max_size=9).map(' '.join)


@st.composite
def talks(draw):
    turns = []
    for number, text in enumerate(draw(st.lists(texts, min_size=1, max_size=12))):
        speaker, said = draw(st.sampled_from(['Ana', 'Ben', None])), datetime(2024, 1, 1 + number % 3)
        turns.append(Snippet(f's{number:02}', text, (), None, speaker, said, f'd{number % 2}', number // 2))
    return turns


def lexical(turns):
    index = LexicalIndex()
    index.add(turns)
    return index


def function(turns):
    return lambda query, k: lexical(turns).search(query, k)


def repeating(turns):
    """A store that answers in its own order, everything twice, with numbers for scores."""
    return lambda query: [(turn, 0.5) for turn in [*turns, *turns]]


STORES = {'list': list, 'index': lexical, 'function': function, 'repeating': repeating}


@pytest.mark.parametrize('make', STORES.values(), ids=STORES)
@settings(max_examples=25)
@given(turns=talks(), query=texts, k=st.integers(0, 12), most=st.integers(1, 30), data=st.data())
def test_it_shows_the_candidates_of_the_store_in_the_order_of_our_index(make, turns, query, k, most, data):
    exclude = data.draw(st.lists(st.sampled_from([turn.id for turn in turns] + ['unknown']), max_size=4, unique=True))
    during = data.draw(st.sampled_from([None, TimeSpan.day(datetime(2024, 1, 2).date())]))
    options = {'embedder': Letters(), 'words': 3, 'names': ['Ana', 'Ben']}
    store = Reranked(make(turns), most, **options)
    hits = store.search(query, k, exclude=exclude, during=during)
    asked = as_retriever(make(turns)).search(query, max(most, k + len(exclude)), during=during)
    mine = HybridIndex(**options)
    mine.add({hit.snippet.id: replace(hit.snippet, passages=()) for hit in asked}.values())
    assert hits == mine.search(query, k, exclude=exclude)
    assert all(passes(hit.snippet, exclude, during) and hit.snippet in turns for hit in hits)
    assert len(hits) == len({hit.snippet.id for hit in hits}) <= k
    if k + 1 + len(exclude) <= most:
        assert hits == store.search(query, k + 1, exclude=exclude, during=during)[:k]


def test_the_evidence_so_far_moves_the_ranking_over_a_store_too():
    turns = [Snippet(f's{place}', text) for place, text in enumerate(['red boat', 'red boats sail', 'blue storm'])]
    store, index = Reranked(repeating(turns), embedder=Letters()), HybridIndex(Letters())
    index.add(turns)
    assert store.takes_known and store.search('storm', 3, known=['s0']) == index.search('storm', 3, known=['s0'])


def test_how_much_of_a_text_is_shown_is_said_here_and_not_by_the_store():
    inner = HybridIndex(Letters(), words=2, shown=1)
    inner.add([Snippet('a', 'red boat. blue sea. a storm.')])
    assert inner.search('boat')[0].snippet.excerpt == 'red boat.\n[…]'
    [hit] = Reranked(inner, embedder=Letters(), shown=None).search('boat')
    assert hit.snippet.excerpt == 'red boat. blue sea. a storm.'


def test_a_number_of_candidates_is_needed():
    with pytest.raises(ValueError, match='k: expected'):
        Reranked([], 0)
    with pytest.raises(TypeError):
        Reranked(lexical([])).search('boat', during='2024')
    assert Reranked(lexical([])).search('boat') == []


def test_candidates_of_two_conversations_may_share_a_place():
    store = [
        Snippet(f'{chat}{place}', f'{chat} saw boat {place}', session='D1', position=place)
        for chat in ('ana', 'ben')
        for place in range(3)
    ]
    hits = Reranked(lambda query: store, 6).search('boat 1', 6)
    assert {hit.snippet.id for hit in hits} == {snippet.id for snippet in store}
