"""Our loops where LangChain and LangGraph expect them, against the real packages: what goes out is what the loop did, to the letter."""

import asyncio
import json
import sys
from datetime import date, datetime

import numpy as np
import pytest

pytest.importorskip('langgraph')
pytest.importorskip('langchain_core')

from hypothesis import given, settings, strategies as st
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphRecursionError
from langgraph.graph import END, START
from fakes import Replies
from test_memr3 import QUESTION, scenes

from memnb.adapters import frameworks
from memnb.adapters.frameworks import as_langchain_retriever, as_langgraph
from memnb.adapters.stores import Fields, snippet_of
from memnb.baselines import RAG
from memnb.core.conversation import Snippet, turn_snippets
from memnb.core.models import ScriptedLM
from memnb.core.retriever import Hit
from memnb.core.roles import LMError, ServerError
from memnb.core.time import TimeSpan
from memnb.core.trace import as_step, Trace
from memnb.evaluation.datasets import load_sample
from memnb.memr3.loop import MemR3
from memnb.memr3.router import RouterLimits
from memnb.retrieval.bm25 import LexicalIndex
from memnb.retrieval.hybrid import HybridIndex

LESSON = 'When did Tobin have his first concertina lesson?'
SCENES = settings(max_examples=20)
FEW = settings(max_examples=6)


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
    return MemR3(store, Replies(fails_at, track=replies[0], answer=[replies[1]]), **options).ask(
        QUESTION, budget=budget, **asking
    )


def loop_of(scene, fails_at=None):
    store, replies, options, _ = scene
    return MemR3(store, Replies(fails_at, track=replies[0], answer=[replies[1]]), **options)


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
def test_awaited_and_streamed_it_is_the_same(scene):
    wanted = looped(scene)
    assert trace_of(asyncio.run(as_langgraph(loop_of(scene)).ainvoke(given_to(scene)))) == wanted
    streamed = [
        as_step(json.loads(json.dumps(step)))
        for step in as_langgraph(loop_of(scene)).stream(given_to(scene), stream_mode='custom')
    ]
    assert streamed == wanted.steps


STRANGE = [
    Snippet(
        'half \ud800',
        'Ada sold \udc00 the boat.',
        ('D1:1', 'half \ud801'),
        TimeSpan(None, date(2024, 5, 3), 'day', 'long ago'),
    ),
    Snippet('', '', (), None, '', datetime(2024, 5, 4, 10, 1, 2, 3)),
    Snippet('e1', 'the boat\x00\u2028', ('e1',), position=0),
]


@pytest.mark.parametrize('score', [None, 0, float('nan'), float('inf'), True])
def test_texts_and_scores_of_any_kind_survive_the_state(score):
    scores = [score, np.float32(0.5), np.int64(3)]

    def store(query, k):
        return [Hit(snippet, one) for snippet, one in zip(STRANGE, scores)][:k]

    def script():
        return ScriptedLM(
            [
                {
                    'evidence': [{'text': 'sold \U0001f600', 'sources': ['e1', '']}],
                    'gaps': ['the\x00day'],
                    'decision': 'retrieve',
                    'retrieval_query': 'boat \u2028',
                },
                {'evidence': [], 'gaps': ['g1'], 'decision': 'reflect', 'reasoning': ''},
                {'evidence': [], 'gaps': [], 'decision': 'retrieve'},
                {'evidence': [], 'gaps': [], 'decision': 'answer', 'detailed_answer': ' '},
                {'answer': 'in \u2028 May', 'sources': ['e1']},
            ]
        )

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
    history = [
        state for state in as_langgraph(loop_of(scene), checkpointer=saver).get_state_history(at()) if state.next
    ]
    assert {'router', 'start'} <= {name for state in history for name in state.next} or trace_of(whole).error
    for state in history:
        asked = [step for step in state.values.get('trace', {}).get('steps', ()) if step['kind'] == 'model']
        loop = loop_of(scene, fails_at)
        loop.lm.heard = [(step['role'], {}) for step in asked]  # the model has answered so often
        if state.next == ('__start__',):
            continue
        assert as_langgraph(loop, checkpointer=saver).invoke(None, state.config) == whole


def test_langgraphs_own_serializer_keeps_it_too(memory, caplog):
    told = as_langgraph(MemR3(memory), checkpointer=InMemorySaver()).invoke(
        {'question': LESSON, 'asked': '2024-05-03/2024-05-03#day'}, at()
    )
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


def test_a_second_question_in_a_thread_owes_nothing_to_the_first(memory):
    graph, loop = as_langgraph(MemR3(memory), checkpointer=plain_saver()), MemR3(memory)
    span = TimeSpan.day(date(2024, 5, 3))
    first = graph.invoke({'question': LESSON, 'budget': 2, 'asked': span.isoformat()}, at())
    assert trace_of(first) == loop.ask(LESSON, budget=2, asked=span)
    again = graph.invoke({'question': 'Which kinds of chilli has Tobin grown?'}, at())
    assert trace_of(again) == loop.ask('Which kinds of chilli has Tobin grown?') and len(again['trace']['read']) > 2
    assert json.loads(graph.get_state(at()).values['walk'])['asked'] is None


def interrupted(memory, at):
    """A store that is interrupted at one of its searches, and the queries that it had."""
    asked = []

    def store(query, k):
        asked.append(query)
        if len(asked) == at:
            raise KeyboardInterrupt
        return memory.search(query, k)

    return store, asked


