"""Widgets without a browser: events on states, pictures of states, and memory text that stays text."""
import re

import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from pages_read import Page
from test_pages import EVIL, TEXTS

from memnb.core.conversation import Conversation, Session, Turn
from memnb.memr3.router import ACTIONS, forced, route, RouterLimits
from memnb.views.widgets import LETTERS, MOST, reachable, Routed, router_explorer, router_update, router_view
from memnb.core.trace import Bullet, SearchStep, Seen, StateStep
from memnb.core.trace import Trace
from memnb.views.widgets import lines_of, mark_of, Tracked, tracker_board, tracker_update, tracker_view
from memnb.views.widgets import bar, Board, button, choice, shell_of, slider, tick, TraceView


# ------------------------------------------------------------------ boards and controls

@given(TEXTS, TEXTS, TEXTS)
def test_controls_have_the_tags_of_their_kind_whatever_they_are_called(label, name, value):
    page = Page(bar(button(label, name, value), slider(label, name, 1, 0, 2), choice(label, name, [(value, label)], value), tick(label, name, True)))
    assert page.names == ['div', 'button', 'label', 'input', 'output', 'label', 'select', 'option', 'label', 'input']
    assert page.odd == [] and page.attributes <= {'class', 'type', 'id', 'data-event', 'data-value', 'name', 'min', 'max', 'value', 'selected', 'checked'}


@given(st.lists(st.sampled_from(['up', 'down', 'nonsense'])))
def test_a_board_is_the_fold_of_its_events_and_what_is_refused_changes_nothing(events):
    def update(count, name, value):
        if name == 'nonsense' or (name == 'down' and count == 0):
            raise ValueError(f'no {name}')
        return count + (1 if name == 'up' else -1)

    board, expected = Board(0, str, update), 0
    for event in events:
        possible = event == 'up' or (event == 'down' and expected > 0)
        expected += {'up': 1, 'down': -1}.get(event, 0) if possible else 0
        board.send(event)
        assert board.state == expected
        assert (f'no {event}' in board.html) == (not possible)


def test_an_error_that_is_no_refusal_is_not_swallowed():
    with pytest.raises(KeyError):
        Board(0, str, lambda state, name, value: {}[name]).send('x')


@pytest.mark.parametrize('evil', EVIL)
def test_a_refusal_is_text(evil):
    def refuse(state, name, value):
        raise ValueError(value)
    page = Page(Board(0, lambda state: '', refuse).send('go', evil).html)
    assert page.names == ['div', 'style', 'p', 'b']


def test_the_wire_carries_events_in_and_the_picture_out():
    pytest.importorskip('anywidget')
    board = Board(1, lambda state: f'<p>{state}</p>', lambda state, name, value: state * int(value))
    board._shell = shell_of(board)
    assert board._shell.html == board.html
    board._shell._handle_custom_msg({'name': 'times', 'value': 7}, [])
    assert board.state == 7 and '<p>7</p>' in board._shell.html


