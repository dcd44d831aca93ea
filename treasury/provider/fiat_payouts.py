"""Fiat payouts: quote (document, endpoint 18), creation, query and look-ups (public facts 5.1-5.7)."""

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, model_validator

from treasury.money import parse_amount
from treasury.provider.fields import (
    PERSONAL,
    AccountText,
    Amount,
    AssetCode,
    Country,
    FiatCurrency,
    PersonalText,
    ReplyAmount,
    ReplyCode,
    ReplyDetail,
    ReplyId,
    ReplyLabel,
    ReplyRate,
    ReplyRateDetail,
    ReplyText,
    ReplyTime,
    ReplyTimeDetail,
    WireDate,
    one_of,
    without_blanks,
)
from treasury.provider.operation import (
    Conditional,
    Effect,
    NeedsOneOf,
    Operation,
    Reply,
    SeenOrder,
    WireModel,
)
from treasury.provider.status import OrderStatus


class FiatPayoutQuoteRecord(Reply):
    """A fiat payout quote; times are 13-digit Unix milliseconds."""

    request_id: ReplyId = None
    order_no: ReplyId = None
    transaction_time: ReplyTime = None
    quote_mode: ReplyLabel = None
    pay_amount: ReplyAmount = None
    pay_currency: ReplyCode = None
    fee_amount: ReplyAmount = None
    fee_currency: ReplyCode = None
    exchange_rate: ReplyRate = None
    receive_amount: ReplyAmount = None
    receive_currency: ReplyCode = None
    expire_time: ReplyTime = None


class Beneficiary(WireModel):
    """The common fields of both kinds of beneficiary."""

    account_no: AccountText = Field(description="Account number.")
    bank_name: str = Field(description="Name of the bank.")
    address: PersonalText = Field(description="Address of the beneficiary.")


class IndividualBeneficiary(Beneficiary):
    """A person; `full_name` is used when present, else the parts of the name."""

    full_name: PersonalText | None = Field(None, description="Full legal name; used when present.")
    first_name: PersonalText | None = Field(None, description="Given name.")
    middle_name: PersonalText | None = Field(None, description="Middle name.")
    last_name: PersonalText | None = Field(None, description="Family name.")
    nationality: Annotated[Country, PERSONAL] | None = Field(None, description="ISO 3166-1 alpha-2.")
    gender: Annotated[str, one_of("male", "female"), PERSONAL] | None = Field(None, description="`male` or `female`.")
    date_of_birth: Annotated[WireDate, PERSONAL] | None = Field(None, description="yyyy-MM-dd.")


class EnterpriseBeneficiary(Beneficiary):
    """A company."""

    company_name: PersonalText | None = Field(None, description="Legal name of the organization.")


UNUSED_AMOUNT = {"source": "receive_amount", "dest": "pay_amount"}
"""Mode of a quote, in lower case -> the amount that it does not require."""


def _is_zero(value: object) -> bool:
    try:
        return parse_amount(value) == 0
    except ValueError:
        return False


class FiatPayoutQuote(Operation[FiatPayoutQuoteRecord]):
    """Quote the conversion of a source asset into the fiat currency a beneficiary receives; captures the route."""

    path = "/v1/fiatpayout/payouts/quote"
    effect = Effect.CREATES
    source = "document, endpoint 18"
    reference = "request_id"
    rules = (
        Conditional("pay_amount", "quote_mode", ("source",)),
        Conditional("receive_amount", "quote_mode", ("dest",)),
        Conditional("individual_beneficiary", "account_type", ("PERSONAL",), exclusive=True),
        Conditional("enterprise_beneficiary", "account_type", ("ENTERPRISE",), exclusive=True),
    )

    request_id: str = Field(description="Unique id; the idempotency key of the quote.")
    quote_mode: Annotated[str, one_of("source", "dest")] = Field(
        description="`source` (pay_amount is given) or `dest` (receive_amount is)."
    )
    pay_currency: AssetCode = Field(description="Source asset code.")
    pay_amount: Amount | None = Field(None, description="Required when quote_mode is `source`.")
    receive_currency: FiatCurrency = Field(description="Beneficiary currency, ISO 4217.")
    receive_amount: Amount | None = Field(None, description="Required when quote_mode is `dest`.")
    beneficiary_country: Country = Field(description="ISO 3166-1 alpha-2.")
    beneficiary_bank_id: str = Field(description="A `bank_code` of the supported banks.")
    account_type: Annotated[str, one_of("PERSONAL", "ENTERPRISE")] = Field(description="`PERSONAL` or `ENTERPRISE`.")
    beneficiary_relationship: Annotated[str, one_of("own", "third")] = Field(description="`own` or `third`.")
    clear_network: str = Field(description="A clearing network of the supported networks.")
    beneficiary_fields: Annotated[dict[str, str], BeforeValidator(without_blanks), PERSONAL] | None = Field(
        None, alias="beneficiaryFields", description="Bank-specific fields; names are case-sensitive."
    )
    individual_beneficiary: IndividualBeneficiary | None = Field(None, description="When account_type is `PERSONAL`.")
    enterprise_beneficiary: EnterpriseBeneficiary | None = Field(None, description="When account_type is `ENTERPRISE`.")

    @model_validator(mode="before")
    @classmethod
    def _drop_unused_zero(cls, data: Any) -> Any:
        """Leave out a zero of the amount that the mode does not require (document, Limits: above zero if required)."""
        if not isinstance(data, dict):
            return data
        unused = UNUSED_AMOUNT.get(str(data.get("quote_mode")).casefold())
        return {name: value for name, value in data.items() if name != unused or not _is_zero(value)}


