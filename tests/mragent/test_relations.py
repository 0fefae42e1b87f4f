"""The operators against comprehensions over a plain set of triples, and the relation itself against that set as it grows and forgets."""
import time
import tracemalloc
from itertools import product

import networkx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from memnb.mragent import graph as module
from memnb.mragent.graph import (
    contents_of, contents_of_all, pairs_of_all, Relations, tags_of, tags_of_all, to_networkx)

SMALL = module._SMALL
CUES, TAGS, CONTENTS = ('a', 'b', 'v', ''), ('g', 'h', 'a'), ('v', 'w', 'x', 'a', '')  # some names are used for several things
EVERY = list(product(CUES, TAGS, CONTENTS))
UNKNOWN = 'nobody'
sets = st.sets(st.sampled_from(EVERY))
some = {name: st.lists(st.sampled_from((*names, UNKNOWN))) for name, names in (('cues', CUES), ('tags', TAGS), ('contents', CONTENTS))}


# The oracle: the review's equations as comprehensions.

def tags(triples, cues):
    return {g for c, g, v in triples if c in cues}


def contents(triples, cues, tags):
    return {v for c, g, v in triples if c in cues and g in tags}


def pairs(triples, contents):
    return {(c, g) for c, g, v in triples if v in contents}


def agrees(relations, triples):
    "Everything that can be asked about single things is as the triples say."
    assert list(relations) == sorted(triples) and len(relations) == len(triples)
    assert set(relations.cues) == {c for c, g, v in triples}
    for cue in (*CUES, UNKNOWN):
        assert tags_of(relations, cue) == tags(triples, {cue})
        for tag in (*TAGS, UNKNOWN):
            assert contents_of(relations, cue, tag) == contents(triples, {cue}, {tag})
    for content in (*CONTENTS, UNKNOWN):
        assert pairs_of_all(relations, [content]) == pairs(triples, {content})


# The laws.

@given(sets)
def test_a_relation_is_its_triples(triples):
    relations = Relations(triples)
    agrees(relations, triples)
    assert [one in relations for one in EVERY] == [one in triples for one in EVERY]


@given(st.lists(st.sampled_from(EVERY)), st.randoms(use_true_random=False))
def test_neither_order_nor_repetition_matters(triples, chance):
    shuffled = [*triples, *triples[:3]]
    chance.shuffle(shuffled)
    assert list(Relations(shuffled)) == list(Relations(iter(triples))) == sorted(set(triples))


@given(sets)
def test_a_content_is_found_by_a_pair_exactly_if_the_pair_is_found_by_the_content(triples):
    relations = Relations(triples)
    for c, g, v in EVERY:
        assert (v in contents_of(relations, c, g)) == ((c, g) in pairs_of_all(relations, {v}))


@given(sets, some['cues'], some['tags'], some['contents'])
def test_the_lifted_forms_are_the_equations(triples, cues, chosen, ids):
    relations = Relations(triples)
    assert tags_of_all(relations, cues) == tags(triples, cues)
    assert contents_of_all(relations, cues, chosen) == contents(triples, cues, chosen)
    assert pairs_of_all(relations, ids) == pairs(triples, ids)


LIFTED = {'cues': lambda relations, cues: tags_of_all(relations, cues),
          'cues with tags': lambda relations, cues: contents_of_all(relations, cues, TAGS[:2]),
          'tags': lambda relations, tags: contents_of_all(relations, CUES[:2], tags),
          'contents': lambda relations, contents: pairs_of_all(relations, contents)}


@pytest.mark.parametrize('name', LIFTED)
@settings(max_examples=50)
@given(st.data())
def test_a_lifted_form_is_a_union_hence_monotone_and_free_of_order(name, data):
    lifted, relations = LIFTED[name], Relations(data.draw(sets))
    a, b = data.draw(some[name.split()[0]]), data.draw(some[name.split()[0]])
    assert lifted(relations, a + b) == lifted(relations, a) | lifted(relations, b)
    assert lifted(relations, b + a) == lifted(relations, a + b) == lifted(relations, set(a) | set(b)) == lifted(relations, iter(a + b))
    assert lifted(relations, a) <= lifted(relations, a + b)
    assert lifted(relations, []) == set()


@given(sets)
def test_forward_and_back_contains_what_one_started_from(triples):
    relations = Relations(triples)
    for c in relations.cues:
        for g in tags_of(relations, c):
            assert (c, g) in pairs_of_all(relations, contents_of(relations, c, g))
    for v in {v for c, g, v in triples}:
        back = pairs_of_all(relations, [v])
        assert v in contents_of_all(relations, [c for c, g in back], [g for c, g in back])
        assert all(v in contents_of(relations, c, g) for c, g in back)


