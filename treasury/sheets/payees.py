"""Which column of a beneficiary holds which number, and what is wrong with it (public facts 5.6, 6 and 7.2)."""

from collections.abc import Callable, Iterator, Mapping
from datetime import date, timedelta

from treasury.clock import MACHINE
from treasury.errors import Problem
from treasury.masking import mask
from treasury.orders.rows import Route
from treasury.sheets.characters import judge_ascii, judge_digits
from treasury.sheets.identifiers import (
    Found,
    check_named,
    check_of_account,
    check_of_wallet,
    contact_phone,
    email,
    faults,
)

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
