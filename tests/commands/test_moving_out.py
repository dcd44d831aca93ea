"""`treasury withdraw` and `treasury scan-pay`: sheets on the same spine as payouts, with the same controls."""

import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pytest

import data
from tests.commands.office import Ended, Office
from tests.engine.rounds import available
from treasury.promptpay import build_promptpay
from treasury.sandbox import RunningSandbox

pytestmark = [pytest.mark.prefect, pytest.mark.no_real_pauses]

D = Decimal
BY = ("--by", "Ada Example")
TRON = "TDBaAMzsQ3d7xqqgw8CWCzbAZGPdARHsMa"
ETHER = "0x00000000000000000000000000000000000e4a11"
FAILS = "0x0000000000000000000000000000000000000044"
"""An address whose last digits make the sandbox fail the withdrawal."""
WITHDRAWN = "row_ref,currency,address,amount,customer_ref_id\n"
CODES = "row_ref,qrcode,amount,user_xid,notify_url\n"
HOOK = "https://hooks.example.com/payments"


@pytest.fixture
def sandbox(open_sandbox: Callable[..., RunningSandbox]) -> RunningSandbox:
    return open_sandbox(balances={"USDT": D(1000), "USDT_TRC20": D(1000), "ETH": D(10)})


@pytest.fixture
def office(sandbox: RunningSandbox, open_office: Callable[..., Office], prefect_url: str) -> Office:
    return open_office(sandbox.base_url)


def withdrawals(office: Office, *rows: tuple[str, ...], name: str = "out.csv") -> Path:
    return office.file(name, WITHDRAWN + "".join(f"{','.join(row)},treasury\n" for row in rows))


def codes(office: Office, *rows: tuple[str, str, str], name: str = "codes.csv") -> Path:
    return office.file(name, CODES + "".join(f"{','.join(row)},owner-1,{HOOK}\n" for row in rows))


def withdraw(office: Office, key: str, file: Path, *more: str) -> Ended:
    return office.run("withdraw", file, "--run-key", key, "--follow", "20", *more)


def scan(office: Office, key: str, file: Path, *more: str) -> Ended:
    return office.run("scan-pay", file, "--run-key", key, "--follow", "20", *more)


def adopt(office: Office, text: str) -> Ended:
    return office.run("policy", "adopt", office.file("policy.toml", text), *BY)


def effects(sandbox: RunningSandbox) -> int:
    return sum(order["effects"] for order in sandbox.orders())


def test_assets_are_withdrawn_once_and_the_report_agrees(office: Office, sandbox: RunningSandbox) -> None:
    file = withdrawals(office, ("cold-1", "USDT_TRC20", TRON, "25.50"), ("cold-2", "ETH", ETHER, "0.5"))
    assert office.run("reconcile").code == 0
    dry = withdraw(office, "cold", file, "--dry-run")
    assert dry.code == 0, dry.out + dry.err
    assert (TRON in dry.out, "about 25.245 arrive: the fee is 0.255, of it" in dry.out) == (True, True), dry.out
    assert sandbox.orders() == []
    done = withdraw(office, "cold", file, "--yes")
    assert (done.code, done.last) == (0, "2 settled"), done.out + done.err
    again = withdraw(office, "cold", file, "--yes")
    assert (again.code, again.last, effects(sandbox)) == (0, "2 settled", 2)
    assert {row["outcome"] for row in office.results("cold").values()} == {"settled"}
    assert office.summary("cold")["kind"] == "withdrawal"
    report = office.run("reconcile")
    assert report.code == 0, report.out + report.err
    conflict = office.run("pay", office.sheet(("a", "10", "12345670001")), "--run-key", "cold", "--yes")
    assert (conflict.code, effects(sandbox)) == (2, 2), conflict.out + conflict.err


