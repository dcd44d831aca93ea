"""Nights of a ledger that was lost or put back: what it had sent, and a person resolves as sent, moves once."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.crash.payments import make_kind
from tests.engine import paying
from tests.engine.answers import ABSENT, PAYOUT, QUERY, accepted, ok, shown
from tests.engine.nights import DAY, OpenDesk, balance, classes, month_of
from tests.engine.planned import PlannedService
from tests.engine.runs import night, pay, sheet
from tests.moved_clock import clock_of
from treasury.call.calls import send_operation
from treasury.orders.states import State
from treasury.payments.desk import Desk
from treasury.payments.resolving import resolve_as_ended, resolve_as_not_sent, resolve_as_sent
from treasury.provider.orders import Pay
from treasury.provider.service_rules import ServiceRules
from treasury.reports.results import next_action
from treasury.sandbox.behaviour import Behaviour

BALANCE, AS_PAID = "/v1/balance/partner", {"currency": "USDT_TRC20"}
EARLIER, LOST = ("z", "5", "12345670099"), ("a", "10", "12345670001")


@pytest.mark.parametrize("opened", ["before", "after", "by the question"])
def test_a_payment_of_a_lost_ledger_moves_its_account_once(
    opened: str, open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(settle_seconds=1)
    lost, desk = _lost(open_desk, sandbox, tmp_path), open_desk(sandbox.base_url)
    if opened == "before":
        pay(desk, sheet(tmp_path, EARLIER), tmp_path / "earlier", "earlier", seconds=20)
        night(desk, tmp_path / "0")
    pay(lost, sheet(tmp_path, LOST), tmp_path / "lost", seconds=20)
    if opened == "by the question":
        paying.commit(desk, sheet(tmp_path, LOST), "run")
    else:
        pay(desk, sheet(tmp_path, LOST), tmp_path / "out", seconds=20)
    clock_of(desk).move(DAY)
    first = night(desk, tmp_path / "1")
    gap = {"USDT_TRC20": "balance_gap new"} if opened == "before" else {}
    assert classes(first) == {"a": "orphan_success new", **gap}
    [decision] = resolve_as_sent(desk, "run", by="Ana", why="found at the service")
    assert decision.done
    clock_of(desk).move(DAY)
    second = night(desk, tmp_path / "2")
    ended = {"USDT_TRC20": "balance_gap resolved"} if gap else {}
    assert (classes(second), balance(second)["unexplained"]) == ({"a": "orphan_success persisting", **ended}, "0")
    month = month_of(desk, tmp_path / "month", f"{clock_of(desk).now():%Y-%m}")
    assert (month["closing"], month.get("difference")) == (balance(second)["closing"], None)
    sandbox.deposit("USDT_TRC20", "3")
    assert balance(night(desk, tmp_path / "3"))["unexplained"] == "3"


def test_a_scanned_code_of_a_lost_ledger_moves_its_account_once(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(settle_seconds=1)
    lost, desk = _lost(open_desk, sandbox, tmp_path), open_desk(sandbox.base_url)
    for each in (lost, desk):
        make_kind("scan_to_pay").start(each, tmp_path)
        sandbox.advance(60)
    orders = desk.ledger.orders()
    night(desk, tmp_path / "1")
    for order in orders:
        resolve_as_sent(desk, order.request_id, by="Ana", why="found at the service")
    second = night(desk, tmp_path / "2")
    assert {each["class"] for each in second["breaks"]} == {"orphan_success"}
    assert balance(second, "USDT")["unexplained"] == "0"


@pytest.mark.parametrize("rule", [{}, {"payout": "final"}, {"payout": "accepted"}], ids=str)
@pytest.mark.parametrize(("ends", "account"), [("settled", "12345670001"), ("failed", "12345670044")])
def test_what_was_on_its_way_when_the_account_was_opened_is_no_gap_once_it_is_resolved(
    rule: dict[str, str], ends: str, account: str, open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    behaviour = Behaviour(debited_when=rule.get("payout", "accepted"))
    sandbox = start_sandbox(settle_seconds=100_000, behaviour=behaviour)
    lost = _lost(open_desk, sandbox, tmp_path)
    desk = open_desk(sandbox.base_url, service=ServiceRules(debited_when=rule))
    for each in (lost, desk):
        pay(each, sheet(tmp_path, ("a", "10", account)), tmp_path / "out", seconds=0)
    night(desk, tmp_path / "1")
    resolve_as_sent(desk, "run", by="Ana", why="found at the service")
    for number in (2, 3):
        clock_of(desk).move(DAY)
        assert balance(night(desk, tmp_path / str(number)))["unexplained"] == "0"
        sandbox.advance(200_000)
    [order] = desk.ledger.orders()
    assert order.state.value == ends
    sandbox.deposit("USDT_TRC20", "30")
    assert Decimal(balance(night(desk, tmp_path / "4"))["unexplained"]) >= 20


@pytest.mark.parametrize("is_said", [True, False])
@pytest.mark.parametrize("debited", ["accepted", "final"])
def test_what_a_person_ended_before_the_account_was_opened_and_the_service_pays_moves_it_once(
    debited: str, is_said: bool, open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(settle_seconds=100_000, behaviour=Behaviour(debited_when=debited))
    desk = open_desk(sandbox.base_url, service=ServiceRules(debited_when={"payout": debited} if is_said else {}))
    pay(desk, sheet(tmp_path, LOST), tmp_path / "out", seconds=0)
    [order] = desk.ledger.orders()
    resolve_as_ended(desk, order.request_id, State.FAILED, None, by="Ana", why="their support said so")
    assert classes(night(desk, tmp_path / "1"))["a"] == "status_conflict new"
    sandbox.advance(200_000)
    for number in (2, 3):
        clock_of(desk).move(DAY)
        assert balance(night(desk, tmp_path / str(number)))["unexplained"] == "0"
    assert [each.state for each in desk.ledger.orders()] == [State.SETTLED]
    sandbox.deposit("USDT_TRC20", "30")
    assert Decimal(balance(night(desk, tmp_path / "4"))["unexplained"]) >= 20


def test_what_was_paid_in_the_opening_and_is_taken_back_and_paid_again_moves_each_time(
    open_desk: OpenDesk, service: PlannedService, tmp_path: Path
) -> None:
    """A person had ended it; the night that opens the account is shown that it was paid."""
    desk = open_desk(service.base_url)
    service.plans |= {PAYOUT: [accepted], QUERY: [ABSENT], BALANCE: [ok(balance="90")]}
    pay(desk, sheet(tmp_path, LOST), tmp_path / "out", seconds=0)
    [order] = desk.ledger.orders()
    resolve_as_ended(desk, order.request_id, State.FAILED, None, by="Ana", why="their support said so")
    for number, (status, available) in enumerate(((99, "90"), (44, "100"), (99, "90"), (44, "100")), 1):
        service.plans |= {QUERY: [shown(status, **AS_PAID)], BALANCE: [ok(balance=available)]}
        found = balance(night(desk, tmp_path / str(number)))
        assert (number, found["closing"], found.get("unexplained", "0")) == (number, available, "0")
        clock_of(desk).move(DAY)


def _lost(open_desk: OpenDesk, sandbox: Any, folder: Path) -> Desk:
    """A desk whose ledger the other one does not know."""
    return open_desk(sandbox.base_url, ledger=f"sqlite:///{folder}/lost.db", tokens=folder / "tokens-of-lost")


def test_a_payment_that_the_service_shows_otherwise_says_what_a_person_does_and_that_ends_it(
    open_desk: OpenDesk, service: Any, tmp_path: Path
) -> None:
    service.plans |= {PAYOUT: [accepted], BALANCE: [ok(balance="100")], QUERY: [ABSENT]}
    desk = open_desk(service.base_url)
    pay(desk, sheet(tmp_path, LOST), tmp_path / "out", seconds=0)
    service.plans[QUERY] = [shown(99, currency="USDT_TRC20", order_amount="9.99")]
    for number in (1, 2):  # however often it is asked about, it stays
        assert classes(night(desk, tmp_path / f"{number}"))["a"].startswith("amount_mismatch")
        clock_of(desk).move(DAY)
    [order] = desk.ledger.orders()
    said = next_action(order)
    assert (order.state, f"treasury resolve {order.request_id} " in said) == (State.UNKNOWN, True), said
    who = {"by": "Ana", "why": "its support says 9.99"}
    assert " --as settled" in said, said
    for refused in (
        resolve_as_ended(desk, order.request_id, State.FAILED, None, **who),
        resolve_as_not_sent(desk, order.request_id, **who),
    ):
        assert [(each.done, each.order.state) for each in refused] == [(False, State.UNKNOWN)], refused
    [decision] = resolve_as_ended(desk, order.request_id, State.SETTLED, None, **who)
    assert (decision.done, decision.order.state) == (True, State.SETTLED)


TAKEN = [
    ({"status": 88}, ["60"]),
    ({"status": 22}, ["60"]),
    ({"order_amount": "45"}, ["15"]),
    ({"currency": "EUR"}, ["60"]),
    ({"fee": "1"}, []),
    ({"order_amount": "60.0"}, []),
]


@pytest.mark.both_databases
@pytest.mark.parametrize(("later", "told"), TAKEN, ids=str)
def test_a_pay_in_that_brings_less_than_it_had_is_told_until_a_person_accepts_it(
    open_desk: OpenDesk, service: Any, tmp_path: Path, later: dict[str, Any], told: list[str]
) -> None:
    desk = open_desk(service.base_url)
    service.plans |= {"/v1/order/pay": [accepted], QUERY: [lambda _: ABSENT], BALANCE: [ok(balance="100")]}
    fields = {"payment_method": "on_line", "currency": "USDT_TRC20", "product_name": "p", "customer_ref_id": "c"}
    send_operation(desk, Pay(request_id="in-1", amount="60", **fields))
    came: dict[str, Any] = {"status": 99, "currency": "USDT_TRC20", "order_amount": "60", "order_no": "P9"}
    for number, shows in enumerate((came, came | later, came)):
        service.plans[QUERY] = [shown(**shows)]
        report = night(desk, tmp_path / f"{number}")
        found = [each["amount"] for each in report["breaks"] if each["class"] == "reversed_after_final"]
        assert found == (told if number else [])
        clock_of(desk).move(DAY)
