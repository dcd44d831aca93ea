"""Orders that the service has shown. They are queried before an absence of another order is believed."""

from collections.abc import Collection

from sqlalchemy import select

from treasury.ledger import schema
from treasury.ledger.ledger import Ledger
from treasury.ledger.mapping import read_row
from treasury.orders.records import Order
from treasury.orders.states import State

SHOWN = (State.ACCEPTED, State.SETTLED, State.FAILED, State.CLOSED)


def last_shown(ledger: Ledger, operations: Collection[str], number: int) -> list[Order]:
    """The last orders of these operations that the service has shown under a number of its own, latest first."""
    table = schema.orders.c
    query = select(schema.orders).where(
        table.operation.in_(sorted(operations)),
        table.state.in_([state.value for state in SHOWN]),
        table.order_no.is_not(None),
    )
    return [read_row(Order, row) for row in ledger.read(query.order_by(table.id.desc()).limit(number))]
