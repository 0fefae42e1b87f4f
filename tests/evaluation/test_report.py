"""The report: marks at the places that their values say, every row once, no text that becomes markup, no folder changed."""
import json
import math
import re
import shutil
import subprocess
from dataclasses import replace
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from memnb.evaluation import report as figures
from memnb.evaluation.report import dots_svg, lines_svg, Point, Scale, scatter_svg, spread, step_of
from memnb.core.conversation import Conversation
from memnb.evaluation.datasets import load_sample
from memnb.evaluation.experiment import Experiment
from memnb.evaluation.report import curve_chart, difference_charts, metric_charts, recall_curves, table_html
from memnb.evaluation.report import (
    Folder, FolderError, keys_of, LONGEST, questions_of, rows_of, shortened, state_of, trace_of)
from memnb.core.roles import LM, LMError
from memnb.evaluation.report import differences, questions_html
from memnb.evaluation.report import (
    block_html, failures_html, main_report, pieces_of, report, spending_table, write)
from memnb.evaluation.experiment import method_rows
from memnb.evaluation.experiment import Row
from memnb.evaluation.experiment import Table
from memnb.core.trace import mend, printable
from pages_read import Page

EVIL = '</script></pre><script>alert(1)</script>]]><img src=x onerror=alert(2)>"\' \ud800 \u202e \u200f \x00 <!-- &amp; </svg>'
few = settings(max_examples=25, deadline=None)
percent = st.floats(-100, 100, allow_subnormal=False).map(lambda value: round(value, 3))
ends = st.lists(percent, min_size=3, max_size=3).map(sorted)
points = st.lists(ends, min_size=1, max_size=6).map(lambda all: [Point(f'm{place}', one[1], one[0], one[2]) for place, one in enumerate(all)])
anything = st.text(max_size=30) | st.sampled_from([EVIL, 'a</script>', '\u200f\u05d0\u05d1', '\ud83d', '\uffff\ufffe', ']]>', '', ' '])


def number(text):
    return float(text.replace(',', ''))


def line_through(ticks):
    """What value a place has, from the first and the last label of an axis."""
    (p0, v0), (p1, v1) = ticks[0], ticks[-1]
    return lambda place: v0 + (v1 - v0) * (place - p0) / (p1 - p0)


def axes(svg):
    """The picture, and the labels of its axes as (place, value): below and at the left."""
    root = ElementTree.fromstring(svg)
    texts = [one for one in root if one.tag.endswith('text') and re.fullmatch(r'[-+\d.,e]+', one.text or '')]
    below = [(float(one.get('x')), number(one.text)) for one in texts if one.get('text-anchor') == 'middle']
    beside = [(float(one.get('y')) - 4.5, number(one.text)) for one in texts if one.get('text-anchor') == 'end']
    return root, below, beside


def close(found, wanted, scale):
    return abs(found - wanted) <= .003 * max(1e-6, abs(scale[-1][1] - scale[0][1]))


# --- charts ----------------------------------------------------------------------------------------------------------

@given(points, st.booleans())
def test_dots_and_whiskers_stand_where_their_values_say(found, difference):
    root, below, _ = axes(dots_svg(found, 'a title', difference))
    value = line_through(below)
    groups = [one for one in root if one.get('class') == 'point']
    assert len(groups) == len(found)
    for group, point in zip(groups, found):
        dot = next(one for one in group if one.tag.endswith('circle'))
        low, high = map(float, re.match(r'M([-\d.e]+) \S+H([-\d.e]+)M', next(one for one in group if one.tag.endswith('path')).get('d')).groups())
        for place, wanted in ((float(dot.get('cx')), point.mean), (low, point.low), (high, point.high)):
            assert close(value(place), wanted, below), (value(place), wanted)
        assert group[0].text == f'{point.name}: {point}'
    if difference:
        zero = [one for one in root if one.get('class') == 'zero']
        assert len(zero) == 1 and close(value(float(zero[0].get('d').split()[0][1:])), 0, below)


def marks(root):
    return [tuple(map(float, re.findall(r'[-\d.e]+', one.get('transform').removeprefix('translate')))) for one in root.iter() if one.get('class') == 'mark']


