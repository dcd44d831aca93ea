"""Holds and releases waiting payments of a run, in the transaction that records them: limits, duplicates, payees.

Payments to new and changed payees are held where the policy says so, until a person releases them. A run that comes
under another policy counts its waiting payments anew, and its bounds hold their quotes.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, func, or_, select

from treasury.approving.judging import HOUR_MS
from treasury.concurrency.batches import batched
from treasury.ledger import schema
from treasury.ledger.cipher import LedgerKey, place_of_payload
from treasury.ledger.decisions import people_at
from treasury.ledger.in_force import policy_now
from treasury.ledger.known_payees import DAY_MS, beside_last, excused, find_duplicates, may_be_paid, may_be_repeated
from treasury.ledger.ledger import Ledger
from treasury.ledger.mapping import read_row
from treasury.ledger.seals import is_sealed_order, set_of_orders, set_order
from treasury.money import amount_text, format_amount
from treasury.orders.quoting import QUOTED
from treasury.orders.records import CALL, Intent, Order
from treasury.orders.states import NEVER_RELEASED, Event, Hold, State
from treasury.policy.limits import Limits, PaymentLimits, PayoutLimits, WithdrawalLimits
from treasury.provider.catalogue import CATALOGUE


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


def put_under_policy(ledger: Ledger, connection: Connection, run_key: str, intents: Iterable[Intent]) -> None:
    """Put what waits of a run, or may be released, under the bounds of these intents, which another policy made.

    Payments that wait count on this day by the limits of the policy before: they are counted anew, by this one's.
    """
    table = schema.orders.c
    waits = (table.run_key == run_key) & (table.state == State.PREPARED.value)
    set_of_orders(connection, ledger.key, waits, {"counted_on": None})
    kinds = [kind.value for kind in NEVER_RELEASED]
    held = (table.run_key == run_key) & (table.state == State.HELD.value)
    held &= or_(table.hold_kind.is_(None), table.hold_kind.not_in(kinds))
    for some in batched(each for each in intents if each.operation in QUOTED and "bounds" in each.payload):
        meant = {intent.row_ref: intent for intent in some}
        chosen = select(schema.orders).where(or_(waits, held), table.row_ref.in_(list(meant))).with_for_update()
        for row in connection.execute(chosen).fetchall():
            intent = meant[row.row_ref]
            payload = ledger.key.encrypt(intent.payload, *place_of_payload(run_key, row.row_ref, row.operation))
            set_order(connection, ledger.key, row, {"payload": payload, "ceiling": amount_text(intent.ceiling)})


KEY_RELEASES = "somebody who did not make this run releases it by key: treasury release {} --key FILE --why TEXT"


def hold_over(ledger: Ledger, connection: Connection, run_key: str, over: Iterable[tuple[str, str]]) -> None:
    """Hold waiting payments that do not fit into a limit: row and reason."""
    for row_ref, reason in over:
        _hold(ledger, connection, run_key, row_ref, reason, Hold.LIMIT)


def hold_duplicates(
    ledger: Ledger,
    connection: Connection,
    run_key: str,
    duplicate_days: int,
    intents: Iterable[Intent],
    back: Collection[str],
) -> None:
    """Hold each waiting payment that repeats another one without an excuse; `intents`: whose excuses count now.

    Where people are listed with keys, one of them releases what is meant. `back`: as in `find_duplicates`.
    """
    is_keyed = bool(people_at(connection, ledger))
    since = ledger.now() - duplicate_days * DAY_MS
    found = dict(find_duplicates(connection, run_key, since, back))
    for some in batched(excused(intents, found)):
        _excuse(ledger, connection, (schema.orders.c.run_key == run_key) & schema.orders.c.row_ref.in_(some))
        for row_ref in some:
            del found[row_ref]
    names = _request_ids(connection, run_key, found)
    how = KEY_RELEASES if is_keyed else "treasury release {} --by NAME --why TEXT"
    if not is_keyed and not run_key.startswith(CALL):
        how += ", or write why into duplicate_ok of a row"
    for row_ref, earlier in found.items():
        reason = f"same payee, amount and currency as {earlier}; if it is meant, {how.format(names[row_ref])}"
        _hold(ledger, connection, run_key, row_ref, reason, Hold.DUPLICATE)


def _excuse(ledger: Ledger, connection: Connection, meant: ColumnElement[bool]) -> None:
    """Note of these payments that their rows say why they are no duplicates."""
    table = schema.orders
    for row in connection.execute(select(table).where(meant).with_for_update()).fetchall():
        set_order(connection, ledger.key, row, {"released": _released(row, Hold.DUPLICATE)})


def _released(row: Row[Any], kind: Hold) -> str:
    """The kinds of hold that a row is released from, with one more."""
    return f"{row.released or ''} {kind.value}".strip()


def _request_ids(connection: Connection, run_key: str, row_refs: Iterable[str]) -> dict[str, str]:
    """Row -> its request id, which no other row of the ledger is called."""
    table, found = schema.orders.c, dict[str, str]()
    for some in batched(row_refs):
        chosen = (table.run_key == run_key) & table.row_ref.in_(some)
        rows = connection.execute(select(table.row_ref, table.request_id).where(chosen))
        found |= {row.row_ref: row.request_id for row in rows}
    return found


def hold_payees(ledger: Ledger, connection: Connection, run_key: str, limits: Limits) -> None:
    """Hold first payments as the policy says.

    `limits` count where no policy is in force; else what it says, whoever asks.
    """
    now = ledger.now()
    limits = _in_force(ledger, connection, run_key, now, limits)
    if holds_payees(limits):
        for row_ref, reason, kind in list(held_payees(connection, ledger.key, run_key, limits, now)):
            _hold(ledger, connection, run_key, row_ref, reason, kind)


def release_cooled(ledger: Ledger, connection: Connection, run_key: str, limits: Limits) -> list[str]:
    """Release first payments that the policy holds no more, and return their rows; `limits` as in `hold_payees`.

    It comes before everything else that waits is judged: what was held was judged by nothing meanwhile.
    """
    now = ledger.now()
    limits = _in_force(ledger, connection, run_key, now, limits)
    held = [row for row in _not_released(connection, run_key, State.HELD, Hold.PAYEE) if row.hold_kind == Hold.PAYEE]
    differs = _differs(connection, run_key, limits) if held else {}
    same = [row for row in held if row.row_ref not in differs]
    cooled = [row.row_ref for row in same if _why_held(connection, ledger.key, row, limits, now) is None]
    waited = _not_released(connection, run_key, State.HELD, Hold.COOLING)
    cooled += [row.row_ref for row in waited if row.hold_kind == Hold.COOLING and _is_cooled(row, limits, now)]
    for row_ref in cooled:
        _release(ledger, connection, run_key, row_ref, "the policy does not hold it for its payee any more")
    return cooled


def _in_force(ledger: Ledger, connection: Connection, run_key: str, now: int, otherwise: Limits) -> Limits:
    """The limits of the policy in force for a run's payments; `otherwise` where none is."""
    policy = policy_now(connection, ledger.key, now)
    if policy is None:
        return otherwise
    of_run = select(schema.orders.c.operation).where(schema.orders.c.run_key == run_key).limit(1)
    operation = connection.execute(of_run).scalar()  # a run is of one kind
    return policy.table("payouts" if operation is None else CATALOGUE[operation].limited_by)


