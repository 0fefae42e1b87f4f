"""MRAgent's loop against Algorithm 1 written down with lists, over any graph and under models that make every kind of mistake; then by rules."""

import json
from dataclasses import replace
from datetime import date, datetime
from functools import lru_cache
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakes import Buckets, of
from memnb.core.roles import NO_INFORMATION
from memnb.mragent.contents import Episode, SemanticUnit
from memnb.mragent.cues import cue_id
from memnb.mragent.graph import CueTagGraph
from memnb.mragent.labels import labels_of
from memnb.mragent import loop
from memnb.mragent.loop import _SEMANTIC, _STRUCTURES, collapsed, cue_view
from memnb.core.models import OpenAILM, ScriptedLM
from memnb.core.roles import Call, LM, ReplyError, RuleLM, ServerError, Usage
from memnb.mragent.prompts import Recollection
from memnb.core.models import RecordedLM
from memnb.core.conversation import Snippet
from memnb.core.retriever import Hit
from memnb.core.time import TimeSpan
from memnb.core.tools import ToolError
from memnb.core.trace import Trace
from servers import Server, chat, fail

QUESTIONS = [
    'When did Ada sell the boat?',
    'What did Ada do when Bo rode the tram?',
    'What did Bo bake when Ada won the second race?',
    'Where does Bo live?',
    'What does Ada like?',
    'zebra',
    '?',
    'Who was in Oslo in May 2024?',
]


def MRAgent(memory, lm=None, **options):
    "The loop as Algorithm 1 has it: nothing is read before the first turn."
    return loop.MRAgent(memory, lm, **{'start': 0, **options})


# ------------------------------------------------------------------ any graph

TEXTS = [
    'Ada sold the boat to a neighbour.',
    'Bo rode the tram to Oslo.',
    'Bo baked rye bread.',
    'Ada won the race.',
    'The storm took the red lamp.',
    'Ada was in Oslo with Bo.',
    'Ada wrote a letter about the race and the boat.',
    'Hm.',
]
CUES = ['Ada', 'Bo', 'boat', 'tram', 'rye bread', 'Oslo', 'race', 'red lamp', 'storm', 'letter']
TAGS = ['sale', 'tram ride', 'baking', 'victory', 'bad weather', 'correspondence']
ASPECTS = ['job', 'hobby', 'home']
DAYS = [
    None,
    TimeSpan.month(2024, 5),
    *(TimeSpan.day(date(2024, month, day)) for month in (4, 5, 6) for day in (3, 17)),
]


def content(session, number, luck):
    "What an episode and a unit have in common."
    turns = luck.sample([f'{session}:{place}' for place in range(1, 6)], luck.choice([1, 2]))
    return {
        'sources': tuple(turns),
        'speaker': luck.choice(['Ada', 'Bo']),
        'said': datetime(2024, 7, int(session[1:]), 9),
        'session': session,
        'position': number,
        'time': luck.choice(DAYS),
    }


@lru_cache(maxsize=None)
def drawn(seed, units=True):
    "Up to three sessions of up to four episodes and two units, with labels out of short lists; the first two graphs are small."
    graph, luck = CueTagGraph(embedder=Buckets(), names=('Ada', 'Bo')), Random(seed)
    for session in [f'D{number}' for number in range(1, 1 + (luck.randint(1, 3) if seed > 1 else seed))]:
        episodes = tuple(
            Episode(
                f'{session}/e{number}',
                luck.choice(TEXTS),
                tag=luck.choice(TAGS),
                cues=tuple(luck.sample(CUES, luck.randint(0, 3))),
                **content(session, number, luck),
            )
            for number in range(1, 1 + luck.randint(1, 4))
        )
        held = tuple(
            SemanticUnit(
                f'{session}/u{number}',
                luck.choice(TEXTS),
                person=luck.choice(['Ada', 'Bo']),
                aspect=luck.choice(ASPECTS),
                **{**content(session, number, luck), 'position': None},
            )
            for number in range(1, 1 + (luck.randint(0, 2) if units else 0))
        )
        graph.keep(session, Recollection(episodes, held))
    return graph


