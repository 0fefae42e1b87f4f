"""The loop that judges, asks anew and answers, over any store and under any replies: a flat loop with sets is its oracle."""

import re

from hypothesis import given, settings, strategies as st
from stores import stores
from fakes import of, Replies

from memnb.core.roles import AnswerReply, NO_INFORMATION
from memnb.baselines import RAG
from memnb.memma.retrieval import constrained_query, Coordinated, QueryState
from memnb.memma.prompts import Diagnosis, Rewrite
from memnb.core.text import tokenize
from memnb.core.models import ScriptedLM
from memnb.core.roles import RuleLM
from memnb.memma.retrieval import carries
from memnb.core.run import Run
from memnb.core.conversation import Snippet
from memnb.core.retriever import Hit, Searchable
from memnb.core.trace import Trace

QUESTION = 'When did Ada sell the boat?'
PEOPLE = ('Ada', 'Bo')
TURN_IDS = [f'D1:{number}' for number in range(1, 9)]


TEXTS = st.sampled_from(
    [
        '',
        '  ',
        'the',
        'the boat',
        'boats',
        'Ada: sell a boat',
        'Ada',
        'Bo: the boat',
        'in May',
        '3 May 2024',
        'sold to whom',
        QUESTION,
        'selling boats Ada',
        '<b>boat</b>',
        'price\ud83d price',
        'a gap\nin two lines',
        'Ada:',
    ]
)
LISTS = st.lists(TEXTS, max_size=3)
JUDGED = st.builds(
    Diagnosis,
    decision=st.sampled_from(['ANSWERABLE', 'NOT-ANSWERABLE', 'NOT-ANSWERABLE']),
    reason=TEXTS,
    gaps=LISTS,
    queries=LISTS,
    constraints=LISTS,
    avoid=LISTS,
)
REWRITTEN = st.builds(Rewrite, query=TEXTS)
FINAL = st.builds(
    AnswerReply,
    answer=st.sampled_from(['3 May 2024', '', NO_INFORMATION]),
    sources=st.lists(st.sampled_from([*TURN_IDS, *(f's{number}' for number in range(6)), 'D9:9', '']), max_size=3),
)


@st.composite
def scenes(draw):
    """A store, the replies of a model, options of the loop, and a budget of turns."""
    options = draw(
        st.fixed_dictionaries(
            {
                'refinements': st.integers(0, 4),
                'k': st.integers(1, 3),
                'insist': st.integers(0, 2),
                'speakers': st.sampled_from([(), PEOPLE]),
                **dict.fromkeys(['refine', 'diagnose', 'binding'], st.sampled_from([True, True, False])),
            }
        )
    )
    replies = (
        draw(st.lists(JUDGED, min_size=1, max_size=4)),
        draw(st.lists(REWRITTEN, min_size=1, max_size=4)),
        [draw(FINAL)],
    )
    return draw(stores(TEXTS, PEOPLE, TURN_IDS)), replies, options, draw(st.none() | st.integers(0, 6))


def run_of(scene, fails_at=None, **changed):
    """The trace of a scene, and the model that was asked."""
    store, replies, options, budget = scene
    model = Replies(fails_at, **dict(zip(('diagnose', 'rewrite', 'answer'), replies)))
    return Coordinated(store, model, **{**options, **changed}).ask(QUESTION, budget=budget), model


def queries_of(trace):
    return [step.query for step in of(trace, 'search')]


def replies_of(trace, role):
    return [step.reply for step in of(trace, 'model') if step.role == role]


def named(judged):
    """The gaps of a reply that count."""
    gaps = [gap for gap in judged['gaps'] if gap.strip()]
    return gaps or (
        [judged['reason'] if judged['reason'].strip() else QUESTION] if judged['decision'] == 'NOT-ANSWERABLE' else []
    )


def key(query, people):
    """Whom a query addresses, and its stems, by hand."""
    addressed = frozenset(name for name in people if re.search(rf'(?<!\w){name}:', query))
    for name in addressed:
        query = query.replace(f'{name}:', ' ')
    return addressed, frozenset(tokenize(query))


def stems_of(*texts):
    return {stem for text in texts for stem in tokenize(text)}


def admissible(query, judged, earlier, people):
    """Whether a query may be asked: new, with all constraints, without what is to be avoided."""
    mine = key(query, people)
    return (
        bool(mine[1])
        and all(key(one, people) != mine for one in earlier)
        and stems_of(*judged['constraints']) <= stems_of(query)
        and not stems_of(query) & (stems_of(*judged['avoid']) - stems_of(*judged['constraints']))
    )


