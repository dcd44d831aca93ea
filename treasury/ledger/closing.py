"""Closes a sweep in the ledger: sums since the last report, balances of each night, numbers that orders share."""

import json
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import orjson
from sqlalchemy import ColumnElement, Connection, Select, func, insert, select, update

from treasury.concurrency.batches import batched
from treasury.ledger import schema
from treasury.ledger.account_sums import AccountSums, is_taken_over, landed_before, shown_when_opened, unpriced_orders
from treasury.ledger.database import serialize
from treasury.ledger.ledger import Ledger
from treasury.ledger.made_reports import (
    IS_WHOLE,
    IS_WRITTEN,
    OF_ALL_BOOKS,
    Stream,
    count_since,
    has_ended,
    last_report,
    record_report,
    reports_before,
)
from treasury.ledger.receipts import counted_when_opened, reported_receipts, shown_receipts
from treasury.ledger.report_sums import ReportSums, read_sums
from treasury.ledger.snapshots import expected_receipts
from treasury.money import amount_text, exact, format_amount, stored_amount
from treasury.orders.states import OPEN, State
from treasury.provider.catalogue import CATALOGUE
from treasury.provider.service_rules import ServiceRules
from treasury.reconciliation.balances import Flows, Night
from treasury.reconciliation.order_statement import Move, StatementLine, draw_statement
from treasury.reconciliation.scope import Scope

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


@dataclass(frozen=True)
class Closing:
    """The sums of a finished sweep. `since`: when the last report of these books was made."""

    as_of: int
    since: int | None
    statement: Sequence[StatementLine]
    not_asked: int = 0
    """Orders that it did not ask about, because they have long been final."""
    by_age: str | None = None
    """When they are asked about, in words."""
    shared: Mapping[str, str | None] = field(default_factory=dict)
    """Orders that were told one number, as `shared_numbers` gives them."""


@dataclass(frozen=True)
class ShownBalance:
    """A balance as the service shows it; `frozen`: the part of it that is reserved for orders, where that is shown."""

    balance: Decimal
    frozen: Decimal | None


@dataclass(frozen=True)
class Unread:
    """Why a balance could not be read. `refused`: the service does not show it at all."""

    note: str
    refused: bool


@exact
def close_sweep(
    ledger: Ledger,
    sweep_id: int,
    scope: Scope,
    rules: ServiceRules,
    by_age: str | None = None,
    read_from: int | None = None,
) -> None:
    """Draw the statement of this moment and end the sweep; does nothing when it has ended.

    `rules`: where fees are taken, and when operations debit. `by_age`: the rule, in words, by which orders
    that have long been final were left out. `read_from`: `last_step` when the balances were asked for.
    """
    while not _close(ledger, sweep_id, scope, rules, by_age, read_from):
        pass  # Race: another sweep of these books ended meanwhile, so this one follows it


def last_step(ledger: Ledger) -> int:
    """Return the number of the journal's last step."""
    return int(ledger.read(_LAST_STEP)[0][0])


_LAST_STEP = select(func.coalesce(func.max(schema.journal.c.id), 0))


