"""The site: built for real from a few notebooks, every local link followed, and nothing loaded from elsewhere."""

import json
import re
import runpy
import shutil
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest

ROOT = Path(__file__).parents[2]
NBS = ROOT / 'nbs'
WEBSITE = runpy.run_path(str(ROOT / '.ci' / 'website.py'))
CHAPTERS = ('8_use/06_graph_explorer', '8_use/07_cli')


class Links(HTMLParser):
    """The links, anchors and loaded files of a page."""

    def __init__(self, text):
        super().__init__()
        self.links, self.loads, self.anchors = [], [], {''}
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.anchors |= {given[name] for name in ('id', 'name') if given.get(name)}
        if tag == 'a' and given.get('href'):
            self.links.append(given['href'])
        elif tag == 'link' and given.get('rel') not in ('canonical', 'search', 'next', 'prev', 'index', 'author'):
            self.loads.append(given.get('href') or '')
        elif given.get('src'):
            self.loads.append(given['src'])


def faults_of(folder):
    """Local links that lead nowhere, and files that are loaded from elsewhere."""
    pages = {path: Links(path.read_text(encoding='utf-8')) for path in folder.rglob('*.html')}
    for path, page in pages.items():
        for url in page.loads:
            if re.match(r'(https?:)?//', url):
                yield f'{path.name} loads {url}'
        for url in page.links + page.loads:
            if re.match(r'[a-z]+:|//', url):
                continue
            file, anchor = urldefrag(url)
            target = (path.parent / unquote(file.split('?')[0])).resolve() if file.split('?')[0] else path
            target = target / 'index.html' if target.is_dir() else target
            if not target.exists() or anchor and target in pages and unquote(anchor) not in pages[target].anchors:
                yield f'{path.relative_to(folder)}: {url} leads nowhere'


@pytest.fixture(scope='module')
def site(tmp_path_factory):
    pytest.importorskip('myst_nb')
    nbs, out = tmp_path_factory.mktemp('nbs'), tmp_path_factory.mktemp('own').resolve() / 'site'
    for name in CHAPTERS:
        (nbs / name).parent.mkdir(exist_ok=True)
        shutil.copy(NBS / f'{name}.ipynb', nbs / f'{name}.ipynb')
    page = {'cell_type': 'markdown', 'metadata': {}, 'source': '# memnb\n\nSee `8_use/07_cli`, and $E_k \\subseteq E$.'}
    hidden = {
        'cell_type': 'code',
        'metadata': {},
        'outputs': [],
        'execution_count': None,
        'source': '#| hide\nsecret = 1',
    }
    (nbs / 'index.ipynb').write_text(
        json.dumps({'cells': [page, hidden], 'metadata': {}, 'nbformat': 4, 'nbformat_minor': 5})
    )
    WEBSITE['build_site'](out, nbs)
    return out


def test_the_site_has_a_page_for_each_notebook_and_module_and_no_dead_link(site):
    pages = {path.relative_to(site).as_posix() for path in site.rglob('*.html')}
    assert {
        'index.html',
        *(f'{name}.html' for name in CHAPTERS),
        'api/memnb.cli.html',
        'api/memnb.views.graph.html',
    } <= pages
    assert list(faults_of(site)) == []
    assert [path.name for path in site.parent.iterdir() if path.name != 'site'] == []
    index = (site / 'index.html').read_text()
    assert 'href="8_use/07_cli.html"' in index and '<math' in index and 'secret' not in index
    captions = re.findall('class="caption-text">(.*?)<', index)
    assert captions and all(name.isalpha() for name in captions)
    assert 'nodes to highlight' in (site / 'api/memnb.views.graph.html').read_text()  # a comment beside a parameter


def test_every_formula_of_every_notebook_can_be_shown():
    pytest.importorskip('latex2mathml')
    for path in NBS.rglob('*.ipynb'):
        for cell in json.loads(path.read_text(encoding='utf-8'))['cells']:
            if cell['cell_type'] == 'markdown':
                text = re.sub(r'```.*?```|`[^`]*`', '', ''.join(cell['source']), flags=re.DOTALL)
                for block, inline in re.findall(r'\$\$(.*?)\$\$|\$([^$\n]+)\$', text, flags=re.DOTALL):
                    assert WEBSITE['_mathml']((block or inline).strip(), bool(block)).startswith('<math'), path.name
