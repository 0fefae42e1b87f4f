"""What moves recall in one shot: the share of the evidence turns of a question among the best, step by step.

    python tests/bench/recall_ladder.py octet [--parts]

takes a file of conversations in LoCoMo's format, a folder of BEAM, or 'octet': the four conversations that nothing is
fitted to. The rankers are fitted in the same run to the five conversations of Octet that are there for it, and to the
same turns as chats with an assistant. `--parts` adds what each feature is worth, and what fewer conversations give.
`registers.py` beside it has the shipped weights, MiniLM, categories and intervals."""

import argparse
import re
from collections.abc import Callable

import numpy as np
from scipy.stats import rankdata

from memnb.core.text import STOP_WORDS
from memnb.evaluation.beam import is_beam, load_beam
from memnb.evaluation.datasets import load_locomo, load_octet
from memnb.evaluation.searches import CUTS, recalls
from memnb.retrieval.bm25 import LexicalIndex
from memnb.retrieval.features import FEATURES
from memnb.retrieval.hybrid import HybridIndex
from memnb.retrieval.learned import assistant_chats, fit_ranker
from memnb.retrieval.vectors import DenseIndex


def words(text: str) -> list[str]:
    "Lower-case words as they are."
    return re.findall(r'[^\W_]+', text.lower())


def content_words(text: str) -> list[str]:
    "Lower-case words without stop words."
    return [word for word in words(text) if word not in STOP_WORDS]


class ByRanks(HybridIndex):
    "Reciprocal rank fusion in place of the scaled sum."

    def fused(self, words, cosines):
        return sum(1 / (60 + rankdata(-values, 'min')) for values in (words, cosines))


STEPS: dict[str, Callable[[tuple[str, ...]], object]] = {
    'rank-bm25, lower-case words': lambda names: LexicalIndex(k1=1.5, b=0.75, tokenizer=words),
    '+ stop words': lambda names: LexicalIndex(k1=1.5, b=0.75, tokenizer=content_words),
    '+ stemming': lambda names: LexicalIndex(k1=1.5, b=0.75),
    '+ k1 0.9, b 0.4': lambda names: LexicalIndex(),
    '+ neighbours': lambda names: HybridIndex(None, ranker=None, words=None),
    '+ passages': lambda names: HybridIndex(None, ranker=None),
    '+ wordllama, weight ½': lambda names: HybridIndex(names=names, ranker=None),
    '  the same, whole turns': lambda names: HybridIndex(names=names, ranker=None, words=None),
    '  the same, names not stripped': lambda names: HybridIndex(ranker=None),
    '  the same, by reciprocal ranks': lambda names: ByRanks(names=names, ranker=None),
    '  wordllama alone': lambda names: DenseIndex(names=names),
}


def learned(ranker, **options) -> Callable[[tuple[str, ...]], object]:
    "A step with a ranker."
    return lambda names: HybridIndex(names=names, ranker=ranker, **options)


def learned_steps(parts: bool) -> dict[str, Callable]:
    "The steps that are learned, each with its ranker fitted anew."
    fit = load_octet('fit')
    chats = assistant_chats(fit)
    full = fit_ranker(fit, chats=chats)
    words_only = fit_ranker(fit, embedder=None, chats=chats)
    steps = {
        '+ learned': learned(full),
        '  the same, no chats with an assistant': learned(fit_ranker(fit)),
        '  the same, only words': learned(words_only, embedder=None),
    }
    for seen in (50, 100, 200) if parts else ():
        steps[f'  features of the best {seen} only'] = learned(full, seen=seen)
    for count in range(2, 5) if parts else ():
        steps[f'  fitted to the first {count}'] = learned(fit_ranker(fit[:count]))
    for feature in FEATURES if parts else ():
        left = [name for name in FEATURES if name != feature]
        steps[f'  without {feature}'] = learned(fit_ranker(fit, features=left, chats=chats))
    return steps


def main() -> None:
    "Print the ladder."
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('data', help="conversations in LoCoMo's format, a folder of BEAM, or 'octet'")
    parser.add_argument('--parts', action='store_true')
    options = parser.parse_args()
    if options.data == 'octet':
        conversations = load_octet('test')
    else:
        conversations = load_beam(options.data) if is_beam(options.data) else load_locomo(options.data)
    print(f'{len(conversations)} conversations; evidence recall in % at {CUTS} turns')
    for name, make in (STEPS | learned_steps(options.parts)).items():
        rows = [row for talk in conversations for row in recalls(talk, make(talk.speakers))]
        print(f'{name:42}' + ''.join(f'{value:7.1f}' for value in np.mean(rows, axis=0)), flush=True)


if __name__ == '__main__':
    main()
