"""The widgets in JupyterLab in a real browser, moved by mouse and by keyboard.

One JupyterLab serves one notebook in which every widget stands as a reader would call it, one page runs it from top to bottom, and then
the tests turn what is there. (That the notebooks of the package run without an error is shown where their outputs are made.) Without playwright or Chromium they skip; with MEMNB_BROWSER=required
that is a failure."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).parents[2]
CHROMIUM = shutil.which('chromium') or shutil.which('chromium-browser')
try:
    from playwright.sync_api import expect, sync_playwright
except ImportError:
    sync_playwright = None
MISSING = (
    'playwright is not installed' if sync_playwright is None else 'there is no chromium' if CHROMIUM is None else ''
)
if MISSING and os.environ.get('MEMNB_BROWSER') != 'required':
    pytest.skip(f'no browser: {MISSING}', allow_module_level=True)


SWITCHES = [
    '--no-sandbox',
    '--disable-gpu',
    '--disable-quic',
    '--no-first-run',
    '--disable-background-networking',
    '--disable-component-update',
    '--disable-sync',
    '--disable-dev-shm-usage',
]
SETTINGS = {
    'notebook-extension/tracker': {'windowingMode': 'none'},
    'docmanager-extension/plugin': {'autosave': False},
    'apputils-extension/notification': {'fetchNews': 'false', 'checkForUpdates': False},
}
WIDGETS = {  # name -> the cell that shows it
    'setting': """from memnb.core.roles import RuleLM
from memnb.evaluation.datasets import load_sample
from memnb.evaluation.registry import METHODS
from memnb.views.traces import story_of
from memnb.views.widgets import explore
import ipywidgets

conversation, rules, memr3 = load_sample(), RuleLM(render=True), METHODS['memr3']
trace = memr3.make(memr3.memory.build(conversation, rules), conversation, rules, 25).ask(conversation.questions[1].text)""",
    'trace': '''story = story_of(trace)
step = ipywidgets.IntSlider(len(story), 1, len(story), description='Step')
explore(lambda step: f'<h4>Step {step} of {len(story)}</h4>{story[step - 1][1]}', step=step)''',
    'graph': """from memnb.remem.loop import REMem
from memnb.remem.graph import GistGraph
from memnb.views.graph import graph_explorer

