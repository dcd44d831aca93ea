"""Continuity: is this the ledger that this machine wrote last, and is all of it still there?

A file is told from another one in its place by its number and its birth: a file system gives a new file the number of
one that was deleted just before.

The token of a machine is a file in its home that counts the sends that this machine marked in the ledger. It is written
after each commit of the ledger, so it counts more than the ledger only when the ledger was put back to an older state.
It guards against restores, not against power loss, so it is not synced. The identity of a ledger is a random name that
no other has, and that changes when it is found to be restored.

Stops, rejections, cancellations and policies are added to a ledger and never taken out of it. A machine keeps in a file
of its home how many of them it saw; it finds fewer where somebody deleted one, or made another decision of it.
"""

import ctypes
import hashlib
import json
import os
import struct
import threading
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import Connection, bindparam, func, literal, select, text, union_all, update

from treasury.approving.tokens import Verb
from treasury.errors import ConfigurationError, LedgerPutBack
from treasury.files import write_json
from treasury.ledger import schema
from treasury.ledger.cipher import LedgerKey
from treasury.ledger.decisions import ALL_SENDING, STOP, RecordedDecision, find_decisions
from treasury.ledger.migrations import meta_value, set_meta
from treasury.ledger.statements import fetch_one
from treasury.private_files import make_folder
from treasury.texts import count_of

_HERE, _BIRTH = -100, 0x800
"""`AT_FDCWD` and `STATX_BTIME` of Linux."""
_MASK_AT, _BIRTH_AT = 0, 80
"""The places in `struct statx` of the mask that it filled in, and of the birth: seconds and nanoseconds."""


def identity_of(file: Path) -> str:
    """Return what distinguishes a file from any other one; the device's number changes with every start of a
    machine."""
    birth = _birth(file)
    return f"{file.stat().st_ino}{'' if birth is None else f'@{birth}'}"


def place_of(connection: Connection, file: Path | None) -> str:
    """Return the identity of a ledger's file; None: what distinguishes its database on a server from a copy or a
    restored dump of it, under whatever name: its number, that of a table in it, and its cluster's, where we may ask."""
    if file is not None:
        return identity_of(file)
    ours = "SELECT oid, CAST(to_regclass(:table) AS oid) FROM pg_database WHERE datname = current_database()"
    database, table = connection.execute(text(ours), {"table": schema.meta.name}).one()
    may = "SELECT has_function_privilege('pg_control_system()', 'EXECUTE')"
    if not connection.execute(text(may)).scalar_one():
        return f"{database}.{table}"
    cluster = connection.execute(text("SELECT system_identifier FROM pg_control_system()")).scalar_one()
    return f"{database}.{table}@{cluster}"


def is_same(known: str, identity: str) -> bool:
    """Return True for two identities of one file, or database; where one says no birth, or cluster, they are compared
    without."""
    if "@" in known and "@" in identity:
        return known == identity
    return known.partition("@")[0] == identity.partition("@")[0]


def _birth(file: Path) -> int | None:
    """When a file was made, Unix ns; None where the system does not say. Copying a file back never keeps it."""
    library = _library()
    if library is None:
        said = getattr(file.stat(), "st_birthtime", None)
        return None if said is None else int(said * 1_000_000_000)
    found = ctypes.create_string_buffer(256)
    if library.statx(_HERE, os.fsencode(file), 0, _BIRTH, found) != 0:
        return None
    filled: int = struct.unpack_from("=I", found, _MASK_AT)[0]
    seconds, nanoseconds = struct.unpack_from("=qI", found, _BIRTH_AT)
    return int(seconds) * 1_000_000_000 + int(nanoseconds) if filled & _BIRTH else None


@cache
def _library() -> Any:
    """The C library, if it has `statx`: Python 3.11 has no name for it."""
    library = ctypes.CDLL(None)
    return library if hasattr(library, "statx") else None


WIDTH = 200
"""Bytes of the file: always the same, so that one write replaces it whole."""


LAST_STEP = select(func.coalesce(func.max(schema.journal.c.id), 0)).scalar_subquery()
"""Number of the journal's last step. No step is ever taken out."""

_COUNT = (
    update(schema.hosts)
    .where(schema.hosts.c.host == bindparam("of"))
    .values(marks=schema.hosts.c.marks + bindparam("more"))
    .returning(schema.hosts.c.marks, LAST_STEP)
)


