"""What a server may send by mistake: impossible costs, and vectors that are none."""

import json
import pickle
from copy import copy, deepcopy

import pytest
from pydantic import BaseModel

from memnb.core.run import Run
from memnb.core.models import OpenAILM, ScriptedLM
from memnb.core.roles import AnswerReply, ReplyError, Role
from memnb.core.trace import Trace
from memnb.retrieval.vectors import EmbedderError, OpenAIEmbedder
from servers import chat, plain, Server

ROLE = Role('answer', 'Answer.', 'Question: {question}', AnswerReply)


@pytest.mark.parametrize('usage', [(-5, 3), (7, -1), (10**30, 1)])
def test_an_impossible_cost_is_estimated_anew(usage):
    with Server(chat('{"answer": "a kite", "sources": []}', usage=usage)) as server:
        call = OpenAILM('m', server.url, api_key='sk-none').call(ROLE, question='What?')
    assert call.reply.answer == 'a kite' and call.usage.calls == 1
    assert 0 < call.usage.prompt_tokens < 10_000 and 0 < call.usage.completion_tokens < 100


def test_copies_share_the_key_and_a_pickle_leaves_it_behind(monkeypatch):
    monkeypatch.setenv('OPENAI_API_KEY', 'of-the-environment')
    lm = OpenAILM('m', 'http://127.0.0.1:9/v1', api_key='of-the-caller')
    assert copy(lm)._server.secret() == lm.seeded(3)._server.secret() == 'of-the-caller'
    assert pickle.loads(pickle.dumps(lm))._server.secret() == deepcopy(lm)._server.secret() == 'of-the-environment'


def test_a_reply_that_is_nested_deeper_than_a_trace_can_be_read_is_refused():
    class Free(BaseModel):
        arguments: dict

    for depth, usable in ((40, True), (198, False)):
        text = '{"arguments": ' + '{"a": ' * depth + '1' + '}' * (depth + 1)
        run = Run('What?', 'any', ScriptedLM([text, text]))
        try:
            run.ask(Role('free', '', '{text}', Free), text='x')
        except ReplyError as error:
            assert 'nested too deeply' in str(error) and not usable
        else:
            assert usable
        assert Trace.from_json(run.trace.to_json()) == run.trace


GOOD = {'object': 'embedding', 'index': 0, 'embedding': [1.0, 0.0]}


@pytest.mark.parametrize(
    'body',
    [
        b'',
        b'null',
        b'[]',
        b'{',
        b'5',
        b'{"data": null}',
        b'{"data": 5}',
        b'{"data": []}',
        b'{"data": [5]}',
        b'\xff\xfe',
        b'[' * 5000,
        *(
            json.dumps({'data': rows}).encode()
            for rows in (
                [GOOD, GOOD],
                [GOOD | {'embedding': None}],
                [GOOD | {'embedding': ['x']}],
                [GOOD | {'index': None}],
                [{'index': 0}],
            )
        ),
    ],
)
def test_what_is_no_vector_is_a_typed_error(body):
    from openai import OpenAI

    with Server(plain(body, 'application/json')) as server:
        client = OpenAI(base_url=server.url, api_key='sk-SECRET-4711', max_retries=0, timeout=5)
        with pytest.raises(EmbedderError, match='^small: ') as error:
            OpenAIEmbedder('small', client=client)(['kite'])
    assert 'SECRET' not in str(error.value)


def test_vectors_come_in_the_order_of_the_texts():
    from openai import OpenAI

    rows = [GOOD | {'index': 1, 'embedding': [0.0, 1.0]}, GOOD]
    with Server(plain(json.dumps({'data': rows}).encode(), 'application/json')) as server:
        client = OpenAI(base_url=server.url, api_key='sk-none', max_retries=0, timeout=5)
        assert OpenAIEmbedder('small', client=client)(['a', 'b']).tolist() == [[1, 0], [0, 1]]
