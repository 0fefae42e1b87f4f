"""Results: numbers counted again from the rows by other means, and files that say what the rows say."""
import csv
import io
import json
import re
from dataclasses import asdict, replace
from statistics import mean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memnb.evaluation import metrics as answer_metrics
from memnb.evaluation.costs import as_usage, Prices
from memnb.core.roles import Usage
from memnb.evaluation.registry import chosen, MEMORIES, METHODS
from memnb.evaluation.experiment import (
    ALWAYS, category_table, difference_table, fallback_of, main_table, means_csv, method_rows,
    metrics_of, NAMES, NOTE, prompts_of, refusal_of, refusal_table, Results, save, spending,
    tidy_csv)
from memnb.evaluation.experiment import Row, value
from memnb.evaluation.experiment import Table
from memnb.evaluation.experiment import row_of

METRICS = ('recall', 'f1_locomo', 'exact_match')
shares = st.none() | st.integers(0, 4).map(lambda part: part / 4)
texts = st.none() | st.text(st.sampled_from('ab ,;"|&%_\\\n\r<–'), max_size=6)


@st.composite
def row_lists(draw, methods=('rag', 'other', 'third'), datasets=('x', 'y')):
    """Rows of some methods over the same questions; any of them may have failed, or be missing."""
    rows = []
    places = draw(st.lists(st.tuples(st.sampled_from(datasets), st.sampled_from('ab'), st.integers(0, 3), st.sampled_from(['temporal', 'multi-hop', None])),
                           min_size=1, max_size=6, unique_by=lambda one: one[:3]))
    for method in methods:
        for dataset, conversation, place, category in places:
            kind = draw(st.sampled_from(['answered', 'answered', 'answered', 'failed', 'missing']))
            if kind == 'missing':
                continue
            row = Row(conversation, place, category, method, dataset=dataset, gold=('D1:1',), refuse=draw(st.booleans()))
            scores = {name: draw(shares) for name in METRICS} | {'read_recall@5': .5, 'refused': float(draw(st.booleans()))}
            rows.append(replace(row, error='down') if kind == 'failed' else
                        replace(row, answer=draw(texts), read=('D1:2',), turns=draw(st.integers(0, 25)), scores=scores))
    return rows


def record_of(row):
    """The record of a row, as a task keeps it."""
    return {'kind': 'row', **json.loads(json.dumps(asdict(row))), 'usage': {}, 'judge_usage': {}, 'judge_error': None, 'judgement': None, 'prompts': {},
            'trace': None, 'seconds': 0.0}


def results_of(rows, **more):
    return Results([record_of(row) for row in rows], {'experiment': 'e', 'settings': {'methods': []}}, **more)


# --- numbers ---------------------------------------------------------------------------------------------------------

@given(row_lists())
@settings(max_examples=30)
def test_every_mean_is_the_mean_of_the_rows_that_did_not_fail(rows):
    found = method_rows(rows)
    assert [(one['dataset'], one['method']) for one in found] == [
        key for dataset in dict.fromkeys(row.dataset for row in rows)
        for key in dict.fromkeys((row.dataset, row.method) for row in rows if row.dataset == dataset)]
    for one in found:
        mine = [row for row in rows if (row.dataset, row.method) == (one['dataset'], one['method'])]
        assert (one['questions'], one['errors']) == (len(mine), sum(row.error is not None for row in mine))
        parts = [(one, mine)] + [(one['by_category'][name or 'none'], [row for row in mine if row.category == name])
                                 for name in {row.category for row in mine}]
        for means, part in parts:
            for name in (*METRICS, 'turns'):
                values = [value(row, name) for row in part if row.error is None and value(row, name) is not None]
                told = means.get(NAMES.get(name, name))
                assert told['n'] == len(values)
                assert told['mean'] == (pytest.approx(mean(values)) if values else None)
                assert not values or min(values) <= told['low'] <= told['mean'] <= told['high'] <= max(values)
    assert json.loads(json.dumps(found)) == found


@given(row_lists())
@settings(max_examples=30)
def test_a_difference_is_over_the_questions_that_both_were_scored_on(rows):
    for one in method_rows(rows):
        theirs = {(row.conversation, row.position): row for row in rows if (row.dataset, row.method) == (one['dataset'], 'rag')}
        if one['method'] == 'rag' or not theirs:
            assert one['minus'] is None
            continue
        mine = [row for row in rows if (row.dataset, row.method) == (one['dataset'], one['method'])]
        for name in METRICS:
            pairs = [(value(row, name), value(theirs[row.question], name)) for row in mine if row.question in theirs]
            gains = [one - other for one, other in pairs if None not in (one, other)]
            told = one['minus'].get(NAMES.get(name, name))
            assert (told['n'] if told else 0) == len(gains)
            if gains:
                assert told['mean'] == pytest.approx(mean(gains)) and told['low'] <= told['mean'] <= told['high']


