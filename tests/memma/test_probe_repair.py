"""Probe and repair, with rules and with replies that nobody should believe."""

from contextlib import suppress
from dataclasses import replace
from datetime import date, datetime
from functools import cache

import pytest
from hypothesis import given, settings, strategies as st

from memnb.core.conversation import Session, Turn
from memnb.memma.bank import DuplicateEntry, Edit
from memnb.memma.bank import IndexStore, MemoryBank
from memnb.core.roles import choose_roles
from memnb.core.time import TimeSpan
from memnb.memma.prompts import Mark, PAPER_MARK, STYLES
from memnb.memma.probe_repair import ProbeCycle, Evolution, evolve, Grounding
from memnb.rules.memma import probes_rule
from memnb.memma.prompts import Probe, PROBES, REPAIR, RepairReply
from memnb.core.roles import Call, LM, LMError, RuleLM, Usage
from memnb.memma.construction import construct
from strikes import Struck

EARLIER = Session(
    'D1',
    (
        Turn('D1:1', 'Ana', 'I sold the old boat to Mr. Okafor.'),
        Turn('D1:2', 'Ben', 'My brother Kwame plays the oboe in Turin.'),
    ),
    datetime(2024, 5, 1, 20),
)
TALK = Session(
    'D2',
    (
        Turn('D2:1', 'Ana', 'Yesterday I bought a red kayak from Mrs. Lund in Porto.'),
        Turn('D2:2', 'Ben', 'Lovely! My sister Ines adopted a parrot called Biscuit.'),
        Turn(
            'D2:3',
            'Ana',
            'We saw eleven dolphins near the lighthouse.',
            caption='a photo of a striped kayak on the sand',
        ),
        Turn('D2:4', 'Ben', 'Kwame has baked a walnut cake for the party.'),
    ),
    datetime(2024, 5, 9, 18),
)
TURNS = {turn.id: turn for turn in (*EARLIER.turns, *TALK.turns)}
BEFORE = [replace(turn, time=EARLIER.time) for turn in EARLIER.turns]
SPEAKERS = ('Ana', 'Ben')


class Odd(LM):
    """Some roles are answered from a list, over and over; the others by rule. Each reply costs one call, and one may fail."""

    name = 'odd'

    def __init__(self, fails_at=None, **replies):
        self.replies, self.asked, self.fails_at = replies, [], fails_at

    def call(self, role, /, **inputs):
        self.asked.append(role.name)
        if len(self.asked) == self.fails_at:
            raise LMError('no more', Usage(1, 100))
        replies = self.replies.get(role.name)
        if replies is None:
            return replace(RuleLM().call(role, **inputs), usage=Usage(1))
        reply = replies[(self.asked.count(role.name) - 1) % len(replies)]
        return Call(role.name, role.model(inputs).model_validate(reply), Usage(1))


class Heard(Odd):
    "Keeps what each role was given."

    def call(self, role, /, **inputs):
        self.heard = [*getattr(self, 'heard', []), (role.name, inputs)]
        return super().call(role, **inputs)

    def given(self, name):
        return [inputs for role, inputs in self.heard if role == name]


def words_only():
    return IndexStore(embedder=None)


@cache
def edits_of(session):
    """What the rules write for a session, into an empty bank."""
    changes = construct(MemoryBank(backend=words_only), session, speakers=SPEAKERS).changes
    return [
        Edit('ADD', one.after.text, None, one.after.time, one.after.speaker, one.after.sources)
        for one in changes
        if one.action == 'ADD'
    ]


def bank_of(*damage, sessions=(EARLIER, TALK)):
    """A bank of both sessions, and one of somebody else beside it; `damage` is what is done to the entries, by place."""
    bank = MemoryBank(backend=words_only)
    bank.within('other').add('Ana bought a red kayak.', sources=('D2:1',))
    for session in sessions:
        bank.apply(edits_of(session), session.time)
    for place, text in damage:
        entry = list(bank)[place % len(bank)]
        with suppress(DuplicateEntry):
            bank.apply([Edit('UPDATE', text, entry.id) if text else Edit('DELETE', entry=entry.id)])
    return bank


def rows_of(bank):
    return bank.journal._file.execute('SELECT * FROM changes ORDER BY namespace, number').fetchall()


