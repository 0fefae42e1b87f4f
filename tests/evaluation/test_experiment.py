"""A run can be spread out, killed, stopped and resumed, and loses and repeats nothing. Each test compares rows with those of a run that nobody disturbed."""
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from tqdm import tqdm

sys.path.insert(0, str(Path(__file__).parents[1]))
from grids import READ, WORDS, Blind, build_words, grid, noted, plain, talk, timeless
from servers import Server, chat, fail
from strikes import forked, needs_fork

from memnb.evaluation.costs import Purse
from memnb.evaluation.datasets import load_sample
from memnb.evaluation.experiment import executor_of
from memnb.evaluation.experiment import Experiment, ExperimentError
from memnb.evaluation.judge import Judge
from memnb.core.models import as_lm, OpenAILM, ScriptedLM
from memnb.core.roles import RuleLM
from memnb.evaluation.experiment import method_rows
from memnb.evaluation.experiment import RowLog
from memnb.evaluation.experiment import who_runs


@pytest.fixture(scope='module')
def processes():
    with executor_of('processes:2') as pool:
        yield pool


def on_disk(folder):
    """The questions that have a row in the logs of a folder."""
    return [one['question'] for file in sorted(Path(folder).glob('tasks/*.jsonl')) for one in RowLog(file).records() if one['kind'] == 'row']


def until(condition, seconds=30):
    """Wait for something; False where it did not come."""
    for _ in range(int(seconds / .005)):
        if condition():
            return True
        time.sleep(.005)
    return False


# What a reader of a folder finds


def test_a_second_run_asks_nothing_and_leaves_the_same_files(tmp_path):
    diary = tmp_path / 'diary'
    experiment = grid(plain(diary=str(diary)), plain('other', diary=str(diary)), repeats=2)
    experiment.run(tmp_path / 'out')
    before = {path.name: path.read_bytes() for path in (tmp_path / 'out').iterdir() if path.is_file()}
    assert len(noted(diary)) == 2 * 2 * 2 * 4
    results = experiment.run(tmp_path / 'out')
    assert len(noted(diary)) == 2 * 2 * 2 * 4 and results.missing == 0
    assert before == {path.name: path.read_bytes() for path in (tmp_path / 'out').iterdir() if path.is_file()}


def test_rows_stand_by_method_conversation_repeat_and_position(tmp_path):
    results = grid(plain('b'), plain('a'), repeats=2, questions=2).run(tmp_path)
    assert [(one.method, one.conversation, one.repeat, one.position) for one in results.rows] == [
        (method, f'place {place}', repeat, position) for method in 'ba' for place in (1, 2) for repeat in (0, 1) for position in (0, 1)]


def test_without_a_folder_nothing_is_left(tmp_path, monkeypatch):
    monkeypatch.setattr('tempfile.tempdir', str(tmp_path))
    assert len(grid().run().rows) == 8 and not list(tmp_path.iterdir())


@pytest.mark.parametrize('name, change', [
    ('methods.other: None there', lambda: grid(plain(), plain('other'))),
    ('methods.plain.loop', lambda: grid(plain(pause=.001))),
    ('turns: 25 there, 10 here', lambda: grid(turns=10)),
    ('repeats: 1 there, 2 here', lambda: grid(repeats=2)),
    ('seed: None there, 3 here', lambda: grid(seed=3)),
    ('stop: False there, True here', lambda: grid(stop=True)),
    ('categories', lambda: grid(categories=['single-hop'])),
    ("lm.model: 'rules' there, 'scripted' here", lambda: grid(lm=ScriptedLM([]))),
    ("build_lm.model: 'rules' there, 'scripted' here", lambda: grid(build_lm=ScriptedLM([]))),
    ('judge: None there', lambda: grid(judge=Judge())),
    ('datasets.walks', lambda: grid(questions=3)),
    ('datasets.walks', lambda: grid(talks=3)),
    ('datasets.swims', lambda: Experiment([plain()], {'walks': [talk('place 1'), talk('place 2')], 'swims': [talk('sea')]}, baselines=()))])
