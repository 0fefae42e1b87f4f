"""The judge, the rule in its place, the trials that it is given, and its calibration: laws, odd replies, and counts by hand."""
import json
from dataclasses import replace
from datetime import date, timedelta

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from memnb.evaluation.judge import calibrate_judge
from memnb.core.conversation import Question
from memnb.evaluation.datasets import load_sample
from memnb.evaluation.judge import (
    Judge, judge_role, Judged, Judgement, LENIENT, must_refuse, prompt_id, REFUSAL, STRICT, Tally,
    tally, VARIANTS)
from memnb.evaluation.judge import (
    declines, denied, facts_of, lenient_rule, refusal_rule, strict_rule, yes_or_no)
from memnb.core.models import FunctionLM, ScriptedLM
from memnb.core.roles import LMError, RuleLM, ServerError, Usage
from memnb.evaluation.judge import KINDS, trials

often = settings(max_examples=40, deadline=None)
things = ['a yellow jumper', 'Ghent', 'Dr. Quill', 'eleven prints', '48,000 pounds', 'Lemon Drop and Fish Pepper', 'knitting, swimming, baking',
          'The concertina', 'June 2024', '2023', '8 January 2024', 'the week before 20 October 2024', 'asleep in a flour sack (at home)', 'no sun',
          'Yes, she likes it', 'Probably not, since he is tired', 'They did', 'No information available', '8 months', 'Line 4 at first, Line 9 now']
asking = ['When was it?', 'Where did she go?', 'Would he like it?', 'How many months passed?', 'What has Tobin grown?', 'Was it Ghent or Gdynia?', '']
golds = st.sampled_from(things)
questions = st.sampled_from(asking)
answers = st.one_of(golds, st.tuples(golds, golds).map(' and '.join), golds.map('It was not {}.'.format), golds.map(lambda gold: f'I think: {gold}, in May 2021.'),
                    st.text(max_size=20), st.sampled_from(['sometime last year', 'somewhere', 'in 2024', '', ' ', 'nothing', '9 months', 'Yes', 'No']))
days = st.dates(date(1990, 1, 1), date(2060, 12, 31))
forms = st.sampled_from(['{0.day} {0:%B %Y}', '{0:%B} {0.day}, {0.year}', '{0:%Y-%m-%d}', '{0.day} {0:%b} {0.year}', 'It was on {0.day} {0:%B %Y}.'])


def accepts(rule, question, gold, answer):
    return rule(question, [gold] if isinstance(gold, str) else gold, answer)['correct']


# --- the rules -------------------------------------------------------------------------------------------------------

@given(questions, golds, answers)
@example('Was it Ghent or Gdynia?', 'Ghent', 'Ghent')
@often
def test_what_the_strict_rule_accepts_the_lenient_one_accepts(question, gold, answer):
    assert accepts(lenient_rule, question, gold, answer) or not accepts(strict_rule, question, gold, answer)


@given(questions, golds | st.text(min_size=1).filter(str.strip))
@often
def test_the_gold_answer_is_accepted_whatever_it_is(question, gold):
    for rule in (strict_rule, lenient_rule):
        assert accepts(rule, question, gold, gold)
        assert accepts(rule, question, gold, f'  {gold}\n')


@given(st.sampled_from(asking[:-2]), golds)
@often
def test_the_gold_answer_in_a_sentence_is_accepted(question, gold):
    for rule in (strict_rule, lenient_rule):
        assert accepts(rule, question, gold, f'As far as I remember it was this: {gold}.')


@given(days, days, forms, forms)
@example(date(2024, 1, 8), date(2024, 8, 1), '{0.day} {0:%B %Y}', '{0:%Y-%m-%d}')
@often
def test_a_day_is_itself_in_any_form_and_no_other_day(one, other, form, other_form):
    gold, told = form.format(one).removeprefix('It was on ').rstrip('.'), other_form.format(other)
    assert accepts(strict_rule, 'When?', gold, other_form.format(one))
    assert accepts(strict_rule, 'When?', gold, told) == (one == other)
    assert accepts(lenient_rule, 'When?', gold, told) == (one == other)
    both = f'{form.format(one)} or {told}'
    assert accepts(strict_rule, 'When?', gold, both) == (one == other)


@given(days)
@often
def test_a_part_of_a_day_is_enough_for_the_lenient_rule_only(day):
    for vague in (f'in {day:%B %Y}', f'in {day.year}', 'sometime last year'):
        assert accepts(lenient_rule, 'When?', f'{day.day} {day:%B %Y}', vague)
        assert not accepts(strict_rule, 'When?', f'{day.day} {day:%B %Y}', vague)
    later = day + timedelta(400)
    assert not accepts(lenient_rule, 'When?', f'{day.day} {day:%B %Y}', f'in {later:%B %Y}')


