"""Indexes: BM25 against rank-bm25, cosine against its definition, masks, ties, the order of adding, embedders."""

import json
import traceback
from datetime import date, datetime
from functools import partial

import numpy as np
import openai
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from fakes import Letters
from memnb.core.conversation import DuplicateSnippet, Snippet
from memnb.core.retriever import as_retriever, Metered, passes
from memnb.core.tools import as_tools
from memnb.memma.bank import MemoryBank
from memnb.retrieval.around import Around
from memnb.retrieval.reranked import Reranked
from memnb.core.time import TimeSpan
from memnb.retrieval.bm25 import BM25Retriever, LexicalIndex
from memnb.retrieval.hybrid import HybridIndex
from memnb.retrieval.index import UnknownSnippet
from memnb.retrieval.passages import passages_of
from memnb.retrieval.vectors import (
    as_embedder,
    DenseIndex,
    DimensionMismatch,
    EmbedderError,
    EmbedderMismatch,
    OpenAIEmbedder,
    without_names,
    WordLlamaEmbedder,
)
from servers import Answer, authorization, fail, Server

WORDS = 'boat sea red blue sail harbour storm. the a Ana running runs ran'.split()
texts = st.lists(st.sampled_from(WORDS), max_size=7).map(' '.join)
days = st.dates(date(2023, 1, 1), date(2023, 3, 31))


@st.composite
def spans(draw):
    first, last = sorted((draw(days), draw(days)))
    side = draw(st.sampled_from(['both', 'both', 'from', 'until']))
    return TimeSpan(None if side == 'until' else first, None if side == 'from' else last, 'span')


