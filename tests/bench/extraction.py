"""What extraction by rule makes of conversations, and what can be found in it again.

    python tests/bench/extraction.py locomo10.json

takes any file of conversations in LoCoMo's format: gists, facts and phrases per conversation, the share of gold turns that
are the source of a gist, the time it takes, and evidence recall at 10 and 25 turns of several ways to cut a conversation."""
import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from memnb.core.conversation import Conversation
from memnb.evaluation.datasets import load_locomo
from memnb.remem.prompts import Extract, extract
from memnb.core.text import content_words
from memnb.retrieval.vectors import HybridIndex
from memnb.evaluation.metrics import evidence_recall
from memnb.core.text import sentences
from memnb.core.conversation import Snippet, turn_snippets

CUTS = (10, 25)


def extracts(conversation: Conversation) -> list[Extract]:
    "Every session, by rule."
    return [extract(session, speakers=conversation.speakers)[0] for session in conversation.sessions]


def gists(conversation: Conversation) -> list[Snippet]:
    "All gists of a conversation."
    return [gist for one in extracts(conversation) for gist in one.gists]


def joined(conversation: Conversation) -> list[Snippet]:
    "The gists of a turn as one snippet."
    by_turn: dict[tuple, list[Snippet]] = {}
    for gist in gists(conversation):
        by_turn.setdefault(gist.sources, []).append(gist)
    places: dict[str, int] = {}
    made = []
    for parts in by_turn.values():
        place = places[parts[0].session] = places.get(parts[0].session, -1) + 1
        made.append(replace(parts[0], text=' '.join(part.text for part in parts), position=place))
    return made


def spoken(conversation: Conversation) -> list[Snippet]:
    "The sentences of the turns as they were said, those without content left out."
    made = []
    for session in conversation.sessions:
        lines = [(turn, text) for turn in session.turns for text in (*sentences(turn.text), *([turn.caption] if turn.caption else []))
                 if content_words(text, conversation.speakers)]
        made += [Snippet(f'{session.id}/s{place}', text, (turn.id,), None, turn.speaker, turn.time, session.id, place)
                 for place, (turn, text) in enumerate(lines)]
    return made


WAYS: dict[str, Callable[[Conversation], list[Snippet]]] = {
    'turns as they were said': turn_snippets, 'sentences as they were said': spoken, 'gists': gists, 'gists, joined by turn': joined}


def recall(make: Callable[[Conversation], list[Snippet]], conversations: list[Conversation]) -> tuple[float, np.ndarray]:
    "Snippets per conversation, and the mean share of a question's evidence among the first turns that a search reads."
    rows, count = [], 0
    for conversation in conversations:
        index, items = HybridIndex(names=conversation.speakers), make(conversation)
        index.add(items)
        count += len(items)
        for one in conversation.questions:
            if one.category != 'adversarial' and one.evidence:
                read = list(dict.fromkeys(id for hit in index.search(one.text, 100) for id in hit.snippet.sources))
                rows.append([evidence_recall(one.evidence, read[:cut]) for cut in CUTS])
    return count / len(conversations), np.mean(rows, 0)


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
        rows.append([len(conversation.turns), sum(len(one.gists) for one in made), len(facts),
                     len({part for fact in facts for part in (fact.subject, fact.object)}), sum(bool(fact.time) for fact in facts),
                     100 * np.mean([id in covered for id in gold]), 100 * len(covered) / len(conversation.turns), spent])
    for name, value in zip(('turns', 'gists', 'facts', 'phrases', 'facts with a time', 'gold turns covered, %', 'turns covered, %', 'seconds'),
                           np.mean(rows, 0)):
        print(f'{name:28}{value:9.2f}')
    for name, make in WAYS.items():
        count, found = recall(make, conversations)
        print(f'{name:28}{count:9.0f}' + ''.join(f'{100 * one:8.1f}' for one in found))


if __name__ == '__main__':
    sys.exit(main())
