"""The notebooks as a reader has them: none longer than can be read, each public definition shown, exercises that can be checked."""

import json
import sys
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from memnb.core.exercises import plain_form, seal, verdict

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / '.ci'))
from notebooks import REWRITTEN, all_notebooks, shortcomings  # noqa: E402

ANSWERS = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**6), 10**6) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3),
)


def test_nothing_falls_short():
    assert list(shortcomings(all_notebooks(ROOT / 'nbs'), REWRITTEN)) == []


def test_no_committed_output_is_an_error():
    for path in (ROOT / 'nbs').rglob('*.ipynb'):
        for cell in json.loads(path.read_text(encoding='utf-8'))['cells']:
            assert all(output['output_type'] != 'error' for output in cell.get('outputs', ())), path.name
            shown = json.dumps(cell.get('outputs', ()))
            assert 'Traceback (most recent call last)' not in shown and 'site-packages' not in shown, path.name


def cell(source, kind='code'):
    return {'cell_type': kind, 'source': [source]}


def faults_of(folder, *cells):
    """What falls short in a notebook of these cells, without its name."""
    (folder / '99_short.ipynb').write_text(json.dumps({'cells': cells}))
    return [fault.partition(': ')[2] for fault in shortcomings(all_notebooks(folder))]


EXERCISE = [
    cell('### Exercises', 'markdown'),
    cell('answer = ...\ncheck(answer, "x")'),
    cell('```python\nanswer = 1\n```\n', 'markdown'),
]


def test_what_falls_short_is_found(tmp_path):
    exported = cell('#| export\ndef shown():\n    return 1\n\n\ndef hidden():\n    return 2')
    alone = cell('hidden()')
    few = '1 exercises and 1 solutions, none or 3 of each wanted'
    both = cell('assert shown() == 1\nhidden()')  # a cell with the name and an assert is an example
    assert faults_of(tmp_path, exported, both, alone, *EXERCISE) == [few]
    assert faults_of(tmp_path, exported, cell('assert shown() == 1'), alone, *EXERCISE) == [
        few,
        'hidden has no example with an assert',
    ]


def test_exercises_inside_a_cell_are_found(tmp_path):
    inside = cell('## The end\n\n### Exercises', 'markdown')
    assert faults_of(tmp_path, inside, cell('answer = 1')) == [
        'its exercises begin inside a cell, where nobody checks them'
    ]


def test_a_lesson_says_how_long_it_takes(tmp_path):
    def faults(time):
        sources = (f'# Long\n\n{time}', 'word ' * 1900, '## In depth', 'word ' * 1000)
        return faults_of(tmp_path, *(cell(source, 'markdown') for source in sources))

    assert faults('**10 minutes**; with *In depth* 15.') == []
    for time in ('', '**10 minutes**.', '**20 minutes**; with *In depth* 15.'):
        assert faults(time)[0].endswith('about [10, 15] are needed')


@given(ANSWERS)
def test_a_form_is_its_own_form_and_a_tuple_is_a_list(answer):
    assert plain_form(plain_form(answer)) == plain_form(answer)
    assert seal([answer]) == seal((answer,))


@given(ANSWERS, ANSWERS)
def test_equal_seals_are_equal_forms(one, other):
    assert (seal(one) == seal(other)) == (plain_form(one) == plain_form(other))


@given(ANSWERS.filter(lambda answer: answer is not None))
def test_an_answer_is_right_by_its_own_seal_only(answer):
    blank = isinstance(answer, list) and set(map(type, answer)) == {type(None)}
    assert verdict(answer, seal(answer)) == (verdict(..., '') if blank else 'Right.')
    assert verdict(answer, 'no seal') != 'Right.'


@pytest.mark.parametrize('dots', [..., None, [..., None], (None,)])
def test_dots_are_no_answer(dots):
    assert verdict(dots, 'no seal').startswith('Not answered yet')


def test_no_answer_raises():
    assert verdict({1: 2}, 'no seal').startswith('Not {1: 2}') and verdict([[...]], 'no seal').startswith('Not [[')
