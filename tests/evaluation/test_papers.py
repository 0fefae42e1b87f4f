"""The declarations of the papers' tables: every row can be built, sent to a process and told apart, has its own paper's settings, and is run with a served model by one command."""

import json
import pickle
from dataclasses import replace

import pytest

from memnb import cli
from memnb.core.roles import RuleLM
from memnb.evaluation import papers
from memnb.evaluation.datasets import data_path, load_sample
from memnb.evaluation.experiment import Experiment, experiment_of
from memnb.evaluation.papers import Paper, PAPERS, PaperTable, variant
from memnb.evaluation.registry import configured, MEMORIES, METHODS
from servers import chat, fail, Server

SAMPLE = load_sample()
SHORT = replace(
    SAMPLE,
    sessions=SAMPLE.sessions[:2],
    questions=tuple(
        question
        for question in SAMPLE.questions
        if question.evidence and {turn.split(':')[0] for turn in question.evidence} <= {'D1', 'D2'}
    )[:2],
)
TABLES = [(name, table) for name, paper in PAPERS.items() for table in paper.tables.values()]


def options_of(*words):
    "The options of `memnb paper` with some words, for a table on LoCoMo."
    options = cli.parse(['paper', *words])
    options.settings, options.dataset = options.settings or 'paper', 'locomo'
    return options


def as_run(name):
    "The methods of a table's paper as the command runs them, by name."
    paper, table = name[0], PAPERS[name[0]].tables[name[1]]
    options = options_of(paper)
    options.dataset = table.dataset
    return {method.name: method for method in configured(table.methods, options)}


def test_every_row_can_be_sent_to_a_process_and_has_settings_of_its_own():
    for paper in PAPERS.values():
        rows = {}
        for table in paper.tables.values():
            pickle.loads(pickle.dumps(list(table.methods)))
            assert len({method.name for method in table.methods}) == len(table.methods)
            for method in table.methods:
                settings = json.dumps(method.settings(), sort_keys=True)
                assert rows.setdefault(method.name, settings) == settings and ' at 0x' not in settings
        assert len(set(rows.values())) == len(rows)


def test_rows_that_are_compared_or_reported_are_rows_of_the_table_or_say_what_they_need():
    for _, table in TABLES:
        rows = {method.name for method in table.methods}
        assert not rows & table.needs.keys() and all(table.needs.values())
        assert {*filter(None, [table.against]), *table.reported} <= rows | table.needs.keys(), table.title
    for system in ('Zep', 'A-Mem', 'LangMem', 'LightMem', 'MemoryOS', 'HippoRAG 2'):
        assert any(system in table.needs for _, table in TABLES)


@pytest.mark.parametrize('name', [(name, table) for name, paper in PAPERS.items() for table in paper.tables])
def test_every_row_answers_a_short_conversation(name):
    built = {}
    for method in as_run(name).values():
        if method.memory.name not in built:
            built[method.memory.name] = method.memory.build(SHORT, RuleLM())
        trace = method.make(built[method.memory.name], SHORT).ask(SHORT.questions[0].text)
        assert trace.error is None and trace.read, method.name


def test_a_row_keeps_its_switches_and_has_the_settings_of_its_own_paper_otherwise():
    table1, table3, table13 = as_run(('memr3', 'table1')), as_run(('remem', 'table3')), as_run(('remem', 'table13'))
    variants, table5 = as_run(('memma', 'table2')), as_run(('remem', 'table5'))
    chunks = as_run(('memr3', 'chunks'))
    assert (table1['RAG'].options, table1['RAG'].memory.options) == ({'k': 5, 'may_refuse': False}, {'chunk': 256})
    assert chunks['128 tokens'].memory.options == {'chunk': 128}
    assert (table3['ten messages'].options, table3['ten messages'].memory.options) == ({'k': 10}, {})
    assert table3['three messages'].options == {'k': 3} and table3['Full-Context'].options == {}
    assert table3['REMem'].options == {'prompts': 'paper', 'widen': False, 'max_steps': 3}
    assert table13['REMem'].options['max_steps'] == 5 and table13['REMem'].memory.options['with_gists'] is False
    assert table5['w/o synonymy'].memory.options == {'prompts': 'paper', 'synonymy': None}
    assert variants['Naive RAG'].options == {'may_refuse': False, 'k': 30} and not variants['Naive RAG'].memory.options
    assert variants['MemMA'].memory.options == {'settings': 'paper'} and variants['MemMA'].options['insist'] == 0
    assert variants['unguided active'].options['refinements'] == 5
    assert as_run(('mragent', 'figure5'))['RAG'].options == {'may_refuse': False}
    ours = configured(PAPERS['remem'].tables['table3'].methods, options_of('remem', '--settings', 'memnb'))
    assert [method.options for method in ours][:2] == [{}, {}] and not any(method.memory.options for method in ours)


