"""Probes against conversations whose facts were planted, and the mark against answers of which we know what they are."""
import os
import subprocess
import sys
from dataclasses import replace
from datetime import date, datetime, timedelta

import pytest
from hypothesis import given, settings, strategies as st

from memnb.core.roles import NO_INFORMATION
from memnb.core.conversation import Session, Turn
from memnb.evaluation.datasets import load_sample
from memnb.remem.prompts import FactLine
from memnb.core.models import ScriptedLM
from memnb.memma.prompts import MARK, Mark, Probe, ProbeLine, PROBES, ProbesReply
from memnb.rules.memma import clefts, KINDS, mark_rule, probes_rule
from memnb.core.roles import ReplyError, RuleLM
from memnb.core.time import find_times, parse_date, TimeSpan

SAMPLE = load_sample()
NAMES = SAMPLE.speakers
MOMENT = datetime(2024, 5, 10, 18, 0)
NUMBERS = 'two three four five six seven eight nine ten eleven twelve twenty'.split()


def earlier(session):
    return [turn for one in SAMPLE.sessions[:SAMPLE.sessions.index(session)] for turn in one.turns]


def talk(*texts, id='D1', moment=MOMENT, names=('Ada', 'Bo')):
    """A session in which two people speak in turn; the even turns are Ada's."""
    turns = tuple(Turn(f'{id}:{number}', names[number % 2], text) for number, text in enumerate(texts, 1))
    return Session(id, turns, moment)


def probed(session, related=(), count=5):
    return probes_rule(session, related, count).probes


@pytest.fixture(scope='module')
def made():
    return {session.id: probes_rule(session, earlier(session), 5, NAMES).probes for session in SAMPLE.sessions}


# --- the probes of the bundled conversation

def plain(text):
    return {word.strip('.,!?:;\'"’()').removesuffix("'s").lower() for word in text.replace('-', ' ').split()} - {''}


def test_the_answers_stand_in_the_turns_that_are_cited(made):
    for lines in made.values():
        for line in lines:
            cited = [SAMPLE.turn(id) for id in line.turns]
            words = plain(' '.join(f'{turn.speaker} {turn.content}' for turn in cited))
            if line.kind == 'temporal':
                [turn] = cited
                gold, spans = parse_date(line.answer), find_times(turn.text, SAMPLE.session_of(turn.id).time.date())
                assert (gold.start, gold.end) in [(span.start, span.end) for _, _, span in spans], line
            else:
                named = {word.lower() for word in NAMES}
                strange = {word for word in plain(line.answer) - words - named if len(word) > 4}
                assert len(strange) <= len(plain(line.answer)) / 8, (line, strange)  # verbs in the third person


def test_nothing_gives_its_answer_away_and_nobody_is_probed_twice(made):
    for lines in made.values():
        assert len(lines) == 5 and len({line.turns[-1] for line in lines}) == 5
        for line in lines:
            assert line.answer.lower() not in line.question.lower()
            assert line.kind == 'cross' or not {word for word in plain(line.answer) & plain(line.question) if len(word) > 4} - {'tobin', 'zofia'}


def test_the_mix_is_three_to_one_to_one_where_there_is_enough(made):
    for id, lines in made.items():
        counts = [sum(line.kind == kind for line in lines) for kind in KINDS]
        assert counts == [3, 1, 1] or (id == 'D1' and counts == [3, 0, 2]) or (sum(counts) == 5 and counts[2] and id != 'D1')
    assert sum(line.kind == 'single' for lines in made.values() for line in lines) > 35


def test_no_question_has_a_pronoun_that_only_its_turn_explains(made):
    vague = {'he', 'she', 'they', 'him', 'them', 'her', 'his', 'their', 'us', 'we', 'my', 'i', 'you', 'this', 'those', 'there', 'something', 'yesterday'}
    for lines in made.values():
        for line in lines:
            assert not plain(line.question) & vague, line.question
            assert sum(word == 'it' for word in line.question.lower().split()) == (' was it that ' in line.question)


def test_what_was_odd_once_is_not_asked(made):
    questions = ' '.join(line.question for lines in made.values() for line in lines)
    for odd in ('that The ', 'that An ', 'really', 'wish Zofia', 'Three thousand two hundred', 'and orders for five was', '  ', ' ?'):
        assert odd not in questions


