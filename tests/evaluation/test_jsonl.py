"""Files of one's own: arbitrary conversations go out and come back, lines by another writer are read, and each fault has its line."""
import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memnb.core.conversation import Conversation, Question, Session, Turn
from memnb.evaluation.datasets import load_sample
from memnb.evaluation.datasets import LINES, load_jsonl, save_jsonl
from memnb.evaluation.datasets import DatasetError

texts = st.text(max_size=10)
ids = st.text(min_size=1, max_size=5).filter(str.strip)
times = st.none() | st.datetimes()


@st.composite
def conversations(draw, name):
    """Any conversation that keeps the three laws, with questions that know its name."""
    turn_ids = draw(st.lists(ids, unique=True, max_size=6))
    cuts = sorted(draw(st.lists(st.integers(0, len(turn_ids)), max_size=3)))
    groups = [turn_ids[start:end] for start, end in zip([0, *cuts], [*cuts, len(turn_ids)])]
    names = draw(st.lists(texts, unique=True, min_size=len(groups), max_size=len(groups)))
    some = st.sampled_from([None, *draw(st.lists(st.datetimes(), max_size=2))])
    sessions = [Session(one, [Turn(turn, draw(texts), draw(texts), draw(some), draw(st.none() | texts)) for turn in group], draw(some))
                for one, group in zip(names, groups)]
    evidence = st.lists(st.sampled_from(turn_ids), max_size=3) if turn_ids else st.just([])
    positions = draw(st.lists(st.integers(-2, 9), unique=True, max_size=3)) if draw(st.booleans()) else range(draw(st.integers(0, 3)))
    questions = [Question(draw(texts), draw(st.none() | texts), draw(evidence), draw(st.none() | texts), name, position,
                          draw(st.none() | texts), draw(times), draw(st.lists(texts, max_size=2)), draw(st.lists(texts, max_size=2)),
                          draw(st.booleans())) for position in positions]
    shown = sessions if draw(st.booleans()) or turn_ids else []
    return Conversation(name, shown, questions, draw(st.lists(texts, max_size=2)))


many = st.lists(texts, unique=True, min_size=1, max_size=3).flatmap(lambda names: st.tuples(*map(conversations, names)))


@pytest.fixture(scope='module')
def path(tmp_path_factory):
    return tmp_path_factory.mktemp('jsonl') / 'own.jsonl'


@given(many)
@settings(max_examples=80, deadline=None)
def test_what_was_saved_comes_back(path, written):
    save_jsonl(written, path)
    content = path.read_bytes()
    assert content.isascii() and content.endswith(b'\n') and b'\r' not in content
    assert load_jsonl(path) == list(written)
    save_jsonl(load_jsonl(path), path)
    assert path.read_bytes() == content


@st.composite
def chats(draw):
    """What is said, as plain lists: [(conversation, session, [(speaker, text, time or None, id or None, caption or None)])]."""
    runs = [(name, number) for name in draw(st.lists(st.sampled_from(['a', 'b', 'c']), unique=True, min_size=1)) for number in
            range(1, draw(st.integers(1, 3)) + 1)]
    return [(*run, [(draw(st.sampled_from(['Ana', 'Ben'])), draw(texts), draw(times), draw(st.none() | st.just('id')), draw(st.none() | texts))
                    for _ in range(draw(st.integers(1, 3)))]) for run in runs]


@given(chats(), st.randoms(use_true_random=False), st.booleans(), st.booleans())
@settings(max_examples=50, deadline=None)
def test_another_writers_lines_are_read_in_their_order(path, said, mix, ascii_only, ends):
    """Conversations are mixed and questions strewn; ids, times and sessions follow from the order of the lines."""
    queues, expected, number = {}, {}, 0
    for name, session, turns in said:
        first = turns[0][2]
        for place, (speaker, text, time, own, caption) in enumerate(turns, 1):
            number += 1
            line = {'conversation': name, 'session': session, 'speaker': speaker, 'text': text}
            line |= {'time': time.isoformat(' ')} if time else {}
            line |= {'id': f'{own}{number}'} if own else {}
            line |= {} if caption is None else {'caption': caption}
            queues.setdefault(name, []).append(line)
            said_id = f'{own}{number}' if own else f'D{session}:{place}'
            expected.setdefault(name, []).append((said_id, speaker, text, time or first, caption, str(session)))
    lines = []
    while any(queues.values()):
        lines.append(queues[mix.choice([name for name, queue in queues.items() if queue])].pop(0))
    order = list(dict.fromkeys(line['conversation'] for line in lines))
    for name, turns in expected.items():
        place = mix.randrange(len(lines) + 1)
        lines.insert(place, {'conversation': name, 'question': 'Which?', 'evidence': [turns[-1][0]]})
    order = list(dict.fromkeys(line['conversation'] for line in lines))
    text = '\n\n'.join(json.dumps(line, ensure_ascii=ascii_only) for line in lines) + '\n' * ends
    path.write_text(text.replace('\n\n', mix.choice(['\n', '\n \n', '\r\n'])), encoding='utf-8', newline='')
    loaded = load_jsonl(path)
    assert [one.id for one in loaded] == order
    for one in loaded:
        assert [(turn.id, turn.speaker, turn.text, turn.time, turn.caption, one.session_of(turn.id).id) for turn in one.turns] == expected[one.id]
        assert [session.time for session in one.sessions] == [turns[0][2] for name, _, turns in said if name == one.id]
        assert one.questions == (Question('Which?', evidence=[expected[one.id][-1][0]], conversation=one.id),)


