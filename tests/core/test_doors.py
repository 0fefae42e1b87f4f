"""What a user is likely to hand to a loop works, or one sentence says what is expected."""

import pytest

from memnb import as_conversation, FullContext, MemMA, MemoryBank, MemR3, MRAgent, RAG, REMem, REMemS, SelfRAG
from memnb.core.messages import ChatError

DIARY = ['[3 May 2024] Ada: We adopted Biscuit today.', '[9 June 2024] Ada: Biscuit ate my shoe yesterday.', '[10 June 2024] Ben: I play the cello.']
ASKED = 'When did Biscuit eat the shoe?'
LOOPS = [RAG, SelfRAG, MemR3, REMem, REMemS, MRAgent, FullContext]


@pytest.mark.parametrize('loop', LOOPS)
@pytest.mark.parametrize('handed', [list, tuple, iter, as_conversation, lambda diary: [{'content': one} for one in diary]])
def test_every_loop_takes_a_list(loop, handed):
    assert loop(handed(DIARY)).ask(ASKED).answer == '8 June 2024' or handed not in (list, tuple, iter, as_conversation)
    assert loop(handed(DIARY)).ask(ASKED).read


class Store:
    def __init__(self, found):
        self.found = found

    def search(self, query, k=5):
        return [self.found]


class Page:
    page_content, metadata = 'Biscuit ate my shoe yesterday.', {'time': '2024-06-09', 'name': 'Ada'}


@pytest.mark.parametrize('loop', [RAG, MemR3, REMem, MRAgent])
@pytest.mark.parametrize('found', [{'id': 7, 'text': 'Biscuit ate my shoe yesterday.', 'time': '2024-06-09', 'name': 'Ada', 'score': .3}, Page()])
def test_a_store_may_return_dictionaries_and_documents(loop, found):
    assert loop(Store(found)).ask(ASKED).answer == '8 June 2024'


def test_a_store_may_be_async():
    async def later(query):
        return ['Biscuit ate my shoe.']
    assert MemR3(later).ask(ASKED).read and REMem(later).ask(ASKED).read


@pytest.mark.parametrize('make, told', [
    (lambda: MemR3(Store), r'got Store; is Store\(\) meant'), (lambda: REMem(5), 'or a list of texts'), (lambda: MemR3('wa.txt'), 'load_conversation'),
    (lambda: FullContext(Store('x')), '^expected a list of texts'), (lambda: MemMA(Store('x')), 'bank: expected a MemoryBank, the path'),
    (lambda: MemoryBank.of(DIARY, print), 'path: expected a path'), (lambda: MemR3(DIARY).ask_many(ASKED), 'expected a list of questions')])
def test_what_is_none_is_told_in_a_sentence(make, told):
    with pytest.raises(TypeError, match=told):
        make()


@pytest.mark.parametrize('dates', [['03/04/2024', '13/04/2024 9:05'], ['03.04.24', '13.04.24']])
def test_the_order_of_dates_is_that_of_the_whole_list(dates):
    told = [{'text': 'a', 'time': date} for date in dates]
    assert [turn.time.month for turn in as_conversation(told).turns] == [4, 4]
    with pytest.raises(ChatError, match='say which with dates='):
        as_conversation(told[:1])
    assert as_conversation(told[:1], dates='mdy').turns[0].time.month == 3
