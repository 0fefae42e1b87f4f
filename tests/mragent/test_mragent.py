"""MRAgent's loop against Algorithm 1 written down with lists, over any graph and under models that make every kind of mistake; then by rules."""
import json
import zlib
from datetime import date, datetime
from functools import lru_cache
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memnb.core.roles import NO_INFORMATION
from memnb.baselines import RAG
from memnb.mragent.graph import cue_id, Episode, SemanticUnit
from memnb.mragent.tools import CueTagGraph
from memnb.mragent.tools import labels_of
from memnb.mragent.loop import collapsed, cue_view, remade
from memnb.evaluation.datasets import load_sample
from memnb.retrieval.vectors import HybridIndex
from memnb.core.models import OpenAILM, ScriptedLM
from memnb.core.roles import Call, LM, ReplyError, RuleLM, ServerError, Usage
from memnb.mragent.loop import MRAgent, SEMANTIC, STRUCTURES, tokens_of, WalkStep
from memnb.mragent.prompts import Recollection
from memnb.core.models import RecordedLM
from memnb.core.conversation import Snippet
from memnb.core.retriever import Hit
from memnb.core.time import TimeSpan
from memnb.core.loop import ToolError
from memnb.core.trace import Trace
from servers import Server, chat, fail

QUESTIONS = ['When did Ada sell the boat?', 'What did Ada do when Bo rode the tram?', 'What did Bo bake when Ada won the second race?',
             'Where does Bo live?', 'What does Ada like?', 'zebra', '?', 'Who was in Oslo in May 2024?']


class Tiny:
    "Counts words in sixteen buckets; `broken` makes it fail."
    name, broken = 'tiny', False

    def __call__(self, texts):
        if self.broken:
            raise OSError('the embedder is gone')
        rows = np.zeros((len(texts), 16))
        for row, text in zip(rows, texts):
            for word in text.lower().split():
                row[zlib.crc32(word.encode()) % 16] += 1
        return rows


# ------------------------------------------------------------------ any graph

TEXTS = ['Ada sold the boat to a neighbour.', 'Bo rode the tram to Oslo.', 'Bo baked rye bread.', 'Ada won the race.',
         'The storm took the red lamp.', 'Ada was in Oslo with Bo.', 'Ada wrote a letter about the race and the boat.', 'Hm.']
CUES = ['Ada', 'Bo', 'boat', 'tram', 'rye bread', 'Oslo', 'race', 'red lamp', 'storm', 'letter']
TAGS = ['sale', 'tram ride', 'baking', 'victory', 'bad weather', 'correspondence']
ASPECTS = ['job', 'hobby', 'home']
DAYS = [None, TimeSpan.month(2024, 5), *(TimeSpan.day(date(2024, month, day)) for month in (4, 5, 6) for day in (3, 17))]


def content(session, number, luck):
    "What an episode and a unit have in common."
    turns = luck.sample([f'{session}:{place}' for place in range(1, 6)], luck.choice([1, 2]))
    return {'sources': tuple(turns), 'speaker': luck.choice(['Ada', 'Bo']), 'said': datetime(2024, 7, int(session[1:]), 9),
            'session': session, 'position': number, 'time': luck.choice(DAYS)}


@lru_cache(maxsize=None)
def drawn(seed, units=True):
    "Up to three sessions of up to four episodes and two units, with labels out of short lists; the first two graphs are small."
    graph, luck = CueTagGraph(embedder=Tiny(), names=('Ada', 'Bo')), Random(seed)
    for session in [f'D{number}' for number in range(1, 1 + (luck.randint(1, 3) if seed > 1 else seed))]:
        episodes = tuple(Episode(f'{session}/e{number}', luck.choice(TEXTS), tag=luck.choice(TAGS), cues=tuple(luck.sample(CUES, luck.randint(0, 3))),
                                 **content(session, number, luck)) for number in range(1, 1 + luck.randint(1, 4)))
        held = tuple(SemanticUnit(f'{session}/u{number}', luck.choice(TEXTS), person=luck.choice(['Ada', 'Bo']), aspect=luck.choice(ASPECTS),
                                  **content(session, number, luck)) for number in range(1, 1 + (luck.randint(0, 2) if units else 0)))
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
    return {one.id for one in contents_of(graph).values() if isinstance(one, Episode)
            and cue_id(labels_of(one)[1]) == cue_id(tag) and cue_id(cue) in map(cue_id, labels_of(one)[0])}


# ------------------------------------------------------------------ any model

EVENTS = st.sampled_from([f'D{session}/e{number}' for session in (1, 2, 3) for number in (1, 2, 3)] + ['D9/e9', '(D1/e1)', ''])


def asks(name, **arguments):
    return st.fixed_dictionaries(arguments).map(lambda given: {'function': name, 'parameters': given})


CALLS = st.one_of(
    *[asks('query_tag_events', cue=st.sampled_from([*CUES, 'May 2024', 'unicorn']), tag=st.sampled_from([*TAGS, 'flight']))] * 3,
    asks('query_conversation_time', event=EVENTS), asks('query_event_keywords', event=EVENTS), asks('query_event_context', event=EVENTS),
    asks('query_personal_information', person=st.sampled_from(['Ada', 'Cy'])),
    asks('query_personal_aspect', person=st.sampled_from(['Ada', 'Bo', 'Cy']), aspect=st.sampled_from([*ASPECTS, 'dreams'])),
    asks('query_topic_events', topic=st.sampled_from(['boats', ''])))
UNFIT = st.sampled_from([  # calls that no schema lets through: of a tool that there is, and of none
    {'function': 'query_tag_events', 'parameters': {}}, {'function': 'query_tag_events', 'parameters': {'cue': 'boat', 'tag': ['sale']}},
    {'function': 'query_event_context', 'parameters': {'event': 'D1/e1', 'k': 3}}, {'function': 'grep', 'parameters': {'cue': 'boat'}}])
