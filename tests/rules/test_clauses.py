"""The third person and clauses: a table written by hand, sentences whose parts are known, and any text at all."""

import re
from datetime import date

import pytest
from hypothesis import given, strategies as st

from memnb.rules.remem import _LONGEST as LONGEST, clauses
from memnb.rules.text import _third as third, third_person
from memnb.core.time import parse_date, TimeSpan

DAY = date(2024, 5, 15)
TOLD = {  # said by Tobin to Zofia
    'I fixed the fence.': 'Tobin fixed the fence.',
    "I've been there.": 'Tobin has been there.',
    "I’ve been there.": 'Tobin has been there.',
    "I'm late.": 'Tobin is late.',
    "I don't know.": "Tobin doesn't know.",
    "I haven't slept.": "Tobin hasn't slept.",
    "I can't swim.": "Tobin can't swim.",
    "I won't go.": "Tobin won't go.",
    "I'd love to.": 'Tobin would love to.',
    "I'd never seen it.": 'Tobin had never seen it.',
    "I'd better go.": 'Tobin had better go.',
    "I'll bring it.": 'Tobin will bring it.',
    'I was there and I watch it now.': 'Tobin was there and Tobin watches it now.',
    'She told me.': 'She told Tobin.',
    'A friend of mine has a gold mine.': "A friend of Tobin's has a gold mine.",
    'Oh my god!': 'Oh my god!',
    'Am I late?': 'Is Tobin late?',
    'What do I need?': 'What does Tobin need?',
    'You are late.': 'Zofia is late.',
    "You've got mail.": 'Zofia has got mail.',
    'I think you know me.': 'Tobin thinks you know Tobin.',
    'Do you like it?': 'Does Zofia like it?',
    'Your dog is fast.': "Zofia's dog is fast.",
    'I hope you sleep well.': 'Tobin hopes Zofia sleeps well.',
    "You're welcome!": "You're welcome!",
    'You two are late.': 'You two are late.',
    'It made you happy.': 'It made Zofia happy.',
    "We've swum and we're cold.": 'Tobin and others have swum and Tobin and others are cold.',
    'She said "I love you".': 'She said "I love you".',
    "He wrote 'I put this here' on my wall.": "He wrote 'I put this here' on Tobin's wall.",
    "The Herrings' swim was mine.": "The Herrings' swim was mine.",
    'Went to Ghent last week!': 'Tobin went to Ghent last week!',
    'Made of wood.': 'Made of wood.',
    'Nell is here.': 'Nell is here.',
}


@pytest.mark.parametrize('said', TOLD)
def test_told(said):
    assert third_person(said, 'Tobin', ['Zofia']) == TOLD[said]


def test_you_is_a_single_listener():
    assert third_person('I saw you.', 'Tobin', ['Tobin', 'Zofia']) == 'Tobin saw Zofia.'
    assert (
        third_person('I saw you.', 'Tobin', ['Zofia', 'Nell'])
        == third_person('I saw you.', 'Tobin')
        == 'Tobin saw you.'
    )


NAMES = st.sampled_from(['Tobin', 'Zofia', 'Nell', r'A\1b', 'Mary Ann', "O'Neil", 'İz'])
VERBS = st.sampled_from('love carry need watch go paint enjoy fix'.split())
THINGS = st.sampled_from(['the fence', 'two red boats', 'rye bread', 'a letter from Ghent'])


@given(NAMES, VERBS, THINGS, st.sampled_from(['', 'always', 'really', 'still never']))
def test_present_against_spelling(name, verb, thing, adverb):
    spelled = {'carry': 'carries', 'watch': 'watches', 'go': 'goes', 'fix': 'fixes'}.get(verb, verb + 's')
    told = third_person(' '.join(f'I {adverb} {verb} {thing}.'.split()), name)
    assert told == ' '.join(f'{name} {adverb} {spelled} {thing}.'.split())


@given(st.text(), NAMES, st.lists(NAMES, max_size=3))
def test_third_person_of_anything(text, speaker, others):
    told = third_person(text, speaker, others)
    assert re.findall(r'"[^"]*"', told) == re.findall(r'"[^"]*"', text)
    if not re.search(r"\b(?:i|me|my|mine|myself|we|you|your|yours|yourself)\b", text, re.I):
        assert told.removeprefix(speaker).lower().lstrip() == text.lower().lstrip() or told == text


