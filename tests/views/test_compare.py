"""Compare: a strip says which turns, a row says what a method did, and whatever is pressed can be shown."""
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from hypothesis import given, settings, strategies as st

import memnb.views.widgets as compare
from memnb.views.widgets import (
    asked, built, compare_board, Compared, compared, comparing_update, comparing_view, outcome_line,
    places, strip_svg, verdict)
from memnb.core.conversation import Conversation, Question, Session, Turn
from memnb.evaluation.datasets import load_sample
from memnb.evaluation.registry import METHODS
from memnb.core.roles import Usage
from memnb.core.trace import ModelStep, Trace
from pages_read import Page

SAMPLE = load_sample()
SMALL = replace(SAMPLE, id='small', sessions=SAMPLE.sessions[:2], questions=())
QUESTIONS = (replace(SAMPLE.questions[0], conversation='small'), Question('Why does it rain?'), SAMPLE.questions[48],
             Question('What instrument is Tobin learning?', 'a fiddle', aliases=('the concertina',)))
CHEAP = ('rag', 'memr3', 'full-context')
EVIL = '<img src=x onerror=alert(1)>"\'><script>alert(2)</script>'


def talk(lengths):
    """A conversation of sessions of some lengths."""
    return Conversation('talk', tuple(Session(f'D{number}', tuple(Turn(f'D{number}:{place}', 'Ann', 'hello') for place in range(length)))
                                      for number, length in enumerate(lengths)))


@st.composite
def strips(draw):
    conversation = talk(draw(st.lists(st.integers(0, 6), max_size=8) | st.lists(st.integers(0, 2), min_size=30, max_size=60)))
    ids = st.sampled_from([turn.id for turn in conversation.turns] + ['D99:1', EVIL])
    return conversation, draw(st.lists(ids, max_size=12)), draw(st.lists(ids, max_size=5))


@given(strips())
def test_a_strip_can_be_read_off(strip):
    conversation, read, gold = strip
    spots, picture = places(conversation), strip_svg(conversation, read, gold, EVIL)
    order = [spots[turn.id] for turn in conversation.turns]
    assert order == sorted(order) and len(set(order)) == len(order) and all(0 < x < 720 for x in order)
    turns = {x: turn for turn, x in spots.items()}
    strokes = {turns[float(x)] for x in re.findall(r'M([\d.]+) 14V29', picture)}
    assert strokes == set(read) & set(spots)
    marks = {turns[float(x)]: fill for x, fill in re.findall(r'<circle cx="([\d.]+)" cy="7" r="4.5" fill="(\w+)"', picture)}
    assert marks == {turn: 'currentColor' if turn in read else 'none' for turn in set(gold) & set(spots)}
    labels = [(float(x), len(word) * 8) for x, word in re.findall(r'<text x="([\d.]+)"[^>]*>(\w+)<', picture)]
    assert all(x + wide / 2 <= later - width / 2 for (x, wide), (later, width) in zip(labels, labels[1:]))
    assert set(Page(picture).names) <= {'svg', 'path', 'circle', 'text', 'title'} and '<script' not in picture


def test_every_session_of_the_sample_has_its_label():
    picture = strip_svg(SAMPLE, [], [])
    assert re.findall(r'>(D\d+)<', picture) == [session.id for session in SAMPLE.sessions]


@given(st.sampled_from(CHEAP), st.sampled_from(QUESTIONS), st.integers(1, 40))
@settings(max_examples=30)
def test_a_row_is_what_the_method_did_within_its_budget(method, question, budget):
    row = compared(SMALL, question, method, budget)
    turns = budget if METHODS[method].budgeted else None
    trace = METHODS[method].loop(built(SMALL, method)[0], SMALL, None, turns).ask(question.text, budget=turns)
    assert (row.trace.answer, row.trace.read) == (trace.answer, trace.read)
    assert method == 'full-context' or len(set(row.trace.read)) <= budget
    assert set(row.found) | set(row.missed) == set(question.evidence) and set(row.found) == set(question.evidence) & set(trace.read)
    prompts = [step for step in row.trace.steps if isinstance(step, ModelStep)]
    assert row.trace.total.calls == len(prompts) and row.trace.total.estimated
    assert row.trace.total.prompt_tokens * 4 >= sum(len(step.system) + len(step.user) for step in prompts)


