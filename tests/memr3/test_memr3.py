"""The loop over any store and under any replies: what it reads, shows, cites and keeps, judged from its trace."""

import json
from datetime import datetime

import pytest
from hypothesis import given, settings, strategies as st
from stores import stores
from fakes import of, Replies

from memnb.core.roles import AnswerReply
from memnb.baselines import RAG
from memnb.evaluation.datasets import load_sample
from memnb.retrieval.hybrid import HybridIndex
from memnb.core.models import ScriptedLM
from memnb.core.roles import RuleLM, Usage
from memnb.memr3.loop import MemR3
from memnb.memr3.router import forced, RouterLimits
from memnb.core.conversation import Snippet
from memnb.core.trace import Trace
from memnb.memr3.tracker import TrackerReply

QUESTION = 'When did Ada sell the boat?'
ACTIONS = ('retrieve', 'reflect', 'answer')


TEXTS = st.sampled_from(
    ['', ' ', 'the boat', 'Ada sold it on 3 May 2024.', 'g1: the date', 'G1', 'none', 'the date', 'who bought it']
)
TURN_IDS = [f'D1:{number}' for number in range(1, 9)]
IDS = st.lists(st.sampled_from([*TURN_IDS, *(f's{number}' for number in range(6)), 'D9:9', '', 'the boat']), max_size=3)
CLAIMS = st.builds(lambda text, sources: {'text': text, 'sources': sources}, TEXTS, IDS)
MAYBE = st.none() | TEXTS
TRACKED = st.builds(
    TrackerReply,
    evidence=st.lists(CLAIMS, max_size=3),
    gaps=st.lists(TEXTS, max_size=3),
    decision=st.sampled_from(ACTIONS),
    retrieval_query=MAYBE,
    reasoning=MAYBE,
    detailed_answer=MAYBE,
)
FINAL = st.builds(AnswerReply, answer=TEXTS, sources=IDS)
STORES = stores(TEXTS, ('Ada', 'Bo'), TURN_IDS, st.none() | st.just(datetime(2024, 5, 4, 10)))


@st.composite
def scenes(draw):
    """A store, a model, options of the loop, and a budget of turns."""
    options = draw(
        st.fixed_dictionaries(
            {
                'chunks_per_iteration': st.integers(1, 3),
                'limits': st.builds(RouterLimits, st.integers(1, 5), st.integers(1, 2)),
                **dict.fromkeys(['mask', 'refine', 'reflect', 'monotone', 'stop_early', 'released'], st.booleans()),
            }
        )
    )
    replies = draw(st.lists(TRACKED, min_size=1, max_size=5)), draw(FINAL)
    return draw(STORES), replies, options, draw(st.none() | st.integers(0, 6))


def asked(scene, fails_at=None):
    """The trace of a scene, and the model that was asked."""
    store, replies, options, budget = scene
    model = Replies(fails_at, track=replies[0], answer=[replies[1]])
    return MemR3(store, model, **options).ask(QUESTION, budget=budget), model


def shown(trace):
    return [hit for step in of(trace, 'search') for hit in step.hits]


SCENES = settings(max_examples=30)


@SCENES
@given(scenes())
def test_it_ends_within_its_limits_and_its_budget(scene):
    trace, model = asked(scene)
    _, _, options, budget = scene
    rounds, per_round = options['limits'].max_iterations, options['chunks_per_iteration']
    assert trace.error is None and trace.answer is not None
    assert 1 <= len(of(trace, 'route')) == len(of(trace, 'state')) <= rounds
    assert len(shown(trace)) <= rounds * per_round and all(step.k == per_round for step in of(trace, 'search'))
    assert [step.action for step in of(trace, 'route')].count('answer') == 1 and of(trace, 'route')[
        -1
    ].action == 'answer'
    assert budget is None or len(trace.read) <= budget
    assert trace.total.calls == len(model.heard) == len(of(trace, 'route')) + 1


