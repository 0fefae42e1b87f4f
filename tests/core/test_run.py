"""One question on its way: whatever a loop searches and asks, and whatever a model does, the books are right."""

from datetime import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from memnb.baselines import RAG
from memnb.memr3.loop import MemR3
from memnb.core.roles import lines_with_ids, NO_INFORMATION, rule, RULES
from memnb.retrieval.vectors import EmbedderError
from memnb.core.models import OpenAILM, ScriptedLM
from memnb.core.roles import Call, LM, LMError, ReplyError, Role, RuleLM, ServerError, Usage
from memnb.core.models import RecordedLM
from memnb.core.loop import Loop
from memnb.core.run import MemoryFailed, Run
from memnb.core.conversation import Question, Snippet
from memnb.evaluation.rows import score, scored_answer
from memnb.core.retriever import Hit
from memnb.core.time import TimeSpan
from memnb.core.trace import ToolStep
from memnb.core.tools import Observation, Tool, ToolError
from memnb.core.trace import NoteStep, Trace
from servers import KEY, Server, authorization, chat, fail


class Echo(BaseModel):
    "A reply of one word."

    word: str


ROLES = {name: Role(name, 'Say it.', '{word}', Echo, shows_messages=False) for name in ('say', 'repeat')}
for name in ROLES:
    rule(name)(lambda word: Echo(word=word))

turn_ids = st.sampled_from([f'D1:{place}' for place in range(1, 9)])
snippets = st.builds(
    Snippet, st.sampled_from('abcdefgh'), st.just('some words'), st.lists(turn_ids, max_size=3, unique=True).map(tuple)
)
stores = st.lists(st.lists(snippets, max_size=5, unique_by=lambda snippet: snippet.id), min_size=1, max_size=6)
usages = st.builds(Usage, st.integers(0, 3), st.integers(0, 99), st.integers(0, 99), st.booleans())
acts = st.one_of(
    st.tuples(st.just('search'), st.integers(0, 6), st.sets(st.sampled_from('abcdefgh'), max_size=3)),
    st.tuples(st.just('ask'), st.sampled_from(sorted(ROLES)), st.none() | usages),
    st.tuples(st.just('note'), st.text(max_size=5), st.none()),
)
plans = st.lists(acts, max_size=10)


class Costly(LM):
    "Answers or fails as a list of (usage, fails) says; the usage comes back either way."

    name = 'costly'

    def __init__(self, script):
        self.script = list(script)

    def call(self, role, /, **inputs):
        usage, fails = self.script.pop(0)
        if fails:
            raise ServerError('gone', usage)
        return Call(role.name, RULES[role.name](**inputs), usage, system='s', user='u')


class Store:
    "Gives the next list at each search, as far as it is asked for."

    def __init__(self, pages):
        self.pages, self.turn = pages, 0

    def search(self, query, k=10, *, exclude=(), during=None):
        page = self.pages[self.turn % len(self.pages)]
        self.turn += 1
        return [Hit(snippet) for snippet in page if snippet.id not in exclude][:k]


class Planned(Loop):
    "Does what a plan says."

    method = 'planned'

    def __init__(self, memory, lm, plan):
        super().__init__(memory, lm)
        self.plan, self.seen = plan, []

    def steps(self, run):
        for place, (act, what, extra) in enumerate(self.plan):
            if act == 'search':
                self.seen.append(run.search(f'query {place}', what, place, extra))
            elif act == 'ask':
                assert run.ask(ROLES[what], word=f'{place}') == Echo(word=f'{place}')
            else:
                run.note(NoteStep(iteration=place, text=what))
        run.answer('done', ['D1:2', 'D1:1', 'D1:2'], draft='nearly')


def planned(pages, plan, budget):
    """The loop and its trace; an ask without a usage in the plan fails, at a cost of one call."""
    script = [(extra or Usage(1, 5), extra is None) for act, _, extra in plan if act == 'ask']
    loop = Planned(Store(pages), Costly(script), plan)
    return loop, loop.ask('what?', budget=budget)


