"""The tables of MRAgent: what is charged, where a curve is read, and that a report survives its file."""
import json
from argparse import Namespace

import numpy as np
import pytest
from hypothesis import given, strategies as st

from memnb.baselines import RAG
from memnb.core.conversation import Conversation, Question, Session, Turn
from memnb.evaluation.datasets import DatasetError
from memnb.mragent.loop import MRAgent, tokens_of, WalkStep
from memnb.evaluation.papers import (
    by_turn, COSTED, depth_methods, in_order, main_mragent, Memories, mragent_report, mragent_tables,
    noise_methods, reading_curve, structure_methods, tokens_at, TURNS_mragent_bench as TURNS)
from memnb.core.trace import SearchStep, Seen, ToolStep
from memnb.core.trace import Trace


@pytest.fixture(scope='module')
def made():
    "The memories of a conversation of two sessions with a question of each of two kinds."
    told = [('Ana', 'I bought a red kayak yesterday.'), ('Ben', 'I still paint boats every Sunday.'), ('Ana', 'My sister Ida visited Oslo in May.')]
    sessions = [Session(f'S{number}', tuple(Turn(f'S{number}:{place}', who, text) for place, (who, text) in enumerate(told, 1))) for number in (1, 2)]
    questions = (Question('What did Ana buy?', 'a kayak', ('S1:1', 'S2:1'), 'multi-hop', 'small', 0),
                 Question('Where was Ida?', 'Oslo', ('S1:3',), 'single-hop', 'small', 1),
                 Question('What did Ben buy?', None, ('S1:1',), 'adversarial', 'small', 2))
    return Memories([Conversation('small', tuple(sessions), questions)])


points = st.lists(st.tuples(st.integers(1, 500), st.integers(0, 20)), min_size=1, max_size=8).map(
    lambda steps: [{'tokens': float(tokens), 'recall': recall / 200} for tokens, recall in zip(np.cumsum([one for one, _ in steps]),
                                                                                             np.cumsum([one for _, one in steps]))])


@given(points, st.integers(0, 200))
def test_tokens_are_the_first_place_where_the_curve_is_as_high(curve, percent):
    recall, at = percent / 200, [0.0, *(point['tokens'] for point in curve)]
    heights = [0.0, *(point['recall'] for point in curve)]
    fine = np.arange(0, at[-1] + 1)  # every token, one at a time
    high = np.flatnonzero(np.interp(fine, at, heights) >= recall - 1e-12)
    found = tokens_at(curve, recall)
    assert (found is None) == (not high.size)
    if found is not None:
        assert high[0] - 1 <= found <= high[0] + 1e-6


seen = st.builds(Seen, id=st.sampled_from('abcdef'), text=st.text('xy ', max_size=12), sources=st.just(['t']))
looks = st.lists(st.tuples(st.lists(st.lists(seen, max_size=3), max_size=3), st.lists(st.text('tags', max_size=8), max_size=3)), max_size=4)


@given(looks)
def test_each_content_is_charged_once_and_labels_before_what_they_led_to(looks):
    steps, charges, told = [], [], set()
    for look, (calls, labels) in enumerate(looks, 1):
        charges.append((look, None, tokens_of('\n'.join(labels))))
        for hits in calls:
            steps.append(ToolStep(iteration=look, tool='t', hits=hits))
            charges += [(look, hit.id, tokens_of(hit.text)) for hit in hits]
        steps.append(WalkStep(iteration=look, shown=labels))
    expected, spent = [], 0
    for look, id, tokens in charges:
        if id not in told:
            spent += tokens
            if id is not None:
                told.add(id)
                expected.append((look, spent))
    assert [(look, spent) for look, spent, _ in in_order(Trace(question='q', method='m', model='rules', steps=steps))] == expected


def test_a_search_has_no_labels():
    hits = [Seen(id=one, text='x' * 40, sources=[one]) for one in 'abc']
    assert in_order(Trace(question='q', method='m', model='rules', steps=[SearchStep(iteration=1, query='q', k=3, hits=hits)])) == [
        (1, 10, ['a']), (1, 20, ['b']), (1, 30, ['c'])]


def test_a_curve_ends_where_everything_was_read(made):
    [conversation] = made.conversations
    curve = reading_curve(made, lambda one: RAG(made.turns[one.id], k=TURNS), at=(1, 6))
    assert curve[-1]['recall'] == 1 and curve[0]['recall'] < 1  # six turns in all, and one of them is not enough
    for category, found in by_turn(made, most=3).items():
        assert category in ('multi-hop', 'single-hop') and found['questions'] == 1
        assert len(found['recall']) == 3 and found['recall'] == sorted(found['recall']) and 1 <= found['last valid'] <= 3
    assert conversation.questions[2].category not in by_turn(made, most=1)


def test_what_is_compared_differs_as_its_name_says(made):
    [conversation] = made.conversations
    agents = {name: make(conversation) for methods in (structure_methods(made), depth_methods(made)) for name, make in methods.items()}
    assert all(isinstance(one, MRAgent) and not one.stop_early for one in agents.values())
    assert [agents[f'cue → {rest}'].structure for rest in ('episode, active', 'tag → episode, active', 'tag → content, active')] == ['ce', 'cte', 'ctc']
    assert not any(agents[name].active for name in agents if name.endswith('passive'))
    assert (agents['T = 3, K = 5'].turns, agents['T = 4, K = 12'].breadth) == (3, 12)
    graph = made.graphs['small']
    for name, make in noise_methods(made).items():
        noise = make(conversation).memory
        assert {(one.id, one.text, one.sources) for one in noise.episodes} == {(one.id, one.text, one.sources) for one in graph.episodes}, name
        if name.startswith(('no', '100%')):  # a tenth of so few may be none
            assert (set(noise.episodic) == set(graph.episodic)) == name.startswith('no'), name


def test_rows_report_and_tables_hold_together(made):
    report, rows = mragent_report(made)
    assert not [row for row in rows if row.error] and all(row.turns <= TURNS for row in rows)
    assert [str(one) for one in mragent_tables(json.loads(json.dumps(report)))] == [str(one) for one in mragent_tables(report)]
    assert {'main', 'structure', 'merge', 'noise', 'depth', 'stopping', 'differences', 'by_turn', 'curves', 'exchanged', 'graph', 'costs'} == set(report)
    assert [one['method'] for one in report['costs']] == list(COSTED) and all(one['ask tokens'] > 0 for one in report['costs'])
    assert all(one['n'] == 2 for one in (row['read_recall@25'] for row in report['main']))


def test_a_file_that_is_not_the_benchmark_is_refused(tmp_path):
    (tmp_path / 'no.json').write_text('{}')
    with pytest.raises(DatasetError, match='no.json'):
        main_mragent(Namespace(data=str(tmp_path / 'no.json'), json=True))
