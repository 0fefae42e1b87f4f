"""One call for every kind of file: the laws that hold for all, the two that become conversations here, and hashes."""

import copy
import hashlib
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memnb.core.conversation import Conversation, Session, Turn
from memnb.evaluation.datasets import data_path
from memnb.evaluation.registry import data_hash, DATASETS, load_dataset
from memnb.evaluation.datasets import DatasetError
from damage import JSON, spots

CAREERS = Path(__file__).parents[1] / 'complex_tr.json'
SLOW = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
PASSAGE = {'title': 'Lindow', 'text': 'A town with a fair in May.'}


SMALL = {
    'locomo': [
        {
            'sample_id': name,
            'conversation': {
                'session_1': [
                    {'speaker': 'Ana', 'dia_id': 'D1:1', 'text': 'The fair was in May.', 'blip_caption': 'a fair'}
                ],
                'session_1_date_time': '1:56 pm on 8 June, 2023',
                'session_3_date_time': '1:56 pm on 9 June, 2023',
            },
            'qa': [{'question': 'When was the fair?', 'answer': 2023, 'evidence': ['D1:1; D1:01', 'D'], 'category': 2}],
        }
        for name in ('conv-1', 'conv-2')
    ],
    'tot': [
        {
            'prompt': 'E2 was the R1 of E9 from 1950 to 1956.\nE3 was the R1 of E9 from 1956 to 1961.',
            'question': 'Which entity was the first R1 of E9?',
            'question_type': 'first_last',
            'label': 'E2',
        },
        {
            'prompt': 'Facts:\nE2 was the R1 of E9 from 1950 to 1956.\n\nAnswer.',
            'question': 'At what time did E2 stop being the R1 of E9?',
            'question_type': 'event_at_what_time',
            'label': '1956',
        },
    ],
    'complex_tr': [json.loads(line) for line in CAREERS.read_text(encoding='utf-8').splitlines()],
    'musique': [
        {
            'id': '2hop__1_2',
            'question': 'When is the fair?',
            'answer': 'in May',
            'answer_aliases': ['May'],
            'paragraphs': [PASSAGE],
        }
    ],
    '2wiki': [
        {
            '_id': 'a',
            'question': 'When is the fair?',
            'answer': 'in May',
            'type': 'comparison',
            'context': [['Lindow', [PASSAGE['text']]]],
            'supporting_facts': [['Lindow', 0]],
        }
    ],
    'realtalk': {
        'name': {'speaker_1': 'Ana', 'speaker_2': 'Ben'},
        'session_1_date_time': '02.06.2024, 18:30:05',
        'session_1': [
            {
                'clean_text': 'The fair was in May.',
                'speaker': 'Ana',
                'date_time': '02.06.2024, 18:30:05',
                'dia_id': 'D1:1',
            }
        ],
        'qa': [{'question': 'When was the fair?', 'answer': 'in May', 'evidence': ['D1:1'], 'category': 2}],
    },
    'longmemeval': [
        {
            'question_id': name,
            'question_type': 'multi-session',
            'question': 'When was the fair?',
            'answer': 'in May',
            'question_date': '2024/06/03 (Mon) 23:40',
            'answer_session_ids': ['a'],
            'haystack_session_ids': ['a'],
            'haystack_dates': ['2024/06/02 (Sun) 02:21'],
            'haystack_sessions': [[{'role': 'user', 'content': 'The fair was in May.', 'has_answer': True}]],
        }
        for name in ('q1', 'q2_abs')
    ],
    'jsonl': [
        {'id': 'D1:1', 'conversation': 'own', 'session': 'D1', 'speaker': 'Ana', 'text': 'The fair was in May.'},
        {'question': 'When was the fair?', 'conversation': 'own', 'answer': 'in May', 'evidence': ['D1:1']},
    ],
}
QUESTIONS = {
    kind: 1 if isinstance(content, dict) or kind == 'jsonl' else len(content) for kind, content in SMALL.items()
}


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


