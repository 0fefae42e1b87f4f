"""Test of Time: the file format, and what is refused."""

import json
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memnb.evaluation.datasets import DatasetError, tidy
from memnb.evaluation.test_of_time import load_tot_conversations

KINDS = [
    'before_after',
    'event_at_time_t',
    'event_at_what_time',
    'first_last',
    'event_at_the_time_of_another_event',
    'number_of_events_in_time_interval',
    'relation_duration',
    'timeline',
]
GOOD = {
    'prompt': 'Facts:\nE1 was the R1 of E2 from 1952 to 1957.\n\nAnswer.',
    'question': 'Who?',
    'question_type': 'timeline',
    'label': 'E1',
    'graph_gen_algorithm': 'er',
    'sorting_type': 'shuffle',
}
names = st.from_regex(r'[A-Z][A-Za-z0-9]{0,4}', fullmatch=True)
years = st.lists(st.integers(1, 9999), min_size=2, max_size=2).map(sorted)
facts = st.builds(
    lambda holder, post, place, span: f'{holder} was the {post} of {place} from {span[0]:04} to {span[1]:04}.',
    names,
    names,
    names,
    years,
)
words = st.text(min_size=1).map(tidy).filter(bool)


@settings(max_examples=50)
@given(
    st.lists(
        st.tuples(st.lists(facts, min_size=1, max_size=5), words, st.sampled_from(KINDS), words),
        min_size=1,
        max_size=4,
    ),
    st.sampled_from(['Facts:\n', '']),
    st.sampled_from(['list', '\n', '\r\n', '\n\n']),
)
def test_any_records_survive_the_file(tmp_path_factory, items, heading, form):
    path = tmp_path_factory.mktemp('tot') / 'any.json'
    records = [
        {
            'prompt': heading + '\n'.join(lines) + '\n\nAnswer.',
            'question': question,
            'question_type': kind,
            'label': label,
        }
        for lines, question, kind, label in items
    ]
    path.write_text(json.dumps(records) if form == 'list' else form.join(map(json.dumps, records)), newline='')
    loaded = load_tot_conversations(path)
    assert [talk.id for talk in loaded] == [f'any-{position}' for position in range(len(items))]
    for position, (talk, (lines, question, kind, label)) in enumerate(zip(loaded, items)):
        assert [turn.text for turn in talk.turns] == lines
        [asked] = talk.questions
        assert (asked.text, asked.category, asked.answer, asked.position) == (question, kind, label, position)


@pytest.mark.parametrize(
    'line',
    [
        'E1 was the R1 of E2 from 1957 to 1952.',
        'E1 was the R1 of E2 from 1952 to 1957',
        'E1 was R1 of E2 from 1952 to 1957.',
        'E1 was the R1 of E2 from 1957 to \u0661\u0669\u0665\u0662.',
        'E1 was the R1 of E2 from \u0661\u0669\u0665\u0662 to \u0661\u0669\u0665\u0667.',
        'E1 was the R1 of E2 in 1952.',
        'E1 was the R1 of E2 from 52 to 57.',
        'E1 was the R1 of E2 from 0000 to 1957.',
        'E3 left.',
    ],
)
def test_a_line_that_is_no_fact_is_refused_with_its_place(line, tmp_path):
    path = tmp_path / 'tot.json'
    for prompt in (f'Facts:\n{line}', f'Facts:\nE1 was the R1 of E2 from 1952 to 1957.\n{line}\n\nAnswer.'):
        path.write_text(json.dumps([GOOD, GOOD | {'prompt': prompt}]), encoding='utf-8')
        with pytest.raises(DatasetError, match=r'tot.json\[1\].prompt: expected facts') as refused:
            load_tot_conversations(path)
        assert f'one of them is {line!r:.80}' in str(refused.value)


@pytest.mark.parametrize(
    'fields, message',
    [
        ({'question_type': 'timelines'}, r"tot.json\[1\].question_type: Input should be 'before_after'"),
        ({'prompt': 'Facts:\n\nAnswer.'}, r'\[1\].prompt: expected facts'),
        ({'prompt': ' '}, r'\[1\].prompt: expected facts'),
    ],
)
def test_damage_is_refused_with_its_place(tmp_path, fields, message):
    path = tmp_path / 'tot.json'
    path.write_text(json.dumps([GOOD, GOOD | fields]), encoding='utf-8')
    with pytest.raises(DatasetError, match=message):
        load_tot_conversations(path)


@pytest.mark.skipif(not os.environ.get('MEMNB_TOT'), reason='MEMNB_TOT names no file of Test of Time')
def test_the_published_file_loads():
    loaded = load_tot_conversations(os.environ['MEMNB_TOT'])
    assert loaded and all(one.turns and one.questions[0].answer for one in loaded)
