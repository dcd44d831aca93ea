"""`treasury collect`: invoices by all three methods, made once each, and what their customers paid."""

import json
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

import data
from tests.commands.office import Ended, Office, read_rows
from tests.commands.proxy import Answer, Proxy, running_proxy, with_data
from treasury.collect.collecting import collect_and_write
from treasury.collect.invoice_answers import outcome_of
from treasury.errors import InputError
from treasury.provider.catalogue import CATALOGUE
from treasury.provider.operation import SeenOrder
from treasury.provider.status import OrderStatus
from treasury.sandbox import RunningSandbox

pytestmark = pytest.mark.prefect

D = Decimal

HEAD = "row_ref,payment_method,amount,currency,product_name,customer_ref_id,payment_channel,payment_type\n"
THREE = (
    HEAD + "i-1,on_line,120,USDT,Consulting,ann,,\ni-2,on_chain,75.50,USDT_TRC20,Hosting,bo,,\n"
    "i-3,direct,200000,IDR,Support,cy,qris,qrcode\n"
)


@pytest.fixture
def sandbox(open_sandbox: Callable[..., RunningSandbox]) -> RunningSandbox:
    return open_sandbox()


@pytest.fixture
def office(sandbox: RunningSandbox, open_office: Callable[..., Office]) -> Office:
    return open_office(sandbox.base_url)


def collect(office: Office, text: str, *more: str, key: str = "invoices") -> Ended:
    return office.run("collect", office.file("invoices.csv", text), "--run-key", key, *more)


def outcomes(office: Office, key: str = "invoices") -> dict[str, str]:
    return {ref: row["outcome"] for ref, row in office.results(key).items()}


def test_each_is_made_once_and_says_how_its_customer_pays(office: Office, sandbox: RunningSandbox) -> None:
    first = collect(office, THREE)
    assert (first.code, first.last) == (0, "3 waiting"), first.out + first.err
    rows = office.results("invoices")
    assert rows["i-1"]["link"].startswith("http")
    assert rows["i-2"]["address"].startswith("T")
    assert rows["i-3"]["link"].startswith("http")
    for row in rows.values():
        assert (office.home / "runs" / "invoices" / row["qr"]).read_text().startswith("<svg")
        assert row["expires_at"].endswith("Z")
    again = collect(office, THREE)
    assert (again.code, again.last) == (0, "3 waiting")
    assert office.results("invoices") == rows
    assert len(sandbox.orders()) == 3


def test_an_invoice_ends_by_the_days_of_the_policy_as_in_the_morning_report(office: Office) -> None:
    collect(office, THREE)
    one_day = {ref: datetime.fromisoformat(row["expires_at"]) for ref, row in office.results("invoices").items()}
    policy = office.file("policy.toml", '[payouts.max_per_run]\nUSDT = "1"\n[reconciliation]\ninvoice_days = 30\n')
    assert office.run("policy", "adopt", policy, "--by", "Ada Example").code == 0
    assert collect(office, THREE).code == 0
    for ref, row in office.results("invoices").items():
        assert datetime.fromisoformat(row["expires_at"]) - one_day[ref] == timedelta(days=29)


def test_what_was_paid_is_said_and_what_was_not_can_be_asked_for_again(office: Office, sandbox: RunningSandbox) -> None:
    text = HEAD + "".join(f"{name},on_line,100,USDT_TRC20,Consulting,ann,,\n" for name in ("a", "b", "c", "d"))
    collect(office, text)
    ids = {ref: row["request_id"] for ref, row in office.results("invoices").items()}
    for ref, amount in (("a", None), ("b", "99"), ("c", "100.5")):
        sandbox.pay_invoice(ids[ref], amount)
    sandbox.advance(86_401)
    done = collect(office, text)
    assert (done.code, done.last) == (4, "1 expired, 1 overpaid, 1 paid, 1 underpaid"), done.out + done.err
    rows = office.results("invoices")
    assert outcomes(office) == {"a": "paid", "b": "underpaid", "c": "overpaid", "d": "expired"}
    assert [rows[ref]["paid"] for ref in "abcd"] == ["100", "99", "100.5", ""]
    assert (rows["b"]["fee"], rows["b"]["credited"]) == ("0.99", "98.01")  # public fact 7.4
    office.run("reconcile", "--out", office.home / "night")
    report = json.loads((office.home / "night" / "reconciliation.json").read_text())
    named = {each["request_id"]: each["difference"] for each in report["breaks"] if each["class"] == "paid_otherwise"}
    assert named == {ids["b"]: "1", ids["c"]: "-0.5"}
    remaining = office.home / "runs" / "invoices" / "remaining.csv"
    assert list(read_rows(remaining)) == ["d"]
    more = office.run("collect", remaining, "--run-key", "again")
    assert (more.code, more.last) == (0, "1 waiting"), more.out + more.err