@given(st.lists(st.lists(percent, min_size=3, max_size=3), min_size=1, max_size=5))
def test_curves_go_through_their_values(heights):
    lines = {f'm{place}': list(zip((5, 10, 25), one)) for place, one in enumerate(heights)}
    root, below, beside = axes(lines_svg(lines, 'a title', ('k', 'percent')))
    across, up = line_through(below), line_through(beside)
    wanted = [place for line in lines.values() for place in line]
    found = marks(root)
    assert len(found) == len(wanted)
    for (x, y), (k, height) in zip(found, wanted):
        assert close(across(x), k, below) and close(up(y), height, beside)
    paths = [one.get('points') for one in root.iter() if one.tag.endswith('polyline')]
    assert ' '.join(paths).split() == [f'{x:g},{y:g}' for x, y in found]


@given(points, st.lists(st.floats(1, 1e6, allow_subnormal=False).map(lambda cost: round(cost, 2)), min_size=6, max_size=6))
def test_costs_stand_where_their_values_say_on_either_scale(found, costs):
    found = [replace(one, x=cost) for one, cost in zip(found, costs)]
    root, below, beside = axes(scatter_svg(found, 'a title', ('tokens', 'percent')))
    log = max(one.x for one in found) > 20 * min(one.x for one in found)
    below = [(place, math.log(value)) for place, value in below] if log else below
    across, up = line_through(below), line_through(beside)
    for (x, y), point in zip(marks(root), found, strict=True):
        assert close(across(x), math.log(point.x) if log else point.x, below) and close(up(y), point.mean, beside)


@example([99.9, 100.0], False)
@example([.3, .5], False)
@given(st.lists(st.floats(-1e6, 1e6, allow_subnormal=False), min_size=1, max_size=6), st.booleans())
def test_a_scale_holds_its_values_and_has_few_even_round_ticks(values, log):
    values = [abs(value) + 1e-3 for value in values] if log else [round(value, 6) for value in values]
    scale = Scale.over(values, 10, 110, log)
    ticks = scale.ticks()
    assert scale.start <= min(values) and max(values) <= scale.end and 2 <= len(ticks)
    assert all(10 - .02 <= scale.place(value) <= 110 + .02 for value in (*values, *ticks))
    places = [scale.place(value) for value in sorted(values)]
    assert places == sorted(places)
    if not log:
        steps = {round((after - before) / (ticks[1] - ticks[0]), 4) for before, after in zip(ticks, ticks[1:])}
        width = scale.end - scale.start
        assert abs(ticks[0] - scale.start) < 1e-6 * width and abs(ticks[-1] - scale.end) < 1e-6 * width
        assert steps == {1} and len(ticks) <= 9 and str(f'{ticks[1] - ticks[0]:.3e}')[0] in '125'


@given(st.floats(1e-9, 1e9), st.integers(1, 9))
def test_a_step_is_round_and_the_smallest_that_will_do(width, most):
    step = step_of(width, most)
    assert f'{step:.6e}'[0] in '125' and width <= most * step * 1.0001
    smaller = step / (2.5 if f'{step:.6e}'[0] == '5' else 2)
    assert width > most * smaller * .9999


def test_a_scale_of_nothing_and_a_logarithm_of_nothing_are_refused():
    for values, log in (([], False), ([0, 5], True)):
        with pytest.raises(ValueError, match='expected values'):
            Scale.over(values, 0, 1, log)


@given(st.lists(st.floats(0, 100), min_size=1, max_size=6))
def test_labels_keep_a_distance_and_their_order_and_those_apart_stay(places):
    found = spread(places, 15, 0, 100)
    ordered = sorted(found)
    assert all(after - before >= 15 - 1e-9 for before, after in zip(ordered, ordered[1:]))
    assert [places[place] for place in sorted(range(len(found)), key=found.__getitem__)] == sorted(places)
    assert 0 <= min(found) and max(found) <= 100 + 1e-9
    wanted = sorted(places)
    if all(after - before >= 15 for before, after in zip(wanted, wanted[1:])):
        assert found == places


def test_names_of_marks_that_are_near_do_not_lie_on_each_other():
    found = [Point('method ' + letter, 50 + place / 10, 40, 60, 10) for place, letter in enumerate('abcde')]
    found.append(Point('another', 90, 80, 100, 30))
    root = ElementTree.fromstring(scatter_svg(found, '', ('', '')))
    lines = [float(one.get('y')) for group in root if (group.get('class') or '').startswith('k') for one in group if one.tag.endswith('text')]
    near = sorted(lines[:5])
    assert all(after - before >= 14.9 for before, after in zip(near, near[1:]))


