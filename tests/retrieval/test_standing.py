"""Standing instructions: they follow the hits, are masked and forgotten as these are, and an assistant gives none."""

from datetime import datetime

import pytest
from hypothesis import given, settings, strategies as st

from fakes import Letters
from memnb.core.conversation import Snippet
from memnb.core.time import TimeSpan
from memnb.retrieval.hybrid import HybridIndex
from memnb.retrieval.standing import is_standing

ASKED = [
    'Always answer in metric units.',
    'From now on, write shorter.',
    'I prefer trains to planes',
    "Please don't suggest meat",
    'call me Zo',
    'Whenever I ask about code, show tests.',
    "I'd rather you listed the steps",
]
SAID = ['the red boat', 'We went to the sea.', 'How are prefixes used?', 'I like boats', 'it rained again', '']


@pytest.mark.parametrize('speaker', [None, 'User', 'Ana'])
def test_a_wish_is_known_by_its_wording(speaker):
    assert all(is_standing(Snippet('a', text, speaker=speaker)) for text in ASKED)
    assert not any(is_standing(Snippet('a', text, speaker=speaker)) for text in SAID)
    assert not any(is_standing(Snippet('a', text, speaker='Assistant')) for text in ASKED)


@st.composite
def talks(draw):
    """Wishes and other turns, each on a day of its own."""
    turns = []
    for number, text in enumerate(draw(st.lists(st.sampled_from(ASKED + SAID), max_size=14))):
        speaker, said = draw(st.sampled_from(['User', 'User', 'Assistant', None])), datetime(2024, 1, 1 + number)
        turns.append(Snippet(f's{number:02}', text, (), None, speaker, said, 'd', number))
    return turns


@settings(max_examples=60)
@given(talks(), st.sampled_from(['trains or planes?', 'the boat', '']), st.integers(0, 8), st.integers(1, 4), st.data())
def test_they_follow_the_hits_and_keep_the_masks(turns, query, k, standing, data):
    ids = st.lists(st.sampled_from([turn.id for turn in turns] or ['none']), max_size=5)
    exclude, gone = data.draw(ids), {*data.draw(ids)} & {turn.id for turn in turns}
    during = data.draw(st.sampled_from([None, TimeSpan(datetime(2024, 1, 3).date(), None, 'span')]))
    index, plain = HybridIndex(Letters(), words=3, standing=standing), HybridIndex(Letters(), words=3)
    for store in (index, plain):
        store.add(turns)
        store.remove(gone)
    masks = {'exclude': exclude, 'during': during}
    hits, first = index.search(query, k, **masks), plain.search(query, k, **masks)
    assert hits[: len(first)] == first and (k or not hits)
    more = [hit.snippet for hit in hits[len(first) :]]
    seen = {*exclude, *gone, *(hit.snippet.id for hit in first)}
    possible = [turn for turn in turns if is_standing(turn) and turn.id not in seen]
    possible = [turn for turn in possible if during is None or turn.said.day >= 3]
    assert len(more) == (min(standing, len(possible)) if k else 0) == len({snippet.id for snippet in more})
    assert all(snippet in possible for snippet in more)
    alone = HybridIndex(Letters(), words=3, spread=False)
    alone.add(turn for turn in turns if is_standing(turn) and turn.id not in gone)
    best = [hit.snippet for hit in alone.search(query, 14, exclude=seen, during=during)]
    assert more == best[: len(more)]


def test_an_embedder_is_asked_once_and_one_that_fails_changes_nothing():
    class Failing(Letters):
        left = 3  # calls

        def __call__(self, texts):
            self.left -= 1
            if self.left < 0:
                raise RuntimeError('down')
            return super().__call__(texts)

    embedder = Failing()
    index = HybridIndex(embedder, standing=2)
    index.add([Snippet('a', ASKED[0]), Snippet('b', SAID[0])])
    assert embedder.left == 2 and len(index._standing) == 1
    index.search('boat')
    assert embedder.left == 1
    embedder.left = 0
    with pytest.raises(RuntimeError, match='down'):
        index.add([Snippet('c', ASKED[1])])
    assert len(index) == len(index.dense) == len(index.lexical) == 2 and len(index._standing) == 1
