"""The needle tree, its readers, exact errors and the picture, against whole trees written down with exact fractions."""
import re
from collections import Counter
from fractions import Fraction
from functools import lru_cache
from itertools import combinations, permutations, product
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from memnb.mragent.separation import (
    Active, bayes_head, Estimate, first_leaves, fixed, follower, History, last_word, Passive,
    random_nodes, simulate, target_chances)
from memnb.mragent.separation import BLANK, Forest, Labels, NeedleTree, stream
from memnb.mragent.separation import (
    best_passive_error, equation_19, follower_error, passive_error, passive_errors,
    random_passive_error, shape_of)

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
    return Labels(answer, draw(st.none() | laws(len(answer))))


@st.composite
def tiny_trees(draw):
    "Trees so small that all of them can be written down."
    depth, branching = draw(st.sampled_from([(1, 2), (1, 3), (2, 2)]))
    found = draw(labels())
    return NeedleTree(depth, found if depth == 1 or len(found.answer) < 3 else Labels(found.answer[:2] if sum(found.answer[:2]) == 1 else (.5, .5)), branching)


@lru_cache(maxsize=64)
def all_trees(tree):
    "Every tree: (exact probability, what each node says, the answer)."
    answers = {label: Fraction(round(10 * share), 10) for label, share in enumerate(tree.labels.answer)}
    others = {BLANK: Fraction(1)} if tree.labels.distractors is None else \
        {label: Fraction(round(10 * share), 10) for label, share in enumerate(tree.labels.distractors)}
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
    assert stream(np.array([1234567], dtype=np.uint64), np.arange(5)).tolist() == [
        6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821]


def test_a_label_that_cannot_occur_does_not_occur_at_the_edges():
    from memnb.mragent.separation import _labelled
    edges = np.array([0, 2**64 - 1], dtype=np.uint64)
    assert _labelled(edges, (0, 1)).tolist() == [1, 1]
    assert _labelled(edges, (.1,) * 10 + (0,)).tolist() == [0, 9]  # the tenths add up to a little less than 1
    assert _labelled(edges, (1, 0)).tolist() == [0, 0]
    assert _labelled(edges, None).tolist() == [BLANK, BLANK]


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
    forest = Forest.drawn(tree, trials, np.random.default_rng(seed))
    walk = Active(choose, steps).walk(np.arange(trials), forest)
    seen = Counter(zip(map(tuple, walk.nodes.tolist()), map(tuple, walk.says.tolist()), forest.answer.tolist()))
    assert set(seen) <= set(expected)
    for what, chance in expected.items():
        assert float(chance) in Estimate.of(seen[what], trials, 1 - 1e-11), what


@given(st.integers(1, 5), st.integers(2, 4), labels(), st.integers(0, 2**32))
def test_a_forest_says_the_same_however_it_is_asked(depth, branching, found, seed):
    tree = NeedleTree(depth, found, branching)
    chance = np.random.default_rng(seed)
    forest = Forest.drawn(tree, 12, chance)
    nodes = chance.integers(0, tree.nodes, (12, 5))
    together = forest.read(nodes)
    assert (together == np.stack([forest.read(column) for column in nodes.T], axis=1)).all()
    for row in range(12):
        alone = Forest(tree, forest.keys[row:row + 1])
        node = 0
        while node < tree.first_leaf:
            node = branching * node + 1 + int(alone.read(np.array([node]))[0])
        assert node == forest.target[row]
        assert alone.read(nodes[row:row + 1]).tolist() == [together[row].tolist()]
    inner = nodes < tree.first_leaf
    assert ((0 <= together) & (together < branching))[inner].all()
    blank = ~inner & (nodes != forest.target[:, None])
    if found.distractors is None:
        assert (together[blank] == BLANK).all()
    else:
        assert all(found.distractors[label] > 0 for label in together[blank])
    assert all(found.answer[label] > 0 for label in forest.answer)


def test_nothing_is_as_wide_as_the_tree():
    tree = NeedleTree(45, Labels([.5, .5], [.5, .5]))  # 70,368,744,177,663 nodes
    assert simulate(follower(tree), tree, 300, seed=1).wrong == 0
    for policy in (first_leaves(tree), random_nodes(tree)):
        assert .5 in simulate(policy, tree, 300, seed=1, confidence=SURE)


