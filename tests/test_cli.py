"""The command line as a user and as a script meet it: what is printed where, in which colours, and how it ends."""

import hashlib
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from memnb import __version__
from memnb import cli
from memnb.adapters.turn_store import TurnStore
from memnb.core.models import ScriptedLM
from memnb.evaluation.store import RowStore
from memnb.evaluation.datasets import data_path, load_sample
from memnb.core.roles import RuleLM
from memnb.evaluation.registry import MEMORIES, Method, METHODS
from memnb.core.trace import Trace
from servers import KEY, Server, chat

CANOE = 'When did Zofia go canoeing with her niece?'
CLOSED = 'http://127.0.0.1:9/v1'  # the discard port: nothing listens there

SAMPLE = str(data_path('sample.json'))


BUFFERED = {key: value for key, value in os.environ.items() if key != 'PYTHONUNBUFFERED'}  # as at a user's


def memnb(*words, cwd=None, **environment):
    """The finished process of a command."""
    return subprocess.run(
        [sys.executable, '-m', 'memnb.cli', *words],
        capture_output=True,
        cwd=cwd,
        timeout=120,
        env={**BUFFERED, 'PYTHONPATH': os.pathsep.join(sys.path), 'OPENAI_API_KEY': KEY, **environment},
    )


def one_line(process, code, *words):
    """The process ended with this code and said these words in one line on stderr; nothing looks like a traceback."""
    complaint = process.stderr.decode()
    assert process.returncode == code, complaint
    assert complaint.startswith('memnb: ') and complaint.count('\n') == 1 and 'Traceback' not in complaint, complaint
    for word in words:
        assert word in complaint
    assert KEY not in complaint + process.stdout.decode()


@pytest.fixture(scope='module')
def two(tmp_path_factory):
    """A file with two short conversations."""
    [sample] = json.loads(data_path('sample.json').read_text(encoding='utf-8'))
    talk = {
        key: value
        for key, value in sample['conversation'].items()
        if re.fullmatch('speaker_[ab]|session_[12](_date_time)?', key)
    }
    path = tmp_path_factory.mktemp('data') / 'two.json'
    path.write_text(json.dumps([{'sample_id': name, 'conversation': talk, 'qa': []} for name in ('north', 'south')]))
    return path


# ------------------------------------------------------------------ asking


def test_ask_prints_one_object_that_is_the_trace():
    process = memnb('ask', '--json', CANOE)
    assert (process.returncode, process.stderr) == (0, b'')
    answered = json.loads(process.stdout)
    assert list(answered) == [
        'question',
        'method',
        'model',
        'answer',
        'evidence',
        'read',
        'gaps',
        'steps',
        'usage',
        'error',
        'refused',
        'fallback',
        'seconds',
    ]
    assert answered['question'] == CANOE and answered['method'] == 'memr3' and answered['model'] == RuleLM().name
    assert (
        'D8:8' in answered['evidence'] and answered['evidence'][0] in answered['read'] and 0 < answered['seconds'] < 60
    )
    assert Trace.from_json(process.stdout).steps[0].kind == 'search'
    assert process.stdout.count(b'\n') == 1


def test_ask_prints_the_answer_first_and_the_steps_when_told_and_no_colour_into_a_pipe():
    process = memnb('ask', CANOE)
    answer = process.stdout.decode()
    assert process.returncode == 0 and process.stderr == b'' and '\x1b' not in answer
    labels = [line.split()[0] for line in answer.splitlines() if not line.startswith(' ')]
    assert labels == ['answer', 'cost'] and '\n           D8:8 · 27 June 2024 · Zofia: ' in answer
    shown = memnb('ask', '--steps', CANOE).stdout.decode()
    assert shown.splitlines()[:3] == answer.splitlines()[:3]
    for word in ('question   ' + CANOE, 'round 1', 'searched', 'gained', 'decided'):
        assert word in shown and word not in answer


def test_steps_are_shown_as_they_happen_on_a_terminal_alone(monkeypatch, capsys):
    for stderr, words, expected in (
        (Terminal(), [], True),
        (Terminal(), ['--json'], False),
        (Terminal(), ['--steps'], False),
        (io.StringIO(), [], False),
    ):
        monkeypatch.setattr(sys, 'stderr', stderr)
        assert cli.main(['ask', *words, CANOE]) == 0
        assert ('searched' in stderr.getvalue() and 'decided' in stderr.getvalue()) == expected
        assert 'answered' not in stderr.getvalue() and '22 June 2024' in capsys.readouterr().out


