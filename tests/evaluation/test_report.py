"""The page of a run: everything that was asked is on it, nothing on it can act, and a folder that is no run is refused."""

import json
import re
import sqlite3
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import pandas
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parents[1]))
from grids import grid, plain, READ
from pages_read import Page

from memnb.core.models import as_lm
from memnb.core.trace import printable
from memnb.evaluation.datasets import data_path, load_sample
from memnb.evaluation.experiment import Experiment
from memnb.evaluation.store import ExperimentError, RowStore
from memnb.evaluation.report import main_report, recall_curves, render_page, RunFolder
from memnb.evaluation.tables import percent


def text_of(folder):
    run = RunFolder(folder)
    text = ''.join(render_page(run))
    run.store.close()
    return text


@pytest.fixture(scope='module')
def sample_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp('sample') / 'run'
    Experiment(['memr3', 'mragent'], {'sample': [load_sample()]}, turns=10, categories=['multi-hop']).run(folder)
    return folder


def test_every_question_method_answer_and_gold_turn_is_on_the_page(sample_run):
    text = text_of(sample_run)
    read = Page(text)
    questions = [one for one in load_sample().questions if one.category == 'multi-hop']
    kinds = [attributes.get('class') for _, attributes in read.tags]
    assert kinds.count('q') == len(questions) and kinds.count('m') == 4 * len(questions)
    for question in questions:
        assert question.text in read.words and question.answer in read.words
        assert all(
            f'{turn}: read as no.' in read.words or f'{turn}: missed' in read.words for turn in question.evidence
        )
    for method in ('rag', 'memr3', 'mragent', 'full-context'):
        assert method in read.words
    results = json.loads((sample_run / 'results.json').read_text())
    assert results['provenance']['experiment'] in read.words and results['provenance']['day'] in read.words


def test_the_page_loads_nothing_and_its_figures_are_well_formed(sample_run):
    text = text_of(sample_run)
    assert not re.search(r'(src|href)="(?!#)', text.replace('xlink:href="#', ''))
    pictures = re.findall(r'<svg.*?</svg>', text, re.DOTALL)
    assert len(pictures) == 1
    for picture in pictures:
        ElementTree.fromstring(re.sub(r'xlink:href', 'href', picture))
    assert 'turns read</text>' in text.replace('\n', '')


HOSTILE = [
    '<script>alert(1)</script>',
    '"><img src=x onerror=alert(1)>',
    "{{ 7 * 7 }}{% raw %}",
    'right\u202eleft',
    '\x1b[31m',
    '$x$ & co',
    '</pre>',
]


@given(st.sampled_from(HOSTILE) | st.text(max_size=20))
@settings(max_examples=12)
def test_no_text_of_others_can_act_on_the_page(tmp_path_factory, text):
    folder = tmp_path_factory.mktemp('run')
    grid(
        plain(role=READ), talks=1, questions=1, lm=as_lm(lambda prompt: json.dumps({'text': text or 'x'}), 'parrot')
    ).run(folder)
    store = RowStore(folder / 'rows.sqlite')
    row = next(row for row in store.records() if row.position == 0)
    hostile = replace(row, question=text, gold_answer=text, error=text or None, category=text or None)
    store.keep(hostile, store.trace(row))
    store.close()
    read = Page(text_of(folder))
    clean = Page(text_of_clean(folder, row))
    assert read.names.count('script') == 1 and 'onerror' not in read.attributes and set(read.names) <= set(clean.names)
    assert printable(text, lines=True).strip() in read.words.replace('\r\n', '\n')
    assert not re.search('[\x00-\x08\x1b\x80-\x9f\u202a-\u202e\u2066-\u2069]', read.words)


def text_of_clean(folder, row):
    store = RowStore(folder / 'rows.sqlite')
    store.keep(replace(row, error='down'), store.trace(row))
    store.close()
    return text_of(folder)


def test_failures_are_listed_and_a_run_that_was_killed_can_be_read(tmp_path):
    experiment = grid(plain('broken', breaks_at='walk 2'), plain(), talks=1)
    experiment.run(tmp_path)
    text = text_of(tmp_path)
    assert '8 rows; 1 failed</p>' in text and text.count('ZeroDivisionError: a bug in a method') >= 2
    with sqlite3.connect(tmp_path / 'rows.sqlite') as database:
        database.execute("DELETE FROM records WHERE key LIKE '% 3]' OR key = 'provenance'")
    text = text_of(tmp_path)
    assert '6 rows; 1 failed' in text and 'The run has not ended, or was killed.' in text


@pytest.mark.parametrize('make', [lambda path: None, lambda path: path.write_text('x'), lambda path: path.mkdir()])
def test_a_folder_that_is_no_run_is_refused(tmp_path, make):
    make(tmp_path / 'folder')
    with pytest.raises(ExperimentError, match='expected the folder of an experiment'):
        RunFolder(tmp_path / 'folder')


