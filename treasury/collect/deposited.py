"""Invoices that a deposit to their address paid, by the rule of the morning report, as the service shows both now."""

from collections.abc import Collection
from typing import Any

from treasury.errors import NotConnected, OutcomeUnknown, Refused
from treasury.ledger.snapshots import asked_receipts
from treasury.ledger.sweeps import RECEIPT
from treasury.nights.arrivals import ends_of
from treasury.nights.sweep import service_side
from treasury.payments.desk import Desk
from treasury.provider.operation import SeenOrder
from treasury.provider.status import OrderStatus
from treasury.reconciliation.arrivals import Side, paid_by_deposits, second_of


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
