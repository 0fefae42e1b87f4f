"""What the prompts of REMem ask of a model, by duty, and what they teach, executed on a small graph; the paper's style and settings."""

import json
import re
from dataclasses import replace
from datetime import datetime
from functools import partial

import pytest
from prompt_mutants import missing, survivors, texts_of

from memnb import GistGraph, load_sample, REMem, REMemS
from memnb.core.conversation import Session, Turn
from memnb.core.models import FunctionLM
from memnb.core.replies import read_reply
from memnb.core.roles import NO_INFORMATION
from memnb.core.time import find_times, TimeSpan
from memnb.remem import prompts
from memnb.remem.tools import CITED_ANSWER
from memnb.remem.facts import Fact, Window
from memnb.remem.prompts import FACTS, GISTS, PAPER_FACTS, PAPER_GISTS, PAPER_SELECT, SELECT, SYNTHESIZE, TIMELINE

# ---- what is executed

YEARS = [
    (1930, 1931),
    (1931, 1940),
    (1939, 1940),
    (1940, 1945),
    (1925, 1930),
    (1935, 1936),
    (1934, 1935),
    (1930, 1940),
    (1941, 1942),
    (1928, 1929),
    (1936, 1937),
    (1933, 1934),
    (1929, 1941),
    (1939, 1941),
]
SPANS = {f'keeper {place}': span for place, span in enumerate(YEARS)}  # around each border that the prompt names
GRAPH = GistGraph.from_facts(
    Fact.of(name, 'held', 'the post', start_time=str(first), end_time=str(last))
    for name, (first, last) in SPANS.items()
)
CASES = {  # what each line of the prompt says, of the years (first, last) of a fact
    'began after 1930': lambda first, last: first > 1930,
    'over before 1940': lambda first, last: last < 1940,
    'held in 1935': lambda first, last: first <= 1935 <= last,
    'only within 1930 to 1940': lambda first, last: 1930 <= first and last <= 1940,
    'at any time in 1930 to 1940': lambda first, last: first <= 1940 and last >= 1930,
}


def filtered(graph, text, **more):
    "The subjects that `find_entity_contexts` gives for filters as a prompt writes them."
    given = dict(re.findall(r'((?:start|end)_(?:time|operator)) (\w+)', text))
    [tool] = [one for one in graph.tools() if one.name == 'find_entity_contexts']
    pages = [tool(**given, **more, offset=offset).hits for offset in (0, 10)]
    return [hit.snippet.subject for page in pages for hit in page]


def the_times_filter(text):
    lines = dict(re.findall(r'^- ([^:\n]+): ((?:start|end)_time .+)$', text, re.MULTILINE))
    assert lines.keys() == CASES.keys()
    for name, filters in lines.items():
        assert set(filtered(GRAPH, filters, predicate='held')) == {
            who for who, span in SPANS.items() if CASES[name](*span)
        }, name


def the_example_is_found(text, is_paper=False):
    "Run the worked example: each reply is one of its form, what each step shows is what the tools give, and the answer is the last one shown."
    lines = r'\((D3/f\d)\) \(([^,()]+), (was keeper of), (the lighthouse)\) \[start_time: (\d+), end_time: (\d+)\]'
    facts = re.findall(lines, text) + [('D3/f6', 'Ina Holt', 'was keeper of', 'the lighthouse', '1944', '1950')]
    graph = GistGraph.from_facts(
        Fact.of(who, what, where, start_time=first, end_time=last, id=id) for id, who, what, where, first, last in facts
    )
    loop = REMem(graph, prompts='paper' if is_paper else 'memnb')
    tools = {one.name: one for one in loop.tools()}
    role = PAPER_SELECT if is_paper else SELECT
    steps = re.findall(r'^(?:Step \d: )?(\{"reasoning".+\})\n?((?:(?!Step|\{).+\n)*)', text, re.MULTILINE)
    assert re.findall(r'^Step (\d)', text, re.MULTILINE) == ['1', '2', '3'] and len(steps) == 3
    for place, (reply, shows) in enumerate(steps):
        call = json.loads(reply) if is_paper else json.loads(reply)['call']
        read = read_reply(reply, role.model({'tools': loop.tools()})).call
        assert (read.function, set(call['parameters'])) == (call['function'], read.parameters.model_fields_set)
        if place < 2:
            seen = tools[call['function']](**call['parameters'])
            first = seen.line.splitlines()[:2] if is_paper else [f'It shows {seen.line.splitlines()[1][3:]}']
            assert [line.removeprefix('- Observation: ') for line in shows.splitlines()[: len(first)]] == first
        else:
            assert set(call['parameters']) == set(tools['output_answer'].arguments.model_fields)
    asked = re.search(r'Question: Who kept the lighthouse after (.+?)\?', text)[1]
    [(first, last)] = [(start, end) for _, who, _, _, start, end in facts if who == asked]
    [(id, after)] = [(id, who) for id, who, _, _, start, _ in facts if start == last]
    assert call['function'] == 'output_answer' and call['parameters']['answer'] == after
    assert is_paper or (call['parameters']['sources'], call['parameters']['answerable']) == ([id], True)


