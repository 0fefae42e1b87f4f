"""The baselines over any store: what they read and cite, how they contain each other, and what is left when a model fails."""

import pytest
from hypothesis import given, settings, strategies as st

from stores import stores
from fakes import of, Replies
from memnb.core.roles import AnswerReply
from memnb.baselines import FullContext, RAG, RagCotRag, SelfRAG, ThoughtReply
from memnb.core.conversation import Snippet
from memnb.core.trace import Trace

QUESTION = 'When did Ada sell the boat?'
TURN_IDS = [f'D1:{number}' for number in range(1, 7)]
TEXTS = st.sampled_from(['', 'the boat', 'Ada sold the boat on 3 May 2024.', 'who bought it'])
SETTINGS = settings(max_examples=30)


THOUGHTS = st.lists(
    st.builds(
        ThoughtReply,
        reasoning=TEXTS,
        decision=st.sampled_from(['retrieve', 'answer']),
        retrieval_query=st.none() | TEXTS,
    ),
    min_size=1,
    max_size=3,
)
FINAL = st.builds(
    AnswerReply, answer=TEXTS, sources=st.lists(st.sampled_from([*TURN_IDS, 's0', 's3', 'D9:9']), max_size=3)
)
STORES = stores(TEXTS, ('Ada',), TURN_IDS)
BUDGETS = st.none() | st.integers(0, 7)


def loops(store, lm, k=2):
    """Each baseline over a store."""
    return [
        RAG(store, lm, k=k),
        FullContext(store.snippets, lm),
        RagCotRag(store, lm, k=k),
        SelfRAG(store, lm, chunks_per_iteration=k, max_iterations=3),
        SelfRAG(store, lm, chunks_per_iteration=k, stop_early=False),
    ]


@SETTINGS
@given(STORES, THOUGHTS, FINAL, BUDGETS)
def test_what_is_read_is_paid_for_shown_once_and_cited_only_then(store, thoughts, final, budget):
    for loop in loops(store, Replies(think=thoughts, answer=[final])):
        trace = loop.ask(QUESTION, budget=budget)
        hits = [hit for step in of(trace, 'search') for hit in step.hits]
        assert trace.read == list(dict.fromkeys(turn for hit in hits for turn in hit.turns))
        assert budget is None or len(trace.read) <= budget
        assert len({hit.id for hit in hits}) == len(hits)
        assert set(trace.evidence) <= set(trace.read)
        assert (trace.answer, trace.error) == (final.answer, None)


@SETTINGS
@given(STORES, THOUGHTS, FINAL, BUDGETS)
def test_json_and_determinism(store, thoughts, final, budget):
    for first, again in zip(
        loops(store, Replies(think=thoughts, answer=[final])), loops(store, Replies(think=thoughts, answer=[final]))
    ):
        one, other = first.ask(QUESTION, budget=budget), again.ask(QUESTION, budget=budget)
        assert one.to_json() == other.to_json() and Trace.from_json(one.to_json()) == one


@SETTINGS
@given(STORES, THOUGHTS, FINAL)
def test_the_answer_sees_everything_that_was_read_in_order(store, thoughts, final):
    for loop in loops(store, Replies(think=thoughts, answer=[final])):
        before = len(loop.lm.heard)
        trace = loop.ask(QUESTION)
        name, inputs = loop.lm.heard[-1]
        assert name == 'answer' and len(loop.lm.heard) > before
        assert [line.id for line in inputs['lines']] == [hit.id for step in of(trace, 'search') for hit in step.hits]


