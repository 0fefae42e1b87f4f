"""Versions of facts against a diary that is read day by day."""

from datetime import date, datetime, timedelta

import pytest
from hypothesis import example, given, strategies as st

from graphs import diary
from memnb.mragent.contents import SemanticUnit
from memnb.core.time import TimeSpan
from memnb.mragent.contents import current

START = date(2024, 1, 1)
days = st.integers(0, 40).map(lambda number: START + timedelta(number))
MAKERS = (
    TimeSpan.day,
    lambda day: TimeSpan.of('week', day),
    lambda day: TimeSpan.month(day.year, day.month),
    lambda day: TimeSpan(day, None),
    lambda day: TimeSpan(None, day),
)
spans = st.sampled_from([make(START + timedelta(number)) for number in (0, 1, 2, 9, 20, 32) for make in MAKERS])
moments = st.sampled_from(
    [None, *(datetime(2024, 1, 1) + timedelta(hours=hours) for hours in (1, 2, 25, 30, 200, 900))]
)
SPELLINGS = {
    'nate': ('Nate', 'nate', ' NATE '),
    'zoe': ('Zoe',),
    'home': ('residence', 'Residence'),
    'job': ('employer', 'Employers'),
    '': ('', ' '),
}


@st.composite
def lives(draw):
    """Units of two persons and two slots, in several spellings, with ids whose numbers have one digit or two."""
    numbers = draw(st.lists(st.integers(0, 20), unique=True, max_size=8))
    return [
        SemanticUnit(
            f'D1/u{number}',
            draw(st.sampled_from('AB')),
            (f'D1:{number}',),
            draw(st.none() | spans),
            said=draw(moments),
            aspect='x',
            person=draw(st.sampled_from(SPELLINGS['nate'] + SPELLINGS['zoe'])),
            slot=draw(st.sampled_from(SPELLINGS['home'] + SPELLINGS['job'] + SPELLINGS[''])),
        )
        for number in numbers
    ]


# --- change


@given(lives(), st.integers(-40, 80).map(lambda number: START + timedelta(number)))
def test_what_is_current_is_what_a_diary_says(units, day):
    assert sorted(one.id for one in current(units, day)) == sorted(
        diary(units, day if day >= date(2023, 12, 1) else None)
    )


def lived(number, home, since):
    """A unit about Nate's home, said and true from a day on."""
    said = datetime.combine(since, datetime.min.time())
    return SemanticUnit(
        f'D1/u{number}', home, (f'D1:{number}',), said=said, aspect='x', person='Nate', slot='residence'
    )


@given(lives())
@example([lived(1, 'A', START), lived(2, 'B', START + timedelta(20))])
def test_a_version_holds_from_its_first_day_on_and_not_a_day_before(units):
    """On both sides of each border, in every run: one day off is the likeliest fault."""
    for border in {unit.since for unit in units} - {None}:
        for day in (border - timedelta(1), border, border + timedelta(1)):
            assert sorted(unit.id for unit in current(units, day)) == sorted(diary(units, day)), day


@given(lives(), st.randoms(use_true_random=False), st.none() | days)
def test_the_order_of_units_does_not_matter(units, chance, day):
    shuffled = chance.sample(units, len(units))
    assert current(units, day) == current(shuffled, day) == current(iter(units), day)


def test_a_text_is_no_day():
    for wrong in ('2024-01-01', 2024, TimeSpan.day(START), 0, ''):
        with pytest.raises(TypeError, match='as_of: expected a date or None, got'):
            current([], wrong)
