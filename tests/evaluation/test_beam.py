"""BEAM: chats come back as they were written, in any of the forms of a file; what is damaged is refused with its place."""

import json
import random
from datetime import datetime

import pytest
from hypothesis import given, settings, strategies as st

from damage import JSON, spots
from memnb.adapters.chats import load_conversation
from memnb.core.conversation import ConversationError
from memnb.evaluation.beam import ABILITIES, is_beam, load_beam
from memnb.evaluation.datasets import DatasetError
from memnb.evaluation.registry import DATASETS

DATES = {'March-15-2024': datetime(2024, 3, 15), 'December-1-2024': datetime(2024, 12, 1)}
MARKS = ['', ' ->-> 1,1', ' ->-> 1,N/A', '->-> 3,12)', '\n->->  7\n']
saying = st.sampled_from(['My sprint ends.', 'x -> y', 'a\n\n->-> 4 lists', '海 1,2', 'for (;;) {}'])


@st.composite
def chats(draw):
    """What a chat holds: (role, text, mark, date or None) of each message, and how the file is cut."""
    messages = []
    for number in range(draw(st.integers(1, 12))):
        role = ('user', 'assistant')[number % 2]
        date = draw(st.sampled_from([None, None, *DATES]))
        messages.append((role, draw(saying), draw(st.sampled_from(MARKS)) if role == 'user' else '', date))
    return messages


def cut(draw, items):
    """A list as a list of lists."""
    ends = sorted(draw(st.lists(st.integers(0, len(items)), max_size=3)))
    return [items[start:end] for start, end in zip([0, *ends], [*ends, len(items)])]


def evidence(draw, ids):
    """Ids in one of the forms of a file."""
    parts = cut(draw, ids)
    return draw(st.sampled_from([ids, parts, [ids], {'first': ids, 'second': []}, {'a': parts[0], 'b': parts[1:]}]))


def written(folder, batches, probes=None):
    """A folder of a chat."""
    (folder / 'probing_questions').mkdir(parents=True, exist_ok=True)
    (folder / 'chat.json').write_text(json.dumps(batches), encoding='utf-8')
    place = folder / 'probing_questions' / 'probing_questions.json'
    place.unlink(missing_ok=True)
    if probes is not None:
        place.write_text(json.dumps(probes), encoding='utf-8')
    return folder


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp('beam') / '100K' / '1'


@settings(max_examples=60)
@given(messages=chats(), data=st.data())
def test_what_is_written_is_read(folder, messages, data):
    draw = data.draw
    records = []
    for number, (role, text, mark, date) in enumerate(messages):
        records.append({'role': role, 'id': number, 'content': text + mark} | ({'time_anchor': date} if date else {}))
    batches = [{'batch_number': n, 'turns': cut(draw, part)} for n, part in enumerate(cut(draw, records), 1)]
    if draw(st.booleans()):
        batches = [{f'plan-{n}': part} for n, part in enumerate(cut(draw, batches))]
    known = list(range(len(messages)))
    probes, expected = {}, []
    for ability in draw(st.lists(st.sampled_from(ABILITIES), unique=True, max_size=4)):
        ids = draw(st.lists(st.sampled_from([*known, 99, 98]), max_size=5))
        rubric = draw(st.lists(st.sampled_from(['Says May', 'Names 3']), max_size=2))
        label = draw(st.sampled_from(['answer', 'ideal_response', 'ideal_summary', 'expected_compliance', 'else']))
        probe = {'question': 'When?', label: 'May', 'rubric': rubric, 'difficulty': 'easy'}
        if ids or draw(st.booleans()):
            probe['source_chat_ids'] = evidence(draw, ids)
        probes[ability] = [probe]
        expected.append((ability, None if label == 'else' else 'May', ids, tuple(rubric)))
    written(folder, batches, probes if draw(st.booleans()) or probes else None)
    [chat] = load_beam(folder)
    assert chat == load_conversation(folder) == load_conversation(folder / 'chat.json') and is_beam(
        folder / 'chat.json'
    )
    assert [chat] == load_beam(folder.parent) == DATASETS['beam'].load(folder) and chat.id == '100K-1'
    place, sessions = {}, 0
    for number, (role, text, _, date) in enumerate(messages):
        sessions += bool(date or not number)
        place[number] = f'D{sessions}:{number}'
    assert [(turn.id, turn.speaker, turn.text) for turn in chat.turns] == [
        (place[number], role.capitalize(), text) for number, (role, text, _, _) in enumerate(messages)
    ]
    dates = [date for number, (*_, date) in enumerate(messages) if date or not number]
    assert [session.time for session in chat.sessions] == [DATES.get(date) for date in dates]
    for position, (question, (ability, answer, ids, rubric)) in enumerate(zip(chat.questions, expected, strict=True)):
        assert (question.category, question.answer, question.rubric) == (ability, answer, rubric)
        assert question.evidence == tuple(place[id] for id in dict.fromkeys(ids) if id in place)
        assert question.refuse == (ability == 'abstention') and question.position == position
        lost = [str(id) for id in ids if id not in place]
        assert question.notes == ((f'evidence: no message {", ".join(lost)}',) if lost else ())


