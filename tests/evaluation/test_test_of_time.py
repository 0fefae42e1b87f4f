"""Test of Time: labels against an oracle that lives through the time tick by tick, seeds, wordings, and the file format."""
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
from memnb.remem.facts import begin_and_end
from memnb.evaluation.test_of_time import (
    brute_force, exact_match, FIELDS, KINDS, load_tot_conversations, make_tot, Term, tot_conversation, TotItem, TotQuestion)

NAMES, RELATIONS = ('E1', 'E2', 'E3', 'E4'), ('R1', 'R2')


# The oracle: time in half years. A term occupies the ticks 2 * start to 2 * end, so that two terms of the same holder in
# neighbouring years are two runs. Nothing below looks at a term again.

class Clock:
    def __init__(self, terms):
        self.ticks = {}
        for subject, relation, of, start, end in terms:
            for tick in range(2 * start, 2 * end + 1):
                self.ticks.setdefault(tick, set()).add((subject, relation, of))
        self.first, self.last = min(self.ticks), max(self.ticks)

    def at(self, tick):
        return self.ticks.get(tick, set())

    def all_ticks(self):
        return range(self.first - 1, self.last + 2)

    def starts(self, triple):
        return [tick for tick in self.all_ticks() if triple in self.at(tick) and triple not in self.at(tick - 1)]

    def ends(self, triple):
        return [tick for tick in self.all_ticks() if triple in self.at(tick) and triple not in self.at(tick + 1)]

    def seen(self):
        return {triple for tick in self.all_ticks() for triple in self.at(tick)}

    def holders(self, relation, of):
        return {triple for triple in self.seen() if triple[1:] == (relation, of)}


def single(found):
    found = list(found)
    return found[0] if len(found) == 1 else None


def walk(ticks, events):
    "The only triple with an event at the first of the ticks that has any; None for a tie."
    for tick in ticks:
        here = [triple for triple, times in events.items() if tick in times]
        if here:
            return single(here)
    return None


def oracle_neighbour(clock, asked):
    if len(clock.starts(asked.anchor)) != 1:
        return None
    begun, over = clock.starts(asked.anchor)[0], clock.ends(asked.anchor)[0]
    runs = {(one, start, end) for one in clock.holders(asked.relation, asked.object) - {asked.anchor}
            for start, end in zip(clock.starts(one), clock.ends(one))}
    starts, ends = {run: [run[1]] for run in runs}, {run: [run[2]] for run in runs}
    if asked.variant == 'before':
        level = [run for run in runs if run[1] == begun]
        near = walk(range(begun, clock.first - 1, -1), ends)
        same = walk(range(begun, clock.first - 1, -1), starts)
    else:
        level = [run for run in runs if run[2] == over]
        near = walk(range(over, clock.last + 1), starts)
        same = walk(range(over, clock.last + 1), ends)
    return near[0][0] if near and near == same and not level else None


