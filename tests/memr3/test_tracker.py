"""The tracker: the theorem over arbitrary relations, the state whatever a model replies, the rule whatever it reads."""

import string
from datetime import datetime

from hypothesis import assume, example, given, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from memnb.memr3.router import Decision
from memnb.core.conversation import Snippet
from memnb.core.trace import Bullet
from memnb.memr3.prompts import known_from, TRACK
from memnb.rules.text import claim_of, track_rule
from memnb.memr3.tracker import _normal, Claim, EvidenceGap, Gap, IdealTracker, measure_bias, TrackerReply

# ------------------------------------------------------------------ the ideal tracker


@st.composite
def worlds(draw):
    """Requirements, a boolean matrix of who supports what, and a sequence of retrievals: memories by number."""
    needs, memories = draw(st.integers(0, 6)), draw(st.integers(1, 7))
    matrix = draw(
        st.lists(st.lists(st.booleans(), min_size=needs, max_size=needs), min_size=memories, max_size=memories)
    )
    retrievals = draw(st.lists(st.lists(st.integers(0, memories - 1), max_size=5), max_size=6))
    return frozenset(range(needs)), matrix, retrievals


def relation(matrix):
    """m ⊨ r, read off the matrix."""
    return lambda memory, need: matrix[memory][need]


def trail(needs, matrix, retrievals):
    """All states, from the empty one on."""
    states = [IdealTracker(needs)]
    for retrieved in retrievals:
        states.append(states[-1].update(retrieved, relation(matrix)))
    return states


def found_by(matrix, memories):
    """The oracle, column by column: what some memory of these supports."""
    return {need for need, column in enumerate(zip(*matrix)) if any(column[memory] for memory in memories)}


@given(worlds())
def test_every_state_is_the_set_of_all_that_is_supported_so_far(world):
    needs, matrix, retrievals = world
    for step, state in enumerate(trail(*world)):
        memories = [memory for retrieved in retrievals[:step] for memory in retrieved]
        assert state.evidence == found_by(matrix, memories)  # soundness, and its converse
        assert state.gaps == needs - found_by(matrix, memories)
        assert state.evidence | state.gaps == needs and not state.evidence & state.gaps


@given(worlds())
def test_theorem_b4_monotone(world):
    states = trail(*world)
    for before, after in zip(states, states[1:]):
        assert before.evidence <= after.evidence and after.gaps <= before.gaps


@given(worlds(), st.data())
def test_theorem_b4_complete_at_convergence(world, data):
    needs, matrix, retrievals = world
    for need in needs:  # make it so that each is supported somewhere, and retrieve that
        memory = data.draw(st.integers(0, len(matrix) - 1))
        matrix[memory][need] = True
        retrievals.insert(data.draw(st.integers(0, len(retrievals))), [memory])
    last = trail(needs, matrix, retrievals)[-1]
    assert last.evidence == needs and not last.gaps


@given(worlds(), st.data())
def test_order_and_repetition_of_retrievals_make_no_difference(world, data):
    needs, matrix, retrievals = world
    again = data.draw(st.lists(st.sampled_from(retrievals), max_size=4)) if retrievals else []
    mixed = [data.draw(st.permutations(retrieved)) for retrieved in data.draw(st.permutations(retrievals + again))]
    assert trail(needs, matrix, mixed)[-1] == trail(needs, matrix, retrievals)[-1]


@given(worlds(), st.data())
def test_biases_against_the_oracle(world, data):
    needs, matrix, retrievals = world
    everything = range(len(matrix))
    retrieved = [memory for part in retrievals for memory in part]
    recorded = data.draw(st.lists(st.sampled_from(everything), max_size=5))
    weaker = {need: data.draw(st.sampled_from([None, *sorted(needs)])) for need in sorted(needs)}
    found = measure_bias(needs, iter(recorded), iter(retrieved), relation(matrix), weaker.get)
    truth, told = found_by(matrix, retrieved), found_by(matrix, recorded)
    assert found.coverage == truth - told
    assert found.hallucination == told - truth
    assert found.granularity == {need for need in needs - truth - told if weaker[need] in told}
    assert len(found.coverage | found.hallucination | found.granularity) == sum(map(len, vars(found).values()))


# ------------------------------------------------------------------ the state, whatever the model says

