"""Questions that are dated by another event: made ones are cut where they were joined, gaps against days that are counted one by one."""
from datetime import date, datetime, timedelta
from itertools import permutations

import pytest
from hypothesis import given, settings, strategies as st

from memnb.core.time import NUMBERS
from memnb.rules.mragent import (
    Anchor, anchor_time, anchored, asked_time, beside, events_told, needs_of, ORDINALS, plain_words,
    REACH, sought, spans_beside, split_question, tells_of, told, touches, whom, WIDER, with_plain)
from memnb.mragent.graph import Episode
from memnb.mragent.cues import BASES
from memnb.core.text import tokenize
from memnb.core.text import Requirement, requirements
from memnb.core.conversation import Snippet
from memnb.core.time import TimeSpan
from memnb.rules.text import ENOUGH

NAMES = ('Tobin', 'Zofia')
DAY = timedelta(days=1)
mains = st.sampled_from(['What did Zofia do', 'where did Zofia go', "Who held Zofia's coat", 'Which tune did Zofia play', 'how did Zofia feel'])
clauses = st.sampled_from(['Tobin failed his test', 'Nell had her baby', "Bram's work began", 'the pipe had burst again', 'Mr. Dunstan hummed a tune'])
AT = {'when': '', 'while': '', 'as soon as': '', 'on the day': '', 'on the day when': '', 'on the same day that': '', 'in the week when': 'week',
      'in the month in which': 'month', 'on the weekend when': 'weekend', 'in the year that': 'year', 'during the summer when': '', 'on the Sunday when': '',
      'at the time when': '', 'in the same week that': 'week', 'on the night when': ''}
numbers = st.sampled_from(['the', 'a', 'one', 'two', 'three', 'ten', '12', 'a few', 'a couple of', 'several'])
units = st.sampled_from(['day', 'days', 'week', 'weeks', 'weekend', 'month', 'months', 'year', 'fortnight'])
sides = st.sampled_from(['before', 'after'])
measured = st.builds('{} {} {}'.format, numbers, units, sides)
spans = st.builds(lambda start, days: TimeSpan(start, start + (days - 1) * DAY, 'span' if days > 1 else 'day'),
                  st.dates(date(1990, 1, 1), date(2030, 12, 31)), st.sampled_from([1, 1, 2, 5, 7, 30, 400]))


def line(text, said=None, speaker='Tobin', id='l1', **more):
    return Snippet(id, text, (id,), speaker=speaker, said=said and datetime.combine(said, datetime.min.time()), **more)


# --- the form of a question

@given(mains, st.sampled_from(sorted(AT)), clauses)
def test_a_question_about_the_same_time_is_cut_where_it_was_joined(main, signal, clause):
    for question in (f'{main} {signal} {clause}?', f'{signal.capitalize()} {clause}, {main}?'):
        assert split_question(question) == (main, clause, AT[signal])
        assert anchored(question) == Anchor(main, clause, None, AT[signal]) and not anchored(question).beside


@given(mains, measured, clauses, st.sampled_from(['', 'on ', 'in ', 'during ']))
def test_a_measured_gap_is_cut_where_it_was_joined(main, gap, clause, preposition):
    for question in (f'{main} {preposition}{gap} {clause}?', f'{(preposition + gap).capitalize()} {clause}, {main}?'):
        assert split_question(question) == (main, clause, gap)
        assert anchored(question) == Anchor(main, clause, None, gap) and anchored(question).beside


@given(mains, st.sampled_from(['', 'right ', 'just ', 'shortly ', 'soon ']), sides, clauses)
def test_a_bare_side_needs_a_name_behind_it(main, how, side, clause):
    found = anchored(f'{main} {how}{side} {clause}?')
    assert found == (Anchor(main, clause, None, side) if clause[0].isupper() else None)


@pytest.mark.parametrize('part', ['night', 'morning', 'afternoon', 'evening'])
def test_a_part_of_a_day_is_its_day_and_only_as_a_word(part):
    assert split_question(f'What did Zofia do the {part} before Tobin ran off?')[2] == 'the day before'
    assert 'fortnight' in split_question('What did Zofia do a fortnight before Tobin ran off?')[2]


