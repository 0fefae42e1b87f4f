"""One conversation with one method: what is missing is asked, what is there is not, and no failure becomes an answer."""
import json
import os
import platform
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parents[1]))
from grids import READ, WORDS, build_words, grid, noted, plain

from memnb.evaluation.costs import Purse
from memnb.evaluation.judge import Judge
from memnb.core.models import FunctionLM, ScriptedLM
from memnb.core.roles import ServerError
from memnb.core.models import RecordedLM
from memnb.evaluation.experiment import RowLog
from memnb.evaluation.experiment import latest, MANY, missing, row_of, run_task, slim, TaskError, who_runs
from memnb.core.trace import SearchStep, Seen, Trace

SIGN = 'the sign of this run'


def folder_of(path, sign=SIGN, host=None):
    """A folder that a run has claimed."""
    path.mkdir(parents=True, exist_ok=True)
    (path / 'running').write_text(json.dumps({'run': sign, 'host': host or platform.node(), 'process': os.getpid()}))
    return path


def task_of(path, *methods, **options):
    [task] = grid(*methods, talks=1).tasks(path, run=SIGN)
    return replace(task, **options)


def positions(rows):
    return [one['position'] for one in rows if one['kind'] == 'row']


def test_rows_are_on_the_disk_when_a_task_ends_and_nothing_comes_back(tmp_path):
    task = task_of(folder_of(tmp_path))
    assert run_task(task) == []
    records = RowLog(task.file).records()
    assert [one['kind'] for one in records] == ['build'] + ['row'] * 4 and positions(records) == [0, 1, 2, 3]
    assert {one['experiment'] for one in records} == {task.experiment}
    assert row_of(records[1]).answer == 'On walk 1 near place 1 I saw a heron.' and records[1]['trace']['question'] == 'What did Tobin see on walk 1 near place 1?'


@pytest.mark.parametrize('sign', ['another run', ''])
def test_where_the_folder_is_not_that_of_the_run_everything_comes_back_and_nothing_is_written(tmp_path, sign):
    task = task_of(folder_of(tmp_path, sign), run=sign and SIGN)
    records = run_task(task)
    assert positions(records) == [0, 1, 2, 3] and records[1]['trace'] and not task.file.exists()
    assert positions(run_task(replace(task, known=tuple(records[1:3])))) == [2, 3]  # known rows are not asked again


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from(['good', 'failed', 'unjudged', 'other experiment', 'other method'])), max_size=10), st.booleans())
def test_what_is_missing_is_what_has_no_good_last_row(rows, with_judge):
    task = replace(task_of('/nowhere'), judge=Judge() if with_judge else None)
    records, state = [], {}
    for position, what in rows:
        record = {'kind': 'row', **task.key, 'position': position, 'error': 'x' if what == 'failed' else None, 'judge_error': 'x' if what == 'unjudged' else None}
        if what.startswith('other'):
            record |= {what.split()[1]: 'another'}
        else:
            state[position] = what
        records += [record, {'kind': 'build', **task.key}]
    open_ = {'failed', 'unjudged'} if with_judge else {'failed'}
    assert [one.position for one in missing(task, latest(task, records))] == [one for one in range(4) if state.get(one, 'failed') in open_]


@given(st.sets(st.integers(0, 3)))
def test_a_task_asks_exactly_what_is_missing(tmp_path_factory, there):
    path = folder_of(tmp_path_factory.mktemp('run'))
    task = task_of(path)
    for position in sorted(there):
        RowLog(task.file).append({'kind': 'row', **task.key, 'position': position, 'error': None, 'judge_error': None})
    run_task(task)
    assert positions(RowLog(task.file).records()) == sorted(there) + sorted(set(range(4)) - there)


def test_a_question_whose_model_failed_is_a_row_without_scores_and_is_asked_again(tmp_path):
    replies = {'read_aloud': [{'text': 'a heron'}, ServerError('down'), {'text': 'a badger'}, {'text': 'a lynx'}]}
    task = task_of(folder_of(tmp_path), plain(role=READ), lm=ScriptedLM(replies))
    run_task(task)
    rows = latest(task, RowLog(task.file).records())
    assert [one['error'] for one in rows.values()] == [None, 'ServerError: down', None, None]
    assert rows[1]['scores'] == {} and rows[1]['answer'] is None and [one.position for one in missing(task, rows)] == [1]
    second = ScriptedLM({'read_aloud': [{'text': 'an otter'}]})
    run_task(replace(task, lm=second))
    rows = latest(task, RowLog(task.file).records())
    assert len(second.calls) == 1 and [one['answer'] for one in rows.values()] == ['a heron', 'an otter', 'a badger', 'a lynx']


