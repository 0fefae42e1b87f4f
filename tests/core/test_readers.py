"""Each reader with the replies that made it necessary: what papers print, what servers and a small model gave."""

import json

import pytest

from manners import bare
from memnb import CueTagGraph, GistGraph
from memnb.core.calls import choice_of
from memnb.core.replies import read_lines, read_object, read_reply, read_tags, read_text, READERS
from memnb.core.roles import AnswerReply
from memnb.core.tools import tools_of
from memnb.evaluation.datasets import data_path
from memnb.evaluation.judge import Judgement
from memnb.memma.prompts import Consolidation, Diagnosis, GuidanceReply, RepairReply, Rewrite
from memnb.memr3.tracker import TrackerReply
from memnb.mragent.prompts import CuesReply, moves_of, RouteReply
from memnb.remem.prompts import FactsReply, GistsReply, TimelineReply

MOVE, CHOICE = moves_of(tools_of(CueTagGraph())), choice_of(tools_of(GistGraph()))
GIST = '[20 January 2024, 3:57 pm] Alice fixed the fence last Monday (15 January 2024).'
ANSWER = '{"answer": "8 June 2024", "sources": ["D1:1"]}'
ANSWERED = {'answer': '8 June 2024', 'sources': ['D1:1']}
RECORDED = {  # who wrote so: the reader, the type of the reply, the text, what it means
    'REMem, figure 3': (
        read_object,
        GistsReply,
        f'```json\n{{\n  "gists": [\n    "{GIST}",\n  ]\n}}\n```',
        {'gists': [{'text': GIST}]},
    ),
    'REMem, figure 4': (
        read_object,
        FactsReply,
        '{"facts": [{"subject": "Alice", "predicate": "purchased", "object": "3 cows", "qualifiers": '
        '{"record_time": "20 Jan 2024, 3:57 pm", "point_in_time": "15 Jan 2024"}}]}',
        {'facts': [{'subject': 'Alice', 'predicate': 'purchased', 'object': '3 cows', 'point_in_time': '15 Jan 2024'}]},
    ),
    'MemR3, appendix A': (
        read_object,
        TrackerReply,
        '{"evidence": ["Caroline went in May"], "gaps": "None", "decision": "answer", "detailed_answer": "in May"}',
        {'evidence': [{'text': 'Caroline went in May'}], 'decision': 'answer', 'detailed_answer': 'in May'},
    ),
    'MRAgent, a reply of the published code': (
        read_object,
        MOVE,
        '{\n  "mode": "Navigate",\n  "action": "query_tag_events",\n  "parameters": {\n    "cue": "video game tournament",\n'
        '    "tag": "Tournament Victory"\n  },\n  "reasoning": "Which one was the second?"\n}',
        {
            'mode': 'Navigate',
            'calls': [
                {
                    'function': 'query_tag_events',
                    'parameters': {'cue': 'video game tournament', 'tag': 'Tournament Victory'},
                }
            ],
            'reasoning': 'Which one was the second?',
        },
    ),
    'MemMA, table 4': (read_object, Judgement, 'They agree. CORRECT\n{"label": "CORRECT"}', {'correct': True}),
    'MemMA, table 9': (
        read_lines,
        GuidanceReply,
        'FACTS:\n- [Caroline] The necklace is from Sweden; it was a gift.\n- [Melanie] I painted a lake.',
        {
            'facts': [
                {'text': 'The necklace is from Sweden; it was a gift.', 'speaker': 'Caroline'},
                {'text': 'I painted a lake.', 'speaker': 'Melanie'},
            ]
        },
    ),
    'MemMA, table 11': (
        read_tags,
        Diagnosis,
        '<decision>NOT\nANSWERABLE</decision>\n<reason>Nobody says when.</reason> <key-gaps>1. when\n2. where</key-gaps>\n'
        '<missing-speaker>unknown</missing-speaker>\n<time-need>NONE</time-need>\n<retrieval-guidance>Goal: the day; '
        'suggested queries: leaving Ghent; keywords: left, day; avoid terms: NONE</retrieval-guidance>',
        {
            'decision': 'NOT-ANSWERABLE',
            'reason': 'Nobody says when.',
            'gaps': ['when', 'where'],
            'goal': 'the day',
            'queries': ['leaving Ghent'],
            'keywords': ['left', 'day'],
        },
    ),
    'MemMA, table 12': (
        read_object,
        Rewrite,
        '{“rewritten_query”: “a lake in 2022”,\n“strategy”: “another word”, “target_speaker”: “Melanie”}',
        {'query': 'a lake in 2022', 'strategy': 'another word', 'target_speaker': 'Melanie'},
    ),
    'MemMA, table 14': (
        read_object,
        RepairReply,
        '{“op”: “ADD_FACT”, “fact”: “Caroline’s grandma gave her a necklace”, “evidence_span”: “”, “confidence”: 0.88}',
        {'op': 'ADD_FACT', 'fact': 'Caroline’s grandma gave her a necklace'},
    ),
    'MemMA, table 15': (
        read_object,
        Consolidation,
        '{“action”: “MERGE”, “merge_target_index”: 1,\n“merged_fact”: “Both”, “reason”: “”}',
        {'action': 'MERGE', 'target': '1', 'text': 'Both'},
    ),
    'TISER': (
        read_tags,
        TimelineReply,
        '<reasoning>Which came first?</reasoning>\n<timeline>\n- 2019: bees\n- 2020: a hive\n</timeline>\n<answer>2019</answer>',
        {'reasoning': 'Which came first?', 'timeline': ['2019: bees', '2020: a hive'], 'answer': '2019'},
    ),
    'a judge of LongMemEval': (read_text, Judgement, 'yes', {'correct': True}),
    'a server: a fence': (read_object, AnswerReply, f'Sure!\n```json\n{ANSWER}\n```\nHope it helps', ANSWERED),
    'a server: thoughts': (
        read_object,
        AnswerReply,
        f'<think>\n{{"answer": "9 June"}}\n</think>\n\n{ANSWER}',
        ANSWERED,
    ),
    'a server: two thoughts': (read_object, AnswerReply, f'<think>a</think>\n<think>b {{</think>{ANSWER}', ANSWERED),
    'a function as a model': (
        read_text,
        AnswerReply,
        'In Lisbon (D1:1)',
        {'answer': 'In Lisbon (D1:1)', 'sources': ['D1:1']},
    ),
}


