"""Behind the roles of the methods stand six small ones. Whatever a model says within their schemas, the methods get replies they know,
end, and cite what was shown; dates are worked out without touching a word."""
from __future__ import annotations

import json
from dataclasses import replace
from datetime import date, datetime

import pytest
from hypothesis import given, settings, strategies as st

from memnb.adapters.small_models import (
    _dated, _MOST_OPTIONS, _notes_of, _Parts, _short_arguments, _SPLIT, CHOOSE, ENOUGH, Enough, FILL, NEXT, Next, NOTE, READ, SmallLM)
from memnb.core.conversation import Snippet, turn_snippets
from memnb.core.loop import as_tools, Observation, OUTPUT_ANSWER, seen_lines, Tool, ToolUse
from memnb.core.models import RecordedLM, ScriptedLM
from memnb.core.retriever import Hit
from memnb.core.roles import (
    ANSWER, AnswerReply, Completion, ReplyError, Role, ServerError, strict_schema, TextLM, Usage, Verdict)
from memnb.core.time import find_times, phrase
from memnb.core.trace import Trace
from memnb.evaluation.datasets import load_sample
from memnb.memma.prompts import DIAGNOSE
from memnb.memma.retrieval import Coordinated
from memnb.memr3.loop import MemR3
from memnb.memr3.prompts import TRACK
from memnb.memr3.router import Decision
from memnb.memr3.tracker import EvidenceGap
from memnb.mragent.graph import Branch
from memnb.mragent.loop import MRAgent
from memnb.mragent.prompts import NAVIGATE, RECALL
from memnb.mragent.tools import CueTagGraph
from memnb.remem.loop import REMem
from memnb.remem.prompts import SYNTHESIZE
from memnb.remem.prompts import SELECT
from memnb.remem.graph import GistGraph
from memnb.retrieval.bm25 import LexicalIndex
from memnb.retrieval.vectors import HybridIndex

SAMPLE = load_sample()
PART = replace(SAMPLE, sessions=SAMPLE.sessions[:3], questions=())
TURNS = {snippet.id: snippet for snippet in turn_snippets(PART)}
QUESTIONS = [question.text for question in SAMPLE.questions]
FOUND = [TURNS[id] for id in ('D1:5', 'D1:7', 'D2:3')]
WORDS = ('Tobin', 'concertina', 'Crumb', '2024', '7 May 2023', '', ' ', 'D1:5', 'e1', '{x}', '<b>', '\n', '“ü”')
DICE = st.randoms(use_true_random=False)
GATES = st.sampled_from([0, .3, .5, 1.1])


def babble(schema, dice, root=None):
    """A random value that fits a schema; texts of the bundled conversation's words, and of none."""
    root = root or schema
    if '$ref' in schema:
        return babble(root['$defs'][schema['$ref'].split('/')[-1]], dice, root)
    if 'anyOf' in schema:
        return babble(dice.choice(schema['anyOf']), dice, root)
    if 'enum' in schema or 'const' in schema:
        return dice.choice(schema.get('enum') or [schema['const']])
    if schema['type'] == 'object':
        return {name: babble(part, dice, root) for name, part in schema.get('properties', {}).items()}
    if schema['type'] == 'array':
        return [babble(schema['items'], dice, root) for _ in range(dice.randint(0, min(3, schema.get('maxItems', 3))))]
    text = ' '.join(dice.choice(WORDS) for _ in range(dice.randint(0, 4)))[:schema.get('maxLength')]
    return {'string': text, 'boolean': dice.random() < .5, 'integer': dice.randint(0, 9), 'null': None}[schema['type']]


class Babbler(TextLM):
    """Says anything, in the right form, with any odds or none."""
    name = 'babbler'

    def __init__(self, dice):
        self.dice, self.asked = dice, []

    def complete(self, role, system, user, schema):
        self.asked.append(role)
        return Completion(json.dumps(babble(schema, self.dice)), Usage(1, 2, 3), probability=self.dice.choice([None, 0, .4, .6, 1]))


@pytest.fixture(scope='module')
def memories():
    """The first three sessions, in each of the methods' memories."""
    return {MemR3: HybridIndex.of(PART), REMem: GistGraph.of(PART), MRAgent: CueTagGraph.of(PART), Coordinated: HybridIndex.of(PART)}


