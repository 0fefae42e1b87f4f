"""The needle tree, its readers, exact errors and the picture, against whole trees written down with exact fractions."""

import re
from collections import Counter
from fractions import Fraction
from functools import lru_cache
from itertools import combinations, product
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.stats import binomtest

from memnb.mragent.separation import (
    _answer_of,
    _BLANK,
    Active,
    all_trees,
    best_passive_error,
    draw_trees,
    equation_19,
    first_leaves,
    fixed_nodes,
    follower,
    History,
    NeedleTree,
    Passive,
    passive_error,
    passive_errors,
    simulate,
)


def covers(count, trials, chance, confidence=1 - 1e-9):
    "Whether a probability lies in the exact binomial interval of a count."
    low, high = binomtest(count, trials).proportion_ci(confidence)
    return low <= chance <= high


@st.composite
def laws(draw, most=3):
    "Probabilities in tenths, zeros among them."
    count = draw(st.integers(1, most))
    cuts = sorted(draw(st.lists(st.integers(0, 10), min_size=count - 1, max_size=count - 1)))
    return [(high - low) / 10 for low, high in zip([0, *cuts], [*cuts, 10])]


@st.composite
def trees(draw, depths=st.integers(1, 8), branching=st.integers(2, 4)):
    "Blank distractors, or ones with a law of their own."
    return NeedleTree(draw(depths), draw(laws()), draw(st.none() | laws()), draw(branching))


@st.composite
def tiny_trees(draw):
    "Trees so small that all of them can be written down."
    depth, branching = draw(st.sampled_from([(1, 2), (1, 3), (2, 2)]))
    most = 3 if depth == 1 else 2
    return NeedleTree(depth, draw(laws(most)), draw(st.none() | laws(most)), branching)


@lru_cache(maxsize=64)
def written_trees(tree):
    "Every tree: (exact probability, what each node says, the answer)."
    answers = {label: Fraction(round(10 * share), 10) for label, share in enumerate(tree.answer)}
    others = {_BLANK: Fraction(1)}
    if tree.distractors is not None:
        others = {label: Fraction(round(10 * share), 10) for label, share in enumerate(tree.distractors)}
    found = []
    for signs in product(range(tree.branching), repeat=tree.first_leaf):
        target = 0
        while target < tree.first_leaf:
            target = tree.branching * target + 1 + signs[target]
        for words in product(*(answers if leaf == target else others for leaf in range(tree.first_leaf, tree.nodes))):
            chance = Fraction(1, tree.branching**tree.first_leaf)
            for leaf, word in enumerate(words, tree.first_leaf):
                chance *= (answers if leaf == target else others)[word]
            if chance:
                found.append((chance, (*signs, *words), words[target - tree.first_leaf]))
    return found


def heaps_of(tree, nodes):
    "What the nodes say -> answer -> probability."
    heaps = {}
    for chance, says, answer in written_trees(tree):
        heaps.setdefault(tuple(says[node] for node in nodes), Counter())[answer] += chance
    return heaps


def exact_error(tree, nodes):
    "The error of the best head on these nodes, by the definition."
    return 1 - sum(max(heap.values()) for heap in heaps_of(tree, nodes).values())


# ---- the task


@given(tiny_trees(), st.integers(0, 2**32))
@settings(max_examples=20)
def test_trees_are_drawn_and_counted_as_often_as_they_are(tree, seed):
    expected = Counter()
    for chance, says, answer in written_trees(tree):
        expected[says, answer] += chance
    counted = Counter()
    forest, chances = all_trees(tree)
    for says, answer, chance in zip(forest.says.tolist(), forest.answer.tolist(), chances.tolist()):
        counted[tuple(says), answer] += chance
    assert {what: chance for what, chance in counted.items() if chance} == pytest.approx(
        {what: float(chance) for what, chance in expected.items()}
    )
    forest = draw_trees(tree, 3_000, np.random.default_rng(seed))
    drawn = Counter(zip(map(tuple, forest.says.tolist()), forest.answer.tolist()))
    assert set(drawn) <= set(expected)
    for what, chance in expected.items():
        assert covers(drawn[what], 3_000, chance, 1 - 1e-11), what