def graphs(units=True, fewest=0):
    "Any of eighty graphs: the first has no session."
    return st.integers(fewest, 79).map(lambda seed: drawn(seed, units))


def contents_of(graph):
    "All episodes and units, by id, from what the sessions gave."
    found = [graph.extract_of(session) for session in graph.sessions]
    return {one.id: one for part in found for one in (*part.episodes, *part.units)}


def behind(graph, cue, tag):
    "The ids of the episodes behind a cue and a tag, by looking at each of them. No two of the tags above are near enough to be merged."
    return {
        one.id
        for one in contents_of(graph).values()
        if isinstance(one, Episode)
        and cue_id(labels_of(one)[1]) == cue_id(tag)
        and cue_id(cue) in map(cue_id, labels_of(one)[0])
    }


# ------------------------------------------------------------------ any model

EVENTS = st.sampled_from(
    [f'D{session}/e{number}' for session in (1, 2, 3) for number in (1, 2, 3)] + ['D9/e9', '(D1/e1)', '']
)


def asks(name, **arguments):
    return st.fixed_dictionaries(arguments).map(lambda given: {'function': name, 'parameters': given})


CALLS = st.one_of(
    *[
        asks(
            'query_tag_events',
            cue=st.sampled_from([*CUES, 'May 2024', 'unicorn']),
            tag=st.sampled_from([*TAGS, 'flight']),
        )
    ]
    * 3,
    asks('query_conversation_time', event=EVENTS),
    asks('query_event_keywords', event=EVENTS),
    asks('query_event_context', event=EVENTS),
    asks('query_personal_information', person=st.sampled_from(['Ada', 'Cy'])),
    asks(
        'query_personal_aspect',
        person=st.sampled_from(['Ada', 'Bo', 'Cy']),
        aspect=st.sampled_from([*ASPECTS, 'dreams']),
    ),
    asks('query_topic_events', topic=st.sampled_from(['boats', ''])),
)
UNFIT = st.sampled_from(
    [  # calls that no schema lets through: of a tool that there is, and of none
        {'function': 'query_tag_events', 'parameters': {}},
        {'function': 'query_tag_events', 'parameters': {'cue': 'boat', 'tag': ['sale']}},
        {'function': 'query_event_context', 'parameters': {'event': 'D1/e1', 'k': 3}},
        {'function': 'grep', 'parameters': {'cue': 'boat'}},
    ]
)
MODES = st.sampled_from(['Navigate'] * 4 + ['Answer'])
MOVES = st.lists(
    st.tuples(MODES, st.lists(CALLS, max_size=4) | st.lists(CALLS | UNFIT, max_size=4)), min_size=1, max_size=4
)
FITTING = st.lists(st.tuples(MODES, st.lists(CALLS, max_size=4)), min_size=1, max_size=4)
KEEPS = st.lists(
    st.tuples(
        st.lists(EVENTS | st.sampled_from(['D1/u1', 'D2/u1', 'x']), max_size=9),
        st.lists(st.sampled_from([*CUES, '3 May 2024', 'May 2024', 'unicorn', '', 'Cy']), max_size=3),
    ),
    min_size=1,
    max_size=3,
)
FINAL = st.fixed_dictionaries(
    {
        'answer': st.sampled_from(['red boat', NO_INFORMATION, '']),
        'sources': st.lists(EVENTS | st.sampled_from(['D1/u1', 'D1:1', 'D2:3', 'D9:9', 'x']), max_size=4),
    }
)


