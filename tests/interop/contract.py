"""What an adapter of another library's store must keep, as properties of `make(snippets) -> Adapted`.

A test file of an adapter says how a store of the real library is filled, through `fields_of`, and adapted:

    MAKERS = {'SQLite': maker(lambda snippets: from_sqlite(filled(snippets), 'memory'), broken)}
    test_property = properties_of(MAKERS)

`broken` is a function without arguments that returns an adapter of a store that fails (a closed connection, a dropped
collection); `keeps` says what the store gives back beside the text. No property changes a store, so `maker` makes one for the
same snippets only once."""

import asyncio
import copy
import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import date, datetime, timedelta, timezone
from functools import cache

import numpy as np
import pytest

from memnb.baselines import RAG
from memnb.core.conversation import content_id, Snippet, turn_snippets
from memnb.core.retriever import Adapted, as_retriever, check_search, Hit, passes, Retriever
from memnb.core.time import TimeSpan
from memnb.evaluation.datasets import load_sample
from memnb.memr3.loop import MemR3

QUESTION, ANSWER, EVIDENCE = 'When did Tobin have his first concertina lesson?', '8 January 2024', 'D1:5'
NORTH = timezone(timedelta(hours=1))
TURNS = [snippet for snippet in turn_snippets(load_sample()) if snippet.session in ('D1', 'D2')]
DERIVED = [  # what no turn is: several sources, times that are no day, and nothing but a text
    Snippet(
        'gist/1',
        'Tobin had his lessons on the concertina through the winter.',
        ('D1:5', 'D2:14'),
        TimeSpan.month(2024, 2),
    ),
    Snippet(
        'fact 2',
        'Tobin has had a concertina since a lesson of long ago.',
        ('D1:5',),
        TimeSpan(date(2016, 1, 1), None, 'year'),
        'Zofia',
    ),
    Snippet('note-3', 'A lesson on the first concertina.'),
    Snippet(
        'zoned',
        'Did Tobin have another lesson?',
        ('D2:14',),
        None,
        'Mrs. Pettigrew',
        datetime(2024, 2, 1, 23, 30, tzinfo=NORTH),
        'D2',
        7,
    ),
]
SNIPPETS = TURNS + DERIVED
QUERIES = [
    QUESTION,
    'What did Zofia find in the crate?',
    'concertina',
    'the wrist that Tobin broke on the tram tracks',
    'Gerald',
]
SPANS = [
    TimeSpan.day(date(2024, 1, 9)),
    TimeSpan.month(2024, 2),
    TimeSpan(None, date(2020, 12, 31)),
    TimeSpan(date(2024, 1, 20), None),
    TimeSpan.day(date(1999, 1, 1)),
]
ODD = [
    'NEAR(concertina lesson, 2) AND NOT "Tobin"',
    'text:concertina OR speaker:Tobin',
    '"',
    "'",
    '""concertina',
    "it's Tobin's \"first\"",
    '100% _of_ concertina*',
    '{name} {0} {{x}}',
    '<b>concertina</b> &amp; <script>alert(1)</script>',
    "'; DROP TABLE memory; --",
    '\\ \\n \\u0000',
    '-concertina +lesson ^first',
    'concertina AND',
    '(((',
    ')',
    '* OR *',
    '$where: {"$gt": ""}',
    '@text:{x} | [1 2]',
    '🎹 the concertina 🪗',
    'křídlo Zofią ß ﬁ',
    'العربية 手風琴',
    'a\ttab and\na new line',
    '~!?:;,.|/[]',
    'NOT',
    'word ' * 300,
]
QUERIES_ONLY = ['', '   ', 'a\x00b', '\x00', '\u200b', '?']


def maker(adapt, broken=None, keeps=('ids', 'scores', 'times', 'fields')):
    """`make` over a function from a list of snippets to an adapter."""

    @cache
    def adapted(snippets):
        return adapt(list(snippets))

    def make(snippets):
        return adapted(tuple(snippets))

    make.broken, make.keeps = broken, keeps
    return make


