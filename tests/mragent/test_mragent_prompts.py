"""What the prompts of MRAgent ask of a model, by duty; their worked examples, executed; and the styles, settings and roles of loop and graph."""

import json
import re
from dataclasses import replace
from datetime import date, datetime

import pytest
from prompt_mutants import missing, survivors, texts_of

from memnb import load_sample
from memnb.core.conversation import session_fields, Session, Turn
from memnb.core.models import FunctionLM, ScriptedLM
from memnb.core.replies import read_reply
from memnb.core.roles import ANSWER, AnswerReply, as_text, lines_with_ids, NO_INFORMATION
from memnb.core.text import content_words, event_time, times_of, with_dates
from memnb.core.time import TimeSpan
from memnb.mragent import prompts
from memnb.mragent.contents import Episode
from memnb.mragent.cues import cue_id
from memnb.mragent.labels import cues_in
from memnb.mragent.loop import MRAgent
from memnb.mragent.prompts import (
    ASPECTS, CUES, CuesReply, EpisodesReply, moves_of, NAVIGATE, PAPER_CUES, PAPER_NAVIGATE, PAPER_RECALL, PAPER_ROUTE, RECALL, recollect, Recollection, ROUTE, RouteReply, SEGMENT, TAG, TagsReply, TOPICS, TopicsReply, UNITS, UnitsReply
)  # fmt: skip
from memnb.mragent.graph import CueTagGraph
from memnb.evaluation.registry import METHODS

# ------------------------------------------------------------------ the memory that the examples tell of

SAID = datetime(2024, 1, 20, 15, 57)
BEES = Session('D2', (
    Turn('D2:1', 'Ines', 'We moved the bees last Thursday, Rolf and I.', caption='a photo of two hives on a trailer'),
    Turn('D2:2', 'Rolf', 'My thumb is still swollen! Have they settled?'),
    Turn('D2:3', 'Ines', 'They have. Oh, and I start at the library next Monday.'),
    Turn('D2:4', 'Rolf', 'Wow, wonderful!')), SAID)  # fmt: skip
BRAE = Session('D2', (
    Turn('D2:1', 'Ines', 'I moved to Brae last Thursday, with both hives. What a day!'),
    Turn('D2:2', 'Rolf', 'My brother Ulf keeps bees too. Are you tired?')), SAID)  # fmt: skip
QUESTION = 'Where was Rolf when Ines sold her second hive?'


def plain(text):
    "A template as `str.format` gives it."
    return text.replace('{{', '{').replace('}}', '}')


def reply_in(text, type):
    "The reply of an example, which must be one without any repair."
    line = next(line for line in text.splitlines() if line.startswith('{'))
    line = plain(line) if line.startswith('{{') else line
    json.loads(line)
    return read_reply(line, type)


def has(text, *parts):
    for part in parts:
        assert part in plain(text), part


def is_dated(text, said):
    "Whether behind each relative time of a text stands its date, as core.time reckons it."
    return with_dates(re.sub(r' \([^()]*\d{4}\)', '', text), said.date()) == text


def common(text, turn):
    return len(content_words(text) & content_words(turn.line))


def extracted(**replies):
    "The recollection of a session from the replies of examples; a role without one finds nothing."
    session = replies.pop('session', BEES)
    empty = {'segment': {'episodes': []}, 'tag': {'tags': []}, 'units': {'units': []}}
    script = {name: [replies[name].model_dump() if name in replies else value] for name, value in empty.items()}
    found, _ = recollect(session, ScriptedLM(script))
    assert not found.notes
    return found


def episodes(text=TAG.system):
    return extracted(segment=reply_in(SEGMENT.system, EpisodesReply), tag=reply_in(text, TagsReply)).episodes


