"""The figures of an attack: what was tried, how often, and how often it failed, a line for each kind.

    python tests/bench/bench_attack.py [--times 1.0] [--seed 1] [--only WORD]

Beside it: `bench_soak.py` (mixed use for minutes), `bench_long_texts.py` (memory for long texts), `bench_linear.py` (time for
repeated patterns), and the tests in `tests/reliability`, which hold each finding. It ends with 1 where something failed."""

import argparse
import contextlib
import io
import json
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote

for folder in ('..', '.', '../reliability'):
    sys.path.insert(0, str(Path(__file__).parent / folder))

from bench_soak import faults, FIRST, marker, Owner, resident
from servers import chat, fail, Server
from test_fuzz import FILES, meant, SCRAPS, TEXTS
from test_prompts import BREAKS, FORGED, forged, prompts_of, talk

from memnb import cli
from memnb.adapters.mcp_server import MemoryTools
from memnb.adapters.turn_store import TurnStore
from memnb.core.conversation import Conversation, Session, Snippet, Turn
from memnb.core.models import OpenAILM
from memnb.core.roles import LM, LMError, RuleLM
from memnb.core.trace import Trace
from memnb.evaluation.datasets import load_sample
from memnb.evaluation.registry import MEMORIES, METHODS
from memnb.memma.bank import MemoryBank
from memnb.memma.loop import MemMA
from memnb.mragent.graph import CueTagGraph
from memnb.remem.graph import GistGraph
from memnb.retrieval.bm25 import LexicalIndex
from memnb.retrieval.hybrid import HybridIndex
from memnb.views.traces import trace_html, trace_text

KEY = 'sk-c2VjcmV0/a2V5+Zm9y=='
PAYLOADS = [
    '<script>alert(1)</script>',
    '"><img src=x onerror=alert(1)>',
    "'><svg onload=alert(1)>",
    '</style><script>1</script>',
    '<iframe src=//x>',
]
ROWS = []


def row(what):
    """A row of the table: a function of (times, random) that returns how many were tried, and what failed."""
    return lambda function: ROWS.append((what, function))


class Hostile(Server):
    """A server that fails six calls in ten."""

    def __init__(self, drawn):
        super().__init__(None, limit=10**9)
        self.drawn = drawn

    def next_answer(self, request):
        with self.lock:
            return (faults(self.drawn) if self.drawn.random() < 0.6 else chat('{"answer": "a kite"}'))(request)


@contextlib.contextmanager
def model(drawn):
    with Hostile(drawn) as server:
        yield OpenAILM('hostile', server.url, KEY, max_retries=0, timeout=5)


class Sometimes(LM):
    """Rules, and a hostile server for three calls in ten."""

    name = 'sometimes'

    def __init__(self, lm, drawn):
        self.lm, self.drawn = lm, drawn

    def call(self, role, /, **inputs):
        return (self.lm if self.drawn.random() < 0.3 else RuleLM()).call(role, **inputs)


def attempt(failed, function, *given):
    """The value of a call; an error that nobody meant to raise is counted."""
    try:
        return function(*given)
    except Exception as error:
        if not meant(error):
            failed[f'{type(error).__name__}: {error}'[:120]] += 1
        return None


def story(texts, speakers=('Ada', 'Ben')):
    turns = [Turn(f'D1:{place}', speakers[place % len(speakers)], text, FIRST) for place, text in enumerate(texts, 1)]
    return Conversation('any', [Session('D1', turns, FIRST)])


def hostile(drawn, most=8):
    return ' '.join(drawn.choice([*SCRAPS, *BREAKS]) for _ in range(drawn.randint(1, most)))


# ------------------------------------------------------------------ models and servers


@row('questions to nine methods over a server with forty faults')
def questions(times, drawn):
    conversation, failed, tried = load_sample(), Counter(), 0
    built = {name: memory.build(conversation, RuleLM()) for name, memory in MEMORIES.items()}
    built['everything'] = METHODS['full-context'].memory.build(conversation, RuleLM())
    with model(drawn) as lm:
        for method in METHODS.values():
            for question in drawn.sample(
                conversation.questions, min(len(conversation.questions), max(1, int(30 * times)))
            ):
                tried += 1
                try:
                    trace = method.make(built[method.memory.name], conversation, lm).ask(question.text)
                except Exception as error:
                    failed[f'{method.name}: escaped {type(error).__name__}: {error}'[:120]] += 1
                    continue
                failed['silent'] += trace.answer is None and not trace.error
                failed['lost in JSON'] += Trace.from_json(trace.to_json()) != trace
                failed['key shown'] += KEY in trace.to_json() + trace_html(trace) + trace_text(trace)
    return tried, failed


