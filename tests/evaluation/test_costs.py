"""Costs: books that lose nothing, a purse that threads and processes share, and a rehearsal that a model's bill can be held against."""
import json
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import memnb.rules  # noqa: F401  registers the rules of the package
from memnb.core.roles import RULES, rule
from memnb.core.roles import ANSWER
from memnb.evaluation.costs import (
    as_record, as_usage, Prices, prompt_hash, Purse, Rehearsal, Stopped, Tally, total)
from memnb.evaluation.datasets import load_sample
from memnb.core.models import FunctionLM, ScriptedLM
from memnb.core.roles import Call, LM, LMError, RuleLM, ServerError, Usage
from memnb.evaluation.registry import MEMORIES, METHODS
from memnb.core.models import RecordedLM

SAMPLE = load_sample()
SMALL = replace(SAMPLE, sessions=SAMPLE.sessions[:2], questions=())
QUESTION = 'When did Tobin have his first concertina lesson?'
usages = st.builds(Usage, st.integers(0, 9), st.integers(0, 10 ** 6), st.integers(0, 10 ** 6), st.booleans())


# --- the purse -------------------------------------------------------------------------------------------------------

@given(st.lists(st.lists(st.integers(0, 10 ** 9), max_size=8), min_size=1, max_size=4), st.integers(0, 100), st.none() | st.integers(0, 10 ** 10))
def test_the_sum_is_what_all_have_spent_and_the_check_says_so_at_once(spent, since, budget):
    with tempfile.TemporaryDirectory() as folder:
        watching, known = Purse(folder, budget, since), 0
        purses = [Purse(folder) for _ in spent]
        for purse, tokens in zip(purses, spent):
            for one in tokens:
                purse.spend(one)
                known += one
                assert watching.spent() == known == Purse(folder).spent()
                if budget is not None and known - since >= budget:
                    with pytest.raises(Stopped, match=f'budget of {budget} tokens'):
                        watching.check()
                else:
                    watching.check()


def test_a_run_may_spend_its_own_budget_whatever_was_spent_before(tmp_path):
    Purse(tmp_path).spend(100)
    purse = Purse(tmp_path, 50, 100)
    purse.spend(49)
    purse.check()
    purse.spend(1)
    with pytest.raises(Stopped, match='50 tokens'):
        purse.check()


def test_threads_that_share_one_purse_lose_nothing(tmp_path):
    shared, tokens = Purse(tmp_path), range(1, 601)

    def spend(number):
        Purse(tmp_path).spend(number)
        return shared.spent()
    with ThreadPoolExecutor(8) as pool:
        seen = list(pool.map(spend, tokens))
    assert shared.spent() == Purse(tmp_path).spent() == sum(tokens)
    assert all(one <= sum(tokens) for one in seen)


def test_processes_lose_nothing(tmp_path):
    code = 'import sys; from memnb.evaluation.costs import Purse; purse = Purse(sys.argv[1]); [purse.spend(7) for _ in range(2000)]'
    running = [subprocess.Popen([sys.executable, '-c', code, str(tmp_path)]) for _ in range(2)]
    assert [one.wait(60) for one in running] == [0, 0]
    assert Purse(tmp_path).spent() == 2 * 2000 * 7


def test_a_line_that_is_not_finished_waits_for_its_end(tmp_path):
    purse = Purse(tmp_path)
    (tmp_path / 'spent').write_bytes(b'10\n2')
    assert purse.spent() == 10
    (tmp_path / 'spent').write_bytes(b'10\n25\n')
    assert purse.spent() == 35


@pytest.mark.parametrize('text', [b'10\nten\n', b'-5\n', b'1.5\n'])
def test_a_file_that_holds_no_numbers_is_named(text, tmp_path):
    (tmp_path / 'spent').write_bytes(text)
    with pytest.raises(ValueError, match='spent: expected a number of tokens a line'):
        Purse(tmp_path).spent()


@pytest.mark.parametrize('budget', [-1, 1.5, True, '10'])
def test_a_budget_that_is_none_is_refused(budget, tmp_path):
    with pytest.raises(ValueError, match='budget: expected a number of tokens'):
        Purse(tmp_path, budget)


def test_a_file_ends_the_run(tmp_path):
    Purse(tmp_path).check()
    (tmp_path / 'stop').touch()
    with pytest.raises(Stopped, match='told to stop'):
        Purse(tmp_path).check()


# --- the tally -------------------------------------------------------------------------------------------------------

for _name in ('one', 'two'):
    rule(_name)(RULES['answer'])


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
        return replace(RuleLM().call(role, **inputs), usage=usage, cached=kind == 'cached')


@given(st.lists(st.tuples(st.sampled_from(['answers', 'fails', 'cached']), usages, st.sampled_from(['one', 'two'])), max_size=8), st.integers(0, 10 ** 7))
def test_the_books_hold_every_call_and_the_purse_every_paid_one(bills, budget):
    with tempfile.TemporaryDirectory() as folder:
        lm = Billing([bill[:2] for bill in bills])
        books, expected, paid, stopped = Tally(lm, Purse(folder, budget)), {}, 0, 0
        for kind, usage, name in bills:
            role = replace(ANSWER, name=name)
            if paid >= budget:
                stopped += 1
                with pytest.raises(Stopped):
                    books.call(role, question='Who?', lines=[])
                continue
            try:
                books.call(role, question='Who?', lines=[])
                assert kind != 'fails'
            except LMError:
                assert kind == 'fails'
            expected[name] = expected.get(name, Usage()) + usage
            paid += usage.tokens if kind != 'cached' else 0
        assert (books.usage, books.purse.spent(), lm.asked) == (expected, paid, len(bills) - stopped)
        assert books.prompts == dict.fromkeys(expected, prompt_hash(ANSWER))
        assert total(books.usage) == sum(expected.values(), Usage())