@pytest.mark.parametrize('question', [
    'When did Tobin fail his test?', 'How many days after Tobin failed did he pass?', 'How long did it take when Tobin had failed?', 'Who is Bram?',
    'How did Zofia feel while watching the otters?', 'What did Odalys drive before she went to school?', 'Who came when they met in town?',
    "Who looks after Pascal's health at present?", 'What did Tobin do after Tobin failed his test?', "What did Tobin do after Tobin's test was over?",
    'What did Zofia do in the summer of 2024?', 'What did Zofia do two days before 23 June?', 'What did Zofia do when ill?', 'When Tobin failed his test?', '',
    'What did Zofia wear when work allowed?', 'On which day did Zofia swim when Tobin failed his test?', 'What did Zofia realise after her charity race?', 'What did Zofia do at the time in question here?', 'when', 'What did Zofia finish last week before May 2023?'])
def test_what_is_not_anchored(question):
    assert anchored(question) is None


def test_a_clause_may_begin_with_a_word_in_ing_that_is_a_thing():
    for clause in ('spring came late', 'something broke down', 'morning came at last', 'everything was over'):
        assert anchored(f'What did Zofia do when {clause}?').clause.startswith(clause.split()[0])


@given(mains, st.sampled_from(sorted(ORDINALS)), st.sampled_from(['his {} race', 'for the {} time', 'a race for the {} time']))
def test_an_ordinal_is_counted_and_leaves_the_clause(main, word, form):
    found = anchored(f'{main} when Tobin ran {form.format(word)} again?')
    assert found.place == ORDINALS[word] and word not in found.clause.split() and 'time' not in found.clause.split()
    prize = anchored(f'{main} when Tobin won {word} prize?')
    assert prize.place is None and word in prize.clause


@given(st.text(alphabet='abc WT?\'’,.', max_size=40), st.sampled_from(['when', 'before', 'two days after', 'the week before']))
def test_no_question_breaks_it(text, signal):
    found = anchored(f'{text} {signal} {text}')
    assert found is None or (found.main and found.clause and found.beside == (signal != 'when'))


# --- how far from it

def days_of(span):
    return {span.start + number * DAY for number in range(span.days)}


@given(spans, st.integers(1, 30), sides)
def test_so_many_days_beside_a_time_are_counted_from_each_of_its_days(time, number, side):
    way = 1 if side == 'after' else -1
    each = {day + way * number * DAY for day in days_of(time)}
    hull = {min(each) + one * DAY for one in range((max(each) - min(each)).days + 1)}
    assert days_of(beside(time, f'{number} days {side}')) == hull - days_of(time)


@given(spans, measured | sides)
def test_beside_is_outside_and_on_its_side(time, gap):
    found = beside(time, gap)
    assert found.start > time.end if gap.endswith('after') else found.end < time.start
    assert found.granularity == ('span' if found.days > 1 else 'day')


@given(spans, sides | st.builds('the {} {}'.format, st.sampled_from(['days', 'weeks', 'months']), sides))
def test_without_a_measure_it_reaches_a_fortnight(time, gap):
    found = beside(time, gap)
    assert found.days == REACH.days == 14
    assert (found.start - time.end if gap.endswith('after') else time.start - found.end) == DAY


@given(spans, st.sampled_from(WIDER))
def test_a_wider_unit_never_narrows(time, unit):
    found, whole = beside(time, unit), TimeSpan.of(unit, time.start)
    assert found in (time, whole) and found.days == max(time.days, whole.days)


@pytest.mark.parametrize('day', [date(1, 1, 2), date(2024, 8, 2), date(9999, 12, 30)])
@pytest.mark.parametrize('gap', ['before', 'after', '0 days before', '0 days after', '99999 years after', 'a decade before', 'the week after', *WIDER])
def test_where_no_day_is_left_it_is_the_time_itself(day, gap):
    time = TimeSpan.day(day)
    found = beside(time, gap)
    assert found == time or gap == 'weekend' or found.contains(time) == (gap in WIDER)
    if gap.startswith('0'):
        assert found == time


@given(spans)
def test_no_gap_is_the_time_itself(time):
    assert beside(time, '') is time


def test_all_numbers_and_units_that_may_be_written_are_understood():
    day = TimeSpan.day(date(2024, 8, 2))
    for number in (*(set(NUMBERS) - {'the'}), '12'):
        for unit in ('day', 'night', 'week', 'weekend', 'month', 'year', 'fortnight'):
            gap = split_question(f'What did Zofia do {number} {unit}s after Tobin ran off?')[2]
            assert beside(day, gap) != beside(day, 'after'), gap


