"""Money leaves at most once, and what is not known is said to be not known; against a service that answers to plan."""

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.engine.answers import (
    ABSENT,
    CONVERSION_QUOTE,
    CREATE,
    EXECUTE,
    FIAT_QUERY,
    PAYOUT,
    QUERY,
    QUOTE,
    OpenDesk,
    accepted,
    confirmed,
    conversion,
    fiat_payout,
    fiat_quote,
    lives,
    ok,
    payout,
    plan,
    refused,
    restored,
    shown,
    steps,
)
from treasury.errors import NotConnected, OutcomeUnknown, Refused, Stopped
from treasury.orders.records import Intent, Order
from treasury.orders.states import State
from treasury.runs.desk import Desk


@pytest.fixture
def ledger_url(tmp_path: Path) -> str:
    """The ledger's own tests run on both databases; here one is enough."""
    return f"sqlite:///{tmp_path / 'ledger.db'}"


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    import stamina

    stamina.set_testing(True, attempts=1)
    yield
    stamina.set_testing(False)


# --- one transmission ------------------------------------------------------------------------------------------------


def test_the_sending_mark_is_on_disk_when_the_request_arrives(
    open_desk: OpenDesk, service: Any, tmp_path: Path
) -> None:
    desk = open_desk(service.base_url)
    order = plan(desk, payout())
    seen: list[tuple[str, int]] = []

    def look(body: Mapping[str, Any]) -> tuple[int, Any]:
        with sqlite3.connect(tmp_path / "ledger.db") as other:
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
    assert desk.submission.ask(order).state is State.ACCEPTED
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
    now = [1_800_000_000.0]
    desk.ledger._clock = lambda: now[0]
    service.plan(PAYOUT, refused(code))
    order = desk.submission.submit(plan(desk, payout()))
    assert (order.state, order.first_answer) == (State.UNKNOWN, str(code))
    order = desk.submission.submit(order)
    now[0] += 599
    order = desk.submission.submit(order)
    assert order.state is State.UNKNOWN
    now[0] += 1
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
    now = [1_800_000_000.0]
    desk.ledger._clock = lambda: now[0]
    order = lost(desk, service)
    order = desk.submission.submit(order)
    now[0] += 599
    order = desk.submission.submit(order)
    assert (order.state, len(service.sent_to(PAYOUT))) == (State.UNKNOWN, 1)
    now[0] += 1
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


# --- quotes ----------------------------------------------------------------------------------------------------------


def test_a_quote_inside_its_bounds_is_confirmed_at_once(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url)
    service.plan(QUOTE, fiat_quote())
    service.plan(CREATE, confirmed)
    order = desk.submission.submit(plan(desk, fiat_payout()))
    assert (order.state, order.receive_amount, order.rate) == (State.ACCEPTED, Decimal("95.00"), Decimal("0.95"))
    [asked] = service.sent_to(QUOTE)
    [sent] = service.sent_to(CREATE)
    assert asked["request_id"] == order.request_id
    assert sent["order_no"] == "Q-" + order.request_id
    assert [path for path, _ in service.requests] == [QUOTE, CREATE]


@pytest.mark.parametrize(
    "first",
    [
        fiat_quote(rate="0.89"),
        fiat_quote(pay_amount="100.01"),
        fiat_quote(receive_currency="USD"),
        fiat_quote(expire_time=1_000),
        fiat_quote(order_no=""),
    ],
)
def test_an_unfit_quote_is_followed_by_another(open_desk: OpenDesk, service: Any, first: Any) -> None:
    desk = open_desk(service.base_url)
    service.plan(QUOTE, first, fiat_quote())
    service.plan(CREATE, confirmed)
    order = desk.submission.submit(plan(desk, fiat_payout()))
    assert (order.state, order.generation) == (State.ACCEPTED, 2)
    one, two = service.sent_to(QUOTE)
    assert one["request_id"] != two["request_id"]
    assert [sent["order_no"] for sent in service.sent_to(CREATE)] == ["Q-" + two["request_id"]]
    assert [quote.request_id for quote in desk.ledger.quotes()] == [one["request_id"], two["request_id"]]


