"""The REALTALK loader: what it has beside the reading of LoCoMo, and damaged files."""

import json
from datetime import datetime

import pytest

from memnb.core.conversation import Turn
from memnb.evaluation.datasets import DatasetError, load_realtalk, LOCOMO_CATEGORIES


def message(dia_id, text='Hello.', speaker='Ana', at='02.03.2024, 18:30:05', **more):
    return {'clean_text': text, 'speaker': speaker, 'date_time': at, 'dia_id': dia_id, **more}


def question(**more):
    return {'question': 'Who?', 'answer': 'Ana', 'evidence': ['D1:1'], 'category': 1, **more}


def chat(*questions, **more):
    return {
        'name': {'speaker_1': 'Ana', 'speaker_2': 'Ben'},
        'qa': list(questions),
        'session_1': [message('D1:1'), message('D1:2', speaker='Ben'), message('D1:4')],
        'session_1_date_time': '02.03.2024, 18:30:05',
        'session_2': [message('D2:1', at='09.03.2024, 08:05:10')],
        'session_2_date_time': '09.03.2024, 08:05:10',
        **more,
    }


@pytest.fixture(scope='module')
def load(tmp_path_factory):
    path = tmp_path_factory.mktemp('realtalk') / 'Chat_1_Ana_Ben.json'

    def written(content):
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding='utf-8')
        [loaded] = load_realtalk(path)
        return loaded

    return written


def test_messages_have_a_time_of_their_own_and_questions_are_numbered(load):
    late = message('D10:1', ' Bye\n now', 'Ben', '09.03.2024, 08:06:10', blip_caption='a cat') | {'text': 'raw'}
    loaded = load(
        chat(
            question(answer=2024), question(category=3), session_10=[late], session_10_date_time='09.03.2024, 08:05:10'
        )
    )
    assert [session.id for session in loaded.sessions] == ['D1', 'D2', 'D10']
    assert loaded.sessions[2].time == datetime(2024, 3, 9, 8, 5, 10)
    assert loaded.turns[-1] == Turn('D10:1', 'Ben', 'Bye now', datetime(2024, 3, 9, 8, 6, 10), 'a cat')
    assert [(one.id, one.answer, one.category) for one in loaded.questions] == [
        ('Chat_1_Ana_Ben/0', '2024', LOCOMO_CATEGORIES[1]),
        ('Chat_1_Ana_Ben/1', 'Ana', LOCOMO_CATEGORIES[3]),
    ]


def test_evidence_is_repaired_as_in_locomo(load):
    [asked] = load(chat(question(evidence=['D1:2-D1:4', 'D1:01.', 'D2:1']))).questions
    assert asked.evidence == ('D1:2', 'D1:4', 'D1:1', 'D2:1') and len(asked.notes) == 2


def test_a_folder_of_chats(tmp_path):
    for name in ('Chat_2_b', 'Chat_1_c'):
        (tmp_path / f'{name}.json').write_text(json.dumps(chat(question())))
    (tmp_path / 'README.md').write_text('not a chat')
    assert [one.questions[0].id for one in load_realtalk(str(tmp_path))] == ['Chat_1_c/0', 'Chat_2_b/0']
    (tmp_path / 'Chat_2_d.json').write_text('{}')
    with pytest.raises(DatasetError, match='Chat_2_d.json'):
        load_realtalk(tmp_path)


@pytest.mark.parametrize(
    'change, message_',
    [
        (
            dict(session_1=[message('D1:1', at='04.25.2024, 10:44:32')]),
            r"session_1\[0\].date_time: expected a time like '29.12.2023, 10:44:32', got '04.25.2024, 10:44:32'",
        ),
        (dict(session_1_date_time='2024'), 'session_1_date_time: expected a time like'),
        (dict(session_1=[message('D1:1'), message('D1:1')]), "turn id 'D1:1' comes twice"),
        (dict(qa=None), 'qa: Input should be a valid list, got None'),
    ],
)
def test_what_is_wrong_is_told_with_its_place(load, change, message_):
    with pytest.raises(DatasetError, match='Chat_1_Ana_Ben.json.*' + message_):
        load(chat(**change))
