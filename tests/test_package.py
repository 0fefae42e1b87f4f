"""The package as a whole: what importing it costs, and that it offers what it says."""

import ast
import configparser
import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import memnb
import networkx
import pytest

ROOT = Path(__file__).parent.parent
HEAVY = ('matplotlib', 'networkx', 'openai', 'wordllama', 'scipy', 'pydantic', 'numpy')


def in_a_fresh_python(code):
    return subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True, timeout=60).stdout


def test_importing_memnb_imports_nothing_heavy():
    loaded = json.loads(in_a_fresh_python('import json, sys, memnb; print(json.dumps(sorted(sys.modules)))'))
    assert not set(HEAVY) & {name.split('.')[0] for name in loaded}


def test_importing_the_main_loop_imports_no_model_client_plot_or_embedder():
    loaded = json.loads(
        in_a_fresh_python('import json, sys; from memnb import MemR3; print(json.dumps(sorted(sys.modules)))')
    )
    assert not {'matplotlib', 'networkx', 'openai', 'wordllama'} & {name.split('.')[0] for name in loaded}


def test_every_name_on_offer_is_there_and_is_what_its_module_has():
    for module, names in memnb._HOMES.items():
        for name in names:
            assert getattr(memnb, name) is getattr(importlib.import_module(f'memnb.{module}'), name)
    assert memnb._HOME_OF.keys() <= set(dir(memnb))


def test_a_name_that_is_not_on_offer_is_an_attribute_error():
    try:
        memnb.no_such_name
    except AttributeError as error:
        assert 'no_such_name' in str(error)
    else:
        raise AssertionError('expected an AttributeError')


def test_the_version_is_the_same_in_both_places():
    settings = configparser.ConfigParser(delimiters=['='])
    settings.read(ROOT / 'settings.ini', encoding='utf-8')
    assert settings['DEFAULT']['version'] == memnb.__version__


def test_every_notebook_that_a_text_names_is_there():
    names = {path.relative_to(ROOT / 'nbs').with_suffix('').as_posix() for path in (ROOT / 'nbs').glob('*/*.ipynb')}
    texts = [ROOT / 'README.md', *(ROOT / 'nbs').rglob('*.ipynb'), *Path(memnb.__file__).parent.rglob('*.py')]
    for path in texts:
        named = set(re.findall(r'`(\d_[a-z0-9]+/\d\d_[a-z0-9_]+)`', path.read_text(encoding='utf-8')))
        assert named <= names, f'{path.name} names {sorted(named - names)}'


# ------------------------------------------------------------------ which module knows which

PACKAGE = Path(memnb.__file__).parent
MODULES = {
    '.'.join(path.relative_to(PACKAGE.parent).with_suffix('').parts).removesuffix('.__init__'): path
    for path in sorted(PACKAGE.rglob('*.py'))
    if path.name != '_modidx.py'
}
METHODS = ('memr3', 'remem', 'mragent', 'memma')
BELOW = {
    'core': (),
    'retrieval': ('core',),
    **{method: ('core', 'retrieval') for method in METHODS},
}  # what a sub-package may import
UPWARD = {
    'memnb.core.roles': 'memnb.rules',  # the rules of `RuleLM`
    'memnb.core.retriever': 'memnb.retrieval.hybrid',  # the index of a plain list
}  # what a module may name at run time although it stands above it


def known_by(module, named=True):
    """The modules of ours that a module imports anywhere and, with `named`, gives to import_module or resolve_name."""
    home = module if MODULES[module].name == '__init__.py' else module.rpartition('.')[0]
    paths = set()
    for node in ast.walk(ast.parse(MODULES[module].read_text(encoding='utf-8'))):
        if isinstance(node, ast.ImportFrom):
            base = importlib.util.resolve_name('.' * node.level + (node.module or ''), home)
            paths.update(f'{base}.{alias.name}' for alias in node.names)
        elif named and isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            if re.search(r'\b(import_module|resolve_name)$', ast.unparse(node.func)):
                paths.add(str(node.args[0].value).replace(':', '.'))
    if named:
        paths.discard(UPWARD.get(module))
    # `memnb.a.b` is a module, or something in `memnb.a`
    return {path if path in MODULES else path.rpartition('.')[0] for path in paths} & MODULES.keys() - {'memnb', module}


@pytest.mark.parametrize('named', [False, True])
def test_no_modules_stand_in_a_circle(named):
    graph = networkx.DiGraph([(module, other) for module in MODULES for other in known_by(module, named)])
    circles = [sorted(group) for group in networkx.strongly_connected_components(graph) if len(group) > 1]
    assert circles == []


def test_each_sub_package_knows_only_what_lies_below_it():
    for module in MODULES.keys() - {'memnb'}:
        here = module.split('.')[1]
        for other in known_by(module):
            there = other.split('.')[1]
            assert there in (here, *BELOW.get(here, [there])), f'{module} knows {other}'


