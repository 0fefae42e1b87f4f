"""How long the gist graph takes to build and to ask, and how much memory it takes, beside what it stands in for.

    python tests/bench/bench_gist_graph.py [--gists 100000] [--data locomo.json]

1. A conversation is built by rule: the longest of --data, in LoCoMo's format, else a synthetic one of 600 turns. Bar: 2 s.
2. Synthetic sessions of 50 gists and 50 facts are linked until there are --gists of each, with no model and an embedder of
   256 dimensions (a random projection of words, of 4 MB). Bar: 1 GB for the whole process at 100,000.
3. There, each tool is asked. Bar: 5 ms in the median for find_entity_contexts with a filter, beside a plain scan.
4. One more session is added there, and forgotten.

Times are medians; those of the tools contain the checking of arguments."""

import argparse
import random
import re
import resource
import statistics
import time
import zlib
from datetime import date, datetime, timedelta
from pathlib import Path

import numpy as np

from memnb.core.conversation import Conversation, Session, Turn
from memnb.evaluation.datasets import load_locomo, load_sample
from memnb.remem.prompts import Extract
from memnb.remem.facts import Fact, Gist, Window
from memnb.remem.graph import GistGraph
from memnb.core.time import TimeSpan

PER_SESSION, WORDS, DIMENSIONS, FIRST = 50, 15, 256, date(1990, 1, 1)


class Projection:
    "A random direction for each of 4,096 buckets of words; a text is the sum of its words."

    name = 'projection'

    def __init__(self):
        self.rows = np.random.default_rng(5).standard_normal((4096, DIMENSIONS), dtype=np.float32)

    def __call__(self, texts: list[str]) -> np.ndarray:
        return np.array(
            [self.rows[[zlib.crc32(word.encode()) % 4096 for word in text.split()] or [0]].sum(0) for text in texts]
        )


class World:
    "A source of sessions: words drawn by a Zipf law, 3,000 people, 300 predicates; one gist in a hundred is told twice."

    def __init__(self, seed: int = 1):
        self.random, chosen = random.Random(seed), np.random.default_rng(seed)
        weights = 1 / (np.arange(40_000) + 20)
        self.words = chosen.choice(40_000, 400_000, p=weights / weights.sum()).astype(np.int32)
        self.told = []

    def phrase(self, count: int) -> str:
        "Some words that stand together."
        start = self.random.randrange(len(self.words) - count)
        return ' '.join(f'w{one}' for one in self.words[start : start + count].tolist())

    def fact(self, session: str, number: int, said: datetime) -> Fact:
        started = FIRST + timedelta(days=self.random.randrange(12_000))
        times = (
            {'start_time': started, 'end_time': started + timedelta(days=self.random.randrange(900))}
            if self.random.random() < 0.7
            else {}
        )
        phrases = f'Person {self.random.randrange(3000)}', f'predicate {self.random.randrange(300)}', self.phrase(3)
        return Fact.of(
            *phrases,
            **times,
            record_time=said,
            sources=(f'{session}:{number // 2}',),
            id=f'{session}/f{number}',
            session=session,
            position=number,
        )

    def gist(self, session: str, number: int, said: datetime) -> Gist:
        text = self.random.choice(self.told) if self.told and self.random.random() < 0.01 else self.phrase(WORDS)
        if self.random.random() < 0.05:
            self.told.append(text)
        return Gist(
            f'{session}/g{number}', text, (f'{session}:{number // 2}',), TimeSpan.day(said), None, said, session, number
        )

    def session(self, number: int) -> tuple[str, Extract]:
        "The number-th session: its id, and what was extracted from it."
        id, said = f'S{number}', datetime(2020, 1, 1, 9) + timedelta(hours=20 * number)
        gists = tuple(self.gist(id, one, said) for one in range(PER_SESSION))
        return id, Extract(gists, tuple(self.fact(id, one, said) for one in range(PER_SESSION)))


