"""What moves recall in one shot: the share of the evidence turns of a question among the top k, step by step.

    python tests/bench/recall_ladder.py locomo10.json [--minilm] [--parts]

takes any file of conversations in LoCoMo's format, or 'octet': the three conversations that nothing is fitted to.
Categories 1 to 4; mean over the questions with at least one evidence turn; single turns, no model at query time.
The rankers are fitted in the same run to the five conversations of Octet that are there for it. `--minilm` adds the
steps with MiniLM-L6, `--parts` what each group of features is worth, and what fewer conversations give."""

import argparse
import re
import sys
import time
from collections.abc import Callable

import numpy as np
from scipy.stats import rankdata

from memnb.core.conversation import Conversation, Question
from memnb.evaluation.datasets import load_locomo, load_octet
from memnb.evaluation.metrics import paired
from memnb.retrieval.learned import FEATURES, fit_ranker
from memnb.retrieval.vectors import DenseIndex, HybridIndex, MiniLMEmbedder
from memnb.core.text import STOP_WORDS
from memnb.retrieval.bm25 import LexicalIndex
from memnb.core.conversation import turn_snippets

CUTS = (5, 10, 25)


def words(text: str) -> list[str]:
    "Lower-case words as they are."
    return re.findall(r'[^\W_]+', text.lower())


def content_words(text: str) -> list[str]:
    "Lower-case words without stop words."
    return [word for word in words(text) if word not in STOP_WORDS]


class ByRanks(HybridIndex):
    "Reciprocal rank fusion in place of the scaled sum."

    def _fused(self, slots, values, cosines):
        fused = 1 / (60 + rankdata(-cosines, 'min'))
        fused[slots] += 1 / (60 + rankdata(-values, 'min'))
        return fused


STEPS: dict[str, Callable[[tuple[str, ...]], object]] = {
    'rank-bm25, lower-case words': lambda names: LexicalIndex(k1=1.5, b=0.75, tokenizer=words),
    '+ stop words': lambda names: LexicalIndex(k1=1.5, b=0.75, tokenizer=content_words),
    '+ stemming': lambda names: LexicalIndex(k1=1.5, b=0.75),
    '+ k1 0.9, b 0.4': lambda names: LexicalIndex(),
    '+ neighbours': lambda names: LexicalIndex(spread=True),
    '+ wordllama, weight ½': lambda names: HybridIndex(names=names, ranker=None),
    '  the same, names not stripped': lambda names: HybridIndex(ranker=None),
    '  the same, by reciprocal ranks': lambda names: ByRanks(names=names, ranker=None),
    '  wordllama alone': lambda names: DenseIndex(names=names),
}


def asked(conversation: Conversation) -> list[Question]:
    "The questions that can be scored: not adversarial, and with evidence."
    return [one for one in conversation.questions if one.category != 'adversarial' and one.evidence]


def recalls(index, questions: list[Question]) -> np.ndarray:
    "(questions, cuts) the share of each question's evidence among the best turns."
    found = [[hit.snippet.id for hit in index.search(one.text, max(CUTS))] for one in questions]
    return np.array(
        [[np.mean([id in ids[:cut] for id in one.evidence]) for cut in CUTS] for one, ids in zip(questions, found)]
    ).reshape(-1, len(CUTS))


def learned(ranker, **options) -> Callable[[tuple[str, ...]], object]:
    "A step with a ranker."
    return lambda names: HybridIndex(names=names, ranker=ranker, **options)


def learned_steps(minilm: bool) -> dict[str, Callable]:
    "The steps that are learned, each with its ranker fitted anew."
    fit, steps = load_octet('fit'), {}
    began = time.perf_counter()
    steps['+ learned, linear'] = learned(fit_ranker(fit))
    print(f'fitted in {time.perf_counter() - began:.1f} s')
    steps['  the same, only words'] = learned(fit_ranker(fit, embedder=None), embedder=None)
    if minilm:
        steps['  MiniLM, not learned'] = learned(None, embedder=Kept())
        steps['  MiniLM, learned'] = learned(fit_ranker(fit, embedder=Kept()), embedder=Kept())
    return steps


