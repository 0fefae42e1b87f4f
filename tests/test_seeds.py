"""How many examples Hypothesis tries, and which: `conftest.py` beside a suite of its own."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

SUITE = '''
import json
from collections import defaultdict

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

drawn = defaultdict(list)


@given(st.text())
def test_without_a_number(text):
    drawn['none'].append(text)


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text())
@pytest.mark.parametrize('name', ['first', 'second'])
def test_with_a_number(tmp_path, name, text):
    drawn[name].append(text)


class TestClass:
    @given(st.integers())
    @settings(max_examples=20)
    def test_method(self, number):
        drawn['method'].append(number)


class Machine(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        drawn['machine'].append(0)

    @rule(number=st.integers())
    def step(self, number):
        drawn['step'].append(number)


TestMachine = Machine.TestCase
TestMachine.settings = settings(max_examples=8, stateful_step_count=3)


def test_end(pytestconfig):
    (pytestconfig.rootpath / 'drawn.json').write_text(json.dumps(drawn))
'''


def run(folder, *options, **environment):
    "Run the suite in a folder that is no checkout; return what was drawn and what pytest printed."
    (folder / 'tests').mkdir(exist_ok=True)
    (folder / 'pytest.ini').write_text('[pytest]')
    (folder / 'tests' / 'test_suite.py').write_text(SUITE)
    shutil.copy(Path(__file__).with_name('conftest.py'), folder / 'tests')
    command = [sys.executable, '-m', 'pytest', '-q', '-p', '_hypothesis_pytestplugin', '-p', 'xdist', *options]
    plain = {'MEMNB_EFFORT': '1', 'PYTEST_DISABLE_PLUGIN_AUTOLOAD': '1'}  # to load all plugins takes seconds
    environment = {**os.environ, **plain, **environment}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    return json.loads((folder / 'drawn.json').read_text()), done.stdout


def test_effort_multiplies_the_examples_of_every_property(tmp_path):
    drawn, _ = run(tmp_path, MEMNB_EFFORT='0.5')
    numbers = {'none': 25, 'first': 6, 'second': 6, 'method': 10, 'machine': 4}
    assert {name: len(drawn[name]) for name in numbers} == numbers


def test_the_seed_is_that_of_the_commit_and_alone_decides_what_is_drawn(tmp_path):
    drawn, printed = run(tmp_path)
    assert '--hypothesis-seed=0, MEMNB_EFFORT=1' in printed  # no checkout
    git = ['git', '-c', 'user.name=a', '-c', 'user.email=b']
    for command in (['init', '-q'], ['commit', '-q', '--allow-empty', '-m', 'first']):
        subprocess.run([*git, *command], cwd=tmp_path, check=True)
    head = subprocess.run(['git', 'rev-parse', 'HEAD'], cwd=tmp_path, capture_output=True, text=True, check=True)
    seed = f'--hypothesis-seed={int(head.stdout[:8], 16)}'
    of_commit, printed = run(tmp_path, '-n2', '--dist=loadfile', CI='1')
    assert of_commit != drawn and seed in printed
    (tmp_path / 'another.py').write_text(f'TEXTS = {[f"text {number}" for number in range(1000)]}')
    (tmp_path / 'tests' / 'test_another.py').write_text('import another')
    assert run(tmp_path, seed)[0] == of_commit


def test_the_fixed_examples_have_no_seed(tmp_path):
    fixed, printed = run(tmp_path, '--hypothesis-profile=fixed')
    assert 'the fixed examples' in printed
    assert run(tmp_path, '--hypothesis-profile=fixed', '--hypothesis-seed=7')[0] == fixed
