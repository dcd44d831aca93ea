"""How far long work has come, by what stands in the ledger: done and all."""

from sqlalchemy import case, func, select

from treasury.ledger import schema
from treasury.ledger.ledger import Ledger
from treasury.orders.states import State


def sent(ledger: Ledger, run_key: str) -> tuple[int, int]:
    """Orders of a run that left, or need not; and all of them."""
    orders = schema.orders.c
    done = func.coalesce(func.sum(case((orders.state != State.PREPARED.value, 1), else_=0)), 0)
    [row] = ledger.read(select(done, func.count()).where(orders.run_key == run_key))
    return int(row[0]), int(row[1])


def asked(ledger: Ledger) -> tuple[int, int]:
    """Questions of the sweep that goes on that were answered, and all of them; (0, 0) when none goes on."""
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
