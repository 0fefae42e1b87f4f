"""Loops over a pandas DataFrame: its columns under their own names, its values as pandas keeps them."""
from datetime import date, datetime, timedelta, timezone
from functools import cache

import numpy as np
import pytest

pd = pytest.importorskip('pandas')

from hypothesis import given, settings
from hypothesis import strategies as st

from contract import LAWS, QUESTION, SNIPPETS, TURNS, ids
from memnb.retrieval.vectors import HybridIndex
from memnb.adapters.stores import Fields, fields_of
from memnb.retrieval.bm25 import LexicalIndex
from memnb.memr3.loop import MemR3
from memnb.retrieval.bm25 import DuplicateSnippet
from memnb.core.conversation import Snippet
from memnb.core.time import TimeSpan
from memnb.adapters.stores import from_pandas

COLUMNS = ['id', 'text', 'time', 'said', 'speaker', 'sources', 'session', 'position']
WORDS = 'concertina lesson organ notebook dog wrist February'.split()


def frame_of(snippets):
    return pd.DataFrame([{**fields_of(snippet), 'text': snippet.text} for snippet in snippets], columns=COLUMNS)


def maker(index):
    @cache
    def filled(snippets):
        return from_pandas(frame_of(snippets), index=index())

    def make(snippets):
        return filled(tuple(snippets))
    return make


MAKERS = {'words': maker(LexicalIndex), 'words and meaning': maker(lambda: HybridIndex(spread=False))}  # two of the snippets stand at one place