@pytest.mark.parametrize(
    ("row", "column", "said"),
    [
        (("w", "USDT_TRC20", TRON[:-1] + "b", "25"), "address", "checksum"),
        (("w", "USDT_TRC20", TRON, "0.5"), "amount", "least that may be withdrawn, 1 USDT_TRC20"),
        (("w", "USDT_TRC20", TRON, "25.1234567"), "amount", "decimals"),
    ],
)
def test_what_cannot_be_withdrawn_is_refused_by_name(
    row: tuple[str, ...], column: str, said: str, office: Office, sandbox: RunningSandbox
) -> None:
    refused = withdraw(office, "cold", withdrawals(office, row), "--yes")
    assert refused.code == 2, refused.out + refused.err
    [problem] = (office.home / "runs" / "cold" / "errors.csv").read_text().splitlines()[1:]
    assert (column in problem, said in problem) == (True, True), problem
    assert (office.home / "runs" / "cold" / "corrected-me.csv").exists()
    assert sandbox.orders() == []


def test_an_address_of_the_service_itself_is_said(office: Office) -> None:
    asked = office.run(
        "call", "deposit_address", "--json", json.dumps({"currency": "ETH", "customer_ref_id": "c"}), "--yes"
    )
    own = next(word.strip('",') for word in asked.out.split() if word.strip('",').startswith("0x"))
    shown = withdraw(office, "own", withdrawals(office, ("w", "ETH", own, "0.5")), "--dry-run")
    assert (shown.code, "an address of the service itself" in shown.out) == (0, True), shown.out + shown.err


def test_withdrawals_of_a_sheet_are_judged_by_the_policy(office: Office, sandbox: RunningSandbox) -> None:
    text = f"""[payouts.max_per_day]
USDT_TRC20 = "100"
[withdrawals]
addresses = ["{TRON}", "{ETHER.upper().replace("X", "x")}"]
[withdrawals.max_per_payout]
USDT_TRC20 = "80"
[withdrawals.max_per_run]
USDT_TRC20 = "90"
[withdrawals.max_per_day]
USDT_TRC20 = "100"
[withdrawals.one_approval_above]
USDT_TRC20 = "50"
"""
    assert adopt(office, text).code == 0
    tron = ("USDT_TRC20", TRON)
    elsewhere = withdraw(office, "a", withdrawals(office, ("w", "ETH", FAILS, "1")), "--yes")
    assert (elsewhere.code, "is not among the addresses" in elsewhere.err) == (2, True), elsewhere.err
    assert withdraw(office, "b", withdrawals(office, ("w", *tron, "81")), "--yes").code == 2
    both = withdrawals(office, ("w", *tron, "60"), ("x", *tron, "31"))
    assert (withdraw(office, "c", both, "--yes").code, effects(sandbox)) == (2, 0)
    most = withdrawals(office, ("w", *tron, "60"))
    waits = withdraw(office, "d", most, "--yes")
    assert (waits.code, effects(sandbox)) == (3, 0), waits.out + waits.err
    assert TRON in office.run("show", "d").out  # whoever decides sees the whole address
    assert office.run("approve", "d", "--by", "Bert Example").code == 0
    assert withdraw(office, "d", most, "--yes").last == "1 settled"
    assert office.results("d")["w"]["approved_by"] == "Bert Example"
    day = office.run("pay", office.sheet(("p", "45", "12345670001")), "--run-key", "e", "--yes", "--follow", "20")
    assert (day.code, "the limit of" in day.err) == (2, True), day.err
    twice = withdraw(office, "f", withdrawals(office, ("w", *tron, "20"), ("x", *tron, "20")), "--yes")
    assert (twice.code, twice.last) == (4, "1 settled, 1 held"), twice.out + twice.err
    assert "duplicate_ok" in office.results("f")["x"]["reason"]
    assert effects(sandbox) == 2


def test_an_allowed_address_allows_no_other_tag(office: Office, sandbox: RunningSandbox) -> None:
    """An exchange gives many customers one address: the tag says whose the money is."""
    ripple, header = "rHb9CJAWyB4rj91VRWn96DkukG4bwdtyTh", "row_ref,currency,address,tag,amount,customer_ref_id\n"
    listed = f'addresses = ["{ripple}:777", "{TRON}"]'
    assert adopt(office, f'[withdrawals]\n{listed}\n[withdrawals.max_per_payout]\nXRP = "80"\n').code == 0

    def refused(tag: str, currency: str = "XRP", address: str = ripple) -> tuple[bool, bool]:
        sheet = office.file("tag.csv", f"{header}w,{currency},{address},{tag},20,treasury\n")
        asked = {"request_id": "w", "currency": currency, "address": address, "tag": tag, "amount": "20"}
        asked["customer_ref_id"] = "treasury"
        doors = (
            withdraw(office, "a", sheet, "--dry-run"),
            office.run("call", "withdraw", "--json", json.dumps(asked)),
        )
        sheets, call = ("among the addresses that the policy allows" in each.err for each in doors)
        return sheets, call

    assert refused("777") == (False, False)
    assert refused("778") == (True, True)
    assert refused("", "USDT_TRC20", TRON) == (False, False)
    assert refused("778", "USDT_TRC20", TRON) == (True, True)
    assert sandbox.orders() == []


