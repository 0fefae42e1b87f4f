"""A grid whose memories are in one Qdrant, which two worker processes ask at once over a socket."""
import os
import signal
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip('qdrant_client')
pytest.importorskip('qdrant_edge')

from qdrant_client import QdrantClient

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent))
from grids import grid, noted, plain, talk, timeless
from qdrant_wire import served

from memnb.executors import executor_of
from memnb.experiment import Experiment, ExperimentError
from memnb.lm import RuleLM
from memnb.qdrant_memory import _client, build_in_qdrant, named_snippets, qdrant_memory
from memnb.ranking import DuplicateSnippet
from memnb.stores import fill_qdrant


@pytest.fixture
def qdrant():
    """The address of a Qdrant with an empty collection, and what it is asked."""
    with served() as (url, asked):
        fill_qdrant(QdrantClient(url=url), 'memnb', [])
        yield url, asked


# a client warns that it sends a key without encryption, to the loopback
pytestmark = pytest.mark.filterwarnings('ignore:Api key is used', 'ignore:Failed to obtain server version')


def walks(url, diary, talks=3, pause=.05):
    """A slow method over memories in a Qdrant."""
    method = plain(pause=pause, diary=str(diary)).over(qdrant_memory(url=url))
    return Experiment([method], {'walks': [talk(f'place {number}') for number in range(1, talks + 1)]}, baselines=())


def writes(asked):
    return [path for method, path, *_ in asked if method == 'PUT' and path.partition('?')[0].endswith('/points')]


def test_the_same_rows_from_another_process_and_nothing_is_written_twice(tmp_path, qdrant):
    url, asked = qdrant
    experiment = walks(url, tmp_path / 'diary', pause=0)
    experiment.run(tmp_path / 'threads', 'threads:1')
    assert len(writes(asked)) == 3  # one filling for each conversation
    with executor_of('processes:2') as pool:
        results = experiment.run(tmp_path / 'processes', pool)
    assert len(writes(asked)) == 3 and not results.failed and len(results.rows) == 12
    assert timeless(tmp_path / 'threads') == timeless(tmp_path / 'processes')
    found = grid(plain(), talks=3).run(tmp_path / 'words', 'threads:1')
    assert [one.question for one in results.rows] == [one.question for one in found.rows]


def test_a_worker_that_is_killed_leaves_a_memory_that_the_next_completes(tmp_path, qdrant):
    url, asked = qdrant
    experiment, diary = walks(url, tmp_path / 'diary'), tmp_path / 'diary'
    with executor_of('processes:2') as pool:
        def kill():
            for _ in range(4000):
                if len(noted(diary)) >= 2:
                    break
                time.sleep(.005)
            os.kill(next(iter(pool._processes)), signal.SIGKILL)
        killer = threading.Thread(target=kill)
        killer.start()
        with pytest.raises(ExperimentError, match='BrokenProcessPool'):
            experiment.run(tmp_path / 'out', pool)
        killer.join()
    results = experiment.run(tmp_path / 'out', 'threads:1')
    experiment.run(tmp_path / 'quiet', 'threads:1')
    assert not results.failed and not results.missing and timeless(tmp_path / 'out') == timeless(tmp_path / 'quiet')


def test_what_was_filled_half_is_completed_and_what_is_another_is_refused(qdrant):
    url, asked = qdrant
    one, where = talk('place 1'), (('url', url),)
    client, snippets = QdrantClient(url=url), named_snippets(one)
    fill_qdrant(client, 'memnb', snippets[:3])
    memory = build_in_qdrant(one, RuleLM(), 'memnb', where)
    assert {hit.snippet for hit in memory.search('heron', 100)} == set(snippets)
    before = len(writes(asked))
    build_in_qdrant(one, RuleLM(), 'memnb', where)
    fill_qdrant(client, 'memnb', [replace(snippets[0], text='another text')], replace=True)
    with pytest.raises(DuplicateSnippet, match="another snippet 'place 1/D1:1'"):
        build_in_qdrant(one, RuleLM(), 'memnb', where)
    assert len(writes(asked)) == before + 1


def test_a_server_that_is_not_there_is_an_error_with_its_address(tmp_path):
    experiment = walks('http://127.0.0.1:9', tmp_path / 'diary')
    with pytest.raises(ExperimentError, match='while its memory was built: .*refused'):
        experiment.run(tmp_path / 'out', 'threads:1')


def test_a_key_is_taken_from_the_environment_and_written_nowhere(tmp_path, qdrant, monkeypatch):
    url, asked = qdrant
    monkeypatch.setenv('QDRANT_API_KEY', 'very secret')
    with pytest.raises(ValueError, match='QDRANT_API_KEY'):
        qdrant_memory(url=url, api_key='very secret')
    _client.cache_clear()
    walks(url, tmp_path / 'diary', talks=1, pause=0).run(tmp_path / 'out', 'threads:1')
    assert any('very secret' in headers.values() for *_, headers in asked)
    assert not any(b'very secret' in file.read_bytes() for file in tmp_path.rglob('*') if file.is_file())


def test_a_folder_serves_one_process(tmp_path):
    build = qdrant_memory(path=str(tmp_path / 'here')).build
    first, second = (build(talk(f'place {number}'), RuleLM()) for number in (1, 2))  # one client for both
    assert len(first.search('heron', 50)) == len(second.search('heron', 50)) == 8
    with pytest.raises(RuntimeError, match='already accessed'):
        QdrantClient(path=str(tmp_path / 'here'))
    _client((('path', str(tmp_path / 'here')),)).close()
