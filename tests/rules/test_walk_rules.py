"""The rules of the walk: what lies in a time against days that are listed, orders against partitions by hand, stopping against the tracker, and the walk itself."""
import ast
import inspect
from collections import Counter
from datetime import date, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from memnb.rules import mragent as walk_rules
from memnb.rules.mragent import anchored, asked_time, needs_of, tells_of, touches
from memnb.core.roles import NO_INFORMATION
from memnb.mragent.graph import Episode, time_cues
from memnb.mragent.graph import Branch
from memnb.mragent.tools import CueTagGraph
from memnb.evaluation.datasets import load_sample
from memnb.mragent.loop import MRAgent
from memnb.core.loop import Call, Used
from memnb.core.text import requirements, sentences, stems
from memnb.core.time import TimeSpan
from memnb.rules.remem import answer_of
from memnb.rules.text import is_met, PART
from memnb.core.loop import tries
from memnb.mragent.tools import call_of
from memnb.rules.mragent import (
    DEED, is_enough, navigate_rule, recall_rule, route_rule, STATE, telling, then_first, weight_of,
    within, WORDS)

NAMES = ('Tobin', 'Zofia')
DAY = timedelta(days=1)
QUESTION = 'What did Zofia do when Tobin failed his test?'
LATER = 'What did Zofia do two days after Tobin failed his test?'
FAILED = date(2024, 6, 10)


def episode(number, text, speaker='Zofia', day=FAILED, days=1, said=date(2024, 7, 1), cues=()):
    time = day and TimeSpan(day, day + (days - 1) * DAY, 'day' if days == 1 else 'span')
    return Episode(f'D1/e{number}', text, (f'D1:{number}',), time, speaker, said and datetime.combine(said, datetime.min.time()), 'D1', number,
                   title='t', tag='t', cues=tuple(cues))


ANCHOR = episode(0, 'Tobin failed the test on 10 June 2024.', 'Tobin')
TEXTS = {'Zofia carried the pipe home.': DEED, 'Zofia lives in Karrow.': STATE, 'Zofia wants the pipe.': WORDS, 'Did Zofia carry it?': WORDS, 'Good night!': WORDS,
         'Tobin failed the test.': STATE, 'Zofia says: The cat ate a herring on Monday.': DEED}
lines = st.lists(st.builds(lambda text, speaker, shift, days: (text, speaker, FAILED + shift * DAY, days), st.sampled_from(sorted(TEXTS)),
                           st.sampled_from(NAMES), st.integers(-3, 4), st.sampled_from([1, 2, 7, 8, 40])), max_size=5).map(
    lambda found: [episode(number, *one) for number, one in enumerate(found, 1)])


@pytest.fixture(scope='module')
def graph():
    return CueTagGraph.of(load_sample())


# --- what happened then

@given(lines, st.integers(-2, 2), st.sampled_from([1, 3, 10]), st.sampled_from([QUESTION, LATER, 'What broke when Tobin failed his test?']))
def test_what_lies_in_a_time_shares_a_day_with_it_is_exact_and_mine(found, shift, days, question):
    time = TimeSpan(FAILED + shift * DAY, FAILED + (shift + days - 1) * DAY, 'span')
    looked = {time.start + number * DAY for number in range(days)}
    expected = []
    for line in found:
        shares = looked & {line.time.start + number * DAY for number in range(line.time.days)}
        mine = line.speaker == 'Zofia' or 'broke' in question
        another = question == LATER or not {'fail', 'test'} & set(stems(line.text))
        if shares and mine and another and line.time.days <= max(7, days):
            expected.append(line)
    assert within(found, question, time, NAMES) == sorted(expected, key=lambda line: line.time.days)


def test_without_an_anchor_or_a_time_nothing_lies_in_it():
    assert within([ANCHOR], 'Who is Bram?', TimeSpan.day(FAILED), NAMES) == within([ANCHOR], QUESTION, None, NAMES) == []
    told_only = episode(1, 'Zofia swam.', day=None, said=FAILED)
    assert within([told_only], QUESTION, TimeSpan.day(FAILED), NAMES) == [told_only], 'without a time of its own it has that of telling'
    undated = episode(2, 'Zofia swam.', day=None, said=None)
    since = Episode('D1/e3', 'Zofia swam.', (), TimeSpan(FAILED, None), 'Zofia', title='t', tag='t')
    assert within([undated, since], QUESTION, TimeSpan.day(FAILED), NAMES) == []