@given(st.sets(st.sampled_from(EVERY), max_size=8))
def test_without_a_choice_the_walk_reaches_the_connected_component(triples):
    relations = Relations(triples)
    graph = to_networkx(relations).to_undirected()
    for start in relations.cues:
        cues, found = {start}, set()
        for _ in range(len(EVERY)):
            found |= contents_of_all(relations, cues, tags_of_all(relations, cues))
            cues |= {c for c, g in pairs_of_all(relations, found)}
        component = networkx.node_connected_component(graph, ('cue', start))
        assert component == {('cue', c) for c in cues} | {('content', v) for v in found}


@given(sets)
def test_networkx_says_the_same(triples):
    graph = to_networkx(Relations(triples))
    assert {(c, g, v) for (_, c), (_, v), g in graph.edges(keys=True)} == triples
    assert graph.number_of_edges() == len(triples)
    assert {kind for kind, _ in graph} <= {'cue', 'content'}


# Growing and forgetting.

class Growing(RuleBasedStateMachine):
    "A relation whose bags are dictionaries from three things on, beside a set of triples."
    @initialize()
    def begin(self):
        self.small, module._SMALL = module._SMALL, 2
        self.relations, self.triples = Relations(), set()

    def teardown(self):
        module._SMALL = self.small

    @rule(content=st.sampled_from(CONTENTS), pairs=st.lists(st.tuples(st.sampled_from(CUES), st.sampled_from(TAGS))))
    def add(self, content, pairs):
        self.relations.add(content, iter(pairs))
        self.triples |= {(c, g, content) for c, g in pairs}

    @precondition(lambda self: self.triples)
    @rule(data=st.data())
    def remove(self, data):
        content = data.draw(st.sampled_from(sorted({v for c, g, v in self.triples})))
        self.relations.remove(content)
        self.triples = {one for one in self.triples if one[2] != content}

    @rule(content=st.sampled_from((*CONTENTS, UNKNOWN)))
    def remove_what_is_not_there(self, content):
        if all(v != content for c, g, v in self.triples):
            with pytest.raises(KeyError):
                self.relations.remove(content)

    @rule(content=st.sampled_from(CONTENTS), wrong=st.sampled_from(['ab', None, 3, [('a', 'g'), ('b',)], [('b', 'g'), 'ab'], [('b', None)]]))
    def add_what_is_wrong(self, content, wrong):
        with pytest.raises(TypeError):
            self.relations.add(content, wrong)

    @rule(content=st.sampled_from(CONTENTS), cue=st.sampled_from(CUES), tag=st.sampled_from(TAGS))
    def spoil_what_is_returned(self, content, cue, tag):
        for found in (tags_of(self.relations, cue), contents_of(self.relations, cue, tag), tags_of_all(self.relations, [cue]),
                      contents_of_all(self.relations, [cue], [tag]), pairs_of_all(self.relations, [content])):
            found.clear()

    @invariant()
    def it_is_the_set(self):
        if hasattr(self, 'relations'):
            agrees(self.relations, self.triples)

    @invariant()
    def nothing_empty_is_kept_and_what_is_small_is_a_tuple(self):
        if hasattr(self, 'relations'):
            bags = [bag for known in self.relations._forward.values() for bag in known.values()]
            assert all(self.relations._forward.values())
            for bag in (*bags, *self.relations._back.values()):
                assert bag and isinstance(bag, tuple if len(bag) <= module._SMALL else dict)


TestGrowing = Growing.TestCase
TestGrowing.settings = settings(max_examples=60, stateful_step_count=30)


@given(sets, st.lists(st.tuples(st.sampled_from(CUES), st.sampled_from(TAGS))))
def test_to_add_and_then_remove_is_to_have_done_nothing(triples, pairs):
    relations = Relations(triples)
    relations.add('new', pairs)
    if pairs:
        relations.remove('new')
    agrees(relations, triples)


def test_two_relations_share_nothing():
    one = Relations([('a', 'g', 'v')])
    other = Relations(one)
    other.add('w', [('a', 'g')])
    one.remove('v')
    assert list(one) == [] and list(other) == [('a', 'g', 'v'), ('a', 'g', 'w')]


