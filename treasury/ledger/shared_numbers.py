"""Orders of one operation that the service told one order number: for all but one it showed another's record."""

from collections import defaultdict

import orjson
from sqlalchemy import func, select

from treasury.ledger import schema
from treasury.ledger.last_answers import Stream
from treasury.provider.catalogue import CATALOGUE

_COUNTED = [name for name, operation in CATALOGUE.items() if operation.asked_with and not operation.confirms_quote]
"""Operations whose numbers are of their orders alone: one that confirms a quote may show the quote's."""


def shared_numbers(stream: Stream, sweep_id: int) -> dict[str, str | None]:
    """Return request id -> that of another order which has its number still, as this sweep was told; None of one that
    the service shows under another number than the one that they shared."""
    orders, answers = schema.orders.c, schema.answers.c
    number, is_again = (orders.order_no, orders.operation), func.count() > 1
    often = select(orders.order_no).where(orders.order_no.is_not(None)).group_by(orders.order_no).having(is_again)
    counted = orders.order_no.in_(often) & orders.operation.in_(_COUNTED)
    shared = select(*number).where(counted).group_by(*number).having(is_again).subquery()
    has_it = (shared.c.order_no == orders.order_no) & (shared.c.operation == orders.operation)
    asked = (answers.sweep_id == sweep_id) & (answers.request_id == orders.request_id)
    query = select(orders.request_id, *number, answers.service_side).join_from(schema.orders, shared, has_it)
    found, together = dict[str, str | None](), defaultdict[tuple[str, str], list[str]](list)
    for row in stream(query.outerjoin(schema.answers, asked).order_by(orders.id)):
        side = orjson.loads(row.service_side or "{}")
        told = None if "seen_request_id" in side else side.get("order_no")
        if told not in (None, row.order_no):
            found[row.request_id] = None
        together[row.operation, told or row.order_no].append(row.request_id)
    for names in together.values():
        if len(names) > 1:
            found |= {name: next(other for other in names if other != name) for name in names}
    return found
