"""The ledger's hot statements, each built and compiled once, and handed to the driver.

Building one anew for every step cost more than signing a request; SQLAlchemy's execution of a compiled one still cost
three times what the database needs for it.
"""

import functools
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, Dialect, bindparam, insert, select, update
from sqlalchemy.exc import DBAPIError

from treasury.ledger import schema
from treasury.ledger.records import Order, read_order

APPEND = insert(schema.journal).inline()
"""A step's line in the journal; `cause`, `code` and `status` are always given."""

STANDING_STOP = select(schema.stops).where(schema.stops.c.lifted_at.is_(None)).limit(1)
"""The stop that stands, if any."""


def change_order(
    connection: Connection, known: Mapping[str, Any], values: Mapping[str, Any], *, counts_send: bool = False
) -> Order | None:
    """Set these columns of the order of which all of `known` is still true; the order after it, None when there is none.

    `counts_send`: one more transmission leaves. The database itself decides whether it is still true.
    """
    text, names, constants = _change(connection.dialect, tuple(known), tuple(values), counts_send)
    given = {**constants, **{f"is_{name}": value for name, value in known.items()}}
    given |= {f"to_{name}": value for name, value in values.items()}
    driver = connection.connection.driver_connection
    assert driver is not None
    try:
        row = driver.execute(text, given if names is None else [given[name] for name in names]).fetchone()
    except Exception as error:
        raise _as_sqlalchemys(connection, text, error) from error
    return None if row is None else read_order(row)


@functools.lru_cache(maxsize=256)
def _change(
    dialect: Dialect, known: tuple[str, ...], columns: tuple[str, ...], counts_send: bool
) -> tuple[str, tuple[str, ...] | None, dict[str, Any]]:
    """The text of a `change_order`, the names of its parameters in their order (None: by name), its constants."""
    orders = schema.orders
    values: dict[str, Any] = {name: bindparam(f"to_{name}", type_=orders.c[name].type) for name in columns}
    if counts_send:
        values["sends"] = orders.c.sends + 1
    query = update(orders).values(values).returning(orders)
    for name in known:
        query = query.where(orders.c[name] == bindparam(f"is_{name}", type_=orders.c[name].type))
    compiled: Any = query.compile(dialect=dialect)
    names = None if compiled.positiontup is None else tuple(compiled.positiontup)
    return compiled.string, names, dict(compiled.params)


def _as_sqlalchemys(connection: Connection, text: str, error: Exception) -> Exception:
    """A driver's error as SQLAlchemy raises it everywhere else; a lost session is told as one."""
    dialect: Any = connection.dialect
    if not isinstance(error, dialect.loaded_dbapi.Error):
        return error
    lost = dialect.is_disconnect(error, connection.connection, None)
    if lost:
        connection.invalidate(error)
    return DBAPIError(text, None, error, hide_parameters=True, connection_invalidated=lost)
