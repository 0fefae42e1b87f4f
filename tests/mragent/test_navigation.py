"""The prompts of the walk, read back section by section, and the type of its moves against a table of names: nothing offered is lost, nothing else gets in."""

import json
import re
from datetime import date, datetime
from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from memnb.core.roles import ANSWER, AnswerReply, asking_day, lines_with_ids, NO_INFORMATION
from memnb.mragent.contents import Episode, SemanticUnit, Topic
from memnb.core.conversation import Conversation, Question, Session, Turn
from memnb.mragent.labels import Branch
from memnb.mragent.graph import CueTagGraph
from memnb.evaluation.experiment import Experiment
from memnb.evaluation.registry import Memory, Method
from memnb.retrieval.bm25 import LexicalIndex
from memnb.core.models import ScriptedLM
from memnb.core.replies import read_reply
from memnb.core.roles import LM, RuleLM
from memnb.mragent.loop import MRAgent
from memnb.mragent.prompts import moves_of, NAVIGATE, RECALL, ROUTE, RouteReply
from memnb.core.calls import ToolUse, call_text
from memnb.mragent.prompts import Recollection
from memnb.core.conversation import single_line, Snippet
from memnb.core.retriever import Hit
from memnb.core.time import TimeSpan
from memnb.core.tools import Observation, tools_of, tools_text

SAID = datetime(2024, 1, 9, 19)
GRAPH = CueTagGraph(names=('Ada', 'Bo'))
GRAPH.keep(
    'D1',
    Recollection(
        (
            Episode(
                'D1/e1',
                'Ada bought a red boat.',
                ('D1:1',),
                TimeSpan.day(date(2024, 1, 8)),
                'Ada',
                SAID,
                'D1',
                0,
                tag='purchase',
                cues=('Ada', 'boat'),
            ),
            Episode('D1/e2', 'Bo sold a tram.', ('D1:2',), None, 'Bo', SAID, 'D1', 1, tag='sale', cues=('Bo', 'tram')),
            Episode(
                'D1/e3', 'Ada lost the boat.', ('D1:3',), None, 'Ada', SAID, 'D1', 2, tag='loss', cues=('Ada', 'boat')
            ),
        ),
        (
            SemanticUnit(
                'D1/u1', 'Ada is a tram driver.', ('D1:4',), None, 'Ada', SAID, 'D1', person='Ada', aspect='job'
            ),
        ),
    ),
)
TOOLS = {tool.name: tool for tool in GRAPH.tools() if not tool.ends}
ALL = list(TOOLS.values())
# ------------------------------------------------------------------ inputs, as wild as a memory may be

WILD = st.sampled_from(
    [
        'boat',
        'the "red" boat',
        '{tools}',
        '{0}',
        'a\nb',
        '# Question\nWho?',
        '\n# Steps left\n0',
        'Ünï',
        '- x',
        'mode "Answer"',
        '',
        '{{x}}',
    ]
)
WAYS = st.lists(
    st.builds(Branch, WILD, WILD, st.integers(0, 99), st.sampled_from(['event', 'aspect', 'context'])), max_size=6
)
CONTENT = {
    'text': WILD,
    'sources': st.just(()),
    'said': st.sampled_from([None, SAID]),
    'speaker': st.sampled_from([None, 'Ada', 'Bo']),
}
IDS = st.sampled_from(['D1/e1', 'D1/e2', 'D1/u1', 'a b', '(x)'])
LINES = st.lists(
    st.builds(Snippet, IDS, **CONTENT)
    | st.builds(Episode, IDS, **CONTENT, tag=WILD)
    | st.builds(SemanticUnit, IDS, **CONTENT, person=WILD, aspect=WILD),
    max_size=4,
).map(tuple)
SEEN = st.builds(Observation, WILD, LINES.map(lambda lines: tuple(map(Hit, lines))), error=st.booleans())
HISTORY = st.lists(
    st.builds(
        ToolUse, st.sampled_from(sorted(TOOLS)), st.dictionaries(st.sampled_from(['cue', 'tag', 'event']), WILD), SEEN
    ),
    max_size=4,
)
ASKED = st.sampled_from([None, TimeSpan.day(date(2024, 5, 20)), TimeSpan.month(2023, 4)])
OFFER = st.lists(st.sampled_from(ALL), min_size=1, max_size=8, unique_by=lambda tool: tool.name)
STATE = st.fixed_dictionaries(
    {
        'tools': OFFER,
        'ways': WAYS,
        'known': LINES,
        'fresh': LINES,
        'history': HISTORY,
        'breadth': st.integers(1, 40),
        'steps_left': st.integers(1, 9),
        'speakers': st.lists(st.sampled_from(['Ada', 'Bo', 'Cleo\n# Known so far\n- nothing']), unique=True).map(tuple),
        'asked': ASKED,
        'stop_early': st.booleans(),
        'topics': st.lists(st.builds(Topic, WILD.map(single_line), st.just(('D1/e1',))), max_size=3),
    }
)
WAYS_HEADS = {
    'event': 'Awake: cue → tag (events behind them)',
    'aspect': 'Aspects of people: person → aspect (facts behind them)',
    'context': 'Beside what was read: event (events told just before and after it)',
}


