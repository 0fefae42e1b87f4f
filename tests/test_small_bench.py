"""What is measured of a small model: the laws of the gate and of the log, and the command against a server that babbles."""
import json
import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import mannwhitneyu

import memnb.cli as cli
from memnb.datasets import data_path, load_sample
from memnb.lm import LMError, ReplyError, RuleLM, ScriptedLM
from memnb.results import Results
from memnb.small_bench import Watched, agreement, by_finding, log_of, roles_report
from memnb.small_gate import area, balanced, best_gate, between, evenly, gate_points, gate_report
from memnb.small_roles import CHOOSE, ENOUGH
from servers import Server, chat

SCORES = st.lists(st.sampled_from([0, .125, .25, .5, .75, 1]), min_size=1, max_size=12)
BOTH = st.lists(st.tuples(st.sampled_from([0, .1, .2, .25, .5, .9, 1]), st.booleans()), min_size=2, max_size=14).filter(
    lambda pairs: len({kind for _, kind in pairs}) == 2)


@given(SCORES, SCORES)
def test_area_is_the_share_of_pairs(yes, no):
    assert area(yes, no) == pytest.approx(mannwhitneyu(yes, no).statistic / (len(yes) * len(no)))
    assert area(yes, no) + area(no, yes) == pytest.approx(1)
    assert area([one ** 3 for one in yes], [one ** 3 for one in no]) == area(yes, no)


@given(BOTH)
def test_balanced_accuracy_of_a_yes_or_no_is_its_area(pairs):
    said, truth = [score >= .25 for score, _ in pairs], [kind for _, kind in pairs]
    kinds = [[float(one) for one, kind in zip(said, truth) if kind == wanted] for wanted in (True, False)]
    assert balanced(said, truth) == pytest.approx(area(*kinds))
    assert balanced(said, truth) + balanced([not one for one in said], truth) == pytest.approx(1)


@given(BOTH)
def test_no_gate_is_better_than_the_best(pairs):
    scores, truth = np.array([score for score, _ in pairs]), [kind for _, kind in pairs]
    gate = best_gate(scores, truth)
    assert 0 <= gate <= 1
    assert balanced(scores >= gate, truth) >= max(balanced(scores >= one, truth) for one in np.linspace(0, 1, 41)) - 1e-9


@given(st.integers(1, 30))
def test_no_question_is_learned_from_and_asked(count):
    sample = load_sample()
    asked, aside = ([one.position for one in take(sample, count).questions] for take in (evenly, between))
    whole = [one.position for one in sample.questions if one.category != 'adversarial']
    assert not set(asked) & set(aside) and set(asked) | set(aside) <= set(whole)
    assert len(asked) == count and len(aside) == min(count, len(whole) - count)
    assert asked == sorted(asked) and aside == sorted(aside)


def test_a_report_of_points_that_say_the_truth():
    points = [{'enough': place % 2 == 0, 'probability': .9 - .5 * (place % 2), 'word': True, 'rule': place % 2 == 0} for place in range(20)]
    told = gate_report(points, .5)
    assert told['area']['mean'] == told['area']['low'] == 1
    assert {name: one['balanced']['mean'] for name, one in told['says'].items()} == {'rule': 1, 'word': .5, 'odds': 1}
    points[0]['reading'], points[1]['reading'] = None, True  # only where the first has one is it told of
    points = [{'reading': False, **one} for one in points]
    assert gate_report(points, .5)['says']['reading'] | {'balanced': None} == {'yes': 1, 'balanced': None, 'unusable': 1}


class Stumbling(RuleLM):
    """Rules that fail where the question says so."""
    def call(self, role, /, **inputs):
        if 'fall' in inputs['question']:
            raise ReplyError('no usable reply', 'well', role.name, 2)
        return super().call(role, **inputs)


@given(st.lists(st.sampled_from(['fall', 'Where is Rolf?', 'Who plays?']), max_size=12))
def test_every_call_is_one_line(tmp_path_factory, questions):
    file = tmp_path_factory.mktemp('log') / 'calls.jsonl'
    lm = Watched(Stumbling(), file)

    def ask(question):
        try:
            return lm.call(ENOUGH, question=question, notes=['Rolf plays.']).reply.yes
        except LMError as error:
            assert isinstance(error, ReplyError)

    with ThreadPoolExecutor(4) as pool:
        said = list(pool.map(ask, questions))
    lines = log_of(file)
    assert len(lines) == len(questions)
    assert sum(line['ok'] for line in lines) == sum(one is not None for one in said) == sum('fall' not in one for one in questions)
    for report in roles_report(lines):
        assert report['calls'] == len(lines) and report['agreement']['mean'] in (None, 1)  # rules agree with themselves
        assert sum(report['decided'].values()) == sum(line['ok'] for line in lines)


def test_a_line_that_was_cut_off_is_left_out(tmp_path):
    lm = Watched(ScriptedLM([{'yes': True}] * 2), tmp_path / 'calls.jsonl')
    lm.call(ENOUGH, question='Who plays?', notes=['Rolf plays.'])
    whole = log_of(lm.file)
    with open(lm.file, 'a') as log:
        log.write('{"role": "eno')
    assert log_of(lm.file) == whole and len(whole) == 1
    Watched(ScriptedLM([{'yes': True}]), lm.file).call(ENOUGH, question='Who plays?', notes=['Rolf plays.'])  # the next run goes on
    assert len(log_of(lm.file)) == 2
    assert log_of(tmp_path / 'none.jsonl') == []


