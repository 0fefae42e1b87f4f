"""What a server may send by mistake: impossible costs, and vectors that are none."""
import json

import pytest

from memnb.core.models import OpenAILM
from memnb.core.roles import AnswerReply, Role
from memnb.retrieval.vectors import EmbedderError, OpenAIEmbedder
from servers import chat, plain, Server

ROLE = Role('answer', 'Answer.', 'Question: {question}', AnswerReply)


@pytest.mark.parametrize('usage', [(-5, 3), (7, -1), (10 ** 30, 1)])
def test_an_impossible_cost_is_estimated_anew(usage):
    with Server(chat('{"answer": "a kite", "sources": []}', usage=usage)) as server:
        call = OpenAILM('m', server.url, api_key='sk-none').call(ROLE, question='What?')
    assert call.reply.answer == 'a kite' and call.usage.calls == 1
    assert 0 < call.usage.prompt_tokens < 10_000 and 0 < call.usage.completion_tokens < 100


GOOD = {'object': 'embedding', 'index': 0, 'embedding': [1.0, 0.0]}


@pytest.mark.parametrize('body', [b'', b'null', b'[]', b'{', b'5', b'{"data": null}', b'{"data": 5}', b'{"data": []}', b'{"data": [5]}', b'\xff\xfe', b'[' * 5000,
                                  *(json.dumps({'data': rows}).encode() for rows in (
                                      [GOOD, GOOD], [GOOD | {'embedding': None}], [GOOD | {'embedding': ['x']}], [GOOD | {'index': None}], [{'index': 0}]))])
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
