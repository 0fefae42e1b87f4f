"""Downloads from a server on this machine that breaks off, ignores ranges, changes its file, lies about it, redirects and is slow."""
import functools
import hashlib
import io
import json
import ssl
import subprocess
import sys
import threading
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memnb.evaluation import registry as download
from memnb.evaluation.registry import data_command, get, listing, Source, SOURCES
from memnb.evaluation.datasets import (
    DownloadError, fetch, first_byte, Limits, Part, Refused, StartOver, validator_of)
from memnb.evaluation.registry import DATASETS

CONTENT = bytes(range(256)) * 8
OTHER = CONTENT[::-1]
SLOW = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]


@dataclass(frozen=True)
class Manners:
    """How a server answers one request."""
    content: bytes = CONTENT
    status: int = 200 # other than 200: an answer without the file
    drop: int | None = None # close after so many bytes of the body
    ranges: str = 'if' # 'if': knows Range and If-Range; 'always': ignores If-Range; 'never': ignores Range
    tag: str = 'strong' # ETag: 'strong', 'weak', 'none'; 'same': one that does not change with the content; 'date': Last-Modified only
    headers: tuple = () # more headers
    stall: float = 0 # seconds before anything is sent
    length: str = 'right' # Content-Length: 'right', 'none' (closes instead)


class Handler(BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'

    def do_GET(self):
        server, wanted, condition = self.server, self.headers.get('Range'), self.headers.get('If-Range')
        server.asked.append((self.path, wanted, condition))
        manners = server.manners.pop(0) if len(server.manners) > 1 else server.manners[0]
        server.closing.wait(manners.stall)
        validators = self.validators(manners)
        start = 0
        if wanted and manners.status == 200 and manners.ranges != 'never':
            if manners.ranges == 'always' or condition in validators.values():
                start = int(wanted.removeprefix('bytes=').removesuffix('-'))
        self.answer(manners, validators, start)

    def validators(self, manners):
        digest = hashlib.sha256(manners.content).hexdigest()[:8]
        return {'strong': {'ETag': f'"{digest}"'}, 'weak': {'ETag': f'W/"{digest}"'}, 'none': {}, 'same': {'ETag': '"same"'},
                'date': {'Last-Modified': f'Mon, 01 Jan 2024 00:00:{int(digest, 16) % 60:02} GMT'}}[manners.tag]

    def answer(self, manners, headers, start):
        size, status = len(manners.content), manners.status
        body = manners.content[start:] if status == 200 else b''
        if status == 200 and start >= size and start:
            status, body, headers = 416, b'', {**headers, 'Content-Range': f'bytes */{size}'}
        elif start:
            status, headers = 206, {**headers, 'Content-Range': f'bytes {start}-{size - 1}/{size}'}
        self.send_response(status)
        for name, value in {**headers, **dict(manners.headers)}.items():
            self.send_header(name, value)
        if manners.length == 'right':
            self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body[:manners.drop])
        self.close_connection = manners.drop is not None or manners.length == 'none'

    def log_message(self, *_):
        pass


class Shelf(ThreadingHTTPServer):
    daemon_threads, block_on_close = True, False

    def handle_error(self, *_):
        pass


@pytest.fixture(scope='module')
def shelf():
    server = Shelf(('127.0.0.1', 0), Handler)
    server.asked, server.manners, server.closing = [], [Manners()], threading.Event()
    server.url = f'http://127.0.0.1:{server.server_port}/toy.bin'
    threading.Thread(target=server.serve_forever, kwargs={'poll_interval': .02}, daemon=True).start()
    yield server
    server.closing.set()
    server.shutdown()
    server.server_close()


@pytest.fixture(scope='module', autouse=True)
def certificates_are_read_once():
    """Each client would read all certificates anew, which takes longer than what is tested."""
    patch = pytest.MonkeyPatch()
    patch.setattr(ssl, 'create_default_context', functools.cache(ssl.create_default_context))
    yield
    patch.undo()