def turn(**more):
    return {'conversation': 'cats', 'session': 'first', 'speaker': 'Ana', 'text': 'Hello.', **more}


def question(**more):
    return {'conversation': 'cats', 'question': 'Who?', **more}


def load(path, *lines, end='\n'):
    path.write_text('\n'.join(line if isinstance(line, str) else json.dumps(line) for line in lines) + end, encoding='utf-8')
    return load_jsonl(path)


@pytest.mark.parametrize('lines, message', [
    ([turn(), {**turn(), 'speaker': None}], 'own.jsonl: line 2.speaker: expected a string, got None'),
    (['', turn(), '', turn(id='D1:1')], "own.jsonl: line 4.id: 'D1:1' is the id of own.jsonl: line 2, too$"),
    ([turn(id='D1:2'), turn()], "line 2.id: 'D1:2' is the id of own.jsonl: line 1, too"),
    ([turn(id=' ')], 'own.jsonl: line 1: Turn.id: expected a name'), ([turn(id='')], 'line 1: Turn.id: expected a name'),
    ([turn(), turn(session='b'), turn()], "line 3.session: 'first' was left for 'b'"),
    ([turn(), {'conversation': 'cats', 'session': 'first'}], "line 2.session: 'first' has begun before"),
    ([turn(time='soon')], "line 1.time: expected a time like '2024-03-02T18:30', without a zone, got 'soon'"),
    ([turn(time='2024-03-02T18:30+01:00')], 'line 1.time: expected a time'), ([turn(time=2024)], 'line 1.time: expected a string, got 2024'),
    ([turn(picture='x')], "line 1: a turn has no field 'picture'; it has conversation, session"),
    ([turn(answer='x')], "line 1: a turn has no field 'answer'"), ([question(text='x')], "line 1: a question has no field 'text'"),
    ([turn(), question(evidence='D1:1')], "line 2.evidence: expected a list, got 'D1:1'"),
    ([turn(), question(evidence=[1])], r'line 2.evidence: expected a list of strings, got \[1\]'),
    ([question(evidence=['D1:2']), turn()], "line 1.evidence: there is no turn 'D1:2' in conversation 'cats'"),
    ([turn(), question(answer=True)], 'line 2.answer: expected a string or a number, got True'),
    ([turn(), question(answer=float('nan'))], 'line 2: not JSON: NaN is not a number'),
    ([turn(), question(refuse='yes')], "line 2.refuse: expected true or false, got 'yes'"),
    ([turn(), question(position='1')], "line 2.position: expected a number, got '1'"),
    ([turn(), question(position=1), question()], 'line 3.position: 1 is the position of own.jsonl: line 2, too'),
    ([turn(), question(asked='x')], 'line 2.asked: expected a time'), ([turn(), question(category=1)], 'line 2.category: expected a string, got 1'),
    ([turn(), question(conversation='dogs')], "line 2.conversation: 'dogs' has no turns, and no line of its own"),
    ([turn(), {'conversation': 'cats', 'answer': 'x'}], "line 2: the field 'question' is missing"),
    ([turn(), '[3]'], r'line 2: expected an object, got \[3\]'), ([turn(), '{"a": oops}', turn()], 'line 2: not JSON: Expecting value'),
    ([turn(), '{"conversation": "a", "conversation": "b"}'], "line 2: not JSON: the key 'conversation' comes twice"),
    ([turn(), '{"a": oops}'], '^own.jsonl: line 2: not JSON: Expecting value'),
    ([turn(), '[' * 100_000, turn()], 'own.jsonl: line 2'),
    ([''], 'own.jsonl: expected a line for each turn and each question, got none'),
])
def test_what_is_wrong_is_told_with_its_line(path, lines, message):
    with pytest.raises(DatasetError, match=message):
        load(path, *lines)


