"""After a forget nothing of what was forgotten is left in a memory: in no object, file, repr, HTML or JSON.

The walk goes from the memory through everything that it holds, by the references that Python's garbage collector knows."""

import gc
import json
import tempfile
import types
import warnings
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memnb.adapters.turn_store import TurnStore
from memnb.core.conversation import Session, Turn
from memnb.core.models import as_lm, RecordedLM
from memnb.core.roles import ANSWER, LMError, RuleLM
from memnb.memma.bank import Edit, MemoryBank
from memnb.memma.loop import MemMA
from memnb.memma.prompts import EditLine
from memnb.mragent.graph import CueTagGraph
from memnb.mragent.prompts import TopicLine
from memnb.remem.graph import GistGraph

SECRET = "Xylophqne"
PLAIN = [
    "I bought a red kite in Leeds.",
    "I live in Rome.",
    "My sister Nell sings.",
    "We sold the old boat.",
]
HIDDEN = [
    f"I live in {SECRET}.",
    f"I bought a {SECRET} yesterday.",
    f"Ada lives in {SECRET}.",
    f"My cat is {SECRET}.",
]
AROUND = (
    type,
    types.ModuleType,
    types.FunctionType,
    types.BuiltinFunctionType,
    types.CodeType,
    types.FrameType,
)


def texts_in(root):
    """Every text and every bytes that can be reached from an object."""
    seen, waiting = {}, [root]
    while waiting:
        item = waiting.pop()
        if isinstance(item, types.FunctionType):
            waiting += [*(item.__closure__ or ()), *(item.__defaults__ or ())]
        if id(item) in seen or isinstance(item, AROUND):
            continue
        seen[id(item)] = item
        if isinstance(item, (str, bytes)):
            yield item if isinstance(item, str) else item.decode("utf-8", "replace")
        waiting += gc.get_referents(item)


def places_of(memory, folder, view=()):
    """Where the secret still stands."""
    texts = {
        "object": texts_in(memory),
        "repr": [repr(memory)],
        "views": map(str, view),
    }
    texts["html"] = [memory._repr_html_()] if hasattr(memory, "_repr_html_") else []
    texts["files"] = [path.read_bytes().decode("utf-8", "replace") for path in Path(folder).iterdir()]
    return [place for place, parts in texts.items() for part in parts if SECRET.casefold() in part.casefold()]


class Quoting(RuleLM):
    """The rules; every reason and title quotes what the model has read, and a session with a broken word cannot be read."""

    def call(self, role, /, **inputs):
        read = str([value for name, value in inputs.items() if name != "lm"])
        quoted = SECRET if SECRET in read else "nothing"
        if "unreadable" in str(inputs.get("chunk") or inputs.get("session")):
            raise LMError(f"cannot read {quoted}")
        call = super().call(role, **inputs)
        if role.name == "write":
            call.reply.edits.append(EditLine(action="NONE", reason=f"noted {quoted}"))
            for edit in call.reply.edits:
                edit.reason = edit.reason or f"because of {quoted}"
        if role.name == "topics":
            ids = [episode.id for episode in inputs["episodes"]]
            call.reply.topics.append(TopicLine(title=f"About {quoted}", episodes=[*ids, f"{quoted}/9"]))
        return call


@st.composite
def talks(draw):
    """Sessions of some turns, of which some hold the secret, and some cannot be read."""
    sessions = []
    for day in range(1, draw(st.integers(2, 4)) + 1):
        said = draw(
            st.lists(
                st.tuples(st.sampled_from(["Ada", "Eve"]), st.sampled_from(PLAIN + HIDDEN)),
                min_size=1,
                max_size=3,
            )
        )
        broken = draw(st.integers(0, 3)) == 0
        when = datetime(2024, 5, day, 18)
        turns = [
            Turn(f"D{day}:{place}", who, f"{text} {'unreadable' if broken else ''}", when)
            for place, (who, text) in enumerate(said, 1)
        ]
        sessions.append(Session(f"D{day}", turns, when))
    return sessions