# Few enough words that replies meet one another, in many spellings; and anything at all.
WORDS = [
    'the date',
    'The date!',
    ' THE  DATE ',
    'the place',
    'place: the',
    '"the place"',
    'who came',
    '5',
    '$5',
    'None',
    'none.',
    '',
    ' ',
    '--',
    'कि',
    'का',
    '😀',
    '🎂',
    'G20 summit',
    'g1',
    'g1: the date',
    '(g2) whatever',
    'G3 - more',
    'g17: the place',
    'g17',
    '- g1',
    'ß',
    'SS',
    'İ',
]
ANYTHING = st.text(st.characters(exclude_categories=('Cs',)), max_size=12)
TEXTS = st.sampled_from(WORDS) | ANYTHING
IDS = st.lists(st.sampled_from(['s1', 's2', 'chunk', 'D9:9', '']), max_size=3)
REPLIES = st.builds(
    TrackerReply,
    evidence=st.lists(st.builds(Claim, text=TEXTS, sources=IDS), max_size=4),
    withdrawn=st.lists(st.sampled_from(['e1', 'e2', '(e3)', 'e1, e4', 'the date', 'g1']), max_size=2),
    gaps=st.lists(TEXTS, max_size=4),
    decision=st.sampled_from(['retrieve', 'reflect', 'answer']),
)
SEENS = (
    st.sets(st.sampled_from(['s1', 's2', 'chunk']))
    .map(sorted)
    .map(lambda names: {name: {'s1': ('D1:1',), 's2': (), 'chunk': ('D1:1', 'D1:2', 'D2:1')}[name] for name in names})
)


def told(reply):
    """What a reply says, bullets without words left out."""
    return [claim for claim in reply.evidence if claim.text.strip()]


def lost(before, after):
    """The grounded bullets, withdrawn ones as well, of one state that another has not, or has with fewer turns."""
    return [
        old
        for old in before.evidence + before.withdrawn
        if old.grounded
        and not any(
            _normal(new.text) == _normal(old.text) and new.grounded and set(old.sources) <= set(new.sources)
            for new in after.evidence + after.withdrawn
        )
    ]


class Telling(RuleBasedStateMachine):
    """A run of arbitrary replies to a monotone tracker, with everything that must hold after each."""

    @initialize(seen=SEENS)
    def begin(self, seen):
        self.state, self.seen, self.meaning, self.shut = EvidenceGap(), dict(seen), set(), {}

    @rule(seen=SEENS)
    def show(self, seen):
        self.seen.update(seen)

    @rule(reply=REPLIES)
    def reply(self, reply):
        before, self.state = self.state, self.state.update(reply, self.seen)
        assert not lost(before, self.state)
        assert self.state.update(reply, self.seen) == self.state  # hearing it twice is hearing it once
        cited = {_normal(claim.text) for claim in told(reply) if set(claim.sources) & self.seen.keys()}
        taken = self.state.withdrawn[len(before.withdrawn) :]
        named = {_normal(name) for name in reply.withdrawn}
        ids = " ".join(reply.withdrawn)
        assert all(
            bullet in before.evidence and (bullet.id in ids or _normal(bullet.text) in named) for bullet in taken
        )
        was = {_normal(bullet.text) for bullet in before.evidence if bullet.grounded and bullet not in taken}
        for bullet in self.state.evidence:
            assert bullet.grounded == (_normal(bullet.text) in cited | was)
        assert {_normal(bullet.text) for bullet in self.state.evidence} == was | {
            _normal(claim.text) for claim in told(reply)
        }
        closed = {gap.id for gap in before.gaps} - {gap.id for gap in self.state.gaps}
        self.shut.update({gap.id: _normal(gap.text) for gap in before.gaps if gap.id in closed})

    @rule(data=st.data(), spelling=st.sampled_from([str.upper, '({}).'.format, '  {} !'.format]))
    def ask_again(self, data, spelling):
        assume(self.state.resolved)
        gap = data.draw(st.sampled_from(self.state.resolved))
        asked = data.draw(st.sampled_from([gap.id, gap.line, f'{gap.id}: other words', gap.text, f'g999: {gap.text}']))
        asked = spelling(asked)
        after = self.state.update(TrackerReply(gaps=[asked], decision='retrieve'), self.seen)
        assert gap.id not in {one.id for one in after.gaps}
        assert _normal(gap.text) not in {_normal(one.text) for one in after.gaps}

    @invariant()
    def what_is_shut_stays_shut(self):
        assert not self.shut.keys() & {gap.id for gap in self.state.gaps}
        assert not set(self.shut.values()) & {_normal(gap.text) for gap in self.state.gaps}

    @invariant()
    def ids_are_unique_and_stable(self):
        gaps = self.state.gaps + self.state.resolved
        assert len({gap.id for gap in gaps}) == len({_normal(gap.text) for gap in gaps}) == len(gaps)
        assert self.meaning <= {gap.id for gap in gaps}
        self.meaning = {gap.id for gap in gaps}

    @invariant()
    def turns_of_the_evidence_were_shown(self):
        turns = {turn for name, turns in self.seen.items() for turn in turns or (name,)}
        assert set(self.state.sources) <= turns
        assert all(bool(bullet.sources) == bullet.grounded for bullet in self.state.evidence)


