"""What an adapter does with hostile texts, new speakers and clients tied to another event loop."""

import asyncio
from contextlib import closing

import pytest

from memnb.adapters.mcp_server import MemoryTools
from memnb.adapters.turn_store import TurnStore
from memnb.core.retriever import waited
from memnb.memr3.loop import MemR3
from memnb.retrieval.vectors import WordLlamaEmbedder


# ------------------------------------------------------------------ the MCP server (L6)


def test_an_answer_does_not_steer_a_terminal(tmp_path):
    with closing(TurnStore(tmp_path / 'turns')) as store:
        tools = MemoryTools(store, 'rag', lm=lambda prompt: '{"answer": "\\u001b[31mred\\nor blue", "sources": ["T1"]}')
        tools.remember('the boat is red')
        assert tools.ask('What colour is the boat?')['answer'] == '\u241b[31mred\nor blue'


# ------------------------------------------------------------------ a new speaker (L8)


def test_a_new_speaker_embeds_only_the_turns_that_name_them(tmp_path, monkeypatch):
    embedded, real = [], WordLlamaEmbedder.__call__
    monkeypatch.setattr(WordLlamaEmbedder, '__call__', lambda self, texts: embedded.extend(texts) or real(self, texts))
    with closing(TurnStore(tmp_path / 'turns')) as store, closing(TurnStore(tmp_path / 'turns')) as other:
        for text in ('a red boat', 'Zofia was late again', 'a dog'):
            store.remember(text, 'Tobin')
        store.search('boat')
        embedded.clear()
        store.remember('I was not', 'Zofia')
        found = store.search('boat')
        texts = [
            text for text in embedded if ' ' in text or text == 'boat'
        ]  # the others are single words, for the ranking
        assert sorted(set(texts)) == sorted(['was late again', 'I was not', 'boat'])
        assert found == other.search('boat')


# ------------------------------------------------------------------ a client of another event loop (L9)


def test_a_client_that_belongs_to_another_event_loop_is_an_error_that_says_what_to_do():
    async def main():
        answer = asyncio.get_running_loop().create_future()  # nobody runs this loop while a search waits

        async def search(query, limit):
            return await answer

        with pytest.raises(RuntimeError, match='different loop'):
            waited(search)('x', 3)
        assert 'RuntimeError' in MemR3(search).ask('Who?').error

        async def relayed(query, limit):
            return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(search(query, limit), answer.get_loop()))

        with pytest.raises(TimeoutError, match='no answer within 0.2 s; a client that belongs to another event loop'):
            waited(relayed, 0.2)('x', 3)

    asyncio.run(main())
