"""A store of ten or twenty million tokens on one machine: `python tests/bench/bench_scale.py FOLDER [--tokens 10000000]`.

FOLDER has chats of BEAM (folders with `chat.json` in them or below). They are repeated until there are so many tokens (four
characters each). A repeat has other names and other numbers, so that each question has one source. Printed, each in
seconds of one process: building, a question, adding a session, forgetting one; and the memory that the process needs."""

import argparse
import re
import resource
import statistics
import time
import zlib
from dataclasses import replace
from pathlib import Path

from memnb.core.conversation import turn_snippets
from memnb.evaluation.beam import load_beam
from memnb.retrieval.hybrid import HybridIndex

SYLLABLES = 'ba de fi go lu ma ne pi ro su ta ve zi ko la mu'.split()


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


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('folder', type=Path)
    parser.add_argument('--tokens', type=int, default=10_000_000)
    parser.add_argument('--seen', type=int, default=1000)
    parser.add_argument('--questions', type=int, default=100)
    options = parser.parse_args()
    folders = sorted({file.parent.parent for file in options.folder.rglob('chat.json')})
    chats = [chat for folder in folders for chat in load_beam(folder)]
    index = HybridIndex(names=['User', 'Assistant'], seen=options.seen)
    questions, tokens, started, made = [], 0, time.process_time(), 0.0
    for snippets, asked in stock(chats, options.tokens):
        questions += asked
        tokens += sum(len(snippet.text) for snippet in snippets) // 4
        began = time.process_time()
        index.add(snippets)
        made += time.process_time() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f'{tokens:,} tokens, {len(index):,} turns, {len(index.lexical):,} passages')
    print(f'build: {made:.0f} s of processor, {peak:,.0f} MB at the most')
    began = time.perf_counter()
    index.search(questions[0][0], 25)
    print(f'the first question: {time.perf_counter() - began:.2f} s')
    step = max(1, len(questions) // options.questions)
    seconds, found, held = [], [], []
    for text, evidence in questions[::step]:
        began = time.perf_counter()
        hits = index.search(text, 25)
        seconds.append(time.perf_counter() - began)
        found.append(len(evidence & {hit.snippet.id for hit in hits}) / len(evidence))
        held.append(len(evidence & set(index.features(text)[0])) / len(evidence))
    seconds.sort()
    print(
        f'{len(seconds)} questions: median {1000 * statistics.median(seconds):.0f} ms, 95% {1000 * seconds[int(0.95 * len(seconds))]:.0f} ms; '
        f'evidence among 25 {100 * statistics.mean(found):.1f}%, among the {index.seen} that are ranked {100 * statistics.mean(held):.1f}%'
    )
    last = [
        replace(snippet, id=f'new/{snippet.id}', session=f'new/{snippet.session}')
        for snippet in snippets
        if snippet.session == snippets[0].session
    ]
    for name, change in (
        ('add', lambda: index.add(last)),
        ('forget', lambda: index.remove([snippet.id for snippet in last])),
    ):
        began = time.perf_counter()
        change()
        print(f'{name} a session of {len(last)} turns: {time.perf_counter() - began:.2f} s', end='')
        began = time.perf_counter()
        index.search(questions[0][0], 25)
        print(f', the question after it: {time.perf_counter() - began:.2f} s')


if __name__ == '__main__':
    main()
