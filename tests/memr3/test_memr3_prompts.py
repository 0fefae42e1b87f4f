"""What the prompts of MemR3 and of its baselines ask of a model, by duty; and the styles, settings and roles of a loop."""

import json
from dataclasses import replace

import pytest
from prompt_mutants import missing, survivors, texts_of

from memnb import load_sample, MemR3, RAG, SelfRAG
from memnb.baselines import FullContext, RagCotRag, THINK
from memnb.core import roles
from memnb.core.loop import Loop
from memnb.core.models import FunctionLM
from memnb.core.roles import ANSWER, NO_INFORMATION, PAPER_ANSWER, QUERY
from memnb.memr3 import prompts
from memnb.memr3.prompts import FINAL, PAPER_FINAL, PAPER_TRACK, TRACK

QUERIES = [  # appendix A.1: a poor and a good query, and two strategies with examples
    'Poor: "the place" (of what?). Good: "campsite of the kayak trip".',
    'Search for the event that the time is counted from. "What did she buy three weeks after the move?": search for "date of the move".',
    'Search for the thing itself where the question only describes it. "How far is she from the City of Light?": search for "distance to Paris".',
]
DUTIES = {
    'track': (
        TRACK,
        [
            'You keep the books while an assistant searches a long memory for the answer to one question.',
            'After every search, write down what is established and what is missing, and decide what happens next.',
            # evidence
            'short factual statements that bear on the question, each with "text" and "sources", the ids in brackets of the snippets or earlier evidence that it rests on.',
            'A date or a sum that follows from them is a statement, too.',
            'Only what is new or says more: earlier evidence stays.',
            'Keep names, numbers and dates exactly; where only a year or a range is known, write that. What is not known belongs to the gaps.',
            'withdrawn: the ids (e1, e2, ...) of earlier evidence that proved wrong or that a new statement says more exactly; else [].',
            # gaps
            'gaps: the specific facts that are missing for a complete answer; else []. Repeat an open gap under its id (g1, g2, ...), in new words where a part of it is settled ("g2: the day in May"); leave it out once it is settled.',
            'Where the question asks for all of several things, "whether there are more" is a gap until a search has looked for more; so is "whether it changed later" for a sum, a date or a state that may have changed.',
            # the query, the reasoning, the draft
            'retrieval_query: with "retrieve", else null. 5 to 15 words about one gap, unlike the queries so far.',
            'The question is searched with them: add what it does not say.',
            'For a time counted from an event, search for the date of the event; for a thing that is only described, for the thing by its name; for a word that stands nowhere in the memory, by another.',
            'reasoning: with "reflect", else null. Work towards the answer in steps; turn relative times into dates.',
            'detailed_answer: with "answer", else null. The answer as far as the evidence carries it, with absolute dates, inferred with care where it is thin; say in a few words what is not known.',
            'Where the evidence denies what the question takes for granted, say what was found instead.',
            'Reply with one JSON object:',
            # the directive
            'as soon as the evidence answers the question or denies what it takes for granted, or when two searches for the same gap have brought nothing',
            'while a search may close a gap',
            'only to reckon with the evidence',
            # the user's part
            '# Queries so far {queries} Bring the evidence and the gaps up to date, then decide.',
        ],
    ),
    "the paper's track": (
        PAPER_TRACK,
        [
            'You are the memory agent of an assistant: you plan what is looked up before the final answer is written for the user.',
            'Reply with one strict JSON object and nothing else:',
            'evidence: an array of short factual strings that bear on the question. Keep numbers, names and times.',
            'Without an exact value give the most specific one that is certain (a year, a range), without speculation.',
            'What is missing does not belong here.',
            'gaps: what is still missing between the evidence and a complete answer.',
            'decision: one of "retrieve", "answer", "reflect". Choose {directive}. These only with their decision:',
            'retrieval_query: with "retrieve". A standalone search text of 5 to 15 tokens.',
            *QUERIES,
            'detailed_answer: with "answer". A reply from the present evidence, with absolute dates and without speculation.',
            'If there is little evidence, give what is known, or infer cautiously from that evidence alone. Do not mention what is missing.',
            'reasoning: with "reflect". If another search is unlikely to bring more, think step by step through the evidence and the gaps, and work towards the answer; normalise times.',
            'No other keys.',
            'Update the evidence: a JSON array of concise factual strings that help to answer the question, with numbers, names and times; the most specific verified detail, no speculation.',
            'Update the gaps: remove what is resolved, add what newly blocks a full answer, and write "None" when nothing is missing.',
            'A retrieval_query must differ from the prior query.',
            'Decide what to do next, and return only the JSON object.',
            'to think over the evidence and the gaps',
            'ONLY when the evidence is solid and no gap is left',
        ],
    ),
    'answer': (
        ANSWER,
        [
            'You answer a question about a long conversation from the notes below.',
            'Each note begins with its id in brackets and, where it is known, the day on which it was said.',
            'A relative time in a note ("yesterday", "last year") counts from the day on which the note was said; answer with the date itself, as finely as the notes allow.',
            'Where a later note takes the place of an earlier one, the later one holds, unless the question asks about the past.',
            "Where two notes contradict each other and neither takes the other's place, name both, each with its day.",
            'The notes need not say the answer in so many words. What follows from them may be reckoned, or inferred with care: "Likely yes", "Probably Spain".',
            'What an assistant suggested, or wrote as an example, is not what the person did or said.',
            'How a person wants to be answered ("always in euros") holds for this answer, too.',
            'The draft, if there is one, is what the search proposes. Keep what the notes support, correct the rest, and be as exact as the notes are.',
            'The question decides the form.',
            "A name, a date, a number, yes or no: a few words, in the notes' own words where they fit, without an explanation.",
            'A list: every item, in order where an order is asked for. A reason, advice or a summary: as many sentences as it takes.',
            'If the notes tell a part of what is asked, give that part and say in a few words what they do not tell.',
            'If the notes deny what the question takes for granted, say what they tell instead: "No: it was Bo\'s boat".',
            'Notes that tell it only of somebody else deny it.',
            'If they tell nothing of it, the answer is: No information available',
            'Reply with one JSON object: "answer"; "sources", the ids of the notes that the answer rests on, of messages where they are shown, best first; and "answerable", {answerable}.',
            'false where the notes tell nothing of what is asked or deny what the question takes for granted, else true',
        ],
    ),
    "the paper's answer": (
        PAPER_FINAL,
        [
            'You are an assistant who answers questions about a long conversation from the evidence that was collected from it.',
            'Go through all of the evidence, and look for what speaks of the event or the fact that is asked about.',
            'Mind the times. If pieces of evidence contradict each other, the most recent one holds.',
            'Turn relative times into a date, a month or a year. If that takes a calculation, do it step by step.',
            'Be as specific as you can about people, places and events, and leave no time vague.',
            'Keep to what the evidence says. If it does not settle the question, {refusal}',
            'Check that the answer is to what was asked, and keep it short and exact.',
            'Reply with one JSON object: "answer".',
        ],
    ),
    'a plain answer': (
        PAPER_ANSWER,
        [
            'You answer a question about a conversation from the memories below.',
            'Reply with one JSON object: "answer", a short phrase without any elaboration.',
            'A relative time in a memory counts from its date: give the date itself.',
            'If the memories do not settle it, {refusal}',
        ],
    ),
    'query': (
        QUERY,
        [
            'You word the first search of a long memory of messages, for a question that is to be answered from it.',
            'A search goes by words and by meaning. Reply with one JSON object: "query", a text of 3 to 15 words as they may stand in the messages that hold the answer.',
            'Name the people, things and doings that the question is about, each by the name that people use.',
            'Leave out what only a question has ("how many", "when did").',
            'Where the question describes a thing without naming it, search for the thing.',
            'Where the question is about the one who asks, word it as that person said it: "my new bike", "I moved".',
        ],
    ),
    'think': (
        THINK,
        [
            'You are given a question and what a search of a long memory has brought so far.',
            'Think step by step about what the snippets establish and what is missing. Reply with one JSON object:',
            'reasoning: your steps, short.',
            'decision: "answer" if the snippets suffice for a complete answer, else "retrieve".',
            'retrieval_query: with "retrieve", a search text of 5 to 15 words for what is missing, different from the last query; else null. # Question',
            '# Last query {last_query}',
        ],
    ),
}


