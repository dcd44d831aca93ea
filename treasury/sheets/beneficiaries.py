"""The beneficiaries sheet: one row a payout, on the direct or the quoted route, judged by the catalogue itself."""

from collections.abc import Collection, Mapping
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

from treasury.errors import InvalidFields, Problem, RowProblem
from treasury.money import parse_amount
from treasury.orders.rows import AMOUNTS, BENEFICIARY_OBJECTS, PayoutRow, Route
from treasury.provider.fiat_payouts import CreateFiatPayout, FiatPayoutQuote
from treasury.provider.operation import Operation
from treasury.provider.orders import Payout
from treasury.sheets.control import check_control
from treasury.sheets.mappings import Mappings
from treasury.sheets.operations import PLACEHOLDER
from treasury.sheets.payees import FIELD, IDENTIFIERS, judge_payee
from treasury.sheets.reading import Layout, Row, Sheet, read_sheet

OWN = ("row_ref", "route", "duplicate_ok", "replaces")
"""Columns of every row that are not sent."""

CEILING = "max_pay_amount"
"""Column of a quoted row that gives what is received: the most that it may debit; not sent."""

DIRECT = (
    *("amount", "currency", "settle_currency", "payout_method", "account_type", "account_no", "account_name"),
    *("country", "bank_code", "wallet_code", "phone", "email", "remark", "bank_routing_code"),
    *("document_type", "document_id"),
)
"""Columns of a direct row, named as the fields of `Payout`."""

QUOTE = (
    *("quote_mode", "pay_currency", "pay_amount", "receive_currency", "receive_amount", "beneficiary_country"),
    *("beneficiary_bank_id", "account_type", "beneficiary_relationship", "clear_network"),
)
"""Columns of a quoted row, named as the fields of `FiatPayoutQuote`."""

PARTY = (
    *("account_no", "bank_name", "address", "full_name", "first_name", "middle_name", "last_name"),
    *("nationality", "gender", "date_of_birth", "company_name"),
)
"""Columns of a quoted row that make up its beneficiary object."""

CONFIRMATION = ("purpose_code", "description")
"""Columns of a quoted row, named as the fields of `CreateFiatPayout`."""

COLUMNS: Mapping[Route, frozenset[str]] = {
    Route.DIRECT: frozenset((*OWN, *DIRECT)),
    Route.QUOTED: frozenset((*OWN, CEILING, *QUOTE, *PARTY, *CONFIRMATION)),
}

LAYOUT = Layout(
    key="row_ref",
    required=("route",),
    optional=("duplicate_ok", "replaces", CEILING, *dict.fromkeys((*DIRECT, *QUOTE, *PARTY, *CONFIRMATION))),
    free_prefix=FIELD,
    amounts=frozenset((*AMOUNTS, CEILING)),
    identifiers=IDENTIFIERS,
    synonyms={
        **dict.fromkeys(("konto", "kontonummer", "kontonr", "iban", "account", "account_number"), "account_no"),
        **dict.fromkeys(("reference", "ref", "referenz", "payment_reference"), "row_ref"),
        **dict.fromkeys(("mail", "e_mail_address", "email_address"), "email"),
        **dict.fromkeys(("telefon", "telephone", "mobile", "phone_number"), "phone"),
    },
)


def read_beneficiaries(
    path: Path, *, sheet: str | None = None, leaving: Collection[RowProblem] = (), mappings: Mappings = Mappings()
) -> Sheet[PayoutRow]:
    """Read the sheet (columns: `data/README.md`), of a workbook the one of this name, without rows with these problems.

    Raises `InvalidSheet` with every problem of every row, and where the sheet's own control says otherwise. What is to
    be said about it and is no problem is in `notes`.
    """
    unchecked: dict[str, None] = {}
    rows = read_sheet(path, LAYOUT, lambda row: _payout_row(row, unchecked), sheet, leaving, mappings)
    if unchecked:
        shown = ", ".join(sorted(unchecked)[:MAX_NAMED]) + (", ..." if len(unchecked) > MAX_NAMED else "")
        rows.notes += (f"not checked, for no rule is known: {shown}",)
    # It speaks of the whole sheet: of a row that is left out too, as far as its amounts can be read.
    check_control(path, chain((row.fields for row in rows), (_readable(row.cells) for row in rows.left_out)))
    return rows


def _readable(cells: Mapping[str, str]) -> dict[str, str]:
    """The amounts of a row that is left out, and their currencies."""
    found = {name: cell.upper() for name, cell in cells.items() if name not in AMOUNTS}
    for name in AMOUNTS:
        with suppress(ValueError):
            found |= {name: str(parse_amount(cells[name]))} if name in cells else {}
    return found


MAX_NAMED = 20
"""Kinds of numbers that are named as not checked."""


