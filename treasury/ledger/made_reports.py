"""Reports in the ledger, in the sequence in which they were made, and what each of them counted.

Of rows that are only ever added a report keeps a digest of those that came since the one before, so that a later one
tells what somebody took out, put in or moved. A sweep that heard nothing of an order, or was not to ask, goes by an
earlier answer.
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Select, func, insert, literal, not_, or_, select

from treasury.approving.tokens import Verb
from treasury.concurrency.batches import batched
from treasury.ledger import schema
from treasury.ledger.cipher import LedgerKey
from treasury.ledger.database import in_code_points, serialize
from treasury.ledger.ledger import Ledger
from treasury.ledger.report_sums import ReportSums, read_sums
from treasury.ledger.snapshots import RECEIPT
from treasury.orders.states import State
from treasury.reconciliation.scope import Scope

Stream = Callable[[Any], Iterable[Any]]
"""Reads the rows of a query."""

_SHOWN = schema.answers.c.service_side

IS_FOUND = _SHOWN.like('{"answer": "found"%')
"""An answer by which the service knows what it was asked about."""


def shows_amount(currency: ColumnElement[str] | str | None) -> ColumnElement[bool]:
    """Select the answers that show an amount, in this currency or in one that they do not say; None: in any."""
    names_it = _SHOWN.like(literal('%"seen_currency": "') + func.coalesce(currency, "%") + literal('"%'))
    return _SHOWN.like('%"seen_amount": %') & (names_it | not_(_SHOWN.like('%"seen_currency": %')))


def last_answers(
    stream: Stream, sweep_id: int, request_ids: Collection[str], wanted: ColumnElement[bool]
) -> dict[str, Any]:
    """Return, by request id, the last answer that is as `wanted`, of the sweeps before this one, with both sides."""
    answers, sweeps = schema.answers.c, schema.sweeps.c
    columns = (answers.id, answers.request_id, answers.asked_at, answers.ledger_side, answers.service_side)
    found: dict[str, Any] = {}
    for some in batched(sorted(request_ids)):  # by sweep and request id together, which have an index
        query = select(*columns).join_from(schema.sweeps, schema.answers, answers.sweep_id == sweeps.id)
        query = query.where(sweeps.id < sweep_id, answers.request_id.in_(some), wanted).order_by(answers.id)
        found |= {row.request_id: row for row in stream(query)}
    return found


OF_ALL_BOOKS = schema.reports.c.books == Scope().books
"""A report of the orders of all runs and currencies."""

IS_WHOLE = schema.sweeps.c.scope == Scope().as_text()
"""A sweep of everything, however old."""

IS_WRITTEN = schema.reports.c.written_at.is_not(None)
"""A report whose files were written: of any other one nobody read what it found."""

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


def count_since(stream: Stream, before: ReportSums) -> dict[str, list[Any]]:
    """Return table -> the id of its last row, and a digest of those since a report, whose sums are `before`."""
    counted = {}
    for name, query in _ROWS.items():
        first, _ = before.counted.get(name, (None, ""))
        last, digest = first, hashlib.blake2b(digest_size=16)
        for row in stream(_between(query, first, None)):
            _add(digest, row)
            last = row[0]
        counted[name] = [last, digest.hexdigest()]
    return counted


def changed_counts(stream: Stream, reports: Sequence[ReportSums]) -> Iterator[str]:
    """Yield, for each of these sums of reports, in their sequence, what is not as they counted it: nothing, or names
    of tables with what is there now."""
    changed: list[list[str]] = [[] for _ in reports]
    for name, query in _ROWS.items():
        counts = [(place, *each.counted[name]) for place, each in enumerate(reports) if name in each.counted]
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


def _between(query: Select[Any], first: int | None, last: int | None) -> Select[Any]:
    number = query.selected_columns[0]
    bounds = [number > first] if first is not None else []
    return query.where(*bounds, *([number <= last] if last is not None else [])).order_by(number)


def _add(digest: Any, row: Any) -> None:
    digest.update("\x1f".join(map(str, row)).encode() + b"\x1e")


def in_sequence(rows: Iterable[Any]) -> list[Any]:
    """Sort reports into the sequence in which they were made; a sweep that began first may end last."""
    return sorted(rows, key=_place)


def _place(row: Any) -> tuple[int, int, int, int]:
    return row.journal_id, read_sums(row.statement).number, row.as_of, row.sweep_id


def has_ended(connection: Connection, sweep_id: int) -> bool:
    """Tell whether the report of a sweep was made."""
    table = schema.reports.c
    return connection.execute(select(table.sweep_id).where(table.sweep_id == sweep_id)).first() is not None


def is_written(ledger: Ledger, sweep_id: int) -> bool:
    """Tell whether the files of a sweep's report were written."""
    table = schema.reports.c
    return bool(ledger.read(select(table.sweep_id).where(table.sweep_id == sweep_id, IS_WRITTEN)))


