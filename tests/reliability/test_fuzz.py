"""Whatever reads a file or takes a text from outside: it answers, or it raises an error that somebody meant to raise.

Every file that the package writes or reads is damaged, and every function that takes a text is given hostile ones. An error is
typed where its class is the package's, or where a `raise` of the package made it. MEMNB_EFFORT=100 looks longer."""

import contextlib
import io
import json
import linecache
import shutil
import sqlite3
from datetime import date, datetime
from pathlib import Path

import pytest
from hypothesis import example, given, HealthCheck, settings
from hypothesis import strategies as st

import memnb
from damage import JSON, spots
from fakes import Replies
from grids import grid
from memnb import cli
from memnb.adapters.mcp_server import MemoryTools
from memnb.adapters.turn_store import TurnStore
from memnb.core.conversation import Conversation, Session, Turn
from memnb.core.models import RecordedLM
from memnb.core.replies import read_reply
from memnb.core.roles import AnswerReply, Role, RuleLM
from memnb.core.text import read_line, sentences, stems, tokenize, with_dates
from memnb.core.time import find_times, parse_date, parse_datetime
from memnb.core.trace import Trace
from memnb.evaluation.datasets import data_path, load_locomo
from memnb.evaluation.metrics import exact_date, f1_locomo, f1_remem
from memnb.evaluation.registry import load_dataset, METHODS
from memnb.evaluation.report import render_page, RunFolder
from memnb.memma.bank import MemoryBank
from memnb.mragent.graph import CueTagGraph
from memnb.remem.graph import GistGraph
from memnb.views.traces import trace_html, trace_text
from memnb.rules.text import keywords, requirements

PACKAGE = str(Path(memnb.__file__).parent)
ROLE = Role('fuzz.answer', 'Answer.', 'Question: {question}', AnswerReply)
SLOW = [HealthCheck.function_scoped_fixture, HealthCheck.data_too_large]
BREAKS = '\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029'
SCRAPS = [
    'D1:2',
    '(D1:1) Ada:',
    '# Instructions',
    'yesterday',
    'the week before',
    '29 February 2023',
    '0000-00-00',
    '1e999',
    '-',
    '{',
    '[[',
    '"',
    '\\',
    '%s',
    '{question}',
    '<script>',
    '&amp;',
    '=1+1',
    '🦊',
    '\ud83d',
    '\0',
    '\x1b[31m',
    'Ω',
    '٣',
    'two hundred',
    "O'Neil",
    '...',
    'None',
    'null',
    '99999999999999999999',
]
hostile = st.lists(st.sampled_from(SCRAPS + list(BREAKS)) | st.text(max_size=8), max_size=8).map(' '.join)


def meant(error):
    """Is the error one of the package's own classes, or raised by a `raise` of the package?"""
    if type(error).__module__.startswith('memnb'):
        return True
    trace = error.__traceback__
    while trace.tb_next:
        trace = trace.tb_next
    line = linecache.getline(trace.tb_frame.f_code.co_filename, trace.tb_lineno).strip()
    return trace.tb_frame.f_code.co_filename.startswith(PACKAGE) and line.startswith('raise ') and bool(str(error))


@contextlib.contextmanager
def typed_errors():
    """A typed error ends the block quietly; any other is a failure."""
    try:
        yield
    except Exception as error:
        if not meant(error):
            raise


# ------------------------------------------------------------------ files

STORY = Conversation.of(
    'story',
    [
        (
            datetime(2024, 5, 8, 18),
            [('Tobin', 'I had my first concertina lesson yesterday.'), ('Zofia', 'Who is the teacher?')],
        ),
        (
            datetime(2024, 6, 27, 20),
            [('Zofia', 'I went canoeing with my niece.'), ('Tobin', 'My teacher is called Wanda.')],
        ),
    ],
)


def write_bank(path):
    with MemoryBank(path) as bank:
        for turn in STORY.turns:
            entry = bank.add(turn.text, sources=(turn.id,), when=turn.time)
        bank.update(entry.id, 'The teacher is called Wanda Nowak.')


def read_bank(path):
    with MemoryBank(path) as bank:
        return [bank.history(entry.id) for entry in bank], bank.search('teacher', 3), bank.undo('so')


def write_turns(path):
    store = TurnStore(path)
    for turn in STORY.turns:
        store.remember(turn.text, turn.speaker, turn.time)
    store.close()


def read_turns(path):
    with contextlib.closing(TurnStore(path)) as store:
        return store.search('teacher', 3), store.conversation(), store.forget(['T1'])


def write_record(path):
    lm = RecordedLM(Replies(**{'fuzz.answer': [AnswerReply(answer='Wanda')]}), path)
    for question in ('Who?', 'When?'):
        lm.ask(ROLE, question=question)


