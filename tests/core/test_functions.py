"""Function calling: schemas that servers take, and one answer for each call, whatever a model writes."""

import json
import re
from copy import deepcopy
from types import SimpleNamespace

import openai
import pytest
from hypothesis import given, settings, strategies as st
from jsonschema import Draft202012Validator

from memnb.mragent.graph import CueTagGraph
from memnb.evaluation.datasets import load_sample
from memnb.adapters.frameworks import as_functions, call_functions
from memnb.remem.graph import GistGraph
from memnb.retrieval.bm25 import LexicalIndex
from memnb.core.roles import RuleLM
from memnb.core.run import MemoryFailed, Run
from memnb.core.conversation import Snippet
from memnb.core.retriever import Metered
from memnb.core.conversation import turn_snippets
from memnb.core.tools import as_tools, OUTPUT_ANSWER, Tool, tools_of
from memnb.core.trace import Trace
from servers import Answer, Server, fail
from test_tools import functions, valid_calls


@pytest.fixture(scope='module')
def memory():
    index = LexicalIndex()
    index.add(turn_snippets(load_sample())[:60])
    return index


def called(name, arguments, id='1'):
    return {'id': id, 'type': 'function', 'function': {'name': name, 'arguments': arguments}}


def books(budget=None):
    return Run('Where is the boat?', 'an agent', RuleLM(), budget=budget)


# ------------------------------------------------------------------ schemas


@settings(max_examples=30)
@given(functions(), st.data())
def test_what_the_schema_allows_the_tool_takes_and_null_is_the_default(made, data):
    function, told = made
    call, given_to = data.draw(valid_calls(told))
    (one,) = as_functions([function])
    assert one == Tool.of(function).schema() == json.loads(json.dumps(one))
    Draft202012Validator(one['function']['parameters']).validate(call)
    for name, (kind, default, _) in told.items():
        if default is not ... and (name not in call or data.draw(st.booleans())):
            call[name], given_to[name] = None, None if kind in (int | None, bool | None) else default
    (message,) = call_functions([function], [called('made', json.dumps(call))])
    assert message['content'] == repr({name: given_to[name] for name in told})


@pytest.mark.parametrize('graph', [GistGraph, CueTagGraph])
def test_the_tools_of_the_graphs_fit_what_servers_take(graph):
    memory = graph()
    made = as_functions(memory)
    assert made == as_functions(tools_of(memory)) and len(made) == sum(not tool.ends for tool in tools_of(memory))
    for one in made:
        assert len(one['function']['description']) <= 1024
        Draft202012Validator.check_schema(one['function']['parameters'])


def named(name):
    return Tool(name, 'Does something.', OUTPUT_ANSWER.arguments, OUTPUT_ANSWER.function)


@pytest.mark.parametrize(
    'tools',
    [
        [],
        [OUTPUT_ANSWER],
        [named('a'), named('a')],
        [named('größe')],
        [named('a' * 65)],
        [named('')],
        [named('a b')],
        [named('a\n')],
    ],
)
def test_names_that_servers_refuse_are_refused_here(tools):
    with pytest.raises(ValueError, match='^tools: expected one or more with different names'):
        as_functions(tools)
    with pytest.raises(ValueError, match='^tools: expected'):
        call_functions(tools, [])


@pytest.mark.parametrize('source', [None, 3, 'search', object()])
def test_what_has_no_tools_is_refused(source):
    with pytest.raises(TypeError):
        as_functions(source)


# ------------------------------------------------------------------ calls

VALUES = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(['query', 'start_time', 'end_time', 'self', 'x', '']), inner, max_size=3)
    ),
    max_leaves=6,
)
NAMES = st.sampled_from(
    [
        'search',
        'search_during',
        'Search',
        'output_answer',
        '',
        None,
        'search\x00',
        'new\nline',
        'a' * 300,
        '\ud800',
        '__class__',
        3,
    ]
)
SAID = (
    st.none()
    | st.text(max_size=12)
    | VALUES.map(json.dumps)
    | VALUES
    | st.sampled_from(
        [
            '{"query": "boat"',
            '{"query": "boat"} {"query": "boat"}',
            '{"query": "\\ud800"}',
            "{'query': 'boat'}",
            '{"query": NaN}',
            'null',
            '[]',
            '""',
            '["\\n\\ud800"]',
            '9' * 5000,
            object,
        ]
    )
)
CALLS = st.lists(
    st.builds(called, NAMES, SAID, st.text(max_size=4))
    | st.sampled_from(
        [
            {},
            {'id': 'x'},
            {'id': 'x', 'function': None},
            {'id': 'x', 'function': {}},
            {'id': 'x', 'type': 'custom', 'custom': {'name': 'shell', 'input': 'rm'}},
            SimpleNamespace(id='x'),
            SimpleNamespace(id='x', function=SimpleNamespace(name='search', arguments='{"query": "boat"}')),
        ]
    ),
    max_size=5,
)
HALF = [Snippet('s1', 'the boat \ud83d', ('D1:1', '\ud800')), Snippet('s2', 'a boat', ('D1:2', 'D1:3'))]


