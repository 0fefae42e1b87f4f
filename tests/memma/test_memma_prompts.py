"""What the prompts of MemMA ask of a model, by duty; their examples, done; and the paper's style, from prompt to reply."""

import json
import re
from dataclasses import replace
from datetime import datetime, time

import pytest
from prompt_mutants import missing, survivors, texts_of

from memnb.core.conversation import Session, Turn
from memnb.core.models import FunctionLM
from memnb.core.roles import choose_roles
from memnb.memma.construction import construct
from memnb.core.text import coverage, stems
from memnb.core.time import parse_date, short_weekday
from memnb.evaluation.registry import METHODS, settings_table
from memnb.memma import prompts
from memnb.memma.bank import Entry, MemoryBank
from memnb.memma.loop import MemMA
from memnb.memma.probe_repair import _unfounded, consolidate, evolve, Grounding, PROBE_KINDS
from memnb.memma.prompts import (
    Consolidation,
    Diagnosis,
    EditsReply,
    GuidanceReply,
    ProbesReply,
    RepairReply,
    StatedFact,
    STYLES,
)
from memnb.memma.retrieval import constrained_query, Coordinated

MORE = {
    'write': (
        *prompts._NUMBERS.values(),
        prompts._NONE,
        *prompts._UPDATES.values(),
        *prompts._EXAMPLES.values(),
        prompts._UNDONE,
    ),
    'rewrite': (prompts._RULES,),
}  # what the fields put in
DUTIES = {
    ('memnb', 'guide'): [
        'You check the quality of a memory that is being built from a conversation.',
        'You do not write into it: you tell the one who writes what there is, and what to mind.',
        'Reply with one JSON object:',
        'facts: every distinct factual statement of the new messages, one each, in order.',
        'A fact is atomic, makes sense alone, and could answer a question with who, what, when, where or how many.',
        "Keep the speaker's exact words for names, objects, titles, dates, places and quantities.",
        'What a shared picture shows is a fact, too.',
        'Leave out greetings, thanks, congratulations, questions and jokes that tell nothing of anybody, and nothing else that could be asked for.',
        'Add no feeling, theme or meaning that nobody stated.',
        'Each has',
        'text: the fact, with a name in place of I, you, he or she, and with the date in brackets behind a relative time.',
        'speaker: who says it.',
        'turns: the ids, given in brackets, of the messages that state it.',
        'points: what to mind, each with the number of its fact, from 1.',
        'kind: "importance" for a fact that later questions are likely to need: the note names the words that must be kept; "redundancy" for one that an entry states already; "conflict" for one that says of the same thing something else than an entry does.',
        'Two things that can both be so are no conflict: who plays the violin may play the clarinet, too.',
        'Another date is another event, and not redundant.',
        'fact: the number.',
        'entry: the id of the entry; null for importance.',
        'note: a few words.',
        'Example.',
        'The new messages, of Mon 15 April 2024:',
        '(D4:1) Ines: Hi! We sold the old hive on Saturday, and Rolf is learning the cello now.',
        'm3 [Sat 2 March 2024] Rolf: Rolf plays the viola.',
        'm8 [Sat 9 March 2024] Ines: Ines and Rolf own an old hive.',
        'The reply:',
        'The new messages:',
    ],
    ('memnb', 'write'): [
        'You keep the memory of a conversation.',
        'For the new messages, write {number} Reply with one JSON object:',
        'one edit for each fact, but none for a fact that an entry says already. Where the messages take back what they said before, one edit says what holds in the end, and what was meant before.',
        'The facts may be listed for you, under each the entries most like it, which it may repeat or change.',
        'exactly one edit for all of them together. You may be given the facts of the messages, and what to mind about them.',
        'only what puts right the edits below that were not made as you asked, and no edit where it may stay so.',
        'Reply with one JSON object:',
        'edits: a list, in order.',
        'Each has',
        'action: ADD for what no entry says; UPDATE where an entry must say something else from now on, or more of the same; DELETE where an entry is no longer so and nothing takes its place{none}.',
        '; NONE where nothing is worth writing, such as a greeting, or where an entry says it already',
        'text: for ADD and UPDATE what shall stand there: a sentence that makes sense alone, with a name in place of I and you, the exact names, objects, places, numbers and dates, and behind a relative time the date in brackets; else "".',
        'Your edits for these messages are made, but for these, which were not made as you asked:',
        'The text of an UPDATE says what is so now, with all of the entry that still holds.',
        'What the entry said until now is kept behind it, with its speaker and day: do not say that again.',
        'The text of an UPDATE takes the place of the whole entry, so it says again what else the entry says, and what was so before.',
        'entry: for UPDATE and DELETE the id of an entry that is shown; else null.',
        'speaker: who said it.',
        'turns: the ids, given in brackets, of the messages that it rests on.',
        'reason: a few words.',
        'Never let one fact take the place of another that can be so beside it: who plays the violin may play the clarinet, too.',
        'What happened on another date is another fact.',
        'Write no feeling, theme or meaning that nobody stated.',
        'Example.',
        'The new messages, of Mon 15 April 2024:',
        '(D4:1) Ines: Hi! We sold the old hive on Saturday, and Rolf is learning the cello now.',
        'm3 [Sat 2 March 2024] Rolf: Rolf plays the viola.',
        'm8 [Sat 9 March 2024] Ines: Ines and Rolf own an old hive.',
        'The new messages:',
        '- 1. (D4:1, Ines) Ines and Rolf sold the old hive on Saturday (13 April 2024). - m8',
        '- 2. (D4:1, Ines) Rolf is learning the cello. - m3',
        'Facts of the messages:',
        'The reply, with one edit for each fact:',
        'The reply, with one edit for all:',
    ],
    ('memnb', 'diagnose'): [
        'You judge whether the notes from a memory suffice to answer a question.',
        'You do not answer it.',
        'A needless search brings noise, so be slow to ask for one.',
        'The notes are what the searches found, and not all that the memory holds: what no note says may be there in other words and only not have been found.',
        'The test: imagine that the missing thing were found.',
        'Would the final short answer change? Only then is it a gap, and only with a gap is the question NOT-ANSWERABLE.',
        'Where the best supported answer would stay as it is, judge ANSWERABLE.',
        'Time: an exact day is needed only where the question asks for a day or a date.',
        'Otherwise the finest time that the notes make clear will do.',
        'A relative time in a note counts from the date in brackets before its speaker.',
        'Who, what, which: one clearly supported thing is enough, unless the question asks for all of them, by "all", by a plural or by a number.',
        'Contradictions: where notes disagree, that is a gap only if the short answer depends on which is right.',
        'Two events of like names may be two events: then the gap is which of them is meant.',
        'Stalling: after three queries for one gap that does not decide the answer, judge ANSWERABLE, as exactly as the notes allow.',
        'Reply with one JSON object:',
        'decision: "ANSWERABLE" or "NOT-ANSWERABLE".',
        'reason: one to three sentences about what is asked for, and nothing else.',
        'gaps: with NOT-ANSWERABLE the specific things that are missing, the most important first; else [].',
        'missing_speaker: the one person whose words are missing; null if it may be anybody.',
        'time_need: how exact a time is needed and what it is counted from; null if none is needed.',
        'queries: with NOT-ANSWERABLE one to three short search texts for the first gap, unlike the queries so far; else [].',
        'constraints: names and times, as the question has them, that the next query must have.',
        'Behind a relative time write in brackets the date that it means, if you know the day of asking.',
        'avoid: words of earlier queries that brought nothing; never the name of a person.',
        'notes: the ids, given in brackets, of all notes that bear on the question, also of those that contradict others; [] where none does.',
        'The next steps and the answer see these alone, so where in doubt, take one more.',
        'Example.',
        "The question: When did Rolf's cello teacher move to Ghent? The only note: (D4:1) [Sat 6 May 2023] Ines: Rolf is learning the cello now.",
        '# Queries so far, and the gap that each was for',
    ],
    ('memnb', 'rewrite'): [
        'You write the next query for a search of the memory of a conversation.',
        'Reply with one JSON object:',
        'query: exactly one search text of 5 to 15 words, likely to bring what no query has brought yet.',
        'It repeats no earlier query, neither in other forms or another order of its words nor in other words of the same meaning.{rules}',
        'strategy: what you do differently this time, in a few words.',
        'target_speaker: the one person whose words you look for; null if it may be anybody.',
        'It is for the gap below and for nothing else.',
        'It has every constraint as it is written there; a date in brackets belongs to it.',
        'It has none of the words to avoid, and beside the constraints none that stands nowhere in the memory.',
        'Where the gap is which of two things is meant, it names something that only one of them has.',
        'Where a time is needed, it has the relative phrase and the date that this means.',
        "Where one person's words are missing, it has the name, and is worded as that person would have said it.",
    ],
    ('memnb', 'probes'): [
        'You test a memory of a conversation.',
        'From the new session, and from the earlier messages that are shown, write {count} questions that the memory must be able to answer from now on, each with its answer.',
        'Reply with one JSON object:',
        'probes: a list of {count}.',
        'Each has',
        'question: it makes sense alone, names the people, and does not give its answer away.',
        'answer: in the words of the messages, complete: a name, an object, a number, a date, a short sentence.',
        'A time is a date, reckoned from the date of its message.',
        'It answers every part of the question.',
        'The reply:',
        'kind: one of the kinds below.',
        'turns: the ids, in brackets, of all messages that the answer rests on.',
        'Mix the kinds:',
        'Ask for what would be missed: names, objects, titles, numbers, places, dates.',
        'Example, one of each kind. The new session, of Mon 15 April 2024:',
        'An earlier message: (D1:3, Sat 2 March 2024, 9:00 am) Rolf: I play the viola.',
        'Earlier messages:',
    ],
    ('memnb', 'mark'): [
        'You mark answers to questions against gold answers.',
        'An answer is right where it says what its gold answer says, in whatever words, forms of dates or length; it is wrong where something that the gold answer has is missing, is less definite, or is otherwise.',
        'Reply with one JSON object: "wrong", the numbers of the wrong answers, [] where all are right.',
    ],
    ('memnb', 'repair'): [
        'A question was put to a memory of a conversation, and it failed.',
        'Decide whether one fact must be written into it so that it can answer.',
        'Reply with one JSON object:',
        'op: "ADD_FACT"; or "NOOP" where the messages do not say what is asked, or where the answer given is as good as the gold answer.',
        'fact: with ADD_FACT one concrete sentence, clear when read alone and close to the question: names, objects, numbers as the messages have them; a relative time as it was said, and behind it in brackets the date that it means.',
        'Nothing that only the gold answer says.',
        'speaker: whom it is about.',
        'turns: the ids, given in brackets, of the messages that state it.',
        'quote: the words of one of these messages, copied exactly.',
        'reason: a few words.',
        'What it looks like is one of two: "missing", the memory has it nowhere; "not retrieved", it has it and did not bring it.',
        'Example.',
        'The question: Who gave Rolf the ring? The gold answer: Ada.',
        'The answer given: nobody knows.',
        'The message: (D2:5, Mon 1 April 2024) Rolf: My aunt Ada gave me this ring, for courage.',
        "The question: What is the number of Rolf's passport? The gold answer: nobody says it.",
        'Gold answer: {gold}',
        'Answer given: {answer}',
        'What it looks like: {fault}.',
        'Speakers: {speakers}',
        'What the memory brought:',
    ],
    ('memnb', 'consolidate'): [
        'You keep a memory free of repetitions.',
        'A fact is to be written; entries like it are shown.',
        'Reply with one JSON object:',
        'action: "SKIP" where an entry says all of the fact; "MERGE" where fact and entry are about the very same event or attribute, at the same time, and the fact adds a detail; "INSERT" otherwise.',
        'Another date, or another occasion of the same activity, is always INSERT.',  # table 15, the critical rule
        'target: with MERGE the id of the entry, else null.',
        'text: with MERGE one entry that says everything that both say, in their words, else "".',
        'A vague phrase ("somebody") gives way to the sharp one.',
        'reason: a few words.',
        'The fact: {dated_fact}',
    ],
    ('paper', 'guide'): [
        'You check the quality of a memory that is built from a conversation.',
        'List every distinct factual statement of the new message.',
        'Each fact is an atomic statement that makes sense alone and could answer a question with who, what, when, where or how many.',
        'Extract every fact and skip nothing; where in doubt, extract it.',
        "Use the speaker's exact words for names, objects, dates, places and quantities.",
        'One fact an item.',
        'Do not merge several into one.',
        'Begin each fact with the name of its speaker in square brackets.',
        'Do not interpret feelings, themes, values or symbols.',
        'Do not paraphrase: keep the original phrasing.',
        'Reply with one JSON object: "facts", a list of texts such as',
        'The new messages:',
    ],
    ('paper', 'diagnose'): [
        'You are the meta-thinker of a system that answers questions from a memory.',
        'You check whether a question can be answered from what was retrieved.',
        'Your goal: as few false NOT_ANSWERABLE as can be, while the answer stays grounded in the evidence.',
        'Blocking gap: reply NOT_ANSWERABLE only if a missing fact or an unresolved contradiction would change the final short answer.',
        'If a best supported answer is stable already, reply ANSWERABLE.',
        'Time: require an exact day or date only if the question asks for one; otherwise accept the best unambiguous granularity.',
        'Who, what, which: one clearly supported entity is enough, unless the question asks for all of them.',
        'Contradictions: only those that change the final answer are blocking.',
        'Stalling: after three or more queries with the same gap that does not block, prefer ANSWERABLE at the best supported granularity.',
        'Reply with one JSON object:',
        'decision: "ANSWERABLE" or "NOT_ANSWERABLE".',
        'reason: one to three sentences, about what is asked for only.',
        'key_gaps: the gaps, ranked, with NOT_ANSWERABLE; else an empty list.',
        'missing_speaker: the name of one speaker, "both" or "unknown".',
        'time_need: the granularity that is required and the anchor that is missing, or "NONE".',
        'retrieval_guidance: an object with the goal of the next search, suggested_queries, keywords, constraints, and avoid_terms.',
        'Retrieved memories:',
        'Previous queries:',
    ],
    ('paper', 'rewrite'): [
        'Retrieved evidence:',
        "You are an expert who rewrites queries for the search of a conversation's memory.",
        'Write exactly one new query that targets the top gap and is as likely as can be to retrieve new evidence.',
        'Do not repeat an earlier query, verbatim or nearly so.',
        'It must target the top gap only, and not several.',
        'It must have all constraints, people and times, exactly as they are given.',
        'If a time is needed, give the relative phrase ("last year") and the absolute time that is computed from it ("2021").',
        'It must not have the exhausted terms.',
        'If there is a contradiction, prefer a query that tells the two apart.',
        "If a speaker is missing, word the query from that speaker's perspective.",
        'Reply with one JSON object: "rewritten_query", "strategy" and "target_speaker".',
        'Previous queries, and what each retrieved:',
    ],
    ('paper', 'mark'): [
        'You label an answer to a question as CORRECT or WRONG.',
        'The gold answer is usually concise, and the generated one may be longer.',
        'Be generous: as long as it touches on the same topic, it is CORRECT.',
        'Be generous with the forms of times, too:',
        'Reply with one JSON object: "explanation", a short one, and "label".',
        'Gold answer: {gold}',
    ],
    ('paper', 'repair'): [
        'You repair the memory of a conversation between two speakers.',
        'Decide whether to add one fact, so that the question can be answered next time.',
        'In this order:',
        'If the gold answer is that nothing is known, NOOP.',
        'If the answer of the model is wrong or incomplete, ADD_FACT; the fact has the key information of the gold answer.',
        'If the two answers are essentially the same, NOOP.',
        'The fact is concrete, specific and easy to retrieve, with names, dates and details.',
        'Keep relative dates as they were said; do not make them absolute.',
        'Reply with one JSON object:',
        'op: "ADD_FACT" or "NOOP".',
        'target_speaker: whom the fact is about.',
        'fact, evidence_span (may be ""), confidence (0 to 1), reason.',
        'Example.',
        "Question: What does the ring of Rolf's aunt stand for? Gold: courage.",
        'Model: the memory has no ring.',
        "Question: What is the number of Rolf's passport? Gold: not mentioned.",
        'Gold answer: {gold}',
        'Model answer: {answer}',
        'Retrieved evidence:',
    ],
    ('paper', 'consolidate'): [
        'You keep a memory free of duplicates.',
        'A new fact is proposed; entries that are like it are shown, with their similarities.',
        'SKIP: an entry covers the new fact fully.',
        'MERGE: the fact describes the same event or attribute as an entry and adds a detail that is missing; combine the two into one.',
        'INSERT: the fact is about another topic, event or period.',
        'Critical: different dates, or different occasions of the same activity, are INSERT, never MERGE.',
        'Merge only where both texts mean exactly the same single event at the same time.',
        'Reply with one JSON object: "action", "merge_target_index" (-1 without MERGE), "merged_fact" ("" without MERGE) and "reason".',
        'New fact: {fact}',
    ],
}


