"""Open orders, and those whose debit nobody knew when they were sent (scan-to-pay): what they moved, or may have."""

import json
from collections.abc import Collection, Iterator, Mapping
from decimal import Decimal
from typing import Any

from sqlalchemy import select

from treasury.ledger import schema
from treasury.ledger.last_answers import SHOWS_AMOUNT, Stream, last_answers
from treasury.money import ZERO
from treasury.orders.states import OPEN, State
from treasury.provider.catalogue import CATALOGUE
from treasury.provider.service_rules import ServiceRules


def add_unpriced(
    stream: Stream,
    sweep_id: int,
    flows: dict[str, dict[str, Decimal]],
    ages: dict[str, list[tuple[int, str]]],
    fee_on_top: Collection[str],
    opened: Mapping[str, Any],
    inside: Collection[tuple[str, int]],
    pending: Collection[tuple[str, int]],
    since: int | None,
) -> None:
    """Add their debits, by what the service showed of each in this sweep, or last before it, to the flows.

    `opened`: currency -> the report that opened its account; `inside`: what its opening holds already; `pending`: what
    it may hold. `since`: when the report before was made, Unix ms; what was sent after it had not moved then.
    """
    for row, shown in _with_what_is_shown(stream, sweep_id):
        state, currency = State(row.state), row.currency or shown.get("seen_currency")
        if currency is None:
            continue
        debits = [(currency, Decimal(shown["seen_amount"]))]
        if row.operation in fee_on_top and shown.get("seen_fee") is not None:
            debits.append((shown.get("seen_fee_currency") or currency, Decimal(shown["seen_fee"])))
        for code, amount in debits:
            if (code, row.id) in pending:
                flows[code]["in_flight_then"] += amount
            if state is State.SETTLED:
                debit = ZERO if (code, row.id) in inside else amount
                flows[code]["unpriced"] += debit
                is_new = since is not None and row.sent_at is not None and row.sent_at > since
                flows[code]["unpriced_since"] += debit if is_new else 0
            else:
                add_open(flows, opened, pending, row, "in_flight", code, amount)
        if state in OPEN:
            ages[currency].append((row.created_at, row.request_id))


def add_open(
    flows: dict[str, dict[str, Decimal]],
    opened: Mapping[str, Any],
    pending: Collection[tuple[str, int]],
    row: Any,
    name: str,
    currency: str,
    amount: Decimal,
) -> None:
    """Add what an open order moves, and whether it was on its way when the account of the currency was opened."""
    flows[currency][name] += amount
    was_sent = row.sent_at is not None and currency in opened and row.sent_at <= opened[currency].as_of
    if (was_sent or (currency, row.id) in pending) and name in ("in_flight", "receiving"):
        flows[currency][f"{name}_before"] += amount


def on_its_way(row: Any, rules: ServiceRules) -> Iterator[tuple[str, str, Decimal]]:
    """Yield sum of `Flows`, currency and amount of all that an open order moves."""
    name = debit_of(row, rules)
    yield name, row.currency, Decimal(row.amount)
    if row.operation in rules.fee_on_top and row.fee is not None:
        yield name, row.fee_currency or row.currency, Decimal(row.fee)
    if CATALOGUE[row.operation].may_show_what_arrives and row.receive_amount is not None:
        yield "receiving", row.receive_currency, Decimal(row.receive_amount)


def debit_of(row: Any, rules: ServiceRules) -> str:
    """Return the sum of `Flows` that the amount of an open order belongs to."""
    when = rules.debited_when.get(row.operation)
    is_shown = row.order_no is not None or row.status is not None  # else it is accepted on a person's word
    if when == "accepted" and row.state == State.ACCEPTED.value and is_shown:
        return "debited"
    return "undebited" if when == "final" else "in_flight"


def add_ended(flows: dict[str, dict[str, Decimal]], ended: dict[str, list[int]], row: Any, rules: ServiceRules) -> None:
    """Add what the end of an order moved that the report before had on its way, where `debited_when` leaves no range:
    it may have ended after that report asked about it, or could not, and before it read the balance."""
    source, target, when = State(row.source), State(row.target), rules.debited_when.get(row.operation)
    if when == "final" and source in OPEN and target is State.SETTLED:
        name = "ended_out"
    elif when == "accepted" and source is State.ACCEPTED and target in (State.FAILED, State.CLOSED):
        name = "ended_in"
    else:
        return
    debits = [(row.currency, Decimal(row.amount))]
    if row.operation in rules.fee_on_top and row.fee is not None:
        debits.append((row.fee_currency or row.currency, Decimal(row.fee)))
    for currency, amount in debits:
        flows[currency][name] += amount
        ended[currency].append(row.sent_at)


def _with_what_is_shown(stream: Stream, sweep_id: int) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Yield those that are open or settled, each with the last answer that shows its amount."""
    orders, answers = schema.orders.c, schema.answers.c
    facts = (orders.id, orders.operation, orders.currency, orders.state, orders.created_at)
    shown = (answers.sweep_id == sweep_id) & (answers.order_id == orders.id) & SHOWS_AMOUNT
    query = select(*facts, orders.sent_at, orders.request_id, answers.service_side).outerjoin_from(
        schema.orders, schema.answers, shown
    )
    states = [state.value for state in (*OPEN, State.SETTLED)]
    rows = list(stream(query.where(orders.amount.is_(None), orders.state.in_(states))))
    unheard = [row.request_id for row in rows if row.service_side is None]
    before = last_answers(stream, sweep_id, unheard, SHOWS_AMOUNT)
    for row in rows:
        said = row if row.service_side is not None else before.get(row.request_id)
        if said is not None:
            yield row, json.loads(said.service_side)