@pytest.mark.parametrize('kind, options, times', [
    (MemR3, {}, 25), (MemR3, {'reflect': False, 'stop_early': False}, 10), (REMem, {}, 25), (REMem, {'max_steps': 5, 'timeline': True}, 10),
    (MRAgent, {'turns': 4}, 12), (MRAgent, {'turns': 3, 'stop_early': False}, 6), (Coordinated, {'k': 4}, 25)])
def test_whatever_is_said_the_loop_ends(memories, kind, options, times):
    """No error; an answer; only what was read is cited, within the budget; the trace survives its JSON; the bill is the sum."""
    @given(DICE, GATES, st.sampled_from(QUESTIONS), st.sampled_from([None, 1, 6]))
    @settings(max_examples=times)
    def check(dice, gate, question, budget):
        lm = Babbler(dice)
        trace = kind(memories[kind], SmallLM(lm, gate), **options).ask(question, budget=budget)
        assert trace.error is None and trace.answer is not None
        assert set(trace.evidence) <= set(trace.read) <= set(TURNS)
        assert budget is None or len(trace.read) <= budget
        assert Trace.from_json(trace.to_json()) == trace
        assert sum(usage.calls for usage in trace.usage.values()) == len(lm.asked)
        assert sum((usage for usage in trace.usage.values()), Usage()) == Usage(len(lm.asked), 2 * len(lm.asked), 3 * len(lm.asked))

    check()


HISTORY = (ToolUse('search', {'query': 'concertina'}, Observation('Found 3', tuple(Hit(snippet) for snippet in FOUND))),)
WAYS = tuple(CueTagGraph().tools())
TOOLS = as_tools(LexicalIndex())  # their types are all that is used
BIG = {'track': (TRACK, {'snippets': FOUND}), 'track, nothing new': (TRACK, {}), 'diagnose': (DIAGNOSE, {'evidence': FOUND, 'queries': ['a']}),
       'diagnose, nothing': (DIAGNOSE, {}), 'answer': (ANSWER, {'lines': FOUND}), 'recall': (RECALL, {'lines': FOUND}),
       'synthesize': (SYNTHESIZE, {'history': HISTORY}), 'navigate': (NAVIGATE, {'tools': WAYS, 'known': FOUND}),
       'select': (SELECT, {'tools': TOOLS, 'history': HISTORY, 'steps_left': 2}),
       'select, last': (SELECT, {'tools': TOOLS, 'history': HISTORY}),
       'select, only the end': (SELECT, {'tools': [OUTPUT_ANSWER], 'steps_left': 2})}


@pytest.mark.parametrize('case', BIG)
@given(dice=DICE, gate=GATES)
@settings(max_examples=15)
def test_each_reply_is_one_of_the_big_role(case, dice, gate):
    """Of its type, also after JSON; with the role's name and the sum of the calls; no source that was not shown."""
    role, inputs = BIG[case]
    inputs = {'question': QUESTIONS[0], **inputs}
    lm = Babbler(dice)
    call = SmallLM(lm, gate).call(role, **inputs)
    model = role.model(inputs)
    assert call.role == role.name and call.usage.calls == len(lm.asked)
    model.model_validate_json(call.reply.model_dump_json(exclude_unset=True))
    shown = {snippet.id for snippet in [*inputs.get('snippets', ()), *inputs.get('lines', ()), *seen_lines(inputs.get('history', ()))]}
    cited = [id for claim in getattr(call.reply, 'evidence', []) for id in claim.sources] + list(getattr(call.reply, 'sources', []))
    assert set(cited) <= shown
    assert call.user.count('## ') >= len(lm.asked) and (call.raw is None) == (not lm.asked)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=5), st.floats(0, 1.2))
def test_the_gate_opens_with_the_odds(odds, gate):
    """Against the plain comparison; at 0 always, above 1 never, whatever the word was; without odds the word counts."""
    for one in odds:
        for word in (True, False):
            parts = _Parts(ScriptedLM([Enough(yes=word, probability=one).model_dump_json()]), gate)
            assert parts.enough('Who?', ['a note']) == (one >= gate)
    for word in (True, False):
        assert _Parts(ScriptedLM([{'yes': word}]), gate).enough('Who?', ['a note']) is word
    assert _Parts(ScriptedLM([]), gate).enough('Who?', []) is False  # nobody is asked


