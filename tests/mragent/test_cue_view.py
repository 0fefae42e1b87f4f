"""Views of plain stores against the hits that came, and graphs that were changed on purpose against lists of labels."""
from collections import Counter
from datetime import datetime
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memnb.mragent.graph import cue_id, Episode, SemanticUnit
from memnb.mragent.tools import CueTagGraph
from memnb.mragent.tools import labels_of
from memnb.mragent.loop import _others, as_episode, collapsed, cue_view, noisy, remade, WIDE
from memnb.core.text import tokenize
from memnb.retrieval.bm25 import LexicalIndex
from memnb.core.roles import LM, LMError
from memnb.mragent.loop import MRAgent
from memnb.mragent.prompts import Recollection
from memnb.core.loop import MemoryFailed
from memnb.core.conversation import Snippet
from memnb.core.retriever import Hit
from memnb.core.time import TimeSpan

# ------------------------------------------------------------------ stores

WORDS = ['boat', 'lamp', 'harbour', 'clock', 'tram', 'violin', 'Ada', 'Bo', 'Cleo Finn', 'and', 'the', 'we', '…']
TEXTS = st.lists(st.sampled_from(WORDS), max_size=6).map(' '.join)
TIMES = st.sampled_from([None, TimeSpan.month(2024, 5), TimeSpan.year(2021)])
SAID = st.sampled_from([None, datetime(2024, 3, 2, 8), datetime(2023, 1, 9, 19, 30)])
ORIGIN = {'text': TEXTS, 'sources': st.sampled_from([(), ('D1:1',), ('D1:2', 'D2:1')]), 'time': TIMES, 'said': SAID,
          'speaker': st.sampled_from([None, 'Ada', 'Bo', ' ', '']), 'session': st.sampled_from([None, '', 'D1', 'D2', 'view']),
          'position': st.sampled_from([None, 0, 3, 11])}
SNIPPETS = st.builds(Snippet, st.text('abcd', min_size=1, max_size=3), **ORIGIN)
LABELS = st.sampled_from(['bee keeping', 'sale', 'Lost Lamp', 'tram', ' ', ''])
EPISODES = st.builds(Episode, st.text('efgh', min_size=1, max_size=3), **ORIGIN, title=TEXTS, tag=LABELS, cues=st.lists(LABELS, max_size=3).map(tuple))
STORES = st.lists(SNIPPETS | EPISODES, max_size=7, unique_by=lambda one: one.id)


def store_of(snippets):
    return lambda query: list(snippets)


def origin(one):
    "What a reader sees of a content, and what it rests on."
    return one.text, one.sources or (one.id,), one.time, one.said, one.speaker


def reading(graph):
    "All that can be walked on."
    shown = {one.id: (graph.cues.shown(one.id), graph.cues.merged(one.id)) for one in graph.cues.index}
    return sorted(graph.episodes, key=lambda one: one.id), sorted(graph.units, key=lambda one: one.id), list(graph.episodic), list(graph.semantic), graph.order, shown


@settings(max_examples=30)
@given(STORES, st.integers(0, 8))
def test_a_view_is_what_the_store_returned(snippets, wide):
    view = cue_view(store_of(snippets), 'Who?', wide)
    came = {one.id: one for one in snippets[:wide]}
    assert {one.id: origin(one) for one in view.episodes} == {id: origin(one) for id, one in came.items()}
    assert all(one.sources for one in view.episodes)
    assert len(view.units) == 0 and not view.usage
    homes = {}
    for one in came.values():
        homes.setdefault(one.session or 'view', []).append((one.position or 0, one.id))
    assert view.order == {home: tuple(id for _, id in sorted(ids)) for home, ids in homes.items()}