@pytest.fixture
def fetched(shelf, tmp_path):
    """Fetch into an empty folder from a server with these manners; what was told."""
    def run(*manners, sha256=hashlib.sha256(CONTENT).hexdigest(), folder=tmp_path / 'data', url=None, agreed=True, **limits):
        shelf.asked.clear()
        shelf.manners[:] = manners or [Manners()]
        source = Source('A toy', shelf.url, 'toy.bin', 'CC0', 'https://example.org', 'Do what you like.', sha256, Limits(**{'timeout': 5, **limits}))
        told = []
        path = get('toy', folder, url=url, agreed=agreed, tell=told.append, sources={'toy': source})
        assert path == Path(folder) / 'toy.bin' and path.read_bytes() == CONTENT
        assert [one.name for one in path.parent.iterdir() if '.part' in one.name] == []
        return told
    run.folder = tmp_path / 'data'
    run.names = lambda: sorted(one.name for one in run.folder.iterdir()) if run.folder.exists() else []
    run.ranges = lambda: [wanted for _, wanted, _ in shelf.asked]
    return run


def test_a_whole_file(fetched, shelf):
    told = fetched()
    assert fetched.names() == ['toy.bin'] and fetched.ranges() == [None]
    assert [line for line in told if 'CC0' in line and shelf.url in line and 'Do what you like.' in line]
    assert told[-1].endswith('whole, and its SHA-256 is right')


def test_a_good_file_is_not_fetched_again_and_nobody_is_asked(fetched):
    fetched()
    assert fetched(agreed=False) == [f'{fetched.folder / "toy.bin"} is there already']
    assert fetched.ranges() == []


def test_a_file_of_the_user_is_left_alone(fetched):
    fetched.folder.mkdir()
    (fetched.folder / 'toy.bin').write_bytes(OTHER)
    with pytest.raises(DownloadError, match='is there already with another SHA-256'):
        fetched()
    assert (fetched.folder / 'toy.bin').read_bytes() == OTHER and fetched.ranges() == []
    (fetched.folder / 'toy.bin').unlink()
    (fetched.folder / 'toy.bin').mkdir()
    with pytest.raises(DownloadError, match='is no file'):
        fetched()


@pytest.mark.parametrize('agreed', [False, lambda question: False, lambda question: None])
def test_nothing_is_fetched_or_made_without_a_yes(fetched, agreed):
    with pytest.raises(DownloadError, match='toy: not fetched, since nobody agreed'):
        fetched(agreed=agreed)
    assert fetched.ranges() == [] and not fetched.folder.exists()


def test_the_terms_come_before_the_question(fetched, shelf):
    order = []
    source = Source('A toy', shelf.url, 'toy.bin', 'CC0', 'https://example.org', 'Do what you like.', None)
    with pytest.raises(DownloadError):
        get('toy', fetched.folder, agreed=lambda question: order.append(question), tell=order.append, sources={'toy': source})
    assert 'Do what you like.' in order[0] and 'not known; the file cannot be verified' in order[0]
    assert order[1] == 'Fetch it under these terms?' and len(order) == 2


SIZE = len(CONTENT)


@given(st.lists(st.integers(0, SIZE), min_size=1, max_size=5), st.sampled_from(['strong', 'date', 'weak', 'none']),
       st.sampled_from(['if', 'always', 'never']), st.integers(1, 3))
@settings(max_examples=40, deadline=None, suppress_health_check=SLOW)
def test_a_download_that_breaks_off_ends_as_an_unbroken_one(shelf, tmp_path_factory, drops, tag, ranges, tries):
    part = Part(tmp_path_factory.mktemp('part') / 'toy.bin')
    shelf.asked.clear()
    shelf.manners[:] = [*(Manners(drop=drop, tag=tag, ranges=ranges) for drop in drops), Manners(tag=tag, ranges=ranges)]
    have, plan, done = 0, [], False  # what a reader of the rules expects
    for drop in [*drops, SIZE]:
        if done:
            break
        resumes = have and tag in ('strong', 'date')
        plan.append(f'bytes={have}-' if resumes else None)
        start = have if resumes and ranges != 'never' else 0
        have = start + min(drop, SIZE - start)
        done = have == SIZE
    for _ in range(len(drops) + 1):
        try:
            fetch(shelf.url, part, Limits(tries=tries, timeout=5), lambda line: None)
        except DownloadError as error:
            assert 'broke off' in str(error)
            assert ('goes on from there' in str(error)) == (tag in ('strong', 'date') and part.size > 0)
        else:
            break
    assert part.path.read_bytes() == CONTENT
    assert [wanted for _, wanted, _ in shelf.asked] == plan


