"""Mutants of every prompt: how many a test catches, by role. Each test module of prompts is asked, as pytest runs it."""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

TESTS = Path(__file__).parents[1]
sys.path.insert(0, str(TESTS))
from prompt_mutants import mutants, survivors, texts_of  # noqa: E402


def main() -> int:
    left = 0
    for path in sorted(TESTS.glob('*/test_*_prompts.py')):
        spec = spec_from_file_location(path.stem, path)
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        for name, (role, duties, *more) in module.DUTIES.items():
            checks = more[0] if more else ()
            text = texts_of(role, *more[1:])
            alive = survivors(text, duties, checks)
            print(f'{path.stem:26} {name:24} {len(list(mutants(text))):4} mutants, {len(alive)} not caught')
            left += len(alive)
            for what in alive:
                print(f'    {what}')
    return min(left, 1)


if __name__ == '__main__':
    sys.exit(main())
