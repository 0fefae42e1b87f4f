"""MemMA whole: its team, its transaction, its switches; what was said before; other memories behind its bank."""

import re
from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from hypothesis import given, settings, strategies as st

from memnb.memma.bank import Edit
from memnb.core.conversation import Session, Turn
from memnb.evaluation.datasets import load_sample
from memnb.memma.probe_repair import EarlierTurns
from memnb.core.models import LMByRole, OpenAILM
from memnb.memma.loop import MemMA
from memnb.memma.bank import MemoryBank
from memnb.core.text import stems
from memnb.core.roles import Call, LMError, RuleLM, Usage

SAMPLE = load_sample()
FIRST = SAMPLE.sessions[0]
BRIEF = replace(FIRST, turns=FIRST.turns[:8])
words = st.sampled_from(
    'Tobin ran baked Crumb concertina organ Zofia Skerrin 61 yesterday tram kettle rye mended'.split()
)
texts = st.lists(words, min_size=1, max_size=7).map(' '.join)


class Counting(RuleLM):
    "The rules, and how often each was asked."

    name = 'counting'

    def __init__(self):
        super().__init__()
        object.__setattr__(self, 'asked', Counter())

    def call(self, role, /, **inputs):
        self.asked[role.name] += 1
        return super().call(role, **inputs)


class Failing(RuleLM):
    "The rules, until a role was asked so often; each reply costs a call, the failure three."

    def __init__(self, role, times):
        super().__init__()
        object.__setattr__(self, 'left', {role: times})

    def call(self, role, /, **inputs):
        if role.name in self.left:
            self.left[role.name] -= 1
            if self.left[role.name] < 0:
                raise LMError('gone', Usage(3, 5, 7))
        return replace(super().call(role, **inputs), usage=Usage(1, 10, 1))


def contents(bank):
    return [(entry.id, entry.text, entry.time, entry.speaker, entry.sources) for entry in bank]


# ------------------------------------------------------------------ the team


def test_a_seeded_crew_seeds_everyone_and_leaves_the_crew_as_it_was():
    shared, own = OpenAILM('toy', 'http://127.0.0.1:1/v1', seed=1), OpenAILM('other', 'http://127.0.0.1:1/v1')
    crew = LMByRole({'mark': own, 'repair': RuleLM()}, shared)
    seeded = crew.seeded(8)
    assert (seeded.others.settings()['seed'], seeded.lms['mark'].settings()['seed']) == (8, 8)
    assert (crew.others.settings()['seed'], crew.lms['mark'].settings()['seed']) == (1, None)
    assert seeded.name == crew.name and seeded.settings() != crew.settings() and seeded.lms['repair'] == RuleLM()


# ------------------------------------------------------------------ one session or nothing


@pytest.mark.parametrize('role, times', [('write', 0), ('write', 1)])
def test_a_session_whose_writing_fails_leaves_the_bank_and_says_what_was_spent(role, times):
    memory = MemMA(lm=RuleLM(), writing={'turns': 9})
    memory.remember(BRIEF)
    before, history = contents(memory.bank), memory.bank.journal.extent('default')
    counting = Counting()
    twin = MemMA(lm=counting, history=[BRIEF])
    memory.lm = Failing(role, times)
    with pytest.raises(LMError) as caught:
        memory.remember(SAMPLE.sessions[1])
    assert contents(memory.bank) == before and memory.bank.journal.extent('default') == history
    assert caught.value.usage.calls == 3 + 2 * times + 1
    assert {turn.id for turn in memory._earlier.related(SAMPLE.sessions[2], 99)} <= {
        turn.id for turn in BRIEF.turns
    }  # nothing of the failed session is kept
    memory.lm = RuleLM()
    memory.remember(SAMPLE.sessions[1])
    assert len(memory.bank) > len(before) and twin.speakers == SAMPLE.speakers


