"""Reports in the ledger, in the sequence in which they were made."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import ColumnElement, Connection, insert, select, tuple_

from treasury.ledger import schema
from treasury.ledger.database import serialize
from treasury.ledger.ledger import Ledger
from treasury.reconciliation.scope import Scope

_REPORTS = schema.reports.c
IN_SEQUENCE = (_REPORTS.journal_id, _REPORTS.as_of, _REPORTS.sweep_id)
"""The sequence in which reports were made: a sweep that began first may end last."""

_LATEST_FIRST = tuple(each.desc() for each in IN_SEQUENCE)


def has_ended(connection: Connection, sweep_id: int) -> bool:
    """Tell whether the report of a sweep was made."""
    table = schema.reports.c
    return connection.execute(select(table.sweep_id).where(table.sweep_id == sweep_id)).first() is not None


def record_report(ledger: Ledger, row: Mapping[str, Any], before: int | None) -> bool:
    """Record a report that follows the one of a sweep, unless its own sweep has one; returns whether it still does."""
    reports = schema.reports.c
    newest = select(reports.sweep_id).where(reports.books == row["books"]).order_by(*_LATEST_FIRST).limit(1)

    def work(connection: Connection) -> bool:
        serialize(connection)
        if has_ended(connection, row["sweep_id"]):
            return True
        if connection.execute(newest).scalar() != before:
            return False
        connection.execute(insert(schema.reports).values(**row))
        return True

    return ledger.write(work)


def last_report(ledger: Ledger, scope: Scope, sweep_id: int) -> Any | None:
    """The report of these books that was made before that of a sweep, or that was made last where it has none."""
    query = select(schema.reports).where(schema.reports.c.books == scope.books, *made_before(ledger, sweep_id))
    return next(iter(ledger.read(query.order_by(*_LATEST_FIRST).limit(1))), None)


def made_before(ledger: Ledger, sweep_id: int) -> list[ColumnElement[bool]]:
    """Return the condition for reports that were made before that of a sweep; none where it has none."""
    own = ledger.read(select(*IN_SEQUENCE).where(schema.reports.c.sweep_id == sweep_id))
    return [tuple_(*IN_SEQUENCE) < tuple_(*each) for each in own]
