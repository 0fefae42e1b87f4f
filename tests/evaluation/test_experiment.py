"""A run can be spread out, killed, stopped and resumed, and loses and repeats nothing. Each test compares rows with those of a quiet run."""

import json
import multiprocessing
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pandas
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parents[1]))
from grids import build_words, grid, noted, on_disk, plain, READ, records, talk, WORDS
from servers import chat, fail, Server
from strikes import forked, needs_fork

from memnb.core.models import as_lm, FunctionLM, OpenAILM, RecordedLM, ScriptedLM
from memnb.core.roles import RuleLM, ServerError
from memnb.core.trace import SearchStep, Seen, Trace
from memnb.evaluation import experiment as module
from memnb.evaluation.datasets import load_sample
from memnb.evaluation.estimate import DryRunLM, estimate
from memnb.evaluation.experiment import Experiment
from memnb.evaluation.rows import Row
from memnb.evaluation.store import _MAX_TEXTS, ExperimentError, RowStore, stored_trace
from memnb.evaluation.judge import Judge
from memnb.evaluation.report import RunFolder


@pytest.fixture(scope='module')
def processes():
    with ProcessPoolExecutor(2, multiprocessing.get_context('spawn')) as pool:
        yield pool


def until(condition, seconds=30):
    """Wait for something; False where it did not come."""
    for _ in range(int(seconds / 0.005)):
        if condition():
            return True
        time.sleep(0.005)
    return False


# --- settings, folders, names


def test_a_second_run_asks_nothing_and_leaves_the_same_rows(tmp_path):
    diary = tmp_path / 'diary'
    experiment = grid(plain(diary=str(diary)), plain('other', diary=str(diary)), repeats=2)
    first = experiment.run(tmp_path / 'out')
    before = records(tmp_path / 'out')
    assert len(noted(diary)) == len(before) == 2 * 2 * 2 * 4
    again = experiment.run(tmp_path / 'out')
    assert len(noted(diary)) == 32 and again.missing == 0 and records(tmp_path / 'out') == before
    pandas.testing.assert_frame_equal(first.rows, again.rows)


@pytest.mark.parametrize(
    'name, change',
    [
        ('methods', lambda: grid(plain(), plain('other'))),
        ('turns: 25 there, 10 here', lambda: grid(turns=10)),
        ('repeats: 1 there, 2 here', lambda: grid(repeats=2)),
        ('lm', lambda: grid(lm=ScriptedLM([]))),
        ('judge', lambda: grid(judge=Judge())),
        ('datasets', lambda: grid(questions=3)),
        ('seed', lambda: grid(seed=3)),
    ],
)
def test_another_experiment_is_refused_with_what_differs_and_changes_nothing(tmp_path, name, change):
    grid().run(tmp_path)
    before = records(tmp_path)
    with pytest.raises(ExperimentError, match='holds the rows of another experiment') as raised:
        change().run(tmp_path)
    assert name in str(raised.value) and records(tmp_path) == before


@pytest.mark.parametrize(
    'options, told',
    [
        ({'repeats': 0}, 'repeats'),
        ({'turns': 0}, 'turns'),
        ({'categories': ['no such']}, 'nothing to ask'),
        ({'lm': lambda prompt: ''}, 'lm: expected a model with a stable name'),
        ({'judge': Judge(as_lm(lambda prompt: ''))}, 'judge: expected a model with a stable name'),
    ],
)
def test_settings_that_make_no_sense_are_refused_at_once(options, told):
    with pytest.raises(ValueError, match=told):
        grid(**options)


@pytest.mark.parametrize('workers', [0, -1, 1.5, 'threads', True])
def test_what_is_no_number_of_workers_is_refused(tmp_path, workers):
    with pytest.raises((ValueError, TypeError), match='workers: expected'):
        grid().run(tmp_path / 'out', workers)
    assert not (tmp_path / 'out').exists()


def test_without_pandas_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, 'pandas', None)
    with pytest.raises(ImportError, match=r"pip install 'memnb\[eval\]'"):
        grid()


