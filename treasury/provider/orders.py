"""Orders: deposit addresses, withdrawals, pay-ins, payouts and their query (document, endpoints 1-6)."""

import json
from collections.abc import Callable, Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, PlainSerializer, StringConstraints

from treasury.payees import payee_key, payee_of_address
from treasury.provider.bounded_json import read_json_text
from treasury.provider.fields import (
    AccountText,
    Amount,
    AssetCode,
    PersonalText,
    ReplyAddress,
    ReplyAmount,
    ReplyCode,
    ReplyDetail,
    ReplyId,
    ReplyLabel,
    ReplyQrCode,
    ReplyText,
    json_text,
    one_of,
)
from treasury.provider.operation import Conditional, Effect, Operation, Reply, SeenOrder, WireModel
from treasury.provider.status import OrderStatus
from treasury.texts import canonical_json, cut_text


class DepositAddressRecord(Reply):
    """A deposit address; `tag` is empty when the asset needs none."""

    currency: ReplyCode = None
    address: ReplyId = None
    tag: ReplyId = None


class DepositAddress(Operation[DepositAddressRecord]):
    """Obtain the deposit address of a crypto asset for an end-user; the same customer gets the same address."""

    path = "/v1/order/deposit_address"
    effect = Effect.CREATES
    source = "document, endpoint 1"
    reference = "customer_ref_id"

    currency: AssetCode = Field(
        description="Crypto asset to deposit; may carry a network suffix, for example USDT_TRC20."
    )
    customer_ref_id: str = Field(description="Partner's id of the customer the address belongs to.")
    description: str | None = Field(None, description="Extended information; nothing sensitive.")


MAX_DETAIL = 120
"""Characters of one detail that is kept; a hash of a transaction has 64 to 90."""


def _metadata_text(value: object) -> object:
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False, default=str)
    return value if isinstance(value, str | None) else str(value)


IMPERSONAL_DETAILS = ("txnHash", "networkFee", "networkCurrency", "blockHeight", "numOfConfirms", "exchangeRate")
"""Keys of `metadata` whose values may be kept (document, Transaction record; public fact 4.1)."""


def _detail(value: object) -> str:
    """One detail as it may be kept: a single text or number of a bounded length."""
    return "***" if isinstance(value, dict | list) else cut_text(str(value), MAX_DETAIL)


class TransactionRecord(Reply):
    """A transaction as the query shows it; which fields are present varies by kind (document, Transaction record)."""

    order_no: ReplyId = None
    request_id: ReplyId = None
    partner_id: ReplyId = None
    currency: ReplyCode = None
    order_type: ReplyLabel = None
    order_amount: ReplyAmount = None
    arrive_amount: ReplyDetail = None
    fee_amount: ReplyDetail = None
    finish_time: ReplyLabel = None
    status: OrderStatus | None = None
    reason: ReplyText = None
    metadata: Annotated[str | None, BeforeValidator(_metadata_text)] = None

    @property
    def details(self) -> dict[str, Any] | None:
        """`metadata` read as the JSON document it should hold; None when it is broken (the raw text stays)."""
        if not self.metadata:
            return {}
        try:
            read = read_json_text(self.metadata)
        except ValueError:
            return None
        return read if isinstance(read, dict) else None

    def as_order(self) -> SeenOrder:
        """The order, amounts in `currency`."""
        return SeenOrder(
            order_no=self.order_no,
            request_id=self.request_id,
            status=self.status,
            currency=self.currency,
            amount=self.order_amount,
            arrive_amount=self.arrive_amount,
            fee=self.fee_amount,
            finish_time=self.finish_time,
            reason=self.reason or None,
            destination=self._destination(),
            unreadable=self.unread("metadata" if self.details is None else None),
        )

    def _destination(self) -> tuple[str | None, str | None]:
        details = self.details or {}
        address, tag = (details.get(name) for name in ("destinationAddress", "destinationTag"))
        return (address if isinstance(address, str) else None, tag if isinstance(tag, str) else None)

    def redacted(self, masked: Callable[[str], str]) -> dict[str, Any]:
        """The data as it came; of `metadata` only what names no person and no account."""
        details = self.details or {}
        shown = {name: masked(_detail(details[name])) for name in IMPERSONAL_DETAILS if name in details}
        return {**super().redacted(masked), "metadata": shown}


class QueryTransaction(Operation[TransactionRecord]):
    """Fetch one transaction by the partner's request id: deposits, withdrawals, payouts, scan-to-pay and others."""

    path = "/v1/order/query"
    effect = Effect.READS
    source = "document, endpoint 2"
    reference = "request_id"

    request_id: str = Field(description="Partner's id of the transaction.")
    order_no: str | None = Field(None, description="Platform transaction id.")


