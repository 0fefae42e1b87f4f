"""A session becomes a recollection: whatever a model replies, what can be kept is kept, and each fault has its note."""

from collections import Counter
from datetime import date, datetime

import pytest
from hypothesis import given, settings, strategies as st

from memnb.mragent.contents import Episode, SemanticUnit
from memnb.mragent.labels import cues_in
from memnb.core.conversation import Session, Turn
from memnb.mragent.prompts import EpisodesReply, recollect, Recollection, TagsReply
from memnb.core.models import ScriptedLM
from memnb.core.roles import Call, LM, ServerError, Usage
from memnb.core.time import TimeSpan

SAID = datetime(2024, 10, 20, 16, 44)  # a Sunday
LATE = datetime(2024, 10, 21, 0, 5)
SESSION = Session(
    'S',
    (
        Turn('S:1', 'Tobin', 'I ran with Odalys.'),
        Turn('S:2', 'Zofia', 'I saw you.', caption='a lantern'),
        Turn('S:3', 'Tobin', 'Good night.', LATE),
        Turn('S:4', 'Zofia', 'Wow!'),
    ),
    SAID,
)
IDS = ('S:1', 'S:2', 'S:3', 'S:4')
SPEAKERS = {'S:1': 'Tobin', 'S:2': 'Zofia', 'S:3': 'Tobin', 'S:4': 'Zofia'}
EPISODE = {'title': 'Tobin runs', 'text': 'Tobin ran.', 'turns': ['S:1']}
TAG = {'episode': 'S/e1', 'tag': 'Race', 'cues': ['Tobin']}
UNIT = {'person': 'Tobin', 'aspect': 'sport', 'fact': 'Tobin runs.', 'slot': '', 'since': None, 'turns': ['S:1']}


def script(episodes=(), tags=(), units=()):
    return ScriptedLM(
        {'segment': [{'episodes': list(episodes)}], 'tag': [{'tags': list(tags)}], 'units': [{'units': list(units)}]}
    )


def told(episodes=(EPISODE,), tags=(TAG,), units=(UNIT,), session=SESSION):
    "The recollection of a reply."
    return recollect(session, script(episodes, tags, units))[0]


def first_words(notes):
    return [note.split(':')[0] for note in notes]


# any reply

CITED = (
    ('S:1', ['S:1'], 0),
    ('(S:2)', ['S:2'], 0),
    ('S:4, S:3', ['S:4', 'S:3'], 0),
    ('[S:3];S:1.', ['S:3', 'S:1'], 0),
    ('S:99', [], 1),
    ('S:2; T:1', ['S:2'], 1),
    ('', [], 0),
    ('S', [], 1),
)  # a text, the turns that it means, and how many it means that are none
cited = st.lists(st.sampled_from(CITED), max_size=3)
some = st.sampled_from
episodes = st.lists(
    st.tuples(
        some(['', ' ', 'A  title', 'Tobin runs\nthe Lantern Half']),
        some(['', ' \n', 'Tobin  ran.', 'Nell ran yesterday.']),
        cited,
    ),
    max_size=4,
)
TAGGED = ('S/e1', '(S/e2)', ' S/e3 ', '[S/e4]', 'S/e9', 'e1', '')
tags = st.lists(
    st.tuples(
        some(TAGGED),
        some(['Race', ' Night  Run', '', '\n']),
        st.lists(some(['Tobin', ' half  marathon', '', ' ', 'the']), max_size=3),
    ),
    max_size=6,
)
SINCE = (
    ('', None, 0),
    (None, None, 0),
    ('None', None, 0),
    ('n/a', None, 0),
    ('2018', TimeSpan.year(2018), 0),
    (' yesterday ', TimeSpan.day(date(2024, 10, 19)), 0),
    ('soon', None, 1),
)
units = st.lists(
    st.tuples(
        some(['Tobin', ' Mrs.  Gale', '', ' ']),
        some(['job', '']),
        some(['Tobin  runs.', ' ']),
        some([('', ''), (' vet', 'vet'), ('NONE', ''), ('-', '')]),
        some(SINCE),
        cited,
    ),
    max_size=4,
)


def sources_of(chosen):
    "The turns that are meant, and how many notes there should be."
    known = list(dict.fromkeys(id for _, ids, _ in chosen for id in ids))
    return tuple(known or IDS), sum(wrong for *_, wrong in chosen) + (not known)


def origin(ids):
    said = LATE if ids[0] == 'S:3' else SAID
    speakers = {SPEAKERS[id] for id in ids}
    return ids, said, speakers.pop() if len(speakers) == 1 else None, 'S'