def test_the_module_needs_no_pandas_before_an_experiment_is_made():
    code = 'import sys; sys.modules["pandas"] = None; import memnb.evaluation.experiment, memnb.evaluation.report, memnb.evaluation.papers'
    assert subprocess.run([sys.executable, '-c', code]).returncode == 0


# --- the store

keys = st.tuples(
    st.sampled_from('ab'),
    st.sampled_from(['x', 'y\u2028']),
    st.sampled_from('mn'),
    st.integers(0, 1),
    st.integers(-1, 2),
)


@given(st.lists(st.tuples(keys, st.text(max_size=5)), max_size=12))
@settings(max_examples=20)
def test_a_store_is_a_dictionary_of_the_last_row_of_each_key(tmp_path_factory, puts):
    file = tmp_path_factory.mktemp('store') / 'rows.sqlite'
    store, model = RowStore(file), {}
    store.put('settings', {'turns': 1})
    for key, text in puts:
        row = model[key] = Row(*key, answer=text)
        store.keep(row, json.dumps({'text': text}))
    other = RowStore(file)
    assert {row.key: row.answer for row in other.records()} == {row.key: row.answer for row in model.values()}
    assert all(json.loads(other.trace(row))['text'] == row.answer for row in model.values())
    assert other.get('settings') == {'turns': 1} and other.get('provenance') == {}
    store.close(), other.close()


def test_long_searches_keep_ids_and_lose_texts():
    seen = [Seen(id=f'D1:{number}', text='words') for number in range(_MAX_TEXTS + 1)]
    for hits, text in ((seen, ''), (seen[:-1], 'words')):
        trace = Trace(
            question='q', method='m', model='rules', steps=[SearchStep(iteration=0, query='q', k=999, hits=hits)]
        )
        stored = Trace.model_validate_json(stored_trace(trace))
        assert {hit.text for hit in stored.steps[0].hits} == {text} and len(stored.steps[0].hits) == len(hits)


# --- spread out


def small_sample():
    """The first sessions of the bundled conversation, and the questions that they answer."""
    whole = load_sample()
    sessions = whole.sessions[:2]
    there = {turn.id for session in sessions for turn in session.turns}
    return replace(
        whole,
        sessions=sessions,
        questions=tuple(one for one in whole.questions if one.evidence and set(one.evidence) <= there)[:3],
    )


def test_threads_processes_and_a_dask_cluster_give_the_same_rows(tmp_path, processes):
    distributed = pytest.importorskip('distributed')
    experiment = Experiment(
        ['rag', 'memr3', 'remem', 'mragent', 'memma'],
        {'sample': [small_sample()], 'walks': [talk('place 1'), talk('place 2')]},
    )
    experiment.run(tmp_path / 'threads')
    experiment.run(tmp_path / 'processes', processes)
    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        experiment.run(tmp_path / 'dask', client.get_executor(pure=False))
    expected = records(tmp_path / 'threads')
    assert len(expected) == 6 * (3 + 8) and all(row['error'] is None for row in expected)
    for name in ('processes', 'dask'):
        assert records(tmp_path / name) == expected, name


def test_a_bug_in_a_method_is_a_failed_row_and_costs_no_other(tmp_path):
    results = grid(plain('broken', breaks_at='walk 3 near place 2'), plain()).run(tmp_path)
    assert [one.error for one in results.failed.itertuples()] == ['ZeroDivisionError: a bug in a method']
    assert len(results.rows) == 16 and results.failed.position.tolist() == [2]


# --- killed


def run_quietly(experiment, out):
    experiment.run(out, 2)


@needs_fork
def test_killed_twenty_times_a_run_loses_and_repeats_nothing(tmp_path):
    chance, diary, out = random.Random(6), tmp_path / 'diary', tmp_path / 'out'
    experiment = grid(
        plain('a', pause=0.004, diary=str(diary)),
        plain('b', pause=0.002, diary=str(diary)),
        talks=5,
        questions=8,
        repeats=2,
    )
    run_quietly(experiment, tmp_path / 'quiet')
    diary.unlink()
    for _ in range(20):
        there, asked = on_disk(out), len(noted(diary))
        child = forked(run_quietly, experiment, out)
        wanted = asked + chance.randint(0, 6)
        until(lambda: len(noted(diary)) >= wanted or not child.is_alive())
        time.sleep(chance.random() * 0.01)
        child.kill()
        child.join()
        after, fresh = on_disk(out), noted(diary)[asked:]
        assert len(there) <= len(after) < 160
        assert all(fresh.count(question) + there.count(question) <= 4 for question in fresh)  # two methods, two repeats
    run_quietly(experiment, out)
    assert records(out) == records(tmp_path / 'quiet')


