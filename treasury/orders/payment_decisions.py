"""Pure decisions about one payment: does it agree, what may follow, may its quote be confirmed."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import Enum
from typing import Any

from treasury.addresses import canonical_address
from treasury.money import canonical, exact
from treasury.orders.records import Order, Quote, Stage
from treasury.orders.states import State
from treasury.provider.catalogue import CATALOGUE
from treasury.provider.fields import is_blank
from treasury.provider.operation import SeenOrder
from treasury.provider.refusals import DOUBLE_PAYMENT
from treasury.provider.service_rules import ServiceRules
from treasury.provider.status import OrderStatus


def is_record_of(order: Order, seen: SeenOrder) -> bool:
    """Tell whether an answer is the record of this order: it names its request id, or none.

    An order that is known here by its quote's number alone is shown under the request id of whoever asked for the
    quote.
    """
    return order.request_id == order.confirmation or seen.request_id in (None, order.request_id)


def disagreements(order: Order, seen: SeenOrder) -> list[str]:
    """Differences between what the service shows and what was asked for, in words. A value not shown cannot differ.

    Money compares exactly: 100 equals 100.00 and nothing else.
    """
    pairs: tuple[tuple[str, object, object], ...] = (
        ("request_id", order.request_id, None if is_record_of(order, seen) else seen.request_id),
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


def was_paid(order: Order) -> bool:
    """Tell whether the service shows that an order was paid; of the record of another order only its status is kept."""
    return order.status is OrderStatus.SUCCESS and order.order_no is not None


def goes_elsewhere(payload: Mapping[str, Any], seen: SeenOrder) -> bool:
    """Tell whether a withdrawal is shown with another address or tag than was asked for. What is not shown, or is
    masked, is no other one.

    `payload`: what was asked for.
    """
    for ours, there in zip((payload.get("address"), payload.get("tag")), seen.destination, strict=True):
        is_shown = not is_blank(ours) and not is_blank(there) and "*" not in str(there)
        if is_shown and canonical_address(str(ours)) != canonical_address(str(there)):
            return True
    return False


def most_debited(state: State, amount: Decimal | None, ceiling: Decimal | None) -> Decimal | None:
    """Return what an order debits at the most: its ceiling as long as a dearer quote may follow the one that it has."""
    may_follow = ceiling is not None and state in (State.PREPARED, State.SENDING, State.UNKNOWN, State.HELD)
    return ceiling if amount is None or may_follow else amount


def settled_amount(order: Order) -> Decimal | None:
    """Return the amount of a settled order; of a code, what the service showed once it was paid. None if not known."""
    is_code = not CATALOGUE[order.operation].confirms_quote
    return order.ceiling if order.amount is None and is_code and order.status == OrderStatus.SUCCESS else order.amount


@exact
def over_bound(order: Order, fee_on_top: Collection[str]) -> Decimal | None:
    """Return how much more than its bound an order debited, by what the service showed; None where it did not."""
    debit = order.ceiling if order.amount is None else order.amount  # of a code, the debit once that is known
    if order.bound is None or debit is None or order.status not in (OrderStatus.PROCESSING, OrderStatus.SUCCESS):
        return None
    if order.amount is not None and order.operation in fee_on_top and order.fee_currency in (None, order.currency):
        debit += order.fee or 0
    return debit - order.bound if debit > order.bound else None


def as_paid(seen: SeenOrder, order: Order, service: ServiceRules) -> SeenOrder:
    """The shown order with its amounts reassigned if the service shows it in the currency that arrives.

    Its amount may be what arrives, or that with the fee: it is what arrives where it was quoted or nothing else is.
    """
    if seen.receive_currency is not None or seen.currency in (None, order.currency):
        return seen
    if seen.currency != order.receive_currency or not service.shows_what_arrives(CATALOGUE[order.operation]):
        return seen
    quoted = order.fee is not None or seen.fee is None
    as_quoted = seen.amount == order.receive_amount
    return replace(
        seen,
        currency=None,
        amount=None,
        fee_currency=seen.fee_currency if quoted else seen.fee_currency or seen.currency,
        receive_currency=seen.currency,
        receive_amount=seen.amount if as_quoted else seen.arrive_amount or seen.amount,
    )


@dataclass(frozen=True)
class EvidenceRules:
    """The rules of evidence about an unknown payment; `Settings` has the sources."""

    resend_after_seconds: float
    """How far apart two queries that find nothing must be."""
    quote_margin_seconds: float
    """How long after its end a quote may still be confirmed by a request that is on its way."""
    service: ServiceRules = ServiceRules()
    """The behaviour of this account's service where the interface document leaves it open."""


