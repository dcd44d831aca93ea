"""Limits, approvals, duplicates, stops and restores: what keeps money from leaving although a row asks for it."""

import shutil
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.engine import paying
from tests.engine.answers import number_of, payout, taken
from tests.engine.runs import sheet
from tests.moved_clock import RUNS, MovedClock, clock_of
from treasury.errors import (
    ApprovalNeeded,
    ConfigurationError,
    InputError,
    InvalidSheet,
    LimitExceeded,
)
from treasury.ledger.approvals import Approved
from treasury.ledger.debits import check_day
from treasury.ledger.policies import adopt_policy
from treasury.ledger.stops import lift_stop, stop_sending
from treasury.orders.states import Event, State
from treasury.pay.payout_plans import read_plan
from treasury.payments import approving, execution
from treasury.payments.desk import Desk
from treasury.payments.resolving import release_orders
from treasury.policy.model import parse_policy
from treasury.settings import os_user

OpenDesk = Callable[..., Desk]


def policy(folder: Path, text: str) -> Path:
    file = folder / "policy.toml"
    file.write_text(text)
    return file


def start(
    desk: Desk, file: Path, run_key: str = "run", limits: Path | None = None, seconds: float = 20
) -> dict[str, str]:
    chunks = paying.commit(desk, file, run_key, limits)
    for ids in chunks:
        execution.send_orders(desk, run_key, ids)
    execution.follow_orders(desk, run_key, [order for ids in chunks for order in ids], seconds)
    return {order.row_ref: order.state.outcome for order in desk.ledger.orders(run_key=run_key)}


# --- duplicates ------------------------------------------------------------------------------------------------------


def test_the_same_payment_twice_in_a_file_is_held(open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path) -> None:
    sandbox = start_sandbox()
    desk = open_desk(sandbox.base_url)
    file = sheet(tmp_path, ("a", "10", "12345670001"), ("b", "10.00", "1234 567 0001"), ("c", "10", "12345670002"))
    assert start(desk, file) == {"a": "settled", "b": "held", "c": "settled"}
    assert len(sandbox.orders()) == 2
    [held] = desk.ledger.orders(states=(State.HELD,))
    assert "a of run run" in str(held.reason)
    assert [entry.event for entry in desk.ledger.journal(held)] == ["hold"]


