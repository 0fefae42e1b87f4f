"""Intervals: cases worked by hand, scipy and every way to draw as oracles, laws over arbitrary samples, and coverage."""

import itertools
import statistics

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from memnb.evaluation import metrics
from memnb.evaluation.metrics import bootstrap, Interval, paired, refusal_scores, wilson

scores = st.floats(0, 1, allow_subnormal=False)
values = st.lists(scores, min_size=1, max_size=12)
pairs = st.lists(st.tuples(scores, scores), min_size=1, max_size=12)
clustered = st.lists(st.tuples(scores, st.sampled_from('abcd')), min_size=1, max_size=12)
often = settings(max_examples=50)


@pytest.fixture(autouse=True, scope='module')
def few_resamples():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(metrics, '_RESAMPLES', 400)
        metrics._counts.cache_clear()
        yield patch
    metrics._counts.cache_clear()


def ends(interval):
    return interval.low, interval.high


def apart(rows):
    """The two columns of some rows."""
    return [one for one, _ in rows], [other for _, other in rows]


# --- oracles ---------------------------------------------------------------------------------------------------------


def reach_by_hand(groups, confidence):
    """What is below and above the mean, from every way to draw as many groups as there are, one way after the other."""
    mean = statistics.fmean(value for group in groups for value in group)
    means = []
    for ways in itertools.product(groups, repeat=len(groups)):
        drawn = [value for group in ways for value in group]
        means.append(statistics.fmean(drawn))
    low, high = np.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2])
    sizes = [len(group) for group in groups]
    worth = max(2, sum(sizes) ** 2 / sum(size * size for size in sizes))
    factor = (
        (worth / (worth - 1)) ** 0.5
        * stats.t.ppf((1 + confidence) / 2, worth - 1)
        / stats.norm.ppf((1 + confidence) / 2)
    )
    return factor * min(low - mean, 0), factor * max(high - mean, 0)


@given(st.lists(st.lists(st.floats(-1, 1, allow_subnormal=False), min_size=1, max_size=2), min_size=1, max_size=3))
@often
def test_few_values_agree_with_every_way_to_draw_them(groups):
    flat = [value for group in groups for value in group]
    assume(len(flat) <= 4)
    names = [name for name, group in enumerate(groups) for _ in group]
    units = [[[value] for value in flat], groups] if len(groups) > 1 else [[[value] for value in flat]]
    reaches = [reach_by_hand(one, 0.95) for one in units]
    mean = statistics.fmean(flat)
    low = max(mean + min(low for low, _ in reaches), min(flat))
    high = min(mean + max(high for _, high in reaches), max(flat))
    assert ends(bootstrap(flat, names)) == pytest.approx((low, high), abs=1e-9)


# --- laws ------------------------------------------------------------------------------------------------------------


@given(clustered, st.booleans())
@often
def test_the_interval_holds_the_mean_and_stays_among_the_values(rows, with_clusters):
    sample, names = apart(rows)
    found = bootstrap(sample, names if with_clusters else None)
    assert found.mean == pytest.approx(np.mean(sample))
    assert found.n == len(sample)
    assert min(sample) <= found.low <= found.mean <= found.high <= max(sample)
    assert found.over == ('conversations' if with_clusters and len(set(names)) > 1 else 'questions')


@given(clustered, st.integers(0, 12), st.sampled_from('abcde'))
@often
def test_values_that_are_none_change_nothing(rows, place, name):
    sample, names = apart(rows)
    more, others = apart([*rows[:place], (None, name), *rows[place:]])
    assert bootstrap(more) == bootstrap(sample)
    assert bootstrap(more, others) == bootstrap(sample, names)


@given(clustered, st.randoms(use_true_random=False))
@often
def test_order_does_not_count_nor_do_names(rows, random):
    mixed = list(rows)
    random.shuffle(mixed)
    for clusters in (lambda names: None, lambda names: names, lambda names: [f'conversation {name}' for name in names]):
        there, back = [bootstrap(one, clusters(names)) for one, names in (apart(rows), apart(mixed))]
        assert there == back


@given(clustered)
@often
def test_conversations_never_make_it_narrower(rows):
    sample, names = apart(rows)
    loose, strict = bootstrap(sample), bootstrap(sample, names)
    assert strict.low <= loose.low and loose.high <= strict.high


@given(pairs)
@often
def test_a_paired_difference_changes_its_sign_with_its_sides(rows):
    ours, theirs = apart(rows)
    there, back = paired(ours, theirs), paired(theirs, ours)
    assert there.mean == pytest.approx(np.mean(ours) - np.mean(theirs))
    assert (there.mean, there.low, there.high) == pytest.approx((-back.mean, -back.high, -back.low), abs=1e-12)