@pytest.mark.parametrize(
    'environment, colour', [({}, True), ({'NO_COLOR': '1'}, False), ({'NO_COLOR': ''}, True), ({'TERM': 'dumb'}, False)]
)
def test_a_terminal_may_refuse_colour(environment, colour, monkeypatch):
    monkeypatch.delenv('NO_COLOR', raising=False)
    for name, value in {'TERM': 'xterm', 'COLUMNS': '90', **environment}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, 'stdout', SimpleNamespace(isatty=lambda: True))
    assert cli._style(sys.stdout) == {'color': colour, 'width': 100 if environment.get('TERM') == 'dumb' else 90}
    assert cli._style(None) == {'color': False, 'width': 100}  # closed


def test_a_file_with_several_conversations_wants_a_name(two, capsys):
    one_line(
        memnb('ask', '--data', str(two), 'Who?'), 2, 'two.json', 'say which with --conversation; it holds north, south'
    )
    assert memnb('--version').stdout.decode().strip() == f'memnb {__version__}'
    assert cli.main(['ask', '--data', str(two), '--conversation', 'west', 'Who?']) == 2
    assert "no conversation 'west'; it holds north, south" in capsys.readouterr().err
    assert (
        cli.main(
            ['ask', '--data', str(two), '--conversation', 'south', '--json', 'When was the first concertina lesson?']
        )
        == 0
    )
    assert 'D1:5' in json.loads(capsys.readouterr().out)['read']


@pytest.mark.parametrize(
    'words, expected',
    [
        (['dance'], ['dance', 'demo']),
        (['ask'], ['QUESTION', 'memnb ask --help']),
        (['ask', ' \n'], ['expected a question']),
        (['ask', 'Who?', 'me?'], ['unknown: me?']),
        (['ask', '--zzz=1', 'Who?'], ['unknown: --zzz=1']),
        (['bench', '--data', 'x', '--jsno'], ['unknown: --jsno']),
        (['--versoin', 'ask', 'Who?'], ['unknown: --versoin']),
        (['demo', '--out'], ['--out']),
        (['ask', 'Who?', '--method', 'guess'], ['guess', 'memr3', 'rag']),
        (['ask', 'Who?', '--k', 'many'], ['--k', "got 'many'"]),
        (['ask', 'Who?', '--method', 'memr'], ['the nearest is memr3']),
        (['ask', 'Who?', '--data', 'nowhere.json'], ['nowhere.json', 'cannot be opened']),
        (['ask', 'Who?', '--base-url', CLOSED], ['--base-url needs --model']),
        (['ask', 'Who?', '--model', 'm', '--base-url', 'ftp://x'], ['http']),
        (['ask', 'Who?', '--temperature', 'warm'], ['--temperature', 'number_or_none', "'warm'"]),
        (['ask', 'Who?', '--extra', 'top_k'], ['--extra', 'key_and_json', "'top_k'"]),
        (['ask', 'Who?', '--memory', 'nowhere.db'], ['nowhere.db: no such memory', 'memnb remember']),
        (['ask', 'Who?', '--memory', 'x', '--data', 'y'], ['--memory goes without --data']),
        (['remember', '-'], ['required: --memory']),
        (['paper', 'memr3'], ['--data: expected a file of locomo']),
        (['paper', 'remem', '--tables', 'table13'], ['--data: expected a file of tot']),
        (['paper', 'remem', '--tables', 'table9'], ['expected some of table3', "'table9'"]),
        (['paper', 'remem', '--tables', 'table3,table13'], ['one kind of data']),
        (['bench', '--data', SAMPLE, '--role-model', 'probes'], ['ROLE=MODEL']),
        (['bench', '--data', SAMPLE, '--role-model', 'probs=m'], ["'probs'"]),
        (['bench'], ['required: --data']),
        (['ask', 'Who?', '--data', 'bad\x1b[31m\n.json'], ['bad\u241b[31m .json']),
    ],
)
def test_bad_use_is_one_line_and_2(words, expected, capsys):
    assert cli.main(words) == 2
    printed = capsys.readouterr()
    assert printed.out == '' and printed.err.count('\n') == 1 and printed.err.startswith('memnb: ')
    for word in expected:
        assert word in printed.err


def test_without_a_command_the_help_is_printed(capsys):
    assert cli.main([]) == 0
    printed = capsys.readouterr()
    assert printed.err == '' and 'demo      ask the bundled conversation' in printed.out


def test_what_looks_like_an_option_and_is_none(capsys):
    assert cli.parse(['ask', '--k', '3', '--', '--datas']).question == '--datas'
    assert cli.parse(['ask', '--datas is what?']).question == '--datas is what?'
    assert cli.parse(['ask', '--conv', 'one', 'q']).conversation == 'one'  # argparse's short form
    assert cli.parse(['lab', '--no-browser']).passed_on == ['--no-browser']


# ------------------------------------------------------------------ a chat of one's own

CHATS = Path(__file__).parent / 'chats'


