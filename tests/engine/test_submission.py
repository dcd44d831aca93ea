"""Money leaves at most once, and what is not known is said to be not known; against a service that answers to plan."""

import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing, suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.engine.answers import (
    ABSENT,
    ONE_ORDER,
    PAYOUT,
    QUERY,
    OpenDesk,
    accepted,
    ok,
    payout,
    plan,
    refused,
    shown,
    steps,
)
from tests.moved_clock import clock_of
from treasury.errors import NotConnected, OutcomeUnknown, Refused, Stopped
from treasury.orders.records import Intent, Order
from treasury.orders.states import State
from treasury.payments.desk import Desk
from treasury.payments.resolving import resolve_as_sent

pytestmark = ONE_ORDER


# --- one transmission ------------------------------------------------------------------------------------------------


def test_the_sending_mark_is_on_disk_when_the_request_arrives(
    open_desk: OpenDesk, service: Any, tmp_path: Path
) -> None:
    desk = open_desk(service.base_url)
    order = plan(desk, payout())
    seen: list[tuple[str, int]] = []

    def look(body: Mapping[str, Any]) -> tuple[int, Any]:
        with closing(sqlite3.connect(tmp_path / "ledger.db")) as other, other:
            seen.extend(other.execute("SELECT state, sends FROM orders WHERE request_id = ?", (body["request_id"],)))
        other.close()
        return accepted(body)

    service.plan(PAYOUT, look)
    desk.submission.submit(order)
    assert seen == [("sending", 1)]


def test_an_accepted_order_is_followed_to_its_end(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url)
    service.plan(PAYOUT, accepted)
    service.plan(QUERY, shown(22), shown(99, fee_amount="0.10"))
    order = desk.submission.submit(plan(desk, payout()))
    assert (order.state, order.order_no, order.status) == (State.ACCEPTED, "P1", 11)
    order = desk.submission.ask(order)
    assert order.state is State.ACCEPTED
    order = desk.submission.ask(order)
    assert (order.state, order.fee, order.payload) == (State.SETTLED, Decimal("0.10"), None)
    assert len(service.sent_to(PAYOUT)) == 1


@pytest.mark.parametrize(("status", "state"), [(44, State.FAILED), (88, State.CLOSED), (99, State.SETTLED)])
def test_a_final_status_ends_the_order_with_its_reason(
    open_desk: OpenDesk, service: Any, status: int, state: State
) -> None:
    desk = open_desk(service.base_url)
    service.plan(PAYOUT, accepted)
    service.plan(QUERY, shown(status, reason="account closed"))
    order = desk.submission.ask(desk.submission.submit(plan(desk, payout())))
    assert (order.state, order.reason) == (state, "account closed")


@pytest.mark.parametrize("door", ["answer", "query", "query after a lost answer"])
@pytest.mark.parametrize(
    ("address", "tag", "is_held"),
    [
        ("TSomebodyElse", None, True),
        ("TAddress", "8", True),
        ("TAddress", "7", False),
        ("TAddr***", None, False),
        (None, None, False),
    ],
)
def test_a_withdrawal_that_goes_elsewhere_is_held_until_a_person_says_what_became_of_it(
    open_desk: OpenDesk, service: Any, door: str, address: str | None, tag: str | None, is_held: bool
) -> None:
    desk = open_desk(service.base_url)
    fields = {"currency": "USDT", "amount": "10.00", "address": "TAddress", "tag": "7", "customer_ref_id": "c"}
    intent = Intent("a", "withdraw", fields, fields, currency="USDT", amount=Decimal("10.00"))
    there = {"address": address, "tag": tag} if door == "answer" else {}
    answer = ok(order_no="P1", status=22, order_amount="10", currency="USDT", **there)
    service.plan("/v1/order/withdraw", "drop" if door == "query after a lost answer" else answer)
    metadata = json.dumps({"destinationAddress": address, "destinationTag": tag})
    service.plan(QUERY, *[shown(99, metadata=metadata)] * 4)
    order = desk.submission.submit(plan(desk, intent))
    order = order if door == "answer" and is_held else desk.submission.ask(order)
    assert (order.state, order.order_no) == (State.HELD if is_held else State.SETTLED, "P1")
    if is_held:
        assert "another address or tag" in str(order.reason)
        assert "TSomebodyElse" not in str(order.reason), "addresses are personal"
        assert desk.submission.submit(order).state is State.HELD
        assert desk.submission.ask(order).state is State.HELD
        [decided] = resolve_as_sent(desk, order.request_id, by="Ana Example", why="its support paid it as asked")
        assert decided.order.state is State.SETTLED
    assert len(service.sent_to("/v1/order/withdraw")) == 1


@pytest.mark.parametrize("code", [7002, "202206", 202211, 202212, 206003, 2204002])
def test_a_refusal_that_cannot_answer_a_request_that_acted_is_final(
    open_desk: OpenDesk, service: Any, code: Any
) -> None:
    desk = open_desk(service.base_url)
    service.plan(PAYOUT, refused(code))
    order = desk.submission.submit(plan(desk, payout()))
    assert (order.state, order.code, order.doubtful) == (State.REJECTED, str(code), False)
    assert desk.submission.submit(order).state is State.REJECTED
    assert len(service.sent_to(PAYOUT)) == 1


