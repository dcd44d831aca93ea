"""A format after the present one, made up to try how a ledger is migrated: a table and three columns more."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import BigInteger, Column, Index, Integer, MetaData, String, Table

from treasury.ledger import migrations, schema

PRESENT = schema.VERSION
NEXT = str(int(PRESENT) + 1)
OF_ORDERS = ("made_up", "made_up_at", "made_up_note")


def _tables() -> MetaData:
    tables = MetaData()
    for table in schema.metadata.sorted_tables:
        table.to_metadata(tables)
    orders = tables.tables["orders"]
    for column in columns():
        orders.append_column(column)
    Index("orders_by_made_up", orders.c.made_up)
    Table("made_up", tables, Column("name", String(40), primary_key=True), Column("at", BigInteger, nullable=False))
    return tables


def columns() -> list[Column[Any]]:
    """The columns more of an order; SQLite adds none that must not be null without a default."""
    return [
        Column("made_up", Integer, nullable=False, server_default="0"),
        Column("made_up_at", BigInteger),
        Column("made_up_note", String(40)),
    ]


@contextmanager
def as_next_format() -> Iterator[None]:
    """The program as the one that writes the next format."""
    before = schema.VERSION, schema.metadata
    schema.VERSION, schema.metadata = NEXT, _tables()
    migrations.REVISIONS.append(Path(__file__).parent / "versions")
    try:
        yield
    finally:
        migrations.REVISIONS.pop()
        schema.VERSION, schema.metadata = before