SAID = st.sampled_from(
    """I love you|my boat is yours|you've seen me|do you know|am I late|we swam|we've swum|I'd gone|you carry it
you made me happy|I never told you|'I put it there'|she and I bake|my sister and I bake|went home|I I|your boat|how fast you go""".replace(
        '\n', '|'
    ).split('|')
)


@given(st.lists(st.tuples(SAID, st.sampled_from(['.', '!', '?', ',', ' and', ' but', ' because', ' -'])), max_size=5))
def test_once_is_enough(said):
    told = third_person(' '.join(part + mark for part, mark in said), 'Tobin', ['Zofia'])
    assert third_person(told, 'Tobin', ['Zofia']) == told


@given(st.sampled_from('am are were have do has did can will'.split()), st.booleans())
def test_negation_goes_along(verb, negated):
    if verb not in ('am', 'can', 'will'):
        assert third(verb + "n't") == third(verb) + "n't"


PASTS = st.sampled_from('bought painted lost found carried built sold'.split())
SUBJECTS = st.sampled_from(['I', 'Nell', 'My sister', 'The old baker', 'Mr. Dunstan'])
OBJECTS = st.sampled_from(['the boat', 'two red hats', 'a letter from Ghent', 'the keys of the loft'])
WHEN = {
    '': None,
    'yesterday': TimeSpan.day(date(2024, 5, 14)),
    'in 2016': TimeSpan.year(2016),
    'last month': TimeSpan.month(2024, 4),
}


@given(SUBJECTS, PASTS, OBJECTS, st.sampled_from(sorted(WHEN)), st.booleans())
def test_clause_of_known_parts(subject, verb, thing, when, first):
    capital = (
        subject
        if subject == 'I' or not when or not first
        else subject[0].lower() + subject[1:]
        if subject.startswith(('My', 'The'))
        else subject
    )
    text = (
        f'{when.capitalize()}, {capital} {verb} {thing}.'
        if first and when
        else f'{subject} {verb} {thing} {when}'.strip() + '.'
    )
    (found,) = clauses(text, 'Tobin', DAY, ['Zofia'])
    name = {'I': 'Tobin', 'My sister': "Tobin's sister"}.get(subject, subject)
    assert (found.subject.lower(), found.predicate, found.object) == (name.lower(), verb, thing)
    assert (found.point_in_time and parse_date(found.point_in_time)) == WHEN[when]


@given(st.lists(st.tuples(PASTS, OBJECTS), min_size=1, max_size=4))
def test_one_subject_many_verbs(parts):
    found = clauses('I ' + ' and '.join(f'{verb} {thing}' for verb, thing in parts) + '.', 'Tobin', DAY)
    assert [(one.subject, one.predicate, one.object) for one in found] == [
        ('Tobin', verb, thing) for verb, thing in parts
    ]


@given(st.text(), NAMES, st.lists(NAMES, max_size=2), st.none() | st.dates(date(1900, 1, 1), date(2100, 1, 1)))
def test_clauses_of_anything(text, speaker, others, day):
    for clause in clauses(text, speaker, day, others):
        assert all(part.strip() and len(part.split()) <= LONGEST for part in (clause.subject, clause.object))
        assert clause.predicate.strip()


PROSE = st.lists(
    st.sampled_from(
        '''I you we Nell Tobin Zofia the a boat bought saw is was have has and but so because , . ; - : she it yesterday since
2018 in on to up red never really swims don't that who my 'no' "yes" (well) Friday'''.split()
    ),
    max_size=25,
).map(' '.join)


@given(PROSE)
def test_nothing_is_invented(text):
    told = third_person(text, 'Tobin', ['Zofia'])
    for clause in clauses(text, 'Tobin', DAY, ['Zofia']):
        for part in (clause.subject, clause.predicate, clause.object):
            assert set(re.findall(r'\w+', part)) <= set(re.findall(r'\w+', told))


@given(PROSE.map(lambda text: re.sub('[.?!]', '', text) + '?'))
def test_questions_claim_nothing(text):
    assert clauses(text, 'Tobin', DAY, ['Zofia']) == []