# ---- the examples of the prompts: each is read from the text of the prompt, and done


def examples(text, reply):
    "The replies in a prompt."
    return [
        reply.model_validate_json(one)
        for one in re.findall(r'^\{".*\}$', text.replace('{{', '{').replace('}}', '}'), re.MULTILINE)
    ]


def turns_in(text):
    "The messages of an example."
    return [Turn(*one) for one in re.findall(r'\((D\d+:\d+)(?:, [^()]*)?\) (\w+): (.*)$', text, re.MULTILINE)]


def entries_in(text):
    "The entries of an example, by id; the day before one is when it was so."
    made = {}
    for id, day, who, said in re.findall(r'^ *(?:- )?(m\d+) (?:\[(.*)\] )?(\w+): (.*)$', text, re.MULTILINE):
        made[id] = Entry(id, said, (), parse_date(day), who)
    return made


def grounding_in(text, earlier=()):
    "The messages of an example as the session that they are of."
    [day] = re.findall(r'(?:messages|session), of (.*):$', text, re.MULTILINE)
    turns = turns_in(text)
    own = tuple(turn for turn in turns if turn.id not in earlier)
    return Grounding(
        Session('now', own, datetime.combine(parse_date(day).start, time(9))),
        [turn for turn in turns if turn.id in earlier],
        ('Ines', 'Rolf'),
    )


