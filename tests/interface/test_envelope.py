"""Answers: every shape the document and the public facts show, and every way in which one can be broken."""

import json
from decimal import Decimal
from typing import Any

import pytest

from treasury.errors import OutcomeUnknown, Refused
from treasury.provider.answers import read_answer
from treasury.provider.bounded_json import read_json
from treasury.provider.card_users import ChangeCardUserEmail, QueryCardUser
from treasury.provider.catalogue import CATALOGUE
from treasury.provider.conversion import ConversionQuote, ConversionRate
from treasury.provider.envelope import read_reply
from treasury.provider.fiat_payouts import RemittancePurposes, SupportedFields
from treasury.provider.funds import EstimateFee, PartnerBalance
from treasury.provider.operation import Operation, wire_name
from treasury.provider.orders import Payout, QueryTransaction
from treasury.provider.scan_to_pay import SubmitScanToPay
from treasury.provider.status import OrderStatus

PAYOUT = {
    "request_id": "r-1",
    "partner_id": "900001",
    "order_no": "n-1",
    "currency": "USDT",
    "order_amount": "12.50",
    "status": 11,
}


def body(data: object = PAYOUT, **envelope: Any) -> bytes:
    return json.dumps({"code": 200, "message": "success", "data": data} | envelope).encode()


@pytest.mark.parametrize("code", [200, "200", " 200 "])
@pytest.mark.parametrize("message", ["success", "Success", "SUCCESS", "", None])
def test_success_is_the_code_in_either_form_whatever_the_message(code: object, message: str | None) -> None:
    reply = read_reply(Payout, 200, body(code=code, message=message))
    assert (reply.order_no, reply.order_amount, reply.status) == ("n-1", Decimal("12.50"), OrderStatus.SUBMITTED)
    assert reply.envelope["code"] == code


@pytest.mark.parametrize("code", [406, "406"])
@pytest.mark.parametrize("status", [200, 400, 500])
def test_another_code_is_a_refusal_that_keeps_code_status_and_message(code: object, status: int) -> None:
    with pytest.raises(Refused) as caught:
        read_reply(Payout, status, body(None, code=code, message="SIGN_ERROR"))
    assert (caught.value.code, caught.value.http_status, caught.value.message) == ("406", status, "SIGN_ERROR")


@pytest.mark.parametrize("code", [None, True, [], {}, 200.0, "2000", "0200", "ok"])
def test_what_is_not_the_code_of_success_is_not_success(code: object) -> None:
    with pytest.raises((Refused, OutcomeUnknown)):
        read_reply(Payout, 200, body(code=code))


def test_an_envelope_without_a_code_is_not_success() -> None:
    with pytest.raises((Refused, OutcomeUnknown)):
        read_reply(Payout, 200, json.dumps({"message": "success", "data": PAYOUT}).encode())


@pytest.mark.parametrize("status", [301, 400, 500, 502])
def test_success_under_an_http_error_is_unknown(status: int) -> None:
    with pytest.raises(OutcomeUnknown) as caught:
        read_reply(Payout, status, body())
    assert caught.value.http_status == status


UNREADABLE = [
    b"",
    b"null",
    b"[]",
    b'"success"',
    b"<html><body>502 Bad Gateway</body></html>",
    body()[:-5],
    body() + b"}",
    b"\xff\xfe",
    b"[" * 100_000,
    body().replace(b'"12.50"', b"NaN"),
    body().replace(b'"12.50"', b"-Infinity"),
]


@pytest.mark.parametrize("content", UNREADABLE)
def test_an_unreadable_answer_under_200_is_unknown(content: bytes) -> None:
    with pytest.raises(OutcomeUnknown):
        read_reply(Payout, 200, content)


@pytest.mark.parametrize("content", UNREADABLE)
@pytest.mark.parametrize("status", [400, 404, 500, 503])
def test_an_unreadable_answer_under_an_http_error_keeps_the_status(content: bytes, status: int) -> None:
    with pytest.raises(Refused) as caught:
        read_reply(Payout, status, content)
    assert (caught.value.http_status, caught.value.code) == (status, None)


@pytest.mark.parametrize("data", [[], "text", 7, True])
def test_data_that_is_no_object_is_unknown(data: object) -> None:
    with pytest.raises(OutcomeUnknown, match="data"):
        read_reply(Payout, 200, body(data))


@pytest.mark.parametrize("data", [None, {}])
def test_absent_data_is_an_empty_reply(data: object) -> None:
    reply = read_reply(Payout, 200, body(data))
    assert (reply.order_no, reply.status) == (None, None)