@settings(max_examples=30)
@given(STORES)
def test_every_label_is_in_the_hit(snippets):
    view = cue_view(store_of(snippets), 'Who?')
    triples = set()
    for one in view.episodes:
        there = {'talk', *tokenize(f'{one.text} {one.speaker or ""}')}
        hit = next(hit for hit in snippets if hit.id == one.id)
        if isinstance(hit, Episode) and hit.tag.strip():
            assert (one.tag, one.title, one.cues) == (hit.tag, hit.title, tuple(cue for cue in hit.cues if cue.strip()))
        else:
            assert set(tokenize(one.tag)) <= there and len(one.tag.split()) <= 2
            assert all(set(tokenize(cue)) <= there for cue in one.cues)
            assert not {'ada', 'bo'} & set(one.tag.split()) & {name.lower() for name in view.names}
            assert one.speaker not in ('Ada', 'Bo') or one.cues[0] == one.speaker
            missed = set(tokenize(one.text)) - {word for cue in one.cues for word in tokenize(cue)}
            assert not missed or one.cues == ('talk',)
        months = {'May 2024'} if one.time == TimeSpan.month(2024, 5) else set()
        assert months <= set(labels_of(one)[0])
        triples |= {(cue_id(cue), cue_id(one.tag), one.id) for cue in labels_of(one)[0]}
    assert set(view.episodic) == triples


@settings(max_examples=20)
@given(STORES, st.randoms(use_true_random=False))
def test_the_order_of_the_hits_changes_nothing(snippets, random):
    other = random.sample(snippets, len(snippets))
    assert reading(cue_view(store_of(snippets), 'Who?')) == reading(cue_view(store_of(other), 'Who?'))


@settings(max_examples=20)
@given(SNIPPETS | EPISODES)
def test_an_episode_stays_one(snippet):
    made = as_episode(snippet, ('Ada', 'Bo'))
    assert as_episode(made, ()) == made
    assert made.id == snippet.id and made.session and cue_id(made.tag) and all(map(cue_id, made.cues))


def test_a_store_is_asked_once_for_the_question_and_as_widely_as_said():
    asked = []

    def search(query, k):
        asked.append((query, k))
        return [f'note {number}' for number in range(300)][:k]
    assert len(cue_view(search, 'Where is the boat?').episodes) == WIDE == 100
    assert len(cue_view(search, 'Where is the boat?', 7).episodes) == 7
    assert asked == [('Where is the boat?', WIDE), ('Where is the boat?', 7)]


def test_options_are_those_of_the_graph():
    hits = [Snippet('1', 'Cleo said: hello Cleo', speaker='Ada'), Snippet('2', 'The tram has a lamp', speaker='Bo')]
    plain = cue_view(store_of(hits), 'boat')
    assert plain.names == ('Ada', 'Bo') and plain.merge == .9
    named = cue_view(store_of(hits), 'boat', names=('Cleo',), merge=None)
    assert named.names == ('Cleo',) and named.merge is None
    assert 'cleo' in plain.episodes['1'].tag.split() and 'cleo' not in named.episodes['1'].tag.split()
    with pytest.raises(TypeError, match='names'):
        cue_view(store_of(hits), 'boat', names='Cleo')


@pytest.mark.parametrize('failing, words', [(lambda query: 1 / 0, 'ZeroDivisionError: division by zero'), (lambda query: [3], 'TypeError: a search result'),
                                            (lambda query: None, 'TypeError'), (lambda query: [Hit(Snippet('a', 'b')), {}], 'TypeError')])
def test_a_store_that_fails_ends_one_question_only(failing, words):
    with pytest.raises(MemoryFailed, match=words) as caught:
        cue_view(failing, 'Who?')
    assert isinstance(caught.value, LMError) and caught.value.__cause__ is not None
    trace = MRAgent(failing).ask('Who?')
    assert trace.answer is None and words in trace.error


def test_what_is_no_search_is_refused_as_such():
    for memory, question, wide, kind in ((3, 'Who?', 5, TypeError), (store_of([]), None, 5, TypeError), (store_of([]), 'Who?', -1, ValueError),
                                         (store_of([]), 'Who?', True, TypeError), (None, 'Who?', 5, TypeError)):
        with pytest.raises(kind):
            cue_view(memory, question, wide)