def is_founded(text, grounding, ids, more=()):
    return set(ids) <= set(grounding.turns) and not _unfounded(text, [*grounding.ground(ids), *more])


def the_weekdays(text):
    days = re.findall(r'\b([A-Z][a-z]{2}) (\d+ [A-Z][a-z]+ 20\d\d)', text)
    assert days and all(short_weekday(parse_date(day).start) == name for name, day in days)


def the_guidance(text):
    [guided], grounding, entries = examples(text, GuidanceReply), grounding_in(text), entries_in(text)
    for fact in guided.facts:
        assert is_founded(fact.text, grounding, fact.turns) and {fact.speaker} == {
            grounding.turns[id].speaker for id in fact.turns
        }
    [day] = re.findall(r'\(.*?\)', guided.facts[0].text)
    assert day in ' '.join(grounding.ground(guided.facts[0].turns))
    conflict, importance = guided.points
    assert (conflict.kind, importance.kind, importance.entry) == ('conflict', 'importance', None) and {
        conflict.fact,
        importance.fact,
    } == {1, 2}
    assert 'hive' in stems(entries[conflict.entry].text) & stems(guided.facts[conflict.fact - 1].text)
    assert 'cello' in stems(importance.note) & stems(guided.facts[importance.fact - 1].text)


def the_edits(text):
    grounding, entries, replies = grounding_in(text), entries_in(text), examples(text, EditsReply)
    for written, left in zip(
        replies,
        (
            [('m3', 'Rolf plays the viola.'), ('m8', 'sold'), ('', 'cello')],
            [('m3', 'viola'), ('m8', 'sold'), ('m8', 'cello')],
        ),
        strict=True,
    ):
        now = {id: entry.text for id, entry in entries.items()}
        for line in written.edits:
            assert line.action in ('ADD', 'UPDATE') and line.speaker == grounding.turns[line.turns[0]].speaker
            assert is_founded(line.text, grounding, line.turns)
            if line.action == 'UPDATE':  # it says again what the entry said; what was so before where that is not kept
                assert stems(now[line.entry]) <= stems(line.text)
                assert ('before' in line.text) == (written is replies[1])
            now[line.entry if line.action == 'UPDATE' else ''] = line.text
        assert all(words in now[id] for id, words in left) and ('13 April' in ' '.join(now.values()))
    assert len(replies[1].edits) == 1 and stems('sold hive cello') <= stems(replies[1].edits[0].text)


