"""The rows with the settings of the papers of MemR3 and REMem: what is measured of them, and what a report says of it."""
import json
from dataclasses import replace

import pytest
from hypothesis import given, settings, strategies as st

from memnb.core.roles import NO_INFORMATION
from memnb.core.conversation import Conversation, Question, Session, Turn
from memnb.remem.tools import GistGraph
from memnb.evaluation.judge import Judge
from memnb.evaluation.papers import (
    chunk_methods, CHUNKS, measured, setting_methods, setting_report, setting_rows, setting_tables,
    SHOWN)
from memnb.evaluation.papers import (
    answer_report, answer_rows, answer_tables, answered_row, answering_methods, graph_sizes, Oracle)
from memnb.core.trace import RouteStep, SearchStep, Seen, ToolStep
from memnb.core.trace import Trace


def small():
    "Two sessions, a question of two kinds, and one that cannot be answered."
    turns = [('Ana', 'I bought a red kayak yesterday.'), ('Ben', 'I still paint boats every Sunday.'), ('Ana', 'My sister Ida visited Oslo in May.')]
    sessions = tuple(Session(f'S{number}', tuple(Turn(f'S{number}:{place}', who, f'{text} ({number})') for place, (who, text) in enumerate(turns, 1)))
                     for number in (1, 2, 3))
    return Conversation('small', sessions, (
        Question('What did Ana buy?', 'a kayak', ('S1:1', 'S2:1'), 'single-hop', 'small', 0),
        Question('When did Ida visit Oslo?', 'May', ('S1:3',), 'temporal', 'small', 1),
        Question('What did Ben buy?', None, ('S1:1',), 'adversarial', 'small', 2)))


@pytest.fixture(scope='module')
def memr3():
    return setting_rows([small()])


@pytest.fixture(scope='module')
def remem():
    return answer_rows([small()])


shown = st.lists(st.lists(st.text(max_size=30), max_size=4), max_size=5)


