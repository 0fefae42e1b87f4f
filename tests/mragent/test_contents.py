"""Contents and their cues against witnesses that are simpler: days walked through one by one, words looked up one by one."""
import re
import string
from dataclasses import FrozenInstanceError, replace
from datetime import date, datetime, timedelta

import pytest
import snowballstemmer
from hypothesis import example, given, settings
from hypothesis import strategies as st

from memnb.mragent.graph import cue_id, Episode, SemanticUnit, time_cues, Topic
from memnb.core.text import STOP_WORDS
from memnb.core.conversation import Snippet
from memnb.core.time import find_times, parse_date, TimeSpan

STEMMER = snowballstemmer.stemmer('english')


@st.composite
def spans(draw, longest=6000, first=date(1, 1, 1), last=date(9999, 12, 31)):
    "Closed spans, short ones as often as long ones, and often near a New Year."
    start = draw(st.dates(first, last) | st.builds(date, st.integers(first.year, last.year), st.sampled_from([1, 12]), st.integers(1, 31)))
    most = min((last - start).days, longest)
    return TimeSpan(start, start + timedelta(draw(st.integers(0, min(most, 130)) | st.integers(0, most))), 'span')


modern = spans(first=date(1950, 1, 1), last=date(2049, 12, 31))


# Months and years as cues.

def walked(span):
    "The cues of a closed span, from its days one by one."
    days = [span.start + timedelta(number) for number in range(span.days)]
    months = list(dict.fromkeys(f'{day:%B} {day.year}' for day in days))
    years = list(dict.fromkeys(str(day.year) for day in days))
    return tuple(months if len(months) <= 3 else years if len(years) <= 10 else ())


@given(spans(longest=4500))
@example(TimeSpan(date(2023, 12, 31), date(2024, 1, 1), 'span'))
@example(TimeSpan(date(2023, 11, 1), date(2024, 1, 31), 'span'))
@example(TimeSpan(date(2023, 10, 31), date(2024, 1, 1), 'span'))
@example(TimeSpan(date(1990, 1, 1), date(1999, 12, 31), 'decade'))
@example(TimeSpan(date(1989, 12, 31), date(1999, 1, 1), 'span'))
@example(TimeSpan(date(9999, 12, 31), date(9999, 12, 31)))
@example(TimeSpan(date(1, 1, 1), date(1, 3, 31), 'span'))
def test_time_cues_are_what_its_days_say(span):
    assert time_cues([span]) == walked(span)


@given(st.lists(spans(longest=400) | st.none() | st.dates().map(lambda day: TimeSpan(day, None)) | st.dates().map(lambda day: TimeSpan(None, day)), max_size=6))
def test_several_spans_have_the_cues_of_each_once_and_in_order(several):
    closed = [span for span in several if span and span.start and span.end]
    assert time_cues(iter(several)) == tuple(dict.fromkeys(cue for span in closed for cue in walked(span)))


@given(modern, st.data())
def test_who_shares_a_day_shares_a_cue(span, data):
    "If both are of months; and of two with years, where they share a day they share a year."
    day = span.start + timedelta(data.draw(st.integers(0, span.days - 1)))
    other = TimeSpan(day, day + timedelta(data.draw(st.integers(0, 4000))), 'span')
    one, two = time_cues([span]), time_cues([other])
    if one and two and one[0].isdigit() == two[0].isdigit():
        assert set(one) & set(two)


@given(modern)
def test_a_time_cue_reads_back_as_itself(span):
    for cue in time_cues([span]):
        read = parse_date(cue)
        assert read.overlaps(span) and time_cues([read]) == (cue,) and str(read) == cue
        assert time_cues(found for _, _, found in find_times(f'What happened in {cue}?', date(2050, 1, 1))) == (cue,)


@given(st.integers(2, 9998), st.integers(1, 12))
def test_a_month_is_its_own_cue_and_a_season_is_three(year, month):
    assert time_cues([TimeSpan.month(year, month)]) == (str(TimeSpan.month(year, month)),)
    assert time_cues([TimeSpan.year(year)]) == (str(TimeSpan.year(year)),)
    assert len(time_cues([TimeSpan.of('season', date(year, month, 28))])) == 3


@pytest.mark.parametrize('wrong', [[date(2024, 9, 1)], ['September 2024'], 'September 2024', [datetime(2024, 9, 1)], [3]])
def test_only_spans_have_time_cues(wrong):
    with pytest.raises(TypeError, match='time_cues: expected TimeSpans, got'):
        time_cues(wrong)


def test_one_span_alone_is_meant_as_one():
    assert time_cues(TimeSpan.month(2024, 9)) == time_cues([TimeSpan.month(2024, 9)]) == ('September 2024',)


# The form in which labels are compared.

words = st.lists(st.text(string.ascii_letters, min_size=1, max_size=8) | st.sampled_from(['The', 'Who', 'races', 'Half', 'was', "Tobin's", '2024']),
                 min_size=1, max_size=5)


@given(words)
def test_a_label_is_its_stems_or_else_its_words(label):
    lower = [part for word in label for part in word.lower().split("'")]
    stems = [STEMMER.stemWord(word) for word in lower if word not in STOP_WORDS]
    assert cue_id(' '.join(label)) == ' '.join(stems or lower)


@given(words, st.sampled_from([str.upper, str.lower, str.title]), st.lists(st.sampled_from([' ', '  ', ', ', '-', ' & ', '\t', '…']), min_size=6, max_size=6))
def test_case_blanks_and_signs_do_not_count(label, case, between):
    if "Tobin's" not in label:  # a title has Tobin'S
        assert cue_id(between[0] + ''.join(map(''.join, zip(map(case, label), between[1:])))) == cue_id(' '.join(label))