def test_a_memory_is_built_once_for_all_who_share_it():
    assert built(SMALL, 'rag') is built(SMALL, 'memr3') and built(SMALL, 'rag')[0] is not built(SMALL, 'full-context')[0]
    assert built(SMALL, 'rag')[1] == Usage() and built(SMALL, 'remem')[1].prompt_tokens > 1_000
    assert built(SMALL, 'remem') is built(SMALL, 'remem-s') and asked(SMALL, 'rag', 'Why?', 3) is asked(SMALL, 'rag', 'Why?', 3)


def test_who_knows_says_who_is_right():
    assert [verdict(QUESTIONS[0], answer) for answer in ('8 January 2024', 'on 9 January 2024', '', None)] == [True, False, False, False]
    assert verdict(QUESTIONS[1], 'Because.') is None and verdict(Question('Why?', refuse=True), 'It is not mentioned.')
    assert verdict(QUESTIONS[2], 'No information available') and not verdict(QUESTIONS[2], '8 January 2024')
    assert verdict(QUESTIONS[3], 'The concertina') and verdict(QUESTIONS[3], 'A fiddle') and not verdict(QUESTIONS[3], 'A harp')


def row(method, right, tokens=10, missed=()):
    return Compared(method, Trace(question='q', method=method, model='m', usage={'r': Usage(1, tokens, 1, True)}), right, (), missed, Usage())


def test_the_line_names_the_cheapest_of_those_who_are_right():
    assert outcome_line([row('a', True, 30), row('b', True, 20, ('D1:1',)), row('c', False, 1)], 5) == (
        'With at most 5 turns 2 of 3 are right. Fewest prompt tokens among them: b, about 20. Right, and all gold turns read: a.')
    assert outcome_line([row('a', False)], 3) == 'With at most 3 turns nobody is right.'
    assert outcome_line([row('a', None)], 3) == 'With at most 3 turns; the right answer is not known.'
    assert outcome_line([row('b', True), row('a', True)], 5).count('among them: a') == 1


EVENTS = st.one_of(
    st.tuples(st.just('question'), st.integers(-1, 4).map(str)), st.tuples(st.just('budget'), st.sampled_from(['3', '5', '6', '10', '-3'])),
    st.tuples(st.just('open'), st.sampled_from([*CHEAP, 'remem', '', EVIL])), st.tuples(st.just('step'), st.integers(0, 12).map(str)),
    st.tuples(st.just('go'), st.sampled_from(['back', 'forward', 'home'])), st.tuples(st.sampled_from(['', 'other']), st.text(max_size=3)))


@settings(max_examples=40)
@given(st.lists(EVENTS, max_size=10))
def test_any_clicks_end_where_a_simple_book_says(events):
    board = compare_board(SMALL, QUESTIONS, CHEAP, (3, 5, 10))
    question, budget, opened, at = 0, 5, '', 0
    for name, value in events:
        board.send(name, value)
        moments = len(compare.story_of(asked(SMALL, opened, QUESTIONS[question].text, budget))) if opened else 0
        to = {'back': at - 1, 'forward': at + 1}.get(value, -1) if name == 'go' else int(value) - 1 if name == 'step' else -1
        done = True
        if name == 'question' and value in '0123':
            question, at = int(value), 0
        elif name == 'budget' and value in ('3', '5', '10'):
            budget, at = int(value), 0
        elif name == 'open' and value in CHEAP:
            opened, at = '' if value == opened else value, 0
        elif name in ('go', 'step') and 0 <= to < moments:
            at = to
        else:
            done = False
        assert bool(board.refused) != done
    state = board.state
    assert (state.question, state.budget, state.opened, state.at) == (question, budget, opened, at)
    page = Page(board.html)
    assert board.html.count('<svg') == len(CHEAP) and QUESTIONS[question].text in page.words
    assert ('How' in page.words and f'step {at + 1} of {len(state.story)}' in page.words) == bool(opened)
    assert len(re.findall('data-event="open"[^>]*aria-pressed="true"', board.html)) == bool(opened)
    marks = [{True: '✓ right', False: '✗ wrong'}.get(one.right, '') for one in state.rows]
    assert page.words.count('✓ right') == marks.count('✓ right') and page.words.count('✗ wrong') == marks.count('✗ wrong')


