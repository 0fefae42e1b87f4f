"""Conversations: arbitrary ones come back from JSON, and what breaks a law is refused, compared with a plain count."""

import json
import pickle
from dataclasses import replace
from datetime import datetime, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memnb.core.conversation import (
    Conversation,
    ConversationError,
    Question,
    Session,
    session_fields,
    SESSION_TEXT,
    Turn,
)
from memnb.core.names import clean_id
from memnb.memma.prompts import GUIDE, PAPER_GUIDE, WRITE
from memnb.remem.prompts import FACTS, GISTS, PAPER_FACTS, PAPER_GISTS
from damage import JSON, spots

texts = st.text(max_size=12)
ids = st.text(min_size=1, max_size=6).filter(str.strip)
times = st.none() | st.datetimes()


@st.composite
def conversations(draw):
    """Any conversation that keeps the three laws."""
    turn_ids = draw(st.lists(ids, unique_by=clean_id, max_size=8))
    cuts = sorted(draw(st.lists(st.integers(0, len(turn_ids)), max_size=4)))
    groups = [turn_ids[start:end] for start, end in zip([0, *cuts], [*cuts, len(turn_ids)])]
    sessions = [
        Session(
            f'D{number}',
            [Turn(one, draw(texts), draw(texts), draw(times), draw(st.none() | texts)) for one in group],
            draw(times),
        )
        for number, group in enumerate(groups)
    ]
    evidence = st.lists(st.sampled_from(turn_ids), max_size=3) if turn_ids else st.just([])
    questions = [
        Question(
            draw(texts),
            draw(st.none() | texts),
            draw(evidence),
            draw(st.none() | texts),
            draw(texts),
            place,
            draw(st.none() | texts),
            draw(times),
            draw(st.lists(texts, max_size=2)),
            aliases=draw(st.lists(texts, max_size=2)),
            refuse=draw(st.booleans()),
            rubric=draw(st.lists(texts, max_size=2)),
        )
        for place in range(draw(st.integers(0, 3)))
    ]
    return Conversation(draw(texts), sessions, questions, draw(st.lists(texts, max_size=2)))


@given(conversations())
@settings(max_examples=60)
def test_json_gives_an_equal_conversation_back(conversation):
    text = conversation.to_json()
    assert text.isascii()
    assert Conversation.from_json(text) == conversation
    assert Conversation.from_json(text).to_json() == text


@given(conversations())
@settings(max_examples=30)
def test_a_text_from_before_a_field_was_there_is_read(conversation):
    record = json.loads(conversation.to_json())
    for question in record['questions']:
        del question['aliases'], question['refuse']
    read = Conversation.from_json(json.dumps(record))
    assert read.questions == tuple(replace(one, aliases=(), refuse=False) for one in conversation.questions)


@given(conversations())
@settings(max_examples=40)
def test_look_ups_agree_with_a_walk(conversation):
    walked = [(turn, session) for session in conversation.sessions for turn in session.turns]
    assert conversation.turns == tuple(turn for turn, _ in walked)
    for turn, session in walked:
        assert conversation.turn(turn.id) is turn
        assert conversation.session_of(turn.id) is session
    spoken = [turn.speaker for turn, _ in walked]
    assert conversation.speakers == tuple(name for place, name in enumerate(spoken) if name not in spoken[:place])
    assert pickle.loads(pickle.dumps(conversation)) == conversation
    assert hash(pickle.loads(pickle.dumps(conversation))) == hash(conversation)


@given(
    st.lists(st.lists(st.sampled_from(['a', 'b', 'c', 'd', 'e', 'f']), max_size=3), max_size=3),
    st.lists(st.sampled_from(['a', 'b', 'z']), max_size=2),
)
@settings(max_examples=100)
def test_refused_exactly_when_a_law_is_broken(groups, evidence):
    said = [one for group in groups for one in group]
    sessions = [Session(str(number), [Turn(one, 'Ana', '') for one in group]) for number, group in enumerate(groups)]
    lawful = len(set(said)) == len(said) and set(evidence) <= set(said)
    try:
        Conversation('c', sessions, [Question('Who?', evidence=evidence)])
    except ConversationError:
        assert not lawful
    else:
        assert lawful