SCENES = settings(max_examples=30)


@SCENES
@given(scenes())
def test_it_ends_within_its_budgets(scene):
    trace, model = run_of(scene)
    options, budget = scene[2], scene[3]
    allowed = options['refinements'] if options['refine'] else 0
    asked = [name for name, _ in model.heard]
    assert trace.error is None and trace.answer is not None and asked[-1] == 'answer' and asked.count('answer') == 1
    assert queries_of(trace)[0] == QUESTION and 1 <= len(queries_of(trace)) <= allowed + 1
    assert asked.count('diagnose') <= (allowed if options['diagnose'] else 0) and asked.count('rewrite') <= allowed
    assert len(of(trace, 'route')) == asked.count('diagnose')
    assert budget is None or len(trace.read) <= budget
    assert [step.iteration for step in of(trace, 'search')] == list(range(1, len(queries_of(trace)) + 1))
    assert all(k == options['k'] and not masked for _, k, masked in scene[0].asked)
    assert trace.total.calls == len(asked)


@SCENES
@given(scenes())
def test_binding_queries_are_new_carry_constraints_and_avoid_what_was_in_vain(scene):
    trace, model = run_of(scene, diagnose=True, binding=True)
    queries, judged = queries_of(trace), replies_of(trace, 'diagnose')
    people = [inputs['speakers'] for name, inputs in model.heard if name == 'diagnose']
    for number, (query, said, names) in enumerate(zip(queries[1:], judged, people), 1):
        assert admissible(query, said, queries[:number], names)
    assert len({key(query, PEOPLE) for query in queries}) == len(queries)


@SCENES
@given(scenes())
def test_evidence_only_grows_and_all_of_it_is_answered_from(scene):
    trace, model = run_of(scene)
    shown = list(dict.fromkeys(hit.id for step in of(trace, 'search') for hit in step.hits))
    given_to = [
        (name, [snippet.id for snippet in inputs['lines' if name == 'answer' else 'evidence']])
        for name, inputs in model.heard
    ]
    for (_, before), (_, after) in zip(given_to, given_to[1:]):
        assert after[: len(before)] == before
    assert given_to[-1] == ('answer', shown)
    behind = {turn for step in of(trace, 'search') for hit in step.hits for turn in hit.turns}
    assert set(trace.evidence) <= behind == set(trace.read)


@SCENES
@given(scenes())
def test_the_judge_is_told_what_is_new_what_was_asked_and_what_for(scene):
    trace, model = run_of(scene, diagnose=True)
    judged = replies_of(trace, 'diagnose')
    for number, inputs in enumerate(inputs for name, inputs in model.heard if name == 'diagnose'):
        searched = of(trace, 'search')[: number + 1]
        older = {hit.id for step in searched[:-1] for hit in step.hits}
        assert [snippet.id for snippet in inputs['fresh']] == [
            hit.id for hit in searched[-1].hits if hit.id not in older
        ]
        assert list(inputs['queries']) == [step.query for step in searched]
        assert list(inputs['gaps']) == [named(said)[0] for said in judged[:number]]


@SCENES
@given(scenes())
def test_the_gaps_at_the_end_are_those_of_the_last_judgement(scene):
    trace, _ = run_of(scene)
    judged = replies_of(trace, 'diagnose')
    assert trace.gaps == (named(judged[-1]) if judged else [])
    left = scene[2]['insist'] if scene[2]['binding'] else 0
    for said, step in zip(judged, of(trace, 'route')):
        content = said['decision'] == 'ANSWERABLE'
        overruled = bool(content and named(said) and left)
        left -= overruled
        assert step.proposed == ('answer' if content else 'retrieve')
        assert step.action == ('answer' if content and not overruled else 'retrieve')
        assert not named(said) or named(said)[0] in step.reason


@SCENES
@given(scenes())
def test_who_stops_early_without_a_content_judge_says_so(scene):
    trace, _ = run_of(scene)
    allowed = scene[2]['refinements'] if scene[2]['refine'] else 0
    early, routes, notes = len(queries_of(trace)) <= allowed, of(trace, 'route'), of(trace, 'note')
    content = bool(routes) and routes[-1].action == 'answer'
    assert early == (content or bool(notes) and notes[-1].text.startswith('Nothing new to ask'))


