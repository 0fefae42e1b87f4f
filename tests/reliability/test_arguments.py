"""Arguments that cannot have been meant, and secrets in the wrong place."""

from datetime import date, datetime

import pytest

from memnb.core import time as times
from memnb.core.conversation import Conversation
from memnb.core.models import OpenAILM
from memnb.core.time import find_times
from memnb.evaluation.registry import METHODS
from memnb.core.roles import RuleLM
from memnb.retrieval.hybrid import HybridIndex

STORY = Conversation.of(
    'story', [(datetime(2024, 5, 8, 18), [('Ada', 'I bought a kite yesterday.'), ('Ben', 'Nice.')])]
)


@pytest.mark.parametrize('name', METHODS)
@pytest.mark.parametrize(
    'arguments, expected',
    [
        (((None,), {}), 'question: expected a str, got NoneType'),
        (((5,), {}), 'question: expected a str, got int'),
        ((('Who?',), {'asked': '2024'}), "asked: expected a TimeSpan, got '2024'; parse_date gives one"),
        ((('Who?',), {'budget': True}), 'budget: expected a number of turns, got True'),
    ],
)
def test_a_question_that_cannot_be_meant_is_a_typed_error(name, arguments, expected):
    method = METHODS[name]
    loop = method.make(method.memory.build(STORY, RuleLM()), STORY)
    with pytest.raises(TypeError) as error:
        loop.ask(*arguments[0], **arguments[1])
    assert str(error.value) == expected


def test_a_search_says_that_a_text_is_no_time():
    with pytest.raises(TypeError, match="during: expected a TimeSpan, got '2024'"):
        HybridIndex.of(STORY).search('kite', 3, during='2024')


@pytest.mark.parametrize(
    'url',
    [
        'http://:SECRET-4711@host/v1',
        'http://user:SECRET-4711@host/v1',
        'http://host/v1#SECRET-4711',
        'http://host/v1?key=SECRET-4711',
        'user:SECRET-4711@host/v1',
        'sk-live-SECRET-4711',
    ],
)
def test_an_address_with_a_secret_is_refused_and_not_repeated(url):
    with pytest.raises(ValueError, match='base_url must') as error:
        OpenAILM('model', url)
    assert 'SECRET' not in str(error.value)


@pytest.mark.parametrize('expression', ['the week before ', 'the weekend after '])
def test_reading_times_takes_work_in_proportion_to_the_text(expression, monkeypatch):
    compiled, work = times._compiled, []
    for size in (100, 200):
        calls = []
        monkeypatch.setattr(times, '_compiled', lambda pattern: calls.append(pattern) or compiled(pattern))
        find_times(expression * size + 'Monday', date(2024, 5, 8))
        work.append(len(calls))
    assert size < work[0] < work[1] <= 2.2 * work[0]
