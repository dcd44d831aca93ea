"""What commands share: asking for a yes, saying what was written, the exit code of a run."""

import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from treasury.errors import InputError, NeedsAttention
from treasury.reports.results import BAD_OUTCOMES, in_words
from treasury.runs.desk import Desk, desk_of
from treasury.settings import read_settings

DONE, BAD_INPUT, WAITING, TROUBLE, BREAKS = 0, 2, 3, 4, 5
"""Exit codes that a command chooses itself; errors choose theirs in `flows.commands`."""


def configured_desk() -> Desk:
    """The desk of the configured account."""
    settings = read_settings()
    return desk_of(settings.account(), settings)


def agreed(*, yes: bool) -> bool:
    """Whether a person, or whoever wrote the command line, says yes to the plan just shown."""
    if yes:
        return True
    if not sys.stdin.isatty():
        return False
    return input("Send it? [y/N] ").strip().lower() in ("y", "yes")


def check_follow(seconds: float) -> float:
    """How long to follow. Raises `InputError` for anything but a number of seconds."""
    if not 0 <= seconds < float("inf"):
        raise InputError(f"--follow is a number of seconds, zero or more (got {seconds})")
    return seconds


def say_waiting(what: str) -> int:
    """The last line of a command that wrote a plan and was not told to go on."""
    print(f"{what}; nothing was sent: waiting for a yes (run it again with --yes)")
    return WAITING


def say_files(files: Iterable[Path | str]) -> None:
    """The paths of what was written."""
    for file in files:
        print(f"  {file}")


def summary_of(run: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any]:
    """What a flow returns; of one that needs a person's attention the same, for the exit code says that."""
    try:
        return run()
    except NeedsAttention as found:
        return found.summary


def finish_run(summary: Mapping[str, Any]) -> int:
    """Say where the results are and what became of the rows; the exit code."""
    say_files(summary["files"])
    print(in_words(summary))
    return TROUBLE if any(summary["counts"].get(outcome) for outcome in BAD_OUTCOMES) else DONE


def money_lines(title: str, sums: Mapping[str, str]) -> None:
    """Sums per currency, one a line."""
    for currency, total in sums.items():
        print(f"  {title} {total} {currency}")
