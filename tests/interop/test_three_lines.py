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
from memnb.adapters.stores import fill_qdrant
from qdrant_client import QdrantClient
client = QdrantClient(path='memory')
fill_qdrant(client, 'turns', [turn for turn in turn_snippets(load_sample()) if turn.session == 'D1'])
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
