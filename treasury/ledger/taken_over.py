"""Orders that were held, or had ended unpaid, and that the service pays all the same: their money may have moved before
the ledger counts it."""

import json
from collections.abc import Mapping
from typing import Any

from sqlalchemy import ColumnElement, Label, and_, exists, select

from treasury.concurrency.batches import batched
from treasury.ledger import schema
from treasury.ledger.last_answers import IS_FOUND, Stream
from treasury.orders.states import OPEN, State
from treasury.provider.status import OrderStatus

_MOVES = (*OPEN, State.SETTLED)
"""States of an order whose money may have moved; in any other one the ledger counts nothing of it."""


def is_taken_over(order_id: ColumnElement[int]) -> ColumnElement[bool]:
    """Tell whether an order was held, or had ended unpaid, before it counted as sent."""
    journal = schema.journal.alias().c
    return exists().where(journal.order_id == order_id, _is_taking(journal))


def shown_when_opened(stream: Stream, opened: Mapping[str, Any]) -> dict[tuple[str, int], OrderStatus]:
    """Return currency and id -> status of the orders that the report which opened its account shows, though they were
    held, or had ended unpaid: the money of one that was paid is inside the opening, and of one on its way it may be.

    `opened`: currency -> that report.
    """
    journal, answers = schema.journal.c, schema.answers.c
    first = min((report.journal_id for report in opened.values()), default=0)
    taken = {row.order_id for row in stream(select(journal.order_id).where(journal.id > first, _is_taking(journal)))}
    sweeps = {report.sweep_id for report in opened.values()}
    found: dict[tuple[int, int], OrderStatus] = {}
    for some in batched(sorted(taken)):
        query = select(answers.sweep_id, answers.order_id, answers.ledger_side, answers.service_side)
        query = query.where(answers.sweep_id.in_(sweeps), answers.order_id.in_(some), IS_FOUND)
        for row in stream(query):
            ours, shown = json.loads(row.ledger_side), json.loads(row.service_side)
            if ours["state"] not in _MOVES and shown.get("status") is not None:
                found[row.sweep_id, row.order_id] = OrderStatus(shown["status"])
    return {
        (code, id): status
        for code, report in opened.items()
        for (sweep_id, id), status in found.items()
        if sweep_id == report.sweep_id
    }


def paid_when_opened(stream: Stream, opened: Mapping[str, Any]) -> set[tuple[str, int]]:
    """Return currency and id of those of `shown_when_opened` that were paid."""
    shown = shown_when_opened(stream, opened)
    return {key for key, status in shown.items() if status is OrderStatus.SUCCESS}


def _is_taking(journal: Any) -> ColumnElement[bool]:
    """Tell whether a step of the journal takes an order over."""
    targets = [State.ACCEPTED.value, State.SETTLED.value]
    return and_(journal.source.not_in([*_MOVES, State.PREPARED]), journal.target.in_(targets))


def landed_before() -> Label[bool]:
    """Tell of a step of the journal whether its order, which had ended, was paid before; for `is_first_landing`."""
    step, journal = schema.journal.c, schema.journal.alias().c
    was_paid = (journal.order_id == step.order_id) & (journal.target == State.SETTLED.value) & (journal.id < step.id)
    return (step.source.not_in([*OPEN, State.HELD]) & exists().where(was_paid)).label("landed_before")


def is_first_landing(row: Any) -> bool:
    """Tell whether a step of the journal is the first by which its order counts as paid; one that the service took
    back and paid again was paid before."""
    return bool(row.target == State.SETTLED and not row.landed_before)
