"""Replies of a server: a deadline for a whole request, a bound on its size, its cost where it cannot be read, no key anywhere."""

import asyncio
import json
import re
import socket
import threading
import time
from contextlib import contextmanager
from urllib.parse import quote

import pytest

from memnb.core.retriever import waited
from memnb.core import models
from memnb.core.conversation import Conversation
from memnb.core.models import FunctionLM, OpenAILM
from memnb.core.roles import ANSWER, RuleLM, ServerError, Usage
from memnb.remem.graph import GistGraph
from memnb.remem.loop import REMem
from memnb.retrieval.vectors import EmbedderError, OpenAIEmbedder

KEY = 'c2VjcmV0/a2V5+Zm9yIHRlc3Rz=='
HEAD = b'HTTP/1.1 %s\r\nContent-Type: application/json\r\nConnection: close\r\n'
GOOD = {
    'choices': [
        {
            'index': 0,
            'finish_reason': 'stop',
            'message': {'role': 'assistant', 'content': '{"answer": "yes", "sources": []}'},
        }
    ],
    'usage': {'prompt_tokens': 7, 'completion_tokens': 3},
}


@contextmanager
def serve(answer):
    """A server whose every answer is what a function sends over the socket; it gives up when the client is gone."""
    listening = socket.create_server(('127.0.0.1', 0))

    def work():
        while True:
            try:
                peer, _ = listening.accept()
            except OSError:
                return
            with peer:
                try:
                    peer.settimeout(10)
                    data = b''
                    while b'\r\n\r\n' not in data:
                        data += peer.recv(65536)
                    head, _, body = data.partition(b'\r\n\r\n')
                    length = int(re.search(rb'(?i)content-length: *(\d+)', head)[1])
                    while len(body) < length:  # closing with something unread would reset the connection
                        body += peer.recv(65536)
                    answer(peer)
                except OSError:
                    pass

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield f'http://127.0.0.1:{listening.getsockname()[1]}/v1'
    finally:
        listening.close()


def sends(body, status=b'200 OK'):
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    return lambda peer: peer.sendall(HEAD % status + b'Content-Length: %d\r\n\r\n' % len(body) + body)


def drips(peer, first):
    """Send some bytes at once, and then one each tenth of a second, for half a minute."""
    peer.sendall(first)
    for _ in range(300):
        time.sleep(0.1)
        peer.sendall(b' ')


def body_drips(peer):
    drips(peer, HEAD % b'200 OK' + b'Content-Length: 5000\r\n\r\n{')


def head_drips(peer):
    drips(peer, b'HTTP/1.1 200 OK\r\nX-Slow: ')


def failure_drips(peer):
    drips(peer, HEAD % b'500 Broken' + b'Content-Length: 5000\r\n\r\n{')


@pytest.mark.parametrize('answer', [body_drips, head_drips, failure_drips])
def test_a_request_has_a_deadline_however_often_a_byte_comes(answer):
    with serve(answer) as url:
        lm = OpenAILM('m', url, KEY, timeout=0.5, max_retries=0)
        with pytest.raises(ServerError, match='no whole reply within 0.5 s'):
            lm.ask(ANSWER, question='Who?')
        with pytest.raises(EmbedderError, match='m: '):
            server = OpenAIEmbedder('m', url, timeout=0.5)
            server._server.max_retries = 0
            server(['a text'])
    with serve(sends(GOOD)) as url:  # the client was closed, and the next request has another one
        lm._server.url = url
        assert lm.ask(ANSWER, question='Who?').answer == 'yes'


@pytest.mark.parametrize('status', [b'200 OK', b'400 Bad Request', b'503 Busy'])
def test_a_reply_without_end_is_left_after_a_bound(status, monkeypatch):
    monkeypatch.setattr(models, '_LARGEST', 100_000)
    sent = []

    def endless(peer):
        peer.sendall(HEAD % status + b'\r\n')
        for _ in range(1000):
            peer.sendall(b' ' * 10_000)
            sent.append(10_000)

    with serve(endless) as url:
        with pytest.raises(ServerError, match='longer than 100,000 bytes'):
            OpenAILM('m', url, KEY, timeout=5, max_retries=0).ask(ANSWER, question='Who?')
    assert sum(sent) < 10_000_000  # what the sockets hold, and no more