# --- words

words = st.lists(st.sampled_from(['ran', 'swam', 'test', 'failed', 'otters', 'bought', 'The', 'concertina', 'taught', 'races']), max_size=6)


@given(words, words, st.lists(st.sampled_from(['run', 'test', 'failing', 'otter', 'buy', 'teach', 'swim', 'glue']), min_size=1, max_size=4))
def test_touching_counts_stems_of_the_text_its_plain_forms_and_its_cues(text, cues, wanted):
    episode = Episode('D1/e1', ' '.join(text) or 'x', ('D1:1',), speaker='Tobin', title='t', tag='t', cues=tuple(cues))
    held = {stem for word in (*text, *cues, *(BASES[one] for one in text if one in BASES)) for stem in tokenize(word)}
    sought_stems = {stem for word in wanted for stem in tokenize(word)}
    expected = len(sought_stems & held) / len(sought_stems)
    for person, part in ((None, 1), ('Tobin', 1), ('Zofia', 0)):
        assert touches(episode, [Requirement('fact', tuple(wanted), person)]) == expected * part
    assert touches(episode, []) == 0.0
    assert told(episode).startswith(episode.text) and with_plain(episode.text).startswith(episode.text)


def test_whom_and_sought():
    anchor = anchored("What did Tobin buy from Zofia's shop when the pipe had burst?")
    assert whom(anchor, NAMES) == ('Tobin',)
    assert [(one.words, one.person) for one in sought(anchor, NAMES)] == [(('buy', 'shop'), 'Tobin')]
    both = anchored('Where did Tobin and Zofia go when the pipe had burst?')
    assert [(one.words, one.person) for one in sought(both, NAMES)] == [((), 'Tobin'), ((), 'Zofia')]
    assert [one.person for one in sought(anchored('Who bought it when the pipe had burst?'), NAMES)] == [None]
    assert plain_words('Tobin swam and swam', NAMES) == ('swim',)


@given(mains, clauses)
def test_the_first_need_of_an_anchored_question_is_the_date_of_its_clause(main, clause):
    question = f'{main} when {clause}?'
    assert needs_of(question, NAMES) == (Requirement('date', plain_words(clause, NAMES), 'Tobin' if 'Tobin' in clause else None),)
    assert needs_of(f'{main}?', NAMES) == requirements(f'{main}?', NAMES)


# --- when it happened

NEED = Requirement('date', ('failed', 'test'), 'Tobin')
QUESTION = 'What did Zofia do when Tobin failed his test?'
some_day = st.integers(0, 40).map(lambda number: date(2024, 6, 1) + number * DAY)


def telling(number, event, said, words='failed the test'):
    return line(f'I {words} on {event.day} {event:%B} {event.year}.', said, id=f'l{number}')


@given(st.lists(st.tuples(some_day, some_day), max_size=5))
def test_events_are_the_days_that_are_past_when_told_else_the_first_that_is_foreseen(pairs):
    lines = [telling(number, *pair) for number, pair in enumerate(pairs)]
    named = sorted({event for event, said in pairs if event < said})
    same = sorted({event for event, said in pairs if event == said} - set(named))
    foreseen = sorted(event for event, said in pairs if event > said)
    assert [span.start for span in events_told(lines, NEED)] == (named + same or foreseen[:1])


@given(st.lists(st.tuples(some_day, some_day), max_size=4), st.integers(0, 3))
def test_the_time_does_not_depend_on_the_order_of_lines_or_on_lines_that_tell_nothing_of_it(pairs, others):
    lines = [telling(number, *pair) for number, pair in enumerate(pairs)]
    time = anchor_time(QUESTION, lines, NAMES)
    assert {anchor_time(QUESTION, order, NAMES) for order in permutations(lines)} == {time}
    noise = [line(f'We swam on {number + 1} May 2024.', date(2024, 5, 20), id=f'n{number}') for number in range(others)]
    noise.append(line('Zofia failed the test on 1 May 2024.', date(2024, 5, 20), 'Zofia', 'n9'))
    assert anchor_time(QUESTION, [*noise, *lines], NAMES) == time
    assert tells_of([*noise, *lines], NEED) == lines
    assert (time is None) == (not lines)


