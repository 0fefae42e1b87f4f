"""Evidence recall against the turns that were read: every method, beside one search, by rules.

    python tests/bench/reading_curve.py octet
    python tests/bench/reading_curve.py locomo10.json
    python tests/bench/reading_curve.py locomo_dev.json --json > data/results_reading.json

'octet' is the part that nothing is fitted to. A method reads until 25 turns are read; the last column says what it gains
over one search of as many turns, with the 95 % interval over conversations."""

import argparse
import json
import sys

from memnb.evaluation.datasets import load_octet
from memnb.evaluation.experiment import CATEGORIES, CUTS, Experiment
from memnb.evaluation.metrics import paired
from memnb.evaluation.papers import memory, variant
from memnb.evaluation.registry import load_dataset

PLAIN = memory('turns', ranker=None)
METHODS = (
    'rag',
    variant('rag, not learned', 'rag', PLAIN),
    'self-rag',
    'memr3',
    variant('memr3, not learned', 'memr3', PLAIN),
    'mragent',
    'memma',
    'remem',
)

ALIKE = {'memr3, not learned': 'rag, not learned'}  # the search with the same ranking, where it is not that of `rag`


def gain_over(own, search, column='evidence_recall') -> dict:
    "The mean gain of some questions over one search of as many turns, with its interval."
    gain = paired(own[column].tolist(), search[column].tolist(), [one for one, _ in search.index])
    return {'mean': gain.mean, 'low': gain.low, 'high': gain.high}


def measure(conversations) -> dict:
    "What every method reads, and what it gains over one search of as many turns: at each number of turns, and by category of all."
    results = Experiment(METHODS, conversations, turns=max(CUTS), baselines=()).run(executor='threads:2')
    rows = results.rows[results.rows.evidence_recall.notna()].set_index(['conversation', 'position'])
    questions = rows[rows.method == 'rag'].index
    parts = {name: rows[rows.method == name].loc[questions] for name in dict.fromkeys(rows.method)}
    search, columns, lines = parts['rag'], {str(cut): f'read_recall@{cut}' for cut in CUTS}, []
    for name, own in parts.items():
        line = {
            'method': name,
            'turns': own.turns.mean(),
            'recall': {cut: own[column].mean() for cut, column in columns.items()},
            'gain': {cut: gain_over(own, search, column) for cut, column in columns.items()},
            'by_category': {},
        }
        alike = parts[ALIKE.get(name, 'rag')]
        line['beside'], line['gain_beside'] = ALIKE.get(name, 'rag'), gain_over(own, alike)
        for category in CATEGORIES:
            chosen = search.category == category
            line['by_category'][category] = {
                'questions': int(chosen.sum()),
                'recall': own[chosen].evidence_recall.mean(),
                'gain': gain_over(own[chosen], search[chosen]),
                'gain_beside': gain_over(own[chosen], alike[chosen]),
            }
        lines.append(line)
    told = ('memnb', 'commit', 'day', 'data', 'model')
    provenance = {name: results.provenance[name] for name in told}
    return {'conversations': len(conversations), 'questions': len(search), 'rows': lines, 'provenance': provenance}


def main() -> None:
    "Print the table, or the figures as JSON."
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('file', help="conversations in LoCoMo's format, or 'octet'")
    parser.add_argument('--json', action='store_true', help='print means and intervals as JSON: shares, to four places')
    options = parser.parse_args()
    report = measure(load_octet('test') if options.file == 'octet' else load_dataset(options.file))
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


if __name__ == '__main__':
    sys.exit(main())
