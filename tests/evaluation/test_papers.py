"""The declarations of the papers' tables: every row can be built, sent to a process and told apart, and a cut search is a shorter search."""

import json
import pickle
from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memnb import cli
from memnb.core.roles import RuleLM
from memnb.evaluation import papers
from memnb.evaluation.datasets import data_path, load_sample
from memnb.evaluation.experiment import Experiment
from memnb.evaluation.papers import (
    cut_reading,
    Paper,
    PAPERS,
    PaperTable,
    run_paper,
    variant,
)
from memnb.evaluation.registry import MEMORIES, METHODS
from memnb.evaluation.test_of_time import make_tot
from memnb.evaluation.test_of_time import tot_conversation

SAMPLE = load_sample()
SHORT = replace(
    SAMPLE,
    sessions=SAMPLE.sessions[:2],
    questions=tuple(
        one
        for one in SAMPLE.questions
        if one.evidence and {turn.split(':')[0] for turn in one.evidence} <= {'D1', 'D2'}
    )[:2],
)
TABLES = [(name, table) for name, paper in PAPERS.items() for table in paper.tables]


def test_every_row_can_be_sent_to_a_process_and_has_settings_of_its_own():
    for name, table in TABLES:
        pickle.loads(pickle.dumps(list(table.methods)))
        shown = [json.dumps(one.settings(), sort_keys=True) for one in table.methods]
        assert len(set(shown)) == len(shown), (name, table.title)
        assert ' at 0x' not in ''.join(shown)


def test_rows_that_are_compared_or_reported_are_rows_of_the_table():
    for name, table in TABLES:
        rows = {one.name for one in table.methods}
        against = [table.against] if isinstance(table.against, str) else [*table.against, *table.against.values()]
        assert {*filter(None, against), *table.same_turns, *table.same_turns.values(), *table.reported} <= rows, (
            table.title
        )


@pytest.mark.parametrize(
    ('name', 'number'),
    [(name, number) for name, paper in PAPERS.items() for number in range(len(paper.tables)) if name != 'tot'],
)
def test_every_row_answers_a_short_conversation(name, number):
    table = PAPERS[name].tables[number]
    built = {}
    for method in table.methods:
        memory = built.setdefault(method.memory.name, None) or method.memory.build(SHORT, RuleLM())
        built[method.memory.name] = memory
        loop = method.make(memory, SHORT, None, table.turns, table.stop)
        trace = loop.ask(SHORT.questions[0].text, budget=table.turns)
        assert trace.error is None and (table.turns is None or len(trace.read) <= table.turns), method.name


def test_a_variant_is_the_method_with_its_switches():
    memory = METHODS['memr3'].memory.build(SAMPLE, RuleLM())
    question = SAMPLE.questions[3].text
    plain, same, other = (
        one.make(memory, SAMPLE, None, 10, False).ask(question, budget=10)
        for one in (METHODS['memr3'], variant('x', 'memr3'), variant('y', 'memr3', mask=False))
    )
    assert plain.read == same.read != other.read


def test_a_report_has_what_its_tables_need_and_goes_through_json():
    paper = Paper(
        'P',
        [
            PaperTable(
                'T',
                [METHODS['rag'], variant('less', 'rag', k=3)],
                turns=5,
                against='rag',
                reported={'rag': 50.0, 'theirs': 60.0},
                same_turns={'less': 'rag'},
                judge=True,
                metrics=('judge', 'evidence_recall'),
            )
        ],
    )
    [results] = run_paper(paper, [SAMPLE], 2).values()
    report = results.to_json()
    assert json.loads(json.dumps(report)) == report and report['provenance']['model'] == 'rules'
    table = results.tables()['T: in percent [95%]']
    assert list(table.index) == ['rag', 'less', 'rag, at the turns of less', 'theirs']
    assert table.loc['theirs', 'the paper: J'] == 60.0 and table.loc['less', 'the paper: J'] == '–'
    less, cut = (report['rows'][place] for place in (1, 2))
    assert (
        less['turns']['mean'] == cut['turns']['mean'] == 3
        and less['evidence_recall'] == cut['evidence_recall']
        and cut['judge']['n'] == 0
    )
    assert less['minus']['method'] == 'rag, at the turns of less' and less['minus']['evidence_recall']['mean'] == 0


@given(st.integers(1, 6), st.integers(1, 6))
@settings(max_examples=8)
def test_cutting_is_reading_fewer(first, second):
    def rows(turns):
        return Experiment(['rag'], [SHORT], turns=turns, baselines=()).run(workers=1).rows

    cut = cut_reading(rows(6), rows(first), 'cut')
    assert (
        cut['read'].tolist() == rows(first)['read'].tolist()
        and cut.evidence_recall.tolist() == rows(first).evidence_recall.tolist()
    )
    again = cut_reading(cut, rows(second), 'again')
    assert again['read'].tolist() == rows(min(first, second))['read'].tolist() and 'f1_locomo' not in again


def test_test_of_time_is_a_dataset_like_any_other():
    paper = replace(
        PAPERS['tot'], tables=[replace(PAPERS['tot'].tables[0], methods=PAPERS['tot'].tables[0].methods[:1])]
    )
    [results] = run_paper(paper, [tot_conversation(item) for item in make_tot(8)]).values()
    [row] = results.methods
    assert row['questions'] == 8 and row['errors'] == 0 and len(row['by_category']) == 8
    assert 0 <= row['exact_match']['mean'] <= 1


def test_the_command_prints_tables_or_json(monkeypatch, capsys, tmp_path):
    small = Paper('small', [PaperTable('T', [METHODS['rag']], turns=5, categories=['open-domain'])])
    monkeypatch.setitem(papers.PAPERS, 'memr3', small)
    options = SimpleNamespace(paper='memr3', data=str(data_path('sample.json')), json=False)
    assert papers.main_paper(options) == 0 and 'T: in percent [95%]' in capsys.readouterr().out
    options.json = True
    assert papers.main_paper(options) == 0
    report = json.loads(capsys.readouterr().out)
    assert report['files'] and report['tables']['T']['rows'][0]['questions'] == 6
    assert cli.main(['paper', 'memr3', '--data', 'missing.json']) == 2
    twice = tmp_path / 'twice.json'
    twice.write_text(json.dumps(json.loads(data_path('sample.json').read_text()) * 2))
    assert cli.main(['paper', 'memr3', '--data', str(twice)]) == 2
    assert "two conversations are called 'sample'" in capsys.readouterr().err


def test_every_bank_is_built_in_the_order_of_time():
    turned = replace(SHORT, sessions=SHORT.sessions[::-1])
    banks = {
        repr(one.memory): one.memory
        for _, table in TABLES
        for one in table.methods
        if one.memory.about == MEMORIES['bank'].about
    }
    for bank in banks.values():
        assert [one.text for one in bank.build(turned, RuleLM())] == [one.text for one in bank.build(SHORT, RuleLM())]
