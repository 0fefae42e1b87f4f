"""Measure every notebook, and list what falls short: `python .ci/notebooks.py` prints a table, and ends with 1 where something does.
With MEMNB_TIMES, the file that `.ci/rerun.py` wrote of the same name, each line has the seconds of a run.

A lesson says at its head how long it takes, with and without its last part, *In depth*; `estimated` is measured from prose, code and exercises.

A public definition is reached where a cell that is not exported uses its name and asserts something. An exercise is a cell with a
`check(...)` on a line of its own; the cell of solutions has a block of Python for each."""

import ast
import json
import os
import re
import sys
from pathlib import Path

CHECKS = re.compile(r'test_\w+|expect_fail')
SOLUTION = re.compile(r'^```python\n(.*?)^```', re.MULTILINE | re.DOTALL)
EXERCISES = 3
WORDS, OUTPUT = 3_000, 300_000  # the most words of a notebook, and bytes of output
CLOSING = '## In depth'  # proofs, properties, mutants, the paper beside the notebook, exercises
HEAD = re.compile(r'#{2,3} Exercises')
PATH = re.compile(r'^- \*\*(\w+)\*\* \((\d+) minutes; with \*In depth\* (\d+)\): (.*)$', re.MULTILINE)  # of the README
TIME = re.compile(r'^\*\*(\d+) minutes\*\*(?:; with \*In depth\* (\d+))?\.$', re.MULTILINE)


def source_of(cell):
    return ''.join(cell['source'])


def exported(source):
    return re.search(r'^#\s*\|\s*export', source, re.MULTILINE) is not None


def tree_of(source):
    """The syntax of a cell; what is for the shell alone is left out."""
    return ast.parse('\n'.join(line for line in source.splitlines() if not line.lstrip().startswith(('%', '!'))))


def names_in(tree):
    """Every name that is used, and every attribute."""
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} | {
        node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)
    }


def asserts_in(tree):
    """How many times something is asserted: `assert`, a check of fastcore's, or `raises`."""
    called = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
    names = [func.id if isinstance(func, ast.Name) else getattr(func, 'attr', '') for func in called]
    return sum(isinstance(node, ast.Assert) for node in ast.walk(tree)) + sum(
        CHECKS.fullmatch(name) is not None for name in names
    )


def lines_in(source):
    """How many lines of a cell are read: neither blank nor a directive."""
    return sum(bool(line.strip()) and not line.startswith('#|') for line in source.splitlines())


def minutes(cells):
    """How long cells take, to the nearest five minutes: 200 words of prose or 25 lines of code a minute, five minutes for an exercise."""
    total = 0
    for cell in cells:
        source = source_of(cell)
        if cell['cell_type'] == 'code':
            total += lines_in(source) / 25 + 5 * ('\ncheck(' in source)
        elif not source.startswith('<details>'):
            total += len(source.split()) / 200
    return max(5, 5 * round(total / 5))