@pytest.mark.parametrize('make, words', [
    (lambda: Labels([.5, .4]), 'answer: expected probabilities that sum to 1'),
    (lambda: Labels([1.5, -.5]), 'sum to 1'),
    (lambda: Labels([]), 'sum to 1'),
    (lambda: Labels([float('nan'), 1]), 'sum to 1'),
    (lambda: Labels([.5, .5], [.6, .5]), 'distractors: expected probabilities'),
    (lambda: Labels([.5, .5], [1]), 'expected 2 probabilities'),
    (lambda: NeedleTree(0, [1]), 'depth: expected a whole number of at least 1'),
    (lambda: NeedleTree(1.0, [1]), 'depth'),
    (lambda: NeedleTree(1, [1], branching=1), 'branching: expected a whole number of at least 2'),
    (lambda: NeedleTree(62, [1]), 'fewer than 2'),
    (lambda: simulate(fixed([0]), NeedleTree(1, [1]), 0, seed=0), 'trials: expected a whole number of at least 1, got 0'),
    (lambda: simulate(fixed([0]), NeedleTree(1, [1]), 2.5, seed=0), 'trials'),
    (lambda: simulate(fixed([0]), NeedleTree(1, [1]), 5, seed=0, confidence=1), 'confidence'),
    (lambda: simulate(fixed([3]), NeedleTree(1, [1]), 5, seed=0), '0 to 2'),
    (lambda: simulate(fixed([-1]), NeedleTree(1, [1]), 5, seed=0), '0 to 2'),
    (lambda: simulate(Passive(lambda query: np.array([.5])), NeedleTree(1, [1]), 5, seed=0), 'numbers of nodes'),
    (lambda: simulate(Active(lambda query, history: query[:2]), NeedleTree(1, [1]), 5, seed=0), 'shape (5,)'),
    (lambda: simulate(Passive(lambda query: np.zeros((2, 2), dtype=int)), NeedleTree(1, [1]), 5, seed=0), 'shape (5, 2)'),
    (lambda: simulate(fixed([0], head=lambda history: history.says), NeedleTree(1, [1]), 5, seed=0), 'head: expected'),
    (lambda: random_nodes(NeedleTree(1, [1]), 4), 'budget: expected 0 to 3'),
    (lambda: passive_errors(NeedleTree(1, [1]), 4), 'budget: expected 0 to 3'),
    (lambda: passive_error(NeedleTree(1, [1]), [3]), 'nodes: expected numbers from 0 to 2'),
    (lambda: best_passive_error(0), 'depth'),
    (lambda: best_passive_error(2, branching=1), 'branching'),
    (lambda: best_passive_error(2, prior=(.5, .6)), 'sum to 1'),
    (lambda: best_passive_error(2, budget=-1), 'budget'),
    (lambda: equation_19(1), 'depth'),
    (lambda: equation_19(-1, depth=2), 'budget: expected a whole number of at least 0, got -1'),
    (lambda: equation_19(2.5, depth=2), 'budget'),
    (lambda: follower(NeedleTree(2, [1]), 0), 'budget'),
])
def test_bad_input_gets_a_clear_error(make, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        make()


def test_a_bare_function_does_not_say_what_it_may_see():
    with pytest.raises(TypeError, match='Active'):
        simulate(lambda query: query, NeedleTree(1, [1]), 5, seed=0)


# ---- readers

@given(st.integers(1, 12), st.integers(2, 5), labels(), st.integers(0, 2**32), st.sampled_from([None, last_word]), st.integers(0, 3))
@settings(max_examples=60)
def test_the_active_error_is_zero(depth, branching, found, seed, head, more):
    tree = NeedleTree(depth, found, branching)
    assert simulate(follower(tree, tree.budget + more, head), tree, 150, seed).wrong == 0


@given(tiny_trees(), st.data())
@settings(max_examples=60)
def test_the_head_says_the_likeliest_answer_to_whatever_was_seen(tree, data):
    nodes = data.draw(st.lists(st.integers(0, tree.nodes - 1), max_size=5))  # the same node more than once, too
    heaps = heaps_of(tree, nodes)
    said = bayes_head(tree)(History(np.tile(np.array(nodes, dtype=int), (len(heaps), 1)), np.array(list(heaps), dtype=int).reshape(len(heaps), -1)))
    for answer, heap in zip(said.tolist(), heaps.values()):
        assert heap[answer] == max(heap.values())


@given(st.sampled_from([(1, 2), (2, 2), (3, 2), (2, 3)]), st.data())
def test_the_chance_of_a_leaf_is_what_the_signposts_leave(size, data):
    tree = NeedleTree(size[0], Labels([1], [1]), size[1])
    nodes = data.draw(st.lists(st.integers(0, tree.nodes - 1), min_size=1, max_size=6))
    forest = Forest.drawn(tree, 40, np.random.default_rng(data.draw(st.integers(0, 99))))
    history = fixed(nodes).walk(np.arange(40), forest)
    signs = np.array(list(product(range(tree.branching), repeat=tree.first_leaf)))
    ends = np.zeros(len(signs), dtype=int)
    for _ in range(tree.depth):
        ends = tree.branching * ends + 1 + signs[np.arange(len(signs)), ends]
    for row, found in zip(history.says, target_chances(tree, history)):
        fits = np.all([signs[:, node] == word for node, word in zip(nodes, row) if node < tree.first_leaf] or [np.ones(len(signs), bool)], axis=0)
        for place, node in enumerate(nodes):
            expected = np.mean(ends[fits] == node) if node not in nodes[:place] else 0
            assert found[place] == pytest.approx(expected)


@given(st.integers(1, 4), st.integers(2, 3), labels(), st.integers(0, 2**32), st.data())
@settings(max_examples=40)
def test_a_passive_policy_is_an_active_one(depth, branching, found, seed, data):
    tree = NeedleTree(depth, found, branching)
    for policy in (first_leaves(tree), random_nodes(tree, seed=seed), fixed(data.draw(st.lists(st.integers(0, tree.nodes - 1), min_size=1, max_size=4)))):
        budget = np.atleast_2d(policy.choose(np.arange(2))).shape[1]
        assert simulate(policy, tree, 60, seed) == simulate(policy.as_active(budget), tree, 60, seed)


def test_random_nodes_are_all_sets_alike():
    tree, trials = NeedleTree(2, [.5, .5]), 21_000
    sets = Counter(frozenset(row) for row in random_nodes(tree, 2).choose(np.arange(trials)).tolist())
    assert set(sets) == {frozenset(pair) for pair in combinations(range(7), 2)}
    assert all(1 / 21 in Estimate.of(count, trials, 1 - 1e-11) for count in sets.values())


def test_every_block_of_trials_is_fresh():
    "More trials than fit one block: other trees and other dice, not the same again."
    tree = NeedleTree(3, Labels([.5, .5], [.5, .5]))
    seen = []
    spy = Passive(lambda query: seen.append(query) or random_nodes(tree).choose(query))
    estimate = simulate(spy, tree, 70_000, seed=3)
    assert estimate.trials == 70_000 == sum(len(query) for query in seen) and len(seen) == 3
    assert (np.concatenate(seen) == np.arange(70_000)).all()
    first, second = (random_nodes(tree).choose(query[:2_000]) for query in seen[:2])
    assert (first != second).any()
    assert random_passive_error(tree) in Estimate.of(estimate.wrong, estimate.trials, SURE)
    assert simulate(random_nodes(tree), tree, 70_000, seed=3) == estimate  # the same inputs, the same result


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
    counted = Counter(shape_of(tree, nodes) for nodes in errors)
    assert counted == {row.shape: row.count for row in rows}
    options = dict(branching=tree.branching, depth=tree.depth)
    if budget:
        assert min(errors.values()) >= equation_19(budget, tree.labels.answer, **options) - 1e-9
    assert random_passive_error(tree, budget) == pytest.approx(sum(errors.values()) / len(errors), abs=1e-9)
    if tree.labels.distractors is None:
        closed = best_passive_error(prior=tree.labels.answer, budget=budget, **options)
        assert min(errors.values()) == pytest.approx(closed, abs=1e-9)


@pytest.mark.parametrize('depth, branching', [(3, 2), (4, 2), (2, 3), (3, 3), (1, 6), (2, 4)])
def test_the_closed_form_is_the_minimum_in_larger_trees(depth, branching):
    prior = (.5, .3, .2)
    rows = passive_errors(NeedleTree(depth, prior, branching))
    closed = best_passive_error(depth, branching=branching, prior=prior)
    assert rows[0].error == pytest.approx(closed, abs=1e-9)
    assert closed == pytest.approx(equation_19(depth + 1, prior, branching=branching), abs=1e-12)


def test_the_expected_values():
    assert best_passive_error(1) == 0 == equation_19(2)
    assert best_passive_error(2) == .125 == equation_19(3)
    assert passive_errors(NeedleTree(1, Labels([.5, .5], [.5, .5])))[0].error == pytest.approx(.25)
    for prior in ((.5, .5), (.9, .1), (.25,) * 4):
        assert best_passive_error(1, branching=3, prior=prior) == pytest.approx((1 - max(prior)) / 3)
    assert follower_error(NeedleTree(3, [.5, .5])) == 0
    assert equation_19(9, depth=2) == 0 == best_passive_error(2, budget=9)


@given(st.permutations(range(2)), st.permutations(range(2)), st.permutations(range(2)), st.sets(st.integers(0, 6)), labels())
@settings(max_examples=40)
def test_children_may_be_swapped(top, left, right, nodes, found):
    if len(found.answer) > 2:
        found = Labels((.5, .5), (.3, .7))
    tree = NeedleTree(2, found)
    moved = {0: 0}
    for parent, order in ((0, top), (1, left), (2, right)):
        for way in range(2):
            moved[2 * parent + 1 + way] = 2 * moved[parent] + 1 + order[way]
    assert float(exact_error(tree, sorted(nodes))) == pytest.approx(passive_error(tree, {moved[node] for node in nodes}), abs=1e-9)
    assert shape_of(tree, nodes) == shape_of(tree, {moved[node] for node in nodes})


# ---- simulation against exact errors

@given(st.sampled_from([(1, 2), (2, 2), (3, 2), (2, 3)]), labels(), st.integers(0, 2**32), st.data())
@settings(max_examples=40)
def test_a_simulation_stays_within_its_interval(size, found, seed, data):
    tree = NeedleTree(size[0], found, size[1])
    nodes = data.draw(st.sets(st.integers(0, tree.nodes - 1), min_size=1, max_size=5))
    assert passive_error(tree, nodes) in simulate(fixed(sorted(nodes)), tree, 2_000, seed, confidence=SURE)
    budget = data.draw(st.integers(1, tree.budget + 1))
    assert follower_error(tree, budget) in simulate(follower(tree, budget), tree, 2_000, seed, confidence=SURE)


@given(st.integers(1, 3_000), st.floats(0, 1), st.sampled_from([.5, .95, SURE]))
@settings(max_examples=40)
def test_the_interval_is_that_of_clopper_and_pearson(trials, part, confidence):
    from scipy.stats import binomtest
    wrong = round(part * trials)
    found, expected = Estimate.of(wrong, trials, confidence), binomtest(wrong, trials).proportion_ci(confidence)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=1e-9)
    assert found.error in found


