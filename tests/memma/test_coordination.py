"""The loop that judges, asks anew and answers, over any store and under any replies: a flat loop with sets is its oracle."""
import json
import os
import re
from dataclasses import replace
from datetime import date

import pytest
from hypothesis import given, settings, strategies as st
from stores import Store

from memnb.core.roles import AnswerReply, NO_INFORMATION
from memnb.baselines import RAG
from memnb.memma.retrieval import Asking, bound, Coordinated
from memnb.mragent.tools import CueTagGraph
from memnb.evaluation.datasets import load_sample
from memnb.memma.prompts import Diagnosis, Rewrite
from memnb.remem.tools import GistGraph
from memnb.retrieval.vectors import HybridIndex
from memnb.core.text import tokenize
from memnb.core.models import ScriptedLM
from memnb.core.roles import Call, LM, RuleLM, ServerError, Usage
from memnb.memma.bank import MemoryBank
from memnb.memma.retrieval import carries
from memnb.core.loop import Run
from memnb.core.conversation import Snippet
from memnb.core.retriever import Hit, Searchable
from memnb.core.time import TimeSpan
from memnb.core.trace import Trace
from memnb.memma.construction import construct

QUESTION = 'When did Ada sell the boat?'
PEOPLE = ('Ada', 'Bo')
TURN_IDS = [f'D1:{number}' for number in range(1, 9)]


class Replies(LM):
    """Typed replies from lists, round and round: a model that says anything. `fails_at`: the number of a call that fails."""
    name = 'replies'

    def __init__(self, diagnose, rewrite, answer, fails_at=None):
        self.said = {'diagnose': diagnose, 'rewrite': rewrite, 'answer': answer}
        self.fails_at, self.heard = fails_at, []

    def call(self, role, /, **inputs):
        number, earlier = len(self.heard), sum(name == role.name for name, _ in self.heard)
        self.heard.append((role.name, inputs))
        if number == self.fails_at:
            raise ServerError('gone', usage=Usage(1, 2, 0))
        said = self.said[role.name]
        return Call(role.name, said[earlier % len(said)].model_copy(deep=True), Usage(1, 3, 4))


TEXTS = st.sampled_from(['', '  ', 'the', 'the boat', 'boats', 'Ada: sell a boat', 'Ada', 'Bo: the boat', 'in May', '3 May 2024', 'sold to whom',
                         QUESTION, 'selling boats Ada', '<b>boat</b>', 'price\ud83d price', 'a gap\nin two lines', 'Ada:'])
LISTS = st.lists(TEXTS, max_size=3)
JUDGED = st.builds(Diagnosis, decision=st.sampled_from(['ANSWERABLE', 'NOT-ANSWERABLE', 'NOT-ANSWERABLE']), reason=TEXTS, gaps=LISTS,
                   queries=LISTS, constraints=LISTS, avoid=LISTS)
REWRITTEN = st.builds(Rewrite, query=TEXTS)
FINAL = st.builds(AnswerReply, answer=st.sampled_from(['3 May 2024', '', NO_INFORMATION]),
                  sources=st.lists(st.sampled_from([*TURN_IDS, *(f's{number}' for number in range(6)), 'D9:9', '']), max_size=3))


@st.composite
def stores(draw):
    """Up to six snippets, some of several turns, some of none, some sharing turns; up to three orders of them."""
    count = draw(st.integers(0, 6))
    sources = st.lists(st.sampled_from(TURN_IDS), max_size=3, unique=True).map(tuple)
    snippets = [Snippet(f's{number}', draw(TEXTS), draw(sources), speaker=draw(st.sampled_from([None, *PEOPLE]))) for number in range(count)]
    return Store(snippets, draw(st.lists(st.permutations(range(count)), min_size=1, max_size=3)))


@st.composite
def scenes(draw):
    """A store, the replies of a model, options of the loop, and a budget of turns."""
    options = draw(st.fixed_dictionaries({'refinements': st.integers(0, 4), 'k': st.integers(1, 3), 'speakers': st.sampled_from([(), PEOPLE]),
                                          **dict.fromkeys(['refine', 'diagnose', 'binding'], st.sampled_from([True, True, False]))}))
    replies = draw(st.lists(JUDGED, min_size=1, max_size=4)), draw(st.lists(REWRITTEN, min_size=1, max_size=4)), [draw(FINAL)]
    return draw(stores()), replies, options, draw(st.none() | st.integers(0, 6))