def flat(scene):
    """The loop once more, flat: lists, a counter, and of the package only the stemmer and what counts as carried."""
    store, (judged, rewritten, _), options, _ = scene
    queries, gaps, left = [QUESTION], [], options['insist'] if options['binding'] else 0
    found = {hit.snippet.id: hit.snippet for hit in store.search(QUESTION, options['k'])}
    for number in range(options['refinements'] if options['refine'] else 0):
        query = rewritten[number % len(rewritten)].query.strip()
        if options['diagnose']:
            said = judged[number % len(judged)].model_dump()
            gaps = named(said)
            if said['decision'] == 'ANSWERABLE':
                if not (gaps and left):
                    break
                left -= 1
            if options['binding']:
                people = options['speakers'] or sorted(
                    {snippet.speaker for snippet in found.values() if snippet.speaker}
                )
                query = ''
                for wording in (rewritten[number % len(rewritten)].query, *said['queries'], *gaps):
                    due = stems_of(*said['constraints'])
                    kept = [word for word in wording.split() if not stems_of(word) & (stems_of(*said['avoid']) - due)]
                    kept = kept if stems_of(*kept) - due else wording.split()
                    for text in said['constraints']:
                        kept += [] if carries(' '.join(kept), text) else text.split()
                    if stems_of(wording) and admissible(' '.join(kept), said, queries, people):
                        query = ' '.join(kept)
                        break
        if not query:
            break
        queries.append(query)
        found |= {hit.snippet.id: hit.snippet for hit in store.search(query, options['k'])}
    return [key(query, PEOPLE) for query in queries], gaps


@SCENES
@given(scenes())
def test_a_flat_loop_asks_the_same(scene):
    trace, _ = run_of((*scene[:3], None))
    assert ([key(query, PEOPLE) for query in queries_of(trace)], trace.gaps) == flat(scene)


@SCENES
@given(scenes())
def test_what_a_switch_turns_off_is_never_asked(scene):
    static, model = run_of(scene, refine=False)
    store, replies, options, budget = scene
    once = RAG(store, Replies(answer=replies[2]), k=options['k']).ask(QUESTION, budget=budget)
    assert [name for name, _ in model.heard] == ['answer']
    assert (static.read, static.answer, static.evidence, static.gaps) == (once.read, once.answer, once.evidence, [])
    unguided, model = run_of(scene, refine=True, diagnose=False)
    assert 'diagnose' not in {name for name, _ in model.heard} and not unguided.gaps and not of(unguided, 'route')
    said = [reply['query'].strip() for reply in replies_of(unguided, 'rewrite')]
    assert queries_of(unguided)[1:] == [query for query in said if query]  # as they come, whether new or not
    advised, _ = run_of(scene, refine=True, diagnose=True, binding=False)
    assert queries_of(advised)[1:] == [
        query for reply in replies_of(advised, 'rewrite') if (query := reply['query'].strip())
    ]


@SCENES
@given(scenes())
def test_a_larger_budget_begins_like_a_smaller_one(scene):
    whole, _ = run_of(scene, refine=True, refinements=4)
    for number in range(4):
        part, _ = run_of(scene, refine=True, refinements=number)
        assert of(part, 'search') == of(whole, 'search')[: number + 1]


@SCENES
@given(scenes())
def test_json_and_determinism_byte_for_byte(scene):
    first, again = run_of(scene)[0], run_of(scene)[0]
    assert first.to_json() == again.to_json()
    assert Trace.from_json(first.to_json()) == first
    assert str(first) and first._repr_html_()


@SCENES
@given(scenes(), st.integers(0, 9))
def test_a_failure_at_any_call_keeps_what_was_found(scene, number):
    whole, model = run_of(scene)
    number %= len(model.heard)
    part, _ = run_of(scene, fails_at=number)
    *done, last = part.steps
    assert (part.error, last.error, part.answer) == ('ServerError: gone', 'gone', None)
    assert (
        done == whole.steps[: len(done)]
        and part.read == whole.read[: len(part.read)]
        and part.total.calls == number + 1
    )
    judged = replies_of(part, 'diagnose')
    judged = [said for said in judged if said]
    assert part.gaps == (named(judged[-1]) if judged else [])


@settings(max_examples=100)
@given(TEXTS, JUDGED, st.lists(TEXTS, max_size=3), st.sampled_from([(), PEOPLE]))
def test_bound_is_admissible_or_nothing_is(query, judged, earlier, people):
    made, said = constrained_query(query, judged, earlier, people), judged.model_dump()
    if made is not None:
        assert admissible(made, said, earlier, people) and made == made.strip()
    else:  # then no wording would have done as it stands
        assert not any(admissible(one.strip(), said, earlier, people) for one in (query, *judged.queries, *judged.gaps))
    if admissible(query, said, earlier, people) and all(carries(query, text) for text in judged.constraints):
        assert made == ' '.join(query.split())


