"""The catalogue against the document: a table of its 18 operations transcribed by hand, field by field.

`!` marks a field the document requires, `?` one it requires under a condition, a plain name an optional one.
"""

from typing import Any

import pytest

from treasury.provider.catalogue import CATALOGUE, DOCUMENT, PUBLIC_FACTS, find_operation
from treasury.provider.operation import Effect, Operation

IDENTITY = """
    individual! individual.first_name! individual.last_name! individual.date_of_birth!
    individual.occupation individual.annual_income
    document! document.type! document.number! document.country! document.expiry_date! document.front! document.back
    address address.country address.city address.post_code address.details
"""

TABLE: tuple[tuple[str, str], ...] = (
    ("/v1/order/deposit_address", "currency! customer_ref_id! description"),
    ("/v1/order/query", "request_id! order_no"),
    (
        "/v1/order/withdraw",
        "request_id! currency! address! tag amount! notify_url customer_ref_id! description",
    ),
    ("/v1/order/verifyDepositAddress", "currency! address! tag"),
    (
        "/v1/order/pay",
        # The last one: "a checkout-page usage shows a top-level `email` field in the body".
        """request_id! payment_method! amount! currency! product_name! customer_ref_id! remark return_url notify_url
        payment_channel? payment_type? pay_currency customer customer.email customer.phone customer.name email""",
    ),
    (
        "/v1/order/payout",
        """request_id! payout_method! account_type? account_no! account_name! country! bank_code? wallet_code?
        settle_currency! amount! currency! remark bank_routing_code document_type document_id phone! email!
        notify_url""",
    ),
    ("/v1/carduser/create", "user_xid! user_name email! document.face" + IDENTITY),
    ("/v1/carduser/create-with-kyc-link", "email! user_xid! user_name"),
    ("/v1/carduser/kyc-link", "user_xid! level_name"),
    ("/v1/carduser/query", "user_xid! user_id phone_number email"),
    ("/v1/carduser/upload-kyc", "user_xid!" + IDENTITY),
    # "Which of these fields are required: not shown"; public fact 6, row 12: both.
    ("/v1/carduser/change-email", "user_id! email!"),
    ("/v1/scanPay/submit", "request_id! user_xid! qrcode! amount! notify_url!"),
    ("/v1/scanPay/info", "qrcode! amount"),
    ("/v1/conversion/rate", "symbol! side!"),
    ("/v1/conversion/quote", "symbol! amount! currency! side! xid!"),
    ("/v1/conversion/execute", "quoteId!"),
    (
        "/v1/fiatpayout/payouts/quote",
        """request_id! quote_mode! pay_currency! pay_amount? receive_currency! receive_amount? beneficiary_country!
        beneficiary_bank_id! account_type! beneficiary_relationship! clear_network! beneficiaryFields
        individual_beneficiary? individual_beneficiary.account_no! individual_beneficiary.bank_name!
        individual_beneficiary.address! individual_beneficiary.full_name individual_beneficiary.first_name
        individual_beneficiary.middle_name individual_beneficiary.last_name individual_beneficiary.nationality
        individual_beneficiary.gender individual_beneficiary.date_of_birth
        enterprise_beneficiary? enterprise_beneficiary.account_no! enterprise_beneficiary.bank_name!
        enterprise_beneficiary.address! enterprise_beneficiary.company_name""",
    ),
)
"""Document, Endpoints 1-18: path, and the request's own fields."""

REPLIES: tuple[tuple[str, str], ...] = (
    ("/v1/order/deposit_address", "currency address tag"),
    (
        "/v1/order/query",
        """order_no request_id partner_id currency order_type order_amount arrive_amount fee_amount finish_time status
        reason metadata""",
    ),
    (
        "/v1/order/withdraw",
        "order_no request_id partner_id currency address tag order_amount arrive_amount fee status fail_reason",
    ),
    ("/v1/order/verifyDepositAddress", "result"),
    (
        "/v1/order/pay",
        """request_id partner_id order_no currency order_amount status payment_method checkout_url wallet_url
        qrcode_string account_name account_number account_type receive_address""",
    ),
    ("/v1/order/payout", "request_id partner_id order_no currency order_amount status"),
    ("/v1/carduser/create", "user_xid user_id kyc_status"),
    ("/v1/carduser/create-with-kyc-link", "user_xid user_id kyc_status link"),
    ("/v1/carduser/kyc-link", "user_xid link"),
    (
        "/v1/carduser/query",
        """user_xid user_id kyc_status kyc_level email phone_number last_name first_name document_type
        document_number""",
    ),
    ("/v1/carduser/upload-kyc", "user_xid user_id kyc_status"),
    ("/v1/carduser/change-email", "success"),
    ("/v1/scanPay/submit", "orderNo status"),
    (
        "/v1/scanPay/info",
        """qrcode_type amount currency order_amount order_currency fee_amount fee_currency exchange_rate
        beneficiary_name account_type bank_code bank_name""",
    ),
    ("/v1/conversion/rate", "rate symbol timeMills expiredMills"),
    (
        "/v1/conversion/quote",
        "quoteId payCurrency payAmt settleCurrency settleAmt feeCurrency feeAmt rate timeMills expiredMills",
    ),
    ("/v1/conversion/execute", "orderNo status"),
    (
        "/v1/fiatpayout/payouts/quote",
        """request_id order_no transaction_time quote_mode pay_amount pay_currency fee_amount fee_currency
        exchange_rate receive_amount receive_currency expire_time""",
    ),
)
"""Document, Resources and the Response line of each endpoint. (`message` of a transaction is the envelope's.)"""

