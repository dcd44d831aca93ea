"""A payment that fixes what is received debits no more than its plan says: the ceiling is fixed once, and enforced."""

import csv
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import data
from tests.engine import judged, paying
from tests.engine.approvers import adopt, approve, waits
from tests.engine.planned import PlannedService
from tests.engine.runs import pay, results
from tests.moved_clock import clock_of
from treasury.errors import InvalidSheet, PlanRejected
from treasury.ledger.approvals import reject_plan
from treasury.pay.payout_plans import PayRequest, make_plan
from treasury.payments.desk import Desk
from treasury.planning.payout_planner import PayoutPlan
from treasury.sandbox.currencies import Rates

pytestmark = pytest.mark.sqlite_alone

D = Decimal
OpenDesk = Callable[..., Desk]
DAY = 86_400


def dest_rows(folder: Path, *amounts: str, most: str = "") -> Path:
    """A sheet of payments that fix what is received in EUR."""
    with data.path("beneficiaries.csv").open() as content:
        rows = list(csv.DictReader(content))
    [sample] = [row for row in rows if row["row_ref"] == "INV-105"]
    file = folder / "dest.csv"
    with file.open("w", newline="") as content:
        out = csv.DictWriter(content, [*sample, "max_pay_amount"] if "max_pay_amount" not in sample else list(sample))
        out.writeheader()
        for number, amount in enumerate(amounts):
            said = {"row_ref": f"r{number}", "receive_amount": amount, "max_pay_amount": most}
            out.writerow({**sample, **said, "duplicate_ok": "the same payee"})
    return file


def made(desk: Desk, file: Path, rules: Path | None = None) -> PayoutPlan:
    return make_plan(desk, PayRequest(file, "run", rules)).payments


def move_rates(monkeypatch: pytest.MonkeyPatch, share: str) -> None:
    """From now on the service's rates give less."""
    rate = Rates.rate
    monkeypatch.setattr(
        Rates, "rate", lambda self, *about: rate(self, *about) * D(share) if about[0] != about[1] else D(1)
    )


def test_debits_at_most_is_what_can_leave(open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path) -> None:
    sandbox = start_sandbox()
    desk = open_desk(sandbox.base_url)
    plan = made(desk, data.path("beneficiaries.csv"))
    assert plan.unbounded == {}
    pay(desk, data.path("beneficiaries.csv"), tmp_path / "out")
    debited: dict[str, D] = {}
    for order in sandbox.orders():
        if order["effects"]:
            debited[order["currency"]] = debited.get(order["currency"], D(0)) + D(str(order["amount"]))
    assert debited["USDT"] > 10_000
    assert debited.keys() == plan.debits.keys()
    for currency, total in debited.items():
        assert total <= plan.debits[currency] <= total * D("1.03")


