"""Files of one's own: arbitrary conversations go out and come back, lines by another writer are read, and each fault has its line."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memnb.adapters.chats import load_conversation
from memnb.core.conversation import Conversation, Question, Session, Turn
from memnb.core.names import clean_id
from memnb.evaluation.beam import is_beam
from memnb.evaluation.datasets import DatasetError, iter_json, load_jsonl, load_sample, read_json, save_jsonl
from memnb.evaluation.registry import data_hash
from memnb.retrieval.learned import LearnedRanker

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
        ([turn(time='soon')], "line 1.time: expected a time like '2024-03-02T18:30', got 'soon'"),
        ([turn(time='2024-03-02T18:30+01:00')], 'line 1.*time'),
        ([turn(picture='x')], 'line 1.picture: Extra inputs are not permitted'),
        ([question(evidence=['D1:2']), turn()], "own.jsonl: conversation 'cats' has no turn 'D1:2'"),
        ([turn(), question(conversation='dogs')], "expected turns of 'dogs', got only questions"),
        ([turn(), '[3]'], r'line 2: Input should be .* got \[3\]'),
        ([turn(), '{"a": oops}', turn()], 'own.jsonl: line 2: not JSON: Expecting value'),
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


def test_a_file_is_replaced_when_it_is_complete_and_no_link_is_followed(tmp_path):
    talk = Conversation('c', [Session('D1', [Turn('D1:1', 'Ada', 'hi')])])
    (tmp_path / 'precious').write_text('precious')
    (tmp_path / 'link').symlink_to(tmp_path / 'precious')
    save_jsonl([talk], tmp_path / 'link')
    assert (tmp_path / 'precious').read_text() == 'precious' and load_jsonl(tmp_path / 'link')[0].turns == talk.turns
    os.mkfifo(tmp_path / 'pipe')
    with pytest.raises(DatasetError, match='cannot be written: .*expected a file'):
        save_jsonl([talk], tmp_path / 'pipe')
    assert sorted(path.name for path in tmp_path.iterdir()) == ['link', 'pipe', 'precious']


@pytest.mark.parametrize('mode', [0o600, 0o664])
def test_a_file_keeps_its_permissions(tmp_path, mode):
    (tmp_path / 'own.jsonl').touch()
    (tmp_path / 'own.jsonl').chmod(mode)
    save_jsonl([], tmp_path / 'own.jsonl')
    assert (tmp_path / 'own.jsonl').stat().st_mode & 0o777 == mode


def test_a_fifo_or_a_device_is_refused_by_what_reads_files(tmp_path):
    """The one waits for ever, the other never ends."""
    os.mkfifo(tmp_path / 'pipe')
    readers = [
        load_jsonl,
        read_json,
        load_conversation,
        is_beam,
        data_hash,
        LearnedRanker.load,
        lambda path: next(iter_json(path)),
    ]
    for read in readers:
        for place in (tmp_path / 'pipe', Path('/dev/zero')):
            if read is is_beam:
                assert not read(place)
            else:
                with pytest.raises(ValueError, match='expected a file'):
                    read(place)