def seen(bank):
    """All that can be seen of a bank, and of the one beside it."""
    return (
        list(bank),
        rows_of(bank),
        [hit.snippet for hit in bank.search('red kayak Porto parrot', 50)],
        list(bank.within('other')),
    )


def probe_of(question, answer, *turns, kind='single'):
    return {'question': question, 'answer': answer, 'kind': kind, 'turns': list(turns)}


def fact_of(fact, quote, *turns, **more):
    return {'op': 'ADD_FACT', 'fact': fact, 'quote': quote, 'turns': list(turns), **more}


KAYAK = probe_of('Who sold Ana the red kayak?', 'Mrs. Lund in Porto', 'D2:1')
DOLPHINS = probe_of('What did Ana see near the lighthouse?', 'eleven dolphins', 'D2:3')
PARROT = probe_of('Who adopted a parrot?', 'Ines', 'D2:2')
TRUE_FACT = fact_of('Ana bought a red kayak from Mrs. Lund in Porto.', 'bought a red kayak', 'D2:1')


def entry_of(bank, word):
    [entry] = [entry for entry in bank if word in entry.text]
    return entry


def without(word, *more):
    """A bank that has lost the entries with these words."""
    bank = bank_of()
    for one in (word, *more):
        bank.delete(entry_of(bank, one).id)
    return bank


# ---- laws, whatever a model replies --------------------------------------------------------------------------------------

NAMES = ('Lund', 'Porto', 'Ines', 'Biscuit', 'Kwame', 'Turin', 'Okafor', 'Lisbon', 'Zed', '11', '47')
WORDS = ('red', 'kayak', 'parrot', 'cake', 'dolphins', 'boat', 'green')
ODD_TEXTS = ('', ' \n', '<script>alert(1)</script>', 'half \ud83d', '\x00\x1b[31m', 'x' * 3000, '{"a": 1}', '🦜')
ids = st.lists(st.sampled_from([*TURNS, '(D2:1)', 'D2:1, D2:2', 'D99:1', '', 'm1', 'm2']), max_size=4)
sentences = st.builds(
    'they have {} {} with {}'.format, st.sampled_from(NAMES), st.sampled_from(WORDS), st.sampled_from(NAMES)
)
texts = st.one_of(st.sampled_from([turn.text for turn in TURNS.values()]), sentences, st.sampled_from(ODD_TEXTS))
quotes = st.one_of(
    st.sampled_from(
        [turn.text[:20] for turn in TURNS.values()] + ['RED  kayak', 'striped kayak', 'the', 'green dolphins', '']
    ),
    texts,
)
probe_replies = st.lists(
    st.fixed_dictionaries(
        {'question': texts, 'answer': texts, 'kind': st.sampled_from(['single', 'cross', 'temporal']), 'turns': ids}
    )
    | st.sampled_from([KAYAK, PARROT, DOLPHINS]),
    min_size=1,
    max_size=6,
).map(lambda probes: {'probes': probes})


@st.composite
def plausible(draw):
    """A proposal that passes the grounding: a turn, words of it, and a sentence with names of it; the sentence may be a lie."""
    id = draw(st.sampled_from([turn.id for turn in TALK.turns]))
    turn = TURNS[id]
    names = [name for name in NAMES if name in turn.text] or [turn.speaker]
    told = f'{draw(st.sampled_from([turn.speaker, *names]))} {draw(st.sampled_from(["bought a red", "adopted a", "saw the", "has baked a"]))} {draw(st.sampled_from(WORDS))}'
    fact = draw(st.sampled_from([turn.text, told, f'{told} with {names[0]}']))
    return {
        'op': 'ADD_FACT',
        'fact': fact,
        'quote': turn.text[:30].rsplit(' ', 1)[0],
        'turns': [f'({id})'],
        'speaker': None,
        'reason': '',
    }


