"""A cooling time counts by a clock that the service's agrees with: no first payment is recorded by one that is days
behind, and leaves at once when it is set right."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.engine.rounds import kinds
from tests.engine.runs import HEADER, pay
from tests.moved_clock import clock_of
from treasury.call import calls
from treasury.errors import ConfigurationError, NotConnected, Stopped
from treasury.ledger.policies import adopt_policy
from treasury.payments.desk import Desk
from treasury.policy.model import parse_policy
from treasury.provider.catalogue import CATALOGUE

OpenDesk = Callable[..., Desk]

DAYS = 4 * 86_400.0
POLICY = {"payouts": {"cooling_days": 3}, "withdrawals": {"cooling_hours": 24}}
ROW = "{0},direct,{1},USDT_TRC20,IDR,bank_transfer,1234567000{2},Ann Example,ID,1000120,0812,p@b.example,"


def adopt(desk: Desk, policy: dict[str, Any]) -> None:
    adopt_policy(desk.ledger, parse_policy(policy, "policy"), "policy", by="Ada Example", os_user="ada")


def withdraw(desk: Desk) -> str:
    fields = {"currency": "USDT", "amount": "5", "customer_ref_id": "c-1", "request_id": "w-1", "address": "T1"}
    return calls.submit_operation(desk, CATALOGUE["withdraw"](**fields)).state.value


def off(desk: Desk, monkeypatch: pytest.MonkeyPatch, is_reached: bool) -> None:
    """The machine starts with a clock that is days behind, perhaps without its network."""

    def read() -> float:
        if is_reached:
            return DAYS
        raise NotConnected("the service does not answer")

    clock_of(desk).set_wall(-DAYS)
    monkeypatch.setattr(desk.client, "read_clock", read)


@pytest.mark.parametrize("is_reached", [True, False], ids=["reached", "not reached"])
def test_no_cooling_time_begins_by_a_clock_that_nobody_checked(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_reached: bool
) -> None:
    sandbox = start_sandbox()
    first, paid, other = open_desk(sandbox.base_url), tmp_path / "paid.csv", tmp_path / "other.csv"
    adopt(first, POLICY)
    paid.write_text(f"{HEADER}\n{ROW.format('a', 9, 1)}\n")
    other.write_text(f"{HEADER}\n{ROW.format('b', 9, 2)}\n")
    assert pay(first, paid, tmp_path / "1", "paid")["counts"] == {"settled": 1}
    behind = open_desk(sandbox.base_url)
    with monkeypatch.context() as meanwhile:
        off(behind, meanwhile, is_reached)
        for start in (lambda: withdraw(behind), lambda: pay(behind, other, tmp_path / "2", "other")):
            with pytest.raises(ConfigurationError if is_reached else Stopped, match="clock"):
                start()
        assert pay(behind, paid, tmp_path / "1", "paid")["counts"] == {"settled": 1}  # nothing of it waits
    clock_of(behind).set_wall(DAYS)
    right = open_desk(sandbox.base_url)
    assert withdraw(right) == "held"
    assert pay(right, other, tmp_path / "3", "other")["counts"] == {"held": 1}
    assert kinds(sandbox) == ["payout"]


def test_without_a_cooling_time_a_service_that_cannot_be_reached_is_no_hindrance(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk, file = open_desk(start_sandbox().base_url), tmp_path / "rows.csv"
    adopt(desk, {"payouts": {"max_per_run": {"USDT_TRC20": "100"}}})
    file.write_text(f"{HEADER}\n{ROW.format('a', 9, 1)}\n")
    off(desk, monkeypatch, is_reached=False)
    clock_of(desk).set_wall(DAYS)
    assert pay(desk, file, tmp_path / "out")["counts"] == {"settled": 1}
