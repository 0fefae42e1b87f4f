"""The LoCoMo loader: each irregularity of the published file on a small file, damaged files, and the bundled sample."""
import copy
import json
import os
from collections import Counter
from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memnb.core.conversation import Conversation, Question
from memnb.evaluation.datasets import (
    _without_repeats, LOCOMO_CATEGORIES, data_path, DatasetError, load_locomo, load_sample, repair_evidence)
from damage import JSON, spots


def turn(turn_id, text='Hello.', speaker='Ana', **more):
    return {'speaker': speaker, 'dia_id': turn_id, 'text': text, **more}


def question(text='Who?', **more):
    return {'question': text, 'answer': 'Ana', 'evidence': ['D1:1'], 'category': 4, **more}


def record(*questions, name='conv-1', **talk):
    return {'sample_id': name, 'qa': list(questions), 'observation': {}, 'conversation': {
        'speaker_a': 'Ana', 'speaker_b': 'Ben',
        'session_1_date_time': '1:56 pm on 8 May, 2023', 'session_1': [turn('D1:1'), turn('D1:2', speaker='Ben')],
        'session_2_date_time': '12:09 am on 13 September, 2023', 'session_2': [turn('D2:1'), turn('D2:26')], **talk}}


@pytest.fixture(scope='module')
def load(tmp_path_factory):
    path = tmp_path_factory.mktemp('locomo') / 'small.json'

    def written(content, **more):
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding='utf-8')
        return load_locomo(path, **more)
    return written


def test_sessions_turns_dates_and_captions(load):
    [loaded] = load([record(question(), session_10=[turn('D10:1', blip_caption=' a grey\ncat ', img_url=['x'])],
                            session_10_date_time='4:06 pm on 23 January, 2024')])
    assert [session.id for session in loaded.sessions] == ['D1', 'D2', 'D10']
    assert [session.time for session in loaded.sessions] == [
        datetime(2023, 5, 8, 13, 56), datetime(2023, 9, 13, 0, 9), datetime(2024, 1, 23, 16, 6)]
    assert all(one.time == session.time for session in loaded.sessions for one in session.turns)
    assert loaded.turn('D10:1').caption == 'a grey cat'
    assert loaded.turn('D1:1').caption is None
    assert loaded.speakers == ('Ana', 'Ben')
    assert loaded.notes == ()
    assert loaded.questions == (Question('Who?', 'Ana', ('D1:1',), 'single-hop', 'conv-1', 0),)


@pytest.mark.parametrize('listed, ids, notes', [
    (['D1:2', 'D2:1'], ('D1:2', 'D2:1'), ()),
    (['D1:2; D2:1'], ('D1:2', 'D2:1'), ("evidence 'D1:2; D2:1' holds 2 ids",)),
    (['D1:1 D1:2 D2:1'], ('D1:1', 'D1:2', 'D2:1'), ("evidence 'D1:1 D1:2 D2:1' holds 3 ids",)),
    (['D1:1,D1:2'], ('D1:1', 'D1:2'), ("evidence 'D1:1,D1:2' holds 2 ids",)),
    (['D:2:26'], ('D2:26',), ("evidence 'D:2:26' read as 'D2:26'",)),
    (['D2:01'], ('D2:1',), ("evidence 'D2:01' read as 'D2:1'",)),
    (['D1:1', 'D'], ('D1:1',), ("evidence 'D' dropped: there is no such turn",)),
    (['D1:1', ''], ('D1:1',), ("evidence '' dropped: there is no such turn",)),
    (['D1:3', 'D1:1'], ('D1:1',), ("evidence 'D1:3' dropped: there is no such turn",)),
    (['D9:9'], (), ("evidence 'D9:9' dropped: there is no such turn",)),
    (['D1:1', 'D2:1', 'D1:1'], ('D1:1', 'D2:1'), ("evidence 'D1:1' dropped: listed before",)),
    (['D2:1', 'D2:01'], ('D2:1',), ("evidence 'D2:01' dropped: listed before",)),
    ([' D1:1 '], ('D1:1',), ()),
    ([], (), ()),
])
def test_evidence(load, listed, ids, notes):
    [loaded] = load([record(question(evidence=listed))])
    assert loaded.questions[0].evidence == ids
    assert loaded.questions[0].notes == notes


