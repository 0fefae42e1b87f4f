"""Usage is counted by role, a budget is shared and never lost, and a dry run costs what a model would that goes the same way."""

import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memnb.core.models import FunctionLM, RecordedLM, ScriptedLM
from memnb.core.roles import ANSWER, LM, LMError, RuleLM, ServerError, Usage
from memnb.evaluation.estimate import DryRunLM
from memnb.evaluation.usage import UsageCounter
from memnb.evaluation.store import RowStore, RunStopped
from memnb.evaluation.judge import prompt_hash
from memnb.evaluation.datasets import load_sample
from memnb.evaluation.registry import MEMORIES, METHODS

SAMPLE = load_sample()
SMALL = replace(SAMPLE, sessions=SAMPLE.sessions[:2], questions=())
QUESTION = 'When did Tobin have his first concertina lesson?'
usages = st.builds(Usage, st.integers(0, 9), st.integers(0, 10**6), st.integers(0, 10**6), st.booleans())


@given(st.lists(st.integers(0, 10**9), max_size=8), st.none() | st.integers(0, 10**10))
@settings(max_examples=20)
def test_the_sum_is_what_all_have_spent_and_the_check_says_so_at_once(spent, limit):
    with tempfile.TemporaryDirectory() as folder:
        file, known = Path(folder) / 'rows.sqlite', 0
        with closing(RowStore(file, limit)) as watching, closing(RowStore(file)) as other:
            for tokens in spent:
                other.spend(tokens)
                known += tokens
                assert watching.spent == known
                if limit is not None and known >= limit:
                    with pytest.raises(RunStopped, match=f'{known} of {limit} tokens'):
                        watching.check()
                else:
                    watching.check()


def test_threads_and_processes_lose_nothing(tmp_path):
    file = tmp_path / 'rows.sqlite'
    code = 'import sys; from memnb.evaluation.store import RowStore; one = RowStore(sys.argv[1]); [one.spend(7) for _ in range(100)]'
    running = [subprocess.Popen([sys.executable, '-c', code, str(file)]) for _ in range(2)]
    with ThreadPoolExecutor(8) as pool, ExitStack() as stack:
        stores = [stack.enter_context(closing(RowStore(file))) for _ in range(8)]
        list(pool.map(lambda number: stores[number % 8].spend(number), range(201)))
        assert [one.wait(60) for one in running] == [0, 0]
        assert stores[0].spent == 200 * 201 // 2 + 2 * 100 * 7


def test_a_flag_stops_the_run_until_it_is_cleared(tmp_path):
    budget = RowStore(tmp_path / 'x')
    budget.stop()
    with pytest.raises(RunStopped, match='stopped'):
        RowStore(tmp_path / 'x').check()
    budget.stop(False)
    budget.check()


class Billing(LM):
    """Replies or fails at a given price, now and then from a record."""

    name = 'billing'

    def __init__(self, bills):
        self.bills, self.asked = iter(bills), 0

    def call(self, role, /, **inputs):
        self.asked += 1
        kind, usage = next(self.bills)
        if kind == 'fails':
            raise ServerError('down', usage)
        return replace(RuleLM().call(ANSWER, **inputs), usage=usage, cached=kind == 'cached')


@given(
    st.lists(
        st.tuples(st.sampled_from(['answers', 'fails', 'cached']), usages, st.sampled_from(['one', 'two'])), max_size=6
    ),
    st.integers(0, 10**7),
)
@settings(max_examples=20)
def test_every_call_is_counted_and_every_paid_one_is_in_the_budget(bills, limit):
    with tempfile.TemporaryDirectory() as folder:
        lm = Billing([bill[:2] for bill in bills])
        counted, expected, paid, stopped = UsageCounter(lm, RowStore(Path(folder) / 'x', limit)), {}, 0, 0
        for kind, usage, name in bills:
            role = replace(ANSWER, name=name)
            if paid >= limit:
                stopped += 1
                with pytest.raises(RunStopped):
                    counted.call(role, question='Who?', lines=[])
                continue
            try:
                counted.call(role, question='Who?', lines=[])
                assert kind != 'fails'
            except LMError:
                assert kind == 'fails'
            expected[name] = expected.get(name, Usage()) + usage
            paid += usage.tokens if kind != 'cached' else 0
        assert (counted.usage, counted.budget.spent, lm.asked) == (expected, paid, len(bills) - stopped)
        assert counted.prompts == dict.fromkeys(expected, prompt_hash(ANSWER))