@pytest.mark.parametrize("code", ["400", 401, 403, 5004, "202203"])
def test_a_refusal_that_depends_on_state_is_believed_after_two_looks_and_never_resent(
    open_desk: OpenDesk, service: Any, code: Any
) -> None:
    desk = open_desk(service.base_url, resend_after=600)
    service.plan(PAYOUT, refused(code))
    order = desk.submission.submit(plan(desk, payout()))
    assert (order.state, order.first_answer) == (State.UNKNOWN, str(code))
    order = desk.submission.submit(order)
    clock_of(desk).move(599)
    order = desk.submission.submit(order)
    assert order.state is State.UNKNOWN
    clock_of(desk).move(1)
    order = desk.submission.submit(order)
    assert (order.state, order.code, order.reason) == (State.REJECTED, str(code), "no")
    assert desk.submission.submit(order).state is State.REJECTED
    assert len(service.sent_to(PAYOUT)) == 1


@pytest.mark.parametrize("code", ["400", 401, 403, 5004, "202203"])
def test_a_refusal_of_a_request_that_acted_is_not_believed(open_desk: OpenDesk, service: Any, code: Any) -> None:
    desk = open_desk(service.base_url)
    service.plan(PAYOUT, refused(code))
    service.plan(QUERY, shown(99))
    order = desk.submission.submit(desk.submission.submit(plan(desk, payout())))
    assert order.state is State.SETTLED


@pytest.mark.parametrize("status", [400, 401, 403, 404, 406, 412, 429, 502, 503])
@pytest.mark.parametrize("body", [b"<html>go away</html>", b"", b'{"message": "no code"}'])
def test_an_answer_without_the_services_envelope_decides_nothing(
    open_desk: OpenDesk, service: Any, status: int, body: bytes
) -> None:
    desk = open_desk(service.base_url)
    service.plan(PAYOUT, (status, body))
    service.plan(QUERY, shown(99))
    order = desk.submission.submit(plan(desk, payout()))
    assert order.state is State.UNKNOWN
    assert desk.submission.submit(order).state is State.SETTLED


def test_a_wrong_signature_leaves_the_order_unsent_and_stops_all_sends(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url)
    service.plan(PAYOUT, refused(406))
    service.plan(QUERY, refused(406))
    with pytest.raises(Stopped, match="406"):
        desk.submission.submit(plan(desk, payout()))
    [order] = desk.ledger.orders()
    assert (order.state, order.doubtful, len(service.sent_to(PAYOUT))) == (State.PREPARED, False, 1)
    service.plan(PAYOUT, accepted)
    service.plan(QUERY, ABSENT)
    assert desk.submission.submit(order).state is State.ACCEPTED


@pytest.mark.parametrize(
    "answer",
    [
        "drop",
        (500, {"code": 500, "message": "system error"}),
        (502, b"<html>bad gateway</html>"),
        (200, b'{"code": 200, "data": {"order_no"'),
        (200, b"<html></html>"),
        (200, {"code": 500, "message": "system error"}),
        (200, {"code": 202224, "message": "DOUBLE_PAYMENT"}),
        (400, {"code": 202224, "message": "DOUBLE_PAYMENT"}),
        (500, {"code": 202203, "message": "INSUFFICIENT_BALANCE"}),
        (404, {"code": 404, "message": "no route"}),
        (307, b""),
        (200, {"code": 31337, "message": "?"}),
        ok(),
        ok(order_no="P1", status=11, order_amount="11.00", currency="USDT"),
        ok(order_no="P1", status=11, order_amount="10.00", currency="USDC"),
        ok(order_no="P1", status=99, request_id="somebody-else"),
        (500, {"code": 200, "message": "success", "data": {"order_no": "P1", "status": 11}}),
    ],
)
def test_everything_else_is_unknown_and_is_not_sent_again(open_desk: OpenDesk, service: Any, answer: Any) -> None:
    desk = open_desk(service.base_url, resend_after=600)
    service.plan(PAYOUT, answer)
    order = desk.submission.submit(plan(desk, payout()))
    assert (order.state, order.doubtful) == (State.UNKNOWN, True)
    for _ in range(3):
        order = desk.submission.submit(order)
    assert order.state is State.UNKNOWN
    assert len(service.sent_to(PAYOUT)) == 1


