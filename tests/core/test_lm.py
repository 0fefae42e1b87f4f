"Roles, reading of replies, the lms, and the record of replies: the real openai client against a server that misbehaves."

import json
import os
import pickle
import re
import signal
import sqlite3
import sys
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Literal, Optional, Union

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field, RootModel, create_model

sys.path.insert(0, str(Path(__file__).parents[1]))
from schemas import objects_in
from servers import KEY, Server, authorization, chat, fail, plain, refuse_forms, schema_of
from strikes import forked, needs_fork

from memnb.core.roles import rule
from memnb.core.models import as_lm, LMByRole, OpenAILM, ScriptedLM
from memnb.core.replies import read_reply, Reply
from memnb.core.roles import as_text, LMError, ReplyError, Role, RuleLM, ServerError, Usage, without_tokens
from memnb.core.models import MissingRecord, RecordedLM, RecordError, request_of
from memnb.core.roles import strict_schema
from memnb.core.trace import canonical_json, json_digest


class Plan(Reply):
    name: str
    sources: list[str] = []


class Plans(Reply):
    plans: list[Plan] = []
    who: Optional[str] = None


class Verdict(Reply):
    yes: bool


@rule('plans')
def plans_rule(text):
    return Plans(plans=[Plan(name=text, sources=['D1:1'])])


plans_role = Role('plans', 'List the plans.', 'Text: {text}', Plans, shows_messages=False)
says_when = Role('says_when', 'Does it say when?', 'Message: {text}', Verdict)
rule('says_when')(lambda text: Verdict(yes='May' in text))
quick = settings(max_examples=50)
GOOD = {'plans': [{'name': 'sail', 'sources': ['D1:3']}], 'who': None}
GOOD_REPLY = Plans.model_validate(GOOD)
CUT = '{"plans": [{"name": "sail", "sources": ["D1:3"]}, {"name": "go to Os'


@pytest.fixture(autouse=True)
def no_environment(monkeypatch):
    for name in ('OPENAI_API_KEY', 'OPENAI_BASE_URL'):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv('NO_PROXY', '127.0.0.1')


def client(server, **options):
    return OpenAILM('toy', server.url, KEY, **{'max_retries': 1, 'timeout': 10, **options})


THOUGHTS = {
    'choices': [
        {'message': {'reasoning_details': [{'type': 'reasoning.text', 'text': 'Hm.'}]}, 'finish_reason': 'stop'}
    ]
}
# What the server does, and what becomes of it: the reply or the kind of error, how many requests were made, words of the error

MISBEHAVIOURS = {
    'good': ([chat(GOOD)], GOOD_REPLY, 1),
    'truncated': ([chat(CUT, finish='length')], Plans(plans=[Plan(name='sail', sources=['D1:3'])]), 2),
    'truncated in its first word': ([chat('{"plans": [{"name": "sa', finish='length')], ReplyError, 2, 'cut off'),
    'truncated after a mendable object': ([chat("{'plans': [], 'who': None}", finish='length')], Plans(plans=[]), 1),
    'truncated after all was said': ([chat(json.dumps(GOOD) + '\n\n', finish='length')], GOOD_REPLY, 1),
    'stopped by a filter': ([chat('{"pl', finish='content_filter')], ReplyError, 2, 'cut off'),
    'withheld by a filter': ([chat(None, finish='content_filter')], ServerError, 1, 'content_filter'),
    'thoughts in parts': (
        [plain(json.dumps(THOUGHTS).encode(), 'application/json')],
        ReplyError,
        2,
        'thoughts and no reply',
    ),
    'quotes in an error': ([fail(404, 'no "toy" here')], ServerError, 1, 'no toy here'),
    'prose around': ([chat(f'Sure [as you like]:\n```json\n{json.dumps(GOOD)}\n```\nMore?')], GOOD_REPLY, 1),
    'not quite JSON': ([chat("{'plans': [{'name': 'sail', 'sources': ['D1:3'],}], who: null}")], GOOD_REPLY, 1),
    'list of one': ([chat([GOOD])], GOOD_REPLY, 1),
    'list of two': ([chat([GOOD, {'plans': []}])], Plans(plans=[]), 2),
    'a field left out': ([chat({'who': 'Ana'})], Plans(who='Ana'), 1),
    'echoed schema': ([chat(schema_of)], ReplyError, 2, 'the schema itself'),
    'two different replies': ([chat(json.dumps(GOOD) + ' or {"plans": []}')], Plans(plans=[]), 2),
    'empty': ([chat('')], ReplyError, 2, 'it was empty'),
    'null content with refusal': ([chat(None, refusal='I cannot.')], ReplyError, 2, 'declines to reply'),
    '429': ([fail(429, 'slow', retry_after='0.05')], ServerError, 2, '429'),
    '500, then good': ([fail(500, 'oops', retry_after_ms=10), chat(GOOD)], GOOD_REPLY, 2),
    '500': ([fail(500, 'oops', retry_after_ms=10)], ServerError, 2, '500'),
    'stall': ([chat(GOOD, stall=4)], ServerError, 2, 'timed out'),
    'dropped connection': ([chat(GOOD, drop=0)], ServerError, 2, 'Connection'),
    'text refused, too': (
        [refuse_forms(['json_schema', 'json_object', 'text'], GOOD)],
        ServerError,
        3,
        'not supported',
    ),
    'prompt too long': ([fail(400, 'maximum context length exceeded')], ServerError, 1, 'context length'),
    'wrong key, quoted': ([fail(401, authorization)], ServerError, 1, 'Bearer <key>'),
    'key in the reply': ([chat(authorization)], ReplyError, 2, 'no JSON'),
    'a web page': ([plain(b'<html>Welcome</html>')], ServerError, 1, 'something else than a chat completion'),
    'an error with status 200': ([plain(b'{"error": {}}', 'application/json')], ServerError, 1, 'something else'),
}


