"""Self-checking exercises: an answer is compared by checksum, so that the cell does not give it away."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Set
from typing import Any

__all__ = ['check', 'plain_form', 'seal', 'unanswered', 'verdict']


def plain_form(answer: Any) -> Any:
    """Return an answer in its one spelling, made of what JSON has; equal forms are equal answers.

    Texts lose case and outer blanks, numbers are rounded to three places, tuples are lists, sets are sorted."""
    if hasattr(answer, 'tolist'):  # numpy's numbers and arrays
        answer = answer.tolist()
    if answer is None or isinstance(answer, bool):
        return answer
    if isinstance(answer, (int, float)) or hasattr(answer, '__float__'):
        return round(float(answer), 3) + 0.0  # + 0.0 makes a zero of minus zero
    if isinstance(answer, str):
        return ' '.join(answer.casefold().split())
    if isinstance(answer, Mapping):
        pairs = ([plain_form(key), plain_form(value)] for key, value in answer.items())
        return sorted(pairs, key=json.dumps)
    if isinstance(answer, Set):
        return sorted((plain_form(one) for one in answer), key=json.dumps)
    if isinstance(answer, (list, tuple)):
        return [plain_form(one) for one in answer]
    return plain_form(str(answer))


def seal(answer: Any) -> str:
    "Return the checksum of an answer, eight hexadecimal digits, for the cell of an exercise."
    form = json.dumps(plain_form(answer), ensure_ascii=False)
    return hashlib.sha256(f'memnb exercise {form}'.encode()).hexdigest()[:8]


def unanswered(answer: Any) -> bool:
    "Whether it still holds the dots: `...`, None, or a list in which nothing else stands."
    if answer is ... or answer is None:
        return True
    return isinstance(answer, (list, tuple)) and bool(answer) and all(map(unanswered, answer))


def verdict(answer: Any, sealed: str) -> str:
    "Return what a reader is told of an answer: right, not right, or not answered yet."
    if unanswered(answer):
        return 'Not answered yet: put your answer in place of the dots.'
    return (
        'Right.'
        if seal(answer) == sealed
        else f'Not {answer!r}. Try again; the solutions are folded below.'
    )


def check(
    answer: Any,  # yours; `...` while there is none
    sealed: str,  # the checksum of the right answer
) -> None:
    "Print whether an answer is right. It never raises."
    print(verdict(answer, sealed))