@given(st.integers(4, 400), st.integers(-2, 2), st.sampled_from(['days', 'weeks', 'months', 'prints']))
@often
def test_numbers_are_compared_by_value_and_one_off_is_forgiven_for_times_only(gold, off, unit):
    told = gold + off
    answer = f'It was {told} {unit}.'
    assert accepts(strict_rule, 'How many?', f'{gold} {unit}', answer) == (gold == told)
    near = strict_rule('How many?', [f'{gold} {unit}'], answer, near=1)['correct']
    assert near == (abs(gold - told) <= (unit != 'prints'))
    several = f'{gold} or {told} {unit}'
    assert accepts(strict_rule, 'How many?', f'{gold} {unit}', several) == (gold == told)
    assert strict_rule('How many?', [f'{gold} {unit}'], several, others=True)['correct']


@given(questions, st.lists(golds, min_size=1, max_size=4), answers, st.randoms())
@often
def test_the_order_of_aliases_does_not_matter_and_another_alias_only_helps(question, aliases, answer, random):
    turned = random.sample(aliases, len(aliases))
    for rule in (strict_rule, lenient_rule):
        assert accepts(rule, question, aliases, answer) == accepts(rule, question, turned, answer)
        assert accepts(rule, question, aliases, answer) == any(accepts(rule, question, one, answer) for one in aliases)
        assert all(accepts(rule, question, turned, one) for one in aliases)


@given(questions, golds, answers)
@often
def test_judging_again_says_the_same(question, gold, answer):
    for rule in (strict_rule, lenient_rule, refusal_rule):
        assert rule(question, [gold], answer) == rule(question, [gold], answer)


def test_names_numbers_and_lists_are_wanted_whole():
    for gold, answer, right in [
            ('Dr. Quill', 'Quill', True), ('Dr. Quill', 'Dr. Amsel', False), ('eleven prints', '11 prints', True), ('£48,000', '48,000 pounds', True),
            ('Lemon Drop and Fish Pepper', 'Fish Pepper, and Lemon Drop', True), ('Lemon Drop and Fish Pepper', 'Lemon Drop', False),
            ('one, two, three red, four blue, five green hats', 'red, blue hats', False),
            ('Winter swimming, knitting, linocut, baking bread, learning Polish Sign Language',
             'Winter swimming, knitting, baking bread, learning Polish Sign Language', False),  # nine of ten words, but no linocut
            ('a long wooden bread peel', 'a wooden peel', False), ('a long wooden bread peel with a handle', 'a long wooden bread peel', True),
            ('asleep in a flour sack (at home)', 'asleep in a flour sack', True), ('Poland, since his niece lives there', 'Poland', True)]:
        assert accepts(strict_rule, 'What?', gold, answer) is right, (gold, answer)


def test_what_is_denied_is_wrong_and_what_is_denied_beside_it_is_not():
    for rule in (strict_rule, lenient_rule):
        assert not accepts(rule, 'Where?', 'Ghent', 'It was not Ghent.')
        assert accepts(rule, 'Where?', 'Ghent', 'It was not Gdynia but Ghent.')
        assert not accepts(rule, 'Why?', 'he did not sleep', 'he did sleep')
        assert not accepts(rule, 'Would he?', 'No, he is tired', 'Yes, he is tired')
        assert accepts(rule, 'Would he?', 'Likely no', 'No.')
        assert not accepts(rule, 'When?', 'May, 2023', 'It was not May, 2023.')
    assert yes_or_no('Where is it?', 'No 4, Net Row') is None
    assert denied('She never went to Ghent', {'ghent'}) and not denied('She never went, it was Ghent', {'ghent'})


def test_declining_is_right_where_it_is_due_and_wrong_elsewhere():
    for answer in ('No information available', 'That is not mentioned.', "I don't know.", 'It cannot be determined.', 'You never told me.'):
        assert declines(answer)
        assert accepts(refusal_rule, 'Where?', 'any', answer)
        assert not accepts(lenient_rule, 'Where?', 'Ghent', f'Ghent? {answer}')
    for answer in ('Ghent', 'It was mentioned in the conversation.', 'He does not say much.'):
        assert not accepts(refusal_rule, 'Where?', 'any', answer)
    assert accepts(strict_rule, 'Where?', 'Not mentioned', 'not mentioned')


