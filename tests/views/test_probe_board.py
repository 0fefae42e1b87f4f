"""The probe-and-repair board: every choice is a memory of its own, and none leaves anything behind."""
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from html import unescape

import pytest
from hypothesis import given, settings, strategies as st

import memnb.views.widgets as probe_board_module
from memnb.core.conversation import Question
from memnb.evaluation.datasets import load_sample
from memnb.memma.bank import Edit
from memnb.memma.probe_repair import count_passed
from memnb.memma.probe_repair import damage
from memnb.memma.bank import MemoryBank
from memnb.views.widgets import (
    bank_of, Choosing, COUNT, DAMAGES, edits_of, fates, Outcome, outcome, probe_board, Probing,
    probing_update, probing_view, Scene, SHARE, told, words_changed)
from memnb.memma.probe_repair import evolve
from memnb.memma.construction import construct
from pages_read import Page

SAMPLE = load_sample()
SESSION = SAMPLE.sessions[4]
SCENE = Scene(SESSION, SAMPLE.speakers, (SAMPLE.questions[6], SAMPLE.questions[32]))
CASES = [('', 1), ('names', 2), ('blur', 1), ('cluster', 2)]
EVIL = '<img src=x onerror=alert(1)>"\'><script>alert(2)</script>'


def by_hand(kind, seed):
    """The damaged memory and what becomes of it, made without the board."""
    bank = MemoryBank()
    construct(bank, SESSION, speakers=SAMPLE.speakers)
    if kind:
        damage(bank, [entry.id for entry in bank], kind, SHARE, str(seed), SAMPLE.speakers)
    before = {entry.id: entry.text for entry in bank}
    story = evolve(bank, SESSION, probes=COUNT, speakers=SAMPLE.speakers)
    failed = [place for place, one in enumerate(story.before) if not one.passed]
    return before, dict(zip(failed, story.repairs)), {entry.id: entry.text for entry in bank}, story


@pytest.fixture(scope='module')
def hand():
    return {case: by_hand(*case) for case in CASES}


def test_all_is_the_mechanism_and_none_is_the_damage(hand):
    for case in CASES:
        before, repairs, after, story = hand[case]
        everything, nothing = outcome(SCENE, *case), outcome(SCENE, *case, frozenset())
        assert {entry.id: entry.text for entry in everything.entries.values()} == after
        assert {entry.id: entry.text for entry in nothing.entries.values()} == before
        assert everything.story.rounds() == story.rounds() and nothing.story.before == story.before == nothing.story.after
        assert set(Probing(SCENE, *case).proposals) == {place for place, one in repairs.items() if one.fact}


EVENTS = st.one_of(
    st.tuples(st.just('case'), st.sampled_from(CASES)), st.tuples(st.sampled_from(['accept', 'reject']), st.integers(-1, COUNT).map(str)),
    st.tuples(st.just('every'), st.sampled_from(['accept', 'reject', 'forget'])), st.tuples(st.just('question'), st.integers(-1, 2).map(str)),
    st.tuples(st.sampled_from(['kind', 'seed', '', '<b>']), st.sampled_from(['x', '-1', '99', EVIL])))


@settings(max_examples=25)
@given(st.lists(EVENTS, max_size=8))
def test_any_clicks_end_where_a_simple_book_says(hand, events):
    """The oracle: a set of places; an accepted repair brings the text that it has when all are accepted."""
    board, case, accepted, asked = probe_board(SAMPLE, 4, SCENE.questions), ('blur', 1), set(), 0
    for name, value in events:
        refused, places = False, {place for place, one in hand[case][1].items() if one.fact}
        if name == 'case':
            board.send('kind', value[0]).send('seed', str(value[1]))
            case, accepted = value, set()
        else:
            board.send(name, value)
            if name in ('accept', 'reject') and value.isdecimal() and int(value) in places:
                accepted = accepted | {int(value)} if name == 'accept' else accepted - {int(value)}
            elif name == 'every' and value != 'forget':
                accepted = places if value == 'accept' else set()
            elif name == 'question' and value in ('0', '1'):
                asked = int(value)
            else:
                refused = True
        assert bool(board.refused) == refused
    state = board.state
    assert (state.kind, state.seed, state.accepted, state.asked) == (*case, accepted, asked)
    before, repairs, after, story = hand[case]
    expected = before | {repairs[place].entry: after[repairs[place].entry] for place in accepted}
    now = {entry.text for entry in state.now.entries.values()}
    assert now == set(expected.values())
    page = Page(board.html)
    passed = count_passed(state.now.story.after)
    assert page.words.count('✓ passed') + page.words.count('✗ failed') == COUNT + sum(not one.passed for one in story.before)
    assert page.words.count('Accept') == 1 + len([one for one in repairs.values() if one.fact])
    assert board.html.count('data-event="accept"') == len(re.findall('data-event="reject"', board.html))
    assert len(re.findall(r'data-event="accept" data-value="\d" aria-pressed="true"', board.html)) == len(accepted)
    wanted = f'{passed} with {len(accepted)} of {len(repairs)} repair' if repairs else 'nothing to repair'
    assert wanted in page.words