def test_a_line_that_covers_a_third_of_the_clause_tells_the_event():
    question = 'What did Zofia do when Tobin failed his driving test?'
    third = episode(1, 'Zofia was driving home.')
    assert within([third], question, TimeSpan.day(FAILED), NAMES) == [] and PART == 1 / 3
    assert within([third], QUESTION, TimeSpan.day(FAILED), NAMES) == [third]


# --- deeds and words

@given(st.sampled_from(NAMES), st.sampled_from(['carried the pipe', 'took the boat', 'ate a herring', 'went to Ghent', 'won the race']))
def test_a_past_with_an_object_is_a_deed_unless_the_listener_did_it(who, did):
    assert weight_of(f'{who} {did}.', 'Zofia', None, ('Tobin',)) == (DEED if who == 'Zofia' else STATE)
    assert weight_of(f'Did {who} do it, and who {did}?', 'Zofia', None, ('Tobin',)) == WORDS


@pytest.mark.parametrize('sentence', [
    'Zofia wants to carry the pipe.', 'Zofia would have sent plums.', 'Zofia will bring the plums.', 'Zofia hopes that it is warm.', 'Zofia is so proud.',
    'Zofia is glad that it is over.', 'Zofia thinks that it took long.', 'Thanks!', 'Good night, boy.', 'Thursday (11 April 2024).', 'Bring the medal.',
    'Zofia and the pipe again!', 'Has Zofia carried the pipe?', "Zofia can't lift the pipe.", 'Thursday (11 April 2024), Lamplighter, and Zofia wants that medal between the teeth.', ''])
def test_wishes_offers_opinions_questions_and_greetings_are_words(sentence):
    assert weight_of(sentence, 'Zofia', None, ('Tobin',)) == WORDS


def test_a_day_before_the_subject_hides_no_deed_and_a_missing_object_neither():
    assert weight_of('Two weeks ago today (30 March 2024) Zofia took the mail boat.', 'Zofia', date(2024, 4, 13), ('Tobin',)) == DEED
    assert [weight_of(one, 'Zofia', None, ('Tobin',)) for one in ('Zofia cried.', 'Tobin cried.', "Zofia's legs of wood.")] == [DEED, STATE, STATE]


def by_hand(line, part, time, words):
    """The key of a sentence: does it bear on what is asked, does it tell, is it dated, does it tell a deed."""
    wanted = {stem for word in words for stem in stems(word)}
    share = len(wanted & stems(part)) / len(wanted) if wanted else 1.0
    weight = next(weight for text, weight in TEXTS.items() if part in text)
    return -touches(line, []), -share, weight == WORDS, 'Monday' not in part or not time.overlaps(TimeSpan.day(date(2024, 6, 24))), -weight


@given(lines, st.sampled_from(['What did Zofia do when Tobin failed his test?', 'What did Zofia carry when Tobin failed his test?']))
def test_sentences_come_by_what_they_tell(found, question):
    time = TimeSpan(FAILED - DAY, FAILED + 20 * DAY, 'span')
    sorted_lines = telling(found, question, time, NAMES)
    expected = [(line.id, part) for line in within(found, question, time, NAMES) for part in sentences(line.text)]
    assert Counter((line.id, part) for line, part, _ in sorted_lines) == Counter(expected)
    assert all(weight == next(value for text, value in TEXTS.items() if part in text) for _, part, weight in sorted_lines)
    words = ('carry',) if 'carry' in question else ()
    keys = [(-(not words or 'carri' in stems(line.text)), *by_hand(line, part, time, words)[1:]) for line, part, _ in sorted_lines]
    assert keys == sorted(keys)


def test_what_goes_before_what():
    def first(question, *texts, said=FAILED):
        found = [episode(number, text, said=said) for number, text in enumerate(texts)]
        return telling(found, question, TimeSpan.day(FAILED), NAMES)[0][1]
    deed, state, wish = 'Zofia carried the pipe home.', 'Today Zofia lives in Karrow.', 'Zofia wants the pipe today.'
    assert first(QUESTION, deed, state) == state, 'a date of its own goes before a deed that stands beside one'
    assert first(QUESTION, wish, deed) == deed, 'to tell anything goes before a date'
    carry = 'What did Zofia carry when Tobin failed his test?'
    assert first(carry, f'Zofia swam the harbour. {deed}') == deed == first(carry, 'Zofia swam the harbour.', deed)
    assert first(carry, 'Zofia swam the harbour. Zofia wants to carry the pipe.') == 'Zofia wants to carry the pipe.', 'what is sought goes first'
    assert first(QUESTION, 'Zofia lives in Karrow.', deed, said=date(2024, 7, 1)) == deed


