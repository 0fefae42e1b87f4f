"""What a traversal can reach: every content behind a branch, cues of the model's own, what was put aside, and what a time leads to."""

import re
from datetime import date, datetime

import pytest

from memnb.core.conversation import Session, Turn
from memnb.core.models import ScriptedLM
from memnb.core.roles import RuleLM
from memnb.evaluation.datasets import load_sample
from memnb.core.time import TimeSpan
from memnb.mragent.activation import Activation
from memnb.mragent.contents import Episode, SemanticUnit
from memnb.mragent.loop import MRAgent
from memnb.mragent.prompts import CUES, Recollection
from memnb.mragent.graph import CueTagGraph
from memnb.mragent.tools import CueTools

DONE = {'reasoning': '', 'mode': 'Answer', 'calls': []}
KEY = 'Ada lost the brass key of the harbour office.'


def episode(number, text, tag, cues, day=None, session='D1', **given):
    return Episode(
        f'{session}/e{number}',
        text,
        (f'{session}:{number}',),
        day and TimeSpan.day(day),
        session=session,
        position=number,
        title=text,
        tag=tag,
        cues=cues,
        said=datetime(2021, 4, 1),
        **given,
    )


def full():
    "Fifteen events behind one branch and in one topic, fifteen facts under one aspect; the thirteenth of each is about the key."
    graph = CueTagGraph(
        names=('Ada',),
        merge=None,
        topics={'of': [], 'topics': [['Ada: days', [f'D{1 + place % 2}/e{place}' for place in range(15)]]]},
    )
    for session in (1, 2):
        events, facts = [], []
        for place in range(15):
            if 1 + place % 2 == session:
                text = KEY if place == 12 else f'Ada swam in the lake for {place} minutes.'
                events.append(episode(place, text, 'day', ('Ada', 'lake'), date(2021, 1, 1 + place), f'D{session}'))
                facts.append(
                    SemanticUnit(
                        f'D{session}/u{place}',
                        text,
                        (f'D{session}:{place}',),
                        session=f'D{session}',
                        person='Ada',
                        aspect='habits',
                    )
                )
        graph.keep(f'D{session}', Recollection(tuple(events), tuple(facts)))
    graph._filed = {one.id for one in graph.episodes}
    return graph


CALLS = {
    'query_tag_events': {'cue': 'lake', 'tag': 'day'},
    'query_personal_aspect': {'person': 'Ada', 'aspect': 'habits'},
    'query_topic_events': {'topic': 'Ada: days'},
}


@pytest.mark.parametrize('name', CALLS)
def test_what_bears_on_the_question_comes_first_and_nothing_is_out_of_reach(name):
    graph = full()
    tool = {one.name: one for one in graph.tools('Who lost a key?')}[name]
    first, second = (tool(**CALLS[name], offset=offset) for offset in (0, 10))
    shown = [hit.snippet.id for hit in (*first.hits, *second.hits)]
    assert (
        first.hits[0].snippet.text == KEY
        and len(shown) == len(set(shown)) == 15
        and '; 5 more: offset=10' in first.note
    )
    assert all(f'({hit.snippet.id})' in first.line for hit in first.hits)
    other = tool(**CALLS[name], about='swimming for 3 minutes')  # a call may say what it is about
    assert other.hits[0].snippet.text == 'Ada swam in the lake for 3 minutes.'
    # without a question: in the order of time, what is newest of a person first
    plain = getattr(CueTools(graph), name)(**CALLS[name])
    assert KEY not in [hit.snippet.text for hit in plain.hits] or name == 'query_personal_aspect'


