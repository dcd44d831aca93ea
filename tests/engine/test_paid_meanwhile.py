"""A run that sends, and is paid, while a night asks: the report is true, and so is the next one."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from tests.engine import paying
from tests.engine.answers import (
    ABSENT,
    FIAT_QUERY,
    KNOWN,
    PAYOUT,
    QUERY,
    accepted,
    fiat_payout,
    ok,
    payout,
    plan,
    refused,
    shown,
)
from tests.engine.approvers import change
from tests.engine.nights import DAY, ROWS, OpenDesk, balance, classes
from tests.engine.runs import night, pay, remake, sheet
from tests.moved_clock import clock_of
from treasury.call.calls import send_operation
from treasury.ledger import schema
from treasury.ledger.intents import commit_plan
from treasury.ledger.quotes import reference_of
from treasury.nights import sweep
from treasury.orders.records import Intent, Order
from treasury.orders.states import Event, Hold, State
from treasury.payments import execution
from treasury.payments.desk import Desk
from treasury.provider.orders import Pay
from treasury.provider.service_rules import ServiceRules
from treasury.reconciliation.scope import Scope
from treasury.sandbox.behaviour import Behaviour


def send(desk: Desk, ids: list[list[int]], seconds: float = 20) -> None:
    [some] = ids
    execution.send_orders(desk, "run", some)
    execution.follow_orders(desk, "run", some, seconds)


def ask_all(desk: Desk, sweep_id: int) -> None:
    for some in sweep.open_parts(desk, sweep_id).values():
        sweep.ask_orders(desk, some)


def scanned_code(name: str) -> Intent:
    """A code whose debit nobody knows when it is sent: 9 at most."""
    fields = {"user_xid": "u", "qrcode": "q", "amount": "100", "notify_url": "n"}
    return Intent(name, "submit_scan_to_pay", fields, fields, "USDT", ceiling=Decimal(9))


def open_with_a_code(open_desk: OpenDesk, service: Any, out: Path) -> tuple[Desk, Order]:
    """Open a desk that has planned a code, and the account of its currency in a night, with 100."""
    service.plans |= {"/v1/scanPay/submit": [ok(orderNo="P1", status=22)], QUERY: [ABSENT]}
    service.plans["/v1/balance/partner"] = [ok(balance="100")]
    desk = open_desk(service.base_url)
    order = plan(desk, scanned_code("a"))
    night(desk, out)
    clock_of(desk).move(DAY)
    return desk, order


@pytest.mark.both_databases
@pytest.mark.parametrize(("seconds", "is_held"), [(0, False), (20, False), (20, True)])
def test_what_had_not_left_when_the_night_began_and_is_sent_before_it_is_asked_about_is_no_break(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path, seconds: int, is_held: bool
) -> None:
    desk = open_desk(start_sandbox(settle_seconds=1).base_url)
    ids = paying.commit(desk, sheet(tmp_path, ROWS[0]), "run")
    if is_held:
        desk.ledger.step(desk.ledger.orders()[0], Event.HOLD, hold_kind=Hold.DUPLICATE)
    sweep_id = sweep.start_or_resume_sweep(desk, Scope())
    if is_held:
        desk.ledger.step(desk.ledger.orders()[0], Event.RELEASE, released=Hold.DUPLICATE)
    send(desk, ids, seconds)
    ask_all(desk, sweep_id)
    sweep.end_sweep(desk, sweep_id)
    report = remake(desk, sweep_id, tmp_path / "1")
    assert set(report["counts"]) == {"opening", "matched" if seconds else "in_progress"}


def test_what_the_service_says_that_it_knew_already_when_its_run_sent_it_is_a_break(
    open_desk: OpenDesk, service: Any, tmp_path: Path
) -> None:
    service.plans |= {QUERY: [shown(99)], PAYOUT: [KNOWN]}
    desk = open_desk(service.base_url)
    order = plan(desk, payout())
    sweep_id = sweep.start_or_resume_sweep(desk, Scope())
    assert desk.submission.submit(order).state is State.UNKNOWN
    ask_all(desk, sweep_id)
    sweep.end_sweep(desk, sweep_id)
    assert remake(desk, sweep_id, tmp_path / "1")["counts"] == {"orphan_success": 1}


@pytest.mark.parametrize("is_corrected", [False, True])
def test_what_had_ended_unpaid_since_the_night_began_and_is_shown_as_paid_is_a_break(
    open_desk: OpenDesk, service: Any, tmp_path: Path, is_corrected: bool
) -> None:
    """Whoever followed it was told that it failed, and may have paid it in another run."""
    service.plans |= {QUERY: [shown(44)], PAYOUT: [accepted]}
    desk = open_desk(service.base_url)
    order = plan(desk, payout())
    sweep_id = sweep.start_or_resume_sweep(desk, Scope())
    order = desk.submission.ask(desk.submission.submit(order))
    assert order.state is State.FAILED
    clock_of(desk).move(60)
    service.plans[QUERY] = [shown(99)]
    if is_corrected:
        assert desk.submission.ask(order).state is State.SETTLED
        clock_of(desk).move(60)
    ask_all(desk, sweep_id)
    sweep.end_sweep(desk, sweep_id)
    assert remake(desk, sweep_id, tmp_path / "1")["counts"] == {"orphan_success": 1}
    clock_of(desk).move(DAY)
    assert classes(night(desk, tmp_path / "2")) == {"a": "orphan_success persisting"}


def test_what_somebody_changed_since_the_night_began_and_is_sent_before_it_is_asked_about_is_told(
    open_desk: OpenDesk, service: Any, tmp_path: Path
) -> None:
    service.plans |= {QUERY: [shown(99)], PAYOUT: [accepted]}
    desk = open_desk(service.base_url)
    order = plan(desk, payout())
    sweep_id = sweep.start_or_resume_sweep(desk, Scope())
    desk.submission.submit(order)
    change(desk, update(schema.orders).values(receive_currency="USD"))
    ask_all(desk, sweep_id)
    sweep.end_sweep(desk, sweep_id)
    assert remake(desk, sweep_id, tmp_path / "1")["counts"] == {"changed_in_ledger": 1}


def test_a_quote_that_another_one_followed_since_the_night_began_is_asked_about_under_its_own_reference(
    open_desk: OpenDesk, service: Any, tmp_path: Path
) -> None:
    service.plans |= {FIAT_QUERY: [shown(11, currency=None, order_amount=None)]}
    desk = open_desk(service.base_url)
    order = plan(desk, fiat_payout())
    sweep_id = sweep.start_or_resume_sweep(desk, Scope())
    desk.ledger.note(order, generation=2, request_id=reference_of(desk.ledger, order, 2))
    ask_all(desk, sweep_id)
    sweep.end_sweep(desk, sweep_id)
    assert remake(desk, sweep_id, tmp_path / "1")["counts"] == {"in_progress": 1}
    assert [body["request_id"] for body in service.sent_to(FIAT_QUERY)] == [order.request_id]


@pytest.mark.parametrize("when", [None, "final", "accepted"])
def test_what_is_paid_after_the_balance_was_read_and_before_the_report_is_drawn_is_no_lot(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: Any
) -> None:
    behaviour = Behaviour(debited_when=when or "final")
    sandbox, read = start_sandbox(settle_seconds=1, behaviour=behaviour), sweep._read_balances
    desk = open_desk(sandbox.base_url, service=ServiceRules(debited_when={"payout": when} if when else {}))
    pay(desk, sheet(tmp_path, ROWS[0]), tmp_path / "first", "first", seconds=20)
    night(desk, tmp_path / "1")
    clock_of(desk).move(DAY)
    ids = paying.commit(desk, sheet(tmp_path, ("x", "50", "12345670001")), "run")

    def late(desk: Any, sweep_id: int, scope: Any, moment: str) -> None:
        read(desk, sweep_id, scope, moment)
        if moment == "after":
            send(desk, ids)

    monkeypatch.setattr("treasury.nights.sweep._read_balances", late)
    second = night(desk, tmp_path / "2")
    assert (classes(second), balance(second)["unexplained"]) == ({}, "0")
    monkeypatch.setattr("treasury.nights.sweep._read_balances", read)
    clock_of(desk).move(DAY)
    third = night(desk, tmp_path / "3")
    assert (classes(third), balance(third)["unexplained"]) == ({}, "0")
    assert Decimal(balance(third)["change"]) == -50
    assert third["verdict"] == "reconciled"


def test_a_scanned_code_that_fails_after_the_balance_was_read_and_before_the_report_is_drawn_is_no_lot(
    open_desk: OpenDesk, service: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = sweep._read_balances
    desk, order = open_with_a_code(open_desk, service, tmp_path / "1")
    order = desk.submission.submit(order)
    service.plans |= {QUERY: [shown(22, order_amount="8")], "/v1/balance/partner": [ok(balance="92")]}

    def late(desk: Any, sweep_id: int, scope: Any, moment: str) -> None:
        read(desk, sweep_id, scope, moment)
        if moment == "after":
            service.plans[QUERY] = [shown(44, order_amount="8")]
            assert desk.submission.ask(desk.ledger.orders()[0]).state is State.FAILED

    monkeypatch.setattr("treasury.nights.sweep._read_balances", late)
    assert classes(night(desk, tmp_path / "2")) == {}
    monkeypatch.setattr("treasury.nights.sweep._read_balances", read)
    service.plans["/v1/balance/partner"] = [ok(balance="100")]
    clock_of(desk).move(DAY)
    assert classes(night(desk, tmp_path / "3")) == {}


def test_a_scanned_code_that_is_sent_and_settles_after_the_questions_and_before_the_balance_is_read_is_no_lot(
    open_desk: OpenDesk, service: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = sweep._read_balances
    desk, _ = open_with_a_code(open_desk, service, tmp_path / "1")

    def late(desk: Any, sweep_id: int, scope: Any, moment: str) -> None:
        if moment == "after":
            service.plans[QUERY] = [ABSENT]
            commit_plan(desk.ledger, "other", "test", {}, "1" * 64, [scanned_code("b")])
            [order] = map(desk.submission.submit, desk.ledger.orders(run_key="other"))
            paid = shown(99, order_amount="8")
            service.plans[QUERY] = [lambda sent: paid(sent) if sent["request_id"] == order.request_id else ABSENT]
            assert desk.submission.ask(order).state is State.SETTLED
            service.plans["/v1/balance/partner"] = [ok(balance="92")]
        read(desk, sweep_id, scope, moment)

    monkeypatch.setattr("treasury.nights.sweep._read_balances", late)
    assert classes(night(desk, tmp_path / "2")) == {}
    monkeypatch.setattr("treasury.nights.sweep._read_balances", read)
    clock_of(desk).move(DAY)
    third = night(desk, tmp_path / "3")
    assert ("USDT" in classes(third), balance(third, "USDT")["unexplained"]) == (False, "0")
    service.plans["/v1/balance/partner"] = [ok(balance="87")]
    clock_of(desk).move(DAY)
    assert classes(night(desk, tmp_path / "4"))["USDT"] == "balance_gap new"


def test_a_scanned_code_that_was_on_its_way_the_night_before_and_settles_so_is_no_lot_either(
    open_desk: OpenDesk, service: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = sweep._read_balances
    desk, order = open_with_a_code(open_desk, service, tmp_path / "1")
    order, service.plans[QUERY] = desk.submission.submit(order), [shown(22, order_amount=None)]
    clock_of(desk).move(DAY)
    night(desk, tmp_path / "2")

    def late(desk: Any, sweep_id: int, scope: Any, moment: str) -> None:
        if moment == "after":
            service.plans[QUERY] = [shown(99, order_amount="8")]
            assert desk.submission.ask(order).state is State.SETTLED
            service.plans["/v1/balance/partner"] = [ok(balance="92")]
        read(desk, sweep_id, scope, moment)

    clock_of(desk).move(DAY)
    monkeypatch.setattr("treasury.nights.sweep._read_balances", late)
    assert "USDT" not in classes(night(desk, tmp_path / "3"))
    monkeypatch.setattr("treasury.nights.sweep._read_balances", read)
    clock_of(desk).move(DAY)
    fourth = night(desk, tmp_path / "4")
    assert ("USDT" in classes(fourth), balance(fourth, "USDT")["unexplained"]) == (False, "0")


@pytest.mark.both_databases
@pytest.mark.parametrize("heard", [True, False])
def test_what_was_paid_in_while_a_night_was_cut_off_is_asked_about_again(
    heard: bool, open_desk: OpenDesk, service: Any, tmp_path: Path
) -> None:
    """Its balances are read anew, and what a pay-in brought only its answer says; that of before, where none comes."""
    desk = open_desk(service.base_url)
    service.plans |= {"/v1/order/pay": [accepted], QUERY: [shown(22)], "/v1/balance/partner": [ok(balance="100")]}
    fields = {"payment_method": "on_line", "currency": "USDT_TRC20", "product_name": "p", "customer_ref_id": "c"}
    send_operation(desk, Pay(request_id="in-1", amount="60", **fields))
    night(desk, tmp_path / "1")
    clock_of(desk).move(DAY)
    paid = shown(99, currency="USDT_TRC20", order_amount="60")
    service.plans[QUERY] = [shown(22) if heard else paid]
    sweep_id = sweep.start_or_resume_sweep(desk, Scope())
    ask_all(desk, sweep_id)
    clock_of(desk).move(6 * 3600)
    service.plans[QUERY] = [paid if heard else refused(500000)]
    service.plans["/v1/balance/partner"] = [ok(balance="160")]
    if not heard:
        start, parts = desk.ledger.now(), sweep.open_parts(desk, sweep_id)
        sweep.ask_parts(desk, parts, start)
        assert (bool(parts), sweep.has_open(desk, parts, start)) == (True, False), "it was tried in this start"
    report = night(desk, tmp_path / "2")
    assert (report["breaks"], balance(report)["unexplained"], report["money_in"]["invoices"]) == ([], "0", {"paid": 1})


@pytest.mark.both_databases
def test_what_one_start_asks_again_after_another_has_ended_the_night_changes_no_report(
    open_desk: OpenDesk, service: Any, tmp_path: Path
) -> None:
    desk = open_desk(service.base_url)
    service.plans |= {"/v1/order/pay": [accepted], QUERY: [shown(22)], "/v1/balance/partner": [ok(balance="100")]}
    fields = {"payment_method": "on_line", "currency": "USDT_TRC20", "product_name": "p", "customer_ref_id": "c"}
    send_operation(desk, Pay(request_id="in-1", amount="60", **fields))
    sweep_id = sweep.start_or_resume_sweep(desk, Scope())
    ask_all(desk, sweep_id)
    clock_of(desk).move(60)
    start, parts = desk.ledger.now(), sweep.open_parts(desk, sweep_id)
    sweep.end_sweep(desk, sweep_id)
    report = remake(desk, sweep_id, tmp_path / "1")
    service.plans[QUERY] = [shown(99, currency="USDT_TRC20", order_amount="60")]
    assert (bool(parts), sweep.has_open(desk, parts, start)) == (True, False), "nobody asks in vain"
    for ids in parts.values():
        sweep.ask_orders(desk, ids, start)
    assert remake(desk, sweep_id, tmp_path / "1") == report


@pytest.mark.parametrize(("when", "status"), [("final", 99), ("accepted", 44)])
def test_what_ended_while_a_night_was_cut_off_is_asked_about_again_where_a_setting_says_when_it_debits(
    when: str, status: int, open_desk: OpenDesk, service: Any, tmp_path: Path
) -> None:
    """No range stands for what it moved: the ledger counts nothing of it, or all, until it knows the end."""
    desk = open_desk(service.base_url, service=ServiceRules(debited_when={"payout": when}))
    service.plans |= {PAYOUT: [accepted], QUERY: [ABSENT], "/v1/balance/partner": [ok(balance="100")]}
    order = plan(desk, payout())
    night(desk, tmp_path / "1")
    order, service.plans[QUERY] = desk.submission.submit(order), [shown(22)]
    service.plans["/v1/balance/partner"] = [ok(balance="100" if when == "final" else "90")]
    sweep_id = sweep.start_or_resume_sweep(desk, Scope())
    ask_all(desk, sweep_id)
    clock_of(desk).move(6 * 3600)
    service.plans[QUERY] = [shown(status)]
    service.plans["/v1/balance/partner"] = [ok(balance="90" if when == "final" else "100")]
    report = night(desk, tmp_path / "2")
    assert "USDT" not in classes(report)
    assert order.state is State.ACCEPTED
