"""Scores, means, differences and tables are functions of the rows: each is compared with the same thing computed by hand."""

import json
import re
from statistics import mean

import pandas
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memnb.core.conversation import Question
from memnb.core.trace import Trace
from memnb.evaluation.rows import CATEGORIES, Row, score
from memnb.evaluation.tables import as_frame, interval, Results, summarize
from memnb.evaluation.metrics import bootstrap, f1_locomo, METRICS
from memnb.evaluation.registry import choose_methods

words = st.sampled_from(['red', 'a red car', 'No information available', '', 'Porto, Lisbon', '1 March 2024'])
turns = st.lists(st.sampled_from([f'D1:{place}' for place in range(6)]), unique=True)


def trace_of(answer='', read=(), cited=(), error=None):
    return Trace(question='?', method='m', model='x', answer=answer, read=list(read), evidence=list(cited), error=error)


@given(words, st.none() | words, st.lists(words, max_size=2), st.sampled_from([*CATEGORIES, None]), st.booleans())
def test_an_answer_has_the_best_score_of_every_metric_over_all_right_wordings(answer, gold, aliases, category, refuse):
    question = Question(
        'What is it?', gold, category=category, aliases=aliases if gold is not None else (), refuse=refuse
    )
    found = score(trace_of(answer), question, ())
    assert found.pop('refused') == float(answer in ('', 'No information available'))
    found = {name: value for name, value in found.items() if 'recall' not in name}
    if refuse:
        assert found == {'f1_locomo': f1_locomo(answer, '', 'adversarial')}
    elif gold is None:
        assert found == {}
    else:
        assert found == {
            name: max(metric(answer, one, category) for one in (gold, *aliases)) for name, metric in METRICS.items()
        }


@given(turns, turns, turns, st.lists(st.integers(0, 8), max_size=3), st.booleans())
def test_reading_is_scored_by_counting_and_a_failure_not_at_all(gold, read, cited, cuts, failed):
    found = score(trace_of('x', read, cited, 'down' if failed else None), Question('?', 'red', gold), cuts)
    if failed:
        assert found == {}
        return

    def share(kept):
        return sum(turn in kept for turn in gold) / len(gold) if gold else None

    assert (found['evidence_recall'], found['cited_recall']) == (share(read), share(cited))
    assert all(found[f'read_recall@{k}'] == share(read[:k]) for k in cuts)


def test_dates_are_scored_where_the_question_asks_when():
    found = [
        score(trace_of('2022'), Question(text, '2022')).get('date_exact')
        for text in ('When was it?', 'What is on the poster?')
    ]
    assert found == [1.0, None]


# --- frames

shares = st.none() | st.floats(0, 1)


def row(
    conversation='a',
    position=0,
    method='rag',
    dataset='x',
    category='temporal',
    repeat=0,
    error=None,
    refuse=False,
    turns=1,
    **scores,
):
    answered = {} if error else {'answer': 'x', 'turns': turns, 'scores': scores}
    return Row(
        dataset,
        conversation,
        method,
        repeat,
        position,
        category,
        gold=['D1:1'],
        refuse=refuse,
        error=error,
        **answered,
    )


@st.composite
def frames(draw, methods=('rag', 'other', 'third')):
    """Rows of some methods over the same questions; any of them may have failed, or be missing."""
    places = draw(
        st.lists(
            st.tuples(
                st.sampled_from('xy'),
                st.sampled_from('ab'),
                st.integers(0, 3),
                st.sampled_from(['temporal', 'multi-hop', None]),
            ),
            min_size=1,
            max_size=5,
            unique_by=lambda one: one[:3],
        )
    )
    rows = []
    for method in methods:
        for dataset, conversation, place, category in places:
            kind = draw(st.sampled_from(['answered', 'answered', 'answered', 'failed', 'missing']))
            if kind != 'missing':
                scores = {name: draw(shares) for name in ('evidence_recall', 'f1_locomo')} | {
                    'refused': float(draw(st.booleans()))
                }
                rows.append(
                    row(
                        conversation,
                        place,
                        method,
                        dataset,
                        category,
                        error='down' if kind == 'failed' else None,
                        refuse=draw(st.booleans()),
                        **scores,
                    )
                )
    return rows


def values_of(rows, metric):
    return [row.scores.get(metric) for row in rows if row.scores.get(metric) is not None]


@given(frames())
@settings(max_examples=30)
def test_every_mean_is_the_mean_of_the_rows_that_did_not_fail(rows):
    if not rows:
        return
    found = summarize(as_frame(rows))
    assert json.loads(json.dumps(found)) == found
    for one in found:
        mine = [row for row in rows if (row.dataset, row.method) == (one['dataset'], one['method'])]
        assert (one['questions'], one['errors']) == (len(mine), sum(row.error is not None for row in mine))
        groups = [(one, mine)] + [
            (one['by_category'][str(name or 'none')], [row for row in mine if row.category == name])
            for name in {row.category for row in mine}
        ]
        for means, part in groups:
            for name in ('evidence_recall', 'f1_locomo'):
                values = values_of(part, name)
                assert means[name]['n'] == len(values)
                assert means[name]['mean'] == (pytest.approx(mean(values)) if values else None)
                assert not values or min(values) <= means[name]['low'] <= means[name]['mean'] <= means[name][
                    'high'
                ] <= max(values)


