"""Shared by commands: ask for a yes, print written files, choose a run's exit code."""

import csv
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

from cyclopts import Parameter

from treasury.errors import InputError, NeedsAttention, TreasuryError, UnknownHeaders
from treasury.files import check_folder
from treasury.payments.desk import Desk, desk_of
from treasury.reports.results import BAD_INVOICES, BAD_OUTCOMES, in_words, needs_a_person
from treasury.settings import os_user, read_settings
from treasury.sheets.headers import remember_mapping
from treasury.texts import count_of

T = TypeVar("T")


def _check_out(_: Any, given: Path | None) -> None:
    if given is not None:
        check_folder(given)


OutFolder = Annotated[Path, Parameter(validator=_check_out)]
"""Type of `--out`: the folder that results are written into."""

DONE, BAD_INPUT, WAITING, TROUBLE, BREAKS = 0, 2, 3, 4, 5
"""Exit codes that a command chooses itself; errors choose theirs in `flows.commands`."""


def configured_desk() -> Desk:
    """The desk of the configured account."""
    settings = read_settings()
    return desk_of(settings.account(), settings)


def agreed(*, yes: bool, left_out: int = 0) -> bool:
    """Tell whether the person, or the option `--yes`, agrees to the plan just shown; `left_out`: rows that are not in
    it."""
    if yes:
        return True
    if not sys.stdin.isatty():
        return False
    without = f", leaving out {count_of(left_out, 'row')}" if left_out else ""
    return input(f"Send it{without}? [y/N] ").strip().lower() in ("y", "yes")


def asking_for_headers(read: Callable[[], T]) -> T:
    """Return what is read of a sheet; where headers of one's own can mean one thing, somebody at a terminal is asked
    first.

    Raises what `read` raises; `UnknownHeaders` where nobody can be asked, or says no.
    """
    try:
        return read()
    except UnknownHeaders as found:
        if not _confirms(found):
            raise
    return read()


def _confirms(found: UnknownHeaders) -> bool:
    """Ask what the headers mean, and keep it; `--yes` is no answer to that."""
    if not sys.stdin.isatty():
        return False
    for name, column in found.proposal.items():
        if input(f'Use "{name}" for {column}? [y/N] ').strip().lower() not in ("y", "yes"):
            return False
    say_files([remember_mapping(read_settings().home, found.headers, found.proposal, os_user())])
    return True


def check_follow(seconds: float) -> float:
    """Return the seconds to follow. Raises `InputError` for anything else."""
    if not 0 <= seconds < float("inf"):
        raise InputError(f"--follow is a number of seconds, zero or more (got {seconds})")
    return seconds


def say_waiting(what: str) -> int:
    """Print the last line of a command that wrote a plan and got no yes."""
    print(f"{what}; nothing was sent: waiting for a yes (run it again with --yes)")
    return WAITING


def say_files(files: Iterable[Path | str]) -> None:
    """Print the paths of written files."""
    for file in files:
        print(f"  {file}")


def summary_of(run: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any]:
    """The summary that a flow returns, or that its `NeedsAttention` carries; files are named that another error has."""
    try:
        return run()
    except NeedsAttention as found:
        if (why := str(found)) != in_words(found.summary):  # an error ended it
            print(f"treasury: {why}", file=sys.stderr)
        return found.summary
    except TreasuryError as error:
        if error.summary:
            say_files(error.summary["files"])
        raise


def finish_run(summary: Mapping[str, Any]) -> int:
    """Print where the results are, what became of the rows, and why, where not as meant; returns the exit code."""
    say_files(summary["files"])
    if needs_a_person(summary):
        for line in _whys(summary):
            print(f"  {line}")
    for each in summary.get("breaks", ()):
        print(f"BREAK: balance of {each['asset']}: {each['why']}")
    if summary.get("stopped"):
        print(f"BREAK: {summary['stopped']}")
    print(in_words(summary))
    return TROUBLE if needs_a_person(summary) else DONE


MAX_WHYS = 5
"""Reasons that are told at the end of a command; `results.csv` has all."""


def _whys(summary: Mapping[str, Any]) -> list[str]:
    """Return why rows of a run ended otherwise than meant, by its `results.csv`, the most frequent reasons first."""
    counts, named = Counter[tuple[str, str]](), dict[tuple[str, str], str]()
    for file in (each for each in map(Path, summary["files"]) if each.name == "results.csv"):
        with file.open(newline="", encoding="utf-8-sig") as lines:
            for row in csv.DictReader(lines):
                if row["reason"] and row["outcome"] in (*BAD_OUTCOMES, *BAD_INVOICES):
                    why = row["outcome"].replace("_", " "), row["reason"]
                    counts[why] += 1
                    named[why] = row["row_ref"]
    said = [
        f"{named[why] if count == 1 else count_of(count, 'row')} {why[0]}: {why[1]}"
        for why, count in counts.most_common(MAX_WHYS)
    ]
    more = len(counts) - len(said)
    return [*said, f"and {count_of(more, 'other reason')}: see results.csv"] if more else said


def money_lines(title: str, sums: Mapping[str, str]) -> None:
    """Sums per currency, one a line."""
    for currency, total in sums.items():
        print(f"  {title} {total} {currency}")
