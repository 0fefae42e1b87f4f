"""The two roles of asking on: replies however they are spelled, the rules' laws, what the prompts show, and that it ends."""
from dataclasses import replace
from datetime import date, datetime

import pytest
from hypothesis import given, settings, strategies as st
from pydantic import ValidationError

from memnb.evaluation.datasets import load_sample
from memnb.memma.prompts import DIAGNOSE, Diagnosis, REWRITE, Rewrite
from memnb.rules.memma import diagnose_rule, rewrite_rule
from memnb.rules.memma import PATIENCE, required, unmet
from memnb.retrieval.vectors import HybridIndex
from memnb.core.models import ScriptedLM
from memnb.core.roles import ReplyError, RuleLM
from memnb.memma.retrieval import carried, carries, is_new
from memnb.core.conversation import Snippet
from memnb.core.time import TimeSpan

PEOPLE = ('Tobin', 'Zofia')
ORRIN = 'When was Zofia at Lake Orrin?'
FULL = {'decision': 'NOT-ANSWERABLE', 'reason': 'r', 'gaps': ['g'], 'missing_speaker': None, 'time_need': None, 'queries': [], 'constraints': [], 'avoid': []}


def line(id, text, speaker='Zofia', said=datetime(2024, 9, 17)):
    return Snippet(str(id), text, (str(id),), TimeSpan.day(said), speaker, said)


@pytest.fixture(scope='module')
def memory():
    return HybridIndex.of(load_sample())


@pytest.fixture(scope='module')
def questions():
    return [question.text for question in load_sample().questions]


# --- what a model may say

@pytest.mark.parametrize('word, decision', [('NOT_ANSWERABLE', 'NOT-ANSWERABLE'), ('not answerable', 'NOT-ANSWERABLE'), ('NOT\nANSWERABLE', 'NOT-ANSWERABLE'),
                                            (' answerable ', 'ANSWERABLE'), ('Not - Answerable', 'NOT-ANSWERABLE')])
def test_a_decision_is_read_however_it_is_spelled(word, decision):
    assert Diagnosis(decision=word).decision == decision
    assert ScriptedLM([{**FULL, 'decision': word}]).ask(DIAGNOSE, question='q').decision == decision


@pytest.mark.parametrize('word', ['', 'perhaps', 'NOTANSWERABLE', 'UNANSWERABLE', None, 1, True, ['ANSWERABLE'], 'ANSWERABLE|NOT-ANSWERABLE'])
def test_any_other_decision_is_refused_and_then_an_error(word):
    with pytest.raises(ValidationError):
        Diagnosis(decision=word)
    with pytest.raises(ReplyError):
        ScriptedLM([{**FULL, 'decision': word}] * 2).ask(DIAGNOSE, question='q')


@pytest.mark.parametrize('given_as, read', [(None, []), ('NONE', []), (' none', []), ('', []), ('the year', ['the year']), ([], []), (['a', ''], ['a', ''])])
def test_an_empty_list_may_be_null_or_none(given_as, read):
    for name in ('gaps', 'queries', 'constraints', 'avoid'):
        assert getattr(Diagnosis(decision='ANSWERABLE', **{name: given_as}), name) == read
        assert getattr(ScriptedLM([{**FULL, name: given_as}]).ask(DIAGNOSE, question='q'), name) == read


@pytest.mark.parametrize('wrong', [[1], [None], {'a': 'b'}, 3, [['a']]])
def test_a_list_of_something_else_is_refused(wrong):
    with pytest.raises(ValidationError):
        Diagnosis(decision='ANSWERABLE', gaps=wrong)


def test_half_a_surrogate_is_mended_and_a_huge_list_is_read():
    judged = Diagnosis(decision='ANSWERABLE', gaps=['\ud83d'], missing_speaker='\udc00', reason='\ud800')
    assert (judged.gaps, judged.missing_speaker, judged.reason) == (['\ufffd'], '\ufffd', '\ufffd')
    assert Rewrite(query='\ud83d').query == '\ufffd'
    assert len(ScriptedLM([{**FULL, 'avoid': ['word'] * 20_000}]).ask(DIAGNOSE, question='q').avoid) == 20_000


