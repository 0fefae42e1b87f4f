"""How long the cue-tag graph takes to build, to walk and to ask, and how much memory it takes, beside a scan of its triples.

    python tests/bench/bench_cue_tag_graph.py [--episodes 100000] [--data locomo.json]

1. A conversation is built by rule: the longest of --data, in LoCoMo's format, else a synthetic one of 600 turns. Bar: 3 s.
   Its questions, or those of the sample, are asked. Bar: 100 ms.
2. Synthetic sessions of 20 episodes and 10 semantic units are linked, with no model and the bundled embedder, until there are
   --episodes. On the way, at each power of ten from 100, questions are asked: how many turns the walk took, and how long.
3. There, the operators phi are asked, beside a scan over all triples. Bar: 1 ms in the median.
4. One more session is added there, and forgotten.
The whole process may hold 1 GB at 100,000 episodes.

The words are those of the bundled embedder's vocabulary and, as rare ones, compounds of two, by a law of Zipf and Mandelbrot
whose head is that of LoCoMo's cues. An episode has some 14 cues, as by rule, and nearly every tag is said once: fewer would be easier. Four people speak, two to
four in a session, so that a speaker's cue leads to a quarter of the memory or more.
Times are medians."""

import argparse
import random
import statistics
import time
from collections import Counter
from datetime import datetime, timedelta

import numpy as np

from bench_gist_graph import conversation_of, median_ms, megabytes, show, timed_each
from memnb.mragent.contents import Episode, SemanticUnit
from memnb.mragent.graph import CueTagGraph
from memnb.evaluation.datasets import load_sample
from memnb.retrieval.vectors import _wordllama, WordLlamaEmbedder
from memnb.core.text import STOP_WORDS
from memnb.mragent.loop import MRAgent
from memnb.mragent.prompts import Recollection
from memnb.mragent.prompts import ASPECTS
from memnb.core.time import TimeSpan

PER_SESSION, HEAD, FIRST = 20, 20, datetime(2014, 1, 1, 18)
SPEAKERS = ('Ana', 'Boris', 'Clara', 'Dmitri')
FILLER = 'and the with a so that was but then in our of to for'.split()


def vocabulary() -> list[str]:
    "The words that the bundled embedder knows as one piece, the most usual first."
    known = _wordllama().tokenizer.get_vocab()
    words = (piece[1:] for piece in sorted(known, key=known.get) if piece[0] in '▁Ġ' and len(piece) > 4)
    return [word for word in words if word.isalpha() and word.isascii() and word.islower() and word not in STOP_WORDS]