@given(frames())
@settings(max_examples=30)
def test_a_difference_is_over_the_questions_that_both_were_scored_on_whatever_the_order(rows):
    if not rows:
        return
    frame = as_frame(rows)
    for one in summarize(frame.sample(frac=1, random_state=0)):
        theirs = {
            (row.conversation, row.position): row
            for row in rows
            if (row.dataset, row.method) == (one['dataset'], 'rag')
        }
        if one['method'] == 'rag' or not theirs:
            assert one['minus'] is None
            continue
        mine = [row for row in rows if (row.dataset, row.method) == (one['dataset'], one['method'])]
        for name in ('evidence_recall', 'f1_locomo'):
            pairs = [
                (row.scores.get(name), theirs[row.conversation, row.position].scores.get(name))
                for row in mine
                if (row.conversation, row.position) in theirs
            ]
            gains = [ours - other for ours, other in pairs if None not in (ours, other)]
            assert one['minus'][name]['n'] == len(gains)
            assert not gains or one['minus'][name]['mean'] == pytest.approx(mean(gains))


@given(frames(methods=('rag',)))
@settings(max_examples=30)
def test_an_interval_is_the_bootstrap_over_conversations_and_refusing_is_counted(rows):
    if not rows:
        return
    frame = as_frame(rows)
    found = interval(frame, 'evidence_recall')
    several = len({(row.dataset, row.conversation) for row in rows}) > 1
    clusters = [(row.dataset, row.conversation) if several else row.position for row in rows]
    expected = bootstrap([row.scores.get('evidence_recall') for row in rows], clusters)
    assert (found.mean, found.low, found.high, found.n) == (expected.mean, expected.low, expected.high, expected.n)
    for one in summarize(frame):
        answered = [
            (bool(part.scores['refused']), part.refuse)
            for part in rows
            if part.dataset == one['dataset'] and part.error is None
        ]
        right, wrong, missed = (answered.count(pair) for pair in ((True, True), (True, False), (False, True)))
        assert (one['refusal'] is None) == (right + missed == 0)
        if one['refusal']:
            assert one['refusal']['precision']['mean'] == (right / (right + wrong) if right + wrong else None)
            assert one['refusal']['recall']['mean'] == right / (right + missed)


# --- tables

INTERVAL = re.compile(r'[+-]?\d+\.\d \[-?\d+\.\d, -?\d+\.\d\]')


@given(frames())
@settings(max_examples=20)
def test_no_mean_stands_without_its_interval(rows):
    if not rows:
        return
    for title, table in Results(as_frame(rows), {'settings': {'methods': []}}).tables().items():
        for column in table.columns:
            for cell in table[column]:
                assert column in ('turns read', 'questions', 'failed') or cell == '–' or INTERVAL.fullmatch(cell), (
                    title,
                    cell,
                )


def test_a_method_without_its_own_tools_has_a_star_in_every_table_and_no_other_has():
    methods = choose_methods(['rag', 'remem', 'mragent'], ['turns', 'gists'])
    rows = [
        row(position=place, method=one.name, refuse=place == 1, evidence_recall=1.0, refused=1.0)
        for one in methods
        for place in range(2)
    ]
    results = Results(as_frame(rows), {'settings': {'methods': [one.settings() for one in methods]}})
    due = {'remem over turns', 'mragent over turns', 'mragent over gists'}
    assert {one['method'] for one in results.to_json()['rows'] if one['fallback']} == due
    for title, table in results.tables().items():
        starred = {name.split(' − ')[0].removesuffix(' *') for name in table.index if ' *' in name}
        assert starred == due, title


@given(st.sampled_from(['50% & more', '<b>|', 'lone \ud800 surrogate', 'a_b$c', '']))
@settings(max_examples=6)
def test_what_is_written_is_what_was_found_and_odd_texts_do_no_harm(tmp_path_factory, text):
    folder = tmp_path_factory.mktemp('out')
    rows = as_frame([row(evidence_recall=1.0, category=text or None), row(position=1, error=text or 'down')])
    results = Results(rows, {'settings': {'methods': []}, 'not asked': 3})
    results.save(folder)
    assert {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()} == {
        'rows.csv': 0o600,
        'results.json': 0o600,
    }
    assert json.loads((folder / 'results.json').read_text()) == json.loads(json.dumps(results.to_json()))
    written = pandas.read_csv(folder / 'rows.csv')
    assert written.evidence_recall.fillna(-1).tolist() == [1.0, -1] and written.error.isna().tolist() == [True, False]
    assert str(results).endswith('3 questions were not asked: the run was stopped')
