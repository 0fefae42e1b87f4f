"""A session becomes a recollection: whatever a model replies, what can be kept is kept, and each fault has its note."""
import json
from collections import Counter
from dataclasses import replace
from datetime import date, datetime

import pytest
from hypothesis import given, settings, strategies as st

from memnb.mragent.graph import Episode, SemanticUnit
from memnb.core.conversation import Session, Turn
from memnb.mragent.cues import cues_in
from memnb.mragent.prompts import EpisodesReply, TagsReply
from memnb.core.models import ScriptedLM
from memnb.mragent.prompts import recollect, Recollection
from memnb.core.models import RecordedLM
from memnb.core.roles import Call, LM, LMError, ReplyError, RuleLM, ServerError, Usage
from memnb.core.time import TimeSpan

SAID = datetime(2024, 10, 20, 16, 44)  # a Sunday
LATE = datetime(2024, 10, 21, 0, 5)
SESSION = Session('S', (Turn('S:1', 'Tobin', 'I ran with Odalys.'), Turn('S:2', 'Zofia', 'I saw you.', caption='a lantern'),
                        Turn('S:3', 'Tobin', 'Good night.', LATE), Turn('S:4', 'Zofia', 'Wow!')), SAID)
IDS = ('S:1', 'S:2', 'S:3', 'S:4')
SPEAKERS = {'S:1': 'Tobin', 'S:2': 'Zofia', 'S:3': 'Tobin', 'S:4': 'Zofia'}
EPISODE = {'title': 'Tobin runs', 'text': 'Tobin ran.', 'turns': ['S:1']}
TAG = {'episode': 'S/e1', 'tag': 'Race', 'cues': ['Tobin']}
UNIT = {'person': 'Tobin', 'aspect': 'sport', 'fact': 'Tobin runs.', 'slot': '', 'since': None, 'turns': ['S:1']}


def script(episodes=(), tags=(), units=()):
    return ScriptedLM({'segment': [{'episodes': list(episodes)}], 'tag': [{'tags': list(tags)}], 'units': [{'units': list(units)}]})


def told(episodes=(EPISODE,), tags=(TAG,), units=(UNIT,), session=SESSION):
    "The recollection of a reply."
    return recollect(session, script(episodes, tags, units))[0]


def first_words(notes):
    return [note.split(':')[0] for note in notes]


# any reply

CITED = (('S:1', ['S:1'], 0), ('(S:2)', ['S:2'], 0), ('S:4, S:3', ['S:4', 'S:3'], 0), ('[S:3];S:1.', ['S:3', 'S:1'], 0), ('S:99', [], 1),
         ('S:2; T:1', ['S:2'], 1), ('', [], 0), ('S', [], 1))  # a text, the turns that it means, and how many it means that are none
cited = st.lists(st.sampled_from(CITED), max_size=3)
some = st.sampled_from
episodes = st.lists(st.tuples(some(['', ' ', 'A  title', 'Tobin runs\nthe Lantern Half']), some(['', ' \n', 'Tobin  ran.', 'Nell ran yesterday.']), cited), max_size=4)
TAGGED = ('S/e1', '(S/e2)', ' S/e3 ', '[S/e4]', 'S/e9', 'e1', '')
tags = st.lists(st.tuples(some(TAGGED), some(['Race', ' Night  Run', '', '\n']), st.lists(some(['Tobin', ' half  marathon', '', ' ', 'the']), max_size=3)), max_size=6)
SINCE = (('', None, 0), (None, None, 0), ('None', None, 0), ('n/a', None, 0), ('2018', TimeSpan.year(2018), 0), (' yesterday ', TimeSpan.day(date(2024, 10, 19)), 0),
         ('soon', None, 1))
units = st.lists(st.tuples(some(['Tobin', ' Mrs.  Gale', '', ' ']), some(['job', '']), some(['Tobin  runs.', ' ']), some([('', ''), (' vet', 'vet'), ('NONE', ''), ('-', '')]),
                           some(SINCE), cited), max_size=4)


def sources_of(chosen):
    "The turns that are meant, and how many notes there should be."
    known = list(dict.fromkeys(id for _, ids, _ in chosen for id in ids))
    return tuple(known or IDS), sum(wrong for *_, wrong in chosen) + (not known)


