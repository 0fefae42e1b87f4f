"""Faults on purpose: a connection to SQLite is struck right after its n-th statement, and a child process is killed there."""

import multiprocessing
import os
import signal
import sqlite3
from contextlib import contextmanager
from unittest.mock import patch

import pytest

needs_fork = pytest.mark.skipif('fork' not in multiprocessing.get_all_start_methods(), reason='the system has no fork')


class Struck(Exception):
    """The fault that is injected."""


class Watched(sqlite3.Connection):
    """Notes what is executed, each row of many by itself, and strikes after a given number of statements."""

    log, strike_at, strike = [], None, None

    def execute(self, sql, *rest):
        result = super().execute(sql, *rest)
        Watched.log.append(sql)
        if Watched.strike_at is not None and len(Watched.log) == Watched.strike_at:
            Watched.strike()
        return result

    def executemany(self, sql, rows):
        for row in rows:
            self.execute(sql, row)


def strike():
    """A fault that the program may catch."""
    raise Struck


def kill():
    """The end of this process, with no chance to tidy up."""
    os.kill(os.getpid(), signal.SIGKILL)


@contextmanager
def watched(strike_at=None, how=strike):
    """Connections that are opened in here are watched; yields the log of their statements."""
    real = sqlite3.connect
    Watched.log, Watched.strike_at, Watched.strike = [], strike_at, staticmethod(how)
    with patch.object(sqlite3, 'connect', lambda *rest, **options: real(*rest, factory=Watched, **options)):
        try:
            yield Watched.log
        finally:
            Watched.strike_at = None


def saved(log):
    """Whether the save of a graph has come to its commit."""
    first = 'SELECT name, value FROM memory'
    return first in log and 'COMMIT' in log[log.index(first) :]


def count_anew(strike_at):
    """Inside `watched`: what was executed so far does not count, and the strike comes at this statement from here on."""
    Watched.log.clear()
    Watched.strike_at = strike_at


def forked(function, *arguments):
    """A child process that has begun to do this."""
    process = multiprocessing.get_context('fork').Process(target=function, args=arguments)
    process.start()
    return process
