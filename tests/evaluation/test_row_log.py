"""The row log against a list: whatever is appended, cut off, reopened or refused, what was acknowledged is there, once and in order."""
import errno
import json
import multiprocessing
import os
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parents[1]))
from strikes import forked, kill, needs_fork

from memnb.evaluation import experiment as row_log
from memnb.evaluation.experiment import line_of, locked, LogError, RowLog

texts = st.text(st.characters(codec=None), max_size=8)  # lone surrogates, ends of line and NULs as well
values = st.recursive(st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
                      lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3), max_leaves=6)
records = st.dictionaries(texts, values, max_size=4)
steps = st.lists(st.one_of(st.tuples(st.just('append'), records), st.tuples(st.just('cut'), st.integers(1, 200)),
                           st.tuples(st.just('reopen'), st.none()), st.tuples(st.just('hold'), st.lists(records, max_size=3))), max_size=12)


def cut_off(path, count):
    """Take bytes from the end, as a crash does that comes before the disk has them; how many whole lines are left."""
    content = path.read_bytes()[:-count] if path.exists() else b''
    if path.exists():
        path.write_bytes(content)
    return content.count(b'\n'), not content.endswith(b'\n') and bool(content)


@given(steps)
def test_any_sequence_of_appends_cuts_and_reopenings_is_a_list(tmp_path_factory, steps):
    path = tmp_path_factory.mktemp('log') / 'rows.jsonl'
    log, oracle, torn, tail = RowLog(path), [], 0, False
    for what, value in steps:
        added = [value] if what == 'append' else value if what == 'hold' else []
        if added:
            torn, tail = torn + tail, False
        if what == 'append':
            log.append(value)
        elif what == 'hold':
            with log.held():
                for record in value:
                    log.append(record)
        elif what == 'cut':
            whole, tail = cut_off(path, value)
            oracle = oracle[:whole]
        else:
            log = RowLog(path)
        oracle += added
        assert log.records() == RowLog(path).records() == oracle
        assert log.torn == torn


@given(records)
def test_a_record_is_one_line_and_the_same_line_in_whatever_order_its_fields_came(record):
    line = line_of(record)
    assert line == line_of(dict(reversed(record.items()))) and line.count('\n') == 1 and line.isascii()
    assert json.loads(line) == record


@pytest.mark.parametrize('record', [{'a': float('nan')}, {'a': float('inf')}, {'a': {1}}, {'a': object()}])
def test_what_json_cannot_hold_is_refused_and_nothing_is_written(tmp_path, record):
    log = RowLog(tmp_path / 'rows.jsonl')
    log.append({'a': 1})
    with pytest.raises((ValueError, TypeError)):
        log.append(record)
    assert log.records() == [{'a': 1}]


def test_the_torn_line_is_kept_beside_the_file_to_the_last_byte(tmp_path):
    log = RowLog(tmp_path / 'rows.jsonl')
    log.append({'a': 1})
    with open(log.path, 'ab') as file:
        file.write(b'{"a":\xff\x00')
    assert log.records() == [{'a': 1}] and log.torn == 0  # reading changes nothing
    log.append({'a': 2})
    assert log.records() == [{'a': 1}, {'a': 2}] and log.torn == 1
    assert (tmp_path / 'rows.jsonl.torn').read_bytes() == b'{"a":\xff\x00\n'


@pytest.mark.parametrize('line', [b'{"a":', b'[1]', b'17', b'', b'\xff'])
def test_a_whole_line_that_is_no_record_is_named(tmp_path, line):
    path = tmp_path / 'rows.jsonl'
    path.write_bytes(b'{"a":1}\n' + line + b'\n{"a":2}\n')
    with pytest.raises(LogError, match=r'rows\.jsonl: line 2: expected a JSON object'):
        RowLog(path).records()


@given(st.integers(0, 30), st.booleans())
@settings(max_examples=25)
def test_a_full_disk_takes_half_a_line_and_the_next_record_stands_for_itself(tmp_path_factory, taken, held):
    log = RowLog(tmp_path_factory.mktemp('log') / 'rows.jsonl')
    log.append({'number': 1})
    real = os.write

    def full(handle, data):
        if len(data) > taken:
            real(handle, data[:taken])
            raise OSError(errno.ENOSPC, 'No space left on device')
        return real(handle, data)

    def append_two():
        os.write = full
        try:
            log.append({'number': 2, 'text': 'x' * 30})
        except OSError:
            pass
        finally:
            os.write = real
        log.append({'number': 3})

    if held:
        with log.held():
            append_two()
    else:
        append_two()
    assert [one['number'] for one in log.records()] == [1, 3] and log.torn == (taken > 0)