def check_segment(text):
    has(text, SEGMENT.user.format(**session_fields(BEES), known=''))
    reply = reply_in(text, EpisodesReply)
    found = extracted(segment=reply, tag=reply_in(TAG.system, TagsReply)).episodes
    for one, line in zip(found, reply.episodes, strict=True):
        assert is_dated(one.text, SAID)
        assert 4 <= len(one.title.split()) <= 8 and content_words(one.title)
    assert [one.sources for one in found] == [('D2:1', 'D2:2', 'D2:3'), ('D2:3',)]  # a question belongs to its answer
    said, (thursday, monday) = TimeSpan.day(SAID), [one.time for one in found]
    assert set(times_of(found[0])) == {thursday, said} and set(times_of(found[1])) == {monday}
    told = content_words(' '.join(one.text for one in found))
    assert content_words(' '.join(turn.text for turn in BEES.turns[:3])) - {'oh'} <= told  # nothing is left out
    assert content_words(BEES.turns[0].caption) <= told


def check_tag(text):
    found = episodes(text)
    has(text, 'The episodes:\n' + as_text(TAG.fields(found, BEES)['episodes']) + '\nThe reply:')
    for one, line in zip(found, reply_in(text, TagsReply).tags, strict=True):
        assert line.episode == one.id and 1 <= len(line.tag.split()) <= 2
        assert f'"{line.tag}"' in text.split('Example')[0]
        assert 5 <= len(line.cues) <= 12 and max(len(cue.split()) for cue in line.cues) <= 4
        assert content_words(one.text) & content_words(line.tag + ' '.join(line.cues))


def check_units(text):
    fields = session_fields(BRAE)
    has(
        text,
        f'The session:\nDate: {fields["day"]}\n{fields["session"]}\nThe reply:',
        f'such as: {", ".join(ASPECTS)}.',
    )
    reply = reply_in(text, UnitsReply)
    found = extracted(units=reply, session=BRAE).units
    thursday = times_of(Episode('x', BRAE.turns[0].text, said=SAID))[0]
    assert [one.time for one in found] == [thursday, None, None]
    for one, line in zip(found, reply.units, strict=True):
        assert line.turns == [max(BRAE.turns, key=lambda turn: common(one.text, turn)).id]
        assert (
            one.person in one.text
            and one.aspect in ASPECTS
            and (not one.slot or f'"{one.slot}"' in text.split('Example')[0])
        )


FAIR = [Episode(f'D5/e{number}', text, title=title, session='D5', position=number, tag='day', cues=('day',), sources=(f'D5:{number}',))
        for number, (title, text) in enumerate((
            ('Ines loses a swarm', 'Her second hive swarmed, and nobody saw where to.'),
            ('Rolf misses his train to Leeds', 'He went on the next day.'),
            ('Rolf and Ines sell honey at the fair', 'Forty jars went by noon.')), 1)]  # fmt: skip
THEMES = ('Ines: bees and honey', 'Rolf: the garage')


def check_topics(text):
    fields = TOPICS.fields(FAIR, THEMES)
    has(text, f'Themes so far: {fields["titles"]}\nThe episodes:\n{as_text(fields["episodes"])}\nThe reply:')
    reply = reply_in(text, TopicsReply)
    graph = CueTagGraph(
        ScriptedLM({'topics': [reply.model_dump()]}), topics={'of': [], 'topics': [[title, []] for title in THEMES]}
    )
    graph.keep('D5', Recollection(tuple(FAIR)))
    graph.file_topics()
    assert not graph.topic_notes and reply.topics[0].title in THEMES and reply.topics[1].title not in THEMES
    assert {id for line in reply.topics for id in line.episodes} == {one.id for one in FAIR}
    for line in reply.topics:  # the person first
        assert all(line.title.partition(':')[0] in graph.episodes[id].title for id in line.episodes)


def check_cues(text):
    question = re.search(r'Question: (.+)', text.split('Example')[1])[1]
    cues = reply_in(text.replace('The reply: ', '\n'), CuesReply).cues
    assert (
        set(map(cue_id, cues_in(question, ('Ines',)))) <= set(map(cue_id, cues))
        and 4 <= len(set(cues)) == len(cues) <= 8
    )


# ------------------------------------------------------------------ the walk of the examples

TOLD = {'X4': datetime(2020, 5, 9, 18, 10), 'X7': datetime(2021, 3, 20, 20, 5)}  # when the two sessions were