def test_a_tally_looks_like_its_lm(tmp_path):
    lm = FunctionLM(str.upper, 'upper')
    assert (Tally(lm).name, Tally(lm).settings()) == ('upper', {'model': 'upper'})


def test_a_recorded_reply_is_in_the_books_twice_and_paid_once(tmp_path):
    lm = RecordedLM(ScriptedLM([{'answer': 'x', 'sources': []}], 'script'), tmp_path / 'replies.sqlite')
    books = Tally(lm, Purse(tmp_path, 10 ** 6))
    first, second = (books.call(ANSWER, question='Who?', lines=[]) for _ in range(2))
    assert second.cached and books.purse.spent() == first.usage.tokens
    assert books.usage == {ANSWER.name: first.usage + first.usage}


# --- prompts and prices ----------------------------------------------------------------------------------------------

prompts = st.text(max_size=4)


@given(prompts, prompts, prompts, prompts)
def test_two_prompts_have_one_hash_only_if_they_are_the_same(system, user, system2, user2):
    first, second = replace(ANSWER, system=system, user=user), replace(ANSWER, system=system2, user=user2)
    if '\0' not in system + user + system2 + user2:
        assert (prompt_hash(first) == prompt_hash(second)) == ((system, user) == (system2, user2))
    assert prompt_hash(replace(first, name='other')) == prompt_hash(first)


@given(st.dictionaries(st.text(max_size=3), usages, max_size=4))
def test_usages_go_through_json_and_back(usage):
    again = {role: as_usage(fields) for role, fields in json.loads(json.dumps(as_record(usage))).items()}
    assert again == usage and total(again) == total(usage)
    assert total(usage).tokens == sum(one.tokens for one in usage.values())


@given(usages, usages, st.floats(0, 100), st.floats(0, 100))
def test_prices_add_up(first, second, prompt, completion):
    prices = Prices(prompt, completion)
    assert prices.of(first + second) == pytest.approx(prices.of(first) + prices.of(second))
    assert prices.of(Usage(5, 10 ** 6, 0)) == pytest.approx(prompt) and prices.of(Usage()) == 0


@pytest.mark.parametrize('price', [-1, float('nan'), float('inf')])
def test_a_price_that_is_none_is_refused(price):
    with pytest.raises(ValueError, match='dollars from 0'):
        Prices(1, price)


# --- the rehearsal ---------------------------------------------------------------------------------------------------

class Noting(Rehearsal):
    """A rehearsal that keeps the replies."""
    def __init__(self):
        self.said = []

    def call(self, role, /, **inputs):
        call = super().call(role, **inputs)
        self.said.append(call.reply.model_dump_json())
        return call


def walked(name, lm):
    """The books of a method that is built and asked with an lm, and its trace."""
    books, method = Tally(lm), METHODS[name]
    memory = method.memory.build(SMALL, books)
    return books, method.loop(memory, SMALL, books, turns=5, stop=False).ask(QUESTION, budget=5)


@pytest.mark.parametrize('name', ['rag', 'memr3', 'remem', 'mragent', 'memma', 'self-rag', 'full-context'])
def test_a_model_that_goes_the_same_way_costs_what_was_rehearsed(name):
    rehearsal = Noting()
    before, foretold = walked(name, rehearsal)
    script = iter(rehearsal.said)
    after, trace = walked(name, FunctionLM(lambda prompt: next(script)))
    assert next(script, None) is None
    assert trace.error is None and (trace.answer, trace.read) == (foretold.answer, foretold.read)
    assert after.usage == before.usage and after.prompts == before.prompts
    assert total(before.usage).calls == len(rehearsal.said) > 0


def test_a_scripted_model_is_called_as_often():
    rehearsal = Noting()
    before, _ = walked('memr3', rehearsal)
    after, _ = walked('memr3', ScriptedLM(list(rehearsal.said)))
    assert {role: one.calls for role, one in after.usage.items()} == {role: one.calls for role, one in before.usage.items()}
    assert {role: one.completion_tokens for role, one in after.usage.items()} == {role: one.completion_tokens for role, one in before.usage.items()}


def test_a_rehearsal_changes_nothing_but_the_cost():
    call, plain = (lm.call(ANSWER, question='Who?', lines=[]) for lm in (Rehearsal(), RuleLM(render=True)))
    assert isinstance(call, Call) and replace(call, usage=Usage(), reply=plain.reply) == plain and call.reply.model_dump() == plain.reply.model_dump()
    assert call.usage.calls == 1 and call.usage.estimated


@given(st.integers(0, 30_000))
@settings(max_examples=15)
def test_a_run_spends_more_than_its_budget_by_less_than_one_call(budget):
    rehearsal = Noting()
    method = METHODS['memr3']
    memory = MEMORIES['turns'].build(SMALL, RuleLM())
    foretold = method.loop(memory, SMALL, rehearsal).ask(QUESTION)
    bills = [step.usage.tokens for step in foretold.steps if step.kind == 'model']
    script = iter(rehearsal.said)
    with tempfile.TemporaryDirectory() as folder:
        purse, stopped = Purse(folder, budget), False
        try:
            method.loop(memory, SMALL, Tally(FunctionLM(lambda prompt: next(script)), purse)).ask(QUESTION)
        except Stopped:
            stopped = True
        assert stopped == any(sum(bills[:place]) >= budget for place in range(len(bills)))
        assert purse.spent() - budget < max(bills)