@pytest.mark.parametrize(
    'text, expected',
    [
        ('She bought a boat.', []),
        ('It was cold and he laughed at me.', []),
        ('Nell and Mrs. Pettigrew sold the boat.', [('Nell and Mrs. Pettigrew', 'sold', 'the boat')]),
        ('I had the keys.', [('Tobin', 'had', 'the keys')]),
        ('I had lost the keys.', [('Tobin', 'had lost', 'the keys')]),
        ('Gerald and I bake bread.', [('Gerald and Tobin', 'bakes', 'bread')]),
        ('By morning the room was wet.', [('the room', 'was', 'wet')]),
        ('I found a chapel, marked on the map.', [('Tobin', 'found', 'a chapel, marked on the map')]),
        ("Wish me luck with the stairs.", []),
    ],
)
def test_cases(text, expected):
    assert [(one.subject, one.predicate, one.object) for one in clauses(text, 'Tobin', DAY, ['Zofia'])] == expected


@pytest.mark.parametrize(
    'words, times',
    [
        ('since 2018', ('2018', None)),
        ('from 3 March to 5 April 2024', ('3 March 2024', '5 April 2024')),
        ('from 2010 to 2015', ('2010', '2015')),
    ],
)
def test_times_with_two_sides(words, times):
    for day in (DAY, None):
        (found,) = clauses(f'I have rented the loft {words}.', 'Tobin', day)
        assert (found.start_time, found.end_time) == times and found.object == 'the loft'


def test_a_year_to_itself_is_a_point_in_time():
    (found,) = clauses('E1 was the R1 of E2 from 1983 to 1983.', '')
    assert (found.subject, found.predicate, found.object, found.point_in_time) == ('E1', 'was the R1 of', 'E2', '1983')


def test_a_phrase_has_an_end():
    long = ' '.join(f'word{n}' for n in range(LONGEST + 1))
    assert clauses(f'I bought {long}.', 'Tobin') == []
    assert [one.object for one in clauses(f'I bought a boat because {long}.', 'Tobin')] == ['a boat']


@pytest.mark.parametrize(
    'text, told',
    [
        ("I'M LATE", 'Tobin is LATE'),
        ("i love rye and i'm late.", 'Tobin loves rye and Tobin is late.'),
        ('World War I ended, and I sang.', 'World War I ended, and Tobin sang.'),
        ('The A.I. is new.', 'The A.I. is new.'),
        ('The I/O is slow, i.e. it waits.', 'The I/O is slow, i.e. it waits.'),
        ('I bring bread and I sing.', 'Tobin brings bread and Tobin sings.'),
        ('I gotta go, I dunno where.', "Tobin has to go, Tobin doesn't know where."),
        ("I ain't late.", "Tobin isn't late."),
        ("Aren't I late?", "Isn't Tobin late?"),
        ('Thanks and I love it.', 'Thanks and Tobin loves it.'),
    ],
)
def test_an_i_that_is_nobody_and_a_verb_that_only_looks_like_a_form(text, told):
    assert third_person(text, 'Tobin', ['Zofia']) == told
    assert third_person(told, 'Tobin', ['Zofia']) == told


def test_listeners_are_a_list_of_names():
    with pytest.raises(TypeError, match="others: expected a collection of names, got the str 'Zofia'"):
        third_person('I saw you.', 'Tobin', 'Zofia')


@pytest.mark.parametrize(
    'text, expected',
    [
        ('If I had a boat, Nell sold hers.', [('Nell', 'sold', 'hers')]),
        ('Old Halloran gave me flour, as if I were going to sea.', [('Old Halloran', 'gave', 'Tobin flour')]),
        ('Even if I bought it, unless Nell bought it.', []),
        ('Maybe I bought a boat.', []),
        ('What I saw was a boat.', []),
        ('All the boats were wet.', [('All the boats', 'were', 'wet')]),
    ],
)
def test_what_is_not_claimed_is_no_clause(text, expected):
    assert [(one.subject, one.predicate, one.object) for one in clauses(text, 'Tobin', DAY, ['Zofia'])] == expected


def test_a_time_that_belongs_to_a_thing_is_not_the_time_of_the_event():
    (book,) = clauses('I found a notebook from 1904.', 'Tobin', DAY)
    assert (book.object, book.point_in_time) == ('a notebook from 1904', None)
    (night,) = clauses('The storm was on a night of June 2024.', 'Tobin', DAY)
    assert (night.object, night.point_in_time) == ('a night of June 2024', None)
