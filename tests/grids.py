"""Small experiments: made-up conversations, and methods that take a moment, keep a diary, ask a model, or break."""

import os
import time
from datetime import datetime
from pathlib import Path

from pydantic import BaseModel

from memnb.core.conversation import Conversation, Question, Session, Turn, turn_snippets
from memnb.core.loop import Loop
from memnb.core.roles import Role, rule
from memnb.evaluation.experiment import Experiment
from memnb.evaluation.store import RowStore
from memnb.evaluation.registry import Memory, Method
from memnb.retrieval.bm25 import LexicalIndex

ANIMALS = ('heron', 'otter', 'badger', 'lynx', 'magpie', 'newt', 'marten', 'bittern')


def talk(name, questions=4):
    """A conversation in which Tobin tells what he saw, day by day, and the questions about it."""
    turns = tuple(
        Turn(f'D1:{day}', 'Tobin', f'On walk {day} near {name} I saw a {animal}.')
        for day, animal in enumerate(ANIMALS, 1)
    )
    asked = tuple(
        Question(
            f'What did Tobin see on walk {day} near {name}?',
            ANIMALS[day - 1],
            (f'D1:{day}',),
            'single-hop',
            name,
            day - 1,
        )
        for day in range(1, questions + 1)
    )
    return Conversation(name, (Session('D1', turns, datetime(2024, 5, 1)),), asked)


def build_words(conversation, lm):
    index = LexicalIndex()
    index.add(turn_snippets(conversation))
    return index


WORDS = Memory('words', build_words, 'the messages, by words')


class Reply(BaseModel):
    text: str


@rule('read_aloud')
def reply_rule(turn):
    return Reply(text=turn)


READ = Role('read_aloud', 'Say what the turn says.', '{turn}', Reply)


class Plain(Loop):
    """Takes the best hit; writes the question into a diary first; a model says the words, where `role` is given."""

    method = 'plain'

    def __init__(self, memory, lm=None, pause=0, diary=None, role=None, breaks_at=None):
        super().__init__(memory, lm)
        self.pause, self.diary, self.role, self.breaks_at = pause, diary, role, breaks_at

    def steps(self, run):
        if self.diary:
            note(self.diary, run.question)
        if self.breaks_at and self.breaks_at in run.question:
            raise ZeroDivisionError('a bug in a method')
        time.sleep(self.pause)
        best = run.search(run.question, 3, 0)[0].snippet
        run.answer(run.ask(self.role, turn=best.text).text if self.role else best.text, best.sources)


def plain(name='plain', memory=WORDS, **options):
    return Method(name, Plain, memory, options=options)


def note(diary, text):
    handle = os.open(diary, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(handle, text.encode() + b'\n')
    os.close(handle)


def noted(diary):
    return Path(diary).read_text().splitlines() if Path(diary).exists() else []


def grid(*methods, talks=2, questions=4, **options):
    """An experiment over made-up conversations, without other rows."""
    conversations = [talk(f'place {number}', questions) for number in range(1, talks + 1)]
    return Experiment(list(methods) or [plain()], {'walks': conversations}, baselines=(), **options)


def records(folder):
    """The rows of questions in a folder, without what depends on the day, in one order."""
    file = Path(folder) / 'rows.sqlite'
    if not file.exists():
        return []
    store = RowStore(file)
    rows = [{**vars(row), 'trace': store.trace(row), 'seconds': 0} for row in store.records() if row.is_question]
    store.close()
    return sorted(rows, key=lambda row: (row['method'], row['conversation'], row['repeat'], row['position']))


def on_disk(folder):
    """The questions that have a row in a folder."""
    return [row['question'] for row in records(folder)]
