"""Aspects, remarks, slots, semantic units and topics: laws on any text, and what a table says by hand."""
import re
import time
from collections import Counter
from datetime import date, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from memnb.mragent.prompts import ASPECTS
from memnb.rules.mragent import (
    ASKED, aspects_near, directions, LEAST, MARGIN, nearest, nearness, SAID, said_in)
from memnb.mragent.graph import Episode
from memnb.core.conversation import Session, Turn
from memnb.evaluation.datasets import load_sample
from memnb.core.extraction import read_time
from memnb.core.text import STOP_WORDS, tokenize
from memnb.core.text import sentences
from memnb.mragent.prompts import recollect
from memnb.rules.mragent import Remark, remarks, sort_of, third_names
from memnb.core.roles import RuleLM
from memnb.mragent.prompts import TOPICS, UNITS, UnitsReply
from memnb.rules.mragent import FEW, MORE, topics_rule, units_rule
from memnb.rules.mragent import meetings, since, SLOTS, slots_of

PEOPLE = ('Tobin', 'Zofia')
DAY = date(2024, 5, 15)
SAMPLE = load_sample()
PIECES = ('I', 'you', 'She', "He's", 'my sister Nell', 'Dr. Amsel', 'moved to Karrow', 'works at Halloran', 'read a book', 'has a dog', 'is four',
          'always swims', 'want to go', 'last Friday', 'since 2018', 'on Line 4', 'our vet', 'and', 'but', ',', '.', '?', '!', 'Thursday at the Kettle',
          'Tobin', 'Zofia', 'and others', "'s", 'really', '⟦1⟧', '⟦9⟧', 'the flat above the shop', 'My last day at Dunstan', 'thirty-four', '…', 'ß', '\n')
WORDS = st.lists(st.sampled_from(PIECES), max_size=14).map(' '.join)
TEXTS = st.one_of(WORDS, WORDS, st.text(max_size=60))


@st.composite
def sessions(draw, names=PEOPLE):
    texts = draw(st.lists(st.tuples(st.sampled_from(names), TEXTS, st.one_of(st.none(), WORDS)), max_size=5))
    moment = draw(st.one_of(st.none(), st.just(datetime(2024, 5, 15, 9))))
    return Session('D1', tuple(Turn(f'D1:{n}', who, text, None, caption) for n, (who, text, caption) in enumerate(texts, 1)), moment)


def session_of(*texts, time=datetime(2024, 5, 15, 9)):
    return Session('D1', tuple(Turn(f'D1:{n}', who, text) for n, (who, text) in enumerate(texts, 1)), time)


def asks(sentence):
    return sentence.rstrip('"\')')[-1:] == '?'


# Aspects

def slow_nearness(text, question):
    "One field after the other, from the definition."
    x, q = directions([text])[0], directions([question])[0]
    both = x + ASKED * q
    both = both / (np.sqrt(both @ both) or 1)
    row = []
    for words in ASPECTS.values():
        known = set(tokenize(words))
        said = max(bool(known & set(tokenize(text))), ASKED * bool(known & set(tokenize(question))))
        target = np.asarray(directions.__globals__['WordLlamaEmbedder']()([words]), float)[0]
        row.append(both @ target / np.sqrt(target @ target) + SAID * said)
    return np.array(row)


@settings(max_examples=40)
@given(st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=4))
def test_nearness_is_its_definition_for_each_text_alone(pairs):
    texts, asked = zip(*pairs)
    assert np.allclose(nearness(texts, asked), [slow_nearness(*pair) for pair in pairs], atol=1e-6)


def test_what_is_near_without_texts_has_no_rows():
    assert aspects_near([]).shape == nearness([]).shape == nearness([], []).shape == said_in([]).shape == (0, len(ASPECTS))


def test_stop_words_have_no_vote():
    assert not np.abs(directions([' '.join(sorted(STOP_WORDS))])).max() > 0
    assert np.allclose(aspects_near(['she has been reading the novel']), aspects_near(['reading novel']))


@given(st.lists(st.floats(-1, 1), min_size=len(ASPECTS), max_size=len(ASPECTS)), st.floats(-1, 1))
def test_nearest_is_the_best_and_perhaps_the_second(values, least):
    row, names = np.array(values).round(6), list(ASPECTS)
    ranked = sorted(names, key=lambda name: (-row[names.index(name)], names.index(name)))
    wanted = [name for name in ranked[:2] if row[names.index(name)] >= round(least, 6)
              and row[names.index(name)] >= row[names.index(ranked[0])] - MARGIN - 1e-12]
    assert nearest(row, round(least, 6)) == wanted


