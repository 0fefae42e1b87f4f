"""Tools: what a function says of itself, which calls are carried out and which are refused, and a choice of tools as a reply."""

import inspect
import json
from datetime import datetime
from functools import partial
from typing import Annotated, Any, Literal

import pytest
from hypothesis import example, given, settings, strategies as st
from jsonschema import Draft202012Validator
from pydantic import BaseModel, Field

from schemas import objects_in
from memnb.core.roles import rule
from memnb.retrieval.bm25 import LexicalIndex
from memnb.core.models import ScriptedLM
from memnb.core.names import bare_name
from memnb.core.roles import ReplyError, Role
from memnb.core.replies import read_reply
from memnb.core.roles import brief_schema, strict_schema
from memnb.core.conversation import Snippet
from memnb.core.retriever import Hit
from memnb.core.time import TimeSpan
from memnb.core.trace import printable
from memnb.core.calls import choice_of
from memnb.core.tools import (
    arguments_of,
    as_tools,
    day_of,
    Observation,
    OUTPUT_ANSWER,
    PAGE_SIZE,
    page_of,
    Tool,
    ToolError,
    tools_of,
    tools_text,
)

# ------------------------------------------------------------------ functions that Hypothesis writes

WHOLE = st.integers(-(10**12), 10**12)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
NOT_A_NUMBER = st.sampled_from([True, False, 'three', [], {}, float('nan'), float('inf')])
KINDS = {  # type: (values, the same things written in another way, other things)
    int: (
        WHOLE,
        st.integers(-9999, 9999).flatmap(lambda value: st.sampled_from([(str(value), value), (float(value), value)])),
        NOT_A_NUMBER | st.sampled_from([3.5, '3.5']),
    ),
    float: (FINITE, WHOLE.map(lambda value: (str(value), float(value))), NOT_A_NUMBER),
    str: (st.text(max_size=5), WHOLE.map(lambda value: (value, str(value))), st.sampled_from([True, [], {}, ['a']])),
    bool: (
        st.booleans(),
        st.sampled_from([('true', True), ('false', False)]),
        st.sampled_from([0, 1, 1.0, 0.0, 'maybe', 2, []]),
    ),
    Literal['lt', 'gt']: (st.sampled_from(['lt', 'gt']), None, st.sampled_from(['LT', '<', 1, True, []])),
    list[str]: (st.lists(st.text(max_size=3), max_size=2), None, st.sampled_from(['abc', {}, 1, [True], [None]])),
    int | None: (WHOLE | st.none(), None, NOT_A_NUMBER),
    bool | None: (st.booleans() | st.none(), None, st.sampled_from([1, 0.0, 'maybe'])),
}
NAMES = ['query', 'limit', 'object', 'start_time', 'from_day', 'k', 'größe']


@st.composite
def functions(draw, name='made'):
    """A function of named parameters that tells what it was given; its parameters as {name: (type, default or ..., meaning)}."""
    told = {}
    for parameter in draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=4)):
        kind = draw(st.sampled_from(list(KINDS)))
        told[parameter] = (kind, draw(st.just(...) | KINDS[kind][0]), draw(st.none() | st.text(min_size=1, max_size=5)))

    def made(**given):
        return Observation(repr(given))

    one = inspect.Parameter
    made.__name__, made.__doc__ = name, 'Does something.'
    made.__signature__ = inspect.Signature(
        [
            one(
                parameter,
                one.KEYWORD_ONLY,
                default=one.empty if default is ... else default,
                annotation=kind if said is None else Annotated[kind, said],
            )
            for parameter, (kind, default, said) in told.items()
        ]
    )
    return made, told


def valid_calls(told):
    """A call that gives all that is required and perhaps the rest, and what the function then gets."""
    required = {name: KINDS[kind][0] for name, (kind, default, _) in told.items() if default is ...}
    optional = {name: KINDS[kind][0] for name, (kind, default, _) in told.items() if default is not ...}
    defaults = {name: default for name, (_, default, _) in told.items() if default is not ...}
    return st.fixed_dictionaries(required, optional=optional).map(lambda call: (call, {**defaults, **call}))


def in_order(told, given):
    return repr({name: given[name] for name in told})