@settings(max_examples=15)
@given(st.lists(SNIPPETS, min_size=1, max_size=6, unique_by=lambda one: one.id), st.sampled_from(['Where is the boat of Ada?', 'When did Bo see the clock?']))
def test_a_walk_over_a_view_reads_the_store(snippets, question):
    index = LexicalIndex()
    index.add(snippets)
    trace = MRAgent(index).ask(question)
    assert trace.error is None
    assert set(trace.evidence) <= set(trace.read) <= {turn for one in snippets for turn in one.sources or (one.id,)}


# ------------------------------------------------------------------ graphs

class Mute(LM):
    "Asked, it fails."
    def call(self, role, /, **inputs):
        raise AssertionError(f'{role.name} was asked')


def places(session, number, kind):
    return st.lists(kind, max_size=number).map(lambda made: tuple(made_at(session, place, one) for place, one in enumerate(made)))


def made_at(session, place, one):
    made = type(one)(**{**{name: getattr(one, name) for name in one.__dataclass_fields__}, 'id': f'{session}/{type(one).__name__[0]}{place}',
                        'session': session, 'position': place, 'sources': (f'{session}:{place}',)})
    return made


TAGS = st.sampled_from(['bee keeping', 'sale', 'lost lamp', 'tram ride', 'Tram Rides'])
CUES = st.lists(st.sampled_from(['hive', 'hives', 'Ada', 'Bo', 'red boat', 'lamp', 'harbour']), max_size=4, unique=True).map(tuple)
TOLD = st.builds(Episode, st.just('e'), text=TEXTS, time=TIMES, said=SAID, title=TEXTS, tag=TAGS, cues=CUES)
UNITS = st.builds(SemanticUnit, st.just('u'), text=TEXTS, time=TIMES, said=SAID, person=st.sampled_from(['Ada', 'Bo']), aspect=st.sampled_from(['job', 'pets']))


def tiny(texts):
    return np.array([[len(text), text.count('a') + 1, 1] for text in texts], float).reshape(-1, 3)


tiny.name = 'tiny'


@st.composite
def graphs(draw, **options):
    graph = CueTagGraph(Mute(), embedder=tiny, names=('Ada', 'Bo'), **options)
    for session in ('S1', 'S2', 'S3'):
        graph.keep(session, Recollection(draw(places(session, 3, TOLD)), draw(places(session, 2, UNITS)), draw(st.sampled_from([(), ('a note',)]))))
    return graph


def recollections(graph):
    return {session: graph.extract_of(session) for session in graph.sessions}


def stripped(found):
    "A recollection without the labels of its episodes."
    return Recollection(tuple(Episode(**{**{name: getattr(one, name) for name in one.__dataclass_fields__}, 'tag': '', 'cues': ()}) for one in found.episodes),
                        found.units, found.notes)


@settings(max_examples=12)
@given(graphs(merge=.7, consolidate=.8, spread=False))
def test_remade_without_a_change_is_the_same(graph):
    before, made = recollections(graph), remade(graph, lambda found: found)
    assert reading(made) == reading(graph) and recollections(made) == before == recollections(graph)
    assert made.settings() == {**graph.settings(), 'topics': None} and made.embedder is graph.embedder and made.lm is graph.lm
    assert [hit.snippet.id for hit in made.search('boat', 5)] == [hit.snippet.id for hit in graph.search('boat', 5)]


def reached(graph):
    "By cue, what it leads to, read off all triples."
    found = {}
    for cue, _, content in graph.episodic:
        found.setdefault(cue, set()).add(content)
    return found


@settings(max_examples=20)
@given(graphs())
def test_without_tags_a_cue_leads_where_it_led(graph):
    before, made = recollections(graph), collapsed(graph)
    assert reached(made) == reached(graph) == {cue: set().union(*(made.contents_from(cue, tag) for tag in made.tags_from(cue))) for cue in made.episodic.cues}
    assert len({tag for _, tag, _ in made.episodic}) == (1 if len(graph.episodes) else 0)
    assert list(made.semantic) == list(graph.semantic) and recollections(graph) == before
    assert {id: stripped(found) for id, found in recollections(made).items()} == {id: stripped(found) for id, found in before.items()}
    assert reading(collapsed(made)) == reading(made)


