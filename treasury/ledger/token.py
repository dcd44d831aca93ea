"""The token of a machine: a file in its home that counts the sends that this machine marked in the ledger.

It is written after each commit of the ledger, so it counts more than the ledger only when the ledger was put back to an
older state. It guards against restores, not against power loss, so it is not synced. And the identity of a ledger: a
random name that no other has, and that changes when it is found to be restored.
"""

import hashlib
import json
import os
import threading
import uuid
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, bindparam, insert, select, update

from treasury.errors import ConfigurationError
from treasury.ledger import schema
from treasury.ledger.statements import fetch_one
from treasury.private_files import make_folder

WIDTH = 200
"""Bytes of the file: always the same, so that one write replaces it whole."""


_COUNT = (
    update(schema.hosts)
    .where(schema.hosts.c.host == bindparam("of"))
    .values(marks=schema.hosts.c.marks + bindparam("more"))
    .returning(schema.hosts.c.marks)
)


@dataclass(frozen=True)
class Count:
    """The content of a token."""

    host: str
    """A random name of this home on this machine."""
    ledger: str
    """Identity of the ledger that it counts for."""
    marks: int


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
            content = json.loads(self.file.read_text(encoding="ascii"))
            return Count(str(content["host"]), str(content["ledger"]), int(content["marks"]))
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
        """Count marks in the ledger, in the transaction that makes them; what the token says once it is committed."""
        current = self._current
        found = fetch_one(connection, _COUNT, {"of": current.host, "more": marks})
        if found is None:
            raise ConfigurationError(
                "the ledger forgot this machine while it was sending: was it restored? Start again"
            )
        return Count(current.host, current.ledger, int(found[0]))

    def write(self, count: Count) -> None:
        """Write what `count` returned: machine, ledger and marks belong together, whoever began anew meanwhile."""
        with self._guard:
            self._write(count)

    def close(self) -> None:
        """Close the file."""
        with self._guard:
            self._close()

    def _write(self, count: Count) -> None:
        if self._descriptor is not None:
            content = json.dumps({"host": count.host, "ledger": count.ledger, "marks": count.marks})
            os.pwrite(self._descriptor, content.ljust(WIDTH - 1).encode() + b"\n", 0)

    def _close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def marks_of(connection: Connection, host: str) -> int | None:
    """How many marks of a machine the ledger knows; None for a machine that it does not know."""
    table = schema.hosts.c
    found = connection.execute(select(table.marks).where(table.host == host)).scalar()
    return None if found is None else int(found)


def new_name() -> str:
    """A name for a machine or a ledger that no other has."""
    return uuid.uuid4().hex


def identity_of_ledger(connection: Connection) -> str:
    """The identity of this ledger, which gets one here if it has none yet."""
    table = schema.meta.c
    known = connection.execute(select(table.value).where(table.key == "identity")).scalar()
    if known is not None:
        return str(known)
    name = new_name()
    connection.execute(insert(schema.meta).values(key="identity", value=name))
    return name
