"""Compares the ledger with the sandbox's books after a case, reading it with SQL; shares no code with the engine."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from sqlalchemy import create_engine, make_url, text
from sqlalchemy.pool import NullPool

TRUE_STATES = {99: "settled", 44: "failed", 88: "closed"}
"""Final status at the service -> what the ledger must say."""
NOTHING_MOVED = ("prepared", "rejected", "held", "cancelled")
IN_THE_DARK = ("unknown", "sending")
CANCELLED_OR_BACK = ("cancelled", "held", "failed")
"""States of a cancelled row: held where an older ledger brought it back, failed where a person ended it after that."""


@dataclass
class Verdict:
    """A record of what a case came to."""

    faults: list[str] = field(default_factory=list)
    """Facts that break the promise; empty when it was kept."""
    states: dict[str, int] = field(default_factory=dict)
    effects: int = 0
    waiting: int = 0
    """Rows that are unknown, or not at their end."""
    invoices: int = 0
    """Invoices that the service made."""


def read_ledger(url: str) -> tuple[list[dict[str, Any]], dict[int, set[str]], dict[int, list[str]]]:
    """Orders, the request ids of each order with those of its quotes, and each order's journal."""
    parsed = make_url(url)
    if parsed.get_backend_name() == "postgresql":
        parsed = parsed.set(drivername="postgresql+psycopg")
    engine = create_engine(parsed, poolclass=NullPool)
    with engine.connect() as connection:
        orders = [dict(row._mapping) for row in connection.execute(text("SELECT * FROM orders ORDER BY id"))]
        quotes = connection.execute(text("SELECT order_id, request_id FROM quotes")).all()
        journal = connection.execute(text("SELECT order_id, event FROM journal ORDER BY id")).all()
    engine.dispose()
    references = {order["id"]: {order["request_id"]} for order in orders}
    for order_id, request_id in quotes:
        references[order_id].add(request_id)
    events: dict[int, list[str]] = {order["id"]: [] for order in orders}
    for order_id, event in journal:
        events[order_id].append(event)
    return orders, references, events


def judge(
    ledger_url: str,
    shown: Sequence[Mapping[str, Any]],
    expected: Mapping[tuple[str, str], tuple[str | None, Decimal | None]],
    cancelled: Collection[tuple[str, str]] = (),
) -> Verdict:
    """Compare the ledger with the orders that the sandbox made. `cancelled`: rows of which a person was told so."""
    orders, references, events = read_ledger(ledger_url)
    verdict = Verdict()
    rows = {(order["run_key"], order["row_ref"]): order for order in orders}
    if lost := set(expected) - set(rows):
        verdict.faults.append(f"rows lost: {sorted(lost)}")
        verdict.waiting += len(lost)
    if strange := set(rows) - set(expected):
        verdict.faults.append(f"rows nobody asked for: {sorted(strange)}")
    claimed = 0
    for place, order in rows.items():
        names = references[order["id"]]
        there = [one for one in shown if one["request_id"] in names or one["order_no"] in names]
        claimed += len(there)
        verdict.effects += sum(one["effects"] for one in there)
        state = order["state"]
        verdict.states[state] = verdict.states.get(state, 0) + 1
        verdict.waiting += state not in ("settled", "failed", "closed", "rejected", "cancelled")
        if not (place in cancelled and state == "failed" and not there):
            verdict.faults += [f"{place}: {fault}" for fault in _faults(order, there, expected.get(place), events)]
        if place in cancelled:
            verdict.faults += [f"{place}: {fault}" for fault in _not_cancelled(state, there)]
    if claimed != len(shown):
        verdict.faults.append(f"the service made {len(shown)} orders, the ledger knows {claimed} of them")
    return verdict


def _not_cancelled(state: str, there: Sequence[Mapping[str, Any]]) -> list[str]:
    """Why a row does not stay what a person was told that it is."""
    said = [] if state in CANCELLED_OR_BACK else [f"cancelled, the ledger says {state}"]
    return said + [f"cancelled, and paid {one['effects']} times" for one in there if one["effects"]]


def _faults(
    order: Mapping[str, Any],
    there: Sequence[Mapping[str, Any]],
    asked: tuple[str | None, Decimal | None] | None,
    events: Mapping[int, list[str]],
) -> list[str]:
    faults = []
    effects = sum(one["effects"] for one in there)
    state = order["state"]
    if effects > 1:
        faults.append(f"paid {effects} times ({len(there)} orders)")
    if effects and state in NOTHING_MOVED:
        faults.append(f"money moved, the ledger says {state}")
    if not effects and state not in (*NOTHING_MOVED, *IN_THE_DARK):
        faults.append(f"no money moved, the ledger says {state}")
    for one in there:
        if state in TRUE_STATES.values() and TRUE_STATES.get(one["status"]) != state:
            faults.append(f"the ledger says {state}, the service {one['status']}")
        comparable = order["amount"] is not None and order["currency"] == one["currency"]
        if comparable and Decimal(order["amount"]) != one["amount"]:
            faults.append(f"{order['amount']} here, {one['amount']} there")
        if asked is not None and asked[1] is not None and (one["currency"], one["amount"]) != asked:
            faults.append(f"asked {asked}, paid {one['amount']} {one['currency']}")
    here = (order["currency"], Decimal(order["amount"] or 0))
    if asked is not None and asked[1] is not None and here != asked:
        faults.append(f"asked {asked}, the ledger says {order['amount']} {order['currency']}")
    sent = sum(event in ("send", "resend") for event in events[order["id"]])
    if sent != order["sends"]:
        faults.append(f"the journal shows {sent} sends, the row {order['sends']}")
    return faults
