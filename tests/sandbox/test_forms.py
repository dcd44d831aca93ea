"""The sandbox's tables are its own reading of the document: where the client's catalogue differs, it shows here."""

import json
import re
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, cast, get_args

import pytest
from pydantic import BaseModel

import treasury.sandbox
from tests.interface.examples import COMPANY, EXAMPLES
from tests.sandbox.builders import IMAGE, card_user, fiat_quote, pay, payout, post, refused, signed, withdraw
from treasury.provider import fields as client_fields
from treasury.provider.catalogue import CATALOGUE
from treasury.provider.client import Client
from treasury.provider.operation import Conditional, Effect, members, wire_name
from treasury.provider.orders import Payout
from treasury.sandbox import RunningSandbox
from treasury.sandbox.forms import REQUESTS
from treasury.sandbox.forms import kinds as k
from treasury.sandbox.forms.form import Broken, Form, When

every_request = pytest.mark.parametrize("name", REQUESTS)

Line = tuple[bool, str, tuple[str, ...], tuple[int, int | None]]
"""Of one field: is it required, its kind, its choices, its bounds."""

TELLS = ("is required on one side only", "is of another kind", "takes other choices", "has other bounds")
"""How a difference in each part of a line is told."""

KINDS = {
    "_positive": "amount",
    "_country": "country",
    "_fiat": "fiat currency",
    "_date": "date",
    "_image": "image",
    "_any_image": "image",
}
"""Function of the client's validator -> what the sandbox calls that kind."""


def own_lines(form: type[Form], above: str = "") -> Iterator[tuple[str, Line]]:
    for field in form.fields.values():
        yield (
            above + field.wire,
            (
                field.required,
                field.kind.name,
                field.kind.choices,
                field.kind.bounds,
            ),
        )
        if field.kind.inside is not None:
            yield from own_lines(field.kind.inside, f"{above}{field.wire}.")


def client_lines(model: type[BaseModel], above: str = "") -> Iterator[tuple[str, Line]]:
    for attribute, field in model.model_fields.items():
        wire = wire_name(model, attribute)
        marks = [*field.metadata, *_marks(field.annotation)]
        nested = members(model)[wire][1]
        kind = _kind(marks, nested, str(field.annotation))
        yield above + wire, (field.is_required(), kind, _choices(marks), _bounds(marks))
        if nested is not None:
            yield from client_lines(nested, f"{above}{wire}.")


def _marks(annotation: Any) -> Iterator[Any]:
    yield from getattr(annotation, "__metadata__", ())
    for inner in get_args(annotation):
        yield from _marks(inner)


def _kind(marks: list[Any], nested: Any, annotation: str) -> str:
    if nested is not None:
        return "JSON text" if any(type(mark).__name__ == "BeforeValidator" for mark in marks) else "object"
    functions = [getattr(mark, "func", None) for mark in marks]
    named = [KINDS[name] for each in functions if (name := getattr(each, "__name__", "")) in KINDS]
    patterns = [mark.pattern for mark in marks if getattr(mark, "pattern", None)]
    if "dict" in annotation:
        return "object of texts"
    if patterns:
        return "purpose" if "2" in patterns[0] else "symbol"
    return named[0] if named else "enumeration" if _choices(marks) else "text"


def _choices(marks: list[Any]) -> tuple[str, ...]:
    """The values of an enumeration, or the types of an image."""
    for mark in marks:
        function = getattr(mark, "func", None)
        if function is cast(Any, client_fields.Image).__metadata__[0].func:
            return ("image/jpeg", "image/png")
        if isinstance(function, client_fields.OneOf):
            return function.values
    return ()


def _bounds(marks: list[Any]) -> tuple[int, int | None]:
    least: int = 0
    most: int | None = None
    for mark in marks:
        least = getattr(mark, "min_length", None) or least
        most = getattr(mark, "max_length", None) or most
    return least, most


def rules_of(rules: Any) -> dict[Any, bool]:
    """Rule -> whether it also forbids the field otherwise."""
    found: dict[Any, bool] = {}
    for rule in rules:
        if isinstance(rule, Conditional):
            found |= {(rule.field, rule.when, value): rule.exclusive for value in rule.values}
        elif isinstance(rule, When):
            found[rule.field, rule.other, rule.value] = rule.only
        else:
            found[rule.field, rule.other] = False
    return found


