"""Guidance loses no name or number; edits that are made by it lose no fact and no entry, whatever it says."""
import json
import re
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memnb.memma.prompts import BEFORE
from memnb.core.conversation import Session, Turn
from memnb.evaluation.datasets import load_sample
from memnb.memma.bank import Edit, Entry
from memnb.core.text import content_words
from memnb.memma.prompts import (
    chunk_fields, EditLine, EditsReply, FocusPoint, GuidanceReply, GUIDE, StatedFact, WRITE)
from memnb.rules.memma import guide_rule, one_of, write_rule
from memnb.core.models import ScriptedLM
from memnb.core.roles import ReplyError, RuleLM
from memnb.memma.bank import MemoryBank

PEOPLE = ('Ines', 'Rolf')
DAY = datetime(2024, 4, 15, 18)
REPLACED = set('i me my mine myself you your yours yourself we us our do does have has are is am was were had did'.split())
WORDS = '''I you my me we your mine myself Ines Rolf Crumb Pascal Nell Saw Will May Mine Mark Rose Made Had Was Are Do Can went saw met had have am are do
can will run love 7 19 1904 48,000 2:11 3.5 118 5th $40 Line Opus War I. Dr. Mrs. St. Oslo and or but with in on at the a yesterday last Friday next
week two years ago today this morning Sunday May June 2023 summer because that where "The Heron's Polka" 'See the city' don't I'm you're I've we'll who
? ! . , ; : — ... ( ) [ { }'''.split(' ')
talk = st.lists(st.sampled_from(WORDS), min_size=1, max_size=14).map(' '.join) | st.text(st.characters(codec='utf-8'), max_size=40)
captions = st.none() | st.sampled_from(['a photo of Crumb with 3 jars', 'a photo of a yellow jumper'])


@st.composite
def chunks(draw, least=0):
    said = draw(st.lists(st.tuples(st.sampled_from(PEOPLE), talk, captions), min_size=least, max_size=4))
    return Session('D1', tuple(Turn(f'D1:{number}', who, text, None, caption) for number, (who, text, caption) in enumerate(said, 1)),
                   draw(st.sampled_from([None, DAY])))


ids = st.sampled_from(['m1', 'm2', 'm3', 'm99', '', None])
short = st.sampled_from(['Ines lives in Oslo.', 'Rolf has a hive.', '{braces}', 'Ines swam on 7 May 2023.']) | st.text(st.characters(codec='utf-8'), min_size=1, max_size=12)
facts = st.builds(StatedFact, text=short, speaker=st.sampled_from(PEOPLE), turns=st.lists(st.sampled_from(['D1:1', 'D1:2', 'D7:7']), max_size=2))
points = st.builds(FocusPoint, kind=st.sampled_from(['importance', 'redundancy', 'conflict']), fact=st.integers(-1, 5), entry=ids, note=st.text(max_size=5))
advice = st.builds(GuidanceReply, facts=st.lists(facts, max_size=4), points=st.lists(points, max_size=8))
VIEW = [Entry('m1', 'Ines lives in Bergen.', ('D0:1',), None, 'Ines', DAY - timedelta(days=9)),
        Entry('m2', 'Rolf plays the viola.', ('D0:2',), None, 'Rolf', DAY - timedelta(days=9)), Entry('m3', 'It rained.')]
CHUNK = Session('D1', (Turn('D1:1', 'Ines', 'I moved to Oslo on Saturday.'), Turn('D1:2', 'Rolf', 'I play the cello now.')), DAY)


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
        assert (point.entry is None) == (point.kind == 'importance') and point.entry in {None, 'm1', 'm2', 'm3'}
    kinds = [(point.fact, point.kind) for point in reply.points]
    assert len(set(kinds)) == len(kinds)
    assert not {fact for fact, kind in kinds if kind == 'redundancy'} & {fact for fact, kind in kinds if kind != 'redundancy'}


def test_all_of_the_bundled_conversation_is_kept():
    sample = load_sample()
    for session in sample.sessions:
        told = guide_rule(session, (), sample.speakers).facts
        for turn in session.turns:
            words = ' '.join(fact.text for fact in told if turn.id in fact.turns).lower()
            assert words and all(word in words for word in kept_words(turn.content))