def test_beside_the_event_its_own_words_are_no_matter():
    told = episode(1, 'Zofia says: Tobin failed the test.', day=FAILED + 2 * DAY)
    assert within([told], LATER, TimeSpan.day(FAILED + 2 * DAY), NAMES) == [told]
    assert within([told], QUESTION, TimeSpan.day(FAILED + 2 * DAY), NAMES) == []


# --- stop

PLAIN = ('When did Tobin fail his test?', 'What did Zofia carry home?', 'Which pipes did Zofia carry?', 'Where does Zofia live?')


@given(lines, lines, st.sampled_from(PLAIN))
def test_a_plain_question_has_enough_when_the_trackers_requirements_are_met(known, fresh, question):
    needs = requirements(question, NAMES)
    exhausted = [not any(touches(line, [need]) >= PART for line in fresh) for need in needs]
    assert is_enough(question, known, fresh, NAMES) == all(is_met(need, known, one) for need, one in zip(needs, exhausted))


@given(lines, st.sampled_from([QUESTION, LATER]))
def test_an_anchored_question_has_enough_with_the_day_and_something_told_of_it(found, question):
    assert not is_enough(question, [line for line in found if line not in tells_of(found, needs_of(question, NAMES)[0])], (), NAMES)
    others = [line for line in found if 'failed' not in line.text]
    day = FAILED + 2 * DAY * (question == LATER)
    then = [line for line in others if line.speaker == 'Zofia' and line.time.overlaps(TimeSpan.day(day)) and line.time.days <= 7]
    assert is_enough(question, [ANCHOR, *others], (), NAMES) == any(TEXTS[line.text] > WORDS for line in then)


@given(lines, lines, st.sampled_from([QUESTION, LATER, *PLAIN]))
def test_reading_more_never_unmeets(known, more, question):
    if anchored(question):
        more = [line for line in more if line not in tells_of(more, needs_of(question, NAMES)[0])]
    assert not is_enough(question, [ANCHOR, *known], (), NAMES) or is_enough(question, [ANCHOR, *known, *more], (), NAMES)


def test_what_is_sought_must_be_touched_and_a_count_waits_for_the_last_telling():
    carry, swim = episode(1, 'Zofia carried the pipe home.'), episode(2, 'Zofia swam the harbour.')
    question = 'What did Zofia carry when Tobin failed his test?'
    assert not is_enough(question, [ANCHOR, swim], (), NAMES) and is_enough(question, [ANCHOR, carry], (), NAMES)
    counted = 'What did Zofia do when Tobin failed his first test?'
    assert [is_enough(counted, [ANCHOR, swim], fresh, NAMES) for fresh in ([ANCHOR], [swim], [])] == [False, True, True]
    assert is_enough(QUESTION, [ANCHOR, swim], [ANCHOR], NAMES), 'where nobody counts, a new telling is no reason to wait'


# --- select

branches = st.lists(st.builds(Branch, st.sampled_from(['failed', 'June 2024', 'May 2024', 'D1/e1', 'Tobin']), st.sampled_from('abc'), st.just(1),
                              st.sampled_from(['event', 'aspect', 'context'])), max_size=8)
calls = branches.map(lambda ways: [call_of(way) for way in ways])


@given(calls, calls)
def test_tries_are_the_calls_that_are_new_each_once_in_their_order(wanted, made):
    history = [Used(call.function, call.parameters, None) for call in made]
    kept = []
    for call in wanted:
        if call[1:] not in [one[1:] for one in [*made, *kept]]:
            kept.append(call)
    assert tries(wanted, history) == kept


def test_a_branch_is_followed_with_the_tool_of_its_kind():
    assert call_of(Branch('failed', 'exam', 2))[1:] == ('query_tag_events', {'cue': 'failed', 'tag': 'exam'})
    assert call_of(Branch('Tobin', 'work', 2, 'aspect'))[1:] == ('query_personal_aspect', {'person': 'Tobin', 'aspect': 'work'})
    assert call_of(Branch('D1/e1', '', 2, 'context'))[1:] == ('query_event_context', {'event': 'D1/e1'})


