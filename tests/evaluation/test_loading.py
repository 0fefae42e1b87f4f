"""One call for every kind of file: the laws that hold for all, the two that become conversations here, and hashes."""
import copy
import hashlib
import importlib
import json
import os
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memnb.evaluation.benchmarks import load_complex_tr
from memnb.core.conversation import Conversation, Question, Session, Turn
from memnb.evaluation.datasets import CATEGORIES, data_path
from memnb.evaluation.registry import (
    check_conversations, data_files, data_hash, DATASETS, load_complex_tr_conversation, load_dataset,
    load_tot_conversations)
from memnb.evaluation.benchmarks import QUESTION_TYPES
from memnb.evaluation.benchmarks import REALTALK_CATEGORIES
from memnb.evaluation.datasets import DatasetError
from memnb.evaluation.test_of_time import load_tot, make_tot, save_tot, tot_record
from damage import JSON, spots

CAREERS = Path(__file__).parents[1] / 'complex_tr.json'
SLOW = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
PASSAGE = {'title': 'Lindow', 'text': 'A town with a fair in May.'}
SMALL = {
    'tot': [tot_record(item) for item in make_tot(4, seed=3)],
    'complex_tr': [json.loads(line) for line in CAREERS.read_text(encoding='utf-8').splitlines()],
    'musique': [{'id': '2hop__1_2', 'question': 'When is the fair?', 'answer': 'in May', 'answer_aliases': ['May'], 'paragraphs': [PASSAGE]}],
    '2wiki': [{'_id': 'a', 'question': 'When is the fair?', 'answer': 'in May', 'type': 'comparison', 'context': [['Lindow', [PASSAGE['text']]]],
               'supporting_facts': [['Lindow', 0]]}],
    'realtalk': {'name': {'speaker_1': 'Ana', 'speaker_2': 'Ben'}, 'session_1_date_time': '02.06.2024, 18:30:05',
                 'session_1': [{'clean_text': 'The fair was in May.', 'speaker': 'Ana', 'date_time': '02.06.2024, 18:30:05', 'dia_id': 'D1:1'}],
                 'qa': [{'question': 'When was the fair?', 'answer': 'in May', 'evidence': ['D1:1'], 'category': 2}]},
    'longmemeval': [{'question_id': name, 'question_type': 'multi-session', 'question': 'When was the fair?', 'answer': 'in May',
                     'question_date': '2024/06/03 (Mon) 23:40', 'answer_session_ids': ['a'], 'haystack_session_ids': ['a'],
                     'haystack_dates': ['2024/06/02 (Sun) 02:21'],
                     'haystack_sessions': [[{'role': 'user', 'content': 'The fair was in May.', 'has_answer': True}]]} for name in ('q1', 'q2_abs')],
    'jsonl': [{'id': 'D1:1', 'conversation': 'own', 'session': 'D1', 'speaker': 'Ana', 'text': 'The fair was in May.'},
              {'question': 'When was the fair?', 'conversation': 'own', 'answer': 'in May', 'evidence': ['D1:1']}]}
QUESTIONS = {kind: 1 if isinstance(content, dict) or kind == 'jsonl' else len(content) for kind, content in SMALL.items()}


def write(path, kind, content):
    """A file of that kind, and the corpus that some kinds need."""
    lines = kind == 'jsonl' and isinstance(content, list)
    path.write_text('\n'.join(map(json.dumps, content)) if lines else json.dumps(content), encoding='utf-8')
    path.with_name(f'{path.stem}_corpus.json').write_text(json.dumps([PASSAGE]), encoding='utf-8')
    return path


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp('kinds')
    for kind, content in SMALL.items():
        write(path / f'{kind}.json', kind, content)
    return path


def keep_the_laws(conversations):
    """The laws for all kinds, stated without the code that keeps them."""
    ids = [one.id for talk in conversations for one in talk.questions]
    assert len(ids) == len(set(ids))
    for talk in conversations:
        turns = {turn.id for session in talk.sessions for turn in session.turns}
        assert turns
        assert all(set(one.evidence) <= turns and one.conversation == talk.id for one in talk.questions)
        assert Conversation.from_json(talk.to_json()) == talk


@pytest.mark.parametrize('kind', SMALL)
def test_the_laws_for_all_kinds(folder, kind):
    loaded = load_dataset(folder / f'{kind}.json', kind)
    keep_the_laws(loaded)
    questions = [one for talk in loaded for one in talk.questions]
    assert len(questions) == QUESTIONS[kind]
    assert {one.category for one in questions} <= set(DATASETS[kind].categories) or kind == 'jsonl'


def test_locomo_is_the_default():
    path = data_path('sample.json')
    keep_the_laws(load_dataset(path))
    assert load_dataset(path) == load_dataset(path, 'locomo') == load_dataset(str(path))


@pytest.mark.parametrize('kind', DATASETS)
def test_every_kind_has_a_function_and_says_what_it_is(kind):
    one = DATASETS[kind]
    assert callable(getattr(importlib.import_module(f'memnb.{one.module}'), one.function))
    assert one.title and one.licence and one.about
    assert kind == 'jsonl' or one.page.startswith('https://')


