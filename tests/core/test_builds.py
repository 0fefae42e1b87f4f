"""Builds of all memories: from messages in any form, past sessions that fail, with a warning where nothing was found."""

import random
import re
import sqlite3
import warnings
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from memnb.adapters.turn_store import TurnStore
from memnb.core.build import FailedSessions, with_progress
from memnb.core.conversation import Conversation, Session, Turn
from memnb.core.messages import as_conversation
from memnb.core.models import OpenAILM
from memnb.core.roles import Call, LMError, ReplyError, RuleLM, ServerError, Usage
from memnb.core.storage import DuplicateSession, MemoryFileError, UnknownSession
from memnb.evaluation.datasets import load_sample
from memnb.memma.bank import MemoryBank
from memnb.memma.loop import MemMA
from memnb.mragent.graph import CueTagGraph
from memnb.remem.graph import GistGraph
from memnb.retrieval.hybrid import HybridIndex
from memnb.retrieval.vectors import DenseIndex

SAMPLE = load_sample()
SHORT = Conversation('short', [replace(one, turns=one.turns[:6]) for one in SAMPLE.sessions])
GRAPHS = [GistGraph, CueTagGraph]
CAT = ['Ada adopted a grey cat called Crumb.', 'Ada lives in Oslo and works at a bakery.']
FORMS = [
    CAT,
    tuple(CAT),
    [('Ada', text) for text in CAT],
    [{'role': 'user', 'content': text} for text in CAT],
    [{'name': 'Ada', 'content': text, 'created_at': '2024-05-01T10:00:00'} for text in CAT],
    [Turn(f't{place}', 'Ada', text) for place, text in enumerate(CAT)],
    as_conversation(CAT),
    as_conversation(CAT).sessions[0],
]


class Refusing(RuleLM):
    """The rules, for a call a reply; a share of the calls is refused at random."""

    def __init__(self, share, seed=0):
        super().__init__()
        object.__setattr__(self, 'state', {'share': share, 'chance': random.Random(seed), 'calls': 0})

    def call(self, role, /, **inputs):
        self.state['calls'] += 1
        if self.state['chance'].random() < self.state['share']:
            raise ReplyError('I cannot help with that.', role=role.name, usage=Usage(1, 10, 1))
        return replace(super().call(role, **inputs), usage=Usage(1, 10, 1))


def add_to(memory, messages):
    return (memory.remember if isinstance(memory, MemMA) else memory.add)(messages)


def sessions_in(memory):
    if isinstance(memory, MemMA):
        return {id for id in memory._earlier.ids if ':' not in id and id != 'a7'}
    return set(memory.sessions)


def turns_in(memory):
    return set(memory._earlier._turns if isinstance(memory, MemMA) else memory._homes)


# ---- messages in any form ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize('kind', [*GRAPHS, MemMA, MemoryBank, HybridIndex])
def test_a_memory_is_made_of_messages_in_any_form(kind):
    for form in [*FORMS, iter(CAT)]:
        memory = kind.of(form)
        searched = memory.bank if isinstance(memory, MemMA) else memory
        found = [hit.snippet.text for hit in searched.search('Ada adopted a cat')[:2]]
        assert any('Crumb' in text for text in found) and (
            kind is CueTagGraph or 'Crumb' in found[0]
        )  # it holds messages twice


@pytest.mark.parametrize('kind', [*GRAPHS, MemMA])
def test_more_messages_are_numbered_on_and_the_same_are_not_doubled(kind):
    memory = kind.of(iter(CAT))
    add_to(memory, ['Ada sold her red kayak.'])
    assert sessions_in(memory) == {'D1', 'D2'} and turns_in(memory) == {'D1:1', 'D1:2', 'D2:1'}
    before = repr(memory)
    for messages in (CAT, ['Ada sold her red kayak.'], list(map(str, CAT)), as_conversation(CAT)):
        add_to(memory, messages)
    assert repr(memory) == before
    add_to(memory, [{'id': 'a7', 'content': 'Ada went to Bergen.'}])
    assert sessions_in(memory) == {'D1', 'D2', 'D3'} and 'a7' in turns_in(memory)
    days = [{'content': text, 'time': datetime(2024, 5, day)} for day, text in ((1, 'Ada ran.'), (3, 'Ada swam.'))]
    add_to(memory, days)
    assert {'D4:1', 'D5:1'} <= turns_in(memory)
    with pytest.raises(ValueError, match='expected a list of messages'):
        add_to(memory, 'Ada ran.')


