"""What all tests share: which examples Hypothesis tries, and how many.

A property tries fifty examples, or the number that it sets; MEMNB_EFFORT=4 tries four times as many of each.
The seed is that of the commit, so that everybody tries the same examples: `--hypothesis-seed=7` tries others, and
`--hypothesis-profile=fixed` those that are the same at every commit. No clock ends a test, because a busy machine is no
defect, and nothing is remembered from run to run: Hypothesis would otherwise try first what failed before."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

EFFORT = float(os.environ.get('MEMNB_EFFORT', 1))

settings.register_profile(
    'memnb',
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    max_examples=50,
    derandomize=False,  # nor where CI is set
    database=None,
)
settings.register_profile('fixed', settings.get_profile('memnb'), derandomize=True)
settings.load_profile('memnb')

if hasattr(providers, '_get_local_constants'):  # newer versions draw strings from the modules that happen to be loaded
    providers._get_local_constants = lambda: providers._local_constants


def commit_seed() -> int:
    "Return the first 32 bits of the commit's hash; 0 where the folder is no checkout, or there is no git."
    root, git = Path(__file__).parent.parent, shutil.which('git')
    if git is None or not (root / '.git').exists():
        return 0
    head = subprocess.run([git, '-C', root, 'rev-parse', '--verify', '-q', 'HEAD'], capture_output=True, text=True)
    return int(head.stdout[:8] or '0', 16)


def with_effort(own: settings) -> settings:
    "Return the settings of a test with its number of examples multiplied, and no check of its speed."
    checks = {HealthCheck.too_slow, *own.suppress_health_check}
    examples = max(1, round(EFFORT * own.max_examples))
    return settings(own, max_examples=examples, suppress_health_check=checks)


@pytest.hookimpl(tryfirst=True)  # before Hypothesis reads it; the workers of xdist are given it
def pytest_configure(config):
    if config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = str(commit_seed())


def pytest_sessionstart(session):
    reporter = session.config.pluginmanager.get_plugin('terminalreporter')
    if reporter:  # not in a worker of xdist
        option = session.config.option
        is_fixed = option.hypothesis_profile == 'fixed'
        seed = 'the fixed examples' if is_fixed else f'--hypothesis-seed={option.hypothesis_seed}'
        reporter.write_line(f'properties: {seed}, MEMNB_EFFORT={EFFORT:g}')


def pytest_collection_modifyitems(items):
    tests = {}  # a test that runs with several parameters, or a machine, is changed once
    for item in items:
        test = getattr(item.obj, '__func__', item.obj)
        if hasattr(test, '_hypothesis_internal_use_settings'):
            tests[test] = '_hypothesis_internal_use_settings'
        elif hasattr(test, '_hypothesis_state_machine_class'):
            tests[item.cls] = 'settings'
    for test, name in tests.items():
        setattr(test, name, with_effort(getattr(test, name)))