class Says(LM):
    "A model that says the same things round and round, whatever fits. `fails_at`: the number of a call that nobody answers."

    name = 'says'

    def __init__(self, moves, keeps, final, cues=('Ada', 'boat', 'Oslo'), fails_at=None, render=False):
        self.moves = [
            {'reasoning': f'thought {place}', 'mode': mode, 'calls': calls} for place, (mode, calls) in enumerate(moves)
        ]
        self.keeps = [{'reasoning': '', 'keep': keep, 'cues': woken} for keep, woken in keeps]
        self.cues, self.final, self.fails_at, self.render, self.asked = list(cues), final, fails_at, render, []

    def call(self, role, /, **inputs):
        turn = self.asked.count(role.name)
        self.asked.append(role.name)
        if len(self.asked) - 1 == self.fails_at:
            raise ServerError('gone', usage=Usage(1, 2, 0))
        reply = {
            'cues': {'cues': self.cues},
            'recall': self.final,
            'navigate': self.moves[turn % len(self.moves)],
            'route': self.keeps[turn % len(self.keeps)],
        }[role.name]
        try:
            fitted = role.model(inputs).model_validate(reply)
        except ValueError:
            raise ReplyError('it does not fit', json.dumps(reply), role.name, 2, Usage(2, 6, 8)) from None
        return Call(role.name, fitted, Usage(1, 3, 4), *(role.render(inputs) if self.render else ()))


OPTIONS = st.fixed_dictionaries(
    {
        'turns': st.integers(1, 4),
        'breadth': st.integers(1, 4),
        'structure': st.sampled_from(_STRUCTURES),
        'active': st.booleans(),
    }
)
BUDGETS = st.none() | st.integers(0, 7)


def fits(call, tools):
    "Whether a call is one of a tool that is offered, with arguments that fit."
    try:
        return call['function'] in tools and bool(tools[call['function']].arguments.model_validate(call['parameters']))
    except ValueError:
        return False


def bare(id):
    "An id as it is, though a model may have copied the brackets in which it was shown."
    return id.strip(' ()[]')


def naive(graph, moves, keeps, final, turns, breadth, structure, active, budget):
    "Algorithm 1, line by line: read, calls with what they showed, kept of each turn, evidence; or how far it came before an error."
    graph = collapsed(graph) if structure == 'ce' else graph
    turns, breadth = (turns, breadth) if active else (1, turns * breadth)
    tools = {
        tool.name: tool
        for tool in graph.tools(QUESTIONS[0])
        if tool.name not in ('output_answer', 'query_topic_events')
        and (structure == 'ctc' or tool.name not in _SEMANTIC)
    }
    read, made, kept_by_turn, history, routed = [], [], [], {}, 0
    for turn in range(turns):
        mode, calls = moves[turn % len(moves)]
        if not all(fits(call, tools) for call in calls):  # twice, and then it is taken for what it means
            calls = [call for call in calls if fits(call, tools)] or [
                call for call in calls if call['function'] in tools
            ]
        if not calls and mode == 'Navigate' and not history:
            return read, made, kept_by_turn, None  # it follows the best branches
        found, before = [], len(made)
        for call in calls[:breadth] if mode == 'Navigate' else []:
            try:
                shown = tools[call['function']](**call['parameters']).hits
            except ToolError:
                made.append((call['function'], True, []))
                continue
            paid = []
            for hit in shown:
                new = [one for one in hit.snippet.sources if one not in read]
                if budget is not None and len(read) + len(new) > budget:
                    break
                read += new
                paid.append(hit.snippet.id)
                if hit.snippet.id not in history and hit.snippet not in found:
                    found.append(hit.snippet)
            made.append((call['function'], False, paid))
        keep = [one.id for one in found]
        timed = any(name == 'query_conversation_time' and not error for name, error, _ in made[before:])
        if (found or timed) and active:
            keep = [one for one in dict.fromkeys(map(bare, keeps[routed % len(keeps)][0])) if one in keep]
            routed += 1
        history |= {one: contents_of(graph)[one] for one in keep}
        kept_by_turn.append((sorted(keep), sorted(one.id for one in found if one.id not in keep)))
        if mode == 'Answer' or not calls or budget == len(read):
            break
    known = {one: list(line.sources) for one, line in history.items()} | {
        turn: [turn] for line in history.values() for turn in line.sources
    }
    evidence = list(dict.fromkeys(turn for one in map(bare, final['sources']) for turn in known.get(one, [])))
    return read, made, kept_by_turn, (final['answer'], evidence)


