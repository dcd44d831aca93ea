"""Duplicates: payments that look the same, found by the keyed hash of payee, currency and amount.

A payment is compared when it is recorded, and again before the first byte of one that waited. It is a duplicate of one
that may have been paid (open, whatever its age; settled within the policy's days; or held because the service may have
it), and of one that was recorded earlier and still waits. One that comes back from a hold, which nobody saw meanwhile,
is a duplicate of any that waits. What failed, was closed, rejected or cancelled, or is held for any other reason, makes
no other one a duplicate.
"""

import functools
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Select, and_, bindparam, case, func, or_, select

from treasury.concurrency.batches import batched
from treasury.ledger import schema
from treasury.ledger.ledger import Ledger
from treasury.orders.records import Intent
from treasury.orders.states import NEVER_RELEASED, Hold, State

DAY_MS = 24 * 3600 * 1000

_OPEN = (State.SENDING.value, State.UNKNOWN.value, State.ACCEPTED.value)

_MAY_BE_THERE = tuple(kind.value for kind in (*NEVER_RELEASED, Hold.OLDER))
"""Holds of what the service may have, though this ledger never heard so."""

AT_ONCE = 20_000
"""Rows that one statement names, at the most: databases take no more than some ten thousand values."""


@dataclass(frozen=True)
class Duplicate:
    """A payment that looks like an earlier one."""

    row_ref: str
    earlier: str
    """The earlier one, in words."""


@dataclass(frozen=True)
class EarlierPayment:
    """A settled payment that looks like a planned one, and is too old to be a reason to hold it."""

    row_ref: str
    run_key: str
    request_id: str
    settled_at: int
    """Unix milliseconds."""


def find_duplicates(
    connection: Connection, run_key: str, since_ms: int, back: Collection[str] = ()
) -> Iterator[Duplicate]:
    """The waiting payments of a run that are duplicates, and that no person released as such.

    `back`: rows that nothing holds any more from now on, beside those that a person released.

    Race: PostgreSQL lets each statement see another moment. One statement looks at all states of the others: of two,
    neither would see a payment that leaves between them.
    """
    for some in batched([*back, ""], AT_ONCE):  # no row is called "": a list without any is searched row by row
        for row in connection.execute(_pairs(), {"run_key": run_key, "since": since_ms, "back": list(some)}):
            yield Duplicate(row.row_ref, f"{row.other} of run {row.run_key} ({row.request_id})")


def may_be_paid(table: Any, since_ms: Any = 0) -> Any:
    """Return where an order is open, or was settled since then."""
    return or_(table.c.state.in_(_OPEN), and_(table.c.state == State.SETTLED.value, _ended(table) >= since_ms))


def may_be_repeated(table: Any, since_ms: Any) -> Any:
    """Return where an order may be paid, as `may_be_paid` says, or is held because the service may have it."""
    held = and_(table.c.state == State.HELD.value, table.c.hold_kind.in_(_MAY_BE_THERE))
    return or_(may_be_paid(table, since_ms), held)


@functools.cache
def _pairs() -> Select[Any]:
    """Each waiting payment of a run, with the first that looks like it and may be paid; else the first that waits, if
    it was recorded earlier; else the last, if this one comes back from a hold."""
    mine, other, first_of = schema.orders.alias(), schema.orders.alias(), schema.orders.alias()
    run_key: Any = bindparam("run_key")
    waits, paid = other.c.state == State.PREPARED.value, may_be_repeated(other, bindparam("since"))
    keys = select(mine.c.alike).where(
        mine.c.run_key == run_key, mine.c.state == State.PREPARED.value, mine.c.alike.is_not(None)
    )
    firsts = (
        select(
            other.c.alike,
            func.min(case((paid, other.c.id))).label("paid"),
            func.min(case((waits, other.c.id))).label("waits"),
            func.max(case((waits, other.c.id))).label("last"),
        )
        .where(other.c.alike.in_(keys), or_(waits, paid))
        .group_by(other.c.alike)
        .subquery()
    )
    is_back = or_(mine.c.released.is_not(None), mine.c.row_ref.in_(bindparam("back", expanding=True)))
    later = case((and_(is_back, firsts.c.last > mine.c.id), firsts.c.last))
    first = func.coalesce(firsts.c.paid, case((firsts.c.waits < mine.c.id, firsts.c.waits)), later)
    # Each is looked up by what it looks like: by its state SQLite would go through all that wait for each of them.
    waits_still = func.coalesce(mine.c.state, "") == State.PREPARED.value
    not_released = or_(mine.c.released.is_(None), ~mine.c.released.contains(Hold.DUPLICATE.value))
    return (
        select(mine.c.row_ref, first_of.c.row_ref.label("other"), first_of.c.run_key, first_of.c.request_id)
        .join(firsts, firsts.c.alike == mine.c.alike)
        .join(first_of, first_of.c.id == first)
        .where(mine.c.run_key == run_key, waits_still, not_released)
        .order_by(mine.c.id)
    )


def _ended(table: Any) -> Any:
    return func.coalesce(table.c.final_at, table.c.created_at)


def excused(intents: Iterable[Intent], duplicates: Collection[str]) -> list[str]:
    """The duplicates among these rows that have a `duplicate_ok`."""
    if not duplicates:
        return []
    return [intent.row_ref for intent in intents if intent.row_ref in duplicates and intent.duplicate_ok]


def earlier_payments(ledger: Ledger, run_key: str, intents: Iterable[Intent], days: int) -> list[EarlierPayment]:
    """Settled payments of other runs that look like these and were settled longer ago than `days`: a person knows."""
    table = schema.orders.c
    until = ledger.now() - days * DAY_MS
    found = []
    for some in batched(intents):
        rows = {ledger.key.keyed_hash(list(each.duplicate_key)): each.row_ref for each in some if each.duplicate_key}
        ended = func.coalesce(table.final_at, table.created_at)
        query = select(table.alike, table.run_key, table.request_id, ended.label("ended")).where(
            table.alike.in_(list(rows)), table.state == State.SETTLED.value, ended < until, table.run_key != run_key
        )
        found += [
            EarlierPayment(rows[row.alike], row.run_key, row.request_id, int(row.ended))
            for row in ledger.read(query.order_by(table.id))
        ]
    return found