def test_the_same_in_another_process_with_another_order_of_hashes():
    code = ('from memnb.core.conversation import Session, Turn; from memnb.rules.memma import probes_rule\n'
            'things = "bassoon kettle lantern compass ladder violin".split()\n'
            'past = [Turn(f"D0:{n}", "Ada", f"I painted the {thing} and the {thing}box in April.") for n, thing in enumerate(things)]\n'
            'now = Session("D1", tuple(Turn(f"D1:{n}", "Ada", f"I burned the {thing} and the {thing}box at dawn.") for n, thing in enumerate(things)))\n'
            'print(probes_rule(now, past, 9).model_dump_json())')
    told = {subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True, timeout=60,
                           env={**os.environ, 'PYTHONHASHSEED': seed}).stdout for seed in ('1', '7')}
    assert len(told) == 1 and told.pop().count('all in all') > 1


def test_a_longer_past_changes_only_what_is_no_longer_the_only_answer():
    session, past = SAMPLE.sessions[9], earlier(SAMPLE.sessions[9])
    lines = probes_rule(session, past, 5, NAMES).probes
    told = [line for line in lines if line.kind == 'single'][0]
    echo = Turn('D0:1', 'Zofia', f'{told.question} {told.answer}')
    assert told not in probes_rule(session, [echo, *past], 5, NAMES).probes


# --- planted facts

@given(st.integers(1, 12), st.sampled_from(['kayak', 'telescope', 'violin', 'ladder']))
def test_a_date_is_reckoned_from_the_day_on_which_it_was_said(ago, thing):
    said = f'I bought the {thing} from Mrs. Quimby {ago} days ago.' if ago > 1 else f'I bought the {thing} from Mrs. Quimby yesterday.'
    lines = probed(talk('Good morning, how are things?', said))
    [line] = [line for line in lines if line.kind == 'temporal']
    assert line.answer == str(TimeSpan.day(MOMENT.date() - timedelta(ago)))
    assert line.question == f'When was it that Ada bought the {thing} from Mrs. Quimby?' and line.turns == ['D1:2']


@given(st.sampled_from(NUMBERS), st.sampled_from(['lanterns', 'walnut chairs', 'postcards']))
def test_a_number_is_asked_for_with_what_it_counts(number, things):
    lines = probed(talk('Good morning!', f'I painted {number} {things} for the harbour festival.'))
    assert f'How many {things} was it that Ada painted for the harbour festival?' in [line.question for line in lines]
    assert number in [line.answer for line in lines]


@given(st.permutations(['Mrs. Quimby repaired the harbour clock.', 'Old Tarrant sells nettle beer.', 'I carved a chess set from walnut.',
                        'The baker painted the lighthouse door.', 'I sold the telescope to a sailor.', 'My cousin Rob sells burning torches.']),
       st.integers(0, 7))
def test_at_most_the_count_and_one_for_each_turn(texts, count):
    session = talk(*texts)
    lines = probed(session, (), count)
    assert len(lines) == min(count, len({line.turns[0] for line in probed(session, (), 99)}))
    assert len({line.turns[-1] for line in lines}) == len(lines)
    for line in lines:
        [turn] = [turn for turn in session.turns if turn.id == line.turns[0]]
        assert plain(line.answer) <= plain(f'{turn.text} {turn.speaker}')
    assert {line.turns[0] for line in probed(session, (), 99)} == {turn.id for turn in session.turns}


def test_a_question_with_two_answers_is_not_asked():
    first, second = 'Mrs. Quimby repaired the harbour clock.', 'Old Tarrant repaired the harbour clock.'
    def who(*texts, related=()):
        return [line.answer for line in probed(talk(*texts), related, 99) if line.question.startswith('Who')]
    assert who(first) == ['Mrs. Quimby'] and who(first, second) == []
    assert who(first, related=[Turn('D0:1', 'Ada', 'Old Tarrant repaired the harbour clock, too.')]) == []
    assert who(first, related=[Turn('D0:1', 'Ada', 'Old Tarrant painted the harbour clock, too.')]) == ['Mrs. Quimby']


@pytest.mark.parametrize('text', ['She repaired the harbour clock.', 'Mrs. Quimby repaired it.', 'Mrs. Quimby would repair the harbour clock.',
                                  'Did Mrs. Quimby repair the harbour clock?', 'Mrs. Quimby repaired this.', 'Eleven is a lot.', ''])
def test_what_makes_no_sense_alone_is_not_asked(text):
    assert probed(talk(text)) == []


def test_what_gives_itself_away_or_means_another_day_tomorrow_is_not_asked():
    lines = probed(talk('The harbour master painted the harbour wall.', 'The letter arrived last Tuesday.'), (), 99)
    assert not any(word in line.question for line in lines for word in ('harbour', 'Tuesday'))


