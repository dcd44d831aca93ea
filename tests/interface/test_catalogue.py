"""Every operation: valid examples pass unchanged, each broken rule of the document is named, nobody's data is shown."""

import copy
import json
from typing import Any

import pytest

from treasury.errors import InvalidFields
from treasury.provider.catalogue import CATALOGUE

Examples = dict[str, dict[str, Any]]


def build(name: str, fields: dict[str, Any]) -> Any:
    return CATALOGUE[name](**fields)


def problems(name: str, fields: dict[str, Any]) -> dict[str, str]:
    with pytest.raises(InvalidFields) as caught:
        build(name, fields)
    assert caught.value.operation == name
    return {problem.field: problem.rule for problem in caught.value.problems}


def without(fields: dict[str, Any], place: str) -> dict[str, Any]:
    """A copy without one field, members of objects named with a dot."""
    return put(fields, place, None)


def put(fields: dict[str, Any], place: str, value: object) -> dict[str, Any]:
    """A copy with one field changed; None takes it away."""
    changed = copy.deepcopy(fields)
    holder = changed
    *path, name = place.split(".")
    for step in path:
        holder = holder.setdefault(step, {})
    if value is None:
        holder.pop(name, None)
    else:
        holder[name] = value
    return changed


# Required fields, transcribed from the document (1-18) and the public facts (5.1-5.10).
REQUIRED: dict[str, str] = {
    "deposit_address": "currency customer_ref_id",
    "query_transaction": "request_id",
    "withdraw": "request_id currency address amount customer_ref_id",
    "verify_deposit_address": "currency address",
    "pay": "request_id payment_method amount currency product_name customer_ref_id payment_channel payment_type",
    "payout": """request_id payout_method account_no account_name country settle_currency amount currency phone email
        account_type wallet_code""",
    "create_card_user": """user_xid email individual individual.first_name individual.last_name
        individual.date_of_birth document document.type document.number document.country document.expiry_date
        document.front""",
    "create_card_user_with_kyc_link": "email user_xid",
    "kyc_link": "user_xid",
    "query_card_user": "user_xid",
    "upload_kyc": """user_xid individual individual.first_name individual.last_name individual.date_of_birth document
        document.type document.number document.country document.expiry_date document.front""",
    "change_card_user_email": "user_id email",
    "submit_scan_to_pay": "request_id user_xid qrcode amount notify_url",
    "scan_to_pay_info": "qrcode",
    "conversion_rate": "symbol side",
    "conversion_quote": "symbol amount currency side xid",
    "conversion_execute": "quoteId",
    "fiat_payout_quote": """request_id quote_mode pay_currency pay_amount receive_currency beneficiary_country
        beneficiary_bank_id account_type beneficiary_relationship clear_network individual_beneficiary
        individual_beneficiary.account_no individual_beneficiary.bank_name individual_beneficiary.address""",
    "create_fiat_payout": "order_no purpose_code",
    "query_fiat_payout": "",
    "supported_countries": "",
    "supported_banks": "country currency",
    "supported_networks": "country currency",
    "supported_fields": "country currency bank_code",
    "remittance_purposes": "",
    "partner_balance": "currency",
    "estimate_fee": "currency amount",
    "trade_rate": "baseCurrency quoteCurrency",
    "payout_channels": "country currency",
}
EACH_REQUIRED = [(name, field) for name, fields in REQUIRED.items() for field in fields.split()]


def test_every_operation_has_an_example(examples: Examples) -> None:
    assert set(examples) == set(REQUIRED) == set(CATALOGUE)


@pytest.mark.parametrize("name", CATALOGUE)
def test_an_example_goes_on_the_wire_as_it_is(name: str, examples: Examples) -> None:
    fields = examples[name]
    body = build(name, fields).body()
    if "customer" in body:
        assert json.loads(body["customer"]) == fields["customer"]
        fields = fields | {"customer": body["customer"]}
    assert body == fields
    assert build(name, body).body() == body


@pytest.mark.parametrize("name", CATALOGUE)
def test_an_unknown_field_is_named(name: str, examples: Examples) -> None:
    assert problems(name, {**examples[name], "notes": "x"}) == {"notes": "is not a field of this operation"}