def run_of(scene, fails_at=None, **changed):
    """The trace of a scene, and the model that was asked."""
    store, replies, options, budget = scene
    model = Replies(*replies, fails_at)
    return Coordinated(store, model, **{**options, **changed}).ask(QUESTION, budget=budget), model


def of(trace, kind):
    return [step for step in trace.steps if step.kind == kind]


def queries_of(trace):
    return [step.query for step in of(trace, 'search')]


def replies_of(trace, role):
    return [step.reply for step in of(trace, 'model') if step.role == role]


def named(judged):
    """The gaps of a reply that count."""
    gaps = [gap for gap in judged['gaps'] if gap.strip()]
    return gaps or ([judged['reason'] if judged['reason'].strip() else QUESTION] if judged['decision'] == 'NOT-ANSWERABLE' else [])


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
    return (bool(mine[1]) and all(key(one, people) != mine for one in earlier)
            and stems_of(*judged['constraints']) <= stems_of(query)
            and not stems_of(query) & (stems_of(*judged['avoid']) - stems_of(*judged['constraints'])))


SCENES = settings(max_examples=int(os.environ.get('MEMNB_EXAMPLES', 30)), deadline=None)


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
    given_to = [(name, [snippet.id for snippet in inputs['lines' if name == 'answer' else 'evidence']]) for name, inputs in model.heard]
    for (_, before), (_, after) in zip(given_to, given_to[1:]):
        assert after[:len(before)] == before
    assert given_to[-1] == ('answer', shown)
    behind = {turn for step in of(trace, 'search') for hit in step.hits for turn in hit.turns}
    assert set(trace.evidence) <= behind == set(trace.read)


@SCENES
@given(scenes())
def test_the_judge_is_told_what_is_new_what_was_asked_and_what_for(scene):
    trace, model = run_of(scene, diagnose=True)
    judged = replies_of(trace, 'diagnose')
    for number, inputs in enumerate(inputs for name, inputs in model.heard if name == 'diagnose'):
        searched = of(trace, 'search')[:number + 1]
        older = {hit.id for step in searched[:-1] for hit in step.hits}
        assert [snippet.id for snippet in inputs['fresh']] == [hit.id for hit in searched[-1].hits if hit.id not in older]
        assert list(inputs['queries']) == [step.query for step in searched]
        assert list(inputs['gaps']) == [named(said)[0] for said in judged[:number]]


@SCENES
@given(scenes())
def test_the_gaps_at_the_end_are_those_of_the_last_judgement(scene):
    trace, _ = run_of(scene)
    judged = replies_of(trace, 'diagnose')
    assert trace.gaps == (named(judged[-1]) if judged else [])
    for said, step in zip(judged, of(trace, 'route')):
        content = said['decision'] == 'ANSWERABLE'
        assert step.proposed == ('answer' if content else 'retrieve')
        assert step.action == ('answer' if content and not (scene[2]['binding'] and named(said)) else 'retrieve')
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
    queries, gaps = [QUESTION], []
    found = {hit.snippet.id: hit.snippet for hit in store.search(QUESTION, options['k'])}
    for number in range(options['refinements'] if options['refine'] else 0):
        query = rewritten[number % len(rewritten)].query.strip()
        if options['diagnose']:
            said = judged[number % len(judged)].model_dump()
            gaps = named(said)
            if said['decision'] == 'ANSWERABLE' and not (options['binding'] and gaps):
                break
            if options['binding']:
                people = options['speakers'] or sorted({snippet.speaker for snippet in found.values() if snippet.speaker})
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
    once = RAG(store, Replies(*replies), k=options['k']).ask(QUESTION, budget=budget)
    assert [name for name, _ in model.heard] == ['answer']
    assert (static.read, static.answer, static.evidence, static.gaps) == (once.read, once.answer, once.evidence, [])
    unguided, model = run_of(scene, refine=True, diagnose=False)
    assert 'diagnose' not in {name for name, _ in model.heard} and not unguided.gaps and not of(unguided, 'route')
    said = [reply['query'].strip() for reply in replies_of(unguided, 'rewrite')]
    assert queries_of(unguided)[1:] == [query for query in said if query]  # as they come, whether new or not
    advised, _ = run_of(scene, refine=True, diagnose=True, binding=False)
    assert queries_of(advised)[1:] == [query for reply in replies_of(advised, 'rewrite') if (query := reply['query'].strip())]


