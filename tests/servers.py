"A small chat server on the loopback that misbehaves on purpose."

import json
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

KEY = 'sk-test-SECRET'


@dataclass
class Answer:
    "What the server does with one request."

    body: bytes = b''
    status: int = 200
    headers: dict = field(default_factory=dict)
    stall: float = 0  # seconds before anything is sent
    drop: int | None = None  # close the connection after so many bytes of the body; 0: send not even a status


def chat(text='', *, finish='stop', usage=(7, 3), refusal=None, **more):
    "An answer that a chat server gives; `text` may be None, a value to be sent as JSON, or a function of the request."

    def answer(request):
        said = text(request) if callable(text) else text
        said = said if said is None or isinstance(said, str) else json.dumps(said)
        body = {
            'id': 'x',
            'object': 'chat.completion',
            'created': 0,
            'model': request.get('model', ''),
            'choices': [
                {
                    'index': 0,
                    'finish_reason': finish,
                    'message': {'role': 'assistant', 'content': said, 'refusal': refusal},
                }
            ],
        }
        if usage:
            body['usage'] = {'prompt_tokens': usage[0], 'completion_tokens': usage[1], 'total_tokens': sum(usage)}
        return Answer(json.dumps(body).encode(), **more)

    return answer


def fail(status, message='no', **headers):
    "An HTTP error; `message` may be a function of the request."

    def answer(request):
        said = message(request) if callable(message) else message
        headers_sent = {name.replace('_', '-'): str(value) for name, value in headers.items()}
        return Answer(json.dumps({'error': {'message': said, 'type': 'x'}}).encode(), status, headers_sent)

    return answer


def plain(body, content_type='text/html', status=200):
    "An answer that is no chat completion at all."
    return lambda request: Answer(body, status, {'Content-Type': content_type})


def refuse_forms(forms, text, message='response_format is not supported', status=400):
    "Refuse the listed kinds of `response_format` and answer the others with `text`."

    def answer(request):
        form = (request.get('response_format') or {'type': 'text'})['type']
        return fail(status, message)(request) if form in forms else chat(text)(request)

    return answer


def schema_of(request):
    "The schema that a request asks for, as a careless model would send it back."
    return request['response_format']['json_schema']['schema']


def authorization(request):
    "Quote the key, as some servers do where they refuse it."
    return f"Incorrect API key provided: {request['_headers'].get('authorization')}"


class Server:
    "Serves the answers in order, the last one for ever; `requests` are the bodies that came. At most `limit` are served."

    def __init__(self, *answers, limit=200):
        self.answers, self.requests, self.limit = list(answers), [], limit
        self.lock, self.closing = threading.Lock(), threading.Event()

    def __enter__(self):
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = 'HTTP/1.1'
            timeout = 20

            def do_POST(self):
                outer.handle(self)

            def log_message(self, *_):
                pass

        self.http = ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        self.http.daemon_threads, self.http.block_on_close = True, False
        self.http.handle_error = lambda *_: None
        self.url = f'http://127.0.0.1:{self.http.server_port}/v1'
        threading.Thread(target=self.http.serve_forever, kwargs={'poll_interval': 0.02}, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.closing.set()
        self.http.shutdown()
        self.http.server_close()

    def next_answer(self, request):
        with self.lock:
            self.requests.append(request)
            if len(self.requests) > self.limit:
                return fail(403, 'this test server has served enough')(request)
            answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return answer(request)

    def handle(self, connection):
        request = json.loads(connection.rfile.read(int(connection.headers['Content-Length'])))
        request['_path'] = connection.path
        request['_headers'] = {name.lower(): value for name, value in connection.headers.items()}
        answer = self.next_answer(request)
        if answer.stall:
            self.closing.wait(answer.stall)
        if answer.drop == 0:
            connection.close_connection = True
            connection.connection.close()
            return
        connection.send_response(answer.status)
        for name, value in {'Content-Type': 'application/json', **answer.headers}.items():
            connection.send_header(name, value)
        connection.send_header('Content-Length', str(len(answer.body)))
        connection.end_headers()
        connection.wfile.write(answer.body[: answer.drop])
        if answer.drop is not None:
            connection.wfile.flush()
            connection.close_connection = True
            connection.connection.close()
