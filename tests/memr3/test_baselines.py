"""The baselines over any store: what they read and cite, how they contain each other, and what is left when a model fails."""
import pytest
from hypothesis import given, settings, strategies as st

from memnb.core.roles import AnswerReply
from memnb.baselines import FullContext, RAG, RagCotRag, SelfRAG, THINK, ThoughtReply
from memnb.core.models import ScriptedLM
from memnb.core.roles import Call, LM, RuleLM, ServerError, Usage
from memnb.core.conversation import Snippet
from memnb.core.retriever import Hit, Searchable
from memnb.core.time import parse_date
from memnb.core.trace import Trace

QUESTION = 'When did Ada sell the boat?'
TURN_IDS = [f'D1:{number}' for number in range(1, 7)]
TEXTS = st.sampled_from(['', 'the boat', 'Ada sold the boat on 3 May 2024.', 'who bought it'])
SETTINGS = settings(max_examples=30, deadline=None)


class Store(Searchable):
    """The same order for the same query; it masks, as the protocol asks."""

    def __init__(self, snippets, orders):
        self.snippets, self.orders = snippets, orders

    def search(self, query, k=10, *, exclude=(), during=None):
        order = self.orders[len(query) % len(self.orders)]
        return [Hit(self.snippets[place]) for place in order if self.snippets[place].id not in exclude][:k]


class Replies(LM):
    """Says anything; `fails_at`: the number of a call that fails."""
    name = 'replies'

    def __init__(self, thoughts, final, fails_at=None):
        self.thoughts, self.final, self.fails_at, self.inputs = thoughts, final, fails_at, []

    def call(self, role, /, **inputs):
        number = len(self.inputs)
        self.inputs.append((role.name, inputs))
        if number == self.fails_at:
            raise ServerError('gone', usage=Usage(1, 1, 0))
        reply = self.final if role.name == 'answer' else self.thoughts[number % len(self.thoughts)]
        return Call(role.name, reply.model_copy(deep=True), Usage(1, 1, 1))


THOUGHTS = st.lists(st.builds(ThoughtReply, reasoning=TEXTS, decision=st.sampled_from(['retrieve', 'answer']),
                              retrieval_query=st.none() | TEXTS), min_size=1, max_size=3)
FINAL = st.builds(AnswerReply, answer=TEXTS, sources=st.lists(st.sampled_from([*TURN_IDS, 's0', 's3', 'D9:9']), max_size=3))
BUDGETS = st.none() | st.integers(0, 7)


@st.composite
def stores(draw):
    """Up to eight snippets, of several turns or none, in up to three orders."""
    count = draw(st.integers(0, 8))
    sources = st.lists(st.sampled_from(TURN_IDS), max_size=3, unique=True).map(tuple)
    snippets = [Snippet(f's{number}', draw(TEXTS), draw(sources), speaker=draw(st.sampled_from([None, 'Ada']))) for number in range(count)]
    return Store(snippets, draw(st.lists(st.permutations(range(count)), min_size=1, max_size=3)))


def loops(store, lm, k=2):
    """Each baseline over a store."""
    return [RAG(store, lm, k=k), FullContext(store.snippets, lm), RagCotRag(store, lm, k=k),
            SelfRAG(store, lm, chunks_per_iteration=k, max_iterations=3), SelfRAG(store, lm, chunks_per_iteration=k, stop_early=False)]


def of(trace, kind):
    return [step for step in trace.steps if step.kind == kind]


@SETTINGS
@given(stores(), THOUGHTS, FINAL, BUDGETS)
def test_what_is_read_is_paid_for_shown_once_and_cited_only_then(store, thoughts, final, budget):
    for loop in loops(store, Replies(thoughts, final)):
        trace = loop.ask(QUESTION, budget=budget)
        hits = [hit for step in of(trace, 'search') for hit in step.hits]
        assert trace.read == list(dict.fromkeys(turn for hit in hits for turn in hit.turns))
        assert budget is None or len(trace.read) <= budget
        assert len({hit.id for hit in hits}) == len(hits)
        assert set(trace.evidence) <= set(trace.read)
        assert (trace.answer, trace.error) == (final.answer, None)