@pytest.mark.parametrize('tag', ['strong', 'date', 'none', 'weak', 'same'])
@pytest.mark.parametrize('ranges', ['if', 'always', 'never'])
def test_two_halves_are_of_one_file(fetched, tag, ranges):
    with pytest.raises(DownloadError, match='broke off at byte 700'):
        fetched(Manners(content=OTHER, drop=700, tag=tag, ranges=ranges), tries=1)
    told = fetched(Manners(tag=tag, ranges=ranges))  # checks that the file is the new one, whole
    once_more = [line for line in told if 'once more from the beginning' in line]
    assert bool(once_more) == (tag == 'same' and ranges != 'never')  # a server that lies is found out by the hash alone
    assert fetched.names() == ['toy.bin']


def test_the_file_changes_within_a_run(fetched):
    fetched(Manners(content=OTHER, drop=700), Manners(drop=900), Manners(), tries=3)
    assert fetched.ranges() == [None, 'bytes=700-', 'bytes=900-']


def test_a_part_that_is_whole_already(fetched, shelf):
    with pytest.raises(DownloadError):
        fetched(Manners(drop=700), tries=1)
    part = Part(fetched.folder / 'toy.bin')
    part.path.write_bytes(CONTENT)
    fetched()
    assert fetched.ranges() == [f'bytes={SIZE}-']
    (fetched.folder / 'toy.bin').unlink()
    part.path.write_bytes(CONTENT + b'more')  # longer than the file: the server has no such range
    part.remember(shelf.url, Handler.validators(None, Manners())['ETag'])
    fetched()
    assert fetched.ranges() == [f'bytes={SIZE + 4}-', None]


@pytest.mark.parametrize('note', ['', '{', '[]', 'null', '{"url": 3}', '{"url": "U", "validator": 3}', '{"url": "U", "validator": ""}',
                                  '{"url": "http://127.0.0.1/other", "validator": "\\"x\\""}', '{"url": "U"}', None, '\udcff'])
def test_a_part_of_unknown_origin_is_worth_nothing(fetched, shelf, note):
    fetched.folder.mkdir()
    part = Part(fetched.folder / 'toy.bin')
    part.path.write_bytes(OTHER[:500])
    if note is not None:
        part.note.write_bytes(note.replace('"U"', json.dumps(shelf.url)).encode('utf-8', 'surrogateescape'))
    fetched()
    assert fetched.ranges() == [None]


@pytest.mark.parametrize('manners', [Manners(content=OTHER), Manners(content=CONTENT[:-1]), Manners(content=CONTENT + b' '),
                                     Manners(content=b'<html>Sorry</html>'), Manners(content=b''), Manners(content=CONTENT[:99], length='none')])
def test_another_file_is_set_aside_and_never_used(fetched, manners):
    with pytest.raises(DownloadError, match='not the file that was meant: expected SHA-256 .* set aside') as error:
        fetched(manners)
    digest = hashlib.sha256(manners.content).hexdigest()
    assert fetched.ranges() == [None]
    assert fetched.names() == [f'toy.bin.wrong-{digest[:12]}'] and fetched.names()[0] in str(error.value)
    assert (fetched.folder / fetched.names()[0]).read_bytes() == manners.content
    fetched()
    assert 'toy.bin' in fetched.names()


