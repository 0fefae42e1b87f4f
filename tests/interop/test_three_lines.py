"""The three lines of the README, in a process of their own in an empty folder, over a Qdrant that another process has filled."""

import os
import subprocess
import sys

import pytest

pytest.importorskip('qdrant_client')

IMPORTS = '''from memnb import MemR3
from memnb.adapters.stores import from_qdrant
from qdrant_client import QdrantClient
'''
THREE_LINES = '''memory = from_qdrant(QdrantClient(path='memory'), 'turns')
trace = MemR3(memory).ask('When did Tobin have his first concertina lesson?')
print(trace.answer, trace.evidence)
'''
FILL = '''from memnb import load_sample, turn_snippets
from memnb.adapters.stores import fields_of
from memnb.retrieval.vectors import WordLlamaEmbedder
from qdrant_client import models, QdrantClient
client = QdrantClient(path='memory')
client.create_collection('turns', models.VectorParams(size=256, distance=models.Distance.COSINE))
turns = [turn for turn in turn_snippets(load_sample()) if turn.session == 'D1']
for number, (turn, row) in enumerate(zip(turns, WordLlamaEmbedder()([turn.text for turn in turns]))):
    payload = {**fields_of(turn), 'text': turn.text}
    client.upsert('turns', [models.PointStruct(id=number, vector=row.tolist(), payload=payload)])
client.close()
'''


def run(code, folder):
    """What a fresh Python prints; no key, no proxy and no path of ours comes with it."""
    kept = {name: os.environ[name] for name in ('PATH', 'HOME', 'SYSTEMROOT', 'LANG') if name in os.environ}
    done = subprocess.run(
        [sys.executable, '-I', '-c', code], cwd=folder, env=kept, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_three_lines(tmp_path):
    assert len(THREE_LINES.splitlines()) == 3
    assert run(FILL, tmp_path) == ''
    assert run(IMPORTS + THREE_LINES, tmp_path) == "8 January 2024 ['D1:5']\n"
    assert [path.name for path in tmp_path.iterdir()] == ['memory']  # and nothing else was written
