"""Payments of the machine, one of each kind that behaves in its own way, by payee."""

from collections.abc import Mapping
from decimal import Decimal

from treasury.orders.payment_decisions import Bounds
from treasury.orders.records import Intent


def payout(row: str, payee: str) -> Intent:
    fields = {"payout_method": "bank_transfer", "account_no": payee, "account_name": "Example Person"}
    fields |= {"country": "ID", "bank_code": "1000120", "settle_currency": "IDR", "amount": "10.00"}
    fields |= {"currency": "USDT", "phone": "0812000000", "email": "person@example.com"}
    return Intent(row, "payout", fields, fields, "USDT", Decimal("10.00"))


def fiat_payout(row: str, payee: str) -> Intent:
    quote = {"quote_mode": "source", "pay_currency": "USDT", "pay_amount": "100.00", "receive_currency": "EUR"}
    quote |= {"beneficiary_country": "DE", "beneficiary_bank_id": "2000800", "account_type": "PERSONAL"}
    quote |= {"beneficiary_relationship": "third", "clear_network": "SWIFT"}
    party = {"account_no": payee, "bank_name": "Bank", "address": "Ring 1"}
    bounds = Bounds("USDT", "EUR", pay_amount=Decimal("100.00"), min_rate=Decimal("0.9"))
    payload = {
        "quote": {**quote, "individual_beneficiary": party},
        "confirm": {"purpose_code": "30"},
        "bounds": bounds.as_dict(),
    }
    return Intent(row, "create_fiat_payout", payload, payload, "USDT", Decimal("100.00"), "EUR")


def conversion(row: str, symbol: str) -> Intent:
    quote = {"symbol": symbol, "amount": "1", "currency": "ETH", "side": "SELL"}
    bounds = Bounds("ETH", "USDT", pay_amount=Decimal(1), min_rate=Decimal(1900))
    payload = {"quote": quote, "confirm": {}, "bounds": bounds.as_dict()}
    return Intent(row, "conversion_execute", payload, payload, "ETH", Decimal(1), "USDT")


PAYEES: Mapping[str, str] = {
    "pay-1": "123456789012",
    "pay-2": "123456789013",
    "fiat-1": "DE02120300000000202051",
    "fiat-2": "DE02120300000000202052",
    "trade": "ETH-USDT",
}
"""Row -> what the service knows its payee by."""


def all_intents() -> list[Intent]:
    """One for each row."""
    makers = {"pay": payout, "fiat": fiat_payout, "trade": conversion}
    return [makers[row.split("-")[0]](row, payee) for row, payee in PAYEES.items()]
