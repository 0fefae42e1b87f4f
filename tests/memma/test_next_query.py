"""The next query: keys against words taken apart by hand, what is carried against plain sets, and what is new against everything asked so far."""
from datetime import date

import pytest
from hypothesis import given, strategies as st

from memnb.evaluation.datasets import load_sample
from memnb.core.text import STOP_WORDS, tokenize
from memnb.retrieval.bm25 import LexicalIndex
from memnb.memma.retrieval import carried, carries, is_new, new_ones, query_key, times_asked, wordings
from memnb.core.text import Requirement
from memnb.core.conversation import Snippet, turn_snippets
from memnb.core.time import TimeSpan

PEOPLE = ('Tobin', 'Zofia')
FORMS = {'lesson': 'lesson', 'lessons': 'lesson', 'Lesson?': 'lesson', 'adopted': 'adopt', 'adopting': 'adopt', 'adoption,': 'adopt', 'organ': 'organ',
         'Organs': 'organ', '2024': '2024', 'the': None, 'When': None, 'did': None, '—': None, 'Zofia': 'zofia', "Tobin's": 'tobin'}
words = st.sampled_from(sorted(FORMS))
said = st.lists(words, max_size=6)
address = st.sampled_from([None, *PEOPLE])
PIECES = ['lesson', 'lessons', 'the', 'May', 'may', 'Will', 'June', 'half-marathon', 'half', 'marathon', 'Zofia', 'Zofia:', 'Tobin', 'organ', '?', '2024', 'İ', 'ﬁne', 'ﷺ']
texts = st.lists(st.sampled_from(PIECES), max_size=5).map(' '.join) | st.text(max_size=12)
some_texts = st.lists(texts, max_size=3)


def put(person, parts):
    return ' '.join([f'{person}:', *parts] if person else parts)


# --- when two queries are one

@given(said, address)
def test_a_key_is_whom_it_addresses_and_the_stems_of_the_rest(parts, person):
    expected = frozenset({person} - {None}), frozenset(FORMS[part] for part in parts if FORMS[part])
    assert query_key(put(person, parts), PEOPLE) == expected


@given(said, address, st.randoms())
def test_order_form_and_little_words_make_no_new_query(parts, person, chance):
    mixed = chance.sample(parts, len(parts))
    other = [chance.choice([form for form in FORMS if FORMS[form] == FORMS[part]]) for part in mixed]
    one, two = put(person, parts), put(person, [*other, 'the'])
    assert query_key(one, PEOPLE) == query_key(two, PEOPLE)
    assert not is_new(two, [one], PEOPLE) and not is_new(one, [two], PEOPLE)


@given(said, said, address, address)
def test_to_be_new_is_symmetric_and_means_another_address_or_another_stem(first, second, one, two):
    left, right = put(one, first), put(two, second)
    stems = [{FORMS[part] for part in parts if FORMS[part]} for parts in (first, second)]
    if all(stems):
        assert is_new(left, [right], PEOPLE) == is_new(right, [left], PEOPLE) == ((one, stems[0]) != (two, stems[1]))


@given(texts, some_texts)
def test_nothing_is_new_beside_itself_nor_is_silence(query, earlier):
    assert not is_new(query, [*earlier, query], PEOPLE)
    assert not is_new('when was it?', earlier, PEOPLE) and not is_new('Zofia:', earlier, PEOPLE)
    assert is_new('xylophone', earlier, PEOPLE)


def test_only_a_speaker_is_addressed_and_the_longer_name_first():
    assert query_key('Note: buy rye', PEOPLE) == (frozenset(), frozenset(tokenize('note buy rye')))
    assert query_key('rye Zofia: bread', PEOPLE) == query_key('Zofia: bread rye', PEOPLE)
    assert query_key('Zofia: rye', ()) == (frozenset(), frozenset({'zofia', 'rye'}))
    assert query_key('Mary Ann: rye', ('Ann', 'Mary Ann'))[1] == {'rye'}
    assert query_key('Tobin and Zofia: rye', PEOPLE)[0] == {'Zofia'}