@pytest.mark.parametrize(
    'make, words',
    [
        (lambda: NeedleTree(1, [0.5, 0.5], [0.6, 0.5]), 'distractors: expected probabilities'),
        (lambda: NeedleTree(0, [1]), 'depth: expected a whole number of at least 1'),
        (lambda: simulate(fixed_nodes([0]), NeedleTree(20), 1, seed=0), 'at most 1,048,576 nodes, got 2,097,151'),
        (lambda: simulate(fixed_nodes([0]), NeedleTree(1, [1]), 0, seed=0), 'trials: expected 1 or more, got 0'),
        (lambda: simulate(Passive(lambda query: np.array([0.5])), NeedleTree(1, [1]), 5, seed=0), 'numbers of nodes'),
        (lambda: passive_errors(NeedleTree(1, [1]), 4), 'budget: expected 0 to 3'),
        (lambda: passive_error(NeedleTree(1, [1]), [3]), 'numbers of nodes, 0 to 2'),
        (lambda: equation_19(-1, depth=2), 'budget: expected 0 or more, got -1'),
    ],
)
def test_bad_input_gets_a_clear_error(make, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        make()


# ---- readers


@given(trees(), st.integers(0, 2**32))
@settings(max_examples=60)
def test_the_active_error_is_zero(tree, seed):
    assert simulate(follower(tree), tree, 50, seed) == 0


@given(tiny_trees(), st.data())
@settings(max_examples=60)
def test_the_head_says_the_likeliest_answer_to_whatever_was_seen(tree, data):
    tree = NeedleTree(tree.depth, tree.answer, branching=tree.branching)  # with blank distractors
    nodes = data.draw(
        st.lists(st.integers(0, tree.nodes - 1), min_size=1, max_size=5)
    )  # the same node more than once, too
    heaps = heaps_of(tree, nodes)
    read = np.tile(np.array(nodes, dtype=int), (len(heaps), 1))
    said = _answer_of(tree, History(read, np.array(list(heaps), dtype=int).reshape(len(heaps), -1)))
    for answer, heap in zip(said.tolist(), heaps.values()):
        assert heap[answer] == max(heap.values())


@given(trees(), st.integers(0, 2**32), st.data())
@settings(max_examples=40)
def test_a_passive_policy_is_an_active_one(tree, seed, data):
    nodes = st.lists(st.integers(0, tree.nodes - 1), min_size=tree.budget, max_size=tree.budget)
    policy = fixed_nodes(data.draw(nodes))
    same = Active(lambda query, history: np.atleast_2d(policy.choose(query))[:, len(history)])
    assert simulate(policy, tree, 60, seed) == simulate(same, tree, 60, seed)


def test_every_block_of_trials_is_fresh():
    "More trials than fit one block: other trees, not the same again."
    tree, seen = NeedleTree(8), []
    spy = Passive(lambda query: seen.append(query) or first_leaves(tree).choose(query))
    error = simulate(spy, tree, 40_000, seed=3)
    assert len(seen) == 3 and (np.concatenate(seen) == np.arange(40_000)).all()
    assert covers(round(40_000 * error), 40_000, best_passive_error(8))
    assert simulate(first_leaves(tree), tree, 40_000, seed=3) == error  # the same inputs, the same result


# ---- exact errors


@given(tiny_trees(), st.data())
@settings(max_examples=60)
def test_the_exact_error_is_that_of_the_definition(tree, data):
    nodes = data.draw(st.sets(st.integers(0, tree.nodes - 1)))
    assert passive_error(tree, nodes) == pytest.approx(float(exact_error(tree, sorted(nodes))), abs=1e-9)


@given(tiny_trees(), st.data())
@settings(max_examples=40)
def test_no_passive_policy_beats_the_closed_form(tree, data):
    "Every set of nodes of the budget, with the best head; and dice are a mixture, so no better."
    budget = data.draw(st.integers(0, tree.nodes))
    errors = {nodes: float(exact_error(tree, nodes)) for nodes in combinations(range(tree.nodes), budget)}
    rows = passive_errors(tree, budget)
    assert len(rows) == len(errors) == comb(tree.nodes, budget)
    assert {nodes: error for error, nodes in rows} == pytest.approx(errors, abs=1e-9)
    bound = equation_19(budget, tree.answer, branching=tree.branching, depth=tree.depth)
    assert rows[0][0] == min(error for error, _ in rows) >= bound - 1e-9
    if tree.distractors is None:
        assert rows[0][0] == pytest.approx(bound, abs=1e-9)


# ---- the classes


def rules(trees, steps):
    "All deterministic rules as (nodes by step, a set for each), with the heaps that they make of the trees."
    if not steps:
        yield [], [trees]
        return
    for node in range(len(trees[0])):
        heaps = [[says for says in trees if says[node] == word] for word in sorted({says[node] for says in trees})]
        for later in product(*(list(rules(heap, steps - 1)) for heap in heaps)):
            yield (
                [{node}, *(set().union(*level) for level in zip(*(one for one, _ in later)))],
                [heap for _, parts in later for heap in parts],
            )


@pytest.mark.parametrize(
    'tree, separates',
    [
        (NeedleTree(1), False),
        (NeedleTree(1, distractors=[0.5, 0.5]), True),
        (NeedleTree(1, branching=3), True),
    ],
)
def test_active_contains_passive_and_at_two_nodes_not_every_task_separates(tree, separates):
    weight = {(says, answer): chance for chance, says, answer in written_trees(tree)}
    trees = [says for _, says, _ in written_trees(tree)]
    for steps in (1, 2):
        found = {True: set(), False: set()}
        for levels, heaps in rules(trees, steps):
            for said in product((0, 1), repeat=len(heaps)):
                found[all(len(level) == 1 for level in levels)].add(
                    frozenset((says, one) for heap, one in zip(heaps, said) for says in heap)
                )
        passive, active = found[True], found[True] | found[False]
        error = {
            name: float(1 - max(sum(weight.get(pair, 0) for pair in one) for one in kind))
            for name, kind in (('p', passive), ('a', active))
        }
        assert (passive < active) == (steps == 2 and separates)
        assert error['p'] == pytest.approx(passive_errors(tree, steps)[0][0], abs=1e-9)
        assert steps == 1 or error['a'] == 0
        assert (error['a'] < error['p']) == (steps == 2 and separates)