MOVES_MONEY = {"/v1/order/withdraw", "/v1/order/payout", "/v1/scanPay/submit", "/v1/conversion/execute"}
"""Operations of the document after which a balance is smaller."""

BY_PATH = {operation.path: operation for operation in CATALOGUE.values()}


VENDOR = {
    "/v1/order/pay": [
        f"customer.{name}"
        for name in ("country", "phoneAreaCode", "document_id", "document_type", "documentId", "documentType")
    ]
}
"""Members that the document does not name and the vendor's own examples send (public fact 6, row 5)."""


def fields_of(operation: type[Operation[Any]]) -> dict[str, bool]:
    """Wire name (members of objects with a dot) -> is it required, as the class says it in its JSON schema."""
    schema = operation.model_json_schema(by_alias=True)
    return dict(_walk(schema, schema.get("$defs", {}), ""))


def _walk(schema: dict[str, Any], shapes: dict[str, Any], prefix: str) -> list[tuple[str, bool]]:
    found: list[tuple[str, bool]] = []
    for name, field in schema.get("properties", {}).items():
        found.append((prefix + name, name in schema.get("required", [])))
        for kind in (field, *field.get("anyOf", []), *field.get("allOf", [])):
            if "$ref" in kind:
                found += _walk(shapes[kind["$ref"].rsplit("/", 1)[1]], shapes, f"{prefix}{name}.")
    return found


def test_the_catalogue_has_the_documents_operations_in_its_order_and_no_others() -> None:
    assert [operation.path for operation in DOCUMENT] == [path for path, _ in TABLE]
    assert len(TABLE) == 18
    assert len(CATALOGUE) == 29
    assert len(BY_PATH) == 29


@pytest.mark.parametrize(("path", "fields"), TABLE, ids=[path for path, _ in TABLE])
def test_an_operation_has_exactly_the_documents_fields_and_required_flags(path: str, fields: str) -> None:
    expected = {name.rstrip("!?"): name.endswith("!") for name in fields.split()}
    assert fields_of(BY_PATH[path]) == expected | dict.fromkeys(VENDOR.get(path, ()), False)


@pytest.mark.parametrize(("path", "fields"), TABLE, ids=[path for path, _ in TABLE])
def test_every_condition_of_the_document_is_a_rule(path: str, fields: str) -> None:
    conditional = {name.rstrip("?") for name in fields.split() if name.endswith("?")}
    assert {rule.field for rule in BY_PATH[path].rules} == conditional


@pytest.mark.parametrize(("path", "fields"), REPLIES, ids=[path for path, _ in REPLIES])
def test_a_reply_knows_every_field_the_document_shows(path: str, fields: str) -> None:
    known = BY_PATH[path].reply_type().model_json_schema(by_alias=True)["properties"]
    assert set(fields.split()) - set(known) == set()
    assert [path for path, _ in REPLIES] == [path for path, _ in TABLE]


def test_what_moves_money_says_so() -> None:
    moving = {operation.path for operation in DOCUMENT if operation.effect is Effect.MOVES_MONEY}
    assert moving == MOVES_MONEY
    assert {op.path for op in PUBLIC_FACTS if op.effect is Effect.MOVES_MONEY} == {"/v1/fiatpayout/payouts/create"}


def test_what_moves_money_can_be_asked_about() -> None:
    for operation in CATALOGUE.values():
        if operation.effect is Effect.MOVES_MONEY:
            assert operation.reference is not None
            assert operation.asked_with is not None


@pytest.mark.parametrize("operation", CATALOGUE.values(), ids=CATALOGUE)
def test_every_operation_says_where_it_is_described(operation: type[Operation[Any]]) -> None:
    number = DOCUMENT.index(operation) + 1 if operation in DOCUMENT else None
    assert operation.source == f"document, endpoint {number}" if number else operation.source.startswith("public fact ")
    assert operation.__doc__
    assert operation.path.startswith("/v1/")


def test_an_operation_is_found_by_name_class_or_path() -> None:
    for name in ("fiat_payout_quote", "fiat-payout-quote", "FiatPayoutQuote", "/v1/fiatpayout/payouts/quote"):
        assert find_operation(name).path == "/v1/fiatpayout/payouts/quote"
    with pytest.raises(Exception, match="did you mean"):
        find_operation("payuot")
