"""The widgets as a reader has them: JupyterLab in a real browser, turned by mouse and by keyboard.

One JupyterLab serves a copy of the notebooks; every notebook with something to turn is opened and run from top to bottom in a page of
its own, all at the same time, and then the tests turn what is there. Without playwright or Chromium they skip; with MEMNB_BROWSER=required
that is a failure. The screenshots go into the test's own temporary folder, or into MEMNB_SCREENSHOTS."""
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

NBS = Path(__file__).parent.parent / 'nbs'
CHROMIUM = shutil.which('chromium') or shutil.which('chromium-browser')
try:
    from playwright.sync_api import expect, sync_playwright
except ImportError:
    sync_playwright = None
MISSING = 'playwright is not installed' if sync_playwright is None else 'there is no chromium' if CHROMIUM is None else ''
if MISSING and os.environ.get('MEMNB_BROWSER') != 'required':
    pytest.skip(f'no browser: {MISSING}', allow_module_level=True)
pytestmark = pytest.mark.xdist_group('lab')  # one worker, one JupyterLab

SWITCHES = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
            '--disable-component-update', '--disable-sync', '--disable-dev-shm-usage']
SETTINGS = {'notebook-extension/tracker': {'windowingMode': 'none'}, 'docmanager-extension/plugin': {'autosave': False},
            'apputils-extension/notification': {'fetchNews': 'false', 'checkForUpdates': False}}
TURNED = ['60_widgets', '60a_tracker_board', '60b_router_explorer', '32a_separation_picture']
PATIENCE = 120_000  # milliseconds: the machine may be busy
if not MISSING:
    expect.set_options(timeout=PATIENCE / 2)
READY = """() => { const shown = window.jupyterapp?.shell.currentWidget, kernel = shown?.sessionContext?.session?.kernel
  return kernel?.connectionStatus === 'connected' && kernel.status === 'idle' && shown.content.widgets.length > 0 }"""
DONE = """() => window.jupyterapp.shell.currentWidget.content.widgets.every(
  cell => cell.model.type !== 'code' || !cell.model.sharedModel.getSource().trim() || cell.model.executionCount > 0)"""
THEME = """async theme => { await window.jupyterapp.commands.execute('apputils:change-theme', {theme}) }"""


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
            time.sleep(.1)
    raise TimeoutError(url)


@pytest.fixture(scope='session')
def lab(tmp_path_factory):
    """The address of a JupyterLab of our own, with its own settings, on the loopback."""
    folder, port = tmp_path_factory.mktemp('jupyter'), free_port()
    work = folder / 'nbs'
    work.mkdir()
    for path in NBS.glob('*.ipynb'):
        shutil.copy(path, work)
    for name, value in SETTINGS.items():
        path = folder / 'config/lab/user-settings/@jupyterlab' / f'{name}.jupyterlab-settings'
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value))
    environment = os.environ | {'JUPYTER_CONFIG_DIR': f'{folder}/config', 'JUPYTER_DATA_DIR': f'{folder}/data',
                                'JUPYTER_RUNTIME_DIR': f'{folder}/run', 'IPYTHONDIR': f'{folder}/ipython', 'IN_TEST': '1',
                                'PYTHONPATH': str(NBS.parent)}
    command = [sys.executable, '-m', 'jupyterlab', '--no-browser', '--allow-root', '--ip=127.0.0.1', f'--port={port}',
               f'--ServerApp.root_dir={work}', '--IdentityProvider.token=', '--LabApp.expose_app_in_browser=True',
               '--LabApp.extension_manager=readonly']
    with open(folder / 'log', 'w') as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT)
    try:
        wait_for(f'http://127.0.0.1:{port}/api', process)
        yield f'http://127.0.0.1:{port}'
    finally:
        process.terminate()
        process.wait(20)