def differences(name: str) -> set[str]:
    form, operation = REQUESTS[name], CATALOGUE[name]
    own, theirs = dict(own_lines(form)), dict(client_lines(operation))
    found = {f"{place}: only the sandbox has it" for place in own.keys() - theirs.keys()}
    found |= {f"{place}: only the client has it" for place in theirs.keys() - own.keys()}
    for place in own.keys() & theirs.keys():
        for told, ours, other in zip(TELLS, own[place], theirs[place], strict=True):
            if ours != other:
                found.add(f"{place}: {told}")
    own_rules, their_rules = rules_of(form.rules), rules_of(operation.rules)
    found |= {f"{rule[0]}: only one side has the rule {rule}" for rule in own_rules.keys() ^ their_rules.keys()}
    for rule in own_rules.keys() & their_rules.keys():
        if own_rules[rule] != their_rules[rule]:
            side = "sandbox" if own_rules[rule] else "client"
            found.add(f"{rule[0]}: the {side} alone forbids it otherwise")
    return found


@every_request
def test_the_table_and_the_clients_catalogue_say_the_same(name: str) -> None:
    assert differences(name) == set()


@every_request
def test_path_reference_and_effect_are_the_clients(name: str) -> None:
    form, operation = REQUESTS[name], CATALOGUE[name]
    reference = None if form.reference is None else form.fields[form.reference].wire
    assert (form.path, reference) == (operation.path, operation.reference)
    assert form.acts == (operation.effect is not Effect.READS)


def test_both_know_the_same_operations() -> None:
    assert list(REQUESTS) == list(CATALOGUE)


@every_request
def test_kinds_take_the_same_values_as_the_client(name: str) -> None:
    form, whole = REQUESTS[name], EXAMPLES[name]
    assert form.read(whole).body() == json.loads(json.dumps(whole))
    assert form.read(CATALOGUE[name](**whole).body()).body().keys() == whole.keys()


class CarelessPayout(Payout):
    """A client's model with a mistake: the document requires `phone`."""

    phone: str | None = None  # type: ignore[assignment]


def test_a_mistake_in_a_clients_model_is_revealed(shared: RunningSandbox, client: Client) -> None:
    fields = payout("careless").body()
    del fields["phone"]
    refusal = refused(client, CarelessPayout(**fields))
    assert (refusal.http_status, refusal.code) == (400, "400")
    assert "payout: phone: is required" in refusal.message
    assert not [order for order in shared.orders() if order["request_id"] == "careless"]


@pytest.mark.parametrize(
    ("name", "changed", "place"),
    [
        ("payout", {"phone": None}, "phone: is required"),
        ("payout", {"account_name": "Zoë"}, "account_name: must have 5 to 100"),
        ("payout", {"remark": "r" * 41}, "remark: has at most 40"),
        ("payout", {"payout_method": "wallet_transfer", "account_type": ""}, "account_type: is required when"),
        ("payout", {"payout_method": "wallet_transfer", "account_type": "UID"}, "account_type: must be one of PHONE"),
        ("payout", {"amount": True}, "amount: must be"),
        ("payout", {"amount": "1e3"}, "amount: must be"),
        ("payout", {"amount": "0"}, "amount: must be greater than zero"),
        ("payout", {"country": "\ud800"}, "country: must be a text of whole"),
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
    ],
)
def test_what_a_careless_client_sends_is_refused(
    shared: RunningSandbox, name: str, changed: dict[str, Any], place: str
) -> None:
    sent = {key: value for key, value in {**EXAMPLES[name], **changed}.items() if value is not None}
    if place.startswith("country: must be a text"):
        with pytest.raises(Broken, match=place):  # no HTTP library sends half a character
            REQUESTS[name].read(sent)
        return
    answer = post(shared, REQUESTS[name].path, signed(sent))
    assert (answer.status_code, str(answer.json()["code"])) == (400, "400")
    assert place in answer.json()["message"]


@pytest.mark.parametrize(
    ("member", "value", "place"),
    [
        ("front", "data:image/gif;base64,R0lGODdh", "document.front"),
        ("front", "data:image/png;base64,", "document.front"),
        ("front", "data:image/png;base64,???", "document.front"),
        ("face", "data:image/webp;base64,R0lGODdh", "document.face"),
        ("back", "data:text/plain;base64,R0lGODdh", "document.back"),
        ("type", "passport", "document.type"),
        ("country", "Germany", "document.country"),
        ("expiry_date", "2031-02-30", "document.expiry_date"),
        ("expiry_date", "31.01.2031", "document.expiry_date"),
    ],
)
def test_members_of_a_document_are_judged_and_named(
    shared: RunningSandbox, member: str, value: str, place: str
) -> None:
    fields = card_user("u-forms").body()
    answer = post(shared, "/v1/carduser/create", signed({**fields, "document": {**fields["document"], member: value}}))
    assert answer.status_code == 400
    assert place in answer.json()["message"]


