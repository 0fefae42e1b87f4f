"""What a model writes in twenty manners is read as what it means, by every role of every method."""

import json
from dataclasses import replace
from functools import cache

import pytest

from manners import as_written, bare, collected, LOSES, MANNERS, Mannered, REFUSED
from memnb import CueTagGraph, GistGraph, HybridIndex, load_sample, MemMA, MemR3, MRAgent, RAG, REMem, SelfRAG
from memnb.core.calls import choice_of
from memnb.core.tools import tools_of
from memnb.core.citations import cited_ids
from memnb.core.replies import read_reply
from memnb.core.roles import AnswerReply
from memnb.memma.prompts import Consolidation, Diagnosis, EditsReply, Mark, ProbesReply, RepairReply, Rewrite
from memnb.memr3.tracker import EvidenceGap, TrackerReply
from memnb.mragent.prompts import CuesReply, EpisodesReply, moves_of, RouteReply, TagsReply, TopicsReply, UnitsReply
from memnb.remem.prompts import FactsReply, GistsReply

replies, sample = cache(collected), load_sample()


@pytest.mark.parametrize('manner', MANNERS)
def test_a_reply_in_any_manner_is_read_as_it_was_meant(manner):
    for role, items in replies().items():
        for model, reply in items:
            text = MANNERS[manner](as_written(role, reply), role, model)
            read = json.loads(read_reply(text, model).model_dump_json())
            lost = LOSES.get(manner, ())
            assert bare(read, lost) == bare(json.loads(reply.model_dump_json()), lost), (role, text)


@pytest.mark.parametrize('manner', REFUSED)
def test_what_nobody_could_understand_is_refused_with_a_reason(manner):
    for role, items in replies().items():
        for model, reply in items:
            with pytest.raises(ValueError) as refused:
                read_reply(REFUSED[manner](as_written(role, reply), role, model), model)
            assert str(refused.value)


@cache
def loops():
    "Every method over a memory of its own of the first sessions."
    start = replace(sample, sessions=sample.sessions[:4], questions=())
    turns, gists, cues, bank = HybridIndex.of(start), GistGraph.of(start), CueTagGraph.of(start), MemMA.of(start).bank
    return {
        'rag': lambda lm: RAG(turns, lm),
        'self-rag': lambda lm: SelfRAG(turns, lm),
        'memr3': lambda lm: MemR3(turns, lm),
        'remem': lambda lm: REMem(gists, lm),
        'mragent': lambda lm: MRAgent(cues, lm),
        'memma': lambda lm: MemMA(bank, lm),
    }


@pytest.mark.parametrize('method', ['rag', 'self-rag', 'memr3', 'remem', 'mragent', 'memma'])
def test_a_whole_question_in_each_manner_has_the_answer_of_the_plain_one(method):
    question = sample.questions[0].text
    plain = loops()[method](Mannered()).ask(question)
    for name in MANNERS.keys() - LOSES.keys():
        trace = loops()[method](Mannered(MANNERS[name])).ask(question)
        assert (trace.answer, trace.evidence, trace.error, trace.fallback) == (
            plain.answer,
            plain.evidence,
            None,
            None,
        ), name
        assert all(step.attempts == 1 for step in trace.steps if step.kind == 'model'), name


@pytest.mark.parametrize('method', ['rag', 'self-rag', 'memr3', 'remem', 'mragent', 'memma'])
def test_a_question_is_answered_from_what_was_found_whatever_is_refused(method):
    for seed in range(12):
        trace = loops()[method](Mannered(refusals=0.6, seed=seed)).ask(sample.questions[seed].text)
        assert trace.answer is not None and trace.error is None
        assert trace.fallback is None or trace.fallback.startswith(
            ('the draft (ReplyError', 'the evidence (ReplyError')
        )


PRINTED = [  # REMem, figure 5: the three steps of its demonstration
    (
        '{"reasoning": "Find the end time.", "function": "lexical_retrieve", "parameters": {"query": "E95 was the R11 of E57"}}',
        'lexical_retrieve',
        {'query': 'E95 was the R11 of E57'},
    ),
    (
        '{"reasoning": "Find the next event.", "function": "find_entity_contexts", "parameters": {"object": "E57", "relation": "was the R11 of", "start_time": "t1"}}',
        'find_entity_contexts',
        {'object': 'E57', 'predicate': 'was the R11 of', 'start_time': 't1'},
    ),
    (
        '{"reasoning": "It is E0.", "function": "output_answer", "parameters": {"answer": "E0"}}',
        'output_answer',
        {'answer': 'E0'},
    ),
]