repair_replies = plausible() | st.fixed_dictionaries(
    {
        'op': st.sampled_from(['ADD_FACT', 'ADD_FACT', 'NOOP']),
        'fact': texts,
        'quote': quotes,
        'turns': ids,
        'speaker': st.none() | st.sampled_from(['Ana', 'Ines', 'Zed', ' ']),
        'reason': texts,
    }
)
consolidations = st.fixed_dictionaries(
    {
        'action': st.sampled_from(['SKIP', 'MERGE', 'INSERT']),
        'text': texts,
        'reason': texts,
        'target': st.none() | st.sampled_from(['m1', 'm2', 'm3', ' m4', 'm99', '']),
    }
)
marks = st.fixed_dictionaries({'wrong': st.lists(st.integers(0, 6), max_size=4)})
damages = st.lists(
    st.tuples(st.integers(0, 6), st.sampled_from(['', '', 'Somebody did something.', 'Ana bought something red.'])),
    min_size=1,
    max_size=6,
)


@cache
def probes_by_rule(with_related=True):
    """What the rule asks."""
    return probes_rule(
        session=TALK, related=EARLIER.turns if with_related else (), count=5, speakers=SPEAKERS
    ).model_dump()


@st.composite
def odd_models(draw):
    roles = {'probes': probe_replies, 'repair': repair_replies, 'consolidate': consolidations, 'mark': marks}
    by_hand = draw(
        st.sampled_from(
            [
                'repair',
                'repair mark',
                'repair mark consolidate',
                'repair consolidate',
                'probes repair mark',
                'probes',
                'mark',
            ]
        )
    ).split()
    return Odd(
        **{
            'probes': [probes_by_rule()],
            **{role: draw(st.lists(roles[role], min_size=1, max_size=7)) for role in sorted(by_hand)},
        }
    )


def plain(text):
    return ' '.join(text.split()).casefold()


def content_of(ids):
    return ' '.join(f'{TURNS[id].speaker} {TURNS[id].content}' for id in ids)


def check_laws(bank, before, evolution):
    """What holds after any evolution of a bank of which this was seen before."""
    was, now = evolution.passed
    assert now >= was
    entries, rows, _, others = before
    new_rows = [row for row in rows_of(bank) if row not in rows]
    assert [row for row in rows if row not in rows_of(bank)] == [] and list(bank.within('other')) == others
    if evolution.taken_back:
        last = bank.journal.changes(bank.namespace)[-1]
        assert (
            list(bank) == entries
            and len(new_rows) == 1
            and (last.action, last.entry) == ('NONE', None)
            and evolution.taken_back in last.reason
        )
        assert not evolution.written and all(one.entry is None for one in evolution.repairs)
        return
    merged = {one.entry for one in evolution.written if one.action == 'MERGE'}
    assert all(bank[entry.id] == entry for entry in entries if entry.id not in merged)
    assert len(new_rows) == len(evolution.written) and len(evolution.repairs) == len(evolution.before) - was
    for entry in entries:
        assert all(word in bank[entry.id].text for word in (*NAMES, *WORDS) if word in entry.text)
    made = {one.entry for one in evolution.written if one.action == 'INSERT'}
    assert {entry.id for entry in bank} == {entry.id for entry in entries} | made
    for one in evolution.written:
        fact = one.fact
        assert fact.sources and set(fact.sources) <= TURNS.keys() and set(fact.sources) <= set(bank[one.entry].sources)
        assert any(plain(one.quote) in plain(TURNS[id].content) for id in fact.sources)  # the paper's span may be empty
        said = content_of(fact.sources).replace('eleven', '11')
        assert all(name in said for name in NAMES if name in fact.text.split())
        assert fact.speaker in (*SPEAKERS, *said.replace('.', ' ').split())
        assert one.action == 'MERGE' or one.entry in merged or bank[one.entry].text == fact.text


@settings(max_examples=60)
@given(odd_models(), damages, st.booleans())
def test_whatever_a_model_says_the_memory_is_never_worse_and_nothing_else_changes(model, damage, with_related):
    bank = bank_of(*damage)
    before = seen(bank)
    evolution = evolve(bank, TALK, model, related=BEFORE if with_related else (), speakers=SPEAKERS)
    check_laws(bank, before, evolution)
    assert with_related or all(set(one.fact.sources) <= {turn.id for turn in TALK.turns} for one in evolution.written)
    assert sum(usage.calls for usage in evolution.cost.values()) == len(model.asked)
    assert str(evolution) and evolution._repr_html_()


