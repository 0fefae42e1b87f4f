"""Answering: the rule never fails, cites only what it was shown, and reads numbers and intervals as plainer oracles do."""

from datetime import date, datetime, timedelta

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from memnb.core.conversation import Snippet
from memnb.core.models import ScriptedLM
from memnb.core.roles import ANSWER, AnswerReply, NO_INFORMATION, RuleLM
from memnb.core.text import coverage, in_digits, NUMBER, question_kind, relevance, Requirement, requirements
from memnb.core.time import GRANULARITIES, parse_date, TimeSpan
from memnb.rules.text import _asked_unit, _interval, _number_before, _ranked, _statements, _when, extract_answer

OPENINGS = [
    'When did Tobin',
    'In which year did Zofia',
    'How many months passed between',
    'How long did',
    'How many dogs does Tobin',
    'How much money did',
    'Did Tobin',
    'Which books did Zofia',
    'What did Tobin',
    'Who',
    'Where',
    'Which week did',
]
WORDS = [
    'run',
    'the',
    'race',
    'and',
    'dogs',
    'two',
    'twice',
    'sixty-one',
    'yesterday',
    'last Friday',
    'four years ago',
    'between',
    'books.',
    '7 May 2023',
    '12,000',
    '$5',
    'pounds',
    'Tobin',
    'Zofia',
    'three weeks',
    'a hundred',
    'It rained!',
    '[shares a dog',
    ']',
    '\n',
    '61',
]
any_texts = st.text(max_size=50)
spoken = st.lists(st.sampled_from(WORDS), max_size=10).map(' '.join)
texts = any_texts | spoken
questions = any_texts | st.builds('{} {}?'.format, st.sampled_from(OPENINGS), spoken)
moments = st.datetimes(datetime(1950, 1, 1), datetime(2090, 1, 1))
people = st.sampled_from([None, 'Tobin', 'Zofia'])
lines = st.lists(st.tuples(texts, people, st.none() | moments), max_size=6).map(
    lambda rows: [
        Snippet(f'D1:{place}', text, (f'D1:{place}',), speaker=speaker, said=said)
        for place, (text, speaker, said) in enumerate(rows)
    ]
)
topics = st.lists(st.sampled_from(['race', 'dogs', 'books', 'run']), min_size=1, max_size=3, unique=True)
needs = st.lists(
    st.builds(Requirement, st.sampled_from(['fact', 'date', 'list']), topics.map(tuple), people), min_size=1, max_size=3
)
dates = st.dates(date(1950, 1, 1), date(2050, 1, 1))


@given(questions, lines)
@example(
    'Which month did Tobin run?',
    [Snippet('a', 'I run on 31 December 9999.', speaker='Tobin', said=datetime(2024, 1, 1))],
)
@settings(max_examples=120)
def test_the_rule_answers_anything_and_cites_only_what_it_saw(question, shown):
    reply = extract_answer(question, shown)
    assert set(reply.sources) <= {line.id for line in shown}
    assert len(set(reply.sources)) == len(reply.sources)
    needed = requirements(question, sorted({line.speaker for line in shown} - {None}))
    assert (reply.answer != NO_INFORMATION) == bool(reply.sources) == any(relevance(line, needed) > 0 for line in shown)
    assert (
        reply
        == extract_answer(question, list(shown))
        == RuleLM(render=True).ask(ANSWER, question=question, lines=shown, asked=None)
    )
    if reply.sources and question_kind(question) in ('what', 'list', 'who', 'where', 'why'):
        cited = {line.id: line.text for line in shown}
        assert set(reply.answer.split()) <= set(' '.join(cited[name] for name in reply.sources).split())


@given(lines, needs)
@settings(max_examples=100)
def test_lines_are_ranked_by_relevance_and_ties_keep_their_order(shown, required):
    found = _ranked(shown, required)
    scores = [relevance(line, required) for line in found]
    assert all(0 < score <= 1 for score in scores) and scores == sorted(scores, reverse=True)
    assert {line.id for line in found} == {line.id for line in shown if relevance(line, required) > 0}
    for one, other in zip(found, found[1:]):
        assert relevance(one, required) > relevance(other, required) or shown.index(one) < shown.index(other)