def test_what_a_module_imports_of_ours_on_loading_is_relative():
    """nbdev makes an import relative where it stands on one line; a longer one is written as two."""
    for module, path in MODULES.items():
        for node in ast.parse(path.read_text(encoding='utf-8')).body:
            if isinstance(node, ast.ImportFrom) and not node.level:
                assert node.module.split('.')[0] != 'memnb', f'{module}, line {node.lineno}: from {node.module}'


def test_a_trace_is_shown_although_nobody_imported_the_views():
    code = "from memnb.core.trace import Trace; trace = Trace(question='Why?', method='m', model='m')"
    assert '<' in in_a_fresh_python(f'{code}; print(trace._repr_html_())')
    assert in_a_fresh_python(f'{code}; print(trace)').startswith('question   Why?')


def test_the_user_s_logging_stays_as_it_is():
    told = in_a_fresh_python(
        'import logging; from memnb.retrieval.vectors import WordLlamaEmbedder; WordLlamaEmbedder()(["a word"]); '
        'root = logging.getLogger(); print(root.handlers, root.level)'
    )
    assert told.split('\n')[0] == '[] 30'


# ------------------------------------------------------------------ what is installed

OTHER_NAMES = {
    'IPython': 'ipython',
    'PIL': 'pillow',
    'dateutil': 'python-dateutil',
    'pydantic_core': 'pydantic',
    'llama_index': 'llama-index-core',
    'mem0': 'mem0ai',
}


def declared(*groups):
    """The packages of some lines of settings.ini."""
    settings = configparser.ConfigParser(delimiters=['='])
    settings.read(ROOT / 'settings.ini', encoding='utf-8')
    return {re.split(r'[<>=\[]', one)[0] for group in groups for one in settings['DEFAULT'][group].split()}


def imported(folder, only_on_loading=False):
    """The packages that the modules of a folder import, and what imports each."""
    found = {}
    for path in folder.rglob('*.py'):
        tree = ast.parse(path.read_text(encoding='utf-8'))
        for node in tree.body if only_on_loading else ast.walk(tree):
            names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module]
            for name in (name.split('.')[0] for name in names):
                if name not in sys.stdlib_module_names | {'memnb'}:
                    found[OTHER_NAMES.get(name, name.replace('_', '-'))] = path.name
    return found


def test_what_is_imported_is_declared():
    extras = [f'{name}_requirements' for name in ('eval', 'docs', 'lab', 'local', 'interop', 'minilm')]
    on_loading = imported(ROOT / 'memnb', only_on_loading=True)
    assert set(on_loading) <= declared('requirements') | {'ipython', 'ipywidgets', 'matplotlib', 'pillow'}, (
        on_loading
    )  # the graph explorer's
    assert set(imported(ROOT / 'memnb')) <= declared('requirements', *extras)
    ours = {path.stem for path in [*(ROOT / 'tests').rglob('*.py'), *(ROOT / '.ci').glob('*.py')]} | {'interop'}
    others = {**imported(ROOT / 'tests'), **imported(ROOT / '.ci')}
    assert {name for name in others if name.replace('-', '_') not in ours} <= declared(
        'requirements', 'dev_requirements', 'interop_requirements'
    )


WITHOUT = (
    "import sys; sys.modules.update(dict.fromkeys(['scipy', 'pandas', 'matplotlib', 'jinja2', 'ijson', 'pooch']))\n"
)


def test_a_star_import_needs_nothing_else():
    assert in_a_fresh_python(f'{WITHOUT}from memnb import *; print(MemR3)')


@pytest.mark.parametrize(
    'command',
    [
        ['demo', '--out', 'page.html'],
        ['ask', 'When did Tobin have his first lesson?'],
        ['ask', '--method', 'mragent', 'Who?'],
        ['data'],
    ],
)
def test_a_user_of_the_core_needs_nothing_else(command, tmp_path):
    command = [str(tmp_path / word) if word == 'page.html' else word for word in command]
    assert in_a_fresh_python(
        f'{WITHOUT}import memnb.adapters.mcp_server\nfrom memnb.cli import main\nsys.exit(main({command}))'
    )


@pytest.mark.parametrize(
    'code',
    [
        'from memnb.evaluation.metrics import wilson; wilson(1, 2)',
        'from memnb.evaluation.metrics import bootstrap; bootstrap([0, 1])',
        "from memnb import Experiment, load_sample; Experiment(['rag'], [load_sample()])",
    ],
)
def test_what_else_is_needed_is_said(code):
    told = in_a_fresh_python(f'{WITHOUT}try:\n    {code}\nexcept ImportError as error:\n    print(error)')
    assert 'scipy' in told and "pip install 'memnb[eval]'" in told
