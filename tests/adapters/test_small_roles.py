"""The six small roles: their types let through what was shown and nothing else, and dates are worked out without touching a word."""
from __future__ import annotations

import json
from dataclasses import replace
from datetime import date, datetime

import pytest
from hypothesis import given, settings, strategies as st

from memnb.core.roles import NO_INFORMATION
from memnb.evaluation.datasets import load_sample
from memnb.core.models import ScriptedLM
from memnb.core.roles import ReplyError, RuleLM
from memnb.core.roles import strict_schema
from memnb.core.conversation import turn_snippets
from memnb.adapters.local import (
    CHOOSE, dated, ENOUGH, Enough, FILL, NEXT, Next, NOTE, notes_of, READ)
from memnb.core.conversation import Snippet
from memnb.core.time import phrase
from memnb.core.time import find_times, TimeSpan

TURNS = turn_snippets(load_sample())
TIMES = ('yesterday', 'last Friday', 'in 2023', 'two weeks ago', 'next month', 'on 7 May 2023', 'this morning', 'the weekend before last')
WORDS = ('we met', 'I ran', '(so they say)', 'and', 'Tobin', '{x}', '\n', '“ü”', '')
TEXTS = st.lists(st.sampled_from(TIMES + WORDS), max_size=8).map(' '.join)
IDS = st.lists(st.text(min_size=1, max_size=8).filter(lambda id: id != 'none'), min_size=1, max_size=6, unique=True)


def in_pieces(text: str, day: date) -> list[tuple[str, str]]:
    """The text cut behind each of its times, and what is due behind each piece; no position is ever shifted."""
    pieces, last = [], 0
    for start, end, span in find_times(text, day):
        pieces.append((text[last:end], '' if phrase(span).lower() in text[start:end].lower() else f' ({phrase(span)})'))
        last = end
    return [*pieces, (text[last:], '')]


@given(TEXTS, st.dates(date(1990, 1, 1), date(2040, 1, 1)))
def test_dated_adds_brackets_and_no_more(text, day):
    """Without the brackets it is the original; the brackets hold what `find_times` says."""
    snippet = Snippet('x', text, said=datetime(day.year, day.month, day.day, 12))
    pieces = in_pieces(text, day)
    made = dated(snippet)
    assert made.text == ''.join(piece + bracket for piece, bracket in pieces)
    assert ''.join(piece for piece, _ in pieces) == text
    assert replace(made, text=text) == snippet


@given(TEXTS)
def test_without_a_day_nothing_is_dated(text):
    """Nobody knows what yesterday was."""
    assert dated(Snippet('x', text)) == Snippet('x', text)


def test_a_day_of_happening_counts_where_saying_is_unknown():
    """The reference is the day of saying, else the end of the time of happening."""
    snippet = Snippet('x', 'yesterday', time=TimeSpan.day(date(2024, 3, 2)))
    assert dated(snippet).text == 'yesterday (1 March 2024)'


def test_notes_begin_with_their_ids():
    """Every turn of the sample: its id, and its line with dates."""
    for snippet, note in zip(TURNS, notes_of(TURNS), strict=True):
        assert note == f'({snippet.id}) {dated(snippet).line}'
    assert sum('(' in note[1:] for note in notes_of(TURNS)) > 90


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
            'enough': {'question': 'Who?', 'notes': notes_of(notes)}, 'next': {'question': 'Who?', 'known': [], 'before': 'Who?'},
            'choose': {'question': 'Who?', 'known': [], 'ways': list(ids)},
            'fill': {'question': 'Who?', 'known': [], 'tried': [], 'tool': 'search(query)', 'model': Next}}[role.name]


ROLES = (NOTE, ENOUGH, NEXT, CHOOSE, FILL, READ)


@pytest.mark.parametrize('role', ROLES, ids=lambda role: role.name)
@given(ids=IDS)
@settings(max_examples=20)
def test_every_reply_ends_and_every_rule_fits(role, ids):
    """Texts are bounded or one of an enum, lists are bounded; the rule gives a reply of the type; the prompt can be made."""
    inputs = scene(role, ids)
    for path, part in schema_texts(strict_schema(role.model(inputs))):
        assert 'enum' in part or 'const' in part or part.get('maxLength', part.get('maxItems')), path
    call = RuleLM(render=True).call(role, **inputs)
    assert isinstance(call.reply, role.model(inputs))
    assert role.model(inputs).model_validate_json(call.reply.model_dump_json()) == call.reply
    assert 'Who?' in call.user and 'Rolf' in call.system + 'Rolf' * (role is FILL)


@given(IDS, st.text(max_size=8), st.sampled_from([NOTE, READ]))
def test_only_what_was_shown_can_be_named(ids, other, role):
    """An id goes through if and only if it was shown; READ has `none` besides."""
    inputs = scene(role, ids)

    def ask(id):
        said = {'facts': [{'id': id, 'fact': 'so'}]} if role is NOTE else {'note': id, 'answer': 'so'}
        return ScriptedLM([said, said]).ask(role, **inputs)

    for id in ids:
        reply = ask(id)
        assert (reply.facts[0].id if role is NOTE else reply.note) == id
    if other in ids or (role is READ and other == 'none'):
        ask(other)
    else:
        with pytest.raises(ReplyError):
            ask(other)


@given(st.integers(1, 20))
@settings(max_examples=15)
def test_only_a_way_that_is_there_can_be_chosen(count):
    """From 1 to the number of ways, as whole numbers."""
    inputs = {'question': 'Who?', 'known': [], 'ways': [f'way {at}' for at in range(count)]}
    for number in range(-1, count + 3):
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
    """A fact has 160 characters at most, a reply three facts; nothing is left out in silence."""
    with pytest.raises(ReplyError):
        ScriptedLM([said, said]).ask(NOTE, **scene(NOTE, ['a', 'b']))


def test_the_model_is_never_asked_for_a_probability():
    """The schema has the word alone; where a server knows the odds, they stand in the reply and survive its JSON."""
    assert strict_schema(Enough)['required'] == ['yes']
    sure = Enough(yes=True, probability=.25)
    assert Enough.model_validate(json.loads(sure.model_dump_json())) == sure
    assert ScriptedLM(['{"yes": false}']).ask(ENOUGH, **scene(ENOUGH, ['a'])).probability is None


def test_the_examples_are_replies():
    """What each prompt shows as a reply fits the type for the notes that it shows."""
    wanted = {NOTE: 1, ENOUGH: 2, NEXT: 1, CHOOSE: 1, READ: 1}
    for role, count in wanted.items():
        inputs = scene(role, ['D4:1', 'D4:2'])
        shown = [line for line in role.render(inputs)[0].splitlines() if line.startswith('{')]
        assert len(shown) == count
        for text in shown:
            assert set(json.loads(text)) == set(strict_schema(role.model(inputs))['required'])
            role.model(inputs).model_validate_json(text)


def test_the_rules_of_enough_and_read():
    """Half of the words in one note are enough; the rule of `read` reads nothing."""
    question = load_sample().questions[0].text
    first = [snippet for snippet in TURNS if snippet.id == 'D1:5']
    assert RuleLM().ask(ENOUGH, question=question, notes=notes_of(first)).yes
    assert not RuleLM().ask(ENOUGH, question=question, notes=notes_of(TURNS[1:2])).yes
    assert RuleLM().ask(READ, question=question, notes=first).answer == NO_INFORMATION