class QueryResult(Enum):
    """The result of a query of a payment that may have been sent."""

    SHOWN = "shown"
    """The service has it."""
    ABSENT = "absent"
    """The service has no such order, or a quote that was certainly not confirmed."""
    UNDECIDED = "undecided"
    """The service shows something that may be a payment or a quote that nobody confirmed."""


def judge_query(order: Order, seen: SeenOrder | None, rules: EvidenceRules) -> QueryResult:
    """Judge the answer to a query. Only a quoted order can be undecided, because its quote has the same reference."""
    if seen is None:
        return QueryResult.ABSENT
    confirms = CATALOGUE[order.operation].confirms_quote
    if not confirms or order.state is State.ACCEPTED or order.state.is_final:
        return QueryResult.SHOWN
    if seen.status is not None and seen.status.is_payment:
        return QueryResult.SHOWN
    if seen.status is not None and int(seen.status) in rules.service.unconfirmed_statuses:
        return QueryResult.ABSENT
    return QueryResult.UNDECIDED


class Next(Enum):
    """The next step of an order after a query that found nothing."""

    WAIT = "wait"
    COUNT = "count from now"
    """This is the first of the two that count."""
    RESEND = "send the same again"
    QUOTE_AGAIN = "ask for another quote"
    REJECT = "reject"
    PERSON = "a person has to decide"


COUNTED = (Next.COUNT, Next.RESEND, Next.QUOTE_AGAIN, Next.REJECT)
"""The steps that may follow from an absence that counts."""


def judge_absence(
    order: Order, quote: Quote | None, now_ms: int, service_now_ms: int | None, rules: EvidenceRules
) -> Next:
    """The next step after a query that found nothing, given `order.absent_since`. Times are Unix ms.

    `quote`: the one that the order confirmed, if it asked for it itself.
    """
    shown_before = order.order_no is not None or order.status is not None
    said_known = order.first_answer == DOUBLE_PAYMENT and order.state is State.UNKNOWN
    if shown_before or said_known or not CATALOGUE[order.operation].absence_is_evidence:
        return Next.PERSON
    since, refused = order.absent_since, order.first_answer in rules.service.asked_first
    if quote is not None:
        refused = refused and not _ended_on_the_way(order, quote)
        # The confirmation is not repeated: the first one may be late, and would act a second time.
        if not has_ended(quote, now_ms, service_now_ms, rules):
            return Next.WAIT
        if since is not None and since < certain_end(quote, rules):
            since = None  # an absence from before the end says nothing about a confirmation that comes late
    if since is None:
        return Next.COUNT
    if now_ms - since < rules.resend_after_seconds * 1000:
        return Next.WAIT
    if refused:
        return Next.REJECT
    return Next.RESEND if quote is None else Next.QUOTE_AGAIN


LAST_MOMENT_MS = 2_000
"""A confirmation that left so shortly before its quote's end may have come too late, and been refused for that."""


def _ended_on_the_way(order: Order, quote: Quote) -> bool:
    # Of a quote that was made before this ledger asked for it, only the service says when it ends.
    ends = (quote.expires_at, quote.service_ends_at if quote.stage is Stage.FOREIGN else None)
    sent_at = order.sent_at
    return sent_at is not None and any(end is not None and end - sent_at < LAST_MOMENT_MS for end in ends)


def has_expired(quote: Quote, now_ms: int) -> bool:
    """Tell whether a quote must not be confirmed any more, by our own clock."""
    return quote.expires_at is not None and quote.expires_at <= now_ms


def certain_end(quote: Quote, rules: EvidenceRules) -> int:
    """When a quote can no longer be confirmed by anybody, margin included, Unix ms by our clock."""
    ends = (
        quote.ends_at if quote.ends_at is not None else quote.created_at + int(rules.service.quote_life_seconds * 1000)
    )
    return ends + int(rules.quote_margin_seconds * 1000)


def has_ended(quote: Quote, now_ms: int, service_now_ms: int | None, rules: EvidenceRules) -> bool:
    """Tell whether a quote can no longer be confirmed by anybody: its life and the margin are over by both clocks."""
    if now_ms < certain_end(quote, rules):
        return False
    if quote.service_ends_at is None or service_now_ms is None:
        return True
    return service_now_ms >= quote.service_ends_at + rules.quote_margin_seconds * 1000


FOREIGN_MS = 5_000
"""A quote that is older than its request by this much was asked for by somebody else."""