@given(stores, plans, st.none() | st.integers(0, 9))
@settings(max_examples=70)
def test_the_books_are_those_of_a_plain_recount(pages, plan, budget):
    loop, trace = planned(pages, plan, budget)
    done, failed = [], False
    for act in plan:
        done.append(act)
        failed = act[0] == 'ask' and act[2] is None
        if failed:
            break
    spent = {}
    for act, role, usage in done:
        if act == 'ask':
            spent[role] = spent.get(role, Usage()) + (usage or Usage(1, 5))
    assert trace.usage == spent and trace.total == sum(spent.values(), Usage())
    assert [step.kind for step in trace.steps] == [
        {'search': 'search', 'ask': 'model', 'note': 'note'}[act] for act, _, _ in done
    ] + ([] if failed else ['answer'])
    assert trace.error == ('ServerError: gone' if failed else None)
    assert (trace.answer, trace.evidence) == ((None, []) if failed else ('done', ['D1:2', 'D1:1']))
    assert (trace.question, trace.method, trace.model) == ('what?', 'planned', 'costly')
    for step, (act, what, extra) in zip(trace.steps, done):
        if act == 'ask':
            assert (step.role, step.usage) == (what, extra or Usage(1, 5))
            assert (step.error, step.reply) == ((None, {'word': step.reply['word']}) if extra else ('gone', None))
            assert (step.system, step.user) == (('s', 'u') if extra else ('Say it.', str(trace.steps.index(step))))
        elif act == 'search':
            assert (step.k, step.masked) == (what, len(extra))
    assert Trace.from_json(trace.to_json()) == trace


@given(stores, plans, st.none() | st.integers(0, 9))
@settings(max_examples=70)
def test_what_is_read_is_what_was_shown_and_no_more_than_the_budget(pages, plan, budget):
    loop, trace = planned(pages, plan, budget)
    shown = [turn for hits in loop.seen for hit in hits for turn in hit.snippet.sources or (hit.snippet.id,)]
    assert trace.read == list(dict.fromkeys(shown))
    assert budget is None or len(trace.read) <= budget
    searches = [step for step in trace.steps if step.kind == 'search']
    assert [[seen.id for seen in step.hits] for step in searches] == [
        [hit.snippet.id for hit in hits] for hits in loop.seen
    ]
    assert [step.query for step in searches] == [
        f'query {place}' for place, act in enumerate(plan) if act[0] == 'search'
    ][: len(searches)]
    for hits, (_, k, exclude) in zip(loop.seen, [act for act in plan if act[0] == 'search']):
        assert len(hits) <= k and not exclude & {hit.snippet.id for hit in hits}
    free = planned(pages, plan, None)[1]
    if budget is None or budget >= len(free.read):
        assert trace == free, 'a budget that suffices changes nothing'


class Once(Loop):
    "Asks one role and answers with its word."

    def steps(self, run):
        reply = run.ask(ROLES['say'], word=run.question)
        run.answer(reply.word)


@pytest.mark.parametrize(
    'error', [LMError('lost'), ServerError('gone', Usage(2, 7)), ReplyError('odd', raw='x', role='answer')]
)
def test_every_failure_of_a_model_ends_in_the_trace(error):
    script = ScriptedLM([error])
    trace = Once(None, script).ask('why?')
    assert trace.error == f'{type(error).__name__}: {error}'
    assert trace.answer is None and trace.steps[-1].error == str(error) and trace.usage['say'] == error.usage
    assert Once(None, ScriptedLM([error, {'word': 'fine'}])).ask('why?').answer is None
    assert (trace.steps[-1].system, trace.steps[-1].user) == ('Say it.', 'why?')
    assert (trace.steps[-1].raw, trace.steps[-1].attempts) == (
        getattr(error, 'raw', None),
        getattr(error, 'attempts', 1),
    )
    again = Once(None, ScriptedLM([{'word': 'fine'}]))
    assert again.ask('why?').answer == 'fine', 'the next question is not harmed'