def test_a_time_is_no_number_and_no_word():
    facts = facts_of('On 8 January 2024 eleven prints went to Dr. Amsel.')
    assert (facts.numbers, facts.times) == ({'11'}, {(date(2024, 1, 8), date(2024, 1, 8))})
    assert facts_of('48,000.').numbers == facts_of('It was 48000').numbers == {'48000'}
    assert 'januari' not in facts.words and 'dr' not in facts.words and facts.names == {'amsel'}


# --- the judge -------------------------------------------------------------------------------------------------------

lesson = Question('When was it?', '8 January 2024', conversation='c')
town = Question('Where?', 'New York City', aliases=('the Big Apple', 'NYC'), conversation='c', position=1)


@pytest.mark.parametrize('raw, correct, attempts', [
    ('{"reason": "same day", "correct": true}', True, 1), ('{"correct": false}', False, 1), ('{"label": "CORRECT"}', True, 1),
    ('It is the same.\n{"label": "wrong", "reason": "other day"}', False, 1), ('```json\n{"correct": true, "reason": ""}\n```', True, 1),
    ('[{"correct": true}]', True, 1), ('yes', None, 2), ('', None, 2), ('{"correct": null}', None, 2), ('{"label": "MAYBE"}', None, 2),
    ('{"correct": true} {"correct": false}', None, 2), ('{"correct": "perhaps"}', None, 2), ('{"properties": {"correct": true}}', None, 2)])
def test_odd_replies_are_a_verdict_or_a_failure_and_never_wrong_by_failure(raw, correct, attempts):
    judged = Judge(ScriptedLM([raw] * 2), 'strict').judge(lesson, 'then')
    assert (judged.correct, judged.usage.calls) == (correct, attempts)
    assert (judged.error is None) == (correct is not None)


def test_a_refused_reply_is_asked_for_once_more():
    judged = Judge(ScriptedLM(['yes', '{"correct": true}'])).judge(lesson, 'then')
    assert (judged.correct, judged.usage.calls, judged.error) == (True, 2, None)


def test_a_failure_keeps_its_reason_and_its_bill():
    spent = Usage(1, 10, 0)
    judged = Judge(ScriptedLM([ServerError('no connection', spent)])).judge(lesson, 'then')
    assert judged == Judged(None, '', prompt_id(LENIENT), spent, 'ServerError: no connection')
    with pytest.raises(ZeroDivisionError):  # an error in the program is none of the model
        Judge(RuleLM(), judge_role('bad', '{gold}', '{answer}', lambda **inputs: 1 / 0)).judge(lesson, 'then')


@given(st.lists(st.sampled_from([True, False, None]), min_size=1, max_size=7).filter(lambda one: len(one) % 2))
@often
def test_the_majority_of_all_rounds_decides(verdicts):
    lm = ScriptedLM([LMError('lost') if one is None else {'correct': one} for one in verdicts])
    judged = Judge(lm, 'strict', rounds=len(verdicts)).judge(lesson, 'then')
    most = [one for one in (True, False) if verdicts.count(one) > len(verdicts) / 2]
    assert judged.correct == (most[0] if most else None)
    assert len(lm.prompts) == len(verdicts)


def test_blank_answers_cost_nothing_and_none_is_no_answer():
    lm = ScriptedLM([])
    assert Judge(lm).judge(lesson, ' \n').correct is False and lm.prompts == []
    with pytest.raises(TypeError, match='c/0.*a method that failed is not judged'):
        Judge(lm).judge(lesson, None)


def test_bad_settings_and_questions_are_refused_by_name():
    with pytest.raises(ValueError, match="expected one of lenient, strict, longmemeval.*'mild'"):
        Judge(variant='mild')
    for rounds in (0, 2, -1):
        with pytest.raises(ValueError, match='odd number'):
            Judge(rounds=rounds)
    with pytest.raises(ValueError, match='c/0.*right answer'):
        Judge().judge(replace(lesson, answer=None), 'Ghent')
    with pytest.raises(ValueError, match="knowledge-update.*got 'single-hop'"):
        Judge(variant='longmemeval').judge(replace(lesson, category='single-hop'), 'Ghent')
    with pytest.raises(ValueError, match='field {gold}'):
        judge_role('blind', '', '{question} {answer}')


@given(st.permutations(['the Big Apple', 'NYC', 'Gotham']))
@settings(max_examples=6, deadline=None)
def test_the_prompt_does_not_depend_on_the_order_of_aliases(aliases):
    lm = ScriptedLM([{'correct': True}])
    Judge(lm, 'strict').judge(replace(town, aliases=tuple(aliases)), 'NYC')
    user = lm.prompts[0][2]
    assert user.index('New York City') < user.index('Gotham') < user.index('NYC') < user.index('the Big Apple') < user.rindex('NYC')