@pytest.mark.parametrize("first", ["drop", (500, {}), (429, b"", {"Retry-After": "0"}), refused(31337), refused(412)])
def test_a_lost_quote_is_asked_for_again_under_the_same_id(open_desk: OpenDesk, service: Any, first: Any) -> None:
    desk = open_desk(service.base_url)
    service.plan(QUOTE, first, fiat_quote())
    service.plan(CREATE, confirmed)
    order = desk.submission.submit(plan(desk, fiat_payout()))
    assert (order.state, order.generation) == (State.ACCEPTED, 1)
    one, two = service.sent_to(QUOTE)
    assert one["request_id"] == two["request_id"]
    assert [quote.asks for quote in desk.ledger.quotes()] == [2]


def test_a_row_waits_after_three_unfit_quotes_and_is_resumed_at_the_next_start(
    open_desk: OpenDesk, service: Any
) -> None:
    desk = open_desk(service.base_url)
    service.plan(QUOTE, fiat_quote(rate="0.5"))
    order = desk.submission.submit(plan(desk, fiat_payout()))
    assert (order.state, order.generation) == (State.PREPARED, 3)
    assert "rate is 0.5, less than 0.9" in str(order.reason)
    assert service.sent_to(CREATE) == []
    assert desk.submission.submit(order).generation == 3
    desk.submission.begin_start()
    service.plan(QUOTE, fiat_quote())
    service.plan(CREATE, confirmed)
    assert desk.submission.submit(order).generation == 4


def test_after_six_quotes_only_a_person_ends_the_row(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url)
    service.plan(QUOTE, fiat_quote(rate="0.5"))
    order = plan(desk, fiat_payout())
    for _ in range(4):
        desk.submission.begin_start()
        order = desk.submission.submit(order)
    assert (order.state, order.generation, len(service.sent_to(QUOTE))) == (State.PREPARED, 6, 6)
    assert "treasury resolve" in str(order.reason)


def test_a_refused_quote_rejects_its_row(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url)
    service.plan(QUOTE, refused(206003))
    order = desk.submission.submit(plan(desk, fiat_payout()))
    assert (order.state, order.code, len(service.sent_to(QUOTE))) == (State.REJECTED, "206003", 1)


def test_a_quote_expires_by_its_lifetime_whatever_the_services_clock_says(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url)
    service.plan(QUOTE, fiat_quote(transaction_time=5, expire_time=60_005))
    service.plan(CREATE, confirmed)
    assert desk.submission.submit(plan(desk, fiat_payout())).state is State.ACCEPTED


def test_after_a_confirmation_left_no_other_quote_is_asked(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url, resend_after=600)
    service.plan(QUOTE, fiat_quote())
    service.plan(CREATE, "drop")
    order = desk.submission.submit(plan(desk, fiat_payout()))
    assert order.state is State.UNKNOWN
    for _ in range(3):
        order = desk.submission.submit(order)
    assert (order.state, len(service.sent_to(QUOTE)), len(service.sent_to(CREATE))) == (State.UNKNOWN, 1, 1)


@pytest.mark.parametrize("status", [11, 12])
def test_an_unconfirmed_quote_seen_by_a_query_is_no_payment(open_desk: OpenDesk, service: Any, status: int) -> None:
    desk = open_desk(service.base_url, resend_after=600)
    service.plan(QUOTE, fiat_quote())
    service.plan(CREATE, "drop")
    service.plan(FIAT_QUERY, lambda body: ok(request_id=body["request_id"], order_no="Q", status=status))
    order = desk.submission.submit(desk.submission.submit(plan(desk, fiat_payout())))
    assert order.state is State.UNKNOWN
    assert order.absent_since is None
    assert "may be a payment or not" in str(order.reason)


