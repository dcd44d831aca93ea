"""An end that the service takes back is a break of the next whole report, whoever asked about the order before it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.engine.answers import ABSENT, PAYOUT, QUERY, accepted, ok, shown
from tests.engine.nights import DAY, OpenDesk, classes
from tests.engine.runs import night, pay, remake, sheet
from tests.moved_clock import clock_of
from treasury.ledger.kept_breaks import accept_break
from treasury.ledger.notifications import keep_notifications
from treasury.nights import sweep
from treasury.nights.notified import take_up_notifications
from treasury.payments.desk import Desk
from treasury.reconciliation.scope import Scope


def by_notification(desk: Desk, _: Path) -> None:
    [order] = desk.ledger.orders()
    keep_notifications(desk.ledger, [{"request_id": order.request_id, "order_type": "payout", "status": 44}])
    assert take_up_notifications(desk) == 1


def by_narrowed_report(desk: Desk, out: Path) -> None:
    assert classes(night(desk, out, Scope(run_key="run"))) == {"a": "reversed_after_final new"}


def by_night_that_was_cut_off(desk: Desk, _: Path) -> None:
    sweep_id = sweep.start_or_resume_sweep(desk, Scope())
    for ids in sweep.open_parts(desk, sweep_id).values():
        sweep.ask_orders(desk, ids)
    clock_of(desk).move(DAY)


def by_window(desk: Desk, out: Path) -> None:
    by_notification(desk, out)
    clock_of(desk).move(9 * DAY)
    assert classes(night(desk, out, Scope(window_days=1))) == {}


def by_notification_before_a_night_without_answers(desk: Desk, out: Path) -> None:
    by_notification(desk, out)
    sweep_id = sweep.start_or_resume_sweep(desk, Scope())
    sweep.end_sweep(desk, sweep_id)
    unasked = remake(desk, sweep_id, out)
    assert (unasked["verdict"], classes(unasked)["a"]) == ("incomplete", "query_failed new")
    clock_of(desk).move(DAY)


FIRST = (
    *(by_notification, by_narrowed_report, by_night_that_was_cut_off),
    *(by_window, by_notification_before_a_night_without_answers),
)


@pytest.mark.parametrize("asked", FIRST)
def test_what_the_service_takes_back_is_a_break_whoever_asked_first(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path, asked: Callable[[Desk, Path], None]
) -> None:
    desk = open_desk(start_sandbox(settle_seconds=1, faults={"flip_final": 1.0}, flip_seconds=3600).base_url)
    pay(desk, sheet(tmp_path, ("a", "10", "12345670001")), tmp_path / "out", seconds=20)
    night(desk, tmp_path / "1")
    clock_of(desk).move(DAY)
    asked(desk, tmp_path / "2")
    assert [order.state.value for order in desk.ledger.orders()] == ["failed"]  # so that it may be replaced, or not
    known = "persisting" if asked is by_notification_before_a_night_without_answers else "new"
    assert classes(night(desk, tmp_path / "3")) == {"a": f"reversed_after_final {known}"}
    assert classes(night(desk, tmp_path / "4")) == {"a": "reversed_after_final persisting"}


def test_what_only_a_person_ends_is_shown_by_a_narrowed_report_that_asks_about_it_too(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    desk = open_desk(start_sandbox(settle_seconds=1, faults={"flip_final": 1.0}, flip_seconds=3600).base_url)
    pay(desk, sheet(tmp_path, ("a", "10", "12345670001")), tmp_path / "out", seconds=20)
    night(desk, tmp_path / "1")
    clock_of(desk).move(9 * DAY)
    [found] = night(desk, tmp_path / "2")["breaks"]
    clock_of(desk).move(3 * DAY)
    for scope, stands in (
        (Scope(run_key="run"), True),
        (Scope(currency="USDT_TRC20"), True),
        (Scope(window_days=1), False),
    ):
        report = night(desk, tmp_path / "narrowed", scope)
        wanted = ("breaks", {"a": "reversed_after_final persisting"}) if stands else ("reconciled", {})
        assert (report["verdict"], classes(report)) == wanted, scope
    accept_break(desk.ledger, found["id"], by="Ana", os_user="ana", why="the money is back")
    assert night(desk, tmp_path / "accepted", Scope(run_key="run"))["verdict"] == "reconciled"


def test_what_is_taken_back_between_its_question_and_the_report_is_told_by_the_next(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    desk = open_desk(start_sandbox(settle_seconds=1, faults={"flip_final": 1.0}, flip_seconds=2 * DAY).base_url)
    pay(desk, sheet(tmp_path, ("a", "10", "12345670001")), tmp_path / "out", seconds=20)
    sweep_id = sweep.start_or_resume_sweep(desk, Scope())
    for ids in sweep.open_parts(desk, sweep_id).values():
        sweep.ask_orders(desk, ids)
    clock_of(desk).move(3 * DAY)
    by_notification(desk, tmp_path)
    sweep.end_sweep(desk, sweep_id)
    assert "a" not in classes(remake(desk, sweep_id, tmp_path / "1"))
    assert classes(night(desk, tmp_path / "2"))["a"] == "reversed_after_final new"
    assert classes(night(desk, tmp_path / "3"))["a"] == "reversed_after_final persisting"


@pytest.mark.parametrize(
    ("between", "said"),
    [
        (lambda _: (500, {}), "query_failed"),
        (shown(99, currency="USDT_TRC20", fee_amount="9"), "orphan_success"),
        (shown(22, currency="USDT_TRC20"), "orphan_success"),
    ],
)
def test_an_end_that_was_taken_back_and_is_as_before_stays_a_break_whatever_one_night_shows(
    open_desk: OpenDesk, service: Any, tmp_path: Path, between: Any, said: str
) -> None:
    desk, settled = open_desk(service.base_url), shown(99, currency="USDT_TRC20", fee_amount="0.5")
    service.plans |= {PAYOUT: [accepted], QUERY: [lambda _: ABSENT], "/v1/balance/partner": [ok(balance="100")]}
    pay(desk, sheet(tmp_path, ("a", "10", "12345670001")), tmp_path / "out", seconds=0)
    told = []
    for number, answer in enumerate((settled, shown(44, currency="USDT_TRC20"), settled, between, settled, settled)):
        service.plans[QUERY] = [answer]
        told.append(classes(night(desk, tmp_path / f"{number}")).get("a"))
        clock_of(desk).move(DAY)
    kept = "orphan_success persisting"
    assert told == [None, "reversed_after_final new", kept, f"{said} persisting", kept, kept]
