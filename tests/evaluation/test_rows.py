"""Rows and tables: a perfect, an empty and a failing loop over a conversation of two sessions, counted by hand; tables that come back as they were written."""
import csv
import io
import json
import re
from argparse import Namespace
from dataclasses import asdict, replace
from datetime import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memnb.evaluation import papers as bench
from memnb.evaluation.papers import (
    Addressed, AGAINST, main_bench, memr3_methods, memr3_report, memr3_rows, memr3_tables, ORDER)
from memnb.cli import main
from memnb.core.conversation import Conversation, Question, Session, Turn
from memnb.evaluation.datasets import data_path, DatasetError, load_sample
from memnb.evaluation.papers import setting_tables
from memnb.evaluation.metrics import f1_locomo, METRICS
from memnb.evaluation.experiment import (
    answer_scores, CATEGORIES, cut, evaluate, read_scores, Row, score, split_by, value)
from memnb.evaluation.experiment import (
    csv_text, difference, gain, interval_of, latex_text, markdown_text, same_questions, summary,
    Table, table)
from memnb.evaluation.metrics import bootstrap
from memnb.core.loop import Loop
from memnb.core.retriever import Hit
from memnb.core.conversation import Snippet
from memnb.core.trace import Trace

TOY = Conversation('toy', [
    Session('D1', [Turn('D1:1', 'Ana', 'I moved to Porto yesterday.'), Turn('D1:2', 'Ben', 'How is the sea?')], datetime(2024, 3, 2)),
    Session('D2', [Turn('D2:1', 'Ana', 'Cold. My cat hates it.'), Turn('D2:2', 'Ben', 'I bought a red car.')], datetime(2024, 5, 9)),
], [
    Question('When did Ana move?', '1 March 2024', ['D1:1'], 'temporal', 'toy', 0),
    Question('What do Ana and Ben own?', 'a cat, a red car', ['D2:1', 'D2:2'], 'multi-hop', 'toy', 1),
    Question('What colour is the car?', 'red', [], 'single-hop', 'toy', 2),
    Question('What colour is the dog?', None, ['D2:2'], 'adversarial', 'toy', 3),
])
TURNS = [turn.id for turn in TOY.turns]


class Perfect(Loop):
    """Knows the gold; reads it, then the rest."""
    def ask(self, question, *, asked=None, budget=None):
        one = next(one for one in TOY.questions if one.text == question)
        read = [*one.evidence, *(turn for turn in TURNS if turn not in one.evidence)][:budget]
        return Trace(question=question, method='perfect', model='none', answer=one.answer, read=read, evidence=list(one.evidence))


class Empty(Loop):
    """Reads nothing, says nothing."""
    def ask(self, question, *, asked=None, budget=None):
        return Trace(question=question, method='empty', model='none', answer='')


class Failing(Perfect):
    """A model that is down for every question with a colour in it."""
    def ask(self, question, **options):
        trace = super().ask(question, **options)
        return trace.model_copy(update={'error': 'ServerError: down'}) if 'colour' in question else trace


METHODS = {'perfect': lambda one: Perfect(None), 'empty': lambda one: Empty(None), 'failing': lambda one: Failing(None)}


def rows_of(method, **options):
    return evaluate([TOY], {method: METHODS[method]}, **options)


def test_a_perfect_loop_scores_1_and_an_empty_one_0():
    perfect, empty = rows_of('perfect'), rows_of('empty')
    assert [value(row, 'f1_locomo') for row in perfect] == [1, 1, 1]
    assert [value(row, 'recall') for row in perfect] == [1, 1, None]
    assert [value(row, 'cited_recall') for row in perfect] == [1, 1, None]
    assert [value(row, 'date_exact') for row in perfect] == [True, None, None]
    assert [value(row, 'f1_locomo') for row in empty] == [0, 0, 0]
    assert [value(row, 'recall') for row in empty] == [0, 0, None]
    assert [value(row, 'date_exact') for row in empty] == [False, None, None]
    assert all(row.error is None for row in perfect + empty)


def test_dates_are_scored_where_the_question_asks_when():
    trace = Trace(question='?', method='test', model='none', answer='2022')
    scored = [value(score(trace, Question(text, '2022'), 'test'), 'date_exact') for text in ('When was it?', 'What is on the poster?')]
    assert scored == [True, None]


