"""SQLite's full-text index as a memory: the laws of every adapter, and what is SQLite's own."""
import json
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import pytest
from contract import LAWS, ODD, QUESTION, SNIPPETS
from hypothesis import given
from hypothesis import strategies as st

from memnb.adapters.stores import Fields, fields_of
from memnb.core.conversation import Snippet
from memnb.adapters.stores import from_sqlite

COLUMNS = ('text', *fields_of(SNIPPETS[0]))


def connected(snippets, columns=COLUMNS, **options):
    """A database in memory with a table of these snippets."""
    connection = sqlite3.connect(':memory:', **options)
    connection.execute(f'CREATE VIRTUAL TABLE memory USING fts5({", ".join(columns[:1] + tuple(name + " UNINDEXED" for name in columns[1:]))})')
    for snippet in snippets:
        kept = {columns[0]: snippet.text} | {name: json.dumps(value) if isinstance(value, list) else value for name, value in fields_of(snippet).items()}
        connection.execute(f'INSERT INTO memory ({", ".join(kept)}) VALUES ({", ".join("?" * len(kept))})', [*kept.values()])
    return connection


@cache
def filled(snippets):
    return from_sqlite(connected(snippets, check_same_thread=False), 'memory')


def make(snippets):
    return filled(tuple(snippets))


def broken():
    """A table that is dropped behind the adapter's back."""
    connection = connected(SNIPPETS)
    store = from_sqlite(connection, 'memory')
    connection.execute('DROP TABLE memory')
    return store


make.broken = broken


@pytest.mark.parametrize('law', LAWS, ids=lambda law: law.__name__)
def test_law(law):
    law(make)


def test_a_closed_connection_is_an_error():
    connection = connected(SNIPPETS)
    store = from_sqlite(connection, 'memory')
    connection.close()
    with pytest.raises(sqlite3.ProgrammingError, match='closed'):
        store.search(QUESTION)


@given(st.text(st.characters(codec='utf-8') | st.sampled_from('"\'()*:^-+\x00_ ANDORNEAR')))
def test_no_text_fails_and_none_changes_anything(query):
    store = make(SNIPPETS)
    before = store.search(QUESTION)
    assert len(store.search(query, 3)) <= 3
    assert store.search(QUESTION) == before


def test_a_long_question_and_many_words():
    assert make(SNIPPETS).search(' '.join(f'w{number}' for number in range(5000)) + ' concertina', 1)
    assert make(SNIPPETS).search('x' * 100_000 + ' concertina', 1)


@given(st.sets(st.sampled_from(['concertina', 'Tobin', 'Zofia', 'notebook', 'crate', 'wrist', 'and', 'the']), min_size=1))
def test_the_order_is_that_of_bm25(words):
    connection, store = connected(SNIPPETS), make(SNIPPETS)
    kept = sorted(word for word in words if word not in ('and', 'the')) or sorted(words)
    rows = connection.execute('SELECT id, -bm25(memory) FROM memory WHERE memory MATCH ? ORDER BY 2 DESC', [' OR '.join(f'"{word}"' for word in kept)]).fetchall()
    found = [(hit.snippet.id, hit.score) for hit in store.search(' '.join(kept), 100)]
    assert sorted(found) == sorted(rows)
    assert [score for _, score in found] == [score for _, score in rows]


def test_the_tables_own_rank_counts():
    connection = connected([Snippet('a', 'boat', speaker='x'), Snippet('b', 'the boat of a neighbour who sails', speaker='boat')])
    connection.execute('CREATE VIRTUAL TABLE weighed USING fts5(text, speaker)')
    connection.execute('INSERT INTO weighed SELECT text, speaker FROM memory')
    plain = [hit.snippet.speaker for hit in from_sqlite(connection, 'weighed').search('boat')]
    connection.execute("INSERT INTO weighed (weighed, rank) VALUES ('rank', 'bm25(1.0, 50.0)')")
    assert [hit.snippet.speaker for hit in from_sqlite(connection, 'weighed').search('boat')] == ['boat', 'x']
    assert sorted(plain) == ['boat', 'x']


def test_names_that_need_quotation_marks():
    connection = sqlite3.connect(':memory:')
    connection.execute('CREATE VIRTUAL TABLE "my ""notes"" 2" USING fts5("the text", "select" UNINDEXED)')
    connection.execute('INSERT INTO "my ""notes"" 2" VALUES (?, ?)', ['A boat.', 'Ana'])
    hit, = from_sqlite(connection, 'my "notes" 2', Fields(text='the text', speaker='select')).search('boat')
    assert (hit.snippet.id, hit.snippet.text, hit.snippet.speaker) == ('1', 'A boat.', 'Ana')


def test_no_id_and_an_empty_one():
    connection = connected([])
    connection.executemany('INSERT INTO memory (text, id) VALUES (?, ?)', [('A boat.', None), ('Two boats.', 'b'), ('A boat, again.', 7)])
    store = from_sqlite(connection, 'memory')
    assert {hit.snippet.id for hit in store.search('boat boats')} == {'1', 'b', '7'}
    assert {hit.snippet.id for hit in store.search('boat boats', exclude=['1', '7'])} == {'b'}


