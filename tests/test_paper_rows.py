"""The papers' rows: the same by rules as in the benches, whoever runs them; and what a model would be asked is what is asked."""
from datetime import datetime

import pytest
from hypothesis import given, settings, strategies as st

from memnb.conversation import Conversation, Question, Session, Turn
from memnb.costs import Rehearsal, Tally
from memnb.experiment import Experiment
from memnb.memma import VARIANTS
from memnb.memma_bench import Told, budget_methods, variant_methods
from memnb.methods import METHODS
from memnb.mragent_bench import Memories, depth_methods, structure_methods
from memnb.paper_rows import BUDGETS, BUILDING, DEPTHS, STRUCTURES, costs, parted, passive_methods, probe_statistics, varied
from memnb.probes import KINDS
from memnb.rows import evaluate, value

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


def test_each_row_has_a_fingerprint_of_its_own():
    for method, rows in (('memma', VARIANTS | BUDGETS), ('mragent', STRUCTURES | DEPTHS)):
        told = [str({name: part for name, part in one.settings().items() if name != 'method'}) for one in varied(method, rows)]
        same = [(row, switches) for row, switches in rows.items() if list(rows.values()).count(switches) > 1]
        assert len(set(told)) == len(rows) - len(same) // 2
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


def test_passive_rows_read_all_or_chunks(small):
    rows = evaluate([small], passive_methods([small]))
    assert {value(row, 'recall') for row in rows if row.method == 'full text'} == {1} and all(row.turns for row in rows)
