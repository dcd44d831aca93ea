"""Scan-to-pay: pay the payee of a PromptPay QR code from the USDT balance (document, endpoints 13-14)."""

from typing import Annotated, ClassVar

from pydantic import Field, StringConstraints

from treasury.promptpay import account_of_code, name_of_code, payee_of_code
from treasury.provider.fields import Amount, Personal, ReplyAmount, ReplyCode, ReplyId, ReplyLabel, ReplyRate, ReplyText
from treasury.provider.operation import Effect, Operation, Reply, SeenOrder
from treasury.provider.orders import QueryTransaction
from treasury.provider.status import OrderStatus


class SubmittedOrder(Reply):
    """An order number and a status: all that scan-to-pay and conversion answer."""

    order_no: ReplyId = Field(None, alias="orderNo")
    status: OrderStatus | None = None

    def as_order(self) -> SeenOrder:
        """The order; no amounts are shown."""
        return SeenOrder(order_no=self.order_no, status=self.status)


class SubmitScanToPay(Operation[SubmittedOrder]):
    """Pay the account that a Thai PromptPay QR code encodes; the merchant's USDT balance is debited."""

    path = "/v1/scanPay/submit"
    effect = Effect.MOVES_MONEY
    source = "document, endpoint 13"
    reference = "request_id"
    asked_with = QueryTransaction
    due_hours = 24
    absence_is_evidence = True
    debits = "USDT"
    receives = "THB"
    country: ClassVar[str] = "TH"
    """The country of its payee's account."""

    request_id: str = Field(description="Partner's id of the order.")
    user_xid: Annotated[str, StringConstraints(max_length=20)] = Field(
        description="Partner's id of the fund owner, at most 20 characters."
    )
    qrcode: Annotated[str, Personal(account_of_code)] = Field(description="Content of the QR code.")
    amount: Amount = Field(
        description="Payout amount in the QR code's currency; equals the code's amount if it has one."
    )
    notify_url: str = Field(description="Web-hook address.")

    @property
    def payee(self) -> str:
        """The account of the code, and what the code says it is paid for."""
        return payee_of_code(self.qrcode)

    @property
    def payee_name(self) -> str | None:
        """The name that the code says."""
        return name_of_code(self.qrcode)


class QrCodeDetails(Reply):
    """The content of a QR code, and the terms of paying it."""

    qrcode_type: ReplyLabel = None
    amount: ReplyAmount = None
    currency: ReplyCode = None
    order_amount: ReplyAmount = None
    order_currency: ReplyCode = None
    fee_amount: ReplyAmount = None
    fee_currency: ReplyCode = None
    exchange_rate: ReplyRate = None
    beneficiary_name: ReplyText = None
    account_type: ReplyLabel = None
    bank_code: ReplyId = None
    bank_name: ReplyText = None


class ScanToPayInfo(Operation[QrCodeDetails]):
    """Decode a QR code and return its details and the conversion terms."""

    path = "/v1/scanPay/info"
    effect = Effect.READS
    source = "document, endpoint 14"

    qrcode: Annotated[str, Personal(account_of_code)] = Field(description="Content of the QR code.")
    amount: Amount | None = Field(None, description="Amount, when the code has none; equals the code's if it has one.")
