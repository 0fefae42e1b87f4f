"""The LoCoMo loader: each irregularity of the published file on a small file, damaged files, and the bundled sample."""

import json
import os
from collections import Counter
from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memnb.core.conversation import Question
from memnb.evaluation.datasets import (
    LOCOMO_CATEGORIES,
    data_path,
    DatasetError,
    load_locomo,
    load_sample,
    repair_evidence,
)


def turn(turn_id, text='Hello.', speaker='Ana', **more):
    return {'speaker': speaker, 'dia_id': turn_id, 'text': text, **more}


def question(text='Who?', **more):
    return {'question': text, 'answer': 'Ana', 'evidence': ['D1:1'], 'category': 4, **more}


def record(*questions, name='conv-1', **talk):
    return {
        'sample_id': name,
        'qa': list(questions),
        'observation': {},
        'conversation': {
            'speaker_a': 'Ana',
            'speaker_b': 'Ben',
            'session_1_date_time': '1:56 pm on 8 May, 2023',
            'session_1': [turn('D1:1'), turn('D1:2', speaker='Ben')],
            'session_2_date_time': '12:09 am on 13 September, 2023',
            'session_2': [turn('D2:1'), turn('D2:26')],
            **talk,
        },
    }


@pytest.fixture(scope='module')
def load(tmp_path_factory):
    path = tmp_path_factory.mktemp('locomo') / 'small.json'

    def written(content, **more):
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding='utf-8')
        return load_locomo(path, **more)

    return written


def test_sessions_turns_dates_and_captions(load):
    [loaded] = load(
        [
            record(
                question(),
                session_10=[turn('D10:1', blip_caption=' a grey\ncat ', img_url=['x'])],
                session_10_date_time='4:06 pm on 23 January, 2024',
            )
        ]
    )
    assert [session.id for session in loaded.sessions] == ['D1', 'D2', 'D10']
    assert [session.time for session in loaded.sessions] == [
        datetime(2023, 5, 8, 13, 56),
        datetime(2023, 9, 13, 0, 9),
        datetime(2024, 1, 23, 16, 6),
    ]
    assert all(one.time == session.time for session in loaded.sessions for one in session.turns)
    assert loaded.turn('D10:1').caption == 'a grey cat'
    assert loaded.turn('D1:1').caption is None
    assert loaded.speakers == ('Ana', 'Ben')
    assert loaded.notes == ()
    assert loaded.questions == (Question('Who?', 'Ana', ('D1:1',), 'single-hop', 'conv-1', 0),)


@pytest.mark.parametrize(
    'listed, ids, repaired',
    [
        (['D1:2', 'D2:1'], ('D1:2', 'D2:1'), []),
        (['D1:1', 'D2:1', 'D1:1'], ('D1:1', 'D2:1'), []),
        ([' D1:1 '], ('D1:1',), []),
        ([], (), []),
        (['D1:2; D2:1'], ('D1:2', 'D2:1'), ["'D1:2; D2:1' read as D1:2, D2:1"]),
        (['D:2:26'], ('D2:26',), ["'D:2:26' read as D2:26"]),
        (['D2:1', 'D2:01'], ('D2:1',), ["'D2:01' read as D2:1"]),
        (['D1:1', 'D'], ('D1:1',), ["'D' read as no turn"]),
        (['D9:9'], (), ["'D9:9' read as no turn"]),
        (None, (), ['None read as []']),
        ('D1:1', ('D1:1',), ["'D1:1' read as ['D1:1']"]),
    ],
)
def test_evidence(load, listed, ids, repaired):
    [loaded] = load([record(question(evidence=listed, category='4'), name=7)])
    assert (loaded.id, loaded.questions[0].category, loaded.questions[0].evidence) == ('7', 'single-hop', ids)
    notes = [note for note in loaded.questions[0].notes if note != "category '4' read as 4"]
    assert notes == [f'evidence {one}' for one in repaired]


known_ids = st.lists(st.sampled_from(['D1:1', 'D1:2', 'D2:1', 'D11:26', 'D30:5', 'x y', 'D1:01']), unique=True)
entries = st.lists(
    st.sampled_from(['D1:1', 'D1:2; D2:1', 'D2:1 D1:1', 'D:11:26', 'D30:05', 'D', '', 'x y', 'D1:01', ';'])
    | st.text('D:01; ', max_size=8),
    max_size=5,
)


