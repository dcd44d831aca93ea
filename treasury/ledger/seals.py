"""Keyed checksums: they show that a row which decides about money was written by somebody who has the ledger's key."""

from collections.abc import Iterable, Mapping
from dataclasses import fields
from decimal import Decimal
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Table, bindparam, insert, select, update

from treasury.concurrency.batches import batched
from treasury.errors import ConfigurationError
from treasury.ledger import schema
from treasury.ledger.cipher import LedgerKey
from treasury.ledger.mapping import read_row, with_columns
from treasury.money import format_amount
from treasury.orders.records import Order, Quote

SEALED: Mapping[Table, tuple[str, ...]] = {
    schema.plans: (
        *("run_key", "plan_sha256", "maker", "os_user", "is_listed", "token", "needed", "proposed_at", "policy"),
        *("day", "number", "ledger", "ends_at", "id"),
    ),
    schema.runs: ("run_key", "kind", "plan", "plan_sha256", "policy", "makers"),
    schema.decisions: (
        *("at", "verb", "named", "about", "name", "os_user", "is_alone", "why", "token", "ends_at", "facts", "id"),
    ),
    schema.policies: (
        *("version", "content", "adopted_by", "adopted_at", "in_force_at", "recovery", "ended_at", "ended_by", "id"),
    ),
    schema.statement_lines: ("sweep_id", "file", "given_by", "given_at", "content"),
}
"""Table -> the columns that its rows' checksums cover; with the number of each row where their sequence counts."""


def seal(key: LedgerKey, table: Table, values: Mapping[str, Any]) -> str:
    """The checksum of a row; columns that are not given are empty."""
    said = (values.get(name) for name in SEALED[table])  # as both databases give it: SQLite's driver has no booleans
    return key.checksum([table.name, *(int(each) if isinstance(each, bool) else each for each in said)])


def add_sealed(connection: Connection, key: LedgerKey, table: Table, values: Mapping[str, Any]) -> int:
    """Add a row whose checksum covers its number, too: a copy of it, or the row itself elsewhere, is another one.

    Raises `ConfigurationError` where it is not there after it: a trigger of the database may delete or change it.
    """
    added = insert(table).values(**values, checksum="").returning(table.c.id)
    number = connection.execute(added).scalar()
    checksum = seal(key, table, {**values, "id": number})
    connection.execute(update(table).where(table.c.id == number).values(checksum=checksum))
    row = connection.execute(select(table).where(table.c.id == number)).first()
    if number is None or row is None or not is_sealed(key, table, row):
        raise ConfigurationError(
            f"the database did not keep what was written into its table {table.name}, so nothing was recorded: find "
            "out who gave it a trigger, a rule or a view"
        )
    return int(number)


def is_sealed(key: LedgerKey, table: Table, row: Row[Any]) -> bool:
    """Tell whether a row has the checksum of what it says."""
    return bool(row.checksum == seal(key, table, {str(name): value for name, value in row._mapping.items()}))


CHANGED = "changed"
"""Stands for the checksum of an order that was changed by hand, until a person decides about it."""


OF_A_FIRST_RUN = (0, 1)
"""`absences_needed` before and after a machine's first run asked: changed for many orders at once, and not sealed."""


def seal_order(key: LedgerKey, order: Order) -> str:
    """The checksum of an order: what it is, whom it pays, where it stands, what it asks for and was answered, what it
    was released from, the day that it counts on, and what is sent."""
    values: list[_Value] = [
        *(order.run_key, order.row_ref, order.operation, order.generation, order.request_id, order.state.value),
        *(order.currency, order.receive_currency, order.confirmation, order.hold_kind, order.doubtful),
        *(order.replaces, order.amount, order.receive_amount, order.ceiling),
        *(() if order.bound is None else (order.bound,)),
        *(order.order_no, order.first_answer, order.sent_at, order.absent_since),
        None if order.status is None else int(order.status),
        order.absences_needed if order.absences_needed not in OF_A_FIRST_RUN else None,
        *(order.fee, order.told_fee, order.fee_currency, order.told_fee_currency, order.masked, order.created_at),
        *(order.payee, order.payee_name, order.alike, order.released, order.counted_on, order.final_at),
        "reports are sealed",  # as in each format that is read: else those of an earlier one would be believed
    ]
    return key.checksum_of(_joined(values) + b"\x1f" + (order.payload or b""))