@given(st.text(), st.text(), st.text())
@often
def test_what_is_judged_stays_data(question, gold, answer):
    system, user = STRICT.render({'question': question, 'gold': (gold,), 'answer': answer})
    assert system == STRICT.render({'question': '', 'gold': ('',), 'answer': ''})[0]
    assert user == f'Question: {question}\nRight answer: {gold}\nAnswer to be marked: ' + answer.replace('\n', '\n  ')


@given(st.text(alphabet='{}ab"x: \n', max_size=20), st.sampled_from(['{gold}', '{gold_answer}']), st.sampled_from(['{answer}', '{generated_answer}', '{response}']))
@often
def test_any_text_can_be_a_prompt_and_its_braces_stay(around, gold, answer):
    role = judge_role('own', around, f'{around}{gold}{around}{answer}')
    system, user = role.render({'question': 'Q', 'gold': ('G',), 'answer': 'A'})
    assert (system, user) == (around, f'{around}G{around}A')


def test_the_id_tells_prompts_model_and_variant_apart():
    own = judge_role('own', 'Judge.', '{gold} {answer}')
    judges = [Judge(lm, variant) for lm in (RuleLM(), ScriptedLM([], 'm')) for variant in (*VARIANTS, own, replace(own, system='Judge!'), {'': STRICT})]
    assert len({judge.id for judge in judges}) == len(judges)
    assert Judge().id == Judge().id
    for judge in judges:
        assert json.loads(json.dumps(judge.provenance()))['id'] == judge.id
    assert len({prompt_id(role) for roles in VARIANTS.values() for role in roles.values()}) == 7


@pytest.mark.parametrize('category, name', [
    ('single-session-user', 'judge_standard'), ('single-session-assistant', 'judge_standard'), ('multi-session', 'judge_standard'),
    ('temporal-reasoning', 'judge_temporal'), ('knowledge-update', 'judge_update'), ('single-session-preference', 'judge_preference'),
    ('adversarial', 'judge_refusal')])
def test_the_task_of_longmemeval_chooses_the_prompt(category, name):
    lm = ScriptedLM([{'correct': True}])
    assert Judge(lm, 'longmemeval').judge(replace(lesson, category=category), 'then').prompt.startswith(name)
    assert lm.prompts[0][0] == name


def test_a_rubric_is_not_judged_by_rule():
    judged = Judge(variant='longmemeval').judge(replace(lesson, category='single-session-preference'), 'then')
    assert judged.correct is None and 'rubric' in judged.error


def test_what_must_be_declined_is_judged_by_that_prompt_in_every_variant():
    marked = Question('Where?', 'It was never told.', category='multi-session', refuse=True)
    assert must_refuse(marked) and must_refuse(replace(lesson, category='adversarial')) and not must_refuse(lesson)
    for variant in (*VARIANTS, STRICT):
        assert Judge(variant=variant).role(marked) is REFUSAL
        assert Judge(variant=variant).judge(marked, 'I do not know.').correct is True
        assert Judge(variant=variant).judge(marked, 'Ghent').correct is False


def test_a_label_is_read_only_where_nothing_else_is_said():
    assert Judgement.model_validate({'label': 'CORRECT', 'correct': False}).correct is False
    assert tally([Judged(True, '', ''), Judged(None, '', '', error='lost'), Judged(False, '', '')]) == Tally(1, 2, 1)
    assert Tally(0, 0, 3).share.mean is None


# --- trials and calibration ------------------------------------------------------------------------------------------

@pytest.fixture(scope='module')
def sample():
    return load_sample().questions


def test_trials_by_hand():
    jumper = Question('What did he wear?', 'A yellow jumper', conversation='c', position=1)
    loft = Question('Who moved?', None, category='adversarial', adversarial_answer='Not mentioned', conversation='c', position=2)
    made = [(trial.kind, trial.sort, trial.answer) for trial in trials([lesson, jumper, loft, Question('Why?', conversation='c', position=3)])]
    assert [sort for _, sort, _ in made] == [
        'gold', 'gold in a sentence', 'gold in another form', 'another date, number or name', 'the negation', 'a place-holder', '"it was mentioned"',
        'the topic alone', 'a part of the gold', 'gold', 'gold in a sentence', 'the negation', 'a place-holder', '"it was mentioned"', 'the topic alone',
        'a part of the gold', 'declined', 'declined in a sentence', 'answered, not declined', '"it was mentioned"', 'the topic alone']
    assert ('wrong', 'the negation', 'It was not A yellow jumper.') in made
    assert ('vague', 'a part of the gold', 'in 2024') in made
    assert ('vague', 'a place-holder', 'sometime last year') in made
    assert [answer for _, sort, answer in made if sort == 'answered, not declined'][0] in ('8 January 2024', 'A yellow jumper')  # `Not mentioned` would be right


