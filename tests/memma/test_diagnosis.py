"""The two roles of asking on: replies however they are spelled, the rules' laws, what the prompts show, and that it ends."""

from datetime import date, datetime

import pytest
from hypothesis import given, settings, strategies as st

from memnb.evaluation.datasets import load_sample
from memnb.memma.prompts import DIAGNOSE, Diagnosis, PAPER_DIAGNOSE, PAPER_REWRITE, REWRITE, Search
from memnb.rules.memma import diagnose_rule, rewrite_rule
from memnb.rules.text import requirements, unmet
from memnb.retrieval.hybrid import HybridIndex
from memnb.core.models import ScriptedLM
from memnb.core.roles import RuleLM
from memnb.memma.retrieval import add_constraints, is_new
from memnb.core.conversation import Snippet
from memnb.core.time import TimeSpan

PEOPLE = ('Tobin', 'Zofia')
FULL = {
    'decision': 'NOT-ANSWERABLE',
    'reason': 'r',
    'gaps': ['g'],
    'missing_speaker': None,
    'time_need': None,
    'queries': [],
    'constraints': [],
    'avoid': [],
}


def line(id, text, speaker='Zofia', said=datetime(2024, 9, 17)):
    return Snippet(str(id), text, (str(id),), TimeSpan.day(said), speaker, said)


@pytest.fixture(scope='module')
def memory():
    return HybridIndex.of(load_sample())


# --- what a model may say


@pytest.mark.parametrize(
    'word, decision',
    [
        ('NOT_ANSWERABLE', 'NOT-ANSWERABLE'),
        ('not answerable', 'NOT-ANSWERABLE'),
        ('NOT\nANSWERABLE', 'NOT-ANSWERABLE'),
        (' answerable ', 'ANSWERABLE'),
        ('Not - Answerable', 'NOT-ANSWERABLE'),
    ],
)
def test_a_decision_is_read_however_it_is_spelled(word, decision):
    assert Diagnosis(decision=word).decision == decision
    assert ScriptedLM([{**FULL, 'decision': word}]).ask(DIAGNOSE, question='q').decision == decision


@pytest.mark.parametrize(
    'given_as, read',
    [(None, []), ('NONE', []), (' none', []), ('', []), ('the year', ['the year']), ([], []), (['a', ''], ['a', ''])],
)
def test_an_empty_list_may_be_null_or_none(given_as, read):
    for name in ('gaps', 'queries', 'avoid', 'constraints'):
        read = [text for text in read if text] if name == 'constraints' else read
        assert getattr(Diagnosis(decision='ANSWERABLE', **{name: given_as}), name) == read
        assert getattr(ScriptedLM([{**FULL, name: given_as}]).ask(DIAGNOSE, question='q'), name) == read


# --- the judge's rule


@st.composite
def situations(draw):
    "Random inputs of the judge, of a few lines and questions that touch each other."
    question = draw(
        st.sampled_from(
            [
                'When was Zofia at the lake?',
                'On which day was Zofia at the lake?',
                'In which year was Zofia at the lake?',
                'Which books did Tobin read?',
                'Who swam?',
                'How many months passed between the storm and the concert?',
                'What did Zofia sing last month?',
                'When did Tobin and Zofia sing?',
                'What happened after the storm at the lake?',
                '?',
            ]
        )
    )
    told = draw(
        st.lists(
            st.sampled_from(
                [
                    ('Zofia', 'We were at the lake on 3 March 2024.'),
                    ('Zofia', 'We were at the lake on 9 July 2024, in a canoe.'),
                    ('Zofia', 'At the lake last year!'),
                    ('Zofia', 'At the lake on 1 May 2021.'),
                    ('Tobin', 'I read books, the first was The Leopard.'),
                    ('Tobin', 'The storm of 8 May 2024 was loud.'),
                    ('Zofia', 'I sang at the concert on 2 June 2024, and Tobin sang.'),
                    ('Tobin', 'Rye bread.'),
                ]
            ),
            max_size=6,
        )
    )
    lines = [line(number, text, speaker) for number, (speaker, text) in enumerate(told)]
    texts = [need.text for need in requirements(question, PEOPLE)] + ['another gap']
    gaps = draw(st.lists(st.sampled_from(texts), max_size=5))
    queries = [
        question,
        *(
            draw(
                st.sampled_from(
                    ['Zofia: lake', 'lake', 'Zofia: Zofia lake', 'Tobin: books read', 'storm', 'who rye sang']
                )
            )
            for _ in gaps
        ),
    ]
    return {
        'question': question,
        'evidence': lines,
        'fresh': lines[draw(st.integers(0, 6)) :],
        'queries': queries,
        'gaps': gaps,
        'speakers': PEOPLE,
        'asked': draw(st.sampled_from([None, TimeSpan.day(date(2024, 8, 4))])),
    }


