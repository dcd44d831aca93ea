"""The rows that a payout plan is made of."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from operator import attrgetter
from typing import Any

from treasury.errors import RowProblem
from treasury.money import canonical
from treasury.texts import payee_key


class Route(StrEnum):
    """The way a payout takes."""

    DIRECT = "direct"
    """One order, `/v1/order/payout`."""
    QUOTED = "quoted"
    """A quote, then its confirmation, `/v1/fiatpayout/payouts/*`."""


BENEFICIARY_OBJECTS = {"PERSONAL": "individual_beneficiary", "ENTERPRISE": "enterprise_beneficiary"}
"""account_type -> the object that holds the beneficiary (document, endpoint 18)."""

AMOUNTS = ("amount", "pay_amount", "receive_amount")


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
    """Why a payout that looks like a duplicate is not one."""
    max_pay_amount: Decimal | None = None
    """Quoted, where the receive amount is given: the most that it may debit."""
    replaces: str | None = None
    """Request id of the payment that did not settle and that this one is paid instead of."""
    estimate: Decimal | None = None
    """Quoted, where the receive amount is given: the estimate of its debit with the policy's margin, as its plan fixed
    it. No part of what a run key binds."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the row in a third of the time that a frozen dataclass takes by default."""
        return PayoutRow, _in_order(self)

    @property
    def bound_content(self) -> dict[str, Any]:
        """The content that a run key binds: all that is sent. 100 and 100.00 are one amount; the line and the order of
        rows, columns and `field.` names do not count (`dict` equality; hash it with sorted keys).
        """
        most = self.max_pay_amount
        amounts = {name: canonical(Decimal(self.fields[name])) for name in self._amounts}
        return {
            "route": self.route.value,
            "fields": {**self.fields, **amounts},
            "purpose_code": self.purpose_code,
            "description": self.description,
            **({} if most is None else {"max_pay_amount": canonical(most)}),
            **({} if self.replaces is None else {"replaces": self.replaces}),
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

    def ceiling(self, maximum: Decimal | None) -> Decimal | None:
        """The most that it may debit, where its amount is not known beforehand; `maximum`: the policy's, per payout."""
        if self.amount is not None:
            return None
        bounds = (self.max_pay_amount, self.estimate, maximum)
        return min((each for each in bounds if each is not None), default=None)

    @property
    def receive_currency(self) -> str:
        """The currency that the beneficiary receives."""
        return str(self.fields["settle_currency" if self.route is Route.DIRECT else "receive_currency"])

    @property
    def receive_amount(self) -> Decimal | None:
        """Return what the beneficiary receives, in `receive_currency`; None unless quote_mode is `dest`."""
        return self._amount("receive_amount")

    @property
    def country(self) -> str:
        """Return where the beneficiary's account is."""
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
        """Return what identifies the payee, for duplicate checks: account, country, bank or wallet. Personal: never
        log it."""
        return payee_key(self.account, self.country, self.bank)

    @property
    def _party(self) -> Mapping[str, Any]:
        """Who is paid, on the quoted route."""
        found: Mapping[str, Any] = next(
            self.fields[name] for name in BENEFICIARY_OBJECTS.values() if name in self.fields
        )
        return found

    @property
    def account(self) -> str:
        """The beneficiary's account number, or that of the wallet. Personal."""
        return str(self.fields["account_no"] if self.route is Route.DIRECT else self._party["account_no"])

    @property
    def bank(self) -> str | None:
        """The code of the beneficiary's bank, or of the wallet."""
        if self.route is Route.DIRECT:
            return self.fields.get("bank_code") or self.fields.get("wallet_code")
        return str(self.fields["beneficiary_bank_id"])

    @property
    def payee_name(self) -> str:
        """The beneficiary's name. Personal."""
        if self.route is Route.DIRECT:
            return str(self.fields["account_name"])
        party = self._party
        parts = (party.get(name) for name in ("first_name", "middle_name", "last_name"))
        whole = party.get("full_name") or party.get("company_name") or " ".join(part for part in parts if part)
        return str(whole)


@dataclass(frozen=True)
class LeftOut:
    """A row of a sheet that is not paid, for something is wrong with it."""

    line: int
    row_ref: str
    cells: Mapping[str, str] = field(repr=False)
    """What stands in it, by column. What is not known, or would be another value in another file, begins with
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
