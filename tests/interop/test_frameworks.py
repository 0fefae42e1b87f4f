"""Our loops where LangChain expects them, against the real packages: what goes out is what the loop did, to the letter."""

import asyncio
import json
import sys

import pytest

pytest.importorskip('langchain_core')

from hypothesis import given, settings
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from fakes import Replies
from test_memr3 import QUESTION, scenes

from memnb.adapters import frameworks
from memnb.adapters.frameworks import as_langchain_retriever
from memnb.adapters.stores import Fields, snippet_of
from memnb.core.conversation import Snippet, turn_snippets
from memnb.core.models import ScriptedLM
from memnb.core.roles import LMError, ServerError
from memnb.core.time import TimeSpan
from memnb.evaluation.datasets import load_sample
from memnb.memr3.loop import MemR3
from memnb.retrieval.bm25 import LexicalIndex
from memnb.retrieval.hybrid import HybridIndex

LESSON = 'When did Tobin have his first concertina lesson?'
SCENES = settings(max_examples=20)
FEW = settings(max_examples=6)


@pytest.fixture(scope='module')
def memory():
    return HybridIndex(embedder=None).of(load_sample(), embedder=None)


def looped(scene, fails_at=None, **asking):
    """What `ask` makes of a scene."""
    store, replies, options, budget = scene
    return MemR3(store, Replies(fails_at, track=replies[0], answer=[replies[1]]), **options).ask(
        QUESTION, budget=budget, **asking
    )


def loop_of(scene, fails_at=None):
    store, replies, options, _ = scene
    return MemR3(store, Replies(fails_at, track=replies[0], answer=[replies[1]]), **options)


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
