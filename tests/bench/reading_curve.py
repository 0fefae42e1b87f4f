"""Evidence recall against the turns that were read: every method, beside one search, by rules.

    python tests/bench/reading_curve.py octet
    python tests/bench/reading_curve.py locomo10.json

'octet' is the part that nothing is fitted to. A method reads until 25 turns are read; the last column says what it gains
over one search of as many turns, with the 95 % interval over conversations."""
import argparse
import sys

from memnb.evaluation.datasets import load_octet
from memnb.evaluation.experiment import CUTS, Experiment
from memnb.evaluation.metrics import paired
from memnb.evaluation.papers import memory, variant
from memnb.evaluation.registry import load_dataset

PLAIN = memory('turns', ranker=None)
METHODS = ('rag', variant('rag, not learned', 'rag', PLAIN), 'self-rag', 'memr3', variant('memr3, not learned', 'memr3', PLAIN), 'mragent', 'memma', 'remem')


def main() -> None:
    "Print the table."
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('file', help="conversations in LoCoMo's format, or 'octet'")
    file = parser.parse_args().file
    conversations = load_octet('test') if file == 'octet' else load_dataset(file)
    rows = Experiment(METHODS, conversations, turns=max(CUTS), baselines=()).run(executor='threads:2').rows
    rows = rows[rows.evidence_recall.notna()]
    search = rows[rows.method == 'rag'].set_index(['conversation', 'position'])
    print(f'{len(conversations)} conversations, {len(search)} questions; evidence recall in % when so many turns are read')
    print(f'{"":22}' + ''.join(f'{cut:8}' for cut in CUTS) + '   multi-hop   beside one search')
    for name in dict.fromkeys(rows.method):
        own = rows[rows.method == name].set_index(['conversation', 'position']).loc[search.index]
        gain = paired(own.evidence_recall.tolist(), search.evidence_recall.tolist(), [one for one, _ in search.index])
        hops = own[own.category == 'multi-hop'].evidence_recall.mean()
        print(f'{name:22}' + ''.join(f'{100 * own[f"read_recall@{cut}"].mean():8.1f}' for cut in CUTS) + f'{100 * hops:12.1f}'
              + f'   {100 * gain.mean:+.1f} [{100 * gain.low:+.1f}, {100 * gain.high:+.1f}]')


if __name__ == '__main__':
    sys.exit(main())