@given(anything, anything)
def test_a_name_in_a_chart_is_only_a_name(name, title):
    drawn = [dots_svg([Point(name, 1, 0, 2)], title), lines_svg({name: [(1, 2), (2, 3)]}, title, (name, title)), scatter_svg([Point(name, 1, 0, 2, 3)], title, (name, title))]
    plain = [dots_svg([Point('m', 1, 0, 2)], 't'), lines_svg({'m': [(1, 2), (2, 3)]}, 't', ('x', 'y')), scatter_svg([Point('m', 1, 0, 2, 3)], 't', ('x', 'y'))]
    for one, other in zip(drawn, plain):
        assert [each.tag for each in ElementTree.fromstring(one).iter()] == [each.tag for each in ElementTree.fromstring(other).iter()]


# --- figures ---------------------------------------------------------------------------------------------------------

def row(method, position=0, conversation='c', turns=25, dataset='d', **scores):
    return Row(conversation, position, 'temporal', method, 'a', gold=('t',), turns=turns, scores={name.replace('__', '@'): one for name, one in scores.items()}, dataset=dataset)


def test_every_figure_of_a_chart_is_in_the_table_beside_it():
    rows = [row(method, place, recall=(place + shift) % 3 / 2, f1_locomo=.3) for shift, method in enumerate(('rag', 'x', 'y')) for place in range(5)]
    methods = method_rows(rows)
    for chart in metric_charts(methods) + difference_charts(methods):
        drawn = re.findall(r'<g class="point"><title>(\S+): (.*?)</title>', chart)
        written = re.findall(r'<tr><th scope="row" dir="auto">(\S+)</th><td dir="auto">(.*?)</td>', chart)
        assert drawn and [name for name, _ in drawn] == [name for name, _ in written]
        for (_, told), (_, cell) in zip(drawn, written):
            assert [number(part) for part in re.findall(r'[-\d.]+', told)] == [number(part) for part in re.findall(r'[-\d.]+', re.sub('<.*?>', '', cell))]
    assert len(metric_charts(methods)) == 2 and len(difference_charts(methods)) == 2


def test_a_method_without_a_metric_has_no_dot_and_without_plain_retrieval_nothing_is_compared():
    methods = method_rows([row('x', recall=1.0, judge=None), row('y', recall=.5, judge=1.0)])
    judged = next(chart for chart in metric_charts(methods) if 'judge' in chart)
    assert re.findall(r'class="point"><title>(\S+): ', judged) == ['y']
    assert difference_charts(methods) == [] and curve_chart([row('x', recall=1.0)]) == []


def test_a_curve_is_the_mean_over_questions_with_gold_and_an_unlimited_method_is_in_the_table_only():
    rows = [row(name, place, turns=turns, read_recall__5=share, read_recall__10=1.0)
            for name, turns, share in (('x', 10, .5), ('all', 90, .1)) for place in range(4)] + [row('x', 9, turns=10, read_recall__5=None)]
    curves = recall_curves(rows)
    assert {name: [(k, one.mean, one.n) for k, one in curve.items()] for name, curve in curves.items()} == {
        'x': [(5, .5, 4), (10, 1.0, 4)], 'all': [(5, pytest.approx(.1), 4), (10, 1.0, 4)]}
    [chart] = curve_chart(rows)
    svg, table = chart.split('</svg>')
    assert 'all' not in re.findall(r'<title>(.*?)</title>', svg) and '>all</th>' in table and 'far more: all' in svg


@given(st.lists(st.lists(anything, min_size=2, max_size=2), min_size=1, max_size=3), anything)
def test_a_table_shows_all_cells_and_no_markup_of_theirs(lines, title):
    read = Page(table_html(Table(title, ('a', 'b'), tuple(map(tuple, lines)))))
    assert set(read.names) <= {'div', 'table', 'caption', 'thead', 'tbody', 'tr', 'th', 'td', 'small'}
    for cell in (cell for line in lines for cell in line if ' [' not in cell):
        assert printable(cell) in read.words


# --- folders ---------------------------------------------------------------------------------------------------------

