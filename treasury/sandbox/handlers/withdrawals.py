"""Deposit addresses and withdrawals (document, endpoints 1, 3 and 4)."""

from decimal import Decimal
from typing import Any

from treasury.provider.orders import DepositAddress, VerifyDepositAddress, Withdraw
from treasury.sandbox.answers import Refusal
from treasury.sandbox.behaviour import charge
from treasury.sandbox.books import BookAccount
from treasury.sandbox.currencies import (
    Currency,
    check_decimals,
    check_minimum,
    find_asset,
    find_deposited,
    new_address,
    share_fee,
)
from treasury.sandbox.entities import Order, OrderStatus, ending_of
from treasury.sandbox.lifecycle import accept
from treasury.sandbox.world import World


def deposit_address(world: World, asked: DepositAddress) -> dict[str, Any]:
    """The customer's address of this asset, always the same."""
    currency = find_deposited(asked.currency, world.settings.behaviour.usdt_deposits)
    address = new_address(currency, world.settings.seed, asked.customer_ref_id)
    world.save_address(address, currency.code)
    return {"currency": currency.code, "address": address, "tag": ""}


def verify_deposit_address(world: World, asked: VerifyDepositAddress) -> dict[str, Any]:
    """Tell whether the sandbox gave this address out, for an asset of the same network."""
    is_taken = world.settings.behaviour.usdt_deposits
    currency = find_deposited(asked.currency, is_taken)
    given_for = world.addresses.get(asked.address)
    return {"result": given_for is not None and find_deposited(given_for, is_taken).chain == currency.chain}


def fee_of(world: World, amount: Decimal, currency: Currency) -> Decimal:
    """The fee of a withdrawal or payout; refuses what lies below the minimum or is eaten by the fee."""
    check_minimum(amount, currency)
    fee = share_fee(amount, currency) * world.settings.behaviour.fee_times
    if amount <= fee:
        raise Refusal(202212, f"the fee is {fee} {currency.code}")
    return fee


def withdraw(world: World, asked: Withdraw) -> dict[str, Any]:
    """Send an asset out; the fee is taken out of the amount, or comes on top."""
    currency = find_asset(asked.currency)
    check_decimals("amount", asked.amount, currency)
    world.require_new(asked.request_id)
    fee = fee_of(world, asked.amount, currency)
    charged = charge(world.settings.behaviour, asked.operation_name(), asked.amount, fee)
    order = Order(
        order_no=world.number("withdraw", asked.request_id),
        request_id=asked.request_id,
        operation=asked.operation_name(),
        order_type="extract",
        status=OrderStatus.PROCESSING,
        source=BookAccount.HOLD,
        currency=currency.code,
        amount=asked.amount,
        debit=charged.debit,
        fee_currency=currency.code,
        fee=fee,
        target=BookAccount.WORLD,
        credit_currency=currency.code,
        credit=charged.left,
        created_at=world.now,
        ending=ending_of(asked.address),
        notify_url=asked.notify_url,
        customer_ref_id=asked.customer_ref_id,
        metadata={
            "description": asked.description or "",
            "customerRefId": asked.customer_ref_id,
            "destinationAddress": asked.address,
        },
    )
    accept(world, order)
    order.reply = {
        "order_no": order.order_no,
        "request_id": order.request_id,
        "partner_id": world.settings.partner_id,
        "currency": order.currency,
        "address": asked.address,
        "tag": asked.tag,
        "order_amount": order.amount,
        "arrive_amount": order.arrive_amount,
        "fee": order.fee,
        "status": order.status,
        "fail_reason": "",
    }
    return order.reply
