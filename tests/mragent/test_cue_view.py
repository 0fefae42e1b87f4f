"""Views of plain stores against the hits that came, and graphs that were changed on purpose against lists of labels."""

from datetime import datetime

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from memnb.mragent.contents import Episode, SemanticUnit
from memnb.mragent.cues import cue_id
from memnb.mragent.graph import CueTagGraph
from memnb.mragent.labels import labels_of
from memnb.mragent.loop import collapsed, cue_view
from memnb.core.text import tokenize
from memnb.core.roles import LM
from memnb.mragent.prompts import Recollection
from memnb.core.conversation import Snippet
from memnb.core.time import TimeSpan

# ------------------------------------------------------------------ stores

WORDS = ['boat', 'lamp', 'harbour', 'clock', 'tram', 'violin', 'Ada', 'Bo', 'Cleo Finn', 'and', 'the', 'we', '…']
TEXTS = st.lists(st.sampled_from(WORDS), max_size=6).map(' '.join)
TIMES = st.sampled_from([None, TimeSpan.month(2024, 5), TimeSpan.year(2021)])
SAID = st.sampled_from([None, datetime(2024, 3, 2, 8), datetime(2023, 1, 9, 19, 30)])
ORIGIN = {
    'text': TEXTS,
    'sources': st.sampled_from([(), ('D1:1',), ('D1:2', 'D2:1')]),
    'time': TIMES,
    'said': SAID,
    'speaker': st.sampled_from([None, 'Ada', 'Bo', ' ', '']),
    'session': st.sampled_from([None, '', 'D1', 'D2', 'view']),
    'position': st.sampled_from([None, 0, 3, 11]),
}
SNIPPETS = st.builds(Snippet, st.text('abcd', min_size=1, max_size=3), **ORIGIN)
LABELS = st.sampled_from(['bee keeping', 'sale', 'Lost Lamp', 'tram', ' ', ''])
EPISODES = st.builds(
    Episode,
    st.text('efgh', min_size=1, max_size=3),
    **ORIGIN,
    title=TEXTS,
    tag=LABELS,
    cues=st.lists(LABELS, max_size=3).map(tuple),
)
STORES = st.lists(SNIPPETS | EPISODES, max_size=7, unique_by=lambda one: one.id)


def store_of(snippets):
    return lambda query: list(snippets)


def origin(one):
    "What a reader sees of a content, and what it rests on."
    return one.text, one.sources or (one.id,), one.time, one.said, one.speaker


def reading(graph):
    "All that can be walked on."
    shown = {one.id: (graph.cues.spelling(one.id), graph.cues.merged(one.id)) for one in graph.cues.index}
    return (
        sorted(graph.episodes, key=lambda one: one.id),
        sorted(graph.units, key=lambda one: one.id),
        list(graph.episodic),
        list(graph.semantic),
        graph.order,
        shown,
    )


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


# ------------------------------------------------------------------ graphs


class Mute(LM):
    "Asked, it fails."

    def call(self, role, /, **inputs):
        raise AssertionError(f'{role.name} was asked')


def places(session, number, kind):
    return st.lists(kind, max_size=number).map(
        lambda made: tuple(made_at(session, place, one) for place, one in enumerate(made))
    )


def made_at(session, place, one):
    made = type(one)(
        **{
            **{name: getattr(one, name) for name in one.__dataclass_fields__},
            'id': f'{session}/{type(one).__name__[0]}{place}',
            'session': session,
            'position': place if isinstance(one, Episode) else None,
            'sources': (f'{session}:{place}',),
        }
    )
    return made


TAGS = st.sampled_from(['bee keeping', 'sale', 'lost lamp', 'tram ride', 'Tram Rides'])
CUES = st.lists(
    st.sampled_from(['hive', 'hives', 'Ada', 'Bo', 'red boat', 'lamp', 'harbour']), max_size=4, unique=True
).map(tuple)
TOLD = st.builds(Episode, st.just('e'), text=TEXTS, time=TIMES, said=SAID, title=TEXTS, tag=TAGS, cues=CUES)
UNITS = st.builds(
    SemanticUnit,
    st.just('u'),
    text=TEXTS,
    time=TIMES,
    said=SAID,
    person=st.sampled_from(['Ada', 'Bo']),
    aspect=st.sampled_from(['job', 'pets']),
)


def tiny(texts):
    return np.array([[len(text), text.count('a') + 1, 1] for text in texts], float).reshape(-1, 3)


tiny.name = 'tiny'


@st.composite
def graphs(draw, **options):
    graph = CueTagGraph(Mute(), embedder=tiny, names=('Ada', 'Bo'), **options)
    for session in ('S1', 'S2', 'S3'):
        graph.keep(
            session,
            Recollection(
                draw(places(session, 3, TOLD)),
                draw(places(session, 2, UNITS)),
                draw(st.sampled_from([(), ('a note',)])),
            ),
        )
    return graph


def recollections(graph):
    return {session: graph.extract_of(session) for session in graph.sessions}


def stripped(found):
    "A recollection without the labels of its episodes."
    return Recollection(
        tuple(
            Episode(**{**{name: getattr(one, name) for name in one.__dataclass_fields__}, 'tag': '', 'cues': ()})
            for one in found.episodes
        ),
        found.units,
        found.notes,
    )


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
    assert (
        reached(made)
        == reached(graph)
        == {
            cue: set().union(*(made.contents_from(cue, tag) for tag in made.tags_from(cue)))
            for cue in made.episodic.cues
        }
    )
    assert len({tag for _, tag, _ in made.episodic}) == (1 if len(graph.episodes) else 0)
    assert list(made.semantic) == list(graph.semantic) and recollections(graph) == before
    assert {id: stripped(found) for id, found in recollections(made).items()} == {
        id: stripped(found) for id, found in before.items()
    }
    assert reading(collapsed(made)) == reading(made)
    assert made.settings() == graph.settings() and made.embedder is graph.embedder and made.lm is graph.lm