@settings(max_examples=60)
@given(graphs(), MOVES, KEEPS, FINAL, OPTIONS, BUDGETS)
def test_the_loop_is_algorithm_1(graph, moves, keeps, final, options, budget):
    trace = MRAgent(graph, Says(moves, keeps, final), **options).ask(QUESTIONS[0], budget=budget)
    made = [(step.tool, step.error, [hit.id for hit in step.hits]) for step in of(trace, 'tool')]
    kept = [(sorted(step.kept), sorted(step.dropped)) for step in of(trace, 'walk')]
    *told, end = naive(graph, moves, keeps, final, **options, budget=budget)
    if end is None:
        assert all(real[: len(one)] == one for real, one in zip((trace.read, made, kept), told))
    else:
        assert ([trace.read, made, kept], (trace.answer, trace.evidence)) == (told, end)
    assert trace.error is None and trace.fallback is None


# ------------------------------------------------------------------ laws, by rules and by any model


def check_laws(graph, trace, *, turns, breadth, active=True, structure='ctc', budget=None):
    walks, used = of(trace, 'walk'), of(trace, 'tool')
    turns, breadth = (turns, breadth) if active else (1, turns * breadth)
    assert len(walks) <= turns and [step.iteration for step in walks] == list(range(1, len(walks) + 1))
    assert all(sum(step.iteration == walk.iteration for step in used) == len(walk.chosen) <= breadth for walk in walks)
    assert trace.read == list(dict.fromkeys(turn for step in used for hit in step.hits for turn in hit.turns))
    assert budget is None or len(trace.read) <= budget
    assert set(trace.evidence) <= set(trace.read)
    offers = of(trace, 'offer')
    assert [step.iteration for step in offers] == [step.iteration for step in walks]
    assert of(trace, 'note')[0].text.startswith(('Awake: ', 'No cue of the question is stored.'))
    before = set()
    for walk in walks:
        new = {hit.id for step in used if step.iteration == walk.iteration for hit in step.hits} - before
        before |= {*walk.kept}
        assert {*walk.kept, *walk.dropped} == new and len(walk.kept) + len(walk.dropped) == len(new)
    assert all(step.tool not in _SEMANTIC for step in used) or structure == 'ctc'
    check_unread(collapsed(graph) if structure == 'ce' else graph, trace)
    again = Trace.from_json(trace.to_json())
    assert again == trace and again.to_json() == trace.to_json()


def check_unread(graph, trace):
    "What stood behind the branches that were offered, and was not shown before: by going through all episodes."
    seen = set()
    for walk in of(trace, 'offer'):
        offered = set()
        for line in walk.shown:
            cue, arrow, rest = line.partition(' → ')  # no arrow: what stands beside an event
            offered |= behind(graph, cue, rest.rpartition(' (')[0]) if arrow else set()
        assert walk.unread == len(offered - seen)
        seen |= {hit.id for step in of(trace, 'tool') if step.iteration == walk.iteration for hit in step.hits}


@settings(max_examples=40)
@given(graphs(), st.sampled_from(QUESTIONS), OPTIONS, BUDGETS, st.booleans())
def test_laws_hold_by_rules(graph, question, options, budget, stop_early):
    agent = MRAgent(graph, stop_early=stop_early, **options)
    trace = agent.ask(question, budget=budget)
    assert trace.error is None and trace.answer
    check_laws(graph, trace, **options, budget=budget)
    assert not any(
        'may not stop' in offer.reasoning for offer in of(trace, 'offer')
    )  # the rule is told, and goes on by itself
    assert agent.ask(question, budget=budget).to_json() == trace.to_json()
    calls = [(step.tool, json.dumps(step.arguments)) for step in of(trace, 'tool')]
    assert len(set(calls)) == len(calls) and not any(step.error for step in of(trace, 'tool'))


@settings(max_examples=50)
@given(graphs(), MOVES, KEEPS, FINAL, OPTIONS, BUDGETS, st.booleans(), st.sampled_from(QUESTIONS))
def test_laws_hold_under_any_model(graph, moves, keeps, final, options, budget, stop_early, question):
    model = Says(moves, keeps, final, cues=['Ada', 'boat', '3 May 2024', '', 'Oslo'])
    trace = MRAgent(graph, model, stop_early=stop_early, **options).ask(question, budget=budget)
    check_laws(graph, trace, **options, budget=budget)
    assert trace.error is None or trace.error.startswith('ReplyError') and trace.answer is None
    assert trace.total.calls == sum(step.attempts for step in of(trace, 'model')) and len(of(trace, 'model')) == len(
        model.asked
    )
    assert '<script' not in trace._repr_html_()