def read_by(role, reply_of):
    "A check: the session of a role's example, read by a model that replies as the example does, gives what it says with no note."

    def check(text):
        moment, told, reply = re.search(r'Date: (?:Sat )?(.+)\n((?:.+\n)+)The reply:\n(\{.+\})', text).groups()
        lines = [re.match(r'(?:\((\S+)\) )?(\w+): (.+)', line).groups() for line in told.splitlines()]
        turns = tuple(Turn(id or f'D2:{place}', who, what) for place, (id, who, what) in enumerate(lines, 1))
        session = Session('D2', turns, datetime.strptime(moment, '%d %B %Y, %I:%M %p'))
        replies = {
            'gists': '{"gists": []}',
            'facts': '{"facts": []}',
            role.name: reply.replace('{{', '{').replace('}}', '}'),
        }
        found, _ = prompts.extract(session, FunctionLM(lambda prompt, role: replies[role]))
        assert not [note for note in found.notes if 'cites no turn' not in note]
        reply_of(found, session)

    return check


def gists_are_dated(found, session):
    turns = session.turns
    for gist in found.gists:
        assert gist.said.day == 20 and gist.said.hour == 15
    told = ' '.join(turn.text for turn in turns)
    if 'two days later' in told:
        assert [gist.text for gist in found.gists] == [
            'Ines inspected the hives last Thursday morning (18 January 2024).',
            'Ines sold the honey two days later (20 January 2024).',
        ]
    else:
        assert [(gist.text, gist.sources) for gist in found.gists] == [
            ('Ines and Rolf moved the bees last Thursday (18 January 2024).', ('D2:1',)),
            ('Ines sells the first two jars tomorrow (21 January 2024).', ('D2:1',)),
            ("Rolf's thumb was still swollen.", ('D2:2',)),
            ('Ines is to label the jars by 14 February (until 14 February 2024).', ('D2:2',)),
            ('The labels were printed about 15 November (the week of 13 November 2023).', ('D2:2',)),
        ]
        assert [str(gist.time) for gist in found.gists[3:]] == [
            'until 14 February 2024',
            'the week of 13 November 2023',
        ]
    by_rule = GistGraph.of(session)
    meant = [
        one for text in (gist.text for gist in by_rule.gists) for one in re.findall(r'\((\d+ January 2024)\)', text)
    ]
    assert [one for gist in found.gists for one in re.findall(r'\((\d+ January 2024)\)', gist.text)] == meant


def times(fact):
    "The qualifiers of a fact, as a graph shows them."
    return re.findall(r'(?:start_time|end_time|point_in_time): ([^,\]]+)', fact.line)


