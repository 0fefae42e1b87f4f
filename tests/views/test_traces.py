"""Text from a memory or a model stays text in the HTML of a trace."""

from pages_read import Page

from memnb.core.trace import Bullet, SearchStep, Seen, StateStep, Step, Trace
from memnb.views.traces import trace_html

EVIL = '<img src=x onerror=alert(1)>"\'><script>alert(2)</script>'


def test_markup_stays_text():
    state = StateStep(iteration=1, evidence=[Bullet(text=EVIL, sources=['D1:1'])])
    search = SearchStep(iteration=1, query=EVIL, k=1, hits=[Seen(id='D1:1', text=EVIL, speaker=EVIL)])
    steps = [search, state, Step(kind=EVIL)]
    page = Page(trace_html(Trace(question=EVIL, method=EVIL, model=EVIL, steps=steps, answer=EVIL, evidence=['D1:1'])))
    assert EVIL in page.words and not {'script', 'img'} & set(page.names)
    assert not any(name.startswith('on') for name in page.attributes)