@given(row_lists(methods=('rag',)))
def test_refusing_is_counted(rows):
    answered = [(bool(row.scores['refused']), row.refuse) for row in rows if row.error is None]
    found = refusal_of(rows)
    if not any(should for _, should in answered):
        assert found is None
        return
    right, wrong, missed = (answered.count(pair) for pair in ((True, True), (True, False), (False, True)))
    assert found['precision']['mean'] == (right / (right + wrong) if right + wrong else None)
    assert found['recall']['mean'] == right / (right + missed) and found['recall']['n'] == right + missed
    assert found['f1'] == pytest.approx(2 * right / (2 * right + wrong + missed))


def test_cuts_and_refusing_are_no_metrics_of_a_table():
    row = Row('c', 0, None, 'rag', scores={'recall': 1.0, 'read_recall@5': 1.0, 'refused': 0.0, 'judge': None, 'mine': 0.0})
    assert metrics_of([row]) == [*ALWAYS, 'mine'] and metrics_of([]) == [*ALWAYS] and set(answer_metrics.METRICS) < set(ALWAYS)
    failed, = method_rows([Row('c', 0, None, 'rag', error='down', dataset='x')])
    assert failed['f1_locomo'] == failed['evidence_recall'] == {'mean': None, 'low': None, 'high': None, 'n': 0, 'over': 'questions'}


# --- tables ----------------------------------------------------------------------------------------------------------

INTERVAL = re.compile(r'[+-]?\d+\.\d \[-?\d+\.\d, -?\d+\.\d\]')


@given(row_lists())
@settings(max_examples=25)
def test_no_difference_stands_without_its_interval(rows):
    found = method_rows(rows)
    for dataset in {one['dataset'] for one in found}:
        made = difference_table(found, dataset)
        compared = [one for one in found if one['dataset'] == dataset and one['minus']]
        assert (made is None) == (not compared)
        for line in made.lines if made else ():
            assert all(cell == '–' or (INTERVAL.fullmatch(cell) and cell[0] in '+-') for cell in line[1:])
        assert all(cell == '–' or INTERVAL.fullmatch(cell) for line in category_table(found, dataset).lines for cell in line[1:])
        main = main_table(found, dataset)
        assert all(cell == '–' or INTERVAL.fullmatch(cell) for line in main.lines for cell in line[2:-2])
        assert [line[-1] for line in main.lines] == [str(one['errors']) for one in found if one['dataset'] == dataset]


def test_a_method_without_its_own_tools_has_a_star_in_every_table_and_no_other_has():
    methods = chosen(['rag', 'remem', 'mragent'], ['turns', 'gists'])
    rows = [Row('c', place, 'temporal', one.name, refuse=place == 1, scores={'recall': 1.0, 'refused': 1.0}, turns=1, dataset='x')
            for one in methods for place in range(2)]
    results = results_of(rows)
    results.provenance['settings'] = json.loads(json.dumps({'methods': [one.settings() for one in methods]}))
    due = {one.name for one in methods if one.fallback}
    assert set(results.fallback) == due == {'remem over turns', 'mragent over turns', 'mragent over gists'}
    assert results.to_json()['provenance']['fallback'] == list(results.fallback)
    assert {one['method'] for one in results.to_json()['rows'] if one['fallback']} == due
    main, apart, categories, refusals = results.tables()
    for made in (main, categories, refusals):
        assert {line[0].removesuffix(' *') for line in made.lines if line[0].endswith(' *')} == due and made.note == NOTE
    assert {line[0] for line in apart.lines if line[0].endswith(' *')} == {f'{name} − rag *' for name in due}
    assert main_table(method_rows(rows), 'x', ('remem',)).note == NOTE and not main_table(method_rows(rows), 'x').note
    assert fallback_of({}) == () and fallback_of({'methods': [METHODS['rag'].over(MEMORIES['bank']).settings()]}) == ()


def test_tables_that_have_nothing_to_say_are_left_out():
    rows = [Row('c', 0, None, 'memr3', scores={'recall': 1.0, 'refused': 0.0}, turns=1, dataset='x')]
    assert [one.title.split(':')[1] for one in results_of(rows).tables()] == [' in percent [95%]', ' evidence_recall by category, in percent [95%]']
    assert refusal_table(method_rows(rows), 'x') is None and results_of([]).tables() == []
    assert str(results_of(rows, missing=3)).endswith('3 questions were not asked: the run was stopped')


# --- costs -----------------------------------------------------------------------------------------------------------

