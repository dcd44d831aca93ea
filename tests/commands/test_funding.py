"""`treasury pay --fund`: what a run lacks is converted first, under the run's plan; nothing is paid before."""

import csv
import json
import threading
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pytest

import data
from tests.commands.approvers import key, waiting_hash, with_people
from tests.commands.office import Ended, Office, eventually
from tests.engine.rounds import available, kinds, policy
from treasury.sandbox import RunningSandbox
from treasury.sandbox.currencies import Rates

pytestmark = [pytest.mark.prefect, pytest.mark.no_real_pauses]

D = Decimal
BTC = ("0.2", "0.4", "0.9")
ROWS = (("a", "300", "12345670001"), ("b", "400", "12345670101"), ("c", "500", "12345670201"))
PAYOUTS = '[payouts]\nduplicate_days = 0\n[payouts.max_per_run]\nUSDT_TRC20 = "100000"\n'
FUND = ("--fund", "--follow", "20")


@pytest.fixture
def sandbox(open_sandbox: Callable[..., RunningSandbox]) -> RunningSandbox:
    return open_sandbox(balances={"USDT": D(5000), "BTC": D("0.8"), "USDT_TRC20": D(200)})


@pytest.fixture
def office(sandbox: RunningSandbox, open_office: Callable[..., Office], prefect_url: str) -> Office:
    return open_office(sandbox.base_url)


def pay(office: Office, rules: Path, *more: str, rows: tuple[tuple[str, str, str], ...] = ROWS) -> Ended:
    return office.run("pay", office.sheet(*rows), "--run-key", "payroll", "--policy", rules, *more)


def test_what_a_run_lacks_is_converted_and_then_it_is_paid(
    office: Office, sandbox: RunningSandbox, tmp_path: Path
) -> None:
    rules = policy(tmp_path, tail=PAYOUTS, BTC=BTC)
    dry = pay(office, rules, "--fund", "--dry-run")
    assert dry.code == 0, dry.out + dry.err
    assert "Gap: USDT_TRC20" in dry.out
    assert "BUY USDT_TRC20-USDT" in dry.out
    assert "at most" in dry.out
    assert "NOT FUNDED" not in dry.out
    assert sandbox.orders() == []
    done = pay(office, rules, "--yes", *FUND)
    assert (done.code, done.last) == (0, "3 settled"), done.out + done.err
    assert kinds(sandbox).count("conversion_execute") == 1
    assert D(0) <= available(sandbox, "USDT_TRC20") < 30
    assert available(sandbox, "BTC") == D("0.8")
    converted = office.results("payroll", "funding/results.csv")
    assert [(row["operation"], row["outcome"]) for row in converted.values()] == [("conversion_execute", "settled")]
    explained = office.run("rebalance", "--explain", "payroll.fund")
    assert explained.code == 0, explained.out + explained.err
    again = pay(office, rules, "--yes", *FUND)
    assert (again.code, again.last) == (0, "3 settled")
    assert len(kinds(sandbox)) == 4


def test_what_cannot_be_funded_is_neither_converted_nor_paid(
    open_sandbox: Callable[..., RunningSandbox], open_office: Callable[..., Office], tmp_path: Path
) -> None:
    sandbox = open_sandbox(balances={"USDT": D(700), "BTC": D("0.2"), "USDT_TRC20": D(200)})
    office, rules = open_office(sandbox.base_url), policy(tmp_path, tail=PAYOUTS, BTC=BTC)
    done = pay(office, rules, "--yes", *FUND)
    assert (done.code, done.last) == (4, "0 settled, 3 not sent"), done.out + done.err
    assert "  CANNOT BE FUNDED: " in done.out
    assert "CANNOT BE FUNDED" in pay(office, rules, "--fund", "--dry-run").out
    assert sandbox.orders() == []
    assert all("not funded: 1000 USDT_TRC20 missing" in row["reason"] for row in office.results("payroll").values())
    sandbox.deposit("USDT", "2000")
    paid = pay(office, rules, "--yes", *FUND)
    assert (paid.code, paid.last) == (0, "3 settled"), paid.out + paid.err


