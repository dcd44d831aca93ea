"""The beneficiaries sheet: one row a payout, on the direct or the quoted route, judged by the catalogue itself."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from operator import attrgetter
from pathlib import Path
from typing import Any

from treasury.batches import Packed
from treasury.errors import InvalidFields, Problem
from treasury.interface.fiat_payouts import CreateFiatPayout, FiatPayoutQuote
from treasury.interface.operation import Operation
from treasury.interface.orders import Payout
from treasury.money import format_amount
from treasury.sheets.reading import Layout, Row, read_sheet


class Route(StrEnum):
    """The way a payout takes."""

    DIRECT = "direct"
    """One order, `/v1/order/payout`."""
    QUOTED = "quoted"
    """A quote, then its confirmation, `/v1/fiatpayout/payouts/*`."""


OWN = ("row_ref", "route", "duplicate_ok")
"""Columns of every row that are not sent."""

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

FIELD = "field."
"""Prefix of the columns that make up `beneficiaryFields`."""

COLUMNS: Mapping[Route, frozenset[str]] = {
    Route.DIRECT: frozenset((*OWN, *DIRECT)),
    Route.QUOTED: frozenset((*OWN, *QUOTE, *PARTY, *CONFIRMATION)),
}

LAYOUT = Layout(
    key="row_ref",
    required=("route",),
    optional=("duplicate_ok", *dict.fromkeys((*DIRECT, *QUOTE, *PARTY, *CONFIRMATION))),
    free_prefix=FIELD,
)

BENEFICIARY_OBJECTS = {"PERSONAL": "individual_beneficiary", "ENTERPRISE": "enterprise_beneficiary"}
"""account_type -> the object that holds the beneficiary (document, endpoint 18)."""

AMOUNTS = ("amount", "pay_amount", "receive_amount")

PLACEHOLDER = "0"
"""Stands for the reference, which only the run knows, while a row is judged."""


@dataclass(frozen=True, slots=True)
class PayoutRow:
    """One payout as the sheet asks for it."""

    line: int
    row_ref: str
    route: Route
    fields: Mapping[str, Any] = field(repr=False)
    """The wire body of `Payout` or `FiatPayoutQuote` without its request_id; amounts are text."""
    purpose_code: str | None = None
    """Quoted only: the remittance purpose of the confirmation (public fact 2.5)."""
    description: str | None = field(default=None, repr=False)
    """Quoted only."""
    duplicate_ok: str | None = None
    """Why a payout that looks like another one is none."""

    def __reduce__(self) -> tuple[Any, ...]:
        """How it is packed: in a third of the time that a frozen dataclass takes by itself."""
        return PayoutRow, _in_order(self)

    @property
    def meaning(self) -> dict[str, Any]:
        """What a run key binds to: all that is sent. 100 and 100.00 are one amount; the line and the order of rows,
        columns and `field.` names do not count (`dict` equality; hash it with sorted keys).
        """
        amounts = {name: format_amount(Decimal(self.fields[name]).normalize()) for name in self._amounts}
        return {
            "route": self.route.value,
            "fields": {**self.fields, **amounts},
            "purpose_code": self.purpose_code,
            "description": self.description,
        }

    @property
    def _amounts(self) -> list[str]:
        return [name for name in AMOUNTS if name in self.fields]

    def _amount(self, name: str) -> Decimal | None:
        return Decimal(self.fields[name]) if name in self.fields else None

    @property
    def currency(self) -> str:
        """The asset that is debited."""
        return str(self.fields[self.currency_column])

    @property
    def amount(self) -> Decimal | None:
        """The debit in `currency`; None when only the quote will tell (quote_mode `dest`)."""
        return self._amount(self.amount_column)

    @property
    def receive_currency(self) -> str:
        """The currency that the beneficiary receives."""
        return str(self.fields["settle_currency" if self.route is Route.DIRECT else "receive_currency"])

    @property
    def receive_amount(self) -> Decimal | None:
        """What the beneficiary receives, in `receive_currency`; None unless quote_mode is `dest`."""
        return self._amount("receive_amount")

    @property
    def country(self) -> str:
        """Where the beneficiary's account is."""
        return str(self.fields[self.country_column])

    @property
    def amount_column(self) -> str:
        """The column that holds `amount`."""
        return "amount" if self.route is Route.DIRECT else "pay_amount"

    @property
    def currency_column(self) -> str:
        """The column that holds `currency`."""
        return "currency" if self.route is Route.DIRECT else "pay_currency"

    @property
    def country_column(self) -> str:
        """The column that holds `country`."""
        return "country" if self.route is Route.DIRECT else "beneficiary_country"

    @property
    def payee(self) -> str:
        """What identifies the payee, for duplicate checks: account, country, bank or wallet. Personal: never log it."""
        if self.route is Route.DIRECT:
            account, country = self.fields["account_no"], self.fields["country"]
            bank = self.fields.get("bank_code") or self.fields.get("wallet_code")
        else:
            party = next(self.fields[name] for name in BENEFICIARY_OBJECTS.values() if name in self.fields)
            account, country = party["account_no"], self.fields["beneficiary_country"]
            bank = self.fields["beneficiary_bank_id"]
        written = "".join(str(account).replace("-", "").split())
        return f"{written}|{country}|{bank}".casefold()


_in_order = attrgetter(*PayoutRow.__slots__)


def read_beneficiaries(path: Path) -> Packed[PayoutRow]:
    """Read the sheet (columns: `data/README.md`). Raises `InvalidSheet` with every problem of every row."""
    return read_sheet(path, LAYOUT, _payout_row)


def _payout_row(row: Row) -> PayoutRow:
    values = row.values
    given = values.get("route")
    if given is None or given.lower() not in tuple(Route):
        shown = None if given is None else repr(given)
        raise InvalidFields("row", [Problem("route", "must be direct or quoted", shown)])
    route = Route(given.lower())
    own = COLUMNS[route]
    problems = [
        Problem(column, f"must be blank on a {route} row")
        for column in values
        if column not in own and not (route is Route.QUOTED and column.startswith(FIELD))
    ]
    if route is Route.DIRECT:
        sent = _judge(Payout, {"request_id": PLACEHOLDER, **_some(values, DIRECT)}, problems)
        confirmed: dict[str, Any] = {}
    else:
        sent = _judge(FiatPayoutQuote, _quote(values), problems)
        confirmed = _confirmation(values, problems)
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
    )


def _some(values: Mapping[str, str], columns: tuple[str, ...]) -> dict[str, str]:
    return {column: values[column] for column in columns if column in values}


def _judge(operation: type[Operation[Any]], fields: Mapping[str, Any], problems: list[Problem]) -> dict[str, Any]:
    """The wire body of an operation; what its class objects to is added to the problems, by column."""
    try:
        return operation(**fields).body()
    except InvalidFields as error:
        # The object follows from account_type, so an object that does not fit is a problem named there already.
        named = (problem for problem in error.problems if problem.field not in BENEFICIARY_OBJECTS.values())
        problems.extend(Problem(_column(problem.field), problem.rule, problem.value) for problem in named)
        return {}


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
        problems.append(Problem("purpose_code", rule, repr(purpose)))
        return {}
    return _judge(CreateFiatPayout, {"order_no": PLACEHOLDER, **_some(values, CONFIRMATION)}, problems)
