"""The ledger's hot statements, handed to the driver: one for a row, or one for many rows that
change in the same way.

A statement releases the interpreter's lock while it runs, and waits behind every busy thread to get it back. So the
steps of a group share one statement, however many rows it changes.
"""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from sqlalchemy import (
    Connection,
    Dialect,
    Executable,
    String,
    Table,
    Text,
    bindparam,
    literal,
    or_,
    select,
    union_all,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError, IntegrityError

from treasury.approving.tokens import Verb
from treasury.ledger import schema
from treasury.ledger.decisions import ALL_SENDING, STOP
from treasury.ledger.in_force import HAS_EFFECT, IS_COMING
from treasury.ledger.mapping import TABLES, read_row
from treasury.orders.records import Record

S = TypeVar("S", bound=Record)

HALTS = union_all(
    select(schema.decisions.c.name.label("by"), literal(0).label("recovery")).where(
        or_(
            schema.decisions.c.verb == Verb.STOP.value,
            schema.decisions.c.named == STOP,
            schema.decisions.c.about == ALL_SENDING,
        )
    ),
    select(schema.policies.c.adopted_by, schema.policies.c.in_force_at).where(IS_COMING),
    select(schema.policies.c.adopted_by, literal(-1)).where(
        schema.policies.c.in_force_at > bindparam("since"), HAS_EFFECT
    ),
)
"""Every stop that ever was, also one of which only the verb, the name or the thing is left; a recovery of the policy
until it takes effect (`recovery`: when, Unix ms), and a policy that took effect after the one that payments were judged
by (`recovery` -1)."""


LAST_QUOTE = (
    select(schema.quotes)
    .where(schema.quotes.c.order_id == bindparam("order_id"))
    .order_by(schema.quotes.c.generation.desc())
    .limit(1)
)
"""An order's last quote, if it has any."""


def change_one(
    connection: Connection,
    kind: type[S],
    known: Mapping[str, Any],
    values: Mapping[str, Any],
    counted: tuple[str, ...] = (),
) -> S | None:
    """Set these columns of the row for which all of `known` still holds; the record after it, if there is one.

    `counted`: columns that go up by one. The database itself checks `known`.
    """
    given = {f"is_{name}": value for name, value in known.items()}
    given |= {f"to_{name}": value for name, value in values.items()}
    row = fetch_one(connection, _change(TABLES[kind], tuple(known), tuple(values), counted), given)
    return None if row is None else read_row(kind, row)


def fetch_one(connection: Connection, query: Executable, given: Mapping[str, Any]) -> Any:
    """The first row of a statement's result, as the driver returns it; None if there is none."""
    text, names, constants = _compiled(connection.dialect, query)
    given = {**constants, **given}
    return _run(connection, text, given if names is None else [given[name] for name in names]).fetchone()


@dataclass(frozen=True)
class RowChange:
    """A kind of change of a table's rows: the columns that it demands, sets, and counts up by one."""

    table: Table
    known: tuple[str, ...]
    columns: tuple[str, ...]
    counted: tuple[str, ...] = ()


MAX_VALUES = 30_000
"""Values in one statement: SQLite takes 32,766, PostgreSQL 65,535."""


def change_all(connection: Connection, kind: RowChange, rows: Sequence[Sequence[Any]]) -> int:
    """Change many rows, each given as its known values, then those to set. Returns how many still matched."""
    changed = 0
    for some in _in_parts(rows):
        text = _change_all(connection.dialect, kind, len(some))
        changed += _run(connection, text, [value for row in some for value in row]).rowcount
    return changed


def insert_all(connection: Connection, table: Table, columns: tuple[str, ...], rows: Sequence[Sequence[Any]]) -> None:
    """Insert many rows."""
    for some in _in_parts(rows):
        text = _insert_all(connection.dialect, table, columns, len(some))
        _run(connection, text, [value for row in some for value in row])


_INSERTS = {"postgresql": postgresql.insert, "sqlite": sqlite.insert}


def insert_if_new(connection: Connection, table: Table, row: Mapping[str, Any]) -> bool:
    """Insert a row, unless there is one with its key, also of a transaction that others commit at this moment.

    Returns whether it is new.
    """
    added: Any = _INSERTS[connection.dialect.name](table).values(**row)
    return bool(connection.execute(added.on_conflict_do_nothing()).rowcount)


def _in_parts(rows: Sequence[Sequence[Any]]) -> Sequence[Sequence[Sequence[Any]]]:
    size = MAX_VALUES // len(rows[0]) if rows else 1
    return [rows[start : start + size] for start in range(0, len(rows), size)]


@functools.lru_cache(maxsize=256)
def _change_all(dialect: Dialect, kind: RowChange, rows: int) -> str:
    table, names = kind.table, (*kind.known, *kind.columns)
    types = [table.c[name].type for name in names]
    types = [Text() if isinstance(each, String) else each for each in types]  # a cast to a length cuts in PostgreSQL
    given = [f"CAST(given.column{place} AS {each.compile(dialect)})" for place, each in enumerate(types, 1)]
    demands = [f"{table.name}.{name} = {value}" for name, value in zip(kind.known, given, strict=False)]
    settings = [f"{name} = {value}" for name, value in zip(kind.columns, given[len(kind.known) :], strict=True)]
    settings += [f"{name} = {table.name}.{name} + 1" for name in kind.counted]
    values = _values(dialect, len(given), rows)
    return f"UPDATE {table.name} SET {', '.join(settings)} FROM ({values}) AS given WHERE {' AND '.join(demands)}"  # noqa: S608 - names of our own columns


@functools.lru_cache(maxsize=256)
def _insert_all(dialect: Dialect, table: Table, columns: tuple[str, ...], rows: int) -> str:
    names = ", ".join(table.c[name].name for name in columns)
    return f"INSERT INTO {table.name} ({names}) {_values(dialect, len(columns), rows)}"


def _values(dialect: Dialect, columns: int, rows: int) -> str:
    """`VALUES` of so many rows; both databases call its columns `column1` and on."""
    mark = "?" if dialect.paramstyle == "qmark" else "%s"
    row = f"({', '.join([mark] * columns)})"
    return f"VALUES {', '.join([row] * rows)}"


def _run(connection: Connection, text: str, values: Any) -> Any:
    driver = connection.connection.driver_connection
    assert driver is not None
    try:
        return driver.execute(text, values)
    except Exception as error:
        raise _as_sqlalchemys(connection, text, error) from error


@functools.lru_cache(maxsize=256)
def _change(table: Table, known: tuple[str, ...], columns: tuple[str, ...], counted: tuple[str, ...]) -> Executable:
    values: dict[str, Any] = {name: bindparam(f"to_{name}", type_=table.c[name].type) for name in columns}
    values |= {name: table.c[name] + 1 for name in counted}
    query = update(table).values(values).returning(table)
    for name in known:
        query = query.where(table.c[name] == bindparam(f"is_{name}", type_=table.c[name].type))
    return query


@functools.lru_cache(maxsize=256)
def _compiled(dialect: Dialect, query: Any) -> tuple[str, tuple[str, ...] | None, dict[str, Any]]:
    """A statement's text, the names of its parameters in their order (None: by name), its constants."""
    compiled = query.compile(dialect=dialect)
    names = None if compiled.positiontup is None else tuple(compiled.positiontup)
    return compiled.string, names, dict(compiled.params)


def _as_sqlalchemys(connection: Connection, text: str, error: Exception) -> Exception:
    """A driver's error as SQLAlchemy raises it elsewhere; a lost session is reported as such."""
    dialect: Any = connection.dialect
    if not isinstance(error, dialect.loaded_dbapi.Error):
        return error
    lost = dialect.is_disconnect(error, connection.connection, None)
    if lost:
        connection.invalidate(error)
    kind = IntegrityError if isinstance(error, dialect.loaded_dbapi.IntegrityError) else DBAPIError
    return kind(text, None, error, hide_parameters=True, connection_invalidated=lost)
