"""How long every row of a run takes to leave once, with and without 429: `python -m bench.pace [--rows N]`.

Against the sandbox with 50 ms of latency, in a process of its own; one answer in fifty is 429 without `Retry-After`.
The last line is a smaller run with 4 % of each fault, followed until nothing is unknown. Resend window 4 s in all.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.engine import paying
from tests.parts import sheet
from treasury.orders.states import State
from treasury.payments import execution
from treasury.payments.desk import Desk
from treasury.provider.client import Account
from treasury.sandbox import SandboxSettings, generate_key_pair, running_sandbox
from treasury.sandbox.faults import FAULTS
from treasury.settings import Settings

LATENCY_SECONDS = 0.05
RESEND_SECONDS = 4.0
EACH = [name for name in FAULTS if name not in ("slow", "flip_final")]
"""Faults of the small run: not slowness, which all answers have here, and no money that comes back later."""


def serve(key: str, port: int, faults: Sequence[str]) -> None:
    """Be the sandbox until the end of the input."""
    rates = {name: float(rate) for name, rate in (each.split("=") for each in faults)}
    settings = SandboxSettings(
        public_key=key,
        port=port,
        settle_seconds=0.0,
        slow_seconds=LATENCY_SECONDS,
        faults={"slow": 1.0, **rates},
        timestamp_tolerance_seconds=3600.0,
    )
    with running_sandbox(settings) as sandbox:
        print(sandbox.base_url, flush=True)
        sys.stdin.read()


@contextmanager
def opened(faults: Mapping[str, float]) -> Iterator[tuple[Desk, Path]]:
    """A desk at a sandbox with these faults, and its folder."""
    private, public = generate_key_pair()
    given = [f"{name}={rate}" for name, rate in faults.items()]
    command = [sys.executable, "-m", "bench.pace", "--serve", public, *given]
    with (
        tempfile.TemporaryDirectory(prefix="treasury-bench-") as folder,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server,  # noqa: S603
    ):
        assert server.stdout is not None
        url, home = server.stdout.readline().strip(), Path(folder)
        settings = Settings(
            home=home,
            base_url=url,
            partner_id=None,
            private_key_file=None,
            platform_key_file=None,
            ledger_url=f"sqlite:///{home / 'ledger.db'}",
            ledger_key_file=home / "key",
            resend_after_seconds=RESEND_SECONDS,
        )
        desk = Desk(Account(url, "900001", private), settings)
        try:
            yield desk, home
        finally:
            desk.close()
            server.terminate()


def seconds_until_all_left(rows: int, faults: Mapping[str, float]) -> float:
    """Seconds until every row of a run was transmitted once."""
    with opened(faults) as (desk, home):
        ids = [each for some in paying.commit(desk, sheet(home, rows), "run") for each in some]
        began = time.monotonic()
        execution.send_orders(desk, "run", ids)
        seconds = time.monotonic() - began
        assert all(order.sends for order in desk.ledger.orders(run_key="run"))
        return seconds


def seconds_until_known(rows: int, faults: Mapping[str, float]) -> float:
    """Seconds until a run has nothing unknown any more."""
    with opened(faults) as (desk, home):
        ids = [each for some in paying.commit(desk, sheet(home, rows), "run") for each in some]
        began = time.monotonic()
        execution.send_orders(desk, "run", ids)
        while desk.ledger.order_ids("run", (State.UNKNOWN,)):
            execution.follow_orders(desk, "run", ids, 0)
            time.sleep(0.5)
        return time.monotonic() - began


def main() -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_500)
    parser.add_argument("--serve", nargs="+")
    asked = parser.parse_args()
    if asked.serve:
        serve(asked.serve[0], 0, asked.serve[1:])
        return
    for _ in range(3):
        calm = seconds_until_all_left(asked.rows, {})
        busy = seconds_until_all_left(asked.rows, {"rate_limit_429_bare": 0.02})
        print(f"{asked.rows} rows: {calm:.1f} s; with 2 % of 429 {busy:.1f} s, {busy / calm:.2f} times", flush=True)
    seconds = seconds_until_known(asked.rows // 5, dict.fromkeys(EACH, 0.04))
    print(f"{asked.rows // 5} rows with 4 % of each fault: nothing is unknown after {seconds:.1f} s")


if __name__ == "__main__":
    main()
