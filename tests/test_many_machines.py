"""A cluster of real processes: workers and schedulers are killed at moments that chance chooses, and the rows are those of a quiet run on one thread."""
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import CancelledError, Future, wait
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))
from grids import WORDS, Blind, Plain, build_words, grid, noted, plain, timeless

import memnb
from memnb import many_machines
from memnb.cli import main
from memnb.datasets import data_path
from memnb.experiment import Experiment, ExperimentError
from memnb.many_machines import ClusterError, _hand_over, differences, machine_facts, on_cluster, source_hash, tasks_at_once
from memnb.methods import METHODS, Memory, Method
from memnb.row_log import RowLog

distributed = pytest.importorskip('distributed')
HERE = str(Path(__file__).parent)
PLACES = [str(Path(memnb.__file__).parent.parent), HERE]
TALKS, QUESTIONS = 4, 4


def started(name, *options, memory=None, cwd=HERE):
    """A program of Dask's in a process of its own; `memory` is a folder with another memnb."""
    folders = PLACES if memory is None else [str(memory), HERE]
    command = [sys.executable, '-m', f'distributed.cli.dask_{name}', '--host', '127.0.0.1', '--no-dashboard', *options]
    return subprocess.Popen(command, env={**os.environ, 'PYTHONPATH': os.pathsep.join(folders)}, cwd=cwd, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def start_worker(address, **options):
    return started('worker', address.replace('dask:', 'tcp:'), '--nthreads', '1', '--no-nanny', '--death-timeout', '30', **options)


def ended(*processes):
    for process in processes:
        process.kill()
        process.wait()


@pytest.fixture(scope='module')
def cluster():
    """Two worker processes, each with a nanny that starts it again when it dies."""
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, env={'PYTHONPATH': os.pathsep.join(PLACES)}) as made:
        yield made


@pytest.fixture(scope='module')
def address(cluster):
    return cluster.scheduler_address.replace('tcp:', 'dask:')


def until(condition, seconds=30):
    for _ in range(int(seconds / .005)):
        if condition():
            return
        time.sleep(.005)
    raise AssertionError('it did not come')


def struck(condition, strike):
    """A thread that strikes when a condition holds."""
    def watch():
        until(condition)
        strike()
    thread = threading.Thread(target=watch)
    thread.start()
    return thread


def one_of(address, choice):
    """Kills a worker process of a cluster as nothing can hear."""
    def kill():
        with distributed.Client(address.replace('dask:', 'tcp:'), set_as_default=False) as client:
            pids = sorted(client.run(os.getpid).values())
        os.kill(pids[choice % len(pids)], signal.SIGKILL)
    return kill


def walks(diary):
    """A method that takes a moment and keeps a diary, and the router of MemR3, over made-up conversations."""
    diary.unlink(missing_ok=True)
    return grid(plain(pause=.02, diary=str(diary)), METHODS['memr3'].over(WORDS), talks=TALKS, questions=QUESTIONS)


@pytest.fixture(scope='module')
def diary(tmp_path_factory):
    """One file for all runs, since its name is an option of the method and so part of the experiment."""
    return tmp_path_factory.mktemp('diary') / 'diary'


@pytest.fixture(scope='module')
def quiet(tmp_path_factory, diary):
    """What is found when nobody disturbs: rows, byte for byte, and figures."""
    folder = tmp_path_factory.mktemp('quiet')
    results = walks(diary).run(folder / 'out', 'threads:1')
    return timeless(folder / 'out'), figures(results)


def figures(results):
    """All of the tables but times."""
    return [{name: value for name, value in one.items() if 'seconds' not in name} for one in results.methods]


def places(folder):
    return [(one['method'], one['conversation'], one['position']) for file in Path(folder).glob('tasks/*.jsonl') for one in RowLog(file).records()
            if one['kind'] == 'row']