known_ids = st.lists(st.sampled_from(['D1:1', 'D1:2', 'D2:1', 'D11:26', 'D30:5', 'x y', 'D1:01']), unique=True)
entries = st.lists(st.sampled_from(['D1:1', 'D1:2; D2:1', 'D2:1 D1:1', 'D:11:26', 'D30:05', 'D', '', 'x y', 'D1:01', ';'])
                   | st.text('D:01; ', max_size=8), max_size=5)


@given(entries, known_ids)
@settings(max_examples=200, deadline=None)
def test_repaired_evidence_exists_once_and_needs_no_second_repair(listed, known):
    ids, notes = repair_evidence(listed, known)
    assert set(ids) <= set(known) and len(set(ids)) == len(ids)
    assert repair_evidence(ids, known) == (ids, ())
    assert [one for one in listed if one in known] == [one for one in listed if one in ids and one in known]
    assert notes or list(ids) == [one.strip('; ,') if one not in known else one for one in listed]


def test_adversarial_questions(load):
    trap = {'question': 'Who?', 'evidence': ['D1:1'], 'category': 5, 'adversarial_answer': 'Ben'}
    [loaded] = load([record(trap, {**trap, 'answer': 'No'}, {**trap, 'adversarial_answer': 7})])
    only, both, number = loaded.questions
    assert (only.category, only.answer, only.adversarial_answer, only.notes) == ('adversarial', None, 'Ben', ())
    assert (both.answer, both.adversarial_answer) == ('No', 'Ben')
    assert both.notes == ('an adversarial question with an answer: both kept',)
    assert (number.adversarial_answer, number.notes) == ('7', ('adversarial_answer 7 was a number, now text',))


@given(st.lists(st.tuples(st.sampled_from('abc'), st.sampled_from(['adversarial', 'single-hop', 'temporal'])), max_size=8))
@settings(max_examples=150, deadline=None)
def test_one_question_of_each_text_stays(drawn):
    questions = [Question(text, category=category, position=place) for place, (text, category) in enumerate(drawn)]
    kept, notes = _without_repeats(questions)
    expected = []
    for text in 'abc':
        group = [one for one in questions if one.text == text]
        answerable = [one for one in group if one.category != 'adversarial']
        expected += (answerable or group)[:1]
    assert kept == sorted(expected, key=lambda one: one.position)
    assert len(notes) == len(questions) - len(kept)


def changed(change):
    content = record(question(), question('When?'))
    change(content)
    return [content]


