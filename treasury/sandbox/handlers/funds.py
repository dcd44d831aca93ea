"""Balance, fee estimate and trade rate (public fact 5.10)."""

from typing import Any

from treasury.provider.funds import EstimateFee, PartnerBalance, TradeRate
from treasury.sandbox.books import ZERO, BookAccount
from treasury.sandbox.currencies import find_asset, find_currency, share_fee, trim
from treasury.sandbox.handlers.conversion import rate_record
from treasury.sandbox.world import World

FROZEN = "freezeBalance"
"""Field of what is held (public fact 5.10)."""


def balance(world: World, asked: PartnerBalance) -> dict[str, Any]:
    """The partner's balance: what may be spent, what is held, and their sum."""
    currency = find_currency(asked.currency, 7002).code
    available = trim(world.books.balance(BookAccount.AVAILABLE, currency))
    held = trim(world.books.balance(BookAccount.HOLD, currency))
    if world.settings.behaviour.debited_when == "accepted":
        held = ZERO
    return {
        "currency": currency,
        "balance": trim(available + held),
        "availableBalance": available,
        FROZEN: held,
        "pendingSettleBalance": ZERO,
    }


def estimate_fee(world: World, asked: EstimateFee) -> dict[str, Any]:
    """Return what a withdrawal would cost, and what it must keep to."""
    currency = find_asset(asked.currency)
    return {
        "partner_id": world.settings.partner_id,
        "currency": currency.code,
        "fee_amount": share_fee(asked.amount, currency),
        "min_threshold": currency.minimum,
        "decimals": currency.decimals,
    }


def trade_rate(world: World, asked: TradeRate) -> dict[str, Any]:
    """The rate between any two currencies; selling the base unless said otherwise."""
    base = find_currency(asked.base_currency, 202211)
    return rate_record(world, base, find_currency(asked.quote_currency, 202211), asked.symbol_trade_type or "sell")
