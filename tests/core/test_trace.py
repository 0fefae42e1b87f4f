"""Traces: whatever the texts are, nothing is lost, nothing acts upon the page or the terminal, and faults are named."""

import json
import re
import string
from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

import pytest
from hypothesis import example, given, settings, strategies as st
from pydantic import BaseModel

from memnb.core.conversation import Snippet
from memnb.core.retriever import Hit
from memnb.core.roles import Call, Usage
from memnb.core.trace import as_step, mend, printable, Step, ToolStep
from memnb.views.traces import TraceRow, TONES
from memnb.core.trace import (
    AnswerStep,
    Bullet,
    ModelStep,
    NoteStep,
    RouteStep,
    SearchStep,
    Seen,
    StateStep,
    Trace,
    TraceError,
)
from memnb.remem.facts import Fact
from memnb.views.traces import report_html, rows_of
from pages_read import Page, squeezed

# What a hostile memory would try, besides every single character that there is.
MARKUP = [
    '<script>alert(1)</script>',
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='x",
    '</style></pre></details></li>',
    '<!-- ',
    '-->',
    ']]>',
    '&lt;b&gt;',
    '&#60;i&#62;',
    '<a href="javascript:x">',
    '<',
    '&',
    '\x1b[2J',
    '\x1b]0;t\x07',
    '\x9b31m',
    '\u202e',
    '\ud83d',
    '\udc00',
    '\x00',
    '\r\n',
    '\t',
    '\x85',
    '\u2028',
    'plain words',
    ' ',
    '{question}',
]
ANY_CHARACTER = st.characters(exclude_categories=())
TEXTS = st.lists(st.sampled_from(MARKUP) | st.text(ANY_CHARACTER, max_size=8), max_size=4).map(''.join)
IDS = st.lists(TEXTS, max_size=3)
COUNTS = st.integers(0, 2**40)
USAGES = st.builds(Usage, COUNTS, COUNTS, COUNTS, st.booleans())
SEENS = st.builds(
    Seen,
    id=TEXTS,
    text=TEXTS,
    sources=IDS,
    score=st.none() | st.floats(),
    when=st.none() | TEXTS,
    speaker=st.none() | TEXTS,
)
BULLETS = st.builds(Bullet, text=TEXTS, sources=IDS, grounded=st.booleans())
REPLIES = st.none() | st.dictionaries(
    TEXTS,
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS, inner, max_size=2),
        max_leaves=4,
    ),
    max_size=2,
)
ROUNDS = st.integers(0, 4)
TOOL_STEPS = st.builds(
    ToolStep,
    iteration=ROUNDS,
    tool=TEXTS,
    arguments=REPLIES,
    reasoning=TEXTS,
    note=TEXTS,
    hits=st.lists(SEENS, max_size=2),
    value=st.none() | st.integers(),
    error=st.booleans(),
)
STEPS = st.one_of(
    st.builds(
        SearchStep,
        iteration=ROUNDS,
        query=TEXTS,
        k=COUNTS,
        masked=COUNTS,
        hits=st.lists(SEENS, max_size=2),
        error=st.none() | TEXTS,
    ),
    st.builds(
        ModelStep,
        role=TEXTS,
        system=TEXTS,
        user=TEXTS,
        reply=REPLIES,
        usage=USAGES,
        error=st.none() | TEXTS,
        raw=st.none() | TEXTS,
        attempts=st.integers(1, 3),
        cached=st.booleans(),
    ),
    st.builds(
        StateStep,
        iteration=ROUNDS,
        evidence=st.lists(BULLETS, max_size=2),
        gaps=IDS,
        gained=IDS,
        closed=IDS,
        opened=IDS,
    ),
    st.builds(RouteStep, iteration=ROUNDS, proposed=TEXTS, action=TEXTS, reason=TEXTS),
    st.builds(NoteStep, iteration=ROUNDS, text=TEXTS),
    st.builds(AnswerStep, draft=st.none() | TEXTS, answer=TEXTS),
    TOOL_STEPS,
)
TRACES = st.builds(
    Trace,
    question=TEXTS,
    method=TEXTS,
    model=TEXTS,
    answer=st.none() | TEXTS,
    evidence=IDS,
    read=IDS,
    gaps=IDS,
    steps=st.lists(STEPS, max_size=5),
    usage=st.dictionaries(TEXTS, USAGES, max_size=2),
    error=st.none() | TEXTS,
    seconds=st.none() | st.floats(),
)