_Value = str | int | Decimal | None


def _joined(values: Iterable[_Value]) -> bytes:
    return "\x1f".join([each if type(each) is str else _text(each) for each in values]).encode()


def _text(value: _Value) -> str:
    if value is None:
        return "\x1e"
    return format_amount(value) if isinstance(value, Decimal) else str(value)


def seal_new(key: LedgerKey, row: Mapping[str, Any]) -> str:
    """The checksum of an order that is about to be inserted, from its columns."""
    return seal_order(key, with_columns(_EMPTY, row))


_EMPTY = Order.of(dict.fromkeys((each.name for each in fields(Order)), None) | {"id": 0, "doubtful": False})


def is_sealed_order(key: LedgerKey, order: Order) -> bool:
    """Tell whether nobody changed an order by hand."""
    return order.checksum == seal_order(key, order)


def with_seal(key: LedgerKey, order: Order, values: Mapping[str, Any], *, decided: bool = False) -> dict[str, Any]:
    """Columns to set of an order, with its checksum after them.

    What was changed by hand before stays recognizable as such, unless a person `decided` about it.
    """
    if not decided and not is_sealed_order(key, order):
        return {**values, "checksum": CHANGED}
    return {**values, "checksum": seal_order(key, with_columns(order, values))}


def set_order(connection: Connection, key: LedgerKey, row: Row[Any], values: Mapping[str, Any]) -> None:
    """Set these columns of an order, whose row this transaction has locked, and seal it."""
    sealed = with_seal(key, read_row(Order, row), values)
    connection.execute(update(schema.orders).where(schema.orders.c.id == row.id).values(**sealed))


def set_of_orders(
    connection: Connection, key: LedgerKey, meant: ColumnElement[bool], values: Mapping[str, Any]
) -> None:
    """Set these columns of the orders that are meant, and seal them."""
    table = schema.orders
    for some in batched(connection.execute(select(table.c.id).where(meant)).scalars().all()):
        rows = connection.execute(select(table).where(table.c.id.in_(some), meant).with_for_update()).fetchall()
        sealed = [{"number": row.id, **with_seal(key, read_row(Order, row), values)} for row in rows]
        if sealed:
            connection.execute(update(table).where(table.c.id == bindparam("number")), sealed)


def seal_quote(key: LedgerKey, quote: Quote) -> str:
    """The checksum of a quote: whose it is, what it confirms, and until when."""
    values = (
        *(quote.request_id, quote.quote, quote.stage.value),
        *(quote.pay_currency, quote.receive_currency, quote.fee_currency),
        *(quote.pay_amount, quote.receive_amount, quote.fee, quote.rate),
        *(quote.order_id, quote.generation, quote.asks, quote.expires_at, quote.ends_at, quote.service_ends_at),
    )
    return key.checksum_of(b"quote\x1f" + _joined(values))


def is_sealed_quote(key: LedgerKey, quote: Quote) -> bool:
    """Tell whether nobody changed a quote by hand."""
    return quote.checksum == seal_quote(key, quote)


def with_quote_seal(key: LedgerKey, quote: Quote, values: Mapping[str, Any]) -> dict[str, Any]:
    """Columns to set of a quote, with its checksum after them; one that was changed by hand stays recognizable."""
    after = CHANGED if not is_sealed_quote(key, quote) else seal_quote(key, with_columns(quote, values))
    return {**values, "checksum": after}


NOT_JUDGED = "not judged"
"""Stands for a version that no policy has."""


def judged_by(key: LedgerKey, run: Row[Any]) -> str | None:
    """The version of the policy that a run was judged by; of one that was changed by hand nobody knows."""
    return run.policy if is_sealed(key, schema.runs, run) else NOT_JUDGED
