"""What servers send: costs, vectors, refusals, errors and messages in many shapes."""

import json
import pickle
import time
from copy import copy, deepcopy

import pytest
from pydantic import BaseModel

from memnb.core.loop import Run
from memnb.core.models import OpenAILM, ScriptedLM
from memnb.core.replies import read_reply, Reply
from memnb.core.roles import AnswerReply, ReplyError, Role, ServerError
from memnb.core.trace import Trace
from memnb.retrieval.vectors import EmbedderError, OpenAIEmbedder
from servers import Answer, chat, fail, plain, Server

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


# What servers refuse, in which shape and words; the part of the request that they mean


def form_of(request):
    return request.get('response_format', {}).get('type', 'text')


PARTS = {
    'temperature': lambda request: 'temperature' in request,
    'seed': lambda request: 'seed' in request,
    'max_tokens': lambda request: 'max_tokens' in request,
    'system': lambda request: request['messages'][0]['role'] == 'system',
    'json_schema': lambda request: form_of(request) == 'json_schema',
    'both forms': lambda request: form_of(request) != 'text',
}
INNER = json.dumps({'error': {'message': "Unsupported parameter: 'temperature'", 'param': 'temperature'}})
REFUSALS = [
    ('json_schema', 400, {'error': "'response_format.type' must be 'json_object' or 'text'"}),
    ('json_schema', 422, {'detail': [{'loc': ['body', 'response_format', 'type'], 'msg': 'unexpected value'}]}),
    ('json_schema', 400, [{'error': {'code': 400, 'message': 'response_format json_schema is not supported'}}]),
    ('json_schema', 400, 'json_schema is not supported'),
    ('json_schema', 400, {'errors': [{'message': 'AiError: json_schema is not supported', 'code': 5023}]}),
    ('json_schema', 400, {'detail': 'Bad Request'}),
    ('json_schema', 422, {'title': 'Unprocessable', 'errors': {'response_format': ['is invalid']}}),
    ('json_schema', 500, {'error': {'message': 'failed to parse grammar'}}),
    ('json_schema', 501, {'error': {'message': 'structured output is not implemented'}}),
    ('json_schema', 404, {'error': {'message': 'No endpoints found that support the requested parameters'}}),
    ('json_schema', 400, {'error': {'message': 'The schema produces a constraint with too many states'}}),
    ('both forms', 400, {'object': 'error', 'message': 'This response_format type is unavailable now'}),
    ('both forms', 400, '<html><h1>400 Bad Request</h1></html>'),
    ('temperature', 400, {'error': {'message': "Unsupported value: 'temperature' does not support 0.0"}}),
    ('temperature', 400, {'error': {'message': 'invalid value: only 1 is allowed', 'param': 'temperature'}}),
    ('temperature', 422, {'detail': [{'loc': ['body', 'temperature'], 'msg': 'must be strictly positive'}]}),
    ('temperature', 400, {'error': {'message': 'Provider returned error', 'metadata': {'raw': INNER}}}),
    ('temperature', 400, {'temperature': ['Unknown field.']}),
    ('temperature', 400, 'sampling parameters are fixed for this model'),
    ('seed', 400, {'error': {'message': "property 'seed' is unsupported, did you mean 'temperature'?"}}),
    (
        'seed',
        422,
        {'detail': [{'type': 'extra_forbidden', 'loc': ['body', 'seed'], 'msg': 'not permitted', 'input': 4}]},
    ),
    ('max_tokens', 400, {'error': {'message': "'max_tokens' is not supported: use 'max_completion_tokens'"}}),
    ('max_tokens', 400, {'message': 'Unrecognized request argument supplied: max_tokens'}),
    ('system', 400, {'object': 'error', 'message': 'System role not supported', 'code': 400}),
    ('system', 500, {'error': {'message': 'System role not supported'}}),
    ('system', 400, {'error': 'Conversation roles must alternate user/assistant/user/assistant/...'}),
    ('system', 400, [{'error': {'message': 'Developer instruction is not enabled for models/small'}}]),
    ('system', 400, {'error': {'message': "Unsupported value: 'messages[0]' may not be 'system'"}}),
]


def refuse(part, status, body):
    "Refuse requests with a part, and answer the others."
    text = (body if isinstance(body, str) else json.dumps(body)).encode()
    return lambda request: Answer(text, status) if PARTS[part](request) else chat(GOOD_TEXT)(request)


