"""How fast the memory bank takes edits, finds entries, opens again and forgets, beside what it stands in for.

    python tests/bench/bench_memory_bank.py [--entries 100000] [--edits 30000] [--wordllama]

1. --edits edits are applied in batches of 30, a session's worth: 7 of 10 are ADD, the others UPDATE, DELETE, NONE and an ADD
   of what is there. In memory (bar: 10,000 a second) and in a file on the disk (bar: 1,000 a second). Beside them: a plain
   dict, and a plain table of SQLite, which keep neither history nor evidence.
2. A bank of --entries is searched (bar: 20 ms in the median), beside a HybridIndex alone over the same entries. Texts are
   drawn by a Zipf law and embedded by a random projection of words to 256 dimensions; --wordllama takes the real embedder.
3. One entry more, and the next search; one entry forgotten by its id and one by its turn; the bank opened again.
4. What the process holds, and what the file.

Rates and times are by the clock on the wall, and by the processor's where it stands beside. On a busy machine
OPENBLAS_NUM_THREADS=1 is faster, since threads of a product that wait for each other wait for everybody."""

import argparse
import resource
import sqlite3
import tempfile
import time
from contextlib import closing
from datetime import date, datetime, timedelta
from pathlib import Path

import bench_gist_graph
from bench_gist_graph import Projection, median_ms, megabytes, show
from memnb.core.time import TimeSpan
from memnb.memma.bank import Edit, IndexStore, MemoryBank
from memnb.retrieval.hybrid import HybridIndex
from memnb.retrieval.vectors import WordLlamaEmbedder

BATCH, WORDS, FIRST = 30, 15, datetime(2020, 1, 1, 9)


class World:
    "A source of edits, the same for each seed."

    def __init__(self, seed: int = 1):
        drawn = bench_gist_graph.World(seed)
        self.random, self.phrase, self.given, self.last = drawn.random, drawn.phrase, 0, None

    def add(self) -> Edit:
        "An ADD of a new fact."
        self.given += 1
        day = (
            TimeSpan.day(date(2020, 1, 1) + timedelta(days=self.random.randrange(1500)))
            if self.random.random() < 0.5
            else None
        )
        self.last = Edit(
            'ADD',
            f'{self.phrase(WORDS)} {self.given}',
            time=day,
            speaker=f'Person {self.random.randrange(2)}',
            sources=(f'D{self.given // BATCH}:{self.given % BATCH}',),
            reason='a new fact',
        )
        return self.last

    def session(self) -> list[Edit]:
        "A batch of edits. What is updated and deleted was added in an earlier batch, and nothing is deleted twice."
        before, batch, gone = self.given, [], set()
        for _ in range(BATCH):
            kind = self.random.random()
            if kind < 0.7 or before < BATCH:
                batch.append(self.add())
            elif kind < 0.85:
                batch.append(
                    Edit(
                        'UPDATE',
                        f'{self.phrase(WORDS)} u{len(batch)} {before}',
                        f'm{before - self.random.randrange(10)}',
                    )
                )
            elif kind < 0.9 and before not in gone:
                gone.add(before)
                batch.append(
                    Edit('DELETE', entry=f'm{before - 11}') if before > 41 and before % 40 > 20 else Edit('NONE')
                )
            else:
                batch.append(self.last if kind < 0.95 else Edit('NONE', reason='only a greeting'))
        return batch


def timed(do) -> tuple[float, float]:
    "Seconds on the wall, and of the processor."
    start, cpu = time.perf_counter(), time.process_time()
    do()
    return time.perf_counter() - start, time.process_time() - cpu


def show_rate(what: str, count: int, spent: tuple[float, float], beside: str = '') -> None:
    show(what, count / spent[0], '/s', f'{count / spent[1]:,.0f} a second of the processor; {beside}')


def in_a_dict(batches: list[list[Edit]]) -> None:
    "What the edits amount to, and nothing else."
    entries, given = {}, 0
    for batch in batches:
        for edit in batch:
            if edit.action == 'ADD':
                given += 1
                entries[f'm{given}'] = edit.text, edit.time, edit.speaker, edit.sources
            elif edit.action == 'UPDATE':
                entries[edit.entry] = edit.text, edit.time, edit.speaker, edit.sources
            elif edit.action == 'DELETE':
                entries.pop(edit.entry, None)


def in_a_table(batches: list[list[Edit]], path: str | Path) -> None:
    "A row for each edit, a transaction for each batch."
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        file.execute('CREATE TABLE edits (number INTEGER PRIMARY KEY, action, entry, text, time, speaker, sources)')
        for batch in batches:
            file.execute('BEGIN IMMEDIATE')
            file.executemany(
                'INSERT INTO edits (action, entry, text, time, speaker, sources) VALUES (?, ?, ?, ?, ?, ?)',
                [(one.action, one.entry, one.text, str(one.time), one.speaker, ' '.join(one.sources)) for one in batch],
            )
            file.execute('COMMIT')


