"""Tells a file, or a database on a server, from another one in its place: its number, and when it was made.

The number alone does not: a file system gives a new file the number of one that was deleted just before.
"""

import ctypes
import os
import struct
from functools import cache
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, text

from treasury.ledger import schema

_HERE, _BIRTH = -100, 0x800
"""`AT_FDCWD` and `STATX_BTIME` of Linux."""
_MASK_AT, _BIRTH_AT = 0, 80
"""The places in `struct statx` of the mask that it filled in, and of the birth: seconds and nanoseconds."""


def place_of(connection: Connection, file: Path | None) -> str:
    """Return the identity of a ledger's file; None: of its database on a server."""
    return identity_on_server(connection) if file is None else identity_of(file)


def identity_of(file: Path) -> str:
    """Return what distinguishes a file from any other one; the device's number changes with every start of a
    machine."""
    birth = _birth(file)
    return f"{file.stat().st_ino}{'' if birth is None else f'@{birth}'}"


def identity_on_server(connection: Connection) -> str:
    """Return what distinguishes a database of PostgreSQL from a copy or a restored dump of it, under whatever name: its
    number, that of a table in it, and its cluster's, where we may ask for that."""
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