MODES = st.sampled_from(['Navigate'] * 4 + ['Answer'])
MOVES = st.lists(st.tuples(MODES, st.lists(CALLS, max_size=4) | st.lists(CALLS | UNFIT, max_size=4)), min_size=1, max_size=4)
FITTING = st.lists(st.tuples(MODES, st.lists(CALLS, max_size=4)), min_size=1, max_size=4)
KEEPS = st.lists(st.tuples(st.lists(EVENTS | st.sampled_from(['D1/u1', 'D2/u1', 'x']), max_size=9),
                           st.lists(st.sampled_from([*CUES, '3 May 2024', 'May 2024', 'unicorn', '', 'Cy']), max_size=3)), min_size=1, max_size=3)
FINAL = st.fixed_dictionaries({'answer': st.sampled_from(['a red boat', NO_INFORMATION, '']),
                               'sources': st.lists(EVENTS | st.sampled_from(['D1/u1', 'D1:1', 'D2:3', 'D9:9', 'x']), max_size=4)})


class Says(LM):
    "A model that says the same things round and round, whatever fits. `fails_at`: the number of a call that nobody answers."
    name = 'says'

    def __init__(self, moves, keeps, final, cues=('Ada', 'boat', 'Oslo'), fails_at=None, render=False):
        self.moves = [{'reasoning': f'thought {place}', 'mode': mode, 'calls': calls} for place, (mode, calls) in enumerate(moves)]
        self.keeps = [{'reasoning': '', 'keep': keep, 'cues': woken} for keep, woken in keeps]
        self.cues, self.final, self.fails_at, self.render, self.asked = list(cues), final, fails_at, render, []

    def call(self, role, /, **inputs):
        turn = self.asked.count(role.name)
        self.asked.append(role.name)
        if len(self.asked) - 1 == self.fails_at:
            raise ServerError('gone', usage=Usage(1, 2, 0))
        reply = {'cues': {'cues': self.cues}, 'recall': self.final, 'navigate': self.moves[turn % len(self.moves)],
                 'route': self.keeps[turn % len(self.keeps)]}[role.name]
        try:
            fitted = role.model(inputs).model_validate(reply)
        except ValueError:
            raise ReplyError('it does not fit', json.dumps(reply), role.name, 2, Usage(2, 6, 8)) from None
        return Call(role.name, fitted, Usage(1, 3, 4), *(role.render(inputs) if self.render else ()))


OPTIONS = st.fixed_dictionaries({'turns': st.integers(1, 4), 'breadth': st.integers(1, 4), 'structure': st.sampled_from(STRUCTURES), 'active': st.booleans()})
BUDGETS = st.none() | st.integers(0, 7)


def of(trace, kind):
    return [step for step in trace.steps if step.kind == kind]


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
    tools = {tool.name: tool for tool in graph.tools() if tool.name != 'output_answer' and (structure == 'ctc' or tool.name not in SEMANTIC)}
    read, made, kept_by_turn, history, seen, routed = [], [], [], {}, set(), 0
    for turn in range(turns):
        mode, calls = moves[turn % len(moves)]
        if not all(fits(call, tools) for call in calls):  # twice, and then it is taken for what it means
            calls = [call for call in calls if call['function'] in tools]
            if not calls and mode == 'Navigate':
                return read, made, kept_by_turn, None
        found = []
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
                if hit.snippet.id not in seen:
                    seen.add(hit.snippet.id)
                    found.append(hit.snippet)
            made.append((call['function'], False, paid))
        keep = [one.id for one in found]
        if found and active:
            keep = [one for one in dict.fromkeys(map(bare, keeps[routed % len(keeps)][0])) if one in keep]
            routed += 1
        history |= {one: contents_of(graph)[one] for one in keep}
        kept_by_turn.append((sorted(keep), sorted(one.id for one in found if one.id not in keep)))
        if mode == 'Answer' or not calls or budget == len(read):
            break
    known = {one: list(line.sources) for one, line in history.items()} | {turn: [turn] for line in history.values() for turn in line.sources}
    evidence = list(dict.fromkeys(turn for one in map(bare, final['sources']) for turn in known.get(one, [])))
    return read, made, kept_by_turn, (final['answer'], evidence)


@settings(max_examples=60)
@given(graphs(), MOVES, KEEPS, FINAL, OPTIONS, BUDGETS)
def test_the_loop_is_algorithm_1(graph, moves, keeps, final, options, budget):
    trace = MRAgent(graph, Says(moves, keeps, final), **options).ask(QUESTIONS[0], budget=budget)
    made = [(step.tool, step.error, [hit.id for hit in step.hits]) for step in of(trace, 'tool')]
    kept = [(sorted(step.kept), sorted(step.dropped)) for step in of(trace, 'walk')]
    end = None if trace.error else (trace.answer, trace.evidence)
    assert (trace.read, made, kept, end) == naive(graph, moves, keeps, final, **options, budget=budget)
    assert trace.error is None or trace.error.startswith('ReplyError')


# ------------------------------------------------------------------ laws, by rules and by any model

def check_laws(graph, trace, *, turns, breadth, active=True, structure='ctc', budget=None):
    walks, used = of(trace, 'walk'), of(trace, 'tool')
    turns, breadth = (turns, breadth) if active else (1, turns * breadth)
    assert len(walks) <= turns and [step.iteration for step in walks] == list(range(1, len(walks) + 1))
    assert all(sum(step.iteration == walk.iteration for step in used) == len(walk.chosen) <= breadth for walk in walks)
    assert trace.read == list(dict.fromkeys(turn for step in used for hit in step.hits for turn in hit.turns))
    assert budget is None or len(trace.read) <= budget
    assert set(trace.evidence) <= set(trace.read)
    assert all(walk.reasoning.startswith(('Awake: ', 'No cue of the question is stored.')) == (walk is walks[0]) for walk in walks)
    before = set()
    for walk in walks:
        new = {hit.id for step in used if step.iteration == walk.iteration for hit in step.hits} - before
        before |= new
        assert {*walk.kept, *walk.dropped} == new and len(walk.kept) + len(walk.dropped) == len(new)
    assert all(step.tool not in SEMANTIC for step in used) or structure == 'ctc'
    check_unread(collapsed(graph) if structure == 'ce' else graph, trace)
    again = Trace.from_json(trace.to_json())
    assert again == trace and again.to_json() == trace.to_json()


