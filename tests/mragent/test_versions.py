"""Change and repetition: versions against a diary that is read day by day, groups of near-duplicates against a matrix of cosines."""
from collections import Counter
from datetime import date, datetime, timedelta, timezone
from itertools import combinations

import pytest
from hypothesis import given, settings, strategies as st

from fakes import Letters
from graphs import diary
from memnb.mragent.graph import Episode, SemanticUnit
from memnb.retrieval.vectors import DenseIndex
from memnb.core.time import TimeSpan
from memnb.mragent.tools import _as_one_event, _event_groups, _same_event, current, versions

START = date(2024, 1, 1)
days = st.integers(0, 40).map(lambda number: START + timedelta(number))
MAKERS = (TimeSpan.day, lambda day: TimeSpan.of('week', day), lambda day: TimeSpan.month(day.year, day.month), lambda day: TimeSpan(day, None), lambda day: TimeSpan(None, day))
spans = st.sampled_from([make(START + timedelta(number)) for number in (0, 1, 2, 9, 20, 32) for make in MAKERS])
moments = st.sampled_from([None, *(datetime(2024, 1, 1) + timedelta(hours=hours) for hours in (1, 2, 25, 30, 200, 900))])
SPELLINGS = {'nate': ('Nate', 'nate', ' NATE '), 'zoe': ('Zoe',), 'home': ('residence', 'Residence'), 'job': ('employer', 'Employers'), '': ('', ' ')}
KIND = {spelling: kind for kind, spellings in SPELLINGS.items() for spelling in spellings}


@st.composite
def lives(draw):
    """Units of two persons and two slots, in several spellings, with ids whose numbers have one digit or two."""
    numbers = draw(st.lists(st.integers(0, 20), unique=True, max_size=8))
    return [SemanticUnit(f'D1/u{number}', draw(st.sampled_from('AB')), (f'D1:{number}',), draw(st.none() | spans), said=draw(moments), aspect='x',
                         person=draw(st.sampled_from(SPELLINGS['nate'] + SPELLINGS['zoe'])),
                         slot=draw(st.sampled_from(SPELLINGS['home'] + SPELLINGS['job'] + SPELLINGS['']))) for number in numbers]


# --- change

@given(lives())
def test_versions_drop_no_unit_and_are_in_order(units):
    groups = versions(units)
    assert Counter(one for group in groups.values() for one in group) == Counter(one for one in units if KIND[one.slot])
    for (person, slot), group in groups.items():
        assert (person, slot) == (group[0].person, group[0].slot)
        assert len({(KIND[one.person], KIND[one.slot]) for one in group}) == 1
        order = [(one.since or date.min, str(one.said or ''), int(one.id[4:])) for one in group]
        assert order == sorted(order)
    assert len(groups) == len({(KIND[one.person], KIND[one.slot]) for one in units if KIND[one.slot]})


@given(lives(), st.integers(-40, 80).map(lambda number: START + timedelta(number)))
def test_what_is_current_is_what_a_diary_says(units, day):
    assert sorted(one.id for one in current(units, day)) == sorted(diary(units, day if day >= date(2023, 12, 1) else None))


@given(lives(), st.randoms(use_true_random=False), st.none() | days)
def test_the_order_of_units_does_not_matter(units, chance, day):
    shuffled = chance.sample(units, len(units))
    assert list(versions(units).items()) == list(versions(shuffled).items())
    assert current(units, day) == current(shuffled, day) == current(iter(units), day)


def lives_in(place, since=None, said=None, id='u1', **other):
    return SemanticUnit(id, place, (), since, said=said, **{'person': 'Nate', 'aspect': 'home', 'slot': 'residence', **other})


def test_a_moment_counts_as_its_day_and_a_text_is_refused():
    london = lives_in('London', TimeSpan.day(START))
    assert current([london], datetime(2024, 1, 1, 23, 59)) == current([london], datetime(2024, 1, 1, tzinfo=timezone.utc)) == [london]
    assert current([london], datetime(2023, 12, 31, 23, 59)) == []
    for wrong in ('2024-01-01', 2024, TimeSpan.day(START), 0, ''):
        with pytest.raises(TypeError, match='as_of: expected a date or None, got'):
            current([london], wrong)


# --- repetition