@pytest.mark.parametrize('printed, name, given', PRINTED)
def test_the_tool_calls_that_remem_prints_are_calls_here(printed, name, given):
    call = read_reply(printed, choice_of(tools_of(GistGraph()))).call
    assert (call.function, call.parameters.model_dump(exclude_unset=True)) == (name, given)


def test_the_other_forms_that_the_papers_print_are_replies_here():
    gists = read_reply(
        '{"gists": ["[20 January 2024, 3:57 pm] Alice fixed the fence last Monday (15 January 2024)."]}', GistsReply
    )
    facts = read_reply(
        '{"facts": [{"subject": "Alice", "predicate": "purchased", "object": "3 cows", "qualifiers": '
        '{"record_time": "20 Jan 2024, 3:57 pm", "point_in_time": "15 Jan 2024"}}]}',
        FactsReply,
    )
    assert gists.gists[0].text.startswith('[20 January') and facts.facts[0].point_in_time == '15 Jan 2024'
    track = read_reply(
        '{"evidence": ["Caroline went in May"], "gaps": "None", "decision": "answer", "detailed_answer": "in May"}',
        TrackerReply,
    )
    assert (track.evidence[0].text, EvidenceGap().update(track, {}).gaps) == ('Caroline went in May', ())
    move = read_reply(
        '{"mode": "Navigate", "action": "query_tag_events", "parameters": {"cue": "video game tournament", "tag": "Tournament Victory"}, '
        '"reasoning": "Which one was the second?"}',
        moves_of(tools_of(CueTagGraph())),
    )
    assert move.calls[0].parameters.tag == 'Tournament Victory'
    repair = read_reply(
        '{"op": "ADD_FACT", "fact": "A necklace from Sweden", "evidence_span": "", "confidence": 0.88}', RepairReply
    )
    assert (repair.op, repair.fact, read_reply('{"op": "NOOP"}', RepairReply).op) == (
        'ADD_FACT',
        'A necklace from Sweden',
        'NOOP',
    )
    merge = read_reply(
        '{"action": "MERGE", "merge_target_index": 1, "merged_fact": "Both", "reason": ""}', Consolidation
    )
    assert (merge.target, merge.text) == ('1', 'Both')
    assert read_reply('{"rewritten_query": "x y", "strategy": "", "target_speaker": "Ana"}', Rewrite).query == 'x y'


@pytest.mark.parametrize(
    'model, text',
    [
        (AnswerReply, '{"answer": "..."}'),
        (AnswerReply, '<answer here>'),
        (Mark, 'Label: CORRECT/WRONG'),
        (RepairReply, '{"op": "ADD_FACT | NOOP"}'),
        (Rewrite, 'I apologize, but I am unable to produce a query.'),
        (CuesReply, "Sorry, I can't."),
        (AnswerReply, 'Please provide the notes.'),
    ],
)
def test_a_placeholder_a_choice_left_open_and_an_apology_are_no_replies(model, text):
    with pytest.raises(ValueError):
        read_reply(text, model, last=True)


def test_an_answer_that_finds_nothing_and_one_that_cites_in_its_sentence_are_answers():
    assert read_reply('I cannot find this in the notes.', AnswerReply).answer == 'I cannot find this in the notes.'
    assert read_reply('The cat is called "Crumb" [D1:5].', AnswerReply).sources == ['D1:5']
    assert read_reply('{"label": "CORRECT", "reason": "..."}', Mark).label == 'CORRECT'


