"""Somebody hides what left otherwise behind rows that earlier reports counted: takes them out, or moves them."""

import json
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import delete, func, select, update

from tests.engine.approvers import change
from tests.engine.intents import commit
from tests.engine.nights import DAY, ROWS, OpenDesk, balance, classes, take
from tests.engine.runs import night, pay, remake, sheet
from tests.moved_clock import RUNS, clock_of
from treasury.approving.tokens import Verb
from treasury.call import calls
from treasury.errors import ConfigurationError, NotWrittenByUs
from treasury.ledger import closing, schema, sweeps
from treasury.ledger.kept_breaks import accept_break, withdraw_acceptances
from treasury.ledger.ledger import Ledger
from treasury.ledger.made_reports import changed_reports
from treasury.ledger.snapshots import expect_receipt
from treasury.nights import sweep
from treasury.orders.states import Event
from treasury.payments.desk import Desk
from treasury.policy.model import Policy
from treasury.provider.orders import Pay
from treasury.provider.service_rules import ServiceRules
from treasury.reconciliation.scope import Scope
from treasury.sandbox import RunningSandbox

pytestmark = pytest.mark.both_databases

CLASS = "changed_in_ledger"
STATEMENT = "order_no,currency,amount,status,date,order_type\nX1,USDT_TRC20,10,99,{day},charge\n"


@pytest.fixture
def sandbox(start_sandbox: Any) -> RunningSandbox:
    found: RunningSandbox = start_sandbox(settle_seconds=1)
    return found


@pytest.fixture
def desk(open_desk: OpenDesk, sandbox: RunningSandbox, tmp_path: Path) -> Desk:
    desk = open_desk(sandbox.base_url)
    clock_of(desk).move((42 - int(Policy().day_of(desk.ledger.now())[8:])) * DAY)  # so that no month ends meanwhile
    pay(desk, sheet(tmp_path, ("z", "1", "12345670005")), tmp_path / "before", "before", seconds=20)
    night(desk, tmp_path / "0")
    clock_of(desk).move(DAY)
    return desk


def pay_10(desk: Desk, sandbox: RunningSandbox, folder: Path) -> Path | None:
    pay(desk, sheet(folder, ROWS[0]), folder / "out", seconds=20)
    return None


def come_in_10(desk: Desk, sandbox: RunningSandbox, folder: Path) -> Path | None:
    fields = {"payment_method": "on_line", "currency": "USDT_TRC20", "product_name": "p", "customer_ref_id": "c"}
    page = calls.send_operation(desk, Pay(request_id="in-1", amount="10", **fields))["data"]["checkout_url"]
    assert httpx.post(f"{page}/pay").status_code == 303
    return None


def deposit_10(desk: Desk, sandbox: RunningSandbox, folder: Path) -> Path | None:
    sandbox.deposit("USDT_TRC20", "10")
    file = folder / "statement.csv"
    file.write_text(STATEMENT.format(day=Policy().day_of(desk.ledger.now())))
    return file


def pay_it_again(desk: Desk) -> None:
    """The step that settled an order is the newest one."""
    table = schema.journal
    [(last,)] = desk.ledger.read(select(func.max(table.c.id)))
    [(step,)] = desk.ledger.read(select(func.max(table.c.id)).where(table.c.target == "settled"))
    change(desk, update(table).where(table.c.id == step).values(id=last + 1))


def forget_pay_in(desk: Desk) -> None:
    change(desk, delete(schema.snapshots).where(schema.snapshots.c.run_key.startswith("receipt ")))


def forget_line(desk: Desk) -> None:
    change(desk, delete(schema.statement_lines))


def forget_report(desk: Desk) -> None:
    """The report that told what came in, and what it told."""
    for table in (schema.breaks, schema.reports, schema.sweep_balances):
        change(desk, delete(table).where(table.c.sweep_id == 2))


HIDDEN = [
    (pay_10, pay_it_again, "10"),
    (come_in_10, forget_pay_in, "9.9"),
    (deposit_10, forget_line, "10"),
    (deposit_10, forget_report, "10"),
]


@pytest.mark.parametrize(("happens", "hide", "left"), HIDDEN)
def test_who_hides_what_left_behind_what_a_report_counted_is_told(
    desk: Desk,
    sandbox: RunningSandbox,
    tmp_path: Path,
    happens: Callable[[Desk, RunningSandbox, Path], Path | None],
    hide: Callable[[Desk], None],
    left: str,
) -> None:
    file = happens(desk, sandbox, tmp_path)
    report = night(desk, tmp_path / "1", statement=None if hide is forget_report else file)
    assert report["verdict"] in ("reconciled", "warnings")
    clock_of(desk).move(DAY)
    night(desk, tmp_path / "2")
    clock_of(desk).move(DAY)
    assert changed_reports(desk.ledger) == {}
    take(desk, "by-hand", left)
    hide(desk)
    report = night(desk, tmp_path / "3")
    assert balance(report)["unexplained"] == "0"
    assert [each["lifecycle"] for each in report["breaks"] if each["class"] == CLASS] == ["new"]
    assert report["verdict"] in ("breaks", "incomplete")


def test_what_was_accepted_of_a_changed_report_is_not_accepted_of_the_next_change(desk: Desk, tmp_path: Path) -> None:
    table = schema.sweep_balances
    for number in (1, 2):
        change(desk, update(table).where(table.c.sweep_id == 1).values(note=f"change {number}"))
        report = night(desk, tmp_path / f"{number}")
        [found] = [each for each in report["breaks"] if each["class"] == CLASS and not each["accepted"]]
        assert found["lifecycle"] == "new"
        accept_break(desk.ledger, found["id"], by="Ana", os_user="ana", why="a repair")
        clock_of(desk).move(DAY)