def test_a_search_finds_units_too_and_charges_their_turns():
    graph = CueTagGraph(names=('Ada',))
    graph.keep(
        'D1',
        Recollection(
            (episode(1, 'Ada swam.', 'swim', ('lake',)),),
            (SemanticUnit('D1/u1', 'Ada keeps bees.', ('D1:9',), session='D1', person='Ada', aspect='pets'),),
        ),
    )
    assert graph.search('Who keeps bees?', 1)[0].snippet.id == 'D1/u1'
    trace = MRAgent(graph, start=1).ask('Who keeps bees?', budget=1)
    assert trace.read == ['D1:9'] and trace.answer == 'Ada keeps bees.'
    assert 'D1:9' not in MRAgent(graph, structure='cte').ask('Who keeps bees?').read


def hives():
    "The memory of the examples in the prompts, and a garage."
    graph = CueTagGraph(names=('Ines', 'Rolf'))
    graph.keep(
        'X4',
        Recollection(
            (
                episode(2, 'Ines sold a hive.', 'sale', ('Ines', 'hive'), date(2020, 5, 2), 'X4'),
                episode(6, 'Rolf has painted the garage.', 'garage', ('Rolf', 'garage'), date(2021, 3, 20), 'X4'),
            )
        ),
    )
    graph.keep(
        'X7',
        Recollection(
            (
                episode(5, 'Ines sold another.', 'sale', ('Ines', 'hive'), date(2021, 3, 14), 'X7'),
                episode(
                    9,
                    'Rolf was in Lisbon from 12 to 16 March 2021.',
                    'journey',
                    ('Rolf', 'Lisbon'),
                    date(2021, 3, 14),
                    'X7',
                ),
            )
        ),
    )
    return graph


def move(*calls):
    return {
        'reasoning': '',
        'mode': 'Navigate',
        'calls': [{'function': name, 'parameters': given} for name, given in calls],
    }


def played(
    moves, routes, graph=None, cues=('hive',), question='Where was Rolf when Ines sold her second hive?', **options
):
    script = {
        'cues': [{'cues': list(cues)}],
        'navigate': [*moves, DONE],
        'recall': [{'answer': 'In Lisbon.', 'sources': ['X7/e9']}],
        'route': [{'reasoning': '', 'keep': keep, 'cues': []} for keep in routes],
    }
    model = ScriptedLM(script)
    trace = MRAgent(graph or hives(), model, **{'start': 0, **options}).ask(question)
    return trace, {name: [user for role, _, user in model.prompts if role == name] for name in script}


def awake(prompt):
    return prompt.split('# Awake')[1].split('\n\n')[0]


SOLD, TIME = ('query_tag_events', {'cue': 'hive', 'tag': 'sale'}), ('query_conversation_time', {'event': 'X7/e5'})


def test_the_example_in_the_prompt_is_what_happens():
    trace, prompts = played(
        [move(SOLD), move(TIME), move(('query_tag_events', {'cue': 'March 2021', 'tag': 'journey'}))],
        [['X7/e5', 'X4/e2'], [], ['X7/e9']],
    )
    first, second, third, last = prompts['navigate']
    assert 'hive → sale (2)' in awake(first) and '(X7/e5)' in second and 'March 2021' not in awake(second)
    assert 'X7/e5: happened 14 March 2021' in third and 'March 2021 → journey (1)' in awake(third)
    assert '(X7/e9)' in last and trace.evidence == ['X7:9']


def test_a_time_is_told_to_the_role_that_routes():
    _, prompts = played([move(SOLD), move(TIME)], [['X7/e5'], []])
    assert len(prompts['route']) == 2 and 'X7/e5: happened 14 March 2021' in prompts['route'][1]


def test_a_model_may_name_a_cue_of_its_own():
    trace, prompts = played(
        [move(('query_cue_tags', {'cue': 'Lisbon'})), move(('query_cue_tags', {'cue': 'garages'}))], [], breadth=1
    )
    assert 'journey' not in awake(prompts['navigate'][0])
    assert 'Lisbon leads to journey (1)' in prompts['navigate'][1] and 'Lisbon → journey (1)' in awake(
        prompts['navigate'][1]
    )
    assert 'garage → garage (1)' in awake(prompts['navigate'][2]) and trace.read == []