TestTelling = Telling.TestCase
TestTelling.settings = settings(max_examples=50, stateful_step_count=10)


@given(st.lists(REPLIES, max_size=4), REPLIES, SEENS)
def test_replacement_is_the_last_reply(earlier, last, seen):
    state = EvidenceGap()
    for reply in earlier:
        state = state.update(reply, seen, monotone=False)
    after = state.update(last, seen, monotone=False)
    assert [bullet.text for bullet in after.evidence] == [' '.join(claim.text.split()) for claim in told(last)]
    assert [bullet.grounded for bullet in after.evidence] == [
        bool(set(claim.sources) & seen.keys()) for claim in told(last)
    ]
    for claim, bullet in zip(told(last), after.evidence):  # the turns behind what it cites, each once, in its order
        assert bullet.sources == list(
            dict.fromkeys(turn for name in claim.sources if name in seen for turn in seen[name] or [name])
        )
    fresh = EvidenceGap(gaps=state.gaps, resolved=state.resolved).update(last, seen, monotone=False)
    assert (after.evidence, after.gaps) == (fresh.evidence, fresh.gaps)  # earlier evidence has no say
    known = {gap.id: gap for gap in state.gaps + state.resolved}
    for gap in after.gaps:  # every gap is one that the reply names, by an id given out before or by its words
        assert any(
            text.strip('(-. ').lower().startswith(gap.id)
            and gap.id in known
            or _normal(text).endswith(_normal(gap.text))
            for text in last.gaps
        )
    assert after.update(last, seen, monotone=False) == after
    assert len({gap.id for gap in after.gaps + after.resolved}) == len(after.gaps + after.resolved)


def test_a_gap_takes_the_words_that_a_reply_puts_behind_its_id():
    state = EvidenceGap().update(TrackerReply(gaps=['the day', 'the place', 'the buyer'], decision='retrieve'), {})
    again = TrackerReply(gaps=['g1: the day in May', 'g3', '(g2): the day'], decision='retrieve')
    after = state.update(again, {})
    assert after.gaps == (Gap('g1', 'the day in May'), Gap('g3', 'the buyer'), Gap('g2', 'the day'))
    assert after.update(again, {}) == after and not after.resolved
    twice = TrackerReply(gaps=['g1: the hour', 'g1: the minute', 'g2: the buyer'], decision='retrieve')
    assert state.update(twice, {}).gaps == state.gaps[:2]  # which of the two is meant, and g3 says that
    handed_on = TrackerReply(gaps=['g1: the place', 'g2: the hour'], decision='retrieve')
    assert state.update(handed_on, {}).gaps == (Gap('g1', 'the place'), Gap('g2', 'the hour'))
    closed = state.update(TrackerReply(gaps=['g2'], decision='retrieve'), {})
    old_words = TrackerReply(gaps=['g1: the hour', 'The day'], decision='retrieve')
    assert closed.update(old_words, {}).gaps == ()


