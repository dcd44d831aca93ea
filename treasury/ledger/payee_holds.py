"""New and changed payees: payments to them are held where the policy says so, until a person releases them."""

from collections.abc import Iterator, Mapping
from decimal import Decimal

from sqlalchemy import Connection, Row, func, select

from treasury.approving.judging import HOUR_MS
from treasury.ledger import schema
from treasury.ledger.cipher import LedgerKey
from treasury.ledger.duplicates import DAY_MS, may_be_paid, may_be_repeated
from treasury.ledger.earlier_runs import beside_last
from treasury.ledger.mapping import read_row
from treasury.ledger.seals import is_sealed_order
from treasury.money import format_amount
from treasury.orders.records import Order
from treasury.orders.states import Hold, State
from treasury.policy.limits import Limits, PaymentLimits, PayoutLimits, WithdrawalLimits


def holds_payees(limits: Limits) -> bool:
    """Tell whether a table of the policy holds any payment for its payee."""
    is_changed_held = isinstance(limits, PaymentLimits) and limits.when_changed != "show"
    return is_changed_held or bool(_new_above(limits)) or has_cooling(limits)


def has_cooling(limits: Limits) -> bool:
    """Tell whether first payments wait some time."""
    return bool(_days(limits) or _hours(limits))


def _new_above(limits: Limits) -> Mapping[str, Decimal]:
    return limits.new_payee_above if isinstance(limits, PaymentLimits) else {}


def _days(limits: Limits) -> int:
    return limits.cooling_days if isinstance(limits, PayoutLimits) else 0


def _hours(limits: Limits) -> int:
    return limits.cooling_hours if isinstance(limits, WithdrawalLimits) else 0


def held_payees(
    connection: Connection, key: LedgerKey, run_key: str, limits: Limits, now: int
) -> Iterator[tuple[str, str, Hold]]:
    """The waiting payments of a run that are held for their payee, each with the reason."""
    differs = _differs(connection, run_key, limits)
    for row in _not_released(connection, run_key, State.PREPARED, Hold.PAYEE):
        reason = _why_held(connection, key, row, limits, now) or differs.get(row.row_ref)
        if reason is not None:
            yield row.row_ref, reason, Hold.PAYEE
    for row in _not_released(connection, run_key, State.PREPARED, Hold.COOLING) if _hours(limits) else ():
        if not _is_cooled(row, limits, now) and not _was_paid(connection, key, row):
            why = f"the first payment to this address: it waits {_hours(limits)} h, or until a person releases it"
            yield row.row_ref, why, Hold.COOLING


def cooled_payees(connection: Connection, key: LedgerKey, run_key: str, limits: Limits, now: int) -> list[str]:
    """The payments of a run that were held for their payee, and that nothing holds any more."""
    held = [row for row in _not_released(connection, run_key, State.HELD, Hold.PAYEE) if row.hold_kind == Hold.PAYEE]
    differs = _differs(connection, run_key, limits) if held else {}
    same = [row for row in held if row.row_ref not in differs]
    cooled = [row.row_ref for row in same if _why_held(connection, key, row, limits, now) is None]
    waited = _not_released(connection, run_key, State.HELD, Hold.COOLING)
    return cooled + [row.row_ref for row in waited if row.hold_kind == Hold.COOLING and _is_cooled(row, limits, now)]


def _is_cooled(row: Row[tuple[()]], limits: Limits, now: int) -> bool:
    """Tell whether the time of a first payment to an address is over."""
    over: bool = now >= row.created_at + _hours(limits) * HOUR_MS
    return over


def _differs(connection: Connection, run_key: str, limits: Limits) -> Mapping[str, str]:
    """Row -> how it differs from the last run that paid the same people, where the policy holds that."""
    if not isinstance(limits, PaymentLimits) or limits.when_changed == "show":
        return {}
    beside = beside_last(connection, run_key, limits.change_above_percent)
    asks = "; it waits for a second person: somebody who did not make this run releases it by key"
    asks = asks if limits.asks_second_person else ""
    return {} if beside is None else {row: why + asks for row, why in beside.differs.items()}


def _not_released(connection: Connection, run_key: str, state: State, kind: Hold) -> list[Row[tuple[()]]]:
    """Rows of payees that certainly never arrived, and that nobody released from holds of a kind."""
    table = schema.orders.c
    chosen = (table.run_key == run_key) & (table.state == state.value) & ~table.doubtful & table.payee.is_not(None)
    columns = (table.id, table.row_ref, table.payee, table.payee_name, table.currency, table.amount, table.ceiling)
    more = (table.released, table.hold_kind, table.created_at)
    rows = connection.execute(select(*columns, *more).where(chosen).order_by(table.id)).fetchall()
    return [row for row in rows if kind.value not in (row.released or "").split()]


def _was_paid(connection: Connection, key: LedgerKey, row: Row[tuple[()]], name: str | None = None) -> bool:
    """Tell whether anything of this ledger may have been paid to a row's payee before, under this name if given.

    An order that was changed by hand makes nobody known: it may have paid somebody else.
    """
    table = schema.orders
    paid = select(table).where(table.c.payee == row.payee, table.c.id != row.id, may_be_paid(table))
    paid = paid if name is None else paid.where(table.c.payee_name == name)
    rows = connection.execute(paid.order_by(table.c.id).limit(LOOKED_AT))
    return any(is_sealed_order(key, read_row(Order, each)) for each in rows)


LOOKED_AT = 20
"""Orders that may have paid somebody before, among which one is looked for that nobody changed."""


def _why_held(connection: Connection, key: LedgerKey, row: Row[tuple[()]], limits: Limits, now: int) -> str | None:
    table = schema.orders
    amount = row.amount if row.amount is not None else row.ceiling
    most = _new_above(limits).get(row.currency)
    if most is not None and (amount is None or Decimal(amount) > most) and not _was_paid(connection, key, row):
        return f"the first payment to this account, and over new_payee_above ({format_amount(most)} {row.currency})"
    if not _days(limits) or row.payee_name is None or _was_paid(connection, key, row, row.payee_name):
        return None
    named = select(table.c.id).where(  # to another account, or it was changed by hand, and may be held for that
        table.c.payee_name == row.payee_name, table.c.id != row.id, may_be_repeated(table, 0)
    )
    if connection.execute(named.limit(1)).first() is None:
        return None
    same = (table.c.payee == row.payee) & (table.c.payee_name == row.payee_name)  # since then people could see it
    meant = select(func.min(table.c.created_at)).where(same, table.c.state != State.CANCELLED.value)
    first = connection.execute(meant).scalar_one()
    if now - first >= _days(limits) * DAY_MS:
        return None
    return f"this name was paid to another account before: it waits {_days(limits)} days"