@given(texts, needs)
@settings(max_examples=80)
def test_statements_are_all_of_the_text_the_best_first(text, required):
    found = _statements(Snippet('x', text), required)
    assert sorted(''.join(''.join(found).split())) == sorted(''.join(text.split()))
    covers = [max(coverage(part, need.words) for need in required) for part in found]
    assert covers == sorted(covers, reverse=True)


@given(dates, st.sampled_from([None, *GRANULARITIES[:-1]]))
@settings(max_examples=80)
def test_a_written_date_is_the_answer_in_the_unit_asked_for(day, unit):
    line = Snippet('a', f'The race was on {day.day} {day:%B} {day.year}.', said=datetime(2060, 1, 1))
    other = Snippet('b', 'Nothing of it on 1 January 1999.', said=datetime(2060, 1, 1))
    found, sources = _when([line, other], [Requirement('date', ('race',))], unit)
    assert sources == ['a']
    assert found.granularity == (unit or 'day') and (found.start <= day <= found.end or unit == 'weekend')


@given(moments)
@settings(max_examples=40)
def test_without_a_time_it_was_the_day_of_saying_unless_a_line_half_as_good_tells(said):
    required = [Requirement('date', ('race', 'dogs'))]
    best, half = Snippet('a', 'A race with dogs!', said=said), Snippet('b', 'The race was in May 2019.', said=said)
    assert _when([best, Snippet('c', 'That was in May 2019.', said=said)], required) == (
        TimeSpan.day(said.date()),
        ['a'],
    )
    assert _when([best, half], required) == (TimeSpan.month(2019, 5), ['b'])
    assert _when([Snippet('a', 'A race with dogs!')], required) == (None, ['a'])
    reply = extract_answer('When did Tobin race?', [Snippet('a', 'I raced yesterday.', speaker='Tobin', said=said)])
    assert parse_date(reply.answer) == TimeSpan.day(said.date() - timedelta(1))


@pytest.mark.parametrize(
    'question, unit',
    [
        ('In which year did she join?', 'year'),
        ('On what weekend did it rain?', 'weekend'),
        ('When did she join?', None),
        ('Which years were good?', None),
    ],
)
def test_the_unit_is_named_by_the_question(question, unit):
    assert _asked_unit(question) == unit


def months_walked(first: date, later: date) -> int:
    "Whole months, found by walking from the first day, a month at a step."
    steps, year, month = 0, first.year, first.month
    while True:
        year, month = (year, month + 1) if month < 12 else (year + 1, 1)
        if (year, month, first.day) > (later.year, later.month, later.day):
            return steps
        steps += 1