def test_without_a_hash_the_file_is_not_called_verified(fetched):
    told = fetched(sha256=None)
    assert told[-1].endswith(f'its SHA-256 is {hashlib.sha256(CONTENT).hexdigest()}, which could not be verified')
    assert 'not verified' in fetched(sha256=None)[-1]


@pytest.mark.parametrize('manners, message', [
    (Manners(status=404), 'the server answered with status 404: there is no such file'), (Manners(status=410), 'no such file'),
    (Manners(status=403), 'status 403$'), (Manners(status=500), 'status 500$'), (Manners(status=204), 'status 204$'),
    (Manners(status=416), 'status 416$'), (Manners(status=206), 'status 206$'),
    (Manners(headers=(('Content-Encoding', 'gzip'),)), 'compressed'),
    (Manners(content=CONTENT * 2), f'expected {SIZE:,} bytes, and the server has {2 * SIZE:,}'),
])
def test_a_server_that_says_no_is_asked_once(fetched, shelf, manners, message):
    with pytest.raises(DownloadError, match=message) as error:
        fetched(manners, size=SIZE)
    assert str(error.value).startswith(shelf.url) and len(shelf.asked) == 1 and fetched.names() == []


def test_a_server_that_fails_later_keeps_what_came(fetched):
    with pytest.raises(DownloadError, match='status 503'):
        fetched(Manners(drop=700), Manners(status=503))
    fetched()
    assert fetched.ranges() == ['bytes=700-']


@pytest.mark.parametrize('length', ['right', 'none'])
def test_a_server_that_sends_too_much(fetched, length):
    with pytest.raises(DownloadError, match='expected at most 1,000 bytes'):
        fetched(Manners(length=length), most=1000)
    assert 'toy.bin' not in fetched.names() and bool(fetched.names()) == (length == 'none')  # where it says so, nothing is begun


def test_the_validator_is_kept_where_a_rest_has_none(fetched):
    fetched(Manners(drop=700), Manners(drop=400, ranges='always', tag='none'), Manners())
    assert fetched.ranges() == [None, 'bytes=700-', 'bytes=1100-']


@pytest.mark.parametrize('status', [301, 302, 303, 307, 308])
def test_redirects_are_followed(fetched, shelf, status):
    fetched(Manners(status=status, headers=(('Location', '/elsewhere.bin'),)), Manners())
    assert [path for path, _, _ in shelf.asked] == ['/toy.bin', '/elsewhere.bin']


def test_redirects_without_end_and_to_nowhere(fetched, shelf):
    with pytest.raises(DownloadError, match='cannot be reached: Exceeded maximum'):
        fetched(Manners(status=302, headers=(('Location', '/toy.bin'),)))
    assert len(shelf.asked) == 6
    for place in ('ftp://127.0.0.1/x', 'http://127.0.0.1:1x/', 'http://127.0.0.1:1/'):
        with pytest.raises(DownloadError, match='cannot be reached|Invalid URL in location header'):
            fetched(Manners(status=302, headers=(('Location', place),)))
    assert fetched.names() == []


def test_an_encrypted_address_does_not_lead_to_another(monkeypatch, tmp_path):
    import contextlib

    import httpx

    from memnb.evaluation import datasets as fetching

    def answer(request):
        return httpx.Response(302, headers={'Location': 'http://plain.test/x'}) if request.url.scheme == 'https' else httpx.Response(200, content=CONTENT)

    @contextlib.contextmanager
    def client(timeout):
        with httpx.Client(transport=httpx.MockTransport(answer), follow_redirects=True) as made:
            yield made
    monkeypatch.setattr(fetching, '_client', client)
    with pytest.raises(DownloadError, match='https://safe.test/x: it leads to http://plain.test/x, which is not encrypted'):
        fetch('https://safe.test/x', Part(tmp_path / 'x'), tell=lambda line: None)
    assert list(tmp_path.iterdir()) == []