@SCENES
@given(scenes())
def test_nothing_is_shown_twice_under_the_mask_and_read_is_what_was_shown(scene):
    trace, _ = asked(scene)
    turns = [turn for hit in shown(trace) for turn in hit.turns]
    assert trace.read == list(dict.fromkeys(turns))
    if scene[2]['mask']:
        ids = [hit.id for hit in shown(trace)]
        assert len(ids) == len(set(ids))
        masked = [step.masked for step in of(trace, 'search')]
        before = [sum(len(step.hits) for step in of(trace, 'search')[:place]) for place in range(len(masked))]
        assert masked == before
    else:
        assert all(step.masked == 0 for step in of(trace, 'search'))


@SCENES
@given(scenes())
def test_evidence_is_what_was_read_and_is_behind_a_grounded_bullet(scene):
    trace, _ = asked(scene)
    last = of(trace, 'state')[-1]
    behind = {turn for bullet in last.evidence if bullet.grounded for turn in bullet.sources}
    shown = [set(hit.turns) for step in of(trace, 'search') for hit in step.hits]
    # the answer sees these with the bullets, and where there are none whatever was read
    under = set().union(*(turns for turns in shown if turns & behind or not last.evidence))
    assert behind <= set(trace.evidence) <= behind | under <= set(trace.read)
    assert len(trace.evidence) == len(set(trace.evidence))
    assert trace.gaps == last.gaps


@SCENES
@given(scenes())
def test_the_model_sees_the_newest_snippets_only_and_what_will_happen(scene):
    trace, model = asked(scene)
    _, _, options, _ = scene
    tracked = [inputs for name, inputs in model.heard if name == 'track']
    searches, routes = iter(of(trace, 'search')), of(trace, 'route')
    newest, streak = [hit.id for hit in next(searches).hits], 0
    size = len(newest)
    for number, (inputs, route) in enumerate(zip(tracked, routes), 1):
        assert [snippet.id for snippet in inputs['snippets']] == newest
        due = forced(
            iteration=number,
            retrieved=size,
            reflect_streak=streak,
            limits=options['limits'],
            released=options['released'] or streak >= options['limits'].max_reflect_streak,
        )
        if due and (due.action != 'reflect' or options['reflect']):
            assert inputs['due'] == due and (route.action, route.reason) == (due.action, due.reason)
        elif due:
            assert inputs['due'].action == route.action == 'answer'
        elif options['stop_early'] or not size:
            assert inputs['due'] is None and inputs['allowed'] == (
                ACTIONS if options['reflect'] else ('retrieve', 'answer')
            )
            assert route.action == (route.proposed if route.proposed in inputs['allowed'] else 'retrieve')
        else:
            assert inputs['due'].action == route.action == 'retrieve' and inputs['allowed'] == ('retrieve',)
        if route.action == 'retrieve':
            newest, streak = [hit.id for hit in next(searches).hits], 0
            size = len(newest)
        else:
            streak += 1  # the same snippets are shown again
    assert next(searches, None) is None


@SCENES
@given(scenes())
def test_the_switches_do_what_they_say(scene):
    trace, model = asked(scene)
    options = scene[2]
    actions = [step.action for step in of(trace, 'route')]
    queries = [step.query for step in of(trace, 'search')]
    assert queries[0] == QUESTION and all(query.startswith(QUESTION) for query in queries)
    if not options['reflect']:
        assert 'reflect' not in actions
    if not options['refine']:
        assert set(queries) == {QUESTION}
    if not options['stop_early'] and len(actions) < options['limits'].max_iterations:
        assert not of(trace, 'search')[-1].hits  # only where nothing was left
    for step in of(trace, 'route'):
        if step.action != step.proposed:
            assert step.reason != 'as proposed'


