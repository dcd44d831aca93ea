"""Sweeps in the ledger: both sides of every order, so that a report can be made again and a cut-off sweep resumed."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from sqlalchemy import Connection, bindparam, insert, select, update

from treasury.ledger import schema
from treasury.ledger.ledger import Ledger
from treasury.ledger.records import Order, Quote
from treasury.money import format_amount

SUPERSEDED = "superseded"
"""State of a quote that another followed: nothing may have come of it."""

AMOUNTS = ("amount", "receive_amount", "seen_amount", "seen_receive_amount", "fee")


@dataclass(frozen=True)
class Question:
    """One request id to ask about."""

    id: int
    request_id: str
    operation: str
    order_id: int | None
    """None for a quote that another followed."""


def start_sweep(ledger: Ledger, scope: Mapping[str, Any], orders: Sequence[Order], quotes: Sequence[Quote]) -> int:
    """Record a sweep over these orders and over quotes of theirs that another followed; returns its id."""
    by_id = {order.id: order for order in orders}
    rows = [_row(order.id, _order_side(order)) for order in orders]
    for quote in quotes:
        owner = by_id.get(quote.order_id)
        if owner is not None and quote.request_id != owner.request_id:
            rows.append(_row(None, _quote_side(owner, quote)))

    def work(connection: Connection) -> int:
        sweep = {"started_at": ledger.now(), "scope": json.dumps(scope)}
        sweep_id = connection.execute(insert(schema.sweeps).values(**sweep).returning(schema.sweeps.c.id)).scalar_one()
        if rows:
            connection.execute(insert(schema.answers), [{**row, "sweep_id": sweep_id} for row in rows])
        return int(sweep_id)

    return ledger.write(work)


def open_questions(ledger: Ledger, sweep_id: int) -> list[int]:
    """Ids of what the sweep has not asked yet."""
    table = schema.answers.c
    query = select(table.id).where(table.sweep_id == sweep_id, table.service_side.is_(None)).order_by(table.id)
    return [row.id for row in ledger.read(query)]


def questions(ledger: Ledger, ids: Sequence[int]) -> list[Question]:
    """These questions."""
    table = schema.answers.c
    rows = ledger.read(select(schema.answers).where(table.id.in_(ids)).order_by(table.id))
    return [Question(row.id, row.request_id, json.loads(row.ledger_side)["operation"], row.order_id) for row in rows]


def record_answers(ledger: Ledger, answers: Mapping[int, Mapping[str, Any]]) -> None:
    """Record the service's side of these questions."""
    rows = [{"question": key, "side": _to_text(side), "at": ledger.now()} for key, side in answers.items()]
    table = schema.answers
    query = update(table).where(table.c.id == bindparam("question"))
    query = query.values(service_side=bindparam("side"), asked_at=bindparam("at"))
    if rows:
        ledger.write(lambda connection: connection.execute(query, rows).rowcount)


def both_sides(ledger: Ledger, sweep_id: int) -> list[dict[str, Any]]:
    """Every order of a sweep with both its sides; the service's is empty where it was not asked."""
    table = schema.answers.c
    query = select(table.ledger_side, table.service_side).where(table.sweep_id == sweep_id).order_by(table.id)
    return [{**_from_text(row.ledger_side), **_from_text(row.service_side or "{}")} for row in ledger.read(query)]


def _row(order_id: int | None, side: dict[str, Any]) -> dict[str, Any]:
    return {"request_id": side["request_id"], "order_id": order_id, "ledger_side": _to_text(side)}


def _to_text(side: Mapping[str, Any]) -> str:
    plain = {name: format_amount(value) if isinstance(value, Decimal) else value for name, value in side.items()}
    return json.dumps(plain, ensure_ascii=False)


def _from_text(stored: str) -> dict[str, Any]:
    side: dict[str, Any] = json.loads(stored)
    for name in AMOUNTS:
        if side.get(name) is not None:
            side[name] = Decimal(side[name])
    return side


def _order_side(order: Order) -> dict[str, Any]:
    return {
        "request_id": order.request_id,
        "run_key": order.run_key,
        "row_ref": order.row_ref,
        "operation": order.operation,
        "state": order.state.value,
        "currency": order.currency,
        "amount": order.amount,
        "receive_currency": order.receive_currency,
        "receive_amount": order.receive_amount,
    }


def _quote_side(owner: Order, quote: Quote) -> dict[str, Any]:
    return {
        **_order_side(owner),
        "request_id": quote.request_id,
        "state": SUPERSEDED,
        "currency": quote.pay_currency,
        "amount": quote.pay_amount,
        "receive_currency": quote.receive_currency,
        "receive_amount": quote.receive_amount,
    }
