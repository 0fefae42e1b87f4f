"""Qdrant over a socket without its server, which no package brings: the real client speaks HTTP to the loopback, and behind it
Qdrant's own engine (`qdrant-edge-py`, the code of the server in Rust) stores, filters and ranks. Requests are read by the client's
own types, so one that no server would understand is refused. What is ours here is the routing between the two, and nothing else."""
import json
import re
import tempfile
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import qdrant_edge as edge
from qdrant_client import QdrantClient, models

KINDS = {'keyword': edge.PayloadSchemaType.Keyword, 'integer': edge.PayloadSchemaType.Integer}


def to_edge(condition):
    """A condition or filter of the client's as one of the engine's; TypeError for what no test has asked yet."""
    if isinstance(condition, models.Filter):
        parts = {part: getattr(condition, part) for part in ('must', 'should', 'must_not')}
        return edge.Filter(**{part: [to_edge(one) for one in found] for part, found in parts.items() if found})
    if isinstance(condition, models.IsEmptyCondition):
        return edge.IsEmptyCondition(condition.is_empty.key)
    if isinstance(condition, models.HasIdCondition):
        return edge.HasIdCondition(set(condition.has_id))
    if isinstance(condition, models.FieldCondition):
        if isinstance(condition.match, models.MatchAny):
            return edge.FieldCondition(condition.key, match=edge.MatchAny(list(condition.match.any)))
        if isinstance(condition.match, models.MatchValue):
            return edge.FieldCondition(condition.key, match=edge.MatchValue(condition.match.value))
        if isinstance(condition.range, models.Range):
            return edge.FieldCondition(condition.key, range=edge.RangeFloat(**condition.range.model_dump(exclude_none=True)))
    raise TypeError(f'no such condition here: {condition!r}')


class Engine:
    """Collections of the real engine, and their descriptions as the client's embedded twin gives them."""
    def __init__(self, folder):
        self.folder, self.shards, self.described, self.lock = folder, {}, QdrantClient(':memory:'), threading.Lock()

    def create(self, name, body):
        asked = models.CreateCollection.model_validate(body)
        self.described.create_collection(name, asked.vectors, metadata=asked.metadata)
        place = tempfile.mkdtemp(dir=self.folder)
        self.shards[name] = edge.EdgeShard.create(place, edge.EdgeConfig(vectors=edge.EdgeVectorParams(asked.vectors.size, edge.Distance.Cosine)))
        return True

    def index(self, name, body):
        asked = models.CreateFieldIndex.model_validate(body)
        self.shards[name].update(edge.UpdateOperation.create_field_index(asked.field_name, KINDS[asked.field_schema.value]))
        return {'operation_id': 0, 'status': 'completed'}

    def upsert(self, name, body):
        points = models.PointsList.model_validate(body).points
        self.shards[name].update(edge.UpdateOperation.upsert_points([edge.Point(one.id, one.vector, one.payload) for one in points]))
        return {'operation_id': 0, 'status': 'completed'}

    def retrieve(self, name, body):
        asked = models.PointRequest.model_validate(body)
        return [{'id': one.id if isinstance(one.id, int) else str(one.id), 'payload': one.payload}
                for one in self.shards[name].retrieve(list(asked.ids), with_payload=asked.with_payload, with_vector=False)]

    def query(self, name, body):
        asked = models.QueryRequest.model_validate(body)
        found = self.shards[name].query(edge.QueryRequest(
            asked.limit, query=edge.Query.Nearest(asked.query.nearest), with_payload=asked.with_payload, filter=asked.filter and to_edge(asked.filter)))
        return {'points': [{'id': one.id if isinstance(one.id, int) else str(one.id), 'version': one.version, 'score': one.score,
                            'payload': one.payload} for one in found]}

    def answer(self, method, path, body):
        """The result of a request. `KeyError` for a collection that is not there, and for a path that means nothing here."""
        if path == '/':
            return None
        name, rest = re.fullmatch(r'/collections/([^/]+)(.*)', path).groups()
        if rest == '/exists':
            return {'exists': name in self.shards}
        if (method, rest) == ('PUT', ''):
            return self.create(name, body)
        if (method, rest) == ('DELETE', ''):
            return self.described.delete_collection(name) and self.shards.pop(name, None) is not None
        self.shards[name]
        if (method, rest) == ('GET', ''):
            return json.loads(self.described.get_collection(name).model_dump_json())
        ways = {('PUT', '/index'): self.index, ('PUT', '/points'): self.upsert, ('POST', '/points'): self.retrieve, ('POST', '/points/query'): self.query}
        return ways[method, rest](name, body)


@contextmanager
def served():
    """The address of a Qdrant that speaks HTTP, and the list of what it was asked: (method, path, body, headers)."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = 'HTTP/1.1'

        def do_GET(self):
            path, body = self.path.partition('?')[0], json.loads(self.rfile.read(int(self.headers.get('Content-Length') or 0)) or 'null')
            asked.append((self.command, self.path, body, dict(self.headers)))
            try:
                with engine.lock:
                    result = engine.answer(self.command, path, body)
                self.reply(200, {'title': 'qdrant', 'version': '1.20.0'} if path == '/' else {'result': result, 'status': 'ok', 'time': 0.0})
            except KeyError as error:
                self.reply(404, {'status': {'error': f'Not found: {error}'}, 'time': 0.0})
            except Exception as error:
                self.reply(400, {'status': {'error': f'{type(error).__name__}: {error}'}, 'time': 0.0})

        do_PUT = do_POST = do_DELETE = do_GET

        def reply(self, status, found):
            text = json.dumps(found).encode()
            self.send_response(status)
            self.send_header('Content-Type', 'application/json')
            self.send_header('Content-Length', str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_):
            pass

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        engine = Engine(folder)
        server = ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, kwargs={'poll_interval': .02}, daemon=True).start()
        try:
            yield f'http://127.0.0.1:{server.server_address[1]}', asked
        finally:
            server.shutdown()
            server.server_close()