@pytest.mark.parametrize('action, roles', [('answer', ['note']), ('retrieve', ['note', 'next']), ('reflect', ['note', 'next'])])
def test_what_the_router_has_decided_is_not_asked(action, roles):
    """The gate is left out where the action is due."""
    lm = ScriptedLM({'note': [{'facts': []}], 'next': [{'missing': 'the day', 'query': 'day'}]})
    reply = SmallLM(lm).ask(TRACK, question='Who?', snippets=FOUND, state=EvidenceGap(), due=Decision(action, 'so it is', True))
    assert (reply.decision, [call.role for call in lm.calls]) == (action, roles)
    assert (reply.gaps, reply.reasoning) == ([] if action == 'answer' else ['the day'], 'the day' if action == 'reflect' else None)


def test_a_choice_is_among_those_offered():
    """The tools that do not end the search, in their order; the arguments that a tool needs, or its first three."""
    for number, tool in enumerate([tool for tool in TOOLS if not tool.ends], 1):
        said = {name: f'2024-0{at}-01' for at, name in enumerate(_short_arguments(tool).model_fields, 1)}
        lm = ScriptedLM({'choose': [{'number': number}], 'fill': [said], 'enough': [{'yes': False}]})
        call = SmallLM(lm).ask(SELECT, question='Who?', tools=TOOLS, history=HISTORY, steps_left=2).call
        assert (call.function, call.parameters.model_dump(exclude_unset=True)) == (tool.name, said)


def count_up(count: int) -> Observation:
    """Count to a number."""
    return Observation(str(count))


def pick(a: str = '', b: str = '', c: str = '', d: str = '') -> Observation:
    """Pick what fits."""
    return Observation(a + b + c + d)


def test_blanks_and_misfits():
    """What may be left out is left out where blank, what is needed stays; what does not fit is an error that carries raw and cost."""
    assert list(_short_arguments(Tool.of(pick)).model_fields) == ['a', 'b', 'c']
    lm = ScriptedLM([{'number': 1}, {'a': ' ', 'b': 'x', 'c': ''}])
    call = SmallLM(lm).ask(SELECT, question='Who?', tools=[Tool.of(pick), OUTPUT_ANSWER], steps_left=2).call
    assert call.parameters.model_dump(exclude_unset=True) == {'b': 'x'}
    with pytest.raises(ReplyError, match='no usable reply: .*count') as caught:
        SmallLM(ScriptedLM([{'number': 1}, {'count': 'many'}])).ask(SELECT, question='Who?', tools=[Tool.of(count_up)], steps_left=2)
    assert caught.value.usage.calls == 2 and json.loads(caught.value.raw)['call']['parameters'] == {'count': 'many'}


def test_navigation_follows_the_way_of_the_number():
    """Each of the ways that are offered, and no more than _MOST_OPTIONS; a call that was made is not offered again; no way, no question."""
    kinds = ('event', 'aspect', 'context')
    ways = [Branch(f'cue {at}', f'tag {at}', 1, kinds[at % 3]) for at in range(_MOST_OPTIONS + 3)]
    inputs = {'question': QUESTIONS[0], 'tools': WAYS, 'ways': ways}
    seen = []
    for number in range(1, _MOST_OPTIONS + 1):
        move = SmallLM(ScriptedLM([{'number': number}])).ask(NAVIGATE, **inputs)
        assert move.mode == 'Navigate' and len(move.calls) == 1
        seen.append((move.calls[0].function, move.calls[0].parameters.model_dump(exclude_unset=True)))
    assert all(one not in seen[:at] for at, one in enumerate(seen))
    with pytest.raises(ReplyError):
        SmallLM(ScriptedLM([{'number': _MOST_OPTIONS + 1}] * 2)).ask(NAVIGATE, **inputs)
    history = [ToolUse(function, parameters, Observation('')) for function, parameters in seen[:1]]
    again = SmallLM(ScriptedLM([{'number': 1}])).ask(NAVIGATE, **inputs, history=history).calls[0]
    assert (again.function, again.parameters.model_dump(exclude_unset=True)) == seen[1]
    assert SmallLM(ScriptedLM([])).ask(NAVIGATE, **{**inputs, 'ways': []}).mode == 'Answer'


def test_a_role_that_is_not_split_goes_through():
    """As it is: its own prompt, its own name; `_SPLIT` names seven."""
    role = Role('other', 'Say {what}', '{what}', Verdict)
    call = SmallLM(ScriptedLM([{'yes': False}])).call(role, what='so')
    assert (call.role, call.system, call.reply.yes) == ('other', 'Say so', False)
    assert set(_SPLIT) == {'track', 'diagnose', 'select', 'navigate', 'answer', 'recall', 'synthesize'}


