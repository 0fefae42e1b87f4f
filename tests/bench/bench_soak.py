"""Mixed use for some minutes: threads that ask, owners that add and forget and are killed, and servers that fail.

    python tests/bench/bench_soak.py [--minutes 10] [--seed 1]

1. Owners: a process for each kind of file (memory bank, both graphs, turn store) adds and forgets texts with a word that no
   other text has, and says when an operation begins and when it is done. It is killed every few seconds and started again,
   and first says what it holds. Counted: acknowledged texts that are missing, forgotten ones that are back, doubled ones.
   Now and then it adds where a file may not grow (RLIMIT_FSIZE) or where its folder is only read, and in the bank somebody
   has Ada's entry overwritten by a model that obeys, such turns are forgotten again, a transaction is undone from the
   middle of the history, and one is left by an error while threads read.
2. Askers: four threads ask every method in turn over one memory, with a model behind a server that fails one call in ten in
   forty ways, while a fifth thread adds sessions to that memory and forgets them. Counted: exceptions that leave `ask`.
3. A client of the MCP server (where the package `mcp` is installed) remembers, searches, asks and forgets, and its server is
   killed, too.
4. At the end: how much memory this process held after a fifth of the time and at the end, and whether a forgotten word is in
   the bytes of any file.

It ends with 1 where something was lost, doubled, back, or raised."""

import argparse
import json
import os
import queue
import random
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import contextmanager
from datetime import datetime, timedelta
from importlib.util import find_spec
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from servers import Answer, chat, fail, plain, Server

from memnb.core.conversation import Session, Turn
from memnb.core.models import FunctionLM, OpenAILM
from memnb.core.roles import RuleLM
from memnb.core.storage import MemoryFileError
from memnb.evaluation.datasets import load_sample
from memnb.evaluation.registry import METHODS
from memnb.memma.construction import construct

FIRST = datetime(2024, 1, 1, 9)


def marker(number):
    """A word that stands in one text alone, in letters, as digits are split."""
    return 'soak' + ''.join(chr(ord('a') + int(digit)) for digit in f'{number:06d}') + 'x'


def lie_word(number):
    """The word of a lie about that text."""
    return marker(number)[::-1]


# ------------------------------------------------------------------ owners of files


class GraphFile:
    """A graph that is saved after each change."""

    def __init__(self, kind, path):
        self.kind, self.path = kind, path
        self.graph = kind.load(path, lm=RuleLM()) if path.exists() and path.stat().st_size else kind(RuleLM())

    def add(self, number):
        time = FIRST + timedelta(days=number)
        turns = [
            Turn(f'{marker(number)}:1', 'Ada', f'I bought a red kite called {marker(number)} today.', time),
            Turn(f'{marker(number)}:2', 'Ben', 'I like that.', time),
        ]
        self.graph.add(Session(marker(number), turns, time))
        self.graph.save(self.path)

    def forget(self, number):
        self.graph.forget(marker(number))
        self.graph.save(self.path)

    def held(self):
        return list(self.graph.sessions)

    def close(self):
        pass


class BankFile:
    """A memory bank."""

    def __init__(self, path):
        from memnb.memma.bank import MemoryBank

        self.bank = MemoryBank(path)

    def add(self, number):
        word, origin = marker(number), {'speaker': 'Ada', 'said_by': ('Ada',), 'about': 'Ada', 'when': FIRST}
        self.bank.add(f'Ada has a kite called {word}.', sources=(f'{word}:1',), **origin)

    def poison(self, number):
        word = marker(number)
        lie, [victim] = f'Ada has a kite called {lie_word(number)}.', self.bank.resting_on([f'{word}:1'])
        line = {
            'action': 'UPDATE',
            'text': lie,
            'entry': victim.id,
            'turns': [f'{lie_word(number)}:1'],
            'speaker': 'Ada',
            'reason': '',
        }
        lm = FunctionLM(
            lambda prompt, role='': json.dumps({'edits': [line]} if role == 'write' else {'facts': []}), 'obedient'
        )
        construct(self.bank, Session(lie_word(number), (Turn(f'{lie_word(number)}:1', 'Eve', lie),), FIRST), lm)

    def clean(self, number):
        self.bank.forget(turns=[f'{lie_word(number)}:1'])

    def undo(self, number):
        [entry] = self.bank.resting_on([f'{marker(number)}:1'])
        self.bank.undo(batch=self.bank.history(entry.id)[0].batch)

    def leave(self, number):
        readers = [threading.Thread(target=lambda: [list(self.bank) for _ in range(20)]) for _ in range(2)]
        with self.bank.transaction():
            self.add(number)
            for reader in readers:
                reader.start()
            for reader in readers:
                reader.join()
            raise MemoryFileError('left')

    def forget(self, number):
        self.bank.forget(turns=[f'{marker(number)}:1'])

    def held(self):
        words = [(entry.text, entry.sources[0].partition(':')[0]) for entry in self.bank]
        return [word if text == f'Ada has a kite called {word}.' else f'changed: {text}' for text, word in words]

    def close(self):
        self.bank.close()


