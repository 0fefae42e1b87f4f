"""Record the traces of every loop and baseline, and compare two records: what a change of the code did to its behaviour.

    python tests/bench/traces.py record before.json [--replies FOLDER]
    python tests/bench/traces.py compare before.json after.json

Three groups: `written` (the cases of the bundled replies), `rules` (every method over its own memory, every loop over every
memory, both styles of prompts, with the prompts in the traces), and with a folder of prompts and replies that were written for
the conversation *team* of Octet (one sub-folder for each method) `careful`: there also the memories that those replies build."""

import argparse
import difflib
import json
from dataclasses import replace
from pathlib import Path

from memnb import RAG, FullContext, load_octet, load_sample
from memnb.core.roles import SCHEMA_PROMPT, Completion, LMError, RuleLM, TextLM, Usage, brief_schema
from memnb.evaluation.examples import ExampleLM, example_trace
from memnb.evaluation.registry import MEMORIES, METHODS


def as_json(trace) -> dict:
    """A trace without the time that it took."""
    return json.loads(trace.model_copy(update={'seconds': None}).model_dump_json())


def written() -> dict:
    """The traces of the cases that the bundled replies were written for."""
    lm, sample = ExampleLM(), load_sample()
    memories, traces = {}, {}
    for case in lm.cases:
        memory = METHODS[case.method].memory
        if memory.name not in memories:
            memories[memory.name] = memory.build(sample, lm)
        trace = example_trace(case, sample, lm, memories[memory.name])
        traces[f'written {case.method}: {case.question}'] = as_json(trace)
    return traces


def rules() -> dict:
    """The traces by rules: each method over its own memory in both settings, and each loop over each memory."""
    traces, lm = {}, RuleLM(render=True)
    for conversation, every in ((load_sample(), 6), (load_octet('test')[0], 25)):
        built = {name: memory.build(conversation, RuleLM()) for name, memory in MEMORIES.items()}
        for method in METHODS.values():
            for settings in ('memnb', 'paper'):
                made, memory = method, built.get(method.memory.name)
                if settings == 'paper':
                    made = method.by_paper('locomo')
                    same = made.memory.name == method.memory.name
                    memory = memory if same and memory is not None else None
                if made.name == 'full-context' or memory is None and made.memory.name not in built:
                    made = replace(
                        made, memory=replace(made.memory, builder=method.memory.builder, options=method.memory.options)
                    )
                    memory = memory or made.memory.build(conversation, RuleLM())
                loop = made.make(memory, conversation, lm)
                for question in conversation.questions[::every]:
                    name = f'rules {method.name} {settings} {conversation.id} {question.position}'
                    traces[name] = as_json(loop.ask(question.text))
        for memory in MEMORIES.values():
            for method in METHODS.values():
                if method.budgeted:
                    loop = method.over(memory).make(built[memory.name], conversation, lm, 15)
                    for question in conversation.questions[:2]:
                        name = f'rules {method.name} over {memory.name} {conversation.id} {question.position}'
                        traces[name] = as_json(loop.ask(question.text, budget=15))
    return traces


class FolderLM(TextLM):
    """Replies to prompts from a folder with `prompts` and `replies`; a prompt that is not there is an `LMError`."""

    name = 'written replies'

    def __init__(self, folder: Path):
        self.missing = 0
        self.replies = {
            path.read_text('utf-8'): (folder / 'replies' / path.name).read_text('utf-8')
            for path in sorted((folder / 'prompts').iterdir())
        }

    def complete(self, role, system, user, schema):
        form = SCHEMA_PROMPT.format(schema=json.dumps(brief_schema(schema)))
        text = f'[role: {role}]\n## system\n{system}{form}\n## user\n{user}'
        if text not in self.replies:
            self.missing += 1
            raise LMError(f'no reply was written for this prompt of {role}')
        reply = self.replies[text]
        return Completion(reply, Usage.estimate(text, reply))


def careful(folder: Path) -> dict:
    """The traces of all questions on *team* that replies were written for, and the memories that those replies build."""
    team = next(one for one in load_octet('test') if one.id == 'team')
    traces = {}
    for name in ('memr3', 'remem', 'mragent', 'memma', 'search'):
        lm = FolderLM(folder / name)
        method = METHODS['rag' if name == 'search' else name]
        source = method.memory
        if name == 'memma':  # its replies were written for a memory in which anyone changes what another has said
            source = source.with_options(policy='anyone')
        memory = source.build(team, lm)
        if name == 'search':
            loops = {
                'rag 10': RAG(memory, lm, k=10),
                'rag 25': RAG(memory, lm, k=25),
                'full': FullContext(team, lm),
            }
        else:
            loops = {name: method.make(memory, team, lm)}
        if name in ('remem', 'mragent'):
            traces[f'careful {name} memory'] = {
                id: memory.extract_to_json(memory.extract_of(id)) for id in memory.sessions
            }
        if name == 'memma':
            traces[f'careful {name} memory'] = [repr(entry) for entry in memory]
        for label, loop in loops.items():
            for question in team.questions:
                trace = loop.ask(question.text)
                if not any('no reply was written' in str(step) for step in trace.steps):
                    traces[f'careful {label} {question.position}'] = as_json(trace)
        print(f'{name}: {lm.missing} prompts without a reply')
    return traces


def compare(before: dict, after: dict) -> int:
    """Print what differs, and return the number of traces that do."""
    different = 0
    for name in dict.fromkeys((*before, *after)):
        texts = [
            json.dumps(record.get(name), indent=1, ensure_ascii=False, sort_keys=True) for record in (before, after)
        ]
        if texts[0] != texts[1]:
            different += 1
            print(f'== {name}')
            lines = difflib.unified_diff(texts[0].splitlines(), texts[1].splitlines(), lineterm='', n=0)
            print(*[line[:200] for line in lines][2:10], sep='\n')
    print(f'{different} of {len({*before, *after})} traces differ')
    return different


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('what', choices=['record', 'compare'])
    parser.add_argument('files', nargs='+')
    parser.add_argument('--replies', type=Path, help='a folder with prompts and replies for each method')
    given = parser.parse_args()
    if given.what == 'compare':
        before, after = (json.loads(Path(file).read_text('utf-8')) for file in given.files)
        return int(compare(before, after) > 0)
    traces = written() | rules() | (careful(given.replies) if given.replies else {})
    Path(given.files[0]).write_text(json.dumps(traces, ensure_ascii=False), encoding='utf-8')
    print(f'{len(traces)} traces')
    return 0


if __name__ == '__main__':
    raise SystemExit(main())