def test_a_pair_may_have_more_contents_than_a_tuple_holds():
    triples = {('a', tag, f'v{number}') for number in range(3 * SMALL) for tag in 'gh'} | {(f'c{number}', 'g', 'v0') for number in range(3 * SMALL)}
    relations = Relations(triples)
    assert list(relations) == sorted(triples)
    assert contents_of(relations, 'a', 'g') == {f'v{number}' for number in range(3 * SMALL)}
    for number in range(3 * SMALL):
        relations.remove(f'v{number}')
        triples = {one for one in triples if one[2] != f'v{number}'}
        assert len(relations) == len(triples) and contents_of(relations, 'a', 'h') == contents(triples, {'a'}, {'h'})
        assert tags_of(relations, 'c1') == tags(triples, {'c1'})
    assert list(relations) == [] and not relations.cues


# What is refused.

@pytest.mark.parametrize('wrong', ['avg', ('avg',), [('a', 'g')], [('a', 'g', 'v', 'w')], [('a', 'g', None)], [{'a', 'g', 'v'}], [3]])
def test_a_triple_is_three_texts(wrong):
    with pytest.raises(TypeError, match='a triple: expected 3 texts, got'):
        Relations(wrong)


@pytest.mark.parametrize('content, pairs, message', [
    (3, [('a', 'g')], 'content: expected a text, got 3'), (None, [], 'content'), (['v'], [('a', 'g')], 'content'),
    ('v', 'ag', "pairs: expected a collection, got 'ag'"), ('v', None, 'pairs'), ('v', [('a', 'g'), ('a', 'g', 'v')], 'a pair: expected 2 texts'),
    ('v', ['ag'], "a pair: expected 2 texts, got 'ag'"), ('v', [('b', 3)], 'a pair')])
def test_what_is_wrong_changes_nothing(content, pairs, message):
    relations = Relations([('a', 'g', 'w')])
    with pytest.raises(TypeError, match=message):
        relations.add(content, pairs)
    assert list(relations) == [('a', 'g', 'w')] and set(relations.cues) == {'a'} and not pairs_of_all(relations, ['v'])


@pytest.mark.parametrize('ask, name', [
    (lambda relations: tags_of_all(relations, 'a'), 'cues'), (lambda relations: contents_of_all(relations, 'a', ['g']), 'cues'),
    (lambda relations: contents_of_all(relations, ['a'], 'g'), 'tags'), (lambda relations: pairs_of_all(relations, 'v'), 'contents'),
    (lambda relations: tags_of_all(relations, None), 'cues'), (lambda relations: contents_of_all(relations, ['a'], None), 'tags')])
def test_a_single_text_is_no_set_of_its_letters(ask, name):
    with pytest.raises(TypeError, match=f'{name}: expected a collection, got'):
        ask(Relations([('a', 'g', 'v')]))


def test_what_is_in_it_and_what_is_not():
    relations = Relations([['a', 'g', 'v']])
    assert ('a', 'g', 'v') in relations
    for other in (('a', 'v', 'g'), ('a', 'g'), ('a', 'g', 'v', 'v'), 'agv', 'v', None, 3):
        assert other not in relations
    with pytest.raises(KeyError, match="there is no content 'w'"):
        relations.remove('w')
    assert repr(relations) == 'Relations: 1 triples of 1 cues and 1 contents'


# What it costs. Times are of the process, so that a busy machine does not count; ten times as much may take thirty times as long, not a hundred.

def fill_and_empty(number):
    relations = Relations()
    for one in range(number):
        relations.add(f'v{one}', [('a', 'g')])
    for one in range(number):
        relations.remove(f'v{one}')


def one_content(number):
    relations = Relations()
    for one in range(number):
        relations.add('v', [(f'c{one}', 'g')])
    relations.remove('v')


def one_cue(number):
    relations = Relations()
    for one in range(number):
        relations.add(f'v{one}', [('a', f'g{one}')])
    for one in range(number):
        contents_of_all(relations, ['a'], [f'g{one}'])
        relations.remove(f'v{one}')


@pytest.mark.parametrize('work', [fill_and_empty, one_content, one_cue])
def test_a_crowd_costs_in_proportion(work):
    def seconds(number):
        begin = time.process_time()
        work(number)
        return time.process_time() - begin
    few, many = (min(seconds(number) for _ in range(3)) for number in (3_000, 30_000))
    assert many < 60 * max(few, .003)  # ten times as much in proportion, a hundred times by squares


def test_a_pair_with_one_content_is_small():
    "Ten pairs of one content, which nobody else has, share what holds it."
    pairs = [[(f'c{number}', f'g{content}') for number in range(10)] for content in range(2_000)]
    ids = [f'v{content}' for content in range(2_000)]
    tracemalloc.start()
    try:
        relations = Relations()
        for content, its in zip(ids, pairs):
            relations.add(content, its)
        used = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert used / len(relations) < 90  # bytes; a dictionary for each pair would take more than 200