def record(method='rag', position=0, conversation='c', dataset='d', repeat=0, word='word', error=None, read=('t', 'u'), gold=('t',), **more):
    trace = {'question': word, 'method': method, 'model': 'rules', 'answer': word, 'evidence': list(gold), 'read': list(read), 'error': error, 'steps': [
        {'kind': 'search', 'iteration': 1, 'query': word, 'k': 1, 'hits': [{'id': turn, 'text': word} for turn in read]}]}
    recall = sum(turn in read for turn in gold) / len(gold) if gold else None
    return {'kind': 'row', 'experiment': 'e', 'dataset': dataset, 'conversation': conversation, 'method': method, 'repeat': repeat, 'position': position,
            'category': word, 'question': word, 'gold_answer': word, 'answer': None if error else word, 'evidence': list(gold), 'gold': list(gold),
            'read': list(read), 'turns': len(read), 'error': error, 'refuse': False, 'usage': {}, 'judge_usage': {}, 'judge_error': None, 'judgement': word,
            'scores': {} if error else {'recall': recall, 'f1_locomo': .5}, 'prompts': {}, 'seconds': .01, 'trace': trace, **more}


def folder_of(path, records, methods=('rag', 'x'), results=None, **more):
    """A folder as a run would have left it, with these records in one task file."""
    (path / 'tasks').mkdir(parents=True, exist_ok=True)
    (path / 'experiment.json').write_text(json.dumps({'experiment': 'e', 'settings': {
        'methods': [{'method': name} for name in methods], 'repeats': 1, 'turns': 25, 'judge': None, 'memnb': '1', **more}}))
    (path / 'tasks' / 'a.jsonl').write_bytes(b''.join(json.dumps(one).encode() + b'\n' for one in records))
    if results is not None:
        (path / 'results.json').write_text(json.dumps({'rows': [], 'provenance': {'experiment': 'e', **results}}))
    return path


def bytes_of(path):
    return {one: one.read_bytes() for one in path.rglob('*') if one.is_file()}


@few
@example([('x', 0, 'c', 'e', 'busy'), ('x', 0, 'c', 'e', None), ('rag', 0, 'c', 'e', None), ('rag', 0, 'c', 'other', 'busy')], 1.0)
@given(st.lists(st.tuples(st.sampled_from(['rag', 'x']), st.integers(0, 1), st.sampled_from(['c', 'c', 'b']), st.sampled_from(['e', 'e', 'other']), st.sampled_from([None, 'busy'])), min_size=1, max_size=10), st.just(1.0) | st.floats(0, 1))
def test_the_last_whole_row_of_each_question_is_read_and_nothing_is_changed(tmp_path_factory, made, part):
    path = folder_of(tmp_path_factory.mktemp('run'), [record(method, position, conversation, experiment=experiment, error=error, answer=str(place))
                                                      for place, (method, position, conversation, experiment, error) in enumerate(made)])
    file = path / 'tasks' / 'a.jsonl'
    whole = file.read_bytes()
    file.write_bytes(whole[:int(part * len(whole))])
    before, lines = bytes_of(path), file.read_bytes().split(b'\n')[:-1]
    kept = [json.loads(line) for line in lines]
    wanted = {(one['conversation'], one['method'], one['position']): one['answer'] for one in kept if one['experiment'] == 'e'}
    if not wanted:
        with pytest.raises(FolderError, match='expected rows of experiment e'):
            Folder.read(path)
    else:
        folder = Folder.read(path)
        assert {(key[1], key[2], key[4]): one['answer'] for key, one in folder.last.items()} == wanted
        assert len(folder.everything) == sum(one['experiment'] == 'e' for one in kept)
        assert sorted(folder.last) == sorted(folder.stories) == sorted(keys_of(folder))
        groups = questions_of(folder)
        assert sorted(key for keys in groups.values() for key in keys) == sorted(wanted_key(one) for one in wanted)
        assert state_of(folder) == state_by_hand(wanted, folder)
    assert bytes_of(path) == before


def wanted_key(key):
    conversation, method, position = key
    return 'd', conversation, method, 0, position


def state_by_hand(wanted, folder):
    due = 2 * len({(conversation, position) for conversation, _, position in wanted})
    failed = sum(one['error'] is not None for one in folder.last.values())
    return type(state_of(folder))(len(wanted), due - len(wanted), failed, False)


