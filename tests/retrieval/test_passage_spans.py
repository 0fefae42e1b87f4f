"""Passages: they part any text, at the best places that there are, and a hit shows those that fit best."""

import pytest
from hypothesis import assume, given, settings, strategies as st

from fakes import Letters
from memnb.core.conversation import Snippet
from memnb.retrieval.bm25 import LexicalIndex
from memnb.retrieval.hybrid import HybridIndex
from memnb.retrieval.passages import count_words, passage_spans

LETTERS = 1600  # of a passage, at most
PIECES = ['boat', 'don’t', '海が青い', 'สวัสดีครับ', 'x = f(3)', 'żółw', '\ud800', '🐢', 'a' * 500, '.' * 30, '#' * 40]
BREAKS = ['\n\n', '\n', '\n \n', ' ', '. ', '。', '! ', '', '\t', '\r\n', '\n    ', ' ' * 900]
any_text = st.text(st.characters(exclude_categories=()), max_size=60)
mixed = st.lists(st.sampled_from(PIECES) | any_text, max_size=60).flatmap(
    lambda pieces: st.lists(st.sampled_from(BREAKS), min_size=len(pieces), max_size=len(pieces)).map(
        lambda breaks: ''.join(piece + end for piece, end in zip(pieces, breaks))
    )
)
limits = st.sampled_from([1, 2, 5, 20, 80])


@settings(max_examples=150)
@given(mixed, limits)
def test_passages_are_the_text_and_none_is_too_long(text, words):
    spans = passage_spans(text, words)
    assert spans == passage_spans(text, words)
    assert [start for start, _ in spans] == [0, *(end for _, end in spans[:-1])] and spans[-1][1] == len(text)
    for start, end in spans:
        assert start < end or not text
        assert count_words(text[start:end]) <= words and end - start <= LETTERS
    if count_words(text) <= words and len(text) <= LETTERS:
        assert len(spans) == 1


@settings(max_examples=60)
@given(mixed, limits)
def test_a_passage_is_as_long_as_the_limit_allows(text, words):
    assume(max(map(len, text.split()), default=0) < 400)  # such words are cut
    spans = passage_spans(text, words)
    for (start, middle), (_, end) in zip(spans, spans[1:]):
        assert count_words(text[start:middle]) + count_words(text[middle:end]) > words or end - start > LETTERS


@pytest.mark.parametrize(
    'end, allowed',
    [
        ('\n\n', '\n\n'),
        ('\n', '\n'),
        ('.\n', '\n'),
        ('. ', '. '),
        ('?” ', '” '),
        ('。', '。'),
        ('！', '！'),
        ('। ', '। '),
        ('؟ ', '؟ '),
        (' ', ' '),
    ],
)
@settings(max_examples=30)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=40))
def test_a_text_is_parted_where_its_pieces_end(end, allowed, lengths):
    text = ''.join(' '.join(['wort'] * length) + end for length in lengths)
    spans = passage_spans(text, 10)
    assert all(text[:stop].endswith(allowed) for _, stop in spans[:-1])
    assert len(spans) <= 2 * sum(lengths) // 10 + 1


def test_a_script_without_blanks_is_counted_by_its_characters():
    assert [count_words(text) for text in ('', ' – ', 'a-b c', '海が青い。', 'ไทย and ไทย', 'snake_case 3.5')] == [
        0,
        0,
        3,
        4,
        7,
        3,
    ]
    assert len(passage_spans('海' * 200)) == 3 and len(passage_spans('的房子。' * 100)) == 4


words_of = st.lists(st.sampled_from('red boat. sea\n sail blue storm\n\n Ana'.split(' ')), max_size=12).map(' '.join)


@st.composite
def stores(draw):
    """Turns of two sessions, some of many passages of two words."""
    turns = []
    for number, text in enumerate(draw(st.lists(words_of, min_size=1, max_size=30))):
        speaker = draw(st.sampled_from([None, 'Ana', 'User', 'Assistant']))
        turns.append(Snippet(f's{number:02}', text, (), None, speaker, None, f'd{number % 2}', number // 2))
    return turns


def with_gaps(text, spans, chosen):
    """The chosen passages, and one mark for all between two of them."""
    parts = []
    for span in spans:
        if span in chosen:
            parts.append(text[slice(*span)].strip())
        elif parts[-1:] != ['[…]']:
            parts.append('[…]')
    return '\n'.join(parts)


@settings(max_examples=60)
@given(stores(), words_of, st.sampled_from([1, 2, 3, None]))
def test_a_hit_shows_the_passages_that_fit_best(turns, query, shown):
    index = HybridIndex(None, ranker=None, spread=False, words=2, shown=shown)
    index.add(turns)
    lexical = LexicalIndex()
    lexical.add(passage for turn in turns for passage in index.passages(turn.id))
    bm25 = lexical.scores(query)
    for hit in index.search(query, 30):
        turn = index[hit.snippet.id]
        assert hit.snippet == turn and turn.passages == ()
        spans = passage_spans(turn.text, 2)
        scores = [bm25.get(passage.id, 0) for passage in index.passages(turn.id)]
        assert hit.score == pytest.approx(max(scores))
        chosen = hit.snippet.passages
        if shown is None or len(spans) <= shown:
            assert chosen == () and hit.snippet.excerpt == turn.text and hit.snippet.line == turn.line
            continue
        best = sorted(range(len(spans)), key=lambda place: (-scores[place], place))[:shown]
        assert chosen == tuple(spans[place] for place in sorted(best))
        assert hit.snippet.excerpt == with_gaps(turn.text, spans, chosen)
        assert '\n' not in hit.snippet.line or turn.speaker is None


@settings(max_examples=30)
@given(stores(), words_of, st.booleans(), st.integers(1, 6))
def test_five_times_five_is_twenty_five(turns, query, with_vectors, size):
    index = HybridIndex(Letters() if with_vectors else None, words=2, shown=1)
    index.add(turns)
    read = []
    for _ in range(5):
        read += index.search(query, size, exclude=[hit.snippet.id for hit in read])
    whole = index.search(query, 5 * size)
    assert read == whole and [hit.snippet.passages for hit in read] == [hit.snippet.passages for hit in whole]
