"""Progress of long work, read from the ledger: done and total."""

from collections import Counter
from collections.abc import Sequence

from sqlalchemy import case, func, select

from treasury.concurrency.batches import batched
from treasury.ledger import schema
from treasury.ledger.ledger import Ledger
from treasury.orders.states import State


def sent(ledger: Ledger, run_key: str) -> tuple[int, int]:
    """Orders of a run that were sent or need not be, and the total."""
    orders = schema.orders.c
    done = func.coalesce(func.sum(case((orders.state != State.PREPARED.value, 1), else_=0)), 0)
    [row] = ledger.read(select(done, func.count()).where(orders.run_key == run_key))
    return int(row[0]), int(row[1])


def outcomes(ledger: Ledger, ids: Sequence[int]) -> dict[str, int]:
    """Outcome -> how many of these orders have it now."""
    orders, found = schema.orders.c, Counter[str]()
    for some in batched(ids):
        counted = select(orders.state, func.count().label("orders")).where(orders.id.in_(some)).group_by(orders.state)
        for row in ledger.read(counted):
            found[State(row.state).outcome] += row.orders
    return dict(found)


def asked(ledger: Ledger) -> tuple[int, int]:
    """Answered questions of the current sweep, and the total; (0, 0) when there is no current sweep."""
    sweeps, reports, answers = schema.sweeps.c, schema.reports.c, schema.answers.c
    going_on = (
        select(func.max(sweeps.id))
        .outerjoin(schema.reports, reports.sweep_id == sweeps.id)
        .where(reports.sweep_id.is_(None))
        .scalar_subquery()
    )
    query = select(func.count(answers.service_side), func.count()).where(answers.sweep_id == going_on)
    [row] = ledger.read(query)
    return int(row[0]), int(row[1])
