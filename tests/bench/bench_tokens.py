"""Prompt tokens of a question, method by method, by the package's own estimate, beside those of an earlier commit.

    python tests/bench/bench_tokens.py [--data locomo.json] [--sample 10]

Rules answer in the place of a model and every prompt is counted at four characters to a token, with the schema of the reply
that a model without structured output is shown. Each method reads at most 25 turns and may stop before. Without --data the
bundled conversation is asked. Bar: 9,000 for REMem."""

import argparse

from memnb.core.models import FunctionLM
from memnb.evaluation.datasets import load_sample
from memnb.evaluation.estimate import estimate
from memnb.evaluation.experiment import Experiment
from memnb.evaluation.registry import load_dataset

METHODS = ['memr3', 'remem', 'mragent', 'memma']
EARLIER = 'e556de1'
REFERENCE = {  # of the bundled conversation and of three of LoCoMo, at that commit, with a sample of 10
    'sample': (4378, 13837, 16588, 7551),
    'conv-26': (4907, 14042, 17290, 6139),
    'conv-30': (3224, 13879, 11788, 5580),
    'conv-48': (4202, 13867, 14409, 6543),
}


def tokens(conversation, sample):
    "Prompt tokens of a question of a conversation, for each method."
    lm = FunctionLM(lambda prompt: '', 'not asked')
    experiment = Experiment(METHODS, {'data': [conversation]}, lm=lm, stop=True, baselines=())
    spent, asked = estimate(experiment, sample), len(experiment.plan.asked(conversation))
    return {name: round(spent.loc[('ask', name), 'prompt tokens'] / asked) for name in METHODS}


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--data', help="conversations in LoCoMo's format")
    parser.add_argument('--sample', type=int, default=10, help='questions of each conversation that are asked')
    options = parser.parse_args()
    conversations = load_dataset(options.data) if options.data else [load_sample()]
    print(f'{"prompt tokens of a question":30}{"now":>10}{EARLIER:>10}')
    for one in conversations:
        before = dict(zip(METHODS, REFERENCE.get(one.id, ()) if options.sample == 10 else ()))
        for name, count in tokens(one, options.sample).items():
            was = f'{before[name]:,}' if name in before else '–'
            print(f'{one.id + ", " + name:30}{count:10,}{was:>10}')
