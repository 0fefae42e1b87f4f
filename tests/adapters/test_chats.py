"""Conversations of one's own: the kinds of files, what is damaged, odd dates, and that what was written is read back."""

import json
import shutil
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from damage import JSON, spots
from memnb import as_conversation, load_conversation, MemoryBank
from memnb.core.conversation import ChatError, Conversation, ConversationError, Turn
from memnb.core.messages import GAP
from memnb.evaluation.datasets import DatasetError

CHATS = Path(__file__).parent.parent / 'chats'
TALK = [
    ('Ada Lee', 'I sold the boat to my sister.', datetime(2024, 5, 13, 21, 15)),
    ('Ben', 'What will you do without it?', datetime(2024, 5, 13, 21, 16)),
    ('Ada Lee', 'Walk.\nAnd swim in the café’s pool.', datetime(2024, 5, 14, 7, 2)),
]
ROLES = {'Ada Lee': 'user', 'Ben': 'assistant'}
NOTES = {
    'messages.json': '1 message without words left out',
    'telegram.json': 'left out: notices of the program (1)',
    'chatgpt.json': 'left out: notices of the program (2); 1 message without words left out',
    'slack/general/2024-05-13.json': 'left out: notices of the program (1)',
    'slack/general': 'left out: notices of the program (1)',
    'android.txt': 'left out: notices of the program (2), media files and deleted messages (2)',
    'iphone.txt': 'left out: media files and deleted messages (2)',
    'plain.txt': 'left out: lines before the first message (1)',
}
FILES = [
    'locomo.json',
    'turns.jsonl',
    'kept.json',
    'messages.json',
    'messages.jsonl',
    'telegram.json',
    'chatgpt.json',
    'slack/general',
    'slack/general/2024-05-13.json',
    'android.txt',
    'iphone.txt',
    'plain.txt',
]
IN_JSON = [
    'locomo.json',
    'kept.json',
    'messages.json',
    'telegram.json',
    'chatgpt.json',
    'slack/general/2024-05-14.json',
]
TYPED = (ChatError, DatasetError, ConversationError)


def rows(conversation):
    return [(turn.speaker, turn.text, turn.time) for turn in conversation.turns]


# ------------------------------------------------------------------ the kinds of files


@pytest.mark.parametrize('name', FILES)
def test_every_kind_of_file_is_read(name):
    found = load_conversation(CHATS / name, name='Kites' if name == 'chatgpt.json' else None)
    expected = TALK[:2] if name.endswith('13.json') else TALK
    if name == 'chatgpt.json':
        expected = [(ROLES[speaker], text, time) for speaker, text, time in expected]
    if name == 'locomo.json':  # its loader makes a single line of a text, and its times are those of sessions
        expected = [
            (speaker, ' '.join(text.split()), time.replace(minute=15) if time.hour > 20 else time)
            for speaker, text, time in expected
        ]
    assert [(speaker, text, time.replace(microsecond=0)) for speaker, text, time in rows(found)] == expected
    assert len({found.session_of(turn.id).id for turn in found.turns}) == (
        2 if len(expected) == 3 and name != 'chatgpt.json' else 1
    )
    assert '; '.join(found.notes) == NOTES.get(name, '')
    assert Conversation.from_json(found.to_json()) == found


@pytest.mark.parametrize('name', [name for name in FILES if not name.startswith('slack')])
def test_the_suffix_says_nothing(name, tmp_path):
    for suffix in ('txt', 'json', 'csv'):
        shutil.copy(CHATS / name, tmp_path / f'chat.{suffix}')
        assert rows(load_conversation(tmp_path / f'chat.{suffix}')) == rows(load_conversation(CHATS / name))


def test_a_file_may_hold_several_chats(tmp_path):
    both = load_conversation(CHATS / 'chatgpt.json')
    assert [session.id for session in both.sessions] == ['D1', 'D2'] and both.turns[
        0
    ].text == 'What is a kite?'  # the oldest first
    with pytest.raises(ChatError, match="chatgpt.json: no conversation 'Cars'; it holds Kites, Older"):
        load_conversation(CHATS / 'chatgpt.json', name='Cars')
    chats = json.loads((CHATS / 'chatgpt.json').read_text('utf-8'))
    path = tmp_path / 'ids.json'
    path.write_text(
        json.dumps(
            [{**chat, key: f'6a-{number}'} for number, (chat, key) in enumerate(zip(chats, ('id', 'conversation_id')))]
        )
    )
    titles = [chat['title'] for chat in chats]
    assert [rows(load_conversation(path, name=f'6a-{number}')) for number in (0, 1)] == [
        rows(load_conversation(path, name=title)) for title in titles
    ]
    path = tmp_path / 'two.jsonl'
    path.write_text(
        '\n'.join(
            (CHATS / 'turns.jsonl').read_text('utf-8').replace('"turns"', f'"{name}"') for name in ('north', 'south')
        ),
        'utf-8',
    )
    with pytest.raises(ChatError, match='say which with name=; it holds north, south'):
        load_conversation(path)
    assert load_conversation(path, name='south').id == 'south'