def release_duplicates(ledger: Ledger, connection: Connection, run_key: str, intents: Iterable[Intent]) -> None:
    """Release rows that were held as duplicates and have a `duplicate_ok` now."""
    table = schema.orders.c
    held = select(table.row_ref).where(table.run_key == run_key, table.state == State.HELD.value, ~table.doubtful)
    waiting = {row.row_ref for row in connection.execute(held.where(table.hold_kind == Hold.DUPLICATE.value))}
    for row_ref in excused(intents, waiting):
        _release(ledger, connection, run_key, row_ref, "the row says why it is none", Hold.DUPLICATE)


def _hold(ledger: Ledger, connection: Connection, run_key: str, row_ref: str, reason: str, kind: Hold) -> None:
    row = _locked(connection, run_key, row_ref, State.PREPARED)
    if row is not None:
        set_order(connection, ledger.key, row, {"state": State.HELD.value, "reason": reason, "hold_kind": kind})
        ledger.journal_step(connection, row.id, Event.HOLD, State.PREPARED, State.HELD, cause=reason)


def _release(
    ledger: Ledger, connection: Connection, run_key: str, row_ref: str, cause: str, kind: Hold | None = None
) -> None:
    """Let a held payment wait; it counted on no day: it is judged by what others spent meanwhile."""
    row = _locked(connection, run_key, row_ref, State.HELD)
    if row is not None:
        released = row.released if kind is None else _released(row, kind)
        waits = {"state": State.PREPARED.value, "reason": None, "hold_kind": None, "counted_on": None}
        set_order(connection, ledger.key, row, {**waits, "released": released})
        ledger.journal_step(connection, row.id, Event.RELEASE, State.HELD, State.PREPARED, cause=cause)


def _locked(connection: Connection, run_key: str, row_ref: str, state: State) -> Row[Any] | None:
    """Return a payment in this state; None where it is elsewhere: a person cancels without waiting for this
    transaction."""
    table = schema.orders
    chosen = (table.c.run_key == run_key) & (table.c.row_ref == row_ref) & (table.c.state == state.value)
    return connection.execute(select(table).where(chosen).with_for_update()).first()
