"""A record of any store comes back as the snippet that went in, and a store's abilities and failures are said as they are.

The properties of the adapters stand in tests/interop/contract.py; here they are run over a store in memory, and each over mutants."""

import asyncio
import copy
import itertools
import json
import math
import os
import re
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, fields, replace
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from functools import partial

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from interop.contract import maker, PROPERTIES

from memnb.adapters.stores import Fields, fields_of, from_langchain, from_pandas, from_sqlite, snippet_of
from memnb.core.conversation import Snippet
from memnb.core.retriever import Adapted, as_retriever, Hit, passes, waited
from memnb.core.time import GRANULARITIES, TimeSpan
from memnb.retrieval.bm25 import LexicalIndex

days = st.dates(date(1, 1, 1), date(9999, 12, 31))
spans = st.tuples(days, days, st.sampled_from(GRANULARITIES), st.sampled_from(['closed', 'since', 'until'])).map(
    lambda found: TimeSpan(
        None if found[3] == 'until' else min(found[:2]), None if found[3] == 'since' else max(found[:2]), found[2]
    )
)
zones = (
    st.none()
    | st.integers(-86399, 86399).map(lambda seconds: timezone(timedelta(seconds=seconds)))
    | st.just(timezone.utc)
)
moments = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=zones)
texts = st.text(st.characters(codec='utf-8'))
snippets = st.builds(
    Snippet,
    texts,
    texts,
    st.lists(texts, max_size=3).map(tuple),
    st.none() | spans,
    st.none() | texts,
    st.none() | moments,
    st.none() | texts,
    st.none() | st.integers(),
)
own_names = st.lists(texts, min_size=8, max_size=8, unique=True).map(lambda names: Fields(*names))


def same(found, put):
    """Equal, of plain types, and the moment in the same zone."""
    assert found == put
    assert [type(value) for value in astuple(replace(found, said=None))] == [
        type(value) for value in astuple(replace(put, said=None))
    ]
    assert (found.said and found.said.utcoffset()) == (put.said and put.said.utcoffset())
    assert found.said is None or type(found.said) is datetime


# A record and back


@given(snippets, st.just(Fields()) | own_names)
@example(
    Snippet('', '', ('[',), None, '', datetime(2024, 1, 9, tzinfo=timezone(timedelta(seconds=3661))), '[]', 2**60 + 1),
    Fields(),
)
def test_a_snippet_comes_back_from_json(snippet, names):
    kept = json.loads(json.dumps(fields_of(snippet, names)))
    assert kept == fields_of(snippet, names) and None not in kept.values() and names.text not in kept
    same(snippet_of(snippet.text, kept, names), snippet)
    same(snippet_of(snippet.text, {**kept, 'of': 'no concern', names.text: snippet.text}, names, id='unused'), snippet)


@given(snippets, st.sets(st.sampled_from([field.name for field in fields(Fields) if field.name not in ('id', 'text')])))
def test_only_what_has_no_name_is_lost(snippet, nameless):
    names = Fields(**dict.fromkeys(nameless))
    assert None not in fields_of(snippet, names)
    same(
        snippet_of(snippet.text, fields_of(snippet, names), names),
        replace(snippet, **{name: () if name == 'sources' else None for name in nameless}),
    )


def manglings(snippet):
    """What stores make of each field: for each, values that mean the same."""
    gaps = [None, math.nan, np.float32('nan'), Decimal('NaN'), np.datetime64('NaT')]
    yield (
        'sources',
        [list(snippet.sources), json.dumps(snippet.sources), np.array(snippet.sources, dtype=object)]
        + (gaps + [[], '[]'] if not snippet.sources else []),
    )
    yield 'said', [snippet.said, str(snippet.said), snippet.said.isoformat()] if snippet.said else gaps + ['']
    yield 'time', [snippet.time, snippet.time.isoformat()] if snippet.time else gaps + ['']
    yield (
        'position',
        gaps
        if snippet.position is None
        else [np.int64(snippet.position), float(snippet.position), np.float64(snippet.position), str(snippet.position)],
    )
    yield 'speaker', gaps if snippet.speaker is None else [snippet.speaker, np.str_(snippet.speaker)]


@given(snippets.filter(lambda snippet: '\x00' not in (snippet.speaker or '')), st.integers(0, 2**31), st.data())
def test_what_stores_mangle_is_read(snippet, position, data):
    snippet = replace(snippet, position=data.draw(st.sampled_from([None, position])))
    kept = {'id': snippet.id, 'session': snippet.session}
    for name, values in manglings(snippet):
        kept[name] = data.draw(st.sampled_from(values))
    same(snippet_of(snippet.text, kept), snippet)