class Notebook:
    """What is measured of one notebook."""

    def __init__(self, path):
        self.path, self.name = Path(path), f'{Path(path).parent.name}/{Path(path).stem}'
        cells = json.loads(self.path.read_text(encoding='utf-8'))['cells']
        place = next((i for i, cell in enumerate(cells) if HEAD.match(source_of(cell))), len(cells))
        self.hidden = any(re.search('\n' + HEAD.pattern, source_of(cell)) for cell in cells)
        self.lesson, self.exercises = cells[:place], cells[place:]
        depth = next((i for i, cell in enumerate(cells) if source_of(cell).startswith(CLOSING)), None)
        self.estimated = [minutes(cells[:depth])] + ([] if depth is None else [minutes(cells)])
        stated = TIME.search(source_of(cells[0]))
        self.stated = [int(number) for number in stated.groups() if number] if stated else []
        code = [source_of(cell) for cell in self.lesson if cell['cell_type'] == 'code']
        self.exported = [source for source in code if exported(source)]
        self.shown = [tree_of(source) for source in code if not exported(source)]
        self.lines = [lines_in(source) for source in self.exported]
        self.prose = ' '.join(source_of(cell) for cell in self.lesson if cell['cell_type'] == 'markdown')
        self.words = len(self.prose.split())
        self.output = sum(
            len(json.dumps(cell.get('outputs', []), ensure_ascii=False).encode())
            for cell in cells
            if cell.get('outputs')
        )
        self.public = {
            node.name
            for source in self.exported
            for node in tree_of(source).body
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and not node.name.startswith('_')
        }
        self.asserts = sum(map(asserts_in, self.shown))
        self.reached = {name for tree in self.shown if asserts_in(tree) for name in names_in(tree)}

    @property
    def checks(self):
        """The source of each exercise."""
        return [
            source_of(cell) for cell in self.exercises if cell['cell_type'] == 'code' and '\ncheck(' in source_of(cell)
        ]

    @property
    def solutions(self):
        """The solution of each exercise, as the last cell gives them."""
        return SOLUTION.findall(source_of(self.exercises[-1])) if self.exercises else []

    def row(self):
        exported = sum(self.lines)
        return {
            'notebook': self.name,
            'cells': len(self.lesson),
            'exported': exported,
            'words a line': f'{self.words / exported:.1f}' if exported else '',
            'public': len(self.public),
            'asserts each': f'{self.asserts / len(self.public):.1f}' if self.public else '',
            'exercises': len(self.checks),
            'minutes': ', '.join(map(str, self.estimated)),
            'output kB': f'{self.output / 1000:.0f}',
        }

    def faults(self):
        """Where it is more than a reader can bear, or its exercises are not whole."""
        if self.words > WORDS:
            yield f'{self.words} words, at most {WORDS}'
        if self.output > OUTPUT:
            yield f'{self.output} bytes of output, at most {OUTPUT}'
        if self.hidden:
            yield 'its exercises begin inside a cell, where nobody checks them'
        if self.path.parent.name in LESSONS or self.stated or len(self.estimated) == 2:
            apart = [abs(stated - estimated) for stated, estimated in zip(self.stated, self.estimated)]
            if len(self.stated) != len(self.estimated) or max(apart) > 5:
                yield f'its head says {self.stated} minutes, about {self.estimated} are needed'
        if not len(self.checks) == len(self.solutions) or len(self.checks) not in (0, EXERCISES):
            yield f'{len(self.checks)} exercises and {len(self.solutions)} solutions, none or {EXERCISES} of each wanted'


def all_notebooks(folder='nbs'):
    return [
        Notebook(path)
        for path in sorted(path for path in Path(folder).rglob('*.ipynb') if '.ipynb_checkpoints' not in path.parts)
    ]


# each notebook of these folders says how long it takes
LESSONS = ('1_core', '2_memr3', '3_remem', '4_mragent', '5_memma', '6_evaluation', '8_use', '9_rules')
REWRITTEN = (
    '0_start',
    '1_core',
    '2_memr3',
    '3_remem',
    '4_mragent',
    '5_memma',
    '8_use',
)  # every public name of these folders must have an example with an assert


def path_faults(notebooks):
    """Where the README gives a path other minutes than its lessons say, as lines."""
    stated = {f'nbs/{notebook.name}.ipynb': notebook.stated for notebook in notebooks}
    for notebook in notebooks:
        for name, short, long, links in PATH.findall(notebook.prose):
            times = [stated[link] for link in re.findall(r'\((nbs/[^)]+)\)', links)]
            total = [sum(time[0] for time in times), sum(time[-1] for time in times)]
            if [int(short), int(long)] != total:
                yield f'{notebook.name}: the path of {name} has {short} and {long} minutes, its lessons say {total}'


def shortcomings(notebooks, rewritten=()):
    """What falls short, as lines: limits, exercises, and public definitions that no notebook shows with an assert."""
    reached = set().union(*(notebook.reached for notebook in notebooks))
    yield from path_faults(notebooks)
    for notebook in notebooks:
        yield from (f'{notebook.name}: {fault}' for fault in notebook.faults())
        if not rewritten or notebook.path.parent.name in rewritten:
            yield from (
                f'{notebook.name}: {name} has no example with an assert' for name in sorted(notebook.public - reached)
            )


def markdown(rows):
    lines = ['| ' + ' | '.join(rows[0]) + ' |', '|' + '---|' * len(rows[0])]
    return '\n'.join(lines + ['| ' + ' | '.join(str(value) for value in row.values()) + ' |' for row in rows])


if __name__ == '__main__':
    notebooks = all_notebooks()
    times = os.environ.get('MEMNB_TIMES')
    seconds = json.loads(Path(times).read_text()) if times and Path(times).exists() else {}
    print(
        markdown(
            [
                notebook.row() | ({'seconds': seconds.get(notebook.name, '')} if seconds else {})
                for notebook in notebooks
            ]
        )
    )
    found = list(shortcomings(notebooks, REWRITTEN))
    print(*found, sep='\n')
    sys.exit(bool(found))
