"""The beneficiaries sheet: one row a payout, on the direct or the quoted route, judged by the rules of its route.

The public facts say which column of a beneficiary holds which number, and what is wrong with it.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from datetime import date, timedelta
from itertools import chain
from pathlib import Path
from typing import Any

from treasury.clock import MACHINE
from treasury.errors import InvalidFields, Problem, RowProblem
from treasury.masking import mask
from treasury.money import parse_amount
from treasury.orders.rows import AMOUNTS, BENEFICIARY_OBJECTS, PayoutRow, Route
from treasury.provider.fiat_payouts import CreateFiatPayout, FiatPayoutQuote
from treasury.provider.operation import Operation
from treasury.provider.orders import Payout
from treasury.sheets.cell_texts import judge_ascii, judge_digits
from treasury.sheets.control import check_control
from treasury.sheets.headers import Mappings
from treasury.sheets.identifiers import (
    Found,
    check_named,
    check_of_account,
    check_of_wallet,
    contact_phone,
    email,
    faults,
)
from treasury.sheets.reading import PLACEHOLDER, Layout, Row, Sheet, read_sheet

FIELD = "field."
"""Prefix of the columns that make up `beneficiaryFields`."""

CODES = ("account_no", "bank_routing_code", "bank_code", "wallet_code", "phone", "beneficiary_bank_id", "purpose_code")
"""Identifiers that have Latin letters and digits alone."""

IDENTIFIERS = frozenset((*CODES, "document_id"))

NAMES = ("full_name", "first_name", "middle_name", "last_name")

MAX_NAME = 30


def judge_payee(values: Mapping[str, str], route: Route, unchecked: Callable[[str], None]) -> list[Problem]:
    """Return what is wrong with the numbers of a row. `unchecked` is told of each kind of number no rule is known
    for."""
    country = values.get("country" if route is Route.DIRECT else "beneficiary_country", "").upper()
    problems = list(_of_characters(values))
    found = (_direct if route is Route.DIRECT else _quoted)(values, country, unchecked)
    problems += faults(list(found), country)
    if route is Route.QUOTED:
        problems += _of_person(values)
    return problems


def _of_characters(values: Mapping[str, str]) -> Iterator[Problem]:
    for column in CODES:
        value = values.get(column)
        if value is None or value.isdigit():
            continue
        fault = judge_ascii(value) or judge_digits(value)
        if fault is not None:
            yield Problem(column, fault[0], code=fault[1])


def _direct(values: Mapping[str, str], country: str, unchecked: Callable[[str], None]) -> Iterator[Found]:
    if "email" in values:
        yield "email", values["email"], email
    if "phone" in values:
        yield "phone", values["phone"], contact_phone
    account = values.get("account_no")
    if account is not None and values.get("payout_method", "").casefold() == "wallet_transfer":
        alias = check_of_wallet(values.get("account_type", ""))
        if alias is not None:
            yield "account_no", account, alias
    elif account is not None:
        yield from _account(account, country, unchecked)
    if "document_id" in values and "document_type" in values:
        kind = values["document_type"]
        check = check_named(kind, country)
        if check is None:
            unchecked(f"documents of type {kind[:MAX_NAME]} of {country[:MAX_NAME]}")
        else:
            yield "document_id", values["document_id"], check


def _quoted(values: Mapping[str, str], country: str, unchecked: Callable[[str], None]) -> Iterator[Found]:
    if "account_no" in values:
        yield from _account(values["account_no"], country, unchecked)
    for column, value in values.items():
        if column.startswith(FIELD):
            check = check_named(column.removeprefix(FIELD), country)
            if check is None:
                unchecked(f"{column[: MAX_NAME * 2]} of {country[:MAX_NAME]}")
            else:
                yield column, value, check


def _account(value: str, country: str, unchecked: Callable[[str], None]) -> Iterator[Found]:
    check = check_of_account(value, country)
    if check is None:
        unchecked(f"account numbers of {country[:MAX_NAME]}")
    else:
        yield "account_no", value, check


def _of_person(values: Mapping[str, str]) -> Iterator[Problem]:
    if values.get("account_type", "").upper() == "PERSONAL" and not any(name in values for name in NAMES):
        rule = "is required: a person is paid by name (or first_name and last_name)"
        yield Problem("full_name", rule, code="name_missing")
    born = values.get("date_of_birth")
    if born is not None and born > latest_birth_date().isoformat() and is_date(born):
        yield Problem("date_of_birth", "is in the future", repr(mask(born)), code="in_the_future")


def is_date(text: str) -> bool:
    """Tell whether a text is a day, written YYYY-MM-DD."""
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def latest_birth_date() -> date:
    """Today where it is latest on earth."""
    return (MACHINE.now() + timedelta(hours=14)).date()


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
