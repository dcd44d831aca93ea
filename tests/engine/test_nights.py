"""Nights in a row, on both databases: sums that explain themselves, breaks that live, sweeps that go on."""

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, select, update

from tests.crash.payments import make_kind
from tests.engine import paying
from tests.engine.answers import ABSENT, accepted, fiat_payout, number_of, ok, shown, taken
from tests.engine.nights import DAY, ROWS, OpenDesk, balance, classes
from tests.engine.runs import night, pay, remake, sheet
from tests.moved_clock import clock_of
from tests.parts import sheet as long_sheet
from treasury.errors import InputError
from treasury.ledger import closing, schema, sweeps
from treasury.ledger.debits import counted_on
from treasury.ledger.intents import commit_plan
from treasury.ledger.kept_breaks import accept_break
from treasury.ledger.ledger import Ledger
from treasury.ledger.policies import adopt_policy
from treasury.ledger.quotes import finish_quote, open_quote
from treasury.nights import sweep
from treasury.nights.standing import standing_of
from treasury.orders.records import Order
from treasury.payments.desk import Desk
from treasury.policy_file import read_policy
from treasury.provider.client import Client
from treasury.provider.pacing import Retry
from treasury.provider.service_rules import ServiceRules
from treasury.reconciliation.scope import Scope
from treasury.reports.reconciliation import FILES
from treasury.sending.stop_loss import UNREACHED


def line(report: dict[str, Any], currency: str = "USDT_TRC20") -> tuple[str, ...]:
    [found] = [each for each in report["statement"] if each["currency"] == currency]
    names = ("opening_in_flight", "sent", "arrived", "fees", "failed_and_returned", "closing_in_flight", "residual")
    return tuple(found[name] for name in names)


def test_the_sums_of_two_nights_explain_themselves(open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path) -> None:
    sandbox = start_sandbox(settle_seconds=60)
    desk = open_desk(sandbox.base_url)
    pay(desk, sheet(tmp_path, *ROWS), tmp_path / "out", seconds=0)
    first = night(desk, tmp_path / "1")
    assert line(first) == ("0", "60", "0", "0", "0", "60", "0")
    assert (first["verdict"], balance(first)["judgement"], first["since"]) == ("pending", "first", None)
    sandbox.advance(120)
    second = night(desk, tmp_path / "2")
    assert line(second) == ("60", "0", "9.9", "0.1", "20", "30", "0")
    assert (second["verdict"], second["since"]) == ("pending", first["as_of"])
    assert balance(second)["judgement"] == "explained"
    third = night(desk, tmp_path / "3")
    assert line(third) == ("30", "0", "0", "0", "0", "30", "0")
    assert balance(third)["change"] == "-10"


def test_a_report_says_which_days_had_none(open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path) -> None:
    desk = open_desk(start_sandbox().base_url)
    assert night(desk, tmp_path / "1")["missed_days"] == []
    clock_of(desk).move(3 * DAY)
    night(desk, tmp_path / "narrowed", Scope(window_days=1))
    clock_of(desk).move(2 * DAY)
    report = night(desk, tmp_path / "2", files=True)
    assert report["missed_days"] == [f"2027-01-{day}" for day in (16, 17, 18, 19)]
    said = "No report of everything was made on 4 days: 2027-01-16 to 2027-01-19."
    for name in ("reconciliation.md", "reconciliation.html"):
        assert said in (tmp_path / "2" / name).read_text()
    clock_of(desk).move(DAY)
    assert night(desk, tmp_path / "3")["missed_days"] == []


