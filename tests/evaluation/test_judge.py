"""The rules, the judge, its trials and its calibration: properties, odd replies, and counts by hand."""

import json
from dataclasses import replace
from datetime import date, timedelta

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from memnb.core.conversation import Question
from memnb.core.models import FunctionLM, ScriptedLM
from memnb.core.roles import RuleLM, ServerError, Usage
from memnb.evaluation.datasets import load_sample
from memnb.evaluation.judge import (
    _denies,
    _facts,
    calibrate_judge,
    Judge,
    judge_role,
    Judged,
    TRIAL_KINDS,
    lenient_rule,
    prompt_id,
    refusal_rule,
    strict_rule,
    trials,
    VARIANTS,
)
from memnb.evaluation.refusals import declines, must_refuse

LENIENT, STRICT = VARIANTS['lenient'][''], VARIANTS['strict']['']
often = settings(max_examples=40)
things = [
    'a yellow jumper',
    'Ghent',
    'Dr. Quill',
    'eleven prints',
    '48,000 pounds',
    'Lemon Drop and Fish Pepper',
    'knitting, swimming, baking',
    'The concertina',
    'June 2024',
    '2023',
    '8 January 2024',
    'the week before 20 October 2024',
    'asleep in a flour sack (at home)',
    'no sun',
    'Yes, she likes it',
    'Probably not, since he is tired',
    'They did',
    'No information available',
    '8 months',
    'Line 4 at first, Line 9 now',
]
asking = [
    'When was it?',
    'Where did she go?',
    'Would he like it?',
    'How many months passed?',
    'What has Tobin grown?',
    'Was it Ghent or Gdynia?',
    '',
]
golds = st.sampled_from(things)
questions = st.sampled_from(asking)
answers = st.one_of(
    golds,
    st.tuples(golds, golds).map(' and '.join),
    golds.map('It was not {}.'.format),
    golds.map(lambda gold: f'I think: {gold}, in May 2021.'),
    st.text(max_size=20),
    st.sampled_from(['sometime last year', 'somewhere', 'in 2024', '', ' ', 'nothing', '9 months', 'Yes', 'No']),
)
days = st.dates(date(1990, 1, 1), date(2060, 12, 31))
forms = st.sampled_from(
    [
        '{0.day} {0:%B %Y}',
        '{0:%B} {0.day}, {0.year}',
        '{0:%Y-%m-%d}',
        '{0.day} {0:%b} {0.year}',
        'It was on {0.day} {0:%B %Y}.',
    ]
)


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


@given(days, days, forms, forms)
@example(date(2024, 1, 8), date(2024, 8, 1), '{0.day} {0:%B %Y}', '{0:%Y-%m-%d}')
@often
def test_a_day_is_itself_in_any_form_and_no_other_day(one, other, form, other_form):
    gold, told = form.format(one).removeprefix('It was on ').rstrip('.'), other_form.format(other)
    assert accepts(strict_rule, 'When?', gold, other_form.format(one))
    assert accepts(strict_rule, 'When?', gold, told) == (one == other)
    assert accepts(lenient_rule, 'When?', gold, told) == (one == other)


@given(days)
@often
def test_a_part_of_a_day_is_enough_for_the_lenient_rule_only(day):
    for vague in (f'in {day:%B %Y}', f'in {day.year}'):
        assert accepts(lenient_rule, 'When?', f'{day.day} {day:%B %Y}', vague)
        assert not accepts(strict_rule, 'When?', f'{day.day} {day:%B %Y}', vague)
    later = day + timedelta(400)
    assert not accepts(lenient_rule, 'When?', f'{day.day} {day:%B %Y}', f'in {later:%B %Y}')


@given(st.integers(4, 400), st.integers(-2, 2), st.sampled_from(['days', 'weeks', 'months', 'prints']))
@often
def test_numbers_are_compared_by_value(gold, off, unit):
    told = gold + off
    answer = f'It was {told} {unit}.'
    assert accepts(strict_rule, 'How many?', f'{gold} {unit}', answer) == (gold == told)


@given(questions, st.lists(golds, min_size=1, max_size=4), answers, st.randoms())
@often
def test_the_order_of_aliases_does_not_matter_and_another_alias_only_helps(question, aliases, answer, random):
    turned = random.sample(aliases, len(aliases))
    for rule in (strict_rule, lenient_rule):
        assert accepts(rule, question, aliases, answer) == accepts(rule, question, turned, answer)
        assert accepts(rule, question, aliases, answer) == any(accepts(rule, question, one, answer) for one in aliases)
        assert all(accepts(rule, question, turned, one) for one in aliases)