@pytest.mark.parametrize(
    'chat',
    [
        'locomo.json',
        'turns.jsonl',
        'kept.json',
        'messages.json',
        'telegram.json',
        'chatgpt.json',
        'slack/general',
        'android.txt',
        'iphone.txt',
        'plain.txt',
    ],
)
def test_every_kind_of_chat_can_be_asked(chat, capsys):
    assert cli.main(['ask', '--json', '--data', str(CHATS / chat), 'To whom was the boat sold?']) == 0
    printed = capsys.readouterr()
    assert 'sister' in Trace.from_json(printed.out).answer
    assert all(line.startswith(f'memnb: {CHATS / chat}: ') for line in printed.err.splitlines())
    assert ('left out' in printed.err) == (chat not in ('locomo.json', 'turns.jsonl', 'kept.json'))


def test_ambiguous_dates_are_asked_for(tmp_path, capsys):
    chat = tmp_path / 'chat.txt'
    chat.write_text('03/04/2024, 10:00 - Ada: I sold the boat today.\n05/04/2024, 10:00 - Ben: Good.\n')
    assert cli.main(['ask', '--data', str(chat), 'When did Ada sell the boat?']) == 2
    assert (
        capsys.readouterr()
        .err.rstrip()
        .endswith('chat.txt: a date such as 3/4/2024 can be read as dmy or mdy: say which with --dates')
    )
    assert cli.main(['ask', '--json', '--dates', 'mdy', '--data', str(chat), 'When did Ada sell the boat?']) == 0
    assert Trace.from_json(capsys.readouterr().out).answer == '4 March 2024'


def test_a_gap_is_shown_only_where_no_evidence_answers(capsys):
    for question, is_missing in (('When did Ada sell the boat?', False), ('Who is the mayor?', True)):
        assert cli.main(['ask', '--data', str(CHATS / 'plain.txt'), question]) == 0
        rows = capsys.readouterr().out.splitlines()
        assert any(row.startswith(('open', 'missing')) for row in rows) == is_missing


def test_a_chat_is_remembered_once_and_asked_with_every_method(tmp_path, capsys, monkeypatch):
    memory = str(tmp_path / 'my.db')
    for chat, added, told in (
        ('android.txt', 3, ''),
        ('android.txt', 0, ', 3 there already'),
        ('slack/general', 3, ''),
        ('slack/general', 0, ', 3 there already'),
    ):  # the times of Slack have parts of a second
        assert cli.main(['remember', '--memory', memory, str(CHATS / chat)]) == 0
        printed = capsys.readouterr()
        assert printed.out == f'{memory}: {added} turns added{told}\n' and 'left out' in printed.err
    monkeypatch.setattr(sys, 'stdin', SimpleNamespace(buffer=(CHATS / 'plain.txt').open('rb')))
    assert cli.main(['remember', '--memory', memory, '-']) == 0
    assert capsys.readouterr().out == f'{memory}: 0 turns added, 3 there already\n'
    for method in METHODS:
        assert cli.main(['ask', '--json', '--memory', memory, '--method', method, 'To whom was the boat sold?']) == 0
        trace = Trace.from_json(capsys.readouterr().out)
        assert 'sister' in trace.answer and trace.method == method and {'T1', 'T4'} & {*trace.evidence}
        assert {*trace.read} <= {f'T{number}' for number in range(1, 7)}
    assert cli.main(['ask', '--memory', memory, '--k', '1', 'To whom was the boat sold?']) == 0
    assert '· 13 May 2024 · Ada Lee: I sold the boat to my sister.' in capsys.readouterr().out
    with TurnStore(memory)._file.transaction() as file:
        file.execute("UPDATE turns SET text = 'other' WHERE number = 1")
    assert cli.main(['ask', '--memory', memory, 'Who?']) == 2 and 'turn T1 is damaged' in capsys.readouterr().err


def test_a_memory_that_is_another_file_is_refused(tmp_path, capsys):
    (tmp_path / 'my.db').write_text('not a memory, and long enough to be taken for the header of one')
    for words in (
        ['remember', '--memory', str(tmp_path / 'my.db'), str(CHATS / 'plain.txt')],
        ['ask', '--memory', str(tmp_path / 'my.db'), 'Who?'],
    ):
        assert cli.main(words) == 2 and 'my.db' in capsys.readouterr().err.splitlines()[-1]


class Terminal(io.StringIO):
    def isatty(self):
        return True


BARE = """
import sys
from importlib.machinery import PathFinder
class Core(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.split('.')[0] in sys.argv[1].split() else super().find_spec(name, path, target)
sys.meta_path[sys.meta_path.index(PathFinder)] = Core
from memnb.cli import main
sys.exit(main(sys.argv[2:]))
"""
EXTRAS = (
    'scipy pandas matplotlib jinja2 ijson pooch mcp jupyterlab sphinx myst_nb furo latex2mathml fastcore ipywidgets PIL'
)