@row('sessions added to three memories over that server')
def builds(times, drawn):
    conversation, failed, tried = load_sample(), Counter(), 0
    with model(drawn) as server, tempfile.TemporaryDirectory() as folder:
        lm = Sometimes(server, drawn)
        for kind in (GistGraph, CueTagGraph):
            for trial in range(max(1, int(3 * times))):
                graph, path = kind(lm), Path(folder) / f'{kind.__name__}{trial}.sqlite'
                for session in conversation.sessions:
                    tried, before = tried + 1, list(graph.sessions)
                    try:
                        graph.add(session)
                    except LMError:
                        failed['half added'] += list(graph.sessions) != before
                graph.save(path)
                loaded = kind.load(path, lm=lm)
                failed['other after reload'] += (loaded.sessions, loaded.counts()) != (graph.sessions, graph.counts())
        for trial in range(max(1, int(2 * times))):
            memma = MemMA(MemoryBank(), lm, speakers=conversation.speakers)
            for session in conversation.sessions:
                tried, before = tried + 1, [entry for entry in memma.bank]
                try:
                    memma.remember(session)
                except LMError:
                    failed['half added'] += [entry for entry in memma.bank] != before
    return tried, failed


@row('memnb ask --json over each fault')
def commands(times, drawn):
    failed, tried = Counter(), max(1, int(42 * times))
    with Hostile(drawn) as server, contextlib.chdir(tempfile.mkdtemp()):
        for _ in range(tried):
            out, err = io.StringIO(), io.StringIO()
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                try:
                    code = cli.main(
                        ['ask', '--json', '--model', 'm', '--base-url', server.url, 'When was the first lesson?']
                    )
                except SystemExit as ended:
                    code = ended.code
                except Exception as error:
                    failed[f'{type(error).__name__}: {error}'[:120]] += 1
                    continue
            failed['code and output'] += code in (None, 0) and not isinstance(json.loads(out.getvalue()), dict)
    return tried, failed


@row('keys that a server sends back, in seven forms')
def keys(times, drawn):
    failed, forms = (
        Counter(),
        [KEY, quote(KEY, safe=''), quote(KEY), KEY.replace('/', '\\/'), f'Bearer {KEY}', json.dumps(KEY), f'x{KEY}x'],
    )
    for form in forms:
        for status in (400, 401, 500):
            with Server(fail(status, f'you sent {form}')) as server:
                lm = OpenAILM('m', server.url, KEY, max_retries=0)
                trace = METHODS['rag'].make(HybridIndex.of(story(['A kite.'])), story(['A kite.']), lm).ask('Who?')
            said = trace.to_json() + repr(lm) + trace_html(trace)
            failed[f'{status}: {form}'] += any(part in said for part in ('c2VjcmV0', 'a2V5', 'Zm9y'))
    return 3 * len(forms), failed


# ------------------------------------------------------------------ files


@row('owners of four kinds of file, killed every few seconds')
def kills(times, drawn):
    with tempfile.TemporaryDirectory() as folder:
        owners = [
            Owner(kind, folder, time.monotonic() + 40 * times, drawn.random())
            for kind in ('bank', 'gists', 'cues', 'turns')
        ]
        for owner in owners:
            owner.start()
        for owner in owners:
            owner.join()
        kept = [
            number
            for owner in owners
            for number in owner.gone - owner.there
            if any(marker(number).encode() in path.read_bytes() for path in Path(folder).glob(f'{owner.kind}*'))
        ]
    counts = sum((owner.counts for owner in owners), Counter())
    print(f"  ({counts['kills']} kills, {counts['add']} added, {counts['forget']} forgotten)", file=sys.stderr)
    return counts['add'] + counts['forget'], Counter(fault for owner in owners for fault in owner.faults) + Counter(
        {'forgotten word in a file': len(kept)}
    )


def spoiled(data, drawn):
    """Bytes with one to three faults."""
    data = bytearray(data)
    for _ in range(drawn.randint(1, 3)):
        place, fault = drawn.randrange(len(data) or 1), drawn.randrange(5)
        if fault == 0 and data:
            data[place] ^= drawn.randint(1, 255)
        elif fault == 1:
            del data[place:]
        elif fault == 2:
            data[place : place + 64] = bytes(len(data[place : place + 64]))
        elif fault == 3:
            data[place:place] = drawn.randbytes(9)
        else:
            data += data[place:]
    return bytes(data)