def test_an_interrupt_lets_each_thread_end_its_question(tmp_path):
    diary, out = tmp_path / 'diary', tmp_path / 'out'
    experiment = grid(plain(pause=0.2, diary=str(diary)), talks=3)

    def press():
        until(lambda: len(noted(diary)) >= 3)
        os.kill(os.getpid(), signal.SIGINT)

    presser = threading.Thread(target=press)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background is born deaf
    try:
        presser.start()
        with pytest.raises(KeyboardInterrupt):
            experiment.run(out)
    finally:
        signal.signal(signal.SIGINT, before)
    presser.join()
    assert sorted(noted(diary)) == sorted(on_disk(out)) and len(noted(diary)) < 12
    assert experiment.run(out).missing == 0 and len(noted(diary)) == 12


# --- with a model


def parrot(request):
    """What the user's message says, as a reply."""
    return {'text': request['messages'][-1]['content']}


def test_calls_that_fail_are_counted_apart_and_asked_again_until_the_rows_are_those_of_a_quiet_run(tmp_path):
    chance, failures = random.Random(3), []

    def moody(request):
        if chance.random() < 0.1:
            failures.append(request)
            return fail(500)(request)
        return chat(parrot)(request)

    with Server(chat(parrot), limit=2000) as server:

        def run(out):
            return grid(
                plain(role=READ), talks=8, questions=8, lm=OpenAILM('toy', server.url, 'sk-x', max_retries=0)
            ).run(out)

        run(tmp_path / 'quiet')
        server.answers[:] = [moody]
        results = run(tmp_path / 'out')
        assert len(results.failed) == len(failures) > 0
        assert results.failed[['answer', 'turns', 'evidence_recall', 'f1_locomo']].isna().all(axis=None)
        [line] = results.methods
        assert (line['errors'], line['evidence_recall']['n']) == (len(failures), 64 - len(failures))
        while len(results.failed):
            due, before = len(results.failed), len(server.requests)
            results = run(tmp_path / 'out')
            assert len(server.requests) - before == due  # those that failed, and no other
        assert records(tmp_path / 'out') == records(tmp_path / 'quiet')


@pytest.mark.parametrize('kind', ['threads', 'processes'])
def test_no_call_is_made_when_the_budget_is_spent_and_none_is_paid_twice(tmp_path, kind, processes):
    with Server(chat(parrot, usage=(7, 3)), limit=2000) as server, ThreadPoolExecutor(2) as threads:
        experiment = grid(plain(role=READ), talks=3, lm=OpenAILM('toy', server.url, 'sk-x', max_retries=0))
        counts = []
        for _ in range(4):
            before = len(server.requests)
            results = experiment.run(tmp_path, processes if kind == 'processes' else threads, budget=35)
            counts.append(len(server.requests) - before)
            assert (
                RowStore(tmp_path / 'rows.sqlite').spent
                == 10 * len(server.requests)
                == results.provenance['tokens paid for']
            )
            assert results.missing == 12 - len(server.requests) and not len(results.failed)
        assert (
            all(count <= 4 + 1 for count in counts) and counts[0] >= 4
        )  # 40 tokens, and one call that another worker had begun
        assert sum(counts) == 12


def test_workers_that_do_not_see_the_rows_are_refused(tmp_path):
    class Elsewhere(ThreadPoolExecutor):
        """Runs tasks on a machine without the folder of rows."""

        def submit(self, run):
            return super().submit(replace(run.__self__, path=Path('/elsewhere/rows.sqlite')).run)

    with Elsewhere(1) as pool, pytest.raises(ExperimentError, match='/elsewhere/rows.sqlite: there is no such file'):
        grid().run(tmp_path, pool)


