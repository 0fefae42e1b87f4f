"""The laws of a gate between few turns and many, over made-up questions, and the command against a server that babbles."""
import itertools
import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import memnb.cli as cli
from memnb.datasets import data_path, load_sample
from memnb.gate_worth import (SHARES, best_share, breakeven, curve, enough_after, gate_worth_report, gate_worth_tables, reads, routed, search_points,
                              shares_learned, steepness, stopped, worth, worth_at, worth_of_area)
from memnb.indexes import HybridIndex
from memnb.lm import RuleLM, ScriptedLM
from memnb.search import Hit
from memnb.small_gate import area, gate_points
from memnb.snippets import Snippet
from servers import Server
from test_small_bench import chatter

FEW, MANY, DEPTH = 2, 5, 6
NUMBERS = st.integers(-3, 3).map(float)


@st.composite
def questions(draw, least=1):
    """Points as `search_points` has them: gold turns of each question at some of the first places, or nowhere."""
    points = []
    for place in range(draw(st.integers(least, 7))):
        golden = draw(st.lists(st.integers(1, DEPTH + 2), min_size=1, max_size=3, unique=True))
        points.append({'conversation': 'c', 'position': place, 'found': [sum(one <= turns for one in golden) / len(golden) for turns in range(DEPTH + 1)]})
    return points


@st.composite
def scored(draw):
    points = draw(questions())
    return points, draw(st.lists(NUMBERS, min_size=len(points), max_size=len(points)))


SOME_SHARE = st.sampled_from([0, .1, .25, 1 / 3, .5, .7, 1])


@given(st.lists(NUMBERS, max_size=8), st.floats(.01, 100))
def test_steepness_is_a_share_and_keeps_to_the_unit_of_scores(scores, factor):
    def steep(numbers):
        return steepness([Hit(Snippet(f'T{place}', 'x'), number) for place, number in enumerate(numbers)])
    assert 0 <= steep(scores) <= 1
    assert steep(scores) == pytest.approx(steep([factor * one for one in scores])) == steep(sorted(scores, reverse=True))
    assert steep([*scores, None]) == 0 and steep([abs(one) + 1 for one in scores[:1] * 3]) == 0


@given(st.lists(NUMBERS, min_size=1, max_size=5), SOME_SHARE)
def test_who_stops_is_the_mean_over_all_ways_to_break_ties(scores, share):
    ways = [way for way in itertools.permutations(range(len(scores))) if all(scores[one] >= scores[other] for one, other in itertools.pairwise(way))]
    expected = np.zeros(len(scores))
    for way in ways:
        for rank, place in enumerate(way):
            expected[place] += min(max(share * len(scores) - rank, 0), 1) / len(ways)
    assert stopped(scores, share) == pytest.approx(expected)
    assert stopped(scores, share).sum() == pytest.approx(share * len(scores))


@given(questions(), SOME_SHARE)
def test_equal_scores_lie_on_the_chord(points, share):
    turns, recall = routed(points, [7.] * len(points), FEW, MANY, share)
    assert turns == pytest.approx(share * FEW + (1 - share) * MANY)
    assert recall == pytest.approx(share * curve(points)[FEW] + (1 - share) * curve(points)[MANY])
    steps = np.diff(curve(points))
    if (np.diff(steps) <= 1e-12).all():  # it bends downwards
        assert worth(points, [7.] * len(points), FEW, MANY, share) <= 1e-9


@given(questions(), st.floats(0, DEPTH))
def test_even_reading_gives_some_of_the_questions_one_turn_more(points, turns):
    whole = min(int(turns), DEPTH - 1)
    expected = [(1 - turns + whole) * one['found'][whole] + (turns - whole) * one['found'][whole + 1] for one in points]
    assert reads(points, turns) == pytest.approx(np.mean(expected))


@given(scored())
def test_nothing_is_worth_more_than_the_truth(both):
    points, scores = both
    truth = enough_after(points, FEW)
    assert worth(points, scores, FEW, MANY) <= worth(points, truth, FEW, MANY) + 1e-9
    assert routed(points, truth, FEW, MANY)[1] == pytest.approx(curve(points)[MANY])