def like_in_peace(folder, results, quiet):
    """The rows and figures of a quiet run, no row lost, and none there twice."""
    there = places(folder)
    assert len(there) == len(set(there)) == 2 * TALKS * QUESTIONS and not results.missing and not results.failed
    return timeless(folder) == quiet[0] and figures(results) == quiet[1]


# Killed workers


@pytest.mark.parametrize('sees', [True, False], ids=['the folder is seen', 'the folder is not seen'])
@pytest.mark.parametrize('seed', range(2))
def test_a_worker_that_is_killed_loses_and_doubles_no_row(tmp_path, address, diary, quiet, seed, sees):
    chance = random.Random(f'{seed} {sees}')
    moment, choice = chance.randrange(1, TALKS * QUESTIONS), chance.randrange(2)
    experiment = walks(diary)
    with on_cluster(address) as executor:
        killer = struck(lambda: len(noted(diary)) >= moment, one_of(address, choice))
        results = experiment.run(tmp_path / 'out', executor if sees else Blind(executor))
        killer.join()
    assert like_in_peace(tmp_path / 'out', results, quiet)
    twice = len(noted(diary)) - len(set(noted(diary)))
    assert twice <= (1 if sees else TALKS * QUESTIONS)  # what a death costs: the question under way; without the folder all that was not fetched yet


def dies_once(memory, conversation, lm, hits, stop, flag):
    """A loop that ends its own process at one question, as one does whose memory does not fit, for as long as a file is there."""
    class Deadly(Plain):
        def steps(self, run):
            if 'walk 2 near place 2' in run.question and Path(flag).exists():
                os.kill(os.getpid(), signal.SIGKILL)
            super().steps(run)
    return Deadly(memory, lm)


def test_a_task_that_kills_its_workers_is_named_and_the_others_are_kept(tmp_path, cluster, address):
    flag = tmp_path / 'flag'
    deadly = Experiment([Method('deadly', partial(dies_once, flag=str(flag)), WORDS)], grid(talks=3).datasets, baselines=())
    flag.touch()
    before, cluster.scheduler.allowed_failures = cluster.scheduler.allowed_failures, 1
    try:
        with on_cluster(address, workers=2, patience=60) as executor:
            # Dask blames all tasks that were given to a worker when it died, so an innocent one may fall with the guilty
            with pytest.raises(ExperimentError, match=r'of 3 tasks broke; the first: deadly with walks/place \d: KilledWorker'):
                deadly.run(tmp_path / 'out', executor)
            flag.unlink()
            there = places(tmp_path / 'out')
            assert len(there) == len(set(there)) and [position for _, name, position in there if name == 'place 2'] == [0]
            deadly.run(tmp_path / 'out', executor)
    finally:
        cluster.scheduler.allowed_failures = before
    deadly.run(tmp_path / 'quiet', 'threads:1')
    assert timeless(tmp_path / 'out') == timeless(tmp_path / 'quiet')


# A scheduler that goes


def test_a_scheduler_that_is_killed_is_told_and_the_same_command_goes_on(tmp_path, address, diary, quiet):
    file = tmp_path / 'scheduler.json'
    scheduler = started('scheduler', '--port', '0', '--scheduler-file', str(file), '--idle-timeout', '60')
    workers = []
    try:
        until(lambda: file.exists() and file.read_text().endswith('}'))
        theirs = json.loads(file.read_text())['address'].replace('tcp:', 'dask:')
        with pytest.raises(ClusterError, match=r'expected 1 worker\(s\) within 0.1 s, found 0'), on_cluster(theirs, patience=.1):
            pass
        workers += [start_worker(theirs) for _ in range(2)]
        moment, begun = random.Random(7).randrange(1, 2 * TALKS), time.monotonic()
        with on_cluster(theirs, workers=2) as executor:
            killer = struck(lambda: len(places(tmp_path / 'out')) >= moment, scheduler.kill)
            with pytest.raises(ExperimentError, match='ClusterError: dask://.*: the scheduler dropped this, or is gone; rows that were written stay'):
                walks(diary).run(tmp_path / 'out', executor)
            killer.join()
        assert time.monotonic() - begun < 60
        ended(*workers)
        kept = places(tmp_path / 'out')
        assert len(kept) >= moment
        with on_cluster(address) as executor:
            results = walks(diary).run(tmp_path / 'out', executor)
        assert set(kept) <= set(places(tmp_path / 'out')) and len(noted(diary)) <= TALKS * QUESTIONS - len([one for one in kept if one[0] == 'plain'])
        assert like_in_peace(tmp_path / 'out', results, quiet)
    finally:
        ended(scheduler, *workers)