def test_a_gap_that_does_no_harm_costs_one_search_and_none_in_the_papers_way():
    harmless = [Diagnosis(decision='ANSWERABLE', gaps=['her other boats'])]
    for insist, searches in ((1, 2), (0, 1), (9, 4)):
        model = Replies(
            diagnose=harmless, rewrite=asked_for('a boat', 'a ship', 'a canoe'), answer=[AnswerReply(answer='May')]
        )
        trace = Coordinated(lambda query: ['Ada sold the boat.'], model, insist=insist).ask(QUESTION)
        assert len(queries_of(trace)) == searches and trace.gaps == ['her other boats']


def asked_for(*queries):
    return [Rewrite(query=query) for query in queries]


BOAT = Snippet('s1', 'Ada sold the boat on 3 May 2024.', ('D1:1',), speaker='Ada')


def test_notes_that_the_diagnosis_leaves_out_are_shown_to_nobody_until_they_are_found_again():
    class Store(Searchable):
        found = [['a', 'b', 'c'], ['b', 'd']]

        def search(self, query, k=10, **masks):
            return [Hit(Snippet(id, f'note {id}')) for id in self.found.pop(0)]

    for fields, shown in (
        ({'notes': ['(c)']}, ['c', 'b', 'd']),
        ({}, ['a', 'b', 'c', 'd']),  # as in the paper's form
        ({'notes': []}, ['b', 'd']),  # none bears on the question
        ({'notes': ['z']}, ['a', 'b', 'c', 'd']),
    ):
        Store.found = [['a', 'b', 'c'], ['b', 'd']]
        gap = Diagnosis(decision='NOT-ANSWERABLE', gaps=['the day'], queries=['the day'], **fields)
        model = Replies(None, diagnose=[gap], rewrite=[Rewrite(query='the day')], answer=[AnswerReply(answer='3 May')])
        Coordinated(Store(), model, refinements=1).ask(QUESTION)
        assert [line.id for line in model.heard[-1][1]['lines']] == shown


def test_where_no_note_bears_on_the_question_and_nothing_can_be_asked_all_are_read():
    judged = Diagnosis(decision='NOT-ANSWERABLE', gaps=['the day'], notes=[])
    model = Replies(None, diagnose=[judged], rewrite=[Rewrite(query='')], answer=[AnswerReply(answer='3 May')])
    Coordinated([BOAT], model, insist=0, binding=False).ask(QUESTION)
    assert [line.text for line in model.heard[-1][1]['lines']] == [BOAT.text]


def test_a_query_is_shown_with_its_words_that_occur_nowhere():
    judged = Diagnosis(decision='NOT-ANSWERABLE', gaps=['the day'])
    model = Replies(None, diagnose=[judged], rewrite=[Rewrite(query='ketch')], answer=[AnswerReply(answer='3 May')])
    Coordinated([BOAT], model, refinements=1).ask('When did Ada scuttle the boat?')
    [search] = next(inputs for role, inputs in model.heard if role == 'rewrite')['trace']
    assert search.remark == ' (nowhere in the memory: scuttle)'


def test_a_repeated_snippet_is_evidence_once():
    class Twice(Searchable):
        def search(self, query, k=10, *, exclude=(), during=None):
            return [Hit(BOAT), Hit(BOAT)]

    now, run = QueryState(), Run(QUESTION, 'test', RuleLM(), Twice())
    now.take(QUESTION, run.search(QUESTION, 5, 1))
    assert (list(now.evidence), now.fresh) == (['s1'], [BOAT])
    now.take('again', run.search('again', 5, 2))
    assert (list(now.evidence), now.fresh, now.queries) == (['s1'], [], [QUESTION, 'again'])
    assert [search.line for search in now.trace] == [f'{QUESTION} -> 1 found, new: s1', 'again -> 1 found, new: none']


def test_the_model_may_word_the_first_search():
    asked = []
    answer = {'answer': 'in May', 'sources': []}
    model = ScriptedLM(
        {'query': [{'query': 'Ada sold her boat'}], 'diagnose': [{'decision': 'ANSWERABLE'}], 'answer': [answer]}
    )

    def memory(query):
        asked.append(query)
        return ['Ada sold the boat in May.']

    Coordinated(memory, model, first_query=True).ask('When did Ada sell the thing that floats?')
    assert asked[0] == 'Ada sold her boat'