def check_unread(graph, trace):
    "What stood behind the branches that were offered, and was never shown: by going through all episodes."
    seen = set()
    for walk in of(trace, 'walk'):
        seen |= {hit.id for step in of(trace, 'tool') if step.iteration == walk.iteration for hit in step.hits}
        offered = set()
        for line in walk.shown:
            cue, arrow, rest = line.partition(' → ')  # no arrow: what stands beside an event
            offered |= behind(graph, cue, rest.rpartition(' (')[0]) if arrow else set()
        left = [contents_of(graph)[one] for one in offered - seen]
        assert (walk.unread, walk.unread_tokens) == (len(left), sum(tokens_of(one.line) for one in left))


@settings(max_examples=40)
@given(graphs(), st.sampled_from(QUESTIONS), OPTIONS, BUDGETS, st.booleans())
def test_laws_hold_by_rules(graph, question, options, budget, stop_early):
    agent = MRAgent(graph, stop_early=stop_early, **options)
    trace = agent.ask(question, budget=budget)
    assert trace.error is None and trace.answer
    check_laws(graph, trace, **options, budget=budget)
    assert not any('may not stop' in walk.reasoning for walk in of(trace, 'walk'))  # the rule is told, and goes on by itself
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
    assert trace.total.calls == sum(step.attempts for step in of(trace, 'model')) and len(of(trace, 'model')) == len(model.asked)
    assert trace._repr_html_().count('<script') == bool(trace.steps)  # its own, to step through it


@settings(max_examples=40)
@given(graphs(), st.sampled_from(QUESTIONS), st.sampled_from(STRUCTURES), st.booleans())
def test_nothing_is_read_before_its_branch_was_offered_and_chosen(graph, question, structure, active):
    "By rules every look at contents follows a line of that turn, and brings what is behind that line and nothing else."
    trace = MRAgent(graph, structure=structure, active=active, stop_early=False).ask(question)
    shape, every = collapsed(graph) if structure == 'ce' else graph, contents_of(graph)
    kept = set()
    for walk in of(trace, 'walk'):
        for step in of(trace, 'tool'):
            if step.iteration != walk.iteration:
                continue
            got, wanted = {hit.id for hit in step.hits}, list(step.arguments.values())
            if step.tool == 'query_conversation_time':
                assert not got and wanted[0] in kept
                continue
            assert step.tool in ('query_tag_events', 'query_event_context', 'query_personal_aspect')
            context = step.tool == 'query_event_context'
            assert any(line.startswith(f'beside {wanted[0]} (' if context else f'{wanted[0]} → {wanted[1]} (') for line in walk.shown)
            if context:
                assert wanted[0] in kept and all(every[one].session == every[wanted[0]].session for one in got)
            elif step.tool == 'query_tag_events':
                assert got == behind(shape, *wanted)
            else:
                assert got == {one.id for one in every.values() if isinstance(one, SemanticUnit) and [one.person, one.aspect] == wanted}
        kept |= set(walk.kept)


@settings(max_examples=40)
@given(graphs(), FITTING, KEEPS, FINAL)
def test_prompts_show_labels_of_what_is_offered_and_the_texts_of_what_was_kept(graph, moves, keeps, final):
    model = Says(moves, keeps, final, render=True)
    trace = MRAgent(graph, model, turns=4).ask(QUESTIONS[0])
    kept, walks = [], iter(of(trace, 'walk'))
    for step in of(trace, 'model'):
        if step.role != 'navigate':
            continue
        walk = next(walks)
        ways, known = step.user.split('# Known so far')[0], step.user.split('# Known so far')[1].split('# Steps so far')[0]
        assert not any(one.line in ways for one in contents_of(graph).values())
        assert all(line in ways for line in walk.shown)
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
    walks, used, kept = of(trace, 'walk'), of(trace, 'tool'), []
    moves, pruned = ([inputs for name, inputs in lm.told if name == role] for role in ('navigate', 'route'))
    for place, (move, walk) in enumerate(zip(moves, walks, strict=True)):
        before = [step for step in used if step.iteration < walk.iteration]
        assert [one.id for one in move['known']] == kept
        assert {one.id for one in move['fresh']} == set(walks[place - 1].kept if place else [])
        assert [(one.function, one.parameters) for one in move['history']] == [(step.tool, step.arguments) for step in before]
        assert (move['steps_left'], move['breadth'], move['stop_early']) == (turns - place, breadth, False)
        assert [way.line for way in move['ways']] == walk.shown
        kept = [one.id for one in (moves[place + 1]['known'] if place + 1 < len(moves) else lm.told[-1][1]['lines'])]
        assert set(kept) == {one for earlier in walks[:place + 1] for one in earlier.kept}
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
    assert done == whole.steps[:len(done)] and sum(step.kind == 'model' for step in done) == number
    assert part.read == whole.read[:len(part.read)]


# ------------------------------------------------------------------ stopping

