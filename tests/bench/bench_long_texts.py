"""What one long text among 63 short ones takes to embed, beside the short ones alone.

    python tests/bench/bench_long_texts.py

Bar: less than 200 MB above what the process held before, for any text up to 10 MB. Given whole to wordllama, 20,000 characters of
emoji took 5.6 GB."""

import resource
import time

from memnb.retrieval.vectors import WordLlamaEmbedder


def held():
    """Megabytes that the process has held at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def main():
    embedder, short = WordLlamaEmbedder(), [f'I like kite number {number}.' for number in range(63)]
    embedder(short)
    before = held()
    texts = {
        'short ones alone': '',
        '20,000 emoji': '🦊' * 20_000,
        '1 MB of prose': 'the quick brown fox ' * 50_000,
        '10 MB of prose': 'the quick brown fox ' * 500_000,
        '10 MB of emoji': '🦊' * 2_500_000,
    }
    for name, text in texts.items():
        begun = time.perf_counter()
        embedder([*short, text])
        print(f'{name:18} {held() - before:6.0f} MB more, {time.perf_counter() - begun:6.2f} s')


if __name__ == '__main__':
    main()
