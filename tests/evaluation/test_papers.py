"""The declarations of the papers' tables: every row can be built and has its own paper's settings, and a paper is run with a served model by one command."""

import json
import pickle
from dataclasses import replace

import pytest

from memnb import cli
from memnb.core.roles import RuleLM
from memnb.evaluation.datasets import data_path
from memnb.evaluation.experiment import Experiment, experiment_of
from memnb.evaluation.papers import PAPERS, PaperTable, read_papers, variant
from memnb.evaluation.registry import configured, load_dataset, METHODS
from servers import chat, fail, Server

[HELD] = json.loads(data_path('sample.json').read_text())
TALK = ('speaker_a', 'speaker_b', 'session_1_date_time', 'session_1', 'session_2_date_time', 'session_2')


@pytest.fixture(scope='module')
def two_sessions(tmp_path_factory):
    "A file of LoCoMo's form: two sessions and two questions."
    questions = [record for record in HELD['qa'] if {id.split(':')[0] for id in record['evidence']} <= {'D1', 'D2'}]
    path = tmp_path_factory.mktemp('data') / 'two_sessions.json'
    talk = {name: HELD['conversation'][name] for name in TALK}
    path.write_text(json.dumps([{**HELD, 'conversation': talk, 'qa': questions[:2]}]))
    return str(path)


def options_of(paper, *words, dataset='locomo'):
    options = cli.parse(['paper', paper, *words])
    options.settings, options.dataset = options.settings or 'paper', dataset
    return options


def as_run(paper, table):
    "The methods of a table as the command runs them, by name."
    table = PAPERS[paper].tables[table]
    methods = configured(table.methods, options_of(paper, dataset=table.dataset))
    return {method.name: method for method in methods}


@pytest.mark.parametrize(('paper', 'table'), [(name, table) for name in PAPERS for table in PAPERS[name].tables])
def test_every_row_answers_a_short_conversation_and_can_be_sent_to_a_process(paper, table, two_sessions):
    [talk], built = load_dataset(two_sessions), {}
    for name, method in pickle.loads(pickle.dumps(as_run(paper, table))).items():
        if method.memory.name not in built:
            built[method.memory.name] = method.memory.build(talk, RuleLM())
        trace = method.make(built[method.memory.name], talk).ask(talk.questions[0].text)
        assert trace.error is None and trace.read, name


PLAIN = {'prompts': 'paper'}
ANSWERED = {'may_refuse': False, **PLAIN}
OF_REMEM = {'prompts': 'paper', 'synonymy': 0.8}


@pytest.mark.parametrize(
    ('paper', 'table', 'row', 'of_loop', 'of_memory'),
    [
        ('memr3', 'table1', 'RAG', {'k': 5, **ANSWERED}, {'chunk': 256, 'ranker': 'none'}),
        ('memr3', 'chunks', '128 tokens', {'chunks_per_iteration': 1, 'monotone': False}, {'chunk': 128}),
        ('remem', 'table3', 'ten messages', {'k': 10, **PLAIN}, {'ranker': 'none'}),
        ('remem', 'table3', 'three messages', {'k': 3, **PLAIN}, {'ranker': 'none'}),
        ('remem', 'table3', 'Full-Context', PLAIN, {}),
        ('remem', 'table3', 'REMem', {'prompts': 'paper', 'widen': False, 'max_steps': 3}, OF_REMEM),
        ('remem', 'table5', 'w/o synonymy', {'widen': False}, {**OF_REMEM, 'synonymy': None}),
        ('remem', 'table13', 'REMem', {'max_steps': 5}, {**OF_REMEM, 'with_gists': False}),
        ('mragent', 'figure5', 'RAG', ANSWERED, {'ranker': 'none'}),
        ('memma', 'table2', 'Naive RAG', {'k': 30, **ANSWERED}, {'ranker': 'none'}),
        ('memma', 'table2', 'MemMA', {'insist': 0, 'refinements': 3}, {'settings': 'paper'}),
        ('memma', 'table2', 'unguided active', {'refinements': 5, 'diagnose': False}, {'settings': 'paper'}),
    ],
)
def test_a_row_keeps_its_switches_and_has_the_settings_of_its_own_paper(paper, table, row, of_loop, of_memory):
    method = as_run(paper, table)[row]
    assert of_loop.items() <= method.options.items() and of_memory.items() <= method.memory.options.items()
    if method.loop.startswith('baselines'):
        assert (method.options, method.memory.options) == (of_loop, of_memory)
    plain = configured([method], options_of(paper, '--settings', 'memnb'))
    assert plain == [method]  # nothing is added to it


def test_the_baselines_of_several_papers_are_those_of_memr3():
    mixed = configured([METHODS[name] for name in ('rag', 'remem', 'memma')], options_of('remem'))
    assert mixed[0].options == {'k': 5, **ANSWERED}


def test_the_oracle_reads_the_evidence_and_nothing_else(two_sessions):
    [talk], [oracle, *_] = load_dataset(two_sessions), PAPERS['remem'].tables['table3'].methods
    loop = oracle.make(oracle.memory.build(talk, RuleLM()), talk)
    assert [set(loop.ask(one.text).read) for one in talk.questions] == [set(one.evidence) for one in talk.questions]
    assert loop.ask('What else?').read == []


def test_an_unknown_memory_is_refused(tmp_path):
    rows = [{'row': 'oracle', 'method': 'rag', 'over': 'silver evidence'}]
    (tmp_path / 'own.json').write_text(
        json.dumps({'mine': {'title': 'T', 'tables': {'one': {'title': 'T', 'rows': rows}}}})
    )
    with pytest.raises(ValueError, match="row 'oracle': over: expected some of gold evidence, got 'silver evidence'"):
        read_papers(tmp_path / 'own.json')