def _payout_row(row: Row, unchecked: dict[str, None]) -> PayoutRow:
    values = row.values
    given = values.get("route")
    if given is None or given.lower() not in COLUMNS:
        shown = None if given is None else repr(given)
        raise InvalidFields("row", [Problem("route", "must be direct or quoted", shown, code="not_one_of")])
    route = Route(given.lower())
    own = COLUMNS[route]
    problems = [
        Problem(column, f"must be blank on a {route} row", code="not_allowed")
        for column in values
        if column not in own and not (route is Route.QUOTED and column.startswith(FIELD))
    ]
    if route is Route.DIRECT:
        sent = _judge(Payout, {"request_id": PLACEHOLDER, **_some(values, DIRECT)}, problems)
        confirmed: dict[str, Any] = {}
    else:
        sent = _judge(FiatPayoutQuote, _quote(values), problems)
        confirmed = _confirmation(values, problems)
        confirmed |= _ceiling(sent or values, values, problems)
    problems += judge_payee(values, route, unchecked.setdefault)
    if problems:
        raise InvalidFields("row", problems)
    sent.pop("request_id")
    return PayoutRow(
        line=row.line,
        row_ref=row.ref,
        route=route,
        fields=sent,
        purpose_code=confirmed.get("purpose_code"),
        description=confirmed.get("description"),
        duplicate_ok=values.get("duplicate_ok"),
        max_pay_amount=confirmed.get(CEILING),
        replaces=values.get("replaces"),
    )


def _ceiling(quoted: Mapping[str, Any], values: Mapping[str, str], problems: list[Problem]) -> dict[str, Any]:
    if CEILING not in values:
        return {}
    if quoted.get("pay_amount") is not None:
        problems.append(Problem(CEILING, "must be blank where pay_amount says what is debited"))
        return {}
    try:
        amount = parse_amount(values[CEILING])
    except ValueError as error:
        problems.append(Problem(CEILING, str(error), values[CEILING]))
        return {}
    if amount <= 0:
        problems.append(Problem(CEILING, "must be greater than zero", values[CEILING]))
    return {CEILING: amount}


def _some(values: Mapping[str, str], columns: tuple[str, ...]) -> dict[str, str]:
    return {column: values[column] for column in columns if column in values}


def _judge(operation: type[Operation[Any]], fields: Mapping[str, Any], problems: list[Problem]) -> dict[str, Any]:
    """The wire body of an operation; what its class objects to is added to the problems, by column."""
    try:
        return operation(**fields).body()
    except InvalidFields as error:
        # The object follows from account_type, so an object that does not fit is a problem named there already.
        named = (problem for problem in error.problems if problem.field not in BENEFICIARY_OBJECTS.values())
        problems.extend(_named(problem, fields) for problem in named)
        return {}


def _named(problem: Problem, fields: Mapping[str, Any]) -> Problem:
    """A problem of an operation as one of the sheet."""
    rule = problem.rule
    if problem.code == "not_allowed":
        rule = f"must be blank when account_type is {str(fields.get('account_type', '')).upper()}"
    return Problem(_column(problem.field), rule, problem.value, code=problem.code)


def _column(place: str) -> str:
    """The column that holds a field of the wire."""
    holder, _, member = place.partition(".")
    if holder == "beneficiaryFields":
        return FIELD + member
    return member if holder in BENEFICIARY_OBJECTS.values() else place


def _quote(values: Mapping[str, str]) -> dict[str, Any]:
    extra = {name.removeprefix(FIELD): values[name] for name in sorted(values) if name.startswith(FIELD)}
    kind = values.get("account_type", "").upper()
    party = BENEFICIARY_OBJECTS.get(kind, BENEFICIARY_OBJECTS["PERSONAL"])
    # Members of the beneficiary go in even when blank, so that each one missing is named, and not only the object.
    members = dict.fromkeys(("account_no", "bank_name", "address")) | _some(values, PARTY)
    return {"request_id": PLACEHOLDER, **_some(values, QUOTE), "beneficiaryFields": extra, party: members}


def _confirmation(values: Mapping[str, str], problems: list[Problem]) -> dict[str, Any]:
    purpose = values.get("purpose_code", "")
    if len(purpose) == 1 and purpose.isdigit():
        rule = f"has two digits: write 0{purpose}, and format the column as text, for the spreadsheet took the zero"
        problems.append(Problem("purpose_code", rule, repr(purpose), code="leading_zero_lost"))
        return {}
    if purpose and not (len(purpose) == 2 and purpose.isascii() and purpose.isdigit()):
        problems.append(
            Problem("purpose_code", "has two digits, for example 01", repr(purpose[:20]), code="not_written")
        )
        return {}
    return _judge(CreateFiatPayout, {"order_no": PLACEHOLDER, **_some(values, CONFIRMATION)}, problems)