def properties_of(makers):
    """A test of every property with each of the makers, by name."""

    @pytest.mark.parametrize('check', PROPERTIES, ids=lambda check: check.__name__)
    @pytest.mark.parametrize('make', makers.values(), ids=makers)
    def test_property(check, make):
        check(make)

    return test_property


def ids(hits):
    return [hit.snippet.id for hit in hits]


def all_found(store, query=QUESTION, number=len(SNIPPETS)):
    """Everything that a query can find; a store that finds nothing would have every property."""
    hits = store.search(query, number)
    assert hits, f'nothing is found for {query!r}'
    return hits


def put_in(hit, make, snippets=SNIPPETS):
    """The snippet that a hit goes back to: by its id, or by its text where the store has no ids."""
    name = 'id' if 'ids' in make.keeps else 'text'
    known = {getattr(snippet, name): snippet for snippet in snippets}
    assert getattr(hit.snippet, name) in known, f'never put in: {hit.snippet}'
    return known[getattr(hit.snippet, name)]


def as_kept(snippet, make):
    """The snippet as the store gives it back."""
    if 'ids' not in make.keeps:
        snippet = replace(snippet, id=content_id(snippet.text))
    return snippet if 'times' in make.keeps else replace(snippet, time=None, said=None)


def same_snippet(found, put, make):
    """What comes back is what was put in, as far as the store keeps it."""
    kept = as_kept(put, make)
    if 'fields' in make.keeps:
        assert found == kept
        assert (found.said and found.said.utcoffset()) == (kept.said and kept.said.utcoffset())
        assert all(type(getattr(found, name)) in (str, type(None)) for name in ('id', 'text', 'speaker', 'session'))
        assert all(type(source) is str for source in found.sources)
    else:
        assert (found.id, found.text, found.day is None) == (kept.id, kept.text, kept.day is None)
        assert found.day is None or found.day.overlaps(kept.day)


def spied(store):
    """The same store, and a list of what it is asked: (options, answer) of each call."""
    spy, calls = copy.copy(store), []

    def ask(query, *arguments, **options):
        answer = list(store._ask(query, *arguments, **options))
        calls.append((options, answer))
        return answer

    spy._ask = ask
    return spy, calls


# Properties


def is_a_retriever(make):
    store = make(SNIPPETS)
    assert isinstance(store, Adapted) and isinstance(store, Retriever) and as_retriever(store) is store


def hits_are_few_distinct_and_best_first(make):
    store = make(SNIPPETS)
    for query in QUERIES:
        for k in (0, 1, 2, 5, len(SNIPPETS), 1000, np.int64(3)):
            hits = store.search(query, k)
            assert isinstance(hits, list) and all(isinstance(hit, Hit) for hit in hits)
            assert len(hits) <= k and len(set(ids(hits))) == len(hits)
            scores = [hit.score for hit in hits if hit.score is not None]
            assert scores == sorted(scores, reverse=True)
    assert len(store.search(QUESTION, 2)) == min(2, len(all_found(store)))
    assert len(store.search(QUESTION)) <= 10


def what_is_found_was_put_in(make):
    store, seen = make(SNIPPETS), set()
    for query in QUERIES + [snippet.text for snippet in DERIVED]:
        for hit in store.search(query, len(SNIPPETS)):
            put = put_in(hit, make)
            same_snippet(hit.snippet, put, make)
            seen.add(put.id)
    assert seen >= {snippet.id for snippet in DERIVED} | {EVIDENCE}


def the_best_hit_fits(make):
    store = make(SNIPPETS)
    found = store.search(TURNS[4].text, 3)
    assert EVIDENCE in [put_in(hit, make).id for hit in found], f'its own words do not find {EVIDENCE}: {ids(found)}'