def facts_are_as_told(found, session):
    turns = session.turns
    meant = {str(replace(span, label=None)) for turn in turns for *_, span in find_times(turn.text, session.time)}
    assert {time for fact in found.facts for time in times(fact) if 'January' in time} == {
        one for one in meant if 'January' in one
    } | {str(TimeSpan.day(session.time)) for turn in turns if 'ugly' in turn.text}  # an opinion, and a state
    shown = [(fact.subject, fact.predicate, fact.object, *times(fact)) for fact in found.facts]
    if any('queens' in turn.text for turn in turns):
        assert shown == [
            ('Ines', 'carried out', 'hive inspection', '14 January 2024'),
            ('Ines', 'bought', 'two queens', '15 January 2024'),
            ('purchase of queens', 'seller', 'Rolf', '15 January 2024'),
        ]
    else:
        assert shown == [
            ('Ines', 'keeps', 'bees', '2019'),
            ('Ines', 'bought', 'a third hive', '18 January 2024'),
            ('a third hive', 'came from', 'Rolf', '18 January 2024'),
            ('Ines', 'is to paint', 'a third hive', '14 February 2024'),
            ('Rolf', 'lost', 'a swarm', 'the week of 13 November 2023'),
            ('Rolf', 'finds ugly', 'black hives', '20 January 2024'),
            ('Rolf', 'lives in', 'Brae', '20 January 2024'),
        ]
        assert [fact.sources for fact in found.facts] == [('D2:1',)] * 3 + [('D2:2',)] * 4
        graph = GistGraph()
        graph.keep('D2', found)

        def held_in(subject, day):
            window = Window(day, day, 'le', 'ge')
            return {fact.predicate for fact in graph.facts.find(subject, window=window)}

        assert held_in('Ines', '2022') == {'keeps', 'is to paint'} and held_in('Ines', '2025') == {'keeps'}
        assert held_in('Rolf', '14 November 2023') == {'lost'} and held_in('Rolf', '20 November 2023') == set()
        assert held_in('Rolf', '20 January 2024') == {'finds ugly', 'lives in'}
        assert held_in('Rolf', 'June 2024') == {'lives in'}


# ---- duties