@given(st.lists(some_day, min_size=1, max_size=4, unique=True), st.sampled_from(['first', 'second', 'third', 'last']))
def test_a_counted_event_is_found_in_the_order_of_time(days, word):
    lines = [telling(number, day, date(2024, 9, 1)) for number, day in enumerate(days)]
    place = {'first': 0, 'second': 1, 'third': 2, 'last': -1}[word]
    expected = sorted(days)[place] if place < len(days) else None
    time = anchor_time(f'What did Zofia do when Tobin failed his {word} test?', lines, NAMES)
    assert (time and time.start) == expected


def test_a_fuller_telling_goes_before_an_earlier_one_and_a_named_day_before_the_day_of_telling():
    need = Requirement('date', ('failed', 'driving', 'test'), 'Tobin')
    partly, fully = telling(1, date(2024, 5, 1), date(2024, 8, 1)), telling(2, date(2024, 6, 1), date(2024, 8, 1), 'failed the driving test')
    assert [span.start.month for span in events_told([partly, fully], need)] == [6, 5]
    unnamed = line('I failed the driving test.', date(2024, 5, 5))
    assert [span.start.month for span in events_told([unnamed, fully], need)] == [6, 5]
    question = 'What did Zofia do when Tobin failed his first driving test?'
    assert anchor_time(question, [partly, fully], NAMES) == TimeSpan.day(date(2024, 5, 1)), 'who counts goes by time, not by words'
    week = line('I failed the driving test in the week of 27 May 2024.', date(2024, 8, 1))
    assert [span.days for span in events_told([week, fully], need)] == [1], 'the shorter of two that overlap stays'


def test_the_sentence_that_speaks_of_it_gives_the_day():
    two = line('On 3 May 2024 I failed the test. On 9 May 2024 I swam.', date(2024, 8, 1))
    assert {span.start.day for span in spans_beside(two, NEED)} == {3}
    assert {span.start.day for span in spans_beside(two, Requirement('date', ('swim',)))} == {9}
    assert {span.start.day for span in spans_beside(two, Requirement('date', ('glue',)))} == {3, 9}
    less = line('On 9 May 2024 I had a test in French. On 3 May 2024 I failed the test.', date(2024, 8, 1))
    assert {span.start.day for span in spans_beside(less, NEED)} == {3}, 'the sentence that says most of it'
    today = line('Today I failed the test. On 3 May 2024 I swam.', date(2024, 8, 1))
    assert {span.start for span in spans_beside(today, NEED)} == {date(2024, 8, 1)}
    elsewhere = line('I am tired today. I failed the test, and it was on 3 May 2024.', date(2024, 8, 1))
    assert {span.start.month for span in spans_beside(elsewhere, NEED)} == {5}
    loose = line('I am tired today. I failed the test. It was on 3 May 2024.', date(2024, 8, 1))
    assert {span.start.month for span in spans_beside(loose, NEED)} == {5}
    apart = line('I failed the test. It was on 3 May 2024.', date(2024, 8, 1))
    assert {span.start.day for span in spans_beside(apart, NEED)} == {3}
    bare = line('I failed the test.', date(2024, 8, 1))
    assert [span.start for span in spans_beside(bare, NEED)] == [date(2024, 8, 1)]
    assert spans_beside(line('I failed the test.'), NEED) == []
    assert spans_beside(line('I failed the test.', time=TimeSpan(date(2024, 1, 1), None)), NEED) == [], 'an open time is no time to look at'


@settings(max_examples=30)
@given(some_day, measured | sides | st.sampled_from(['', 'week', 'month']))
def test_the_time_to_look_at_lies_beside_that_of_the_event(day, gap):
    signal = f'in the {gap} when' if gap in WIDER else gap or 'when'
    question = f'What did Zofia do {signal} Tobin failed his test?'
    lines = [telling(1, day, date(2024, 9, 1))]
    assert anchor_time(question, lines, NAMES) == TimeSpan.day(day)
    assert asked_time(question, lines, NAMES) == beside(TimeSpan.day(day), gap)
    assert asked_time(question, [], NAMES) is None and asked_time('Who is Bram?', lines, NAMES) is None
    assert ENOUGH > .5, 'half of two words are not enough'
