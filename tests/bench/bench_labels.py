"""What it costs to keep many labels merged: adding a session's labels, asking for the nearest, and memory.

    python tests/bench/bench_labels.py [--labels 100000] [--threshold 0.8]

Labels are one or two of 9,000 words, drawn so that some words are much more frequent than others; so some labels have hundreds
of others close to them. The words are pieces of the tokenizer that the embedder brings along. Times are medians."""
import argparse
import random
import resource
import statistics
import time

from memnb.retrieval.vectors import _wordllama
from memnb.mragent.graph import Labels


def seconds(do) -> float:
    "How long a call takes."
    start = time.perf_counter()
    do()
    return time.perf_counter() - start


def resident() -> float:
    "The memory in use, in MB."
    with open('/proc/self/statm', encoding='ascii') as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 1e6


def drawn(size: int) -> list[str]:
    "Different labels of one or two words, in which the n-th word is about 1/n as frequent as the first."
    pieces = _wordllama().tokenizer.get_vocab()
    words = sorted({piece[1:].lower() for piece in pieces if piece[0] in '▁Ġ' and piece[1:].isascii() and piece[1:].isalpha() and len(piece) > 5})
    chance = random.Random(0)
    chance.shuffle(words)
    weights, labels = [1 / (place + 10) for place in range(len(words))], {}
    while len(labels) < size:
        labels[' '.join(chance.choices(words, weights, k=chance.choice([1, 2, 2])))] = None
    return list(labels)


if __name__ == '__main__':
    parser = argparse.ArgumentParser()
    parser.add_argument('--labels', type=int, default=100_000)
    parser.add_argument('--threshold', type=float, default=.8)
    options = parser.parse_args()
    names, session = drawn(options.labels + 1200), 200
    Labels().near('warm', 1)
    before, labels = resident(), Labels(options.threshold)
    for start in range(0, options.labels, 4000):
        labels.add(names[start:start + 4000])
    print(f'{len(labels):,} labels, {sum(map(len, labels._close.values())) // 2:,} close pairs, {resident() - before:.0f} MB')
    fresh = [names[start:start + session] for start in range(options.labels, options.labels + 1000, session)]
    print(f'add {session} labels    {1000 * statistics.median(seconds(lambda: labels.add(some)) for some in fresh):8.1f} ms')
    print(f'remove {session} labels {1000 * statistics.median(seconds(lambda: labels.remove(some)) for some in fresh):8.1f} ms')
    print(f'near, 10 of them  {1000 * statistics.median(seconds(lambda: labels.near(name, 10)) for name in names[:100]):8.1f} ms')
    ids = [one.id for one in labels.index][::len(labels) // 1000]
    print(f'merged            {1000 * statistics.median(seconds(lambda: labels.merged(id)) for id in ids):8.3f} ms, '
          f'largest component {max(len(labels.merged(id)) for id in ids):,}')