SYNTHESIS = [
    'The question decides the form. A name, a date, a number, yes or no: a few words, as the memory has them, without an explanation.',
    'A list: every item, in order where an order is asked for. A reason, advice or a summary: as many sentences as it takes.',
    'The memories need not say the answer in so many words. Sums, times between dates and plain inferences from them are wanted: "Likely yes".',
    'Gists begin with the time at which they were said; a time in round brackets is when the event itself was. Facts have their times in square brackets; a start_time alone is that from which something is known to hold.',
    'Where a later memory takes the place of an earlier one, the later one holds, unless the question asks about the past.',
    "Where two contradict each other and neither takes the other's place, name both, each with its day.",
    'A number that a tool has counted is exact.',
    'What an assistant suggested, or wrote as an example, is not what the person did or said. How a person wants to be answered ("always in euros") holds for this answer, too.',
    'If the memories tell a part of what is asked, give that part and say in a few words what they do not tell.',
    'If they deny what the question takes for granted, or tell it only of somebody else, say what they tell instead: "No: it was Bo\'s boat".',
    'If the memories tell nothing of what is asked, {refusal}',
    'answerable: false where the memories tell nothing of what is asked or deny what the question takes for granted, else true.',
    'sources: the ids of the memories that the answer rests on, best first.',
    'A search of a memory has ended. Answer the question from the gists, facts and messages that it found.',
    '# How it was found',
    '# What the search proposes',
]
TIMES = [
    'Times. A filter looks at when a fact begins (start_time with start_operator) and when it ends (end_time with end_operator):',
    '(here the start is the later)',
]
ADVICE = '\n'.join(line for _, line in prompts._ADVICE)
PROMPTS = {  # name: the text, its duties, and the checks that execute what it teaches
    'gists': (
        texts_of(GISTS),
        [
            'You turn a conversation into memories.',
            'Read the session and write down every fact, event, plan, opinion and claim in it as a gist: one short {english}sentence{in_language} that makes sense on its own.',
            'Reply with one JSON object:',
            'a list, in the order of the session. Each has - text: one atomic event or fact. Two events in one sentence make two gists.',
            'Name the people; write no "I", "you", "she" or "there" that only the session explains.',
            'Keep every detail: who took part, what was done, with what, how many, where, why, what was felt or intended.',
            'What an assistant suggests or writes as an example is no event: write "The assistant suggests …".',
            'A picture that somebody shares is an event too: say what it shows.',
            'Behind every expression of time that is no full date, no clock time and no habit ("on Sundays") put, in round brackets, the date or range of dates that it means, where it follows from the date of the session; "by" or "not later than" a day is (until 14 February 2024), "about" a day is its week, (the week of 13 November 2023).',
            'Invent nothing; what only earlier talk explains keeps its words. Leave out greetings, thanks, congratulations, questions and jokes that tell nothing of anybody; else, where in doubt, write the gist.',
            'turns: the ids, given in brackets, of the turns that the gist rests on.',
            'Do not begin the text with the date of the session; it is added later.',
            'Date: Sat 20 January 2024, 3:57 pm (D2:1) Ines: We moved the bees last Thursday, Rolf and I, and tomorrow I sell the first two jars. (D2:2) Rolf: My thumb is still swollen! Label the jars by 14 February. The labels were printed about 15 November.',
        ],
        [read_by(GISTS, gists_are_dated)],
    ),
    "the paper's gists": (
        texts_of(PAPER_GISTS),
        [
            'You extract personal episodic memories from messages, with great care.',
            'Find every single fact, event or claim, and say each again in one concise {english}sentence{in_language} that stands on its own.',
            'The date above the messages is the current time; reckon every relative time from it.',
            'Reply with one JSON object that has one key, "gists", a list of texts, and with nothing else.',
            'Decompose: a complex sentence becomes several gists, each one atomic fact or event.',
            'Begin every gist with the time of the message in square brackets, such as [20 January 2024, 3:57 pm].',
            'Behind every reference to a time put the absolute date, or the range of dates, in round brackets.',
            'Be complete: participants, actions, objects, quantities, places, intentions and the like.',
            'Infer as many reasonable details of these kinds as you can, for a later search, and invent nothing new.',
            'Date: 20 January 2024, 3:57 pm Ines: I inspected the hives last Thursday morning and sold the honey two days later.',
            '"[20 January 2024, 3:57 pm] Ines inspected', '"[20 January 2024, 3:57 pm] Ines sold',
        ],
        [read_by(PAPER_GISTS, gists_are_dated)],
    ),
    'facts': (
        texts_of(FACTS),
        [
            'You turn a conversation into structured memories.',
            'Read the session, and the gists of it where some are given, and write down every fact in three phrases.',
            'Reply with one JSON object:',
            'a list, in the order of the session. Each has - subject: who or what acts, has or is. - predicate: the action, relation or state, in few words.',
            'object: what it is done to, what is had, where it is. Short phrases that can be used again ("fence repair", "two jars") join facts with one another.',
            'point_in_time: the date on which it happened, such as "14 January 2024", "January 2024" or "2019"; else null. With it, start_time and end_time are null.',
            '"About" a day is its week, "the week of 13 November 2023".',
            'An opinion has the date of the session.',
            'start_time, end_time: the dates between which it lasted; each null where nobody says it.',
            'A state that lasts has a start alone: the date from which it is known to hold, that of the session where nobody tells its beginning.',
            'What happens "by" or "not later than" a date has an end alone; so has what was done by the date of the session, and nobody tells when.',
            'turns: the ids, given in brackets, of the turns that the fact rests on.',
            'Earlier facts show the names and predicates in use: write a person, a thing or a relation that is meant again exactly as it stands there, and do not repeat these facts.',
            'Earlier facts: {known}', '"point_in_time": "the week of 13 November 2023"',
            'Take every claim, number, time and relation. What an assistant suggests or writes as an example is (Assistant, suggests, …).',
            'Leave out greetings, thanks, congratulations, questions and jokes that tell nothing of anybody; else, where in doubt, take it. Write what the text supports and nothing else.',
            'All dates are absolute, reckoned from the date of the session.',
            'Date: Sat 20 January 2024, 3:57 pm (D2:1) Ines: I have kept bees since 2019, and last Thursday I bought a third hive from Rolf. (D2:2) Rolf: Paint it by 14 February! I lost a swarm about 15 November, and I find black hives ugly. I live in Brae.',
        ],
        [read_by(FACTS, facts_are_as_told)],
    ),
    'gists and facts at once': (
        prompts.MEMORIES.system.removesuffix(FACTS.system).replace(GISTS.system, '') + prompts.MEMORIES.user,
        [
            'A session is read for two tasks. Reply once, with one JSON object that has the lists of both, "gists" and "facts".',
            '# Task 1', '# Task 2', 'Earlier facts: {known}',
        ],
    ),
    "the paper's facts": (
        texts_of(PAPER_FACTS),
        [
            'You extract structured facts from messages of personal episodic memory.',
            'Reply with one JSON object that has one key, "facts", a list; no other keys, no comments. Each fact has',
            'subject: the entity that acts or experiences; predicate: the action, relation or state; object: the entity or concept that is acted upon.',
            'qualifiers: an object of times, written like "14 January 2024, 02:30 PM" where so much is known:',
            'record_time: when the message was made; always.',
            'point_in_time: only for an event at a point in time; then without start_time and end_time.',
            'start_time, end_time: for an event over a range of time.',
            'Use short handles for events ("hive inspection") that can be used again, and connect events through entities that they share.',
            'Take all claims, quantities, references to time and relations; in doubt, include them.',
            'Interpret only what the text supports. Use the gists where some are given.',
            'Date: 20 January 2024, 3:57 pm Ines: I inspected the hives last Sunday, then bought two queens from Rolf on 15 January.',
            '"record_time": "20 January 2024, 3:57 pm", "point_in_time": "14 January 2024"',
            '"object": "two queens", "qualifiers": {{"record_time": "20 January 2024, 3:57 pm"',
            '"object": "Rolf", "qualifiers": {{"record_time": "20 January 2024, 3:57 pm"',
        ],
        [read_by(PAPER_FACTS, facts_are_as_told)],
    ),
    'select': (
        texts_of(SELECT, (ADVICE, prompts._TIMES)),
        [
            'You search a memory to answer a question.',
            'It may hold sentences about events (gists, behind the time at which they were said; a time in round brackets is when the event itself was) and facts, shown as (subject, predicate, object) [times].',
            'At every step you see what the steps before have brought, and choose one tool and its arguments.',
            'How to go about it',
            'Reply with one JSON object: "reasoning", why this tool and these arguments, in a sentence; and "call", with "function", the name of one of the tools below, and "parameters".',
            'The tools What several say of an argument is said at the first of them.',
            'Begin with a search, to see how things are called in this memory. It shows the best of what there is, and seldom all.',
            'Split a question of several parts. Ask for one part at a time, first for the event on which the others depend.',
            'semantic_retrieve is the search to begin with, as a rule.',
            'lexical_retrieve is better where the question holds names or identifiers that must match to the letter.',
            'search_during is better where the question names a time.',
            'Then explore: find_gist_contexts shows what stands around a gist that fits.',
            'find_turns shows the messages behind a gist, for exact words, and the gists before and after it, for what came next to it.',
            'find_entity_contexts finds every fact of a subject, predicate or object. Use it only with phrases that you have seen, copied to the letter. Let it order, cut and count: do not count yourself.',
            'Leave start_time and end_time out (null) where neither the question nor an observation has named a time: a filter leaves out what has no time.',
            'As soon as what was found answers the question, in so many words, by reckoning or by plain inference, give the answer with output_answer; where a sum, a date or a state may have changed since, look once for a later word first. Where the memory tells nothing of it, {refusal}',
            '# So far', '# Steps left', 'An example.', '"limit": 1', 'When did she stop?', 'Who was the first from then on?', 'He began when she stopped.',
            '"start_time": "1938", "start_operator": "ge", "ordering": "asc"', 'end_time: 1944', 'start_time: 1931',
            *TIMES,
        ],
        [the_times_filter, the_example_is_found],
    ),
    "the paper's select": (
        texts_of(PAPER_SELECT, [line for _, line in prompts._PAPER_ADVICE]),
        [
            'You are an agent that explores a large graph of knowledge to answer a query. Choose the best tool and its parameters, given what came before.',
            'Understand the steps so far, and consider whether to explore further or to answer.',
            'Mind what the observations say: what was found, and how much of it.',
            'Plan ahead, and choose one tool for this step.',
            'How to use the tools {paper_advice}',
            'Begin with a search, to see how the graph is built and to gather a first context. Break a complex query into simpler ones.',
            'Prefer semantic_retrieve to lexical_retrieve, unless the query is about identifiers or needs an exact match.',
            'A search shows a part only: look for what a closer search needs, such as ids and ranges of time.',
            'Go on with find_gist_contexts, with parameters filled from what the search has shown. The number of a gist in the last observation stands for its id.',
            'Prefer find_gist_contexts to find_entity_contexts.',
            'Use find_entity_contexts ONLY for entities in a form that you have seen, and never to guess an exact phrase.',
            'When you are confident, give the answer with output_answer.',
            'Reply with one JSON object: "reasoning", a short one; "function", the exact name of a tool; "parameters". The tools',
            '{times}', '# So far {paper_history}', 'An example.',
            "Find the end of her time, which is the start of the next keeper's", 'Find who was keeper of the lighthouse from that time on',
            'The keeper whose time is closest to 1938 is Tom Rill', 'end_time: 1944', 'start_time: 1931',
        ],
        [partial(the_example_is_found, is_paper=True)],
    ),
    'output_answer': (
        CITED_ANSWER.line,
        [
            'Give the answer and end the search. An answer with sources, or one that is not answerable, is final.',
            'It is a few words for a name, a date or a number, all items for a list, sentences for a reason, advice or a summary.',
            "Of two memories that contradict each other the later holds where it takes the other's place, unless the past is asked for; else name both, with their days.",
            'What an assistant suggested is not what the person did. How a person wants to be answered holds for this answer.',
            'Of what is known in part, give that part and say what is not known; of what the memory denies, what it tells instead.',
            'answer: The answer, in the form that the question asks for',
            'sources: The ids of what it rests on, best first',
            'answerable: false where the memory tells nothing of what is asked, or denies what the question takes for granted',
            'output_answer(answer, sources=[], answerable=True)',
        ],
    ),
    'synthesize': (texts_of(SYNTHESIZE), [*SYNTHESIS, 'Reply with one JSON object: "answer", "sources" and "answerable".']),
    'timeline': (
        texts_of(TIMELINE),
        [
            *SYNTHESIS,
            'Think in four steps, after TISER (Bazaga et al., 2025):',
            'reasoning: think the question through, step by step.',
            'timeline: list the events that matter with their times, in the order in which they began.',
            'reflection: check the reasoning against the timeline, the borders of every "before", "after" and "between" first, and mend what is wrong.',
            'answer, as follows.',
            'Reply with one JSON object: "reasoning", "timeline", "reflection", "answer", "sources", "answerable".',
        ],
    ),
}  # fmt: skip


