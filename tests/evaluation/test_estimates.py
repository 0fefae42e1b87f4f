"""Estimates: held against runs with a model behind a local server that goes the way of the rules."""
import json
import math
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memnb.evaluation.costs import Prices, Rehearsal
from memnb.evaluation.datasets import load_sample
from memnb.evaluation.experiment import Estimate, estimate, scaled, spread
from memnb.evaluation.experiment import Experiment
from memnb.evaluation.judge import Judge
from memnb.core.models import FunctionLM, OpenAILM
from memnb.core.roles import RuleLM, Usage
from servers import Server, chat

SAMPLE = load_sample()


def part(name, sessions):
    """Some sessions as a conversation of their own, with the questions whose evidence lies in them."""
    known = {turn.id for session in sessions for turn in session.turns}
    asked = [one for one in SAMPLE.questions if one.evidence and set(one.evidence) <= known and not one.refuse]
    return replace(SAMPLE, id=name, sessions=sessions, questions=[replace(one, conversation=name) for one in asked])


FIRST, SECOND = part('first', SAMPLE.sessions[:2]), part('second', SAMPLE.sessions[2:4])
MODEL = FunctionLM(lambda prompt: '', 'model')  # an estimate never asks it


class Noting(Rehearsal):
    """A rehearsal that notes what was said to which prompt."""
    name = 'noting'

    def __init__(self):
        self.said = {}

    def call(self, role, /, **inputs):
        call = super().call(role, **inputs)
        self.said[call.system, call.user] = call.reply.model_dump_json(by_alias=True)
        return call


def answering(said):
    """What a server does that knows the replies, and counts four characters to a token, of the schema, too."""
    def answer(request):
        system, user = (message['content'] for message in request['messages'])
        text, schema = said[system, user], json.dumps(request['response_format'])
        return chat(text, usage=(math.ceil(len(system + user + schema) / 4), math.ceil(len(text) / 4)))(request)
    return answer


@pytest.fixture(scope='module')
def served(tmp_path_factory):
    """An estimate, and what a run with a served model came to."""
    grid, learnt = {'methods': ['rag', 'self-rag', 'remem-s'], 'datasets': [FIRST, SECOND], 'turns': 10, 'baselines': ()}, Noting()
    Experiment(**grid, lm=learnt, judge=Judge(learnt)).run()
    with Server(answering(learnt.said), limit=2000) as server:
        model = OpenAILM('some', server.url, api_key='none', max_retries=0)
        experiment = Experiment(**grid, lm=model, judge=Judge(model))
        foretold = estimate(experiment, sample=3)
        assert not server.requests
        results = experiment.run(tmp_path_factory.mktemp('run'))
        return foretold, results, len(server.requests)


def test_a_run_with_a_served_model_costs_about_what_was_foretold(served):
    foretold, results, requests = served
    assert not results.failed and not results.missing
    assert .85 * foretold.total.calls <= requests <= foretold.total.calls  # the same answer of two methods is judged once
    paid = results.provenance['tokens paid for']
    assert abs(foretold.total.tokens / paid - 1) < .15


def test_asking_and_judging_are_foretold_by_method(served):
    foretold, results, _ = served
    for method in ('rag', 'self-rag', 'remem-s'):
        mine = [one for one in results.records if one['method'] == method]
        for phase, field in (('ask', 'usage'), ('judge', 'judge_usage')):
            real = sum((Usage(**usage) for one in mine for usage in one[field].values()), Usage())
            told = foretold.usage[method, phase]
            assert told.calls == real.calls and abs(told.tokens / real.tokens - 1) < .2
    build, books = foretold.usage['remem-s', 'build'], results.provenance['spent']['build']
    assert build.calls == books['calls'] and abs(build.tokens / (books['prompt_tokens'] + books['completion_tokens']) - 1) < .25
    assert foretold.usage['rag', 'build'].calls == 0


def test_one_conversation_with_every_question_is_foretold_to_the_token():
    learnt = Noting()
    grid = {'methods': ['rag', 'remem-s'], 'datasets': [FIRST], 'turns': 10, 'baselines': ()}
    Experiment(**grid, lm=learnt).run()

    def found(prompt):
        return next(text for (system, user), text in learnt.said.items() if prompt.startswith(system) and prompt.endswith(user))
    experiment = Experiment(**grid, lm=FunctionLM(found, 'parrot'))
    assert estimate(experiment, 100).total.tokens == experiment.run().provenance['tokens paid for']