@pytest.fixture(scope='module')
def lexical():
    index = LexicalIndex()
    index.add(turn_snippets(load_sample()))
    return index


@given(st.lists(st.sampled_from(['lesson', 'adopted', 'organ', 'pipe', 'Pascal']), min_size=1, max_size=4, unique=True), st.randoms())
def test_one_key_is_one_lexical_search(lexical, parts, chance):
    other = [{'lesson': 'lessons', 'adopted': 'adopting', 'organ': 'Organs', 'pipe': 'pipes'}.get(part, part) for part in chance.sample(parts, len(parts))]
    found = [[(hit.snippet.id, round(hit.score, 9)) for hit in lexical.search(' '.join(query), 10)] for query in (parts, ['the', *other])]
    assert found[0] == found[1]


# --- what a query carries

def holds(query, text):
    "Carries, by another way: word for word."
    mine = query.split()
    return all(set(tokenize(word)) <= set(tokenize(query)) for word in text.split()) and all(
        word in ' '.join(mine) for word in text.split() if word in ('May', 'Will'))


@given(texts, some_texts, some_texts)
def test_every_constraint_is_carried_whatever_is_to_be_avoided(query, constraints, avoid):
    made = carried(query, constraints, avoid)
    assert all(carries(made, text) for text in constraints)
    assert all(holds(made, text) for text in constraints)


@given(texts, some_texts, some_texts)
def test_twice_is_once(query, constraints, avoid):
    once = carried(query, constraints, avoid)
    assert carried(once, constraints, avoid) == once


@given(texts, some_texts, some_texts)
def test_words_to_avoid_go_unless_nothing_of_its_own_would_be_left(query, constraints, avoid):
    due = {stem for text in constraints for stem in tokenize(text)}
    barred = {stem for text in avoid for stem in tokenize(text)} - due
    own = [word for word in query.split() if not set(tokenize(word)) & barred]
    made, alone = carried(query, constraints, avoid), not set(tokenize(' '.join(own))) - due
    begins = query.split() if alone else own
    assert made.split()[:len(begins)] == begins  # in order, and what is added stands behind
    assert set(tokenize(query)) <= due or set(tokenize(made)) - due  # never emptied
    if not alone:
        assert not set(tokenize(made)) & barred


@given(texts)
def test_a_query_that_lacks_nothing_is_left_alone(query):
    assert carried(query, [], []) == ' '.join(query.split())
    assert carried(query, [query, query], []) == ' '.join(query.split())


def test_a_constraint_without_a_stem_is_carried_as_it_is_written():
    assert 'may' in STOP_WORDS and 'will' in STOP_WORDS
    assert carried('who may swim', ['May', 'Will']) == 'who may swim May Will'
    assert carried('swim in August 2024', ['May 2024']) == 'swim in August 2024 May 2024'
    assert carried('swim in May', ['May']) == 'swim in May'
    assert carried('Zofia: swim', ['Zofia', 'Zofia']) == 'Zofia: swim'
    assert carried('swim', ['Zofia', 'Zofias']) == 'swim Zofia'


def test_a_constraint_is_stronger_than_what_is_to_be_avoided():
    assert carried('Zofia: rye bread', ['Zofia'], ['zofia', 'bread']) == 'Zofia: rye'
    assert carried('half-marathon run', ['marathon'], ['half']) == 'run marathon'
    assert carried('museum trip', ['Tobin'], ['museum', 'trip']) == 'museum trip Tobin'


# --- times

TODAY = TimeSpan.day(date(2024, 7, 3))


