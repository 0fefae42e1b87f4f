"""How long a search takes, beside bm25s, rank-bm25 and one product of a matrix and a vector, in the same run.

    python tests/bench/bench_search.py [--snippets 100000]

Snippets of 20 words in sessions of 30, drawn from a Zipf vocabulary; queries of five words of a snippet, drawn likewise.
All times are medians over the queries. The engines are warmed up by one round of the same queries, as bm25s has
computed all its scores beforehand; 'first' is the same search right after a change, with nothing computed.
The times of memnb contain the query's tokenizing, the masks' check and the making of hits; those of the others do not."""

import argparse
import statistics
import sys
import time

import numpy as np

from memnb.retrieval.hybrid import HybridIndex
from memnb.retrieval.vectors import DenseIndex
from memnb.retrieval.bm25 import LexicalIndex
from memnb.core.conversation import Snippet

WORDS, SESSION, DIMENSIONS, K = 20, 30, 256, 10


class Noise:
    "An embedder for timing: a random direction for each text."

    name = 'noise'

    def __init__(self):
        self.random = np.random.default_rng(2)

    def __call__(self, texts: list[str]) -> np.ndarray:
        return self.random.standard_normal((len(texts), DIMENSIONS), dtype=np.float32)


def corpus(count: int, vocabulary: int = 50_000, seed: int = 1) -> list[list[str]]:
    "Lists of words; the r-th most frequent word has probability in proportion to 1 / (r + 20), for stop words are gone."
    random = np.random.default_rng(seed)
    weights = 1 / (np.arange(vocabulary) + 20)
    drawn = random.choice(vocabulary, (count, WORDS), p=weights / weights.sum())
    return [[f'w{word}' for word in row] for row in drawn.tolist()]


def snippets_of(texts: list[list[str]], start: int = 0) -> list[Snippet]:
    "The texts as turns of sessions of 30."
    return [
        Snippet(f's{number}', ' '.join(words), session=f'd{number // SESSION}', position=number % SESSION)
        for number, words in enumerate(texts, start)
    ]


def median_ms(do, inputs) -> float:
    "The median time of `do(one)` in milliseconds."
    times = []
    for one in inputs:
        start = time.perf_counter()
        do(one)
        times.append(1000 * (time.perf_counter() - start))
    return statistics.median(times)


def warm_ms(do, inputs) -> float:
    "The same, after a round that is not counted."
    median_ms(do, inputs)
    return median_ms(do, inputs)


def show(name: str, ms: float, beside: float | None = None, whose: str = '') -> None:
    "One line of the table."
    print(f'{name:52}{ms:10.2f} ms' + (f'   {ms / beside:6.2f} x {whose}' if beside else ''), flush=True)


def lexical(texts: list[list[str]], queries: list[list[str]]) -> None:
    "BM25 four ways."
    import bm25s
    from rank_bm25 import BM25Okapi

    theirs = bm25s.BM25(k1=0.9, b=0.4)
    theirs.index(texts, show_progress=False)
    fast = warm_ms(lambda query: theirs.retrieve([query], k=K, show_progress=False), queries)
    show('bm25s', fast)
    show('bm25s, its scores alone, nothing chosen', warm_ms(theirs.get_scores, queries), fast, 'bm25s')
    snippets = snippets_of(texts)
    indexes = {
        'memnb lexical': LexicalIndex(),
        'memnb lexical, with neighbours': HybridIndex(None, ranker=None, words=None),
    }
    for name, index in indexes.items():
        start = time.perf_counter()
        index.add(snippets)
        built = time.perf_counter() - start
        ours = warm_ms(lambda query: index.search(' '.join(query), K), queries)
        show(name, ours, fast, 'bm25s')
        show(
            f'{name}, first',
            median_ms(
                lambda query: (getattr(index, 'lexical', index)._forget(), index.search(' '.join(query), K)), queries
            ),
            fast,
            'bm25s',
        )
        print(f'{"":4}built in {built:.1f} s')
    okapi = BM25Okapi(texts, k1=0.9, b=0.4)
    show('rank-bm25', median_ms(okapi.get_scores, queries[:10]), fast, 'bm25s')


def dense(texts: list[list[str]], queries: list[list[str]]) -> None:
    "Cosine, beside the bare product."
    index = DenseIndex(Noise())
    index.add(snippets_of(texts))
    matrix, vector = index.matrix.copy(), Noise()(['x'])[0]
    bare = warm_ms(lambda query: matrix @ vector, queries)
    show('one product of matrix and vector', bare)
    show('memnb dense', warm_ms(lambda query: index.search(' '.join(query), K), queries), bare, 'the product')


def growing(texts: list[list[str]], queries: list[list[str]]) -> None:
    "A session more, and a session less, in a store that is large already; without the learned ranking, and with it."
    before: dict[str, float] = {}
    for ranker in (None, 'shipped'):
        name = 'hybrid, learned' if ranker else 'hybrid'
        index = HybridIndex(Noise(), ranker=ranker)
        index.add(snippets_of(texts))
        fresh = snippets_of(corpus(20 * SESSION, seed=3), start=SESSION * (len(texts) // SESSION + 1))
        sessions = [fresh[start : start + SESSION] for start in range(0, len(fresh), SESSION)]
        steps = {
            'search, words seen for the first time': median_ms(lambda query: index.search(' '.join(query), K), queries),
            'search': warm_ms(lambda query: index.search(' '.join(query), K), queries),
            'adding a session of 30 turns': median_ms(index.add, sessions),
            'removing it again': median_ms(lambda session: index.remove([one.id for one in session]), sessions),
        }
        for step, ms in steps.items():
            show(f'memnb {name}: {step}', ms, before.get(step), 'not learned')
        before = before or steps


def main() -> None:
    "Print the table."
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--snippets', type=int, default=100_000)
    parser.add_argument('--queries', type=int, default=100)
    options = parser.parse_args()
    texts = corpus(options.snippets)
    queries = [words[:5] for words in corpus(options.queries, seed=4)]
    print(
        f'{options.snippets:,} snippets of {WORDS} words, {options.queries} queries of 5 words, best {K}, median times'
    )
    for part in (lexical, dense, growing):
        part(texts, queries)


if __name__ == '__main__':
    sys.exit(main())
