"""What a search finds whose words a reader chose: `python tests/bench/first_query.py`.

Thirty questions on *team* of Octet, drawn at random by category, and for each a first query (role `QUERY`), written from the prompt
alone by one person who saw all thirty questions and no label. Printed for the best 5, 10 and 25 turns: the share of the evidence
that is found by the question, by the query and by both together, in percent, and how many questions the query serves better and
worse than the question."""

import json
from pathlib import Path
from statistics import mean

from memnb.evaluation.datasets import load_octet
from memnb.evaluation.metrics import evidence_recall
from memnb.retrieval.hybrid import HybridIndex

QUERIES = json.loads(Path(__file__).with_suffix('.json').read_text('utf-8'))  # by the position of the question


def main():
    [team] = [conversation for conversation in load_octet('test') if conversation.id == 'team']
    index = HybridIndex.of(team)
    questions = {str(question.position): question for question in team.questions}
    for k in (5, 10, 25):
        rows = []
        for position, query in QUERIES.items():
            question = questions[position]
            texts = (question.text, query, f'{question.text} {query}')
            found = [[turn for hit in index.search(text, k) for turn in hit.snippet.sources] for text in texts]
            rows.append([100 * evidence_recall(question.evidence, turns) for turns in found])
        by_question, by_query, by_both = map(mean, zip(*rows))
        better, worse = (sum(sign * (row[1] - row[0]) > 0 for row in rows) for sign in (1, -1))
        print(f'@{k:<3} question {by_question:5.1f}  query {by_query:5.1f}  both {by_both:5.1f}', end='  ')
        print(f'better {better}, worse {worse} of {len(rows)}')


if __name__ == '__main__':
    main()
