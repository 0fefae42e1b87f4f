"""The operators on a graph against a reading of all its contents: merged tags, topics, and networkx."""

from dataclasses import replace
from datetime import datetime

from hypothesis import given, settings, strategies as st

from graphs import CUES, MERGES, TAGS, built, classes, event_extracts, every, extracts, in_time, pairs, shown, triples
from memnb.mragent.contents import Episode
from memnb.mragent.cues import cue_id
from memnb.core.roles import Call, LM, ReplyError, RuleLM, Usage
from memnb.mragent.loop import MRAgent
from memnb.mragent.prompts import Recollection, TOPICS
from memnb.mragent.graph import _by_time, CueTagGraph

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
            assert graph.contents_from(cue, tag) == {
                v for c, g, v in told if c == cue and g == merged.get(tag, (tag,))[0]
            }
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
    assert (
        graph.tags_from('zyx') == graph.contents_from('zyx', 'zyx') == set()
        and graph.branches_of('zyx') == graph.aspects_of('zyx') == []
    )


@settings(max_examples=25)
@given(extracts)
def test_the_order_of_contents_is_total_and_that_of_time(found):
    contents = [*every(found), *every(found, 'units')]
    assert sorted(contents, key=_by_time) == in_time(contents)
    graph = built(CueTagGraph, found)
    assert graph.read(one.id for one in every(found)) == in_time(every(found))
    assert len({_by_time(one) for one in contents}) == len(contents)


# --- topics

lines = st.lists(
    st.builds(
        lambda title, ids: {'title': title, 'episodes': ids},
        st.sampled_from(['The lake', ' the  LAKES', 'Bread', '', ' ', 'lake and bread']),
        st.lists(st.sampled_from(['e1', '(e2)', ' [e1]', 'e9', '']), max_size=4),
    ),
    max_size=5,
)


class Files(LM):
    """A model that files the episodes of each session as it is told, and keeps what it was shown."""

    name = 'files'

    def __init__(self, said, down=()):
        self.said, self.down, self.shown = said, down, []

    def call(self, role, /, episodes=(), titles=()):
        session = episodes[0].session
        self.shown.append((session, [one.id for one in episodes], list(titles)))
        if session in self.down:
            raise ReplyError('it does not fit', '', role.name, 2, Usage(2, 6, 8))
        said = [
            {**line, 'episodes': [id.replace('e', f'{session}/e') for id in line['episodes']]}
            for line in self.said[session]
        ]
        return Call(role.name, role.reply.model_validate({'topics': said}), Usage(1, 3, 4))


def told(sessions=('S1', 'S2', 'S3')):
    """Two events in each session."""
    return {
        session: Recollection(
            tuple(
                Episode(
                    f'{session}/e{place}',
                    'It was so.',
                    (f'{session}:{place}',),
                    session=session,
                    position=place,
                    title=f'so {place}',
                    tag='Bread',
                )
                for place in (1, 2)
            )
        )
        for session in sessions
    }


def filed(lm, sessions=('S1', 'S2', 'S3'), **options):
    return built(lambda **given: CueTagGraph(lm, **given), told(sessions), **options)


@settings(max_examples=35)
@given(st.fixed_dictionaries({session: lines for session in ('S1', 'S2', 'S3')}))
def test_topics_are_what_a_model_says_of_each_session(said):
    graph, themes, wrong = filed(Files(said)), {}, 0
    graph.file_topics()
    for session, filing in said.items():
        for line in filing:
            ids = {id.strip(' ()[]') for id in line['episodes'] if id}
            wrong += len(ids - {'e1', 'e2'})
            if cue_id(line['title']):
                themes.setdefault(cue_id(line['title']), set()).update(f'{session}/{id}' for id in ids & {'e1', 'e2'})
    recurring = {id: ids for id, ids in themes.items() if len(ids) > 2}
    assert {cue_id(one.title): set(one.episodes) for one in graph.topics} == recurring
    assert len(graph.topic_notes) == wrong and all('there is no episode' in note for note in graph.topic_notes)
    assert [one.title for one in graph.topics] == sorted(one.title for one in graph.topics)
    assert all(one.title == ' '.join(one.title.split()) for one in graph.topics)


LAKE, BREAD = {'title': 'The lake', 'episodes': ['e1']}, {'title': 'Bread', 'episodes': ['e1', 'e2']}