@pytest.fixture(scope='session')
def pages(lab):
    """A page for each notebook, opened and running; what leaves the loopback is refused and fails the test that sees it."""
    assert not MISSING, MISSING
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=SWITCHES)
        context = browser.new_context(viewport={'width': 1280, 'height': 900})
        outside = []
        context.route(lambda url: not url.startswith((lab, 'data:', 'blob:')), lambda route: (outside.append(route.request.url), route.abort()))
        opened = {}
        for name in TURNED:
            opened[name] = page = context.new_page()
            page.set_default_timeout(PATIENCE)
            page.goto(f'{lab}/doc/workspaces/{name}/tree/{name}.ipynb', wait_until='commit')
        for page in opened.values():
            page.wait_for_function(READY)
            page.evaluate("() => { window.jupyterapp.commands.execute('notebook:run-all-cells') }")
        yield opened
        browser.close()
        assert outside == []


@pytest.fixture
def opened(pages):
    """The page of a notebook, when every cell has run and none has failed."""
    def ready(name):
        page = pages[name]
        page.bring_to_front()
        page.wait_for_function(DONE)
        assert page.locator('[data-mime-type="application/vnd.jupyter.stderr"], .jp-OutputArea-output.jp-RenderedText[data-mime-type*="error"]').count() == 0
        return page
    return ready


@pytest.fixture(scope='session')
def shots(tmp_path_factory):
    return Path(os.environ.get('MEMNB_SCREENSHOTS') or tmp_path_factory.mktemp('screenshots'))


def picture(page, part, path):
    """A screenshot of a part of a page; with MEMNB_SCREENSHOTS, which is for people, in both themes and at two widths."""
    for width, theme in ((1280, 'Dark'), (1280, 'Light'), (800, 'Light'), (800, 'Dark')) if os.environ.get('MEMNB_SCREENSHOTS') else ((1280, 'Light'),):
        page.set_viewport_size({'width': width, 'height': 900})
        page.evaluate(THEME, f'JupyterLab {theme}')
        part.scroll_into_view_if_needed()
        part.screenshot(path=f'{path}-{width}-{theme.lower()}.png')
    page.evaluate(THEME, 'JupyterLab Light')
    page.set_viewport_size({'width': 1280, 'height': 900})


def test_a_trace_is_stepped_through_by_keys_and_by_mouse(opened, shots):
    page = opened('60_widgets')
    story = page.locator('.memnb-story').first
    told = story.locator('output')
    expect(told).to_have_text(re.compile(r'3 of \d+'))
    last = int(told.inner_text().split()[-1])
    expect(story.locator(':scope > section:visible')).to_have_count(1)
    story.focus()
    page.keyboard.press('ArrowRight')
    expect(told).to_have_text(f'4 of {last}')
    page.keyboard.press('ArrowLeft')
    page.keyboard.press('Home')
    expect(told).to_have_text(f'1 of {last}')
    expect(story.get_by_role('button', name='Back')).to_be_disabled()
    story.get_by_role('button', name='Forward').click()
    expect(told).to_have_text(f'2 of {last}')
    expect(story.locator(':scope > section:visible')).to_contain_text('gained')
    story.locator('section:visible summary').first.click()
    story.get_by_role('slider').press('End')
    expect(told).to_have_text(f'{last} of {last}')
    expect(story.get_by_role('button', name='Forward')).to_be_disabled()
    page.keyboard.press('Home')
    story.get_by_role('button', name='Forward').click()
    picture(page, story, shots / 'trace')


def test_a_trace_plays_and_pauses(opened):
    page = opened('60_widgets')
    story = page.locator('.memnb-story').first
    told = story.locator('output')
    story.focus()
    page.keyboard.press('Home')
    story.get_by_role('button', name='Play').press('Enter')
    expect(told).to_have_text(re.compile('^2 of'))
    story.get_by_role('button', name='Pause').click()
    expect(story.get_by_role('button', name='Play')).to_have_attribute('aria-pressed', 'false')
    here = told.inner_text()
    page.wait_for_timeout(1_800)
    expect(told).to_have_text(here)