class Kept(MiniLMEmbedder):
    "MiniLM, each text once."

    known: dict[str, np.ndarray] = {}

    def __call__(self, texts):
        new = list(dict.fromkeys(text for text in texts if text not in self.known))
        self.known.update(zip(new, super().__call__(new)))
        return np.array([self.known[text] for text in texts])


def parts() -> dict[str, Callable]:
    "The linear ranker without one group of features at a time, with fewer conversations, and over fewer turns of the first stage."
    fit, steps = load_octet('fit'), {}
    for group in dict.fromkeys(group for group, _ in FEATURES.values()):
        left = [name for name, (of, _) in FEATURES.items() if of != group]
        steps[f'without {group}'] = learned(fit_ranker(fit, features=left))
    for count in range(1, 5):
        steps[f'fitted to the first {count}'] = learned(fit_ranker(fit[:count]))
    full = fit_ranker(fit)
    for seen in (50, 100, 200):
        steps[f'features of the best {seen} only'] = lambda names, seen=seen: Seen(seen, names=names, ranker=full)
    return steps


class Seen(HybridIndex):
    "An index whose ranker sees fewer turns."

    def __init__(self, seen: int, **options):
        super().__init__(**options)
        self.SEEN = seen


def ladder(conversations: list[Conversation], steps: dict = STEPS) -> dict[str, np.ndarray]:
    "For each step the recall of every question, in percent, by cut."
    table = {}
    for name, make in steps.items():
        rows = []
        for conversation in conversations:
            index = make(conversation.speakers)
            index.add(turn_snippets(conversation))
            rows.append(recalls(index, asked(conversation)))
        table[name] = 100 * np.concatenate(rows)
    return table


def main() -> None:
    "Print the ladder, the learned steps by category, and what they gain with its interval."
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('file', help="conversations in LoCoMo's format, or 'octet'")
    parser.add_argument('--minilm', action='store_true')
    parser.add_argument('--parts', action='store_true')
    options = parser.parse_args()
    conversations = load_octet('test') if options.file == 'octet' else load_locomo(options.file)
    questions = [(one.category, conversation.id) for conversation in conversations for one in asked(conversation)]
    categories, names = (np.array(column) for column in zip(*questions))
    print(
        f'{len(conversations)} conversations, {len(questions)} questions; evidence recall in % at {CUTS} turns, and of multi-hop'
    )
    steps = STEPS | learned_steps(options.minilm) | (parts() if options.parts else {})
    table = ladder(conversations, steps)
    for name, rows in table.items():
        print(
            f'{name:38}'
            + ''.join(f'{one:7.1f}' for one in rows.mean(0))
            + '   |'
            + ''.join(f'{one:7.1f}' for one in rows[categories == 'multi-hop'].mean(0))
        )
    print('\nby category, at 25 turns')
    chosen = ['+ wordllama, weight ½', *(name for name in table if 'learned' in name)]
    for name in chosen:
        print(
            f'{name:38}'
            + ''.join(
                f'   {category} {table[name][categories == category, -1].mean():.1f}'
                for category in sorted(set(categories))
            )
        )
    print('\nlearned, less what it starts from, with 95% intervals over conversations')
    pairs = [('+ learned, linear', '+ wordllama, weight ½')]
    pairs += (
        [('  MiniLM, learned', '+ learned, linear'), ('  MiniLM, learned', '  MiniLM, not learned')]
        if options.minilm
        else []
    )
    for ours, theirs in pairs:
        for column, cut in enumerate(CUTS):
            gain = paired(table[ours][:, column].tolist(), table[theirs][:, column].tolist(), names.tolist())
            print(f'{ours.strip()} − {theirs.strip()}, at {cut}: {gain.mean:+.1f} [{gain.low:+.1f}, {gain.high:+.1f}]')


if __name__ == '__main__':
    sys.exit(main())
