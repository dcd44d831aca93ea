"""Payments that were sent and did not act are judged by the policy and the day of then before they leave again."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.engine import paying
from tests.engine.answers import (
    ABSENT,
    CREATE,
    FIAT_QUERY,
    PAYOUT,
    QUERY,
    QUOTE,
    accepted,
    confirmed,
    fiat_payout,
    fiat_quote,
    shown,
)
from tests.engine.judged import PERSON, adopt, start
from tests.engine.runs import sheet
from tests.moved_clock import clock_of
from treasury.call import calls
from treasury.errors import ApprovalNeeded, PolicyChanged
from treasury.ledger.intents import commit_plan
from treasury.orders.states import Hold, State
from treasury.payments import execution
from treasury.payments.cancelling import cancel
from treasury.payments.desk import Desk
from treasury.payments.governing import govern
from treasury.payments.resolving import resolve_as_not_sent
from treasury.provider.catalogue import CATALOGUE

OpenDesk = Callable[..., Desk]
ROW = ("a", "60", "12345670001")
DAY, WINDOW = 86_400, 700


def lose(desk: Desk, service: Any, folder: Path, payouts: Mapping[str, Any]) -> Path:
    """Pay a row whose answer is lost, under a policy with these limits; returns its sheet."""
    adopt(desk, payouts=payouts)
    service.plan(PAYOUT, "drop", accepted)
    file = sheet(folder, ROW)
    assert start(desk, file, "run") == {"a": "unknown"}
    return file


@pytest.mark.both_databases
@pytest.mark.parametrize(("most", "ends"), [("10", ["held"] * 3), ("90", ["in_progress"] * 3)])
def test_what_is_sent_again_is_judged_by_a_policy_that_was_put_in_force_meanwhile(
    open_desk: OpenDesk, service: Any, tmp_path: Path, most: str, ends: list[str]
) -> None:
    desk = open_desk(service.base_url, resend_after=600)
    file = lose(desk, service, tmp_path, {"max_per_payout": {"USDT_TRC20": "100"}})
    adopt(desk, payouts={"max_per_payout": {"USDT_TRC20": most}})
    states = []
    for _ in range(4):
        clock_of(desk).move(WINDOW)
        states.append(start(desk, file, "run")["a"])
    assert states == ["not_sent", *ends]
    [order] = desk.ledger.orders()
    assert (order.hold_kind, len(service.sent_to(PAYOUT))) == ((Hold.LIMIT, 1) if most == "10" else (None, 2))
    assert len({body["request_id"] for body in service.sent_to(PAYOUT)}) == 1


@pytest.mark.parametrize(("most", "ends"), [("10", "held"), ("90", "in_progress")])
def test_what_a_call_sends_again_is_judged_by_a_policy_that_was_put_in_force_meanwhile(
    open_desk: OpenDesk, service: Any, most: str, ends: str
) -> None:
    desk = open_desk(service.base_url, resend_after=600)
    adopt(desk, withdrawals={"max_per_payout": {"USDT_TRC20": "100"}})
    service.plan("/v1/order/withdraw", "drop", accepted)
    named = {"request_id": "w-1", "customer_ref_id": "c-1", "address": "TXYZ"}
    operation = CATALOGUE["withdraw"](**named, currency="USDT_TRC20", amount="60")
    assert calls.submit_operation(desk, operation).state.outcome == "unknown"
    adopt(desk, withdrawals={"max_per_payout": {"USDT_TRC20": most}})
    said = []
    for _ in range(3):
        clock_of(desk).move(WINDOW)
        said.append(calls.submit_operation(desk, operation).state.outcome)
    assert said == ["not_sent", ends, ends]
    assert len(service.sent_to("/v1/order/withdraw")) == (1 if ends == "held" else 2)


def test_what_is_sent_again_on_another_day_counts_on_that_one(
    open_desk: OpenDesk, service: Any, tmp_path: Path
) -> None:
    desk = open_desk(service.base_url, resend_after=600)
    adopt(desk, payouts={"max_per_day": {"USDT_TRC20": "100"}})
    service.plan(PAYOUT, "drop", accepted)
    file, other = sheet(tmp_path, ROW), sheet(tmp_path, ("b", "60", "12345670002"), name="b.csv")
    assert start(desk, file, "run") == {"a": "unknown"}
    [lost] = service.sent_to(PAYOUT)
    known = shown(22, order_amount="60", currency="USDT_TRC20")

    def answer(body: Mapping[str, Any]) -> tuple[int, Any]:
        is_sent = len(service.sent_to(PAYOUT)) > 1 and body["request_id"] != lost["request_id"]
        return tuple(known(body)) if is_sent else ABSENT

    service.plan(QUERY, answer)
    clock_of(desk).move(DAY)
    assert start(desk, other, "other") == {"b": "in_progress"}
    for _ in range(3):
        clock_of(desk).move(WINDOW)
        assert start(desk, file, "run") == {"a": "unknown"}
    [order] = desk.ledger.orders(reference="a")
    assert "not sent again: it does not fit into the limit of" in str(order.reason)
    assert len(service.sent_to(PAYOUT)) == 2
    clock_of(desk).move(DAY)
    start(desk, file, "run")
    assert len(service.sent_to(PAYOUT)) == 3
    [order] = desk.ledger.orders(reference="a")
    assert order.counted_on == govern(desk).policy.day_of(desk.ledger.now())  # type: ignore[union-attr]


def test_what_is_quoted_again_is_judged_by_a_policy_that_was_put_in_force_meanwhile(
    open_desk: OpenDesk, service: Any
) -> None:
    desk = open_desk(service.base_url, resend_after=600)
    adopt(desk, payouts={"max_per_payout": {"USDT": "200"}})
    service.plan(QUOTE, fiat_quote())
    service.plan(CREATE, "drop", confirmed)
    service.plan(FIAT_QUERY, ABSENT)
    rules = govern(desk).rules(desk, "payouts", {}, {})
    commit_plan(desk.ledger, "run", "payout", {}, "0" * 64, [fiat_payout()], rules)
    [order] = desk.ledger.orders()
    execution.send_orders(desk, "run", [order.id])
    adopt(desk, payouts={"max_per_payout": {"USDT": "10"}})
    for _ in range(2):
        clock_of(desk).move(WINDOW)
        execution.send_orders(desk, "run", [order.id])
    [order] = desk.ledger.orders()
    assert (order.state, "start the run again" in str(order.reason)) == (State.PREPARED, True)
    with pytest.raises(PolicyChanged):
        execution.send_orders(desk, "run", [order.id])
    assert len(service.sent_to(CREATE)) == 1


def test_what_a_person_says_was_not_sent_needs_the_approvals_of_the_policy_in_force(
    open_desk: OpenDesk, service: Any, tmp_path: Path
) -> None:
    desk = open_desk(service.base_url, resend_after=600)
    file = lose(desk, service, tmp_path, {"max_per_payout": {"USDT_TRC20": "100"}})
    adopt(desk, payouts={"one_approval_above": {"USDT_TRC20": "10"}})
    assert start(desk, file, "run") == {"a": "unknown"}  # nothing of it waits, so that nobody asks for approvals
    assert resolve_as_not_sent(desk, "a", **PERSON)[0].done
    with pytest.raises(ApprovalNeeded):
        start(desk, file, "run")
    assert len(service.sent_to(PAYOUT)) == 1


@pytest.mark.parametrize("how", ["policy", "midnight"])
def test_what_waits_to_be_asked_about_is_judged_by_whichever_process_follows_it(
    open_desk: OpenDesk, service: Any, tmp_path: Path, how: str
) -> None:
    desk = open_desk(service.base_url, resend_after=600)
    adopt(desk, payouts={"max_per_day": {"USDT_TRC20": "100"}})
    service.plan(QUERY, ABSENT)
    service.plan(PAYOUT, accepted)
    desk.begin_epoch("a test")
    assert start(desk, sheet(tmp_path, ROW), "run") == {"a": "not_sent"}
    if how == "policy":
        adopt(desk, payouts={"max_per_payout": {"USDT_TRC20": "10"}})
        clock_of(desk).move(WINDOW)
    else:
        clock_of(desk).move(DAY)
        paying.commit(desk, sheet(tmp_path, ("b", "60", "12345670002"), name="b.csv"), "other")
    other = open_desk(service.base_url, resend_after=600)
    execution.follow_orders(other, "run", other.ledger.order_ids("run", (State.PREPARED,)), 0)
    assert service.sent_to(PAYOUT) == []


def test_nothing_is_sent_again_while_a_debit_above_its_bound_stops_the_run(
    open_desk: OpenDesk, service: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = open_desk(service.base_url, resend_after=600)
    service.plan(PAYOUT, "drop", accepted)
    service.plan(QUERY, ABSENT)
    file = sheet(tmp_path, ROW)
    assert start(desk, file, "run") == {"a": "unknown"}
    with monkeypatch.context() as stopped:
        stopped.setattr(execution, "why_above_bound", lambda *_: "b debited 1 USDT more than the plan allowed for")
        for _ in range(3):
            clock_of(desk).move(WINDOW)
            desk = open_desk(service.base_url, resend_after=600)
            assert start(desk, file, "run") == {"a": "unknown"}
    assert len(service.sent_to(PAYOUT)) == 1
    assert start(open_desk(service.base_url, resend_after=600), file, "run") == {"a": "in_progress"}


@pytest.mark.parametrize("said", ["absent", "known", "too early", "shows nothing"])
def test_what_did_not_act_and_fits_into_no_limit_is_cancelled_by_the_evidence_alone(
    open_desk: OpenDesk, service: Any, tmp_path: Path, said: str
) -> None:
    desk = open_desk(service.base_url, resend_after=600)
    service.plan(PAYOUT, accepted)
    other = sheet(tmp_path, ("b", "60", "12345670002"), name="b.csv")
    assert start(desk, other, "other") == {"b": "in_progress"}
    [sent] = service.sent_to(PAYOUT)
    known = shown(22, order_amount="60", currency="USDT_TRC20")
    service.plan(QUERY, lambda body: known(body) if body["request_id"] == sent["request_id"] else ABSENT)
    file = lose(desk, service, tmp_path, {"max_per_payout": {"USDT_TRC20": "100"}})
    adopt(desk, payouts={"max_per_payout": {"USDT_TRC20": "10"}})
    assert resolve_as_not_sent(desk, "a", **PERSON)[0].done
    assert start(desk, file, "run") == {"a": "held"}
    if said != "too early":
        clock_of(desk).move(WINDOW)
    if said == "known":
        service.plan(QUERY, known)
    if said == "shows nothing":
        service.plan(QUERY, ABSENT)  # also not the one that it showed before
    [decision] = cancel(desk, "a", **PERSON).decisions
    [order] = desk.ledger.orders(reference="a")
    assert (decision.done, order.state.outcome) == ((True, "cancelled") if said == "absent" else (False, "held"))
    why = {"absent": "never sent again", "known": "may have been paid", "too early": "cancel it after that"}
    assert why.get(said, "says nothing") in decision.says