@given(branches, st.sampled_from([None, TimeSpan.day(FAILED), TimeSpan(date(2024, 5, 30), FAILED, 'span')]))
def test_branches_of_the_months_come_first_and_nothing_else_moves(ways, time):
    months = {None: (), TimeSpan.day(FAILED): ('June 2024',)}.get(time, ('May 2024', 'June 2024'))
    assert then_first(ways, time) == [way for way in ways if way.cue in months] + [way for way in ways if way.cue not in months]
    assert set(months) == set(time_cues([time]))


def function(name):
    return type('Named', (), {'name': name})()


TOOLS = [function(name) for name in ('query_tag_events', 'query_personal_aspect', 'query_event_context', 'query_conversation_time')]


@settings(max_examples=60)
@given(branches, calls, lines, st.integers(1, 4), st.booleans(), st.booleans(), st.sampled_from([QUESTION, LATER, PLAIN[1]]))
def test_it_answers_only_when_that_is_enough_or_nothing_new_appears(ways, made, known, breadth, stop_early, anchor_known, question):
    known = [ANCHOR, *known] if anchor_known else known
    history = [Used(call.function, call.parameters, None) for call in made]
    move = navigate_rule(question, TOOLS, ways, known, (), history, breadth, speakers=NAMES, stop_early=stop_early)
    enough = stop_early and bool(history) and is_enough(question, known, (), NAMES)
    made_calls = [(call['function'], call['parameters']) for call in move['calls']]
    offered = [call_of(way)[1:] for way in then_first(ways, asked_time(question, known, NAMES))]
    looks = [call for call in made_calls if call[0] == 'query_conversation_time']
    left = [call for number, call in enumerate(offered) if call not in offered[:number] and call not in [one[1:] for one in made]]
    assert (move['mode'] == 'Answer') == (not move['calls'])
    if enough:
        assert not move['calls']
    else:
        assert made_calls == [*looks, *left][:breadth] and len(looks) <= 1
        assert not looks or (anchored(question) and made_calls[0] == looks[0] and looks[0][1]['event'] in {line.id for line in known})


@given(branches)
def test_only_tools_on_offer_are_called(ways):
    move = navigate_rule(PLAIN[0], TOOLS[:1], ways, breadth=9, speakers=NAMES)
    assert {call['function'] for call in move['calls']} <= {'query_tag_events'}


def test_who_may_not_stop_goes_on_and_the_months_are_those_of_the_time_to_look_at():
    ways = [Branch('June 2024', 'a', 1), Branch('July 2024', 'b', 1)]
    state = {'known': [episode(0, 'Tobin failed the test on 30 June 2024.', 'Tobin', date(2024, 6, 30), said=date(2024, 8, 1)),
                       episode(1, 'Zofia carried the pipe home.', day=date(2024, 7, 2))], 'history': [Used('query_tag_events', {}, None)], 'speakers': NAMES}
    assert navigate_rule(LATER, TOOLS, ways, **state)['calls'] == []
    going_on = navigate_rule(LATER, TOOLS, ways, **state, stop_early=False)['calls']
    assert [call['parameters'].get('cue') for call in going_on] == [None, 'July 2024', 'June 2024']
    assert navigate_rule(QUESTION, TOOLS, ways, [state['known'][0]], speakers=NAMES)['calls'][1]['parameters']['cue'] == 'June 2024'


# --- route

@given(lines, lines, st.sampled_from([QUESTION, LATER, *PLAIN]), st.booleans())
def test_what_lies_inside_is_kept_first_and_what_touches_nothing_is_dropped(found, known, question, anchor_known):
    known = [ANCHOR, *known] if anchor_known else known
    routed = route_rule(question, found, known, NAMES)
    time = asked_time(question, [*known, *found], NAMES)
    inside = {line.id for line in within(found, question, time, NAMES)}
    flags = [id in inside for id in routed['keep']]
    assert inside <= set(routed['keep']) <= {line.id for line in found} and len(set(routed['keep'])) == len(routed['keep'])
    assert flags == sorted(flags, reverse=True)
    needs = (*needs_of(question, NAMES), *requirements(question, NAMES))
    touching = {line.id for line in found if touches(line, needs) >= PART}
    assert set(routed['keep']) == inside | touching
    assert routed['cues'] == ([str(time), 'Zofia'] if time else [])


