"""What extraction by rule makes of conversations.

    python tests/bench/extraction.py locomo10.json

takes any file of conversations in LoCoMo's format: gists, facts and phrases per conversation, the share of gold turns that
are the source of a gist, and the time it takes."""

import argparse
import sys
import time

import numpy as np

from memnb.core.conversation import Conversation
from memnb.evaluation.datasets import load_locomo
from memnb.remem.prompts import Extract, extract


def extracts(conversation: Conversation) -> list[Extract]:
    "Every session, by rule."
    return [extract(session, speakers=conversation.speakers)[0] for session in conversation.sessions]


def main() -> None:
    "Print the figures."
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('file', help="conversations in LoCoMo's format")
    conversations, rows = load_locomo(parser.parse_args().file), []
    extracts(conversations[0])  # the patterns are compiled once
    for conversation in conversations:
        before = time.process_time()
        made = extracts(conversation)
        spent = time.process_time() - before
        facts = [fact for one in made for fact in one.facts]
        covered = {id for one in made for gist in one.gists for id in gist.sources}
        gold = [id for one in conversation.questions for id in one.evidence]
        rows.append(
            [
                len(conversation.turns),
                sum(len(one.gists) for one in made),
                len(facts),
                len({part for fact in facts for part in (fact.subject, fact.object)}),
                sum(bool(fact.time) for fact in facts),
                100 * np.mean([id in covered for id in gold]),
                100 * len(covered) / len(conversation.turns),
                spent,
            ]
        )
    for name, value in zip(
        (
            'turns',
            'gists',
            'facts',
            'phrases',
            'facts with a time',
            'gold turns covered, %',
            'turns covered, %',
            'seconds',
        ),
        np.mean(rows, 0),
    ):
        print(f'{name:28}{value:9.2f}')


if __name__ == '__main__':
    sys.exit(main())