@pytest.mark.parametrize("blank", [None, "", "  ", "null"])
def test_a_required_field_that_is_missing_is_named(blank: str | None, examples: Examples) -> None:
    for name, field in EACH_REQUIRED:
        found = problems(name, put(examples[name], field, blank))
        assert list(found) == [field], name
        assert found[field].startswith("is required"), name


def test_all_missing_fields_are_named_at_once() -> None:
    assert set(problems("estimate_fee", {})) == {"currency", "amount"}
    assert set(problems("conversion_quote", {})) == set(REQUIRED["conversion_quote"].split())


@pytest.mark.parametrize("name", CATALOGUE)
def test_optional_fields_may_be_left_out(name: str, examples: Examples) -> None:
    needed = REQUIRED[name].split()
    fields = {key: value for key, value in examples[name].items() if key in needed}
    if name == "query_fiat_payout":  # public fact 5.2: one of its two fields
        fields = {"order_no": "1"}
    build(name, fields)


def test_a_fiat_payout_is_asked_for_by_either_of_its_names() -> None:
    build("query_fiat_payout", {"request_id": "r-1"})
    build("query_fiat_payout", {"order_no": "1"})
    assert "is required" in problems("query_fiat_payout", {})["request_id"]


# Document, Endpoints and Limits: (operation, changes that make the base valid, field, good values, bad values).
LIMITS: list[tuple[str, str, list[str], list[str]]] = [
    ("payout", "account_name", ["A" * 5, "A" * 100, "É" * 100], ["A" * 4, "A" * 101]),
    ("payout", "remark", ["r" * 40], ["r" * 41]),
    ("payout", "bank_routing_code", ["1" * 100], ["1" * 101]),
    ("payout", "payout_method", [], ["cash", "bank"]),
    ("payout", "account_type", ["PHONE", "EMAIL", "CPF", "CNPJ"], ["UID", "phone number"]),
    ("submit_scan_to_pay", "user_xid", ["u", "u" * 20], ["u" * 21]),
    ("fiat_payout_quote", "pay_amount", ["0.000000000000000001", "1"], ["0", "0.00", "-1"]),
    ("fiat_payout_quote", "quote_mode", [], ["SRC", "destination"]),
    ("fiat_payout_quote", "account_type", [], ["01", "COMPANY"]),
    ("fiat_payout_quote", "beneficiary_relationship", ["own", "third"], ["friend"]),
    ("fiat_payout_quote", "receive_currency", ["USD", "THB"], ["USDT", "eur", "EURO"]),
    ("fiat_payout_quote", "beneficiary_country", ["TH", "US"], ["DEU", "de", "Germany", "XX"]),
    ("fiat_payout_quote", "individual_beneficiary.nationality", ["FR"], ["FRA", "French"]),
    ("fiat_payout_quote", "individual_beneficiary.gender", ["male", "female"], ["m", "other"]),
    (
        "fiat_payout_quote",
        "individual_beneficiary.date_of_birth",
        ["2000-02-29"],
        ["1999-02-29", "29.02.2000", "2000-2-9", "20000229", "2000-02-29T00:00:00"],
    ),
    ("pay", "payment_method", ["on_line", "on_chain"], ["cash", "online"]),
    ("kyc_link", "level_name", ["LEVEL-1", "LEVEL-2"], ["LEVEL-3", "1"]),
    ("conversion_rate", "side", ["BUY", "SELL"], ["HOLD"]),
    ("conversion_rate", "symbol", ["ETH-USDT", "USDT_TRC20-BTC"], ["ETHUSDT", "ETH/USDT", "ETH-", "-USDT"]),
    ("conversion_quote", "side", ["BUY", "SELL"], ["HOLD"]),
    ("create_card_user", "document.type", ["1", "2"], ["3", "passport"]),
    ("create_card_user", "document.country", ["ID"], ["IDN", "Indonesia"]),
    ("create_card_user", "document.expiry_date", ["2031-12-31"], ["2031-13-01", "12/2031"]),
    ("create_card_user", "individual.date_of_birth", ["1990-01-01"], ["1990-00-01", "01-01-1990"]),
    ("create_card_user", "address.country", ["ID"], ["Indonesia"]),
    *(
        (
            "create_card_user",
            f"document.{image}",
            ["data:image/jpeg;base64,/9j/4AAQ", "data:image/png;base64,iVBORw0KGgo="],
            [
                "iVBORw0KGgo=",
                "data:image/png;base64,",
                "data:image/png;base64,%%%",
                "data:image/png,iVBORw0KGgo=",
            ],
        )
        for image in ("front", "back", "face")
    ),
    ("create_card_user", "document.back", ["data:image/gif;base64,R0lGODlh"], ["data:text/plain;base64,R0lGODlh"]),
    *(("create_card_user", f"document.{image}", [], ["data:image/gif;base64,R0lGODlh"]) for image in ("front", "face")),
    ("upload_kyc", "document.type", ["1", "2"], ["3"]),
    ("create_fiat_payout", "purpose_code", ["01", "36"], ["1", "001", "ab"]),
    *(
        (
            name,
            "amount",
            ["0.000000000000000001", "1250.00", "1"],
            ["0", "-1", "1e3", "1,5", "0.0000000000000000001", "x"],
        )
        for name in ("withdraw", "pay", "payout", "submit_scan_to_pay", "scan_to_pay_info", "conversion_quote")
    ),
]