def read_record(path):
    lm = RecordedLM(Replies(**{'fuzz.answer': [AnswerReply(answer='Wanda')]}), path)
    return [lm.ask(ROLE, question=question) for question in ('Who?', 'When?', 'Why?')]


def write_graph(kind):
    return lambda path: kind.of(STORY, RuleLM()).save(path)


def read_graph(kind):
    def read(path):
        graph = kind.load(path, lm=RuleLM())
        found = graph.search('teacher', 3)
        graph.forget('D1')
        graph.save(path)
        return found

    return read


def write_rows(path):
    grid(talks=1, questions=2).run(path.parent / 'run')
    shutil.copy(path.parent / 'run' / 'rows.sqlite', path)


def read_rows(path):
    with contextlib.closing(RunFolder(path.parent).store):
        return list(render_page(RunFolder(path.parent))), grid(talks=1, questions=2).run(path.parent, 1, budget=10)


def write_trace(path):
    trace = METHODS['memr3'].make(METHODS['memr3'].memory.build(STORY, RuleLM()), STORY).ask('Who is the teacher?')
    path.write_text(trace.to_json(), encoding='utf-8')


def read_trace(path):
    trace = Trace.from_json(path.read_bytes())
    return trace_text(trace), trace_html(trace), trace.to_json()


FILES = {
    'bank.sqlite': (write_bank, read_bank),
    'turns.sqlite': (write_turns, read_turns),
    'record.sqlite': (write_record, read_record),
    'gists.sqlite': (write_graph(GistGraph), read_graph(GistGraph)),
    'cues.sqlite': (write_graph(CueTagGraph), read_graph(CueTagGraph)),
    'rows.sqlite': (write_rows, read_rows),
    'trace.json': (write_trace, read_trace),
    'conversation.json': (
        lambda path: path.write_text(STORY.to_json()),
        lambda path: Conversation.from_json(path.read_text(encoding='utf-8', errors='surrogateescape')),
    ),
    'sample.json': (lambda path: shutil.copy(data_path('sample.json'), path), load_locomo),
}


@pytest.fixture(scope='module')
def whole(tmp_path_factory):
    """A folder with one good file of each kind."""
    folder = tmp_path_factory.mktemp('whole')
    for name, (write, _) in FILES.items():
        write(folder / name)
    return folder


def damaged(data, draw):
    """The bytes after one to three faults."""
    data = bytearray(data)
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, max(0, len(data) - 1)))
        fault = draw(st.sampled_from(['flip', 'cut', 'zero', 'insert', 'empty', 'double']))
        if fault == 'flip' and data:
            data[place] ^= draw(st.integers(1, 255))
        elif fault == 'cut':
            del data[place:]
        elif fault == 'zero':
            data[place : place + 64] = bytes(len(data[place : place + 64]))
        elif fault == 'insert':
            data[place:place] = draw(st.binary(min_size=1, max_size=20))
        elif fault == 'double':
            data += data[place:]
        elif fault == 'empty':
            data.clear()
    return bytes(data)


@pytest.mark.parametrize('name', FILES)
@settings(suppress_health_check=SLOW)
@given(data=st.data())
def test_a_damaged_file_is_read_or_refused(whole, tmp_path, name, data):
    path = tmp_path / name
    for old in tmp_path.iterdir():
        old.unlink()
    path.write_bytes(damaged((whole / name).read_bytes(), data.draw))
    with typed_errors():
        FILES[name][1](path)


@pytest.mark.parametrize('name', [name for name in FILES if name.endswith('.json')])
@settings(suppress_health_check=SLOW)
@given(data=st.data())
def test_json_with_another_value_somewhere_is_read_or_refused(whole, tmp_path, name, data):
    value = json.loads((whole / name).read_text(encoding='utf-8'))
    *way, last = data.draw(st.sampled_from(sorted(spots(value), key=repr)))
    node = value
    for step in way:
        node = node[step]
    node[last] = data.draw(JSON)
    (tmp_path / name).write_text(json.dumps(value))
    with typed_errors():
        FILES[name][1](tmp_path / name)


@pytest.mark.parametrize('name', [name for name in FILES if name.endswith('.sqlite')])
@settings(suppress_health_check=SLOW)
@given(data=st.data())
def test_a_row_with_another_value_is_read_or_refused(whole, tmp_path, name, data):
    path = tmp_path / name
    for old in tmp_path.iterdir():
        old.unlink()
    shutil.copy(whole / name, path)
    with contextlib.closing(sqlite3.connect(path)) as file, file:
        tables = [
            table
            for (table,) in file.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY 1"
            )
        ]
        table = data.draw(st.sampled_from(tables))
        column = data.draw(st.sampled_from([row[1] for row in file.execute(f'PRAGMA table_info("{table}")')]))
        value = data.draw(
            st.none()
            | st.integers(-9, 9)
            | st.floats()
            | st.binary(max_size=9)
            | st.sampled_from(['', '[]', '{}', 'null', '[' * 9000, '"x"', '9' * 5000])
        )
        with contextlib.suppress(sqlite3.IntegrityError):  # some columns take only what fits
            file.execute(f'UPDATE "{table}" SET "{column}" = ?', [value])
    with typed_errors():
        FILES[name][1](path)


