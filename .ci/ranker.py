"""Fit the ranking of the package, and write data/ranker.json: `python .ci/ranker.py`. Two runs write the same file.

Two sets of weights: for an index with an embedder, and for one without. They are fitted to the part fit of Octet and to the same
turns in the register of a user with an assistant."""

import hashlib
import json

from chats import assistant_chats

from memnb.evaluation.datasets import data_path, load_octet
from memnb.retrieval.learned import fit_ranker
from memnb.retrieval.vectors import WordLlamaEmbedder

conversations = load_octet('fit')
chats = assistant_chats(conversations)
fitted = {
    name: fit_ranker(conversations, chats=chats, embedder=embedder)
    for name, embedder in {'vectors': WordLlamaEmbedder(), 'words': None}.items()
}
about = {
    'data': 'octet.json, the part fit, and assistant_chats of it',
    'sha256': hashlib.sha256(data_path('octet.json').read_bytes()).hexdigest(),
    'method': 'fit_ranker, without chance',
    **fitted['vectors'].about,
}
weights = {name: ranker.weights for name, ranker in fitted.items()}
path = data_path('ranker.json')
path.write_text(json.dumps({'about': about, 'weights': weights}, indent=1) + '\n', encoding='utf-8')
print(path)