QUESTIONS = {'What books has she read?': 'books', 'What instruments does he play?': 'music', 'Which pets do they have?': 'pets',
             'Which sports does he do?': 'sport', 'Where does her family live?': 'family', 'What has she painted?': 'art',
             'Which games does he play?': 'games', 'What did they cook for dinner?': 'food', 'Which university did she choose?': 'education'}


@pytest.mark.parametrize('question', QUESTIONS)
def test_a_question_is_nearest_to_its_aspect(question):
    assert list(ASPECTS)[int(aspects_near([question])[0].argmax())] == QUESTIONS[question]


# Remarks

SORTS = {
    'Zofia has a dog.': ('Zofia', 'lasting'), 'Zofia ran ten miles.': ('Zofia', 'event'), 'Zofia painted a tram.': ('Zofia', 'event'),
    "Zofia's dog sleeps.": ('Zofia', 'own'), 'Zofia swims every Sunday.': ('Zofia', 'habit'), 'Zofia bakes on Saturdays.': ('Zofia', 'habit'),
    'Zofia always swims.': ('Zofia', 'habit'), 'Zofia wants to adopt a dog.': ('Zofia', 'plan'), 'Zofia has decided to go.': ('Zofia', 'plan'),
    'Zofia wants the whole story.': ('Zofia', 'fleeting'), 'Zofia is so proud.': ('Zofia', 'fleeting'), 'Zofia is very happy.': ('Zofia', 'fleeting'),
    'Zofia thinks so.': ('Zofia', 'fleeting'), 'Zofia would go.': ('Zofia', 'fleeting'), "Zofia doesn't know.": ('Zofia', 'fleeting'),
    'Zofia can sing.': ('Zofia', 'lasting'), 'Zofia can wait.': ('Zofia', 'fleeting'), 'Zofia has to go.': ('Zofia', 'fleeting'),
    'Zofia is a baker.': ('Zofia', 'lasting'), 'Zofia is late.': ('Zofia', 'fleeting'), 'Zofia and others have a van.': ('Zofia', 'lasting'),
    'Nell teaches Zofia.': ('Nell', 'lasting'), 'It rained, Zofia.': ('Tobin', 'fleeting'), 'Indeed!': ('Tobin', 'fleeting'),
    'The old harbour bridge fell down.': ('Tobin', 'loose')}


@pytest.mark.parametrize('told', SORTS)
def test_whom_a_sentence_is_about_and_how_long_it_holds(told):
    assert sort_of(told, 'Tobin', (*PEOPLE, 'Nell')) == SORTS[told]


@given(sessions())
def test_there_is_a_remark_for_each_statement_and_each_picture(session):
    wanted = Counter({turn.id: sum(not asks(one) for one in sentences(turn.text)) + bool(turn.caption) for turn in session.turns})
    found = list(remarks(session, PEOPLE))
    assert Counter(one.turn.id for one in found) == +wanted
    assert [one.turn.id for one in found] == sorted((one.turn.id for one in found), key=lambda id: int(id[3:]))
    names = (*PEOPLE, *third_names(session, PEOPLE))
    for one in found:
        assert one.person in names and one.sort in (*MORE, 'fleeting')
        if one.sort == 'told':
            assert one.person in PEOPLE and one.person != one.turn.speaker


@given(sessions())
def test_what_a_remark_may_answer_is_asked_in_the_turn_before(session):
    before = dict(zip([turn.id for turn in session.turns[1:]], [turn.text for turn in session.turns]))
    for one in remarks(session, PEOPLE):
        assert one.asked == ' '.join(filter(asks, sentences(before.get(one.turn.id, ''))))


def test_he_and_she_get_the_name_that_is_clear():
    clear = session_of(('Zofia', 'How is the running with Nell going? Is she fast?'), ('Tobin', "She's a swimming teacher."))
    assert [(one.person, one.told) for one in remarks(clear, PEOPLE)] == [('Nell', 'Nell is a swimming teacher.')]
    unclear = session_of(('Zofia', 'I ran with Nell and with Odalys.'), ('Tobin', 'She is a swimming teacher.'))
    assert [one.told for one in remarks(unclear, PEOPLE)][1] == 'She is a swimming teacher.'
    another = session_of(('Zofia', 'My dog Pascal had his checkup with her. She is kind.'))
    last = list(remarks(another, PEOPLE))[1]
    assert (last.told, last.before) == ('She is kind.', "Zofia's dog Pascal had his checkup with her.")
    got = session_of(('Zofia', "This is my dog Pascal. He's got terrible teeth."))
    assert [one.told for one in remarks(got, PEOPLE)][1] == 'Pascal has got terrible teeth.'