BEES, HIVE = {'text': 'Ines moved the bees.', 'turns': ['D2:1']}, {'text': 'Rolf sold a hive.', 'turns': ['D2:2']}
FACT = {'subject': 'Ines', 'predicate': 'keeps', 'object': 'bees'}
HARD = [  # a reply type, what a model writes, and some of what it means
    # a bare text
    (Rewrite, 'Sure! The new query is: Rolf: moved to Ghent', {'query': 'Rolf: moved to Ghent'}),
    (
        CuesReply,
        'Here are the cues for the question:\n\n1. Ines\n2. bees (hive)\n\nThese should help.',
        {'cues': ['Ines', 'bees (hive)']},
    ),
    (AnswerReply, 'The answer is $\\boxed{In Lisbon}$.', {'answer': 'In Lisbon'}),
    (
        AnswerReply,
        json.dumps(json.dumps({'answer': 'In Lisbon', 'sources': ['D1:3']})),
        {'answer': 'In Lisbon', 'sources': ['D1:3']},
    ),
    # headings, YAML, a table, lines
    (
        AnswerReply,
        '# Answer\nTom Rill\n\n# Sources\n- D1/f3\n- D1/f4',
        {'answer': 'Tom Rill', 'sources': ['D1/f3', 'D1/f4']},
    ),
    (
        TrackerReply,
        'evidence:\n  - text: Tom owns a boat\n    sources: [D3:4]\ngaps: []\ndecision: answer\nretrieval_query: null',
        {
            'evidence': [{'text': 'Tom owns a boat', 'sources': ['D3:4']}],
            'gaps': [],
            'decision': 'answer',
            'retrieval_query': None,
        },
    ),
    (
        EpisodesReply,
        'episodes:\n  - title: Ines: bees\n    text: >\n      Ines moved\n      the bees.\n    turns:\n      - D2:1',
        {'episodes': [{**BEES, 'title': 'Ines: bees'}]},
    ),
    (
        GistsReply,
        '| text | turns |\n|---|---|\n| Ines moved the bees. | D2:1 |\n| Rolf sold a hive. | D2:2 |',
        {'gists': [BEES, HIVE]},
    ),
    (
        ProbesReply,
        'Q1: What does Rolf learn?\nA1: The cello\n\nQ2: Where?\nA2: In Ghent',
        {
            'probes': [
                {'question': 'What does Rolf learn?', 'answer': 'The cello', 'kind': 'single'},
                {'question': 'Where?', 'answer': 'In Ghent', 'kind': 'single'},
            ]
        },
    ),
    (GistsReply, f'{json.dumps(BEES)}\n{json.dumps(HIVE)}', {'gists': [BEES, HIVE]}),
    # mappings
    (GistsReply, json.dumps({'gist1': BEES, 'gist2': HIVE}), {'gists': [BEES, HIVE]}),
    (GistsReply, '{"gists": {"D2:1": ["Ines moved the bees."]}}', {'gists': [BEES]}),
    (
        TagsReply,
        '{"D2/e1": {"tag": "Bees", "cues": "Ines, bees"}}',
        {'tags': [{'episode': 'D2/e1', 'tag': 'Bees', 'cues': ['Ines', 'bees']}]},
    ),
    (
        TopicsReply,
        '{"topics": {"Bees": ["D1/e2", "D2/e1"]}}',
        {'topics': [{'title': 'Bees', 'episodes': ['D1/e2', 'D2/e1']}]},
    ),
    (
        EditsReply,
        '{"ADD": [{"text": "a"}], "UPDATE": [{"entry": "m8", "text": "b"}]}',
        {'edits': [{'action': 'ADD', 'text': 'a'}, {'action': 'UPDATE', 'entry': 'm8', 'text': 'b'}]},
    ),
    (RepairReply, '{"ADD_FACT": {"fact": "a"}}', {'op': 'ADD_FACT', 'fact': 'a'}),
    (
        RouteReply,
        '{"keep": {"X7/e5": true, "X4/e2": false}, "cues": {"people": ["Ines"], "things": ["hive"]}}',
        {'keep': ['X7/e5'], 'cues': ['Ines', 'hive']},
    ),
    # several in one, dates, fields in a field, other names
    (
        Diagnosis,
        '{"decision": "UNANSWERABLE", "gaps": "1. when\\n2. where", "queries": "a b; c d"}',
        {'decision': 'NOT-ANSWERABLE', 'gaps': ['when', 'where'], 'queries': ['a b', 'c d']},
    ),
    (
        RouteReply,
        'Keep: (X7/e5), (X4/e2)\nCues: May 7, 2023, Rolf',
        {'keep': ['(X7/e5)', '(X4/e2)'], 'cues': ['May 7, 2023', 'Rolf']},
    ),
    (
        UnitsReply,
        '{"units": [{"person": "Ines", "aspect": "home", "statement": "a", "since": {"year": 2023, "month": 5}}]}',
        {'units': [{'person': 'Ines', 'aspect': 'home', 'fact': 'a', 'since': '2023-05'}]},
    ),
    (
        RepairReply,
        '{"op": "ADD", "fact": {"text": "a", "speaker": "Rolf"}}',
        {'op': 'ADD_FACT', 'fact': 'a', 'speaker': 'Rolf'},
    ),
    (
        FactsReply,
        '{"facts": [["Ines", "keeps", "bees", "2019"], "Ines | keeps | bees"]}',
        {'facts': [{**FACT, 'point_in_time': '2019'}, FACT]},
    ),
    (
        EditsReply,
        '{"edits": [{"action": "INSERT", "new_text": "a"}, {"action": "No-Op"}]}',
        {'edits': [{'action': 'ADD', 'text': 'a'}, {'action': 'NONE'}]},
    ),
    (Diagnosis, '{"decision": "not yet answerable"}', {'decision': 'NOT-ANSWERABLE'}),
]