def test_a_board_answers_mouse_and_keys_and_says_what_it_refuses(opened):
    page = opened('60_widgets')
    board = page.locator('.memnb-board').first
    count = board.locator('output')
    before = int(count.inner_text())
    board.get_by_role('button', name='Less').click()
    expect(count).to_have_text(str(before - 1))
    more = board.get_by_role('button', name='More')
    more.focus()
    for _ in range(4 - before):
        page.keyboard.press('Enter')
    expect(count).to_have_text('3')
    page.keyboard.press('Enter')
    expect(board.get_by_role('alert')).to_contain_text('this one counts to three')
    expect(more).to_be_focused()


def slide(slider, key, times=1):
    slider.focus()
    for _ in range(times):
        slider.press(key)


def test_the_tracker_board_goes_through_its_states_and_opens_a_turn(opened, shots):
    page = opened('60a_tracker_board')
    board = page.locator('.memnb-board').first
    slide(board.get_by_role('slider', name='State'), 'Home')
    expect(board).to_contain_text('Evidence, round 1')
    slide(board.get_by_role('slider', name='State'), 'ArrowRight', 2)
    expect(board).to_contain_text('Evidence, round 3')
    expect(board.get_by_role('slider', name='State')).to_be_focused()
    board.locator('thead').get_by_role('button', name='2').click()
    expect(board).to_contain_text('Evidence, round 2')
    if 'What was said' in board.inner_text():
        board.get_by_role('button', name='D14:3').click()
    expect(board).not_to_contain_text('What was said')
    board.get_by_role('button', name='D14:3').press('Enter')
    expect(board.locator('li[aria-current]')).to_contain_text('Sixty-one people')
    picture(page, board, shots / 'tracker')


def test_the_router_explorer_decides_and_marks_its_cell(opened, shots):
    page = opened('60b_router_explorer')
    board = page.locator('.memnb-board').first
    slide(board.get_by_role('slider', name='Iteration'), 'Home')
    slide(board.get_by_role('slider', name='Reflections'), 'Home')
    board.get_by_role('combobox').select_option('answer')
    came = board.get_by_role('checkbox', name='snippets came back')
    came.check()
    expect(board.locator('.answer')).to_have_text('answer')
    expect(board).to_contain_text('as proposed')
    came.press('Space')
    expect(board.locator('.answer')).to_have_text('reflect')
    slide(board.get_by_role('slider', name='Iteration'), 'ArrowRight', 4)
    expect(board.locator('.answer')).to_have_text('answer')
    expect(board).to_contain_text('the budget is spent')
    expect(board.locator('td.here')).to_have_attribute('data-value', '5 0 0')
    board.locator('td[data-value="3 1 1"]').click()
    expect(board).to_contain_text('the cap is reached')
    slider = board.get_by_role('slider', name='Budget')
    box = slider.bounding_box()
    page.mouse.move(box['x'] + box['width'] / 2, box['y'] + box['height'] / 2)
    page.mouse.down()
    page.mouse.move(box['x'] + 4, box['y'] + box['height'] / 2, steps=5)
    page.mouse.up()
    expect(board).to_contain_text('iteration 3 of 1')
    slide(slider, 'ArrowRight', 5)
    expect(board).to_contain_text('the cap is reached')
    picture(page, board, shots / 'router')


def test_the_separation_lab_redraws_its_curves(opened, shots):
    page = opened('32a_separation_picture')
    lab = page.locator('.memnb-separation').first
    words, curve = lab.locator('[data-slot=sentence]'), lab.locator('[data-slot=active]')
    lab.get_by_role('combobox', name='Labels').select_option('a fair coin, other leaves blank')
    depth = lab.get_by_role('slider')
    slide(depth, 'Home')
    expect(words).to_contain_text('Depth 1, 2 ways out')
    before = curve.get_attribute('points')
    slide(depth, 'ArrowRight', 3)
    expect(words).to_contain_text('Depth 4, 2 ways out')
    assert curve.get_attribute('points') != before
    lab.get_by_role('combobox', name='Ways out').select_option('3')
    expect(words).to_contain_text('3 ways out')
    picture(page, lab, shots / 'separation')