def test_recall_is_taken_at_each_cut():
    dates, owned, _ = rows_of('perfect', cuts=(0, 1, 2))
    assert [value(dates, f'read_recall@{k}') for k in range(3)] == [0, 1, 1]
    assert [value(owned, f'read_recall@{k}') for k in range(3)] == [0, .5, 1]


def test_the_budget_and_the_categories_are_passed_on():
    assert [row.turns for row in rows_of('perfect', budget=1)] == [1, 1, 1]
    assert [value(row, 'recall') for row in rows_of('perfect', budget=1)] == [1, .5, None]
    assert [row.category for row in rows_of('perfect', categories=('adversarial',))] == ['adversarial']
    assert [value(row, 'f1_locomo') for row in rows_of('perfect', categories=('adversarial',))] == [None]


def test_a_failed_question_is_counted_and_never_scored():
    rows = rows_of('failing')
    assert [row.error for row in rows] == [None, None, 'ServerError: down']
    failed = rows[2]
    assert [value(failed, metric) for metric in ('turns', 'recall', 'cited_recall', 'f1_locomo', 'date_exact', 'read_recall@5')] == [None] * 6
    (one,) = summary(rows)
    assert (one['questions'], one['errors'], one['without_gold']) == (3, 1, 1)
    assert one['f1_locomo']['mean'] == 1 and one['f1_locomo']['n'] == 2
    assert table(rows).columns[-1] == 'failed' and table(rows).lines[0][-1] == '1'
    assert 'failed' not in table(rows_of('perfect')).columns


def test_rows_come_for_every_question_by_method_and_position():
    rows = evaluate([TOY], METHODS, categories=(*CATEGORIES, 'adversarial'))
    assert [(row.method, *row.question) for row in rows] == [(method, 'toy', place) for method in METHODS for place in range(4)]


def test_the_summary_leaves_questions_without_gold_out_and_counts_them():
    (one,) = summary(rows_of('perfect'))
    assert one['recall']['n'] == 2 and one['questions'] == 3 and one['without_gold'] == 1
    assert one['by_category']['single-hop']['recall'] == {'mean': None, 'low': None, 'high': None, 'n': 0, 'over': 'questions'}
    assert one['by_conversation']['toy']['recall']['mean'] == 1
    assert json.loads(json.dumps(one)) == one


# --- scores ----------------------------------------------------------------------------------------------------------

words = st.sampled_from(['red', 'a red car', 'No information available', '', 'Porto, Lisbon', '1 March 2024'])


@given(words, st.none() | words, st.lists(words, max_size=2), st.sampled_from([*CATEGORIES, None]), st.booleans())
def test_an_answer_has_the_best_score_of_every_metric_over_all_right_wordings(answer, gold, aliases, category, refuse):
    found = answer_scores(Question('What is it?', gold, category=category, aliases=aliases if gold is not None else (), refuse=refuse), answer)
    assert found.pop('refused') == float(answer in ('', 'No information available'))
    if refuse:
        assert found == {'f1_locomo': f1_locomo(answer, '', 'adversarial')}
    elif gold is None:
        assert found == {}
    else:
        assert found.pop('date_exact') is None
        assert found == {name: max(metric(answer, one, category) for one in (gold, *aliases)) for name, metric in METRICS.items()}


turns = st.lists(st.sampled_from([f'D1:{place}' for place in range(6)]), unique=True)


@given(turns, turns, st.lists(st.integers(0, 8), max_size=3))
def test_reading_is_scored_by_counting(gold, read, cuts):
    found = read_scores(gold, read, cuts)
    assert found['recall'] == (sum(turn in read for turn in gold) / len(gold) if gold else None)
    assert found['recall_any'] == (float(any(turn in read for turn in gold)) if gold else None)
    for k in cuts:
        assert found[f'read_recall@{k}'] == (sum(turn in read[:k] for turn in gold) / len(gold) if gold else None)


