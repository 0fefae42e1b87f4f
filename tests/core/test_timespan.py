"""Times: the laws of comparison, walks along the calendar, writing and reading back, and the frozen tables of expressions."""

import json
from datetime import date, datetime, timedelta
from itertools import product
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from spelling import in_words

from memnb.core import time as times
from memnb.core.time import compare, find_times, parse_date, parse_datetime, TimeSpan

HERE = Path(__file__).parents[1]
DAY = timedelta(days=1)
OPERATORS = ('lt', 'le', 'eq', 'ge', 'gt')
days = st.dates(date(1920, 1, 1), date(2085, 12, 31))
small_days = st.dates(date(2023, 5, 1), date(2023, 5, 9))


@st.composite
def small_spans(draw):
    start, end = draw(st.none() | small_days), draw(st.none() | small_days)
    if start and end and start > end:
        start, end = end, start
    if not start and not end:
        start = draw(small_days)
    return TimeSpan(start, end, draw(st.sampled_from(times.GRANULARITIES)))


@st.composite
def told_spans(draw):
    "Spans as people tell them: whole units, weeks counted from a day, ranges, and each of the units with one side open."
    granularity, day = draw(st.sampled_from(times.GRANULARITIES)), draw(days)
    whole = TimeSpan.of(granularity, day)
    if granularity == 'span':
        return TimeSpan(day, day + draw(st.integers(0, 4000)) * DAY, 'span')
    side = draw(st.sampled_from(('closed', 'since', 'until')))
    if (granularity, side) == ('week', 'closed') and draw(st.booleans()):
        whole = TimeSpan(day, day + 6 * DAY, 'week')
    return TimeSpan(None if side == 'until' else whole.start, None if side == 'since' else whole.end, granularity)


def members(span):
    "The days of a small span, an open side running well beyond all the others."
    first, last = span.start or date(2023, 4, 20), span.end or date(2023, 5, 20)
    return [first + number * DAY for number in range((last - first).days + 1)]


# ---- comparison


@given(small_spans(), small_spans())
def test_compare_is_what_the_days_say(a, b):
    pairs = list(product(members(a), members(b)))
    assert compare(a, 'lt', b) == all(x < y for x, y in pairs)
    assert compare(a, 'gt', b) == all(x > y for x, y in pairs)
    assert compare(a, 'eq', b) == any(x == y for x, y in pairs)
    assert compare(a, 'le', b) == any(x <= y for x, y in pairs)
    assert compare(a, 'ge', b) == any(x >= y for x, y in pairs)
    assert a.overlaps(b) == bool(set(members(a)) & set(members(b)))


@given(small_spans(), small_spans(), small_spans())
def test_compare_laws(a, b, c):
    assert [compare(a, operator, b) for operator in ('lt', 'eq', 'gt')].count(True) == 1
    assert compare(a, 'le', b) == (compare(a, 'lt', b) or compare(a, 'eq', b)) != compare(a, 'gt', b)
    assert compare(a, 'lt', b) == compare(b, 'gt', a) and compare(a, 'le', b) == compare(b, 'ge', a)
    assert compare(a, 'eq', a) and compare(a, 'eq', b) == compare(b, 'eq', a)
    if compare(a, 'lt', b) and compare(b, 'lt', c):
        assert compare(a, 'lt', c)
    if compare(a, 'lt', b) and compare(b, 'eq', c):
        assert compare(a, 'le', c)


def test_malformed_spans_are_refused():
    day = date(2023, 5, 7)
    for arguments, words in (
        ((None, None), 'one side'),
        ((day, day - DAY), 'starts before'),
        ((day, day, 'hour'), 'granularity'),
    ):
        with pytest.raises(ValueError, match=words):
            TimeSpan(*arguments)
    with pytest.raises(ValueError, match='lt, le, eq, ge, gt'):
        compare(TimeSpan.day(day), '<=', TimeSpan.day(day))
    assert TimeSpan(day, None).days is None and TimeSpan.year(2024).days == 366