def test_what_is_paid_is_an_entry_of_its_account(office: Office, sandbox: RunningSandbox) -> None:
    """Neither the payment, nor an invoice that nobody paid yet, leaves anything unexplained."""
    collect(office, HEAD + "a,on_line,600,USDT_TRC20,Consulting,ann,,\nb,on_line,50,USDT_TRC20,Consulting,bo,,\n")
    office.run("reconcile")
    sandbox.pay_invoice(office.results("invoices")["a"]["request_id"])
    office.run("reconcile")
    [night] = sorted((office.home / "nights").glob("*/reconciliation.json"))[-1:]
    standing = [each["class"] for each in json.loads(night.read_text())["breaks"] if each["lifecycle"] != "resolved"]
    assert standing == ["opening"]


def test_what_a_customer_pays_in_another_currency_is_said_and_watched_from_then_on(
    sandbox: RunningSandbox, open_office: Callable[..., Office]
) -> None:
    """Nothing else is in that currency: no payment, no policy, no statement."""
    with running_proxy(sandbox.base_url) as proxy:
        office = open_office(proxy.base_url)
        text = HEAD.replace("payment_channel,payment_type", "pay_currency") + "a,on_line,49.90,EUR,Plan,cy,DOGE\n"
        collect(office, text)
        office.run("reconcile")
        [row] = office.results("invoices").values()
        sandbox.deposit("DOGE", "495")
        in_doge = {"currency": "DOGE", "order_amount": "500", "fee_amount": "5", "arrive_amount": "495"}
        proxy.planted = {row["request_id"]: with_data(**in_doge, status=99)}
        assert collect(office, text).last == "1 paid"
        reason = "the service shows 495 DOGE, which is not compared with the invoice"
        assert office.results("invoices")["a"]["reason"] == reason
        assert office.run("reconcile").last == "warnings: 2 opening"
        other = {"request_id": "by-hand", "currency": "DOGE", "amount": "400", "customer_ref_id": "c"}
        with closing(office.desk()) as desk:
            desk.client.send(CATALOGUE["withdraw"](**other, address="D" + "e" * 33))
        ended = office.run("reconcile")
        assert (ended.code, ended.last) == (5, "breaks: 1 balance_gap, 2 opening")


def test_a_dry_run_says_what_would_be_made_and_makes_nothing(office: Office, sandbox: RunningSandbox) -> None:
    dry = collect(office, THREE, "--dry-run")
    assert (dry.code, dry.last, sandbox.orders()) == (0, "3 would be made; nothing was sent", []), dry.err
    assert "i-2: 75.5 USDT_TRC20 by on_chain: would be made" in dry.out
    assert office.run("pay", office.sheet(("a", "12", "12345670009")), "--run-key", "invoices", "--dry-run").code == 0
    collect(office, THREE)
    again = collect(office, THREE + "i-4,on_line,1,USDT,More,dee,,\n", "--dry-run")
    assert (again.last, "i-1: 120 USDT by on_line: was made before" in again.out) == (
        "1 would be made; nothing was sent",
        True,
    )
    changed = collect(office, THREE.replace("75.50", "75.51"), "--dry-run")
    assert (changed.code, "rows i-2 differ" in changed.err) == (2, True)


def test_its_invoices_are_shown_by_run_key_row_and_id(office: Office) -> None:
    collect(office, THREE)
    shown = office.run("show", "invoices")
    assert (shown.code, len(shown.out.splitlines())) == (0, 4), shown.out + shown.err
    assert shown.last == "what was paid: treasury collect FILE --run-key invoices, or the morning report"
    name = office.results("invoices")["i-2"]["request_id"]
    for reference in ("i-2", name):
        assert f"invoice i-2  {name}  75.5 USDT_TRC20  known since" in office.run("show", reference).out
    assert office.run("show", "i-9").code == 2


def test_it_follows_until_nobody_is_waited_for(office: Office, sandbox: RunningSandbox) -> None:
    text = HEAD + "a,on_line,100,USDT_TRC20,Consulting,ann,,\n"
    collect(office, text)
    sandbox.pay_invoice(office.results("invoices")["a"]["request_id"])
    done = collect(office, text, "--follow", "60")
    assert (done.code, done.last) == (0, "1 paid")


