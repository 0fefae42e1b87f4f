"""Whose turns a question asks for, case by case, and by role in any conversation."""

import pytest
from hypothesis import given, strategies as st

from memnb.core.text import asked_speakers, is_assistant, is_role, roles_of

PAIRS = [('User', 'Assistant'), ('Assistant', 'User'), ('human', 'AI'), (' USER ', 'ChatGPT')]
NAMED = [('Ada', 'Assistant'), ('ChatGPT', 'Ada Lovelace')]
USERS = [
    'When does my sprint end?',
    'What did I say about the budget?',
    'Which database was chosen?',
    'Can you suggest a restaurant I would like?',
    'Could you tell me when I moved?',
    'Would you recommend a train?',
    'How many tests did I write?',
    '',
]
ASSISTANTS = [
    'What did you suggest for the flaky test?',
    'Which three books have you recommended?',
    "What was the command you'd given me?",
    'What was your advice on the pump?',
    'What did your second suggestion say?',
    'You told me of a valve: which?',
    'What did YOU explain about filters?',
]
BOTH = ['Give me a summary of the project', 'Summarize what happened in May', 'A quick recap, please', 'An overview?']


@pytest.mark.parametrize('speakers', PAIRS + NAMED)
def test_a_conversation_with_an_assistant_is_about_the_user_unless_the_words_say_otherwise(speakers):
    roles = roles_of(speakers)
    [user], [assistant] = ([name for name in speakers if roles[name] == role] for role in ('user', 'assistant'))
    assert is_assistant(assistant) and not is_assistant(user)
    for questions, expected in ((USERS, {user}), (ASSISTANTS, {assistant}), (BOTH, {user, assistant})):
        for question in questions:
            assert {*asked_speakers(question, speakers)} == expected, question


@pytest.mark.parametrize(
    'question, speakers, expected',
    [
        ('What did Ada say you suggested?', ('Ada', 'Assistant'), {'Ada'}),
        ('What did User 7 write to the Assistant?', ('User', 'Assistant'), {'User'}),
        ('A summary of what Ada said', ('Ada', 'Bot'), {'Ada'}),
        ('What did I say?', ('User',), {'User'}),
        ('What did you suggest?', ('Ada', 'Ben', 'Assistant'), set()),
        ('What did Ben say?', ('Ada', 'Ben', 'Assistant'), {'Ben'}),
        ('Where do we live?', (), set()),
        ('What did I say?', ('Assistant',), set()),
    ],
)
def test_who_is_named_is_meant(question, speakers, expected):
    assert {*asked_speakers(question, speakers)} == expected


@pytest.mark.parametrize('question', USERS + ASSISTANTS + BOTH)
def test_among_friends_nobody_is_meant_who_is_not_named(question):
    for friends in (('Ada', 'Ben'), ('Ada',), ('Ada', 'Ben', 'Cas')):
        assert roles_of(friends) == {} and asked_speakers(question, friends) == ()
        assert asked_speakers(f'{question} Ben', friends) == tuple(friend for friend in friends if friend == 'Ben')


people = st.sampled_from(['User', 'Assistant', 'ai', 'Ada', 'Ben', 'model', 'human', ''])


@given(st.text(max_size=20) | st.sampled_from(USERS + ASSISTANTS + BOTH), st.lists(people, max_size=4, unique=True))
def test_those_who_are_asked_for_speak_in_any_order(question, speakers):
    asked = asked_speakers(question, speakers)
    assert list(asked) == [name for name in speakers if name in asked]
    assert asked == asked_speakers(question, speakers[::-1])[::-1]
    roles = roles_of(speakers)
    assert roles == roles_of(speakers[::-1]) and roles.keys() <= {*speakers} - {''}
    assert all((role == 'assistant') == is_assistant(name) for name, role in roles.items())
    assert all(is_role(name) for name in roles) or 'user' in roles.values()


@pytest.mark.parametrize('name', ['Claude', 'Gemini', 'Copilot', 'Model'])
def test_a_person_may_have_the_name_of_a_model(name):
    assert not is_role(name) and roles_of(('Anna', name)) == {}
    assert asked_speakers(f'When did {name} move to Lyon?', ('Anna', name)) == (name,)
    assert asked_speakers('What is the plan?', ('Anna', name)) == ()
