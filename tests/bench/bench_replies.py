"""What a model's manner of writing costs: python tests/bench/bench_replies.py

Replies of every role in seventeen manners, and three that nobody could understand; then the bundled conversation asked, and its
memories built, by a model of which one reply in ten is a refusal. References: the review of commit 9cd98a3, where it has them."""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from manners import as_written, bare, collected, LOSES, MANNERS, Mannered, REFUSED  # noqa: E402

from memnb import CueTagGraph, GistGraph, HybridIndex, load_sample, MemMA, MemR3, MRAgent, RAG, REMem, SelfRAG  # noqa: E402
from memnb.core.replies import read_reply  # noqa: E402
from memnb.core.roles import LMError  # noqa: E402

replies = [(role, model, reply) for role, items in collected(most=2).items() for model, reply in items]
print(f'{len({role for role, *_ in replies})} roles, {len(replies)} replies\n')
print(f'{"manner":24}read   of')
total = 0
for name, manner in MANNERS.items():
    right = 0
    for role, model, reply in replies:
        try:
            read = json.loads(read_reply(manner(as_written(role, reply), role, model), model).model_dump_json())
        except ValueError:
            continue
        lost = LOSES.get(name, ())
        right += bare(read, lost) == bare(json.loads(reply.model_dump_json()), lost)
    total += right
    print(f'{name:24}{right:4} {len(replies):4}')
print(f'{"all":24}{total:4} {len(replies) * len(MANNERS):4}\n')
for name, manner in REFUSED.items():
    refused = 0
    for role, model, reply in replies:
        try:
            read_reply(manner(as_written(role, reply), role, model), model)
        except ValueError:
            refused += 1
    print(f'{name:24}{refused:4} {len(replies):4} refused')

sample = load_sample()
gists, cues, turns, bank = GistGraph.of(sample), CueTagGraph.of(sample), HybridIndex.of(sample), MemMA.of(sample).bank
LOOPS = {
    'rag': lambda lm: RAG(turns, lm),
    'self-rag': lambda lm: SelfRAG(turns, lm),
    'memr3': lambda lm: MemR3(turns, lm),
    'remem': lambda lm: REMem(gists, lm),
    'mragent': lambda lm: MRAgent(cues, lm),
    'memma': lambda lm: MemMA(bank, lm),
}
REVIEW = {'mragent': '10', 'memma': '3'}
for share in (0.1, 0.3):
    print(f'\n{share:.0%} of all replies refused: {len(sample.questions)} questions')
    print(f'{"method":10}refusals  without an answer  (review at 10%)  fallback  as without refusals')
    for name, loop in LOOPS.items():
        whole = loop(Mannered())
        lost = fallback = same = refusals = 0
        for number, question in enumerate(sample.questions):
            lm = Mannered(refusals=share, seed=number)
            trace = loop(lm).ask(question.text)
            refusals += lm.refused
            lost += trace.answer is None
            fallback += trace.fallback is not None
            same += trace.answer == whole.ask(question.text).answer
        print(f'{name:10}{refusals:8}  {lost:17}  {REVIEW.get(name, "-"):>15}  {fallback:8}  {same:8}')

print('\n10% of all replies refused: six builds of each memory')
print('memory      aborted  (review)  sessions lost, of  after one more call without refusals')
for name, make, review in (('gists', GistGraph, '-'), ('cues', CueTagGraph, '3'), ('bank', MemMA, '6')):
    aborted, lost, left = 0, 0, 0
    for seed in range(6):
        try:
            made = make.of(sample, Mannered(refusals=0.1, seed=seed))
        except LMError:
            aborted += 1
            continue
        lost += len(made.failed)
        made.lm = Mannered()
        (made.remember if make is MemMA else made.add)(['One more message.'])
        left += len(made.failed)
    print(f'{name:12}{aborted:7}  {review:>8}  {lost:6} of {6 * len(sample.sessions)}  {left:10}')