@given(st.data())
@settings(max_examples=150)
def test_a_damaged_file_is_read_or_refused_and_nothing_else(data):
    whole = Conversation.of('c', [(datetime(2024, 3, 2), [('Ana', 'hello'), ('Ben', 'bye')])])
    record = json.loads(Conversation('c', whole.sessions, [Question('Who?', evidence=['D1:1'])]).to_json())
    path = data.draw(st.sampled_from(list(spots(record))))
    node = record
    for key in path[:-1]:
        node = node[key]
    if data.draw(st.booleans()) and isinstance(node, dict):
        del node[path[-1]]
    else:
        node[path[-1]] = data.draw(JSON)
    try:
        read = Conversation.from_json(json.dumps(record))
    except ConversationError as error:
        assert str(error).startswith('conversation')
    else:
        assert Conversation.from_json(read.to_json()) == read


@pytest.mark.parametrize(
    'make, message',
    [
        (lambda: Turn('', 'Ana', 'x'), 'Turn.id: expected a name'),
        (lambda: Turn('D1:1', None, 'x'), 'Turn.speaker: expected str, got None'),
        (lambda: Turn('D1:1', 'Ana', 'x', '2024'), "Turn.time: expected datetime.datetime . None, got '2024'"),
        (lambda: Turn('D1:1', 'Ana', 'x', datetime(2024, 1, 1, tzinfo=timezone.utc)), 'drop the zone'),
        (lambda: Turn('D1:1', 'Ana', 'x', caption=3), 'Turn.caption'),
        (lambda: Session('D1', 'abc'), 'Session.turns: expected a sequence'),
        (lambda: Session('D1', None), 'Session.turns: expected a sequence'),
        (lambda: Session('D1', [], time=3), 'Session.time'),
        (lambda: Session('D1', ['abc']), "Session.turns: expected Turn, got 'abc'"),
        (lambda: Question('Who?', evidence='D1:1'), 'Question.evidence: expected a sequence'),
        (lambda: Question('Who?', aliases='Ana'), 'Question.aliases: expected a sequence'),
        (lambda: Question('Who?', aliases=[3]), 'Question.aliases: expected str, got 3'),
        (lambda: Question('Who?', refuse=1), 'Question.refuse: expected bool, got 1'),
        (lambda: Question('Who?', answer=2022), 'Question.answer: expected str . None, got 2022'),
        (lambda: Conversation('c', [Session('D1', []), Session('D1', [])]), "session id 'D1' comes twice"),
        (lambda: Conversation('c', [], [Question('Who?'), Question('Who?')]), r"question id .* '/0' comes twice"),
        (
            lambda: Conversation('c', [], [Question('Who?', evidence=['D1:1'])]),
            "'c' has no turn 'D1:1'; it has 0 turns",
        ),
    ],
)
def test_what_is_wrong_is_said(make, message):
    with pytest.raises(ConversationError, match=message):
        make()


def test_plain_lists_get_the_benchmarks_ids():
    conversation = Conversation.of(
        'mine', [(datetime(2024, 3, 2, 9), [('Ana', 'hello'), ('Ben', 'hi')]), (None, [('Ben', 'bye')])]
    )
    assert [(turn.id, turn.speaker, turn.text) for turn in conversation.turns] == [
        ('D1:1', 'Ana', 'hello'),
        ('D1:2', 'Ben', 'hi'),
        ('D2:1', 'Ben', 'bye'),
    ]
    assert [session.id for session in conversation.sessions] == ['D1', 'D2']
    assert conversation.turn('D1:2').time == datetime(2024, 3, 2, 9)
    assert conversation.turn('D2:1').time is None
    assert repr(conversation) == "Conversation('mine': Ana and Ben, 2 sessions, 3 turns, 0 questions)"


def test_dates_are_reckoned_from_days_with_their_weekday_and_the_paper_has_none():
    day, later = datetime(2024, 5, 8, 18), datetime(2024, 5, 9, 7, 5)
    session = Session('D1', (Turn('D1:1', 'Ana', 'Saturday week!', day), Turn('D1:2', 'Ben', 'No.', later)), day)
    shown = SESSION_TEXT.format(**session_fields(session))
    assert 'Date: Wed 8 May 2024, 6:00 pm\n' in shown and '(D1:2) [Thu 9 May 2024, 7:05 am] Ben: No.' in shown
    assert session_fields(session)['date'] == '8 May 2024, 6:00 pm'
    for role, text in (
        (GISTS, 'Wed 8 May'),
        (PAPER_GISTS, 'Date: 8 May'),
        (FACTS, 'Wed 8 May'),
        (PAPER_FACTS, 'Date: 8 May'),
    ):
        assert text in role.render({'session': session})[1]
    for role, text in ((GUIDE, 'Wed 8 May'), (WRITE, 'Wed 8 May'), (PAPER_GUIDE, 'Date: 8 May')):
        assert text in role.render({'chunk': session})[1]
