"""Converts rows of the ledger's tables to records, and values to columns; reads an order's state from its journal."""

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from decimal import Decimal
from enum import StrEnum
from operator import itemgetter
from typing import Any, TypeVar

from sqlalchemy import Connection, Table, select

from treasury.errors import NotWrittenByUs
from treasury.ledger import schema
from treasury.money import format_amount, stored_amount
from treasury.orders.records import Order, Quote, Record, Stage
from treasury.orders.states import State
from treasury.provider.status import OrderStatus

R = TypeVar("R", bound=Record)

TABLES: Mapping[type[Record], Table] = {Order: schema.orders, Quote: schema.quotes}
"""The table of each kind of record; the fields of a record are columns."""


def read_row(kind: type[R], row: Sequence[Any]) -> R:
    """A record from its row, every column in the table's order, as SQLAlchemy or the driver itself gives it.

    Raises `NotWrittenByUs`.
    """
    names, in_order, converted = _shape(kind)  # type: ignore[arg-type]
    values = dict(zip(names, in_order(row), strict=True))
    for name in converted:
        try:
            values[name] = _READ[name](values[name])
        except (ValueError, NotWrittenByUs):
            raise NotWrittenByUs(values[name], f"{name} of {values['request_id']}") from None
    return kind.of(values)


def kept_json(text: str) -> Any:
    """Read JSON that the ledger keeps. Raises `NotWrittenByUs`."""
    try:
        return json.loads(text)
    except ValueError:
        raise NotWrittenByUs(text, "JSON") from None


def with_columns(record: R, values: Mapping[str, Any]) -> R:
    """The record after these columns were set, as `read_row` would read it."""
    return record.changed({name: _READ[name](value) if name in _READ else value for name, value in values.items()})


_READ: Mapping[str, Callable[[Any], Any]] = {
    "state": State,
    "stage": Stage,
    "status": lambda value: None if value is None else OrderStatus(value),
    "doubtful": bool,  # SQLite's driver has no booleans
    **dict.fromkeys(
        ("amount", "receive_amount", "pay_amount", "fee", "rate", "ceiling", "bound", "told_fee"), stored_amount
    ),
}
"""Column -> conversion of its value; other columns are taken unchanged."""


@functools.cache
def _shape(kind: type[Record]) -> tuple[tuple[str, ...], Callable[[Sequence[Any]], tuple[Any, ...]], tuple[str, ...]]:
    """The fields of a kind, a getter that takes them from a row, and the fields that are converted."""
    names = tuple(item.name for item in fields(kind))  # type: ignore[arg-type]
    places = list(TABLES[kind].c.keys())
    return names, itemgetter(*map(places.index, names)), tuple(name for name in names if name in _READ)


def columns(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Facts as the database stores them."""
    return {name: _column(value) for name, value in facts.items()}


_PLAIN = frozenset((str, int, bool, bytes, type(None)))


def _column(value: Any) -> Any:
    if type(value) in _PLAIN:
        return value
    if isinstance(value, Decimal):
        return format_amount(value)
    if isinstance(value, StrEnum):
        return value.value
    return int(value) if isinstance(value, OrderStatus) else value


def as_read(order: Order) -> dict[str, Any]:
    """Columns that must be unchanged since this order was read, so that a step others took meanwhile is not
    overwritten.

    Evidence belongs to one transmission of one generation; a later transmission makes it worthless. The checksum covers
    what was answered, so an absence that somebody else counted, or struck out, since then is theirs.
    """
    known = {"id": order.id, "state": order.state.value, "sends": order.sends, "generation": order.generation}
    return {**known, "checksum": order.checksum}


def journaled_state(connection: Connection, order: Order) -> State:
    """Return the state that the last step of an order led to; its own where the journal has none.

    A step of an order that was changed by hand begins there, so that what has settled settles once.
    """
    journal = schema.journal.c
    last = select(journal.target).where(journal.order_id == order.id).order_by(journal.id.desc()).limit(1)
    found = connection.execute(last).scalar()
    return order.state if found is None else State(found)