def test_a_label_takes_no_part_in_comparison():
    day = date(2023, 5, 7)
    assert TimeSpan(day, day, 'day', 'the big day') == TimeSpan.day(datetime(2023, 5, 7, 13))
    assert len({TimeSpan(day, day, 'day', 'the big day'), TimeSpan.day(day)}) == 1
    assert str(TimeSpan(day, day, 'day', 'the big day')) == 'the big day'


# ---- writing and reading back


@given(told_spans())
def test_isoformat_is_read_back(span):
    assert TimeSpan.fromisoformat(span.isoformat()) == span


@pytest.mark.parametrize(
    'text', ['', '2023-05-07', '2023-05-07/2023-05-08', '../..#day', '2023-05-07/..#eon', '2023-13-01/..#day']
)
def test_broken_isoformat_is_refused(text):
    with pytest.raises(ValueError):
        TimeSpan.fromisoformat(text)


@settings(max_examples=300)
@given(told_spans())
@example(TimeSpan(date(2023, 6, 2), date(2023, 6, 8), 'week'))
def test_what_a_person_would_write_is_read_back(span):
    assert parse_date(str(span)) == span, str(span)


@given(
    days,
    st.sampled_from(
        (
            'yesterday',
            'last Friday',
            'next Tuesday',
            'on Sunday',
            'two weekends ago',
            'last weekend',
            'next weekend',
            'last week',
            'a few days ago',
            'a few years ago',
            'early June',
            'the late 80s',
            'mid 2019',
            'the first week of May',
            'two Fridays ago',
            'the week before last',
            'the day after',
            'last winter',
        )
    ),
)
def test_labels_are_read_back(day, text):
    ((_, _, span),) = find_times(f'We met {text}.', day)
    again = parse_date(str(span))
    assert again and (again.start, again.end) == (span.start, span.end), str(span)


@given(st.datetimes(datetime(1900, 1, 1), datetime(2099, 12, 31)))
def test_dates_as_the_sources_write_them(moment):
    minute, second = moment.replace(second=0, microsecond=0), moment.replace(microsecond=0)
    month, hour = times.MONTHS[moment.month - 1], f'{moment:%I}'.lstrip('0')
    forms = {
        f'{hour}:{moment:%M} {moment:%p} on {moment.day} {month}, {moment.year}'.lower().replace(
            month.lower(), month
        ): minute,
        f'{moment:%d.%m}.{moment.year}, {moment:%H:%M:%S}': second,
        second.isoformat(): second,
        second.isoformat() + 'Z': second,
        f'{moment.year}/{moment:%m/%d (%a) %H:%M}': minute,
    }
    for text, expected in forms.items():
        assert parse_datetime(text) == expected, text
        assert parse_date(text) == TimeSpan.day(moment), text
    for text in (
        f'{month} {moment.day}, {moment.year}',
        f'the {moment.day}th of {month} {moment.year}',
        f'{moment:%m}/{moment:%d}/{moment.year}',
        f'+{moment.date().isoformat()}T00:00:00Z',
        f'{moment.day} {month[:3]} {moment.year}',
    ):
        assert parse_date(text) == TimeSpan.day(moment), text
        assert [found[2] for found in find_times(f'So, {text}, was it?', date(2000, 1, 1))] == [TimeSpan.day(moment)], (
            text
        )
    assert (
        parse_date(f'+{moment.year}-{moment:%m}-00T00:00:00Z')
        == parse_date(f'{month} {moment.year}')
        == TimeSpan.month(moment.year, moment.month)
    )
    assert parse_date(f'+{moment.year}-00-00T00:00:00Z') == parse_date(str(moment.year)) == TimeSpan.year(moment.year)


@pytest.mark.parametrize(
    'text',
    ['', 'nothing', 'yesterday', 'May', '5 June', '10:30', '31.02.2023', '20230508112', '2023-13-45', '(((', '5/5'],
)
def test_what_is_no_absolute_date(text):
    assert parse_date(text) is None
    with pytest.raises(ValueError, match='year, month and day'):
        parse_datetime(text)


# ---- the rows of the calendar, against a person who turns the pages


