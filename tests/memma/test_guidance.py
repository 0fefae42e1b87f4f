"""Guidance loses no name or number; edits that are made by it lose no fact and no entry, whatever it says."""

import re
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memnb.memma.bank import BEFORE
from memnb.core.conversation import Session, Turn
from memnb.memma.bank import Edit, Entry
from memnb.core.text import content_words
from memnb.memma.prompts import FocusPoint, GuidanceReply, StatedFact
from memnb.rules.memma import guide_rule, write_rule
from memnb.memma.bank import MemoryBank

PEOPLE = ('Ines', 'Rolf')
DAY = datetime(2024, 4, 15, 18)
REPLACED = set(
    'i me my mine myself you your yours yourself we us our do does have has are is am was were had did'.split()
)
WORDS = '''I you my me we your mine myself Ines Rolf Crumb Pascal Nell Saw Will May Mine Mark Rose Made Had Was Are Do Can went saw met had have am are do
can will run love 7 19 1904 48,000 2:11 3.5 118 5th $40 Line Opus War I. Dr. Mrs. St. Oslo and or but with in on at the a yesterday last Friday next
week two years ago today this morning Sunday May June 2023 summer because that where "The Heron's Polka" 'See the city' don't I'm you're I've we'll who
? ! . , ; : — ... ( ) [ { }'''.split(' ')
talk = st.lists(st.sampled_from(WORDS), min_size=1, max_size=14).map(' '.join) | st.text(
    st.characters(codec='utf-8'), max_size=40
)
captions = st.none() | st.sampled_from(['a photo of Crumb with 3 jars', 'a photo of a yellow jumper'])


@st.composite
def chunks(draw, least=0):
    said = draw(st.lists(st.tuples(st.sampled_from(PEOPLE), talk, captions), min_size=least, max_size=4))
    return Session(
        'D1',
        tuple(Turn(f'D1:{number}', who, text, None, caption) for number, (who, text, caption) in enumerate(said, 1)),
        draw(st.sampled_from([None, DAY])),
    )


ids = st.sampled_from(['m1', 'm2', 'm3', 'm99', '', None])
short = st.sampled_from(['Ines lives in Oslo.', 'Rolf has a hive.', '{braces}', 'Ines swam on 7 May 2023.']) | st.text(
    st.characters(codec='utf-8'), min_size=1, max_size=12
)
facts = st.builds(
    StatedFact,
    text=short,
    speaker=st.sampled_from(PEOPLE),
    turns=st.lists(st.sampled_from(['D1:1', 'D1:2', 'D7:7']), max_size=2),
)
points = st.builds(
    FocusPoint,
    kind=st.sampled_from(['importance', 'redundancy', 'conflict']),
    fact=st.integers(-1, 5),
    entry=ids,
    note=st.text(max_size=5),
)
advice = st.builds(GuidanceReply, facts=st.lists(facts, max_size=4), points=st.lists(points, max_size=8))
VIEW = [
    Entry('m1', 'Ines lives in Bergen.', ('D0:1',), None, 'Ines', DAY - timedelta(days=9)),
    Entry('m2', 'Rolf plays the viola.', ('D0:2',), None, 'Rolf', DAY - timedelta(days=9)),
    Entry('m3', 'It rained.'),
]
CHUNK = Session(
    'D1', (Turn('D1:1', 'Ines', 'I moved to Oslo on Saturday.'), Turn('D1:2', 'Rolf', 'I play the cello now.')), DAY
)


def kept_words(text):
    "The runs of digits and the capitalised words of a text, in small letters."
    return {word.lower() for word in re.findall(r'\d+|\b[A-Z][a-z]+\b', text)} - REPLACED


# --- guidance ---


@given(chunks())
def test_every_number_and_name_of_a_turn_stands_in_a_fact_that_cites_it(chunk):
    told = guide_rule(chunk, (), PEOPLE).facts
    for turn in chunk.turns:
        words = ' '.join(fact.text for fact in told if turn.id in fact.turns).lower()
        said = (turn.text if content_words(turn.text, PEOPLE) else '') + f' {turn.caption or ""}'
        assert all(word in words for word in kept_words(said)), (said, words)
        assert turn.speaker.lower() in words or not said.strip()


@given(chunks())
def test_facts_are_in_order_name_their_speaker_and_cite_a_turn(chunk):
    told, turns = guide_rule(chunk, VIEW, PEOPLE).facts, {turn.id: turn for turn in chunk.turns}
    for fact in told:
        assert fact.turns and fact.speaker == turns[fact.turns[0]].speaker and fact.speaker in fact.text
    places = [list(turns).index(fact.turns[0]) for fact in told]
    assert places == sorted(places)


@given(chunks())
def test_points_name_a_fact_and_an_entry_that_are_there(chunk):
    reply = guide_rule(chunk, VIEW, PEOPLE)
    assert reply == guide_rule(chunk, VIEW, PEOPLE)
    for point in reply.points:
        assert 1 <= point.fact <= len(reply.facts)
        assert point.kind in ('redundancy', 'conflict') and point.entry in {'m1', 'm2', 'm3'}
    assert len({point.fact for point in reply.points}) == len(reply.points)


