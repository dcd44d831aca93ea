"""Conversions that are held because they may have been made: whoever counts them does not make them again."""

import shutil
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from tests.engine.funded import BTC, HELD, PAYOUTS, ROWS, fund_and_pay, plan_round, record, record_round
from tests.engine.rounds import kinds, policy, start
from tests.engine.runs import results, sheet
from treasury.ledger import schema
from treasury.payments import cancelling, execution, resolving
from treasury.payments.desk import Desk

D = Decimal
OpenDesk = Callable[..., Desk]

CHANGES = [{"amount": "1"}, {"state": "failed"}]


def change_by_hand(desk: Desk, **values: str) -> None:
    """Change every conversion of the ledger, as somebody does who opens it."""
    by_hand = update(schema.orders).where(schema.orders.c.operation == "conversion_execute").values(**values)
    desk.ledger.write(lambda connection: connection.execute(by_hand).rowcount)


def send_round(desk: Desk, file: Path, rules: Path) -> None:
    """Record and send the conversions of a round, and do not wait for them."""
    planned = plan_round(desk, file, rules)
    assert planned is not None
    ids = [each for trade in record_round(desk, planned, file, rules) for each in trade["ids"]]
    execution.send_orders(desk, planned["run_key"], ids)


@pytest.mark.parametrize("change", CHANGES)
def test_a_conversion_that_was_changed_by_hand_is_not_made_again(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path, change: dict[str, str]
) -> None:
    sandbox = start_sandbox(balances=HELD, settle_seconds=15)
    desk, rules, file = open_desk(sandbox.base_url), policy(tmp_path, tail=PAYOUTS, BTC=BTC), sheet(tmp_path, *ROWS)
    record(desk, file, rules)
    send_round(desk, file, rules)
    change_by_hand(desk, **change)
    for _ in range(3):
        assert fund_and_pay(desk, file, rules, tmp_path / "out", seconds=1)["counts"] == {"not_sent": 3}
    assert kinds(sandbox) == ["conversion_execute"]
    assert "on their way, or held for somebody to decide" in next(iter(results(tmp_path / "out").values()))["reason"]


@pytest.mark.sqlite_alone
def test_a_conversion_that_an_older_ledger_does_not_know_is_not_made_again(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances=HELD, settle_seconds=15)
    desk, rules, file = open_desk(sandbox.base_url), policy(tmp_path, tail=PAYOUTS, BTC=BTC), sheet(tmp_path, *ROWS)
    record(desk, file, rules)
    desk.close()
    shutil.copy(tmp_path / "ledger.db", tmp_path / "copy.db")
    desk = open_desk(sandbox.base_url)
    send_round(desk, file, rules)
    desk.close()
    shutil.copy(tmp_path / "copy.db", tmp_path / "ledger.db")
    desk = open_desk(sandbox.base_url)
    for _ in range(3):
        fund_and_pay(desk, file, rules, tmp_path / "out", seconds=1)
    assert kinds(sandbox).count("conversion_execute") == 1


@pytest.mark.parametrize("change", CHANGES)
def test_a_rebalancing_does_not_make_a_conversion_again_that_was_changed_by_hand(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path, change: dict[str, str]
) -> None:
    sandbox = start_sandbox(balances={**HELD, "USDT": D(50_000), "BTC": D("0.1")}, settle_seconds=15)
    desk, rules = open_desk(sandbox.base_url), policy(tmp_path, BTC=BTC)
    assert start(desk, rules, tmp_path / "out", seconds=0)["counts"] == {"in_progress": 1}
    change_by_hand(desk, **change)
    start(desk, rules, tmp_path / "out", seconds=0)
    assert kinds(sandbox) == ["conversion_execute"]
    [why] = [row["reason"] for row in results(tmp_path / "out").values() if row["outcome"] == "not_sent"]
    assert "treasury resolve says what became of it" in why


def test_another_run_is_not_funded_by_a_pair_of_which_a_conversion_is_held(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances=HELD, settle_seconds=15)
    desk, rules, file = open_desk(sandbox.base_url), policy(tmp_path, tail=PAYOUTS, BTC=BTC), sheet(tmp_path, *ROWS)
    record(desk, file, rules)
    send_round(desk, file, rules)
    change_by_hand(desk, amount="1")
    other = sheet(tmp_path, ("x", "900", "12345670301"), name="other.csv")
    assert fund_and_pay(desk, other, rules, tmp_path / "other", "other", 1)["counts"] == {"not_sent": 1}
    assert kinds(sandbox) == ["conversion_execute"]