def everything_said(error):
    "All that could be printed of an error, with what led to it."
    chain, found = error, []
    while chain is not None:
        found += [repr(chain), str(vars(chain)), *traceback.format_exception(chain)]
        chain = chain.__cause__ or chain.__context__
    return '\n'.join(found)


@pytest.mark.parametrize('name', MISBEHAVIOURS)
def test_misbehaviour(name):
    answers, expected, requests, *words = MISBEHAVIOURS[name]
    with Server(*answers) as server:
        lm = client(server, timeout=0.4 if name == 'stall' else 10)
        try:
            outcome = lm.call(plans_role, text='I want to sail.')
        except LMError as error:
            outcome = error
            assert KEY not in everything_said(error)
            assert words[0] in str(error)
            assert len(str(error)) < 600
        assert len(server.requests) == requests
    if isinstance(expected, Plans):
        assert outcome.reply == expected and type(outcome.reply) is Plans
        assert outcome.usage.calls == outcome.attempts
    else:
        assert type(outcome) is expected
        assert KEY not in pickle.dumps(outcome).decode('latin-1')
    if expected is ReplyError:
        assert (outcome.role, outcome.attempts, outcome.usage.calls) == ('plans', 2, 2)
        assert isinstance(outcome.raw, str) and KEY not in outcome.raw
    assert KEY not in repr(lm) + str(vars(lm)) + str(vars(lm._server)) + str(lm.settings()) + repr(outcome)


def form(request):
    return request.get('response_format', {}).get('type')


@pytest.mark.parametrize('words', ['Invalid schema for response_format: no', 'Failed to generate JSON'])
def test_one_bad_schema_or_reply_does_not_lower_the_level_for_the_others(words):
    with Server(refuse_forms(['json_schema'], GOOD, words)) as server:
        lm = client(server)
        for text in ('one', 'two'):
            lm.ask(plans_role, text=text)
        assert [form(request) for request in server.requests] == ['json_schema', 'json_object'] * 2


def test_the_level_is_not_remembered_where_nothing_worked():
    with Server(*[fail(400, 'unsupported')] * 3, chat(GOOD)) as server:
        lm = client(server)
        with pytest.raises(ServerError):
            lm.ask(plans_role, text='one')
        lm.ask(plans_role, text='two')
        assert [form(request) for request in server.requests] == ['json_schema', 'json_object', None, 'json_schema']


def test_what_is_sent():
    with Server(chat(GOOD)) as server:
        client(server, seed=4, max_tokens=50, extra={'top_k': 1}).ask(plans_role, text='{braces} \ud800')
        client(server, temperature=None).ask(plans_role, text='x')
        first, second = server.requests
    assert (first['model'], first['temperature'], first['seed'], first['max_tokens'], first['top_k']) == (
        'toy',
        0,
        4,
        50,
        1,
    )
    assert first['messages'] == [
        {'role': 'system', 'content': 'List the plans.'},
        {'role': 'user', 'content': 'Text: {braces} ?'},
    ]
    assert first['response_format']['json_schema'] == {'name': 'Plans', 'strict': True, 'schema': strict_schema(Plans)}
    assert not {'temperature', 'seed', 'max_tokens'} & set(second)
    assert first['_headers']['authorization'] == f'Bearer {KEY}'


