"""Answers about invoices: how the customer pays, and whether they, or a deposit to their address, were paid."""

from collections.abc import Collection
from decimal import Decimal
from typing import Any

from treasury.errors import NotConnected, OutcomeUnknown, Refused
from treasury.ledger.snapshots import asked_receipts
from treasury.ledger.sweeps import RECEIPT
from treasury.money import canonical, exact
from treasury.nights.sweep import ends_of, service_side
from treasury.payments.desk import Desk
from treasury.provider.operation import SeenOrder
from treasury.provider.orders import Pay, PayinRecord
from treasury.provider.status import OrderStatus
from treasury.reconciliation.arrivals import Side, paid_by_deposits, second_of

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
            came = seen.amount if seen.arrive_amount is None else seen.arrive_amount
            shown = "it in" if came is None else canonical(came)
            return "paid", f"the service shows {shown} {seen.currency}, which is not compared with the invoice"
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


class Deposits:
    """Deposits of which notifications told. What is done is asked about once."""

    def __init__(self, desk: Desk) -> None:
        """`desk`: whose ledger expects them, and which asks."""
        self._desk = desk
        self._done: dict[str, tuple[Side, SeenOrder]] = {}

    def paying(self, names: Collection[str]) -> dict[str, tuple[str, SeenOrder]]:
        """Return the deposit that paid each of these invoices, by request ids, as the service shows it.

        What cannot be asked about pays nothing.
        """
        receipts = asked_receipts(self._desk.ledger)
        invoices = [each for each in receipts if each["request_id"] in names and "to" in each]
        addresses = {each["to"] for each in invoices}
        since = min((second_of(each) for each in invoices), default=0)  # one that was known before pays none of them
        deposits = [each for each in receipts if each.get("order_type") == "charge" and each["created_at"] >= since]
        if not invoices or not deposits:
            return {}
        asked = [*deposits, *(each for each in receipts if each.get("to") in addresses)]
        shown = [each for each in self._desk.run_concurrently(self._ask, asked) if each is not None]
        seen = {side["request_id"]: order for side, order in shown}
        paid = paid_by_deposits([side for side, _ in shown])
        return {name: (paid[name], seen[paid[name]]) for name in names if name in paid}

    def _ask(self, receipt: dict[str, Any]) -> tuple[Side, SeenOrder] | None:
        """Ask about a pay-in or deposit: both sides of it."""
        name = receipt["request_id"]
        if name in self._done:
            return self._done[name]
        try:
            seen, reply = self._desk.submission.query_reference_with_reply(RECEIPT, name)
        except (NotConnected, Refused, OutcomeUnknown):
            return None
        if seen is None or reply is None:
            return None
        words = self._desk.ledger.words_of_quote
        shown = {**service_side(seen, reply, lambda: words(name)), **ends_of(self._desk.ledger.key, reply)}
        side = {**receipt, "operation": RECEIPT, **{key: value for key, value in shown.items() if value is not None}}
        if seen.status == OrderStatus.SUCCESS:
            self._done[name] = side, seen
        return side, seen