def test_the_baselines_of_several_papers_are_those_of_memr3():
    mixed = configured([METHODS[name] for name in ('rag', 'remem', 'memma')], options_of('remem'))
    assert mixed[0].options == {'k': 5, 'may_refuse': False}


def test_the_oracle_reads_the_evidence_and_nothing_else():
    oracle = PAPERS['remem'].tables['table3'].methods[0]
    loop = oracle.make(oracle.memory.build(SHORT, RuleLM()), SHORT)
    for question in SHORT.questions:
        assert set(loop.ask(question.text).read) == set(question.evidence)
    assert loop.ask('What else?').read == []


def test_a_variant_is_the_method_with_its_switches():
    memory = METHODS['memr3'].memory.build(SAMPLE, RuleLM())
    question = SAMPLE.questions[3].text
    plain, same, other = (
        method.make(memory, SAMPLE, None, 10, False).ask(question, budget=10)
        for method in (METHODS['memr3'], variant('x', 'memr3'), variant('y', 'memr3', mask=False))
    )
    assert plain.read == same.read != other.read


def test_a_table_shows_its_rows_and_categories_beside_the_papers_figures():
    table = PaperTable(
        'T',
        [METHODS['rag'], variant('less', 'rag', k=3)],
        categories=['temporal'],
        against='rag',
        metrics=('evidence_recall',),
        reported={'rag': 50.0, 'theirs': 60.0},
        needs={'theirs': 'their code'},
    )
    run = Experiment([*table.methods, variant('other', 'rag', k=1)], [SHORT], turns=5, baselines=()).run(workers=2)
    results = table.of(run)
    assert {*results.rows.category} == {'temporal'} and {*run.rows.category} > {'temporal'}
    frame = results.tables()['T: in percent [95%]']
    assert list(frame.index) == ['rag', 'less', 'theirs']
    assert list(frame['the paper: J']) == [50.0, '–', 60.0]
    assert list(frame['not run, needs']) == ['–', '–', 'their code']
    assert [row['minus'] and row['minus']['method'] for row in results.methods] == [None, 'rag']


def test_a_sample_is_asked_from_all_over_and_a_paper_asks_its_own_conversations(tmp_path, capsys):
    two = [replace(SAMPLE, id=id, questions=[replace(one, conversation=id) for one in SAMPLE.questions]) for id in 'ab']
    plan = experiment_of(options_of('remem', '--questions', '7'), [METHODS['rag']], two, None).plan
    asked = [len(plan.asked(talk)) for talk in plan.conversations]
    assert sum(asked) == 7 and min(asked) == 3
    everything = experiment_of(options_of('remem', '--questions', '700'), [METHODS['rag']], two, None).plan
    assert sum(len(everything.asked(talk)) for talk in two) == sum(
        len(everything.asked(talk)) for talk in everything.conversations
    )
    [held] = json.loads(data_path('sample.json').read_text())
    (tmp_path / 'two.json').write_text(json.dumps([{**held, 'sample_id': id} for id in ('conv-26', 'conv-30')]))
    small = replace(PAPERS['memma'], tables={'one': PaperTable('T', [METHODS['rag']], categories=['open-domain'])})
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(papers.PAPERS, 'memma', small)
        assert cli.main(['paper', 'memma', '--data', str(tmp_path / 'two.json'), '--json']) == 0
    report = json.loads(capsys.readouterr().out)
    assert report['provenance']['data']['locomo']['conversations'] == ['conv-26']
    assert report['provenance']['files'] and report['tables']['T']['rows'][0]['questions'] == 6


def test_the_command_prints_tables_and_refuses_a_bad_file(monkeypatch, capsys, tmp_path):
    small = Paper('small', {'one': PaperTable('T', [METHODS['rag']], categories=['open-domain'])})
    monkeypatch.setitem(papers.PAPERS, 'memr3', small)
    assert cli.main(['paper', 'memr3', '--data', str(data_path('sample.json'))]) == 0
    printed = capsys.readouterr()
    assert 'T: in percent [95%]' in printed.out and 'rag: k = 5' in printed.err
    assert cli.main(['paper', 'memr3', '--data', 'missing.json']) == 2
    twice = tmp_path / 'twice.json'
    twice.write_text(json.dumps(json.loads(data_path('sample.json').read_text()) * 2))
    assert cli.main(['paper', 'memr3', '--data', str(twice)]) == 2
    assert "two conversations are called 'sample'" in capsys.readouterr().err