class TurnFile:
    """The turn store of the MCP server."""

    def __init__(self, path):
        from memnb.adapters.turn_store import TurnStore

        self.store = TurnStore(path)

    def add(self, number):
        self.store.remember(f'A kite called {marker(number)}.', 'Ada', FIRST + timedelta(days=number))

    def forget(self, number):
        ids = {turn.text: turn.id for turn in self.store.conversation().turns}
        self.store.forget([ids[f'A kite called {marker(number)}.']])

    def held(self):
        return [turn.text.split()[-1].rstrip('.') for turn in self.store.conversation().turns]

    def close(self):
        self.store.close()


def opened(kind, folder):
    """The file of a kind."""
    path = Path(folder) / kind / f'{kind}.sqlite'
    path.parent.mkdir(exist_ok=True)
    path.parent.chmod(0o700)
    if kind == 'bank':
        return BankFile(path)
    if kind == 'turns':
        return TurnFile(path)
    from memnb.mragent.graph import CueTagGraph
    from memnb.remem.graph import GistGraph

    return GraphFile({'gists': GistGraph, 'cues': CueTagGraph}[kind], path)


@contextmanager
def hindered(verb, folder):
    """With 'full' no file may grow, and with 'read' the folder is only read."""
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    size = max((path.stat().st_size for path in folder.iterdir()), default=0)
    try:
        if verb == 'full':
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, most))
        if verb == 'read':
            folder.chmod(0o500)
            if os.geteuid() == 0:  # who may write everywhere
                os.chown(folder, 65534, 65534)
                os.seteuid(65534)
        yield
    finally:
        os.seteuid(os.getuid())
        folder.chmod(0o700)
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))


def own(kind, folder):
    """The life of an owner: it says what it holds, and does what it is told, a line each."""
    with tempfile.TemporaryDirectory() as elsewhere:
        first = opened(kind, elsewhere)
        for number in range(3):  # so that no module is loaded later by a user who cannot read it
            first.add(number)
        first.close()
    b'x'.decode('cp437')  # the codec of archives, in which the model of languages is read
    owned = opened(kind, folder)
    print(json.dumps(owned.held()), flush=True)
    for line in sys.stdin:
        verb, number = line.split()
        try:
            with hindered(verb, Path(folder) / kind):
                getattr(owned, {'full': 'add', 'read': 'add'}.get(verb, verb))(int(number))
            print('done', flush=True)
        except (MemoryFileError, ValueError, OSError):
            print('refused', flush=True)
            owned.close()
            owned = opened(kind, folder)
    owned.close()