def reading(conversation, lm):
    """A memory whose building asks a model."""
    lm.ask(READ, turn=conversation.id)
    return build_words(conversation, lm)


READING = replace(WORDS, name='read', builder=reading)


def test_a_memory_that_two_methods_share_is_built_once():
    lm = ScriptedLM([{'text': 'x'}])
    results = grid(plain('a', READING), plain('b', READING), talks=1, questions=1, lm=RuleLM(), build_lm=lm).run()
    assert len(results.rows) == 2 and len(lm.calls) == 1 and not len(results.failed)
    [line] = [one for one in results.provenance['spent'] if one['phase'] == 'build']
    assert (line['of'], line['calls']) == ('read', 1)


def test_a_memory_that_cannot_be_built_fails_its_questions_and_is_built_by_the_next_run(tmp_path):
    first = grid(plain(memory=READING), talks=1, build_lm=ScriptedLM([ServerError('down')])).run(tmp_path)
    assert set(first.failed.error) == {'while the memory was built: ServerError: down'} and len(first.failed) == 4
    assert not len(grid(plain(memory=READING), talks=1, build_lm=ScriptedLM([{'text': 'x'}])).run(tmp_path).failed)


def losing(conversation, lm):
    """A memory that could not read one of its sessions."""
    memory = build_words(conversation, lm)
    memory.failed = {'D9': 'ReplyError: no'}
    return memory


def test_sessions_that_a_memory_could_not_read_are_counted_and_said(tmp_path):
    results = grid(plain(memory=replace(WORDS, name='lossy', builder=losing)), talks=2).run(tmp_path)
    assert results.provenance['sessions lost'] == {'lossy': 2} and not len(results.failed)
    assert (
        'lossy: 2 sessions could not be read' in str(results)
        and '2 sessions could not be read' in RunFolder(tmp_path).state
    )
    with closing(RowStore(tmp_path / 'rows.sqlite')) as store:
        assert [row.lost for row in store.records() if not row.is_question] == 2 * [{'D9': 'ReplyError: no'}]
    assert 'could not be read' not in str(grid(plain(), talks=1).run())


def test_a_question_that_the_judge_failed_to_mark_is_asked_again(tmp_path):
    diary, verdict = tmp_path / 'diary', {'reason': 'the same', 'correct': True}

    def run(*replies):
        return grid(plain(diary=str(diary)), talks=1, judge=Judge(ScriptedLM(list(replies)))).run(tmp_path)

    first = run(verdict, ServerError('down'), verdict, verdict)
    assert first.rows.judge.isna().tolist() == [False, True, False, False] and first.provenance['not judged'] == 1
    assert run(verdict).rows.judge.tolist() == [1, 1, 1, 1] and len(noted(diary)) == 5


class Seeded(FunctionLM):
    """Says which seed it was given."""

    def settings(self):
        return {'model': 'seeded'}

    def seeded(self, seed):
        return Seeded(lambda prompt: json.dumps({'text': f'said at {seed}'}), 'seeded')


def test_each_repeat_has_its_seed():
    rows = grid(plain(role=READ), lm=Seeded(str, 'seeded'), seed=40, repeats=2, talks=1, questions=1).run().rows
    assert rows.answer.tolist() == ['said at 40', 'said at 41']


def test_replies_are_recorded_beside_the_rows_unless_the_model_has_a_record_of_its_own(tmp_path):
    grid(plain(role=READ), talks=1, lm=ScriptedLM([{'text': 'x'}] * 4)).run(tmp_path / 'one', 1)
    own = RecordedLM(ScriptedLM([{'text': 'x'}] * 4), tmp_path / 'own.sqlite')
    grid(plain(role=READ), talks=1, lm=own).run(tmp_path / 'two', 1)
    assert (tmp_path / 'one' / 'replies.sqlite').exists() and not (tmp_path / 'two' / 'replies.sqlite').exists()
    with sqlite3.connect(tmp_path / 'one' / 'rows.sqlite') as database:
        database.execute("DELETE FROM records WHERE key LIKE '[%'")  # as if the rows had been lost: the replies remain
    assert not len(grid(plain(role=READ), talks=1, lm=ScriptedLM([])).run(tmp_path / 'one', 1).failed)


