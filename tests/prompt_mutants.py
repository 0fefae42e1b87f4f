"""Mutants of prompts: one sentence removed, one operator or number swapped; a test must fail for each."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from memnb.core.roles import Role

SWAPS = {
    'before': 'after', 'earlier': 'later', 'first': 'last', 'newest': 'oldest', 'latest': 'earliest', 'recent': 'ancient',
    'must': 'may', 'never': 'always', 'only': 'also', 'most': 'least', 'absolute': 'relative', 'le': 'lt', 'ge': 'gt', 'asc': 'desc',
    'ADD': 'DELETE', 'UPDATE': 'NONE', 'SKIP': 'MERGE', 'INSERT': 'MERGE', 'ANSWERABLE': 'NOT-ANSWERABLE', 'CORRECT': 'WRONG',
}  # fmt: skip
SWAPS |= {new: old for old, new in SWAPS.items() if new not in SWAPS}


def sentences(text: str) -> list[str]:
    "The sentences and lines of a prompt; a heading, a field alone, and a list of fields are none."
    parts = re.split(r'\n+|(?<=[.;:?!])\s+', text)
    return [
        part for part in parts if len(_words(part)) >= (4 if part.endswith(':') else 2) and not part.startswith('# ')
    ]


def _words(part: str) -> list[str]:
    return re.findall(r'[^\W\d_]{2,}', re.sub(r'\{+\w*\}+', '', part))


def mutants(text: str) -> Iterator[tuple[str, str]]:
    "What was changed, and the text with that change; each part and each operator once."
    for part in dict.fromkeys(sentences(text)):
        yield f'without {part!r}', text.replace(part, '')
    for match in re.finditer(r"(?<![\w{])(?:[A-Za-z]+|\d+)(?![\w}])", text):
        word = match.group()
        swapped = str(int(word) + 1) if word.isdigit() else SWAPS.get(word) or SWAPS.get(word.lower())
        numbered = word.isdigit() and re.match(r'\n? *$', text[text.rfind('\n', 0, match.start()) + 1 : match.start()])
        if swapped and not numbered:  # the number of a line is no content
            yield (
                f'{word} as {swapped} in {text[max(0, match.start() - 30) : match.end() + 20]!r}',
                text[: match.start()] + swapped + text[match.end() :],
            )


Check = Callable[[str], object]  # of a prompt's text; raises an AssertionError where an example does not hold


def _holds(text: str, duties: Iterable[str], checks: Iterable[Check]) -> bool:
    flat = ' '.join(text.split())
    try:
        for check in checks:
            check(text)
    except Exception:  # an example that cannot even be read does not hold
        return False
    return all(duty in flat for duty in duties)


def texts_of(role: Role, more: Iterable[str] = ()) -> str:
    "The templates of a role, and further texts that its fields put in."
    return '\n\n'.join((role.system, role.user, *more))


def missing(text: str, duties: Sequence[str], checks: Sequence[Check] = ()) -> list[str]:
    "Duties that a prompt does not have; a check that fails raises."
    for check in checks:
        check(text)
    flat = ' '.join(text.split())
    return [duty for duty in duties if duty not in flat]


def survivors(text: str, duties: Sequence[str], checks: Sequence[Check] = ()) -> list[str]:
    "Mutants of a prompt for which every duty and every check still holds."
    return [what for what, mutant in mutants(text) if _holds(mutant, duties, checks)]
