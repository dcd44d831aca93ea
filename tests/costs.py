"""Counts what each test costs: its processor time with the processes that it ended, and the processes that it started.

Prints the ten that cost most, with `--costs` a hundred and a table of folders and files. Fails a test that takes more
than `MAX_SECONDS` of processor time and is not marked `costly`, with the reason.
"""

import os
import resource
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

MAX_SECONDS = 5.0
"""Processor seconds of a test, and of the fixtures that it is the first to use, on a machine that is not overloaded."""

COMPILED = Path(__file__).read_text(encoding="utf-8")
COMPILE_SECONDS = 0.0012
"""Processor seconds of one compilation of this file on the machine that `MAX_SECONDS` is meant for."""

NAME = "costs"
STARTS = ("subprocess.Popen", "os.fork", "os.posix_spawn")

_started = 0
_paid_once = 0.0
_spent: dict[str, tuple[float, float, int]] = {}
"""Test -> processor seconds, seconds and processes: with pytest-xdist in the controller alone."""


def _count(event: str, _: object) -> None:
    global _started  # noqa: PLW0603 - an audit hook has nowhere else to count
    _started += event in STARTS


sys.addaudithook(_count)


def _now() -> tuple[float, float, int]:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() - _paid_once + children.ru_utime + children.ru_stime, time.monotonic(), _started


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--costs", action="store_true", help="print what the tests of each folder and file cost")
    parser.addoption("--max-costs", type=float, default=MAX_SECONDS, help="processor seconds of a test; 0: no limit")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Add what this phase cost to its report; fail it where that is too much."""
    made: Any = yield
    report = made.get_result()
    before, now = item.stash.get(_BEFORE, _now()), _now()
    item.stash[_BEFORE] = now
    spent = tuple(after - earlier for after, earlier in zip(now, before, strict=True))
    report.user_properties.append((NAME, spent))
    most, marked = item.config.getoption("--max-costs"), item.get_closest_marker("costly")
    excused = marked is not None and marked.args
    if most and spent[0] > most and report.passed and not excused and spent[0] > most * _slowness():
        report.outcome = "failed"
        report.longrepr = (
            f"{item.nodeid}: {report.when} took {spent[0]:.1f} s of processor time, more than {most:g} s: make it "
            'cheaper, or mark it `@pytest.mark.costly("why")`'
        )


def _slowness() -> float:
    """Return how many times longer the same work may take now: a slower machine, or two threads of one core."""
    times = 50
    before = time.process_time()
    for _ in range(times):  # like a test it allocates and follows pointers: an empty loop stays in the nearest cache
        compile(COMPILED, __file__, "exec")
    measured = (time.process_time() - before) / times / COMPILE_SECONDS
    processors = os.cpu_count() or 1
    crowded = max(os.getloadavg()[0], int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))) > processors
    return max(1.0, measured) * (2.0 if crowded else 1.0)


@contextmanager
def once() -> Iterator[None]:
    """Count what happens in this block for no test: each process pays it once, whichever test comes first."""
    global _paid_once  # noqa: PLW0603 - one count for the process
    before = time.process_time()
    try:
        yield
    finally:
        _paid_once += time.process_time() - before


_BEFORE = pytest.StashKey[tuple[float, float, int]]()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Begin to count."""
    item.stash[_BEFORE] = _now()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add up the phases of a test."""
    for name, found in report.user_properties:
        if name == NAME:
            value: Any = found
            seconds, wall, started = _spent.get(report.nodeid, (0.0, 0.0, 0))
            _spent[report.nodeid] = seconds + value[0], wall + value[1], started + value[2]
    report.user_properties[:] = [each for each in report.user_properties if each[0] != NAME]


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print the tests that cost most, and the places."""
    if not _spent:
        return
    terminalreporter.section("costs: processor seconds, seconds, processes started")
    shown = config.getoption("--costs")
    for name, spent in sorted(_spent.items(), key=lambda each: -each[1][0])[: 100 if shown else 10]:
        terminalreporter.write_line(f"{_line(spent)}  {name}")
    places: dict[str, list[tuple[float, float, int]]] = defaultdict(list)
    for name, spent in _spent.items():
        file = name.split("::")[0]
        for place in ("all", str(Path(file).parent), file):
            places[place].append(spent)
    for name, each in sorted(places.items()):
        if shown or name == "all":
            totals = sum(one[0] for one in each), sum(one[1] for one in each), sum(one[2] for one in each)
            terminalreporter.write_line(f"{_line(totals)}  {name}: {len(each)} tests")


def _line(spent: tuple[float, float, int]) -> str:
    return f"{spent[0]:8.1f} {spent[1]:8.1f} {spent[2]:5}"