@given(moments.filter(lambda moment: not moment.utcoffset() or moment.utcoffset().seconds % 60 == 0))
def test_moments_in_the_forms_of_others(moment):
    text = moment.isoformat(timespec='microseconds')
    fraction, zone = re.fullmatch(r'.*?(\.\d{6})(.*)', text).groups()
    forms = [text, text.replace('T', ' '), text.replace(fraction, f'{fraction}789')]
    if zone:
        forms.append(text[:-3] + text[-2:])  # +0100
    if zone == '+00:00':
        forms.append(text.replace(zone, 'Z'))
    for form in forms:
        found = snippet_of('', {'said': form, 'time': form})
        assert (found.said, found.said.utcoffset()) == (moment, moment.utcoffset())
        assert found.time == TimeSpan.day(moment.date())


@pytest.mark.parametrize(
    'value, span',
    [
        (2024, TimeSpan.year(2024)),
        (2024.0, TimeSpan.year(2024)),
        ('2024', TimeSpan.year(2024)),
        ('2024-02', TimeSpan.month(2024, 2)),
        ('May 2023', TimeSpan.month(2023, 5)),
        ('7 May 2023', TimeSpan.day(date(2023, 5, 7))),
        (date(2023, 5, 7), TimeSpan.day(date(2023, 5, 7))),
        (datetime(2023, 5, 7, 23, 59, tzinfo=timezone.utc), TimeSpan.day(date(2023, 5, 7))),
        (np.datetime64('2023-05-07T10:00', 'ns'), TimeSpan.day(date(2023, 5, 7))),
        (np.datetime64('2023-05'), TimeSpan.month(2023, 5)),
        ('1:56 pm on 8 May, 2023', TimeSpan.day(date(2023, 5, 8))),
    ],
)
def test_times_that_stores_have(value, span):
    assert snippet_of('', {'time': value}).time == span


@given(
    st.sampled_from(['time', 'said', 'position']),
    st.text(max_size=12)
    | st.integers()
    | st.floats()
    | st.booleans()
    | st.lists(st.integers(), max_size=2)
    | st.dictionaries(st.text(max_size=2), st.integers(), max_size=1)
    | st.binary(max_size=3)
    | st.sampled_from(
        [np.array([1, 2]), np.array([]), object(), 10**400, math.inf, '2024-13-45', '2024-01-09/2023-01-01#day']
    ),
)
def test_no_value_is_dropped_in_silence(name, value):
    nothing = value is None or (isinstance(value, float) and value != value) or (isinstance(value, str) and value == '')
    try:
        found = snippet_of('', {name: value, 'id': 'r1'})
    except ValueError as error:
        assert not nothing and "record 'r1': expected a" in str(error) and f'in {name!r}, got' in str(error)
        assert len(str(error)) < 300
    else:
        assert (getattr(found, name) is None) == nothing
        assert name != 'position' or nothing or found.position == (int(value) if isinstance(value, str) else value)


@pytest.mark.parametrize('text', [None, math.nan, b'bytes', 7, ['a text']])
def test_no_text_is_an_error_that_says_whose(text):
    for kept, whose in (({'id': 'r1'}, "'r1'"), ({}, 'None')):
        with pytest.raises(TypeError, match=f"record {whose}: expected a text in 'body', got "):
            snippet_of(text, kept, Fields(text='body'))


@pytest.mark.parametrize(
    'value, sources',
    [
        ('D1:5', ('D1:5',)),
        ('["D1:5", "D2:14"]', ('D1:5', 'D2:14')),
        (('a', 'b'), ('a', 'b')),
        (np.array(['a', 'b']), ('a', 'b')),
        ('[sic', ('[sic',)),
        (['a', None, math.nan, 4.0], ('a', '4')),
        (7, ('7',)),
        (None, ()),
        (math.nan, ()),
        ([], ()),
    ],
)
def test_ids_of_turns_in_any_form(value, sources):
    assert snippet_of('', {'sources': value}).sources == sources


@pytest.mark.parametrize(
    'options', [{'time': 'said'}, {'text': 'id'}, {'id': 3}, {'speaker': 'x', 'session': 'x'}, {'said': ['created']}]
)
def test_names_that_cannot_be_told_apart_are_refused(options):
    with pytest.raises(ValueError, match='Fields: expected different names, got '):
        Fields(**options)
    Fields(id=None, time=None, said=None)