@settings(max_examples=30)
@given(graphs(fewest=1), st.sampled_from(QUESTIONS), st.integers(1, 4), st.integers(1, 3), BUDGETS)
def test_who_may_not_stop_early_reads_on(graph, question, turns, breadth, budget):
    soon, late = (MRAgent(graph, turns=turns, breadth=breadth, stop_early=early).ask(question, budget=budget) for early in (True, False))
    assert soon.read == late.read[:len(soon.read)]
    walks = of(late, 'walk')
    assert len(walks) == turns or len(late.read) == budget or not walks[-1].chosen
    if not walks[-1].chosen:
        made = [list(step.arguments.values()) for step in of(late, 'tool')]
        shown = [line.partition(' → ')[0] if ' → ' in line else line.removeprefix('beside ').rpartition(' (')[0] for line in walks[-1].shown]
        assert {*shown} <= {one[0] for one in made}


@settings(max_examples=25)
@given(graphs(fewest=1), st.integers(1, 4), st.integers(1, 3), BUDGETS)
def test_a_model_that_would_stop_is_taken_on(graph, turns, breadth, budget):
    ids = list(contents_of(graph))
    options = {'turns': turns, 'breadth': breadth}
    lazy = Says([('Answer', [])], [(ids, [])], {'answer': 'x', 'sources': []}, cues=CUES)
    trace = MRAgent(graph, lazy, stop_early=False, **options).ask('Who?', budget=budget)
    walks = of(trace, 'walk')
    assert trace.error is None and walks[0].chosen and 'may not stop' in walks[0].reasoning
    assert len(walks) == turns or len(trace.read) == budget or not walks[-1].chosen
    assert of(MRAgent(graph, lazy, **options).ask('Who?', budget=budget), 'tool') == []
    if turns == 4 and breadth == 3 and budget is None and len(ids) <= 6:
        episodes = {one for one in ids if '/e' in one}
        assert not walks[-1].chosen or episodes <= {hit.id for step in of(trace, 'tool') for hit in step.hits}


# ------------------------------------------------------------------ structure and reasoning

def bones(trace):
    return trace.model_copy(update={'steps': [step for step in trace.steps if step.kind != 'model']}).to_json()


@settings(max_examples=20)
@given(graphs(units=False), st.sampled_from(QUESTIONS), st.booleans(), BUDGETS)
def test_structures_differ_in_units_and_tags_alone(graph, question, active, budget):
    "Where there are no units `ctc` is `cte`; and `ce` is `cte` on a graph in which all tags are one."
    def asked(memory, structure):
        return MRAgent(memory, structure=structure, active=active).ask(question, budget=budget)
    assert asked(graph, 'ctc').to_json() == asked(graph, 'cte').to_json()
    assert asked(graph, 'ce').to_json() == asked(collapsed(graph), 'cte').to_json()


@pytest.mark.parametrize('structure', STRUCTURES)
def test_a_structure_offers_its_tools_and_no_others(sample_graph, structure):
    agent = MRAgent(sample_graph, RuleLM(render=True), structure=structure, stop_early=False)
    trace = agent.ask("What is Tobin's job?")
    prompt = next(step.system for step in of(trace, 'model') if step.role == 'navigate')
    assert [name in prompt for name in SEMANTIC] == [structure == 'ctc'] * 3 and 'output_answer' not in prompt
    units = [hit for step in of(trace, 'tool') for hit in step.hits if '/u' in hit.id]
    assert all(set(step.arguments) == {'person', 'aspect'} for step in of(trace, 'tool') if step.tool == 'query_personal_aspect')  # as it was called
    assert bool(units) == (structure == 'ctc')
    tags = {line.split(' → ')[1].rpartition(' (')[0] for walk in of(trace, 'walk') for line in walk.shown
            if '/e' not in line and (structure != 'ctc' or not line.startswith('Tobin'))}
    assert (tags == {'event'}) == (structure == 'ce')


@settings(max_examples=20)
@given(graphs(fewest=1), st.sampled_from(QUESTIONS), st.randoms())
def test_without_reasoning_what_is_called_does_not_depend_on_what_is_found(graph, question, random):
    "The same labels over other texts, and a way in that no text can change: the passive walk makes the same calls, keeps all, and asks nobody to prune."
    texts = [one.text for one in contents_of(graph).values()]
    random.shuffle(texts)

    def other(found):
        return Recollection(tuple(Episode(**{**vars(one), 'text': texts.pop()}) for one in found.episodes), found.units)
    pair = remade(graph, lambda found: found), remade(graph, other)
    for one in pair:
        one.search = lambda query, k, exclude=(): [Hit(contents_of(graph)[id]) for id in sorted(contents_of(graph)) if '/e' in id]
    first, again = (MRAgent(one, active=False, turns=2, breadth=2).ask(question) for one in pair)
    assert [(step.tool, step.arguments) for step in of(first, 'tool')] == [(step.tool, step.arguments) for step in of(again, 'tool')]
    assert [step.role for step in of(first, 'model')] == ['cues', 'navigate', 'recall']
    assert not of(first, 'walk')[0].dropped and not of(first, 'walk')[0].woken


def test_with_reasoning_it_does(sample_graph):
    trace = MRAgent(sample_graph).ask('What did Zofia do when Tobin failed his test?')
    assert '2 August 2024' in of(trace, 'walk')[0].woken and 'D9:15' in trace.evidence and 'Gdynia' in trace.answer
    passive = MRAgent(sample_graph, active=False, stop_early=False).ask('What did Zofia do when Tobin failed his test?', budget=25)
    assert 'D9:15' not in passive.read and 'D9:15' not in passive.evidence


# ------------------------------------------------------------------ order, growth, and other questions in between

@settings(max_examples=15)
@given(graphs(), st.sampled_from(QUESTIONS), st.sampled_from(STRUCTURES), st.booleans())
def test_the_order_of_sessions_and_questions_changes_nothing(graph, question, structure, active):
    other = CueTagGraph(embedder=Tiny(), names=('Ada', 'Bo'))
    for session in reversed(graph.sessions):
        other.keep(session, graph.extract_of(session))
    told = MRAgent(graph, structure=structure, active=active).ask(question).to_json()
    agent = MRAgent(other, structure=structure, active=active)
    agent.ask(QUESTIONS[1])
    assert agent.ask(question).to_json() == told


