"""Provenance: the same content has the same hash however it was written, another word another one, and no key is ever in it."""
import json
import subprocess
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import memnb
from memnb.core.conversation import Conversation, Question, Session, Turn
from memnb.evaluation.datasets import data_path, load_locomo, load_sample
from memnb.evaluation.experiment import Experiment
from memnb.evaluation.judge import Judge
from memnb.core.models import OpenAILM
from memnb.evaluation.experiment import (
    category_map, code, commit_of, conversations_hash, fingerprint, LIBRARIES, versions)
from memnb.core.models import RecordedLM
from servers import KEY, Server, authorization, chat, fail

SAMPLE = load_sample()
RECORDS = json.loads(data_path('sample.json').read_text(encoding='utf-8'))
values = st.recursive(st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=3),
                      lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3), max_leaves=8)


def shuffled(value, random):
    """The same JSON with its keys in another order."""
    if isinstance(value, dict):
        keys = list(value)
        random.shuffle(keys)
        return {key: shuffled(value[key], random) for key in keys}
    return [shuffled(one, random) for one in value] if isinstance(value, list) else value


# --- fingerprints ----------------------------------------------------------------------------------------------------

@given(values, st.randoms(use_true_random=False))
def test_the_order_of_keys_and_a_way_through_json_change_nothing(value, random):
    mark = fingerprint(value)
    assert mark == fingerprint(shuffled(value, random)) == fingerprint(json.loads(json.dumps(value, indent=2)))
    assert len(mark) == 16 and set(mark) <= set('0123456789abcdef')


@given(values, values)
def test_different_things_have_different_fingerprints(first, second):
    same = json.dumps(first, sort_keys=True) == json.dumps(second, sort_keys=True)
    assert (fingerprint(first) == fingerprint(second)) == same


@pytest.mark.parametrize('value', [float('nan'), float('inf'), {1, 2}, object(), {'a': Path('x')}])
def test_what_json_cannot_hold_is_refused(value):
    with pytest.raises((ValueError, TypeError)):
        fingerprint(value)


# --- data ------------------------------------------------------------------------------------------------------------

@given(st.randoms(use_true_random=False), st.none() | st.integers(0, 4), st.booleans(), st.booleans())
@settings(max_examples=6)
def test_the_formatting_of_a_file_does_not_matter(tmp_path_factory, random, indent, escaped, bom):
    path = tmp_path_factory.mktemp('data') / 'some.json'
    text = json.dumps(shuffled(RECORDS, random), indent=indent, ensure_ascii=escaped)
    path.write_text(text, encoding='utf-8-sig' if bom else 'utf-8')
    assert conversations_hash(load_locomo(path)) == conversations_hash([SAMPLE])


texts = st.text(st.characters(exclude_categories=['Cs']), min_size=1, max_size=5)
conversations = st.builds(
    lambda texts, golds: Conversation('one', [Session('D1', [Turn(f'D1:{n}', 'Ana', text) for n, text in enumerate(texts)])], [
        Question('Who?', gold, ['D1:0'], 'single-hop', 'one', n) for n, gold in enumerate(golds)]),
    st.lists(texts, min_size=1, max_size=3), st.lists(texts, max_size=3))


@given(conversations, conversations)
def test_two_conversations_have_one_hash_only_if_they_are_the_same(first, second):
    assert (conversations_hash([first]) == conversations_hash([second])) == (first == second)
    assert conversations_hash([Conversation.from_json(first.to_json())]) == conversations_hash([first])


@given(st.data())
@settings(max_examples=15)
def test_another_word_anywhere_is_another_hash(data):
    place = data.draw(st.integers(0, len(SAMPLE.questions) - 1))
    change = data.draw(st.sampled_from(['text', 'answer', 'category', 'evidence', 'dropped']))
    questions = list(SAMPLE.questions)
    if change == 'dropped':
        del questions[place]
    else:
        one = questions[place]
        questions[place] = replace(one, **{change: ('D1:1', *one.evidence) if change == 'evidence' else f'{getattr(one, change)}x'})
    assert conversations_hash([replace(SAMPLE, questions=questions)]) != conversations_hash([SAMPLE])


kinds = st.lists(st.tuples(st.sampled_from(['a', 'b', None]), st.booleans(), st.booleans()), max_size=8)