@given(questions(), SOME_SHARE)
def test_at_the_break_even_nothing_is_left(points, share):
    bar, truth = breakeven(points, FEW, MANY, share), enough_after(points, FEW)
    gains = [one['found'][MANY] - one['found'][FEW] for one in points]
    assert (bar['wrong'] is None) == (sum(gains) == 0)
    assume(bar['wrong'] is not None and truth.any())
    stop = np.where(truth, (share - (1 - truth.mean()) * bar['wrong']) / truth.mean(), bar['wrong'])
    recall = np.mean([likely * one['found'][FEW] + (1 - likely) * one['found'][MANY] for likely, one in zip(stop, points)])
    assert recall == pytest.approx(reads(points, share * FEW + (1 - share) * MANY))
    if bar['area'] is not None:
        assert .5 < bar['area'] < 1 and 0 < bar['wrong'] < share


@pytest.mark.parametrize('few, many, share', [(5, 15, None), (5, 25, None), (10, 25, None), (5, 25, .2), (10, 50, .9)])
def test_gates_of_normal_scores_are_worth_what_their_area_says(few, many, share):
    points, dice = search_points([load_sample()]), np.random.default_rng(1)
    truth, big = enough_after(points, few), np.repeat(np.arange(len(points)), 500)  # each question many times, so that one draw is enough
    repeated = [points[place] for place in big]
    for lean in (0, .6, 1.5, 3):
        scores = dice.normal(size=len(big)) + lean * truth[big]
        known = area(scores[truth[big]][:3000], scores[~truth[big]][:3000])
        assert worth(repeated, scores, few, many, share) == pytest.approx(worth_of_area(points, known, few, many, share), abs=.01)


@given(questions(), st.sampled_from([.1, 1 / 3, .5, .7]))
def test_the_area_of_the_break_even_is_worth_nothing_and_that_of_a_coin_is_on_the_chord(points, share):
    truth, bar = enough_after(points, FEW), breakeven(points, FEW, MANY, share)
    assert worth_of_area(points, .5, FEW, MANY, share) == pytest.approx(worth(points, [0] * len(points), FEW, MANY, share))
    if bar['area'] is not None:
        assert worth_of_area(points, bar['area'], FEW, MANY, share) == pytest.approx(0, abs=1e-9)
    if 0 < truth.sum() < len(truth):
        rising = [worth_of_area(points, known, FEW, MANY, share) for known in (.1, .3, .5, .8, .99)]
        assert rising == pytest.approx(sorted(rising), abs=1e-12)
    for share in (0, 1):
        assert worth_of_area(points, .7, FEW, MANY, share) == pytest.approx(0, abs=1e-9)


@given(scored(), st.data())
def test_a_share_is_learned_from_the_other_conversations_alone(both, data):
    points, scores = both
    names = data.draw(st.lists(st.sampled_from('abc'), min_size=len(points), max_size=len(points)))
    points = [{**one, 'conversation': name} for one, name in zip(points, names)]
    if len(set(names)) < 2:
        with pytest.raises(ValueError, match='got 0 questions'):
            shares_learned(points, scores, FEW, MANY)
        return
    shares = shares_learned(points, scores, FEW, MANY)
    assert shares.keys() == set(names)
    total = 0
    for name, share in shares.items():
        mine, others = ([place for place, of in enumerate(names) if (of == name) is own] for own in (True, False))
        on_others = {one: worth([points[place] for place in others], [scores[place] for place in others], FEW, MANY, one) for one in SHARES}
        assert on_others[share] == pytest.approx(max(on_others.values()), abs=1e-8) and on_others[share] >= -1e-9
        total += len(mine) * worth([points[place] for place in mine], [scores[place] for place in mine], FEW, MANY, share)
    assert worth_at(points, scores, FEW, MANY, shares) == pytest.approx(total / len(points))


@given(questions())
def test_nothing_is_worth_more_than_what_knows_the_gains(points):
    gains = [one['found'][FEW] - one['found'][MANY] for one in points]
    for share in SHARES[::4]:
        assert worth(points, gains, FEW, MANY, share) >= worth(points, enough_after(points, FEW), FEW, MANY, share) - 1e-9
    assert best_share(points, [0] * len(points), FEW, MANY) in SHARES