class Remote:
    """A task that is over, as the client of a cluster has it."""
    def __init__(self, status, result=None, error=None, fault=None):
        self.status, self._result, self._error, self.fault = status, result, error, fault

    def result(self):
        if self.fault:
            raise self.fault
        return self._result

    def exception(self):
        return self._error


@pytest.mark.parametrize('fault', [CancelledError('task'), OSError('stream is closed'), TimeoutError(), RuntimeError('cannot schedule')])
@pytest.mark.parametrize('status', ['finished', 'cancelled', 'lost', 'pending'])
def test_a_result_that_does_not_arrive_is_an_error_and_nobody_waits_for_ever(fault, status):
    promised = Future()
    _hand_over(promised, 'dask://here:1', Remote(status, fault=fault))
    error = promised.exception(timeout=0)
    assert isinstance(error, ClusterError) and 'dask://here:1: the scheduler dropped this' in str(error) and error.__cause__ is fault


@pytest.mark.parametrize('error', [OSError('disk'), ClusterError('a worker'), CancelledError()])
def test_an_error_of_the_task_itself_stays_what_it_is(error):
    promised = Future()
    _hand_over(promised, 'here', Remote('error', error=error))
    assert promised.exception(timeout=0) is error


def test_a_task_that_was_taken_back_stays_taken_back(address):
    promised = Future()
    promised.cancel()
    _hand_over(promised, 'here', Remote('finished', 7))
    assert promised.cancelled()
    with on_cluster(address) as executor:
        futures = [executor.submit(time.sleep, .2) for _ in range(6)]
        assert futures[-1].cancel()
        done, pending = wait(futures, timeout=20)
        assert not pending and [one.cancelled() for one in futures] == [False] * 5 + [True]
        assert executor.submit(len, 'Tobin').result(20) == 5
        assert isinstance(executor.submit(int, 'Tobin').exception(20), ValueError)


# Machines that are not alike


@pytest.fixture(scope='module')
def older(tmp_path_factory):
    """A folder with another version of the package."""
    folder = tmp_path_factory.mktemp('older')
    shutil.copytree(Path(memnb.__file__).parent, folder / 'memnb', ignore=shutil.ignore_patterns('__pycache__'))
    for name in ('data', '_data'):
        if (Path(memnb.__file__).parent.parent / name).is_dir():
            shutil.copytree(Path(memnb.__file__).parent.parent / name, folder / name)
    file = folder / 'memnb' / '__init__.py'
    file.write_text(file.read_text().replace(f"__version__ = '{memnb.__version__}'", "__version__ = '0.0.1'").replace(
        f'__version__ = "{memnb.__version__}"', '__version__ = "0.0.1"'))
    return folder


def version():
    return memnb.__version__


def build_from_file(conversation, lm, file):
    """A memory that reads a file of its own."""
    Path(file).read_text()
    return build_words(conversation, lm)