def about(entry, said, speaker='Ines', days=60):
    "The kinds of points, importance left out, where an entry of long ago meets something said now."
    chunk = Session('D2', (Turn('D2:1', speaker, said),), DAY)
    reply = guide_rule(chunk, [Entry('m7', entry, ('D1:1',), None, 'Ines', DAY - timedelta(days=days))], PEOPLE)
    return [point.kind for point in reply.points if point.kind != 'importance']


@pytest.mark.parametrize('entry, said', [
    ('Ines plays the violin.', 'I play the clarinet.'), ('Ines has a greyhound, Pascal.', 'I brought home a greyhound, Juno.'),
    ('Ines grows Lemon Drops.', 'I grow Fish Peppers.'), ('Ines read The Summer Book.', 'I read Moby-Dick.'),
    ('Rolf lives in Oslo.', 'I live in Bergen.'), ('Ines lives in Oslo.', 'I lived in Leeds as a boy.'), ('Ines lives in Oslo.', 'Rolf lives in Leeds.')])
def test_what_can_be_so_beside_it_is_no_conflict(entry, said):
    assert about(entry, said) == []


@pytest.mark.parametrize('entry, said', [
    ('Ines lives in Oslo.', 'I moved to Bergen.'), ('Ines works for Dunstan & Pell.', 'I opened my own workshop.'), ('Ines is thirty-eight.', 'I turned thirty-nine.'),
    ('Dr. Amsel, our vet, has patience.', 'Dr. Quill is our new vet.')])
def test_one_has_only_one_of_some_things(entry, said):
    assert about(entry, said) == ['conflict']


@pytest.mark.parametrize('said, kinds', [('I have a hive.', ['redundancy']), ('I swam to the pier.', []), ('I have no hive.', [])])
def test_another_date_is_another_event(said, kinds):
    assert about('Ines has a hive. Ines swam to the pier.', said) == kinds
    assert about('Ines has a hive. Ines swam to the pier.', said, days=0) == ([] if 'no' in said else ['redundancy'])


def test_importance_names_what_no_entry_has():
    chunk = Session('D2', (Turn('D2:1', 'Ines', 'We met Agnes in Oslo at 7:30.'),), DAY)
    first, = guide_rule(chunk, (), PEOPLE).points
    assert (first.kind, first.note) == ('importance', 'keep Agnes, Oslo, 7:30')
    second, = guide_rule(chunk, [Entry('m1', 'Rolf is in Oslo.')], PEOPLE).points
    assert second.note == 'keep Agnes, 7:30'


def test_a_picture_is_a_fact():
    chunk = Session('D2', (Turn('D2:1', 'Ines', 'Look!', None, 'a photo of a greyhound in a yellow jumper'),), DAY)
    assert [fact.text for fact in guide_rule(chunk, (), PEOPLE).facts] == ['Ines shares a photo of a greyhound in a yellow jumper.']


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
    texts, updated = {entry.id: entry.text for entry in VIEW}, [line for line in write_rule(CHUNK, VIEW, guidance).edits if line.action == 'UPDATE']
    assert all(line.text.endswith(f'{BEFORE}{texts[line.entry]})') for line in updated)
    assert len({line.entry for line in updated}) == len(updated)
    wanted = {point.entry for point in guidance.points if point.kind == 'conflict' and 1 <= point.fact <= len(guidance.facts)} & texts.keys()
    assert {line.entry for line in updated} <= wanted and (bool(wanted) <= bool(updated) or len(guidance.points) > 1)


@given(advice)
def test_one_edit_for_a_chunk_has_everything_that_the_edits_for_each_fact_have(guidance):
    each, (whole,) = write_rule(CHUNK, VIEW, guidance).edits, write_rule(CHUNK, VIEW, guidance, per='chunk').edits
    writing = [line for line in each if line.text]
    if len(writing) > 1:
        assert whole.action == 'ADD' and whole.entry is None
        assert whole.text == '\n'.join(line.text.partition(BEFORE)[0] if line.action == 'UPDATE' else line.text for line in writing)
        assert set(whole.turns) == {turn for line in writing for turn in line.turns} and len(set(whole.turns)) == len(whole.turns)
        assert whole.speaker == (writing[0].speaker if len({line.speaker for line in writing}) == 1 else None)
    else:
        assert whole == writing[0] if writing else whole.action == 'NONE'


