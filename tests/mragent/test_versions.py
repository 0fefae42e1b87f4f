"""Change and repetition: versions against a diary that is read day by day, groups of near-duplicates against a matrix of cosines."""
from collections import Counter
from dataclasses import replace
from datetime import date, datetime, timedelta, timezone
from itertools import combinations, permutations, product

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from memnb.mragent.graph import Episode, SemanticUnit
from memnb.retrieval.vectors import DenseIndex
from memnb.core.time import TimeSpan
from memnb.mragent.tools import checked_cosine, consolidated, current, near_duplicates, same_event, versions

START = date(2024, 1, 1)
days = st.integers(0, 40).map(lambda number: START + timedelta(number))
MAKERS = (TimeSpan.day, TimeSpan.week_of, lambda day: TimeSpan.month(day.year, day.month), lambda day: TimeSpan(day, None), lambda day: TimeSpan(None, day))
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


def diary(units, day):
    """What stands on the page of a day if each day's beginnings are written, in the order of saying, over what stood in their slot."""
    page, calendar = {}, [None, *(date(2023, 12, 1) + timedelta(number) for number in range(200))]
    for today in calendar[:calendar.index(day) + 1]:
        for unit in sorted((one for one in units if one.since == today), key=lambda one: (str(one.said or ''), int(one.id[4:]))):
            page[(KIND[unit.person], KIND[unit.slot]) if KIND[unit.slot] else unit.id] = unit.id
    return Counter(page.values())


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
    assert Counter(one.id for one in current(units, day)) == diary(units, day if day >= date(2023, 12, 1) else None)


@given(lives())
def test_with_no_day_all_that_is_known_counts(units):
    assert current(units) == current(units, date.max)
    assert Counter(one.id for one in current(units)) == diary(units, date(2024, 6, 1))


@given(lives(), st.randoms(use_true_random=False), st.none() | days)
def test_the_order_of_units_does_not_matter(units, chance, day):
    shuffled = chance.sample(units, len(units))
    assert list(versions(units).items()) == list(versions(shuffled).items())
    assert current(units, day) == current(shuffled, day) == current(iter(units), day)


@given(lives(), days)
def test_what_is_current_does_not_change_between_two_beginnings(units, day):
    if not any(one.since == day for one in units):
        assert current(units, day) == current(units, day - timedelta(1))


def lives_in(place, since=None, said=None, id='u1', **other):
    return SemanticUnit(id, place, (), since, said=said, **{'person': 'Nate', 'aspect': 'home', 'slot': 'residence', **other})


def test_a_moment_counts_as_its_day_and_a_text_is_refused():
    london = lives_in('London', TimeSpan.day(START))
    assert current([london], datetime(2024, 1, 1, 23, 59)) == current([london], datetime(2024, 1, 1, tzinfo=timezone.utc)) == [london]
    assert current([london], datetime(2023, 12, 31, 23, 59)) == []
    for wrong in ('2024-01-01', 2024, TimeSpan.day(START), 0, ''):
        with pytest.raises(TypeError, match='as_of: expected a date or None, got'):
            current([london], wrong)


def test_a_correction_wins_on_the_same_day_and_a_value_may_come_back():
    first, move, back = (lives_in(place, TimeSpan.day(START + timedelta(number)), id=f'u{number}') for number, place in enumerate(('A', 'B', 'A')))
    assert versions([back, move, first]) == {('Nate', 'residence'): [first, move, back]}
    corrected = replace(move, id='u0b', text='C', said=datetime(2024, 3, 1))
    assert [one.text for one in current([first, corrected, replace(move, said=datetime(2024, 2, 1))])] == ['C']


def test_sayings_with_and_without_a_zone_can_be_compared():
    both = [lives_in('A', TimeSpan.day(START), datetime(2024, 1, 1, 8), 'u1'),
            lives_in('B', TimeSpan.day(START), datetime(2024, 1, 2, 8, tzinfo=timezone.utc), 'u2')]
    assert [one.text for one in current(both)] == ['B']


@pytest.mark.parametrize('ids', [('u9', 'u10'), ('D2/u1', 'D10/u1'), ('u1', 'u01'), ('u', 'u1'), ('1', 'a'), ('u²', 'u³'), ('9' * 5000, '1' + '0' * 5000)])
def test_numbers_in_ids_are_numbers_and_every_id_has_its_place(ids):
    ordered = [[one.id for one in current([lives_in('x', id=id, slot='') for id in mixed])] for mixed in permutations(ids)]
    assert ordered[0] == ordered[1]
    if ids not in {('u1', 'u01')}:
        assert ordered[0] == list(ids)


def test_no_units():
    assert versions([]) == {} and current([]) == []
    assert versions([lives_in('a dog', slot=''), lives_in('a cat', slot='  ')]) == {}


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
    made = consolidated(told)
    assert made == consolidated(chance.sample(told, len(told))) == consolidated(iter(told))
    for part in ('sources', 'cues'):
        assert Counter(getattr(made, part)) == Counter({one for each in told for one in getattr(each, part)})
    assert len(made.text) == max(len(one.text) for one in told)
    assert (made.text, made.title, made.tag) in {(one.text, one.title, one.tag) for one in told}
    known = [one.time for one in told if one.time]
    assert (made.time in known and width(made.time) == min(map(width, known))) if known else made.time is None
    assert made.said == min((one.said for one in told if one.said), default=None)
    assert (made.id, made.said, made.session) in {(one.id, one.said, one.session) for one in told}
    assert made.speaker == (told[0].speaker if len({one.speaker for one in told}) == 1 else None)