@SETTINGS
@given(STORES, THOUGHTS, FINAL, st.integers(1, 5))
def test_how_they_contain_each_other(store, thoughts, final, k):
    lm = lambda: Replies(think=thoughts, answer=[final])
    rag = RAG(store, lm(), k=k).ask(QUESTION)
    once = SelfRAG(store, lm(), chunks_per_iteration=k, max_iterations=1).ask(QUESTION)
    full = FullContext([hit.snippet for hit in store.search(QUESTION, k)], lm()).ask(QUESTION)
    assert (rag.read, rag.evidence) == (once.read, once.evidence) == (full.read, full.evidence)
    twice = SelfRAG(store, lm(), chunks_per_iteration=k, max_iterations=2, stop_early=False).ask(QUESTION)
    assert twice.read == RagCotRag(store, lm(), k=k).ask(QUESTION).read


@SETTINGS
@given(STORES, THOUGHTS, FINAL)
def test_self_rag_stops_when_it_is_told_and_only_then(store, thoughts, final):
    model = Replies(think=thoughts, answer=[final])
    trace = SelfRAG(store, model, chunks_per_iteration=1, max_iterations=4).ask(QUESTION)
    decisions = [step.reply['decision'] for step in of(trace, 'model') if step.role == 'think']
    sizes = [len(step.hits) for step in of(trace, 'search')]
    assert 'answer' not in decisions[:-1] and len(sizes) <= 4
    assert decisions[-1:] == ['answer'] or sizes[-1] == 0 or len(sizes) == 4
    queries = [step.query for step in of(trace, 'search')]
    asked = [step.reply['retrieval_query'] or '' for step in of(trace, 'model') if step.role == 'think']
    assert queries == [QUESTION] + [f'{QUESTION} {query}'.strip() for query in asked[: len(queries) - 1]]
    thoughts_seen = [inputs for name, inputs in model.heard if name == 'think']
    assert [len(inputs['snippets']) for inputs in thoughts_seen] == [
        sum(sizes[:place]) for place in range(1, len(thoughts_seen) + 1)
    ]
    assert [inputs['last_query'] for inputs in thoughts_seen] == ['', *asked[:-1]][: len(thoughts_seen)]


@SETTINGS
@given(STORES, THOUGHTS, FINAL, st.integers(0, 5))
def test_a_failure_at_any_call_keeps_what_was_read(store, thoughts, final, number):
    for loop in loops(store, None):
        loop.lm = Replies(think=thoughts, answer=[final])
        done = loop.ask(QUESTION)
        calls = len(of(done, 'model'))
        loop.lm = Replies(number % calls, think=thoughts, answer=[final])
        failed = loop.ask(QUESTION)
        assert (failed.error, failed.answer, failed.steps[-1].error) == ('ServerError: gone', None, 'gone')
        assert failed.steps[:-1] == done.steps[: len(failed.steps) - 1]
        assert failed.read == done.read[: len(failed.read)] and failed.total.calls == number % calls + 1


def test_full_context_counts_turns_and_stops_at_the_first_that_does_not_fit():
    pages = [
        Snippet('p1', 'a', ('D1:1', 'D1:2')),
        Snippet('p2', 'b', ('D1:3', 'D1:4', 'D1:5')),
        Snippet('p3', 'c', ('D1:6',)),
    ]
    read = {budget: FullContext(pages).ask(QUESTION, budget=budget).read for budget in (None, 0, 1, 2, 4, 5, 6)}
    two, five, six = TURN_IDS[:2], TURN_IDS[:5], TURN_IDS
    assert read == {None: six, 0: [], 1: [], 2: two, 4: two, 5: five, 6: six}


@pytest.mark.parametrize(
    'make, name',
    [
        (lambda bad: RAG(lambda query: [], k=bad), 'k'),
        (lambda bad: RagCotRag(lambda query: [], k=bad), 'chunks_per_iteration'),
        (lambda bad: SelfRAG(lambda query: [], chunks_per_iteration=bad), 'chunks_per_iteration'),
        (lambda bad: SelfRAG(lambda query: [], max_iterations=bad), 'max_iterations'),
    ],
)
@pytest.mark.parametrize('bad', [0, -3])
def test_counts_below_one_are_refused(make, name, bad):
    with pytest.raises(ValueError, match=f'{name}: expected 1 or more, got {bad}'):
        make(bad)