@given(kinds, kinds)
def test_categories_are_counted_over_all_conversations(first, second):
    def made(id, kinds):
        return Conversation(id, [Session('D1', [Turn('D1:1', 'Ana', 'Hi.')])], [
            Question('Who?', None if refuse else 'Ana', ['D1:1'] if gold else [], kind, id, place, refuse=refuse)
            for place, (kind, gold, refuse) in enumerate(kinds)])
    found, every = category_map([made('x', first), made('y', second)]), [(kind or 'none', gold, refuse) for kind, gold, refuse in first + second]
    assert {name: one['questions'] for name, one in found.items()} == Counter(kind for kind, *_ in every)
    assert {name: one['without gold'] for name, one in found.items()} == {name: sum(kind == name and not gold for kind, gold, _ in every) for name in found}
    assert {name: one['to be refused'] for name, one in found.items()} == {name: sum(kind == name and refuse for kind, _, refuse in every) for name in found}
    assert [*found] == sorted(found)


# --- code ------------------------------------------------------------------------------------------------------------

def test_a_commit_is_that_of_the_packages_own_checkout(tmp_path):
    package, elsewhere = tmp_path / 'package', tmp_path / 'site' / 'package'
    for one in (package, elsewhere):
        one.mkdir(parents=True)
        (one / 'code.py').write_text('x = 1\n')

    def git(*words):
        return subprocess.run(['git', '-C', str(tmp_path), '-c', 'user.name=A', '-c', 'user.email=a@example.org', *words], check=True,
                              capture_output=True, text=True, timeout=30).stdout.strip()
    assert commit_of(package) is None
    git('init', '--quiet')
    git('add', 'package')
    assert commit_of(package) is None
    git('commit', '--quiet', '--message', 'first')
    head = git('rev-parse', 'HEAD')
    assert commit_of(package) == head[:12]
    (tmp_path / 'other.txt').write_text('beside the package')
    assert commit_of(package) == head[:12]
    (package / 'new.py').write_text('')
    assert commit_of(package) == head[:12] + '+'
    assert commit_of(elsewhere) is None


def test_without_git_there_is_no_commit(tmp_path, monkeypatch):
    monkeypatch.setenv('PATH', str(tmp_path))
    assert commit_of(Path(memnb.__file__).parent) is None


def test_the_code_is_told_with_its_libraries():
    found = code()
    assert found['memnb'] == memnb.__version__ and found['libraries'] == versions()
    assert set(versions()) == {'python', *LIBRARIES}
    json.dumps(found)


def test_a_library_that_is_not_there_is_told_as_such(monkeypatch):
    monkeypatch.setattr('memnb.evaluation.experiment.LIBRARIES', ('no-such-library',))
    assert versions()['no-such-library'] == 'not installed'


# --- keys ------------------------------------------------------------------------------------------------------------

def test_a_key_is_in_no_settings(tmp_path):
    model = OpenAILM('some', 'http://127.0.0.1:9/v1', api_key=KEY, extra={'top_k': 3})
    told = [model.settings(), RecordedLM(model, tmp_path / 'replies.sqlite').settings(), Judge(model).provenance(), repr(model), str(vars(model))]
    assert KEY not in json.dumps(told, default=str) and KEY not in json.dumps(told, default=repr)
    assert fingerprint(model.settings()) == fingerprint(OpenAILM('some', 'http://127.0.0.1:9/v1', api_key='other', extra={'top_k': 3}).settings())


@pytest.mark.parametrize('answer', [chat({'answer': 'red', 'sources': []}), chat(lambda request: json.dumps({'answer': authorization(request), 'sources': []})),
                                    fail(401, authorization)], ids=['answers', 'repeats the key', 'refuses with the key'])
def test_a_key_is_in_no_file_of_a_run(answer, tmp_path):
    toy = Conversation('toy', [Session('D1', [Turn('D1:1', 'Ana', 'My cat is red.')])], [
        Question('What colour is the cat of Ana?', 'red', ['D1:1'], 'single-hop', 'toy', 0)])
    with Server(answer) as server:
        model = OpenAILM('some', server.url, api_key=KEY, max_retries=0)
        results = Experiment(['rag'], [toy], lm=model, judge=Judge(model), baselines=()).run(tmp_path)
        assert server.requests
    assert KEY not in json.dumps(results.to_json()) + str(results) + json.dumps(results.records)
    files = [path for path in tmp_path.rglob('*') if path.is_file()]
    assert {'experiment.json', 'rows.jsonl', 'results.json', 'replies.sqlite'} <= {path.name for path in files}
    assert not [path.name for path in files if KEY.encode() in path.read_bytes()]
