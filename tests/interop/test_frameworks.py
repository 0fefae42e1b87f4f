"""Our loops where LangChain and LangGraph expect them, against the real packages: what goes out is what the loop did, to the letter."""
import asyncio
import json
import pickle
import sys
import threading
from datetime import date, datetime

import pytest

pytest.importorskip('langgraph')
pytest.importorskip('langchain_core')

from hypothesis import given, settings, strategies as st  # noqa: E402
from langchain_core.documents import Document  # noqa: E402
from langchain_core.retrievers import BaseRetriever  # noqa: E402
from langgraph.checkpoint.memory import InMemorySaver  # noqa: E402
from langgraph.errors import GraphRecursionError  # noqa: E402
from langgraph.graph import END, START, StateGraph  # noqa: E402
from typing import TypedDict  # noqa: E402

from memnb.adapters import frameworks  # noqa: E402
from memnb.baselines import FullContext, RAG
from memnb.evaluation.datasets import load_sample
from memnb.adapters.frameworks import as_langchain_retriever, as_langgraph, cited_snippets
from memnb.retrieval.vectors import HybridIndex
from memnb.adapters.stores import Fields, snippet_of
from memnb.retrieval.bm25 import LexicalIndex
from memnb.core.models import ScriptedLM
from memnb.core.roles import LMError, ServerError
from memnb.memr3.loop import MemR3
from memnb.memr3.router import RouterLimits
from memnb.core.conversation import Snippet
from memnb.core.retriever import Hit
from memnb.core.conversation import turn_snippets
from memnb.core.trace import as_step
from memnb.core.time import TimeSpan
from memnb.core.trace import Trace
from test_memr3 import FINAL, QUESTION, TRACKED, Replies, scenes  # noqa: E402

LESSON = 'When did Tobin have his first concertina lesson?'
SCENES = settings(max_examples=20, deadline=None)
FEW = settings(max_examples=6, deadline=None)


@pytest.fixture(scope='module')
def memory():
    return HybridIndex(embedder=None).of(load_sample(), embedder=None)


class Json:
    """A serializer that knows JSON and nothing else."""
    def dumps_typed(self, value):
        return 'json', json.dumps(value).encode()

    def loads_typed(self, kept):
        return json.loads(kept[1])


def plain_saver():
    """A checkpointer that can keep nothing but plain values."""
    return InMemorySaver(serde=Json())


def at(thread='one'):
    return {'configurable': {'thread_id': thread}}


def looped(scene, fails_at=None, **asking):
    """What `ask` makes of a scene."""
    store, replies, options, budget = scene
    return MemR3(store, Replies(*replies, fails_at), **options).ask(QUESTION, budget=budget, **asking)


def loop_of(scene, fails_at=None):
    store, replies, options, _ = scene
    return MemR3(store, Replies(*replies, fails_at), **options)


def given_to(scene, **asking):
    return {'question': QUESTION, 'budget': scene[3], **asking}


def trace_of(told):
    return Trace.model_validate(told['trace'])

# ------------------------------------------------------------------ LangGraph: the same trace


@SCENES
@given(scenes())
def test_the_graph_gives_the_trace_of_the_loop(scene):
    wanted = looped(scene)
    told = as_langgraph(loop_of(scene)).invoke(given_to(scene))
    assert trace_of(told).to_json() == wanted.to_json()
    assert (told['answer'], told['evidence']) == (wanted.answer, wanted.evidence)
    assert set(told) == {'answer', 'evidence', 'trace'}


@SCENES
@given(scenes(), st.integers(0, 8))
def test_also_where_the_model_fails_at_any_call(scene, number):
    wanted = looped(scene, number)
    told = as_langgraph(loop_of(scene, number)).invoke(given_to(scene))
    assert trace_of(told).to_json() == wanted.to_json()


class Breaking:
    """A store that answers a few times, and then no more."""
    def __init__(self, store, times):
        self.store, self.left = store, times

    def search(self, query, k=10, *, exclude=(), during=None):
        self.left -= 1
        if self.left < 0:
            raise ConnectionError('closed')
        return self.store.search(query, k, exclude=exclude, during=during)


