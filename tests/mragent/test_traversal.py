"""The operators on a graph against a reading of all its contents: merged tags, topics, tellings, and the pictures of it."""
from dataclasses import replace
from itertools import permutations
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings, strategies as st

from graphs import CUES, MERGES, PEOPLE, TAGS, TEXTS, TIMES, built, classes, event_extracts, every, extracts, in_time, pairs, shown, triples
from memnb.mragent.graph import cue_id, Episode
from memnb.core.models import ScriptedLM
from memnb.core.roles import LMError, RuleLM
from memnb.mragent.prompts import Recollection
from memnb.retrieval.bm25 import UnknownSnippet
from memnb.mragent.tools import by_time, cue_picture, to_networkx, Traversal
from memnb.mragent.tools import same_event

merges = st.sampled_from(MERGES)
thresholds = st.sampled_from((.99, .9, .5, 0, -1))
IDS = sorted({cue_id(one) for one in (*CUES, *TAGS, 'January 2024', 'February 2024', 'nothing')})


# --- forward and back

@settings(max_examples=35)
@given(event_extracts, merges)
def test_the_operators_say_what_all_contents_say(found, merge):
    graph, told = built(Traversal, found, merge=merge), triples(found, merge)
    merged = classes(found, merge)
    for cue in IDS:
        assert graph.tags_from(cue) == {g for c, g, v in told if c == cue}
        assert graph.degree(cue) == len({v for c, g, v in told if c == cue})
        for tag in IDS:
            assert graph.contents_from(cue, tag) == {v for c, g, v in told if c == cue and g == merged.get(tag, (tag,))[0]}
    for one in every(found):
        assert graph.pairs_from([one.id]) == {(c, g) for c, g, v in told if v == one.id}
        assert graph.time_of(one.id) == one.time


@settings(max_examples=25)
@given(event_extracts, merges)
def test_a_content_is_behind_a_pair_exactly_if_the_pair_leads_back_from_it(found, merge):
    graph = built(Traversal, found, merge=merge)
    heads = {group[0] for group in classes(found, merge).values()}
    for one in every(found):
        back = graph.pairs_from([one.id])
        assert back == {(cue, tag) for cue in IDS for tag in heads if one.id in graph.contents_from(cue, tag)}
        assert all(tag in graph.tags_from(cue) for cue, tag in back) and back


@settings(max_examples=25)
@given(event_extracts, merges, st.data())
def test_the_way_back_is_a_union_hence_monotone_and_free_of_order(found, merge, data):
    graph, ids = built(Traversal, found, merge=merge), [one.id for one in every(found)]
    some = st.lists(st.sampled_from([*ids, 'nobody']))
    a, b = data.draw(some), data.draw(some)
    assert graph.pairs_from(a + b) == graph.pairs_from(a) | graph.pairs_from(b) == graph.pairs_from(iter(b + a))
    assert graph.pairs_from(a) <= graph.pairs_from(set(a + b))
    assert graph.pairs_from([]) == graph.pairs_from(['nobody']) == set()


@settings(max_examples=25)
@given(event_extracts, merges)
def test_forward_and_back_contains_what_one_started_from(found, merge):
    graph = built(Traversal, found, merge=merge)
    for cue in graph.episodic.cues:
        for tag in graph.tags_from(cue):
            assert (cue, tag) in graph.pairs_from(graph.contents_from(cue, tag))


@settings(max_examples=25)
@given(event_extracts)
def test_merging_joins_tags_and_moves_no_content(found):
    finer = None
    for merge in MERGES:  # from none to nearly all
        graph = built(Traversal, found, merge=merge)
        for cue in graph.episodic.cues:
            assert {one for tag in graph.tags_from(cue) for one in graph.contents_from(cue, tag)} == {
                one.id for one in every(found) if cue in {c for c, _ in pairs(one)}}
        heads = {tag: graph.tags.merged(tag) for tag in {cue_id(one.tag) for one in every(found)}}
        assert finer is None or all(set(finer[tag]) <= set(heads[tag]) for tag in heads)
        finer = heads


