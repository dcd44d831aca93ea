"""Treasury helpers that the document leaves out: balance, fee, rate, channels (public fact 5.10)."""

from typing import Annotated, Any

from pydantic import Field

from treasury.money import FRACTION_DIGITS
from treasury.provider.fields import Amount, ReplyAmount, ReplyCode, ReplyId, ReplyLabel, ReplyRate, ReplyTime, one_of
from treasury.provider.operation import Effect, Operation, Reply


class BalanceRecord(Reply):
    """The partner's balance in one asset, in that asset."""

    currency: ReplyCode = None
    balance: ReplyAmount = None
    available: ReplyAmount = Field(None, alias="availableBalance")
    frozen: ReplyAmount = Field(None, alias="freezeBalance")
    pending: ReplyAmount = Field(None, alias="pendingSettleBalance")


class PartnerBalance(Operation[BalanceRecord]):
    """The partner's balance in one asset."""

    path = "/v1/balance/partner"
    effect = Effect.READS
    source = "public fact 5.10"

    currency: str = Field(description="Asset code.")


class FeeEstimate(Reply):
    """The cost of a withdrawal, the least that may be withdrawn, and the asset's decimals."""

    partner_id: ReplyId = None
    currency: ReplyCode = None
    fee_amount: ReplyAmount = None
    min_threshold: ReplyAmount = None
    decimals: Annotated[int | None, Field(ge=0, le=FRACTION_DIGITS)] = None


class EstimateFee(Operation[FeeEstimate]):
    """Estimate the fee of a withdrawal."""

    path = "/v1/fee/estimate"
    effect = Effect.READS
    source = "public fact 5.10"

    currency: str = Field(description="Asset code.")
    amount: Amount = Field(description="Amount to withdraw, in `currency`.")


class ChannelList(Reply):
    """Banks and wallets that `payout` reaches."""

    banks: list[dict[str, Any]] | None = None
    wallets: list[dict[str, Any]] | None = None


class PayoutChannels(Operation[ChannelList]):
    """Banks and wallets that `payout` reaches in a country."""

    path = "/v1/fee/queryPayoutChannel"
    effect = Effect.READS
    source = "public fact 5.10"

    country: str = Field(description="Country code.")
    currency: str = Field(description="Currency the beneficiary receives.")


class TradeRateRecord(Reply):
    """A rate; times are Unix milliseconds."""

    rate: ReplyRate = None
    symbol: ReplyLabel = None
    time_ms: ReplyTime = Field(None, alias="timeMills")
    expires_ms: ReplyTime = Field(None, alias="expiredMills")


class TradeRate(Operation[TradeRateRecord]):
    """The present rate between two currencies."""

    path = "/v1/rate/queryTradeRate"
    effect = Effect.READS
    source = "public fact 5.10"

    base_currency: str = Field(alias="baseCurrency", description="Base currency.")
    quote_currency: str = Field(alias="quoteCurrency", description="Quote currency.")
    symbol_trade_type: Annotated[str, one_of("buy", "sell")] | None = Field(
        None, alias="symbolTradeType", description="`buy` or `sell` of the base; `sell` when absent."
    )
    order_type: str | None = Field(None, alias="orderType", description="Kind of order the rate is for.")