def excluded_never_come_and_others_do(make):
    store = make(SNIPPETS)
    everything = ids(all_found(store))
    strangers = [f'nobody/{number}' for number in range(1000)]
    for excluded in ([], everything[:1], everything[1:4], everything[::2], everything, everything[:2] + strangers):
        left = [id for id in everything if id not in excluded]
        for k in (1, 3, len(SNIPPETS)):
            found = ids(store.search(QUESTION, k, exclude=excluded))
            assert not set(found) & set(excluded)
            assert len(found) == min(k, len(left)), f'{len(found)} of {k}, and {len(left)} are left'
            assert set(found) <= set(left)
    five = set(everything[:5])
    assert (
        len({tuple(ids(store.search(QUESTION, 4, exclude=kind(five)))) for kind in (set, list, tuple, dict.fromkeys)})
        == 1
    )


def during_is_filtering(make):
    store = make(SNIPPETS)
    everything = all_found(store)
    for span in SPANS:
        for excluded in ((), ids(everything)[:3]):
            wanted = {hit.snippet.id for hit in everything if passes(as_kept(put_in(hit, make), make), excluded, span)}
            assert set(ids(store.search(QUESTION, len(SNIPPETS), exclude=excluded, during=span))) == wanted
            few = ids(store.search(QUESTION, 2, exclude=excluded, during=span))
            assert set(few) <= wanted and len(few) == min(2, len(wanted))


def bad_arguments_raise(make):
    store = make(SNIPPETS)
    for query, k, exclude in [
        (None, 3, ()),
        (b'x', 3, ()),
        (['x'], 3, ()),
        ('x', '3', ()),
        ('x', 2.5, ()),
        ('x', True, ()),
        ('x', None, ()),
        ('x', -1, ()),
        ('x', 3, 'D1:5'),
        ('x', 3, 7),
        ('x', 3, None),
    ]:
        with pytest.raises((TypeError, ValueError)) as expected:
            check_search(query, k, exclude)
        with pytest.raises(expected.type) as raised:
            store.search(query, k, exclude=exclude)
        assert str(raised.value) == str(expected.value)


def asked_again_it_says_the_same(make):
    store = make(SNIPPETS)
    first = [store.search(query, 7) for query in QUERIES]
    assert [store.search(query, 7) for query in QUERIES] == first
    store.search(QUESTION, 7, exclude=['D1:5'], during=SPANS[0])
    assert [store.search(query, 7) for query in reversed(QUERIES)] == first[::-1]


def an_empty_store_gives_nothing(make):
    store = make([])
    for query in (QUESTION, '', *ODD[:3]):
        assert store.search(query, 5) == []
        assert store.search(query, 5, exclude=['D1:5'], during=SPANS[0]) == []


def same_text_twice(make):
    twice = [replace(TURNS[4], id=id, sources=(id,)) for id in ('first', 'second')]
    store = make(twice)
    found = store.search(TURNS[4].text, 5)
    assert len(found) == (2 if 'ids' in make.keeps else 1)
    for hit in found:
        put_in(hit, make, twice)


def odd_texts_neither_fail_nor_inject(make):
    odd = [
        Snippet(
            f'odd {place}: {text:.12}',
            text,
            (f'{text:.9}',),
            None,
            f'{text:.7}' or None,
            datetime(2024, 1, 9, 19, 15),
            f'{text:.5}',
            place,
        )
        for place, text in enumerate(ODD)
    ]
    store = make(SNIPPETS + odd)
    before = store.search(QUESTION, 20)
    for query in ODD + QUERIES_ONLY:
        masked = store.search(query, 3, exclude=[f'odd 0: {ODD[0]:.12}', query], during=SPANS[0])
        for hit in [*store.search(query, 5), *masked]:
            same_snippet(hit.snippet, put_in(hit, make, SNIPPETS + odd), make)
    assert store.search(QUESTION, 20) == before
    for place in (8, 9, 18):  # markup, an injection and an emoji, each beside a word of its own
        assert ODD[place] in [hit.snippet.text for hit in store.search(ODD[place], 12)]


