"""Every case and its rivals, interleaved in one run: `python -m bench.run [--rows N] [--rounds N] [--tasks N]`.

Against a service on this machine that answers at once and shares its cores. What counts is each rate beside the signing
limit of the same round; absolute rates say more about the machine. Writes `bench/results.json` and prints the table.
"""

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bench import rivals
from bench.commands import Timed, pay_and_reconcile
from tests.engine import paying
from tests.parts import FIRST, QUOTED, desk, postgresql, service, sheet
from treasury.nights import sweep
from treasury.orders.states import Event
from treasury.payments import execution
from treasury.payments.desk import Desk
from treasury.reconciliation.scope import Scope
from treasury.sandbox import generate_key_pair

RESULTS = Path(__file__).parent / "results.json"
WARMED = 400
"""Orders that are not counted: they open the connections and start what starts once."""


def product(url: str, key: str, rows: int, **settings: Any) -> dict[str, float]:
    """Payouts a second, quoted ones, and questions about the direct ones; under run keys that the service never saw."""
    with desk(url, key, **settings) as (opened, home):
        pay_first(opened, home)
        return {
            "payouts": pay(opened, sheet(home, rows + WARMED), f"direct-{home.name}"),
            "quoted payouts": pay(opened, sheet(home, rows + WARMED, QUOTED), f"quoted-{home.name}"),
            "sweep": ask(opened, f"direct-{home.name}"),
        }


def pay_first(opened: Desk, home: Path) -> None:
    """Make a machine's first run, which asks about each row before it leaves; later ones do not."""
    pay(opened, sheet(home, WARMED, FIRST), f"first-{home.name}")


def pay(opened: Desk, file: Path, run_key: str) -> float:
    """How many of a sheet's rows are paid a second; what starts once is done before."""
    ids = [one for chunk in paying.commit(opened, file, run_key) for one in chunk]
    execution.send_orders(opened, run_key, ids[:WARMED])
    return rivals.rate(lambda: execution.send_orders(opened, run_key, ids[WARMED:]), len(ids) - WARMED)


def ask(opened: Desk, run_key: str) -> float:
    """How many orders of a run are asked about a second; what starts once is done before."""
    parts = sweep.open_parts(opened, sweep.start_or_resume_sweep(opened, Scope(run_key)))
    asked = [one for ids in parts.values() for one in ids]
    sweep.ask_orders(opened, asked[:WARMED])
    return rivals.rate(lambda: sweep.ask_orders(opened, asked[WARMED:]), len(asked) - WARMED)


def waits_of_marks(url: str, key: str, orders: int, a_second: float) -> list[float]:
    """How long each order waits until it is marked on disk, ms, when so few leave a second."""
    with desk(url, key) as (opened, home):
        paying.commit(opened, sheet(home, orders), "run")
        waits = []
        for order in opened.ledger.orders(run_key="run"):
            began = time.perf_counter()
            opened.ledger.step(order, Event.SEND)
            waits.append(1000 * (time.perf_counter() - began))
            time.sleep(1 / a_second)
        return sorted(waits)


def one_round(rows: int, tasks: int, key: str, new_database: Callable[[], str]) -> dict[str, float]:
    """Every case once."""
    ids = [f"tf-{number:026d}" for number in range(rows)]
    with service() as url:
        with desk(url, key) as (opened, _):
            found = {"signing": rivals.signing(opened.client, max(rows, 2_000))}
            found["httpx threads"] = rivals.httpx_threads(opened.client, ids)
            found["httpx async"] = rivals.httpx_async(opened.client, ids)
            if tasks:
                found["task per id"] = rivals.task_per_id(opened.account, ids[:tasks])
        found |= product(url, key, rows)
        on_httpx = product(url, key, rows, http_engine="httpx")
        found |= {f"{name}, engine httpx": value for name, value in on_httpx.items()}
        on_postgresql = product(url, key, rows, ledger_url=new_database())
        found |= {f"{name} on PostgreSQL": value for name, value in on_postgresql.items()}
    with service(0.1) as url:
        slow = product(url, key, rows, in_flight=256)
    return found | {f"{name}, 100 ms, 256 in flight": value for name, value in slow.items()}


def outside(rows: int, less: int, key: str) -> dict[str, Any]:
    """The commands as people run them: rates and shares for `rows` less those for a few."""
    with service() as url:
        with desk(url, key) as (opened, _):
            limit = rivals.signing(opened.client, 8_000)
        few = pay_and_reconcile(url, key, less)
        many = pay_and_reconcile(url, key, rows)
    return {name: _less(timed, few[name], rows - less, limit) for name, timed in many.items()}


def _less(many: Timed, few: Timed, rows: int, limit: float) -> dict[str, float]:
    rate = rows / (many.seconds - few.seconds)
    return {
        "seconds": round(many.seconds, 1),
        "seconds_of_few": round(few.seconds, 1),
        "per_second": round(rate, 1),
        "share": round(rate / limit, 4),
        "max_mib": round(many.max_mib),
        "max_mib_of_few": round(few.max_mib),
    }


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=4_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tasks", type=int, default=200, help="ids of the flow with a task for each; 0 leaves it out")
    parser.add_argument("--outside", type=int, default=20_000, help="rows of the commands, less 200; 0 leaves them out")
    parser.add_argument("--large", type=int, default=0, help="rows of the commands, less a tenth; 0 leaves them out")
    asked = parser.parse_args()
    key = generate_key_pair()[0]
    with postgresql(durable=True) as new_database:
        rounds = [one_round(asked.rows, asked.tasks, key, new_database) for _ in range(asked.rounds)]
        with service() as url:
            waits = waits_of_marks(url, key, 200, 50)
    commands = {}
    if asked.outside:
        commands["outside"] = outside(asked.outside, 200, key)
    if asked.large:
        commands["large"] = outside(asked.large, asked.large // 10, key)
    report(rounds, vars(asked), {"middle": round(waits[100], 2), "longest": round(waits[-1], 2)}, commands)


def report(
    rounds: list[dict[str, float]],
    asked: Mapping[str, Any],
    waits: Mapping[str, float],
    commands: Mapping[str, Mapping[str, Any]],
) -> None:
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
    print(f"an order alone waits for its mark: {waits['middle']} ms, at most {waits['longest']} ms")
    for which, found in commands.items():
        for name, line in found.items():
            print(f"{which}: {name:12} {line}")
    kept = {"asked": dict(asked), "cores": os.cpu_count(), "cases": table, "waits_of_marks_ms": dict(waits), **commands}
    RESULTS.write_text(json.dumps(kept, indent=2) + "\n")


if __name__ == "__main__":
    main()
