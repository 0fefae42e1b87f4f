"""The store behind the cue-tag graph: whatever comes and goes, it is what a plain dictionary of sessions says it should be."""

import tempfile
from collections import Counter
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from fakes import Letters

from memnb.mragent.contents import Episode, SemanticUnit
from memnb.mragent.cues import cue_id
from memnb.core.conversation import DuplicateSnippet, Session, Turn
from memnb.mragent.graph import CueTagGraph
from memnb.core.storage import DuplicateSession, MemoryFileError
from memnb.mragent.prompts import Recollection
from memnb.core.roles import Call, LM, LMError, ServerError, Usage

NAMES = ('S0', 'S1', 'S2', 'S3')
MONTHS = ('January', 'February', 'March')
TAGS = (
    'Race Result',
    'Race Results',
    'Won a Race',
    'Trip',
    'talk',
)  # at .7 the first three are one; at None none are; the first two are one label
CUES = ('Tobin', 'boat', 'Boats', 'boats', 'half marathon', 'The Who', '♥')
ASPECTS = ('sport', 'Sports', 'job')


class Scribe(LM):
    """A model that reads turns such as 'E|Trip|boat,Tobin' and 'U|Tobin|sport'. It can be told to fail."""

    name = 'scribe'

    def __init__(self):
        self.asked, self.down, self.speakers = 0, None, None

    def call(self, role, /, session=None, speakers=(), episodes=(), **in_use):
        self.asked, self.speakers = self.asked + 1, speakers or self.speakers
        if role.name == self.down:
            raise LMError('the scribe is ill', Usage(1))
        turns = [(turn.id, turn.text.split('|')) for turn in session.turns] if session else []
        reply = {
            'segment': lambda: {
                'episodes': [
                    {'title': parts[2], 'text': text_of(parts), 'turns': [id]} for id, parts in turns if parts[0] == 'E'
                ]
            },
            'tag': lambda: {
                'tags': [
                    {'episode': one.id, 'tag': parts[1], 'cues': parts[2].split(',')}
                    for one, parts in zip(episodes, [parts for _, parts in turns if parts[0] == 'E'])
                ]
            },
            'units': lambda: {
                'units': [
                    {'person': parts[1], 'aspect': parts[2], 'fact': 'so it is', 'turns': [id]}
                    for id, parts in turns
                    if parts[0] == 'U'
                ]
            },
            'topics': lambda: {'topics': [{'title': f'Secret {one.title}', 'episodes': [one.id]} for one in episodes]},
        }[role.name]()
        return Call(role.name, role.reply.model_validate(reply), Usage(1, len(turns), 1))


def text_of(parts):
    return f'{parts[1]} with {parts[2]}' + ' in June 2020' * (parts[1] == 'Trip')


turns = st.lists(
    st.tuples(
        st.just('E'), st.sampled_from(TAGS), st.lists(st.sampled_from(CUES), min_size=1, max_size=3).map(','.join)
    )
    | st.tuples(st.just('U'), st.sampled_from(CUES), st.sampled_from(ASPECTS)),
    max_size=4,
)


def session(name, said):
    return Session(
        name,
        [Turn(f'{name}:{place}', 'Ana', '|'.join(parts)) for place, parts in enumerate(said)],
        datetime(2024, 1 + int(name[1:]) % 3, 9),
    )


def built(sessions, kind=CueTagGraph, **options):
    store = kind(**{'lm': Scribe(), 'embedder': Letters(), 'merge': 0.7, **options})
    for one in sessions:
        store.add(one)
    return store


def plain(sessions):
    """What a store of these sessions should hold, read off their turns."""
    episodic, semantic, labels, order = set(), set(), {'cues': Counter(), 'tags': Counter(), 'aspects': Counter()}, {}
    for one in sessions:
        told = [turn.text.split('|') for turn in one.turns]
        events, facts = ([parts for parts in told if parts[0] == kind] for kind in 'EU')
        order[one.id] = tuple(f'{one.id}/e{number}' for number in range(1, len(events) + 1))
        for id, (_, tag, cues) in zip(order[one.id], events):
            month = 'June 2020' if tag == 'Trip' else f'{MONTHS[one.time.month - 1]} 2024'
            cues = {*cues.split(','), month}
            episodic |= {(cue_id(cue), cue_id(tag), id) for cue in cues}
            labels['cues'].update(cues)
            labels['tags'][tag] += 1
        for number, (_, person, aspect) in enumerate(facts, 1):
            semantic.add((cue_id(person), cue_id(aspect), f'{one.id}/u{number}'))
            labels['cues'][person] += 1
            labels['aspects'][aspect] += 1
    return episodic, semantic, labels, order


def usual(counter):
    """How each label is written: most often so, and of several the first in the alphabet."""
    best = {}
    for way, count in sorted(counter.items(), key=lambda pair: (pair[1], [-ord(letter) for letter in pair[0]] + [0])):
        best[cue_id(way)] = way
    return best