def test_what_is_added_later_is_found():
    graph = CueTagGraph(embedder=Tiny())
    agent = MRAgent(graph)
    empty = agent.ask('Who keeps bees?')
    assert (empty.answer, empty.read, empty.error) == (NO_INFORMATION, [], None)
    graph.keep('D1', Recollection((Episode('D1/e1', 'Ines keeps bees.', ('D1:1',), session='D1', tag='hobby', cues=('Ines', 'bees')),)))
    assert agent.ask('Who keeps bees?').evidence == ['D1:1']
    graph.forget('D1')
    assert agent.ask('Who keeps bees?').read == []


def test_an_event_that_was_told_twice_is_read_once():
    def told(session):
        return Episode(f'{session}/e1', 'Ada sold the boat to a neighbour.', (f'{session}:1',), TimeSpan.day(date(2024, 5, 3)), 'Ada',
                       datetime(2024, 5, int(session[1:])), session, 1, tag='sale', cues=('Ada', 'boat'))
    graph = CueTagGraph(embedder=Tiny(), names=('Ada', 'Bo'), consolidate=.9)
    for session in ('D4', 'D5'):
        graph.keep(session, Recollection((told(session),)))
    trace = MRAgent(graph, stop_early=False).ask('Who bought the boat?')
    walk = of(trace, 'walk')[0]
    assert (trace.read, len(walk.kept) + len(walk.dropped), walk.unread) == (['D4:1', 'D5:1'], 1, 0)
    assert not any(step.tool == 'query_tag_events' and step.iteration > 1 for step in of(trace, 'tool'))


def test_behind_an_aspect_no_event_is_left_unread():
    "An aspect may be called as a tag is: what stands behind the one was not offered with the other."
    graph = CueTagGraph(embedder=Tiny(), names=('Ada', 'Bo'))
    ride = Episode('D1/e1', 'Bo rode the tram.', ('D1:1',), speaker='Bo', session='D1', position=1, tag='tram ride', cues=('job',))
    work = Episode('D1/e2', 'Ada worked.', ('D1:2',), speaker='Ada', session='D1', position=2, tag='job', cues=('Ada',))
    held = SemanticUnit('D1/u1', 'Ada is a baker.', ('D1:2',), session='D1', person='Ada', aspect='job')
    graph.keep('D1', Recollection((ride, work), (held,)))
    walk = of(MRAgent(graph, turns=1, breadth=1).ask("What is Ada's job?"), 'walk')[0]
    assert (walk.shown, walk.unread, walk.searched) == (['job → tram ride (1)', 'Ada → job (1)'], 0, False)


def test_what_is_kept_wakes_what_was_told_beside_it():
    "Nothing of the question leads to the second event, and what leads there is the first."
    graph = CueTagGraph(embedder=Tiny(), names=('Ada', 'Bo'))
    graph.keep('D1', Recollection(tuple(Episode(f'D1/e{number}', text, (f'D1:{number}',), speaker='Ada', session='D1', position=number, tag=tag, cues=(cue,))
                                        for number, (text, tag, cue) in enumerate((('Ada sold the boat.', 'sale', 'boat'), ('It was cold.', 'weather', 'cold')), 1))))
    trace = MRAgent(graph, turns=2, breadth=1, stop_early=False).ask('Who sold the boat?')
    assert [(step.tool, step.arguments) for step in of(trace, 'tool')][1] == ('query_event_context', {'event': 'D1/e1'})
    assert trace.read == ['D1:1', 'D1:2'] and of(trace, 'walk')[1].shown[0] == 'beside D1/e1 (1)'


def test_the_keywords_of_an_event_wake_its_other_cues():
    graph = CueTagGraph(embedder=Tiny(), names=('Ada', 'Bo'))
    graph.keep('D1', Recollection((Episode('D1/e1', 'Ada sold the boat.', ('D1:1',), session='D1', position=1, tag='sale', cues=('boat', 'Oslo')),
                                   Episode('D1/e2', 'It was cold.', ('D1:2',), session='D1', position=2, tag='weather', cues=('Oslo',)))))
    moves = [('Navigate', [{'function': 'query_event_keywords', 'parameters': {'event': 'D1/e1'}}]), ('Answer', [])]
    model = Says(moves, [([], [])], {'answer': '', 'sources': []}, cues=['boat'])
    walks = of(MRAgent(graph, model, breadth=1).ask('Who?'), 'walk')
    assert ['Oslo → weather (1)' in walk.shown for walk in walks] == [False, True]


def test_as_many_ways_are_shown_as_may_be_called(sample_graph):
    for options, calls in (({'active': False, 'turns': 2, 'breadth': 3}, 6), ({'turns': 1, 'breadth': 4}, 4)):
        walks = of(MRAgent(sample_graph, shown=1, stop_early=False, **options).ask('What did Zofia do at the harbour?'), 'walk')
        assert [len(walk.chosen) for walk in walks] == [calls]


def test_where_no_cue_is_stored_it_enters_by_a_search_and_says_so(sample_graph):
    odd = MRAgent(sample_graph, Says([('Answer', [])], [([], [])], {'answer': '', 'sources': []}, cues=['xylograph'])).ask('Quux?')
    walk = of(odd, 'walk')[0]
    assert walk.searched and walk.shown and walk.reasoning.startswith('No cue of the question is stored.') and odd.read == []
    looks = [with_calls(('query_event_keywords', {'event': 'D1/e1'})), with_calls(('query_event_context', {'event': 'D1/e1'})), DONE]
    restless = Says([(look['mode'], look['calls']) for look in looks], [([], [])], {'answer': '', 'sources': []}, cues=['xylograph'])
    assert [step.searched for step in of(MRAgent(sample_graph, restless).ask('Quux?'), 'walk')] == [True, False, False]
    trace = MRAgent(sample_graph, stop_early=False, turns=12).ask('Where did Zofia travel during 2024?')
    assert sum(step.searched for step in of(trace, 'walk')) <= 1
    known = of(MRAgent(sample_graph).ask('What did Zofia do when Tobin failed his test?'), 'walk')[0]
    assert not known.searched and known.reasoning.startswith('Awake: ')


