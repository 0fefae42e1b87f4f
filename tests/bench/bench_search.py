"""How long BM25 takes, beside bm25s and rank-bm25, in the same run.

    python tests/bench/bench_search.py [--snippets 100000]

Snippets of 20 words, drawn from a Zipf vocabulary; queries of five words of a snippet, drawn likewise. All times are medians over
the queries. The engines are warmed up by one round of the same queries, as bm25s has computed all its scores beforehand; 'first'
is the same search right after a change, with nothing computed. The times of memnb contain the query's tokenizing, the masks'
check and the making of hits; those of the others do not. `bench_scale.py` has whole memories of real chats."""

import argparse
import statistics
import time

import bm25s
import numpy as np
from rank_bm25 import BM25Okapi

from memnb.core.conversation import Snippet
from memnb.retrieval.bm25 import LexicalIndex

WORDS, K = 20, 10


def corpus(count: int, vocabulary: int = 50_000, seed: int = 1) -> list[list[str]]:
    "Lists of words; the r-th most frequent word has probability in proportion to 1 / (r + 20), for stop words are gone."
    random = np.random.default_rng(seed)
    weights = 1 / (np.arange(vocabulary) + 20)
    drawn = random.choice(vocabulary, (count, WORDS), p=weights / weights.sum())
    return [[f'w{word}' for word in row] for row in drawn.tolist()]


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


def show(name: str, ms: float, beside: float) -> None:
    "One line of the table."
    print(f'{name:52}{ms:10.2f} ms   {ms / beside:6.2f} x bm25s', flush=True)


def main() -> None:
    "Print the table."
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--snippets', type=int, default=100_000)
    parser.add_argument('--queries', type=int, default=100)
    options = parser.parse_args()
    texts = corpus(options.snippets)
    queries = [words[:5] for words in corpus(options.queries, seed=4)]
    print(f'{options.snippets:,} snippets, {options.queries} queries of 5 words, best {K}, median times')
    theirs = bm25s.BM25(k1=0.9, b=0.4)
    theirs.index(texts, show_progress=False)
    fast = warm_ms(lambda query: theirs.retrieve([query], k=K, show_progress=False), queries)
    show('bm25s', fast, fast)
    show('bm25s, its scores alone, nothing chosen', warm_ms(theirs.get_scores, queries), fast)
    index, start = LexicalIndex(), time.perf_counter()
    index.add(Snippet(f's{number}', ' '.join(words)) for number, words in enumerate(texts))
    print(f'built in {time.perf_counter() - start:.1f} s')

    def first(query: list[str]) -> None:
        index._forget()
        index.search(' '.join(query), K)

    show('memnb', warm_ms(lambda query: index.search(' '.join(query), K), queries), fast)
    show('memnb, first', median_ms(first, queries), fast)
    okapi = BM25Okapi(texts, k1=0.9, b=0.4)
    show('rank-bm25', median_ms(okapi.get_scores, queries[:10]), fast)


if __name__ == '__main__':
    main()
