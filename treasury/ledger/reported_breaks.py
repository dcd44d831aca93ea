"""Breaks in the ledger, as each report had them."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, case, delete, exists, func, insert, select, update

from treasury.approving.tokens import Verb
from treasury.ledger import schema
from treasury.ledger.database import serialize
from treasury.ledger.ledger import Ledger
from treasury.ledger.made_reports import reports_before, seal_of_breaks
from treasury.money import format_amount
from treasury.reconciliation.breaks import KEPT, RESOLVED, Break, Finding, KnownBreak
from treasury.reconciliation.classes import BALANCE_CLASSES
from treasury.reconciliation.scope import Scope


def known_breaks(ledger: Ledger, sweep_id: int | None = None) -> dict[str, KnownBreak]:
    """Id -> the break as the last report before this sweep had it (or the very last), unless it was resolved there.

    One that is gone because somebody accepted it is back once that was withdrawn; a lot is gone by an entry alone.
    """
    table = schema.breaks
    made = [row.sweep_id for row in reports_before(ledger, sweep_id, schema.reports.c.books == Scope().books)]
    place = _place(made, table.c.sweep_id)

    def last_rows(*which: ColumnElement[bool]) -> Select[Any]:
        latest = select(table.c.break_id, func.max(place).label("place")).where(table.c.sweep_id.in_(made), *which)
        last = latest.group_by(table.c.break_id).subquery()
        return select(table).join(last, (last.c.break_id == table.c.break_id) & (last.c.place == place))

    query = last_rows()
    decided, report = schema.decisions.c, schema.reports.c
    query = query.outerjoin(schema.reports, report.sweep_id == table.c.sweep_id)
    is_withdrawal = (decided.verb == Verb.WITHDRAW.value) & (decided.named == table.c.break_id)
    ended_since = is_withdrawal & (decided.at > report.as_of)
    is_back = table.c.name.not_in(BALANCE_CLASSES) & exists().where(ended_since).correlate(table, schema.reports)
    is_open = (table.c.lifecycle != RESOLVED) | is_back
    rows = ledger.read(query.where(is_open).order_by(table.c.break_id))
    kept = {  # by its first day, too: one that ended and began anew is another one
        (row.break_id, row.first_seen): _finding(row) for row in ledger.read(last_rows(table.c.name.in_(KEPT)))
    }
    return {
        row.break_id: KnownBreak(_finding(row), row.first_seen, kept.get((row.break_id, row.first_seen)))
        for row in rows
    }


def _place(made: Sequence[int], sweep_id: ColumnElement[int]) -> ColumnElement[int]:
    """Return the place of a sweep in the sequence in which reports were `made`: that of the sweeps, but for those that
    ended after one that began later."""
    greatest, places = 0, dict[int, int]()
    for number, each in enumerate(made, 1):
        if each < greatest:
            places[each] = greatest * (len(made) + 1) + number
        greatest = max(greatest, each)
    usual = sweep_id * (len(made) + 1)
    return case(places, value=sweep_id, else_=usual) if places else usual


def _finding(row: Any) -> Finding:
    return Finding(
        subject=row.subject,
        name=row.name,
        request_id=row.request_id,
        currency=row.currency,
        amount=None if row.amount is None else Decimal(row.amount),
        difference=Decimal(row.difference),
        evidence=row.evidence,
        run_key=row.run_key,
        row_ref=row.row_ref,
        operation=row.operation,
        order_no=row.order_no,
    )


def record_breaks(ledger: Ledger, sweep_id: int, breaks: Sequence[Break]) -> None:
    """Record the breaks of a report, replacing those of an earlier report of the same sweep."""
    rows = []
    for each in breaks:
        stored = {**vars(each.found), "difference": format_amount(each.found.difference)}
        stored["amount"] = None if each.found.amount is None else format_amount(each.found.amount)
        rows.append(
            {**stored, "sweep_id": sweep_id, "break_id": each.found.id}
            | {"first_seen": each.first_seen, "lifecycle": each.lifecycle}
        )

    def work(connection: Connection) -> None:
        serialize(connection)
        connection.execute(delete(schema.breaks).where(schema.breaks.c.sweep_id == sweep_id))
        if rows:
            connection.execute(insert(schema.breaks), rows)
        sealed = seal_of_breaks(connection.execute, ledger.key, sweep_id)
        connection.execute(update(schema.reports).where(schema.reports.c.sweep_id == sweep_id).values(breaks=sealed))

    ledger.write(work)
