"""What MRAgent's walk adds over a memory that is no cue-tag graph: to one search of that memory, and to one of the view that it walks.

    python tests/bench/mragent_view.py locomo10.json

A view is the graph that MRAgent makes of the hundred best hits for a question (`cue_view`). Its contents are ranked by what was
learned; gists and entries of a bank are not. 25 turns, by rules, with the 95 % interval over conversations."""

import argparse
from dataclasses import replace
from functools import partial

from memnb.evaluation.experiment import Experiment
from memnb.evaluation.metrics import paired
from memnb.evaluation.papers import variant
from memnb.evaluation.registry import MEMORIES, METHODS, load_dataset
from memnb.mragent.loop import cue_view


class View:
    "The view of a memory for each question, as a memory to search."

    def __init__(self, memory):
        self.memory = memory

    def search(self, query, k=10, *, exclude=(), during=None):
        "Return the best hits of the view."
        return cue_view(self.memory, query).search(query, k, exclude=exclude, during=during)


def build_view(conversation, lm, kind) -> View:
    "Build a memory, to search its views."
    return View(MEMORIES[kind].build(conversation, lm))


def main() -> None:
    "Print the table."
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('file', help="conversations in LoCoMo's format")
    conversations = load_dataset(parser.parse_args().file)
    print(
        f'{"":8}{"one search":>12}{"of the view":>12}{"the walk":>10}   over one search      the view over it     the walk over the view'
    )
    for kind in ('turns', 'gists', 'bank'):
        view = replace(MEMORIES[kind], name=f'view of {kind}', build=partial(build_view, kind=kind))
        methods = [
            METHODS['rag'].over(MEMORIES[kind]),
            variant('view', 'rag', view, k=100),
            METHODS['mragent'].over(MEMORIES[kind]),
        ]
        rows = Experiment(methods, conversations, turns=25, baselines=()).run(executor='threads:2').rows
        rows = rows[rows.evidence_recall.notna()].set_index(['conversation', 'position'])
        search, view, walk = (rows[rows.method == one.name].evidence_recall for one in methods)
        means = ''.join(f'{100 * one.mean():{width}.1f}' for one, width in ((search, 12), (view, 12), (walk, 10)))
        gains = [
            paired(ours.loc[search.index].tolist(), theirs.loc[search.index].tolist(), [one for one, _ in search.index])
            for ours, theirs in ((walk, search), (view, search), (walk, view))
        ]
        print(
            f'{kind:8}{means}'
            + ''.join(f'   {100 * one.mean:+.1f} [{100 * one.low:+.1f}, {100 * one.high:+.1f}]' for one in gains)
        )


if __name__ == '__main__':
    main()
