"""The record of written replies: draw its questions, serve its dialogues to writers, judge the answers, pack the result.

    python tests/bench/written_replies.py draw                      # the questions, into data/written.json
    python tests/bench/written_replies.py WORK build chat gists     # serves the roles that build one memory
    python tests/bench/written_replies.py WORK ask 0 8              # serves the dialogues of the writers 0 to 7
    python tests/bench/written_replies.py WORK judge 1 irrigation   # serves one judge, for one conversation
    python tests/bench/written_replies.py WORK pack                 # data/written.sqlite.xz, and rows in data/written.json
    python tests/bench/written_replies.py check                     # the rows again from the replies: are they equal?

WORK is a folder. Prompts go to files in a folder of it, one folder for each writer, and replies come back as files:

    python tests/bench/written_replies.py show FOLDER               # for the writer: the prompts that wait
    python tests/bench/written_replies.py show FOLDER mine.txt      # hand in replies, then see what comes next

`mine.txt` has a line '### NUMBER' for each prompt, and below it the reply. A command that was stopped goes on where it was.
"""

import json
import lzma
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path
from random import Random

from memnb.core.models import as_lm, RecordedLM
from memnb.core.roles import brief_schema, Completion, SCHEMA_PROMPT, TextLM, Usage
from memnb.core.time import TimeSpan
from memnb.evaluation.datasets import data_path, load_octet
from memnb.evaluation.judge import Judge
from memnb.evaluation.registry import MEMORIES, METHODS
from memnb.evaluation.rows import score, scored_answer
from memnb.evaluation.usage import UsageCounter

NAME = 'written replies'
SEED, QUESTIONS = 40, 15  # of each conversation
CONVERSATIONS = {'quarrel': 'strict', 'chat': 'strict', 'irrigation': 'rubric'}  # and how their answers are judged
ONE_SEARCH = METHODS['rag']
WAYS = {
    method.name: method
    for method in (
        replace(ONE_SEARCH, name='one search, 10 turns', options={'k': 10}),
        replace(ONE_SEARCH, name='one search, 25 turns', options={'k': 25}),
        METHODS['full-context'],
        METHODS['memr3'],
        METHODS['remem'],
        METHODS['mragent'],
        METHODS['memma'],
    )
}
DIALOGUES = (('chat', 'mragent', 8), ('chat', 'memr3', 17), ('chat', 'remem', 8))  # those that are shown in full
BUILT = ('gists', 'cues', 'bank')  # memories whose building asks a model
SHOWN, CHARACTERS = 10, 24_000  # prompts that a writer sees at a time, and their characters, but for the first
ROWS = data_path('written.json')
REPLIES = ROWS.with_name('written.sqlite.xz')


def drawn(conversation):
    "Return the positions of the questions that are asked, equally many of each category as far as that goes."
    categories = sorted({question.category for question in conversation.questions})
    random = Random(f'{SEED} {conversation.id}')
    random.shuffle(categories)
    waiting = {}
    for category in categories:
        positions = [question.position for question in conversation.questions if question.category == category]
        waiting[category] = random.sample(positions, len(positions))
    turns = [waiting[categories[number % len(categories)]].pop() for number in range(QUESTIONS)]
    return sorted(turns)


def plan():
    "Return the conversations with the questions that were drawn, by name."
    positions = json.loads(ROWS.read_text('utf-8'))['questions']
    talks = {talk.id: talk for talk in load_octet('test')}
    return {
        name: replace(
            talks[name],
            questions=[question for question in talks[name].questions if question.position in positions[name]],
        )
        for name in CONVERSATIONS
    }


def writers(talks):
    """Return the dialogues of each writer: one of each conversation, as (conversation, way, question).

    The first four ways need no memory that is written, and their writers come first."""
    columns = []
    for name, talk in talks.items():
        column = []
        for ways in (list(WAYS)[:4], list(WAYS)[4:]):
            dialogues = [(name, way, question) for way in ways for question in talk.questions]
            column += Random(f'{SEED} {name} {ways}').sample(dialogues, len(dialogues))
        columns.append(column)
    return list(zip(*columns))


def write(path, text):
    "Write a file whole."
    half = path.with_suffix('.half')
    half.write_text(text, encoding='utf-8')
    half.replace(path)