def origin(ids):
    said = LATE if ids[0] == 'S:3' else SAID
    speakers = {SPEAKERS[id] for id in ids}
    return ids, said, speakers.pop() if len(speakers) == 1 else None, 'S'


@settings(max_examples=100)
@given(episodes, tags, units)
def test_what_can_be_kept_is_kept_and_each_fault_is_noted(lines, labels, facts):
    made = told([{'title': title, 'text': text, 'turns': [one[0] for one in turns]} for title, text, turns in lines],
                [{'episode': id, 'tag': tag, 'cues': cues} for id, tag, cues in labels],
                [{'person': person, 'aspect': aspect, 'fact': fact, 'slot': slot[0], 'since': since[0], 'turns': [one[0] for one in turns]}
                 for person, aspect, fact, slot, since, turns in facts])
    noted, wanted = Counter(), []
    for number, (title, text, turns) in enumerate(lines, 1):
        if not text.strip():
            noted[f'episode {number}'] += 1
            continue
        ids, wrong = sources_of(turns)
        noted[f'episode {number}'] += wrong + (not title.strip())
        said = origin(ids)[1]
        day = date(said.year, said.month, said.day - ('yesterday' in text))
        shown = ' '.join(title.split()) or ' '.join(text.split())  # each text is one short sentence, which is its own title
        wanted.append((f'S/e{number}', ' '.join(text.split()), shown, TimeSpan.day(day), len(wanted), *origin(ids)))
    assert [(one.id, one.text, one.title, one.time, one.position, one.sources, one.said, one.speaker, one.session) for one in made.episodes] == wanted

    there, found = [one[0] for one in wanted], {}
    for number, (id, tag, cues) in enumerate(labels if there else (), 1):
        bare = id.strip(' ()[]')
        if bare in there and bare not in found:
            found[bare] = ' '.join(tag.split()), tuple(dict.fromkeys(' '.join(cue.split()) for cue in cues if cue.strip()))
        else:
            noted[f'tag {number}'] += 1
    for one in made.episodes:
        tag, cues = found.get(one.id, ('', ()))
        assert (one.tag, one.cues) == (tag or 'untagged', cues or cues_in(one.title))
        noted[one.id] += not (tag and cues)

    kept = []
    for number, (person, aspect, fact, slot, since, turns) in enumerate(facts, 1):
        if not (person.strip() and aspect and fact.strip()):
            noted[f'unit {number}'] += 1
            continue
        ids, wrong = sources_of(turns)
        noted[f'unit {number}'] += wrong + since[2]
        time = TimeSpan.day(date(2024, 10, 20)) if since[0] == ' yesterday ' and ids[0] == 'S:3' else since[1]
        kept.append((f'S/u{number}', 'Tobin runs.', ' '.join(person.split()), 'job', slot[1], time, None, *origin(ids)))
    assert [(one.id, one.text, one.person, one.aspect, one.slot, one.time, one.position, one.sources, one.said, one.speaker, one.session)
            for one in made.units] == kept
    assert Counter(first_words(made.notes)) == +noted
    assert Recollection.from_json(made.to_json()) == made


@pytest.mark.parametrize('where, change, words', [
    ('episodes', {'turns': ['S:1', 'S:9']}, ["episode 1: cites 'S:9', which is no turn of S: Tobin ran."]),
    ('episodes', {'turns': []}, ['episode 1: cites no turn, so it is charged to all 4: Tobin ran.']),
    ('episodes', {'title': ''}, ['episode 1: has no title: Tobin ran.']),
    ('episodes', {'text': '\t', 'turns': ['S:2', 'S:3']}, ['episode 1: has no text, and cites S:2, S:3']),
    ('episodes', {'text': '', 'turns': []}, ['episode 1: has no text, and cites nothing']),
    ('tags', {'tag': ' '}, ['S/e1: got no tag: Tobin runs']),
    ('tags', {'cues': []}, ['S/e1: got no cues: Tobin runs']),
    ('tags', {'episode': 'S/e7'}, ["tag 1: 'S/e7' is no episode: Race", 'S/e1: got no tag and no cues: Tobin runs']),
    ('units', {'person': '\n'}, ['unit 1: a part is empty: (, sport) Tobin runs.']),
    ('units', {'fact': ''}, ['unit 1: a part is empty: (Tobin, sport) ']),
    ('units', {'since': 'for ever'}, ["unit 1: since 'for ever' is no time: Tobin runs."])])