def test_a_compressed_reply_has_a_smaller_bound(monkeypatch):
    import gzip

    packed = gzip.compress(json.dumps(GOOD | {'more': ' ' * 20_000_000}).encode())

    def answer(peer):
        peer.sendall(HEAD % b'200 OK' + b'Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n' % len(packed) + packed)

    with serve(answer) as url:
        lm = OpenAILM('m', url, KEY, timeout=20, max_retries=0)
        assert lm.ask(ANSWER, question='Who?').answer == 'yes'
        monkeypatch.setattr(models, '_LARGEST', 1_000_000)
        with pytest.raises(ServerError, match='longer than 10,000 bytes'):
            lm.ask(ANSWER, question='Who?')


@pytest.mark.parametrize(
    'reply',
    [
        dict(GOOD, choices=[]),
        dict(GOOD, choices=None),
        dict(GOOD, choices=[{'index': 0, 'message': None}]),
        dict(GOOD, choices=[None]),
    ],
)
def test_a_reply_that_was_paid_for_and_cannot_be_used_is_counted(reply):
    with serve(sends(reply)) as url:
        with pytest.raises(ServerError) as told:
            OpenAILM('m', url, KEY, max_retries=0).ask(ANSWER, question='Who?')
    assert told.value.usage == Usage(1, 7, 3)


@pytest.mark.parametrize('body', [b'{"choices": "\xff\xfe', b'{"choices": [', b'[[[[' * 50_000, b''])
def test_a_reply_that_cannot_be_decoded_is_counted_by_its_prompt(body):
    with serve(sends(body)) as url:
        with pytest.raises(ServerError) as told:
            OpenAILM('m', url, KEY, max_retries=0).ask(ANSWER, question='Who?')
    assert told.value.usage.calls == 1 and told.value.usage.estimated and told.value.usage.prompt_tokens > 5


def test_what_a_server_refuses_costs_nothing():
    with serve(sends({'error': {'message': 'no'}}, b'401 Unauthorized')) as url:
        with pytest.raises(ServerError) as told:
            OpenAILM('m', url, KEY, max_retries=0).ask(ANSWER, question='Who?')
    assert told.value.usage == Usage()


@pytest.mark.parametrize(
    'form',
    [
        KEY,
        quote(KEY, safe=''),
        quote(KEY),
        KEY.replace('/', '%2f').replace('=', '%3d'),
        KEY.replace('/', '\\/'),
        KEY.replace('+', '\\u002B'),
        json.dumps(KEY),
    ],
)
def test_a_key_that_a_server_sends_back_in_any_form_is_in_no_text(form):
    parts = [part for part in KEY.replace('/', ' ').replace('+', ' ').split() if len(part) > 6]
    with serve(sends({'error': {'message': f'you said {form}'}}, b'401 Unauthorized')) as url:
        with pytest.raises(ServerError) as told:
            OpenAILM('m', url, KEY, max_retries=0).ask(ANSWER, question='Who?')
    assert '<key>' in str(told.value) and not any(part in str(told.value) for part in parts)


def test_an_awaited_store_that_never_answers_is_left():
    async def never():
        await asyncio.Event().wait()

    async def slow():
        raise TimeoutError('of the store itself')

    with pytest.raises(TimeoutError, match='no answer within 0.1 s'):
        waited(never, 0.1)()
    with pytest.raises(TimeoutError, match='of the store itself'):
        waited(slow, 30)()


@pytest.mark.parametrize('reply', ['null', '[]', '[["function"]]', '"function"', '5'])
def test_a_choice_of_tools_that_is_no_object_is_a_failure_of_its_step(reply):
    graph = GistGraph.of(Conversation.of('c', [(None, [('Ana', 'I sold my kite.')])]), RuleLM())
    trace = REMem(graph, FunctionLM(lambda prompt: reply, 'a model')).ask('Who sold a kite?')
    assert trace.read == ['D1:1'] and 'no usable reply' in trace.steps[0].error and trace.answer and trace.error is None