@given(st.sampled_from(['question', 'budget', 'open', 'step', 'go']), st.text(max_size=4) | st.sampled_from(['²', '٣', '01', ' 3']))
def test_an_update_refuses_or_gives_a_state_that_can_be_shown(name, value):
    state = compare_board(SMALL, QUESTIONS, CHEAP).send('open', 'memr3').state
    try:
        after = comparing_update(state, name, value)
    except ValueError as error:
        assert 'expected' in str(error)
    else:
        assert after.question in range(4) and after.budget in after.budgets and after.at in range(max(len(after.story), 1))


def test_markup_stays_text():
    turns = tuple(replace(turn, text=f'{turn.text} {EVIL}', speaker=turn.speaker) for turn in SMALL.sessions[0].turns)
    hostile = replace(SMALL, id=EVIL, sessions=(replace(SMALL.sessions[0], turns=turns),))
    questions = [Question(f'What does Tobin think of {EVIL}?', EVIL, ('D1:1', EVIL))]
    plain = Page(comparing_view(compare_board(SMALL, QUESTIONS, CHEAP).send('open', 'memr3').state))
    for step in ('1', '2', '3'):
        page = Page(comparing_view(compare_board(hostile, questions, CHEAP).send('open', 'memr3').send('step', step).state))
        extra = {'ol', 'li', 'pre', 'h5', 'dl', 'dt', 'dd', 'div', 'details', 'summary', 'code', 'circle', 'title', 'b', 'small', 'span'}
        assert set(page.names) <= set(plain.names) | extra and not {'onerror', 'src'} & page.attributes
        assert 'script' not in page.names and EVIL in page.words


def test_a_run_that_failed_is_shown_with_its_error(monkeypatch):
    broken = Trace(question='q', method='rag', model='m', error='ServerError: <down>')
    monkeypatch.setattr(compare, 'asked', lambda *given: broken)
    page = comparing_view(compare_board(SMALL, QUESTIONS, CHEAP).state)
    assert page.count('<b>failed:</b> ServerError: &lt;down&gt;') == len(CHEAP) and 'no answer' in page
    opened = compare_board(SMALL, QUESTIONS, CHEAP).send('open', 'rag')
    assert 'How rag got there: step 1 of 1' in opened.html and '<p>ServerError: &lt;down&gt;</p>' in opened.html


def test_what_cannot_be_compared_is_refused():
    for options in ({'budgets': ()}, {'budgets': (0, 3)}, {'methods': ('nobody',)}, {'methods': ('rag', 'rag')}, {'question': 9}):
        with pytest.raises(ValueError, match='expected|more than once'):
            compare_board(SMALL, QUESTIONS, **options)
    with pytest.raises(ValueError, match='expected some questions'):
        compare_board(SMALL)


def test_clicks_may_come_from_any_thread():
    board = compare_board(SMALL, QUESTIONS, ('rag', 'memma'))
    answers = [one.trace for one in board.state.rows]
    with ThreadPoolExecutor(1) as other:
        for name, value in (('budget', '10'), ('question', '3'), ('open', 'memma')):
            other.submit(board.send, name, value).result()
            assert not any(one.trace.error for one in board.state.rows)
        asked.cache_clear()
        assert other.submit(lambda: [one.trace for one in compare_board(SMALL, QUESTIONS, ('rag', 'memma')).state.rows]).result() == answers