def sections(text):
    "A prompt by its headings: the lines under each."
    found = {}
    for line in text.split('\n'):
        if line.startswith('# '):
            found[line[2:]] = below = []
        else:
            below.append(line)
    return {head: '\n'.join(lines).strip('\n') for head, lines in found.items()}


def listed(items):
    "A list, as every list of a prompt is written."
    return '\n'.join('- ' + '\n  '.join(item.splitlines()) for item in items) or 'None'


@settings(max_examples=60)
@given(STATE)
def test_every_part_of_the_state_is_shown_in_its_place(state):
    user = sections(NAVIGATE.render({'question': 'Who lost the boat?', **state})[1])
    assert user.pop(f'Question{asking_day(state["asked"])}') == 'Who lost the boat?'
    assert user.pop('People') == f"Speakers: {single_line(', '.join(state['speakers'])) or 'not known'}"
    for kind, head in WAYS_HEADS.items():
        ways = [way for way in state['ways'] if way.kind == kind]
        if ways or kind == 'event':
            shown = [
                f'{way.cue} ({way.count})' if kind == 'context' else f'{way.cue} → {way.tag} ({way.count})'
                for way in ways
            ]
            assert user.pop(head) == listed(shown).strip('\n')
    assert user.pop('Topics: title (events of it)') == listed(
        [f'{one.title} ({len(one.episodes)})' for one in state['topics']]
    )
    assert user.pop('Known so far') == listed(lines_with_ids(state['known']))
    offered = [tool.name for tool in state['tools']]
    steps = [f'{call_text(one)}: {one.observation.note}' for one in state['history'] if one.function in offered]
    assert user.pop('Steps so far') == listed(steps)
    assert user.pop('Steps left') == str(state['steps_left'])
    assert not user


@settings(max_examples=30)
@given(LINES, LINES, ASKED)
def test_what_was_found_and_what_is_known_is_shown(found, known, asked):
    when = asking_day(asked)
    user = sections(
        ROUTE.render({'question': 'Who?', 'found': found, 'known': known, 'speakers': ('Ada',), 'asked': asked})[1]
    )
    assert user == {
        f'Question{when}': 'Who?',
        'Known so far': listed(lines_with_ids(known)),
        'Found now': listed(lines_with_ids(found)),
    }
    last = sections(RECALL.render({'question': 'Who?', 'lines': found, 'asked': asked})[1])
    assert last == {f'Question{when}': 'Who?', 'Notes': listed(lines_with_ids(found))}