def test_others_are_known_by_kin_title_and_company():
    session = session_of(('Tobin', 'My sister Nell called. Dr. Amsel was there, with Odalys. On Monday I met Zofia in Karrow.'))
    assert third_names(session, PEOPLE) == ('Dr. Amsel', 'Nell', 'Odalys')


# Slots

FILLED = {  # said by Zofia
    'I live in Karrow.': [('Zofia', 'residence')], 'I moved to Karrow in 2016.': [('Zofia', 'residence')], 'I moved on.': [],
    'I was moved to tears.': [], 'I live in the moment.': [], 'We moved into a flat.': [('Zofia', 'residence')],
    'I work at Halloran.': [('Zofia', 'employer')], 'I work hard.': [], 'I lost my job at the bakery.': [('Zofia', 'employer')],
    'I opened my own online clothes store.': [('Zofia', 'employer')], 'I opened a tin.': [], 'My last day at Dunstan & Pell is Friday.': [('Zofia', 'employer')],
    'I got a job interview.': [], 'I got a temp job.': [('Zofia', 'employer')], 'I am a nurse.': [('Zofia', 'job')], 'I am a fool.': [],
    'I am thirty-nine and tired.': [('Zofia', 'age')], 'I am 39 years old.': [('Zofia', 'age')], 'I am five minutes late.': [], 'I am four feet tall.': [],
    'I got married in May.': [('Zofia', 'partner')], 'I am a single mom.': [], 'I got engaged!': [('Zofia', 'partner')],
    'My husband Jan cooks.': [('Zofia', 'partner')], 'My husband cooks.': [],
    'I study hard.': [], 'My son goes to Karrow School.': [],
    'I attend Karrow University.': [('Zofia', 'school')], 'Dr. Quill, our vet, is kind.': [('Zofia', 'vet')], "She's his vet from now on.": [('Zofia', 'vet')],
    "I'm on Line 9 now.": [('Zofia', 'line')], "I'm on line with it.": [], 'You live in Karrow.': [('Tobin', 'residence')],
    'The flat above the fish market is dark.': [('Zofia', 'residence')], 'The flat is dark.': []}


@pytest.mark.parametrize('text', FILLED)
def test_slots_by_hand(text):
    found = [(person, slot) for one in remarks(session_of(('Zofia', text)), PEOPLE) for person, _, slot, _ in slots_of(one, PEOPLE)]
    assert found == FILLED[text]


@settings(max_examples=60)
@given(sessions())
def test_a_remark_fills_each_slot_once_with_one_who_has_a_name(session):
    names, known = (*PEOPLE, *third_names(session, PEOPLE)), {slot for slot, *_ in SLOTS}
    for one in remarks(session, PEOPLE):
        found = list(slots_of(one, names))
        assert len({slot for _, _, slot, _ in found}) == len(found) and not (found and one.sort == 'picture')
        for person, aspect, slot, starts in found:
            assert person in names and aspect in ASPECTS and slot and (slot in known or slot in ('vet', 'boss')) and isinstance(starts, bool)


@given(st.sampled_from(sorted(FILLED)), st.sampled_from(['ann', 'Ann Lee', 'A.B.', 'Ångström', 'x+y', 'Dr. Who']))
def test_which_names_people_have_changes_only_the_names(text, name):
    said = text.replace('You live', f'{name} lives') if text.startswith('You') else text
    people = (name, 'Zofia')
    told = session_of(('Zofia', said))
    found = [(person, slot) for one in remarks(told, people) for person, _, slot, _ in slots_of(one, people)]
    assert found == [(name if person == 'Tobin' else person, slot) for person, slot in FILLED[text]]


MEETINGS = {'Thursday at four at the Blue Kettle as always?': ['the Blue Kettle'], 'See you Thursday at the Lamplighter, Zofia.': ['the Lamplighter'],
            'See you on Thursday.': [], 'Thursday at noon?': [], 'On Thursday I fell.': [], 'Friday at Rosa?': ['Rosa']}


@pytest.mark.parametrize('text', MEETINGS)
def test_where_two_people_meet(text):
    session = session_of(('Tobin', text))
    assert [fact.split(' at ')[1].rstrip('.') for _, fact in meetings(session, PEOPLE)] == MEETINGS[text]
    assert not list(meetings(session, (*PEOPLE, 'Nell')))