def test_a_note_says_which_line_and_what_came(where, change, words):
    lines = {'episodes': [EPISODE], 'tags': [TAG], 'units': [UNIT]}
    assert told().notes == ()
    notes = told(**{**lines, where: [lines[where][0] | change]}).notes
    assert list(notes) == words if change.get('text') is None or change['text'] else notes[0] == words[0]


def test_the_first_of_two_tags_counts_and_the_second_is_noted():
    made = told(tags=[TAG, TAG | {'tag': 'Night  Run', 'cues': ['night']}, TAG | {'episode': '(S/e1)'}])
    assert (made.episodes[0].tag, made.episodes[0].cues) == ('Race', ('Tobin',))
    assert list(made.notes) == ["tag 2: 'S/e1' has a tag already: Night Run", "tag 3: '(S/e1)' has a tag already: Race"]


def test_an_episode_with_cues_and_no_tag_keeps_them():
    made = told(tags=[TAG | {'tag': '', 'cues': ['lantern', 'canal']}])
    assert (made.episodes[0].tag, made.episodes[0].cues) == ('untagged', ('lantern', 'canal'))


def test_a_turn_has_its_own_day_and_a_cue_is_named_once():
    made = told([EPISODE | {'turns': ['S:3'], 'text': 'Zofia came today.'}], [TAG | {'cues': ['Tobin', 'lantern ', 'Tobin', ' ']}],
                [UNIT | {'since': 'yesterday', 'turns': ['S:3']}, UNIT | {'since': 'yesterday', 'turns': ['S:1', 'S:3']}])
    assert [one.time for one in (*made.episodes, *made.units)] == [TimeSpan.day(date(2024, 10, day)) for day in (21, 20, 19)]
    assert made.episodes[0].cues == ('Tobin', 'lantern') and made.notes == ()


def test_the_words_of_a_title_are_no_stop_words():
    made = told([EPISODE | {'title': 'Tobin and Odalys ran to the lock of the canal!'}], [])
    assert set(made.episodes[0].cues) == {'Tobin', 'Odalys', 'run', 'lock', 'canal'}


def test_a_long_text_without_title_is_called_by_one_of_its_sentences():
    text = 'It rained. Tobin ran the Lantern Half beside the canal with Odalys in the rain. Wow.'
    made = told([EPISODE | {'title': '', 'text': text}])
    assert made.episodes[0].title.rstrip(' …') in text and 'Lantern' in made.episodes[0].title


def test_an_unknown_person_and_a_line_that_comes_twice_are_kept():
    "Whether a line is true to its turns is not for the border to say, and whoever forgets the session forgets both."
    made = told([EPISODE] * 2, [TAG, TAG | {'episode': 'S/e2'}], [UNIT | {'person': 'Gerald'}, UNIT, UNIT])
    assert [one.id for one in made.episodes] == ['S/e1', 'S/e2'] and [one.id for one in made.units] == ['S/u1', 'S/u2', 'S/u3']
    assert made.units[0].person == 'Gerald' and made.units[0].speaker == 'Tobin' and made.notes == ()


@pytest.mark.parametrize('id', ['S', '(1)', '[a]', 'D 1', ' x ', 'a, b', 'é', '', 'S/e1'])
def test_ids_may_look_like_anything(id):
    "Neither a session nor a turn is lost because its id has brackets, commas or blanks."
    turns = (f'{id}:1', f'({id})', f'{id}, 3')
    session = Session(id, tuple(Turn(one, 'Tobin', 'I ran.') for one in turns), SAID)
    made = told([EPISODE | {'turns': [one]} for one in turns], [TAG | {'episode': f'{id}/e{number}'} for number in (1, 2, 3)],
                [UNIT | {'turns': [turns[1]]}], session=session)
    assert made.notes == () and [one.sources for one in made.episodes] == [(one,) for one in turns]
    assert [one.tag for one in made.episodes] == ['Race'] * 3 and made.units[0].sources == (turns[1],) and made.units[0].session == id
    assert recollect(session)[0].notes == () and all(one.tag != 'untagged' for one in recollect(session)[0].episodes)