# ------------------------------------------------------------------ a memory that fails

class Failing(CueTagGraph):
    "A graph whose tool fails when it is used for the second time."
    used = 0

    def query_tag_events(self, cue: str, tag: str):
        "Read the events behind a cue and a tag."
        self.used += 1
        if self.used == 2:
            raise OSError('disk\n gone')
        return super().query_tag_events(cue, tag)


def two_events(cls=CueTagGraph):
    graph = cls(embedder=Tiny())
    graph.keep('D1', Recollection(tuple(Episode(f'D1/e{number}', f'Ada sold the {what}.', (f'D1:{number}',), session='D1', position=number,
                                                tag=f'sale of a {what}', cues=('Ada', what)) for number, what in enumerate(('boat', 'lamp'), 1))))
    return graph


def test_a_tool_that_breaks_ends_this_question_only():
    agent = MRAgent(two_events(Failing), stop_early=False)
    trace = agent.ask('Who sold the boat and the lamp?')
    assert trace.error == 'MemoryFailed: OSError: disk gone' and trace.answer is None and len(trace.read) == 1
    assert of(trace, 'tool')[-1].error and Trace.from_json(trace.to_json()) == trace
    assert len(agent.ask('Who sold the boat and the lamp?').read) == 2


def test_a_search_for_the_way_in_that_breaks_is_in_the_trace():
    graph = two_events()
    graph.embedder.broken = True
    trace = MRAgent(graph).ask('Quux?')
    assert trace.error.startswith('MemoryFailed: OSError: the embedder is gone')
    assert [(step.iteration, step.error) for step in of(trace, 'search')] == [(1, 'OSError: the embedder is gone')]


def test_a_store_that_breaks_is_in_the_trace():
    def broken(query):
        raise KeyError('no\x1b shelf')
    for store, words in ((broken, 'KeyError'), (lambda query: {'a': 1}, 'TypeError'), (lambda query: [3], 'TypeError')):
        for structure in STRUCTURES:
            trace = MRAgent(store, structure=structure).ask('Who keeps bees?')
            assert trace.error.startswith(f'MemoryFailed: {words}') and trace.read == [] and '\x1b' not in trace.error
            assert [step.kind for step in trace.steps] == ['search'] and trace.steps[0].error


@pytest.mark.parametrize('memory', [None, 3, 'a text', CueTagGraph])
def test_what_is_no_memory_is_refused_at_once(memory):
    with pytest.raises(TypeError, match='search'):
        MRAgent(memory)


# ------------------------------------------------------------------ models that misbehave

LOOK = {'reasoning': 'look', 'mode': 'Navigate', 'calls': [{'function': 'query_tag_events', 'parameters': {'cue': 'boat', 'tag': 'sale of a boat'}}]}
DONE = {'reasoning': 'done', 'mode': 'Answer', 'calls': []}
KEEP = {'reasoning': '', 'keep': ['D1/e1'], 'cues': []}
LAST = {'answer': 'Ada', 'sources': ['D1/e1']}
WAKE = {'cues': ['boat']}


def played(*moves, cues=(WAKE,), route=(KEEP,) * 9, recall=(LAST,), **options):
    return MRAgent(two_events(), ScriptedLM({'cues': list(cues), 'navigate': list(moves), 'route': list(route), 'recall': list(recall)}), **options).ask('Who sold the boat?')


def with_calls(*calls, mode='Navigate'):
    return {'reasoning': 'r', 'mode': mode, 'calls': [{'function': name, 'parameters': given} for name, given in calls]}


def test_a_model_that_behaves():
    trace = played(LOOK, DONE)
    assert (trace.answer, trace.evidence, trace.read, trace.error) == ('Ada', ['D1:1'], ['D1:1'], None)
    assert [step.role for step in of(trace, 'model')] == ['cues', 'navigate', 'route', 'navigate', 'recall']
    both = with_calls(('query_tag_events', {'cue': 'boat', 'tag': 'sale of a boat'}), ('query_tag_events', {'cue': 'lamp', 'tag': 'sale of a lamp'}))
    assert played(both, DONE).read == ['D1:1', 'D1:2'] and played(both, DONE, breadth=1).read == ['D1:1']


@pytest.mark.parametrize('move', ['I would rather not.', '', '[]', '{"mode": "Navigate"', '{"mode": "Fly", "reasoning": "", "calls": []}', '{"calls": 3}', 'null',
                                  json.dumps(with_calls(('grep', {'pattern': 'boat'}))), '{"reasoning": "", "mode": "Navigate"}', '{}' * 3])
def test_what_is_no_move_twice_ends_in_an_error_that_says_so(move):
    trace = played(LOOK, move, move)
    assert trace.error.startswith('ReplyError: scripted, as navigate: no usable reply in two attempts') and trace.answer is None
    assert trace.read == ['D1:1'] and of(trace, 'model')[-1].raw == move and of(trace, 'model')[-1].attempts == 2
    assert played(LOOK, move, DONE).answer == 'Ada'  # said once, it is mended


@pytest.mark.parametrize('call, told', [
    (('query_tag_events', {'cue': 'unicorn', 'tag': 'sale of a boat'}), "there is no cue 'unicorn'"),
    (('query_tag_events', {'cue': 'boat', 'tag': 'flight'}), "has no tag 'flight'"),
    (('query_event_context', {'event': 'D7/e7'}), "there is no event 'D7/e7'"),
    (('query_personal_aspect', {'person': 'Cy', 'aspect': 'job'}), "nothing is known of 'Cy'"),
    (('query_topic_events', {'topic': 'unicorns'}), "there is no topic 'unicorns'")])