RATES = st.sampled_from([0.0, .2, .5, .8, 1.0, 0, 1])


@settings(max_examples=20)
@given(graphs(), RATES, RATES, RATES, st.integers(0, 3))
def test_noise_touches_labels_and_nothing_else(graph, tags, cues, added, seed):
    before, made = recollections(graph), noisy(graph, tags, cues, seed, added)
    assert {id: stripped(found) for id, found in recollections(made).items()} == {id: stripped(found) for id, found in before.items()}
    assert recollections(graph) == before and made.order == graph.order and list(made.semantic) == list(graph.semantic)
    assert reading(noisy(graph, tags, cues, seed, added)) == reading(made)
    for one in made.episodes:
        own, others = graph.episodes[one.id], [other for other in graph.episodes if other.id != one.id]
        assert one.tag in {own.tag, *(other.tag for other in others)}
        assert set(one.cues) <= {*own.cues, *(cue for other in others for cue in other.cues), *((own.tag,) if not own.cues else ()), *labels_of(own)[0]}
        assert tags or one.tag == own.tag
        assert cues or set(own.cues) <= set(one.cues)
        assert len(one.cues) == len(set(one.cues)) <= max(1, len(labels_of(own)[0]), 2 * len(own.cues))


@settings(max_examples=15)
@given(graphs(), st.integers(0, 9))
def test_no_noise_is_the_graph_itself(graph, seed):
    assert reading(noisy(graph, seed=seed)) == reading(graph)
    assert recollections(noisy(graph, 0, 0.0, seed)) == recollections(graph)


@settings(max_examples=15)
@given(graphs(), st.integers(0, 3))
def test_without_own_labels_nothing_is_left_at_rate_one(graph, seed):
    made = noisy(graph, 1, 1, seed)
    for one in made.episodes:
        own = graph.episodes[one.id]
        others = [other for other in graph.episodes if other.id != one.id]
        assert one.tag in [other.tag for other in others] if others else one.tag == own.tag
        pool = {cue for other in others for cue in other.cues}
        assert set(one.cues) <= (pool or set(own.cues)) or not own.cues


def large(number=150):
    "A graph in which no two episodes share a label."
    graph = CueTagGraph(embedder=tiny, merge=None)
    graph.keep('S', Recollection(tuple(Episode(f'S/{place}', 'x', session='S', position=place, tag=f'tag{place}', cues=(f'cue{place}', f'word{place}'))
                                       for place in range(number))))
    return graph


LARGE = large()


def labels(graph):
    return {one.id: (one.tag, one.cues) for one in graph.episodes}


def test_where_all_labels_differ_rate_one_leaves_none():
    clean = labels(LARGE)
    for id, (tag, cues) in labels(noisy(LARGE, 1, 1)).items():
        assert tag != clean[id][0] and not set(cues) & set(clean[id][1])
    made = labels(noisy(LARGE, 1, 1, added=1))
    assert len({tag for tag, _ in made.values()}) > 75 and len({cue for _, cues in made.values() for cue in cues}) > 200  # 150 and 300 to choose from


@pytest.mark.parametrize('seed', [0, 7])
def test_how_many_are_changed_is_fixed_by_seed_and_rate(seed):
    clean, before = labels(LARGE), set()
    for rate in (.1, .25, .5, .9):
        made = labels(noisy(LARGE, rate, seed=seed))
        changed = {id for id in clean if made[id][0] != clean[id][0]}
        assert changed == {id for id in clean if Random(f'{seed}:{id}').random() < rate}
        assert abs(len(changed) - 150 * rate) < 28 and before <= changed
        assert all(made[id][1] == clean[id][1] for id in clean)
        before = changed
    other = labels(noisy(LARGE, .5, seed=seed + 1))
    assert sum(other[id] != clean[id] for id in clean) and other != labels(noisy(LARGE, .5, seed=seed))