def _close(
    ledger: Ledger,
    sweep_id: int,
    scope: Scope,
    rules: ServiceRules,
    by_age: str | None,
    read_from: int | None,
) -> bool:
    """End a sweep as `close_sweep` does; returns whether no other report was made since the one that it follows."""
    before, opened = last_report(ledger, scope, sweep_id), openings(ledger)
    kept = ReportSums() if before is None else read_sums(before.statement)
    opening = {line.currency: line.closing_in_flight for line in kept.lines}
    first, since = (0, None) if before is None else (before.journal_id, before.as_of)
    as_of = ledger.now()  # Race: what is sent from here on is later than this report, even where it is read below
    with ledger.snapshot(between_steps=True) as stream:
        [(last,)] = stream(_LAST_STEP)
        sums = AccountSums(rules, opened, since, shown_when_opened(stream, opened), read_from)
        closing = _add_open(stream, scope, sums)
        statement = draw_statement(opening, _moves(stream(_steps(scope, first, last)), sums), closing)
        if before is not None and scope.books == Scope().books:
            _correct_fees(ledger, stream, sweep_id, before, sums)
        for row, shown in unpriced_orders(stream, sweep_id):
            sums.add_unpriced(row, shown)
        inside = counted_when_opened(stream, opened)
        for row in shown_receipts(stream, sweep_id):
            sums.add_receipt(row, inside)
        for row in reported_receipts(stream, sweep_id, sums.later):
            sums.add_reported(row)
        counted = count_since(stream, kept)
        shared = shared_numbers(stream, sweep_id)
    drawn: dict[str, Any] = {"lines": [line.as_text() for line in statement], "flows": sums.said()}
    drawn |= {"counted": counted, "follows": None if before is None else before.sweep_id}
    drawn |= {"fee_on_top": sorted(rules.fee_on_top), "debited_when": rules.entry("debited_when")}
    drawn |= {"shared": shared} if shared else {}
    if by_age is not None and (count := ledger.read(_not_asked(sweep_id))[0][0]):
        drawn |= {"not_asked": count, "by_age": by_age}
    row = {"sweep_id": sweep_id, "books": scope.books, "as_of": as_of, "journal_id": last}
    return record_report(ledger, {**row, "statement": json.dumps(drawn)}, before)


def _add_open(stream: Stream, scope: Scope, sums: AccountSums) -> dict[str, Decimal]:
    """Add what is on its way, or was when an account was opened; return the amounts of what is, by currency."""
    closing: dict[str, Decimal] = defaultdict(Decimal)
    for row in stream(_orders_in_flight(scope)):
        closing[row.currency] += Decimal(row.amount)
        sums.add_open(row)
    orders = schema.orders.c
    for some in batched(sorted(sums.pending)):
        for row in stream(select(schema.orders).where(orders.id.in_(some), orders.amount.is_not(None))):
            sums.add_pending(row)
    return closing


def _correct_fees(ledger: Ledger, stream: Stream, sweep_id: int, before: Any, sums: AccountSums) -> None:
    """Correct fees on top that earlier reports entered otherwise, or not, where there may be any."""
    fee_on_top, booked = sums.rules.fee_on_top, _fees_so_far(ledger, sweep_id, sums.opened)
    earlier = read_sums(before.statement).fee_on_top
    earlier = fee_on_top if earlier is None else earlier
    if booked or fee_on_top or earlier:
        orders = schema.orders.c
        has_fee = orders.operation.in_(sorted(fee_on_top)) & orders.fee.is_not(None) & orders.amount.is_not(None)
        steps = stream(_steps(Scope(), 0, before.journal_id).where(has_fee))
        sums.correct_fees(steps, booked, moves_beside=set(earlier) != set(fee_on_top))


def _not_asked(sweep_id: int) -> Select[Any]:
    """Count the orders older than a sweep that it has no question about."""
    orders, answers, sweeps = schema.orders.c, schema.answers.c, schema.sweeps.c
    asked = select(answers.order_id).where(answers.sweep_id == sweep_id, answers.order_id.is_not(None))
    began = select(sweeps.started_at).where(sweeps.id == sweep_id).scalar_subquery()
    return select(func.count()).where(orders.created_at <= began, orders.id.not_in(asked))


def closing_of(ledger: Ledger, sweep_id: int, scope: Scope) -> Closing:
    """The sums of a sweep that has ended."""
    row = ledger.read(select(schema.reports).where(schema.reports.c.sweep_id == sweep_id))[0]
    before = last_report(ledger, scope, sweep_id)
    since, said = None if before is None else before.as_of, read_sums(row.statement)
    return Closing(row.as_of, since, said.lines, said.not_asked, said.by_age, said.shared)


def _in_scope(scope: Scope) -> list[ColumnElement[bool]]:
    orders = schema.orders.c
    conditions: list[ColumnElement[bool]] = [orders.currency.is_not(None)]
    if scope.run_key is not None:
        conditions.append(orders.run_key == scope.run_key)
    if scope.currency is not None:
        conditions.append(orders.currency == scope.currency)
    return conditions


_MONEY = [
    schema.orders.c[name]
    for name in ("operation", "currency", "amount", "fee", "fee_currency", "receive_currency", "receive_amount")
]