def test_what_is_denied_is_wrong_and_what_is_denied_beside_it_is_not():
    for rule in (strict_rule, lenient_rule):
        assert not accepts(rule, 'Where?', 'Ghent', 'It was not Ghent.')
        assert accepts(rule, 'Where?', 'Ghent', 'It was not Gdynia but Ghent.')
        assert not accepts(rule, 'Why?', 'he did not sleep', 'he did sleep')
        assert not accepts(rule, 'Would he?', 'No, he is tired', 'Yes, he is tired')
        assert accepts(rule, 'Would he?', 'Likely no', 'No.')
        assert not accepts(rule, 'When?', 'May, 2023', 'It was not May, 2023.')
    assert _denies('She never went to Ghent', {'ghent'}) and not _denies('She never went, it was Ghent', {'ghent'})


@pytest.mark.parametrize(
    'question, gold, answer, right',
    [
        ('Does she drink tea or coffee?', 'green tea', 'tea, a green one', True),
        ('Does she drink tea or coffee?', 'tea', 'Tea, not coffee.', True),
        ('Does she drink tea or coffee?', 'green tea', 'green coffee', False),
        ('Does she drink tea or coffee?', 'She drinks tea', 'She drinks coffee', False),
        ('Does she drink tea or coffee?', 'tea', 'tea or coffee', False),
        ('Is it the red boat or the blue boat?', 'the red boat', 'the blue boat', False),
        ('Is it the red boat or the blue boat?', 'the red boat', 'the red one', True),
        ('What did Ada or Bo sing?', 'a shanty', 'A shanty.', True),
        ('How long did he swim in the lake?', 'an hour in the lake', 'an hour', True),
        ('How far?', '3.5 km', '5.3 km', False),
        ('How far?', '3.5 km', 'It was 3.5 km.', True),
        ('How far?', '3.5 km', '3 or 5 km', False),
        ('At what time?', '4.30', 'at 4:30', True),
        ('At what time?', '4:30', 'at 30 past 4', False),
        ('Where?', 'a note in Ghent', 'another note, nothing special, in Ghent', True),
        ('Where?', 'Ghent', 'a not-for-profit in Ghent', True),
        ('What?', 'No-knead bread', 'not white bread', False),
    ],
)
def test_choices_numbers_and_negations(question, gold, answer, right):
    assert accepts(strict_rule, question, gold, answer) == right


def test_declining_is_right_where_it_is_due_and_wrong_elsewhere():
    for answer in (
        'No information available',
        'That is not mentioned.',
        "I don't know.",
        'It cannot be determined.',
        'You never told me.',
    ):
        assert declines(answer)
        assert accepts(refusal_rule, 'Where?', 'any', answer)
        assert not accepts(lenient_rule, 'Where?', 'Ghent', f'Ghent? {answer}')
    for answer in ('Ghent', 'It was mentioned in the conversation.', 'He does not say much.'):
        assert not accepts(refusal_rule, 'Where?', 'any', answer)
    assert accepts(strict_rule, 'Where?', 'Not mentioned', 'not mentioned')


# --- the judge -------------------------------------------------------------------------------------------------------

lesson = Question('When was it?', '8 January 2024', conversation='c')


@pytest.mark.parametrize(
    'raw, correct, attempts',
    [
        ('{"reason": "same day", "correct": true}', True, 1),
        ('{"correct": false}', False, 1),
        ('{"label": "CORRECT"}', True, 1),
        ('It is the same.\n{"label": "wrong", "reason": "other day"}', False, 1),
        ('```json\n{"correct": true, "reason": ""}\n```', True, 1),
        ('[{"correct": true}]', True, 1),
        ('yes', True, 1),
        ('', None, 2),
        ('{"correct": null}', None, 2),
        ('{"label": "MAYBE"}', None, 2),
        ('{"correct": true} {"correct": false}', False, 2),
        ('{"correct": "perhaps"}', None, 2),
        ('{"properties": {"correct": true}}', None, 2),
    ],
)
def test_odd_replies_are_a_verdict_or_a_failure_and_never_wrong_by_failure(raw, correct, attempts):
    judged = Judge(ScriptedLM([raw] * 2), 'strict').judge(lesson, 'then')
    assert (judged.correct, judged.usage.calls) == (correct, attempts)
    assert (judged.error is None) == (correct is not None)