def holds(store, sessions):
    """The store says what the dictionary says."""
    episodic, semantic, labels, order = plain(sessions)
    assert set(store.episodic) == episodic and set(store.semantic) == semantic
    assert store.order == order and store.sessions == tuple(sorted(order))
    for name, counter in labels.items():
        place = getattr(store, name)
        assert {one.id: place.spelling(one.id) for one in place.index} == usual(counter) and len(place) == len(
            usual(counter)
        )
    assert {one.id for one in store.episodes} == {id for told in order.values() for id in told}
    assert {one.id for one in store.units} == {id for _, _, id in semantic}
    assert store.counts() == {
        'episodes': len(store.episodes),
        'units': len(store.units),
        'triples': len(episodic) + len(semantic),
        **{name: len(usual(counter)) for name, counter in labels.items()},
    }


def reading(store):
    """All that can be asked of it, and the vectors to the last bit."""
    places = {
        name: [
            (
                one,
                getattr(store, name).spelling(one.id),
                getattr(store, name).merged(one.id),
                getattr(store, name).index.vector(one.id).tobytes(),
            )
            for one in getattr(store, name).index
        ]
        for name in ('cues', 'tags', 'aspects')
    }
    found = [
        [(hit.snippet, hit.score) for hit in store.contents.search(query, 50)] for query in ('a boat race', 'Tobin ♥')
    ]
    rows = [(one, store.contents.dense.vector(one.id).tobytes()) for one in store.contents]
    usage = {role: spent for role, spent in store.usage.items() if role != 'topics'}  # what was forgotten is filed anew
    return (
        store.sessions,
        store.counts(),
        list(store.episodic),
        list(store.semantic),
        list(store.units),
        store.order,
        places,
        found,
        rows,
        usage,
        store.topics,
        {**store.settings(), 'topics': None},
        {id: store.extract_of(id) for id in store.sessions},
    )


def test_the_spelling_of_a_topic_does_not_depend_on_the_order_of_the_sessions():
    sessions = [session('S0', [('E', 'Trip', 'Boats')]), session('S1', [('E', 'Trip', 'boat')] * 2)]
    for said in (sessions, sessions[::-1]):
        assert [one.title for one in built(said, filing=True).topics] == ['Secret Boats']


# any history, against a plain dictionary of sessions


class History(RuleBasedStateMachine):
    """Sessions come, go, fail, are saved, struck and opened; the model is two dictionaries of sessions."""

    @initialize(merge=st.sampled_from([None, 0.7, 0.9]))
    def begin(self, merge):
        self.folder = tempfile.TemporaryDirectory()
        self.path, self.merge = Path(self.folder.name) / 'memory', merge
        self.store, self.now, self.saved = built([], merge=merge), {}, None

    def teardown(self):
        if hasattr(self, 'folder'):
            self.folder.cleanup()

    @rule(name=st.sampled_from(NAMES), said=turns)
    def add(self, name, said):
        one = session(name, said)
        if self.now.get(name, one) == one:
            self.store.add(one)
            self.now[name] = one
        else:
            with pytest.raises(DuplicateSession):
                self.store.add(one)

    @precondition(lambda self: self.now)
    @rule(data=st.data())
    def forget(self, data):
        name = data.draw(st.sampled_from(sorted(self.now)))
        before = self.store.counts()
        gone = self.store.forget(name)
        del self.now[name]
        assert gone == {kind: number - self.store.counts()[kind] for kind, number in before.items()}

    @rule(name=st.sampled_from(NAMES), said=turns, down=st.sampled_from(['embedder', 'segment', 'units']))
    def fail(self, name, said, down):
        one = session(name, said)
        if name in self.now or not one.turns:
            return
        needed = down != 'embedder' or bool(said)
        self.store.lm.down = down
        self.store.contents.dense._vectors.embedder = Broken() if down == 'embedder' else Letters()
        try:
            self.store.add(one)
        except (LMError, ServerError):
            assert needed
        else:
            assert not needed
            self.now[name] = one
        self.store.lm.down = None
        self.store.contents.dense._vectors.embedder = Letters()

    @rule()
    def save(self):
        self.store.save(self.path)
        self.saved = dict(self.now)

    @precondition(lambda self: self.saved is not None)
    @rule()
    def die_and_open(self):
        scribe, embedder = Scribe(), Letters()
        self.store, self.now = CueTagGraph.load(self.path, lm=scribe, embedder=embedder), dict(self.saved)
        assert scribe.asked == embedder.asked == 0

    @rule()
    def ask(self):
        fresh = built([self.now[name] for name in sorted(self.now)], merge=self.merge)
        assert reading(self.store) == reading(fresh)

    @invariant()
    def holds_what_it_was_told(self):
        if hasattr(self, 'now'):
            holds(self.store, self.now.values())


class Broken(Letters):
    """A server that has gone."""

    def __call__(self, texts):
        raise ServerError('the embedder is down')


TestHistory = History.TestCase
TestHistory.settings = settings(max_examples=25, stateful_step_count=14)


# what is refused, and what fails