def the_diagnosis(text):
    [judged] = examples(text, Diagnosis)
    [question] = re.findall(r'The question: (.*\?) The only', text)
    [note] = turns_in(re.sub(r'\[.*?2023\] ', '', text))
    assert (
        judged.decision == 'NOT-ANSWERABLE'
        and stems(judged.gaps[0]) <= stems(question)
        and stems('move Ghent').isdisjoint(stems(note.text))
    )
    assert judged.missing_speaker in question and judged.time_need and not judged.avoid and judged.notes == [note.id]
    assert constrained_query('', judged, [question], ['Ines', 'Rolf']) == judged.queries[0]
    assert judged.constraints and {*judged.constraints} <= {*re.findall(r'\w+', question)}
    assert len(judged.reason.split()) > 3


def the_probes(text):
    [reply], grounding = examples(text, ProbesReply), grounding_in(text, earlier=('D1:3',))
    probes = [grounding.probe(number, line) for number, line in enumerate(reply.probes, 1)]
    assert [probe.kind for probe in probes] == list(PROBE_KINDS) and not grounding.notes
    assert [probe.sources for probe in probes] == [('D4:1',), ('D1:3', 'D4:1'), ('D4:1',)]
    for probe in probes:
        ground = ' '.join(grounding.ground(probe.sources))
        assert (
            is_founded(probe.answer, grounding, probe.sources)
            and stems(probe.answer) <= stems(ground)
            and not stems(probe.answer) <= stems(probe.question)
        )
    assert probes[2].answer == str(parse_date('13 April 2024')) and all(
        name in ('Ines', 'Rolf') for name in re.findall(r'[A-Z]\w+(?= )', probes[1].question)[1:]
    )


