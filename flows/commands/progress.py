"""Shows progress: a bar with rate and time left on a terminal, occasional lines elsewhere."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from treasury.clock import MACHINE
from treasury.errors import TreasuryError

BAR_SECONDS = 0.5
LINE_SECONDS = 10.0

Count = Callable[[], tuple[int, int]]
"""Returns done and total so far; (0, 0) while unknown."""


@contextmanager
def showing(what: str, count: Count) -> Iterator[None]:
    """Show progress while the block lasts. `what`: what is done to each item, for example `sent`."""
    over = threading.Event()
    show = _draw_bar if sys.stdout.isatty() else _print_lines
    thread = threading.Thread(target=show, args=(what, _quiet(count), over), name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _quiet(count: Count) -> Count:
    """Suppress errors of reading progress: the work itself reports what is wrong with the ledger."""

    def counted() -> tuple[int, int]:
        try:
            return count()
        except TreasuryError:
            return 0, 0

    return counted


def _print_lines(what: str, count: Count, over: threading.Event) -> None:
    first, began = count()[0], MACHINE.monotonic()
    while not over.wait(LINE_SECONDS):
        done, total = count()
        rate = (done - first) / (MACHINE.monotonic() - began)
        if total and done < total and rate > 0:
            left = (total - done) / rate
            print(f"{what} {done} of {total}, {rate:.0f} a second, {left:.0f} s left", flush=True)


def _draw_bar(what: str, count: Count, over: threading.Event) -> None:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rate]}"))
    first, began = count()[0], MACHINE.monotonic()
    with Progress(*columns, TimeRemainingColumn(), transient=True) as progress:
        task = progress.add_task(what, total=None, rate="")
        while not over.wait(BAR_SECONDS):
            done, total = count()
            rate = (done - first) / (MACHINE.monotonic() - began)
            progress.update(task, completed=done, total=total or None, rate=f"{rate:.0f} a second")
