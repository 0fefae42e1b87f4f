"""Intervals: cases worked by hand, scipy as the oracle, and laws over arbitrary samples."""
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest

from memnb.intervals import Interval, bootstrap, paired, wilson

values = st.lists(st.floats(0, 1), min_size=1, max_size=12)
often = settings(max_examples=50, deadline=None)


@given(values)
@often
def test_the_interval_holds_the_mean_and_stays_among_the_values(sample):
    found = bootstrap(sample, resamples=300)
    assert found.mean == pytest.approx(np.mean(sample))
    assert found.n == len(sample)
    assert min(sample) - 1e-9 <= found.low <= found.mean + 1e-9
    assert found.mean - 1e-9 <= found.high <= max(sample) + 1e-9


@given(values, st.integers(0, 5))
@often
def test_values_that_are_none_change_nothing(sample, place):
    place = min(place, len(sample))
    assert bootstrap([*sample[:place], None, *sample[place:]], resamples=200) == bootstrap(sample, resamples=200)


@given(values)
@often
def test_a_cluster_for_each_value_is_the_same_as_none(sample):
    assert bootstrap(sample, clusters=list(range(len(sample))), resamples=200) == bootstrap(sample, resamples=200)


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=12))
@often
def test_a_paired_difference_changes_its_sign_with_its_sides(pairs):
    ours, theirs = [one for one, _ in pairs], [other for _, other in pairs]
    there, back = paired(ours, theirs, resamples=200), paired(theirs, ours, resamples=200)
    assert there.mean == pytest.approx(np.mean(ours) - np.mean(theirs))
    assert (there.mean, there.low, there.high) == pytest.approx((-back.mean, -back.high, -back.low))
    assert paired(ours, ours).low == paired(ours, ours).high == 0


def test_the_interval_is_scipys():
    stats = pytest.importorskip('scipy.stats')
    sample = np.random.default_rng(3).random(80)
    theirs = stats.bootstrap([sample], np.mean, n_resamples=4000, method='percentile', random_state=0).confidence_interval
    ours = bootstrap(sample.tolist(), resamples=4000)
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=.006)


def test_whole_clusters_are_drawn():
    clusters = ['a'] * 50 + ['b'] * 50
    apart = bootstrap([0.0] * 50 + [1.0] * 50, clusters)
    assert (apart.low, apart.high) == (0, 1)
    assert bootstrap([0.0] * 50 + [1.0] * 50).high < .7
    assert bootstrap([0.0, 1.0, 1.0], ['a', 'b', 'b']).mean == pytest.approx(2 / 3)


def test_nothing_to_average_says_so():
    assert bootstrap([]) == bootstrap([None]) == Interval(None, None, None, 0)
    assert str(bootstrap([])) == '–'


@pytest.mark.parametrize('wrong, words', [
    (lambda: bootstrap([1.0, 0.0], ['a']), 'one for each of 2 values'),
    (lambda: paired([1.0], []), 'got 1 and 0'),
])
def test_unequal_lengths_are_refused(wrong, words):
    with pytest.raises(ValueError, match=words):
        wrong()


@given(st.integers(0, 200).flatmap(lambda total: st.tuples(st.integers(0, total), st.just(total))), st.sampled_from([.5, .9, .95, .999]))
def test_wilsons_interval_is_that_of_scipy(counts, confidence):
    count, total = counts
    found = wilson(count, total, confidence=confidence)
    if total:
        theirs = binomtest(count, total).proportion_ci(confidence, method='wilson')
        assert (found.low, found.high) == pytest.approx((theirs.low, theirs.high), abs=1e-9)
    else:
        assert found.mean is None


@pytest.mark.parametrize('count, total', [(-1, 5), (6, 5), (1, 0)])
def test_wilson_refuses_a_count_outside_of_its_total(count, total):
    with pytest.raises(ValueError, match='expected a number from 0'):
        wilson(count, total)