def test_the_table_of_commands_names_the_extra_that_each_needs(tmp_path):
    readme = (Path(__file__).parents[1] / 'README.md').read_text(encoding='utf-8')
    needs = dict(re.findall(r'^\| `memnb (\w+)[^|]*\|.*\| ?`?(\w*)`? \|$', readme, re.MULTILINE))
    chat = str(CHATS / 'plain.txt')
    commands = {
        'demo': ['--questions', '1'],
        'ask': ['Who?'],
        'remember': ['--memory', 'my.db', chat],
        'serve': ['--mcp', '--memory', 'memories/turns.sqlite'],
        'bench': ['--data', 'sample'],
        'report': ['run'],
        'paper': ['memr3', '--data', 'sample'],
        'fit': ['--data', 'sample'],
        'data': ['get', 'locomo', '--yes'],
        'lab': [],
    }
    assert needs.keys() == commands.keys()
    bench = ['bench', '--data', 'sample', '--methods', 'rag', '--no-full-context', '--categories', 'open-domain']
    assert cli.main([*bench, '--out', str(tmp_path / 'run')]) == 0
    for name, words in commands.items():
        command = [sys.executable, '-c', BARE, EXTRAS, name, *words]
        environment = {**BUFFERED, 'PYTHONPATH': os.pathsep.join(sys.path)}
        process = subprocess.run(command, capture_output=True, cwd=tmp_path, timeout=120, env=environment)
        complaint = process.stderr.decode()
        assert (process.returncode == 2) == bool(needs[name]), (name, complaint)
        assert not needs[name] or f"pip install 'memnb[{needs[name]}]'" in complaint, (name, complaint)
    assert not (tmp_path / 'ranker.json').exists()


def test_bundled_conversations_are_asked_by_their_names(capsys):
    assert cli.main(['ask', '--data', 'octet', 'Who?']) == 2
    assert 'say which with --conversation; it holds' in capsys.readouterr().err
    assert cli.main(['ask', '--json', '--data', 'octet', '--conversation', 'team', 'Who joined the team?']) == 0
    assert Trace.from_json(capsys.readouterr().out).evidence
    assert cli.main(['ask', '--json', '--data', 'sample', CANOE]) == 0
    assert 'D8:8' in Trace.from_json(capsys.readouterr().out).evidence


@pytest.mark.parametrize('method', list(METHODS))
def test_every_method_answers_within_the_turns_allowed(method, capsys):
    assert cli.main(['ask', '--json', '--k', '7', '--method', method, CANOE]) == 0
    trace = Trace.from_json(capsys.readouterr().out)
    assert trace.method == method and 0 < len(trace.read) <= 7 and trace.answer


def test_a_table_on_test_of_time_reads_its_file_and_refuses_a_bad_one(capsys, tmp_path):
    record = {
        'prompt': 'E2 was the R1 of E9 from 1950 to 1956.\nE3 was the R1 of E9 from 1956 to 1961.',
        'question': 'Which entity was the first R1 of E9?',
        'question_type': 'first_last',
        'label': 'E2',
    }
    path = tmp_path / 'tot.json'
    path.write_text(json.dumps([record, {**record, 'label': 'E3'}]))
    command = ['paper', 'remem', '--tables', 'table13', '--data', str(path)]
    assert cli.main([*command, '--json']) == 0
    rows = json.loads(capsys.readouterr().out)['tables']['Test of Time (table 13)']['rows']
    assert all(row['questions'] == 2 for row in rows)
    assert all(row['errors'] == 0 and 0 <= row['exact_match']['mean'] <= 1 for row in rows)
    path.write_text('[{}]')
    assert cli.main(command) == 2
    assert capsys.readouterr().err.startswith('memnb: ')


SMALL = ['bench', '--data', SAMPLE, '--methods', 'memr3,remem-s', '--categories', 'open-domain', '--k', '8']


def test_a_bench_is_one_object_and_goes_on_in_its_folder(capsys, tmp_path):
    assert cli.main([*SMALL, '--out', str(tmp_path / 'run'), '--json']) == 0
    first = json.loads(capsys.readouterr().out)
    assert [row['method'] for row in first['rows']] == ['rag', 'memr3', 'remem-s', 'full-context']
    for row in first['rows']:
        assert row['questions'] == 6 and row['errors'] == 0
        assert {'mean', 'low', 'high', 'n'} <= row['evidence_recall'].keys() and row['evidence_recall']['n'] == 6
        assert row['evidence_recall']['low'] <= row['evidence_recall']['mean'] <= row['evidence_recall']['high']
        assert {'f1_locomo', 'f1_set', 'exact_match', 'by_category', 'minus'} <= row.keys()
    assert first['rows'][-1]['turns']['mean'] == len(load_sample().turns) and first['rows'][0]['turns']['mean'] == 8
    assert first['provenance']['files'] and first['provenance']['format'] == 'locomo'
    assert {row['dataset'] for row in first['rows']} == {'sample'} and first['provenance']['model'] == 'rules'
    before = [row.seconds for row in RowStore(tmp_path / 'run' / 'rows.sqlite').records()]
    assert cli.main([*SMALL, '--out', str(tmp_path / 'run'), '--json']) == 0
    assert json.loads(capsys.readouterr().out)['rows'] == first['rows']
    assert [
        row.seconds for row in RowStore(tmp_path / 'run' / 'rows.sqlite').records()
    ] == before  # nothing was asked again
    assert cli.main([*SMALL, '--k', '9', '--out', str(tmp_path / 'run')]) == 2
    assert 'another experiment (turns: 8 there, 9 here)' in capsys.readouterr().err