@SETTINGS
@given(stores(), THOUGHTS, FINAL, BUDGETS)
def test_json_and_determinism(store, thoughts, final, budget):
    for first, again in zip(loops(store, Replies(thoughts, final)), loops(store, Replies(thoughts, final))):
        one, other = first.ask(QUESTION, budget=budget), again.ask(QUESTION, budget=budget)
        assert one.to_json() == other.to_json() and Trace.from_json(one.to_json()) == one


@SETTINGS
@given(stores(), THOUGHTS, FINAL)
def test_the_answer_sees_everything_that_was_read_in_order(store, thoughts, final):
    for loop in loops(store, Replies(thoughts, final)):
        before = len(loop.lm.inputs)
        trace = loop.ask(QUESTION)
        name, inputs = loop.lm.inputs[-1]
        assert name == 'answer' and len(loop.lm.inputs) > before
        assert [line.id for line in inputs['lines']] == [hit.id for step in of(trace, 'search') for hit in step.hits]


@SETTINGS
@given(stores(), THOUGHTS, FINAL, st.integers(1, 5))
def test_how_they_contain_each_other(store, thoughts, final, k):
    lm = lambda: Replies(thoughts, final)
    rag = RAG(store, lm(), k=k).ask(QUESTION)
    once = SelfRAG(store, lm(), chunks_per_iteration=k, max_iterations=1).ask(QUESTION)
    full = FullContext([hit.snippet for hit in store.search(QUESTION, k)], lm()).ask(QUESTION)
    assert (rag.read, rag.evidence) == (once.read, once.evidence) == (full.read, full.evidence)
    twice = SelfRAG(store, lm(), chunks_per_iteration=k, max_iterations=2, stop_early=False).ask(QUESTION)
    assert twice.read == RagCotRag(store, lm(), k=k).ask(QUESTION).read


@SETTINGS
@given(stores(), THOUGHTS, FINAL)
def test_self_rag_stops_when_it_is_told_and_only_then(store, thoughts, final):
    model = Replies(thoughts, final)
    trace = SelfRAG(store, model, chunks_per_iteration=1, max_iterations=4).ask(QUESTION)
    decisions = [step.reply['decision'] for step in of(trace, 'model') if step.role == 'think']
    sizes = [len(step.hits) for step in of(trace, 'search')]
    assert 'answer' not in decisions[:-1] and len(sizes) <= 4
    assert decisions[-1:] == ['answer'] or sizes[-1] == 0 or len(sizes) == 4
    queries = [step.query for step in of(trace, 'search')]
    asked = [step.reply['retrieval_query'] or '' for step in of(trace, 'model') if step.role == 'think']
    assert queries == [QUESTION] + [f'{QUESTION} {query}'.strip() for query in asked[:len(queries) - 1]]
    thoughts_seen = [inputs for name, inputs in model.inputs if name == 'think']
    assert [len(inputs['snippets']) for inputs in thoughts_seen] == [sum(sizes[:place]) for place in range(1, len(thoughts_seen) + 1)]
    assert [inputs['last_query'] for inputs in thoughts_seen] == ['', *asked[:-1]][:len(thoughts_seen)]


@SETTINGS
@given(stores(), THOUGHTS, FINAL, st.integers(0, 5))
def test_a_failure_at_any_call_keeps_what_was_read(store, thoughts, final, number):
    for loop in loops(store, None):
        loop.lm = Replies(thoughts, final)
        done = loop.ask(QUESTION)
        calls = len(of(done, 'model'))
        loop.lm = Replies(thoughts, final, number % calls)
        failed = loop.ask(QUESTION)
        assert (failed.error, failed.answer, failed.steps[-1].error) == ('ServerError: gone', None, 'gone')
        assert failed.steps[:-1] == done.steps[:len(failed.steps) - 1]
        assert failed.read == done.read[:len(failed.read)] and failed.total.calls == number % calls + 1


