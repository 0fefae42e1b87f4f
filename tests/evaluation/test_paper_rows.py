"""The papers' rows: the same by rules as in the benches, whoever runs them; and what a model would be asked is what is asked."""
import json
import re
import shlex
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from memnb import cli
from memnb.evaluation import datasets
from memnb.core import models as lm
from memnb.core.conversation import Conversation, Question, Session, Turn
from memnb.evaluation.costs import Rehearsal, Tally
from memnb.evaluation.registry import SOURCES
from memnb.evaluation.experiment import Experiment
from memnb.evaluation.experiment import experiment_of
from memnb.memma.loop import VARIANTS
from memnb.evaluation.papers import budget_methods, Told, variant_methods
from memnb.evaluation.registry import METHODS
from memnb.evaluation.papers import depth_methods, Memories, structure_methods
from memnb.evaluation.papers import (
    BUDGETS, BUILDING, costs, DEPTHS, parted, passive_methods, probe_statistics, statistics_of,
    STRUCTURES, varied)
from memnb.memma.prompts import Probe
from memnb.rules.memma import KINDS
from memnb.evaluation.experiment import fingerprint
from memnb.core.roles import RuleLM
from memnb.evaluation.experiment import evaluate, value

LINES = [('Ana', 'I bought a red kayak yesterday, from Mr. Holm in Bergen.'), ('Ben', 'I still paint boats every Sunday with my sister Ida.'),
         ('Ana', 'My cousin Ida visited Oslo with 12 friends in May.'), ('Ben', 'The museum in Oslo has a Viking ship and 40 kayaks.')]


@pytest.fixture(scope='module')
def small():
    "A conversation of two sessions, with two questions."
    sessions = [Session(f'S{number}', tuple(Turn(f'S{number}:{place}', who, text) for place, (who, text) in enumerate(LINES, 1)),
                        datetime(2024, 6, number)) for number in (1, 2)]
    questions = (Question('What did Ana buy?', 'a kayak', ('S1:1', 'S2:1'), 'multi-hop', 'small', 0),
                 Question('Where was Ida?', 'Oslo', ('S1:3',), 'single-hop', 'small', 1))
    return Conversation('small', tuple(sessions), questions)


def read(rows):
    "What was read, and answered, by method and question."
    return {(row.method, row.question): (row.read, row.answer) for row in rows}


def run(method, rows, conversation):
    "The rows of an experiment by rules, that reads as much as each method does by itself."
    return Experiment(varied(method, rows), {'small': [conversation]}, turns=None, stop=True, baselines=()).run().rows


def test_memmas_rows_are_those_of_its_bench(small):
    made = Told([small])
    assert read(run('memma', VARIANTS, small)) == read(evaluate([small], variant_methods(made)))
    some = {name: BUDGETS[name] for name in ('H = 0', 'H = 2', 'k = 10', 'k = 10, one search')}
    bench = {name: make for name, make in budget_methods(made).items() if name in some}
    assert read(run('memma', some, small)) == read(evaluate([small], bench))


def test_mragents_rows_are_those_of_its_bench(small):
    made = Memories([small])
    rows = STRUCTURES | {name: DEPTHS[name] for name in ('T = 1, K = 5', 'T = 4, K = 2')}
    bench = {name: make for methods in (structure_methods(made), depth_methods(made)) for name, make in methods.items() if name in rows}
    stopped = {name: {'stop_early': False, **switches} for name, switches in rows.items()}  # the bench lets no walk stop
    assert list(bench) == list(rows) and read(run('mragent', stopped, small)) == read(evaluate([small], bench))


@given(st.dictionaries(st.sampled_from(['guidance', 'evolve', 'refine', 'k', 'diagnose']), st.booleans()))
def test_parted_switches_are_all_there_and_none_twice(switches):
    building, asking = parted(switches)
    assert {**building, **asking} == switches and set(building) <= set(BUILDING) and not set(asking) & set(BUILDING)


def test_switches_of_writing_are_the_memorys_and_the_others_the_loops():
    assert {one.name: one.memory.name for one in varied('memma', VARIANTS)} == {
        'static': 'bank (guidance=False, evolve=False)', 'unguided active': 'bank (guidance=False, evolve=False)',
        'strategic active': 'bank (evolve=False)', 'MemMA': 'bank', 'MemMA/C': 'bank (guidance=False)', 'MemMA/R': 'bank', 'MemMA/E': 'bank (evolve=False)'}
    loops = {one.name: one.settings()['loop'] for one in varied('memma', VARIANTS)}
    assert loops['MemMA/E'] == loops['MemMA/C'] == loops['MemMA'] == METHODS['memma'].settings()['loop']
    assert loops['static'] == loops['MemMA/R'] and loops['strategic active'].endswith('(binding=False, refinements=5)')


def test_each_row_has_a_fingerprint_of_its_own():
    for method, rows in (('memma', VARIANTS | BUDGETS), ('mragent', STRUCTURES | DEPTHS)):
        told = [str({name: part for name, part in one.settings().items() if name != 'method'}) for one in varied(method, rows)]
        assert len(set(told)) == len(rows)
    with pytest.raises(ValueError, match='mem0'):
        varied('mem0', STRUCTURES)


