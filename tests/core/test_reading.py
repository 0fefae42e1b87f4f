"""Reading: no text breaks it, and its laws hold for arbitrary texts, compared with plainer oracles."""

import re
from dataclasses import replace
from datetime import date, datetime, timedelta

from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from memnb.core.text import tokenize
from memnb.core.text import (
    concerns,
    coverage,
    fine_enough,
    keywords,
    named_in,
    question_kind,
    read_line,
    recurring_words,
    reference_day,
    Requirement,
    requirements,
    sentences,
    speakers_in,
    stems,
    supports,
    times_of,
    with_dates,
)
from memnb.core.conversation import single_line, Snippet
from memnb.core.time import find_times, GRANULARITIES, TimeSpan

LONGEST = {'day': 1, 'weekend': 2, 'week': 7, 'month': 31, 'season': 92, 'year': 366, 'decade': 3653}  # in days
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
needs = st.builds(
    Requirement, st.sampled_from(['fact', 'list', 'date']), topics, people, st.sampled_from([None, *GRANULARITIES])
)


def letters(text: str) -> str:
    return ''.join(text.split())


@given(texts, days, snippets, needs)
@settings(max_examples=100)
def test_no_text_breaks_reading(text, day, snippet, need):
    (
        sentences(text),
        stems(text),
        keywords(text, NAMES),
        named_in(text, (*NAMES, text)),
        with_dates(text, day),
        read_line(text),
    )
    assert question_kind(text) in KINDS
    assert all(isinstance(one, Requirement) and one.text for one in requirements(text, NAMES))
    assert supports(snippet, need) in (True, False)
    assert all(isinstance(span, TimeSpan) for span in times_of(snippet))
    recurring_words([text, snippet.text], [text])
    concerns(snippet, text)


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


@given(texts)
@settings(max_examples=100)
def test_keywords_are_words_of_the_text_in_its_order_one_for_a_stem(text):
    found = keywords(text, NAMES)
    places, place = [], 0
    for word in found:
        place = text.lower().find(word, place)
        places.append(place)
    assert -1 not in places
    keys = [tokenize(word)[:1] for word in found]
    assert len({tuple(key) for key in keys}) == len(keys)
    assert not {'Tobin', 'Zofia', 'tobin', 'zofia'} & set(found)


@given(st.lists(st.sampled_from(['Tobin', 'Tob', 'tobin', 'Zofia', 'Zo', 'and', 'met']), max_size=6))
@settings(max_examples=80)
def test_names_are_found_by_a_capital_and_three_letters(words):
    expected = tuple(
        name for name in NAMES if any(word == name or word == name[:3] and len(word) > 2 for word in words)
    )
    assert named_in(' '.join(words), NAMES) == expected


@given(st.lists(snippets, max_size=6), people)
@settings(max_examples=60)
def test_speakers_are_sorted_and_concern_themselves(several, person):
    assert list(speakers_in(several)) == sorted({snippet.speaker for snippet in several} - {None})
    for snippet in several:
        assert concerns(snippet, None)
        assert concerns(snippet, snippet.speaker)
        if person and person in snippet.text.split():
            assert concerns(snippet, person)


@given(texts, texts, topics)
@settings(max_examples=100)
def test_coverage_is_a_share_and_grows_with_the_text(text, more, words):
    alone, both = coverage(text, words), coverage(f'{text} {more}', words)
    assert 0 <= alone <= both <= 1
    wanted = {tokenize(word)[0] for word in words}
    assert alone == (sum(stem in tokenize(text) for stem in wanted) / len(wanted) if wanted else 1)


@given(snippets, needs, st.floats(0, 1), st.floats(0, 1))
@settings(max_examples=100)
def test_a_lower_threshold_supports_no_less(snippet, need, one, other):
    low, high = sorted((one, other))
    assert supports(snippet, need, low) >= supports(snippet, need, high)


