"""The views are pure functions of what the controls say, checked against simple oracles; the controls only call them."""
import re
from dataclasses import replace
from html import unescape

import pytest
from hypothesis import given, settings, strategies as st

import memnb.views.widgets as widgets
from memnb.core.conversation import Conversation, Question, Session, Turn
from memnb.core.roles import Usage
from memnb.core.trace import Bullet, ModelStep, StateStep, Trace
from memnb.evaluation.datasets import load_sample
from memnb.evaluation.registry import METHODS
from memnb.memma.bank import MemoryBank
from memnb.memma.construction import construct
from memnb.memma.probe_repair import count_passed, damage, evolve
from memnb.memr3.router import ACTIONS, forced, route, RouterLimits
from memnb.mragent.separation import NeedleTree
from memnb.views.widgets import (
    compare_board, compare_html, error_curves, explore, figure_html, is_right, LABEL_LAWS, later_answer, method_result, moment_html, probe_board,
    probe_html, reachable_states, repair_outcome, RepairScene, router_explorer, router_html, separation_figure, separation_slider, state_marks,
    strip_svg, trace_stepper, tracker_board, tracker_html, word_changes)
from pages_read import Page

SAMPLE = load_sample()
EVIL = '<img src=x onerror=alert(1)>"\'><script>alert(2)</script>'


def shown(board):
    """What is below the controls."""
    return board.children[1].value


def controls(board):
    return board.children[0].children


def test_a_change_of_a_control_shows_the_view_anew_and_an_error_in_its_place():
    import ipywidgets
    number = ipywidgets.IntSlider(2, 0, 5)
    board = explore(lambda number: f'<p>{10 // number}</p>', number=number)
    assert '<p>5</p>' in shown(board)
    number.value = 0
    assert '<b>ZeroDivisionError:</b>' in shown(board) and '<p>5</p>' not in shown(board)
    number.value = 1
    assert '<p>10</p>' in shown(board)


# ------------------------------------------------------------------ traces and trackers

WORDS = st.text('ab<>"&', min_size=1, max_size=3)
TURNS = ('D1:1', 'D1:2', 'D1:3')
CONVERSATION = Conversation('c', (Session('D1', tuple(Turn(turn, 'Ada', f'<b>{turn}</b>') for turn in TURNS), None),))


@st.composite
def tracked_traces(draw):
    """A run of a monotone tracker: evidence grows, gaps open and close."""
    evidence, gaps, steps = [], [], []
    for iteration in range(1, draw(st.integers(1, 4)) + 1):
        fresh = [Bullet(text=text, sources=draw(st.lists(st.sampled_from(TURNS), max_size=2, unique=True)))
                 for text in draw(st.lists(WORDS.map(lambda word: 'e' + word), max_size=2, unique=True))
                 if text not in [one.text for one in evidence]]
        closed = [gap for gap in gaps if draw(st.booleans())]
        drawn = draw(st.lists(WORDS.map(lambda word: 'g' + word), max_size=2, unique=True))
        opened = [gap for gap in drawn if gap not in gaps and gap not in closed]
        evidence, gaps = evidence + fresh, [gap for gap in gaps if gap not in closed] + opened
        steps.append(StateStep(iteration=iteration, evidence=evidence, gaps=gaps, gained=[one.text for one in fresh],
                               closed=closed, opened=opened))
    return Trace(question='q', method='memr3', model='rules', steps=steps)


@given(tracked_traces(), st.data())
def test_the_tracker_table_says_what_each_state_has(trace, data):
    marks = state_marks(trace.steps)
    for place, state in enumerate(trace.steps):
        column = {text: line[place] for text, line in marks.items()}
        assert {text for text, mark in column.items() if mark in ('+', '●')} == {bullet.text for bullet in state.evidence}
        assert {text for text, mark in column.items() if mark == '+'} == set(state.gained)
        assert {text for text, mark in column.items() if mark == '?'} == set(state.gaps)
        assert {text for text, mark in column.items() if mark == '✓'} == set(state.closed)
    place, turn = data.draw(st.integers(1, len(trace.steps))), data.draw(st.sampled_from(['', *TURNS]))
    page = Page(tracker_html(trace, place, CONVERSATION, turn))
    assert page.odd == [] and all(text in page.words for text in marks)
    assert ('Session D1' in page.words) == bool(turn)