def texts_of(value) -> Iterator[str]:
    """Every text in a structure, keys and kinds left out."""
    if isinstance(value, dict):
        for key, item in value.items():
            if key != 'kind':
                yield from texts_of(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from texts_of(item)
    elif isinstance(value, str):
        yield value


def renamed(value, names: dict[str, str]):
    """The same structure with every text that holds something replaced by a harmless name, equal texts by equal names."""
    if isinstance(value, dict):
        return {key: item if key == 'kind' else renamed(item, names) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [renamed(item, names) for item in value]
    if isinstance(value, str) and value.strip():  # a blank note has no row
        return names.setdefault(value, f'word{len(names)}')
    return value


# ------------------------------------------------------------------ texts


@given(st.text(ANY_CHARACTER))
def test_mended_text_can_be_encoded_and_good_text_is_kept(text):
    mended = mend(text)
    assert mended.encode('utf-8').decode('utf-8') == mended == mend(mended)
    try:
        text.encode('utf-8')
    except UnicodeEncodeError:
        assert '\ufffd' in mended or len(mended) < len(text)
    else:
        assert mended == text


@given(TEXTS | st.text(ANY_CHARACTER), st.booleans())
def test_printable_text_steers_nothing_and_keeps_what_is_ordinary(text, lines):
    import unicodedata

    shown = printable(text, lines)
    steering = {
        char
        for char in shown
        if unicodedata.category(char) in ('Cc', 'Cs', 'Zl', 'Zp')
        or unicodedata.bidirectional(char) in ('LRE', 'RLE', 'LRO', 'RLO', 'PDF', 'LRI', 'RLI', 'FSI', 'PDI')
    }
    assert steering <= (set('\t\n') if lines else set())
    ordinary = set(string.ascii_letters + string.digits + string.punctuation + 'äéß你😀')
    assert [char for char in shown if char in ordinary] == [char for char in text if char in ordinary]


# ------------------------------------------------------------------ JSON


@settings(max_examples=150)
@given(TRACES, st.sampled_from([None, 1]))
def test_a_trace_comes_back_equal_from_strict_json(trace, indent):
    written = trace.to_json(indent)

    def refuse(constant):
        raise AssertionError(f'{constant} is not JSON')

    json.loads(written.encode('utf-8'), parse_constant=refuse)
    again = Trace.from_json(written)
    assert again == trace
    assert [type(step) for step in again.steps] == [type(step) for step in trace.steps]
    assert again.to_json(indent) == written
    assert Trace.from_json(written.encode('utf-8')) == trace


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(ANY_CHARACTER, max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(['kind', 'steps', 'question', 'method', 'model', 'hits', 'usage']) | st.text(max_size=3),
            inner,
            max_size=6,
        )
    ),
    max_leaves=12,
)


@given(JSON.map(json.dumps) | st.text(ANY_CHARACTER) | st.binary())
@example('[' * 5000)
@example('{"question": "\\ud83d", "method": "m", "model": "m"}')
@example('{"question": "q", "method": "m", "model": "m", "steps": [{"kind": ["search"]}]}')
@example('')
def test_any_other_text_is_a_trace_error_of_one_line(text):
    try:
        trace = Trace.from_json(text)
    except TraceError as error:
        message = str(error)
        assert (
            message.startswith('not a trace: ')
            and '\n' not in message
            and not re.search('[\x00-\x1f\x7f-\x9f]', message)
        )
    else:
        assert isinstance(trace, Trace)


