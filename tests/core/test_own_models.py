"""Functions and clients of the user's own as models: what they are told, what they may return, and how they fail."""

import asyncio
import pickle
from functools import partial, wraps
from types import SimpleNamespace

import openai
import pytest
from pydantic import BaseModel

import own_model
from memnb.core.loop import Loop
from memnb.core.models import as_lm, FunctionLM, ModelFailed, OpenAILM
from memnb.core.roles import LMError, ReplyError, Role, ServerError, Usage


class Note(BaseModel):
    text: str


ROLE = Role('note', 'Note it.', '{text}', Note)
GOOD = '{"text": "a boat"}'


def asked(function):
    return as_lm(function).call(ROLE, text='x')


# What it is told


def plain(prompt):
    return {'text': 'nothing'}


def by_place(prompt, role):
    return {'text': role}


def by_name(prompt, *, role='?'):
    return {'text': role}


async def later(prompt, role):
    await asyncio.sleep(0)
    return {'text': role}


class Object:
    def __call__(self, prompt, role):
        return {'text': role}


def retried(*arguments, **options):
    """A wrapper of another function, as without functools.wraps."""
    return plain(*arguments, **options)


@pytest.mark.parametrize(
    'function, told',
    [
        (plain, 'nothing'),
        (by_place, 'note'),
        (by_name, 'note'),
        (later, 'note'),
        (Object(), 'note'),
        (retried, 'nothing'),
        (wraps(by_name)(lambda *arguments, **options: by_name(*arguments, **options)), 'note'),
        (lambda prompt: later(prompt, 'by a lambda'), 'by a lambda'),
        (Object().__call__, 'note'),
    ],
)
def test_a_function_that_takes_the_role_is_told_it(function, told):
    assert asked(function).reply == Note(text=told)


def test_an_async_function_is_awaited_where_a_loop_runs_already():
    async def cell():
        return asked(later).reply.text

    assert asyncio.run(cell()) == 'note'


def test_a_function_goes_to_another_process():
    for function in (plain, later, Object()):
        assert pickle.loads(pickle.dumps(as_lm(function))).call(ROLE, text='x').reply == asked(function).reply


def test_functions_are_called_by_their_names():
    assert [as_lm(one).name for one in (plain, later, Object(), partial(by_place, role='x'), lambda prompt: '')] == [
        'plain',
        'later',
        'Object',
        'by_place',
        '<lambda>',
    ]
    assert as_lm(plain, 'mine').name == 'mine' and as_lm(plain).settings() == {'model': None}


# What it may return


@pytest.mark.parametrize(
    'said',
    [
        GOOD,
        {'text': 'a boat'},
        [{'text': 'a boat'}],
        Note(text='a boat'),
        SimpleNamespace(content=GOOD),
        SimpleNamespace(text=GOOD),
        SimpleNamespace(message=SimpleNamespace(content=GOOD)),
    ],
)
def test_what_was_obviously_meant_is_read(said):
    assert asked(lambda prompt: said).reply == Note(text='a boat')


def test_a_chat_completion_has_its_own_cost_and_may_be_cut_off():
    message = {'index': 0, 'finish_reason': 'stop', 'message': {'role': 'assistant', 'content': GOOD}}
    said = openai.types.chat.ChatCompletion.model_validate(
        {
            'id': 'x',
            'object': 'chat.completion',
            'created': 0,
            'model': 'm',
            'choices': [message],
            'usage': {'prompt_tokens': 7, 'completion_tokens': 3, 'total_tokens': 10},
        }
    )
    assert asked(lambda prompt: said).reply == Note(text='a boat') and asked(lambda prompt: said).usage == Usage(
        1, 7, 3
    )
    said.choices[0].finish_reason = 'length'
    with pytest.raises(ReplyError, match='^<lambda>, as note: no usable reply') as caught:
        said.choices[0].message.content = GOOD[:-3]
        asked(lambda prompt: said)
    assert 'cut off' in str(caught.value)


@pytest.mark.parametrize(
    'said', [None, b'{"text": "a boat"}', 3, object(), SimpleNamespace(content=None), SimpleNamespace(content=[])]
)
def test_what_is_no_text_is_the_function_s_failure(said):
    with pytest.raises(ModelFailed, match='^plain: expected a text to be returned, got ') as caught:
        FunctionLM(lambda prompt: said, 'plain').call(ROLE, text='x')
    assert repr(said)[:20] in str(caught.value)


# How it fails


@pytest.mark.parametrize(
    'function, text',
    [
        (own_model.broken, 'broken: ZeroDivisionError: division by zero'),
        (own_model.broken_later, 'broken_later: ConnectionError: gone'),
        (
            own_model.broken_in_a_library,
            'broken_in_a_library: JSONDecodeError: Expecting value: line 1 column 1 (char 0)',
        ),
        (lambda prompt: {'text': object()}, '<lambda>: TypeError: Object of type object is not JSON serializable'),
    ],
)
def test_a_fault_of_the_function_is_its_own(function, text):
    with pytest.raises(ModelFailed) as caught:
        asked(function)
    assert str(caught.value) == text and isinstance(caught.value, LMError) and not isinstance(caught.value, ServerError)
    assert type(caught.value.__cause__).__name__ in text

    class Asks(Loop):
        def steps(self, run):
            run.ask(ROLE, text='x')

    assert Asks(lambda query: [], function).ask('Who?').error == 'ModelFailed: ' + text


def test_an_async_function_that_never_answers_is_left():
    lm = as_lm(lambda prompt: asyncio.Event().wait())
    lm.patience = 0.1
    with pytest.raises(ModelFailed, match='TimeoutError: Event.wait: no answer within 0.1 s'):
        lm.call(ROLE, text='x')


def test_a_reply_that_cannot_be_used_is_shown():
    with pytest.raises(ReplyError) as caught:
        asked(lambda prompt: 'Dear \x07user,\n' + 'I cannot ' * 100)
    assert "it has no JSON in it; it began 'Dear \\x07user,\\nI cannot " in str(caught.value)
    assert str(caught.value).isprintable() and len(str(caught.value)) < 330


# What is no model


@pytest.mark.parametrize(
    'thing, words',
    [
        ('gpt-4.1-mini', "did you mean OpenAILM('gpt-4.1-mini')"),
        (openai.OpenAI(api_key='x'), 'the client OpenAI, which names no model: use OpenAILM'),
        (openai.AsyncOpenAI(api_key='x'), 'the client AsyncOpenAI, which names no model: use OpenAILM'),
        (3, 'got 3'),
        (None, 'got None'),
        (OpenAILM, 'got <class'),
        (Object, 'got <class'),
        (lambda: '', 'a prompt and `role`, got <lambda>()'),
        (lambda messages, temperature: '', 'got <lambda>(messages, temperature)'),
    ],
)
def test_what_is_no_model_is_refused_in_one_sentence(thing, words):
    with pytest.raises(TypeError, match='^expected an? (lm|function)') as caught:
        as_lm(thing)
    assert words in str(caught.value) and '\n' not in str(caught.value)