def test_a_run_without_rows_is_refused(tmp_path):
    grid().run(tmp_path)
    with sqlite3.connect(tmp_path / 'rows.sqlite') as database:
        database.execute("DELETE FROM records WHERE key LIKE '[%'")
    with pytest.raises(ExperimentError, match='no question has been answered'):
        RunFolder(tmp_path)


def test_the_command_writes_the_page_in_place_of_what_is_there(tmp_path, capsys):
    grid().run(tmp_path / 'run')
    for out in (None, tmp_path / 'page.html'):
        assert main_report(SimpleNamespace(folder=str(tmp_path / 'run'), out=out)) == 0
        assert '8 rows' in capsys.readouterr().out
    assert (tmp_path / 'page.html').read_text() == (tmp_path / 'run' / 'report.html').read_text()
    with pytest.raises(ExperimentError, match='expected a file to write'):
        main_report(SimpleNamespace(folder=str(tmp_path / 'run'), out=tmp_path))


def test_questions_without_evidence_have_no_curves(tmp_path):
    [talk] = [replace(talk, questions=[replace(talk.questions[0], evidence=())]) for talk in [load_sample()]]
    Experiment(['rag'], [talk], baselines=()).run(tmp_path)
    text = text_of(tmp_path)
    assert '<svg' not in text and 'figures"' not in text and talk.questions[0].text in Page(text).words


def run_of(cuts, turns):
    """Rows of two methods that read equally well, one of them fewer turns."""
    rows = []
    for method, read in zip(('rag', 'twin', 'short'), turns):
        scores = {f'read_recall@{k}': 0.5 for k in cuts}
        rows.append({'dataset': 'x', 'conversation': 'a', 'position': 0, 'repeat': 0, 'method': method, 'turns': read})
        rows[-1] |= {'evidence_recall': 0.5, **scores}
    return pandas.DataFrame(rows)


def test_a_curve_ends_where_reading_ended_and_hides_no_other():
    svg = recall_curves(run_of((5, 8, 10, 15), (8, 8, 5)))
    root = ElementTree.fromstring(svg.replace('xlink:href', 'href'))
    texts = [''.join(one.itertext()).strip() for one in root.iter('{http://www.w3.org/2000/svg}text')]
    assert [text for text in texts if text in ('5', '8', '10', '15')] == ['5', '8']  # of the axis of turns
    assert all(float(text) == int(float(text)) for text in texts if text in ('5', '7.5', '8'))
    widths = re.findall(r'stroke-width: ([\d.]+); stroke-linecap: square', svg)
    assert {'rag', 'twin', 'short'} <= set(texts) and len(set(widths)) >= 2


def test_titles_and_names_are_whole_and_zero_has_no_minus(sample_run):
    text = text_of(sample_run)
    page = Page(text)
    name = 'evidence, gaps and $the$ route'
    assert name in recall_curves(run_of((5,), (5, 5, 5)).replace('twin', name))
    assert percent(-0.0004, '+') == '+0.0' and percent(-0.0004) == '0.0' and percent(0.5) == '50.0'
    assert '-0.0' not in page.words


def test_provenance_and_costs_are_tables_and_nested_values_are_folded(sample_run):
    text = text_of(sample_run)
    spent = text[text.index('id="spent"') : text.index('id="failures"')]
    provenance = text[text.index('id="provenance"') : text.index('id="questions"')]
    assert '<th scope="col">prompt tokens</th>' in spent and '<pre>' not in spent and '{' not in spent
    assert '<summary>settings</summary><pre>' in provenance and '{' not in provenance.partition('<details>')[0]


def test_a_report_and_its_tables_are_called_by_what_was_measured(tmp_path, capsys):
    from memnb.cli import main

    own = tmp_path / 'Wayfarer talks.v2.json'
    own.write_bytes(data_path('sample.json').read_bytes())
    for data, name in (('octet', 'octet'), (str(own), 'Wayfarer talks.v2')):
        out = tmp_path / name
        words = ['bench', '--data', data, '--methods', 'rag', '--no-full-context', '--categories', 'open-domain']
        assert main([*words, '--out', str(out)]) == 0 and main(['report', str(out)]) == 0
        printed = capsys.readouterr().out
        assert printed.startswith(f'{name}: in percent') and '\nlocomo:' not in printed
        assert set(pandas.read_csv(out / 'rows.csv').dataset) == {name}
        assert f'<title>Experiment: {name}</title>' in (out / 'report.html').read_text(encoding='utf-8')
        assert json.loads((out / 'results.json').read_text())['provenance']['format'] == 'locomo'