def test_a_table_and_a_database_are_said_to_be_such(tmp_path):
    for name in ('talk.csv', 'talk.tsv', 'talk.xlsx', 'talk.parquet'):
        path = tmp_path / name
        path.write_bytes(
            b'name,text,date\nAda,hi,2024-05-08\n' if 'sv' in name else b'PK\3\4\0' if 'x' in name else b'PAR1\0'
        )
        with pytest.raises(
            ChatError, match=f'{name}: a table: read it with pandas and give the frame to as_conversation'
        ):
            load_conversation(path)
    with MemoryBank(tmp_path / 'my.db'), pytest.raises(ChatError, match='my.db: a database, and no chat.*--memory'):
        load_conversation(tmp_path / 'my.db')


CASES = [json.loads(line) for line in (CHATS / 'cases.jsonl').read_text('utf-8').splitlines()]


@pytest.mark.parametrize('case', CASES, ids=[case['name'] for case in CASES])
def test_what_programs_write_is_read_or_refused_by_name(case, tmp_path):
    """Each line of cases.jsonl: a file as a program writes it, and its turns and notes, or the refusal."""
    (tmp_path / 'chat').write_text(case['text'], 'utf-8')
    if case['error']:
        with pytest.raises(ChatError, match=case['error']):
            load_conversation(tmp_path / 'chat', dates=case['dates'])
    else:
        read = load_conversation(tmp_path / 'chat', dates=case['dates'])
        turns = [[turn.time and turn.time.isoformat(), turn.speaker, turn.text] for turn in read.turns]
        assert (turns, '; '.join(read.notes)) == (case['turns'], case['notes'])


# ------------------------------------------------------------------ damage


