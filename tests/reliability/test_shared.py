"""Memories that several threads or several owners of one file use at once."""

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta

import pytest

from fakes import Buckets
from memnb.core.conversation import Conversation, Session, Snippet, Turn
from memnb.core.roles import RuleLM
from memnb.core.storage import ConflictError
from memnb.memma.bank import MemoryBank
from memnb.memma.loop import MemMA
from memnb.mragent.graph import CueTagGraph
from memnb.remem.graph import GistGraph
from memnb.remem.loop import REMem
from memnb.retrieval.bm25 import LexicalIndex
from memnb.retrieval.hybrid import HybridIndex
from memnb.retrieval.vectors import DenseIndex

FIRST = datetime(2024, 5, 8, 18)
GRAPHS = [GistGraph, CueTagGraph]


def session(number, text='I bought a red kite in Leeds'):
    time = FIRST + timedelta(days=number)
    return Session(
        f'D{number}',
        [
            Turn(f'D{number}:1', 'Ada', f'{text} number {number}.', time),
            Turn(f'D{number}:2', 'Ben', 'I like kites.', time),
        ],
        time,
    )


def snippet(number):
    return Snippet(f's{number}', f'kite number {number} of Ada', (f'D{number}:1',), session='D1', position=number)


def found(memory, query='kite number 7', k=10):
    return [(hit.snippet.id, round(hit.score, 9)) for hit in memory.search(query, k)]


def in_threads(ask, write, readers=4):
    """Ask in threads until the writer has ended; the faults of all."""
    done, faults = threading.Event(), []

    def guarded(work):
        try:
            work()
        except Exception as error:
            faults.append(error)

    def reader():
        while not done.is_set():
            ask()

    threads = [threading.Thread(target=guarded, args=(reader,)) for _ in range(readers)]
    for thread in threads:
        thread.start()
    guarded(write)
    done.set()
    for thread in threads:
        thread.join(60)
    return faults


# ------------------------------------------------------------------ threads


@pytest.mark.parametrize(
    'make',
    [LexicalIndex, lambda: DenseIndex(embedder=Buckets()), lambda: HybridIndex(embedder=Buckets())],
    ids=['lexical', 'dense', 'hybrid'],
)
def test_an_index_is_searched_while_it_is_written(make):
    index, alone = make(), make()
    index.add([snippet(0)])
    numbers = range(1, 300)
    faults = in_threads(
        lambda: index.search('kite number 7', 5), lambda: [index.add([snippet(number)]) for number in numbers]
    )
    assert faults == []
    alone.add([snippet(number) for number in (0, *numbers)])
    assert found(index) == found(alone)


@pytest.mark.parametrize('kind', GRAPHS)
def test_a_graph_is_asked_while_it_is_written(kind):
    graph, alone = kind(RuleLM(), embedder=Buckets()), kind(RuleLM(), embedder=Buckets())
    graph.add(session(0))

    def write():
        for number in range(1, 25):
            graph.add(session(number))
            if number % 3 == 0:
                graph.forget(f'D{number}')

    def ask():
        assert graph.search('kite number 7', 5)
        if kind is GistGraph:
            assert REMem(graph, RuleLM()).ask('Who bought the kite number 7?').error is None

    assert in_threads(ask, write) == []
    for number in range(25):
        if number == 0 or number % 3:
            alone.add(session(number))
    assert graph.sessions == alone.sessions
    assert found(graph) == found(alone)


@pytest.mark.parametrize('kind', [DenseIndex, HybridIndex])
def test_nobody_waits_for_the_embedding_of_another_question(kind):
    asked, answered = threading.Event(), threading.Event()

    class Slow(Buckets):
        def __call__(self, texts):
            if texts == ['a slow question']:
                asked.set()
                assert answered.wait(30)
            return super().__call__(texts)

    index = kind(Slow())
    index.add([snippet(number) for number in range(5)])
    with ThreadPoolExecutor(2) as pool:
        slow = pool.submit(index.search, 'a slow question', 10)
        assert asked.wait(30)
        quick = pool.submit(lambda: index.add([snippet(5)]) or index.search('kite number 3', 10))
        try:
            assert len(quick.result(10)) == 6
        finally:
            answered.set()
        assert len(slow.result(30)) == 6


@pytest.mark.parametrize(
    'make',
    [lambda embedder: DenseIndex(embedder=embedder), lambda embedder: HybridIndex(embedder=embedder)],
    ids=['dense', 'hybrid'],
)
def test_an_add_that_fails_leaves_an_index_as_it_was(make):
    embedder = Buckets()
    index, alone = make(embedder), make(Buckets())
    for one in (index, alone):
        one.add([snippet(number) for number in range(5)])
    embedder.fails_at = embedder.calls + 1
    with pytest.raises(RuntimeError, match='the embedder is down'):
        index.add([snippet(number) for number in range(5, 9)])
    assert found(index) == found(alone) and len(index) == len(alone) == 5
    for one in (index, alone):
        one.add([snippet(number) for number in range(5, 9)])
    assert found(index) == found(alone) and len(index) == 9


def test_a_bank_works_in_every_thread(tmp_path):
    with MemoryBank(tmp_path / 'bank.sqlite') as bank, ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: bank.add(f'kite number {number}', sources=(f'D{number}:1',)), range(40)))
        assert sorted(entry.text for entry in bank) == sorted(f'kite number {number}' for number in range(40))
        assert all(
            len(hits) == 3 for hits in pool.map(lambda number: bank.search(f'kite number {number}', 3), range(40))
        )
        list(pool.map(lambda number: bank.forget(turns=[f'D{number}:1']), range(0, 40, 2)))
        assert len(bank) == 20
    with MemoryBank(tmp_path / 'bank.sqlite') as bank:
        assert len(bank) == 20


