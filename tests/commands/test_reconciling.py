"""`treasury reconcile` against a service whose answers differ from what it did."""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime

import openpyxl
import pytest

from tests.commands.office import Office, read_rows
from tests.commands.proxy import Proxy, absent, broken, running_proxy, with_data
from treasury.ledger.statement_lines import kept_lines
from treasury.reports.reconciliation import FILES
from treasury.sandbox import RunningSandbox

pytestmark = pytest.mark.prefect

PLANTED = {
    "gone": (absent, "missing_at_service"),
    "amount": (with_data(order_amount="11"), "amount_mismatch"),
    "currency": (with_data(currency="USDT"), "currency_mismatch"),
    "odd": (with_data(status=12), "unclassified_status"),
    "flipped": (with_data(status=44, reason="sent back"), "reversed_after_final"),
    "good": (lambda answer: answer, "matched"),
}


@pytest.fixture(scope="module")
def proxy(sandbox: RunningSandbox) -> Iterator[Proxy]:
    with running_proxy(sandbox.base_url) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def office(proxy: Proxy, open_office: Callable[..., Office]) -> Office:
    """A home where six payments settled and one is on its way."""
    office = open_office(proxy.base_url)
    rows = [(name, "10", f"1234567{number:04d}1") for number, name in enumerate(PLANTED)]
    sheet = office.sheet(*rows, ("waits", "10", "12345670022"))
    ended = office.run("pay", sheet, "--run-key", "run", "--yes", "--follow", "1.5")
    assert ended.last == "6 settled, 1 in progress", ended.err
    return office


def test_every_planted_difference_is_found_and_classified(office: Office, proxy: Proxy) -> None:
    ids = {ref: row["request_id"] for ref, row in office.results("run").items()}
    out = office.home / "breaks"
    proxy.planted = {ids[ref]: plant for ref, (plant, _) in PLANTED.items()}
    proxy.asked.clear()
    ended = office.run("reconcile", "--out", out)
    assert ended.code == 5
    assert ended.last.startswith("breaks: ")
    assert set(proxy.asked) == set(ids.values())
    rows = {row["row_ref"]: row for row in read_rows(out / "orders.csv").values()}
    expected = {ref: found for ref, (_, found) in PLANTED.items()} | {"waits": "in_progress"}
    assert {ref: row["class"] for ref, row in rows.items()} == expected
    report = json.loads((out / "reconciliation.json").read_text())
    assert report["verdict"] == "breaks"
    assert report["counts"] == dict.fromkeys([*expected.values(), "opening"], 1)
    listed = {each["row_ref"]: each["class"] for each in report["breaks"] if each["class"] != "opening"}
    assert listed == {ref: found for ref, found in expected.items() if found not in ("matched", "in_progress")}
    assert len({each["id"] for each in report["breaks"]}) == len(listed) + 1
    page = (out / "reconciliation.md").read_text()
    for each in report["breaks"]:
        assert each["id"] in page
    for name in FILES:
        assert str(out / name) in ended.out


def test_one_order_that_cannot_be_asked_makes_it_incomplete(office: Office, proxy: Proxy) -> None:
    row = office.results("run")["good"]
    proxy.planted = {row["request_id"]: broken}
    out = office.home / "incomplete"
    ended = office.run("reconcile", "--run-key", "run", "--out", out)
    assert ended.code == 5
    assert ended.last.startswith("incomplete: 1 query_failed")
    assert read_rows(out / "orders.csv")[row["request_id"]]["class"] == "query_failed"


def test_a_service_that_is_down_leaves_a_report_that_says_so(office: Office, proxy: Proxy) -> None:
    proxy.down = True
    out = office.home / "down"
    try:
        ended = office.run("reconcile", "--out", out)
    finally:
        proxy.down = False
    assert (ended.code, ended.last) == (5, "incomplete: 7 query_failed, 1 opening")
    assert "Traceback" not in ended.err
    report = json.loads((out / "reconciliation.json").read_text())
    assert (report["verdict"], report["counts"]) == ("incomplete", {"query_failed": 7, "opening": 1})
    assert len(read_rows(out / "orders.csv")) == 7


def test_nothing_that_moves_money_is_sent(office: Office, sandbox: RunningSandbox) -> None:
    assert {order["effects"] for order in sandbox.orders()} == {1}
    assert len(sandbox.orders()) == 7