@given(chunks(), st.sampled_from(['fact', 'chunk']))
def test_without_guidance_each_turn_with_content_is_added_as_it_was_said(chunk, per):
    lines, said = write_rule(chunk, VIEW, None, PEOPLE, per).edits, [turn for turn in chunk.turns if content_words(turn.content)]
    if per == 'fact':
        assert [(line.action, line.text, line.speaker, line.turns) for line in lines] == [('ADD', turn.content, turn.speaker, [turn.id]) for turn in said]
    else:
        assert len(lines) == 1 and lines[0].turns == [turn.id for turn in said]
        assert lines[0].text == '\n'.join(f'{turn.speaker}: {turn.content}' for turn in said)


@given(chunks(least=1))
def test_a_bank_takes_every_edit_of_the_rules_and_loses_no_entry_text(chunk):
    bank = MemoryBank(backend=Shelf)
    for _ in range(2):
        view = list(bank)
        reply = write_rule(chunk, view, guide_rule(chunk, view, PEOPLE), PEOPLE)
        bank.apply([Edit(line.action, ' '.join(line.text.split()), line.entry, speaker=line.speaker, sources=line.turns) for line in reply.edits], chunk.time)
        kept = ' '.join(entry.text for entry in bank)
        assert all(' '.join(entry.text.split()) in kept for entry in view)


class Shelf:
    "A store that finds nothing."
    def put(self, entry_id, text, time, sources):
        pass

    def remove(self, entry_id):
        pass

    def search(self, query, k=10):
        return []


def test_of_no_edits_one_is_none():
    assert [line.action for line in one_of([])] == ['NONE']
    none = EditLine(action='NONE', entry='m1', reason='known')
    assert one_of([none, EditLine(action='NONE')]) == [none]
    assert one_of([none, EditLine(action='ADD', text='x')])[0].text == 'x'


# --- prompts ---

@pytest.mark.parametrize('role, reply', [(GUIDE, GuidanceReply), (WRITE, EditsReply)])
def test_the_example_in_a_prompt_is_a_reply_of_the_role(role, reply):
    system, _ = role.render({'chunk': CHUNK, 'view': VIEW, 'speakers': PEOPLE})
    shown = reply.model_validate(json.loads(system[system.index('{"'):], strict=True))
    assert shown.facts if reply is GuidanceReply else shown.edits
    assert '{{' not in system and '}}}' not in system.replace('"}]}', '')


@pytest.mark.parametrize('role, duties', [
    (GUIDE, '''every distinct|atomic|makes sense alone|who, what, when, where or how many|exact words|names, objects, titles, dates, places and quantities|shared picture|
     importance|redundancy|conflict|Another date is another event|no feeling, theme or meaning|date in brackets|speaker: who says it|where in doubt, take it'''),
    (WRITE, '''one edit for each fact|ADD|UPDATE|DELETE|NONE|greeting|makes sense alone|exact names, objects, places, numbers and dates|date in brackets|whole entry|
     id of an entry that is shown|who said it|another date|no feeling, theme or meaning|violin''')])
def test_a_prompt_has_the_duties_of_the_paper(role, duties):
    system, _ = role.render({'chunk': CHUNK, 'view': VIEW, 'speakers': PEOPLE})
    assert not [duty.strip() for duty in duties.split('|') if duty.strip() not in system]


def test_a_prompt_shows_the_messages_the_entries_the_facts_and_the_points():
    guidance = guide_rule(CHUNK, VIEW, PEOPLE)
    for role, more in ((GUIDE, {}), (WRITE, {'guidance': guidance})):
        _, user = role.render({'chunk': CHUNK, 'view': VIEW, 'speakers': PEOPLE, **more})
        for shown in ('15 April 2024', 'Ines, Rolf', '(D1:1) Ines: I moved to Oslo on Saturday.', '(D1:2) Rolf: I play the cello now.', 'm1 [6 April 2024] Ines: Ines lives in Bergen.',
                      'm3 It rained.'):
            assert shown in user
    assert '1. (D1:1, Ines) Ines moved to Oslo on Saturday (13 April 2024).' in user and 'fact 1: conflict with m1: Ines has only one residence' in user
    assert 'None' in WRITE.render({'chunk': CHUNK})[1]


def test_the_prompt_says_how_many_edits():
    assert 'one edit for each fact' in WRITE.render({'chunk': CHUNK})[0].split('.')[1]
    assert 'exactly one edit for all of them together' in WRITE.render({'chunk': CHUNK, 'per': 'chunk'})[0].split('.')[1]