@settings(max_examples=40)
@given(graphs(), st.sampled_from(QUESTIONS), st.sampled_from(_STRUCTURES), st.booleans())
def test_nothing_is_read_before_its_branch_was_offered_and_chosen(graph, question, structure, active):
    "By rules every look at contents follows a line of that turn, and brings what is behind that line and nothing else."
    trace = MRAgent(graph, structure=structure, active=active, stop_early=False).ask(question)
    shape, every = collapsed(graph) if structure == 'ce' else graph, contents_of(graph)
    kept = set()
    for offer, walk in zip(of(trace, 'offer'), of(trace, 'walk'), strict=True):
        for step in of(trace, 'tool'):
            if step.iteration != walk.iteration:
                continue
            got, wanted = {hit.id for hit in step.hits}, list(step.arguments.values())
            if step.tool == 'query_conversation_time':
                assert not got and wanted[0] in kept
                continue
            assert step.tool in ('query_tag_events', 'query_event_context', 'query_personal_aspect')
            context = step.tool == 'query_event_context'
            assert any(
                line.startswith(f'beside {wanted[0]} (' if context else f'{wanted[0]} → {wanted[1]} (')
                for line in offer.shown
            )
            if context:
                assert wanted[0] in kept and all(every[one].session == every[wanted[0]].session for one in got)
            elif step.tool == 'query_tag_events':
                assert got == behind(shape, *wanted)
            else:
                assert got == {
                    one.id
                    for one in every.values()
                    if isinstance(one, SemanticUnit) and [one.person, one.aspect] == wanted
                }
        kept |= set(walk.kept)


@settings(max_examples=40)
@given(graphs(), FITTING, KEEPS, FINAL)
def test_prompts_show_labels_of_what_is_offered_and_the_texts_of_what_was_kept(graph, moves, keeps, final):
    model = Says(moves, keeps, final, render=True)
    trace = MRAgent(graph, model, turns=4).ask(QUESTIONS[0])
    kept, walks = [], iter(zip(of(trace, 'offer'), of(trace, 'walk')))
    for step in of(trace, 'model'):
        if step.role != 'navigate':
            continue
        offer, walk = next(walks)
        ways, known = (
            step.user.split('# Known so far')[0],
            step.user.split('# Known so far')[1].split('# Steps so far')[0],
        )
        assert not any(one.line in ways for one in contents_of(graph).values())
        assert all(line.removeprefix('beside ') in ways for line in offer.shown)
        assert {one for one in contents_of(graph) if f'({one}) ' in known} == set(kept)
        assert step.user.rstrip().endswith(str(4 - walk.iteration + 1))
        kept += walk.kept
    assert {one for one in contents_of(graph) if f'({one})' in of(trace, 'model')[-1].user} == set(kept)


class Watched(LM):
    "The rules, and what they were told."

    name = 'rules'

    def __init__(self):
        self.told = []

    def call(self, role, /, **inputs):
        self.told.append((role.name, inputs))
        return RuleLM().call(role, **inputs)


@settings(max_examples=30)
@given(graphs(fewest=1), st.sampled_from(QUESTIONS), st.integers(1, 4), st.integers(1, 3))
def test_each_role_is_told_the_state(graph, question, turns, breadth):
    lm = Watched()
    trace = MRAgent(graph, lm, turns=turns, breadth=breadth, stop_early=False).ask(question)
    walks, offers, used, kept = of(trace, 'walk'), of(trace, 'offer'), of(trace, 'tool'), []
    moves, pruned = ([inputs for name, inputs in lm.told if name == role] for role in ('navigate', 'route'))
    for place, (move, walk) in enumerate(zip(moves, walks, strict=True)):
        before = [step for step in used if step.iteration < walk.iteration]
        assert [one.id for one in move['known']] == kept
        assert {one.id for one in move['fresh']} == set(walks[place - 1].kept if place else [])
        assert [(one.function, one.parameters) for one in move['history']] == [
            (step.tool, step.arguments) for step in before
        ]
        assert (move['steps_left'], move['breadth'], move['stop_early']) == (turns - place, breadth, False)
        assert [way.line for way in move['ways']] == offers[place].shown
        kept = [one.id for one in (moves[place + 1]['known'] if place + 1 < len(moves) else lm.told[-1][1]['lines'])]
        assert set(kept) == {one for earlier in walks[: place + 1] for one in earlier.kept}
    found = [walk for walk in walks if walk.kept or walk.dropped]
    assert [{one.id for one in inputs['found']} for inputs in pruned] == [{*walk.kept, *walk.dropped} for walk in found]