FULL = {'turn': turn(time='2024-03-02T18:30', id='D1:1', caption='a cat'),
        'question': question(answer='Ana', evidence=['D1:1'], category='single-hop', asked='2024-03-03', refuse=False, aliases=['Anna'],
                             adversarial_answer='Ben', position=3, notes=['old']),
        'session': {'conversation': 'cats', 'session': 'second', 'time': '2024-03-02'}, 'conversation': {'conversation': 'cats', 'notes': ['x']}}
NEEDED = {'turn': {'conversation', 'session', 'speaker', 'text'}, 'question': {'conversation', 'question'}, 'session': {'conversation', 'session'},
          'conversation': {'conversation'}}


@pytest.mark.parametrize('kind, name', [(kind, name) for kind, names in LINES.items() for name in names])
def test_every_field_that_is_missing_or_of_another_type_is_named(path, kind, name):
    assert set(FULL[kind]) == set(LINES[kind])
    before = [] if kind == 'turn' else [FULL['turn']]
    without = {field: value for field, value in FULL[kind].items() if field != name}
    if name in NEEDED[kind]:
        with pytest.raises(DatasetError, match=f"own.jsonl: line {len(before) + 1}: the field '{name}' is missing"):
            load(path, *before, without)
    else:
        load(path, *before, without)
    for wrong in (True, 7.5, {}, [3], 'x'):
        text = name in {'conversation', 'session', 'speaker', 'text', 'id', 'caption', 'question', 'answer', 'category', 'adversarial_answer'}
        if (text and wrong == 'x') or (name == 'answer' and wrong == 7.5) or (name == 'refuse' and wrong is True):
            continue
        with pytest.raises(DatasetError, match=f'own.jsonl: line {len(before) + 1}.{name}'):
            load(path, *before, {**FULL[kind], name: wrong})


@given(st.lists(st.sampled_from([FULL['turn'] | {'id': None}, FULL['question'] | {'position': None}, FULL['conversation']]), max_size=3), st.data())
@settings(max_examples=60, deadline=None)
def test_a_file_that_was_cut_is_whole_lines_or_an_error(path, more, data):
    lines = [json.dumps(one, ensure_ascii=False) for one in [turn(text='Zażółć 🐱'), *more]]
    content = ('\n'.join(lines) + '\n').encode()
    end = data.draw(st.integers(1, len(content)))
    path.write_bytes(content[:end])
    done = content[:end].split(b'\n')
    if end == len(content) or content[end:end + 1] == b'\n' or content[end - 1:end] == b'\n':
        load_jsonl(path)
    else:
        with pytest.raises(DatasetError, match=f'own.jsonl: line {len(done)}: not '):
            load_jsonl(path)


JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6) | st.just('half \ud83d'),
                    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.text(max_size=5), inside, max_size=3), max_leaves=5)


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_damaged_lines_give_conversations_or_a_dataset_error(path, data):
    lines = [dict(FULL['conversation']), dict(FULL['turn']), dict(FULL['question']), turn(session='second'), question(evidence=['D2:1'])]
    for _ in range(data.draw(st.integers(1, 4))):
        line = data.draw(st.sampled_from(lines))
        name = data.draw(st.sampled_from([*line, 'time', 'id']) if line else st.just('time'))
        if data.draw(st.booleans()):
            line[name] = data.draw(JSON)
        else:
            line.pop(name, None)
    random.Random(data.draw(st.integers(0, 9))).shuffle(lines)
    try:
        loaded = load(path, *lines)
    except DatasetError as error:
        assert 'own.jsonl' in str(error)
    else:
        save_jsonl(loaded, path)
        assert load_jsonl(path) == loaded


@given(st.binary(max_size=40))
@settings(max_examples=80, deadline=None)
def test_arbitrary_bytes(path, content):
    path.write_bytes(content)
    with pytest.raises(DatasetError):
        load_jsonl(path)


def test_files_that_cannot_be_read_or_written(tmp_path):
    for place in (tmp_path / 'none.jsonl', tmp_path, 'a\0b'):
        with pytest.raises(DatasetError):
            load_jsonl(place)
    for place in (tmp_path, tmp_path / 'nowhere' / 'own.jsonl', 'a\0b'):
        with pytest.raises(DatasetError, match='cannot be written'):
            save_jsonl([load_sample()], place)
    with pytest.raises(DatasetError, match="different names, got 'sample' twice"):
        save_jsonl([load_sample(), load_sample()], tmp_path / 'twice.jsonl')
    assert not (tmp_path / 'twice.jsonl').exists()
    marked = tmp_path / 'marked.jsonl'
    marked.write_bytes(b'\xef\xbb\xbf' + json.dumps(turn()).encode())
    assert load_jsonl(str(marked))[0].turns[0].text == 'Hello.'