@settings(max_examples=60)
@given(shown, st.integers(0, 5), st.sampled_from(['a kayak', 'Berlin', '']))
def test_tokens_are_a_quarter_of_the_characters_shown_and_iterations_are_routes_or_else_searches(searches, routes, said):
    steps = [SearchStep(iteration=1, query='q', k=5, hits=[Seen(id=f'{place}', text=text) for place, text in enumerate(texts)]) for texts in searches]
    steps += [RouteStep(iteration=1, proposed='answer', action='answer', reason='') for _ in range(routes)]
    question = Question('What?', 'a kayak', ('S1:1',), 'single-hop', 'small', 0)
    row = measured(Trace(question='What?', method='m', model='rules', answer=said, steps=steps), question, 'm', Judge())
    assert row.scores['tokens'] == sum((len(text) + 3) // 4 for texts in searches for text in texts)
    assert row.scores['iterations'] == (routes or len(searches))
    assert row.scores['accepted'] == (said == 'a kayak')


def test_a_failed_question_has_no_scores_and_no_iterations():
    question = small().questions[0]
    for make in (measured, answered_row):
        assert make(Trace(question='q', method='m', model='rules', error='broken'), question, 'm', Judge()).scores == {}


@settings(max_examples=40)
@given(st.sampled_from([NO_INFORMATION, '', 'a kayak', 'red', NO_INFORMATION.upper()]))
def test_only_a_refusal_is_accepted_where_nothing_can_be_answered_and_never_elsewhere(said):
    open_, _, closed = small().questions
    refused = said.strip().lower() == NO_INFORMATION.lower()
    trace = Trace(question='q', method='m', model='rules', answer=said)
    right = {one.category: answered_row(trace, one, 'm', Judge()).scores for one in (open_, closed)}
    assert not (refused and right['single-hop']['accepted'])
    if said:
        assert bool(right['adversarial']['accepted']) == refused
        assert (right['adversarial']['f1_squad'] == 1) == refused


def test_tokens_and_calls_are_those_of_searches_and_tools_together():
    hit = Seen(id='a', text='12345')
    steps = [SearchStep(iteration=1, query='q', k=1, hits=[hit]), ToolStep(iteration=2, tool='t', hits=[hit, hit])]
    trace = Trace(question='q', method='m', model='rules', answer='a kayak', steps=steps)
    scores = answered_row(trace, small().questions[0], 'm', Judge()).scores
    assert (scores['tokens'], scores['calls']) == (6, 2)


def test_every_setting_asks_every_answerable_question_once(memr3):
    assert sorted((row.method, row.position) for row in memr3) == sorted((name, place) for name in setting_methods([small()]) for place in (0, 1))
    assert not [row for row in memr3 if row.error]


def test_a_setting_reads_no_more_than_its_snippets_times_its_iterations(memr3):
    for row in memr3:
        if row.method.startswith('MemR3, '):
            chunks, times = map(int, row.method.removeprefix('MemR3, ').split(' × '))
            assert row.turns <= chunks * times and row.scores['iterations'] <= times
        elif row.method in ('RAG', 'Self-RAG', 'RAG-CoT-RAG') or row.method.startswith('MemR3'):
            assert row.turns <= {'RAG': 5, 'RAG-CoT-RAG': 10}.get(row.method, 25)


def test_chunks_of_all_sizes_show_at_most_so_many_words_and_most_of_it():
    long = Conversation('long', tuple(
        Session(f'L{number}', tuple(Turn(f'L{number}:{place}', 'Ana', 'word ' * 60) for place in range(1, 40))) for number in (1, 2)))
    words = {turn.id: len(turn.content.split()) for turn in long.turns}
    for name, make in chunk_methods([long]).items():
        number, size = int(name.split()[0]), int(name.split()[2])
        assert (number == 1 or number * size == SHOWN) and size in CHUNKS
        read = make(long).ask('word?').read
        assert 0 < sum(words[id] for id in read) <= number * size <= SHOWN
        assert number == 1 or sum(words[id] for id in read) > SHOWN // 2


def test_the_iterations_of_a_category_add_up_to_its_questions(memr3):
    report = setting_report(memr3)
    [whole] = [one for one in report['rows'] if one['method'] == 'MemR3']
    assert {name: sum(counts) for name, counts in report['rounds'].items()} == {name: part['turns']['n'] for name, part in whole['by_category'].items()}


def test_the_oracle_reads_the_gold_that_is_there_and_knows_no_other_question():
    first = small().questions[0]
    again = replace(first, evidence=('S3:1', 'S1:1'), position=1)
    loop = Oracle(replace(small(), questions=(replace(first, evidence=('S1:1',)), again)))
    assert loop.ask('What did Ana buy?').read == ['S1:1', 'S3:1']
    with pytest.raises(KeyError):
        loop.ask('What did Ida buy?')


def test_the_rows_of_answers_cover_all_categories(remem):
    assert {row.method for row in remem} == set(answering_methods([small()]))
    assert {row.category for row in remem} == {'single-hop', 'temporal', 'adversarial'} and not [row for row in remem if row.error]
    assert all(row.scores['accepted'] is not None for row in remem)


def test_reports_survive_their_file(memr3, remem):
    for report, tables in ((setting_report(memr3), setting_tables), (answer_report(remem, [small()]), answer_tables)):
        assert tables(json.loads(json.dumps(report))) == tables(report)


def test_forms_and_differences_are_about_the_rows_that_they_name(remem):
    report = answer_report(remem, [small()])
    assert sum(form['accepted']['n'] for form in report['forms'].values()) == 3
    mean = {one['method']: one['accepted']['mean'] for one in report['rows']}
    for one in report['differences']:
        if one['metric'] == 'accepted':
            assert one['overall']['mean'] == pytest.approx(mean['REMem-I'] - mean[one['minus']])


@settings(max_examples=20)
@given(st.lists(st.sampled_from(['I bought a red kayak.', 'Ida visited Oslo in May.', 'Hm.', 'We won the race in 2022, and Ben cried.']), max_size=8))
def test_the_degrees_of_a_graph_give_its_edges_back(texts):
    conversation = Conversation('c', (Session('S1', tuple(Turn(f'S1:{place}', 'Ana', text) for place, text in enumerate(texts, 1))),))
    sizes = graph_sizes(GistGraph.of(conversation), conversation)
    assert sizes['degree of gist nodes'] * sizes['gist nodes'] == pytest.approx(sizes['context edges'])
    assert sizes['degree of phrase nodes'] * sizes['phrase nodes'] == pytest.approx(sizes['context edges'] + 2 * sizes['relation edges'])
    assert sizes['input tokens'] == sum((len(text) + 3) // 4 for text in texts)


