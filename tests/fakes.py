"""Embedders that can be foreseen, models that say anything, and the steps of a trace by kind."""

import zlib

import numpy as np

from memnb.core.roles import Call, LM, ServerError, Usage


class Letters:
    """An embedder that counts letters, and the texts that it was given: equal texts and many ties."""

    def __init__(self, name='letters', letters='aeorsb'):
        self.name, self.letters, self.asked = name, letters, 0

    def __call__(self, texts):
        self.asked += len(texts)
        return np.array([[text.count(letter) for letter in self.letters] for text in texts], float).reshape(
            len(texts), len(self.letters)
        )


class Buckets:
    """An embedder that counts words in sixteen buckets. `fails_at`: the number of a call that fails."""

    name = 'tiny'

    def __init__(self, fails_at=None):
        self.fails_at, self.calls = fails_at, 0

    def __call__(self, texts):
        self.calls += 1
        if self.fails_at == self.calls:
            raise RuntimeError('the embedder is down')
        rows = np.zeros((len(texts), 16))
        for row, text in zip(rows, texts):
            for word in text.lower().split():
                row[zlib.crc32(word.encode()) % 16] += 1
        return rows


class Replies(LM):
    """Typed replies of each role from lists, round and round: a model that says anything. `fails_at`: the number of a call that fails."""

    name = 'replies'

    def __init__(self, fails_at=None, **said):
        self.fails_at, self.said, self.heard = fails_at, said, []

    def call(self, role, /, **inputs):
        number, earlier = len(self.heard), sum(name == role.name for name, _ in self.heard)
        self.heard.append((role.name, inputs))
        if number == self.fails_at:
            raise ServerError('gone', usage=Usage(1, 2, 0))
        said = self.said[role.name]
        return Call(role.name, said[earlier % len(said)].model_copy(deep=True), Usage(1, 3, 4))


def of(trace, kind):
    """The steps of a kind."""
    return [step for step in trace.steps if step.kind == kind]