GOOD_TEXT = '{"answer": "a kite", "sources": []}'
OPTIONS = {'seed': 4, 'max_tokens': 50, 'max_retries': 0}


@pytest.mark.parametrize(('part', 'status', 'body'), REFUSALS)
def test_what_a_server_refuses_is_left_out_and_remembered(part, status, body):
    with Server(refuse(part, status, body)) as server:
        lm = OpenAILM('m', server.url, 'sk-none', **OPTIONS)
        calls = [lm.call(ROLE, question='What?') for _ in range(2)]
    assert [call.reply.answer for call in calls] == ['a kite', 'a kite']
    first, *_, last = server.requests
    assert len(server.requests) == (4 if part == 'both forms' else 3) and not PARTS[part](last)
    others = {name for name in PARTS if name not in (part, 'both forms')}
    assert all(PARTS[name](last) for name in others - ({'json_schema'} if part == 'both forms' else set()))
    assert 'Answer.' in ''.join(message['content'] for message in last['messages'])
    assert last.get('max_completion_tokens') == (50 if part == 'max_tokens' else None)
    is_option = part in ('temperature', 'seed', 'max_tokens')
    assert [call.notes for call in calls] == [(f'the server refuses {part}',) if is_option else ()] * 2
    assert lm.settings()['temperature'] == 0 and lm.settings()['seed'] == 4


HOPELESS = [
    (400, {'error': {'message': 'context length exceeded', 'code': 'context_length_exceeded'}}),
    (400, {'error': {'message': 'prompt is too long: 9000 tokens > 8192 maximum'}}),
    (400, {'error': {'message': "'max_tokens' is too large: 50. This model supports at most 40 completion tokens"}}),
    (400, {'error': {'message': 'the request exceeds the available context size'}}),
    (400, {'error': {'message': 'Your credit balance is too low'}}),
    (400, {'error': {'message': 'm is not a valid model ID', 'code': 'model not found'}}),
    (401, {'error': {'message': 'no temperature without a key'}}),
    (404, {'error': 'Not Found'}),
]


@pytest.mark.parametrize(('status', 'body'), HOPELESS)
def test_what_no_simpler_request_mends_is_told_after_one(status, body):
    with Server(plain(json.dumps(body).encode(), 'application/json', status)) as server:
        with pytest.raises(ServerError, match=str(status)) as error:
            OpenAILM('m', server.url, 'sk-none', **OPTIONS).call(ROLE, question='What?')
    message = body['error']['message'] if isinstance(body['error'], dict) else body['error']
    assert len(server.requests) == 1 and message in str(error.value)


@pytest.mark.parametrize(
    'shape', [{'error': 'no: {}'}, {'detail': [{'msg': 'no: {}'}]}, [{'error': {'message': 'no: {}'}}]]
)
def test_the_words_of_a_refusal_are_told_without_the_key(shape):
    body = json.dumps(shape).replace('{}', 'sk-SECRET-4711').encode()
    with Server(plain(body, 'application/json', 403)) as server:
        with pytest.raises(ServerError, match='403.*no: <key>') as error:
            OpenAILM('m', server.url, 'sk-SECRET-4711').call(ROLE, question='What?')
    assert 'SECRET' not in str(error.value)


def test_a_model_that_fails_to_hold_the_form_is_asked_in_a_simpler_one_this_time():
    failed = {'message': 'Failed to generate JSON', 'code': 'json_validate_failed', 'failed_generation': 'the seed'}
    with Server(refuse('json_schema', 400, {'error': failed})) as server:
        lm = OpenAILM('m', server.url, 'sk-none', **OPTIONS)
        for _ in range(2):
            assert lm.call(ROLE, question='What?').reply.answer == 'a kite'
    assert [form_of(request) for request in server.requests][1::2] != ['json_schema'] * 2
    assert form_of(server.requests[-2]) == 'json_schema'


# Errors inside a success, a server that loads its model, an address without /v1


def inside(error):
    return plain(json.dumps(error).encode(), 'application/json')


