"""Reading: no text breaks it, and its laws hold for arbitrary texts, compared with plainer oracles."""

import re
from dataclasses import replace
from datetime import date, datetime, timedelta

from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from spelling import in_words

from memnb.core.text import (
    coverage,
    in_digits,
    named_in,
    NUMBER,
    question_kind,
    read_line,
    reference_day,
    sentences,
    speakers_in,
    stems,
    times_of,
    tokenize,
    with_dates,
)
from memnb.core.conversation import single_line, Snippet
from memnb.core.time import find_times, TimeSpan

KINDS = {'when', 'interval', 'how long', 'how many', 'yes-no', 'where', 'who', 'why', 'list', 'what'}
NAMES = ('Tobin', 'Zofia')
WORDS = [
    'When',
    'did',
    'Tobin',
    'Zofia',
    'run',
    'runs',
    'running',
    'the',
    'race',
    'races',
    'with',
    'a',
    'dog',
    'dogs',
    'after',
    'before',
    'between',
    'and',
    'how',
    'many',
    'months',
    'which',
    'books',
    'yesterday',
    'last',
    'Friday',
    'week',
    'year',
    'ago',
    'two',
    'in',
    '2023',
    '7',
    'May',
    'Dr.',
    'Amsel',
    'said',
    '"No!"',
    "Tobin's",
    'It',
    'was',
    'fine.',
    'Why?',
    '\n',
    '…',
]

any_texts = st.text(max_size=60)
spoken = st.lists(st.sampled_from(WORDS), max_size=14).map(' '.join)
texts = any_texts | spoken
days = st.dates(date(1950, 1, 1), date(2090, 1, 1))
moments = st.datetimes(datetime(1950, 1, 1), datetime(2090, 1, 1))
topics = st.lists(st.sampled_from(['race', 'dogs', 'books', 'running', 'Amsel', 'organ']), max_size=4).map(tuple)
people = st.sampled_from([None, *NAMES])
snippets = st.builds(
    Snippet,
    st.text(min_size=1, max_size=4),
    texts,
    said=st.none() | moments,
    speaker=people,
    time=st.none() | days.map(TimeSpan.day),
)


def letters(text: str) -> str:
    return ''.join(text.split())


@given(texts, days, snippets)
@settings(max_examples=100)
def test_no_text_breaks_reading(text, day, snippet):
    (
        sentences(text),
        stems(text),
        named_in(text, (*NAMES, text)),
        with_dates(text, day),
        read_line(text),
    )
    assert question_kind(text) in KINDS
    assert all(isinstance(span, TimeSpan) for span in times_of(snippet))


@given(texts)
@example('He met Dr. Amsel. "Yes!" He left.')
@settings(max_examples=100)
def test_sentences_lose_nothing_and_none_is_blank(text):
    found = sentences(text)
    assert letters(''.join(found)) == letters(text)
    assert all(sentence and sentence == sentence.strip() for sentence in found)


@given(
    st.lists(
        st.sampled_from(['It rained.', 'Who came?', '"Stop!"', 'Dr. Quill bowed.', 'He ran 3.5 km.', 'So… Yes!']),
        max_size=5,
    )
)
@settings(max_examples=60)
def test_sentences_are_found_again(parts):
    cut = [piece for part in parts for piece in (['So…', 'Yes!'] if part.startswith('So') else [part])]
    assert sentences(' '.join(parts)) == cut
    assert sentences('\n'.join(parts)) == cut


@given(st.lists(st.sampled_from(['Tobin', 'Tob', 'tobin', 'Zofia', 'Zo', 'and', 'met']), max_size=6))
@settings(max_examples=80)
def test_names_are_found_by_a_capital_and_three_letters(words):
    expected = tuple(
        name for name in NAMES if any(word == name or word == name[:3] and len(word) > 2 for word in words)
    )
    if not expected and not any(word.istitle() for word in words[1:]):  # in small letters the whole name counts
        expected = tuple(name for name in NAMES if name.lower() in words)
    assert named_in(' '.join(words), NAMES) == expected