@SCENES
@given(scenes(), st.integers(0, 3))
def test_also_where_the_memory_fails_at_any_search(scene, times):
    store, *rest = scene
    wanted = looped((Breaking(store, times), *rest))
    told = as_langgraph(loop_of((Breaking(store, times), *rest))).invoke(given_to(scene))
    assert trace_of(told).to_json() == wanted.to_json()
    assert wanted.error is None or wanted.error.startswith('MemoryFailed: ConnectionError')


@FEW
@given(scenes())
def test_the_day_of_asking_arrives_as_a_span_or_as_text(scene):
    span = TimeSpan(date(2024, 5, 1), None, 'month')
    wanted = looped(scene, asked=span)
    for asked in (span, span.isoformat()):
        loop = loop_of(scene)
        assert trace_of(as_langgraph(loop).invoke(given_to(scene, asked=asked))).to_json() == wanted.to_json()
        assert all(inputs['asked'] == span for _, inputs in loop.lm.inputs)


@FEW
@given(scenes())
def test_awaited_and_streamed_it_is_the_same(scene):
    wanted = looped(scene)
    assert trace_of(asyncio.run(as_langgraph(loop_of(scene)).ainvoke(given_to(scene)))) == wanted
    streamed = [as_step(json.loads(json.dumps(step))) for step in as_langgraph(loop_of(scene)).stream(given_to(scene), stream_mode='custom')]
    assert streamed == wanted.steps


@pytest.mark.parametrize('switches', [{}, {'mask': False}, {'refine': False}, {'reflect': False}, {'monotone': False},
                                      {'stop_early': False}, {'released': True}], ids=str)
def test_by_rules_on_the_sample(memory, switches):
    questions = [question.text for question in load_sample().questions][::9]
    graph, loop = as_langgraph(MemR3(memory, **switches)), MemR3(memory, **switches)
    for question in questions:
        assert trace_of(graph.invoke({'question': question})) == loop.ask(question)


def test_with_a_scripted_model_that_is_refused_and_answers_again(memory):
    script = ['no JSON at all', {'evidence': [{'text': 'Tobin plays.', 'sources': ['D1:5']}], 'gaps': ['the day'], 'decision': 'retrieve'},
              {'evidence': [], 'gaps': [], 'decision': 'answer', 'detailed_answer': 'in January'}, {'answer': 'January', 'sources': ['e1']}]
    wanted = MemR3(memory, ScriptedLM(script)).ask(LESSON)
    assert wanted.answer == 'January' and wanted.total.calls == 4
    assert trace_of(as_langgraph(MemR3(memory, ScriptedLM(script))).invoke({'question': LESSON})) == wanted
    short = trace_of(as_langgraph(MemR3(memory, ScriptedLM(script[:3]))).invoke({'question': LESSON}))
    assert short == MemR3(memory, ScriptedLM(script[:3])).ask(LESSON) and 'run out' in short.error


STRANGE = [Snippet('half \ud800', 'Ada sold \udc00 the boat.', ('D1:1', 'half \ud801'), TimeSpan(None, date(2024, 5, 3), 'day', 'long ago')),
           Snippet('', '', (), None, '', datetime(2024, 5, 4, 10, 1, 2, 3)), Snippet('e1', 'the boat\x00\u2028', ('e1',), position=0)]