@settings(max_examples=60)
@given(episodes().filter(bool))
def test_consolidating_again_changes_nothing(told):
    made = consolidated(told)
    assert consolidated([made]) == consolidated([made, made]) == made
    again = consolidated([made, *told])
    assert (again.text, again.title, again.tag, set(again.sources), set(again.cues), again.said) == \
           (made.text, made.title, made.tag, set(made.sources), set(made.cues), made.said)
    assert (again.time is None) == (made.time is None) and (made.time is None or width(again.time) == width(made.time))


@settings(max_examples=50)
@given(episodes(2).filter(lambda told: len(told) == 2))
def test_turns_and_cues_stand_in_the_order_of_telling(told):
    first, second = sorted(told, key=lambda one: (one.said is None, str(one.said), int(one.id[1:])))
    made = consolidated(told)
    assert made.sources == tuple(dict.fromkeys(first.sources + second.sources))
    assert made.cues == tuple(dict.fromkeys(first.cues + second.cues)) and made.id == first.id


def test_nothing_cannot_be_consolidated():
    with pytest.raises(ValueError, match='consolidated: expected one or more episodes, got none'):
        consolidated([])


def days_of(span):
    """All days of a span between 1900 and 2100 as numbers."""
    first = span.start.toordinal() if span.start else date(1900, 1, 1).toordinal()
    return set(range(first, (span.end or date(2100, 1, 1)).toordinal() + 1))


@settings(max_examples=50)
@given(episodes(2).filter(lambda told: len(told) == 2))
def test_two_episodes_are_not_one_event_where_their_known_times_share_no_day(told):
    one, other = told
    apart = one.time and other.time and not days_of(one.time) & days_of(other.time)
    assert same_event(one, other) == same_event(other, one) == (not apart)
    assert same_event(one, one)


class Letters:
    """Counts letters: texts with the same letters are one vector, those without any none."""
    name = 'letters'

    def __call__(self, texts):
        return np.array([[text.count(letter) for letter in 'abc'] for text in texts], float).reshape(-1, 3)


def indexed(told):
    index = DenseIndex(Letters())
    index.add(told)
    return index


thresholds = st.sampled_from([-1.0, -.0003, .0003, .3003, .6003, .8003, .9003, .9999])  # no cosine of small whole numbers


@settings(max_examples=60)
@given(episodes(), thresholds)
def test_groups_are_the_components_of_a_matrix_of_cosines(told, threshold):
    rows = np.array([[one.text.count(letter) for letter in 'abc'] for one in told], float).reshape(-1, 3)
    lengths = np.sqrt((rows ** 2).sum(axis=1))
    rows = rows / np.where(lengths, lengths, 1)[:, None]
    reach = rows @ rows.T >= threshold
    np.fill_diagonal(reach, True)
    for _ in told:
        reach = (reach.astype(int) @ reach.astype(int)) > 0
    groups = {tuple(sorted(told[place].id for place in np.flatnonzero(row))) for row in reach}
    assert near_duplicates(indexed(told), threshold) == sorted(group for group in groups if len(group) > 1)


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
    assert near_duplicates(index, threshold, same_event) == nearest_first(index, threshold, same_event)
    assert near_duplicates(index, threshold, lambda one, other: True) == near_duplicates(index, threshold)
    assert near_duplicates(index, threshold, lambda one, other: False) == []


@settings(max_examples=60)
@given(episodes(), thresholds)
def test_no_group_holds_a_forbidden_pair_and_none_is_left_to_be_joined(told, threshold):
    index = indexed(told)
    groups = near_duplicates(index, threshold, same_event)
    assert all(same_event(index[one], index[other]) for group in groups for one, other in combinations(group, 2))
    assert len({id for group in groups for id in group}) == sum(map(len, groups))
    group_of = {id: group for group in groups for id in group}
    for one, other, _ in index.similar([each.id for each in told], threshold):
        left, right = group_of.get(one, (one,)), group_of.get(other, (other,))
        assert left == right or not all(same_event(index[a], index[b]) for a, b in product(left, right))
    coarse = near_duplicates(index, threshold)
    assert all(any(set(group) <= set(whole) for whole in coarse) for group in groups)


@settings(max_examples=60)
@given(episodes(), thresholds, st.randoms(use_true_random=False))
def test_groups_are_a_function_of_the_set_of_episodes(told, threshold, chance):
    grown = indexed(chance.sample(told, len(told)))
    assert near_duplicates(grown, threshold, same_event) == near_duplicates(indexed(told), threshold, same_event)
    kept = chance.sample(told, len(told) // 2)
    grown.remove([one.id for one in told if one not in kept])
    assert near_duplicates(grown, threshold, same_event) == near_duplicates(indexed(kept), threshold, same_event)


@pytest.mark.parametrize('wrong', [45, 1.01, -1.01, float('nan'), float('inf'), True, None, '.8', 1j])
def test_a_threshold_is_a_cosine(wrong):
    with pytest.raises(ValueError, match='threshold: expected a cosine'):
        near_duplicates(DenseIndex(Letters()), wrong)
    assert checked_cosine(np.float32(.5)) == .5 and checked_cosine(1) == 1.0 and isinstance(checked_cosine(1), float)


def test_an_empty_index_has_no_groups():
    assert near_duplicates(DenseIndex(Letters()), .5) == [] == near_duplicates(indexed([Episode('e', 'a')]), -1)