@given(
    st.lists(st.sampled_from(['race', 'dogs', 'books', 'Tobin']), max_size=4),
    people,
    st.sampled_from(['', 'yesterday', 'in May', 'last year']),
    needs,
)
@settings(max_examples=150)
def test_support_is_person_words_and_a_date_where_one_is_due(words, speaker, time, need):
    line = Snippet('x', f'{" ".join(words)} {time}', speaker=speaker, said=datetime(2024, 2, 1))
    length = {'yesterday': 1, 'in May': 31, 'last year': 365}.get(time)
    dated = length and length <= LONGEST.get(need.granularity, 10_000)
    about = need.person is None or need.person == speaker or need.person in words
    wanted = {tokenize(word)[0] for word in need.words}
    covered = len(wanted & {tokenize(word)[0] for word in words}) >= 0.6 * len(wanted)
    assert supports(line, need) == bool(about and covered and (need.kind != 'date' or dated))


@given(snippets, topics, people, st.integers(0, len(GRANULARITIES) - 2))
@settings(max_examples=100)
def test_what_is_fine_enough_is_fine_enough_for_less(snippet, words, person, place):
    fine, coarse = (Requirement('date', words, person, GRANULARITIES[place + step]) for step in (0, 1))
    assert supports(snippet, fine) <= supports(snippet, coarse) <= supports(snippet, Requirement('date', words, person))
    assert supports(snippet, Requirement('date', words, person)) <= supports(
        snippet, Requirement('fact', words, person)
    )


@given(days, st.integers(1, 5000), st.sampled_from(GRANULARITIES), st.sampled_from(GRANULARITIES))
@example(date(2024, 7, 25), 2, 'span', 'weekend')
@settings(max_examples=60)
def test_fine_enough_is_a_matter_of_days_and_not_of_names(day, length, name, wanted):
    span = TimeSpan(day, day + timedelta(length - 1), name)
    assert fine_enough(span, wanted) == (wanted == 'span' or length <= LONGEST[wanted])
    assert fine_enough(span, None)


@given(days, st.sampled_from(GRANULARITIES), st.sampled_from(GRANULARITIES))
@settings(max_examples=60)
def test_what_is_open_at_one_side_is_never_fine_enough(day, name, wanted):
    for span in (TimeSpan(day, None, name), TimeSpan(None, day, name)):
        assert fine_enough(span, None) and not fine_enough(span, wanted)


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


@given(texts, st.sampled_from([(), NAMES, ('Tobin',)]))
@settings(max_examples=100)
def test_every_question_needs_something_and_nothing_twice(question, names):
    found = requirements(question, names)
    assert found and len(set(found)) == len(found)
    assert found == requirements(str(question), tuple(names))
    words = {word for need in found for word in need.words}
    assert all(stems(word) <= stems(question) for word in words), 'it asks for nothing that the question does not name'
    if keywords(question, names):
        assert words, 'a question with a word of content asks for it'
    assert {need.person for need in found} - {None} <= set(names)


@given(st.sampled_from(['when', 'which year', 'on what date']), st.sampled_from(['before', 'after']))
def test_an_anchor_comes_first(opening, relation):
    fact, asked = requirements(f'{opening} did Zofia sing {relation} she lost the dog?', NAMES, 'month')
    assert (fact.kind, fact.words, fact.granularity) == ('fact', ('lost', 'dog'), None)
    assert (asked.kind, asked.words, asked.person, asked.granularity) == ('date', ('sing',), 'Zofia', 'month')


@given(st.lists(texts, max_size=5), topics, st.integers(0, 8))
@settings(max_examples=100)
def test_recurring_words_are_new_distinct_and_the_most_frequent(several, known, limit):
    found = recurring_words(several, known, limit)
    assert len(found) <= limit
    keys = [tokenize(word)[0] for word in found]
    assert len(set(keys)) == len(keys) and not set(keys) & stems(' '.join(known))
    often = [sum(key in {tokenize(word)[0] for word in keywords(text)} for text in several) for key in keys]
    assert often == sorted(often, reverse=True)


def test_where_only_the_anchor_has_words_the_question_takes_them_all():
    fact, asked = requirements('When was it after the race?')
    assert (fact.kind, fact.words, asked.kind, asked.words) == ('fact', ('race',), 'date', ('race',))
    assert [need.words for need in requirements('What happened?')] == [()]
    assert requirements('What did Zofia sing?', NAMES, 'month') == (Requirement('fact', ('sing',), 'Zofia'),)
