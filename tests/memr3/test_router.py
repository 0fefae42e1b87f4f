"""The router against Algorithm 1 as it is printed, and against adversaries that propose whatever they like."""

import pytest
from hypothesis import given, strategies as st

from memnb.memr3.prompts import directive
from memnb.memr3 import prompts
from memnb.memr3.router import ACTIONS, Decision, forced, route, RouterLimits

LIMITS = st.builds(RouterLimits, st.integers(1, 8), st.integers(1, 4))
STATES = st.fixed_dictionaries(
    {
        'iteration': st.integers(1, 10),
        'retrieved': st.integers(0, 3),
        'reflect_streak': st.integers(0, 6),
        'limits': LIMITS,
    }
)
PROPOSALS = st.sampled_from(ACTIONS)


def algorithm_1(k, snippets, streak, n_max, n_cap, generated):
    if k >= n_max:
        return 'answer'  # lines 3 and 4
    elif not snippets:
        return 'reflect'  # lines 5 and 6
    elif streak >= n_cap:
        return 'retrieve'  # lines 7 and 8
    else:
        return generated  # lines 9 and 10


def published(proposals, limits, empty):
    """The actions of the published nodes (memr3_base.py, with the RAG backend), for a store that is empty or has no end.

    RAG counts no retrieval attempts, so an empty retrieval forces nothing."""
    proposals, done, due, reflects = iter(proposals), [], None, 0
    for iteration in range(1, limits.max_iterations + 1):
        proposed = next(proposals, 'retrieve')
        action = 'answer' if iteration >= limits.max_iterations else due or proposed  # the generation node
        reflects = reflects + 1 if action == 'reflect' else 0
        done.append(action)
        if action == 'answer':
            break
        due = (
            'retrieve' if action == 'reflect' and reflects >= limits.max_reflect_streak and not empty else None
        )  # the reflect node
    return done


def walk(proposals, brings, limits, released=False):
    """The actions of a run: each retrieve brings the next of `brings`, then nothing; stops well beyond any budget."""
    brings, proposals, done = iter(brings), iter(proposals), []
    retrieved, streak = next(brings, 0), 0
    for iteration in range(1, limits.max_iterations + 20):
        done.append(
            route(
                next(proposals, 'retrieve'),
                iteration=iteration,
                retrieved=retrieved,
                reflect_streak=streak,
                limits=limits,
                released=released,
            ).action
        )
        if done[-1] == 'answer':
            break
        retrieved, streak = (next(brings, 0), 0) if done[-1] == 'retrieve' else (retrieved, streak + 1)
    return done


@given(PROPOSALS, STATES)
def test_route_is_algorithm_1(proposed, state):
    limits = state['limits']
    expected = algorithm_1(
        state['iteration'],
        range(state['retrieved']),
        state['reflect_streak'],
        limits.max_iterations,
        limits.max_reflect_streak,
        proposed,
    )
    assert route(proposed, **state).action == expected


@given(st.lists(PROPOSALS, max_size=10), LIMITS, st.booleans())
def test_released_is_the_published_code(proposals, limits, empty):
    assert walk(proposals, [0 if empty else 5] * 20, limits, released=True) == published(proposals, limits, empty)


@given(STATES, st.booleans())
def test_forced_is_what_no_proposal_can_change(state, released):
    outcomes = [route(proposed, released=released, **state) for proposed in ACTIONS]
    due = forced(released=released, **state)
    if due:
        assert outcomes == [due] * 3 and due.forced and due.reason
    else:
        assert outcomes == [Decision(proposed, 'as proposed') for proposed in ACTIONS]


@given(st.lists(st.tuples(PROPOSALS, STATES), min_size=2), st.randoms(use_true_random=False))
def test_pure_whatever_was_asked_before(cases, chance):
    first = [route(proposed, **state) for proposed, state in cases]
    order = list(range(len(cases)))
    chance.shuffle(order)
    again = {place: route(cases[place][0], **cases[place][1]) for place in order}
    assert [again[place] for place in range(len(cases))] == first


@given(st.lists(PROPOSALS, max_size=10), st.lists(st.integers(0, 5), max_size=10), LIMITS, st.booleans())
def test_every_run_ends_in_an_answer_within_the_budget(proposals, brings, limits, released):
    done = walk(proposals, brings, limits, released)
    assert done[-1] == 'answer' and done.count('answer') == 1 and len(done) <= limits.max_iterations


@given(st.lists(PROPOSALS, max_size=10), st.lists(st.integers(1, 5), min_size=12, max_size=12), LIMITS, st.booleans())
def test_while_snippets_come_no_streak_exceeds_its_cap(proposals, brings, limits, released):
    done = ' '.join(walk(proposals, brings, limits, released))
    assert 'reflect ' * (limits.max_reflect_streak + 1) not in done


@given(STATES)
def test_the_directive_says_what_is_due(state):
    due = forced(**state)
    named = [action for action in ACTIONS if f'"{action}"' in directive(due)]
    assert named == ([due.action] if due else list(ACTIONS))


@given(STATES, st.sets(PROPOSALS, min_size=1))
def test_the_directive_offers_what_is_allowed_and_nothing_else(state, allowed):
    due = forced(**state)
    text = directive(due, allowed)
    named = {action for action in ACTIONS if f'"{action}"' in text}
    assert named == ({due.action} if due else allowed)
    assert due or text == f'"{[*allowed][0]}"' or all(prompts._WHEN[action] in text for action in allowed)
    papers = directive(due, allowed, 'paper')
    assert due or papers.endswith(' otherwise') or 'retrieve' not in allowed or len(allowed) == 1
    assert directive(due, ACTIONS) == directive(due)


@pytest.mark.parametrize('proposed', ['', 'Answer', 'give up', None, 3])
def test_a_proposal_that_is_no_action_is_named(proposed):
    with pytest.raises(ValueError, match='expected one of retrieve, reflect, answer'):
        route(proposed, iteration=5, retrieved=1, reflect_streak=0)


@pytest.mark.parametrize('count, least', [('iteration', 1), ('retrieved', 0), ('reflect_streak', 0)])
def test_counts_that_no_run_can_have_are_refused(count, least):
    state = {'iteration': 1, 'retrieved': 1, 'reflect_streak': 0}
    route('answer', **state | {count: least})
    for ask in (lambda **state: route('answer', **state), forced):
        with pytest.raises(ValueError, match=f'{count}: expected {least} or more, got {least - 1}'):
            ask(**state | {count: least - 1})


@pytest.mark.parametrize('name', ['max_iterations', 'max_reflect_streak'])
@pytest.mark.parametrize('value', [0, -1, 1.5, True, '3', None])
def test_limits_that_make_no_sense_are_refused(name, value):
    with pytest.raises(ValueError, match=f'RouterLimits.{name}: expected a whole number of 1 or more'):
        RouterLimits(**{name: value})