def is_foreign(quote: Quote, now_ms: int, service_now_ms: int | None) -> bool:
    """Tell whether a quote was made before this ledger first asked for it: the service answered with an earlier one.

    Times are Unix ms by our clock and by the service's. False where the service shows no times.
    """
    if quote.asks > 1 or quote.expires_at is None or quote.service_ends_at is None or service_now_ms is None:
        return False
    made = quote.service_ends_at - (quote.expires_at - quote.created_at)
    asked = quote.created_at + service_now_ms - now_ms
    return asked - made > FOREIGN_MS


@dataclass(frozen=True)
class Bounds:
    """Bounds of a quote. None is no bound; amounts are in the quote's own currencies."""

    pay_currency: str
    receive_currency: str
    pay_amount: Decimal | None = None
    """Exactly this is paid."""
    receive_amount: Decimal | None = None
    """Exactly this arrives."""
    max_pay: Decimal | None = None
    min_receive: Decimal | None = None
    """The amount that it must bring before the service's fee, where that is taken from what is received."""
    max_fee: Decimal | None = None
    """The most that may be taken as fee, in `fee_currency`; a fee in another one is refused."""
    fee_currency: str | None = None
    """None is the currency that is received."""
    min_rate: Decimal | None = None
    max_rate: Decimal | None = None
    max_debit: Decimal | None = None
    """The most that is debited with a fee on top of what is paid."""

    def as_dict(self) -> dict[str, str]:
        """As text, for the ledger; one amount has one text, for plans are recognised by it."""
        return {
            name: canonical(value) if isinstance(value, Decimal) else str(value)
            for name, value in vars(self).items()
            if value is not None
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> "Bounds":
        """From text."""
        names = ("pay_currency", "receive_currency", "fee_currency")
        amounts = {name: Decimal(value) for name, value in stored.items() if name not in names}
        return cls(
            stored["pay_currency"], stored["receive_currency"], fee_currency=stored.get("fee_currency"), **amounts
        )


def bounds_of(payload: Mapping[str, Any], operation: str, fee_on_top: Collection[str]) -> Bounds:
    """Return the bounds of an order's quote, by its payload; `fee_on_top`: operations whose fee is charged on top.

    What a payment may debit at the most, where it fixes what is received, bounds the amount with its fee on top.
    """
    bounds = Bounds.from_dict(payload["bounds"])
    if operation not in fee_on_top or bounds.pay_amount is not None:
        return bounds
    return replace(bounds, max_debit=bounds.max_pay)


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
        _within("rate", quote.rate, bounds.min_rate, bounds.max_rate),
        _within("pay amount", quote.pay_amount, None, bounds.max_pay),
        _within("debit with its fee on top", _with_fee(quote, quote.pay_amount), None, bounds.max_debit),
        _within("receive amount before the fee", _gross(quote, quote.receive_amount), bounds.min_receive, None),
        _expiry_problem(quote, now_ms),
    )
    return next((problem for problem in checks if problem), None)


def _with_fee(quote: Quote, pays: Decimal) -> Decimal:
    return pays + (quote.fee or 0) if quote.fee_currency in (None, quote.pay_currency) else pays


def _exact(name: str, quoted: object, wanted: object) -> str | None:
    if wanted is None or quoted == wanted:
        return None
    return f"the quote's {name} is {quoted}, not {wanted}"


def _within(name: str, quoted: Decimal | None, least: Decimal | None, greatest: Decimal | None) -> str | None:
    if least is None and greatest is None:
        return None
    if quoted is None:
        return f"the quote does not say its {name}"
    if least is not None and quoted < least:
        return f"the quote's {name} is {quoted:f}, less than {least:f}"
    if greatest is not None and quoted > greatest:
        return f"the quote's {name} is {quoted:f}, more than {greatest:f}"
    return None


def _fee_problem(quote: Quote, bounds: Bounds) -> str | None:
    if bounds.max_fee is None or not quote.fee:
        return None
    wanted = bounds.fee_currency or bounds.receive_currency
    if quote.fee_currency != wanted:
        return (
            f"the quote's fee is taken in {quote.fee_currency}, not in {wanted} "
            "(conversion_fee_in of the [service] table says which)"
        )
    if quote.fee < 0:
        return f"the quote's fee is {quote.fee:f}"
    return _within("fee", quote.fee, None, bounds.max_fee)


def _expiry_problem(quote: Quote, now_ms: int) -> str | None:
    return "the quote expired before it could be confirmed" if has_expired(quote, now_ms) else None


def _gross(quote: Quote, received: Decimal) -> Decimal:
    return received + quote.fee if quote.fee is not None and quote.fee_currency == quote.receive_currency else received