@pytest.mark.parametrize("days", [366, -366], ids=["ahead", "behind"])
def test_a_report_by_a_clock_that_was_wrong_hides_no_night_and_makes_up_none(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path, days: int
) -> None:
    desk = open_desk(start_sandbox().base_url)
    night(desk, tmp_path / "1", files=True)
    clock = clock_of(desk)
    clock.move(DAY)
    clock.set_wall(days * DAY)
    night(desk, tmp_path / "2", files=True)
    clock.set_wall(-days * DAY)
    assert standing_of(desk)["missed_nights"] == []
    clock.move(3 * DAY)
    missed = [f"2027-01-{day}" for day in (16, 17, 18)]
    assert standing_of(desk)["missed_nights"] == missed
    assert night(desk, tmp_path / "3", files=True)["missed_days"] == missed
    clock.move(DAY)
    assert night(desk, tmp_path / "4", files=True)["missed_days"] == []
    assert standing_of(desk)["missed_nights"] == []


def test_a_fee_that_grew_since_it_was_told_first_stays_a_warning(
    open_desk: OpenDesk, service: Any, tmp_path: Path
) -> None:
    def told(fee: str) -> Callable[[Any], tuple[int, Any]]:
        return shown(99, currency="USDT_TRC20", fee_amount=fee, arrive_amount=str(10 - Decimal(fee)))

    service.plans |= {"/v1/order/payout": [accepted], "/v1/balance/partner": [ok(balance="100")]}
    service.plans["/v1/order/query"] = [ABSENT, told("1"), told("6")]
    desk = open_desk(service.base_url)
    pay(desk, sheet(tmp_path, ROWS[0]), tmp_path / "out", seconds=1)
    for number, lifecycle in enumerate(("new", "persisting"), 1):
        report = night(desk, tmp_path / f"{number}")
        assert (report["verdict"], classes(report)) == ("warnings", {"a": f"fee_variance {lifecycle}"})