class Owner(threading.Thread):
    """Drives the owner of a file, kills it now and then, and keeps what it must hold."""

    def __init__(self, kind, folder, until, seed):
        super().__init__(name=kind)
        self.kind, self.folder, self.until, self.random = kind, folder, until, random.Random(f'{kind} {seed}')
        # numbers; `open`: begun and not acknowledged; `absent`: refused or taken back, so that a file may have the word
        self.there, self.gone, self.open, self.absent = set(), set(), {}, set()
        self.poisoned, self.cleaned = set(), set()
        self.counts, self.next, self.faults = Counter(), 0, []

    def run(self):
        try:
            while time.monotonic() < self.until:
                self.live(killed=True)
            self.live(killed=False)
        except Exception as error:
            self.faults.append(f'{type(error).__name__}: {error}')

    def live(self, killed):
        process = subprocess.Popen(
            [sys.executable, __file__, '--owner', self.kind, '--folder', str(self.folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, 'PYTHONPATH': os.pathsep.join(sys.path)},
        )
        timer = threading.Timer(self.random.uniform(2, 6) + 2, process.kill) if killed else None
        try:
            first = process.stdout.readline()
            if first:
                self.compare(json.loads(first))
            if timer:
                timer.start()
                while self.step(process):
                    pass
                self.counts['kills'] += 1
        finally:
            if timer:
                timer.cancel()
            try:
                process.stdin.close()
            except BrokenPipeError:
                pass
            if process.wait(60) not in (0, -9):
                self.faults.append(f'the owner ended with {process.returncode}')

    def step(self, process):
        """One operation. False where the process has gone."""
        verbs = 'add add add forget forget full read'.split()
        if self.kind == 'bank':
            verbs += 'add forget poison poison clean clean undo leave'.split()
        verb = 'forget' if len(self.there) > 40 else self.random.choice(verbs)
        known = {'forget': self.there, 'undo': self.there}
        known |= {'clean': self.poisoned - self.cleaned, 'poison': self.there - self.poisoned}
        if verb in known and not known[verb]:
            verb = 'add'
        if verb in known:
            number = self.random.choice(sorted(known[verb]))
        else:
            number, self.next = self.next, self.next + 1
        if verb == 'poison':
            self.poisoned.add(number)
        elif verb != 'clean':
            self.there.discard(number)
            self.open[number] = verb
        try:
            process.stdin.write(f'{verb} {number}\n')
            process.stdin.flush()
        except BrokenPipeError:
            return False
        reply = process.stdout.readline().strip()
        if not reply:
            return False
        self.open.pop(number, None)
        if verb in ('forget', 'undo'):
            (self.there if reply == 'refused' else self.gone if verb == 'forget' else self.absent).add(number)
        elif verb == 'clean':
            self.cleaned.add(number)
        elif verb != 'poison':
            (self.absent if reply == 'refused' else self.there).add(number)
        self.counts[verb if reply == 'done' else f'{verb} refused'] += 1
        return True

    def compare(self, held):
        """Does the file hold what was acknowledged, once, and nothing that was forgotten?"""
        counted = Counter(held)
        self.faults += [f'lost: {number}' for number in sorted(self.there) if not counted[marker(number)]]
        self.faults += [f'back: {number}' for number in sorted(self.gone | self.absent) if counted[marker(number)]]
        self.faults += [f'not cleaned: {number}' for number in sorted(self.cleaned) if counted[lie_word(number)]]
        self.faults += [word for word in held if word.startswith('changed')]
        self.faults += [f'doubled: {word}' for word, times in counted.items() if times > 1]
        for number, verb in self.open.items():
            left = self.gone if verb in ('add', 'forget') else self.absent
            (self.there if counted[marker(number)] else left).add(number)
        self.open.clear()


# ------------------------------------------------------------------ a server that fails, and who asks it


def faults(random):
    """Forty ways of failing."""
    ways = [
        fail(status, f'no {status}')
        for status in (400, 401, 403, 404, 408, 409, 413, 422, 429, 500, 501, 502, 503, 504, 529)
    ]
    ways += [
        plain(body)
        for body in (
            b'',
            b'{',
            b'null',
            b'[]',
            b'<html>busy</html>',
            b'{"choices": []}',
            b'{"choices": null}',
            b'\xff\xfe',
            b'[' * 5000,
            b'{"error": "late"}',
        )
    ]
    ways += [
        chat(text)
        for text in (
            '',
            '{',
            '[]',
            'null',
            'I cannot help with that.',
            '{"answer": 5}',
            '```json\n{}\n```',
            '{"a": ' * 300,
        )
    ]
    ways += [
        chat(None),
        chat('x', finish='length'),
        chat('x', finish='content_filter'),
        chat('x', usage=(-5, -5)),
        chat(None, refusal='no'),
    ]
    ways += [lambda request: Answer(b'{"choices": [', drop=0), lambda request: Answer(b'{"choices": [' * 9, drop=5)]
    return random.choice(ways)


class Busy(Server):
    """Answers with `{}` mostly, and fails one call in ten."""

    def __init__(self, seed):
        super().__init__(None, limit=10**9)
        self.random, self.served = random.Random(seed), Counter()

    def next_answer(self, request):
        with self.lock:
            failing = self.random.random() < 0.1
            self.served['failed' if failing else 'answered'] += 1
            return (faults(self.random) if failing else chat('{"answer": "a kite"}'))(request)


def ask_on(number, memories, conversation, lm, until, seen, raised):
    """Ask every method in turn until the time is over."""
    drawn = random.Random(number)
    while time.monotonic() < until:
        name, method = drawn.choice(sorted(METHODS.items()))
        question = drawn.choice(conversation.questions).text
        try:
            model = drawn.choice([lm, RuleLM()])
            trace = method.make(memories[method.memory.name], conversation, model).ask(question)
            assert trace.answer is not None or trace.error, 'neither an answer nor an error'
            assert model is lm or not trace.error, trace.error  # rules do not fail
            seen[name] += 1
        except Exception as error:
            raised[f'{name}: {type(error).__name__}: {error}'[:200]] += 1


def change_on(memories, until, seen, raised):
    """Add sessions to the memories that are asked, and forget them again."""
    number = 0
    while time.monotonic() < until:
        number, time_said = number + 1, FIRST + timedelta(days=number)
        session = Session(
            f'S{number}',
            [Turn(f'S{number}:1', 'Tobin', f'I bought a kite called {marker(number)}.', time_said)],
            time_said,
        )
        for name in ('gists', 'cues'):
            try:
                memories[name].add(session)
                memories[name].forget(session.id)
                seen[f'added to {name}'] += 1
            except Exception as error:
                raised[f'add to {name}: {type(error).__name__}: {error}'[:200]] += 1
        time.sleep(0.2)


# ------------------------------------------------------------------ a client of the MCP server


class Client(threading.Thread):
    """Remembers, searches, asks and forgets over the protocol, and kills its server now and then."""

    def __init__(self, folder, until, seed):
        super().__init__(name='mcp')
        self.folder, self.until, self.random = folder, until, random.Random(seed)
        self.there, self.gone, self.counts, self.faults = {}, set(), Counter(), []

    def run(self):
        number = 500_000
        try:
            while time.monotonic() < self.until:
                with Connection(self.folder) as server:
                    end = time.monotonic() + self.random.uniform(4, 9)
                    while time.monotonic() < min(end, self.until):
                        number += 1
                        self.use(server, number)
                    self.counts['kills'] += 1
        except Exception as error:
            self.faults.append(f'{type(error).__name__}: {error}')

    def use(self, server, number):
        word = marker(number)
        self.there[word] = server.call('remember', text=f'A kite called {word}.', speaker='Ada')['id']
        asked = self.random.choice(sorted(self.there))
        found = [hit['text'] for hit in server.call('search', query=asked, k=5)['hits']]
        if f'A kite called {asked}.' not in found:
            self.faults.append(f'lost: {asked}')
        if found.count(f'A kite called {asked}.') > 1:
            self.faults.append(f'doubled: {asked}')
        server.call('ask', question=f'Who has a kite called {asked}?')
        if len(self.there) > 20:
            word = self.random.choice(sorted(self.there))
            ids = [self.there.pop(word)]
            server.call('forget', ids=ids, confirm=server.call('forget', ids=ids)['confirm'])
            self.gone.add(word)
        self.counts['calls'] += 4


class Connection:
    """A server process and the lines to and from it. It is killed at the end."""

    def __init__(self, folder):
        self.folder, self.number = folder, 0

    def __enter__(self):
        self.process = subprocess.Popen(
            [sys.executable, '-m', 'memnb.cli', 'serve', '--mcp', '--path', str(self.folder), '--namespace', 'soak'],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, 'PYTHONPATH': os.pathsep.join(sys.path)},
        )
        self.send(
            'initialize', protocolVersion='2025-03-26', capabilities={}, clientInfo={'name': 'soak', 'version': '1'}
        )
        self.process.stdin.write('{"jsonrpc": "2.0", "method": "notifications/initialized"}\n')
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait(60)

    def send(self, method, **params):
        self.number += 1
        self.process.stdin.write(
            json.dumps({'jsonrpc': '2.0', 'id': self.number, 'method': method, 'params': params}) + '\n'
        )
        self.process.stdin.flush()
        while (reply := json.loads(self.process.stdout.readline())).get('id') != self.number:
            pass
        return reply['result']

    def call(self, tool, **arguments):
        result = self.send('tools/call', name=tool, arguments=arguments)
        if result.get('isError'):
            raise RuntimeError(result['content'][0]['text'])
        return result['structuredContent']


