"""The Complex-TR loader, on a small file written for the project."""

import json
from pathlib import Path

import pytest

from memnb.evaluation.datasets import load_complex_tr
from memnb.evaluation.datasets import DatasetError

FILE = Path(__file__).parents[1] / 'complex_tr.json'
ROWS = [json.loads(line) for line in FILE.read_text(encoding='utf-8').splitlines()]


def test_questions_answers_and_kinds():
    questions = load_complex_tr(FILE).questions
    assert [one.category for one in questions] == ['time-to-event'] * 3 + ['event-to-event'] * 3 + ['time-to-event']
    assert [one.answer.split(', ') for one in questions] == [row['text_answers']['text'] for row in ROWS]
    assert [(one.text, one.position) for one in questions] == [
        (row['question'], place) for place, row in enumerate(ROWS)
    ]


def test_the_memory_holds_each_text_once():
    talk = load_complex_tr(FILE)
    assert talk.turns[1].text.startswith('Northlight Radio: Northlight Radio was a station') and ROWS[3]['context'] in [
        turn.text for turn in talk.turns
    ]
    assert len({turn.text for turn in talk.turns}) == len(talk.turns) == len(talk.sessions)


def test_a_json_list_is_read_like_json_lines(tmp_path):
    (tmp_path / 'complex_tr.json').write_text(json.dumps(ROWS), encoding='utf-8')
    assert load_complex_tr(tmp_path / 'complex_tr.json') == load_complex_tr(FILE)


def test_without_texts_or_answers(tmp_path):
    path = tmp_path / 'bare.json'
    bare = [{name: value for name, value in one.items() if name not in ('context', 'passages')} for one in ROWS]
    path.write_text(json.dumps([bare[0] | {'text_answers': {'text': []}}, *bare[1:]]))
    talk = load_complex_tr(path)
    assert {turn.text for turn in talk.turns} == {
        line.strip() for row in ROWS for line in row['fact_context'].splitlines() if line.strip()
    }
    assert (talk.questions[0].answer, talk.questions[0].refuse, talk.questions[1].refuse) == (None, True, False)
    path.write_text(
        json.dumps([{name: value for name, value in one.items() if name != 'fact_context'} for one in bare])
    )
    with pytest.raises(DatasetError, match='bare.json: expected passages or facts to remember, got none'):
        load_complex_tr(path)


@pytest.mark.parametrize(
    'change, message',
    [
        ({'id': 'L4_Q1_P108_1'}, "line 1.id: String should match pattern .*, got 'L4_Q1_P108_1'"),
        ({'text_answers': {'text': ['A', ' ']}}, r'line 1.text_answers.text\[1\]: String should'),
    ],
)
def test_damage_is_refused_with_its_place(tmp_path, change, message):
    (tmp_path / 'bad.json').write_text('\n'.join(map(json.dumps, [ROWS[0] | change, ROWS[1]])), encoding='utf-8')
    with pytest.raises(DatasetError, match=message):
        load_complex_tr(tmp_path / 'bad.json')
