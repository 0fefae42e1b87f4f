"""MemMA's rules: a fact beside an entry errs on the side of keeping; what is missing is by support; probes, marks and repairs."""

import re
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from hypothesis import given, strategies as st

from memnb.core.conversation import Session, Snippet, Turn
from memnb.core.time import TimeSpan
from memnb.memma.bank import Entry
from memnb.memma.prompts import BEFORE
from memnb.rules.memma import (
    _as_entry,
    _exact_words,
    _said_by_entry,
    _slots_in,
    clefts,
    diagnose_rule,
    mark_rule,
    PATIENCE,
    required,
)
from memnb.remem.prompts import FactLine

PEOPLE = ('Ines', 'Rolf')
DAY = datetime(2024, 3, 19, 18, 30)
SENTENCES = (
    'Ines has a hive.',
    'Ines has a hive?',
    'Ines has no hive.',
    'Rolf swam to the pier!',
    'Rolf is 34.',
    'Rolf is 35.',
    'Ines shares a photo of a bee.',
    'It opened on 7 April 2024.',
    'It opened on 7 May 2024.',
    'INES HAS A HIVE',
    '"Ines has a hive"',
    'Wow.',
    '—',
)
texts = st.lists(st.sampled_from(SENTENCES), max_size=3).map(' '.join) | st.text(max_size=30)
spans = st.none() | st.sampled_from([TimeSpan.day(DAY), TimeSpan.month(2024, 4), TimeSpan.year(2019)])
entries = st.builds(
    Entry,
    st.sampled_from(['m1', 'm2', 'm3']),
    texts.filter(str.strip),
    st.just(('D1:1',)),
    spans,
    st.sampled_from([None, *PEOPLE]),
    st.none() | st.sampled_from([DAY, DAY + timedelta(days=30)]),
)


def entry(text, speaker='Ines', said=DAY, time=None, id='m1'):
    return Entry(id, text, ('D1:1',), time, speaker, said)


@given(entries, st.lists(entries, max_size=3))
def test_an_entry_says_itself_and_nobody_else_s(fact, view):
    found = _said_by_entry(fact, [*view, fact])
    if re.search(r'[\w?]', fact.text.partition(BEFORE)[0]):
        assert found is next(one for one in [*view, fact] if _said_by_entry(fact, [one]))
    assert _said_by_entry(fact, [replace(fact, speaker='Rolf' if fact.speaker == 'Ines' else 'Ines')]) is None
    assert _said_by_entry(fact, [replace(fact, time=TimeSpan.year(1999))]) is None


def test_two_dates_that_are_told_are_two_events():
    def fact(text, days):
        return _as_entry(
            text, 'Ines', ['D1:1'], Session('D1', (Turn('D1:1', 'Ines', 'x'),), DAY + timedelta(days=days))
        )

    first, later = fact('Ines swam yesterday.', 0), fact('Ines swam yesterday.', 7)
    assert (first.time, later.time) == (TimeSpan.day(datetime(2024, 3, 18)), TimeSpan.day(datetime(2024, 3, 25)))
    assert _said_by_entry(later, [first]) is None and _said_by_entry(first, [first])
    assert fact('We swam.', 0).said == DAY


def test_an_entry_does_not_say_what_it_said_before():
    there = entry(f'Ines lives in Oslo.{BEFORE}Ines lives in Bergen.)')
    assert _said_by_entry(entry('Ines lives in Bergen.'), [there]) is None
    assert _said_by_entry(entry('Ines lives in Oslo.'), [there]) is there
    assert _exact_words('They moved to Oslo.', PEOPLE) == ['Oslo'] and _slots_in(there, PEOPLE) == {
        ('Ines', 'residence')
    }


@pytest.mark.parametrize(
    'text, slots',
    [
        ('Ines lives in Oslo.', {('Ines', 'residence')}),
        ('Rolf moved to Oslo.', {('Rolf', 'residence')}),
        ('Ines has lived in Oslo since 2019.', {('Ines', 'residence')}),
        ('Ines works for Dunstan & Pell.', {('Ines', 'employer')}),
        ('Ines is thirty-four.', {('Ines', 'age')}),
        ('Ines turned 34.', {('Ines', 'age')}),
        ('Ines says: Dr. Amsel, our vet, has patience.', {('Ines', 'vet')}),
        ('Rolf lives in Oslo. Ines lives in Bergen.', {('Rolf', 'residence'), ('Ines', 'residence')}),
        ('Ines lived in Oslo.', set()),
        ('Ines used to live in Oslo.', set()),
        ('So Ines lives in Oslo?', set()),
        ('Ines plays the violin.', set()),
        ('Nell lives in Oslo.', set()),
    ],
)
def test_what_fills_a_slot(text, slots):
    assert _slots_in(entry(text), PEOPLE) == slots