@pytest.mark.parametrize('law', LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize('make', MAKERS.values(), ids=MAKERS)
def test_law(law, make):
    law(make)


def test_it_is_the_index_of_the_snippets():
    for make, index in zip(MAKERS.values(), (LexicalIndex(), HybridIndex(spread=False))):
        index.add(SNIPPETS)
        assert make(SNIPPETS).search(QUESTION, 20) == index.search(QUESTION, 20)


def test_columns_of_your_own_and_labels_as_ids():
    frame = pd.DataFrame({'Message': ['The organ sang.', 'The dog slept.'], 'Who': ['Ada', None], 'When': ['2024-02-03', pd.NaT], 'Mood': [1, 2]}, index=[10, 20])
    store = from_pandas(frame, Fields(text='Message', speaker='Who', said='When'))
    organ, dog = store.search('organ')[0].snippet, store.search('dog')[0].snippet
    assert (organ.id, organ.speaker, organ.said, organ.line) == ('10', 'Ada', datetime(2024, 2, 3), '[3 February 2024] Ada: The organ sang.')
    assert (dog.id, dog.speaker, dog.said, dog.line) == ('20', None, None, 'The dog slept.')


@pytest.mark.parametrize('missing', [None, np.nan, pd.NA, pd.NaT])
def test_what_is_missing_is_nothing(missing):
    store = from_pandas(frame_of(TURNS[:5]).astype(object).assign(**{name: pd.Series([missing] * 5, dtype=object) for name in COLUMNS[2:]}))
    assert [hit.snippet for hit in store.search('Zofia Tobin concertina', 9)] == [
        Snippet(hit.snippet.id, hit.snippet.text) for hit in store.search('Zofia Tobin concertina', 9)] != []


@pytest.mark.parametrize('kind', ['str', 'string', 'category', object])
def test_texts_of_any_kind_of_column(kind):
    frame = frame_of(TURNS)
    assert from_pandas(frame.assign(text=frame['text'].astype(kind))).search(QUESTION, 5) == from_pandas(frame).search(QUESTION, 5)


MOMENT = datetime(2024, 1, 9, 19, 15)
ZONE = timezone(timedelta(hours=1))


@pytest.mark.parametrize('value', [MOMENT, pd.Timestamp(MOMENT), np.datetime64(MOMENT), MOMENT.isoformat(), '2024-01-09 19:15', MOMENT.replace(tzinfo=ZONE)])
def test_moments_in_every_spelling(value):
    snippet = from_pandas(pd.DataFrame({'text': ['concertina'], 'said': [value]})).search('concertina')[0].snippet
    assert snippet.said.replace(tzinfo=None) == MOMENT and snippet.day == TimeSpan.day(date(2024, 1, 9))


@pytest.mark.parametrize('value', [date(2024, 2, 3), pd.Timestamp(2024, 2, 3), '2024-02-03', '3 February 2024', '2024-02-03/2024-02-03#day'])
def test_days_in_every_spelling(value):
    store = from_pandas(pd.DataFrame({'text': ['concertina'], 'time': [value]}))
    assert store.search('concertina', during=TimeSpan.month(2024, 2)) and not store.search('concertina', during=TimeSpan.month(2024, 3))


def test_numbers_of_numpy_lists_and_arrays():
    frame = pd.DataFrame({'id': [7, 8], 'text': ['the organ', 'an organ'], 'session': ['D1', 'D1'], 'position': np.array([0, 1]),
                          'sources': [['D1:1'], np.array(['D1:2', 'D1:3'])]})
    found = {hit.snippet.id: hit.snippet for hit in from_pandas(frame).search('organ')}
    assert found == {'7': Snippet('7', 'the organ', ('D1:1',), session='D1', position=0),
                     '8': Snippet('8', 'an organ', ('D1:2', 'D1:3'), session='D1', position=1)}


@pytest.mark.parametrize('text', [None, np.nan, 3, b'bytes', pd.NA])
def test_a_row_without_a_text_is_said(text):
    frame = pd.DataFrame({'text': pd.Series(['fine', text], dtype=object, index=['a', 'b'])})
    with pytest.raises(ValueError, match="row 'b': expected a text in column 'text'"):
        from_pandas(frame)


def test_bad_tables_say_so():
    with pytest.raises(ValueError, match=r"expected one column 'text' of texts and no name twice, got \['body'\]"):
        from_pandas(pd.DataFrame({'body': ['x']}))
    with pytest.raises(ValueError, match='no name twice'):
        from_pandas(pd.DataFrame([['a', 'b']], columns=['text', 'text']))
    with pytest.raises(ValueError, match='no name twice'):
        from_pandas(pd.DataFrame([['a', 'b', 'c']], columns=['text', 'x', 'x']))
    with pytest.raises(ValueError, match="'r1'.*'said'.*'some day'"):
        from_pandas(pd.DataFrame({'text': ['x'], 'said': ['some day']}, index=['r1']))
    twice = pd.concat([pd.DataFrame({'text': ['one']}), pd.DataFrame({'text': ['two']})])  # the label 0 twice
    with pytest.raises(DuplicateSnippet, match="'0'"):
        from_pandas(twice)
    assert len(from_pandas(twice.reset_index(drop=True)).search('one two')) == 2
    with pytest.raises(DuplicateSnippet, match="position 7 of session 'D2' is claimed by two"):
        from_pandas(frame_of(SNIPPETS), index=HybridIndex())


def test_no_times_and_later_rows():
    frame = pd.DataFrame({'text': ['the organ']})
    store = from_pandas(frame)
    assert not store.times and store.search('organ', during=TimeSpan.year(2024)) == []
    frame.loc[1] = ['another organ']
    assert len(store.search('organ')) == 1 and 'later rows' in store.note


def test_a_slice_and_a_view_of_a_frame():
    frame = frame_of(TURNS)
    part = frame[frame['session'] == 'D2'].sort_values('position', ascending=False)
    assert {hit.snippet.session for hit in from_pandas(part).search('organ crate', 50)} == {'D2'}
    assert MemR3(from_pandas(frame.set_index('id', drop=False))).ask(QUESTION).answer == '8 January 2024'


TEXTS = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(' '.join)


@given(st.lists(TEXTS, max_size=8), st.sampled_from(WORDS), st.randoms(use_true_random=False))
@settings(max_examples=25)
def test_the_order_of_rows_does_not_matter(texts, query, chance):
    frame = pd.DataFrame({'id': [f'r{number}' for number in range(len(texts))], 'text': pd.Series(texts, dtype=object)})
    shuffled = frame.sample(frac=1, random_state=chance.randrange(99)) if texts else frame
    assert from_pandas(shuffled).search(query, 9) == from_pandas(frame).search(query, 9)
    assert {hit.snippet.text for hit in from_pandas(frame).search(query, 9)} == {text for text in texts if query in text.split()}


def test_a_sabotaged_table_is_seen():
    """A table whose ids are lost, and one in which the speakers slipped by a row: the laws see both."""
    def slipped(snippets):
        frame = frame_of(snippets)
        return from_pandas(frame.assign(speaker=frame['speaker'].shift(1)))

    def lost(snippets):
        return from_pandas(frame_of(snippets).drop(columns='id'))
    law = next(law for law in LAWS if law.__name__ == 'what_is_found_was_put_in')
    for make in (slipped, lost):
        with pytest.raises(AssertionError):
            law(make)
    assert ids(lost(TURNS).search(QUESTION, 1)) != ids(from_pandas(frame_of(TURNS)).search(QUESTION, 1))
