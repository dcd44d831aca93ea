"""How a reconciliation grows: so many orders with stored answers, compared and written, without asking anybody.

    python -m tests.reconciliation.million [ORDERS ...]

Each size runs in a process of its own; prints time and memory of making the report, and what of it grew.
"""

import json
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SIZES = (100_000, 1_000_000)
WRONG_EVERY = 1_000


def answers(orders: int, now: int) -> Iterator[tuple[int, str, int, str, str, int]]:
    """Both sides of each order as a sweep stores them; one in a thousand differs."""
    for number in range(orders):
        request_id, wrong = f"tf-{number:026d}", number % WRONG_EVERY == 0
        at = now - 3_600_000 * (number % 500)
        ours: dict[str, Any] = {
            "request_id": request_id,
            "run_key": "run",
            "row_ref": f"row-{number}",
            "operation": "payout",
        }
        ours |= {"state": "settled", "currency": "USDT", "amount": f"{number % 977}.{number % 100:02d}"}
        ours |= {"receive_currency": "IDR", "known_order_no": f"P{number}", "created_at": at, "sent_at": at}
        theirs: dict[str, Any] = {"answer": "found", "status": 99, "order_no": f"P{number}", "seen_currency": "USDT"}
        theirs |= {"seen_amount": f"{number % 977 + wrong}.{number % 100:02d}", "seen_fee": "0.10"}
        theirs["raw"] = {"order_no": f"P{number}", "request_id": request_id, "status": 99, "metadata": {}}
        yield 1, request_id, number, json.dumps({**ours, "final_at": at}), json.dumps(theirs), now


def measure(orders: int) -> None:
    """One size, in this process."""
    from treasury.ledger import closing
    from treasury.nights.reporting import report_sweep
    from treasury.payments.desk import Desk
    from treasury.policy.model import Policy
    from treasury.provider.client import Account
    from treasury.provider.service_rules import ServiceRules
    from treasury.reconciliation.scope import Scope
    from treasury.sandbox import generate_key_pair
    from treasury.settings import Settings

    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        settings = Settings(home, None, None, None, None, f"sqlite:///{home / 'ledger.db'}", home / "key")
        desk = Desk(Account("http://127.0.0.1:9", "900001", generate_key_pair()[0]), settings)
        with sqlite3.connect(home / "ledger.db") as database:
            now = desk.ledger.now()
            database.execute("INSERT INTO sweeps (id, started_at, scope) VALUES (1, ?, ?)", (now, Scope().as_text()))
            columns = "sweep_id, request_id, order_id, ledger_side, service_side, asked_at"
            database.executemany(f"INSERT INTO answers ({columns}) VALUES (?, ?, ?, ?, ?, ?)", answers(orders, now))
        database.close()
        began, worked = time.monotonic(), time.process_time()
        closing.close_sweep(desk.ledger, 1, Scope(), ServiceRules())
        report = report_sweep(desk, 1, home / "out", Policy())
        took, work = time.monotonic() - began, time.process_time() - worked
        assert report["counts"] == {"amount_mismatch": orders // WRONG_EVERY, "matched": orders - orders // WRONG_EVERY}
        desk.close()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"{orders:>9} orders: {took:6.1f} s, {work:6.1f} s of work, {memory} MB at most", flush=True)


def main() -> None:
    """Each size in a process of its own."""
    sizes = [int(size) for size in sys.argv[1:]] or list(SIZES)
    if len(sizes) == 1:
        measure(sizes[0])
        return
    for size in sizes:
        subprocess.run([sys.executable, "-m", "tests.reconciliation.million", str(size)], check=True)


if __name__ == "__main__":
    main()