@pytest.mark.parametrize('content, message', [
    ('', r'small.json: not JSON: Expecting value: line 1 column 1'),
    ('[{"sample_id":\n  oops}]', r'not JSON: Expecting value: line 2 column 3'),
    ('[{"a": 1, "a": 2}]', r"the key 'a' comes twice in one object"),
    ('[' * 100_000, r'small.json: '),
    ('[' + '9' * 5000 + ']', r'small.json: '),
    ('{}', r'expected a list of conversations, got {}'),
    ('[]', r'expected a list of conversations, got \[\]'),
    ('[3]', r'small.json: \[0\]: expected an object, got 3'),
    (changed(lambda one: one.pop('sample_id')), r"small.json: \[0\]: the field 'sample_id' is missing"),
    (changed(lambda one: one.update(sample_id=3)), r'\[0\].sample_id: expected a string, got 3'),
    (changed(lambda one: one.pop('qa')), r"small.json: conv-1: the field 'qa' is missing"),
    (changed(lambda one: one.update(conversation=[])), r'conv-1.conversation: expected an object, got \[\]'),
    (changed(lambda one: one.update(conversation={})), r'conv-1.conversation: expected session_1, .*got none'),
    (changed(lambda one: one['conversation'].update(session_2='x')), r"conversation.session_2: expected a list, got 'x'"),
    (changed(lambda one: one['conversation'].pop('session_2_date_time')), r"the field 'session_2_date_time' is missing"),
    (changed(lambda one: one['conversation'].update(session_2_date_time='soon')),
     r"conv-1.conversation.session_2_date_time: expected a time like '1:56 pm on 8 May, 2023', got 'soon'"),
    (changed(lambda one: one['conversation'].update(session_2_date_time='1:56 pm on 31 June, 2023')),
     r'session_2_date_time: expected a time'),
    (changed(lambda one: one['conversation']['session_2'][1].pop('text')),
     r"conv-1.conversation.session_2\[1\]: the field 'text' is missing"),
    (changed(lambda one: one['conversation']['session_2'][1].update(blip_caption=3)),
     r'session_2\[1\].blip_caption: expected a string, got 3'),
    (changed(lambda one: one['conversation']['session_2'][1].update(dia_id='D1:1')), r"conv-1: turn id 'D1:1' comes twice"),
    (changed(lambda one: one['conversation']['session_2'][1].update(dia_id=' ')), r'conv-1: Turn.id: expected a name'),
    (changed(lambda one: one['conversation'].update(session_2=[3])), r'session_2\[0\]: expected an object, got 3'),
    (changed(lambda one: one['qa'][1].pop('answer')), r"conv-1.qa\[1\]: the field 'answer' is missing"),
    (changed(lambda one: one['qa'][1].update(answer=True)), r'qa\[1\].answer: expected a string or a number, got True'),
    (changed(lambda one: one['qa'][1].update(answer=float('nan'))), r'NaN is not a number'),
    (changed(lambda one: one['qa'][1].update(category=6)), r'qa\[1\].category: expected 1 to 5, got 6'),
    (changed(lambda one: one['qa'][1].update(category='2')), r"qa\[1\].category: expected a number, got '2'"),
    (changed(lambda one: one['qa'][1].update(evidence='D1:1')), r"qa\[1\].evidence: expected a list, got 'D1:1'"),
    (changed(lambda one: one['qa'][1].update(evidence=[11])), r'qa\[1\].evidence: expected a list of strings, got \[11\]'),
    ([record(), record()], r"small.json: \[1\].sample_id: 'conv-1' comes twice"),
])
def test_what_is_not_locomo_is_refused_with_its_place(load, content, message):
    with pytest.raises(DatasetError, match=message):
        load(content)


WHOLE = [record(question(evidence=['D1:1; D2:01', 'D']), question('Which?', category=5, adversarial_answer='No'),
                session_3_date_time='1:56 pm on 9 September, 2023', session_1=[turn('D1:1', blip_caption='a cat')]),
         record(question(), name='conv-2')]


@st.composite
def damaged_files(draw):
    """A valid file in which one to three nodes were dropped, doubled, renamed or replaced by arbitrary JSON."""
    content = copy.deepcopy(WHOLE)
    for _ in range(draw(st.integers(1, 3))):
        paths = list(spots(content))
        if not paths:
            break
        *way, key = draw(st.sampled_from(paths))
        node = content
        for step in way:
            node = node[step]
        how = draw(st.sampled_from(['drop', 'copy', 'replace', 'replace']))
        if how == 'drop':
            del node[key]
        elif how == 'copy' and isinstance(node, list):
            node.append(copy.deepcopy(node[key]))
        elif how == 'copy':
            node[draw(st.sampled_from(['session_4', 'session_01', 'session_4_date_time', 'answer', 'text']))] = node[key]
        else:
            node[key] = draw(JSON)
    return content


