"""What all loaders read with: JSON in pieces against JSON as a whole, fields and their places, times."""
import json
import re
from datetime import datetime

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from memnb.core.conversation import Turn
from memnb.evaluation.benchmarks import iter_json
from memnb.evaluation.datasets import (
    DatasetError, decode_json, moment, numbered_sessions, placed, read_json, Record, tidy,
    untidy_notes, words)

JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
                    lambda inside: st.lists(inside, max_size=4) | st.dictionaries(st.text(max_size=5), inside, max_size=4),
                    max_leaves=12)
SIZES = st.integers(1, 40)


@pytest.fixture(scope='module')
def path(tmp_path_factory):
    return tmp_path_factory.mktemp('records') / 'list.json'


@given(JSON, SIZES, st.booleans(), st.sampled_from([None, 1, '\t']), st.booleans())
@settings(max_examples=200, deadline=None)
def test_pieces_give_what_the_whole_gives(path, value, size, ascii_only, indent, marked):
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    path.write_bytes(b'\xef\xbb\xbf' * marked + text.encode())
    assert list(iter_json(path, size)) == (value if isinstance(value, list) else [value])
    assert read_json(path) == value


def told(read, path):
    try:
        read(path)
    except DatasetError as error:
        return str(error)


@given(st.lists(JSON, max_size=4), SIZES, st.data())
@settings(max_examples=250, deadline=None)
def test_damaged_text_is_refused_where_json_refuses_it(path, value, size, data):
    text = json.dumps(value, ensure_ascii=data.draw(st.booleans()), indent=data.draw(st.sampled_from([None, 1])))
    place = data.draw(st.integers(0, len(text)))
    text = text[:place] + data.draw(st.sampled_from(['', '"', ',', ']', '}', '\n', '\\', '\\ud83d', '1', 'x'])) + text[place + data.draw(
        st.integers(0, 3)):]
    assume(not re.search(r',\s*[\]}]', text))  # versions of Python name different places for such a comma
    path.write_text(text, encoding='utf-8', errors='replace')
    whole = told(read_json, path)
    assert told(lambda path: list(iter_json(path, size)), path) == whole


@given(st.lists(JSON, min_size=1, max_size=4), SIZES, st.integers(0, 60))
@settings(max_examples=150, deadline=None)
def test_a_list_that_ends_in_the_middle(path, value, size, cut):
    text = json.dumps(value)
    path.write_text(text[:-1 - cut % len(text)], encoding='utf-8')
    assert told(lambda path: list(iter_json(path, size)), path) is not None


@given(st.text(max_size=30), st.integers(0, 40), SIZES)
@settings(max_examples=60, deadline=None)
def test_bytes_that_are_no_utf8(path, text, place, size):
    content = json.dumps([text], ensure_ascii=False).encode()
    path.write_bytes(content[:place] + b'\xff' + content[place:])
    assert told(lambda path: list(iter_json(path, size)), path) == told(read_json, path)


def test_members_come_before_the_fault(path):
    path.write_text('[{"a": 1}, {"a": 2}, oops]')
    seen = iter_json(path, 4)
    assert [next(seen), next(seen)] == [{'a': 1}, {'a': 2}]
    with pytest.raises(DatasetError, match='Expecting value at line 1, column 22'):
        next(seen)


@pytest.mark.parametrize('text, message', [
    ('[{"a": 1, "a": 2}]', "the key 'a' comes twice"), ('[' * 100_000, 'list.json: '), ('[' + '9' * 5000 + ']', 'list.json: '),
    ('', 'Expecting value at line 1, column 1'), ('[1] [2]', 'Extra data at line 1, column 5'), ('[1, ', 'Expecting value'),
])
def test_what_is_no_list(path, text, message):
    path.write_text(text)
    for size in (1, 7, 10**6):
        with pytest.raises(DatasetError, match=message):
            list(iter_json(path, size))
        with pytest.raises(DatasetError, match=message):
            read_json(path)
        if len(text) > 1000:
            break


def test_files_that_cannot_be_opened(tmp_path):
    for read in (read_json, lambda path: list(iter_json(path))):
        with pytest.raises(DatasetError, match='none.json: cannot be opened: No such file'):
            read(tmp_path / 'none.json')
        with pytest.raises(DatasetError, match='cannot be opened'):
            read(tmp_path)
        with pytest.raises(DatasetError):
            read('a\0b')


def test_a_line_of_a_file_is_named_by_its_number():
    assert decode_json(b'{"a": 1}', 'x.jsonl', 7) == {'a': 1}
    with pytest.raises(DatasetError, match='x.jsonl: not JSON: Expecting value at line 8, column 1'):
        decode_json(b'[1,\n]'.replace(b']', b'x]'), 'x.jsonl', 7)


KINDS = [bool, int, float, str, list, dict]