@given(
    st.dates(date(1950, 1, 1), date(2050, 1, 1)).filter(lambda day: day.day < 29),
    st.integers(0, 1500),
    st.sampled_from(['day', 'week', 'month', 'year']),
)
@settings(max_examples=80)
def test_an_interval_is_a_subtraction(first, gap, unit):
    later = first + timedelta(gap)
    shown = [
        Snippet('a', f'The race was on {first.day} {first:%B} {first.year}.', said=datetime(2060, 1, 1)),
        Snippet('b', f'The show was on {later.day} {later:%B} {later.year}.', said=datetime(2060, 1, 1)),
    ]
    required = [Requirement('date', ('race',)), Requirement('date', ('show',))]
    months = months_walked(first, later)
    expected = {'day': gap, 'week': gap // 7, 'month': months, 'year': months // 12}[unit]
    text, sources = _interval(shown, required, f'From yesterday on, how many {unit}s passed?')
    assert (text, sources) == (f'{expected} {unit}' + ('' if expected == 1 else 's'), ['a', 'b'])
    assert _interval(shown, required[:1], 'How many days?') == (None, [])


SMALL = (
    'zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen '
    'eighteen nineteen'
).split()
TENS = 'twenty thirty forty fifty sixty seventy eighty ninety'.split()


def in_words(number: int, link: str = ' ') -> str:
    "A number below a million in words."
    if number < 20:
        return SMALL[number]
    if number < 100:
        return TENS[number // 10 - 2] + (f'-{SMALL[number % 10]}' if number % 10 else '')
    unit, name = (100, 'hundred') if number < 1000 else (1000, 'thousand')
    return f'{in_words(number // unit, link)} {name}' + (
        f'{link}{in_words(number % unit, link)}' if number % unit else ''
    )


@given(st.integers(1, 999_999), st.sampled_from([' ', ' and ']), st.sampled_from([str, str.capitalize, str.upper]))
@example(112, ' ', str)
@settings(max_examples=120)
def test_numbers_in_words_are_read(number, link, case):
    words = case(in_words(number, link))
    (found,) = NUMBER.finditer(f'So {words} dogs came.')
    assert found[0] == words and in_digits(words) == f'{number:,}'
    assert _number_before('dog', f'There were {words} big dogs.') == f'{number:,}'
    assert _number_before('dog', f'There were {words} cats. Dogs, too.') is None


@pytest.mark.parametrize(
    'question, text, answer',
    [
        ('How many people came?', 'One crate, then sixty-one people.', '61'),
        ('How many times did Tobin run?', 'I run there twice a day.', '2'),
        ('How much money did Tobin raise?', 'I raised three thousand two hundred pounds.', '3,200 pounds'),
        ('How much did Tobin pay?', 'I pay $5,000.50 for it.', '$5,000.50'),
        ('How many dogs does Tobin have?', 'I have dogs. One cat.', 'I have dogs.'),
        ('How long did Tobin run?', 'I run for two and a half hours.', 'two and a half hours'),
        ('How long did Tobin run?', 'I run for ages.', 'I run for ages.'),
        ('Did Tobin run?', 'I run.', 'Yes'),
        ('Did Tobin run and sing and paint?', 'I run.', 'No'),
        ('What did Zofia paint?', 'I paint dogs.', NO_INFORMATION),
    ],
)
def test_answers_of_each_kind(question, text, answer):
    reply = extract_answer(
        question,
        [
            Snippet('D1:1', text, speaker='Tobin', said=datetime(2024, 1, 1)),
            Snippet('D1:2', 'Oh.', speaker='Zofia', said=datetime(2024, 1, 1)),
        ],
    )
    assert reply == AnswerReply(answer=answer, sources=[] if answer == NO_INFORMATION else ['D1:1'])


def test_lists_take_the_three_best_lines():
    shown = [
        Snippet(f'{place}', f'{text} for {place} days.')
        for place, text in enumerate(['read', 'read books', 'slept', 'read big books', 'big'], 2)
    ]
    reply = extract_answer('Which big books did you read?', shown)
    assert (
        reply.sources == ['5', '3', '2']
        and reply.answer == 'read big books for 5 days. read books for 3 days. read for 2 days.'
    )


@given(questions, lines, st.none() | dates.map(TimeSpan.day), texts)
@settings(max_examples=60)
def test_the_prompt_shows_every_line_behind_its_id(question, shown, asked, draft):
    system, user = ANSWER.render({'question': question, 'lines': shown, 'draft': draft, 'asked': asked})
    assert NO_INFORMATION in system and question in user and (draft or 'None') in user
    assert (f'(asked on {asked})' in user) == (asked is not None) or '(asked on' in question + draft
    for line in shown:
        assert '\n  '.join(f'- ({line.id}) {line.line}'.splitlines()) in user


def test_a_model_in_the_place_of_the_rule():
    script = ScriptedLM([{'answer': 'Rye', 'sources': ['D3:9']}])
    assert script.ask(ANSWER, question='What bread?', lines=[]) == AnswerReply(answer='Rye', sources=['D3:9'])
    assert 'What bread?' in script.prompts[0][2]
