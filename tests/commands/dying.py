"""A `treasury` command in a process of its own that is killed with SIGKILL at a crash point, on a clock that is moved.

    python -m tests.commands.dying START MOVED POINT HITS COMMAND ARGUMENTS...

START, MOVED: Unix seconds at which its clock stands still, and seconds that it was moved since.
"""

import sys

from flows.commands import run
from tests.commands.in_process import open_desk_with
from tests.moved_clock import MovedClock
from treasury.concurrency import crash_points


def main(start: str, moved: str, point: str, hits: str, *command: str) -> int:
    """Run the command until it comes to this point for the HITS-th time."""
    clock = MovedClock(float(start))
    clock.move(float(moved))
    open_desk_with(clock)
    crash_points.arm(point, int(hits))
    return run(command)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
