"""Opens a ledger in a process of its own, which may be killed meanwhile.

    python -m tests.engine.opening '{"url": ..., "account": ..., "key": ...}'

`next_format`: as the program that writes the next format (`tests.next_format`). `point`: killed there. `slow`: so many
seconds before each statement of a migration. Prints how many statements changed a table. `kill_each`: a process is
forked for the first statement and every so many later, and killed before it, until one comes through; the ledger must
hold after each what it held before. Prints how many were killed.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, event

from tests.ledgers import contents
from tests.next_format import as_next_format
from treasury.concurrency import crash_points
from treasury.ledger.ledger import Ledger


def main(spec: dict[str, Any]) -> None:
    """As the specification says."""
    if "kill_each" in spec:
        print(kill_each(spec, spec["kill_each"]))
        return
    seen: list[str] = []

    def before(statement: str) -> None:
        if statement.lstrip().startswith(("ALTER", "CREATE", "UPDATE")):
            seen.append(statement)
            time.sleep(spec.get("slow", 0))

    if "point" in spec:
        crash_points.arm(spec["point"], 1)
    print("ready", flush=True)
    sys.stdin.readline()
    open_one(spec, before)
    print(len(seen), flush=True)


def open_one(spec: dict[str, Any], before: Callable[[str], None]) -> None:
    """Open the ledger and close it."""

    @event.listens_for(Engine, "before_cursor_execute")
    def _watch(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        before(statement)

    Ledger(spec["url"], spec["account"], Path(spec["key"])).close()


def kill_each(spec: dict[str, Any], step: int) -> int:
    """Kill one process before its first statement, the next `step` statements later, and so on."""
    held = contents(spec["url"])
    killed = 0
    while _dies_at(spec, killed * step + 1):
        killed += 1
        assert contents(spec["url"]) == held, f"killed before statement {(killed - 1) * step + 1}"
    return killed


def _dies_at(spec: dict[str, Any], number: int) -> bool:
    child = os.fork()
    if child == 0:
        left = number

        def before(_: str) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

        try:
            open_one(spec, before)
        finally:
            os._exit(0 if left > 0 else 1)
    status = os.waitpid(child, 0)[1]
    assert os.WIFSIGNALED(status) or os.waitstatus_to_exitcode(status) == 0
    return os.WIFSIGNALED(status)


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    with as_next_format() if given.get("next_format") else nullcontext():
        main(given)