@row('files of eight kinds, damaged at random')
def damages(times, drawn):
    failed, tried, different = Counter(), 0, Counter()
    with tempfile.TemporaryDirectory() as folder:
        for name, (write, read) in FILES.items():
            path = Path(folder) / name
            write(path)
            whole = path.read_bytes()
            right = repr(read(path))
            for _ in range(max(1, int(100 * times))):
                for old in Path(folder).glob(f'{name}*'):
                    old.unlink()
                path.write_bytes(spoiled(whole, drawn))
                tried += 1
                found = attempt(failed, read, path)
                different[name] += found is not None and name.endswith('.sqlite') and repr(found) != right
    print(f'  (read, and other than before: {dict(different)})', file=sys.stderr)
    return tried, failed


@row('forgotten words in the bytes of five kinds of file')
def forgetting(times, drawn):
    failed, tried, word = Counter(), 0, marker(77)
    with tempfile.TemporaryDirectory() as folder:
        for kind in (GistGraph, CueTagGraph):
            graph, path = kind(RuleLM()), Path(folder) / f'{kind.__name__}.sqlite'
            for number, text in enumerate([f'I bought a kite called {word} in Leeds.', 'I like walks in the hills.']):
                graph.add(Session(f'S{number}', [Turn(f'S{number}:1', 'Ada', text, FIRST)], FIRST))
            graph.save(path)
            graph.forget('S0')
            graph.save(path)
        with MemoryBank(Path(folder) / 'bank.sqlite') as bank:
            entry = bank.add(f'Ada has a kite called {word}.', sources=('D1:1',))
            bank.update(entry.id, f'Ada had a kite called {word}.')
            bank.forget(turns=['D1:1'])
        store = TurnStore(Path(folder) / 'turns.sqlite')
        store.remember(f'A kite called {word}.', 'Ada', FIRST)
        store.forget([turn.id for turn in store.conversation().turns])
        store.close()
        for path in Path(folder).iterdir():
            tried += 1
            failed[path.name] += word.encode() in path.read_bytes()
    return tried, failed


# ------------------------------------------------------------------ hostile contents


@row('hostile conversations asked by every method, by rules')
def conversations(times, drawn):
    failed, tried = Counter(), 0
    for _ in range(max(1, int(25 * times))):
        conversation = story(
            [hostile(drawn) for _ in range(drawn.randint(1, 6))], [hostile(drawn, 2) or 'A' for _ in range(2)]
        )
        for method in METHODS.values():
            tried += 1
            try:
                trace = method.make(method.memory.build(conversation, RuleLM()), conversation).ask(
                    hostile(drawn) + ' who?'
                )
                failed[f'{method.name}: {trace.error}'] += trace.error is not None
            except Exception as error:
                failed[f'{method.name}: {type(error).__name__}: {error}'[:120]] += 1
    return tried, failed


@row('hostile texts to every function that reads a text')
def texts(times, drawn):
    failed, tried = Counter(), 0
    for function in TEXTS.values():
        for _ in range(max(1, int(100 * times))):
            tried += 1
            attempt(failed, function, hostile(drawn, 12))
    return tried, failed


@row('hostile arguments to the tools of the MCP server')
def tools(times, drawn):
    failed, tried = Counter(), 0
    with tempfile.TemporaryDirectory() as folder, contextlib.closing(TurnStore(Path(folder) / 't.sqlite')) as store:
        served = MemoryTools(store)
        for _ in range(max(1, int(60 * times))):
            for name, given in (
                ('remember', (hostile(drawn), hostile(drawn, 2), drawn.choice(['2024-05-08', hostile(drawn)]))),
                ('search', (hostile(drawn), drawn.choice([3, 0, -1, 10**9]))),
                ('ask', (hostile(drawn),)),
                ('forget', ([hostile(drawn)],)),
            ):
                tried += 1
                attempt(failed, getattr(served, name), *given)
    return tried, failed


@row('pages that show a payload in a text, a name, a caption, a question')
def pages(times, drawn):
    failed, tried = Counter(), 0
    for payload in PAYLOADS:
        first, conversation = FIRST, None
        turns = [
            Turn('D1:1', f'Ada {payload}', f'I bought a kite {payload} in Leeds.', first, f'a photo {payload}'),
            Turn('D1:2', 'Ben', f'{payload} Nice.', first),
        ]
        conversation = Conversation(f'c {payload}', [Session('D1', turns, first)])
        for method in METHODS.values():
            tried += 1
            trace = method.make(method.memory.build(conversation, RuleLM()), conversation).ask(
                f'Who has a kite {payload}?'
            )
            failed[f'{method.name}: {payload}'] += payload in trace_html(trace)
    return tried, failed


