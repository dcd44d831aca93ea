"""The rows that a payout plan is made of."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from operator import attrgetter
from typing import Any

from treasury.money import format_amount
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

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the row in a third of the time that a frozen dataclass takes by default."""
        return PayoutRow, _in_order(self)

    @property
    def bound_content(self) -> dict[str, Any]:
        """The content that a run key binds: all that is sent. 100 and 100.00 are one amount; the line and the order of
        rows, columns and `field.` names do not count (`dict` equality; hash it with sorted keys).
        """
        most = self.max_pay_amount
        amounts = {name: format_amount(Decimal(self.fields[name]).normalize()) for name in self._amounts}
        return {
            "route": self.route.value,
            "fields": {**self.fields, **amounts},
            "purpose_code": self.purpose_code,
            "description": self.description,
            **({} if most is None else {"max_pay_amount": format_amount(most.normalize())}),
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
        return min((each for each in (self.max_pay_amount, maximum) if each is not None), default=None)

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
        return payee_key(account, country, bank)


_in_order = attrgetter(*PayoutRow.__slots__)
