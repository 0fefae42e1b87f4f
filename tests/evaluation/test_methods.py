"""Methods: the grid against a product written out, budgets, defaults, and the mark of a loop without its own tools."""

import inspect
import json
import pickle
import sys
from dataclasses import replace
from fractions import Fraction
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memnb
from grids import build_words, grid, WORDS
from memnb.baselines import RAG, RagCotRag, SelfRAG
from memnb.memma.retrieval import Coordinated
from memnb.mragent.graph import CueTagGraph
from memnb.evaluation.datasets import load_sample
from memnb.core.roles import RuleLM
from memnb.memma.loop import MemMA
from memnb.memr3.loop import MemR3
from memnb.evaluation.registry import choose_methods, find_loop, MEMORIES, Memory, Method, METHODS
from memnb.mragent.loop import MRAgent
from memnb.remem.loop import REMem, REMemS
from memnb.core.tools import searches_of, tools_of
from memnb.core.trace import Step
from memnb.evaluation.report import render_page, RunFolder

SAMPLE = load_sample()
SMALL = replace(SAMPLE, sessions=SAMPLE.sessions[:2], questions=())
LOOPS = {
    'rag': RAG,
    'memr3': MemR3,
    'remem': REMem,
    'remem-s': REMemS,
    'mragent': MRAgent,
    'memma': MemMA,
    'rag-cot-rag': RagCotRag,
    'self-rag': SelfRAG,
}


@pytest.fixture(scope='module')
def built():
    return {name: memory.build(SMALL, RuleLM()) for name, memory in MEMORIES.items()}


# --- the grid --------------------------------------------------------------------------------------------------------


@given(
    st.lists(st.sampled_from(list(METHODS)), unique=True),
    st.none() | st.lists(st.sampled_from(list(MEMORIES)), unique=True),
)
def test_a_choice_is_the_product_of_loops_and_memories(names, memories):
    expected = []
    for name in names:
        own = METHODS[name].memory.name
        if memories is None or name == 'full-context':
            expected.append((name, own))
        else:
            expected += [(name if memory == own else f'{name} over {memory}', memory) for memory in memories]
    assert [(one.name, one.memory.name) for one in choose_methods(names, memories)] == expected


@given(st.lists(st.sampled_from(list(METHODS)), min_size=1))
def test_a_name_that_comes_twice_is_refused(names):
    if len(set(names)) == len(names):
        assert [one.name for one in choose_methods(names)] == names
    else:
        with pytest.raises(ValueError, match='named more than once'):
            choose_methods(names)


@pytest.mark.parametrize(
    ('methods', 'memories', 'words'),
    [
        (['nothing'], None, r"methods: expected some of rag, .*, got 'nothing'"),
        ([3], None, 'got 3'),
        (['rag'], ['x'], 'memories: .*turns, gists'),
        ('rag', None, "methods: expected a list of names, got 'rag'"),
        (['rag'], 'turns', 'memories: expected a list of names'),
        ([MEMORIES['turns']], None, 'methods: expected'),
        (['rag'], [METHODS['rag']], 'memories: expected'),
    ],
)
def test_what_is_no_method_or_memory_is_refused_by_name(methods, memories, words):
    with pytest.raises(ValueError, match=words):
        choose_methods(methods, memories)


# --- the mark --------------------------------------------------------------------------------------------------------


def test_a_loop_without_its_own_tools_is_marked_and_no_other():
    marked = {
        (one.name.split(' over ')[0], one.memory.name)
        for one in choose_methods(list(METHODS), list(MEMORIES))
        if one.fallback
    }
    assert marked == {
        ('remem', 'turns'),
        ('remem', 'cues'),
        ('remem', 'bank'),
        ('remem-s', 'turns'),
        ('remem-s', 'cues'),
        ('remem-s', 'bank'),
        ('mragent', 'turns'),
        ('mragent', 'gists'),
        ('mragent', 'bank'),
    }


def test_the_mark_is_true_of_the_memories(built):
    """A memory is said to have tools just where it has a method `tools`."""
    assert {name: bool(memory.tools) for name, memory in MEMORIES.items()} == {
        name: hasattr(one, 'tools') for name, one in built.items()
    }
    assert {name for name, memory in MEMORIES.items() if memory.tools == 'MRAgent'} == {
        name for name, one in built.items() if isinstance(one, CueTagGraph)
    }


