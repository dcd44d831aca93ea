"""Quoted payments: how each kind is asked for, read and confirmed."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from treasury.orders.payment_decisions import Bounds
from treasury.orders.records import Quote
from treasury.provider.catalogue import CATALOGUE
from treasury.provider.conversion import ConversionExecute, ConversionQuote, ConversionQuoteRecord
from treasury.provider.fiat_payouts import CreateFiatPayout, FiatPayoutQuote, FiatPayoutQuoteRecord
from treasury.provider.operation import Operation, SeenOrder, mask_fields, personal_values
from treasury.provider.orders import Payout, Withdraw
from treasury.provider.scan_to_pay import SubmitScanToPay

PAYMENTS = frozenset(each.operation_name() for each in (Payout, CreateFiatPayout, Withdraw, SubmitScanToPay))
"""Operations that pay the rows of a spreadsheet."""


@dataclass(frozen=True)
class QuoteTerms:
    """The terms of a quote, whichever operation returned it, and what confirms it."""

    quote: str | None
    facts: dict[str, Any]
    time_ms: int | None
    expires_ms: int | None

    def ledger_facts(self, asked_at: int, answered_at: int) -> dict[str, Any]:
        """The quote as the ledger keeps it; both times are Unix ms by our clock.

        Its lifetime is counted by our own clock: from the request, to decide whether it may be confirmed; from the
        answer, to decide whether it has ended.
        """
        life = None if self.expires_ms is None or self.time_ms is None else self.expires_ms - self.time_ms
        return {
            "quote": self.quote,
            "expires_at": self.expires_ms if life is None else asked_at + life,
            "ends_at": self.expires_ms if life is None else answered_at + life,
            "service_ends_at": self.expires_ms,
            **self.facts,
        }


def terms_of(seen: SeenOrder) -> dict[str, Any]:
    """A quote that a query shows, as the ledger keeps it; its end is not shown."""
    return {
        "quote": seen.order_no,
        "pay_currency": seen.currency,
        "pay_amount": seen.amount,
        "receive_currency": seen.receive_currency,
        "receive_amount": seen.receive_amount,
        "fee": seen.fee,
        "fee_currency": seen.fee_currency,
        "rate": seen.rate,
    }


class QuotedPayment(Protocol):
    """How one kind of payment is quoted and confirmed."""

    asked_by: ClassVar[type[Operation[Any]]]
    """The operation that asks for a quote."""

    def ask(self, payload: dict[str, Any], request_id: str) -> Operation[Any]:
        """The operation that asks for a quote."""

    def read(self, reply: Any) -> QuoteTerms:
        """Return what the answer says."""

    def confirm(self, payload: dict[str, Any], quote: str) -> Operation[Any]:
        """The operation that confirms it."""


class QuotedFiatPayout:
    """Fiat payout: quoted (document, endpoint 18), then created from the quote's order number (public fact 5.1)."""

    asked_by: ClassVar[type[Operation[Any]]] = FiatPayoutQuote

    def ask(self, payload: dict[str, Any], request_id: str) -> Operation[Any]:
        """The operation that asks for a quote."""
        return FiatPayoutQuote(**payload["quote"], request_id=request_id)

    def read(self, reply: FiatPayoutQuoteRecord) -> QuoteTerms:
        """Return what the answer says."""
        facts = {
            "pay_currency": reply.pay_currency,
            "pay_amount": reply.pay_amount,
            "receive_currency": reply.receive_currency,
            "receive_amount": reply.receive_amount,
            "fee": reply.fee_amount,
            "fee_currency": reply.fee_currency,
            "rate": reply.exchange_rate,
        }
        return QuoteTerms(reply.order_no, facts, reply.transaction_time, reply.expire_time)

    def confirm(self, payload: dict[str, Any], quote: str) -> Operation[Any]:
        """The operation that confirms it."""
        return CreateFiatPayout(order_no=quote, **payload["confirm"])


class QuotedConversion:
    """Conversion: quoted, then executed by quote id (document, endpoints 16 and 17)."""

    asked_by: ClassVar[type[Operation[Any]]] = ConversionQuote

    def ask(self, payload: dict[str, Any], request_id: str) -> Operation[Any]:
        """The operation that asks for a quote."""
        return ConversionQuote(**payload["quote"], xid=request_id)

    def read(self, reply: ConversionQuoteRecord) -> QuoteTerms:
        """Return what the answer says."""
        facts = {
            "pay_currency": reply.pay_currency,
            "pay_amount": reply.pay_amount,
            "receive_currency": reply.settle_currency,
            "receive_amount": reply.settle_amount,
            "fee": reply.fee_amount,
            "fee_currency": reply.fee_currency,
            "rate": reply.rate,
        }
        return QuoteTerms(reply.quote_id, facts, reply.time_ms, reply.expires_ms)

    def confirm(self, payload: dict[str, Any], quote: str) -> Operation[Any]:  # noqa: ARG002 - the quote says it all
        """The operation that confirms it."""
        return ConversionExecute(quote_id=quote)


QUOTED: dict[str, QuotedPayment] = {
    CreateFiatPayout.operation_name(): QuotedFiatPayout(),
    ConversionExecute.operation_name(): QuotedConversion(),
}
"""Operations that confirm a quote; every other one that moves money is sent directly."""


def _check_complete() -> None:
    for name, operation in CATALOGUE.items():
        if operation.confirms_quote != (name in QUOTED):
            raise TypeError(f"{name} confirms a quote, and QUOTED does not say how (or the other way round)")


_check_complete()


def masked_payload(operation: str, payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a payment's payload asks for, as people may see it: every personal value hidden."""
    sent = CATALOGUE[operation]
    if operation not in QUOTED:
        return mask_fields(sent, payload)
    return mask_fields(QUOTED[operation].asked_by, payload.get("quote", {})) | mask_fields(sent, payload["confirm"])


def personal_values_of(operation: str, payload: Mapping[str, Any]) -> Iterator[str]:
    """Every personal value of a payment's payload, as text."""
    sent = CATALOGUE[operation]
    if operation not in QUOTED:
        yield from personal_values(sent, payload)
    else:
        yield from personal_values(QUOTED[operation].asked_by, payload.get("quote", {}))
        yield from personal_values(sent, payload["confirm"])


def asked_facts(payload: Mapping[str, Any]) -> dict[str, Any]:
    """An order's columns before any quote; used where a different quote than the known one was paid."""
    bounds = Bounds.from_dict(payload["bounds"])
    return {
        "confirmation": None,
        "currency": bounds.pay_currency,
        "amount": bounds.pay_amount,
        "receive_currency": bounds.receive_currency,
        "receive_amount": bounds.receive_amount,
        "fee": None,
        "fee_currency": None,
        "rate": None,
    }


def confirmed_facts(quote: Quote) -> dict[str, Any]:
    """An order's columns from the quote that it confirms; from its mark on, these are the amounts asked for."""
    return {
        "confirmation": quote.quote,
        "currency": quote.pay_currency,
        "amount": quote.pay_amount,
        "receive_currency": quote.receive_currency,
        "receive_amount": quote.receive_amount,
        "fee": quote.fee,
        "fee_currency": quote.fee_currency,
        "rate": quote.rate,
    }
