"""Whole runs against the sandbox: what the ledger says is what the sandbox's books say, to the last digit."""

import json
import re
import tracemalloc
from collections.abc import Callable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest

import data
from tests.engine import paying
from tests.engine.rounds import start
from tests.engine.runs import pay, results, sheet
from tests.moved_clock import RUNS, clock_of
from tests.parts import DIRECT
from tests.parts import sheet as long_sheet
from treasury.call import calls
from treasury.cards import provisioning
from treasury.errors import InputError, RunKeyConflict
from treasury.nights import sweep
from treasury.nights.reporting import report_sweep
from treasury.orders.states import State
from treasury.payments import execution
from treasury.payments.desk import Desk
from treasury.planning.trades import TradePlan
from treasury.policy.model import Policy
from treasury.provider.catalogue import CATALOGUE
from treasury.rebalance import rebalancing, trade_orders
from treasury.reconciliation.scope import Scope
from treasury.reports.reconciliation import FILES

OpenDesk = Callable[..., Desk]


@pytest.mark.both_databases
def test_the_sample_file_is_paid_and_the_books_agree(open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path) -> None:
    sandbox = start_sandbox()
    desk = open_desk(sandbox.base_url)
    before = sandbox.books()["balances"]
    summary = pay(desk, data.path("beneficiaries.csv"), tmp_path / "out")
    assert summary["counts"] == {"settled": 12}
    shown = {order["request_id"]: order for order in sandbox.orders()}
    rows = results(tmp_path / "out")
    assert len(rows) == len(shown) == 12
    for row in rows.values():
        order = shown[row["request_id"]]
        assert (Decimal(row["amount"]), row["currency"]) == (order["amount"], order["currency"])
        assert order["effects"] == 1
    after = sandbox.books()["balances"]
    [partner] = [name for name in before if "available" in name]
    for currency in ("USDT", "USDT_TRC20"):
        paid = sum(Decimal(row["amount"]) for row in rows.values() if row["currency"] == currency)
        assert before[partner][currency] - after[partner][currency] == paid
        assert summary["sums"][currency] == {"settled": format(paid, "f")}
    assert set(sandbox.books()["sums"].values()) == {Decimal(0)}


def test_a_second_start_sends_nothing(open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path) -> None:
    sandbox = start_sandbox()
    desk = open_desk(sandbox.base_url)
    pay(desk, data.path("beneficiaries.csv"), tmp_path / "one", seconds=20)  # so that nothing settles after it
    books = sandbox.books()
    assert paying.commit(desk, data.path("beneficiaries.csv"), "run") == []
    pay(desk, data.path("beneficiaries.csv"), tmp_path / "two")
    assert sandbox.books() == books
    assert (tmp_path / "one" / "results.csv").read_text() == (tmp_path / "two" / "results.csv").read_text()


def test_accounts_that_choose_their_ending_get_it(open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path) -> None:
    sandbox = start_sandbox()
    file = sheet(
        tmp_path,
        ("ok", "10", "12345670001"),
        ("fails", "10", "12345670044"),
        ("closes", "10", "12345670088"),
        ("stays", "10", "12345670022"),
        ("odd", "10", "12345670012"),
    )
    summary = pay(open_desk(sandbox.base_url), file, tmp_path / "out", seconds=3)
    assert summary["counts"] == {"settled": 1, "in_progress": 2, "failed": 1, "closed": 1}
    rows = results(tmp_path / "out")
    assert {ref: row["status"] for ref, row in rows.items()} == {
        "ok": "99",
        "fails": "44",
        "closes": "88",
        "stays": "22",
        "odd": "12",
    }
    assert rows["fails"]["reason"]
    assert "pay" not in rows["stays"]["next_action"]


def test_only_the_rows_of_a_subset_are_paid(open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path) -> None:
    sandbox = start_sandbox()
    desk = open_desk(sandbox.base_url)
    whole = sheet(tmp_path, ("a", "10", "12345670001"), ("b", "20", "12345670002"), ("c", "30", "12345670003"))
    paying.commit(desk, whole, "run")
    pay(desk, sheet(tmp_path, ("b", "20.00", "12345670002"), name="part.csv"), tmp_path / "out")
    assert [order["amount"] for order in sandbox.orders()] == [Decimal(20)]
    assert list(results(tmp_path / "out")) == ["a", "b", "c"]  # every row of the run
    states = {order.row_ref: order.state for order in desk.ledger.orders()}
    assert states == {"a": State.PREPARED, "b": State.SETTLED, "c": State.PREPARED}
    with pytest.raises(RunKeyConflict, match="b"):
        pay(desk, sheet(tmp_path, ("b", "21", "12345670002"), name="changed.csv"), tmp_path / "out")
    assert len(sandbox.orders()) == 1


def test_dropped_answers_lead_to_one_payment_each(open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path) -> None:
    sandbox = start_sandbox(faults={"drop_after": 0.2, "drop_before": 0.2})
    file = sheet(tmp_path, *((f"r{number}", "1.00", f"1234567{number:04d}1") for number in range(40)))
    summary = pay(open_desk(sandbox.base_url), file, tmp_path / "out", seconds=120)
    assert summary["counts"] == {"settled": 40}
    orders = sandbox.orders()
    assert len(orders) == 40
    assert {order["effects"] for order in orders} == {1}