@settings(max_examples=50)
@given(functions(), st.data())
def test_every_valid_call_is_carried_out_with_the_values_it_gave(made, data):
    function, told = made
    call, given_to = data.draw(valid_calls(told))
    assert Tool.of(function)(**call).note == in_order(told, given_to)
    assert Tool.of(function)(**json.loads(json.dumps(call))).note == in_order(told, given_to)


@settings(max_examples=50)
@given(functions(), st.data())
def test_the_same_thing_written_in_another_way_is_taken(made, data):
    function, told = made
    call, given_to = data.draw(valid_calls(told))
    for name, (kind, default, _) in told.items():
        if KINDS[kind][1] is not None and data.draw(st.booleans()):
            call[name], given_to[name] = data.draw(KINDS[kind][1])
        elif default is not ... and kind not in (int | None, bool | None) and data.draw(st.booleans()):
            call[name], given_to[name] = (
                data.draw(st.sampled_from([None, '', ' '] if kind is not str else [None])),
                default,
            )
    assert Tool.of(function)(**call).note == in_order(told, given_to)


@settings(max_examples=50)
@given(
    functions(),
    st.text(max_size=8) | st.sampled_from(['self', 'given', 'arguments', 'Limit', '_call', 'model_config']),
    st.data(),
)
def test_every_unknown_name_is_ignored_and_the_note_says_so(made, name, data):
    function, told = made
    call, given_to = data.draw(valid_calls(told))
    if name not in told and bare_name(name) not in map(bare_name, set(told) - set(call)):
        done = in_order(told, given_to)
        seen = Tool.of(function)(**call, **{name: 1})
        assert seen.note == f'{done} (ignored: {printable(name)})' or not printable(name)
        assert Tool.of(function)(**call, **{name: data.draw(st.sampled_from([None, '', [], {}]))}).note == done


def note(start_time: str, limit: int = 3, mood: str = 'any') -> Observation:
    "Note a day."
    if start_time == 'never':
        raise ToolError('start_time: expected a day')
    return Observation(f'{start_time} {limit} {mood}')


@pytest.mark.parametrize(
    'given, said',
    [
        ({'startTime': '2023', 'Limit': 5}, '2023 5 any'),
        ({'start_time': '2023', 'start_times': '2024'}, '2023 3 any (ignored: start_times)'),
        ({'start_time': '2023', 'StartTime': '2024'}, '2023 3 any (ignored: StartTime)'),
        ({'start_time': '2023', 'when': '2024', 'who': None}, '2023 3 any (ignored: when)'),
        ({'start_time': '2023', 'limit': ' ', 'moods': 'glad'}, '2023 3 any (ignored: moods)'),
        ({'when': '2023', 'why': 'x'}, None),
        ({'start_time': 'never', 'why': 'x'}, 'start_time: expected a day (ignored: why)'),
    ],
)
def test_a_name_counts_without_capitals_and_an_unknown_one_is_reported(given, said):
    tool = Tool.of(note)
    try:
        told = tool(**given).note
    except ToolError as refused:
        told = str(refused)
    assert told == said or said is None and 'start_time: Field required' in told
    reply = {'reasoning': '', 'call': {'function': 'note', 'parameters': given}}
    if said and 'never' not in given.values():
        call = read_reply(json.dumps(reply), choice_of([tool])).call
        assert tool(**call.parameters.model_dump(exclude_unset=True)).note == said


def test_the_note_of_a_tool_that_ends_is_the_answer_alone():
    assert OUTPUT_ANSWER(answer='Rye', mood='glad').note == 'Rye'


@settings(max_examples=50)
@given(functions().filter(lambda made: made[1]), st.data())
def test_another_thing_and_a_missing_one_are_refused_and_named(made, data):
    function, told = made
    call, _ = data.draw(valid_calls(told))
    name = data.draw(st.sampled_from(list(told)))
    kind, default, _ = told[name]
    wrongs = KINDS[kind][2] | (st.none() if default is ... and kind not in (int | None, bool | None) else st.nothing())
    with pytest.raises(ToolError, match=name):
        Tool.of(function)(**{**call, name: data.draw(wrongs)})
    if default is ...:
        del call[name]
        with pytest.raises(ToolError, match=f'{name}: Field required'):
            Tool.of(function)(**call)