@pytest.mark.parametrize(('lms', 'phases'), [
    ({}, set()), ({'lm': MODEL}, {'build', 'ask'}), ({'lm': MODEL, 'build_lm': RuleLM()}, {'ask'}), ({'build_lm': MODEL}, {'build'}),
    ({'judge': Judge(MODEL)}, {'judge'}), ({'judge': Judge()}, set()), ({'lm': MODEL, 'judge': Judge(MODEL)}, {'build', 'ask', 'judge'})])
def test_only_what_a_model_does_costs_something(lms, phases):
    found = estimate(Experiment(['remem-s'], [FIRST], baselines=(), **lms), 1)
    assert {phase for (_, phase), usage in found.usage.items() if usage.calls} == phases


def test_repeats_multiply_and_a_shared_memory_is_built_once():
    def calls(methods, **more):
        found = estimate(Experiment(methods, [FIRST], lm=MODEL, baselines=(), **more), 1)
        return sum(usage.calls for (_, phase), usage in found.usage.items() if phase == 'build'), found.total.calls
    once, twice = calls(['remem-s']), calls(['remem-s'], repeats=2)
    assert twice == (2 * once[0], 2 * once[1])
    assert calls(['remem-s', 'remem'])[0] == once[0] and calls(['remem-s'], memories=['turns'])[0] == 0


def test_datasets_are_estimated_each_by_its_first_conversation():
    def made(datasets):
        return estimate(Experiment(['rag'], datasets, lm=MODEL, baselines=()), 2)
    both, first, second = made({'x': [FIRST], 'y': [SECOND]}), made({'x': [FIRST]}), made({'y': [SECOND]})
    assert both.total == first.total + second.total and first.total.calls == len(FIRST.questions)
    assert (both.sampled, both.questions) == (4, len(FIRST.questions) + len(SECOND.questions))
    empty = replace(FIRST, id='empty', questions=())
    assert made({'x': [empty, FIRST]}).total == first.total


@pytest.mark.parametrize(('sample', 'error'), [(0, ValueError), (-1, ValueError), (1.5, TypeError), (True, TypeError)])
def test_a_sample_that_is_none_is_refused(sample, error):
    with pytest.raises(error, match='sample: expected'):
        estimate(Experiment(['rag'], [FIRST], lm=MODEL, baselines=()), sample)


@given(st.integers(1, 40), st.integers(1, 50))
def test_a_spread_is_even_and_in_order(size, count):
    found = spread(range(size), count)
    assert len(found) == min(size, count) == len(set(found)) and found == sorted(found) and found[0] == 0
    steps = {after - before for before, after in zip(found, [*found[1:], size])}
    assert max(steps) - min(steps) <= 1


@given(st.integers(0, 100), st.integers(0, 10 ** 6), st.integers(0, 10 ** 6), st.integers(0, 1000), st.integers(1, 7))
def test_scaling_rounds_up(calls, prompt, completion, numerator, denominator):
    found, factor = scaled(Usage(calls, prompt, completion, True), numerator / denominator), Fraction(numerator, denominator)
    for told, part_ in ((found.calls, calls), (found.prompt_tokens, prompt), (found.completion_tokens, completion)):
        assert 0 <= told - factor * part_ < 1 or abs(told - factor * part_ - 1) < Fraction(1, 10 ** 6)
    assert found.estimated


def test_the_table_has_a_line_for_all_and_dollars_only_with_prices():
    one = Estimate({('a', 'ask'): Usage(2, 1_000_000, 100_000), ('b', 'ask'): Usage(1, 1_000_000, 0), ('b', 'build'): Usage()}, 5, 10)
    assert [line[0] for line in one.table().lines] == ['a, ask', 'b, ask', 'all'] and one.table().columns[-1] == 'reply tokens'
    assert one.table(Prices(2, 10)).lines[-1] == ('all', '3', '2,000,000', '100,000', '5.00') and '5 of 10' in one.table().title
