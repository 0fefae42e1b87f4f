"""Semantic units and topics: laws on any text."""

from datetime import datetime, timedelta

from hypothesis import given, settings, strategies as st

from memnb.mragent.prompts import ASPECTS, UNITS, UnitsReply
from memnb.rules.mragent import topics_rule, units_rule
from memnb.mragent.contents import Episode
from memnb.core.conversation import Session, Turn
from memnb.core.roles import RuleLM

PEOPLE = ('Tobin', 'Zofia')
PIECES = (
    'I',
    'you',
    'She',
    "He's",
    'my sister Nell',
    'Dr. Amsel',
    'moved to Karrow',
    'works at Halloran',
    'read a book',
    'has a dog',
    'is four',
    'always swims',
    'want to go',
    'last Friday',
    'since 2018',
    'on Line 4',
    'our vet',
    'and',
    'but',
    ',',
    '.',
    '?',
    '!',
    'Thursday at the Kettle',
    'Tobin',
    'Zofia',
    'and others',
    "'s",
    'really',
    '⟦1⟧',
    '⟦9⟧',
    'the flat above the shop',
    'My last day at Dunstan',
    'thirty-four',
    '…',
    'ß',
    '\n',
)
WORDS = st.lists(st.sampled_from(PIECES), max_size=14).map(' '.join)
TEXTS = st.one_of(WORDS, WORDS, st.text(max_size=60))


@st.composite
def sessions(draw, names=PEOPLE):
    texts = draw(st.lists(st.tuples(st.sampled_from(names), TEXTS, st.one_of(st.none(), WORDS)), max_size=5))
    moment = draw(st.one_of(st.none(), st.just(datetime(2024, 5, 15, 9))))
    return Session(
        'D1',
        tuple(Turn(f'D1:{n}', who, text, None, caption) for n, (who, text, caption) in enumerate(texts, 1)),
        moment,
    )


# Units


@settings(max_examples=60)
@given(sessions())
def test_every_unit_rests_on_its_session_and_has_all_its_parts(session):
    reply = units_rule(session, PEOPLE)
    ids, names = [turn.id for turn in session.turns], PEOPLE
    for line in reply.units:
        assert len(line.turns) == 1 and line.turns[0] in ids
        assert line.person in names and line.aspect in ASPECTS and line.fact.strip()
    assert [ids.index(line.turns[0]) for line in reply.units] == sorted(
        ids.index(line.turns[0]) for line in reply.units
    )
    assert reply == units_rule(session, PEOPLE) == UnitsReply.model_validate_json(reply.model_dump_json())


# Topics

TELLS = st.lists(
    st.tuples(
        st.integers(1, 6),
        st.sampled_from([*PEOPLE, None]),
        st.lists(
            st.sampled_from(['the tram', 'swim', 'reads a book', 'the organ', 'my dog', 'today', 'thanks', 'Karrow']),
            max_size=4,
        ),
    ),
    max_size=30,
)


def episodes_of(records):
    return [
        Episode(
            f'D{session}/e{number}',
            ' '.join([speaker or 'They', *words]),
            sources=(f'D{session}:{number}',),
            session=f'D{session}',
            speaker=speaker,
            said=datetime(2024, 1, 1) + timedelta(days=session),
        )
        for number, (session, speaker, words) in enumerate(records, 1)
    ]


@settings(max_examples=60)
@given(TELLS, st.randoms(use_true_random=False))
def test_topics_do_not_depend_on_the_order(records, random):
    episodes = episodes_of(records)
    shuffled = episodes.copy()
    random.shuffle(shuffled)
    assert topics_rule(shuffled) == topics_rule(episodes)


@settings(max_examples=60)
@given(TELLS)
def test_a_topic_is_of_one_person(records):
    episodes = {one.id: one for one in episodes_of(records)}
    topics = topics_rule(list(episodes.values())).topics
    members = [id for topic in topics for id in topic.episodes]
    assert len(members) == len(set(members)) and set(members) <= episodes.keys()
    assert len({topic.title for topic in topics}) == len(topics)
    for topic in topics:
        group = [episodes[id] for id in topic.episodes]
        assert len({one.speaker for one in group}) == 1
        assert topic.title.startswith(f'{group[0].speaker}: ') or group[0].speaker is None


# Roles


@given(sessions())
def test_the_prompts_hold_what_was_said(session):
    system, user = UNITS.render({'session': session, 'speakers': PEOPLE})
    assert all(f'({turn.id}) {turn.line}' in user for turn in session.turns) and 'Tobin, Zofia' in user
    assert all(aspect in system for aspect in ASPECTS) and '{{' not in system
    assert RuleLM().ask(UNITS, session=session, speakers=PEOPLE) == units_rule(session, PEOPLE)