def test_a_question_after_one_that_broke_off_begins_anew(memory):
    store, _ = interrupted(memory, 2)
    graph = as_langgraph(MemR3(store, stop_early=False), checkpointer=plain_saver())
    with pytest.raises(KeyboardInterrupt):
        graph.invoke({'question': LESSON}, at())
    assert graph.get_state(at()).next == ('retrieve',)
    wanted = MemR3(lambda query, k: memory.search(query, k), stop_early=False)
    assert trace_of(graph.invoke({'question': 'What is Pascal?'}, at())) == wanted.ask('What is Pascal?')


def test_the_nodes_and_arrows_are_those_of_the_paper(memory):
    drawn = as_langgraph(MemR3(memory)).get_graph()
    arrows = {(edge.source, edge.target, edge.conditional) for edge in drawn.edges}
    assert set(drawn.nodes) == {START, 'start', 'retrieve', 'generate', 'router', 'reflect', 'answer', END}
    assert arrows == {
        (START, 'start', False),
        ('start', 'retrieve', False),
        ('retrieve', 'generate', True),
        ('retrieve', END, True),
        ('generate', 'router', True),
        ('generate', END, True),
        ('router', 'retrieve', True),
        ('router', 'reflect', True),
        ('router', 'answer', True),
        ('reflect', 'generate', False),
        ('answer', END, False),
    }


@pytest.mark.parametrize(
    'bad, error',
    [
        ({'question': ' '}, 'some words'),
        ({'question': 'a', 'budget': -1}, 'budget'),
        ({'question': 'a', 'asked': 'soon'}, 'START/END#GRANULARITY'),
    ],
    ids=str,
)
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
    with pytest.raises(ValueError, match='no memory to search'):
        as_langgraph(MemR3(None)).invoke({'question': 'Why?'})


# ------------------------------------------------------------------ LangChain

SNIPPETS = turn_snippets(load_sample())[:40] + [
    Snippet('gist', 'Tobin plays the concertina.', ('D1:5', 'D1:6'), TimeSpan.month(2024, 2)),
    Snippet('bare', 'A lesson.'),
]


@pytest.fixture(scope='module')
def words():
    index = LexicalIndex()
    index.add(SNIPPETS)
    return index


@pytest.mark.parametrize(
    'names', [Fields(), Fields('nr', 'what', 'when', 'at', 'who', 'turns', 'in', 'place')], ids=['own', 'other']
)
@pytest.mark.parametrize('query', [LESSON, 'concertina', 'lesson', 'zzz', ''])
def test_documents_are_the_hits(words, names, query):
    retriever = as_langchain_retriever(words, k=7, names=names)
    documents, hits = retriever.invoke(query), words.search(query, 7)
    assert isinstance(retriever, BaseRetriever) and all(isinstance(document, Document) for document in documents)
    assert [snippet_of(one.page_content, one.metadata, names, one.id) for one in documents] == [
        hit.snippet for hit in hits
    ]
    assert [one.metadata.get('score') for one in documents] == [hit.score for hit in hits]
    json.dumps([one.metadata for one in documents])
    assert asyncio.run(retriever.ainvoke(query)) == documents


def test_what_is_given_beside_the_query_goes_on(words):
    retriever, during = as_langchain_retriever(words), TimeSpan.month(2024, 2)
    for options in (
        {'k': 2},
        {'exclude': {'gist', 'D1:5'}},
        {'during': during},
        {'k': 1, 'during': during, 'exclude': ['gist']},
    ):
        wanted = [hit.snippet.id for hit in words.search('concertina lesson', **options)]
        assert [one.id for one in retriever.invoke('concertina lesson', **options)] == wanted
        assert [one.id for one in asyncio.run(retriever.ainvoke('concertina lesson', **options))] == wanted
    assert [one.id for one in retriever.invoke('concertina lesson', during=during)] == ['gist']


@SCENES
@given(scenes())
def test_a_loop_gives_the_turns_that_its_trace_cites(scene):
    wanted, traces = looped(scene), []
    documents = as_langchain_retriever(loop_of(scene), on_trace=traces.append).invoke(QUESTION, budget=scene[3])
    assert traces == [wanted]
    assert [(one.id, one.page_content, one.metadata.get('speaker'), one.metadata.get('when')) for one in documents] == [
        (seen.id, seen.text, seen.speaker, seen.when) for seen in wanted.shown_evidence()
    ]


@pytest.mark.parametrize(
    'ask',
    [lambda retriever: retriever.invoke(LESSON), lambda retriever: asyncio.run(retriever.ainvoke(LESSON))],
    ids=['sync', 'async'],
)
def test_a_loop_that_failed_raises_and_its_trace_is_kept(memory, ask):
    traces = []
    with pytest.raises(LMError, match='ServerError: gone'):
        ask(as_langchain_retriever(MemR3(memory, ScriptedLM([ServerError('gone')])), on_trace=traces.append))
    assert traces[0].error == 'ServerError: gone' and len(traces[0].read) == 5


# ------------------------------------------------------------------ without the packages


@pytest.mark.parametrize(
    'package, use',
    [
        ('langgraph', lambda: as_langgraph(MemR3(lambda query: []))),
        ('langchain_core', lambda: as_langchain_retriever(lambda query: [])),
    ],
)
def test_where_a_package_is_missing_it_says_how_to_get_it(monkeypatch, package, use):
    frameworks._retriever_class.cache_clear()
    for name in [name for name in sys.modules if name == package or name.startswith(f'{package}.')]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=r"pip install 'memnb\[interop\]'"):
        use()
    frameworks._retriever_class.cache_clear()
