"""Requests of careless clients: an operation, what is changed of its example, and the place and rule that are named."""

import json
from typing import Any

from tests.interface.examples import COMPANY, EXAMPLES

CARELESS: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("payout", {"phone": None}, "phone: is required"),
    ("payout", {"account_name": "Zoë"}, "account_name: must have 5 to 100"),
    ("payout", {"remark": "r" * 41}, "remark: has at most 40"),
    ("payout", {"payout_method": "wallet_transfer", "account_type": ""}, "account_type: is required when"),
    ("payout", {"payout_method": "wallet_transfer", "account_type": "UID"}, "account_type: must be one of PHONE"),
    ("payout", {"amount": True}, "amount: must be"),
    ("payout", {"amount": "1e3"}, "amount: must be"),
    ("payout", {"amount": "0"}, "amount: must be greater than zero"),
    ("payout", {"account_no": 12345678}, "account_no: must be a text"),
    ("withdraw", {"customer_ref_id": "   "}, "customer_ref_id: is required"),
    ("submit_scan_to_pay", {"user_xid": "u" * 21}, "user_xid: has at most 20"),
    ("submit_scan_to_pay", {"notify_url": "null"}, "notify_url: is required"),
    ("pay", {"payment_channel": None}, "payment_channel: is required when payment_method is direct"),
    ("pay", {"customer": "{"}, "customer: must be a text that holds"),
    ("pay", {"customer": '{"email": 7}'}, "customer.email: must be a text"),
    ("conversion_quote", {"side": "hold"}, "side: must be one of BUY, SELL"),
    ("conversion_rate", {"symbol": "ETHUSDT"}, "symbol: must be"),
    ("create_fiat_payout", {"purpose_code": "1"}, "purpose_code: must be"),
    ("query_fiat_payout", {"request_id": "", "order_no": None}, "request_id: is required when order_no is absent"),
    ("fiat_payout_quote", {"pay_amount": "0"}, "pay_amount: must be greater than zero"),
    ("fiat_payout_quote", {"quote_mode": "dest"}, "receive_amount: is required when quote_mode is dest"),
    ("fiat_payout_quote", {"individual_beneficiary": {}}, "individual_beneficiary: is required when"),
    ("fiat_payout_quote", {"enterprise_beneficiary": COMPANY}, "enterprise_beneficiary: is allowed only when"),
    ("fiat_payout_quote", {"beneficiaryFields": "{}"}, "beneficiaryFields: must be an object"),
    ("fiat_payout_quote", {"receive_currency": "EURO"}, "receive_currency: must be an ISO 4217 code"),
    ("supported_banks", {"country": "XX"}, "country: must be an ISO 3166-1"),
    (
        "create_card_user",
        {"individual": json.dumps(EXAMPLES["create_card_user"]["individual"])},
        "individual: must",
    ),
)