def test_another_experiment_is_refused_with_what_differs_and_changes_nothing(tmp_path, name, change):
    grid().run(tmp_path)
    before = timeless(tmp_path)
    with pytest.raises(ExperimentError, match='holds the rows of another experiment') as raised:
        change().run(tmp_path)
    assert name in str(raised.value) and timeless(tmp_path) == before
    assert len(grid().run(tmp_path).rows) == 8


@pytest.mark.parametrize('text', ['', 'hello', '[]', '{}', '{"experiment": 1}', '17'])
def test_a_folder_with_something_else_in_it_is_refused(tmp_path, text):
    (tmp_path / 'experiment.json').write_text(text)
    with pytest.raises(ExperimentError, match=r'experiment\.json: expected the settings of an experiment'):
        grid().run(tmp_path)


@pytest.mark.parametrize('options, told', [
    ({'repeats': 0}, 'repeats: expected 1 or more, got 0'), ({'repeats': None}, 'repeats'), ({'turns': 0}, 'turns'), ({'turns': True}, 'turns'),
    ({'categories': ['no such']}, 'nothing to ask'), ({'lm': lambda prompt: ''}, 'lm: expected a model with a name that stays the same'),
    ({'judge': Judge(as_lm(lambda prompt: ''))}, 'judge: expected a model with a name')])
def test_settings_that_make_no_sense_are_refused_at_once(options, told):
    with pytest.raises(ValueError, match=told):
        grid(**options)


def test_what_is_no_folder_and_what_is_no_executor_are_refused(tmp_path):
    (tmp_path / 'file').write_text('')
    with pytest.raises(ExperimentError, match='file: expected a folder, got a file'):
        grid().run(tmp_path / 'file')
    with pytest.raises(TypeError, match='executor: expected an executor or the name of one, got 4'):
        grid().run(tmp_path / 'out', 4)
    with pytest.raises(ValueError, match='executor: expected one of threads'):
        grid().run(tmp_path / 'out', 'four threads')
    assert len(grid().run(tmp_path / 'out', 'threads:2').rows) == 8


def test_a_task_that_the_executor_takes_back_is_told(tmp_path):
    class Lazy(ThreadPoolExecutor):
        """Does nothing, and says so."""
        def submit(self, function, task):
            future = Future()
            future.cancel()
            future.set_running_or_notify_cancel()
            return future

    with pytest.raises(ExperimentError, match=r'2 of 2 tasks broke; the first: plain with walks/place \d: the executor took it back'):
        grid().run(tmp_path, Lazy(1))


# Spread out


def small_sample():
    """The first sessions of the bundled conversation, and the questions that they answer."""
    whole = load_sample()
    sessions = whole.sessions[:2]
    there = {turn.id for session in sessions for turn in session.turns}
    questions = tuple(one for one in whole.questions if one.evidence and set(one.evidence) <= there)[:3]
    return replace(whole, sessions=sessions, questions=questions)


def kill_a_worker(client, diary, done):
    """Once some questions have been asked, a worker process goes, with what it was at."""
    if until(lambda: len(noted(diary)) >= 4):
        pid = next(iter(client.run(os.getpid).values()))
        os.kill(pid, signal.SIGKILL)
        done.append(pid)