@settings(max_examples=30)
@given(damages)
def test_by_rules_the_laws_hold_and_a_second_time_changes_nothing(damage):
    bank = bank_of(*damage)
    before = seen(bank)
    model = Odd(probes=[probes_by_rule()])
    first = evolve(bank, TALK, model, related=BEFORE, speakers=SPEAKERS)
    check_laws(bank, before, first)
    after = seen(bank)
    second = evolve(bank, TALK, model, related=BEFORE, speakers=SPEAKERS)
    assert not second.written and second.before == first.after
    assert seen(bank) == after or first.taken_back and list(bank) == after[0]


@settings(max_examples=40)
@given(odd_models(), damages)
def test_the_same_repairs_once_more_are_all_there(model, damage):
    bank = bank_of(*damage)
    evolution = evolve(bank, TALK, model, related=BEFORE, speakers=SPEAKERS)
    after = seen(bank)
    cycle = ProbeCycle(bank, Grounding(TALK, BEFORE, SPEAKERS), model, 30)
    assert all(cycle.write(one).action == 'SKIP' for one in reversed(evolution.written))
    assert seen(bank) == after


# ---- examples ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    'reply, why',
    [
        (fact_of('Ana bought a red kayak in Lisbon.', 'bought a red kayak', 'D2:1'), 'Lisbon'),
        (fact_of('Ana bought 47 red kayaks.', 'bought a red kayak', 'D2:1'), '47'),
        (fact_of('Ana bought a red kayak.', 'bought a green kayak', 'D2:1'), 'stands in none of D2:1'),
        (fact_of('Ana bought a red kayak.', 'sold a red kayak'), 'stands in none of D2:1'),
        (fact_of('Kwame plays the oboe in Turin.', 'plays the oboe', 'D1:2'), 'no turns'),
        (fact_of(' \n', 'bought a red kayak', 'D2:1'), 'no text'),
    ],
)
def test_a_proposal_that_stands_on_nothing_is_refused_and_kept_in_the_notes(reply, why):
    bank = without('Lund')
    before = seen(bank)
    evolution = evolve(bank, TALK, Odd(probes=[{'probes': [KAYAK]}], repair=[reply]), speakers=SPEAKERS)
    [repair] = evolution.repairs
    assert (
        seen(bank) == before
        and repair.fact is None
        and repair.action == 'NOOP'
        and why in repair.reason
        and not evolution.written
    )
    assert any(why in note and ' '.join(reply['fact'].split()) in note for note in evolution.notes)


def test_a_refused_proposal_is_told_why_and_may_be_written_again():
    bank, lie = without('Lund'), fact_of('Ana bought a red kayak in Lisbon.', 'bought a red kayak', 'D2:1')
    model = Heard(probes=[{'probes': [KAYAK]}], repair=[lie, TRUE_FACT])
    [repair] = evolve(bank, TALK, model, speakers=SPEAKERS).written
    first, second = model.given('repair')
    assert repair.fact.text == TRUE_FACT['fact'] and first['refused'] == '' and 'has Lisbon' in second['refused']
    assert 'has Lisbon' in REPAIR.render(second)[1] and 'Mrs. Lund in Porto' in REPAIR.render(first)[1]
    model = Heard(probes=[{'probes': [KAYAK]}], repair=[lie])
    evolution = evolve(without('Lund'), TALK, model, speakers=SPEAKERS)
    assert not evolution.written and len(model.given('repair')) == 2 and len(evolution.notes) == 1


def test_the_probe_generator_is_shown_the_related_turns():
    model = Heard()
    evolve(bank_of(), TALK, model, related=BEFORE, speakers=SPEAKERS)
    [given] = model.given('probes')
    assert list(given['related']) == BEFORE and all(turn.text in PROBES.render(given)[1] for turn in EARLIER.turns)


# ---- any store, one's own probes, and probes that are kept ---------------------------------------------------------------


OWN = Probe('Who sold Ana the red kayak?', 'Mrs. Lund')


def test_a_store_that_is_no_bank_and_probes_that_are_none_are_refused():
    with pytest.raises(TypeError, match='bank: expected a MemoryBank'):
        evolve(['Ben bakes.'], TALK)
    with pytest.raises(TypeError, match='probes: expected'):
        evolve(bank_of(), TALK, probes=['Who?'])