def test_a_reply_that_could_not_be_used_is_asked_for_again_and_the_good_ones_are_not(tmp_path):
    path = folder_of(tmp_path)
    replies = [{'text': 'a heron'}, 'hm', 'well', {'text': 'a badger'}, {'text': 'a lynx'}]
    task = task_of(path, plain(role=READ), lm=ScriptedLM(replies))
    run_task(task)
    assert [bool(one['error']) for one in latest(task, RowLog(task.file).records()).values()] == [False, True, False, False]
    task.file.unlink()  # as if it had run on another machine: the replies remain
    second = ScriptedLM([{'text': 'an otter'}])
    run_task(replace(task, lm=second))
    assert len(second.calls) == 1 and not any(one['error'] for one in latest(task, RowLog(task.file).records()).values())


def failing_build(conversation, lm):
    lm.ask(READ, turn='x')
    return build_words(conversation, lm)


def test_a_memory_that_cannot_be_built_fails_its_questions_and_is_built_by_the_next_run(tmp_path):
    method = plain(memory=replace(WORDS, name='read', build=failing_build))
    task = task_of(folder_of(tmp_path), method, build_lm=ScriptedLM([ServerError('down')]))
    run_task(task)
    rows = latest(task, RowLog(task.file).records())
    assert {one['error'] for one in rows.values()} == {'while the memory was built: ServerError: down'}
    run_task(replace(task, build_lm=ScriptedLM([{'text': 'x'}])))
    assert [one['error'] for one in latest(task, RowLog(task.file).records()).values()] == [None] * 4


def test_a_bug_is_told_with_its_task_and_question_and_what_was_found_comes_along(tmp_path):
    task = task_of(folder_of(tmp_path), plain('broken', breaks_at='walk 3'))
    with pytest.raises(TaskError, match=r'broken with walks/place 1, at question 2: ZeroDivisionError: a bug in a method') as raised:
        run_task(task)
    assert isinstance(raised.value.__cause__, ZeroDivisionError) and raised.value.records == []
    assert positions(RowLog(task.file).records()) == [0, 1]
    with pytest.raises(TaskError) as raised:
        run_task(replace(task, run=''))
    assert positions(raised.value.records) == [0, 1]


def test_a_judge_that_failed_judges_again_without_asking_the_question_again(tmp_path):
    path, diary = folder_of(tmp_path), tmp_path / 'diary'
    verdict = {'reason': 'the same', 'correct': True}
    judge = ScriptedLM([verdict, ServerError('down'), verdict, verdict])
    task = task_of(path, plain(diary=str(diary)), judge=Judge(judge))
    run_task(task)
    rows = latest(task, RowLog(task.file).records())
    assert [one['scores']['judge'] for one in rows.values()] == [1, None, 1, 1] and rows[1]['judge_error'] == 'ServerError: down'
    again = ScriptedLM([verdict])
    run_task(replace(task, judge=Judge(again)))
    rows = latest(task, RowLog(task.file).records())
    assert [one['scores']['judge'] for one in rows.values()] == [1, 1, 1, 1] and rows[1]['trace']
    assert len(noted(diary)) == 4 and len(again.calls) == 1


def test_a_question_with_nothing_to_judge_by_is_not_judged(tmp_path):
    task = task_of(folder_of(tmp_path), judge=Judge(ScriptedLM([])))
    questions = tuple(replace(one, answer=text) for one, text in zip(task.conversation.questions, (None, '', ' ', None)))
    task = replace(task, conversation=replace(task.conversation, questions=questions))
    run_task(task)
    assert [one['judge_error'] for one in latest(task, RowLog(task.file).records()).values()] == [None] * 4


def test_each_repeat_has_its_seed_and_its_replies(tmp_path):
    asked = []

    class Seeded(FunctionLM):
        def settings(self):
            return {'model': 'seeded', 'seed': getattr(self, 'seed', None)}

        def seeded(self, seed):
            other = Seeded(lambda prompt: asked.append(seed) or json.dumps({'text': f'said at {seed}'}), 'seeded')
            other.seed = seed
            return other

    path = folder_of(tmp_path)
    for repeat in (0, 1, 1):
        task = task_of(path, plain(role=READ), lm=Seeded(str, 'seeded'), seed=40, repeat=repeat, positions=(0,))
        run_task(task)
        assert RowLog(task.file).records()[-1]['answer'] == f'said at {40 + repeat}'
    assert asked == [40, 41]