@SCENES
@given(scenes())
def test_stand_ins_for_texts_that_are_missing(scene):
    trace, _ = asked(scene)
    tracks = [step.reply for step in of(trace, 'model') if step.role == 'track']
    states, searches, notes = of(trace, 'state'), iter(of(trace, 'search')[1:]), iter(of(trace, 'note'))
    for reply, state, route in zip(tracks, states, of(trace, 'route')):
        if route.action == 'retrieve' and scene[2]['refine']:
            refined = reply['retrieval_query'] or (state.gaps[0] if state.gaps else '')
            assert next(searches).query == f'{QUESTION} {refined}'.strip()
        elif route.action == 'reflect':
            assert next(notes).text == (reply['reasoning'] or '')
    final = of(trace, 'answer')[0]
    assert (final.draft, final.answer) == (tracks[-1]['detailed_answer'] or None, trace.answer)


@SCENES
@given(scenes())
def test_json_and_determinism_byte_for_byte(scene):
    first, _ = asked(scene)
    again, _ = asked(scene)
    assert again.to_json() == first.to_json()
    assert Trace.from_json(first.to_json()) == first


@SCENES
@given(scenes(), st.integers(0, 6))
def test_a_failure_at_any_call_keeps_what_was_found(scene, number):
    whole, model = asked(scene)
    number %= len(model.heard)
    part, _ = asked(scene, fails_at=number)
    *done, last = part.steps
    assert (part.error, last.error, part.answer) == ('ServerError: gone', 'gone', None)
    assert done == whole.steps[: len(done)] and sum(step.kind == 'model' for step in done) == number
    assert part.read == whole.read[: len(part.read)] and part.total == Usage(number + 1, 3 * number + 2, 4 * number)
    states = of(part, 'state')
    if states:
        assert part.gaps == states[-1].gaps
        behind = dict.fromkeys(turn for bullet in states[-1].evidence if bullet.grounded for turn in bullet.sources)
        assert part.evidence == list(behind)


@SCENES
@given(scenes())
def test_a_scripted_model_with_the_same_replies_takes_the_same_steps(scene):
    store, _, options, budget = scene
    rules = MemR3(store, **options).ask(QUESTION, budget=budget)
    script = ScriptedLM([step.reply for step in of(rules, 'model')])
    played = MemR3(store, script, **options).ask(QUESTION, budget=budget)
    bones = [[step for step in trace.steps if step.kind != 'model'] for trace in (rules, played)]
    assert bones[0] == bones[1]
    assert (played.answer, played.evidence, played.read, played.gaps) == (
        rules.answer,
        rules.evidence,
        rules.read,
        rules.gaps,
    )


@SCENES
@given(STORES, st.lists(TRACKED, min_size=1, max_size=5), FINAL, st.integers(1, 3), st.integers(1, 5))
def test_without_its_ideas_it_is_one_shot_on_any_store(store, track, final, per_round, rounds):
    """Whatever the model says."""
    options = dict(refine=False, reflect=False, stop_early=False)
    bare = MemR3(
        store,
        Replies(track=track, answer=[final]),
        chunks_per_iteration=per_round,
        limits=RouterLimits(rounds),
        **options,
    )
    assert bare.ask(QUESTION).read == RAG(store, k=per_round * rounds).ask(QUESTION).read


@pytest.fixture(scope='module')
def sample():
    return load_sample()


@pytest.fixture(scope='module')
def memory(sample):
    return HybridIndex.of(sample)


def test_a_model_may_answer_after_an_empty_retrieval_and_one_reflection():
    for switches, path, told in (
        ({}, ['reflect', 'answer'], ['reflect', None]),
        ({'limits': RouterLimits(5, 3)}, ['reflect'] * 3 + ['answer'], ['reflect'] * 3 + [None]),
        ({'keep_reflecting': True}, ['reflect'] * 4 + ['answer'], ['reflect'] * 4 + ['answer']),
        ({'settings': 'paper'}, ['reflect'] * 4 + ['answer'], ['reflect'] * 4 + ['answer']),
        ({'released': True}, ['answer'], [None]),
    ):
        model = Replies(
            track=[TrackerReply(decision='answer', detailed_answer='unknown')], answer=[AnswerReply(answer='x')]
        )
        trace = MemR3(lambda query: [], model, **switches).ask(QUESTION)
        assert [step.action for step in of(trace, 'route')] == path
        assert [inputs['due'] and inputs['due'].action for name, inputs in model.heard if name == 'track'] == told