def test_rows_are_those_of_the_run_in_its_order_and_all_are_there(tmp_path):
    sample = load_sample()
    parts = [Conversation(name, sample.sessions, sample.questions[first:first + 2]) for name, first in (('z', 0), ('a', 2))]
    parts = [replace(one, questions=tuple(replace(each, conversation=one.id) for each in one.questions)) for one in parts]
    results = Experiment(['rag', 'memr3'], {'two': parts[:1], 'one': parts[1:]}, repeats=2, baselines=()).run(tmp_path)
    folder = Folder.read(tmp_path)
    assert rows_of(folder) == results.rows and len(folder.last) == 16
    assert [group[:2] for group in questions_of(folder)] == [('two', 'z')] * 2 + [('one', 'a')] * 2
    state = state_of(folder)
    assert (state.rows, state.missing, state.failed, state.exact) == (16, 0, 0, True) and 'All 16 rows' in str(state)
    page = report(tmp_path)
    read = Page(page)
    counts = {kind: sum(tag == kind and (marks.get('class') or '').startswith('m m') for tag, marks in read.tags) for kind in ('tr', 'details')}
    assert counts == {'tr': 16, 'details': 16} and page.count('(repeat 2)') == 3 * 8
    for dataset in ('two', 'one'):
        assert f'<h2>{dataset}: metrics by method</h2>' in page
    assert not re.search(r'url\(|@import|https?://(?!www\.w3\.org/2000/svg)|\bsrc=', page)
    ids = [marks['id'] for _, marks in read.tags if 'id' in marks]
    links = {marks['href'].removeprefix('#') for tag, marks in read.tags if tag == 'a'}
    assert len(ids) == len(set(ids)) and links <= set(ids) and links
    for svg in re.findall(r'<svg.*?</svg>', page):
        assert ElementTree.fromstring(svg)[0].text


@pytest.mark.parametrize('spoil, told', [
    (lambda path: shutil.rmtree(path), 'no such folder'),
    (lambda path: [shutil.rmtree(path), path.mkdir()], 'an empty folder'),
    (lambda path: (path / 'experiment.json').unlink(), 'no such file in it'),
    (lambda path: [shutil.rmtree(path), path.write_text('x')], 'a file'),
    (lambda path: (path / 'experiment.json').write_text('{'), 'expected JSON'),
    (lambda path: (path / 'experiment.json').write_text('[]'), 'expected a JSON object, got list'),
    (lambda path: (path / 'experiment.json').write_text('{"a": 1}'), r'expected `experiment` and `settings`'),
    (lambda path: (path / 'results.json').write_text('{'), r'results.json: expected JSON'),
    (lambda path: shutil.rmtree(path / 'tasks'), 'no question has been answered yet'),
    (lambda path: (path / 'tasks' / 'a.jsonl').write_bytes(b'{}\n'), 'line 1: expected a record'),
    (lambda path: (path / 'tasks' / 'a.jsonl').write_bytes(b'\xff\n'), 'line 1: expected a record'),
    (lambda path: (path / 'tasks' / 'a.jsonl').write_bytes(b'{"kind": "row"}\n'), 'expected a record with dataset, conversation'),
    (lambda path: (path / 'tasks' / 'a.jsonl').write_text(json.dumps({**record(), 'trace': {'steps': 3}}) + '\n'), 'expected a trace'),
])
def test_what_is_no_experiments_folder_is_told_what_is_wrong_with_it(tmp_path, spoil, told):
    path = folder_of(tmp_path / 'run', [record()])
    spoil(path)
    with pytest.raises(FolderError, match=told):
        report(path)


def test_a_stopped_a_killed_and_a_failed_run_say_what_is_missing(tmp_path, capsys):
    path = folder_of(tmp_path, [record(position=0), record('x'), record(position=1, error='ServerError: busy')], results={'data': {'d': {'asked': 4, 'conversations': ['c']}}})
    assert str(state_of(Folder.read(path))) == '5 of 8 questions were not asked: the run was stopped. 1 failed.'
    (path / 'results.json').unlink()
    assert main_report(SimpleNamespace(folder=str(path), out=None)) == 0
    told = capsys.readouterr()
    assert 'report.html: 3 rows' in told.out and 'without one: at least 1.' in told.err
    page = (path / 'report.html').read_text(encoding='utf-8')
    assert 'without one: at least 1.' in page and 'only their differences compare' in page and 'ServerError: busy' in page and 'href="#q2"' in page and 'id="q2"' in page