@pytest.mark.parametrize(("name", "field", "value"), [(n, f, v) for n, f, good, _ in LIMITS for v in good])
def test_a_value_within_the_limits_passes(name: str, field: str, value: str, examples: Examples) -> None:
    fields = examples[name]
    if value in ("on_line", "on_chain"):
        fields = without(without(fields, "payment_channel"), "payment_type")
    build(name, put(fields, field, value))


@pytest.mark.parametrize(("name", "field", "value"), [(n, f, v) for n, f, _, bad in LIMITS for v in bad])
def test_a_value_outside_the_limits_is_named(name: str, field: str, value: str, examples: Examples) -> None:
    assert field in problems(name, put(examples[name], field, value))


@pytest.mark.parametrize("name", ["withdraw", "payout", "conversion_quote"])
@pytest.mark.parametrize("value", [1.5, True, float("nan")])
def test_an_amount_is_never_a_float(name: str, value: object, examples: Examples) -> None:
    assert list(problems(name, {**examples[name], "amount": value})) == ["amount"]


def test_listed_values_are_accepted_in_any_letter_case_and_sent_as_listed(examples: Examples) -> None:
    assert build("conversion_rate", {"symbol": "ETH-USDT", "side": "sell"}).body()["side"] == "SELL"
    payout = examples["payout"] | {"payout_method": "WALLET_TRANSFER", "account_type": "phone"}
    assert build("payout", payout).body() == examples["payout"]


# Document: conditional fields. (operation, changes, the field named, or None when that is allowed)
CONDITIONS: list[tuple[str, dict[str, Any], str | None]] = [
    ("pay", {"payment_channel": None}, "payment_channel"),
    ("pay", {"payment_type": None}, "payment_type"),
    ("pay", {"payment_method": "on_line", "payment_channel": None, "payment_type": None}, None),
    ("pay", {"payment_method": "on_chain", "payment_channel": None, "payment_type": None}, None),
    ("pay", {"payment_method": "DIRECT", "payment_type": None}, "payment_type"),
    ("payout", {"account_type": None}, "account_type"),
    ("payout", {"wallet_code": None}, "wallet_code"),
    ("payout", {"bank_code": None}, None),
    ("payout", {"payout_method": "bank_transfer", "bank_code": None}, "bank_code"),
    ("payout", {"payout_method": "bank_transfer", "wallet_code": None, "account_type": None}, None),
    ("fiat_payout_quote", {"pay_amount": None}, "pay_amount"),
    ("fiat_payout_quote", {"quote_mode": "dest", "pay_amount": None}, "receive_amount"),
    ("fiat_payout_quote", {"quote_mode": "dest", "pay_amount": None, "receive_amount": "5"}, None),
    ("fiat_payout_quote", {"quote_mode": "dest", "pay_amount": None, "receive_amount": "0"}, "receive_amount"),
    ("fiat_payout_quote", {"individual_beneficiary": None}, "individual_beneficiary"),
    ("fiat_payout_quote", {"account_type": "ENTERPRISE", "individual_beneficiary": None}, "enterprise_beneficiary"),
]


