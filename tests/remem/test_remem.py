"""REMem's agent against Algorithm 2 written down naively, with models that make every kind of mistake, served, recorded, and by rules."""

import json
import math
import re
from datetime import datetime
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakes import Buckets
from memnb.baselines import RAG
from memnb.core.roles import NO_INFORMATION
from memnb.core.conversation import Session, Turn
from memnb.mragent.graph import CueTagGraph
from memnb.remem.graph import GistGraph
from memnb.remem.tools import GraphTools
from memnb.retrieval.bm25 import LexicalIndex
from memnb.core.models import OpenAILM, ScriptedLM
from memnb.core.models import RecordedLM
from memnb.remem.loop import REMem, REMemS
from memnb.remem.prompts import TimelineReply
from memnb.core.roles import strict_schema
from memnb.core.conversation import Snippet
from memnb.core.retriever import Hit
from memnb.core.time import TimeSpan
from memnb.core.tools import Observation, output_answer, ToolError
from memnb.core.trace import Trace
from servers import Server, chat, fail

# ------------------------------------------------------------------ a small graph

SAID = {
    datetime(2024, 1, 9, 19): [
        ('Ada', 'I bought a red boat yesterday.'),
        ('Bo', 'I sold my tram on 3 January 2024.'),
        ('Ada', 'The boat is called Moon.'),
        ('Bo', 'Moon needs a lamp.'),
    ],
    datetime(2024, 3, 2, 8): [('Bo', 'I bought a lamp for Ada last week.'), ('Ada', 'The lamp hangs in the harbour.')],
    datetime(2024, 5, 20, 12): [
        ('Ada', 'I lost the lamp in April 2024.'),
        ('Bo', 'My sister Cleo found a clock in the harbour.'),
        ('Ada', 'Cleo moved to Oslo in 2022.'),
    ],
}
SESSIONS = [
    Session(
        f'D{number}',
        tuple(Turn(f'D{number}:{place}', who, text, time) for place, (who, text) in enumerate(said, 1)),
        time,
    )
    for number, (time, said) in enumerate(SAID.items(), 1)
]
QUESTIONS = [
    'When did Ada buy a boat?',
    'When did Bo buy a boat?',
    'Where does the lamp hang?',
    'Who found a clock in May 2024?',
    'What did Ada lose?',
    'What did Bo lose?',
    'How many lamps are there?',
    'Did Cleo move before Ada lost the lamp?',
    '?',
]


def graph_of(sessions=SESSIONS, **options):
    graph = GistGraph(embedder=Buckets(), names=('Ada', 'Bo'), **options)
    for session in sessions:
        graph.add(session)
    return graph


GRAPH = graph_of()
NAMES = [tool.name for tool in GRAPH.tools()]
GISTS = sorted(gist.id for gist in GRAPH.gists)
LINES = {item.id: item.line for session in GRAPH.sessions for item in GRAPH.extract_of(session).items}
PHRASES = sorted({getattr(fact, field) for fact in GRAPH.facts for field in ('subject', 'object')}) + ['nobody']
TURNS = {turn.id for session in SESSIONS for turn in session.turns}

# ------------------------------------------------------------------ models that make mistakes

QUERY = st.sampled_from(['boat', 'lamp', 'harbour Moon', 'Ada', 'Cleo clock', 'zebra', ' ', QUESTIONS[0]])
TIME = st.sampled_from(['2024', '2024-01', '3 January 2024', '2022', 'last spring', ''])
OPERATOR = st.sampled_from(['lt', 'le', 'eq', 'ge', 'gt'])
FILTER = {'start_time': TIME, 'end_time': TIME, 'start_operator': OPERATOR, 'end_operator': OPERATOR}


def asks(name, required, optional):
    return st.fixed_dictionaries(required, optional=optional).map(lambda given: {'function': name, 'parameters': given})