def test_a_run_is_reconciled_alone_and_an_empty_ledger_is_reconciled(
    open_office: Callable[..., Office], sandbox: RunningSandbox
) -> None:
    office = open_office(sandbox.base_url)
    ended = office.run("reconcile")
    assert (ended.code, ended.last) == (0, "reconciled: no orders")
    [folder] = (office.home / "nights").iterdir()
    assert date.fromisoformat(folder.name) <= datetime.now(UTC).date()
    assert {file.name for file in folder.iterdir()} == {*FILES, "starts"}
    assert "REHEARSAL" not in (folder / "reconciliation.html").read_text()


@pytest.mark.parametrize("more", [(), ("--offline",)], ids=["asked", "offline"])
def test_a_mistyped_name_is_refused_and_not_reported_as_well(more: tuple[str, ...], office: Office) -> None:
    for narrowed, said in (("--run-key", "no run Night"), ("--currency", "the currency must be written in capitals")):
        ended = office.run("reconcile", narrowed, "Night", *more)
        assert ended.code == 2
        assert said in ended.err


def test_every_night_of_a_day_keeps_its_own_files_beside_the_newest_ones(office: Office) -> None:
    folder = office.home / "day"
    for _ in range(2):
        office.run("reconcile", "--out", folder)
    starts = sorted((folder / "starts").iterdir())
    assert len(starts) == 2
    assert all((starts[-1] / name).read_bytes() == (folder / name).read_bytes() for name in FILES)
    assert (starts[0] / "reconciliation.json").read_bytes() != (folder / "reconciliation.json").read_bytes()


def test_a_report_of_a_rehearsal_says_so_on_its_first_page(office: Office) -> None:
    folder = office.home / "rehearsed"
    office.run("reconcile", "--offline", "--out", folder)
    assert "REHEARSAL" in json.loads((folder / "reconciliation.json").read_text())["rehearsal"]
    assert "REHEARSAL" in (folder / "reconciliation.md").read_text().splitlines()[4]
    assert "REHEARSAL" in (folder / "reconciliation.html").read_text().partition("</header>")[0]
    book = openpyxl.load_workbook(folder / "reconciliation.xlsx", read_only=True)
    assert any(
        "REHEARSAL" in str(cell) for row in book["Summary"].iter_rows(max_row=4, values_only=True) for cell in row
    )


def test_the_same_night_is_reported_again_offline_and_a_break_is_accepted(office: Office, proxy: Proxy) -> None:
    row = office.results("run")["amount"]
    proxy.planted = {row["request_id"]: with_data(order_amount="11")}
    first, again = office.home / "first", office.home / "again"
    assert office.run("reconcile", "--out", first).code == 5
    proxy.asked.clear()
    made_again = office.run("reconcile", "--offline", "--out", again)
    assert made_again.code == 5
    assert "Prefect" not in made_again.out
    assert proxy.asked == []
    assert all((again / name).read_bytes() == (first / name).read_bytes() for name in FILES)
    breaks = {each["class"]: each for each in json.loads((first / "reconciliation.json").read_text())["breaks"]}
    found = breaks["amount_mismatch"]
    for name in ("opening", "orphan_success"):  # the payment that the planted night took back is shown as paid again
        assert office.run("accept", breaks[name]["id"], "--by", "Ana", "--why", "as the service shows it").code == 0
    said = office.run("accept", found["id"], "--by", "Ana", "--why", "agreed with the service")
    assert (said.code, said.last) == (
        0,
        f"{found['id']} (amount_mismatch) is accepted by Ana: the next report shows it apart",
    )
    agreed = office.run("reconcile", "--offline", "--out", again)
    verdict, _, counts = agreed.last.partition(": ")
    assert (agreed.code, counts.startswith("1 amount_mismatch")) == (0, True)
    assert verdict == "warnings"  # a payment was shown as failed when the account was opened, and as paid later
    report = json.loads((again / "reconciliation.json").read_text())
    assert [each["accepted"]["by"] for each in report["breaks"] if each["accepted"]] == ["Ana"] * 3


