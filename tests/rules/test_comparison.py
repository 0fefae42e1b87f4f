"""A fact beside an entry: said already, said otherwise, or new; and each test errs on the side of keeping."""
import re
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memnb.memma.prompts import BEFORE
from memnb.rules.memma import as_entry, exact_words, said_by_entry, slots_in
from memnb.core.conversation import Session, Turn
from memnb.memma.bank import Entry
from memnb.core.time import TimeSpan

PEOPLE = ('Ines', 'Rolf')
DAY = datetime(2024, 3, 19, 18, 30)
SENTENCES = ('Ines has a hive.', 'Ines has a hive?', 'Ines has no hive.', 'Rolf swam to the pier!', 'Rolf is 34.', 'Rolf is 35.', 'Ines shares a photo of a bee.',
             'It opened on 7 April 2024.', 'It opened on 7 May 2024.', 'INES HAS A HIVE', '"Ines has a hive"', 'Wow.', '—')
texts = st.lists(st.sampled_from(SENTENCES), max_size=3).map(' '.join) | st.text(max_size=30)
spans = st.none() | st.sampled_from([TimeSpan.day(DAY), TimeSpan.month(2024, 4), TimeSpan.year(2019)])
entries = st.builds(Entry, st.sampled_from(['m1', 'm2', 'm3']), texts.filter(str.strip), st.just(('D1:1',)), spans, st.sampled_from([None, *PEOPLE]),
                    st.none() | st.sampled_from([DAY, DAY + timedelta(hours=1), DAY + timedelta(days=30)]))


def words(text):
    return re.findall(r'\w+', text.lower())


def entry(text, speaker='Ines', said=DAY, time=None, id='m1'):
    return Entry(id, text, ('D1:1',), time, speaker, said)


@given(entries, st.lists(entries, max_size=4))
def test_what_is_redundant_is_said_word_for_word_by_the_same_speaker(fact, view):
    found = said_by_entry(fact, view, PEOPLE)
    if found is not None:
        assert found in view and found.speaker == fact.speaker
        told = re.sub(r'^\w+ (?:says|asks): ', '', fact.text)
        assert set(words(told)) <= set(words(found.text)) and ('?' in told) <= ('?' in found.text)


@given(entries, st.lists(entries, max_size=3))
def test_an_entry_says_itself_and_the_first_that_says_it_is_named(fact, view):
    found = said_by_entry(fact, [*view, fact], PEOPLE)
    if re.search(r"[\w?]", fact.text.partition(BEFORE)[0]):
        assert found is not None and found is next(one for one in [*view, fact] if said_by_entry(fact, [one], PEOPLE))
        assert said_by_entry(fact, [replace(fact, text=f'Nell sang. {fact.text}')], PEOPLE) is not None or fact.text[:1].islower() \
            or not fact.text[0].isascii() or not fact.text[0].isalpha()


@given(entries)
def test_a_fact_is_not_said_by_somebody_else_nor_of_another_time(fact):
    other = 'Rolf' if fact.speaker == 'Ines' else 'Ines'
    assert said_by_entry(fact, [replace(fact, speaker=other)], PEOPLE) is None
    assert said_by_entry(fact, [replace(fact, time=TimeSpan.year(1999))], PEOPLE) is None


@pytest.mark.parametrize('text, again', [
    ('Ines has a hive.', True), ('Ines swims every Sunday.', True), ('Ines swam to the pier.', False), ('Ines bought a hive.', False),
    ('Ines shares a photo of a hive.', False), ('He has terrible teeth.', False), ('Ines has a hive. Ines swam to the pier.', False)])
def test_on_another_day_only_what_lasts_is_redundant(text, again):
    assert said_by_entry(entry(text), [entry(text)], PEOPLE) is not None
    assert (said_by_entry(entry(text, said=DAY + timedelta(days=30)), [entry(text)], PEOPLE) is not None) == again


def test_two_dates_that_are_told_are_two_events_and_one_is_one():
    def fact(text, days):
        return as_entry(text, 'Ines', ['D1:1'], Session('D1', (Turn('D1:1', 'Ines', 'x'),), DAY + timedelta(days=days)))
    first, later, told = fact('Ines swam yesterday.', 0), fact('Ines swam yesterday.', 7), fact('Ines swam on 18 March 2024.', 0)
    assert (first.time, later.time) == (TimeSpan.day(datetime(2024, 3, 18)), TimeSpan.day(datetime(2024, 3, 25)))
    assert said_by_entry(later, [first], PEOPLE) is None and said_by_entry(first, [first], PEOPLE)
    assert said_by_entry(fact('Ines swam on 18 March 2024.', 30), [told], PEOPLE)


@pytest.mark.parametrize('text', ['', '   ', '…', '"', BEFORE + 'x)'])
def test_what_says_nothing_is_not_redundant(text):
    there = entry('Ines has a hive.')
    assert said_by_entry(replace(there, text=text), [there, replace(there, text=text)], PEOPLE) is None