@pytest.mark.parametrize("absence", [ABSENT, lambda body: ok(request_id=body["request_id"], order_no="Q", status=11)])
def test_another_quote_follows_a_confirmation_that_did_not_act_once_its_quote_has_ended(
    open_desk: OpenDesk, service: Any, absence: Any
) -> None:
    desk = open_desk(service.base_url, unconfirmed={11}, resend_after=600)
    now = [1_800_000_000.0]
    desk.ledger._clock = lambda: now[0]
    service.plan(QUOTE, fiat_quote(transaction_time=None, expire_time=None))
    service.plan(CREATE, "drop", confirmed)
    service.plan(FIAT_QUERY, absence)
    order = desk.submission.submit(plan(desk, fiat_payout()))
    for seconds in (86_400, 599, 1, 599):  # a quote without an end lives for a day; then the margin
        order = desk.submission.submit(order)
        assert (order.state, order.generation) == (State.UNKNOWN, 1)
        now[0] += seconds
    order = desk.submission.submit(order)
    now[0] += 1
    order = desk.submission.submit(order)
    assert (order.state, order.generation, order.doubtful) == (State.ACCEPTED, 2, False)
    assert [sent["order_no"] for sent in service.sent_to(CREATE)] == [
        "Q-" + sent["request_id"] for sent in service.sent_to(QUOTE)
    ]


def test_a_confirmed_quote_seen_by_a_query_is_adopted(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url)
    service.plan(QUOTE, fiat_quote())
    service.plan(CREATE, "drop")
    service.plan(FIAT_QUERY, lambda body: ok(request_id=body["request_id"], status=22, pay_amount="100.00"))
    order = desk.submission.submit(desk.submission.submit(plan(desk, fiat_payout())))
    assert order.state is State.ACCEPTED


def test_a_conversion_is_never_executed_again(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url)
    quote: dict[str, Any] = {"quoteId": "C1", "payCurrency": "ETH", "payAmt": "1", "settleCurrency": "USDT"}
    quote |= {"settleAmt": "1998", "feeCurrency": "USDT", "feeAmt": "2", "rate": "2000", **lives(600)}
    service.plan(CONVERSION_QUOTE, ok(**quote))
    service.plan(EXECUTE, "drop")
    service.plan(QUERY, ABSENT)
    order = desk.submission.submit(plan(desk, conversion()))
    for _ in range(4):
        order = desk.submission.submit(order)
    assert (order.state, len(service.sent_to(EXECUTE))) == (State.UNKNOWN, 1)
    assert service.sent_to(EXECUTE)[0]["quoteId"] == "C1"
    [asked] = {body["request_id"] for body in service.sent_to(QUERY)}
    assert asked == service.sent_to(CONVERSION_QUOTE)[0]["xid"] == order.request_id


# --- what is remembered, and how long is waited ----------------------------------------------------------------------


@pytest.mark.parametrize(("asked", "waited"), [("7", 7.0), ("soon", 1.0)])
def test_a_quote_that_is_refused_with_429_waits_as_asked(
    open_desk: OpenDesk, service: Any, asked: str, waited: float
) -> None:
    desk = open_desk(service.base_url)
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        desk.client.pace._held_until = 0.0

    desk.client._sleep = sleep
    service.plan(QUOTE, (429, {"code": 429, "message": "slow down"}, {"Retry-After": asked}), fiat_quote())
    service.plan(CREATE, confirmed)
    order = desk.submission.submit(plan(desk, fiat_payout()))
    assert order.state is State.ACCEPTED
    assert slept[0] == pytest.approx(waited, abs=0.2)


def test_a_service_that_asks_for_a_long_pause_ends_the_run(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url)
    service.plan(QUOTE, (429, {"code": 429, "message": "slow down"}, {"Retry-After": "86400"}), fiat_quote())
    with pytest.raises(Stopped, match="86400"):
        desk.submission.submit(plan(desk, fiat_payout()))
    assert service.sent_to(CREATE) == []


