"""The details of an order in results, besides its state: whom its row pays, what was asked, quoted and came of it."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import ROUND_HALF_EVEN, Decimal, localcontext

from treasury.masking import last_of
from treasury.money import EXACT, parse_amount
from treasury.orders.payment_decisions import settled_amount
from treasury.orders.records import Order, Quote
from treasury.orders.rows import PayoutRow
from treasury.orders.states import State

COLUMNS = (
    "payee_name",
    "account_last4",
    "reference",
    "asked_amount",
    "asked_currency",
    "quoted_amount",
    "quoted_receive_amount",
    "quoted_rate",
    "final_amount",
    "final_receive_amount",
    "effective_rate",
    "quote_difference_bps",
    "value_date",
)

_RATE_DIGITS = 12
"""Significant digits of a rate that is a quotient."""


@dataclass(frozen=True)
class _Asked:
    """The content of one row of a sheet; personal."""

    name: str
    last: str
    reference: str | None
    amount: Decimal | None
    currency: str


@dataclass(frozen=True)
class Details:
    """The details of a run's orders from its sheet and its quotes. What is not at hand stays blank."""

    rows: Mapping[str, _Asked] = field(default_factory=dict, repr=False)
    before: Mapping[str, _Asked] = field(default_factory=dict, repr=False)
    """Request id -> the same of a row whose content is not at hand, as earlier results said it."""
    quotes: Mapping[int, Quote] = field(default_factory=dict)
    fee_on_top: Collection[str] = ()
    """Operations whose fee is debited besides the amount."""
    day_of: Callable[[int], str] = lambda ms: f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%d}"
    """The business date of a moment, Unix ms; that of UTC where no policy says whose days count."""

    @classmethod
    def of(
        cls,
        rows: Iterable[PayoutRow],
        quotes: Iterable[Quote],
        fee_on_top: Collection[str],
        results: Iterable[Mapping[str, str]] = (),
    ) -> "Details":
        """Of these rows and quotes; of an order's quotes the last answered one counts, and it comes last.

        `results`: rows of earlier results, which say whom an order pays whose row is not among `rows`.
        """
        answered = {quote.order_id: quote for quote in quotes if quote.quote is not None}
        before = {each["request_id"]: _asked_before(each) for each in results if each.get("asked_currency")}
        return cls({row.row_ref: _asked(row) for row in rows}, before, answered, fee_on_top)

    def cells(self, order: Order) -> dict[str, object]:
        """The cells of one order, by column.

        `effective_rate`: what arrives for one unit of all that is debited. `quote_difference_bps`: how much more
        (or less, then negative) than the quote promised. `value_date`: the business day on which it became final here.
        """
        row, quote = self.rows.get(order.row_ref) or self.before.get(order.request_id), self.quotes.get(order.id)
        is_settled = order.state is State.SETTLED
        final = self._rate(order.operation, order) if is_settled else None
        quoted = None if quote is None else self._rate(order.operation, quote)
        cells: dict[str, object] = {}
        if row is not None:
            cells |= {"payee_name": row.name, "account_last4": row.last, "reference": row.reference}
            cells |= {"asked_amount": row.amount, "asked_currency": row.currency}
        if quote is not None:
            cells |= {"quoted_amount": quote.pay_amount, "quoted_receive_amount": quote.receive_amount}
            cells["quoted_rate"] = quote.rate
        if is_settled:
            cells |= {"final_amount": settled_amount(order), "final_receive_amount": order.receive_amount}
        cells |= {"effective_rate": final, "quote_difference_bps": _bps(final, quoted)}
        if is_settled and order.final_at is not None:
            cells["value_date"] = self.day_of(order.final_at)
        return cells

    def _rate(self, operation: str, of: Order | Quote) -> Decimal | None:
        """Return what arrives for one unit of what is debited, fee included; None where one of them is not known."""
        currency, amount = (of.currency, of.amount) if isinstance(of, Order) else (of.pay_currency, of.pay_amount)
        if amount is None or of.receive_amount is None:
            return None
        if operation in self.fee_on_top and of.fee is not None and of.fee_currency in (None, currency):
            amount = EXACT.add(amount, of.fee)
        return _quotient(of.receive_amount, amount)


def _asked(row: PayoutRow) -> _Asked:
    given = (row.amount, row.currency) if row.amount is not None else (row.receive_amount, row.receive_currency)
    return _Asked(row.payee_name, last_of(row.account), row.fields.get("remark") or row.description, *given)


def _asked_before(said: Mapping[str, str]) -> _Asked:
    amount = parse_amount(said["asked_amount"]) if said.get("asked_amount") else None
    name, last = said.get("payee_name", ""), said.get("account_last4", "")
    return _Asked(name, last, said.get("reference") or None, amount, said["asked_currency"])


def _quotient(above: Decimal, below: Decimal) -> Decimal | None:
    if below <= 0:
        return None
    with localcontext(prec=_RATE_DIGITS, rounding=ROUND_HALF_EVEN):
        return Decimal(format((above / below).normalize(), "f"))


def _bps(final: Decimal | None, quoted: Decimal | None) -> Decimal | None:
    if final is None or not quoted:
        return None
    with localcontext(EXACT):
        return ((final / quoted - 1) * 10_000).quantize(Decimal("0.01"))