def test_every_bank_is_built_in_the_order_of_time():
    turned = replace(SHORT, sessions=SHORT.sessions[::-1])
    banks = {
        repr(method.memory): method.memory
        for _, table in TABLES
        for method in table.methods
        if method.memory.about == MEMORIES['bank'].about
    }
    for bank in banks.values():
        assert [entry.text for entry in bank.build(turned, RuleLM())] == [
            entry.text for entry in bank.build(SHORT, RuleLM())
        ]


@pytest.fixture(scope='module')
def two_sessions(tmp_path_factory):
    "A file of LoCoMo's form: two sessions of eight turns, and two questions."
    [held] = json.loads(data_path('sample.json').read_text())
    talk = held['conversation']
    kept = {name: talk[name] for name in ('speaker_a', 'speaker_b', 'session_1_date_time', 'session_2_date_time')}
    sessions = {name: talk[name][:8] for name in ('session_1', 'session_2')}
    ids = {turn['dia_id'] for session in sessions.values() for turn in session}
    questions = [record for record in held['qa'] if record['category'] != 5 and {*record['evidence']} <= ids]
    path = tmp_path_factory.mktemp('data') / 'two_sessions.json'
    path.write_text(json.dumps([{**held, 'conversation': kept | sessions, 'qa': questions[:2]}]))
    return str(path)


@pytest.mark.parametrize(
    ('paper', 'tables'),
    [('memr3', 'table1,table2'), ('remem', 'table3'), ('mragent', 'figure5'), ('memma', 'table2')],
)
def test_a_paper_is_run_with_a_served_model(paper, tables, two_sessions, tmp_path, monkeypatch, capsys):
    """The model behind a real server has the replies of the rules, so the tables are those of the rules."""
    by_rules, replies = RuleLM.call, {}

    def recorded(self, role, /, **inputs):
        call = by_rules(self, role, **inputs)
        text = call.reply.model_dump_json(by_alias=True)
        replies[role.render(inputs)] = text
        return replace(call, reply=role.model(inputs).model_validate_json(text))

    def answer(request):
        prompt = tuple(message['content'] for message in request['messages'])
        return (chat(replies[prompt]) if prompt in replies else fail(400, 'no reply is known'))(request)

    command = ['paper', paper, '--tables', tables, '--data', two_sessions, '--json']
    with monkeypatch.context() as patch:
        patch.setattr(RuleLM, 'call', recorded)
        assert cli.main(command) == 0
    expected = json.loads(capsys.readouterr().out)
    with Server(answer, limit=3000) as server:
        served = [*command, '--model', 'm', '--base-url', server.url]
        assert cli.main([*served, '--estimate']) == 0 and not server.requests
        assert cli.main(served) == 2 and '--out' in capsys.readouterr().err
        served += ['--out', str(tmp_path / 'run')]
        assert cli.main(served) == 0, capsys.readouterr().err
        report = json.loads(capsys.readouterr().out)
        assert report['tables'] == expected['tables'] and report['provenance']['model'] == 'm'
        assert {part['phase'] for part in report['provenance']['spent'] if part['calls']} >= {'ask', 'judge'}
        assert report['provenance']['tokens paid for'] > 0
        asked = len(server.requests)
        assert cli.main([*served, '--judge-model', 'rules']) == 2  # another experiment: its rows are elsewhere
        assert 'another experiment' in capsys.readouterr().err and len(server.requests) == asked
        assert cli.main(served) == 0 and json.loads(capsys.readouterr().out)['tables'] == report['tables']
        calibration = [request for request in server.requests[asked:] if 'response_format' in request]
        assert len(server.requests) - asked == len(calibration) <= 24


def test_a_role_has_a_model_of_its_own(two_sessions, tmp_path, capsys):
    def answer(request):
        return fail(400, f'{request["model"]} is not here')(request)

    with Server(answer) as server:
        command = [
            'paper',
            'memma',
            '--tables',
            'figure5',
            '--data',
            two_sessions,
            '--base-url',
            server.url,
            '--k',
            '4',
        ]
        command += ['--judge-model', 'rules', '--role-model', 'probes=opus', '--out', str(tmp_path / 'run')]
        assert cli.main(command) == 0, capsys.readouterr().err
        assert {request['model'] for request in server.requests} == {'opus'}
        assert 'opus' in json.dumps(json.loads((tmp_path / 'run' / 'results.json').read_text())['provenance'])


def test_a_table_without_a_question_says_so(two_sessions, capsys):
    assert cli.main(['paper', 'mragent', '--data', two_sessions, '--tables', 'figure5,figure7']) == 0
    answers, structures = capsys.readouterr().out.rsplit('\n\n', 1)
    assert 'MemoryOS' in answers and structures.startswith('Structures, passive and active (figure 7): no question')