@pytest.mark.parametrize(
    'words, said',
    [
        (['--methods', 'guess'], 'expected some of rag'),
        (['--memories', 'attic'], 'expected some of turns'),
        (['--dataset', 'novel'], 'novel'),
        (['--categories', 'gossip'], 'nothing to ask'),
        (['--workers', 'moon'], 'expected a whole number above 0'),
        (['--judge', 'harsh'], 'lenient'),
        (['--k', '0'], 'above 0'),
        (['--data', str(CHATS / 'plain.txt')], 'a benchmark is a file of conversations with questions'),
        (['--methods', 'memr3,memr3'], 'more than once'),
        (['--repeats', '-1'], 'above 0'),
        (['--model', 'any', '--base-url', CLOSED], '--out'),
    ],
)
def test_a_bench_with_a_bad_option_is_one_line(words, said, capsys):
    assert cli.main([*SMALL, *words]) == 2
    printed = capsys.readouterr()
    assert (
        printed.out == ''
        and said in printed.err.splitlines()[-1]
        and printed.err.splitlines()[-1].startswith('memnb: ')
    )


def test_a_bench_says_how_far_it_is_and_what_its_columns_are(monkeypatch, capsys):
    terminal = Terminal()
    monkeypatch.setattr(sys, 'stderr', terminal)
    assert cli.main([*SMALL, '--no-full-context']) == 0
    counts = re.findall(r'\rquestions and memories: .* (\d+)/20 \[', terminal.getvalue())
    assert counts and sorted(map(int, counts)) == list(map(int, counts)) and terminal.getvalue().endswith('\r\x1b[K')
    explained = capsys.readouterr().out.rstrip().split('\n\n')[-1]
    assert [line.partition(':')[0] for line in explained.splitlines()] == [
        'turns read',
        'evidence_recall',
        'f1_locomo',
        'f1_set',
        'exact_match',
        '[low, high]',
    ]


def test_an_estimate_asks_nothing(capsys):
    assert cli.main([*SMALL, '--model', 'any', '--base-url', CLOSED, '--estimate', '--judge', 'strict']) == 0
    printed = capsys.readouterr()
    assert printed.out == '' and 'reply tokens' in printed.err
    assert all(re.search(row, printed.err) for row in (r'ask +memr3 +\d', r'build +gists', r'judge +memr3'))


def test_a_bench_whose_server_is_down_counts_every_question_as_failed(capsys, tmp_path):
    words = [
        'bench',
        '--data',
        SAMPLE,
        '--methods',
        'rag',
        '--categories',
        'open-domain',
        '--no-full-context',
        '--model',
        'any',
        '--base-url',
        CLOSED,
    ]
    assert cli.main([*words, '--out', str(tmp_path), '--json']) == 3
    printed = capsys.readouterr()
    found = json.loads(printed.out)['rows'][0]
    assert (
        found['errors'] == found['questions'] == 6
        and found['evidence_recall']['n'] == 0
        and found['f1_locomo']['mean'] is None
    )
    assert '6 questions failed' in printed.err


def test_a_registered_method_is_asked_with_the_budget_and_the_clock(monkeypatch, capsys):
    class Loop:
        def __init__(self, memory, lm, k, stop_early):
            self.made_with = (memory.search('canoe', 1)[0].snippet.id, lm.name, k, stop_early)

        def ask(self, question, *, asked=None, budget=None, on_step=None):
            return Trace(question=question, method='echo', model='none', answer=f'{self.made_with} {budget}')

    monkeypatch.setitem(METHODS, 'echo', Method('echo', Loop, MEMORIES['turns'], hits='k', stops=True))
    assert cli.main(['ask', '--json', '--method', 'echo', '--k', '3', 'one \ud83d half?']) == 0
    trace = Trace.from_json(capsys.readouterr().out)
    assert trace.question == 'one \ufffd half?' and trace.seconds is not None
    assert re.fullmatch(r"\('D\d+:\d+', 'rules', 3, True\) 3", trace.answer)


# ------------------------------------------------------------------ models that fail