def test_a_quote_above_its_ceiling_leaves_that_row_unsent_by_name(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox = start_sandbox()
    desk = open_desk(sandbox.base_url)
    file = dest_rows(tmp_path, "400", "5000")
    fixed = made(desk, file)
    monkeypatch.setattr(Rates, "fiat_fee", lambda self, pay, now: D(30))  # 0.6 % of the large one, 7 % of the small one
    summary = pay(desk, file, tmp_path / "out")
    assert summary["counts"] == {"settled": 1, "not_sent": 1}
    row = results(tmp_path / "out")["r0"]
    assert row["outcome"] == "not_sent"
    assert "more than 446.85" in row["reason"], row
    assert made(desk, file).sha256 == fixed.sha256


def test_a_fee_that_nobody_has_seen_leaves_no_small_row_behind(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    desk = open_desk(start_sandbox().base_url)
    summary = pay(desk, dest_rows(tmp_path, "20", "21"), tmp_path / "out")  # of which 1.25 USD is 6 %
    assert summary["counts"] == {"settled": 2}
    [seen] = {row.estimate for row in make_plan(desk, PayRequest(dest_rows(tmp_path, "20"), "next")).payments.rows}
    debited = min(D(row["debit"] if "debit" in row else row["amount"]) for row in results(tmp_path / "out").values())
    assert seen is not None
    assert debited < seen < debited * D("1.03")


def test_ceilings_are_fixed_when_the_plan_is_made_and_taken_by_later_starts(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = open_desk(start_sandbox().base_url)
    file = dest_rows(tmp_path, "400")
    adopt(desk)
    first = make_plan(desk, PayRequest(file, "run"))
    move_rates(monkeypatch, "0.9")
    again = make_plan(desk, PayRequest(file, "run"))
    assert (again.id, again.payments.debits) == (first.id, first.payments.debits)
    looked = make_plan(desk, PayRequest(file, "other"), keep=False)
    assert (looked.id, looked.payments.debits["USDT"] > first.payments.debits["USDT"]) == ("", True)
    clock_of(desk).move(2 * DAY)  # nobody was asked about it: it is planned afresh
    assert make_plan(desk, PayRequest(file, "run")).payments.debits["USDT"] > first.payments.debits["USDT"]


def test_an_approval_stays_good_while_rates_move(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = open_desk(start_sandbox().base_url)
    adopt(desk, payouts={"one_approval_above": {"USDT": "100"}})
    file = dest_rows(tmp_path, "400")
    plan = waits(desk, file)
    move_rates(monkeypatch, "0.99")
    clock_of(desk).move(2 * DAY)
    approve(desk, "ben")
    assert waiting_sha(desk, file) == plan.sha256
    assert pay(desk, file, tmp_path / "out")["counts"] == {"settled": 1}


def test_a_bound_that_ends_in_zero_is_the_same_plan_to_a_later_start(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    """A ceiling of 531.90 is kept as 531.9, and a sheet that was saved again says 900 instead of 900.00."""
    desk = open_desk(start_sandbox().base_url)
    adopt(desk, payouts={"one_approval_above": {"USDT": "100"}})
    amounts = [str(amount) for amount in range(400, 440)]
    file = dest_rows(tmp_path, *amounts, most="900.00")
    ceilings = [str(row.estimate) for row in make_plan(desk, PayRequest(file, "other"), keep=False).payments.rows]
    assert [each for each in ceilings if each.endswith("0")], ceilings
    plan = waits(desk, file)
    approve(desk, "ben")
    assert waiting_sha(desk, dest_rows(tmp_path, *amounts, most="900")) == plan.sha256
    bounded = [made(desk, dest_rows(tmp_path, "900", most=most)).sha256 for most in ("500", "500.00")]
    assert bounded[0] == bounded[1]


def test_a_rejection_stays_good_while_rates_move(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = open_desk(start_sandbox().base_url)
    adopt(desk, {}, payouts={"one_approval_above": {"USDT": "100"}})
    file = dest_rows(tmp_path, "400")
    waits(desk, file, maker=None)
    reject_plan(desk.ledger, "run", by="Ada Example", why="not ours", os_user="ada")
    move_rates(monkeypatch, "0.9")
    clock_of(desk).move(40 * DAY)
    with pytest.raises(PlanRejected):
        paying.propose(desk, paying.plan_of(desk, file, "run"))


def waiting_sha(desk: Desk, file: Path) -> str:
    return paying.plan_of(desk, file, "run").sha256


def test_the_ceiling_is_the_least_of_what_bounds_a_row(open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path) -> None:
    desk = open_desk(start_sandbox().base_url)
    [estimate] = [row.estimate for row in made(desk, dest_rows(tmp_path, "400")).rows]
    assert estimate is not None
    [wide] = [row.ceiling(None) for row in made(desk, dest_rows(tmp_path, "400", most="9000")).rows]
    [tight] = [row.ceiling(None) for row in made(desk, dest_rows(tmp_path, "400", most="300")).rows]
    assert (wide, tight) == (estimate, D(300))
    adopt(desk, {}, payouts={"estimate_margin_percent": "50"})
    [more] = [row.estimate for row in made(desk, dest_rows(tmp_path, "400")).rows]
    assert more is not None
    assert estimate * D("1.4") < more < estimate * D("1.5")
    adopt(desk, {}, payouts={"max_per_payout": {"USDT": "350"}})
    assert made(desk, dest_rows(tmp_path, "400")).debits == {"USDT": D(350)}


@pytest.mark.parametrize("rate", ["-0.9", "0", "nonsense"])
def test_a_rate_that_can_be_none_bounds_nothing(
    open_desk: OpenDesk, service: PlannedService, tmp_path: Path, rate: str
) -> None:
    service.plan("/v1/rate/queryTradeRate", (200, {"code": 200, "data": {"rate": rate}}))
    with pytest.raises(InvalidSheet) as raised:
        made(open_desk(service.base_url), dest_rows(tmp_path, "400"))
    assert [each.code for each in raised.value.problems] == ["unbounded"]


def test_a_row_that_nothing_bounds_is_refused_by_name(
    open_desk: OpenDesk, service: PlannedService, tmp_path: Path
) -> None:
    desk = open_desk(service.base_url)
    with pytest.raises(InvalidSheet) as raised:
        made(desk, dest_rows(tmp_path, "400", "500"))
    assert [(each.row_ref, each.column, each.code) for each in raised.value.problems] == [
        ("r0", "max_pay_amount", "unbounded"),
        ("r1", "max_pay_amount", "unbounded"),
    ]
    assert made(desk, dest_rows(tmp_path, "400", most="600")).debits == {"USDT": D(600)}


@pytest.mark.parametrize(("least", "outcome"), [({"USDT-EUR": "5"}, "not_sent"), ({"USDC-EUR": "5"}, "settled")])
def test_the_lowest_rate_of_an_asset_is_that_of_its_networks(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path, least: dict[str, str], outcome: str
) -> None:
    """A sheet that says USDT_TRC20 was paid at any rate."""
    sandbox = start_sandbox()
    desk = open_desk(sandbox.base_url)
    own = {"USDT_TRC20-EUR": "0.1"} if outcome == "settled" else {}
    judged.adopt(desk, payouts={"max_per_payout": {"USDT_TRC20": "1000"}, "min_rates": least | own})
    file = dest_rows(tmp_path, "400")
    file.write_text(file.read_text().replace(",USDT,", ",USDT_TRC20,"))
    assert judged.start(desk, file, "run") == {"r0": outcome}
    assert any(each["effects"] for each in sandbox.orders()) == (outcome == "settled")


@pytest.mark.parametrize(
    ("limits", "said"),
    [({"max_per_payout": {"USDT": "300"}}, "more than 300"), ({"min_rates": {"USDT-EUR": "5"}}, "less than 5")],
)
def test_a_quote_keeps_to_the_bounds_of_the_policy_in_force_when_it_is_confirmed(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path, limits: dict[str, Any], said: str
) -> None:
    sandbox = start_sandbox()
    desk = open_desk(sandbox.base_url)
    judged.adopt(desk, payouts={"max_per_payout": {"USDT": "1000"}})
    file = dest_rows(tmp_path, "400")
    paying.commit(desk, file, "run")
    judged.adopt(desk, payouts=limits)
    assert judged.start(desk, file, "run") == {"r0": "not_sent"}
    [order] = desk.ledger.orders()
    assert said in str(order.reason)
    assert not any(each["effects"] for each in sandbox.orders())
    judged.adopt(desk, payouts={"max_per_payout": {"USDT": "1000"}})
    desk.submission.begin_start()
    assert judged.start(desk, file, "run") == {"r0": "settled"}