def test_conversions_that_do_not_settle_leave_it_unpaid_and_are_not_made_again(
    open_sandbox: Callable[..., RunningSandbox], open_office: Callable[..., Office], tmp_path: Path
) -> None:
    sandbox = open_sandbox(balances={"USDT": D(5000), "BTC": D("0.8"), "USDT_TRC20": D(200)}, settle_seconds=6)
    office, rules = open_office(sandbox.base_url), policy(tmp_path, tail=PAYOUTS, BTC=BTC)
    done = pay(office, rules, "--yes", "--fund", "--follow", "0.1")
    assert (done.code, done.last) == (4, "0 settled, 3 not sent"), done.out + done.err
    assert kinds(sandbox) == ["conversion_execute"]
    assert "in progress" in next(iter(office.results("payroll").values()))["reason"]
    again = pay(office, rules, "--yes", *FUND)
    assert (again.code, again.last) == (0, "3 settled"), again.out + again.err
    assert kinds(sandbox).count("conversion_execute") == 1
    converted = office.results("payroll", "funding/results.csv")
    assert [row["outcome"] for row in converted.values()] == ["settled"]


def by_receipt(office: Office, rows: int, receives: str, most: str = "") -> Path:
    """A sheet of quoted rows that fix what is received, with a ceiling or none."""
    with data.path("beneficiaries.csv").open(newline="") as stream:
        sample = list(csv.DictReader(stream))
    [like] = [row for row in sample if row["row_ref"] == "INV-103"]
    file = office.home / "by-receipt.csv"
    with file.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, [*like, "max_pay_amount"])
        writer.writeheader()
        for number in range(rows):
            account = f"88910452{6000 + number}"
            changed = {"row_ref": f"r{number}", "receive_amount": receives, "account_no": account}
            writer.writerow({**like, **changed, "max_pay_amount": most})
    return file


@pytest.mark.parametrize("limit", ["", '[payouts.max_per_payout]\nUSDT = "400"\n'])
def test_fees_inside_quotes_are_funded_before_any_quote_is_confirmed(
    open_sandbox: Callable[..., RunningSandbox], open_office: Callable[..., Office], tmp_path: Path, limit: str
) -> None:
    """30 rows of 20 USD: each fee is 1.25 USDT, far more than the slippage that the policy allows."""
    sandbox = open_sandbox(balances={"USDT": D(600), "BTC": D("0.8")})
    office, rules = (
        open_office(sandbox.base_url),
        policy(tmp_path, tail="[payouts]\nduplicate_days = 0\n" + limit, BTC=BTC),
    )
    file = by_receipt(office, 30, "20.00")
    arguments = ("pay", file, "--run-key", "payroll", "--policy", rules, "--yes", *FUND)
    first = office.run(*arguments)
    assert (first.code, first.last) == (0, "30 settled"), first.out + first.err
    again = by_receipt(office, 30, "21.00")
    sandbox.deposit("BTC", "1")
    before = available(sandbox, "USDT")
    second = office.run("pay", again, "--run-key", "second", "--policy", rules, "--yes", *FUND)
    assert (second.code, second.last) == (0, "30 settled"), second.out + second.err
    assert available(sandbox, "USDT") < before + 100  # what its quotes ask is funded, not its ceilings


