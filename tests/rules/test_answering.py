"""Answering: the rule never fails, cites only what it was shown, and copies what it says."""

import re
from dataclasses import replace
from datetime import date, datetime, timedelta

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from memnb.core.conversation import Session, Snippet, Turn
from memnb.core.models import ScriptedLM
from memnb.core.roles import ANSWER, AnswerReply, as_text, lines_with_ids, NO_INFORMATION, RuleLM
from memnb.core.text import reference_day, times_of
from memnb.core.time import parse_date, short_weekday, TimeSpan
from memnb.rules.memma import guide_rule, write_rule
from memnb.rules.mragent import segment_rule
from memnb.rules.remem import facts_of, statements
from memnb.rules.text import extract_answer, relevance, requirements, retold

OPENINGS = ['When did Tobin', 'In which year did Zofia', 'How many months passed between', 'How long did', 'Did Tobin']
OPENINGS += ['How many dogs does Tobin', 'Which books did Zofia', 'What did Tobin', 'Who', 'Where', 'Which week did']
WORDS = '''run the race and dogs two sixty-one yesterday between books. 12,000 $5 pounds Tobin Zofia 61 ] [shares It'''.split()
WORDS += ['last Friday', 'four years ago', '7 May 2023', 'three weeks', '[shares a dog', '\n', 'It rained!']
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


@given(questions, lines)
@example(
    'Which month did Tobin run?',
    [Snippet('a', 'I run on 31 December 9999.', speaker='Tobin', said=datetime(2024, 1, 1))],
)
@settings(max_examples=120)
def test_the_rule_answers_anything_and_cites_only_what_it_saw(question, shown):
    reply = extract_answer(question, shown)
    assert set(reply.sources) <= {line.id for line in shown} and len(set(reply.sources)) == len(reply.sources)
    needed = requirements(question, sorted({line.speaker for line in shown} - {None}))
    assert (reply.answer != NO_INFORMATION) == bool(reply.sources) == any(relevance(line, needed) > 0 for line in shown)
    assert reply == RuleLM(render=True).ask(ANSWER, question=question, lines=shown, asked=None)
    guess = extract_answer(question, shown, may_refuse=False)
    assert guess == reply if reply.sources or not shown else guess.sources == [shown[0].id]


@given(questions, lines)
@settings(max_examples=150)
def test_every_word_of_an_answer_stands_in_a_line_that_it_cites_or_in_a_date_of_it(question, shown):
    reply = extract_answer(question, shown)
    cited = [line for line in shown if line.id in reply.sources]
    spans = [span for line in cited for span in times_of(line)]
    spans += [TimeSpan.day(reference_day(line)) for line in cited if reference_day(line)]
    known = ' '.join([*(line.text for line in cited), *map(str, spans), 'and'])
    if reply.sources:
        assert set(re.findall(r'\w+', reply.answer)) <= set(re.findall(r'\w+', known))


@given(moments)
@settings(max_examples=40)
def test_without_a_time_it_was_the_day_of_saying_unless_a_line_a_third_as_good_tells(said):
    best, dated = Snippet('a', 'A race with dogs!', said=said), Snippet('b', 'The race was in May 2019.', said=said)
    other = Snippet('c', 'That was in May 2019.', said=said)
    day = str(TimeSpan.day(said.date()))
    asked = 'When was the race with dogs?'
    assert extract_answer(asked, [best, other]) == AnswerReply(answer=day, sources=['a'])
    assert extract_answer(asked, [best, dated]) == AnswerReply(answer='May 2019', sources=['b'])
    undated = Snippet('a', 'A race with dogs!')
    assert extract_answer(asked, [undated]) == AnswerReply(answer='A race with dogs!', sources=['a'])
    reply = extract_answer('When did Tobin race?', [Snippet('a', 'I raced yesterday.', speaker='Tobin', said=said)])
    assert parse_date(reply.answer) == TimeSpan.day(said.date() - timedelta(1))