FIRST = Episode('S9/e1', 'A boat.', session='S9', title='Boat', tag='Trip', cues=('boat',))
UNIT = SemanticUnit('S9/u1', 'So it is.', session='S9', person='Tobin', aspect='job')


@pytest.mark.parametrize(
    'found, error, words',
    [
        (Recollection((replace(FIRST, session='S1'),)), ValueError, "'S9/e1': expected the session 'S9', got 'S1'"),
        (
            Recollection((FIRST,), (replace(UNIT, session=None),)),
            ValueError,
            "'S9/u1': expected the session 'S9', got None",
        ),
        (
            Recollection((FIRST, replace(FIRST, text='Another.'))),
            DuplicateSnippet,
            "session 'S9': an item 'S9/e1' is there already",
        ),
        (Recollection((FIRST,), (replace(UNIT, id='S9/e1'),)), DuplicateSnippet, "an item 'S9/e1'"),
        (Recollection((replace(FIRST, id='S0/e1'),)), DuplicateSnippet, "an item 'S0/e1'"),
        (Recollection((), (replace(UNIT, id='S0/u1'),)), DuplicateSnippet, "an item 'S0/u1'"),
        (Recollection((FIRST, replace(FIRST, id='S9/e2', tag=' '))), ValueError, 'labels: expected at least one word'),
        (Recollection((replace(FIRST, cues=('boat', '')),)), ValueError, 'labels: expected at least one word'),
        (
            Recollection((FIRST,), (UNIT, replace(UNIT, id='S9/u2', person='\n'))),
            ValueError,
            'labels: expected at least one word',
        ),
        (Recollection((FIRST,), (replace(UNIT, aspect=''),)), ValueError, 'labels: expected at least one word'),
        (Recollection((replace(FIRST, position=0), replace(FIRST, id='S9/e2', position=0))), DuplicateSnippet, 'S9'),
        (
            Recollection((replace(FIRST, position=0), replace(FIRST, id='S9/e2', position='x'))),
            TypeError,
            'not supported',
        ),
    ],
)
def test_what_could_not_be_forgotten_exactly_is_refused_and_nothing_changes(found, error, words):
    one = session('S0', [('E', 'Trip', 'boat'), ('U', 'Tobin', 'job')])
    store = built([one])
    before = reading(store)
    with pytest.raises(error, match=words):
        store.keep('S9', found)
    assert reading(store) == before and 'S9' not in store
    store.keep('S9', Recollection((FIRST,), (UNIT,)))
    store.forget('S9')
    assert reading(store) == before


# the file


def test_a_file_has_what_was_said_and_nothing_that_follows_from_it(tmp_path):
    store = built(
        [session('S0', [('E', 'Trip', 'boat,Tobin'), ('U', 'Tobin', 'job')])], names=['Ana'], merge=0.8, spread=False
    )
    store.save(tmp_path / 'm')
    assert store.lm.speakers == ('Ana',)
    opened = CueTagGraph.load(tmp_path / 'm', embedder=Letters())
    assert reading(opened) == reading(store) and (opened.names, opened.merge, opened.spread) == (('Ana',), 0.8, False)
    assert CueTagGraph.load(tmp_path / 'm', embedder=Letters(), merge=None).merge is None
    others = Letters('others')
    unnamed = CueTagGraph.load(tmp_path / 'm', embedder=lambda texts: others(texts), embed_anew=True)
    unnamed.save(tmp_path / 'lambda')
    with pytest.raises(MemoryFileError, match='a lambda has no name of its own: embed_anew=True'):
        CueTagGraph.load(tmp_path / 'lambda', embedder=lambda texts: Letters()(texts))
    data = (tmp_path / 'm').read_bytes()
    assert b'"boat"' in data and cue_id('June 2020').encode() not in data  # a month is worked out, and not written down


def test_titles_of_forgotten_topics_are_not_left_in_the_file(tmp_path):
    path, sessions = tmp_path / 'm', [session(f'S{place}', [('E', 'Trip', 'boat')] * 2) for place in range(3)]
    graph = built([*sessions, session('S3', [('E', 'talk', 'Tobin')])], CueTagGraph, filing=True)
    assert [(one.title, len(one.episodes)) for one in graph.topics] == [('Secret boat', 6)]
    graph.save(path)
    assert b'Secret boat' in path.read_bytes()
    graph.forget('S3')  # no topic rests on it
    asked = graph.lm.asked
    assert len(graph.topics) == 1 and graph.lm.asked == asked
    graph.forget('S0')
    graph.save(path)
    assert (
        b'Secret boat' not in path.read_bytes()
        and b'S0/e1' not in path.read_bytes()
        and graph.settings()['topics']['of'] == []
    )
    graph.file_topics()  # the other sessions say so, too
    assert [(one.title, len(one.episodes)) for one in graph.topics] == [('Secret boat', 4)]
    graph.save(path)
    assert CueTagGraph.load(path, lm=Scribe(), embedder=Letters()).topics == graph.topics