def test_a_fenced_reply_with_markup_is_read_as_it_stands():
    reply = '```json\n{"query": "<b>Zofia</b>: {lake}", "strategy": "", "target_speaker": null}\n```'
    assert ScriptedLM([reply]).ask(REWRITE, question='q').query == '<b>Zofia</b>: {lake}'


# --- the judge's rule

@st.composite
def situations(draw):
    "Random inputs of the judge, of a few lines and questions that touch each other."
    question = draw(st.sampled_from([
        'When was Zofia at the lake?', 'On which day was Zofia at the lake?', 'In which year was Zofia at the lake?', 'Which books did Tobin read?',
        'Who swam?', 'How many months passed between the storm and the concert?', 'What did Zofia sing last month?',
        'When did Tobin and Zofia sing?', 'What happened after the storm at the lake?', '?']))
    told = draw(st.lists(st.sampled_from([
        ('Zofia', 'We were at the lake on 3 March 2024.'), ('Zofia', 'We were at the lake on 9 July 2024, in a canoe.'), ('Zofia', 'At the lake last year!'),
        ('Zofia', 'At the lake on 1 May 2021.'), ('Tobin', 'I read books, the first was The Leopard.'), ('Tobin', 'The storm of 8 May 2024 was loud.'),
        ('Zofia', 'I sang at the concert on 2 June 2024, and Tobin sang.'), ('Tobin', 'Rye bread.')]), max_size=6))
    lines = [line(number, text, speaker) for number, (speaker, text) in enumerate(told)]
    needs = required(question, PEOPLE)
    texts = [need.text for need in needs] + ['another gap']
    gaps = draw(st.lists(st.sampled_from(texts), max_size=5) | st.integers(0, 5).map(lambda count: [texts[0]] * count))
    queries = [question, *(draw(st.sampled_from(['Zofia: lake', 'lake', 'Zofia: Zofia lake', 'Tobin: books read', 'storm', 'who rye sang'])) for _ in gaps)]
    return {'question': question, 'evidence': lines, 'fresh': lines[draw(st.integers(0, 6)):], 'queries': queries, 'gaps': gaps, 'speakers': PEOPLE,
            'asked': draw(st.sampled_from([None, TimeSpan.day(date(2024, 8, 4))]))}


@given(situations())
@settings(max_examples=80)
def test_answerable_has_no_gaps_and_not_answerable_has_some(inputs):
    judged = diagnose_rule(**inputs)
    assert (judged.decision == 'NOT-ANSWERABLE') == bool(judged.gaps)
    if not judged.gaps:
        assert (judged.queries, judged.constraints, judged.avoid, judged.time_need, judged.missing_speaker) == ([], [], [], None, None)


@given(situations())
@settings(max_examples=80)
def test_what_is_suggested_is_new_also_when_it_carries_its_constraints(inputs):
    judged, asked = diagnose_rule(**inputs), list(inputs['queries'])
    for query in judged.queries:
        whole = carried(query, judged.constraints, judged.avoid)
        assert is_new(query, asked, PEOPLE) and is_new(whole, asked, PEOPLE)
        assert all(carries(whole, constraint) for constraint in judged.constraints)
        asked += [query, whole]


@given(situations())
@settings(max_examples=80)
def test_the_first_gap_is_the_first_unmet_need_and_an_unmet_one_is_let_be_only_when_it_stalled(inputs):
    judged = diagnose_rule(**inputs)
    missing = unmet(required(inputs['question'], PEOPLE), inputs['evidence'], inputs['fresh'])
    if missing:
        again = inputs['gaps'][-PATIENCE:] == [missing[0].text] * PATIENCE
        assert judged.gaps == [need.text for need in missing] or (again and judged.decision == 'ANSWERABLE' and '3 times' in judged.reason)
    else:
        assert all(gap.startswith('which is meant by') for gap in judged.gaps)
    told = f'{len(required(inputs["question"], PEOPLE)) - len(missing)} of {len(required(inputs["question"], PEOPLE))} requirements'
    assert judged.reason.startswith(told)