def record_report(ledger: Ledger, row: Mapping[str, Any], before: Any | None) -> bool:
    """Record a report that follows another one, unless its own sweep has one; returns whether it still follows it."""
    reports = schema.reports.c
    last_step = select(reports.journal_id).where(reports.books == row["books"]).order_by(reports.journal_id.desc())
    newest = select(schema.reports).where(
        reports.books == row["books"], reports.journal_id == last_step.limit(1).scalar_subquery()
    )

    def work(connection: Connection) -> bool:
        serialize(connection)
        if has_ended(connection, row["sweep_id"]):
            return True
        made = in_sequence(connection.execute(newest))
        if made[-1:] and (before is None or made[-1].sweep_id != before.sweep_id):
            return False
        beside = connection.execute(select(reports.statement).where(reports.journal_id == row["journal_id"]))
        number = 1 + max((read_sums(each.statement).number for each in beside), default=0)
        numbered = {**row, "statement": json.dumps(json.loads(row["statement"]) | {"number": number})}
        sealed = {**numbered, "checksum": _seal(connection, ledger.key, [numbered])[0]}
        connection.execute(insert(schema.reports).values(**sealed))
        return True

    return ledger.write(work)


def _seal(connection: Connection, key: LedgerKey, reports: Sequence[Mapping[Any, Any]]) -> list[str]:
    """Return the checksum of each of these reports: what it says, what it covers, and the balances that it read."""
    balances, sweeps = schema.sweep_balances, schema.sweeps.c
    read: dict[int, list[Any]] = defaultdict(list)
    for row in connection.execute(select(balances).order_by(in_code_points(balances.c.currency))):
        read[row.sweep_id].append([int(each) if isinstance(each, bool) else each for each in row])
    scopes = {row.id: row.scope for row in connection.execute(select(sweeps.id, sweeps.scope))}
    return [
        key.checksum(["reports", *(each[name] for name in _SAID), scopes.get(each["sweep_id"]), read[each["sweep_id"]]])
        for each in reports
    ]


_SAID = ("sweep_id", "books", "as_of", "journal_id", "statement")


def seals_of_breaks(stream: Stream, key: LedgerKey, sweep_ids: Sequence[int]) -> dict[int, str]:
    """Return the checksum of the breaks of each of these reports."""
    table, found = schema.breaks, defaultdict[int, list[Any]](list)
    query = select(table).where(table.c.sweep_id.in_(sweep_ids))
    for row in stream(query.order_by(table.c.sweep_id, in_code_points(table.c.break_id))):
        found[row.sweep_id].append(list(row))
    return {each: _seal_of(key, each, found[each]) for each in sweep_ids}


def _seal_of(key: LedgerKey, sweep_id: int, breaks: Sequence[Any]) -> str:
    return key.checksum(["breaks", sweep_id, breaks])