@settings(max_examples=100)
@given(CALLS, st.none() | st.integers(0, 3))
def test_each_call_has_one_answer_whatever_it_is(calls, budget):
    run, before = books(budget), deepcopy([call for call in calls if isinstance(call, dict)])
    messages = call_functions(as_tools(lambda query: HALF), calls, run)
    ids = [call.get('id') if isinstance(call, dict) else call.id for call in calls]
    assert [(message['role'], message['tool_call_id']) for message in messages] == [('tool', id) for id in ids]
    for message in messages:
        assert set(message) == {'role', 'tool_call_id', 'content'} and message['content']
        message['content'].encode()
    assert Trace.from_json(run.trace.to_json()) == run.trace
    assert [step.note.split('\n')[0] for step in run.trace.steps] == [
        message['content'].split('\n')[0] if not step.hits else step.note
        for step, message in zip(run.trace.steps, messages)
    ]
    assert len(run.trace.steps) == len(calls) and {step.iteration for step in run.trace.steps} <= {1}
    assert budget is None or len(run.trace.read) <= budget
    assert repr([call for call in calls if isinstance(call, dict)]) == repr(before)


@pytest.mark.parametrize('depth', [5, 18, 19, 20, 100, 250, 260, 900, 950, 990, 1000, 5000, 100_000])
def test_brackets_without_end(memory, depth):
    run = books()
    for said in (
        '[' * depth + ']' * depth,
        '{"query":' * depth + '1' + '}' * depth,
        '{"query": ' + '[' * depth + ']' * depth + '}',
        '[' * depth,
    ):
        (message,) = call_functions(as_tools(memory), [called('search', said)], run)
        assert message['content'].startswith('search: ')
    run.trace.to_json()


@pytest.mark.parametrize(
    'name, said, words',
    [
        ('google', '{}', "there is no tool 'google'; there are search, search_during"),
        ('search', '{"query": "boa', 'the arguments are no JSON'),
        ('search', '["boat"]', 'expected a JSON object, got ["boat"]'),
        ('search', '{}', 'query: Field required'),
        ('search', '{"query": ["boat"]}', 'query: Input should be a valid string'),
        (
            'search_during',
            '{"query": "boat", "start_time": "then", "end_time": "2024"}',
            "start_time: expected a date such as '2023'",
        ),
        ('search_during', '{"query": "boat", "start_time": "2025", "end_time": "2024"}', 'not after end_time'),
        ('output_answer', '{"answer": "42"}', "there is no tool 'output_answer'"),
    ],
)
def test_a_mistake_is_told_in_words(memory, name, said, words):
    run = books()
    (message,) = call_functions(as_tools(memory), [called(name, said)], run)
    (step,) = run.trace.steps
    assert (
        words in message['content'] and words in step.note and step.error and step.tool == name and run.trace.read == []
    )


@settings(max_examples=25)
@given(
    st.integers(0, 12),
    st.lists(
        st.lists(st.sampled_from(['concertina', 'chilli', 'boat organ', 'zzz', 'Pascal']), max_size=3), max_size=4
    ),
)
def test_the_budget_is_one_for_the_whole_conversation(budget, rounds):
    index = LexicalIndex()
    index.add(turn_snippets(load_sample())[:60])
    tools, run, meter = as_tools(index, k=4), books(budget), Metered(lambda query: [], budget)
    for number, queries in enumerate(rounds, 1):
        messages = call_functions(tools, [called('search', json.dumps({'query': query})) for query in queries], run)
        for query, message in zip(queries, messages):
            shown = meter.pay(index.search(query, 4))
            assert message['content'].splitlines()[1:] == [
                f'{place}. ({hit.snippet.id}) {hit.snippet.line}' for place, hit in enumerate(shown, 1)
            ]
        assert (
            {step.iteration for step in run.trace.steps[-len(queries) :]} <= {number}
            or not queries
            or not all(rounds[:number])
        )
    assert run.trace.read == meter.read and len(meter.read) <= budget