@pytest.mark.parametrize('proposed', ACTIONS)
def test_equal_turns_hold_for_a_model_that_would_think_or_stop(proposed):
    """It is told to retrieve, and that is what happens, as long as there is something."""
    model = Replies(track=[TrackerReply(decision=proposed)], answer=[AnswerReply(answer='x')])
    pages = [Snippet(f's{number}', 'x') for number in range(10)]
    trace = MemR3(lambda query: pages, model, chunks_per_iteration=2, stop_early=False).ask(QUESTION)
    assert [step.action for step in of(trace, 'route')] == ['retrieve'] * 4 + ['answer'] and len(trace.read) == 10
    assert [inputs['due'].action for name, inputs in model.heard if name == 'track'] == ['retrieve'] * 4 + ['answer']


def test_no_prompt_offers_a_thought_that_is_switched_off():
    model = ScriptedLM(
        {
            'track': [TrackerReply(decision='reflect', reasoning='hm'), TrackerReply(decision='answer')],
            'answer': [AnswerReply(answer='x')],
        }
    )
    trace = MemR3(lambda query: ['a', 'b'], model, chunks_per_iteration=1, reflect=False).ask(QUESTION)
    assert [(step.action, step.reason) for step in of(trace, 'route')] == [
        ('retrieve', 'to reflect is switched off'),
        ('answer', 'as proposed'),
    ]
    systems = [system for role, system, _ in model.prompts if role == 'track']
    assert len(systems) == 2 and not any('"reflect" only' in system for system in systems)


@pytest.mark.parametrize(
    ('cited', 'read'), [('Ada sold the boat in May.', ['D1:1']), ('Bo went home to his sister.', []), ('D1', ['D1:1'])]
)
def test_evidence_may_cite_a_line_by_its_words_or_by_its_session(cited, read):
    claim = {'text': 'It was May.', 'sources': [cited]}
    model = ScriptedLM([TrackerReply(decision='answer', evidence=[claim]), AnswerReply(answer='May', sources=[])])
    trace = MemR3(lambda query: [Snippet('D1:1', 'Ada sold the boat in May.')], model).ask(QUESTION)
    [state] = [step for step in trace.steps if step.kind == 'state']
    assert (trace.error, state.evidence[0].sources) == (None, read)


def test_the_final_prompt_says_which_line_rests_on_nothing_and_the_rule_reads_the_line_alone():
    pages = [Snippet('a', 'Ada sold it.', ('D1:1',))]
    track = TrackerReply(
        decision='answer',
        evidence=[
            {'text': 'Ada sold the boat.', 'sources': ['a']},
            {'text': 'Ada sold the boat in May.', 'sources': ['D9:9']},
            {'text': 'Bo bought it.', 'sources': ['D1:1']},
        ],
    )
    model = ScriptedLM([track, AnswerReply(answer='x', sources=['e2', 'e1'])])
    trace = MemR3(lambda query: pages, model).ask(QUESTION)
    final = model.prompts[-1][2]
    assert (
        '- (e1) Ada sold the boat.\n  - (a) Ada sold it.\n'
        '- (e2) Ada sold the boat in May. (nothing retrieved says this)\n- (e3) Bo bought it.' in final
    )
    assert trace.evidence == ['D1:1']

    class Half(Replies):
        def call(self, role, /, **inputs):
            return super().call(role, **inputs) if role.name == 'track' else RuleLM().call(role, **inputs)

    said = MemR3(lambda query: pages, Half(track=[track])).ask('What did Ada sell in May?').answer
    assert 'nothing retrieved' not in said