class WrittenLM(TextLM):
    "An lm whose replies somebody writes: prompts and replies are files of a folder."

    def __init__(self, folder, name=NAME):
        self.folder, self.name, self.lock = folder, name, threading.Lock()
        folder.mkdir(parents=True, exist_ok=True)
        self.asked = {path.read_text('utf-8'): path for path in sorted(folder.glob('*.prompt'))}

    def complete(self, role, system, user, schema):
        form = SCHEMA_PROMPT.format(schema=json.dumps(brief_schema(schema)))
        text = f'[role: {role}]\n## system\n{system}{form}\n## user\n{user}'
        with self.lock:
            if text not in self.asked:
                self.asked[text] = self.folder / f'{len(self.asked) + 1:05d}.prompt'
                write(self.asked[text], text)
        reply = self.asked[text].with_suffix('.reply')
        while not reply.exists():
            time.sleep(0.2)
        said = reply.read_text('utf-8')
        return Completion(said, Usage.estimate(text, said))

    def close(self):
        write(self.folder / 'closed', '')


def show(folder, file=None, seconds=500):
    "Hand in the replies of a file, wait for prompts and print them; say so where nothing more will be asked."
    folder = Path(folder)
    if file:
        parts = re.split(r'(?m)^### *(\d+)\s*$', Path(file).read_text('utf-8'))
        for number, text in zip(parts[1::2], parts[2::2]):
            if not (folder / f'{int(number):05d}.prompt').exists():
                sys.exit(f'{file}: there is no prompt {number}')
            write(folder / f'{int(number):05d}.reply', text.strip())
        print(f'[{len(parts) // 2} replies handed in]')
    end, calm, last = time.monotonic() + seconds, time.monotonic(), 0
    while time.monotonic() < end:
        prompts = [path for path in sorted(folder.glob('*.prompt')) if not path.with_suffix('.reply').exists()]
        if not prompts and (folder / 'closed').exists():
            print('[finished: nothing more will be asked]')
            return
        if len(prompts) != last:
            last, calm = len(prompts), time.monotonic()
        if prompts and time.monotonic() - calm > 2:
            size = 0
            for path in prompts[:SHOWN]:
                text = path.read_text('utf-8')
                if size and size + len(text) > CHARACTERS:
                    break
                size += len(text)
                if len(text) > CHARACTERS:
                    text = f'[{len(text)} characters: read all of {path.absolute()}]'
                print(f'======== prompt {int(path.stem)} ========\n{text}\n')
            print(f'[{len(prompts)} waiting; reply to those above]')
            return
        time.sleep(0.2)
    print('[nothing yet: call again without a file of replies]')