@given(st.lists(snippets, max_size=6))
@settings(max_examples=60)
def test_speakers_are_sorted(several):
    assert list(speakers_in(several)) == sorted({snippet.speaker for snippet in several} - {None})


@given(texts, texts, topics)
@settings(max_examples=100)
def test_coverage_is_a_share_and_grows_with_the_text(text, more, words):
    alone, both = coverage(text, words), coverage(f'{text} {more}', words)
    assert 0 <= alone <= both <= 1
    wanted = {tokenize(word)[0] for word in words}
    assert alone == (sum(stem in tokenize(text) for stem in wanted) / len(wanted) if wanted else 1)


@given(snippets)
@settings(max_examples=100)
def test_times_need_a_day_to_reckon_from(snippet):
    if snippet.said:
        assert reference_day(snippet) == snippet.said.date()
    if reference_day(snippet) is None:
        assert snippet.said is None and snippet.time is None and times_of(snippet) == []
    else:
        assert times_of(snippet) == [span for _, _, span in find_times(snippet.text, reference_day(snippet))]


@given(texts, st.none() | days)
@example('Last Friday and yesterday, in May and on 7 May 2023.', date(2024, 2, 1))
@settings(max_examples=100)
def test_dates_are_only_added_in_brackets(text, day):
    dated, back, place = with_dates(text, day), '', 0
    for _, end, _ in find_times(text, day) if day else ():
        kept = text[len(back) : end]
        assert dated[place : place + len(kept)] == kept
        place, back = place + len(kept), back + kept
        added = re.match(r' \([^()]+\)', dated[place:])
        if added and not text[end:].startswith(added[0]):
            place += added.end()
    assert back + dated[place:] == text
    assert day is not None or dated == text


@given(st.sampled_from(['Monday', 'Wednesday', 'Friday', 'Sunday']), days)
@settings(max_examples=60)
def test_the_bracket_behind_a_weekday_is_its_date(weekday, day):
    before = next(earlier for back in range(1, 8) if (earlier := day - timedelta(back)).strftime('%A') == weekday)
    meant = f'{before.day} {before:%B} {before.year}'
    assert with_dates(f'We met last {weekday}.', day) == f'We met last {weekday} ({meant}).'


speakers = st.from_regex(r"[A-Z][a-z]{1,8}( [A-Z]\.)?( O'[A-Z][a-z]+)?", fullmatch=True).filter(
    lambda name: len(name) <= 30
)


@given(texts, moments, speakers)
@settings(max_examples=100)
def test_a_line_is_read_back(text, said, speaker):
    snippet = Snippet('D1:1', text, ('D1:1',), TimeSpan.day(said.date()), speaker, said)
    again = read_line(snippet.line, ['D1:1'])
    assert (again.id, again.text, again.sources, again.speaker, again.time) == (
        'D1:1',
        single_line(text),
        ('D1:1',),
        speaker,
        snippet.time,
    )
    assert times_of(again) == times_of(replace(snippet, text=again.text))
    assert again.line == snippet.line


@given(texts, days)
@settings(max_examples=100)
def test_a_line_without_a_speaker_is_read_back_where_it_is_not_ambiguous(text, day):
    assume(': ' not in text)
    assert read_line(Snippet('x', text, time=TimeSpan.day(day)).line).text == text
    assume(not text.startswith('['))
    assert read_line(text).text == text


@given(st.integers(1, 999_999), st.sampled_from([' ', ' and ']), st.sampled_from([str, str.capitalize, str.upper]))
@example(112, ' ', str)
@settings(max_examples=120)
def test_numbers_in_words_are_read(number, link, case):
    words = case(in_words(number, link))
    (found,) = NUMBER.finditer(f'So {words} dogs came.')
    assert found[0] == words and in_digits(words) == f'{number:,}'