@pytest.mark.parametrize(
    'use',
    [
        partial(from_sqlite, None, 'memory'),
        partial(from_pandas, None),
        partial(from_langchain, None),
        partial(fields_of, Snippet('a', 'b')),
    ],
)
def test_names_that_are_no_fields_are_refused(use):
    with pytest.raises(TypeError, match="names: expected Fields, such as .*, got {'text': 'body'}"):
        use(names={'text': 'body'})


# What a store does


@given(
    st.lists(st.integers(0, 9), max_size=12),
    st.integers(0, 6),
    st.sets(st.integers(0, 9)),
    st.booleans(),
    st.booleans(),
    st.sampled_from(['limit', 'top_k', None]),
    st.sampled_from([None, TimeSpan.day(date(2024, 1, 1)), TimeSpan.month(2024, 1)]),
    st.booleans(),
)
def test_whatever_it_can_do_the_hits_are_the_same(order, k, excluded, masks, filters, size, during, awaited):
    kept = [
        Snippet(str(number), 'x', time=TimeSpan.day(date(2024, 1 + number % 2, 1)) if number % 3 else None)
        for number in order
    ]
    exclude = {str(number) for number in excluded}

    def ask(options):
        found = [one for one in kept if passes(one, options.get('exclude', ()), options.get('during'))]
        return [Hit(one) for one in found[: options.get(size)]]

    parameters = ['query', *([size] if size else []), *(['exclude'] if masks else []), *(['during'] if filters else [])]
    scope = {'ask': ask}
    exec(
        f'def plain({", ".join(parameters)}): return ask(locals())\nasync def slow({", ".join(parameters)}): return ask(locals())',
        scope,
    )
    store = as_retriever(scope['slow' if awaited else 'plain'])
    wanted = [hit.snippet for hit in as_retriever(lambda query: kept).search('x', k, exclude=exclude, during=during)]
    assert [hit.snippet for hit in store.search('x', np.int64(k), exclude=exclude, during=during)] == wanted


# To await


async def later(value):
    await asyncio.sleep(0)
    if isinstance(value, BaseException):
        raise value
    return value


def test_waiting_gives_what_the_coroutine_gives():
    assert waited(later)(7) == 7 and waited(partial(later, 7))() == 7 and waited(lambda value: later(value))(7) == 7
    assert waited(later).__name__ == 'later' and not asyncio.iscoroutinefunction(waited(later))
    for error in (ValueError('no'), TimeoutError('the store was too slow')):
        with pytest.raises(type(error), match=str(error)):
            waited(later)(error)


def test_waiting_inside_running_loops_and_from_many_threads():
    async def main(value):
        return waited(later)(value)

    assert [asyncio.run(main(value)) for value in range(3)] == [0, 1, 2]
    with ThreadPoolExecutor(8) as threads:
        loops = set(threads.map(lambda _: waited(running)(), range(40)))
    assert len(loops) == 1
    assert sum(thread.name == 'memnb-await' for thread in threading.enumerate()) == 1


async def running():
    return asyncio.get_running_loop()


def test_to_wait_where_the_waiting_is_done_is_refused():
    async def nested():
        return waited(later)(7)

    with pytest.raises(RuntimeError, match='later.*: this is the thread that would be waited for; await it here'):
        waited(nested)()


@pytest.mark.skipif(not hasattr(os, 'fork') or sys.platform == 'darwin', reason='a process is not forked here')
@pytest.mark.filterwarnings('ignore:.*multi-threaded.*fork:DeprecationWarning')
def test_a_forked_process_waits_in_a_loop_of_its_own():
    assert waited(later)(7) == 7
    child = os.fork()
    if not child:
        try:
            os._exit(waited(later)(7))
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


# The properties of the adapters, over a store in memory, and over mutants


def in_memory(kept):
    index = LexicalIndex()
    index.add(kept)
    records = {snippet.id: (snippet.text, json.loads(json.dumps(fields_of(snippet)))) for snippet in kept}

    def ask(query, limit):
        return [Hit(snippet_of(*records[hit.snippet.id]), hit.score) for hit in index.search(query, limit)]

    return as_retriever(ask)


make = maker(in_memory)


def kept_as(make, other):
    """Another `make`, of stores that keep the same."""
    other.broken, other.keeps = None, make.keeps
    return other


def broken(change):
    """A `make` whose store has another function that asks."""

    def make_broken(kept):
        store = copy.copy(make(kept))
        store._ask = change(store._ask)
        return store

    return kept_as(make, make_broken)