MORE = {  # what the fields put in
    'answer': (roles._LIMITS, roles._ANSWERABLE),
    'track': prompts._WHEN.values(),
    "the paper's track": prompts._PAPER_WHEN.values(),
}
PROMPTS = {name: (texts_of(role, MORE.get(name, ())), duties) for name, (role, duties) in DUTIES.items()}


@pytest.mark.parametrize('name', PROMPTS)
def test_a_prompt_has_its_duties_and_no_part_of_it_can_change_unseen(name):
    assert not missing(*PROMPTS[name])
    assert not survivors(*PROMPTS[name])


class Hearing:
    "A model that keeps its prompts and gives the same replies in turn."

    def __init__(self, *replies):
        self.replies, self.heard = list(replies), []

    def __call__(self, prompt):
        self.heard.append(prompt)
        return self.replies.pop(0)


def as_the_paper(decision, **fields):
    return json.dumps({'evidence': ['Zofia brought Pascal home'], 'gaps': 'the date', 'decision': decision} | fields)


def test_the_papers_style_asks_for_the_papers_form_and_reads_it():
    heard = Hearing(
        as_the_paper('retrieve', retrieval_query='day when Pascal came home'),
        as_the_paper('answer', gaps='None', detailed_answer='16 March 2024'),
        'It was on 16 March 2024',
    )
    trace = MemR3(load_sample(), heard, prompts='paper').ask('When did Zofia bring Pascal home?')
    assert trace.answer == 'It was on 16 March 2024' and not trace.error and not trace.gaps
    first, second, last = heard.heard
    assert 'You are the memory agent' in first and '"sources"' not in first
    assert '# Gaps\nthe date' in second and '# Prior query\nday when Pascal came home' in second
    assert '# Draft answer: 16 March 2024' in last and '- Zofia brought Pascal home' in last
    schema = PAPER_TRACK.schema({})
    assert schema['properties']['evidence']['items'] == {'type': 'string'} and schema['properties']['gaps'] == {
        'type': 'string'
    }


