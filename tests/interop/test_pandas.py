"""Loops over a pandas DataFrame: its columns under their own names, its values as pandas keeps them."""

from datetime import datetime

import numpy as np
import pytest

pd = pytest.importorskip('pandas')

from contract import maker, properties_of, TURNS
from hypothesis import given, settings
from hypothesis import strategies as st

from memnb.adapters.stores import Fields, fields_of, from_pandas
from memnb.core.conversation import DuplicateSnippet, Snippet
from memnb.retrieval.bm25 import LexicalIndex
from memnb.retrieval.hybrid import HybridIndex

COLUMNS = ['id', 'text', 'time', 'said', 'speaker', 'sources', 'session', 'position']
WORDS = 'concertina lesson organ notebook dog wrist February'.split()


def frame_of(snippets):
    return pd.DataFrame([{**fields_of(snippet), 'text': snippet.text} for snippet in snippets], columns=COLUMNS)


INDEXES = {
    'words': LexicalIndex,
    'words and meaning': lambda: HybridIndex(spread=False),
}  # two snippets stand at one place
MAKERS = {
    name: maker(lambda snippets, new=new: from_pandas(frame_of(snippets), index=new())) for name, new in INDEXES.items()
}
test_property = properties_of(MAKERS)


def test_columns_of_your_own_and_labels_as_ids():
    frame = pd.DataFrame(
        {
            'Message': ['The organ sang.', 'The dog slept.'],
            'Who': ['Ada', None],
            'When': ['2024-02-03', pd.NaT],
            'Mood': [1, 2],
        },
        index=[10, 20],
    )
    store = from_pandas(frame, Fields(text='Message', speaker='Who', said='When'))
    organ, dog = store.search('organ')[0].snippet, store.search('dog')[0].snippet
    assert organ == Snippet('10', 'The organ sang.', speaker='Ada', said=datetime(2024, 2, 3))
    assert dog == Snippet('20', 'The dog slept.')


@pytest.mark.parametrize('missing', [None, np.nan, pd.NA, pd.NaT])
def test_missing_values_are_left_out(missing):
    gaps = {name: pd.Series([missing] * 5, dtype=object) for name in COLUMNS[2:]}
    hits = from_pandas(frame_of(TURNS[:5]).astype(object).assign(**gaps)).search('Zofia Tobin concertina', 9)
    assert [hit.snippet for hit in hits] == [Snippet(hit.snippet.id, hit.snippet.text) for hit in hits] != []


def test_bad_tables_are_errors():
    with pytest.raises(ValueError, match="expected a column 'text' of texts, got "):
        from_pandas(pd.DataFrame({'body': ['a']}))
    with pytest.raises(ValueError, match="'r1'.*'said'.*'some day'"):
        from_pandas(pd.DataFrame({'text': ['x'], 'said': ['some day']}, index=['r1']))
    twice = pd.concat([pd.DataFrame({'text': ['one']}), pd.DataFrame({'text': ['two']})])  # the label 0 twice
    with pytest.raises(DuplicateSnippet, match="'0'"):
        from_pandas(twice)
    assert len(from_pandas(twice.reset_index(drop=True)).search('one two')) == 2


TEXTS = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(' '.join)


@given(st.lists(TEXTS, max_size=8), st.sampled_from(WORDS), st.randoms(use_true_random=False))
@settings(max_examples=25)
def test_the_order_of_rows_does_not_matter(texts, query, chance):
    frame = pd.DataFrame({'id': [f'r{number}' for number in range(len(texts))], 'text': pd.Series(texts, dtype=object)})
    shuffled = frame.sample(frac=1, random_state=chance.randrange(99)) if texts else frame
    assert from_pandas(shuffled).search(query, 9) == from_pandas(frame).search(query, 9)
    assert {hit.snippet.text for hit in from_pandas(frame).search(query, 9)} == {
        text for text in texts if query in text.split()
    }