def test_a_session_is_filed_once_and_under_the_titles_so_far(tmp_path):
    lm = Files({'S1': [LAKE], 'S2': [LAKE, BREAD], 'S3': [LAKE, BREAD]})
    graph = filed(lm, ('S1', 'S2'))
    for _ in range(2):
        graph.file_topics()
        assert graph.topic_usage.calls == 2 and graph.topics == ()
    assert lm.shown == [('S1', ['S1/e1', 'S1/e2'], []), ('S2', ['S2/e1', 'S2/e2'], ['The lake'])]
    graph.keep('S3', told()['S3'])
    graph.file_topics()
    assert [(one.title, len(one.episodes)) for one in graph.topics] == [('Bread', 4), ('The lake', 3)]
    session, ids, titles = lm.shown[2]
    assert (session, ids, sorted(titles)) == ('S3', ['S3/e1', 'S3/e2'], ['Bread', 'The lake']) and graph.usage[
        'topics'
    ].calls == 3
    graph.save(tmp_path / 'graph')
    again = CueTagGraph.load(tmp_path / 'graph', lm=Files({}))
    assert again.topics == graph.topics and again.usage == graph.usage  # no model is asked for what the file knows
    graph.forget('S1')  # a title may tell of it, so what stood under that title is filed anew
    graph.file_topics()
    assert [one.title for one in graph.topics] == ['Bread'] and lm.shown[3:] == [
        ('S2', ['S2/e1'], ['Bread']),
        ('S3', ['S3/e1'], ['Bread', 'The lake']),
    ]


def test_a_session_that_could_not_be_filed_costs_no_question():
    lm = Files({'S1': [LAKE], 'S2': [LAKE], 'S3': [LAKE]}, down=['S2'])
    graph = filed(lm)
    graph.file_topics()
    assert graph.topics == () and graph.topic_notes == ['S2: it does not fit'] and graph.topic_usage.calls == 3
    lm.down = ()
    graph.file_topics()
    assert graph.topic_usage.calls == 5 and [one.title for one in graph.topics] == ['The lake']
    trace = MRAgent(graph, start=0).ask('Who?')
    assert trace.error is None and 'topics' not in trace.usage
    graph.forget('S1')
    assert graph.topic_notes == []  # they quote titles, which may tell of what is forgotten


def test_sessions_are_filed_in_the_order_of_time_and_with_their_texts():
    lm = Files({'D2': [LAKE], 'D10': [LAKE]})
    graph = CueTagGraph(lm)
    for session, day in (('D10', 12), ('D2', 3)):
        said = datetime(2024, 5, day)
        graph.keep(session, Recollection(tuple(replace(one, said=said) for one in told([session])[session].episodes)))
    assert graph.topics == () and not lm.shown  # nothing is filed unless it is asked for
    graph.file_topics()
    assert [session for session, *_ in lm.shown] == ['D2', 'D10']
    assert '- (D2/e1) so 1: It was so.' in TOPICS.render({'episodes': told(['D2'])['D2'].episodes})[1]


# --- networkx


@settings(max_examples=25)
@given(extracts, merges)
def test_networkx_has_every_content_and_every_triple_as_it_is_written(found, merge):
    graph = built(lambda **options: CueTagGraph(RuleLM(), **options), found, merge=merge)
    net, units = graph.to_networkx(), every(found, 'units')
    edges = {(a, b, key) for a, b, key in net.edges(keys=True)}
    assert edges == (
        {(('cue', cue), ('episode', one.id), tag) for one in every(found) for cue, tag in pairs(one)}
        | {(('cue', cue_id(one.person)), ('unit', one.id), cue_id(one.aspect)) for one in units}
        | {(('topic', topic.id), ('episode', one), 'topic') for topic in graph.topics for one in topic.episodes}
    )
    assert net.number_of_edges() == len(edges)
    assert {node: net.nodes[node]['text'] for node in net if node[0] in ('episode', 'unit')} == {
        **{('episode', one.id): one.line for one in every(found)},
        **{('unit', one.id): one.line for one in units},
    }
    written = shown([cue for one in every(found) for cue in ([*one.cues] or [])] + [one.person for one in units])
    assert all(text == net.nodes['cue', cue]['text'] for cue, text in written.items())