def about(entry, said, speaker='Ines', days=60):
    "The kinds of points where an entry of long ago meets something said now."
    chunk = Session('D2', (Turn('D2:1', speaker, said),), DAY)
    reply = guide_rule(chunk, [Entry('m7', entry, ('D1:1',), None, 'Ines', DAY - timedelta(days=days))], PEOPLE)
    return [point.kind for point in reply.points]


@pytest.mark.parametrize(
    'entry, said, found',
    [
        ('Ines plays the violin.', 'I play the clarinet.', []),
        ('Ines has a greyhound, Pascal.', 'I brought home a greyhound, Juno.', []),
        ('Rolf lives in Oslo.', 'I live in Bergen.', []),
        ('Ines lives in Oslo.', 'I lived in Leeds as a boy.', []),
        ('Ines lives in Oslo.', 'I moved to Bergen.', ['conflict']),
    ],
)
def test_one_has_only_one_of_some_things(entry, said, found):
    assert about(entry, said) == found


# --- edits ---


@given(advice)
def test_every_fact_is_written_or_called_redundant_with_an_entry_that_was_shown(guidance):
    lines = write_rule(CHUNK, VIEW, guidance).edits
    assert len(lines) == len(guidance.facts)
    for number, (fact, line) in enumerate(zip(guidance.facts, lines), 1):
        named = {(point.kind, point.entry) for point in guidance.points if point.fact == number}
        assert line.action in ('ADD', 'UPDATE', 'NONE') and line.turns == fact.turns and line.speaker == fact.speaker
        assert line.text.startswith(fact.text) if line.action != 'NONE' else ('redundancy', line.entry) in named
        assert (line.entry is None) == (line.action == 'ADD') and line.entry in (None, 'm1', 'm2', 'm3')
        assert line.action != 'UPDATE' or ('conflict', line.entry) in named
        assert line.action != 'ADD' or line.text == fact.text


@given(advice)
def test_an_update_keeps_the_text_that_was_there_and_is_the_only_one_of_its_entry(guidance):
    texts, updated = (
        {entry.id: entry.text for entry in VIEW},
        [line for line in write_rule(CHUNK, VIEW, guidance).edits if line.action == 'UPDATE'],
    )
    assert not any(BEFORE in line.text for line in updated)  # the bank keeps it
    [whole] = write_rule(CHUNK, VIEW, guidance, per='chunk').edits
    assert whole.action != 'UPDATE' or whole.text.endswith(f'{BEFORE}{texts[whole.entry]})')
    assert len({line.entry for line in updated}) == len(updated)
    wanted = {
        point.entry for point in guidance.points if point.kind == 'conflict' and 1 <= point.fact <= len(guidance.facts)
    } & texts.keys()
    assert {line.entry for line in updated} <= wanted and (bool(wanted) <= bool(updated) or len(guidance.points) > 1)


@given(advice)
def test_one_edit_for_a_chunk_has_everything_that_the_edits_for_each_fact_have(guidance):
    each, (whole,) = write_rule(CHUNK, VIEW, guidance).edits, write_rule(CHUNK, VIEW, guidance, per='chunk').edits
    writing = [line for line in each if line.text]
    if writing:
        assert (whole.action, whole.entry) == ('ADD', None)
        assert whole.text == '\n'.join(line.text for line in writing)
        assert whole.turns == list(dict.fromkeys(turn for line in writing for turn in line.turns))
    else:
        assert whole.action == 'NONE'


@given(chunks(), st.sampled_from(['fact', 'chunk']))
def test_without_guidance_each_turn_with_content_is_added_as_it_was_said(chunk, per):
    lines, said = (
        write_rule(chunk, VIEW, per=per).edits,
        [turn for turn in chunk.turns if content_words(turn.content)],
    )
    if per == 'fact':
        assert [(line.action, line.text, line.speaker, line.turns) for line in lines] == [
            ('ADD', turn.content, turn.speaker, [turn.id]) for turn in said
        ]
    else:
        assert len(lines) == 1 and lines[0].turns == [turn.id for turn in said]
        assert lines[0].text == '\n'.join(turn.line for turn in said)


@given(chunks(least=1))
def test_a_bank_takes_every_edit_of_the_rules_and_loses_no_entry_text(chunk):
    bank = MemoryBank(backend=Shelf)
    for _ in range(2):
        view = list(bank)
        reply = write_rule(chunk, view, guide_rule(chunk, view, PEOPLE), PEOPLE)
        bank.apply(
            [
                Edit(line.action, ' '.join(line.text.split()), line.entry, speaker=line.speaker, sources=line.turns)
                for line in reply.edits
            ],
            chunk.time,
        )
        kept = ' '.join(entry.text for entry in bank)
        assert all(' '.join(entry.text.split()) in kept for entry in view)


class Shelf:
    "A store that finds nothing."

    def put(self, entries):
        pass

    def remove(self, entry_id):
        pass

    def search(self, query, k=10):
        return []
