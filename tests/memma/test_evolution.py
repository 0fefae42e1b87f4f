"""The report of what probing came to: it shows all, and obeys nothing that stands in it."""

import re
from dataclasses import replace
from datetime import date, datetime

from hypothesis import given, settings, strategies as st

from memnb.memma.bank import Entry
from memnb.memma.probe_repair import Evolution, ProbeResult, Repair
from memnb.memma.prompts import Probe
from memnb.views.traces import evolution_rows
from memnb.core.roles import Usage
from memnb.core.time import TimeSpan
from pages_read import Page, squeezed

FAULTS = ('missing', 'not retrieved', 'not answered')
ODD = (
    '',
    ' ',
    'Mrs. Lund',
    '<script>alert(1)</script>',
    '"><img src=x>',
    '\x1b[31mred',
    'two\nlines',
    '🦜',
    '&amp;',
    'x' * 300,
    '‮over',
)
texts = st.sampled_from(ODD) | st.text(st.characters(exclude_categories=['Cs']), max_size=20)
turns = st.lists(st.sampled_from(['D1:1', 'D2:3', '<b>']), max_size=2).map(tuple)
probes = st.builds(Probe, texts, texts, st.sampled_from(['single', 'cross', 'temporal']), turns)
days = st.none() | st.builds(TimeSpan.day, st.dates(date(2000, 1, 1), date(2030, 1, 1)))
entries = st.builds(
    Entry,
    texts,
    texts,
    turns,
    days,
    st.none() | texts,
    st.none() | st.datetimes(datetime(2000, 1, 1), datetime(2030, 1, 1)),
)
tests = st.builds(
    ProbeResult, probes, texts, st.booleans(), st.lists(entries, max_size=4).map(tuple), st.sampled_from(['', *FAULTS])
)
repairs = st.builds(
    Repair,
    probes,
    st.sampled_from(FAULTS),
    st.none() | entries,
    texts,
    st.sampled_from(['NOOP', 'SKIP', 'MERGE', 'INSERT']),
    st.none() | st.sampled_from(['m1', 'm2']),
    texts,
)


@st.composite
def evolutions(draw):
    before = tuple(draw(st.lists(tests, max_size=4)))
    mended = tuple(replace(draw(repairs), probe=one.probe) for one in before if not one.passed)
    after = tuple(replace(one, passed=one.passed or draw(st.booleans())) for one in before)
    cost = draw(
        st.dictionaries(
            st.sampled_from(['probes', 'answer']), st.builds(Usage, st.integers(0, 9), st.integers(0, 9)), max_size=2
        )
    )
    return Evolution(
        draw(texts),
        before,
        mended,
        after,
        draw(st.sampled_from(['', '', 'it was worse <b>'])),
        tuple(draw(st.lists(texts, max_size=2))),
        cost,
    )


@settings(max_examples=40)
@given(evolutions(), st.sampled_from([40, 100]), st.booleans())
def test_the_text_obeys_nothing_and_tells_what_happened(evolution, width, color):
    text = evolution.to_text(color=color, width=width)
    bare = re.sub(r'\x1b\[\d+m', '', text) if color else text
    assert '\x1b' not in bare and '‮' not in bare and bare == evolution.to_text(width=width)
    lines = bare.split('\n')
    assert (
        sum(line.startswith('probe ') for line in lines)
        == len(evolution.before)
        == sum(line.startswith('asked ') for line in lines)
    )
    for label, tests_of in (('before', evolution.before), ('after', evolution.after if evolution.written else ())):
        verdicts = [line.split()[1].rstrip(':') for line in lines if line.startswith(label + ' ')]
        assert verdicts == ['passed' if one.passed else 'failed' for one in tests_of]
    assert sum(line.startswith('repair ') for line in lines) == len(evolution.repairs)
    assert str(evolution) == evolution.to_text()


@settings(max_examples=40)
@given(evolutions())
def test_the_page_has_all_words_and_no_tags_but_its_own(evolution):
    html = evolution._repr_html_()
    page = Page(html)
    assert set(page.names) <= set('div style article h3 h4 p dl dt dd span code small details summary ol li b'.split())
    assert page.attributes <= {'class', 'open'} and not re.search(r'url\(|@import|https?:', html)
    assert page.names.count('h4') == len(evolution.before) + 1
    shown = squeezed(page.words)
    said = (
        [one.probe.question for one in evolution.before]
        + [one.answer for one in evolution.before]
        + [one.fact.text for one in evolution.repairs if one.fact]
    )
    for one in said:
        if one.isprintable() and one.isascii():
            assert squeezed(one) in shown


def asked(passed, fault=''):
    return ProbeResult(
        Probe('Who sold the kayak?', 'Mrs. Lund', 'single', ('D2:1',)),
        'Mrs. Lund' if passed else 'nobody',
        passed,
        (Entry('m1', 'a kayak'),),
        fault,
    )


FACT = Entry('', 'Mrs. Lund sold the kayak.', ('D2:1',))


def test_each_repair_stands_under_the_probe_that_failed():
    probes_asked = [
        replace(asked(passed), probe=Probe(f'question {number}', 'a', 'single', ()))
        for number, passed in enumerate([True, False, True, False])
    ]
    mended = tuple(
        Repair(one.probe, 'missing', replace(FACT, text=f'fact for {one.probe.question}'), 'q', 'INSERT', 'm1')
        for one in probes_asked
        if not one.passed
    )
    rounds = [
        rows for _, rows in evolution_rows(Evolution('D2', tuple(probes_asked), mended, tuple(probes_asked)))[:-1]
    ]
    assert [[row.label for row in rows] for rows in rounds] == [
        ['asked', 'before', 'after'],
        ['asked', 'before', 'repair', 'after'],
    ] * 2
    assert [rows[2].text for rows in rounds[1::2]] == [
        'INSERT m1: fact for question 1',
        'INSERT m1: fact for question 3',
    ]
    untested = Evolution('D2', tuple(probes_asked), mended, tuple(probes_asked), retested=False)
    assert 'after' not in [row.label for _, rows in evolution_rows(untested) for row in rows]


def test_what_was_taken_back_does_not_read_as_if_it_stood():
    skipped = Repair(asked(False).probe, 'missing', FACT, 'sold', 'SKIP', 'm3', 'm3 says it')
    done = replace(skipped, action='MERGE', entry=None)
    evolution = Evolution(
        'D2', (asked(False), asked(False)), (done, skipped), (asked(False), asked(False)), 'fewer pass'
    )
    assert (
        evolution.written == ()
        and 'MERGE, taken back: Mrs. Lund' in str(evolution)
        and 'SKIP m3: Mrs. Lund' in str(evolution)
    )
    assert '\nundone     fewer pass' in str(evolution) and '\nafter' not in str(evolution)
    assert replace(evolution, taken_back='').written == (done,)