def test_evidence_is_withdrawn_by_its_id_or_its_words_and_never_lost():
    first = TrackerReply(
        evidence=[{'text': 'It may be the party.', 'sources': ['s1']}, {'text': 'In May.', 'sources': ['chunk']}],
        decision='retrieve',
    )
    seen = {'s1': ('D1:1',), 'chunk': ('D1:2', 'D2:1')}
    before = EvidenceGap().update(first, seen)
    sharper = {'text': 'On 4 May.', 'sources': ['e2']}
    for names in (['e2'], ['(e2)'], ['in May']):
        after = before.update(TrackerReply(evidence=[sharper], withdrawn=names, decision='answer'), seen)
        assert [(bullet.id, bullet.text) for bullet in after.evidence] == [
            ('e1', 'It may be the party.'),
            ('e3', 'On 4 May.'),
        ]
        assert after.evidence[1].sources == ['D1:2', 'D2:1'] and after.withdrawn == before.evidence[1:]
        assert 'withdrawn: In May. [D1:2, D2:1]' in str(after)
    only = before.update(TrackerReply.model_validate({'withdrawn': ['e1'], 'decision': 'answer'}), seen)
    assert (only.evidence, only.withdrawn) == (before.evidence[1:], before.evidence[:1])
    both = TrackerReply(evidence=first.evidence, withdrawn=['e1', 'e9', 's1'], decision='answer')
    assert before.update(both, seen) == before  # what is stated stays


def test_a_closed_gap_may_open_again_where_replies_replace():
    asked = TrackerReply(gaps=['the date'], decision='retrieve')
    nothing = TrackerReply(gaps=[], decision='answer')
    for monotone, gaps in ((True, ()), (False, (Gap('g1', 'the date'),))):
        state = EvidenceGap()
        for reply in (asked, nothing, asked):
            state = state.update(reply, {}, monotone)
        assert state.gaps == gaps
        assert bool(state.resolved) == monotone


NUMBERED = st.builds(
    '{}{}{}'.format,
    st.sampled_from(['g1', 'g2', 'G3', '(g2', '- g1']),
    st.sampled_from([': ', ') ', ' - ', '']),
    st.sampled_from(['the date', 'the place', 'who', '']),
)


@given(
    st.lists(NUMBERED | st.sampled_from(['the date', 'The place', 'who']), max_size=4), st.lists(NUMBERED, max_size=2)
)
@example(['the date', 'g1: the place'], [])
@example(['(g2) who', 'the date'], [])
def test_numbers_that_a_model_gives_mean_the_same_the_second_time(gaps, before):
    state = EvidenceGap().update(TrackerReply(gaps=before, decision='retrieve'), {})
    reply = TrackerReply(gaps=gaps, decision='retrieve')
    once = state.update(reply, {})
    assert once.update(reply, {}) == once


@given(
    st.lists(
        st.tuples(
            st.sampled_from(['', 'g1: ', 'g2) ', 'G3 - ', '(g2) ']),
            st.sampled_from(['the date', 'The place', 'who', '']),
        ),
        max_size=5,
    )
)
@example([('', 'the date'), ('g1: ', 'who')])
@example([('g1: ', 'the date'), ('g1: ', 'who')])
def test_every_gap_that_a_first_reply_names_is_in_the_state(named):
    state = EvidenceGap().update(
        TrackerReply(gaps=[number + words for number, words in named], decision='retrieve'), {}
    )
    assert {gap.text.lower() for gap in state.gaps} == {words.lower() for _, words in named if words}


@given(st.text())
def test_normal_form(text):
    assert _normal(_normal(text)) == _normal(text)
    assert _normal(f'  "{text}"!\n') == _normal(text)
    assert [char for char in _normal(text) if char in string.ascii_letters] == [
        char for char in text.lower() if char in string.ascii_letters
    ]


# ------------------------------------------------------------------ the rule, whatever it reads

TIMES = [
    'yesterday',
    'last Friday',
    'in May 2023',
    '7 May',
    'four years ago',
    'since 2016',
    'next week',
    '31.2.2023',
    '99999 years ago',
    'in 0000',
    'a million weeks later',
    'last year (2022)',
    '[8 May 2023] Ada:',
]
PIECES = [
    'When',
    'did',
    'Ada',
    "Ada's",
    'Ben',
    'How many months passed between',
    'and',
    '?',
    'Which',
    'books',
    'the',
    'after',
    'before',
    'pottery',
    'course',
    'read',
    'Who',
    'was',
    'How long',
    '...',
    '\n',
    '<b>',
    '{x}',
    '',
    *TIMES,
]
PROSE = st.lists(st.sampled_from(PIECES) | ANYTHING, max_size=8).map(' '.join)
MOMENTS = st.none() | st.datetimes() | st.datetimes(datetime(2022, 1, 1), datetime(2025, 1, 1))
SNIPPETS = st.lists(
    st.builds(
        Snippet,
        id=st.sampled_from(['a', 'b', 'c', 'D1:1', '']),
        text=PROSE,
        said=MOMENTS,
        speaker=st.sampled_from([None, 'Ada', 'Ben', '']),
    ),
    max_size=4,
)
DUES = st.none() | st.builds(Decision, st.sampled_from(['retrieve', 'reflect', 'answer']), st.just('so it is'))
STATES = st.builds(
    lambda replies, seen: [state := EvidenceGap()] + [state := state.update(reply, seen) for reply in replies],
    st.lists(REPLIES, max_size=2),
    SEENS,
).map(lambda states: states[-1])