def test_external_content_is_joined():
    connection = sqlite3.connect(':memory:')
    connection.executescript('''
        CREATE TABLE base (id INTEGER PRIMARY KEY, body TEXT, said TEXT);
        INSERT INTO base VALUES (40, 'A boat.', '2024-02-01T10:00:00'), (41, 'A house.', NULL);
        CREATE VIRTUAL TABLE found USING fts5(body, content=base, content_rowid=id);
        CREATE VIRTUAL TABLE bare USING fts5(body, content='');
        INSERT INTO found (found) VALUES ('rebuild');
        INSERT INTO bare (rowid, body) SELECT id, body FROM base;
    ''')
    for table in ('found', 'bare'):
        hit, = from_sqlite(connection, table, Fields(text='body'), content='base').search('boat')
        assert (hit.snippet.id, hit.snippet.text, str(hit.snippet.day)) == ('40', 'A boat.', '1 February 2024')
    with pytest.raises(TypeError, match="record '40': expected a text in 'body', got None"):
        from_sqlite(connection, 'bare', Fields(text='body')).search('boat')


def test_a_time_that_cannot_be_read_says_whose():
    connection = connected([])
    connection.execute("INSERT INTO memory (text, id, said) VALUES ('A boat.', 'b1', 'some day')")
    with pytest.raises(ValueError, match="record 'b1': expected a moment such as .* in 'said', got 'some day'"):
        from_sqlite(connection, 'memory').search('boat')


def test_what_is_no_such_table():
    connection = connected([])
    connection.execute('CREATE TABLE plain (text)')
    for table in ('plain', 'nowhere', 'memory; DROP TABLE memory'):
        with pytest.raises(ValueError, match='expected an FTS5 table'):
            from_sqlite(connection, table)
    with pytest.raises(ValueError, match="expected a column 'body' with the text, got .*'text'"):
        from_sqlite(connection, 'memory', Fields(text='body'))


def test_the_connections_settings_are_left_alone():
    connection = connected(SNIPPETS)
    connection.commit()
    connection.row_factory = as_dict = lambda cursor, row: {column[0]: value for column, value in zip(cursor.description, row)}
    store, changes = from_sqlite(connection, 'memory'), connection.total_changes
    assert store.search(QUESTION) == make(SNIPPETS).search(QUESTION)
    assert connection.row_factory is as_dict and connection.total_changes == changes and not connection.in_transaction


def test_new_notes_are_found_at_once_and_no_lock_is_left(tmp_path):
    ours, theirs = (sqlite3.connect(tmp_path / 'notes.db', timeout=0) for _ in range(2))
    ours.execute('CREATE VIRTUAL TABLE memory USING fts5(text)')
    store = from_sqlite(ours, 'memory')
    for number in range(1, 4):
        theirs.execute('INSERT INTO memory VALUES (?)', [f'boat {number}'])
        theirs.commit()
        assert len(store.search('boat', 1)) == 1
        assert len(store.search('boat')) == number


def test_another_thread_needs_a_connection_that_is_made_for_it():
    store = from_sqlite(connected(SNIPPETS), 'memory')
    with ThreadPoolExecutor(1) as thread, pytest.raises(sqlite3.ProgrammingError, match='same thread'):
        thread.submit(store.search, QUESTION).result()


def test_words_that_tell_nothing_find_nothing_unless_they_are_alone():
    store = from_sqlite(connected([Snippet('a', 'The lesson.'), Snippet('b', 'The other.')]), 'memory')
    assert [hit.snippet.id for hit in store.search('When was the lesson?')] == ['a']
    assert {hit.snippet.id for hit in store.search('the')} == {'a', 'b'}


def test_a_letter_with_its_accent_apart_is_the_same_letter():
    composed, apart = 'k\u0159\u00eddlo', 'kr\u030ci\u0301dlo'
    store = from_sqlite(connected([Snippet('a', composed), Snippet('b', apart)]), 'memory')
    assert [{hit.snippet.id for hit in store.search(text)} for text in (composed, apart)] == [{'a', 'b'}] * 2


def test_a_table_that_minds_case():
    connection = sqlite3.connect(':memory:')
    connection.execute('CREATE VIRTUAL TABLE memory USING fts5(text, tokenize="trigram case_sensitive 1")')
    connection.execute("INSERT INTO memory VALUES ('Tobin bakes.')")
    assert [len(from_sqlite(connection, 'memory').search(word)) for word in ('Tobin', 'tobin', 'AND NOT Tobin')] == [1, 0, 1]


def test_odd_texts_in_every_tokenizer():
    for tokenizer in ('porter', 'ascii', 'trigram', 'unicode61 remove_diacritics 2'):
        connection = sqlite3.connect(':memory:')
        connection.execute(f'CREATE VIRTUAL TABLE memory USING fts5(text, tokenize="{tokenizer}")')
        connection.executemany('INSERT INTO memory VALUES (?)', [[text] for text in ODD])
        store = from_sqlite(connection, 'memory')
        for text in ODD:
            store.search(text)
        assert store.search('concertina')
