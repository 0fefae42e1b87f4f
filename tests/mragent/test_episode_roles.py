"""Episodes, tags and cues without a model: nothing is lost, nothing is invented, and what a turn is called by depends on little."""

from dataclasses import replace
from datetime import datetime

from hypothesis import example, given, strategies as st

from memnb.mragent.contents import Episode
from memnb.mragent.cues import cue_id
from memnb.mragent.labels import _word_vector, central_words, cues_in, title_of
from memnb.core.conversation import Session, Turn
from memnb.rules.mragent import segment_rule, tag_rule
from memnb.mragent.prompts import recollect, SEGMENT, TAG
from memnb.core.text import FRAME, SMALL_TALK, tokenize
from memnb.core.roles import RuleLM

NAMES = ('Tobin', 'Zofia', 'Nell')
PLAIN = '''harbour organ boats rye swims swimming bought buy drew children child gave bring quickly family the of and it kind what wow thanks
three others oil-lamp sixteen-foot concertina'''.split()
WORDS = st.lists(st.sampled_from(PLAIN), max_size=10)
LOOSE = st.lists(
    st.sampled_from(
        [
            *PLAIN,
            *'''I you we my Nell Tobin Zofia's yesterday. Monday May (2016) in Ghent? It That's Well, great! And
"no" Mrs. Pettigrew Blue Kettle LGBTQ — : 5k'''.split(),
        ]
    ),
    max_size=16,
).map(' '.join)
TURNS = st.builds(
    Turn,
    st.just('x'),
    st.sampled_from(NAMES),
    LOOSE | st.text(max_size=30),
    st.none(),
    st.none() | st.sampled_from(['a photo of a boat', 'a red hat']),
)
MOMENTS = st.none() | st.datetimes(datetime(1990, 1, 1), datetime(2030, 1, 1))
SESSIONS = st.builds(
    lambda turns, time: Session('D1', tuple(replace(turn, id=f'D1:{n}') for n, turn in enumerate(turns, 1)), time),
    st.lists(TURNS, max_size=5),
    MOMENTS,
)


def episodes_of(session):
    "The rule's episodes, as the memory keeps them."
    by = {turn.id: turn for turn in session.turns}
    return [
        Episode(f'D1/e{n}', line.text, tuple(line.turns), speaker=by[line.turns[0]].speaker, title=line.title)
        for n, line in enumerate(segment_rule(session, NAMES).episodes, 1)
    ]


def plain_cues(words, people=()):
    "The oracle of cues for words that are written small: one word after the other, by the tokenizer and three sets."
    out, found = {*FRAME, *SMALL_TALK, *tokenize(' '.join(people))}, {}
    for word in words:
        for part in word.split('-'):
            if part not in ('three', 'sixteen', 'others') and not set(tokenize(part)) <= out:
                found.setdefault(cue_id(part), part)
    return list(found.values())


@given(WORDS)
def test_cues_of_plain_words(words):
    assert list(cues_in(' '.join(words))) == plain_cues(words)


@given(LOOSE | st.text(max_size=40))
def test_cues_are_said_and_come_once(text):
    cues = cues_in(text, NAMES)
    assert len({cue_id(cue) for cue in cues}) == len(cues) and all(cue.strip() for cue in cues)
    assert cues == cues_in(f'{text} (8 January 2024)', NAMES)
    said = set(tokenize(text))
    for cue in cues:
        assert cue in NAMES or not text.isascii() or set(tokenize(cue)) <= said, cue
        assert not {'monday', 'may', 'mrs', 'others'} & {cue.lower()}


@given(WORDS, st.sampled_from(NAMES), st.sampled_from(['{}', "{}'s", '{}!']))
def test_people_are_cues_by_their_full_names(words, name, shape):
    cues = cues_in(' '.join([*words, shape.format(name), *words]), NAMES)
    assert name in cues and [cue for cue in cues if cue not in NAMES] == plain_cues(words, NAMES)


@given(
    st.lists(
        st.sampled_from('harbour organ boats rye swims concertina lifeboat charity notebook'.split()),
        unique=True,
        max_size=7,
    ),
    st.integers(1, 3),
)
def test_central_words_are_the_nearest_to_the_mean(words, most):
    chosen = central_words(words, most)
    assert chosen == [word for word in words if word in chosen] and len(chosen) == min(most, len(words))
    whole = sum(map(_word_vector, words))
    left = [word for word in words if word not in chosen]
    assert (
        not left
        or min(_word_vector(word) @ whole for word in chosen) >= max(_word_vector(word) @ whole for word in left) - 1e-8
    )


@given(SESSIONS, st.integers(2, 9))
def test_titles(session, most):
    for line in segment_rule(session, NAMES).episodes:
        title = title_of(line.text, most)
        words = title.removesuffix(' …').split()
        assert (
            title and 1 <= len(words) <= most and ' '.join(words).casefold() in ' '.join(line.text.split()).casefold()
        )


def content(text, names):
    "The oracle of content: stems that are neither small talk nor a name."
    return {stem for stem in tokenize(text) if stem not in SMALL_TALK and stem not in tokenize(' '.join(names))}


@given(SESSIONS)
def test_no_turn_and_no_word_is_lost(session):
    lines = segment_rule(session, NAMES).episodes
    ids = [turn.id for turn in session.turns]
    assert [line.turns[0] for line in lines] == [
        id for id in ids if [id] in [line.turns for line in lines]
    ]  # in order, each once
    for turn in session.turns:
        mine = ' '.join(line.text for line in lines if line.turns == [turn.id])
        assert bool(mine) >= bool(content(turn.content, NAMES)) and (not turn.caption or turn.caption in mine)
        assert not turn.text.isascii() or not mine or content(turn.text, NAMES) <= set(tokenize(mine))


@given(SESSIONS)
def test_tags_and_cues_of_random_sessions(session):
    found = episodes_of(session)
    lines = tag_rule(found, session, NAMES).tags
    assert [line.episode for line in lines] == [episode.id for episode in found]
    assert lines == [tag_rule([episode], session, NAMES).tags[0] for episode in found]
    for episode, line in zip(found, lines):
        assert 1 <= len(line.tag.split()) <= 2 and not set(tokenize(line.tag)) & set(tokenize(' '.join(NAMES)))
        assert episode.speaker in line.cues and len(set(line.cues)) == len(line.cues)
        assert {cue_id(cue) for cue in line.cues} == {
            cue_id(cue) for cue in {episode.speaker, *cues_in(episode.text, NAMES)}
        }


@given(SESSIONS)
@example(Session('D1', ()))
@example(Session('D1', (Turn('D1:1', 'Tobin', '{braces} {0} {}', caption='{x}'),)))
def test_prompts_of_random_sessions(session):
    system, user = SEGMENT.render({'session': session, 'speakers': NAMES})
    assert 'Speakers: Tobin, Zofia, Nell' in user and '{{' not in system
    assert all(f'({turn.id}) {turn.line}' in user for turn in session.turns)
    assert ('Date: not known' in user) == (session.time is None)
    found = episodes_of(session)
    _, user = TAG.render({'episodes': found, 'session': session, 'speakers': NAMES})
    assert all(f'({episode.id}) ' in user for episode in found)


@given(SESSIONS)
def test_a_session_is_recollected_without_a_note(session):
    made, _ = recollect(session, RuleLM(render=True), NAMES)
    assert not made.notes and [one.sources for one in made.episodes] == [one.sources for one in episodes_of(session)]
    assert all(one.tag and one.cues and one.title for one in made.episodes)