def test_what_was_put_aside_comes_back():
    trace, prompts = played([move(SOLD), move(SOLD)], [['X4/e2'], ['X7/e5']])
    assert '(X7/e5)' in prompts['route'][1] and '(X4/e2)' not in prompts['route'][1].split('# Found now')[1]
    assert [step.kept for step in trace.steps if step.kind == 'walk'] == [['X4/e2'], ['X7/e5'], []]


def test_the_first_look_is_by_cues_and_by_a_search_within_the_budget():
    trace, prompts = played([], [['X7/e5']], start=3, cues=('Lisbon',))
    look, first = (next(step for step in trace.steps if step.kind == kind) for kind in ('tool', 'walk'))
    assert look.hits[0].id == 'X7/e9' and len(look.hits) == 3 == len(trace.read) and '1 of them by cues' in look.note
    assert first.iteration == 0 and first.chosen == ['search'] and first.kept == ['X7/e5']
    known, steps = prompts['navigate'][0].split('# Known so far')[1].split('# Steps so far')
    assert '(X7/e5)' in known and 'search' not in steps  # it is no tool of the agent
    assert MRAgent(hives()).start == 15 and len(MRAgent(hives()).ask('Who?', budget=1).read) == 1


@pytest.mark.parametrize('cue, start, searched', [('hive', 0, False), ('zither', 0, True), ('hive', 1, True)])
def test_algorithm_1_enters_by_a_search_only_where_no_cue_is_stored(cue, start, searched):
    model = ScriptedLM(
        {'cues': [{'cues': [cue]}], 'navigate': [DONE] * 2, 'recall': [{'answer': 'no'}], 'route': [{'keep': []}]}
    )
    trace = MRAgent(hives(), model, start=start, breadth=9, turns=1).ask('Where was Rolf?')
    [offer] = [step for step in trace.steps if step.kind == 'offer']
    assert offer.searched == searched and offer.shown


def test_the_cues_are_chosen_with_the_labels_of_the_memory_in_sight():
    shown = {}
    for prompts in ('memnb', 'paper'):
        model = ScriptedLM({'cues': [{'cues': []}], 'navigate': [DONE] * 2, 'recall': [{'answer': 'no'}]})
        MRAgent(hives(), model, start=0, prompts=prompts).ask('Did Rolf journey with the hives?')
        shown[prompts] = next(user for role, _, user in model.prompts if role == 'cues')
    assert 'words of the question: hive\n' in shown['memnb'] and 'Labels' not in shown['paper']


def test_a_speakers_name_wakes_nothing_that_is_spelled_like_it():
    graph = CueTagGraph(names=('Halvard',))
    events = [episode(1, 'The man of Halvard mended it.', 'House Repair', ("Halvard's man", 'Halvard'))]
    graph.keep('D1', Recollection((*events, episode(2, 'A trip to Halifax.', 'Travel', ('Halifax',)))))
    active = Activation(graph, 'When did Halvard fall?')
    assert not active.activate('Halvard') and not active.sums and active.activate('Halifax')


@pytest.mark.parametrize('options, calls', [({}, 0), ({'stop_early': False}, 1), ({'prompts': 'paper'}, 1)])
def test_what_was_kept_may_end_the_search_and_is_handed_on_as_a_draft(options, calls):
    ends = {'reasoning': '', 'keep': ['X7/e9'], 'cues': [], 'answer': 'In Lisbon, from 12 to 16 March'}
    replies = {'cues': [{'cues': ['hive']}], 'navigate': [DONE] * 2, 'route': [ends] * 2, 'recall': [{'answer': '?'}]}
    model = ScriptedLM(replies)
    MRAgent(hives(), model, start=9, turns=2, **options).ask('Where was Rolf?')
    assert [role for role, *_ in model.prompts].count('navigate') == calls
    assert ('# Draft\n' + ends['answer'] in model.prompts[-1][2]) == ('prompts' not in options)