def the_repair(text):
    added, noop = examples(text, RepairReply)
    golds = re.findall(r'[Gg]old(?: answer)?: ([^.{]*)\.', text)
    asked = re.findall(r'[Qq]uestion: (.*?)\?', text)
    assert (added.op, noop.op, noop.fact, len(golds), len(asked)) == ('ADD_FACT', 'NOOP', '', 2, 2)
    assert (
        stems(golds[0]) <= stems(added.fact) and coverage(added.fact, [asked[0]]) >= 0.5 and added.speaker in asked[0]
    )
    assert (
        re.search('nobody says|not mentioned', golds[1])
        and added.reason == 'missing'
        and noop.reason in ('nobody says it', 'unanswerable')
    )
    return added


def the_grounded_repair(text):
    added, [turn] = the_repair(text), turns_in(text.replace('The message: ', '\n'))
    assert turn.speaker == added.speaker
    assert Grounding(Session('D2', (turn,), datetime(2024, 4, 1, 9))).fact(added)[0].sources == (turn.id,)


def the_papers_repair(text):
    added = the_repair(text)
    assert not added.quote and Grounding(RING).fact(added)[0].sources == ('D2:5',)
    for raw in re.findall(r'^\{".*\}$', text.replace('{{', '{').replace('}}', '}'), re.MULTILINE):
        assert 0.5 < prompts.PAPER_REPAIR.form.model_validate_json(raw).confidence <= 1 and ', "confidence": 0.9' in raw


