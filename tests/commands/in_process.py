"""Runs commands and pieces of code in this process as a process of their own would: what it keeps begins anew for each.

A process of its own costs two seconds for Python, pandas and Prefect alone. It is needed where the process is the
point: signals, kills, two starts at once, Prefect's settings (read once in a process), an embedded server, a terminal.
"""

import io
import logging
import os
import sys
import threading
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from flows.commands import run
from treasury.clock import MACHINE, Clock
from treasury.payments import desk as desks
from treasury.reports.starts import end_start
from treasury.settings import read_settings

NOWHERE = "http://127.0.0.1:9/api"
"""A Prefect server that is not there: a command that needs one ends with an error."""


def needs_own_process(environ: Mapping[str, str]) -> bool:
    """Return True if the environment tells Prefect what this process, where it was imported, does not know."""
    told = {
        name: value for name, value in environ.items() if name.startswith("PREFECT_") and value not in ("", NOWHERE)
    }
    return any(os.environ.get(name) != value for name, value in told.items())


@dataclass(frozen=True)
class Streams:
    """A record of what was printed meanwhile."""

    out: io.StringIO = field(default_factory=io.StringIO)
    err: io.StringIO = field(default_factory=io.StringIO)


def run_command(arguments: list[str], streams: Streams) -> int:
    """Run a command of `treasury`, inside `fresh_process`; its exit code."""
    try:
        return run(arguments)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 1


def run_code(code: str, streams: Streams) -> int:
    """Run a piece of Python, inside `fresh_process`; the exit code that `python -c` would end with."""
    try:
        exec(compile(code, "<string>", "exec"), {"__name__": "__main__"})
    except SystemExit as ended:
        return 0 if ended.code is None else ended.code if isinstance(ended.code, int) else 1
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


_alone = threading.Lock()


@contextmanager
def fresh_process(
    environ: Mapping[str, str], folder: Path, text: str = "", clock: Clock = MACHINE
) -> Iterator[Streams]:
    """This process with the environment, working folder and standard input of another; ends what it opened.

    `clock`: of the desk that what runs in it works at.
    """
    assert _alone.acquire(blocking=False), "two commands at once need processes of their own"
    streams, standard = Streams(), (sys.stdin, sys.stdout, sys.stderr)
    before, there, umask = dict(os.environ), Path.cwd(), os.umask(0o022)
    log = logging.getLogger("treasury")
    kept = log.handlers[:], log.propagate, log.level
    _begin(log)
    try:
        os.environ.clear()
        os.environ.update(environ)
        os.chdir(folder)
        sys.stdin, sys.stdout, sys.stderr = io.StringIO(text), streams.out, streams.err
        if clock is not MACHINE:
            open_desk_with(clock)
        yield streams
    finally:
        sys.stdin, sys.stdout, sys.stderr = standard
        os.chdir(there)
        os.environ.clear()
        os.environ.update(before)
        os.umask(umask)
        _begin(log)
        log.handlers[:], log.propagate, log.level = kept
        if (found := sys.modules.get("tasks.run_log")) is not None:  # imported meanwhile: once in a process
            found.show_in_run_log()
        _alone.release()


def open_desk_with(clock: Clock) -> None:
    """Open the desk of this environment with another clock than the machine's, before a command opens it."""
    settings = read_settings()
    account = settings.account()
    desks._desks[account.identity, settings.ledger_url] = desks.Desk(account, settings, clock=clock)


def _begin(log: logging.Logger) -> None:
    """Forget what a new process has not: desks and their locks, the folder of a start."""
    for each in desks._desks.values():
        each.close()
    desks._desks.clear()
    if (
        found := sys.modules.get("blocks.desk")
    ) is not None:  # not imported here: tests/conftest.py prepares Prefect first
        found.configured.cache_clear()
    end_start()
    log.handlers.clear()
    log.propagate, log.level = True, logging.NOTSET