def test_a_board_for_a_trace_without_states_is_refused_and_one_without_a_conversation_names_turns():
    trace = Trace(question='<i>', method='m', model='m', steps=[StateStep(iteration=1, evidence=[Bullet(text='t', sources=['D1:1'])])])
    assert '<code>D1:1</code>' in shown(tracker_board(trace)) and '<i>' not in shown(tracker_board(trace))
    with pytest.raises(ValueError, match='expected a trace with states'):
        tracker_board(replace_steps(trace))


def replace_steps(trace):
    return trace.model_copy(update={'steps': []})


@settings(max_examples=20)
@given(tracked_traces())
def test_a_stepper_shows_each_moment(trace):
    play, board = trace_stepper(trace).children
    for step in range(1, play.max + 1):
        play.value = step
        assert f'Step {step} of {play.max}' in shown(board) and controls(board)[0].value == step
    assert 'ServerError: &lt;' in moment_html(Trace(question='q', method='m', model='m', error='ServerError: <'))


# ------------------------------------------------------------------ the router

@given(st.integers(1, 9), st.integers(1, 6), st.integers(0, 3), st.integers(1, 3), st.booleans(), st.sampled_from(ACTIONS), st.booleans())
def test_the_router_table_is_algorithm_1(iteration, budget, streak, cap, hits, proposed, released):
    limits = RouterLimits(budget, cap)
    page = router_html(iteration, budget, streak, cap, hits, proposed, released)
    reached, letters = reachable_states(limits, released), {'answer': 'A', 'reflect': 'F', 'retrieve': 'R'}
    tables = re.findall('<table.*?</table>', page)
    for some, table in zip((True, False), tables):
        rows = re.findall('<tr>(.*?)</tr>', table)[1:]
        for row, line in enumerate(rows):
            for column, (kind, text) in enumerate(re.findall(r'<td class="(.*?)">(.*?)</td>', line), 1):
                due = forced(iteration=column, retrieved=int(some), reflect_streak=row, limits=limits, released=released)
                letter = letters[due.action] if due else '–'
                assert text == (letter if (column, row, some) in reached else f'({letter})')
                assert kind.endswith('now') == ((column, row, some) == (iteration, streak, hits))
    decision = route(proposed, iteration=iteration, retrieved=int(hits), reflect_streak=streak, limits=limits, released=released)
    assert f'<b>{decision.action}</b>' in page and page.count(' now"') == 1


@given(st.integers(1, 6), st.integers(1, 3), st.booleans(), st.data())
def test_a_run_enters_only_states_that_can_be_reached(budget, cap, released, data):
    limits, states = RouterLimits(budget, cap), reachable_states(RouterLimits(budget, cap), released)
    iteration, streak, hits = 1, 0, data.draw(st.booleans())
    while True:
        assert (iteration, streak, hits) in states
        action = route(data.draw(st.sampled_from(ACTIONS)), iteration=iteration, retrieved=int(hits), reflect_streak=streak,
                       limits=limits, released=released).action
        if action == 'answer':
            break
        iteration += 1
        streak, hits = (streak + 1, hits) if action == 'reflect' else (0, data.draw(st.booleans()))
    assert iteration <= budget


def test_the_router_explorer_has_a_control_for_each_input():
    board = router_explorer()
    iteration, budget = controls(board)[:2]
    budget.value, iteration.value = 3, 3
    assert '<b>answer</b>' in shown(board) and len(controls(board)) == 7


# ------------------------------------------------------------------ probe and repair

SESSION = SAMPLE.sessions[4]
SCENE = RepairScene(SESSION, SAMPLE.speakers, (SAMPLE.questions[6], SAMPLE.questions[32]))
CASES = [('', 1), ('blur', 1), ('cluster', 2)]


def by_hand(kind, seed):
    """The damaged memory and what becomes of it, made without the board."""
    bank = MemoryBank()
    construct(bank, SESSION, speakers=SAMPLE.speakers)
    if kind:
        damage(bank, [entry.id for entry in bank], kind, .7, str(seed), SAMPLE.speakers)
    before = {entry.id: entry.text for entry in bank}
    evolution = evolve(bank, SESSION, probes=6, speakers=SAMPLE.speakers)
    return before, {entry.id: entry.text for entry in bank}, evolution