@given(st.booleans(), words, turns, turns, turns)
def test_a_row_keeps_what_the_trace_says_or_nothing_after_an_error(failed, answer, gold, read, cited):
    question = Question('What is it?', 'red', gold, 'single-hop', 'c', 3)
    trace = Trace(question='What is it?', method='m', model='x', answer=answer, read=read, evidence=cited, error='down' if failed else None)
    row = score(trace, question, 'mine', cuts=(2,))
    assert (row.question, row.category, row.method, row.gold, row.error) == (('c', 3), 'single-hop', 'mine', tuple(gold), trace.error)
    if failed:
        assert (row.answer, row.read, row.evidence, row.turns, row.scores) == (None, (), (), None, {})
    else:
        assert (row.answer, row.read, row.evidence, row.turns) == (answer, tuple(read), tuple(cited), len(read))
        assert row.scores == {**read_scores(gold, read, (2,)), **answer_scores(question, answer),
                              'cited_recall': read_scores(gold, cited, ())['recall']}


# --- rows by hand ----------------------------------------------------------------------------------------------------

shares = st.none() | st.floats(0, 1)


@st.composite
def row_lists(draw):
    """Rows of two methods over the same questions."""
    places = range(draw(st.integers(1, 6)))
    where = [(draw(st.sampled_from('ab')), place, draw(st.sampled_from(CATEGORIES))) for place in places]
    return [[Row(conversation, place, category, method, scores={'recall': draw(shares)}) for conversation, place, category in where]
            for method in ('ours', 'theirs')]


@given(row_lists())
@settings(max_examples=40, deadline=None)
def test_a_difference_is_taken_question_by_question_whatever_the_order(both):
    ours, theirs = both
    found = difference(ours, list(reversed(theirs)))
    pairs = [(value(one, 'recall'), value(other, 'recall')) for one, other in zip(ours, theirs)]
    gains = [one - other for one, other in pairs if None not in (one, other)]
    assert found['overall']['n'] == len(gains)
    if gains:
        assert found['overall']['mean'] == pytest.approx(sum(gains) / len(gains))
    assert sum(found[name]['n'] for name in {row.category for row in ours}) == len(gains)
    assert sum(found[name]['n'] for name in {row.conversation for row in ours}) == len(gains)


@given(row_lists())
@settings(max_examples=40, deadline=None)
def test_a_summary_is_the_bootstrap_of_its_rows(both):
    for one, rows in zip(summary(both[0] + both[1]), both):
        assert one['method'] == rows[0].method
        found = bootstrap([value(row, 'recall') for row in rows], [row.conversation for row in rows])
        assert one['recall'] == asdict(found)
        assert sum(part['recall']['n'] for part in one['by_category'].values()) == found.n


@given(st.lists(st.tuples(st.sampled_from('ab'), st.sampled_from('xy'), st.integers(0, 2), st.integers(0, 1)), unique=True),
       st.lists(st.tuples(st.sampled_from('ab'), st.sampled_from('xy'), st.integers(0, 2), st.integers(0, 1)), unique=True))
def test_pairs_agree_in_dataset_conversation_position_and_repeat(ours, theirs):
    def made(keys, method):
        return [Row(conversation, place, None, method, dataset=dataset, repeat=repeat) for dataset, conversation, place, repeat in keys]
    pairs = same_questions(made(ours, 'ours'), made(theirs, 'theirs'))
    assert [(mine.dataset, *mine.question, mine.repeat) for mine, _ in pairs] == [key for key in ours if key in theirs]
    assert all((mine.dataset, mine.question, mine.repeat) == (other.dataset, other.question, other.repeat) for mine, other in pairs)
    assert all((mine.method, other.method) == ('ours', 'theirs') for mine, other in pairs)


def test_two_rows_for_one_question_are_no_pair():
    twice = [Row('c', 0, None, 'm'), Row('c', 0, None, 'm')]
    with pytest.raises(ValueError, match='one row a question.*c/0'):
        same_questions(twice[:1], twice)


@given(row_lists())
@settings(max_examples=25)
def test_a_gain_is_the_overall_difference_and_turns_its_sign(both):
    ours, theirs = both
    assert asdict(gain(ours, theirs)) == difference(ours, theirs)['overall']
    there, back = gain(ours, theirs), gain(theirs, ours)
    assert there.n == back.n and (there.n == 0 or (there.mean, there.low, there.high) == pytest.approx((-back.mean, -back.high, -back.low)))


