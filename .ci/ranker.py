"""Fit the weights of the learned ranking and write data/ranker.json. It needs the extra `minilm`.

The five conversations of Octet that are there for it are all that goes in; a second run writes the same bytes. After it
the notebooks have to be run again (`python .ci/rerun.py`), and the tables that name their command, too."""

import json
from pathlib import Path

from memnb.evaluation.datasets import load_octet
from memnb.evaluation.registry import data_hash
from memnb.retrieval.learned import fit_ranker
from memnb.retrieval.vectors import MiniLMEmbedder, WordLlamaEmbedder


def main() -> None:
    "Write the file."
    embedders = {WordLlamaEmbedder.name: WordLlamaEmbedder(), 'words': None, MiniLMEmbedder.name: MiniLMEmbedder()}
    rankers = {name: fit_ranker(load_octet('fit'), embedder=one) for name, one in embedders.items()}
    about = {
        'data': 'octet.json, the part fit',
        'sha256': data_hash('octet'),
        'method': 'fit_ranker, without chance',
        **rankers[WordLlamaEmbedder.name].about,
    }
    held = {'about': about, 'weights': {name: ranker.weights for name, ranker in rankers.items()}}
    (Path(__file__).parent.parent / 'data' / 'ranker.json').write_text(
        json.dumps(held, indent=1) + '\n', encoding='utf-8'
    )


if __name__ == '__main__':
    main()
