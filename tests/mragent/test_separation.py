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

from memnb.mragent.separation import (
    _answer_of,
    _BLANK,
    _Forest,
    _shape_of,
    _stream,
    Active,
    best_passive_error,
    equation_19,
    Estimate,
    first_leaves,
    fixed_nodes,
    follower,
    follower_error,
    History,
    LeafLabels,
    NeedleTree,
    Passive,
    passive_error,
    passive_errors,
    random_passive_error,
    simulate,
)

SURE = 1 - 1e-9


@st.composite
def laws(draw, answers=None):
    "Probabilities in tenths, zeros among them."
    count = answers or draw(st.integers(1, 3))
    cuts = sorted(draw(st.lists(st.integers(0, 10), min_size=count - 1, max_size=count - 1)))
    return [(high - low) / 10 for low, high in zip([0, *cuts], [*cuts, 10])]


@st.composite
def labels(draw):
    "Blank distractors, or ones with a law of their own."
    answer = draw(laws())
    return LeafLabels(answer, draw(st.none() | laws(len(answer))))


@st.composite
def tiny_trees(draw):
    "Trees so small that all of them can be written down."
    depth, branching = draw(st.sampled_from([(1, 2), (1, 3), (2, 2)]))
    found = draw(labels())
    return NeedleTree(
        depth,
        found
        if depth == 1 or len(found.answer) < 3
        else LeafLabels(found.answer[:2] if sum(found.answer[:2]) == 1 else (0.5, 0.5)),
        branching,
    )


@lru_cache(maxsize=64)
def all_trees(tree):
    "Every tree: (exact probability, what each node says, the answer)."
    answers = {label: Fraction(round(10 * share), 10) for label, share in enumerate(tree.labels.answer)}
    others = (
        {_BLANK: Fraction(1)}
        if tree.labels.distractors is None
        else {label: Fraction(round(10 * share), 10) for label, share in enumerate(tree.labels.distractors)}
    )
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
    for chance, says, answer in all_trees(tree):
        heaps.setdefault(tuple(says[node] for node in nodes), Counter())[answer] += chance
    return heaps


def exact_error(tree, nodes):
    "The error of the best head on these nodes, by the definition."
    return 1 - sum(max(heap.values()) for heap in heaps_of(tree, nodes).values())


# ---- the task


def test_the_stream_is_splitmix64():
    assert _stream(np.array([1234567], dtype=np.uint64), np.arange(5)).tolist() == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]


@given(tiny_trees(), st.integers(0, 2**32), st.data())
@settings(max_examples=20)
def test_what_any_policy_sees_is_as_frequent_as_in_whole_trees(tree, seed, data):
    "A policy that depends on what it saw in an arbitrary way; every history it can have against its exact probability."
    turns = data.draw(st.lists(st.integers(0, tree.nodes - 1), min_size=7, max_size=7))
    steps, trials = min(3, tree.nodes), 3_000

    def choose(query, history):
        mixed = 3 * len(history) + (history.says * (np.arange(len(history)) + 2)).sum(axis=1)
        return np.array(turns)[mixed % 7]

    expected = Counter()
    for chance, says, answer in all_trees(tree):
        nodes, words = [], []
        for step in range(steps):
            nodes.append(turns[(3 * step + sum(word * (place + 2) for place, word in enumerate(words))) % 7])
            words.append(says[nodes[-1]])
        expected[tuple(nodes), tuple(words), answer] += chance
    forest = _Forest(tree, (np.random.default_rng(seed)).integers(0, 2**64, trials, dtype=np.uint64))
    walk = Active(choose, steps).walk(np.arange(trials), forest)
    seen = Counter(zip(map(tuple, walk.nodes.tolist()), map(tuple, walk.says.tolist()), forest.answer.tolist()))
    assert set(seen) <= set(expected)
    for what, chance in expected.items():
        assert Estimate.of(seen[what], trials, 1 - 1e-11).covers(float(chance)), what


@given(st.integers(1, 5), st.integers(2, 4), labels(), st.integers(0, 2**32))
def test_a_forest_says_the_same_however_it_is_asked(depth, branching, found, seed):
    tree = NeedleTree(depth, found, branching)
    chance = np.random.default_rng(seed)
    forest = _Forest(tree, (chance).integers(0, 2**64, 12, dtype=np.uint64))
    nodes = chance.integers(0, tree.nodes, (12, 5))
    together = forest.read(nodes)
    assert (together == np.stack([forest.read(column) for column in nodes.T], axis=1)).all()
    for row in range(12):
        alone = _Forest(tree, forest.keys[row : row + 1])
        node = 0
        while node < tree.first_leaf:
            node = branching * node + 1 + int(alone.read(np.array([node]))[0])
        assert node == forest.target[row]
        assert alone.read(nodes[row : row + 1]).tolist() == [together[row].tolist()]
    inner = nodes < tree.first_leaf
    assert ((0 <= together) & (together < branching))[inner].all()
    blank = ~inner & (nodes != forest.target[:, None])
    if found.distractors is None:
        assert (together[blank] == _BLANK).all()
    else:
        assert all(found.distractors[label] > 0 for label in together[blank])
    assert all(found.answer[label] > 0 for label in forest.answer)