BEGINNINGS = {('Tobin has been there since 2018.', False): '2018', ('Tobin moved in last Friday.', True): '10 May 2024',
              ('Tobin joined a choir four years ago and sang last Friday.', False): '2020', ('Tobin took three out on Thursday.', False): None,
              ('Tobin is fine.', True): None, ('Tobin worked there from 2010 to 2015.', False): None}


@pytest.mark.parametrize('told, starts', BEGINNINGS)
def test_since_when(told, starts):
    remark = Remark(Turn('D1:1', 'Tobin', told), 'Tobin', 'lasting', told, '', DAY)
    assert since(remark, starts) == BEGINNINGS[told, starts]
    assert since(Remark(remark.turn, 'Tobin', 'lasting', told, '', None), starts) is None


# Units

@settings(max_examples=60)
@given(sessions())
def test_every_unit_rests_on_its_session_and_has_all_its_parts(session):
    reply = units_rule(session, PEOPLE)
    ids, names = [turn.id for turn in session.turns], (*PEOPLE, *third_names(session, PEOPLE))
    for line in reply.units:
        assert len(line.turns) == 1 and line.turns[0] in ids
        assert line.person in names and line.aspect in ASPECTS and line.fact.strip()
        assert line.since is None or read_time(line.since, DAY) is not None
    assert [ids.index(line.turns[0]) for line in reply.units] == sorted(ids.index(line.turns[0]) for line in reply.units)
    assert reply == units_rule(session, PEOPLE) == UnitsReply.model_validate_json(reply.model_dump_json())
    for (turn, person, fact), slots in _by_fact(reply.units).items():
        assert len(slots) <= 2 or any(slots)  # at most two aspects; what fills a slot has no other unit
        assert all(slots) or not any(slots)


def _by_fact(units):
    groups = {}
    for line in units:
        groups.setdefault((line.turns[0], line.person, line.fact), []).append(line.slot)
    return groups


def test_what_is_kept_is_near_enough_by_the_definition():
    for session in SAMPLE.sessions[:5]:
        wanted = Counter()
        for one in remarks(session, PEOPLE):
            if one.sort == 'fleeting' or list(slots_of(one, (*PEOPLE, *third_names(session, PEOPLE)))):
                continue
            text = re.sub(r"\b(?:Tobin|Zofia)(?:'s)?(?!\w)", ' ', f'{one.before} {one.told}')
            row = slow_nearness(text, re.sub(r"\b(?:Tobin|Zofia)(?:'s)?(?!\w)", ' ', one.asked))
            for aspect in nearest(row, LEAST + MORE[one.sort]):
                wanted[one.turn.id, one.person, aspect] += 1
        assert Counter((line.turns[0], line.person, line.aspect) for line in units_rule(session, PEOPLE).units if not line.slot) == wanted


def test_what_changed_in_the_bundled_conversation():
    found = [line for session in SAMPLE.sessions for line in units_rule(session, PEOPLE).units]
    turns = {}
    for line in found:
        if line.slot:
            turns.setdefault((line.person, line.slot), []).append(line.turns[0])
    assert turns['Tobin', 'line'] == ['D10:5', 'D13:3'] and turns['Tobin', 'residence'] == ['D3:11', 'D11:8']
    assert turns['Zofia', 'vet'] == ['D5:14', 'D12:12'] and turns['Zofia', 'employer'] == ['D1:14', 'D10:8', 'D11:3']
    assert turns['Tobin', 'employer'] == ['D1:13', 'D1:13', 'D7:4'] and turns['Nell', 'job'] == ['D3:15'] and turns['Tobin', 'age'] == ['D7:14']
    assert turns['Tobin', 'meeting place'] == turns['Zofia', 'meeting place'] == ['D1:17', 'D3:17', 'D5:17', 'D11:17', 'D14:18']
    facts = ' '.join(line.fact for line in found)
    assert 'Nell is a swimming teacher' in facts and 'Dr. Quill' in next(line.fact for line in found if line.turns == ['D12:12'] and line.slot)
    assert 'wants the whole story' not in facts and 'so proud' not in facts


def test_a_session_that_leaves_nothing_to_know():
    assert units_rule(Session('D1', (), None)).units == []
    assert units_rule(session_of(('Tobin', 'Why?'), ('Zofia', 'Hm.'))).units == []


def test_the_units_become_a_memory_without_notes():
    for session in SAMPLE.sessions:
        assert not [note for note in recollect(session, RuleLM(), PEOPLE)[0].notes if note.startswith('unit')]


