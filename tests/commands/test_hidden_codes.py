"""Scanned codes that the service debits at once, and that its query does not show for a while."""

import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from tests.commands.office import Office
from treasury.promptpay import build_promptpay
from treasury.reconciliation.classes import BALANCE_CLASSES
from treasury.sandbox import RunningSandbox

pytestmark = [pytest.mark.prefect, pytest.mark.no_real_pauses]


def last_report(office: Office) -> dict[str, Any]:
    newest = max(office.home.glob("nights/*/reconciliation.json"), key=lambda file: file.stat().st_mtime_ns)
    said: dict[str, Any] = json.loads(newest.read_text())
    return said


def balance(office: Office) -> dict[str, str]:
    """The balance that codes are debited from, in the last report, which may show no gap of any."""
    report = last_report(office)
    assert [each for each in report["breaks"] if each["class"] in BALANCE_CLASSES] == []
    [line] = [each for each in report["balances"] if each["currency"] == "USDT"]
    found: dict[str, str] = line
    return found


def debits(sandbox: RunningSandbox) -> list[Decimal]:
    return [Decimal(str(order["amount"])) + Decimal(str(order["fee"])) for order in sandbox.orders()]


def scan(office: Office, key: str, *amounts: int) -> None:
    """Pay codes of these amounts of THB."""
    lines = [
        f"r{amount},{build_promptpay('0812345678', Decimal(amount))},{amount},owner-1,https://hooks.example.com/p"
        for amount in amounts
    ]
    codes = office.file(f"{key}.csv", "\n".join(["row_ref,qrcode,amount,user_xid,notify_url", *lines]) + "\n")
    office.run("scan-pay", codes, "--run-key", key, "--yes")


def test_a_code_that_is_not_shown_yet_may_have_taken_what_its_plan_allows(
    open_sandbox: Callable[..., RunningSandbox], open_office: Callable[..., Office], prefect_url: str
) -> None:
    """Its debit is not known: it was a balance gap until the service showed it."""
    sandbox = open_sandbox(faults={"read_lag": 1.0}, read_lag_seconds=3_600.0)
    office = open_office(sandbox.base_url)
    scan(office, "first", 349)
    sandbox.advance(4_000)
    for _ in range(2):
        office.run("reconcile")
    before = sum(debits(sandbox))
    scan(office, "more", 350, 351, 352)
    assert len(debits(sandbox)) == 4

    office.run("reconcile")
    line = balance(office)
    assert Decimal(line["explained_low"]) <= before - sum(debits(sandbox))
    assert Decimal(line["explained_high"]) == 0

    sandbox.advance(4_000)
    office.run("reconcile")
    line = balance(office)
    assert Decimal(line["explained_low"]) == Decimal(line["explained_high"]) == Decimal(line["change"])