@pytest.mark.parametrize(
    ("field", "value"),
    [("order_amount", "twelve"), ("order_amount", "1e300"), ("order_amount", {}), ("status", "done"), ("order_no", [])],
)
def test_a_field_that_cannot_be_read_is_unknown_and_named(field: str, value: object) -> None:
    with pytest.raises(OutcomeUnknown, match=field):
        read_reply(Payout, 200, body(PAYOUT | {field: value}))


def test_fields_the_interface_does_not_name_are_kept() -> None:
    reply = read_reply(Payout, 200, body(PAYOUT | {"pay_currency": "TRX", "nested": {"a": 1}}, trace="t-1"))
    assert reply.model_extra == {"pay_currency": "TRX", "nested": {"a": 1}}
    assert reply.envelope["trace"] == "t-1"


@pytest.mark.parametrize("number", [12, 0, 7, 100, -1])
def test_an_unknown_status_is_kept_unclassified_and_not_final(number: int) -> None:
    status = read_reply(Payout, 200, body(PAYOUT | {"status": number})).status
    assert status is not None
    assert int(status) == number
    assert not status.is_classified
    assert not status.is_final
    assert not status.is_payment


@pytest.mark.parametrize(
    ("number", "final", "payment"),
    [(11, False, False), (22, False, True), (44, True, True), (88, True, True), (99, True, True)],
)
def test_known_statuses_say_whether_they_are_final(number: int, final: bool, payment: bool) -> None:
    status = OrderStatus(number)
    assert (status.is_classified, status.is_final, status.is_payment) == (True, final, payment)


def test_numbers_with_a_point_are_exact() -> None:
    content = body().replace(b'"12.50"', b"0.100000000000000001")
    assert read_reply(Payout, 200, content).order_amount == Decimal("0.100000000000000001")
    assert read_json(b'{"a": 0.1}') == {"a": Decimal("0.1")}


@pytest.mark.parametrize(
    ("text", "amount"), [("", None), (" ", None), (None, None), (5, Decimal(5)), ("0", Decimal(0))]
)
def test_amounts_may_be_blank_or_whole_numbers(text: object, amount: Decimal | None) -> None:
    assert read_reply(Payout, 200, body(PAYOUT | {"order_amount": text})).order_amount == amount


@pytest.mark.parametrize("blank", [None, "", " ", "null"])
@pytest.mark.parametrize("operation", CATALOGUE.values(), ids=CATALOGUE)
def test_a_blank_field_of_an_answer_is_an_absent_one(operation: type[Operation[Any]], blank: str | None) -> None:
    """As in a request (public fact 1.2, step 9): an empty `finish_time` made an answer unreadable."""
    model = operation.reply_type()
    said = {wire_name(model, name): blank for name in model.model_fields}
    reply = read_reply(operation, 200, body(said))
    assert {getattr(reply, name) for name in model.model_fields} <= {None}
    assert reply.unread() is None


def test_identifiers_may_come_as_numbers() -> None:
    assert read_reply(Payout, 200, body(PAYOUT | {"order_no": 20261103})).order_no == "20261103"


TRANSACTION = {
    "order_no": "n-1",
    "request_id": "r-1",
    "order_type": "charge",
    "order_amount": "0.1",
    "arrive_amount": "0.099",
    "fee_amount": "0.001",
    "finish_time": "1790000000",
    "status": 99,
    "reason": "",
}


@pytest.mark.parametrize(
    ("metadata", "details"),
    [
        ('{"txnHash": "0x1", "numOfConfirms": "12"}', {"txnHash": "0x1", "numOfConfirms": "12"}),
        ({"txnHash": "0x1"}, {"txnHash": "0x1"}),
        (None, {}),
        ("", {}),
        ('{"txnHash": "0x1', None),
        ("[1]", None),
        ("plain text", None),
    ],
)
def test_metadata_is_a_json_string_and_a_broken_one_stops_nothing(metadata: object, details: object) -> None:
    reply = read_reply(QueryTransaction, 200, body(TRANSACTION | {"metadata": metadata}))
    assert reply.details == details
    if isinstance(metadata, str):
        assert reply.metadata == (metadata or None)


def test_an_order_is_seen_with_its_amounts() -> None:
    order = read_reply(QueryTransaction, 200, body(TRANSACTION)).as_order()
    assert (order.amount, order.arrive_amount, order.fee) == (Decimal("0.1"), Decimal("0.099"), Decimal("0.001"))
    assert (order.status, order.reason, order.finish_time) == (OrderStatus.SUCCESS, None, "1790000000")


def test_a_currency_is_one_in_any_letters() -> None:
    """A service that answers in small letters had each payment unknown, and each invoice held."""
    order = read_reply(QueryTransaction, 200, body(TRANSACTION | {"currency": "usdt_trc20"})).as_order()
    quote = read_reply(ConversionQuote, 200, body({"payCurrency": "usdt", "settleCurrency": "Eth"}))
    assert (order.currency, quote.pay_currency, quote.settle_currency) == ("USDT_TRC20", "USDT", "ETH")