@given(situations())
def test_the_person_and_the_times_of_the_question_are_constraints(inputs):
    judged = diagnose_rule(**inputs)
    named = [name for name in PEOPLE if name in inputs['question']]
    if judged.gaps:
        assert [name for name in judged.constraints if name in PEOPLE] == named
        assert judged.missing_speaker == (named[0] if len(named) == 1 else None)
        assert all(query.startswith(f'{named[0]}: ') if len(named) == 1 else ':' not in query for query in judged.queries)
        if 'last month' in inputs['question']:
            assert judged.constraints[-1] == ('last month (July 2024)' if inputs['asked'] else 'last month')


@given(st.text(max_size=40), st.lists(st.text(max_size=40), max_size=3), st.lists(st.text(max_size=20), max_size=3))
def test_the_rules_take_any_text(question, told, asked):
    lines = [line(number, text) for number, text in enumerate(told)]
    judged = diagnose_rule(question, lines, lines[:1], [question, *asked], asked[:2])
    assert (judged.decision == 'NOT-ANSWERABLE') == bool(judged.gaps)
    assert isinstance(rewrite_rule(question, judged, lines, [question, *asked], speakers=('Zofia',)).query, str)
    for role, inputs in ((DIAGNOSE, {'question': question, 'evidence': lines, 'queries': asked}), (REWRITE, {'question': question, 'diagnosis': judged})):
        assert question in role.render(inputs)[1]


def test_a_contradiction_is_asked_about_once_by_what_only_one_line_has(memory):
    lines = [hit.snippet for hit in memory.search(ORRIN, 5)]
    judged = diagnose_rule(ORRIN, lines, lines, [ORRIN], speakers=PEOPLE)
    assert judged.decision == 'NOT-ANSWERABLE' and judged.gaps[0].startswith('which is meant by the date of lake orrin (Zofia): the weekend of')
    assert any('tents' in query for query in judged.queries) and any('niece' in query for query in judged.queries)
    again = diagnose_rule(ORRIN, lines, [], [ORRIN, judged.queries[0]], judged.gaps, PEOPLE)
    assert again.decision == 'ANSWERABLE' and again.reason.endswith('two dates stand')
    assert diagnose_rule('In which year was Zofia at Lake Orrin?', lines, lines, [ORRIN], speakers=PEOPLE).decision == 'ANSWERABLE'
    alone = diagnose_rule(ORRIN, [one for one in lines if one.id != 'D8:8'], lines, [ORRIN], speakers=PEOPLE)
    assert (alone.decision, alone.reason) == ('ANSWERABLE', '1 of 1 requirements are supported')


def test_the_bundled_questions_contradict_nothing(memory, questions):
    for question in questions:
        judged = diagnose_rule(question, [hit.snippet for hit in memory.search(question, 30)], (), [question], speakers=PEOPLE)
        assert not any(gap.startswith('which is meant') for gap in judged.gaps)


def test_words_tried_in_vain_are_avoided_but_never_the_topic_nor_those_of_the_question():
    question, vain = 'When was Zofia at the lake?', [line(1, 'Rye bread.')]
    assert diagnose_rule(question, vain, vain, [question, 'Zofia: lake waffles'], speakers=PEOPLE).avoid == ['waffles']
    assert diagnose_rule(question, vain, vain, [question], speakers=PEOPLE).avoid == []
    useful = [line(1, 'The lake was cold.')]
    assert diagnose_rule(question, useful, useful, [question, 'Zofia: lake waffles'], speakers=PEOPLE).avoid == []


def test_what_is_suggested_is_for_the_first_gap_alone():
    judged = diagnose_rule('How many months passed between the storm and the concert?', [], queries=['q'], speakers=PEOPLE)
    assert judged.gaps == ['the date of storm', 'the date of concert'] and judged.queries == ['storm']
    known = [line(1, 'The storm was on 8 May 2024.')]
    judged = diagnose_rule('How many months passed between the storm and the concert?', known, queries=['q'], speakers=PEOPLE)
    assert judged.gaps == ['the date of concert'] and judged.queries[0] == 'concert'


