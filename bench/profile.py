"""The time of an order, function by function: `python -m bench.profile [--rows N]` writes `docs/profile.md`.

py-spy looks from outside, 200 times a second, at a process that asks about orders, and at one that plans and pays them.
A sample counts where a thread was on a core; one that waits for an answer or for the interpreter's lock counts nowhere.
What is below Python (signatures, SQLite, pyreqwest) counts for the function that called it.
"""

import argparse
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from bench.run import ask, pay
from tests.parts import QUOTED, desk, service, sheet
from treasury.sandbox import generate_key_pair
from treasury.settings import IN_FLIGHT

PAGE = Path(__file__).parents[1] / "docs" / "profile.md"
RATE = 200
LARGEST = 12
CASES = ("sweep", "payouts", "quoted payouts")

_LINE = re.compile(r":\d+\)$")
"""Ends a frame: functions are counted, not lines."""
_OURS = re.compile(r"\(treasury/")

Sample = tuple[str, tuple[str, ...], int]
"""Thread, frames from its outermost on, how often."""


def be(case: str, rows: int) -> None:
    """Get ready for a case, say so, do it when told."""
    with service() as url, desk(url, generate_key_pair()[0]) as (opened, home):
        file = sheet(home, rows, QUOTED) if case == "quoted payouts" else sheet(home, rows)
        if case == "sweep":
            pay(opened, file, "run")
        print("ready", flush=True)
        sys.stdin.readline()
        if case == "sweep":
            ask(opened, "run")
        else:
            pay(opened, file, "run")


def samples_of(case: str, rows: int) -> list[Sample]:
    """Return what py-spy saw while another process did a case."""
    command = [sys.executable, "-m", "bench.profile", "--be", case, "--rows", str(rows)]
    with (
        tempfile.TemporaryDirectory() as folder,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process,  # noqa: S603 - our own interpreter, our own module
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        seen = Path(folder) / "seen"
        spy = [str(Path(sys.executable).parent / "py-spy"), "record", "--pid", str(process.pid), "--threads"]
        spying = subprocess.Popen(  # noqa: S603 - installed beside us
            [*spy, "--rate", str(RATE), "--format", "raw", "--output", str(seen)], stderr=subprocess.DEVNULL
        )
        time.sleep(2)  # until it looks
        process.stdin.write("go\n")
        process.stdin.flush()
        process.wait()
        spying.wait()
        return [_read(line) for line in seen.read_text(encoding="utf-8").splitlines()]


def _read(line: str) -> Sample:
    stack, _, count = line.rpartition(" ")
    thread, *frames = (_LINE.sub(")", frame) for frame in stack.split(";"))
    name = thread.partition(": ")[2] or "pyreqwest"  # threads that Python does not know are its
    return name, tuple(frames), int(count)


def tables(samples: list[Sample]) -> Iterator[str]:
    """Three tables: threads, functions by what they do themselves, our functions with all they call."""
    total = sum(count for _, _, count in samples)
    threads, own, whole = Counter[str](), Counter[str](), Counter[str]()
    for thread, frames, count in samples:
        threads[thread] += count
        if frames:
            own[frames[-1]] += count
        for frame in {frame for frame in frames if _OURS.search(frame)}:
            whole[frame] += count
    yield from _table("thread", threads, total)
    yield from _table("function, by itself", own, total)
    yield from _table("function of ours, with all that it calls", whole, total)


def _table(title: str, counts: Counter[str], total: int) -> Iterator[str]:
    yield from ("", f"| {title} | % |", "|---|---:|")
    yield from (f"| `{name}` | {100 * count / total:.1f} |" for name, count in counts.most_common(LARGEST))


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--be", choices=CASES, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.be:
        be(asked.be, asked.rows)
        return
    how = f"`make profile`: {asked.rows:,} orders, {IN_FLIGHT} on their way, no latency, % of the time that any thread"
    lines = ["# Profile", "", how, "of the process was on a core. `bench/profile.py` says what counts where."]
    for case in CASES:
        samples = samples_of(case, asked.rows)
        lines += ["", f"## {case.capitalize()}", "", f"{sum(count for _, _, count in samples):,} samples."]
        lines += tables(samples)
    PAGE.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"wrote {PAGE}")


if __name__ == "__main__":
    main()
