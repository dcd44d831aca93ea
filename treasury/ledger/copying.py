"""Copies a whole ledger at one moment: from either database into a SQLite file, and back into either.

A copy is always a SQLite file, whichever database the ledger uses.
"""

import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from sqlalchemy import Connection, MetaData, create_engine, delete, func, insert, inspect, select, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from treasury.errors import ConfigurationError
from treasury.ledger import schema
from treasury.ledger.database import CLOSED, OPEN_IT, open_engine, serialize, sqlite_file
from treasury.ledger.migrations import check_readable, read_meta, tables_of

AT_ONCE = 1_000
"""Rows in memory at a time."""


def sync(path: Path) -> None:
    """Sync a file, or the names in a folder, to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def copy_ledger(url: str, copy: Path) -> dict[str, str]:
    """Copy the ledger into a new SQLite file while others write to it; its `meta`.

    Raises `ConfigurationError` when there is no ledger, or it cannot be read.
    """
    file = sqlite_file(url)
    with _as_configuration(f"the ledger {file or 'on its server'} cannot be copied"):
        if file is None:
            return _copy_postgresql(url, copy)
        if not file.exists():
            raise ConfigurationError(f"there is no ledger {file}")
        name = f"{file.absolute().as_uri()}?mode=rw"  # never made
        with closing(sqlite3.connect(name, uri=True, timeout=60)) as ledger, closing(sqlite3.connect(copy)) as target:
            ledger.backup(target)  # all pages in one step: a single moment, without blocking writers
            target.execute("PRAGMA journal_mode=DELETE")
        with open_copy(copy) as connection:
            return _readable_meta(connection, url)


def _copy_postgresql(url: str, copy: Path) -> dict[str, str]:
    engine = open_engine(url, writes=False)
    try:
        with engine.connect() as plain, open_copy(copy) as target:
            ledger = plain.execution_options(isolation_level="REPEATABLE READ")
            found = _readable_meta(ledger, url)
            tables = tables_of(found["schema"])
            tables.create_all(target)
            _copy_rows(ledger, target, tables)
            return found
    finally:
        engine.dispose()


def _readable_meta(connection: Connection, url: str) -> dict[str, str]:
    found = read_meta(connection)
    if not found:
        raise ConfigurationError(f"there is no ledger in {sqlite_file(url) or 'this database'}")
    check_readable(found)
    return found


@contextmanager
def open_copy(copy: Path) -> Iterator[Connection]:
    """A copy, for one transaction."""
    with create_engine(f"sqlite:///{copy}", poolclass=NullPool).begin() as connection:
        yield connection


def _copy_rows(source: Connection, target: Connection, tables: MetaData) -> None:
    for table in tables.sorted_tables:
        rows = source.execute(select(table).execution_options(yield_per=AT_ONCE))
        for part in rows.mappings().partitions():
            target.execute(insert(table), [dict(row) for row in part])


def check_copy(copy: Path) -> None:
    """Raise `ConfigurationError` when SQLite finds the file damaged."""
    with _as_configuration("the copy of the ledger is damaged"), closing(sqlite3.connect(copy)) as ledger:
        [found] = ledger.execute("PRAGMA quick_check(1)").fetchone()
        if found != "ok":
            raise ConfigurationError(f"the copy of the ledger is damaged: {found}")


def count_rows(copy: Path) -> dict[str, int]:
    """How many runs, orders and steps a copy holds."""
    with open_copy(copy) as connection:
        tables = (schema.runs, schema.orders, schema.journal)
        return {
            table.name: connection.execute(select(func.count()).select_from(table)).scalar_one() for table in tables
        }


def set_meta(connection: Connection, rows: Mapping[str, str]) -> None:
    """Set rows of `meta`."""
    connection.execute(delete(schema.meta).where(schema.meta.c.key.in_(rows)))
    connection.execute(insert(schema.meta), [{"key": key, "value": value} for key, value in rows.items()])


def place_copy(copy: Path, url: str) -> None:
    """Make a copy the ledger of this URL, completely or not at all. Raises `ConfigurationError` where one exists."""
    file = sqlite_file(url)
    with _as_configuration("the ledger cannot be restored"):
        if file is None:
            _place_in_postgresql(copy, url)
            return
        copy.chmod(0o600)
        sync(copy)
        os.link(copy, file)  # fails where there is one
        sync(file.parent)


def _place_in_postgresql(copy: Path, url: str) -> None:
    engine = open_engine(url, writes=True)
    try:
        with engine.begin() as ledger, open_copy(copy) as source:
            serialize(ledger)
            if inspect(ledger).get_table_names():
                raise ConfigurationError("the database of TREASURY_LEDGER_URL holds tables by now; nothing was done")
            tables = tables_of(read_meta(source)["schema"])
            tables.create_all(ledger)
            _copy_rows(source, ledger, tables)
            for table in tables.sorted_tables:
                if table.autoincrement_column is not None:
                    _go_on_counting(ledger, table.name, table.autoincrement_column.name)
    finally:
        engine.dispose()


def _go_on_counting(ledger: Connection, table: str, column: str) -> None:
    """Advance the id sequences, which the copied rows bypassed."""
    sequence = ledger.execute(text("SELECT pg_get_serial_sequence(:t, :c)"), {"t": table, "c": column}).scalar_one()
    if sequence is not None:
        last = f"SELECT setval(:s, m) FROM (SELECT max({column}) AS m FROM {table}) AS ids WHERE m IS NOT NULL"  # noqa: S608 - names of our own tables
        ledger.execute(text(last), {"s": sequence})


@contextmanager
def _as_configuration(what: str) -> Iterator[None]:
    try:
        yield
    except DBAPIError as error:
        raise ConfigurationError(f"{what}: {error.orig}") from None
    except sqlite3.Error as error:
        why = f": {OPEN_IT}" if str(getattr(error, "sqlite_errorname", "")).startswith(CLOSED) else ""
        raise ConfigurationError(f"{what}: {error}{why}") from None
    except OSError as error:
        raise ConfigurationError(f"{what}: {error.strerror}: {error.filename}") from None