class WithdrawRecord(Reply):
    """A withdrawal as the submit shows it."""

    order_no: ReplyId = None
    request_id: ReplyId = None
    partner_id: ReplyId = None
    currency: ReplyCode = None
    address: ReplyText = None
    tag: ReplyText = None
    order_amount: ReplyAmount = None
    arrive_amount: ReplyDetail = None
    fee: ReplyDetail = None
    status: OrderStatus | None = None
    fail_reason: ReplyText = None

    def as_order(self) -> SeenOrder:
        """The order, amounts in `currency`."""
        return SeenOrder(
            order_no=self.order_no,
            request_id=self.request_id,
            status=self.status,
            currency=self.currency,
            amount=self.order_amount,
            arrive_amount=self.arrive_amount,
            fee=self.fee,
            reason=self.fail_reason or None,
            destination=(self.address, self.tag),
            unreadable=self.unread(),
        )


class Withdraw(Operation[WithdrawRecord]):
    """Send a crypto asset from the partner's balance to an external address."""

    path = "/v1/order/withdraw"
    effect = Effect.MOVES_MONEY
    source = "document, endpoint 3"
    reference = "request_id"
    asked_with = QueryTransaction
    due_hours = 24
    absence_is_evidence = True
    limited_by = "withdrawals"

    request_id: str = Field(description="Partner's id of the withdrawal.")
    currency: AssetCode = Field(description="Crypto asset to withdraw.")
    address: AccountText = Field(description="Destination address.")
    tag: str | None = Field(None, description="Destination tag (Ripple) or memo (EOS, XLM).")
    amount: Amount = Field(description="Requested amount, in `currency`.")
    notify_url: str | None = Field(None, description="Web-hook address.")
    customer_ref_id: str = Field(description="Partner's id of the fund owner.")
    description: str | None = Field(None, description="Extended information; nothing sensitive.")

    @property
    def payee(self) -> str:
        """The address, with its tag."""
        return payee_of_address(self.address, self.tag)


class AddressVerdict(Reply):
    """The service's verdict on an address: does it belong to the platform?"""

    result: bool | None = None


class VerifyDepositAddress(Operation[AddressVerdict]):
    """Check whether an address belongs to the platform."""

    path = "/v1/order/verifyDepositAddress"
    effect = Effect.READS
    source = "document, endpoint 4"

    currency: str = Field(description="Asset related to the address.")
    address: PersonalText = Field(description="Address to verify.")
    tag: str | None = Field(None, description="Tag (Ripple) or memo (EOS, XLM).")


class Customer(WireModel):
    """Who pays in; travels as a JSON string."""

    email: PersonalText | None = Field(None, description="Customer e-mail address.")
    phone: PersonalText | None = Field(None, description="Customer phone number.")
    name: PersonalText | None = Field(None, description="Customer name.")
    country: str | None = Field(None, description="Country code; this and what follows: public fact 6, row 5.")
    phone_area_code: str | None = Field(None, alias="phoneAreaCode", description="Area code of the phone number.")
    document_id: PersonalText | None = Field(None, description="Number of an identity document (Brazil).")
    document_type: str | None = Field(None, description="Kind of that document, for example CPF.")
    document_id_camel: PersonalText | None = Field(
        None, alias="documentId", description="The same number, as the vendor's client writes it."
    )
    document_type_camel: str | None = Field(
        None, alias="documentType", description="The same kind, as the vendor's client writes it."
    )


def _customer_text(customer: Customer | None) -> str | None:
    if customer is None:
        return None
    return canonical_json(customer.model_dump(by_alias=True, exclude_none=True))


class PayinRecord(Reply):
    """A pay-in; further fields depend on the payment method (document, Pay-in record)."""

    request_id: ReplyId = None
    partner_id: ReplyId = None
    order_no: ReplyId = None
    currency: ReplyCode = None
    order_amount: ReplyAmount = None
    status: OrderStatus | None = None
    payment_method: ReplyLabel = None
    checkout_url: ReplyAddress = None
    wallet_url: ReplyAddress = None
    qrcode_string: ReplyQrCode = None
    account_name: ReplyText = None
    account_number: ReplyId = None
    account_type: ReplyLabel = None
    receive_address: ReplyId = None

    def as_order(self) -> SeenOrder:
        """The order, amounts in `currency`."""
        return SeenOrder(
            order_no=self.order_no,
            request_id=self.request_id,
            status=self.status,
            currency=self.currency,
            amount=self.order_amount,
        )


