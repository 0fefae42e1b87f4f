"""The widgets as a reader has them: JupyterLab in a real browser, turned by mouse and by keyboard.

One JupyterLab serves one notebook in which every widget stands as a reader would call it, one page runs it from top to bottom, and then
the tests turn what is there. (That the notebooks of the package run without an error is shown where their outputs are made.) Without playwright or Chromium they skip; with MEMNB_BROWSER=required
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

import nbformat
import pytest

ROOT = Path(__file__).parents[2]
CHROMIUM = shutil.which('chromium') or shutil.which('chromium-browser')
try:
    from playwright.sync_api import expect, sync_playwright
except ImportError:
    sync_playwright = None
MISSING = 'playwright is not installed' if sync_playwright is None else 'there is no chromium' if CHROMIUM is None else ''
if MISSING and os.environ.get('MEMNB_BROWSER') != 'required':
    pytest.skip(f'no browser: {MISSING}', allow_module_level=True)


SWITCHES = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
            '--disable-component-update', '--disable-sync', '--disable-dev-shm-usage']
SETTINGS = {'notebook-extension/tracker': {'windowingMode': 'none'}, 'docmanager-extension/plugin': {'autosave': False},
            'apputils-extension/notification': {'fetchNews': 'false', 'checkForUpdates': False}}
WIDGETS = {  # name -> the cell that shows it
    'setting': """from memnb.evaluation.datasets import load_sample
from memnb.core.roles import RuleLM
from memnb.evaluation.registry import METHODS
from memnb.core.trace import framed
from memnb.views.widgets import bar, Board, button, TraceView

conversation, rules, memr3 = load_sample(), RuleLM(render=True), METHODS['memr3']
trace = memr3.loop(memr3.memory.build(conversation, rules), conversation, rules, 25).ask(conversation.questions[1].text)""",
    'counter': """def count(state, name, value):
    if name == 'more' and state == 3:
        raise ValueError('this one counts to three')
    return state + {'more': 1, 'less': -1}[name]


Board(2, lambda state: bar(button('Less', 'less', disabled=state == 0), f'<output>{state}</output>', button('More', 'more')), count)""",
    'trace': 'TraceView(trace, at=2)',
    'itself': 'trace',
    'tracker': """from memnb.views.widgets import tracker_board

tracker_board(trace, conversation)""",
    'router': """from memnb.views.widgets import router_explorer

router_explorer()""",
    'graph': """from memnb.remem.tools import GistGraph
from memnb.views.graph import graph_explorer
from memnb.remem.loop import REMem

gists = METHODS['remem'].memory.build(conversation, RuleLM())
walk = REMem(gists).ask('When did Tobin have his first concertina lesson?')
graph_explorer(gists, walk, conversation=conversation).send('part', '2').send('kind-phrase', 'false').send('node', 'fact:D1/f15')""",
    'probes': """from memnb.views.widgets import probe_board

probe_board(conversation, 4, [conversation.questions[6], conversation.questions[32]])""",
    'compare': """from memnb.views.widgets import compare_board

compare_board(conversation, [conversation.questions[place] for place in (1, 0)], ('rag', 'memr3', 'full-context'))""",
    'separation': """from IPython.display import HTML
from memnb.views.widgets import all_curves, separation_html

