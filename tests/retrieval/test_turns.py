"""Turns in a file: what is opened is what was saved, to the last bit, and nothing was embedded for it."""

import sqlite3
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings, strategies as st

from fakes import Letters
from memnb.adapters.turn_store import TurnStore
from memnb.core.conversation import Session, Turn
from memnb.core.storage import MemoryFileError
from memnb.retrieval.turns import TurnMemory

texts = st.lists(st.sampled_from(['red boat.', 'sea\n\nsail', 'Always é', '\ud800', 'Ana?']), max_size=9).map(' '.join)
talks = st.lists(st.lists(texts, min_size=1, max_size=4), min_size=1, max_size=4)


def filled(sessions, embedder):
    memory = TurnMemory(names=['Ana'], embedder=embedder, words=3)
    for id, said in sessions.items():
        memory.add(Session(id, [Turn(f'{id}:{place}', 'Ana', text) for place, text in enumerate(said)]))
    return memory


@settings(max_examples=40)
@given(talks, texts, st.sampled_from([Letters, lambda: None]), st.data())
def test_what_is_opened_is_what_was_saved(talk, query, make, data):
    sessions = {f'D{number}é': said for number, said in enumerate(talk)}
    memory, embedder = filled(sessions, make()), make()
    with TemporaryDirectory() as folder:
        path = Path(folder) / 'turns.sqlite'
        memory.save(path)
        sessions.pop(gone := data.draw(st.sampled_from([*sessions])))
        memory.forget(gone)
        memory.save(path)
        opened = TurnMemory.load(path, embedder=embedder)
        opened.save(path)
    assert embedder is None or embedder.asked == 0
    exclude = data.draw(st.lists(st.sampled_from([turn.id for turn in memory.index] or ['none']), max_size=3))
    for other in (memory, filled(sessions, make())):
        assert opened.sessions == other.sessions and [*opened.index] == [*other.index]
        mine, others = (store.index.vectors(turn.id for turn in store.index) for store in (opened, other))
        assert mine.keys() == others.keys() and all((mine[id] == others[id]).all() for id in mine)
        masks = {'exclude': exclude, 'known': exclude[:1]}
        assert opened.search(query, 5, **masks) == other.search(query, 5, **masks)


def test_another_file_and_another_way_to_embed_are_refused(tmp_path):
    path, other = tmp_path / 'turns.sqlite', tmp_path / 'store.sqlite'
    memory = filled({'D1': ['a red boat on the sea']}, Letters())
    memory.save(path)
    for options in ({'embedder': Letters('others')}, {'embedder': Letters(), 'words': 2}, {'embedder': None}):
        with pytest.raises(MemoryFileError, match="its vectors are of 'letters, passages of 3 words'"):
            TurnMemory.load(path, **options)
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("UPDATE sessions SET record = replace(record, 'red', 'big')")
    with pytest.raises(MemoryFileError, match="damaged: session 'D1' is not as it was written"):
        TurnMemory.load(path, embedder=Letters())
    TurnStore(other).close()
    for attempt in (TurnMemory.load, memory.save):
        with pytest.raises(
            MemoryFileError, match="expected a memory of kind 'turn-memory', found 'turns'; .*GistGraph.load"
        ):
            attempt(other)