@given(JSON, st.lists(st.sampled_from(KINDS), min_size=1, max_size=3, unique=True), st.booleans(), st.booleans())
@settings(max_examples=150, deadline=None)
def test_a_field_has_a_type_that_was_asked_for_or_an_error_with_its_place(value, kinds, optional, missing):
    record = Record({} if missing else {'name': value}, 'file: 3')
    try:
        given = record.take('name', *kinds, optional=optional)
    except DatasetError as error:
        assert str(error).startswith("file: 3: the field 'name' is missing" if missing else 'file: 3.name: expected ')
        assert not (optional and (missing or value is None)) and (missing or type(value) not in kinds)
    else:
        assert (given is None and optional) if missing or value is None else type(given) in kinds and given is value


def test_long_values_are_cut_in_messages():
    with pytest.raises(DatasetError) as caught:
        Record([{'a': {'b': list(range(1000))}}] * 1000, 'file')
    assert len(str(caught.value)) < 120


@given(st.text(max_size=30))
def test_tidying(text):
    tidied = tidy(text)
    assert tidied == ' '.join(text.split()) and tidy(tidied) == tidied
    assert bool(untidy_notes([text])) == (tidied != text)


@given(st.text(max_size=8) | st.integers() | st.floats() | st.none() | st.booleans(), st.booleans())
def test_words(value, optional):
    notes = []
    try:
        text = words(Record({'answer': value}, 'here'), 'answer', notes, optional)
    except DatasetError as error:
        assert str(error).startswith('here.answer: expected a string or a number, got ')
        assert isinstance(value, bool) or (value is None and not optional) or value in (float('inf'), -float('inf')) or value != value
    else:
        assert text == (None if value is None else tidy(str(value)))
        assert bool(notes) == (value is not None and text != value)


@given(st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1)).map(lambda time: time.replace(second=0, microsecond=0)))
def test_a_moment_in_one_way(time):
    day = f'{time.year}/{time.month:02}/{time.day:02} ({"Mon Tue Wed Thu Fri Sat Sun".split()[time.weekday()]}) {time.hour:02}:{time.minute:02}'
    assert moment(Record({'at': day}, 'here'), 'at', '', '%Y/%m/%d %H:%M') == time


@given(st.text(max_size=20) | st.text('0123456789/.:, ()Tue', max_size=24))
@settings(max_examples=150, deadline=None)
def test_any_text_as_a_moment(text):
    for ways in ([], ['%Y/%m/%d %H:%M'], ['%d.%m.%Y, %H:%M:%S', '%d.%m.%Y, %H:%M']):
        try:
            assert moment(Record({'at': text}, 'here'), 'at', 'X', *ways).tzinfo is None
        except DatasetError as error:
            assert str(error).startswith("here.at: expected a time like 'X', got ")


@given(st.dictionaries(st.from_regex(r'session_[0-9]{1,2}(_date_time)?', fullmatch=True), st.sampled_from([[], [1]]), max_size=6))
def test_sessions_by_number(fields):
    numbers = {name: name.split('_')[1] for name in fields}
    good = {name: int(number) for name, number in numbers.items() if not number.startswith('0')}
    held = sorted(number for name, number in good.items() if name == f'session_{number}' and fields[name])
    if not held:
        with pytest.raises(DatasetError, match='talk: expected session_1'):
            numbered_sessions(Record(fields, 'talk'))
    else:
        assert numbered_sessions(Record(fields, 'talk')) == (held, sorted(set(good.values()) - set(held)))


def test_a_conversation_error_gets_its_place():
    with pytest.raises(DatasetError, match='here: Turn.id: expected a name'), placed('here'):
        Turn('', 'Ana', 'Hello.')
    with pytest.raises(KeyError), placed('here'):
        raise KeyError('another')


@pytest.mark.parametrize('value, kinds, expected', [(True, [int], 'a number'), (False, [int, float], 'a number'), (1, [bool], 'true or false'),
                                                    (1, [float, str], 'a number or a string')])
def test_true_is_no_number(value, kinds, expected):
    with pytest.raises(DatasetError, match=f'here.name: expected {expected}, got {value}'):
        Record({'name': value}, 'here').take('name', *kinds)


@pytest.mark.parametrize('number', [float('inf'), -float('inf'), float('nan')])
def test_what_is_no_number_is_no_answer(number):
    with pytest.raises(DatasetError, match='here.answer: expected a string or a number, got '):
        words(Record({'answer': number}, 'here'), 'answer', [])


@pytest.mark.parametrize('text', ['04.25.2024, 10:44:32', '4 May 2024', '2024-05-04T10:44:32', '31.06.2024, 10:44:32'])
def test_a_format_with_one_way_is_read_in_no_other(text):
    with pytest.raises(DatasetError, match='here.at: expected a time like'):
        moment(Record({'at': text}, 'here'), 'at', '05.04.2024, 10:44:32', '%d.%m.%Y, %H:%M:%S')
