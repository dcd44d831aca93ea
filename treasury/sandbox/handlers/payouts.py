"""Payouts to banks and wallets (document, endpoint 6)."""

from typing import Any

from treasury.provider.orders import Payout
from treasury.sandbox.answers import Refusal
from treasury.sandbox.behaviour import charge
from treasury.sandbox.books import BookAccount
from treasury.sandbox.currencies import Currency, check_decimals, find_currency, received
from treasury.sandbox.entities import Order, OrderStatus, ending_of
from treasury.sandbox.handlers.withdrawals import fee_of
from treasury.sandbox.lifecycle import accept
from treasury.sandbox.routes import CHANNELS
from treasury.sandbox.world import World


def payout(world: World, asked: Payout) -> dict[str, Any]:
    """Pay a bank account or wallet; what the fee leaves of the amount is exchanged if need be."""
    currency = find_currency(asked.currency, 202211)
    settled = find_currency(asked.settle_currency, 202211)
    _check_channel(asked, currency)
    check_decimals("amount", asked.amount, currency)
    world.require_new(asked.request_id)
    fee = fee_of(world, asked.amount, currency)
    charged = charge(world.settings.behaviour, asked.operation_name(), asked.amount, fee)
    rate = world.rates.rate(currency, settled, "SELL", world.now)
    order = Order(
        order_no=world.number("payout", asked.request_id),
        request_id=asked.request_id,
        operation=asked.operation_name(),
        order_type="payout",
        status=OrderStatus.SUBMITTED,
        source=BookAccount.HOLD,
        currency=currency.code,
        amount=asked.amount,
        debit=charged.debit,
        fee_currency=currency.code,
        fee=fee,
        target=BookAccount.BENEFICIARIES,
        credit_currency=settled.code,
        credit=received(charged.left, rate, settled),
        created_at=world.now,
        ending=ending_of(asked.account_no),
        notify_url=asked.notify_url,
        metadata={"settleCurrency": settled.code, "exchangeRate": str(rate), "description": asked.remark or ""},
    )
    accept(world, order)
    order.reply = {
        "request_id": order.request_id,
        "partner_id": world.settings.partner_id,
        "order_no": order.order_no,
        "currency": order.currency,
        "order_amount": order.amount,
        "status": order.status,
    }
    return order.reply


def _check_channel(asked: Payout, currency: Currency) -> None:
    """Country, method, bank or wallet, and currencies must fit together, or 206003 (public fact 7.2)."""
    channel = CHANNELS.get(asked.country)
    if channel is None or channel.currency != asked.settle_currency:
        raise Refusal(206003, f"no payout to {asked.country} in {asked.settle_currency}")
    by_bank = asked.payout_method == "bank_transfer"
    code, codes = (asked.bank_code, channel.banks) if by_bank else (asked.wallet_code, channel.wallets)
    if code not in codes:
        raise Refusal(206003, f"{asked.payout_method} to {code} in {asked.country}")
    if currency.code != asked.settle_currency and currency.kind != "stable":
        raise Refusal(
            202211, f"a payout in {asked.settle_currency} is paid from {asked.settle_currency} or a stablecoin"
        )