def test_results_of_another_experiment_are_not_its_provenance(tmp_path):
    path = folder_of(tmp_path, [record()], results={'experiment': 'other', 'model': 'another'})
    assert Folder.read(path).results == {} and 'another' not in report(path)


def test_rows_alone_make_a_report_without_traces(tmp_path):
    path = folder_of(tmp_path, [])
    shutil.rmtree(path / 'tasks')
    (path / 'rows.jsonl').write_text(json.dumps({**record(), 'trace': None}) + '\n')
    assert 'The trace is not in this folder.' in report(path)


@given(st.lists(st.text('ab', max_size=9), max_size=30).map('\n'.join), st.integers(1, 60))
def test_a_shortened_text_fits_and_has_both_ends(text, longest):
    short = shortened(text, longest)
    if len(text) <= longest:
        assert short == text
    else:
        head, tail = re.split(r'\n\[… [-\d,]+ characters …\]\n', short)
        assert len(head) + len(tail) <= longest and text.startswith(head) and text.endswith(tail)


def test_a_step_of_an_unknown_kind_is_shown_as_a_note():
    trace = trace_of({**record()['trace'], 'steps': [{'kind': 'dance', 'partner': 'Zofia'}]})
    assert 'dance: partner: Zofia' in trace.to_text(brief=True)


# --- questions -------------------------------------------------------------------------------------------------------

def in_memory(word, **more):
    one = record(**{'word': word, 'method': word, 'dataset': word, 'conversation': word, 'gold': (word,), 'read': (word,), **more})
    key = tuple(one[name] for name in ('dataset', 'conversation', 'method', 'repeat', 'position'))
    return Folder(None, 'e', {'methods': [{'method': word}], 'turns': 25}, {}, {key: one}, [one], {key: word}, {(word, word, word): word})


def kinds(word, **more):
    return Page(''.join(questions_html(in_memory(word, **more), [word], ['f1_locomo']))).names


@given(anything.filter(str.strip))
def test_no_text_becomes_markup_and_each_is_shown(word):
    assert kinds(word) == kinds('plain')
    assert kinds(word, error=word) == kinds('plain', error='plain')
    assert kinds(word, judge_error=word) == kinds('plain', judge_error='plain')
    words = Page(''.join(questions_html(in_memory(word), [word]))).words
    assert printable(mend(word)) in words


@few
@given(anything.filter(str.strip))
def test_a_whole_page_of_hostile_texts_has_the_elements_of_a_plain_one(tmp_path_factory, word):
    def page(word):
        path = folder_of(tmp_path_factory.mktemp('run'), [record(word=mend(word), method=mend(word), error=error, position=place) for place, error in enumerate((None, mend(word)))],
                         methods=[mend(word)], results={'data': {'d': {'asked': 2, 'conversations': ['c'], word: word}}, 'model': word, 'prompts': {word: word}})
        return report(path)
    assert Page(page(word)).names == Page(page('plain')).names
    assert page(word).encode()


@given(st.lists(st.tuples(st.lists(st.sampled_from('abcx'), unique=True), st.sampled_from([0, .5, None]), st.booleans()), min_size=1, max_size=4))
def test_methods_differ_where_they_differ(made):
    records = [{'gold': ['a', 'b'], 'read': read, 'evidence': [], 'scores': {'f1_locomo': f1}, 'error': 'busy' if failed else None} for read, f1, failed in made]
    found = differences(records, range(len(made)))
    assert found.found == any(set(read) & {'a', 'b'} != set(other) & {'a', 'b'} for read, *_ in made for other, *_ in made)
    assert found.scores == any(f1 != other for _, f1, _ in made for _, other, _ in made)
    assert found.missed == tuple(place for place, (read, *_) in enumerate(made) if not {'a', 'b'} <= set(read))
    assert found.failed == tuple(place for place, (*_, failed) in enumerate(made) if failed)
    limited = [one for one in records if len(one['read']) <= 2]
    assert differences(records, range(len(made)), 2).found == (differences(limited, range(len(limited))).found if limited else False)