def event(id, text, tag, cues, day, until=None):
    session, _, number = id.partition('/e')
    time = TimeSpan.day(day) if until is None else TimeSpan(day, until)
    return Episode(
        id,
        text,
        (f'{session}:{number}',),
        time,
        session=session,
        position=int(number),
        title=text,
        tag=tag,
        cues=cues,
        said=TOLD[session],
    )


def hives():
    graph = CueTagGraph(names=('Ines', 'Rolf'), merge=None)
    keeping = [
        event(
            f'X4/e{number}',
            f'Ines saw to the bees for the {number}th time.',
            'bee keeping',
            ('Ines', 'hive'),
            date(2020, 6, number),
        )
        for number in (6, 7, 8)
    ]
    graph.keep(
        'X4', Recollection((event('X4/e2', 'Ines sold a hive.', 'sale', ('Ines', 'hive'), date(2020, 5, 2)), *keeping))
    )
    graph.keep('X7', Recollection((
        event('X7/e5', 'Ines sold another.', 'sale', ('Ines', 'hive'), date(2021, 3, 14)),
        event('X7/e7', 'Rolf has painted the garage.', 'garage', ('Rolf', 'paint'), date(2021, 3, 20)),
        event('X7/e9', 'Rolf was in Lisbon from 12 to 16 March 2021.', 'journey', ('Rolf', 'Lisbon'), date(2021, 3, 12), date(2021, 3, 16)),
        event('X7/e11', 'Ines was in Leeds.', 'journey', ('Ines', 'Leeds'), date(2021, 3, 27)))))  # fmt: skip
    return graph


def check_walk(text):
    "What the example says is awake, known and told is what the graph gives to a model with the example's replies."
    steps = re.split(r'Step \d\. ', text.partition('An example. ')[2])
    numbers = re.findall(r'Step (\d)\. ', text)
    assert numbers == [str(place) for place in range(1, len(steps))] and steps[0].strip() == f'Question: {QUESTION}'
    graph = hives()
    tools = [tool for tool in graph.tools() if not tool.ends]
    replies = [reply_in(step, moves_of(tools)) for step in steps[1:]]
    assert [(one.mode, bool(one.reasoning), len(one.calls)) for one in replies] == [('Navigate', True, 1)] * 3 + [
        ('Answer', True, 0)
    ]
    assert all(one.model_fields_set == {'reasoning', 'mode', 'answer', 'calls'} for one in replies)
    assert [bool(one.answer) for one in replies] == [False] * 3 + [True]
    assert replies[3].answer.partition(', where he was ')[2] in steps[4].partition(' The reply:')[0]
    routes = [{'keep': ['X4/e2', 'X7/e5']}, {'keep': []}, {'keep': ['X7/e9']}]
    model = ScriptedLM({'cues': [{'cues': ['hive']}], 'navigate': [one.model_dump(exclude_unset=True) for one in replies], 'route': routes,
                        'recall': [{'answer': 'In Lisbon', 'sources': ['X7/e9']}]})  # fmt: skip
    trace = MRAgent(graph, model, start=0, breadth=1).ask(QUESTION)
    assert trace.answer == 'In Lisbon' and not any(step.error for step in trace.steps if step.kind == 'tool')
    shown = [user for role, _, user in model.prompts if role == 'navigate']
    for told, user in zip(steps[1:], shown, strict=True):
        told = told.partition(' The reply:')[0]
        ways = re.findall(r'[\w ]+ → [\w ]+ \(\d+\)', told.partition('Awake: ')[2])
        assert {f'- {way.strip()}' for way in ways} <= set(user.split('# Awake')[1].split('\n'))
        lines = re.split(r' (?=\()', re.sub(r'Known( now)?: ', '', told)) if 'Known' in told else []
        assert {f'- {line}' for line in lines} <= set(user.split('# Known so far')[1].split('\n'))
        said = told.partition('It said: ')[2].partition('. Awake')[0]
        assert f': {said}\n' in user.split('# Steps so far')[1] or not said
        assert (ways or lines) and bool(said) == (user is shown[2])


