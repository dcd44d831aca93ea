"""The balance accounts over nights in a row, on both databases: openings, lots, statements, pay-ins, months."""

import csv
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest

from flows.commands.prefect_server import free_port
from tests.crash.payments import make_kind
from tests.engine import paying
from tests.engine.answers import ABSENT, accepted, ok, refused, shown
from tests.engine.nights import DAY, ROWS, OpenDesk, balance, classes, month_of, take
from tests.engine.rounds import policy
from tests.engine.runs import night, pay, sheet
from tests.moved_clock import clock_of
from treasury.call import calls
from treasury.errors import InputError, NotConnected, OutcomeUnknown, Refused
from treasury.ledger.kept_breaks import accept_break
from treasury.ledger.policies import adopt_policy
from treasury.ledger.snapshots import expected_receipts
from treasury.money import canonical
from treasury.nights.month_reports import report_month
from treasury.nights.standing import standing_of
from treasury.pay.remaining import write_failed_of
from treasury.payments.desk import Desk
from treasury.policy.model import Policy
from treasury.policy_file import read_policy
from treasury.provider.orders import Pay
from treasury.provider.service_rules import ServiceRules
from treasury.reconciliation.scope import Scope
from treasury.sandbox.behaviour import Behaviour

TAIL = "[payouts]\nduplicate_days = 0\n"


