"""Conversions: rate, quote, execution (document, endpoints 15-17)."""

from typing import Any

from treasury.provider.conversion import ConversionExecute, ConversionQuote, ConversionRate
from treasury.sandbox.answers import Refusal, invalid
from treasury.sandbox.books import BookAccount
from treasury.sandbox.currencies import Currency, check_minimum, convert, find_currency
from treasury.sandbox.entities import Order, OrderStatus, Quote
from treasury.sandbox.faults import strikes_order
from treasury.sandbox.handlers.fiat_payouts import confirm
from treasury.sandbox.lifecycle import accept
from treasury.sandbox.world import World

RATE_SECONDS = 60
QUOTE_SECONDS = 600
"""Validity of a rate and of a quote (public fact 7.4)."""
TRADED_AGAINST = "USDT"
"""Every pair is quoted in it."""


def _pair(symbol: str) -> tuple[Currency, Currency]:
    """Base and quote of a pair; a pair that is not traded is refused with 202211."""
    base, _, quoted = symbol.partition("-")
    if quoted != TRADED_AGAINST or base == quoted or base.endswith("_TEST"):
        raise Refusal(202211, symbol)
    return find_currency(base, 202211), find_currency(quoted, 202211)


def rate(world: World, asked: ConversionRate) -> dict[str, Any]:
    """The present rate, valid for a minute."""
    base, quoted = _pair(asked.symbol)
    return rate_record(world, base, quoted, base_side(world, asked.side))


def base_side(world: World, side: str) -> str:
    """Return what a side does to the base currency: BUY buys it, unless the switch `buy` has it buy the quote
    currency."""
    return side if world.settings.behaviour.buy == "base" else {"BUY": "SELL", "SELL": "BUY"}[side]


def rate_record(world: World, base: Currency, quoted: Currency, side: str) -> dict[str, Any]:
    """A rate and how long it holds; times are Unix milliseconds."""
    now = int(world.now * 1000)
    return {
        "rate": world.rates.rate(base, quoted, side, world.now),
        "symbol": f"{base.code}-{quoted.code}",
        "timeMills": now,
        "expiredMills": now + RATE_SECONDS * 1000,
    }


def quote(world: World, asked: ConversionQuote) -> dict[str, Any]:
    """Quote a trade. Whoever buys the base spends the quote currency; `currency` names what is spent."""
    base, quoted = _pair(asked.symbol)
    side = base_side(world, asked.side)
    spent, got = (quoted, base) if side == "BUY" else (base, quoted)
    if asked.currency != spent.code:
        raise invalid("currency", f"must be {spent.code}, which a {asked.side} of {asked.symbol} spends")
    world.require_new(asked.xid)
    check_minimum(asked.amount, spent)
    price = world.rates.rate(base, quoted, side, world.now)
    fee_in = world.settings.behaviour.conversion_fee_in
    charged = got if fee_in == "received" else spent
    settled, fee = convert(asked.amount, price, side, fee_in)
    if settled <= 0:
        raise Refusal(202212, f"the fee is {fee} {charged.code}")
    expired = strikes_order(world.settings, "quote_expired", asked.xid)
    made = Quote(
        number=world.number("conversion quote", asked.xid),
        reference=asked.xid,
        operation=asked.operation_name(),
        pay_currency=spent.code,
        pay_amount=asked.amount,
        fee_currency=charged.code,
        fee=fee,
        receive_currency=got.code,
        receive_amount=settled,
        rate=price,
        created_at=world.now,
        expires_at=world.now + (0 if expired else QUOTE_SECONDS),
        advanced=world.clock.advanced,
        content=asked.body(),
    )
    world.save_quote(made)
    return {
        "quoteId": made.number,
        "payCurrency": made.pay_currency,
        "payAmt": made.pay_amount,
        "settleCurrency": made.receive_currency,
        "settleAmt": made.receive_amount,
        "feeCurrency": made.fee_currency,
        "feeAmt": made.fee,
        "rate": made.rate,
        "timeMills": made.shown_ms(made.created_at),
        "expiredMills": made.shown_ms(made.expires_at),
    }


def execute(world: World, asked: ConversionExecute) -> dict[str, Any]:
    """Execute a quoted trade, once and in time. The order is asked for by the quote's `xid`."""
    quoted = world.quotes.get(asked.quote_id)
    if quoted is None or quoted.operation != ConversionQuote.operation_name():
        raise Refusal(7000, asked.quote_id)
    confirm(world, quoted, "quoteId")
    order = Order(
        order_no=_order_no(world, quoted),
        request_id=quoted.reference,
        operation=asked.operation_name(),
        order_type="conversion",
        status=OrderStatus.PROCESSING,
        source=BookAccount.HOLD,
        currency=quoted.pay_currency,
        amount=quoted.pay_amount,
        debit=quoted.pay_amount,
        fee_currency=quoted.fee_currency,
        fee=quoted.fee,
        target=BookAccount.AVAILABLE,
        credit_currency=quoted.receive_currency,
        credit=quoted.receive_amount,
        created_at=world.now,
        metadata={
            "settleAmount": str(quoted.receive_amount),
            "settleCurrency": quoted.receive_currency,
            "feeAmount": str(quoted.fee),
            "feeCurrency": quoted.fee_currency,
            "exchangeRate": str(quoted.rate),
        },
    )
    accept(world, order)
    quoted.confirmed = True
    world.save_quote(quoted)
    order.reply = {"orderNo": order.order_no, "status": order.status}
    return order.reply


def _order_no(world: World, quoted: Quote) -> str:
    """The quote's own number, unless the order's is what queries ask by (`conversion_found_by`)."""
    by_number = world.settings.behaviour.conversion_found_by == "order_no"
    return world.number("conversion", quoted.reference) if by_number else quoted.number