def test_the_interval_covers_as_often_as_it_says():
    from scipy.stats import binom
    tree, runs = NeedleTree(2, [.5, .5]), 600
    missed = sum(1 / 8 not in simulate(first_leaves(tree), tree, 250, seed) for seed in range(runs))
    assert missed <= binom.ppf(SURE, runs, .05)
    tight = sum(1 / 8 not in simulate(first_leaves(tree), tree, 250, seed, confidence=.5) for seed in range(200))
    assert tight > binom.ppf(1e-9, 200, .3)  # an interval that always covers would be no interval


# ---- the classes

def rules(trees, steps):
    "All deterministic rules as (nodes by step, a set for each), with the heaps that they make of the trees."
    if not steps:
        yield [], [trees]
        return
    for node in range(len(trees[0])):
        heaps = [[says for says in trees if says[node] == word] for word in sorted({says[node] for says in trees})]
        for later in product(*(list(rules(heap, steps - 1)) for heap in heaps)):
            yield [{node}, *(set().union(*level) for level in zip(*(one for one, _ in later)))], [heap for _, parts in later for heap in parts]


@pytest.mark.parametrize('tree, separates', [(NeedleTree(1, [.5, .5]), False), (NeedleTree(1, Labels([.5, .5], [.5, .5])), True),
                                             (NeedleTree(1, [.5, .5], branching=3), True)])
def test_active_contains_passive_and_at_two_nodes_not_every_task_separates(tree, separates):
    weight = {(says, answer): chance for chance, says, answer in all_trees(tree)}
    trees = [says for _, says, _ in all_trees(tree)]
    for steps in (1, 2):
        found = {True: set(), False: set()}
        for levels, heaps in rules(trees, steps):
            for said in product((0, 1), repeat=len(heaps)):
                found[all(len(level) == 1 for level in levels)].add(frozenset((says, one) for heap, one in zip(heaps, said) for says in heap))
        passive, active = found[True], found[True] | found[False]
        error = {name: float(1 - max(sum(weight.get(pair, 0) for pair in one) for one in kind)) for name, kind in (('p', passive), ('a', active))}
        assert (passive < active) == (steps == 2 and separates)
        assert error['p'] == pytest.approx(passive_errors(tree, steps)[0].error, abs=1e-9)
        assert error['a'] == pytest.approx(follower_error(tree, steps), abs=1e-9)
        assert (error['a'] < error['p']) == (steps == 2 and separates)