def test_what_a_model_said_is_kept_whether_or_not_it_could_be_read(tmp_path):
    once = Once(None, ScriptedLM(['well', '<think>hm</think>{"word": "fine"}'])).ask('why?').steps[0]
    assert (once.raw, once.attempts, once.cached, once.error) == ('<think>hm</think>{"word": "fine"}', 2, False, None)
    never = Once(None, ScriptedLM(['well', 'perhaps'])).ask('why?').steps[0]
    assert (never.raw, never.attempts, never.user) == ('perhaps', 2, 'why?') and 'no usable reply' in never.error
    record = RecordedLM(ScriptedLM([{'word': 'fine'}]), tmp_path / 'replies.sqlite')
    first, second = (Once(None, record).ask('why?').steps[0] for _ in range(2))
    assert (first.cached, second.cached) == (False, True) and first.raw == second.raw == '{"word": "fine"}'


@pytest.mark.parametrize(
    'answer', [chat(authorization), chat(lambda request: {'word': authorization(request)}), fail(401, authorization)]
)
def test_a_key_that_the_server_quotes_is_not_in_the_trace(answer, monkeypatch):
    monkeypatch.setenv('NO_PROXY', '127.0.0.1')
    with Server(answer) as server:
        trace = Once(None, OpenAILM('toy', server.url, KEY, max_retries=0, timeout=10)).ask('why?')
        assert KEY in server.requests[0]['_headers']['authorization']
    written = trace.to_json() + trace._repr_html_() + str(trace)
    assert 'Bearer <key>' in written and KEY not in written


class Falls:
    "Searches well so many times, and then raises."

    def __init__(self, error, after=0):
        self.error, self.left = error, after

    def search(self, query, k=10):
        self.left -= 1
        if self.left < 0:
            raise self.error
        return [Snippet(f'{query}/{place}', 'x') for place in range(k)]


@pytest.mark.parametrize(
    'error, text',
    [
        (ConnectionError('no route\n to \x1b[31mhost'), 'ConnectionError: no route to \u241b[31mhost'),
        (TimeoutError(), 'TimeoutError'),
        (EmbedderError('down'), 'EmbedderError: down'),
        (KeyError('x'), "KeyError: 'x'"),
        (TypeError('odd'), 'TypeError: odd'),
    ],
)
def test_a_memory_that_fails_ends_the_question_and_keeps_what_was_found(error, text):
    loop = Planned(Falls(error, after=1), RuleLM(), [('search', 2, set()), ('search', 3, {'z'})])
    trace = loop.ask('who?')
    assert trace.error == f'MemoryFailed: {text}' and trace.answer is None
    assert trace.read == ['query 0/0', 'query 0/1'] and [step.error for step in trace.steps] == [None, text]
    last = trace.steps[-1]
    assert (last.query, last.k, last.masked, last.hits, last.iteration) == ('query 1', 3, 1, [], 1)
    assert Trace.from_json(trace.to_json()) == trace


def test_a_failed_memory_is_told_from_a_failed_model_and_its_cause_is_kept():
    cause = ConnectionError('x' * 1000)
    run = Run('who?', 'm', RuleLM(), Falls(cause))
    with pytest.raises(MemoryFailed) as caught:
        run.search('who?', 3, iteration=1)
    assert isinstance(caught.value, LMError) and caught.value.__cause__ is cause and len(str(caught.value)) == 300
    with pytest.raises(KeyboardInterrupt):
        Planned(Falls(KeyboardInterrupt()), RuleLM(), [('search', 1, ())]).ask('who?')


class Noted:
    """Tools that bring what a list of pages says, or count it, or refuse, or break."""

    def __init__(self, pages):
        self.pages, self.turn = pages, 0

    def page(self):
        page = self.pages[self.turn % len(self.pages)]
        self.turn += 1
        return tuple(Hit(snippet) for snippet in page)

    def show(self) -> Observation:
        "Show a page."
        page = self.page()
        return Observation(f'Found {len(page)}', page)

    def show_page(self, number: int) -> Observation:
        "Show the page of a number."
        return self.show()

    def count(self) -> Observation:
        "Count a page."
        page = self.page()
        return Observation(f'There are {len(page)}', page, value=len(page))

    def refuse(self) -> Observation:
        "Refuse."
        raise ToolError('how: expected\nanother way')

    def search(self, query, k=10, *, exclude=(), during=None):
        return [Hit(snippet) for snippet in self.pages[-1] if snippet.id not in exclude][:k]