@pytest.mark.parametrize(
    'role, times', [('guide', 0), ('guide', 1), ('probes', 0), ('answer', 0), ('answer', 3), ('mark', 0)]
)
def test_a_session_is_written_though_guidance_or_probing_fails(role, times):
    memory, plain = (MemMA(lm=lm, probes=9, writing={'turns': 9}) for lm in (Failing(role, times), RuleLM()))
    result, whole = memory.remember(FIRST), plain.remember(FIRST)
    assert len(memory.bank) and (role == 'guide' or contents(memory.bank) == contents(plain.bank))
    notes = [note for note in result.written.notes if 'written without guidance: LMError: gone' in note]
    assert bool(notes) == (role == 'guide') and (result.evolution.error == 'LMError: gone') == (role != 'guide')
    failures = len(notes) or 1
    assert result.cost[role] == Usage(times + 3 * failures, 10 * times + 5 * failures, times + 7 * failures)
    assert sum(memory.usage.values(), Usage()) == sum(result.cost.values(), Usage()) and not memory.failed
    if role != 'guide':
        assert (
            not result.evolution.written
            and str(result.evolution)
            and result.evolution.passed[0] <= whole.evolution.passed[0]
        )


def test_a_session_is_one_transaction_of_the_file(tmp_path):
    with MemoryBank(tmp_path / 'a.db') as bank:
        memory = MemMA(bank)
        for session in SAMPLE.sessions[:2]:
            memory.remember(session)
        batches = {change.batch for entry in bank for change in bank.history(entry.id)}
        assert len(batches) == 2
        entries = contents(bank)
    with MemoryBank(tmp_path / 'a.db') as bank:
        assert contents(bank) == entries
        assert MemMA(bank, history=SAMPLE.sessions[:2]).ask('When did Tobin have his first lesson?').evidence


# ------------------------------------------------------------------ options


@pytest.mark.parametrize(
    'options, kind, message',
    [
        ({'probes': -1}, ValueError, 'probes: expected 0 or more, got -1'),
        ({'k': '9'}, TypeError, "k: expected a whole number, got '9'"),
        ({'speakers': 'Ana'}, TypeError, "speakers: expected a sequence of names, got the text 'Ana'"),
        ({'writing': {'per': 'turn'}}, ValueError, "per: expected 'fact' or 'chunk', got 'turn'"),
        ({'writing': {'turns': 0}}, ValueError, 'turns: expected 1 or more'),
        ({'writing': {'guidance': False}}, TypeError, 'guidance'),
        ({'wording': 3}, TypeError, 'wording'),
    ],
)
def test_a_bad_option_is_refused_before_a_file_is_opened(options, kind, message, tmp_path):
    with pytest.raises(kind, match=re.escape(message)):
        MemMA(tmp_path / 'a.db', **options)
    assert not (tmp_path / 'a.db').exists()


# ------------------------------------------------------------------ switches


@settings(max_examples=10)
@given(st.lists(st.tuples(st.sampled_from(['Tobin', 'Zofia']), texts), min_size=1, max_size=5))
def test_telling_twice_is_telling_once(told):
    session = Session(
        'S1',
        tuple(Turn(f'S1:{number}', speaker, text) for number, (speaker, text) in enumerate(told)),
        datetime(2024, 5, 3, 9),
    )
    once, twice = MemMA(), MemMA()
    once.remember(session)
    for _ in range(2):
        twice.remember(session)
    assert [row[1:] for row in contents(twice.bank)] == [row[1:] for row in contents(once.bank)]
    assert all(set(row[4]) <= {turn.id for turn in session.turns} and row[4] for row in contents(once.bank))


# ------------------------------------------------------------------ what was said before

sessions = st.lists(st.lists(texts, min_size=1, max_size=4), min_size=1, max_size=4).map(
    lambda told: [
        Session(
            f'S{place}',
            tuple(Turn(f'S{place}:{number}', 'Ana', text) for number, text in enumerate(said)),
            datetime(2024, 1, 1) + timedelta(place),
        )
        for place, said in enumerate(told)
    ]
)


@given(sessions, st.integers(0, 6))
def test_related_turns_are_earlier_ones_as_they_were_within_the_bound(told, count):
    earlier = EarlierTurns()
    for session in told[:-1]:
        earlier.add(session)
    found = earlier.related(told[-1], count)
    kept = [replace(turn, time=session.time) for session in told[:-1] for turn in session.turns]
    new = stems(' '.join(turn.text for turn in told[-1].turns))
    assert len(found) <= count and found == [turn for turn in kept if turn in found]
    assert all(stems(turn.text) & new for turn in found)
    for session in told[:-1]:
        earlier.add(session)
    assert earlier.related(told[-1], count) == found


