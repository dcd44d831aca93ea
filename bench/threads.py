"""The time of an order: the CPU of each thread of one process, `python -m bench.threads [--rows N]`.

Microseconds of CPU for one order, as the kernel counts them, so that to look costs nothing. Threads that Python does
not know are pyreqwest's. A payout's include its planning, in the main thread.
"""

import argparse
import os
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from bench.run import WARMED, ask, pay, pay_first
from tests.parts import DIRECT, QUOTED, desk, service, sheet
from treasury.sandbox import generate_key_pair

PAUSE_SECONDS = 0.02
"""The work of a thread since the last look is missed when it ends."""


@contextmanager
def cpu_of_threads() -> Iterator[dict[str, float]]:
    """Fills a dict: name of the threads -> seconds of CPU while the block runs."""
    found: dict[str, float] = {}
    over = threading.Event()
    before = _now()

    def look() -> None:
        latest: dict[tuple[str, str], float] = {}
        while not over.wait(PAUSE_SECONDS):
            latest |= _now()
        sums: defaultdict[str, float] = defaultdict(float)
        for (name, thread), seconds in (latest | _now()).items():
            sums[name] += seconds - before.get((name, thread), 0.0)
        found.update(sums)

    looking = threading.Thread(target=look, name="bench")
    looking.start()
    try:
        yield found
    finally:
        over.set()
        looking.join()


def _now() -> dict[tuple[str, str], float]:
    """(name, id) of each thread -> seconds of CPU since it began."""
    names = {str(thread.native_id): thread.name for thread in threading.enumerate()}
    found = {}
    for folder in Path("/proc/self/task").iterdir():
        try:
            nanoseconds = int((folder / "schedstat").read_text().split()[0])
        except OSError:
            continue  # it ended
        found[names.get(folder.name, "pyreqwest"), folder.name] = nanoseconds / 1e9
    return found


def table(columns: Mapping[str, Mapping[str, float]]) -> None:
    """Print microseconds of each thread, a column for each kind of order."""
    names = sorted({name for found in columns.values() for name in found})
    print(f"{'':20}" + "".join(f"{column:>16}" for column in columns))
    for name in names:
        print(f"{name:20}" + "".join(f"{found.get(name, 0.0):16.0f}" for found in columns.values()))
    print(f"{'together':20}" + "".join(f"{sum(found.values()):16.0f}" for found in columns.values()))


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=8_000)
    parser.add_argument("--in-flight", type=int, default=128)
    parser.add_argument("--latency", type=float, default=0.0)
    asked = parser.parse_args()
    columns: dict[str, Mapping[str, float]] = {}

    def note(name: str, found: Mapping[str, float]) -> None:
        columns[name] = {
            thread: 1e6 * seconds / (asked.rows + WARMED) for thread, seconds in found.items() if thread != "bench"
        }

    with (
        service(asked.latency) as url,
        desk(url, generate_key_pair()[0], in_flight=asked.in_flight) as (opened, home),
    ):
        pay_first(opened, home)
        for name, row in (("direct", DIRECT), ("quoted", QUOTED)):
            file = sheet(home, asked.rows + WARMED, row)
            with cpu_of_threads() as found:
                pay(opened, file, name)
            note(f"{name} payout", found)
        with cpu_of_threads() as found:
            ask(opened, "direct")
        note("question", found)
    print(f"microseconds of CPU for an order, {asked.in_flight} on their way, {os.cpu_count()} cores")
    table(columns)


if __name__ == "__main__":
    main()