def _orders_in_flight(scope: Scope) -> Any:
    orders = schema.orders.c
    is_open = orders.state.in_([state.value for state in OPEN]) & orders.amount.is_not(None)
    facts = (orders.id, orders.created_at, orders.sent_at, orders.request_id, orders.state)
    return select(*_MONEY, *facts, orders.order_no, orders.status).where(is_open, *_in_scope(scope))


def _steps(scope: Scope, first: int, last: int) -> Any:
    """Select steps; of orders without an amount their ceiling is their debit, or the most that it may be."""
    orders, journal = schema.orders.c, schema.journal.c
    taken_over = (journal.target == State.SETTLED.value) & is_taken_over(journal.order_id)
    query = select(
        *(*_MONEY, orders.ceiling, orders.request_id, orders.sent_at),
        *(journal.order_id, journal.source, journal.target, journal.id.label("step")),
        taken_over.label("taken_over"),
        landed_before(),
    ).join_from(schema.journal, schema.orders, journal.order_id == orders.id)
    query = query.where(orders.amount.is_not(None) | orders.ceiling.is_not(None))
    return query.where(journal.id > first, journal.id <= last, *_in_scope(scope)).order_by(journal.id)


def _moves(rows: Iterator[Any], sums: AccountSums) -> Iterator[Move]:
    """Yield the journal's steps as moves, and add up what they moved of each balance.

    An order whose debit nobody knew when it was sent moves all of it at its end.
    """
    for row in rows:
        source, target = State(row.source), State(row.target)
        fee, is_on_top = stored_amount(row.fee), row.operation in sums.rules.fee_on_top
        if row.amount is not None:
            amount = Decimal(row.amount)
            sums.add_step(row)
        else:
            is_beside = is_on_top and row.fee_currency in (None, row.currency)
            amount = Decimal(row.ceiling) - (fee or 0 if is_beside else 0)
            sums.add_unread(row.step, row.currency, Decimal(row.ceiling), source, target)
            if State.SETTLED not in (source, target) or source is target:
                continue
            source = source if source is State.SETTLED else State.PREPARED
        yield Move(row.currency, amount, source, target, row.fee_currency, fee, is_on_top)


def openings(ledger: Ledger) -> dict[str, Any]:
    """Return the report that opened the account of each currency."""
    balances = schema.sweep_balances.c
    read: dict[int, list[str]] = defaultdict(list)
    for row in ledger.read(select(balances.sweep_id, balances.currency).where(balances.after.is_not(None))):
        read[row.sweep_id].append(row.currency)
    opened: dict[str, Any] = {}
    for report in reports_before(ledger, None):
        for currency in read[report.sweep_id]:
            opened.setdefault(currency, report)
    return opened


def incomplete_currencies(ledger: Ledger) -> list[str]:
    """Return the currencies of the last report of everything whose balance it could not read, though another try may,
    or whose statement has a residual."""
    made, balances = reports_before(ledger, None, IS_WHOLE, IS_WRITTEN), schema.sweep_balances.c
    if not made:
        return []
    last = made[-1]
    of_last = (balances.sweep_id == last.sweep_id) & balances.after.is_(None)
    rows = ledger.read(select(balances.currency, balances.refused).where(of_last))
    opened = openings(ledger) if rows else {}
    unread = {row.currency for row in rows if not row.refused or row.currency in opened}
    return sorted(unread | {line.currency for line in read_sums(last.statement).lines if line.residual})


def _fees_so_far(ledger: Ledger, sweep_id: int, opened: Mapping[str, Any]) -> dict[str, Decimal]:
    """Return the fees that earlier reports have entered in each account since it was opened."""
    booked: dict[str, Decimal] = defaultdict(Decimal)
    since = set[str]()
    for report in reports_before(ledger, sweep_id, OF_ALL_BOOKS):
        flows = read_sums(report.statement).flows
        for currency in since:
            booked[currency] += flows.get(currency, Flows()).fees
        since |= {currency for currency, opening in opened.items() if opening.sweep_id == report.sweep_id}
    return {currency: fees for currency, fees in booked.items() if fees}


