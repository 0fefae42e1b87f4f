"""The views are pure functions of what the controls say, checked against simple oracles; the controls only call them."""

import re

from hypothesis import given, settings, strategies as st

from pages_read import Page

from memnb.core.trace import Bullet, SearchStep, Seen, StateStep, Step, Trace
from memnb.views.traces import story_of
from memnb.views.widgets import (
    moment_html,
    trace_stepper,
)

EVIL = '<img src=x onerror=alert(1)>"\'><script>alert(2)</script>'


def shown(board):
    """What is below the controls."""
    return board.children[1].value


def controls(board):
    return board.children[0].children


def open_page(paged):
    """The page on which a slider over pages opens."""
    slider, stack = paged.children
    assert slider.min == 1 and slider.max == len(stack.children) - 1 and slider.value == stack.selected_index
    return stack.children[slider.value].value


# ------------------------------------------------------------------ traces

WORDS = st.text('ab<>"&', min_size=1, max_size=3)
TURNS = ('D1:1', 'D1:2', 'D1:3')


@st.composite
def tracked_traces(draw):
    """A run of a monotone tracker: evidence grows, gaps open and close."""
    evidence, gaps, steps = [], [], []
    for iteration in range(1, draw(st.integers(1, 4)) + 1):
        fresh = [
            Bullet(text=text, sources=draw(st.lists(st.sampled_from(TURNS), max_size=2, unique=True)))
            for text in draw(st.lists(WORDS.map(lambda word: 'e' + word), max_size=2, unique=True))
            if text not in [one.text for one in evidence]
        ]
        closed = [gap for gap in gaps if draw(st.booleans())]
        drawn = draw(st.lists(WORDS.map(lambda word: 'g' + word), max_size=2, unique=True))
        opened = [gap for gap in drawn if gap not in gaps and gap not in closed]
        evidence, gaps = evidence + fresh, [gap for gap in gaps if gap not in closed] + opened
        steps.append(
            StateStep(
                iteration=iteration,
                evidence=evidence,
                gaps=gaps,
                gained=[one.text for one in fresh],
                closed=closed,
                opened=opened,
            )
        )
    return Trace(question='q', method='memr3', model='rules', steps=steps)


@settings(max_examples=20)
@given(tracked_traces())
def test_a_stepper_opens_on_the_last_moment_and_lists_all(trace):
    play, board = trace_stepper(trace).children
    titles = [title for title, _ in story_of(trace)]
    assert (play.min, play.value, play.max) == (1, len(titles), len(titles))
    pages = [page.value for page in board.children[1].children]
    assert len(pages) == 1 + len(titles) and open_page(board) == pages[-1]
    for step, page in enumerate(pages[1:], 1):
        assert f'Step {step} of {len(titles)}: {titles[step - 1]}<' in page
        lines = re.findall('<li(.*?)>(.*?)</li>', re.search('<ol>(.*?)</ol>', page)[1])
        assert [re.sub('<.*?>', '', line) for _, line in lines] == titles
        assert [place for place, (marks, _) in enumerate(lines, 1) if 'aria-current' in marks] == [step]


def test_only_the_last_moment_ends_with_the_evidence_and_a_trace_may_have_no_answer():
    search = SearchStep(iteration=1, query='q', k=1, hits=[Seen(id='D1:1', text='I said so.')])
    trace = Trace(
        question='q', method='m', model='m', steps=[search, StateStep(iteration=1)], answer='a < b', evidence=['D1:1']
    )
    last = moment_html(trace)
    assert last == moment_html(trace, 2) and '<p class="answer">a &lt; b</p>' in last and 'I said so.' in last
    first = moment_html(trace, 1)
    assert 'class="answer"' not in first and 'the answer in the end: a &lt; b' in first
    failed = trace_stepper(Trace(question='q', method='m', model='m', error='ServerError: <')).children[1]
    page = open_page(failed)
    assert 'Step 1 of 1' in page and 'the answer in the end: ServerError: &lt;' in page


# ------------------------------------------------------------------ text stays text


def test_markup_stays_text():
    state = StateStep(iteration=1, evidence=[Bullet(text=EVIL, sources=['D1:1'])])
    search = SearchStep(iteration=1, query=EVIL, k=1, hits=[Seen(id='D1:1', text=EVIL, speaker=EVIL)])
    trace = Trace(
        question=EVIL,
        method=EVIL,
        model=EVIL,
        steps=[search, state, Step(kind=EVIL)],
        answer=EVIL,
        evidence=['D1:1'],
    )
    pages = [
        moment_html(trace),
        moment_html(trace, 1),
    ]
    for page in pages:
        read = Page(page)
        assert EVIL in read.words and not {'script', 'img'} & set(read.names)
        assert not any(name.startswith('on') for name in read.attributes)