def test_an_error_inside_a_success_counts_as_such():
    limited = inside({'error': {'message': 'rate limited upstream', 'code': 429}})
    broken = inside({'choices': [{'error': {'code': 502, 'message': 'gone'}, 'finish_reason': 'error', 'message': {}}]})
    busy = inside({'code': 1305, 'msg': 'The server is overloaded'})
    with Server(limited, broken, busy, chat(GOOD_TEXT)) as server:
        assert OpenAILM('m', server.url, 'sk-none', max_retries=3).call(ROLE, question='?').reply.answer == 'a kite'
    assert len(server.requests) == 4
    with Server(limited) as server:
        with pytest.raises(ServerError, match='429 - .*rate limited upstream'):
            OpenAILM('m', server.url, 'sk-none', max_retries=1).call(ROLE, question='?')
    assert len(server.requests) == 2


def test_a_success_that_is_none_is_quoted():
    with Server(inside({'detail': 'ask the administrator'})) as server:
        with pytest.raises(ServerError, match='something else than a chat completion: .*ask the administrator'):
            OpenAILM('m', server.url, 'sk-none').call(ROLE, question='?')


@pytest.mark.parametrize('words', ['Loading model', 'Model m is currently loading', 'the model is not ready yet'])
def test_a_server_that_loads_its_model_is_waited_for(words, monkeypatch):
    monkeypatch.setattr(time, 'sleep', lambda seconds: None)
    with Server(*[fail(503, words)] * 9, chat(GOOD_TEXT)) as server:
        assert OpenAILM('m', server.url, 'sk-none').call(ROLE, question='?').reply.answer == 'a kite'
    with Server(fail(503, words)) as server:
        with pytest.raises(ServerError, match=words):
            OpenAILM('m', server.url, 'sk-none', timeout=0.2).call(ROLE, question='?')
    with Server(fail(503, 'error loading model: out of memory')) as server:
        with pytest.raises(ServerError, match='out of memory'):
            OpenAILM('m', server.url, 'sk-none', max_retries=1).call(ROLE, question='?')
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    ('url', 'seconds'),
    [
        ('http://localhost:1/v1', 600),
        ('http://127.0.0.1:1/v1', 600),
        ('http://127.8.0.1/v1', 600),
        ('http://[::1]:1/v1', 600),
        ('http://0.0.0.0:1/v1', 600),
        ('http://localhost.example.org/v1', 60),
        ('https://api.openai.com/v1', 60),
    ],
)
def test_a_server_on_this_machine_is_waited_for_longer(url, seconds):
    assert OpenAILM('m', url)._server.timeout == seconds
    assert OpenAILM('m', url, timeout=7)._server.timeout == 7


def test_an_address_that_does_not_end_in_v1_is_asked_about():
    missing = plain(b'404 page not found', 'text/plain', 404)
    for answer in (missing, inside({'error': 'Unexpected endpoint or method. (POST /chat/completions)'})):
        with Server(answer) as server:
            with pytest.raises(
                ServerError, match='(page not found|Unexpected endpoint).*should the address end in /v1'
            ):
                OpenAILM('m', server.url.removesuffix('/v1'), 'x').call(ROLE, question='?')
            with pytest.raises(ServerError) as error:
                OpenAILM('m', server.url, 'x').call(ROLE, question='?')
        assert 'should' not in str(error.value) and len(server.requests) == 2


# Messages in other shapes

DRAFT = 'perhaps {"answer": "a boat", "sources": []}, or not. '
REASONING = {'type': 'thinking', 'thinking': [{'type': 'text', 'text': DRAFT}]}
MESSAGES = {
    'a text': {'content': GOOD_TEXT},
    'parts': {'content': [{'type': 'text', 'text': GOOD_TEXT[:20]}, {'type': 'text', 'text': GOOD_TEXT[20:]}]},
    'thoughts as a part': {'content': [REASONING, {'type': 'text', 'text': GOOD_TEXT}]},
    'a typed output': {'content': [{'type': 'reasoning', 'text': DRAFT}, {'type': 'output_text', 'text': GOOD_TEXT}]},
    'parts without a type': {'content': [{'text': GOOD_TEXT}]},
    'the object itself': {'content': json.loads(GOOD_TEXT)},
    'a tool call': {
        'content': None,
        'tool_calls': [{'id': 'c', 'type': 'function', 'function': {'name': 'f', 'arguments': GOOD_TEXT}}],
    },
    'a tool call with an object': {'content': '', 'tool_calls': [{'function': {'arguments': json.loads(GOOD_TEXT)}}]},
    'a function call': {'content': None, 'function_call': {'name': 'f', 'arguments': GOOD_TEXT}},
    'the reply as thoughts': {'content': None, 'reasoning_content': GOOD_TEXT},
    'the reply as reasoning': {'content': None, 'reasoning': f'So: {GOOD_TEXT}'},
    'thoughts beside': {'content': GOOD_TEXT, 'reasoning_content': DRAFT, 'reasoning': DRAFT},
}


