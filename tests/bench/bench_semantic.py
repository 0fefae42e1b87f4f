"""How many of the turns that hold an answer stand under the aspect nearest to the question, by rule.

    python tests/bench/bench_semantic.py locomo.json

takes any file of conversations in LoCoMo's format. Of the questions that ask for a list, a number or a thing and name one
speaker, those are counted whose nearest aspect has a cosine of 0.3 or more. Recall and precision are those of the gold turns
among the sources of the units under (speaker, aspect); the last column counts gold turns in any unit of the speaker."""
import argparse
import time
from collections import defaultdict
from statistics import mean, median

from memnb.core.conversation import Conversation
from memnb.evaluation.datasets import load_locomo
from memnb.retrieval.vectors import without_names
from memnb.core.text import named_in, question_kind
from memnb.mragent.prompts import ASPECTS, UnitLine
from memnb.rules.mragent import aspects_near, units_rule

ASKED = .3  # the least cosine of a question with its aspect


def units_of(conversation: Conversation) -> tuple[list[UnitLine], float]:
    "All units of a conversation, and the seconds of processor time that they took."
    began = time.process_time()
    units = [unit for session in conversation.sessions for unit in units_rule(session, conversation.speakers).units]
    return units, time.process_time() - began


def scores(conversation: Conversation, units: list[UnitLine]) -> list[dict]:
    "One record for each question that counts."
    turns, groups, records = {turn.id for turn in conversation.turns}, defaultdict(set), []
    for unit in units:
        groups[unit.person, unit.aspect].update(unit.turns)
        groups[unit.person, None].update(unit.turns)
    for question in conversation.questions:
        gold, who = turns & {*question.evidence}, named_in(question.text, conversation.speakers)
        if question.category == 'adversarial' or len(who) != 1 or not gold or question_kind(question.text) not in ('list', 'how many', 'what'):
            continue
        near = aspects_near([without_names(question.text, conversation.speakers)])[0]
        if near.max() >= ASKED:
            read = groups[who[0], list(ASPECTS)[int(near.argmax())]]
            records.append({'recall': len(gold & read) / len(gold), 'precision': len(gold & read) / max(1, len(read)), 'read': len(read),
                            'anywhere': len(gold & groups[who[0], None]) / len(gold)})
    return records


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('path')
    conversations, everything = load_locomo(parser.parse_args().path), []
    aspects_near(['warm'])
    for conversation in conversations:
        units, seconds = units_of(conversation)
        sizes = defaultdict(int)
        for unit in units:
            sizes[unit.person, unit.aspect] += unit.person in conversation.speakers
        slots = sum(bool(unit.slot) for unit in units)
        print(f'{conversation.id}: {len(conversation.turns)} turns, {len(units)} units, {slots} in slots, '
              f'median {median(filter(None, sizes.values()))} under one aspect, {seconds:.2f} s')
        everything += scores(conversation, units)
    print(f'{len(everything)} questions: ' + ', '.join(f'{name} {mean(record[name] for record in everything):.3f}' for name in everything[0]))


if __name__ == '__main__':
    main()