@settings(max_examples=25)
@given(graphs(), MOVES, KEEPS, FINAL, OPTIONS, BUDGETS, st.integers(0, 9))
def test_a_failure_at_any_call_keeps_what_was_found(graph, moves, keeps, final, options, budget, number):
    model = Says(moves, keeps, final)
    whole = MRAgent(graph, model, **options).ask(QUESTIONS[0], budget=budget)
    number %= len(model.asked)
    part = MRAgent(graph, Says(moves, keeps, final, fails_at=number), **options).ask(QUESTIONS[0], budget=budget)
    *done, last = part.steps
    assert (part.error, last.error, part.answer) == ('ServerError: gone', 'gone', None)
    assert done == whole.steps[: len(done)] and sum(step.kind == 'model' for step in done) == number
    assert part.read == whole.read[: len(part.read)]


# ------------------------------------------------------------------ stopping


@settings(max_examples=30)
@given(graphs(fewest=1), st.sampled_from(QUESTIONS), st.integers(1, 4), st.integers(1, 3), BUDGETS)
def test_who_may_not_stop_early_reads_on(graph, question, turns, breadth, budget):
    soon, late = (
        MRAgent(graph, turns=turns, breadth=breadth, stop_early=early).ask(question, budget=budget)
        for early in (True, False)
    )
    assert soon.read == late.read[: len(soon.read)]
    walks = of(late, 'walk')
    assert len(walks) == turns or len(late.read) == budget or not walks[-1].chosen
    if not walks[-1].chosen:
        made = [list(step.arguments.values()) for step in of(late, 'tool')]
        shown = [
            line.partition(' → ')[0] if ' → ' in line else line.removeprefix('beside ').rpartition(' (')[0]
            for line in of(late, 'offer')[-1].shown
        ]
        assert {*shown} <= {one[0] for one in made}


@settings(max_examples=25)
@given(graphs(fewest=1), st.integers(1, 4), st.integers(1, 3), BUDGETS)
def test_a_model_that_would_stop_is_taken_on(graph, turns, breadth, budget):
    ids = list(contents_of(graph))
    options = {'turns': turns, 'breadth': breadth}
    lazy = Says([('Answer', [])], [(ids, [])], {'answer': 'x', 'sources': []}, cues=CUES)
    trace = MRAgent(graph, lazy, stop_early=False, **options).ask('Who?', budget=budget)
    walks = of(trace, 'walk')
    assert trace.error is None and walks[0].chosen and 'may not stop' in of(trace, 'offer')[0].reasoning
    assert len(walks) == turns or len(trace.read) == budget or not walks[-1].chosen
    assert of(MRAgent(graph, lazy, **options).ask('Who?', budget=budget), 'tool') == []
    if turns == 4 and breadth == 3 and budget is None and len(ids) <= 6:
        episodes = {one for one in ids if '/e' in one}
        assert not walks[-1].chosen or episodes <= {hit.id for step in of(trace, 'tool') for hit in step.hits}


# ------------------------------------------------------------------ structure and reasoning


@settings(max_examples=20)
@given(graphs(units=False), st.sampled_from(QUESTIONS), st.booleans(), BUDGETS)
def test_structures_differ_in_units_and_tags_alone(graph, question, active, budget):
    "Where there are no units `ctc` is `cte`; and `ce` is `cte` on a graph in which all tags are one."

    def asked(memory, structure):
        return MRAgent(memory, structure=structure, active=active).ask(question, budget=budget)

    assert asked(graph, 'ctc').to_json() == asked(graph, 'cte').to_json()
    assert asked(graph, 'ce').to_json() == asked(collapsed(graph), 'cte').to_json()