def mark_written(ledger: Ledger, sweep_id: int) -> None:
    """Record that the files of a report are written; a report that is made again keeps its first time."""
    reports = schema.reports
    wanted = (reports.c.sweep_id == sweep_id) & reports.c.written_at.is_(None)
    ledger.write(lambda connection: connection.execute(update(reports).where(wanted).values(written_at=ledger.now())))


# --- balances ---


def balance_currencies(ledger: Ledger, scope: Scope, named: Collection[str] = ()) -> list[str]:
    """Return the currencies whose balance is read: what orders debit, what conversions bring, what was read before, and
    those `named`; none for a narrowed report."""
    if not scope.is_whole:
        return []
    orders = schema.orders.c
    debited = ledger.read(select(orders.currency).where(orders.currency.is_not(None)).distinct())
    converts = [name for name, operation in CATALOGUE.items() if operation.may_show_what_arrives]
    brought = ledger.read(select(orders.receive_currency).where(orders.operation.in_(converts)).distinct())
    found = {row[0] for row in (*debited, *brought) if row[0] is not None}
    earlier = ledger.read(select(schema.sweep_balances.c.currency).distinct())
    expected = {receipt["currency"] for receipt in expected_receipts(ledger).values()}
    return sorted({*found, *named, *expected, *(row[0] for row in earlier)})


def record_balances(ledger: Ledger, sweep_id: int, moment: str, seen: Mapping[str, ShownBalance | Unread]) -> None:
    """Record the balances `before` or `after` a sweep."""
    table = schema.sweep_balances

    def work(connection: Connection) -> None:
        serialize(connection)  # Race: another process may be running the same sweep, or have ended it
        if has_ended(connection, sweep_id):
            return
        held = {row.currency for row in connection.execute(select(table).where(table.c.sweep_id == sweep_id))}
        for currency, found in seen.items():
            read: dict[str, Any] = vars(found)
            if isinstance(found, ShownBalance):
                read = {moment: format_amount(found.balance), "frozen": amount_text(found.frozen)}
            if currency in held:
                where = (table.c.sweep_id == sweep_id) & (table.c.currency == currency)
                connection.execute(table.update().where(where).values(**read))
            else:
                connection.execute(insert(table).values(sweep_id=sweep_id, currency=currency, **read))

    ledger.write(work)


def begin_again(ledger: Ledger, sweep_id: int) -> list[str]:
    """Let the second reading of each balance that moved be its first one; return their currencies."""
    table = schema.sweep_balances
    moved = (table.c.sweep_id == sweep_id) & (table.c.before != table.c.after)
    again = table.update().where(moved).values(before=table.c.after).returning(table.c.currency)

    def work(connection: Connection) -> list[str]:
        serialize(connection)
        return [] if has_ended(connection, sweep_id) else sorted(connection.execute(again).scalars())

    return ledger.write(work)


def balance_nights(ledger: Ledger, sweep_id: int | None = None) -> dict[str, list[Night]]:
    """Every currency in each report of all orders (up to this sweep), oldest first; balances of whole ones alone."""
    made = reports_before(ledger, sweep_id, OF_ALL_BOOKS)
    made += ledger.read(select(schema.reports).where(schema.reports.c.sweep_id == sweep_id, OF_ALL_BOOKS))
    rows = [(row, read_sums(row.statement).flows) for row in made]
    wholes = {row.id for row in ledger.read(select(schema.sweeps.c.id).where(IS_WHOLE))}
    whole = [row.sweep_id for row in made if row.sweep_id in wholes]
    read: dict[tuple[int, str], Any] = {
        (row.sweep_id, row.currency): row
        for some in batched(whole)
        for row in ledger.read(select(schema.sweep_balances).where(schema.sweep_balances.c.sweep_id.in_(some)))
    }
    return {
        currency: [
            _night(row.as_of, read.get((row.sweep_id, currency)), flows.get(currency, Flows())) for row, flows in rows
        ]
        for currency in sorted({currency for _, currency in read})
    }


def _night(as_of: int, seen: Any | None, flows: Flows) -> Night:
    if seen is None:
        return Night(as_of, None, flows=flows)
    before, after = stored_amount(seen.before), stored_amount(seen.after)
    moved = Decimal(0) if before is None or after is None else before - after
    return Night(as_of, after, moved, flows, seen.note, seen.refused, stored_amount(seen.frozen))
