"""Mutants of every prompt, and how many the tests of its module catch: one sentence removed, one operator or number swapped."""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

TESTS = Path(__file__).parents[1]
sys.path.insert(0, str(TESTS))
from prompt_mutants import mutants, survivors  # noqa: E402


def main() -> int:
    "Print a line for each prompt and each mutant that lives; return 1 if one does."
    made = left = 0
    for path in sorted(TESTS.glob('*/test_*_prompts.py')):
        spec = spec_from_file_location(path.stem, path)
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        for name, (text, duties, *checks) in module.PROMPTS.items():
            count, alive = len(list(mutants(text))), survivors(text, duties, *checks)
            print(f'{path.stem:24} {name:24} {count:4} mutants, {len(alive)} not caught')
            print(*(f'    {what}\n' for what in alive), sep='', end='')
            made, left = made + count, left + len(alive)
    print(f'{made} mutants, {left} not caught')
    return min(left, 1)


if __name__ == '__main__':
    sys.exit(main())
