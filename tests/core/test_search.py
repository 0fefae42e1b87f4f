"""Search: any store behind one protocol, the budget of turns, and cuts. The indexes are tested in tests/retrieval."""

import sqlite3
from contextlib import closing
from datetime import datetime

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from memnb.core.conversation import Conversation
from memnb.core.conversation import chunk_snippets, content_id, Snippet, turn_snippets
from memnb.core.retriever import as_retriever, Hit, Metered, passes, Retriever
from memnb.core.time import TimeSpan

WORDS = 'boat sea red blue sail harbour storm the a Ana running runs ran'.split()
texts = st.lists(st.sampled_from(WORDS), max_size=7).map(' '.join)


# ---- a user's own store --------------------------------------------------------------------------------------------------

STOCK = [Snippet(f's{place}', f'text {place}', said=datetime(2023, 1 + place, 1)) for place in range(9)]


class OnlyQuery:
    def search(self, query):
        return STOCK


class TopK:
    def search(self, query, top_k=3):
        return [(one, 1 / (1 + place)) for place, one in enumerate(STOCK[:top_k])]


class Excludes:
    def search(self, query, k, exclude=()):
        return [Hit(one) for one in STOCK if one.id not in exclude][:k]


class PromisesAndForgets:
    def search(self, query, k, **options):
        return [Hit(one, 1.0) for one in STOCK][:k]


class TopKAndMore:
    """A size by name, and options for a back end that knows no others than its own."""

    def search(self, query, top_k=3, **options):
        return self.fetch(query, top_k, **options)

    def fetch(self, query, size, *, language='en'):
        return STOCK[:size]


class PassesOn(TopKAndMore):
    """All options go to a back end that knows `k` and nothing else."""

    def search(self, query, **options):
        return self.fetch(query, **options)

    def fetch(self, query, k=3):
        return STOCK[:k]


class MasksAndMore(PassesOn):
    def search(self, query, limit, exclude=(), **options):
        return [one for one in STOCK if one.id not in exclude][:limit] if not options else []


class Everything:
    def search(self, query, k=10, *, exclude=(), during=None):
        return [Hit(one) for one in STOCK if passes(one, exclude, during)][:k]


class Vectorised:
    """A store whose search is an attribute and not a method, and which returns a tuple."""

    def __init__(self):
        self.search = lambda query, limit: tuple(STOCK[:limit])


STORES = [
    OnlyQuery(),
    TopK(),
    Excludes(),
    PromisesAndForgets(),
    TopKAndMore(),
    PassesOn(),
    MasksAndMore(),
    Everything(),
    Vectorised(),
    lambda query: STOCK,
    lambda query, n=2: STOCK[:n],
]


@pytest.mark.parametrize('store', STORES, ids=lambda store: type(store).__name__)
@settings(max_examples=30)
@given(
    exclude=st.sets(st.sampled_from([one.id for one in STOCK])),
    k=st.integers(0, 11),
    during=st.none() | st.integers(1, 12).map(lambda month: TimeSpan.month(2023, month)),
)
def test_any_store_keeps_the_protocol(store, exclude, k, during):
    retriever = as_retriever(store)
    assert isinstance(retriever, Retriever) and as_retriever(retriever) is retriever
    hits = retriever.search('anything', k, exclude=exclude, during=during)
    assert [hit.snippet for hit in hits] == [one for one in STOCK if passes(one, exclude, during)][:k]


def test_a_store_that_takes_any_option_is_given_what_it_names():
    given = []
    named = as_retriever(lambda query, top_k=5, **more: given.append((top_k, more)) or STOCK[:top_k])
    silent = as_retriever(lambda query, **more: given.append(more) or STOCK[: more['k']])
    for retriever in (named, silent):
        assert len(retriever.search('anything', 9, during=TimeSpan.year(2023))) == 9
    assert given == [(9, {}), {'k': 9}]
    with pytest.raises(TypeError, match='first parameter to be the query'):
        as_retriever(lambda **more: STOCK)


def test_texts_get_ids_from_their_content_and_repeats_are_dropped():
    retriever = as_retriever(lambda query: ['boat', ('sea', np.float32(0.5)), 'boat'])
    hits = retriever.search('x')
    assert [(hit.snippet.id, hit.snippet.text, hit.score) for hit in hits] == [
        (content_id('boat'), 'boat', None),
        (content_id('sea'), 'sea', 0.5),
    ]
    assert len(content_id('\ud800')) == 16
    assert [hit.snippet.text for hit in retriever.search('x', exclude=[content_id('boat')])] == ['sea']