def test_an_order_that_never_connected_is_ready_again(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk("http://127.0.0.1:9")
    order = desk.submission.submit(plan(desk, payout()))
    assert (order.state, order.doubtful) == (State.PREPARED, False)
    assert steps(desk, order) == ["send", "not connected"]


@pytest.mark.parametrize("answer", [refused(412), refused("429"), (429, b"slow down", {"Retry-After": "0"})])
def test_a_refusal_that_a_proxys_second_copy_gets_is_asked_about(
    open_desk: OpenDesk, service: Any, answer: Any
) -> None:
    desk = open_desk(service.base_url)
    service.plan(PAYOUT, answer)
    service.plan(QUERY, shown(22))
    order = desk.submission.submit(plan(desk, payout()))
    assert (order.state, order.doubtful) == (State.UNKNOWN, True)
    assert desk.submission.submit(order).state is State.ACCEPTED
    assert len(service.sent_to(PAYOUT)) == 1


# --- asking ----------------------------------------------------------------------------------------------------------


def lost(desk: Desk, service: Any, intent: Intent | None = None) -> Order:
    service.plan(PAYOUT, "drop", accepted)
    return desk.submission.submit(plan(desk, intent or payout()))


def test_an_unknown_order_that_is_found_is_adopted(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url)
    service.plan(QUERY, shown(99))
    order = desk.submission.submit(lost(desk, service))
    assert order.state is State.SETTLED
    assert len(service.sent_to(PAYOUT)) == 1


@pytest.mark.parametrize("change", [{"order_amount": "9.99"}, {"currency": "USDC"}, {"request_id": "other"}])
def test_an_unknown_order_that_is_found_different_stays_unknown(
    open_desk: OpenDesk, service: Any, change: Mapping[str, Any]
) -> None:
    desk = open_desk(service.base_url)
    service.plan(QUERY, shown(99, **change))
    order = desk.submission.submit(lost(desk, service))
    assert order.state is State.UNKNOWN
    assert " at the service, " in str(order.reason)
    assert len(service.sent_to(PAYOUT)) == 1


def test_absence_counts_only_twice_and_far_enough_apart(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url, resend_after=600)
    order = lost(desk, service)
    order = desk.submission.submit(order)
    clock_of(desk).move(599)
    order = desk.submission.submit(order)
    assert (order.state, len(service.sent_to(PAYOUT))) == (State.UNKNOWN, 1)
    clock_of(desk).move(1)
    order = desk.submission.submit(order)
    assert order.state is State.ACCEPTED
    first, second = service.sent_to(PAYOUT)
    assert first["request_id"] == second["request_id"]
    assert steps(desk, order) == ["send", "lose", "resend", "accept"]


@pytest.mark.parametrize("answer", [refused(404), (404, b"nothing here"), (503, b""), refused(406), "drop", ok()])
def test_other_answers_to_the_question_are_no_evidence(open_desk: OpenDesk, service: Any, answer: Any) -> None:
    desk = open_desk(service.base_url)
    order = lost(desk, service)
    service.plan(QUERY, answer)
    for _ in range(3):
        with suppress(Refused, OutcomeUnknown):
            order = desk.submission.submit(order)
    assert desk.ledger.orders()[0].state is State.UNKNOWN
    assert len(service.sent_to(PAYOUT)) == 1


def test_after_a_resend_no_refusal_is_believed(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url)
    order = lost(desk, service)
    service.plan(PAYOUT, refused(202203))
    order = desk.submission.submit(desk.submission.submit(order))
    assert (order.state, order.sends, order.code) == (State.UNKNOWN, 2, "202203")
    service.plan(QUERY, shown(99))
    assert desk.submission.submit(order).state is State.SETTLED


def test_a_resend_that_cannot_connect_stays_in_doubt(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url)
    order = lost(desk, service)
    order = desk.submission.submit(order)
    service.plan(PAYOUT, (429, b""))
    order = desk.submission.submit(order)
    assert (order.state, order.doubtful, order.sends) == (State.UNKNOWN, True, 2)


def test_an_order_found_before_it_was_sent_waits_for_a_person(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url)
    order = plan(desk, payout())
    service.plan(QUERY, shown(22))
    order = desk.submission.ask(order)
    assert order.state is State.HELD
    assert desk.submission.submit(order).state is State.HELD
    assert service.sent_to(PAYOUT) == []


def test_a_late_flip_is_a_step_of_its_own(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url)
    service.plan(PAYOUT, accepted)
    service.plan(QUERY, shown(99), shown(44, reason="returned"), shown(99))
    order = desk.submission.submit(plan(desk, payout()))
    for state in (State.SETTLED, State.FAILED, State.SETTLED):
        order = desk.submission.ask(order)
        assert order.state is state
    assert steps(desk, order)[2:] == ["settle", "correct to failed", "correct to settled"]


@pytest.mark.parametrize("status", [12, 33, 0, 11])
def test_an_unlisted_status_is_not_final(open_desk: OpenDesk, service: Any, status: int) -> None:
    desk = open_desk(service.base_url)
    service.plan(PAYOUT, accepted)
    service.plan(QUERY, shown(status))
    order = desk.submission.ask(desk.submission.submit(plan(desk, payout())))
    assert (order.state, int(order.status or 0)) == (State.ACCEPTED, status)


def test_a_question_that_fails_changes_nothing(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url)
    service.plan(PAYOUT, accepted)
    order = desk.submission.submit(plan(desk, payout()))
    service.plan(QUERY, "drop")
    with pytest.raises(OutcomeUnknown):
        desk.submission.ask(order)
    service.close()
    with pytest.raises((NotConnected, OutcomeUnknown)):
        desk.submission.ask(order)
    assert desk.ledger.orders() == [order]
