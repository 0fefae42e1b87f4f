"""Test of Time: labels worked by hand, seeds, wordings, and the file format."""

import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memnb.evaluation.datasets import DatasetError, tidy
from memnb.evaluation.test_of_time import (
    brute_force,
    FIELDS,
    KINDS,
    load_tot_conversations,
    make_tot,
    Term,
    tot_conversation,
    TotItem,
    TotQuestion,
)

NAMES = ('E1', 'E2', 'E3', 'E4')


# E1 holds the post of E2 twice, and one year has two holders; beside it E1 and E3 hold R2 of E4 together.
TERMS = [
    Term('E1', 'R1', 'E2', 1950, 1952),
    Term('E3', 'R1', 'E2', 1953, 1955),
    Term('E4', 'R1', 'E2', 1955, 1960),
    Term('E1', 'R1', 'E2', 1962, 1963),
    Term('E1', 'R2', 'E4', 1951, 1955),
    Term('E3', 'R2', 'E4', 1951, 1955),
]
LABELS = {
    'event_at_time_t/subject': [(dict(year=1951), 'E1'), (dict(year=1955), None), (dict(year=1961), None)],
    'event_at_time_t/object': [
        (dict(subject='E1', object=None, year=1950), 'E2'),
        (dict(subject='E4', object=None, year=1950), None),
    ],
    'event_at_what_time/start': [(dict(subject='E3'), '1953'), (dict(subject='E1'), None)],
    'event_at_what_time/end': [(dict(subject='E3'), '1955')],
    'before_after/before': [
        (dict(anchor=('E4', 'R1', 'E2')), 'E3'),
        (dict(anchor=('E1', 'R1', 'E2')), None),
        (dict(relation='R2', object='E4', anchor=('E1', 'R2', 'E4')), None),
    ],
    'before_after/after': [(dict(anchor=('E3', 'R1', 'E2')), 'E4'), (dict(anchor=('E4', 'R1', 'E2')), 'E1')],
    'event_at_the_time_of_another_event/subject_start': [
        (dict(anchor=('E1', 'R2', 'E4')), 'E1'),
        (dict(anchor=('E2', 'R2', 'E4')), None),
    ],
    'event_at_the_time_of_another_event/subject_end': [(dict(anchor=('E1', 'R2', 'E4')), None)],
    'first_last/first': [({}, 'E1'), (dict(relation='R2', object='E4'), None)],
    'first_last/last': [({}, 'E1'), (dict(relation='R2', object='E4'), None)],
    'number_of_events_in_time_interval/count': [
        (dict(year=1953, end_year=1955), '2'),
        (dict(year=1950, end_year=1963), '3'),
        (dict(year=1961, end_year=1961), '0'),
    ],
    'relation_duration/nth': [(dict(subject='E1', ordinal=2), '1'), (dict(subject='E1', ordinal=3), None)],
    'timeline/start': [({}, None), (dict(relation='R2', object='E4'), None)],
}


@pytest.mark.parametrize('key', LABELS)
def test_labels_are_those_worked_by_hand(key):
    for parts, label in LABELS[key]:
        asked = TotQuestion(*key.split('/'), **{'relation': 'R1', 'object': 'E2', **parts})
        assert brute_force(TERMS, asked) == label, asked
    assert brute_force(TERMS[:3], TotQuestion('timeline', 'start', 'R1', object='E2')) == 'E1,E3,E4'


@pytest.fixture(scope='module')
def items():
    return make_tot(160, seed=3)


def test_types_and_variants_have_their_share(items):
    assert set(Counter(item.kind for item in items).values()) == {20} and {item.kind for item in items} == set(KINDS)
    assert {f'{item.kind}/{item.asked.variant}' for item in items} == set(FIELDS)
    assert [item.position for item in items] == list(range(160))


def test_nobody_holds_a_post_twice_at_once(items):
    for item in items:
        terms = item.terms
        assert all(term.start <= term.end and term.subject != term.object for term in terms)
        assert not any(
            a.triple == b.triple and a.in_office(b.start, b.end) for n, a in enumerate(terms) for b in terms[:n]
        )


@settings(max_examples=40)
@given(st.integers(0, 159), st.data())
def test_what_is_not_asked_about_does_not_matter(items, position, data):
    item = items[position]
    terms = list(item.terms)
    others = [
        Term(a, 'R0', b, 1900, 1999)
        for a, b in data.draw(st.lists(st.permutations(NAMES).map(lambda p: p[:2]), max_size=3))
    ]
    assert brute_force(data.draw(st.permutations(terms + others)), item.asked) == item.label