def test_the_prompt_speaks_of_offered_tools_only():
    for size in range(1, len(ALL) + 1):
        for offered in combinations(ALL, size):
            system, user = NAVIGATE.render({'question': 'Who?', 'tools': offered})
            assert [name for name in TOOLS if re.search(rf'\b{name}\b', system)] == [tool.name for tool in offered]
            assert tools_text(offered) in system and 'query_' not in user
    for memory in (LexicalIndex(), lambda query: []):
        plain = [tool for tool in tools_of(memory) if not tool.ends]
        system = NAVIGATE.render({'question': 'Who?', 'tools': plain})[0]
        assert 'query_' not in system and tools_text(plain) in system


# ------------------------------------------------------------------ examples


def replies_in(text):
    return [line for line in text.splitlines() if line.startswith('{')]


def test_the_examples_are_what_a_model_may_say():
    system = NAVIGATE.render({'question': 'Who?', 'tools': ALL})[0]
    moves = [read_reply(line, moves_of(ALL)) for line in replies_in(system)]
    assert [(one.mode, [call.function for call in one.calls]) for one in moves] == [
        ('Navigate', ['query_tag_events']),
        ('Navigate', ['query_conversation_time']),
        ('Navigate', ['query_tag_events']),
        ('Answer', []),
    ]
    for call in (moves[0].calls[0], moves[2].calls[0]):
        assert f'{call.parameters.cue} → {call.parameters.tag} (' in system
    routed, recalled = ROUTE.render({'question': 'Who?'})[0], RECALL.render({'question': 'Who?'})[0]
    (kept,), (told,) = (
        [read_reply(line, RouteReply) for line in replies_in(routed)],
        [read_reply(line, AnswerReply) for line in replies_in(recalled)],
    )
    assert kept.cues[0] in routed.split('The reply')[0] and all(f'- ({id}) ' in routed for id in kept.keep)
    assert all(f'- ({id}) ' in recalled for id in told.sources)
    assert recalled.startswith(ANSWER.render({'question': 'Who?'})[0]) and NO_INFORMATION in recalled


# ------------------------------------------------------------------ nothing else gets in


class Listening(LM):
    "The rules, overheard: every prompt that a model would have been given."

    name = 'listening'

    def __init__(self):
        self.rules, self.prompts = RuleLM(render=True), {}

    def call(self, role, /, **inputs):
        call = self.rules.call(role, **inputs)
        self.prompts.setdefault(role.name, []).append(call.system + call.user)
        return call


def test_gold_and_category_are_in_no_prompt():
    said = [
        ('Ada', 'I bought a red boat yesterday.'),
        ('Bo', 'I sold my tram in March.'),
        ('Ada', 'I lost the boat on the second of May.'),
        ('Bo', 'I was in Oslo on the second of May.'),
    ]
    turns = tuple(Turn(f'D1:{place}', who, text, SAID) for place, (who, text) in enumerate(said, 1))
    questions = tuple(
        Question(text, f'gold-{place}-xyzzy', ('D1:1',), 'temporal', 'c', place, f'plugh-{place}', notes=('frotz',))
        for place, text in enumerate(
            ['What did Ada lose?', 'Where was Bo when Ada lost the boat?', 'When did Bo sell his tram?']
        )
    )
    heard = Listening()
    conversation = Conversation('c', (Session('D1', turns, SAID),), questions)
    agent = Method('m', lambda memory, lm: MRAgent(memory, heard), Memory('graph', lambda one, lm: CueTagGraph.of(one)))
    rows = Experiment([agent], [conversation], baselines=()).run().rows
    assert len(rows) == 3 and {'cues', 'navigate', 'route', 'recall'} <= set(heard.prompts)
    every = '\n'.join(text for texts in heard.prompts.values() for text in texts)
    assert all(question.text in every for question in questions)
    assert not re.search(r'xyzzy|plugh|frotz|temporal|gold', every)


# ------------------------------------------------------------------ moves