@settings(max_examples=100)
@given(episodes, tags, units)
def test_what_can_be_kept_is_kept_and_each_fault_is_noted(lines, labels, facts):
    made = told(
        [{'title': title, 'text': text, 'turns': [one[0] for one in turns]} for title, text, turns in lines],
        [{'episode': id, 'tag': tag, 'cues': cues} for id, tag, cues in labels],
        [
            {
                'person': person,
                'aspect': aspect,
                'fact': fact,
                'slot': slot[0],
                'since': since[0],
                'turns': [one[0] for one in turns],
            }
            for person, aspect, fact, slot, since, turns in facts
        ],
    )
    noted, wanted = Counter(), []
    for number, (title, text, turns) in enumerate(lines, 1):
        if not text.strip():
            noted[f'episode {number}'] += 1
            continue
        ids, wrong = sources_of(turns)
        noted[f'episode {number}'] += wrong + (not title.strip())
        said = origin(ids)[1]
        day = date(said.year, said.month, said.day - ('yesterday' in text))
        shown = ' '.join(title.split()) or ' '.join(
            text.split()
        )  # each text is one short sentence, which is its own title
        wanted.append((f'S/e{number}', ' '.join(text.split()), shown, TimeSpan.day(day), len(wanted), *origin(ids)))
    assert [
        (one.id, one.text, one.title, one.time, one.position, one.sources, one.said, one.speaker, one.session)
        for one in made.episodes
    ] == wanted

    there, found = [one[0] for one in wanted], {}
    for number, (id, tag, cues) in enumerate(labels if there else (), 1):
        bare = id.strip(' ()[]')
        if bare in there and bare not in found:
            found[bare] = (
                ' '.join(tag.split()),
                tuple(dict.fromkeys(' '.join(cue.split()) for cue in cues if cue.strip())),
            )
        else:
            noted[f'tag {number}'] += 1
    for one in made.episodes:
        tag, cues = found.get(one.id, ('', ()))
        assert (one.tag, one.cues) == (tag or 'untagged', cues or cues_in(one.title))
        noted[one.id] += not (tag and cues)

    kept = []
    for number, (person, aspect, fact, slot, since, turns) in enumerate(facts, 1):
        if not (person.strip() and aspect and fact.strip()):
            noted[f'unit {number}'] += 1
            continue
        ids, wrong = sources_of(turns)
        noted[f'unit {number}'] += wrong + since[2]
        time = TimeSpan.day(date(2024, 10, 20)) if since[0] == ' yesterday ' and ids[0] == 'S:3' else since[1]
        kept.append((f'S/u{number}', 'Tobin runs.', ' '.join(person.split()), 'job', slot[1], time, None, *origin(ids)))
    assert [
        (
            one.id,
            one.text,
            one.person,
            one.aspect,
            one.slot,
            one.time,
            one.position,
            one.sources,
            one.said,
            one.speaker,
            one.session,
        )
        for one in made.units
    ] == kept
    assert Counter(first_words(made.notes)) == +noted
    assert Recollection.from_json(made.to_json()) == made


@pytest.mark.parametrize('id', ['S', '(1)', '[a]', 'D 1', ' x ', 'a, b', 'é', '', 'S/e1'])
def test_ids_may_look_like_anything(id):
    "Neither a session nor a turn is lost because its id has brackets, commas or blanks."
    turns = (f'{id}:1', f'({id})', f'{id}, 3')
    session = Session(id, tuple(Turn(one, 'Tobin', 'I ran.') for one in turns), SAID)
    made = told(
        [EPISODE | {'turns': [one]} for one in turns],
        [TAG | {'episode': f'{id}/e{number}'} for number in (1, 2, 3)],
        [UNIT | {'turns': [turns[1]]}],
        session=session,
    )
    assert made.notes == () and [one.sources for one in made.episodes] == [(one,) for one in turns]
    assert (
        [one.tag for one in made.episodes] == ['Race'] * 3
        and made.units[0].sources == (turns[1],)
        and made.units[0].session == id
    )
    assert recollect(session)[0].notes == () and all(one.tag != 'untagged' for one in recollect(session)[0].episodes)


# who is asked, and what it costs

REPLIES = {'segment': {'episodes': [EPISODE]}, 'tag': {'tags': [TAG]}, 'units': {'units': [UNIT]}}


def test_a_server_that_fails_takes_the_cost_with_it():
    class Failing(LM):
        def call(self, role, /, **inputs):
            if role.name == 'units':
                raise ServerError('gone', Usage(1, 7, 0))
            return Call(
                role.name,
                {'segment': EpisodesReply, 'tag': TagsReply}[role.name].model_validate(REPLIES[role.name]),
                Usage(1, 10, 3),
            )

    with pytest.raises(ServerError) as caught:
        recollect(SESSION, Failing())
    assert caught.value.usage == Usage(3, 27, 6)


# the file

MOMENTS = st.datetimes(datetime(1990, 1, 1), datetime(2030, 1, 1)).map(lambda moment: moment.replace(microsecond=0))
DAYS = st.dates(date(1900, 1, 1), date(2100, 1, 1))
SPANS = (
    st.none()
    | st.builds(TimeSpan.of, some(['day', 'week', 'month', 'season', 'year', 'decade']), DAYS)
    | st.builds(lambda day, left: TimeSpan(None, day) if left else TimeSpan(day, None), DAYS, st.booleans())
)
WORDS = st.text(max_size=8)
COMMON = {
    'sources': st.lists(WORDS, max_size=3),
    'time': SPANS,
    'speaker': st.none() | WORDS,
    'said': st.none() | MOMENTS,
    'session': st.none() | WORDS,
    'position': st.none() | st.integers(0, 99),
}
CONTENTS = (
    st.lists(
        st.builds(Episode, WORDS, WORDS, title=WORDS, tag=WORDS, cues=st.lists(WORDS, max_size=3), **COMMON), max_size=2
    ),
    st.lists(st.builds(SemanticUnit, WORDS, WORDS, person=WORDS, aspect=WORDS, slot=WORDS, **COMMON), max_size=2),
)


@settings(max_examples=60)
@given(st.builds(Recollection, *(kind.map(tuple) for kind in CONTENTS), st.lists(WORDS, max_size=2).map(tuple)))
def test_json_and_back(made):
    text = made.to_json()
    assert Recollection.from_json(text) == made and Recollection.from_json(text).to_json() == text and text.isascii()


@pytest.mark.parametrize(
    'text',
    [
        '',
        '[]',
        '{}',
        '1',
        'null',
        '[' * 100_000,
        '{"episodes": [], "units": []}',
        '{"episodes": 1, "units": [], "notes": []}',
    ],
)
def test_other_json_is_refused(text):
    with pytest.raises(ValueError, match='recollection: expected what to_json writes'):
        Recollection.from_json(text)
