"""MemMA by rules on Octet's test part under both policies of who may change an entry: what is read, and what is stale.

    python tests/bench/policies.py

Stale: a question about a value that has changed (knowledge_update), where the answer cites turns, and not the one with the
present value."""

from collections import defaultdict
from dataclasses import replace
from statistics import mean

from memnb.evaluation.datasets import load_octet
from memnb.evaluation.metrics import evidence_recall
from memnb.evaluation.registry import MEMORIES, METHODS, in_order_of_time
from memnb.memma.loop import MemMA


def main():
    print(
        '| policy | conversation | questions | evidence read, % | cited, % | of changed values | stale |\n|'
        + '---|' * 7
    )
    for policy in ('anyone', 'own'):
        memory = replace(
            MEMORIES['bank'],
            builder=lambda talk, lm: MemMA.of(in_order_of_time(talk), lm, progress=False, policy=policy).bank,
        )
        for talk in load_octet('test'):
            built, figures = memory.build(talk, None), defaultdict(list)
            for question in talk.questions:
                trace = METHODS['memma'].make(built, talk, turns=25).ask(question.text)
                if trace.error is not None or not question.evidence:
                    continue
                figures['read'].append(evidence_recall(question.evidence, trace.read))
                figures['cited'].append(evidence_recall(question.evidence, trace.evidence))
                if question.category == 'knowledge_update':
                    figures['stale'].append(bool(trace.evidence) and not {*question.evidence} & {*trace.evidence})
            read, cited = (f'{100 * mean(figures[name]):.1f}' for name in ('read', 'cited'))
            stale = figures['stale']
            print(
                f'| {policy} | {talk.id} | {len(figures["read"])} | {read} | {cited} | {len(stale)} | {sum(stale)} |',
                flush=True,
            )


if __name__ == '__main__':
    main()
