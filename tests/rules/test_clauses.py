"""The third person and facts: a table written by hand, sentences whose parts are known, and any text at all."""

import re
from datetime import date, datetime

import pytest
from hypothesis import given, strategies as st

from memnb.core.conversation import Session, Turn
from memnb.core.time import parse_date, TimeSpan
from memnb.rules.remem import facts_of, gists_rule, statements
from memnb.rules.text import _third as third, third_person

DAY = date(2024, 5, 15)
TOLD = {  # said by Tobin
    'I fixed the fence.': 'Tobin fixed the fence.',
    "I've been there.": 'Tobin has been there.',
    "I’m late.": 'Tobin is late.',
    "I don't know.": "Tobin doesn't know.",
    "I haven't slept, and I can't swim.": "Tobin hasn't slept, and Tobin can't swim.",
    "I'd love to, I'll bring it.": 'Tobin would love to, Tobin will bring it.',
    'I was there and I watch it now.': 'Tobin was there and Tobin watches it now.',
    'She told me of my boat.': "She told Tobin of Tobin's boat.",
    'I saw you.': 'Tobin saw you.',
    "We've swum and we're cold.": 'Tobin and others have swum and Tobin and others are cold.',
    'She said "I’ve seen you".': 'She said "I’ve seen you".',
    'Nell is here.': 'Nell is here.',
    'I often.': 'Tobin often.',
    'I usually.': 'Tobin usually.',
    'I seldom go, and maybe I stay.': 'Tobin seldom goes, and maybe Tobin stays.',
}


@pytest.mark.parametrize('said', TOLD)
def test_told(said):
    assert third_person(said, 'Tobin') == TOLD[said]


NAMES = st.sampled_from(['Tobin', 'Zofia', 'Nell', r'A\1b', 'Mary Ann', "O'Neil", 'İz'])
VERBS = st.sampled_from('love carry need watch go paint enjoy fix get like'.split())
THINGS = st.sampled_from(['the fence', 'two red boats', 'rye bread', 'a letter from Ghent'])


@given(NAMES, VERBS, THINGS, st.sampled_from(['', 'always', 'really', 'still never']))
def test_present_against_spelling(name, verb, thing, adverb):
    spelled = {'carry': 'carries', 'watch': 'watches', 'go': 'goes', 'fix': 'fixes'}.get(verb, verb + 's')
    told = third_person(' '.join(f'I {adverb} {verb} {thing}.'.split()), name)
    assert told == ' '.join(f'{name} {adverb} {spelled} {thing}.'.split())


@given(st.text(), NAMES)
def test_third_person_of_anything(text, speaker):
    told = third_person(text, speaker)
    assert re.findall(r'"[^"]*"', told) == re.findall(r'"[^"]*"', text)
    if not re.search(r'\b(?:i|me|my|myself|we)\b', text, re.I):
        assert told == text


SAID = st.sampled_from(
    """I love you|my boat is yours|you've seen me|do you know|am I late|we swam|we've swum|I'd gone|do I carry it
you made me happy|I never told you|she and I bake|went home|I I""".replace('\n', '|').split('|')
)


@given(st.lists(st.tuples(SAID, st.sampled_from(['.', '!', '?', ',', ' and', ' but', ' because', ' -'])), max_size=5))
def test_once_is_enough(said):
    told = third_person(' '.join(part + mark for part, mark in said), 'Tobin')
    assert third_person(told, 'Tobin') == told


@given(st.sampled_from('have do has did'.split()))
def test_negation_goes_along(verb):
    assert third(verb + "n't") == third(verb) + "n't"


def facts(text, day=DAY, speaker='Tobin'):
    return list(facts_of(Turn('D1:1', speaker, text), day, ['Zofia']))


PASTS = st.sampled_from('bought painted lost found carried built sold'.split())
OBJECTS = st.sampled_from(['the boat', 'two red hats', 'a letter from Ghent', 'the keys of the loft'])
WHEN = {
    '': None,
    'yesterday': TimeSpan.day(date(2024, 5, 14)),
    'in 2016': TimeSpan.year(2016),
    'last month': TimeSpan.month(2024, 4),
}