@given(entries, known_ids)
@settings(max_examples=200)
def test_repaired_evidence_exists_once_and_needs_no_second_repair(listed, known):
    ids, notes = repair_evidence(listed, known)
    assert set(ids) <= set(known) and len(set(ids)) == len(ids)
    assert repair_evidence(ids, known) == (ids, ())
    assert all(one in ids for one in listed if one in known)
    assert len(notes) == sum(one not in known for one in listed)


def test_adversarial_questions(load):
    trap = {'question': 'Who?', 'evidence': ['D1:1'], 'category': 5, 'adversarial_answer': 'Ben'}
    [loaded] = load([record(trap, {**trap, 'answer': 'No'}, {**trap, 'adversarial_answer': 7})])
    only, both, number = loaded.questions
    assert (only.category, only.answer, only.adversarial_answer, only.notes) == ('adversarial', None, 'Ben', ())
    assert (both.answer, both.adversarial_answer) == ('No', 'Ben')
    assert both.notes == ('an adversarial question with an answer: both kept',)
    assert number.adversarial_answer == '7'


def test_a_category_by_name_a_rubric_and_line_breaks(load):
    named = question(category='preference_following', rubric=['Names a train', 'No  plane'])
    declined = question(category='abstention', evidence=[])
    talk = record(named, declined, session_1=[turn('D1:1', ' a\n\n- b\n')])
    for verbatim, text in ((True, ' a\n\n- b\n'), (False, 'a - b')):
        [loaded] = load([talk | {'verbatim': verbatim}])
        assert loaded.turns[0].text == text
        preference, unknown = loaded.questions
        assert preference.category == 'preference_following' and not preference.refuse
        assert preference.rubric == ('Names a train', 'No plane')
        assert (unknown.refuse, unknown.answer, unknown.notes) == (True, 'Ana', ())


def changed(change):
    content = record(question(), question('When?'))
    change(content)
    return [content]


@pytest.mark.parametrize(
    'content, message',
    [
        ('[' + '9' * 5000 + ']', r'small.json: '),
        ('{}', r'small.json: Input should be a valid list, got {}'),
        (
            changed(lambda one: one.update(conversation={})),
            r'small.json\[0\].conversation: expected session_1, .*got none',
        ),
        (
            changed(lambda one: one['conversation'].update(session_2_date_time='1:56 pm on 31 June, 2023')),
            r"small.json\[0\].conversation.session_2_date_time: expected a time like '1:56 pm on 8 May, 2023', got '1:56 pm on 31 June, 2023'",
        ),
        (
            changed(lambda one: one['conversation']['session_2'][1].pop('text')),
            r'small.json\[0\].conversation.session_2\[1\].text: Field required',
        ),
        (
            changed(lambda one: one['conversation']['session_2'][1].update(dia_id=' ')),
            r'small.json\[0\]: Turn.id: expected a name',
        ),
        (changed(lambda one: one['qa'][1].pop('answer')), r'small.json\[0\].qa\[1\]: expected an answer'),
        (
            changed(lambda one: one['qa'][1].update(answer=float('nan'))),
            r'qa\[1\].answer: Input should be a valid string, got nan',
        ),
        (
            changed(lambda one: one['qa'][1].update(category=6)),
            r'qa\[1\].category.*: Input should be 1, 2, 3, 4 or 5, got 6',
        ),
    ],
)
def test_what_is_not_locomo_is_refused_with_its_place(load, content, message):
    with pytest.raises(DatasetError, match=message):
        load(content)


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
    loaded = load_locomo(path)
    counts = Counter(one.category for talk in loaded for one in talk.questions)
    published = {
        (record['sample_id'], place): one['category']
        for record in json.loads(Path(path).read_text(encoding='utf-8'))
        for place, one in enumerate(record['qa'])
    }
    assert {(talk.id, one.position): one.category for talk in loaded for one in talk.questions} == {
        key: LOCOMO_CATEGORIES[category] for key, category in published.items()
    }
    names = {talk.id for talk in loaded}
    if 'conv-26' in names:
        odd = {one.position: one for talk in loaded if talk.id == 'conv-26' for one in talk.questions}
        assert [one.answer.isdecimal() for place, one in odd.items() if place in (1, 26, 40, 49, 72, 75)] == [True] * 6
        assert [place for place, one in odd.items() if any('both kept' in note for note in one.notes)] == [167, 178]
        assert odd[37].evidence == ('D8:6', 'D9:17')
    lost = [
        one.id
        for talk in loaded
        for one in talk.questions
        if not one.evidence and any('evidence' in note for note in one.notes)
    ]
    assert lost == []
    if len(loaded) == 10:
        assert counts == FULL
        assert sum(len(talk.turns) for talk in loaded) == 5882 and sum(len(talk.sessions) for talk in loaded) == 272