def test_a_bad_run_key_is_refused_before_anything_else(open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path) -> None:
    desk = open_desk(start_sandbox().base_url)
    with pytest.raises(InputError, match="run key"):
        paying.commit(desk, data.path("beneficiaries.csv"), "../run")
    assert desk.ledger.runs() == []


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Etc/GMT+12"])
def test_a_plan_is_good_for_its_own_day_wherever_its_policy_is_named(
    zone: str, open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    """At any hour one of the two zones has another date than UTC."""
    desk = open_desk(start_sandbox().base_url)
    policy = tmp_path / "policy.toml"
    policy.write_text(
        re.sub(r'time_zone = ".*"', f'time_zone = "{zone}"', data.path("treasury_policy.toml").read_text())
    )
    found = rebalancing.plan_round(desk, policy, None)
    rebalancing.keep_plan(desk, found.run_key, found.plan, policy)
    assert len(trade_orders.commit_trades(desk, found.run_key, found.plan)) == len(found.plan.trades) > 0


@pytest.mark.both_databases
def test_rebalancing_brings_assets_home_and_then_rests(open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path) -> None:
    desk, policy = open_desk(start_sandbox().base_url), data.path("treasury_policy.toml")
    first = start(desk, policy, tmp_path / "out")
    run = desk.ledger.run(first["run_key"])
    assert run is not None
    plan = TradePlan.from_dict(run.plan)
    assert plan.trades
    assert first["counts"] == {"settled": len(plan.trades)}
    again = start(desk, policy, tmp_path / "again")
    assert (again["counts"], again["today"]) == ({}, f"{len(plan.trades)} settled")
    for trade, order in zip(plan.trades, desk.ledger.orders(), strict=True):
        assert (order.currency, order.amount) == (trade.currency, trade.amount)
        assert order.receive_amount is not None
        assert order.receive_amount >= trade.min_receive - trade.max_fee


@pytest.mark.both_databases
def test_provisioning_twice_finds_the_same_users(open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path) -> None:
    desk = open_desk(start_sandbox().base_url)
    first = provisioning.provision_users(desk, data.path("card_users.csv"))
    second = provisioning.provision_users(desk, data.path("card_users.csv"))
    assert {row["outcome"] for row in first} == {"created"}
    assert {row["outcome"] for row in second} == {"existing"}
    assert [row["user_id"] for row in first] == [row["user_id"] for row in second]
    assert all(row["link"] for row in first + second)
    summary = provisioning.write_users(desk, second, tmp_path / "out")
    assert summary["counts"] == {"existing": len(second)}
    stored = b"".join(file.read_bytes() for file in tmp_path.glob("ledger.db*"))
    assert not any(str(row["link"]).encode() in stored for row in first + second)


def test_a_new_user_gets_the_link_of_the_level_that_was_asked_for(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    desk = open_desk(start_sandbox().base_url)
    file = tmp_path / "users.csv"
    file.write_text(
        "user_xid,email,level_name\nu1,a@example.com,LEVEL-2\nu2,b@example.com,LEVEL-1\nu3,c@example.com,\n"
    )
    first, second = provisioning.provision_users(desk, file), provisioning.provision_users(desk, file)
    assert [row["outcome"] for row in first] == ["created"] * 3
    assert all(row["link"] for row in first + second)
    levels = ["LEVEL-2" in httpx.get(str(row["link"])).text for row in first]
    assert levels == ["LEVEL-2" in httpx.get(str(row["link"])).text for row in second] == [True, False, False]


def test_a_sweep_teaches_the_ledger_and_reports_both_sides(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox()
    desk = open_desk(sandbox.base_url)
    pay(desk, sheet(tmp_path, ("a", "10", "12345670001"), ("b", "20", "12345670044")), tmp_path / "out", seconds=0)
    assert {order.state for order in desk.ledger.orders()} == {State.ACCEPTED}
    sandbox.advance(60)
    sweep_id = sweep.start_or_resume_sweep(desk, Scope())
    for ids in sweep.open_parts(desk, sweep_id).values():
        assert sweep.ask_orders(desk, ids) == 2
    assert sweep.open_parts(desk, sweep_id) == {}
    sweep.end_sweep(desk, sweep_id)
    report = report_sweep(desk, sweep_id, tmp_path / "report", Policy())
    assert (report["verdict"], report["counts"]) == ("warnings", {"opening": 1, "matched": 2})
    assert {order.row_ref: order.state for order in desk.ledger.orders()} == {"a": State.SETTLED, "b": State.FAILED}
    written = json.loads((tmp_path / "report" / "reconciliation.json").read_text())
    assert written == {name: value for name, value in report.items() if name != "files"}
    for name in FILES:
        assert (tmp_path / "report" / name).stat().st_mode & 0o777 == 0o600


def test_a_sweep_that_cannot_ask_is_incomplete(
    open_desk: OpenDesk, start_sandbox: Any, service: Any, tmp_path: Path
) -> None:
    desk = open_desk(service.base_url)
    accepted = (200, {"code": 200, "data": {"order_no": "P1", "status": 11}})
    service.plan("/v1/order/payout", accepted)
    pay(desk, sheet(tmp_path, ("a", "10", "12345670001")), tmp_path / "out", seconds=0)
    service.plan("/v1/order/query", "drop")
    sweep_id = sweep.start_or_resume_sweep(desk, Scope())
    [ids] = sweep.open_parts(desk, sweep_id).values()
    assert sweep.ask_orders(desk, ids) == 0
    sweep.end_sweep(desk, sweep_id)
    report = report_sweep(desk, sweep_id, tmp_path / "report", Policy())
    assert (report["verdict"], report["counts"]) == ("incomplete", {"query_failed": 1})


def test_a_single_operation_acts_once_for_its_reference(open_desk: OpenDesk, start_sandbox: Any) -> None:
    sandbox = start_sandbox()
    desk = open_desk(sandbox.base_url)
    fields = {"request_id": "w-1", "currency": "USDT_TRC20", "amount": "25", "customer_ref_id": "c-1"}
    fields["address"] = "TGTBAaw5mwpcLyqLpBb69noTtUfpqwzRZK"
    withdraw = CATALOGUE["withdraw"](**fields)
    first = calls.submit_operation(desk, withdraw)
    assert (first.request_id, first.state) == ("w-1", State.ACCEPTED)
    assert calls.submit_operation(desk, withdraw).id == first.id
    [order] = sandbox.orders()
    assert order["effects"] == 1
    with pytest.raises(InputError, match="stands for something else"):
        calls.submit_operation(desk, CATALOGUE["withdraw"](**{**fields, "amount": "26"}))
    assert len(sandbox.orders()) == 1


def test_a_single_operation_takes_no_id_of_another_run(open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path) -> None:
    """It is said in words, also before the yes; the database said it before."""
    desk = open_desk(start_sandbox().base_url)
    paying.commit(desk, long_sheet(tmp_path, 1, DIRECT), "sheet")
    [order] = desk.ledger.orders(run_key="sheet")
    fields = {"request_id": order.request_id, "currency": "USDT_TRC20", "amount": "25", "customer_ref_id": "c-1"}
    withdraw = CATALOGUE["withdraw"](**fields, address="TGTBAaw5mwpcLyqLpBb69noTtUfpqwzRZK")
    for door in (calls.preview_operation, calls.submit_operation):
        with pytest.raises(InputError, match=f"{order.request_id} already stands for something else here"):
            door(desk, withdraw)


@pytest.mark.proof
@pytest.mark.costly("traces each allocation")
def test_a_long_file_is_planned_and_recorded_in_little_memory(open_desk: OpenDesk, tmp_path: Path) -> None:
    """More rows need next to nothing each. When all of them were objects at once it was a thousand
    bytes."""
    desk = open_desk("http://127.0.0.1:9")
    most = {}
    for rows, amount in ((1_000, "1"), (5_000, "2")):
        file = long_sheet(tmp_path, rows, DIRECT | {"amount": amount})
        tracemalloc.start()
        committed = paying.commit(desk, file, f"run-{rows}")
        most[rows] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert sum(map(len, committed)) == rows
    assert most[5_000] - most[1_000] < 4_000 * 500


@RUNS
def test_following_looks_at_a_few_orders_at_a_time_until_the_time_is_up(
    open_desk: OpenDesk, service: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Orders on their way can wait for the night; unknown ones are asked whatever the time."""
    monkeypatch.setattr(execution, "ORDERS_PER_TASK", 5)
    service.plans["/v1/order/payout"] = ["drop"]
    desk = open_desk(service.base_url)
    file = sheet(tmp_path, *((f"r{number}", "1.00", f"1234567{number:04d}1") for number in range(12)))
    ids = [order for chunk in paying.commit(desk, file, "run") for order in chunk]
    execution.send_orders(desk, "run", ids)
    assert {order.state for order in desk.ledger.orders()} == {State.UNKNOWN}
    service.plans["/v1/order/query"] = [on_its_way]
    execution.follow_orders(desk, "run", ids[:4], 0)
    assert execution.follow_orders(desk, "run", ids, 1e-9) == 12
    assert {order.state for order in desk.ledger.orders()} == {State.ACCEPTED}
    asked = {order.id: order.asked_at for order in desk.ledger.orders()}
    clock_of(desk).move(0.01)
    assert execution.follow_orders(desk, "run", ids, 1e-9) == 12
    assert [order.id for order in desk.ledger.orders() if order.asked_at != asked[order.id]] == ids[:5]


def on_its_way(body: Mapping[str, Any]) -> tuple[int, Any]:
    data = {"request_id": body["request_id"], "order_no": f"P{body['request_id']}", "status": 11}
    return 200, {"code": 200, "message": "SUCCESS", "data": {**data, "order_amount": "1.00", "currency": "USDT_TRC20"}}