def test_a_failure_keeps_its_reason_and_its_bill():
    spent = Usage(1, 10, 0)
    judged = Judge(ScriptedLM([ServerError('no connection', spent)])).judge(lesson, 'then')
    assert judged == Judged(None, '', prompt_id(LENIENT), spent, 'ServerError: no connection')
    with pytest.raises(ZeroDivisionError):  # an error in the program is none of the model
        Judge(RuleLM(), judge_role('bad', '{gold}', '{answer}', lambda **inputs: 1 / 0)).judge(lesson, 'then')


def test_blank_answers_cost_nothing_and_none_is_no_answer():
    lm = ScriptedLM([])
    assert Judge(lm).judge(lesson, ' \n').correct is False and lm.prompts == []
    with pytest.raises(TypeError, match='c/0.*a method that failed is not judged'):
        Judge(lm).judge(lesson, None)


def test_bad_settings_and_questions_are_refused_by_name():
    with pytest.raises(ValueError, match="expected one of lenient, strict, longmemeval.*'mild'"):
        Judge(variant='mild')
    with pytest.raises(ValueError, match='c/0.*right answer'):
        Judge().judge(replace(lesson, answer=None), 'Ghent')
    with pytest.raises(ValueError, match="knowledge-update.*got 'single-hop'"):
        Judge(variant='longmemeval').judge(replace(lesson, category='single-hop'), 'Ghent')
    with pytest.raises(ValueError, match='field {gold}'):
        judge_role('blind', '', '{question} {answer}')


@given(st.text(), st.text(), st.text())
@often
def test_what_is_judged_stays_data(question, gold, answer):
    system, user = STRICT.render({'question': question, 'gold': (gold,), 'answer': answer})
    assert system == STRICT.render({'question': '', 'gold': ('',), 'answer': ''})[0]
    assert user == f'Question: {question}\nRight answer: {gold}\nAnswer to be marked: ' + answer.replace('\n', '\n  ')


@given(st.text(alphabet='{}ab"x: \n', max_size=20))
@often
def test_any_text_can_be_a_prompt_and_its_braces_stay(around):
    role = judge_role('own', around, f'{around}{{gold}}{around}{{answer}}')
    system, user = role.render({'question': 'Q', 'gold': ('G',), 'answer': 'A'})
    assert (system, user) == (around, f'{around}G{around}A')


def test_the_id_tells_prompts_model_and_variant_apart():
    own = judge_role('own', 'Judge.', '{gold} {answer}')
    judges = [
        Judge(lm, variant)
        for lm in (RuleLM(), ScriptedLM([], 'm'))
        for variant in (*VARIANTS, own, replace(own, system='Judge!'))
    ]
    assert len({judge.id for judge in judges}) == len(judges)
    assert Judge().id == Judge().id
    for judge in judges:
        assert json.loads(json.dumps(judge.provenance()))['id'] == judge.id
    assert len({prompt_id(role) for roles in VARIANTS.values() for role in roles.values()}) == 8


def test_what_must_be_declined_is_judged_by_that_prompt_in_every_variant():
    marked = Question('Where?', 'It was never told.', category='multi-session', refuse=True)
    assert must_refuse(marked) and must_refuse(replace(lesson, category='adversarial')) and not must_refuse(lesson)
    for variant in (*{*VARIANTS} - {'rubric'}, STRICT):
        assert Judge(variant=variant).role(marked).name == 'judge_refusal'
        assert Judge(variant=variant).judge(marked, 'I do not know.').correct is True
        assert Judge(variant=variant).judge(marked, 'Ghent').correct is False


MARKS = [0, 0.5, 1]


@settings(max_examples=40)
@given(st.lists(st.sampled_from(MARKS), min_size=1, max_size=5), st.data())
def test_a_rubric_is_scored_statement_by_statement_and_a_failure_is_no_score(marks, data):
    asked = replace(lesson, rubric=tuple(f'States {place}' for place in range(len(marks))), answer=None)
    refuse = data.draw(st.booleans())
    asked = replace(asked, refuse=refuse)
    lm = ScriptedLM([{'reason': f'r{place}', 'score': mark} for place, mark in enumerate(marks)])
    judged = Judge(lm, 'rubric').judge(asked, 'Ghent')
    assert judged.marks == tuple(marks) and judged.score == pytest.approx(sum(marks) / len(marks))
    assert judged.correct == (set(marks) == {1}) and judged.error is None and judged.usage.calls == len(marks)
    assert judged.reason.splitlines() == [f'{mark:g}: r{place}' for place, mark in enumerate(marks)]
    for place, (_, _, user) in enumerate(lm.prompts):
        assert [f'States {other}' in user for other in range(len(marks))] == [
            other == place for other in range(len(marks))
        ]
    spent, fails = Usage(1, 10, 0), data.draw(st.integers(0, len(marks) - 1))
    lm = ScriptedLM([*({'score': mark} for mark in marks[:fails]), ServerError('gone', spent), {'score': 1}])
    failed = Judge(lm, 'rubric').judge(asked, 'Ghent')
    assert (failed.correct, failed.score, failed.marks, failed.error) == (None, None, (), 'ServerError: gone')
    assert failed.usage.calls == fails + 1