# ------------------------------------------------------------------ all of it


def resident():
    """Megabytes that this process holds."""
    return int(Path('/proc/self/statm').read_text().split()[1]) * os.sysconf('SC_PAGE_SIZE') / 1e6


def left_in(folder, words):
    """Words that stand in the bytes of a file of this folder."""
    texts = {path: path.read_bytes() for path in Path(folder).rglob('*') if path.is_file()}
    return [f'{word} in {path.name}' for word in sorted(words) for path, text in texts.items() if word.encode() in text]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--minutes', type=float, default=10)
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--owner')
    parser.add_argument('--folder')
    options = parser.parse_args()
    if options.owner:
        return own(options.owner, options.folder)
    begun = time.monotonic()
    until = begun + 60 * options.minutes
    seen, raised, early = Counter(), Counter(), queue.SimpleQueue()
    conversation = load_sample()
    memories = {method.memory.name: method.memory.build(conversation, RuleLM()) for method in METHODS.values()}
    with tempfile.TemporaryDirectory() as folder, Busy(options.seed) as server:
        lm = OpenAILM('busy', base_url=server.url, api_key='sk-soak', max_retries=1, timeout=5)
        owners = [Owner(kind, folder, until, options.seed) for kind in ('bank', 'gists', 'cues', 'turns')]
        if find_spec('mcp'):
            owners.append(Client(Path(folder) / 'mcp', until, options.seed))
        else:
            print('mcp is not installed: its client is left out')
        threads = owners + [
            threading.Thread(target=ask_on, args=(n, memories, conversation, lm, until, seen, raised)) for n in range(4)
        ]
        threads.append(threading.Thread(target=change_on, args=(memories, until, seen, raised)))
        timer = threading.Timer(12 * options.minutes, lambda: early.put(resident()))
        for thread in [*threads, timer]:
            thread.start()
        for thread in [*threads, timer]:
            thread.join()
        held, late = early.get(), resident()
        broken = [f'{one.name}: {fault}' for one in owners for fault in one.faults] + [
            f'{count} x {what}' for what, count in raised.items()
        ]
        gone = {word if isinstance(word, str) else marker(word) for one in owners for word in one.gone}
        gone |= {lie_word(number) for one in owners if isinstance(one, Owner) for number in one.cleaned}
        mine = {marker(number) for one in owners if isinstance(one, Owner) for number in one.there | one.absent}
        if find_spec('mcp'):  # the server was killed last: opening and closing its file sweeps it
            from memnb.adapters.turn_store import TurnStore

            for path in (Path(folder) / 'mcp').glob('*.sqlite'):
                TurnStore(path).close()
        kept = left_in(folder, gone - mine)
    print(f'{time.monotonic() - begun:.0f} s; requests: {dict(server.served)}')
    for one in owners:
        print(f'{one.name}: {dict(one.counts)}, {len(one.there)} there, {len(one.gone)} forgotten')
    print('asked:', dict(sorted(seen.items())))
    print(f'resident: {held:.0f} MB after a fifth of the time, {late:.0f} MB at the end')
    print(f'forgotten words in files: {len(kept)}', *kept[:10], sep='\n  ')
    print(f'lost, back, doubled or raised: {len(broken)}', *broken[:20], sep='\n  ')
    return int(bool(broken or kept))


if __name__ == '__main__':
    sys.exit(main())