def test_a_slow_server(fetched):
    with pytest.raises(DownloadError, match=r'broke off at byte 0 .*; tried 2 times$'):
        fetched(Manners(stall=3), timeout=.5, tries=2)
    assert fetched.ranges() == [None, None]
    fetched(Manners(drop=700), Manners(stall=3), Manners(), timeout=.5)
    assert fetched.ranges() == [None, 'bytes=700-', 'bytes=700-']


@pytest.mark.parametrize('url', ['http://127.0.0.1:1/x', 'http://127.0.0.1:99999/x', 'https://', 'http://127.0.0.1/\x00',
                                 'http://a..b:1/', 'http://xn--a:1/', 'http://127.0.0.1:1/\ud83d'])
def test_no_such_server(fetched, url):
    with pytest.raises(DownloadError, match='cannot be reached'):
        fetched(url=url, timeout=1)
    assert fetched.names() == []


@pytest.mark.parametrize('url', ['file:///etc/hostname', '/etc/hostname', 'ftp://x/y', 'locomo'])
def test_what_is_no_address(fetched, url):
    with pytest.raises(DownloadError, match='expected an address that begins with https:// or http://'):
        fetched(url=url)
    assert not fetched.folder.exists()


def test_a_mirror_must_have_the_same_file(fetched, shelf):
    fetched(url=shelf.url + '?mirror')
    assert shelf.asked[0][0] == '/toy.bin?mirror'
    (fetched.folder / 'toy.bin').unlink()
    with pytest.raises(DownloadError, match='not the file that was meant'):
        fetched(Manners(content=OTHER), url=shelf.url + '?mirror')


@pytest.mark.skipif(not Path('/dev/full').exists(), reason='there is no device that is always full')
def test_a_full_disk(fetched):
    fetched.folder.mkdir()
    (fetched.folder / 'toy.bin.part').symlink_to('/dev/full')
    with pytest.raises(DownloadError, match='toy.bin.part: cannot be written: No space left on device'):
        fetched()


def test_a_folder_that_cannot_be_made(fetched, tmp_path):
    (tmp_path / 'file').write_text('')
    with pytest.raises(DownloadError, match='cannot be written'):
        fetched(folder=tmp_path / 'file' / 'data')
    assert fetched.ranges() == []


@pytest.mark.parametrize('status, place, tag, expected', [
    (206, 'bytes 5-9/10', '"a"', 5), (206, 'bytes 5-9/*', '', 5), (206, 'bytes 0-9/10', '"a"', StartOver), (206, 'bytes 50-59/60', '"a"', StartOver),
    (206, '', '"a"', StartOver), (206, 'bytes 5-9/10', '"b"', StartOver), (416, 'bytes */5', '', None), (416, 'bytes */50', '', StartOver),
    (200, 'bytes 5-9/10', '"a"', 0), (304, 'bytes 5-9/10', '"a"', Refused)])
def test_where_a_rest_may_begin(status, place, tag, expected):
    headers = {'content-range': place, 'etag': tag}
    if isinstance(expected, type):
        with pytest.raises(expected):
            first_byte(status, headers, 5, '"a"')
    else:
        assert first_byte(status, headers, 5, '"a"') == expected


HEADERS = st.fixed_dictionaries({}, optional={
    'content-range': st.sampled_from(['bytes 5-9/10', 'bytes 0-9/10', 'bytes */5', 'bytes */9', 'bytes 5-9/*', 'items 5-9/10', '']),
    'etag': st.sampled_from(['"a"', '"b"', 'W/"a"', '']), 'last-modified': st.sampled_from(['Monday', 'Tuesday'])})


@given(st.sampled_from([200, 201, 204, 206, 301, 404, 416, 500]), HEADERS, st.sampled_from([(0, ''), (5, '"a"'), (5, 'Monday')]))
def test_where_an_answer_may_begin(status, headers, had):
    held, validator = had
    strong = headers.get('etag', '') if headers.get('etag', '').startswith('"') else headers.get('last-modified', '')
    assert validator_of(headers) == strong
    place = headers.get('content-range', '')
    try:
        start = first_byte(status, headers, held, validator)
    except StartOver:
        assert held and status in (206, 416)
        return
    except Refused:
        assert status not in (200,) and not (held and status in (206, 416))
        return
    if start is None:
        assert status == 416 and held and place == f'bytes */{held}'
    elif status == 200:
        assert start == 0
    else:
        assert status == 206 and start == held and place.startswith(f'bytes {held}-') and strong in ('', validator)