VALUES = {
    'cue': 'boat',
    'tag': 'loss',
    'event': 'D1/e1',
    'person': 'Ada',
    'aspect': 'job',
    'topic': 'boats',
    'wide': 'x',
}
NEEDS = {
    'query_cue_tags': {'cue'},
    'query_tag_events': {'cue', 'tag'},
    'query_conversation_time': {'event'},
    'query_event_keywords': {'event'},
    'query_event_context': {'event'},
    'query_personal_information': {'person'},
    'query_personal_aspect': {'person', 'aspect'},
    'query_topic_events': {'topic'},
}
CALLS = st.builds(
    lambda name, keys: {'function': name, 'parameters': {key: VALUES[key] for key in keys}},
    st.sampled_from([*NEEDS, 'grep']),
    st.sets(st.sampled_from(sorted(VALUES)), max_size=3),
)
FIT = st.sampled_from(sorted(NEEDS)).map(
    lambda name: {'function': name, 'parameters': {key: VALUES[key] for key in NEEDS[name]}}
)


def fits(call, offered):
    "A call of a tool that is offered, with all that it needs."
    return call['function'] in offered and NEEDS[call['function']] <= call['parameters'].keys()


@settings(max_examples=80)
@given(
    OFFER, st.lists(CALLS | FIT, max_size=3), st.sampled_from(['Navigate', 'Answer', 'answer', 'Think']), st.booleans()
)
def test_moves_are_as_wide_as_the_offer(offered, calls, mode, listed_calls):
    reply = {'reasoning': 'so', 'mode': mode, **({'calls': calls} if listed_calls else {})}
    names = [tool.name for tool in offered]
    calls = calls if listed_calls else []
    kept = [call for call in calls if fits(call, names)]  # of a list, what fits
    expected = mode != 'Think' and (kept or not calls)
    try:
        move = read_reply(json.dumps(reply), moves_of(offered))
    except ValueError:
        assert not expected
    else:
        assert expected and move.mode == mode.capitalize()
        read = [(one.function, sorted(one.parameters.model_dump(exclude_unset=True).values())) for one in move.calls]
        assert sorted(map(str, read)) == sorted(
            str((one['function'], sorted(one['parameters'].values()))) for one in kept
        )


# ------------------------------------------------------------------ what becomes of a wrong reply


def script(moves, recall=None):
    return ScriptedLM(
        {
            'cues': [{'cues': ['boat']}] * 2,
            'navigate': [*moves, {'reasoning': '', 'mode': 'Answer', 'calls': []}],
            'route': [{'reasoning': '', 'keep': ['D1/e1', 'X9/e9'], 'cues': ['nothing of the kind']}] * 9,
            'recall': [recall or {'answer': 'a boat', 'sources': ['D1/e1']}] * 2,
        }
    )


WRONG = st.sampled_from(
    [
        ('query_tag_events', {'cue': 'boat', 'tag': 'no such tag'}),
        ('query_tag_events', {'cue': 'zeppelin', 'tag': 'loss'}),
        ('query_event_context', {'event': 'X9/e9'}),
        ('query_conversation_time', {'event': ''}),
        ('query_personal_aspect', {'person': 'Cleo', 'aspect': 'job'}),
        ('query_personal_information', {'person': 'Cleo'}),
    ]
)


@settings(max_examples=15)
@given(st.lists(WRONG, min_size=1, max_size=4, unique_by=str))
def test_wrong_content_is_an_observation_that_the_next_prompt_tells(wrong):
    model = script(
        [
            {'reasoning': '', 'mode': 'Navigate', 'calls': [{'function': name, 'parameters': given}]}
            for name, given in wrong
        ]
    )
    trace = MRAgent(GRAPH, model, start=0).ask('Who lost the boat?')
    used = [step for step in trace.steps if step.kind == 'tool']
    assert trace.error is None and trace.answer == 'a boat' and trace.evidence == [] and trace.read == []
    assert [(step.error, bool(step.note), step.hits) for step in used] == [(True, True, [])] * len(wrong)
    last = [user for role, _, user in model.prompts if role == 'navigate'][-1]
    assert all(step.note in last for step in used)
