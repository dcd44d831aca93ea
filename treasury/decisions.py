"""Decisions about one payment, as pure functions: does it agree, may it be sent again, may this quote be confirmed."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from treasury.interface.operation import SeenOrder
from treasury.ledger.records import Order, Quote


def disagreements(order: Order, seen: SeenOrder) -> list[str]:
    """Where what the service shows differs from what we asked for, in words; what it does not show cannot differ.

    Money compares exactly: 100 equals 100.00 and nothing else.
    """
    pairs: tuple[tuple[str, object, object], ...] = (
        ("request_id", order.request_id, seen.request_id),
        ("currency", order.currency, seen.currency),
        ("amount", order.amount, seen.amount),
        ("receive currency", order.receive_currency, seen.receive_currency),
        ("receive amount", order.receive_amount, seen.receive_amount),
    )
    return [
        f"{name} is {there} at the service, {ours} here"
        for name, ours, there in pairs
        if ours is not None and there is not None and ours != there
    ]


def may_send_again(order: Order, now_ms: int, wait_seconds: float, *, absence_is_evidence: bool) -> bool:
    """Whether a "no such order" seen now, after an earlier one, is evidence enough to send the same id again."""
    return absence_is_evidence and order.absent_since is not None and now_ms - order.absent_since >= wait_seconds * 1000


@dataclass(frozen=True)
class Bounds:
    """What a quote may cost and must bring. None is no bound; amounts in the quote's own currencies."""

    pay_currency: str
    receive_currency: str
    pay_amount: Decimal | None = None
    """Exactly this is paid."""
    receive_amount: Decimal | None = None
    """Exactly this arrives."""
    most_pay: Decimal | None = None
    least_receive: Decimal | None = None
    """What must arrive after the service's fee."""
    least_rate: Decimal | None = None
    greatest_rate: Decimal | None = None

    def as_dict(self) -> dict[str, str]:
        """As text, for the ledger."""
        return {name: str(value) for name, value in vars(self).items() if value is not None}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> "Bounds":
        """From text."""
        names = ("pay_currency", "receive_currency")
        amounts = {name: Decimal(value) for name, value in stored.items() if name not in names}
        return cls(stored["pay_currency"], stored["receive_currency"], **amounts)


def quote_problem(quote: Quote, bounds: Bounds, now_ms: int) -> str | None:
    """Why a quote must not be confirmed; None when it may."""
    if quote.quote is None or quote.pay_amount is None or quote.receive_amount is None:
        return "the quote is incomplete"
    exact = (
        ("pay currency", quote.pay_currency, bounds.pay_currency),
        ("receive currency", quote.receive_currency, bounds.receive_currency),
        ("pay amount", quote.pay_amount, bounds.pay_amount),
        ("receive amount", quote.receive_amount, bounds.receive_amount),
    )
    for name, quoted, wanted in exact:
        if wanted is not None and quoted != wanted:
            return f"the quote's {name} is {quoted}, not {wanted}"
    if bounds.most_pay is not None and quote.pay_amount > bounds.most_pay:
        return f"the quote asks {quote.pay_amount}, more than {bounds.most_pay}"
    if bounds.least_receive is not None and quote.receive_amount < bounds.least_receive:
        return f"the quote brings {quote.receive_amount}, less than {bounds.least_receive}"
    return _rate_problem(quote, bounds) or _expiry_problem(quote, now_ms)


def _rate_problem(quote: Quote, bounds: Bounds) -> str | None:
    if bounds.least_rate is not None and (quote.rate is None or quote.rate < bounds.least_rate):
        return f"the quote's rate is {quote.rate}, under {bounds.least_rate}"
    if bounds.greatest_rate is not None and (quote.rate is None or quote.rate > bounds.greatest_rate):
        return f"the quote's rate is {quote.rate}, over {bounds.greatest_rate}"
    return None


def _expiry_problem(quote: Quote, now_ms: int) -> str | None:
    if quote.expires_at is not None and quote.expires_at <= now_ms:
        return "the quote expired before it could be confirmed"
    return None
