"""The statement in: the service's own list of transactions, when the operator has one, as a third side."""

import hashlib
from collections.abc import Callable
from datetime import date, datetime, time, tzinfo
from decimal import Decimal
from pathlib import Path
from typing import TypeVar

from treasury.errors import InvalidFields, InvalidSheet, Problem, RowProblem
from treasury.money import format_amount, parse_amount
from treasury.private_files import read_bounded
from treasury.provider.fields import MAX_ID, asset_code
from treasury.provider.status import OrderStatus
from treasury.reconciliation.entries import Numbers, Statement, StatementEntry
from treasury.sheets.bank_files import NotAStatement, is_camt, is_mt940, read_camt, read_mt940
from treasury.sheets.cells import MAX_BYTES, file_problem
from treasury.sheets.reading import Layout, Row, read_sheet

T = TypeVar("T")

MAX_STATUS_DIGITS = 6

LAYOUT = Layout(
    key="order_no",
    repeats=True,
    required=("currency",),
    optional=("amount", "order_amount", "request_id", "order_type", "status", "fee", "fee_currency", "date"),
    amounts=frozenset({"amount", "order_amount", "fee"}),
    free_prefix="",  # a service's export has columns of its own; what is not needed is not read
)


def read_statement(path: Path, zone: tzinfo) -> Statement:
    """Read the transactions of a statement, in its order: a sheet (CSV, XLSX), camt.053 or MT940.

    `zone`: whose day a time of a sheet is of that says its own zone; a day, and a time without a zone, is as written.
    Raises `InvalidSheet` with every problem of every line of a sheet, or with the first one of a bank's file.
    """
    try:
        content = read_bounded(path, MAX_BYTES) if path.is_file() else b""
    except OSError:
        content = b""  # `read_sheet` says what is wrong
    try:
        if is_camt(content):
            entries = read_camt(content)
        elif is_mt940(content):
            entries = read_mt940(_decoded(content))
        else:
            negative, numbers, first = set[int](), Numbers(), dict[str, int]()

            def make(row: Row) -> StatementEntry:
                name = numbers.name_of(row.ref, row.values.get("order_type"))
                return _entry(row, zone, negative, first.setdefault(name, row.line))

            entries = list(read_sheet(path, LAYOUT, make))
            _check_signs(path, entries, negative)
    except NotAStatement as error:
        raise file_problem(path, str(error), "other_format") from None
    return Statement(hashlib.sha256(content).hexdigest(), entries)


def _decoded(content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("latin-1")


def _check_signs(path: Path, entries: list[StatementEntry], negative: set[int]) -> None:
    """Raise `InvalidSheet` where amounts with a minus stand beside others, and the sign of one is not what its type
    says: what came in would be read as what left.
    """
    moved = [entry for entry in entries if entry.amount and entry.has_moved]
    if all(entry.line in negative for entry in moved):
        return
    problems = [
        RowProblem(entry.line, entry.order_no, "amount", _says_otherwise(entry), format_amount(entry.amount))
        for entry in moved
        if negative and (entry.line in negative) == entry.is_incoming
    ]
    if problems:
        raise InvalidSheet(str(path), problems)


def _says_otherwise(entry: StatementEntry) -> str:
    if entry.is_incoming:
        return f"left by its sign, and came in by its order_type ({entry.order_type}): mend one of them"
    said = entry.order_type or "none"
    return f"came in by its sign, and left by its order_type ({said}): write charge there, or mend the sign"


def _entry(row: Row, zone: tzinfo, negative: set[int], first: int) -> StatementEntry:
    """Read a line; `negative` takes it where its amount has a minus. `first`: the first line of its transaction."""
    values, problems = row.values, []
    if first != row.line:
        problems.append(Problem("order_no", f"is the same as in row {first}", repr(row.ref), code="twice"))
    if len(values.get("request_id", "")) > MAX_ID:
        rule = f"has {len(values['request_id'])} characters, and may have {MAX_ID}"
        problems.append(Problem("request_id", rule, code="too_long"))
    if "currency" not in values:
        problems.append(Problem("currency", "is required"))
    if values.keys().isdisjoint({"amount", "order_amount"}):
        problems.append(Problem("amount", "is required (or order_amount)"))

    def read(names: tuple[str, ...], make: Callable[[str], T], otherwise: str | None = None) -> T | None:
        name = next((name for name in names if name in values), None)
        if name is None:
            return None
        try:
            return make(values[name])
        except ValueError as error:
            problems.append(Problem(name, otherwise or str(error), repr(values[name])))
            return None

    amount = read(("amount", "order_amount"), parse_amount)
    fee = read(("fee",), parse_amount)
    currency, fee_currency = (read((name,), asset_code) for name in ("currency", "fee_currency"))
    status = read(("status",), _status, "must be a status number, for example 99")
    is_day = "must be a day as year-month-day, for example 2026-11-25; a time may follow"
    booked_on = read(("date",), lambda text: _day(text, zone), is_day)
    if problems:
        raise InvalidFields("row", problems)
    if amount is not None and amount < 0:
        negative.add(row.line)
    return StatementEntry(
        line=row.line,
        order_no=row.ref,
        request_id=values.get("request_id"),
        order_type=values.get("order_type"),
        currency=currency or "",
        amount=(amount or Decimal(0)).copy_abs(),  # `abs` rounds to 28 digits
        status=status,
        booked_on=booked_on,
        fee=fee,
        fee_currency=fee_currency,
    )


def _status(text: str) -> OrderStatus:
    if not (text.isascii() and text.isdigit() and len(text) < MAX_STATUS_DIGITS):
        raise ValueError
    return OrderStatus(int(text))


def _day(text: str, zone: tzinfo) -> date:
    day = date.fromisoformat(text[:10])
    moment = datetime.fromisoformat(text) if text[10:] else None
    if moment is None or moment.tzinfo is None or moment.time() == time():  # programs write a day as its midnight
        return day
    try:
        return moment.astimezone(zone).date()
    except OverflowError:
        raise ValueError from None