@given(st.text(min_size=1).filter(lambda kind: kind not in Step.kinds))
def test_an_unknown_kind_is_named_with_the_known_ones(kind):
    with pytest.raises(TraceError) as caught:
        Trace.from_json(json.dumps({'question': 'q', 'method': 'm', 'model': 'm', 'steps': [{'kind': kind}]}))
    assert 'steps.0' in str(caught.value) and printable(repr(kind)) in str(caught.value)
    for known in ('answer', 'model', 'note', 'route', 'search', 'state'):
        assert known in str(caught.value)


# ------------------------------------------------------------------ kinds of steps


@pytest.fixture
def kinds():
    """The registry, as it was before the test."""
    before = dict(Step.kinds)
    yield Step.kinds
    Step.kinds.clear()
    Step.kinds.update(before)


def test_a_new_kind_is_stored_read_and_shown(kinds):
    class HopStep(Step):
        kind: Literal['hop'] = 'hop'
        node: str
        depth: int

    trace = Trace(question='q', method='m', model='m', steps=[HopStep(node='<b>', depth=2)])
    assert Trace.from_json(trace.to_json()) == trace
    assert isinstance(Trace.from_json(trace.to_json()).steps[0], HopStep)
    assert 'node: <b>, depth: 2' in str(trace)
    assert 'node: &lt;b&gt;, depth: 2' in trace._repr_html_()

    class OddStep(Step):
        kind: Literal['<odd>'] = '<odd>'

    assert '<dt>&lt;odd&gt;</dt>' in Trace(question='q', method='m', model='m', steps=[OddStep()])._repr_html_()

    class HopStep(Step):  # a cell that is run again
        kind: Literal['hop'] = 'hop'
        node: str

    assert kinds['hop'] is HopStep


def test_a_kind_belongs_to_one_class_and_every_class_has_one(kinds):
    with pytest.raises(TypeError, match="Second: the kind 'search' belongs to SearchStep already"):

        class Second(Step):
            kind: Literal['search'] = 'search'

    with pytest.raises(TypeError, match='Third needs a line kind'):

        class Third(Step):
            size: int

    assert kinds['search'] is SearchStep


# ------------------------------------------------------------------ records


def test_a_model_step_keeps_the_call_and_shows_prompt_reply_and_failure():
    class Reply(BaseModel):
        word: str
        share: float

    call = Call(
        'judge', Reply(word='ja\ud83d', share=float('nan')), Usage(1, 20, 3), system='be fair', user='is it so?'
    )
    step = ModelStep.of(call)
    assert step == ModelStep(
        role='judge',
        system='be fair',
        user='is it so?',
        reply={'word': 'ja\ufffd', 'share': None},
        usage=Usage(1, 20, 3),
    )
    [row] = rows_of(step)
    assert [title for title, _ in row.pages] == [
        'system',
        'prompt',
        'reply',
    ] and row.note == '1 call, 20 tokens in and 3 out'
    step.error = 'no JSON in it'
    assert rows_of(step)[0] == row and rows_of(step)[1] == TraceRow('failed', 'no JSON in it', tone='error')
    assert 'no JSON in it' in str(Trace(question='q', method='m', model='m', steps=[step]))


@pytest.mark.parametrize(
    'attempts, cached, note',
    [(1, False, ''), (2, False, ', second attempt'), (1, True, ', replayed'), (2, True, ', second attempt, replayed')],
)
def test_a_model_step_says_what_was_read_when_and_whether_it_was_replayed(attempts, cached, note):
    class Reply(BaseModel):
        word: str

    said = '<think>\ud83d</think>{"word": "yes"}'
    step = ModelStep.of(
        Call('judge', Reply(word='yes'), Usage(1, 20, 3), 'be fair', 'is it so?', said, attempts, cached)
    )
    assert (step.raw, step.attempts, step.cached) == (said.replace('\ud83d', '\ufffd'), attempts, cached)
    assert rows_of(step)[0].note == '1 call, 20 tokens in and 3 out' + note
    assert ModelStep.model_validate_json(step.model_dump_json()) == step


