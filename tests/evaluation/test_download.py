"""Downloads from a server on this machine that breaks off, has another file, refuses, redirects and stalls."""

import hashlib
import subprocess
import sys
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from memnb import cli
from memnb.evaluation.datasets import download, DownloadError, load_jsonl, Source
from memnb.evaluation.registry import Dataset, DATASETS

CONTENT = bytes(range(256)) * 8
RIGHT = hashlib.sha256(CONTENT).hexdigest()


@dataclass(frozen=True)
class Manners:
    """How a server answers one request."""

    content: bytes = CONTENT
    status: int = 200
    drop: int | None = None  # close after so many bytes of the body
    headers: tuple = ()


class Handler(BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'

    def do_GET(self):
        server = self.server
        server.asked.append(self.path)
        manners = server.manners.pop(0) if len(server.manners) > 1 else server.manners[0]
        body = manners.content if manners.status == 200 else b''
        self.send_response(manners.status)
        for name, value in (*manners.headers, ('Content-Length', str(len(body)))):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body[: manners.drop])
        self.close_connection = manners.drop is not None

    def log_message(self, *_):
        pass


class QuietServer(ThreadingHTTPServer):
    daemon_threads, block_on_close = True, False

    def handle_error(self, *_):
        pass


@pytest.fixture(scope='module')
def server():
    made = QuietServer(('127.0.0.1', 0), Handler)
    made.asked, made.manners = [], [Manners()]
    made.url = f'http://127.0.0.1:{made.server_port}/toy.bin'
    threading.Thread(target=made.serve_forever, kwargs={'poll_interval': 0.02}, daemon=True).start()
    yield made
    made.shutdown()
    made.server_close()


def toy_source(server):
    return Source('A toy', server.url, 'toy.bin', 'CC0', 'https://example.org', 'Do what you like.', RIGHT)


@pytest.fixture
def fetched(server, tmp_path):
    """Download into an empty folder from a server with these manners; what was told."""

    def run(*manners, folder=tmp_path / 'data', agreed=True, **options):
        server.asked.clear()
        server.manners[:] = manners or [Manners()]
        told = []
        path = download(toy_source(server), folder, agreed=agreed, tell=told.append, **options)
        assert path == Path(folder) / 'toy.bin' and path.read_bytes() == CONTENT
        return told

    run.folder = tmp_path / 'data'
    run.names = lambda: sorted(one.name for one in run.folder.iterdir()) if run.folder.exists() else []
    return run


def test_a_whole_file_with_its_terms_told_first(fetched, server):
    told = fetched()
    assert fetched.names() == ['toy.bin'] and server.asked == ['/toy.bin']
    assert all(words in told[0] for words in ('A toy', 'CC0', server.url, RIGHT, 'Do what you like.'))
    assert told[-1].endswith('its SHA-256 is right')
    assert fetched(agreed=False) == [f'{fetched.folder / "toy.bin"} is there already'] and server.asked == []


def test_a_file_of_the_user_is_left_alone(fetched, server):
    fetched.folder.mkdir()
    (fetched.folder / 'toy.bin').write_bytes(b'mine')
    with pytest.raises(DownloadError, match='is there already, and its SHA-256 is not'):
        fetched()
    assert (fetched.folder / 'toy.bin').read_bytes() == b'mine' and server.asked == []
    (fetched.folder / 'toy.bin').unlink()
    (fetched.folder / 'toy.bin').mkdir()
    with pytest.raises(DownloadError, match='is there already'):
        fetched()


def test_nothing_is_fetched_or_made_without_a_yes(fetched, server):
    with pytest.raises(DownloadError, match='A toy: not fetched, since nobody agreed'):
        fetched(agreed=False)
    assert server.asked == [] and not fetched.folder.exists()


@pytest.mark.parametrize(
    'manners',
    [
        Manners(content=CONTENT[::-1]),
        Manners(content=CONTENT[:-1]),
        Manners(content=b'<html>Sorry</html>'),
        Manners(content=b''),
        Manners(drop=700),
        Manners(drop=0),
        Manners(status=404),
        Manners(status=500),
        Manners(status=302, headers=(('Location', '/toy.bin'),)),
        Manners(status=302, headers=(('Location', 'ftp://127.0.0.1/x'),)),
    ],
)
def test_only_the_right_file_stands_under_its_name_and_the_next_run_mends_it(fetched, server, manners):
    with pytest.raises(DownloadError, match='not fetched: ') as error:
        fetched(manners)
    assert str(error.value).startswith(server.url) and fetched.names() == []
    fetched()
    assert fetched.names() == ['toy.bin']


def test_links_are_not_written_through(fetched, server, tmp_path):
    """What another user left in a shared folder leads nowhere."""
    victim = tmp_path / 'victim'
    victim.write_bytes(b'precious')
    fetched.folder.mkdir()
    for place in (victim, tmp_path / 'nothing'):
        (fetched.folder / 'toy.bin').symlink_to(place)
        with pytest.raises(DownloadError, match='is there already'):
            fetched()
        (fetched.folder / 'toy.bin').unlink()
    assert victim.read_bytes() == b'precious' and not (tmp_path / 'nothing').exists()


def test_a_redirect_and_a_mirror(fetched, server):
    fetched(Manners(status=302, headers=(('Location', '/elsewhere.bin'),)), Manners(), url=server.url + '?mirror')
    assert server.asked == ['/toy.bin?mirror', '/elsewhere.bin']


def test_without_pooch_the_extra_is_named(fetched, monkeypatch):
    monkeypatch.setitem(sys.modules, 'pooch', None)
    with pytest.raises(ImportError, match=r"pip install 'memnb\[eval\]'"):
        fetched()


@pytest.fixture
def toy(server, monkeypatch):
    monkeypatch.setitem(
        DATASETS,
        'toy',
        Dataset('A toy', load_jsonl, 'CC0', 'https://example.org', source=toy_source(server)),
    )
    server.asked.clear()
    server.manners[:] = [Manners()]


@pytest.mark.parametrize('yes', [True, False])
def test_the_command_shows_the_terms_and_needs_a_yes(toy, server, tmp_path, capsys, yes):
    assert cli.main(['data', 'get', 'toy', '--out', str(tmp_path / 'x'), *['--yes'][:yes]]) == (0 if yes else 2)
    out, err = capsys.readouterr()
    assert 'CC0' in err and bool(server.asked) == yes
    assert out == (f'{tmp_path / "x" / "toy.bin"}\n' if yes else '')
    assert yes or '--yes, says that you do' in err.splitlines()[-1]


def test_errors_of_the_command_are_one_harmless_line(toy, tmp_path, capsys):
    for more in (['lokomo'], ['toy', '--url', 'gopher://\x1b[31mx']):
        assert cli.main(['data', 'get', '--out', str(tmp_path), '--yes', *more]) == 2
        out, err = capsys.readouterr()
        assert out == '' and err.splitlines()[-1].startswith('memnb: ') and '\x1b' not in err


def test_no_network_code_is_loaded_before_it_is_needed():
    code = 'import sys, memnb.evaluation.registry; sys.exit("pooch" in sys.modules or "requests" in sys.modules)'
    assert subprocess.run([sys.executable, '-c', code], timeout=60).returncode == 0
