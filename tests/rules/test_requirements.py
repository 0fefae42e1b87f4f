"""What a question needs and what a line gives: shares of words, the person, and a time where a date is due."""

import unicodedata
from datetime import datetime

from hypothesis import given, settings
from hypothesis import strategies as st

from memnb.core.conversation import Snippet
from memnb.core.text import stems, tokenize
from memnb.rules.text import (
    _ranked,
    keywords,
    next_queries,
    relevance,
    Requirement,
    requirements,
    supports,
    unmet,
)

NAMES = ('Tobin', 'Zofia')
WORDS = '''When did Tobin Zofia run running the race with a dog dogs after before between and how many months which books
yesterday last Friday year ago two in 2023 7 May Dr. Amsel "No!" Tobin's It was fine. Why? …'''.split()
texts = st.text(max_size=60) | st.lists(st.sampled_from(WORDS), max_size=14).map(' '.join)
topics = st.lists(st.sampled_from(['race', 'dogs', 'books', 'running', 'Amsel']), max_size=4).map(tuple)
people = st.sampled_from([None, *NAMES])
needs = st.builds(Requirement, st.sampled_from(['fact', 'date']), topics, people)
moments = st.none() | st.datetimes(datetime(1950, 1, 1), datetime(2090, 1, 1))
lines = st.lists(st.builds(Snippet, st.text(min_size=1, max_size=4), texts, speaker=people, said=moments), max_size=5)


@given(texts)
@settings(max_examples=100)
def test_keywords_are_words_of_the_text_in_its_order_one_for_a_stem(text):
    found = keywords(text, NAMES)
    places, place = [], 0
    for word in found:
        place = unicodedata.normalize('NFKC', text).lower().find(word, place)
        places.append(place)
    assert -1 not in places
    assert len({tuple(tokenize(word)[:1]) for word in found}) == len(found)
    assert not {'tobin', 'zofia'} & set(found)


@given(texts, st.sampled_from([(), NAMES, ('Tobin',)]))
@settings(max_examples=100)
def test_every_question_needs_something_and_nothing_twice(question, names):
    found = requirements(question, names)
    assert found and len(set(found)) == len(found) and all(need.text for need in found)
    assert found == requirements(str(question), list(names))
    words = {word for need in found for word in need.words}
    assert all(stems(word) <= stems(question) for word in words), 'it asks for nothing that the question does not name'
    assert {need.person for need in found} - {None} <= set(names)


def test_an_interval_needs_two_dates():
    assert requirements('How many days passed between the race and the storm?') == (
        Requirement('date', ('race',)),
        Requirement('date', ('storm',)),
    )
    assert requirements('Did Tobin or Zofia sing?', NAMES) == tuple(
        Requirement('fact', ('sing',), one) for one in NAMES
    )
    assert requirements('When did Zofia sing after she lost the dog?', NAMES) == (
        Requirement('date', ('sing',), 'Zofia'),
    )
    assert requirements('What happened?') == (Requirement('fact', ()),)


@given(
    st.lists(st.sampled_from(['race', 'dogs', 'books', 'Tobin']), max_size=4),
    people,
    st.sampled_from(['', 'yesterday', 'in May']),
    needs,
)
@settings(max_examples=150)
def test_support_is_person_words_and_a_time_where_a_date_is_due(words, speaker, time, need):
    line = Snippet('x', f'{" ".join(words)} {time}', speaker=speaker, said=datetime(2024, 2, 1))
    about = need.person is None or need.person == speaker or need.person in words
    wanted = {tokenize(word)[0] for word in need.words}
    covered = len(wanted & {tokenize(word)[0] for word in words}) >= 0.6 * len(wanted)
    assert supports(line, need) == bool(about and covered and (need.kind != 'date' or time))


@given(lines, lines, st.lists(needs, max_size=3))
@settings(max_examples=100)
def test_more_evidence_opens_nothing(known, more, required):
    assert set(unmet(required, [*known, *more])) <= set(unmet(required, known))


@given(lines, needs)
@settings(max_examples=100)
def test_lines_are_ranked_by_relevance_and_ties_keep_their_order(shown, need):
    found = _ranked(shown, need)
    scores = [relevance(line, [need]) for line in found if supports(line, need)]
    assert scores == sorted(scores, reverse=True) and all(0 < relevance(line, [need]) <= 1 for line in found)
    best = [line for line in shown if supports(line, need) and relevance(line, [need]) == 1]
    assert found[: len(best)] == best


@given(needs, lines)
@settings(max_examples=100)
def test_queries_address_the_person_and_invent_no_word(need, known):
    queries = next_queries(need, known)
    everything = stems(' '.join([*need.words, need.person or '', *(line.text for line in known)]))
    assert queries and len(set(queries)) == len(queries)
    assert all(query.startswith(f'{need.person}: ' if need.person else '') for query in queries)
    assert all(stems(query) <= everything for query in queries)
    assert queries[0].endswith(' '.join(need.words))
    assert next_queries(need, known, queries[0]) == (queries[1:] or queries)