def test_a_server_that_is_down_is_one_line_and_3_and_what_was_found_is_printed():
    process = memnb('ask', '--json', '--model', 'any', '--base-url', CLOSED, CANOE)
    one_line(process, 3, 'no answer', CLOSED)
    trace = Trace.from_json(process.stdout)
    assert trace.answer is None and 'ServerError' in trace.error and 'D8:8' in trace.read


def test_a_model_that_declines_leaves_the_evidence_as_the_answer(capsys, monkeypatch):
    monkeypatch.setenv('OPENAI_API_KEY', KEY)
    with Server(chat('I would rather not.')) as server:
        assert cli.main(['ask', '--model', 'shy', '--base-url', server.url, CANOE]) == 3
    printed = capsys.readouterr()
    assert (
        'fallback   the evidence (ReplyError' in printed.out
        and 'canoe' in printed.out
        and printed.err.startswith('memnb: the answer is the evidence (ReplyError')
        and KEY not in printed.out + printed.err
    )


@pytest.mark.parametrize('method', ['memr3', 'remem', 'mragent', 'memma', 'self-rag'])
def test_a_model_that_speaks_in_prose_is_told_of_in_the_trace_on_stderr_and_by_the_exit_code(
    method, capsys, monkeypatch
):
    monkeypatch.setenv('OPENAI_API_KEY', KEY)
    with Server(chat('Zofia went canoeing with her niece near the end of June.')) as server:
        command = ['ask', '--json', '--method', method, '--model', 'prose', '--base-url', server.url, CANOE]
        code = cli.main(command)
    printed = capsys.readouterr()
    trace = Trace.from_json(printed.out)
    assert trace.answer and 'ReplyError' in trace.fallback
    assert code == 3 and printed.err.splitlines()[-1].startswith('memnb: the answer is ')


def test_options_of_a_served_model_are_sent(monkeypatch):
    monkeypatch.setenv('OPENAI_API_KEY', KEY)
    extra = ['--extra', 'reasoning={"effort": "low"}', '--extra', 'top_k=4', '--timeout', '9']
    with Server(chat({'answer': 'in May', 'sources': []})) as server:
        model = ['--method', 'rag', '--model', 'm', '--base-url', server.url]
        assert cli.main(['ask', *model, '--temperature', 'none', *extra, CANOE]) == 0
        assert cli.main(['ask', *model, '--temperature', '0.5', CANOE]) == 0
    first, second = server.requests[0], server.requests[-1]
    assert 'temperature' not in first and (first['reasoning'], first['top_k']) == ({'effort': 'low'}, 4)
    assert second['temperature'] == 0.5 and 'top_k' not in second


@pytest.mark.skipif(os.name == 'nt', reason='signals')
def test_control_c_ends_with_130_and_no_words():
    def stalled(request):
        started.append(request)
        return chat('{}', stall=60)(request)

    started = []
    with Server(stalled) as server:
        process = subprocess.Popen(
            [sys.executable, '-m', 'memnb.cli', 'ask', '--model', 'slow', '--base-url', server.url, CANOE],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )  # a job in the background is born deaf
        while not started and process.poll() is None:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, b'', b'')


# ------------------------------------------------------------------ the demo


def test_the_demo_fits_on_a_screen_and_the_page_has_the_rest(tmp_path):
    process = memnb('demo', cwd=tmp_path)
    shown, path = process.stdout.decode(), tmp_path / 'memnb-report.html'
    report, lines = path.read_text(encoding='utf-8'), shown.splitlines()
    assert (process.returncode, process.stderr) == (0, b'') and '\x1b' not in shown
    assert 24 <= len(lines) <= 40 and all(len(line) <= 100 for line in lines[:-1]) and lines[-1] == str(path)
    answered = ', '.join(re.findall(r'^  (?:right|wrong) (.+?): ', shown, re.MULTILINE)).split(', ')
    assert sorted(name.split()[0] for name in answered) == sorted(5 * ['rag', 'memr3', 'remem', 'mragent', 'memma'])
    assert '  right memr3 D8:8, remem D8:8, mragent D8:8, memma D8:8: the weekend of 22 June 2024\n' in shown
    for position in cli._DEMO_QUESTIONS:
        text = load_sample().questions[position].text
        assert f'\n{text} (' in shown and report.count(text.replace("'", '&#x27;')) >= 3
    labels = {line.split()[0] for line in lines[lines.index(load_sample().questions[1].text) + 1 :][: cli._DEMO_STEPS]}
    assert labels == {'searched', 'gained', 'open', 'decided'}
    assert re.search(r'\nIn all: \d+\.\d s, no model was asked\.\n', shown)
    assert report.count('<h3>memr3</h3>') - 1 == len(cli._DEMO_QUESTIONS) and report.count('(written example)') == 4


