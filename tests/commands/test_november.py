"""November of a treasury, lived by a script: every total that a person reads is that of books kept by hand.

A run is killed, a policy changed, everything stopped; payments come back and are replaced, a week of nights is missed,
strangers pay in. The clock of commands and sandbox is moved; the process that is killed is a real one.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal

import pytest

from tests.commands import people_read
from tests.commands.approvers import code_of, key, policy, with_people
from tests.commands.diary import NOVEMBER, Month, at_most, certain, parts_of
from tests.commands.november import OPENING, Paid, fixed, payees, salaries
from tests.commands.office import Office
from tests.moved_clock import MovedClock
from treasury.sandbox import SandboxClock, SandboxSettings, running_sandbox

pytestmark = [pytest.mark.prefect, pytest.mark.proof]

D = Decimal
LIMITS = """
time_zone = "Asia/Singapore"
base_asset = "USDT"
[rebalancing]
min_trade = "25"
[assets]
USDC_ERC20 = { target = "20000" }
USDT = { target = "60000" }
USDT_ERC20 = { target = "20000" }
USDT_TRC20 = { target = "100000" }
[payouts]
countries = ["DE", "ID", "PH", "TH", "US", "VN"]
max_per_run = { USDT_TRC20 = "6000" }
one_approval_above = { USDT = "3000", USDT_TRC20 = "1000" }
two_approvals_above = { USDT_TRC20 = "4000" }
[withdrawals]
one_approval_above = { USDT_TRC20 = "5000" }
[changes]
approvals = 1
"""
AGENCY = [
    *payees("VN", 2, "USDT_TRC20", "61.10", "1"),
    *payees("PH", 1, "USDT_ERC20", "62.20", "1"),
    *payees("DE", 2, "USDT", "363.30", "1"),
]
"""Five payments that arrive on the 10th and come back on the 13th."""
COURIERS = [*payees("ID", 2, "USDT_TRC20", "41.50", "1"), *payees("US", 1, "USDC_ERC20", "144", "1")]
"""Three payments that nobody sees arrive before they come back."""
CALM = "reconciled: 3 unexplained_inflow, 7 quote_expired_unused, {} matched"
"""How nights end once everything that was found is accepted."""
RUNS = [
    ("late", "0 settled, 1 in progress"),
    ("mended", "2 settled"),
    ("salaries-2", "38 settled, 1 failed, 1 closed"),
    ("agency-2", "5 settled"),
    ("couriers-2", "3 settled"),
    ("couriers", "0 settled, 3 failed"),
    ("agency", "0 settled, 5 failed"),
    ("bonus", "14 settled"),
    ("cold", "1 settled"),
    ("contractors", "8 settled"),
    ("vendors", "12 settled"),
    ("salaries", "40 settled"),
]
"""Every run of November and what came of it, the newest first."""
NO_RATE_MOVES = {
    # salaries, contractors, the agency (what came back of it cost nothing), salaries
    "USDT_ERC20": (D("24.712"), 20_000 - D("1057.50") - 276 - D("62.20") - D("1075.50")),
    # 6 + 4 + 1 + 6 payments at 1.25: salaries, vendors, a courier, salaries
    "USDC_ERC20": (17 * D("1.25"), 20_000 - D(5031 + 1710 + 144 + 5049)),
    # salaries, contractors, cold store, bonus, agency, couriers, agency again, salaries; one percent of what stayed
    "USDT_TRC20": (D("232.092"), 100_000 - D("23332.40") + D("123.20") + D("5000.25") + 99),
}
"""The month where no rate says what is debited, on a sheet of paper: currency -> fees, and what is left."""
FAULTS: dict[str, float] = {}
"""The faults of the other side, switched on and off by day."""


@pytest.fixture(scope="module")
def month(open_office: Callable[..., Office], key_pair: tuple[str, str]) -> Iterator[Month]:
    clock = MovedClock(NOVEMBER)
    settings = SandboxSettings(
        public_key=key_pair[1], balances=OPENING, faults=FAULTS, settle_seconds=3, flip_seconds=3 * 86_400
    )
    with running_sandbox(settings, SandboxClock(clock)) as sandbox:
        office = open_office(sandbox.base_url)
        office.clock = clock
        yield Month(office, sandbox, clock)


@pytest.mark.costly("two nights, and forty payments with their approvals")
def test_01_keys_a_policy_and_the_salaries(month: Month) -> None:
    """Sunday the 1st: keys, and a policy. Monday: everybody is paid."""
    month.at(1, 7)
    with_people(month.office, LIMITS)
    opened = month.night(1, "warnings: 1 opening")
    month.at(2, 7)
    month.accept("opening", opened, "as the service shows it")
    rows = salaries()
    assert certain(rows) == {"USDT_TRC20": D(4065), "USDT_ERC20": D("1057.50"), "USDC_ERC20": D(5031), "USDT": D(5000)}
    month.look("salaries", rows)
    paid = month.pay("salaries", rows, "40 settled", approvers=("ben", "cleo"))
    month.books.arrive(paid)
    month.results("salaries", settled=paid)
    month.night(2, "reconciled: 40 matched")


@pytest.mark.costly("two nights, and a run in a process that is killed")
def test_03_a_stranger_pays_in_and_a_run_is_killed(month: Month) -> None:
    """Tuesday: money that nobody expected. Wednesday: it is accepted, and a real process is killed in a run."""
    month.at(3, 14)
    month.sandbox.deposit("USDT_TRC20", "5000.25")
    month.books.strangers["USDT_TRC20"] = D("5000.25")
    found = month.night(3, "warnings: 1 unexplained_inflow, 40 matched")
    assert month.standing()["unexplained"] == {"USDT_TRC20": "5000.25"}
    month.at(4, 7)
    month.accept("unexplained_inflow", found, "a customer's deposit", who="cleo")
    month.books.accept_strangers()
    rows = [*fixed(payees("DE", 4, "EUR", "710", "10"), "USDT", "1.09"), *payees("US", 4, "USDC_ERC20", "411", "11")]
    rows += fixed(payees("TH", 4, "THB", "20500", "500"), "USDT", "0.0305")
    line = month.pay_line("vendors", rows)
    month.approved("vendors", line, at_most(rows), "cleo")
    month.dies("send.answered", 5, *line)
    assert len(month.sandbox.orders()) == 40 + 5, "five payments left before the kill, the fifth unrecorded"
    month.at(4, 8)
    paid = month.pay("vendors", rows, "12 settled", before=40)
    month.books.arrive(paid)
    month.results("vendors", settled=paid)
    month.night(4, "reconciled: 1 unexplained_inflow, 7 quote_expired_unused, 52 matched")


@pytest.mark.costly("four nights, a run and a withdrawal")
def test_05_a_stop_its_lifting_and_a_withdrawal(month: Month) -> None:
    """Thursday: ben stops everything. Friday: cleo lifts it; the run leaves, and 7,500 go to the cold store."""
    month.at(5, 7)
    month.run("stop", "--by", "Ben Example", "--why", "is this list right?")
    rows = [*payees("ID", 5, "USDT_TRC20", "91", "1"), *payees("PH", 3, "USDT_ERC20", "91", "1")]
    ended = month.run(*month.pay_line("contractors", rows), code=4)
    assert ended.last == "0 settled, 8 not sent"
    stopped = [Paid(row, row.pays, D(0), D(0)) for row in rows if row.pays is not None]
    month.results("contractors", not_sent=stopped)
    assert "Ben Example (is this list right?)" in month.standing()["needs"][0]
    month.books.recorded = {"USDT_TRC20": D(91 + 92 + 93 + 94 + 95), "USDT_ERC20": D(91 + 92 + 93)}
    month.night(5, "pending: 1 unexplained_inflow, 8 in_progress, 7 quote_expired_unused, 52 matched")
    month.at(6, 7)
    month.run("stop", "--lift", "--key", key(month.office, "cleo"))
    paid = month.pay("contractors", rows, "8 settled")
    month.books.recorded = {}
    month.books.arrive(paid)
    month.results("contractors", settled=paid)
    cold = month.withdraw("cold", "7500", approver="cleo")
    assert cold == [Paid(cold[0].row, D(7500), D(75), D(7425))]
    month.night(6, "reconciled: 1 unexplained_inflow, 7 quote_expired_unused, 61 matched")
    month.quiet_nights((7, 8), "reconciled: 1 unexplained_inflow, 7 quote_expired_unused, 61 matched")
    assert month.standing()["needs"] == []


@pytest.mark.costly("two nights, two runs, and a policy that is changed")
def test_09_a_policy_is_changed_and_returns_begin(month: Month) -> None:
    """Monday: the bonus is above the limit of a run; ada asks for more, cleo agrees. Tuesday: the agency is paid."""
    month.at(9, 7)
    rows = [*payees("ID", 8, "USDT_TRC20", "510", "10"), *payees("VN", 6, "USDT_TRC20", "405", "5")]
    assert certain(rows) == {"USDT_TRC20": D(4360 + 2505)}
    refused = month.run(*month.pay_line("bonus", rows), code=2)
    assert "6865 USDT_TRC20" in refused.err
    wider = policy(month.office, LIMITS.replace('USDT_TRC20 = "6000"', 'USDT_TRC20 = "9000"'), "wider.toml")
    adopt = ["policy", "adopt", wider, "--by", "ada", "--key", key(month.office, "ada")]
    code = code_of(month.office.run(*adopt))
    change = month.run("approvals").out.split()[0]
    month.run("approve", change, "--plan", code, "--key", key(month.office, "cleo"))
    assert 'USDT_TRC20: "6000" -> "9000"' in month.run(*adopt).out
    paid = month.pay("bonus", rows, "14 settled", approvers=("cleo", "ben"))
    month.books.arrive(paid)
    month.results("bonus", settled=paid)
    month.night(9, "reconciled: 1 unexplained_inflow, 7 quote_expired_unused, 75 matched")
    month.at(10, 7)
    FAULTS["flip_final"] = 1.0
    paid = month.pay("agency", AGENCY, "5 settled")
    month.books.arrive(paid)
    month.kept["agency"] = paid
    month.night(10, "reconciled: 1 unexplained_inflow, 7 quote_expired_unused, 80 matched")


def test_11_a_week_without_nights(month: Month) -> None:
    """Wednesday: couriers are paid, and nobody waits. Then no night until the 18th, while money goes back and forth."""
    month.at(11, 7)
    couriers = month.pay("couriers", COURIERS, "0 settled, 3 in progress", "--follow", "0")
    month.results("couriers", in_progress=couriers)
    month.at(12, 7)
    del FAULTS["flip_final"]
    month.at(13, 12)
    month.sandbox.deposit("USDT", "812.50")
    month.books.strangers["USDT"] = D("812.50")
    month.at(14, 12)
    month.sandbox.charge("USDT_TRC20", "100")
    month.books.strangers["USDT_TRC20"] = D(99)
    month.at(16, 7)
    missed = [f"2026-11-{day}" for day in range(11, 16)]
    assert month.standing()["missed_nights"] == missed
    assert "no report of everything was made on 5 days, 2026-11-11 to 2026-11-15" in month.run("status", code=4).out
    month.books.come_back(month.kept["agency"])
    month.books.fail(couriers)
    month.kept["couriers"] = couriers
    month.night(18, "breaks: 5 reversed_after_final, 3 unexplained_inflow, 7 quote_expired_unused, 78 matched", code=5)
    for page in ("reconciliation.md", "reconciliation.html"):
        said = (month.office.home / "nights" / "2026-11-18" / page).read_text()
        assert "No report of everything was made on 7 days: 2026-11-11 to 2026-11-17." in said, page


@pytest.mark.costly("decisions about seven breaks, two runs and four nights")
def test_19_what_came_back_is_replaced(month: Month) -> None:
    """Thursday: the breaks are accepted; the couriers are paid again as they were, the agency from its sheet."""
    month.at(19, 7)
    month.accept("reversed_after_final", month.last_report, "sent back by their banks")
    month.accept("unexplained_inflow", month.last_report, "deposits of customers", who="cleo")
    month.books.accept_returns()
    month.books.accept_strangers()
    month.results_now("couriers", failed=month.kept["couriers"])
    again = month.pay_again("couriers-2", "couriers", COURIERS, "3 settled")
    month.books.arrive(again)
    month.results("couriers-2", settled=again)
    refused = month.run("pay", "--only-failed-of", "agency", "--run-key", "agency-2", "--yes", code=2)
    assert "from the sheet that it was paid from" in refused.err
    month.results_now("agency", failed=month.kept["agency"])
    told = {row["next_action"] for row in month.office.results("agency").values()}
    assert all("--only-failed-of" not in each and "from the sheet" in each for each in told), told
    replaced = month.remaining("agency")
    rows = [replace(row, replaces=replaced[row.ref]) for row in AGENCY]
    again = month.pay("agency-2", rows, "5 settled")
    month.books.arrive(again)
    month.results("agency-2", settled=again)
    month.quiet_nights((19, 20, 21, 22), CALM.format(91))
    assert month.standing()["unexplained"] == {}


@pytest.mark.costly("forty payments, those of two paid again, and four nights")
def test_23_the_second_salaries(month: Month) -> None:
    """Monday: everybody gets three more; two accounts are wrong. Tuesday: both are paid to their right accounts."""
    month.at(23, 7)
    wrong = {"ID-05": "77735550044", "VN-03": "77865550088"}
    rows = [replace(row, account=wrong.get(row.ref, "")) for row in salaries(more="3")]
    assert certain(rows)["USDT_TRC20"] == D(4065 + 14 * 3)
    month.look("salaries-2", rows)
    last = "38 settled, 1 failed, 1 closed"
    paid = month.pay("salaries-2", rows, last, approvers=("ben", "cleo"), code=4)
    arrived, unpaid = parts_of(paid, list(wrong))
    month.books.arrive(arrived)
    month.books.fail(unpaid)
    month.results("salaries-2", settled=arrived, failed=unpaid[:1], closed=unpaid[1:])
    month.night(23, CALM.format(131))
    month.at(24, 7)
    replaced = month.remaining("salaries-2")
    assert set(replaced) == set(wrong)
    rows = [replace(each.row, account="", replaces=replaced[each.row.ref]) for each in unpaid]
    paid = month.pay("mended", rows, "2 settled")
    month.books.arrive(paid)
    month.results("mended", settled=paid)
    month.quiet_nights((24, 25, 26), CALM.format(133))


@pytest.mark.costly("four nights and a month for the books")
def test_27_one_stays_on_its_way_and_the_month_ends(month: Month) -> None:
    """Friday: one payment leaves and does not end. Monday: it is late, and the month is written for the books."""
    month.at(27, 7)
    [row] = payees("ID", 1, "USDT_TRC20", "77.70", "0")
    paid = month.pay("late", [replace(row, account="77735550022")], "0 settled, 1 in progress")
    month.results("late", in_progress=paid)
    end = "7 quote_expired_unused, 133 matched"
    month.quiet_nights((27, 28, 29), f"pending: 3 unexplained_inflow, 1 in_progress, {end}")
    month.night(30, f"warnings: 1 pending_late, 3 unexplained_inflow, {end}")
    assert month.run("report", "--month", "2026-11").last.startswith("2026-11: 4 accounts, ")
    folder = month.office.home / "months" / "2026-11"
    figures = people_read.month_figures(folder)
    assert figures == {currency: month.books.of_month(currency) for currency in OPENING}, "November for the books"
    for currency, (fees, closing) in NO_RATE_MOVES.items():
        assert (figures[currency]["fees"], figures[currency]["closing"]) == (-fees, closing), currency
    controls = json.loads((folder / "month.json").read_text())["controls"]
    assert {name: count for name, count in controls.items() if count} == {
        "approvals given": 2 + 1 + 1 + 1 + 2 + 2,  # salaries, vendors, the cold store, the policy, bonus, salaries
        "decisions signed with a key": 9 + 1,  # the differences, and the lifting of the stop
        "stops of all sending": 1,
        "policies adopted": 2,
        "differences accepted": 1 + 1 + 5 + 2,  # the opening, the first stranger, what came back, the other strangers
    }
    month.check_payees()
    ran = [line.split("  ") for line in month.run("runs").out.splitlines()]
    assert [(run[0], run[-1]) for run in ran] == [*RUNS, ("12 runs", "12 runs")]
    standing = month.standing()
    assert (standing["missed_nights"], standing["unexplained"], standing["not_sent"]) == ([], {}, [])
    assert standing["needs"] == [
        "1 open break of the last report: read it, then treasury accept BREAK --key FILE --why TEXT"
    ]