def answering(*answers, marks, **roles):
    """A model that gives these answers, one after the other, and these marks: the numbers of the wrong, or a label in the paper's way."""
    answers = [{'answer': answer, 'sources': []} for answer in answers]
    marks = [{'label': mark} if isinstance(mark, str) else {'wrong': mark} for mark in marks]
    return Heard(answer=answers, mark=marks, **roles)


WHO = [Probe('Who bakes?', 'Ben'), Probe('Who sings?', 'Ana.'), Probe('Who rows?', 'Kwame')]


def test_equal_answers_need_no_judge_and_all_others_are_judged_in_one_call():
    for answers, marks, asked, passed in (
        (('ben.', 'Ana', ' Kwame'), (), [], 'Ben Ana Kwame'),
        (('Ben', 'She: Ana', 'Kwame it is'), [[]], [['Who sings?', 'Who rows?']], 'Ben Ana Kwame'),
        (('Ben', 'Ana', 'Kwame it is'), [[]], [['Who rows?']], 'Ben Ana Kwame'),
        (('Ben', '1. Eve\n2. Ada', 'Kwame it is'), [[1]], [['Who sings?', 'Who rows?']], 'Ben Kwame'),
        (('Ben', 'Eve', 'Kwame it is'), [[2, 7]], [['Who sings?', 'Who rows?']], 'Ben Ana'),
    ):
        model = answering(*answers, marks=marks, repair=[{'op': 'NOOP'}])
        evolution = evolve(bank_of(), TALK, model, probes=WHO, speakers=SPEAKERS)
        assert [[row[0] for row in inputs['rows']] for inputs in model.given('mark')] == asked
        assert [one.probe.answer.strip('.') for one in evolution.before if one.passed] == passed.split()
        assert ('marks: expected numbers from 1 to 2, got 7' in evolution.notes) == (marks == [[2, 7]])
    model = answering('Ben', 'Ana', 'Kwame', marks=['CORRECT'])  # the paper's way: each, alone
    own = replace(PAPER_MARK, reply=type('Own', (Mark,), {}))
    evolve(bank_of(), TALK, model, probes=WHO, speakers=SPEAKERS, roles={'mark': own})
    assert [inputs['question'] for inputs in model.given('mark')] == [probe.question for probe in WHO]


def test_a_probe_that_reads_what_it_read_is_not_asked_again():
    for roles, again in (({}, 1), (choose_roles(STYLES, 'paper'), 3)):
        model = answering(
            'Ben', 'Ana', 'Kwame', 'Mrs. Lund', marks=['WRONG', 'CORRECT'] if roles else [[1]], repair=[TRUE_FACT]
        )
        probes = [OWN, *WHO[1:]]
        evolve(without('Lund'), TALK, model, probes=probes, k=1, speakers=SPEAKERS, roles=roles)
        asked = [inputs['question'] for inputs in model.given('answer')]
        assert asked[3:] == [probe.question for probe in probes][:again]


def test_what_the_memory_brought_is_not_repaired_but_in_the_papers_way():
    for roles, times in (({}, 0), (choose_roles(STYLES, 'paper'), 1)):
        marks = ['WRONG'] if roles else [[1]]
        model = answering('nobody', marks=marks, repair=[{'op': 'NOOP'}])
        [repair] = evolve(bank_of(), TALK, model, probes=[OWN], speakers=SPEAKERS, roles=roles).repairs
        assert (repair.fault, repair.action, len(model.given('repair'))) == ('not answered', 'NOOP', times)


def test_a_trusted_repair_is_written_as_the_model_has_it_and_not_tested_again():
    """Tables 13 and 15: nothing is asked of a fact but a text, and a merge is the model's."""
    odd = {'op': 'ADD_FACT', 'fact': 'Ana owns 47 kayaks.', 'quote': ''}
    for wish, left in (
        ({'action': 'INSERT', 'target': '-1'}, ['Ana bought a red kayak.', 'Ana owns 47 kayaks.']),
        ({'action': 'MERGE', 'target': '0', 'text': 'Ana likes boats.'}, ['Ana likes boats.']),
    ):
        for trust, written in ((True, left), (False, ['Ana bought a red kayak.'])):
            bank = MemoryBank(backend=words_only)
            bank.add('Ana bought a red kayak.', sources=('D2:1',))
            model = answering('Eve', marks=[[1]], repair=[odd], consolidate=[wish])
            evolution = evolve(bank, TALK, model, probes=[OWN], speakers=SPEAKERS, trust=trust)
            assert [entry.text for entry in bank] == written
            assert len(model.given('repair')) == (1 if trust else 2) and len(model.given('answer')) == 1
            assert ('1 repair not tested' in evolution.headline) == trust
            [repair] = evolution.repairs
            assert not trust or set(bank[repair.entry].sources) == {turn.id for turn in TALK.turns}


