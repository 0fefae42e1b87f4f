"""The notebooks as a reader has them: none longer than can be read, each public definition shown, exercises that can be checked."""
import pytest
from hypothesis import given, strategies as st

from memnb.exercises import plain_form, seal, unanswered, verdict

ANSWERS = st.recursive(st.none() | st.booleans() | st.integers(-10**6, 10**6) | st.text(max_size=5), lambda inner: st.lists(inner, max_size=3)
                       | st.frozensets(st.integers(0, 9) | st.text(max_size=2), max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3))


@given(ANSWERS)
def test_a_form_is_its_own_form_and_a_tuple_is_a_list(answer):
    assert plain_form(plain_form(answer)) == plain_form(answer)
    assert seal([answer]) == seal((answer,))


@given(ANSWERS, ANSWERS)
def test_equal_seals_are_equal_forms(one, other):
    assert (seal(one) == seal(other)) == (plain_form(one) == plain_form(other))


@given(ANSWERS)
def test_an_answer_is_right_by_its_own_seal_only(answer):
    assert verdict(answer, seal(answer)) == ('Right.' if not unanswered(answer) else verdict(..., ''))
    assert verdict(answer, 'no seal') != 'Right.'


@pytest.mark.parametrize('dots', [..., None, [..., None], (None,)])
def test_dots_are_no_answer(dots):
    assert unanswered(dots) and verdict(dots, seal(dots)).startswith('Not answered yet')
