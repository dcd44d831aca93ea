"""Operations as these tests send them, each with fields that hold unless a test says otherwise."""

import json
import time
import uuid
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

import httpx
import pytest

from treasury.errors import Refused
from treasury.provider.card_users import CreateCardUser
from treasury.provider.client import Account, Client
from treasury.provider.conversion import ConversionQuote
from treasury.provider.fiat_payouts import FiatPayoutQuote
from treasury.provider.operation import Operation
from treasury.provider.orders import Pay, Payout, QueryTransaction, TransactionRecord, Withdraw
from treasury.provider.scan_to_pay import SubmitScanToPay
from treasury.provider.signing import load_private_key, sign
from treasury.sandbox import RunningSandbox, SandboxSettings, build_promptpay, generate_key_pair

PRIVATE, PUBLIC = generate_key_pair()
IMAGE = "data:image/png;base64,iVBORw0KGgo="
START = 1_790_000_000.0
"""The time at which clocks that stand still begin."""


def settings(**changed: Any) -> SandboxSettings:
    """Settings of a sandbox that knows the key of these tests, where orders are final at the next look."""
    return SandboxSettings(**{"public_key": PUBLIC, "settle_seconds": 0, **changed})


def client_of(sandbox: RunningSandbox) -> Client:
    """A client of this sandbox's partner."""
    return Client(Account(sandbox.base_url, "900001", PRIVATE), timeout_seconds=10)


def withdraw(request_id: str, **changed: Any) -> Withdraw:
    """Withdraw 100 USDT_TRC20."""
    fields = {"currency": "USDT_TRC20", "address": "TXYZ1111", "amount": "100", "customer_ref_id": "c-1"}
    return Withdraw(request_id=request_id, **{**fields, **changed})


def payout(request_id: str, **changed: Any) -> Payout:
    """Pay 50 USDT to an Indonesian bank account."""
    fields = {
        "payout_method": "bank_transfer",
        "account_no": "12345678",
        "account_name": "Siti Rahma",
        "country": "ID",
        "bank_code": "1000120",
        "settle_currency": "IDR",
        "amount": "50",
        "currency": "USDT",
        "phone": "+6281234567",
        "email": "siti@example.com",
    }
    return Payout(request_id=request_id, **{**fields, **changed})


def scan(request_id: str, **changed: Any) -> SubmitScanToPay:
    """Pay 320 THB to a PromptPay phone number."""
    fields = {"user_xid": "u-1", "qrcode": build_promptpay("0812345678"), "amount": "320"}
    return SubmitScanToPay(request_id=request_id, **{**fields, "notify_url": "http://127.0.0.1:1/", **changed})


def pay(request_id: str, **changed: Any) -> Pay:
    """A hosted pay-in of 100 USDT."""
    fields = {"payment_method": "on_line", "amount": "100", "currency": "USDT", "product_name": "Tea"}
    return Pay(request_id=request_id, customer_ref_id="c-1", **{**fields, **changed})


def convert(xid: str, **changed: Any) -> ConversionQuote:
    """Buy ETH with 100 USDT."""
    return ConversionQuote(
        **{"symbol": "ETH-USDT", "amount": "100", "currency": "USDT", "side": "BUY", "xid": xid, **changed}
    )


def fiat_quote(request_id: str, account_no: str = "DE89370400", **changed: Any) -> FiatPayoutQuote:
    """Pay 100 USDT to a person in Germany by local payment."""
    person = {"account_no": account_no, "bank_name": "Deutsche Bank", "address": "Ring 1", "full_name": "Eva Muster"}
    fields: dict[str, Any] = {
        "quote_mode": "source",
        "pay_currency": "USDT",
        "pay_amount": "100",
        "receive_currency": "EUR",
        "beneficiary_country": "DE",
        "beneficiary_bank_id": "2000800",
        "account_type": "PERSONAL",
        "beneficiary_relationship": "third",
        "clear_network": "LOCAL_PAYMENT",
        "individual_beneficiary": person,
    }
    given = {**fields, **changed}
    return FiatPayoutQuote(request_id=request_id, **{name: value for name, value in given.items() if value is not None})


def card_user(user_xid: str, document_number: str = "P1234567") -> CreateCardUser:
    """A cardholder with identity data."""
    document = {"type": "2", "number": document_number, "country": "DE", "expiry_date": "2031-01-01", "front": IMAGE}
    person = {"first_name": "Eva", "last_name": "Muster", "date_of_birth": "1990-01-01"}
    return CreateCardUser(user_xid=user_xid, email="eva@example.com", individual=person, document=document)


def refused(client: Client, operation: Operation[Any]) -> Refused:
    """Send what must be refused, and return the refusal."""
    with pytest.raises(Refused) as caught:
        client.send(operation)
    return caught.value


def query(client: Client, request_id: str) -> TransactionRecord:
    """Return what the service says of this order."""
    return client.send(QueryTransaction(request_id=request_id))


def partner_total(sandbox: RunningSandbox) -> Mapping[str, Decimal]:
    """Currency -> what the partner has, available and held."""
    balances = sandbox.books()["balances"]
    currencies = {*balances["available"], *balances["hold"]}
    zero = Decimal(0)
    return {code: balances["available"].get(code, zero) + balances["hold"].get(code, zero) for code in currencies}


def eventually(holds: Callable[[], bool], seconds: float = 5.0) -> None:
    """Wait until something holds."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it never came to hold"
        time.sleep(0.01)


KEY = load_private_key(PRIVATE)


def signed(fields: dict[str, Any], **common: Any) -> dict[str, Any]:
    """A signed body; common parameters may be replaced."""
    body = {
        **fields,
        "partner_id": "900001",
        "sign_type": "RSA",
        "timestamp": str(int(time.time() * 1000)),
        "nonce": uuid.uuid4().hex,
        **common,
    }
    return {**body, "sign": sign(body, KEY)}


def post(sandbox: RunningSandbox, path: str, body: object) -> httpx.Response:
    """Post a body as it is."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return httpx.post(sandbox.base_url + path, content=content)