def test_what_is_sought_is_kept_before_the_time_is_known_and_two_people_turn_nobody():
    jar = episode(1, 'Zofia left a jar there.', day=None)
    question = 'What did Zofia leave in the jar when Tobin failed his test?'
    assert route_rule(question, [jar], (), NAMES)['keep'] == ['D1/e1'] and route_rule(QUESTION, [jar], (), NAMES)['keep'] == []
    another = episode(2, 'Tobin took the test with Zofia.', 'Tobin', date(2024, 5, 1))
    inside = episode(3, 'Zofia slept.')
    assert route_rule(QUESTION, [another, inside], [ANCHOR], NAMES)['keep'] == ['D1/e3', 'D1/e2'], 'what lies inside goes before what touches more'
    both = 'What did Zofia and Tobin do two days after Tobin failed his test?'
    assert route_rule(both, [ANCHOR], (), NAMES)['cues'] == ['12 June 2024']
    assert route_rule(LATER, [ANCHOR], (), NAMES)['cues'] == ['12 June 2024', 'Zofia']


# --- answer

@given(lines, st.sampled_from([QUESTION, LATER]))
def test_the_answer_lies_inside_while_anything_does_and_what_the_other_did_is_none(found, question):
    known = [ANCHOR, *found, episode(9, 'Zofia sleeps.', day=date(2023, 1, 1), said=None)]
    by_id = {line.id: line for line in known}
    time, answer = asked_time(question, known, NAMES), recall_rule(question, known)
    inside = within(known, question, time, NAMES)
    if inside:
        first = by_id[answer.sources[0]]
        assert first in inside and answer.answer in sentences(first.text)
        assert all(by_id[id] in tells_of(known, needs_of(question, NAMES)[0]) for id in answer.sources[1:])
    else:
        assert (answer.answer, answer.sources) == (NO_INFORMATION, [])
    if question == QUESTION:
        assert not answer.sources or by_id[answer.sources[0]] not in tells_of(known, needs_of(question, NAMES)[0])


@given(lines, st.sampled_from([*PLAIN, 'What fell down when the pipe burst at last?']))
def test_without_an_anchors_time_the_answer_is_the_common_one(known, question):
    assert recall_rule(question, known) == answer_of(question, known)


def test_the_line_that_tells_when_is_cited_behind_the_answer():
    deed = episode(1, 'Zofia carried the pipe home.')
    apart = episode(2, 'Tobin failed the test on 1 May 2024.', 'Tobin', date(2024, 5, 1))
    assert recall_rule(QUESTION, [ANCHOR, deed]).sources == ['D1/e1', 'D1/e0']
    assert recall_rule('What did Zofia do when Tobin failed his last test?', [apart, ANCHOR, deed]).sources == ['D1/e1', 'D1/e0']


# --- no gold

def test_the_rules_know_nothing_but_the_question_and_what_was_found():
    allowed = {'question', 'tools', 'ways', 'known', 'fresh', 'history', 'breadth', 'steps_left', 'speakers', 'asked', 'stop_early', 'found', 'lines'}
    for rule in (navigate_rule, route_rule, recall_rule, is_enough):
        assert set(inspect.signature(rule).parameters) <= allowed
    names = {node.id if isinstance(node, ast.Name) else node.attr for module in (walk_rules, inspect.getmodule(anchored))
             for node in ast.walk(ast.parse(Path(module.__file__).read_text(encoding='utf-8'))) if isinstance(node, (ast.Name, ast.Attribute))}
    assert not names & {'category', 'evidence', 'gold', 'Question', 'adversarial_answer'}


# --- the walk

@pytest.mark.parametrize('question, gold', [
    ('What did Zofia do when Tobin failed his test?', 'D9:15'), ('What did Zofia do when Tobin had his interview?', 'D5:14'),
    ('Where had Zofia been the weekend before Tobin applied to become a tram driver?', 'D3:6'),
    ('Where did Zofia go before Tobin ran the Millrace Half?', 'D5:8'), ('What did Tobin do two days after the grant letter arrived?', 'D9:8'),
    ("What did Zofia sign in the week when Tobin's Lemon Drops took second prize?", 'D10:6')])
def test_the_walk_reaches_and_cites_what_the_other_did(graph, question, gold):
    trace = MRAgent(graph).ask(question)
    assert trace.error is None and trace.evidence[0] == gold and len(trace.read) <= 20


def test_small_talk_of_the_same_day_is_no_answer(graph):
    answer = MRAgent(graph).ask('What did Zofia do when Tobin had his interview?').answer
    assert 'took three of them out' in answer and 'medal' not in answer


def test_where_nothing_is_known_of_the_other_it_says_so(graph):
    assert MRAgent(graph).ask('When Zofia was at Lake Orrin with her niece, what did Tobin do?').answer == NO_INFORMATION