def test_points_are_what_one_search_finds():
    sample = load_sample()
    memory, points = HybridIndex.of(sample), search_points([sample], 12)
    for one in points[::7]:
        question = sample.questions[one['position']]
        hits = memory.search(question.text, 12)
        for turns in range(13):
            assert one['found'][turns] == pytest.approx(len({hit.snippet.id for hit in hits[:turns]} & set(question.evidence)) / len(question.evidence))
            assert one['steep'][turns] == steepness(hits[:turns])
    told = list(gate_points([sample], RuleLM(), 10, others=False))
    assert [(one['position'], one['enough']) for one in told] == [(one['position'], one['found'][10] == 1) for one in points]


def test_a_short_conversation_is_read_to_its_end():
    sample = load_sample()
    points = search_points([sample], 400)
    assert all(len(one['found']) == len(one['steep']) == 401 and one['found'][-1] == 1 for one in points)


@pytest.mark.parametrize('few, many', [(5, 5), (5, 2), (-1, 2), (2, 51)])
def test_a_way_that_is_none_is_refused(few, many):
    points = search_points([load_sample()])
    for use in (lambda: worth(points, [0] * len(points), few, many), lambda: breakeven(points, few, many), lambda: worth_of_area(points, .7, few, many),
                lambda: gate_worth_report([load_sample()], ways=((10, 25), (few, few)))):
        with pytest.raises(ValueError, match='few < many'):
            use()


@pytest.mark.parametrize('scores, share', [([float('nan'), 1], .5), ([0, 1], -.1), ([0, 1], 1.1)])
def test_what_is_no_score_or_share_is_refused(scores, share):
    with pytest.raises(ValueError, match='expected numbers, and a share from 0 to 1'):
        stopped(scores, share)


@pytest.mark.parametrize('turns', [-1, 6.5])
def test_more_turns_than_were_searched_are_refused(turns):
    with pytest.raises(ValueError, match='expected 0 to 6 turns'):
        reads([{'found': [0] * 7}], turns)


def test_the_command_asks_a_model_once_for_each_question(tmp_path, capsys):
    run = ['paper', 'gate', '--data', str(data_path('sample.json')), '--questions', '9', '--json']
    assert cli.main(run) == 0
    ruled = json.loads(capsys.readouterr().out)
    with Server(chatter, limit=30) as server:
        served = [*run, '--model', 'babbler', '--base-url', server.url, '--out', str(tmp_path / 'run')]
        assert cli.main(served) == 0
        first, told = len(server.requests), json.loads(capsys.readouterr().out)
        assert cli.main(served) == 0
    assert first == len(server.requests) == ruled['questions'] == 9
    assert list(told['ways'][2]['gates']) == ['coin', 'rule', 'word', 'odds', 'steepness', 'truth', 'gains']
    assert list(ruled['ways'][2]['gates']) == ['coin', 'rule', 'steepness', 'truth', 'gains']
    assert told['curve'] == ruled['curve'] and told['ways'][0]['gates']['steepness'] == ruled['ways'][0]['gates']['steepness']
    assert told['more than odds'] and not ruled['more than odds'] and told['provenance']['model'] == 'babbler'
    assert cli.main(run[:-1]) == 0 and 'what is to be had, over 9 questions' in capsys.readouterr().out
    assert cli.main([*run, '--model', 'babbler']) == 2 and 'expected --out DIR' in capsys.readouterr().err


def test_where_all_or_nothing_is_found_there_is_no_area():
    sample = load_sample()
    odds = ScriptedLM({'enough': [{'yes': True, 'probability': .7}]})
    for lm in (RuleLM(), odds):
        report = gate_worth_report([replace(sample, questions=sample.questions[:1])], lm, ways=((10, 25), (2, 5)))
        assert report['by conversation'] == {} and report['more than odds'] is None
        assert report['ways'][0]['gates']['steepness']['area'] is None and report['ways'][0]['breakeven'] == {'wrong': None, 'area': None}
        assert '–' in str(gate_worth_tables(report)[1])
    with pytest.raises(ValueError, match='got 0 questions'):
        gate_worth_report([replace(sample, questions=())])


def test_replies_that_cannot_be_used_are_counted_and_call_nothing_enough():
    sample = load_sample()
    some = replace(sample, questions=sample.questions[:3])
    report = gate_worth_report([some], ScriptedLM({'enough': ['no JSON', 'still none', {'yes': True}, 'no JSON', 'still none']}), ways=((10, 25),))
    assert report['unusable'] == 2 and list(report['ways'][0]['gates']) == ['coin', 'rule', 'word', 'steepness', 'truth', 'gains']