@pytest.mark.both_databases
def test_the_same_list_under_another_run_key_is_held_with_the_earlier_reference(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox()
    desk = open_desk(sandbox.base_url)
    file = sheet(tmp_path, ("a", "10", "12345670001"), ("b", "20", "12345670002"))
    start(desk, file, "one")
    assert start(desk, file, "two") == {"a": "held", "b": "held"}
    assert len(sandbox.orders()) == 2
    first = desk.ledger.orders(run_key="one")[0]
    assert first.request_id in str(desk.ledger.orders(run_key="two")[0].reason)


def test_a_row_that_says_why_is_paid(open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path) -> None:
    sandbox = start_sandbox()
    desk = open_desk(sandbox.base_url)
    rows = (("a", "10", "12345670001"),)
    start(desk, sheet(tmp_path, *rows), "one")
    assert start(desk, sheet(tmp_path, *rows), "two") == {"a": "held"}
    assert start(desk, sheet(tmp_path, *rows, why="second instalment"), "two") == {"a": "settled"}
    assert len(sandbox.orders()) == 2


def test_what_was_not_paid_or_long_ago_is_no_duplicate(open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path) -> None:
    sandbox = start_sandbox()
    desk = open_desk(sandbox.base_url)
    failing = (("a", "10", "12345670044"),)
    assert start(desk, sheet(tmp_path, *failing), "one") == {"a": "failed"}
    assert start(desk, sheet(tmp_path, *failing), "two") == {"a": "failed"}
    paid = (("a", "10", "12345670001"),)
    start(desk, sheet(tmp_path, *paid), "three")
    clock_of(desk).move(26 * 86400)
    assert start(desk, sheet(tmp_path, *paid), "four") == {"a": "settled"}


@RUNS
@pytest.mark.both_databases
def test_two_runs_of_one_list_started_in_the_same_second_pay_once(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox()
    desks = [open_desk(sandbox.base_url) for _ in range(3)]
    file = sheet(tmp_path, *((f"r{number}", "5", f"123456{number:04d}7") for number in range(20)))
    gate = threading.Barrier(3)

    def run(number: int) -> list[str]:
        gate.wait()
        return list(start(desks[number], file, f"run{number}").values())

    with ThreadPoolExecutor(3) as pool:
        outcomes = [outcome for each in pool.map(run, range(3)) for outcome in each]
    assert sorted(outcomes) == ["held"] * 40 + ["settled"] * 20
    assert len(sandbox.orders()) == 20


# --- limits ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("table", "place"),
    [
        ('[payouts.max_per_payout]\nUSDT_TRC20 = "15"', ("b", "amount", "15 USDT_TRC20 per payout")),
        ('[payouts]\ncountries = ["BR"]', ("a", "country", "not a country")),
        ('[payouts]\ncurrencies = ["USDT"]', ("a", "currency", "not a currency")),
    ],
)
def test_a_row_over_a_limit_is_named_and_nothing_is_sent(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path, table: str, place: tuple[str, str, str]
) -> None:
    sandbox = start_sandbox()
    desk = open_desk(sandbox.base_url)
    file = sheet(tmp_path, ("a", "10", "12345670001"), ("b", "20", "12345670002"))
    with pytest.raises(InvalidSheet) as refused:
        start(desk, file, limits=policy(tmp_path, table))
    first = refused.value.problems[0]
    assert (first.row_ref, first.column) == place[:2]
    assert place[2] in first.rule
    assert (sandbox.orders(), desk.ledger.runs()) == ([], [])


@pytest.mark.both_databases
def test_a_run_and_a_day_have_limits(open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path) -> None:
    sandbox = start_sandbox()
    desk = open_desk(sandbox.base_url)
    rows = [sheet(tmp_path, (f"r{n}", "10", f"1234567000{n}"), name=f"{n}.csv") for n in range(4)]
    both = sheet(tmp_path, ("a", "10", "12345670007"), ("b", "20.01", "12345670008"), name="both.csv")
    limits = policy(
        tmp_path,
        'time_zone = "Asia/Singapore"\n[payouts]\nmax_per_run = {USDT_TRC20 = 30}\nmax_per_day = {USDT_TRC20 = 30}',
    )
    with pytest.raises(LimitExceeded, match=r"30\.01 USDT_TRC20, over the limit of 30 per run"):
        start(desk, both, "sum", limits)
    for number in range(3):
        assert start(desk, rows[number], f"run{number}", limits) == {f"r{number}": "settled"}
    with pytest.raises(
        LimitExceeded, match=r"the limit of \d{4}-\d\d-\d\d is 30 USDT_TRC20: 30 count already, and this run adds 10"
    ):
        start(desk, rows[3], "run3", limits)
    assert desk.ledger.run("run3") is None
    assert len(desk.ledger.orders()) == len(sandbox.orders()) == 3
    assert start(desk, rows[0], "run0", limits) == {"r0": "settled"}
    # A limit that was lowered below what counts already refuses what spends of that currency, and nothing else.
    lower = policy(tmp_path, 'time_zone = "Asia/Singapore"\n[payouts]\nmax_per_day = {USDT_TRC20 = 5, USDT = 50}')
    (tmp_path / "other.csv").write_text(rows[3].read_text().replace("USDT_TRC20", "USDT"))
    assert start(desk, tmp_path / "other.csv", "other", lower) == {"r3": "settled"}
    with pytest.raises(LimitExceeded):
        start(desk, rows[3], "run3", lower)
    day, most = str(desk.ledger.orders()[0].counted_on), {"USDT_TRC20": Decimal(5)}

    def judge(currency: str | None, amount: Decimal | None) -> None:
        one = replace(payout(), currency=currency, amount=amount)
        desk.ledger.look(lambda connection: check_day(connection, day, most, [one]))

    judge("USDT", Decimal(1))
    for unknown in (("USDT_TRC20", None), (None, None), (None, Decimal(1))):  # nobody knows how much, or of what
        with pytest.raises(LimitExceeded):
            judge(*unknown)


def test_a_policy_without_payout_limits_is_refused(open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path) -> None:
    desk = open_desk(start_sandbox().base_url)
    file = sheet(tmp_path, ("a", "10", "12345670001"))
    for text, words in (("", "no \\[payouts\\] table"), ("[payouts]\nmax_per_paiout = 3", "max_per_paiout")):
        with pytest.raises(InputError, match=words):
            start(desk, file, limits=policy(tmp_path, text))
    with pytest.raises(InputError, match="exact"):
        start(desk, file, limits=policy(tmp_path, "[payouts.max_per_run]\nUSDT = 1.5"))


# --- approvals -------------------------------------------------------------------------------------------------------

TWO = '[payouts]\none_approval_above = {USDT_TRC20 = "10"}\ntwo_approvals_above = {USDT_TRC20 = "25"}'


def propose(desk: Desk, file: Path, limits: Path) -> None:
    paying.propose(desk, read_plan(file, "run", limits), limits)


def approve(desk: Desk, name: str) -> Approved:
    return approving.approve(desk, "run", name=name)


def test_a_large_run_waits_for_two_people_who_are_not_its_maker(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox()
    desk = open_desk(sandbox.base_url)
    file = sheet(tmp_path, ("a", "10", "12345670001"), ("b", "20", "12345670002"))
    limits = policy(tmp_path, TWO)
    with pytest.raises(InputError, match="no plan"):
        approve(desk, "Alice")
    with pytest.raises(ApprovalNeeded, match="needs 2 approval"):
        propose(desk, file, limits)
    with pytest.raises(ApprovalNeeded):
        start(desk, file, limits=limits)
    with pytest.raises(InputError, match="made this plan"):
        approve(desk, os_user().upper())
    approve(desk, "Alice")
    with pytest.raises(InputError, match="already"):
        approve(desk, "alice")
    with pytest.raises(ApprovalNeeded, match="approved by Alice"):
        propose(desk, file, limits)
    assert sandbox.orders() == []
    done = approve(desk, "Bob")
    assert (done.plan.needed, done.judged.counted) == (2, ("Alice", "Bob"))
    propose(desk, file, limits)
    assert start(desk, file, limits=limits) == {"a": "settled", "b": "settled"}


@pytest.mark.parametrize("change", ["row", "policy"])
def test_a_change_voids_an_approval(open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path, change: str) -> None:
    sandbox = start_sandbox()
    desk = open_desk(sandbox.base_url)
    file = sheet(tmp_path, ("a", "20", "12345670001"))
    limits = policy(tmp_path, TWO)
    with pytest.raises(ApprovalNeeded):
        propose(desk, file, limits)
    approve(desk, "Alice")
    propose(desk, file, limits)
    if change == "row":
        file = sheet(tmp_path, ("a", "20", "12345670009"))
    else:
        limits = policy(tmp_path, TWO + '\nmax_per_run = {USDT_TRC20 = "100"}')
    with pytest.raises(ApprovalNeeded, match="approved by nobody"):
        propose(desk, file, limits)
    with pytest.raises(ApprovalNeeded):
        start(desk, file, limits=limits)
    assert sandbox.orders() == []


def test_the_same_amounts_written_otherwise_keep_an_approval(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    desk = open_desk(start_sandbox().base_url)
    limits = policy(tmp_path, TWO)
    with pytest.raises(ApprovalNeeded):
        propose(desk, sheet(tmp_path, ("a", "20", "12345670001")), limits)
    approve(desk, "Alice")
    assert start(desk, sheet(tmp_path, ("a", "20.00", "12345670001")), limits=limits) == {"a": "settled"}


# --- stops -----------------------------------------------------------------------------------------------------------


def test_while_a_stop_stands_nothing_is_sent(open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path) -> None:
    sandbox = start_sandbox()
    desk, other = open_desk(sandbox.base_url), open_desk(sandbox.base_url)
    stop_sending(other.ledger, "Alice", "wrong file")
    file = sheet(tmp_path, ("a", "10", "12345670001"))
    assert start(desk, file) == {"a": "not_sent"}
    assert "stopped by Alice: wrong file" in str(desk.ledger.orders()[0].reason)
    assert (sandbox.orders(), lift_stop(other.ledger, "Bob"), lift_stop(other.ledger, "Bob")) == ([], 1, 0)
    assert start(desk, file) == {"a": "settled"}
    with pytest.raises(InputError):
        stop_sending(desk.ledger, "", "why")


@pytest.mark.both_databases
@pytest.mark.parametrize("name", ["\N{ZERO WIDTH SPACE}", "\N{HANGUL FILLER}", "--"])
def test_a_name_that_nobody_sees_is_none(open_desk: OpenDesk, start_sandbox: Any, name: str) -> None:
    desk = open_desk(start_sandbox().base_url)
    with pytest.raises(InputError, match=r"a stop needs a name|cannot be shown"):
        stop_sending(desk.ledger, name, "why")
    policy = parse_policy({"payouts": {"max_per_run": {"USDT": "1"}}}, "policy")
    with pytest.raises(InputError, match=r"needs the name of the person|cannot be shown"):
        adopt_policy(desk.ledger, policy, "policy", by=name, os_user="ada")


@pytest.mark.both_databases
def test_a_name_is_no_longer_than_the_ledger_keeps_it(open_desk: OpenDesk, start_sandbox: Any) -> None:
    """SQLite kept it all the same; on PostgreSQL the command ended without saying what was too long."""
    desk = open_desk(start_sandbox().base_url)
    stop_sending(desk.ledger, "N" * 100, "why")
    with pytest.raises(InputError, match="may have 100 characters, and this one has 101: NNN"):
        stop_sending(desk.ledger, "N" * 101, "why")
    policy = parse_policy({"payouts": {"max_per_run": {"USDT": "1"}}}, "policy")
    with pytest.raises(InputError, match="may have 100 characters"):
        adopt_policy(desk.ledger, policy, "policy", by="N" * 101, os_user="ada")


def test_a_stop_reaches_a_run_in_the_middle(open_desk: OpenDesk, service: Any, tmp_path: Path) -> None:
    desk = open_desk(service.base_url)
    other = open_desk(service.base_url)
    sent_when_it_stood: list[int] = []
    once, stands = threading.Lock(), threading.Event()

    def accept(body: Any) -> tuple[int, Any]:
        if len(service.sent_to("/v1/order/payout")) >= 40:
            if once.acquire(blocking=False):
                stop_sending(other.ledger, "Alice", "now")
                sent_when_it_stood.append(len(service.sent_to("/v1/order/payout")))
                stands.set()
            stands.wait(60)  # else all may have left before the stop gets the database's lock
        return taken(body)

    service.plan("/v1/order/payout", accept)
    file = sheet(tmp_path, *((f"r{number}", "5", f"123456{number:04d}7") for number in range(400)))
    outcomes = list(start(desk, file, seconds=0).values())
    sent = outcomes.count("in_progress")
    assert 40 <= sent <= sent_when_it_stood[0] + desk.in_flight < 400
    assert outcomes.count("not_sent") == 400 - sent
    assert len(service.sent_to("/v1/order/payout")) == sent


@pytest.mark.parametrize("most", [50, 10])
def test_so_many_alike_failures_stop_a_run(open_desk: OpenDesk, service: Any, tmp_path: Path, most: int) -> None:
    desk, limits = open_desk(service.base_url), policy(tmp_path, f"[payouts]\nstop_after_failures = {most}")
    service.plan("/v1/order/payout", (200, {"code": 7002, "message": "CURRENCY_NOT_SUPPORT"}))
    file = sheet(tmp_path, *((f"r{number}", "5", f"123456{number:04d}7") for number in range(300)))
    outcomes = list(start(desk, file, limits=limits, seconds=0).values())
    assert most <= outcomes.count("rejected") <= most + desk.in_flight
    assert outcomes.count("not_sent") == 300 - outcomes.count("rejected")
    waiting = desk.ledger.orders(states=(State.PREPARED,))
    assert "sends in a row failed in the same way (7002)" in str(waiting[0].reason)
    service.plan("/v1/order/payout", taken)
    assert list(start(desk, file, limits=limits, seconds=0).values()).count("not_sent") == 0


def test_a_share_of_failures_stops_a_run(open_desk: OpenDesk, service: Any, tmp_path: Path) -> None:
    desk = open_desk(service.base_url)
    answers = iter(range(10_000))

    def mixed(body: Any) -> tuple[int, Any]:
        code = 202203 if next(answers) % 2 else 200
        return (200, {"code": code, "message": "", "data": {"order_no": number_of(body), "status": 11}})

    service.plan("/v1/order/payout", mixed)
    file = sheet(tmp_path, *((f"r{number}", "5", f"123456{number:04d}7") for number in range(300)))
    outcomes = list(
        start(desk, file, limits=policy(tmp_path, "[payouts]\nstop_above_percent = 30"), seconds=0).values()
    )
    assert outcomes.count("not_sent") > 200


# --- people, clocks, backups -----------------------------------------------------------------------------------------


def test_a_person_decides_about_an_unknown_order(open_desk: OpenDesk, service: Any, tmp_path: Path) -> None:
    desk = open_desk(service.base_url, resend_after=600)
    service.plan("/v1/order/payout", "drop", taken)
    file = sheet(tmp_path, ("a", "10", "12345670001"))
    assert start(desk, file, seconds=0) == {"a": "unknown"}
    [order] = desk.ledger.orders()
    desk.ledger.step(order, Event.RESOLVE_NOT_SENT, cause="Alice: the service says so")
    assert start(desk, file, seconds=0) == {"a": "in_progress"}
    [journaled] = [entry for entry in desk.ledger.journal(order) if entry.event == Event.RESOLVE_NOT_SENT]
    assert journaled.cause == "Alice: the service says so"


def test_a_clock_that_is_off_sends_nothing(open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path) -> None:
    sandbox = start_sandbox()
    desk = open_desk(sandbox.base_url)
    desk.client.clock = MovedClock(1_000_000_000.0)
    with pytest.raises(ConfigurationError, match="clock is"):
        start(desk, sheet(tmp_path, ("a", "10", "12345670001")))
    assert sandbox.orders() == []
    assert desk.ledger.orders() == []


@pytest.mark.both_databases
def test_after_a_restore_every_waiting_order_is_asked_before_it_is_sent(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox()
    file = sheet(tmp_path, ("a", "10", "12345670001"), ("b", "20", "12345670002"), ("c", "30", "12345670003"))
    url = f"sqlite:///{tmp_path / 'home.db'}"
    desk = open_desk(sandbox.base_url, ledger=url)
    paying.commit(desk, file, "run")
    desk.close()
    shutil.copy(tmp_path / "home.db", tmp_path / "backup.db")
    desk = open_desk(sandbox.base_url, ledger=url)
    [order] = [order for order in desk.ledger.orders() if order.row_ref == "a"]
    execution.send_orders(desk, "run", [order.id])
    desk.close()
    shutil.copy(tmp_path / "backup.db", tmp_path / "home.db")
    desk = open_desk(sandbox.base_url, ledger=url)
    assert start(desk, file) == {"a": "held", "b": "held", "c": "held"}
    assert {order.hold_kind for order in desk.ledger.orders()} == {"older"}
    assert len(sandbox.orders()) == 1
    release_orders(desk, "run", None, by="Ada Example", why="looked at the portal")
    assert start(desk, file) == {"a": "held", "b": "settled", "c": "settled"}
    [known] = desk.ledger.orders(states=(State.HELD,))
    assert known.hold_kind == "known"
    assert sorted(entry["amount"] for entry in sandbox.orders()) == [Decimal(10), Decimal(20), Decimal(30)]
    assert {entry["effects"] for entry in sandbox.orders()} == {1}


def test_a_ledger_that_was_not_restored_asks_nothing_first(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    desk = open_desk(start_sandbox().base_url)
    file = sheet(tmp_path, ("a", "10", "12345670001"))
    for _ in range(2):
        paying.commit(desk, file, "run")
        assert not desk.ledger.orders()[0].absences_needed