@given(st.lists(st.tuples(st.sampled_from('ab'), st.floats(0, 1)), min_size=2, max_size=8), st.integers(2, 4))
@settings(max_examples=25)
def test_asking_again_with_the_same_outcome_teaches_nothing(questions, times):
    rows = [Row(conversation, place, None, 'm', scores={'recall': found}) for place, (conversation, found) in enumerate(questions)]
    again = [replace(row, repeat=repeat) for row in rows for repeat in range(times)]
    once, often = (interval_of(mine, [value(row, 'recall') for row in mine]) for mine in (rows, again))
    assert often.n == times * once.n and often.over == once.over
    assert often.over == ('conversations' if len({conversation for conversation, _ in questions}) > 1 else 'questions')
    assert (often.mean, often.low, often.high) == pytest.approx((once.mean, once.low, once.high)) or once.over == 'conversations'


def test_conversations_of_two_datasets_are_two():
    rows = [Row('c', place, None, 'm', dataset=dataset, scores={'recall': found}) for dataset, found in (('a', 0), ('b', 1)) for place in range(3)]
    assert interval_of(rows, [0, 0, 0, 1, 1, 1]).over == 'conversations'
    assert [*split_by(rows, 'dataset')] == ['a', 'b']


@given(st.integers(0, 5), st.integers(0, 5))
@settings(max_examples=40, deadline=None)
def test_cutting_is_reading_fewer(first, second):
    rows = rows_of('perfect')
    once = cut(rows, first, 'cut')
    assert [row.read for row in once] == [row.read for row in rows_of('perfect', budget=first)]
    assert [value(row, 'recall') for row in once] == [value(row, 'recall') for row in rows_of('perfect', budget=first)]
    assert cut(once, second, 'cut') == cut(rows, min(first, second), 'cut')
    assert all(row.answer is None and {value(row, name) for name in ('f1_locomo', 'date_exact', 'cited_recall')} == {None} for row in once)


def test_cutting_by_question_and_after_a_failure():
    rows = rows_of('failing')
    turns = {row.question: place for place, row in enumerate(rows)}
    cutted = cut(rows, turns, 'cut')
    assert [row.turns for row in cutted] == [0, 1, None]
    assert [value(row, 'recall') for row in cutted] == [0, .5, None]
    assert cutted[2].error


def test_a_table_prints_aligned_and_as_markdown():
    small = Table('Title', ('method', 'a|b'), (('long name', '1.0'), ('x', '–')))
    assert str(small) == 'Title\nmethod     a|b\nlong name  1.0\nx            –'
    assert small.to_markdown() == '**Title**\n\n| method | a\\|b |\n| --- | ---: |\n| long name | 1.0 |\n| x | – |'
    assert str(Table('Nothing', ('method', 'n'), ())) == 'Nothing\nmethod  n'


def test_a_table_shows_percent_intervals_and_counts():
    shown = table(rows_of('perfect'), 'recall', 'T')
    assert shown.columns == ('method', 'turns read', 'overall [95%]', 'multi-hop', 'temporal', 'single-hop', 'questions')
    assert shown.lines == (('perfect', '4.0', '100.0 [100.0, 100.0]', '100.0', '100.0', '–', '2'),)
    assert table([]).lines == ()


# --- texts in tables -------------------------------------------------------------------------------------------------

signs = st.text(st.sampled_from('ab |\\*`<&_{}$%#~^[]",;\n\r–Δ'), max_size=8) | st.text(st.characters(exclude_categories=['Cs', 'Cc']), max_size=4)
tables = st.integers(1, 3).flatmap(lambda width: st.builds(
    Table, signs, st.tuples(*[signs] * width), st.lists(st.tuples(*[signs] * width), max_size=3).map(tuple), signs))


def flat(text):
    return ' '.join(text.split())


@given(tables)
def test_csv_comes_back(one):
    assert list(csv.reader(io.StringIO(one.to_csv(), newline=''))) == [list(line) for line in (one.columns, *one.lines)]


@given(st.lists(st.lists(st.none() | signs | st.floats(0, 1), min_size=2, max_size=3), max_size=3))
def test_csv_writes_none_as_nothing(lines):
    assert list(csv.reader(io.StringIO(csv_text(lines), newline=''))) == [['' if cell is None else str(cell) for cell in line] for line in lines]