def test_quotes_that_ask_more_than_is_there_are_not_confirmed(
    open_sandbox: Callable[..., RunningSandbox],
    open_office: Callable[..., Office],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Fees rise after a plan was made, within its ceilings: what they come to is converted by the next start."""
    sandbox = open_sandbox(balances={"USDT": D(700), "BTC": D("0.8")})
    wide = "[payouts]\nduplicate_days = 0\nestimate_margin_percent = 5\n"  # for rates that move
    office, rules = open_office(sandbox.base_url), policy(tmp_path, tail=wide, BTC=BTC)
    more = ("--policy", rules, "--yes", *FUND)
    assert office.run("pay", by_receipt(office, 1, "899.00"), "--run-key", "before", *more).last == "1 settled"
    monkeypatch.setattr(Rates, "fiat_fee", lambda self, pay, now: D(18))
    file = by_receipt(office, 1, "900.00")
    first = office.run("pay", file, "--run-key", "payroll", *more)
    assert (first.code, first.last) == (4, "0 settled, 1 not sent"), first.out + first.err
    [row] = office.results("payroll").values()
    assert "USDT missing" in row["reason"]
    assert kinds(sandbox).count("create_fiat_payout") == 1
    for _ in range(3):  # rates move while a busy machine quotes
        done = office.run("pay", file, "--run-key", "payroll", *more)
        if done.code == 0:
            break
    assert (done.code, done.last) == (0, "1 settled"), done.out + done.err


def test_one_approval_covers_the_conversions_and_the_payments(
    office: Office, sandbox: RunningSandbox, tmp_path: Path
) -> None:
    tail = PAYOUTS + '[payouts.one_approval_above]\nUSDT_TRC20 = "1000"\n'
    rules = policy(tmp_path, tail=tail + '[conversions.one_approval_above]\nUSDT = "100"\n', BTC=BTC)
    waits = pay(office, rules, "--yes", *FUND)
    assert waits.code == 3, waits.out + waits.err
    assert sandbox.orders() == []
    shown = office.run("show", "payroll")
    assert "Converted first" in shown.out
    assert "one_approval_above" in shown.out
    assert office.run("approve", "payroll", "--by", "Checker").code == 0
    done = pay(office, rules, "--yes", *FUND)
    assert (done.code, done.last) == (0, "3 settled"), done.out + done.err
    assert ("approved by Checker; plan" in done.out, "besides yours" in done.out) == (True, False), done.out
    assert kinds(sandbox).count("conversion_execute") == 1
    assert {row["approved_by"] for row in office.results("payroll").values()} == {"Checker"}


def test_a_run_whose_plan_was_ended_is_known(office: Office, sandbox: RunningSandbox, tmp_path: Path) -> None:
    rules = policy(tmp_path, tail=PAYOUTS + '[payouts.one_approval_above]\nUSDT_TRC20 = "1000"\n', BTC=BTC)
    assert pay(office, rules, "--yes", *FUND).code == 3
    assert office.run("reject", "payroll", "--by", "Checker", "--why", "too much").code == 0
    shown = office.run("show", "payroll")
    assert (shown.code, "was rejected by Checker (too much)" in shown.out) == (0, True), shown.out + shown.err
    assert office.run("show", "another").code == 2


def test_a_rejection_of_rows_to_be_added_does_not_say_that_the_run_is_not_paid(office: Office, tmp_path: Path) -> None:
    rules = policy(tmp_path, tail=PAYOUTS + '[payouts.one_approval_above]\nUSDT_TRC20 = "1200"\n', BTC=BTC)
    assert pay(office, rules, "--yes", *FUND).last == "3 settled"
    added = pay(office, rules, "--yes", "--add", rows=(*ROWS, ("d", "10", "12345670601")))
    assert added.code == 3, added.out + added.err
    rejected = office.run("reject", "payroll", "--by", "Checker", "--why", "too much")
    assert (rejected.code, rejected.last.partition("; ")[2]) == (0, "the run goes on as it was agreed to before")


def test_without_a_policy_it_says_what_is_needed(office: Office, sandbox: RunningSandbox) -> None:
    done = office.run("pay", office.sheet(*ROWS), "--run-key", "payroll", "--fund", "--yes")
    assert done.code == 2
    assert "--fund needs a policy" in done.err
    assert sandbox.orders() == []


def test_the_deployments_flow_funds_and_pays(office: Office, sandbox: RunningSandbox, tmp_path: Path) -> None:
    rules, sheet = policy(tmp_path, tail=PAYOUTS, BTC=BTC), office.sheet(*ROWS)
    call = f"pay_beneficiaries({str(sheet)!r}, 'payroll', policy={str(rules)!r}, fund=True)"
    done = office.python(f"from flows.pay_beneficiaries import pay_beneficiaries\nprint({call}['counts'])\n")
    assert done.last == "{'settled': 3}", done.out + done.err
    assert kinds(sandbox).count("conversion_execute") == 1
    assert json.loads((office.home / "runs" / "payroll" / "funding" / "run.json").read_text())["kind"] == "conversions"
    eventually(lambda: available(sandbox, "USDT_TRC20") < 30)


def test_what_was_converted_is_named_wherever_the_run_is(
    office: Office, sandbox: RunningSandbox, tmp_path: Path
) -> None:
    rules = policy(tmp_path, tail=PAYOUTS, BTC=BTC)
    done = pay(office, rules, "--yes", *FUND)
    assert done.code == 0, done.out + done.err
    assert str(office.home / "runs" / "payroll" / "funding" / "results.csv") in done.out
    content = json.loads((office.home / "runs" / "payroll" / "run.json").read_text())
    assert content["funded_by"] == ["payroll.fund"]
    assert "conversions for it are run payroll.fund: 1 settled" in office.run("show", "payroll").out
    explained = office.run("rebalance", "--explain", "payroll")
    assert (explained.code, "payroll.fund" in explained.err) == (2, True)
    assert "1 settled" in office.run("show", "payroll.fund").out


def test_a_run_that_lost_its_money_is_cancelled_and_its_conversions_are_named(
    open_sandbox: Callable[..., RunningSandbox], open_office: Callable[..., Office], tmp_path: Path
) -> None:
    sandbox = open_sandbox(balances={"USDT": D(5000), "BTC": D("0.8"), "USDT_TRC20": D(200)}, settle_seconds=6)
    office, rules = open_office(sandbox.base_url), policy(tmp_path, tail=PAYOUTS, BTC=BTC)
    waits = pay(office, rules, "--yes", "--fund", "--follow", "0.1")
    assert (waits.code, waits.last) == (4, "0 settled, 3 not sent"), waits.out + waits.err
    cancelled = office.run("cancel", "payroll", "--by", "Ada", "--why", "another month")
    assert cancelled.code == 0, cancelled.out + cancelled.err
    assert "conversions were made for it before, which is not undone: treasury show payroll.fund" in cancelled.out
    again = pay(office, rules, "--yes", *FUND)
    assert again.last == "0 settled, 3 cancelled", again.out + again.err
    assert kinds(sandbox) == ["conversion_execute"]


def test_the_limit_of_a_day_of_conversions_is_told_before_and_after(
    office: Office, sandbox: RunningSandbox, tmp_path: Path
) -> None:
    rules = policy(tmp_path, tail=PAYOUTS + '[conversions.max_per_day]\nUSDT = "400"\n', BTC=BTC)
    dry = pay(office, rules, "--fund", "--dry-run")
    assert "CANNOT BE FUNDED" in dry.out
    assert "400 USDT" in dry.out
    done = pay(office, rules, "--yes", *FUND)
    assert (done.code, done.last) == (4, "0 settled, 3 not sent"), done.out + done.err
    assert sandbox.orders() == []


def test_valid_rows_are_funded_and_paid_and_the_others_added_later(
    office: Office, sandbox: RunningSandbox, tmp_path: Path
) -> None:
    rules = policy(tmp_path, tail=PAYOUTS, BTC=BTC)
    wrong = (*ROWS[:2], ("c", "-500", "12345670201"))
    done = pay(office, rules, "--valid-rows-only", "--yes", *FUND, rows=wrong)
    assert (done.code, kinds(sandbox).count("payout")) == (4, 2), done.out + done.err
    assert D(0) <= available(sandbox, "USDT_TRC20") < 30
    added = pay(office, rules, "--add", "--yes", *FUND)
    assert (added.code, added.last) == (0, "3 settled"), added.out + added.err
    assert office.run("show", "payroll").out.count("conversions for it are run payroll.fund") == 2


def test_what_failed_of_an_earlier_run_is_funded_and_paid_once_more(
    office: Office, sandbox: RunningSandbox, tmp_path: Path
) -> None:
    rules = policy(tmp_path, tail=PAYOUTS, BTC=BTC)
    first = pay(office, rules, "--yes", *FUND, rows=(("a", "300", "12345670044"), *ROWS[1:]))
    assert (first.code, first.last) == (4, "2 settled, 1 failed"), first.out + first.err
    sandbox.deposit("USDT_TRC20", "-250")  # of what came back
    again = office.run("pay", "--only-failed-of", "payroll", "--run-key", "again", "--policy", rules, "--yes", *FUND)
    assert (again.code, again.last) == (4, "0 settled, 1 failed"), again.out + again.err
    assert kinds(sandbox).count("conversion_execute") == 2
    assert kinds(sandbox).count("payout") == 4


# --- what was shown is what is agreed to ---------------------------------------------------------------------------


def test_rows_that_are_added_need_one_approval(office: Office, tmp_path: Path) -> None:
    rules = policy(tmp_path, tail=PAYOUTS + '[conversions.one_approval_above]\nUSDT = "550"\n', BTC=BTC)
    first = pay(office, rules, "--yes", *FUND, rows=ROWS[:2])
    assert (first.code, first.last) == (0, "2 settled"), first.out + first.err
    waits = pay(office, rules, "--add", "--yes", *FUND)
    assert waits.code == 3, waits.out + waits.err
    assert office.run("approve", "payroll", "--by", "Checker").code == 0
    done = pay(office, rules, "--add", "--yes", *FUND)
    assert (done.code, done.last) == (0, "3 settled"), done.out + done.err


SLOWLY = """
import contextlib, pathlib, time
from flows.commands import payouts, run

@contextlib.contextmanager
def prefect_api(name, real=payouts.prefect_api):
    pathlib.Path({ready!r}).write_text("")  # the plan was shown, and answered with yes; Prefect starts: seconds
    while not pathlib.Path({gone!r}).exists():
        time.sleep(0.1)
    with real(name) as found:
        yield found

payouts.prefect_api = prefect_api
raise SystemExit(run({line!r}))
"""


@pytest.mark.costly("a process whose plan changes meanwhile")
def test_more_than_was_shown_is_not_converted(office: Office, sandbox: RunningSandbox, tmp_path: Path) -> None:
    rules = policy(tmp_path, tail=PAYOUTS, BTC=BTC)
    ready, gone = tmp_path / "ready", tmp_path / "gone"
    line = ["pay", str(office.sheet(*ROWS)), "--run-key", "payroll", "--policy", str(rules), "--yes", *FUND]

    def take() -> None:
        eventually(ready.exists, 240)  # the process imports for as long as a busy machine takes
        sandbox.deposit("USDT_TRC20", "-200")
        gone.write_text("")

    thread = threading.Thread(target=take)
    thread.start()
    ended = office.process(SLOWLY.format(ready=str(ready), gone=str(gone), line=line), runs="-c")
    thread.join()
    assert "at most 1021.59213367 USDT" in ended.out, ended.out + ended.err
    assert sandbox.orders() == []
    [why] = {row["reason"] for row in office.results("payroll").values()}
    assert "more has to be converted than was agreed to: start it again" in why
    again = pay(office, rules, "--yes", *FUND)
    assert (again.code, again.last) == (0, "3 settled"), again.out + again.err


def test_the_deployment_takes_the_hash_that_was_agreed_to_and_no_other(
    office: Office, sandbox: RunningSandbox, tmp_path: Path
) -> None:
    rules, sheet = policy(tmp_path, tail=PAYOUTS, BTC=BTC), office.sheet(*ROWS)
    call = f"pay_beneficiaries({str(sheet)!r}, 'payroll', policy={str(rules)!r}, fund=True, agreed={'0' * 64!r})"
    refused = office.python(f"from flows.pay_beneficiaries import pay_beneficiaries\nprint({call}['counts'])\n")
    assert "its plan is another one than was shown; nothing was sent" in refused.err, refused.out + refused.err
    assert sandbox.orders() == []


def test_approve_and_pay_funds_and_pays(office: Office, sandbox: RunningSandbox, tmp_path: Path) -> None:
    tail = PAYOUTS + '[payouts.one_approval_above]\nUSDT_TRC20 = "1000"\n'
    rules = policy(tmp_path, tail=tail, BTC=BTC)
    waits = pay(office, rules, "--yes", *FUND)
    assert waits.code == 3, waits.out + waits.err
    call = "approve_and_pay('payroll', name='Checker')"
    done = office.python(f"from flows.approve_and_pay import approve_and_pay\nprint({call}['counts'])\n")
    assert done.last == "{'settled': 3}", done.out + done.err
    assert kinds(sandbox).count("conversion_execute") == 1


def test_a_maker_signs_the_plan_that_was_shown_and_the_deployment_keeps_to_it(
    office: Office, sandbox: RunningSandbox, tmp_path: Path
) -> None:
    tail = PAYOUTS + '[payouts.one_approval_above]\nUSDT_TRC20 = "1000"\n'
    with_people(office, policy(tmp_path, tail=tail, BTC=BTC).read_text())
    sheet = office.sheet(*ROWS)
    signed = office.run("pay", sheet, "--run-key", "payroll", "--fund", "--key", key(office, "ada"), "--print")
    assert signed.code == 0, signed.out + signed.err
    sandbox.deposit("USDT_TRC20", "50")  # a plan of now would be another one
    call = f"pay_beneficiaries({str(sheet)!r}, 'payroll', fund=True, follow_seconds=20"
    code = "from flows.pay_beneficiaries import pay_beneficiaries\nprint({call}['counts'])\n"
    waits = office.python(code.format(call=f"{call}, proposal={signed.last!r})"))
    assert "needs 1 approval" in waits.err, waits.out + waits.err
    approved = office.run("approve", "payroll", "--key", key(office, "ben"), "--plan", waiting_hash(office, "payroll"))
    assert approved.code == 0, approved.out + approved.err
    done = office.python(code.format(call=f"{call})"))
    assert done.last == "{'settled': 3}", done.out + done.err
    assert kinds(sandbox).count("conversion_execute") == 1


def test_a_stop_converts_nothing_and_the_run_goes_on_after_it(
    office: Office, sandbox: RunningSandbox, tmp_path: Path
) -> None:
    rules = policy(tmp_path, tail=PAYOUTS, BTC=BTC)
    assert office.run("stop", "--by", "Ada", "--why", "wait").code == 0
    for _ in range(2):
        ended = pay(office, rules, "--yes", *FUND)
        assert (ended.code in (3, 4, 6), sandbox.orders()) == (True, []), (ended.code, ended.out, ended.err)
    assert office.run("stop", "--lift", "--by", "Ada").code == 0
    done = pay(office, rules, "--yes", *FUND)
    assert (done.code, done.last) == (0, "3 settled"), done.out + done.err
    assert kinds(sandbox).count("conversion_execute") == 1