def test_the_second_attempt_shows_the_first_and_what_was_wrong_with_it():
    with Server(chat('no plans'), chat(GOOD)) as server:
        call = client(server).call(plans_role, text='x')
        again = server.requests[1]['messages'][1]['content']
    assert (
        again.startswith('Text: x\n')
        and 'no plans' in again
        and 'it has no JSON in it' in again
        and '"sources"' in again
    )
    assert (call.user, call.attempts, call.raw) == ('Text: x', 2, json.dumps(GOOD))


def test_usage_is_the_servers_or_marked_as_estimated():
    with Server(chat(GOOD), chat(GOOD, usage=None), chat('no', usage=(5, 1)), chat(GOOD)) as server:
        lm = client(server)
        assert lm.call(plans_role, text='x').usage == Usage(1, 7, 3)
        estimated = lm.call(plans_role, text='x').usage
        assert estimated.estimated and estimated.prompt_tokens == -(-len('List the plans.Text: x') // 4)
        assert lm.call(plans_role, text='x').usage == Usage(2, 12, 4)


def test_a_server_error_after_a_refused_reply_tells_of_both():
    with Server(chat('no'), fail(500, 'oops', retry_after_ms=5)) as server:
        with pytest.raises(ServerError, match='500.*the reply before was refused: it has no JSON') as caught:
            client(server).ask(plans_role, text='x')
    assert caught.value.usage == Usage(1, 7, 3)


# The key


def test_the_key_comes_from_the_environment_and_stays_secret(monkeypatch):
    monkeypatch.setenv('OPENAI_API_KEY', KEY + '\n')
    with Server(fail(401, authorization)) as server:
        monkeypatch.setenv('OPENAI_BASE_URL', server.url)
        lm = OpenAILM('toy')
        with pytest.raises(ServerError, match='Bearer <key>') as caught:
            lm.ask(plans_role, text='x')
        assert server.requests[0]['_headers']['authorization'] == f'Bearer {KEY}'
    assert KEY not in everything_said(caught.value) + repr(lm)


def test_a_key_that_was_changed_is_used_from_then_on_and_the_old_one_stays_secret(monkeypatch):
    old, new = 'sk-env-OLD1234567', 'sk-env-NEW1234567'
    monkeypatch.setenv('OPENAI_API_KEY', old)
    with Server(chat(GOOD), fail(401, authorization), fail(401, f'not {old} or {new}')) as server:
        lm = OpenAILM('toy', server.url)
        lm.ask(plans_role, text='x')
        monkeypatch.setenv('OPENAI_API_KEY', new)
        for words in ('Bearer <key>', 'not <key> or <key>'):
            with pytest.raises(ServerError, match=words) as caught:
                lm.ask(plans_role, text='x')
            assert not {old, new} & set(re.findall(r'sk-[\w-]+', everything_said(caught.value)))
        sent = [request['_headers']['authorization'] for request in server.requests]
        assert sent == [f'Bearer {key}' for key in (old, new, new)]
        monkeypatch.delenv('OPENAI_API_KEY')
        with pytest.raises(ServerError, match='not <key> or <key>'):
            lm.ask(plans_role, text='x')
        assert server.requests[-1]['_headers']['authorization'] == 'Bearer unused'


@pytest.mark.parametrize('status', [301, 302, 303, 307, 308])
def test_a_redirect_to_another_host_is_not_followed(status):
    """It would take the whole prompt there, that is what is remembered."""
    with Server(chat(GOOD)) as other, Server(fail(status, 'moved', Location=f'{other.url}/chat/completions')) as server:
        with pytest.raises(ServerError, match=str(status)):
            client(server).ask(plans_role, text='x')
        assert len(server.requests) == 1 and other.requests == []


def test_a_secret_among_further_fields_is_refused():
    """They are in the settings, and so in every record and report."""
    for name in ('api_key', 'apiKey', 'Authorization', 'password', 'token'):
        with pytest.raises(ValueError, match='a secret belongs in api_key'):
            OpenAILM('toy', 'http://127.0.0.1:9/v1', extra={name: KEY})
        with pytest.raises(ValueError, match='a secret belongs in api_key'):
            OpenAILM('toy', 'http://127.0.0.1:9/v1', extra={'tools': [{'headers': {name: KEY}}]})
    OpenAILM('toy', 'http://127.0.0.1:9/v1', extra={'top_k': 1, 'max_tokens_to_sample': 9, 'stop_token_ids': [1]})


@pytest.mark.parametrize(
    'key',
    [
        'sk-abcdefgh',
        'a1b2c3d4e5f6',
        '0f8fad5b-d9cb-469f-a165-70867728950e',
        'token_42',
        'q' * 20,
        'aB3-xY9_q7Zk-Lm2P_tr8V',
    ],
)
def test_a_key_in_the_path_of_the_address_is_in_no_record(key):
    with Server(fail(404, f'no /{key}/v1 here')) as server:
        lm = OpenAILM('toy', server.url.replace('/v1', f'/proxy/{key}/v1'), max_retries=0)
        assert re.search(r'/proxy/#[0-9a-f]{4}/v1$', lm.settings()['base_url'])
        with pytest.raises(ServerError) as caught:
            lm.ask(plans_role, text='x')
        assert f'/{key}/' in server.requests[0]['_path']
    assert key not in repr(lm) + json.dumps(lm.settings()) + everything_said(caught.value)


def test_an_address_without_a_key_is_shown_as_it_is():
    for path in (
        'v1',
        'openai/deployments/gpt-4o-mini-2024-07-18',
        'compatible-mode/v1',
        'text-generation-inference/v1beta',
    ):
        url = f'http://127.0.0.1:9/{path}'
        assert OpenAILM('toy', url).settings()['base_url'] == url


def test_no_key_at_all():
    with pytest.raises(ServerError, match='OPENAI_API_KEY'):
        OpenAILM('toy').ask(plans_role, text='x')
    with Server(chat(GOOD)) as server:
        assert OpenAILM('toy', server.url).ask(plans_role, text='x') == GOOD_REPLY


def test_a_copy_for_another_process_leaves_the_key_behind():
    with Server(chat(GOOD)) as server:
        lm = client(server)
        lm.ask(plans_role, text='x')
        packed = pickle.dumps(lm)
        assert KEY.encode() not in packed
        copy = pickle.loads(packed)
        assert copy.ask(plans_role, text='x') == GOOD_REPLY
        assert server.requests[1]['_headers']['authorization'] == 'Bearer unused'
    assert copy.settings() == lm.settings()


def test_eight_threads_have_eight_requests_in_flight_each_by_a_client_of_its_own():
    all_there = threading.Barrier(8)

    def answer(request):
        all_there.wait(30)  # with fewer in flight nobody is answered
        return chat(GOOD)(request)

    with Server(answer) as server:
        lm = client(server, timeout=60, max_retries=0)

        def ask(text):
            return lm.ask(plans_role, text=text), lm._server.client, lm._server.client

        with ThreadPoolExecutor(8) as threads:
            found = list(threads.map(ask, map(str, range(8))))
    assert [reply for reply, *_ in found] == 8 * [GOOD_REPLY] and len(server.requests) == 8
    assert len({id(first) for _, first, _ in found}) == 8 and all(first is again for _, first, again in found)


class Loose(BaseModel):
    items: list[int] = []
    note: str = ''
    extra: dict[str, int] = {}


class Tool(BaseModel):
    kind: Literal['search', 'stop']
    query: str = ''


MODELS = [Plans, Verdict, Loose, Tool, RootModel[list[int]], RootModel[Union[int, str]]]
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(['plans', 'who', 'yes', 'items', 'note', 'properties', 'type', 'x']), inner)
    ),
    max_leaves=12,
)
plans_values = st.builds(
    Plans,
    plans=st.lists(st.builds(Plan, name=st.text(), sources=st.lists(st.text(max_size=5), max_size=3)), max_size=3),
    who=st.none() | st.text(),
)
json_texts = json_values.map(json.dumps) | plans_values.map(lambda value: value.model_dump_json())
bracket_soup = st.text(alphabet='{}[]",:\\ \'truefalsn01yes', max_size=60)