def broken(name, damage):
    data = (CHATS / name).read_bytes()
    half, latin = (
        data[: len(data) // 2],
        data.decode('utf-8').replace('’', "'").replace('\u202f', ' ').replace('\u200e', '').encode('latin-1'),
    )
    return {
        'empty': b' \n',
        'binary': b'\x00\x01\xfe' + data,
        'half': half,
        'latin-1': latin,
        'zip': b'PK\x03\x04' + data,
        'no names': b'once upon a time\nthere was nobody',
        'no dates': data.replace(b'/05/', b'/55/').replace(b'5/1', b'25/31'),
        'notices': data.replace(b': ', b' - ').replace(b':\r', b'\r'),
        'numbers': b'[{"role": "user", "content": "Hi"}, 5]',
        'type': data.replace(b'"text": "', b'"text": true, "x": "')
        .replace(b'"content": "', b'"content": true, "x": "')
        .replace(b'"parent": "', b'"parent": 5, "x": "'),
        'time': data.replace(b'"ts": "', b'"ts": "soon ')
        .replace(b'"date": "', b'"date": "soon')
        .replace(b'2024-05-1', b'2024-55-1')
        .replace(b'"timestamp": 1', b'"timestamp": "a", "x": 1')
        .replace(b'"create_time": 1', b'"create_time": "a", "x": 1')
        .replace(b'May, 2024', b'soon'),
    }[damage]


DAMAGES = [
    (name, damage)
    for name in FILES
    if name != 'slack/general' and not name.endswith('.txt')
    for damage in ('empty', 'binary', 'half', 'type', 'time', 'latin-1')
    if (name, damage)
    not in {('slack/general/2024-05-13.json', 'latin-1'), ('chatgpt.json', 'latin-1'), ('kept.json', 'latin-1')}
]
DAMAGES += [
    (name, damage)
    for name in ('android.txt', 'iphone.txt', 'plain.txt')
    for damage in ('empty', 'binary', 'latin-1', 'zip', 'no names')
]
DAMAGES += [('android.txt', 'notices'), ('messages.json', 'numbers')]


@pytest.mark.parametrize('name, damage', DAMAGES)
def test_a_damaged_file_is_said_by_name(name, damage, tmp_path):
    path = tmp_path / 'damaged.chat'
    path.write_bytes(broken(name, damage))
    with pytest.raises(TYPED, match='damaged.chat'):
        load_conversation(path)


@pytest.mark.parametrize(
    'path, said',
    [
        (__file__, r'such as .* "\[3 May 2024\] Ada: Hello"'),
        ('nowhere.txt', 'nowhere.txt: cannot be opened'),
        ('a\0b', 'cannot be opened'),
        ('a' * 5000, 'cannot be opened'),
    ],
)
def test_a_path_that_cannot_be_opened_is_said(path, said):
    with pytest.raises(ChatError, match=said):
        load_conversation(path)


def test_a_damaged_folder_is_said_by_name(tmp_path):
    folder = tmp_path / 'general'
    folder.mkdir()
    with pytest.raises(ChatError, match='general: expected the folder of a Slack channel'):
        load_conversation(folder)
    for text, said in (
        ('[{"ts"', 'not JSON'),
        ('{"a": 1}', 'Input should be a valid list'),
        ('[]', 'expected the folder of a Slack channel'),
    ):
        (folder / '2024-05-13.json').write_text(text)
        with pytest.raises(TYPED, match=f'general.*{said}'):
            load_conversation(folder)
    (folder / '2024-05-13.json').write_text('[{"ts": "1715634900.1", "user": "U1", "text": "hi"}]')
    (folder / 'users.json').write_text('[5]')
    with pytest.raises(DatasetError, match='users.json'):
        load_conversation(folder)


@pytest.mark.parametrize('name', IN_JSON)
def test_json_of_any_types_is_read_or_refused(name, tmp_path):
    value = json.loads((CHATS / name).read_text('utf-8'))
    path = tmp_path / 'fuzzed.json'

    @given(st.sampled_from(list(spots(value))), JSON)
    def look(spot, other):
        changed = json.loads(json.dumps(value))
        at = changed
        for key in spot[:-1]:
            at = at[key]
        at[spot[-1]] = other
        path.write_text(json.dumps(changed))
        try:
            assert isinstance(load_conversation(path), Conversation)
        except TYPED as error:
            assert 'fuzzed.json' in str(error)

    look()


@given(
    st.lists(
        st.sampled_from(
            [
                'Ada: hi',
                '03/04/2024',
                '[10:15]',
                '13/05/2024, 21:15 - ',
                '[5/13/24, 9:15 PM] ',
                ': ',
                '\n',
                '\u200e',
                '{"',
                '[[',
                '<x y>',
                '99',
                '\u2028',
            ]
        ),
        max_size=12,
    )
)
def test_text_of_any_pieces_is_read_or_refused(tmp_path_factory, pieces):
    path = tmp_path_factory.getbasetemp() / 'pieces.txt'
    path.write_text(''.join(pieces), 'utf-8')
    try:
        assert load_conversation(path, dates=None).turns
    except TYPED as error:
        assert 'pieces.txt' in str(error)


# ------------------------------------------------------------------ dates

DATES = {
    'dmy': ['%d/%m/%Y', '%d.%m.%y', '%d-%m-%Y', '%-d/%-m/%y', '%-d.%-m.%Y'],
    'mdy': ['%m/%d/%y', '%-m/%-d/%Y'],
    'ymd': ['%Y-%m-%d', '%Y/%m/%d', '%Y. %m. %d.', '%Y년 %-m월 %-d일'],
}
CLOCKS = [
    ', %H:%M',
    ', %H:%M:%S',
    ' %H.%M',
    ' klo %-H.%M',
    ', %-I:%M %p',
    ', %-I:%M:%S\u202f%p',
    ' à %H:%M',
    ' um %H:%M Uhr',
    ' г., %H:%M ч.',
]
FRAMES = [
    '{stamp} - {name}: {text}\n',
    '[{stamp}] {name}: {text}\n',
    '\u200e[{stamp}] {name}: {text}\r\n',
    '{stamp}, {name} : {text}\n',
]


def odd_messages():
    start = datetime(2022, 12, 27, 0, 5, 59)
    return [
        (('Ada', 'José', '+44 7700 900123')[n % 3], f'message {n}', start + n * timedelta(days=3, hours=7, minutes=11))
        for n in range(100)
    ]


@pytest.mark.parametrize('order', DATES)
@pytest.mark.parametrize('clock', CLOCKS)
def test_a_hundred_odd_dates_are_read_exactly(order, clock, tmp_path):
    for day in DATES[order]:
        for frame in FRAMES:
            path = tmp_path / 'odd.txt'
            path.write_text(
                ''.join(
                    frame.format(stamp=time.strftime(day + clock), name=name, text=text)
                    for name, text, time in odd_messages()
                ),
                'utf-8',
                newline='',
            )
            expected = [
                (name, text, time if '%S' in clock else time.replace(second=0)) for name, text, time in odd_messages()
            ]
            assert rows(load_conversation(path)) == expected, (day, clock, frame)


NAMES = st.from_regex(r'[A-Z][a-zé]{1,8}( [A-Z][a-z]{1,8})?', fullmatch=True)
TEXTS = (
    st.text('ab cé:,-🙂\n/.]5', min_size=1, max_size=20)
    .map(str.strip)
    .filter(lambda text: text and not any(line[:1].isdigit() for line in text.split('\n')))
)
TIMES = st.datetimes(datetime(2010, 1, 1), datetime(2030, 1, 1)).map(lambda time: time.replace(second=0, microsecond=0))


@given(
    st.lists(st.tuples(NAMES, TEXTS, TIMES), min_size=1, max_size=8),
    st.sampled_from(['%d/%m/%y', '%m/%d/%Y', '%Y-%m-%d', '%d.%m.%Y']),
    st.sampled_from(FRAMES[:2]),
)
def test_what_whatsapp_writes_is_read_back(tmp_path_factory, messages, day, frame):
    messages.sort(key=lambda one: one[2])
    path = tmp_path_factory.getbasetemp() / 'back.txt'
    path.write_text(
        ''.join(
            frame.format(stamp=time.strftime(day + ', %H:%M'), name=name, text=text) for name, text, time in messages
        ),
        'utf-8',
    )
    order = ''.join(letter for letter in day.lower() if letter in 'dmy')
    assert rows(load_conversation(path, dates=order)) == messages
    try:
        assert rows(load_conversation(path)) == messages
    except ChatError as error:
        assert 'say which with dates=' in str(error)


@given(st.lists(st.tuples(NAMES, TEXTS, st.none() | TIMES), max_size=6), st.booleans())
def test_messages_survive_json(messages, keep_ids):
    messages.sort(key=lambda one: one[2] or datetime.min)
    turns = [Turn(f'{keep_ids and "id" or ""}D1:{n}', *one) for n, one in enumerate(messages, 1)]
    records = [
        {'role': one.speaker, 'content': one.text, 'time': one.time and one.time.isoformat(), 'id': one.id}
        for one in turns
    ]
    found = as_conversation(json.loads(json.dumps(records)))
    assert rows(found) == messages and found == as_conversation(turns)
    assert [turn.id for turn in found.turns] == [turn.id for turn in turns]
    assert all(
        later.time - earlier.time <= GAP
        for session in found.sessions
        for earlier, later in zip(session.turns, session.turns[1:])
        if earlier.time and later.time
    )


# ------------------------------------------------------------------ lists


def test_a_data_frame_with_holes_is_read():
    pandas = pytest.importorskip('pandas')
    frame = pandas.DataFrame(
        {
            'Text': ['hi', None, 'yes', 7],
            'Speaker': ['Ada', 'Ben', None, pandas.NA],
            'id': [1, 2, None, 4],
            'Date': [
                pandas.Timestamp('2024-05-08 10:00:00.123456789', tz='Europe/Paris'),
                pandas.NaT,
                None,
                pandas.NaT,
            ],
        }
    )
    found = as_conversation(frame)
    assert rows(found) == [('Ada', 'hi', datetime(2024, 5, 8, 10, 0, 0, 123456)), ('', 'yes', None), ('', '7', None)]
    assert found.notes == ('1 message without words left out',)


@pytest.mark.parametrize(
    'messages',
    [
        5,
        'text',
        b'text',
        {'role': 'user'},
        [5],
        [None],
        [True],
        [b'x'],
        [()],
        [('a', 'b', 'c', 'd')],
        [{'x': 'user'}],
        [{'text': False}],
        [{'text': 'a', 'time': True}],
        [{'text': 'a', 'time': 12.5}],
        [{'text': 'a', 'name': ['Ada']}],
        [{'text': 'a', 'id': {}, 'time': []}, {'text': 'a', 'id': {'a': 1}}],
    ],
)
def test_what_is_no_message_is_a_chat_error(messages):
    with pytest.raises(ChatError, match='expected'):
        as_conversation(messages)


def test_one_note_says_that_seconds_since_1970_stand_among_times_on_another_clock():
    seconds, zoned, bare = 1714557600, '2024-05-01T12:00:00+02:00', '2024-05-01T12:00:00'
    for times, zones in (
        ((seconds, zoned), '+02:00, UTC'),
        ((bare, seconds), 'UTC, none'),
        ((seconds, seconds + 60), ''),
    ):
        notes = as_conversation([{'content': 'Hi.', 'time': time} for time in times]).notes
        in_zones = [note for note in notes if 'zones' in note]
        assert in_zones == ([f'times in several zones ({zones}): each is kept as on its own clock'] if zones else [])