CALLS = st.one_of(
    asks('semantic_retrieve', {'query': QUERY}, FILTER),
    asks('lexical_retrieve', {'query': QUERY}, FILTER),
    asks('find_gist_contexts', {'gist_id': st.sampled_from([*GISTS[:6], '1', '2', '99', 'nothing'])}, FILTER),
    asks('find_turns', {'gist_id': st.sampled_from([*GISTS[:6], '1', '2', 'nothing'])}, {}),
    asks(
        'find_entity_contexts',
        {},
        {
            'subject': st.sampled_from(PHRASES),
            'object': st.sampled_from(PHRASES),
            **FILTER,
            'predicate': st.sampled_from(['bought', 'lost']),
            'limit': st.integers(-1, 3),
            'ordering': st.sampled_from(['asc', 'desc']),
            'offset': st.integers(-1, 2),
            'aggregation': st.sampled_from(['count', 'count_unique_subjects', None]),
        },
    ),
    asks('output_answer', {'answer': st.sampled_from(['a red boat', '3', NO_INFORMATION, ''])}, {}),
    st.sampled_from(
        [
            {
                'function': 'semantic_retrieve',
                'parameters': {'query': 'boat', 'k': 3},
            },  # with names that the tools do not have
        ]
    ),
)
UNFIT = st.sampled_from(
    [  # calls that name a tool, and that no schema would let through
        {'function': 'lexical_retrieve', 'parameters': {}},
        {'function': 'semantic_retrieve', 'parameters': {'query': ['boat']}},
        {'function': 'find_entity_contexts', 'parameters': {'subject': 'Ada', 'start_operator': 'after'}},
        {'function': 'output_answer', 'parameters': {'answer': {}}},
        {'function': 'output_answer', 'parameters': {'text': 'a boat'}},
        {'function': 'find_gist_contexts', 'parameters': {'gist_id': ['1']}},
    ]
)
TOOLLESS = st.sampled_from(
    [
        'I would rather not.',
        '',
        '{"call": {"function": "grep", "parameters": {}}, "reasoning": ""}',
        '[]',
        '{"call": "output_answer"}',
    ]
)
MOVES = st.lists(
    st.tuples(st.just('fit'), CALLS)
    | st.tuples(st.just('fit'), CALLS)
    | st.tuples(st.just('unfit'), UNFIT)
    | st.tuples(st.just('no tool'), TOOLLESS),
    max_size=5,
)
FINAL = st.fixed_dictionaries(
    {
        'answer': st.sampled_from(['red boat', NO_INFORMATION, '2']),
        'sources': st.lists(st.sampled_from([*GISTS, 'D1:1', 'D3:2', 'D99:1', 'x']), max_size=4),
    }
)


def model_of(moves, final):
    "A model that makes the moves, each mistake twice, and then goes on with searches for a boat."
    said = []
    for kind, move in moves:
        reply = move if kind == 'no tool' else {'reasoning': f'thought {len(said)}', 'call': move}
        said += [reply] * (1 if kind == 'fit' else 2)
    rest = [{'reasoning': 'go on', 'call': {'function': 'lexical_retrieve', 'parameters': {'query': 'boat'}}}] * 9
    return ScriptedLM({'select': said + rest, 'synthesize': [final]})


def naive(moves, final, max_steps, offered=NAMES):
    "Algorithm 2, step by step, with lists: what was read, the calls with their ids, the draft, the answer's turns, or the error."
    tools = {tool.name: tool for tool in GRAPH.tools() if tool.name in offered}
    moves = [*moves, *[('fit', {'function': 'lexical_retrieve', 'parameters': {'query': 'boat'}})] * 9]
    read, calls, behind, draft = [], [], {}, ''
    for kind, move in moves[:max_steps]:
        if kind == 'no tool' or move['function'] not in tools:
            searches = [name for name in ('semantic_retrieve', 'lexical_retrieve') if name in tools]
            if calls or not searches:
                break
            kind, move = 'last', {'function': searches[0], 'parameters': {'query': QUESTIONS[0]}}
        try:
            seen = tools[move['function']](**move['parameters'])
        except ToolError as error:
            calls.append((move['function'], True, str(error), []))
            continue
        calls.append((move['function'], False, seen.note, [hit.snippet.id for hit in seen.hits]))
        for hit in seen.hits:
            behind[hit.snippet.id] = list(hit.snippet.sources)
            behind.update({turn: [turn] for turn in hit.snippet.sources})
            read += [turn for turn in hit.snippet.sources if turn not in read]
        if move['function'] == 'output_answer':
            draft = seen.note
        if kind == 'last' or move['function'] == 'output_answer':
            break
    cited = []
    for source in final['sources']:
        cited += [turn for turn in behind.get(source, []) if turn not in cited]
    return read, calls, draft, (final['answer'], cited), False