def test_a_demo_with_a_model_that_fails_says_so(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr('memnb.core.models.OpenAILM', lambda *names, **served: ScriptedLM([]))
    words = ['demo', '--questions', '1', '--model', 'any', '--out', str(tmp_path / 'page.html')]
    assert cli.main(words) == 3 and 'the script has run out' in capsys.readouterr().err


def test_the_report_goes_where_it_is_told_whole_and_through_no_link(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cli, '_DEMO_QUESTIONS', (12,))
    (tmp_path / 'victim').write_text('mine')
    (tmp_path / 'page.html').symlink_to('victim')
    assert cli.main(['demo', '--out', 'page.html']) == 0
    assert str(tmp_path / 'page.html') in capsys.readouterr().out and (tmp_path / 'page.html').read_text(
        encoding='utf-8'
    ).startswith('<!doctype html>')
    assert (tmp_path / 'victim').read_text() == 'mine' and not (tmp_path / 'page.html').is_symlink()
    assert len(list(tmp_path.iterdir())) == 2
    assert cli.main(['demo', '--out', 'no/such/folder.html']) == 2
    assert 'no/such/folder.html: cannot be written' in capsys.readouterr().err


@pytest.mark.skipif(os.name == 'nt', reason='modes')
@pytest.mark.parametrize('umask, mode', [(0o022, 0o644), (0o077, 0o600)])
def test_a_page_may_be_read_by_whom_the_umask_lets(umask, mode, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(cli, '_DEMO_QUESTIONS', (12,))
    before = os.umask(umask)
    try:
        assert cli.main(['demo', '--out', str(tmp_path / 'page.html')]) == 0
    finally:
        os.umask(before)
    assert (tmp_path / 'page.html').stat().st_mode & 0o777 == mode


# ------------------------------------------------------------------ streams


@pytest.mark.skipif(os.name == 'nt', reason='pipes')
def test_a_reader_who_has_enough_is_no_error(tmp_path):
    process = subprocess.Popen(
        [sys.executable, '-m', 'memnb.cli', 'demo', '--out', str(tmp_path / 'page.html')],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        env=BUFFERED,
    )
    process.stdout.read(1)
    process.stdout.close()
    assert (process.stderr.read(), process.wait(60)) == (b'', 141)


@pytest.mark.skipif(not os.path.exists('/dev/full'), reason='there is no /dev/full here')
def test_an_output_that_cannot_be_written_is_one_line():
    with open('/dev/full', 'wb') as full:
        process = subprocess.run(
            [sys.executable, '-m', 'memnb.cli', 'ask', '--k', '5', CANOE],
            stdout=full,
            stderr=subprocess.PIPE,
            env=BUFFERED,
        )
    assert process.returncode == 2 and process.stderr.startswith(b'memnb: ') and process.stderr.count(b'\n') == 1


def test_a_terminal_that_knows_only_ascii_is_served():
    process = memnb('ask', '--k', '5', '--method', 'rag', CANOE, PYTHONIOENCODING='ascii')
    assert process.returncode == 0 and b'D8:8 \\xb7 27 June 2024' in process.stdout
    process = memnb('ask', '--json', '--k', '5', 'Who said “café”?', PYTHONIOENCODING='ascii')
    assert process.returncode == 0 and json.loads(process.stdout.decode('utf-8'))['question'] == 'Who said “café”?'


def test_the_parser_imports_nothing_heavy():
    loaded = subprocess.run(
        [sys.executable, '-c', 'import sys, memnb.cli; print(*sys.modules)'], capture_output=True, text=True
    ).stdout
    assert not {'pydantic', 'numpy', 'openai', 'wordllama', 'networkx', 'matplotlib'} & set(loaded.split())


# ------------------------------------------------------------------ the notebooks


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package as a wheel installs it, with two notebooks, and an empty current folder."""
    (tmp_path / 'memnb' / '_nbs' / '1_core').mkdir(parents=True)
    for name in ('index.ipynb', '1_core/01_one.ipynb', '1_core/02_two.ipynb'):
        (tmp_path / 'memnb' / '_nbs' / name).write_text('as shipped')
    monkeypatch.setattr(cli, '__file__', str(tmp_path / 'memnb' / 'cli.py'))
    (tmp_path / 'here').mkdir()
    monkeypatch.chdir(tmp_path / 'here')
    return tmp_path


def test_an_installed_package_copies_its_notebooks_and_keeps_what_the_user_changed(package):
    assert cli.notebook_folder() == Path('memnb-notebooks')
    (package / 'here' / 'memnb-notebooks' / '1_core' / '01_one.ipynb').write_text('mine')
    (package / 'here' / 'memnb-notebooks' / '1_core' / '02_two.ipynb').unlink()
    cli.notebook_folder()
    assert {file.name: file.read_text() for file in Path('memnb-notebooks').rglob('*.ipynb')} == {
        'index.ipynb': 'as shipped',
        '01_one.ipynb': 'mine',
        '02_two.ipynb': 'as shipped',
    }


def fake_lab(folder, code):
    """The search path of a JupyterLab that runs this code."""
    (folder / 'jupyterlab').mkdir()
    (folder / 'jupyterlab' / '__init__.py').write_text('')
    (folder / 'jupyterlab' / '__main__.py').write_text(code)
    return os.pathsep.join([str(folder), *sys.path])


def test_lab_starts_jupyterlab_on_the_notebooks_and_passes_the_options_on(tmp_path):
    path = fake_lab(tmp_path, 'import sys; print(sys.argv[1:]); sys.exit(7)')
    process = memnb('lab', '--no-browser', '--port=0', PYTHONPATH=path)
    assert process.returncode == 7
    assert process.stdout.decode().strip() == repr(['--no-browser', '--port=0', str(cli.notebook_folder())])


@pytest.mark.skipif(os.name == 'nt', reason='signals')
def test_a_signal_that_ends_lab_ends_jupyterlab(tmp_path):
    path = fake_lab(tmp_path, 'import time; print("up", flush=True); time.sleep(60)')
    process = subprocess.Popen(
        [sys.executable, '-m', 'memnb.cli', 'lab'], stdout=subprocess.PIPE, env={**BUFFERED, 'PYTHONPATH': path}
    )
    assert process.stdout.readline() == b'up\n'
    process.terminate()
    assert process.stdout.read() == b'' and process.wait(30) != 0  # its output ends only when both have ended


def test_without_jupyterlab_one_line_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setattr(cli.importlib.util, 'find_spec', lambda name: None)
    assert cli.main(['lab']) == 2
    assert capsys.readouterr().err == "memnb: JupyterLab is not installed; this installs it: pip install 'memnb[lab]'\n"


def test_functions_of_the_current_folder_embed_and_rerank(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, 'path', [one for one in sys.path if one not in ('', os.getcwd())])
    (tmp_path / 'own_ranking.py').write_text(
        'def embed(texts):\n    return [[len(text), 1.0] for text in texts]\n\n\ndef score(pairs):\n    return [len(text) for _, text in pairs]\n'
    )
    given = ['--embedder', 'own_ranking:embed', '--rerank', 'own_ranking:score']
    assert cli.main(['ask', '--method', 'rag', '--k', '3', *given, 'Where does Zofia live?']) == 0
    assert cli.main(['ask', '--method', 'rag', '--rerank', 'own_ranking:nope', 'Where?']) == 2
    assert "rerank: 'own_ranking:nope' cannot be imported" in capsys.readouterr().err
    assert cli.main(['ask', '--method', 'mragent', '--chunk', '256', 'Where?']) == 2


def test_the_settings_of_a_paper_are_printed_with_their_sources(capsys):
    assert cli.main(['ask', '--settings', 'paper', '--chunk', '64', 'Where does Zofia live?']) == 0
    told = capsys.readouterr().err
    assert 'memr3: monotone = False (3.4; "re-summarized"; default here: True)' in told and 'given: 64' in told


def test_fit_writes_a_ranker_that_ask_and_bench_take(tmp_path, capsys):
    data, out = tmp_path / 'mine.json', tmp_path / 'ranker.json'
    data.write_bytes(data_path('sample.json').read_bytes())
    assert cli.main(['fit', '--data', str(data), '--out', str(out)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f'{out}: fitted to 48 questions; use it with --ranker'
    assert [line.partition(':')[0].strip() for line in lines[2:]] == [
        'friends and colleagues (Octet)',
        'a user with an assistant (Octet)',
    ]
    told = json.loads(out.read_text())
    assert (
        told['about']['data'] == 'mine.json'
        and told['about']['sha256'] == hashlib.sha256(data.read_bytes()).hexdigest()
    )
    first = out.read_bytes()
    assert cli.main(['fit', '--data', str(data), '--out', str(out)]) == 0 and out.read_bytes() == first
    found = {}
    for ranker in (str(out), 'none'):
        capsys.readouterr()
        assert (
            cli.main(
                [
                    'ask',
                    "Which vet pulled three of Pascal's teeth?",
                    '--method',
                    'rag',
                    '--k',
                    '5',
                    '--ranker',
                    ranker,
                    '--json',
                ]
            )
            == 0
        )
        found[ranker] = json.loads(capsys.readouterr().out)['read']
    assert found[str(out)] != found['none'] and 'D5:14' in found[str(out)]
    assert cli.main(['ask', 'Who?', '--ranker', str(data)]) == 2
    assert 'mine.json: expected a ranker that `memnb fit` wrote' in capsys.readouterr().err
    assert cli.main(['ask', 'Who?', '--method', 'remem', '--ranker', 'none']) == 2
    assert '--ranker: the memory of remem does not take it' in capsys.readouterr().err