class World:
    "A source of sessions. Each has a theme, of which its episodes draw most of their words."

    def __init__(self, seed: int = 1):
        self.random, chosen = random.Random(seed), np.random.default_rng(seed)
        words = vocabulary()
        self.random.shuffle(words)  # the pieces learned first are rather endings than words
        words = list(
            dict.fromkeys([*words, *(''.join(self.random.sample(words, 2)) for _ in range(15_000))])
        )  # rare words
        weights = 1 / (np.arange(len(words)) + HEAD)
        self.words, self.rank = words, {word: place for place, word in enumerate(words)}
        self.drawn = chosen.choice(len(words), 400_000, p=weights / weights.sum())
        syllables = 'ka lo mi ra ten du vor sa pel nin hu gar te wo bri'.split()
        self.places = [''.join(self.random.choices(syllables, k=3)).title() for _ in range(5000)]

    def some(self, count: int) -> list[str]:
        "Words by their law, each once."
        return list(
            dict.fromkeys(self.words[one] for one in self.drawn[self.random.choices(range(len(self.drawn)), k=count)])
        )

    def episode(self, session: str, number: int, said: datetime, people: list[str], theme: list[str]) -> Episode:
        speaker, *others = self.random.sample(people, self.random.choice([1, 2]))
        words = list(dict.fromkeys([*self.random.sample(theme, 7), *self.some(4)]))
        place = [self.random.choice(self.places)] if self.random.random() < 0.3 else []
        day, text = said.date(), ' '.join(f'{word} {self.random.choice(FILLER)}' for word in [*words, *place])
        if self.random.random() < 0.3:
            day -= timedelta(days=self.random.randrange(1, 60))
            text += f' it ({TimeSpan.day(day)})'
        tag = ' '.join(sorted(sorted(words, key=self.rank.get)[:4], key=lambda _: self.random.random())[:2])
        return Episode(
            f'{session}/e{number}',
            f'{speaker} says: {text}.',
            (f'{session}:{number}',),
            TimeSpan.day(day),
            speaker,
            said,
            session,
            number,
            title=' '.join(words[:6]).capitalize(),
            tag=tag,
            cues=(speaker, *others, *words, *place),
        )

    def unit(self, session: str, number: int, said: datetime, people: list[str]) -> SemanticUnit:
        person, words = self.random.choice(people), self.some(5)
        return SemanticUnit(
            f'{session}/u{number}',
            f'{person} {" ".join(words)}.',
            (f'{session}:{number}',),
            None,
            person,
            said,
            session,
            person=person,
            aspect=self.random.choice(list(ASPECTS)),
            slot=self.random.choice(['residence', *[''] * 9]),
        )

    def session(self, number: int) -> tuple[str, Recollection]:
        "The number-th session: its id, and what was recollected of it."
        id, said = f'S{number}', FIRST + timedelta(hours=17 * number)
        people, theme = self.random.sample(SPEAKERS, self.random.choice([2, 3, 4])), self.some(60)
        episodes = tuple(self.episode(id, one, said, people, theme) for one in range(PER_SESSION))
        return id, Recollection(episodes, tuple(self.unit(id, one, said, people) for one in range(PER_SESSION // 2)))

    def question(self, graph: CueTagGraph) -> str:
        "A question of one of five forms about an episode that is there."
        session = self.random.choice(graph.sessions)
        one = self.random.choice(graph.extract_of(session).episodes)
        a, b, c = self.random.sample([cue for cue in one.cues if cue not in SPEAKERS], 3)
        other = self.random.choice([name for name in SPEAKERS if name != one.speaker])
        return self.random.choice(
            [
                f'When did {one.speaker} {a} the {b}?',
                f'What does {one.speaker} think of the {a} and the {b} {c}?',
                f'What did {other} do when {one.speaker} won the second {a} {b}?',
                f'How many times has {one.speaker} been to {a} {b}?',
                f'Who told {one.speaker} about the {a} {b} in {one.said:%B %Y}?',
            ]
        )


def ask_all(graph: CueTagGraph, questions: list[str], label: str, bar: str) -> None:
    "How long questions take, and how deep the walks are."
    agent, times, processor, turns, calls, read = MRAgent(graph), [], [], [], [], []
    agent.ask(questions[0])
    for question in questions:
        start, cpu = time.perf_counter(), time.process_time()
        trace = agent.ask(question)
        times.append(1000 * (time.perf_counter() - start))
        processor.append(1000 * (time.process_time() - cpu))
        walks = [step for step in trace.steps if step.kind == 'walk']
        turns.append(sum(bool(step.chosen) for step in walks))
        calls.append(sum(len(step.chosen) for step in walks))
        read.append(len(trace.read))
        assert trace.error is None, trace.error
    depth = f'{statistics.mean(turns):.2f} turns, {statistics.mean(calls):.1f} calls, {statistics.mean(read):.1f} turns of talk read'
    spent = f'{statistics.median(processor):.0f} of processor'
    show(f'{label}: a question', statistics.median(times), 'ms', f'max {max(times):.0f}; {spent}; {bar}; {depth}')


def bench_building(path: str | None) -> None:
    "A conversation by rule, and questions to it."
    conversation = conversation_of(path)
    CueTagGraph.of(load_sample())  # the embedder is loaded, the tables of the rules are made
    start, cpu = time.perf_counter(), time.process_time()
    graph = CueTagGraph.of(conversation)
    wall, cpu = time.perf_counter() - start, time.process_time() - cpu
    show(
        f'1. rule building, {len(conversation.turns)} turns, embedder loaded',
        wall,
        's',
        f'bar 3; {cpu:.3g} s of processor',
    )
    print('  ', graph.counts())
    questions = (conversation.questions or load_sample().questions)[:200]
    ask_all(graph, [question.text for question in questions], '  ', 'bar 100')


def bench_growing(count: int) -> tuple[CueTagGraph, World]:
    "Link so many episodes; the graph, and where more come from. Questions at each power of ten."
    world, graph = World(), CueTagGraph(names=SPEAKERS)
    WordLlamaEmbedder()(['loaded'])
    before, seconds, number = megabytes(), 0.0, 0
    for size in sorted({*(10**power for power in range(2, 9) if 10**power < count), count}):
        start = time.perf_counter()
        while number * PER_SESSION < size:
            graph.keep(*world.session(number), digest='given')
            number += 1
        seconds += time.perf_counter() - start
        ask_all(graph, [world.question(graph) for _ in range(40)], f'2. {len(graph.episodes):,} episodes', 'bar 1000')
    held = megabytes()
    print(
        '  ',
        graph.counts(),
        len({graph.tags.merged(tag)[0] for pairs in graph.episodic._back.values() for _, tag in pairs}),
        'merged tags',
    )
    show('   making and linking them, session by session', seconds, 's')
    show('   memory of the process', held, 'MB', f'bar 1000 at 100,000 episodes; {before:.0f} before')
    show('   growth per episode', 1024 * (held - before) / count, 'kB')
    return graph, world


def bench_operators(graph: CueTagGraph) -> None:
    "Each operator at this size, beside a scan. A cue is drawn as often as it stands in an episode."
    triples, draw = list(graph.episodic), random.Random(7)
    drawn = draw.sample(triples, 400)
    degree = Counter(cue for cue, _, _ in graph.episodic).__getitem__
    busiest = max(graph.episodic.cues, key=degree)
    sizes = [degree(cue) for cue, _, _ in drawn]
    print(
        f'3. {len(triples):,} triples; cues drawn lead to {statistics.median(sizes):.0f} episodes in the median, at most to {max(sizes):,}'
    )

    def scan_tags(cue):
        return {graph.tags.merged(tag)[0] for one, tag, _ in triples if one == cue}

    def scan_contents(cue, tag):
        same = set(graph.tags.merged(tag))
        return {content for one, other, content in triples if one == cue and other in same}

    def scan_pairs(episodes):
        return {(cue, graph.tags.merged(tag)[0]) for cue, tag, content in triples if content in episodes}

    operators = {
        'tags_from': (graph.tags_from, scan_tags, [one[:1] for one in drawn]),
        'contents_from': (graph.contents_from, scan_contents, [one[:2] for one in drawn]),
        'pairs_from, of ten episodes': (
            graph.pairs_from,
            scan_pairs,
            [({one[2] for one in drawn[place : place + 10]},) for place in range(0, 390, 10)],
        ),
    }
    for name, (operator, scan, inputs) in operators.items():
        fast, slow = median_ms(lambda one: operator(*one), inputs), median_ms(lambda one: scan(*one), inputs[:5])
        for one in inputs[:5]:
            assert operator(*one) == scan(*one)
        show(f'   {name}', fast, 'ms', f'bar 1; by a scan {slow:.3g} ms')
    many = [tag for _, tag, _ in drawn]
    show(f'   tags_from the busiest cue, {degree(busiest):,} episodes', median_ms(graph.tags_from, [busiest] * 3), 'ms')
    show(
        '   contents_from the busiest cue',
        median_ms(lambda tag: graph.contents_from(busiest, tag), many),
        'ms',
        'bar 1',
    )
    show('   around an episode', median_ms(graph.around, [one[2] for one in drawn]), 'ms', 'bar 1')
    show(
        '   search(question, 25)',
        median_ms(lambda one: graph.search(one, 25), [f'{one[0]} {one[1]}' for one in drawn[:20]]),
        'ms',
    )


def bench_changes(graph: CueTagGraph, world: World) -> None:
    "A session more, and a session less."
    fresh = [world.session(number) for number in range(len(graph.sessions), len(graph.sessions) + 12)]
    graph.keep(*fresh[0], digest='given')
    show(
        f'4. one more session of {PER_SESSION} episodes',
        timed_each(lambda one: graph.keep(*one, digest='given'), fresh[1:]),
        'ms',
        'bar 1000',
    )
    show('   forgetting one', timed_each(lambda one: graph.forget(one[0]), fresh), 'ms', 'bar 1000')


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument('--episodes', type=int, default=100_000)
    options.add_argument('--data', help='a file in the format of LoCoMo')
    given = options.parse_args()
    bench_building(given.data)
    graph, world = bench_growing(given.episodes)
    bench_operators(graph)
    bench_changes(graph, world)


if __name__ == '__main__':
    main()