@pytest.mark.parametrize('mark', ['WRONG', 'CORRECT'])
def test_repairs_that_cost_one_probe_are_taken_back(mark):
    bank = without('Lund')
    before = list(bank)
    marks = ['WRONG', 'CORRECT', 'CORRECT', 'WRONG', 'CORRECT', mark]
    model = answering('nobody', 'Ben', 'Ana', marks=marks, repair=[TRUE_FACT])
    options = {'speakers': SPEAKERS, 'roles': choose_roles(STYLES, 'paper')}
    evolution = evolve(bank, TALK, model, probes=[OWN, *WHO[:2]], **options)
    assert evolution.passed == (2, 2) and (list(bank) == before) == (mark == 'WRONG')


def test_a_fact_without_a_date_that_is_merged_leaves_the_day_of_the_entry():
    bank = MemoryBank(backend=words_only)
    eve = TimeSpan.day(date(2024, 4, 30))
    bank.add('Kwame baked a cake yesterday.', time=eve, speaker='Ben', sources=('D1:2',), said=EARLIER.time)
    text = 'Kwame has baked a walnut cake for the party yesterday.'
    fact = fact_of('Kwame has baked a walnut cake for the party.', 'has baked a walnut cake for the party', 'D2:4')
    model = answering(
        'nobody', marks=[[1]], repair=[fact], consolidate=[{'action': 'MERGE', 'target': 'm1', 'text': text}]
    )
    probes = [Probe('What has Kwame baked?', 'a walnut cake', sources=('D2:4',))]
    evolution = evolve(bank, TALK, model, probes=probes, speakers=SPEAKERS)
    assert evolution.repairs[0].action == 'MERGE' and evolution.repairs[0].fact.time == TimeSpan.day(TALK.time)
    assert bank['m1'].time == eve and 'walnut' in bank['m1'].text


def test_a_merge_that_is_not_done_as_asked_is_told_once():
    bank = MemoryBank()
    bank.add('Ana bought a red kayak from somebody.', sources=('D2:1',), said=TALK.time)
    odd = {'action': 'MERGE', 'target': 'm1', 'text': 'Ana bought a kayak in Bruges.'}
    right = {'action': 'MERGE', 'target': 'm1', 'text': TRUE_FACT['fact']}
    model = Heard(repair=[TRUE_FACT], consolidate=[odd, right])
    evolve(bank, TALK, model, probes=[OWN], speakers=SPEAKERS)
    assert bank['m1'].text == TRUE_FACT['fact']
    first, second = model.given('consolidate')
    assert (
        'refused' not in first and 'it leaves out or adds something: Ana bought a kayak in Bruges.' in second['refused']
    )


def test_a_proposal_may_stand_on_an_earlier_turn_if_that_was_given():
    bank = without('Turin')
    reply = fact_of('Kwame plays the oboe in Turin.', 'plays the oboe', 'D1:2', 'D2:4', speaker='Kwame')
    probes = [{'probes': [probe_of('What does Kwame play, and where?', 'oboe in Turin', 'D2:4', 'D1:2', kind='cross')]}]
    evolution = evolve(bank, TALK, Odd(probes=probes, repair=[reply]), related=BEFORE, speakers=SPEAKERS)
    [repair] = evolution.written
    assert (bank[repair.entry].sources, bank[repair.entry].speaker, repair.fact.said) == (
        ('D1:2', 'D2:4'),
        'Ben',  # the reply says Kwame
        EARLIER.time,
    )
    assert evolution.passed == (0, 1)