HTML(separation_html(all_curves(deepest=4, labelled=2)))""",
}
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
    work = folder / 'work'
    work.mkdir()
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in WIDGETS.values()])
    notebook.metadata.kernelspec = {'name': 'python3', 'display_name': 'Python 3', 'language': 'python'}
    nbformat.write(notebook, work / 'widgets.ipynb')
    for name, value in SETTINGS.items():
        path = folder / 'config/lab/user-settings/@jupyterlab' / f'{name}.jupyterlab-settings'
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value))
    environment = os.environ | {'JUPYTER_CONFIG_DIR': f'{folder}/config', 'JUPYTER_DATA_DIR': f'{folder}/data',
                                'JUPYTER_RUNTIME_DIR': f'{folder}/run', 'IPYTHONDIR': f'{folder}/ipython', 'IN_TEST': '1',
                                'PYTHONPATH': str(ROOT)}
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
def page(lab):
    """The notebook, opened and run without an error; a page that asks for something from elsewhere fails the last test."""
    assert not MISSING, MISSING
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=SWITCHES)
        opened, outside = browser.new_page(viewport={'width': 1280, 'height': 900}), []
        opened.on('request', lambda request: request.url.startswith((lab, lab.replace('http', 'ws'), 'data:', 'blob:')) or outside.append(request.url))
        opened.set_default_timeout(PATIENCE)
        opened.goto(f'{lab}/doc/workspaces/one/tree/widgets.ipynb', wait_until='commit')
        opened.wait_for_function(READY)
        opened.evaluate("() => { window.jupyterapp.commands.execute('notebook:run-all-cells') }")
        opened.wait_for_function(DONE)
        assert opened.locator('.jp-OutputArea-output[data-mime-type*="error"], .jp-OutputArea-output[data-mime-type*="stderr"]').count() == 0
        yield opened
        browser.close()
        assert outside == []


@pytest.fixture
def widget(page):
    """The output of the cell of a name."""
    def found(name):
        output = page.locator('.jp-CodeCell').nth(list(WIDGETS).index(name)).locator('.jp-OutputArea-output')
        output.scroll_into_view_if_needed()
        return output
    return found


@pytest.fixture(scope='session')
def shots(tmp_path_factory):
    return Path(os.environ.get('MEMNB_SCREENSHOTS') or tmp_path_factory.mktemp('screenshots'))


def picture(page, part, path):
    """A screenshot of a part of a page; with MEMNB_SCREENSHOTS, which is for people, in both themes and at two widths."""
    for width, theme in ((1280, 'Dark'), (1280, 'Light'), (800, 'Light'), (800, 'Dark')) if os.environ.get('MEMNB_SCREENSHOTS') else ((1280, 'Light'),):
        page.set_viewport_size({'width': width, 'height': 1900})
        page.evaluate(THEME, f'JupyterLab {theme}')
        part.scroll_into_view_if_needed()
        part.screenshot(path=f'{path}-{width}-{theme.lower()}.png')
    page.evaluate(THEME, 'JupyterLab Light')
    page.set_viewport_size({'width': 1280, 'height': 900})


def test_a_trace_is_stepped_through_by_keys_and_by_mouse(page, widget, shots):
    story = widget('trace').locator('.memnb-story')
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


def test_a_trace_shows_itself_as_a_story_from_the_beginning(widget):
    story = widget('itself').locator('.memnb-story')
    expect(story.locator('output')).to_have_text(re.compile('^1 of'))
    expect(widget('itself')).to_contain_text('61')


def test_a_trace_plays_and_pauses(page, widget):
    story = widget('trace').locator('.memnb-story')
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


def test_a_board_answers_mouse_and_keys_and_says_what_it_refuses(page, widget):
    board = widget('counter').locator('.memnb-board')
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


def test_the_tracker_board_goes_through_its_states_and_opens_a_turn(page, widget, shots):
    board = widget('tracker').locator('.memnb-board')
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


def test_the_router_explorer_decides_and_marks_its_cell(page, widget, shots):
    board = widget('router').locator('.memnb-board')
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


def test_the_separation_lab_redraws_its_curves(page, widget, shots):
    lab = widget('separation').locator('.memnb-separation')
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


def test_the_graph_explorer_opens_nodes_and_refuses_a_crowd(page, widget, shots):
    board = widget('graph').locator('.memnb-board')
    nodes, tobin = board.locator('g[data-event=node]'), board.locator('g[data-value="phrase:tobin"]')
    expect(board.locator('#said')).to_contain_text('nodes and')
    before = nodes.count()
    tobin.click()
    expect(tobin).to_have_attribute('aria-expanded', 'true')
    assert nodes.count() > before
    expect(board.locator('aside')).to_contain_text('Tobin')
    picture(page, board, shots / 'graph')
    tobin.press('Enter')
    expect(tobin).to_have_attribute('aria-expanded', 'false')
    expect(nodes).to_have_count(before)
    board.get_by_role('combobox', name='Session').select_option('')
    expect(board.locator('#too-many')).to_contain_text('nodes are too many to be read')
    board.locator('#too-many').get_by_role('button').first.press('Enter')
    expect(board.locator('svg.graph, #explorer svg').first).to_be_visible()
    board.get_by_role('checkbox', name='Only the walk').check()
    expect(board.locator('g.walked').first).to_be_visible()
    expect(board.locator('g[data-event=node]:not(.walked)')).to_have_count(0)
    board.get_by_role('checkbox', name='Only the walk').press('Space')
    expect(board.locator('g[data-event=node]:not(.walked)').first).to_be_visible()


def test_the_probe_board_accepts_a_repair_and_a_later_answer_changes(page, widget, shots):
    board = widget('probes').locator('.memnb-board')
    board.get_by_role('button', name='Reject all').click()
    expect(board.locator('.answer')).to_contain_text('with 0 of 4 repairs accepted')
    later = board.locator('#later')
    board.get_by_role('combobox', name='Question').select_option(label='When did Tobin run the Millrace Half Marathon?')
    expect(later.locator('dl > div').last).to_contain_text('✗ wrong')
    board.locator('#accept-2').press('Enter')
    expect(board.locator('.answer')).to_contain_text('3 with 1 of 4 repairs accepted')
    expect(later.locator('dl > div').last).to_contain_text('✓ right')
    board.locator('#reject-2').click()
    expect(later.locator('dl > div').last).to_contain_text('✗ wrong')
    board.get_by_role('button', name='Accept all').click()
    expect(board.locator('.answer')).to_contain_text('with 4 of 4 repairs accepted')
    slide(board.get_by_role('slider', name='Which entries'), 'ArrowRight')
    expect(board.locator('.answer')).not_to_contain_text('with 4 of 4 repairs accepted')
    slide(board.get_by_role('slider', name='Which entries'), 'ArrowLeft')
    picture(page, board, shots / 'probes')


def test_methods_are_compared_and_opened(page, widget, shots):
    board = widget('compare').locator('.memnb-board')
    expect(board.locator('#row-rag')).to_contain_text('✗ wrong')
    board.locator('#row-memr3').get_by_role('button').click()
    expect(board.locator('#run')).to_contain_text('How memr3 got there: step 1 of')
    board.get_by_role('button', name='Forward').press('Enter')
    expect(board.locator('#run')).to_contain_text('step 2 of')
    slide(board.get_by_role('slider', name='Step'), 'End')
    expect(board.get_by_role('button', name='Forward')).to_be_disabled()
    slide(board.get_by_role('slider', name='Step'), 'ArrowLeft')
    expect(board.get_by_role('button', name='Forward')).to_be_enabled()
    board.get_by_role('combobox', name='Budget').select_option('25')
    expect(board.locator('#row-memr3')).to_contain_text('✓ right')
    expect(board.locator('#run')).to_contain_text('step 1 of')
    expect(board.get_by_role('slider', name='Step')).to_have_value('1')
    picture(page, board, shots / 'compare')
