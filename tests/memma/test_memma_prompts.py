"""What the prompts of MemMA ask of a model, by duty; their examples, done; and the paper's style, from prompt to reply."""
import json
import re
from dataclasses import replace
from datetime import datetime

import pytest
from prompt_mutants import missing, survivors, texts_of

from memnb.core.conversation import Session, Turn
from memnb.core.models import FunctionLM
from memnb.core.roles import RuleLM
from memnb.core.text import event_time
from memnb.memma import prompts
from memnb.memma.bank import Edit, Entry, MemoryBank
from memnb.memma.loop import MemMA
from memnb.memma.probe_repair import consolidate, evolve, Grounding
from memnb.memma.prompts import Consolidation, Diagnosis, EditsReply, GuidanceReply, PromptedLM, RepairReply, STYLES
from memnb.memma.retrieval import Coordinated

MORE = {'write': (*prompts._NUMBERS.values(), *prompts._EXAMPLES.values()), 'rewrite': (prompts._RULES,)}  # what the fields put in
DUTIES = {
    ('memnb', 'guide'): [
        'You check the quality of a memory that is being built from a conversation.',
        'You do not write into it: you tell the one who writes what there is, and what to mind.',
        'Reply with one JSON object:',
        'facts: every distinct factual statement of the new messages, one each, in order.',
        'A fact is atomic, makes sense alone, and could answer a question with who, what, when, where or how many.',
        "Keep the speaker's exact words for names, objects, titles, dates, places and quantities.",
        'What a shared picture shows is a fact, too.',
        'Leave out nothing that could be asked for; where in doubt, take it.',
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
        'The new messages, of 15 April 2024:',
        '(D4:1) Ines: Hi! We sold the old hive on Saturday, and Rolf is learning the cello now.',
        'm3 [2 March 2024] Rolf: Rolf plays the viola.',
        'm8 [9 March 2024] Ines: Ines and Rolf own an old hive.',
        'The reply:',
        '{{"facts": [{{"text": "Ines and Rolf sold the old hive on Saturday (13 April 2024).", "speaker": "Ines", "turns": ["D4:1"]}}, {{"text": "Rolf is learning the cello.", "speaker": "Ines", "turns": ["D4:1"]}}], "points": [{{"kind": "conflict", "fact": 1, "entry": "m8", "note": "they own it no more"}}, {{"kind": "importance", "fact": 2, "entry": null, "note": "a second instrument beside the viola: keep cello"}}]}}',
        'The new messages:',
    ],
    ('memnb', 'write'): [
        'You keep the memory of a conversation.',
        'For the new messages, choose what to write: {number}.',
        'You may be given the facts of the messages, and what to mind about them; then write every fact, unless an entry says it already.',
        'Reply with one JSON object:',
        'edits: a list, in order.',
        'Each has',
        'action: ADD for what no entry says; UPDATE where an entry must say something else from now on, or more of the same; DELETE where an entry is no longer so and nothing takes its place; NONE where nothing is worth writing, such as a greeting, or where an entry says it already.',
        'text: for ADD and UPDATE what shall stand there: a sentence that makes sense alone, with a name in place of I and you, the exact names, objects, places, numbers and dates, and behind a relative time the date in brackets; else "".',
        'The text of an UPDATE takes the place of the whole entry, so it says again what else the entry says, and what was so before.',
        'entry: for UPDATE and DELETE the id of an entry that is shown; else null.',
        'speaker: who said it.',
        'turns: the ids, given in brackets, of the messages that it rests on.',
        'reason: a few words.',
        'Never let one fact take the place of another that can be so beside it: who plays the violin may play the clarinet, too.',
        'What happened on another date is another fact.',
        'Write no feeling, theme or meaning that nobody stated.',
        'Example.',
        'The new messages, of 15 April 2024:',
        '(D4:1) Ines: Hi! We sold the old hive on Saturday, and Rolf is learning the cello now.',
        'm3 [2 March 2024] Rolf: Rolf plays the viola.',
        'm8 [9 March 2024] Ines: Ines and Rolf own an old hive.',
        'The new messages:',
        'Facts of the messages:',
        'What to mind:',
        'one edit for each fact',
        'The reply, with one edit for each fact:',
        '{"edits": [{"action": "UPDATE", "text": "Ines and Rolf sold the old hive on Saturday (13 April 2024); they owned it before.", "entry": "m8", "speaker": "Ines", "turns": ["D4:1"], "reason": "sold"}, {"action": "ADD", "text": "Rolf is learning the cello.", "entry": null, "speaker": "Ines", "turns": ["D4:1"], "reason": "a second instrument"}]}',
        'exactly one edit for all of them together',
        'The reply, with one edit for all:',
        '{"edits": [{"action": "ADD", "text": "Ines and Rolf sold the old hive on Saturday (13 April 2024), and Rolf is learning the cello.", "entry": null, "speaker": "Ines", "turns": ["D4:1"], "reason": "a sale and an instrument"}]}',
    ],
    ('memnb', 'diagnose'): [
        'You judge whether the notes from a memory suffice to answer a question.',
        'You do not answer it.',
        'A needless search brings noise, so be slow to ask for one.',
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
        'goal: what the next search shall find, in a few words; "" with ANSWERABLE.',
        'queries: with NOT-ANSWERABLE one to three short search texts for the first gap, unlike the queries so far; else [].',
        'keywords: words that a line with the answer is likely to have.',
        'constraints: names and times, as the question has them, that the next query must have.',
        'Behind a relative time write in brackets the date that it means, if you know the day of asking.',
        'avoid: words of earlier queries that brought nothing; never the name of a person.',
        'Example.',
        "The question: When did Rolf's cello teacher move to Ghent? The only note: (D4:1) [6 May 2023] Ines: Rolf is learning the cello now.",
        '{{"decision": "NOT-ANSWERABLE", "reason": "No note tells when the teacher moved.", "gaps": ["when Rolf\'s cello teacher moved to Ghent"], "missing_speaker": "Rolf", "time_need": "any clear time", "goal": "the time of the move", "queries": ["Rolf on his music teacher, who left for Ghent"], "keywords": ["Ghent", "teacher"], "constraints": ["Rolf"], "avoid": []}}',
        '# Gaps that the queries after the first were for',
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
        'It has none of the words to avoid.',
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
        'No single word where two attributes are asked for.',
        'kind: one of the kinds below.',
        'turns: the ids, in brackets, of all messages that the answer rests on.',
        'Mix the kinds:',
        'Ask for what would be missed: names, objects, titles, numbers, places, dates.',
        'Examples of each kind, one after the other: "Which instrument is Rolf learning?" (the cello); "Which instruments has Rolf played, and who taught him the second?" (the viola, and the cello with Ada); "When did Ines and Rolf sell the hive?" (13 April 2024).',
        'Earlier messages:',
    ],
    ('memnb', 'mark'): [
        'You mark the answer to a question against the gold answer.',
        'CORRECT where it says what the gold answer says, in whatever words, forms of dates or length; WRONG where something that the gold answer has is missing, is less definite, or is otherwise.',
        'Reply with one JSON object: "label", "CORRECT" or "WRONG", and "reason", a few words.',
        'Gold answer: {gold}',
    ],
    ('memnb', 'repair'): [
        'A question was put to a memory of a conversation, and it failed.',
        'Decide whether one fact must be written into it so that it can answer.',
        'Reply with one JSON object:',
        'op: "ADD_FACT"; or "NOOP" where the messages do not say what is asked, where the answer given is as good as the gold answer, or where it looks like "not answered".',
        'fact: with ADD_FACT one concrete sentence, clear when read alone and close to the question: names, objects, numbers as the messages have them; a relative time as it was said, and behind it in brackets the date that it means.',
        'Nothing that only the gold answer says.',
        'speaker: whom it is about.',
        'turns: the ids, given in brackets, of the messages that state it.',
        'quote: the words of one of these messages, copied exactly.',
        'reason: a few words.',
        'What it looks like is one of three: "missing", the memory has it nowhere; "not retrieved", it has it and did not bring it; "not answered", it brought it, and no new fact can help.',
        'Example.',
        'The question: Who gave Rolf the ring? The gold answer: Ada.',
        'The answer given: nobody knows.',
        'The message: (D2:5) Rolf: My aunt Ada gave me this ring, for courage.',
        '{{"op": "ADD_FACT", "fact": "Rolf\'s aunt Ada gave Rolf a ring, for courage.", "speaker": "Rolf", "turns": ["D2:5"], "quote": "My aunt Ada gave me this ring", "reason": "missing"}}',
        "The question: What is the number of Rolf's passport? The gold answer: nobody says it.",
        '{{"op": "NOOP", "fact": "", "speaker": null, "turns": [], "quote": "", "reason": "nobody says it"}}',
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
        'Another date, or another occasion of the same activity, is always INSERT: "Rolf rowed on 3 May" and "Rolf rowed on 2 May" are two entries.',
        'target: with MERGE the id of the entry, else null.',
        'text: with MERGE one entry that says everything that both say, in their words, else "".',
        'A vague phrase ("somebody") gives way to the sharp one.',
        'reason: a few words.',
        'The fact: {fact}',
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
        'Reply with one JSON object: "facts", a list of texts such as "[Ines] Rolf plays the viola".',
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
        'retrieval_guidance: the goal of the next search, suggested queries, keywords, constraints, and terms to avoid.',
        'Retrieved memories:',
        'Previous queries:',
    ],
    ('paper', 'rewrite'): [
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
        'Be generous with the forms of times, too: "May 7th" and "7 May" are the same.',
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
        '{{"op": "ADD_FACT", "target_speaker": "Rolf", "fact": "Rolf\'s aunt gave him a ring that stands for courage", "evidence_span": "", "confidence": 0.9, "reason": "missing"}}',
        "Question: What is the number of Rolf's passport? Gold: not mentioned.",
        '{{"op": "NOOP", "target_speaker": "Rolf", "fact": "", "evidence_span": "", "confidence": 0.9, "reason": "unanswerable"}}',
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


@pytest.mark.parametrize('style, name', DUTIES)
def test_a_prompt_has_its_duties_and_no_part_of_it_can_change_unseen(style, name):
    [role] = [role for role in STYLES[style] if role.name == name]
    text = texts_of(role, MORE.get(name, ()) if style == 'memnb' else ())
    assert not missing(text, DUTIES[style, name])
    assert not survivors(text, DUTIES[style, name])


def test_each_prompt_of_memma_stands_in_the_table():
    assert {('memnb', role.name) for role in STYLES['memnb']} - set(DUTIES) == {('memnb', 'answer')}  # in tests/memr3
    assert {(style, role.name) for style in STYLES for role in STYLES[style]} >= set(DUTIES)


# ---- the examples of the prompts

def examples(text, reply):
    "The replies in a prompt."
    return [reply.model_validate_json(one) for one in re.findall(r'^\{.*\}$', text.replace('{{', '{').replace('}}', '}'), re.MULTILINE)]


TALK = Session('D4', (Turn('D4:1', 'Ines', 'Hi! We sold the old hive on Saturday, and Rolf is learning the cello now.'),), datetime(2024, 4, 15, 9))
RING = Session('D2', (Turn('D2:5', 'Rolf', 'My aunt Ada gave me this ring, for courage.'),), datetime(2024, 4, 1, 9))


def test_the_examples_of_the_guidance_and_of_writing_do_what_they_teach():
    [guided] = examples(prompts.GUIDE.system, GuidanceReply)
    assert [(point.kind, point.entry) for point in guided.points] == [('conflict', 'm8'), ('importance', None)]
    for per, left in (('fact', ['Rolf plays the viola.', 'Ines and Rolf sold', 'Rolf is learning the cello.']), ('chunk', ['Rolf plays the viola.', 'Ines and Rolf own', 'Ines and Rolf sold'])):
        bank = MemoryBank()
        for number in range(1, 9):
            bank.add('Rolf plays the viola.' if number == 3 else 'Ines and Rolf own an old hive.' if number == 8 else f'Note {number}.')
        [written] = examples(prompts._EXAMPLES[per], EditsReply)
        bank.apply([Edit(line.action, line.text, line.entry, sources=line.turns) for line in written.edits])
        assert all(any(entry.text.startswith(text) for entry in bank) for text in left)
    [judged] = examples(prompts.DIAGNOSE.system, Diagnosis)
    assert judged.decision == 'NOT-ANSWERABLE' and judged.goal and judged.keywords


def test_the_examples_of_repairs_are_accepted_and_another_date_is_inserted():
    fact, noop = examples(prompts.REPAIR.system, RepairReply)
    assert Grounding(RING).fact(fact)[0].sources == ('D2:5',) and noop.op == 'NOOP'
    fact, noop = examples(prompts.PAPER_REPAIR.system, RepairReply)
    assert Grounding(RING).fact(fact)[0].sources == ('D2:5',) and noop.op == 'NOOP'
    one, other = re.findall(r'"(Rolf rowed on \d May)"', prompts.CONSOLIDATE.system)
    entries = [Entry('m1', one, ('D2:5',), said=datetime(2024, 5, 4)), Entry('', other, ('D2:5',), said=datetime(2024, 5, 4))]
    dated = [replace(entry, time=event_time(entry)) for entry in entries]
    wish = Consolidation(action='MERGE', target='m1', text=f'{one} and {other}')
    assert consolidate(dated[1], dated[:1], wish).action == 'INSERT'


# ---- the paper's style, from prompt to reply

PAPERS = {
    'guide': {'facts': ['[Ines] We sold the old hive on Saturday', '[Ines] Rolf is learning the cello']},
    'write': {'edits': [{'action': 'ADD', 'text': 'Ines and Rolf sold the old hive.', 'entry': None, 'speaker': 'Ines', 'turns': ['D4:1'], 'reason': ''}]},
    'probes': {'probes': [{'question': 'Which instrument is Rolf learning?', 'answer': 'the cello', 'kind': 'single', 'turns': ['D4:1']}]},
    'answer': {'answer': 'nothing', 'sources': []},
    'mark': {'explanation': 'no', 'label': 'WRONG'},
    'repair': {'op': 'ADD_FACT', 'target_speaker': 'Rolf', 'fact': 'Rolf is learning the cello now.', 'evidence_span': '', 'confidence': 0.9, 'reason': ''},
    'consolidate': {'action': 'INSERT', 'merge_target_index': -1, 'merged_fact': '', 'reason': ''},
    'diagnose': {'decision': 'NOT_ANSWERABLE', 'reason': 'no', 'key_gaps': ['which instrument'], 'missing_speaker': 'both', 'time_need': 'NONE',
                 'retrieval_guidance': {'goal': 'the instrument', 'suggested_queries': ['Rolf cello'], 'keywords': ['cello'], 'constraints': ['Rolf'], 'avoid_terms': ['hive']}},
    'rewrite': {'rewritten_query': 'Rolf instrument lessons', 'strategy': 'narrower', 'target_speaker': 'Rolf'},
}


def test_the_papers_prompts_are_asked_and_their_forms_are_read():
    heard = []

    def model(prompt, role):
        heard.append((role, prompt))
        return json.dumps(PAPERS[role])
    memory = MemMA(lm=FunctionLM(model), settings='paper')
    result = memory.remember(TALK)
    assert [entry.text for entry in memory.bank] == ['Ines and Rolf sold the old hive.', 'Rolf is learning the cello now.']
    [repair] = result.evolution.written
    assert (repair.fact.sources, repair.fact.speaker) == (('D4:1',), 'Rolf')
    trace = memory.ask('Which instrument does Rolf play?')
    assert [step.query for step in trace.steps if step.kind == 'search'][1] == 'Rolf instrument lessons' and trace.gaps == ['which instrument']
    said = dict(reversed(heard))  # the first prompt of each role
    for role, words in (('guide', 'square brackets'), ('mark', 'Be generous'), ('repair', 'confidence'), ('consolidate', '(similarity 0.'), ('diagnose', 'key_gaps'),
                        ('rewrite', 'Goal: the instrument')):
        assert words in said[role]
    assert 'exactly one edit' in said['write'] and heard[-1][0] == 'answer' and 'No information available' not in heard[-1][1]


def test_the_papers_settings_and_a_role_of_ones_own():
    loop = MemMA(settings='paper')
    assert (loop.refinements, loop.k, loop.probes, loop.insist, loop.writing, loop.may_refuse) == (3, 30, 5, 0, {'turns': 1, 'per': 'chunk'}, False)
    assert loop.roles['mark'] is prompts.PAPER_MARK and MemMA().roles['mark'] is prompts.MARK
    assert Coordinated([], settings='paper', insist=2).insist == 2 and all(one.source for one in (*Coordinated.PAPER, *MemMA.PAPER))
    asked = []

    def model(prompt, role):
        asked.append(prompt)
        return json.dumps(PAPERS[role])
    for lm, is_lenient in ((PromptedLM(FunctionLM(model), 'paper'), True), (FunctionLM(model), False)):
        asked.clear()
        evolve(MemoryBank(), TALK, lm)
        assert any('Be generous' in prompt for prompt in asked) is is_lenient
    assert evolve(MemoryBank(), TALK, PromptedLM(RuleLM(), 'paper')).before == evolve(MemoryBank(), TALK).before