def test_an_exact_day_is_named_as_the_need_of_time():
    told = [line(1, 'We were at the lake in 2023.')]
    assert diagnose_rule('When was Zofia at the lake?', told).decision == 'ANSWERABLE'
    judged = diagnose_rule('On which day was Zofia at the lake?', told)
    assert (judged.decision, judged.time_need) == ('NOT-ANSWERABLE', 'the exact day')
    assert diagnose_rule('When was Zofia at the lake?', []).time_need == 'any clear time'
    assert diagnose_rule('Who was at the lake?', []).time_need is None


# --- the query reasoner's rule

def test_the_first_suggestion_that_is_new_is_asked_else_the_question_itself():
    judged = Diagnosis(decision='NOT-ANSWERABLE', gaps=['g'], queries=['Zofia: lake', 'Zofia: canoe'], constraints=['Zofia'], avoid=['canoe'], missing_speaker='Zofia')
    assert rewrite_rule('Where?', judged, queries=['Where?'], speakers=PEOPLE).query == 'Zofia: lake'
    assert rewrite_rule('Where?', judged, queries=['Where?', 'lakes, Zofia:'], speakers=PEOPLE).query == 'Zofia: canoe'
    assert rewrite_rule('Where?', judged, queries=['Where?', 'Zofia: lake', 'Zofia: canoe'], speakers=PEOPLE).query == 'Where?'
    assert rewrite_rule('Where?', judged).target_speaker == 'Zofia'


def test_without_a_diagnosis_the_words_of_the_question_and_of_the_evidence_are_asked():
    told = [line(1, 'The canoe was red.'), line(2, 'A canoe, a storm.')]
    assert rewrite_rule('Where was the lake?', evidence=told, queries=['Where was the lake?']).query == 'lake canoe red'
    assert rewrite_rule('Where was the lake?', evidence=[], queries=['q']).query == 'lake'


# --- the prompts

def test_the_judge_sees_the_lines_the_new_ones_marked_the_queries_and_their_gaps():
    told = [line(1, 'At the {lake}.'), line(2, 'Rye.', 'Tobin')]
    system, user = DIAGNOSE.render({'question': 'Where {is} it?', 'evidence': told, 'fresh': told[1:], 'queries': ['one', 'two'], 'gaps': ['the gap'],
                                    'asked': TimeSpan.day(date(2024, 8, 4))})
    for part in ('Where {is} it?', '(asked on 4 August 2024)', '- (1) [17 September 2024] Zofia: At the {lake}.', '- (2, new) [17 September 2024] Tobin: Rye.',
                 '- one\n- two', '- the gap', 'Tobin, Zofia'):
        assert part in user
    assert '{"decision": "NOT-ANSWERABLE"' in system and '{{' not in system
    for field in Diagnosis.model_fields:
        assert f'\n- {field}: ' in system


def test_the_example_of_the_prompt_is_a_reply():
    system = DIAGNOSE.render({'question': 'q'})[0]
    example = Diagnosis.model_validate_json(system[system.index('{"decision"'):])
    assert example.decision == 'NOT-ANSWERABLE' and set(example.model_fields_set) == set(Diagnosis.model_fields)
    assert is_new(carried(example.queries[0], example.constraints), ["When did Rolf's cello teacher move to Ghent?"], ('Rolf', 'Ines'))


def test_the_query_reasoner_sees_the_first_gap_alone_and_no_rules_without_a_diagnosis():
    judged = Diagnosis(decision='NOT-ANSWERABLE', gaps=['first gap', 'second gap'], constraints=['Zofia', 'June'], avoid=['museum'], queries=['a lake'])
    told = [line(1, 'At the lake.')]
    system, user = REWRITE.render({'question': 'q', 'diagnosis': judged, 'evidence': told, 'queries': ['q'], 'trace': ['q -> 1']})
    assert 'Gap: first gap\n' in user and 'second gap' not in user and 'Constraints: Zofia; June' in user and 'Words to avoid: museum' in user
    assert '- q -> 1' in user and 'Missing speaker: None' in user and 'At the lake.' not in user and 'constraint' in system
    system, user = REWRITE.render({'question': 'q', 'evidence': told, 'queries': ['q']})
    assert 'constraint' not in system and '(1) [17 September 2024] Zofia: At the lake.' in user and '# Diagnosis\nNone' in user and '- q' in user
    for field in Rewrite.model_fields:
        assert f'\n- {field}: ' in system


