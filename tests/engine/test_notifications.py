"""Notifications in the ledger, on both databases: kept once each, matched with orders of ours, and shown where they
name none."""

from collections.abc import Callable

import pytest

from tests.engine.intents import commit
from treasury.ledger.ledger import Ledger
from treasury.ledger.notifications import (
    Taken,
    keep_notifications,
    open_notices,
    orders_of,
    take,
    unknown_notices,
    users_of,
)
from treasury.ledger.seen_card_users import saw_card_user
from treasury.ledger.snapshots import expect_receipts, expected_receipts
from treasury.provider.card_users import CardUserRecord

pytestmark = pytest.mark.both_databases

OpenLedger = Callable[..., Ledger]


def test_each_is_kept_once_whoever_keeps_it(open_ledger: OpenLedger) -> None:
    body = {"request_id": "d-1", "order_type": "charge", "status": 99}
    again = {**body, "sign": "other", "timestamp": "2", "nonce": "n"}
    assert keep_notifications(open_ledger(), [body, again]) == 1
    assert keep_notifications(open_ledger(), [again, {**body, "status": 22}]) == 1
    assert [(each.request_id, each.status) for each in open_notices(open_ledger(), 9)] == [("d-1", "99"), ("d-1", "22")]


def test_whatever_is_said_fits_into_the_ledger(open_ledger: OpenLedger) -> None:
    odd = {"request_id": "r" * 999, "currency": "C\x00" * 99, "order_no": "\ud800", "status": {"a": [1]}}
    assert keep_notifications(open_ledger(), [odd, {"status": None, "order_amount": " "}]) == 2
    first, second = open_notices(open_ledger(), 9)
    assert (len(first.request_id or ""), len(first.currency or "")) == (200, 40)
    assert (second.status, second.amount) == (None, None)


def test_an_order_is_named_by_its_request_id_or_its_number(open_ledger: OpenLedger) -> None:
    ledger = open_ledger()
    [one, two] = commit(ledger, "a", "b")
    ledger.note(two, order_no="2026-7")
    named = [{"request_id": one.request_id}, {"request_id": "theirs", "order_no": "2026-7"}, {"order_no": "2026-8"}]
    keep_notifications(ledger, named)
    notices = open_notices(ledger, 9)
    assert list(orders_of(ledger, notices).values()) == [one.id, two.id]
    take(ledger, {notices[0].id: Taken.ORDER, notices[2].id: Taken.UNKNOWN})
    assert [each.id for each in open_notices(ledger, 9)] == [notices[1].id]
    assert [each.order_no for each in unknown_notices(ledger, ledger.now())] == ["2026-8"]
    assert unknown_notices(ledger, notices[2].received_at - 1) == []


def test_money_that_comes_in_is_an_order_of_ours_by_its_request_id_alone(open_ledger: OpenLedger) -> None:
    """A service may count deposits by themselves: the first one has the number of the first payout."""
    ledger = open_ledger()
    [order] = commit(ledger, "a")
    ledger.note(order, order_no="1")
    named = [
        {"request_id": "d-1", "order_no": "1", "order_type": "Charge"},
        {"request_id": order.request_id, "order_type": "charge"},
    ]
    keep_notifications(ledger, named)
    deposit, back = open_notices(ledger, 9)
    assert orders_of(ledger, [deposit, back]) == {back.id: order.id}


@pytest.mark.parametrize(
    ("order_type", "named"), [("payout", True), ("PAYOUT", True), (None, True), ("gift", True), ("extract", False)]
)
def test_a_number_is_of_an_order_of_the_operation_that_the_type_names(
    order_type: str | None, named: bool, open_ledger: OpenLedger
) -> None:
    ledger = open_ledger()
    [order] = commit(ledger, "a")
    ledger.note(order, order_no="1")
    keep_notifications(ledger, [{"request_id": "theirs", "order_no": "1", "order_type": order_type}])
    assert list(orders_of(ledger, open_notices(ledger, 9)).values()) == [order.id] * named


def test_what_nobody_meant_is_told_apart_by_operation_where_the_types_name_some(open_ledger: OpenLedger) -> None:
    ledger = open_ledger()
    told = [("extract", 22), ("proxy_pay", 22), ("extract", 99), ("pay", 22), (None, 44)]
    keep_notifications(ledger, [{"order_no": "1", "order_type": kind, "status": status} for kind, status in told])
    take(ledger, {each.id: Taken.UNKNOWN for each in open_notices(ledger, 9)})
    newest = [(each.order_type, each.status) for each in unknown_notices(ledger, ledger.now())]
    assert newest == [(None, "44"), ("proxy_pay", "22"), ("pay", "22")]


def test_a_card_user_is_named_by_the_services_id(open_ledger: OpenLedger) -> None:
    """A number, as card notifications have it; of an order, and of a stranger, no user is named."""
    ledger = open_ledger()
    saw_card_user(ledger, "u-1", CardUserRecord(user_xid="u-1", user_id="77"))
    about = [{"userId": 77}, {"user_id": "77", "cardId": "1"}, {"userId": 78}, {"userId": None}, ["userId", 77]]
    bodies = [{"type": "KYC_STATUS", "data": data} for data in about]
    bodies += [{"request_id": "card user 77", "order_no": "1"}, {"data": {"userId": 77}}]
    assert keep_notifications(ledger, bodies) == 7
    first, second, *others = open_notices(ledger, 9)
    assert users_of(ledger, [first, second, *others]) == {first.id: "u-1", second.id: "u-1"}


def test_when_a_receipt_was_first_learnt_of_stays(open_ledger: OpenLedger) -> None:
    ledger = open_ledger()
    expect_receipts(ledger, {"a": {"currency": "ETH", "amount": "1"}, "b": {"currency": "ETH", "amount": "2"}})
    since = expected_receipts(ledger, ["a"])["a"]["created_at"]
    expect_receipts(ledger, {"a": {"currency": "ETH", "amount": "1", "order_no": "7"}, "b": None})
    assert expected_receipts(open_ledger()) == {
        "a": {"currency": "ETH", "amount": "1", "order_no": "7", "request_id": "a", "created_at": since}
    }