@settings(max_examples=30)
@given(extracts)
def test_what_is_known_of_people(found):
    graph, units = built(Traversal, found), every(found, 'units')
    for person in {cue_id(one) for one in PEOPLE} | {'nobody'}:
        its = [one for one in units if cue_id(one.person) == person]
        assert graph.aspects_from(person) == {cue_id(one.aspect) for one in its}
        for aspect in ('job', 'pet', 'nothing'):
            assert graph.units_from(person, aspect) == {one.id for one in its if cue_id(one.aspect) == aspect}


@settings(max_examples=30)
@given(event_extracts)
def test_what_was_told_beside_an_event_is_after_and_before_it_in_its_session(found):
    graph = built(Traversal, found)
    for told in found.values():
        line = [one.id for one in told.episodes]
        for place, one in enumerate(line):
            assert graph.around(one) == line[place + 1:place + 2] + (line[place - 1:place] if place else [])
    for ask in (graph.around, graph.time_of, lambda id: graph.read([id])):
        with pytest.raises(UnknownSnippet):
            ask('S9/e9')


# --- order, and forgetting

@settings(max_examples=15)
@given(extracts, merges, st.sampled_from(list(permutations(('S1', 'S2', 'S3')))), st.sampled_from((None, .9)))
def test_what_a_graph_is_depends_on_its_sessions_alone(found, merge, order, consolidate):
    options = {'merge': merge, 'consolidate': consolidate}
    graph, other = built(Traversal, found, **options), built(Traversal, found, order, **options)
    for one in (graph, other):  # what was asked before does not matter
        [one.tellings(each.id) for each in every(found)]
    for left in (('S1', 'S2', 'S3'), order[1:]):
        for gone in set(graph.sessions) - set(left):
            graph.forget(gone)
        alone = built(Traversal, {session: found[session] for session in sorted(left)}, **options)
        for one in (graph,) if len(left) < 3 else (graph, other):
            assert list(one.episodic) == list(alone.episodic) and list(one.semantic) == list(alone.semantic)
            assert {cue: one.tags_from(cue) for cue in IDS} == {cue: alone.tags_from(cue) for cue in IDS}
            assert one.read(each.id for each in one.episodes) == alone.read(each.id for each in alone.episodes)
            assert [one.tellings(each.id) for each in one.episodes] == [alone.tellings(each.id) for each in alone.episodes]
            assert one.topics == alone.topics


# --- one event, told twice

@settings(max_examples=30)
@given(event_extracts, thresholds)
def test_tellings_are_a_partition_without_two_times_that_disagree(found, threshold):
    graph = built(Traversal, found, consolidate=threshold)
    for one in every(found):
        group = graph.tellings(one.id)
        assert one.id in group and group == tuple(sorted(set(group)))
        assert all(graph.tellings(other) == group for other in group)
        assert all(same_event(graph.episodes[a], graph.episodes[b]) for a in group for b in group)


@settings(max_examples=30)
@given(event_extracts, thresholds, st.data())
def test_what_is_read_has_the_turns_of_all_tellings_in_the_order_of_time(found, threshold, data):
    graph = built(Traversal, found, consolidate=threshold)
    wanted = data.draw(st.lists(st.sampled_from(every(found)))) if every(found) else []
    read = graph.read(one.id for one in wanted)
    tellings = {other for one in wanted for other in graph.tellings(one.id)}
    assert sorted(turn for one in read for turn in one.sources) == sorted(turn for id in tellings for turn in graph.episodes[id].sources)
    assert read == in_time(read) == graph.read({one.id for one in wanted})
    assert len(read) == len({graph.tellings(one.id) for one in wanted})
    assert {one.id for one in read} <= tellings


@settings(max_examples=25)
@given(event_extracts)
def test_without_a_threshold_every_telling_is_an_event(found):
    graph = built(Traversal, found)
    assert graph.consolidate is None and [graph.tellings(one.id) for one in every(found)] == [(one.id,) for one in every(found)]
    assert graph.read([one.id for one in every(found)]) == in_time(every(found))


def twice(consolidate):
    told = [Episode(f'S{number}/e1', text, (f'S{number}:1',), time, session=f'S{number}', tag='Bread', cues=('test',))
            for number, (text, time) in enumerate([(TEXTS[0], TIMES[1]), (TEXTS[1], TIMES[3]), (TEXTS[0], TIMES[2])], 1)]
    return told, built(Traversal, {one.session: Recollection((one,)) for one in told}, consolidate=consolidate)