@pytest.mark.parametrize('kind', ['tags', 'cues', 'added'])
def test_a_higher_rate_changes_what_a_lower_one_does_and_more(kind):
    clean, low, high = (labels(noisy(LARGE, **{kind: rate})) for rate in (0, .3, .7))
    size = {'low': 0, 'high': 0}
    for id in clean:
        one, two, three = ([tag, *cues] for tag, cues in (clean[id], low[id], high[id]))
        if kind == 'added':
            assert set(one) <= set(two) <= set(three)
        else:
            assert all(second in (first, third) for first, second, third in zip(one, two, three))
        size['low'] += one != two
        size['high'] += one != three
    assert 0 < size['low'] < size['high']


def test_kinds_of_noise_do_not_disturb_each_other():
    alone, both = labels(noisy(LARGE, cues=.5, added=.5)), labels(noisy(LARGE, tags=.5, cues=.5, added=.5))
    tags = labels(noisy(LARGE, tags=.5))
    assert both == {id: (tags[id][0], alone[id][1]) for id in both}
    more, clean = labels(noisy(LARGE, added=1.0)), labels(LARGE)
    assert all(cues[:2] == clean[id][1] and 2 < len(cues) <= 4 for id, (_, cues) in more.items())


def test_the_order_of_sessions_changes_no_noise():
    parts = {f'S{place}': Recollection(tuple(Episode(f'S{place}/{n}', 'x', session=f'S{place}', tag=f't{place}{n}', cues=(f'c{place}{n}',)) for n in range(3)))
             for place in range(4)}
    one, two = CueTagGraph(embedder=tiny), CueTagGraph(embedder=tiny)
    for graph, order in ((one, list(parts)), (two, list(parts)[::-1])):
        for session in order:
            graph.keep(session, parts[session])
    assert labels(noisy(one, .5, .5, 3, .5)) == labels(noisy(two, .5, .5, 3, .5))


def test_an_episode_without_cues_is_still_found_by_its_words():
    graph = CueTagGraph(embedder=tiny)
    graph.keep('S', Recollection((Episode('a', 'x', session='S', tag='bee keeping'), Episode('b', 'x', session='S', tag='sale', cues=('hive',)))))
    made = noisy(graph, tags=1)
    assert made.episodes['a'].tag == 'sale' and made.tags_from(cue_id('bee keeping')) == {'sale'}
    assert collapsed(graph).contents_from(cue_id('bee keeping'), 'event') == {'a'}


@settings(max_examples=80)
@given(st.lists(st.tuples(st.sampled_from(['a', 'a\0', 'ab', 'b', 'b/1', 'c']), st.sampled_from('uvwxyz')), max_size=9).map(sorted),
       st.sampled_from(['a', 'a\0', 'ab', 'b', 'c', 'd']))
def test_a_label_is_drawn_from_all_others_alike(pool, id):
    others = [label for owner, label in pool if owner != id]

    class Place(Random):
        def randrange(self, number):
            assert number == len(others)
            return self.place
    random, drawn = Place(), []
    for random.place in range(len(others)):
        drawn.append(_others(pool, id, random))
    assert drawn == others
    assert others or _others(pool, id, random) is None


def test_what_is_drawn_is_as_frequent_as_it_was():
    graph = CueTagGraph(embedder=tiny, merge=None)
    graph.keep('S', Recollection(tuple(Episode(f'S/{place}', 'x', session='S', tag='common' if place % 4 else f'rare{place}', cues=('c',)) for place in range(400))))
    counts = Counter(one.tag for one in noisy(graph, 1).episodes)
    assert 260 < counts['common'] < 340


@pytest.mark.parametrize('wrong', [-.1, 1.01, float('nan'), True, False, '0.5', None])
@pytest.mark.parametrize('name', ['tags', 'cues', 'added'])
def test_what_is_no_rate_is_refused(name, wrong):
    with pytest.raises(ValueError, match=f'{name}: expected a rate between 0 and 1'):
        noisy(LARGE, **{name: wrong})
