"""Epochs: protect a ledger that may know less than the service, for example after a restore.

A ledger is older than the service when it counts fewer marks (sends, and what people decided) than this
machine's token, or fewer steps, is a different database or file than before, was restored by `treasury restore`, or
when the service knows a reference that it has not sent. Then an epoch begins: orders that were recorded before it and
not sent are held until a person releases them, and for 35 days every order is queried before it is sent. A ledger or
machine that is only new holds nothing: it queries every reference of its first run once.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from enum import Enum
from pathlib import Path

from sqlalchemy import Connection, delete, insert, select, update

from treasury.ledger import schema
from treasury.ledger.continuity import (
    Count,
    LedgerToken,
    SeenFile,
    SeenRows,
    identity_of_ledger,
    is_same,
    last_step,
    marks_of,
    new_name,
    place_of,
)
from treasury.ledger.database import serialize
from treasury.ledger.decisions import record
from treasury.ledger.halts import check_not_stopped
from treasury.ledger.ledger import Ledger
from treasury.ledger.migrations import meta_of, meta_value, set_meta
from treasury.ledger.seals import set_order
from treasury.orders.states import Event, Hold, State
from treasury.texts import with_person

EPOCH_MS = 35 * 24 * 3600 * 1000
"""How long an epoch lasts: as long as final orders are still queried."""
ABSENCES = 2
"""Queries that must find nothing, a resend window apart, before anything is sent in an epoch."""


class Standing(Enum):
    """How far this machine's ledger can be trusted."""

    KNOWN = "known"
    NEW = "new"
    """This machine has never sent from this ledger: every reference of its first run is queried."""
    OLDER = "older"
    """An epoch has just begun."""


def check_standing(ledger: Ledger, token: LedgerToken, seen: SeenFile, file: Path | None) -> Standing:
    """Begin an epoch if the ledger may be older than the service; returns the standing. Marks count from here on.

    `file`: the ledger's; None where it is kept in no file of its own. Raises `Stopped` where decisions or policies were
    deleted from it: all sending is stopped then.
    """

    def work(connection: Connection) -> tuple[Standing, Count | None, SeenRows, bool]:
        serialize(connection)
        meta = meta_of(connection)
        place = place_of(connection, file)
        try:
            count, unreadable = token.read(), None
        except ValueError as error:
            count, unreadable = None, str(error)
        why = unreadable or _why_older(connection, meta, count, place)
        is_put_back = count is not None and _why_token_differs(connection, meta, count) is not None
        stop = None if is_put_back else seen.stop_for_deleted(connection, ledger.key, count)
        set_meta(connection, {"identity": meta.get("identity") or new_name(), "file": place, "restored_at": None})
        if stop is not None:
            record(connection, ledger, stop)
            why = why or stop.why
        standing = Standing.KNOWN
        if why is not None:
            standing, count = Standing.OLDER, _begin(connection, ledger, why, count)
        elif count is None:
            standing = Standing.NEW
        else:
            count = _know(connection, ledger, count)
        return standing, count, seen.look(connection, count), stop is not None

    standing, count, now, is_stopped = ledger.write(work)
    seen.write(now)
    if count is not None:
        token.begin(count)
        ledger.count_with(token)
    if is_stopped:
        ledger.write(lambda connection: check_not_stopped(connection, ledger))
    return standing


def _know(connection: Connection, ledger: Ledger, count: Count) -> Count:
    """Adopt a machine that the ledger knows, or knew before its epoch. Other processes may be counting right now."""
    marks = marks_of(connection, count.host)
    if marks is None:
        return _name_machine(connection, ledger, count.marks, count.host)
    if marks < count.marks:
        change = update(schema.hosts).where(schema.hosts.c.host == count.host)
        connection.execute(change.values(marks=count.marks))
    return Count(count.host, identity_of_ledger(connection), max(marks, count.marks), last_step(connection))


def register_machine(ledger: Ledger, token: LedgerToken, run_key: str) -> None:
    """Register this machine; each reference of its first run needs one query that finds nothing."""

    def work(connection: Connection) -> Count:
        serialize(connection)
        table = schema.orders.c
        waiting = (table.run_key == run_key) & (table.state == State.PREPARED.value) & (table.absences_needed == 0)
        connection.execute(update(schema.orders).where(waiting).values(absences_needed=1))
        return _name_machine(connection, ledger, 0)

    token.begin(ledger.write(work))
    ledger.count_with(token)


