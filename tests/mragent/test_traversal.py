"""The operators on a graph against a reading of all its contents: merged tags, topics, and networkx."""

import pytest
from hypothesis import given, settings, strategies as st

from graphs import CUES, MERGES, TAGS, built, classes, event_extracts, every, extracts, in_time, pairs, shown, triples
from memnb.mragent.graph import cue_id, Episode
from memnb.core.models import ScriptedLM
from memnb.core.roles import RuleLM
from memnb.mragent.prompts import Recollection
from memnb.evaluation.datasets import load_sample
from memnb.retrieval.bm25 import UnknownSnippet
from memnb.mragent.tools import _by_time, CueTagGraph

merges = st.sampled_from(MERGES)
IDS = sorted({cue_id(one) for one in (*CUES, *TAGS, 'January 2024', 'February 2024', 'nothing')})


# --- forward and back

@settings(max_examples=35)
@given(event_extracts, merges)
def test_the_operators_say_what_all_contents_say(found, merge):
    graph, told = built(CueTagGraph, found, merge=merge), triples(found, merge)
    merged = classes(found, merge)
    for cue in IDS:
        assert graph.tags_from(cue) == {g for c, g, v in told if c == cue}
        for tag in IDS:
            assert graph.contents_from(cue, tag) == {v for c, g, v in told if c == cue and g == merged.get(tag, (tag,))[0]}
    for one in every(found):
        assert graph.pairs_from([one.id]) == {(c, g) for c, g, v in told if v == one.id}


@settings(max_examples=20)
@given(event_extracts, merges)
def test_an_operator_takes_a_label_as_it_is_written(found, merge):
    graph = built(CueTagGraph, found, merge=merge)
    for one in graph.episodes:
        for cue in one.cues:
            id = cue_id(cue)
            assert graph.tags_from(cue) == graph.tags_from(id) and graph.branches_of(cue) == graph.branches_of(id) != []
            assert one.id in graph.contents_from(cue, one.tag) == graph.contents_from(id, cue_id(one.tag))
            assert graph.branch(cue, one.tag) == graph.branch(id, cue_id(one.tag))
    assert graph.tags_from('zyx') == graph.contents_from('zyx', 'zyx') == set() and graph.branches_of('zyx') == graph.aspects_of('zyx') == []


def test_a_month_and_a_person_are_found_by_name():
    graph = CueTagGraph.of(load_sample())
    assert graph.branches_of('July 2024') == graph.branches_of(cue_id('July 2024')) != []
    assert graph.aspects_of('Zofia') == graph.aspects_of(cue_id('Zofia')) != []


@settings(max_examples=30)
@given(event_extracts)
def test_what_was_told_beside_an_event_is_after_and_before_it_in_its_session(found):
    graph = built(CueTagGraph, found)
    for told in found.values():
        line = [one.id for one in told.episodes]
        for place, one in enumerate(line):
            assert graph.around(one) == line[place + 1:place + 2] + (line[place - 1:place] if place else [])
    for ask in (graph.around, lambda id: graph.read([id])):
        with pytest.raises(UnknownSnippet):
            ask('S9/e9')


@settings(max_examples=25)
@given(extracts)
def test_the_order_of_contents_is_total_and_that_of_time(found):
    contents = [*every(found), *every(found, 'units')]
    assert sorted(contents, key=_by_time) == in_time(contents)
    graph = built(CueTagGraph, found)
    assert graph.read(one.id for one in every(found)) == in_time(every(found))
    assert len({_by_time(one) for one in contents}) == len(contents)


# --- topics

lines = st.lists(st.builds(lambda title, ids: {'title': title, 'episodes': ids},
                           st.sampled_from(['The lake', ' the  LAKES', 'Bread', '', ' ', 'lake and bread']),
                           st.lists(st.sampled_from(['S1/e1', '(S1/e2)', ' [S2/e1]', 'S9/e9', '']), max_size=4)), max_size=5)


def three(lm):
    """A graph with three events."""
    told = [Episode(id, 'It was so.', (f'{id}:1',), session=id[:2], tag='Bread') for id in ('S1/e1', 'S1/e2', 'S2/e1')]
    return built(lambda **options: CueTagGraph(lm, **options),
                 {session: Recollection(tuple(one for one in told if one.session == session)) for session in ('S1', 'S2')})


@settings(max_examples=35)
@given(lines)
def test_what_a_model_says_of_topics(said):
    graph, known = three(ScriptedLM({'topics': [{'topics': said}]})), {'S1/e1', 'S1/e2', 'S2/e1'}
    themes, wrong = {}, 0
    for line in said:
        ids = {id.strip(' ()[]') for id in line['episodes'] if id}
        wrong += len(ids - known)
        if cue_id(line['title']) and ids & known:
            themes.setdefault(cue_id(line['title']), set()).update(ids & known)
    assert {cue_id(one.title): set(one.episodes) for one in graph.topics} == themes
    assert len(graph.topic_notes) == wrong and all('there is no episode' in note for note in graph.topic_notes)
    assert [one.title for one in graph.topics] == sorted(one.title for one in graph.topics)
    assert all(one.title == ' '.join(one.title.split()) for one in graph.topics)


def test_topics_are_made_when_they_are_read_and_when_episodes_have_changed(tmp_path):
    asked = [{'topics': [{'title': title, 'episodes': ['S1/e1', 'S2/e1']}]} for title in ('one', 'two', 'three')]
    graph = three(ScriptedLM({'topics': asked}))
    assert graph.topic_usage.calls == 0
    assert [[one.title for one in graph.topics] for _ in range(3)] == [['one']] * 3 and graph.topic_usage.calls == 1
    graph.save(tmp_path / 'graph')
    again = CueTagGraph.load(tmp_path / 'graph', lm=ScriptedLM({'topics': asked[1:]}))
    assert again.topics == graph.topics and again.topic_usage.calls == 0  # no model is asked for what the file knows
    kept = graph.extract_of('S2')
    graph.forget('S2')
    assert [(one.title, one.episodes) for one in graph.topics] == [('two', ('S1/e1',))]
    graph.keep('S2', kept)
    assert [one.title for one in graph.topics] == ['three'] and graph.topic_usage.calls == 3


# --- networkx

@settings(max_examples=25)
@given(extracts, merges)
def test_networkx_has_every_content_and_every_triple_as_it_is_written(found, merge):
    graph = built(lambda **options: CueTagGraph(RuleLM(), **options), found, merge=merge)
    net, units = graph.to_networkx(), every(found, 'units')
    edges = {(a, b, key) for a, b, key in net.edges(keys=True)}
    assert edges == ({(('cue', cue), ('episode', one.id), tag) for one in every(found) for cue, tag in pairs(one)}
                     | {(('cue', cue_id(one.person)), ('unit', one.id), cue_id(one.aspect)) for one in units}
                     | {(('topic', topic.id), ('episode', one), 'topic') for topic in graph.topics for one in topic.episodes})
    assert net.number_of_edges() == len(edges)
    assert {node: net.nodes[node]['text'] for node in net if node[0] in ('episode', 'unit')} == {
        **{('episode', one.id): one.line for one in every(found)}, **{('unit', one.id): one.line for one in units}}
    written = shown([cue for one in every(found) for cue in ([*one.cues] or [])] + [one.person for one in units])
    assert all(text == net.nodes['cue', cue]['text'] for cue, text in written.items())