def test_a_choice_is_taken_back_and_does_not_outlive_its_memory():
    state = probing_update(probing_update(Probing(SCENE), 'accept', '2'), 'accept', '0')
    assert probing_update(state, 'reject', '2').accepted == {0} and probing_update(state, 'reject', '5').accepted == {0, 2}
    for name, value in (('kind', 'names'), ('kind', 'blur'), ('seed', '1'), ('seed', '2'), ('every', 'reject')):
        assert probing_update(state, name, value).accepted == frozenset()
    assert probing_update(state, 'question', '1').accepted == {0, 2}


def test_fates_are_told_apart_by_what_the_three_memories_say(hand):
    written = hand['', 1][0]
    for case in CASES[1:]:
        before, repairs, after, _ = hand[case]
        for accepted, now in ((frozenset(), before), (frozenset(repairs), after)):
            for entry, fate in fates(Probing(SCENE, *case, accepted)):
                was = written.get(entry.id)
                wanted = ('lost' if entry.id not in now else 'new' if was is None else 'repaired' if now[entry.id] != before.get(entry.id)
                          else 'damaged' if now[entry.id] != was else '')
                assert fate == wanted


def test_a_later_question_is_answered_from_the_chosen_memory():
    assert not told(SCENE, 'blur', 1, frozenset(), 0)[1] and told(SCENE, 'blur', 1, frozenset({2}), 0)[1]
    assert not told(SCENE, 'blur', 1, frozenset({0, 1, 5}), 0)[1]
    page = Page(probing_view(Probing(SCENE, 'blur', 1, frozenset({2})))).words
    assert page.index('✓ right') < page.index('✗ wrong') < page.index('✓ right', page.index('✗ wrong'))


@given(st.sampled_from(['kind', 'seed', 'question', 'accept', 'reject', 'every', 'other']), st.text(max_size=5) | st.sampled_from(['²', '٣', '1e3']))
def test_an_update_refuses_or_gives_a_state_that_can_be_shown(name, value):
    state = Probing(SCENE)
    try:
        after = probing_update(state, name, value)
    except ValueError as error:
        assert 'expected' in str(error)
    else:
        assert after.kind in DAMAGES and 0 <= after.seed <= 9 and after.asked in (0, 1) and after.accepted <= set(after.proposals)


WORDS = st.lists(st.sampled_from(['a', 'b', 'the', '<b>', '</ins>', '&amp;', '"']), max_size=8).map(' '.join)


@given(WORDS, WORDS)
def test_both_texts_can_be_read_off_a_picture(old, new):
    picture = words_changed(old, new)
    assert set(re.findall('<(.*?)>', picture)) <= {'del', '/del', 'ins', '/ins'}
    without = [re.sub(f'<{tag}>.*?</{tag}>', '', picture) for tag in ('ins', 'del')]
    assert [' '.join(unescape(re.sub('</?(?:ins|del)>', '', one)).split()) for one in without] == [old, new]
    assert ('<del>' in picture or '<ins>' in picture) == (old != new) and '></' not in picture


TEXTS = st.sampled_from(['one', 'two', 'three', 'One', 'four'])
CHANGES = st.lists(st.tuples(st.sampled_from(['ADD', 'UPDATE', 'DELETE']), st.integers(1, 4), TEXTS, st.sampled_from([(), ('D1:1',), ('D1:2',)])), max_size=8)