def lines_in(text):
    "The contents of an example as episodes, their times reckoned from their texts; each is shown as the graph would show it."
    found = []
    for id, text_of in re.findall(r'^- \((\S+)\) \[.+?\] (.+)$', text, re.M):
        said = TOLD[id.partition('/')[0]]
        one = Episode(id, text_of, (id,), said=said, speaker=text_of.split()[0])
        one = replace(one, time=event_time(one))
        assert f'- {lines_with_ids([one])[0]}\n' in text and is_dated(one.text, said)
        found.append(one)
    return found


def check_route(text):
    has(text, f'Question: {QUESTION} Found now:')
    found, reply = lines_in(text), reply_in(text, PROMPT_REPLIES[', "answer": ""' in text])
    assert set(reply.model_dump()) == reply.model_fields_set
    first, second = [one for one in found if ' sold ' in one.text]
    assert first.time.start < second.time.start and len(found) == 3 and reply.keep == [second.id, first.id]
    assert reply.cues == [str(TimeSpan.day(second.time.start)), 'Rolf']
    assert reply.reasoning == f'{second.id} is the second sale, {first.id} the first.'


PROMPT_REPLIES = {True: ROUTE.reply, False: PAPER_ROUTE.reply}  # by whether the example has an answer


def check_recall(text):
    has(text, f'Question: {QUESTION} Notes:')
    lines, reply = lines_in(text), reply_in(text, AnswerReply)
    assert lines[1].text in prompts._ENOUGH_EXAMPLE
    assert reply.sources == [lines[1].id, lines[0].id] and reply.answer.removeprefix('In ') in lines[1].text


# ------------------------------------------------------------------ duties