@given(texts.filter(str.strip), st.sampled_from([None, 'Ines', 'Nell', '']))
def test_slots_belong_to_the_people_that_were_named(text, speaker):
    assert {person for person, _ in _slots_in(entry(text, speaker), PEOPLE)} <= set(PEOPLE)
    assert _slots_in(entry(text, speaker), ()) == set()


@given(
    st.lists(
        st.sampled_from(
            ['Ines', "Rolf's", 'Oslo', 'hive', '7', '2:11', '48,000', 'Opus', 'The', 'a', '—', '.', '?', '!']
        ),
        max_size=12,
    )
)
def test_exact_words_are_the_numbers_and_the_capitals_within_sentences(parts):
    found = _exact_words(' '.join(parts), PEOPLE)
    assert len(set(found)) == len(found)
    assert (
        {part for part in parts if part[0].isdigit()}
        <= set(found)
        <= {part for part in parts if part[0].isdigit() or part in ('Oslo', 'Opus')}
    )


# ---- diagnosis


def line(id, text, speaker='Ines'):
    return Snippet(str(id), text, (str(id),), TimeSpan.day(DAY), speaker, DAY)


@pytest.mark.parametrize(
    'question, due',
    [
        ('When did Rolf swim?', None),
        ('In which year did Rolf swim?', None),
        ('How many days was he there?', None),
        ('On which day did Rolf swim?', 'day'),
        ('When exactly did he swim?', 'day'),
        ('On which rainy day did Rolf swim?', 'day'),
        ('Which day? I mean the year. When did he swim?', None),
        ('', None),
    ],
)
def test_a_day_is_due_only_where_it_is_asked_for(question, due):
    assert {need.granularity for need in required(question, PEOPLE) if need.kind == 'date'} <= {due}


ABOUT = ('Ines swam at the lake.', 'The lake was cold, and Ines swam yesterday.', 'The lake is deep.', 'Rye bread.')
told = st.lists(st.sampled_from(ABOUT), max_size=4).map(
    lambda found: [line(number, text) for number, text in enumerate(found)]
)


@given(told, told, st.sampled_from(['Where did Ines swim at the lake?', 'When did Ines swim at the lake?']))
def test_more_evidence_opens_no_fact_and_no_date(found, more, question):
    first, second = (diagnose_rule(question, lines, speakers=PEOPLE) for lines in (found, [*found, *more]))
    assert set(second.gaps) <= set(first.gaps)
    assert (first.decision == 'ANSWERABLE') == (not first.gaps)


def test_the_same_gap_three_times_over_a_covered_topic_is_given_up():
    question, found = 'On which day did Ines swim at the lake?', [line(1, 'I swim at the lake.')]
    judged = diagnose_rule(question, [replace(found[0], text='Ines swim lake, in 2019')], speakers=PEOPLE)
    gap = judged.gaps[0]
    decisions = [
        diagnose_rule(
            question,
            [replace(found[0], text='swim at the lake in 2019')],
            (),
            [question] * (times + 1),
            [gap] * times,
            PEOPLE,
        ).decision
        for times in range(PATIENCE + 1)
    ]
    assert decisions == ['NOT-ANSWERABLE'] * PATIENCE + ['ANSWERABLE']


# ---- probes and marks


def test_a_probe_does_not_hold_its_answer():
    fact = FactLine(
        subject='Ines', predicate='bought', object='two boats, since it rained', point_in_time='10 May 2024'
    )
    for question, answer, kind in clefts(fact):
        assert answer not in question and question.endswith('?') and kind in ('single', 'temporal')
    assert len(list(clefts(fact))) == 3


@pytest.mark.parametrize(
    'question, gold, answer, right',
    [
        ('When was it?', '10 May 2024', 'on 10 May 2024', True),
        ('When was it?', '10 May 2024', 'on 10 or 11 May 2024, or 10 June 2024', False),
        ('When was it?', '2019', 'in 2019', True),
        ('How many came?', '61 people', 'sixty-one people', True),
        ('How many came?', '61 people', '16 people', False),
        ('Who taught Ines?', 'Mrs. Pettigrew', 'Mrs. Pettigrew did', True),
        ('Who taught Ines?', 'Mrs. Pettigrew', 'Mrs. Dunstan', False),
        ('Who?', 'Rolf', '', False),
    ],
)
def test_marks_are_strict(question, gold, answer, right):
    assert (mark_rule(question, gold, answer).label == 'CORRECT') == right
    assert mark_rule(question, gold, gold).label == 'CORRECT'
