"""Texts of any length are embedded within a bounded batch."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memnb.evaluation.datasets import load_sample
from memnb.retrieval import vectors
from memnb.retrieval.vectors import WordLlamaEmbedder

EMBEDDER = WordLlamaEmbedder()


class Watching:
    """The model, and the bytes of each batch that it was given, padding included."""

    def __init__(self):
        self.model, self.batches = vectors._wordllama(), []

    def embed(self, texts):
        self.batches.append(len(texts) * max(len(text.encode()) for text in texts))
        return self.model.embed(texts)


@pytest.mark.parametrize(
    'long', ['🦊' * 20_000, 'the quick brown fox ' * 5_000, '亀' * 30_000, '.' * 50_000, 'Żółw\u2028' * 9_000]
)
def test_a_long_text_among_short_ones_does_not_make_a_large_batch(monkeypatch, long):
    model = Watching()
    monkeypatch.setattr(vectors, '_wordllama', lambda: model)
    short = [f'I like kite number {number}.' for number in range(63)]
    rows = EMBEDDER([*short[:30], long, *short[30:]])
    assert max(model.batches) <= WordLlamaEmbedder.batch
    assert np.array_equal(np.delete(rows, 30, axis=0), model.model.embed(short))
    assert np.isfinite(rows).all() and np.abs(rows[30]).max() > 0


def test_ordinary_texts_have_the_vectors_of_the_model():
    texts = [turn.content for turn in load_sample().turns] + ['', '\ud83d half']
    wanted = vectors._wordllama().embed([text.encode('utf-8', 'replace').decode() for text in texts])
    assert np.array_equal(EMBEDDER(texts), wanted)


@given(st.lists(st.sampled_from(['kite ', 'fox ', '🦊 ', 'Skerrin. ']), min_size=500, max_size=900).map(''.join))
def test_the_vector_of_a_long_text_is_the_mean_of_its_parts(text):
    size = WordLlamaEmbedder.part
    parts = [text[start : start + size] for start in range(0, len(text), size)]
    weights = [len(part.encode()) for part in parts]
    wanted = np.average(EMBEDDER(parts).astype(float), axis=0, weights=weights)
    assert np.allclose(EMBEDDER([text])[0], wanted, atol=1e-6)
