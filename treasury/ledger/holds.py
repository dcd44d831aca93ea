"""Holds and releases waiting payments of a run, in the transaction that records them: limits, duplicates, payees."""

from collections.abc import Collection, Iterable
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, select, update

from treasury.concurrency.batches import batched
from treasury.ledger import schema
from treasury.ledger.duplicates import DAY_MS, excused, find_duplicates
from treasury.ledger.in_force import policy_now
from treasury.ledger.ledger import Ledger
from treasury.ledger.mapping import read_row
from treasury.ledger.payee_holds import cooled_payees, held_payees, holds_payees
from treasury.ledger.seals import with_seal
from treasury.orders.records import CALL, Intent, Order
from treasury.orders.states import Event, Hold, State
from treasury.policy.limits import Limits
from treasury.provider.catalogue import CATALOGUE

KEY_RELEASES = "somebody who did not make this run releases it by key: treasury release {} --key FILE --why TEXT"


def hold_over(ledger: Ledger, connection: Connection, run_key: str, over: Iterable[tuple[str, str]]) -> None:
    """Hold waiting payments that do not fit into a limit: row and reason."""
    for row_ref, reason in over:
        _step(ledger, connection, run_key, row_ref, Event.HOLD, State.PREPARED, State.HELD, reason, Hold.LIMIT)


def hold_duplicates(
    ledger: Ledger,
    connection: Connection,
    run_key: str,
    duplicate_days: int,
    intents: Iterable[Intent],
    *,
    is_keyed: bool,
    back: Collection[str] = (),
) -> None:
    """Hold each waiting payment that repeats another one without an excuse; `intents`: whose excuses count now.

    `is_keyed`: people are listed with keys, and one of them releases what is meant. `back`: as in `find_duplicates`.
    """
    since = ledger.now() - duplicate_days * DAY_MS
    found = {each.row_ref: each.earlier for each in find_duplicates(connection, run_key, since, back)}
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
        _step(ledger, connection, run_key, row_ref, Event.HOLD, State.PREPARED, State.HELD, reason, Hold.DUPLICATE)


def _excuse(ledger: Ledger, connection: Connection, meant: ColumnElement[bool]) -> None:
    """Note of these payments that their rows say why they are no duplicates."""
    table = schema.orders
    for row in connection.execute(select(table).where(meant).with_for_update()).fetchall():
        values = with_seal(ledger.key, read_row(Order, row), {"released": _released(row, Hold.DUPLICATE)})
        connection.execute(update(table).where(table.c.id == row.id).values(**values))


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
            _step(ledger, connection, run_key, row_ref, Event.HOLD, State.PREPARED, State.HELD, reason, kind)


def release_cooled(ledger: Ledger, connection: Connection, run_key: str, limits: Limits) -> list[str]:
    """Release first payments that the policy holds no more, and return their rows; `limits` as in `hold_payees`.

    It comes before everything else that waits is judged: what was held was judged by nothing meanwhile.
    """
    now = ledger.now()
    limits = _in_force(ledger, connection, run_key, now, limits)
    cooled = cooled_payees(connection, ledger.key, run_key, limits, now)
    for row_ref in cooled:
        cause = "the policy does not hold it for its payee any more"
        step = (Event.RELEASE, State.HELD, State.PREPARED, None)
        _step(ledger, connection, run_key, row_ref, *step, cause=cause)
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
        cause, kind = "the row says why it is none", Hold.DUPLICATE
        step = (Event.RELEASE, State.HELD, State.PREPARED, None)
        _step(ledger, connection, run_key, row_ref, *step, cause=cause, released=kind)


def _step(
    ledger: Ledger,
    connection: Connection,
    run_key: str,
    row_ref: str,
    event: Event,
    source: State,
    target: State,
    reason: str | None,
    kind: Hold | None = None,
    cause: str | None = None,
    released: Hold | None = None,
) -> None:
    table = schema.orders
    chosen = (table.c.run_key == run_key) & (table.c.row_ref == row_ref) & (table.c.state == source.value)
    values = {"state": target.value, "reason": reason, "hold_kind": kind}
    if event is Event.RELEASE:
        values |= {"counted_on": None}  # it counted on no day: it is judged by what others spent meanwhile
    row = connection.execute(select(table).where(chosen).with_for_update()).first()
    if row is None:
        return  # it is elsewhere: a person cancels without waiting for this transaction
    if released is not None:
        values |= {"released": _released(row, released)}
    sealed = with_seal(ledger.key, read_row(Order, row), values)
    connection.execute(update(table).where(table.c.id == row.id).values(**sealed))
    ledger.journal_step(connection, row.id, event, source, target, cause=reason or cause)
