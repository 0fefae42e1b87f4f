"""One search over conversations of several kinds: `python tests/bench/registers.py octet irrigation locomo10.json beam/100K …`

Each argument is a development set: 'octet' (the three older test conversations), 'irrigation', a file in LoCoMo's format, or a
folder of chats of BEAM. Printed for each: the share of the evidence among the best 5, 10 and 25 turns, in percent, for rank-bm25
(stemmed), the first stage, a score made by hand (the first stage and 0.3 for whose turns are asked for) and the shipped weights,
paired with the first stage (95% intervals over conversations), by category at 25 (one column for each row above), and the tokens
that 25 hits put into a prompt.

`--steps` adds the steps from rank-bm25 to the first stage, `--minilm` MiniLM on passages, `--parts` weights that are fitted in the
same run to Octet's fit part with something left out, `--standing` three standing instructions beside the hits."""

import argparse
import re
import sys
from collections import defaultdict
from functools import partial
from pathlib import Path
from statistics import mean

from scipy.stats import rankdata

from memnb.core.conversation import turn_snippets
from memnb.core.text import STOP_WORDS
from memnb.evaluation.beam import is_beam, load_beam
from memnb.evaluation.datasets import load_locomo, load_octet
from memnb.evaluation.metrics import paired
from memnb.evaluation.searches import asked_questions, CUTS, recalls
from memnb.retrieval.bm25 import LexicalIndex
from memnb.retrieval.features import FEATURES
from memnb.retrieval.hybrid import HybridIndex
from memnb.retrieval.learned import fit_ranker, LearnedRanker
from memnb.retrieval.vectors import DenseIndex, MiniLMEmbedder

BY_HAND = LearnedRanker({'spread': 1.0, 'meaning': 0.5, 'speaker': 0.3})
FIRST = 'words and meaning (ranker=None)'
OKAPI = partial(LexicalIndex, k1=1.5, b=0.75)


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


STEPS = {  # each a function of the speakers' names
    'rank-bm25, lower-case words': lambda names: OKAPI(tokenizer=words),
    'without stop words': lambda names: OKAPI(tokenizer=content_words),
    'stemmed, k1 0.9, b 0.4': lambda names: LexicalIndex(),
    'and neighbours': lambda names: HybridIndex(None, ranker=None, words=None),
    'and passages': lambda names: HybridIndex(None, ranker=None),
    'words and meaning, whole turns': lambda names: HybridIndex(names=names, ranker=None, words=None),
    'words and meaning, with names': lambda names: HybridIndex(ranker=None),
    'words and meaning, by ranks': lambda names: ByRanks(names=names, ranker=None),
    'meaning alone': lambda names: DenseIndex(names=names),
}


def fitted_without() -> dict:
    "The rows of weights that are fitted in the same run, with something left out."
    sys.path.append(str(Path(__file__).parents[2] / '.ci'))
    from chats import assistant_chats

    fit = load_octet('fit')
    chats = assistant_chats(fit)
    rankers = {'without chats with an assistant': fit_ranker(fit)}
    for left in FEATURES:
        rankers[f'without {left}'] = fit_ranker(fit, chats=chats, features=[name for name in FEATURES if name != left])
    return {
        name: lambda names, ranker=ranker: HybridIndex(names=names, ranker=ranker) for name, ranker in rankers.items()
    }


def searches(options) -> dict:
    rows = {
        'rank-bm25, stemmed': lambda names: OKAPI(),
        FIRST: lambda names: HybridIndex(names=names, ranker=None),
        'and 0.3 for who is asked for': lambda names: HybridIndex(names=names, ranker=BY_HAND),
        'the shipped weights': lambda names: HybridIndex(names=names),
    }
    if options.minilm:
        rows['MiniLM, ranker=None'] = lambda names: HybridIndex(MiniLMEmbedder(), names=names, ranker=None)
        rows['MiniLM, the shipped weights'] = lambda names: HybridIndex(MiniLMEmbedder(), names=names)
    rows |= STEPS if options.steps else {}
    return rows | (fitted_without() if options.parts else {})


def conversations_of(name):
    if name in ('octet', 'irrigation'):
        *older, irrigation = load_octet('test')
        return older if name == 'octet' else [irrigation]
    return load_beam(name) if is_beam(name) else load_locomo(name)


def show_table(conversations, rows) -> None:
    "Print what each search finds, its gain over the first stage, and its share by category."
    asked = [
        (question, conversation.id) for conversation in conversations for question in asked_questions(conversation)
    ]
    clusters = [id for _, id in asked] if len(conversations) > 1 else None
    print(f'{len(conversations)} conversations, {len(asked)} questions')
    table = {}
    for label, make in rows.items():
        table[label] = [row for one in conversations for row in recalls(one, make(one.speakers))]
        line = '  '.join(f'{mean(column):5.1f}' for column in zip(*table[label]))
        gains = ''
        for place, cut in enumerate(CUTS) if FIRST in table and label != FIRST else ():
            gain = paired([row[place] for row in table[label]], [row[place] for row in table[FIRST]], clusters)
            gains += f'   @{cut} {gain.mean:+.1f} [{gain.low:+.1f}, {gain.high:+.1f}]'
        print(f'{label:34}{line}{gains}', flush=True)
    categories = defaultdict(list)
    for place, (question, _) in enumerate(asked):
        categories[question.category].append(place)
    for category, places in sorted(categories.items()):
        cells = '  '.join(f'{mean(rows[place][-1] for place in places):5.1f}' for rows in table.values())
        print(f'    {category:30}{len(places):4}  {cells}')


def show_prompts(conversations, standing: int) -> None:
    "Print the tokens of 25 hits, and what is found with standing turns beside them."
    tokens, found = [], []
    for one in conversations:
        index = HybridIndex(names=one.speakers, standing=standing)
        index.add(turn_snippets(one))
        for question in asked_questions(one):
            hits = index.search(question.text, max(CUTS))
            tokens.append(sum(len(hit.snippet.line) for hit in hits[: max(CUTS)]) / 4)
            ids = {hit.snippet.id for hit in hits}
            found.append(100 * len(ids & set(question.evidence)) / len(question.evidence))
    print(f'tokens of {max(CUTS)} hits (four characters each): {mean(tokens):,.0f}')
    if standing:
        print(f'with {standing} standing instructions and preferences beside the {max(CUTS)}: {mean(found):.1f}')


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('sets', nargs='+')
    for name in ('minilm', 'standing', 'steps', 'parts'):
        parser.add_argument(f'--{name}', action='store_true')
    options = parser.parse_args()
    rows = searches(options)
    for name in options.sets:
        print(f'\n{Path(name).name}: ', end='')
        show_table(conversations_of(name), rows)
        show_prompts(conversations_of(name), 3 if options.standing else 0)


if __name__ == '__main__':
    main()