@given(situations())
@settings(max_examples=80)
def test_answerable_has_no_gaps_and_not_answerable_has_some(inputs):
    judged = diagnose_rule(**inputs)
    assert (judged.decision == 'NOT-ANSWERABLE') == bool(judged.gaps)
    if not judged.gaps:
        assert (judged.queries, judged.constraints, judged.missing_speaker) == ([], [], None)


@given(situations())
@settings(max_examples=80)
def test_the_gaps_are_the_unmet_needs_and_the_people_of_the_question_are_constraints(inputs):
    judged = diagnose_rule(**inputs)
    missing = unmet(requirements(inputs['question'], PEOPLE), inputs['evidence'])
    assert judged.gaps == [need.text for need in missing]
    if missing:
        assert judged.constraints == [name for name in PEOPLE if name in inputs['question']]
        assert judged.missing_speaker == missing[0].person
        assert all(query.startswith(f'{missing[0].person}: ' if missing[0].person else '') for query in judged.queries)


@given(st.text(max_size=40), st.lists(st.text(max_size=40), max_size=3), st.lists(st.text(max_size=20), max_size=3))
def test_the_rules_take_any_text(question, told, asked):
    lines = [line(number, text) for number, text in enumerate(told)]
    judged = diagnose_rule(question, lines, asked[:2])
    assert (judged.decision == 'NOT-ANSWERABLE') == bool(judged.gaps)
    assert isinstance(rewrite_rule(question, judged, lines, [question, *asked], speakers=('Zofia',)).query, str)
    for role, inputs in (
        (DIAGNOSE, {'question': question, 'evidence': lines, 'queries': asked}),
        (REWRITE, {'question': question, 'diagnosis': judged}),
    ):
        assert question in role.render(inputs)[1]


# --- the prompts


def test_the_example_of_the_prompt_is_a_reply():
    system = DIAGNOSE.render({'question': 'q'})[0]
    example = Diagnosis.model_validate_json(system[system.index('{"decision"') :])
    assert example.decision == 'NOT-ANSWERABLE' and set(example.model_fields_set) == set(
        DIAGNOSE.schema({})['properties']
    )
    assert is_new(
        add_constraints(example.queries[0], example.constraints),
        ["When did Rolf's cello teacher move to Ghent?"],
        ('Rolf', 'Ines'),
    )


# --- it ends


def course(question, search, limit):
    "Judge, ask, search, by the rules and without a limit of the loop's own: the queries, and whether it ended."
    evidence, fresh, queries, gaps, lm = [], search(question), [question], [], RuleLM()
    for _ in range(limit):
        fresh = [one for one in fresh if one.id not in {other.id for other in evidence}]
        evidence += fresh
        judged = lm.ask(
            DIAGNOSE, question=question, evidence=evidence, fresh=fresh, queries=queries, gaps=gaps, speakers=PEOPLE
        )
        if judged.decision == 'ANSWERABLE':
            return queries, True
        wanted = lm.ask(REWRITE, question=question, diagnosis=judged, queries=queries, speakers=PEOPLE).query
        query = add_constraints(wanted, judged.constraints, judged.avoid)
        if not is_new(query, queries, PEOPLE):
            return queries, True
        queries, gaps, fresh = [*queries, query], [*gaps, judged.gaps[0]], search(query)
    return queries, False


POOL = [
    line(number, text, speaker)
    for number, (speaker, text) in enumerate(
        [
            ('Zofia', 'We were at the lake on 3 March 2024.'),
            ('Zofia', 'We were at the lake on 9 July 2024, in a canoe.'),
            ('Tobin', 'I read books, all day.'),
            ('Zofia', 'At the lake on 1 May 2021, with tents.'),
            ('Tobin', 'Books, and read by lamp.'),
            ('Tobin', 'The read books go back.'),
            ('Zofia', 'Rye bread, wet boots.'),
        ]
    )
]