def test_what_is_not_there_is_told_to_the_model_and_the_walk_goes_on(call, told):
    trace = played(with_calls(call), LOOK, DONE)
    assert trace.error is None and trace.evidence == ['D1:1']
    refused = of(trace, 'tool')[0]
    assert refused.error and told in refused.note and not refused.hits
    assert told in [step.user for step in of(trace, 'model') if step.role == 'navigate'][1]


@pytest.mark.parametrize('parameters', [{}, {'cue': 'boat'}, {'cue': ['boat'], 'tag': 'x'}, {'cue': 'boat', 'tag': 'sale of a boat', 'k': 2}, {'tag': {'a': {'b': 1}}}])
def test_arguments_that_do_not_fit_twice_are_told_by_the_tool(parameters):
    wrong = with_calls(('query_tag_events', parameters))
    trace = played(wrong, wrong, LOOK, DONE)
    assert trace.error is None and trace.evidence == ['D1:1'] and of(trace, 'tool')[0].error and of(trace, 'tool')[0].arguments == parameters


def test_of_two_tools_the_one_that_there_is_is_used():
    mixed = with_calls(('grep', {}), ('query_tag_events', {'cue': 'boat', 'tag': 'sale of a boat'}))
    assert played(mixed, mixed, DONE).evidence == ['D1:1']
    ends = with_calls(('output_answer', {'answer': 'Ada'}), mode='Answer')
    assert (played(LOOK, ends, ends).answer, played(LOOK, ends, ends).error) == ('Ada', None)


def test_empty_moves_and_empty_replies_end_in_an_answer():
    for move in (with_calls(), DONE, with_calls(('query_tag_events', {'cue': 'boat', 'tag': 'x'}), mode='Answer')):
        trace = played(move, recall=[{'answer': NO_INFORMATION, 'sources': []}], cues=[{'cues': []}])
        assert (trace.answer, trace.read, trace.error, len(of(trace, 'walk'))) == (NO_INFORMATION, [], None, 1)
        assert not of(trace, 'tool')


def test_invented_ids_and_cues_are_nobody():
    trace = played(LOOK, DONE, cues=[{'cues': ['', 'unicorn', '31 February 2024', 'x' * 5000]}],
                   route=[{'reasoning': '', 'keep': ['D7/e7', 'D1/e2', 'D1/e1', 'D1/e1'], 'cues': ['unicorn', '', 'June 1950', '\x1b[31m']}],
                   recall=[{'answer': 'Ada', 'sources': ['D1/e2', 'D7:7', 'D1/e1']}])
    walk = of(trace, 'walk')[0]
    assert (walk.kept, walk.dropped, walk.woken, trace.evidence, trace.error) == (['D1/e1'], [], [], ['D1:1'], None)
    assert Trace.from_json(trace.to_json()) == trace


@pytest.mark.parametrize('role', ['cues', 'navigate', 'route', 'recall'])
def test_a_role_without_a_usable_reply_ends_the_question(role):
    for bad in (['no', 'no'], [ServerError('down')], []):
        replies = {'cues': [WAKE], 'navigate': [LOOK, DONE], 'route': [KEEP], 'recall': [LAST], role: bad}
        trace = MRAgent(two_events(), ScriptedLM(replies)).ask('Who sold the boat?')
        assert trace.answer is None and trace.error and of(trace, 'model')[-1].role == role and of(trace, 'model')[-1].error
        assert trace.read == (['D1:1'] if role in ('route', 'recall') else [])
        assert trace.steps == Trace.from_json(trace.to_json()).steps


def test_a_model_that_never_ends_is_ended():
    trace = played(*[LOOK] * 20, turns=3)
    assert len(of(trace, 'walk')) == 3 and len(trace.read) == 1 and trace.answer == 'Ada'
    assert [len(walk.kept) for walk in of(trace, 'walk')] == [1, 0, 0]  # the same look brings nothing new


def test_a_reply_error_without_words_is_an_error_still():
    class Mute(RuleLM):
        def call(self, role, /, **inputs):
            if role.name == 'navigate':
                raise ReplyError('nothing came')
            return super().call(role, **inputs)
    assert MRAgent(two_events(), Mute()).ask('Who sold the boat?').error == 'ReplyError: nothing came'


def test_a_served_and_a_recorded_model(tmp_path):
    with Server(chat(WAKE), chat('Sure!'), chat(LOOK), chat(KEEP), chat(DONE), chat(LAST)) as server:
        trace = MRAgent(two_events(), OpenAILM('m', server.url, 'secret')).ask('Who sold the boat?')
    assert (trace.answer, trace.evidence, trace.usage['navigate'].calls) == ('Ada', ['D1:1'], 3)
    form = server.requests[1]['response_format']['json_schema']['schema']
    assert {part['properties']['function']['const'] for part in form['$defs'].values() if 'function' in part['properties']} == {
        tool.name for tool in two_events().tools()} - {'output_answer'}
    with Server(chat(WAKE), fail(500)) as server:
        assert MRAgent(two_events(), OpenAILM('m', server.url, 'secret', max_retries=0)).ask('Who?').error.startswith('ServerError')
    script = ScriptedLM({'cues': [WAKE], 'navigate': [LOOK, DONE], 'route': [KEEP], 'recall': [LAST]})
    first = MRAgent(two_events(), RecordedLM(script, tmp_path / 'record')).ask('Who sold the boat?')
    again = MRAgent(two_events(), RecordedLM(ScriptedLM([]), tmp_path / 'record', 'replay')).ask('Who sold the boat?')
    assert (again.answer, again.read, again.evidence) == (first.answer, first.read, first.evidence) == ('Ada', ['D1:1'], ['D1:1'])