def told_by(trace):
    calls = [
        (step.tool, step.error, step.note, [hit.id for hit in step.hits]) for step in trace.steps if step.kind == 'tool'
    ]
    draft = next((step.draft or '' for step in trace.steps if step.kind == 'answer'), None)
    return (
        trace.read,
        calls,
        draft,
        (trace.answer, trace.evidence) if trace.error is None else None,
        trace.error is not None,
    )


@settings(max_examples=120)
@given(MOVES, FINAL, st.integers(1, 5))
def test_the_loop_is_algorithm_2(moves, final, max_steps):
    model = model_of(moves, final)
    trace = REMem(GRAPH, model, max_steps=max_steps, widen=False, always_synthesize=True).ask(QUESTIONS[0])
    assert told_by(trace) == naive(moves, final, max_steps)
    assert trace.error is None or trace.error.startswith('ReplyError')


def check_properties(trace, max_steps, budget=None):
    used = [step for step in trace.steps if step.kind == 'tool']
    assert len(used) <= max_steps and [step.iteration for step in used] == list(range(1, len(used) + 1))
    shown = list(dict.fromkeys(turn for step in used for hit in step.hits for turn in hit.turns))
    assert trace.read == shown
    assert set(trace.evidence) <= set(trace.read) <= TURNS
    assert budget is None or len(trace.read) <= budget
    again = Trace.from_json(trace.to_json())
    assert again == trace and again.to_json() == trace.to_json()


@settings(max_examples=60)
@given(
    MOVES,
    FINAL,
    st.integers(1, 4),
    st.integers(0, 9),
    st.sets(st.sampled_from(NAMES), max_size=4),
    st.sampled_from(QUESTIONS),
)
def test_properties_hold_within_any_budget_and_with_any_tools_withheld(
    moves, final, max_steps, budget, withheld, question
):
    model = model_of([(kind, move) for kind, move in moves if kind != 'no tool'], final)
    for lm in (model, None):
        trace = REMem(GRAPH, lm, max_steps=max_steps, without=sorted(withheld), widen=False).ask(
            question, budget=budget
        )
        check_properties(trace, max_steps, budget)
        assert not {step.tool for step in trace.steps if step.kind == 'tool'} & withheld
        assert lm is not None or trace.error is None and trace.answer


@settings(max_examples=40)
@given(
    st.lists(CALLS.filter(lambda call: call['function'] != 'output_answer'), min_size=1, max_size=3), FINAL, st.data()
)
def test_a_wrong_call_changes_nothing(calls, final, data):
    wrong = data.draw(
        st.sampled_from(
            [
                ('unfit', {'function': 'lexical_retrieve', 'parameters': {}}),
                ('fit', {'function': 'find_gist_contexts', 'parameters': {'gist_id': 'nothing'}}),
                ('fit', {'function': 'semantic_retrieve', 'parameters': {'query': ' '}}),
            ]
        )
    )
    moves = [('fit', call) for call in calls]
    place = data.draw(st.integers(0, len(moves)))
    plain = REMem(GRAPH, model_of(moves, final), max_steps=len(moves), widen=False).ask('Why?')
    with_it = REMem(
        GRAPH, model_of([*moves[:place], wrong, *moves[place:]], final), max_steps=len(moves) + 1, widen=False
    ).ask('Why?')
    assert (with_it.read, with_it.answer, with_it.evidence) == (plain.read, plain.answer, plain.evidence)
    refused = [step for step in with_it.steps if step.kind == 'tool'][place]
    assert refused.error and not refused.hits