def test_what_was_shown_can_be_named_in_the_next_call():
    graph = CueTagGraph.of(load_sample())
    tools, run = tools_of(graph), books()
    cue = next(iter(graph.episodic.cues))
    (found,) = call_functions(
        tools, [called('query_tag_events', json.dumps({'cue': cue, 'tag': graph.branches_of(cue)[0].tag}))], run
    )
    event = re.search(r'^1\. \((\S+)\) ', found['content'], re.M)[1]
    for name in ('query_conversation_time', 'query_event_keywords', 'query_event_context'):
        (message,) = call_functions(tools, [called(name, json.dumps({'event': event}))], run)
        assert event in message['content'] and not run.trace.steps[-1].error


def test_a_memory_that_breaks_is_no_mistake_of_the_model():
    def store(query):
        raise ConnectionError('closed')

    run = books()
    with pytest.raises(MemoryFailed, match='ConnectionError: closed'):
        call_functions(as_tools(store), [called('search', '{"query": "boat"}')], run)
    assert run.trace.steps[-1].error and 'closed' in run.trace.steps[-1].note


# ------------------------------------------------------------------ the real client, over a real connection


def completion(message, finish):
    return Answer(
        json.dumps(
            {
                'id': 'x',
                'object': 'chat.completion',
                'created': 0,
                'model': 'played',
                'choices': [{'index': 0, 'finish_reason': finish, 'message': {'role': 'assistant', **message}}],
            }
        ).encode()
    )


def calling(*calls):
    """The server's answer: these calls."""
    return lambda request: completion({'content': None, 'tool_calls': list(calls)}, 'tool_calls')


def saying(request):
    """The last of the answer: how many messages of tools there were, and the first words of each."""
    told = [message['content'] for message in request['messages'] if message['role'] == 'tool']
    return completion({'content': json.dumps(told)}, 'stop')


def whole(answer):
    """Refuse, as OpenAI does, a conversation in which a call has no answer."""

    def checked(request):
        pending = []
        for message in request['messages']:
            if message['role'] == 'tool':
                if message['tool_call_id'] not in pending:
                    return fail(400, 'an answer without a call')(request)
                pending.remove(message['tool_call_id'])
            elif pending:
                return fail(400, f'no answer to {pending}')(request)
            pending += [call['id'] for call in message.get('tool_calls') or ()]
        return fail(400, f'no answer to {pending}')(request) if pending else answer(request)

    return checked


def dance(server, tools, question, run, form):
    """An agent: the conversation until words come, at most eight rounds."""
    client = openai.OpenAI(base_url=server.url, api_key='unused', max_retries=0)
    messages = [{'role': 'user', 'content': question}]
    for _ in range(8):
        message = (
            client.chat.completions.create(model='played', messages=messages, tools=as_functions(tools))
            .choices[0]
            .message
        )
        messages.append(form(message))
        if not message.tool_calls:
            return message.content
        messages += call_functions(tools, message.tool_calls, run)


@pytest.mark.parametrize(
    'form', [lambda message: message, lambda message: message.model_dump(exclude_none=True)], ids=['object', 'dict']
)
def test_the_dance_with_the_real_client(memory, form):
    answers = [
        calling(
            called('search', '{"query": "concertina lesson"}', 'a'),
            called('search_during', '{"query": "x", "start_time": "then"', 'b'),
        ),
        calling(
            called('search_during', '{"query": "lesson", "start_time": "2024-01", "end_time": "2024"}', 'c'),
            called('shell', '{}', 'd'),
        ),
        saying,
    ]
    run = books(15)
    with Server(*map(whole, answers)) as server:
        told = json.loads(dance(server, as_tools(memory), 'When was the first lesson?', run, form))
    assert [one.split(' ')[0] for one in told] == [
        'Found',
        'search_during:',
        told[2].split(' ')[0],
        'refused:',
    ] and told[2].startswith(('Found', 'The budget'))
    assert [(step.iteration, step.tool, step.error) for step in run.trace.steps] == [
        (1, 'search', False),
        (1, 'search_during', True),
        (2, 'search_during', False),
        (2, 'shell', True),
    ]
    assert len(run.trace.read) <= 15 and len(server.requests) == 3
