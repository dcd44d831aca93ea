"""The account of a day: what payouts, withdrawals, scan-to-pay and conversions debit together, by currency.

An order counts on the day that it is judged for, at its amount, or at its ceiling while its amount is not known, or may
be quoted again. One that has not left when that day ends is judged again before its first byte; what does not fit then
is held. What is held counts on no day, unless the service may have it, and is judged again once it is released. What
is held as changed by hand counts on every day.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from decimal import Decimal
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, or_, select

from treasury.concurrency.batches import batched
from treasury.errors import IllegalTransition, LimitExceeded
from treasury.ledger import schema
from treasury.ledger.cipher import LedgerKey
from treasury.ledger.ledger import Ledger, as_read
from treasury.ledger.seals import set_of_orders, with_seal
from treasury.ledger.statements import change_one
from treasury.money import ZERO, exact, format_amount
from treasury.orders.decisions import most_debited
from treasury.orders.records import Intent, Order
from treasury.orders.states import NEVER_RELEASED, Hold, State
from treasury.policy.judge import above

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
        amount = _debit(row)
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
    return sum(map(_debit, connection.execute(query).fetchall()), ZERO)


def is_counted(table: Any) -> ColumnElement[bool]:
    """Return where an order debits something, or may have, though it is held; `table`: the columns of orders."""
    held = and_(table.state == State.HELD.value, table.hold_kind.in_([kind.value for kind in NEVER_RELEASED]))
    return or_(table.state.not_in(NOT_COUNTED), held)


def _debit(row: Any) -> Decimal:
    amount, ceiling = (None if each is None else Decimal(each) for each in (row.amount, row.ceiling))
    return most_debited(State(row.state), amount, ceiling) or ZERO
