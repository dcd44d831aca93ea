"""Who is let in, and in which order that is judged."""

import time
from typing import Any

import pytest

from tests.sandbox.builders import convert, fiat_quote, pay, payout, post, scan, settings, signed, withdraw
from treasury.errors import ConfigurationError, InvalidFields
from treasury.provider.catalogue import CATALOGUE
from treasury.provider.client import Client
from treasury.provider.orders import QueryTransaction
from treasury.sandbox import RunningSandbox, running_sandbox
from treasury.sandbox.handlers import HANDLERS


def ask(sandbox: RunningSandbox, body: object) -> str:
    """Ask for the USDT balance with this body; answers the envelope's code as text."""
    return str(post(sandbox, "/v1/balance/partner", body).json()["code"])


def test_every_operation_of_the_catalogue_has_a_handler() -> None:
    assert set(HANDLERS) == set(CATALOGUE)


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"\xff", b"1", b"[" * 100_000])
def test_what_is_no_json_object_is_refused_with_400(shared: RunningSandbox, body: bytes) -> None:
    answer = post(shared, "/v1/balance/partner", body)
    assert (answer.status_code, str(answer.json()["code"])) == (400, "400")


def test_an_unknown_partner_is_refused_before_the_signature_is_looked_at(shared: RunningSandbox) -> None:
    body = signed({"currency": "USDT"}) | {"partner_id": "900002"}
    assert ask(shared, body) == "401"


def test_a_changed_body_is_refused_with_406(shared: RunningSandbox) -> None:
    assert ask(shared, signed({"currency": "USDT"}) | {"currency": "ETH"}) == "406"
    assert ask(shared, {name: value for name, value in signed({"currency": "USDT"}).items() if name != "sign"}) == "406"


def test_a_signature_is_judged_before_a_timestamp_and_a_timestamp_before_fields(shared: RunningSandbox) -> None:
    assert ask(shared, signed({}, timestamp="1") | {"nonce": "another"}) == "406"
    assert ask(shared, signed({}, timestamp="1")) == "412"
    assert ask(shared, signed({})) == "400"


def test_seconds_and_milliseconds_are_both_taken(shared: RunningSandbox) -> None:
    assert ask(shared, signed({"currency": "USDT"}, timestamp=str(int(time.time())))) == "200"
    assert ask(shared, signed({"currency": "USDT"}, timestamp=int(time.time() * 1000))) == "200"


@pytest.mark.parametrize("off", [-301, 310])
def test_a_timestamp_out_of_the_window_is_refused_with_412(shared: RunningSandbox, off: int) -> None:
    assert ask(shared, signed({"currency": "USDT"}, timestamp=str(int(time.time() + off)))) == "412"


def test_a_nonce_serves_once(shared: RunningSandbox) -> None:
    body = signed({"currency": "USDT"})
    assert [ask(shared, body), ask(shared, body)] == ["200", "412"]
    assert ask(shared, signed({"currency": "USDT"}, nonce="")) == "412"


def test_unknown_fields_are_ignored_at_every_level(shared: RunningSandbox) -> None:
    fields = pay("gate-pay").body() | {"customer": '{"email":"a@example.com","country":"ID"}', "appId": "x"}
    assert post(shared, "/v1/order/pay", signed(fields)).json()["message"].lower() == "success"


@pytest.mark.parametrize(
    ("operation", "field"),
    [
        (withdraw("gate-1"), "address"),
        (payout("gate-2"), "bank_code"),
        (payout("gate-3"), "account_name"),
        (scan("gate-4"), "notify_url"),
        (convert("gate-5"), "side"),
        (fiat_quote("gate-6"), "pay_amount"),
        (fiat_quote("gate-7"), "individual_beneficiary"),
        (pay("gate-8"), "product_name"),
    ],
)
def test_a_missing_field_is_refused_with_400_that_names_it(shared: RunningSandbox, operation: Any, field: str) -> None:
    fields = operation.body()
    del fields[field]
    answer = post(shared, operation.path, signed(fields))
    assert answer.status_code == 400
    assert field in answer.json()["message"]
    with pytest.raises(InvalidFields):
        type(operation)(**fields)  # the client's own rules say the same


def test_a_path_that_does_not_exist_is_404(shared: RunningSandbox) -> None:
    assert post(shared, "/v1/order/nothing", {}).status_code == 404


def test_code_and_message_come_in_both_ways(client: Client, shared: RunningSandbox) -> None:
    answers = [post(shared, "/v1/balance/partner", signed({"currency": "USDT"})).json() for _ in range(40)]
    assert {type(answer["code"]) for answer in answers} == {int, str}
    assert {answer["message"] for answer in answers} == {"success", "Success"}


def test_a_sandbox_without_a_usable_key_does_not_start() -> None:
    for key in ("", "nonsense"):
        with pytest.raises(ConfigurationError), running_sandbox(settings(public_key=key)):
            pass


def test_an_unknown_fault_does_not_start() -> None:
    with pytest.raises(ConfigurationError, match="drop_before"), running_sandbox(settings(faults={"nothing": 1})):
        pass


def test_a_taken_port_is_a_configuration_error(shared: RunningSandbox) -> None:
    port = int(shared.base_url.rsplit(":", 1)[1])
    assert port not in range(8000, 9000)
    with pytest.raises(ConfigurationError, match=str(port)), running_sandbox(settings(port=port)):
        pass


def test_metadata_of_a_query_is_a_json_string(client: Client) -> None:
    client.send(withdraw("gate-meta", description="rent"))
    record = client.send(QueryTransaction(request_id="gate-meta"))
    assert isinstance(record.metadata, str)
    assert record.details is not None
    assert record.details["description"] == "rent"
    assert record.details["txnHash"]