ADVICE = [line for _, line in prompts._ADVICE]
DUTIES = {
    'segment': (
        SEGMENT, [prompts._KNOWN], [check_segment],
        [
            # eq. 8: rewrite, resolve references and times, cut
            'You turn a conversation into memories of events. Cut the session into episodes: short stretches about one thing that happened, is planned, or was said of the world. Reply with one JSON object:',
            'a list, in the order of the session; as a rule one for every one to three turns. Each has',
            'four to eight words that say what it is about.',
            'the event, retold in one to three {english}sentences{in_language}, some sixty words, that make sense on their own.',
            'Put names for "I", "you", "she", "it", "there".',
            'Behind every expression of time that is no full date, no clock time and no habit ("on Sundays") put, in round brackets, the date or range of dates that it means, where it follows from the date of the session.',
            'Keep every name, number, place, object, reason and feeling; say what a shared picture shows.',
            'Invent nothing, and leave out nothing that somebody might ask for.',
            'the ids, given in brackets, of the turns that it rests on. A question belongs to its answer. A turn that speaks of two things may stand in two episodes.',
            'Leave out turns that only greet, thank, congratulate, admire or joke. Do not begin a text with the date of the session; it is added later.',
            'A session without content has the empty list.',
            'What is known from earlier sessions, if anything, stands at the end: take full names and dates from it ("Frank", "the Tuesday after"), and do not retell it.',
            'Known from earlier sessions:',
            'moved the bees last Thursday (',
        ],
    ),
    'tag': (
        TAG, [], [check_tag],
        [
            # eq. 9
            'You label memories so that they can be found again by association. Give every episode below a tag and cues. Reply with one JSON object:',
            'a list with one entry for each episode, in their order. Each has',
            'its id, as given in round brackets.',
            'one or two words for the kind of event, so general that other events of the same kind get the same tag:',
            'Take one of the tags in use where it fits.',  # 11.1: tags are not to multiply
            'No names, no dates, no outcome.',
            'five to twelve words or phrases of at most four words by which somebody might come upon it:',
            'the people, by their full names; places, things, activities, titles; and what it is called by others, if that is another word.',
            'Each stands for one thing, in its plain form: "buy", not "bought them". No dates; they are added from the time of the episode.',
        ],
    ),
    'units': (
        UNITS, [], [check_units],
        [
            # eq. 10
            'You read a conversation and write down what can be known of the people in it for long:',
            'who they are, what they have, do, like, can and believe, and what belongs to their lives because they have done it (books read, places seen, races run, animals taken in).',
            'Moods of the moment, wishes for the day and greetings belong elsewhere. Reply with one JSON object:',
            'a list of at most 30, in the order of the session. Each has',
            'whom it is about, by name. It may be somebody who does not speak, or what several work on: "the bridge".',
            'one {english}sentence{in_language} of at most 25 words with the name in it, which makes sense on its own.',
            # 9.2: a new value replaces the old one
            'slot: what a person has only one of at a time, so that a new value replaces the old one:',
            'Give it wherever the session says or changes such a value, for the same kind always by the same word, as in "person, slot: value" in what is known from earlier sessions, which stands at the end, if anything is.',
            'Leave it empty where several can hold side by side (pets, friends, hobbies, books), for what is still to come, and for what is over ("I used to live in Leeds"), unless somebody says since when it held.',
            'the date from which it holds, such as "2018" or "14 January 2024", reckoned from the date of the session; null where nobody says it.',
            'the ids, given in brackets, of the turns that it rests on. Invent nothing.',
        ],
    ),
    'topics': (
        TOPICS, [], [check_topics],
        [
            # eq. 11
            'Below are the episodes of one session of a long memory, each behind its id, and the themes under which earlier sessions were filed.',
            'A theme is what the same people do, or go through, again and again. File the episodes. Reply with one JSON object:',
            'a list of at most ten. Each has',
            'that of a theme so far, as it is written, where the episodes belong to it; else of a new theme:',
            'two to six words, the person first, so general that episodes of later sessions can belong to it, such as "Ines: bees and honey".',
            'the ids of its episodes. An episode may belong to several themes, or to none.',
        ],
    ),
    'cues': (
        CUES, [], [check_cues],
        [
            # Algorithm 1, line 1
            'You prepare the search of a memory whose entries are found by cues: short words and names, each as it would be written down when the thing happened.',
            'Give the cues of the question below: the people, places, things, activities and dates in it, one at a time, and for each that could have been put in other words one or two of these.',
            'Leave out words that only ask.',
            'A time such as "last week" is reckoned from the day of asking and given as a date, "21 July 2024", or a month, "July 2024".',
            'Reply with one JSON object: "cues", a list of four to eight.',
            'Question: Where did Ines go after her bees had died?',
            'Labels of the memory that are like words of the question: {labels}',
            'Take a label as it stands where it means what is asked. One that only looks alike is no cue.',
        ],
    ),
    'navigate': (
        NAVIGATE, [*ADVICE, *prompts._DONE.values(), prompts._EXAMPLE + prompts._ENOUGH_EXAMPLE], [check_walk],
        [
            'You recall something from a long memory, step by step.',
            'Events in it hang on cues (words and names) by way of tags (the kind of event): a cue and a tag together lead to a few events.',
            'You see which cues and tags are awake, and what is known so far, and you decide where to look next. How to go about it {advice}',
            'Reply with one JSON object: "reasoning", in a sentence; "mode", "Navigate" or "Answer"; "answer", with the mode "Answer" what answers the question, with the sums and dates by which it was worked out, else an empty text; "calls", a list, each with "function" and "parameters".',
            'The tools What several say of an argument is said at the first of them.',
            '# Topics: title (events of it) {topics}',
            'The tags tell what lies behind them. Read what bears on the question, and call several tools at once.',
            # eq. 13: the step from a cue to its tags
            'query_cue_tags shows the tags of any cue, also of one that is not awake: another word for the thing, a name, a month.',
            # 5.3, the walkthrough: the second tournament, its time, what was then
            'Where the question dates one event by another, find that other event first.',
            'query_conversation_time tells when an event happened, where its words do not. What happened at that time is awake from then on, under its month, such as "March 2021".',
            # table 4
            'From an event that fits, query_event_keywords shows by which cues and tags others hang together with it.',
            'query_event_context reads what was told just before and after an event: an answer after its question.',
            'What holds of a person for long is no event: query_personal_aspect reads it.',
            'query_topic_events reads all events of a theme, for questions that ask for all of them, or how many.',
            'Use tags and ids as they were shown. What is refused is told under the steps so far.',
            '"5 more: offset=10" there means that the same call with that offset shows them. Repeat a call only to see again what was put aside.',
            # Algorithm 1, line 16
            'as soon as what is known answers the question, or when nothing new appears',
            'only when nothing new appears, even if the answer seems to be known before',
        ],
    ),
    "the paper's navigate": (
        PAPER_NAVIGATE, prompts._DONE.values(), [],
        [
            # 5.4: two modes; 5.2: the actions; 11.2: the form
            'You rebuild a memory step by step to answer a question.',
            'The memory is a graph: a cue (a person, a thing, a time) leads through a tag (a kind of event, or a side of a person) to contents. You work in one of two modes.',
            '"Navigate": explore the graph with the tools. Reason over what is active and what was found so far.',
            'Look at the tags before anything is read, and follow those that bear on the question.',
            'What was found gives new cues, such as its time: go back from it to cues and tags where the question takes several steps.',
            '"Answer": end the search, {done}. The answer is then written from what was found.',
            # line 7: a subset of the actions; equation 3: all at once
            'Reply with one JSON object: "mode"; "actions", a list of at most {breadth}, each with "action", the name of a tool, and "parameters", its arguments, with cues, tags and ids as they were shown; "reasoning", what the actions are needed for. In the mode "Answer" the list is empty.',
            'With one step left, name all that is to be read.',
            'What several say of an argument is said at the first of them.',
            '# Topics: title (events of it) {topics}',
            'as soon as what is known answers the question, or when nothing new appears',
            'only when nothing new appears, even if the answer seems to be known before',
        ],
    ),
    'route': (
        ROUTE, [], [check_route],
        [
            # Algorithm 1, lines 14 and 15
            'You recall something from a long memory, step by step, and have just looked. Sort what was found. Reply with one JSON object:',
            'the ids, as given in brackets, of what bears on the question or leads on to it, best first.',
            'Everything else is put aside, and comes back where a later step finds it again.',
            # eq. 15: contents activate new cues
            'what to look by next, at most four: names, things or dates that what was found brings up and the question does not hold.',
            'Where the question dates one event by another and the other was found, its date is a cue, and beside it the name of the speaker who is asked about;',
            'a day such as "3 March 2021" wakes what happened on it, a month such as "March 2021" what happened in it.',
            'An empty list where there is nothing to follow.',
            # what answers the question ends the search, and is handed on
            'answer: where what is known and kept answers the question in full, what answers it, with the sums and dates by which it was worked out; the search then ends.',
            'It is empty while a part is missing and, where all of several things are asked for, as long as what was found now adds one to what is known.',
            'Ines sold another hive last Sunday (',
        ],
    ),
    'recall': (RECALL, [], [check_recall], [' '.join(ANSWER.system.split()), 'Ines sold another hive last Sunday (']),
}  # fmt: skip