IN_VAIN = st.sampled_from(
    [
        {'function': name, 'parameters': given}
        for name, given in (
            ('lexical_retrieve', {'query': ' '}),
            ('semantic_retrieve', {'query': 'boat', 'start_time': '1790'}),
            ('find_gist_contexts', {'gist_id': 'nothing'}),
            ('find_entity_contexts', {'subject': 'zebra', 'aggregation': 'count'}),
        )
    ]
)


@settings(max_examples=60)
@given(
    st.lists(CALLS | IN_VAIN, min_size=1, max_size=3).flatmap(
        lambda pool: st.lists(st.sampled_from(pool), min_size=1, max_size=4)
    ),
    FINAL,
)
def test_where_nothing_new_is_found_the_search_goes_on_without_times_and_with_the_question(calls, final):
    moves, question = [('fit', call) for call in calls], {'query': 'Why?'}
    plain, wide = (
        REMem(GRAPH, model_of(moves, final), max_steps=len(moves), widen=widen).ask('Why?') for widen in (False, True)
    )
    due, made = [(step.tool, step.arguments) for step in plain.steps if step.kind == 'tool'], []
    steps = [step for step in wide.steps if step.kind == 'tool']

    def take(*call):
        step = steps.pop(0)
        assert (step.tool, step.arguments) == call
        made.append(call)
        return bool(step.hits or step.value)

    found = False
    for tool, given in due:
        if (tool, given) not in made:
            empty = not take(tool, given)
            if empty and 'retrieve' in tool and (given.get('start_time') or given.get('end_time')):
                empty = not take(tool, {name: value for name, value in given.items() if name in ('query', 'offset')})
            found = found or not empty
        elif question in (known for _, known in made):
            break
        else:
            found = take('semantic_retrieve', question) or found
    if not found and question not in (known for _, known in made) and [name for name, _ in made] != ['output_answer']:
        take('semantic_retrieve', question)
    assert not steps


def with_day(id):
    "A line as a prompt shows it: a gist or a turn with the weekday."
    [item] = [one for session in GRAPH.sessions for one in GRAPH.extract_of(session).items if one.id == id]
    return re.sub(r'^\[', f'[{item.said:%a} ', item.line)


@settings(max_examples=30)
@given(st.lists(CALLS, min_size=1, max_size=4), FINAL)
def test_each_prompt_holds_all_that_came_before(calls, final):
    model = model_of([('fit', call) for call in calls], final)
    trace = REMem(GRAPH, model, max_steps=4, widen=False).ask('Who has the lamp?')
    used = [step for step in trace.steps if step.kind == 'tool']
    prompts = [user for role, _, user in model.prompts if role == 'select']
    assert len(prompts) == len(used)
    for place, prompt in enumerate(prompts):
        assert prompt.rstrip().endswith(str(4 - place))
        for step in used[:place]:
            assert step.note in prompt and (
                step.value is not None or all(f'({hit.id}) {with_day(hit.id)}' in prompt for hit in step.hits)
            )
    last = model.prompts[-1][2]
    assert all(step.note in last for step in used if not step.tool == 'output_answer')
    assert all(f'({hit.id})' in last for step in used for hit in step.hits)


