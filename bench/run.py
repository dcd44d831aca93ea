"""Every case and its rivals, interleaved in one run: `python -m bench.run [--rows N] [--rounds N] [--tasks N]`.

Against a service on this machine that answers at once and shares its cores. What counts is each rate beside the signing
limit of the same round; absolute rates say more about the machine. Writes `bench/results.json` and prints the table.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from bench import rivals
from flows.commands.prefect_server import prefect_api
from treasury.desk import Desk
from treasury.interface.client import Account
from treasury.ledger.sweeps import Scope
from treasury.runs import execution, payouts, sweep
from treasury.sandbox import generate_key_pair
from treasury.settings import IN_FLIGHT, Settings

RESULTS = Path(__file__).parent / "results.json"
HEADER = (
    "row_ref,route,amount,currency,settle_currency,payout_method,account_no,account_name,country,bank_code,phone,email"
)
WARMED = 200


@contextmanager
def service(latency_seconds: float = 0.0) -> Iterator[str]:
    """A service in a process of its own; its address."""
    command = [sys.executable, "-m", "bench.service", "--latency", str(latency_seconds)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 - our own interpreter, our own module
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.terminate()


@contextmanager
def desk(url: str, key: str, in_flight: int = IN_FLIGHT, processes: int = 1) -> Iterator[tuple[Desk, Path]]:
    """A desk with a ledger of its own, and its folder."""
    home = Path(tempfile.mkdtemp(prefix="treasury-bench-"))
    ledger_url = f"sqlite:///{home / 'ledger.db'}"
    limits = {"in_flight": in_flight, "processes": processes}
    settings = Settings(home, None, None, None, None, ledger_url, home / "key", **limits)
    opened = Desk(Account(url, "900001", key), settings)
    try:
        yield opened, home
    finally:
        opened.close()
        shutil.rmtree(home)


def sheet(home: Path, rows: int) -> Path:
    """So many direct rows."""
    pays, whom = "direct,10.00,USDT,IDR,bank_transfer", "Example Person,ID,1000120,0812000,p@example.com"
    lines = (f"r{number},{pays},{10**10 + number},{whom}" for number in range(rows))
    file = home / "rows.csv"
    file.write_text("\n".join([HEADER, *lines]) + "\n")
    return file


def product(url: str, key: str, rows: int, in_flight: int = IN_FLIGHT) -> dict[str, float]:
    """Payouts a second, then questions a second about the same orders; what starts once is done before."""
    with desk(url, key, in_flight) as (opened, home):
        ids = [one for chunk in payouts.commit_payouts(opened, sheet(home, rows + WARMED), "run") for one in chunk]
        execution.send_orders(opened, "run", ids[:WARMED])
        sent = rivals.rate(lambda: execution.send_orders(opened, "run", ids[WARMED:]), rows)
        asked = [one for chunk in sweep.open_chunks(opened, sweep.start_sweep(opened, Scope())) for one in chunk]
        sweep.ask_orders(opened, asked[:WARMED])
        return {"payouts": sent, "sweep": rivals.rate(lambda: sweep.ask_orders(opened, asked[WARMED:]), rows)}


def one_round(rows: int, tasks: int, key: str) -> dict[str, float]:
    """Every case once."""
    ids = [f"tf-{number:026d}" for number in range(rows)]
    with service() as url:
        with desk(url, key) as (opened, _):
            found = {"signing": rivals.signing(opened.client, max(rows, 2_000))}
            found["httpx threads"] = rivals.httpx_threads(opened.client, ids)
            found["httpx async"] = rivals.httpx_async(opened.client, ids)
            if tasks:
                found["task per id"] = rivals.task_per_id(opened.client, ids[:tasks])
        found |= product(url, key, rows)
    with service(0.1) as url:
        slow = product(url, key, rows, in_flight=256)
    return found | {f"{name}, 100 ms, 256 in flight": value for name, value in slow.items()}


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=4_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tasks", type=int, default=200, help="ids of the flow with a task for each; 0 leaves it out")
    asked = parser.parse_args()
    os.environ.setdefault("PREFECT_LOGGING_LEVEL", "ERROR")
    key = generate_key_pair()[0]
    with prefect_api() if asked.tasks else nullcontext():
        rounds = [one_round(asked.rows, asked.tasks, key) for _ in range(asked.rounds)]
    report(rounds, vars(asked))


def report(rounds: list[dict[str, float]], asked: Mapping[str, Any]) -> None:
    """Print and keep: each rate, and its share of the signing limit of its own round."""
    table: dict[str, dict[str, float]] = {}
    middle: Callable[[list[float]], float] = statistics.median
    for name in rounds[0]:
        table[name] = {
            "per_second": round(middle([each[name] for each in rounds]), 1),
            "share": round(middle([each[name] / each["signing"] for each in rounds]), 4),
            "lowest_share": round(min(each[name] / each["signing"] for each in rounds), 4),
            "highest_share": round(max(each[name] / each["signing"] for each in rounds), 4),
        }
        line = table[name]
        print(f"{name:36} {line['per_second']:>9} /s   {line['share']:.3f} of the signing limit")
    RESULTS.write_text(json.dumps({"asked": dict(asked), "cores": os.cpu_count(), "cases": table}, indent=2) + "\n")


if __name__ == "__main__":
    main()