# --- provenance and estimates


def test_the_provenance_says_code_data_model_prompts_and_settings(tmp_path):
    found = (
        grid(plain(role=READ), lm=ScriptedLM([{'text': 'x'}] * 8)).run(tmp_path, about={'files': {'x': 'y'}}).provenance
    )
    assert {'memnb', 'commit', 'libraries', 'day', 'experiment', 'spent'} <= found.keys() and found['files'] == {
        'x': 'y'
    }
    assert found['data']['walks'] == {
        'hash': found['settings']['datasets']['walks'],
        'conversations': ['place 1', 'place 2'],
        'asked': 8,
    }
    assert list(found['prompts']) == ['read_aloud'] and found['model'] == 'scripted' and found['not asked'] == 0
    assert json.loads((tmp_path / 'results.json').read_text())['provenance'] == found


def test_the_commit_is_that_of_the_checkout_of_the_package(tmp_path, monkeypatch):
    package = tmp_path / 'memnb'
    package.mkdir()
    monkeypatch.setattr(module.memnb, '__file__', str(package / '__init__.py'))
    assert module._commit() is None
    git = ['git', '-C', str(tmp_path), '-c', 'user.name=x', '-c', 'user.email=x@example.org']
    subprocess.run([*git, 'init', '-q'], check=True)
    (package / '__init__.py').write_text('')
    subprocess.run([*git, 'add', '.'], check=True)
    subprocess.run([*git, 'commit', '-qm', 'x'], check=True)
    clean = module._commit()
    assert len(clean) == 12
    (package / '__init__.py').write_text('changed')
    assert module._commit() == clean + '+'


MODEL = FunctionLM(lambda prompt: '', 'model')  # an estimate never asks it


def test_one_conversation_with_every_question_is_estimated_to_the_token():
    said = {}

    class Noting(DryRunLM):
        def call(self, role, /, **inputs):
            call = super().call(role, **inputs)
            said[call.system, call.user] = call.reply.model_dump_json(by_alias=True)
            return call

    options = {'methods': ['rag', 'remem-s'], 'datasets': [small_sample()], 'turns': 10, 'baselines': ()}
    Experiment(**options, lm=Noting()).run()
    parrot = FunctionLM(
        lambda prompt: next(
            text for (system, user), text in said.items() if prompt.startswith(system) and prompt.endswith(user)
        ),
        'parrot',
    )
    experiment = Experiment(**options, lm=parrot)
    whole = estimate(experiment, 100).loc[('all', '')]
    assert whole['prompt tokens'] + whole['reply tokens'] == experiment.run().provenance['tokens paid for']


@pytest.mark.parametrize(
    ('lms', 'phases'),
    [
        ({'lm': MODEL}, {'build', 'ask'}),
        ({'lm': MODEL, 'build_lm': RuleLM()}, {'ask'}),
        ({'build_lm': MODEL}, {'build'}),
        ({'judge': Judge(MODEL)}, {'judge'}),
        ({'lm': MODEL, 'judge': Judge(MODEL)}, {'build', 'ask', 'judge'}),
    ],
)
def test_only_what_a_model_does_costs_something(lms, phases):
    found = estimate(Experiment(['remem-s'], [small_sample()], baselines=(), **lms), 1)
    assert {phase for phase, _ in found.index if phase != 'all'} == phases


@pytest.mark.parametrize('name', ['experiment.json', 'tasks'])
def test_the_folder_of_an_older_version_is_refused_and_stays_as_it_is(name, tmp_path):
    (tmp_path / name).mkdir() if name == 'tasks' else (tmp_path / name).write_text('{}')
    (tmp_path / 'results.json').write_text('old')
    with pytest.raises(
        ExperimentError, match=f'has {name}, which an older version of memnb wrote: name another folder'
    ):
        Experiment(['rag'], {'s': [load_sample()]}).run(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([name, 'results.json'])