@pytest.mark.parametrize('score', [None, 0, float('nan'), float('inf'), True])
def test_texts_and_scores_of_any_kind_survive_the_state(score):
    import numpy as np
    scores = [score, np.float32(.5), np.int64(3)]

    def store(query, k):
        return [Hit(snippet, one) for snippet, one in zip(STRANGE, scores)][:k]

    def script():
        return ScriptedLM([{'evidence': [{'text': 'sold \U0001f600', 'sources': ['e1', '']}], 'gaps': ['the\x00day'], 'decision': 'retrieve',
                            'retrieval_query': 'boat \u2028'}, {'evidence': [], 'gaps': ['g1'], 'decision': 'reflect', 'reasoning': ''},
                           {'evidence': [], 'gaps': [], 'decision': 'retrieve'},
                           {'evidence': [], 'gaps': [], 'decision': 'answer', 'detailed_answer': ' '}, {'answer': '', 'sources': ['e1']}])

    def loop():
        return MemR3(store, script(), chunks_per_iteration=3, mask=False)

    wanted = loop().ask('boat?', budget=4)
    told = as_langgraph(loop(), checkpointer=plain_saver()).invoke({'question': 'boat?', 'budget': 4}, at())
    assert wanted.error is None and [len(step.hits) for step in wanted.steps if step.kind == 'search'] == [3, 3, 3]
    assert trace_of(told).to_json() == wanted.to_json()

# ------------------------------------------------------------------ LangGraph: limits, threads, checkpoints


@pytest.mark.parametrize('rounds', [1, 2, 9, 15])
def test_the_recursion_limit_is_just_enough(memory, rounds):
    loop = MemR3(memory, limits=RouterLimits(rounds), chunks_per_iteration=1, stop_early=False)
    graph = as_langgraph(loop)
    assert trace_of(graph.invoke({'question': LESSON})) == loop.ask(LESSON)
    with pytest.raises(GraphRecursionError):
        graph.invoke({'question': LESSON}, {'recursion_limit': graph.config['recursion_limit'] - 1})


@FEW
@given(scenes(), st.integers(0, 12))
def test_a_new_graph_goes_on_from_any_checkpoint(scene, fails_at):
    saver = plain_saver()
    whole = as_langgraph(loop_of(scene, fails_at), checkpointer=saver).invoke(given_to(scene), at())
    history = [state for state in as_langgraph(loop_of(scene), checkpointer=saver).get_state_history(at()) if state.next]
    assert {'router', 'start'} <= {name for state in history for name in state.next} or trace_of(whole).error
    for state in history:
        asked = [step for step in state.values.get('trace', {}).get('steps', ()) if step['kind'] == 'model']
        loop = loop_of(scene, fails_at)
        loop.lm.inputs = [(step['role'], {}) for step in asked]  # the model has answered so often
        if state.next == ('__start__',):
            continue
        assert as_langgraph(loop, checkpointer=saver).invoke(None, state.config) == whole


def test_langgraphs_own_serializer_keeps_it_too(memory, caplog):
    told = as_langgraph(MemR3(memory), checkpointer=InMemorySaver()).invoke({'question': LESSON, 'asked': '2024-05-03/2024-05-03#day'}, at())
    assert trace_of(told) == MemR3(memory).ask(LESSON) and not caplog.records  # it warns of what it does not know


@FEW
@given(scenes())
def test_the_state_is_plain_and_the_same_each_time(scene):
    def kept():
        graph = as_langgraph(loop_of(scene), checkpointer=plain_saver())
        graph.invoke(given_to(scene), at())
        return [state.values for state in graph.get_state_history(at())]
    first = kept()
    assert json.loads(json.dumps(first)) == first == kept()
    masks = [json.loads(state['walk'])['now']['shown'] for state in first if 'walk' in state]
    assert all(mask == sorted(mask) for mask in masks)  # no order of a set of this process


def test_a_second_question_in_a_thread_owes_nothing_to_the_first(memory):
    graph, loop = as_langgraph(MemR3(memory), checkpointer=plain_saver()), MemR3(memory)
    span = TimeSpan.day(date(2024, 5, 3))
    first = graph.invoke({'question': LESSON, 'budget': 2, 'asked': span.isoformat()}, at())
    assert trace_of(first) == loop.ask(LESSON, budget=2, asked=span)
    again = graph.invoke({'question': 'Which kinds of chilli has Tobin grown?'}, at())
    assert trace_of(again) == loop.ask('Which kinds of chilli has Tobin grown?') and len(again['trace']['read']) > 2
    assert json.loads(graph.get_state(at()).values['walk'])['asked'] is None


