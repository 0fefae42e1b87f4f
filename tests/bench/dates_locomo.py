"""How often the time that an evidence turn names is the gold answer's, over LoCoMo's temporal questions.

    python tests/bench/dates_locomo.py PATH_TO_locomo.json [--show]

The rule is the plainest there is: the first time in the evidence turn, or the day of the session where it names none.
"Right" is the gold answer's very days, or days inside a gold answer that is only a month or a year. Questions whose gold
answer is no date ("four months", a name) are left out and counted. Prints no text of the benchmark unless --show.
"""

import json
import sys
from collections import Counter
from datetime import date
from pathlib import Path

from memnb.core.time import find_times, parse_datetime, TimeSpan


def cases(path):
    "Question, gold span, evidence turns with their day."
    for item in json.loads(Path(path).read_text(encoding='utf-8')):
        conversation = item['conversation']
        turns = {
            turn['dia_id']: (turn['text'], parse_datetime(conversation[f'{key}_date_time']).date())
            for key, session in conversation.items()
            if key.startswith('session_') and isinstance(session, list)
            for turn in session
        }
        for question in item['qa']:
            evidence = [turns[one] for one in question['evidence'] if one in turns]
            if question['category'] == 2 and evidence:
                yield question['question'], str(question['answer']), evidence


def contains(wide, narrow):
    "Whether every day of a span is a day of another."
    first, last = narrow.start or date.min, narrow.end or date.max
    return (wide.start or date.min) <= first and last <= (wide.end or date.max)


def judge(found, gold):
    "The kind of agreement between a span and the gold span."
    if (found.start, found.end) == (gold.start, gold.end):
        return 'same days'
    if gold.granularity in ('month', 'season', 'year') and contains(gold, found):
        return 'inside the gold month or year'
    return 'vaguer than gold' if contains(found, gold) else 'overlapping' if found.overlaps(gold) else 'elsewhere'


RIGHT = ('same days', 'inside the gold month or year')


def run(path, show=False):
    "Counts by kind of agreement; for the failures also whether another expression of the turns would have been right."
    counts, skipped, later = Counter(), 0, 0
    for question, answer, evidence in cases(path):
        day = evidence[0][1]
        golds = find_times(answer, day)
        if not golds:
            skipped += 1
            continue
        gold = golds[0][2]
        spans = [found[2] for text, said in evidence for found in find_times(text, said)]
        first = spans[0] if spans else TimeSpan.day(day)
        kind = judge(first, gold)
        source = 'an expression' if spans else 'the session day'
        counts[kind, source] += 1
        later += kind not in RIGHT and any(judge(span, gold) in RIGHT for span in spans)
        if show and kind not in RIGHT:
            print(f'{kind:12s} | gold {answer} | said {day} | got {first} | {question} | {evidence}')
    return counts, skipped, later


def main():
    counts, skipped, later = run(sys.argv[1], '--show' in sys.argv)
    total, right = sum(counts.values()), sum(number for (kind, _), number in counts.items() if kind in RIGHT)
    print(
        f'{right} of {total} right ({right / total:.1%}); {skipped} gold answers are no date; '
        f'{later} of the misses have the right time later in the turn'
    )
    for (kind, source), number in counts.most_common():
        print(f'  {number:4d}  {kind}, from {source}')


if __name__ == '__main__':
    main()