# --- loops -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize('name', list(LOOPS))
def test_without_turns_every_option_has_its_default(name, built):
    method = METHODS[name]
    loop = method.make(built[method.memory.name], SMALL)
    assert type(loop) is LOOPS[name] and loop.lm == RuleLM()
    for option, parameter in inspect.signature(LOOPS[name]).parameters.items():
        if option not in ('memory', 'bank', 'lm', 'speakers') and isinstance(
            getattr(loop, option, None), (int, float, str)
        ):
            assert getattr(loop, option) == parameter.default, option
    if name == 'memma':
        assert (
            tuple(loop.speakers) == SMALL.speakers
            and type(METHODS[name].over(MEMORIES['turns']).make(built['turns'], SMALL)) is Coordinated
        )


@pytest.mark.parametrize('turns', [1, 4, 5, 6, 25, 31])
def test_what_a_loop_takes_at_a_time_comes_to_what_it_may_read(turns, built):
    def option(name, attribute):
        return getattr(METHODS[name].make(built[METHODS[name].memory.name], SMALL, turns=turns), attribute)

    assert option('rag', 'k') == turns and option('memma', 'k') == -(-3 * 2 * turns // 5)
    assert option('rag-cot-rag', 'chunks_per_iteration') * 2 - turns in (0, 1)
    for name in ('memr3', 'self-rag'):
        each = option(name, 'chunks_per_iteration')
        assert each == min(turns, 5) if turns <= 25 else 0 <= each * 5 - turns < 5
    over = METHODS['rag'].over(MEMORIES['gists']).make(built['gists'], SMALL, turns=turns)
    assert over.k == 2 * turns


@pytest.mark.parametrize('name', list(LOOPS))
def test_a_loop_that_may_read_25_turns_reads_no_more_and_a_searching_one_all_of_them(name):
    method = METHODS[name]
    trace = method.make(method.memory.build(SAMPLE, RuleLM()), SAMPLE, turns=25, stop=False).ask(
        SAMPLE.questions[0].text, budget=25
    )
    assert len(trace.read) == 25 if name in ('rag', 'memr3', 'self-rag', 'rag-cot-rag') else 0 < len(trace.read) <= 25


@pytest.mark.parametrize('name', ['memr3', 'self-rag', 'mragent'])
def test_a_loop_is_told_whether_it_may_stop(name, built):
    memory = built[METHODS[name].memory.name]
    assert METHODS[name].make(memory, SMALL).stop_early and not METHODS[name].make(memory, SMALL, stop=False).stop_early


def test_own_options_win(built):
    narrow = replace(METHODS['memr3'], options={'chunks_per_iteration': 3, 'stop_early': False})
    loop = narrow.make(built['turns'], SMALL, turns=25, stop=True)
    assert (loop.chunks_per_iteration, loop.stop_early) == (3, False)


@pytest.mark.parametrize('method', choose_methods(list(METHODS), list(MEMORIES)), ids=lambda one: one.name)
def test_every_loop_runs_over_every_memory_within_the_budget(method, built):
    memory = built.get(method.memory.name) or method.memory.build(SMALL, RuleLM())
    trace = method.make(memory, SMALL, turns=3, stop=False).ask(
        'When did Tobin have his first concertina lesson?', budget=3
    )
    assert trace.error is None and 0 < len(trace.read) <= 3
    assert set(trace.read) <= {turn.id for turn in SMALL.turns} and set(trace.evidence) <= set(trace.read)


def test_a_graph_without_a_search_is_given_one_and_keeps_its_own_tools(built):
    own, more = tools_of(built['cues']), METHODS['remem'].make(built['cues'], SMALL).tools()
    assert not searches_of(own) and [one.name for one in searches_of(more)] == ['search']
    assert [one.name for one in more] == [*(one.name for one in own), 'search', 'search_during']
    assert METHODS['remem'].make(built['gists'], SMALL).memory is built['gists']


# --- settings --------------------------------------------------------------------------------------------------------


def test_settings_are_json_and_tell_all_methods_apart():
    written = [json.dumps(one.settings(), sort_keys=True) for one in choose_methods(list(METHODS), list(MEMORIES))]
    assert len(set(written)) == len(written)
    assert METHODS['memr3'].settings()['loop'] == 'memnb.memr3.loop.MemR3'


@given(
    st.sampled_from(
        ['name', 'loop', 'options', 'share', 'stops', 'least', 'hits', 'memory', 'builder', 'build options']
    )
)
def test_settings_differ_where_a_field_differs_that_shapes_a_row(what):
    plain = Method('m', RAG, Memory('words', build_words), hits='k')
    changed = {
        'name': {'name': 'n'},
        'loop': {'loop': 'baselines.SelfRAG'},
        'options': {'options': {'k': 3}},
        'share': {'share': Fraction(1, 2)},
        'stops': {'stops': True},
        'least': {'least': 2},
        'hits': {'hits': None},
        'memory': {'memory': replace(plain.memory, name='other')},
        'builder': {'memory': replace(plain.memory, builder='evaluation.registry._turns')},
        'build options': {'memory': replace(plain.memory, options={'chunk': 9})},
    }[what]
    assert replace(plain, **changed).settings() != plain.settings() == replace(plain).settings()


def test_a_loop_that_hides_its_options_has_no_settings():
    with pytest.raises(TypeError, match='expected a class, a function or a dotted path, got functools.partial'):
        Method('m', partial(RAG, k=3), WORDS).settings()


def test_a_memory_is_named_after_its_options_and_built_with_them():
    chunked = MEMORIES['turns'].with_options(ranker=None).with_options(chunk=64, embedder='none')
    assert chunked.name == 'turns (ranker=None, chunk=64, embedder=none)'
    index = chunked.build(SMALL, None)
    assert len(index) < len(SMALL.turns) and index.dense is None and index.ranker is None
    assert MEMORIES['turns'].with_options() is MEMORIES['turns']
    assert MEMORIES['turns'].accepted({'chunk': 3, 'synonymy': 1}) == {'chunk': 3}


FIFTH = '''
from typing import Literal
from memnb.core.loop import Loop
from memnb.core.trace import Step

class Look(Step):
    kind: Literal['look'] = 'look'

class Fifth(Loop):
    method = 'fifth'

    def __init__(self, memory, lm=None, *, hits=3, **options):
        super().__init__(memory, lm, **options)
        self.hits = hits

    def steps(self, run):
        run.note(Look())
        best = run.search(run.question, self.hits, 0)[0].snippet
        run.answer(best.text, best.sources)
'''


def test_a_fifth_method_is_a_folder_and_a_line(tmp_path, monkeypatch):
    (tmp_path / 'fifth').mkdir()
    (tmp_path / 'fifth' / 'loop.py').write_text(FIFTH)
    monkeypatch.setattr(memnb, '__path__', [*memnb.__path__, str(tmp_path)])
    monkeypatch.setitem(METHODS, 'fifth', Method('fifth', 'fifth.loop.Fifth', WORDS, 'one line', hits='hits'))
    assert memnb.Fifth is find_loop('Fifth') and memnb.Fifth.method == 'fifth'
    grid('fifth', talks=1).run(tmp_path / 'run')
    del Step.kinds['look'], sys.modules['memnb.fifth.loop']  # as in a new process
    assert 'fifth' in ''.join(render_page(RunFolder(tmp_path / 'run')))
    del Step.kinds['look']
    assert not hasattr(memnb, 'Sixth')


@pytest.mark.parametrize('make', [lambda memory, lm: RAG(memory, lm, k=2), RAG])
def test_a_method_of_your_own_may_be_a_class_or_a_function(make, built):
    own = Method('own', make, MEMORIES['turns'])
    loop = own.make(built['turns'], SMALL)
    assert type(loop) is RAG and choose_methods([own, 'rag'], ['turns'])[0] is own
    assert own.paper == (RAG.PAPER if make is RAG else ())


def test_methods_travel_to_other_processes():
    for method in METHODS.values():
        copy = pickle.loads(pickle.dumps(method))
        assert isinstance(copy, Method) and copy.settings() == method.settings()
