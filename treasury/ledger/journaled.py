"""The state of an order by its journal: of one that was changed by hand, its row says something else."""

from sqlalchemy import Connection, select

from treasury.ledger import schema
from treasury.orders.records import Order
from treasury.orders.states import State


def journaled_state(connection: Connection, order: Order) -> State:
    """Return the state that the last step of an order led to; its own where the journal has none.

    A step of an order that was changed by hand begins there, so that what has settled settles once.
    """
    journal = schema.journal.c
    last = select(journal.target).where(journal.order_id == order.id).order_by(journal.id.desc()).limit(1)
    found = connection.execute(last).scalar()
    return order.state if found is None else State(found)