def test_a_question_after_one_that_broke_off_begins_anew(memory):
    asked = []

    def store(query, k):
        asked.append(query)
        if len(asked) == 2:
            raise KeyboardInterrupt
        return memory.search(query, k)

    loop = MemR3(store, stop_early=False)
    graph = as_langgraph(loop, checkpointer=plain_saver())
    with pytest.raises(KeyboardInterrupt):
        graph.invoke({'question': LESSON}, at())
    assert graph.get_state(at()).next == ('retrieve',)
    wanted = MemR3(lambda query, k: memory.search(query, k), stop_early=False)
    assert trace_of(graph.invoke({'question': 'What is Pascal?'}, at())) == wanted.ask('What is Pascal?')


def test_what_broke_off_goes_on_where_it_broke(memory):
    asked = []

    def store(query, k):
        asked.append(query)
        if len(asked) == 3:
            raise KeyboardInterrupt
        return memory.search(query, k)

    graph = as_langgraph(MemR3(store, stop_early=False), checkpointer=plain_saver())
    with pytest.raises(KeyboardInterrupt):
        graph.invoke({'question': LESSON, 'budget': 17}, at())
    wanted = MemR3(lambda query, k: memory.search(query, k), stop_early=False).ask(LESSON, budget=17)
    assert trace_of(graph.invoke(None, at())) == wanted
    assert len(asked) == 1 + sum(step.kind == 'search' for step in wanted.steps)  # only the broken search was made again


def test_a_failed_walk_can_be_taken_up_before_the_failure(memory):
    script = [{'evidence': [], 'gaps': ['the day'], 'decision': 'retrieve', 'retrieval_query': 'lesson'}, ServerError('gone'),
              {'evidence': [], 'gaps': [], 'decision': 'answer', 'detailed_answer': 'January'}, {'answer': 'January', 'sources': []}]
    graph = as_langgraph(MemR3(memory, ScriptedLM(script)), checkpointer=plain_saver())
    assert graph.invoke({'question': LESSON}, at())['trace']['error'] == 'ServerError: gone'
    before = next(state for state in graph.get_state_history(at()) if state.next == ('generate',))
    told = graph.invoke(None, before.config)
    assert (told['answer'], told['trace']['error']) == ('January', None)


def test_a_person_may_stop_it_and_turn_it_round(memory):
    graph = as_langgraph(MemR3(memory), checkpointer=plain_saver(), interrupt_before=['answer'])
    stopped = graph.invoke({'question': LESSON}, at())
    assert stopped['answer'] is None and graph.get_state(at()).next == ('answer',)
    graph.update_state(at(), {'action': 'retrieve'}, as_node='router')
    graph.invoke(None, at())
    told = graph.invoke(None, at())
    assert told['answer'] == '8 January 2024' and len(told['trace']['read']) == 10


def test_the_nodes_and_arrows_are_those_of_the_paper(memory):
    drawn = as_langgraph(MemR3(memory)).get_graph()
    arrows = {(edge.source, edge.target, edge.conditional) for edge in drawn.edges}
    assert set(drawn.nodes) == {START, 'start', 'retrieve', 'generate', 'router', 'reflect', 'answer', END}
    assert arrows == {(START, 'start', False), ('start', 'retrieve', False), ('retrieve', 'generate', True), ('retrieve', END, True),
                      ('generate', 'router', True), ('generate', END, True), ('router', 'retrieve', True), ('router', 'reflect', True),
                      ('router', 'answer', True), ('reflect', 'generate', False), ('answer', END, False)}


def test_it_is_a_part_of_a_larger_graph(memory):
    class Chat(TypedDict, total=False):
        question: str
        answer: str
        reply: str

    loop = MemR3(memory, limits=RouterLimits(12), chunks_per_iteration=1, stop_early=False)
    chat = StateGraph(Chat)
    chat.add_node('remember', as_langgraph(loop))
    chat.add_node('polite', lambda state: {'reply': f"It was {state['answer']}, I think."})
    chat.add_edge(START, 'remember')
    chat.add_edge('remember', 'polite')
    chat.add_edge('polite', END)
    assert chat.compile().invoke({'question': LESSON})['reply'] == f'It was {loop.ask(LESSON).answer}, I think.'