@pytest.mark.parametrize('said, answer', [([{'answer': 'Lisbon', 'sources': []}], 'Lisbon'), (['?', '?'], 'In Lisbon')])
def test_what_was_worked_out_while_navigating_is_handed_on_and_taken_where_no_answer_comes(said, answer):
    script = {'cues': [{'cues': ['hive']}], 'navigate': [move(SOLD), {**DONE, 'answer': 'In Lisbon'}], 'recall': said}
    model = ScriptedLM({**script, 'route': [{'reasoning': '', 'keep': ['X7/e5'], 'cues': [], 'answer': 'none'}]})
    assert MRAgent(hives(), model, start=0).ask('Where was Rolf?').answer == answer
    assert '# Draft\nIn Lisbon' in model.prompts[-1][2]


def test_a_fact_that_no_longer_holds_is_marked_wherever_it_is_shown():
    graph = hives()
    fact = {'session': 'X9', 'person': 'Rolf', 'aspect': 'family', 'slot': 'partner', 'said': datetime(2021, 4, 1)}
    engaged = SemanticUnit('X9/u1', 'Rolf is engaged to Ada.', ('X9:1',), TimeSpan.month(2020, 1), **fact)
    married = SemanticUnit('X9/u2', 'Rolf is married to Ada.', ('X9:2',), TimeSpan.month(2021, 1), **fact)
    graph.keep('X9', Recollection((), (engaged, married)))
    old, new = f'{engaged.line} [no longer]', married.line
    assert [hit.snippet.line for hit in graph.search('Is Rolf engaged or married to Ada?', 2)] in (
        [old, new],
        [new, old],
    )
    trace, prompts = played(
        [move(('query_personal_aspect', {'person': 'Rolf', 'aspect': 'family'}))], [['X9/u1', 'X9/u2']], graph
    )
    for text in (*prompts['route'], prompts['navigate'][1], *prompts['recall']):
        assert {f'- (X9/u1) {old}', f'- (X9/u2) {new}'} <= {re.sub(r'Thu ', '', line) for line in text.split('\n')}
    assert (
        graph.units['X9/u1'] == engaged and Recollection.from_json(graph.extract_of('X9').to_json()).units[0].mark == ''
    )


def test_the_titles_of_topics_are_shown():
    _, prompts = played([], [], full(), question='What did Ada do?')
    assert '# Topics: title (events of it)\n- Ada: days (15)' in prompts['navigate'][0]


def test_a_time_is_reckoned_from_the_day_of_asking():
    asked = TimeSpan.day(date(2021, 3, 22))
    assert 'asked on Mon 22 March 2021' in CUES.render({'question': 'What did Rolf do last week?', 'asked': asked})[1]
    trace = MRAgent(hives(), start=0).ask('What did Rolf do last week?', asked=asked)
    first = next(step for step in trace.steps if step.kind == 'note')
    assert 'X4:6' in trace.read and first.text.startswith('Awake: ') and 'March 2021' in first.text


class Overheard(RuleLM):
    "The rules, and the prompts of each role."

    def __init__(self):
        super().__init__(render=True)
        self.prompts = {}

    def call(self, role, /, **inputs):
        call = super().call(role, **inputs)
        self.prompts.setdefault(role.name, []).append(call.user)
        return call


def test_a_session_is_labelled_with_the_labels_in_use():
    lm = Overheard()
    graph = CueTagGraph(lm, names=('Ines', 'Rolf'))
    graph.keep(
        'X1',
        Recollection(
            (episode(1, 'Ines sold a hive.', 'Bee Keeping', ('hive',), session='X1'),),
            (
                SemanticUnit(
                    'X1/u1',
                    'Ines lives in Brae.',
                    ('X1:1',),
                    session='X1',
                    person='Ines',
                    aspect='home',
                    slot='residence',
                ),
            ),
        ),
    )
    graph.add(Session('D2', (Turn('D2:1', 'Ines', 'I moved to Leeds yesterday with my bees.'),), datetime(2021, 4, 1)))
    assert 'Tags in use: Bee Keeping' in lm.prompts['tag'][0]
    assert 'Ines, residence: Ines lives in Brae.' in lm.prompts['units'][0]


