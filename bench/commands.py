"""The commands as people run them, timed from outside: `python -m bench.commands [--rows N] [--less N]`.

`treasury pay` of so many direct rows and `treasury reconcile --run-key` over them, less the time of a few rows, as a
share of the signing limit measured beside them. Prints time, rate, share and the most memory the command held.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bench import rivals
from tests.parts import FIRST, desk, service, sheet
from treasury.sandbox import generate_key_pair


@dataclass(frozen=True)
class Timed:
    """The cost of a command: wall seconds, and MiB resident at most."""

    seconds: float
    max_mib: float


def command(environ: Mapping[str, str], log: Path, *arguments: str, code: str | None = None) -> Timed:
    """Run `treasury`, or this Python code, to its end. Raises when it ends badly."""
    started = ["-m", "flows", *arguments] if code is None else ["-c", code]
    began = time.perf_counter()
    with log.open("w") as out:
        process = subprocess.Popen(  # noqa: S603 - our own interpreter, our own module
            [sys.executable, *started], env=dict(environ), stdout=out, stderr=subprocess.STDOUT
        )
        most = 0.0
        while process.poll() is None:
            most = _most_mib(process.pid) or most
            time.sleep(0.05)
    if process.returncode:
        raise SystemExit(f"treasury {' '.join(arguments)}: code {process.returncode}\n{log.read_text()[-2000:]}")
    return Timed(time.perf_counter() - began, most)


def _most_mib(pid: int) -> float:
    """The most a process held so far; what `wait4` says includes the process it was started from."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmHWM")), 0.0)


def pay_and_reconcile(url: str, key: str, rows: int, ledger_url: str | None = None) -> dict[str, Timed]:
    """Both commands over so many rows, in a home of their own that paid before; and the payment once more, with nothing
    left to do."""
    with tempfile.TemporaryDirectory(prefix="treasury-bench-") as folder:
        home = Path(folder)
        (home / "key.pem").touch(mode=0o600)
        (home / "key.pem").write_text(key)
        environ = {
            **os.environ,
            "TREASURY_HOME": folder,
            "TREASURY_BASE_URL": url,
            "TREASURY_PARTNER_ID": "900001",
            "TREASURY_PRIVATE_KEY_FILE": str(home / "key.pem"),
            "PREFECT_HOME": str(home / "prefect"),
        }
        if ledger_url is not None:
            environ["TREASURY_LEDGER_URL"] = ledger_url
        log = home / "log"
        command(environ, log, "pay", str(sheet(home, 1, FIRST)), "--run-key", f"first-{rows}", "--yes", "--follow", "0")
        file = str(sheet(home, rows))
        run_key = f"rows-{rows}"  # the service remembers what was paid before
        pay = ("pay", file, "--run-key", run_key, "--yes", "--follow", "0", "--out", str(home / "out"))
        found = {"pay": command(environ, log, *pay)}
        found["reconcile"] = command(environ, log, "reconcile", "--run-key", run_key, "--out", str(home / "report"))
        found["pay again"] = command(environ, log, *pay)
        return found


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--less", type=int, default=200)
    asked = parser.parse_args()
    key = generate_key_pair()[0]
    with service() as url:
        with desk(url, key) as (opened, _):
            limit = rivals.signing(opened.client, 8_000)
        few = pay_and_reconcile(url, key, asked.less)
        many = pay_and_reconcile(url, key, asked.rows)
    print(f"signing limit {limit:.0f} /s; {asked.rows} rows less {asked.less}")
    for name, timed in many.items():
        took = timed.seconds - few[name].seconds
        rate = (asked.rows - asked.less) / took
        print(
            f"{name:12} {timed.seconds:7.1f} s less {few[name].seconds:5.1f} s: {rate:9.0f} /s,"
            f" {rate / limit:.3f} of the limit; {timed.max_mib:.0f} MiB"
        )


if __name__ == "__main__":
    main()