@pytest.mark.parametrize('kind', DATASETS)
@pytest.mark.parametrize(
    'content',
    [
        b'',
        b'[]',
        b'{',
        b'3',
        b'[3]',
        b'\xff',
        b'{"a": 1, "a": 2}',
        b'[[[]]]',
        b'null',
        b'[' * 100_000,
        b'{"a":' * 100_000,
    ],
)
def test_no_file_of_a_kind_gives_another_error(tmp_path, kind, content):
    path = tmp_path / 'odd.json'
    path.write_bytes(content)
    (tmp_path / 'odd_corpus.json').write_text(json.dumps([PASSAGE]))
    with pytest.raises(DatasetError, match='odd.json'):
        load_dataset(path, kind)
    with pytest.raises(DatasetError, match='none.json'):
        load_dataset(tmp_path / 'none.json', kind)


def test_no_conversation_and_two_of_one_name_are_refused(monkeypatch):
    talk = Conversation('a', [Session('D1', [Turn('D1:1', '', 'x')])])
    for talks, words in (([], 'got none'), ([talk] * 2, "two conversations are called 'a'")):
        toy = replace(DATASETS['locomo'], loader=lambda path: talks)
        monkeypatch.setitem(DATASETS, 'locomo', toy)
        with pytest.raises(DatasetError, match=f'^x.json: .*{words}'):
            load_dataset('x.json')


def test_what_is_no_kind():
    with pytest.raises(DatasetError, match='kind: expected one of locomo, .*, jsonl, got .LoCoMo.'):
        load_dataset('x.json', 'LoCoMo')
    with pytest.raises(DatasetError, match='kind: expected one of'):
        data_hash('x.json', '')


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
@settings(max_examples=200, suppress_health_check=SLOW)
def test_a_damaged_file_gives_conversations_or_a_dataset_error(folder, drawn):
    kind, content = drawn
    write(folder / 'hurt.json', kind, content)
    try:
        loaded = load_dataset(folder / 'hurt.json', kind)
    except DatasetError as error:
        assert 'hurt.json' in str(error)
    else:
        keep_the_laws(loaded)


@given(st.sampled_from(sorted(SMALL)), st.sampled_from(['', '_corpus']), st.data())
@settings(max_examples=150, suppress_health_check=SLOW)
def test_damaged_bytes_give_conversations_or_a_dataset_error(folder, kind, part, data):
    write(folder / 'hurt.json', kind, SMALL[kind])
    path = folder / f'hurt{part}.json'
    content = path.read_bytes()
    place = data.draw(st.integers(0, len(content) - 1))
    path.write_bytes(
        content[:place]
        + data.draw(st.binary(max_size=3))
        + content[data.draw(st.sampled_from([place, place + 1, len(content)])) :]
    )
    try:
        keep_the_laws(load_dataset(folder / 'hurt.json', kind))
    except DatasetError as error:
        assert 'hurt' in str(error)


names = st.text('abcXY.', min_size=1, max_size=3).filter(lambda name: name not in ('.', '..'))


@given(
    st.dictionaries(st.tuples(names, names) | st.tuples(names), st.binary(max_size=5), min_size=1, max_size=4),
    names,
    st.binary(max_size=5),
)
@settings(max_examples=60, suppress_health_check=SLOW)
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
    seen = [
        path
        for path in sorted(written, key=lambda path: Path(path))
        if not any(part.startswith('.') for part in path.split('/'))
    ]
    listing = ''.join(f'{hashlib.sha256(written[path]).hexdigest()}  {path}\n' for path in seen)
    assert got == hashlib.sha256(listing.encode()).hexdigest()
    assert hashed(dict(reversed(tree.items())))[0] == got or len(written) < len(tree)
    if not name.startswith('.') and (name,) not in tree and not any(path[0] == name for path in tree):
        assert hashed({**tree, (name,): content})[0] != got


def test_the_hash_of_one_file_and_of_a_pair(folder, tmp_path):
    path = data_path('sample.json')
    assert data_hash(path) == hashlib.sha256(path.read_bytes()).hexdigest()
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
