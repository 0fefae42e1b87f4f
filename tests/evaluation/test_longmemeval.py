"""The LongMemEval loader: files written by a writer of their own, each irregularity alone, and damaged files."""

import json
import os
from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memnb.core.conversation import Conversation
from memnb.evaluation.datasets import iter_longmemeval, load_longmemeval, QUESTION_TYPES
from memnb.evaluation.datasets import DatasetError


def turn(content='Hello.', role='user', **more):
    return {'role': role, 'content': content, **more}


def item(name='q1', **more):
    return {
        'question_id': name,
        'question_type': 'multi-session',
        'question': 'Which?',
        'question_date': '2023/05/30 (Tue) 23:40',
        'answer': 'This.',
        'answer_session_ids': ['answer_1'],
        'haystack_session_ids': ['filler', 'answer_1'],
        'haystack_dates': ['2023/05/20 (Sat) 02:21', '2023/05/21 (Sun) 10:00'],
        'haystack_sessions': [
            [turn(), turn('Yes.', 'assistant')],
            [turn('This.', has_answer=True), turn('Well.', 'assistant', has_answer=False)],
        ],
        **more,
    }


@pytest.fixture(scope='module')
def load(tmp_path_factory):
    path = tmp_path_factory.mktemp('longmemeval') / 'small.json'

    def written(content):
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding='utf-8')
        return load_longmemeval(path)

    return written


words = st.text(st.sampled_from('abcxyzÄł🐱 '), max_size=8).map(lambda text: ' '.join(text.split()))
moments = st.datetimes(datetime(2000, 1, 1), datetime(2030, 1, 1)).map(
    lambda time: time.replace(second=0, microsecond=0)
)


@st.composite
def histories(draw):
    """What one entry says: (id, type, text, answer, asked, [(name, time, [(role, text, marked or None)])], gold names)."""
    sessions = [
        (
            draw(st.sampled_from(['a', 'b', 'answer_1'])),
            draw(moments),
            [
                (draw(st.sampled_from(['user', 'assistant'])), draw(words), draw(st.none() | st.booleans()))
                for _ in range(draw(st.integers(0, 3)))
            ],
        )
        for _ in range(draw(st.integers(0, 4)))
    ]
    sessions.append(('last', draw(moments), [('user', draw(words), None)]))
    return (
        draw(st.text('abc', min_size=1, max_size=3)) + draw(st.sampled_from(['', '_abs'])),
        draw(st.sampled_from(QUESTION_TYPES)),
        draw(words),
        draw(words | st.integers(0, 3000)),
        draw(moments),
        sessions,
        draw(st.lists(st.sampled_from(['a', 'b', 'z']), max_size=2)),
    )


def day(time):
    return f'{time.year}/{time.month:02}/{time.day:02} ({"Mon Tue Wed Thu Fri Sat Sun".split()[time.weekday()]}) {time.hour:02}:{time.minute:02}'


def as_entry(drawn):
    """An independent writer of the format."""
    name, kind, text, answer, asked, sessions, gold = drawn
    return {
        'question_id': name,
        'question_type': kind,
        'question': text,
        'answer': answer,
        'question_date': day(asked),
        'haystack_dates': [day(time) for _, time, _ in sessions],
        'haystack_session_ids': [one for one, _, _ in sessions],
        'haystack_sessions': [
            [
                {'role': role, 'content': said, **({} if marked is None else {'has_answer': marked})}
                for role, said, marked in turns
            ]
            for _, _, turns in sessions
        ],
        'answer_session_ids': gold,
    }


@given(st.lists(histories(), min_size=1, max_size=3, unique_by=lambda drawn: drawn[0]), st.booleans())
@settings(max_examples=80)
def test_what_is_written_is_read(load, drawn, alone):
    entries = [as_entry(one) for one in drawn]
    loaded = load(entries[0] if alone else entries)
    for conversation, (name, kind, text, answer, asked, sessions, gold) in zip(loaded, drawn, strict=not alone):
        assert conversation.id == name
        assert [
            (one.id, one.time, [(turn.id, turn.speaker, turn.text, turn.time) for turn in one.turns])
            for one in conversation.sessions
        ] == [
            (
                f'S{number}',
                time,
                [(f'S{number}:{place}', role, said, time) for place, (role, said, _) in enumerate(turns, 1)],
            )
            for time, number, turns in sorted(
                (time, number, turns) for number, (_, time, turns) in enumerate(sessions, 1)
            )
            if turns
        ]
        [question] = conversation.questions
        assert (question.id, question.text, question.answer, question.category, question.asked) == (
            f'{name}/0',
            text,
            str(answer),
            kind,
            asked,
        )
        assert list(question.evidence) == [
            f'S{number}:{place}'
            for number, (_, _, turns) in enumerate(sessions, 1)
            for place, (_, _, marked) in enumerate(turns, 1)
            if marked
        ]
        assert question.refuse == name.endswith('_abs')
        assert Conversation.from_json(conversation.to_json()) == conversation


def test_one_conversation_at_a_time(tmp_path):
    path = tmp_path / 'two.json'
    path.write_text(json.dumps([item('q1'), item('q2', answer=None)]))
    seen = iter_longmemeval(path)
    assert next(seen).id == 'q1'
    with pytest.raises(DatasetError, match=r'two.json\[1\].answer: Input should be a valid string, got None'):
        next(seen)


@pytest.mark.parametrize(
    'change, message',
    [
        (
            dict(haystack_dates=['2023/05/20 (Sat) 02:21']),
            'expected as many haystack_dates as haystack_sessions, .* got 1 and 2',
        ),
        (
            dict(haystack_dates=['2023/05/20 (Sat) 02:21', '20.05.2023']),
            r"haystack_dates\[1\]: expected a time like '2023/05/30 \(Tue\) 23:40', got '20.05.2023'",
        ),
        (dict(haystack_sessions=[[], []]), 'with turns in them, got 2 and 2'),
        (
            dict(haystack_sessions=[[turn()], [turn(role='system')]]),
            r"sessions\[1\]\[0\].role: Input should be 'user' or 'assistant', got 'system'",
        ),
        (dict(answer=float('nan')), 'not JSON'),
    ],
)
def test_what_is_wrong_is_told_with_its_place(load, change, message):
    with pytest.raises(DatasetError, match=r'small.json.*' + message):
        load([item(**change)])


@pytest.mark.skipif('MEMNB_LONGMEMEVAL' not in os.environ, reason='MEMNB_LONGMEMEVAL does not name a LongMemEval file')
def test_a_published_file():
    path = Path(os.environ['MEMNB_LONGMEMEVAL'])
    published = json.loads(path.read_text(encoding='utf-8'))
    loaded = load_longmemeval(path)
    assert [one.id for one in loaded] == [one['question_id'] for one in published]
    for read, one in zip(loaded, published):
        assert len(read.turns) == sum(map(len, one['haystack_sessions']))
        assert len(read.questions[0].evidence) == sum(
            turn.get('has_answer') is True for said in one['haystack_sessions'] for turn in said
        )