def test_threads_processes_and_a_dask_cluster_give_the_same_rows(tmp_path, processes):
    distributed = pytest.importorskip('distributed')
    experiment = Experiment(['rag', 'memr3', 'remem', 'mragent', 'memma'], {'sample': [small_sample()], 'walks': [talk('place 1'), talk('place 2')]})
    diary = tmp_path / 'diary'
    slow = grid(plain(pause=.05, diary=str(diary)), talks=4)
    experiment.run(tmp_path / 'threads')
    slow.run(tmp_path / 'quiet')
    experiment.run(tmp_path / 'processes', processes)
    experiment.run(tmp_path / 'blind processes', Blind(processes))
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, distributed.Client(cluster) as client:
        with executor_of(cluster.scheduler_address.replace('tcp://', 'dask://')) as executor:
            experiment.run(tmp_path / 'dask', executor)
            grid(talks=3).run(tmp_path / 'blind dask', Blind(executor))
            diary.unlink()
            killed = []
            killer = threading.Thread(target=kill_a_worker, args=(client, diary, killed))
            killer.start()
            slow.run(tmp_path / 'killed', executor)
            killer.join()
    grid(talks=3).run(tmp_path / 'seen')
    expected = timeless(tmp_path / 'threads')
    assert expected.count(b'\n') == 6 * (3 + 8) and b'"error":null' in expected and b'"error":"' not in expected
    for name in ('processes', 'blind processes', 'dask'):
        assert timeless(tmp_path / name) == expected, name
    assert timeless(tmp_path / 'blind dask') == timeless(tmp_path / 'seen')
    assert killed and timeless(tmp_path / 'killed') == timeless(tmp_path / 'quiet')
    assert sorted(on_disk(tmp_path / 'killed')) == sorted(on_disk(tmp_path / 'quiet'))  # no row lost, and none twice


def test_workers_that_do_not_see_the_folder_are_told_what_is_there(tmp_path):
    diary, out = tmp_path / 'diary', tmp_path / 'out'
    method = plain(role=READ, diary=str(diary))

    def run(failing):
        def say(prompt):
            if failing and 'otter' in prompt:
                raise OSError('down')
            return json.dumps({'text': prompt[-30:]})
        experiment = grid(method, lm=as_lm(say, 'parrot'))
        with ThreadPoolExecutor(2) as pool:
            return experiment.run(out, Blind(pool))

    assert len(run(failing=True).failed) == 2 and len(noted(diary)) == 8
    assert not run(failing=False).failed and len(noted(diary)) == 10
    assert sorted(noted(diary)[8:]) == ['What did Tobin see on walk 2 near place 1?', 'What did Tobin see on walk 2 near place 2?']
    grid(method, lm=as_lm(lambda prompt: json.dumps({'text': prompt[-30:]}), 'parrot')).run(tmp_path / 'seen')
    assert timeless(out) == timeless(tmp_path / 'seen')


# Broken


@pytest.mark.parametrize('blind', [False, True])
def test_a_bug_in_a_method_costs_no_row_of_others_and_is_told_with_its_task(tmp_path, blind):
    experiment = grid(plain('broken', breaks_at='walk 3 near place 2'), plain())
    with ThreadPoolExecutor(1) as pool:
        with pytest.raises(ExperimentError, match=r'1 of 4 tasks broke; the first: broken with walks/place 2, at question 2: ZeroDivisionError: a bug'):
            experiment.run(tmp_path, Blind(pool) if blind else pool)
    assert timeless(tmp_path).count(b'\n') == 4 + 4 + 4 + 2
    with pytest.raises(ExperimentError):
        experiment.run(tmp_path)  # the folder is free, and the bug is still there


def test_a_bug_in_another_process_is_told_as_well(tmp_path, processes):
    with pytest.raises(ExperimentError, match='broken with walks/place 1, at question 2: ZeroDivisionError'):
        grid(plain('broken', breaks_at='walk 3 near place 1')).run(tmp_path, processes)
    assert len(on_disk(tmp_path)) == 2 + 4


# Killed


def run_quietly(experiment, out):
    with executor_of('threads:2') as pool:
        experiment.run(out, pool)


def test_a_quiet_run_waits_for_no_bar(tmp_path):
    with ThreadPoolExecutor(1) as pool, tqdm.get_lock():  # as a forked process leaves it that was killed while it drew one
        pool.submit(run_quietly, grid(plain()), tmp_path).result(30)
    assert len(on_disk(tmp_path)) == 2 * 4