def test_a_prompt_shows_each_line_once_and_few_of_what_was_counted():
    graph = GistGraph.from_facts([('Ada', 'bought', f'boat {number}') for number in range(30)], embedder=Buckets())
    look = {'reasoning': '', 'call': {'function': 'find_entity_contexts', 'parameters': {'subject': 'Ada'}}}
    count = {
        'reasoning': '',
        'call': {'function': 'find_entity_contexts', 'parameters': {'object': 'boat 1', 'subject': 'Ada'}},
    }
    number = {
        'reasoning': '',
        'call': {'function': 'find_entity_contexts', 'parameters': {'predicate': 'bought', 'aggregation': 'count'}},
    }
    model = ScriptedLM({'select': [look, look, number, count], 'synthesize': [{'answer': '30', 'sources': []}]})
    trace = REMem(graph, model, max_steps=3, widen=False).ask('How many boats did Ada buy?')
    *_, third = [user for role, _, user in model.prompts if role == 'select']
    assert third.count('(Ada, bought, boat') == 10 and third.count('as above') == 10
    assert third.count('30 facts, 10 shown from 1; offset=10 shows more') == 2
    assert [step.value for step in trace.steps if step.kind == 'tool'] == [None, None, 30]
    last = model.prompts[-1][2]
    assert last.count('(Ada, bought, boat') < 20 and 'count: 30' in last


@pytest.mark.parametrize(
    'ending, options, roles, evidence',
    [
        ({'sources': ['D1/g1', 'D1:3']}, {}, 2, ['D1:1', 'D1:3']),
        ({'sources': '(D1/g1)'}, {}, 2, ['D1:1']),
        ({'sources': [GISTS[0], 'D99:1'], 'answerable': False}, {}, 2, ['D1:1']),
        ({'sources': ['D99:1', 'D3:1']}, {}, 3, ['D1:2']),  # never shown
        ({}, {}, 3, ['D1:2']),
        ({'answerable': False}, {}, 2, []),  # a refusal rests on nothing
        ({'answerable': False}, {'may_refuse': False}, 3, ['D1:2']),
        *(({'sources': ['D1/g1']}, {name: value}, 3, ['D1:2']) for name, value in
          {'always_synthesize': True, 'prompts': 'paper', 'timeline': True}.items()),
    ],
)  # fmt: skip
def test_an_answer_with_sources_is_not_asked_for_again(ending, options, roles, evidence):
    calls = [('lexical_retrieve', {'query': 'Moon boat tram'}), ('output_answer', {'answer': 'a red boat', **ending})]
    moves = [{'reasoning': '', 'call': {'function': name, 'parameters': given}} for name, given in calls]
    last = {'answer': 'a red boat', 'sources': ['D1:2']}
    model = ScriptedLM({'select': moves, 'synthesize': [last], 'timeline': [last]})
    trace = REMem(GRAPH, model, **options).ask('What did Ada buy?')
    assert (trace.answer, trace.evidence, trace.error) == ('a red boat', evidence, None)
    assert len(model.prompts) == roles and trace.refused == (roles == 2 and ending.get('answerable') is False)
    assert ('sources=' in model.prompts[0][1]) == (options in ({}, {'may_refuse': False}))
    assert ('find_turns' in model.prompts[0][1]) == (options != {'prompts': 'paper'})


def test_a_refusal_is_a_draft_where_the_question_itself_finds_more():
    ending = {'function': 'output_answer', 'parameters': {'answer': NO_INFORMATION, 'answerable': False}}
    look = {'function': 'lexical_retrieve', 'parameters': {'query': 'zebra'}}
    last = {'answer': 'a red boat', 'sources': ['D1:1'], 'answerable': True}
    model = ScriptedLM({'select': [{'reasoning': '', 'call': call} for call in (look, ending)], 'synthesize': [last]})
    trace = REMem(GRAPH, model).ask('What did Ada buy?')
    assert (trace.answer, trace.refused) == ('a red boat', False)
    assert model.prompts[-1][2].endswith(f'# What the search proposes: {NO_INFORMATION}')


def test_a_number_refers_to_the_question_where_that_was_searched_for_last():
    calls = [('lexical_retrieve', {'query': 'tram'})] * 2 + [('find_gist_contexts', {'gist_id': '1'})]
    moves = [{'reasoning': '', 'call': {'function': name, 'parameters': given}} for name, given in calls]
    model = ScriptedLM({'select': moves, 'synthesize': [{'answer': 'in the harbour', 'sources': []}]})
    trace = REMem(GRAPH, model).ask('Where does the lamp hang?')
    first, second, third = [step.hits[0].id for step in trace.steps if step.kind == 'tool']
    assert first != second == third