@given(
    stores,
    st.lists(st.sampled_from(['show', 'count', 'refuse', 'wrong', 'search']), max_size=8),
    st.none() | st.integers(0, 9),
    st.booleans(),
)
@settings(max_examples=80)
def test_what_tools_show_is_read_in_order_and_paid(pages, acts, budget, with_memory):
    noted, free = Noted(pages), Noted(pages)
    run = Run('what?', 'm', RuleLM(), noted if with_memory else None, budget=budget)
    seen, known = [], []
    for place, act in enumerate(acts):
        if act == 'search':
            if with_memory:
                seen.append(run.search('q', 5, place))
                known += [turn for hit in seen[-1] for turn in hit.snippet.sources or (hit.snippet.id,)]
            continue
        if act == 'wrong':
            got = run.use(Tool.of(noted.show_page), {}, place)
            assert got.error and 'number: Field required (its arguments: number)' in got.note
        else:
            got = run.use(Tool.of(getattr(noted, act)), {}, place, f'because {place}')
        seen.append(got.hits)
        known += [turn for hit in got.hits for turn in hit.snippet.sources or (hit.snippet.id,)]
        if act in ('show', 'count'):
            whole = getattr(free, act)()
            assert got.hits == whole.hits[: len(got.hits)] and not got.error
            if len(got.hits) == len(whole.hits):
                assert got == whole
            else:
                assert got.value is None and got.note == f'The budget shows {len(got.hits)} of what {act} found'
                cost = {*(whole.hits[len(got.hits)].snippet.sources or (whole.hits[len(got.hits)].snippet.id,))} - set(
                    known
                )
                assert len(set(known)) + len(cost) > budget, 'the first that is left out could not be paid'
        elif act == 'refuse':
            assert got == Observation('how: expected another way', error=True)
        step = run.trace.steps[-1]
        assert isinstance(step, ToolStep) and step.iteration == place
        assert (step.note, step.value, step.error) == (got.note, got.value, got.error)
        assert [one.id for one in step.hits] == [hit.snippet.id for hit in got.hits]
        assert (step.tool, step.arguments, step.reasoning) == (
            ('show_page', {}, '') if act == 'wrong' else (act, {}, f'because {place}')
        )
    assert run.trace.read == list(dict.fromkeys(known))
    assert budget is None or len(run.trace.read) <= budget
    assert len(run.trace.steps) == len(seen)
    assert Trace.from_json(run.trace.to_json()) == run.trace


@pytest.mark.parametrize('error', [ConnectionError('no\nroute'), KeyError('D9:9'), TypeError('odd')])
def test_a_tool_that_breaks_ends_the_question_and_keeps_what_was_found(error):
    def look(query: str) -> Observation:
        "Look."
        if query == 'twice':
            raise error
        return Observation('Found 1', (Hit(Snippet('s1', 'words', ('D1:3',))),))

    def careless() -> Observation:
        "Bring a list."
        return ['words']

    class Uses(Loop):
        def steps(self, run):
            run.use(Tool.of(look), {'query': 'once'}, 1)
            run.use(Tool.of(look), {'query': 'twice'}, 2)

    trace = Uses(None).ask('who?')
    assert trace.error == f'MemoryFailed: {type(error).__name__}: ' + ' '.join(str(error).split())
    assert (
        trace.read == ['D1:3']
        and [step.error for step in trace.steps] == [False, True]
        and trace.steps[1].note in trace.error
    )
    with pytest.raises(MemoryFailed) as failed:
        Run('who?', 'm', RuleLM()).use(Tool.of(look), {'query': 'twice'}, 1)
    assert failed.value.__cause__ is error
    with pytest.raises(MemoryFailed, match='TypeError: careless returned a list: expected an Observation'):
        Run('who?', 'm', RuleLM()).use(Tool.of(careless), {}, 1)