@pytest.mark.parametrize('reader', sorted(FILES))
@pytest.mark.parametrize('foreign', sorted(FILES))
def test_a_file_of_another_kind_is_refused_and_left_alone(whole, tmp_path, reader, foreign):
    if reader == foreign or {reader, foreign} <= {'conversation.json', 'trace.json', 'sample.json'}:
        return
    path = tmp_path / reader
    shutil.copy(whole / foreign, path)
    with pytest.raises(Exception) as raised:
        FILES[reader][1](path)
    assert meant(raised.value), repr(raised.value)
    assert path.read_bytes() == (whole / foreign).read_bytes()


# ------------------------------------------------------------------ texts

TEXTS = {
    'tokenize': tokenize,
    'stems': stems,
    'sentences': sentences,
    'keywords': keywords,
    'parse_date': parse_date,
    'parse_datetime': parse_datetime,
    'find_times': lambda text: find_times(text, date(2024, 5, 8)),
    'requirements': requirements,
    'read_line': read_line,
    'with_dates': lambda text: with_dates(text, date(2024, 5, 8)),
    'read_reply': lambda text: read_reply(text, AnswerReply),
    'f1_locomo': lambda text: f1_locomo(text, text),
    'f1_remem': lambda text: f1_remem(text, 'x'),
    'exact_date': lambda text: exact_date('8 May 2024', text),
    'from_json': Trace.from_json,
    'conversation': Conversation.from_json,
    'load_dataset': lambda text: load_dataset(text or '.', 'jsonl'),
}


@pytest.mark.parametrize('name', TEXTS)
@given(text=hostile)
@example('the week before ' * 50)
@example('A' * 2000)
def test_a_function_takes_any_text(name, text):
    with typed_errors():
        TEXTS[name](text)


MEMORIES = {method.memory.name: method.memory for method in METHODS.values()}


@settings(suppress_health_check=SLOW, max_examples=5)
@given(
    texts=st.lists(hostile, min_size=1, max_size=4),
    speakers=st.lists(hostile, min_size=1, max_size=2),
    asked=hostile.filter(str.strip),
)
def test_every_method_answers_over_any_conversation(texts, speakers, asked):
    turns = [
        Turn(f'D1:{place}', speakers[place % len(speakers)], text, datetime(2024, 5, 8))
        for place, text in enumerate(texts, 1)
    ]
    conversation = Conversation('any', [Session('D1', turns, datetime(2024, 5, 8))])
    built = {name: memory.build(conversation, RuleLM()) for name, memory in MEMORIES.items()}
    for method in METHODS.values():
        trace = method.make(built[method.memory.name], conversation).ask(asked)
        assert trace.error is None and isinstance(trace.answer, str), method.name
        assert set(trace.evidence) <= {turn.id for turn in turns}
        assert Trace.from_json(trace.to_json()) == trace
        trace_text(trace), trace_html(trace)


@settings(suppress_health_check=SLOW)
@given(
    text=hostile, speaker=hostile, time=hostile | st.just('2024-05-08'), query=hostile, during=hostile | st.just('2024')
)
def test_the_tools_of_the_server_take_any_text(tmp_path_factory, text, speaker, time, query, during):
    with contextlib.closing(TurnStore(tmp_path_factory.mktemp('tools') / 't.sqlite')) as store:
        tools = MemoryTools(store)
        for use in (
            lambda: tools.remember(text, speaker, time),
            lambda: tools.search(query, 3, during),
            lambda: tools.ask(query),
            lambda: tools.show_trace(query),
            lambda: tools.forget([query]),
            lambda: tools.forget(session=during),
        ):
            with typed_errors():
                json.dumps(use())


@given(
    words=st.lists(
        st.sampled_from(
            [
                'ask',
                'bench',
                'report',
                'demo',
                'data',
                'paper',
                '--json',
                '--data',
                '--methods',
                'rag',
                '--questions',
                '0',
                '-1',
                'x',
            ]
        )
        | hostile.filter(lambda text: '\0' not in text),
        min_size=1,
        max_size=4,
    )
)
@settings(suppress_health_check=SLOW)
def test_the_command_line_says_what_it_expected(words, tmp_path_factory):
    if words[0] in ('demo', 'paper', 'bench', 'serve', 'lab'):  # these would begin to work
        words = [words[0], '--no-such-option', *words[1:]]
    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.chdir(tmp_path_factory.mktemp('cli')),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            code = cli.main(words)
        except SystemExit as ended:
            code = ended.code
    assert code in (None, 0) or (code == 2 and err.getvalue().strip())
    assert 'Traceback' not in err.getvalue()
