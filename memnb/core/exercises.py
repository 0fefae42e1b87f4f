"""Self-checking exercises: an answer is compared by checksum, so that the cell does not give it away."""

from __future__ import annotations

import hashlib
import json
from typing import Any

__all__ = ['check', 'plain_form', 'seal', 'verdict']


def plain_form(answer: Any) -> Any:
    "Return an answer in its one spelling: no case, no outer blanks, numbers to three places, tuples as lists."
    if isinstance(answer, str):
        return ' '.join(answer.casefold().split())
    if isinstance(answer, (list, tuple)):
        return [plain_form(item) for item in answer]
    if answer is None or isinstance(answer, bool):
        return answer
    return round(float(answer), 3) + 0.0  # + 0.0 makes a zero of minus zero


def seal(answer: Any) -> str:
    "Return the checksum of an answer, eight hexadecimal digits, for the cell of an exercise."
    form = json.dumps(plain_form(answer), ensure_ascii=False)
    return hashlib.sha256(f'memnb exercise {form}'.encode()).hexdigest()[:8]


def verdict(answer: Any, sealed: str) -> str:
    "Return what a reader is told of an answer: right, not right, or not answered yet."
    parts = answer if isinstance(answer, (list, tuple)) else [answer]
    if parts and all(part is None or part is ... for part in parts):
        return 'Not answered yet: put your answer in place of the dots.'
    try:
        right = seal(answer) == sealed
    except (TypeError, ValueError, OverflowError):  # neither text, number nor list of them
        right = False
    exact = ' (numbers to three places)' if any(isinstance(part, float) for part in parts) else ''
    return 'Right.' if right else f'Not {answer!r}{exact}. Try again; the solutions are folded below.'


def check(
    answer: Any,  # yours; `...` while there is none
    sealed: str,  # the checksum of the right answer
) -> None:
    "Print whether an answer is right. It never raises."
    print(verdict(answer, sealed))