def options(**more):
    return SimpleNamespace(**{'name': None, 'out': None, 'yes': False, 'url': None} | more)


@pytest.fixture
def toy(shelf, monkeypatch):
    source = Source('A toy', shelf.url, 'toy.bin', 'CC0', 'https://example.org', 'Do what you like.', hashlib.sha256(CONTENT).hexdigest())
    monkeypatch.setitem(SOURCES, 'toy', source)
    shelf.asked.clear()
    shelf.manners[:] = [Manners()]
    return source


def test_the_list(capsys):
    assert data_command(options()) == 0
    shown = capsys.readouterr().out
    assert shown.strip() == listing()
    assert all(f'  {name}: ' in shown for name in DATASETS if name != 'jsonl') and 'jsonl' not in shown


def test_the_command_without_a_terminal(toy, shelf, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(sys, 'stdin', io.StringIO('y\n'))
    assert data_command(options(name='toy', out=str(tmp_path / 'x'))) == 2
    out, err = capsys.readouterr()
    assert out == '' and 'Do what you like.' in err and '--yes says that you do' in err.splitlines()[-1]
    assert shelf.asked == [] and not (tmp_path / 'x').exists()
    assert data_command(options(name='toy', out=str(tmp_path / 'x'), yes=True)) == 0
    out, err = capsys.readouterr()
    assert out == f'{tmp_path / "x" / "toy.bin"}\n' and 'CC0' in err
    assert Path(out.strip()).read_bytes() == CONTENT
    monkeypatch.setattr(sys, 'stdin', None)
    (tmp_path / 'x' / 'toy.bin').unlink()
    assert data_command(options(name='toy', out=str(tmp_path / 'x'))) == 2


@pytest.mark.parametrize('said, code', [('y\n', 0), ('Yes\n', 0), ('n\n', 2), ('\n', 2), ('', 2), ('yellow\n', 2)])
def test_the_command_on_a_terminal(toy, shelf, tmp_path, capsys, monkeypatch, said, code):
    terminal = io.StringIO(said)
    terminal.isatty = lambda: True
    monkeypatch.setattr(sys, 'stdin', terminal)
    monkeypatch.chdir(tmp_path)
    assert data_command(options(name='toy')) == code
    err = capsys.readouterr().err
    assert 'Fetch it under these terms? [y/N]' in err
    assert [one.name for one in tmp_path.iterdir()] == ['toy.bin'] * (code == 0) and len(shelf.asked) == (code == 0)


def test_errors_of_the_command_are_one_harmless_line(toy, shelf, tmp_path, capsys):
    for more in ({'name': 'lokomo'}, {'name': 'toy', 'url': 'gopher://\x1b[31mx'}):
        assert data_command(options(out=str(tmp_path), yes=True, **more)) == 2
        out, err = capsys.readouterr()
        assert out == '' and err.startswith('memnb: ') and len(err.splitlines()) == 1 and '\x1b' not in err


def test_what_is_known_of_locomo():
    source = SOURCES['locomo']
    assert source.sha256 == '79fa87e90f04081343b8c8debecb80a9a6842b76a7aa537dc9fdf651ea698ff4'
    assert source.url.startswith('https://raw.githubusercontent.com/snap-research/locomo/') and source.licence == 'CC BY-NC 4.0'
    assert source.licence == DATASETS['locomo'].licence


def test_no_network_code_is_loaded_before_it_is_needed():
    code = 'import sys, memnb.evaluation.registry; sys.exit("httpx" in sys.modules)'
    assert subprocess.run([sys.executable, '-c', code], timeout=60).returncode == 0
    assert replace(SOURCES['locomo']).limits == Limits() and download.SOURCES is SOURCES
