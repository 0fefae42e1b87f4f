"""What is still missing: support against a table by hand, contradictions against sets of days, and stalling against a count."""
from datetime import date, datetime, timedelta

import pytest
from hypothesis import given, strategies as st

from memnb.rules.memma import Clash, contradiction, granularity_due, PATIENCE, required, stalled, unmet
from memnb.core.text import tokenize
from memnb.core.text import Requirement
from memnb.core.conversation import Snippet
from memnb.core.time import TimeSpan

PEOPLE = ('Tobin', 'Zofia')
SAID = datetime(2024, 9, 17, 12)
FIRST = date(2024, 3, 1)


def line(id, text, speaker='Zofia', said=SAID):
    return Snippet(str(id), text, (str(id),), TimeSpan.day(said), speaker, said)


# --- support

ABOUT = {'Zofia swam at the lake.': {'fact'}, 'The lake was cold, and Zofia swam yesterday.': {'fact', 'date'}, 'The lake is deep.': set(), 'Rye bread.': set(),
         'Swam last year at a lake.': {'fact', 'date'}}
lines = st.lists(st.sampled_from(sorted(ABOUT)), max_size=5).map(lambda told: [line(number, text) for number, text in enumerate(told)])
kinds = st.lists(st.sampled_from(['fact', 'date', 'list']), min_size=1, max_size=3)


@given(kinds, lines, st.integers(0, 5))
def test_a_gap_blocks_unless_a_line_supports_it_and_a_list_while_it_grows(sorts, told, newest):
    fresh = told[len(told) - newest:] if newest else []
    needs = [Requirement(kind, ('swam', 'lake'), 'Zofia') for kind in sorts]
    supported = {kind for one in told for kind in ABOUT[one.text]}
    grows = any('lake' in one.text for one in fresh)  # half of the topic is to the point
    expected = [need for need in needs if ('fact' if need.kind == 'list' else need.kind) not in supported or (need.kind == 'list' and grows)]
    assert unmet(needs, told, fresh) == expected


@given(kinds, lines, lines)
def test_more_evidence_never_opens_a_fact_or_a_date(sorts, told, more):
    needs = [Requirement(kind, ('swam', 'lake'), 'Zofia') for kind in sorts]
    assert set(unmet(needs, [*told, *more])) <= set(unmet(needs, told))


def test_what_another_one_did_is_no_support():
    need = Requirement('fact', ('swam', 'lake'), 'Zofia')
    assert unmet([need], [line(1, 'I swam in the lake.', 'Tobin')]) == [need]
    assert unmet([need], [line(1, 'Zofia swam in the lake.', 'Tobin')]) == unmet([need], [line(1, 'I swam in the lake.')]) == []


# --- how exact

@pytest.mark.parametrize('question, due', [
    ('When did Tobin swim?', None), ('In which year did Tobin swim?', None), ('In what month was it?', None), ('How many days was he there?', None),
    ('On which day did Tobin swim?', 'day'), ('On what date was it?', 'day'), ('On which night was it?', 'day'), ('What is the exact time?', 'day'),
    ('When exactly did he swim?', 'day'), ('On which rainy day did Tobin swim?', 'day'), ('Which day? I mean the year. When did he swim?', None), ('', None)])
def test_a_day_is_due_only_where_it_is_asked_for(question, due):
    assert granularity_due(question) == due
    assert all(need.granularity in (None, due) for need in required(question, PEOPLE))


def test_an_exact_day_is_required_of_a_date_alone():
    assert [need.granularity for need in required('On which day did Tobin swim?', PEOPLE)] == ['day']
    assert [need.granularity for need in required('What did Tobin do on his exact birthday?', PEOPLE)] == [None]
    year = line(1, 'I swam in the lake in 2023.', 'Tobin')
    assert not unmet(required('When did Tobin swim in the lake?', PEOPLE), [year]) or not unmet(required('When was it that Tobin swam in the lake?', PEOPLE), [year])
    assert unmet(required('On which day was it that Tobin swam in the lake?', PEOPLE), [year])


@given(st.text(max_size=60))
def test_any_text_has_requirements(text):
    assert required(text, PEOPLE) and granularity_due(text) in (None, 'day')


# --- contradictions