@pytest.mark.parametrize(
    'question, text, answer',
    [
        ('How many people came?', 'One crate. Then sixty-one people came.', 'Then sixty-one people came.'),
        ('How many people came?', 'He came late. Sixty-one people on the island!', 'Sixty-one people on the island!'),
        (
            'What stood in the organ in 1911?',
            'A child wrote the date, 1911, with care. It is by the organ.',
            'It is by the organ.',
        ),
        ('Where did Tobin run?', 'So late! I run by the lake.', 'I run by the lake.'),
        ('Who taught Tobin?', 'Mrs. Pettigrew taught me. A storm!', 'Mrs. Pettigrew taught me.'),
        ('What did Zofia paint?', 'I paint dogs.', NO_INFORMATION),
    ],
)
def test_answers_of_each_kind(question, text, answer):
    shown = [
        Snippet('D1:1', text, speaker='Tobin', said=datetime(2024, 1, 1)),
        Snippet('D1:2', 'Oh.', speaker='Zofia', said=datetime(2024, 1, 1)),
    ]
    sources = [] if answer == NO_INFORMATION else ['D1:1']
    assert extract_answer(question, shown) == AnswerReply(answer=answer, sources=sources)


def test_an_interval_has_both_dates():
    said = datetime(2024, 6, 1)
    shown = [Snippet('a', 'The storm came yesterday.', said=said), Snippet('b', 'The race was in May 2023.', said=said)]
    reply = extract_answer('How many days passed between the race and the storm?', shown)
    assert reply == AnswerReply(answer='May 2023; 31 May 2024', sources=['b', 'a'])


@given(questions, lines, st.none() | st.dates(date(1950, 1, 1), date(2050, 1, 1)).map(TimeSpan.day), texts)
@settings(max_examples=60)
def test_the_prompt_shows_every_line_behind_its_id(question, shown, asked, draft):
    system, user = ANSWER.render({'question': question, 'lines': shown, 'draft': draft, 'asked': asked})
    assert NO_INFORMATION in system and question in user and draft in user
    day = f'(asked on {short_weekday(asked.start)} {asked})' if asked else '(asked on'
    assert (day in user) == (asked is not None) or '(asked on' in question + draft
    for line in shown:
        assert as_text(lines_with_ids([line])) in user


def test_a_model_in_the_place_of_the_rule():
    script = ScriptedLM([{'answer': 'Rye', 'sources': ['D3:9']}])
    assert script.ask(ANSWER, question='What bread?', lines=[]) == AnswerReply(answer='Rye', sources=['D3:9'])
    assert 'What bread?' in script.prompts[0][2]


@pytest.mark.parametrize(
    'when', ['ages ago', 'the other day', '2-3 weeks ago', 'ten or eleven days ago', 'back in the day']
)
def test_a_distance_that_is_not_read_is_no_day_of_saying(when):
    shown = [Snippet('a', f'I met Kim {when}.', said=datetime(2024, 6, 9))]
    assert extract_answer('When did you meet Kim?', shown).answer == f'I met Kim {when}.'
    assert (
        extract_answer('When did you meet Kim?', [replace(shown[0], text='I met Kim an hour ago.')]).answer
        == '9 June 2024'
    )


NOTES = [
    'The boiler was serviced in March.',
    'I sold my boat to my sister.',
    'We met at ours; he gave me a book.',
    'Is it mine?',
]


@pytest.mark.parametrize(
    'text, pieces',
    [
        ('Oh! The old boat sank in the storm. Really? Nobody saw the harbour burn.', 2),
        ('Oh! Yes, the boat.', 1),
        ('So it was!', 0),
    ],
)
def test_a_short_sentence_stands_with_its_neighbour(text, pieces):
    told = statements(Turn('D1:1', '', text), None)
    assert len(told) == pieces and ' '.join(told) == (text if pieces else '')


@pytest.mark.parametrize('caption', [None, 'a photo of a boat'])
def test_notes_of_nobody_are_kept_as_they_were_written(caption):
    for note in NOTES:
        turn = Turn('D1:1', '', note, caption=caption)
        session = Session('D1', [turn])
        told = [*statements(turn, None), *(episode.text for episode in segment_rule(session).episodes)]
        told += [fact.text for fact in guide_rule(session).facts]
        told += [edit.text for per in ('fact', 'chunk') for edit in write_rule(session, per=per).edits]
        assert any(text.startswith(note) for text in told) and retold(note, '', None) == note
        for text in told:
            assert (
                text == text.strip()
                and not text.startswith(("'s", ':', 'says', 'asks', 'shares'))
                and " 's" not in text
            )
        assert all(fact.subject for fact in facts_of(turn, None))