@st.composite
def damaged(draw):
    "A JSON text with a piece cut out, another put in, and prose around it."
    text = draw(json_texts)
    start, end = sorted(draw(st.tuples(st.integers(0, len(text)), st.integers(0, len(text)))))
    return (
        draw(st.sampled_from(['', 'Sure: ', '```json\n', '<think>']))
        + text[:start]
        + draw(bracket_soup)
        + text[end:]
        + draw(st.sampled_from(['', ' ok?', '```']))
    )


@settings(max_examples=120)
@given(text=st.text() | json_texts | bracket_soup | damaged(), model=st.sampled_from(MODELS))
@example(text='[' * 100_000, model=Plans)
@example(text='{"a":' * 50_000, model=Plans)
@example(text='1' * 5000, model=Loose)
@example(text='{"items": [1e999]}', model=Loose)
@example(text='{"plans": [{"name": "\\ud800", "sources": []}]}', model=Plans)
@example(text='\ud800', model=Plans)
@example(text='{' * 300 + '}' * 300, model=Plans)
def test_any_string_becomes_a_reply_or_a_reply_error(text, model):
    role = Role('any', '', '{text}', model)
    try:
        call = as_lm(lambda prompt: text).call(role, text='x')
    except ReplyError as error:
        assert error.raw == text and error.attempts == 2
    else:
        assert isinstance(call.reply, model) and call.raw == text