@dataclass(frozen=True)
class Count:
    """The content of a token."""

    host: str
    """A random name of this home on this machine."""
    ledger: str
    """Identity of the ledger that it counts for."""
    marks: int
    step: int = 0
    """The journal's last step then: orders may be put back without the machines that sent them."""


class LedgerToken:
    """The token file of one account in this home. Runs of one process may begin in several threads at once."""

    def __init__(self, folder: Path, account: str) -> None:
        self.file = folder / f"{hashlib.sha256(account.encode()).hexdigest()[:16]}.token"
        self._current = Count("", "", 0)
        self._descriptor: int | None = None
        self._guard = threading.Lock()

    def read(self) -> Count | None:
        """Read the token; None when there is none. Raises `ValueError` when it cannot be read."""
        try:
            return _parse(self.file.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            why = str(error.strerror) if isinstance(error, OSError) else "it is no token of ours"
            raise ValueError(f"{self.file} cannot be read: {why}") from None

    def begin(self, count: Count) -> None:
        """Count for this ledger from here on. Raises `ConfigurationError` when the file cannot be written."""
        try:
            with self._guard:
                self._current = count
                make_folder(self.file.parent)
                self._close()
                self._descriptor = os.open(self.file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
                self._write(count)
                os.ftruncate(self._descriptor, WIDTH)
        except OSError as error:
            raise ConfigurationError(f"{self.file} cannot be written: {error.strerror}; nothing was sent") from None

    def count(self, connection: Connection, marks: int) -> Count:
        """Count marks in the ledger, in the transaction that makes them; what the token says once it is committed.

        Raises `LedgerPutBack` where the ledger counts fewer than it did: the token must stay as it is, to say so again.
        Other processes of this machine write their marks into the token, too.
        """
        current = self._current
        found = fetch_one(connection, _COUNT, {"of": current.host, "more": marks})
        written = self._written(current)
        if found is None or int(found[0]) - marks < max(current.marks, written.marks):
            raise LedgerPutBack
        # Race: on PostgreSQL a statement that waited for another process sees the journal of before its wait.
        step = max(int(found[1]), current.step, written.step)
        return Count(current.host, current.ledger, int(found[0]), step)

    @property
    def current(self) -> Count:
        """Return the last count of this process."""
        return self._current

    def write(self, count: Count) -> None:
        """Write what `count` returned: machine, ledger and marks belong together, whoever began anew meanwhile."""
        with self._guard:
            self._write(count)
            if (count.host, count.ledger) == (self._current.host, self._current.ledger):
                self._current = count

    def close(self) -> None:
        """Close the file."""
        with self._guard:
            self._close()

    def _written(self, current: Count) -> Count:
        """The content of the file, read while the ledger's row is locked: its ledger counts as many, or more."""
        with self._guard, suppress(OSError, ValueError, KeyError, TypeError):
            if self._descriptor is not None:
                written = _parse(os.pread(self._descriptor, WIDTH, 0))
                return written if (written.host, written.ledger) == (current.host, current.ledger) else current
        return current

    def _write(self, count: Count) -> None:
        if self._descriptor is not None:
            content = json.dumps(asdict(count))
            os.pwrite(self._descriptor, content.ljust(WIDTH - 1).encode() + b"\n", 0)

    def _close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _parse(content: bytes) -> Count:
    """The content of a token file. Raises `ValueError`, `KeyError` or `TypeError` for another one."""
    found = json.loads(content.decode("ascii"))
    return Count(str(found["host"]), str(found["ledger"]), int(found["marks"]), int(found.get("step", 0)))


def marks_of(connection: Connection, host: str) -> int | None:
    """How many marks of a machine the ledger knows; None for a machine that it does not know."""
    table = schema.hosts.c
    found = connection.execute(select(table.marks).where(table.host == host)).scalar()
    return None if found is None else int(found)


def last_step(connection: Connection) -> int:
    """Number of the journal's last step; 0 without one."""
    return int(connection.execute(select(LAST_STEP)).scalar_one())


def new_name() -> str:
    """A name for a machine or a ledger that no other has."""
    return uuid.uuid4().hex


def identity_of_ledger(connection: Connection) -> str:
    """The identity of this ledger, which gets one here if it has none yet."""
    known = meta_value(connection, "identity")
    if known is None:
        known = new_name()
        set_meta(connection, {"identity": known})
    return known


HOLD_BACK: Mapping[str, str] = {Verb.STOP: "stop", Verb.REJECT: "rejection", Verb.CANCEL: "cancellation"}
"""Decisions after which something does not leave, and how they are called."""

_POLICIES = "policies"
_NOUNS = {**HOLD_BACK, _POLICIES: "policy adoption"}

AGAIN = "; find out who did, and say again what was decided"
"""Follows what was deleted."""

OF_LEDGER = "ledger"
"""Fact of such a stop: the identity under which the ledger was seen, so that only one machine that saw it stops."""

NO_TOKEN = Count("", "", 0)
"""Stands for the token of a machine that never sent."""

_LAST = {"decisions": 2**62, _POLICIES: 2**62}
"""Greater than the number of any row."""

_table = schema.decisions.c
_SEEN = union_all(
    select(_table.verb.label("kind"), func.count().label("rows"), func.max(_table.id).label("last"))
    .where(_table.verb.in_(list(HOLD_BACK)), _table.id <= bindparam("decisions"))
    .group_by(_table.verb),
    select(literal(_POLICIES), func.count(), func.max(schema.policies.c.id)).where(
        schema.policies.c.id <= bindparam(_POLICIES)
    ),
)
"""How many rows there are of each kind, and the greatest number of one, up to a number of each table."""


@dataclass(frozen=True)
class SeenRows:
    """Decisions and policies that a machine saw in a ledger, counted."""

    ledger: str
    """Identity of the ledger then."""
    place: str
    """Identity of its file, or of its database on a server."""
    host: str
    """Name of the machine in its token; empty before it has one."""
    marks: int
    """Sends that the token counted."""
    rows: Mapping[str, int]
    """Kind -> number of rows."""
    decisions: int
    """Greatest number of one of these decisions; 0 while there is none."""
    policies: int


_KEPT = TypeAdapter(SeenRows)


class SeenFile:
    """The file in which the machine of a home keeps what it saw. `database`: the ledger's; None on a server."""

    def __init__(self, file: Path, database: Path | None) -> None:
        self.file = file
        self._database = database

    def look(self, connection: Connection, count: Count | None) -> SeenRows:
        """Return what is in the ledger now, as the machine with this token sees it."""
        token, found = count or NO_TOKEN, connection.execute(_SEEN, _LAST).fetchall()
        last = dict.fromkeys(_LAST, 0)
        for row in found:
            table = row.kind if row.kind == _POLICIES else "decisions"
            last[table] = max(last[table], row.last or 0)
        rows = {row.kind: row.rows for row in found}
        ledger, place = identity_of_ledger(connection), place_of(connection, self._database)
        return SeenRows(ledger, place, token.host, token.marks, rows, **last)

    def write(self, seen: SeenRows) -> None:
        """Keep what was seen, unless only sends were added; where the file cannot be written, what it holds stays."""
        kept = self._read()
        if kept is None or replace(kept, marks=seen.marks) != seen:
            with suppress(OSError):
                write_json(self.file, asdict(seen))

    def stop_for_deleted(self, connection: Connection, key: LedgerKey, count: Count | None) -> RecordedDecision | None:
        """Return the stop to record where rows that were seen are gone; None where all are there.

        None, too, where another machine that saw this ledger recorded such a stop before.
        What was seen says nothing of another file or database, nor of one that was put back together with the token.
        """
        seen, token = self._read(), count or NO_TOKEN
        if seen is None or seen.place != place_of(connection, self._database):
            return None
        if seen.host not in ("", token.host) or seen.marks > token.marks:
            return None
        until = {"decisions": seen.decisions, _POLICIES: seen.policies}
        rows = {row.kind: row.rows for row in connection.execute(_SEEN, until)}
        lacking = {kind: number - rows.get(kind, 0) for kind, number in seen.rows.items()}
        gone = [count_of(number, _NOUNS.get(kind, kind)) for kind, number in lacking.items() if number > 0]
        stops = find_decisions(connection, key, (Verb.STOP,))[0] if gone else []
        if not gone or any(each.facts.get(OF_LEDGER) == seen.ledger for each in stops):
            return None
        why = f"deleted from it, or changed by hand: {', '.join(gone)}"
        return RecordedDecision(
            Verb.STOP, STOP, ALL_SENDING, "the ledger", "", why + AGAIN, facts={OF_LEDGER: seen.ledger}
        )

    def _read(self) -> SeenRows | None:
        try:
            return _KEPT.validate_json(self.file.read_bytes())
        except (OSError, ValueError):
            return None
