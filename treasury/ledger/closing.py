"""Closes a sweep in the ledger: sums since the last report, balances, and the breaks' life cycle."""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from sqlalchemy import Column, ColumnElement, Connection, delete, func, insert, select

from treasury.errors import InputError
from treasury.ledger import schema
from treasury.ledger.database import serialize
from treasury.ledger.ledger import Ledger
from treasury.money import exact, format_amount
from treasury.orders.states import OPEN, State
from treasury.provider.catalogue import CATALOGUE
from treasury.reconciliation.balances import BalanceSeen, Flows
from treasury.reconciliation.breaks import RESOLVED, Acceptance, Break, Finding, Known
from treasury.reconciliation.scope import Scope
from treasury.reconciliation.statement import Move, StatementLine, draw_statement


@dataclass(frozen=True)
class Closing:
    """The sums of a finished sweep. `since`: when the last report of these books was made."""

    as_of: int
    since: int | None
    statement: list[StatementLine]
    flows: Mapping[str, Flows]


@dataclass(frozen=True)
class Unread:
    """Why a balance could not be read. `refused`: the service does not show it at all."""

    note: str
    refused: bool


@exact
def close_sweep(ledger: Ledger, sweep_id: int, scope: Scope) -> None:
    """Draw the statement of this moment and end the sweep; does nothing when it has ended."""
    before = _last_report(ledger, scope, sweep_id)
    opening = {} if before is None else {line.currency: line.closing_in_flight for line in _lines(before.statement)}
    first = 0 if before is None else before.journal_id
    with ledger.snapshot() as stream:
        [(last,)] = stream(select(func.coalesce(func.max(schema.journal.c.id), 0)))
        closing: dict[str, Decimal] = defaultdict(Decimal)
        receiving: dict[str, Decimal] = defaultdict(Decimal)
        fees: dict[str, Decimal] = defaultdict(Decimal)
        for row in stream(_orders_in_flight(scope)):
            closing[row.currency] += Decimal(row.amount)
            if CATALOGUE[row.operation].may_show_what_arrives and row.receive_amount is not None:
                receiving[row.receive_currency] += Decimal(row.receive_amount)
            if row.fee is not None:
                fees[row.fee_currency or row.currency] += Decimal(row.fee)
        received: dict[str, Decimal] = defaultdict(Decimal)
        statement = draw_statement(opening, _moves(stream(_steps(scope, first, last)), received), closing)
    sums = {"received": _texts(received), "receiving": _texts(receiving), "fees_in_flight": _texts(fees)}
    row = {"sweep_id": sweep_id, "books": scope.books, "as_of": ledger.now(), "journal_id": last}
    row["statement"] = json.dumps({"lines": [line.as_text() for line in statement], **sums})

    def work(connection: Connection) -> None:
        serialize(connection)
        if connection.execute(select(schema.reports).where(schema.reports.c.sweep_id == sweep_id)).first() is None:
            connection.execute(insert(schema.reports).values(**row))

    ledger.write(work)


@exact
def closing_of(ledger: Ledger, sweep_id: int, scope: Scope) -> Closing:
    """The sums of a sweep that has ended."""
    row = ledger.read(select(schema.reports).where(schema.reports.c.sweep_id == sweep_id))[0]
    before = _last_report(ledger, scope, sweep_id)
    statement = _lines(row.statement)
    flows: dict[str, Flows] = defaultdict(Flows)
    for line in statement:
        named = ("arrived", "fees", "opening_in_flight", "closing_in_flight")
        flows[line.currency] += Flows(**{name: getattr(line, name) for name in named})
    stored = json.loads(row.statement)
    for name, meant in (("received", "received"), ("receiving", "receiving"), ("fees_in_flight", "fees")):
        for currency, amount in stored[name].items():
            flows[currency] += Flows(**{meant: Decimal(amount)})
    return Closing(row.as_of, None if before is None else before.as_of, statement, flows)


def _last_report(ledger: Ledger, scope: Scope, sweep_id: int) -> Any | None:
    table = schema.reports
    query = select(table).where(table.c.books == scope.books, table.c.sweep_id < sweep_id)
    return next(iter(ledger.read(query.order_by(table.c.sweep_id.desc()).limit(1))), None)


def _lines(statement: str) -> list[StatementLine]:
    lines = []
    for said in json.loads(statement)["lines"]:
        amounts = {key: Decimal(value) for key, value in said.items() if key not in ("currency", "residual")}
        lines.append(StatementLine(currency=said["currency"], **amounts))
    return lines


def _texts(sums: Mapping[str, Decimal]) -> dict[str, str]:
    return {currency: format_amount(total) for currency, total in sorted(sums.items())}


def _in_scope(scope: Scope) -> list[ColumnElement[bool]]:
    orders = schema.orders.c
    conditions: list[ColumnElement[bool]] = [orders.currency.is_not(None), orders.amount.is_not(None)]
    if scope.run_key is not None:
        conditions.append(orders.run_key == scope.run_key)
    if scope.currency is not None:
        conditions.append(orders.currency == scope.currency)
    return conditions


def _money() -> list[Column[Any]]:
    orders = schema.orders.c
    paid = [orders.operation, orders.currency, orders.amount, orders.fee, orders.fee_currency]
    return [*paid, orders.receive_currency, orders.receive_amount]


def _orders_in_flight(scope: Scope) -> Any:
    orders = schema.orders.c
    return select(*_money()).where(orders.state.in_([state.value for state in OPEN]), *_in_scope(scope))


