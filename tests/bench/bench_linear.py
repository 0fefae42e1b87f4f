"""Seconds of every rule and text function on repeated patterns of 10,000 and 20,000 characters, and the ratio.

    python tests/bench/bench_linear.py [PREFIX …]      # such as `text.` or `rules.memma`

Bar: a ratio of about two. A line ends in `superlinear` where twice the text takes more than 2.8 times as long and more than 50 ms."""

import sys
import time
from datetime import date, datetime

from memnb.core import text, time as times
from memnb.core.conversation import Session, Snippet, Turn
from memnb.core.roles import RuleLM
from memnb.memma.loop import MemMA
from memnb.memr3.loop import MemR3
from memnb.mragent import cues, labels
from memnb.mragent.graph import CueTagGraph
from memnb.remem.graph import GistGraph
from memnb.rules import memma, mragent, remem, text as rules

UNITS = [
    'Ann of the ',
    "Ann's ",
    '(2023 ',
    'very ',
    'a-',
    'when the ',
    'Ana lives in ',
    'the week before ',
    'A',
    'Dr. ',
    'in May ',
    'between a and\n',
    '"Yes." ',
    'I ',
    'and you ',
    'Ana said ',
    'twenty-one ',
    "it's (",
    '\u2028x',
    'Big Red ',
    'was he ',
]
DAY, MOMENT = date(2023, 6, 9), datetime(2023, 6, 9, 12)
ASKED = 'When did Ana go to the market?'


def session(words):
    return Session('D1', [Turn('D1:1', 'Ana', words, MOMENT), Turn('D1:2', 'Ben', 'I see.', MOMENT)], MOMENT)


def snippet(words):
    return Snippet('D1:1', words, ('D1:1',), speaker='Ana', said=MOMENT)


FUNCTIONS = {
    'time.find_times': lambda words: times.find_times(words, DAY),
    'time.parse_date': times.parse_date,
    'time.read_time': lambda words: times.read_time(words, DAY),
    'text.tokenize': text.tokenize,
    'text.sentences': text.sentences,
    'text.named_in': lambda words: text.named_in(words, ('Ana', words)),
    'text.question_kind': text.question_kind,
    'text.with_dates': lambda words: text.with_dates(words, DAY),
    'text.in_digits': lambda words: [text.in_digits(found[0]) for found in text.NUMBER.finditer(words)],
    'text.read_line': lambda words: text.read_line(f'[9 June 2023] Ana: {words}'),
    'rules.text.keywords': lambda words: rules.keywords(words, ('Ana',)),
    'rules.text.requirements': lambda words: rules.requirements(f'How many days were between {words}', ('Ana',)),
    'rules.text.third_person': lambda words: rules.third_person(words, 'Ana'),
    'rules.text.claim_of': lambda words: rules.claim_of(snippet(words)),
    'rules.text.extract_answer': lambda words: [
        rules.extract_answer(asked, [snippet(f'Ana {words} market')])
        for asked in (ASKED, 'Which markets has Ana seen?', words)
    ],
    'rules.text.track_rule': lambda words: rules.track_rule(words, [snippet(words)]),
    'rules.text.next_queries': lambda words: rules.next_queries(
        rules.Requirement('fact', ('market',)), [snippet(f'market {words}')]
    ),
    'rules.remem.clauses': lambda words: list(remem.clauses(words, ['Ana'])),
    'rules.remem.gists_rule': lambda words: remem.gists_rule(session(words)),
    'rules.remem.facts_rule': lambda words: remem.facts_rule(session(words)),
    'mragent.cues_in': lambda words: labels.cues_in(words, ('Ana',)),
    'mragent.title_of': labels.title_of,
    'mragent.cue_id': cues.cue_id,
    'rules.mragent.slot_of': lambda words: mragent.slot_of(words, ['Ana']),
    'rules.mragent.segment_rule': lambda words: mragent.segment_rule(session(words)),
    'rules.mragent.units_rule': lambda words: mragent.units_rule(session(words)),
    'rules.memma.guide_rule': lambda words: memma.guide_rule(session(words)),
    'rules.memma.write_rule': lambda words: memma.write_rule(session(words)),
    'rules.memma.probes_rule': lambda words: memma.probes_rule(session(words)),
    'rules.memma.mark_rule': lambda words: memma.mark_rule(words, words, f'{words} no'),
    'rules.memma.diagnose_rule': lambda words: memma.diagnose_rule(words, [snippet(words)]),
    'ask memr3': lambda words: MemR3(lambda query: ['The boat was sold.']).ask(words + '?'),
    'build remem': lambda words: GistGraph(RuleLM()).add(session(words)),
    'build mragent': lambda words: CueTagGraph(RuleLM()).add(session(words)),
    'build memma': lambda words: MemMA(None, RuleLM(), evolve=False).remember(session(words)),
}


def seconds(name, words):
    text.clear_text_caches()
    began = time.process_time()
    FUNCTIONS[name](words)
    return time.process_time() - began


def superlinear(name, unit, size=10_000):
    """The seconds at `size` and twice as many characters where the second is far more than twice the first, else None."""
    short, long = (seconds(name, (unit * length)[:length]) for length in (size, 2 * size))
    if long > 0.05 and long > 2.8 * short:  # measured once more: a busy machine is no defect
        short, long = (min(seconds(name, (unit * length)[:length]) for _ in range(2)) for length in (size, 2 * size))
    return (short, long) if long > 0.05 and long > 2.8 * short else None


def main():
    chosen = tuple(sys.argv[1:]) or ('',)
    for name in FUNCTIONS:
        if name.startswith(chosen):
            for unit in UNITS:
                short, long = (seconds(name, (unit * length)[:length]) for length in (10_000, 20_000))
                slow = '  superlinear' if long > 0.05 and long > 2.8 * short else ''
                print(
                    f'{name:34} {unit!r:20} {short:8.3f} s {long:8.3f} s {long / max(short, 1e-6):6.1f}{slow}',
                    flush=True,
                )


if __name__ == '__main__':
    main()
