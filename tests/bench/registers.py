"""One search over conversations of several kinds: `python tests/bench/registers.py octet irrigation locomo10.json beam/100K …`

Each argument is a development set: 'octet' (the three older test conversations), 'irrigation', a file in LoCoMo's format, or a
folder of chats of BEAM. Printed for each: the share of the evidence among the best 5, 10 and 25 turns, in percent, for rank-bm25
(stemmed), the first stage, a score made by hand (the first stage and 0.3 for whose turns are asked for) and the shipped weights,
paired with the first stage (95% intervals over conversations), by category at 25, and the tokens that 25 hits put into a prompt.
`--minilm` adds MiniLM on passages, `--standing` three standing instructions beside the hits."""

import argparse
from collections import defaultdict
from pathlib import Path
from statistics import mean

from memnb.core.conversation import turn_snippets
from memnb.evaluation.beam import is_beam, load_beam
from memnb.evaluation.datasets import load_locomo, load_octet
from memnb.evaluation.metrics import paired
from memnb.evaluation.searches import asked_questions, CUTS, recalls
from memnb.retrieval.bm25 import LexicalIndex
from memnb.retrieval.hybrid import HybridIndex
from memnb.retrieval.learned import LearnedRanker
from memnb.retrieval.vectors import MiniLMEmbedder

BY_HAND = LearnedRanker({'spread': 1.0, 'meaning': 0.5, 'speaker': 0.3})


def conversations_of(name):
    if name in ('octet', 'irrigation'):
        *older, irrigation = load_octet('test')
        return older if name == 'octet' else [irrigation]
    return load_beam(name) if is_beam(name) else load_locomo(name)


def searches(options):
    rows = {
        'rank-bm25, stemmed': lambda names: LexicalIndex(k1=1.5, b=0.75),
        'words and meaning (ranker=None)': lambda names: HybridIndex(names=names, ranker=None),
        'and 0.3 for who is asked for': lambda names: HybridIndex(names=names, ranker=BY_HAND),
        'the shipped weights': lambda names: HybridIndex(names=names),
    }
    if options.minilm:
        rows['MiniLM, ranker=None'] = lambda names: HybridIndex(MiniLMEmbedder(), names=names, ranker=None)
        rows['MiniLM, the shipped weights'] = lambda names: HybridIndex(MiniLMEmbedder(), names=names)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('sets', nargs='+')
    parser.add_argument('--minilm', action='store_true')
    parser.add_argument('--standing', action='store_true')
    options = parser.parse_args()
    for name in options.sets:
        conversations = conversations_of(name)
        asked = [
            (question, conversation.id) for conversation in conversations for question in asked_questions(conversation)
        ]
        clusters = [id for _, id in asked] if len(conversations) > 1 else None
        print(f'\n{Path(name).name}: {len(conversations)} conversations, {len(asked)} questions')
        table = {}
        for label, make in searches(options).items():
            table[label] = [row for one in conversations for row in recalls(one, make(one.speakers))]
            line = '  '.join(f'{mean(column):5.1f}' for column in zip(*table[label]))
            first = table.get('words and meaning (ranker=None)')
            gains = ''
            if first and table[label] is not first:
                for place, cut in enumerate(CUTS):
                    gain = paired([row[place] for row in table[label]], [row[place] for row in first], clusters)
                    gains += f'   @{cut} {gain.mean:+.1f} [{gain.low:+.1f}, {gain.high:+.1f}]'
            print(f'{label:34}{line}{gains}', flush=True)
        categories = defaultdict(list)
        for place, (question, _) in enumerate(asked):
            categories[question.category].append(place)
        for category, places in sorted(categories.items()):
            cells = '  '.join(f'{mean(rows[place][-1] for place in places):5.1f}' for rows in table.values())
            print(f'    {category:30}{len(places):4}  {cells}')
        tokens, extra = [], []
        for one in conversations:
            index = HybridIndex(names=one.speakers, standing=3 if options.standing else 0)
            index.add(turn_snippets(one))
            for question in asked_questions(one):
                hits = index.search(question.text, max(CUTS))
                tokens.append(sum(len(hit.snippet.line) for hit in hits[: max(CUTS)]) / 4)
                extra.append(
                    100 * len({hit.snippet.id for hit in hits} & set(question.evidence)) / len(question.evidence)
                )
        print(f'tokens of {max(CUTS)} hits (four characters each): {mean(tokens):,.0f}')
        if options.standing:
            print(f'with three standing instructions and preferences beside the {max(CUTS)}: {mean(extra):.1f}')


if __name__ == '__main__':
    main()
