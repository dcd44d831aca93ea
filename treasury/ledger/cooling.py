"""Cooling time: the first withdrawal to an address waits some hours, or for a person."""

from sqlalchemy import Connection, func, select

from treasury.ledger import schema
from treasury.ledger.database import serialize
from treasury.ledger.duplicates import may_be_paid
from treasury.ledger.ledger import Ledger
from treasury.orders.records import Order
from treasury.orders.states import NEVER_LEFT, Event, Hold, State

HOUR_MS = 3_600_000


def cool(ledger: Ledger, run_key: str, hours: int) -> None:
    """Hold what waits of a run and pays somebody new; release it when so many hours passed since it was recorded."""
    for order in ledger.orders(run_key=run_key, states=NEVER_LEFT):
        over = order.created_at + hours * HOUR_MS
        if order.state is State.HELD:
            if order.hold_kind == Hold.COOLING and ledger.now() >= over:
                ledger.step(order, Event.RELEASE, cause="its cooling time is over", hold_kind=None, reason=None)
        elif (
            Hold.COOLING.value not in (order.released or "").split() and ledger.now() < over and _is_new(ledger, order)
        ):
            reason = f"the first payment to this address: it waits {hours} h, or until a person releases it"
            ledger.step(order, Event.HOLD, cause=reason, reason=reason, hold_kind=Hold.COOLING)


def _is_new(ledger: Ledger, order: Order) -> bool:
    """Tell whether nothing of this ledger may have been paid to an order's payee before."""
    mine, other = schema.orders.alias(), schema.orders.alias()
    query = (
        select(func.count())
        .select_from(mine.join(other, other.c.payee == mine.c.payee))
        .where(mine.c.id == order.id, other.c.id != mine.c.id, may_be_paid(other))
    )

    def work(connection: Connection) -> bool:
        serialize(connection)
        return not connection.execute(query).scalar()

    return ledger.write(work)
