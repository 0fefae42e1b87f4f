"""The report of a bench and that of the demo in a real browser, light and dark, on a wide and a narrow screen: words can be
read against what is behind them (a contrast of 4.5 to 1, WCAG 2.1), nothing is cut, and the page is no wider than the screen."""

from dataclasses import replace

import pytest
from test_lab import CHROMIUM, MISSING, SWITCHES, sync_playwright

from memnb.evaluation.datasets import load_sample
from memnb.evaluation.experiment import Experiment
from memnb.evaluation.registry import METHODS
from memnb.evaluation.report import render_page, RunFolder
from memnb.views.traces import report_html

READ = """() => {
  const pen = Object.assign(document.createElement('canvas'), {width: 1, height: 1}).getContext('2d', {willReadFrequently: true})
  const paint = layers => {  // colours over each other, the lowest first
    pen.clearRect(0, 0, 1, 1)
    for (const layer of layers) { pen.fillStyle = layer; pen.fillRect(0, 0, 1, 1) }
    return [...pen.getImageData(0, 0, 1, 1).data].slice(0, 3)
  }
  const light = colour => colour.map(part => part / 255).map(part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
    .reduce((sum, part, place) => sum + part * [0.2126, 0.7152, 0.0722][place], 0)
  const page = matchMedia('(prefers-color-scheme: dark)').matches ? '#121212' : '#ffffff'
  document.querySelectorAll('details').forEach(fold => { fold.open = true })
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), texts = []
  while (walker.nextNode()) {
    const parent = walker.currentNode.parentElement, box = parent.getBoundingClientRect(), style = getComputedStyle(parent)
    if (!walker.currentNode.data.trim() || !box.width || parent.closest('select, script, style')) continue
    const behind = []
    for (let at = parent; at; at = at.parentElement) behind.unshift(getComputedStyle(at).backgroundColor)
    const words = parent.closest('svg') ? style.fill : style.color, under = [page, ...behind]
    const [a, b] = [light(paint(under)), light(paint([...under, words]))].sort((a, b) => b - a)
    const figure = parent.closest('svg')?.getBoundingClientRect(), [left, right] = figure ? [figure.left, figure.right] : [0, 1e9]
    texts.push({text: walker.currentNode.data.trim().slice(0, 60), contrast: (a + 0.05) / (b + 0.05), svg: !!figure,
                cut: box.left < left - 1 || box.right > right + 1, table: !!parent.closest('table')})
  }
  const names = [...document.querySelectorAll('th[scope=row]')].map(name => name.getBoundingClientRect().width)
  return {texts, wide: document.documentElement.scrollWidth, names: Math.max(...names)}
}"""


@pytest.fixture(scope='module')
def browser():
    assert not MISSING, MISSING
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=SWITCHES)
        yield opened
        opened.close()


@pytest.fixture(scope='module')
def pages(tmp_path_factory):
    """The page of a bench, with long names, a failure and a missed turn, and that of a demo, by name."""
    folder, sample = tmp_path_factory.mktemp('run'), load_sample()
    named = [
        METHODS['memr3'],
        replace(METHODS['rag'], name='a very long name $x$ of a variant, and of its memory, too'),
    ]
    Experiment(named, {'sample': [sample]}, turns=7, categories=['open-domain', 'temporal']).run(folder)
    run = RunFolder(folder)
    run.records[0].error = 'ServerError: no'
    files = {'bench': folder / 'report.html', 'demo': folder / 'demo.html'}
    files['bench'].write_text(''.join(render_page(run)), encoding='utf-8')
    run.store.close()
    traces = []
    for name in ('memr3', 'remem', 'mragent', 'memma'):
        method = METHODS[name]
        memory = method.memory.build(sample, None)
        traces.append(method.make(memory, sample).ask(sample.questions[1].text))
    traces[0].error = 'ServerError: no'
    files['demo'].write_text(
        report_html(traces, 'A demo', {sample.questions[1].text: 'expected: 61'}), encoding='utf-8'
    )
    return files


@pytest.mark.parametrize('scheme', ['light', 'dark'])
@pytest.mark.parametrize('width', [1280, 420])
@pytest.mark.parametrize('name', ['bench', 'demo'])
def test_every_word_can_be_read_and_nothing_is_cut(browser, pages, name, width, scheme):
    page = browser.new_page(viewport={'width': width, 'height': 900}, color_scheme=scheme)
    page.goto(pages[name].as_uri())
    read = page.evaluate(READ)
    page.close()
    texts = read['texts']
    assert len(texts) > 100 and [text for text in texts if text['contrast'] < 4.5] == []
    assert [text for text in texts if text['cut']] == [] and read['wide'] == width
    if name == 'bench':
        assert read['names'] < width / 2, 'the name of a row leaves no room for its figures'
        assert sum(text['svg'] for text in texts) > 10 and sum(text['table'] for text in texts) > 50