@pytest.mark.sqlite_alone
def test_a_rebalancing_does_not_make_a_conversion_again_that_an_older_ledger_does_not_know(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances={**HELD, "USDT": D(50_000), "BTC": D("0.1")}, settle_seconds=15)
    desk, rules = open_desk(sandbox.base_url), policy(tmp_path, BTC=BTC)
    desk.close()
    shutil.copy(tmp_path / "ledger.db", tmp_path / "copy.db")
    desk = open_desk(sandbox.base_url)
    assert start(desk, rules, tmp_path / "out", seconds=0)["counts"] == {"in_progress": 1}
    desk.close()
    shutil.copy(tmp_path / "copy.db", tmp_path / "ledger.db")
    desk = open_desk(sandbox.base_url)
    for _ in range(3):
        start(desk, rules, tmp_path / "out", seconds=0)
    assert kinds(sandbox) == ["conversion_execute"]


@pytest.mark.sqlite_alone
def test_no_start_ends_a_conversion_that_the_service_made_with_other_amounts(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    """The rate moved since, so the ledger that was put back plans other amounts under the same reference."""
    sandbox = start_sandbox(balances={**HELD, "USDT": D(50_000), "BTC": D("0.1")}, settle_seconds=60)
    desk, rules = open_desk(sandbox.base_url), policy(tmp_path, BTC=BTC)
    desk.close()
    shutil.copy(tmp_path / "ledger.db", tmp_path / "copy.db")
    desk = open_desk(sandbox.base_url)
    assert start(desk, rules, tmp_path / "out", seconds=0)["counts"] == {"in_progress": 1}
    desk.close()
    shutil.copy(tmp_path / "copy.db", tmp_path / "ledger.db")
    desk = open_desk(sandbox.base_url)
    policy(tmp_path, BTC=("0.5", "0.6", "0.9"))  # more is bought than before
    for _ in range(4):
        start(desk, rules, tmp_path / "out", seconds=0)
    assert kinds(sandbox) == ["conversion_execute"]
    policy(tmp_path, BTC=("0.4", "0.5", "0.9"))  # another policy is in force than the order was recorded under
    for _ in range(3):
        start(desk, rules, tmp_path / "out", seconds=0)
    assert kinds(sandbox) == ["conversion_execute"]
    assert [order.state.value for order in desk.ledger.orders()] == ["held"]


@pytest.mark.sqlite_alone
def test_no_start_of_a_payment_run_ends_a_conversion_that_the_service_made_with_other_amounts(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances=HELD, settle_seconds=60)
    desk, rules, file = open_desk(sandbox.base_url), policy(tmp_path, tail=PAYOUTS, BTC=BTC), sheet(tmp_path, *ROWS)
    record(desk, file, rules)
    desk.close()
    shutil.copy(tmp_path / "ledger.db", tmp_path / "copy.db")
    desk = open_desk(sandbox.base_url)
    send_round(desk, file, rules)
    desk.close()
    shutil.copy(tmp_path / "copy.db", tmp_path / "ledger.db")
    desk = open_desk(sandbox.base_url)
    sandbox.deposit("USDT", "100")  # less is lacking than before
    for _ in range(4):
        fund_and_pay(desk, file, rules, tmp_path / "out", seconds=1)
    assert kinds(sandbox).count("conversion_execute") == 1
    assert "held" in {order.state.value for order in desk.ledger.orders()}


@pytest.mark.sqlite_alone
def test_a_conversion_that_the_service_made_with_other_amounts_is_ended_and_planned_again(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances={**HELD, "USDT": D(50_000), "BTC": D("0.1")})
    desk, rules = open_desk(sandbox.base_url), policy(tmp_path, BTC=BTC)
    desk.close()
    shutil.copy(tmp_path / "ledger.db", tmp_path / "copy.db")
    desk = open_desk(sandbox.base_url)
    assert start(desk, rules, tmp_path / "out")["counts"] == {"settled": 1}
    desk.close()
    shutil.copy(tmp_path / "copy.db", tmp_path / "ledger.db")
    desk = open_desk(sandbox.base_url)
    sandbox.deposit("USDT", "3000")
    policy(tmp_path, BTC=("0.5", "0.6", "0.9"))  # more is bought than before
    start(desk, rules, tmp_path / "out")
    [held] = desk.ledger.orders()
    assert str(held.reason).endswith(f"treasury cancel {held.request_id} ends this one"), held.reason
    [told] = resolving.resolve_as_sent(desk, held.request_id, by="Ada", why="looked at the portal")
    assert (told.done, told.says.endswith("treasury cancel ends this one")) == (False, True), told
    [ended] = cancelling.cancel(desk, held.request_id, by="Ada", why="it is another one").decisions
    assert ended.done, ended
    assert "the service made another conversion" in str(ended.order.reason)
    start(desk, rules, tmp_path / "out")
    assert kinds(sandbox).count("conversion_execute") == 2