def test_no_thought_is_paid_for_after_the_last_look():
    store = Store([Snippet(f's{number}', '') for number in range(9)], [range(9)])
    model = Replies([ThoughtReply(reasoning='', decision='retrieve')], AnswerReply(answer='1'))
    trace = SelfRAG(store, model, chunks_per_iteration=1, max_iterations=3).ask(QUESTION)
    assert [step.kind for step in trace.steps] == ['search', 'model', 'note'] * 2 + ['search', 'model', 'answer']


def test_full_context_counts_turns_and_stops_at_the_first_that_does_not_fit():
    pages = [Snippet('p1', 'a', ('D1:1', 'D1:2')), Snippet('p2', 'b', ('D1:3', 'D1:4', 'D1:5')), Snippet('p3', 'c', ('D1:6',))]
    read = {budget: FullContext(pages).ask(QUESTION, budget=budget).read for budget in (None, 0, 1, 2, 4, 5, 6)}
    two, five, six = TURN_IDS[:2], TURN_IDS[:5], TURN_IDS
    assert read == {None: six, 0: [], 1: [], 2: two, 4: two, 5: five, 6: six}


def test_full_context_takes_any_iterable_once_and_shows_its_evidence():
    loop = FullContext(iter([Snippet('D1:1', 'I painted the boat on 3 May 2024.', ('D1:1',), time=parse_date('4 May 2024'), speaker='Ada')]))
    for _ in range(2):
        trace = loop.ask('When did Ada paint the boat?')
        assert (trace.answer, trace.evidence) == ('3 May 2024', ['D1:1'])
        assert trace.shown_evidence()[0].text.startswith('I painted')


def test_the_rule_of_a_thought_stops_where_everything_is_supported():
    said = parse_date('4 May 2024')
    enough = Snippet('a', 'I painted the boat yesterday.', ('D1:1',), time=said, speaker='Ada')
    other = Snippet('b', 'The boat is mine.', ('D1:2',), time=said, speaker='Ada')
    assert RuleLM().ask(THINK, question='When did Ada paint the boat?', snippets=[other, enough]).decision == 'answer'
    thought = RuleLM().ask(THINK, question='When did Ada paint the boat?', snippets=[other])
    assert thought.decision == 'retrieve' and 'paint' in thought.retrieval_query
    again = RuleLM().ask(THINK, question='When did Ada paint the boat?', snippets=[other], last_query=thought.retrieval_query)
    assert again.retrieval_query != thought.retrieval_query


def test_prompts_tell_question_day_snippets_and_last_query():
    script = [ThoughtReply(reasoning='no', decision='retrieve', retrieval_query='boat sale'), ThoughtReply(reasoning='yes', decision='answer'),
              AnswerReply(answer='May')]
    model = ScriptedLM(script)
    store = Store([Snippet('a', 'One.', ('D1:1',)), Snippet('b', 'Two.', ('D1:2',))], [[0, 1]])
    SelfRAG(store, model, chunks_per_iteration=1).ask(QUESTION, asked=parse_date('9 June 2024'))
    (_, _, first), (_, _, second), (_, _, final) = model.prompts
    assert QUESTION in first and 'asked on 9 June 2024' in first and '(a) One.' in first and '# Last query\nNone' in first
    assert '(a) One.' in second and '(b) Two.' in second and '# Last query\nboat sale' in second
    assert '(a) One.' in final and '(b) Two.' in final


@pytest.mark.parametrize('make, name', [
    (lambda bad: RAG(lambda query: [], k=bad), 'k'), (lambda bad: RagCotRag(lambda query: [], k=bad), 'k'),
    (lambda bad: SelfRAG(lambda query: [], chunks_per_iteration=bad), 'chunks_per_iteration'),
    (lambda bad: SelfRAG(lambda query: [], max_iterations=bad), 'max_iterations')])
@pytest.mark.parametrize('bad', [0, -3])
def test_counts_below_one_are_refused(make, name, bad):
    with pytest.raises(ValueError, match=f'{name}: expected 1 or more, got {bad}'):
        make(bad)