def test_the_answer_reads_the_day_on_which_a_line_of_evidence_was_said():
    pages = [
        Snippet('a', 'Ada sold it yesterday.', ('D1:1',), said=datetime(2024, 5, 4, 10)),
        Snippet('b', 'Bo paid.', ('D2:1',), said=datetime(2024, 6, 1)),
    ]
    claims = [
        ('Ada sold the boat yesterday.', ['a']),
        ('Both agreed.', ['a', 'b']),
        ('[3 May 2024] It was sold.', ['a']),
    ]
    track = TrackerReply(decision='answer', evidence=[{'text': text, 'sources': sources} for text, sources in claims])
    for prompts, day in (('memnb', '[Sat 4 May 2024] '), ('paper', '')):
        model = ScriptedLM([track, AnswerReply(answer='3 May 2024')])
        MemR3(lambda query: pages, model, prompts=prompts).ask(QUESTION)
        final = f'{model.prompts[-1][2]}\n'
        assert f'{day}Ada sold the boat yesterday.\n' in final and ('4 May 2024]' in final) == bool(day)
        assert ' Both agreed.\n' in final and '] Both' not in final and ' [3 May 2024] It was sold.\n' in final


def test_two_bullets_of_the_same_turn_keep_their_own_turns():
    pages = [Snippet(name, 'x', (f'D1:{number}',)) for number, name in enumerate('abcd', 1)]
    track = TrackerReply(
        decision='answer',
        evidence=[
            {'text': 'sold', 'sources': ['b']},
            {'text': 'on Monday', 'sources': ['a', 'c']},
            {'text': 'to Bo', 'sources': ['a', 'd']},
        ],
    )
    for cited, expected in ((['e2'], '1324'), (['e3'], '1423'), (['D1:4'], '4213'), (['e9', 'sold'], '2134')):
        expected = [f'D1:{number}' for number in expected]
        trace = MemR3(lambda query: pages, Replies(track=[track], answer=[AnswerReply(answer='x', sources=cited)])).ask(
            QUESTION
        )
        assert trace.evidence == expected


def test_the_id_of_a_line_is_never_taken_for_a_turn_of_the_store():
    pages = [Snippet('e1', 'Ada sold it.'), Snippet('e2', 'On Monday.')]
    track = TrackerReply(
        decision='answer', evidence=[{'text': 'made up', 'sources': ['D9:9']}, {'text': 'Monday', 'sources': ['e2']}]
    )
    trace = MemR3(lambda query: pages, Replies(track=[track], answer=[AnswerReply(answer='x', sources=['e1'])])).ask(
        QUESTION
    )
    assert trace.read == ['e1', 'e2'] and trace.evidence == ['e2']


def test_the_state_step_says_what_changed_and_monotone_what_stays():
    replies = [
        TrackerReply(
            decision='retrieve', gaps=['the day', 'the buyer'], evidence=[{'text': 'Sold.', 'sources': ['a']}]
        ),
        TrackerReply(decision='answer', gaps=['the price'], evidence=[{'text': 'In May.', 'sources': ['a']}]),
    ]
    for monotone, texts in ((True, ['Sold.', 'In May.']), (False, ['In May.'])):
        trace = MemR3(
            lambda query: [Snippet('a', 'x')],
            Replies(track=replies, answer=[AnswerReply(answer='1')]),
            mask=False,
            monotone=monotone,
        ).ask(QUESTION)
        first, last = of(trace, 'state')
        assert (first.gained, first.opened, first.closed) == (['Sold.'], ['the day', 'the buyer'], [])
        assert (last.gained, last.opened, last.closed) == (['In May.'], ['the price'], ['the day', 'the buyer'])
        assert [bullet.text for bullet in last.evidence] == texts