@pytest.mark.parametrize("offline", [(), ("--offline",)], ids=["asked", "offline"])
def test_the_time_of_a_statement_is_of_the_day_of_the_policy_in_force(
    offline: tuple[str, ...], sandbox: RunningSandbox, open_office: Callable[..., Office]
) -> None:
    office = open_office(sandbox.base_url)
    policy = office.file("policy.toml", 'time_zone = "America/Los_Angeles"\n[payouts.max_per_run]\nUSDT = "1"\n')
    assert office.run("policy", "adopt", policy, "--by", "Ada Example").code == 0
    assert office.run("reconcile").code == 0
    line = "order_no,currency,amount,status,date\nX1,USDT_TRC20,7,99,2026-11-25T01:00:00Z\n"
    assert office.run("reconcile", "--statement", office.file("statement.csv", line), *offline).code in (0, 5)
    assert [each.booked_on for each in kept_lines(office.desk().ledger, None)] == [date(2026, 11, 24)]


def test_a_statement_shows_a_payment_that_nobody_meant(office: Office, proxy: Proxy) -> None:
    proxy.planted = {}
    statement = office.file("statement.csv", "order_no,currency,amount,status\nX1,USDT_TRC20,7,99\n")
    ended = office.run("reconcile", "--statement", statement)
    assert (ended.code, ended.last.partition(",")[0]) == (5, "breaks: 1 missing_in_ledger")


def test_mistakes_in_what_a_reconciliation_is_given_are_said_before_anything_is_asked(
    office: Office, proxy: Proxy
) -> None:
    proxy.asked.clear()
    bad = office.file("bad.csv", "order_no,currency,amount\nX1,USDT,seven\n")
    policy = office.file("bad.toml", "[reconciliation]\nfee_tolerance_bps = -1\n[reconciliation.due_hours]\nsend = 3\n")
    said = office.run_all(
        {
            "statement": ["reconcile", "--statement", str(bad)],
            "policy": ["reconcile", "--policy", str(policy)],
            "nothing": ["accept", "B-000000000000", "--by", "Ana", "--why", "none"],
            "nobody": ["accept", "B-000000000000", "--by", " ", "--why", "none"],
        }
    )
    assert {name: ended.code for name, ended in said.items()} == dict.fromkeys(said, 2)
    assert "row 2" in said["statement"].err
    assert "fee_tolerance_bps" in said["policy"].err
    assert "send is not an operation that moves money" in said["policy"].err
    assert "no open break" in said["nothing"].err
    assert "needs a name" in said["nobody"].err
    assert proxy.asked == []


def test_money_that_another_program_took_stays_open_until_a_person_accepts_it(
    open_sandbox: Callable[..., RunningSandbox], open_office: Callable[..., Office]
) -> None:
    sandbox = open_sandbox()
    office, other = open_office(sandbox.base_url), open_office(sandbox.base_url)

    def night(number: int, *more: str) -> tuple[int, dict[str, tuple[str, str, str]]]:
        out = office.home / f"night-{number}"
        ended = office.run("reconcile", "--out", out, *more)
        breaks = json.loads((out / "reconciliation.json").read_text())["breaks"]
        found = [each for each in breaks if each["class"] != "opening"]
        return ended.code, {each["id"]: (each["class"], each["lifecycle"], each["amount"]) for each in found}

    def pay(home: Office, key: str, amount: str) -> None:
        ended = home.run("pay", home.sheet((key, amount, "12345670001")), "--run-key", key, "--yes", "--follow", "20")
        assert ended.last == "1 settled", ended.err

    pay(office, "ours", "10")
    assert night(1) == (0, {})
    pay(other, "theirs", "5000")
    assert night(2, "--currency", "USDT_TRC20") == (0, {})
    code, found = night(3)
    [(gap, shown)] = found.items()
    assert (code, shown) == (5, ("balance_gap", "new", "5000"))
    sandbox.deposit("USDT_TRC20", "5000")
    code, found = night(4)
    assert code == 5
    assert found[gap] == ("balance_gap", "persisting", "5000")
    assert {each[0] for each in found.values()} == {"balance_gap", "unexplained_inflow"}
    assert office.run("accept", gap, "--by", "Ana", "--why", "the other office's payroll").code == 0
    code, found = night(5)
    assert (code, found[gap][1]) == (0, "persisting"), "an inflow is a warning"
    folder = office.home / "month"
    month = f"{datetime.now(UTC):%Y-%m}"
    written = office.run("report", "--month", month, "--out", folder)
    assert (written.code, written.last) == (0, f"{month}: 1 account, 1 entry")
    assert json.loads((folder / "month.json").read_text())["accounts"][0]["adjustments"] == "-5000"
    assert office.run("report", "--month", "May").code == 2
