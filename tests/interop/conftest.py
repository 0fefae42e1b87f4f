"""What the tests of other libraries ran against stands below what they print."""

import sqlite3
from importlib.metadata import PackageNotFoundError, version

PACKAGES = (
    'qdrant-client',
    'langchain-core',
    'langgraph',
    'llama-index-core',
    'mem0ai',
    'graphiti-core',
    'kuzu',
    'pandas',
    'mcp',
    'xllamacpp',
    'openai',
)


def installed(name):
    try:
        return f'{name} {version(name)}'
    except PackageNotFoundError:
        return f'no {name}'


def pytest_terminal_summary(terminalreporter):
    terminalreporter.write_line(f"SQLite {sqlite3.sqlite_version}, " + ", ".join(map(installed, PACKAGES)))