@given(CHANGES)
def test_a_bank_is_made_again_from_its_edits(changes):
    bank = MemoryBank()
    for action, number, text, sources in changes:
        edit = {'ADD': Edit('ADD', text, sources=sources), 'UPDATE': Edit('UPDATE', text, f'm{number}', sources=sources),
                'DELETE': Edit('DELETE', entry=f'm{number}')}[action]
        try:
            bank.apply([edit])
        except (KeyError, ValueError):
            continue
    again = bank_of(edits_of(bank))
    assert list(again) == list(bank) and edits_of(again) == edits_of(bank)


def test_who_chooses_answers_all_other_roles_by_the_rules(hand):
    _, repairs, _, story = hand['blur', 1]
    bank = bank_of(probe_board_module.memory_edits(SCENE, 'blur', 1))
    none = evolve(bank, SESSION, Choosing([one.probe for one in repairs.values()]), probes=COUNT, speakers=SAMPLE.speakers)
    assert none.before == story.before == none.after and [one.reason for one in none.repairs] == ['rejected'] * len(repairs)


def test_markup_stays_text():
    turns = tuple(replace(turn, text=turn.text.replace('the Millrace Half', f'the Millrace Half {EVIL}')) for turn in SESSION.turns)
    scene = Scene(replace(SESSION, turns=turns), SAMPLE.speakers, (Question(EVIL, EVIL, ('D5:1',)),))
    plain = Page(''.join(probing_view(Probing(SCENE, kind, seed, accepted)) for kind, seed in CASES for accepted in (frozenset(), frozenset({2}))))
    for kind, seed in CASES:
        for accepted in (frozenset(), frozenset({2})):
            page = Page(probing_view(Probing(scene, kind, seed, accepted)))
            assert set(page.names) <= set(plain.names) and page.attributes <= plain.attributes and EVIL in page.words


def test_the_words_that_a_repair_stands_on_are_bold_in_their_turn():
    page = probing_view(Probing(SCENE, 'blur', 1))
    assert 'walks downstairs backwards. <b>I did it, Zofia. Last Sunday I ran the Millrace Half!</b></p>' in page
    quoted = re.findall('</code> (\\w+): (.*?<b>.*?)</p>', page)
    assert [f'{who}: {re.sub("</?b>", "", unescape(words))}' for who, words in quoted] == [
        f'{turn.speaker}: {turn.content}' for turn in (SESSION.turns[place] for place in (7, 11, 0, 16))]


def test_what_was_taken_back_is_said(monkeypatch):
    real = outcome(SCENE, 'blur', 1)
    kept = outcome(SCENE, 'blur', 1, frozenset()).edits, outcome(SCENE, 'blur', 1, frozenset()).entries
    worse = Outcome(replace(real.story, taken_back='2 of 6 before, 1 <with> them', after=real.story.before,
                            repairs=tuple(replace(one, entry=None) for one in real.story.repairs)), *kept)
    monkeypatch.setattr(probe_board_module, 'outcome', lambda *given: worse)
    page = probing_view(Probing(SCENE, 'blur', 1, frozenset({0})))
    assert '<p role="alert"><b>Taken back:</b> 2 of 6 before, 1 &lt;with&gt; them</p>' in page


def test_a_session_without_a_question_of_its_own_is_refused():
    with pytest.raises(ValueError, match='session D2: expected a question whose evidence is in it'):
        probe_board(SAMPLE, 1)
    assert probe_board(SAMPLE, 1, [Question('Why?', 'Because')]).state.scene.questions[0].text == 'Why?'


def test_clicks_may_come_from_any_thread():
    board, pages = probe_board(SAMPLE, 4, SCENE.questions), []
    with ThreadPoolExecutor(1) as other:
        for name, value in (('kind', 'names'), ('seed', '3'), ('every', 'accept'), ('question', '1')):
            other.submit(board.send, name, value).result()
            pages.append(board.html)
            assert not board.refused
    again = probe_board(SAMPLE, 4, SCENE.questions)
    for (name, value), page in zip((('kind', 'names'), ('seed', '3'), ('every', 'accept'), ('question', '1')), pages):
        assert again.send(name, value).html == page