@pytest.mark.parametrize('fault', [KeyboardInterrupt, OSError])
def test_what_is_no_answer_of_a_model_is_no_line(tmp_path, fault):
    class Broken(RuleLM):
        def call(self, role, /, **inputs):
            raise fault
    lm = Watched(Broken(), tmp_path / 'calls.jsonl')
    with pytest.raises(fault):
        lm.call(ENOUGH, question='Who plays?', notes=['Rolf plays.'])
    assert log_of(lm.file) == [] and roles_report(log_of(lm.file)) == []


def test_a_gate_without_odds_or_without_a_usable_reply_counts_as_no():
    [first, second] = load_sample().questions[:2]
    talk = replace(load_sample(), questions=(first, second))
    script = {'enough': ['well', 'no', {'yes': True}], 'read': [{'note': 'none', 'answer': ''}] * 2}
    points = list(gate_points([talk], ScriptedLM(script)))
    assert [(one['word'], one['probability'], one['reading']) for one in points] == [(None, None, False), (True, None, False)]
    points += [{**one, 'probability': .8, 'word': True} for one in points]
    told = gate_report(points, .5)
    assert told['says']['word'] | {'balanced': 0} == {'yes': 3, 'balanced': 0, 'unusable': 1}
    assert told['says']['odds'] | {'balanced': 0} == {'yes': 2, 'balanced': 0, 'unusable': 2} and told['area']['mean'] == .5


def test_one_way_is_no_choice_and_no_gold_is_no_finding(tmp_path):
    lm = Watched(RuleLM(), tmp_path / 'calls.jsonl')
    for ways in (['a → b (1)'], ['a → b (1)', 'c → d (2)']):
        lm.call(CHOOSE, question='Who plays?', known=[], ways=ways)
    assert [line.get('decided') for line in log_of(lm.file)] == [None, 'the first']
    row = {'dataset': 'x', 'conversation': 'c', 'method': 'rag', 'position': 0, 'category': None, 'scores': {'recall': None, 'f1_locomo': 0.}}
    found = by_finding(Results([row, {**row, 'position': 1, 'scores': {'recall': .5, 'f1_locomo': 1.}}], {}))['rag']
    assert (found['read']['n'], found['not read']['n'], found['not read']['mean']) == (0, 1, 1)


@given(st.booleans(), st.booleans())
def test_agreement_is_symmetric(ours, theirs):
    one, other = (ENOUGH.reply(yes=yes) for yes in (ours, theirs))
    assert agreement(one, other) == agreement(other, one) == float(ours == theirs)


def babble(schema, dice, root=None):
    """A random value that fits a schema, short."""
    root = root or schema
    if '$ref' in schema:
        return babble(root['$defs'][schema['$ref'].split('/')[-1]], dice, root)
    if 'enum' in schema or 'const' in schema:
        return dice.choice(schema.get('enum', [schema.get('const')]))
    if 'anyOf' in schema:
        return babble(dice.choice(schema['anyOf']), dice, root)
    if schema['type'] == 'object':
        return {name: babble(part, dice, root) for name, part in schema.get('properties', {}).items()}
    if schema['type'] == 'array':
        return [babble(schema['items'], dice, root) for _ in range(dice.randrange(3))]
    plain = {'boolean': True, 'integer': 1, 'number': .5, 'null': None}
    return plain[schema['type']] if schema['type'] in plain else dice.choice(['Tobin', 'concertina', '2024', 'D1:5'])[:schema.get('maxLength', 9)]


def chatter(request):
    """A server's answer made from the schema alone; its odds follow from the prompt."""
    dice = random.Random(request['messages'][-1]['content'])
    low, high = sorted((dice.random(), dice.random()))
    odds = {'content': [{'token': 'true', 'bytes': None, 'logprob': -low, 'top_logprobs': [
        {'token': 'true', 'bytes': None, 'logprob': -low}, {'token': 'false', 'bytes': None, 'logprob': -high}]}]}
    return chat(babble(request['response_format']['json_schema']['schema'], dice), logprobs=odds)(request)


def test_the_command_measures_a_served_model_and_goes_on_in_its_folder(tmp_path, capsys):
    run = ['paper', 'small', '--data', str(data_path('sample.json')), '--model', 'babbler', '--questions', '4', '--out', str(tmp_path / 'run'), '--json']
    with Server(chatter, limit=3000) as server:
        assert cli.main([*run, '--base-url', server.url]) == 0
        told, first = json.loads(capsys.readouterr().out), len(server.requests)
        assert cli.main([*run, '--base-url', server.url]) == 0
        again, second = json.loads(capsys.readouterr().out), len(server.requests)
    assert first == second > 50  # the second time nothing is asked
    assert {**again, 'provenance': None} == {**told, 'provenance': None}
    assert [one['method'] for one in told['methods']] == ['rag', 'memr3', 'remem', 'mragent', 'memma']
    assert all(one['questions'] == 4 and one['errors'] == 0 for one in told['methods'])
    assert {one['role'] for one in told['parts']} >= {'enough', 'note', 'next', 'choose', 'read'}
    assert all(0 <= one['ok']['mean'] <= 1 and one['prompt_tokens'] == 7 for one in told['parts'] if one['at first'] == one['calls'])
    assert told['gate']['gate'] == told['learned']['gate'] and set(told['gate']['says']) == {'rule', 'word', 'odds', 'reading'}
    assert told['provenance']['model'] == 'babbler' and list(told['provenance']['files']) == ['sample.json']
    questions = replace(evenly(load_sample(), 4)).questions
    assert not any(one.text in json.dumps(told) for one in questions)


def test_it_says_what_it_needs(capsys):
    assert cli.main(['paper', 'small']) == 2
    assert 'needs --data FILE' in capsys.readouterr().err
    assert cli.main(['paper', 'small', '--data', 'none.json', '--model', 'x']) == 2
    assert 'expected --model NAME' in capsys.readouterr().err