@given(TOOL_STEPS)
@example(ToolStep(iteration=1, tool='output_answer', arguments={'answer': 'yes'}, note='yes'))
def test_a_tool_step_survives_json_and_its_call_can_be_read(step):
    assert as_step(json.loads(step.model_dump_json())) == step
    *thought, called = [row for row in rows_of(step) if row.label != 'failed']
    assert [row.text for row in thought] == [step.reasoning] * bool(step.reasoning)
    assert called.text.startswith(f'{step.tool}(') and called.text.endswith(')')
    assert list(called.hits) == step.hits and called.tone == 'search'
    failed = [row for row in rows_of(step) if row.label == 'failed']
    assert [(row.text, row.tone) for row in failed] == [(step.note, 'error')] * step.error
    assert called.note == ('' if step.error or step.note in (step.arguments or {}).values() else step.note)


def test_a_picked_tool_opens_the_round_and_another_model_call_closes_it():
    def asked(role):
        return ModelStep(role=role, user=f'prompt of {role}')

    steps = [
        asked('first'),
        ToolStep(iteration=1, tool='find', arguments={'a': 'x', 'b': None, 'c': 3}, note='Found 0'),
        asked('second'),
        ToolStep(
            iteration=2, tool='count', arguments={}, value=2, note='There are 2', hits=[Seen(id='f1', text='one')]
        ),
        asked('answer'),
        AnswerStep(answer='two'),
        asked('later'),
        SearchStep(iteration=3, query='q', k=1),
        asked('last'),
    ]
    trace = Trace(question='q', method='m', model='m', answer='two', steps=steps)
    for page in (report_html([trace], 'a report'), trace._repr_html_()):
        before, *parts = page.split('<summary>Round')
        assert 'prompt of' not in before
        assert [re.findall(r'prompt of (\w+)', part) for part in parts] == [
            ['first'],
            ['second'],
            ['answer'],
            ['later'],
            [],
            ['last'],
        ]
    text = str(trace)
    assert text.startswith(
        "question   q\n\nround 1\ncalled     find(a='x', c=3) (Found 0)\n\nround 2\ncalled     count() (There are 2)\n"
    )
    assert 'f1 · no date · one' in text


def test_seen_by_turn_prefers_the_snippet_with_the_fewest_turns():
    wide, narrow = Seen(id='s1', text='both', sources=['D1:1', 'D1:2']), Seen(id='D1:2', text='alone')
    trace = Trace(
        question='q',
        method='m',
        model='m',
        evidence=['D1:2', 'D9:9'],
        steps=[SearchStep(iteration=1, query='q', k=2, hits=[wide, narrow])],
    )
    assert trace.seen('D1:2') is narrow and trace.seen('D1:1') is wide and trace.seen('D9:9') is None
    assert [(seen.id, seen.text) for seen in trace.shown_evidence()] == [
        ('D1:2', 'alone'),
        ('D9:9', '(not among the snippets)'),
    ]


# ------------------------------------------------------------------ as text


@settings(max_examples=100)
@given(TRACES, st.integers(0, 140))
def test_plain_text_steers_nothing_fits_its_width_and_says_it_all(trace, width):
    lines = trace.to_text(width=width).split('\n') + trace.to_text(width=width, brief=True).split('\n')
    assert all(not re.search('[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u2028\u2029]', line) for line in lines)
    assert all(len(line) <= max(width, 40) for line in lines)
    said = squeezed(trace.to_text(width=width))
    wanted = [trace.question, trace.answer or 'none', *trace.missing, trace.error or '']
    for step in trace.steps:
        if isinstance(step, RouteStep):
            wanted += [step.action, step.proposed, step.reason]
        elif isinstance(step, StateStep):
            wanted += [*step.gained, *step.closed, *step.gaps]
        elif isinstance(step, (SearchStep, NoteStep)):
            wanted.append(step.query if isinstance(step, SearchStep) else step.text)
    for text in wanted:
        assert squeezed(printable(text)) in said