@quick
@given(text=bracket_soup | json_texts, model=st.sampled_from(MODELS))
def test_collections_that_are_left_out_are_noted(text, model):
    notes = []
    try:
        reply = read_reply(text, model, notes=notes)
    except ValueError:
        return
    for name, value in vars(reply).items():
        assert value or not isinstance(value, (list, dict)) or name in reply.model_fields_set or 'left out' in notes[-1]


@quick
@given(plans_values)
def test_what_is_well_said_is_understood(value):
    text = value.model_dump_json()
    for said in (
        text,
        f'[{text}]',
        f'Here: {text}, as you wished.',
        f'```json\n{text}\n```',
        f'{text}\n{text}',
        f'<think>{{</think>{text}',
    ):
        assert read_reply(said, Plans) == value


@quick
@given(plans_values, st.data())
def test_a_part_of_a_reply_is_never_a_reply(value, data):
    text = value.model_dump_json()
    part = text[: data.draw(st.integers(0, len(text) - 1))]
    for said in (part, f'Sure: {part}', f'```json\n{part}'):
        for cut in (False, True):
            with pytest.raises(ValueError):
                read_reply(said, Plans, cut)


@quick
@given(plans_values, st.data())
def test_the_whole_part_of_a_reply_has_nothing_that_the_reply_has_not(value, data):
    text = value.model_dump_json()
    part = text[: data.draw(st.integers(0, len(text) - 1))]
    try:
        read = read_reply(part, Plans, last=True)
    except ValueError:
        return
    assert len(read.plans) <= len(value.plans) and read.who in (None, value.who)
    for plan, whole in zip(read.plans, value.plans):
        assert (plan.name, plan.sources) == (whole.name, whole.sources[: len(plan.sources)])


class Search(BaseModel):
    kind: Literal['search'] = 'search'
    default: str = Field('x', description='a field with a telling name')


class Stop(BaseModel):
    kind: Literal['stop']
    properties: dict[str, int] = {}


class Turn(BaseModel):
    calls: list[Union[Search, Stop]] = Field(description='one or more')
    chosen: Union[Search, Stop] = Field(Search(), discriminator='kind')
    inner: Optional[Plans] = None
    plan: Plan = Field(description='stands beside a reference')


@pytest.mark.parametrize('model', [Turn, Plans, Verdict, Search, Stop])
def test_strict_schema(model):
    schema = strict_schema(model)
    found = list(objects_in(schema))
    assert found
    for node in found:
        assert node['additionalProperties'] is False and node['required'] == list(node['properties'])
        for field in node['properties'].values():
            assert 'default' not in field and 'oneOf' not in field and 'discriminator' not in field
            assert '$ref' not in field or list(field) == ['$ref']
    assert set(schema['properties']) == set(model.model_fields)


# Roles


@quick
@given(st.lists(st.lists(st.sampled_from(['a', '- ', '\n', '\n- ', ' ']), max_size=6).map(''.join)))
@example(['a\n- b'])
def test_a_list_has_one_line_with_a_dash_per_item(items):
    lines = as_text(items).split('\n')
    assert sum(line.startswith('- ') for line in lines) == len(items)


@quick
@given(st.text())
def test_inputs_are_never_templates(text):
    assert plans_role.render({'text': text}) == ('List the plans.', 'Text: ' + without_tokens(text))


usages = st.builds(Usage, st.integers(0, 9), st.integers(0, 99), st.integers(0, 99), st.booleans())


@quick
@given(usages, usages, usages)
def test_usages_add_up(a, b, c):
    assert a + b == b + a and (a + b) + c == a + (b + c) and a + Usage() == a
    total = sum([a, b, c], Usage())
    assert total.tokens == a.tokens + b.tokens + c.tokens
    assert total.estimated == (a.estimated or b.estimated or c.estimated)


