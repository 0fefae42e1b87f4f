"""What moves recall in one shot: the share of the evidence turns of a question among the top k, step by step.

    python tests/bench/recall_ladder.py locomo10.json

takes any file of conversations in LoCoMo's format. Categories 1 to 4; mean over the questions with at least one
evidence turn; single turns, no model at query time."""
import argparse
import re
import sys
from collections.abc import Callable

import numpy as np
from scipy.stats import rankdata

from memnb.core.conversation import Conversation, Question
from memnb.evaluation.datasets import load_locomo
from memnb.retrieval.vectors import DenseIndex, HybridIndex
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
    'rank-bm25, lower-case words': lambda names: LexicalIndex(k1=1.5, b=.75, tokenizer=words),
    '+ stop words': lambda names: LexicalIndex(k1=1.5, b=.75, tokenizer=content_words),
    '+ stemming': lambda names: LexicalIndex(k1=1.5, b=.75),
    '+ k1 0.9, b 0.4': lambda names: LexicalIndex(),
    '+ neighbours': lambda names: LexicalIndex(spread=True),
    '+ wordllama, weight ½': lambda names: HybridIndex(names=names),
    '  the same, names not stripped': lambda names: HybridIndex(),
    '  the same, by reciprocal ranks': lambda names: ByRanks(names=names),
    '  wordllama alone': lambda names: DenseIndex(names=names),
}


def asked(conversation: Conversation) -> list[Question]:
    "The questions that can be scored: not adversarial, and with evidence."
    return [one for one in conversation.questions if one.category != 'adversarial' and one.evidence]


def recalls(index, questions: list[Question]) -> np.ndarray:
    "(questions, cuts) the share of each question's evidence among the best turns."
    found = [[hit.snippet.id for hit in index.search(one.text, max(CUTS))] for one in questions]
    return np.array([[np.mean([id in ids[:cut] for id in one.evidence]) for cut in CUTS]
                     for one, ids in zip(questions, found)]).reshape(-1, len(CUTS))


def ladder(conversations: list[Conversation], steps: dict = STEPS) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    "For each step, the mean recall in percent over all questions and over those of several hops, each by cut."
    categories = np.array([one.category for conversation in conversations for one in asked(conversation)])
    table = {}
    for name, make in steps.items():
        rows = []
        for conversation in conversations:
            index = make(conversation.speakers)
            index.add(turn_snippets(conversation))
            rows.append(recalls(index, asked(conversation)))
        rows = 100 * np.concatenate(rows)
        table[name] = rows.mean(0), rows[categories == 'multi-hop'].mean(0)
    return table


def main() -> None:
    "Print the ladder."
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('file', help="conversations in LoCoMo's format")
    conversations = load_locomo(parser.parse_args().file)
    count = sum(len(asked(conversation)) for conversation in conversations)
    print(f'{len(conversations)} conversations, {count} questions; evidence recall in % at {CUTS} turns, and of multi-hop')
    for name, (overall, multi) in ladder(conversations).items():
        print(f'{name:38}' + ''.join(f'{one:7.1f}' for one in overall) + '   |' + ''.join(f'{one:7.1f}' for one in multi))


if __name__ == '__main__':
    sys.exit(main())