@pytest.mark.parametrize(("name", "changes", "named"), CONDITIONS)
def test_a_conditional_field_is_required_exactly_under_its_condition(
    name: str, changes: dict[str, Any], named: str | None, examples: Examples
) -> None:
    fields = {key: value for key, value in (examples[name] | changes).items() if value is not None}
    if named is None:
        build(name, fields)
    else:
        assert list(problems(name, fields)) == [named]


def test_only_the_beneficiary_that_matches_the_account_type_is_allowed(
    examples: Examples, interface_examples: dict[str, Any]
) -> None:
    person, company = examples["fiat_payout_quote"], interface_examples["COMPANY"]
    assert list(problems("fiat_payout_quote", person | {"enterprise_beneficiary": company})) == [
        "enterprise_beneficiary"
    ]
    enterprise = without(person, "individual_beneficiary") | {
        "account_type": "ENTERPRISE",
        "enterprise_beneficiary": company,
    }
    assert build("fiat_payout_quote", enterprise).body() == enterprise
    for member in ("account_no", "bank_name", "address"):
        place = f"enterprise_beneficiary.{member}"
        assert list(problems("fiat_payout_quote", without(enterprise, place))) == [place]
    build("fiat_payout_quote", without(enterprise, "enterprise_beneficiary.company_name"))


def test_uploaded_kyc_carries_no_selfie(examples: Examples) -> None:
    face = examples["create_card_user"]["document"]["face"]
    found = problems("upload_kyc", put(examples["upload_kyc"], "document.face", face))
    assert found == {"document.face": "is not a field of this operation"}


def test_a_customer_may_be_an_object_or_its_json_and_travels_as_a_string(examples: Examples) -> None:
    pay = examples["pay"]
    body = build("pay", pay).body()
    assert isinstance(body["customer"], str)
    assert build("pay", pay | {"customer": json.dumps(pay["customer"])}).body() == body
    assert "customer" in problems("pay", pay | {"customer": "{broken"})
    assert problems("pay", put(pay, "customer.city", "Sintra")).keys() == {"customer.city"}


@pytest.mark.parametrize("name", CATALOGUE)
def test_masked_hides_every_personal_value_and_keeps_the_rest(
    name: str, examples: Examples, interface_examples: dict[str, Any]
) -> None:
    operation = build(name, examples[name])
    masked = json.dumps(operation.masked(), ensure_ascii=False)
    shown = [value for value in interface_examples["PERSONAL_VALUES"].get(name, ()) if value in masked]
    assert shown == []
    assert operation.masked().keys() == operation.body().keys()
    for field in ("request_id", "amount", "currency", "user_xid", "quote_mode", "symbol"):
        assert operation.masked().get(field) == operation.body().get(field)


def test_masked_hides_a_company_too(examples: Examples, interface_examples: dict[str, Any]) -> None:
    fields = without(examples["fiat_payout_quote"], "individual_beneficiary")
    company = interface_examples["COMPANY"]
    quote = build("fiat_payout_quote", fields | {"account_type": "ENTERPRISE", "enterprise_beneficiary": company})
    masked = str(quote.masked())
    assert [company[key] for key in ("account_no", "address", "company_name") if company[key] in masked] == []