def begins(kind, day):
    "Whether one of a kind begins on a day."
    if kind in ('christmas', 'halloween', 'fall', 'march'):
        return (day.month, day.day) == {'christmas': (12, 25), 'halloween': (10, 31), 'fall': (9, 1), 'march': (3, 1)}[
            kind
        ]
    if kind == 'thanksgiving':
        return day.month == 11 and day.weekday() == 3 and 22 <= day.day <= 28
    return {
        'day': True,
        'week': day.weekday() == 0,
        'weekend': day.weekday() == 5,
        'tuesday': day.weekday() == 1,
        'month': day.day == 1,
        'year': day.timetuple().tm_yday == 1,
        'season': day.day == 1 and day.month % 3 == 0,
    }[kind]


ROWS = (
    'day',
    'week',
    'weekend',
    'tuesday',
    'month',
    'season',
    'year',
    'christmas',
    'halloween',
    'fall',
    'march',
    'thanksgiving',
)


@settings(max_examples=150)
@given(st.sampled_from(ROWS), days, st.integers(1, 3))
def test_steps_are_counted_as_on_a_wall_calendar(kind, day, count):
    turned = day
    for _ in range(count):
        turned += DAY
        while not begins(kind, turned):
            turned += DAY
    assert times._step(kind, day, count).start == turned
    turned, seen = day, 0
    while seen < count:
        turned -= DAY
        if begins(kind, turned) and times._latest(kind, turned).end < day:
            seen += 1
    assert times._step(kind, day, -count).start == turned
    assert times._latest(kind, day).start <= day < times._step(kind, day, 1).start


@given(days, st.integers(1, 40), st.sampled_from(list(times._WEEKLY)))
def test_distances_in_sentences(day, count, weekday):
    def only(text):
        ((_, _, span),) = find_times(text, day)
        return span

    assert only(f'{count} days ago') == TimeSpan.day(day - count * DAY)
    assert only(f'we go in {count} days') == only(f'{count} days later') == TimeSpan.day(day + count * DAY)
    assert only(f'{count} weeks ago') == TimeSpan.of('week', day - 7 * count * DAY)
    assert only(f'{count} years ago') == TimeSpan.year(day.year - count)
    assert only('last week') == TimeSpan.of('week', day - 7 * DAY)
    last = max(day - number * DAY for number in range(1, 8) if (day - number * DAY).strftime('%A').lower() == weekday)
    assert (
        only(f'last {weekday}')
        == only(f'on {weekday.capitalize()}.')
        == only(f'the {weekday} before {times.phrase(TimeSpan.day(day))}')
        == TimeSpan.day(last)
    )
    assert only(f'next {weekday}').start in (last + 7 * DAY, last + 14 * DAY) and only(f'next {weekday}').start > day
    assert only(f'this {weekday}').start in [TimeSpan.of('week', day).start + number * DAY for number in range(7)]


# ---- any text at all

WORDS = sorted(
    {
        *times.NUMBERS,
        *times._UNITS,
        *times._KINDS,
        *times.ORDINALS,
        *times._PART_NAMES,
        *times._DECADES,
        *times._DAY_WORDS,
        *times._WAYS,
        'ago',
        'back',
        'later',
        'in',
        'on',
        'of',
        'since',
        'until',
        'before',
        'after',
        'from',
        'to',
        'between',
        'and',
        'May',
        'March',
        '-',
        '.',
        ',',
        '2016',
        '31',
        '30',
        '0',
        '9999',
        '1000',
        "'80s",
        '90s',
        '29 February',
        '31 April',
        '2023-02-30',
        '5/5/2023',
        'days',
        'years',
        'we',
        'will',
        'today',
        '29th',
    }
)
soup = st.lists(st.sampled_from(WORDS), max_size=14).map(' '.join)


@settings(max_examples=400)
@given(soup | st.text(max_size=60), st.dates())
@example('9999 decades ago, 9999 years later, since 9999', date(1, 1, 1))
@example('next decade, in 30 decades', date(9999, 12, 31))
@example('the 3rd week before 1000', date(1, 1, 7))
def test_no_text_and_no_day_breaks_the_reader(text, day):
    found = find_times(text, day)
    at = 0
    for start, end, span in found:
        assert at <= start < end <= len(text) and isinstance(span, TimeSpan) and str(span)
        at = end
    assert found == find_times(text, day)
    parse_date(text)


# ---- the tables


def table(name):
    return json.loads((HERE / name).read_text(encoding='utf-8'))