def test_a_limit_beside_the_type_holds():
    def look(k: Annotated[int, Field(ge=1, le=9), 'How many'] = 3) -> Observation:
        "Look."
        return Observation(str(k))

    tool = Tool.of(look)
    assert tool(k=9).note == '9' and tool().note == '3'
    assert tool.arguments.model_json_schema()['properties']['k'] == {
        'default': 3,
        'description': 'How many',
        'maximum': 9,
        'minimum': 1,
        'title': 'K',
        'type': 'integer',
    }
    with pytest.raises(ToolError, match='greater than or equal to 1'):
        tool(k=0)


def test_a_meaning_beside_a_default_of_none_is_kept():
    def look(k: Annotated[int | None, 'How many'] = None, name: 'Annotated[str, "Whose"]' = 'any') -> Observation:
        "Look."
        return Observation(f'{k} {name}')

    fields = Tool.of(look).arguments.model_json_schema()['properties']
    assert fields == {
        'k': {
            'anyOf': [{'type': 'integer'}, {'type': 'null'}],
            'default': None,
            'description': 'How many',
            'title': 'K',
        },
        'name': {'default': 'any', 'description': 'Whose', 'title': 'Name', 'type': 'string'},
    }
    assert Tool.of(look)(k=None, name=None).note == 'None any'


def test_a_method_is_a_tool_without_self():
    class Memory:
        def look(self, query: str) -> Observation:
            "Look."
            return Observation(query)

    assert list(Tool.of(Memory().look).arguments.model_fields) == ['query']
    assert Tool.of(Memory().look)(query='x') == Observation('x')


def no_words(query: str): ...


def no_type(query):
    "Search."


def any_number(*queries: str):
    "Search."


def any_option(query: str, **options: str):
    "Search."


def by_place(query: str, /):
    "Search."


def hidden(_query: str):
    "Search."


def shadowing(model_dump: str):
    "Search."


@pytest.mark.parametrize(
    'function',
    [no_words, no_type, any_number, any_option, by_place, hidden, shadowing, lambda: None, partial(no_type, query='x')],
)
def test_what_no_model_could_call_is_no_tool(function):
    with pytest.raises(TypeError, match='a tool has a name|expected parameters with a plain name and a type'):
        Tool.of(function)


@pytest.mark.parametrize('returned', [None, 'text', [], {'note': 'x'}])
def test_a_tool_that_returns_something_else_has_broken(returned):
    def look() -> Any:
        "Look."
        return returned

    with pytest.raises(TypeError, match=f'look returned a {type(returned).__name__}: expected an Observation'):
        Tool.of(look)()


# ------------------------------------------------------------------ pages, and what a prompt shows


@given(st.integers(0, 40), st.integers(0, 45), st.integers(1, 12))
def test_pages_hold_everything_once(count, offset, size):
    items, pages, at = list(range(count)), [], 0
    while at is not None:
        shown, more = page_of(items, at, size)
        pages += shown
        at = int(more.split('offset=')[1]) if more else None
        assert len(shown) <= size and (not more or f'{count - at} more' in more)
    assert pages == items and len(page_of(items)[0]) == min(count, PAGE_SIZE)
    assert page_of(items, offset, size)[0] == items[offset : offset + size]
    with pytest.raises(ToolError, match='offset: expected 0 or more'):
        page_of(items, -1)


def test_a_line_has_the_id_and_what_was_shown_before_is_not_repeated():
    seen = Observation('Found 2', (Hit(Snippet('D1:1', 'Rye')), Hit(Snippet('D1:2', 'Oats'))))
    assert seen.line == 'Found 2\n1. (D1:1) Rye\n2. (D1:2) Oats'
    assert seen.line_after({'D1:1'}) == 'Found 2\n1. (D1:1) as above\n2. (D1:2) Oats'


def test_a_list_of_tools_says_an_equal_argument_once_and_which_values_it_may_have():
    def look(query: Annotated[str, 'What to look for'], order: Literal['up', 'down'] | None = None) -> Observation:
        "Look."

    def find(
        query: Annotated[str, 'What to look for'], order: Annotated[Literal['up', 'down'], 'up or down'] = 'up'
    ) -> Observation:
        "Find."

    assert tools_text([Tool.of(look), Tool.of(find)]) == (
        'look(query, order=None): Look.\n  query: What to look for\n  order: (up, down)\n\nfind(query, order=\'up\'): Find.\n  order: up or down'
    )


