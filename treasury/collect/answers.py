"""Answers about invoices: how the customer pays, whether they are as they were asked for, and what came of them."""

from decimal import Decimal

from treasury.money import exact
from treasury.provider.operation import SeenOrder
from treasury.provider.orders import Pay, PayinRecord
from treasury.provider.status import OrderStatus

TOLD = ("order_no", "checkout_url", "wallet_url", "qrcode_string", "account_name", "account_number", "receive_address")
"""Fields of the answer that are kept: how the customer pays (document, Pay-in record)."""

PAID_BY = {"checkout_url", "wallet_url", "qrcode_string", "account_number", "receive_address"}
"""Those of them by any of which a customer can pay."""


def how_to_pay(reply: PayinRecord) -> dict[str, str]:
    """Fields of an answer that are kept, by name."""
    return {name: str(value) for name in TOLD if (value := getattr(reply, name))}


def is_as_asked(asked: Pay, seen: SeenOrder) -> bool:
    """Tell whether the service shows an invoice over what was asked for; in the customer's currency it may be."""
    if seen.currency is None or seen.currency == asked.pay_currency != asked.currency:
        return True
    return seen.amount is None or (seen.currency, seen.amount) == (asked.currency, asked.amount)


@exact
def outcome_of(currency: str, amount: Decimal, seen: SeenOrder) -> tuple[str, str]:
    """The outcome of an invoice of this amount, and why, by what the service shows (public fact 2.1).

    What the customer paid is what arrives and the fee, where the service shows both in the invoice's currency.
    """
    if seen.status == OrderStatus.SUCCESS:
        paid = paid_of(currency, amount, seen)
        if paid is None:
            return "paid", f"the service shows it in {seen.currency}, which is not compared with the invoice"
        return ("underpaid" if paid < amount else "overpaid" if paid > amount else "paid"), seen.reason or ""
    if seen.status == OrderStatus.FAILED:
        return "failed", seen.reason or ""
    return ("expired" if seen.status == OrderStatus.CLOSED else "waiting"), seen.reason or ""


@exact
def paid_of(currency: str, amount: Decimal, seen: SeenOrder) -> Decimal | None:
    """The amount that the customer paid, in the invoice's currency; None where another one is shown."""
    if seen.currency not in (None, currency):
        return None
    if seen.arrive_amount is None or (seen.fee and seen.fee_currency not in (None, currency)):
        return amount if seen.amount is None else seen.amount
    return seen.arrive_amount + (seen.fee or 0)
