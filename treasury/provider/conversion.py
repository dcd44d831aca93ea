"""Conversion: rate, quote, execution of a quoted trade (document, endpoints 15-17)."""

from typing import Any

from pydantic import Field

from treasury.provider.fields import (
    Amount,
    AssetCode,
    ReplyAmount,
    ReplyCode,
    ReplyId,
    ReplyLabel,
    ReplyRate,
    ReplyTime,
    Side,
    Symbol,
)
from treasury.provider.operation import Effect, Operation, Reply
from treasury.provider.orders import QueryTransaction
from treasury.provider.scan_to_pay import SubmittedOrder


class ConversionRateRecord(Reply):
    """A rate; `time_ms` and `expires_ms` are Unix milliseconds."""

    rate: ReplyRate = None
    symbol: ReplyLabel = None
    time_ms: ReplyTime = Field(None, alias="timeMills")
    expires_ms: ReplyTime = Field(None, alias="expiredMills")


class ConversionRate(Operation[ConversionRateRecord]):
    """The present rate of a pair."""

    path = "/v1/conversion/rate"
    effect = Effect.READS
    source = "document, endpoint 15"

    symbol: Symbol = Field(description="Base and quote joined by a hyphen, for example ETH-USDT.")
    side: Side = Field(description="`BUY` the base currency, or `SELL` it.")


class ConversionQuoteRecord(Reply):
    """A quoted trade; times are Unix milliseconds."""

    quote_id: ReplyId = Field(None, alias="quoteId")
    pay_currency: ReplyCode = Field(None, alias="payCurrency")
    pay_amount: ReplyAmount = Field(None, alias="payAmt")
    settle_currency: ReplyCode = Field(None, alias="settleCurrency")
    settle_amount: ReplyAmount = Field(None, alias="settleAmt")
    fee_currency: ReplyCode = Field(None, alias="feeCurrency")
    fee_amount: ReplyAmount = Field(None, alias="feeAmt")
    rate: ReplyRate = None
    time_ms: ReplyTime = Field(None, alias="timeMills")
    expires_ms: ReplyTime = Field(None, alias="expiredMills")


class ConversionQuote(Operation[ConversionQuoteRecord]):
    """Ask for a quote of a trade."""

    path = "/v1/conversion/quote"
    effect = Effect.CREATES
    source = "document, endpoint 16"
    reference = "xid"

    symbol: Symbol = Field(description="Trading pair.")
    amount: Amount = Field(description="Amount of the asset used to trade.")
    currency: AssetCode = Field(description="Asset used to trade.")
    side: Side = Field(description="`BUY` or `SELL`.")
    xid: str = Field(description="External id, unique across all resources of the account.")


class ConversionExecute(Operation[SubmittedOrder]):
    """Execute a quoted trade.

    Asked by the quote's `xid` through the transaction query; whether that finds it, and which side of the trade it
    then shows, is not documented (public fact 10.6), so its absence there is no evidence.
    """

    path = "/v1/conversion/execute"
    effect = Effect.MOVES_MONEY
    source = "document, endpoint 17"
    reference = "quoteId"
    asked_with = QueryTransaction
    due_hours = 24
    confirms_quote = True
    may_show_what_arrives = True
    limited_by = "conversions"

    quote_id: str = Field(alias="quoteId", description="Id of the quote.")

    @classmethod
    def question(
        cls,
        request_id: str,
        confirmation: str | None = None,  # noqa: ARG003 - no query takes a quote id
        order_no: str | None = None,
    ) -> Operation[Any]:
        """By the quote's `xid`, and by the service's order number once it is known."""
        return QueryTransaction(request_id=request_id, order_no=order_no)