@pytest.mark.parametrize('kind', GRAPHS)
def test_given_sessions_keep_their_ids_and_a_file_knows_its_messages(kind, tmp_path):
    memory = kind.of(CAT)
    other = Conversation.of('other', [(None, [('Ben', 'I bought a boat.')])])
    with pytest.raises(DuplicateSession):
        memory.add(other)
    memory.save(tmp_path / 'a')
    again = kind.load(tmp_path / 'a')
    again.add(CAT)
    again.add(['Ada ran.'])
    assert again.sessions == ('D1', 'D2')


def test_a_bank_that_is_opened_again_is_numbered_on(tmp_path):
    with MemMA.of(CAT, bank=tmp_path / 'a.db').bank:
        pass
    with MemMA.of(['Ada ran to Bergen.'], bank=tmp_path / 'a.db').bank as bank:
        assert {turn for entry in bank for turn in entry.sources} == {'D1:1', 'D1:2', 'D2:1'}


def test_a_bank_of_messages_has_them_as_they_are(tmp_path):
    with MemoryBank.of([*FORMS[4], {'name': 'Ada', 'content': ' '}], tmp_path / 'a.db', namespace='ada') as bank:
        assert [(one.text, one.speaker, one.sources, one.said) for one in bank] == [
            (text, 'Ada', (f'D1:{place}',), datetime(2024, 5, 1, 10)) for place, text in enumerate(CAT, 1)
        ]
        assert repr(bank) == "MemoryBank('ada': 2 entries, 2 changes, file a.db)"
    with MemoryBank.of(FORMS[4], tmp_path / 'a.db', namespace='ada') as bank:
        assert len(bank) == 2 and all(len(one.sources) == 1 for one in bank)


@pytest.mark.parametrize('kind', [*GRAPHS, MemMA, MemoryBank])
def test_a_constructor_that_is_given_messages_names_the_right_door(kind):
    for messages in (CAT, SAMPLE, SAMPLE.sessions[0], iter(CAT)):
        with pytest.raises(TypeError, match=f'^{kind.__name__}: to build one from messages, write {kind.__name__}.of'):
            kind(messages)


# ---- sessions that fail --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize('kind', [*GRAPHS, MemMA])
@pytest.mark.parametrize('seed', range(6))
def test_a_build_survives_refusals_and_a_later_one_repairs_it(kind, seed, tmp_path):
    lm = Refusing(0.1, seed)
    memory = kind.of(SHORT, lm)
    lost, ids = set(memory.failed), {one.id for one in SHORT.sessions}
    assert len(lost) <= 8 and sessions_in(memory) == ids - lost and set(memory.failed.sessions) == lost
    assert all(reason == 'ReplyError: I cannot help with that.' for reason in memory.failed.values())
    assert sum(memory.usage.values(), Usage()).calls == lm.state['calls']
    assert not lost or f'{len(lost)} session' in repr(memory) and list(memory.failed)[0] in repr(memory)
    lm.state['share'] = 0
    add_to(memory, Session('new', [Turn('new:1', 'Tobin', 'I ran to Skerrin.')]))
    assert not memory.failed and sessions_in(memory) == ids | {'new'}
    assert sum(memory.usage.values(), Usage()).calls == lm.state['calls']
    if kind is not MemMA:
        whole = kind.of(SHORT)
        whole.add(Session('new', [Turn('new:1', 'Tobin', 'I ran to Skerrin.')]))
        assert whole.counts() == memory.counts()


@pytest.mark.parametrize('kind', [*GRAPHS, MemMA])
def test_if_all_sessions_fail_the_error_is_raised_with_the_whole_bill(kind):
    with pytest.raises(ReplyError) as caught:
        kind.of(SHORT, Refusing(1), **({'guidance': False} if kind is MemMA else {}))
    assert caught.value.usage.calls == len(SHORT.sessions)
    memory = kind.of(CAT)
    memory.lm = Refusing(1)
    with pytest.raises(ReplyError):
        add_to(memory, SAMPLE.sessions[1])
    assert not memory.failed and sessions_in(memory) == {'D1'}


