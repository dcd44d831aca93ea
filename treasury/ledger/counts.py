"""Counts for people: how far a long work has come, and how often each control acted in a period."""

from collections import Counter
from collections.abc import Mapping, Sequence

from sqlalchemy import ColumnElement, Connection, case, func, select

from treasury.approving.tokens import Verb
from treasury.concurrency.batches import batched
from treasury.ledger import schema
from treasury.ledger.ledger import Ledger
from treasury.orders.states import Event, State


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


_DECIDED = schema.decisions.c
_RESOLVED = [each.value for each in Event if each.name.startswith("RESOLVE_")]

COUNTED: Mapping[str, tuple[ColumnElement[int], ColumnElement[bool] | None]] = {
    "payments held": (schema.journal.c.at, schema.journal.c.event == Event.HOLD.value),
    "holds released": (schema.journal.c.at, schema.journal.c.event == Event.RELEASE.value),
    "payments cancelled": (schema.journal.c.at, schema.journal.c.event == Event.CANCEL.value),
    "outcomes decided by a person": (schema.journal.c.at, schema.journal.c.event.in_(_RESOLVED)),
    "approvals given": (_DECIDED.at, _DECIDED.verb == Verb.APPROVE.value),
    "plans rejected": (_DECIDED.at, _DECIDED.verb == Verb.REJECT.value),
    "decisions signed with a key": (_DECIDED.at, _DECIDED.token.is_not(None) & (_DECIDED.verb != Verb.APPROVE.value)),
    "stops of all sending": (_DECIDED.at, _DECIDED.verb == Verb.STOP.value),
    "policies adopted": (schema.policies.c.adopted_at, None),
    "differences accepted": (_DECIDED.at, _DECIDED.verb == Verb.ACCEPT.value),
}
"""Control (`docs/controls.md`) -> the time of its rows, and which rows of that table are its own."""


def controls_of(ledger: Ledger, first: int, after: int) -> dict[str, int]:
    """Control -> how often it acted from `first` up to `after`, both Unix milliseconds; all of `COUNTED`."""

    def work(connection: Connection) -> dict[str, int]:
        return {
            name: connection.execute(
                select(func.count()).where(at >= first, at < after, *(() if is_own is None else (is_own,)))
            ).scalar_one()
            for name, (at, is_own) in COUNTED.items()
        }

    return ledger.look(work)