def says(message, finish='stop'):
    choice = {'index': 0, 'finish_reason': finish, 'message': {'role': 'assistant', **message}}
    return inside({'id': 'x', 'object': 'chat.completion', 'created': 0, 'model': 'm', 'choices': [choice]})


@pytest.mark.parametrize('name', MESSAGES)
def test_a_message_is_read_in_any_shape(name):
    with Server(says(MESSAGES[name])) as server:
        call = OpenAILM('m', server.url, 'sk-none').call(ROLE, question='?')
    assert call.reply.answer == 'a kite' and call.attempts == len(server.requests) == 1


@pytest.mark.parametrize(
    ('message', 'finish', 'problem'),
    [
        ({'content': None, 'reasoning_content': DRAFT}, 'length', 'it was cut off while thinking, before any reply'),
        ({'content': '<think>' + DRAFT}, 'length', 'it was cut off while thinking, before any reply'),
        ({'content': None}, 'length', 'it was cut off while thinking, before any reply'),
        ({'content': [REASONING]}, 'stop', 'it has thoughts and no reply'),
        ({'content': None, 'reasoning': DRAFT}, 'stop', 'it has thoughts and no reply'),
        ({'content': None}, 'stop', 'it was empty'),
    ],
)
def test_a_message_of_thoughts_alone_is_said_to_be_one(message, finish, problem):
    with Server(says(message, finish)) as server:
        with pytest.raises(ReplyError, match=problem):
            OpenAILM('m', server.url, 'sk-none').call(ROLE, question='?')


MARKS = [
    '<think>{}</think>',
    '<THINK>{}</THINK>\n\n',
    '<think>a</think>\n<think>{}</think>',
    '<think>a <think>b</think> {}</think>',
    'Sure.\n<think>{}</think>',
    '{}</think>',
    '{} </thinking>\n',
    '<thinking>{}</thinking>',
    '<thinking budget="9">{}</thinking>',
    '<thought>{}</thought>',
    '<reasoning>{}</reasoning>',
    '<seed:think>{}</seed:think>',
    '[THINK]{}[/THINK]',
    '◁think▷{}◁/think▷',
    '<|START_THINKING|>{}<|END_THINKING|>',
    '<|begin_of_thought|>{}<|end_of_thought|>',
    '<|channel|>analysis<|message|>{}<|end|><|start|>assistant<|channel|>final<|message|>',
    '<|channel|>analysis<|message|>{}<|end|><|start|>assistant<|channel|>final <|constrain|>json<|message|>',
    'analysis{}assistantfinal',
    '<|channel>thought\n{}<channel|>',
]


@pytest.mark.parametrize('mark', MARKS)
def test_thoughts_are_left_out_whatever_their_marks(mark):
    text = mark.replace('{}', DRAFT) + GOOD_TEXT
    assert read_reply(text, AnswerReply).answer == 'a kite'
    opening = mark.partition('{}')[0]
    if opening and 'analysis{' not in mark and 'Sure' not in mark and '</' not in opening:
        with pytest.raises(ValueError, match='thoughts and no reply'):
            read_reply(opening + DRAFT, AnswerReply)


def test_marks_inside_of_a_reply_and_fields_in_tags_are_no_thoughts():
    class Step(Reply):
        reasoning: str
        answer: str

    quoted = '{"answer": "he wrote <think>hm</think> and </think>", "sources": []}'
    for text in (quoted, f'```json\n{quoted}\n```', f'<think>{DRAFT}</think>{GOOD_TEXT}{quoted[:0]}'):
        expected = 'a kite' if GOOD_TEXT in text else 'he wrote <think>hm</think> and </think>'
        assert read_reply(text, AnswerReply).answer == expected
    step = read_reply('<reasoning>it flies</reasoning><answer>a kite</answer>', Step)
    assert (step.reasoning, step.answer) == ('it flies', 'a kite')