@pytest.mark.parametrize('kind, seed', CASES)
def test_accepting_all_is_the_mechanism_and_accepting_none_is_the_damage(kind, seed):
    before, after, evolution = by_hand(kind, seed)
    scene = replace(SCENE, kind=kind, seed=seed)
    every, none = repair_outcome(replace(scene, accepted=None)), repair_outcome(scene)
    assert {entry.id: entry.text for entry in every[1]} == after and {entry.id: entry.text for entry in none[1]} == before
    assert every[0].rounds() == evolution.rounds() and none[0].before == evolution.before == none[0].after
    some = frozenset(list(scene.proposals)[:1])
    changed = {entry.id: entry.text for entry in repair_outcome(replace(scene, accepted=some))[1]}
    expected = before | {scene.proposals[place].entry: after[scene.proposals[place].entry] for place in some if scene.proposals[place].writes}
    assert set(changed.values()) == set(expected.values())


def test_the_probe_board_follows_its_boxes():
    board = probe_board(SAMPLE, 4, SCENE.questions)
    kind, seed, every, none = board.children[0].children
    boxes = controls(board.children[1])[1:]
    boxes[2].value = True
    later, right = later_answer(replace(SCENE, accepted=frozenset({int(re.search(r'\d+', boxes[2].description)[0]) - 1})), 0)
    assert ('✓ right' if right else '✗ wrong') + f': {later.answer}' in unescape(shown(board.children[1]))
    every.click()
    assert f'with {len(boxes)} of {len(boxes)} repairs accepted' in shown(board.children[1])
    none.click()
    assert f'with 0 of {len(boxes)} repairs accepted' in shown(board.children[1])
    kind.value = ''
    evolution = repair_outcome(replace(SCENE, kind=''))[0]
    assert f'{count_passed(evolution.after)} with 0 of' in shown(board.children[1])
    with pytest.raises(ValueError, match='session D2: expected a question whose evidence is in it'):
        probe_board(SAMPLE, 1)


@given(*[st.lists(st.sampled_from(['a', 'b', '<b>', '&']), max_size=6).map(' '.join)] * 2)
def test_both_texts_can_be_read_off_their_difference(old, new):
    picture = word_changes(old, new)
    assert set(re.findall('<(.*?)>', picture)) <= {'del', '/del', 'ins', '/ins'}
    without = [re.sub(f'<{tag}>.*?</{tag}>', '', picture) for tag in ('ins', 'del')]
    assert [' '.join(unescape(re.sub('</?(?:ins|del)>', '', one)).split()) for one in without] == [old, new]
    assert ('<del>' in picture or '<ins>' in picture) == (old != new)


# ------------------------------------------------------------------ comparing methods

SMALL = replace(SAMPLE, id='small', sessions=SAMPLE.sessions[:2], questions=())
QUESTIONS = (replace(SAMPLE.questions[0], conversation='small'), Question('Why does it rain?'), SAMPLE.questions[48],
             Question('What instrument is Tobin learning?', 'a fiddle', aliases=('the concertina',)))
CHEAP = ('rag', 'memr3', 'full-context')


@settings(max_examples=20)
@given(st.sampled_from(CHEAP), st.sampled_from(QUESTIONS), st.integers(1, 40))
def test_a_result_is_what_the_method_did_within_its_budget(method, question, budget):
    result = method_result(SMALL, question, method, budget)
    turns = budget if METHODS[method].budgeted else None
    memory = METHODS[method].memory.build(SMALL, None)
    trace = METHODS[method].loop(memory, SMALL, None, turns).ask(question.text, budget=turns)
    assert (result.trace.answer, result.trace.read) == (trace.answer, trace.read)
    assert method == 'full-context' or len(set(result.trace.read)) <= budget
    assert set(result.found) == set(question.evidence) & set(trace.read)
    assert set(result.missed) == set(question.evidence) - set(trace.read)
    prompts = [step for step in result.trace.steps if isinstance(step, ModelStep)]
    assert result.trace.total.calls == len(prompts) and result.trace.total.estimated


def test_answers_are_marked_by_the_strict_rule():
    assert [is_right(QUESTIONS[0], answer) for answer in ('8 January 2024', 'on 9 January 2024', None)] == [True, False, False]
    assert is_right(QUESTIONS[1], 'Because.') is None and is_right(Question('Why?', refuse=True), 'It is not mentioned.')
    assert is_right(QUESTIONS[3], 'The concertina') and not is_right(QUESTIONS[3], 'A harp')


