"""Decisions about one payment, as pure functions: does it agree, may it be sent again, may this quote be confirmed."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from treasury.interface.catalogue import CATALOGUE
from treasury.interface.operation import SeenOrder
from treasury.ledger.records import Order, Quote
from treasury.money import exact


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


def as_paid(seen: SeenOrder, order: Order) -> SeenOrder:
    """The same order with its amounts where they belong, should the service show it in the currency that arrives."""
    if seen.receive_currency is not None or seen.currency in (None, order.currency):
        return seen
    if not CATALOGUE[order.operation].may_show_what_arrives or seen.currency != order.receive_currency:
        return seen
    return replace(seen, currency=None, amount=None, receive_currency=seen.currency, receive_amount=seen.amount)


def may_send_again(order: Order, now_ms: int, wait_seconds: float, *, absence_is_evidence: bool) -> bool:
    """Whether a "no such order" seen now, after an earlier one, is evidence enough to send the same id again."""
    if order.order_no is not None or order.status is not None:
        return False  # the service showed it before: that it does not now is for a person to clear up
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
    """What it must bring before the service's fee, where that is taken from what is received."""
    greatest_fee: Decimal | None = None
    """The most that may be taken as fee, in the currency that is received; a fee in another one is refused."""
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


@exact
def quote_problem(quote: Quote, bounds: Bounds, now_ms: int) -> str | None:
    """Why a quote must not be confirmed; None when it may. `now_ms` is Unix time in milliseconds, by our clock."""
    if not quote.quote or quote.pay_amount is None or quote.receive_amount is None:
        return "the quote is incomplete"
    checks = (
        _exact("pay currency", quote.pay_currency, bounds.pay_currency),
        _exact("receive currency", quote.receive_currency, bounds.receive_currency),
        _exact("pay amount", quote.pay_amount, bounds.pay_amount),
        _exact("receive amount", quote.receive_amount, bounds.receive_amount),
        _fee_problem(quote, bounds),
        _within("rate", quote.rate, bounds.least_rate, bounds.greatest_rate),
        _within("pay amount", quote.pay_amount, None, bounds.most_pay),
        _within("receive amount before the fee", _gross(quote, quote.receive_amount), bounds.least_receive, None),
        _expiry_problem(quote, now_ms),
    )
    return next((problem for problem in checks if problem), None)


def _exact(name: str, quoted: object, wanted: object) -> str | None:
    if wanted is None or quoted == wanted:
        return None
    return f"the quote's {name} is {quoted}, not {wanted}"


def _within(name: str, quoted: Decimal | None, least: Decimal | None, greatest: Decimal | None) -> str | None:
    if (least is not None or greatest is not None) and quoted is None:
        return f"the quote does not say its {name}"
    if least is not None and quoted is not None and quoted < least:
        return f"the quote's {name} is {quoted:f}, less than {least:f}"
    if greatest is not None and quoted is not None and quoted > greatest:
        return f"the quote's {name} is {quoted:f}, more than {greatest:f}"
    return None


def _fee_problem(quote: Quote, bounds: Bounds) -> str | None:
    if bounds.greatest_fee is None or not quote.fee:
        return None
    if quote.fee_currency != bounds.receive_currency:
        return f"the quote's fee is taken in {quote.fee_currency}"
    if quote.fee < 0:
        return f"the quote's fee is {quote.fee:f}"
    return _within("fee", quote.fee, None, bounds.greatest_fee)


def _expiry_problem(quote: Quote, now_ms: int) -> str | None:
    expired = quote.expires_at is not None and quote.expires_at <= now_ms
    return "the quote expired before it could be confirmed" if expired else None


def _gross(quote: Quote, received: Decimal) -> Decimal:
    return received + quote.fee if quote.fee is not None and quote.fee_currency == quote.receive_currency else received
