"""BLEU-1: properties, and what the two libraries compute."""

import random
import sys

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from memnb.evaluation.metrics import _bleu1, _nltk_tokens, bleu1_hf, bleu1_nltk

vocabulary = [
    'the',
    'Cat',
    'cat',
    "Ana's",
    "didn't",
    'cannot',
    '7',
    'May',
    '2023',
    '5:30',
    '3,000',
    ',',
    '.',
    '(',
    ')',
    '"',
    'well-known',
    'Dr.',
    '!',
    ';',
    '...',
]
texts = st.lists(st.sampled_from(vocabulary), max_size=9).map(' '.join) | st.text(max_size=20)
tokens = st.lists(st.sampled_from('abcde'), max_size=8)
often = settings(max_examples=60)


@given(texts)
@often
def test_a_text_scores_1_against_itself_if_it_has_a_token(text):
    assert bleu1_nltk(text, text) == (1 if _nltk_tokens(text) else 0)
    assert bleu1_hf(text, text) == (1 if text.replace('<skipped>', '').strip() else 0)


@given(tokens, tokens, st.integers(0, 3))
@often
def test_order_does_not_count_and_padding_never_helps_one_that_is_long_enough(prediction, gold, more):
    mixed = list(prediction)
    random.Random(more).shuffle(mixed)
    assert _bleu1(mixed, gold) == _bleu1(prediction, gold)
    assume(len(prediction) >= len(gold))
    assert _bleu1(prediction + ['z'] * more, gold) <= _bleu1(prediction, gold)


def test_it_is_what_nltk_and_sacrebleu_compute():
    from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu
    from sacrebleu.metrics import BLEU

    chance, theirs = random.Random(0), BLEU(max_ngram_order=1, smooth_method='none', effective_order=True)
    words = [
        'the',
        'Cat',
        "Ana's",
        "didn't",
        'cannot',
        '7',
        'May,',
        '2023',
        '5:30',
        '3,000',
        '(red)',
        '"yes"',
        'well-known',
        'two...',
    ]
    for _ in range(200):
        gold, prediction = [
            ' '.join(chance.choices(words, k=chance.randint(1, 7))) + chance.choice(['', '.', '!']) for _ in range(2)
        ]
        cut = [_nltk_tokens(text) for text in (gold, prediction)]
        by_nltk = sentence_bleu([cut[0]], cut[1], weights=(1, 0, 0, 0), smoothing_function=SmoothingFunction().method1)
        assert bleu1_nltk(prediction, gold) == pytest.approx(by_nltk)
        assert bleu1_hf(prediction, gold) == pytest.approx(theirs.sentence_score(prediction, [gold]).score / 100)


def test_without_the_libraries_the_extra_is_named(monkeypatch):
    from memnb.evaluation.metrics import _tokenizers

    _tokenizers.cache_clear()
    monkeypatch.setitem(sys.modules, 'sacrebleu.tokenizers.tokenizer_13a', None)
    with pytest.raises(ImportError, match=r"pip install 'memnb\[eval\]'"):
        bleu1_hf('a', 'a')