PROMPTS = {name: (texts_of(role, more), duties, checks) for name, (role, more, checks, duties) in DUTIES.items()}


@pytest.mark.parametrize('name', PROMPTS)
def test_a_prompt_has_its_duties_and_no_part_of_it_can_change_unseen(name):
    assert not missing(*PROMPTS[name])
    assert not survivors(*PROMPTS[name])


def test_each_piece_of_advice_and_each_end_is_shown():
    tools = [tool for tool in hives().tools() if not tool.ends]
    for stop_early, done in prompts._DONE.items():
        system, _ = NAVIGATE.render({'question': 'Who?', 'tools': tools, 'breadth': 7, 'stop_early': stop_early})
        assert all(f'- {line}\n' in system for line in ADVICE)
        assert f'mode "Answer", without calls, {done}; else "Navigate" with one to 7 calls.\n' in system
        assert prompts._EXAMPLE in system and (prompts._ENOUGH_EXAMPLE in system) == stop_early
        assert (
            f'end the search, {done}.'
            in PAPER_NAVIGATE.render({'question': 'Who?', 'tools': tools, 'stop_early': stop_early})[0]
        )


# ------------------------------------------------------------------ styles, settings, roles


def test_the_papers_form_is_asked_for_and_read():
    "Section 11.2: a mode, actions with their parameters, a reason."
    heard, replies = [], {
        'cues': ['{"cues": ["hive"]}'],
        'navigate': ['{"mode": "Navigate", "actions": [{"action": "query_tag_events", "parameters": {"cue": "hive", "tag": "sale"}}], "reasoning": "the second one"}',
                     '{"mode": "Answer", "actions": [], "reasoning": "known"}'],
        'route': ['{"keep": ["X7/e5"]}'],
        'recall': ['{"answer": "in March", "sources": ["X7/e5"]}']}  # fmt: skip

    def model(prompt, role):
        heard.append((role, prompt))
        return replies[role].pop(0)

    trace = MRAgent(hives(), FunctionLM(model), prompts='paper', start=0).ask(QUESTION)
    assert trace.answer == 'in March' and trace.evidence == ['X7:5'] and not any(replies.values())
    first = next(prompt for role, prompt in heard if role == 'navigate')
    assert 'You rebuild a memory' in first and '- hive → sale (2)' in first
    tools = hives().tools()
    schema = PAPER_NAVIGATE.schema({'tools': tools})
    assert list(schema['properties']) == ['mode', 'actions', 'reasoning']
    form = schema['$defs']['PaperAction']['properties']
    assert form['action']['enum'] == [tool.name for tool in tools] and len(form['parameters']['anyOf']) == len(tools)