def test_the_same_words_of_another_day_are_another_event():
    told, graph = twice(.9)
    assert [one.sources for one in graph.read(one.id for one in told)] == [('S1:1', 'S2:1'), ('S3:1',)]
    graph.forget('S1')
    assert graph.tellings('S2/e1') == ('S2/e1',)
    graph.keep('S1', Recollection((told[0],)))
    assert graph.tellings('S2/e1') == ('S1/e1', 'S2/e1')
    assert twice(.99)[1].tellings('S2/e1') == ('S2/e1',)


@pytest.mark.parametrize('wrong', [80, -1.01, True, '0.8', float('nan')])
def test_a_threshold_is_a_cosine(wrong):
    with pytest.raises(ValueError, match='threshold: expected a cosine'):
        Traversal(consolidate=wrong)


@settings(max_examples=25)
@given(extracts)
def test_the_order_of_contents_is_total_and_that_of_time(found):
    contents = [*every(found), *every(found, 'units')]
    assert sorted(contents, key=by_time) == in_time(contents)
    assert len({by_time(one) for one in contents}) == len(contents)


def test_a_file_keeps_the_threshold(tmp_path):
    told, graph = twice(.9)
    graph.save(tmp_path / 'graph')
    again = Traversal.load(tmp_path / 'graph')
    assert again.consolidate == .9 and again.tellings('S1/e1') == ('S1/e1', 'S2/e1')
    assert Traversal.load(tmp_path / 'graph', consolidate=None).tellings('S1/e1') == ('S1/e1',)


# --- topics

lines = st.lists(st.builds(lambda title, ids: {'title': title, 'episodes': ids},
                           st.sampled_from(['The lake', ' the  LAKES', 'Bread', '', ' ', 'lake and bread']),
                           st.lists(st.sampled_from(['S1/e1', '(S1/e2)', ' [S2/e1]', 'S9/e9', '']), max_size=4)), max_size=5)


def three(lm):
    """A graph with three events."""
    told = [Episode(id, 'It was so.', (f'{id}:1',), session=id[:2], tag='Bread') for id in ('S1/e1', 'S1/e2', 'S2/e1')]
    return built(lambda **options: Traversal(lm, **options),
                 {session: Recollection(tuple(one for one in told if one.session == session)) for session in ('S1', 'S2')})


@settings(max_examples=35)
@given(lines)
def test_what_a_model_says_of_topics(said):
    graph, known = three(ScriptedLM({'topics': [{'topics': said}]})), {'S1/e1', 'S1/e2', 'S2/e1'}
    themes, wrong = {}, 0
    for line in said:
        ids = {id.strip(' ()[]') for id in line['episodes']}
        wrong += len(ids - known)
        if cue_id(line['title']) and ids & known:
            themes.setdefault(cue_id(line['title']), set()).update(ids & known)
    assert {cue_id(one.title): set(one.episodes) for one in graph.topics} == themes
    assert len(graph.topic_notes) == wrong and all('there is no episode' in note for note in graph.topic_notes)
    assert [one.title for one in graph.topics] == sorted(one.title for one in graph.topics)
    assert all(one.title == ' '.join(one.title.split()) for one in graph.topics)
    for one in graph.topics:
        assert graph.topic(one.title.upper()) == graph.topic(one.id) == one and graph.episodes_of(f' {one.title}. ') == one.episodes
    assert graph.topic('') is None and graph.episodes_of('zeppelins') == ()


def test_topics_are_made_when_they_are_read_and_when_episodes_have_changed(tmp_path):
    asked = [{'topics': [{'title': title, 'episodes': ['S1/e1', 'S2/e1']}]} for title in ('one', 'two', 'three')]
    graph = three(ScriptedLM({'topics': asked}))
    assert graph.topic_usage.calls == 0
    assert [[one.title for one in graph.topics] for _ in range(3)] == [['one']] * 3 and graph.topic_usage.calls == 1
    graph.save(tmp_path / 'graph')
    again = Traversal.load(tmp_path / 'graph', lm=ScriptedLM({'topics': asked[1:]}))
    assert again.topics == graph.topics and again.topic_usage.calls == 0  # no model is asked for what the file knows
    kept = graph.extract_of('S2')
    graph.forget('S2')
    assert [(one.title, one.episodes) for one in graph.topics] == [('two', ('S1/e1',))]
    graph.keep('S2', kept)
    assert [one.title for one in graph.topics] == ['three'] and graph.topic_usage.calls == 3


