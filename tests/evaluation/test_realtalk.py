"""The REALTALK loader: chats written by a writer of their own, each irregularity alone, and damaged files."""
import copy
import json
from datetime import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memnb.evaluation.benchmarks import load_realtalk, REALTALK_CATEGORIES, spread_ranges
from memnb.evaluation.datasets import DatasetError


def message(dia_id, text='Hello.', speaker='Ana', at='02.03.2024, 18:30:05', **more):
    return {'clean_text': text, 'speaker': speaker, 'date_time': at, 'dia_id': dia_id, **more}


def question(**more):
    return {'question': 'Who?', 'answer': 'Ana', 'evidence': ['D1:1'], 'category': 1, **more}


def chat(*questions, **more):
    return {'name': {'speaker_1': 'Ana', 'speaker_2': 'Ben'}, 'qa': list(questions),
            'session_1': [message('D1:1'), message('D1:2', speaker='Ben'), message('D1:4')],
            'session_1_date_time': '02.03.2024, 18:30:05',
            'session_2': [message('D2:1', at='09.03.2024, 08:05:10')], 'session_2_date_time': '09.03.2024, 08:05:10', **more}


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
        sessions.append((number, draw(moments), [
            (f'D{number}:{place}', draw(st.sampled_from(['Ana', 'Ben'])), draw(words), draw(moments), draw(st.none() | words))
            for place in places]))
    ids = [turn[0] for _, _, turns in sessions for turn in turns]
    asked = [(draw(words), draw(words | st.integers(0, 3000)), draw(st.lists(st.sampled_from(ids), unique=True, max_size=3)),
              draw(st.sampled_from([1, 2, 3]))) for _ in range(draw(st.integers(0, 3)))]
    return sessions, asked


def as_file(sessions, asked):
    """An independent writer of the format."""
    def clock(time):
        return f'{time.day:02}.{time.month:02}.{time.year}, {time.hour:02}:{time.minute:02}:{time.second:02}'
    content = {'name': {'speaker_1': 'Ana', 'speaker_2': 'Ben'}}
    for number, time, turns in sessions:
        content[f'session_{number}'] = [
            {'clean_text': text, 'speaker': speaker, 'date_time': clock(said), 'dia_id': name, 'text': 'raw ' + text,
             **({'blip_caption': caption, 'img_url': ['x']} if caption is not None else {})} for name, speaker, text, said, caption in turns]
        content[f'session_{number}_date_time'] = clock(time)
        content[f'events_session_{number}'] = {'Ana': []}
    content['qa'] = [{'question': text, 'answer': answer, 'evidence': ids, 'category': number} for text, answer, ids, number in asked]
    return content


@given(chats())
@settings(max_examples=60, deadline=None)
def test_what_is_written_is_read(load, drawn):
    sessions, asked = drawn
    loaded = load(as_file(*drawn))
    assert [(one.id, one.time) for one in loaded.sessions] == [(f'D{number}', time) for number, time, _ in sessions]
    assert [(one.id, one.speaker, one.text, one.time, one.caption) for one in loaded.turns] == [
        (*turn[:4], turn[4] or None) for _, _, turns in sessions for turn in turns]
    assert [(one.text, one.answer, list(one.evidence), one.category, one.refuse) for one in loaded.questions] == [
        (text, str(answer), ids, REALTALK_CATEGORIES[number], False) for text, answer, ids, number in asked]
    assert [one.id for one in loaded.questions] == [f'Chat_1_Ana_Ben/{place}' for place in range(len(asked))]


def test_an_id_that_comes_twice_belongs_to_the_session_it_names(load):
    loaded = load(chat(question(evidence=['D2:1']), session_1=[message('D2:1', 'astray'), message('D1:1'), message('D1:1', 'again')]))
    assert [turn.id for turn in loaded.turns] == ['D2:1.2', 'D1:1', 'D1:1.2', 'D2:1']
    assert loaded.turn('D2:1.2').text == 'astray'
    assert "id 'D2:1' comes again in session 1: the message there is now 'D2:1.2'" in loaded.notes
    assert loaded.questions[0].evidence == ('D2:1',)
    assert loaded.questions[0].notes == ("evidence 'D2:1': several messages had that id",)


@given(st.lists(st.tuples(st.integers(1, 3), st.sampled_from(['D1:1', 'D1:1.2', 'D2:1', 'D3:1', 'x'])), min_size=1, max_size=9))
@settings(max_examples=60, deadline=None)
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


@pytest.mark.parametrize('listed, ids, told', [
    (['D1:1-D1:4'], ('D1:1', 'D1:2', 'D1:4'), ["evidence 'D1:1-D1:4' is a range with 3 turns"]),
    (['D1:2-4'], ('D1:2', 'D1:4'), ["evidence 'D1:2-4' is a range with 2 turns"]),
    (['D1:2 – D1:4, D2:1'], ('D1:2', 'D1:4', 'D2:1'), ["evidence 'D1:2 – D1:4' is a range with 2 turns"]),
    (['D1:4-D2:1'], ('D1:4', 'D2:1'), ["evidence 'D1:4-D2:1' is a range with 2 turns"]),
    (['D1:4-D1:1'], (), ["evidence 'D1:4-D1:1' is a range with 0 turns"]),
    (['D1:1,D1:2'], ('D1:1', 'D1:2'), ["evidence 'D1:1,D1:2' holds 2 ids"]),
    (['D1:1; D2:1'], ('D1:1', 'D2:1'), ["evidence 'D1:1; D2:1' holds 2 ids"]),
    (['D1:1', 'D1:3'], ('D1:1',), ["evidence 'D1:3' dropped: there is no such turn"]),
    (['D1:01.'], ('D1:1',), ["evidence 'D1:01.' read as 'D1:1'"]),
    ('D2:1', ('D2:1',), ['evidence was a text, not a list']),
    (['D1:1-2', 'D1:2'], ('D1:1', 'D1:2'), ["evidence 'D1:1-2' is a range with 2 turns", "evidence 'D1:2' dropped: listed before"]),
    (['D1:1-9999999999'], (), ["evidence 'D1:1-9999999999' dropped: there is no such turn"]),
    ([], (), []),
])
def test_evidence(load, listed, ids, told):
    [asked] = load(chat(question(evidence=listed))).questions
    assert (asked.evidence, list(asked.notes)) == (ids, told)


