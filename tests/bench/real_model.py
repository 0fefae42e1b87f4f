"""Every method with a served model in its roles as they are shipped: evidence, answers, tokens, seconds, usable replies.

    python tests/bench/real_model.py locomo10.json --model NAME --base-url http://127.0.0.1:8080/v1 --out run
    python tests/bench/real_model.py locomo10.json --out run --report > results_model.json

Twenty questions of each conversation, evenly from all but the adversarial ones; ten turns may be read; memories are
built by rules. Each method runs with both styles of prompts, with rules that search and a model that answers, and by
rules alone, in a folder of its own under --out.
The order of the questions is such that any first part of them is spread evenly, so a run can be stopped at any time;
what is in --out, or among the figures of --known, is not asked again. `--report` asks nothing: it writes the figures
of each question, those of --known first, as JSON without any text of the data; `--trace` writes traces, for
conversations that may be shown.

`nbs/7_results/03_real_model.ipynb` shows what it found with Qwen2.5-Coder-1.5B-Instruct (`data/results_model.json`; the
seconds are null where a reply was replayed)."""

import argparse
import json
import re
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from memnb.core.models import LMByRole, OpenAILM
from memnb.core.roles import RuleLM
from memnb.core.trace import Trace
from memnb.evaluation.experiment import Experiment
from memnb.evaluation.store import RowStore
from memnb.evaluation.papers import variant
from memnb.evaluation.registry import load_dataset

METHODS = 'rag', 'memr3', 'remem', 'mragent', 'memma'
STYLES = (
    'memnb',
    'paper',
    'answers',
    'rules',
)  # of the prompts; 'answers': rules search and the model answers; 'rules': no model
ANSWERING = 'answer', 'synthesize', 'recall'  # the roles that write the answer
SERVED = {'bounds': (160, 4), 'max_tokens': 500, 'timeout': 1200}  # a small model must be bounded
TURNS = 10
SCORES = 'evidence_recall', 'f1_locomo', 'date_exact'


def spread(count):
    "The numbers below count, so that any first part of them is spread evenly: 0, 1/2, 1/4, 3/4, … of the way."
    bits = max(count - 1, 0).bit_length()
    reversed_bits = (int(f'{place:0{bits}b}'[::-1], 2) for place in range(2**bits)) if bits else [0]
    return [place for place in reversed_bits if place < count]


