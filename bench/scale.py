"""How a ledger grows, and what it costs to read: `python -m bench.scale [ROWS ...]`.

For each size, in a process of its own: rows are paid, two nights ask about all of them and report, and the status is
read. Prints bytes of the ledger for a payment and for a question of a night, rates beside the signing limit, and the
most memory. The service is that of `bench.run`, on the same cores.
"""

import resource
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from bench import rivals
from bench.run import pay
from tests.parts import desk, service, sheet
from treasury.nights.reporting import report_sweep
from treasury.nights.standing import standing_of
from treasury.nights.sweep import ask_orders, end_sweep, open_parts, start_or_resume_sweep
from treasury.payments.desk import Desk
from treasury.policy.model import Policy
from treasury.reconciliation.scope import Scope
from treasury.sandbox import generate_key_pair

SIZES = (10_000, 40_000)


def night(opened: Desk, out: Path) -> None:
    """A night asks about everything and reports."""
    sweep_id = start_or_resume_sweep(opened, Scope())
    for ids in open_parts(opened, sweep_id).values():
        ask_orders(opened, ids)
    end_sweep(opened, sweep_id)
    report_sweep(opened, sweep_id, out, Policy())


def size(home: Path) -> int:
    """Return the bytes of the ledger, with what its log still holds."""
    with closing(sqlite3.connect(home / "ledger.db")) as database:
        found = [database.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size")]
    return int(found[0] * found[1])


def timed(work: Callable[[], object]) -> float:
    """Return the seconds that something takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def measure(rows: int) -> None:
    """One size; printed."""
    with service() as url, desk(url, generate_key_pair()[0]) as (opened, home):
        limit, file = rivals.signing(opened.client, 4_000), sheet(home, rows)
        paid = pay(opened, file, "scale")
        before = size(home)
        asked = rows / timed(lambda: night(opened, home / "one"))
        question = (size(home) - before) / rows
        again = rows / timed(lambda: night(opened, home / "two"))
        status = timed(lambda: standing_of(opened))
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{rows:>8} rows: {before / rows:.0f} bytes a payment, {question:.0f} a question; of the signing limit "
        f"({limit:.0f} /s) {paid / limit:.3f} paid, {asked / limit:.3f} a night, {again / limit:.3f} the second one; "
        f"status {status:.2f} s; {most:.0f} MiB",
        flush=True,
    )


def main() -> None:
    """Each size in a process of its own."""
    sizes = [int(rows) for rows in sys.argv[1:]] or list(SIZES)
    if len(sizes) == 1:
        measure(sizes[0])
        return
    for rows in sizes:
        command = [sys.executable, "-m", "bench.scale", str(rows)]
        subprocess.run(command, check=True)  # noqa: S603 - our own interpreter, our own module


if __name__ == "__main__":
    main()
