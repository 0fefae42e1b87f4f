"""The REALTALK loader: chats written by a writer of their own, each irregularity alone, and damaged files."""

import json
from datetime import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memnb.evaluation.datasets import load_realtalk, REALTALK_CATEGORIES
from memnb.evaluation.datasets import DatasetError


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


words = st.text(st.sampled_from('abcxyzÄł '), max_size=8).map(lambda text: ' '.join(text.split()))
moments = st.datetimes(datetime(2000, 1, 1), datetime(2030, 1, 1)).map(lambda time: time.replace(microsecond=0))


@st.composite
def chats(draw):
    """What a chat says, as plain lists: [(number, time, [(id, speaker, text, time, caption)])] and [(text, answer, ids, number)]."""
    sessions = []
    for number in sorted(draw(st.sets(st.integers(1, 12), min_size=1, max_size=3))):
        places = sorted(draw(st.sets(st.integers(1, 40), min_size=1, max_size=4)))
        sessions.append(
            (
                number,
                draw(moments),
                [
                    (
                        f'D{number}:{place}',
                        draw(st.sampled_from(['Ana', 'Ben'])),
                        draw(words),
                        draw(moments),
                        draw(st.none() | words),
                    )
                    for place in places
                ],
            )
        )
    ids = [turn[0] for _, _, turns in sessions for turn in turns]
    asked = [
        (
            draw(words),
            draw(words | st.integers(0, 3000)),
            draw(st.lists(st.sampled_from(ids), unique=True, max_size=3)),
            draw(st.sampled_from([1, 2, 3])),
        )
        for _ in range(draw(st.integers(0, 3)))
    ]
    return sessions, asked


def as_file(sessions, asked):
    """An independent writer of the format."""

    def clock(time):
        return f'{time.day:02}.{time.month:02}.{time.year}, {time.hour:02}:{time.minute:02}:{time.second:02}'

    content = {'name': {'speaker_1': 'Ana', 'speaker_2': 'Ben'}}
    for number, time, turns in sessions:
        content[f'session_{number}'] = [
            {
                'clean_text': text,
                'speaker': speaker,
                'date_time': clock(said),
                'dia_id': name,
                'text': 'raw ' + text,
                **({'blip_caption': caption, 'img_url': ['x']} if caption is not None else {}),
            }
            for name, speaker, text, said, caption in turns
        ]
        content[f'session_{number}_date_time'] = clock(time)
        content[f'events_session_{number}'] = {'Ana': []}
    content['qa'] = [
        {'question': text, 'answer': answer, 'evidence': ids, 'category': number} for text, answer, ids, number in asked
    ]
    return content


@given(chats())
@settings(max_examples=60)
def test_what_is_written_is_read(load, drawn):
    sessions, asked = drawn
    loaded = load(as_file(*drawn))
    assert [(one.id, one.time) for one in loaded.sessions] == [(f'D{number}', time) for number, time, _ in sessions]
    assert [(one.id, one.speaker, one.text, one.time, one.caption) for one in loaded.turns] == [
        (*turn[:4], turn[4] or None) for _, _, turns in sessions for turn in turns
    ]
    assert [(one.text, one.answer, list(one.evidence), one.category, one.refuse) for one in loaded.questions] == [
        (text, str(answer), ids, REALTALK_CATEGORIES[number], False) for text, answer, ids, number in asked
    ]
    assert [one.id for one in loaded.questions] == [f'Chat_1_Ana_Ben/{place}' for place in range(len(asked))]


def test_an_id_that_comes_twice_belongs_to_the_session_it_names(load):
    loaded = load(
        chat(
            question(evidence=['D2:1']),
            session_1=[message('D2:1', 'astray'), message('D1:1'), message('D1:1', 'again')],
        )
    )
    assert [turn.id for turn in loaded.turns] == ['D2:1.2', 'D1:1', 'D1:1.2', 'D2:1']
    assert loaded.turn('D2:1.2').text == 'astray'
    assert "id 'D2:1' comes again in session 1: the message is now 'D2:1.2'" in loaded.notes
    assert loaded.questions[0].evidence == ('D2:1',)


@given(
    st.lists(
        st.tuples(st.integers(1, 3), st.sampled_from(['D1:1', 'D1:1.2', 'D2:1', 'D3:1', 'x'])), min_size=1, max_size=9
    )
)
@settings(max_examples=60)
def test_no_message_is_lost_and_every_id_has_one_owner(load, given_ids):
    content = {'name': 'Ana', 'qa': []}
    for place, (number, name) in enumerate(given_ids):
        content.setdefault(f'session_{number}', []).append(message(name, str(place)))
        content[f'session_{number}_date_time'] = '02.03.2024, 18:30:05'
    loaded = load(content)
    named = {int(turn.text): turn.id for turn in loaded.turns}
    assert sorted(named) == list(range(len(given_ids))) and len(set(named.values())) == len(named)
    order = sorted(range(len(given_ids)), key=lambda place: given_ids[place][0])  # as the sessions come
    for name in {name for _, name in given_ids}:
        owners = [place for place in order if given_ids[place][1] == name]
        right = [place for place in owners if name.startswith(f'D{given_ids[place][0]}:')] or owners
        assert named[right[0]] == name
        assert all(named[place].startswith(name + '.') for place in owners if place != right[0])


def test_evidence_is_repaired_as_in_locomo_and_may_be_a_text(load):
    asked = load(chat(question(evidence=['D1:2, D1:4', 'D1:01.']), question(evidence='D2:1'))).questions
    assert (
        [one.evidence for one in asked] == [('D1:2', 'D1:4', 'D1:1'), ('D2:1',)]
        and len(asked[0].notes) == 2
        and not asked[1].notes
    )


def test_a_folder_of_chats(tmp_path):
    for name in ('Chat_2_b', 'Chat_1_c'):
        (tmp_path / f'{name}.json').write_text(json.dumps(chat(question())))
    (tmp_path / 'README.md').write_text('not a chat')
    assert [one.questions[0].id for one in load_realtalk(str(tmp_path))] == ['Chat_1_c/0', 'Chat_2_b/0']
    (tmp_path / 'Chat_2_d.json').write_text('{}')
    with pytest.raises(DatasetError, match='Chat_2_d.json: expected session_1'):
        load_realtalk(tmp_path)


@pytest.mark.parametrize(
    'change, message_',
    [
        (dict(session_1='x'), "session_1: Input should be a valid list, got 'x'"),
        (dict(session_1=[3]), r'session_1\[0\]: Input should be .* got 3'),
        (
            dict(session_1=[message('D1:1', at='04.25.2024, 10:44:32')]),
            r"session_1\[0\].date_time: expected a time like '29.12.2023, 10:44:32', got '04.25.2024, 10:44:32'",
        ),
        (dict(session_1_date_time='2024'), 'session_1_date_time: expected a time like'),
        (dict(session_1=[message(' ')]), 'Turn.id: expected a name'),
        (
            dict(session_1=[message('D1:1', blip_caption=['x'])]),
            r"session_1\[0\].blip_caption: Input should be a valid string, got \['x'\]",
        ),
        (dict(qa=[question(category=4)]), r"qa\[0\].category: Input should be '1', '2' or '3', got"),
        (dict(qa=None), 'qa: Input should be a valid list, got None'),
        (dict(qa=[question(evidence=['D1:1', 2])]), r'qa\[0\].evidence\[1\]: Input should be a valid string'),
    ],
)
def test_what_is_wrong_is_told_with_its_place(load, change, message_):
    with pytest.raises(DatasetError, match='Chat_1_Ana_Ben.json.*' + message_):
        load(chat(**change))