def test_a_new_address_cools_and_that_is_known_before_the_yes(office: Office, sandbox: RunningSandbox) -> None:
    assert adopt(office, '[withdrawals]\ncooling_hours = 5\n[withdrawals.max_per_payout]\nETH = "9"\n').code == 0
    file = withdrawals(office, ("w", "ETH", ETHER, "1"))
    dry = withdraw(office, "cool", file, "--dry-run")
    assert "will be held: the first payment to this address: it waits 5 h" in dry.out, dry.out
    assert (withdraw(office, "cool", file, "--yes").last, effects(sandbox)) == ("0 settled, 1 held", 0)
    assert office.run("release", "cool", *BY, "--why", "asked by telephone").code == 0
    assert withdraw(office, "cool", file, "--yes").last == "1 settled"
    known = withdraw(office, "again", withdrawals(office, ("w", "ETH", ETHER, "2")), "--yes")
    assert (known.last, effects(sandbox)) == ("1 settled", 2), known.out + known.err


def test_what_failed_of_withdrawals_is_paid_again_and_others_are_cancelled_and_stopped(
    office: Office, sandbox: RunningSandbox
) -> None:
    file = withdrawals(office, ("good", "ETH", ETHER, "1"), ("bad", "ETH", FAILS, "2"))
    first = withdraw(office, "first", file, "--yes")
    assert (first.code, first.last) == (4, "1 settled, 1 failed"), first.out + first.err
    header, row = (office.home / "runs" / "first" / "remaining.csv").read_text().splitlines()
    assert ("route" in header.split(","), FAILS in row) == (False, True), header
    said = office.results("first")["bad"]["next_action"]
    assert "treasury withdraw --only-failed-of first --run-key first-again" in said
    again = office.run("withdraw", "--run-key", "second", "--only-failed-of", "first", "--yes", "--follow", "20")
    assert (again.code, again.last) == (4, "0 settled, 1 failed"), again.out + again.err
    wrong = office.run("pay", "--run-key", "third", "--only-failed-of", "second", "--yes")
    assert (wrong.code, "treasury withdraw --only-failed-of second" in wrong.err) == (2, True), wrong.err
    assert office.run("stop", *BY, "--why", "a test").code == 0
    assert withdraw(office, "stopped", withdrawals(office, ("w", "ETH", ETHER, "3")), "--yes").code == 4
    assert office.run("cancel", "stopped", *BY, "--why", "not meant").code == 0
    assert office.run("stop", "--lift", *BY).code == 0
    ended = withdraw(office, "stopped", withdrawals(office, ("w", "ETH", ETHER, "3")), "--yes")
    assert (ended.code, ended.last) == (4, "0 settled, 1 cancelled"), ended.out + ended.err


def test_codes_are_paid_once_within_what_was_shown(office: Office, sandbox: RunningSandbox) -> None:
    fixed = build_promptpay("0812345601", D("100.00"), "Example Shop")
    file = codes(office, ("q-1", build_promptpay("0812345678"), "32"), ("q-2", fixed, ""))
    shown = scan(office, "codes", file)
    assert shown.code == 3, shown.out + shown.err
    assert "132.00 THB arrive" in shown.out
    assert "and a fee of 1" in shown.out
    assert "what the service says they cost, with a margin; nothing that is sent enforces it" in shown.out
    assert sandbox.orders() == []
    done = scan(office, "codes", file, "--yes")
    assert (done.code, done.last) == (0, "2 settled"), done.out + done.err
    assert (scan(office, "codes", file, "--yes").last, effects(sandbox)) == ("2 settled", 2)
    twice = scan(office, "more", codes(office, ("q-3", build_promptpay("0812345678"), "32")), "--yes")
    assert (twice.code, twice.last, effects(sandbox)) == (4, "0 settled, 1 held", 2), twice.out + twice.err