def test_a_row_that_changed_is_refused_before_anything_is_made(office: Office, sandbox: RunningSandbox) -> None:
    collect(office, THREE)
    changed = collect(office, THREE.replace("75.50", "75.51") + "i-4,on_line,1,USDT,More,dee,,\n")
    assert changed.code == 2
    assert "rows i-2 differ" in changed.err
    assert len(sandbox.orders()) == 3


def test_an_answer_that_was_lost_makes_no_second_invoice(
    open_sandbox: Callable[..., RunningSandbox], open_office: Callable[..., Office]
) -> None:
    sandbox = open_sandbox(faults={"drop_after": 1.0})
    office = open_office(sandbox.base_url)
    text = HEAD + "a,on_line,100,USDT_TRC20,Consulting,ann,,\n"
    for _ in range(2):
        assert collect(office, text).last == "1 unknown"
    assert len(sandbox.orders()) == 1
    assert "link" in office.results("invoices")["a"]["reason"]


def test_an_invoice_that_is_shown_a_little_later_waits(
    open_sandbox: Callable[..., RunningSandbox], open_office: Callable[..., Office]
) -> None:
    """Its link was answered: it was `unknown`, without a QR code, until the service's query knew it, too."""
    sandbox = open_sandbox(faults={"read_lag": 1.0}, read_lag_seconds=3_600.0)
    office = open_office(sandbox.base_url)
    text = HEAD + "a,on_line,100,USDT_TRC20,Consulting,ann,,\n"
    done = collect(office, text)
    [row] = office.results("invoices").values()
    assert (done.code, done.last, row["reason"]) == (0, "1 waiting", "the service does not show it yet"), done.out
    assert (row["link"].startswith("http"), row["qr"] != "") == (True, True)
    later = office.run(
        "collect", office.home / "invoices.csv", "--run-key", "invoices", TREASURY_RESEND_AFTER_SECONDS="0"
    )
    assert (later.code, later.last) == (4, "1 unknown"), later.out + later.err
    assert len(sandbox.orders()) == 1


def test_a_ledger_that_was_lost_makes_no_invoice_twice(
    open_sandbox: Callable[..., RunningSandbox], open_office: Callable[..., Office]
) -> None:
    """The service acts again on a repeated reference: it is asked first, and what was paid meanwhile is said."""
    sandbox = open_sandbox(faults={"repeat_acts": 1.0})
    first, other = open_office(sandbox.base_url), open_office(sandbox.base_url)
    text = HEAD + "a,on_line,100,USDT_TRC20,Consulting,ann,,\nb,on_line,50,USDT_TRC20,Consulting,bo,,\n"
    assert collect(first, text).last == "2 waiting"
    sandbox.pay_invoice(first.results("invoices")["a"]["request_id"])
    for _ in range(2):
        done = collect(other, text + "c,on_line,70,USDT_TRC20,Consulting,cy,,\n")
        assert done.last == "1 paid, 1 unknown, 1 waiting", done.out + done.err
    unpaid = other.results("invoices")["b"]
    assert "link" in unpaid["reason"]
    assert "portal" in unpaid["next_action"], "asking again tells no link, however often"
    assert sorted(order["effects"] for order in sandbox.orders()) == [0, 0, 1]
    assert other.run("reconcile").last.startswith("warnings"), "it is expected from then on"


def test_an_invoice_that_the_service_has_with_another_amount_is_held_and_named(
    sandbox: RunningSandbox, open_office: Callable[..., Office]
) -> None:
    """Its ledger was lost, and its row changed meanwhile: the run key and the row name the same invoice."""
    text = HEAD + "a,on_line,100,USDT_TRC20,Consulting,ann,,\nb,on_line,50,USDT,Consulting,bo,,\n"
    first, other = open_office(sandbox.base_url), open_office(sandbox.base_url)
    assert collect(first, text).last == "2 waiting"
    changed = text.replace("100,USDT_TRC20", "80,USDT_TRC20").replace("50,USDT,", "50,USDT_TRC20,")
    for _ in range(2):
        done = collect(other, changed)
        assert (done.code, done.last) == (4, "2 held"), done.out + done.err
    rows = other.results("invoices")
    assert "the service has it over 100 USDT_TRC20, and this row says 80 USDT_TRC20" in rows["a"]["reason"]
    assert "the service has it over 50 USDT, and" in rows["b"]["reason"]
    assert "another run key" in rows["a"]["next_action"]
    assert len(sandbox.orders()) == 2
    assert other.run("reconcile").last.startswith("warnings"), "it is expected as the service has it"
    mended = collect(other, text)
    assert (mended.last, "link" in other.results("invoices")["a"]["reason"]) == ("2 unknown", True), mended.err