def test_the_categories_are_those_of_the_loaders():
    assert DATASETS['locomo'].categories == tuple(CATEGORIES.values())
    assert DATASETS['realtalk'].categories == tuple(REALTALK_CATEGORIES.values())
    assert set(DATASETS['longmemeval'].categories) == set(QUESTION_TYPES)


def test_another_error_of_a_loader_becomes_a_dataset_error(monkeypatch):
    def broken(path):
        return Conversation('x', [Session('D1', []), Session('D1', [])])
    monkeypatch.setattr('memnb.evaluation.datasets.load_locomo', broken)
    with pytest.raises(DatasetError, match="^x.json: session id 'D1' comes twice"):
        load_dataset('x.json')


@pytest.mark.parametrize('kind', DATASETS)
@pytest.mark.parametrize('content', [b'', b'[]', b'{', b'3', b'[3]', b'\xff', b'{"a": 1, "a": 2}', b'[[[]]]', b'null'])
def test_no_file_of_a_kind_gives_another_error(tmp_path, kind, content):
    path = tmp_path / 'odd.json'
    path.write_bytes(content)
    (tmp_path / 'odd_corpus.json').write_text(json.dumps([PASSAGE]))
    if DATASETS[kind].corpus and content == b'[]':  # a corpus about which nothing is asked
        assert [len(one.turns) for one in load_dataset(path, kind)] == [1]
    else:
        with pytest.raises(DatasetError, match='odd.json'):
            load_dataset(path, kind)
    with pytest.raises(DatasetError, match='none.json'):
        load_dataset(tmp_path / 'none.json', kind)


def test_what_is_no_kind():
    with pytest.raises(DatasetError, match='kind: expected one of locomo, .*, jsonl, got .LoCoMo.'):
        load_dataset('x.json', 'LoCoMo')
    with pytest.raises(DatasetError, match='kind: expected one of'):
        data_hash('x.json', '')


def one_talk(id, conversation=None, place=0):
    return Conversation(id, [Session('D1', [Turn('D1:1', '', 'x')])], [Question('Who?', conversation=id if conversation is None else conversation, position=place)])


@given(st.lists(st.tuples(st.sampled_from('ab'), st.sampled_from(['a', 'b', None]), st.integers(0, 1)), max_size=3))
def test_questions_of_checked_conversations_have_ids_of_their_own(drawn):
    talks = [one_talk(*one) for one in drawn]
    good = bool(talks) and len({talk.id for talk in talks}) == len(talks) and all(
        one.conversation == talk.id for talk in talks for one in talk.questions)
    if good:
        keep_the_laws(check_conversations(iter(talks), 'x'))
    else:
        with pytest.raises(DatasetError, match='^x: '):
            check_conversations(talks, 'x')


@given(st.integers(0, 10**6), st.integers(1, 4))
@settings(max_examples=8, deadline=None, suppress_health_check=SLOW)
def test_a_world_holds_the_facts_of_its_item_under_their_ids(tmp_path_factory, seed, n):
    path = tmp_path_factory.getbasetemp() / 'made.json'
    save_tot(make_tot(n, seed=seed), path)
    items, worlds = load_tot(path), load_tot_conversations(path)
    keep_the_laws(worlds)
    for place, (item, world) in enumerate(zip(items, worlds, strict=True)):
        prompt = json.loads(path.read_text())[place]['prompt']
        assert [turn.text for turn in world.turns] == [line for line in prompt.split('\n\n')[0].splitlines() if ' was the ' in line]
        assert {turn.id for turn in world.turns} == {id for fact in item.facts for id in fact.sources}
        [asked] = world.questions
        assert (asked.text, asked.answer, asked.category, asked.position, asked.evidence) == (item.question, item.label, item.kind, place, ())
        assert world.id == f'made-{place}' and world.speakers == ('',)


def test_careers_have_one_memory_of_texts_or_of_facts():
    questions = load_complex_tr(CAREERS)
    talk, facts = load_complex_tr_conversation(CAREERS), load_complex_tr_conversation(CAREERS, over='facts')
    keep_the_laws([talk])
    keep_the_laws([facts])
    assert [turn.text for turn in talk.turns] == list(dict.fromkeys(one.text for asked in questions for one in asked.passages))
    assert all(len(session.turns) == 1 for session in talk.sessions)
    lines = {line.strip().replace('member of the ', 'member of ') for asked in SMALL['complex_tr'] for line in asked['fact_context'].splitlines() if line.strip()}
    assert {turn.text.replace('member of the ', 'member of ') for turn in facts.turns} == lines and len(facts.turns) == len(lines)
    assert {turn.id for turn in facts.turns} == {fact.id for asked in questions for fact in asked.facts}
    assert [one.answer.split(', ') for one in talk.questions] == [list(asked.answers) for asked in questions]
    assert talk.notes == ('the memory holds the passages of the file',) and facts.notes == ('the memory holds the facts of the file',)


