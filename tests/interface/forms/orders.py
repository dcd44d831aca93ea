"""Tables of orders: addresses, queries, withdrawals, pay-ins, payouts (document, endpoints 1-6)."""

from decimal import Decimal

from tests.interface.forms.form import Form, Request, When, json_text, may, must
from tests.interface.forms.kinds import AMOUNT, TEXT, one_of, sized


class DepositAddress(Request):
    """Document, endpoint 1."""

    name = "deposit_address"
    path = "/v1/order/deposit_address"
    reference = "customer_ref_id"
    acts = True

    currency: str = must(TEXT)
    customer_ref_id: str = must(TEXT)
    description: str | None = may(TEXT)


class QueryTransaction(Request):
    """Document, endpoint 2."""

    name = "query_transaction"
    path = "/v1/order/query"
    reference = "request_id"

    request_id: str = must(TEXT)
    order_no: str | None = may(TEXT)


class Withdraw(Request):
    """Document, endpoint 3."""

    name = "withdraw"
    path = "/v1/order/withdraw"
    reference = "request_id"
    acts = True

    request_id: str = must(TEXT)
    currency: str = must(TEXT)
    address: str = must(TEXT)
    tag: str | None = may(TEXT)
    amount: Decimal = must(AMOUNT)
    notify_url: str | None = may(TEXT)
    customer_ref_id: str = must(TEXT)
    description: str | None = may(TEXT)


class VerifyDepositAddress(Request):
    """Document, endpoint 4."""

    name = "verify_deposit_address"
    path = "/v1/order/verifyDepositAddress"

    currency: str = must(TEXT)
    address: str = must(TEXT)
    tag: str | None = may(TEXT)


class Customer(Form):
    """Document, endpoint 5; the members after the third are what the vendor's examples send (public fact 6, row 5)."""

    email: str | None = may(TEXT)
    phone: str | None = may(TEXT)
    name: str | None = may(TEXT)
    country: str | None = may(TEXT)
    phone_area_code: str | None = may(TEXT, "phoneAreaCode")
    camel_document_id: str | None = may(TEXT, "documentId")
    camel_document_type: str | None = may(TEXT, "documentType")
    document_id: str | None = may(TEXT)
    document_type: str | None = may(TEXT)


class Pay(Request):
    """Document, endpoint 5; the checkout-page usage has `email` at the top."""

    name = "pay"
    path = "/v1/order/pay"
    reference = "request_id"
    acts = True
    rules = (
        When("payment_channel", "payment_method", "direct"),
        When("payment_type", "payment_method", "direct"),
    )

    request_id: str = must(TEXT)
    payment_method: str = must(one_of("on_line", "direct", "on_chain"))
    amount: Decimal = must(AMOUNT)
    currency: str = must(TEXT)
    product_name: str = must(TEXT)
    customer_ref_id: str = must(TEXT)
    remark: str | None = may(TEXT)
    return_url: str | None = may(TEXT)
    notify_url: str | None = may(TEXT)
    payment_channel: str | None = may(TEXT)
    payment_type: str | None = may(TEXT)
    pay_currency: str | None = may(TEXT)
    customer: Customer | None = may(json_text(Customer))
    email: str | None = may(TEXT)


class Payout(Request):
    """Document, endpoint 6, and Limits."""

    name = "payout"
    path = "/v1/order/payout"
    reference = "request_id"
    acts = True
    rules = (
        When("account_type", "payout_method", "wallet_transfer"),
        When("bank_code", "payout_method", "bank_transfer"),
        When("wallet_code", "payout_method", "wallet_transfer"),
    )

    request_id: str = must(TEXT)
    payout_method: str = must(one_of("bank_transfer", "wallet_transfer"))
    account_type: str | None = may(one_of("PHONE", "EMAIL", "CPF", "CNPJ"))
    account_no: str = must(TEXT)
    account_name: str = must(sized(5, 100))
    country: str = must(TEXT)
    bank_code: str | None = may(TEXT)
    wallet_code: str | None = may(TEXT)
    settle_currency: str = must(TEXT)
    amount: Decimal = must(AMOUNT)
    currency: str = must(TEXT)
    remark: str | None = may(sized(0, 40))
    bank_routing_code: str | None = may(sized(0, 100))
    document_type: str | None = may(TEXT)
    document_id: str | None = may(TEXT)
    phone: str = must(TEXT)
    email: str = must(TEXT)
    notify_url: str | None = may(TEXT)