def test_same_seed_same_items_in_another_process():
    code = 'from memnb.evaluation.test_of_time import make_tot; print(make_tot(32, seed=5))'
    done = subprocess.run(
        [sys.executable, '-c', code],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {'PYTHONHASHSEED': '7'},
    )
    assert done.stdout.strip() == str(make_tot(32, seed=5)) != str(make_tot(32, seed=6))


names = st.from_regex(r'[A-Z][A-Za-z0-9]{0,4}', fullmatch=True)
years = st.integers(1, 9999)
any_terms = st.builds(lambda a, r, b, span: Term(a, r, b, *sorted(span)), names, names, names, st.tuples(years, years))


@given(any_terms)
def test_a_term_survives_its_line(term):
    assert Term.read(term.line) == term


@pytest.mark.parametrize(
    'line',
    [
        'E1 was the R1 of E2 from 1957 to 1952.',
        'E1 was the R1 of E2 from 1952 to 1957',
        'E1 was R1 of E2 from 1952 to 1957.',
        'E1 was the R1 of E2 from 1957 to \u0661\u0669\u0665\u0662.',
        'E1 was the R1 of E2 from \u0661\u0669\u0665\u0662 to \u0661\u0669\u0665\u0667.',
        'E1 was the R1 of E2 in 1952.',
        'E1 was the R1 of E2 from 52 to 57.',
        'E1 was the R1 of E2 from 0000 to 1957.',
        '',
    ],
)
def test_what_is_no_fact_is_none(line):
    assert Term.read(line) is None


def record_of(item):
    "An item in the benchmark's schema."
    facts = '\n'.join(term.line for term in item.terms)
    return {
        'prompt': f'Facts:\n{facts}\n\nAnswer.',
        'question': item.question,
        'question_type': item.kind,
        'label': item.label,
    }


words = st.text(min_size=1).map(tidy).filter(bool)


@settings(max_examples=50)
@given(
    st.lists(
        st.builds(
            TotItem,
            st.lists(any_terms, min_size=1, max_size=5).map(tuple),
            words,
            st.sampled_from(KINDS),
            words,
            st.just(0),
        ),
        min_size=1,
        max_size=4,
    ),
    st.sampled_from(['list', '\n', '\r\n', '\n\n']),
)
def test_any_items_survive_the_file(tmp_path_factory, made, form):
    path = tmp_path_factory.mktemp('tot') / 'any.json'
    made, records = (
        [replace(item, position=number) for number, item in enumerate(made)],
        [record_of(item) for item in made],
    )
    path.write_text(json.dumps(records) if form == 'list' else form.join(map(json.dumps, records)), newline='')
    assert load_tot_conversations(path) == [tot_conversation(item, 'any') for item in made]


GOOD = {
    'prompt': 'Facts:\nE1 was the R1 of E2 from 1952 to 1957.\n\nAnswer.',
    'question': 'Who?',
    'question_type': 'timeline',
    'label': 'E1',
    'graph_gen_algorithm': 'er',
    'sorting_type': 'shuffle',
}


@pytest.mark.parametrize(
    'content, message',
    [
        ([GOOD, GOOD | {'question_type': 'timelines'}], r"tot.json\[1\].question_type: Input should be 'before_after'"),
        (
            [GOOD | {'prompt': 'H\nE1 was the R1 of E2 from 1957 to \u0661\u0669\u0665\u0662.'}],
            r'\[0\].prompt: expected facts',
        ),
        ([GOOD | {'prompt': 'Facts:\n\nAnswer.'}], r'\[0\].prompt: expected facts'),
        ([GOOD | {'prompt': ' '}], r'\[0\].prompt: expected facts'),
        (
            [GOOD | {'prompt': 'Facts:\nE1 was the R1 of E2 from 1952 to 1957.\nE3 left.\n\nAnswer.'}],
            r"\[0\].prompt: .* one of them is 'E3 left.'",
        ),
    ],
)
def test_damage_is_refused_with_its_place(tmp_path, content, message):
    path = tmp_path / 'tot.json'
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding='utf-8')
    with pytest.raises(DatasetError, match=message):
        load_tot_conversations(path)


@pytest.mark.skipif(not os.environ.get('MEMNB_TOT'), reason='MEMNB_TOT names no file of Test of Time')
def test_the_published_file_loads():
    loaded = load_tot_conversations(os.environ['MEMNB_TOT'])
    assert loaded and all(one.turns and one.questions[0].answer for one in loaded)