@pytest.mark.parametrize('model, text, means', HARD)
def test_what_a_person_would_understand_is_read(model, text, means):
    assert bare(json.loads(read_reply(text, model).model_dump_json())) == bare(means)


@pytest.mark.parametrize(
    'text',
    [
        'Thought: by name.\nAction: lexical_retrieve\nAction Input: {"query": "Boston"}\nObservation: none',
        'Action: lexical_retrieve\nAction Input: Boston',
        '{"call": "lexical_retrieve", "parameters": {"query": "Boston"}}',
        '{"call": {"function": "lexical_retrieve", "query": "Boston"}}',
        '{"calls": [{"function": "lexical_retrieve", "parameters": ["Boston"]}]}',
        'I search by name.\n\nlexical_retrieve("Boston")',
    ],
)
def test_a_call_is_read_in_the_forms_of_agents(text):
    call = read_reply(text, choice_of(tools_of(GistGraph()))).call
    assert (call.function, call.parameters.model_dump(exclude_unset=True)) == ('lexical_retrieve', {'query': 'Boston'})


@pytest.mark.parametrize(
    'model, text',
    [
        (AnswerReply, '{"answer": "", "sources": []}'),
        (AnswerReply, 'Answer: Lisbon\nAnswer: Paris'),
        (CuesReply, '{"cues": ["..."]}'),
        (GistsReply, '{"gists": {"error": "no"}}'),
        (GistsReply, '{"id": "c1", "role": "assistant", "content": "hello"}'),
        (RepairReply, 'ADD_FACT: a\nTurns: D4:1'),
        (Diagnosis, '{"decision": "ANSWERABLE" or "NOT-ANSWERABLE"}'),
        (TrackerReply, 'Decision: answer? No: retrieve'),
        (Mark, '{"label": "partially correct"}'),
        (choice_of(tools_of(GistGraph())), 'Action: lexical_retrieve\nAction Input: Boston\nObservation: none'),
    ],
)
def test_what_could_be_guessed_wrong_is_refused(model, text):
    with pytest.raises(ValueError):
        read_reply(text, model, last=True)


@pytest.mark.parametrize('cited', ['D2:1-D2:3', '(D2:1–3)', 'turns D2:1 to D2:9'])
def test_a_range_of_ids_is_those_that_there_are(cited):
    assert cited_ids(cited, ['D2:1', 'D2:2', 'D2:3', 'D3:1']) == (['D2:1', 'D2:2', 'D2:3'], [])
    assert cited_ids(cited.replace('D2:1', 'D2:0'), ['D2:1', 'D2:2'])[0] == []


def test_a_long_rule_in_a_reply_takes_no_time():
    said = 'The answer is Paris.\n' + '-' * 5000 + '\nIt is Paris.\n' + '*#' * 2500
    with pytest.raises(ValueError):
        read_reply(said, TrackerReply)
