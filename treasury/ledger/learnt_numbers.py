"""When the ledger learnt the references and numbers under which the service shows what it means."""

import json

from sqlalchemy import func, select

from treasury.ledger import schema
from treasury.ledger.ledger import Ledger
from treasury.ledger.receipts import receipt_answers
from treasury.ledger.sweeps import RECEIPT
from treasury.reconciliation.numbers import Name


def learnt_numbers(ledger: Ledger) -> dict[Name, int]:
    """Return every reference and number of an order, pay-in or deposit -> when it was learnt, Unix ms.

    An order's own references are known when they are made, its number with the first step by which the
    service told a status.
    """
    orders, quotes, journal = schema.orders.c, schema.quotes.c, schema.journal.c
    told = select(journal.order_id, func.min(journal.at).label("at")).where(journal.status.is_not(None))
    steps = told.group_by(journal.order_id).subquery()
    numbered = select(orders.order_no, orders.operation, func.coalesce(steps.c.at, orders.created_at))
    numbered = numbered.outerjoin_from(schema.orders, steps, steps.c.order_id == orders.id)
    found: dict[Name, int] = {}

    def learn(text: str | None, at: int, operation: str | None = None) -> None:
        if text:
            name = text if operation is None else (text, operation)
            found[name] = min(at, found.get(name, at))

    with ledger.snapshot() as stream:
        for row in stream(select(orders.request_id, orders.confirmation, orders.created_at, orders.operation)):
            learn(row.request_id, row.created_at)
            learn(row.confirmation, row.created_at, row.operation)
        of_quotes = select(quotes.request_id, quotes.quote, quotes.created_at, orders.operation)
        for row in stream(of_quotes.join_from(schema.quotes, schema.orders)):
            learn(row.request_id, row.created_at)
            learn(row.quote, row.created_at, row.operation)
        for number, operation, at in stream(numbered.where(orders.order_no.is_not(None))):
            learn(number, at, operation)
        for row in stream(receipt_answers()):
            if json.loads(row.ledger_side)["operation"] == RECEIPT:
                learn(row.request_id, row.asked_at)
                learn(json.loads(row.service_side).get("order_no"), row.asked_at, RECEIPT)
    return found