def the_consolidation(text):
    entries, replies = entries_in(text), examples(text, Consolidation)
    facts = [
        Entry('', said, ('D2:5',), parse_date(day), who)
        for day, who, said in re.findall(r'^Example\. The fact: (?:\[(.*)\] )?(\w+): (.*)$', text, re.MULTILINE)
    ]
    days = {entry.time for entry in (*entries.values(), *facts)}
    assert [reply.action for reply in replies] == ['MERGE', 'INSERT'] and days == {
        None,
        parse_date('2 May 2024'),
        parse_date('3 May 2024'),
    }
    assert facts[1].text == entries['m6'].text and stems('rowed lake') <= stems(facts[1].text)
    for fact, entry, reply in zip(facts, entries.values(), replies, strict=True):
        done = consolidate(fact, [entry], reply)
        assert (done.action, done.target, done.text) == (reply.action, reply.target, reply.text) and reply.reason
    assert (
        consolidate(facts[1], [entries['m6']], Consolidation(action='MERGE', target='m6', text=facts[1].text)).action
        == 'INSERT'
    )


def the_forms_of_times(text):
    [pair] = re.findall(r'"(May \w+)" and "(\w+ May)" are the same\.', text)
    assert parse_date(f'{pair[0]} 2024') == parse_date(f'{pair[1]} 2024')


def the_form_of_a_fact(text):
    [line] = re.findall(r'such as "(.*)"\.', text)
    assert StatedFact.interpret(line) == {'text': 'Rolf plays the viola', 'speaker': 'Ines'}


CHECKS = {
    ('memnb', 'guide'): [the_guidance, the_weekdays],
    ('memnb', 'write'): [the_edits, the_weekdays],
    ('memnb', 'diagnose'): [the_diagnosis, the_weekdays],
    ('memnb', 'probes'): [the_probes, the_weekdays],
    ('memnb', 'repair'): [the_grounded_repair, the_weekdays],
    ('memnb', 'consolidate'): [the_consolidation, the_weekdays],
    ('paper', 'guide'): [the_form_of_a_fact],
    ('paper', 'mark'): [the_forms_of_times],
    ('paper', 'repair'): [the_papers_repair],
}
TALK = Session(
    'D4',
    (Turn('D4:1', 'Ines', 'Hi! We sold the old hive on Saturday, and Rolf is learning the cello now.'),),
    datetime(2024, 4, 15, 9),
)
RING = Session('D2', (Turn('D2:5', 'Rolf', 'My aunt Ada gave me this ring, for courage.'),), datetime(2024, 4, 1, 9))


def text_of(style, name):
    [role] = [role for role in STYLES[style] if role.name == name]
    return texts_of(role, MORE.get(name, ()) if style == 'memnb' else ())


PROMPTS = {
    f'{name}, {style}': (text_of(style, name), duties, CHECKS.get((style, name), ()))
    for (style, name), duties in DUTIES.items()
}


@pytest.mark.parametrize('name', PROMPTS)
def test_a_prompt_has_its_duties_and_no_part_of_it_can_change_unseen(name):
    assert not missing(*PROMPTS[name])
    assert not survivors(*PROMPTS[name])


def test_each_prompt_of_memma_stands_in_the_table():
    assert {('memnb', role.name) for role in STYLES['memnb']} - set(DUTIES) == {('memnb', 'answer')}  # in tests/memr3
    assert {(style, role.name) for style in STYLES for role in STYLES[style]} >= set(DUTIES)


WRONG = [  # examples that teach something else than the rules and the calendar say
    ('guide', '(13 April 2024)', '(14 April 2024)'), ('guide', '"fact": 1', '"fact": 2'), ('guide', '"entry": "m8"', '"entry": "m3"'),
    ('write', '; they owned it before', ''), ('write', '(13 April 2024).", "entry"', '(13 April 2024); they owned it before.", "entry"'), ('write', 'Rolf is learning the cello.", "entry"', 'Rolf is learning the flute, Ada says.", "entry"'),
    ('diagnose', '"constraints": ["Rolf"]', '"constraints": ["Ines"]'), ('diagnose', '"notes": ["D4:1"]', '"notes": []'), ('diagnose', 'Rolf on his music teacher, who left for Ghent', "Rolf's cello teacher moving to Ghent"),
    ('probes', '"13 April 2024"', '"15 April 2024"'), ('probes', '["D1:3", "D4:1"]', '["D1:3"]'), ('probes', '"the cello", "kind"', '"the flute", "kind"'),
    ('repair', 'My aunt Ada gave me this ring"', 'My aunt Eva gave me this ring"'), ('repair', 'a ring, for courage.", "speaker"', 'a ring from Ghent.", "speaker"'),
    ('consolidate', 'gave Rolf a ring in Ghent, for courage."', 'gave Rolf a ring in Bruges, for courage."'), ('consolidate', '"INSERT", "target": null', '"MERGE", "target": "m6"'),
]  # fmt: skip


