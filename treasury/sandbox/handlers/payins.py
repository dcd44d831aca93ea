"""Pay-ins (document, endpoint 5): nothing moves until the customer pays on the checkout page."""

from decimal import Decimal
from typing import Any

from treasury.provider.orders import Pay
from treasury.sandbox.answers import Refusal, invalid
from treasury.sandbox.books import BookAccount
from treasury.sandbox.currencies import (
    check_decimals,
    check_minimum,
    find_asset,
    find_currency,
    find_deposited,
    new_address,
    share_fee,
)
from treasury.sandbox.entities import Ending, Order, OrderStatus
from treasury.sandbox.lifecycle import finish_payin, open_payin
from treasury.sandbox.world import World

PAYMENT_TYPES = ("wallet", "qrcode", "virtual_account", "card", "sepa")
"""Values of `payment_type` (public fact 7.3)."""


def pay(world: World, asked: Pay) -> dict[str, Any]:
    """Create a pay-in; the partner is credited the amount less 1% once it is paid."""
    currency = find_currency(asked.currency, 7002)
    check_decimals("amount", asked.amount, currency)
    check_minimum(asked.amount, currency)
    world.require_new(asked.request_id)
    number = world.number("pay", asked.request_id)
    instructions = _instructions(world, asked, number)
    fee = share_fee(asked.amount, currency)
    order = Order(
        order_no=number,
        request_id=asked.request_id,
        operation=asked.operation_name(),
        order_type="pay",
        status=OrderStatus.SUBMITTED,
        source=BookAccount.WORLD,
        currency=currency.code,
        amount=asked.amount,
        debit=asked.amount,
        fee_currency=currency.code,
        fee=fee,
        target=BookAccount.AVAILABLE,
        credit_currency=currency.code,
        credit=asked.amount - fee,
        created_at=world.now,
        notify_url=asked.notify_url,
        customer_ref_id=asked.customer_ref_id,
        return_url=asked.return_url,
        metadata={
            "description": asked.product_name,
            "remark": asked.remark or "",
            "customerRefId": asked.customer_ref_id,
        },
    )
    order.reply = {
        "request_id": order.request_id,
        "partner_id": world.settings.partner_id,
        "order_no": number,
        "currency": order.currency,
        "order_amount": order.amount,
        "status": order.status,
        "payment_method": asked.payment_method,
        **instructions,
    }
    open_payin(world, order)
    return order.reply


def charge(
    world: World,
    currency: str,
    amount: Decimal,
    customer_ref_id: str | None = None,
    notify_url: str | None = None,
    address: str | None = None,
    sender: str | None = None,
) -> Order:
    """Let a customer deposit a crypto asset (order type `charge`, public fact 2.2): done at once, less 1%.

    `address`, `sender`: where it goes to and comes from, in its details (public fact 4.1). Its request id is the
    platform's own, so that only its notification tells it.
    """
    asset = find_deposited(currency, world.settings.behaviour.usdt_deposits)
    check_decimals("amount", amount, asset)
    check_minimum(amount, asset)
    number = world.number("charge", len(world.orders))
    fee = share_fee(amount, asset)
    order = Order(
        order_no=number,
        request_id=f"dep-{number}",
        operation="charge",
        order_type="charge",
        status=OrderStatus.SUBMITTED,
        source=BookAccount.WORLD,
        currency=asset.code,
        amount=amount,
        debit=amount,
        fee_currency=asset.code,
        fee=fee,
        target=BookAccount.AVAILABLE,
        credit_currency=asset.code,
        credit=amount - fee,
        created_at=world.now,
        notify_url=notify_url,
        customer_ref_id=customer_ref_id,
        metadata={
            "customerRefId": customer_ref_id or "",
            **({} if address is None else {"destinationAddress": address}),
            **({} if sender is None else {"sourceAddress": sender}),
        },
    )
    finish_payin(world, order, Ending.SUCCESS)
    return order


def checkout_url(world: World, order_no: str) -> str:
    """The page on which a pay-in is paid."""
    return f"{world.public_url}/checkout/{order_no}"


def _instructions(world: World, asked: Pay, number: str) -> dict[str, str]:
    """How the customer pays, by method (document, Pay-in record)."""
    if asked.payment_method == "on_chain":
        asset = find_asset(asked.pay_currency or asked.currency)
        address = new_address(asset, world.settings.seed, number)
        world.save_address(address, asset.code)
        return {"receive_address": address}
    page = checkout_url(world, number)
    return {"checkout_url": page} if asked.payment_method == "on_line" else _direct(asked, number, page)


def _direct(asked: Pay, number: str, page: str) -> dict[str, str]:
    """Return what a direct integration shows, by payment type (public fact 7.3)."""
    if find_currency(asked.currency, 7002).kind != "fiat":
        raise Refusal(7002, "a direct pay-in is in fiat")
    if asked.payment_type == "wallet":
        return {"wallet_url": page, "checkout_url": page}
    if asked.payment_type == "qrcode":
        return {"qrcode_string": f"SANDBOX-{number}", "checkout_url": page}
    if asked.payment_type == "virtual_account":
        account = {"account_name": "Sandbox Merchant", "account_number": number[-16:]}
        return {**account, "account_type": "virtual_account", "checkout_url": page}
    if asked.payment_type in PAYMENT_TYPES:
        return {"checkout_url": page}
    raise invalid("payment_type", f"must be one of {', '.join(PAYMENT_TYPES)}")