def test_payees_of_withdrawals_and_codes_are_known_by_their_account_and_what_they_got(office: Office) -> None:
    """A code's last characters are its checksum, and only the service says what it debits."""
    withdraw(office, "out", withdrawals(office, ("w", "USDT_TRC20", TRON, "25.50")), "--yes")
    scan(office, "codes", codes(office, ("q", build_promptpay("0812345678"), "32")), "--yes")
    [code, address] = office.run("payees").out.splitlines()[:2]
    debited = office.results("codes")["q"]["final_amount"]
    assert (code.split()[0], f"  {debited} USDT  " in code) == ("***5678", True), code
    assert (address.split()[0], "  25.50 USDT_TRC20  " in address) == ("***HsMa", True), address
    payee = office.run("payee", "q").out
    assert ("payee ***5678" in payee, f"settled  {debited} USDT" in payee) == (True, True), payee
    office.run("scan-pay", data.path("qr_codes.csv"), "--run-key", "more", "--follow", "0", "--yes")
    shown = office.run("show", "more").out
    assert "320 THB" in shown or " USDT\n" in shown, shown


def test_a_run_that_goes_on_says_who_approved_it(office: Office) -> None:
    assert adopt(office, '[withdrawals.one_approval_above]\nUSDT_TRC20 = "50"\n').code == 0
    file = withdrawals(office, ("w", "USDT_TRC20", TRON, "60"))
    assert withdraw(office, "big", file, "--yes").code == 3
    assert office.run("approve", "big", "--by", "Bert Example").code == 0
    assert office.run("stop", *BY, "--why", "a test").code == 0
    assert withdraw(office, "big", file, "--yes").last == "0 settled, 1 not sent"
    assert office.run("stop", "--lift", *BY).code == 0
    done = withdraw(office, "big", file, "--yes")
    assert (done.last, "besides yours" in done.out) == ("1 settled", False), done.out
    assert "  approved by Bert Example; plan" in done.out


def test_the_results_of_codes_have_what_the_service_debited(office: Office, sandbox: RunningSandbox) -> None:
    """Only the service says what a code debits: its row, its run's sums and the books are one figure."""
    opening = available(sandbox, "USDT")
    office.run("scan-pay", data.path("qr_codes.csv"), "--run-key", "codes", "--follow", "20", "--yes")
    debited = {
        order["request_id"]: sum(Decimal(str(order[name])) for name in ("amount", "fee")) for order in sandbox.orders()
    }
    rows = office.results("codes").values()
    assert {row["request_id"]: Decimal(row["final_amount"]) for row in rows} == debited
    assert Decimal(office.summary("codes")["sums"]["USDT"]["settled"]) == sum(debited.values())
    assert opening - available(sandbox, "USDT") == sum(debited.values())


def test_a_code_that_cannot_be_paid_as_asked_is_refused(office: Office, sandbox: RunningSandbox) -> None:
    fixed = build_promptpay("0812345601", D("100.00"))
    for code, amount, said in (
        (fixed, "99", "100.00 THB"),
        (fixed[:-1] + "0", "", "checksum"),
        ("12", "5", "checksum"),
    ):
        refused = scan(office, "codes", codes(office, ("q", code, amount)), "--yes")
        assert (refused.code, said in refused.err) == (2, True), refused.out + refused.err
    assert sandbox.orders() == []


def test_codes_count_at_their_ceiling_on_their_day(office: Office, sandbox: RunningSandbox) -> None:
    limits = '[payouts.max_per_payout]\nUSDT = "6"\n[payouts.max_per_day]\nUSDT = "8"\n'
    assert adopt(office, limits).code == 0
    one = codes(office, ("q", build_promptpay("0812345678"), "100"))  # about 3.05 and a fee of 1
    assert scan(office, "one", one, "--yes").last == "1 settled"
    over = scan(office, "two", codes(office, ("q", build_promptpay("0812345601"), "300")), "--yes")
    assert (over.code, "more than max_per_payout, 6" in over.err, effects(sandbox)) == (2, True, 1), over.err
    day = scan(office, "two", codes(office, ("q", build_promptpay("0812345601"), "140")), "--yes")
    assert (day.code, "the limit of" in day.err, effects(sandbox)) == (2, True, 1), day.err
    assert scan(office, "three", codes(office, ("q", build_promptpay("0812345601"), "32")), "--yes").last == "1 settled"


