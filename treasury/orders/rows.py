"""The rows that a payout plan is made of."""

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from operator import attrgetter
from typing import Any

from treasury.errors import RowProblem
from treasury.money import canonical
from treasury.payees import payee_key, payee_of_address
from treasury.promptpay import name_of_code, payee_of_code, read_promptpay
from treasury.provider.fiat_payouts import CreateFiatPayout
from treasury.provider.orders import Payout, Withdraw, code_of_bank, pays_a_phone
from treasury.provider.scan_to_pay import SubmitScanToPay


class Route(StrEnum):
    """The way a payment takes."""

    DIRECT = "direct"
    """One order, `/v1/order/payout`."""
    QUOTED = "quoted"
    """A quote, then its confirmation, `/v1/fiatpayout/payouts/*`."""
    WITHDRAWAL = "withdrawal"
    """A crypto asset to an address, `/v1/order/withdraw`."""
    QR_CODE = "qr_code"
    """A PromptPay code, `/v1/scanPay/submit`."""


BENEFICIARY_OBJECTS = {"PERSONAL": "individual_beneficiary", "ENTERPRISE": "enterprise_beneficiary"}
"""account_type -> the object that holds the beneficiary (document, endpoint 18)."""

NOTIFY = "notify_url"
"""The address that the service reports to: no part of what is paid, so a run goes on under another one."""

NOTHING_MORE: Mapping[str, str] = {}

AMOUNTS = ("amount", "pay_amount", "receive_amount")


@dataclass(frozen=True)
class Way:
    """How the body of a route's operation says what a payment is: the columns, which are fields of the operation."""

    operation: str
    """The operation that moves the money."""
    kind: str = "payout"
    """The kind of a run of such rows."""
    table: str = "payouts"
    """The table of the policy that limits it."""
    command: str = "pay"
    """The command that pays such rows."""
    currency: str | None = "currency"
    """None where the operation always debits one asset: `debits`."""
    amount: str | None = "amount"
    """None where the debit is never known beforehand."""
    receive_currency: str = "currency"
    receive_amount: str | None = None
    country: str | None = None
    debits: str = ""
    receives: str = ""
    """The currency that arrives, where no column says it."""
    pays_in: str | None = None
    """The country that is paid, where no column says it."""


WAYS: Mapping[Route, Way] = {
    Route.DIRECT: Way(Payout.operation_name(), receive_currency="settle_currency", country="country"),
    Route.QUOTED: Way(
        CreateFiatPayout.operation_name(),
        currency="pay_currency",
        amount="pay_amount",
        receive_currency="receive_currency",
        receive_amount="receive_amount",
        country="beneficiary_country",
    ),
    Route.WITHDRAWAL: Way(Withdraw.operation_name(), "withdrawal", Withdraw.limited_by, "withdraw"),
    Route.QR_CODE: Way(
        SubmitScanToPay.operation_name(),
        "scan-to-pay",
        command="scan-pay",
        currency=None,
        amount=None,
        receive_amount="amount",
        debits=str(SubmitScanToPay.debits),
        receives=str(SubmitScanToPay.receives),
        pays_in=SubmitScanToPay.country,
    ),
}


COMMANDS: Mapping[str, str] = {way.operation: way.command for way in WAYS.values()}
"""Operation -> the command that pays a sheet of it."""