TEXTS = ['', *(''.join(letters) for size in (1, 2, 3) for letters in combinations('aabbccc', size)), 'aaab', 'abbb']


@st.composite
def episodes(draw, size=6):
    """Episodes that share words, turns, cues and days."""
    numbers = draw(st.lists(st.integers(0, 20), unique=True, max_size=size))
    some = lambda letters: draw(st.lists(st.sampled_from(letters), max_size=3).map(tuple))
    return [Episode(f'e{number}', draw(st.sampled_from(TEXTS)), some(['D1:1', 'D1:2', 'D2:1']), draw(st.none() | spans),
                    draw(st.sampled_from([None, 'Ana', 'Ben'])), draw(moments), title=draw(st.sampled_from('xy')), tag=draw(st.sampled_from('xy')),
                    cues=some(['Ana', 'boat', 'Boat'])) for number in numbers]


def width(span):
    return span.days or 10 ** 9


@settings(max_examples=60)
@given(episodes().filter(bool), st.randoms(use_true_random=False))
def test_consolidating_loses_nothing_and_does_not_depend_on_order(told, chance):
    made = _as_one_event(told)
    assert made == _as_one_event(chance.sample(told, len(told))) == _as_one_event(iter(told))
    for part in ('sources', 'cues'):
        assert Counter(getattr(made, part)) == Counter({one for each in told for one in getattr(each, part)})
    assert len(made.text) == max(len(one.text) for one in told)
    assert (made.text, made.title, made.tag) in {(one.text, one.title, one.tag) for one in told}
    known = [one.time for one in told if one.time]
    assert (made.time in known and width(made.time) == min(map(width, known))) if known else made.time is None
    assert made.said == min((one.said for one in told if one.said), default=None)
    assert (made.id, made.said, made.session) in {(one.id, one.said, one.session) for one in told}
    assert made.speaker == (told[0].speaker if len({one.speaker for one in told}) == 1 else None)


def days_of(span):
    """All days of a span between 1900 and 2100 as numbers."""
    first = span.start.toordinal() if span.start else date(1900, 1, 1).toordinal()
    return set(range(first, (span.end or date(2100, 1, 1)).toordinal() + 1))


@settings(max_examples=50)
@given(episodes(2).filter(lambda told: len(told) == 2))
def test_two_episodes_are_not_one_event_where_their_known_times_share_no_day(told):
    one, other = told
    apart = one.time and other.time and not days_of(one.time) & days_of(other.time)
    assert _same_event(one, other) == _same_event(other, one) == (not apart)
    assert _same_event(one, one)


def indexed(told):
    index = DenseIndex(Letters(letters='abc'))
    index.add(told)
    return index


thresholds = st.sampled_from([-1.0, -.0003, .0003, .3003, .6003, .8003, .9003, .9999])  # no cosine of small whole numbers


def nearest_first(index, threshold, keep):
    """Single episodes at first; then, again and again, of all pairs of groups that may be one, those with the nearest pair become one."""
    groups = [{one.id} for one in index]
    pairs = sorted(index.similar([one.id for one in index], threshold), key=lambda pair: (-pair[2], pair[0], pair[1]))

    def mergeable():
        for one, other, _ in pairs:
            left, right = (next(group for group in groups if id in group) for id in (one, other))
            if left is not right and all(keep(index[a], index[b]) for a in left for b in right):
                return left, right

    while found := mergeable():
        groups = [group for group in groups if group not in found] + [found[0] | found[1]]
    return sorted(tuple(sorted(group)) for group in groups if len(group) > 1)


@settings(max_examples=60)
@given(episodes(), thresholds)
def test_with_a_rule_the_nearest_are_joined_first(told, threshold):
    index = indexed(told)
    assert _event_groups(index, threshold) == nearest_first(index, threshold, _same_event)


@settings(max_examples=60)
@given(episodes(), thresholds, st.randoms(use_true_random=False))
def test_groups_are_a_function_of_the_set_of_episodes(told, threshold, chance):
    grown = indexed(chance.sample(told, len(told)))
    assert _event_groups(grown, threshold) == _event_groups(indexed(told), threshold)
    kept = chance.sample(told, len(told) // 2)
    grown.remove([one.id for one in told if one not in kept])
    assert _event_groups(grown, threshold) == _event_groups(indexed(kept), threshold)
