"""`treasury rebalance` and `treasury provision` from the outside."""

from collections.abc import Callable
from decimal import Decimal

import pytest
from openpyxl import load_workbook

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
    ended = office.run("rebalance", "--policy", POLICY, "--yes", "--follow", "120")
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
    folder = office.home / "runs" / "card-users"
    assert {row["kyc"] for row in office.results("card-users", "card_users.csv").values()} == {"not set"}
    for name in ("card_users.csv", "card_users.xlsx"):
        assert (folder / name).stat().st_mode & 0o777 == 0o600
    [book] = load_workbook(folder / "card_users.xlsx").worksheets
    assert [cell.value for cell in book["C"]][1:] == [
        row["email"] for row in office.results("card-users", "card_users.csv").values()
    ]


def test_a_dry_run_creates_nobody_and_says_who_would_be(office: Office, sandbox: RunningSandbox) -> None:
    file = office.file("dry.csv", "user_xid,email\ndry-1,a@example.com\ndry-2,b@example.com\n")
    for known, said in (("2 absent", "would be created"), ("2 existing", "exists, KYC not set")):
        ended = office.run("provision", file, "--dry-run", "--out", office.home / "dry")
        assert (ended.code, ended.last) == (0, known)
        assert f"dry-1: {said}" in ended.out
        if known == "2 absent":
            assert not (office.home / "dry").exists()
            assert office.run("provision", file).last == "2 created"


def test_another_e_mail_and_one_e_mail_twice_are_said(office: Office) -> None:
    file = office.file("mails.csv", "user_xid,email\nmail-1,a@example.com\nmail-2,A@example.com\n")
    twice = office.run("provision", file)
    assert (twice.code, twice.last) == (0, "2 created")
    assert "mail-1 and mail-2 have one e-mail" in twice.out
    file.write_text("user_xid,email\nmail-1,new@example.com\n")
    for how in ((), ("--dry-run",)):
        ended = office.run("provision", file, *how)
        assert (ended.code, ended.last) == (0, "1 existing")
        assert "another e-mail at the service" in ended.out
        assert "@example.com" not in ended.out
    [row] = office.results("card-users", "card_users.csv").values()
    assert (row["email"], "--update" in row["reason"]) == ("new@example.com", True)