@pytest.mark.parametrize('text', ['I ' + 'really ' * 2000, 'Zofia and Tobin ' * 800, 'Aa ' * 3000, 'I on ' * 1500, "She's his " * 1000, 'my sister ' * 1500,
                                  'at Aa and ' * 1500, ', ' * 3000, '⟦0⟧ ' * 2000])
def test_no_sentence_is_slow(text):
    began = time.process_time()
    units_rule(session_of(('Zofia', text)), PEOPLE)
    assert time.process_time() - began < 4


# Topics

TELLS = st.lists(st.tuples(st.integers(1, 6), st.sampled_from([*PEOPLE, None]),
                           st.lists(st.sampled_from(['the tram', 'swim', 'reads a book', 'the organ', 'my dog', 'today', 'thanks', 'Karrow']), max_size=4)), max_size=30)


def episodes_of(records):
    return [Episode(f'D{session}/e{number}', ' '.join([speaker or 'They', *words]), sources=(f'D{session}:{number}',), session=f'D{session}', speaker=speaker,
                    said=datetime(2024, 1, 1) + timedelta(days=session)) for number, (session, speaker, words) in enumerate(records, 1)]


@settings(max_examples=60)
@given(TELLS, st.randoms(use_true_random=False))
def test_topics_do_not_depend_on_the_order(records, random):
    episodes = episodes_of(records)
    shuffled = episodes.copy()
    random.shuffle(shuffled)
    assert topics_rule(shuffled) == topics_rule(episodes)


@settings(max_examples=60)
@given(TELLS)
def test_a_topic_is_of_one_person_over_several_sessions(records):
    episodes = {one.id: one for one in episodes_of(records)}
    topics = topics_rule(list(episodes.values())).topics
    members = [id for topic in topics for id in topic.episodes]
    assert len(members) == len(set(members)) and set(members) <= episodes.keys()
    assert len({topic.title for topic in topics}) == len(topics)
    assert [len(topic.episodes) for topic in topics] == sorted((len(topic.episodes) for topic in topics), reverse=True)
    for topic in topics:
        group = [episodes[id] for id in topic.episodes]
        assert len(group) >= FEW and len({one.session for one in group}) > 1 and len({one.speaker for one in group}) == 1
        assert topic.title.startswith(f'{group[0].speaker}: ') or group[0].speaker is None


def test_a_thing_that_comes_again_is_a_topic_and_a_passing_one_is_not():
    again = [(session, 'Tobin', ['drove the tram', 'today']) for session in range(1, 5)]
    assert [topic.title.split(' (')[0] for topic in topics_rule(episodes_of(again)).topics] == ['Tobin: tram']
    assert topics_rule(episodes_of(again[:3])).topics == []
    assert topics_rule(episodes_of([(1, *one[1:]) for one in again])).topics == []
    assert topics_rule([]).topics == []


def test_the_bundled_conversation_has_its_themes():
    episodes = [one for session in SAMPLE.sessions for one in recollect(session, RuleLM(), PEOPLE)[0].episodes]
    topics = topics_rule(episodes).topics
    titles = ' '.join(topic.title for topic in topics)
    assert 'Tobin: tram' in titles and 'Zofia: organ' in titles and 'Zofia: loft' in titles
    assert .35 < len({id for topic in topics for id in topic.episodes}) / len(episodes) < .75 and len(topics) < 40


# Roles

@given(sessions())
def test_the_prompts_hold_what_was_said(session):
    system, user = UNITS.render({'session': session, 'speakers': PEOPLE})
    assert all(f'({turn.id}) {turn.speaker}: {turn.content}' in user for turn in session.turns) and 'Tobin, Zofia' in user
    assert all(aspect in system for aspect in ASPECTS) and '{{' not in system
    assert RuleLM().ask(UNITS, session=session, speakers=PEOPLE) == units_rule(session, PEOPLE)


def test_the_prompt_of_topics_shows_ids_and_titles_only():
    episodes = [Episode('D1/e1', 'a long text', title='short')]
    system, user = TOPICS.render({'episodes': episodes})
    assert user == '- (D1/e1) short' and 'long text' not in user and '{{' not in system
    assert RuleLM().ask(TOPICS, episodes=episodes) == topics_rule(episodes)


@pytest.mark.parametrize('role', [UNITS, TOPICS], ids=['units', 'topics'])
def test_the_example_in_a_prompt_is_a_reply(role):
    system = role.render({'session': session_of(), 'speakers': PEOPLE} if role is UNITS else {'episodes': []})[0]
    reply = role.reply.model_validate_json(system.split('The reply:\n')[1])
    assert getattr(reply, role.name)