@settings(max_examples=50)
@given(TRACES)
def test_colour_adds_our_own_sequences_and_nothing_else(trace):
    colours = '|'.join(re.escape(f'\x1b[{code}m') for code in {'0', *TONES.values()})
    assert re.sub(colours, '', trace.to_text(color=True)) == trace.to_text()
    assert re.sub(colours, '', trace.to_text(color=True, brief=True)) == trace.to_text(brief=True)


def test_text_tells_the_story_in_order():
    trace = Trace(
        question='Why?',
        method='memr3',
        model='rule',
        answer='because',
        evidence=['D1:1'],
        read=['D1:1', 'D1:2'],
        steps=[
            SearchStep(
                iteration=1,
                query='Why?',
                k=2,
                masked=3,
                hits=[
                    Seen(id='D1:1', text='long ' * 40, when='8 May 2023', speaker='Ada'),
                    Seen(id='D1:2', text='short'),
                ],
            ),
            StateStep(
                iteration=1,
                evidence=[Bullet(text='a fact', sources=['D1:1']), Bullet(text='a guess', grounded=False)],
                gained=['a fact', 'a guess'],
                gaps=['a gap'],
                opened=['a gap'],
            ),
            RouteStep(iteration=1, proposed='answer', action='retrieve', reason='too many reflections'),
            StateStep(iteration=2, evidence=[Bullet(text='a fact', sources=['D1:1'])], closed=['a gap']),
            AnswerStep(draft='maybe', answer='because'),
        ],
    )
    assert (
        str(trace)
        == '''\
question   Why?

round 1
searched   Why? (2 of 2 came back, 3 masked)
           D1:1 · 8 May 2023 · Ada: long long long long long long long long long long long long lon…
           D1:2 · no date · short
gained     a fact [D1:1]
gained     a guess (ungrounded: cites nothing retrieved)
open       a gap (new)
decided    retrieve (proposed: answer) (too many reflections)

round 2
gained     nothing new
closed     a gap
drafted    maybe

answer     because [D1:1]
           D1:1 · 8 May 2023 · Ada: long long long long long long long long long long long long lon…
cost       memr3 (rule): 2 turns read, no model was asked'''
    )


# ------------------------------------------------------------------ as HTML


@settings(max_examples=80)
@given(st.lists(TRACES, max_size=3), TEXTS)
def test_text_stays_text_whatever_it_says(traces, title):
    names: dict[str, str] = {}
    innocent = [Trace.model_validate(renamed(trace.model_dump(), names)) for trace in traces]
    notes = {trace.question: title for trace in traces}
    page = Page(report_html(traces, title, notes))
    plain = Page(report_html(innocent, 'title', {trace.question: 'note' for trace in innocent}))
    assert (page.tags, page.closed) == (plain.tags, plain.closed) and page.odd == plain.odd == ['doctype html']
    for trace, other in zip(traces, innocent):
        page, plain = Page(trace._repr_html_()), Page(other._repr_html_())
        assert (page.tags, page.closed) == (plain.tags, plain.closed) and page.odd == []


OUR_TAGS = {
    'html',
    'head',
    'meta',
    'title',
    'style',
    'body',
    'main',
    'section',
    'article',
    'table',
    'thead',
    'tbody',
    'tr',
    'th',
    'td',
    'a',
    'p',
    'div',
    'span',
    'small',
    'b',
    'br',
    'code',
    'details',
    'summary',
    'dl',
    'dt',
    'dd',
    'ol',
    'li',
    'pre',
    'h1',
    'h2',
    'h3',
    'h4',
    'h5',
    'button',
    'input',
    'output',
    'script',
}
OUR_ATTRIBUTES = {
    'class',
    'id',
    'open',
    'lang',
    'charset',
    'content',
    'name',
    'hidden',
    'type',
    'min',
    'max',
    'value',
    'tabindex',
    'role',
    'aria-label',
    'aria-live',
    'aria-pressed',
    'data-at',
    'data-go',
    'data-pause',
}