def test_a_system_that_takes_a_byte_at_a_time_gets_all(tmp_path, monkeypatch):
    real = os.write
    monkeypatch.setattr(os, 'write', lambda handle, data: real(handle, data[:1]))
    log = RowLog(tmp_path / 'rows.jsonl')
    log.append({'text': 'concertina'})
    assert log.records() == [{'text': 'concertina'}]


def test_a_record_is_forced_to_the_disk_before_append_returns_and_so_is_the_name_of_a_new_file(tmp_path, monkeypatch):
    seen, real_sync, real_write = [], os.fsync, os.write
    monkeypatch.setattr(os, 'fsync', lambda handle: (seen.append(os.readlink(f'/proc/self/fd/{handle}') if sys.platform == 'linux' else 'sync'), real_sync(handle)))
    monkeypatch.setattr(os, 'write', lambda handle, data: (seen.append('write'), real_write(handle, data))[1])
    log = RowLog(tmp_path / 'tasks' / 'rows.jsonl')
    log.append({'a': 1})
    log.append({'a': 2})
    if sys.platform == 'linux':
        assert seen == ['write', str(log.path), str(log.path.parent), str(tmp_path), 'write', str(log.path)]


def test_readers_make_no_file(tmp_path):
    log = RowLog(tmp_path / 'tasks' / 'rows.jsonl')
    assert log.records() == [] and log.torn == 0 and not list(tmp_path.iterdir())


def append_many(path, name, count, barrier):
    barrier.wait()
    for number in range(count):
        RowLog(path).append({'name': name, 'number': number, 'text': 'x' * 5000})


@needs_fork
def test_processes_and_threads_that_append_at_once_lose_and_mix_nothing(tmp_path):
    path, barrier = tmp_path / 'rows.jsonl', multiprocessing.get_context('fork').Barrier(3)
    children = [forked(append_many, path, name, 20, barrier) for name in range(3)]
    for child in children:
        child.join(30)
    threads = [threading.Thread(target=append_many, args=(path, name, 20, threading.Barrier(1))) for name in (3, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    found = RowLog(path).records()
    assert all([one['number'] for one in found if one['name'] == name] == list(range(20)) for name in range(5))
    assert len(found) == 100 and RowLog(path).torn == 0


def test_who_holds_a_log_appends_and_everybody_else_waits(tmp_path):
    log, other, done = RowLog(tmp_path / 'rows.jsonl'), RowLog(tmp_path / 'rows.jsonl'), threading.Event()
    with log.held():
        waiting = threading.Thread(target=lambda: (other.append({'who': 'other'}), done.set()))
        waiting.start()
        for _ in range(3):
            log.append({'who': 'holder'})
        assert not done.wait(.1)
        with pytest.raises(BlockingIOError), locked(log.path, wait=False):
            pass
    waiting.join(30)
    assert [one['who'] for one in log.records()] == ['holder'] * 3 + ['other']


def test_a_disk_without_locks_is_told(tmp_path, monkeypatch):
    def no_locks(handle, how):
        raise OSError(errno.ENOSYS, 'Function not implemented')
    monkeypatch.setattr(row_log.fcntl, 'flock', no_locks)
    with pytest.raises(OSError, match=r'rows\.jsonl: expected a disk that can lock files'):
        RowLog(tmp_path / 'rows.jsonl').append({'a': 1})
    monkeypatch.setattr(row_log, 'fcntl', None)  # Windows: nothing is held
    RowLog(tmp_path / 'rows.jsonl').append({'a': 1})
    assert RowLog(tmp_path / 'rows.jsonl').records() == [{'a': 1}]


def die_in_the_line(path, after, taken):
    """Append records until one is cut off in the middle by the end of the process."""
    log, real, left = RowLog(path), os.write, [after]

    def deadly(handle, data):
        left[0] -= 1
        if left[0] < 0:
            real(handle, data[:taken])
            kill()
        return real(handle, data)
    row_log.os.write = deadly
    for number in range(100):
        log.append({'number': number})


@needs_fork
@pytest.mark.parametrize('after, taken', [(0, 0), (0, 4), (2, 1), (3, 13), (5, 14), (1, 15)])
def test_a_process_that_is_killed_within_a_line_leaves_the_lines_before(tmp_path, after, taken):
    log = RowLog(tmp_path / 'rows.jsonl')
    child = forked(die_in_the_line, log.path, after, taken)
    child.join(30)
    assert child.exitcode == -9
    whole = after + (taken >= len(line_of({'number': after})))
    assert [one['number'] for one in log.records()] == list(range(whole))
    log.append({'number': 'next'})
    assert [one['number'] for one in log.records()] == [*range(whole), 'next']
    assert log.torn == (0 < taken < len(line_of({'number': after})))