@given(damaged_files(), st.booleans())
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_damaged_file_gives_conversations_or_a_dataset_error(load, content, drop_repeats):
    try:
        loaded = load(content, drop_repeats=drop_repeats)
    except DatasetError as error:
        assert 'small.json' in str(error)
        return
    for conversation in loaded:
        assert conversation.turns
        assert Conversation.from_json(conversation.to_json()) == conversation
        assert all(one.id.startswith(f'{conversation.id}/') for one in conversation.questions)
        conversation.to_json().encode('utf-8')
        for one in (*conversation.turns, *conversation.questions):
            one.text.encode('utf-8')


@given(st.binary(max_size=30) | st.text(max_size=30).map(lambda text: text.encode('utf-8', 'replace')))
@settings(max_examples=100, deadline=None)
def test_arbitrary_bytes(tmp_path_factory, content):
    path = Path(tmp_path_factory.getbasetemp()) / 'bytes.json'
    path.write_bytes(content)
    with pytest.raises(DatasetError):
        load_locomo(path)


@pytest.fixture(scope='module')
def sample():
    return load_sample()


def test_the_samples_questions_have_evidence_and_only_answerable_ones_an_answer(sample):
    for one in sample.questions:
        assert one.evidence, one.id
        assert (one.answer is None) == (one.category == 'adversarial'), one.id
        assert (one.adversarial_answer is not None) == (one.category == 'adversarial'), one.id
        if one.category == 'multi-hop':
            assert len(one.evidence) > 1, one.id


def test_bundled_files(tmp_path, monkeypatch):
    assert data_path('sample.json').name == 'sample.json'
    with pytest.raises(DatasetError, match="no bundled file 'nothing.json'"):
        data_path('nothing.json')
    package = tmp_path / 'site' / 'memnb'
    (package / '_data').mkdir(parents=True)
    (package / '_data' / 'sample.json').write_bytes(data_path('sample.json').read_bytes())
    monkeypatch.setattr('memnb.__file__', str(package / '__init__.py'))
    assert data_path('sample.json') == package / '_data' / 'sample.json'
    assert load_sample().id == 'sample'


FULL = {'multi-hop': 282, 'temporal': 321, 'open-domain': 96, 'single-hop': 841, 'adversarial': 446}


@pytest.mark.skipif('MEMNB_LOCOMO' not in os.environ, reason='MEMNB_LOCOMO does not name a LoCoMo file')
def test_the_published_file():
    path = os.environ['MEMNB_LOCOMO']
    loaded, fewer = load_locomo(path), load_locomo(path, drop_repeats=True)
    counts, left = (Counter(one.category for talk in talks for one in talk.questions) for talks in (loaded, fewer))
    published = {(record['sample_id'], place): one['category'] for record in json.loads(Path(path).read_text(encoding='utf-8'))
                 for place, one in enumerate(record['qa'])}
    assert {(talk.id, one.position): one.category for talk in loaded for one in talk.questions} == {
        key: LOCOMO_CATEGORIES[category] for key, category in published.items()}
    names = {talk.id for talk in loaded}
    if {'conv-30', 'conv-48'} <= names:
        assert counts - left == Counter({'single-hop': 11, 'adversarial': 1})
    if 'conv-26' in names:
        odd = {one.position: one for talk in loaded if talk.id == 'conv-26' for one in talk.questions}
        assert [place for place, one in odd.items() if any('was a number' in note for note in one.notes)] == [
            1, 26, 40, 49, 72, 75]
        assert [place for place, one in odd.items() if any('both kept' in note for note in one.notes)] == [167, 178]
        assert odd[37].evidence == ('D8:6', 'D9:17')
    lost = [one.id for talk in loaded for one in talk.questions
            if not one.evidence and any('evidence' in note for note in one.notes)]
    assert lost == []
    if len(loaded) == 10:
        assert counts == FULL and left == {**FULL, 'single-hop': 830, 'adversarial': 445}
        assert sum(len(talk.turns) for talk in loaded) == 5882 and sum(len(talk.sessions) for talk in loaded) == 272