def test_every_quote_says_why_it_was_not_confirmed(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url)
    service.plan(QUOTE, fiat_quote(rate="0.4"), fiat_quote(rate="0.5"), "drop")
    order = desk.submission.submit(plan(desk, fiat_payout()))
    first, second, lost_one = desk.ledger.quotes()
    assert "rate is 0.4" in str(first.note)
    assert "rate is 0.5" in str(second.note)
    assert str(lost_one.note).startswith("no answer: ")
    assert [quote.stage for quote in desk.ledger.quotes()] == ["done", "done", "asked"]
    assert "no quote" in str(order.reason)


def test_a_confirmed_quote_leaves_no_old_reason(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url)
    service.plan(QUOTE, fiat_quote(rate="0.5"), fiat_quote())
    service.plan(CREATE, confirmed)
    order = desk.submission.submit(plan(desk, fiat_payout()))
    assert (order.state, order.reason, order.code) == (State.ACCEPTED, None, None)


def executed(desk: Desk, service: Any) -> Order:
    quote: dict[str, Any] = {"quoteId": "C1", "payCurrency": "ETH", "payAmt": "1", "settleCurrency": "USDT"}
    quote |= {"settleAmt": "1998", "feeCurrency": "USDT", "feeAmt": "2", "rate": "2000", **lives(600)}
    service.plan(CONVERSION_QUOTE, ok(**quote))
    service.plan(EXECUTE, ok(orderNo="E1", status=22))
    return desk.submission.submit(plan(desk, conversion()))


@pytest.mark.parametrize(
    ("shown_as", "state"),
    [
        ({"currency": "ETH", "order_amount": "1"}, State.SETTLED),
        ({"currency": "USDT", "order_amount": "1998"}, State.SETTLED),
        ({"currency": "USDT", "order_amount": "1997"}, State.UNKNOWN),
        ({"currency": "ETH", "order_amount": "1.1"}, State.UNKNOWN),
        ({"currency": "BTC", "order_amount": "1"}, State.UNKNOWN),
        ({}, State.SETTLED),
    ],
)
def test_a_conversion_may_be_shown_from_either_side(
    open_desk: OpenDesk, service: Any, shown_as: dict[str, str], state: State
) -> None:
    desk = open_desk(service.base_url)
    order = executed(desk, service)
    service.plan(QUERY, lambda body: ok(request_id=body["request_id"], order_no="E1", status=99, **shown_as))
    assert desk.submission.ask(order).state is state
    assert service.sent_to(QUERY)[0]["order_no"] == "E1"


def test_a_payout_shown_in_what_arrives_is_no_conversion(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url)
    service.plan(PAYOUT, accepted)
    order = desk.submission.submit(plan(desk, payout()))
    service.plan(QUERY, shown(99, currency="IDR"))
    assert desk.submission.ask(order).state is State.UNKNOWN


def test_what_arrives_is_learned_once(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url)
    service.plan(QUOTE, fiat_quote())
    service.plan(CREATE, confirmed)
    order = desk.submission.submit(plan(desk, fiat_payout()))
    service.plan(FIAT_QUERY, lambda body: ok(request_id=body["request_id"], status=99, receive_amount="94.99"))
    order = desk.submission.ask(order)
    assert (order.state, order.receive_amount) == (State.UNKNOWN, Decimal("95.00"))
    assert "receive amount is 94.99 at the service, 95.00 here" in str(order.reason)


def test_an_accepted_order_that_is_shown_different_is_unknown_until_it_agrees(
    open_desk: OpenDesk, service: Any
) -> None:
    desk = open_desk(service.base_url)
    service.plan(PAYOUT, accepted)
    service.plan(QUERY, shown(99, order_amount="999.0"), shown(99, currency="BTC"), ok(), shown(99))
    order = desk.submission.submit(plan(desk, payout()))
    order = desk.submission.ask(order)
    assert (order.state, order.reason) == (State.UNKNOWN, "amount is 999.0 at the service, 10.00 here")
    order = desk.submission.submit(order)
    assert order.state is State.UNKNOWN
    with pytest.raises(Refused, match="an empty record"):  # it says nothing about the order
        desk.submission.submit(order)
    assert desk.submission.submit(order).state is State.SETTLED
    assert len(service.sent_to(PAYOUT)) == 1


