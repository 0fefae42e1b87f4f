"""Every method with a served model in its roles as they are shipped: evidence, answers, tokens, seconds, usable replies.

    python tests/bench/real_model.py locomo10.json --model NAME --base-url http://127.0.0.1:8080/v1 --out run
    python tests/bench/real_model.py locomo10.json --out run --report > results_model.json

Twenty questions of each conversation, evenly from all but the adversarial ones; ten turns may be read; memories are
built by rules. Each method runs with both styles of prompts, in a folder of its own under --out; what is there is not
asked again, so the run can be stopped at any time. `--report` asks nothing: it writes what is there as JSON."""
import argparse
import json
import sys
from collections import Counter
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from statistics import median

from memnb.core.models import OpenAILM
from memnb.core.roles import RuleLM
from memnb.core.trace import Trace
from memnb.evaluation.experiment import Experiment, RowStore
from memnb.evaluation.metrics import bootstrap, paired
from memnb.evaluation.papers import variant
from memnb.evaluation.registry import load_dataset

METHODS = 'rag', 'memr3', 'remem', 'mragent', 'memma'
STYLES = 'memnb', 'paper'
SERVED = {'bounds': (160, 4), 'max_tokens': 500, 'timeout': 1200}  # a small model must be bounded
TURNS = 10


def evenly(conversation, count):
    "The conversation with so many of its questions, evenly from all but the adversarial ones."
    asked = [one for one in conversation.questions if one.category != 'adversarial']
    count = min(count, len(asked))
    chosen = [asked[place * len(asked) // count] for place in range(count)]
    return replace(conversation, questions=tuple(chosen))


def experiment(method, style, conversations, lm):
    "The experiment of one method with one style of prompts; plain retrieval has only one."
    switches = {} if method == 'rag' else {'prompts': style}
    asked = variant(f'{method}, {style}', method, **switches)
    return Experiment([asked], {'data': conversations}, lm=lm, build_lm=RuleLM(), turns=TURNS, stop=True, baselines=())


def replies_of(traces):
    "For each role: calls, how many replies were usable, how many at once, and what was changed to read them."
    found = {}
    for trace in traces:
        for step in trace.steps:
            if step.kind == 'model':
                role = found.setdefault(step.role, Counter())
                role.update(calls=1, usable=step.error is None, at_once=step.error is None and step.attempts == 1,
                            mended=bool(step.notes), prompt_tokens=step.usage.prompt_tokens, completion_tokens=step.usage.completion_tokens)
    return {role: dict(counts) for role, counts in sorted(found.items())}


def summary(folder, results, at_once):
    "What one experiment came to, as plain JSON."
    rows = results.rows
    with closing(RowStore(folder / 'rows.sqlite', mode='rw')) as store:
        keys = [key for key, in store.rows("SELECT key FROM records WHERE trace IS NOT NULL")]
        traces = [Trace.from_json(store.trace(key)) for key in keys]
        records = [one for one in store.records() if 'question' in one]
    clusters = rows.conversation.tolist()
    figures = {name: asdict(bootstrap(rows[name].dropna().tolist(), [one for one, some in zip(clusters, rows[name].notna()) if some]))
               for name in ('turns', 'evidence_recall', 'cited_recall', 'f1_locomo', 'date_exact')}
    spent = [trace.total for trace in traces]
    costs = {name: sum(getattr(one, name) for one in spent) / max(len(spent), 1) for name in ('calls', 'prompt_tokens', 'completion_tokens')}
    return {'questions': len(rows), 'errors': int(rows.error.notna().sum()), 'fallbacks': sum(one.fallback is not None for one in traces), **figures,
            **costs, 'seconds': median(one['seconds'] for one in records) / at_once, 'roles': replies_of(traces),
            'by question': {f'{row.conversation}/{row.position}': [row.evidence_recall, row.f1_locomo, row.turns] for row in rows.itertuples()}}


def main():
    "Ask, or report."
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('file', help="conversations in LoCoMo's format")
    parser.add_argument('--model'), parser.add_argument('--base-url')
    parser.add_argument('--out', type=Path, required=True)
    parser.add_argument('--questions', type=int, default=20, help='of each conversation')
    parser.add_argument('--methods', default=','.join(METHODS)), parser.add_argument('--styles', default=','.join(STYLES))
    parser.add_argument('--at-once', type=int, default=1, help='conversations asked at a time: the seconds of a question are divided by it')
    parser.add_argument('--report', action='store_true')
    options = parser.parse_args()
    conversations = [evenly(one, options.questions) for one in load_dataset(options.file)]
    lm = OpenAILM(options.model or 'none', options.base_url or 'http://127.0.0.1:9/v1', **SERVED)
    for style in options.styles.split(','):
        for method in options.methods.split(','):
            if method == 'rag' and style == 'paper':
                continue
            folder = options.out / f'{method}-{style}'
            if not options.report:
                print(style, method, flush=True)
                results = experiment(method, style, conversations, lm).run(folder, executor=f'threads:{options.at_once}', progress=False)
                (folder / 'summary.json').write_text(json.dumps(summary(folder, results, options.at_once)), encoding='utf-8')
    if options.report:
        print(json.dumps({path.parent.name: json.loads(path.read_text(encoding='utf-8')) for path in sorted(options.out.glob('*/summary.json'))}, indent=1))


if __name__ == '__main__':
    sys.exit(main())
