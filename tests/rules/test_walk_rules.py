"""The rules of the walk: what lies in the time of another event, what is kept, when to stop, and the walk itself."""

from datetime import date, datetime, timedelta

import pytest
from hypothesis import given, strategies as st

from memnb.core.calls import untried_calls, ToolUse
from memnb.core.tools import Observation
from memnb.core.text import requirements
from memnb.core.time import TimeSpan
from memnb.evaluation.datasets import load_sample
from memnb.mragent.contents import Episode, time_cues
from memnb.mragent.labels import Branch
from memnb.mragent.loop import MRAgent
from memnb.mragent.graph import CueTagGraph
from memnb.mragent.tools import call_of
from memnb.rules.mragent import _Anchored, _is_enough, _touches, navigate_rule, recall_rule, route_rule
from memnb.rules.text import extract_answer, PART

NAMES = ('Tobin', 'Zofia')
DAY = timedelta(days=1)
QUESTION = 'What did Zofia do when Tobin failed his test?'
PLAIN = ('When did Tobin fail his test?', 'What did Zofia carry?', 'Which pipes does Zofia have?')
FAILED = date(2024, 6, 10)


def episode(number, text, speaker='Zofia', day=FAILED, days=1, cues=()):
    time = day and TimeSpan(day, day + (days - 1) * DAY, 'day' if days == 1 else 'span')
    return Episode(
        f'D1/e{number}',
        text,
        (f'D1:{number}',),
        time,
        speaker,
        datetime(2024, 7, 1),
        'D1',
        number,
        title='t',
        tag='t',
        cues=tuple(cues),
    )


ANCHOR = episode(0, 'Tobin failed the test on 10 June 2024.', 'Tobin')
TEXTS = (
    'Zofia carried the pipe home.',
    'Zofia lives in Karrow.',
    'Did Zofia carry it?',
    'Tobin failed the test.',
    'The cat ate a herring.',
)
lines = st.lists(
    st.builds(
        lambda text, speaker, shift, days: (text, speaker, FAILED + shift * DAY, days),
        st.sampled_from(TEXTS),
        st.sampled_from(NAMES),
        st.integers(-3, 4),
        st.sampled_from([1, 2, 7, 8, 40]),
    ),
    max_size=5,
).map(lambda found: [episode(number, *one) for number, one in enumerate(found, 1)])


@pytest.fixture(scope='module')
def graph():
    return CueTagGraph.of(load_sample())


@given(lines, st.sampled_from([QUESTION, 'What broke when Tobin failed his test?']))
def test_what_lies_in_a_time_shares_a_day_with_it_and_is_another_event(found, question):
    anchored, known = _Anchored.of(question, NAMES), [ANCHOR, *found]
    time = anchored.time(known)
    days = {time.start + number * DAY for number in range(time.days)}
    for line in found:
        shares = days & {line.time.start + number * DAY for number in range(line.time.days)}
        mine = line.speaker == 'Zofia' or 'broke' in question
        wanted = shares and mine and 'failed' not in line.text and line.time.days <= 7
        assert (line in anchored.found(known)) == bool(wanted)


@pytest.mark.parametrize(
    'question, main',
    [
        (QUESTION, 'what did Zofia do'),
        ('Where was Zofia in the week when Tobin failed his test?', 'where was Zofia'),
        ('When did Tobin fail his test?', None),
        ('What did Zofia do?', None),
        ('How many pipes broke when Tobin failed?', None),
        ('', None),
    ],
)
def test_which_questions_are_dated_by_another_event(question, main):
    anchored = _Anchored.of(question, NAMES)
    assert (anchored and anchored.main) == main


@given(lines, lines, st.sampled_from([QUESTION, *PLAIN]))
def test_all_of_the_evidence_is_enough_or_nothing_is(known, more, question):
    assert (
        _is_enough(question, [*known, *more], (), NAMES)
        or not _is_enough(question, known, (), NAMES)
        or question == QUESTION
    )
    assert not _is_enough(question, (), (), NAMES)


@given(lines, st.sampled_from([QUESTION, *PLAIN]))
def test_what_is_kept_touches_a_need_or_lies_in_the_time(found, question):
    reply, anchored = route_rule(question, found, [ANCHOR], NAMES), _Anchored.of(question, NAMES)
    then = anchored.found([ANCHOR, *found]) if anchored else []
    for line in found:
        touches = max(_touches(line, requirements(question, NAMES)), anchored.touches(line) if anchored else 0)
        assert (line.id in reply['keep']) == (line in then or touches >= PART)
    inside = [id in {line.id for line in then} for id in reply['keep']]
    assert inside == sorted(inside, reverse=True), 'what lies inside comes first'
    assert reply['cues'] == ([str(anchored.time([ANCHOR, *found])), 'Zofia'] if anchored else [])


@given(
    st.lists(
        st.builds(Branch, st.sampled_from(['june 2024', 'pipe', 'test']), st.sampled_from(['a', 'b']), st.just(2)),
        max_size=6,
        unique=True,
    ),
    st.integers(1, 4),
    st.booleans(),
    st.booleans(),
)
def test_the_best_branches_are_followed_those_into_the_time_first(graph, ways, breadth, dated, stop):
    known = [ANCHOR] if dated else []
    move = navigate_rule(QUESTION, graph.tools(), ways, known, known, (), breadth, 5, NAMES, None, stop)
    months = time_cues([ANCHOR.time]) if dated else ()
    ordered = [way for way in ways if way.cue in months] + [way for way in ways if way.cue not in months]
    calls = [call for call in untried_calls(map(call_of, ordered), ())][:breadth]
    assert move['calls'] == [{'function': call.function, 'parameters': call.parameters} for call in calls]
    assert (move['mode'] == 'Navigate') == bool(calls)


def test_it_stops_once_enough_is_known_if_it_may(graph):
    ways, found = [Branch('pipe', 'a', 2)], [ANCHOR, episode(1, 'Zofia carried the pipe.')]
    history = [ToolUse('x', {}, Observation(''))]
    modes = [
        navigate_rule(QUESTION, graph.tools(), ways, found, found, history, speakers=NAMES, stop_early=stop)['mode']
        for stop in (True, False)
    ]
    assert modes == ['Answer', 'Navigate']


@given(lines)
def test_the_answer_lies_in_the_time_while_anything_does(found):
    known = [ANCHOR, *found]
    inside, answer = _Anchored.of(QUESTION, NAMES).found(known), recall_rule(QUESTION, known)
    if inside and {'Zofia', 'Tobin'} <= {line.speaker for line in known}:
        first = next(line for line in known if line.id == answer.sources[0])
        assert first in inside and answer.answer == first.text
    assert set(answer.sources) <= {line.id for line in known}


@given(lines, st.sampled_from(PLAIN))
def test_any_other_answer_is_copied(known, question):
    assert recall_rule(question, known) == extract_answer(question, known)


@pytest.mark.parametrize('question, gold', [('What did Zofia do when Tobin failed his test?', 'D9:15')])
def test_the_walk_reaches_what_the_other_did(graph, question, gold):
    trace = MRAgent(graph).ask(question)
    assert trace.error is None and gold in trace.read and len(trace.read) <= 20
