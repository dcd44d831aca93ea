"""A person's month: a look, a mistake, late rows, failures paid again, next month, a changed account."""

import csv
from pathlib import Path

import openpyxl
import pytest

from tests.commands.office import Office
from treasury.sandbox import RunningSandbox

POLICY = """
time_zone = "UTC"
[payouts]
max_per_run = { USDT_TRC20 = "1000" }
one_approval_above = { USDT_TRC20 = "200" }
cooling_days = 30
"""


@pytest.fixture(scope="module")
def month(office: Office) -> Office:
    policy = office.file("policy.toml", POLICY)
    assert office.run("policy", "adopt", policy, "--by", "Ada Example").code == 0
    return office


def sheet(month: Office, *rows: tuple[str, str, str], name: str = "rows.csv") -> Path:
    """A sheet whose payees have names of their own."""
    file = month.sheet(*rows, name=name)
    first, *lines = file.read_text().splitlines()
    named = [line.replace("Example Person", f"Example {line.split(',')[0]} Person") for line in lines]
    file.write_text("\n".join([first, *named]) + "\n")
    return file


def rows_of(file: Path) -> list[dict[str, str]]:
    with file.open() as content:
        return list(csv.DictReader(content))


def test_1_a_look_shows_what_would_be_paid_and_sends_nothing(month: Office, sandbox: RunningSandbox) -> None:
    file = sheet(month, ("a", "100", "12345670001"), ("b", "90", "12345670044"), ("c", "80", "12345670088"))
    looked = month.run("pay", file, "--run-key", "november", "--dry-run")
    assert (looked.code, looked.last) == (0, "3 payments planned, nothing was sent")
    for said in (
        "Funded: USDT_TRC20",
        "Paid for the first time:    3 payments",
        "Indonesia (ID): 3 payments, 270 USDT_TRC20",
    ):
        assert said in looked.out
    page = (month.home / "runs" / "november" / "plan.html").read_text()
    assert "first payment to this account" in page
    book = openpyxl.load_workbook(month.home / "runs" / "november" / "plan.xlsx", read_only=True)
    assert book.sheetnames == ["Plan", "Payments"]
    assert sandbox.orders() == []


def test_2_a_mistake_is_named_before_anything_is_sent(month: Office, sandbox: RunningSandbox) -> None:
    file = sheet(month, ("a", "100", "12345670001"))
    wrong = month.file("wrong.csv", file.read_text().replace("1000120", "9999999"))
    refused = month.run("pay", wrong, "--run-key", "november", "--yes")
    assert refused.code == 2
    assert "row 2 (a), bank_code: is not a code that the service lists for IDR in ID" in refused.err
    assert rows_of(month.home / "runs" / "november" / "errors.csv")[0]["column"] == "bank_code"
    assert sandbox.orders() == []


def test_3_it_waits_for_an_approval_and_late_rows_are_added(month: Office, sandbox: RunningSandbox) -> None:
    rows = (("a", "100", "12345670001"), ("b", "90", "12345670044"), ("c", "80", "12345670088"))
    file = sheet(month, *rows, name="november.csv")
    assert month.run("pay", file, "--run-key", "november", "--yes").code == 3
    assert month.run("approve", "november", "--by", "Ben Example").code == 0
    ended = month.run("pay", file, "--run-key", "november", "--yes")
    assert (ended.code, ended.last) == (4, "1 settled, 1 failed, 1 closed")
    late = sheet(month, *rows, ("late", "10", "12345670005"), name="late.csv")
    refused = month.run("pay", late, "--run-key", "november", "--yes")
    assert (refused.code, "or --add: late" in refused.err) == (2, True)
    assert month.run("pay", late, "--run-key", "november", "--add", "--yes").last == "2 settled, 1 failed, 1 closed"
    assert len(sandbox.orders()) == 4


def test_4_what_failed_is_corrected_and_paid_once(month: Office, sandbox: RunningSandbox) -> None:
    remaining = month.home / "runs" / "november" / "remaining.csv"
    assert [row["row_ref"] for row in rows_of(remaining)] == ["b", "c"]
    text = remaining.read_text().replace("12345670044", "12345670006").replace("Example b Person", "Example a Person")
    corrected = month.file("corrected.csv", text)
    paid = month.run("pay", corrected, "--run-key", "november-2", "--yes", "--follow", "120")
    assert paid.last == "0 settled, 1 closed, 1 held"  # this name was paid to another account before
    released = month.run("release", "november-2", "--by", "Ada Example", "--why", "called him")
    assert released.code == 0
    assert month.run("pay", corrected, "--run-key", "november-2", "--yes").last == "1 settled, 1 closed"
    again = month.run("pay", "--only-failed-of", "november-2", "--run-key", "november-3", "--yes")
    assert again.last == "0 settled, 1 closed"
    nothing = month.run("pay", "--only-failed-of", "november", "--run-key", "november-4", "--yes")
    assert (nothing.code, "nothing of run november failed" in nothing.err) == (2, True)
    assert month.run("pay", "--run-key", "november-4", "--yes").code == 2
    assert len(sandbox.orders()) == 7


def test_5_the_ledger_says_what_each_payee_got(month: Office) -> None:
    listed = month.run("payees")
    assert (listed.code, listed.last) == (0, "5 payees")
    assert "ID 1000120 ***0001  1 payment " in listed.out
    shown = month.run("payee", "a")
    assert shown.code == 0
    assert "payee ***0001" in shown.out
    assert "the same name, other accounts:" in shown.out
    assert month.run("payee", "nobody").code == 2