def test_the_run_knows_when_it_is_asked_and_with_what():
    seen = []

    class Looks(Loop):
        def steps(self, run):
            seen.append((run.question, run.asked, run.budget, run.memory))

    day = TimeSpan.year(2024)
    trace = Looks(None).ask('who?', asked=day, budget=5)
    assert seen == [('who?', day, 5, None)] and (trace.answer, trace.model, trace.method) == (None, 'rules', 'loop')
    assert Run('who?', 'm', RuleLM(), lambda query: ['a'], budget=2).memory.remaining == 2
    assert Once(None, lambda prompt: '{"word": "yes"}').ask('who?').answer == 'yes'


def test_a_refusal_with_what_was_found_instead_counts_as_one_where_one_is_right():
    reply = {'answer': "No: it was Bo's boat", 'sources': ['a'], 'answerable': False}
    pages = [Snippet('a', 'Bo sold his boat.', ('D1:1',))]
    trace = RAG(lambda query: pages, ScriptedLM([reply])).ask('When did Ada sell her boat?')
    assert (trace.refused, trace.answer, trace.evidence) == (True, "No: it was Bo's boat", ['D1:1'])
    assert Trace.from_json(trace.to_json()).refused
    unanswerable, answered = (Question(trace.question, 'Bo', refuse=refuse) for refuse in (True, False))
    assert scored_answer(trace, unanswerable) == f"{NO_INFORMATION}. No: it was Bo's boat"
    assert (score(trace, unanswerable)['refused'], score(trace, unanswerable)['f1_locomo']) == (1, 1)
    assert scored_answer(trace, answered) == trace.answer and score(trace, answered)['refused'] == 1
    sure = RAG(lambda query: pages, ScriptedLM([reply | {'answerable': True}])).ask('Whose boat was sold?')
    assert not sure.refused and score(sure, unanswerable)['f1_locomo'] == 0
    guess = RAG(lambda query: pages, ScriptedLM([reply]), may_refuse=False).ask('When did Ada sell her boat?')
    assert not guess.refused


def test_a_line_in_a_prompt_shows_the_weekday_of_its_day():
    lines = [
        Snippet('a', 'Sold.', said=datetime(2024, 5, 4, 10), speaker='Ada'),
        Snippet('b', 'Sold.', time=TimeSpan.month(2024, 5)),
        Snippet('c', '[sic] Sold.'),
    ]
    assert lines_with_ids(lines) == ['(a) [Sat 4 May 2024] Ada: Sold.', '(b) [May 2024] Sold.', '(c) [sic] Sold.']


def test_the_model_words_the_first_search_where_it_is_asked_to():
    asked_of_store = []

    def store(query):
        asked_of_store.append(query)
        return [Snippet('a', 'Ada sold the boat in May.', ('D1:1',))]

    question, answer = 'When did Ada sell the thing that floats?', {'answer': 'in May', 'sources': ['a']}
    trace = RAG(store, ScriptedLM([{'query': ' Ada sold her boat '}, answer]), first_query=True).ask(question)
    assert asked_of_store == ['Ada sold her boat'] and trace.answer == 'in May'
    assert [step.query for step in trace.steps if step.kind == 'search'] == ['Ada sold her boat']
    for reply in ('{', {'query': ' '}):
        asked_of_store.clear()
        script = [reply, reply, answer] if reply == '{' else [reply, answer]
        trace = RAG(store, ScriptedLM(script), first_query=True).ask(question)
        assert asked_of_store == [question] and trace.answer == 'in May'
        assert bool(trace.fallback) == (reply == '{')
    track = {'evidence': [], 'gaps': ['the day'], 'decision': 'answer', 'detailed_answer': 'in May'}
    model = ScriptedLM([{'query': 'Ada sold her boat'}, track, answer])
    MemR3(store, model, first_query=True).ask(question)
    assert '# Queries so far\n- Ada sold her boat\n' in model.prompts[1][2]