def chosen(conversation, count):
    "So many questions of a conversation, evenly from all but the adversarial ones, in the order of `spread`."
    asked = [one for one in conversation.questions if one.category != 'adversarial']
    count = min(count, len(asked))
    return [asked[place * len(asked) // count] for place in spread(count)]


def experiment(method, style, conversations, lm):
    "The experiment of one method with one style of prompts; plain retrieval has only one."
    switches = {'prompts': style} if method != 'rag' and style in ('memnb', 'paper') else {}
    asked = variant(f'{method}, {style}', method, **switches)
    lm = {'rules': RuleLM(), 'answers': LMByRole(dict.fromkeys(ANSWERING, lm))}.get(style, lm)
    return Experiment([asked], {'data': conversations}, lm=lm, build_lm=RuleLM(), turns=TURNS, stop=True, baselines=())


def runs(text, length=5):
    "All runs of so many words in a text."
    words = re.findall(r'\w+', text.lower())
    return {tuple(words[start : start + length]) for start in range(len(words) - length + 1)}


def texts_in(value):
    "All texts in a reply, at any depth."
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from texts_in(one)


def copies(step):
    "Whether a text of the reply has five words in a row from the instructions which nothing else in the prompt has."
    instructions = runs(step.system) - runs(step.user)
    return any(runs(text) & instructions for text in texts_in(step.reply))


def replies_of(trace):
    "For each role that a model was asked: calls; replies that were usable, usable at the first attempt, changed to be read, copied from the instructions."
    found = {}
    for step in trace.steps:
        if step.kind == 'model' and (step.usage.calls or step.error):
            counts = found.setdefault(step.role, [0, 0, 0, 0, 0])
            usable = step.error is None
            for place, one in enumerate((1, usable, usable and step.attempts == 1, bool(step.notes), copies(step))):
                counts[place] += int(one)
    return found


def looks_of(trace):
    "How many searches and calls of tools a trace has, and how many of these were refused or had been made before."
    looks = [
        step for step in trace.steps if step.kind == 'search' or step.kind == 'tool' and step.tool != 'output_answer'
    ]
    different = {step.query if step.kind == 'search' else f'{step.tool} {step.arguments}' for step in looks}
    return {
        'made': len(looks),
        'refused': sum(bool(step.error) for step in looks),
        'repeated': len(looks) - len(different),
    }


JUDGES = {  # the roles that say whether what was read is enough, and how their replies say so
    'track': lambda reply: reply['decision'] == 'answer',
    'select': lambda reply: reply['call']['function'] == 'output_answer',
    'navigate': lambda reply: reply['mode'] == 'Answer',
    'diagnose': lambda reply: reply['decision'] == 'ANSWERABLE',
}


def first_judgement(trace, gold):
    "Whether the first judge after the first search said that it was enough, and whether all gold turns had been read; None without one."
    read = set()
    for step in trace.steps:
        if step.kind in ('search', 'tool'):
            read.update(turn for hit in step.hits for turn in hit.sources)
        elif step.kind == 'model' and step.role in JUDGES and step.reply and read:
            return {'enough': JUDGES[step.role](step.reply), 'all_read': set(gold) <= read}
    return None


def figures(folder, in_flight):
    "The figures of each question in a folder, without any text of the data."
    method, style, *_ = folder.name.split('-')
    with closing(RowStore(folder / 'rows.sqlite', mode='rw')) as store:
        for row in store.records():
            if row.is_question:
                trace = Trace.from_json(store.trace(row))
                scores = {name: row.scores.get(name) for name in SCORES}
                spent = {name: getattr(trace.total, name) for name in ('calls', 'prompt_tokens', 'completion_tokens')}
                asked = [step for step in trace.steps if step.kind == 'model' and step.usage.calls]
                is_served = asked and not any(step.cached for step in asked)
                about = {
                    'method': method,
                    'style': style,
                    'conversation': row.conversation,
                    'position': row.position,
                }
                yield {
                    **about,
                    'category': row.category,
                    'turns': row.turns,
                    **scores,
                    **spent,
                    'seconds': round(row.seconds / in_flight, 1) if is_served else None,
                    'failed': row.error is not None,
                    'replies': replies_of(trace),
                    'looks': looks_of(trace),
                    'judgement': first_judgement(trace, row.gold),
                }


def kept_trace(out, wanted):
    "The trace of METHOD-STYLE:POSITION in a folder, as JSON."
    name, position = wanted.rsplit(':', 1)
    for path in sorted(out.glob(f'{name}-*/rows.sqlite')):
        with closing(RowStore(path, mode='rw')) as store:
            for row in store.records():
                if row.position == int(position):
                    return store.trace(row)
    raise SystemExit(f'{wanted}: no such question in {out}')


def main():
    "Ask, or report."
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('file', help="conversations in LoCoMo's format")
    parser.add_argument('--model'), parser.add_argument('--base-url')
    parser.add_argument('--out', type=Path, required=True)
    parser.add_argument('--known', type=Path, help='what an earlier --report wrote')
    parser.add_argument('--questions', type=int, default=20, help='of each conversation')
    parser.add_argument('--part', default='1/1', help='2/3: of every three questions the second')
    (
        parser.add_argument('--methods', default=','.join(METHODS)),
        parser.add_argument('--styles', default=','.join(STYLES)),
    )
    parser.add_argument('--at-once', type=int, default=1, help='conversations asked at a time')
    parser.add_argument(
        '--in-flight', type=int, default=1, help='questions that share the server: their seconds are divided by it'
    )
    parser.add_argument('--report', action='store_true')
    parser.add_argument(
        '--trace', action='append', metavar='METHOD-STYLE:POSITION', help='write this trace as JSON; may be repeated'
    )
    options = parser.parse_args()
    known = json.loads(options.known.read_text(encoding='utf-8')) if options.known else []
    if options.report:
        found = {tuple(one[name] for name in ('method', 'style', 'conversation', 'position')): one for one in known}
        for path in sorted(options.out.glob('*/rows.sqlite')):
            for one in figures(path.parent, options.in_flight):
                found.setdefault((one['method'], one['style'], one['conversation'], one['position']), one)
        lines = (json.dumps(found[key], separators=(',', ':')) for key in sorted(found))
        print('[\n' + ',\n'.join(lines) + '\n]')
        return
    if options.trace:
        print('[\n' + ',\n'.join(kept_trace(options.out, one) for one in options.trace) + '\n]')
        return
    part, parts = map(int, options.part.split('/'))
    lm = OpenAILM(options.model, options.base_url, **SERVED)
    for style in options.styles.split(','):
        for method in options.methods.split(','):
            if method == 'rag' and style in ('paper', 'answers'):  # nothing but an answer is asked
                continue
            done = {
                (one['conversation'], one['position'])
                for one in known
                if (one['method'], one['style']) == (method, style)
            }
            conversations = []
            for one in load_dataset(options.file):
                due = [
                    some
                    for some in chosen(one, options.questions)[part - 1 :: parts]
                    if (one.id, some.position) not in done
                ]
                if due:
                    conversations.append(replace(one, questions=tuple(due)))
            if conversations:
                print(style, method, options.part, flush=True)
                folder = options.out / f'{method}-{style}-{part}of{parts}'
                experiment(method, style, conversations, lm).run(folder, workers=options.at_once, progress=False)


if __name__ == '__main__':
    sys.exit(main())