def expected(entry):
    sides = [entry[side] and date.fromisoformat(entry[side]) for side in ('start', 'end')]
    return TimeSpan(*sides, entry['granularity'])


@pytest.mark.parametrize('entry', table('dates.json') + table('dates_blind.json'), ids=lambda entry: entry['text'])
def test_table(entry):
    "Ours, and the half that was written without sight of the code (73 of its 75 were right at first sight)."
    day = date.fromisoformat(entry['reference'])
    found = find_times(entry['text'], day)
    assert [span for _, _, span in found] == [expected(entry)]
    start, end, span = found[0]
    if 'expression' in entry:
        where = entry['text'].index(entry['expression'])
        assert start < where + len(entry['expression']) and where < end
    for around in ('Well, listen. {} Bye now.', '"{}"', '{}\n\nBye'):
        assert [other for _, _, other in find_times(around.format(entry['text']), day)] == [span]


@pytest.mark.parametrize(
    'text',
    table('dates_none.json'),
)
def test_no_time_is_found_where_none_is(text):
    assert find_times(text, date(2023, 6, 9)) == []


@given(
    st.dates(date(1950, 1, 1), date(2060, 12, 31)),
    st.sampled_from(('on Friday', 'over the weekend', 'in March', 'in the fall', 'at Easter', 'on 9 June')),
)
@example(date(1999, 1, 1), 'on Friday')
@example(date(2023, 4, 1), 'at Easter')
@example(date(2002, 4, 1), 'at Easter')  # the next one is 385 days later
def test_the_coming_one_is_the_first_that_the_calendar_shows(day, text):
    """Said plainly on a later day, the words name the coming one as soon as it is there, and none before it."""
    (coming,) = [span for _, _, span in find_times(f'We will go {text}', day)]
    (plain,) = [span for _, _, span in find_times(f'We went {text}', day)]
    if plain.end >= day:
        assert coming == plain
        return
    assert day < coming.start
    later = coming.start + DAY if text == 'on Friday' else coming.end
    assert [span for _, _, span in find_times(f'We went {text}', later)] == [coming]
    assert find_times(f'We went {text}', coming.start - DAY)[0][2].start <= day


# ---- numbers


@given(st.integers(1, 999), st.sampled_from([' ', ' and ']), st.sampled_from(['{} years ago', '{} years before 2023']))
@example(32, ' ', '{} years ago')
@example(102, ' and ', '{} years ago')
def test_a_number_is_read_whole_or_not_at_all(number, link, text):
    text = text.format(in_words(number, link))
    assert [span for *_, span in find_times(text, date(2023, 5, 30))][:1] == [TimeSpan.year(2023 - number)], text
    for beginning in ('umpteen-', 'umpteen ', 'twelve zillion and ', 'half of ', '1.'):
        assert not [found for found in find_times(beginning + text, date(2023, 5, 30)) if 'ago' in text], beginning


# ---- other languages

LANGUAGES = table('dates_languages.json')


@pytest.mark.parametrize('entry', LANGUAGES['times'], ids=lambda entry: entry['text'])
def test_a_time_in_another_language(entry):
    day = date.fromisoformat(entry['reference'])
    for language in (entry['language'], 'auto'):
        assert [span.isoformat() for *_, span in find_times(entry['text'], day, language)] == [entry['span']], language


@pytest.mark.parametrize('entry', LANGUAGES['none'], ids=lambda entry: entry['text'])
def test_no_time_is_made_up_in_another_language(entry):
    for language in (entry['language'], 'auto'):
        assert find_times(entry['text'], date(2024, 7, 3), language) == [], language


@pytest.mark.parametrize('text', LANGUAGES['9 June 2024'])
def test_a_date_in_any_language(text):
    assert parse_date(text) == TimeSpan.day(date(2024, 6, 9))
    assert parse_datetime(f'{text} 14:30') == datetime(2024, 6, 9, 14, 30)


def test_what_may_be_another_word_is_read_where_the_language_is_known():
    for language, word in {'de': 'morgen', 'es': 'mañana', 'fr': 'hier'}.items():
        assert find_times(word, date(2024, 7, 3), language) and not find_times(word, date(2024, 7, 3))