usages = st.dictionaries(st.sampled_from(['answer', 'track']), st.builds(Usage, *[st.integers(0, 1000)] * 3, st.booleans()).map(asdict), max_size=2)
spent = st.lists(st.fixed_dictionaries({'kind': st.sampled_from(['row', 'build']), 'usage': usages, 'judge_usage': usages,
                                        'seconds': st.integers(0, 9).map(float), 'prompts': st.dictionaries(st.sampled_from('ab'), st.just('h'), max_size=2)}))


@given(spent)
def test_costs_are_added_up_by_phase(records):
    found, prices = spending(records, Prices(2, 10)), Prices(2, 10)
    for phase, kind, field in (('build', 'build', 'usage'), ('ask', 'row', 'usage'), ('judge', 'row', 'judge_usage')):
        parts = [as_usage(part) for one in records if one['kind'] == kind for part in one[field].values()]
        for name in ('calls', 'prompt_tokens', 'completion_tokens'):
            assert found[phase][name] == sum(getattr(part, name) for part in parts)
        assert found[phase]['cost'] == pytest.approx(sum(map(prices.of, parts)))
        assert phase == 'judge' or found[phase]['seconds'] == sum(one['seconds'] for one in records if one['kind'] == kind)
    assert spending(records)['ask']['cost'] is None
    assert [*prompts_of(records)] == sorted({role for one in records for role in one['prompts']})


# --- files -----------------------------------------------------------------------------------------------------------

@given(rows=row_lists())
@settings(max_examples=25)
def test_what_is_written_is_what_was_found(tmp_path_factory, rows):
    folder, results = tmp_path_factory.mktemp('out'), results_of(rows)
    save(results, folder)
    assert {path.name for path in folder.iterdir()} == {'rows.jsonl', 'rows.csv', 'results.json', 'tables.csv', 'tables.md', 'tables.tex'}
    assert [row_of(json.loads(line)) for line in (folder / 'rows.jsonl').read_bytes().split(b'\n')[:-1]] == rows == results.rows
    assert json.loads((folder / 'results.json').read_text()) == results.to_json()
    with open(folder / 'rows.csv', newline='', encoding='utf-8') as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == len(rows)
    for line, row in zip(lines, rows):
        for name in ('dataset', 'conversation', 'position', 'category', 'method', 'repeat', 'answer', 'turns', 'error'):
            assert line[name] == ('' if getattr(row, name) is None else str(getattr(row, name)))
        for name, score in row.scores.items():
            assert line[NAMES.get(name, name)] == ('' if score is None else str(score))
        assert row.error is None or all(line[NAMES.get(name, name)] == '' for name in METRICS if NAMES.get(name, name) in line)
    for made, text in zip(results.tables(), (folder / 'tables.tex').read_text().split('\n\n')):
        assert text == made.to_latex()
    assert (folder / 'tables.md').read_text().startswith('\n\n'.join(one.to_markdown() for one in results.tables()))
    assert all('experiment e' in (folder / name).read_text() for name in ('tables.md', 'tables.tex'))


@given(row_lists())
@settings(max_examples=25)
def test_every_mean_has_its_line(rows):
    methods = method_rows(rows)
    lines = list(csv.DictReader(io.StringIO(means_csv(methods), newline='')))
    keys = [(line['dataset'], line['method'], line['part'], line['name'], line['metric']) for line in lines]
    assert len(set(keys)) == len(keys)
    found = dict(zip(keys, lines))
    for one in methods:
        parts = [('all', '', one), *(('category', name, means) for name, means in one['by_category'].items()),
                 *(('conversation', name, means) for name, means in one['by_conversation'].items()),
                 *([('minus', 'rag', one['minus'])] if one['minus'] else [])]
        for kind, name, means in parts:
            for metric, interval in means.items():
                if isinstance(interval, dict) and 'mean' in interval:
                    line = found.pop((one['dataset'], one['method'], kind, name, metric))
                    assert {end: line[end] for end in interval} == {end: '' if told is None else str(told) for end, told in interval.items()}
    assert not found


def test_a_file_is_replaced_as_a_whole_and_odd_texts_do_no_harm(tmp_path):
    row = Row('c', 0, '<b>|', 'rag', answer='lone \ud800 surrogate', turns=1, scores={'recall': 1.0}, dataset='50% & more')
    (tmp_path / 'tables.md').write_text('x' * 10_000)
    save(results_of([row]), tmp_path)
    assert 'x' * 100 not in (tmp_path / 'tables.md').read_text() and r'\<b>\|' in (tmp_path / 'tables.md').read_text()
    assert r'50\% \& more' in (tmp_path / 'tables.tex').read_text()
    assert isinstance(results_of([row]).tables()[0], Table) and tidy_csv([row]).count('\r\n') == 2