@settings(max_examples=20)
@given(graphs(fewest=1), st.sampled_from(QUESTIONS), st.randoms())
def test_without_reasoning_what_is_called_does_not_depend_on_what_is_found(graph, question, random):
    "The same labels over other texts, and a way in that no text can change: the passive walk makes the same calls, keeps all, and asks nobody to prune."
    texts = [one.text for one in contents_of(graph).values()]
    random.shuffle(texts)

    def copied(change):
        copy = CueTagGraph(graph.lm, embedder=graph.embedder, roles=graph.roles.values(), **graph.settings())
        for session in graph.sessions:
            extract = graph.extract_of(session)
            copy.keep(session, replace(extract, episodes=tuple(map(change, extract.episodes))))
        return copy

    pair = copied(lambda one: one), copied(lambda one: replace(one, text=texts.pop()))
    for one in pair:
        one.search = lambda query, k, exclude=(): [
            Hit(contents_of(graph)[id]) for id in sorted(contents_of(graph)) if '/e' in id
        ]
    first, again = (MRAgent(one, active=False, turns=2, breadth=2).ask(question) for one in pair)
    assert [(step.tool, step.arguments) for step in of(first, 'tool')] == [
        (step.tool, step.arguments) for step in of(again, 'tool')
    ]
    assert [step.role for step in of(first, 'model')] == ['cues', 'navigate', 'recall']
    assert not of(first, 'walk')[0].dropped and not of(first, 'walk')[0].woken


# ------------------------------------------------------------------ order, growth, and other questions in between


@settings(max_examples=15)
@given(graphs(), st.sampled_from(QUESTIONS), st.sampled_from(_STRUCTURES), st.booleans())
def test_the_order_of_sessions_and_questions_changes_nothing(graph, question, structure, active):
    other = CueTagGraph(embedder=Buckets(), names=('Ada', 'Bo'))
    for session in reversed(graph.sessions):
        other.keep(session, graph.extract_of(session))
    told = MRAgent(graph, structure=structure, active=active).ask(question).to_json()
    agent = MRAgent(other, structure=structure, active=active)
    agent.ask(QUESTIONS[1])
    assert agent.ask(question).to_json() == told


# ------------------------------------------------------------------ a memory that fails


def two_events(cls=CueTagGraph):
    graph = cls(embedder=Buckets())
    graph.keep(
        'D1',
        Recollection(
            tuple(
                Episode(
                    f'D1/e{number}',
                    f'Ada sold the {what}.',
                    (f'D1:{number}',),
                    session='D1',
                    position=number,
                    tag=f'sale of a {what}',
                    cues=('Ada', what),
                )
                for number, what in enumerate(('boat', 'lamp'), 1)
            )
        ),
    )
    return graph


def test_a_store_that_breaks_is_in_the_trace():
    def broken(query):
        raise KeyError('no\x1b shelf')

    for store, words in ((broken, 'KeyError'), (lambda query: {'a': 1}, 'TypeError'), (lambda query: [3], 'TypeError')):
        for structure in _STRUCTURES:
            trace = MRAgent(store, structure=structure).ask('Who keeps bees?')
            assert trace.error.startswith(f'MemoryFailed: {words}') and trace.read == [] and '\x1b' not in trace.error
            assert [step.kind for step in trace.steps] == ['search'] and trace.steps[0].error


# ------------------------------------------------------------------ models that misbehave

LOOK = {
    'reasoning': 'look',
    'mode': 'Navigate',
    'calls': [{'function': 'query_tag_events', 'parameters': {'cue': 'boat', 'tag': 'sale of a boat'}}],
}
DONE = {'reasoning': 'done', 'mode': 'Answer', 'calls': []}
KEEP = {'reasoning': '', 'keep': ['D1/e1'], 'cues': []}
LAST = {'answer': 'Ada', 'sources': ['D1/e1']}
WAKE = {'cues': ['boat']}


