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


def test_what_falls_short_is_found(tmp_path):
    def code(source):
        return {'cell_type': 'code', 'source': source.splitlines(True), 'outputs': []}

    path = tmp_path / '99_short.ipynb'
    cells = [
        code('#| export\ndef shown():\n    return 1\n\n\ndef hidden():\n    return 2'),
        code('assert shown() == 1\nhidden()'),
        code('hidden()'),
    ]
    exercises = [
        {'cell_type': 'markdown', 'source': ['## Exercises']},
        code('answer = ...\ncheck(answer, "x")'),
        {'cell_type': 'markdown', 'source': ['```python\nanswer = 1\n```\n']},
    ]
    path.write_text(json.dumps({'cells': cells + exercises}))
    name = f'{tmp_path.name}/99_short'
    assert list(shortcomings(all_notebooks(tmp_path))) == [
        f'{name}: 1 exercises and 1 solutions, none or 3 of each wanted'
    ]  # one cell has both names and an assert
    path.write_text(json.dumps({'cells': cells[:1] + [code('assert shown() == 1'), code('hidden()')] + exercises}))
    assert list(shortcomings(all_notebooks(tmp_path))) == [
        f'{name}: 1 exercises and 1 solutions, none or 3 of each wanted',
        f'{name}: hidden has no example with an assert',
    ]


def test_exercises_inside_a_cell_are_found(tmp_path):
    cells = [
        {'cell_type': 'markdown', 'source': ['## The end\n', '\n', '## Exercises']},
        {'cell_type': 'code', 'source': ['answer = 1'], 'outputs': []},
    ]
    (tmp_path / '98_hidden.ipynb').write_text(json.dumps({'cells': cells}))
    assert list(shortcomings(all_notebooks(tmp_path))) == [
        f'{tmp_path.name}/98_hidden: its exercises begin inside a cell, where nobody checks them'
    ]


def test_a_lesson_says_how_long_it_takes(tmp_path):
    def faults(head):
        cells = [head, 'word ' * 3000, '## In depth', 'word ' * 2000]
        cells = [{'cell_type': 'markdown', 'source': [source]} for source in cells]
        (tmp_path / '97_long.ipynb').write_text(json.dumps({'cells': cells}))
        return [fault for fault in shortcomings(all_notebooks(tmp_path)) if 'minutes' in fault]

    assert faults('# Long\n\n**15 minutes**; with *In depth* 25.') == []
    for time in ('', '**15 minutes**.', '**5 minutes**; with *In depth* 25.'):
        assert faults(f'# Long\n\n{time}')[0].endswith('about [15, 25] are needed')


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