@given(st.lists(st.integers(0, 6), max_size=6), st.data())
def test_a_strip_can_be_read_off(lengths, data):
    sessions = [Session(f'D{number}', tuple(Turn(f'D{number}:{place}', 'Ann', 'hello') for place in range(length)))
                for number, length in enumerate(lengths)]
    conversation = Conversation('talk', tuple(sessions))
    turns = [turn.id for turn in conversation.turns]
    read, gold = (data.draw(st.lists(st.sampled_from([*turns, 'D99:1', EVIL]), max_size=8)) for _ in range(2))
    picture = strip_svg(conversation, read, gold)
    strokes = [float(x) for x in re.findall(r'M([\d.]+) 14V29', picture)]
    assert len(strokes) == len(set(read) & set(turns)) and strokes == sorted(strokes)
    circles = re.findall(r'fill="(\w+)" stroke="currentColor"><title>(.*?)</title>', picture)
    assert {turn: fill == 'currentColor' for fill, turn in circles} == {turn: turn in read for turn in set(gold) & set(turns)}


def test_the_comparison_follows_its_controls_and_shows_a_trace():
    board = compare_board(SMALL, QUESTIONS, CHEAP, (3, 5, 10))
    table, method, below = board.children
    question, budget = controls(table)
    budget.value, question.value, method.value = 10, 3, 'memr3'
    assert shown(table).endswith(compare_html(SMALL, QUESTIONS[3], 10, CHEAP) + '</div>') and shown(table).count('<svg') == 3
    assert QUESTIONS[3].text in shown(below.children[0].children[1])
    for options in ({'budgets': ()}, {'budgets': (0, 3)}, {'methods': ('nobody',)}, {'methods': ('rag', 'rag')}):
        with pytest.raises(ValueError, match='expected|more than once'):
            compare_board(SMALL, QUESTIONS, **options)


def test_a_run_that_failed_is_shown_with_its_error(monkeypatch):
    broken = Trace(question='q', method='rag', model='m', error='ServerError: <down>', usage={'r': Usage(1, 1, 1, True)})
    monkeypatch.setattr(widgets, '_asked', lambda *given: broken)
    page = compare_html(SMALL, QUESTIONS[0], 5, CHEAP)
    assert page.count('failed: ServerError: &lt;down&gt;') == len(CHEAP) and 'no answer' in page


# ------------------------------------------------------------------ separation

@pytest.mark.parametrize('name', LABEL_LAWS)
def test_active_reading_errs_least_and_random_reading_most(name):
    tree = NeedleTree(2, LABEL_LAWS[name], 2)
    curves = error_curves(tree)
    for active, best, random in zip(curves['active'], curves['best passive'], curves['random passive']):
        assert active <= best + 1e-9 and best <= random + 1e-9
    assert curves['active'][2] == pytest.approx(0 if tree.labels.distractors is None else curves['active'][2])
    assert '<img' in figure_html(separation_figure(2, 2, name))


def test_the_slider_draws_another_tree():
    board = separation_slider()
    before = shown(board)
    controls(board)[0].value = 2
    assert '<img' in shown(board) and shown(board) != before


# ------------------------------------------------------------------ text stays text

def test_markup_stays_text():
    turns = tuple(replace(turn, text=f'{turn.text} {EVIL}') for turn in SESSION.turns)
    session = replace(SESSION, turns=turns)
    hostile = Conversation(EVIL, (session,), ())
    question = Question(f'What does Tobin think of {EVIL}?', EVIL, (SESSION.turns[0].id,))
    scene = RepairScene(session, SAMPLE.speakers, (question,), accepted=frozenset({2}))
    trace = Trace(question=EVIL, method=EVIL, model=EVIL, steps=[StateStep(iteration=1, evidence=[Bullet(text=EVIL, sources=[turns[0].id])])])
    for page in (probe_html(scene), compare_html(hostile, question, 5, CHEAP), tracker_html(trace, 1, hostile, turns[0].id), moment_html(trace)):
        read = Page(page)
        assert EVIL in read.words and not {'script', 'img'} & set(read.names)
        assert not any(name.startswith('on') for name in read.attributes)
