"""Deposit addresses that the service disowns, or does not answer about."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.engine.answers import BUSY
from treasury.collect.issuing_addresses import issue_addresses
from treasury.payments.desk import Desk
from treasury.sheets.deposit_addresses_sheet import AddressRow

OpenDesk = Callable[..., Desk]
ROW = AddressRow(2, "d-1", "ETH", "ann")
ASKED, VERIFIED = "/v1/order/deposit_address", "/v1/order/verifyDepositAddress"
ANSWER = (200, {"code": 200, "data": {"currency": "ETH", "address": "0xabc", "tag": ""}})


@pytest.mark.parametrize("verdict", [False, None])
def test_an_address_that_is_not_the_services_own_is_not_given_out(
    verdict: bool | None, open_desk: OpenDesk, service: Any
) -> None:
    desk = open_desk(service.base_url)
    for _ in range(2):
        service.plan(ASKED, ANSWER)
        service.plan(VERIFIED, (200, {"code": 200, "data": {"result": verdict}}))
        [found] = issue_addresses(desk, [ROW])
        assert (found["outcome"], "do not give it to anybody" in found["reason"]) == ("rejected", True)
    assert len(service.sent_to(ASKED)) == 2  # it was not kept


def test_an_address_is_asked_for_once_and_verified_each_time(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url)
    service.plan(ASKED, ANSWER)
    service.plan(VERIFIED, (200, {"code": 200, "data": {"result": True}}))
    assert [each["outcome"] for each in issue_addresses(desk, [ROW])] == ["issued"]
    service.plan(VERIFIED, (200, {"code": 200, "data": {"result": True}}))
    assert [each["outcome"] for each in issue_addresses(desk, [ROW])] == ["known"]
    assert (len(service.sent_to(ASKED)), len(service.sent_to(VERIFIED))) == (1, 2)


def test_an_answer_without_an_address_is_not_known(open_desk: OpenDesk, service: Any) -> None:
    service.plan(ASKED, (200, {"code": 200, "data": {}}))
    [found] = issue_addresses(open_desk(service.base_url), [ROW])
    assert (found["outcome"], found["address"]) == ("unknown", None)


def test_an_address_of_another_asset_is_not_given_out(open_desk: OpenDesk, service: Any) -> None:
    """A deposit that is sent there on the chain of the asset that was asked for may be lost."""
    desk = open_desk(service.base_url)
    service.plan(ASKED, (200, {"code": 200, "data": {"currency": "USDT_TRC20", "address": "0xabc", "tag": ""}}))
    service.plan(VERIFIED, (200, {"code": 200, "data": {"result": True}}))
    [found] = issue_addresses(desk, [ROW])
    assert (found["outcome"], "USDT_TRC20" in found["reason"], found["qr"]) == ("rejected", True, None)


@pytest.mark.parametrize("path", [ASKED, VERIFIED])
@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        *((answer, "unknown") for answer in BUSY),
        ((200, {"code": 7002, "message": "CURRENCY_NOT_SUPPORT"}), "rejected"),
        ((200, {"code": 400, "message": "INVALID_REQUEST"}), "rejected"),
    ],
)
def test_a_service_that_is_busy_rejects_nothing(
    open_desk: OpenDesk, service: Any, path: str, answer: Any, outcome: str
) -> None:
    service.plan(ASKED, *([ANSWER] if path == VERIFIED else []), *[answer] * 8)
    service.plan(VERIFIED, *[answer] * 8)
    [found] = issue_addresses(open_desk(service.base_url), [ROW])
    assert (found["outcome"], "run it again" in found["reason"]) == (outcome, outcome == "unknown")