def bench_edits(count: int, folder: Path) -> None:
    "Edits a second."
    world = World()
    batches = [world.session() for _ in range(count // BATCH)]
    count = sum(map(len, batches))

    def into(bank: MemoryBank) -> None:
        for number, batch in enumerate(batches):
            bank.apply(batch, FIRST + timedelta(hours=number))
        bank.close()

    show_rate(
        f'1. edits in memory, {count} in batches of {BATCH}', count, timed(lambda: into(MemoryBank())), 'bar 10,000'
    )
    show_rate('   a plain dict', count, timed(lambda: in_a_dict(batches)))
    show_rate('   a plain table of SQLite in memory', count, timed(lambda: in_a_table(batches, ':memory:')))
    show_rate('   edits on the disk', count, timed(lambda: into(MemoryBank(folder / 'edits.db'))), 'bar 1,000')
    show_rate('   a plain table of SQLite on the disk', count, timed(lambda: in_a_table(batches, folder / 'plain.db')))
    show(
        '   bytes of the file for an edit',
        (folder / 'edits.db').stat().st_size / count,
        'B',
        f'{(folder / "plain.db").stat().st_size / count:.0f} in the plain table, without an index',
    )


def bench_search(count: int, folder: Path, make) -> None:
    "A bank of so many entries."
    world, path, before = World(2), folder / 'bank.db', megabytes()
    queries = [world.phrase(5) for _ in range(30)]
    bank = MemoryBank(path, backend=make)
    spent = timed(
        lambda: [
            bank.apply([world.add() for _ in range(BATCH)], FIRST + timedelta(hours=hour))
            for hour in range(count // BATCH)
        ]
    )
    show(f'2. writing a bank of {len(bank)} entries', spent[0], 's', f'{spent[1]:.3g} s of the processor')
    held = megabytes()
    show('   filling its index, at the first search', timed(lambda: bank.search(queries[0]))[0], 's')
    full = megabytes()
    show('   search(query, 10)', median_ms(lambda query: bank.search(query, 10), queries), 'ms', 'bar 20')
    show(
        '   search(query, 30, exclude=10 ids, during=a year)',
        median_ms(
            lambda query: bank.search(
                query, 30, exclude=[f'm{one}' for one in range(1, 11)], during=TimeSpan.year(2021)
            ),
            queries,
        ),
        'ms',
    )
    index = make().index
    index.add(bank)
    show('   HybridIndex alone', median_ms(lambda query: index.search(query, 10), queries), 'ms')
    assert index.search(queries[1], 10) == bank.search(queries[1], 10)
    del index

    def add_and_search(query: str) -> None:
        bank.apply([world.add()])
        bank.search(query)

    show('3. one entry more, and a search', median_ms(add_and_search, queries[:10]), 'ms')
    show(
        '   bank[id]',
        1000 * median_ms(lambda number: bank[f'm{number}'], range(1, 200)),
        'us',
        'asks the file whether anyone has written',
    )
    show('   history(id)', median_ms(lambda number: bank.history(f'm{number}'), range(1, 30)), 'ms')
    show('   as_of(the middle)', timed(lambda: bank.as_of(count // 2))[0], 's')
    show('   undo', timed(bank.undo)[0] * 1000, 'ms')
    show(
        '   forgetting one entry by id, of bank, index and file', timed(lambda: bank.forget([f'm{count // 3}']))[0], 's'
    )
    show(
        '   forgetting what rests on one turn',
        timed(lambda: bank.forget(turns=[bank[f'm{count // 2}'].sources[0]]))[0],
        's',
    )
    show('   the search after that', median_ms(lambda query: bank.search(query), queries[:2]), 'ms')
    show('4. memory of the process, index and all', full, 'MB', f'{before:.0f} before, {held:.0f} without the index')
    show('   the file', path.stat().st_size / 2**20, 'MB')
    bank.close()
    del bank
    opened = []
    show(
        '   opening it again', timed(lambda: opened.append(MemoryBank(path, backend=make)))[0], 's', f'{count} entries'
    )
    show('   and the first search', timed(lambda: opened[0].search(queries[0]))[0], 's', 'all vectors are made')
    opened[0].close()
    show('   peak of the process', resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 'MB')


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument('--entries', type=int, default=100_000)
    options.add_argument('--edits', type=int, default=30_000)
    options.add_argument('--wordllama', action='store_true', help='the embedder that a bank has by default')
    given = options.parse_args()
    embedder = WordLlamaEmbedder() if given.wordllama else Projection()
    HybridIndex()  # imports
    with tempfile.TemporaryDirectory() as folder:
        bench_edits(given.edits, Path(folder))
        bench_search(given.entries, Path(folder), lambda: IndexStore(embedder=embedder))


if __name__ == '__main__':
    main()