# ------------------------------------------------------------------ by rules


@pytest.mark.parametrize('without', [chosen for size in range(1, 5) for chosen in combinations(NAMES, size)])
def test_rules_end_with_any_tools_withheld(without):
    for steps in (1, 5):
        trace = REMem(GRAPH, max_steps=steps, without=without).ask('What did Ada lose?')
        check_properties(trace, steps)
        assert trace.answer and trace.error is None


# ------------------------------------------------------------------ other memories


def index_of():
    index = LexicalIndex()
    index.add(
        [
            Snippet(turn.id, turn.text, (turn.id,), TimeSpan.day(turn.time.date()), turn.speaker, turn.time)
            for session in SESSIONS
            for turn in session.turns
        ]
    )
    return index


@pytest.mark.parametrize('question', QUESTIONS)
def test_any_store_will_do(question):
    index = index_of()
    for memory in (index, lambda query: ['Ada has a boat.', 'Bo has none.']):
        for loop in (REMem(memory), REMem(memory, max_steps=5), REMemS(memory), REMem(memory, without='search_during')):
            trace = loop.ask(question)
            assert trace.error is None and set(trace.evidence) <= set(trace.read)
            made = [(step.tool, str(step.arguments)) for step in trace.steps if step.kind == 'tool']
            assert len(set(made)) == len(made)


@pytest.mark.parametrize('kind', [REMem, REMemS])
def test_a_memory_whose_tools_take_no_question_is_searched_and_the_trace_says_so(kind):
    graph = CueTagGraph(names=('Ada', 'Bo'))
    for session in SESSIONS:
        graph.add(session)
    loop, question = kind(graph), QUESTIONS[0]
    assert [tool.name for tool in loop.tools()] == [*(tool.name for tool in graph.tools()), 'search', 'search_during']
    trace = loop.ask(question)
    assert trace.steps[0].kind == 'note' and 'it is searched: search and search_during' in trace.steps[0].text
    plain = RAG(graph).ask(question)
    assert (trace.answer, trace.evidence) == (plain.answer, plain.evidence) == ('8 January 2024', ['D1:1'])
    assert not [step for step in kind(GRAPH).ask(question).steps if step.kind == 'note']


def test_memories_with_tools_and_no_search():
    class Desk:
        def __init__(self, *tools):
            self.given = tools

        def tools(self):
            return [*self.given]

    def pages(query: str) -> Observation:
        "Find pages."
        return Observation('one', (Hit(Snippet('p1', 'The boat is red.', ('p1',))),))

    def broken(query: str) -> Observation:
        "Fails."
        raise RuntimeError('no light')

    assert REMem(Desk(pages, output_answer)).ask('What colour is the boat?').evidence == ['p1']
    assert REMemS(Desk(pages)).ask('What colour is the boat?').evidence == ['p1']
    failed = REMem(Desk(broken)).ask('What colour is the boat?')
    assert failed.answer is None and 'no light' in failed.error
    for loop, memory in ((REMem, Desk()), (REMemS, Desk(output_answer)), (REMem, Desk(pages, pages))):
        with pytest.raises(ValueError):
            loop(memory)
    with pytest.raises(TypeError):
        REMem(3)


@pytest.mark.parametrize(
    'options, words',
    [
        *(({'max_steps': wrong}, 'max_steps: expected') for wrong in (0, -1, 2.5, '3', None, True, math.nan)),
        ({'without': ['grep']}, "no tool 'grep'"),
        ({'without': 'grep'}, "no tool 'grep'"),
        ({'without': NAMES}, 'one or more'),
    ],
)
def test_bad_switches_are_refused(options, words):
    with pytest.raises((ValueError, TypeError), match=words):
        REMem(GRAPH, **options)


# ------------------------------------------------------------------ one step, and the timeline