@pytest.mark.parametrize('at', range(3))
def test_an_error_carries_what_was_spent(at):
    """Wherever the server goes away, the error has the calls before it; the trace counts them under the big role."""
    said = [{'facts': [{'id': 'D1:5', 'fact': 'so'}]}, {'yes': False}, {'missing': 'it', 'query': 'it'}]
    with pytest.raises(ServerError) as caught:
        SmallLM(ScriptedLM([*said[:at], ServerError('gone', Usage(1, 7, 0))])).call(TRACK, question='Who?', snippets=FOUND)
    assert caught.value.usage.calls == at + 1 and caught.value.usage.prompt_tokens >= 7
    trace = MemR3(lambda query: ['a text'], SmallLM(ScriptedLM([ServerError('gone', Usage(1, 7, 0))]))).ask('Who?')
    assert trace.error == 'ServerError: gone' and trace.usage['track'] == Usage(1, 7, 0)


def test_the_whole_of_several_calls():
    """The most attempts of any; prompts and texts of all, in order; replayed only if all were."""
    lm = ScriptedLM(['no JSON', {'facts': []}, {'missing': 'it', 'query': 'it'}])
    call = SmallLM(lm).call(TRACK, question='Who?', snippets=FOUND)
    assert (call.attempts, call.usage.calls, call.cached, call.system) == (2, 3, False, '')
    assert [line for line in call.user.splitlines() if line.startswith('## ')] == ['## note', '## next']  # no fact, no gate
    assert call.raw.splitlines() == ['note: {"facts": []}', 'next: {"missing": "it", "query": "it"}']
    parts = _Parts(ScriptedLM([{'missing': 'it', 'query': 'it'}]), .5)
    made = parts.lm.call(NEXT, question='Who?', known=[], before='')
    for cached in ([], [True], [True, False]):
        parts.calls = [replace(made, cached=one) for one in cached]
        assert parts.joined(ANSWER, AnswerReply(answer='')).cached is (cached == [True])


def test_a_record_below_replays_and_serves_other_gates(tmp_path, memories):
    """The same trace from the record, at no call; a gate that decides alike finds all, another asks what is not there."""
    said = {'note': [{'facts': [{'id': 'D1:5', 'fact': 'Tobin had his first lesson on 8 January 2024.'}]}],
            'enough': ['{"yes": true, "probability": 0.61}'], 'read': [{'note': 'e1', 'answer': '8 January 2024'}]}
    first = MemR3(memories[MemR3], SmallLM(RecordedLM(ScriptedLM(said), tmp_path / 'r.sqlite'))).ask(QUESTIONS[0])

    def again(gate):
        return MemR3(memories[MemR3], SmallLM(RecordedLM(ScriptedLM([]), tmp_path / 'r.sqlite', mode='replay'), gate)).ask(QUESTIONS[0])

    assert first.answer == '8 January 2024' and first.evidence == ['D1:5']
    for gate in (0, .5, .61):
        trace = again(gate)
        assert (trace.answer, trace.evidence, trace.usage, trace.error) == (first.answer, first.evidence, first.usage, None)
        assert all(step.cached for step in trace.steps if step.kind == 'model')
    assert again(.62).error.startswith('MissingRecord')


def test_settings_name_and_seeds():
    """The model's own, and the gate; a seed goes to the model, and the first stays as it was."""
    class Seeded(ScriptedLM):
        def seeded(self, seed):
            return Seeded([], name=f'{self.name} {seed}')

    small = SmallLM(Seeded([], name='one'), gate=.7)
    other = small.seeded(8)
    assert small.settings() == {'model': 'one', 'gate': .7} and small.name == 'one'
    assert (other.gate, other.lm.name, small.lm.name) == (.7, 'one 8', 'one')
    assert isinstance(SmallLM(lambda prompt: '{"yes": true}').ask(ENOUGH, question='Who?', notes=['a']), Verdict)
    with pytest.raises(TypeError, match='expected an lm'):
        SmallLM(3)


# The six small roles