NEED = Requirement('date', ('storm', 'lake'), 'Zofia')
times = st.lists(st.tuples(st.integers(0, 400), st.booleans()), max_size=4)


def dated(number, shift, whole_month):
    "A line about the storm, and the days that it may mean."
    day = FIRST + timedelta(shift)
    month = {day.replace(day=1) + timedelta(number) for number in range(31)}
    text = day.strftime('A storm at the lake in %B %Y.') if whole_month else f'A storm at the lake on {day.day} {day.strftime("%B %Y")}.'
    return line(number, text), {one for one in month if one.month == day.month} if whole_month else {day}


@given(times, st.booleans())
def test_two_dates_contradict_each_other_if_they_share_no_day_and_the_answer_depends_on_it(told, by_year):
    made = [dated(number, *one) for number, one in enumerate(told)]
    apart = [(one.id, other.id) for place, (one, days) in enumerate(made) for other, rest in made[place + 1:]
             if not ({day.year for day in days} & {day.year for day in rest} if by_year else days & rest)]
    clash = contradiction(NEED, [one for one, _ in made], 'year' if by_year else None)
    assert (clash and (clash.one.id, clash.other.id)) == (apart[0] if apart else None)


@given(times, st.randoms())
def test_a_contradiction_is_heard_in_any_order_and_told_twice_it_is_none(told, chance):
    made = [dated(number, *one)[0] for number, one in enumerate(told)]
    mixed = chance.sample(made, len(made))
    assert (contradiction(NEED, made) is None) == (contradiction(NEED, mixed) is None)
    for one in made:
        assert contradiction(NEED, [one, line('copy', one.text)]) is None


def test_it_hears_only_the_best_lines_that_tell_a_time():
    storm, other = dated(1, 0, False)[0], dated(2, 40, False)[0]
    assert contradiction(NEED, [storm, other]) == Clash(NEED, storm, other, None)
    assert contradiction(Requirement('fact', NEED.words, 'Zofia'), [storm, other]) is None
    assert contradiction(Requirement('date', ('storm', 'lake', 'june'), 'Zofia'), [storm, line(2, 'The storm at the lake, on 9 June 2024')]) is None
    assert contradiction(NEED, [storm, line(2, 'The storm at the lake, that was bad')]) is None
    assert contradiction(NEED, [storm, line(2, 'A storm at the lake on 5 May 2024', 'Tobin')]) is None
    unsure = line(2, 'The storm at the lake on 5 May, or was it on 1 March 2024?')
    assert contradiction(NEED, [storm, unsure]) is contradiction(NEED, [unsure, storm]) is None  # it names the other's time
    assert contradiction(NEED, []) is None


def test_last_friday_and_a_date_are_one_time():
    told = [line(1, 'Last Sunday there was a storm at the lake.'), line(2, 'There was a storm at the lake on 15 September 2024.')]
    assert contradiction(NEED, told) is None


def test_the_gap_names_both_times_and_the_queries_what_only_one_line_has():
    one = line(1, 'A storm at the lake on 2 March 2024, and the tents flew in the wind.')
    other = line(2, 'On 7 July 2024 a storm at the lake sank the canoe, what a wind.')
    clash = contradiction(NEED, [one, other])
    assert clash.text == 'which is meant by the date of storm lake (Zofia): 2 March 2024 or 7 July 2024'
    first, second = (set(tokenize(query)) for query in clash.queries(PEOPLE))
    assert {'storm', 'lake', 'tent'} <= first and {'storm', 'lake', 'cano'} <= second and not {'cano', 'sank'} & first and 'tent' not in second and 'wind' not in first | second
    assert all(query.startswith('Zofia: storm lake') for query in clash.queries(PEOPLE))


# --- stalling

@given(st.lists(st.sampled_from([NEED.text, 'another gap']), max_size=6), st.booleans())
def test_it_stalls_after_three_queries_for_one_gap_if_something_is_known(gaps, known):
    told = [line(1, 'A storm at the lake.' if known else 'Rye bread, and a lake.')]
    assert stalled(NEED, told, gaps) == (known and len(gaps) >= 3 and all(gap == NEED.text for gap in gaps[-3:]))
    assert PATIENCE == 3
