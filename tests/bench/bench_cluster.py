"""What a Dask cluster costs and bears, on processes of this machine: the luggage of tasks, carried or scattered; a run in peace, and one with a killed worker; seconds a turn.

    python tests/bench/bench_cluster.py [--workers 2] [--methods rag,memr3,remem,mragent,memma] [--questions 4] [--data locomo10.json] [--tasks 100]

With --cluster dask://HOST:PORT a cluster that is there is measured, and none of its workers is killed.
"""
import argparse
import os
import pickle
import signal
import sys
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path

from memnb.datasets import load_sample
from memnb.experiment import Experiment
from memnb.loading import load_dataset
from memnb.many_machines import on_cluster
from memnb.row_log import RowLog


def nothing(task, conversation=None):
    """A task that only arrives."""
    return len(conversation.turns) if conversation else 0


def timed(function):
    started = time.perf_counter()
    found = function()
    return found, time.perf_counter() - started


def rows_in(folder):
    return [(one['method'], one['conversation'], one['position']) for file in Path(folder).glob('tasks/*.jsonl')
            for one in RowLog(file).records() if one['kind'] == 'row']


def content(results):
    return [{**one, 'seconds': None} for one in results.records]


def luggage(client, experiment, count):
    """Tasks that carry their conversations, and tasks for which those were scattered."""
    tasks = experiment.tasks('nowhere')
    sizes = [len(pickle.dumps(task)) for task in tasks]
    turns = sum(len(task.conversation.turns) for task in tasks)
    print(f'luggage: {sum(sizes) / len(sizes):,.0f} bytes a task, {sum(sizes) / turns:.0f} bytes a turn')
    many = [tasks[number % len(tasks)] for number in range(count)]
    _, carried = timed(lambda: client.gather([client.submit(nothing, task, pure=False) for task in many]))
    places = {one.id: client.scatter(one) for conversations in experiment.datasets.values() for one in conversations}
    bare = [replace(task, conversation=None) for task in many]
    _, scattered = timed(lambda: client.gather([client.submit(nothing, task, places[full.conversation.id], pure=False) for task, full in zip(bare, many)]))
    print(f'  {count} empty tasks: {1000 * carried / count:.1f} ms each with their conversations, {1000 * scattered / count:.1f} ms where those were scattered')


def scattered_and_lost(client, conversation):
    """What becomes of tasks whose scattered conversation was on a worker that died."""
    place = client.scatter(conversation)
    holder = next(iter(client.who_has([place]).values()))[0]
    os.kill(client.run(os.getpid, workers=[holder])[holder], signal.SIGKILL)
    time.sleep(1)
    try:
        client.submit(nothing, None, place, pure=False).result(timeout=20)
        print('  a scattered conversation outlives its worker')
    except Exception as error:
        print(f'  a scattered conversation dies with its worker: {type(error).__name__}: {str(error)[:90]}')


def run_and_kill(client, executor, experiment, folder, after):
    """A run in which a worker is killed when so many rows are there."""
    def kill():
        while len(rows_in(folder)) < after:
            time.sleep(.05)
        os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)
    threading.Thread(target=kill, daemon=True).start()
    return experiment.run(folder, executor)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--workers', type=int, default=2)
    parser.add_argument('--cluster')
    parser.add_argument('--methods', default='rag,memr3,remem,mragent,memma')
    parser.add_argument('--questions', type=int, default=4, help='of each conversation')
    parser.add_argument('--data', help='a file of conversations; without it, the bundled one, four times')
    parser.add_argument('--tasks', type=int, default=100, help='empty tasks for the luggage')
    options = parser.parse_args()
    whole = load_dataset(options.data) if options.data else [replace(load_sample(), id=f'copy {number}') for number in range(4)]
    talks = [replace(one, questions=tuple(replace(question, conversation=one.id) for question in one.questions[:options.questions])) for one in whole]
    experiment = Experiment(options.methods.split(','), talks, baselines=())
    from distributed import Client
    with tempfile.TemporaryDirectory() as folder:
        quiet, alone = timed(lambda: experiment.run(f'{folder}/quiet', 'threads:1'))
        spent, turns = quiet.provenance['spent'], sum(len(one.turns) for one in talks)
        print(f'one thread: {len(quiet.rows)} rows in {alone:.1f} s, of it {spent["build"]["seconds"]:.1f} s for building; '
              f'{1000 * spent["build"]["seconds"] / turns / len(experiment.methods):.1f} ms a turn and method')
        with on_cluster(options.cluster or f'dask:{options.workers}', workers=options.workers) as executor:
            client = Client.current()
            luggage(client, experiment, options.tasks)
            found, seconds = timed(lambda: experiment.run(f'{folder}/cluster', executor))
            print(f'{options.workers} workers in peace: {seconds:.1f} s; the same rows: {content(found) == content(quiet)}')
            if not options.cluster:
                found, seconds = timed(lambda: run_and_kill(client, executor, experiment, f'{folder}/killed', len(quiet.rows) // 3))
                there = rows_in(f'{folder}/killed')
                print(f'one killed on the way: {seconds:.1f} s; the same rows: {content(found) == content(quiet)}; '
                      f'lost {len(quiet.rows) - len(set(there))}, doubled {len(there) - len(set(there))}')
                client.wait_for_workers(1, timeout=60)
                scattered_and_lost(client, talks[0])
    return 0


if __name__ == '__main__':
    sys.exit(main())
