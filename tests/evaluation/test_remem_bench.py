"""The tables of REMem: what is counted, and that a report survives its file."""
import json
from argparse import Namespace
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from memnb.core.roles import NO_INFORMATION
from memnb.core.conversation import Conversation, Question, Session, Turn
from memnb.evaluation.datasets import DatasetError
from memnb.evaluation.experiment import CATEGORIES, Row
from memnb.evaluation.papers import (
    FORMS, in_turn, LOOKED, Ranked, Refusals, refusals, remem_report, remem_rows, remem_tables,
    temporal_form, TURNS_remem_bench as TURNS)
from memnb.core.conversation import Snippet
from memnb.core.retriever import Hit
from memnb.evaluation.test_of_time import make_tot, WORDINGS
from memnb.evaluation.papers import acted, fault_of, main_tot, tot_report, tot_rows, tot_tables, wordings_of

PARAPHRASES = Path(__file__).parents[1] / 'tot_paraphrases.json'
answers = st.one_of(st.none(), st.sampled_from(['', ' ', NO_INFORMATION, 'no information available', 'In May', f'{NO_INFORMATION}.']))


@given(st.lists(st.lists(st.integers(), max_size=6), max_size=4))
def test_in_turn_takes_everything_once_and_the_first_of_each_before_any_second(lists):
    merged = in_turn(*lists)
    places = [(place, which) for place in range(max(map(len, lists), default=0)) for which, one in enumerate(lists) if place < len(one)]
    assert merged == [lists[which][place] for place, which in places]


@given(st.lists(st.sampled_from('abcdefgh')), st.sets(st.sampled_from('abcdefgh')), st.integers(0, 9))
def test_a_ranking_shows_the_first_k_that_are_not_masked_each_once(ids, masked, k):
    memory = Ranked(lambda query, wanted: (Hit(Snippet(id, f'{query} {id}')) for id in ids))
    expected = [id for id in dict.fromkeys(ids) if id not in masked][:k]
    assert [hit.snippet.id for hit in memory.search('q', k, exclude=masked)] == expected


@given(st.lists(st.tuples(answers, st.sampled_from([*CATEGORIES, 'adversarial']), st.booleans())))
def test_refusals_are_counted_like_by_hand(said):
    rows = [Row('c', number, category, 'm', answer=answer, error='broken' if failed else None)
            for number, (answer, category, failed) in enumerate(said)]
    kept = [(answer, category) for answer, category, failed in said if not failed]
    is_refused = [answer is None or not answer.strip() or 'no information' in answer.lower() for answer, _ in kept]
    is_bad = [category == 'adversarial' for _, category in kept]
    both = sum(a and b for a, b in zip(is_refused, is_bad))
    counts = refusals(rows)
    assert counts == Refusals(sum(is_refused), both, sum(is_bad), len(kept))
    if both:
        assert counts.f1 == pytest.approx(2 / (1 / counts.precision + 1 / counts.recall))


def small():
    "A conversation of two sessions with a question of two kinds."
    turns = [('Ana', 'I bought a red kayak yesterday.'), ('Ben', 'I still paint boats every Sunday.'), ('Ana', 'My sister Ida visited Oslo in May.')]
    sessions = [Session(f'S{number}', tuple(Turn(f'S{number}:{place}', who, text) for place, (who, text) in enumerate(turns, 1))) for number in (1, 2)]
    questions = (Question('What did Ana buy?', 'a kayak', ('S1:1',), 'single-hop', 'small', 0),
                 Question('What did Ben buy?', None, ('S1:1',), 'adversarial', 'small', 1))
    return Conversation('small', tuple(sessions), questions)


@settings(max_examples=1)
@given(st.none())
def test_rows_report_and_tables_hold_together(_):
    conversation = small()
    rows = remem_rows([conversation])
    assert not [row for part in rows.values() for row in part if row.error]
    assert all(row.turns <= TURNS < LOOKED for part in ('retrieval', 'agents') for row in rows[part])
    assert {row.category for row in rows['free']} == {'single-hop', 'adversarial'}
    report = remem_report(rows, [conversation])
    again = json.loads(json.dumps(report))
    assert [str(one) for one in remem_tables(again)] == [str(one) for one in remem_tables(report)]
    assert report['refusals']['REMem']['questions'] == 2


def test_the_tools_alone_are_right_and_the_listed_wordings_are_read():
    items = make_tot(48, seed=11)
    assert all(row.right and row.calls <= 5 for row in tot_rows(items, 'meant', acted))
    rows = tot_rows(items, 'listed')
    assert all(row.right and row.calls <= 5 for row in rows), [row for row in rows if not row.right]


def test_a_broken_label_is_seen():
    items = make_tot(16, seed=12)
    rows = tot_rows(items, 'meant', lambda item: (f'{item.label}9', 1))
    assert not any(row.right for row in rows) and all(row.fault for row in rows)
    report = tot_report(rows)
    assert report['sets']['meant']['overall']['mean'] == 0 and sum(report['faults']['meant'].values()) == 16
    assert 'meant' in str(tot_tables(report)[1])


def test_the_frozen_paraphrases_fit_and_are_no_listed_wordings():
    sets = wordings_of(str(PARAPHRASES))
    assert set(sets) == {'plain', 'spoken', 'formal'}
    for one in sets.values():
        assert not {text for texts in one.values() for text in texts} & {text for texts in WORDINGS.values() for text in texts}


def test_a_refusal_is_a_fault_of_its_own():
    assert {fault_of(item, NO_INFORMATION) for item in make_tot(16, seed=1)} == {'false refusal'}


@pytest.mark.parametrize('text', ['[]', '{"a": []}', '{"a": {"first_last/first": ["x"]}}', '{'])
def test_bad_wordings_name_the_file(tmp_path, text):
    path = tmp_path / 'words.json'
    path.write_text(text)
    with pytest.raises(DatasetError, match='words.json'):
        wordings_of(str(path))


def test_the_bench_prints_one_object(capsys):
    assert main_tot(Namespace(data=None, wordings=None, questions=16, json=True)) == 0
    report = json.loads(capsys.readouterr().out)
    assert report['sets']['the listed wordings']['overall'] | {'n': 16} == report['sets']['the listed wordings']['overall']


@given(st.text(max_size=60))
def test_every_question_has_one_form_of_the_list(question):
    assert temporal_form(question) in [*(name for name, _ in FORMS), 'no time told']


@pytest.mark.parametrize('question, form', [
    ('How long did the voyage take?', 'duration'), ('How many oars are there?', 'aggregation'), ('In which year was it?', 'event timing'),
    ('What came before the storm?', 'order'), ('Was Ida in Oslo in 2019?', 'existence check'), ('Who sang in June?', 'event attributes'),
    ('Who sang?', 'no time told'), ('Whenever is a word?', 'no time told')])
def test_the_form_of_a_question(question, form):
    assert temporal_form(question) == form