def oracle(terms, asked):
    clock = Clock(terms)
    triple = (asked.subject, asked.relation, asked.object)
    post = clock.holders(asked.relation, asked.object)
    if asked.kind == 'before_after':
        return oracle_neighbour(clock, asked)
    if asked.kind in ('event_at_time_t', 'event_at_the_time_of_another_event'):
        tick = 2 * asked.year if asked.year else None
        if asked.anchor:
            if len(clock.starts(asked.anchor)) != 1:
                return None
            tick = (clock.starts if asked.variant.endswith('start') else clock.ends)(asked.anchor)[0]
        unknown = 0 if asked.subject is None else 2
        return single({one[unknown] for one in clock.at(tick)
                       if all(part in (None, own) for part, own in zip(triple, one))})
    if asked.kind == 'event_at_what_time':
        tick = single((clock.starts if asked.variant == 'start' else clock.ends)(triple))
        return None if tick is None else str(tick // 2)
    if asked.kind == 'first_last':
        starts, ends = ({one: of(one) for one in post} for of in (clock.starts, clock.ends))
        if asked.variant == 'first':
            best = walk(clock.all_ticks(), starts)
        else:
            best = walk(reversed(clock.all_ticks()), starts)
            best = best if best == walk(reversed(clock.all_ticks()), ends) else None
        return best and best[0]
    if asked.kind == 'number_of_events_in_time_interval':
        ticks = range(2 * asked.year, 2 * asked.end_year + 1)
        return str(len({one for tick in ticks for one in clock.at(tick) if one in post}))
    if asked.kind == 'relation_duration':
        if len(clock.starts(triple)) < asked.ordinal:
            return None
        return str((clock.ends(triple)[asked.ordinal - 1] - clock.starts(triple)[asked.ordinal - 1]) // 2)
    events = {one: (clock.starts if asked.variant == 'start' else clock.ends)(one) for one in post}
    order = []
    for tick in clock.all_ticks():
        here = [one for one, times in events.items() if tick in times]
        if len(here) > 1:
            return None
        order += here
    return ','.join(one[0] for one in order) if len(order) > 1 and len(set(order)) == len(order) else None


@st.composite
def worlds(draw):
    "Terms in which nobody holds the same post twice at once."
    terms = []
    for subject, relation, of, start, length in draw(st.lists(st.tuples(
            st.sampled_from(NAMES), st.sampled_from(RELATIONS), st.sampled_from(NAMES[:2]), st.integers(1950, 1962),
            st.sampled_from((0, 0, 1, 2, 3, 5))), min_size=1, max_size=9)):
        new = Term(subject, relation, of, start, start + length)
        if not any(old.triple == new.triple and old.in_office(new.start, new.end) for old in terms):
            terms.append(new)
    return terms


@st.composite
def questions(draw, terms):
    "Any question about names that may or may not be there."
    key = draw(st.sampled_from(sorted(FIELDS)))
    (kind, variant), fields, one = key.split('/'), FIELDS[key], draw(st.sampled_from(terms))
    other, year = draw(st.sampled_from(terms)), draw(st.integers(1949, 1968))
    return TotQuestion(
        kind, variant, one.relation, one.subject if 'subject' in fields else None, one.object if 'object' in fields else None,
        year if {'year', 'start_year'} & set(fields) else None, year + draw(st.integers(0, 6)) if 'end_year' in fields else None,
        draw(st.integers(1, 3)) if 'ordinal' in fields else None,
        None if 'anchor_subject' not in fields else one.triple if kind == 'before_after' else other.triple)


@settings(max_examples=400)
@given(st.data())
def test_brute_force_agrees_with_the_clock(data):
    terms = data.draw(worlds())
    asked = data.draw(questions(terms))
    assert brute_force(terms, asked) == oracle(terms, asked)


@pytest.fixture(scope='module')
def items():
    return make_tot(160, seed=3)


def test_every_label_agrees_with_the_clock(items):
    for item in items:
        terms = list(item.terms)
        assert item.label == oracle(terms, item.asked), item.question


def test_types_and_variants_have_their_share(items):
    assert set(Counter(item.kind for item in items).values()) == {20} and {item.kind for item in items} == set(KINDS)
    assert {f'{item.kind}/{item.asked.variant}' for item in items} == set(FIELDS)
    assert [item.position for item in items] == list(range(160))


def test_nobody_holds_a_post_twice_at_once(items):
    for item in items:
        terms = item.terms
        assert all(term.start <= term.end and term.subject != term.object for term in terms)
        assert not any(a.triple == b.triple and a.in_office(b.start, b.end) for n, a in enumerate(terms) for b in terms[:n])


@settings(max_examples=40)
@given(st.integers(0, 159), st.data())
def test_what_is_not_asked_about_does_not_matter(items, position, data):
    item = items[position]
    terms = list(item.terms)
    others = [Term(a, 'R0', b, 1900, 1999) for a, b in data.draw(st.lists(st.permutations(NAMES).map(lambda p: p[:2]), max_size=3))]
    assert brute_force(data.draw(st.permutations(terms + others)), item.asked) == item.label


def test_same_seed_same_items_in_another_process():
    code = 'from memnb.evaluation.test_of_time import make_tot; print(make_tot(32, seed=5))'
    done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True,
                          env=os.environ | {'PYTHONHASHSEED': '7'})
    assert done.stdout.strip() == str(make_tot(32, seed=5)) != str(make_tot(32, seed=6))


names = st.from_regex(r'[A-Z][A-Za-z0-9]{0,4}', fullmatch=True)
years = st.integers(1, 9999)
any_terms = st.builds(lambda a, r, b, span: Term(a, r, b, *sorted(span)), names, names, names, st.tuples(years, years))


@given(any_terms)
def test_a_term_survives_its_line_and_its_fact(term):
    fact = term.fact(3)
    assert Term.read(term.line) == term and (fact.id, fact.sources) == ('F3', ('F3',))
    begun, over = begin_and_end(fact)
    assert (begun.start.year, over.end.year) == (term.start, term.end)


@pytest.mark.parametrize('line', [
    'E1 was the R1 of E2 from 1957 to 1952.', 'E1 was the R1 of E2 from 1952 to 1957', 'E1 was R1 of E2 from 1952 to 1957.',
    'E1 was the R1 of E2 from 1957 to \u0661\u0669\u0665\u0662.', 'E1 was the R1 of E2 from \u0661\u0669\u0665\u0662 to \u0661\u0669\u0665\u0667.',
    'E1 was the R1 of E2 in 1952.', 'E1 was the R1 of E2 from 52 to 57.', 'E1 was the R1 of E2 from 0000 to 1957.', ''])
def test_what_is_no_fact_is_none(line):
    assert Term.read(line) is None


def record_of(item):
    "An item in the benchmark's schema."
    facts = '\n'.join(term.line for term in item.terms)
    return {'prompt': f'Facts:\n{facts}\n\nAnswer.', 'question': item.question, 'question_type': item.kind, 'label': item.label}


words = st.text(min_size=1).map(tidy).filter(bool)


@settings(max_examples=50)
@given(st.lists(st.builds(
    TotItem, st.lists(any_terms, min_size=1, max_size=5).map(tuple),
    words, st.sampled_from(KINDS), words, st.just(0)), min_size=1, max_size=4), st.sampled_from(['list', '\n', '\r\n', '\n\n']))
def test_any_items_survive_the_file(tmp_path_factory, made, form):
    path = tmp_path_factory.mktemp('tot') / 'any.json'
    made, records = [replace(item, position=number) for number, item in enumerate(made)], [record_of(item) for item in made]
    path.write_text(json.dumps(records) if form == 'list' else form.join(map(json.dumps, records)), newline='')
    assert load_tot_conversations(path) == [tot_conversation(item, 'any') for item in made]


GOOD = {'prompt': 'Facts:\nE1 was the R1 of E2 from 1952 to 1957.\n\nAnswer.', 'question': 'Who?', 'question_type': 'timeline',
        'label': 'E1', 'graph_gen_algorithm': 'er', 'sorting_type': 'shuffle'}


@pytest.mark.parametrize('content, message', [
    ([GOOD, GOOD | {'question_type': 'timelines'}], r"tot.json\[1\].question_type: Input should be 'before_after'"), ([GOOD | {'label': ''}], r'tot.json\[0\].label: String should have'),
    ([GOOD | {'label': ['E1']}], r'tot.json\[0\].label: Input should be a valid string'),
    ([GOOD | {'prompt': 'H\nE1 was the R1 of E2 from 1957 to \u0661\u0669\u0665\u0662.'}], r'\[0\].prompt: expected facts'), ([GOOD | {'prompt': 'Facts:\n\nAnswer.'}], r'\[0\].prompt: expected facts'),
    ([GOOD | {'prompt': 'Facts:\nE1 was the R1 of E2 from 1952 to 1957.\nE3 left.\n\nAnswer.'}], r"\[0\].prompt: .* one of them is 'E3 left.'"),
    ('[1', 'not JSON'), (json.dumps(GOOD) + '\n{"prompt": ', 'tot.json: line 2: not JSON'),
])
def test_damage_is_refused_with_its_place(tmp_path, content, message):
    path = tmp_path / 'tot.json'
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding='utf-8')
    with pytest.raises(DatasetError, match=message):
        load_tot_conversations(path)


@given(st.lists(names, min_size=1, max_size=4), st.lists(names, min_size=1, max_size=4))
def test_exact_match_is_equality_of_lists(one, other):
    assert exact_match(f' {", ".join(one).lower()} ', ','.join(one))
    assert exact_match(','.join(one), ','.join(other)) == ([x.casefold() for x in one] == [x.casefold() for x in other])


@pytest.mark.skipif(not os.environ.get('MEMNB_TOT'), reason='MEMNB_TOT names no file of Test of Time')
def test_the_published_file_loads():
    loaded = load_tot_conversations(os.environ['MEMNB_TOT'])
    assert loaded and all(one.turns and one.questions[0].answer for one in loaded)