def test_a_worker_with_another_version_is_refused_by_name_and_asks_nothing(tmp_path, address, older, monkeypatch):
    odd = start_worker(address, memory=older)
    try:
        with distributed.Client(address.replace('dask:', 'tcp:'), set_as_default=False) as client:
            until(lambda: len(set(client.run(version).values())) > 1)
        with pytest.raises(ClusterError, match=rf'1 machine\(s\) would not find what is found here: tcp://.*: memnb {memnb.__version__} here, 0.0.1 there; source'):
            with on_cluster(address):
                pass
        monkeypatch.setattr(memnb.many_machines, '_look', lambda client, files: [])  # as if it had come after the look
        diary = tmp_path / 'diary'
        slow = grid(plain(pause=.1, diary=str(diary)), talks=6, questions=2)
        with on_cluster(address) as executor:
            with pytest.raises(ExperimentError, match=rf'ClusterError: a worker on .*: memnb {memnb.__version__} here, 0.0.1 there'):
                slow.run(tmp_path / 'out', executor)
            assert len(noted(diary)) == len(places(tmp_path / 'out')) < 12
            ended(odd)
            results = slow.run(tmp_path / 'out', executor)
        assert len(results.rows) == len(places(tmp_path / 'out')) == 12 and not results.failed
    finally:
        ended(odd)


def test_a_file_that_a_worker_has_not_is_told_before_and_without_the_look_by_the_task(tmp_path, address, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path('names.txt').write_text('Tobin, Zofia')
    with pytest.raises(ClusterError, match=r'\d machine\(s\) .*names.txt [0-9a-f]{16} here, not there there'), on_cluster(address, files=['names.txt']):
        pass
    with pytest.raises(ClusterError, match='this machine: other.txt not there'), on_cluster(address, files=['other.txt']):
        pass
    with on_cluster(address, files=[tmp_path / 'names.txt']) as executor:  # a path that all can see
        reading = Method('reading', METHODS['rag'].make, Memory('file', partial(build_from_file, file='names.txt')))
        with pytest.raises(ExperimentError, match='while its memory was built: FileNotFoundError'):
            Experiment([reading], grid().datasets, baselines=()).run(tmp_path / 'out', executor)


def test_the_facts_of_a_machine_are_few_and_the_same_when_asked_again(tmp_path):
    facts = machine_facts()
    assert facts == machine_facts() and facts['memnb'] == memnb.__version__ and facts['source'] == source_hash()
    assert set(facts) == {'memnb', 'source', 'python', 'numpy', 'scipy', 'wordllama', 'snowballstemmer', 'openai'}


FACTS = st.dictionaries(st.sampled_from('abcde'), st.sampled_from(['1', '2']))


@given(FACTS, FACTS)
def test_differences_are_all_facts_of_one_that_the_other_has_not(here, there):
    found = differences(here, there)
    assert len(found) == len(set(here.items()) - set(there.items()))
    assert all(line.endswith(' there') and line.split(' ')[1] == here[line.split(' ')[0]] for line in found)


@given(st.integers(0, 10 ** 12), st.integers(1, 10 ** 4), st.integers(1, 10 ** 4))
def test_so_many_tasks_fit_and_one_more_does_not(room, turns, size):
    number = tasks_at_once(room, turns, size)
    assert number * turns * size <= room < (number + 1) * turns * size


def test_a_name_that_is_none_and_a_scheduler_that_is_none_are_refused():
    with pytest.raises(ValueError, match='executor: expected one of'), on_cluster('dask://'):
        pass
    with pytest.raises(ValueError, match='where: expected dask://HOST:PORT, dask or dask:N, got'), on_cluster('threads:2'):
        pass


def test_the_command_looks_at_the_cluster_first(address, capsys, monkeypatch):
    command = ['bench', '--data', str(data_path('sample.json')), '--methods', 'rag', '--no-full-context', '--categories', 'temporal']
    assert main([*command, '--executor', address]) == 0
    on_it = capsys.readouterr().out
    assert main([*command, '--executor', 'threads:1']) == 0
    here = capsys.readouterr().out
    assert [line.split('|')[:4] for line in on_it.splitlines()] == [line.split('|')[:4] for line in here.splitlines()]
    monkeypatch.setattr(many_machines, 'differences', lambda here, there: ['memnb 2 here, 1 there'])
    assert main([*command, '--executor', address]) == 2
    told = capsys.readouterr()
    assert told.out == '' and 'would not find what is found here' in told.err and 'memnb 2 here, 1 there' in told.err
