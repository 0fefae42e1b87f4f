"""A hit with the messages on either side of it."""

from threading import Thread

import pytest
from hypothesis import given, strategies as st

from memnb.core.conversation import Snippet, turn_snippets
from memnb.core.tools import as_tools, ToolError
from memnb.evaluation.datasets import load_sample
from memnb.memr3.loop import MemR3
from memnb.retrieval.around import Around
from memnb.retrieval.bm25 import LexicalIndex

SNIPPETS = turn_snippets(load_sample())
INDEX = LexicalIndex()
INDEX.add(SNIPPETS)
BY_ID = {snippet.id: snippet for snippet in SNIPPETS}
WORDS = st.sampled_from(['Pascal', 'organ on Skerrin', 'birthday', 'tram school', 'the', 'zzz'])


@given(WORDS, st.integers(1, 9), st.integers(0, 3), st.sets(st.sampled_from(sorted(BY_ID)), max_size=30))
def test_a_hit_is_what_stands_around_it_and_nothing_is_shown_twice(query, k, each, excluded):
    hits = Around(INDEX, each).search(query, k, exclude=excluded)
    found = INDEX.search(query, k, exclude=excluded)
    shown = set(excluded)
    places = {snippet.id: (snippet.session, snippet.position) for snippet in SNIPPETS}
    for hit in hits:
        session, place = places[hit.snippet.id]
        near = [id for id, (other, at) in places.items() if other == session and abs(at - place) <= each]
        fresh = sorted(set(near) - shown, key=places.get)
        assert list(hit.snippet.sources) == fresh and hit.snippet.id in fresh
        shown.update(fresh)
        for id in fresh:
            assert BY_ID[id].text.split()[0] in hit.snippet.text
    ranked = [hit.snippet.id for hit in found]
    assert [hit.snippet.id for hit in hits] == [id for id in ranked if id in {hit.snippet.id for hit in hits}]
    assert {*ranked} <= shown  # what has no stretch of its own stands in another's


def test_a_long_neighbour_is_cut_and_the_hit_is_not():
    long = ' '.join(f'word{number}' for number in range(100))
    index = LexicalIndex()
    index.add(Snippet(f'm{place}', f'{text} {long}', (f'm{place}',), session='S', position=place, speaker='Ada')
              for place, text in enumerate(['first', 'second']))  # fmt: skip
    [hit] = Around(index).search('second', 1)
    first, second = hit.snippet.text.split('\n')
    assert first.startswith('Ada: first word0') and first.endswith('word58 […]') and second.endswith('word99')


def test_what_is_added_and_removed_later_is_seen():
    index = LexicalIndex()
    index.add(Snippet(f'm{place}', f'boat {place}', (f'm{place}',), session='S', position=place) for place in (0, 2))
    around = Around(index)
    assert [one.id for one in around.messages_around('m2')] == ['m0', 'm2']
    index.add([Snippet('m1', 'boat 1', ('m1',), session='S', position=1)])
    index.remove(['m0'])
    assert [one.id for one in around.messages_around('m2')] == ['m1', 'm2']


def test_the_tool_reads_around_a_message_and_every_loop_takes_the_memory():
    memory = Around(INDEX)
    tool = next(tool for tool in as_tools(memory) if tool.name == 'messages_around')
    assert [hit.snippet.id for hit in tool(message='D7:12').hits] == ['D7:10', 'D7:11', 'D7:12', 'D7:13', 'D7:14']
    with pytest.raises(ToolError, match="no snippet 'D99:1'"):
        tool(message='D99:1')
    trace = MemR3(memory).ask('When did Tobin have his first concertina lesson?')
    assert trace.error is None and 'D1:5' in trace.evidence and len(trace.read) > 5


def test_a_search_in_another_thread_never_sees_half_of_the_sessions():
    beside = []

    class Watched(LexicalIndex):
        def __iter__(self):
            if not beside:  # while the sessions are gathered another thread asks
                thread = Thread(target=lambda: beside.append([one.id for one in around.messages_around('m1')]))
                beside.append('asked')
                thread.start()
                thread.join()
            return super().__iter__()

    index = Watched()
    index.add(Snippet(f'm{place}', f'boat {place}', (f'm{place}',), session='S', position=place) for place in range(3))
    around = Around(index, 1)
    assert [one.id for one in around.messages_around('m0')] == ['m0', 'm1']
    assert beside == ['asked', ['m0', 'm1', 'm2']]