# ------------------------------------------------------------------ a choice of tools as a reply

PICK = Role('pick', 'Pick one of\n{tools}', '{question}', reply=lambda inputs: choice_of(inputs['tools']))
rule('pick')(
    lambda question, tools: {'reasoning': 'by rule', 'call': written('output_answer', answer=question)['call']}
)


def written(function, **parameters):
    return {'reasoning': 'because', 'call': {'function': function, 'parameters': parameters}}


def words_in(node):
    """The words of the schema language in a schema; names of fields are none."""
    if isinstance(node, list):
        for value in node:
            yield from words_in(value)
    elif isinstance(node, dict):
        for word, value in node.items():
            yield word
            yield from words_in(
                list(value.values())
                if word in ('properties', '$defs')
                else value
                if word not in ('enum', 'const')
                else None
            )


STRICT_WORDS = {
    '$defs',
    '$ref',
    'type',
    'title',
    'description',
    'properties',
    'required',
    'additionalProperties',
    'anyOf',
    'enum',
    'const',
    'items',
}


@st.composite
def toolboxes(draw):
    """One to three tools with their parameters as told."""
    made = {
        name: draw(functions(name))
        for name in draw(st.lists(st.sampled_from(['find', 'find_more', 'count']), min_size=1, unique=True))
    }
    return {name: (Tool.of(function), told) for name, (function, told) in made.items()}


@settings(max_examples=40)
@given(toolboxes())
def test_the_choice_is_strict_whatever_the_tools_are(box):
    tools = [tool for tool, _ in box.values()]
    schema = strict_schema(choice_of(tools))
    assert set(words_in(schema)) <= STRICT_WORDS
    found = list(objects_in(schema))
    assert len(found) == 1 + 2 * len(tools)
    for node in found:
        assert node['additionalProperties'] is False and node['required'] == list(node['properties'])
    assert schema['type'] == 'object' and list(schema['properties']) == ['reasoning', 'call']
    brief = brief_schema(schema)
    assert brief['properties']['call'] == {
        'type': 'object',
        'properties': {'function': {'enum': list(box)}, 'parameters': {'type': 'object'}},
    }
    assert list(brief) == ['properties', 'type']


class Leaf(BaseModel):
    "A part that is used."

    function: str
    parameters: dict[str, Any] = {}
    title: str = Field('', description='names')


class Branch(BaseModel):
    leaves: list[Leaf]
    branches: list['Branch'] = []


def test_a_brief_schema_keeps_the_parts_that_are_referred_to_and_names_of_fields():
    brief = brief_schema(strict_schema(Branch))
    assert set(brief['$defs']) == {'Branch', 'Leaf'} and list(brief['$defs']['Leaf']['properties']) == [
        'function',
        'parameters',
        'title',
    ]
    assert not {'required', 'description', 'additionalProperties'} & set(words_in(brief))


@settings(max_examples=40)
@given(toolboxes(), st.data())
def test_what_the_strict_schema_allows_is_read_and_carried_out(box, data):
    name = data.draw(st.sampled_from(list(box)))
    tool, told = box[name]
    model = choice_of([tool for tool, _ in box.values()])
    given_to = data.draw(st.fixed_dictionaries({parameter: KINDS[kind][0] for parameter, (kind, _, _) in told.items()}))
    said = written(name, **given_to)
    Draft202012Validator(strict_schema(model)).validate(said)
    call = read_reply(json.dumps(said), model).call
    assert (call.function, call.parameters.model_dump()) == (name, given_to)
    assert tool(**call.parameters.model_dump()).note == in_order(told, given_to)


@settings(max_examples=40)
@given(toolboxes(), st.text(max_size=6))
@example({'find': (OUTPUT_ANSWER, {})}, '')
def test_a_name_that_is_no_tool_is_refused_with_those_that_are(box, name):
    model = choice_of([tool for tool, _ in box.values()])
    names = [tool.name for tool, _ in box.values()]
    if name not in names:
        with pytest.raises(ValueError) as refused:
            read_reply(json.dumps(written(name)), model)
        assert all(f"'{known}'" in str(refused.value) for known in names)


TOOLS = as_tools(lambda query: ['a text'])