def test_a_session_without_a_date_has_no_day_to_reckon_from():
    made = told([EPISODE | {'text': 'Tobin ran yesterday.'}], [TAG], [UNIT | {'since': 'yesterday'}, UNIT | {'since': '13 October 2024'}],
                session=replace(SESSION, time=None))
    assert [one.time for one in (*made.episodes, *made.units)] == [None, None, TimeSpan.day(date(2024, 10, 13))]
    assert made.episodes[0].said is None and first_words(made.notes) == ['unit 1']


@given(some([1, 2]), st.integers(0, 3))
def test_positions_count_the_episodes_that_are_left(step, dropped):
    lines = [EPISODE | ({'text': ''} if number % (step + 1) == 0 and number < dropped else {}) for number in range(5)]
    made = told(lines, [])
    assert [one.position for one in made.episodes] == list(range(len(made.episodes)))
    assert [one.id for one in made.episodes] == [f'S/e{number}' for number, line in enumerate(lines, 1) if line['text']]


# who is asked, and what it costs

def test_what_a_model_is_asked():
    lm = script([EPISODE | {'text': 'Tobin  ran.'}, EPISODE | {'text': ''}], [TAG], [UNIT])
    recollect(SESSION, lm, ['Tobin', 'Zofia', 'Nell'])
    assert [role for role, _, _ in lm.prompts] == ['segment', 'tag', 'units']
    for role, _, user in lm.prompts:
        assert 'Speakers: Tobin, Zofia, Nell' in user
        if role != 'tag':
            assert '(S:2) Zofia: I saw you. [shares a lantern]' in user and '(S:3) [21 October 2024, 12:05 am] Tobin' in user
    assert lm.prompts[1][2].splitlines()[-1] == '- (S/e1) [20 October 2024, 4:44 pm] Tobin ran.'


def test_nobody_is_asked_for_the_tags_of_nothing_nor_of_an_empty_session():
    lm = script([EPISODE | {'text': ' '}], [], [UNIT])
    made, cost = recollect(SESSION, lm)
    assert [role for role, _, _ in lm.prompts] == ['segment', 'units'] == list(cost) and len(made.units) == 1 and made.episodes == ()
    assert recollect(Session('E', ()), ScriptedLM([])) == (Recollection(), {})


def test_the_cost_of_each_role_is_that_of_its_calls():
    lm = script([EPISODE], [TAG], [UNIT])
    _, cost = recollect(SESSION, lm)
    assert cost == {call.role: call.usage for call in lm.calls} and all(usage.tokens for usage in cost.values())
    assert recollect(SESSION)[1] == {'segment': Usage(), 'tag': Usage(), 'units': Usage()}


REPLIES = {'segment': {'episodes': [EPISODE]}, 'tag': {'tags': [TAG]}, 'units': {'units': [UNIT]}}


@pytest.mark.parametrize('raw', ['', 'No.', '{}', '{"episodes": 3, "tags": "none", "units": {}}', '{"episodes": [{}], "tags": [{}], "units": [{}]}', '[]'])
@pytest.mark.parametrize('role', REPLIES)
def test_a_reply_that_is_none_is_asked_for_again_and_then_an_error_with_its_price(role, raw):
    once = {name: [reply] if name != role else [raw, reply] for name, reply in REPLIES.items()}
    made, cost = recollect(SESSION, ScriptedLM(once))
    assert made == told() and {name: usage.calls for name, usage in cost.items()} == {name: 1 + (name == role) for name in REPLIES}
    lm = ScriptedLM({**once, role: [raw, raw]})
    with pytest.raises(ReplyError) as caught:
        recollect(SESSION, lm)
    assert caught.value.role == role and caught.value.usage.calls == len(lm.prompts) == 2 + list(REPLIES).index(role)