@pytest.mark.parametrize('name, right, wrong', WRONG)
def test_a_wrong_example_is_refused(name, right, wrong):
    text = text_of('memnb', name)
    assert right in text
    check, _ = CHECKS['memnb', name]
    check(text)
    with pytest.raises((AssertionError, AttributeError, ValueError, KeyError, TypeError)):
        check(text.replace(right, wrong))


# ---- what a role is given stands in its prompt


def inputs_with(mark):
    "Inputs of all roles, each text with a mark and its own name."

    def turn(id, name):
        return Turn(id, 'Ines', f'{mark} {name}')

    entry, snippet = Entry('m1', f'{mark} entry', (), None, 'Ines'), Entry('m2', f'{mark} evidence', (), None, 'Ines')
    chunk = Session('D9', (turn('D9:1', 'turn'),), datetime(2024, 4, 15, 9))
    asked = {
        'question': f'{mark} question',
        'queries': (f'{mark} query',),
        'evidence': (snippet,),
        'speakers': (f'{mark} speaker',),
    }
    told = Diagnosis(
        decision='NOT-ANSWERABLE',
        goal=f'{mark} goal',
        **{name: [f'{mark} {name}'] for name in ('gaps', 'queries', 'keywords', 'constraints', 'avoid')},
        missing_speaker=f'{mark} missing',
        notes=['m2'],
        time_need=f'{mark} time',
    )
    probe = prompts.Probe(f'{mark} question', f'{mark} gold')
    guided = GuidanceReply(
        facts=[{'text': f'{mark} fact', 'turns': ['D9:1']}],
        points=[{'kind': 'importance', 'fact': 1, 'note': f'{mark} point'}],
    )
    return {
        'guide': {'chunk': chunk, 'view': [entry]},
        'write': {'chunk': chunk, 'view': [entry, snippet], 'guidance': guided, 'found': [[snippet]], 'undone': [f'{mark} undone']},
        'diagnose': {**asked, 'queries': ('first', f'{mark} query'), 'gaps': (f'{mark} gap',), 'asked': parse_date('1 May 2024')},
        'rewrite': {**asked, 'diagnosis': told, 'trace': (prompts.Search(f'{mark} trace', 1, ('m2',), f' {mark} remark'),)},
        'probes': {'session': chunk, 'related': (turn('D1:1', 'related'),), 'kinds': {'single': f'{mark} kind'}},
        'mark': {'question': f'{mark} question', 'gold': f'{mark} gold', 'answer': f'{mark} answer'},
        'marks': {'rows': [(f'{mark} question', f'{mark} gold', f'{mark} answer')]},
        'repair': {'probe': probe, 'answer': f'{mark} answer', 'fault': f'{mark} fault', 'turns': ((turn('D9:1', 'turn'), None),), 'evidence': (snippet,),
                   'speakers': (f'{mark} speaker',), 'refused': f'{mark} refusal'},
        'consolidate': {'fact': replace(entry, text=f'{mark} fact'), 'entries': (entry,), 'scores': (0.25,), 'refused': f'{mark} refusal'},
    }  # fmt: skip


GIVEN = {
    ('memnb', 'guide'): {'turn', 'entry'}, ('paper', 'guide'): {'turn', 'entry'},
    ('memnb', 'write'): {'turn', 'entry', 'evidence', 'fact', 'point', 'undone'},
    ('memnb', 'diagnose'): {'question', 'query', 'evidence', 'speaker', 'gap'},
    ('paper', 'diagnose'): {'question', 'query', 'evidence', 'speaker'},  # table 10
    ('memnb', 'rewrite'): {'question', 'evidence', 'trace', 'remark', 'goal', 'gaps', 'queries', 'keywords', 'constraints', 'avoid', 'missing', 'time'},  # equation 3
    ('paper', 'rewrite'): {'question', 'trace', 'evidence', 'goal', 'gaps', 'queries', 'keywords', 'constraints', 'avoid', 'missing', 'time'},  # table 12, and equation 3
    ('memnb', 'probes'): {'turn', 'related', 'kind'},  # equation 5
    ('memnb', 'mark'): {'question', 'gold', 'answer'}, ('paper', 'mark'): {'question', 'gold', 'answer'},
    ('memnb', 'repair'): {'question', 'gold', 'answer', 'fault', 'turn', 'evidence', 'speaker', 'refusal'},
    ('paper', 'repair'): {'question', 'gold', 'answer', 'evidence', 'speaker', 'refusal'},  # table 13: no messages
    ('memnb', 'consolidate'): {'fact', 'entry', 'refusal'}, ('paper', 'consolidate'): {'fact', 'entry'},
}  # fmt: skip