@pytest.mark.parametrize('name', PROMPTS)
def test_a_prompt_has_its_duties_and_no_part_of_it_can_change_unseen(name):
    assert not missing(*PROMPTS[name])
    assert not survivors(*PROMPTS[name])


# ---- style and settings

TALK = Session(
    'D2', (Turn('D2:1', 'Ines', 'I bought two queens from Rolf on 15 January.'),), datetime(2024, 1, 20, 15, 57)
)


def test_the_papers_forms_are_asked_for_and_read():
    heard = {}
    said = {
        'gists': {
            'gists': ['[20 January 2024, 3:57 pm] Ines bought two queens from Rolf on 15 January (15 January 2024).']
        },
        'facts': {
            'facts': [
                {
                    'subject': 'Ines',
                    'predicate': 'bought',
                    'object': 'two queens',
                    'qualifiers': {'record_time': '20 January 2024, 3:57 pm', 'point_in_time': '15 January 2024'},
                }
            ]
        },
        'select': {'reasoning': 'look', 'function': 'semantic_retrieve', 'parameters': {'query': 'queens'}},
        'synthesize': {'answer': 'two queens', 'sources': []},
    }

    def model(prompt, role):
        heard.setdefault(role, prompt)
        return json.dumps(said[role])

    graph = GistGraph(FunctionLM(model), prompts='paper')
    graph.add([TALK])
    assert [gist.text for gist in graph.gists] == ['Ines bought two queens from Rolf on 15 January (15 January 2024).']
    assert [times(fact) for fact in graph.triples] == [['15 January 2024']]
    trace = REMem(graph, FunctionLM(model), settings='paper').ask('What did Ines buy?')
    assert (
        trace.answer == 'two queens'
        and [step.tool for step in trace.steps if step.kind == 'tool'] == ['semantic_retrieve'] * 3
    )
    assert (
        'qualifiers' in heard['facts']
        and 'square brackets' in heard['gists']
        and 'large graph of knowledge' in heard['select']
    )
    schema = PAPER_SELECT.schema({'tools': graph.tools()})
    assert list(schema['properties']) == ['reasoning', 'function', 'parameters']
    assert list(PAPER_FACTS.schema({})['$defs']['_PaperFact']['properties'])[-1] == 'qualifiers'


