"""Our ranking over Qdrant's local mode: `python tests/bench/reranked_qdrant.py FOLDER` (chats of BEAM; needs qdrant-client).

The share of the evidence among 5, 10 and 25 turns for the store alone, for the store with its 200 best ranked anew, and for an index of
our own; and the milliseconds of a question. All chats of the folder are one collection. The store holds whole messages, as most do."""

import argparse
import time
from dataclasses import replace
from pathlib import Path
from statistics import mean, median

from qdrant_client import models, QdrantClient

from memnb.adapters.stores import fields_of, from_qdrant
from memnb.core.conversation import turn_snippets
from memnb.evaluation.beam import load_beam
from memnb.evaluation.searches import asked_questions, CUTS
from memnb.retrieval.hybrid import HybridIndex
from memnb.retrieval.reranked import Reranked
from memnb.retrieval.vectors import WordLlamaEmbedder


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('folder', type=Path)
    parser.add_argument('--k', type=int, default=200, help='candidates (default: 200)')
    options = parser.parse_args()
    snippets, asked = [], []
    for chat in load_beam(options.folder):
        for snippet in turn_snippets(chat):
            id, session = f'{chat.id}/{snippet.id}', f'{chat.id}/{snippet.session}'
            snippets.append(replace(snippet, id=id, session=session, sources=(id,)))
        for question in asked_questions(chat):
            asked.append((question.text, {f'{chat.id}/{turn}' for turn in question.evidence}))
    client = QdrantClient(':memory:')
    client.create_collection('chats', models.VectorParams(size=256, distance=models.Distance.COSINE))
    rows = WordLlamaEmbedder()([snippet.text for snippet in snippets])
    points = [
        models.PointStruct(id=number, vector=row.tolist(), payload={**fields_of(snippet), 'text': snippet.text})
        for number, (snippet, row) in enumerate(zip(snippets, rows))
    ]
    client.upload_points('chats', points)
    store = from_qdrant(client, 'chats')
    index = HybridIndex(names=['User', 'Assistant'])
    index.add(snippets)
    print(f'{len(snippets):,} messages, {len(asked)} questions')
    for name, memory in {
        'Qdrant alone': store,
        f'its {options.k} best reranked': Reranked(store, options.k),
        'HybridIndex': index,
    }.items():
        rows, seconds = [], []
        for text, evidence in asked:
            began = time.perf_counter()
            ids = [hit.snippet.id for hit in memory.search(text, max(CUTS))]
            seconds.append(time.perf_counter() - began)
            rows.append([100 * len(evidence & set(ids[:cut])) / len(evidence) for cut in CUTS])
        cells = '  '.join(f'{mean(column):5.1f}' for column in zip(*rows))
        print(f'{name:24}{cells}   {1000 * median(seconds):.0f} ms')


if __name__ == '__main__':
    main()