def test_figures_7_and_9_can_tell_their_rows_apart():
    "A passive policy names all that it reads at once; a greater breadth reads more in one turn."
    shown = []

    def model(prompt, role):
        lines = re.findall(r'^- (\w+) → ([\w ]+) \(', prompt, re.M)
        calls = [{'action': 'query_tag_events', 'parameters': {'cue': cue, 'tag': tag}} for cue, tag in lines]
        if role == 'navigate':
            shown.append(int(re.search(r'"actions", a list of at most (\d+)', prompt)[1]))
        move = {'mode': 'Navigate', 'actions': calls[: shown[-1]] if shown else [], 'reasoning': ''}
        others = {'cues': {'cues': ['hive', 'Lisbon', 'paint', 'Leeds']}, 'recall': {'answer': 'x'}}
        return json.dumps(others.get(role, move if role == 'navigate' else {'keep': []}))

    rows = [{'active': False}, *({'turns': 1, 'breadth': breadth} for breadth in (1, 2, 3, 12))]
    traces = [MRAgent(hives(), FunctionLM(model), settings='paper', **row).ask(QUESTION) for row in rows]
    assert shown == [40, 1, 2, 3, 12]
    passive, *reads = [len(trace.read) for trace in traces]
    assert reads == sorted(set(reads)) and reads[-1] == passive == 8


def test_the_papers_settings_are_taken_where_no_other_is_given():
    loop = MRAgent(hives(), settings='paper')
    assert (loop.turns, loop.start, loop.structure, loop.stop_early, loop.may_refuse) == (8, 0, 'ctc', True, False)
    assert loop.roles == {'cues': PAPER_CUES, 'navigate': PAPER_NAVIGATE, 'route': PAPER_ROUTE, 'recall': PAPER_RECALL}
    check_route(PAPER_ROUTE.system)
    shown = PAPER_CUES.user, PAPER_ROUTE.system, json.dumps(PAPER_ROUTE.schema({}))
    assert not any('abels' in text or 'answer' in text for text in shown)
    of_memory = {'filing': True, 'prompts': 'paper'}  # equation 11, and equations 8 to 10
    assert {one.name: one.value for one in MRAgent.PAPER if one.scope == 'memory'} == of_memory
    assert METHODS['mragent'].by_paper().memory.options == of_memory
    mine = MRAgent(hives(), settings='paper', start=3, prompts='memnb')
    assert mine.start == 3 and mine.roles['navigate'] is NAVIGATE and MRAgent(hives()).start == 15
    assert all(one.source for one in MRAgent.PAPER)