def test_the_papers_settings_hold_for_each_kind_of_data():
    from memnb.evaluation.registry import BASELINES, METHODS

    sample = load_sample()
    graph = GistGraph.of(sample.sessions[0])
    assert REMem(graph, settings='paper').max_steps == 3 and REMemS(graph, settings='paper').max_steps == 1
    for data, steps in (('locomo', 3), ('tot', 5), ('complex_tr', 5)):
        method = METHODS['remem'].by_paper(data)
        assert method.make(graph, sample).max_steps == steps
        facts_only = {'with_gists': False} if data == 'tot' else {}
        assert method.memory.options == {'prompts': 'paper', 'synonymy': 0.8, **facts_only}
    for package in ('remem', 'mragent'):  # a ranking that was fitted on such turns is not the paper's
        method = replace(METHODS['rag'], reported=BASELINES[package]['baselines.RAG']).by_paper()
        assert method.memory.options == {'ranker': 'none'} and method.memory.build(sample, None).ranker is None
    assert all(one.source for loop in (REMem, REMemS) for one in loop.PAPER)


@pytest.mark.parametrize('timeline', [False, True])
def test_a_search_that_may_not_refuse_says_so_nowhere(timeline):
    graph = GistGraph.of(load_sample().sessions[0])
    for may_refuse in (True, False):
        heard = []

        def model(prompt, role):
            heard.append(prompt)
            return '{"call": {"function": "output_answer", "parameters": {"answer": "no"}}, "answer": "no", "reasoning": ""}'

        REMem(graph, FunctionLM(model), may_refuse=may_refuse, timeline=timeline).ask(
            'Which submarine did Hephaestion sell?'
        )
        assert len(heard) == 2 and all((NO_INFORMATION in prompt) == may_refuse for prompt in heard)


def test_figure_3_dates_what_came_two_days_later_from_the_meeting():
    told = 'I met with my advisor last Thursday morning and submitted the proposal two days later.'
    graph = GistGraph.of(Session('D1', (Turn('D1:1', 'Bob', told),), datetime(2025, 1, 20, 14, 28)))
    [gist] = graph.gists
    assert 'last Thursday (16 January 2025)' in gist.text and gist.text.endswith('two days later (18 January 2025).')


def test_a_prompt_speaks_of_no_tool_that_is_not_offered():
    graph = GistGraph.of(load_sample().sessions[0])
    for without in ('lexical_retrieve', 'find_gist_contexts', 'find_entity_contexts'):
        tools = REMem(graph, without=[without]).tools()
        for role in (SELECT, PAPER_SELECT):
            assert without not in role.render({'question': 'Who?', 'tools': tools})[0]
