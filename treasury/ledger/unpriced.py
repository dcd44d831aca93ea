"""Open orders, and those whose debit nobody knew when they were sent (scan-to-pay): what they moved, or may have."""

import json
from collections import defaultdict
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from sqlalchemy import select

from treasury.ledger import schema
from treasury.ledger.last_answers import Stream, last_answers, shows_amount
from treasury.orders.states import OPEN, State
from treasury.provider.catalogue import CATALOGUE
from treasury.provider.service_rules import ServiceRules


def on_its_way(row: Any, rules: ServiceRules) -> Iterator[tuple[str, str, Decimal]]:
    """Yield sum of `Flows`, currency and amount of all that an open order moves."""
    name = debit_of(row, rules)
    yield name, row.currency, Decimal(row.amount)
    if row.operation in rules.fee_on_top and row.fee is not None:
        yield name, row.fee_currency or row.currency, Decimal(row.fee)
    if brings(row):
        yield "receiving", row.receive_currency, Decimal(row.receive_amount)


def brings(row: Any) -> bool:
    """Tell whether an order brings an amount to a balance of ours, as a conversion does."""
    return CATALOGUE[row.operation].may_show_what_arrives and row.receive_amount is not None


def debit_of(row: Any, rules: ServiceRules) -> str:
    """Return the sum of `Flows` that the amount of an open order belongs to."""
    when = rules.debited_when.get(row.operation)
    is_shown = row.order_no is not None or row.status is not None  # else it is accepted on a person's word
    if when == "accepted" and row.state == State.ACCEPTED.value and is_shown:
        return "debited"
    return "undebited" if when == "final" else "in_flight"


def unpriced_orders(stream: Stream, sweep_id: int) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Yield those that are open or settled, each with the last answer that shows its amount in its currency, or in
    any where the ledger knows none. Of an open one that no answer shows, its ceiling stands for the amount."""
    orders, answers = schema.orders.c, schema.answers.c
    facts = (orders.id, orders.operation, orders.currency, orders.state, orders.created_at, orders.ceiling)
    shown = (answers.sweep_id == sweep_id) & (answers.order_id == orders.id) & shows_amount(orders.currency)
    query = select(*facts, orders.sent_at, orders.request_id, answers.service_side).outerjoin_from(
        schema.orders, schema.answers, shown
    )
    states = [state.value for state in (*OPEN, State.SETTLED)]
    rows = list(stream(query.where(orders.amount.is_(None), orders.state.in_(states))))
    unheard: dict[str | None, list[str]] = defaultdict(list)
    for row in rows:
        if row.service_side is None:
            unheard[row.currency].append(row.request_id)
    before = dict[str, Any]()
    for currency, request_ids in unheard.items():
        before |= last_answers(stream, sweep_id, request_ids, shows_amount(currency))
    for row in rows:
        said = row if row.service_side is not None else before.get(row.request_id)
        if said is not None:
            yield row, json.loads(said.service_side)
        elif row.ceiling is not None and row.state != State.SETTLED.value:
            yield row, {"seen_amount": row.ceiling}