@pytest.mark.parametrize('style', ['memnb', 'paper'])
def test_the_papers_graph_reads_each_session_by_itself(style, tmp_path):
    "Equations 8 to 10, 11.1: nothing of earlier sessions, no vocabulary of tags, no fact in another's place."
    heard, places = {}, iter(['Brae', 'Leeds'])
    fact = {'person': 'Ines', 'aspect': 'home', 'slot': 'residence', 'turns': ['D1:1', 'D2:1']}

    def model(prompt, role):
        heard[role] = prompt
        tags = [{'episode': id, 'tag': 'Bee Keeping', 'cues': ['bees']} for id in ('D1/e1', 'D2/e1')]
        units = [{**fact, 'fact': f'Ines lives in {next(places)}.'}] if role == 'units' else []
        return json.dumps(
            {'segment': {'episodes': [{'text': 'Ines keeps bees.'}]}, 'tag': {'tags': tags}, 'units': {'units': units}}[
                role
            ]
        )

    graph = CueTagGraph(FunctionLM(model), names=('Ines', 'Rolf'), prompts=style)
    graph.add([Session('D1', (Turn('D1:1', 'Ines', 'I live in Brae.'),), datetime(2023, 1, 2)), BEES])
    shown, is_paper = '\n'.join(heard.values()), style == 'paper'
    for words in ('Tags in use: Bee Keeping', 'Known from earlier sessions:', 'Ines, residence: Ines lives in Brae.'):
        assert (words in shown) != is_paper, words
    graph.save(tmp_path / 'graph')
    old, new = CueTagGraph.load(tmp_path / 'graph').read([unit.id for unit in graph.units])
    assert (old.mark, new.mark) == ('' if is_paper else 'no longer', '')


@pytest.mark.parametrize('found', [True, False])
def test_a_walk_that_may_not_refuse_says_so_nowhere(found):
    question = 'Which submarine did Hephaestion sell?'
    for may_refuse in (True, False):
        heard, given = [], '{"keep": ["X7/e5"]}' if found else '{"keep": []}'

        def model(prompt, role):
            heard.append(prompt)
            return {'route': given, 'recall': '{"answer": "no"}', 'cues': '{"cues": []}'}.get(
                role, '{"mode": "Answer"}'
            )

        assert MRAgent(hives(), FunctionLM(model), may_refuse=may_refuse).ask(question).answer == 'no'
        assert (NO_INFORMATION in heard[-1]) == may_refuse
        assert ('(X7/e5)' in heard[-1].split('# Notes')[1]) == (found or not may_refuse)
        assert (MRAgent(hives(), may_refuse=may_refuse).ask(question).answer == NO_INFORMATION) == may_refuse


def test_roles_of_ones_own_are_asked():
    heard = []

    def model(prompt, role):
        heard.append((role, prompt.split('\n')[2]))
        replies = {
            'segment': {'episodes': [{'text': 'Ines keeps bees.'}]},
            'tag': {'tags': []},
            'units': {'units': []},
            'topics': {'topics': []},
        }
        return json.dumps(replies.get(role, {'answer': 'bees', 'mode': 'Answer', 'cues': []}))

    lm = FunctionLM(model)
    mine = [replace(role, system=f'My {role.name}.') for role in (SEGMENT, TAG, UNITS, TOPICS)]
    graph = CueTagGraph(lm, names=('Ines', 'Rolf'), roles=mine, filing=True)
    graph.add(BEES)
    assert set(heard) == {(role.name, role.system) for role in mine}
    MRAgent(graph, lm, roles=replace(RECALL, system='My recall.')).ask('Who?')
    assert ('recall', 'My recall.') in heard
    assert CueTagGraph(prompts='paper').roles == CueTagGraph().roles  # of these the paper prints none
    with pytest.raises(ValueError, match='roles: expected a Role named segment or tag or units or topics, got'):
        CueTagGraph(roles=ROUTE)
    with pytest.raises(ValueError, match="prompts: expected one of memnb, paper, got 'mine'"):
        CueTagGraph(prompts='mine')
    assert (
        load_sample().sessions
        and MRAgent(CueTagGraph.of(load_sample(), roles=(), progress=False)).roles['recall'] is RECALL
    )