@pytest.mark.parametrize(
    'said, told',
    [
        (
            written('find', query='x'),
            "does not match any of the expected tags: 'search', 'search_during', 'output_answer'",
        ),
        (written('search', query=['x'], k=3), 'call.search.parameters.query: Input should be a valid string'),
        ({'reasoning': '', 'call': {'parameters': {}}}, 'does not match any of the expected tags'),
        ('I would search for x.', 'it has no JSON in it'),
    ],
)
def test_a_wrong_call_gets_one_repair_turn_with_its_reason(said, told):
    model = ScriptedLM([said, written('search', query='x')])
    call = model.call(PICK, question='What?', tools=TOOLS)
    assert call.attempts == 2 and call.reply.call.parameters.query == 'x'
    reason = model.prompts[1][2].split('cannot be used: ')[1].split('. Reply again')[0]
    assert told in reason and len(reason) < 200
    with pytest.raises(ReplyError) as failed:
        ScriptedLM([said, said]).ask(PICK, question='What?', tools=TOOLS)
    assert told in str(failed.value)


# ------------------------------------------------------------------ any memory has tools

days = st.integers(1, 28).flatmap(lambda day: st.integers(1, 4).map(lambda month: datetime(2023, month, day)))
WORDS = 'boat sea red blue sail harbour storm'.split()


@given(
    st.lists(st.tuples(st.sampled_from(WORDS), st.none() | days), max_size=8),
    st.sampled_from(WORDS),
    st.integers(0, 5),
    st.integers(1, 4),
    st.integers(1, 4),
)
@example([('boat', None), ('boat', datetime(2023, 2, 1))], 'boat', 1, 1, 4)
@settings(max_examples=60)
def test_the_tools_of_a_store_are_its_search(texts, query, k, first, last):
    index = LexicalIndex()
    index.add([Snippet(f's{number}', text, said=said) for number, (text, said) in enumerate(texts)])
    tools = {tool.name: tool for tool in as_tools(index, k)}
    seen = tools['search'](query=query)
    assert list(seen.hits) == index.search(query, k) and (f'more: offset={k}' in seen.note) == (0 < k == len(seen.hits))
    assert list(tools['search'](query=query, offset=k).hits) == index.search(query, 2 * k)[k:]
    call = {'query': query, 'start_time': f'2023-0{first}', 'end_time': f'2023-0{last}'}
    if first > last:
        with pytest.raises(ToolError, match='start_time: expected one that is not after end_time'):
            tools['search_during'](**call)
        return
    seen = tools['search_during'](**call)
    during = TimeSpan(TimeSpan.month(2023, first).start, TimeSpan.month(2023, last).end, 'span')
    assert list(seen.hits) == index.search(query, k, during=during)
    timeless = not seen.hits and all(hit.snippet.said is None for hit in index.search(query, k))
    assert ('no times' in seen.note) == timeless
    assert f'Found {len(seen.hits)} ' in seen.note


@given(
    st.text(max_size=12)
    | st.sampled_from(['2023', '2023-05', '16 May 2023', 'since 2016', 'until 2016', 'yesterday', '2016-2018'])
)
def test_a_written_date_has_two_ends_or_is_refused_by_name(text):
    try:
        span = day_of(text, 'end_time')
    except ToolError as refused:
        assert str(refused).startswith('end_time: expected a date such as')
    else:
        assert span.start <= span.end


def test_a_memory_gives_its_own_tools_else_those_of_any_store():
    def look(query: str) -> Observation:
        "Look."
        return Observation(query)

    class Own:
        search = None

        def tools(self):
            return (look, OUTPUT_ANSWER)

    class OtherMeaning:
        tools = ('hammer',)

        def search(self, query, k):
            return []

    assert [tool.name for tool in tools_of(Own())] == ['look', 'output_answer']
    for memory in (OtherMeaning(), LexicalIndex(), lambda query: []):
        assert [tool.name for tool in tools_of(memory)] == ['search', 'search_during', 'output_answer']


def test_the_model_of_a_function_is_made_once():
    class Shelf:
        def take(self, place: int) -> Observation:
            "Take a thing."
            return Observation(str(place))

    assert arguments_of(Shelf().take) is arguments_of(Shelf().take)
    assert choice_of([Tool.of(Shelf().take)]) is choice_of([Tool.of(Shelf().take)])
    with pytest.raises(TypeError):
        arguments_of(Shelf.take)  # unbound, it has a parameter without a type
