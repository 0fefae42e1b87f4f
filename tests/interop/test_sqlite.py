"""SQLite's full-text index as a memory: the properties of every adapter, and what is SQLite's own."""

import json
import sqlite3

import pytest
from contract import maker, ODD, properties_of, QUESTION, SNIPPETS
from hypothesis import given
from hypothesis import strategies as st

from memnb.adapters.stores import Fields, fields_of, from_sqlite
from memnb.core.conversation import Snippet

COLUMNS = ('text', *fields_of(SNIPPETS[0]))


def connected(snippets, **options):
    """A database in memory with a table of these snippets."""
    connection = sqlite3.connect(':memory:', **options)
    columns = ', '.join([COLUMNS[0], *(f'{name} UNINDEXED' for name in COLUMNS[1:])])
    connection.execute(f'CREATE VIRTUAL TABLE memory USING fts5({columns})')
    for snippet in snippets:
        kept = {'text': snippet.text}
        for name, value in fields_of(snippet).items():
            kept[name] = json.dumps(value) if isinstance(value, list) else value
        connection.execute(
            f'INSERT INTO memory ({", ".join(kept)}) VALUES ({", ".join("?" * len(kept))})', [*kept.values()]
        )
    return connection


def broken():
    """A table that is dropped behind the adapter's back."""
    connection = connected(SNIPPETS)
    store = from_sqlite(connection, 'memory')
    connection.execute('DROP TABLE memory')
    return store


make = maker(lambda snippets: from_sqlite(connected(snippets, check_same_thread=False), 'memory'), broken)
test_property = properties_of({'SQLite': make})


@given(st.text(st.characters(codec='utf-8') | st.sampled_from('"\'()*:^-+\x00_ ANDORNEAR')))
def test_no_text_fails_and_none_changes_anything(query):
    store = make(SNIPPETS)
    before = store.search(QUESTION)
    assert len(store.search(query, 3)) <= 3
    assert store.search(QUESTION) == before


@given(
    st.sets(st.sampled_from(['concertina', 'Tobin', 'Zofia', 'notebook', 'crate', 'wrist', 'and', 'the']), min_size=1)
)
def test_the_order_is_that_of_bm25(words):
    connection, store = connected(SNIPPETS), make(SNIPPETS)
    kept = sorted(word for word in words if word not in ('and', 'the')) or sorted(words)
    query = ' OR '.join(f'"{word}"' for word in kept)
    rows = connection.execute(
        'SELECT id, -bm25(memory) FROM memory WHERE memory MATCH ? ORDER BY 2 DESC', [query]
    ).fetchall()
    found = [(hit.snippet.id, hit.score) for hit in store.search(' '.join(kept), 100)]
    assert sorted(found) == sorted(rows)
    assert [score for _, score in found] == [score for _, score in rows]


def test_the_tables_own_rank_counts():
    connection = connected(
        [Snippet('a', 'boat', speaker='x'), Snippet('b', 'the boat of a neighbour who sails', speaker='boat')]
    )
    connection.execute('CREATE VIRTUAL TABLE weighed USING fts5(text, speaker)')
    connection.execute('INSERT INTO weighed SELECT text, speaker FROM memory')
    connection.execute("INSERT INTO weighed (weighed, rank) VALUES ('rank', 'bm25(1.0, 50.0)')")
    assert [hit.snippet.speaker for hit in from_sqlite(connection, 'weighed').search('boat')] == ['boat', 'x']


def test_names_that_need_quotation_marks():
    connection = sqlite3.connect(':memory:')
    connection.execute('CREATE VIRTUAL TABLE "my ""notes"" 2" USING fts5("the text", "select" UNINDEXED)')
    connection.execute('INSERT INTO "my ""notes"" 2" VALUES (?, ?)', ['A boat.', 'Ana'])
    (hit,) = from_sqlite(connection, 'my "notes" 2', Fields(text='the text', speaker='select')).search('boat')
    assert (hit.snippet.id, hit.snippet.text, hit.snippet.speaker) == ('1', 'A boat.', 'Ana')


def test_a_row_without_an_id_goes_by_its_rowid():
    connection = connected([])
    rows = [('A boat.', None), ('Two boats.', 'b'), ('A boat, again.', 7)]
    connection.executemany('INSERT INTO memory (text, id) VALUES (?, ?)', rows)
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
        (hit,) = from_sqlite(connection, table, Fields(text='body'), content='base').search('boat')
        assert (hit.snippet.id, hit.snippet.text, str(hit.snippet.day)) == ('40', 'A boat.', '1 February 2024')
    with pytest.raises(TypeError, match="record '40': expected a text in 'body', got None"):
        from_sqlite(connection, 'bare', Fields(text='body')).search('boat')


def test_what_cannot_be_read_is_an_error():
    with pytest.raises(TypeError, match="expected a sqlite3.Connection, .* got 'fts.db'"):
        from_sqlite('fts.db', 'notes')
    connection = connected([])
    connection.execute('CREATE TABLE plain (text)')
    for table in ('plain', 'nowhere', 'memory; DROP TABLE memory'):
        with pytest.raises(ValueError, match='expected an FTS5 table.* CREATE VIRTUAL TABLE .* as_retriever'):
            from_sqlite(connection, table)
    with pytest.raises(ValueError, match="expected a column 'body' with the text, got .*'text'"):
        from_sqlite(connection, 'memory', Fields(text='body'))
    connection.execute("INSERT INTO memory (text, id, said) VALUES ('A boat.', 'b1', 'some day')")
    store = from_sqlite(connection, 'memory')
    with pytest.raises(ValueError, match="record 'b1': expected a moment such as .* in 'said', got 'some day'"):
        store.search('boat')
    connection.close()
    with pytest.raises(sqlite3.ProgrammingError, match='closed'):
        store.search('boat')


def test_new_notes_are_found_at_once_and_no_lock_is_left(tmp_path):
    ours, theirs = (sqlite3.connect(tmp_path / 'notes.db', timeout=0) for _ in range(2))
    ours.execute('CREATE VIRTUAL TABLE memory USING fts5(text)')
    store = from_sqlite(ours, 'memory')
    for number in range(1, 4):
        theirs.execute('INSERT INTO memory VALUES (?)', [f'boat {number}'])
        theirs.commit()
        assert len(store.search('boat', 1)) == 1 and len(store.search('boat')) == number


@pytest.mark.parametrize('tokenizer', ['porter', 'ascii', 'trigram case_sensitive 1', 'unicode61 remove_diacritics 2'])
def test_odd_texts_in_every_tokenizer(tokenizer):
    connection = sqlite3.connect(':memory:')
    connection.execute(f'CREATE VIRTUAL TABLE memory USING fts5(text, tokenize="{tokenizer}")')
    connection.executemany('INSERT INTO memory VALUES (?)', [[text] for text in ODD])
    store = from_sqlite(connection, 'memory')
    for text in ODD:
        store.search(text)
    assert store.search('concertina')