def test_a_withdrawal_that_is_taken_out_is_told(desk: Desk, tmp_path: Path) -> None:
    take(desk, "by-hand", "10")
    [lot] = night(desk, tmp_path / "1")["breaks"]
    accept_break(desk.ledger, lot["id"], by="Ana", os_user="ana", why="the other office")
    withdraw_acceptances(desk.ledger, lot["id"], by="Ana", os_user="ana", why="it was not")
    clock_of(desk).move(DAY)
    assert classes(night(desk, tmp_path / "2")) == {"USDT_TRC20": "balance_gap persisting"}
    change(desk, delete(schema.decisions).where(schema.decisions.c.verb == Verb.WITHDRAW.value))
    clock_of(desk).move(DAY)
    assert [each["class"] for each in night(desk, tmp_path / "3")["breaks"] if not each["accepted"]] == [CLASS]


def test_a_ledger_that_is_set_back_to_an_earlier_format_does_not_seal_a_changed_report(
    open_desk: OpenDesk, desk: Desk
) -> None:
    change(desk, update(schema.meta).where(schema.meta.c.key == "schema").values(value="106"))
    desk.ledger.close()
    with pytest.raises(ConfigurationError, match="has format 106, of before the first release"):
        open_desk(desk.settings.base_url)


def test_breaks_that_are_taken_out_of_the_last_report_are_told(desk: Desk, tmp_path: Path) -> None:
    take(desk, "by-hand", "10")
    night(desk, tmp_path / "1")
    clock_of(desk).move(DAY)
    change(desk, delete(schema.breaks))
    report = night(desk, tmp_path / "2")
    assert {CLASS, "balance_gap"} == {each["class"] for each in report["breaks"]}


def test_a_report_whose_sums_were_taken_out_or_spoilt_ends_no_later_one(desk: Desk, tmp_path: Path) -> None:
    table = schema.reports
    [(kept,)] = desk.ledger.read(select(table.c.statement))
    sums = json.loads(kept)
    others: list[Any] = [{key: value for key, value in sums.items() if key != name} for name in sums]
    others += [None, [], "", {**sums, "flows": {"USDT_TRC20": {"arrived": "ten"}}}, {**sums, "lines": [{"sent": "1"}]}]
    for number, other in enumerate(others):
        change(desk, update(table).where(table.c.sweep_id == 1).values(statement=json.dumps(other)))
        report = night(desk, tmp_path / f"{number}")
        assert CLASS in {each["class"] for each in report["breaks"]}, other
        clock_of(desk).move(DAY)


SPOILT = (
    schema.orders.c.amount,
    schema.orders.c.state,
    schema.sweep_balances.c.after,
    schema.breaks.c.difference,
    schema.snapshots.c.content,
)


@pytest.mark.sqlite_alone  # of PostgreSQL the collector closes the cursor of a reader that failed, with a warning
@pytest.mark.parametrize("column", SPOILT, ids=str)
def test_a_value_that_nobody_writes_is_said_to_be_so(column: Any, desk: Desk, tmp_path: Path) -> None:
    """Every later night ended with a traceback."""
    expect_receipt(desk.ledger, "invoice-1", {"currency": "USDT_TRC20", "amount": "10"})
    take(desk, "by-hand", "10")
    night(desk, tmp_path / "1")
    change(desk, update(column.table).values({column.name: "spoilt"}))
    clock_of(desk).move(DAY)
    with pytest.raises(NotWrittenByUs, match=r"'spoilt' as .*somebody changed the database by hand"):
        night(desk, tmp_path / "2")


def test_narrowed_reports_and_one_that_was_made_again_are_as_they_were_made(desk: Desk, tmp_path: Path) -> None:
    night(desk, tmp_path / "1", Scope(window_days=3), accepts=False)
    last = sweep.stored_sweep(desk, Scope())
    take(desk, "by-hand", "10")
    night(desk, tmp_path / "2")
    remake(desk, sweep.stored_sweep(desk, Scope()), tmp_path / "2")
    remake(desk, last, tmp_path / "1")
    night(desk, tmp_path / "3", Scope(run_key="before"), accepts=False)
    assert changed_reports(desk.ledger) == {}


@RUNS
def test_reports_beside_payments_and_pay_ins_that_are_recorded_meanwhile_are_not_called_changed(
    open_ledger: Callable[..., Ledger],
) -> None:
    ledger, until, over = open_ledger(), time.monotonic() + 2, threading.Event()

    def record(number: int) -> int:
        own, count = open_ledger(), 0
        while not over.is_set():
            count += 1
            name = f"{number}-{count}"
            expect_receipt(own, name, {"currency": "USDT", "amount": "1"})
            [order] = commit(own, name, run_key=name)
            own.step(own.step(order, Event.SEND), Event.SETTLE)
        return count

    with ThreadPoolExecutor(4) as threads:
        counts = [threads.submit(record, number) for number in range(3)]
        reports = 0
        try:
            while time.monotonic() < until or reports < 3:
                sweep_id = sweeps.record_sweep(ledger, Scope(), [], since=ledger.now() + 1)
                closing.close_sweep(ledger, sweep_id, Scope(), ServiceRules())
                reports += 1
                assert changed_reports(ledger) == {}
        finally:
            over.set()
        assert sum(each.result() for each in counts) > 3
    assert changed_reports(ledger) == {}
