"""Manners in which a model may write a reply, and models that write in them what the rules say."""

import json
import random
import re

from memnb.core.replies import Reply
from memnb.core.roles import Call, Completion, LM, RuleLM, TextLM, Usage

REFUSAL = "I'm sorry, but I can't help with that request."


def _other_case(value):
    "Every key capitalised, and every text that is an option in another case."
    if isinstance(value, dict):
        return {name.replace('_', ' ').title(): _other_case(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_other_case(item) for item in value]
    options = r'retrieve|reflect|answer|Navigate|Answer|ADD|UPDATE|DELETE|NONE|SKIP|MERGE|INSERT|ADD_FACT|NOOP|CORRECT|WRONG|ANSWERABLE|NOT-ANSWERABLE'
    return value.swapcase() if isinstance(value, str) and re.fullmatch(options, value) else value


def _without_empty(value):
    "Without fields that hold nothing."
    if isinstance(value, dict):
        return {name: _without_empty(item) for name, item in value.items() if item not in (None, '', [], {})}
    return [_without_empty(item) for item in value] if isinstance(value, list) else value


def _nulls(value):
    "With null where nothing is."
    if isinstance(value, dict):
        return {name: _nulls(item) for name, item in value.items()}
    if isinstance(value, list) and value:
        return [_nulls(item) for item in value]
    return None if value in ('', []) else value


def _extra(value):
    "With a key that nobody asked for in every object."
    if isinstance(value, dict):
        return {**{name: _extra(item) for name, item in value.items()}, 'confidence': 0.9}
    return [_extra(item) for item in value] if isinstance(value, list) else value


PAPER = {  # field -> the name that a paper has for it, by role
    'rewrite': {'query': 'rewritten_query'},
    'repair': {'quote': 'evidence_span', 'speaker': 'target_speaker'},
    'consolidate': {'target': 'merge_target_index', 'text': 'merged_fact'},
}


def _paper(value, role):
    "The form that the paper prints: its names, bullets as texts, a flat call, times as qualifiers."
    if role == 'track':
        return {
            **value,
            'evidence': [claim['text'] for claim in value['evidence']],
            'gaps': '; '.join(value['gaps']) or 'None',
        }
    if role == 'gists':
        return {'gists': [gist['text'] for gist in value['gists']]}
    if role == 'facts':
        times = ('point_in_time', 'start_time', 'end_time')
        return {
            'facts': [
                {
                    **{name: item for name, item in fact.items() if name not in times},
                    'qualifiers': {
                        'record_time': '20 January 2024',
                        **{name: fact[name] for name in times if fact.get(name)},
                    },
                }
                for fact in value['facts']
            ]
        }
    if role == 'select':
        return {'reasoning': value['reasoning'], **value['call']}
    if role == 'navigate' and len(value['calls']) == 1:
        [call] = value['calls']
        return {
            'mode': value['mode'],
            'action': call['function'],
            'parameters': call['parameters'],
            'reasoning': value['reasoning'],
        }
    return {PAPER.get(role, {}).get(name, name): item for name, item in value.items()}


def _single(value):
    "A list of one as its item."
    if isinstance(value, dict):
        return {name: _single(item) for name, item in value.items()}
    if isinstance(value, list):
        return _single(value[0]) if len(value) == 1 else [_single(item) for item in value]
    return value


def _named_texts(value, form, blank):
    "The fields as texts in a form, with bullets for a list of texts; other values as JSON."
    texts = {}
    for name, item in value.items():
        several = item if isinstance(item, list) else [item]
        if not all(isinstance(one, (str, type(None))) for one in several):
            return json.dumps(value)
        if item:
            texts[name.replace('_', blank)] = item if isinstance(item, str) else ''.join(f'\n- {one}' for one in item)
    return '\n'.join(form.format(name=name, text=text) for name, text in texts.items()) or json.dumps(value)


def _trailing(text):
    return re.sub(r'(?<=["\d\]}el])(\n\s*[\]}])', r',\1', text)


MANNERS = {  # name -> the text that a value becomes, for a role and its reply type
    'plain': lambda value, role, model: json.dumps(value),
    'fences': lambda value, role, model: f'```json\n{json.dumps(value, indent=2)}\n```',
    'prose around': lambda value, role, model: f'Sure, here it is:\n{json.dumps(value)}\nTell me if you need more.',
    'trailing commas': lambda value, role, model: _trailing(json.dumps(value, indent=1)),
    'single quotes': lambda value, role, model: str(value),
    'other capitals': lambda value, role, model: json.dumps(
        _other_case(value) if role != 'select' and role != 'navigate' else value
    ),
    'empty fields left out': lambda value, role, model: (
        json.dumps(_without_empty(value)) if _without_empty(value) else json.dumps(value)
    ),
    'nulls': lambda value, role, model: json.dumps(_nulls(value)),
    'extra keys': lambda value, role, model: json.dumps(_extra(value)),
    "the paper's form": lambda value, role, model: json.dumps(_paper(value, role)),
    'tags': lambda value, role, model: _named_texts(value, '<{name}>{text}</{name}>', '-'),
    'one for a list of one': lambda value, role, model: json.dumps(_single(value)),
    'named lines': lambda value, role, model: _named_texts(value, '**{name}:** {text}', ' '),
    'plain text': lambda value, role, model: (
        value[model.TEXT] if model.TEXT and isinstance(value[model.TEXT], str) else json.dumps(value)
    ),
    'thoughts first': lambda value, role, model: f'<think>The form is {{"x": []}}.</think>\n{json.dumps(value)}',
    'said twice': lambda value, role, model: f'{json.dumps(value)}\n\nAgain:\n{json.dumps(value)}',
    'a list of one': lambda value, role, model: json.dumps([value]),
}
REFUSED = {  # what nobody could understand
    'a refusal': lambda value, role, model: REFUSAL,
    'cut off': lambda value, role, model: json.dumps(value)[: len(json.dumps(value)) // 10 + 1],
    'empty': lambda value, role, model: '',
}


LOSES = {  # what a manner has no place for
    "the paper's form": {'turns', 'sources'},
    'plain text': {'sources', 'reason', 'strategy', 'target_speaker', 'reasoning', 'timeline', 'reflection'},
}


def bare(value, lost=()):
    "A reply as JSON values without some fields, what is empty, and the key that nobody asked for."
    if isinstance(value, dict):
        return {
            name: bare(item, lost)
            for name, item in value.items()
            if name not in {*lost, 'confidence'} and item not in (None, '', [])
        }
    return [bare(item, lost) for item in value] if isinstance(value, list) else value


class Mannered(TextLM):
    "A model that says what the rules say, in one manner; a share of its replies, drawn at random, are refusals."

    def __init__(self, manner=None, refusals=0.0, seed=0):
        self.manner, self.refusals, self.random = manner or MANNERS['plain'], refusals, random.Random(seed)
        self.name, self.refused = 'mannered', 0

    def call(self, role, /, **inputs):
        self._now = role.name, role.model(inputs), RuleLM().ask(role, **inputs)
        return super().call(role, **inputs)

    def complete(self, role, system, user, schema):
        name, model, reply = self._now
        text = self.manner(as_written(name, reply), name, model)
        if self.random.random() < self.refusals:
            self.refused += 1
            text = REFUSAL
        return Completion(text, Usage(1, len(user) // 4, len(text) // 4))


def as_written(role, reply):
    "A reply as a model writes it: a call with the arguments that it gives."
    return json.loads(reply.model_dump_json(exclude_unset=role in ('select', 'navigate')))


class Collector(LM):
    "The rules, with some replies of each role kept: (role, its reply type, the reply)."

    name = 'rules'

    def __init__(self, most=2):
        self.most, self.kept = most, {}

    def call(self, role, /, **inputs) -> Call:
        call = RuleLM().call(role, **inputs)
        kept = self.kept.setdefault(role.name, [])
        model = role.model(inputs)
        new = issubclass(model, Reply) and all(call.reply != reply for _, reply in kept)
        if new and len(kept) < self.most and call.reply.model_dump(exclude_defaults=True):
            kept.append((model, call.reply))
        return call


def collected(most=1) -> dict:
    "Replies of every role of every method by rules: building memories of four sessions, and asking six questions."
    from dataclasses import replace

    from memnb import CueTagGraph, GistGraph, HybridIndex, load_sample, MemMA, MemR3, MRAgent, REMem, SelfRAG
    from memnb.evaluation.judge import Judge

    sample, lm = load_sample(), Collector(most)
    start = replace(sample, sessions=sample.sessions[:4], questions=())
    gists, cues, turns, bank = (
        GistGraph.of(start, lm),
        CueTagGraph.of(start, lm),
        HybridIndex.of(start),
        MemMA.of(start, lm).bank,
    )
    cues.topics
    for question in sample.questions[:6]:
        for loop in (
            MemR3(turns, lm),
            SelfRAG(turns, lm),
            REMem(gists, lm),
            REMem(gists, lm, timeline=True),
            MRAgent(cues, lm),
            MemMA(bank, lm),
        ):
            Judge(lm, 'strict').judge(question, loop.ask(question.text).answer)
    return lm.kept