def test_a_transaction_of_one_thread_is_not_seen_half_by_another():
    bank, sizes = MemoryBank(), set()

    def write():
        for number in range(0, 60, 3):
            with bank.transaction():
                for place in range(number, number + 3):
                    bank.add(f'kite number {place}', sources=(f'D{place}:1',))

    assert in_threads(lambda: sizes.add(len(bank)), write, 2) == []
    assert len(bank) == 60 and {size % 3 for size in sizes} == {0}


READS = {
    '__contains__': lambda bank: 'm1' in bank,
    '__getitem__': lambda bank: bank['m1'],
    '__iter__': list,
    '__len__': len,
    '__repr__': repr,
    'as_of': lambda bank: bank.as_of('2024'),
    'audit': lambda bank: bank.audit('m1'),
    'history': lambda bank: bank.history('m1'),
    'refresh': lambda bank: bank.refresh(),
    'resting_on': lambda bank: bank.resting_on(['D1:1']),
    'search': lambda bank: bank.search('kite'),
    'unknown_words': lambda bank: bank.unknown_words('kite'),
    'within': lambda bank: list(bank.within('other')),
}
WRITES = {'add', 'apply', 'close', 'delete', 'failed_sessions', 'forget', 'of', 'transaction', 'undo', 'update'}


def test_every_method_of_a_bank_reads_or_writes():
    methods = vars(MemoryBank).items()
    public = {name for name, method in methods if not name.startswith('_') or hasattr(method, '__wrapped__')}
    assert public | {'__repr__'} == READS.keys() | WRITES


@pytest.mark.parametrize('name', READS)
def test_readers_go_on_beside_an_open_transaction(name):
    bank, ended, slow = MemoryBank(), threading.Event(), []
    bank.add('Ada has a red kite', sources=('D1:1',))
    answers = [0, 0, 0, 0]

    def reader(number):
        while not ended.is_set():
            READS[name](bank)
            answers[number] += 1

    def write():
        with bank.transaction():
            bank.add('Ada has a blue kite', sources=('D2:1',))
            before = list(answers)
            deadline = time.monotonic() + 20
            while any(now < then + 10 for now, then in zip(answers, before)) and time.monotonic() < deadline:
                time.sleep(0.001)
            slow.extend(number for number, then in enumerate(before) if answers[number] < then + 10)

    # daemons: threads that wait for each other must not keep the tests from ending
    threads = [threading.Thread(target=reader, args=(number,), daemon=True) for number in range(len(answers))]
    threads.append(threading.Thread(target=write, daemon=True))
    for thread in threads:
        thread.start()
    threads[-1].join(30)
    ended.set()
    for thread in threads:
        thread.join(1)
    assert slow == [] and not any(thread.is_alive() for thread in threads)
    assert len(bank) == 2


def test_memma_is_asked_in_threads_and_in_an_event_loop():
    conversation = Conversation('kites', [session(number) for number in range(3)])
    memma = MemMA.of(conversation)
    wanted = memma.ask('Who bought a kite?').to_json()
    with ThreadPoolExecutor(4) as pool:
        assert {memma_trace.to_json() for memma_trace in pool.map(memma.ask, ['Who bought a kite?'] * 8)} == {wanted}

    async def many():
        return await asyncio.gather(*(asyncio.to_thread(memma.ask, 'Who bought a kite?') for _ in range(8)))

    assert {trace.to_json() for trace in asyncio.run(many())} == {wanted}


# ------------------------------------------------------------------ owners


@pytest.mark.parametrize('kind', GRAPHS)
def test_the_second_owner_of_a_graph_file_is_told(kind, tmp_path):
    path = tmp_path / 'graph.sqlite'
    first = kind(RuleLM(), embedder=Buckets())
    first.add(session(1))
    first.save(path)
    second = kind.load(path, lm=RuleLM(), embedder=Buckets())
    second.add(session(2))
    second.save(path)
    first.forget('D1')
    with pytest.raises(ConflictError, match='reload'):
        first.save(path)
    assert kind.load(path, lm=RuleLM(), embedder=Buckets()).sessions == ('D1', 'D2')
    first.reload(path)
    assert first.sessions == ('D1', 'D2')
    first.forget('D1')
    first.save(path)
    second.add(session(3))
    with pytest.raises(ConflictError):
        second.save(path)  # it would bring back what the first has forgotten
    second.reload(path)
    assert second.sessions == ('D2', 'D3')  # what was never saved stays
    second.save(path)
    assert found(second) == found(kind.load(path, lm=RuleLM(), embedder=Buckets()))


@pytest.mark.parametrize('kind', GRAPHS)
def test_a_memory_does_not_replace_another_one_on_its_path(kind, tmp_path):
    path = tmp_path / 'graph.sqlite'
    one, other = kind(RuleLM(), embedder=Buckets()), kind(RuleLM(), embedder=Buckets())
    one.add(session(1))
    one.save(path)
    one.save(path)
    other.add(session(2))
    with pytest.raises(ConflictError):
        other.save(path)
    assert kind.load(path, lm=RuleLM(), embedder=Buckets()).sessions == ('D1',)