def test_rules():
    call = RuleLM().call(plans_role, text='sail')
    assert (call.reply, call.usage, call.user, call.raw) == (plans_rule('sail'), Usage(), '', None)
    assert RuleLM(render=True).call(plans_role, text='sail').user == 'Text: sail'
    rule('no plans')(lambda text: {'plans': []})
    assert RuleLM().ask(replace(plans_role, name='no plans'), text='x') == Plans()
    for wrong in ('no', None, Verdict(yes=True), {'plans': 3}):
        rule('wrong')(lambda text: wrong)
        result = replace(plans_role, name='wrong', reply=Tool)
        with pytest.raises(TypeError, match="role 'wrong': its rule must return Tool"):
            RuleLM().ask(result, text='x')


# The record

parts_of_a_question = {
    'name': st.sampled_from(['a', 'b']),
    'system': st.sampled_from(['a', 'b']),
    'text': st.sampled_from(['a', 'b', 'é']),
    'reply': st.sampled_from([Plans, Verdict, Tool]),
    'model': st.sampled_from(['a', 'b']),
    'url': st.sampled_from(['http://a/v1', 'http://b/v1']),
    'temperature': st.sampled_from([None, 0.0, 1.0]),
    'seed': st.sampled_from([None, 0, 1]),
    'max_tokens': st.sampled_from([None, 1, 2]),
    'extra': st.sampled_from([None, {'top_k': 1}]),
    'repeat': st.sampled_from([0, 1]),
}
components = st.fixed_dictionaries(parts_of_a_question)


def key_of_parts(parts, **lm_options):
    role = Role(parts['name'], parts['system'], '{text}', parts['reply'])
    lm = OpenAILM(
        parts['model'],
        parts['url'],
        temperature=parts['temperature'],
        seed=parts['seed'],
        max_tokens=parts['max_tokens'],
        extra=parts['extra'],
        **lm_options,
    )
    return json_digest(request_of(lm, role, {'text': parts['text']}, parts['repeat']))


@quick
@given(components, components)
def test_two_questions_have_one_key_exactly_if_they_are_the_same(one, other):
    assert (key_of_parts(one) == key_of_parts(other)) == (one == other)


@quick
@given(components)
def test_what_shapes_no_reply_is_not_in_the_key(parts):
    assert key_of_parts(parts) == key_of_parts(parts, api_key=KEY, timeout=1, max_retries=0)


plain_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**9), 10**9)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


@quick
@given(plain_json)
def test_canonical_json(value):
    def reversed_names(value):
        if isinstance(value, dict):
            return {name: reversed_names(value[name]) for name in sorted(value, reverse=True)}
        return [reversed_names(item) for item in value] if isinstance(value, list) else value

    text = canonical_json(value)
    assert canonical_json(reversed_names(value)) == text and text.isascii() and '\n' not in text
    assert json.loads(text) == value and canonical_json(json.loads(text)) == text


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=plans_values, text=st.text())
def test_a_replay_is_what_was_recorded(tmp_path, value, text):
    lm = ScriptedLM(['refused', value], name=f'{hash((str(value), text))}')
    path = tmp_path / 'r.sqlite'
    first = RecordedLM(lm, path).call(plans_role, text=text)
    second = RecordedLM(ScriptedLM([], name=lm.name), path, mode='replay').call(plans_role, text=text)
    assert second == replace(first, cached=True)


def test_modes(tmp_path):
    path = tmp_path / 'r.sqlite'
    with pytest.raises(RecordError, match='r.sqlite'):
        RecordedLM(ScriptedLM([]), path, mode='replay')
    inner = ScriptedLM([{'yes': True}, {'yes': False}, {'yes': True}])
    auto = RecordedLM(inner, path)
    assert [auto.ask(says_when, text='x').yes for _ in range(3)] == [True] * 3
    assert auto.forget('Does it say when') == 1
    assert not auto.call(says_when, text='x').cached
    assert auto.call(says_when, text='x').reply.yes is False and auto.call(says_when, text='x').cached
    assert RecordedLM(inner, path, repeat=1).ask(says_when, text='x').yes is True
    replayed = RecordedLM(ScriptedLM([]), path, mode='replay', repeat=1)
    assert replayed.ask(says_when, text='x').yes is True and replayed.name == 'scripted'
    with pytest.raises(MissingRecord, match='no reply of scripted as says_when'):
        replayed.ask(says_when, text='y')
    with pytest.raises(ValueError, match='mode must be'):
        RecordedLM(inner, path, mode='replya')
    with pytest.raises(ValueError, match='needs a name'):
        RecordedLM(str.upper, path)


