"""The `treasury` command as people start it: real processes, a home of their own, nothing of this process's."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import data
from tests.commands.in_process import Streams, fresh_process, needs_own_process, run_code, run_command
from tests.ibans import german_iban
from treasury.clock import MACHINE, Clock
from treasury.payments.desk import Desk
from treasury.provider.client import Account
from treasury.sandbox import SandboxSettings
from treasury.settings import read_settings

PARTNER_ID = SandboxSettings().partner_id
HEADER = (
    "row_ref,route,amount,currency,settle_currency,payout_method,account_no,account_name,country,bank_code,phone,email"
)


def _as_from_a_terminal() -> None:
    """A shell has its background jobs, and `nohup` what it starts, ignore signals: the tests may be started so."""
    for each in (signal.SIGINT, signal.SIGHUP):
        signal.signal(each, signal.SIG_DFL)


def _ended(what: str, code: int, streams: Streams) -> "Ended":
    ended = Ended(code, streams.out.getvalue(), streams.err.getvalue())
    print(f"{what} ended with {code}\n{ended.out}{ended.err}")  # shown where a test fails
    return ended


@dataclass(frozen=True)
class Ended:
    """A command that ended."""

    code: int
    out: str
    err: str

    @property
    def last(self) -> str:
        """The last line it printed."""
        return self.out.strip().splitlines()[-1]


class Office:
    """A home of `treasury` and the environment its commands run in."""

    def __init__(
        self,
        home: Path,
        base_url: str,
        key_file: Path,
        prefect_url: str | None,
        environ: Mapping[str, str] | None = None,
        clock: Clock = MACHINE,
    ) -> None:
        self.home = home
        self.environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(home / "user"),
            "LANG": "C.UTF-8",
            "COLUMNS": "160",
            **{name: os.environ[name] for name in ("PREFECT_HOME", "SSL_CERT_FILE", "SSL_CERT_DIR")},
            "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
            "DO_NOT_TRACK": "1",
            "TREASURY_HOME": str(home),
            "TREASURY_BASE_URL": base_url,
            "TREASURY_PARTNER_ID": PARTNER_ID,
            "TREASURY_PRIVATE_KEY_FILE": str(key_file),
            **({} if prefect_url is None else {"PREFECT_API_URL": prefect_url}),
            **(environ or {}),
        }
        self.clock = clock
        """The clock of the desks that commands in this process work at."""
        (home / "user").mkdir()

    def start(self, *arguments: object, runs: str = "-m flows", **changed: str) -> "subprocess.Popen[str]":
        """Start a command, or what Python `runs`, in a session of its own."""
        return subprocess.Popen(
            [sys.executable, *runs.split(), *map(str, arguments)],
            cwd=self.home,
            env={**self.environ, **changed},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            preexec_fn=_as_from_a_terminal,  # noqa: PLW1509 - it calls nothing else
        )

    @contextmanager
    def running(self, *arguments: object, **changed: str) -> "Iterator[subprocess.Popen[str]]":
        """A command for as long as the block lasts at most; whatever is left of it then is killed."""
        with self.start(*arguments, **changed) as process:
            try:
                yield process
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)

    def run(self, *arguments: object, stdin: str = "", **changed: str) -> Ended:
        """Run a command to its end: in this process, unless its environment tells Prefect something else."""
        if needs_own_process({**self.environ, **changed}):
            return self.process(*arguments, **changed)
        with fresh_process({**self.environ, **changed}, self.home, stdin, self.clock) as streams:
            code = run_command(list(map(str, arguments)), streams)
        ended = _ended(f"treasury {arguments}", code, streams)
        assert "starting Prefect" not in ended.out, "a server of its own needs a process of its own"
        return ended

    def process(self, *arguments: object, runs: str = "-m flows", **changed: str) -> Ended:
        """Run a command, or what Python `runs`, to its end in a process of its own."""
        with self.start(*arguments, runs=runs, **changed) as process:
            try:
                out, err = process.communicate(timeout=PATIENCE)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                raise
        print(f"treasury {arguments} ended with {process.returncode}\n{out}{err}")  # shown where a test fails
        return Ended(process.returncode, out, err)

    def run_all(self, lines: Mapping[str, Sequence[str]]) -> dict[str, Ended]:
        """Run one command after the other."""
        return {name: self.run(*line) for name, line in lines.items()}

    def python(self, code: str, **changed: str) -> Ended:
        """Run a piece of Python in this environment, in this process."""
        with fresh_process({**self.environ, **changed}, self.home, clock=self.clock) as streams:
            ended = run_code(code, streams)
        return _ended("python", ended, streams)

    def desk(self) -> Desk:
        """The desk of this home, opened from this process."""
        settings = read_settings(self.environ)
        return Desk(settings.account(), settings, clock=self.clock)

    def account(self) -> Account:
        """The account of this home."""
        return read_settings(self.environ).account()

    def sheet(self, *rows: tuple[str, str, str], name: str = "rows.csv") -> Path:
        """A beneficiaries file of direct rows: reference, amount, account."""
        lines = [
            f"{ref},direct,{amount},USDT_TRC20,IDR,bank_transfer,{number},Example Person,ID,1000120,"
            f"0812000,p@example.com"
            for ref, amount, number in rows
        ]
        return self.file(name, "\n".join([HEADER, *lines]) + "\n")

    def file(self, name: str, text: str) -> Path:
        """A text file in this home."""
        path = self.home / name
        path.write_text(text, encoding="utf-8")
        return path

    def results(self, run_key: str, name: str = "results.csv") -> dict[str, dict[str, str]]:
        """The rows of a run's results, by the first column."""
        return read_rows(self.home / "runs" / run_key / name)

    def summary(self, run_key: str) -> dict[str, Any]:
        """A run's `run.json`."""
        read: dict[str, Any] = json.loads((self.home / "runs" / run_key / "run.json").read_text())
        return read