def test_a_recorded_reply_is_counted_twice_and_paid_once(tmp_path):
    lm = RecordedLM(ScriptedLM([{'answer': 'x', 'sources': []}], 'script'), tmp_path / 'replies.sqlite')
    counted = UsageCounter(lm, RowStore(tmp_path / 'rows.sqlite', 10**6))
    first, second = (counted.call(ANSWER, question='Who?', lines=[]) for _ in range(2))
    assert second.cached and counted.budget.spent == first.usage.tokens
    assert counted.usage == {ANSWER.name: first.usage + first.usage}


@given(st.text(max_size=4), st.text(max_size=4), st.text(max_size=4), st.text(max_size=4))
def test_two_prompts_have_one_hash_only_if_they_are_the_same(system, user, system2, user2):
    first, second = replace(ANSWER, system=system, user=user), replace(ANSWER, system=system2, user=user2)
    if '\0' not in system + user + system2 + user2:
        assert (prompt_hash(first) == prompt_hash(second)) == ((system, user) == (system2, user2))
    assert prompt_hash(replace(first, name='other')) == prompt_hash(first)


class Noting(DryRunLM):
    """A dry run that keeps the replies."""

    def __init__(self):
        object.__setattr__(self, 'said', [])

    def call(self, role, /, **inputs):
        call = super().call(role, **inputs)
        self.said.append(call.reply.model_dump_json())
        return call


def asked_with(name, lm):
    """The counter of a method that is built and asked with an lm, and its trace."""
    counted, method = UsageCounter(lm), METHODS[name]
    memory = method.memory.build(SMALL, counted)
    return counted, method.make(memory, SMALL, counted, turns=5, stop=False).ask(QUESTION, budget=5)


@pytest.mark.parametrize('name', ['rag', 'memr3', 'remem', 'mragent', 'memma', 'self-rag', 'full-context'])
def test_a_model_that_goes_the_same_way_costs_what_the_dry_run_said(name):
    dry = Noting()
    before, foretold = asked_with(name, dry)
    script = iter(dry.said)
    after, trace = asked_with(name, FunctionLM(lambda prompt: next(script)))
    assert next(script, None) is None
    assert trace.error is None and (trace.answer, trace.read) == (foretold.answer, foretold.read)
    assert after.usage == before.usage and after.prompts == before.prompts
    assert sum(usage.calls for usage in before.usage.values()) == len(dry.said) > 0


@given(st.integers(0, 30_000))
@settings(max_examples=10)
def test_a_run_spends_more_than_its_budget_by_less_than_one_call(limit):
    dry, method = Noting(), METHODS['memr3']
    memory = MEMORIES['turns'].build(SMALL, RuleLM())
    foretold = method.make(memory, SMALL, dry).ask(QUESTION)
    bills = [step.usage.tokens for step in foretold.steps if step.kind == 'model']
    script = iter(dry.said)
    with tempfile.TemporaryDirectory() as folder:
        budget, stopped = RowStore(Path(folder) / 'x', limit), False
        try:
            method.make(memory, SMALL, UsageCounter(FunctionLM(lambda prompt: next(script)), budget)).ask(QUESTION)
        except RunStopped:
            stopped = True
        assert stopped == any(sum(bills[:place]) >= limit for place in range(len(bills)))
        assert budget.spent - limit < max(bills)