# ------------------------------------------------------------------ over one's own store

def test_three_lines_over_ones_own_store():
    notes = ['Ines keeps bees.', 'Rolf bakes bread.', 'The hive stands in the orchard.']
    trace = MRAgent(lambda query: notes).ask('What does Ines keep?')
    assert (trace.answer, trace.error, len(trace.evidence)) == ('Ines keeps bees.', None, 1)


def test_any_function_is_a_model():
    prompts = []

    def model(prompt):
        prompts.append(prompt)
        reply = WAKE if 'a list of at most twelve' in prompt else KEEP if '# Found now' in prompt else LAST if 'Steps left' not in prompt else (
            LOOK if len(prompts) < 3 else DONE)
        return f'Here you are:\n```json\n{json.dumps(reply)}\n```'
    trace = MRAgent(two_events(), model).ask('Who sold the boat?')
    assert (trace.answer, trace.evidence, trace.model, trace.total.calls, len(prompts)) == ('Ada', ['D1:1'], 'model', 5, 5)


class Shelf:
    "A plain store with its own names for things."
    def __init__(self, snippets):
        self.snippets, self.asked = snippets, []

    def search(self, query, top_k):
        self.asked.append(query)
        return self.snippets[:top_k]


@settings(max_examples=15)
@given(graphs(), st.sampled_from(QUESTIONS), st.sampled_from(STRUCTURES), BUDGETS)
def test_a_plain_store_is_searched_for_the_question_alone_and_walked_on_its_view(graph, question, structure, budget):
    plain = [Snippet(one.id, one.text, one.sources, one.time, one.speaker, one.said) for one in contents_of(graph).values()]
    shelf = Shelf(plain)
    trace = MRAgent(shelf, structure=structure).ask(question, budget=budget)
    assert set(shelf.asked) == {question} and trace.error is None
    assert budget is None or len(trace.read) <= budget
    assert set(trace.evidence) <= set(trace.read) <= {turn for one in plain for turn in one.sources}
    assert trace.to_json() == MRAgent(cue_view(Shelf(plain), question), structure=structure).ask(question, budget=budget).to_json()


def test_the_budget_counts_turns_and_not_contents():
    graph = CueTagGraph(embedder=Tiny())
    graph.keep('D1', Recollection((Episode('D1/e1', 'Ada sold the boat.', ('D1:1', 'D1:2', 'D1:3'), session='D1', position=1, tag='sale', cues=('boat',)),
                                   Episode('D1/e2', 'The boat was red.', ('D1:3',), session='D1', position=2, tag='colour', cues=('boat',)))))
    read = [MRAgent(graph, stop_early=False).ask('Who sold the boat?', budget=budget).read for budget in range(4)]
    assert [len(one) for one in read] == [0, 1, 1, 3]


# ------------------------------------------------------------------ small things, and the sample

@pytest.mark.parametrize('options, words', [
    *(({name: wrong}, f'{name}: expected 1 or more') for name in ('turns', 'breadth', 'shown') for wrong in (0, -1, 2.5, '3', None, True)),
    *(({'structure': wrong}, 'structure: expected one of ctc, cte, ce') for wrong in ('CTC', '', None, 3))])
def test_bad_switches_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        MRAgent(two_events(), **options)


def test_a_step_says_what_it_left_unread():
    step = WalkStep(iteration=2, shown=['a → b (1)'], kept=['x'], dropped=['y', 'z'], chosen=['query_tag_events'], woken=['May 2024'],
                    unread=1, unread_tokens=1200, searched=True, reasoning='so')
    rows = {row.label: row for row in step.rows()}
    assert rows['awake'].text == '1 way, found by a search' and rows['awake'].note == '1 content behind them not read, about 1,200 tokens'
    assert (rows['kept'].text, rows['kept'].ids, rows['woke'].text, rows['thought'].text) == ('1 of 3', ('x',), 'May 2024', 'so')
    assert [row.label for row in WalkStep(iteration=1).rows()] == ['awake'] and [tokens_of(text) for text in ('', 'a', 'abcde')] == [0, 1, 2]


@pytest.fixture(scope='module')
def sample():
    return load_sample()


@pytest.fixture(scope='module')
def sample_graph(sample):
    return CueTagGraph.of(sample)


def test_the_sample_holds_a_question_for_which_one_search_is_not_enough(sample, sample_graph):
    question, turns = 'What did Zofia do when Tobin failed his test?', HybridIndex.of(sample)
    walk = MRAgent(sample_graph).ask(question, budget=25)
    assert 'D9:15' not in RAG(turns, k=25).ask(question).read and 'D9:15' in walk.read and walk.answer and len(walk.read) < 25
    assert {'D9:15', 'D10:3'} <= set(walk.evidence)


def test_the_laws_hold_on_the_sample(sample, sample_graph):
    for question in sample.questions[::9]:
        for options in ({}, {'active': False}, {'structure': 'cte'}):
            trace = MRAgent(sample_graph, stop_early=False, **options).ask(question.text, budget=15)
            assert trace.error is None and trace.answer and len(trace.read) <= 15 and set(trace.evidence) <= set(trace.read)
            assert len({(step.tool, str(step.arguments)) for step in of(trace, 'tool')}) == len(of(trace, 'tool'))
            assert Trace.from_json(trace.to_json()) == trace


def test_the_day_of_asking_reaches_every_prompt(sample_graph):
    asked = TimeSpan.day(date(2025, 1, 5))
    trace = MRAgent(sample_graph, RuleLM(render=True), turns=2).ask('What did Zofia knit last month?', asked=asked)
    told = {step.role: 'asked on 5 January 2025' in step.user for step in of(trace, 'model')}
    assert told == {'cues': False, 'navigate': True, 'route': True, 'recall': True}
