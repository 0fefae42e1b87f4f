"""The rules of MRAgent and the cues of a text take time in proportion to its length, whatever it repeats."""
import time

import pytest

from memnb.core.conversation import Session, Turn
from memnb.mragent.graph import cue_id, cues_in, title_of
from memnb.mragent.loop import cue_view
from memnb.rules.mragent import _Anchored, slots_of, Remark, things_in

UNITS = ['A', 'Aa ', 'the ', 'Ann of the ', "Ann's ", '(2023 ', '2023 ', 'very ', 'Ann very ', 'a-', '"A b ', 'when the ', '? ', 'Ann lives in ', '\n']
READERS = {
    'cues': lambda text: cues_in(text, ('Ann',)), 'cue_id': cue_id, 'title': title_of, 'things': things_in,
    'slots': lambda text: list(slots_of(Remark(Turn('1', 'Ann', text), 'Ann', text), ('Ann',))),
    'question': lambda text: _Anchored.of('What did Ann do ' + text + 'x', ('Ann',)),
    'bracket': lambda text: cues_in('(' + text, ('Ann',))}


@pytest.mark.parametrize('name', READERS)
def test_long_texts_are_read_in_linear_time(name):
    for unit in UNITS:
        text = (unit * 20_000)[:20_000]
        start = time.process_time()
        READERS[name](text)
        assert time.process_time() - start < 2, unit


def test_many_turns_are_tagged_in_linear_time():
    from memnb.mragent.prompts import recollect
    session = Session('D1', tuple(Turn(f'D1:{number}', 'Ann', f'Where is boat {number}?') for number in range(1500)))
    start = time.process_time()
    assert len(recollect(session)[0].episodes) == 1500 and time.process_time() - start < 20
    assert len(cue_view(lambda query: ['(' + '2023 ' * 4000] * 1, 'Who?').episodes) == 1
