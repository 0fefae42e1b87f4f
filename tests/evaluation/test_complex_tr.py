"""The Complex-TR loader, on a small file written for the project; its gold answers follow from its facts."""
import json
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memnb.evaluation.benchmarks import all_facts, career_fact, load_complex_tr, PREDICATES
from memnb.evaluation.datasets import DatasetError
from memnb.remem.facts import Window
from memnb.core.time import TimeSpan

FILE = Path(__file__).parents[1] / 'complex_tr.json'
ROWS = [json.loads(line) for line in FILE.read_text(encoding='utf-8').splitlines()]


@pytest.fixture(scope='module')
def questions():
    return load_complex_tr(FILE)


def test_kinds_levels_and_answers(questions):
    assert [(one.level, one.kind, one.multi_hop) for one in questions] == [
        ('L2', 'time-to-event', False), ('L2', 'time-to-event', False), ('L2M', 'time-to-event', True),
        ('L3', 'event-to-event', False), ('L3M', 'event-to-event', True), ('L3H', 'event-to-event', True),
        ('L2H', 'time-to-event', True)]
    assert [one.answers for one in questions] == [tuple(row['text_answers']['text']) for row in ROWS]
    assert [one.question for one in questions] == [row['question'] for row in ROWS]
    assert [one.position for one in questions] == list(range(7))
    assert [one.date.start for one in questions][:2] == [date(1963, 10, 4), date(1971, 5, 20)]


def test_facts_and_their_months(questions):
    facts = {(fact.subject, fact.predicate, fact.object): (str(fact.start), str(fact.end)) for fact in all_facts(questions)}
    assert facts[('Ilka Brandovic', 'was a member of', 'Green Lantern Society')] == ('January 1974', 'May 2023')
    assert facts[('Matteo Lindqvist', 'lived in', 'Port Ansel (North)')] == ('January 1988', 'January 1999')
    assert facts[('Matteo Lindqvist', 'held the position of', 'member of the town council')] == ('January 1993', 'January 2001')
    assert facts[('Matteo Lindqvist', 'worked for', 'Ansel Rovers')] == ('January 1979', 'January 1979')
    assert len(facts) == 12 and {fact.predicate for fact in all_facts(questions)} == set(PREDICATES.values())


def test_one_fact_is_one_fact_in_all_questions(questions):
    ids = [fact.id for one in questions for fact in one.facts]
    assert len(ids) == 42 and len(set(ids)) == len(all_facts(questions)) == 12
    assert all(fact.sources == (fact.id,) for fact in all_facts(questions))


def test_texts_to_search(questions):
    assert [len(one.passages) for one in questions] == [2, 2, 2, 1, 1, 1, 1]
    assert questions[0].passages[1].text.startswith('Northlight Radio: Northlight Radio was a station')
    assert questions[3].passages[0].text == ROWS[3]['context']
    ids = [passage.id for one in questions for passage in one.passages]
    assert len(set(ids)) == len(ids)


# Which facts answer each question of the file: predicate, and the months by which they begun and had not ended.
WINDOWS = [('studied at', 'October 1963', 'October 1963'), ('worked for', 'May 1971', 'May 1971'),
           ('worked for', 'August 1969', 'March 1985'), ('worked for', 'June 1981', '2023'),
           ('worked for', 'July 1968', 'January 1979'), ('held the position of', 'May 1993', 'May 1993'),
           ('held the position of', 'September 2001', 'September 2001')]


@pytest.mark.parametrize('position', range(7))
def test_gold_answers_follow_from_the_facts(questions, position):
    predicate, first, last = WINDOWS[position]
    window = Window(last, first, start_operator='le', end_operator='ge')
    held = [fact for fact in questions[position].facts if fact.predicate == predicate and window.passes(fact)]
    assert tuple(fact.object for fact in sorted(held, key=lambda fact: fact.start.start)) == questions[position].answers


def test_a_json_list_is_read_like_json_lines(questions, tmp_path):
    (tmp_path / 'list.json').write_text(json.dumps(ROWS), encoding='utf-8')
    assert load_complex_tr(tmp_path / 'list.json') == questions


words = st.from_regex(r'[A-Z][a-z]{1,6}( \(?[A-Z][a-z]{1,6}\)?){0,2}', fullmatch=True).filter(lambda text: text.count('(') == text.count(')'))
months = st.tuples(st.integers(1000, 2100), st.integers(1, 12))