@dataclass(frozen=True, slots=True)
class PayoutRow:
    """One payment as the sheet asks for it."""

    line: int
    row_ref: str
    route: Route
    fields: Mapping[str, Any] = field(repr=False)
    """The wire body of the route's operation, or of its quote, without its request_id; amounts are text."""
    purpose_code: str | None = None
    """Quoted only: the remittance purpose of the confirmation (public fact 2.5)."""
    description: str | None = field(default=None, repr=False)
    """Quoted only."""
    duplicate_ok: str | None = None
    """Why a payout that looks like a duplicate is not one."""
    max_pay_amount: Decimal | None = None
    """The most that it may debit, where the amount received is given."""
    replaces: str | None = None
    """Request id of the payment that did not settle and that this one is paid instead of."""
    estimate: Decimal | None = None
    """The estimate of its debit with the policy's margin, as its plan fixed it, where the amount received is given, or
    where a fee is charged on top of the amount. No part of what a run key binds."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the row in a third of the time that a frozen dataclass takes by default."""
        return PayoutRow, _in_order(self)

    @property
    def bound_content(self) -> dict[str, Any]:
        """The content that a run key binds: all that is sent. 100 and 100.00 are one amount; the line and the order of
        rows, columns and `field.` names do not count (`dict` equality; hash it with sorted keys).
        """
        most = self.max_pay_amount
        amounts = {name: canonical(Decimal(self.fields[name])) for name in AMOUNTS if name in self.fields}
        return {
            "route": self.route.value,
            "fields": {**{name: value for name, value in self.fields.items() if name != NOTIFY}, **amounts},
            "purpose_code": self.purpose_code,
            "description": self.description,
            **({} if most is None else {"max_pay_amount": canonical(most)}),
            **({} if self.replaces is None else {"replaces": self.replaces}),
        }

    def _amount(self, name: str | None) -> Decimal | None:
        return Decimal(self.fields[name]) if name is not None and name in self.fields else None

    @property
    def way(self) -> Way:
        """How its fields say what it is."""
        return WAYS[self.route]

    @property
    def currency(self) -> str:
        """The asset that is debited."""
        return str(self.fields[self.way.currency]) if self.way.currency is not None else self.way.debits

    @property
    def amount(self) -> Decimal | None:
        """The debit in `currency`; None when only the service will tell (quote_mode `dest`, QR codes)."""
        return self._amount(self.way.amount)

    def ceiling(self, maximum: Decimal | None) -> Decimal | None:
        """The most that it may debit, where its amount is not known beforehand; `maximum`: the policy's, per payout."""
        if self.amount is not None:
            return None
        bounds = (self.max_pay_amount, self.estimate, maximum)
        return min((each for each in bounds if each is not None), default=None)

    def bound(self, maximum: Decimal | None) -> Decimal | None:
        """The most that it should debit, where nothing that is sent bounds it; None where that is not known.

        A quote is confirmed inside its bounds: it has none.
        """
        if self.route is Route.QUOTED:
            return None
        return self.estimate if self.amount is not None else self.ceiling(maximum)

    @property
    def receive_currency(self) -> str:
        """The currency that the beneficiary receives."""
        return self.way.receives or str(self.fields[self.way.receive_currency])

    @property
    def receive_amount(self) -> Decimal | None:
        """Return what the beneficiary receives, in `receive_currency`, where the row fixes that; else None."""
        return self._amount(self.way.receive_amount)

    @property
    def country(self) -> str | None:
        """Return where the beneficiary's account is; None for an address."""
        return self.way.pays_in if self.way.country is None else str(self.fields[self.way.country])

    @property
    def countries(self) -> Mapping[str, str]:
        """Return each country that the row names as that of the beneficiary's account, with the column that does."""
        more = {f"field.{name}": value for name, value in (self.fields.get("beneficiaryFields") or {}).items()}
        account = self.account if self.route in (Route.DIRECT, Route.QUOTED) else ""
        return countries_named(self.country, self.way.country or "qrcode", account, more)

    @property
    def payee(self) -> str:
        """Return what identifies the payee, for duplicate checks, as a single operation names it, too. Personal: never
        log it."""
        if self.route is Route.WITHDRAWAL:
            return payee_of_address(self.account, self.fields.get("tag"))
        if self.route is Route.QR_CODE:
            return payee_of_code(self.fields["qrcode"])
        return self.payee_at(self.bank)

    def payee_at(self, bank: str | None) -> str:
        """Return what would identify the payee of a bank account or wallet if this were the code of its bank."""
        is_phone = self.route is Route.DIRECT and pays_a_phone(self.fields)
        return payee_key(self.account, self.country or "", bank, is_phone=is_phone)

    @property
    def _party(self) -> Mapping[str, Any]:
        """Who is paid, on the quoted route."""
        found: Mapping[str, Any] = next(
            self.fields[name] for name in BENEFICIARY_OBJECTS.values() if name in self.fields
        )
        return found

    @property
    def account(self) -> str:
        """The beneficiary's account number, that of the wallet, the address, or the account of the code. Personal."""
        match self.route:
            case Route.QUOTED:
                return str(self._party["account_no"])
            case Route.WITHDRAWAL:
                return str(self.fields["address"])
            case Route.QR_CODE:
                return read_promptpay(self.fields["qrcode"]).account
        return str(self.fields["account_no"])

    @property
    def bank(self) -> str | None:
        """The code of the beneficiary's bank, or of the wallet; of an address its tag or memo."""
        match self.route:
            case Route.QUOTED:
                return str(self.fields["beneficiary_bank_id"])
            case Route.WITHDRAWAL:
                return self.fields.get("tag")
        return code_of_bank(self.fields)

    @property
    def payee_name(self) -> str:
        """The beneficiary's name; empty where the sheet does not say it. Personal."""
        match self.route:
            case Route.DIRECT:
                return str(self.fields["account_name"])
            case Route.WITHDRAWAL:
                return ""
            case Route.QR_CODE:
                return name_of_code(self.fields["qrcode"]) or ""
        party = self._party
        parts = (party.get(name) for name in ("first_name", "middle_name", "last_name"))
        whole = party.get("full_name") or party.get("company_name") or " ".join(part for part in parts if part)
        return str(whole)