@SCENES
@given(scenes())
def test_a_larger_budget_begins_like_a_smaller_one(scene):
    whole, _ = run_of(scene, refine=True, refinements=4)
    for number in range(4):
        part, _ = run_of(scene, refine=True, refinements=number)
        assert of(part, 'search') == of(whole, 'search')[:number + 1]


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
    assert done == whole.steps[:len(done)] and part.read == whole.read[:len(part.read)] and part.total.calls == number + 1
    judged = replies_of(part, 'diagnose')
    judged = [said for said in judged if said]
    assert part.gaps == (named(judged[-1]) if judged else [])


@settings(max_examples=100, deadline=None)
@given(TEXTS, JUDGED, st.lists(TEXTS, max_size=3), st.sampled_from([(), PEOPLE]))
def test_bound_is_admissible_or_nothing_is(query, judged, earlier, people):
    made, said = bound(query, judged, earlier, people), judged.model_dump()
    if made is not None:
        assert admissible(made, said, earlier, people) and made == made.strip()
    else:  # then no wording would have done as it stands
        assert not any(admissible(one.strip(), said, earlier, people) for one in (query, *judged.queries, *judged.gaps))
    if admissible(query, said, earlier, people) and all(carries(query, text) for text in judged.constraints):
        assert made == ' '.join(query.split())


def test_an_empty_or_stale_query_gives_way_to_suggestion_then_gap_then_nothing():
    judged = Diagnosis(decision='NOT-ANSWERABLE', gaps=['who bought it'], queries=['boat sold'], constraints=['Ada'])
    for query in ('', '  ', 'the', QUESTION, 'prices of boats, Ada!'):
        assert bound(query, judged, [QUESTION, 'Ada: boat price'], ()) == 'boat sold Ada'
    assert bound('the price, Ada', judged, [QUESTION], ()) == 'the price, Ada'
    assert bound('', judged, [QUESTION, 'boat sold Ada'], ()) == 'who bought it Ada'
    assert bound('', judged, [QUESTION, 'boat sold Ada', 'Ada bought it'], ()) is None


NO = {'decision': 'NOT-ANSWERABLE', 'reason': '', 'gaps': ['the day'], 'missing_speaker': None, 'time_need': None, 'queries': [], 'constraints': [], 'avoid': []}
ANSWER = {'answer': '3 May 2024', 'sources': ['D1:1']}
BOAT = Snippet('s1', 'Ada sold the boat on 3 May 2024.', ('D1:1',), speaker='Ada')


def rewrite(query):
    return {'query': query, 'strategy': '', 'target_speaker': None}


@pytest.mark.parametrize('judged, rewritten, options, searched, gaps', [
    ([NO | {'decision': 'ANSWERABLE', 'gaps': []}], [], {}, 1, []),  # content at once
    ([NO, NO | {'decision': 'ANSWERABLE', 'gaps': []}], ['who bought it'], {}, 2, []),  # content at last
    ([NO, NO], ['who bought it', 'the price'], {'refinements': 2}, 3, ['the day']),  # the budget is spent
    ([NO, NO | {'gaps': ['the year', 'the day']}], ['who bought it', 'the price'], {'refinements': 2}, 3, ['the year', 'the day']),
    ([NO | {'gaps': []}], [''], {}, 1, [QUESTION]),  # nothing is named, and nothing new can be asked: the question stands for the gap
    ([NO | {'gaps': [' '], 'reason': 'no date'}], [QUESTION], {'refinements': 1}, 2, ['no date']),  # the reason does, and is asked for
    ([NO | {'gaps': ['the boat, when did Ada sell?']}], [QUESTION], {}, 1, ['the boat, when did Ada sell?']),  # nothing new
    ([NO | {'decision': 'ANSWERABLE'}] * 2, ['who bought it', 'the price'], {'refinements': 2}, 3, ['the day']),  # called answerable, with a gap
    ([NO | {'decision': 'ANSWERABLE'}], [], {'binding': False}, 1, ['the day']),  # and nobody minded
    ([NO | {'decision': 'ANSWERABLE', 'gaps': ['', ' ']}], [], {}, 1, []),  # blank gaps are none
    ([], [], {'refine': False}, 1, []), ([], [], {'refinements': 0}, 1, []), ([], [QUESTION, ''], {'diagnose': False}, 2, [])])
