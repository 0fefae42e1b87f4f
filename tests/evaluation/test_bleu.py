"""BLEU-1: tokens and scores worked by hand, a plainer second writing, and NLTK itself where it is installed."""
import math
import random
import re
import string

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from memnb.evaluation.metrics import bleu1_hf, bleu1_nltk, bleu1_of, mteval_tokens, treebank_tokens

vocabulary = ['the', 'Cat', 'cat', "Ana's", "didn't", 'cannot', '7', 'May', '2023', '5:30', '3,000', ',', '.', '(', ')', '"', 'well-known', 'Dr.', '!', ';', '...']
texts = st.lists(st.sampled_from(vocabulary), max_size=9).map(' '.join) | st.text(max_size=20)
tokens = st.lists(st.sampled_from('abcde'), max_size=8)
often = settings(max_examples=60, deadline=None)


def plain_bleu(prediction, gold):
    """Tokens taken out of the gold one by one, then the penalty as Papineni writes it."""
    left, shared = list(gold), 0
    for token in prediction:
        if token in left:
            left.remove(token)
            shared += 1
    if not shared:
        return 0.0
    short = len(prediction) <= len(gold)
    return shared / len(prediction) * (math.exp(1 - len(gold) / len(prediction)) if short else 1)


@given(tokens, tokens)
@often
def test_the_formula_agrees_with_a_plain_reading(prediction, gold):
    assert bleu1_of(prediction, gold) == pytest.approx(plain_bleu(prediction, gold))


@given(texts, texts)
@often
def test_scores_lie_between_0_and_1(prediction, gold):
    assert 0 <= bleu1_nltk(prediction, gold) <= 1
    assert 0 <= bleu1_hf(prediction, gold) <= 1


@given(texts)
@often
def test_a_text_scores_1_against_itself_if_it_has_a_token(text):
    assert bleu1_nltk(text, text) == (1 if treebank_tokens(text) else 0)
    assert bleu1_hf(text, text) == (1 if mteval_tokens(text) else 0)


@given(tokens, tokens, st.integers(0, 3))
@often
def test_order_does_not_count_and_padding_never_helps_one_that_is_long_enough(prediction, gold, more):
    mixed = list(prediction)
    random.Random(more).shuffle(mixed)
    assert bleu1_of(mixed, gold) == bleu1_of(prediction, gold)
    assume(len(prediction) >= len(gold))
    assert bleu1_of(prediction + ['z'] * more, gold) <= bleu1_of(prediction, gold)


@given(tokens, tokens, tokens)
@often
def test_it_is_the_precision_of_what_is_no_shorter_than_the_gold(prediction, gold, more):
    long = prediction + gold + more
    if long:
        assert bleu1_of(long, gold) == pytest.approx(len(gold) / len(long))


@given(texts)
@often
def test_cutting_loses_no_letter_and_adds_none(text):
    def letters(parts):
        return re.sub(r'[\s"`\']', '', ''.join(parts))
    text = text.replace('&', '').replace('<', '')
    assume('-\n' not in text)
    assert letters(treebank_tokens(text)) == letters(text.lower())
    assert letters(mteval_tokens(text)) == letters(text)


@given(st.text(alphabet=string.ascii_letters + string.digits + string.punctuation + ' ', max_size=25))
@often
def test_mteval_leaves_only_four_marks_on_words(text):
    for token in mteval_tokens(text.replace('<skipped>', '').replace('&', '')):
        assert len(token) == 1 or not set(token) & set(string.punctuation) - set("'-.,")
        assert not re.search(r'[A-Za-z][.,]|[0-9]-', token)


@pytest.mark.parametrize('text, expected', [
    ("She didn't go.", ['she', 'did', "n't", 'go', '.']),
    ("Ana's cats' tails", ['ana', "'s", 'cats', "'", 'tails']),
    ("I'll, we've, you're, he'd, I'm", ['i', "'ll", ',', 'we', "'ve", ',', 'you', "'re", ',', 'he', "'d", ',', 'i', "'m"]),
    ('"No," she said ("why?")', ['``', 'no', ',', "''", 'she', 'said', '(', '``', 'why', '?', "''", ')']),
    ('It cost $5.50. Then 3,000 at 5:30', ['it', 'cost', '$', '5.50', '.', 'then', '3,000', 'at', '5:30']),
    ('Dr. Smith left at 5 p.m. today', ['dr.', 'smith', 'left', 'at', '5', 'p.m.', 'today']),
    ('He saw Dr.', ['he', 'saw', 'dr', '.']),
    ('cannot gonna gotta', ['can', 'not', 'gon', 'na', 'got', 'ta']),
    ('one -- two... three', ['one', '--', 'two', '...', 'three']),
    ("the 'blue' one", ['the', "'", 'blue', "'", 'one']),
    ('', []),
])
def test_treebank_tokens_by_hand(text, expected):
    assert treebank_tokens(text) == expected


@pytest.mark.parametrize('text, expected', [
    ("She didn't go.", ['She', "didn't", 'go', '.']),
    ('1,000.5', ['1,000.5']),
    ('May 7, 2023', ['May', '7', ',', '2023']),
    ('3-4 well-known', ['3', '-', '4', 'well-known']),
    ('5:30 (a/b)', ['5', ':', '30', '(', 'a', '/', 'b', ')']),
    ('&quot;A&amp;B&quot; &lt;x&gt;', ['"', 'A', '&', 'B', '"', '<', 'x', '>']),
    ('multi-\nline\ntext', ['multiline', 'text']),
    ('<skipped>', []),
])
def test_mteval_tokens_by_hand(text, expected):
    assert mteval_tokens(text) == expected


@pytest.mark.parametrize('prediction, gold, nltk, hugging_face', [
    ('In June', 'in June', 1, 1 / 2),
    ('in June.', 'in June', 2 / 3, 2 / 3),
    ('June', 'in June 2023', math.exp(-2), math.exp(-2)),
    ("Ana's", 'Ana', 1 / 2, 0),
    ('', 'Ana', 0, 0),
    ('Ana', '', 0, 0),
    ('', '', 0, 0),
])
def test_both_by_hand(prediction, gold, nltk, hugging_face):
    assert bleu1_nltk(prediction, gold) == pytest.approx(nltk)
    assert bleu1_hf(prediction, gold) == pytest.approx(hugging_face)


def test_nltk_says_the_same_where_it_is_installed():
    pytest.importorskip('nltk', reason='NLTK is no requirement; the cases by hand stand for it')
    from nltk.tokenize.destructive import NLTKWordTokenizer
    from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu
    chance = random.Random(0)
    words = ['the', 'Cat', "Ana's", "didn't", 'cannot', '7', 'May,', '2023', '5:30', '3,000', '(red)', '"yes"', 'well-known', 'no;', "'blue'", 'two...', 'cats\'']
    for _ in range(300):
        gold, prediction = [' '.join(chance.choices(words, k=chance.randint(1, 7))) + chance.choice(['', '.', '!', '."']) for _ in range(2)]
        cut = [NLTKWordTokenizer().tokenize(text.lower()) for text in (gold, prediction)]
        assert [treebank_tokens(gold), treebank_tokens(prediction)] == cut
        theirs = sentence_bleu([cut[0]], cut[1], weights=(1, 0, 0, 0), smoothing_function=SmoothingFunction().method1)
        assert bleu1_nltk(prediction, gold) == pytest.approx(theirs)