@given(pairs, st.integers(0, 11))
@often
def test_a_pair_with_one_side_missing_is_left_out(rows, place):
    ours, theirs = apart(rows)
    place = min(place, len(rows) - 1)
    left = [row for number, row in enumerate(rows) if number != place]
    missing = [None if number == place else value for number, value in enumerate(ours)]
    assert paired(missing, theirs) == paired(*apart(left))


@given(st.lists(st.tuples(scores, scores), min_size=1, max_size=6), st.floats(0.1, 3), st.floats(-2, 2))
@often
def test_the_interval_moves_and_grows_with_the_values(groups, scale, shift):
    sample, names = apart([(value, name) for name, group in enumerate(groups) for value in group])
    plain, moved = (
        bootstrap(sample, names),
        bootstrap([scale * value + shift for value in sample], names),
    )
    assert (moved.mean, *ends(moved)) == pytest.approx(
        [scale * number + shift for number in (plain.mean, *ends(plain))], abs=1e-9
    )


# --- by hand ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    'wrong, words',
    [
        (lambda: bootstrap([1.0, 0.0], ['a']), 'one for each of 2 values, got 1'),
        (lambda: paired([1.0], []), 'shorter'),
        (lambda: bootstrap([0.0, None, float('inf')]), 'finite numbers or None, got .*inf'),
        (lambda: bootstrap([float('nan')], ['a']), 'finite numbers or None, got .*nan'),
    ],
)
def test_what_is_wrong_is_refused_with_its_place(wrong, words):
    with pytest.raises(ValueError, match=words):
        wrong()


# --- shares ----------------------------------------------------------------------------------------------------------


def wilson_by_hand(count, total):
    """The formula of 1927."""
    z, share = statistics.NormalDist().inv_cdf(0.975), count / total
    middle, reach = share + z * z / (2 * total), z * (share * (1 - share) / total + z * z / (4 * total * total)) ** 0.5
    return (middle - reach) / (1 + z * z / total), (middle + reach) / (1 + z * z / total)


@given(st.integers(0, 200).flatmap(lambda total: st.tuples(st.integers(0, total), st.just(total))))
@often
def test_wilsons_interval_is_that_of_the_formula(counts):
    count, total = counts
    found = wilson(count, total)
    if total:
        assert ends(found) == pytest.approx(wilson_by_hand(count, total), abs=1e-9)
        assert 0 <= found.low <= found.mean <= found.high <= 1
        other = wilson(total - count, total)
        assert ends(found) == pytest.approx((1 - other.high, 1 - other.low))
    else:
        assert found == Interval(None, None, None, 0)


@given(st.lists(st.tuples(st.booleans(), st.booleans()), max_size=30))
@often
def test_refusing_is_counted_as_by_hand(rows):
    found = refusal_scores(rows)
    right = [should for refused, should in rows if refused]
    caught = [refused for refused, should in rows if should]
    assert found.precision.mean == (sum(right) / len(right) if right else None) and found.precision.n == len(right)
    assert found.recall.mean == (sum(caught) / len(caught) if caught else None) and found.recall.n == len(caught)
    assert found.recall == wilson(sum(caught), len(caught))
    if sum(right):
        assert found.f1 == pytest.approx(statistics.harmonic_mean([found.precision.mean, found.recall.mean]))
    else:
        assert found.f1 == (0 if right or caught else None)
    assert found == refusal_scores(rows[::-1])
    swapped = refusal_scores([(should, refused) for refused, should in rows])
    assert (swapped.precision, swapped.recall, swapped.f1) == (found.recall, found.precision, found.f1)


# --- does it keep its promise? ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    'conversations, rho, least, most', [(3, 0, 0.94, 1), (3, 0.05, 0.91, 0.98), (10, 0.05, 0.9, 0.98)]
)
def test_ninety_five_intervals_of_a_hundred_hold_the_truth(conversations, rho, least, most):
    random = np.random.default_rng(conversations)
    sizes = np.resize([80, 140, 200], conversations)
    names, hits = np.repeat(np.arange(conversations), sizes).tolist(), 0
    for _ in range(200):
        rate = (
            random.beta(0.7 * (1 / rho - 1), 0.3 * (1 / rho - 1), size=conversations)
            if rho
            else np.full(conversations, 0.7)
        )
        found = bootstrap((random.random(sizes.sum()) < np.repeat(rate, sizes)).astype(float).tolist(), names)
        hits += found.low <= 0.7 <= found.high
    assert least <= hits / 200 <= most