@given(anything.filter(str.strip), anything.filter(str.strip))
def test_the_filter_knows_conversations_and_categories_by_what_the_page_says_of_them(dataset, conversation):
    one = in_memory('w', dataset=dataset, conversation=conversation, category=dataset)
    tags = Page(''.join(questions_html(one, ['w']))).tags
    marks = next(marks for tag, marks in tags if marks.get('class') == 'q')
    values = [marks['value'] for tag, marks in tags if tag == 'option']
    assert json.dumps([marks['data-dataset'], marks['data-conversation']], ensure_ascii=False, separators=(',', ':')) in values
    assert '=' + marks['data-category'] in values


def test_2500_long_traces_are_some_12_megabytes():
    story = '\n'.join(['searched   ' + 'a query with some words ' * 4] * 60)
    assert len(shortened(story)) <= LONGEST + 40
    one = record(read=[f'D{place}:1' for place in range(25)])
    keys = [('d', 'c', method, 0, position) for position in range(417) for method in 'abcdef']
    folder = Folder(None, 'e', {'methods': [{'method': name} for name in 'abcdef']}, {}, {key: {**one, 'method': key[2], 'position': key[4]} for key in keys}, [],
                    dict.fromkeys(keys, shortened(story)))
    size = sum(len(piece.encode()) for piece in questions_html(folder, list('abcdef'), ['f1_locomo']))
    assert 8e6 < size < 13e6


def test_the_filter_works_in_a_browser(tmp_path):
    browser = next(filter(None, map(shutil.which, ('chromium', 'chromium-browser', 'google-chrome'))), None)
    if browser is None:
        pytest.skip('no chromium')
    path = folder_of(tmp_path, [record(method, position, word=f'word{position}', read=read) for position in range(3)
                                for method, read in (('rag', ('t',)), ('x', ('t',) if position else ('u',)))])
    steps = [['words', 'word2'], ['words', ''], ['show', 'found'], ['method', '0'], ['show', 'missed'], ['method', '1']]
    probe = """<script>var form = document.getElementById('filter'), told = [], steps = %s
function go(i) { if (i === steps.length) { document.body.innerHTML = '<pre>' + told.join(';') + '</pre>'; return }
 form.elements[steps[i][0]].value = steps[i][1]; form.dispatchEvent(new Event('input'))
 setTimeout(function () { told.push(form.querySelector('output').textContent[0] + Array.from(document.querySelectorAll('tr.m')).filter(function (row) {
  return !row.closest('.q').hidden && getComputedStyle(row).display !== 'none' }).length); go(i + 1) }, 200) }
go(0)</script>""" % json.dumps(steps)
    (tmp_path / 'page.html').write_text(report(path).replace('</main></body>', '</main>' + probe + '</body>'), encoding='utf-8')
    try:
        done = subprocess.run([browser, '--headless', '--no-sandbox', '--disable-gpu', f'--user-data-dir={tmp_path}/profile', '--virtual-time-budget=9000', '--dump-dom',
                               (tmp_path / 'page.html').as_uri()], capture_output=True, text=True, timeout=60)
    except (subprocess.TimeoutExpired, OSError) as error:
        pytest.skip(f'the browser did not answer: {error}')
    found = re.search('<pre>(.*?)</pre></body>', done.stdout)
    if not found and 'id="filter"' not in done.stdout:
        pytest.skip('the browser showed nothing')
    assert found.group(1) == '12;36;12;11;00;11'


# --- the page --------------------------------------------------------------------------------------------------------

values = st.recursive(st.none() | st.booleans() | st.integers() | anything, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(anything, inner, max_size=3), max_leaves=8)


def leaves(thing):
    """All names and plain values in a JSON value, as they are shown."""
    if isinstance(thing, dict):
        return [leaf for name, one in thing.items() for leaf in (str(name), *leaves(one))]
    if isinstance(thing, list):
        return [leaf for one in thing for leaf in leaves(one)]
    return [] if thing is None or isinstance(thing, bool) else [str(thing)]


@given(values)
def test_a_block_of_provenance_shows_all_that_is_in_it(thing):
    read = Page(block_html(thing))
    assert set(read.names) <= {'dl', 'div', 'dt', 'dd', 'ol', 'li', 'bdi', 'span', 'code', 'table', 'thead', 'tbody', 'tr', 'th', 'td'}
    shown = ' '.join(read.words.split())
    for leaf in leaves(thing):
        assert ' '.join(printable(leaf).split()) in shown


