"""The tables of MemMA: what is shared and what is not, what is counted, and that a report survives its file."""
import json
from argparse import Namespace
from dataclasses import replace

import pytest

from memnb.evaluation import papers as memma_bench
from memnb.core.conversation import Conversation, Question, Session, Turn
from memnb.evaluation.datasets import DatasetError
from memnb.evaluation.experiment import evaluate, value
from memnb.memma.loop import VARIANTS
from memnb.evaluation.papers import (
    backend_methods, budget_methods, call_table, calls_of,
    chunk_methods_memma_bench as chunk_methods, CountingLM, equal_methods, fault_counts, fault_rows,
    main_memma, memma_report, memma_tables, repairs_written, search_methods, Told, variant_methods)

LINES = [('Ana', 'I bought a red kayak yesterday, from Mr. Holm in Bergen.'), ('Ben', 'I still paint boats every Sunday with my sister Ida.'),
         ('Ana', 'My cousin Ida visited Oslo with 12 friends in May.'), ('Ben', 'The museum in Oslo has a Viking ship and 40 kayaks.')]


@pytest.fixture(scope='module')
def small():
    "A conversation of two sessions with a question of each of two kinds, and one that nobody can answer."
    from datetime import datetime
    sessions = [Session(f'S{number}', tuple(Turn(f'S{number}:{place}', who, text) for place, (who, text) in enumerate(LINES, 1)),
                        datetime(2024, 6, number)) for number in (1, 2)]
    questions = (Question('What did Ana buy?', 'a kayak', ('S1:1', 'S2:1'), 'multi-hop', 'small', 0),
                 Question('Where was Ida?', 'Oslo', ('S1:3',), 'single-hop', 'small', 1),
                 Question('What did Ben buy?', None, ('S1:1',), 'adversarial', 'small', 2))
    return Conversation('small', tuple(sessions), questions)


def test_a_bank_is_built_once_for_each_way_of_writing(small):
    made = Told([small])
    assert made.memma(small) is made.memma(small) and made.memma(small, evolve=False) is not made.memma(small)
    assert made.memma(small, CountingLM()) is not made.memma(small)
    loops = {name: make(small) for name, make in variant_methods(made).items()}
    assert list(loops) == list(VARIANTS)
    assert loops['MemMA'].bank is loops['MemMA/R'].bank is not loops['MemMA/C'].bank
    assert loops['static'].bank is loops['unguided active'].bank is not loops['MemMA/E'].bank is loops['strategic active'].bank
    for name, switches in VARIANTS.items():
        for switch in ('refinements', 'refine', 'diagnose', 'binding'):
            assert getattr(loops[name], switch) == switches.get(switch, {'refinements': 3}.get(switch, True))


def test_asking_writes_nothing(small):
    made = Told([small])
    bank = made.memma(small).bank
    before, extent = list(bank), bank.journal.extent('default')
    for methods in (variant_methods, budget_methods, search_methods):
        evaluate([small], methods(made))
    assert list(bank) == before and bank.journal.extent('default') == extent


def test_every_way_of_storing_and_cutting_answers(small):
    made = Told([small])
    rows = evaluate([small], backend_methods(made) | chunk_methods(made))
    assert not [row.error for row in rows if row.error] and {value(row, 'recall') for row in rows} <= {0, .5, 1}
    assert len({row.method for row in rows}) == 10 + 7


def test_calls_are_those_that_are_made(small):
    counted = calls_of(small, writing={'turns': 1})
    assert counted['guide'] == counted['write'] == len(small.turns)
    assert counted['probes'] == len(small.sessions) and counted['mark'] == counted['answer']
    assert calls_of(small, writing={'turns': 4})['guide'] == len(small.sessions)
    [row] = [row for row in call_table([small, small]) if row['way'] == 'MemMA/E']
    assert row['all'] == sum(calls_of(small, evolve=False).values())


