"""What servers send: costs, vectors, refusals, errors and messages in many shapes."""

import json
import pickle
import time
from copy import copy, deepcopy
from pathlib import Path

import pytest
from pydantic import BaseModel

from memnb.core.run import Run
from memnb.core.models import OpenAILM, ScriptedLM
from memnb.core.replies import read_reply, Reply
from memnb.core.roles import AnswerReply, ReplyError, Role, ServerError
from memnb.core.trace import Trace
from memnb.retrieval.vectors import EmbedderError, OpenAIEmbedder
from servers import chat, fail, plain, Server

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


# What servers refuse, in which shape and words, and what else they send: `servers.json` has a case a line


CASES = json.loads((Path(__file__).parents[1] / 'servers.json').read_text(encoding='utf-8'))
DRAFT = 'perhaps {"answer": "a boat", "sources": []}, or not. '
GOOD_TEXT = '{"answer": "a kite", "sources": []}'
PARTS = {
    'temperature': lambda request: 'temperature' in request,
    'seed': lambda request: 'seed' in request,
    'max_tokens': lambda request: 'max_tokens' in request,
    'any limit': lambda request: 'max_tokens' in request or 'max_completion_tokens' in request,
    'system': lambda request: request['messages'][0]['role'] == 'system',
    'json_schema': lambda request: 'json_schema' in request.get('response_format', {}),
    'both forms': lambda request: 'response_format' in request,
}


def ask(server, **options):
    options = {'seed': 4, 'max_tokens': 50, 'max_retries': 0, **options}
    return OpenAILM('m', server.url, 'sk-SECRET-4711', **options).call(ROLE, question='What?')


def sends(body, status=200):
    text = body if isinstance(body, str) else json.dumps(body)
    return plain(text.encode(), 'application/json', status)


def refuse(part, status, body):
    "Refuse requests with a part, and answer the others."
    return lambda request: (sends(body, status) if PARTS[part](request) else chat(GOOD_TEXT))(request)


@pytest.mark.parametrize(('part', 'status', 'body'), CASES['refused'])
def test_what_a_server_refuses_is_left_out_and_remembered(part, status, body):
    with Server(refuse(part, status, body)) as server:
        lm = OpenAILM('m', server.url, 'sk-none', seed=4, max_tokens=50, max_retries=0)
        calls = [lm.call(ROLE, question='What?') for _ in range(2)]
    *_, last = server.requests
    left = {name for name in PARTS if not PARTS[name](last)}
    first_refused = {'both forms': 'json_schema', 'any limit': 'max_tokens'}.get(part, part)
    assert left == {part, first_refused} and len(server.requests) == 2 + len(left)
    prompt = ''.join(message['content'] for message in last['messages'])
    assert 'Answer.' in prompt and ('JSON schema' in prompt) == ('json_schema' in left)
    assert last.get('max_completion_tokens') == (50 if part == 'max_tokens' else None)
    notes = (f'the server refuses {first_refused}',) if first_refused in lm.settings() else ()
    assert [(call.reply.answer, call.notes) for call in calls] == [('a kite', notes)] * 2
    assert lm.settings()['temperature'] == 0 and lm.settings()['seed'] == 4


@pytest.mark.parametrize(('status', 'body', 'words'), CASES['hopeless'])
def test_what_no_simpler_request_mends_is_told_after_one_without_the_key(status, body, words):
    with Server(sends(body, status)) as server:
        with pytest.raises(ServerError, match=f'{status} - .*{words}') as error:
            ask(server)
    assert len(server.requests) == 1 and 'SECRET' not in str(error.value)


# Errors inside a success, a server that loads its model, an address without /v1


def test_an_error_inside_a_success_counts_as_such():
    limited = sends({'error': {'message': 'rate limited upstream', 'code': 429}})
    broken = sends({'choices': [{'error': {'code': 502, 'message': 'gone'}, 'finish_reason': 'error', 'message': {}}]})
    busy = sends({'code': 1305, 'msg': 'The server is overloaded'})
    with Server(limited, broken, busy, chat(GOOD_TEXT)) as server:
        assert ask(server, max_retries=3).reply.answer == 'a kite'
    with Server(limited) as server, pytest.raises(ServerError, match='429 - .*rate limited upstream'):
        ask(server)
    with Server(sends({'detail': 'ask Bo'})) as server, pytest.raises(ServerError, match='a chat completion: .*ask Bo'):
        ask(server)