def overriding(search):
    """A `make` whose store searches otherwise: search(ask, query, k, exclude, during)."""

    class Broken(Adapted):
        def search(self, query, k=10, *, exclude=(), during=None):
            return search(super().search, query, k, exclude, during)

    return kept_as(make, lambda kept: Broken(make(kept).store))


def each(change):
    """An asking function whose hits are changed."""
    return lambda ask: lambda query, limit: [change(hit) for hit in ask(query, limit)]


def changed(**options):
    return each(lambda hit: replace(hit, snippet=replace(hit.snippet, **options)))


def unsafe(ask, kept=[None]):
    """A store that keeps the question in itself while it looks."""

    def search(query, limit):
        kept[0] = query
        time.sleep(0.002)
        return ask(kept[0], limit)

    return search


def moody(ask, calls=itertools.count()):
    return lambda query, limit: ask(query, limit)[:: 1 - 2 * (next(calls) % 2)]


def strict(ask):
    def parse(query, limit):
        if '"' in query:
            raise ValueError('syntax error')
        return ask(query, limit)

    return parse


def in_a_loop(ask):
    async def search(query, limit):
        return ask(query, limit)

    return lambda query, limit: asyncio.run(search(query, limit))


def swallowing(search, query, k, exclude, during):
    try:
        return search(query, k, exclude=exclude, during=during)
    except (ConnectionError, RuntimeError):
        return []


def once(hits):
    return list({hit.snippet.text: hit for hit in reversed(hits)}.values())[::-1]


MUTANTS = {
    'is_a_retriever': kept_as(make, lambda kept: make(kept).search),
    'hits_are_few_distinct_and_best_first': broken(each(lambda hit: replace(hit, score=-hit.score))),
    'what_is_found_was_put_in': broken(changed(speaker=None)),
    'the_best_hit_fits': broken(lambda ask: lambda query, limit: ask('organ', limit)),
    'excluded_never_come_and_others_do': overriding(
        lambda search, query, k, exclude, during: [
            hit for hit in search(query, k, during=during) if hit.snippet.id not in exclude
        ]
    ),
    'during_is_filtering': overriding(
        lambda search, query, k, exclude, during: [
            hit for hit in search(query, k, exclude=exclude) if passes(hit.snippet, (), during)
        ]
    ),
    'bad_arguments_raise': overriding(
        lambda search, query, k, exclude, during: search(query, int(k), exclude=exclude, during=during)
    ),
    'asked_again_it_says_the_same': broken(moody),
    'an_empty_store_gives_nothing': broken(
        lambda ask: (
            lambda query, limit: (
                ask(query, limit) or [Hit(Snippet('none', 'Nothing was found.', time=TimeSpan.day(date(2024, 1, 9))))]
            )
        )
    ),
    'same_text_twice': overriding(
        lambda search, query, k, exclude, during: once(search(query, k, exclude=exclude, during=during))
    ),
    'odd_texts_neither_fail_nor_inject': broken(strict),
    'its_claims_are_true': kept_as(
        make, lambda kept: as_retriever(lambda query, limit, exclude: make(kept).store(query, limit))
    ),
    'a_limit_is_passed_on': broken(lambda ask: lambda query, limit: ask(query, 20)),
    'search_works_inside_a_running_loop': broken(in_a_loop),
    'loops_answer_over_it': broken(changed(said=None, time=None)),
    'a_store_that_fails_says_so': overriding(swallowing),
    'two_threads_may_search_at_once': broken(unsafe),
}


@pytest.mark.parametrize('check', PROPERTIES, ids=lambda check: check.__name__)
def test_property(check):
    check(make)


@pytest.mark.parametrize('check', PROPERTIES, ids=lambda check: check.__name__)
@pytest.mark.filterwarnings('ignore:coroutine .* was never awaited')
def test_a_mutant_is_caught(check):
    with pytest.raises((AssertionError, pytest.fail.Exception, ValueError, RuntimeError)):
        check(MUTANTS[check.__name__])


def test_other_abilities_have_the_properties_too():
    def texts_only(kept):
        ask = make(kept).store
        return as_retriever(lambda query, limit: [hit.snippet.text for hit in ask(query, limit)])

    def awaited(kept):
        ask = make(kept).store

        async def search(query, limit, exclude=(), during=None):
            return [hit for hit in ask(query, 99) if passes(hit.snippet, exclude, during)][:limit]

        return as_retriever(search)

    def unlimited(kept):
        ask = make(kept).store
        return as_retriever(lambda query: ask(query, 1000))

    for other in (maker(texts_only, keeps=()), maker(awaited), maker(unlimited)):
        for check in PROPERTIES:
            check(other)
