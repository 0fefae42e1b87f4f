"""Feedback: its words against a plainer count, and its reading against one search, a mask and a budget."""

import math
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memnb.baselines import _idf, _top_terms, Feedback, RAG
from memnb.retrieval.vectors import HybridIndex
from memnb.core.text import tokenize
from memnb.retrieval.bm25 import LexicalIndex
from memnb.core.conversation import Snippet

often = settings(max_examples=50)
words = st.sampled_from(['cat', 'dog', 'rain', 'boat', 'organ', 'bread', 'sea', 'ana', 'ben'])


@st.composite
def memories(draw):
    """Snippets of a session or two, said by two people."""
    texts = draw(st.lists(st.lists(words, min_size=1, max_size=6).map(' '.join), min_size=1, max_size=14))
    return [
        Snippet(f'{place:02}', text, (f'D1:{place}',), speaker=draw(st.sampled_from(['Ana', 'Ben', None])))
        for place, text in enumerate(texts)
    ]


def plain_rarity(snippets, term):
    """The formula for one term."""
    having = sum(term in tokenize(f'{one.speaker or ""} {one.text}') for one in snippets)
    return max(0.0, math.log((len(snippets) - having + 0.5) / (having + 0.5)))


@given(memories())
@often
def test_rarity_is_the_formula_and_never_below_0(snippets):
    weights = _idf(snippets)
    for term, weight in weights.items():
        assert weight == pytest.approx(plain_rarity(snippets, term))
        assert weight >= 0
    assert set(weights) == {term for one in snippets for term in tokenize(f'{one.speaker or ""} {one.text}')}


@given(memories(), st.integers(0, 6), st.lists(words, max_size=2), st.randoms(use_true_random=False))
@often
def test_the_telling_words_are_the_best_by_a_plain_count_in_any_order(snippets, count, leave_out, random):
    weights = _idf(snippets)
    read, votes = snippets[:5], Counter()
    for one in read:
        terms = tokenize(f'{one.speaker or ""} {one.text}')
        for term, times in Counter(terms).items():
            votes[term] += times / len(terms) * weights[term]
    found = _top_terms(read, weights, count, leave_out)
    others = {term for term, vote in votes.items() if vote > 0} - set(leave_out) - set(found)
    assert len(found) == min(count, len(others) + len(found)) == len(set(found))
    assert not set(found) & set(leave_out)
    assert all(votes[one] >= votes[other] - 1e-9 for one in found for other in others)
    assert all(votes[one] >= votes[after] - 1e-9 for one, after in zip(found, found[1:]))
    shuffled = list(snippets)
    random.shuffle(shuffled)
    backwards = list(reversed(read))
    assert _top_terms(backwards, _idf(shuffled), count, leave_out) == found


def shown(trace):
    """The ids of all hits of all searches."""
    return [hit.id for step in trace.steps if step.kind == 'search' for hit in step.hits]


@given(memories(), st.lists(words, min_size=1, max_size=3).map(' '.join), st.integers(1, 4), st.integers(1, 4))
@often
def test_nothing_is_shown_twice_and_the_reading_is_as_long_as_allowed(snippets, question, chunk, iterations):
    index = HybridIndex(names=['Ana', 'Ben'])
    index.add(snippets)
    trace = Feedback(index, chunks_per_iteration=chunk, iterations=iterations).ask(question)
    assert len(set(shown(trace))) == len(shown(trace)) == min(len(snippets), chunk * iterations)
    assert trace.read == [f'D1:{int(id)}' for id in shown(trace)]
    assert trace.answer is not None and trace.error is None
    assert set(trace.evidence) <= set(trace.read)


@given(memories(), st.lists(words, min_size=1, max_size=3).map(' '.join), st.integers(0, 12))
@often
def test_a_budget_of_turns_binds(snippets, question, budget):
    index = LexicalIndex()
    index.add(snippets)
    assert len(Feedback(index).ask(question, budget=budget).read) <= budget


@given(memories(), st.lists(words, min_size=1, max_size=3).map(' '.join))
@often
def test_without_words_it_reads_what_one_search_reads(snippets, question):
    index = HybridIndex(names=['Ana', 'Ben'])
    index.add(snippets)
    assert Feedback(index, words=0, chunks_per_iteration=2).ask(question).read == RAG(index, k=10).ask(question).read


def test_words_are_taken_from_what_was_read_and_bring_what_the_question_could_not():
    snippets = [
        Snippet('1', 'my boat is called Herring', ('D1:1',)),
        Snippet('2', 'the Herring sank in May', ('D1:2',)),
        *(Snippet(str(place), f'nothing {place} here at all', (f'D1:{place}',)) for place in range(3, 20)),
    ]
    index = LexicalIndex()
    index.add(snippets)
    question = 'What happened to the boat?'
    assert RAG(index, k=2).ask(question).read == ['D1:1']
    trace = Feedback(index, chunks_per_iteration=1, iterations=2).ask(question)
    assert trace.read == ['D1:1', 'D1:2']
    first, second = [step.query for step in trace.steps if step.kind == 'search']
    assert first == question and second.startswith(' '.join([question] * 5)) and 'her' in second


def test_a_store_that_cannot_be_listed_is_refused():
    with pytest.raises(TypeError, match='snippets can be listed, got function'):
        Feedback(lambda query: ['the dog barks', 'rain'])


@pytest.mark.parametrize('name, least', [('chunks_per_iteration', 1), ('iterations', 1), ('words', 0)])
def test_numbers_below_their_least_are_refused(name, least):
    with pytest.raises(ValueError, match=f'{name}: expected {least} or more, got {least - 1}'):
        Feedback(LexicalIndex(), **{name: least - 1})