@pytest.mark.parametrize('style, name', GIVEN)
def test_a_prompt_shows_what_its_role_is_given(style, name):
    [role] = [role for role in STYLES[style] if role.name == name]
    shown = '\n'.join(role.render(inputs_with('QUINCE')['marks' if (style, name) == ('memnb', 'mark') else name]))
    assert set(re.findall(r'QUINCE (\w+)', shown)) == GIVEN[style, name]
    assert ('similarity 0.25' in shown) == ((style, name) == ('paper', 'consolidate')) and (
        'asked on Wed 1 May 2024' in shown
    ) == (name == 'diagnose')


# ---- the paper's style, from prompt to reply

PAPERS = {
    'guide': {'facts': ['[Ines] We sold the old hive on Saturday', '[Ines] Rolf is learning the cello']},
    'write': {
        'edits': [
            {
                'action': 'ADD',
                'text': 'Ines and Rolf sold the old hive.',
                'entry': None,
                'speaker': 'Ines',
                'turns': ['D4:1'],
                'reason': '',
            }
        ]
    },
    'probes': {
        'probes': [
            {
                'question': 'Which instrument is Rolf learning?',
                'answer': 'the cello',
                'kind': 'single',
                'turns': ['D4:1'],
            }
        ]
    },
    'answer': {'answer': 'nothing'},
    'mark': {'explanation': 'no', 'label': 'WRONG'},
    'repair': {
        'op': 'ADD_FACT',
        'target_speaker': 'Rolf',
        'fact': 'Rolf is learning the cello now.',
        'evidence_span': '',
        'confidence': 0.9,
        'reason': '',
    },
    'consolidate': {'action': 'INSERT', 'merge_target_index': -1, 'merged_fact': '', 'reason': ''},
    'diagnose': {
        'decision': 'NOT_ANSWERABLE',
        'reason': 'no',
        'key_gaps': ['which instrument'],
        'missing_speaker': 'both',
        'time_need': 'NONE',
        'retrieval_guidance': {
            'goal': 'the instrument',
            'suggested_queries': ['Rolf cello'],
            'keywords': ['cello'],
            'constraints': ['Rolf'],
            'avoid_terms': ['hive'],
        },
    },
    'rewrite': {'rewritten_query': 'Rolf instrument lessons', 'strategy': 'narrower', 'target_speaker': 'Rolf'},
}


def test_the_papers_prompts_are_asked_and_their_forms_are_read():
    heard = []

    def model(prompt, role):
        heard.append((role, prompt))
        return json.dumps(PAPERS[role])

    memory = MemMA(lm=FunctionLM(model), settings='paper')
    result = memory.remember(TALK)
    assert [entry.text for entry in memory.bank] == [
        'Ines and Rolf sold the old hive.',
        'Rolf is learning the cello now.',
    ]
    [repair] = result.evolution.written
    assert (repair.fact.sources, repair.fact.speaker) == (('D4:1',), 'Ines')  # who said it
    trace = memory.ask('Which instrument does Rolf play?')
    assert [step.query for step in trace.steps if step.kind == 'search'][
        1
    ] == 'Rolf instrument lessons' and trace.gaps == ['which instrument']
    said = dict(reversed(heard))  # the first prompt of each role
    for role, words in (
        ('guide', 'square brackets'),
        ('mark', 'Be generous'),
        ('repair', 'confidence'),
        ('consolidate', '(similarity 0.'),
        ('diagnose', 'key_gaps'),
        ('rewrite', 'Goal: the instrument'),
    ):
        assert words in said[role]
    assert (
        'exactly one edit' in said['write']
        and heard[-1][0] == 'answer'
        and 'No information available' not in heard[-1][1]
    )


def test_the_papers_settings_and_a_role_of_ones_own():
    loop = MemMA(settings='paper')
    assert (loop.refinements, loop.k, loop.probes, loop.insist, loop.writing, loop.may_refuse) == (
        3,
        30,
        5,
        0,
        {'turns': 1, 'per': 'chunk', 'deletions': None},
        False,
    )
    assert loop.roles['mark'] is prompts.PAPER_MARK and MemMA().roles['mark'] is prompts.MARK
    assert Coordinated([], settings='paper', insist=2).insist == 2 and all(
        one.source for one in (*Coordinated.PAPER, *MemMA.PAPER)
    )
    asked = []

    def model(prompt, role):
        asked.append(prompt)
        return json.dumps(PAPERS[role])

    for style, is_lenient in (('paper', True), ('memnb', False)):
        asked.clear()
        evolve(MemoryBank(), TALK, FunctionLM(model), roles=choose_roles(STYLES, style))
        assert any('Be generous' in prompt for prompt in asked) is is_lenient
    asked.clear()
    construct(MemoryBank(), TALK, FunctionLM(model), roles=choose_roles(STYLES, 'paper'))
    assert 'square brackets' in asked[0]


def test_the_table_of_settings_has_our_value_of_an_inherited_option():
    here = {row['setting']: row['here'] for row in settings_table([METHODS['memma']])}
    assert (here['insist'], here['k'], here['prompts'], here['model']) == ('1', '30', 'memnb', '')
