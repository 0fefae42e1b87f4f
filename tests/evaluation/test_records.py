"""What all loaders read with: JSON in pieces against JSON as a whole, fields and their places, times."""
import json
from datetime import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memnb.evaluation.benchmarks import iter_json
from memnb.evaluation.datasets import DatasetError, numbered_sessions, placed, read_json, read_records, Record, tidy
from memnb.core.conversation import Turn

JSON = st.recursive(st.none() | st.booleans() | st.integers(-2**53, 2**53) | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
                    lambda inside: st.lists(inside, max_size=4) | st.dictionaries(st.text(max_size=5), inside, max_size=4), max_leaves=12)


@pytest.fixture(scope='module')
def path(tmp_path_factory):
    return tmp_path_factory.mktemp('records') / 'list.json'


@given(JSON, st.booleans(), st.sampled_from([None, 1, '\t']), st.booleans())
@settings(max_examples=200, deadline=None)
def test_members_are_those_of_the_whole(path, value, ascii_only, indent, marked):
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    path.write_bytes(b'\xef\xbb\xbf' * marked + text.encode())
    assert list(iter_json(path)) == (value if isinstance(value, list) else [value])
    assert read_json(path) == value


@given(st.lists(JSON, min_size=1, max_size=4), st.data())
@settings(max_examples=150, deadline=None)
def test_a_file_that_ends_in_the_middle_is_refused(path, value, data):
    text = json.dumps(value)
    path.write_text(text[:data.draw(st.integers(0, len(text) - 1))], encoding='utf-8')
    for read in (read_json, lambda path: list(iter_json(path))):
        with pytest.raises(DatasetError, match='list.json: not JSON'):
            read(path)


@pytest.mark.parametrize('content, words', [
    (b'{"a": 1, "a": 2}', "the key 'a' comes twice"), (b'[{"b": [{"a": 1, "a": 2}]}]', "the key 'a' comes twice"), (b'["\xe9"]', 'list.json: not'),
    (b'[1] 2', 'not JSON'), (b'[NaN]', 'list.json: '), (b'', 'not JSON'), (b'[1, oops]', 'not JSON')])
def test_what_is_no_json_is_refused_by_both(path, content, words):
    path.write_bytes(content)
    for read in (read_json, lambda path: list(iter_json(path))):
        with pytest.raises(DatasetError, match=words):
            read(path)


def test_files_that_cannot_be_opened(tmp_path):
    for place in (tmp_path / 'none.json', tmp_path, 'a\0b'):
        for read in (read_json, read_records, lambda path: list(iter_json(path))):
            with pytest.raises(DatasetError):
                read(place)


def test_records_of_a_list_and_of_lines(path):
    for text, places in (('[{}, {}]', ['[0]', '[1]']), ('{"a": 1}', ['[0]']), ('{}\n\n{}\r\n', ['line 1', 'line 3'])):
        path.write_text(text, newline='')
        assert [one.place for one in read_records(path)] == [f'list.json: {place}' for place in places]
    path.write_text('{"a": 1}\n{"a": ')
    with pytest.raises(DatasetError, match='list.json: line 2: not JSON'):
        read_records(path)


TYPES = (str, int, float, bool, list, dict)


@given(JSON, st.lists(st.sampled_from(TYPES), min_size=1, max_size=3, unique=True), st.booleans(), st.booleans())
@settings(max_examples=150, deadline=None)
def test_a_field_has_a_type_that_was_asked_for_or_an_error_with_its_place(value, types, optional, missing):
    record = Record({} if missing else {'a': value}, 'x.json: [3]')
    fits = not missing and type(value) in types
    if fits or optional and (missing or value is None):
        assert record.take('a', *types, optional=optional) is (None if missing else value)
    else:
        with pytest.raises(DatasetError, match=r"^x.json: \[3\](.a: expected|: the field 'a' is missing)"):
            record.take('a', *types, optional=optional)


@given(st.text(max_size=30))
def test_tidying_twice_is_tidying_once(text):
    assert tidy(tidy(text)) == tidy(text) == ' '.join(tidy(text).split())


@given(st.text(max_size=8) | st.integers() | st.floats() | st.none() | st.booleans(), st.booleans())
def test_words(value, optional):
    notes, record = [], Record({'a': value}, 'x')
    finite = isinstance(value, float) and value == value and abs(value) != float('inf')
    if value is None and optional:
        assert record.words('a', notes, optional=True) is None
    elif isinstance(value, str) or finite or type(value) is int:
        assert record.words('a', notes, optional) == tidy(str(value))
        assert bool(notes) == (not isinstance(value, str) or tidy(value) != value)
    else:
        with pytest.raises(DatasetError, match='^x.a: expected'):
            record.words('a', notes, optional)


@given(st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1)).map(lambda time: time.replace(second=0, microsecond=0)))
def test_a_time_in_its_format(time):
    text = f'{time.year}/{time.month:02}/{time.day:02} (Mon) {time.hour:02}:{time.minute:02}'
    assert Record({'a': text}, 'x').time('a', text, '%Y/%m/%d %H:%M') == time


@given(st.text(max_size=20) | st.text('0123456789/.:, ()Tue', max_size=24) | st.sampled_from(['04.25.2024, 10:44:32', '31.06.2024, 10:44:32']))
@settings(max_examples=150, deadline=None)
def test_any_text_as_a_time(text):
    for formats in ((), ('%d.%m.%Y, %H:%M:%S',)):
        try:
            assert isinstance(Record({'a': text}, 'x').time('a', 'so', *formats), datetime)
        except DatasetError as error:
            assert str(error).startswith("x.a: expected a time like 'so', got")


@given(st.dictionaries(st.from_regex(r'session_[0-9]{1,2}(_date_time)?', fullmatch=True), st.sampled_from([[], [1]]), max_size=6))
def test_sessions_by_number(fields):
    numbers = {int(key.split('_')[1]) for key in fields if not key.split('_')[1].startswith('0')}
    held = sorted(number for number in numbers if fields.get(f'session_{number}'))
    if held:
        found, notes = numbered_sessions(Record(fields, 'x'))
        assert found == held and bool(notes) == (len(held) < len(numbers))
    else:
        with pytest.raises(DatasetError, match='^x: expected session_1'):
            numbered_sessions(Record(fields, 'x'))


def test_a_conversation_error_gets_its_place():
    with pytest.raises(DatasetError, match='^small.json: Turn.id: expected a name'), placed('small.json'):
        Turn('', 'Ana', 'Hello.')
