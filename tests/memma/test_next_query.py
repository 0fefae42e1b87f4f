"""The next query: keys against words taken apart by hand, what is carried against plain sets, and what is new against everything asked so far."""

from hypothesis import given, strategies as st

from memnb.core.text import tokenize
from memnb.memma.retrieval import _query_key, add_constraints, carries, is_new

PEOPLE = ('Tobin', 'Zofia')
FORMS = {
    'lesson': 'lesson',
    'lessons': 'lesson',
    'Lesson?': 'lesson',
    'adopted': 'adopt',
    'adopting': 'adopt',
    'adoption,': 'adopt',
    'organ': 'organ',
    'Organs': 'organ',
    '2024': '2024',
    'the': None,
    'When': None,
    'did': None,
    '—': None,
    'Zofia': 'zofia',
    "Tobin's": 'tobin',
}
words = st.sampled_from(sorted(FORMS))
said = st.lists(words, max_size=6)
address = st.sampled_from([None, *PEOPLE])
PIECES = [
    'lesson',
    'lessons',
    'the',
    'May',
    'may',
    'Will',
    'June',
    'half-marathon',
    'half',
    'marathon',
    'Zofia',
    'Zofia:',
    'Tobin',
    'organ',
    '?',
    '2024',
    'İ',
    'ﬁne',
    'ﷺ',
]
texts = st.lists(st.sampled_from(PIECES), max_size=5).map(' '.join) | st.text(max_size=12)
some_texts = st.lists(texts, max_size=3)


def put(person, parts):
    return ' '.join([f'{person}:', *parts] if person else parts)


# --- when two queries are one


@given(said, address)
def test_a_key_is_whom_it_addresses_and_the_stems_of_the_rest(parts, person):
    expected = frozenset({person} - {None}), frozenset(FORMS[part] for part in parts if FORMS[part])
    assert _query_key(put(person, parts), PEOPLE) == expected


@given(said, address, st.randoms())
def test_order_form_and_little_words_make_no_new_query(parts, person, chance):
    mixed = chance.sample(parts, len(parts))
    other = [chance.choice([form for form in FORMS if FORMS[form] == FORMS[part]]) for part in mixed]
    one, two = put(person, parts), put(person, [*other, 'the'])
    assert _query_key(one, PEOPLE) == _query_key(two, PEOPLE)
    assert not is_new(two, [one], PEOPLE) and not is_new(one, [two], PEOPLE)


@given(said, said, address, address)
def test_to_be_new_is_symmetric_and_means_another_address_or_another_stem(first, second, one, two):
    left, right = put(one, first), put(two, second)
    stems = [{FORMS[part] for part in parts if FORMS[part]} for parts in (first, second)]
    if all(stems):
        assert is_new(left, [right], PEOPLE) == is_new(right, [left], PEOPLE) == ((one, stems[0]) != (two, stems[1]))


# --- what a query carries


def holds(query, text):
    "Carries, by another way: word for word."
    mine = query.split()
    return all(set(tokenize(word)) <= set(tokenize(query)) for word in text.split()) and all(
        word in ' '.join(mine) for word in text.split() if word in ('May', 'Will')
    )


@given(texts, some_texts, some_texts)
def test_every_constraint_is_carried_whatever_is_to_be_avoided(query, constraints, avoid):
    made = add_constraints(query, constraints, avoid)
    assert all(carries(made, text) for text in constraints)
    assert all(holds(made, text) for text in constraints)


@given(texts, some_texts, some_texts)
def test_twice_is_once(query, constraints, avoid):
    once = add_constraints(query, constraints, avoid)
    assert add_constraints(once, constraints, avoid) == once


@given(texts, some_texts, some_texts)
def test_words_to_avoid_go_unless_nothing_of_its_own_would_be_left(query, constraints, avoid):
    due = {stem for text in constraints for stem in tokenize(text)}
    barred = {stem for text in avoid for stem in tokenize(text)} - due
    own = [word for word in query.split() if not set(tokenize(word)) & barred]
    made, alone = add_constraints(query, constraints, avoid), not set(tokenize(' '.join(own))) - due
    begins = query.split() if alone else own
    assert made.split()[: len(begins)] == begins  # in order, and what is added stands behind
    assert set(tokenize(query)) <= due or set(tokenize(made)) - due  # never emptied
    if not alone:
        assert not set(tokenize(made)) & barred