PERSONAL_FIELDS: list[tuple[str, str, str]] = [
    ("payout", "account_no", "4000111122223333"),
    ("payout", "account_name", "Ann"),
    ("payout", "phone", "351900111222"),
    ("payout", "email", "zelda@example.com"),
    ("payout", "document_id", "39053344705"),
    ("pay", "customer.email", "zelda@example.com"),
    ("pay", "customer.name", "Zelda Quimby"),
    ("pay", "email", "zelda@example.com"),
    ("withdraw", "address", "TGTBAaw5mwpcLyqLpBb69noTtUfpqwzRZK"),
    ("create_card_user", "email", "zelda@example.com"),
    ("create_card_user", "individual.first_name", "Zelda"),
    ("create_card_user", "individual.date_of_birth", "17.04.1988"),
    ("create_card_user", "document.number", "P9988776655"),
    ("create_card_user", "document.front", "data:image/gif;base64,R0lGODlh"),
    ("create_card_user", "address.details", "Rua Inventada 7"),
    ("fiat_payout_quote", "individual_beneficiary.account_no", "DE02120300000000202051"),
    ("fiat_payout_quote", "individual_beneficiary.full_name", "Zelda Quimby"),
    ("fiat_payout_quote", "individual_beneficiary.nationality", "Portuguese"),
    ("fiat_payout_quote", "individual_beneficiary.gender", "feminine"),
    ("fiat_payout_quote", "individual_beneficiary.date_of_birth", "17.04.1988"),
    ("fiat_payout_quote", "beneficiaryFields.swift", "BYLADEM1001"),
    ("fiat_payout_quote", "beneficiaryFields.tax_id", "998877665544"),
    ("submit_scan_to_pay", "qrcode", "00020101021129370016A000000677010111"),
]


@pytest.mark.parametrize(("name", "field", "value"), PERSONAL_FIELDS)
@pytest.mark.parametrize("wrap", [lambda value: value, lambda value: [value], lambda value: {"x": value}])
def test_an_error_never_shows_a_personal_value(
    name: str, field: str, value: str, wrap: Any, examples: Examples
) -> None:
    broken = put(examples[name], field, wrap(value)) | {"unknown": value}
    with pytest.raises(InvalidFields) as caught:
        build(name, broken)
    error = caught.value
    shown = str(error) + repr(error) + repr(error.problems) + repr(error.__context__) * (not error.__suppress_context__)
    assert value not in shown


@pytest.mark.parametrize("name", CATALOGUE)
def test_an_error_of_an_operation_shows_nobodys_data(
    name: str, examples: Examples, interface_examples: dict[str, Any]
) -> None:
    with pytest.raises(InvalidFields) as caught:
        build(name, {**examples[name], "unknown": "x"})
    personal = interface_examples["PERSONAL_VALUES"].get(name, ())
    assert [value for value in personal if value in str(caught.value)] == []


def test_an_operation_cannot_be_changed(examples: Examples) -> None:
    operation = build("payout", examples["payout"])
    with pytest.raises(Exception, match="frozen"):
        operation.amount = 5


def test_blank_members_are_left_out_of_the_body(examples: Examples) -> None:
    blank = examples["payout"] | {"remark": "", "notify_url": None, "document_id": " ", "document_type": "null"}
    body = build("payout", blank).body()
    assert {"remark", "notify_url", "document_id", "document_type"} & body.keys() == set()


def test_a_broken_rule_does_not_hide_behind_another_in_other_letter_case(examples: Examples) -> None:
    quote = put(
        examples["fiat_payout_quote"] | {"account_type": "personal", "quote_mode": "SOURCE"}, "clear_network", ""
    )
    assert list(problems("fiat_payout_quote", quote)) == ["clear_network"]


@pytest.mark.parametrize("character", ["\x01", "\n", "\x7f", "\x85", "\u2028", "\u2029"])
@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("create_card_user", ("individual", "first_name")),
        ("upload_kyc", ("address", "city")),
        ("fiat_payout_quote", ("individual_beneficiary", "address")),
    ],
)
def test_what_cannot_be_signed_for_certain_inside_of_an_object_is_named(
    name: str, place: tuple[str, str], character: str, examples: Examples
) -> None:
    fields = put(examples[name], ".".join(place), f"Ring {character}1")
    assert set(problems(name, fields)) == {".".join(place)}
    build(name, put(fields, ".".join(place), "Ring 1, Köln"))


def test_a_name_inside_of_an_object_is_signed_for_certain_too(examples: Examples) -> None:
    fields = examples["fiat_payout_quote"] | {"beneficiaryFields": {"clear\nnetwork": "1"}}
    assert set(problems("fiat_payout_quote", fields)) == {"beneficiaryFields.clear\nnetwork"}