def test_errors_of_the_server_are_not_kept_and_unusable_replies_are(tmp_path):
    path = tmp_path / 'r.sqlite'
    with Server(
        fail(500, 'no', retry_after_ms=5), fail(500, 'no', retry_after_ms=5), chat('no'), chat('no'), chat(GOOD)
    ) as server:
        lm = RecordedLM(client(server), path)
        with pytest.raises(ServerError):
            lm.ask(plans_role, text='x')
        for _ in range(2):
            with pytest.raises(ReplyError) as caught:
                lm.ask(plans_role, text='x')
            assert (caught.value.raw, caught.value.usage, caught.value.role) == ('no', Usage(2, 14, 6), 'plans')
        assert len(server.requests) == 4
        assert lm.ask(plans_role, text='y') == GOOD_REPLY


def test_no_key_in_the_file(tmp_path):
    path = tmp_path / 'r.sqlite'
    reply = {'plans': [{'name': KEY, 'sources': []}], 'who': None}
    with Server(chat(authorization), chat(authorization), chat(reply)) as server:
        lm = RecordedLM(client(server), path)
        with pytest.raises(ReplyError):
            lm.ask(plans_role, text='x')
        assert lm.ask(plans_role, text='y').plans[0].name == '<key>'
        with lm._open():
            files = list(tmp_path.iterdir())
            assert files and all(KEY.encode() not in file.read_bytes() for file in files)
    assert b'<key>' in b''.join(file.read_bytes() for file in tmp_path.iterdir())


def test_replay_needs_no_server_no_key_and_no_client(tmp_path):
    path = tmp_path / 'r.sqlite'
    with Server(chat(GOOD)) as server:
        url = server.url
        RecordedLM(client(server), path).ask(plans_role, text='x')
    lm = OpenAILM('toy', url)
    assert RecordedLM(lm, path, mode='replay').ask(plans_role, text='x') == GOOD_REPLY
    assert not hasattr(lm._server._local, 'client')


def test_a_record_in_a_folder_that_cannot_be_written_to(tmp_path):
    path = tmp_path / 'r.sqlite'
    RecordedLM(ScriptedLM([GOOD]), path).ask(plans_role, text='x')
    path.chmod(0o400)
    tmp_path.chmod(0o500)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    assert RecordedLM(ScriptedLM([]), path, mode='replay').ask(plans_role, text='x') == GOOD_REPLY
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before
    tmp_path.chmod(0o700)


def test_a_reply_that_no_longer_fits_is_an_error(tmp_path):
    path = tmp_path / 'r.sqlite'
    RecordedLM(ScriptedLM([GOOD]), path).ask(plans_role, text='x')
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("""UPDATE replies SET outcome = replace(outcome, '"sail"', '[]')""")
    with pytest.raises(RecordError, match='no longer fits'):
        RecordedLM(ScriptedLM([]), path, mode='replay').ask(plans_role, text='x')


def test_threads_agree(tmp_path):
    counter, lock = [0], threading.Lock()

    def count(prompt):
        with lock:
            counter[0] += 1
            return json.dumps({'plans': [{'name': str(counter[0]), 'sources': []}]})

    lm = RecordedLM(as_lm(count, 'counter'), tmp_path / 'r.sqlite')
    with ThreadPoolExecutor(4) as threads:
        asked = [[str(number) for number in range(8)]] * 4
        found = list(threads.map(lambda texts: [lm.ask(plans_role, text=text).plans[0].name for text in texts], asked))
    assert found[0] == found[1] == found[2] == found[3] and len(set(found[0])) == 8


SAID = Role('r', '', '{text}', create_model('Said', text=(str, ...)))


def record_on(path, heard, numbers):
    """Record a reply to each number, and note each that has been acknowledged."""
    reply = json.dumps({'text': f'{os.getpid()}' + 'x' * 3000})
    lm, notes = RecordedLM(as_lm(lambda prompt: reply, 'writer'), path), os.open(heard, os.O_WRONLY | os.O_CREAT)
    for number in numbers:
        os.write(notes, f'{number} {lm.ask(SAID, text=str(number)).text[:20]}\n'.encode())


def noted(heard):
    return [line.split() for line in heard.read_text().splitlines()] if heard.exists() else []