def test_gaps_at_the_end_of_every_path(judged, rewritten, options, searched, gaps):
    model = ScriptedLM({'diagnose': judged, 'rewrite': [rewrite(query) for query in rewritten], 'answer': [ANSWER]})
    trace = Coordinated(lambda query: [BOAT], model, **options).ask(QUESTION)
    assert (trace.error, len(queries_of(trace)), trace.gaps, trace.answer, trace.evidence) == (None, searched, gaps, '3 May 2024', ['D1:1'])
    assert not any(model._left.values())  # every reply was used


@pytest.mark.parametrize('diagnosis, follows', [
    ('no JSON at all', 'error'), ('', 'error'), ('{"decision": "PERHAPS"}', 'error'), ('[]', 'error'), (json.dumps(NO | {'gaps': 7}), 'error'),
    ('```json\n' + json.dumps(NO) + '\n```', 'answer'), (json.dumps(NO | {'gaps': ['half a pair \ud83d']}), 'error'),
    (json.dumps(NO | {'gaps': ['<script>alert(1)</script>', '</dd>']}), 'answer'),
    (json.dumps(NO | {'gaps': ['\x00\x1b[31m', '‮']}), 'answer'), (json.dumps(NO | {'constraints': ['<b>', ':', '']}), 'answer'),
    (json.dumps(NO | {'gaps': ['x' * 50_000]}), 'answer')])
def test_hostile_judgements_end_in_an_answer_or_an_error_of_this_question(diagnosis, follows):
    script = {'diagnose': [diagnosis] * 2, 'rewrite': [rewrite('<i>who</i> bought it')], 'answer': [ANSWER]}
    loop = Coordinated(lambda query: [BOAT], ScriptedLM(script), refinements=1)
    trace = loop.ask(QUESTION)
    assert (trace.answer is not None) == (follows == 'answer') == (trace.error is None)
    assert trace.read == ['D1:1'] and Trace.from_json(trace.to_json()) == trace
    assert trace._repr_html_().count('<script') == bool(trace.steps) and '\x1b' not in str(trace)
    assert Coordinated(lambda query: [BOAT]).ask(QUESTION).error is None


@pytest.mark.parametrize('said', ['', '   ', ':', 'Ada:', '\ud83d', 'the of and', '<b></b>', 'x ' * 5_000, QUESTION * 100, 'null', '\u202e'])
def test_hostile_queries_leave_the_laws_standing(said):
    judged = NO | {'constraints': ['Ada', '3 May'], 'queries': ['who bought it'], 'avoid': ['boat']}
    model = Replies([Diagnosis(**judged)], [Rewrite(query=said)], [AnswerReply(**ANSWER)])
    trace = Coordinated(lambda query: [BOAT], model).ask(QUESTION)
    queries = queries_of(trace)
    assert trace.error is None and 2 <= len(queries) <= 4
    assert all(admissible(query, judged, queries[:number], ('Ada',)) for number, query in enumerate(queries) if number)
    assert Trace.from_json(trace.to_json()) == trace


def test_huge_lists_are_borne():
    many = [f'gap {number} of the boat' for number in range(2_000)]
    judged = NO | {'gaps': many, 'queries': [QUESTION] * 2_000, 'constraints': ['Ada'] * 50, 'avoid': many[:50]}
    trace = Coordinated(lambda query: [BOAT], ScriptedLM({'diagnose': [judged], 'rewrite': [rewrite(QUESTION)], 'answer': [ANSWER]}), refinements=1).ask(QUESTION)
    assert trace.error is None and trace.gaps == many


def test_a_store_that_breaks_ends_this_question_only():
    calls = []

    def store(query):
        calls.append(query)
        if len(calls) == 2:
            raise OSError('gone')
        return [BOAT]

    script = {'diagnose': [NO, NO, NO | {'decision': 'ANSWERABLE', 'gaps': []}], 'rewrite': [rewrite('who bought it')] * 2, 'answer': [ANSWER]}
    loop = Coordinated(store, ScriptedLM(script))
    first, second = loop.ask(QUESTION), loop.ask(QUESTION)
    assert (first.answer, first.error, first.gaps, first.read) == (None, 'MemoryFailed: OSError: gone', ['the day'], ['D1:1'])
    assert (second.error, second.answer, second.gaps) == (None, '3 May 2024', [])