class Pay(Operation[PayinRecord]):
    """Create a pay-in: hosted checkout page, direct integration, or an on-chain receive address."""

    path = "/v1/order/pay"
    effect = Effect.CREATES
    source = "document, endpoint 5"
    reference = "request_id"
    asked_with = QueryTransaction
    rules = (
        Conditional("payment_channel", "payment_method", ("direct",)),
        Conditional("payment_type", "payment_method", ("direct",)),
    )

    request_id: str = Field(description="Partner's id of the pay-in.")
    payment_method: Annotated[str, one_of("on_line", "direct", "on_chain")] = Field(
        description="`on_line` (checkout page), `direct` or `on_chain`."
    )
    amount: Amount = Field(description="Order amount, in `currency`.")
    currency: AssetCode = Field(description="Order currency: crypto asset code or fiat code.")
    product_name: str = Field(description="Product name shown on the checkout page.")
    customer_ref_id: str = Field(description="Customer's unique id.")
    remark: str | None = Field(None, description="Product detail shown on the checkout page.")
    return_url: str | None = Field(None, description="Where the browser goes after the payment.")
    notify_url: str | None = Field(None, description="Web-hook address.")
    payment_channel: str | None = Field(None, description="Required when payment_method is `direct`.")
    payment_type: str | None = Field(None, description="Required when payment_method is `direct`.")
    pay_currency: AssetCode | None = Field(None, description="Crypto asset the customer pays with, for a fiat order.")
    customer: Annotated[
        Customer | None, json_text(Customer.model_validate), PlainSerializer(_customer_text, return_type=str | None)
    ] = Field(None, description="Customer information; a JSON string on the wire.")
    email: PersonalText | None = Field(None, description="Customer e-mail, as the checkout-page usage shows it.")


class PayoutRecord(Reply):
    """A payout order as the submit shows it."""

    request_id: ReplyId = None
    partner_id: ReplyId = None
    order_no: ReplyId = None
    currency: ReplyCode = None
    order_amount: ReplyAmount = None
    status: OrderStatus | None = None

    def as_order(self) -> SeenOrder:
        """The order, amounts in `currency`."""
        return SeenOrder(
            order_no=self.order_no,
            request_id=self.request_id,
            status=self.status,
            currency=self.currency,
            amount=self.order_amount,
        )


def code_of_bank(payout: Mapping[str, Any]) -> str | None:
    """Return the code of the bank or wallet that the fields of a payout pay: another one beside it says nothing."""
    code: str | None = payout.get("wallet_code" if _pays_a_wallet(payout) else "bank_code")
    return code


def pays_a_phone(payout: Mapping[str, Any]) -> bool:
    """Tell whether the account in the fields of a payout is a phone number."""
    return _pays_a_wallet(payout) and payout.get("account_type") == "PHONE"


def _pays_a_wallet(payout: Mapping[str, Any]) -> bool:
    return payout.get("payout_method") == "wallet_transfer"


class Payout(Operation[PayoutRecord]):
    """Pay a bank or wallet beneficiary."""

    path = "/v1/order/payout"
    effect = Effect.MOVES_MONEY
    source = "document, endpoint 6"
    reference = "request_id"
    asked_with = QueryTransaction
    due_hours = 72
    is_paid_by_banks = True
    absence_is_evidence = True
    rules = (
        Conditional("account_type", "payout_method", ("wallet_transfer",)),
        Conditional("bank_code", "payout_method", ("bank_transfer",)),
        Conditional("wallet_code", "payout_method", ("wallet_transfer",)),
    )

    request_id: str = Field(description="Partner's id of the payout.")
    payout_method: Annotated[str, one_of("bank_transfer", "wallet_transfer")] = Field(
        description="`bank_transfer` or `wallet_transfer`."
    )
    account_type: Annotated[str, one_of("PHONE", "EMAIL", "CPF", "CNPJ")] | None = Field(
        None, description="Required when payout_method is `wallet_transfer`: PHONE, EMAIL, CPF or CNPJ."
    )
    account_no: AccountText = Field(description="Beneficiary account number.")
    account_name: Annotated[PersonalText, StringConstraints(min_length=5, max_length=100)] = Field(
        description="Beneficiary name, 5 to 100 characters."
    )
    country: str = Field(description="Country code.")
    bank_code: str | None = Field(None, description="Required when payout_method is `bank_transfer`.")
    wallet_code: str | None = Field(None, description="Required when payout_method is `wallet_transfer`.")
    settle_currency: str = Field(description="Currency the beneficiary receives.")
    amount: Amount = Field(description="Payout amount, in `currency`.")
    currency: AssetCode = Field(description="Merchant's account currency.")
    remark: Annotated[str, StringConstraints(max_length=40)] | None = Field(None, description="At most 40 characters.")
    bank_routing_code: Annotated[str, StringConstraints(max_length=100)] | None = Field(
        None, description="At most 100 characters."
    )
    document_type: str | None = Field(None, description="Kind of identification.")
    document_id: PersonalText | None = Field(None, description="Identification number.")
    phone: PersonalText = Field(description="Beneficiary phone.")
    email: PersonalText = Field(description="Beneficiary e-mail.")
    notify_url: str | None = Field(None, description="Web-hook address.")

    @property
    def payee(self) -> str:
        """The account, as a sheet's row names it, too."""
        return payee_key(self.account_no, self.country, code_of_bank(vars(self)), is_phone=pays_a_phone(vars(self)))

    @property
    def payee_name(self) -> str:
        """The name of the account's owner."""
        return self.account_name