class FiatPayoutRecord(Reply):
    """A fiat payout; `request_id` is the quote's. Times are 13-digit Unix milliseconds."""

    order_no: ReplyId = None
    request_id: ReplyId = None
    pay_amount: ReplyAmount = None
    pay_currency: ReplyCode = None
    receive_amount: ReplyAmount = None
    receive_currency: ReplyCode = None
    fee_amount: ReplyDetail = None
    fee_currency: ReplyCode = None
    exchange_rate: ReplyRateDetail = None
    status: OrderStatus | None = None
    failure_reason: ReplyText = None
    create_time: ReplyTimeDetail = None
    finish_time: ReplyTimeDetail = None

    def as_order(self) -> SeenOrder:
        """The order, amounts in `pay_currency`, what arrives in `receive_currency`."""
        return SeenOrder(
            order_no=self.order_no,
            request_id=self.request_id,
            status=self.status,
            currency=self.pay_currency,
            amount=self.pay_amount,
            fee=self.fee_amount,
            fee_currency=self.fee_currency,
            receive_currency=self.receive_currency,
            receive_amount=self.receive_amount,
            rate=self.exchange_rate,
            finish_time=None if self.finish_time is None else str(self.finish_time),
            created_ms=self.create_time,
            reason=self.failure_reason or None,
            unreadable=self.unread(),
        )


class QueryFiatPayout(Operation[FiatPayoutRecord]):
    """Fetch one fiat payout, by the quote's request id or by order number; one of the two is needed."""

    path = "/v1/fiatpayout/payouts/query"
    effect = Effect.READS
    source = "public fact 5.2"
    reference = "request_id"
    rules = (NeedsOneOf("request_id", "order_no"),)

    request_id: str | None = Field(None, description="The quote's request id. This or order_no is needed.")
    order_no: str | None = Field(None, description="The payout's order number.")


class CreateFiatPayout(Operation[FiatPayoutRecord]):
    """Confirm a quote: the payout is created and the source asset debited. A quote confirms once."""

    path = "/v1/fiatpayout/payouts/create"
    effect = Effect.MOVES_MONEY
    source = "public fact 5.1"
    reference = "order_no"
    asked_with = QueryFiatPayout
    due_hours = 120
    is_paid_by_banks = True
    confirms_quote = True
    absence_is_evidence = True

    order_no: str = Field(description="The quote's order number.")
    purpose_code: Annotated[str, Field(pattern=r"^[0-9]{2}$")] = Field(
        description="Remittance purpose (public fact 2.5), two digits, leading zero kept."
    )
    description: str | None = Field(None, description="Reference text; nothing sensitive.")

    @classmethod
    def question(
        cls,
        request_id: str,
        confirmation: str | None = None,
        order_no: str | None = None,  # noqa: ARG003 - the quote's number or request id is enough
    ) -> Operation[Any]:
        """By the quote's request id; one that was confirmed by number alone is known only by that number."""
        if request_id == confirmation:
            return QueryFiatPayout(order_no=confirmation)
        return QueryFiatPayout(request_id=request_id)


class CountryList(Reply):
    """Countries that can be paid, and their currencies."""

    countries: list[dict[str, Any]] | None = None


class SupportedCountries(Operation[CountryList]):
    """Countries that fiat payouts reach."""

    path = "/v1/fiatpayout/supports/countries"
    effect = Effect.READS
    source = "public fact 5.3"

    receive_currency: FiatCurrency | None = Field(None, description="Only countries with this currency.")


class BankList(Reply):
    """Banks and wallets of a route; `bank_code` is a quote's `beneficiary_bank_id`."""

    banks: list[dict[str, Any]] | None = None


class SupportedBanks(Operation[BankList]):
    """Banks that a country and currency can be paid through."""

    path = "/v1/fiatpayout/supports/banks"
    effect = Effect.READS
    source = "public fact 5.4"

    country: Country = Field(description="ISO 3166-1 alpha-2.")
    currency: FiatCurrency = Field(description="ISO 4217.")
    amount: Amount | None = Field(None, description="Only routes whose limits allow this amount, in `currency`.")


class NetworkList(Reply):
    """Clearing networks of a route."""

    networks: list[str] | None = None


class SupportedNetworks(Operation[NetworkList]):
    """Clearing networks of a country and currency."""

    path = "/v1/fiatpayout/supports/networks"
    effect = Effect.READS
    source = "public fact 5.5"

    country: Country = Field(description="ISO 3166-1 alpha-2.")
    currency: FiatCurrency = Field(description="ISO 4217.")


class FieldList(Reply):
    """Fields a bank asks of a beneficiary: key, label, required."""

    fields_: list[dict[str, Any]] | None = Field(None, alias="fields")


class SupportedFields(Operation[FieldList]):
    """Bank-specific beneficiary fields of a route."""

    path = "/v1/fiatpayout/supports/fields"
    effect = Effect.READS
    source = "public fact 5.6"

    country: Country = Field(description="ISO 3166-1 alpha-2.")
    currency: FiatCurrency = Field(description="ISO 4217.")
    bank_code: str = Field(description="A `bank_code` of the supported banks.")
    network: str | None = Field(None, description="Only fields of this clearing network.")


class PurposeList(Reply):
    """Remittance purposes; each code is a member of its own, kept in `model_extra`."""

    @property
    def purposes(self) -> dict[str, str]:
        """Code -> description."""
        return {code: str(text) for code, text in (self.model_extra or {}).items()}


class RemittancePurposes(Operation[PurposeList]):
    """Remittance purpose codes and what they mean."""

    path = "/v1/fiatpayout/payouts/remitReasons"
    effect = Effect.READS
    source = "public fact 5.7"
