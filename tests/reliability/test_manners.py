"""What a model writes in twenty manners is read as what it means, by every role of every method."""

import json
from dataclasses import replace
from functools import cache

import pytest

from manners import as_written, bare, collected, LOSES, MANNERS, Mannered, REFUSED
from memnb import CueTagGraph, GistGraph, HybridIndex, load_sample, MemMA, MemR3, MRAgent, RAG, REMem, SelfRAG
from memnb.core.replies import read_reply

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
    return {'rag': lambda lm: RAG(turns, lm), 'self-rag': lambda lm: SelfRAG(turns, lm), 'memr3': lambda lm: MemR3(turns, lm),
            'remem': lambda lm: REMem(gists, lm), 'mragent': lambda lm: MRAgent(cues, lm), 'memma': lambda lm: MemMA(bank, lm)}


@pytest.mark.parametrize('method', ['rag', 'self-rag', 'memr3', 'remem', 'mragent', 'memma'])
def test_a_whole_question_in_each_manner_has_the_answer_of_the_plain_one(method):
    question = sample.questions[0].text
    plain = loops()[method](Mannered()).ask(question)
    for name in MANNERS.keys() - LOSES.keys():
        trace = loops()[method](Mannered(MANNERS[name])).ask(question)
        assert (trace.answer, trace.evidence, trace.error, trace.fallback) == (plain.answer, plain.evidence, None, None), name
        assert all(step.attempts == 1 for step in trace.steps if step.kind == 'model'), name


@pytest.mark.parametrize('method', ['rag', 'self-rag', 'memr3', 'remem', 'mragent', 'memma'])
def test_a_question_is_answered_from_what_was_found_whatever_is_refused(method):
    for seed in range(12):
        trace = loops()[method](Mannered(refusals=.6, seed=seed)).ask(sample.questions[seed].text)
        assert trace.answer is not None and trace.error is None
        assert trace.fallback is None or trace.fallback.startswith(('the draft (ReplyError', 'the evidence (ReplyError'))
