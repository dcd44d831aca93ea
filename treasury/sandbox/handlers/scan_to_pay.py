"""Scan-to-pay: read a PromptPay code, pay its account from the USDT balance (document, endpoints 13-14)."""

from decimal import Decimal
from typing import Any

from treasury.errors import InputError
from treasury.promptpay import PromptPayCode, read_promptpay
from treasury.provider.scan_to_pay import ScanToPayInfo, SubmitScanToPay
from treasury.sandbox.answers import invalid
from treasury.sandbox.behaviour import charge
from treasury.sandbox.books import BookAccount
from treasury.sandbox.currencies import CURRENCIES, SCAN_FEE, check_decimals, check_minimum, scan_amount
from treasury.sandbox.entities import Order, OrderStatus, ending_of
from treasury.sandbox.lifecycle import accept
from treasury.sandbox.world import World

USDT, THB = CURRENCIES["USDT"], CURRENCIES["THB"]


def _read(text: str, amount: Decimal | None) -> tuple[PromptPayCode, Decimal | None]:
    """The code, and the amount in THB: the code's own if it has one, which another must equal."""
    try:
        code = read_promptpay(text)
    except InputError as error:
        raise invalid("qrcode", str(error)) from None
    if code.amount is not None and amount not in (None, code.amount):
        raise invalid("amount", f"must equal the amount of the QR code, {code.amount}")
    return code, amount or code.amount


def info(world: World, asked: ScanToPayInfo) -> dict[str, Any]:
    """Return what the code says, and what paying it costs; without any amount, the amounts are null."""
    code, amount = _read(asked.qrcode, asked.amount)
    rate = world.rates.rate(USDT, THB, "SELL", world.now)
    return {
        "qrcode_type": "prompt_pay",
        "amount": amount,
        "currency": THB.code,
        "order_amount": None if amount is None else scan_amount(amount, rate),
        "order_currency": USDT.code,
        "fee_amount": SCAN_FEE,
        "fee_currency": USDT.code,
        "exchange_rate": rate,
        "beneficiary_name": code.name,
        "account_type": code.account_type,
        "bank_code": None,
        "bank_name": None,
    }


def submit(world: World, asked: SubmitScanToPay) -> dict[str, Any]:
    """Pay the account of the code: the order amount and, on top, the fee leave the USDT balance."""
    code, _ = _read(asked.qrcode, asked.amount)
    check_decimals("amount", asked.amount, THB)
    check_minimum(asked.amount, THB)
    world.require_new(asked.request_id)
    rate = world.rates.rate(USDT, THB, "SELL", world.now)
    amount, fee = scan_amount(asked.amount, rate), SCAN_FEE * world.settings.behaviour.fee_times
    order = Order(
        order_no=world.number("scan", asked.request_id),
        request_id=asked.request_id,
        operation=asked.operation_name(),
        order_type="proxy_pay",
        status=OrderStatus.PROCESSING,
        source=BookAccount.HOLD,
        currency=USDT.code,
        amount=amount,
        debit=charge(world.settings.behaviour, asked.operation_name(), amount, fee).debit,
        fee_currency=USDT.code,
        fee=fee,
        target=BookAccount.BENEFICIARIES,
        credit_currency=THB.code,
        credit=asked.amount,
        created_at=world.now,
        ending=ending_of(code.account),
        notify_url=asked.notify_url,
        customer_ref_id=asked.user_xid,
        metadata={
            "customerRefId": asked.user_xid,
            "qrcodeType": "prompt_pay",
            "exchangeRate": str(rate),
            "beneficiaryAccountNumber": code.account,
        },
    )
    accept(world, order)
    order.reply = {"orderNo": order.order_no, "status": order.status}
    return order.reply
