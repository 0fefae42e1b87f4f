"""Facts and their times, and the table that finds them: windows against plain day numbers, the table against a ten-line scan."""

from datetime import date, datetime, timedelta
from itertools import product
from random import Random

import pytest
from hypothesis import assume, example, given, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from memnb.remem.graph import FactTable, FIELDS, phrase_id
from memnb.remem.facts import as_span, extent, Fact, Gist, OPERATORS, Window
from memnb.core.conversation import DuplicateSnippet
from memnb.retrieval.index import UnknownSnippet
from memnb.core.time import TimeSpan
from memnb.core.tools import ToolError

FAR = 10**9  # a day beyond every calendar, for what is open
UNITS = ('day', 'weekend', 'week', 'month', 'season', 'year', 'decade')


def pool(size=400):
    """Spans of any granularity, some of two days, some open at one side: of fifteen years, of two, and of five days that often touch."""
    chance, made = Random(1), []
    for year, reach in [(1948, 5400), (1954, 730), (1955, 5), (1955, 5)] * (size // 4):
        first, last = sorted(date(year, 1, 1) + timedelta(chance.randrange(reach)) for _ in range(2))
        span = TimeSpan.of('day' if reach == 5 else chance.choice(UNITS), first)
        made.append(
            chance.choice(
                [span, span, span, TimeSpan(first, last, 'span'), TimeSpan(None, last), TimeSpan(first, None)]
            )
        )
    return made


POOL = pool()
spans = st.integers(0, len(POOL) - 1).map(lambda number: POOL[number])


def meet(start, end):
    """Whether a fact may begin and end then."""
    return not (start and end and start.start and end.end and start.start > end.end)


times = st.tuples(st.none() | spans, st.none() | spans).filter(lambda sides: meet(*sides)) | spans.map(
    lambda span: (span, span)
)


@st.composite
def facts(draw, id=None):
    """Few phrases in several spellings; missing sides; no time; points."""
    phrases = [
        draw(st.sampled_from(those))
        for those in (('Ana', 'ANA', 'Ben'), ('likes', 'Likes', 'has'), ('red boat', 'Red Boat', 'Ana', 'sea'))
    ]
    start, end = draw(times)
    return Fact.of(*phrases, start_time=start, end_time=end, id=id)


windows = st.builds(
    Window, st.none() | spans, st.none() | spans, st.sampled_from(OPERATORS), st.sampled_from(OPERATORS)
)


def numbers(span):
    """First and last day of a span, where an open side is farther than any day."""
    return (span.start.toordinal() if span.start else -FAR, span.end.toordinal() if span.end else FAR)


def holds(operator, left, right):
    """The operators by their definition, on the outermost days: all days for what is certain, some day for what is possible."""
    pairs = list(product(left, right))
    return {
        'lt': all(a < b for a, b in pairs),
        'gt': all(a > b for a, b in pairs),
        'le': any(a <= b for a, b in pairs),
        'ge': any(a >= b for a, b in pairs),
        'eq': max(left[0], right[0]) <= min(left[1], right[1]),
    }[operator]


def oracle(window, fact):
    """A window on plain day numbers."""
    asked = window.start_time, window.end_time
    if asked == (None, None):
        return True
    if fact.start is None and fact.end is None:
        return False
    begun = numbers(fact.start) if fact.start else (-FAR, numbers(fact.end)[1])
    over = numbers(fact.end) if fact.end else (numbers(fact.start)[0], FAR)
    return all(
        span is None or holds(operator, side, numbers(span))
        for span, operator, side in zip(asked, (window.start_operator, window.end_operator), (begun, over))
    )


# --- facts and windows


@given(facts(), st.none() | spans, st.none() | spans)
def test_all_25_pairs_of_operators_agree_with_the_oracle(fact, start, end):
    for first, second in product(OPERATORS, OPERATORS):
        window = Window(start, end, first, second)
        assert window.passes(fact) == oracle(window, fact), (first, second)


@given(spans, st.booleans(), windows)
def test_a_half_open_gist_passes_as_the_fact_that_has_its_one_side(span, begins, window):
    day = span.start if begins else span.end
    assume(day is not None)
    time = TimeSpan(day, None) if begins else TimeSpan(None, day)
    side = {'start_time' if begins else 'end_time': TimeSpan.day(day)}
    assert window.passes(Gist('g', 'Ana likes the boat.', time=time)) == oracle(
        window, Fact.of('Ana', 'likes', 'boat', **side)
    )


def career(start=None, end=None, at=None):
    return Fact.of('someone', 'was head of', 'the office', start_time=start, end_time=end, point_in_time=at)


@pytest.mark.parametrize(
    'case, passing, failing',
    [
        (
            dict(start_time='1950', start_operator='gt'),
            [(1951, 1970), ('1951-01-01', None)],
            [(1950, 1970), (1949, 1951), (None, 1960)],
        ),
        (
            dict(end_time='1960', end_operator='lt'),
            [(1940, 1959), (None, '31 December 1959')],
            [(1940, 1960), (1955, None)],
        ),
        (
            dict(start_time='1955', start_operator='le', end_time='1955', end_operator='ge'),
            [(1950, 1960), (1955, 1955), (None, 1955), (1955, None), ('1955-12-31', 1980)],
            [(1956, 1960), (1940, 1954), (1956, None), (None, 1954)],
        ),
        (
            dict(start_time='1950', end_time='1960'),
            [(1950, 1960), (1952, 1957), (1953, None)],
            [(1949, 1955), (1955, 1961), (1940, 1970)],
        ),
        (
            dict(start_time='1960', start_operator='le', end_time='1950', end_operator='ge'),
            [(1950, 1960), (1940, 1950), (1960, 1970), (1940, 1970), (1953, 1954)],
            [(1940, 1949), (1961, 1970)],
        ),
    ],
)
def test_the_five_cases_of_the_paper(case, passing, failing):
    window = Window(**case)
    assert all(window.passes(career(*years)) for years in passing)
    assert not any(window.passes(career(*years)) for years in failing)


@settings(max_examples=10)
@given(facts())
def test_a_fact_without_times_passes_no_filter(fact):
    timeless = Fact.of(fact.subject, fact.predicate, fact.object)
    assert Window().passes(timeless) and Window().passes(fact)
    for first, second in product(OPERATORS, OPERATORS):
        for start, end in (('1955', None), (None, '1955'), ('1950', '1960')):
            assert not Window(start, end, first, second).passes(timeless)


@given(facts())
def test_the_extent_holds_every_possible_day_of_the_known_sides(fact):
    known = [side for side in (fact.start, fact.end) if side]
    if not known:
        assert fact.time is None
    elif fact.time is None:  # open on the far side of the only known end: any day at all
        assert not (fact.start and fact.start.start) and not (fact.end and fact.end.end)
    else:
        assert fact.time.start == (fact.start.start if fact.start else None)
        assert fact.time.end == (fact.end.end if fact.end else None)


def test_a_fact_that_ends_before_it_starts_is_refused():
    with pytest.raises(ToolError, match='a fact starts before it ends, got 2024 to 2018'):
        Fact.of('a', 'b', 'c', start_time=2024, end_time=2018)
    may = as_span('8 May 2024')
    assert extent(may, TimeSpan(date(2024, 5, 1), date(2024, 5, 8), 'week')) == TimeSpan(may.start, may.start, 'span')
    assert extent(as_span('May 2024'), as_span('8 May 2024')) == TimeSpan(date(2024, 5, 1), date(2024, 5, 8), 'span')


@given(
    st.lists(
        st.tuples(
            st.sampled_from(['a', 'a b']),
            st.sampled_from(['b c', 'c']),
            st.none() | spans,
            st.sampled_from([(), ('D1:1',), ('D1:1', 'D1:2')]),
            st.sampled_from([None, datetime(2024, 1, 9)]),
        ),
        max_size=8,
    )
)
def test_equal_ids_are_equal_facts(makings):
    made = [
        Fact.of(subject, predicate, 'd', start_time=start, sources=sources, record_time=said)
        for subject, predicate, start, sources, said in makings
    ]
    for one, other in product(made, made):
        assert (one.id == other.id) == (one == other)


def test_a_record_time_is_a_moment_or_refused_by_name():
    midnight = Fact.of('a', 'b', 'c', record_time='1 January 2024')
    assert midnight.line == '(a, b, c) [said 1 January 2024]'
    assert (
        Fact.of('a', 'b', 'c', record_time=date(2024, 1, 1))
        == Fact.of('a', 'b', 'c', record_time=datetime(2024, 1, 1))
        == midnight
    )
    for wrong in ('long ago', '', 2024, TimeSpan.year(2024), float('nan')):
        with pytest.raises(ToolError, match='record_time: expected a moment'):
            Fact.of('a', 'b', 'c', record_time=wrong)


@pytest.mark.parametrize(
    'arguments, message',
    [
        (dict(start_time='long ago'), r"start_time: expected a date such as .* got 'long ago'"),
        (dict(end_time='-'), 'end_time: expected a date'),
        (dict(start_operator='<'), "start_operator: expected one of lt, le, eq, ge, gt, got '<'"),
        (dict(end_operator=None), 'end_operator: expected one of lt, le, eq, ge, gt, got None'),
    ],
)
def test_a_wrong_window_says_what_is_allowed(arguments, message):
    with pytest.raises(ToolError, match=message):
        Window(**arguments)


# --- the table


def scan(facts, window=Window(), ordering=None, limit=None, offset=0, **phrases):
    """What `find` should find, in ten lines."""
    found = [
        fact
        for fact in facts
        if oracle(window, fact)
        and all(phrase_id(getattr(fact, field)) == phrase_id(phrase) for field, phrase in phrases.items())
    ]
    found.sort(key=lambda fact: fact.id)
    if ordering == 'asc':
        found.sort(
            key=lambda fact: (
                fact.start is None,
                fact.start and numbers(fact.start)[0],
                fact.end is None,
                fact.end and numbers(fact.end)[1],
            )
        )
    if ordering == 'desc':
        found.sort(key=lambda fact: (fact.end is None, fact.end and -numbers(fact.end)[1]))
    return found[offset:][:limit]


calls = st.fixed_dictionaries(
    {
        'window': windows | st.just(Window()),
        'ordering': st.sampled_from([None, 'asc', 'desc']),
        'limit': st.none() | st.integers(1, 4),
        'offset': st.integers(0, 3),
    },
    optional={
        'subject': st.sampled_from(['ANA', ' ben', 'Eve']),
        'predicate': st.sampled_from(['likes', 'has']),
        'object': st.sampled_from(['RED  boat', 'ana', 'sea']),
    },
).filter(lambda call: {'subject', 'predicate', 'object'} & set(call))
ids = st.sampled_from([f'f{number}' for number in range(20)] + [f'of session {number}' for number in range(20)])


@st.composite
def fact_lists(draw, max_size=14):
    return [draw(facts(id)) for id in draw(st.lists(ids, unique=True, max_size=max_size))]


OPEN = [  # the second ends at some time since 1952, of the first nobody says
    Fact.of('Ana', 'likes', 'sea', id='a'),
    Fact.of('Ana', 'likes', 'sea', end_time=TimeSpan(date(1952, 7, 7), None), id='b'),
]


@example(OPEN, [{'subject': 'Ana', 'ordering': ordering} for ordering in ('asc', 'desc')])
@given(fact_lists(), st.lists(calls, min_size=1, max_size=6))
def test_the_table_finds_what_the_scan_finds(some, asked):
    table = FactTable()
    table.add(some)
    for call in asked:
        assert table.find(**call) == scan(some, **call)


class AgainstAList(RuleBasedStateMachine):
    """Adding and removing in any order, against a plain list."""

    def __init__(self):
        super().__init__()
        self.table, self.kept = FactTable(), []

    @rule(some=fact_lists(4))
    def add(self, some):
        new = [fact for fact in some if fact.id not in {one.id for one in self.kept}]
        self.table.add(new)
        self.kept += new

    @rule(some=fact_lists(3))
    def add_all_or_none(self, some):
        strange = [fact for fact in some if any(one.id == fact.id and one != fact for one in self.kept)]
        if strange:
            with pytest.raises(DuplicateSnippet):
                self.table.add(some)

    @precondition(lambda self: self.kept)
    @rule(data=st.data())
    def remove(self, data):
        gone = data.draw(st.lists(st.sampled_from(self.kept), min_size=1, max_size=4, unique_by=lambda fact: fact.id))
        self.table.remove([fact.id for fact in gone])
        self.kept = [fact for fact in self.kept if fact not in gone]

    @precondition(lambda self: self.kept)
    @rule()
    def remove_all_or_none(self):
        with pytest.raises(UnknownSnippet):
            self.table.remove([self.kept[0].id, 'nobody'])

    @rule(call=calls)
    def find(self, call):
        assert self.table.find(**call) == scan(self.kept, **call)

    @invariant()
    def holds_the_same(self):
        assert list(self.table) == sorted(self.kept, key=lambda fact: fact.id)
        kept = {(field, phrase_id(getattr(fact, field))) for fact in self.kept for field in FIELDS}
        assert self.table._postings.keys() == kept  # what was forgotten is not kept among the phrases either


TestAgainstAList = AgainstAList.TestCase
TestAgainstAList.settings = settings(max_examples=30, stateful_step_count=20)


@given(st.text(max_size=20))
def test_the_id_of_a_phrase_is_its_own_id(text):
    assert phrase_id(phrase_id(text)) == phrase_id(f'  {text} ')


def office():
    table = FactTable()
    table.add(
        [
            Fact.of('Ana Lee', 'was head of', 'the Harbour Office', start_time=1950, id='1'),
            Fact.of('ana lee', 'sailed', 'the Red Boat', id='2'),
            Fact.of('Ben', 'was head of', 'the Red Boat Club', id='3'),
        ]
    )
    return table


@pytest.mark.parametrize(
    'call, message',
    [
        (dict(), 'expected at least one of subject, predicate, object'),
        (dict(subject='Ben', limit=0), 'limit, offset: expected at least 1 and at least 0, got 0 and 0'),
        (dict(subject='Ben', offset=-1), 'limit, offset: expected at least 1 and at least 0, got None and -1'),
        (dict(subject='nobody', ordering='up'), "ordering: expected asc or desc, got 'up'"),
    ],
)
def test_a_wrong_call_says_what_is_allowed(call, message):
    with pytest.raises(ToolError, match=message):
        office().find(**call)


def test_what_is_empty_finds_nothing_and_what_is_wrong_is_refused():
    assert FactTable().find('x') == []
    assert office().find('Ben', 'sailed') == [] and office().find('Eve', window=Window('1950')) == []
    assert office().find('', 'Was Head  Of', limit=1, offset=5) == []
    with pytest.raises(KeyError):
        FactTable.aggregate([], 'sum')