def played(*moves, cues=(WAKE,), route=(KEEP,) * 9, recall=(LAST,), **options):
    return MRAgent(
        two_events(),
        ScriptedLM({'cues': list(cues), 'navigate': list(moves), 'route': list(route), 'recall': list(recall)}),
        **options,
    ).ask('Who sold the boat?')


def with_calls(*calls, mode='Navigate'):
    return {'reasoning': 'r', 'mode': mode, 'calls': [{'function': name, 'parameters': given} for name, given in calls]}


@pytest.mark.parametrize(
    'move',
    [
        'I would rather not.',
        '',
        '[]',
        '{"mode": "Navigate"',
        '{"mode": "Fly", "reasoning": "", "calls": []}',
        '{"calls": 3}',
        'null',
        json.dumps(with_calls(('grep', {'pattern': 'boat'}))),
        '{"reasoning": "", "mode": "Navigate"}',
        '{}' * 3,
    ],
)
def test_what_is_no_move_ends_the_search_and_keeps_what_was_found(move):
    trace = played(LOOK, move, move)
    assert (trace.answer, trace.error, trace.read) == ('Ada', None, ['D1:1'])
    assert played(LOOK, move, DONE).answer == 'Ada'
    lost = played(move, move, *[DONE] * 9)  # nothing was found yet: the best branches are followed
    assert 'D1:1' in lost.read and lost.answer == 'Ada'


def test_a_served_and_a_recorded_model(tmp_path):
    with Server(chat(WAKE), chat('Sure!'), chat(LOOK), chat(KEEP), chat(DONE), chat(LAST)) as server:
        trace = MRAgent(two_events(), OpenAILM('m', server.url, 'secret')).ask('Who sold the boat?')
    assert (trace.answer, trace.evidence, trace.usage['navigate'].calls) == ('Ada', ['D1:1'], 3)
    form = server.requests[1]['response_format']['json_schema']['schema']
    assert {
        part['properties']['function']['const'] for part in form['$defs'].values() if 'function' in part['properties']
    } == {tool.name for tool in two_events().tools()} - {'output_answer', 'query_topic_events'}
    with Server(chat(WAKE), fail(500)) as server:
        assert (
            MRAgent(two_events(), OpenAILM('m', server.url, 'secret', max_retries=0))
            .ask('Who?')
            .error.startswith('ServerError')
        )
    script = ScriptedLM({'cues': [WAKE], 'navigate': [LOOK, DONE], 'route': [KEEP], 'recall': [LAST]})
    first = MRAgent(two_events(), RecordedLM(script, tmp_path / 'record')).ask('Who sold the boat?')
    again = MRAgent(two_events(), RecordedLM(ScriptedLM([]), tmp_path / 'record', 'replay')).ask('Who sold the boat?')
    assert (
        (again.answer, again.read, again.evidence)
        == (first.answer, first.read, first.evidence)
        == ('Ada', ['D1:1'], ['D1:1'])
    )


# ------------------------------------------------------------------ over one's own store


class Shelf:
    "A plain store with its own names for things."

    def __init__(self, snippets):
        self.snippets, self.asked = snippets, []

    def search(self, query, top_k):
        self.asked.append(query)
        return self.snippets[:top_k]


@settings(max_examples=15)
@given(graphs(), st.sampled_from(QUESTIONS), st.sampled_from(_STRUCTURES), BUDGETS)
def test_a_plain_store_is_searched_for_the_question_alone_and_walked_on_its_view(graph, question, structure, budget):
    plain = [
        Snippet(one.id, one.text, one.sources, one.time, one.speaker, one.said) for one in contents_of(graph).values()
    ]
    shelf = Shelf(plain)
    trace = MRAgent(shelf, structure=structure).ask(question, budget=budget)
    assert set(shelf.asked) == {question} and trace.error is None
    assert budget is None or len(trace.read) <= budget
    assert set(trace.evidence) <= set(trace.read) <= {turn for one in plain for turn in one.sources}
    assert trace.steps.pop(0).text.startswith('No cue-tag graph: ')
    assert (
        trace.to_json()
        == MRAgent(cue_view(Shelf(plain), question), structure=structure).ask(question, budget=budget).to_json()
    )