def test_a_chunk_cited_by_its_id_or_by_a_turn_of_it():
    page = Snippet('page 1', 'Ada: I sold it.\nBo: When?', ('D1:1', 'D1:2'))
    for cited, expected in ((['page 1'], ['D1:1', 'D1:2']), (['D1:2'], ['D1:2']), (['D1:3', 'page 2'], [])):
        reply = TrackerReply(decision='answer', evidence=[{'text': 'It was sold.', 'sources': cited}])
        trace = MemR3(lambda query: [page], Replies(track=[reply], answer=[AnswerReply(answer='x')])).ask(QUESTION)
        assert trace.evidence == expected
        assert of(trace, 'state')[0].evidence[0].grounded == bool(expected)


def test_the_refined_query_reaches_the_store_and_the_next_prompt():
    script = [
        TrackerReply(decision='retrieve', retrieval_query='Ada: the price'),
        TrackerReply(decision='answer'),
        AnswerReply(answer='x'),
    ]
    asked_of_store, model = [], ScriptedLM(script)
    MemR3(lambda query: asked_of_store.append(query) or [f'page {len(asked_of_store)}'], model).ask(QUESTION)
    assert asked_of_store[0] == QUESTION and f'{QUESTION} Ada: the price' in asked_of_store
    assert f'# Queries so far\n- {QUESTION}\n\n' in model.prompts[0][2]
    assert f'# Queries so far\n- {QUESTION}\n- Ada: the price\n' in model.prompts[1][2]


def test_a_last_reply_that_cannot_be_read_leaves_the_draft():
    pages = [Snippet('a', 'Ada sold it.', ('D1:1',))]
    track = TrackerReply(
        decision='answer', detailed_answer='in May', evidence=[{'text': 'Sold in May.', 'sources': ['(D1:1)']}]
    )
    trace = MemR3(lambda query: pages, ScriptedLM([track, '{', '{'])).ask(QUESTION)
    assert (trace.answer, trace.evidence, trace.error) == ('in May', ['D1:1'], None) and trace.fallback.startswith(
        'the draft (ReplyError'
    )


@pytest.mark.parametrize('cited', [['[D1:1]'], ['d1:1'], ['(a), D9:9'], 'a; D1:2', [' "a" ']])
def test_ids_are_read_as_models_write_them(cited):
    pages = [Snippet('a', 'Ada sold it.', ('D1:1',))]
    raw = json.dumps({'evidence': [{'text': 'Sold.', 'sources': cited}], 'gaps': None, 'decision': ' Answer'})
    trace = MemR3(lambda query: pages, ScriptedLM([raw, AnswerReply(answer='x')])).ask(QUESTION)
    assert trace.evidence == ['D1:1'] and of(trace, 'state')[0].evidence[0].grounded


def test_prompts_hold_the_directive_the_state_and_the_reasoning():
    script = [
        TrackerReply(decision='reflect', reasoning='It may be in May.', gaps=['the day']),
        TrackerReply(decision='reflect'),
        TrackerReply(decision='answer', detailed_answer='3 May'),
        AnswerReply(answer='3 May'),
    ]
    model = ScriptedLM(script)
    pages = [Snippet('a', 'Ada sold the boat.', ('D1:1',), speaker='Ada')]
    MemR3(lambda query: pages, model, limits=RouterLimits(3)).ask(QUESTION)
    (_, first, seen), (_, second, thought), (_, third, nothing), (_, _, final) = model.prompts
    assert '"reflect" only to reckon' in first and 'Ada: Ada sold the boat.' in seen
    assert '"retrieve" (1 reflection in a row' in second and 'It may be in May.' in thought and 'g1: the day' in thought
    assert 'Ada sold the boat.' in thought  # the snippets stay through a reflection (equation 3)
    assert '"answer" (iteration 3 of 3: the budget is spent)' in third and 'It may be in May.' not in nothing
    assert '3 May' in final