@pytest.mark.parametrize("first", ["answer", "query"])
def test_what_the_service_showed_once_is_never_sent_again(open_desk: OpenDesk, service: Any, first: str) -> None:
    desk = open_desk(service.base_url)
    other = ok(order_no="P1", status=11, order_amount="11.00", currency="USDT")
    service.plan(PAYOUT, other if first == "answer" else accepted, accepted)
    service.plan(QUERY, ABSENT if first == "answer" else shown(22, order_amount="11.00"), ABSENT)
    order = desk.submission.ask(desk.submission.submit(plan(desk, payout())))
    for _ in range(4):
        order = desk.submission.submit(order)
    assert (order.state, len(service.sent_to(PAYOUT))) == (State.UNKNOWN, 1)


def test_an_empty_answer_disputes_nothing(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url)
    service.plan(PAYOUT, accepted)
    service.plan(QUERY, ok())
    order = desk.submission.submit(plan(desk, payout()))
    with pytest.raises(Refused, match="an empty record"):
        desk.submission.ask(order)
    [kept] = desk.ledger.orders()
    assert (kept.state, kept.absent_since) == (State.ACCEPTED, None)


def test_a_fee_without_its_currency_does_not_replace_the_quoted_one(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url)
    order = executed(desk, service)
    service.plan(QUERY, shown(99, currency="ETH", order_amount="1", fee_amount="0.01"))
    order = desk.submission.ask(order)
    assert (order.state, order.fee, order.fee_currency) == (State.SETTLED, Decimal(2), "USDT")


# --- after a restore -------------------------------------------------------------------------------------------------


def test_an_order_from_before_a_restore_is_asked_and_then_sent(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url)
    service.plan(PAYOUT, accepted)
    order = desk.submission.submit(restored(desk, payout()))
    assert (order.state, order.absences_needed) == (State.ACCEPTED, 0)
    assert [path for path, _ in service.requests] == [QUERY, PAYOUT]


def test_an_order_from_before_a_restore_that_was_sent_is_held(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url)
    service.plan(QUERY, shown(22))
    order = desk.submission.submit(restored(desk, payout()))
    assert (order.state, order.hold_kind, service.sent_to(PAYOUT)) == (State.HELD, "known", [])
    assert "this ledger did not send it" in str(order.reason)


@pytest.mark.parametrize("status", [11, 22])
@pytest.mark.parametrize("generation", [1, 3, 6])
def test_forgotten_quotes_are_asked_for_too(open_desk: OpenDesk, service: Any, generation: int, status: int) -> None:
    desk = open_desk(service.base_url)
    asked: list[str] = []

    def answer(body: Mapping[str, Any]) -> tuple[int, Any]:
        asked.append(body["request_id"])
        known = len(asked) == generation
        return ok(request_id=body["request_id"], status=status, pay_amount="100.00") if known else ABSENT

    service.plan(FIAT_QUERY, answer)
    order = desk.submission.submit(restored(desk, fiat_payout()))
    assert (order.state, order.hold_kind, order.generation) == (State.HELD, "known", generation)
    assert order.request_id == asked[generation - 1]
    assert len(set(asked)) == len(asked) == 6
    assert service.sent_to(QUOTE) == []


def test_in_an_epoch_two_absences_a_window_apart_are_needed(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url, resend_after=600)
    now = [1_800_000_000.0]
    desk.ledger._clock = lambda: now[0]
    service.plan(PAYOUT, accepted)
    order = desk.ledger.note(plan(desk, payout()), absences_needed=2)
    for seconds in (0, 599):
        now[0] += seconds
        order = desk.submission.submit(order)
        assert (order.state, service.sent_to(PAYOUT)) == (State.PREPARED, [])
    now[0] += 1
    assert desk.submission.submit(order).state is State.ACCEPTED
