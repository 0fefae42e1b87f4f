"""The rules of the walk: what is kept, when to stop, which branches are followed, and the walk itself."""

from datetime import datetime, timedelta

import pytest
from hypothesis import given, strategies as st

from memnb.core.calls import untried_calls, ToolUse
from memnb.core.tools import Observation
from memnb.core.time import TimeSpan
from memnb.evaluation.datasets import load_sample
from memnb.mragent.contents import Episode
from memnb.mragent.graph import CueTagGraph
from memnb.mragent.labels import Branch
from memnb.mragent.loop import MRAgent
from memnb.mragent.tools import call_of
from memnb.rules.mragent import navigate_rule, route_rule
from memnb.rules.text import _answer_rule, extract_answer, PART, relevance, requirements

NAMES = ('Tobin', 'Zofia')
FAILED = datetime(2024, 6, 10)
QUESTIONS = ('When did Tobin fail his test?', 'What did Zofia carry?', 'Which pipes does Zofia have?')
TEXTS = (
    'Zofia carried the pipe home.',
    'Zofia lives in Karrow.',
    'Did Zofia carry it?',
    'Tobin failed the test on 10 June 2024.',
    'The cat ate a herring.',
)


def episode(number, text, speaker='Zofia', shift=0):
    day = TimeSpan.day((FAILED + timedelta(days=shift)).date())
    origin = (f'D1:{number}',), day, speaker, datetime(2024, 7, 1), 'D1', number
    return Episode(f'D1/e{number}', text, *origin, title='t', tag='t')


lines = st.lists(st.tuples(st.sampled_from(TEXTS), st.sampled_from(NAMES), st.integers(-3, 4)), max_size=5).map(
    lambda found: [episode(number, *one) for number, one in enumerate(found, 1)]
)


@pytest.fixture(scope='module')
def graph():
    return CueTagGraph.of(load_sample())


@given(lines, st.sampled_from(QUESTIONS))
def test_what_is_kept_touches_a_need_and_the_time_of_the_best_is_a_cue(found, question):
    reply, needs = route_rule(question, found, NAMES), requirements(question, NAMES)
    by_id = {line.id: line for line in found}
    assert set(reply['keep']) == {line.id for line in found if relevance(line, needs) >= PART}
    scores = [relevance(by_id[id], needs) for id in reply['keep']]
    assert scores == sorted(scores, reverse=True)
    assert reply['cues'] == [str(by_id[id].day) for id in reply['keep'][:1]]


branches = st.builds(Branch, st.sampled_from(['june 2024', 'pipe', 'test']), st.sampled_from(['a', 'b']), st.just(2))


@given(st.lists(branches, max_size=6, unique=True), st.integers(1, 4), st.booleans())
def test_the_best_branches_are_followed(graph, ways, breadth, stop):
    move = navigate_rule(QUESTIONS[0], graph.tools(), ways, breadth=breadth, speakers=NAMES, stop_early=stop)
    calls = untried_calls(map(call_of, ways), ())[:breadth]
    assert move['calls'] == [{'function': call.function, 'parameters': call.parameters} for call in calls]
    assert (move['mode'] == 'Navigate') == bool(calls)


def test_it_stops_once_enough_is_known_if_it_may(graph):
    ways, found = [Branch('pipe', 'a', 2)], [episode(1, TEXTS[3], 'Tobin')]
    history = [ToolUse('x', {}, Observation(''))]
    modes = [
        navigate_rule(QUESTIONS[0], graph.tools(), ways, found, history, speakers=NAMES, stop_early=stop)['mode']
        for stop in (True, False)
    ]
    assert modes == ['Answer', 'Navigate']


@given(lines, st.sampled_from(QUESTIONS), st.booleans())
def test_the_answer_is_copied(known, question, may_refuse):
    assert _answer_rule(question, known, may_refuse=may_refuse) == extract_answer(question, known, may_refuse)


def test_the_walk_by_rules(graph):
    trace = MRAgent(graph).ask(QUESTIONS[0])
    assert trace.error is None and 'D10:3' in trace.evidence and trace.answer == '2 August 2024'