def its_claims_are_true(make):
    store = make(SNIPPETS)
    everything = all_found(store)
    for hit in everything:
        assert 'ids' in make.keeps or hit.snippet.id == content_id(hit.snippet.text)
        assert (hit.score is not None) == ('scores' in make.keeps)
        assert hit.score is None or (type(hit.score) is float and math.isfinite(hit.score))
        assert 'times' in make.keeps or (hit.snippet.time, hit.snippet.said) == (None, None)
        assert 'fields' in make.keeps or (hit.snippet.speaker, hit.snippet.session, hit.snippet.position) == (
            None,
            None,
            None,
        )
    assert ('times' in make.keeps) == any(hit.snippet.day for hit in everything)
    spy, calls = spied(store)
    spy.search(QUESTION, 3, exclude=ids(everything[:2]), during=SPANS[0])
    assert calls
    for options, answer in calls:
        assert options.keys() & {'exclude', 'during'} == store._takes & {'exclude', 'during'}
        assert 'exclude' not in options or not set(ids(answer)) & set(ids(everything[:2]))
        assert 'during' not in options or all(passes(hit.snippet, (), SPANS[0]) for hit in answer)


def a_limit_is_passed_on(make):
    spy, calls = spied(make(SNIPPETS))
    spy.search(QUESTION, 2)
    assert calls
    if spy._size is not None:  # some retrievers always bring the same number
        assert all(len(answer) <= 2 for _, answer in calls), 'it reads more than it was asked for'
        assert len(all_found(spy, ' '.join(QUERIES))) > 10, 'it never gives many'


def search_works_inside_a_running_loop(make):
    store = make(SNIPPETS)
    plain = [store.search(query, 4) for query in QUERIES]

    async def main():
        return [store.search(query, 4) for query in QUERIES]

    assert asyncio.run(main()) == plain
    assert asyncio.run(main()) == plain  # and in the next loop, too

    async def within():
        return make(SNIPPETS).search(QUESTION, 4)

    assert [hit.snippet for hit in asyncio.run(within())] == [hit.snippet for hit in plain[0]]


def loops_answer_over_it(make):
    store = make(TURNS)
    turns = {snippet.id for snippet in TURNS}
    for loop in (RAG(store), MemR3(store)):
        trace = loop.ask(QUESTION)
        assert trace.error is None, trace.error
        assert trace.answer and trace.read and trace.evidence
        if 'fields' in make.keeps:
            assert set(trace.read) <= turns and set(trace.evidence) <= set(trace.read)
        if {'fields', 'times'} <= set(make.keeps):
            assert EVIDENCE in trace.evidence and trace.answer == ANSWER, str(trace)


def a_store_that_fails_says_so(make):
    failing = copy.copy(make(SNIPPETS))

    def gone(*arguments, **options):
        raise ConnectionError('the store is gone')

    failing._ask = gone
    for store in [failing, *([make.broken()] if getattr(make, 'broken', None) else [])]:
        with pytest.raises(Exception) as raised:
            store.search(QUESTION, 3)
        for loop in (RAG(store), MemR3(store)):
            trace = loop.ask(QUESTION)
            assert trace.error and type(raised.value).__name__ in trace.error
            assert trace.answer is None and trace.read == [] == trace.evidence


def two_threads_may_search_at_once(make):
    store = make(SNIPPETS)
    plain = [store.search(query, 6) for query in QUERIES]
    with ThreadPoolExecutor(2) as threads:
        for _ in range(2):
            assert list(threads.map(lambda query: store.search(query, 6), QUERIES * 2)) == plain * 2


PROPERTIES = [
    is_a_retriever,
    hits_are_few_distinct_and_best_first,
    what_is_found_was_put_in,
    the_best_hit_fits,
    excluded_never_come_and_others_do,
    during_is_filtering,
    bad_arguments_raise,
    asked_again_it_says_the_same,
    an_empty_store_gives_nothing,
    same_text_twice,
    odd_texts_neither_fail_nor_inject,
    its_claims_are_true,
    a_limit_is_passed_on,
    search_works_inside_a_running_loop,
    loops_answer_over_it,
    a_store_that_fails_says_so,
    two_threads_may_search_at_once,
]