def megabytes() -> float:
    "What the process holds now."
    status = Path('/proc/self/status')
    if status.exists():
        return int(re.search(r'VmRSS:\s+(\d+)', status.read_text())[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def median_ms(do, inputs) -> float:
    "The median time of `do(one)` in milliseconds, after one that is not counted."
    times = []
    for one in [inputs[0], *inputs]:
        start = time.perf_counter()
        do(one)
        times.append(1000 * (time.perf_counter() - start))
    return statistics.median(times[1:])


def show(what: str, figure: float, unit: str, beside: str = '') -> None:
    print(f'{what:<58}{figure:>10.4g} {unit:<3} {beside}', flush=True)


def conversation_of(path: str | None) -> Conversation:
    "The longest conversation of a file, or the sample's sessions over again until there are 600 turns."
    if path:
        return max(load_locomo(path), key=lambda one: len(one.turns))
    sample, sessions = load_sample(), []
    while sum(len(session.turns) for session in sessions) < 600:
        number, old = len(sessions), sample.sessions[len(sessions) % len(sample.sessions)]
        turns = [
            Turn(f'T{number}:{place}', turn.speaker, f'{turn.text} That was visit {number}.', turn.time, turn.caption)
            for place, turn in enumerate(old.turns)
        ]
        sessions.append(Session(f'T{number}', tuple(turns), old.time))
    return Conversation('synthetic', tuple(sessions))


def bench_building(path: str | None) -> None:
    "A conversation by rule, and questions to it."
    conversation = conversation_of(path)
    GistGraph.from_facts([('The model', 'is', 'loaded')])
    start, cpu = time.perf_counter(), time.process_time()
    graph = GistGraph.of(conversation)
    wall, cpu = time.perf_counter() - start, time.process_time() - cpu
    show(
        f'1. rule building, {len(conversation.turns)} turns, wordllama loaded',
        wall,
        's',
        f'bar 2; {cpu:.3g} s of processor',
    )
    print('  ', graph.counts())
    tools = {tool.name: tool for tool in graph.tools()}
    asked = [turn.text[:80] for turn in conversation.turns[:200:4]]
    for name in ('semantic_retrieve', 'lexical_retrieve'):
        show(f'   {name} there', median_ms(lambda query: tools[name](query=query), asked), 'ms')
    gists = [chunk.gists[0] for chunk in graph.chunks.values() if chunk.gists]
    show('   find_gist_contexts there', median_ms(lambda one: tools['find_gist_contexts'](gist_id=one), gists), 'ms')
    show(
        '   search(query, 25) there', median_ms(lambda query: graph.search(query, 25), asked), 'ms', 'bar 50 a question'
    )


def bench_memory(count: int) -> tuple[GistGraph, World]:
    "Link so many gists and facts; the graph, and where more come from."
    world, graph = World(), GistGraph(embedder=Projection())
    before, start = megabytes(), time.perf_counter()
    for number in range(count // PER_SESSION):
        graph.keep(*world.session(number), digest='given')
    seconds, held = time.perf_counter() - start, megabytes()
    print(f'2. {graph.counts()}')
    show('   linking them, session by session', seconds, 's')
    show('   memory of the process', held, 'MB', f'bar 1000 at 100,000 gists; {before:.0f} before')
    show('   growth per gist with its fact', 1024 * (held - before) / count, 'kB')
    show('   peak of the process', resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 'MB')
    return graph, world


def scan(graph: GistGraph, subject: str, window: Window) -> list[Fact]:
    "What find_entity_contexts finds, without its indexes."
    facts = (graph.facts[id] for chunk in graph.chunks.values() for id in chunk.facts)
    return [fact for fact in facts if fact.subject.casefold() == subject.casefold() and window.passes(fact)]


def bench_tools(graph: GistGraph, world: World) -> None:
    "Each tool at this size, and the filter against a scan."
    tools, draw = {tool.name: tool for tool in graph.tools()}, random.Random(7)
    people = [f'Person {draw.randrange(3000)}' for _ in range(60)]
    years = {'start_time': '2004', 'end_time': '2006', 'start_operator': 'le', 'end_operator': 'ge'}
    entity, gist = tools['find_entity_contexts'], tools['find_gist_contexts']
    show(
        '3. find_entity_contexts by subject, in a window',
        median_ms(lambda one: entity(subject=one, **years), people),
        'ms',
        'bar 5',
    )
    window = Window(*years.values())
    show('   the same by a scan over all facts', median_ms(lambda one: scan(graph, one, window), people[:3]), 'ms')
    for one in people[:3]:
        assert {fact.id for fact in graph.facts.find(subject=one, window=window)} == {
            fact.id for fact in scan(graph, one, window)
        }
    predicates = [f'predicate {draw.randrange(300)}' for _ in range(60)]
    show(
        '   by predicate, in a window, ordered, the first three',
        median_ms(lambda one: entity(predicate=one, ordering='asc', limit=3, **years), predicates),
        'ms',
        'bar 5',
    )
    show(
        '   count by predicate, in a window',
        median_ms(lambda one: entity(predicate=one, aggregation='count', **years), predicates),
        'ms',
        'bar 5',
    )
    queries = [world.phrase(5) for _ in range(20)]
    late = {'start_time': '2020-02-01', 'end_time': '2020-02-02'}
    for name in ('semantic_retrieve', 'lexical_retrieve'):
        show(f'   {name}', median_ms(lambda query: tools[name](query=query), queries), 'ms')
        show(
            f'   {name} in a narrow window',
            median_ms(lambda query: tools[name](query=query, **late), queries[:5]),
            'ms',
        )
    gists = [f'S{draw.randrange(len(graph.chunks))}/g{draw.randrange(PER_SESSION)}' for _ in range(20)]
    show('   find_gist_contexts', median_ms(lambda one: gist(gist_id=one), gists), 'ms')
    show('   search(query, 25)', median_ms(lambda query: graph.search(query, 25), queries), 'ms')


def bench_changes(graph: GistGraph, world: World) -> None:
    "A session more, and a session less."
    fresh = [world.session(number) for number in range(len(graph.chunks), len(graph.chunks) + 6)]
    graph.keep(*fresh[0], digest='given')
    show(
        f'4. one more session of {PER_SESSION} gists and facts',
        timed_each(lambda one: graph.keep(*one, digest='given'), fresh[1:]),
        'ms',
    )
    show('   forgetting one', timed_each(lambda one: graph.forget(one[0]), fresh), 'ms')


def timed_each(do, inputs) -> float:
    "The median time in milliseconds of a call that can be made once for each input."
    times = []
    for one in inputs:
        start = time.perf_counter()
        do(one)
        times.append(1000 * (time.perf_counter() - start))
    return statistics.median(times)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument('--gists', type=int, default=100_000)
    options.add_argument('--data', help='a file in the format of LoCoMo')
    given = options.parse_args()
    bench_building(given.data)
    graph, world = bench_memory(given.gists)
    bench_tools(graph, world)
    bench_changes(graph, world)


if __name__ == '__main__':
    main()