MESSAGE = {'role': 'user', 'id': 0, 'content': 'Hi', 'time_anchor': 'March-15-2024'}
PROBE = {'question': 'When?', 'answer': 'May', 'source_chat_ids': [0], 'rubric': ['Says May']}


@pytest.mark.parametrize(
    'message, probe, words',
    [
        ({'role': 'system'}, {}, r'1/chat.json\[0\].turns\[0\]\[0\].role: .*system'),
        ({'time_anchor': 'today'}, {}, r"1/chat.json\[0\].turns\[0\]\[0\].time_anchor: .*'March-15-2024', got 'today'"),
        ({'content': None}, {}, r'1/chat.json\[0\].turns\[0\]\[0\].content'),
        ({'id': 'x'}, {}, r'1/chat.json\[0\].turns\[0\]\[0\].id'),
        ({}, {'question': ''}, r'1/probing_questions.json.event_ordering\[0\].question'),
        ({}, {'source_chat_ids': ['x']}, r'1/probing_questions.json.event_ordering\[0\].source_chat_ids\[0\]'),
        ({}, {'rubric': 'May'}, r'1/probing_questions.json.event_ordering\[0\].rubric'),
    ],
)
def test_what_is_damaged_is_refused_with_its_place(tmp_path, message, probe, words):
    batches = [{'batch_number': 1, 'turns': [[MESSAGE | message]]}]
    folder = written(tmp_path / '1', batches, {'event_ordering': [PROBE | probe]})
    with pytest.raises(DatasetError, match=words):
        load_beam(tmp_path)
    (folder / 'chat.json').write_text('[{')
    with pytest.raises(DatasetError, match='chat.json: not JSON'):
        load_beam(folder)
    with pytest.raises(DatasetError, match='expected a folder with chat.json'):
        load_beam(folder / 'probing_questions')


def test_an_id_that_comes_twice_is_refused_and_folders_come_by_number(tmp_path):
    for number in (10, 9, 1):
        written(tmp_path / str(number), [{'batch_number': 1, 'turns': [[MESSAGE]]}])
    (tmp_path / 'no chat').mkdir()
    assert [chat.id.rpartition('-')[2] for chat in load_beam(tmp_path)] == ['1', '9', '10']
    written(tmp_path / '9', [{'batch_number': 1, 'turns': [[MESSAGE, MESSAGE | {'time_anchor': None}]]}])
    with pytest.raises(DatasetError, match="9/chat.json: turn id 'D1:0' comes twice"):
        load_beam(tmp_path)
    twice = [{'batch_number': 1, 'turns': [[MESSAGE, MESSAGE]]}]
    probe = {'question': 'What?', 'answer': 'x', 'source_chat_ids': [0]}
    [chat] = load_beam(written(tmp_path / 'twice', twice, {'abstention': [probe]}))
    assert chat.questions[0].evidence == ('D1:0', 'D2:0')
    assert chat.notes == ('several messages have one id, all of them are its evidence: [0]',)
    assert not is_beam(tmp_path / 'no chat') and not is_beam(tmp_path / 'nowhere')


@settings(max_examples=120)
@given(seed=st.integers(0, 10**6), value=JSON, of_chat=st.booleans())
def test_any_damage_is_a_dataset_error_or_nothing(folder, seed, value, of_chat):
    files = [[{'batch_number': 1, 'turns': [[dict(MESSAGE)]]}], {'summarization': [json.loads(json.dumps(PROBE))]}]
    damaged = files[0] if of_chat else files[1]
    *way, last = random.Random(seed).choice([spot for spot in spots(damaged) if spot])
    for step in way:
        damaged = damaged[step]
    damaged[last] = value
    try:
        [chat] = load_beam(written(folder, *files))
    except (DatasetError, ConversationError) as error:
        assert isinstance(error, DatasetError)
    else:
        assert len(chat.questions) <= 1