@given(st.integers(0, 3), st.randoms())
@settings(max_examples=5, deadline=None)
def test_the_order_of_questions_changes_no_trial(sample, seed, random):
    def told(made):
        return sorted((trial.question.id, trial.kind, trial.sort, trial.answer) for trial in made)
    assert told(trials(sample, seed)) == told(trials(random.sample(sample, len(sample)), seed))


def test_no_wrong_answer_names_the_time_or_all_numbers_of_the_gold_answer(sample):
    for trial in trials(sample, 7):
        if trial.kind == 'wrong' and trial.sort != 'the negation' and trial.question.answer:
            gold, told = facts_of(trial.question.answer), facts_of(trial.answer)
            assert not gold.times & told.times
            assert not gold.numbers or gold.numbers != told.numbers


@pytest.mark.parametrize('one, other', [('June 2024', '8 June 2024'), ('8 months', '8 prints'), ('A jumper', 'A yellow jumper'), ('Yes, he is', 'No, never')])
def test_the_gold_of_another_question_is_taken_only_where_it_cannot_be_right(one, other):
    pair = [Question('Would he say what it was?', one, position=0), Question('Would she, too, say what it was?', other, position=1)]
    assert not [trial for trial in trials(pair) if trial.sort == 'gold of another question']
    far = [replace(pair[0], answer='8 June 2021'), replace(pair[1], answer='9 June 2021')]
    assert [trial.answer for trial in trials(far) if trial.sort == 'gold of another question'] == ['9 June 2021', '8 June 2021']


def test_a_calibration_is_what_counting_by_hand_gives(sample):
    """The judge accepts what holds an `8`; the counts are made by a loop of their own."""
    lm = FunctionLM(lambda prompt: json.dumps({'correct': '8' in prompt.split('Answer to be marked: ')[1]}), name='eight')
    made = calibrate_judge(Judge(lm, 'strict'), [one for one in sample if one.answer])
    expected = {}
    for trial in trials([one for one in sample if one.answer]):
        accepted, total = expected.get((trial.kind, trial.sort), (0, 0))
        expected[trial.kind, trial.sort] = accepted + ('8' in trial.answer), total + 1
    assert {(kind, sort): (one.accepted, one.judged) for kind, sort, one in made.rows if sort != 'all'} == expected
    for kind in KINDS:
        parts = [value for (of, _), value in expected.items() if of == kind]
        assert (made.tally(kind).accepted, made.tally(kind).judged) == tuple(map(sum, zip(*parts)))
    assert len(made.mistakes) == sum((one.correct is True) != (trial.kind == 'right') for trial, one in made.judged)


def test_failures_are_counted_apart_and_questions_left_out_are_named():
    lm = ScriptedLM([{'correct': True}, ServerError('busy'), {'correct': False}] * 3)
    made = calibrate_judge(Judge(lm, 'strict'), [lesson, Question('Why?')])
    assert [(one.accepted, one.judged, one.failed) for kind, sort, one in made.rows if sort == 'all'] == [(1, 2, 1), (1, 1, 1), (1, 3, 1)]
    assert all(one.correct is not None for _, one in made.mistakes) and len(made.mistakes) == 3  # one right refused, one wrong and one vague accepted
    assert (made.left_out, made.to_dict()['failed'], made.to_dict()['accepted']['wrong']['n']) == (1, 3, 1)
    assert made._repr_markdown_().count('\n') == 4 + 11 and 'busy' not in str(made)
    assert json.loads(json.dumps(made.to_dict()))['judge'].endswith('by scripted')
    with pytest.raises(ValueError, match='expected some with a gold answer, got 1'):
        calibrate_judge(Judge(), [Question('Why?')])


def test_the_lenient_rule_takes_vague_answers_and_the_strict_one_does_not(sample):
    strict, lenient = (calibrate_judge(Judge(variant=variant), sample[::2]) for variant in ('strict', 'lenient'))
    assert strict.tally('right').share.mean == lenient.tally('right').share.mean == 1
    assert strict.tally('vague').share.high < .1 < lenient.tally('vague').share.low
    assert strict.tally('wrong').accepted == 0