@pytest.mark.parametrize(
    'make, words',
    [
        (lambda: LeafLabels([0.5, 0.5], [0.6, 0.5]), 'distractors: expected probabilities'),
        (lambda: NeedleTree(0, [1]), 'depth: expected a whole number of at least 1'),
        (lambda: NeedleTree(62, [1]), 'fewer than 2'),
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


@given(st.integers(1, 12), st.integers(2, 5), labels(), st.integers(0, 2**32))
@settings(max_examples=60)
def test_the_active_error_is_zero(depth, branching, found, seed):
    tree = NeedleTree(depth, found, branching)
    assert simulate(follower(tree), tree, 150, seed).wrong == 0 == follower_error(tree)


@given(tiny_trees(), st.data())
@settings(max_examples=60)
def test_the_head_says_the_likeliest_answer_to_whatever_was_seen(tree, data):
    tree = NeedleTree(tree.depth, LeafLabels(tree.labels.answer), tree.branching)  # with blank distractors
    nodes = data.draw(st.lists(st.integers(0, tree.nodes - 1), max_size=5))  # the same node more than once, too
    heaps = heaps_of(tree, nodes)
    said = _answer_of(
        tree,
        History(
            np.tile(np.array(nodes, dtype=int), (len(heaps), 1)),
            np.array(list(heaps), dtype=int).reshape(len(heaps), -1),
        ),
    )
    for answer, heap in zip(said.tolist(), heaps.values()):
        assert heap[answer] == max(heap.values())


@given(st.integers(1, 4), st.integers(2, 3), labels(), st.integers(0, 2**32), st.data())
@settings(max_examples=40)
def test_a_passive_policy_is_an_active_one(depth, branching, found, seed, data):
    tree = NeedleTree(depth, found, branching)
    for policy in (
        first_leaves(tree),
        fixed_nodes(data.draw(st.lists(st.integers(0, tree.nodes - 1), min_size=1, max_size=4))),
    ):
        budget = np.atleast_2d(policy.choose(np.arange(2))).shape[1]
        assert simulate(policy, tree, 60, seed) == simulate(policy.as_active(budget), tree, 60, seed)


def test_every_block_of_trials_is_fresh():
    "More trials than fit one block: other trees, not the same again."
    tree, seen = NeedleTree(3, [0.5, 0.5]), []
    spy = Passive(lambda query: seen.append(query) or first_leaves(tree).choose(query))
    estimate = simulate(spy, tree, 70_000, seed=3)
    assert len(seen) == 3 and (np.concatenate(seen) == np.arange(70_000)).all()
    assert Estimate.of(estimate.wrong, estimate.trials, SURE).covers(best_passive_error(3))
    assert simulate(first_leaves(tree), tree, 70_000, seed=3) == estimate  # the same inputs, the same result


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
    assert sum(row.count for row in rows) == len(errors) == comb(tree.nodes, budget)
    assert min(errors.values()) == pytest.approx(rows[0].error, abs=1e-9)
    counted = Counter(_shape_of(tree, frozenset(nodes)) for nodes in errors)
    assert counted == {row.shape: row.count for row in rows}
    options = dict(branching=tree.branching, depth=tree.depth)
    if budget:
        assert min(errors.values()) >= equation_19(budget, tree.labels.answer, **options) - 1e-9
    assert random_passive_error(tree, budget) == pytest.approx(sum(errors.values()) / len(errors), abs=1e-9)
    if tree.labels.distractors is None:
        closed = best_passive_error(prior=tree.labels.answer, budget=budget, **options)
        assert min(errors.values()) == pytest.approx(closed, abs=1e-9)


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
        (NeedleTree(1, [0.5, 0.5]), False),
        (NeedleTree(1, LeafLabels([0.5, 0.5], [0.5, 0.5])), True),
        (NeedleTree(1, [0.5, 0.5], branching=3), True),
    ],
)
def test_active_contains_passive_and_at_two_nodes_not_every_task_separates(tree, separates):
    weight = {(says, answer): chance for chance, says, answer in all_trees(tree)}
    trees = [says for _, says, _ in all_trees(tree)]
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
        assert error['p'] == pytest.approx(passive_errors(tree, steps)[0].error, abs=1e-9)
        assert error['a'] == pytest.approx(follower_error(tree, steps), abs=1e-9)
        assert (error['a'] < error['p']) == (steps == 2 and separates)