def test_repeats_do_not_hide_what_comes_after_them():
    retriever = as_retriever(lambda query, k: (['same'] * 50 + ['other', 'third'])[:k])
    assert [hit.snippet.text for hit in retriever.search('x', 2, exclude=[content_id('same')])] == ['other', 'third']
    assert [hit.snippet.text for hit in retriever.search('x', 3)] == ['same', 'other', 'third']


def test_a_function_without_a_query_is_refused():
    with pytest.raises(TypeError, match='first parameter to be the query'):
        as_retriever(lambda: [])


# ---- metering ------------------------------------------------------------------------------------------------------------


@settings(max_examples=200)
@given(
    sources=st.lists(st.lists(st.sampled_from('abcd'), max_size=3), min_size=2, max_size=8),
    budget=st.integers(0, 4) | st.none(),
    searches=st.lists(st.integers(0, 9), min_size=1, max_size=4),
    by_tool=st.booleans(),
)
def test_the_meter_counts_distinct_turns_and_keeps_to_its_budget(sources, budget, searches, by_tool):
    stock = [Snippet(f's{place}', 'text', tuple(one)) for place, one in enumerate(sources)]
    meter, shown = Metered(lambda query: stock, budget), []
    for place, k in enumerate(searches):
        by_hand = (Hit(one) for one in stock[:k])  # what a tool brings is paid as what a search brings
        hits = meter.search('x', k) if place % 2 == by_tool else meter.pay(by_hand)
        assert [hit.snippet for hit in hits] == stock[: len(hits)]  # a prefix
        shown += [source for hit in hits for source in hit.snippet.sources or (hit.snippet.id,)]
        if len(hits) < min(k, len(stock)):  # it stopped because the next one did not fit
            following = stock[len(hits)]
            assert len(set(shown) | set(following.sources or (following.id,))) > budget
    assert meter.read == list(dict.fromkeys(shown))
    assert budget is None or (len(meter.read) <= budget and meter.remaining == budget - len(meter.read))


# ---- snippets of a conversation ------------------------------------------------------------------------------------------


@settings(max_examples=40)
@given(
    sessions=st.lists(st.lists(st.tuples(st.sampled_from(['Ana', 'Ben']), texts), max_size=6), max_size=4),
    words=st.integers(1, 25),
)
def test_cuts_lose_no_turn_and_respect_borders(sessions, words):
    conversation = Conversation.of('c', [(datetime(2023, 1 + number, 1), said) for number, said in enumerate(sessions)])
    order = [turn.id for turn in conversation.turns]
    for cut in (turn_snippets(conversation), chunk_snippets(conversation, words), chunk_snippets(conversation, 10**6)):
        assert [source for one in cut for source in one.sources] == order
        assert len({one.id for one in cut}) == len(cut)
        for one in cut:
            turns = [conversation.turn(source) for source in one.sources]
            assert {conversation.session_of(turn.id).id for turn in turns} == {one.session}
            assert one.said == turns[0].time and one.time == TimeSpan.day(turns[0].time.date())
            assert (one.speaker is None) == (len({turn.speaker for turn in turns}) > 1)
            assert all(turn.content in one.text for turn in turns)
    for one in chunk_snippets(conversation, words):
        assert (
            len(one.sources) == 1
            or sum(len(conversation.turn(source).content.split()) for source in one.sources) <= words
        )


@pytest.mark.parametrize(('again', 'others', 'found'), [(10, 0, 1), (500, 20, 10), (10**9, 0, 1)])
def test_a_store_that_repeats_itself_is_asked_for_more_but_not_for_ever(again, others, found):
    """A chunk that was stored five hundred times hides what stands behind it only for a while; one that is endless ends."""
    asked = []

    def search(query, k):
        asked.append(k)
        return ['the same'] * min(again, k) + [f'another {number}' for number in range(min(others, max(0, k - again)))]

    assert len(as_retriever(search).search('x', 10)) == found
    assert sum(asked) < 50_000


def test_a_connection_to_a_database_is_no_store_although_it_can_be_called():
    with closing(sqlite3.connect(':memory:')) as connection:
        with pytest.raises(TypeError, match='got a connection to a database: memnb.adapters.stores.from_sqlite'):
            as_retriever(connection)


def test_a_store_over_a_database_is_a_store_and_gives_what_matches_late():
    class Database:
        cursor = None

        def search(self, query, k):
            return [Snippet(f's{number}', 'text') for number in range(min(k, 60_000))]

    late = as_retriever(Database()).search('x', 1, exclude=[f's{number}' for number in range(50_000)])
    filtered = as_retriever(Database()).search('x', 1, during=TimeSpan.year(2023))
    assert [hit.snippet.id for hit in late] == ['s50000'] and filtered == []