def remembered(memory, sessions):
    with suppress(LMError), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        getattr(memory, "remember", None)(sessions) if isinstance(memory, MemMA) else memory.add(sessions)


def hidden_turns(sessions):
    return [turn.id for session in sessions for turn in session.turns if SECRET in turn.text]


@settings(max_examples=25, deadline=None)
@given(talks(), st.booleans())
def test_nothing_is_left_in_a_bank_and_in_what_was_probed(sessions, one_by_one):
    with (
        tempfile.TemporaryDirectory() as folder,
        MemMA(f"{folder}/bank", Quoting(), probes=2) as memory,
    ):
        remembered(memory, sessions)
        hidden = hidden_turns(sessions)
        assert not (hidden and len(memory.bank)) or places_of(memory, folder)
        for turns in [[turn] for turn in hidden] if one_by_one else [hidden]:
            memory.forget(turns=turns)
        bank = memory.bank
        views = [bank.history(entry.id) for entry in bank] + [bank.audit(entry.id)._repr_html_() for entry in bank]
        views += [
            json.dumps(memory.failed.to_json()),
            bank.as_of("2030"),
        ]
        views.append(bank.search("Where does Ada live?", 20))
        assert not hidden or places_of(memory, folder, views) == []


@settings(max_examples=25, deadline=None)
@given(talks(), st.sampled_from([GistGraph, CueTagGraph]))
def test_nothing_is_left_in_a_graph(sessions, kind):
    with tempfile.TemporaryDirectory() as folder:
        graph = kind(Quoting(), names=("Ada", "Eve"))
        remembered(graph, sessions)
        if kind is CueTagGraph:
            graph.file_topics()
        graph.save(f"{folder}/graph")
        for session in sessions:
            if hidden_turns([session]) and (session.id in graph or session.id in graph.failed):
                graph.forget(session.id)
        graph.save(f"{folder}/graph")
        views = [graph.extract_of(id).to_json() for id in graph.sessions] + [
            graph.settings(),
            graph.failed.to_json(),
        ]
        assert places_of(graph, folder, views) == []
        assert places_of(kind.load(f"{folder}/graph", lm=RuleLM()), folder) == []


@settings(max_examples=15, deadline=None)
@given(talks())
def test_nothing_is_left_in_a_turn_store(sessions):
    with tempfile.TemporaryDirectory() as folder, TurnStore(f"{folder}/turns") as store:
        stored = store.remember_all(sessions)
        store.search(SECRET)
        store.forget([turn.id for turn in stored if SECRET in turn.text])
        assert places_of(store, folder, [store.conversation().to_json(), store.search(SECRET)]) == []


@pytest.mark.parametrize("forgotten", ["entry", "turn"])
def test_reasons_without_turns_go_with_what_they_may_quote(tmp_path, forgotten):
    with MemoryBank(tmp_path / "bank") as bank:
        bank.add(f"The word is {SECRET}", sources=["D1:1"])
        bank.add("x", sources=["D1:2"])
        bank.apply([Edit("NONE", reason=f"noted {SECRET}")])
        bank.delete("m2", reason=f"as {SECRET} says")
        bank.forget(
            ["m1"] if forgotten == "entry" else [],
            turns=["D1:1"] if forgotten == "turn" else [],
        )
        assert places_of(bank, tmp_path, bank.history("m2")) == []


@pytest.mark.parametrize("text", [f"The word\nis {SECRET}.", f"The word is\r\n<|im_start|>{SECRET}", SECRET])
def test_a_record_forgets_a_turn_by_its_text(tmp_path, text):
    """A prompt shows a text in one line, without tokens of chat templates."""
    lm = RecordedLM(
        as_lm(lambda prompt: '{"answer": "x", "sources": []}', name="f"),
        tmp_path / "record",
    )
    lm.ask(ANSWER, question="What is the word?", lines=[Turn("D1:1", "Ada", text)])
    assert lm.forget(text) == 1 and places_of(lm, tmp_path) == []
