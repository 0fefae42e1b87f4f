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
from memnb.evaluation.datasets import load_sample
from memnb.evaluation.experiment import Experiment
from memnb.evaluation.store import ExperimentError, RowStore
from memnb.evaluation.report import figures, main_report, render_page, RunFolder


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
    assert len(pictures) == 4
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
    assert (
        '8 rows; 1 failed; 0 questions were not asked.' in text
        and text.count('ZeroDivisionError: a bug in a method') >= 2
    )
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


@given(st.lists(st.text(max_size=10), min_size=2, max_size=4, unique=True), st.floats(0, 1))
@settings(max_examples=10)
def test_a_dot_stands_for_every_mean_whatever_the_names(names, value):
    rows = [
        {'dataset': 'x', 'conversation': 'a', 'position': 0, 'repeat': 0, 'method': name, 'evidence_recall': value}
        for name in names
    ]
    [means, gains] = [
        svg
        for title, svg in figures(pandas.DataFrame(rows).assign(turns=1, **{'read_recall@5': 0}), names[0]).items()
        if '[95%]' in title
    ]
    for svg, mean, count in ((means, 100 * value, len(names)), (gains, 0, len(names) - 1)):
        root = ElementTree.fromstring(svg.replace('xlink:href', 'href'))
        texts = [''.join(one.itertext()).strip() for one in root.iter('{http://www.w3.org/2000/svg}text')]
        assert sum(text.endswith(f'{mean:.1f}') for text in texts) >= count
