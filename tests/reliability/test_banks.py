"""MemMA and its bank: beside other threads, with sessions in any order, with names and texts that must go."""

import threading
from datetime import datetime

from memnb.core.conversation import Session, Turn
from memnb.core.roles import RuleLM
from memnb.memma.bank import MemoryBank
from memnb.memma.loop import MemMA


def session(number, text, time=None):
    return Session(f'D{number}', (Turn(f'D{number}:1', 'Ana', text),), time)


class Waiting(RuleLM):
    """The rules, but guidance waits until it is let go, as for a slow server."""

    def __init__(self):
        super().__init__()
        self.__dict__.update(asked=threading.Event(), goes_on=threading.Event())

    def call(self, role, /, **inputs):
        if role.name == 'guide':
            self.asked.set()
            assert self.goes_on.wait(30)
        return super().call(role, **inputs)


def test_readers_see_the_state_before_while_a_session_is_written():
    memory = MemMA(lm=RuleLM())
    memory.remember(session(1, 'I bought a red kayak in Oslo.', datetime(2024, 5, 1)))
    before, memory.lm = list(memory.bank), Waiting()
    other = memory.bank.within('other')
    writer = threading.Thread(target=memory.remember, args=(session(2, 'I sold the red kayak.', datetime(2024, 6, 1)),))
    writer.start()
    seen = []

    def read():
        seen.append(
            (
                list(memory.bank),
                memory.bank.history('m1')[0].action,
                [hit.snippet for hit in memory.bank.search('kayak')],
            )
        )
        other.add('a kayak of theirs')

    try:
        assert memory.lm.asked.wait(30)
        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        reader.join(10)
        assert seen == [(before, 'ADD', before)] and len(other) == 1
    finally:
        memory.lm.goes_on.set()
        writer.join(30)
    assert len(memory.bank) > len(before)


def test_a_namespace_that_is_forgotten_leaves_not_even_its_name(tmp_path):
    with (
        MemoryBank(tmp_path / 'bank', namespace='Guadalupe') as bank,
        MemoryBank(tmp_path / 'bank', namespace='Guadalupe') as stale,
    ):
        bank.add('boat', sources=['D1:1'])
        assert len(stale) == 1
        bank.forget(['m1'])
        assert bank.journal.namespaces() == () and b'Guadalupe' not in (tmp_path / 'bank').read_bytes()
        assert bank.add('sea').id == 'm1' and [entry.text for entry in stale] == ['sea']


def test_sessions_may_come_in_any_order_and_without_a_time():
    memory = MemMA()
    for one in (
        session(2, 'I sold the red kayak in Oslo.', datetime(2024, 6, 1)),
        session(1, 'I bought a red kayak.', datetime(2024, 5, 1)),
        session(3, 'My sister Ida lives in Lund.'),
    ):
        memory.remember(one)
    said = {entry.sources: entry.said for entry in memory.bank}
    assert said == {('D2:1',): datetime(2024, 6, 1), ('D1:1',): datetime(2024, 5, 1), ('D3:1',): None}
    assert ('D2:1',) not in {entry.sources for entry in memory.bank.as_of(datetime(2024, 5, 2)).values()}
