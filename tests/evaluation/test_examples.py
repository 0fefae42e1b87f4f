"""The written replies: each fits its role, the conversation and its prompt; every one is used, and a change is noticed."""

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings, strategies as st

from memnb import CueTagGraph, GistGraph, load_sample, MemMA, RAG
from memnb.core.conversation import Snippet
from memnb.core.roles import ANSWER
from memnb.evaluation.datasets import data_path
from memnb.evaluation.examples import _ids_in, _identity, ExampleLM, example_trace, MissingExample
from memnb.evaluation.registry import METHODS
from memnb.memr3.tracker import TrackerReply
from memnb.remem.prompts import GISTS

SAMPLE = load_sample()
FILE = json.loads(data_path('replies_example.json').read_text(encoding='utf-8'))
QUESTIONS = {one.text: one for one in SAMPLE.questions}


class Counting(ExampleLM):
    "Written replies, and how often each was given."

    def __init__(self):
        super().__init__()
        self.given = []

    def call(self, role, /, **inputs):
        call = super().call(role, **inputs)
        self.given.append((call.role, call.raw))
        return call


@pytest.fixture(scope='module')
def played():
    "All memories and cases, played once: the traces, and the replies that were given."
    lm, memories = Counting(), {}
    for case in lm.cases:
        method = METHODS[case.method]
        if method.memory.name not in memories:
            memories[method.memory.name] = method.memory.build(SAMPLE, lm)
    CueTagGraph.of(SAMPLE, lm, filing=True, progress=False)  # as the paper has it
    unprobed = MemMA.of(SAMPLE, lm, evolve=False).bank  # the lessons show what probing is worth
    for case in lm.of('memma'):
        example_trace(case, SAMPLE, lm, unprobed)
    return [
        (case, example_trace(case, SAMPLE, lm, memories[METHODS[case.method].memory.name])) for case in lm.cases
    ], lm.given


def test_every_case_is_played_to_its_end(played):
    for case, trace in played[0]:
        assert trace.error is None and trace.fallback is None and trace.answer, (
            case.method,
            case.question,
            trace.error,
        )
        assert trace.model == 'written example' and all(
            step.error is None for step in trace.steps if step.kind == 'model'
        )
        assert set(trace.evidence) <= set(trace.read) <= {turn.id for turn in SAMPLE.turns}
        assert len(case.finding) <= 90 and not case.finding.endswith('.')


def test_every_reply_is_used(played):
    given = set(played[1])
    unused = [
        entry
        for entry in FILE['replies']
        if (entry['role'], json.dumps(entry['reply'], ensure_ascii=False, indent=1)) not in given
    ]
    assert not unused


def test_every_method_works_where_one_search_of_five_turns_fails_and_fails_somewhere(played):
    for method in ('memr3', 'remem', 'mragent', 'memma'):
        cases = [case for case, _ in played[0] if case.method == method]
        assert sum(case.works for case in cases) >= 3 and not all(case.works for case in cases)
        traces = [
            (case, trace)
            for case, trace in played[0]
            if case.method == method and case.works and case.question in QUESTIONS
        ]
        missed = 0
        for case, trace in traces:
            gold = set(QUESTIONS[case.question].evidence)
            missed += not gold <= set(RAG(METHODS['rag'].memory.build(SAMPLE, None), k=5).ask(case.question).read)
        assert missed >= 3, method


def test_every_id_is_of_the_conversation_or_was_made_from_it():
    turns = {turn.id for turn in SAMPLE.turns}
    for entry in FILE['replies']:
        for id in _ids_in(entry['reply']):
            assert ':' not in id or id in turns, (entry['role'], id)


@settings(max_examples=15)
@given(st.sampled_from([entry for entry in FILE['replies'] if entry['role'] == 'gists']), st.data())
def test_a_changed_conversation_is_noticed(entry, data):
    session = next(one for one in SAMPLE.sessions if _identity(one) == entry['inputs']['session'])
    place = data.draw(st.integers(0, len(session.turns) - 1))
    turns = list(session.turns)
    turns[place] = replace(
        turns[place], text=turns[place].text + data.draw(st.sampled_from(['!', ' Not.', ' No, 12.']))
    )
    lm = ExampleLM()
    assert lm.call(GISTS, session=session, speakers=SAMPLE.speakers).reply.gists
    for changed in (
        replace(session, turns=tuple(turns)),
        replace(session, turns=session.turns[:-1]),
        replace(session, id='D99'),
    ):
        with pytest.raises(MissingExample, match="no reply is written for gists of {'session'"):
            lm.call(GISTS, session=changed, speakers=SAMPLE.speakers)


def test_a_changed_role_is_noticed():
    session = SAMPLE.sessions[0]
    other = replace(GISTS, reply=TrackerReply)
    with pytest.raises(ValueError, match='TrackerReply'):
        ExampleLM().call(other, session=session, speakers=SAMPLE.speakers)
    renamed = replace(GISTS, name='gist')
    with pytest.raises(MissingExample):
        ExampleLM().call(renamed, session=session, speakers=SAMPLE.speakers)


IDS = st.lists(st.sampled_from(['m1', 'm2', 'm3', 'm11']), max_size=3, unique=True)


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.sampled_from(['Who?', 'When?']), IDS, IDS), min_size=1, max_size=6),
    st.sampled_from(['Who?', 'When?']),
    IDS,
)
def test_the_most_specific_reply_that_fits_is_given(tmp_path_factory, entries, question, shown):
    replies = [
        {
            'role': 'answer',
            'inputs': {'question': asked, 'lines': lines},
            'reply': {'answer': str(place), 'sources': sources},
        }
        for place, (asked, lines, sources) in enumerate(entries)
    ]
    path = tmp_path_factory.mktemp('replies') / 'replies.json'
    path.write_text(json.dumps({'cases': [], 'replies': replies}), encoding='utf-8')
    fitting = [
        place
        for place, (asked, lines, sources) in enumerate(entries)
        if asked == question and {*lines, *sources} <= {*shown}
    ]
    lines = [Snippet(id, f'entry {id[1:]}') for id in shown]
    if not fitting:
        with pytest.raises(MissingExample):
            ExampleLM(path).call(ANSWER, question=question, lines=lines)
        return
    got = int(ExampleLM(path).call(ANSWER, question=question, lines=lines).reply.answer)
    best = max((len(entries[place][1]), len(entries[place][2])) for place in fitting)
    assert got in fitting and (len(entries[got][1]), len(entries[got][2])) == best


def test_graphs_of_written_replies_have_a_source_for_everything():
    lm = ExampleLM()
    for memory in (GistGraph.of(SAMPLE, lm, progress=False), CueTagGraph.of(SAMPLE, lm, progress=False)):
        contents = (
            [*memory.gists, *memory.facts] if isinstance(memory, GistGraph) else [*memory.episodes, *memory.units]
        )
        assert contents and all(one.sources for one in contents) and not memory.failed