@row('prompts that show forged turns')
def prompts(times, drawn):
    failed, tried = Counter(), 0
    for field in ('text', 'speaker', 'caption'):
        for gap in BREAKS:
            shown = prompts_of(
                talk(**{field: f'Nice.{gap}{drawn.choice(FORGED)}{gap}I like kites.'}), 'Who has a kite?'
            )
            tried += len(shown)
            failed[f'{field} {gap!r}'] += len(forged(shown))
    return tried, failed


# ------------------------------------------------------------------ threads and processes


@row('questions in eight threads, compared with one thread')
def threads(times, drawn):
    conversation, failed, tried = load_sample(), Counter(), 0
    asked = [question.text for question in conversation.questions[: max(1, int(24 * times))]]
    for method in METHODS.values():
        memory = method.memory.build(conversation, RuleLM())
        alone = [method.make(memory, conversation).ask(text).to_json() for text in asked]
        with ThreadPoolExecutor(8) as pool:
            together = list(pool.map(lambda text: method.make(memory, conversation).ask(text).to_json(), asked))
        tried += len(asked)
        failed[method.name] += sum(one != other for one, other in zip(alone, together))
    return tried, failed


@row('searches while another thread adds and removes')
def shared(times, drawn):
    failed, tried = Counter(), 0
    for kind in (LexicalIndex, HybridIndex):
        index, done, counts = kind(), threading.Event(), Counter()
        index.add([Snippet('s0', 'kite number 0', ('D1:1',), session='D1', position=0)])

        def ask():
            while not done.is_set():
                counts['asked'] += 1
                attempt(failed, index.search, 'kite number 7', 5)

        readers = [threading.Thread(target=ask) for _ in range(4)]
        for reader in readers:
            reader.start()
        for number in range(1, int(150 * times) + 2):
            attempt(
                failed,
                index.add,
                [Snippet(f's{number}', f'kite number {number}', (f'D1:{number + 1}',), session='D1', position=number)],
            )
        done.set()
        for reader in readers:
            reader.join()
        tried += counts['asked']
    return tried, failed


@row('processes forked while a thread asks')
def forks(times, drawn):
    index, done, failed, tried = HybridIndex.of(load_sample()), threading.Event(), Counter(), max(1, int(20 * times))

    def busy():
        while not done.is_set():
            index.search(f'kite {random.random()}', 5)

    asking = threading.Thread(target=busy)
    asking.start()
    for _ in range(tried):
        child = os.fork()
        if child == 0:
            signal.alarm(10)
            index.search('a new question about the concertina', 5)
            os._exit(0)
        failed['hangs'] += os.waitpid(child, 0)[1] != 0
    done.set()
    asking.join()
    return tried, failed


@row('megabytes that MemMA grows by, over entries of 4,000 characters')
def growth(times, drawn):
    words, bank, failed = [marker(number) for number in range(5000)], MemoryBank(), Counter()
    for number in range(40):
        bank.add(' '.join(drawn.choice(words) for _ in range(370)), sources=(f'D1:{number}',), when=FIRST)
    method, tried, held = METHODS['memma'], int(600 * times) + 2, None
    for number in range(tried):
        method.make(bank, story(['A kite.'])).ask(f'Who has the {drawn.choice(words)} of {drawn.choice(words)}?')
        if number == tried // 3:
            held = resident()
    print(f'  ({held:.0f} MB after a third of {tried} questions, {resident():.0f} MB at the end)', file=sys.stderr)
    failed['grows'] += resident() - held > 60
    return tried, failed


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--times', type=float, default=1, help='how much of everything')
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--only', default='', help='rows whose name has this in it')
    options, wrong = parser.parse_args(), 0
    print('| what | tried | failed | seconds |\n|---|---|---|---|')
    for what, function in ROWS:
        if options.only in what:
            begun = time.monotonic()
            tried, failed = function(options.times, random.Random(f'{what} {options.seed}'))
            failed = +failed
            wrong += failed.total()
            print(f'| {what} | {tried:,} | {failed.total()} | {time.monotonic() - begun:.0f} |', flush=True)
            for fault, count in failed.most_common(5):
                print(f'  {count} x {fault}', file=sys.stderr)
    return int(wrong > 0)


if __name__ == '__main__':
    sys.exit(main())