TIMES = ('yesterday', 'last Friday', 'in 2023', 'two weeks ago', 'next month', 'on 7 May 2023', 'this morning', 'the weekend before last')
TEXTS = st.lists(st.sampled_from((*TIMES, 'we met', 'I ran', '(so they say)', 'and', '{x}', '\n', '“ü”', '')), max_size=8).map(' '.join)
IDS = st.lists(st.text(min_size=1, max_size=8).filter(lambda id: id != 'none'), min_size=1, max_size=6, unique=True)


@given(TEXTS, st.dates(date(1990, 1, 1), date(2040, 1, 1)))
def test_dates_are_added_in_brackets_and_nothing_else_changes(text, day):
    snippet = Snippet('x', text, said=datetime(day.year, day.month, day.day, 12))
    expected, last = '', 0
    for start, end, span in find_times(text, day):
        known = phrase(span).lower() in text[start:end].lower()
        expected += text[last:end] + ('' if known else f' ({phrase(span)})')
        last = end
    made = _dated(snippet)
    assert made.text == expected + text[last:] and replace(made, text=text) == snippet
    assert _dated(Snippet('x', text)) == Snippet('x', text)  # without a day nothing is dated
    assert _notes_of([snippet]) == [f'(x) {made.line}']


def schema_texts(node, path=()):
    """Every schema of a text or a list within a schema, with its path."""
    if isinstance(node, dict):
        if node.get('type') in ('string', 'array'):
            yield path, node
        for name, part in node.items():
            yield from schema_texts(part, (*path, name))


def scene(role, ids):
    """Inputs of a role over notes with these ids."""
    notes = [Snippet(id, f'the note of {id}') for id in ids]
    return {'note': {'question': 'Who?', 'notes': notes}, 'read': {'question': 'Who?', 'notes': notes},
            'enough': {'question': 'Who?', 'notes': _notes_of(notes)}, 'next': {'question': 'Who?', 'known': [], 'before': 'Who?'},
            'choose': {'question': 'Who?', 'known': [], 'ways': list(ids)},
            'fill': {'question': 'Who?', 'known': [], 'tried': [], 'tool': 'search(query)', 'model': Next}}[role.name]


@pytest.mark.parametrize('role', [NOTE, ENOUGH, NEXT, CHOOSE, FILL, READ], ids=lambda role: role.name)
@given(ids=IDS)
@settings(max_examples=20)
def test_every_reply_is_bounded(role, ids):
    inputs = scene(role, ids)
    for path, part in schema_texts(strict_schema(role.model(inputs))):
        assert 'enum' in part or 'const' in part or part.get('maxLength', part.get('maxItems')), path
    assert 'Who?' in role.render(inputs)[1]


@given(IDS, st.text(max_size=8), st.sampled_from([NOTE, READ]))
def test_only_what_was_shown_can_be_named(ids, other, role):
    """An id goes through if and only if it was shown; READ has `none` besides."""
    inputs = scene(role, ids)

    def ask(id):
        said = {'facts': [{'id': id, 'fact': 'so'}]} if role is NOTE else {'note': id, 'answer': 'so'}
        reply = ScriptedLM([said, said]).ask(role, **inputs)
        return reply.facts[0].id if role is NOTE else reply.note

    assert [ask(id) for id in ids] == ids
    if other in ids or (role is READ and other == 'none'):
        assert ask(other) == other
    else:
        with pytest.raises(ReplyError):
            ask(other)


@given(st.integers(1, 20), st.integers(-1, 22))
def test_only_an_option_that_is_there_can_be_chosen(count, number):
    inputs = {'question': 'Who?', 'known': [], 'ways': [f'way {at}' for at in range(count)]}
    lm = ScriptedLM([{'number': number}] * 2)
    if 1 <= number <= count:
        assert lm.ask(CHOOSE, **inputs).number == number
    else:
        with pytest.raises(ReplyError):
            lm.ask(CHOOSE, **inputs)
    shown = CHOOSE.render(inputs)[1].split('Ways:\n')[1].splitlines()
    assert shown == [f'{at}. way {at - 1}' for at in range(1, count + 1)]


@pytest.mark.parametrize('said', [
    {'facts': [{'id': 'a', 'fact': 'x' * 161}]}, {'facts': [{'id': 'a', 'fact': 'x'}] * 4}, {'facts': [{'id': 'a'}]}, {}])
def test_too_long_or_too_much_is_refused(said):
    with pytest.raises(ReplyError):
        ScriptedLM([said, said]).ask(NOTE, **scene(NOTE, ['a', 'b']))
