"""What a user is likely to hand to a loop works, or one sentence says what is expected."""

import pytest

from memnb import as_conversation, FullContext, MemMA, MemoryBank, MemR3, MRAgent, RAG, REMem, REMemS, SelfRAG
from memnb.core.conversation import ChatError
from memnb.core.retriever import as_hit

DIARY = [
    '[3 May 2024] Ada: We adopted Biscuit today.',
    '[9 June 2024] Ada: Biscuit ate my shoe yesterday.',
    '[10 June 2024] Ben: I play the cello.',
]
ASKED = 'When did Biscuit eat the shoe?'
LOOPS = [RAG, SelfRAG, MemR3, REMem, REMemS, MRAgent, FullContext]


@pytest.mark.parametrize('loop', LOOPS)
@pytest.mark.parametrize(
    'handed', [list, tuple, iter, as_conversation, lambda diary: [{'content': one} for one in diary]]
)
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
@pytest.mark.parametrize(
    'found',
    [{'id': 7, 'text': 'Biscuit ate my shoe yesterday.', 'time': '2024-06-09', 'name': 'Ada', 'score': 0.3}, Page()],
)
def test_a_store_may_return_dictionaries_and_documents(loop, found):
    assert loop(Store(found)).ask(ASKED).answer == '8 June 2024'


def test_a_store_may_be_async():
    async def later(query):
        return ['Biscuit ate my shoe.']

    assert MemR3(later).ask(ASKED).read and REMem(later).ask(ASKED).read


@pytest.mark.parametrize(
    'make, told',
    [
        (lambda: MemR3(Store), r'got Store; is Store\(\) meant'),
        (lambda: REMem(5), 'or a list of texts'),
        (lambda: MemR3('wa.txt'), 'load_conversation'),
        (lambda: FullContext(Store('x')), '^expected a list of texts'),
        (lambda: MemMA(Store('x')), 'bank: expected a MemoryBank, the path'),
        (lambda: MemR3(DIARY, Store), r'got <class .*: is Store\(\) meant'),
        (lambda: MemR3(DIARY).ask(ASKED, asked='8 May 2024'), 'parse_date gives one'),
        (lambda: MemoryBank.of(DIARY, print), 'path: expected a path'),
        (lambda: MemR3(DIARY).ask_many(ASKED), 'expected a list of questions'),
    ],
)
def test_what_is_none_is_told_in_a_sentence(make, told):
    with pytest.raises(TypeError, match=told):
        make()


@pytest.mark.parametrize('dates', [['03/04/2024', '13/04/2024 9:05'], ['03/04/24', '13/04/24']])
def test_the_order_of_dates_is_that_of_the_whole_list(dates):
    told = [{'text': 'a', 'time': date} for date in dates]
    assert [turn.time.month for turn in as_conversation(told).turns] == [4, 4]
    with pytest.raises(ChatError, match='say which with dates='):
        as_conversation(told[:1])
    assert as_conversation(told[:1], dates='mdy').turns[0].time.month == 3


def test_a_text_is_no_path_of_a_bank(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for kind in (MemMA, MemoryBank):
        for text in ('a text', 'We adopted Biscuit today.', 'I moved to St.Louis', 'at 10.30', 'long ' * 999):
            with pytest.raises(
                TypeError, match="path: expected a path such as 'a.db' or None, got .*; messages go to `of`"
            ):
                kind(text)
    assert not list(tmp_path.iterdir())
    for path in ('my.db', 'my own.db', tmp_path / 'bank'):
        with MemoryBank(path):
            pass
    with MemoryBank('bank'):  # it is there
        pass


@pytest.mark.parametrize('loop', [RAG, SelfRAG, MemR3, FullContext])
def test_an_unknown_option_tells_how_a_model_is_given(loop):
    with pytest.raises(TypeError, match=f'{loop.__name__}: no option model; a model is given as lm='):
        loop(DIARY, model=print)


def test_a_repr_and_on_step_are_plain():
    assert repr(FullContext(DIARY)) == 'FullContext(3 snippets, rules)'
    with pytest.raises(TypeError, match='on_step: expected a function of a step, got 3'):
        MemR3(DIARY).ask(ASKED, on_step=3)


@pytest.mark.parametrize('stamp', ['8 June 2024', '13/06/2024', '2024-06-13 10:30', '1:56 pm on 8 June, 2024'])
def test_a_date_in_front_of_a_text_is_its_time(stamp):
    text = f'[{stamp}] Ada: Biscuit ate my shoe yesterday.'
    [turn] = as_conversation([text]).turns
    hit = as_hit(text).snippet
    assert turn.text == hit.text == 'Biscuit ate my shoe yesterday.' and turn.speaker == hit.speaker == 'Ada'
    assert turn.time == hit.said and turn.time.month == 6 and hit.id != as_hit(text.replace('2024', '2023')).snippet.id
    assert RAG(lambda query: [text]).ask(ASKED).answer in ('7 June 2024', '12 June 2024')


def test_other_brackets_in_front_of_a_text_stay():
    for text in (
        '[laughs] Ada: hi',
        '[1] Ada: hi',
        '[May 2024] Ada: hi',
        '[10:30] Ada: hi',
        '[8 May 2024',
        '[03/04/2024] Ada: hi',
    ):
        assert as_hit(text).snippet.text == text and (as_hit(text).snippet.said is None)
        assert '/' in text or as_conversation([text]).turns[0].text == text
    with pytest.raises(ChatError, match='say which with dates='):
        as_conversation(['[03/04/2024] Ada: hi'])
    assert as_conversation(['[03/04/2024] Ada: hi'], dates='dmy').turns[0].time.month == 4
    with pytest.raises(ChatError, match=r"message 1, read as \(speaker, text, time\): expected a time, got 'Hi!'"):
        as_conversation([('2024-05-08', 'Ada', 'Hi!')])


@pytest.mark.parametrize(
    ('line', 'speaker', 'text', 'day'),
    [
        ('2024-06-09: Biscuit ate my shoe.', '', 'Biscuit ate my shoe.', 9),
        ('2024-06-09 Ada: Biscuit ate my shoe.', 'Ada', 'Biscuit ate my shoe.', 9),
        ('2024-06-09 18:30: Ada: Biscuit ate my shoe.', 'Ada', 'Biscuit ate my shoe.', 9),
        ('2024-06-09 was a Sunday.', '', '2024-06-09 was a Sunday.', None),
        ('2024-06-31: a day that is none', '', '2024-06-31: a day that is none', None),
    ],
)
def test_a_line_of_a_diary_begins_with_its_day(line, speaker, text, day):
    [turn] = as_conversation([line]).turns
    assert (turn.speaker, turn.text, turn.time and turn.time.day) == (speaker, text, day)


def test_an_answer_that_quotes_a_line_has_it_as_evidence():
    told = {
        'quoted': 'Biscuit ate my shoe yesterday.',
        'dated': '9 June 2024',
        'none': 'I can only say that nobody knows.',
    }
    found = {name: RAG(DIARY, lambda prompt: text).ask(ASKED).evidence for name, text in told.items()}
    assert found == {'quoted': ['D2:1'], 'dated': [], 'none': []}
