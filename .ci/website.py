"""Make the site, the notebooks and the interface of every module as pages that need no network, with Sphinx: `python .ci/website.py FOLDER`.

It needs the extra `docs`."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


def _mathml(
    formula: str,  # LaTeX
    block: bool = False,  # on a line of its own
) -> str:
    """A formula as MathML. A ValueError names a command that cannot be shown."""
    from latex2mathml.converter import convert

    markup = convert(formula.replace(r'\arg', r'\operatorname{arg}'), display='block' if block else 'inline')
    if unknown := re.findall(r'\\[a-zA-Z]+', markup):
        raise ValueError(f'formula {formula!r}: expected LaTeX that can be shown, got {", ".join(unknown)}')
    return markup


def setup(app: Any) -> dict:
    """Register formulas as MathML and docstrings as plain text with code in backticks; called by Sphinx."""

    def write(translator: Any, node: Any) -> None:
        from docutils.nodes import SkipNode

        translator.body.append(_mathml(node.astext(), node.tagname == 'math_block'))
        raise SkipNode

    def docstring(app: Any, kind: str, name: str, target: Any, options: Any, lines: list[str]) -> None:
        from fastcore.docments import docments

        comments = docments(target, returns=False) if kind in ('function', 'method') else {}
        lines += [
            '',
            *(f':param {name}: {comment}' for name, comment in comments.items() if comment),
        ]
        lines[:] = [
            re.sub(
                r'`+([^`]+)`+|([*|_\\])',
                lambda part: f'``{part[1]}``\\ ' if part[1] else '\\' + part[2],
                line,
            )
            for line in lines
        ]

    app.add_html_math_renderer('mathml', (write, None), (write, None))
    app.connect('autodoc-process-docstring', docstring)
    return {'parallel_read_safe': True, 'parallel_write_safe': True}


_CONF = f"""
import sys

sys.path.insert(0, {str(ROOT / '.ci')!r})
project, author, html_title, html_theme, html_math_renderer = 'memnb', 'The memnb founders', 'memnb', 'furo', 'mathml'
extensions = ['myst_nb', 'sphinx.ext.autodoc', 'website']
html_copy_source, html_show_sourcelink, nb_execution_mode, nb_ipywidgets_js, nb_merge_streams = False, False, 'off', {{}}, True
myst_enable_extensions, myst_heading_anchors, autodoc_member_order = ['dollarmath', 'amsmath'], 3, 'bysource'
suppress_warnings = ['mystnb.unknown_mime_type', 'myst.header', 'misc.highlighting_failure']
"""


def _page(notebook: dict, names: set[str], depth: int) -> dict:
    """A notebook for the site: without hidden cells and directives, with links to the other notebooks."""

    def link(name: re.Match) -> str:
        return f'[{name[0]}]({"../" * depth}{name[1]}.ipynb)' if name[1] in names else name[0]

    cells = []
    for cell in notebook['cells']:
        source = ''.join(cell['source'])
        if re.search(r'^#\s*\|\s*hide\b', source, re.MULTILINE):
            continue
        if cell['cell_type'] == 'code':
            source = re.sub(r'^#\s*\|.*\n?', '', source, flags=re.MULTILINE).strip('\n')
        else:
            source = re.sub(r'(?<!\[)`([\w/]+)`', link, source)
        if source or cell.get('outputs'):
            cells.append({**cell, 'source': source})
    return {**notebook, 'cells': cells}


def write_source(
    folder: Path,  # is filled
    nbs: Path,  # where the notebooks are
) -> None:
    """Fill a folder with what Sphinx reads: conf.py, the notebooks by chapter, and a page for each module."""
    paths = [path.relative_to(nbs) for path in sorted(nbs.rglob('*.ipynb')) if '.ipynb_checkpoints' not in path.parts]
    names = {path.with_suffix('').as_posix() for path in paths}
    (folder / 'api').mkdir(parents=True)
    (folder / 'conf.py').write_text(_CONF)
    for path in paths:
        text = (nbs / path).read_text(encoding='utf-8')
        page = json.dumps(_page(json.loads(text), names, len(path.parts) - 1))
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(page, encoding='utf-8')
        if module := re.search(r'"#\| default_exp ([\w.]+)', text):
            title = f'memnb.{module[1]}'
            taught = f'Taught in :doc:`/{path.with_suffix("").as_posix()}`.'
            lines = f'{title}\n{"=" * len(title)}\n\n{taught}\n\n.. automodule:: {title}\n   :members:\n'
            (folder / 'api' / f'{title}.rst').write_text(lines)
    index = json.loads((folder / 'index.ipynb').read_text())
    for chapter in [*sorted({path.parts[0] for path in paths if len(path.parts) > 1}), 'api']:
        tree = f'```{{toctree}}\n:hidden:\n:glob:\n:caption: {chapter.lstrip("0123456789_")}\n\n{chapter}/*\n```'
        index['cells'].append({'cell_type': 'markdown', 'metadata': {}, 'source': tree})
    (folder / 'index.ipynb').write_text(json.dumps(index))


def build_site(
    out: Path,  # an older site in it is replaced page by page
    nbs: Path,  # where the notebooks are; at the top, index.ipynb
) -> None:
    """Build the site. A RuntimeError with Sphinx's words where it fails."""
    with tempfile.TemporaryDirectory(prefix='memnb-site-') as place:
        write_source(Path(place) / 'source', nbs)
        # myst-nb writes pictures beside the folder of the pages
        arguments = ['-d', f'{place}/trees', f'{place}/source', f'{place}/pages']
        command = [sys.executable, '-m', 'sphinx', '-q', '-j', 'auto', *arguments]
        process = subprocess.run(command, capture_output=True, text=True)
        if process.returncode:
            raise RuntimeError(f'sphinx: {process.stderr.strip()[-500:]}')
        shutil.copytree(f'{place}/pages', out, dirs_exist_ok=True)


if __name__ == '__main__':
    build_site(Path(sys.argv[1]), ROOT / 'nbs')