def test_a_single_step_asks_a_model_once():
    model = ScriptedLM([{'answer': 'a red boat', 'sources': [GISTS[0], 'x']}])
    trace = REMemS(GRAPH, model).ask('What did Ada buy?')
    assert [role for role, *_ in model.prompts] == ['synthesize']
    assert [step.tool for step in trace.steps if step.kind == 'tool'] == ['semantic_retrieve']
    shown = {hit.id for step in trace.steps if step.kind == 'tool' for hit in step.hits}
    assert shown == {hit.snippet.id for hit in GraphTools(GRAPH).semantic_retrieve('What did Ada buy?').hits}


def test_thoughts_are_written_before_the_answer():
    assert list(strict_schema(TimelineReply)['properties']) == [
        'reasoning',
        'timeline',
        'reflection',
        'answer',
        'sources',
        'answerable',
    ]
    for question in QUESTIONS:
        plain, timed = REMem(GRAPH).ask(question), REMem(GRAPH, timeline=True).ask(question)
        assert (plain.answer, plain.evidence) == (timed.answer, timed.evidence)
    said = {'reasoning': 'r', 'timeline': ['t'], 'reflection': 'f', 'answer': 'a boat', 'sources': []}
    model = ScriptedLM([said])
    assert REMemS(GRAPH, model, timeline=True).ask('What?').answer == 'a boat'
    assert 'TISER' in model.prompts[0][1]


# ------------------------------------------------------------------ served and recorded models

LOOK = {
    'reasoning': 'look',
    'call': {
        'function': 'lexical_retrieve',
        'parameters': {
            'query': 'boat',
            'start_time': None,
            'end_time': None,
            'start_operator': 'ge',
            'end_operator': 'le',
        },
    },
}
DONE = {'reasoning': 'done', 'call': {'function': 'output_answer', 'parameters': {'answer': 'a red boat'}}}
LAST = {'answer': 'a red boat', 'sources': ['D1:1']}


def test_a_served_model_that_misbehaves():
    with Server(
        chat('Sure! I will look.'), chat('```json\n' + json.dumps(LOOK) + '\n```'), chat(DONE), chat(LAST)
    ) as server:
        trace = REMem(GRAPH, OpenAILM('m', server.url, 'k')).ask('What did Ada buy?')
    assert (trace.answer, trace.usage['select'].calls) == ('a red boat', 3)
    with Server(
        chat(LOOK), chat('no'), chat('no'), chat(LAST)
    ) as server:  # no tool is named: the answer from what was found
        trace = REMem(GRAPH, OpenAILM('m', server.url, 'k')).ask('What did Ada buy?')
    assert (trace.answer, trace.error) == ('a red boat', None)
    with Server(chat(LOOK), chat(DONE), chat('{}'), chat('{}')) as server:  # the proposal is kept
        trace = REMem(GRAPH, OpenAILM('m', server.url, 'k')).ask('What did Ada buy?')
    assert trace.answer == 'a red boat' and trace.fallback.startswith('the draft (ReplyError') and 'D1:1' in trace.read
    with Server(chat(LOOK), fail(500)) as server:
        trace = REMem(GRAPH, OpenAILM('m', server.url, 'k', max_retries=0)).ask('What did Ada buy?')
    assert trace.answer is None and trace.error.startswith('ServerError') and 'D1:1' in trace.read


def test_a_recorded_run_is_replayed(tmp_path):
    def plain(trace):
        steps = [step.model_copy(update={'cached': False}) if step.kind == 'model' else step for step in trace.steps]
        return trace.model_copy(update={'steps': steps}).to_json()

    script = model_of(
        [('fit', LOOK['call']), ('unfit', {'function': 'lexical_retrieve', 'parameters': {}}), ('fit', DONE['call'])],
        LAST,
    )
    first = REMem(GRAPH, RecordedLM(script, tmp_path / 'record')).ask('What did Ada buy?')
    again = REMem(graph_of(), RecordedLM(ScriptedLM([]), tmp_path / 'record', 'replay')).ask('What did Ada buy?')
    assert first.answer == 'a red boat' and plain(again) == plain(first)
    assert all(step.cached or step.error for step in again.steps if step.kind == 'model')