@needs_fork
def test_a_killed_writer_loses_nothing_that_was_there(tmp_path):
    path, acknowledged = tmp_path / 'r.sqlite', []
    for attempt in range(10):
        heard = tmp_path / f'heard {attempt}'
        writer = forked(record_on, path, heard, range(len(acknowledged), 10**6))
        while len(noted(heard)) < 3 + attempt % 3 and writer.is_alive():
            time.sleep(0.001)
        time.sleep(attempt * 0.0007)
        writer.kill()
        writer.join()
        assert writer.exitcode == -signal.SIGKILL
        acknowledged += noted(heard)
    assert len(acknowledged) >= 30
    lm = RecordedLM(as_lm(lambda prompt: '', 'writer'), path, mode='replay')
    assert all(lm.ask(SAID, text=number).text.startswith(start) for number, start in acknowledged)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute('PRAGMA integrity_check').fetchone() == ('ok',)
        for key, request, outcome in connection.execute('SELECT * FROM replies'):
            assert json_digest(json.loads(request)) == key and json.loads(outcome)['reply']


@needs_fork
def test_three_processes_share_a_new_file_and_agree(tmp_path):
    orders = {'one': range(40), 'two': range(39, -1, -1), 'three': range(40)}
    writers = [forked(record_on, tmp_path / 'r.sqlite', tmp_path / name, numbers) for name, numbers in orders.items()]
    for writer in writers:
        writer.join(60)
    found = [dict(noted(tmp_path / name)) for name in orders]
    assert found[0] == found[1] == found[2] and len(found[0]) == 40


def test_a_seed_is_another_recorded_reply_in_the_same_file(tmp_path):
    with Server(chat({'yes': True})) as server:
        lm = RecordedLM(client(server), tmp_path / 'replies.sqlite')
        for seeded in (lm, lm.seeded(1), lm.seeded(2), lm.seeded(1), lm):
            seeded.ask(says_when, text='x')
        assert [request.get('seed') for request in server.requests] == [None, 1, 2]


def test_a_word_for_a_server_without_keys_is_not_struck_out():
    """Many servers of one's own take any key, and people write `x`."""
    reply = {'plans': [{'name': 'six boxes', 'sources': []}], 'who': None}
    with Server(chat(reply)) as server:
        lm = OpenAILM('m', server.url, 'x', max_retries=0)
        assert lm.ask(plans_role, text='y').plans[0].name == 'six boxes'


def named(name):
    """An lm that answers with its own name."""
    return as_lm(lambda prompt: {'plans': [{'name': name}]}, name)


ASKED = [replace(plans_role, name=name) for name in ('answer', 'track', 'plans', 'mine')]


@quick
@given(st.lists(st.sampled_from(ASKED), unique_by=lambda role: role.name), st.booleans())
def test_each_role_asks_the_lm_that_it_was_given(own, by_name):
    keys = [role.name if by_name and role.name != 'mine' else role for role in own]
    lm = LMByRole({key: named(role.name) for key, role in zip(keys, own)}, named('others'))
    for role in ASKED:
        assert lm.ask(role, text='x').plans[0].name == (role.name if role in own else 'others')


def test_the_rules_answer_what_no_lm_is_given_for():
    lm = LMByRole({says_when: ScriptedLM([{'yes': True}])})
    assert lm.ask(plans_role, text='sail').plans[0].name == 'sail'
    assert lm.ask(says_when, text='x') == Verdict(yes=True)


def test_lms_by_role_send_their_seed_and_are_recorded_apart(tmp_path):
    with Server(chat({'yes': True})) as server:
        one, two = (LMByRole({says_when: client(server, temperature=heat)}) for heat in (0.0, 0.5))
        for lm in (one, two, one.seeded(3), one):
            RecordedLM(lm, tmp_path / 'replies.sqlite').ask(says_when, text='x')
        sent = [(request['temperature'], request.get('seed')) for request in server.requests]
    assert sent == [(0.0, None), (0.5, None), (0.0, 3)]


@pytest.mark.parametrize(
    ('lms', 'message'),
    [
        ({'anwser': named('x')}, r"expected a Role, or the name of one \(.*answer.*\), got 'anwser'"),
        ({'answer': 'gpt-4.1-mini'}, r"expected an lm, got a str: did you mean OpenAILM\('gpt-4.1-mini'\)"),
        ({None: named('x')}, 'expected a Role'),
    ],
)
def test_a_role_that_nobody_asks_and_a_thing_that_is_no_lm_are_refused(lms, message):
    with pytest.raises((ValueError, TypeError), match=message):
        LMByRole(lms)