gists = GistGraph.of(conversation)
graph_explorer(gists, REMem(gists).ask('When did Tobin have his first concertina lesson?'))""",
}
PAGES = (  # the tour and the first pages of paths: their figures are looked at
    '0_start/01_tour.ipynb',
    '2_memr3/01_tracker.ipynb',
    '3_remem/01_facts.ipynb',
    '4_mragent/01_contents.ipynb',
)
PATIENCE = 120_000  # milliseconds: the machine may be busy
if not MISSING:
    expect.set_options(timeout=PATIENCE / 2)
READY = """() => { const shown = window.jupyterapp?.shell.currentWidget, kernel = shown?.sessionContext?.session?.kernel
  return kernel?.connectionStatus === 'connected' && kernel.status === 'idle' && shown.content.widgets.length > 0 }"""
DONE = """() => window.jupyterapp.shell.currentWidget.content.widgets.every(
  cell => cell.model.type !== 'code' || !cell.model.sharedModel.getSource().trim() || cell.model.executionCount > 0)"""


def free_port():
    with socket.socket() as one:
        one.bind(('127.0.0.1', 0))
        return one.getsockname()[1]


def wait_for(url, process, seconds=90):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert process.poll() is None, 'the server ended'
        try:
            return urllib.request.urlopen(url, timeout=2).close()
        except OSError:
            time.sleep(0.1)
    raise TimeoutError(url)


def figures_of_pages(metadata):
    """A notebook of those cells of PAGES that show figures with a description, with their outputs as they are committed."""
    cells = []
    for name in PAGES:
        page = nbformat.read(ROOT / 'nbs' / name, as_version=4)
        drawn = [cell for cell in page.cells if ' alt=' in json.dumps(cell.get('outputs', ()))]
        assert drawn, name
        cells += drawn
    for number, cell in enumerate(cells):
        cell.id = f'figure-{number}'
    return nbformat.v4.new_notebook(cells=cells, metadata=metadata)


@pytest.fixture(scope='module')
def lab(tmp_path_factory):
    """The address of a JupyterLab of our own, with its own settings, on the loopback."""
    folder, port = tmp_path_factory.mktemp('jupyter'), free_port()
    work = folder / 'work'
    work.mkdir()
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in WIDGETS.values()])
    notebook.metadata.kernelspec = {'name': 'python3', 'display_name': 'Python 3', 'language': 'python'}
    nbformat.write(notebook, work / 'widgets.ipynb')
    nbformat.write(figures_of_pages(notebook.metadata), work / 'figures.ipynb')
    for name, value in SETTINGS.items():
        path = folder / 'config/lab/user-settings/@jupyterlab' / f'{name}.jupyterlab-settings'
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value))
    environment = os.environ | {
        'JUPYTER_CONFIG_DIR': f'{folder}/config',
        'JUPYTER_DATA_DIR': f'{folder}/data',
        'JUPYTER_RUNTIME_DIR': f'{folder}/run',
        'IPYTHONDIR': f'{folder}/ipython',
        'IN_TEST': '1',
        'PYTHONPATH': str(ROOT),
    }
    command = [
        sys.executable,
        '-m',
        'jupyterlab',
        '--no-browser',
        '--allow-root',
        '--ip=127.0.0.1',
        f'--port={port}',
        f'--ServerApp.root_dir={work}',
        '--IdentityProvider.token=',
        '--LabApp.expose_app_in_browser=True',
        '--LabApp.extension_manager=readonly',
    ]
    with open(folder / 'log', 'w') as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT)
    try:
        wait_for(f'http://127.0.0.1:{port}/api', process)
        yield f'http://127.0.0.1:{port}'
    finally:
        process.terminate()
        process.wait(20)


@pytest.fixture(scope='module')
def page(lab):
    """The notebook, opened and run without an error; a page that asks for something from elsewhere fails the last test."""
    assert not MISSING, MISSING
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=SWITCHES)
        opened, outside = browser.new_page(viewport={'width': 1280, 'height': 900}), []
        opened.on(
            'request',
            lambda request: (
                request.url.startswith((lab, lab.replace('http', 'ws'), 'data:', 'blob:'))
                or outside.append(request.url)
            ),
        )
        opened.set_default_timeout(PATIENCE)
        opened.goto(f'{lab}/doc/workspaces/one/tree/widgets.ipynb', wait_until='commit')
        opened.wait_for_function(READY)
        opened.evaluate("() => { window.jupyterapp.commands.execute('notebook:run-all-cells') }")
        opened.wait_for_function(DONE)
        assert (
            opened.locator(
                '.jp-OutputArea-output[data-mime-type*="error"], .jp-OutputArea-output[data-mime-type*="stderr"]'
            ).count()
            == 0
        )
        yield opened
        browser.close()
        assert outside == []


@pytest.fixture
def widget(page):
    """The output of the cell of a name."""

    def found(name):
        output = (
            page.locator('.jp-CodeCell')
            .nth(list(WIDGETS).index(name))
            .locator('.jp-OutputArea-output:not(.lm-mod-hidden)')
        )
        output.scroll_into_view_if_needed()
        return output

    return found


def slide(widget, label, key, times=1):
    """Move the slider with this label by the keyboard."""
    handle = widget.locator('.widget-slider', has_text=label).locator('.noUi-handle').first
    handle.focus()
    for _ in range(times):
        handle.press(key)


def choose(widget, label, option):
    widget.locator('.widget-dropdown', has_text=label).locator('select').select_option(label=option)


def test_a_trace_is_stepped_through(widget):
    story = widget('trace')
    last = int(story.locator('.widget-readout').inner_text())
    expect(story.locator('h4')).to_contain_text(f'Step {last} of {last}')
    slide(story, 'Step', 'ArrowLeft', 2)
    expect(story.locator('h4')).to_contain_text(f'Step {last - 2} of')
    slide(story, 'Step', 'End')
    expect(story.locator('h4')).to_contain_text(f'Step {last} of')


def test_the_graph_explorer_draws_a_session_and_refuses_a_crowd(widget):
    board = widget('graph')
    expect(board.locator('img')).to_be_visible()
    choose(board, 'Session', 'D3')
    choose(board, 'Node', 'phrase: tobin')
    expect(board).to_contain_text('nodes are too many to be read')
    choose(board, 'Node', 'none')
    expect(board.locator('img')).to_be_visible()


LAID_OUT = """() => [...document.querySelectorAll('.jp-OutputArea-output img[alt]')].filter(image => image.alt).map(image => {
  const box = image.getBoundingClientRect(), cell = image.closest('.jp-OutputArea-output').getBoundingClientRect()
  const canvas = Object.assign(document.createElement('canvas'), {width: image.naturalWidth, height: image.naturalHeight})
  const pen = canvas.getContext('2d')
  pen.drawImage(image, 0, 0)
  return {alt: image.alt, inside: box.left >= cell.left && box.right <= cell.right + 1, shown: box.width / image.naturalWidth,
          width: box.width, corner: [...pen.getImageData(2, 2, 1, 1).data]} })"""
THEME = "name => window.jupyterapp.commands.execute('apputils:change-theme', {theme: name})"
THEMED = "dark => document.body.dataset.jpThemeLight === String(!dark)"


def test_figures_of_pages_are_whole_on_a_wide_and_a_narrow_screen_light_and_dark(page, lab):
    """As they are committed, without a run: each inside its cell, described in words, on white, and no smaller than a half."""
    opened = page.context.browser.new_page()
    opened.set_default_timeout(PATIENCE)
    opened.goto(f'{lab}/doc/workspaces/figures/tree/figures.ipynb', wait_until='commit')
    opened.wait_for_function(READY)
    opened.wait_for_function(
        'least => document.querySelectorAll(".jp-OutputArea-output img[alt]").length >= least', arg=len(PAGES) + 2
    )
    for dark in (False, True):
        opened.evaluate(THEME, 'JupyterLab Dark' if dark else 'JupyterLab Light')
        opened.wait_for_function(THEMED, arg=dark)
        for width in (1280, 800):
            opened.set_viewport_size({'width': width, 'height': 900})
            opened.wait_for_timeout(300)
            figures = opened.evaluate(LAID_OUT)
            assert len(figures) >= len(PAGES) + 2  # three of them in the tour
            for figure in figures:
                assert figure['inside'] and figure['shown'] <= 1 and figure['width'] > 0.4 * width, figure
                assert len(figure['alt'].split()) >= 4 and figure['corner'] == [255, 255, 255, 255], figure
    opened.close()
