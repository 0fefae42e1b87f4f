"""Questions of Test of Time: what is read is answered as brute force does, and nothing else is read."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memnb.core.calls import ToolUse
from memnb.core.roles import NO_INFORMATION
from memnb.evaluation.test_of_time import brute_force, FIELDS, Term, TotQuestion, WORDINGS
from memnb.remem.graph import GistGraph
from memnb.rules.remem import Asked, next_call, read_question

TEMPLATES = [(key, template) for key, templates in WORDINGS.items() for template in templates]


def solve(asked, facts):
    "The answer of the plan, and how many looks it took."
    tools, history = {tool.name: tool for tool in GistGraph.from_facts(facts).tools()}, []
    while (call := next_call(asked, history)).function != 'output_answer':
        history.append(ToolUse(call.function, call.parameters, tools[call.function](**call.parameters), call.reasoning))
    return call.parameters['answer'], len(history)


names = st.sampled_from(['E1', 'E2', 'E3', 'E4'])
relations = st.sampled_from(['R1', 'R2'])
years = st.integers(1950, 1962)
terms = st.builds(lambda s, r, o, a, b: Term(s, r, o, min(a, b), max(a, b)), names, relations, names, years, years)
worlds = st.lists(terms, min_size=1, max_size=14, unique=True)


@st.composite
def questions(draw):
    "Any question of the generator's form in one of its wordings; most have no label, and then they are not asked."
    key, template = draw(st.sampled_from(TEMPLATES))
    fields, relation, object_ = FIELDS[key], draw(relations), draw(names)
    anchor = None
    if 'anchor_subject' in fields:
        anchor = (
            (draw(names), relation, object_)
            if key.startswith('before_after')
            else (draw(names), draw(relations), draw(names))
        )
    first, last = sorted((draw(years), draw(years)))
    asked = TotQuestion(
        *key.split('/'),
        relation,
        draw(names) if 'subject' in fields else None,
        object_ if 'object' in fields else None,
        first if {'year', 'start_year'} & set(fields) else None,
        last if 'end_year' in fields else None,
        draw(st.integers(1, 3)) if 'ordinal' in fields else None,
        anchor,
    )
    return asked, asked.phrase(template)


@settings(max_examples=200)
@given(worlds, questions())
def test_what_is_read_is_answered_as_brute_force_does(world, question):
    asked, text = question
    label = brute_force(world, asked)
    if label is not None:
        answer, looks = solve(read_question(text), [term.fact(line) for line, term in enumerate(world, 1)])
        assert answer == label and looks <= 2, text


@given(questions())
def test_a_question_is_read_with_its_parts(question):
    asked, text = question
    read = read_question(text)
    known = {'subject': asked.subject, 'predicate': f'was the {asked.relation} of', 'object': asked.object}
    assert read.target == {field: phrase for field, phrase in known.items() if phrase is not None}
    assert bool(read.anchor) == bool(asked.anchor)
    if asked.anchor and asked.anchor[1:] != (asked.relation, asked.object):
        assert tuple(read.anchor.values()) == (asked.anchor[0], f'was the {asked.anchor[1]} of', asked.anchor[2])
    assert (len(read.target) < 3) == (asked.kind not in ('event_at_what_time', 'relation_duration'))
    assert (read.years and read.years[0]) == asked.year


@pytest.mark.parametrize(
    'question',
    [
        '',
        '?' * 999,
        'E1',
        'Who was the R1 of E2 in 1990?',
        'What was the name of the dog of Zofia?',
        "İ'E1",
        'When was Tobin the captain of Harriers?',
        'Which entity did E1 succeed?',
        'the R1 of E2 ' * 2000,
    ],
)
def test_any_other_question_is_not_read(question):
    assert read_question(question) is None


@given(
    st.lists(
        st.sampled_from(
            'E1 E9 R1 was the of which entity entities in 1950 before immediately first , ? stop being'.split()
        ),
        max_size=14,
    ).map(' '.join)
)
def test_any_words_are_read_or_refused(text):
    asked = read_question(text)
    assert asked is None or isinstance(solve(asked, [Term('E1', 'R1', 'E2', 1950, 1951).fact(1)])[0], str)


def test_a_list_of_more_facts_than_a_tool_shows_is_whole():
    terms = [Term(f'E{number}', 'R1', 'E99', 1900 + number, 1901 + number) for number in range(1, 31)]
    answer, _ = solve(
        Asked('list', {'predicate': 'was the R1 of', 'object': 'E99'}),
        [term.fact(line) for line, term in enumerate(terms, 1)],
    )
    assert answer == ','.join(term.subject for term in terms)


def test_nothing_found_is_said():
    facts = [Term('E1', 'R1', 'E2', 1950, 1951).fact(1)]
    assert solve(read_question('Which entity was the R1 of E2 in 1990?'), facts)[0] == NO_INFORMATION
    assert solve(read_question('Which entity was the R1 of E2 immediately before E1?'), facts)[0] == NO_INFORMATION
    assert solve(read_question('How many unique entities were the R1 of E2 between 1960 to 1970?'), facts)[0] == '0'
    assert (
        solve(
            Asked(
                'entity',
                {'predicate': 'was the R1 of', 'object': 'E2'},
                {'subject': 'E7', 'predicate': 'was the R1 of', 'object': 'E2'},
            ),
            facts,
        )[0]
        == NO_INFORMATION
    )