@given(tables)
def test_markdown_comes_back(one):
    title, _, *lines = one.to_markdown().split('\n')
    lines = lines[:2 + len(one.lines)]
    assert re.sub(r'\\(.)', r'\1', title) == f'**{flat(one.title)}**'
    read = [[re.sub(r'\\(.)', r'\1', cell.strip(' ')) for cell in re.findall(r'((?:\\.|[^|\\])*)\|', line)[1:]] for line in lines]
    assert [read[0], *read[2:]] == [[flat(cell) for cell in line] for line in (one.columns, *one.lines)]
    assert not re.search(r'(?<!\\)(?:\\\\)*[<`]', one.to_markdown())


COMMANDS = {r'\textbackslash': '\\', r'\textasciitilde': '~', r'\textasciicircum': '^', r'\textless': '<', r'\textgreater': '>', r'\textbar': '|', r'\dots': '…'}


def typeset(latex):
    """What LaTeX would print of a text; an AssertionError for what it would obey."""
    text, rest = '', latex
    while rest:
        found = (re.match(r'\\([&%$#_{}])', rest) or re.match(r'\{([*\[\]])\}', rest) or re.match(r'(\\[a-z]+)\{\}', rest)
                 or re.match(r'\$(-|\\[a-zA-Z]+)\$', rest) or re.match(r'(--)', rest) or re.match(r'([^\\{}&%$#_^~<>|\[\]*])', rest))
        assert found, rest
        text += COMMANDS.get(found.group(1), found.group(1))
        rest = rest[found.end():]
    return text


@given(signs)
def test_latex_prints_what_was_written_and_obeys_nothing(text):
    greek = {'–': '--', '−': '-', 'Δ': r'\Delta', 'ρ': r'\rho', '→': r'\rightarrow', '≥': r'\geq', '≤': r'\leq', '×': r'\times'}
    assert typeset(latex_text(text)) == ''.join(greek.get(sign, sign) for sign in flat(text))


@given(tables)
def test_a_latex_table_is_whole(one):
    text = one.to_latex()
    bare = re.sub(r'\\[\\{}]', '', text)
    depth = 0
    for sign in bare:
        depth += (sign == '{') - (sign == '}')
        assert depth >= 0
    assert depth == 0
    assert re.findall(r'\\(begin|end)\{(\w+)\}', text) == [('begin', 'table'), ('begin', 'tabular'), ('end', 'tabular'), ('end', 'table')]
    body = text.split('\\toprule\n')[1].split('\n\\bottomrule')[0].split('\n')
    rows = [line for line in body if line != r'\midrule']
    assert len(rows) == 1 + len(one.lines) and all(line.endswith(r' \\') for line in rows)
    assert all(len(re.findall(r'(?<!\\)&', line)) == len(one.columns) - 1 for line in rows)
    assert not any(re.match(r'[\[*]', line) for line in rows)  # LaTeX would take it for an option of the line before
    assert text.split('\n')[3] == r'\begin{tabular}{l' + 'r' * (len(one.columns) - 1) + '}'


def test_a_note_is_shown_below_in_every_format_for_readers():
    noted = Table('T', ('a',), (('x',),), 'a note_')
    assert str(noted).endswith('\na note_') and noted.to_markdown().endswith('\n\na note_') and r'a note\_' in noted.to_latex()
    assert 'note' not in noted.to_csv() and noted._repr_markdown_() == noted.to_markdown()
    assert markdown_text('a\nb') == 'a b'


# --- MemR3's tables --------------------------------------------------------------------------------------------------

class Recorder:
    """A store that remembers what it was asked."""
    def __init__(self):
        self.queries = []

    def search(self, query, k=10, *, exclude=(), during=None):
        self.queries.append((query, k, frozenset(exclude)))
        return [Hit(Snippet('s1', 'a text'))]


def test_an_addressed_memory_names_the_person_asked_about_and_changes_nothing_else():
    store = Recorder()
    spoken = Addressed(store, ('Ana', 'Ben'))
    assert [hit.snippet.id for hit in spoken.search('Where does Ana live?', 3, exclude=['s2'])] == ['s1']
    assert store.queries[0] == ('Ana: Where does Ana live?', 3, frozenset(['s2']))
    for question in ('Where is it?', 'What do Ana and Ben own?'):
        assert spoken.address(question) == question