@given(st.sampled_from(['I', 'Zofia']), PASTS, OBJECTS, st.sampled_from(sorted(WHEN)), st.booleans())
def test_a_fact_of_known_parts(subject, verb, thing, when, first):
    text = f'{when.capitalize()}, {subject} {verb} {thing}.' if first and when else f'{subject} {verb} {thing} {when}.'
    (fact,) = facts(text)
    assert (fact.subject, fact.predicate, fact.object) == (subject.replace('I', 'Tobin'), verb, thing)
    assert (fact.point_in_time and parse_date(fact.point_in_time)) == WHEN[when]


@pytest.mark.parametrize(
    'text, expected',
    [
        ('She bought a boat.', []),
        ('Nell bought a boat.', []),
        ('I had the keys.', [('Tobin', 'had', 'the keys')]),
        ('I had lost the keys.', [('Tobin', 'had lost', 'the keys')]),
        ('I have two boats.', [('Tobin', 'has', 'two boats')]),
        ("I don't own a boat.", [('Tobin', "doesn't own", 'a boat')]),
        ('I was the captain of the Herrings.', [('Tobin', 'was', 'the captain of the Herrings')]),
        ('I found a chapel, and Zofia lost the keys.', [('Tobin', 'found', 'a chapel'), ('Zofia', 'lost', 'the keys')]),
        ('We live in Karrow.', [('Tobin and others', 'live in', 'Karrow')]),
        ('I met Mrs. Pettigrew because it rained.', [('Tobin', 'met', 'Mrs. Pettigrew')]),
        ('I had Mrs. Pettigrew here?', []),
        ('I said "I had Mrs. Pettigrew here?"', []),
    ],
)
def test_cases(text, expected):
    assert [(one.subject, one.predicate, one.object) for one in facts(text)] == expected


PROSE = st.lists(
    st.sampled_from(
        '''I you we Nell Tobin Zofia the a boat bought saw is was have has and but so because , . ; - : she it yesterday
2018 in on to up red never really swims don't that who my 'no' "yes" (well) Friday'''.split()
    ),
    max_size=25,
).map(' '.join)
days = st.none() | st.dates(date(1900, 1, 1), date(2100, 1, 1))


@given(PROSE | st.text(), days)
def test_nothing_is_invented_and_a_phrase_has_an_end(text, day):
    told = third_person(text, 'Tobin')
    for fact in facts(text, day):
        assert fact.subject in ('Tobin', 'Zofia', 'Tobin and others', 'Zofia and others') and fact.turns == ['D1:1']
        assert fact.object.strip() and fact.predicate.strip()
        for part in (fact.subject, fact.predicate, fact.object):
            assert set(re.findall(r'\w+', part)) <= set(re.findall(r'\w+', told))
        assert fact.point_in_time is None or day or re.search(r'\d', text)


@given(PROSE.map(lambda text: re.sub('[.?!]', '', text) + '?'))
def test_questions_claim_nothing(text):
    assert facts(text) == []


@given(PROSE | st.text(max_size=40), NAMES, days)
def test_statements_name_their_speaker(text, speaker, day):
    told = statements(Turn('D1:1', speaker, text, caption='a boat'), day)
    assert all(speaker in one for one in told) and told[-1] == f'{speaker} shares a boat.'


def test_a_short_sentence_stands_with_one_neighbour():
    said = statements(Turn('D1:1', 'Tobin', 'I ran to the old harbour. Yes! Cold rain. Wet boots. Bad road.'), DAY)
    assert said == ['Tobin ran to the old harbour. Yes!', 'Tobin says: Cold rain. Wet boots.', 'Tobin says: Bad road.']


def test_times_are_read_in_the_language_of_the_session():
    said = """Bonjour Marc, je suis contente de te revoir ici. Mon frère a acheté une vieille maison à la campagne
        avec un grand jardin et des pommiers. Il est venu hier avec ses enfants."""
    session = Session('D1', [Turn('D1:1', 'Claire', said)], datetime(2024, 5, 15))
    assert gists_rule(session).gists[-1].text == 'Claire says: Il est venu hier (14 May 2024) avec ses enfants.'