def test_an_entry_does_not_say_what_it_said_before():
    there = entry(f'Ines lives in Oslo.{BEFORE}Ines lives in Bergen.)')
    assert said_by_entry(entry('Ines lives in Bergen.'), [there], PEOPLE) is None
    assert said_by_entry(entry('Ines lives in Oslo.'), [there], PEOPLE) is there
    assert exact_words(there, PEOPLE) == ['Oslo']
    assert slots_in(entry(f'Ines has a bee.{BEFORE}Ines lives in Bergen.)'), PEOPLE) == set()


@pytest.mark.parametrize('text, slots', [
    ('Ines lives in Oslo.', {('Ines', 'residence')}), ('Rolf moved to Oslo.', {('Rolf', 'residence')}), ('Ines has lived in Oslo since 2019.', {('Ines', 'residence')}),
    ('Ines works for Dunstan & Pell.', {('Ines', 'employer')}), ('Ines is thirty-four.', {('Ines', 'age')}), ('Ines turned 34.', {('Ines', 'age')}),
    ('Dr. Amsel, our vet, has patience.', {('Ines', 'vet')}), ('Ines says: Dr. Amsel, our vet, has patience.', {('Ines', 'vet')}),
    ('Rolf lives in Oslo. Ines lives in Bergen.', {('Rolf', 'residence'), ('Ines', 'residence')}),
    ('Ines lived in Oslo.', set()), ('Ines used to live in Oslo.', set()), ('So Ines lives in Oslo?', set()), ('Ines worked for Dunstan & Pell.', set()),
    ('Ines plays the violin.', set()), ('Ines plays the clarinet.', set()), ('Ines has a greyhound, Pascal.', set()), ('Ines grows Lemon Drops.', set()),
    ('Ines read Moby-Dick.', set()), ('Nell lives in Oslo.', set()), ('', set())])
def test_what_fills_a_slot(text, slots):
    assert slots_in(entry(text or '—'), PEOPLE) == slots


@given(texts.filter(str.strip), st.sampled_from([None, 'Ines', 'Nell', '']))
def test_slots_belong_to_the_people_that_were_named(text, speaker):
    assert {person for person, _ in slots_in(entry(text, speaker), PEOPLE)} <= set(PEOPLE)
    assert slots_in(entry(text, speaker), ()) == set()


def test_ones_own_vet():
    said = 'Dr. Amsel, our vet, has patience.'
    assert slots_in(entry(said, 'Ines'), PEOPLE) == {('Ines', 'vet')}
    assert slots_in(entry(said, 'Rolf'), PEOPLE) == {('Rolf', 'vet')}
    assert slots_in(entry(said, None), PEOPLE) == set()


@given(st.lists(st.sampled_from(['Ines', "Rolf's", 'Oslo', 'hive', '7', '2:11', '48,000', 'Opus', '31', 'The', 'a', 'Met', '—', '.', '?', '!']), max_size=12))
def test_exact_words_are_the_numbers_and_the_capitals_within_sentences(parts):
    text = ' '.join(parts) or '—'
    found = exact_words(entry(text), PEOPLE)
    assert len(set(found)) == len(found) and all(word in text for word in found)
    assert {part for part in parts if part[0].isdigit()} <= set(found)
    assert not {'Ines', "Rolf's", 'The', 'hive', 'a'} & set(found)
    assert set(found) <= {part for part in parts if part[0].isdigit() or part[0].isupper()}
    told = re.sub(r'[.?!—]', ' ', text).split()
    if '.' not in text and '!' not in text and '?' not in text and told:
        assert set(found) >= {word for word in told[1:] if word in ('Oslo', 'Opus', 'Met')}


def test_a_fact_as_an_entry_was_said_when_its_turn_was():
    turns = (Turn('D1:1', 'Ines', 'x'), Turn('D1:2', 'Rolf', 'y', DAY + timedelta(days=1)))
    chunk = Session('D1', turns, DAY)
    assert as_entry('We swam yesterday.', 'Ines', ['D1:1'], chunk).time == TimeSpan.day(datetime(2024, 3, 18))
    fact = as_entry('We swam yesterday.', 'Rolf', ['D1:2'], chunk)
    assert (fact.time, fact.said, fact.sources, fact.speaker, fact.text) == (
        TimeSpan.day(datetime(2024, 3, 19)), turns[1].time, ('D1:2',), 'Rolf', 'We swam yesterday.')
    assert as_entry('We swam yesterday.', 'Ines', ['D1:1'], replace(chunk, time=None)).time is None
    assert as_entry('We swam.', 'Ines', ['D9:9'], chunk).said == DAY


def test_a_question_is_no_statement_and_the_first_word_no_name():
    assert said_by_entry(entry('Ines has a hive?'), [entry('Ines has a hive.')], PEOPLE) is None
    assert said_by_entry(entry('Ines has a hive.'), [entry('Ines has a hive?')], PEOPLE) is None
    assert exact_words(entry('Mostly rain. Yesterday Agnes sang.'), PEOPLE) == ['Agnes']