def test_a_model_that_fails_leaves_topics_to_be_asked_for_again():
    answers = iter(['nonsense', 'nonsense', '{"topics": [{"title": "one", "episodes": ["S1/e1"]}]}'])
    graph = three(lambda prompt: next(answers))
    with pytest.raises(LMError):
        graph.topics
    assert [one.title for one in graph.topics] == ['one']


# --- pictures

@settings(max_examples=30)
@given(event_extracts, merges, st.sampled_from((None, .9)), st.integers(1, 4))
def test_a_picture_has_the_tags_of_a_cue_and_counts_what_it_leaves_out(found, merge, consolidate, most):
    graph = built(Traversal, found, merge=merge, consolidate=consolidate)
    for cue in ('test', 'January 2024'):
        tags = graph.tags_from(cue_id(cue))
        if not tags:
            with pytest.raises(ValueError, match='expected a cue that leads to some event'):
                cue_picture(graph, cue)
            continue
        whole, cut = (ElementTree.fromstring(cue_picture(graph, cue, number)) for number in (99, most))
        behind = {tag: graph.read(graph.contents_from(cue_id(cue), tag)) for tag in tags}
        number = sum(map(len, behind.values()))
        texts = [''.join(node.itertext()) for node in whole.iter() if node.tag.endswith('text')]
        assert sorted(texts) == sorted([graph.cues.shown(cue_id(cue)), *map(graph.tags.shown, tags),
                                        *(f'{one.id} · {one.day or "no time"} · {one.title}' for events in behind.values() for one in events)])
        assert len([node for node in whole.iter() if node.tag.endswith('rect')]) == len(tags)
        drawn = [''.join(node.itertext()) for node in cut.iter() if node.tag.endswith('text')]
        assert sum(' · ' in text for text in drawn) == min(most, number)
        assert (f'and {number - most} more' in drawn) == (number > most)


def test_a_picture_shows_labels_as_text():
    nasty = Episode('S1/e1', 'It <b>was</b> so.', ('S1:1',), session='S1', title='<script>&"x\x1b[2J\u202e\uffff' * 20, tag='a & <b>\x00', cues=('<i>cue</i> & "c"',))
    drawn = cue_picture(built(Traversal, {'S1': Recollection((nasty,))}), '<i>cue</i> & "c"')
    assert '<script' not in drawn and '<b>' not in drawn and '<i>' not in drawn and not set('\x00\x1b\u202e\uffff') & set(drawn)
    assert max(len(''.join(node.itertext())) for node in ElementTree.fromstring(drawn).iter() if node.tag.endswith('text')) <= 67


@settings(max_examples=25)
@given(extracts, merges)
def test_networkx_has_every_content_and_every_triple_as_it_is_written(found, merge):
    graph = built(lambda **options: Traversal(RuleLM(), **options), found, merge=merge)
    net, units = to_networkx(graph), every(found, 'units')
    edges = {(a, b, key) for a, b, key in net.edges(keys=True)}
    assert edges == ({(('cue', cue), ('episode', one.id), tag) for one in every(found) for cue, tag in pairs(one)}
                     | {(('cue', cue_id(one.person)), ('unit', one.id), cue_id(one.aspect)) for one in units}
                     | {(('topic', topic.id), ('episode', one), 'topic') for topic in graph.topics for one in topic.episodes})
    assert net.number_of_edges() == len(edges)
    assert {node: net.nodes[node]['text'] for node in net if node[0] in ('episode', 'unit')} == {
        **{('episode', one.id): one.line for one in every(found)}, **{('unit', one.id): one.line for one in units}}
    written = shown([cue for one in every(found) for cue in ([*one.cues] or [])] + [one.person for one in units])
    assert all(text == net.nodes['cue', cue]['text'] for cue, text in written.items())


def test_a_longer_telling_may_be_added_later():
    told, graph = twice(.9)
    longer = replace(told[0], id='S4/e1', session='S4', sources=('S4:1',), text=f'{TEXTS[0]} {TEXTS[0]}')
    before = graph.read(['S1/e1'])
    graph.keep('S4', Recollection((longer,)))
    after = graph.read(['S1/e1'])
    assert set(before[0].sources) < set(after[0].sources) and after[0].text == longer.text
