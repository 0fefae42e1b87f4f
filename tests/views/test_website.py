"""The site: built for real from a few notebooks, its links checked, and read in a browser that may load nothing from elsewhere."""
import json
import re
import shutil
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from memnb.cli import Failure
from memnb.views.site import build_site, linked, mathml, plain_docstring, site_faults, wing_of, WINGS

NBS = Path(__file__).parents[2] / 'nbs'
NAMES = sorted(path.stem for path in NBS.glob('*.ipynb') if path.stem != 'index')
BUILT = ['03c_pages', '04_trace', '10_ideal']





@pytest.fixture(scope='module')
def site(tmp_path_factory):
    pytest.importorskip('myst_nb')
    folder = tmp_path_factory.mktemp('site')
    assert build_site(folder, NBS, BUILT) == []
    return folder


def test_the_site_has_a_page_for_each_notebook_and_module_and_no_dead_link(site):
    pages = {path.relative_to(site).as_posix() for path in site.rglob('*.html')}
    assert {'index.html', *(f'{name}.html' for name in BUILT), 'api/pages.html', 'api/trace.html', 'api/ideal.html'} <= pages
    ideal = (site / '10_ideal.html').read_text()
    assert '<math' in ideal and '\\mathcal' not in re.sub(r'<title>.*?</title>', '', ideal) and '<img' in ideal
    assert 'href="03c_pages.html"' in (site / '04_trace.html').read_text()
    assert 'the place of the moment that is shown first' in (site / 'api/pages.html').read_text()  # a comment beside a parameter


def test_a_link_that_is_broken_afterwards_is_a_fault(site, tmp_path):
    shutil.copytree(site, tmp_path / 'site')
    (tmp_path / 'site/api/pages.html').unlink()
    faults = site_faults(tmp_path / 'site')
    assert faults and all('api/pages.html' in fault or 'pages.html' in fault for fault in faults)
    page = tmp_path / 'site/index.html'
    page.write_text(page.read_text().replace('</body>', '<script src="https://elsewhere.example/x.js"></script></body>'))
    assert 'index.html: loads https://elsewhere.example/x.js from elsewhere' in site_faults(tmp_path / 'site')


def test_a_story_moves_on_the_page_and_the_page_loads_nothing_from_elsewhere(site):
    playwright, browser = pytest.importorskip('playwright.sync_api'), shutil.which('chromium')
    if browser is None:
        pytest.skip('no browser: there is no chromium')
    asked = []
    with playwright.sync_playwright() as driver:
        page = driver.chromium.launch(executable_path=browser, args=['--no-sandbox', '--disable-gpu']).new_page()
        page.on('request', lambda request: asked.append(request.url))
        page.goto(f'{site.as_uri()}/04_trace.html')
        story = page.locator('.memnb-story').first
        story.focus()
        page.keyboard.press('Home')
        page.keyboard.press('ArrowRight')
        playwright.expect(story.locator('output')).to_have_text(re.compile('^2 of'))
        playwright.expect(story.locator(':scope > section:visible')).to_have_count(1)
    assert asked and all(url.startswith(('file:', 'data:')) for url in asked)


def test_every_notebook_has_a_wing_in_the_order_of_the_files():
    wings = [wing_of(name) for name in NAMES]
    assert list(dict.fromkeys(wings)) == list(WINGS)


def test_every_formula_of_every_notebook_can_be_shown():
    pytest.importorskip('latex2mathml')
    shown = 0
    for name in NAMES:
        for cell in json.loads((NBS / f'{name}.ipynb').read_text(encoding='utf-8'))['cells']:
            if cell['cell_type'] == 'markdown':
                text = re.sub(r'```.*?```|`[^`]*`', '', ''.join(cell['source']), flags=re.DOTALL)
                for block, inline in re.findall(r'\$\$(.*?)\$\$|\$([^$\n]+)\$', text, flags=re.DOTALL):
                    assert mathml((block or inline).strip(), bool(block)).startswith('<math'), name
                    shown += 1
    assert shown > 400


TEXTS = st.lists(st.sampled_from(['`11_router`', '11_router', '`route`', ' ', '[`11_router`](11_router.ipynb)', '[', ']', '`', 'word', '\n'])).map(''.join)


@given(TEXTS)
def test_linking_twice_is_linking_once_and_adds_links_only(text):
    once = linked(text, ['11_router'])
    assert linked(once, ['11_router']) == once
    assert re.sub(r'\[(`11_router`)\]\(11_router\.ipynb\)', r'\1', once) == re.sub(r'\[(`11_router`)\]\(11_router\.ipynb\)', r'\1', text)


@given(st.text(st.sampled_from('ab *|_\\.'), max_size=12))
def test_a_docstring_without_backticks_reads_as_it_was(text):
    pytest.importorskip('docutils')
    from docutils.core import publish_doctree
    shown = publish_doctree('word ' + plain_docstring([text])[0], settings_overrides={'report_level': 5}).astext()
    assert shown.split() == ['word', *text.split()]


def test_what_cannot_be_built_is_said_in_a_line(tmp_path, monkeypatch):
    with pytest.raises(Failure, match='expected names of notebooks in nbs, got 99_none'):
        build_site(tmp_path, NBS, ['99_none'])
    monkeypatch.setattr('importlib.util.find_spec', lambda name: None if name == 'furo' else True)
    with pytest.raises(Failure, match=r"furo not installed; this installs what the site needs: pip install 'memnb\[docs\]'"):
        build_site(tmp_path, NBS)
