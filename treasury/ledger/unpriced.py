"""Orders whose debit nobody knew when they were sent (scan-to-pay): what of a balance they have moved, or may have."""

import json
from collections.abc import Collection, Iterator
from decimal import Decimal
from typing import Any

from sqlalchemy import select

from treasury.ledger import schema
from treasury.ledger.last_answers import SHOWS_AMOUNT, Stream, last_answers
from treasury.orders.states import OPEN, State


def add_unpriced(
    stream: Stream,
    sweep_id: int,
    flows: dict[str, dict[str, Decimal]],
    ages: dict[str, list[tuple[int, str]]],
    fee_on_top: Collection[str],
) -> None:
    """Add their debits, by what the service showed of each in this sweep, or last before it, to the flows."""
    for row, shown in _with_what_is_shown(stream, sweep_id):
        state, currency = State(row.state), row.currency or shown.get("seen_currency")
        if currency is None:
            continue
        name = "unpriced" if state is State.SETTLED else "in_flight"
        flows[currency][name] += Decimal(shown["seen_amount"])
        if state in OPEN:
            ages[currency].append((row.created_at, row.request_id))
        if row.operation in fee_on_top and shown.get("seen_fee") is not None:
            flows[shown.get("seen_fee_currency") or currency][name] += Decimal(shown["seen_fee"])


def _with_what_is_shown(stream: Stream, sweep_id: int) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Yield those that are open or settled, each with the last answer that shows its amount."""
    orders, answers = schema.orders.c, schema.answers.c
    facts = (orders.operation, orders.currency, orders.state, orders.created_at, orders.request_id)
    shown = (answers.sweep_id == sweep_id) & (answers.order_id == orders.id) & SHOWS_AMOUNT
    query = select(*facts, answers.service_side).outerjoin_from(schema.orders, schema.answers, shown)
    states = [state.value for state in (*OPEN, State.SETTLED)]
    rows = list(stream(query.where(orders.amount.is_(None), orders.state.in_(states))))
    unheard = [row.request_id for row in rows if row.service_side is None]
    before = last_answers(stream, sweep_id, unheard, SHOWS_AMOUNT)
    for row in rows:
        said = row if row.service_side is not None else before.get(row.request_id)
        if said is not None:
            yield row, json.loads(said.service_side)
