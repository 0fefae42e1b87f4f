"""The folder of an experiment: what a resume costs, what a bug or a damaged file does, what others can read, what is forgotten."""

import json
import os
from dataclasses import replace
from datetime import datetime
from types import SimpleNamespace

import pandas
import pytest

from grids import grid, plain, READ, WORDS
from memnb.core.conversation import Conversation
from memnb.core.models import FunctionLM, OpenAILM
from memnb.core.roles import RuleLM
from memnb.core.storage import MemoryFileError
from memnb.evaluation import experiment as module, plan
from memnb.evaluation.datasets import load_sample
from memnb.evaluation.store import ExperimentError, RowStore
from memnb.evaluation.tables import format_tables
from memnb.evaluation.judge import Judge
from memnb.evaluation.registry import MEMORIES
from memnb.evaluation.report import main_report, RunFolder
from servers import chat, Server

PARROT = FunctionLM(lambda prompt: json.dumps({'text': 'a heron'}), 'parrot')


def reading(conversation, lm):
    """A memory whose building asks a model once a turn."""
    for turn in conversation.turns:
        lm.ask(READ, turn=turn.text)
    return WORDS.build(conversation, lm)


def test_impossible_token_counts_neither_stop_a_run_nor_its_resume(tmp_path):
    for number, usage in enumerate([(-5, -50), (10**30, 1)]):
        with Server(chat({'text': 'x'}, usage=usage), limit=100) as server:
            experiment = grid(plain(role=READ), talks=1, lm=OpenAILM('toy', server.url, 'sk-x', max_retries=0))
            for _ in range(2):
                results = experiment.run(tmp_path / str(number), budget=10**9)
                assert not len(results.failed) and results.provenance['tokens paid for'] >= 0


def test_a_bug_in_scoring_or_judging_is_the_failure_of_one_question(tmp_path, monkeypatch):
    judge = Judge(variant='strict')
    judge.roles = {'single-hop': judge.roles['']}
    experiment, score = grid(talks=1, judge=judge), module.score

    def broken(trace, question, cuts):
        return score(trace, question, cuts) if question.position != 1 else [][0]

    experiment.plan.datasets['walks'][0] = replace(
        talk := experiment.plan.datasets['walks'][0],
        questions=(*talk.questions[:3], replace(talk.questions[3], category='new')),
    )
    monkeypatch.setattr(module, 'score', broken)
    failed = experiment.run(tmp_path).failed
    assert failed.position.tolist() == [1, 3]
    assert failed.error.str.split(':').str[0].tolist() == [
        'IndexError',
        'ValueError',
    ]  # the second has no role of the judge
    monkeypatch.undo()
    assert experiment.run(tmp_path).failed.position.tolist() == [3]


def test_a_resume_does_not_count_replayed_replies_again(tmp_path):
    def spent(results):
        return [
            {name: value for name, value in line.items() if name != 'seconds'} for line in results.provenance['spent']
        ]

    experiment = grid(plain(memory=replace(WORDS, name='read', builder=reading), role=READ), talks=2, lm=PARROT)
    whole = experiment.run(tmp_path / 'whole')
    runs = []
    while not runs or runs[-1].missing:
        runs.append(experiment.run(tmp_path / 'parts', 1, budget=150))
    assert len(runs) > 2 and sorted(map(str, spent(runs[-1]))) == sorted(map(str, spent(whole)))
    assert runs[-1].provenance['tokens paid for'] == whole.provenance['tokens paid for']


def test_rows_of_changed_code_are_not_mixed(tmp_path, monkeypatch):
    grid().run(tmp_path)
    monkeypatch.setattr(plan, '_source_hash', lambda package: f'{package} as it is now')
    with pytest.raises(ExperimentError, match="another experiment \\(code: .* there, .*as it is now.* here\\)"):
        grid().run(tmp_path)


@pytest.mark.parametrize('damage', ['settings', 'row', 'trace', 'other', 'text', 'deep'])
def test_damage_is_told_with_the_name_of_the_file(tmp_path, damage):
    grid(talks=1).run(tmp_path)
    file = tmp_path / 'rows.sqlite'
    with module.closing(RowStore(file)) as store:
        values = {
            'settings': ('record', "key = 'settings'"),
            'row': ('record', "key LIKE '[%'"),
            'trace': ('trace', "key LIKE '[%'"),
            'deep': ('record', '1'),
        }
        if damage in values:
            column, where = values[damage]
            store.rows(f'UPDATE records SET {column} = ? WHERE {where}', '[' * 9000 if damage == 'deep' else '{}')
    if damage == 'other':
        file.unlink()
        MEMORIES['bank'].build(load_sample(), RuleLM()).close()
        from memnb.memma.bank import MemoryBank

        MemoryBank(file).close()
    elif damage == 'text':
        file.write_text('[' * 9000)
    for read in (lambda: main_report(SimpleNamespace(folder=tmp_path, out=None)), lambda: grid(talks=1).run(tmp_path)):
        if damage != 'trace' or read.__code__.co_names[0] == 'main_report':
            with pytest.raises(MemoryFileError, match='rows.sqlite'):
                read()


def test_rows_that_have_lost_their_settings_are_told(tmp_path):
    grid(talks=1).run(tmp_path)
    with module.closing(RowStore(tmp_path / 'rows.sqlite')) as store:
        store.rows("UPDATE records SET key = 'setting5' WHERE key = 'settings'")
    with pytest.raises(ExperimentError, match='rows.sqlite: damaged: rows without the settings'):
        RunFolder(tmp_path)


def test_a_spreadsheet_computes_nothing_and_a_terminal_obeys_nothing(tmp_path):
    formulas = ['=HYPERLINK("http://x")', '+1', '-2+3', '@x', '\t=1', '\r=1']
    experiment = grid(plain('=1+1'), talks=1, questions=6)
    rows = experiment.run(tmp_path).rows.assign(answer=formulas, category='\x1b[31m')
    replace(experiment.run(tmp_path), rows=rows).save(tmp_path)
    written = pandas.read_csv(tmp_path / 'rows.csv', keep_default_na=False)
    assert written.answer.tolist() == [f"'{text}" for text in formulas] and set(written.method) == {"'=1+1"}
    assert '\x1b' not in format_tables(replace(experiment.run(tmp_path), rows=rows).tables())


@pytest.mark.skipif(os.name != 'posix', reason='the system has no such links')
def test_what_is_written_is_for_its_owner_and_follows_no_link(tmp_path):
    victim, folder = tmp_path / 'victim', tmp_path / 'run'
    victim.write_text('mine')
    folder.mkdir()
    for name in ('rows.csv', 'results.json', 'report.html', '.report.html.new'):
        (folder / name).symlink_to(victim)
    grid(plain(role=READ), talks=1, lm=PARROT).run(folder)
    main_report(SimpleNamespace(folder=folder, out=None))
    assert victim.read_text() == 'mine'
    written = {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir() if not path.is_symlink()}
    assert written.pop('report.html') == (tmp_path / 'victim').stat().st_mode & 0o777  # a page is for others, too
    assert written == dict.fromkeys(('rows.sqlite', 'replies.sqlite', 'rows.csv', 'results.json'), 0o600)


def test_sessions_out_of_the_order_of_time_are_built_by_every_memory():
    sessions = [
        (datetime(2024, 6, 1), [('Ana', 'I moved to Porto.')]),
        (datetime(2024, 5, 1), [('Ana', 'I live in Lisbon.')]),
    ]
    for memory in MEMORIES.values():
        assert memory.build(Conversation.of('c', sessions), RuleLM()).search('Porto', 1)
