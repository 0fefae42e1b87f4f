"""A memory of ten or twenty million tokens on one machine: `python tests/bench/bench_scale.py FOLDER [--tokens 10000000]`.

FOLDER has chats of BEAM (folders with `chat.json` in them or below). They are repeated until there are so many tokens (four
characters each). A repeat has other names and other numbers, so that each question has one source. Printed, in seconds of the
processor and of the clock: building, a question, adding a session, forgetting it, saving, opening; and the memory that is needed."""

import argparse
import re
import resource
import statistics
import tempfile
import time
import zlib
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

from memnb.core.conversation import turn_snippets
from memnb.evaluation.beam import load_beam
from memnb.retrieval.turns import TurnMemory, Turns

SYLLABLES = ['ba', 'de', 'fi', 'go', 'lu', 'ma', 'ne', 'pi', 'ro', 'su', 'ta', 've', 'zi', 'ko', 'la', 'mu']


def changed(text, copy):
    """A text with other names and numbers: a capitalised word becomes another word, a number another one of as many digits."""

    def word(match):
        code = zlib.crc32(f'{copy} {match[0]}'.encode())
        return ''.join(SYLLABLES[code >> 4 * place & 15] for place in range(3)).capitalize()

    def number(match):
        return str(
            10 ** (len(match[0]) - 1) + zlib.crc32(f'{copy} {match[0]}'.encode()) % (9 * 10 ** (len(match[0]) - 1))
        )

    return re.sub(r'\d{1,9}', number, re.sub(r'(?<=[a-z,] )[A-Z][a-z]+', word, text)) if copy else text


def stock(chats, tokens):
    """Yield snippets of sessions until there are so many tokens, and the questions about them."""
    copy = told = 0
    while told < tokens:
        for chat in chats:
            snippets = [
                replace(
                    snippet,
                    id=f'{chat.id}/{copy}/{snippet.id}',
                    session=f'{chat.id}/{copy}/{snippet.session}',
                    text=changed(snippet.text, copy),
                    sources=(),
                )
                for snippet in turn_snippets(chat)
            ]
            told += sum(len(snippet.text) for snippet in snippets) // 4
            questions = [
                (changed(question.text, copy), {f'{chat.id}/{copy}/{id}' for id in question.evidence})
                for question in chat.questions
                if question.evidence and not question.refuse
            ]
            yield snippets, questions
            if told >= tokens:
                return
        copy += 1


def show(name, do, *arguments, **options):
    """Call a function, print how long it took, and return what it returned."""
    began = time.process_time(), time.perf_counter()
    value = do(*arguments, **options)
    print(f'{name}: {time.process_time() - began[0]:.2f} s ({time.perf_counter() - began[1]:.2f} s by the clock)')
    return value


def build(memory, sessions):
    for session, snippets in sessions.items():
        memory.keep(session, Turns(tuple(snippets)))


def ask(memory, questions):
    """Print how long questions take, by the processor and by the clock, and what is found."""
    times, found, ranked = [], [], []
    for text, evidence in questions:
        began = time.process_time(), time.perf_counter()
        hits = memory.search(text, 25)
        times.append((time.process_time() - began[0], time.perf_counter() - began[1]))
        found.append(100 * len(evidence & {hit.snippet.id for hit in hits}) / len(evidence))
        ranked.append(100 * len(evidence & set(memory.index.features(text)[0])) / len(evidence))
    for clock, column in zip(('processor', 'clock'), zip(*times)):
        middle, most = 1000 * statistics.median(column), 1000 * sorted(column)[int(0.95 * len(column))]
        print(f'{len(times)} questions by the {clock}: median {middle:.0f} ms, 95% {most:.0f} ms')
    print(
        f'evidence among 25 {statistics.mean(found):.1f}%, among those that are ranked {statistics.mean(ranked):.1f}%'
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('folder', type=Path)
    parser.add_argument('--tokens', type=int, default=10_000_000)
    options = parser.parse_args()
    folders = sorted({file.parent.parent for file in options.folder.rglob('chat.json')})
    chats = [chat for folder in folders for chat in load_beam(folder)]
    sessions, questions = defaultdict(list), []
    for snippets, asked in stock(chats, options.tokens):
        questions += asked
        for snippet in snippets:
            sessions[snippet.session].append(snippet)
    questions = questions[:: max(1, len(questions) // 100)]
    memory = TurnMemory(names=['User', 'Assistant'])
    show('build', build, memory, sessions)
    print(f'{len(memory.index):,} turns, {len(memory.index.lexical):,} passages')
    print(f'{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MB at the most')
    ask(memory, questions)
    new = [replace(snippet, id=f'new/{snippet.id}', session='new') for snippet in snippets[:60]]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / 'turns.sqlite'
        show('save', memory.save, path)
        print(f'the file: {path.stat().st_size / 1e6:,.0f} MB')
        show('add a session of 60 turns', build, memory, {'new': new})
        show('the question after it', memory.search, questions[0][0])
        show('save that', memory.save, path)
        show('forget the session', memory.forget, 'new')
        show('the question after it', memory.search, questions[0][0])
        show('save that, and remove all traces', memory.save, path)
        opened = show('open', TurnMemory.load, path)
    assert all(opened.search(text, 25) == memory.search(text, 25) for text, _ in questions)


if __name__ == '__main__':
    main()
