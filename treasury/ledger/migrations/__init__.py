"""Formats of the ledger: a new one is made as it is today, an older one is brought up to date when it is opened.

The number of its format stands in the ledger (`meta.schema`, "107"); the revision that leads there is called the same
with four digits ("0107"). Everything is one transaction of the connection that opens the ledger, on both databases:
a process that dies half way has changed nothing, and the next opening begins again.
"""

from collections.abc import Callable, Collection, Mapping
from functools import cache
from operator import attrgetter
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Dialect, MetaData, Table, delete, insert, inspect, select
from sqlalchemy.schema import CreateIndex, CreateTable, ExecutableDDLElement

from treasury.concurrency.crash_points import crash_point
from treasury.errors import ConfigurationError
from treasury.ledger import schema
from treasury.ledger.cipher import LedgerKey

FIRST = 107
"""The first format that is read: no version was released that wrote one before it."""

LAST_READERS = {99: "6559679", 106: "35a018f"}
"""Format before the first -> the last commit that reads it and those before, so that what is open can be finished."""

REVISIONS = [Path(__file__).parent / "versions"]
"""Folders of revisions."""

RESTORING = "restoring"
"""Row of `meta`, only while a restore is under way: which backup it restores."""


def read_meta(connection: Connection) -> dict[str, str]:
    """The rows of `meta`; none for a database without a ledger."""
    return meta_of(connection) if inspect(connection).has_table(schema.meta.name) else {}


def meta_of(connection: Connection) -> dict[str, str]:
    """The rows of `meta` of a ledger."""
    return {row.key: row.value for row in connection.execute(select(schema.meta))}


def meta_value(connection: Connection, key: str) -> str | None:
    """One row of `meta` of a ledger; None where it is not there."""
    found: str | None = connection.execute(select(schema.meta.c.value).where(schema.meta.c.key == key)).scalar()
    return found


def set_meta(connection: Connection, rows: Mapping[str, str | None]) -> None:
    """Set rows of `meta`; None takes one out."""
    connection.execute(delete(schema.meta).where(schema.meta.c.key.in_(rows)))
    new = [{"key": key, "value": value} for key, value in rows.items() if value is not None]
    if new:
        connection.execute(insert(schema.meta), new)


def check_readable(found: Mapping[str, str]) -> None:
    """Raise `ConfigurationError` for a ledger that this version cannot read, or one that is not all there."""
    if not found:
        return
    if RESTORING in found:
        raise ConfigurationError("a restore of this ledger was cut off: run the same `treasury restore FILE` again")
    number = found.get("schema", "")
    if (reader := last_reader(number)) is not None:
        raise ConfigurationError(
            f"this ledger has format {number}, of before the first release, and nothing was written: finish or cancel "
            f"what is open in it with commit {reader} of treasury-flows, the last that reads it, and give "
            "the new ledger a home of its own (TREASURY_HOME) or a database of its own (TREASURY_LEDGER_URL)"
        )
    if not number.isdecimal() or not FIRST <= int(number) <= int(schema.VERSION):
        raise ConfigurationError(
            f"this ledger has format {number or 'unknown'}, and this treasury-flows reads up to {schema.VERSION}: "
            "install a newer treasury-flows"
        )


def last_reader(number: str) -> str | None:
    """The last commit that reads a format of before the first release; None for any other."""
    if not number.isdecimal() or not 1 <= int(number) < FIRST:
        return None
    return next(commit for last, commit in LAST_READERS.items() if int(number) <= last)


def revision_of(number: str) -> str:
    """The revision that leads to a format: "0107" for "107"."""
    return f"{int(number):04d}"


def bring_up_to_date(connection: Connection, found: Mapping[str, str], key: LedgerKey, account: str) -> None:
    """Make the tables of a new ledger, or change those of an older one, inside the transaction that opens it.

    `found`: its `meta`; `key`: what its rows are sealed with. Whoever calls has the writer's lock (`serialize`), so one
    process at a time does this.
    """
    if not found:
        _check_free(connection)
        dialect: Callable[[], Dialect] = type(connection.dialect)
        for statement in _statements(schema.VERSION, dialect):
            connection.exec_driver_sql(statement)
    elif found["schema"] != schema.VERSION:
        crash_point("migration.before")
        _migrate(connection, int(found["schema"]), {"key": key, "account": account})
        crash_point("migration.written")


def _check_free(connection: Connection) -> None:
    """Raise `ConfigurationError` where a database has another program's tables under our names: they would stay."""
    columns = inspect(connection).get_multi_columns()
    there = {table: {each["name"] for each in of_table} for (_, table), of_table in columns.items()}
    ours = {name: set(table.c.keys()) for name, table in schema.metadata.tables.items()}
    others = sorted(name for name in ours.keys() & there.keys() if not ours[name] <= there[name])
    if others:
        raise ConfigurationError(
            f"the database of TREASURY_LEDGER_URL holds tables of another program ({', '.join(others)}): nothing was "
            "written: give the ledger a database of its own"
        )


@cache  # to write them takes longer than to execute them
def _statements(number: str, dialect: Callable[[], Dialect]) -> tuple[str, ...]:
    """Return the statements that make the tables of a ledger of this format in a database of this kind."""
    tables = tables_of(number).sorted_tables
    by_name = attrgetter("name")
    made: list[ExecutableDDLElement] = [CreateTable(each, if_not_exists=True) for each in tables]
    for table in tables:
        made += [CreateIndex(each, if_not_exists=True) for each in sorted(table.indexes, key=by_name)]
    return tuple(str(each.compile(dialect=dialect())) for each in made)


def _migrate(connection: Connection, first: int, sealing: Mapping[str, Any]) -> None:
    from alembic.operations import Operations
    from alembic.runtime.migration import MigrationContext

    scripts, start = _scripts(), revision_of(str(first))
    context = MigrationContext.configure(connection, opts={**sealing, "start": first})
    context.stamp(scripts, start)  # the ledger's own number is what counts, whatever Alembic's table says
    with Operations.context(context):
        for script in reversed(list(scripts.iterate_revisions(revision_of(schema.VERSION), start))):
            script.module.upgrade()
            context.stamp(scripts, script.revision)
            set_meta(connection, {"schema": str(int(script.revision))})


def _scripts() -> Any:
    from alembic.script import ScriptDirectory

    return ScriptDirectory(str(Path(__file__).parent), version_locations=[str(each) for each in REVISIONS])


def tables_of(number: str) -> MetaData:
    """The tables of a ledger of this format: those of the next one, without what its revision adds."""
    if number == schema.VERSION:
        return schema.metadata
    later = str(int(number) + 1)
    module = _scripts().get_revision(revision_of(later)).module
    tables = MetaData()
    for table in tables_of(later).sorted_tables:
        if table.name not in module.NEW_TABLES:
            _leave_out(table.to_metadata(tables), module.NEW_COLUMNS.get(table.name, ()))
    return tables


def _leave_out(table: Table, columns: Collection[str]) -> None:
    """Take these columns, and the indexes over them, out of a table."""
    for index in [each for each in table.indexes if any(column.name in columns for column in each.columns)]:
        table.indexes.remove(index)
    for name in columns:
        table._columns.remove(table.c[name])