def countries_named(
    country: str | None, column: str, account: str, more: Mapping[str, str] = NOTHING_MORE
) -> Mapping[str, str]:
    """Return each country that a payment names as that of the beneficiary's account, with the column that does.

    An IBAN (ISO 13616) and a BIC (ISO 9362) among `more`, which are columns with their values, say where they belong.
    """
    numbers = {"account_no": account, **more}
    said = {country_of_number(name, value): name for name, value in numbers.items()} | {country: column}
    return {name: by for name, by in said.items() if name is not None}


BIC_NAMES = ("swift", "swiftcode", "bic", "biccode", "swiftbic")


def country_of_number(name: str, value: str) -> str | None:
    """Return the country of an IBAN, or of a BIC in a column of that name; None of any other number."""
    from schwifty import BIC, IBAN
    from schwifty.exceptions import SchwiftyException

    plain = re.sub(r"[\s-]", "", value).upper()
    is_bic = re.sub(r"[^a-z]", "", name.removeprefix("field.").casefold()) in BIC_NAMES
    with suppress(SchwiftyException):
        if is_bic:
            return str(BIC(plain).country_code)
        if re.match(r"[A-Z]{2}[0-9]{2}", plain):
            return str(IBAN(plain).country_code)
    return None


@dataclass(frozen=True)
class LeftOut:
    """A row of a sheet that is not paid, for something is wrong with it."""

    line: int
    row_ref: str
    cells: Mapping[str, str] = field(repr=False)
    """Its values, by column. A value that is not known, or would be another in another file, begins with
    apostrophes and is refused until somebody types it again. Personal."""
    problems: tuple[RowProblem, ...]

    @property
    def problem(self) -> str:
        """Return what is wrong with it, in words; nothing in them is personal."""
        return "; ".join(f"{each.column}: {each.rule}" for each in self.problems)

    def as_dict(self) -> dict[str, Any]:
        """Which row it is, and what is wrong with it."""
        shown = self.row_ref if self.row_ref.isprintable() else repr(self.row_ref)
        return {"row": self.line, "row_ref": shown, "problem": self.problem}


_in_order = attrgetter(*PayoutRow.__slots__)
