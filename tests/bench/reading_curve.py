"""Evidence recall against the turns that were read: one search, with and without the learned ranking, and methods beside it, by rules.

    python tests/bench/reading_curve.py octet
    python tests/bench/reading_curve.py octet --methods self-rag,memr3,mragent,memma,remem
    python tests/bench/reading_curve.py locomo_dev.json --json > data/results_reading.json

'octet' is the part that nothing is fitted to. A method reads until 25 turns are read; the last column says what it gains
over one search of as many turns, with the 95 % interval over conversations."""

import argparse
import json
import sys

from memnb.evaluation.datasets import load_octet
from memnb.evaluation.experiment import Experiment
from memnb.evaluation.rows import CATEGORIES, CUTS
from memnb.evaluation.metrics import paired
from memnb.evaluation.papers import variant
from memnb.evaluation.registry import load_dataset, MEMORIES

SEARCHES = ['rag', variant('rag, not learned', 'rag', MEMORIES['turns'].with_options(ranker=None))]
CHUNKS = [
    variant(f'{1280 // size} × {size} tokens', 'rag', MEMORIES['turns'].with_options(chunk=size), k=1280 // size)
    for size in (128, 256, 640, 1280)
]


def gain_over(own, search, column='evidence_recall') -> dict:
    "The mean gain of some questions over one search of as many turns, with its interval."
    gain = paired(own[column].tolist(), search[column].tolist(), [conversation for conversation, _ in search.index])
    return {'mean': gain.mean, 'low': gain.low, 'high': gain.high}


def measure_chunks(conversations) -> list[dict]:
    "The turns and the evidence that one search finds in 1,280 tokens, in chunks of different sizes."
    rows = Experiment(CHUNKS, conversations, turns=None, baselines=()).run().rows
    means = rows.groupby('method', sort=False)[['turns', 'evidence_recall']].mean()
    return means.reset_index().to_dict('records')


def measure(conversations, methods) -> dict:
    "What every row reads, and what it gains over one search of as many turns: at each number of turns, and by category of all."
    results = Experiment([*SEARCHES, *methods], conversations, turns=max(CUTS), baselines=()).run()
    rows = results.rows[results.rows.evidence_recall.notna()].set_index(['conversation', 'position'])
    search, columns, lines = rows[rows.method == 'rag'], {str(cut): f'read_recall@{cut}' for cut in CUTS}, []
    for name in dict.fromkeys(rows.method):
        own = rows[rows.method == name].loc[search.index]
        categories = {}
        for category in CATEGORIES:
            chosen = search.category == category
            categories[category] = {
                'questions': int(chosen.sum()),
                'recall': own[chosen].evidence_recall.mean(),
                'gain': gain_over(own[chosen], search[chosen]),
            }
        lines.append(
            {
                'method': name,
                'turns': own.turns.mean(),
                'recall': {cut: own[column].mean() for cut, column in columns.items()},
                'gain': {cut: gain_over(own, search, column) for cut, column in columns.items()},
                'by_category': categories,
            }
        )
    names = ('memnb', 'commit', 'day', 'data', 'model')
    provenance = {name: results.provenance[name] for name in names}
    return {
        'conversations': len(conversations),
        'questions': len(search),
        'rows': lines,
        'chunks': measure_chunks(conversations),
        'provenance': provenance,
    }


def main() -> None:
    "Print the table, or the figures as JSON."
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('file', help="conversations in LoCoMo's format, or 'octet'")
    parser.add_argument('--methods', default='', help='names of the registry, with commas: rows beside the searches')
    parser.add_argument('--json', action='store_true', help='print means and intervals as JSON: shares, to four places')
    options = parser.parse_args()
    conversations = load_octet('test') if options.file == 'octet' else load_dataset(options.file)
    report = measure(conversations, [name for name in options.methods.split(',') if name])
    if options.json:
        rounded = json.loads(json.dumps(report), parse_float=lambda number: round(float(number), 4))
        print(json.dumps(rounded, indent=1))
        return
    print(
        f'{report["conversations"]} conversations, {report["questions"]} questions; evidence recall in % when so many turns are read'
    )
    print(f'{"":22}' + ''.join(f'{cut:8}' for cut in CUTS) + '   multi-hop   beside one search')
    for row in report['rows']:
        gain = row['gain'][str(max(CUTS))]
        print(
            f'{row["method"]:22}'
            + ''.join(f'{100 * share:8.1f}' for share in row['recall'].values())
            + f'{100 * row["by_category"]["multi-hop"]["recall"]:12.1f}'
            + f'   {100 * gain["mean"]:+.1f} [{100 * gain["low"]:+.1f}, {100 * gain["high"]:+.1f}]'
        )
    for row in report['chunks']:
        print(f'{row["method"]:22}{100 * row["evidence_recall"]:8.1f} in {row["turns"]:.1f} turns')


if __name__ == '__main__':
    sys.exit(main())