@pytest.mark.parametrize('reader, model, text, means', RECORDED.values(), ids=RECORDED.keys())
def test_a_recorded_reply_is_read_by_its_reader(reader, model, text, means):
    notes = []
    reply = read_reply(text, model, notes=notes)
    assert bare(json.loads(reply.model_dump_json(exclude_unset=True))) == bare(means)
    readers = [name for name in READERS if f'it has no JSON, read by {name.__name__}' in notes]
    assert readers == ([] if reader is read_object else [reader])


def test_every_reader_has_a_recorded_reply():
    assert {reader for reader, *_ in RECORDED.values()} == set(READERS)


SMALL = {  # the types of the replies of a small model, by role
    'answer': AnswerReply,
    'cues': CuesReply,
    'diagnose': Diagnosis,
    'navigate': MOVE,
    'recall': AnswerReply,
    'rewrite': Rewrite,
    'route': RouteReply,
    'select': CHOICE,
    'synthesize': AnswerReply,
}


def test_what_a_small_model_wrote_is_read_as_it_was_when_its_traces_were_made():
    traces = json.loads(data_path('traces_model.json').read_text('utf-8'))
    steps = [step for trace in traces for step in trace['steps'] if step['kind'] == 'model']
    assert {step['role'] for step in steps} == SMALL.keys()
    for step in steps:
        notes = []
        reply = read_reply(step['raw'], SMALL[step['role']], notes=notes)
        # a field that came later has its default, or what the model had written there
        assert step['reply'] == reply.model_dump(mode='json', include={*step['reply']})
        later = {f'left out: {name}' for name in type(reply).model_fields.keys() - step['reply'].keys()}
        assert set(step["notes"]) - later == set(notes) - later


def test_of_a_list_the_items_that_fit_are_read_and_the_others_noted():
    notes = []
    reply = read_reply('{"gists": ["Ines sold a hive.", 7, {"turns": []}]}', GistsReply, notes=notes)
    assert [gist.text for gist in reply.gists] == ['Ines sold a hive.']
    assert "gists: left out [7, {'turns': []}]" in notes


@pytest.mark.parametrize('said', ['Answer: Lisbon\nAnswer: Paris', '<answer>Lisbon</answer> or <answer>Paris</answer>'])
def test_a_field_that_comes_again_makes_another_reply(said):
    with pytest.raises(ValueError, match='several different replies'):
        read_reply(said, AnswerReply)


def test_what_is_nested_too_deeply_for_a_trace_is_refused():
    deep = '{"call": {"function": "search", "parameters": {"query": ' + '[' * 60 + ']' * 60 + '}}}'
    with pytest.raises(ValueError, match='nested too deeply'):
        read_reply(deep, CHOICE)