def call(office: Office, operation: str, **fields: str) -> Ended:
    return office.run("call", operation, "--json", json.dumps(fields), "--yes")


def call_scan(office: Office, reference: str, code: str, amount: str) -> Ended:
    fields = {"request_id": reference, "user_xid": "owner-1", "notify_url": HOOK}
    return call(office, "submit_scan_to_pay", qrcode=code, amount=amount, **fields)


def test_a_single_code_is_judged_by_what_it_costs(office: Office, sandbox: RunningSandbox) -> None:
    limits = '[payouts]\ncountries = ["TH"]\n[payouts.max_per_payout]\nUSDT = "6"\n[payouts.max_per_day]\nUSDT = "8"\n'
    assert adopt(office, limits).code == 0
    code, other = build_promptpay("0812345678"), build_promptpay("0812345601")
    over = call_scan(office, "s-1", code, "300")
    assert (over.code, "over the policy's limit of 6 for one" in over.err) == (2, True), over.out + over.err
    unpriced = call_scan(office, "s-2", code[:-1] + "0", "32")
    assert (unpriced.code, "once the service says what it costs" in unpriced.err) == (2, True), unpriced.err
    assert call_scan(office, "s-3", code, "100").code == 0
    assert call_scan(office, "s-3", code, "100").code == 0
    day = call_scan(office, "s-4", other, "140")
    assert (day.code, "the limit of" in day.err) == (2, True), day.err
    assert effects(sandbox) == 1


def test_a_single_code_is_not_paid_in_a_country_or_currency_that_the_policy_leaves_out(
    office: Office, sandbox: RunningSandbox
) -> None:
    assert adopt(office, '[payouts]\ncountries = ["ID"]\n').code == 0
    there = call_scan(office, "s-1", build_promptpay("0812345678"), "32")
    assert (there.code, "TH is not a country" in there.err) == (2, True), there.err
    sheet = scan(office, "codes", codes(office, ("q", build_promptpay("0812345678"), "32")), "--yes")
    assert (sheet.code, "is not a country" in sheet.err, effects(sandbox)) == (2, True, 0), sheet.err


def test_a_payment_of_a_sheet_and_the_same_by_call_are_duplicates(office: Office, sandbox: RunningSandbox) -> None:
    assert withdraw(office, "sheet", withdrawals(office, ("w", "ETH", ETHER, "1")), "--yes").last == "1 settled"
    fields = {"currency": "ETH", "address": ETHER.upper().replace("X", "x"), "amount": "1.0", "customer_ref_id": "c"}
    assert call(office, "withdraw", request_id="w-1", **fields).last == "held: w-1"
    for network in ("USDT_ERC20", "USDT_ARB"):
        sandbox.deposit(network, "50")
    assert call(office, "withdraw", request_id="w-2", **fields | {"currency": "USDT_ERC20"}).code == 0
    assert call(office, "withdraw", request_id="w-3", **fields | {"currency": "USDT_ARB"}).last == "held: w-3"
    code, fixed = build_promptpay("0812345678"), build_promptpay("0812345678", D("32.00"))
    assert call_scan(office, "s-1", code, "32").code == 0
    again = scan(office, "codes", codes(office, ("q", fixed, "")), "--yes")
    assert (again.last, effects(sandbox)) == ("0 settled, 1 held", 3), again.out + again.err


def test_a_waiting_plan_of_withdrawals_is_carried_out_by_approve_and_pay(
    office: Office, sandbox: RunningSandbox
) -> None:
    assert adopt(office, '[withdrawals.one_approval_above]\nETH = "0.1"\n').code == 0
    file = withdrawals(office, ("w", "ETH", ETHER, "1"))
    assert withdraw(office, "form", file, "--yes").code == 3
    call = "approve_and_pay('form', name='Bert Example', follow_seconds=20)"
    done = office.python(f"from flows.approve_and_pay import approve_and_pay\nprint({call}['counts'])\n")
    assert (done.last, effects(sandbox)) == ("{'settled': 1}", 1), done.out + done.err