def test_a_table_shows_its_rows_and_categories_beside_the_papers_figures(two_sessions):
    table = PaperTable(
        'T',
        [METHODS['rag'], variant('less', 'rag', k=3)],
        categories=['temporal'],
        against='rag',
        metrics=('evidence_recall',),
        reported={'rag': 50.0, 'theirs': 60.0},
        needs={'theirs': 'their code'},
    )
    methods = [*table.methods, variant('other', 'rag', k=1)]
    run = Experiment(methods, load_dataset(two_sessions), turns=5, baselines=()).run(workers=1)
    results = table.of(run)
    assert {*results.rows.category} == {'temporal'} < {*run.rows.category}
    frame = results.tables()['T: in percent [95%]']
    assert list(frame.index) == ['rag', 'less', 'theirs']
    assert list(frame['the paper: J']) == [50.0, '–', 60.0]
    assert list(frame['not run, needs']) == ['–', '–', 'their code']
    assert [row['minus'] and row['minus']['method'] for row in results.methods] == [None, 'rag']


def test_a_sample_is_asked_from_all_over():
    [talk] = load_dataset(data_path('sample.json'))
    other = replace(talk, id='b', questions=[replace(question, conversation='b') for question in talk.questions])
    for count, expected in ((7, [3, 4]), (700, [len(talk.questions)] * 2)):
        categories = sorted({question.category for question in talk.questions})
        options = options_of('remem', '--data', 'two.json', '--questions', str(count))
        plan = experiment_of(options, [METHODS['rag']], [talk, other], categories).plan
        assert sorted(len(plan.asked(sampled)) for sampled in plan.conversations) == expected


def test_a_paper_asks_its_own_conversations_and_a_table_without_questions_says_so(tmp_path, capsys):
    talks = [{**HELD, 'sample_id': id, 'qa': HELD['qa'][:1]} for id in ('conv-26', 'conv-30')]
    (tmp_path / 'two.json').write_text(json.dumps(talks))
    (tmp_path / 'one.json').write_text(json.dumps([{**HELD, 'qa': HELD['qa'][:1]}]))
    command = ['--settings', 'memnb', '--data', str(tmp_path / 'two.json')]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(PAPERS, 'memma', replace(PAPERS['memma'], tables={'one': PaperTable('T', [METHODS['rag']])}))
        assert cli.main(['paper', 'memma', *command, '--json']) == 0
    report = json.loads(capsys.readouterr().out)
    assert report['provenance']['data']['two']['conversations'] == ['conv-26']
    assert report['provenance']['files'] and report['tables']['T']['rows'][0]['questions'] == 1
    assert cli.main(['paper', 'mragent', *command, '--tables', 'figure5,figure7']) == 0
    answers, structures, columns = capsys.readouterr().out.rsplit('\n\n', 2)
    assert (
        answers.startswith('MRAgent, measured on two\n')
        and 'MemoryOS' in answers
        and structures.startswith('Structures, passive and active (figure 7): no question')
        and columns.startswith('turns read: ')
    )


@pytest.mark.parametrize(
    ('paper', 'tables'),
    [('memr3', 'table1,table2'), ('remem', 'table3'), ('mragent', 'figure5'), ('memma', 'figure5')],
)
def test_a_paper_is_run_with_a_served_model(paper, tables, two_sessions, tmp_path, monkeypatch, capsys):
    """The model behind a real server has the replies of the rules, so the tables are those of the rules."""
    by_rules, replies = RuleLM.call, {}

    def recorded(self, role, /, **inputs):
        call = by_rules(self, role, **inputs)
        text = replies[role.render(inputs)] = call.reply.model_dump_json(by_alias=True)
        return replace(call, reply=role.model(inputs).model_validate_json(text))

    def answer(request):
        prompt = tuple(message['content'] for message in request['messages'])
        return (chat(replies[prompt]) if prompt in replies else fail(400, 'no reply is known'))(request)

    command = ['paper', paper, '--tables', tables, '--data', two_sessions, '--json']
    with monkeypatch.context() as patch:
        patch.setattr(RuleLM, 'call', recorded)
        assert cli.main(command) == 0
    expected = json.loads(capsys.readouterr().out)['tables']
    with Server(answer, limit=3000) as server:
        command += ['--model', 'm', '--base-url', server.url]
        assert cli.main([*command, '--estimate']) == 0 and not server.requests
        command += ['--out', str(tmp_path)]
        assert cli.main(command) == 0, capsys.readouterr().err
        asked, report = len(server.requests), json.loads(capsys.readouterr().out)
        assert report['tables'] == expected and report['provenance']['model'] == 'm'
        assert report['provenance']['tokens paid for'] > 0
        assert cli.main(command) == 0 and json.loads(capsys.readouterr().out)['tables'] == expected
        assert len(server.requests) - asked <= 24  # the judge is calibrated; nothing is asked again


def test_a_role_has_a_model_of_its_own(two_sessions, tmp_path, capsys):
    with Server(lambda request: fail(400, 'not here')(request)) as server:
        command = ['paper', 'memma', '--tables', 'figure5', '--data', two_sessions, '--base-url', server.url]
        assert cli.main([*command, '--role-model', 'probes=opus', '--out', str(tmp_path)]) == 0, capsys.readouterr().err
        assert {request['model'] for request in server.requests} == {'opus'}
    assert 'opus' in json.loads((tmp_path / 'results.json').read_text())['provenance']['model']


def test_a_bank_is_built_in_the_order_of_time(two_sessions):
    [talk], bank = load_dataset(two_sessions), METHODS['memma'].memory
    turned = replace(talk, sessions=talk.sessions[::-1])
    assert [entry.text for entry in bank.build(turned, RuleLM())] == [
        entry.text for entry in bank.build(talk, RuleLM())
    ]
