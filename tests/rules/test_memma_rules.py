"""MemMA's rules: a fact beside an entry errs on the side of keeping, probes give nothing away, marks are strict."""

from datetime import datetime, timedelta

import pytest
from hypothesis import example, given, strategies as st

from memnb.core.conversation import Session, Snippet, Turn
from memnb.core.time import TimeSpan
from memnb.memma.bank import Entry
from memnb.memma.bank import BEFORE
from memnb.remem.prompts import FactLine
from memnb.rules.memma import clefts, diagnose_rule, guide_rule, mark_rule, probes_rule
from memnb.rules.mragent import slot_of

PEOPLE = ('Ines', 'Rolf')
DAY = datetime(2024, 3, 19, 18, 30)


def entry(text, speaker='Ines', said=DAY, time=None, id='m1'):
    return Entry(id, text, ('D1:1',), time, speaker, said)


def points(view, said, days=0, speaker='Ines'):
    "The kinds of points where an entry meets something said."
    chunk = Session('D2', (Turn('D2:1', speaker, said),), DAY + timedelta(days=days))
    return [point.kind for point in guide_rule(chunk, view, PEOPLE).points]


@given(st.sampled_from(['I live in Bergen.', 'I have a hive.', 'My niece sings, too!']), st.integers(0, 90))
def test_what_was_said_again_is_redundant_for_the_same_speaker_only(said, days):
    [fact] = guide_rule(Session('D1', (Turn('D1:1', 'Ines', said),), DAY), (), PEOPLE).facts
    there = [entry(fact.text)]
    assert points(there, said, days) == ['redundancy']
    assert points(there, said, days, 'Rolf') == []


def test_two_dates_that_are_told_are_two_events():
    swam = entry('Ines swam yesterday (18 March 2024).', time=TimeSpan.day((DAY - timedelta(days=1)).date()))
    assert points([swam], 'I swam yesterday.') == ['redundancy'] and points([swam], 'I swam yesterday.', 7) == []


def test_an_entry_does_not_say_what_it_said_before():
    there = [entry(f'Ines lives in Oslo.{BEFORE}Ines lives in Bergen.)')]
    assert points(there, 'I live in Bergen.') == ['conflict'] and points(there, 'I live in Oslo.') == ['redundancy']


@pytest.mark.parametrize(
    'text, slot',
    [
        ('Ines lives in Oslo.', ('Ines', 'residence')),
        ('Rolf has moved to Oslo.', ('Rolf', 'residence')),
        ('Ines and others still live in Oslo.', None),
        ('Ines works for Dunstan & Pell.', ('Ines', 'employer')),
        ('Ines lived in Oslo.', None),
        ('Ines plays the violin.', None),
        ('Nell lives in Oslo.', None),
        ('Do you think Ines lives in Oslo?', None),
    ],
)
def test_what_fills_a_slot(text, slot):
    assert slot_of(text, PEOPLE) == slot and slot_of(text, ()) is None


# ---- diagnosis


def line(id, text, speaker='Ines'):
    return Snippet(str(id), text, (str(id),), TimeSpan.day(DAY), speaker, DAY)


ABOUT = ('Ines swam at the lake.', 'The lake was cold, and Ines swam yesterday.', 'The lake is deep.', 'Rye bread.')
told = st.lists(st.sampled_from(ABOUT), max_size=4).map(
    lambda found: [line(number, text) for number, text in enumerate(found)]
)


@given(told, told, st.sampled_from(['Where did Ines swim at the lake?', 'When did Ines swim at the lake?']))
def test_more_evidence_opens_no_fact_and_no_date(found, more, question):
    first, second = (diagnose_rule(question, lines, speakers=PEOPLE) for lines in (found, [*found, *more]))
    assert set(second.gaps) <= set(first.gaps)
    assert (first.decision == 'ANSWERABLE') == (not first.gaps)


# ---- probes and marks


def test_a_probe_does_not_hold_its_answer():
    fact = FactLine(subject='Ines', predicate='bought', object='two boats', point_in_time='10 May 2024')
    for question, answer, kind in clefts(fact):
        assert answer not in question and question.endswith('?') and kind in ('single', 'temporal')
    assert len(list(clefts(fact))) == 2


@given(st.lists(st.sampled_from('I Ines bo two ten boat boats often on tenth the . ,'.split()), max_size=12))
@example(['I', 'two', 'two', '.'])
def test_no_question_has_its_answer_in_it(words):
    for probe in probes_rule(Session('D1', (Turn('D1:1', 'Ines', ' '.join(words)),), DAY)).probes:
        assert probe.answer.casefold() not in probe.question.casefold()


@pytest.mark.parametrize(
    'question, gold, answer, right',
    [
        ('When was it?', '10 May 2024', 'on 10 May 2024', True),
        ('When was it?', '10 May 2024', 'on 10 June 2024', False),
        ('When was it?', '2019', 'in 2019', True),
        ('How many came?', '61 people', '61 people', True),
        ('How many came?', '61 people', '16 people', False),
        ('Who taught Ines?', 'Mrs. Pettigrew', 'Mrs. Pettigrew did', True),
        ('Who taught Ines?', 'Mrs. Pettigrew', 'Mrs. Dunstan', False),
        ('Who?', 'Rolf', '', False),
    ],
)
def test_marks_are_strict(question, gold, answer, right):
    assert (mark_rule(question, gold, answer).label == 'CORRECT') == right
    assert mark_rule(question, gold, gold).label == 'CORRECT'
