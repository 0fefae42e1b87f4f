"""Injected faults: what each kind takes away, what damage counts as lost, and what a trial finds of it."""

import re
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from memnb.core.conversation import Conversation
from memnb.core.text import stems
from memnb.evaluation.datasets import load_sample
from memnb.evaluation.faults import _stems_of, damage, damaged_text, FAULTS, trial
from memnb.memma.bank import Entry, MemoryBank
from memnb.memma.construction import construct

SAMPLE = load_sample()
BRIEF = replace(SAMPLE.sessions[0], turns=SAMPLE.sessions[0].turns[:8])
words = st.sampled_from(
    'Tobin ran baked Crumb concertina organ Zofia Skerrin 61 yesterday tram kettle rye mended'.split()
)
texts = st.lists(words, min_size=1, max_size=7).map(' '.join)


@given(texts, st.sampled_from(sorted(FAULTS)))
def test_a_fault_only_takes_away(text, kind):
    hurt = damaged_text(kind, Entry('m1', text), (), ('Tobin', 'Zofia'))
    assert stems(hurt) <= stems(text) | stems('something')
    runs = re.findall(r'[A-Z]\w*(?: [A-Z]\w*)*', text)  # words with a capital, one beside the other, are one name
    if kind == 'names' and all({*run.split()} <= {'Tobin', 'Zofia'} for run in runs if 'Tobin' in run):
        assert ('Tobin' in hurt) == ('Tobin' in text)


@given(st.integers(0, 20), st.sampled_from(sorted(FAULTS)), st.sampled_from([0.1, 0.2, 0.5, 1.0]))
@settings(max_examples=12)
def test_damage_is_what_it_says(seed, kind, share):
    bank = MemoryBank()
    construct(bank, BRIEF, speakers=SAMPLE.speakers)
    before = {entry.id: entry for entry in bank}
    lost = damage(bank, list(before), kind, share, str(seed), SAMPLE.speakers)
    changed = {id for id in before if id not in bank or bank[id] != before[id]}
    able = [
        entry for entry in before.values() if damaged_text(kind, entry, before.values(), SAMPLE.speakers) != entry.text
    ]
    assert {entry.id for entry in lost} <= changed and len(changed) == round(share * len(able))
    for entry, words in lost.items():
        assert entry == before[entry.id] and not words <= _stems_of(bank, entry.sources)
        bank.add(entry.text, sources=entry.sources)
        assert words <= _stems_of(bank, entry.sources)


def test_a_trial_counts_what_is_nested_and_repairs_bring_back():
    one = Conversation('short', SAMPLE.sessions[:2])
    for kind in FAULTS:
        counts = trial(one, kind, probes=8)[1]
        assert counts['detected'] <= counts['probed'] <= counts['damaged'] and counts['repaired'] <= counts['damaged']
        assert counts['passed before'] <= counts['passed after'] <= counts['probes']
    assert trial(one, 'blur', probes=8, seed=1)[1] == trial(one, 'blur', probes=8, seed=1)[1]
    assert trial(one, 'blur', probes=8)[1]['repaired'] > 0