@pytest.mark.parametrize(
    ("changed", "outcome", "said"),
    [
        ({"order_amount": "1"}, "held", "the service has it over 1 USDT_TRC20, and this row says 75.5 USDT_TRC20"),
        ({"currency": "ETH"}, "held", "the service has it over 75.5 ETH"),
        ({"request_id": "other"}, "unknown", "link"),
        ({"receive_address": ""}, "unknown", "link"),
        ({"receive_address": "null"}, "unknown", "link"),
    ],
)
def test_how_another_invoice_is_paid_is_told_to_nobody(
    sandbox: RunningSandbox,
    open_office: Callable[..., Office],
    changed: dict[str, str],
    outcome: str,
    said: str,
) -> None:
    """Its customer would pay another amount, or somebody else's invoice."""

    class Other(Proxy):
        def answer(self, path: str, body: bytes) -> Answer:
            found = super().answer(path, body)
            return with_data(**changed)(found) if path == "/v1/order/pay" else found

    proxy = Other(sandbox.base_url)
    try:
        office = open_office(proxy.base_url)
        text = HEAD + "i-2,on_chain,75.50,USDT_TRC20,Hosting,bo,,\n"
        done = collect(office, text)
        [row] = office.results("invoices").values()
        assert (done.code, row["outcome"], row["link"], row["address"], row["qr"]) == (4, outcome, "", "", ""), row
        assert said in row["reason"]
        again = collect(office, text)
        [row] = office.results("invoices").values()
        assert (again.code, row["address"], "its link was never answered" in row["reason"]) == (4, "", True), row
        assert row["next_action"].startswith("take its link from the service's portal"), "no start ever has it"
    finally:
        proxy.close()
    assert len(sandbox.orders()) == 1


def test_a_service_that_cannot_be_asked_is_sent_no_invoice(open_office: Callable[..., Office]) -> None:
    office = open_office("http://127.0.0.1:9")
    done = collect(office, HEAD + "a,on_line,100,USDT_TRC20,Consulting,ann,,\n")
    assert (done.code, done.last) == (4, "1 not sent"), done.out + done.err


def test_what_the_service_refuses_is_said_and_not_asked_for_again(office: Office, sandbox: RunningSandbox) -> None:
    """A person was told to make it under another run key: it is not made here as well, whatever changed meanwhile."""
    text = HEAD + "a,on_line,100,NOPE,Consulting,ann,,\nb,on_line,100,USDT,Consulting,ann,,\n"
    for _ in range(2):
        done = collect(office, text)
        assert (done.code, done.last) == (4, "1 rejected, 1 waiting"), done.out + done.err
        assert list(read_rows(office.home / "runs" / "invoices" / "remaining.csv")) == ["a"]
    assert "7002" in office.results("invoices")["a"]["reason"]
    assert office.run("reconcile").last.startswith("warnings"), "a refused invoice is not asked about"
    kept = b"".join(file.read_bytes() for file in (office.home / "nights").rglob("*.json"))
    assert b"checkout" not in kept, "a report has no link"


def test_a_part_of_the_sheet_shows_all_its_invoices_and_changes_no_picture(office: Office) -> None:
    collect(office, THREE)
    before = office.results("invoices")
    part = "\n".join([THREE.splitlines()[0], THREE.splitlines()[2]]) + "\n"
    done = collect(office, part)
    assert (done.code, done.last) == (0, "3 waiting"), done.out + done.err
    assert office.results("invoices") == before


def test_a_sheet_that_somebody_mends_is_not_replaced(office: Office) -> None:
    text = HEAD + "a,on_line,100,NOPE,Consulting,ann,,\n"
    collect(office, text)
    remaining = office.home / "runs" / "invoices" / "remaining.csv"
    mended = remaining.read_text().replace("NOPE", "USDT")
    remaining.write_text(mended)
    assert "remaining.csv" not in collect(office, text).out
    assert remaining.read_text() == mended


@pytest.mark.parametrize(
    ("shown", "outcome"),
    [
        ({"amount": D(54), "arrive_amount": D(53), "fee": D(1), "currency": "USDT_TRC20"}, "paid"),
        ({"amount": D("49.90"), "arrive_amount": D("48.90"), "fee": D(1), "currency": "EUR"}, "paid"),
        ({"amount": D("49.90"), "arrive_amount": D(48), "fee": D(1), "currency": "EUR"}, "underpaid"),
        ({"amount": D("49.90"), "arrive_amount": D("48.91"), "fee": D(1)}, "overpaid"),
        ({"amount": D("49.90"), "arrive_amount": D(49), "fee": D("0.01"), "fee_currency": "ETH"}, "paid"),
        ({}, "paid"),
    ],
)
def test_amounts_of_another_currency_are_not_compared(shown: dict[str, Any], outcome: str) -> None:
    seen = SeenOrder(status=OrderStatus.SUCCESS, **shown)
    assert outcome_of("EUR", D("49.90"), seen)[0] == outcome