def test_a_server_that_fails_takes_the_cost_with_it():
    class Failing(LM):
        def call(self, role, /, **inputs):
            if role.name == 'units':
                raise ServerError('gone', Usage(1, 7, 0))
            return Call(role.name, {'segment': EpisodesReply, 'tag': TagsReply}[role.name].model_validate(REPLIES[role.name]), Usage(1, 10, 3))

    with pytest.raises(ServerError) as caught:
        recollect(SESSION, Failing())
    assert caught.value.usage == Usage(3, 27, 6)


def test_recorded_once(tmp_path):
    lm = RecordedLM(script([EPISODE], [TAG], [UNIT]), tmp_path / 'record.sqlite')
    assert recollect(SESSION, lm) == recollect(SESSION, lm)


def test_names_are_no_text():
    with pytest.raises(TypeError, match="speakers: expected a sequence of names, got the text 'Tobin'"):
        recollect(SESSION, RuleLM(), 'Tobin')
    with pytest.raises(LMError):
        recollect(SESSION, ScriptedLM([]))


def test_half_a_letter_is_mended():
    turns = (Turn('1', 'Tobin', 'Nell \ud83d swam in the harbour with Odalys.', caption='a boat \udc00 on a wave'), Turn('2', 'Zofia', 'I have got a dog \ud83d.'))
    made, _ = recollect(Session('D', turns, SAID))
    ''.join(text for one in made.episodes for text in (one.text, one.title, *one.cues)).encode()
    ''.join(one.text for one in made.units).encode()
    assert len(made.episodes) == 2 and Recollection.from_json(made.to_json()) == made


# the file

MOMENTS = st.datetimes(datetime(1990, 1, 1), datetime(2030, 1, 1)).map(lambda moment: moment.replace(microsecond=0))
DAYS = st.dates(date(1900, 1, 1), date(2100, 1, 1))
SPANS = st.none() | st.builds(TimeSpan.of, some(['day', 'week', 'month', 'season', 'year', 'decade']), DAYS) | st.builds(
    lambda day, left: TimeSpan(None, day) if left else TimeSpan(day, None), DAYS, st.booleans())
WORDS = st.text(max_size=8)
COMMON = {'sources': st.lists(WORDS, max_size=3), 'time': SPANS, 'speaker': st.none() | WORDS, 'said': st.none() | MOMENTS, 'session': st.none() | WORDS,
          'position': st.none() | st.integers(0, 99)}
CONTENTS = (st.lists(st.builds(Episode, WORDS, WORDS, title=WORDS, tag=WORDS, cues=st.lists(WORDS, max_size=3), **COMMON), max_size=2),
            st.lists(st.builds(SemanticUnit, WORDS, WORDS, person=WORDS, aspect=WORDS, slot=WORDS, **COMMON), max_size=2))


@settings(max_examples=60)
@given(st.builds(Recollection, *(kind.map(tuple) for kind in CONTENTS), st.lists(WORDS, max_size=2).map(tuple)))
def test_json_and_back(made):
    text = made.to_json()
    assert Recollection.from_json(text) == made and Recollection.from_json(text).to_json() == text and text.isascii()


@pytest.mark.parametrize('text', ['', '[]', '{}', '1', 'null', '[' * 100_000, '{"episodes": [], "units": []}', '{"episodes": 1, "units": [], "notes": []}'])
def test_other_json_is_refused(text):
    with pytest.raises(ValueError, match='recollection: expected what to_json writes'):
        Recollection.from_json(text)


@pytest.mark.parametrize('kind, change', [
    ('episodes', {'cues': 'Tobin'}), ('episodes', {'cues': [3]}), ('episodes', {'title': None}), ('episodes', {'sources': 'S:1'}), ('episodes', {'sources': [3]}),
    ('episodes', {'time': 'soon'}), ('episodes', {'said': 'soon'}), ('episodes', {'person': 'Tobin'}), ('episodes', {'id': 3}),
    ('units', {'person': 3}), ('units', {'tag': 'Race'}), ('units', {'time': 5}), ('units', {'text': None}), ('notes', 'abc'), ('notes', [1])])
def test_a_damaged_recollection_is_refused(kind, change):
    record = json.loads(told().to_json())
    record[kind] = change if kind == 'notes' else [record[kind][0] | change]
    with pytest.raises(ValueError, match='recollection: expected what to_json writes'):
        Recollection.from_json(json.dumps(record))