@given(chunks(), advice)
def test_any_text_can_be_shown_in_a_prompt(chunk, guidance):
    for role, more in ((GUIDE, {}), (WRITE, {'guidance': guidance})):
        _, user = role.render({'chunk': chunk, 'view': VIEW, 'speakers': PEOPLE, **more})
        assert all(f'({turn.id}) {turn.speaker}: {turn.content}' in user for turn in chunk.turns)
    shown = ' '.join(user.split())
    assert all(' '.join(fact.text.split()) in shown for fact in guidance.facts)
    assert chunk_fields(chunk, VIEW, extra=1)['extra'] == 1


# --- models ---

def test_a_model_may_wrap_its_reply_and_is_shown_its_error_once():
    reply = {'facts': [{'text': 'Ines swam.', 'speaker': 'Ines', 'turns': ['D1:1']}], 'points': [{'kind': 'conflict', 'fact': 1, 'entry': 'm99', 'note': 'x'}]}
    lm = ScriptedLM([json.dumps(reply).replace('swam', 'swam \\ud83d'), f'Here it is:\n```json\n{json.dumps(reply)}\n```'])
    told = lm.ask(GUIDE, chunk=CHUNK, view=VIEW)
    assert told.facts[0].text == 'Ines swam.' and told.points[0].entry == 'm99' and lm.calls[0].attempts == 2
    assert [line.action for line in RuleLM().ask(WRITE, chunk=CHUNK, view=VIEW, guidance=told).edits] == ['ADD']


def test_half_a_character_is_mended():
    assert StatedFact(text='Ines \ud83d.', speaker='I').text == 'Ines \ufffd.' and EditLine(action='ADD', text='\ud83d').text == '\ufffd'


@pytest.mark.parametrize('role, reply', [
    (GUIDE, {'facts': 'none'}), (GUIDE, {'points': []}), (GUIDE, {'facts': [], 'points': [{'kind': 'mood', 'fact': 1}]}), (GUIDE, 'no facts here'),
    (WRITE, {'edits': [{'action': 'MERGE', 'text': 'x'}]}), (WRITE, {'action': 'ADD', 'text': 'x'}), (WRITE, '[]')])
def test_what_is_no_reply_is_an_error_after_a_second_try(role, reply):
    lm = ScriptedLM([reply, reply])
    with pytest.raises(ReplyError):
        lm.ask(role, chunk=CHUNK, view=VIEW)
    assert len(lm.prompts) == 2


def test_a_huge_list_is_obeyed_and_stays_in_order():
    told = GuidanceReply(facts=[StatedFact(text=f'fact {number}', speaker='Ines') for number in range(5000)],
                         points=[FocusPoint(kind='conflict', fact=number, entry='m1') for number in range(5001)])
    lines = write_rule(CHUNK, VIEW, told).edits
    assert [line.text.split(BEFORE)[0] for line in lines] == [f'fact {number}' for number in range(5000)]
    assert [line.action for line in lines].count('UPDATE') == 1


def test_a_conflict_counts_for_more_than_a_redundancy_because_it_writes():
    told = GuidanceReply(facts=[StatedFact(text='Ines moved to Oslo.', speaker='Ines')],
                         points=[FocusPoint(kind='conflict', fact=1, entry='m1'), FocusPoint(kind='redundancy', fact=1, entry='m2')])
    assert [(line.action, line.entry) for line in write_rule(CHUNK, VIEW, told).edits] == [('UPDATE', 'm1')]


def test_the_first_entry_of_the_view_is_the_one_in_conflict_and_there_is_one():
    view = [*VIEW, Entry('m8', 'Ines lives in Leeds. Ines works for Dunstan & Pell.', (), None, 'Ines')]
    chunk = Session('D2', (Turn('D2:1', 'Ines', 'I moved to Oslo and I work for Thorley Loft.'),), DAY)
    assert [point.entry for point in guide_rule(chunk, view, PEOPLE).points if point.kind == 'conflict'] in (['m1'], ['m8'])
    only = Session('D2', (Turn('D2:1', 'Ines', 'I moved to Oslo.'),), DAY)
    assert [point.entry for point in guide_rule(only, view, PEOPLE).points if point.kind == 'conflict'] == ['m1']
