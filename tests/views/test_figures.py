"""Figures of traces: every text stays inside its box and the page, boxes of a figure do not overlap, and any trace can be drawn."""

import io

import pytest
from hypothesis import given, settings, strategies as st
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.patches import FancyBboxPatch

from memnb.core.trace import Bullet, printable, RouteStep, SearchStep, Seen, StateStep, ToolStep, Trace
from memnb.views.figures import _lines, trace_figure

pytestmark = pytest.mark.filterwarnings('ignore:Glyph')  # the font has no Chinese
WORDS = st.text(st.sampled_from('abcmWiäß漢🙂$\\_^{}<>& \n\u202e'), min_size=1, max_size=80)
TURNS = st.lists(st.sampled_from(['D1:1', 'D1:2', 'D2:1', 'D13:12']), max_size=4, unique=True)
HITS = st.lists(
    st.builds(Seen, id=st.sampled_from(['D1:1', 'D1:2', 'D2:1', 'e9']), text=WORDS, sources=TURNS), max_size=5
)
NUMBERS = st.integers(1, 4)
SEARCHES = st.builds(SearchStep, iteration=NUMBERS, query=WORDS, k=st.just(5), hits=HITS)
CALLS = st.builds(
    ToolStep,
    iteration=NUMBERS,
    tool=st.sampled_from(['query_tag_events', 'search']),
    hits=HITS,
    arguments=st.dictionaries(st.sampled_from(['cue', 'tag', 'query']), WORDS, max_size=2),
)
STATES = st.builds(
    StateStep,
    iteration=NUMBERS,
    evidence=st.lists(st.builds(Bullet, text=WORDS, sources=TURNS), max_size=3),
    gaps=st.lists(WORDS, max_size=3),
    gained=st.lists(WORDS, max_size=2),
)
ROUTES = st.builds(RouteStep, iteration=NUMBERS, proposed=st.just('answer'), action=st.just('answer'), reason=WORDS)


def traces(*steps):
    return st.builds(
        Trace,
        question=WORDS,
        method=st.just('memr3'),
        model=st.just('rules'),
        answer=st.none() | WORDS,
        evidence=TURNS,
        read=TURNS,
        steps=st.lists(st.one_of(steps), max_size=8),
    )


def boxes_of(figure):
    return [patch.get_extents() for patch in figure.axes[0].patches if isinstance(patch, FancyBboxPatch)]


def check(figure):
    "Every text inside the page, and inside the box in which it begins; no two boxes overlap."
    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw_without_rendering()
    page, boxes = figure.bbox, boxes_of(figure)
    for text in figure.axes[0].texts:
        place = text.get_window_extent(renderer)
        assert place.x1 <= page.x1 and place.y0 >= -2 and place.y1 <= page.y1 + 2, text.get_text()
        around = [box for box in boxes if box.contains(place.x0 + 1, place.y1 - 3)]
        assert all(place.x1 <= box.x1 + 1 for box in around), text.get_text()
        assert text.get_fontsize() >= 12
    for number, one in enumerate(boxes):
        for other in boxes[number + 1 :]:
            across = min(one.x1, other.x1) - max(one.x0, other.x0)
            along = min(one.y1, other.y1) - max(one.y0, other.y0)
            assert across <= 0.5 or along <= 0.5
    return figure


@settings(max_examples=25)
@given(
    st.one_of(traces(SEARCHES, CALLS), traces(SEARCHES, STATES, ROUTES)),
    st.just('') | WORDS,
)
def test_any_trace_is_drawn_inside_its_boxes(trace, title):
    check(trace_figure(trace, title))


@settings(max_examples=25)
@given(st.text(st.characters(codec='latin-1'), max_size=200), st.integers(60, 400), st.integers(1, 5))
def test_lines_have_all_words_until_the_ellipsis(text, width, most):
    lines = _lines(text, width, 14, most=most)
    said = ' '.join(lines)
    assert len(lines) <= most
    whole = _lines(text, width, 14, most=10**6)
    words, letters = said.removesuffix('…').replace(' ', ''), printable(text).replace(' ', '')
    if len(whole) <= most:
        assert lines == whole and words == letters
    else:
        assert said.endswith('…') and letters.startswith(words)


def state_trace():
    "Two rounds: a gap is opened in the first and closed in the second."

    def hit(id):
        return Seen(id=id, text=f'what {id} says', sources=[])

    return Trace(
        question='Who?',
        method='memr3',
        model='written example',
        answer='Ada',
        evidence=['D2:1', 'D1:1'],
        read=['D1:1', 'D2:1'],
        steps=[
            SearchStep(iteration=1, query='Who?', k=5, hits=[hit('D1:1')]),
            StateStep(
                iteration=1,
                evidence=[Bullet(text='a dog', sources=['D1:1'])],
                gained=['a dog'],
                gaps=['whose dog'],
                opened=['whose dog'],
            ),
            RouteStep(iteration=1, proposed='retrieve', action='retrieve', reason='as proposed'),
            SearchStep(iteration=2, query='Who? whose dog', k=5, hits=[hit('D2:1')]),
            StateStep(
                iteration=2,
                evidence=[Bullet(text='a dog', sources=['D1:1']), Bullet(text="Ada's dog", sources=['D2:1'])],
                gained=["Ada's dog"],
                closed=['whose dog'],
            ),
            RouteStep(iteration=2, proposed='answer', action='answer', reason='as proposed'),
        ],
    )


def test_bars_last_as_long_as_what_they_show():
    figure = check(trace_figure(state_trace(), 'The second search finds whose dog it is'))
    texts = {text.get_text(): text.get_window_extent() for text in figure.axes[0].texts}
    assert {'The second search finds whose dog it is', 'Who?', 'Search 2: whose dog', 'Answer: Ada'} <= set(texts)

    def bar(words):
        place = texts[words]
        return next(box for box in boxes_of(figure) if box.contains(place.x0 + 1, place.y1 - 3))

    old, new, gap = bar('✓ a dog'), bar("✓ Ada's dog"), bar('? whose dog')
    assert old.x0 == gap.x0 < new.x0 and old.x1 == new.x1 > gap.x1


def test_figures_are_the_same_twice():
    files = [io.BytesIO(), io.BytesIO()]
    for file in files:
        trace_figure(state_trace()).savefig(file, format='png', metadata={'Software': None})
    assert files[0].getvalue() == files[1].getvalue()


def test_the_gap_that_a_search_leaves_is_shown_under_it():
    hits = [Seen(id='m1', text='Line 9', sources=['D1:1'])]
    steps = [
        SearchStep(iteration=1, query='Which line?', k=5, hits=hits),
        RouteStep(iteration=1, proposed='retrieve', action='retrieve', reason='missing: the first line; one is known'),
        SearchStep(iteration=2, query='the first line', k=5, hits=[Seen(id='m2', text='Line 4', sources=['D1:2'])]),
    ]
    trace = Trace(
        question='Which line?',
        method='memma',
        model='rules',
        answer='4, then 9',
        evidence=['D1:1', 'D1:2'],
        read=['D1:1', 'D1:2'],
        steps=steps,
    )
    texts = [text.get_text() for text in check(trace_figure(trace)).axes[0].texts]
    assert texts.count('? the first line') == 1 and texts.count('missing') == 1