@given(st.text())
def test_no_label_is_lost(text):
    assert bool(cue_id(text)) == bool(text.split())
    assert cue_id(text) == ' '.join(cue_id(text).split())
    if not re.search(r'\w', text) and text.isascii():
        assert cue_id(text) == ' '.join(text.split())


@pytest.mark.parametrize('wrong', [None, 3, b'tobin', ['Tobin']])
def test_a_label_is_a_text(wrong):
    with pytest.raises(TypeError, match='cue_id: expected a str, got'):
        cue_id(wrong)


# The records.

texts = st.text(max_size=6)
episodes = st.builds(Episode, texts, texts, st.lists(texts).map(tuple), st.none() | modern, st.none() | texts, st.none() | st.datetimes(),
                     title=texts, tag=texts, cues=st.lists(texts))
units = st.builds(SemanticUnit, texts, texts, st.lists(texts).map(tuple), st.none() | modern, st.none() | texts, st.none() | st.datetimes(),
                  person=texts, aspect=texts, slot=texts)


@settings(max_examples=40)
@given(episodes, units)
def test_contents_are_snippets_that_can_be_kept_in_sets_and_changed_in_copies_only(episode, unit):
    for one in (episode, unit):
        assert isinstance(one, Snippet) and type(one)(**vars(one)) == one == replace(one) and len({one, replace(one)}) == 1
        assert replace(one, id=one.id + '+') != one and one.text in one.line
        with pytest.raises(FrozenInstanceError):
            one.text = 'another'
    assert isinstance(episode.cues, tuple) and episode != Snippet(episode.id, episode.text)


@settings(max_examples=40)
@given(episodes)
def test_a_line_says_when_it_was_said(episode):
    plain = Snippet(episode.id, episode.text, time=episode.time, speaker=episode.speaker)
    assert replace(episode, said=None).line == plain.line
    if episode.said:
        assert episode.line.startswith(f'[{TimeSpan.day(episode.said)}, ') and episode.line.endswith(f'm] {episode.text}')


def test_a_line_of_an_episode_has_the_hour():
    assert Episode('e', 'Tobin ran.', said=datetime(2024, 4, 13, 9, 10), speaker='Tobin').line == '[13 April 2024, 9:10 am] Tobin ran.'


@given(units)
def test_since_is_the_first_day_that_is_known(unit):
    expected = unit.time.start if unit.time else unit.said.date() if unit.said else None
    assert unit.since == expected
    assert unit.line.startswith(f'({unit.person}, {unit.aspect}) {unit.text}')
    assert ('since' in unit.line[len(f'({unit.person}, {unit.aspect}) {unit.text}'):]) == bool(unit.time)


SAID = datetime(2024, 1, 9, 19, 15)


@pytest.mark.parametrize('time, said, tail, since', [
    ('2018', SAID, ' [since 2018]', date(2018, 1, 1)), ('since 2018', SAID, ' [since 2018]', date(2018, 1, 1)),
    ('until 2018', SAID, ' [until 2018]', date(2018, 12, 31)), ('March 2018', None, ' [since March 2018]', date(2018, 3, 1)),
    (None, SAID, ' [said on 9 January 2024]', date(2024, 1, 9)), (None, None, '', None)])
def test_a_unit_tells_how_much_is_known_of_its_time(time, said, tail, since):
    unit = SemanticUnit('u', 'He bakes.', time=time and parse_date(time), said=said, person='Tobin', aspect='job')
    assert (unit.line, unit.since) == (f'(Tobin, job) He bakes.{tail}', since)


@given(st.lists(texts), st.randoms(use_true_random=False), texts)
def test_a_topic_is_a_set_with_a_title(ids, chance, title):
    topic, shuffled = Topic(title, tuple(ids)), [*ids, *ids[:2]]
    chance.shuffle(shuffled)
    assert topic == Topic(title, shuffled) and hash(topic) == hash(Topic(title, iter(shuffled)))
    assert topic.episodes == tuple(sorted(set(ids))) and topic.id == 'topic:' + cue_id(title)


@pytest.mark.parametrize('make, name', [
    (lambda: Episode('e', 'text', title=None), 'Episode.title'), (lambda: Episode('e', 'text', tag=3), 'Episode.tag'),
    (lambda: Episode('e', 'text', cues='Tobin'), 'Episode.cues'), (lambda: Episode('e', 'text', cues=('Tobin', None)), 'Episode.cues'),
    (lambda: Episode('e', 'text', cues=None), 'Episode.cues'), (lambda: Episode('e', 'text', cues=''), 'Episode.cues'),
    (lambda: Episode('e', 3), 'Snippet.text'), (lambda: Episode('e', 'text', sources='D1:1'), 'Snippet.sources'),
    (lambda: SemanticUnit('u', 'text', person=None), 'SemanticUnit.person'), (lambda: SemanticUnit('u', 'text', aspect=['job']), 'SemanticUnit.aspect'),
    (lambda: SemanticUnit('u', 'text', slot=None), 'SemanticUnit.slot'), (lambda: SemanticUnit(3, 'text'), 'Snippet.id'),
    (lambda: Topic(None, ()), 'Topic.title'), (lambda: Topic('Races', 'D5/e1'), 'Topic.episodes'), (lambda: Topic('Races', (3,)), 'Topic.episodes')])
def test_what_is_malformed_is_refused_where_it_is_made(make, name):
    with pytest.raises(TypeError, match=f'^{re.escape(name)}: expected'):
        make()
