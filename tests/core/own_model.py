"""Models of the user's own that go wrong."""


def helper():
    return 1 / 0


def broken(prompt):
    return helper()


async def broken_later(prompt):
    raise ConnectionError('gone')


def broken_in_a_library(prompt):
    import json

    return json.loads('no')