def _steps(scope: Scope, first: int, last: int) -> Any:
    orders, journal = schema.orders.c, schema.journal.c
    query = select(*_money(), journal.source, journal.target).join_from(
        schema.journal, schema.orders, journal.order_id == orders.id
    )
    return query.where(journal.id > first, journal.id <= last, *_in_scope(scope)).order_by(journal.id)


def _moves(rows: Iterator[Any], received: dict[str, Decimal]) -> Iterator[Move]:
    """The journal's steps as moves; sums up what conversions brought."""
    for row in rows:
        source, target = State(row.source), State(row.target)
        landed = (target is State.SETTLED) - (source is State.SETTLED)
        if landed and CATALOGUE[row.operation].may_show_what_arrives and row.receive_amount is not None:
            received[row.receive_currency] += landed * Decimal(row.receive_amount)
        fee = None if row.fee is None else Decimal(row.fee)
        yield Move(row.currency, Decimal(row.amount), source, target, row.fee_currency, fee)


# --- balances ---


def balance_currencies(ledger: Ledger, scope: Scope) -> list[str]:
    """Currencies whose balance the orders of this ledger move: what they debit, and what conversions bring."""
    if not scope.is_whole:
        return []
    orders = schema.orders.c
    debited = ledger.read(select(orders.currency).where(orders.currency.is_not(None)).distinct())
    converts = [name for name, operation in CATALOGUE.items() if operation.may_show_what_arrives]
    brought = ledger.read(select(orders.receive_currency).where(orders.operation.in_(converts)).distinct())
    found = {row[0] for row in (*debited, *brought) if row[0] is not None}
    return sorted(found if scope.currency is None else found & {scope.currency})


def record_balances(ledger: Ledger, sweep_id: int, moment: str, seen: Mapping[str, Decimal | Unread]) -> None:
    """Record the balances `before` or `after` a sweep."""
    table = schema.sweep_balances

    def work(connection: Connection) -> None:
        serialize(connection)  # Race: another process may be running the same sweep.
        held = {row.currency for row in connection.execute(select(table).where(table.c.sweep_id == sweep_id))}
        for currency, found in seen.items():
            read = {moment: format_amount(found)} if isinstance(found, Decimal) else vars(found)
            if currency in held:
                where = (table.c.sweep_id == sweep_id) & (table.c.currency == currency)
                connection.execute(table.update().where(where).values(**read))
            else:
                connection.execute(insert(table).values(sweep_id=sweep_id, currency=currency, **read))

    ledger.write(work)


def balances_of(ledger: Ledger, sweep_id: int) -> list[BalanceSeen]:
    """The balances of a sweep, each with its opening: the closing one of the last report that read it."""
    table = schema.sweep_balances.c
    query = select(schema.sweep_balances).join(schema.reports, schema.reports.c.sweep_id == table.sweep_id)
    opening: dict[str, Decimal] = {}
    earlier = query.where(table.sweep_id < sweep_id, table.after.is_not(None)).order_by(table.sweep_id)
    for row in ledger.read(earlier):
        opening[row.currency] = Decimal(row.after)
    return [
        BalanceSeen(
            currency=row.currency,
            before=_amount(row.before),
            after=_amount(row.after),
            opening=opening.get(row.currency),
            note=row.note,
            refused=row.refused,
        )
        for row in ledger.read(query.where(table.sweep_id == sweep_id).order_by(table.currency))
    ]


def _amount(stored: str | None) -> Decimal | None:
    return None if stored is None else Decimal(stored)


# --- breaks ---


def known_breaks(ledger: Ledger, sweep_id: int | None = None) -> dict[str, Known]:
    """Id -> the break as the last report before this sweep had it (or the very last), unless it was resolved there."""
    table = schema.breaks
    latest = select(table.c.break_id, func.max(table.c.sweep_id).label("sweep_id")).group_by(table.c.break_id)
    if sweep_id is not None:
        latest = latest.where(table.c.sweep_id < sweep_id)
    last = latest.subquery()
    query = select(table).join(last, (last.c.break_id == table.c.break_id) & (last.c.sweep_id == table.c.sweep_id))
    rows = ledger.read(query.where(table.c.lifecycle != RESOLVED).order_by(table.c.break_id))
    return {row.break_id: Known(_finding(row), row.first_seen) for row in rows}


def _finding(row: Any) -> Finding:
    return Finding(
        subject=row.subject,
        name=row.name,
        request_id=row.request_id,
        currency=row.currency,
        amount=_amount(row.amount),
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

    ledger.write(work)


def acceptances(ledger: Ledger) -> dict[str, Acceptance]:
    """Break id -> its latest acceptance."""
    rows = ledger.read(select(schema.acceptances).order_by(schema.acceptances.c.id))
    return {
        row.break_id: Acceptance(
            row.break_id, row.name, Decimal(row.difference), row.accepted_by, row.why, row.accepted_at
        )
        for row in rows
    }


def accept_break(ledger: Ledger, break_id: str, *, by: str, os_user: str, why: str) -> Known:
    """Record that a person accepts a break of the last report. Raises `InputError` when there is no such break."""
    known = known_breaks(ledger).get(break_id)
    if known is None:
        raise InputError(f"the last report has no open break {break_id} (`reconciliation.json` lists them)")
    row = {"break_id": break_id, "name": known.found.name, "difference": format_amount(known.found.difference)}
    row |= {"accepted_by": by, "os_user": os_user, "why": why}
    values = {**row, "accepted_at": ledger.now()}
    ledger.write(lambda connection: connection.execute(insert(schema.acceptances).values(**values)).rowcount)
    return known