def test_probes_that_cannot_be_asked_are_left_out_with_a_note():
    lines = [
        probe_of('', 'Ines', 'D2:2'),
        probe_of('Who?', ' ', 'D2:2'),
        probe_of('Who?', 'Ines'),
        probe_of('Who?', 'Ines', 'D1:1'),
        probe_of('Who?', 'Ines', 'D99:1'),
        PARROT,
    ]
    for count, passed in ((5, 0), (6, 1)):
        evolution = evolve(
            bank_of(), TALK, Odd(probes=[{'probes': lines}]), related=BEFORE, probes=count, speakers=SPEAKERS
        )
        assert (
            len(evolution.before) == passed
            and sum('expected a question, an answer and turns of D2' in note for note in evolution.notes) == 5
        )
        assert ('probes: expected 5, got 6; the first 5 are taken' in evolution.notes) is (count == 5)
        assert "probe 5: cites 'D99:1', which is no turn here" in evolution.notes


def test_the_kinds_of_fault():
    def fault(bank, k=30, answer=None):
        roles = {'answer': [{'answer': answer, 'sources': []}]} if answer else {}
        evolution = evolve(
            bank, TALK, Odd(probes=[{'probes': [KAYAK]}], repair=[{'op': 'NOOP'}], **roles), k=k, speakers=SPEAKERS
        )
        return evolution.before[0].fault

    crowded = bank_of()
    crowded.add('Who sold Ana the red kayak? Ana sold the kayak, the red kayak.')
    assert (
        fault(without('Lund')) == 'missing'
        and fault(bank_of(), answer='nobody') == 'not answered'
        and fault(bank_of()) == ''
    )
    assert fault(crowded, k=1) == 'not retrieved'


def test_a_fact_counts_from_the_day_on_which_its_quote_was_said_and_is_by_whom_said_it():
    grounding = Grounding(TALK, BEFORE)
    reply = RepairReply(**fact_of('Ana bought a red kayak yesterday.', 'a red kayak', 'D1:1', 'D2:1', speaker='Zed'))
    fact, why = grounding.fact(reply)
    assert (fact.time.start, fact.said, fact.speaker, why) == (date(2024, 5, 8), TALK.time, 'Ana', '')
    assert grounding.fact(reply.model_copy(update={'speaker': 'mrs. lund'}))[0].speaker == 'Ana'  # who says the quote


def test_nothing_to_ask_asks_nothing():
    bank = bank_of()
    before = seen(bank)
    for session, count in ((TALK, 0), (Session('D3', ()), 5)):
        model = Odd()
        assert evolve(bank, session, model, probes=count) == Evolution(session.id) and model.asked == []
    assert seen(bank) == before
    with pytest.raises(TypeError, match="speakers: expected a sequence of names, got the text 'Ana'"):
        evolve(MemoryBank(), Session('S', ()), speakers='Ana')
    with pytest.raises(ValueError, match='probes: expected 0 or more, got -1'):
        evolve(bank, TALK, probes=-1)


# ---- all or nothing ------------------------------------------------------------------------------------------------------

CYCLE = {'probes': [{'probes': [KAYAK, PARROT]}], 'repair': [TRUE_FACT]}


def test_a_model_that_fails_at_any_call_leaves_the_bank_and_says_what_was_spent():
    for number in range(1, 40):
        bank, model = without('Lund'), Odd(number, **CYCLE)
        before = seen(bank)
        result = evolve(bank, TALK, model, speakers=SPEAKERS)
        if not result.error:
            break
        assert sum(result.cost.values(), Usage()) == Usage(number, 100) and seen(bank) == before
        assert result.error == 'LMError: no more' and not result.written and 'no reply came' in str(result)
        assert len(result.before) == (0 if number <= 4 else 2)
    # the second time the answers are the gold ones: no judge is asked
    assert number == 1 + 3 + 2 + 2 + 1


def test_it_is_written_with_the_transaction_around_it_or_not_at_all():
    bank = bank_of(sessions=(EARLIER,))
    before = seen(bank)

    def remember():
        construct(bank, TALK, speakers=SPEAKERS)
        bank.delete(entry_of(bank, 'Lund').id)
        return evolve(bank, TALK, Odd(**CYCLE), speakers=SPEAKERS)

    with pytest.raises(Struck), bank.transaction():
        assert remember().passed == (1, 2)
        raise Struck
    assert seen(bank) == before
    with bank.transaction():
        remember()
    assert len({change.batch for change in bank._changes() if change.when == TALK.time}) == 1 and entry_of(bank, 'Lund')
    bank.undo()
    assert list(bank) == before[0]