def test_the_speakers_are_not_what_is_asked_for():
    assert all(line.answer not in ('Ada', 'Bo') for line in probed(talk('I carved the oak.', 'I sold the violin.'), (), 99))


def test_who_is_for_people_and_what_for_the_rest():
    lines = probed(talk('My friend met Rob there, and Rob sells burning torches.', 'The old crane lifted the church bell.'), (), 99)
    assert {line.question.split(' ')[0] for line in lines if line.answer == 'Rob'} <= {'Who'}
    assert lines
    crane = FactLine(subject='the old crane', predicate='lifted', object='the church bell')
    assert ('Who or what lifted the church bell?', 'the old crane', 'single') in list(clefts(crane, {'Rob'}))


def test_a_picture_is_asked_for_by_what_stands_beside():
    session = Session('D1', (Turn('D1:1', 'Ada', 'Look!', None, 'a photo of a red kite above a lake with swans'),), MOMENT)
    assert [(line.question, line.answer) for line in probed(session)] == [
        ('What does the photo that Ada shared show with swans?', 'a red kite above a lake')]


# --- across sessions

BEFORE = Turn('D0:1', 'Ada', 'I left the bassoon in the tram to Marlow.')
NOW = 'Yes. A stranger brought the bassoon back to Marlow.'


def across(related, *texts):
    return [line for line in probed(talk(*texts), related, 99) if line.kind == 'cross']


def test_two_mentions_of_one_thing_are_joined():
    [line, *_] = across([BEFORE], 'Any news?', NOW)
    assert line.turns == ['D0:1', 'D1:2'] and 'bassoon' in line.question or 'Marlow' in line.question
    assert line.answer == 'Ada left the bassoon in the tram to Marlow. A stranger brought the bassoon back to Marlow.'


@pytest.mark.parametrize('related, now', [
    ([replace(BEFORE, speaker='Bo')], NOW),  # somebody else said it
    ([BEFORE, Turn('D0:3', 'Ada', 'The bassoon is from Marlow.')], NOW),  # it is not rare
    ([replace(BEFORE, text='Have I left the bassoon in the tram to Marlow?')], NOW),  # it is not told
    ([replace(BEFORE, text='On Friday I bassoon loudly.')], 'On Friday the bassoon sang loudly.'),  # no noun
    ([replace(BEFORE, text='I hate the Friday before Easter.')], 'Oh, the Friday after the eclipse, endlessly.'),  # a time
    ([replace(BEFORE, text='My uncle rides a red Harley to work.')], 'I bought a leather Harley-Davidson jacket.'),  # a part of a compound
    ([replace(BEFORE, text='Really? The bassoon!')], 'Really! The bassoon.'),  # there is nothing more to it
    ([], NOW)])
def test_what_is_not_joined(related, now):
    assert across(related, 'Any news?', now) == []


def test_the_pair_that_shares_most_comes_first():
    related = [Turn('D0:0', 'Ada', 'Somebody wants the harbour for a film.'), BEFORE]
    for texts in (('Hm.', 'I walked along the harbour at night.', 'And?', NOW), ('Hm.', NOW, 'And?', 'I walked along the harbour at night.')):
        assert across(related, *texts)[0].turns[0] == 'D0:1'


def test_a_picture_counts_as_a_mention():
    shown = Turn('D0:3', 'Ada', 'Look!', None, 'a photo of a bassoon in Marlow')
    assert across([BEFORE, shown], 'Any news?', NOW) == []


# --- the holes

phrases = st.text('abcdefgh ', min_size=1).filter(str.strip).map(lambda text: ' '.join(text.split()))


@given(phrases, phrases, phrases, st.none() | st.just('7 May 2024'))
def test_a_question_and_its_answer_are_the_fact_again(subject, predicate, thing, point):
    line = FactLine(subject=subject, predicate=predicate, object=thing, point_in_time=point)
    for question, answer, kind in clefts(line):
        assert question.endswith('?') and kind in KINDS
        body = question[:-1].split(' was it that ')[-1]
        if kind == 'temporal':
            assert (body, answer) == (f'{subject} {predicate} {thing}', point)
        elif question.startswith('What was'):
            assert (body, answer) == (f'{subject} {predicate}', thing)
        elif question.startswith('Who'):
            assert body.removeprefix('Who or what ').removeprefix('Who ') == f'{predicate} {thing}' and answer == subject