class Record:
    "The replies in one folder, and the memories that were built from them."

    def __init__(self, work):
        self.work, self.talks, self.lock, self.memories, self.costs = Path(work), plan(), threading.Lock(), {}, {}
        self.work.mkdir(parents=True, exist_ok=True)

    def lm(self, folder=None, name=NAME):
        "Return an lm that replays the record, and where it has no reply serves the prompt in a folder."
        written = WrittenLM(self.work / folder, name) if folder else as_lm(lambda prompt: '', name=name)
        return RecordedLM(written, self.work / 'written.sqlite', 'auto' if folder else 'replay')

    def memory(self, name, way):
        "Return the memory of a way, from the replies that built it."
        kind = WAYS[way].memory
        with self.lock:
            if (name, kind.name) not in self.memories:
                lm = UsageCounter(self.lm()) if kind.name in BUILT else None
                self.memories[name, kind.name] = kind.build(self.talks[name], lm)
                self.costs[name, kind.name] = sum(lm.usage.values(), Usage()) if lm else Usage()
            return self.memories[name, kind.name]

    def build(self, name, kind):
        "Serve the roles that build a memory."
        lm = self.lm(f'build-{name}-{kind}')
        memory = MEMORIES[kind].build(self.talks[name], lm)
        lm.lm.close()
        print(name, kind, memory, 'failed:', dict(getattr(memory, 'failed', {})))

    def trace(self, name, way, question, lm):
        "Return the trace of one dialogue."
        loop = WAYS[way].make(self.memory(name, way), self.talks[name], lm)
        return loop.ask(question.text, asked=question.asked and TimeSpan.day(question.asked.date()))

    def ask(self, first, last):
        "Serve the dialogues of some writers, those of each writer side by side."

        def serve(number, dialogues):
            lm = self.lm(f'writer-{number:03d}')
            with ThreadPoolExecutor(len(dialogues)) as pool:
                for trace in pool.map(lambda dialogue: self.trace(*dialogue, lm), dialogues):
                    print(number, trace.method, trace.error or 'answered', flush=True)
            lm.lm.close()

        chosen = list(enumerate(writers(self.talks)))[int(first) : int(last)]
        with ThreadPoolExecutor(len(chosen)) as pool:
            list(pool.map(lambda pair: serve(*pair), chosen))

    def judge(self, number, name, ways=len(WAYS)):
        "Serve the prompts of one judge for the answers of a conversation in so many ways, in an order that tells no way."
        lm = self.lm(f'judge-{number}-{name}', f'judge {number}')
        judge, answers = Judge(lm, CONVERSATIONS[name]), set()
        for question, way in product(self.talks[name].questions, list(WAYS)[: int(ways)]):
            trace = self.trace(name, way, question, self.lm())
            if trace.error is None:
                answers.add((question, scored_answer(trace, question)))
        answers = sorted(answers, key=lambda pair: (pair[0].position, pair[1]))
        Random(SEED).shuffle(answers)
        with ThreadPoolExecutor(40) as pool:
            marks = Counter(judged.score for judged in pool.map(lambda pair: judge.judge(*pair), answers))
        lm.lm.close()
        print(number, name, dict(marks))

    def row(self, name, way, question):
        "Return the figures of one dialogue."
        trace = self.trace(name, way, question, self.lm())
        scores, answer, cost = score(trace, question), scored_answer(trace, question), trace.total
        marks = []
        for number in (1, 2) if trace.error is None else ():
            judge = Judge(self.lm(name=f'judge {number}'), CONVERSATIONS[name])
            marks.append(judge.judge(question, answer).score)
        return {
            'conversation': name,
            'way': way,
            'position': question.position,
            'category': question.category,
            'answer': trace.answer,
            'refused': trace.refused,
            'marks': marks,
            'read': scores.get('evidence_recall'),
            'cited': scores.get('cited_recall'),
            'turns': len(trace.read),
            'calls': cost.calls,
            'prompt_tokens': cost.prompt_tokens,
            'completion_tokens': cost.completion_tokens,
            'error': trace.error,
        }

    def rows(self, names=tuple(CONVERSATIONS)):
        "Return the rows of some conversations, what it cost to build their memories, and the dialogues that are shown."
        cells = [(name, way, question) for name in names for way in WAYS for question in self.talks[name].questions]
        rows = [self.row(*cell) for cell in cells]
        built = [
            {'conversation': name, 'memory': kind, **asdict(self.costs[name, kind])} for name in names for kind in BUILT
        ]
        shown = [cell for cell in cells if (*cell[:2], cell[2].position) in DIALOGUES]
        traces = [self.trace(*cell, self.lm()).model_copy(update={'seconds': None}) for cell in shown]
        return {'rows': rows, 'built': built, 'traces': [json.loads(trace.to_json()) for trace in traces]}

    def pack(self):
        "Keep the replies without their prompts, which a replay renders again, and the rows."
        with tempfile.TemporaryDirectory() as folder:
            packed = Path(folder, 'written.sqlite')
            shutil.copy(self.work / 'written.sqlite', packed)
            with closing(sqlite3.connect(packed)) as file:
                with file:
                    file.execute("UPDATE replies SET request = ''")
                file.execute('VACUUM')
            REPLIES.write_bytes(lzma.compress(packed.read_bytes()))
        held = json.loads(ROWS.read_text('utf-8'))
        ROWS.write_text(json.dumps(held | self.rows(), indent=1, ensure_ascii=False) + '\n', 'utf-8')


def replayed(names=tuple(CONVERSATIONS)):
    "Return the rows of some conversations from the bundled replies."
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, 'written.sqlite').write_bytes(lzma.decompress(REPLIES.read_bytes()))
        return Record(folder).rows(names)


def check():
    "Return 1 where the bundled rows are not those that the bundled replies give."
    held, found = json.loads(ROWS.read_text('utf-8')), replayed()
    odd = [key for key in found if json.loads(json.dumps(found[key])) != held[key]]
    print('not as in data/written.json:', odd) if odd else print(
        len(held['rows']), 'rows, each as in data/written.json'
    )
    return len(odd)


def main():
    arguments = sys.argv[1:]
    if arguments == ['draw']:
        if ROWS.exists():
            sys.exit(f'{ROWS}: is there already, and rests on its questions')
        commit = subprocess.run(['git', 'rev-parse', '--short=8', 'HEAD'], capture_output=True, text=True, check=True)
        talks = {talk.id: talk for talk in load_octet('test')}
        held = {'seed': SEED, 'commit': commit.stdout.strip(), 'slips': []}  # what writers tell, as [who, what]
        held['questions'] = {name: drawn(talks[name]) for name in CONVERSATIONS}
        ROWS.write_text(json.dumps(held, indent=1) + '\n', 'utf-8')
    elif arguments == ['check']:
        sys.exit(check())
    elif arguments[:1] == ['show'] and len(arguments) in (2, 3):
        show(*arguments[1:])
    elif len(arguments) > 1 and arguments[1] in ('build', 'ask', 'judge', 'pack'):
        getattr(Record(arguments[0]), arguments[1])(*arguments[2:])
    else:
        sys.exit(__doc__)


if __name__ == '__main__':
    main()