@st.composite
def snippet_lists(draw, max_size=12):
    """Distinct ids and places, few words (many ties), some with a time, some with a day of saying, some with neither."""
    made = []
    for number in draw(st.lists(st.integers(0, 30), unique=True, max_size=max_size)):
        said = draw(st.none() | days.map(lambda day: datetime(day.year, day.month, day.day, 12)))
        made.append(
            Snippet(
                f's{number}',
                draw(texts),
                (f'D1:{number}',),
                draw(st.none() | spans()),
                draw(st.sampled_from([None, 'Ana', 'Ben'])),
                said,
                *draw(st.sampled_from([(None, None), (f'd{number % 2}', number // 2)])),
            )
        )
    return made


MAKERS = {
    'lexical': LexicalIndex,
    'spread': lambda: HybridIndex(None, ranker=None, words=None),
    'dense': lambda: DenseIndex(Letters()),
    'minmax': lambda: HybridIndex(Letters(), names=['Ana', 'Ben']),
    'words only': lambda: HybridIndex(None),
    'passages': lambda: HybridIndex(Letters(), names=['Ana', 'Ben'], words=2, shown=1),
    'passages of words': lambda: HybridIndex(None, ranker=None, words=2),
    'reranked': lambda: HybridIndex(Letters(), rerank=lambda pairs: [-len(text) for _, text in pairs], rerank_top=4),
}
every_index = pytest.mark.parametrize('make', MAKERS.values(), ids=MAKERS)


def found(index, *what, **masks):
    return [(hit.snippet.id, hit.score) for hit in index.search(*what, **masks)]


def seen(index, query):
    """All that a reader sees of the hits, too."""
    return [(hit.snippet.id, hit.score, hit.why, hit.snippet.passages) for hit in index.search(query, 30)]


def filled(make, snippets):
    index = make()
    index.add(snippets)
    return index


class GrowAndForget(RuleBasedStateMachine):
    """Any series of adds and removes, compared with an index and a BM25Okapi that are built anew."""

    @initialize(k1=st.sampled_from([0.9, 1.5]), b=st.sampled_from([0, 0.4, 0.75, 1]))
    def begin(self, k1, b):
        self.options = dict(k1=k1, b=b)
        self.plain = LexicalIndex(**self.options, exact=True)
        self.spread = {words: HybridIndex(None, ranker=None, words=words) for words in (None, 2)}
        self.hybrid = HybridIndex(Letters(), words=2, shown=1)
        self.alive = {}

    @property
    def indexes(self):
        return self.plain, *self.spread.values(), self.hybrid

    @rule(snippets=snippet_lists(max_size=6))
    def add(self, snippets):
        new = [one for one in snippets if one.id not in self.alive]
        for index in self.indexes:
            index.add(new)
        self.alive.update((one.id, one) for one in new)

    @precondition(lambda self: self.alive)
    @rule(data=st.data())
    def remove(self, data):
        ids = data.draw(st.lists(st.sampled_from(sorted(self.alive)), max_size=4))
        for index in self.indexes:
            index.remove(ids)
        for id in ids:
            self.alive.pop(id, None)

    @rule(query=texts)
    def search_in_between(self, query):
        for index in self.indexes:
            index.search(query)

    @invariant()
    def same_as_rank_bm25(self):
        oracle = BM25Retriever(self.alive.values(), **self.options)
        for query in ('boat sea', 'red red Ana', 'storm running harbour', 'sail'):
            with np.errstate(invalid='ignore'):  # with b = 1 it divides 0 by 0 for a snippet without a token
                mine, theirs = self.plain.scores(query), oracle.scores(query)
            assert mine == pytest.approx(theirs, abs=1e-9)

    @invariant()
    def same_as_built_anew(self):
        snippets = list(self.alive.values())
        anew = filled(lambda: HybridIndex(Letters(), words=2, shown=1), sorted(snippets, key=lambda one: one.text))
        pairs = [(self.hybrid, anew)]
        for words, index in self.spread.items():
            pairs.append((index, filled(lambda: HybridIndex(None, ranker=None, words=words), snippets[::-1])))
        for index, other in pairs:
            for query in ('boat', 'Ana storm', ''):
                assert seen(index, query) == seen(other, query)
                assert index.scores(query) == other.scores(query)

    @invariant()
    def smoothing_is_the_formula(self):
        """A turn scores as its best passage: BM25 of that, and shares of those of the best passages of its neighbours."""
        for words, index in self.spread.items():
            parts = {one.id: passages_of(one, words) for one in self.alive.values()}
            bm25 = filled(LexicalIndex, [part for own in parts.values() for part in own]).scores('boat sea')
            best = {id: max(bm25.get(part.id, 0) for part in own) for id, own in parts.items()}
            at = {(one.session, one.position): best[one.id] for one in self.alive.values() if one.session}
            expected = dict(best)
            for one in self.alive.values():
                if one.session:
                    for step, share in ((-1, 0.5), (1, 0.5), (-2, 0.25), (2, 0.25)):
                        expected[one.id] += share * at.get((one.session, one.position + step), 0)
            scores = index.scores('boat sea')
            assert scores.keys() <= self.alive.keys()
            assert {id: scores.get(id, 0) for id in self.alive} == pytest.approx(expected, abs=1e-9)

    @invariant()
    def passages_and_turns_belong_together(self):
        for index in (*self.spread.values(), self.hybrid):
            layout = index._arrange()
            assert len(layout.parts) == len(index._passages) == len(index) == len(self.alive)
            assert len(layout.owners) == len(index.lexical) == sum(map(len, layout.parts))
            for slot, parts in enumerate(layout.parts):
                turn = index._snippets[slot]
                assert [index.lexical._snippets[part] for part in parts] == passages_of(turn, index.words)
                assert index.passages(turn.id) == passages_of(turn, index.words)
                assert {*layout.owners[parts]} == {slot}
                if index.dense:
                    assert [index.dense._snippets[part] for part in parts] == passages_of(turn, index.words)

    @invariant()
    def holds_what_is_alive(self):
        for index in self.indexes:
            assert [one.id for one in index] == sorted(self.alive) and len(index) == len(self.alive)
            assert all(id in index and index[id] is self.alive[id] for id in self.alive)


GrowAndForget.TestCase.settings = settings(max_examples=40, stateful_step_count=12)


test_grow_and_forget = GrowAndForget.TestCase


@every_index
@settings(max_examples=30)
@given(snippets=snippet_lists(), query=texts, k=st.integers(0, 14), during=st.none() | spans(), data=st.data())
def test_masks_lose_nothing_and_more_is_more_of_the_same(make, snippets, query, k, during, data):
    index = filled(make, snippets)
    exclude = data.draw(st.lists(st.sampled_from([one.id for one in snippets] + ['unknown']), max_size=8))
    hits = found(index, query, k, exclude=exclude, during=during)
    assert hits == found(index, query, k + 1, exclude=exclude, during=during)[:k]
    if getattr(index, 'rerank', None) is None:
        ranked = sorted(index.scores(query).items(), key=lambda pair: (-pair[1], pair[0]))
        assert hits == [pair for pair in ranked if passes(index[pair[0]], exclude, during)][:k]
    allowed = [
        one for one in snippets if passes(one, exclude, during) and (make in ALL_MATCH or one.id in index.scores(query))
    ]
    assert len(hits) == min(k, len(allowed))


ALL_MATCH = [MAKERS[name] for name in ('dense', 'minmax', 'passages', 'reranked')]


@every_index
@settings(max_examples=20)
@given(snippets=snippet_lists(), query=texts, data=st.data())
def test_the_order_of_adding_does_not_show(make, snippets, query, data):
    first, second = filled(make, snippets), make()
    for one in data.draw(st.permutations(snippets)):
        second.add([one])
    assert found(first, query, 20) == found(second, query, 20)
    assert first.scores(query) == second.scores(query)


def test_a_snippet_without_time_passes_no_span():
    index = filled(
        lambda: HybridIndex(None),
        [
            Snippet('a', 'boat'),
            Snippet('b', 'boat', said=datetime(2023, 5, 8)),
            Snippet('c', 'boat', time=TimeSpan.year(2023), said=datetime(2024, 1, 1)),
        ],
    )
    assert [id for id, _ in found(index, 'boat', during=TimeSpan.month(2023, 5))] == ['b', 'c']
    assert [id for id, _ in found(index, 'boat', during=TimeSpan(date(2024, 1, 1), None, 'span'))] == []


@every_index
def test_adding_and_removing_are_all_or_nothing(make):
    index = filled(make, [Snippet('a', 'boat'), Snippet('b', 'sea')])
    index.add([Snippet('a', 'boat'), Snippet('a', 'boat')])
    with pytest.raises(DuplicateSnippet, match="another snippet 'a' is there: 'boat', not 'ship'"):
        index.add([Snippet('c', 'new'), Snippet('a', 'ship')])
    with pytest.raises(DuplicateSnippet):
        index.add([Snippet('c', 'new'), Snippet('c', 'newer')])
    with pytest.raises(TypeError, match='expected snippets'):
        index.add([Snippet('c', 'new'), 'text'])
    with pytest.raises(UnknownSnippet, match="no snippet 'z'"):
        index.remove(['a', 'z'])
    with pytest.raises(TypeError, match='ids'):
        index.remove('a')
    assert [one.id for one in index] == ['a', 'b'] and 'c' not in index
    index.remove(['a', 'a'])
    assert len(index) == 1


def test_one_place_of_a_session_is_for_one_snippet():
    index = filled(lambda: HybridIndex(Letters()), [Snippet('a', 'boat', session='d', position=0)])
    with pytest.raises(DuplicateSnippet, match="position 0 of session 'd'"):
        index.add([Snippet('x', 'ok'), Snippet('b', 'sea', session='d', position=0)])
    assert len(index) == len(index.dense) == len(index.lexical) == 1


def test_a_failing_embedder_changes_nothing():
    class Failing(Letters):
        def __call__(self, texts):
            if 'fail' in texts:
                raise EmbedderError('down')
            return super().__call__(texts)

    index = filled(lambda: HybridIndex(Failing()), [Snippet('a', 'boat')])
    with pytest.raises(EmbedderError):
        index.add([Snippet('b', 'sea'), Snippet('c', 'fail')])
    assert len(index) == len(index.dense) == len(index.lexical) == 1
    index.add([Snippet('b', 'sea')])
    assert [id for id, _ in found(index, 'sea', 2)] == ['b', 'a']


class Unasked(Letters):
    """Fails for any text."""

    def __call__(self, texts):
        raise EmbedderError(f'asked for {texts}')


@settings(max_examples=30)
@given(snippets=snippet_lists(), query=texts, data=st.data())
def test_vectors_that_are_given_serve_as_those_that_are_made(snippets, query, data):
    for make in (MAKERS['dense'], MAKERS['minmax'], MAKERS['passages']):
        source, again = filled(make, snippets), make()
        dense = getattr(source, 'dense', source)
        given = {one.id: dense.vector(one.id) for one in data.draw(st.permutations(list(dense)))[::2]}
        again.add(data.draw(st.permutations(snippets)), {**given, 'unknown': np.ones(1, np.float32)})
        assert found(again, query, 20) == found(source, query, 20)
        assert again.scores(query) == source.scores(query)


@pytest.mark.parametrize(
    'row, error, message',
    [
        (np.array([1, 0], np.float32), DimensionMismatch, r'letters: expected vectors of one dimension, got \[2, 6\]'),
        (np.eye(6)[0], ValueError, "vector of 'b': expected a row of float32, got float64"),
        (np.eye(6, dtype=np.float32)[:1], ValueError, "vector of 'b'"),
        (np.full(6, 2, np.float32), ValueError, "vector of 'b': expected the length 1 or 0, got 4.89898"),
        (np.array([np.nan] * 6, np.float32), ValueError, "vector of 'b': .*got nan"),
        ([1, 0, 0, 0, 0, 0], ValueError, "vector of 'b': expected a row of float32, got int64"),
    ],
)
@pytest.mark.parametrize('make', [MAKERS['dense'], MAKERS['minmax']])
@pytest.mark.parametrize('full', [True, False])
def test_a_wrong_row_changes_nothing(make, row, error, message, full):
    index = filled(make, [Snippet('a', 'boat')] if full else [])
    with pytest.raises(error, match=message):
        index.add([Snippet('c', 'sea'), Snippet('b', 'red')], {'b': row})
    assert len(index) == full and 'c' not in index
    assert getattr(index, 'dense', index).dimension == (6 if full else None)
    index.add([Snippet('c', 'sea'), Snippet('b', 'red')])
    assert len(index) == 2 + full


unit_rows = st.lists(
    st.lists(st.sampled_from([-1.0, -0.5, 0.0, 0.3, 1.0]), min_size=3, max_size=3), min_size=1, max_size=24
)


def every_pair(index, ids, threshold):
    """The definition, pair by pair."""
    pairs, all_ids = [], [one.id for one in index]
    for a in all_ids:
        for b in all_ids:
            cosine = float(np.einsum('ij,ij->i', *(index.vector(id)[None].astype(float) for id in (a, b)))[0])
            if a < b and {a, b} & set(ids) and cosine >= threshold:
                pairs.append((a, b, cosine))
    return sorted(pairs)


@settings(max_examples=60)
@given(rows=unit_rows, data=st.data())
def test_close_pairs_are_those_of_the_definition_in_any_order(rows, data):
    rows = np.array(rows)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    rows = (rows / np.where(lengths, lengths, 1)).astype(np.float32)
    given = {f's{n:02}': row for n, row in enumerate(rows)}
    gone = data.draw(st.sets(st.sampled_from(sorted(given)), max_size=3))
    ids = data.draw(
        st.lists(st.sampled_from(sorted(given.keys() - gone) or ['none'])) if len(gone) < len(given) else st.just([])
    )
    results, threshold = [], None
    for order in (sorted(given), data.draw(st.permutations(sorted(given)))):
        index = DenseIndex(Unasked())
        index.add([Snippet(id, '') for id in order], given)
        index.remove(gone)
        if threshold is None:
            at = [cosine for _, _, cosine in every_pair(index, given, -2)]
            threshold = data.draw(st.sampled_from([*at, 0.8, 0.0, 1.0, -1.0]))
        results.append(index.similar(ids, threshold))
    assert results[0] == results[1] == every_pair(index, ids, threshold)


def test_close_pairs_of_many_long_rows_do_not_depend_on_the_company():
    random = np.random.default_rng(7).standard_normal((900, 256)) + 1
    rows = (random / np.linalg.norm(random, axis=1, keepdims=True)).astype(np.float32)
    given = {f's{n:03}': row for n, row in enumerate(rows)}
    index = DenseIndex(Unasked())
    index.add([Snippet(id, '') for id in given], given)
    exact = rows.astype(float) @ rows.T.astype(float)
    a, b = np.nonzero(np.triu(exact >= 0.55, 1))
    everyone = index.similar(given, 0.55)
    assert [pair[:2] for pair in everyone] == [(f's{x:03}', f's{y:03}') for x, y in zip(a, b)] and len(everyone) > 1000
    for one, other, cosine in everyone[::97]:
        pair = DenseIndex(Unasked())
        pair.add([Snippet(other, ''), Snippet(one, '')], given)
        assert pair.similar([other], cosine) == [(one, other, cosine)]
        assert (one, other, cosine) in index.similar([one], cosine) and (one, other, cosine) in index.similar(
            [other], cosine
        )
    with pytest.raises(UnknownSnippet):
        index.similar(['s000', 'x'], 0.5)
    assert DenseIndex(Unasked()).similar([], 0.5) == []


@settings(max_examples=30)
@given(snippets=snippet_lists(), query=texts)
def test_dense_is_the_cosine(snippets, query):
    index, embed = filled(lambda: DenseIndex(Letters()), snippets), Letters()
    index.remove([one.id for one in snippets[::3]])
    vector = embed([query])[0]
    for id, score in index.scores(query).items():
        row = embed([index[id].text])[0]
        length = np.linalg.norm(row) * np.linalg.norm(vector)
        assert score == pytest.approx(row @ vector / length if length else 0, abs=1e-6)


def test_another_model_is_refused_by_name():
    embed = Letters()
    index = filled(lambda: DenseIndex(embed), [Snippet('a', 'boat')])
    assert (index.model, index.dimension) == ('letters', 6)
    embed.name = 'numbers'
    with pytest.raises(EmbedderMismatch, match="'letters', the embedder is 'numbers'"):
        index.search('boat')


# Embedders of the user's own


def rows_of(texts):
    return [[text.count('a'), text.count('b')] for text in texts]


async def rows_later(texts):
    return rows_of(texts)


class Model:
    model_name = 'org/toy-2'

    def embed_documents(self, texts):
        return rows_of(texts)


class Encoder:
    tokenizer = Model()
    tokenizer.name_or_path = '/home/me/models/toy-3'

    def encode(self, texts):
        return np.array(rows_of(texts))

    def __call__(self, features):
        raise AssertionError('this is not for texts')


class Nodes(Encoder):
    get_text_embedding_batch = Encoder.encode
    model, encode = 'toy-4', None


class Callable:
    def __call__(self, texts):
        return rows_of(texts)


@pytest.mark.parametrize(
    'embedder, name',
    [
        (rows_of, 'rows_of'),
        (rows_later, 'rows_later'),
        (Model(), 'Model toy-2'),
        (Model().embed_documents, 'Model toy-2'),
        (Encoder(), 'Encoder toy-3'),
        (Nodes(), 'Nodes toy-4'),
        (Callable(), 'Callable'),
        (lambda texts: rows_of(texts), '<lambda>'),
        (partial(rows_of), '<partial>'),
    ],
)
def test_an_embedder_may_be_a_function_or_a_model_of_another_library(embedder, name):
    index = filled(lambda: DenseIndex(embedder), [Snippet('x', 'aab'), Snippet('y', 'b')])
    assert (index.model, index.dimension, found(index, 'b')[0]) == (name, 2, ('y', 1.0))


@pytest.mark.parametrize(
    'thing, words',
    [
        ('text-embedding-3-small', "did you mean OpenAIEmbedder('text-embedding-3-small')"),
        (openai.OpenAI(api_key='x'), 'use OpenAIEmbedder'),
        (Model, 'got <class'),
        (3, 'got 3'),
        (object(), 'expected a function from texts to rows'),
    ],
)
def test_what_cannot_embed_is_refused(thing, words):
    with pytest.raises(TypeError, match='^embedder: ') as caught:
        as_embedder(thing)
    assert words in str(caught.value)


@pytest.mark.parametrize('made', [None, 'ab', [[1, 2], [3]], [[], []], {'a': 1}, [['x'], ['y']]])
def test_what_is_no_array_is_said(made):
    def mine(texts):
        return made

    with pytest.raises(ValueError, match='^mine: expected 2 rows of finite numbers.*, got '):
        filled(lambda: DenseIndex(mine), [Snippet('a', 'boat'), Snippet('b', 'sea')])


@pytest.mark.parametrize('rows', [[[1, 2]], [[1, np.nan], [1, 2]], [1, 2], [[np.inf, 1], [0, 0]]])
def test_vectors_that_are_none_are_refused(rows):
    def embed(texts):
        return rows

    embed.name = 'bad'
    with pytest.raises(ValueError, match='bad: expected 2 rows of finite numbers'):
        filled(lambda: DenseIndex(embed), [Snippet('a', 'boat'), Snippet('b', 'sea')])


def test_names_are_left_out_of_what_is_embedded_and_kept_for_words():
    seen = []

    class Noting(Letters):
        def __call__(self, texts):
            seen.extend(texts)
            return super().__call__(texts)

    index = filled(
        lambda: HybridIndex(Noting(), names=['Ana Maria', 'Ben']),
        [Snippet('a', "ana told Ben's sister", speaker='Maria')],
    )
    index.search('What did Ana tell Benjamin?')
    assert seen == ['told sister', 'What did tell Benjamin?']
    assert 'a' in index.lexical.scores('Maria')
    assert without_names('Ana.', []) == 'Ana.'


def test_wordllama_works_offline_and_alike_in_any_batch():
    embed = WordLlamaEmbedder()
    together = embed(['a red boat', 'on the wide open sea we sailed', ''])
    assert together.shape == (3, 256)
    assert (
        together == np.concatenate([embed([text]) for text in ('a red boat', 'on the wide open sea we sailed', '')])
    ).all()


def vectors(request):
    """The answer of a server of embeddings, in reverse order."""
    rows = [
        {'object': 'embedding', 'index': place, 'embedding': [float(len(text)), 1.0]}
        for place, text in enumerate(request['input'])
    ]
    return Answer(
        json.dumps({'object': 'list', 'data': rows[::-1]}).encode(), headers={'Content-Type': 'application/json'}
    )


def test_openai_embedder_batches_and_keeps_the_order(monkeypatch):
    monkeypatch.delenv('OPENAI_API_KEY', raising=False)
    with Server(vectors) as server:
        embed = OpenAIEmbedder('some-model', server.url, batch=3)
        assert embed(['x' * n for n in range(8)])[:, 0].tolist() == [
            1,
            1,
            2,
            3,
            4,
            5,
            6,
            7,
        ]  # the empty text is sent as a blank
        assert [len(request['input']) for request in server.requests] == [3, 3, 2]
        index = filled(lambda: DenseIndex(embed), [Snippet('a', 'boat'), Snippet('b', 'a long text about the sea')])
        assert (index.model, index.dimension) == ('some-model', 2)
        assert found(index, 'sail', 1)[0][0] == 'a'


def test_openai_embedder_fails_with_one_kind_of_error_and_no_key_in_it(monkeypatch):
    monkeypatch.setenv('OPENAI_API_KEY', 'secret-key-123')
    with Server(fail(401, authorization)) as server, pytest.raises(EmbedderError) as caught:
        OpenAIEmbedder('broken', server.url)(['a', 'b'])
    assert str(caught.value) == 'broken: AuthenticationError, status 401'
    assert 'secret' not in ''.join(traceback.format_exception(caught.value))


def test_options_are_checked():
    with pytest.raises(ValueError):
        OpenAIEmbedder('m', batch=0)
    index = filled(lambda: HybridIndex(None, rerank=lambda pairs: []), [Snippet('a', 'boat')])
    with pytest.raises(ValueError, match='rerank: expected 1 scores, got 0'):
        index.search('boat')
    assert index.search('boat', 0) == [] and index.search('unknown') == []


@given(st.data())
def test_a_bonus_is_added_to_the_scores_of_what_matches(data):
    texts = data.draw(
        st.lists(st.sampled_from(['red boat', 'blue sea', 'a red sea', 'boat', 'green']), min_size=1, max_size=8)
    )
    index = LexicalIndex()
    index.add([Snippet(f's{number}', text) for number, text in enumerate(texts)])
    bonus = data.draw(st.dictionaries(st.sampled_from([f's{number}' for number in range(10)]), st.floats(0, 5)))
    plain = index.scores('red boat')
    expected = sorted(((-(score + bonus.get(id, 0)), id) for id, score in plain.items()))[:3]
    assert [(-hit.score, hit.snippet.id) for hit in index.search('red boat', 3, bonus=bonus)] == expected


def test_nothing_is_left_behind_when_all_is_removed():
    snippets = [Snippet(f's{n}', 'I prefer a red boat', session='d', position=n, speaker='Ana') for n in range(50)]
    index = filled(lambda: HybridIndex(Letters(), words=1, standing=3), snippets)
    index.search('boat')
    index.remove([one.id for one in snippets])
    assert not index.lexical._postings and not index._places and not index._people and index.search('boat') == []
    assert not index._passages and not index._arrange().parts and not len(index.dense) and not len(index._standing)


def test_words_that_occur_nowhere_are_named_by_every_memory_that_can_tell():
    texts = ['Ada: The hinges squeak.', 'Bo: We sold two kayaks.']
    snippets = [
        Snippet(f't{place}', text, (f't{place}',), session='D1', position=place) for place, text in enumerate(texts)
    ]
    index, words = HybridIndex(), LexicalIndex()
    index.add(snippets)
    words.add(snippets)
    for memory in (
        words,
        index,
        Around(index),
        Metered(index),
        MemoryBank.of(texts),
        as_retriever(texts),
        Reranked(index, 5),
    ):
        assert memory.unknown_words(
            'Did the user or the bot swap the Hinge and a kayak in March 2024, or a trunnion?'
        ) == [
            'swap',
            'trunnion',
        ]
        assert memory.remark_on('kayak') == '' and memory.remark_on('swap') == ' (nowhere in the memory: swap)'
    assert as_retriever(lambda query: texts).unknown_words('swap') == []  # it cannot tell
    german = LexicalIndex(language='german')
    german.add(snippets)
    assert german.unknown_words('Wann tauschte sie im Januar?') == []
    [search, during] = as_tools(index)[:2]
    assert '(nowhere in the memory: swap)' in search(query='swap kayaks').note
    assert '(nowhere in the memory: swap)' in during(query='swap', start_time='2023', end_time='2024').note
