"""Lines of the service's statements, kept: what a report was given once, later ones know."""

import functools
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from sqlalchemy import Connection, Row, insert, select

from treasury.ledger import schema
from treasury.ledger.cipher import LedgerKey
from treasury.ledger.database import serialize
from treasury.ledger.in_force import policy_at, rules_at
from treasury.ledger.ledger import Ledger
from treasury.ledger.seals import is_sealed, seal
from treasury.policy.model import Policy
from treasury.reconciliation.entries import GIVEN, Statement, StatementEntry, last_lines, told_apart


def keep_statement(ledger: Ledger, sweep_id: int, as_of: int, statement: Statement, os_user: str) -> None:
    """Keep the lines of a statement that a report was given; a line that is kept like this already stays as it is.

    One that explained nothing, because people were listed when it was given, is kept anew once nobody is listed.
    """
    table, key = schema.statement_lines, ledger.key

    def work(connection: Connection) -> None:
        serialize(connection)
        lines = list(_read(key, connection.execute(select(table).order_by(table.c.id))))
        held = [lines]
        if not _lists_people(policy_at(connection, key, as_of)):
            held.append(_explaining(connection, key, lines))
        given = {"sweep_id": sweep_id, "file": statement.file, "given_by": os_user, "given_at": as_of}
        said = list(statement.with_days())
        new = {entry.line for each in held for entry in _new_among(said, each)}
        rows = [{**given, "content": json.dumps(entry.content)} for entry in said if entry.line in new]
        if rows:
            connection.execute(insert(table), [{**row, "checksum": seal(key, table, row)} for row in rows])

    ledger.write(work)


def _new_among(said: Sequence[StatementEntry], held: Sequence[StatementEntry]) -> Iterator[StatementEntry]:
    """Yield what says something else than the line of its transaction that is held, or of which none is."""
    lines, last = told_apart([*held, *said]), dict[str, StatementEntry]()
    for place, (name, line) in enumerate(lines):
        if place >= len(held) and not (name in last and line.is_like(last[name])):
            yield line
        last[name] = line


def kept_lines(ledger: Ledger, sweep_id: int | None) -> list[StatementEntry]:
    """Return the lines that reports (up to this sweep) were given: of each transaction the last one.

    A line that somebody put into the database by hand, or changed there, counts as none.
    """
    return last_lines(_given_lines(ledger, sweep_id))


def _given_lines(ledger: Ledger, sweep_id: int | None) -> list[StatementEntry]:
    table = schema.statement_lines
    until = () if sweep_id is None else (table.c.sweep_id <= sweep_id,)
    return list(_read(ledger.key, ledger.read(select(table).where(*until).order_by(table.c.id))))


def explaining_lines(ledger: Ledger, sweep_id: int | None) -> list[StatementEntry]:
    """Return the lines that explain what moved, also those that a later one corrects, as they were given, each with the
    time zone of then.

    They are those that a report was given while no policy in force listed people. One that lists people later, or no
    more, changes nothing about lines that were given before it.
    """
    lines = _given_lines(ledger, sweep_id)
    return ledger.look(lambda connection: _explaining(connection, ledger.key, lines))


def _explaining(connection: Connection, key: LedgerKey, lines: Iterable[StatementEntry]) -> list[StatementEntry]:
    then = functools.cache(partial(rules_at, connection, key))
    found = ((line, then(line.given_at)) for line in lines)
    return [
        replace(line, time_zone=None if policy is None else policy.time_zone)
        for line, policy in found
        if not _lists_people(policy)
    ]


def _lists_people(policy: Policy | None) -> bool:
    return policy is not None and bool(policy.people)


def _read(key: LedgerKey, rows: Iterable[Row[Any]]) -> Iterator[StatementEntry]:
    for row in rows:
        if is_sealed(key, schema.statement_lines, row):
            given = {name: getattr(row, name) for name in GIVEN}
            yield StatementEntry.of(json.loads(row.content), **given)