@given(
    st.sampled_from(
        [
            'When was Zofia at the lake?',
            'Which books did Tobin read?',
            'Who sang?',
            'On which day was Zofia at the lake?',
        ]
    ),
    st.randoms(use_true_random=False),
)
@settings(max_examples=80)
def test_it_ends_whatever_a_finite_memory_brings(question, chance):
    queries, ended = course(question, lambda query: chance.sample(POOL, chance.randint(0, 3)), 4 * len(POOL) + 5)
    assert ended and all(is_new(query, queries[:place], PEOPLE) for place, query in enumerate(queries))


# --- the guidance of tables 10 to 12, and equation 3


@pytest.mark.parametrize(
    'guidance',
    [
        {
            'goal': 'the date',
            'suggested_queries': ['Zofia: lake'],
            'keywords': ['lake', 'June'],
            'constraints': ['Zofia'],
            'avoid_terms': ['otter'],
        },
        'Goal: the date; suggested queries: Zofia: lake; keywords: lake, June; constraints: Zofia; avoid terms: otter.',
        ['Goal: the date', 'Queries: "Zofia: lake"', 'Keywords: lake, June', 'Constraints: Zofia', 'Avoid: otter'],
    ],
)
def test_guidance_may_stand_in_one_field_as_in_the_paper(guidance):
    read = Diagnosis(decision='NOT_ANSWERABLE', **{'retrieval-guidance': guidance})
    assert (read.goal, read.queries, read.keywords, read.constraints, read.avoid) == (
        'the date',
        ['Zofia: lake'],
        ['lake', 'June'],
        ['Zofia'],
        ['otter'],
    )
    shown = REWRITE.render({'question': 'q', 'diagnosis': read})[1]
    assert 'Goal: the date' in shown and 'Keywords: lake; June' in shown
    assert Diagnosis(decision='NOT_ANSWERABLE', **{'retrieval-guidance': 'ask for the year'}).queries == [
        'ask for the year'
    ]


@given(
    st.lists(
        st.sampled_from(
            ['', 'unknown', 'Unknown ', 'None', 'n/a', 'both', 'anyone', 'Zofia', 'May 2024', 'an unknown dog']
        )
    )
)
def test_a_word_that_names_nothing_is_no_constraint(words):
    read = Diagnosis(decision='NOT-ANSWERABLE', constraints=words)
    assert read.constraints == [word for word in words if word in ('Zofia', 'May 2024', 'an unknown dog')]
    assert 'unknown' not in add_constraints(
        'the vet', Diagnosis(decision='NOT-ANSWERABLE', constraints=['unknown']).constraints, []
    )


def test_the_judge_sees_the_gap_of_each_query_and_the_paper_what_is_new_by_speaker():
    lines = [line(1, 'At the lake.'), line(2, 'Rye bread.', 'Tobin'), line(3, 'An otter!')]
    inputs = {
        'question': 'q',
        'evidence': lines,
        'fresh': lines[2:],
        'queries': ('q', 'otter'),
        'gaps': ('what it was',),
    }
    shown = DIAGNOSE.render(inputs)[1]
    assert shown.index('- (1) ') < shown.index('- (2) ') < shown.index('- (3) ')
    assert '- q\n- otter (for: what it was)' in shown
    papers = PAPER_DIAGNOSE.render(inputs)[1]
    assert papers.index('Zofia:\n- (1)') < papers.index('- (3, new)') < papers.index('Tobin:\n- (2)')


def test_the_query_reasoner_sees_the_notes_that_were_chosen_and_the_paper_has_all():
    lines = [line(number, text) for number, text in enumerate(('At the lake.', 'Rye bread.'), 1)]
    judged = Diagnosis(**FULL)
    trace = (Search('lake', 30, tuple(f'{number}' for number in range(1, 31)), ' (nowhere in the memory: lake)'),)
    for notes, shows in (([], False), (['1'], True)):
        inputs = {
            'question': 'q',
            'diagnosis': judged.model_copy(update={'notes': notes}),
            'evidence': lines,
            'trace': trace,
        }
        rewrite = REWRITE.render(inputs)[1]
        assert all((one.text in rewrite) == shows for one in lines)
        assert f'- lake (nowhere in the memory: lake) -> 30 found, 30 new\n' in rewrite
        papers = PAPER_REWRITE.render(inputs)[1]
        assert all(one.text in papers for one in lines) and '- lake -> 30 found, new: 1, 2, 3,' in papers
    unguided = REWRITE.render({'question': 'q', 'evidence': lines, 'trace': trace})[1]
    assert all(one.text in unguided for one in lines)
