"""Caches of texts are of bounded size and forget what a memory forgets."""

import gc

import pytest

from memnb.core import text
from memnb.core.conversation import Conversation
from memnb.core.roles import RuleLM
from memnb.core.text import cache_texts, stems
from memnb.rules.text import keywords
from memnb.memma.bank import MemoryBank
from memnb.remem.graph import GistGraph


def kept():
    return [key for cache in text._Cache.all for key in cache]


def test_a_cache_is_bounded_in_bytes():
    doubled = cache_texts(lambda one: one * 2)
    cache = text._Cache.all[-1]
    for number in range(2_000):
        doubled(f'{number} {"x" * 4_000}')
    assert sum(len(key[0]) + len(value) for key, value in cache.items()) <= cache.size <= cache.LIMIT
    assert doubled('1999 a') == '1999 a1999 a'
    text._Cache.all.remove(cache)


def bank():
    memory = MemoryBank()
    memory.add('My locker code is Wombat.', sources=('D1:1',))
    return memory, lambda: memory.forget(turns=['D1:1'])


def graph():
    memory = GistGraph(RuleLM())
    memory.add(Conversation.of('c', [(None, [('Ana', 'My locker code is Wombat.')])]).sessions[0])
    return memory, lambda: memory.forget('D1')


@pytest.mark.parametrize('make', [bank, graph])
def test_what_a_memory_forgets_is_in_no_cache_of_texts(make):
    memory, forget = make()
    memory.search('Wombat', 3)
    stems('My locker code is Wombat.'), keywords('My locker code is Wombat.')
    assert any('Wombat' in str(key) for key in kept())
    forget()
    gc.collect()
    assert kept() == []