def test_what_can_be_pickled(memory):
    loop = pickle.loads(pickle.dumps(MemR3(memory)))
    assert trace_of(as_langgraph(loop).invoke({'question': LESSON})) == MemR3(memory).ask(LESSON)


@pytest.mark.parametrize('bad, error', [({'question': ' '}, 'some words'), ({'question': 'a', 'budget': -1}, 'budget'),
                                        ({'question': 'a', 'asked': 'soon'}, 'START/END#GRANULARITY')], ids=str)
def test_what_is_refused_when_asked(memory, bad, error):
    with pytest.raises(ValueError, match=error):
        as_langgraph(MemR3(memory)).invoke(bad)


def test_what_is_no_memr3_is_refused(memory):
    class Other(MemR3):
        def steps(self, run):
            run.answer('42')

    for loop in (RAG(memory), Other(memory), memory, None):
        with pytest.raises(TypeError, match='expected a MemR3'):
            as_langgraph(loop)


def test_without_a_memory_it_says_what_the_loop_says():
    with pytest.raises(ValueError, match='no memory to search'):
        as_langgraph(MemR3(None)).invoke({'question': 'Why?'})

# ------------------------------------------------------------------ LangChain


SNIPPETS = turn_snippets(load_sample())[:40] + [
    Snippet('gist', 'Tobin plays the concertina.', ('D1:5', 'D1:6'), TimeSpan.month(2024, 2)), Snippet('bare', 'A lesson.')]


@pytest.fixture(scope='module')
def words():
    index = LexicalIndex()
    index.add(SNIPPETS)
    return index


@pytest.mark.parametrize('names', [Fields(), Fields('nr', 'what', 'when', 'at', 'who', 'turns', 'in', 'place')], ids=['own', 'other'])
@pytest.mark.parametrize('query', [LESSON, 'concertina', 'lesson', 'zzz', ''])
def test_documents_are_the_hits(words, names, query):
    retriever = as_langchain_retriever(words, k=7, names=names)
    documents, hits = retriever.invoke(query), words.search(query, 7)
    assert isinstance(retriever, BaseRetriever) and all(isinstance(document, Document) for document in documents)
    assert [snippet_of(one.page_content, one.metadata, names, one.id) for one in documents] == [hit.snippet for hit in hits]
    assert [one.metadata.get('score') for one in documents] == [hit.score for hit in hits]
    json.dumps([one.metadata for one in documents])
    assert asyncio.run(retriever.ainvoke(query)) == documents
    dated = as_langchain_retriever(words, k=7, dated=True).invoke(query)
    assert [one.page_content for one in dated] == [hit.snippet.line for hit in hits]


def test_what_is_given_beside_the_query_goes_on(words):
    retriever, during = as_langchain_retriever(words), TimeSpan.month(2024, 2)
    for options in ({'k': 2}, {'exclude': {'gist', 'D1:5'}}, {'during': during}, {'k': 1, 'during': during, 'exclude': ['gist']}):
        wanted = [hit.snippet.id for hit in words.search('concertina lesson', **options)]
        assert [one.id for one in retriever.invoke('concertina lesson', **options)] == wanted
        assert [one.id for one in asyncio.run(retriever.ainvoke('concertina lesson', **options))] == wanted
    assert [one.id for one in retriever.invoke('concertina lesson', during=during)] == ['gist']


def test_a_function_or_a_foreign_store_is_a_memory_too():
    documents = as_langchain_retriever(lambda query: ['one', 'two', 'three'], k=2).invoke('any')
    assert [(one.page_content, one.metadata['id']) for one in documents] == [(text, one.id) for text, one in zip(['one', 'two'], documents)]


