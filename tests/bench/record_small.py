"""Record what a small served model says to two questions of the bundled conversation, for `61m_small_results`.

    python tests/bench/record_small.py NAME URL GATE

makes data/replies_small.sqlite anew. The notebook replays it, and a prompt that has changed since is a reply that is missing:
then record again, with the same name, address and gate, which are part of what is looked up."""
import sqlite3
import sys
import time
from pathlib import Path

from memnb.evaluation.datasets import load_sample
from memnb.core.models import OpenAILM
from memnb.core.roles import RuleLM
from memnb.evaluation.registry import METHODS
from memnb.core.models import RecordedLM

from memnb.adapters.local import SmallLM

FILE = Path(__file__).parents[2] / 'data' / 'replies_small.sqlite'


def main(name, url, gate):
    for old in FILE.parent.glob(f'{FILE.name}*'):
        old.unlink()
    sample = load_sample()
    lm = SmallLM(RecordedLM(OpenAILM(name, url, **SERVED), FILE), float(gate))
    for method in map(METHODS.get, SMALL):
        memory = method.memory.build(sample, RuleLM())
        for place in RECORDED:
            question, began = sample.questions[place], time.perf_counter()
            trace = method.loop(memory, sample, lm, 10).ask(question.text, budget=10)
            print(f'{method.name:8} {time.perf_counter() - began:5.1f} s  {question.text} {trace.answer!r} (gold: {question.answer!r}) {trace.error or ""}')
    connection = sqlite3.connect(FILE)
    connection.execute('PRAGMA journal_mode = DELETE')
    connection.execute('VACUUM')
    connection.close()
    print(FILE.name, FILE.stat().st_size, 'bytes')


if __name__ == '__main__':
    main(*sys.argv[1:])
