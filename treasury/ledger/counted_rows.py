"""Rows that are only ever added, and that a report counts: it keeps a digest of those that came since the one before,
so that a later one tells what somebody took out, put in or moved."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import Select, or_, select

from treasury.approving.tokens import Verb
from treasury.ledger import schema
from treasury.ledger.last_answers import Stream
from treasury.ledger.snapshots import RECEIPT
from treasury.orders.states import State

COUNTED, FOLLOWS = "counted", "follows"
"""Members of a report's sums: table -> `[last id, digest]`, and the sweep of the report that it follows."""

_journal, _snapshots, _decisions, _lines = (
    table.c for table in (schema.journal, schema.snapshots, schema.decisions, schema.statement_lines)
)
_settled, _held = State.SETTLED.value, State.HELD.value
_ROWS: Mapping[str, Select[Any]] = {
    "journal": select(_journal.id, _journal.order_id, _journal.at, _journal.source, _journal.target).where(
        or_(_journal.source.in_((_settled, _held)), _journal.target == _settled)
    ),
    "snapshots": select(_snapshots.id, _snapshots.content).where(_snapshots.run_key.startswith(RECEIPT)),
    "statement_lines": select(_lines.id, _lines.checksum),
    "decisions": select(_decisions.id, _decisions.checksum).where(
        _decisions.verb.in_((Verb.ACCEPT.value, Verb.WITHDRAW.value))
    ),
}
"""Rows that move a balance, or end a break: steps by which orders are paid, or that take one over; pay-ins; lines of
statements; acceptances. Who writes them holds `serialize`, so that none comes before one that was read."""


def count_since(stream: Stream, before: Mapping[str, Any] | None) -> dict[str, list[Any]]:
    """Return table -> the id of its last row, and a digest of those since a report, whose sums are `before`."""
    counted = {}
    for name, query in _ROWS.items():
        first, _ = _of(before or {}, name) or [None, ""]
        last, digest = first, hashlib.blake2b(digest_size=16)
        for row in stream(_between(query, first, None)):
            _add(digest, row)
            last = row[0]
        counted[name] = [last, digest.hexdigest()]
    return counted


def changed_counts(stream: Stream, reports: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield, for each of these sums of reports, in their sequence, what is not as they counted it: nothing, or names
    of tables with what is there now."""
    changed: list[list[str]] = [[] for _ in reports]
    for name, query in _ROWS.items():
        counts = [(place, *found) for place, each in enumerate(reports) if (found := _of(each, name)) is not None]
        if not counts:
            continue
        rows = iter(stream(_between(query, None, counts[-1][1] or 0)))
        row = next(rows, None)
        for place, last, digest in counts:
            now = hashlib.blake2b(digest_size=16)
            while row is not None and last is not None and row[0] <= last:
                _add(now, row)
                row = next(rows, None)
            if now.hexdigest() != digest:
                changed[place] += [name, now.hexdigest()]
    return (" ".join(each) for each in changed)


def _of(sums: Mapping[str, Any], name: str) -> list[Any] | None:
    found: list[Any] | None = sums.get(COUNTED, {}).get(name)
    return found


def _between(query: Select[Any], first: int | None, last: int | None) -> Select[Any]:
    number = query.selected_columns[0]
    bounds = [number > first] if first is not None else []
    return query.where(*bounds, *([number <= last] if last is not None else [])).order_by(number)


def _add(digest: Any, row: Any) -> None:
    digest.update("\x1f".join(map(str, row)).encode() + b"\x1e")