def test_being_something_and_being_somewhere():
    def asked(thing, predicate='was'):
        return [question for question, _, _ in clefts(FactLine(subject='Rob', predicate=predicate, object=thing, point_in_time='2019'), {'Rob'})]
    assert asked('the captain') == ['Who was the captain?']
    assert asked('in Marlow with Bo') == ['When was it that Rob was in Marlow with Bo?']
    assert asked('in Marlow', "wasn't") == []


# --- anything at all

words = st.sampled_from('I you she Rob the a my bell sold mended ten two in Marlow yesterday because and is was never , . ? ! that it \ud800 é <b> {x}'.split())
texts = st.lists(words, max_size=14).map(' '.join) | st.text(max_size=30)


@given(st.lists(texts, max_size=5), st.lists(texts, max_size=4), st.integers(0, 6), st.booleans())
@settings(max_examples=150)
def test_any_talk_gives_probes_that_keep_to_the_laws(now, past, count, known):
    session = talk(*now, moment=MOMENT if known else None)
    related = list(talk(*past, id='D0').turns)
    lines = probed(session, related, count)
    assert lines == probed(session, related, count) and len(lines) <= count
    assert len({line.turns[-1] for line in lines}) == len(lines)
    ids = {turn.id for turn in session.turns}
    for line in lines:
        assert line.turns[-1] in ids and {*line.turns} <= ids | {turn.id for turn in related} and line.kind in KINDS
        assert line.question.endswith('?') and line.answer.strip() and line.answer not in line.question
        assert len(line.turns) == (2 if line.kind == 'cross' else 1)


# --- the roles

def test_the_prompt_shows_all_turns_and_the_count():
    session = SAMPLE.sessions[3]
    system, user = PROBES.render({'session': session, 'related': earlier(session)[:3], 'count': 4, 'speakers': NAMES})
    assert 'write 4 questions' in system and all(f'({turn.id}) {turn.speaker}: {turn.content}' in user for turn in session.turns)
    assert all(f'({turn.id}' in user and f'{turn.speaker}: {turn.content}' in user for turn in earlier(session)[:3])
    assert earlier(session)[5].text not in user and '19 March 2024' in user
    assert MARK.render({'question': 'Q?', 'gold': 'G {0}', 'answer': 'A'})[1] == 'Question: Q?\nGold answer: G {0}\nAnswer: A'


GOOD = {'question': 'Who?', 'answer': 'Rob', 'kind': 'single', 'turns': ['D1:1']}


@pytest.mark.parametrize('reply', [
    '', 'Certainly! Here are five probes.', '[]', 'null', '{"probes": null}', '{"probes": 5}', '{"probes": [null]}', {'probes': [{'question': 'Who?'}]},
    {'probes': [{**GOOD, 'kind': 'multi-hop'}]}, {'probes': [{**GOOD, 'answer': ['Rob']}]}, {'probes': [{**GOOD, 'turns': 'D1:1'}]},
    {'probes': [{**GOOD, 'turns': [{'id': 1}]}]}, {'label': 'CORRECT'}])
def test_what_is_no_list_of_probes_is_a_typed_error(reply):
    with pytest.raises(ReplyError):
        ScriptedLM([reply, reply]).ask(PROBES, session=SAMPLE.sessions[0])


@pytest.mark.parametrize('reply, size', [({'probes': []}, 0), ({'probes': [GOOD] * 2000}, 2000), ('```json\n{"probes": []}\n```', 0),
                                         ({'probes': [{**GOOD, 'question': '', 'answer': '<script>', 'turns': []}]}, 1)])
def test_what_is_one_is_taken_as_it_is(reply, size):
    found = ScriptedLM([reply]).ask(PROBES, session=SAMPLE.sessions[0])
    assert isinstance(found, ProbesReply) and len(found.probes) == size


def test_half_a_surrogate_is_mended():
    line = ProbeLine(question='Who \ud800?', answer='Rob', kind='single', turns=['\udfff'])
    assert line.question == 'Who \ufffd?' and line.turns == ['\ufffd']
    assert line.model_dump_json().encode()


@pytest.mark.parametrize('reply', ['', 'CORRECT', {'label': 'correct?'}, {'reason': 'fine'}, {'label': None}, {'label': ['CORRECT']}])
def test_what_is_no_mark_is_a_typed_error(reply):
    with pytest.raises(ReplyError):
        ScriptedLM([reply, reply]).ask(MARK, question='Who?', gold='Rob', answer='Rob')
    assert ScriptedLM([{'label': 'WRONG'}]).ask(MARK, question='Who?', gold='Rob', answer='Rob') == Mark(label='WRONG')