def test_camel_case_names_of_the_wire_are_read() -> None:
    assert read_reply(SubmitScanToPay, 200, body({"orderNo": "n-1", "status": 22})).order_no == "n-1"
    quote = read_reply(ConversionQuote, 200, body({"quoteId": "q", "payAmt": "1", "settleAmt": "2", "expiredMills": 5}))
    assert (quote.quote_id, quote.pay_amount, quote.settle_amount, quote.expires_ms) == ("q", Decimal(1), Decimal(2), 5)
    rate = read_reply(ConversionRate, 200, body({"rate": "2659.5569", "timeMills": 1, "expiredMills": 60001}))
    assert (rate.rate, rate.time_ms, rate.expires_ms) == (Decimal("2659.5569"), 1, 60001)
    balance = read_reply(PartnerBalance, 200, body({"balance": "5", "availableBalance": "3", "freezeBalance": "2"}))
    assert (balance.balance, balance.available, balance.frozen) == (Decimal(5), Decimal(3), Decimal(2))


@pytest.mark.parametrize("data", [{"success": True}, {"success": True, "user": "88"}])
def test_the_email_change_answers_without_an_envelope(data: dict[str, Any]) -> None:
    assert read_reply(ChangeCardUserEmail, 200, json.dumps(data).encode()).success is True


def test_an_email_change_that_did_not_succeed_is_a_refusal() -> None:
    with pytest.raises(Refused):
        read_reply(ChangeCardUserEmail, 200, b'{"success": false}')


@pytest.mark.parametrize("status", [301, 400, 500])
def test_an_email_change_that_succeeded_under_an_http_error_is_unknown(status: int) -> None:
    with pytest.raises(OutcomeUnknown):
        read_reply(ChangeCardUserEmail, status, b'{"success": true}')


@pytest.mark.parametrize("content", [b'{"success": "true"}', b'{"success": 1}', b"{}"])
def test_success_is_a_boolean_and_nothing_else(content: bytes) -> None:
    with pytest.raises((Refused, OutcomeUnknown)):
        read_reply(ChangeCardUserEmail, 200, content)


def test_another_operation_does_not_accept_success_without_an_envelope() -> None:
    with pytest.raises((Refused, OutcomeUnknown)):
        read_reply(QueryCardUser, 200, b'{"success": true}')


def test_an_email_change_in_an_envelope_is_read_as_any_other() -> None:
    assert read_reply(ChangeCardUserEmail, 200, body({"success": True})).success is True
    with pytest.raises(Refused):
        read_reply(ChangeCardUserEmail, 200, body(None, code=400))


def test_lists_and_free_members_of_lookups_are_read() -> None:
    fields = [{"key": "swift", "label": "SWIFT", "required": True}]
    assert read_reply(SupportedFields, 200, body({"fields": fields})).fields_ == fields
    assert read_reply(RemittancePurposes, 200, body({"01": "own account", "02": "family"})).purposes == {
        "01": "own account",
        "02": "family",
    }


@pytest.mark.parametrize(
    ("asked", "said", "is_read"),
    [
        (PartnerBalance(currency="ETH"), {"currency": "BTC", "availableBalance": "3"}, False),
        (PartnerBalance(currency="ETH"), {"currency": "eth", "availableBalance": "3"}, True),
        (PartnerBalance(currency="ETH"), {"availableBalance": "3"}, True),
        (PartnerBalance(currency="ETH_ERC20"), {"currency": "ETH", "availableBalance": "3"}, True),
        (PartnerBalance(currency="ETH"), {"currency": "BTC_ETH", "availableBalance": "3"}, False),
        (EstimateFee(currency="ETH", amount=Decimal(1)), {"currency": "BTC", "fee_amount": "3"}, False),
        (ConversionRate(symbol="ETH-USDT", side="SELL"), {"symbol": "BTC-USDT", "rate": "65000"}, False),
        (ConversionRate(symbol="ETH-USDT", side="SELL"), {"symbol": "ETH-USDT", "rate": "2600"}, True),
        (ConversionRate(symbol="ETH-USDT", side="SELL"), {"symbol": "ETH/USDT", "rate": "2600"}, True),
    ],
)
def test_an_answer_about_something_else_is_none(asked: Operation[Any], said: dict[str, str], is_read: bool) -> None:
    """A balance or rate of another asset was planned with, and traded by."""
    if is_read:
        assert read_answer(asked, 200, body(said)) is not None
        return
    with pytest.raises(OutcomeUnknown, match="the answer is about BTC"):
        read_answer(asked, 200, body(said))
