"""Pages: whatever is said stays text, in every place, and nothing is hidden before a script has run."""

import html
import re

from hypothesis import given, strategies as st

from memnb.views.traces import fold, framed, hits_html, rows_html, safe, tags
from memnb.core.trace import Seen
from memnb.views.traces import TraceRow, TONES
from pages_read import Page

EVIL = [
    '<script>alert(1)</script>',
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='x",
    '</style></pre></details></section>',
    '<!-- ',
    '-->',
    '&lt;b&gt;',
    '\x1b[2J',
    '\u202e',
    '\ud83d',
    '\x00',
    'plain words',
    ' ',
    '',
]
TEXTS = st.lists(st.sampled_from(EVIL) | st.text(st.characters(exclude_categories=()), max_size=6), max_size=3).map(
    ''.join
)
SEENS = st.builds(
    lambda text, score, dated, spoken: Seen(
        id=text, text=text, sources=[text], score=score, when=text if dated else None, speaker=text if spoken else None
    ),
    TEXTS.map(lambda text: text + 'x'),
    st.none() | st.floats(0, 9),
    st.booleans(),
    st.booleans(),
)
ROWS = st.builds(
    TraceRow,
    TEXTS,
    TEXTS,
    TEXTS,
    st.lists(TEXTS, max_size=2).map(tuple),
    st.sampled_from(sorted(TONES)),
    st.lists(SEENS, max_size=2).map(tuple),
    st.lists(st.tuples(TEXTS, TEXTS), max_size=2).map(tuple),
)
STORIES = st.lists(st.tuples(TEXTS, st.lists(ROWS, max_size=2)), min_size=1, max_size=4)


def ours(page):
    """What opens and closes, with the attributes whose value is ours."""
    return [
        (tag, {name: name == 'aria-label' or value for name, value in attributes.items()})
        for tag, attributes in page.tags
    ], page.closed


def shape(row):
    """The same row with words for texts; what is empty stays empty, because an empty text shows nothing."""

    def word(text):
        return 'word' if text else ''

    seen = tuple(
        Seen(id='w', text='w', sources=['w'], score=hit.score, when=hit.when and 'w', speaker=hit.speaker and 'w')
        for hit in row.hits
    )
    return TraceRow(
        'w', 'w', word(row.note), tuple('w' for _ in row.ids), row.tone, seen, tuple(('w', 'w') for _ in row.pages)
    )


@given(STORIES)
def test_the_tags_of_a_page_do_not_depend_on_what_is_said(story):
    page = Page(framed(''.join(fold(safe(title), rows_html(rows)) for title, rows in story)))
    plain = Page(framed(''.join(fold('w', rows_html(map(shape, rows))) for _, rows in story)))
    assert ours(page) == ours(plain) and page.odd == []


@given(TEXTS)
def test_a_text_reads_as_it_was_and_control_characters_as_pictures(text):
    assert html.unescape(safe(text)) == html.unescape(html.escape(html.unescape(safe(text))))
    assert not set('<>"\'') & set(safe(text)) and not re.search('[\x00-\x1f\x7f-\x9f\ud800-\udfff]', safe(text))


@given(st.lists(SEENS, max_size=4))
def test_every_snippet_is_a_line(hits):
    assert hits_html(hits).count('<li>') == len(hits)
    assert tags(hit.id for hit in hits).count('<code>') == len(hits)


def test_a_fold_opens_when_told():
    assert fold('a', 'b') == '<details><summary>a</summary>b</details>'