def test_a_fault_in_an_answer_to_a_click_is_said_on_the_page():
    pytest.importorskip('anywidget')
    board = Board(0, lambda state: f'<p>{state}</p>', lambda state, name, value: 1 // state)
    shell = shell_of(board)
    shell._handle_custom_msg({'name': 'x', 'value': ''}, [])
    assert 'ZeroDivisionError: integer division or modulo by zero' in shell.html and '<p>0</p>' in shell.html


def test_without_a_kernel_a_board_is_a_picture():
    board = Board(1, lambda state: f'<p>{state}</p>', lambda state, name, value: state)
    assert set(board._repr_mimebundle_()) == {'text/html', 'text/plain'} and '<p>1</p>' in board._repr_html_()


# ------------------------------------------------------------------ the tracker board

WORDS = st.text('ab<>"&', min_size=1, max_size=3)
TURNS = ('D1:1', 'D1:2', 'D1:3')


@st.composite
def tracked_traces(draw):
    """A run of a monotone tracker: evidence grows, gaps open and close."""
    evidence, gaps, steps = [], [], []
    for iteration in range(1, draw(st.integers(1, 4)) + 1):
        fresh = [Bullet(text=text, sources=draw(st.lists(st.sampled_from(TURNS), max_size=2, unique=True)))
                 for text in draw(st.lists(WORDS.map(lambda word: 'e' + word), max_size=2, unique=True)) if text not in [one.text for one in evidence]]
        closed = [gap for gap in gaps if draw(st.booleans())]
        opened = [gap for gap in draw(st.lists(WORDS.map(lambda word: 'g' + word), max_size=2, unique=True)) if gap not in gaps and gap not in closed]
        evidence, gaps = evidence + fresh, [gap for gap in gaps if gap not in closed] + opened
        steps.append(StateStep(iteration=iteration, evidence=evidence, gaps=gaps, gained=[one.text for one in fresh], closed=closed, opened=opened))
    return Trace(question='q', method='memr3', model='rules', steps=steps)


CONVERSATION = Conversation('c', (Session('D1', tuple(Turn(turn, 'Ada', f'<b>{turn}</b>') for turn in TURNS), None),))


@given(tracked_traces())
def test_the_table_of_lives_says_what_each_state_has(trace):
    states = [step for step in trace.steps]
    lives = lines_of(states)
    for place, state in enumerate(states):
        column = {text: marks[place] for text, marks in lives.items()}
        assert {text for text, mark in column.items() if mark in ('+', '●')} == {bullet.text for bullet in state.evidence}
        assert {text for text, mark in column.items() if mark == '+'} == set(state.gained)
        assert {text for text, mark in column.items() if mark == '?'} == set(state.gaps)
        assert {text for text, mark in column.items() if mark == '✓'} == set(state.closed)
        assert all(mark_of(text, state) == mark for text, mark in column.items())


@settings(max_examples=30)
@given(tracked_traces(), st.lists(st.tuples(st.sampled_from(['at', 'turn', 'x']), st.sampled_from(['0', '1', '3', '-1', '', *TURNS, 'D9:9'])), max_size=8))
def test_a_tracker_board_is_always_somewhere(trace, events):
    board = tracker_board(trace, CONVERSATION)
    for name, value in events:
        before = board.state
        board.send(name, value)
        good = (name == 'at' and value in map(str, range(1, len(trace.steps) + 1))) or (name == 'turn' and value in TURNS)
        assert bool(board.refused) == (not good) and (good or board.state == before)
        page = Page(board.html)
        assert page.odd == [] and not any(tag == 'b' and attributes for tag, attributes in page.tags)
        assert ('<h4>What was said' in board.html) == (board.state.turn != '')


def test_a_tracker_board_without_a_conversation_names_turns_and_opens_none():
    trace = Trace(question='<i>', method='m', model='m', steps=[StateStep(iteration=1, evidence=[Bullet(text='t', sources=['D1:1'])], gained=['t'])])
    page = tracker_view(Tracked(trace))
    assert 'data-event="turn"' not in page and '<code>D1:1</code>' in page and '<i>' not in page
    with pytest.raises(ValueError, match='expected a state from 1 to 1'):
        tracker_update(Tracked(trace), 'turn', 'D1:1')


# ------------------------------------------------------------------ the router explorer

def letters(page):
    found = re.findall(r'data-value="(\d+) (\d+) ([01])"( aria-current=true)?>(\(?)(.)', page)
    return {(int(iteration), int(streak), came == '1'): (letter, bracket != '', here != '') for iteration, streak, came, here, bracket, letter in found}


class TurnedRouter(RuleBasedStateMachine):
    """Any sequence of events: the table is Algorithm 1, the present cell is marked once, what is refused changes nothing."""
    def __init__(self):
        super().__init__()
        self.board = router_explorer()

    @rule(name=st.sampled_from([*MOST, 'came', 'released', 'proposed', 'cell', 'x']),
          value=st.sampled_from(['0', '1', '2', '4', '9', '10', '-1', 'true', 'false', *ACTIONS, '3 1 0', '1 1', '0 0 1', '']))
    def turn(self, name, value):
        before = self.board.state
        self.board.send(name, value)
        assert not self.board.refused or self.board.state == before

    @invariant()
    def the_table_is_the_algorithm(self):
        state = self.board.state
        limits = RouterLimits(state.budget, state.cap)
        shown = letters(router_view(state))
        for (iteration, streak, came), (letter, _, here) in shown.items():
            due = forced(iteration=iteration, retrieved=int(came), reflect_streak=streak, limits=limits, released=state.released)
            assert letter == (LETTERS[due.action] if due else '–')
            assert here == ((iteration, streak, came) == (state.iteration, state.streak, state.came))
        assert sum(here for _, _, here in shown.values()) == 1
        inside = {cell for cell, (_, bracket, _) in shown.items() if not bracket}
        assert inside == reachable(limits, state.released) & shown.keys()
        assert state.decision().reason.split(':')[0] in router_view(state)


TestTurnedRouter = TurnedRouter.TestCase
TestTurnedRouter.settings = settings(max_examples=15, stateful_step_count=12)


@given(st.integers(1, 6), st.integers(1, 3), st.booleans(), st.data())
def test_a_run_enters_only_cells_that_can_be_reached(budget, cap, released, data):
    limits, cells = RouterLimits(budget, cap), reachable(RouterLimits(budget, cap), released)
    iteration, streak, came = 1, 0, data.draw(st.booleans())
    while True:
        assert (iteration, streak, came) in cells
        action = route(data.draw(st.sampled_from(ACTIONS)), iteration=iteration, retrieved=int(came), reflect_streak=streak, limits=limits,
                       released=released).action
        if action == 'answer':
            break
        iteration += 1
        streak, came = (streak + 1, came) if action == 'reflect' else (0, data.draw(st.booleans()))
    assert iteration <= budget


def test_the_view_of_a_trace_is_the_trace_at_a_moment():
    hit = Seen(id='D1:1', text='<script>alert(1)</script>', sources=['D1:1'])
    trace = Trace(question='q', method='m', model='m', steps=[SearchStep(iteration=1, query='q', k=1, hits=[hit]), StateStep(iteration=1)])
    page = TraceView(trace, at=-1, pause=.5)._repr_html_()
    assert 'data-at="1"' in page and 'data-pause="500"' in page and '<script>alert' not in page
    assert TraceView(trace)._repr_html_() == trace._repr_html_()


def test_router_update_names_what_it_expected():
    with pytest.raises(ValueError, match='streak: expected a whole number from 0 to 6, got .7.'):
        router_update(Routed(), 'streak', '7')
