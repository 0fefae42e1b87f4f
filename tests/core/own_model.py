"""Models of the user's own that go wrong, each on a known line of this file."""


def helper():
    return 1 / 0  # line 5


def broken(prompt):
    return helper()


async def broken_later(prompt):
    raise ConnectionError('gone')  # line 13


def broken_in_a_library(prompt):
    import json

    return json.loads('no')  # line 19