@pytest.mark.parametrize("seconds", [float("inf"), float("nan"), -1.0])
def test_a_form_that_would_follow_for_ever_is_refused(office: Office, seconds: float) -> None:
    desk = office.desk()
    try:
        with pytest.raises(InputError, match="seconds"):
            collect_and_write(desk, office.file("invoices.csv", THREE), "invoices", None, None, seconds)
        with pytest.raises(InputError, match="run key"):
            collect_and_write(desk, office.file("invoices.csv", THREE), "../x", office.home / "out")
    finally:
        desk.close()


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("a,by_post,100,USDT,Consulting,ann,,", "payment_method"),
        ("a,direct,100,IDR,Consulting,ann,,", "payment_channel"),
        ("a,on_line,0,USDT,Consulting,ann,,", "greater than zero"),
        ("a,on_line,1e3,USDT,Consulting,ann,,", "amount"),
        ("a,on_line,1,USDT,,ann,,", "product_name"),
    ],
)
def test_a_wrong_row_is_named_and_nothing_is_made(office: Office, sandbox: RunningSandbox, row: str, said: str) -> None:
    done = collect(office, HEAD + row + "\n")
    assert done.code == 2
    assert said in done.err
    assert sandbox.orders() == []
    assert (office.home / "runs" / "invoices" / "errors.csv").exists()


def test_a_run_key_of_payments_is_no_run_key_of_invoices(office: Office) -> None:
    office.run("pay", office.sheet(("a", "12", "12345670009")), "--run-key", "invoices", "--yes")
    done = collect(office, THREE)
    assert (done.code, "belongs to a run of payments" in done.err) == (2, True), done.err


@pytest.mark.parametrize("command", ["pay", "withdraw", "scan-pay"])
def test_a_run_key_of_invoices_is_no_run_key_of_payments(office: Office, command: str) -> None:
    """Their results would stand in one folder."""
    collect(office, THREE)
    sheets = {"pay": "beneficiaries.csv", "withdraw": "withdrawals.csv", "scan-pay": "qr_codes.csv"}
    done = office.run(command, data.path(sheets[command]), "--run-key", "invoices", "--yes")
    assert (done.code, "belongs to invoices" in done.err) == (2, True), done.err


def test_the_sample_is_collected(office: Office) -> None:
    done = office.run("collect", data.path("invoices.csv"), "--run-key", "sample")
    assert (done.code, done.last) == (0, "3 waiting"), done.out + done.err


def _shown(row: Mapping[str, str]) -> str:
    return " ".join(row.values())


def test_the_customer_is_in_no_result(office: Office) -> None:
    office.run("collect", data.path("invoices.csv"), "--run-key", "sample")
    assert "ann@example.com" not in " ".join(map(_shown, office.results("sample").values()))


def test_a_month_counts_what_a_statement_shows_too_once(office: Office, sandbox: RunningSandbox) -> None:
    collect(office, HEAD + "a,on_line,600,USDT_TRC20,Consulting,ann,,\n")
    office.run("reconcile")
    time.sleep(1)  # the service says seconds
    row = office.results("invoices")["a"]
    sandbox.pay_invoice(row["request_id"])
    booked = datetime.now(UTC).date() + timedelta(1)  # of a day after the opening
    line = f"{row['order_no']},USDT_TRC20,594,{row['request_id']},pay,99,{booked}\n"
    statement = office.file("statement.csv", "order_no,currency,amount,request_id,order_type,status,date\n" + line)
    office.run("reconcile", "--statement", statement)
    month = f"{datetime.now(UTC):%Y-%m}"
    done = office.run("report", "--month", month)
    assert (done.code, done.last) == (0, f"{month}: 1 account, 1 entry"), done.out + done.err
    folder = office.home / "months" / month
    [entry] = read_rows(folder / "entries.csv").values()
    assert (entry["amount"], entry["run_key"], entry["row_ref"]) == ("594", "invoices", "a")
    assert (entry["reference"], entry["order_no"]) == (row["request_id"], row["order_no"])
    [account] = json.loads((folder / "month.json").read_text())["accounts"]
    assert (account["received"], account["closing"]) == ("594", "500594")