@needs_fork
def test_killed_twenty_times_a_run_loses_and_repeats_nothing(tmp_path):
    chance, diary, out = random.Random(6), tmp_path / 'diary', tmp_path / 'out'
    experiment = grid(plain('a', pause=.004, diary=str(diary)), plain('b', pause=.002, diary=str(diary)), talks=5, questions=8, repeats=2)
    run_quietly(experiment, tmp_path / 'quiet')
    diary.unlink()
    unfinished = 0
    for _ in range(20):
        there, asked = on_disk(out), len(noted(diary))
        child = forked(run_quietly, experiment, out)
        wanted = asked + chance.randint(0, 6)
        until(lambda: len(noted(diary)) >= wanted or not child.is_alive())
        time.sleep(chance.random() * .01)
        child.kill()
        child.join()
        after = on_disk(out)
        unfinished += len(after) < 160
        assert len(after) >= len(there)
        counts = {question: noted(diary)[asked:].count(question) for question in noted(diary)[asked:]}
        assert all(counts[question] + there.count(question) <= 4 for question in counts)  # two methods, two repeats: nothing that was there is asked
    assert unfinished == 20
    run_quietly(experiment, out)
    assert timeless(out) == timeless(tmp_path / 'quiet')
    found = json.loads((out / 'results.json').read_text())
    assert found['provenance']['torn lines'] == sum(file.read_bytes().count(b'\n') for file in out.glob('tasks/*.torn'))
    assert sorted(on_disk(out)) == sorted(on_disk(tmp_path / 'quiet'))  # the logs, too, have each question once


@needs_fork
def test_a_folder_is_for_one_run_at_a_time_and_free_as_soon_as_that_is_dead(tmp_path):
    diary, out = tmp_path / 'diary', tmp_path / 'out'
    experiment = grid(plain(pause=.05, diary=str(diary)))
    child = forked(run_quietly, experiment, out)
    try:
        assert until(lambda: noted(diary))
        with pytest.raises(ExperimentError, match=rf'another run is at work here \(process {child.pid} on '):
            experiment.run(out)
    finally:
        child.kill()
        child.join()
    assert len(experiment.run(out).rows) == 8 and who_runs(out) == {}
    with ThreadPoolExecutor(1) as pool:  # and in one process as well
        busy = pool.submit(grid(plain(pause=.05)).run, tmp_path / 'other')
        assert until(lambda: who_runs(tmp_path / 'other'))
        with pytest.raises(ExperimentError, match='another run is at work'):
            grid(plain(pause=.05)).run(tmp_path / 'other')
        assert len(busy.result().rows) == 8


def test_a_process_of_a_pool_that_is_killed_costs_no_row(tmp_path):
    diary, out = tmp_path / 'diary', tmp_path / 'out'
    experiment = grid(plain(pause=.03, diary=str(diary)), questions=8)
    with executor_of('processes:1') as pool:
        def kill_it():
            if until(lambda: len(noted(diary)) >= 2):
                os.kill(next(iter(pool._processes)), signal.SIGTERM)

        killer = threading.Thread(target=kill_it)
        killer.start()
        with pytest.raises(ExperimentError, match=r'\d of 2 tasks broke; the first: plain with walks/place \d: BrokenProcessPool'):
            experiment.run(out, pool)
        killer.join()
    there = on_disk(out)
    assert 1 <= len(there) < 16
    assert experiment.run(out).missing == 0 and len(on_disk(out)) == 16
    experiment.run(tmp_path / 'quiet')
    assert timeless(out) == timeless(tmp_path / 'quiet')


PROGRAM = '''
import sys
sys.path.insert(0, {tests!r})
from grids import grid, plain
from memnb.evaluation.experiment import executor_of
if __name__ == '__main__':
    with executor_of('processes:2') as pool:
        try:
            grid(plain(pause=.05, diary={diary!r}), talks=3).run({out!r}, pool)
        except KeyboardInterrupt:
            sys.exit(7)
'''