def begin_epoch(ledger: Ledger, token: LedgerToken, why: str) -> None:
    """Begin an epoch because the service knows an order that this ledger has not sent. A running epoch continues."""

    def work(connection: Connection) -> Count | None:
        serialize(connection)
        if epoch_began(connection, ledger.now()) is not None:
            return None
        count = None
        with suppress(ValueError):
            count = token.read()
        return _begin(connection, ledger, why, count)

    count = ledger.write(work)
    if count is not None:
        token.begin(count)
        ledger.count_with(token)


def epoch_began(connection: Connection, now_ms: int) -> int | None:
    """When the epoch that runs began, Unix ms; None when none runs."""
    found = meta_value(connection, "epoch_at")
    return int(found) if found is not None and now_ms - int(found) < EPOCH_MS else None


def is_from_before(connection: Connection, at_ms: int) -> bool:
    """Return True for a moment, Unix ms, before the newest epoch, also one that is over: whoever had the ledger before
    it may have gone on with what was recorded then."""
    found = meta_value(connection, "epoch_at")
    return found is not None and at_ms < int(found)


def absences_needed(connection: Connection, now_ms: int) -> int:
    """How many queries must find nothing before an order that is recorded now may be sent."""
    return 0 if epoch_began(connection, now_ms) is None else ABSENCES


def why_epoch(ledger: Ledger) -> str | None:
    """Why an epoch runs, in words; None when none does."""

    def work(connection: Connection) -> str | None:
        return meta_value(connection, "epoch_why") if epoch_began(connection, ledger.now()) is not None else None

    return ledger.look(work)


def why_older(ledger: Ledger, token: LedgerToken, file: Path | None) -> str | None:
    """Why the next start begins an epoch, in words; None when nothing says so. `file` as for `check_standing`."""

    def work(connection: Connection) -> str | None:
        return _why_older(connection, meta_of(connection), token.read(), place_of(connection, file))

    try:
        return ledger.look(work)
    except ValueError as error:  # a token that cannot be read
        return str(error)


def _why_older(connection: Connection, meta: Mapping[str, str], count: Count | None, place: str) -> str | None:
    """Why the ledger may be older than the service, in words; None when nothing says so."""
    if "restored_at" in meta:
        return "it was restored from a backup"
    if not is_same(meta.get("file") or place, place):  # blank: on PostgreSQL, from before its identity was kept
        return "its file, or its database on a server, is another one than before"
    return None if count is None else _why_token_differs(connection, meta, count)


def _why_token_differs(connection: Connection, meta: Mapping[str, str], count: Count) -> str | None:
    """Why this machine's token shows more than the ledger holds, in words; None when it does not."""
    if count.ledger != meta.get("identity"):
        known_before = count.ledger in json.loads(meta.get("predecessors", "[]"))
        return None if known_before else "this machine sent from another ledger of this account before"
    marks = marks_of(connection, count.host)
    if marks is None or marks < count.marks:
        return f"this machine marked {count.marks} sends, and the ledger knows of {marks or 0}"
    if (last := last_step(connection)) < count.step:
        return f"this machine saw step {count.step} of its orders, and the ledger's last one is {last}"
    return None


def _begin(connection: Connection, ledger: Ledger, why: str, count: Count | None) -> Count:
    """Hold orders that were not sent, and give the ledger another identity, so that the epoch begins only once."""
    meta = meta_of(connection)
    before = [*json.loads(meta.get("predecessors", "[]")), meta.get("identity", "")]
    now = ledger.now()
    set_meta(
        connection,
        {"identity": new_name(), "predecessors": json.dumps(before), "epoch_at": str(now), "epoch_why": why},
    )
    reason = (
        f"recorded before this ledger was found to be older than the service ({why}): it may have been paid since; "
        "look at it, then " + with_person("treasury release RUN-KEY --by NAME --why TEXT", is_listed=None)
    )
    table = schema.orders
    values = {"state": State.HELD.value, "hold_kind": Hold.OLDER.value, "reason": reason}
    waits = select(table).where(table.c.state == State.PREPARED.value).order_by(table.c.id).with_for_update()
    for row in connection.execute(waits).fetchall():  # Race: one that leaves just now is locked, or has left
        set_order(connection, ledger.key, row, values)
        ledger.journal_step(connection, row.id, Event.HOLD, State.PREPARED, State.HELD, cause=why)
    marks = 0 if count is None else max(count.marks, marks_of(connection, count.host) or 0)
    return _name_machine(connection, ledger, marks, None if count is None else count.host)


def _name_machine(connection: Connection, ledger: Ledger, marks: int, host: str | None = None) -> Count:
    """Record the machine in the ledger, with so many marks."""
    host, table = host or new_name(), schema.hosts
    connection.execute(delete(table).where(table.c.host == host))
    connection.execute(insert(table).values(host=host, marks=marks, first_seen=ledger.now()))
    return Count(host, identity_of_ledger(connection), marks, last_step(connection))
