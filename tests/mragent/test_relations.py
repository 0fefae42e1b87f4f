"""The operators against comprehensions over a plain set of triples, and the relation itself against that set as it grows and forgets."""

from itertools import product

import networkx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from memnb.mragent.graph import Relations

CUES, TAGS, CONTENTS = (
    ('a', 'b', 'v', ''),
    ('g', 'h', 'a'),
    ('v', 'w', 'x', 'a', ''),
)  # some names are used for several things
EVERY = list(product(CUES, TAGS, CONTENTS))
UNKNOWN = 'nobody'
sets = st.sets(st.sampled_from(EVERY))
some = {
    name: st.lists(st.sampled_from((*names, UNKNOWN)))
    for name, names in (('cues', CUES), ('tags', TAGS), ('contents', CONTENTS))
}


# The oracle: the paper's equations as comprehensions.


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
        assert relations.tags_of(cue) == tags(triples, {cue})
        for tag in (*TAGS, UNKNOWN):
            assert relations.contents_of(cue, tag) == contents(triples, {cue}, {tag})
    for content in (*CONTENTS, UNKNOWN):
        assert relations.pairs_of_all([content]) == pairs(triples, {content})


# The laws.


@given(sets, some['cues'], some['tags'], some['contents'])
def test_the_lifted_forms_are_the_equations(triples, cues, chosen, ids):
    relations = Relations(triples)
    assert relations.tags_of_all(cues) == tags(triples, cues)
    assert relations.contents_of_all(cues, chosen) == contents(triples, cues, chosen)
    assert relations.pairs_of_all(ids) == pairs(triples, ids)


@given(st.sets(st.sampled_from(EVERY), max_size=8))
def test_without_a_choice_the_walk_reaches_the_connected_component(triples):
    relations = Relations(triples)
    graph = networkx.Graph([(('cue', c), ('content', v)) for c, g, v in triples])
    for start in relations.cues:
        cues, found = {start}, set()
        for _ in range(len(EVERY)):
            found |= relations.contents_of_all(cues, relations.tags_of_all(cues))
            cues |= {c for c, g in relations.pairs_of_all(found)}
        component = networkx.node_connected_component(graph, ('cue', start))
        assert component == {('cue', c) for c in cues} | {('content', v) for v in found}


# Growing and forgetting.


class Growing(RuleBasedStateMachine):
    "A relation beside a set of triples."

    @initialize()
    def begin(self):
        self.relations, self.triples = Relations(), set()

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

    @rule(
        content=st.sampled_from(CONTENTS),
        wrong=st.sampled_from(['ab', None, 3, ['ag'], [('a', 'g'), ('b',)], [('b', 'g'), 'ab'], [('b', None)]]),
    )
    def add_what_is_wrong(self, content, wrong):
        with pytest.raises((TypeError, ValueError)):
            self.relations.add(content, wrong)

    @rule(content=st.sampled_from(CONTENTS), cue=st.sampled_from(CUES), tag=st.sampled_from(TAGS))
    def spoil_what_is_returned(self, content, cue, tag):
        for found in (
            self.relations.tags_of(cue),
            self.relations.contents_of(cue, tag),
            self.relations.tags_of_all([cue]),
            self.relations.contents_of_all([cue], [tag]),
            self.relations.pairs_of_all([content]),
        ):
            found.clear()

    @invariant()
    def it_is_the_set(self):
        if hasattr(self, 'relations'):
            agrees(self.relations, self.triples)

    @invariant()
    def nothing_empty_is_kept(self):
        if hasattr(self, 'relations'):
            assert all(self.relations._forward.values()) and all(self.relations._back.values())
            assert all(contents for tags in self.relations._forward.values() for contents in tags.values())


TestGrowing = Growing.TestCase
TestGrowing.settings = settings(max_examples=60, stateful_step_count=30)


# What is refused.


@pytest.mark.parametrize(
    'ask, name',
    [
        (lambda relations: relations.tags_of_all('a'), 'cues'),
        (lambda relations: relations.contents_of_all('a', ['g']), 'cues'),
        (lambda relations: relations.contents_of_all(['a'], 'g'), 'tags'),
        (lambda relations: relations.pairs_of_all('v'), 'contents'),
        (lambda relations: relations.tags_of_all(None), 'cues'),
        (lambda relations: relations.contents_of_all(['a'], None), 'tags'),
    ],
)
def test_a_single_text_is_no_set_of_its_letters(ask, name):
    with pytest.raises(TypeError, match=f'{name}: expected texts, got'):
        ask(Relations([('a', 'g', 'v')]))
