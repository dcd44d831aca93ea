"""Ledgers as a database holds them: with orders in every state, and of the formats of before the first release."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from sqlalchemy import MetaData, create_engine, select, text
from sqlalchemy.pool import NullPool

from tests.engine.answers import payout
from tests.engine.intents import commit
from treasury.ledger.database import sqlite_file
from treasury.ledger.intents import commit_plan
from treasury.ledger.ledger import Ledger
from treasury.orders.records import Intent
from treasury.orders.states import Event, Hold

STEPS = {
    "prepared": (),
    "sending": (Event.SEND,),
    "unknown": (Event.SEND, Event.LOSE),
    "accepted": (Event.SEND, Event.ACCEPT),
    "settled": (Event.SEND, Event.ACCEPT, Event.SETTLE),
    "failed": (Event.SEND, Event.ACCEPT, Event.FAIL),
    "closed": (Event.SEND, Event.ACCEPT, Event.CLOSE),
    "rejected": (Event.SEND, Event.REJECT),
    "held": (Event.HOLD,),
    "cancelled": (Event.CANCEL,),
}
"""Row -> the steps that lead to the state of its name."""


def plain_engine(url: str) -> Any:
    """The database as it is, without anything that the ledger does when it is opened."""
    return create_engine(url.replace("postgresql://", "postgresql+psycopg://"), poolclass=NullPool)


def put_ledger(url: str, account: str, key_file: Path) -> None:
    """Put a ledger there with an order in every state, and one of another run."""
    ledger = Ledger(url, account, key_file)
    commit_plan(ledger, "november", "payout", {}, "0" * 64, [order_for(ref) for ref in STEPS])
    for order in ledger.orders():
        at = order
        for event in STEPS[order.row_ref]:
            facts: dict[str, Any] = {"hold_kind": Hold.KNOWN} if event is Event.HOLD else {}
            at = ledger.step(at, event, cause="a test", **facts)
    commit(ledger, "other", run_key="october")
    ledger.close()


def order_for(ref: str) -> Intent:
    return replace(payout(), row_ref=ref, duplicate_key=(f"payee {ref}", "USDT", "10"))


def put_unreleased(url: str, number: str, account: str) -> None:
    """Put there what is read of a ledger of such a format before anything else, as it was written then."""
    file = sqlite_file(url)
    engine = plain_engine(url)
    if file is not None:
        file.touch(mode=0o600)
        with engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA journal_mode=WAL")
    rows = {"schema": number, "account": account, "key": "0" * 64, "identity": "f" * 32, "rehearsal": "1"}
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE meta (key VARCHAR(40) NOT NULL, value TEXT NOT NULL, PRIMARY KEY (key))"))
        connection.execute(text("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY)"))
        connection.execute(text("CREATE TABLE orders (request_id VARCHAR(64) NOT NULL, state VARCHAR(10) NOT NULL)"))
        connection.execute(text("INSERT INTO alembic_version VALUES (:n)"), {"n": f"{int(number):04d}"})
        connection.execute(text("INSERT INTO orders VALUES ('open', 'unknown')"))
        for key, value in rows.items():
            connection.execute(text("INSERT INTO meta VALUES (:k, :v)"), {"k": key, "v": value})


def contents(url: str) -> dict[str, list[dict[str, Any]]]:
    """Every row of every table, whatever tables there are."""
    engine = plain_engine(url)
    tables = MetaData()
    tables.reflect(engine)
    found = {}
    with engine.connect() as connection:
        for name, table in tables.tables.items():
            rows = [dict(row._mapping) for row in connection.execute(select(table))]
            found[name] = sorted(rows, key=lambda row: [str(row[column.name]) for column in table.primary_key] or [""])
    return found