@pytest.mark.parametrize(
    'raw, score',
    [
        ('{"score": "0.5"}', 0.5),
        ('{"reason": "so", "mark": 1}', 1),
        ('{"rating": 0.0}', 0),
        ('{"score": 0.7}', None),
        ('{"score": 2}', None),
        ('{"score": -0.5}', None),
        ('{"score": NaN}', None),
        ('{"score": "half"}', None),
    ],
)
def test_a_mark_is_nothing_a_half_or_one(raw, score):
    judged = Judge(ScriptedLM([raw] * 2), 'rubric').judge(replace(lesson, rubric=('Says then',)), 'then')
    assert judged.score == score and (judged.error is None) == (score is not None)


def test_a_rubric_is_needed_and_no_rule_judges_by_it():
    with pytest.raises(ValueError, match='c/0: expected a rubric to judge by, got none'):
        Judge(variant='rubric').judge(lesson, 'then')
    asked = replace(lesson, rubric=('Says then',))
    judged = Judge(variant='rubric').judge(asked, 'then')
    assert judged.score is None and 'give the judge a model' in judged.error
    lm = ScriptedLM([])
    assert Judge(lm, 'rubric').judge(asked, ' ').score == 0 and lm.prompts == []
    assert Judge().judge(lesson, lesson.answer).score == 1 and Judge().judge(lesson, 'a zebra').score == 0


# --- trials and calibration ------------------------------------------------------------------------------------------


@pytest.fixture(scope='module')
def sample():
    return load_sample().questions


@given(st.randoms())
@settings(max_examples=5)
def test_the_order_of_questions_changes_no_trial(sample, random):
    def told(made):
        return sorted((trial.question.id, trial.kind, trial.sort, trial.answer) for trial in made)

    assert told(trials(sample)) == told(trials(random.sample(sample, len(sample))))


def test_no_wrong_answer_has_a_time_or_word_of_the_gold_answer(sample):
    for trial in trials(sample):
        if trial.kind == 'wrong' and trial.sort != 'the negation' and trial.question.answer:
            gold, told = _facts(trial.question.answer), _facts(trial.answer)
            assert not {*gold.times} & {*told.times} and not gold.words & told.words


def test_a_calibration_is_what_counting_by_hand_gives(sample):
    """The judge accepts what holds an `8`; the counts are made by a loop of their own."""
    lm = FunctionLM(
        lambda prompt: json.dumps({'correct': '8' in prompt.split('Answer to be marked: ')[1]}), name='eight'
    )
    made = calibrate_judge(Judge(lm, 'strict'), [one for one in sample if one.answer])
    expected = {}
    for trial in trials([one for one in sample if one.answer]):
        accepted, total = expected.get((trial.kind, trial.sort), (0, 0))
        expected[trial.kind, trial.sort] = accepted + ('8' in trial.answer), total + 1
    found = {(kind, sort): made.share(kind, sort) for kind, sort in expected}
    assert {key: (round(one.mean * one.n), one.n) for key, one in found.items()} == expected
    for kind in TRIAL_KINDS:
        parts, whole = [value for (of, _), value in expected.items() if of == kind], made.share(kind)
        assert (round(whole.mean * whole.n), whole.n) == tuple(map(sum, zip(*parts)))


def test_failures_are_counted_apart():
    lm = ScriptedLM([{'correct': True}, ServerError('busy'), {'correct': False}] * 4)
    made = calibrate_judge(Judge(lm, 'strict'), [lesson, Question('Why?')])
    assert made.to_dict()['failed'] == made.failed == (len(made.judged) + 1) // 3
    assert made.share().n + made.failed == len(made.judged)
    assert 'busy' not in str(made) and json.loads(json.dumps(made.to_dict()))['judge'].endswith('by scripted')
    with pytest.raises(ValueError, match='expected some with a gold answer, got none'):
        calibrate_judge(Judge(), [Question('Why?')])