def _with_other_breaks(stream: Stream, key: LedgerKey) -> dict[int, str]:
    """Return the reports whose breaks are not those that were recorded, each with the checksum of what is there."""
    reports, sweeps = schema.reports.c, schema.sweeps.c
    query = select(reports.sweep_id, reports.breaks, reports.written_at, sweeps.scope)
    made = list(stream(query.join(schema.sweeps, sweeps.id == reports.sweep_id)))
    now, found = seals_of_breaks(stream, key, [row.sweep_id for row in made]), dict[int, str]()
    for row in made:
        is_lacking = row.written_at is not None and row.scope == Scope().as_text()  # a narrowed one records none
        none = None if is_lacking else _seal_of(key, row.sweep_id, [])
        if now[row.sweep_id] != (row.breaks or none):
            found[row.sweep_id] = now[row.sweep_id]
    return found


class ChangedReport(NamedTuple):
    """A report that somebody changed by hand, or what it counted. `at`: when it was made, Unix ms."""

    at: int
    now: str
    """Stands for what is there now: another change is another one."""


def changed_reports(ledger: Ledger, sweep_id: int | None = None) -> dict[int, ChangedReport]:
    """Return the reports of everything (up to that of a sweep) which somebody changed by hand, or their breaks, or the
    rows that they counted, or the report before them, by the number of their sweep.

    They count as they are: nobody else knows what they said.
    """
    found, before = dict[int, ChangedReport](), None
    made = reports_before(ledger, sweep_id, OF_ALL_BOOKS)
    made += ledger.read(select(schema.reports).where(schema.reports.c.sweep_id == sweep_id))
    seals = ledger.look(lambda connection: _seal(connection, ledger.key, [each._mapping for each in made]))
    sums = [read_sums(row.statement) for row in made]
    with ledger.snapshot() as stream:
        counts, breaks = list(changed_counts(stream, sums)), _with_other_breaks(stream, ledger.key)
    for row, checksum, said, changed in zip(made, seals, sums, counts, strict=True):
        others = [changed, breaks.get(row.sweep_id)]
        if row.checksum != checksum or said.follows != before or any(others):
            now = ledger.key.checksum([row.checksum, checksum, before, *others])
            found[row.sweep_id] = ChangedReport(row.as_of, now[:8])
        before = row.sweep_id
    return found


def last_report(ledger: Ledger, scope: Scope, sweep_id: int) -> Any | None:
    """The report of these books that was made before that of a sweep, or that was made last where it has none."""
    made = reports_before(ledger, sweep_id, schema.reports.c.books == scope.books)
    return made[-1] if made else None


def reports_before(ledger: Ledger, sweep_id: int | None, *wanted: ColumnElement[bool]) -> list[Any]:
    """Return the reports that were made before that of a sweep, or all where it has none, in their sequence."""
    query = select(schema.reports).join(schema.sweeps, schema.sweeps.c.id == schema.reports.c.sweep_id).where(*wanted)
    reports = schema.reports.c
    own = [] if sweep_id is None else ledger.read(select(schema.reports).where(reports.sweep_id == sweep_id))
    rows = in_sequence(ledger.read(query))
    return [row for row in rows if _place(row) < _place(own[0])] if own else rows


def last_whole_report(ledger: Ledger, sweep_id: int | None = None) -> int | None:
    """Return when the last report of everything (before this sweep) was made, Unix ms; None if there was none.

    One whose files were never written is none: nobody read it. Nor is one of a later time than this sweep's, or now:
    a clock that was ahead dated it, and it would hide each night without a report until that time is there.
    """
    made = reports_before(ledger, sweep_id, IS_WHOLE, IS_WRITTEN)
    own = [] if sweep_id is None else ledger.read(select(schema.reports).where(schema.reports.c.sweep_id == sweep_id))
    until = own[0].as_of if own else ledger.now()
    return max((row.as_of for row in made if row.as_of <= until), default=None)
