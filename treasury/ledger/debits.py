"""Debits: what recorded payments may still take from a balance, and what all payments of one day take together.

An order counts on the day that it is judged for, at its amount, or at its ceiling while its amount is not known, or may
be quoted again. One that has not left when that day ends is judged again before its first byte; what does not fit then
is held. What is held counts on no day, unless the service may have it, and is judged again once it is released. What
is held as changed by hand counts on every day.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, or_, select, true

from treasury.concurrency.batches import batched
from treasury.errors import IllegalTransition, LimitExceeded
from treasury.ledger import schema
from treasury.ledger.cipher import LedgerKey
from treasury.ledger.ledger import Ledger
from treasury.ledger.mapping import as_read, read_row
from treasury.ledger.seals import set_of_orders, with_seal
from treasury.ledger.statements import change_one
from treasury.money import ZERO, exact, format_amount, stored_amount, sums_of
from treasury.orders.payment_decisions import most_debited
from treasury.orders.records import Intent, Order
from treasury.orders.states import NEVER_RELEASED, OPEN, Hold, State
from treasury.policy.judge import above
from treasury.provider.conversion import ConversionExecute

CONVERSION = ConversionExecute.operation_name()

_MAY_DEBIT = tuple(state.value for state in (State.PREPARED, State.SENDING, State.UNKNOWN))


@dataclass(frozen=True)
class Recorded:
    """The rows that a run has recorded."""

    rows: frozenset[str]
    sums: Mapping[str, Decimal]
    """Currency -> what its payments debit at the most; without those that ended unpaid."""


def recorded_debits(ledger: Ledger, run_key: str) -> Recorded:
    """The rows and debits of a run that began."""
    return ledger.look(lambda connection: debits_recorded(connection, run_key))


@exact
def debits_recorded(connection: Connection, run_key: str) -> Recorded:
    """Return the rows and debits of a run as `recorded_debits` does, inside a transaction."""
    table = schema.orders.c
    sums: dict[str, Decimal] = defaultdict(Decimal)
    rows = set()
    query = select(table.row_ref, table.state, table.currency, table.amount, table.ceiling)
    for row in connection.execute(query.where(table.run_key == run_key)):
        rows.add(row.row_ref)
        state = State(row.state)
        debit = most_debited(state, stored_amount(row.amount), stored_amount(row.ceiling))
        if debit is not None and not state.may_be_replaced:
            sums[row.currency] += debit
    return Recorded(frozenset(rows), dict(sums))


@exact
def in_flight(ledger: Ledger, *, except_run: str) -> dict[str, Decimal]:
    """Currency -> what payments of other runs may still debit, at their ceilings where only a quote will tell."""
    table = schema.orders.c
    of = table.state.in_(_MAY_DEBIT) & (table.run_key != except_run) & table.currency.is_not(None)
    rows = ledger.read(select(table.currency, table.amount, table.ceiling).where(of))
    return sums_of((row.currency, most_of(row)) for row in rows)


def most_of(row: Any) -> Decimal:
    """Return what the quote or ceiling of an order debits at the most; zero where neither is known."""
    return Decimal(row.amount or row.ceiling or 0)


def bounded_orders(ledger: Ledger, run_key: str) -> list[Order]:
    """Orders of a run that the service has, and whose debits nothing that was sent bounds."""
    table = schema.orders.c
    states = (State.ACCEPTED.value, State.SETTLED.value)
    chosen = (table.run_key == run_key) & table.bound.is_not(None) & table.state.in_(states)
    return [read_row(Order, row) for row in ledger.read(select(schema.orders).where(chosen).order_by(table.id))]


def states_of(ledger: Ledger, run_key: str) -> dict[str, tuple[State, Hold | None]]:
    """Row -> the state of its newest order in a run, and why it is held if it is."""
    table = schema.orders.c
    query = select(table.row_ref, table.state, table.hold_kind).where(table.run_key == run_key).order_by(table.id)
    return {
        row.row_ref: (State(row.state), Hold(row.hold_kind) if row.hold_kind else None) for row in ledger.read(query)
    }


def asked_first(ledger: Ledger, run_key: str) -> int:
    """How many payments of a run the service has to be asked about again before they are sent."""
    table = schema.orders.c
    waits = (table.run_key == run_key) & (table.state == State.PREPARED.value) & (table.absences_needed != 0)
    return len(ledger.read(select(table.id).where(waits)))


@dataclass(frozen=True)
class Waiting:
    """A recorded payment of another run that has not left."""

    run_key: str
    operation: str
    currency: str
    amount: Decimal | None
    """The amount that it debits, without a fee on top; None where only a quote will tell."""
    ceiling: Decimal | None
    """The most that its quote may ask, where that is limited."""
    receives: tuple[str, Decimal] | None
    """The currency and amount that its beneficiary receives, where they are known."""

    @property
    def most(self) -> Decimal | None:
        """Return what it debits at the most, without a fee on top, where that is known."""
        return self.ceiling if self.amount is None else self.amount


def waiting_before(ledger: Ledger, run_key: str, *, is_recorded: bool) -> list[Waiting]:
    """Payments of other runs that were recorded before the last one that waits of this run, and have not left.

    All of them unless everything that is to be paid of it is recorded. So of two runs one always comes first, also
    where rows were added to either.
    """
    rows = _waiting_rows(ledger)
    last = max((row.id for row in rows if row.run_key == run_key), default=None) if is_recorded else None
    return [_waiting(row) for row in rows if row.run_key != run_key and (last is None or row.id < last)]


def waiting_beside(ledger: Ledger, run_key: str, rows: Collection[str]) -> dict[str, Waiting]:
    """Row -> its payment that has not left, of a run; those of these rows left out."""
    found = _waiting_rows(ledger, schema.orders.c.run_key == run_key)
    return {row.row_ref: _waiting(row) for row in found if row.row_ref not in rows}


def _waiting_rows(ledger: Ledger, of: ColumnElement[bool] = true()) -> Sequence[Any]:
    table = schema.orders.c
    waits = (table.state == State.PREPARED.value) & (table.operation != CONVERSION) & table.currency.is_not(None)
    columns = (table.id, table.run_key, table.row_ref, table.operation, table.currency, table.amount, table.ceiling)
    received = (table.receive_currency, table.receive_amount)
    return ledger.read(select(*columns, *received).where(waits & of).order_by(table.id))


def _waiting(row: Any) -> Waiting:
    received = stored_amount(row.receive_amount)
    receives = None if received is None else (row.receive_currency, received)
    amounts = stored_amount(row.amount), stored_amount(row.ceiling)
    return Waiting(row.run_key, row.operation, row.currency, *amounts, receives)


def recorded_after(ledger: Ledger, run_key: str) -> set[str]:
    """The runs that wait and recorded no payment before the last one that waits of this run, which is recorded."""
    every = {each.run_key for each in waiting_before(ledger, run_key, is_recorded=False)}
    return every - {each.run_key for each in waiting_before(ledger, run_key, is_recorded=True)}


def standing(ledger: Ledger) -> list[tuple[int, str]]:
    """Every order that waits or is on its way, with its state: what a balance that is read meanwhile may show."""
    table = schema.orders.c
    states = [state.value for state in (State.PREPARED, *OPEN)]
    query = select(table.id, table.state).where(table.state.in_(states)).order_by(table.id)
    return [(row.id, row.state) for row in ledger.read(query)]


NOT_COUNTED = tuple(state.value for state in (State.REJECTED, State.FAILED, State.CLOSED, State.HELD, State.CANCELLED))
"""States of orders that debit nothing; of those that are held see `is_counted`."""


@exact
def check_day(connection: Connection, day: str, max_per_day: Mapping[str, Decimal], intents: Iterable[Intent]) -> None:
    """Raise `LimitExceeded` when new payments, with all that counts on this day, are over one of its limits."""
    if not max_per_day:
        return
    planned: dict[str | None, Decimal] = defaultdict(Decimal)
    for intent in intents:
        planned[intent.currency] += (intent.ceiling if intent.amount is None else intent.amount) or 0
    for currency, most in max_per_day.items():
        before = _counted(connection, day, currency)
        may_spend = currency in planned or None in planned  # also what does not say how much, or of what
        if may_spend and above(max_per_day, currency, before + planned[currency]) is not None:
            raise LimitExceeded(
                f"the limit of {day} is {format_amount(most)} {currency}: {format_amount(before)} count already, and "
                f"this run adds {format_amount(planned[currency])}"
            )


@exact
def counted_on(
    ledger: Ledger, day: str, currencies: Iterable[str], replaced: Collection[str] = ()
) -> dict[str, Decimal]:
    """Currency -> what counts towards its limit of a day. `replaced`: runs whose unsent orders count for none."""
    return ledger.look(lambda connection: {each: _counted(connection, day, each, replaced) for each in currencies})


@exact
def judge_waiting(
    connection: Connection, key: LedgerKey, run_key: str, day: str, max_per_day: Mapping[str, Decimal]
) -> list[tuple[str, str]]:
    """Count the waiting orders of a run on this day, in their sequence; returns row and reason of what does not fit."""
    table = schema.orders.c
    other_day = or_(table.counted_on.is_(None), table.counted_on != day)
    query = (
        select(table.id, table.row_ref, table.currency, table.state, table.amount, table.ceiling)
        .where(table.run_key == run_key, table.state == State.PREPARED.value, other_day)
        .order_by(table.id)
    )
    waiting = connection.execute(query).fetchall()
    totals = {currency: _counted(connection, day, currency) for currency in max_per_day} if waiting else {}
    fits: list[int] = []
    over: list[tuple[str, str]] = []
    for row in waiting:
        amount = _counted_debit(row)
        counted = totals.get(row.currency, Decimal(0))
        if (most := above(max_per_day, row.currency, counted + amount)) is not None:
            over.append((row.row_ref, _does_not_fit(day, row.currency, most, counted, amount)))
            continue
        totals[row.currency] = counted + amount
        fits.append(row.id)
    for some in batched(fits):
        set_of_orders(connection, key, table.id.in_(some), {"counted_on": day})
    return over


@exact
def count_again(
    connection: Connection, key: LedgerKey, order: Order, day: str, max_per_day: Mapping[str, Decimal]
) -> tuple[Order, str | None]:
    """Count an order that is sent again on this day; return it, and why it does not fit into its limit, or None.

    Raises `IllegalTransition` for one that somebody moved since it was read.
    """
    if order.counted_on == day or order.currency is None:
        return order, None
    amount = most_debited(order.state, order.amount, order.ceiling) or ZERO
    counted = _counted(connection, day, order.currency)
    if (most := above(max_per_day, order.currency, counted + amount)) is not None:
        return order, f"not sent again: it {_does_not_fit(day, order.currency, most, counted, amount)}"
    found = change_one(connection, Order, as_read(order), with_seal(key, order, {"counted_on": day}))
    if found is None:
        raise IllegalTransition(order.request_id, "sending it again")
    return found, None


def _does_not_fit(day: str, currency: str, most: Decimal, counted: Decimal, amount: Decimal) -> str:
    return (
        f"does not fit into the limit of {day}, {format_amount(most)} {currency}: {format_amount(counted)} count "
        f"already, and it adds {format_amount(amount)}"
    )


def _counted(connection: Connection, day: str, currency: str, replaced: Collection[str] = ()) -> Decimal:
    table = schema.orders.c
    is_left = (table.state != State.PREPARED.value) | table.run_key.not_in(list(replaced))
    is_changed = (table.state == State.HELD.value) & (table.hold_kind == Hold.CHANGED.value)  # of a day nobody knows
    query = select(table.state, table.amount, table.ceiling).where(
        table.currency == currency, (table.counted_on == day) | is_changed, is_counted(table), is_left
    )
    return sum(map(_counted_debit, connection.execute(query).fetchall()), ZERO)


def is_counted(table: Any) -> ColumnElement[bool]:
    """Return where an order debits something, or may have, though it is held; `table`: the columns of orders."""
    held = and_(table.state == State.HELD.value, table.hold_kind.in_([kind.value for kind in NEVER_RELEASED]))
    return or_(table.state.not_in(NOT_COUNTED), held)


def _counted_debit(row: Any) -> Decimal:
    return most_debited(State(row.state), stored_amount(row.amount), stored_amount(row.ceiling)) or ZERO