def test_a_repeated_snippet_is_evidence_once():
    class Twice(Searchable):
        def search(self, query, k=10, *, exclude=(), during=None):
            return [Hit(BOAT), Hit(BOAT)]

    now, run = Asking(), Run(QUESTION, 'test', RuleLM(), Twice())
    now.look(run, QUESTION, 5)
    assert (list(now.evidence), now.fresh) == (['s1'], [BOAT])
    now.look(run, 'again', 5)
    assert (list(now.evidence), now.fresh, now.queries) == (['s1'], [], [QUESTION, 'again'])
    assert now.trace == [f'{QUESTION} -> 1 found, new: s1', 'again -> 1 found, new: none']


def test_the_day_of_asking_and_the_speakers_reach_the_roles():
    model, day = Replies([Diagnosis(**NO)], [Rewrite(query='who bought it')], [AnswerReply(**ANSWER)]), TimeSpan.day(date(2024, 6, 1))
    Coordinated(lambda query: [BOAT], model, refinements=1).ask(QUESTION, asked=day)
    assert [inputs['asked'] for name, inputs in model.heard if name != 'rewrite'] == [day, day]
    assert [inputs['speakers'] for name, inputs in model.heard if name != 'answer'] == [('Ada',)] * 2
    Coordinated(lambda query: [BOAT], model, refinements=1, speakers=PEOPLE).ask(QUESTION)
    assert model.heard[-2][1]['speakers'] == PEOPLE and model.heard[-2][1]['diagnosis'].gaps == ['the day']
    assert model.heard[-2][1]['trace'] == (f'{QUESTION} -> 1 found, new: s1',)


@pytest.mark.parametrize('options, kind, message', [
    ({'refinements': -1}, ValueError, 'refinements: expected 0 or more, got -1'), ({'k': 0}, ValueError, 'k: expected 1 or more, got 0'),
    ({'refinements': 1.5}, TypeError, 'refinements: expected a whole number, got 1.5'), ({'k': True}, TypeError, 'k: expected a whole number, got True'),
    ({'speakers': 'Ana'}, TypeError, "speakers: expected a sequence of names, got the text 'Ana'")])
def test_bad_options_are_refused(options, kind, message):
    with pytest.raises(kind, match=message):
        Coordinated(lambda query: [], **options)


def test_an_empty_memory_is_said_to_be_empty():
    trace = Coordinated(MemoryBank()).ask('When did Tobin pass his tram test?')
    assert (trace.answer, trace.evidence, trace.read, trace.error) == (NO_INFORMATION, [], [], None) and trace.gaps


@pytest.fixture(scope='module')
def sample():
    return load_sample()


@pytest.fixture(scope='module')
def bank(sample):
    """The first six sessions, written by the rules."""
    made = MemoryBank()
    for session in sample.sessions[:6]:
        construct(made, session, speakers=sample.speakers)
    return made


def test_guidance_reads_more_of_the_evidence_on_the_sample(sample, bank):
    """Not a number of a table, only its signs."""
    told = {turn.id for session in sample.sessions[:6] for turn in session.turns}
    questions = [question for question in sample.questions if question.category != 'adversarial' and set(question.evidence) & told]

    def recall(**options):
        loop = Coordinated(bank, k=5, **options)
        return sum(len(set(loop.ask(question.text).read) & set(question.evidence)) / len(set(question.evidence)) for question in questions)

    static, unguided, bound_by_it = recall(refine=False), recall(diagnose=False), recall()
    assert static <= unguided < bound_by_it


def test_any_memory_will_do(sample):
    early = replace(sample, sessions=sample.sessions[:1], questions=())
    for memory in (HybridIndex.of(early), GistGraph.of(early), CueTagGraph.of(early), lambda query: [turn.content for turn in early.turns]):
        trace = Coordinated(memory, k=4, refinements=2).ask('When did Tobin have his first concertina lesson?')
        assert trace.error is None and 1 <= len(queries_of(trace)) <= 3 and trace.read and set(trace.evidence) <= set(trace.read)


def test_an_entry_that_is_gone_stays_a_gap(sample, bank):
    question, gold = "What was painted on the jar of sourdough that Tobin left on Zofia's step?", 'D2:9'
    assert gold in Coordinated(bank, k=5).ask(question).read
    with bank.transaction():
        for name in [entry.id for entry in bank if gold in entry.sources]:
            bank.delete(name)
    gone = Coordinated(bank, k=5).ask(question)
    bank.undo()
    assert gold not in gone.read and gold not in gone.evidence
    assert gold in Coordinated(bank, k=5).ask(question).read