@pytest.mark.parametrize('words', ['Loading model', 'Model m is currently loading', 'the model is not ready yet'])
def test_a_server_that_loads_its_model_is_waited_for(words, monkeypatch):
    monkeypatch.setattr(time, 'sleep', lambda seconds: None)
    with Server(*[fail(503, words)] * 9, chat(GOOD_TEXT)) as server:
        assert ask(server).reply.answer == 'a kite'


def test_a_server_that_cannot_load_its_model_is_left_at_once_and_one_that_never_ends_after_the_timeout(monkeypatch):
    with Server(fail(503, 'error loading model: no memory')) as server, pytest.raises(ServerError, match='no memory'):
        ask(server)
    assert len(server.requests) == 1
    nap = time.sleep
    monkeypatch.setattr(time, 'sleep', lambda seconds: nap(0.1))
    with Server(fail(503, 'Loading model')) as server, pytest.raises(ServerError, match='503 - .*Loading model'):
        ask(server, timeout=3)
    assert 2 <= len(server.requests) <= 31


def test_a_page_that_says_loading_is_no_server_that_loads():
    with Server(plain(b'<html>Loading...</html>')) as server, pytest.raises(ServerError, match='chat completion: Load'):
        ask(server)
    assert len(server.requests) == 1


@pytest.mark.parametrize(('url', 'seconds'), CASES['hosts'])
def test_a_server_on_this_machine_is_waited_for_longer(url, seconds):
    assert OpenAILM('m', url)._server.timeout == seconds
    assert OpenAILM('m', url, timeout=7)._server.timeout == 7


@pytest.mark.parametrize('answer', [sends('404 page not found', 404), sends({'error': 'Unexpected endpoint (POST /)'})])
def test_an_address_that_does_not_end_in_v1_is_asked_about(answer):
    with Server(answer) as server:
        with pytest.raises(ServerError, match='(not found|endpoint)') as error:
            ask(server)
        assert 'should the address end in /v1?' not in str(error.value)
        server.url = server.url.removesuffix('/v1')
        with pytest.raises(ServerError, match=r'(not found|endpoint).*should the address end in /v1\?'):
            ask(server)
    assert len(server.requests) == 2


# Messages in other shapes


def says(message, finish='stop'):
    choice = {'index': 0, 'finish_reason': finish, 'message': {'role': 'assistant', **message}}
    return sends({'id': 'x', 'object': 'chat.completion', 'created': 0, 'model': 'm', 'choices': [choice]})


@pytest.mark.parametrize('message', CASES['messages'])
def test_a_message_is_read_in_any_shape(message):
    with Server(says(message)) as server:
        assert ask(server).reply.answer == 'a kite'
    assert len(server.requests) == 1


@pytest.mark.parametrize(('message', 'finish', 'problem'), CASES['thoughts'])
def test_a_message_of_thoughts_alone_is_said_to_be_one(message, finish, problem):
    with Server(says(message, finish)) as server, pytest.raises(ReplyError, match=problem):
        ask(server)


@pytest.mark.parametrize('mark', CASES['marks'])
def test_thoughts_are_left_out_whatever_their_marks(mark):
    assert read_reply(mark.replace('{}', DRAFT) + GOOD_TEXT, AnswerReply).answer == 'a kite'


@pytest.mark.parametrize('mark', ['<think>', '<thinking>', '[THINK]', '<|channel|>analysis<|message|>', '<seed:think>'])
def test_thoughts_that_never_end_are_no_reply(mark):
    with pytest.raises(ValueError, match='thoughts and no reply'):
        read_reply(mark + DRAFT, AnswerReply)


def test_marks_inside_of_a_reply_and_fields_in_tags_are_no_thoughts():
    class Step(Reply):
        reasoning: str
        answer: str

    quoted = '{"answer": "he wrote <think>hm</think> and </think>", "sources": []}'
    for text in (quoted, f'```json\n{quoted}\n```'):
        assert read_reply(text, AnswerReply).answer == 'he wrote <think>hm</think> and </think>'
    step = read_reply('<reasoning>it flies</reasoning><answer>a kite</answer>', Step)
    assert (step.reasoning, step.answer) == ('it flies', 'a kite')