def test_all_queries_and_the_snippets_are_shown_after_a_reflection():
    heard = Hearing(
        json.dumps({'decision': 'retrieve', 'retrieval_query': 'the day of Pascal'}),
        json.dumps({'decision': 'reflect', 'reasoning': 'It was in spring.'}),
        json.dumps({'decision': 'answer', 'detailed_answer': 'in spring'}),
        '{"answer": "in spring", "sources": []}',
    )
    MemR3(load_sample(), heard).ask('When did Zofia bring Pascal home?')
    snippets = [prompt.partition('# New snippets from memory')[2].partition('#')[0] for prompt in heard.heard]
    assert '# Queries so far\n- When did Zofia bring Pascal home?\n- the day of Pascal\n' in heard.heard[1]
    assert snippets[0] != snippets[1] and snippets[2] == snippets[1]  # equation 3 has S and F
    assert '# Earlier reasoning\nIt was in spring.' in heard.heard[2]


def test_a_query_is_shown_with_its_words_that_occur_nowhere_but_not_in_the_papers_style():
    for style, shown in (('memnb', True), ('paper', False)):
        query = json.dumps({'decision': 'retrieve', 'retrieval_query': 'Pascal and the trunnion in May', 'gaps': None})
        heard = Hearing(query, json.dumps({'decision': 'answer', 'detailed_answer': 'no'}), 'no')
        MemR3(load_sample(), heard, prompts=style).ask('When did Zofia scuttle Pascal?')
        assert ('- When did Zofia scuttle Pascal? (nowhere in the memory: scuttle)\n' in heard.heard[0]) == shown
        assert ('the trunnion in May (nowhere in the memory: trunnion)\n' in heard.heard[1]) == shown
        assert '\nPascal and the trunnion in May' in heard.heard[1].replace('\n- ', '\n')


def test_a_role_of_ones_own_is_asked():
    mine = replace(TRACK, system='Track. {directive}')
    heard = Hearing(json.dumps({'decision': 'answer', 'detailed_answer': 'no'}), 'no')
    MemR3(load_sample(), heard, roles=mine).ask('Who?')
    assert '\n\nTrack. "answer" as soon' in heard.heard[0] and 'You answer a question' in heard.heard[1]
    for wrong in ([THINK], ['track'], 'track'):
        with pytest.raises(ValueError, match='roles: expected a Role named track or answer, got'):
            MemR3(load_sample(), roles=wrong)
    with pytest.raises(ValueError, match="prompts: expected one of memnb, paper, got 'mine'"):
        MemR3(load_sample(), prompts='mine')


