"""What all loaders read with: JSON in pieces against JSON as a whole, typed values and their places, times."""

import json
from datetime import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memnb.evaluation.datasets import iter_json
from memnb.evaluation.datasets import (
    clock,
    DatasetError,
    Filled,
    Line,
    numbered_sessions,
    placed,
    read_json,
    read_records,
    tidy,
    validate,
    Words,
)
from memnb.core.conversation import Turn

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20),
    lambda inside: st.lists(inside, max_size=4) | st.dictionaries(st.text(max_size=5), inside, max_size=4),
    max_leaves=12,
)


@pytest.fixture(scope='module')
def path(tmp_path_factory):
    return tmp_path_factory.mktemp('records') / 'list.json'


@given(JSON, st.booleans(), st.sampled_from([None, 1, '\t']))
@settings(max_examples=200)
def test_members_are_those_of_the_whole(path, value, ascii_only, indent):
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    path.write_text(text, encoding='utf-8')
    assert list(iter_json(path)) == (value if isinstance(value, list) else [value])
    assert read_json(path) == value


@given(st.lists(JSON, min_size=1, max_size=4), st.data())
@settings(max_examples=150)
def test_a_file_that_ends_in_the_middle_is_refused(path, value, data):
    text = json.dumps(value)
    path.write_text(text[: data.draw(st.integers(0, len(text) - 1))], encoding='utf-8')
    for read in (read_json, lambda path: list(iter_json(path))):
        with pytest.raises(DatasetError, match='list.json: not JSON'):
            read(path)


@pytest.mark.parametrize(
    'content, words',
    [(b'["\xe9"]', 'list.json: not'), (b'[1] 2', 'not JSON'), (b'', 'not JSON'), (b'[1, oops]', 'not JSON')],
)
def test_what_is_no_json_is_refused_by_both(path, content, words):
    path.write_bytes(content)
    for read in (read_json, lambda path: list(iter_json(path))):
        with pytest.raises(DatasetError, match=words):
            read(path)


def test_files_that_cannot_be_opened(tmp_path):
    for place in (tmp_path / 'none.json', tmp_path, 'a\0b'):
        for read in (read_json, lambda path: read_records(path, dict), lambda path: list(iter_json(path))):
            with pytest.raises(DatasetError):
                read(place)


def test_records_of_a_list_and_of_lines(path):
    for text in ('[{"a": "1"}, {"a": "2"}]', '{"a": "1"}\n\n{"a": "2"}\r\n', '\ufeff[{"a": "1"}, {"a": "2"}]'):
        path.write_text(text, encoding='utf-8', newline='')
        assert read_records(path, dict[str, str]) == [{'a': '1'}, {'a': '2'}]
    for text, words in (
        ('{"a": "1"}\n{"a": ', 'line 2: not JSON'),
        ('{"a": "1"}\n{"a": 2}', r'line 2\.a: .*, got 2'),
        ('[{"a": "1"}, {"a": 2}]', r'list.json\[1\]\.a: .*, got 2'),
    ):
        path.write_text(text)
        with pytest.raises(DatasetError, match=words):
            read_records(path, dict[str, str])


@given(st.text(max_size=30))
def test_tidying_twice_is_tidying_once(text):
    assert tidy(tidy(text)) == tidy(text) == ' '.join(tidy(text).split())


@given(st.text(max_size=8) | st.integers() | st.floats() | st.none() | st.booleans())
def test_words_are_tidy_text_or_a_finite_number(value):
    number = isinstance(value, float) and value == value and abs(value) != float('inf') or type(value) is int
    for form, fits in (
        (Words, isinstance(value, str) or number),
        (Line, isinstance(value, str)),
        (Filled, number or isinstance(value, str) and bool(tidy(value))),
    ):
        if fits:
            assert validate(form, value, 'x') == tidy(str(value))
        else:
            with pytest.raises(DatasetError, match='^x: '):
                validate(form, value, 'x')


@given(
    st.text(max_size=20)
    | st.text('0123456789/.:, ()Tue', max_size=24)
    | st.sampled_from(['04.25.2024', '31.06.2024'])
    | st.dates().map('{0.day:02}.{0.month:02}.{0.year:04}'.format)
    | st.integers()
)
@settings(max_examples=150)
def test_any_value_as_a_time(text):
    try:
        assert isinstance(
            validate(clock('so', lambda text: datetime.strptime(text, '%d.%m.%Y')), text, 'x.a'), datetime
        )
    except DatasetError as error:
        assert str(error).startswith("x.a: expected a time like 'so', got")


@given(st.dictionaries(st.from_regex(r'session_[0-9]{1,2}', fullmatch=True), st.booleans(), max_size=6))
def test_sessions_by_number(fields):
    said = {'dia_id': 'a', 'speaker': 'Ana', 'text': 'Hello.'}
    talk = {name: [said] * full for name, full in fields.items()}
    talk |= {f'{name}_date_time': datetime(2024, 5, 4) for name in fields}
    held = sorted(int(name.split('_')[1]) for name, full in fields.items() if full and '_0' not in name)
    if held:
        assert [session.id for session in numbered_sessions(talk, datetime, 'x')] == [f'D{number}' for number in held]
    else:
        with pytest.raises(DatasetError, match='^x: expected session_1'):
            numbered_sessions(talk, datetime, 'x')


def test_a_conversation_error_gets_its_place():
    with pytest.raises(DatasetError, match='^small.json: Turn.id: expected a name'), placed('small.json'):
        Turn('', 'Ana', 'Hello.')