# ------------------------------------------------------------------ what was forgotten stays forgotten

RED = [
    Session(
        'S1',
        (
            Turn('S1:1', 'Ana', 'I lost the red kayak near Bergen with Mr. Holm yesterday.'),
            Turn('S1:2', 'Bo', 'The museum in Oslo has forty old boats, Ana.'),
        ),
        datetime(2024, 5, 4, 9),
    ),
    Session(
        'S2',
        (
            Turn('S2:1', 'Ana', 'I paddled a borrowed kayak around the island of Mora on Sunday.'),
            Turn('S2:2', 'Bo', 'My sister Ida moved to Lund in April.'),
        ),
        datetime(2024, 6, 1, 9),
    ),
]


def told_red(path=None):
    memory = MemMA(path, probes=9)
    memory.remember(RED[0])
    return memory


class Rummaging(RuleLM):
    "Probes an earlier turn together with the new session, and repairs by what that turn said."

    def call(self, role, /, **inputs):
        replies = {
            'probes': {
                'probes': [
                    {
                        'question': 'Which kayaks did Ana have?',
                        'answer': 'a red and a borrowed one',
                        'kind': 'cross',
                        'turns': ['S2:1', 'S1:1'],
                    }
                ]
            },
            'mark': {'wrong': [1]},
            'consolidate': {'action': 'INSERT'},
            'repair': {
                'op': 'ADD_FACT',
                'fact': 'Ana lost the red kayak near Bergen with Mr. Holm.',
                'turns': ['S1:1'],
                'quote': 'I lost the red kayak',
            },
        }
        return (
            Call(role.name, role.model(inputs).model_validate(replies[role.name]), Usage())
            if role.name in replies
            else super().call(role, **inputs)
        )


@pytest.mark.parametrize('by', ['turn', 'entry'])
@pytest.mark.parametrize('keeps', [False, True])
def test_what_was_forgotten_does_not_come_back_by_a_probe(by, keeps, tmp_path, monkeypatch):
    memory = told_red(tmp_path / 'a.db')
    hidden = [entry.id for entry in memory.bank if entry.sources == ('S1:1',)]
    assert hidden
    if keeps:  # the mutant: turns are kept for probes
        monkeypatch.setattr(EarlierTurns, 'forget', lambda self, turns: None)
    assert memory.forget(turns=['S1:1']) if by == 'turn' else memory.forget(hidden)
    memory.lm = Rummaging()
    memory.remember(RED[1])
    comes_back = any('S1:1' in entry.sources or 'red' in entry.text.split() for entry in memory.bank)
    memory.bank.close()
    assert comes_back is keeps and (b'Holm' in (tmp_path / 'a.db').read_bytes()) is keeps


def test_a_taken_turn_id_is_refused_before_anybody_is_asked():
    lm = Counting()
    memory = MemMA(lm=lm)
    memory.remember(BRIEF)
    asked = Counter(lm.asked)
    for turns in ((BRIEF.turns[0],), (Turn('X:1', 'Ana', 'Hi.'), Turn('X:1', 'Ana', 'Ho.'))):
        with pytest.raises(ValueError):
            memory.remember(Session('X', turns, SAMPLE.sessions[1].time))
    assert lm.asked == asked and memory.remember(SAMPLE.sessions[1])


def test_failed_sessions_that_two_banks_of_a_file_note_are_both_kept(tmp_path):
    one, other = MemoryBank(tmp_path / 'a.db'), MemoryBank(tmp_path / 'a.db')
    with one.failed_sessions() as noted:
        noted.sessions['D1'] = Session('D1', (Turn('D1:1', 'Ada', 'Hi.'),))
        noted['D1'] = 'no reply'
        with other.failed_sessions() as more:
            more.sessions['D2'] = Session('D2', (Turn('D2:1', 'Ada', 'Ho.'),))
            more['D2'] = 'no reply'
    assert set(MemoryBank(tmp_path / 'a.db').failed) == {'D1', 'D2'}
    with one.failed_sessions() as noted:
        with other.failed_sessions() as more:
            more.forget(['D1'])
        noted.forget(['D2'])
    assert not MemoryBank(tmp_path / 'a.db').failed