def failing_second(kind, **options):
    """A memory of three sessions, of which the second failed."""
    memory, secret = kind(**options), 'I hid the xylophone under the stairs.'
    said = ['Ada ran.', secret, 'Ada swam.']
    texts = [{'content': text, 'time': datetime(2024, 5, 1) + timedelta(day)} for day, text in enumerate(said)]

    class Once(RuleLM):
        def call(self, role, /, **inputs):
            about = inputs.get('session') or inputs.get('chunk')
            if about and secret in str(about.turns) and role.name != 'guide':
                raise LMError('refused')
            return super().call(role, **inputs)

    memory.lm = Once()
    add_to(memory, texts)
    assert set(memory.failed) == {'D2'}
    return memory, texts


@pytest.mark.parametrize('kind', [*GRAPHS, MemMA])
def test_what_failed_is_tried_again_before_what_is_new_and_may_fail_again(kind):
    memory, texts = failing_second(kind)
    add_to(memory, texts)  # the same list: D2 is known as the one that failed, and fails again
    assert set(memory.failed) == {'D2'} and sessions_in(memory) == {'D1', 'D3'}
    add_to(memory, ['Ada sang.'])
    assert set(memory.failed) == {'D2'} and sessions_in(memory) == {'D1', 'D3', 'D4'}
    memory.lm = RuleLM()
    add_to(memory, ['Ada slept.'])
    assert not memory.failed and sessions_in(memory) == {'D1', 'D2', 'D3', 'D4', 'D5'}


@pytest.mark.parametrize('kind', GRAPHS)
def test_a_file_keeps_what_failed_until_it_is_read_or_forgotten(kind, tmp_path):
    path = tmp_path / 'a'
    memory, texts = failing_second(kind)
    memory.save(path)
    again = kind.load(path)
    assert again.failed == memory.failed and again.failed.sessions == memory.failed.sessions
    again.add(texts)
    assert not again.failed and again.sessions == ('D1', 'D2', 'D3')
    reasons = dict(memory.failed)
    with pytest.raises(UnknownSession):
        memory.forget('D9')
    assert memory.failed == reasons == {'D2': 'LMError: refused'}
    assert memory.forget('D2') == {} and not memory.failed and 'D2' not in memory
    memory.save(path)
    assert b'xylophone' not in path.read_bytes() and not kind.load(path).failed


def test_the_file_of_a_bank_keeps_what_failed_until_it_is_written_or_forgotten(tmp_path):
    path = tmp_path / 'a'
    memory, _ = failing_second(MemMA, bank=path)
    again = MemMA(path)
    assert (
        again.failed == memory.failed
        and again.failed.sessions == memory.failed.sessions
        and '1 session failed: D2' in repr(again)
    )
    assert not again.bank.within('other').failed
    again.remember(['Ada sang.'])
    assert (
        not again.failed
        and not MemMA(path).failed
        and {id for entry in again.bank for id in entry.sources} == {'D1:1', 'D2:1', 'D3:1', 'D4:1'}
    )
    memory.remember(['Ada slept.'])  # it knows of D2 as failed, and looks again
    assert not memory.failed and sum('xylophone' in entry.text for entry in memory.bank) == 1


@pytest.mark.parametrize('turns', [['D2:1'], ['D9:9']])
def test_a_forgotten_turn_is_not_tried_again(turns, tmp_path):
    path = tmp_path / 'a'
    late = MemMA(path)  # opened before D2 failed
    memory, _ = failing_second(MemMA, bank=path)
    late.forget(turns=turns)
    gone = turns == ['D2:1']
    assert (
        bool(late.failed.sessions) is bool(MemMA(path).failed) is not gone
        and (b'xylophone' in path.read_bytes()) is not gone
    )
    memory.remember(['Ada slept.'])
    assert bool(memory.failed) is not gone and (b'xylophone' in path.read_bytes()) is not gone


def test_a_damaged_failed_session_names_the_file(tmp_path):
    memory, _ = failing_second(MemMA, bank=tmp_path / 'a')
    memory.bank.close()
    with closing(sqlite3.connect(tmp_path / 'a')) as file:
        file.execute("UPDATE failed SET sessions = replace(sessions, 'stairs', 'stares')")
        file.commit()
    with pytest.raises(MemoryFileError, match="a: damaged: failed sessions of 'default' are not as they were written"):
        MemMA(tmp_path / 'a')


class Leaving(RuleLM):
    """The rules, for some sessions; then no server answers."""

    def __init__(self, calls):
        super().__init__()
        object.__setattr__(self, 'left', [calls])

    def call(self, role, /, **inputs):
        self.left[0] -= 1
        if self.left[0] < 0:
            OpenAILM('m', 'http://127.0.0.1:9/v1', max_retries=0).call(role, **inputs)
        return super().call(role, **inputs)