@pytest.mark.parametrize('loop', [RAG, MemR3, SelfRAG, FullContext])
def test_a_loop_that_may_not_refuse_says_so_nowhere(loop):
    question = 'Which submarine did Hephaestion sell?'
    for may_refuse in (True, False):
        heard = []

        def model(prompt, role):
            heard.append(prompt)
            return '{"decision": "answer", "answer": "no", "detailed_answer": "no"}'

        trace = loop(load_sample(), FunctionLM(model), may_refuse=may_refuse).ask(question)
        assert trace.answer == 'no' and (NO_INFORMATION in heard[-1]) == may_refuse
        for duty in ('what they do not tell.', 'takes for granted', 'tell it only of somebody else'):
            assert (duty in heard[-1]) == may_refuse
        assert (loop(load_sample(), may_refuse=may_refuse).ask(question).answer == NO_INFORMATION) == may_refuse


def test_the_papers_settings_are_taken_where_no_other_is_given():
    loop = MemR3(load_sample(), settings='paper')
    assert (loop.monotone, loop.may_refuse, loop.chunks_per_iteration) == (False, False, 5)
    assert loop.roles == {'track': PAPER_TRACK, 'answer': PAPER_FINAL}
    assert MemR3(load_sample(), settings='paper', monotone=True, prompts='memnb').roles['answer'] is FINAL
    assert RAG(load_sample(), settings='paper').roles['answer'] is PAPER_ANSWER
    assert (
        RAG(load_sample(), settings='paper').k == RagCotRag(load_sample(), settings='paper').chunks_per_iteration == 5
    )
    with pytest.raises(ValueError, match="settings: expected 'memnb' or 'paper', got 'theirs'"):
        RAG(load_sample(), settings='theirs')


def test_with_the_papers_settings_only_the_evidence_is_shown_to_the_answer():
    """Equation 6: the answer is from question, draft and evidence, and there may be none."""
    first_turn = load_sample().turns[0].text
    for settings, shown in (({}, True), ({'may_refuse': False}, True), ({'settings': 'paper'}, False)):
        heard = Hearing(json.dumps({'evidence': [], 'decision': 'answer', 'detailed_answer': 'in May'}), 'in May')
        memory = [{'id': 'D1:1', 'text': first_turn}]
        trace = MemR3(memory, FunctionLM(heard), **settings).ask('When did the year begin?')
        assert trace.answer == 'in May'
        assert [first_turn in prompt for prompt in heard.heard] == [True, shown]
        assert 'nothing retrieved' not in heard.heard[-1]


def test_figure_1_of_the_paper_reflects_and_answers():
    replies = [as_the_paper('retrieve', retrieval_query='Pascal'), as_the_paper('reflect', reasoning='May?')]
    lm = FunctionLM(Hearing(*replies, as_the_paper('answer', detailed_answer='May'), 'May'))
    trace = MemR3(load_sample(), lm, settings='paper').ask('When did Zofia bring Pascal home?')
    assert [step.action for step in trace.steps if step.kind == 'route'] == ['retrieve', 'reflect', 'answer']


def test_each_setting_of_a_paper_is_an_option_with_a_source():
    for loop in (MemR3, RAG, SelfRAG, RagCotRag, FullContext):
        assert issubclass(loop, Loop) and loop.PAPER
        assert all(one.source for one in loop.PAPER)
        loop([], settings='paper')  # TypeError for an option that it does not have


def test_settings_leave_alone_what_is_given_and_roles_that_know_of_no_refusal():
    from memnb import MemMA

    assert (MemMA(refinements=2, settings='paper').refinements, MemMA(settings='paper').k) == (2, 30)
    mine = replace(ANSWER, fields=lambda question, lines=(), draft='', asked=None: ANSWER.fields(question, lines))
    assert RAG(load_sample(), lambda prompt: 'Oslo', roles=mine, settings='paper').ask('Where?').answer == 'Oslo'
    with pytest.raises(ValueError, match="roles: expected a Role named answer, got 'answer'"):
        RAG(load_sample(), roles='answer')