def test_a_session_is_told_whom_it_names_and_what_was_to_come():
    lm = Overheard()
    graph = CueTagGraph(lm, names=('Ines', 'Rolf'))
    told = {'session': 'X1', 'person': 'Ulf Berg', 'sources': ('X1:1',), 'said': datetime(2021, 3, 1)}
    facts = [
        SemanticUnit('X1/u1', 'Ulf Berg keeps the lock.', aspect='job', slot='job', **told),
        SemanticUnit('X1/u2', 'Ulf Berg is a smith.', aspect='job', slot='job', time=TimeSpan.month(2020, 1), **told),
        SemanticUnit('X1/u3', 'Odda sells fish.', aspect='job', **{**told, 'person': 'Odda'}),
    ]
    days = {'The race is to be run.': date(2021, 4, 11), 'Ines ran a race.': date(2021, 2, 1)}
    events = [episode(place, text, 'Race', ('race',), day, 'X1') for place, (text, day) in enumerate(days.items())]
    graph.keep('X1', Recollection(tuple(events), tuple(facts)))
    text = 'Ulf says that the Tuesday after the race is free.'
    graph.add(Session('D2', (Turn('D2:1', 'Ines', text),), datetime(2021, 4, 12)))
    known = '\n\nKnown from earlier sessions:\n- Ulf Berg, job: Ulf Berg keeps the lock.\n- 11 April 2021: The race is to be run.'
    assert all(lm.prompts[role][0].endswith(known) for role in ('segment', 'units'))
    assert 'topics' not in lm.prompts  # a session is filed where the user asks for it


def test_the_running_example_of_the_paper():
    "The walkthrough: what did Caroline do when Nate won his second video game tournament?"
    graph = CueTagGraph(names=('Nate', 'Caroline'))
    graph.keep(
        'D1',
        Recollection(
            (
                episode(
                    1,
                    'Nate won his first video game tournament.',
                    'Tournament Victory',
                    ('Nate', 'video game tournament'),
                    date(2022, 5, 6),
                ),
                episode(
                    2,
                    'Nate won his second video game tournament.',
                    'Tournament Victory',
                    ('Nate', 'video game tournament'),
                    date(2022, 7, 9),
                ),
                episode(3, 'Caroline was traveling.', 'Travel-Location', ('Caroline',), date(2022, 7, 10)),
            )
        ),
    )
    trace, prompts = played(
        [
            move(('query_cue_tags', {'cue': 'video game tournament'})),
            move(('query_tag_events', {'cue': 'video game tournament', 'tag': 'Tournament Victory'})),
            move(('query_conversation_time', {'event': 'D1/e2'})),
            move(('query_tag_events', {'cue': 'Caroline', 'tag': 'Travel-Location'})),
        ],
        [['D1/e2'], [], ['D1/e3']],
        graph,
        ('Caroline', 'video game tournament', 'second'),
        'What did Caroline do when Nate won his second video game tournament?',
        breadth=1,
    )
    assert 'Tournament Victory (2)' in prompts['navigate'][1] and 'happened 9 July 2022' in prompts['navigate'][3]
    assert 'July 2022 → Travel-Location (1)' in awake(prompts['navigate'][3]) and sorted(trace.read) == [
        'D1:1',
        'D1:2',
        'D1:3',
    ]


def test_a_session_may_be_forgotten_while_a_question_is_asked():
    sample = load_sample()
    graph = CueTagGraph.of(sample.sessions[0])
    graph.add(sample.sessions[1])

    def forget(step):
        if step.kind == 'tool' and 'D1' in graph.sessions:
            graph.forget('D1')

    trace = MRAgent(graph).ask('What did Tobin say of his concertina lesson?', on_step=forget)
    assert not trace.error and 'D1' not in graph.sessions