@pytest.fixture(scope='module')
def report():
    return memr3_report(memr3_rows([TOY]))


def test_every_method_has_its_row_and_every_row_its_place(report):
    assert {one['method'] for one in report['rows']} == set(ORDER)
    assert set(memr3_methods([TOY])) <= set(ORDER)
    assert set(AGAINST) <= set(ORDER)
    assert all(one['questions'] == 3 and one['errors'] == 0 for one in report['rows'])


def test_no_method_reads_more_than_the_memory_has_and_one_search_reads_it_all(report):
    turns = {one['method']: one['turns']['mean'] for one in report['rows']}
    assert turns['one-shot'] == turns["one-shot at MemR3's turns"] == 4
    assert all(mean <= 4 for mean in turns.values())
    assert turns['one-shot, stopped where MemR3 stops'] == turns['MemR3, stopping by itself']


@pytest.fixture(scope='module')
def few():
    """Rows over four questions of the bundled conversation, by method."""
    sample = load_sample()
    rows = memr3_rows([replace(sample, questions=sample.questions[22:26])])
    return {method: [row for row in rows if row.method == method] for method in ORDER}


def test_without_a_refined_query_memr3_reads_what_one_search_reads_and_with_it_something_else(few):
    read = {method: [row.read for row in rows] for method, rows in few.items()}
    assert read['MemR3 w/o Δq'] == read['one-shot'] != read['MemR3']


def test_one_search_is_cut_to_what_each_loop_read(few):
    turns = {method: [row.turns for row in rows] for method, rows in few.items()}
    assert turns['one-shot, stopped where MemR3 stops'] == turns['MemR3, stopping by itself'] != turns['MemR3']
    assert turns["one-shot at MemR3's turns"] == turns['MemR3'] == [25] * 4
    assert turns['one-shot @10'] == [10] * 4
    assert all(len(row.read) <= 25 for rows in few.values() for row in rows)


def test_the_tables_are_the_same_from_the_json(report):
    again = memr3_tables(json.loads(json.dumps(report)))
    assert again == memr3_tables(report)
    assert [line[0] for line in again[0].lines] == list(ORDER)


def test_the_command_prints_tables_or_one_json_object(tmp_path, capsys, monkeypatch):
    content = json.loads(data_path('sample.json').read_text(encoding='utf-8'))
    content[0]['qa'] = [content[0]['qa'][place] for place in (0, 44)]
    path = tmp_path / 'small.json'
    path.write_text(json.dumps(content), encoding='utf-8')
    assert main(['paper', 'memr3', '--data', str(path), '--json']) == 0
    printed = capsys.readouterr()
    found = json.loads(printed.out)
    assert found['provenance']['questions'] == 2 and found['provenance']['data'] == 'small.json'
    assert len(found['provenance']['sha256']) == 64
    assert 'MemR3: sample, 2 questions' in printed.err
    for name, made in {'memr3_rows': [], 'setting_rows': [], 'setting_report': found['settings'],
                       'memr3_report': {part: found[part] for part in ('rows', 'differences')}}.items():
        monkeypatch.setattr(bench, name, lambda *given, made=made: made)  # the same figures again, as tables
    assert main_bench(Namespace(data=str(path), json=False)) == 0
    text = capsys.readouterr().out
    assert all(str(one) in text for one in (*memr3_tables(found), *setting_tables(found['settings'])))


def test_a_file_that_is_not_locomo_is_refused_by_name(tmp_path):
    path = tmp_path / 'wrong.json'
    path.write_text('{}', encoding='utf-8')
    with pytest.raises(DatasetError, match='wrong.json'):
        main_bench(Namespace(data=str(path), json=True))
    assert main(['bench', 'locomo', '--data', str(path)]) == 2


@pytest.mark.parametrize('words', [['bench', 'locomo'], ['bench', 'nothing', '--data', 'x'], ['bench', 'locomo', '--data', 'missing.json']])
def test_bad_use_is_one_line_and_the_code_2(words, capsys):
    assert main(words) == 2
    printed = capsys.readouterr()
    assert printed.out == '' and printed.err.count('\n') == 1 and printed.err.startswith('memnb: ')