def read_rows(file: Path) -> dict[str, dict[str, str]]:
    """The rows of a CSV file, by its first column."""
    with file.open(newline="", encoding="utf-8") as opened:
        return {next(iter(row.values())): row for row in csv.DictReader(opened)}


def processes_with(mark: str) -> list[int]:
    """Processes whose command line or environment holds a mark, this one left out."""
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        try:
            text = (folder / "cmdline").read_bytes() + (folder / "environ").read_bytes()
            ended = (folder / "stat").read_text().rpartition(")")[2].split()[0] == "Z"
        except OSError:
            continue
        if mark.encode() in text and not ended:
            found.append(int(folder.name))
    return found


PATIENCE = 300.0
"""Seconds after which a command that starts Prefect hangs; a busy machine is no reason to fail (Prefect alone
may take 120 of them)."""


def eventually(
    holds: Callable[[], bool], seconds: float = 10.0, what: str = "it never came to hold", every: float = 0.05
) -> None:
    """Wait until something holds; it is asked about every so many seconds."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, what
        time.sleep(every)


def one_line_error(ended: Ended) -> str:
    """Return what a command said on its standard error, which is no traceback."""
    assert "Traceback" not in ended.err, ended.err
    assert ended.err.startswith("treasury: "), ended.err
    return ended.err


def quoted_sheet(folder: Path, rows: int) -> Path:
    """The quoted rows of the sample, again and again, each to an account of its own."""
    head, *lines = data.path("beneficiaries.csv").read_text().splitlines()
    quoted = next(line for line in lines if ",quoted," in line)
    account = next(cell for cell in quoted.split(",") if cell.startswith("DE") and len(cell) > 10)
    file = folder / "many.csv"
    every = (f"Q-{number}," + quoted.split(",", 1)[1].replace(account, german_iban(number)) for number in range(rows))
    file.write_text("\n".join([head, *every]) + "\n")
    return file