@pytest.mark.parametrize('kind', [*GRAPHS, MemMA])
def test_a_server_that_is_gone_is_asked_once(kind):
    lm = Leaving(0)
    with pytest.raises(ServerError, match='m at http://127.0.0.1:9'):
        kind.of(SHORT, lm)
    assert lm.left[0] >= -4  # the roles of one session
    lm = Leaving(12)
    memory = kind.of(SHORT, lm)
    done = sessions_in(memory)
    assert 0 < len(done) < 14 and set(memory.failed) == {one.id for one in SHORT.sessions} - done and lm.left[0] >= -4
    memory.lm = RuleLM()
    add_to(memory, ['Ada ran.'])
    assert not memory.failed and len(sessions_in(memory)) == 15


# ---- nothing found, progress, repr ---------------------------------------------------------------------------------------


class Empty(RuleLM):
    """Every reply is as empty as its type allows."""

    def call(self, role, /, **inputs):
        lists = [name for name, field in role.model(inputs).model_fields.items() if 'list' in str(field.annotation)]
        return Call(role.name, role.model(inputs).model_validate(dict.fromkeys(lists, [])), Usage(1))


@pytest.mark.parametrize(
    'kind, said', [(GistGraph, 'no gist and no fact'), (CueTagGraph, 'no episode'), (MemMA, 'no entry')]
)
def test_a_memory_that_found_nothing_says_so_once(kind, said):
    options = {'guidance': False, 'evolve': False} if kind is MemMA else {}
    with pytest.warns(UserWarning, match=f'{kind.__name__}: .* turns gave {said}: see ') as told:
        memory = kind.of(SAMPLE, Empty(), **options)
    assert len(told) == 1
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        kind.of(CAT, Empty(), **options)  # a few turns may have nothing
        kind.of(SAMPLE)
        if kind is GistGraph:
            kind.of(SAMPLE, with_facts=False)
    assert ' 0 ' in repr(memory)


def test_a_memory_says_what_it_has_in_a_line(tmp_path):
    assert re.fullmatch(r'GistGraph\(14 sessions, \d+ gists, \d+ facts, \d+ phrases\)', repr(GistGraph.of(SAMPLE)))
    assert repr(GistGraph(with_facts=False)) == 'GistGraph(0 sessions, 0 gists, 0 phrases)'
    graph, _ = failing_second(CueTagGraph)
    assert re.fullmatch(
        r'CueTagGraph\(2 sessions, \d episodes, \d units?, \d+ cues, \d tags?; 1 session failed: D2\)', repr(graph)
    )
    assert re.fullmatch(
        r"MemMA\(MemoryBank\('default': \d entries, \d changes, in memory\), rules\)", repr(MemMA.of(CAT))
    )
    with MemoryBank() as bank:
        pass
    assert repr(bank) == "MemoryBank('default': 0 entries, 0 changes, in memory)"
    store = TurnStore(tmp_path / 'turns.db')
    store.remember('Ada ran.')
    assert repr(store) == 'TurnStore(1 turn, file turns.db)'
    store.close()
    assert repr(store) == 'TurnStore(file turns.db)'
    assert repr(HybridIndex.of(CAT)) == 'HybridIndex(2 snippets)' and repr(DenseIndex()) == 'DenseIndex(0 snippets)'


def test_progress_is_silent_where_nobody_looks_and_tells_the_cost_where_somebody_does(capsys, monkeypatch):
    GistGraph.of(SHORT)
    assert capsys.readouterr() == ('', '')
    monkeypatch.setattr(
        'memnb.core.build.with_progress', lambda items, what, show: shown.append(real(items, what, show)) or shown[-1]
    )
    shown, real = [], with_progress
    CueTagGraph.of(SHORT, Refusing(0), progress=True)
    [bar] = shown
    assert re.fullmatch(r'D14, 39 calls, 429 tokens', bar.postfix) and bar.n == 14 and bar.delay == 2


def test_failed_sessions_are_told_in_few_words():
    failed = FailedSessions()
    assert failed.summary == ''
    for number in range(1, 8):
        failed.note(Session(f'D{number}', [Turn(f'D{number}:1', 'Ada', 'Hello.')]), 'refused')
    assert failed.summary == '; 7 sessions failed: D1, D2, D3, D4, D5, …'
    failed.forget(['D1'], turns=['D2:1'])
    assert list(failed) == list(failed.sessions) == ['D3', 'D4', 'D5', 'D6', 'D7']
