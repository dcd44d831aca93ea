"""Tables of fiat payouts: quote (document, endpoint 18), confirmation, query, look-ups (public facts 5.1-5.7)."""

from decimal import Decimal

from tests.interface.forms.form import EitherOf, Form, Request, When, may, must, nested
from tests.interface.forms.kinds import AMOUNT, ANY_AMOUNT, COUNTRY, DATE, FIAT, PURPOSE, TEXT, TEXTS, one_of


class Beneficiary(Form):
    """The fields that both kinds of beneficiary must have."""

    account_no: str = must(TEXT)
    bank_name: str = must(TEXT)
    address: str = must(TEXT)


class IndividualBeneficiary(Beneficiary):
    """A person."""

    full_name: str | None = may(TEXT)
    first_name: str | None = may(TEXT)
    middle_name: str | None = may(TEXT)
    last_name: str | None = may(TEXT)
    nationality: str | None = may(COUNTRY)
    gender: str | None = may(one_of("male", "female"))
    date_of_birth: str | None = may(DATE)


class EnterpriseBeneficiary(Beneficiary):
    """A company."""

    company_name: str | None = may(TEXT)


class FiatPayoutQuote(Request):
    """Document, endpoint 18: of the beneficiaries only the one that fits is provided; of the amounts, both may be."""

    name = "fiat_payout_quote"
    path = "/v1/fiatpayout/payouts/quote"
    reference = "request_id"
    acts = True
    rules = (
        When("pay_amount", "quote_mode", "source"),
        When("receive_amount", "quote_mode", "dest"),
        When("individual_beneficiary", "account_type", "PERSONAL", only=True),
        When("enterprise_beneficiary", "account_type", "ENTERPRISE", only=True),
    )

    request_id: str = must(TEXT)
    quote_mode: str = must(one_of("source", "dest"))
    pay_currency: str = must(TEXT)
    pay_amount: Decimal | None = may(ANY_AMOUNT)
    receive_currency: str = must(FIAT)
    receive_amount: Decimal | None = may(ANY_AMOUNT)
    beneficiary_country: str = must(COUNTRY)
    beneficiary_bank_id: str = must(TEXT)
    account_type: str = must(one_of("PERSONAL", "ENTERPRISE"))
    beneficiary_relationship: str = must(one_of("own", "third"))
    clear_network: str = must(TEXT)
    beneficiary_fields: dict[str, str] | None = may(TEXTS, "beneficiaryFields")
    individual_beneficiary: IndividualBeneficiary | None = may(nested(IndividualBeneficiary))
    enterprise_beneficiary: EnterpriseBeneficiary | None = may(nested(EnterpriseBeneficiary))


class CreateFiatPayout(Request):
    """Public fact 5.1."""

    name = "create_fiat_payout"
    path = "/v1/fiatpayout/payouts/create"
    reference = "order_no"
    acts = True

    order_no: str = must(TEXT)
    purpose_code: str = must(PURPOSE)
    description: str | None = may(TEXT)


class QueryFiatPayout(Request):
    """Public fact 5.2."""

    name = "query_fiat_payout"
    path = "/v1/fiatpayout/payouts/query"
    reference = "request_id"
    rules = (EitherOf("request_id", "order_no"),)

    request_id: str | None = may(TEXT)
    order_no: str | None = may(TEXT)


class SupportedCountries(Request):
    """Public fact 5.3."""

    name = "supported_countries"
    path = "/v1/fiatpayout/supports/countries"

    receive_currency: str | None = may(FIAT)


class SupportedBanks(Request):
    """Public fact 5.4."""

    name = "supported_banks"
    path = "/v1/fiatpayout/supports/banks"

    country: str = must(COUNTRY)
    currency: str = must(FIAT)
    amount: Decimal | None = may(AMOUNT)


class SupportedNetworks(Request):
    """Public fact 5.5."""

    name = "supported_networks"
    path = "/v1/fiatpayout/supports/networks"

    country: str = must(COUNTRY)
    currency: str = must(FIAT)


class SupportedFields(Request):
    """Public fact 5.6."""

    name = "supported_fields"
    path = "/v1/fiatpayout/supports/fields"

    country: str = must(COUNTRY)
    currency: str = must(FIAT)
    bank_code: str = must(TEXT)
    network: str | None = may(TEXT)


class RemittancePurposes(Request):
    """Public fact 5.7: it takes nothing but the common parameters."""

    name = "remittance_purposes"
    path = "/v1/fiatpayout/payouts/remitReasons"
