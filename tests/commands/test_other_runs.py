"""`treasury rebalance` and `treasury provision` from the outside."""

from collections.abc import Callable
from decimal import Decimal

import pytest

import data
from tests.commands.office import Office
from treasury.sandbox import RunningSandbox

pytestmark = pytest.mark.prefect

POLICY = str(data.path("treasury_policy.toml"))


@pytest.fixture(scope="module")
def sandbox(open_sandbox: Callable[..., RunningSandbox]) -> RunningSandbox:
    """Its balances are only this module's to move."""
    return open_sandbox()


def test_rebalancing_plans_asks_trades_and_trades_once_a_day(office: Office, sandbox: RunningSandbox) -> None:
    books = sandbox.books()
    dry = office.run("rebalance", "--policy", POLICY, "--dry-run")
    assert dry.code == 0
    assert "nothing was traded" in dry.last
    asked = office.run("rebalance", "--policy", POLICY)
    assert asked.code == 3
    assert "waiting for a yes" in asked.last
    assert sandbox.books() == books
    assert sandbox.orders() == []
    ended = office.run("rebalance", "--policy", POLICY, "--yes", "--follow", "5")
    trades = sandbox.orders()
    assert (ended.code, ended.last) == (0, f"{len(trades)} settled"), ended.err
    assert trades
    [run] = [folder.name for folder in (office.home / "runs").iterdir()]
    rows = office.results(run)
    shown = {order["request_id"]: order for order in trades}
    for row in rows.values():
        order = shown[row["request_id"]]
        assert (Decimal(row["amount"]), row["currency"]) == (order["amount"], order["currency"])
        assert Decimal(row["receive_amount"]) == order["credit"]
    books = sandbox.books()
    again = office.run("rebalance", "--policy", POLICY, "--yes", "--follow", "0")
    assert (again.code, again.last) == (0, ended.last)
    assert sandbox.books() == books
    assert len(sandbox.orders()) == len(trades)


def test_card_users_are_created_once_and_found_again(office: Office) -> None:
    outcomes = []
    for _ in range(2):
        ended = office.run("provision", data.path("card_users.csv"))
        rows = office.results("card-users", "card_users.csv")
        outcomes.append((ended.code, ended.last))
        assert list(rows) == ["staff-0001", "staff-0002", "staff-0003", "staff-0004"]
        assert all(row["link"].startswith("http") for row in rows.values())
        assert not any(row["link"] in ended.out for row in rows.values())
    assert outcomes == [(0, "4 created"), (0, "4 existing")]
    file = office.home / "runs" / "card-users" / "card_users.csv"
    assert file.stat().st_mode & 0o777 == 0o600