@pytest.mark.skipif(os.name != 'posix', reason='the system has no signals')
@pytest.mark.parametrize('with_signal, status', [(signal.SIGINT, 7), (signal.SIGKILL, -9)])
def test_a_run_with_processes_ends_with_them_and_goes_on(tmp_path, with_signal, status):
    diary, out = tmp_path / 'diary', tmp_path / 'out'
    program = tmp_path / 'program.py'
    program.write_text(PROGRAM.format(tests=str(Path(__file__).parents[1]), diary=str(diary), out=str(out)))
    process = subprocess.Popen([sys.executable, str(program)], stderr=subprocess.PIPE, start_new_session=True)
    assert until(lambda: len(noted(diary)) >= 3, 60)
    if with_signal == signal.SIGINT:
        os.killpg(process.pid, with_signal)  # as a terminal does: to all of them
    else:
        process.send_signal(with_signal)
    _, told = process.communicate(timeout=30)
    assert process.returncode == status
    assert b'Traceback' not in told
    time.sleep(.2)
    asked = len(noted(diary))
    time.sleep(.15)
    assert len(noted(diary)) == asked < 12  # nobody works on
    if with_signal == signal.SIGINT:
        assert sorted(noted(diary)) == sorted(on_disk(out))  # each worker ended the question that it was at
    experiment = grid(plain(pause=.05, diary=str(diary)), talks=3)
    assert experiment.run(out).missing == 0
    assert len(noted(diary)) <= 12 + (0 if with_signal == signal.SIGINT else 2)
    experiment.run(tmp_path / 'quiet')
    assert timeless(out) == timeless(tmp_path / 'quiet') and sorted(on_disk(out)) == sorted(on_disk(tmp_path / 'quiet'))


def test_a_key_that_interrupts_lets_each_thread_end_its_question(tmp_path):
    diary, out = tmp_path / 'diary', tmp_path / 'out'
    experiment = grid(plain(pause=.02, diary=str(diary)), talks=3)

    def press():
        until(lambda: len(noted(diary)) >= 3)
        signal.raise_signal(signal.SIGINT) if os.name != 'posix' else os.kill(os.getpid(), signal.SIGINT)

    presser = threading.Thread(target=press)
    presser.start()
    with pytest.raises(KeyboardInterrupt):
        experiment.run(out)
    presser.join()
    assert sorted(noted(diary)) == sorted(on_disk(out)) and len(noted(diary)) < 12
    assert experiment.run(out).missing == 0 and len(noted(diary)) == 12


def test_a_file_named_stop_ends_a_run_and_the_next_goes_on(tmp_path):
    diary, out = tmp_path / 'diary', tmp_path / 'out'
    experiment = grid(plain(pause=.01, diary=str(diary)), talks=3)

    def stop():
        until(lambda: len(noted(diary)) >= 3)
        (out / 'stop').touch()

    stopper = threading.Thread(target=stop)
    stopper.start()
    results = experiment.run(out)
    stopper.join()
    assert results.missing == 12 - len(noted(diary)) > 0
    assert experiment.run(out).missing == 0 and sorted(noted(diary)) == sorted(on_disk(out)) and len(noted(diary)) == 12


# With a model


def parrot(request):
    """What the user's message says, as a reply."""
    return {'text': request['messages'][-1]['content']}


def moody(chance, of, failures):
    """A server that fails one call in so many, at random."""
    def answer(request):
        if failures is not None and chance.random() < 1 / of:
            failures.append(request['messages'][-1]['content'])
            return fail(500)(request)
        return chat(parrot)(request)
    return answer