def test_costs_are_those_of_the_calls_that_are_made(small):
    ticks = iter(range(99))
    [one] = costs(small, ['memma'], every=1, clock=lambda: next(ticks))
    build, ask = Tally(Rehearsal()), Tally(Rehearsal())
    loop = METHODS['memma'].loop(METHODS['memma'].memory.build(small, build), small, ask)
    for question in small.questions:
        loop.ask(question.text)
    assert one['build tokens'] == sum(part.tokens for part in build.usage.values()) > one['history'] > 0
    assert one['ask tokens'] * 2 == sum(part.tokens for part in ask.usage.values())
    assert {role: part['calls'] * 2 for role, part in one['ask'].items()} == {role: part.calls for role, part in ask.usage.items()}
    assert one['build seconds'] == 1 and one['ask seconds'] == .5


@settings(max_examples=20)
@given(st.integers(0, 6))
def test_statistics_add_up(count):
    sessions = tuple(Session(f'S{number}', tuple(Turn(f'S{number}:{place}', who, text) for place, (who, text) in enumerate(LINES, 1)),
                             datetime(2024, 6, number)) for number in (1, 2))
    found = probe_statistics([Conversation('small', sessions)], count)
    assert found['probes'] == sum(found[kind] for kind in KINDS) <= 2 * count and found['one word'] <= found['three words'] <= found['probes']
    assert (found['probes'] == 0) == (count == 0) == (found['answer words'] == 0)


@given(st.lists(st.tuples(st.lists(st.sampled_from(['a', 'bb', 'ccc']), min_size=1, max_size=6), st.sampled_from(KINDS)), max_size=8))
def test_statistics_are_counts_of_words(told):
    probes = [Probe('What is it ?', ' '.join(words), kind, ()) for words, kind in told]
    found, lengths = statistics_of(iter(probes)), [len(words) for words, _ in told]
    assert (found['probes'], found['one word'], found['three words']) == (len(told), lengths.count(1), len([one for one in lengths if one in (1, 2, 3)]))
    assert [found[kind] for kind in KINDS] == [[one for _, one in told].count(kind) for kind in KINDS]
    assert not told or (found['question words'] == 4 and found['answer words'] * len(told) == pytest.approx(sum(lengths)))


def test_passive_rows_read_all_or_chunks(small):
    rows = evaluate([small], passive_methods([small]))
    assert {value(row, 'recall') for row in rows if row.method == 'full text'} == {1} and all(row.turns for row in rows)


RUN = {'runs/mragent-unlimited', 'runs/memma-table-3', 'runs/memma-table-6-haiku'}  # of the experiments in the results notebooks
NOTEBOOKS = Path(__file__).resolve().parents[2] / 'nbs'


def texts(name):
    "The cells of text of a notebook, before its exercises."
    cells = json.loads((NOTEBOOKS / f'{name}.ipynb').read_text(encoding='utf-8'))['cells']
    found = [''.join(cell['source']) for cell in cells if cell['cell_type'] == 'markdown']
    return found[:next((place for place, text in enumerate(found) if text.startswith('## Exercises')), len(found))]


def commands(name):
    "The lines of a shell that a notebook gives, each whole and without where its output goes."
    lines = '\n'.join(texts(name)).replace('\\\n', ' ').splitlines()
    return [shlex.split(line.split('>')[0])[1:] for line in lines if line.startswith('    memnb ')]


@pytest.mark.parametrize('name', ['7_results/03_mragent', '7_results/04_memma'])
def test_commands_of_the_results_notebooks_are_understood(name, small, tmp_path):
    found = [cli.parse(one) for one in commands(name)]
    assert found
    for options in found:
        if options.run is cli.bench:
            options.base_url = options.base_url or 'http://127.0.0.1:9/v1'
            experiment = experiment_of(options, [small])
            assert experiment.tasks(tmp_path) and (options.model is None or experiment.lm.name == options.model)
        elif options.run is cli.paper:
            assert options.paper in cli.PAPERS
        elif options.get:
            assert options.name in SOURCES
    with pytest.raises(cli.Failure, match='--no-such'):
        cli.parse([*commands(name)[-1], '--no-such'])


@pytest.mark.parametrize('name, least', [('7_results/03_mragent', 3), ('7_results/04_memma', 6)])
def test_lines_of_python_in_the_results_notebooks_run_by_rules(name, least, small, tmp_path, monkeypatch):
    class Named(RuleLM):
        "Rules under the name of a model."
        def __init__(self, name):
            super().__init__()
            self.name = name
    made, folders, run = [], [], Experiment.run

    def run_small(self, out):
        made.append(self)
        folders.append(out)
        assert self.turns is None and self.stop and self.judge.lm.name == 'openai/gpt-4o-mini' and out.startswith('runs/')
        return run(self, tmp_path / out) if out in RUN else None
    monkeypatch.setattr(lm, 'OpenAILM', Named)
    monkeypatch.setattr(datasets, 'load_locomo', lambda path: [replace(small, id='conv-26')])
    monkeypatch.setattr(Experiment, 'run', run_small)
    space = {}
    for block in re.findall(r'```python\n(.*?)```', '\n'.join(texts(name)), re.S):
        exec(compile(block, name, 'exec'), space)
    assert len(made) >= least and all(one.tasks(tmp_path) for one in made)
    assert len(set(folders)) == len(made) >= len({fingerprint(one.settings()) for one in made}) >= len(made) - 1  # table 6 has a row of table 2
