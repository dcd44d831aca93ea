"""Requests that the sandbox takes, and those that it refuses with the place."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

import treasury.sandbox
from tests.interface.careless import CARELESS
from tests.interface.examples import EXAMPLES
from tests.sandbox.builders import card_user, fiat_quote, pay, payout, post, signed, withdraw
from treasury.provider.catalogue import CATALOGUE
from treasury.sandbox import RunningSandbox


@pytest.mark.parametrize(("name", "changed", "place"), CARELESS)
def test_what_a_careless_client_sends_is_refused(
    shared: RunningSandbox, name: str, changed: dict[str, Any], place: str
) -> None:
    sent = {key: value for key, value in {**EXAMPLES[name], **changed}.items() if value is not None}
    answer = post(shared, CATALOGUE[name].path, signed(sent))
    assert (answer.status_code, str(answer.json()["code"])) == (400, "400")
    assert place.partition(": ")[0] + ": " in answer.json()["message"]


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
    assert "customer.documentId: is a text" in refused.json()["message"]


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


def test_the_sandbox_signs_with_code_of_its_own() -> None:
    """It shares the catalogue with the client, and how JSON and keys are read; not how a text is signed or sent."""
    folder = Path(treasury.sandbox.__file__).parent
    text = "".join(file.read_text() for file in folder.rglob("*.py"))
    assert set(re.findall(r"treasury\.provider\.(?:signing|client|service_rules|envelope).*", text)) == {
        "treasury.provider.signing import load_private_key",
        "treasury.provider.signing import load_public_key",
    }
