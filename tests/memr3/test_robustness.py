"""What is injected into a memory: as much as was asked for, nothing else touched, and the same for every order of the store."""
import random

import pytest
from hypothesis import given, settings, strategies as st

from memnb.baselines import _contradict, inject
from memnb.core.conversation import Snippet

SNIPPETS = st.lists(st.tuples(st.text('abc123', min_size=1, max_size=4), st.text(max_size=12) | st.sampled_from(
    ['On Monday at 7 in May.', 'my sister', 'MAY', 'first of june', '٣ days', '']), st.booleans()), max_size=12, unique_by=lambda item: item[0]
).map(lambda items: [Snippet(id, text, (f'T{id}', 'T0') if sourced else (), speaker='Ada', session='S1', position=0) for id, text, sourced in items])
KINDS = st.sampled_from(['noise', 'copies', 'contradictions'])
SETTINGS = settings(max_examples=60, deadline=None)


@SETTINGS
@given(SNIPPETS, st.floats(0, 1), st.integers(0, 5), KINDS)
def test_as_many_as_asked_with_ids_and_sources_of_their_own(snippets, rate, seed, kind):
    extra, hosts = inject(snippets, kind, rate, seed), {snippet.id: snippet for snippet in snippets}
    assert len(extra) == round(rate * len(snippets)) == len({one.id for one in extra})
    assert not {one.id for one in extra} & set(hosts)
    for one in extra:
        host = hosts[one.id.removesuffix(f'~{kind}')]
        assert one.session is one.position is None and one.speaker == 'Ada'
        assert one.sources == ((one.id,) if kind != 'copies' else host.sources or (host.id,))
        assert (one.text == host.text) == (kind == 'copies')


@SETTINGS
@given(SNIPPETS, st.floats(0, 1), st.floats(0, 1), st.integers(0, 5), KINDS, st.randoms(use_true_random=False))
def test_rates_nest_and_order_does_not_matter(snippets, one, other, seed, kind, chance):
    less, more = sorted((one, other))
    few, many = inject(snippets, kind, less, seed), inject(chance.sample(snippets, len(snippets)), kind, more, seed)
    assert few == many[:len(few)]


@given(st.integers(0, 1000))
def test_facts_change_within_their_kind(seed):
    chance = random.Random(seed)
    words = _contradict('On Monday my sister had two cakes.', chance).split()
    assert words[1] != 'Monday' and words[1].endswith('day') and words[1][0].isupper()
    assert words[3] != 'sister' and words[5] != 'two' and words[0] == 'On' and words[6] == 'cakes.'
    assert _contradict('room 118', chance) != 'room 118' and _contradict('two cakes', chance).islower()
    assert 'Sundayish' in _contradict('Sundayish, at 5', chance)


@pytest.mark.parametrize('rate', [-.1, 1.1, 30, float('nan')])
def test_a_rate_that_is_no_part_is_refused(rate):
    with pytest.raises(ValueError, match='rate: expected a number from 0 to 1'):
        inject([], 'noise', rate)
    with pytest.raises(ValueError, match='kind: expected noise, copies or contradictions'):
        inject([], 'dust', .1)