@settings(max_examples=60)
@given(TRACES, TEXTS)
def test_the_page_has_only_our_tags_and_loads_nothing(trace, title):
    page = Page(report_html([trace], title) + trace._repr_html_())
    assert set(page.names) <= OUR_TAGS
    for _, attributes in page.tags:
        for name, value in attributes.items():
            assert name in OUR_ATTRIBUTES or (name == 'href' and value[0] == '#')
            assert name != 'class' or value in {*TONES, 'memnb', 'answer', 'bar', 'columns', 'memnb-story'}
    assert 'url(' not in page.text and '@import' not in page.text.split('memnb{')[0]


SAID_TWICE = StateStep(
    iteration=0,
    evidence=[Bullet(text='a boat', sources=['D1:1']), Bullet(text='a boat', sources=['D2:1'])],
    gained=['a boat'],
)


@settings(max_examples=50)
@example(Trace(question='when?', method='rag', model='rule', steps=[AnswerStep(draft='a draft', answer='a draft')]))
@example(Trace(question='when?', method='memr3', model='rule', steps=[SAID_TWICE]))
@given(TRACES)
def test_the_page_shows_every_text_of_the_steps(trace):
    shown = squeezed(Page(trace._repr_html_()).words)
    assert squeezed(printable(trace.question)) in shown
    for step in trace.steps:
        fields = step.model_dump(exclude={'reply', 'usage', 'opened', 'kind'})
        if isinstance(step, ToolStep):
            given = {name: value for name, value in (fields.pop('arguments') or {}).items() if value is not None}
            fields['written'] = [f'{name}={value!r}' for name, value in given.items()]
            fields['note'] = '' if step.note in given.values() and not step.error else step.note
        if isinstance(step, (SearchStep, ToolStep)):
            fields['hits'] = [{**seen, 'sources': []} for seen in fields['hits']]
        if isinstance(step, ModelStep) and step.reply is not None:
            del fields['raw']  # what was said is shown where no reply could be read from it
        for text in texts_of(fields):
            assert squeezed(printable(text)) in shown or squeezed(printable(text, lines=True)) in shown


def test_the_report_has_an_index_that_leads_to_every_question_once():
    traces = [
        Trace(question=question, method=method, model='rule', answer=f'{method} says {question}')
        for question in ('first?', 'second?')
        for method in ('rag', 'memr3')
    ]
    page = report_html(traces, 'Two & two', {'second?': 'expected: 2'})
    assert re.findall(r'href="#(q\d)"', page) == re.findall(r'<section id="(q\d)"', page) == ['q1', 'q2']
    assert page.count('rag says first?') == page.count('expected: 2') == 1
    assert '<title>Two &amp; two</title>' in page and page.startswith('<!doctype html>')
    assert Page(report_html([], 'nothing')).words.endswith('nothing\n')


def test_of_several_snippets_of_a_turn_the_cited_one_is_shown():
    hits = [Seen(id=f'g{number}', text=f'gist {number}', sources=['D1:1']) for number in (1, 2)]
    steps = [
        SearchStep(iteration=1, query='Who?', k=2, hits=hits),
        ModelStep(role='answer', reply={'answer': 'Ada', 'sources': ['g2']}),
    ]
    trace = Trace(
        question='Who?', method='m', model='rules', answer='Ada', evidence=['D1:1'], read=['D1:1'], steps=steps
    )
    assert trace.shown_evidence()[0].text == 'gist 2'
    assert trace.model_copy(update={'steps': steps[:1]}).shown_evidence()[0].text == 'gist 1'


def test_a_message_has_a_speaker_and_what_is_derived_shows_its_own_time():
    message = Snippet('D1:1', 'I drive a tram.', ('D1:1',), speaker='Ada')
    fact = replace(Fact.of('Ada', 'drives', 'a tram', start_time='2024', sources=['D1:1']), speaker='Ada')
    seen = [Seen.of(Hit(one)) for one in (message, fact)]
    assert [one.speaker for one in seen] == ['Ada', None]
    assert seen[1].text == '(Ada, drives, a tram) [start_time: 2024]'