@settings(max_examples=120)
@given(PROSE | st.text(), SNIPPETS, STATES, PROSE, PROSE, DUES)
@example('', [], EvidenceGap(), '', '', None)
@example(
    'How many days between and ?', [Snippet('a', 'last Friday', said=datetime(1, 1, 1))], EvidenceGap(), '', '', None
)
def test_the_rule_answers_any_text(question, snippets, state, reasoning, query, due):
    inputs = {
        'question': question,
        'snippets': snippets,
        'state': state,
        'reasoning': reasoning,
        'queries': [query],
        'due': due,
    }
    reply = track_rule(**inputs)
    assert TrackerReply.model_validate(reply.model_dump()) == reply == track_rule(**inputs)
    given_ids = {snippet.id for snippet in snippets} | set(state.sources)
    assert {name for claim in reply.evidence for name in claim.sources} <= given_ids
    assert [claim.text for claim in reply.evidence[: len(state.evidence)]] == [bullet.text for bullet in state.evidence]
    text = {'retrieve': reply.retrieval_query, 'reflect': reply.reasoning, 'answer': reply.detailed_answer}
    assert text[reply.decision] is not None and sum(part is not None for part in text.values()) == 1
    if due and due.action == 'retrieve':
        assert reply.decision == 'retrieve'
    elif snippets:
        assert reply.decision == ('retrieve' if reply.gaps else 'answer')
    else:  # nothing came back: think once, then answer
        assert reply.decision == ('reflect' if reply.gaps and not reasoning else 'answer')
    system, user = TRACK.render(inputs)
    assert question.replace('\n', '\n  ') in user or question in user
    assert all(f'({snippet.id}) ' in user for snippet in snippets)


@given(SNIPPETS)
def test_a_bullet_of_the_rule_keeps_its_words_and_its_turn(snippets):
    for snippet in snippets:
        claim = claim_of(snippet)
        assert claim.sources == [snippet.id]
        words = claim.text.split()
        places = iter(words)
        assert all(
            any(word in place for place in places) for word in snippet.text.split()
        )  # in order, nothing left out


@given(STATES)
def test_every_bullet_has_an_id_of_its_own(state):
    lines = known_from(state)
    assert [line.id for line in lines] == [f'e{number}' for number in range(1, len(state.evidence) + 1)]
    assert [line.sources for line in lines] == [tuple(bullet.sources) for bullet in state.evidence]


TURNS = ['D1:1', 'D1:2']
MOMENTS_SAID = st.sampled_from([datetime(2024, 5, 4, 10), datetime(2024, 5, 4, 22), datetime(2024, 5, 6, 10)])
BULLETS = st.builds(
    lambda text, turns: Bullet(text=text, sources=turns, grounded=bool(turns)),
    st.sampled_from(['Ada sold it.', '[3 May 2024] Ada sold it.']),
    st.lists(st.sampled_from(TURNS), unique=True),
)


@settings(max_examples=200)
@given(BULLETS, st.dictionaries(st.sampled_from(TURNS), MOMENTS_SAID))
def test_a_bullet_stands_under_the_day_that_all_its_turns_share(bullet, said):
    shown = [Snippet(turn, 'Ada sold it.', (turn,), said=moment) for turn, moment in said.items()]
    [line] = known_from(EvidenceGap(evidence=(bullet,)), shown)
    days = {str(said[turn].date()) if turn in said else 'unknown' for turn in bullet.sources}
    shared = days in ({'2024-05-04'}, {'2024-05-06'}) and not bullet.text.startswith('[')
    assert line.said == (said[bullet.sources[0]] if shared else None)
