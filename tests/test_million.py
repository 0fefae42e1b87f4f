"""The arithmetic of a million conversations: proportions, turning points, and a paper's dollars."""
import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memnb.costs import Prices, total
from memnb.lm import Usage
from memnb.million import NUMBER_BYTES, Load, Measured, counted, machines, server_hours, stored, vector_bytes, waiting_hours

COUNTS = st.integers(0, 10 ** 9)
USAGES = st.builds(Usage, COUNTS, COUNTS, COUNTS)
SIZES = st.integers(1, 10 ** 4)
MEASURED = st.builds(Measured, USAGES, SIZES, USAGES, SIZES)


def parts(usage):
    return usage.calls, usage.prompt_tokens, usage.completion_tokens


@given(MEASURED, SIZES)
def test_what_was_measured_needs_what_was_measured(measured, times):
    needs = measured.needs(Load(times, measured.turns, measured.questions))
    assert [parts(needs[phase]) for phase in ('build', 'ask')] == [tuple(times * part for part in parts(usage)) for usage in (measured.build, measured.ask)]


@given(MEASURED, SIZES, SIZES, SIZES)
def test_needs_are_exact_proportions_rounded_up(measured, conversations, turns, questions):
    needs = measured.needs(Load(conversations, turns, questions))
    for phase, usage, much, of in (('build', measured.build, turns, measured.turns), ('ask', measured.ask, questions, measured.questions)):
        for found, part in zip(parts(needs[phase]), parts(usage)):
            exact = part * conversations * much / of
            assert exact * (1 - 1e-12) <= found <= exact * (1 + 1e-12) + 1


@given(MEASURED, SIZES)
def test_at_the_break_even_reading_costs_as_much_as_asking(measured, turns):
    questions = measured.break_even(turns)
    if not measured.ask.tokens:
        assert questions == math.inf
        return
    reading, asking = measured.build.tokens * turns / measured.turns, measured.ask.tokens * questions / measured.questions
    assert math.isclose(reading, asking, rel_tol=1e-9)


@pytest.mark.parametrize('build, ask, dollars', [((0, 0), (1.19, .17), .75), ((.90, .72), (18.10, .79), 10.02), ((.90, .72), (1.83, .18), 2.53)])
def test_the_dollars_of_a_papers_table(build, ask, dollars):
    """REMem, table 20, at the prices per million tokens of that day."""
    measured = Measured(*(thing for part, size in ((build, 6000), (ask, 1986)) for thing in (Usage(0, *(round(1e6 * one) for one in part)), size)))
    assert Prices(.40, 1.60).of(total(measured.needs(Load(10, 600, 198.6)))) == pytest.approx(dollars, abs=.006)


@pytest.mark.parametrize('wrong', [-1, math.nan, math.inf, -math.inf])
@pytest.mark.parametrize('place', range(3))
def test_a_load_of_less_than_nothing_is_refused(wrong, place):
    values = [1, 1, 1]
    values[place] = wrong
    with pytest.raises(ValueError, match=f'{("conversations", "turns", "questions")[place]}: expected a number from 0, got'):
        Load(*values)


@given(USAGES, st.integers(1, 10 ** 5), st.integers(1, 10 ** 5))
def test_a_server_has_read_and_written_everything_when_its_hours_are_over(usage, prompt_rate, reply_rate):
    seconds = server_hours(usage, prompt_rate, reply_rate) * 3600
    assert math.isclose(seconds, usage.prompt_tokens / prompt_rate + usage.completion_tokens / reply_rate, rel_tol=1e-9)
    assert math.isclose(2 * seconds, server_hours(usage + usage, prompt_rate, reply_rate) * 3600, rel_tol=1e-9)


@given(st.integers(1, 200), st.integers(1, 40))
def test_waiting_hours_are_what_a_simulation_takes(calls, under_way):
    free = [0] * under_way  # when each worker is free again
    for _ in range(calls):
        free.sort()
        free[0] += 2
    assert max(free) - 2 < waiting_hours(calls, 2, under_way) * 3600 + 1e-6 and waiting_hours(calls, 2, under_way) * 3600 <= max(free) + 1e-6


@given(st.floats(1e-6, 1e9) | st.just(0), st.floats(.01, 1e6))
def test_so_many_machines_are_enough_and_one_fewer_is_not(hours, within):
    number = machines(hours, within)
    assert hours <= number * within * (1 + 1e-9) and (number == 0 or (number - 1) * within < hours)


@given(st.integers(0, 10 ** 6), st.integers(1, 4096), st.sampled_from(sorted(NUMBER_BYTES)))
def test_vectors_take_what_numpy_takes(vectors, dimensions, kind):
    numpy = pytest.importorskip('numpy')
    assert vector_bytes(vectors, dimensions, kind) == vectors * dimensions * numpy.dtype(kind).itemsize
    assert stored(Load(vectors, 1, 0), vector_bytes(1, dimensions, kind)) == vector_bytes(vectors, dimensions, kind)


@given(st.floats(0, 9e17))
@example(1050)
@example(999.6e6)
@example(9.97)
def test_a_number_as_a_person_reads_it_is_the_number(number):
    text = counted(number, 'B')
    value, unit = text.split(' ')
    scale = 1000 ** ' kMGTP'.index(unit[0]) if len(unit) == 2 else 1
    assert unit.endswith('B') and float(value) * scale == pytest.approx(number, rel=.06, abs=.06)
    assert float(value) < 1000
    assert counted(number) == text.removesuffix('B').strip()
