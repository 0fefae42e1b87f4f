"""What a model writes in many manners is read as what it means, by every role of every method."""

import json
from dataclasses import replace
from functools import cache

import pytest

from manners import as_written, bare, collected, LOSES, MANNERS, Mannered, REFUSED
from memnb import CueTagGraph, GistGraph, HybridIndex, load_sample, MemMA, MemR3, MRAgent, RAG, REMem, SelfRAG
from memnb.core.calls import choice_of
from memnb.core.tools import tools_of
from memnb.core.replies import read_reply
from memnb.core.roles import AnswerReply
from memnb.memma.prompts import Diagnosis, Mark, RepairReply, Rewrite
from memnb.memr3.tracker import TrackerReply
from memnb.mragent.prompts import CuesReply
from memnb.remem.prompts import GistsReply

replies, sample = cache(collected), load_sample()


@pytest.mark.parametrize('manner', MANNERS)
def test_a_reply_in_any_manner_is_read_as_it_was_meant(manner):
    for role, items in replies().items():
        for model, reply in items:
            text = MANNERS[manner](as_written(role, reply), role, model)
            read = json.loads(read_reply(text, model).model_dump_json())
            lost = LOSES.get(manner, ())
            assert bare(read, lost) == bare(json.loads(reply.model_dump_json()), lost), (role, text)


@pytest.mark.parametrize('manner', REFUSED)
def test_what_nobody_could_understand_is_refused_with_a_reason(manner):
    for role, items in replies().items():
        for model, reply in items:
            with pytest.raises(ValueError) as refused:
                read_reply(REFUSED[manner](as_written(role, reply), role, model), model)
            assert str(refused.value)


@cache
def loops():
    "Every method over a memory of its own of the first sessions."
    start = replace(sample, sessions=sample.sessions[:4], questions=())
    turns, gists, cues, bank = HybridIndex.of(start), GistGraph.of(start), CueTagGraph.of(start), MemMA.of(start).bank
    return {
        'rag': lambda lm: RAG(turns, lm),
        'self-rag': lambda lm: SelfRAG(turns, lm),
        'memr3': lambda lm: MemR3(turns, lm),
        'remem': lambda lm: REMem(gists, lm),
        'mragent': lambda lm: MRAgent(cues, lm),
        'memma': lambda lm: MemMA(bank, lm),
    }


@pytest.mark.parametrize('method', ['rag', 'self-rag', 'memr3', 'remem', 'mragent', 'memma'])
def test_a_whole_question_in_each_manner_has_the_answer_of_the_plain_one(method):
    question = sample.questions[0].text
    plain = loops()[method](Mannered()).ask(question)
    for name in MANNERS.keys() - LOSES.keys():
        trace = loops()[method](Mannered(MANNERS[name])).ask(question)
        assert (trace.answer, trace.evidence, trace.error, trace.fallback) == (
            plain.answer,
            plain.evidence,
            None,
            None,
        ), name
        assert all(step.attempts == 1 for step in trace.steps if step.kind == 'model'), name


@pytest.mark.parametrize('method', ['rag', 'self-rag', 'memr3', 'remem', 'mragent', 'memma'])
def test_a_question_is_answered_from_what_was_found_whatever_is_refused(method):
    for seed in range(12):
        trace = loops()[method](Mannered(refusals=0.6, seed=seed)).ask(sample.questions[seed].text)
        assert trace.answer is not None and trace.error is None
        assert trace.fallback is None or trace.fallback.startswith(
            ('the draft (ReplyError', 'the evidence (ReplyError', 'made without a usable reply to ')
        )


PRINTED = [  # REMem, figure 5: the three steps of its demonstration
    (
        '{"reasoning": "Find the end time.", "function": "lexical_retrieve", "parameters": {"query": "E95 was the R11 of E57"}}',
        'lexical_retrieve',
        {'query': 'E95 was the R11 of E57'},
    ),
    (
        '{"reasoning": "Find the next event.", "function": "find_entity_contexts", "parameters": {"object": "E57", "relation": "was the R11 of", "start_time": "t1"}}',
        'find_entity_contexts',
        {'object': 'E57', 'predicate': 'was the R11 of', 'start_time': 't1'},
    ),
    (
        '{"reasoning": "It is E0.", "function": "output_answer", "parameters": {"answer": "E0"}}',
        'output_answer',
        {'answer': 'E0'},
    ),
]


@pytest.mark.parametrize('printed, name, given', PRINTED)
def test_the_tool_calls_that_remem_prints_are_calls_here(printed, name, given):
    call = read_reply(printed, choice_of(tools_of(GistGraph()))).call
    assert (call.function, call.parameters.model_dump(exclude_unset=True)) == (name, given)


@pytest.mark.parametrize(
    'model, text',
    [
        (AnswerReply, '{"answer": "..."}'),
        (AnswerReply, '<answer here>'),
        (Mark, 'Label: CORRECT/WRONG'),
        (RepairReply, '{"op": "ADD_FACT | NOOP"}'),
        (Rewrite, 'I apologize, but I am unable to produce a query.'),
        (CuesReply, "Sorry, I can't."),
        (AnswerReply, 'Please provide the notes.'),
    ],
)
def test_a_placeholder_a_choice_left_open_and_an_apology_are_no_replies(model, text):
    with pytest.raises(ValueError):
        read_reply(text, model, last=True)


def test_an_answer_that_finds_nothing_and_one_that_cites_in_its_sentence_are_answers():
    assert read_reply('I cannot find this in the notes.', AnswerReply).answer == 'I cannot find this in the notes.'
    assert read_reply('The cat is called "Crumb" [D1:5].', AnswerReply).sources == ['D1:5']
    assert read_reply('{"label": "CORRECT", "reason": "..."}', Mark).label == 'CORRECT'


@pytest.mark.parametrize(
    'text',
    [
        '{"call": "lexical_retrieve", "parameters": {"query": "Boston"}}',
        '{"call": {"function": "lexical_retrieve", "query": "Boston"}}',
        '{"calls": [{"function": "lexical_retrieve", "parameters": ["Boston"]}]}',
        'I search by name.\n\nlexical_retrieve("Boston")',
    ],
)
def test_a_call_is_read_in_the_forms_of_agents(text):
    call = read_reply(text, choice_of(tools_of(GistGraph()))).call
    assert (call.function, call.parameters.model_dump(exclude_unset=True)) == ('lexical_retrieve', {'query': 'Boston'})


@pytest.mark.parametrize(
    'model, text',
    [
        (AnswerReply, '{"answer": "", "sources": []}'),
        (CuesReply, '{"cues": ["..."]}'),
        (GistsReply, '{"gists": {"error": "no"}}'),
        (GistsReply, '{"id": "c1", "role": "assistant", "content": "hello"}'),
        (RepairReply, 'ADD_FACT: a\nTurns: D4:1'),
        (Diagnosis, '{"decision": "ANSWERABLE" or "NOT-ANSWERABLE"}'),
        (TrackerReply, 'Decision: answer? No: retrieve'),
        (Mark, '{"label": "partially correct"}'),
    ],
)
def test_what_could_be_guessed_wrong_is_refused(model, text):
    with pytest.raises(ValueError):
        read_reply(text, model, last=True)


def test_a_long_rule_in_a_reply_takes_no_time():
    said = 'The answer is Paris.\n' + '-' * 5000 + '\nIt is Paris.\n' + '*#' * 2500
    with pytest.raises(ValueError):
        read_reply(said, TrackerReply)