# --- it ends

def course(question, search, limit):
    "Judge, ask, search, by the rules and without a limit of the loop's own: the queries, and whether it ended."
    evidence, fresh, queries, gaps, lm = [], search(question), [question], [], RuleLM()
    for _ in range(limit):
        fresh = [one for one in fresh if one.id not in {other.id for other in evidence}]
        evidence += fresh
        judged = lm.ask(DIAGNOSE, question=question, evidence=evidence, fresh=fresh, queries=queries, gaps=gaps, speakers=PEOPLE)
        if judged.decision == 'ANSWERABLE':
            return queries, True
        wanted = lm.ask(REWRITE, question=question, diagnosis=judged, queries=queries, speakers=PEOPLE).query
        query = carried(wanted, judged.constraints, judged.avoid)
        if not is_new(query, queries, PEOPLE):
            return queries, True
        queries, gaps, fresh = [*queries, query], [*gaps, judged.gaps[0]], search(query)
    return queries, False


POOL = [line(number, text, speaker) for number, (speaker, text) in enumerate([
    ('Zofia', 'We were at the lake on 3 March 2024.'), ('Zofia', 'We were at the lake on 9 July 2024, in a canoe.'), ('Tobin', 'I read books, all day.'),
    ('Zofia', 'At the lake on 1 May 2021, with tents.'), ('Tobin', 'Books, and read by lamp.'), ('Tobin', 'The read books go back.'), ('Zofia', 'Rye bread, wet boots.')])]


@given(st.sampled_from(['When was Zofia at the lake?', 'Which books did Tobin read?', 'Who sang?', 'On which day was Zofia at the lake?']), st.randoms(use_true_random=False))
@settings(max_examples=80)
def test_it_ends_whatever_a_finite_memory_brings(question, chance):
    queries, ended = course(question, lambda query: chance.sample(POOL, chance.randint(0, 3)), 4 * len(POOL) + 5)
    assert ended and all(is_new(query, queries[:place], PEOPLE) for place, query in enumerate(queries))


def test_a_list_that_never_stops_growing_is_let_be_after_three_queries_for_it():
    question, told = 'Which books did Tobin read?', [line(1, 'I read books.', 'Tobin')]
    gap = required(question, PEOPLE)[0].text
    decisions = [diagnose_rule(question, told, told, [question, *'abcd'[:count]], [gap] * count, PEOPLE).decision for count in range(5)]
    assert decisions == ['NOT-ANSWERABLE'] * PATIENCE + ['ANSWERABLE'] * 2


def test_what_nothing_is_known_of_ends_with_the_wordings(memory):
    queries, ended = course('What is the name of the admiral whom Zofia met?', lambda query: [hit.snippet for hit in memory.search(query, 3)], 60)
    assert ended and len(queries) < 30


def test_a_date_is_given_as_exactly_as_it_can_be_when_the_day_was_asked_for_in_vain():
    question, told = 'On which day was Zofia at the lake?', [line(1, 'We were at the lake in 2023.')]
    gap = required(question, PEOPLE)[0].text
    decisions = [diagnose_rule(question, told, (), [question, *'abcd'[:count]], [gap] * count, PEOPLE).decision for count in range(5)]
    assert decisions == ['NOT-ANSWERABLE'] * PATIENCE + ['ANSWERABLE'] * 2
    assert diagnose_rule(question, [line(1, 'Rye.')], (), [question, *'abcd'], [gap] * 4, PEOPLE).decision == 'NOT-ANSWERABLE'
    assert diagnose_rule(question, [replace(told[0], speaker='Tobin')], (), [question, *'abcd'], [gap] * 4, PEOPLE).decision == 'NOT-ANSWERABLE'