def test_a_task_of_a_run_that_is_over_stops_at_the_next_question(tmp_path):
    path = folder_of(tmp_path)
    task = task_of(path, plain(role=READ))

    class Takeover(ScriptedLM):
        def call(self, role, /, **inputs):
            folder_of(path, 'the next run')
            return super().call(role, **inputs)

    run_task(replace(task, lm=Takeover([{'text': 'a heron'}] * 4)))
    assert positions(RowLog(task.file).records()) == [0]


def test_a_budget_stops_before_the_next_call_and_needs_a_folder_that_is_seen(tmp_path):
    lm = ScriptedLM([{'text': 'a heron'}] * 4)
    task = task_of(folder_of(tmp_path), plain(role=READ), lm=lm, budget=1)
    run_task(task)
    assert len(lm.prompts) == 1 and Purse(tmp_path).spent() >= 1 and positions(RowLog(task.file).records()) == [0]
    with pytest.raises(TaskError, match='a budget needs workers that see the folder'):
        run_task(replace(task, run=''))
    assert len(lm.prompts) == 1


def test_another_machine_has_its_own_file_of_replies(tmp_path):
    for host, name in ((None, 'replies.sqlite'), ('elsewhere', f'replies-{platform.node()}.sqlite')):
        path = folder_of(tmp_path / str(host), host=host)
        run_task(task_of(path, plain(role=READ), lm=ScriptedLM([{'text': 'a heron'}] * 4)))
        assert [one.name for one in path.glob('*.sqlite')] == [name]


def test_a_record_that_one_brings_along_is_used_as_it_is(tmp_path):
    path = folder_of(tmp_path / 'run')
    own = RecordedLM(ScriptedLM([{'text': 'a heron'}] * 4), tmp_path / 'own.sqlite')
    run_task(task_of(path, plain(role=READ), lm=own))
    assert not list(path.glob('*.sqlite')) and len(own.lm.calls) == 4


@given(st.lists(st.tuples(st.text(max_size=4), st.text(max_size=4), st.integers(0, 2)), min_size=2, max_size=2, unique=True))
def test_no_two_tasks_share_a_file_and_every_file_is_in_the_folder(pair):
    task = task_of('/folder')
    files = {replace(task, dataset=dataset, conversation=replace(task.conversation, id=id, questions=()), repeat=repeat).file for dataset, id, repeat in pair}
    assert len(files) == 2 and {file.parent for file in files} == {Path('/folder/tasks')}


def test_long_searches_keep_ids_and_lose_texts():
    seen = [Seen(id=f'D1:{number}', text='words', sources=[], score=None, when=None, speaker=None) for number in range(MANY + 1)]
    for hits, text in ((seen, ''), (seen[:MANY], 'words')):
        kept = slim(Trace(question='q', method='m', model='rules', seconds=3.0, steps=[SearchStep(iteration=0, query='q', k=999, masked=0, hits=hits)]))
        assert kept['seconds'] is None and {hit['text'] for hit in kept['steps'][0]['hits']} == {text}
        assert len(Trace.model_validate(kept).steps[0].hits) == len(hits)


def test_nobody_runs_in_a_folder_that_is_not_there_or_says_nothing(tmp_path):
    assert who_runs('/no/such/folder') == who_runs(tmp_path) == {}
    (tmp_path / 'running').write_text('')
    assert who_runs(tmp_path) == {}


@pytest.mark.parametrize('whose', ['', 'another talk'])
def test_a_question_that_does_not_know_its_conversation_has_its_row(tmp_path, whose):
    task = task_of(folder_of(tmp_path))
    questions = tuple(replace(one, conversation=whose) for one in task.conversation.questions)
    task = replace(task, conversation=replace(task.conversation, questions=questions))
    assert run_task(task) == []
    rows = latest(task, RowLog(task.file).records())
    assert sorted(rows) == [0, 1, 2, 3] and not missing(task, rows)
    assert {row_of(one).conversation for one in rows.values()} == {task.conversation.id}
