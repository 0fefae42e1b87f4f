"""The core beside the packages that its adapters are for: it imports none of them, although they are all there."""

import json
import pkgutil
import subprocess
import sys
from importlib.util import find_spec

import pytest

import memnb

FOREIGN = (
    'langchain_core',
    'langgraph',
    'llama_index',
    'mem0',
    'graphiti_core',
    'kuzu',
    'qdrant_client',
    'pandas',
    'mcp',
    'xllamacpp',
    'distributed',
)

if not all(find_spec(name) for name in FOREIGN):
    pytest.skip("not all of memnb[interop,local,dask] is installed", allow_module_level=True)


def test_no_module_imports_a_foreign_package():
    found = pkgutil.walk_packages(memnb.__path__, 'memnb.')
    modules = sorted(module.name for module in found if not module.name.startswith(('memnb.evaluation', 'memnb.views')))
    assert {'memnb.adapters.stores', 'memnb.adapters.frameworks', 'memnb.adapters.mcp_server', 'memnb.cli'} <= set(
        modules
    )
    code = f'import importlib, json, sys\nfor name in {modules!r}: importlib.import_module(name)\nprint(json.dumps(sorted(sys.modules)))'
    loaded = json.loads(
        subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True, timeout=120).stdout
    )
    assert not set(FOREIGN) & {name.split('.')[0] for name in loaded}
