"""Files of one's own: arbitrary conversations go out and come back, lines by another writer are read, and each fault has its line."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memnb.core.conversation import Conversation, Question, Session, Turn
from memnb.core.names import clean_id
from memnb.evaluation.datasets import DatasetError, load_jsonl, load_sample, save_jsonl

texts = st.text(max_size=10)
ids = st.text(min_size=1, max_size=5).filter(str.strip)
times = st.none() | st.datetimes()


@st.composite
def conversations(draw, name):
    """Any conversation whose sessions begin with their first turns, with questions that know its name."""
    turn_ids = draw(st.lists(ids, unique_by=clean_id, min_size=1, max_size=6))
    cuts = draw(st.sets(st.integers(1, len(turn_ids))))
    sessions, some = [], st.sampled_from([None, *draw(st.lists(st.datetimes(), max_size=2))])
    for start, end in zip([0, *sorted(cuts)], [*sorted(cuts), len(turn_ids)]):
        if start < end:
            first = draw(some)
            turns = [
                Turn(turn, draw(texts), draw(texts), draw(some) or first if place else first, draw(st.none() | texts))
                for place, turn in enumerate(turn_ids[start:end])
            ]
            sessions.append(Session(f'{draw(texts)}{start}', turns, first))
    evidence = st.lists(st.sampled_from(turn_ids), max_size=3)
    questions = [
        Question(
            draw(texts),
            draw(st.none() | texts),
            draw(evidence),
            draw(st.none() | texts),
            name,
            position,
            draw(st.none() | texts),
            draw(times),
            (),
            draw(st.lists(texts, max_size=2)),
            draw(st.booleans()),
            draw(st.lists(texts, max_size=2)),
        )
        for position in range(draw(st.integers(0, 3)))
    ]
    if all(one.time for one in sessions):
        sessions.sort(key=lambda one: one.time)
    return Conversation(name, sessions, questions)


many = st.lists(texts, unique=True, min_size=1, max_size=3).flatmap(lambda names: st.tuples(*map(conversations, names)))


@pytest.fixture(scope='module')
def path(tmp_path_factory):
    return tmp_path_factory.mktemp('jsonl') / 'own.jsonl'


@given(many)
@settings(max_examples=80)
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
    runs = [
        (name, number)
        for name in draw(st.lists(st.sampled_from(['a', 'b', 'c']), unique=True, min_size=1))
        for number in range(1, draw(st.integers(1, 3)) + 1)
    ]
    return [
        (
            *run,
            [
                (
                    draw(st.sampled_from(['Ana', 'Ben'])),
                    draw(texts),
                    draw(times),
                    draw(st.none() | st.just('id')),
                    draw(st.none() | texts),
                )
                for _ in range(draw(st.integers(1, 3)))
            ],
        )
        for run in runs
    ]


@given(chats(), st.randoms(use_true_random=False), st.booleans(), st.booleans())
@settings(max_examples=50)
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
        found = [
            (turn.id, turn.speaker, turn.text, turn.time, turn.caption, one.session_of(turn.id).id)
            for turn in one.turns
        ]
        assert sorted(found, key=str) == sorted(expected[one.id], key=str)
        assert one.questions == (Question('Which?', evidence=[expected[one.id][-1][0]], conversation=one.id),)


def turn(**more):
    return {'conversation': 'cats', 'session': 'first', 'speaker': 'Ana', 'text': 'Hello.', **more}


def question(**more):
    return {'conversation': 'cats', 'question': 'Who?', **more}


def load(path, *lines, end='\n'):
    path.write_text(
        '\n'.join(line if isinstance(line, str) else json.dumps(line) for line in lines) + end, encoding='utf-8'
    )
    return load_jsonl(path)


@pytest.mark.parametrize(
    'lines, message',
    [
        ([turn(), {**turn(), 'speaker': None}], 'own.jsonl: line 2.speaker: Input should be a valid string, got None'),
        ([turn(), turn(id='D1:1')], "own.jsonl: turn id 'D1:1' comes twice"),
        ([turn(id=' ')], 'own.jsonl: line 1: Turn.id: expected a name'),
        ([turn(time='soon')], "line 1.time: expected a time like '2024-03-02T18:30', got 'soon'"),
        ([turn(time='2024-03-02T18:30+01:00')], 'line 1.*time'),
        ([turn(picture='x')], 'line 1.picture: Extra inputs are not permitted'),
        ([turn(), question(evidence='D1:1')], "line 2.evidence: Input should be a valid list, got 'D1:1'"),
        ([question(evidence=['D1:2']), turn()], "own.jsonl: conversation 'cats' has no turn 'D1:2'"),
        ([turn(), question(answer=True)], 'line 2.answer: Input should be a valid string, got True'),
        ([turn(), question(refuse='yes')], "line 2.refuse: Input should be a valid boolean, got 'yes'"),
        ([turn(), question(conversation='dogs')], "expected turns of 'dogs', got only questions"),
        ([turn(), '[3]'], r'line 2: Input should be .* got \[3\]'),
        ([turn(), '{"a": oops}', turn()], 'own.jsonl: line 2: not JSON: Expecting value'),
        ([turn(), '[' * 100_000, turn()], 'own.jsonl: line 2'),
    ],
)
def test_what_is_wrong_is_told_with_its_line(path, lines, message):
    with pytest.raises(DatasetError, match=message):
        load(path, *lines)


@pytest.mark.parametrize('time, order', [('2024-03-01', 'ab'), ('2024-03-03', 'ba'), (None, 'ba')])
def test_sessions_may_be_mixed_and_come_in_the_order_of_time_where_all_have_one(path, time, order):
    [found] = load(
        path, turn(session='b', time='2024-03-02'), turn(session='a', time=time), turn(session='b', text='Bye.')
    )
    assert {one.id: [turn.id for turn in one.turns] for one in found.sessions} == {'b': ['D1:1', 'D1:2'], 'a': ['D2:1']}
    assert ''.join(one.id for one in found.sessions) == order


FULL = {
    'turn': turn(time='2024-03-02T18:30', id='D1:1', caption='a cat'),
    'question': question(
        answer='Ana',
        evidence=['D1:1'],
        category='single-hop',
        asked='2024-03-03',
        refuse=False,
        aliases=['Anna'],
        adversarial_answer='Ben',
    ),
}


@given(
    st.lists(st.sampled_from([FULL['turn'] | {'id': None}, FULL['question'] | {'evidence': ['D1:1']}]), max_size=3),
    st.data(),
)
@settings(max_examples=60)
def test_a_file_that_was_cut_is_whole_lines_or_an_error(path, more, data):
    lines = [json.dumps(one, ensure_ascii=False) for one in [turn(text='Zażółć 🐱'), *more]]
    content = ('\n'.join(lines) + '\n').encode()
    end = data.draw(st.integers(1, len(content)))
    path.write_bytes(content[:end])
    done = content[:end].split(b'\n')
    if end == len(content) or content[end : end + 1] == b'\n' or content[end - 1 : end] == b'\n':
        load_jsonl(path)
    else:
        with pytest.raises(DatasetError, match=f'own.jsonl: line {len(done)}: not '):
            load_jsonl(path)


def test_files_that_cannot_be_read_or_written(tmp_path):
    for place in (tmp_path / 'none.jsonl', tmp_path, 'a\0b'):
        with pytest.raises(DatasetError):
            load_jsonl(place)
    for place in (tmp_path, tmp_path / 'nowhere' / 'own.jsonl', 'a\0b'):
        with pytest.raises(DatasetError, match='cannot be written'):
            save_jsonl([load_sample()], place)
    marked = tmp_path / 'marked.jsonl'
    marked.write_bytes(b'\xef\xbb\xbf' + json.dumps(turn()).encode())
    assert load_jsonl(str(marked))[0].turns[0].text == 'Hello.'