def test_a_fallback_is_marked_with_its_note_and_refusals_have_a_table(tmp_path):
    made = [record(method, place, refuse=place == 0, scores={'recall': 1.0, 'refused': float(place == 0)}) for place in range(3) for method in ('rag', 'x')]
    path = folder_of(tmp_path, made)
    assert 'refusals, in percent' in report(path) and 'x *</th>' not in report(path)
    settings = json.loads((path / 'experiment.json').read_text())
    settings['settings']['methods'][1]['fallback'] = True
    (path / 'experiment.json').write_text(json.dumps(settings))
    page = report(path)
    assert 'x *</th>' in page and 'without those that it was made for' in page
    Page(page)


def test_spending_counts_each_try_by_method_and_phase(tmp_path):
    used = {'answer': {'calls': 1, 'prompt_tokens': 10, 'completion_tokens': 2, 'estimated': False}}
    path = folder_of(tmp_path, [record(usage=used, error='busy'), record(usage=used), record('x', usage=used, judge_usage=used)],
                     results={'spent': {'ask': {'cost': 1.5}, 'build': {'cost': 0.0}, 'judge': {'cost': .25}}})
    table = spending_table(Folder.read(path))
    assert table.columns == ('methods', 'phase', 'calls', 'tokens in', 'tokens out', 'seconds', 'dollars')
    assert {line[:2]: line[2:5] + line[6:] for line in table.lines} == {
        ('all', 'build'): ('0', '0', '0', '0.00'), ('all', 'ask'): ('3', '30', '6', '1.50'), ('all', 'judge'): ('1', '10', '2', '0.25'),
        ('rag', 'ask'): ('2', '20', '4', '–'), ('x', 'ask'): ('1', '10', '2', '–'), ('x', 'judge'): ('1', '10', '2', '–')}


def test_failures_stand_apart_each_with_a_way_to_its_question(tmp_path):
    path = folder_of(tmp_path, [record(position=place, error=error, judge_error=judge) for place, (error, judge) in enumerate(((None, None), ('<busy>', None), (None, 'no verdict')))])
    found = failures_html(Folder.read(path))
    assert re.findall(r'href="(.*?)".*?<td>(failed|not judged)</td><td><bdi>(.*?)</bdi>', found) == [('#q2', 'failed', '&lt;busy&gt;'), ('#q3', 'not judged', 'no verdict')]


class Down(LM):
    """A model that never answers."""
    name = 'down'

    def call(self, role, /, **inputs):
        raise LMError('nobody there')


def test_an_experiment_whose_model_is_down_has_a_report(tmp_path):
    sample = load_sample()
    Experiment(['rag'], [replace(sample, questions=sample.questions[:2])], lm=Down(), build_lm=None, baselines=()).run(tmp_path)
    page = report(tmp_path)
    assert '2 failed' in page and page.count('nobody there') >= 2
    Page(page)


def test_a_page_replaces_the_one_before_as_a_whole_or_not_at_all(tmp_path):
    def failing():
        yield 'half'
        raise OSError('no space')
    file = tmp_path / 'a.html'
    assert write(['a', '\ud800'], file) == 2
    with pytest.raises(OSError, match='no space'):
        write(failing(), file)
    assert file.read_text() == 'a?' and [one.name for one in tmp_path.iterdir()] == ['a.html']


def test_the_page_goes_where_it_is_told(tmp_path, capsys):
    path = folder_of(tmp_path / 'run', [record()], methods=['rag'])
    out = tmp_path / 'page.html'
    assert main_report(SimpleNamespace(folder=str(path), out=str(out))) == 0
    assert out.read_text(encoding='utf-8') == report(path) == ''.join(pieces_of(Folder.read(path)))
    assert not (path / 'report.html').exists()
    with pytest.raises(OSError):
        main_report(SimpleNamespace(folder=str(path), out=str(tmp_path / 'nowhere' / 'page.html')))
    with pytest.raises(FolderError, match='expected a file to write'):
        main_report(SimpleNamespace(folder=str(path), out=str(tmp_path)))


def test_prices_are_drawn_only_where_they_are_known():
    methods = method_rows([row('rag', recall=.5), row('x', recall=1.0)])
    known = {'rag': {'tokens': 10, 'seconds': 1}, 'x': {'tokens': 0, 'seconds': 2}}
    [chart] = figures.cost_charts(methods, known)
    assert 'against seconds' in chart and figures.cost_charts(methods, {'rag': {'seconds': 1}, 'x': {'seconds': 1}}) == []