def test_fault_counts_have_shares_with_intervals(small):
    found = fault_counts([small], 5, lambda line: None)
    assert [row['kind'] for row in found] == ['none', 'names', 'blur', 'cluster']
    for row in found:
        assert row['probes a session'] == 5
        for part in row['shares'].values():
            assert part['mean'] is None or part['low'] <= part['mean'] <= part['high']
    assert found[0]['shares']['detected']['mean'] is None and 'damaged' not in found[0]['counts']


def test_the_bank_that_is_not_damaged_reads_at_least_as_much_as_one_without_members(small):
    rows = fault_rows([small], 5)
    def mean(name):
        return sum(value(row, 'recall') for row in rows[name]) / len(rows[name])
    assert mean('not damaged') >= mean('cluster, damaged')
    assert set(rows) == {'not damaged', *(f'{kind}, {state}' for kind in ('names', 'blur', 'cluster') for state in ('damaged', 'repaired'))}


def test_at_25_turns_nobody_reads_more(small):
    made = Told([small])
    rows = evaluate([small], equal_methods(made), budget=25)
    assert {row.method for row in rows} == set(equal_methods(made)) and max(row.turns for row in rows) <= 25


def test_repairs_are_counted_where_they_are_written(small):
    made = Told([small])
    counts = repairs_written(made)
    assert list(counts) == ['guided', 'unguided', 'plain chunks of 4'] and counts['guided'] == 0
    bank = made.memma(small).bank
    bank.add('Ana rows.', reason='repair: What does Ana do?')
    assert repairs_written(made)['guided'] == 1


def test_a_report_survives_json_and_its_rows_agree(small, monkeypatch):
    monkeypatch.setattr(memma_bench, 'fault_counts', lambda conversations, probes, tell: fault_counts(conversations[:1], 2, tell))
    report, rows = memma_report(Told([small]))
    tables = memma_tables(json.loads(json.dumps(report)))
    assert [str(one) for one in tables] == [str(one) for one in memma_tables(report)] and len(tables) == 17
    main = {one['method']: one for one in report['main']}
    assert set(VARIANTS) <= set(main) and main['one search of its bank, at the turns of MemMA']['turns']['mean'] <= main['MemMA']['turns']['mean'] + 1e-9
    budget = {one['method']: one['recall']['mean'] for one in report['budget']}
    assert budget['H = 3'] == budget['k = 30'] == main['MemMA']['recall']['mean'] and budget['H = 0'] == budget['k = 30, one search']
    assert {row.question for row in rows} == {('small', 0), ('small', 1)}
    answers = {one['method']: one for one in report['answers']}
    assert {*VARIANTS, 'full text', 'naive RAG', 'gist graph, one search'} <= set(answers) and answers['full text']['recall']['mean'] == 1
    assert not [name for name in answers if 'at the turns of' in name]  # what was cut was not answered
    assert answers['MemMA']['f1_set']['n'] == 2 and answers['MemMA']['recall'] == report['first'][list(VARIANTS).index('MemMA')]['recall']
    assert any(one['minus'] == 'static' for one in report['differences'])


def test_the_command_prints_tables_or_json(small, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(memma_bench, 'load_locomo', lambda path: [replace(small, sessions=small.sessions[:1], questions=small.questions[1:2])])
    monkeypatch.setattr(memma_bench, 'fault_counts', lambda *args: [])
    file = tmp_path / 'data.json'
    file.write_text('[]')
    assert main_memma(Namespace(data=str(file), json=True)) == 0
    report = json.loads(capsys.readouterr().out)
    assert report['provenance'] and report['main']
    assert main_memma(Namespace(data=str(file), json=False)) == 0
    assert 'Evidence recall, in percent' in capsys.readouterr().out


def test_a_file_that_is_none_is_a_dataset_error(tmp_path):
    with pytest.raises(DatasetError):
        main_memma(Namespace(data=str(tmp_path / 'absent.json'), json=False))