@SCENES
@given(scenes())
def test_a_loop_gives_what_its_trace_cites_or_read_best_first(scene):
    wanted = looped(scene)
    for cited, turns in ((True, wanted.evidence), (False, wanted.read)):
        traces = []
        documents = as_langchain_retriever(loop_of(scene), cited=cited, on_trace=traces.append).invoke(QUESTION, budget=scene[3])
        assert traces == [wanted]
        assert sorted(turn for one in documents for turn in one.metadata['cited']) == sorted(turns)
        firsts = [one.metadata['cited'][0] for one in documents]
        assert firsts == sorted(firsts, key=turns.index)
        for one in documents:
            shown = next(hit for step in wanted.steps if step.kind == 'search' for hit in step.hits if hit.id == one.id)
            assert (one.page_content, one.metadata.get('speaker'), one.metadata.get('when')) == (shown.text, shown.speaker, shown.when)
            assert set(one.metadata['cited']) <= set(shown.turns)


def test_other_loops_too(memory):
    sample = load_sample()
    for loop in (RAG(memory, k=5), FullContext(turn_snippets(sample))):
        documents, trace = as_langchain_retriever(loop).invoke(LESSON), loop.ask(LESSON)
        assert [one.id for one in documents] == trace.evidence != []


@pytest.mark.parametrize('ask', [lambda retriever: retriever.invoke(LESSON), lambda retriever: asyncio.run(retriever.ainvoke(LESSON))],
                         ids=['sync', 'async'])
def test_a_loop_that_failed_raises_and_its_trace_is_kept(memory, ask):
    traces = []
    with pytest.raises(LMError, match='ServerError: gone'):
        ask(as_langchain_retriever(MemR3(memory, ScriptedLM([ServerError('gone')])), on_trace=traces.append))
    assert traces[0].error == 'ServerError: gone' and len(traces[0].read) == 5


def test_it_waits_in_a_thread_and_serves_many_at_once(memory):
    questions = [question.text for question in load_sample().questions][:3]
    alone = [as_langchain_retriever(MemR3(memory)).invoke(question) for question in questions]
    meeting = threading.Barrier(len(questions) + 1)  # one passes when all search at once, and whoever runs the event loop is there, too
    first, traces = set(questions), []

    def search(query, **options):
        if query in first:
            first.remove(query)
            meeting.wait(30)
        return memory.search(query, **options)

    async def together():
        asked = asyncio.ensure_future(as_langchain_retriever(MemR3(search), on_trace=traces.append).abatch(questions))
        while meeting.n_waiting < len(questions) and not asked.done():
            await asyncio.sleep(.001)
        meeting.wait(30)
        return await asked

    assert asyncio.run(together()) == alone
    assert sorted(trace.question for trace in traces) == sorted(questions) and not first


def test_what_is_neither_is_refused():
    for source in (None, 3, 'text', object()):
        with pytest.raises(TypeError):
            as_langchain_retriever(source)


def test_the_trace_is_joined_with_what_was_shown():
    trace = Trace(question='q', method='m', model='x', evidence=['t2', 'gone', 't1'], steps=[
        {'kind': 'search', 'iteration': 1, 'query': 'q', 'k': 2, 'hits': [{'id': 'page', 'text': 'both', 'sources': ['t1', 't2']}]}])
    assert [(seen.id, seen.text, turns) for seen, turns in cited_snippets(trace)] == [('page', 'both', ['t2', 't1']), ('gone', '', ['gone'])]

# ------------------------------------------------------------------ without the packages


@pytest.mark.parametrize('package, use', [('langgraph', lambda: as_langgraph(MemR3(lambda query: []))),
                                          ('langchain_core', lambda: as_langchain_retriever(lambda query: []))])
def test_where_a_package_is_missing_it_says_how_to_get_it(monkeypatch, package, use):
    frameworks._retriever_class.cache_clear()
    for name in [name for name in sys.modules if name == package or name.startswith(f'{package}.')]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=r"pip install 'memnb\[interop\]'"):
        use()
    frameworks._retriever_class.cache_clear()


def test_the_module_imports_neither():
    import subprocess
    code = 'import sys, memnb.adapters.frameworks; print([name for name in sys.modules if name.split(".")[0] in ("langgraph", "langchain_core", "langsmith")])'
    assert subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True).stdout.strip() == '[]'
