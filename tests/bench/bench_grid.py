"""How long `memnb bench` takes, and how much memory, beside the limits: five methods over a file of conversations, by rules.

    python tests/bench/bench_grid.py locomo_dev.json [--executor threads]
"""
import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time

METHODS = 'rag,memr3,remem,mragent,memma'


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('data')
    parser.add_argument('--executor', nargs='+', default=['threads', 'processes'])
    options = parser.parse_args()
    for executor in options.executor:
        with tempfile.TemporaryDirectory() as folder:
            words = ['bench', '--data', options.data, '--methods', METHODS, '--k', '25', '--executor', executor, '--out', folder, '--json']
            started, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
            printed = subprocess.run([sys.executable, '-m', 'memnb.cli', *words], check=True, capture_output=True, text=True).stdout
            seconds, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
        found = json.loads(printed)
        rows = found['rows']
        spent = {phase: sum(line['seconds'] for line in found['provenance']['spent'] if line['phase'] == phase) for phase in ('build', 'ask')}
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        print(f'{executor}: {len(rows)} methods x {rows[0]["questions"]} questions in {seconds:.0f} s (limit 180), {cpu:.0f} s of processor; '
              f'largest process so far {after.ru_maxrss / 1024:.0f} MB (limit 1000)')
        print(f'  of it, over all workers: building {spent["build"]:.0f} s, asking {spent["ask"]:.0f} s')
        for row in rows:
            print(f'  {row["method"]:14} {row["turns"]["mean"]:6.1f} turns  recall {100 * row["evidence_recall"]["mean"]:5.1f}  errors {row["errors"]}')


if __name__ == '__main__':
    main()
