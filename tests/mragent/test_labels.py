"""Labels against a plain counter and a matrix of cosines, under an embedder that may fail at any time."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from memnb.mragent.cues import cue_id
from memnb.mragent.labels import are_lookalikes, Labels
from memnb.retrieval.vectors import EmbedderMismatch

POOL = (
    'boat',
    'Boat',
    'boats',
    'red boat',
    'Red Boats',
    'red',
    'blue boat',
    'blue',
    'sea',
    'Sea side',
    'seaside',
    'a red sea',
    'of',
    '!?',
    '?!',
    'Of',
)
THRESHOLDS = (None, -1.0, 0.2003, 0.5003, 0.7003, 0.9003)  # no cosine of small whole numbers
some = st.lists(st.sampled_from(POOL), max_size=5)


class Toy:
    """Counts some letters, capitals apart, so that it matters how a label is written. May fail in four ways."""

    name = 'toy'

    def __init__(self):
        self.failure, self.asked = None, []

    def __call__(self, texts):
        self.asked += texts
        rows = np.array([[text.count(letter) for letter in 'obeadsBRS'] for text in texts], float)
        if self.failure == 'raise':
            raise ConnectionError('the server is gone')
        if self.failure == 'nan':
            rows[-1] = np.nan
        return {'short': rows[:-1], 'narrow': rows[:, 1:]}.get(self.failure, rows)


def usual(counts, id):
    """Of all ways to write a label the most frequent, and of several the first in the alphabet."""
    ways = [(-count, way) for way, count in counts.items() if cue_id(way) == id]
    return min(ways)[1]


def matrix(shown):
    """All cosines of labels by how they are shown, in float64."""
    rows = np.array([[text.count(letter) for letter in 'obeadsBRS'] for text in shown.values()], float).reshape(-1, 9)
    lengths = np.sqrt((rows**2).sum(axis=1))
    rows /= np.where(lengths, lengths, 1)[:, None]
    return rows @ rows.T


def components(shown, threshold):
    """What each label is merged with: a matrix of steps is multiplied with itself until nothing is added."""
    if threshold is None:
        return {id: (id,) for id in shown}
    reach = (matrix(shown) >= threshold) | np.eye(len(shown), dtype=bool)
    for _ in shown:
        reach = (reach.astype(int) @ reach.astype(int)) > 0
    ids = list(shown)
    return {id: tuple(sorted(ids[place] for place in np.flatnonzero(row))) for id, row in zip(ids, reach)}


def reading(labels):
    """All that can be asked."""
    ids = sorted(one.id for one in labels.index)
    return (
        [(id, labels.spelling(id), labels.merged(id)) for id in ids],
        len(labels),
        labels.related('red sea boat', 20),
        [way in labels for way in POOL],
    )


class Life(RuleBasedStateMachine):
    """Labels come and go, some changes fail, and after each the labels are those of a plain counter."""

    @initialize(threshold=st.sampled_from(THRESHOLDS))
    def begin(self, threshold):
        self.toy, self.counts = Toy(), Counter()
        self.labels = Labels(threshold, self.toy)

    @rule(labels=some)
    def add(self, labels):
        self.labels.add(iter(labels))
        self.counts.update(labels)

    @rule(data=st.data())
    def remove(self, data):
        held = sorted(self.counts.elements())
        labels = (
            data.draw(st.lists(st.sampled_from(held), max_size=5).filter(lambda chosen: Counter(chosen) <= self.counts))
            if held
            else []
        )
        self.labels.remove(iter(labels))
        self.counts = self.counts - Counter(labels)

    @rule(labels=some)
    def remove_too_often(self, labels):
        label = (labels or ['boat'])[0]
        self.unchanged(
            KeyError,
            lambda: self.labels.remove(
                [*(way for way in labels if self.counts[way]), *[label] * (self.counts[label] + 1)]
            ),
        )

    @rule(labels=some, wrong=st.sampled_from(['', '  ', '\n', None, 3, ('boat',)]))
    def add_what_is_no_label(self, labels, wrong):
        self.unchanged((ValueError, TypeError), lambda: self.labels.add([*labels, wrong]))

    @rule(labels=some, failure=st.sampled_from(['raise', 'nan', 'short', 'narrow']), out=st.booleans())
    def fail(self, labels, failure, out):
        """Whatever needs the embedder changes nothing while that fails; a first vector may have any length."""
        held = Counter(labels) if out else Counter()
        if not held <= self.counts or (failure == 'narrow' and self.labels.index.dimension is None):
            return
        before, asked = reading(self.labels), len(self.toy.asked)
        self.toy.failure = failure
        try:
            (self.labels.remove if out else self.labels.add)(labels)
        except (ConnectionError, ValueError):
            self.toy.failure = None
            assert reading(self.labels) == before
        else:
            self.toy.failure = None
            assert len(self.toy.asked) == asked  # it needed no vector
            self.counts = self.counts - held if out else self.counts + Counter(labels)

    def unchanged(self, errors, change):
        before = reading(self.labels)
        with pytest.raises(errors):
            change()
        assert reading(self.labels) == before

    @invariant()
    def read_like_the_counter(self):
        if not hasattr(self, 'labels'):
            return
        shown = {id: usual(self.counts, id) for id in sorted({cue_id(way) for way in self.counts})}
        assert len(self.labels) == len(shown) == len(self.labels.index)
        assert (
            {one.id: one.text for one in self.labels.index} == shown == {id: self.labels.spelling(id) for id in shown}
        )
        assert {id: self.labels.merged(id) for id in shown} == components(shown, self.labels.threshold)
        assert all((way in self.labels) == (cue_id(way) in shown) for way in POOL)

    @invariant()
    def read_like_fresh_ones(self):
        if hasattr(self, 'labels'):
            fresh = Labels(self.labels.threshold, Toy())
            fresh.add(sorted(self.counts.elements()))
            assert reading(self.labels) == reading(fresh)


def test_a_label_that_goes_takes_with_it_what_it_merged():
    labels = Labels(0.55, Toy())
    labels.add(['oboe', 'sad', 'sad oboe'])
    middle, ends = cue_id('sad oboe'), [cue_id('oboe'), cue_id('sad')]
    assert labels.merged(ends[0]) == tuple(sorted([*ends, middle]))
    labels.remove(['sad oboe'])
    assert [labels.merged(end) for end in ends] == [(end,) for end in ends]


TestLife = Life.TestCase
TestLife.settings = settings(max_examples=40, stateful_step_count=12)


def filled(ways, threshold=None, embedder=None):
    labels = Labels(threshold, embedder or Toy())
    labels.add(ways)
    return labels


@settings(max_examples=50)
@given(some, st.sampled_from(['sea', 'red boats', '', 'xyz']), st.integers(1, 6))
def test_the_related_are_the_nearest_of_the_matrix_without_lookalikes(ways, text, k):
    labels = filled(ways)
    shown = {one.id: one.text for one in labels.index}
    cosines = dict(zip(shown, matrix({**shown, '': text})[-1]))
    found = labels.related(text, k)
    assert found == sorted(found, key=lambda pair: (-pair[1], pair[0])) and len(dict(found)) == len(found)
    assert dict(found) == pytest.approx({id: cosines[id] for id, _ in found}, abs=1e-6)
    near = sorted((id for id in shown if cosines[id] >= 0.5), key=cosines.get, reverse=True)
    best = [cosines[id] for id in near if not are_lookalikes(text, shown[id], cosines[id])][:k]
    assert [cosine for _, cosine in found] == pytest.approx(best, abs=1e-6)


LOOKALIKES = [  # near for an embedder of pieces, and nothing alike
    ('Halvard', 'Halifax'), ('pivot pier', 'pierogi'), ('died', 'deadline'), ('cat', 'cataract operation'),
    ('bankrupt', 'bank'), ('barrels', 'squirrels'), ('leather shoe', 'canoe'), ('sweepstake', 'cake'),
    ('Hallam Vale', 'hall'), ('concert', 'concertina'),
]  # fmt: skip
RELATED = [  # plural, case, compound, ending, a slip of a letter, and other words for a thing
    ('puppies', 'puppy'), ('greyhounds', 'greyhound'), ('Concertina lesson', 'concertina'), ('bookshop', 'book'),
    ('fireplace', 'fire'), ('grandchild', 'child'), ('birthday', 'birthday party'), ('archaeology', 'archaeologist'),
    ('contract', 'contractor'), ('concertna', 'concertina'), ('bakery', 'baker'), ('gave', 'give'), ('bicycle', 'bike'), ('puppy', 'dog'),
]  # fmt: skip


def test_labels_that_are_spelled_alike_are_not_related():
    labels = Labels()
    for related, pairs in ((False, LOOKALIKES), (True, RELATED)):
        for text, label in pairs:
            labels.add([label])
            found = label in labels and dict(labels.related(text, 3))
            assert (cue_id(label) in found) == related, (text, label, found)
            labels.remove([label])
    assert labels.related('boat', 3) == []


@pytest.mark.parametrize('wrong', [80, 1.5, -2, float('nan'), True, '.8', [0.8]])
def test_a_threshold_is_a_cosine_or_none(wrong):
    with pytest.raises(ValueError, match='threshold: expected a cosine'):
        Labels(wrong)
    assert Labels(np.float32(0.5)).threshold == 0.5 and Labels(1).threshold == 1 and Labels().threshold is None


def test_another_model_is_refused_before_anything_changes():
    toy = Toy()
    labels = filled(['boat'], 0.5, toy)
    toy.name = 'other'
    with pytest.raises(EmbedderMismatch):
        labels.add(['sea'])
    assert len(labels) == len(labels.index) == 1