@given(words, st.sampled_from(sorted(PREDICATES)), words, months, months, st.sampled_from(['', '.', '. ']))
def test_a_line_is_cut_where_it_was_joined(subject, phrase, of, one, other, stop):
    spans = [TimeSpan.month(*month) for month in sorted((one, other))]
    fact = career_fact(f' {subject} {phrase} {of} from {spans[0]} to {spans[1]}{stop}')
    assert (fact.subject, fact.predicate, fact.object) == (subject, PREDICATES[phrase], of)
    assert (fact.start, fact.end) == tuple(spans)


@pytest.mark.parametrize('line, parts', [
    ('Ana worked for A from 1950 to 1960 from May 1999 to June 2000', ('Ana', 'worked for', 'A from 1950 to 1960')),
    ('Ana was a member of the the Band from May 1999 to June 2000', ('Ana', 'was a member of', 'the Band')),
    ('Ana received Prize lived in Rome from 3 May 1999 to June 2000.', ('Ana', 'received', 'Prize lived in Rome')),
    ('Ana worked for Tesla, Inc. from 1999 to 2000.', ('Ana', 'worked for', 'Tesla, Inc.'))])
def test_lines_that_are_easily_cut_wrong(line, parts):
    fact = career_fact(line)
    assert (fact.subject, fact.predicate, fact.object) == parts


@pytest.mark.parametrize('change, message', [
    ({'id': 'L4_Q1_P108_1'}, r"line 1.id: expected an id like 'L2_Q900001_P108_1', got 'L4_Q1_P108_1'"),
    ({'id': None}, 'line 1.id'),
    ({'question': 7}, 'line 1.question: expected a string'),
    ({'question': ' '}, 'line 1.question: expected some words'),
    ({'text_answers': ['A']}, 'line 1.text_answers: expected an object'),
    ({'text_answers': {'text': 'A'}}, 'line 1.text_answers.text: expected a list'),
    ({'text_answers': {'text': ['A', 1]}}, 'line 1.text_answers.text: expected a list of strings'),
    ({'text_answers': {'text': ['A', ' ']}}, 'line 1.text_answers.text: expected a list of strings'),
    ({'date': 'one day'}, "line 1.date: expected a date like 'March 03 1988', got 'one day'"),
    ({'fact_context': ' \n '}, 'line 1.fact_context: there are no facts'),
    ({'fact_context': 'Ana ran a tent from May 1999 to June 2000.'}, 'line 1.fact_context: .*worked for, got .Ana ran'),
    ({'fact_context': 'Ana worked for B since May 1999.'}, 'line 1.fact_context: expected a line like'),
    ({'fact_context': 'Ana worked for B from June 2000 to May 1999.'}, "line 1.fact_context: .*starts before it ends, got June 2000 to May 1999, in 'Ana worked for B"),
    ({'fact_context': 'Ana worked for B from Smarch 2000 to May 2009.'}, "line 1.fact_context: .*'Smarch 2000', in 'Ana worked for B"),
    ({'passages': [{'title': 'A'}]}, r'line 1.passages\[0\]: the field .text. is missing'),
])
def test_damage_is_refused_with_its_place(tmp_path, change, message):
    (tmp_path / 'bad.json').write_text('\n'.join(map(json.dumps, [ROWS[0] | change, ROWS[1]])), encoding='utf-8')
    with pytest.raises(DatasetError, match=message):
        load_complex_tr(tmp_path / 'bad.json')


def test_what_may_be_missing(tmp_path):
    row = {key: value for key, value in ROWS[0].items() if key not in ('date', 'context', 'passages')}
    (tmp_path / 'bare.json').write_text(json.dumps(row | {'text_answers': {'text': []}}), encoding='utf-8')
    [one] = load_complex_tr(tmp_path / 'bare.json')
    assert (one.date, one.passages, one.answers) == (None, (), ())


def test_other_phrases_can_be_given(tmp_path):
    row = ROWS[0] | {'fact_context': 'Ana ran the Tent from May 1999 to June 2000.'}
    (tmp_path / 'more.json').write_text(json.dumps(row), encoding='utf-8')
    [one] = load_complex_tr(tmp_path / 'more.json', PREDICATES | {'ran the': 'ran'})
    assert (one.facts[0].predicate, one.facts[0].object) == ('ran', 'Tent')