def test_a_settled_payment_by_a_scanned_code_counts_in_its_day_at_what_it_debited(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(settle_seconds=1)
    desk = open_desk(sandbox.base_url)
    rules = tmp_path / "policy.toml"
    rules.write_text('time_zone = "UTC"\n[payouts]\nmax_per_payout = {USDT = "1000"}\nmax_per_day = {USDT = "10000"}\n')
    adopt_policy(desk.ledger, read_policy(rules), "policy.toml", by="Ana", os_user="ana")
    make_kind("scan_to_pay", rows=3).start(desk, tmp_path)
    sandbox.advance(60)
    night(desk, tmp_path / "1")
    debited = sum(Decimal(order["amount"]) + Decimal(order["fee"]) for order in sandbox.orders())
    [day] = {order.counted_on for order in desk.ledger.orders()}
    assert 0 < debited < 100
    assert counted_on(desk.ledger, str(day), ["USDT"]) == {"USDT": debited}


def test_a_break_persists_is_accepted_and_counts_again_when_it_changes(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox()
    desk = open_desk(sandbox.base_url)
    pay(desk, sheet(tmp_path, ROWS[0]), tmp_path / "out", seconds=20)
    forge(desk, amount="9")
    first, second = night(desk, tmp_path / "1"), night(desk, tmp_path / "2")
    assert (classes(first), classes(second)) == ({"a": "amount_mismatch new"}, {"a": "amount_mismatch persisting"})
    [found] = second["breaks"]
    assert (found["id"], found["first_seen"]) == (first["breaks"][0]["id"], first["as_of"])
    assert (found["amount"], found["difference"]) == ("9", "1")
    known = accept_break(desk.ledger, found["id"], by="Ana", os_user="ana", why="agreed")
    assert known.found.name == "amount_mismatch"
    third = night(desk, tmp_path / "3")
    assert third["verdict"] == "reconciled"
    assert third["breaks"][0]["accepted"]["by"] == "Ana"
    forge(desk, amount="8")
    assert night(desk, tmp_path / "4")["verdict"] == "breaks"
    with pytest.raises(InputError, match="no open break"):
        accept_break(desk.ledger, "B-000000000000", by="Ana", os_user="ana", why="agreed")


def forge(desk: Desk, **changed: str) -> None:
    """Change the ledger behind its back."""
    desk.ledger.write(lambda connection: connection.execute(update(schema.orders).values(**changed)).rowcount)


@pytest.mark.both_databases
def test_a_journal_that_lost_a_step_makes_the_report_incomplete(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox()
    desk = open_desk(sandbox.base_url)
    pay(desk, sheet(tmp_path, ROWS[0]), tmp_path / "out", seconds=20)
    gone = delete(schema.journal).where(schema.journal.c.target == "settled")
    desk.ledger.write(lambda connection: connection.execute(gone).rowcount)
    report = night(desk, tmp_path / "1")
    assert (report["verdict"], line(report)) == ("incomplete", ("0", "10", "0", "0", "0", "0", "10"))


def test_a_report_is_made_again_from_stored_answers_to_the_byte(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox()
    desk = open_desk(sandbox.base_url)
    with pytest.raises(InputError, match="no stored answers"):
        sweep.stored_sweep(desk, Scope())
    pay(desk, sheet(tmp_path, *ROWS), tmp_path / "out", seconds=1)
    night(desk, tmp_path / "1", files=True)
    asked = len(sandbox.orders())
    stored = sweep.stored_sweep(desk, Scope())
    assert sweep.open_parts(desk, stored) == {}
    sandbox.advance(600)
    remake(desk, stored, tmp_path / "again", files=True)
    for name in FILES:
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "1" / name).read_bytes()
    assert len(sandbox.orders()) == asked


@pytest.mark.both_databases
def test_a_sweep_that_was_cut_off_goes_on_and_takes_in_what_is_new(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep, "PART", 2)
    sandbox = start_sandbox()
    desk = open_desk(sandbox.base_url)
    pay(desk, sheet(tmp_path, *ROWS), tmp_path / "out", seconds=1)
    first = sweep.start_or_resume_sweep(desk, Scope())
    parts = sweep.open_parts(desk, first)
    assert [len(ids) for ids in parts.values()] == [2, 1]
    sweep.ask_orders(desk, parts.pop(0))
    again = open_desk(sandbox.base_url)
    assert sweep.start_or_resume_sweep(again, Scope(currency="ETH")) != first
    assert sweep.start_or_resume_sweep(again, Scope()) == first
    assert sweep.open_parts(again, first) == parts
    sweep.ask_orders(again, parts[1])
    sweep.end_sweep(again, first)
    assert remake(again, first, tmp_path / "1")["counts"] == {"opening": 1, "matched": 2, "in_progress": 1}
    assert sweep.start_or_resume_sweep(again, Scope()) != first


@pytest.fixture
def planned(open_desk: OpenDesk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """A desk whose ledger holds thirty orders that nobody sent; sweeps record four sides at a time."""
    monkeypatch.setattr(sweeps, "_AT_ONCE", 4)
    desk = open_desk("http://127.0.0.1:9")
    paying.commit(desk, long_sheet(tmp_path, 30), "run")
    return desk


def start_with(ledger: Ledger, in_between: Callable[[], None]) -> int:
    """Start a sweep; something happens when ten of its orders were read, and eight recorded."""
    orders = ledger.orders()

    def read() -> Iterator[Order]:
        yield from orders[:10]
        in_between()
        yield from orders[10:]

    return sweeps.record_sweep(ledger, Scope(), sweeps.sides_of(ledger, read(), []), since=0)


@pytest.mark.both_databases
def test_a_sweep_that_was_cut_off_while_it_began_takes_in_the_rest(planned: Desk) -> None:
    desk, orders = planned, planned.ledger.orders()

    def cut_off() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        start_with(desk.ledger, cut_off)
    assert len(sweeps.open_questions(desk.ledger, 1)) == 8
    assert sweep.start_or_resume_sweep(desk, Scope()) == 1
    ids = sweeps.open_questions(desk.ledger, 1)
    asked = [question.request_id for question in sweeps.questions(desk.ledger, ids)]
    assert asked == [order.request_id for order in orders]


@pytest.mark.both_databases
def test_a_report_reads_its_orders_in_parts_sorted_as_python_sorts(
    open_ledger: Callable[..., Ledger], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeps, "PART", 3)
    ledger, names = open_ledger(), ["b-1", "B-1", "a_1", "a-1", "Z1", "\u00e9", "a1"]
    rows = [{"request_id": name, "operation": "payout"} for name in names]
    beside = [{"request_id": f"b {kind}", "operation": kind} for kind in sweeps.BESIDE_ORDERS]
    questions = (
        {"request_id": side["request_id"], "order_id": None, "ledger_side": sweeps.side_text(side)}
        for side in (*rows, *beside)
    )
    sweep_id = sweeps.record_sweep(ledger, Scope(), questions, since=0)
    parts = list(sweeps.both_sides(ledger, sweep_id, ("request_id", "answer")))
    assert [len(part["answer"]) for part in parts] == [3, 3, 1]
    assert [name for part in parts for name in part["request_id"]] == sorted(names)
    assert sweeps.sides_beside(ledger, sweep_id) == {each["operation"]: [each] for each in beside}


@pytest.mark.both_databases
def test_processes_that_sweep_at_once_record_everything_once(planned: Desk, open_ledger: Callable[..., Ledger]) -> None:
    """They share the sweep: its questions, its balances, its end."""
    ledgers = [open_ledger(planned.account.identity) for _ in range(4)]
    gate = threading.Barrier(len(ledgers), timeout=20)
    seen = {f"C{number}": closing.ShownBalance(Decimal(number), None) for number in range(20)}

    def work(ledger: Ledger) -> int:
        gate.wait()
        started = start_with(ledger, lambda: None)
        for step in (
            lambda: closing.record_balances(ledger, started, "before", seen),
            lambda: closing.record_balances(ledger, started, "after", seen),
            lambda: closing.close_sweep(ledger, started, Scope(), ServiceRules()),
        ):
            gate.wait()
            step()
        return started

    with ThreadPoolExecutor(len(ledgers)) as pool:
        assert set(pool.map(work, ledgers)) == {1}
    assert len(sweeps.open_questions(planned.ledger, 1)) == 30
    assert {each.currency for each in planned.ledger.read(select(schema.sweep_balances))} == seen.keys()


@pytest.mark.both_databases
def test_a_sweep_that_another_process_ended_stays_as_it_was_reported(planned: Desk) -> None:
    ledger = planned.ledger
    assert start_with(ledger, lambda: closing.close_sweep(ledger, 1, Scope(), ServiceRules())) == 1
    assert len(sweeps.open_questions(ledger, 1)) == 8


@pytest.mark.both_databases
def test_a_quote_asked_for_while_the_sweep_began_is_not_superseded(open_ledger: Any) -> None:
    """Its order was read before its run went on: the quote is that payment, and no second one."""
    ledger = open_ledger()
    commit_plan(ledger, "run", "payout", {}, "", [fiat_payout()])

    def replaced(order: Order) -> Order:
        moved, quote = open_quote(ledger, order)
        finish_quote(ledger, quote, "unfit")
        return moved

    first = replaced(ledger.orders()[0])
    second = replaced(first)
    third = replaced(second)

    def asked(order: Order) -> list[str]:
        return [row["request_id"] for row in sweeps.sides_of(ledger, [order], [])]

    assert asked(first) == [first.request_id]
    assert asked(second) == [second.request_id, first.request_id]
    assert asked(third) == [third.request_id, first.request_id, second.request_id]


def test_raw_answers_are_kept_without_anything_personal(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox()
    desk = open_desk(sandbox.base_url)
    pay(desk, sheet(tmp_path, ROWS[0]), tmp_path / "out", seconds=20)
    sweep_id = sweep.start_or_resume_sweep(desk, Scope())
    [ids] = sweep.open_parts(desk, sweep_id).values()
    sweep.ask_orders(desk, ids)
    [row] = desk.ledger.read(schema.answers.select())
    raw = json.loads(row.service_side)["raw"]
    assert raw["order_amount"] == "10"
    assert row.asked_at is not None
    assert "12345670001" not in row.service_side
    assert sweeps.sweep(desk.ledger, sweep_id).as_of is None


@pytest.mark.both_databases
def test_the_statement_shows_what_the_ledger_never_meant(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox()
    desk = open_desk(sandbox.base_url)
    pay(desk, sheet(tmp_path, ROWS[0]), tmp_path / "out", seconds=20)
    [order] = desk.ledger.orders()
    statement = tmp_path / "statement.csv"
    lines = [
        "order_no,request_id,order_type,status,currency,amount,note",
        f"{order.order_no},{order.request_id},payout,99,USDT_TRC20,10.00,ours",
        "X1,,payout,99,USDT_TRC20,7.5,nobody's",
        "X2,other,payout,44,USDT_TRC20,8,failed",
        "X3,,charge,99,USDT_TRC20,100,a deposit",
        "X4,shop-1,pay,99,USDT_TRC20,30,an invoice of another program",
        "X5,shop-2,pay,88,USDT_TRC20,40,one that nobody paid",
    ]
    statement.write_text("\n".join(lines) + "\n")
    report = night(desk, tmp_path / "1", statement=statement)
    assert (report["verdict"], report["counts"]) == (
        "breaks",
        {"missing_in_ledger": 1, "matched": 1, "unexpected_deposit": 1},
    )
    found, payin = sorted(report["breaks"], key=lambda each: str(each["order_no"]))
    assert (payin["order_no"], payin["class"], payin["amount"]) == ("X4", "unexpected_deposit", "30")
    assert (found["order_no"], found["amount"], found["difference"]) == ("X1", "7.5", "7.5")
    statement.write_text("\n".join([*lines[:2], f"X9,{order.request_id},payout,22,USDT_TRC20,10,again"]) + "\n")
    twice = night(desk, tmp_path / "2", statement=statement)
    assert twice["counts"] == {
        "duplicate_effect": 1,
        "missing_in_ledger": 1,
        "unexpected_deposit": 1,
    }, "another statement does not clear X1"


def test_a_currency_and_a_window_narrow_what_is_asked(open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path) -> None:
    sandbox = start_sandbox()
    desk = open_desk(sandbox.base_url)
    pay(desk, sheet(tmp_path, *ROWS), tmp_path / "out", seconds=1)
    assert night(desk, tmp_path / "1", Scope(currency="ETH"))["counts"] == {}
    assert sum(night(desk, tmp_path / "2", Scope(currency="IDR"))["counts"].values()) == 3
    forge(desk, final_at="1")
    assert sum(night(desk, tmp_path / "3", Scope(window_days=1))["counts"].values()) == 0


def test_a_service_that_cannot_be_reached_ends_the_asking_and_the_next_start_asks_the_rest(
    open_desk: OpenDesk, service: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("treasury.provider.pacing.READ", Retry(1))
    desk = open_desk(service.base_url)
    service.plan("/v1/order/payout", taken)
    service.plan("/v1/order/query", lambda body: ok(order_no=number_of(body), status=99))
    rows = [(f"r{number}", "5", f"123456{number:04d}7") for number in range(300)]
    pay(desk, sheet(tmp_path, *rows), tmp_path / "out", seconds=0)
    desk.client.close()
    desk.client = desk.submission._client = Client(replace(desk.account, base_url="http://127.0.0.1:9"))
    sweep_id = sweep.start_or_resume_sweep(desk, Scope())
    for ids in sweep.open_parts(desk, sweep_id).values():
        assert sweep.ask_orders(desk, ids) == 0
    sides = [json.loads(row.service_side) for row in desk.ledger.read(schema.answers.select())]
    told = [side["seen_reason"] for side in sides]
    asked = [reason for reason in told if "no connection" in reason and not reason.startswith("not asked")]
    assert len(told) == 300
    assert UNREACHED <= len(asked) <= UNREACHED + desk.in_flight * 3 // 2
    back = open_desk(service.base_url)
    assert sweep.start_or_resume_sweep(back, Scope()) == sweep_id
    assert sum(sweep.ask_orders(back, ids) for ids in sweep.open_parts(back, sweep_id).values()) == 300