def test_a_probe_shows_its_answer_and_its_turns():
    assert Probe('Who?', 'Rob', 'single', ('D1:1', 'D1:2')).line == 'Who? (Rob; D1:1, D1:2)'


# --- the mark

def right(gold, answer, question='What?'):
    return RuleLM().ask(MARK, question=question, gold=gold, answer=answer).label == 'CORRECT'


days = st.dates(date(1990, 1, 1), date(2030, 12, 28))
SHAPES = ('{0.day} {0:%B} {0.year}', '{0:%B} {0.day}, {0.year}', '{0:%Y-%m-%d}')


@given(days, days, st.sampled_from(SHAPES), st.sampled_from(SHAPES), st.sampled_from(['{}', 'It was on {}.', 'I think {}, at noon']))
def test_a_day_is_right_in_any_shape_and_another_is_wrong(day, other, one, two, frame):
    gold = one.format(day)
    assert right(gold, frame.format(two.format(day)))
    assert right(gold, frame.format(two.format(other))) == (day == other)
    assert not right(gold, frame.format(two.format(day + timedelta(1)))) and not right(gold, frame.format(two.format(day - timedelta(1))))
    assert right(gold, f'{two.format(day)} or {two.format(other)}') == (day == other)


@given(days)
def test_a_coarser_or_a_finer_time_is_another_time(day):
    month, year = f'{day:%B} {day.year}', str(day.year)
    for gold, answer in ((str(TimeSpan.day(day)), month), (month, str(TimeSpan.day(day))), (month, year), (year, month)):
        assert not right(gold, answer) and right(gold, gold)
    assert right(year, f'It was in {year}.') and right(year, f'It was {year}.') and not right(year, f'It was {day.year + 1}.')
    assert not right(str(TimeSpan.day(day)), 'the day before yesterday')


@given(st.integers(2, 900), st.integers(2, 900))
def test_a_number_is_right_by_its_value(number, other):
    assert right(f'{number} chairs', f'She carved {number} chairs.') and right(str(number), f'{number}.')
    assert right(f'{number} chairs', f'{other} chairs') == (number == other)


@pytest.mark.parametrize('value, word', list(zip((2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 20), NUMBERS)))
def test_a_number_in_words_is_that_in_digits(value, word):
    assert right(word, str(value)) and right(str(value), f'{word} of them') and not right(word, str(value + 1)) and not right(f'{value + 1} chairs', f'{word} chairs')


@given(st.lists(st.sampled_from('the old green lantern above our narrow kitchen table'.split()), min_size=5, unique=True), st.integers(0, 5))
def test_a_name_cannot_be_exchanged_however_long_the_answer(around, place):
    gold = ' '.join([*around[:place], 'Quimby', *around[place:]])
    assert right(gold, f'I remember {gold}, of course') and not right(gold, gold.replace('Quimby', 'Tarrant'))


@given(st.text(min_size=1).filter(lambda text: text.strip() and text != NO_INFORMATION), st.text())
def test_the_gold_answer_is_right_for_itself_and_nothing_is_never_right(gold, answer):
    assert right(gold, gold)
    assert not right(gold, NO_INFORMATION) and not right(gold, '') and not right(gold, ' \n')
    assert not right('information', NO_INFORMATION)
    assert mark_rule('Who?', gold, answer).label in ('CORRECT', 'WRONG')


def test_what_the_question_says_need_not_be_said_again():
    question, gold = 'What has Ada had to do with the bassoon, all in all?', 'Ada left the bassoon in a tram.'
    assert right(gold, 'it was left in a tram', question) and not right(gold, 'it was left in a tram') and not right(gold, 'the bassoon, by Ada', question)


def test_four_in_five_words_are_enough_and_three_are_not():
    gold = 'green lanterns, narrow kitchen tables'
    assert right(gold, 'green lanterns, narrow tables') and not right(gold, 'green lanterns, tables')
    assert right('Unhappily she left early. Yesterday night everybody sang loudly.', 'she left unhappily early, and everybody sang loudly that night')


def test_every_gold_answer_of_the_sample_is_right_for_its_question_and_no_other(made):
    lines = [line for five in made.values() for line in five]
    for place, line in enumerate(lines):
        other = lines[place - 7].answer
        assert right(line.answer, line.answer, line.question) and right(line.answer, f'So far as I know: {line.answer}', line.question)
        assert other == line.answer or not right(line.answer, other, line.question)
