"""What is injected into a memory: as much as was asked for, nothing else touched, and the same for every order of the store."""
import random

import pytest
from hypothesis import given, settings, strategies as st

from memnb.baselines import changed, chatter, contradictory, duplicated, noisy, picked
from memnb.core.conversation import Snippet

SNIPPETS = st.lists(st.tuples(st.text('abc123', min_size=1, max_size=4), st.text(max_size=12) | st.sampled_from(
    ['On Monday at 7 in May.', 'my sister', 'MAY', 'first of june', '٣ days', '']), st.booleans()), max_size=12, unique_by=lambda item: item[0]
).map(lambda items: [Snippet(id, text, (f'T{id}', 'T0') if sourced else (), speaker='Ada', session='S1', position=0) for id, text, sourced in items])
RATES = st.floats(0, 1)
INJECTORS = st.sampled_from([noisy, duplicated, contradictory])
SETTINGS = settings(max_examples=60, deadline=None)


@SETTINGS
@given(SNIPPETS, RATES, st.integers(0, 5), INJECTORS)
def test_as_many_as_asked_with_new_ids_and_no_neighbours(snippets, rate, seed, inject):
    extra = inject(snippets, rate, seed)
    known = {snippet.id for snippet in snippets}
    assert len(extra) == round(rate * len(snippets)) == len({one.id for one in extra})
    assert not {one.id for one in extra} & known
    assert all(one.session is one.position is None and one.speaker == 'Ada' for one in extra)


@SETTINGS
@given(SNIPPETS, RATES, RATES, st.integers(0, 5), INJECTORS, st.randoms(use_true_random=False))
def test_rates_nest_and_order_does_not_matter(snippets, one, other, seed, inject, chance):
    less, more = sorted((one, other))
    mixed = chance.sample(snippets, len(snippets))
    few, many = inject(snippets, less, seed), inject(mixed, more, seed)
    assert few == many[:len(few)]


@SETTINGS
@given(SNIPPETS, st.integers(0, 5))
def test_whose_turns_stand_behind_what_is_injected(snippets, seed):
    hosts = picked(snippets, 1, seed)
    for copy, host in zip(duplicated(snippets, 1, seed), hosts):
        assert (copy.text, copy.sources) == (host.text, host.sources or (host.id,))
    for one in noisy(snippets, 1, seed) + contradictory(snippets, 1, seed):
        assert one.sources == (one.id,)


@SETTINGS
@given(SNIPPETS, st.integers(0, 5))
def test_a_contradiction_differs_from_its_host(snippets, seed):
    for one, host in zip(contradictory(snippets, 1, seed), picked(snippets, 1, seed)):
        assert one.text != host.text


@given(st.integers(0, 1000))
def test_facts_change_within_their_kind(seed):
    chance = random.Random(seed)
    told = changed('On Monday my sister had two cakes.', chance).split()
    assert told[1] != 'Monday' and told[1].endswith('day') and told[1][0].isupper()
    assert told[3] != 'sister' and told[5] != 'two' and told[0] == 'On' and told[6] == 'cakes.'
    assert changed('room 118', chance) != 'room 118' and changed('room 118', chance).startswith('room ')
    assert changed('Two cakes', chance).split()[0].istitle() and changed('two cakes', chance).islower()
    assert 'Sundayish' in changed('Sundayish, at 5', chance)


def test_seeds_differ_and_chatter_is_a_sentence():
    snippets = [Snippet(f's{number}', f'{number} cats') for number in range(40)]
    assert picked(snippets, .5, 1) != picked(snippets, .5, 2)
    assert noisy(snippets, 1, 1) != noisy(snippets, 1, 2)
    assert len({one.text for one in noisy(snippets, 1)}) > 20
    assert chatter(random.Random(1)).endswith('.')


@pytest.mark.parametrize('rate', [-.1, 1.1, 30, float('nan')])
def test_a_rate_that_is_no_part_is_refused(rate):
    with pytest.raises(ValueError, match='rate: expected a number from 0 to 1'):
        picked([], rate)