def test_the_back_of_a_document_may_be_any_image(shared: RunningSandbox) -> None:
    fields = card_user("u-back").body()
    fields["document"]["back"] = "data:image/webp;base64,R0lGODdh"
    assert post(shared, "/v1/carduser/create", signed(fields)).status_code == 200


def test_all_that_is_wrong_is_named_at_once(shared: RunningSandbox) -> None:
    message = post(shared, "/v1/order/withdraw", signed({"amount": "x"})).json()["message"]
    for place in ("request_id", "currency", "address", "amount", "customer_ref_id"):
        assert f"{place}: " in message


@pytest.mark.parametrize("travels", [json.dumps, dict])
def test_a_customer_is_taken_as_the_vendors_examples_send_it(shared: RunningSandbox, travels: Any) -> None:
    customer = {
        "country": "BR",
        "name": "Ana",
        "email": "a@example.com",
        "phone": "5511999999999",
        "phoneAreaCode": "55",
        "documentId": "39053344705",
        "documentType": "CPF",
        "document_id": "39053344705",
        "document_type": "CPF",
        "birthday": {"of": "no field"},
    }
    fields = pay(f"customer-{travels.__name__}").body() | {"customer": travels(customer)}
    assert post(shared, "/v1/order/pay", signed(fields)).status_code == 200
    refused = post(shared, "/v1/order/pay", signed(fields | {"customer": travels({**customer, "documentId": 7})}))
    assert "customer.documentId: must be a text" in refused.json()["message"]


@pytest.mark.parametrize("blank", [None, "", " \t", "null", [], {}, {"unknown": 1}])
def test_blank_members_count_as_absent(shared: RunningSandbox, blank: Any) -> None:
    fields = fiat_quote(f"blank-{blank}").body() | {"enterprise_beneficiary": blank}
    assert post(shared, "/v1/fiatpayout/payouts/quote", signed(fields)).status_code == 200


def test_a_quote_may_carry_the_other_amount_which_does_not_count(shared: RunningSandbox) -> None:
    path = "/v1/fiatpayout/payouts/quote"
    for other in ("7", "0"):
        fields = fiat_quote(f"both-source-{other}").body() | {"receive_amount": other}
        source = post(shared, path, signed(fields)).json()["data"]
        assert (source["pay_amount"], source["receive_amount"] != other) == ("100", True)
    dest = fiat_quote("both-dest", quote_mode="dest", pay_amount=None, receive_amount="50").body() | {"pay_amount": "1"}
    assert post(shared, path, signed(dest)).json()["data"]["receive_amount"] == "50"


def test_words_are_taken_in_any_letter_case(shared: RunningSandbox) -> None:
    fields = payout("cases").body() | {"payout_method": "BANK_TRANSFER"}
    assert post(shared, "/v1/order/payout", signed(fields)).status_code == 200


def test_amounts_may_be_json_numbers(shared: RunningSandbox) -> None:
    assert (
        post(shared, "/v1/order/withdraw", signed(withdraw("number-field").body() | {"amount": 25})).status_code == 200
    )


def test_what_is_read_is_what_was_asked() -> None:
    form = REQUESTS["fiat_payout_quote"].read(EXAMPLES["fiat_payout_quote"])
    assert form.pay_amount == Decimal("100.00")  # type: ignore[attr-defined]
    assert form.individual_beneficiary.account_no == "DE02120300000000202051"  # type: ignore[attr-defined]
    assert form.enterprise_beneficiary is None  # type: ignore[attr-defined]
    assert k.image("image/png").read(IMAGE) == IMAGE


def test_the_sandbox_judges_without_the_clients_models() -> None:
    """It shares with the client how JSON is read, how texts are signed and what operations are called, and no more."""
    folder = Path(treasury.sandbox.__file__).parent
    text = "".join(file.read_text() for file in folder.rglob("*.py"))
    assert set(re.findall(r"treasury\.provider[.\w]*", text)) == {
        "treasury.provider.bounded_json",
        "treasury.provider.catalogue",
        "treasury.provider.service_rules",
        "treasury.provider.signing",
    }