def test_careers_without_texts_or_answers(tmp_path):
    path = tmp_path / 'bare.json'
    bare = [{name: value for name, value in one.items() if name not in ('context', 'passages')} for one in SMALL['complex_tr']]
    path.write_text(json.dumps([bare[0] | {'text_answers': {'text': []}}, *bare[1:]]))
    talk = load_complex_tr_conversation(path)
    assert talk == load_complex_tr_conversation(path, over='facts')
    assert (talk.questions[0].answer, talk.questions[0].refuse, talk.questions[1].refuse) == (None, True, False)
    with pytest.raises(DatasetError, match='bare.json: expected passages to remember, got none'):
        load_complex_tr_conversation(path, over='passages')
    with pytest.raises(DatasetError, match='over: expected'):
        load_complex_tr_conversation(path, over='texts')


@st.composite
def damaged(draw):
    """A kind and a file of it in which one or two nodes were dropped, doubled or replaced by arbitrary JSON."""
    kind = draw(st.sampled_from(sorted(SMALL)))
    content = copy.deepcopy(SMALL[kind] if isinstance(SMALL[kind], dict) else SMALL[kind][:2])
    for _ in range(draw(st.integers(1, 2))):
        found = list(spots(content))
        if not found:
            break
        *way, key = draw(st.sampled_from(found))
        node = content
        for step in way:
            node = node[step]
        how = draw(st.sampled_from(['drop', 'double', 'replace', 'replace']))
        if how == 'drop':
            del node[key]
        elif how == 'double' and isinstance(node, list):
            node.append(copy.deepcopy(node[key]))
        else:
            node[key] = draw(JSON)
    return kind, content


@given(damaged())
@settings(max_examples=200, deadline=None, suppress_health_check=SLOW)
def test_a_damaged_file_gives_conversations_or_a_dataset_error(folder, drawn):
    kind, content = drawn
    write(folder / 'hurt.json', kind, content)
    try:
        loaded = load_dataset(folder / 'hurt.json', kind)
    except DatasetError as error:
        assert 'hurt.json' in str(error)
    else:
        keep_the_laws(loaded)


names = st.text('abcXY.', min_size=1, max_size=3).filter(lambda name: name not in ('.', '..'))


@given(st.dictionaries(st.tuples(names, names) | st.tuples(names), st.binary(max_size=5), min_size=1, max_size=4), names, st.binary(max_size=5))
@settings(max_examples=60, deadline=None, suppress_health_check=SLOW)
def test_the_hash_of_a_folder_is_that_of_the_list_of_its_hashes(tmp_path_factory, tree, name, content):
    base = tmp_path_factory.getbasetemp() / 'tree'

    def hashed(files):
        shutil.rmtree(base, ignore_errors=True)
        written = {}
        for path, held in files.items():
            try:
                (base / Path(*path)).parent.mkdir(parents=True, exist_ok=True)
                (base / Path(*path)).write_bytes(held)
            except OSError:  # a name is a file and a folder
                continue
            written['/'.join(path)] = held
        return data_hash(base), written
    got, written = hashed(tree)
    seen = [path for path in sorted(written, key=lambda path: Path(path)) if not any(part.startswith('.') for part in path.split('/'))]
    listing = ''.join(f'{hashlib.sha256(written[path]).hexdigest()}  {path}\n' for path in seen)
    assert got == hashlib.sha256(listing.encode()).hexdigest()
    assert hashed(dict(reversed(tree.items())))[0] == got or len(written) < len(tree)
    if not name.startswith('.') and (name,) not in tree and not any(path[0] == name for path in tree):
        assert hashed({**tree, (name,): content})[0] != got


def test_the_hash_of_one_file_and_of_a_pair(folder, tmp_path):
    path = data_path('sample.json')
    assert data_hash(path) == hashlib.sha256(path.read_bytes()).hexdigest()
    assert data_files(folder / 'musique.json', 'musique') == [folder / 'musique.json', folder / 'musique_corpus.json']
    before = data_hash(folder / 'musique.json', 'musique')
    assert before != data_hash(folder / 'musique.json')
    for name in ('musique.json', 'musique_corpus.json'):
        shutil.copy(folder / name, tmp_path / name)
    assert data_hash(tmp_path / 'musique.json', 'musique') == before
    with open(tmp_path / 'musique_corpus.json', 'ab') as file:
        file.write(b' ')
    assert data_hash(tmp_path / 'musique.json', 'musique') != before
    (tmp_path / 'musique_corpus.json').unlink()
    with pytest.raises(DatasetError, match='musique_corpus.json: cannot be opened: No such file'):
        data_hash(tmp_path / 'musique.json', 'musique')
    with pytest.raises(DatasetError, match='none.json: cannot be opened'):
        data_hash(tmp_path / 'none.json')


@pytest.mark.skipif('MEMNB_LOCOMO' not in os.environ, reason='MEMNB_LOCOMO does not name a LoCoMo file')
def test_the_published_file():
    keep_the_laws(load_dataset(os.environ['MEMNB_LOCOMO']))