@pytest.mark.parametrize('question, words, meant', [
    ('What did Zofia see last month?', ['last month'], ['last month (June 2024)']),
    ('What happened yesterday?', ['yesterday'], ['yesterday (2 July 2024)']),
    ('Who came on 5 June 2023?', ['5 June 2023'], ['5 June 2023']),
    ('What did Tobin do in 2023?', ['2023'], ['2023']),
    ('Who is Tobin?', [], []),
])
def test_a_relative_time_stands_with_what_it_means_if_the_day_of_asking_is_known(question, words, meant):
    assert times_asked(question) == words and times_asked(question, TODAY) == meant
    assert times_asked(question, TimeSpan(None, date(2024, 1, 1))) == words  # no day to reckon from


@given(st.text(max_size=40), st.sampled_from([None, TODAY]))
def test_the_times_of_any_text_are_parts_of_it(text, asked):
    for said in times_asked(text, asked):
        assert said in text or said[:said.rindex(' (')] in text


# --- wordings

NEEDS = st.builds(Requirement, st.sampled_from(['fact', 'list', 'date']),
                  st.lists(st.sampled_from(['organ', 'pipe', 'lesson', 'lake']), max_size=3, unique=True).map(tuple), address)
LINES = [Snippet(str(number), text, speaker=speaker) for number, (speaker, text) in enumerate([
    ('Zofia', 'The organ pipe had a leather bellows, and the bellows leaked.'), ('Tobin', 'My lesson was at the bakery.'),
    ('Zofia', 'A storm at the lake, and Zofia sang.'), ('Zofia', 'Bellows, bellows, leather!')])]


@given(NEEDS, st.lists(st.sampled_from(LINES), max_size=4, unique_by=lambda line: line.id))
def test_wordings_are_of_one_need_and_addressed_to_its_person(need, lines):
    start, rest = (f'{need.person}: ', lambda query: query.split(': ', 1)[1]) if need.person else ('', lambda query: query)
    queries = wordings(need, lines, PEOPLE)
    everything = {stem for line in lines for stem in tokenize(line.text)}
    assert all(query.startswith(start) and tokenize(rest(query)) for query in queries)
    assert all(set(tokenize(rest(query))) <= set(tokenize(' '.join(need.words))) | everything - {'zofia', 'tobin'} for query in queries)
    unseen = [word for word in need.words if not set(tokenize(word)) <= everything]
    if need.words:
        assert rest(queries[0]) == ' '.join(need.words)
    if unseen:
        assert rest(queries[-1 if need.kind == 'list' else 1]) == ' '.join(unseen)


def test_company_is_what_recurs_in_the_best_three_lines():
    best = [LINES[0], LINES[3], LINES[2], LINES[1]]  # the lesson stands fourth
    assert wordings(Requirement('date', ('organ', 'pipe'), 'Zofia'), best, PEOPLE)[1:] == [
        'Zofia: organ pipe leather bellows leaked storm', 'Zofia: organ pipe leather bellows leaked storm lake sang']
    assert wordings(Requirement('fact', ('organ',)), [], PEOPLE) == ['organ', 'organ', 'organ', 'organ']
    assert wordings(Requirement('fact', ()), [], PEOPLE) == []


# --- new among the new

@given(some_texts, some_texts, st.lists(st.sampled_from(['Zofia', 'May', 'organ']), max_size=2), some_texts)
def test_what_is_let_through_is_new_when_its_turn_comes(suggested, earlier, constraints, avoid):
    chosen, asked = new_ones(suggested, earlier, PEOPLE, constraints, avoid), list(earlier)
    for query in chosen:
        whole = carried(query, constraints, avoid)
        assert is_new(query, asked, PEOPLE) and is_new(whole, asked, PEOPLE)
        asked += [query, whole]
    assert chosen == [query for query in dict.fromkeys(suggested) if query in chosen]  # in their order
    left = [query for query in suggested if query not in chosen]
    assert not any(is_new(query, asked, PEOPLE) and is_new(carried(query, constraints, avoid), asked, PEOPLE) for query in left)  # none too few