@given(st.sets(st.tuples(st.integers(1, 3), st.integers(1, 6)), min_size=1), st.tuples(st.integers(1, 3), st.integers(1, 7)),
       st.tuples(st.integers(1, 3), st.integers(1, 7)), st.booleans())
@settings(max_examples=150, deadline=None)
def test_a_range_is_what_lies_between_its_ends(numbers, first, last, short):
    known = [f'D{session}:{place}' for session, place in sorted(numbers)]
    if short:
        last = (first[0], last[1])
    text = f'D{first[0]}:{first[1]}-' + (str(last[1]) if short else f'D{last[0]}:{last[1]}')
    spread, notes = spread_ranges([text], known)
    assert spread == [f'D{session}:{place}' for session, place in sorted(numbers) if first <= (session, place) <= last]
    assert notes == [f'evidence {text!r} is a range with {len(spread)} turns']


def test_a_folder_in_the_order_of_its_numbers(tmp_path):
    for name in ('Chat_10_a', 'Chat_9_b', 'Chat_1_c'):
        (tmp_path / f'{name}.json').write_text(json.dumps(chat(question())))
    (tmp_path / 'README.md').write_text('not a chat')
    assert [one.id for one in load_realtalk(tmp_path)] == ['Chat_1_c', 'Chat_9_b', 'Chat_10_a']
    assert [one.questions[0].id for one in load_realtalk(str(tmp_path))] == ['Chat_1_c/0', 'Chat_9_b/0', 'Chat_10_a/0']
    (tmp_path / 'Chat_2_d.json').write_text('{}')
    with pytest.raises(DatasetError, match='Chat_2_d.json: chat: expected session_1'):
        load_realtalk(tmp_path)


WHOLE = chat(question(evidence=['D1:1-D1:4']), question(category='2', answer=7), session_2=[message('D2:1', blip_caption='a cat')])
NEEDED = [(path, name) for path, names in {
    (): ('session_1', 'session_1_date_time', 'qa'), ('session_1', 1): ('clean_text', 'speaker', 'date_time', 'dia_id'),
    ('qa', 1): ('question', 'answer', 'evidence', 'category')}.items() for name in names]


def at(content, path):
    for key in path:
        content = content[key]
    return content


@pytest.mark.parametrize('path, name', NEEDED)
def test_every_field_that_is_missing_or_of_another_type_is_named(load, path, name):
    content = copy.deepcopy(WHOLE)
    del at(content, path)[name]
    if name == 'session_1':
        return  # then its date announces a session that is not there
    with pytest.raises(DatasetError, match=rf"Chat_1_Ana_Ben.json: chat.*the field '{name}' is missing"):
        load(content)
    for wrong in (None, True, 7.5, {}, [3]):
        if name in ('answer', 'question') and wrong == 7.5:
            continue
        content = copy.deepcopy(WHOLE)
        at(content, path)[name] = wrong
        with pytest.raises(DatasetError, match=rf'Chat_1_Ana_Ben.json: chat.*{name}'):
            load(content)


@pytest.mark.parametrize('change, message_', [
    (dict(session_1='x'), "chat.session_1: expected a list, got 'x'"),
    (dict(session_1=[3]), r'chat.session_1\[0\]: expected an object, got 3'),
    (dict(session_1=[message('D1:1', at='soon')]), r"session_1\[0\].date_time: expected a time like '29.12.2023, 10:44:32', got 'soon'"),
    (dict(session_1=[message('D1:1', at='04.25.2024, 10:44:32')]), 'date_time: expected a time like'),
    (dict(session_1=[message('D1:1', at='31.06.2024, 10:44:32')]), 'date_time: expected a time like'),
    (dict(session_1_date_time='2024'), 'chat.session_1_date_time: expected a time like'),
    (dict(session_1=[message(' ')]), 'Turn.id: expected a name'),
    (dict(session_1=[message('D1:1', blip_caption=['x'])]), r"session_1\[0\].blip_caption: expected a string, got \['x'\]"),
    (dict(qa=[question(category=4)]), r'chat.qa\[0\].category: expected 1, 2 or 3, got 4'),
    (dict(qa=[question(category='one')]), r"qa\[0\].category: expected 1, 2 or 3, got 'one'"),
    (dict(qa=[question(evidence=['D1:1', 2])]), r'qa\[0\].evidence: expected a list of strings'),
    (dict(qa=[question(answer=float('inf'))]), 'Infinity is not a number'),
])
def test_what_is_wrong_is_told_with_its_place(load, change, message_):
    with pytest.raises(DatasetError, match='Chat_1_Ana_Ben.json: .*' + message_):
        load(chat(**change))


@given(st.lists(st.text('D:0123456789-–,; .x', max_size=14), max_size=3))
@settings(max_examples=150, deadline=None)
def test_any_text_as_evidence(load, listed):
    [asked] = load(chat(question(evidence=listed))).questions
    assert set(asked.evidence) <= {'D1:1', 'D1:2', 'D1:4', 'D2:1'} and len(set(asked.evidence)) == len(asked.evidence)
    assert len(asked.notes) >= sum(' '.join(one.split()) not in asked.evidence for one in listed)
