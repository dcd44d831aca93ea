"""Earlier answers about orders and receipts, for a sweep that heard nothing of them, or was not to ask."""

from collections.abc import Callable, Collection, Iterable
from typing import Any

from sqlalchemy import ColumnElement, func, literal, not_, select

from treasury.concurrency.batches import batched
from treasury.ledger import schema

Stream = Callable[[Any], Iterable[Any]]
"""Reads the rows of a query."""

_SHOWN = schema.answers.c.service_side

IS_FOUND = _SHOWN.like('{"answer": "found"%')
"""An answer by which the service knows what it was asked about."""


def shows_amount(currency: ColumnElement[str] | str | None) -> ColumnElement[bool]:
    """Select the answers that show an amount, in this currency or in one that they do not say; None: in any."""
    names_it = _SHOWN.like(literal('%"seen_currency": "') + func.coalesce(currency, "%") + literal('"%'))
    return _SHOWN.like('%"seen_amount": %') & (names_it | not_(_SHOWN.like('%"seen_currency": %')))


def last_answers(
    stream: Stream, sweep_id: int, request_ids: Collection[str], wanted: ColumnElement[bool]
) -> dict[str, Any]:
    """Return, by request id, the last answer that is as `wanted`, of the sweeps before this one, with both sides."""
    answers, sweeps = schema.answers.c, schema.sweeps.c
    columns = (answers.id, answers.request_id, answers.asked_at, answers.ledger_side, answers.service_side)
    found: dict[str, Any] = {}
    for some in batched(sorted(request_ids)):  # by sweep and request id together, which have an index
        query = select(*columns).join_from(schema.sweeps, schema.answers, answers.sweep_id == sweeps.id)
        query = query.where(sweeps.id < sweep_id, answers.request_id.in_(some), wanted).order_by(answers.id)
        found |= {row.request_id: row for row in stream(query)}
    return found