def test_calls_that_fail_are_counted_apart_and_asked_again_until_the_rows_are_those_of_a_quiet_run(tmp_path):
    failures = []
    with Server(chat(parrot), limit=2000) as server:
        def run(out):
            return grid(plain(role=READ), talks=8, questions=8, lm=OpenAILM('toy', server.url, 'sk-x', max_retries=0)).run(out)

        run(tmp_path / 'quiet')
        asked = len(server.requests)
        assert asked == 64
        server.answers[:] = [moody(random.Random(3), 10, failures)]
        results = run(tmp_path / 'out')
        assert len(server.requests) - asked == 64 and len(results.failed) == len(failures) > 0
        assert all(row.scores == {} and row.answer is None for row in results.failed)
        table = method_rows(results.rows)
        assert sum(one['errors'] for one in table) == len(failures)
        assert sum(one['evidence_recall']['n'] for one in table) == 64 - len(failures)
        for _ in range(20):
            if not results.failed:
                break
            open_, before = len(results.failed), len(server.requests)
            results = run(tmp_path / 'out')
            assert len(server.requests) - before == open_  # those that failed, and no other
        assert not results.failed and timeless(tmp_path / 'out') == timeless(tmp_path / 'quiet')


@pytest.mark.parametrize('kind', ['threads', 'processes'])
def test_no_call_is_made_when_the_budget_is_spent_and_none_is_paid_twice(tmp_path, kind, processes):
    with Server(chat(parrot, usage=(7, 3)), limit=2000) as server, executor_of('threads:2') as threads:
        experiment = grid(plain(role=READ), talks=3, lm=OpenAILM('toy', server.url, 'sk-x', max_retries=0))
        counts = []
        for _ in range(4):
            before = len(server.requests)
            results = experiment.run(tmp_path, processes if kind == 'processes' else threads, budget=35)
            counts.append(len(server.requests) - before)
            assert Purse(tmp_path).spent() == 10 * len(server.requests) == results.provenance['tokens paid for']
            assert results.missing == 12 - len(server.requests) and not results.failed
        assert all(count <= 4 + 1 for count in counts) and counts[0] >= 4  # 40 tokens, and one call that another worker had begun
        assert sum(counts) == 12


def test_a_budget_that_is_spent_within_a_memory_is_no_failure_of_the_memory(tmp_path):
    class Asking:
        """A memory that asks a model what to search for."""
        def __init__(self, conversation, lm):
            self.index, self.lm = build_words(conversation, lm), lm

        def search(self, query, k=10, *, exclude=(), during=None):
            self.lm.ask(READ, turn=query)
            self.lm.ask(READ, turn=query.upper())
            return self.index.search(query, k, exclude=exclude, during=during)

    lm = ScriptedLM([{'text': 'x'}] * 99)
    results = grid(plain(memory=replace(WORDS, name='asking', build=Asking)), talks=1, lm=lm).run(tmp_path, budget=2)
    assert not results.failed and results.missing > 0 and len(results.rows) + results.missing == 4


def slow_reading(conversation, lm):
    """A memory whose building asks a model."""
    lm.ask(READ, turn=conversation.id)
    return build_words(conversation, lm)


@pytest.mark.parametrize('kind', ['threads', 'processes'])
def test_a_memory_that_two_methods_share_is_paid_for_once(tmp_path, kind, processes):
    memory = replace(WORDS, name='read', build=slow_reading)
    with Server(chat(parrot, stall=.05), limit=99) as server, executor_of('threads:4') as threads:
        lm = OpenAILM('toy', server.url, 'sk-x', max_retries=0)
        experiment = grid(plain('a', memory), plain('b', memory), talks=1, questions=1, lm=RuleLM(), build_lm=lm)
        assert len(experiment.run(tmp_path, processes if kind == 'processes' else threads).rows) == 2
        assert len(server.requests) == 1


# Executors by name


@pytest.mark.parametrize('text', ['', 'thread', 'threads:', 'threads:0', 'threads:x', 'threads:-1', 'processes:1.5', 'dask:', 'dask:0', 'dask://', 'dask:x', 'daskish', 'dasks:2'])
def test_a_name_of_no_executor_is_refused(text):
    with pytest.raises(ValueError, match='executor: expected one of threads'), executor_of(text):
        pass


def test_dask_that_is_not_there_is_told_with_what_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, 'distributed', None)
    with pytest.raises(ImportError, match=r"pip install 'memnb\[dask\]'"), executor_of('dask'):
        pass
