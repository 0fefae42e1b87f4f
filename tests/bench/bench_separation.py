"""How long a million needle trees take, beside a plain Python reading of the same task in the same run.

    python tests/bench/bench_separation.py [--trials 1000000] [--depth 10] [--repeats 3]

Bar: a million trials of depth 10 in under 2 seconds on two cores (one is used), for the reader that follows the signposts. The
plain reference walks lists, one tree at a time, once drawing what it reads and once drawing the whole tree; it runs on fewer
trials and is scaled up. The shortest of a few repeats is given. Last comes the exact work: all sets of nodes of small trees."""

import argparse
import random
import sys
import time

from memnb.mragent.separation import first_leaves, follower, LeafLabels, NeedleTree, passive_errors, simulate


def shortest(do, repeats: int) -> tuple[float, float]:
    "The shortest of some runs, in seconds: by the clock, and of the processor."
    times = []
    for _ in range(repeats):
        start, worked = time.perf_counter(), time.process_time()
        do()
        times.append((time.perf_counter() - start, time.process_time() - worked))
    return min(times)


def plain(tree: NeedleTree, trials: int, whole: bool, chance: random.Random) -> int:
    "The follower on plain trees of blank distractors: how often it is wrong."
    wrong, kinds = 0, range(len(tree.labels.answer))
    for _ in range(trials):
        signs = [chance.randrange(tree.branching) for _ in range(tree.first_leaf)] if whole else None
        node = 0
        while node < tree.first_leaf:
            node = tree.branching * node + 1 + (signs[node] if whole else chance.randrange(tree.branching))
        answer = chance.choices(kinds, tree.labels.answer)[0]
        said = answer
        wrong += said != answer
    return wrong


def main() -> None:
    "Print the table."
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--trials', type=int, default=1_000_000)
    parser.add_argument('--depth', type=int, default=10)
    parser.add_argument('--repeats', type=int, default=3)
    options = parser.parse_args()
    tree, few = NeedleTree(options.depth, [0.5, 0.5]), max(1, options.trials // 200)
    noisy = NeedleTree(options.depth, LeafLabels([0.5, 0.5], [0.5, 0.5]))
    fewer = max(1, few // 50)
    lazy = shortest(lambda: plain(tree, few, False, random.Random(0)), options.repeats)[1] * options.trials / few
    whole = shortest(lambda: plain(tree, fewer, True, random.Random(0)), options.repeats)[1] * options.trials / fewer
    print(
        f'{options.trials:,} trials of depth {options.depth}, {tree.budget} nodes read of {tree.nodes:,}; ratios are of processor time'
    )
    print(f'plain Python, drawing only what is read {lazy:9.2f} s of the processor (scaled from {few:,} trials)')
    print(f'plain Python, drawing whole trees       {whole:9.2f} s of the processor (scaled from {fewer:,} trials)')
    readers = [
        ('follows the signposts', follower(tree), tree),
        ('follows the signposts, labelled leaves', follower(noisy), noisy),
        ('as many leaves', first_leaves(tree), tree),
    ]
    for name, policy, task in readers:
        clock, worked = shortest(lambda: simulate(policy, task, options.trials, seed=0), options.repeats)
        print(
            f'{name:42}{clock:7.2f} s by the clock {worked:6.2f} of the processor   {lazy / worked:5.0f} and {whole / worked:6.0f} times faster',
            flush=True,
        )
    for depth, budget in ((2, 3), (3, 4), (4, 5)):
        small = NeedleTree(depth, LeafLabels([0.5, 0.5], [0.5, 0.5]))
        clock, _ = shortest(lambda: passive_errors(small, budget), 1)
        print(f'every set of {budget} nodes at depth {depth}, exactly{clock:11.2f} s by the clock')


if __name__ == '__main__':
    sys.exit(main())