def test_an_opening_is_a_warning_until_a_person_accepts_it_and_names_what_was_open(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    desk = open_desk(start_sandbox(settle_seconds=3600).base_url)
    pay(desk, sheet(tmp_path, ROWS[0]), tmp_path / "out", seconds=0)
    [order] = desk.ledger.orders()
    for number, lifecycle in enumerate(("new", "persisting"), 1):
        report = night(desk, tmp_path / f"{number}", accepts=False)
        [found] = report["breaks"]
        assert (report["verdict"], found["class"], found["lifecycle"]) == ("warnings", "opening", lifecycle)
        assert f"{balance(report)['opening']} USDT_TRC20" in found["evidence"]
        assert order.request_id in found["evidence"]
        clock_of(desk).move(DAY)
    accept_break(desk.ledger, found["id"], by="Ana", os_user="ana", why="as the service's page shows it")
    ended, after = (night(desk, tmp_path / f"{number}", accepts=False) for number in (3, 4))
    assert [each["lifecycle"] for each in ended["breaks"]] == ["resolved"]
    assert (after["verdict"], after["breaks"]) == ("reconciled", [])


def test_money_that_left_by_another_way_is_a_balance_gap_until_a_person_accepts_it(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(settle_seconds=1)
    desk = open_desk(sandbox.base_url)
    pay(desk, sheet(tmp_path, ROWS[0]), tmp_path / "out", seconds=20)
    assert night(desk, tmp_path / "1")["verdict"] == "reconciled"
    take(desk, "by-hand", "25")
    second = night(desk, tmp_path / "2")
    assert (second["verdict"], classes(second)) == ("breaks", {"USDT_TRC20": "balance_gap new"})
    assert balance(second)["unexplained"] == "-25"
    clock_of(desk).move(DAY)
    sandbox.deposit("USDT_TRC20", "30")
    third = night(desk, tmp_path / "3")
    assert (third["verdict"], balance(third)["unexplained"]) == ("breaks", "5")
    lots = {(each["class"], each["lifecycle"], each["amount"]): each["id"] for each in third["breaks"]}
    assert lots.keys() == {("balance_gap", "persisting", "25"), ("unexplained_inflow", "new", "30")}
    for id in lots.values():
        accept_break(desk.ledger, id, by="Ana", os_user="ana", why="known")
    fourth = night(desk, tmp_path / "4")
    assert (fourth["verdict"], balance(fourth)["unexplained"], balance(fourth)["adjusted"]) == ("reconciled", "0", "5")
    take(desk, "again", "25")
    assert balance(night(desk, tmp_path / "5"))["unexplained"] == "-25"


def test_a_narrowed_report_between_two_whole_ones_changes_nothing(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(settle_seconds=1)
    desk = open_desk(sandbox.base_url)
    pay(desk, sheet(tmp_path, ROWS[0]), tmp_path / "out", seconds=20)
    night(desk, tmp_path / "1")
    take(desk, "by-hand", "300")
    for number, scope in enumerate((Scope(currency="USDT_TRC20"), Scope(window_days=1), Scope(run_key="run"))):
        narrowed = night(desk, tmp_path / f"narrowed-{number}", scope)
        assert (narrowed["balances"], narrowed["breaks"]) == ([], [])
    whole = night(desk, tmp_path / "2")
    assert (whole["verdict"], balance(whole)["unexplained"]) == ("breaks", "-300")


def test_a_payment_that_came_back_stays_open_until_a_person_accepts_it_and_is_an_entry(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(settle_seconds=1, faults={"flip_final": 1.0}, flip_seconds=3600)
    desk = open_desk(sandbox.base_url)
    pay(desk, sheet(tmp_path, ROWS[0]), tmp_path / "out", seconds=20)
    assert night(desk, tmp_path / "1")["verdict"] == "reconciled"
    clock_of(desk).move(DAY)
    lives = []
    for number in range(2, 4):
        report = night(desk, tmp_path / f"{number}")
        lives.append((report["verdict"], classes(report)["a"]))
        assert (balance(report)["change"], balance(report)["unexplained"]) == ("10", "0")
        clock_of(desk).move(DAY)
    assert lives == [("breaks", "reversed_after_final new"), ("breaks", "reversed_after_final persisting")]
    with pytest.raises(InputError, match=r"came back .* copy a \(replaces tf-.*in the column replaces"):
        write_failed_of(desk, "run", "again", tmp_path / "again")
    paying.write(desk, "run", tmp_path / "out")
    assert "copy its other columns" in (tmp_path / "out" / "remaining.csv").read_text()
    [found] = report["breaks"]
    accept_break(desk.ledger, found["id"], by="Ana", os_user="ana", why="paid again by hand")
    fourth = night(desk, tmp_path / "4")
    assert (fourth["verdict"], classes(fourth)) == ("reconciled", {"a": "reversed_after_final resolved"})
    assert classes(night(desk, tmp_path / "5")) == {}


def test_a_currency_that_only_the_policy_names_is_watched(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances={"USDT": Decimal(500), "BTC": Decimal(1)})
    desk, rules = open_desk(sandbox.base_url), policy(tmp_path, tail=TAIL, BTC=("0.2", "0.4", "0.6"))
    adopt_policy(desk.ledger, read_policy(rules), "policy.toml", by="Owner", os_user="owner")
    assert balance(night(desk, tmp_path / "1"), "BTC")["judgement"] == "first"
    clock_of(desk).move(DAY)
    sandbox.deposit("BTC", "2")
    report = night(desk, tmp_path / "2")
    assert (report["verdict"], classes(report)) == ("warnings", {"BTC": "unexplained_inflow new"})


@pytest.mark.parametrize("is_frozen", [True, False])
def test_an_order_in_progress_hides_its_amount_once_unless_it_is_known_to_be_frozen(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_frozen: bool
) -> None:
    if not is_frozen:
        monkeypatch.setattr("treasury.sandbox.handlers.funds.FROZEN", "reserved")
    sandbox = start_sandbox(settle_seconds=1)
    desk = open_desk(sandbox.base_url)
    night(desk, tmp_path / "0")
    pay(desk, sheet(tmp_path, ROWS[0]), tmp_path / "first", seconds=20, run_key="first")
    night(desk, tmp_path / "1")
    pay(desk, sheet(tmp_path, ("c", "2000", "12345670022")), tmp_path / "out", seconds=0)
    unexplained = []
    for number in range(3):
        take(desk, f"x{number}", "900")
        sandbox.advance(60)
        shown = balance(night(desk, tmp_path / f"{number + 2}"))
        unexplained.append(shown["unexplained"])
        why = "not provable: between 0 and 2000, because of 1 open order, the oldest for "
        why += f"{number + 1} day{'s' if number else ''}"
        assert shown["note"] == ("" if is_frozen else why)
    assert unexplained == (["-900", "-1800", "-2700"] if is_frozen else ["0", "0", "-700"])


def test_a_balance_that_was_read_before_and_is_refused_makes_the_night_incomplete_and_its_account_goes_on(
    open_desk: OpenDesk, service: Any, tmp_path: Path
) -> None:
    service.plans |= {"/v1/order/payout": [accepted], "/v1/balance/partner": [refused(500)]}
    desk = open_desk(service.base_url)
    pay(desk, sheet(tmp_path, ROWS[0]), tmp_path / "out", seconds=0)
    service.plans["/v1/order/query"] = [shown(99, currency="USDT_TRC20")]
    never = night(desk, tmp_path / "0")
    assert (never["verdict"], balance(never)["judgement"], never["breaks"]) == ("reconciled", "unreadable", [])
    verdicts = []
    for number, answer in enumerate((ok(balance="100"), refused(500), ok(balance="95"), refused(500))):
        service.plans["/v1/balance/partner"] = [answer]
        clock_of(desk).move(DAY)
        report = night(desk, tmp_path / f"{number + 1}")
        verdicts.append((report["verdict"], balance(report)["unexplained"]))
    assert verdicts == [("reconciled", "0"), ("incomplete", "0"), ("breaks", "-5"), ("incomplete", "-5")]


@pytest.mark.both_databases
def test_a_report_that_could_not_read_a_balance_waits_for_a_person_until_one_can(
    open_desk: OpenDesk, service: Any, tmp_path: Path
) -> None:
    service.plans |= {"/v1/order/payout": [accepted], "/v1/balance/partner": [refused(7002)]}
    desk = open_desk(service.base_url)
    pay(desk, sheet(tmp_path, ROWS[0]), tmp_path / "out", seconds=0)
    service.plans["/v1/order/query"] = [shown(99, currency="USDT_TRC20")]
    said = []
    for number, answer in enumerate((refused(7002), ok(balance="100"), refused(7002), ok(balance="100"))):
        service.plans["/v1/balance/partner"] = [answer]
        clock_of(desk).move(DAY)
        verdict = night(desk, tmp_path / f"{number}")["verdict"]
        said.append((verdict, [each for each in standing_of(desk)["needs"] if "is incomplete" in each]))
    need = "the last report is incomplete: a balance was not read, or sums differ: USDT_TRC20: treasury reconcile"
    waits = ("incomplete", [f"{need}; if it stays, ask the service"])
    assert said == [("reconciled", []), ("reconciled", []), waits, ("reconciled", [])]


def test_a_balance_that_moves_while_it_is_read_is_read_again(open_desk: OpenDesk, service: Any, tmp_path: Path) -> None:
    service.plans |= {"/v1/order/payout": [accepted], "/v1/balance/partner": [ok(balance="100")]}
    desk = open_desk(service.base_url)
    pay(desk, sheet(tmp_path, ROWS[0]), tmp_path / "out", seconds=0)
    service.plans["/v1/order/query"] = [shown(99, currency="USDT_TRC20")]
    night(desk, tmp_path / "1")
    clock_of(desk).move(DAY)
    service.plans["/v1/balance/partner"] = [ok(balance="98"), ok(balance="95"), ok(balance="95")]
    moved = night(desk, tmp_path / "2")
    assert (balance(moved)["unexplained"], balance(moved)["note"]) == ("-5", "")


def test_a_payment_by_a_scanned_code_is_an_entry_of_the_account(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(settle_seconds=1)
    desk = open_desk(sandbox.base_url)
    pay(desk, sheet(tmp_path, ROWS[0]), tmp_path / "out", seconds=20)
    night(desk, tmp_path / "1")
    make_kind("scan_to_pay").start(desk, tmp_path)
    sandbox.advance(60)
    second, third = night(desk, tmp_path / "2"), night(desk, tmp_path / "3")
    for report in (second, third):
        assert (report["verdict"], classes(report)) == ("reconciled", {}), report["breaks"]
    scanned = [each for each in sandbox.orders() if each["operation"] == "submit_scan_to_pay"]
    [line] = (each for each in second["statement"] if each["currency"] == "USDT")
    amount, fee = (canonical(sum((Decimal(str(each[it])) for each in scanned), Decimal(0))) for it in ("amount", "fee"))
    said = (line["sent"], line["arrived"], line["fees_beside"], line["residual"])
    assert said == (amount, amount, fee, "0")
    [fees] = (each for each in second["fees"] if each["currency"] == "USDT")
    assert (fees["amount"], fees["fees"]) == (amount, fee)
    assert not [each for each in third["statement"] if each["currency"] == "USDT" and each["sent"] != "0"]


def test_a_month_is_made_of_the_entries_and_months_add_up(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(settle_seconds=1)
    desk = open_desk(sandbox.base_url)
    clock_of(desk).move((42 - int(Policy().day_of(desk.ledger.now())[8:])) * DAY)  # so that no month ends meanwhile
    with pytest.raises(InputError, match="no stored answers"):
        report_month(desk, "2026-11", tmp_path, Policy())
    pay(desk, sheet(tmp_path, ROWS[0]), tmp_path / "out", seconds=20)
    opening = balance(night(desk, tmp_path / "1"))["opening"]
    pay(desk, sheet(tmp_path, ("x", "10", "12345670005"), name="x.csv"), tmp_path / "x", "second", seconds=20)
    take(desk, "by-hand", "25")
    second = night(desk, tmp_path / "2")
    [gap] = second["breaks"]
    accept_break(desk.ledger, gap["id"], by="Ana", os_user="ana", why="the other office")
    today = Policy().day_of(desk.ledger.now())[:7]
    found = month_of(desk, tmp_path / "month", today)
    expected = {"paid": "-9.9", "fees": "-0.1", "adjustments": "-25", "closing": str(Decimal(opening) - 35)}
    assert found == {"currency": "USDT_TRC20", "opening": opening, "shown": found["closing"], **expected}
    assert month_of(desk, tmp_path / "month", today) == found
    counted = report_month(desk, today, tmp_path / "month", Policy())["controls"]
    assert (counted["differences accepted"], counted["payments held"]) == (2, 0)  # the openings, and the gap
    assert "How often each control acted" in (tmp_path / "month" / "month.html").read_text()
    rows = list(csv.DictReader((tmp_path / "month" / "entries.csv").read_text().splitlines()))
    assert [(row["kind"], row["amount"]) for row in rows] == [
        ("fees", "-0.1"),
        ("paid", "-9.9"),
        ("adjustments", "-25"),
    ]
    assert len({row["id"] for row in rows}) == 3
    clock_of(desk).move(40 * DAY)
    night(desk, tmp_path / "3")
    later = month_of(desk, tmp_path / "later", Policy().day_of(desk.ledger.now())[:7])
    assert later["opening"] == later["closing"] == found["closing"]
    for wrong in ("2026-13", "november", "2026-11-01", "2026-1", "9999-12", "２０２６-11"):
        with pytest.raises(InputError, match="--month is a year and a month"):
            report_month(desk, wrong, tmp_path, Policy())
    with pytest.raises(InputError, match="--month 9998-12 has not begun in UTC"):
        report_month(desk, "9998-12", tmp_path, Policy())


def test_a_pay_in_of_ours_is_expected_and_no_unexplained_inflow(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(settle_seconds=1)
    desk = open_desk(sandbox.base_url)
    clock_of(desk).move((42 - int(Policy().day_of(desk.ledger.now())[8:])) * DAY)  # so that no month ends meanwhile
    fields = {"payment_method": "on_line", "currency": "USDT_TRC20", "product_name": "p", "customer_ref_id": "c"}
    asked = [Pay(request_id=f"in-{number}", amount=str(number), **fields) for number in (600, 7)]
    pages = [calls.send_operation(desk, each)["data"]["checkout_url"] for each in asked]
    opening = balance(night(desk, tmp_path / "1"))["opening"]
    assert httpx.post(f"{pages[0]}/pay").status_code == 303
    clock_of(desk).move(DAY - 3600)  # so that the other one may still be paid
    second = night(desk, tmp_path / "2")
    assert (second["verdict"], second["breaks"], balance(second)["change"]) == ("reconciled", [], "594")
    clock_of(desk).move(DAY)
    sandbox.deposit("USDT_TRC20", "5")
    third = night(desk, tmp_path / "3")
    named = sorted(each["class"] for each in third["breaks"])
    assert (named, balance(third)["unexplained"]) == (["unexplained_inflow", "unpaid_invoice"], "5")
    found = month_of(desk, tmp_path / "month", Policy().day_of(desk.ledger.now())[:7])
    assert (found["opening"], found["received"]) == (opening, "594")


def test_a_pay_in_that_the_service_does_not_know_is_a_break(open_desk: OpenDesk, service: Any, tmp_path: Path) -> None:
    service.plans |= {"/v1/order/pay": ["drop"], "/v1/order/query": [ABSENT], "/v1/balance/partner": [ok(balance="1")]}
    desk = open_desk(service.base_url)
    fields = {"payment_method": "on_line", "currency": "USDT_TRC20", "product_name": "p", "customer_ref_id": "c"}
    with pytest.raises(OutcomeUnknown):
        calls.send_operation(desk, Pay(request_id="in-1", amount="600", **fields))
    report = night(desk, tmp_path / "1")
    [found] = report["breaks"]
    assert (found["class"], found["request_id"], found["amount"]) == ("missing_at_service", "in-1", "600")


def test_a_changed_setting_of_fees_corrects_the_account_since_its_opening(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(settle_seconds=1, behaviour=Behaviour(fee_on_top={"payout"}))
    desk = open_desk(sandbox.base_url)
    pay(desk, sheet(tmp_path, ROWS[0]), tmp_path / "before", "before", seconds=20)
    night(desk, tmp_path / "0")
    clock_of(desk).move(DAY)
    for number in (1, 2):
        row = ("a", "10", f"1234567000{number + 4}")
        pay(desk, sheet(tmp_path, row), tmp_path / f"out{number}", f"run{number}", seconds=20)
        clock_of(desk).move(DAY)
        report = night(desk, tmp_path / f"{number}")
        assert balance(report)["unexplained"] == f"-0.{number}"
    assert "see fee_on_top" in report["breaks"][0]["evidence"]
    exported = _entries(desk, tmp_path / "m1")
    believing = open_desk(sandbox.base_url, service=ServiceRules(fee_on_top=frozenset({"payout"})))
    assert _entries(believing, tmp_path / "m2") == exported
    clock_of(desk).move(DAY)
    corrected = night(believing, tmp_path / "3")
    later = _entries(believing, tmp_path / "m3")
    assert {name: later[name] for name in exported} == exported
    assert sorted(later[name] for name in later.keys() - exported.keys()) == ["-0.1", "-0.1"]
    assert balance(corrected)["unexplained"] == "0"
    assert {each["lifecycle"] for each in corrected["breaks"]} == {"resolved"}
    clock_of(desk).move(DAY)
    assert balance(night(believing, tmp_path / "4"))["unexplained"] == "0"
    back = night(desk, tmp_path / "5")
    assert balance(back)["unexplained"] == "-0.2"


def _entries(desk: Desk, out: Path) -> dict[str, str]:
    """The entries of this month for the books: id -> amount."""
    month = f"{clock_of(desk).now():%Y-%m}"
    report_month(desk, month, out, Policy())
    with (out / "entries.csv").open(newline="") as file:
        return {row["id"]: row["amount"] for row in csv.DictReader(file)}


def test_an_order_that_is_open_since_before_the_opening_widens_the_range_once(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("treasury.sandbox.handlers.funds.FROZEN", "reserved")
    sandbox = start_sandbox(settle_seconds=1)
    desk = open_desk(sandbox.base_url)
    pay(desk, sheet(tmp_path, ("c", "2000", "12345670022")), tmp_path / "out", seconds=0)
    clock_of(desk).move(60)
    night(desk, tmp_path / "1")
    clock_of(desk).move(DAY)
    shown = balance(night(desk, tmp_path / "2"))
    assert (shown["explained_low"], shown["explained_high"]) == ("-2000", "0")
    sandbox.deposit("USDT_TRC20", "5")
    assert balance(night(desk, tmp_path / "3"))["unexplained"] == "5"


@pytest.mark.parametrize("reaches", [True, False])
def test_a_pay_in_that_never_left_or_was_refused_for_good_is_expected_no_more(
    reaches: bool, open_desk: OpenDesk, service: Any, tmp_path: Path
) -> None:
    fields = {"payment_method": "on_line", "currency": "USDT_TRC20", "product_name": "p", "customer_ref_id": "c"}
    asked = Pay(request_id="in-1", amount="600", **fields)
    desk = open_desk(service.base_url if reaches else f"http://127.0.0.1:{free_port()}")
    service.plans["/v1/order/pay"] = [refused("2204002"), "drop", refused("2204002")]
    with pytest.raises(Refused if reaches else NotConnected):
        calls.send_operation(desk, asked)
    assert expected_receipts(desk.ledger) == {}
    if reaches:  # one that was expected before stays so
        for error in (OutcomeUnknown, Refused):
            with pytest.raises(error):
                calls.send_operation(desk, asked)
        assert expected_receipts(desk.ledger).keys() == {"in-1"}
