"""The pictures of both graphs: what is chosen is what is drawn, and too much is refused."""

from datetime import datetime

import networkx
import pytest
from hypothesis import given, settings, strategies as st

from memnb.core.trace import Seen, SearchStep, ToolStep, Trace
from memnb.evaluation.datasets import load_sample
from memnb.mragent.graph import CueTagGraph
from memnb.remem.facts import Fact
from memnb.remem.graph import GistGraph
from memnb.views.figures import figure_html
from memnb.views.graph import (
    _session_nodes,
    explorer_html,
    graph_explorer,
    graph_figure,
    memory_graph,
    MOST_NODES,
    trace_path,
)
from pages_read import Page

SAMPLE = load_sample()
GISTS, CUES = GistGraph.of(SAMPLE), CueTagGraph.of(SAMPLE)
GRAPHS = {'gists': memory_graph(GISTS), 'cues': memory_graph(CUES)}
EVIL = '<img src=x onerror=alert(1)>$\\frac{"\'&\u202e'
which = pytest.mark.parametrize('graph', GRAPHS.values(), ids=GRAPHS)


def test_a_graph_has_the_nodes_and_relations_of_its_memory():
    gists, cues = GRAPHS['gists'], GRAPHS['cues']
    assert {id for kind, id in gists if kind == 'gist'} == {gist.id for gist in GISTS.gists}
    assert {key for *_, key in gists.edges(keys=True) if isinstance(key, str)} == {fact.id for fact in GISTS.facts}
    assert {id for kind, id in cues if kind == 'episode'} == {one.id for one in CUES.episodes}
    triples = {
        (one[1], tag, other[1])
        for one, other, tag in cues.edges(keys=True)
        if one[0] == 'cue' and other[0] == 'episode'
    }
    assert triples == set(CUES.episodic)
    with pytest.raises(TypeError, match='expected a GistGraph or a CueTagGraph'):
        memory_graph([1])


@which
def test_a_session_is_its_contents_and_the_names_that_they_share(graph):
    for session in {session for _, session in graph.nodes(data='session') if session}:
        nodes = _session_nodes(graph, session)
        contents = {node for node in nodes if graph.nodes[node].get('session') == session}
        assert contents == {node for node, of in graph.nodes(data='session') if of == session}
        for name in set(nodes) - contents:
            assert len(contents & set(networkx.all_neighbors(graph, name))) > 1
        assert len(nodes) == len(set(nodes))


@which
@settings(max_examples=15)
@given(st.data())
def test_a_picture_shows_what_is_chosen_or_refuses(graph, data):
    nodes = data.draw(st.lists(st.sampled_from(sorted(graph)), max_size=100, unique=True))
    path = {node: [1, 2] for node in nodes[:3]}
    if len(nodes) > MOST_NODES:
        with pytest.raises(
            ValueError, match=f'{len(nodes)} nodes are too many to be read, at most {MOST_NODES} are drawn'
        ):
            graph_figure(graph, nodes, path)
        return
    axes = graph_figure(graph, nodes, path, 'Who? $x').axes[0]
    labels = [text.get_text() for text in axes.texts]
    assert sum('[1, 2]' in label for label in labels) == len(path) and axes.get_title() == 'Who? $x'
    assert len(labels) >= len(nodes)


def test_a_path_has_the_calls_that_named_or_found_a_node():
    graph = GRAPHS['gists']
    fact = next(iter(GISTS.facts))
    trace = Trace(
        question='?',
        method='m',
        model='rules',
        steps=[
            ToolStep(
                iteration=1, tool='look', arguments={'subject': fact.subject, 'k': 3}, hits=[Seen(id='D1/g13', text='')]
            ),
            ToolStep(iteration=1, tool='look', arguments={'subject': fact.subject}, note='no', error=True),
            SearchStep(iteration=2, query=EVIL, k=3, hits=[Seen(id=fact.id, text=''), Seen(id='gone', text='')]),
        ],
    )
    path = trace_path(graph, trace)
    ends = {('phrase', fact.subject.casefold()), ('phrase', fact.object.casefold())}
    assert path['gist', 'D1/g13'] == [1] and all(2 in path[end] for end in ends)
    assert set(path) == ends | {('gist', 'D1/g13')} and path['phrase', fact.subject.casefold()] == [1, 2]


@settings(max_examples=20)
@given(
    st.dictionaries(
        st.sampled_from(['gist_id', 'subject', 'cue', 'tag']),
        st.none() | st.integers() | st.text(max_size=4) | st.lists(st.text()),
    )
)
def test_any_arguments_leave_a_path_within_the_graph(arguments):
    trace = Trace(question='?', method='m', model='rules', steps=[ToolStep(iteration=1, tool='t', arguments=arguments)])
    for graph in GRAPHS.values():
        assert all(node in graph for node in trace_path(graph, trace))


def test_the_explorer_follows_its_controls():
    trace = Trace(
        question='Who?',
        method='m',
        model='r',
        steps=[SearchStep(iteration=1, query='q', k=1, hits=[Seen(id='D1/g13', text='')])],
    )
    bar, shown = graph_explorer(GISTS, trace).children
    session, node, calls = bar.children
    assert 'alt="1 nodes"' in shown.value
    calls.value = 0
    assert 'Nothing is chosen' in shown.value
    session.value = 'D3'
    assert f'alt="{len(_session_nodes(GRAPHS["gists"], "D3"))} nodes"' in shown.value
    node.value = ('phrase', 'tobin')
    assert 'nodes are too many to be read' in shown.value
    for empty in (GistGraph(), CueTagGraph()):
        assert 'Nothing is chosen' in graph_explorer(empty).children[1].value


def test_markup_and_formulas_from_a_memory_stay_text():
    graph = GistGraph()
    graph.add_facts(
        [
            Fact.of(EVIL, EVIL, f'{EVIL} {number}', sources=['D1:1'], record_time=datetime(2024, 1, 2))
            for number in range(3)
        ],
        'D1',
    )
    net = memory_graph(graph)
    figure_html(graph_figure(net, list(net), title=EVIL), EVIL)
    for node in net:
        read = Page(explorer_html(net, node=node))
        assert read.names.count('img') == 1 and 'onerror' in read.words and '\u202e' not in read.text


def test_edges_are_labelled_as_the_tags_were_written():
    labels = {label for *_, label in GRAPHS['cues'].edges(data='label')}
    written = {one.tag for one in CUES.episodes} | {one.aspect for one in CUES.units} | {'topic'}
    assert labels <= written and any(label != label.lower() or ' ' in label for label in labels)
