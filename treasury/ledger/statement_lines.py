"""Lines of the service's statements, kept: what a report was given once, later ones know."""

import json
from collections.abc import Iterable

from sqlalchemy import Connection, insert, select

from treasury.ledger import schema
from treasury.ledger.database import serialize
from treasury.ledger.ledger import Ledger
from treasury.reconciliation.entries import Statement, StatementEntry


def keep_statement(ledger: Ledger, sweep_id: int, as_of: int, statement: Statement, os_user: str) -> None:
    """Keep the lines of a statement that a report was given; a line that is kept like this already stays as it is."""
    table = schema.statement_lines

    def work(connection: Connection) -> None:
        serialize(connection)
        held = {entry.order_no: entry for entry in _read(connection.execute(select(table).order_by(table.c.id)))}
        row = {"sweep_id": sweep_id, "file": statement.file, "given_by": os_user, "given_at": as_of}
        new = [
            {**row, "order_no": entry.order_no, "content": json.dumps(entry.content)}
            for entry in statement.entries
            if entry.order_no not in held or not entry.is_like(held[entry.order_no])
        ]
        if new:
            connection.execute(insert(table), new)

    ledger.write(work)


def kept_lines(ledger: Ledger, sweep_id: int) -> list[StatementEntry]:
    """Return the lines that reports up to this sweep were given: of each transaction the last one."""
    table = schema.statement_lines
    rows = ledger.read(select(table).where(table.c.sweep_id <= sweep_id).order_by(table.c.id))
    return list({entry.order_no: entry for entry in _read(rows)}.values())


def _read(rows: Iterable[object]) -> Iterable[StatementEntry]:
    return (StatementEntry.of(json.loads(row.content), row.file, row.given_at) for row in rows)  # type: ignore[attr-defined]
