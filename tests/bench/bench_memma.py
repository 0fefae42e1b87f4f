"""How long MemMA takes to be told a conversation, and to answer: python tests/bench/bench_memma.py [--data locomo10.json]

The bar is 20 seconds for one LoCoMo conversation with probes; the reference in the same run is writing without probing, and the gist
graph of the same conversation. Without a file the bundled conversation is told."""
import argparse
import tempfile
import time
from pathlib import Path

from memnb.evaluation.datasets import load_locomo, load_sample
from memnb.remem.graph import GistGraph
from memnb.memma.loop import MemMA
from memnb.evaluation.experiment import DryRunLM, UsageCounter
from memnb.memma.bank import MemoryBank

BAR = 20  # seconds for a conversation


def seconds(act):
    "What something takes, and what it gives."
    start = time.perf_counter()
    made = act()
    return time.perf_counter() - start, made


def on_disk(conversation, folder):
    "Tell a conversation to a bank in a file."
    with MemoryBank(Path(folder) / f'{conversation.id}.db') as bank:
        memory = MemMA(bank)
        for session in conversation.sessions:
            memory.remember(session)
        return len(bank)


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--data')
    options = parser.parse_args()
    conversations = load_locomo(options.data) if options.data else [load_sample()]
    MemMA.of(load_sample())  # what is loaded once is loaded
    with tempfile.TemporaryDirectory() as folder:
        for one in conversations:
            graph, _ = seconds(lambda: GistGraph.of(one))
            plain, _ = seconds(lambda: MemMA.of(one, evolve=False))
            told, memory = seconds(lambda: MemMA.of(one))
            kept, entries = seconds(lambda: on_disk(one, folder))
            asked, _ = seconds(lambda: [memory.ask(question.text) for question in one.questions])
            counter = UsageCounter(DryRunLM())
            MemMA.of(one, counter)
            calls = counter.total.calls
            print(f'{one.id}: {len(one.sessions)} sessions, {len(one.turns)} turns, {entries} entries\n'
                  f'  told with probes {told:.2f} s (bar {BAR}), in a file {kept:.2f}; without probes {plain:.2f}; gist graph {graph:.2f}\n'
                  f'  a question {1000 * asked / max(len(one.questions), 1):.1f} ms; a model would be asked {calls} times')
