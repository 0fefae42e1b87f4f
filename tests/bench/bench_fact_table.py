"""How long it takes to find facts by phrases and times, beside a plain scan of the same facts in the same run.

    python tests/bench/bench_fact_table.py [--facts 200000]

Facts about 5,000 people with ten predicates, so that a predicate alone has 20,000 candidates among 200,000. Times are years,
months and days of a century; one in ten facts has no time, two in ten lack a side. Times are medians over different queries;
the scan compares the phrases, then `Window.passes`, then sorts: it runs thrice, for it is slow."""
import argparse
import random
import statistics
import sys
import time
from datetime import date

from memnb.remem.graph import FactTable, phrase_id
from memnb.remem.facts import Fact, Window
from memnb.core.time import TimeSpan

PREDICATES, PEOPLE, THINGS, K = 10, 5_000, 60_000, 10
OVERLAP = Window('1960', '1950', 'le', 'ge')  # the special case of the paper: overlaps [1950, 1960]


def median_ms(do, inputs) -> float:
    "The median time of `do(one)` in milliseconds."
    times = []
    for one in inputs:
        start = time.perf_counter()
        do(one)
        times.append(1000 * (time.perf_counter() - start))
    return statistics.median(times)


def show(name: str, ms: float, beside: float | None = None, whose: str = '') -> None:
    "One line of the table."
    print(f'{name:62}{ms:10.3f} ms' + (f'   1/{beside / ms:.0f} of {whose}' if beside else ''), flush=True)


def span(chance: random.Random, year: int) -> TimeSpan:
    "A year, or a month or day in it."
    return TimeSpan.of(chance.choice(['year', 'year', 'month', 'day']), date(year, chance.randint(1, 12), chance.randint(1, 28)))


def facts_of(count: int, seed: int = 1) -> list[Fact]:
    "Facts of a century; the ids are hashes of the content, as `Fact.of` makes them."
    chance, made = random.Random(seed), []
    for number in range(count):
        year, kind = chance.randint(1900, 1999), chance.randrange(10)
        start = span(chance, year) if kind not in (0, 1) else None
        end = span(chance, year + chance.randint(1, 9)) if kind not in (0, 2) else None
        times = {'point_in_time': start} if kind > 7 else {'start_time': start, 'end_time': end}
        made.append(Fact.of(f'Person {chance.randrange(PEOPLE)}', f'relation {number % PREDICATES}', f'Thing {chance.randrange(THINGS)}',
                            sources=(f'D{number // 40}:{number % 40}',), **times))
    return made


def scan(facts: list[Fact], window: Window, ordering: str | None = None, limit: int | None = None, **phrases: str) -> list[Fact]:
    "The plain way: read all, keep what fits, sort, cut."
    wanted = {field: phrase_id(phrase) for field, phrase in phrases.items()}
    found = [fact for fact in facts if all(phrase_id(getattr(fact, field)) == phrase for field, phrase in wanted.items()) and window.passes(fact)]
    found.sort(key=lambda fact: fact.id)
    if ordering == 'asc':
        found.sort(key=lambda fact: (fact.start is None, fact.start and (fact.start.start or date.min),
                                     fact.end is None, fact.end and (fact.end.end or date.max)))
    return found[:limit]


def finding(facts: list[Fact], queries: int) -> None:
    "Building the table, then three kinds of question."
    table = FactTable()
    start = time.perf_counter()
    table.add(facts)
    print(f'{len(facts):,} facts, built in {time.perf_counter() - start:.1f} s; medians over {queries} queries')
    chance = random.Random(2)
    people = [dict(subject=f'person {chance.randrange(PEOPLE)}') for _ in range(queries)]
    relations = [dict(predicate=f'relation {chance.randrange(PREDICATES)}') for _ in range(queries)]
    kinds = [('subject, overlapping a decade, in order', people, dict(window=OVERLAP, ordering='asc')),
             ('predicate alone, all of them', relations, {}),
             ('predicate alone, the first ten by id', relations, dict(limit=K)),
             ('predicate alone, the first ten by start', relations, dict(ordering='asc', limit=K)),
             ('predicate alone, all of them by start', relations, dict(ordering='asc')),
             ('predicate, overlapping a decade, the first ten by start', relations, dict(window=OVERLAP, ordering='asc', limit=K)),
             ('subject and predicate, overlapping a decade', [{**one, **other} for one, other in zip(people, relations)], dict(window=OVERLAP))]
    for name, asked, options in kinds:
        plain = {'window': Window(), **options}
        assert table.find(**asked[0], **options) == scan(facts, **plain, **asked[0]), name
        slow = median_ms(lambda one: scan(facts, **plain, **one), asked[:3])
        table.find(**asked[0], **options)
        show(f'{name} ({len(table.find(**asked[0], **options)):,} found)', median_ms(lambda one: table.find(**one, **options), asked), slow, 'the scan')
    session = facts_of(40, seed=3)
    show('adding 40 facts', median_ms(table.add, [session]))
    show('and finding after it, by predicate, the first ten', median_ms(lambda one: table.find(**one, limit=K), relations[:1]))
    show('removing them', median_ms(lambda facts: table.remove([fact.id for fact in facts]), [session]))


def main() -> None:
    "Print the table."
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--facts', type=int, default=200_000)
    parser.add_argument('--queries', type=int, default=50)
    options = parser.parse_args()
    finding(facts_of(options.facts), options.queries)


if __name__ == '__main__':
    sys.exit(main())
