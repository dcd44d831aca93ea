"""Preview, dry run and run give one verdict for each row: what will be refused or held is known before the yes."""

import csv
import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pytest

import data
from tests.commands.office import Ended, Office
from tests.engine.runs import HEADER
from treasury.sandbox import RunningSandbox

pytestmark = [pytest.mark.prefect, pytest.mark.no_real_pauses]

ROW = ("a", "10", "12345670001", "Ann Example")
WAYS = {"preview": (), "dry run": ("--dry-run",), "run": ("--yes", "--follow", "10")}


@pytest.fixture
def sandbox(open_sandbox: Callable[..., RunningSandbox]) -> RunningSandbox:
    return open_sandbox(balances={"USDT_TRC20": Decimal(5000), "USDT": Decimal(5000)})


@pytest.fixture
def office(sandbox: RunningSandbox, open_office: Callable[..., Office], prefect_url: str) -> Office:
    return open_office(sandbox.base_url)


def sheet(office: Office, *rows: tuple[str, str, str, str], more: str = "") -> Path:
    lines = [
        f"{ref},direct,{amount},USDT_TRC20,IDR,bank_transfer,{account},{name},ID,1000120,0812000,p@b.example,"
        for ref, amount, account, name in rows
    ]
    file = office.home / "rows.csv"
    file.write_text("\n".join([HEADER, *lines]) + "\n" + more)
    return file


def by_receipt(office: Office) -> Path:
    """One row that fixes what is received."""
    with data.path("beneficiaries.csv").open() as content:
        [row] = [row for row in csv.DictReader(content) if row["row_ref"] == "INV-105"]
    file = office.home / "dest.csv"
    with file.open("w", newline="") as content:
        out = csv.DictWriter(content, list(row))
        out.writeheader()
        out.writerow(row)
    return file


def adopt(office: Office, rules: str) -> None:
    file = office.home / "policy.toml"
    file.write_text(rules)
    assert office.run("policy", "adopt", file, "--by", "Ada Example").code == 0


def each_way(office: Office, file: Path) -> dict[str, Ended]:
    return {way: office.run("pay", file, "--run-key", f"run-{way[:3]}", *more) for way, more in WAYS.items()}


HOLDS = {
    "like one of an earlier run": ("", (ROW,), "same payee, amount and currency as a of run before"),
    "twice in the sheet": ("", (("b", "7", *ROW[2:]), ("c", "7", *ROW[2:])), "same payee, amount and currency as b of"),
    "a new payee above the limit": (
        '[payouts.new_payee_above]\nUSDT_TRC20 = "5"\n',
        (("b", "7", "12345670002", "Ben Example"),),
        "the first payment to this account, and over new_payee_above",
    ),
    "another account of a known name": (
        "[payouts]\ncooling_days = 3\n",
        (("b", "7", "12345670003", "Ann Example"),),
        "this name was paid to another account before: it waits 3 days",
    ),
}


@pytest.mark.parametrize("case", HOLDS)
def test_what_will_be_held_is_known_before_the_yes(office: Office, case: str) -> None:
    rules, rows, why = HOLDS[case]
    assert office.run("pay", sheet(office, ROW), "--run-key", "before", "--yes", "--follow", "10").code == 0
    if rules:
        adopt(office, rules)
    ended = each_way(office, sheet(office, *rows))
    assert [each.code for each in ended.values()] == [3, 0, 4]
    held = {ref: row["reason"] for ref, row in office.results("run-run").items() if row["outcome"] == "held"}
    assert [reason.startswith(why) for reason in held.values()] == [True]
    for way in ("preview", "dry run"):
        said = re.sub(r"run-(pre|dry)|tf-\w+", "*", ended[way].out)
        assert "Will be held:" in said
        assert [f"will be held: {re.sub('run-run|tf-[a-z0-9]+', '*', reason)}" in said for reason in held.values()] == [
            True
        ], said


REFUSALS = {
    "a cell that is wrong": ("", (("b", "ten", *ROW[2:]),), "amount"),
    "above the limit of a payout": ('[payouts.max_per_payout]\nUSDT_TRC20 = "5"\n', (ROW,), "per payout"),
    "above the limit of a run": ('[payouts.max_per_run]\nUSDT_TRC20 = "5"\n', (ROW,), "over the limit of 5 per run"),
    "above the limit of the day": ('[payouts.max_per_day]\nUSDT_TRC20 = "5"\n', (ROW,), "the limit of 20"),
    "a currency that is not allowed": ('[payouts]\ncurrencies = ["BTC"]\n', (ROW,), "not a currency that the policy"),
    "a country that is not allowed": ('[payouts]\ncountries = ["DE"]\n', (ROW,), "not a country that the policy"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_what_is_refused_is_refused_alike(office: Office, sandbox: RunningSandbox, case: str) -> None:
    rules, rows, why = REFUSALS[case]
    if rules:
        adopt(office, rules)
    before = len(sandbox.orders())
    ended = each_way(office, sheet(office, *rows))
    assert [(each.code, why in each.err + each.out) for each in ended.values()] == [(2, True)] * 3, ended
    assert len(sandbox.orders()) == before


def test_a_row_that_nothing_bounds_is_refused_alike(
    open_sandbox: Callable[..., RunningSandbox], open_office: Callable[..., Office], prefect_url: str
) -> None:
    from treasury.sandbox.behaviour import Behaviour

    silent = open_sandbox(behaviour=Behaviour(success_false=frozenset({"trade_rate"})))
    office = open_office(silent.base_url)
    ended = each_way(office, by_receipt(office))
    assert [(each.code, "max_pay_amount" in each.err + each.out) for each in ended.values()] == [(2, True)] * 3
    assert silent.orders() == []
