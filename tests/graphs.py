"""Cue-tag graphs that Hypothesis makes up, and how the tests read their contents without any index."""

from collections import Counter
from datetime import date, datetime, timedelta
from functools import cache

import networkx
import numpy as np
from hypothesis import strategies as st

from memnb.mragent.contents import Episode, SemanticUnit
from memnb.mragent.cues import cue_id
from memnb.retrieval.vectors import WordLlamaEmbedder
from memnb.mragent.prompts import Recollection
from memnb.core.time import TimeSpan

CUES = ('Tobin', 'Zofia', 'test', 'Tests', 'lake', 'Blue Kettle')  # two of them have the same stems
TAGS = (
    'Race Result',
    'Result of a Race',
    'race results',
    'Driving Test',
    'Test Drive',
    'driving lesson',
    'Camping Trip',
    'Camping',
    'Bread',
)
MERGES = (None, 0.9, 0.6, 0.4)  # no two of the tags have a cosine near one of these
TEXTS = (
    'A pipe burst in the night.',
    'A pipe burst one night.',
    'Tobin ran a race in the rain.',
    'Zofia swam in the lake at dawn.',
)
TIMES = (
    None,
    TimeSpan.day(date(2024, 1, 26)),
    TimeSpan.day(date(2024, 2, 2)),
    TimeSpan.month(2024, 1),
    TimeSpan(date(2024, 1, 1), None),
    TimeSpan(date(2024, 1, 31), date(2024, 2, 1), 'span'),
    TimeSpan(None, date(2024, 2, 1)),
)
MONTHS = {
    TIMES[1]: ['January 2024'],
    TIMES[2]: ['February 2024'],
    TIMES[3]: ['January 2024'],
    TIMES[5]: ['January 2024', 'February 2024'],
}
SAID = {'S1': datetime(2024, 2, 1, 20), 'S2': datetime(2024, 2, 1, 9), 'S3': None}
PEOPLE, ASPECTS, SLOTS = (
    ('Tobin', 'tobin', 'Dr. Quill', 'Dr Quill'),
    ('job', 'Jobs', 'pets'),
    ('', 'employer', 'Employers', 'vet'),
)


@st.composite
def episodes(draw, session):
    """Up to four episodes of a session, told in an order that is not that of their ids."""
    numbers = draw(st.lists(st.integers(1, 12), unique=True, max_size=4))
    return tuple(
        Episode(
            f'{session}/e{number}',
            draw(st.sampled_from(TEXTS)),
            (f'{session}:{number}',),
            draw(st.sampled_from(TIMES)),
            'Tobin',
            SAID[session],
            session,
            place,
            f'title {number}',
            draw(st.sampled_from(TAGS)),
            tuple(draw(st.lists(st.sampled_from(CUES), unique=True, max_size=3))),
        )
        for place, number in enumerate(numbers)
    )


@st.composite
def units(draw, session, most=4):
    """Up to so many units of a session."""
    numbers = draw(st.lists(st.integers(1, 12), unique=True, max_size=most))
    return tuple(
        SemanticUnit(
            f'{session}/u{number}',
            f'fact {number}',
            (f'{session}:{number + 20}',),
            draw(st.sampled_from(TIMES)),
            said=SAID[session],
            session=session,
            person=draw(st.sampled_from(PEOPLE)),
            aspect=draw(st.sampled_from(ASPECTS)),
            slot=draw(st.sampled_from(SLOTS)),
        )
        for number in numbers
    )


extracts = st.fixed_dictionaries(
    {session: st.builds(Recollection, episodes(session), units(session)) for session in SAID}
)
event_extracts = st.fixed_dictionaries({session: st.builds(Recollection, episodes(session)) for session in SAID})
unit_extracts = st.fixed_dictionaries(
    {session: st.builds(Recollection, st.just(()), units(session)) for session in SAID}
)


def built(kind, extracts, order=None, **options):
    """A graph of a kind from extracts, in an order of sessions. Episodes are not spread, for plain ranks."""
    made = kind(**{'spread': False, 'names': ('Tobin', 'Zofia'), **options})
    for session in order or extracts:
        made.keep(session, extracts[session])
    return made


# Reading without an index


def every(extracts, what='episodes'):
    """All episodes, or units, of all sessions."""
    return [one for found in extracts.values() for one in getattr(found, what)]


def pairs(episode):
    """The pairs of ids that lead to an episode: its cues and months with its tag; the tag itself where it has neither."""
    cues = [*episode.cues, *MONTHS.get(episode.time, ())] or [episode.tag]
    return {(cue_id(cue), cue_id(episode.tag)) for cue in cues}


@cache
def _cosine(one, other):
    rows = np.array(WordLlamaEmbedder()([one, other]), float)
    return float(rows[0] @ rows[1] / np.prod(np.linalg.norm(rows, axis=1)))


def shown(labels):
    """The usual way to write each of many labels, by id."""
    ways = {}
    for label in labels:
        ways.setdefault(cue_id(label), Counter())[label] += 1
    return {id: min(counted, key=lambda way: (-counted[way], way)) for id, counted in ways.items()}


def classes(extracts, merge):
    """The merged tags of each tag: connected components of all pairs that are close."""
    ways, close = shown(one.tag for one in every(extracts)), networkx.Graph()
    close.add_nodes_from(ways)
    if merge is not None:
        close.add_edges_from(
            (one, other) for one in ways for other in ways if one < other and _cosine(ways[one], ways[other]) >= merge
        )
    return {tag: tuple(sorted(group)) for group in networkx.connected_components(close) for tag in group}


def triples(extracts, merge):
    """(cue, the first of the merged tags, episode) of all episodes."""
    merged = classes(extracts, merge)
    return {(cue, merged[tag][0], one.id) for one in every(extracts) for cue, tag in pairs(one)}


def in_time(contents):
    """Contents as they happened: by the first day that is known, else the last, else the day of telling; what has none comes last."""

    def key(one):
        day = (one.time.start or one.time.end) if one.time else one.said and one.said.date()
        return day or date.max, str(one.said or ''), one.session, one.position or 0, one.id

    return sorted(contents, key=key)


def diary(units, day):
    """What stands on the page of a day if each day's beginnings are written, as they were said, over what stood in their slot."""
    page, calendar = {}, [None, *(date(2023, 12, 1) + timedelta(number) for number in range(200))]
    for today in calendar[: calendar.index(day) + 1]:
        for one in sorted(
            (one for one in units if one.since == today),
            key=lambda one: (str(one.said or ''), one.id[:2], int(one.id[4:])),
        ):
            page[(cue_id(one.person), cue_id(one.slot)) if cue_id(one.slot) else one.id] = one.id
    return set(page.values())
