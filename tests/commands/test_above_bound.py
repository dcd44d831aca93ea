"""A debit that nothing on the wire bounds, and that is more than its plan allowed for: a break, and the run stops."""

import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

import data
from tests.commands.office import Ended, Office
from treasury.promptpay import build_promptpay
from treasury.sandbox import Behaviour, RunningSandbox

pytestmark = [pytest.mark.prefect, pytest.mark.no_real_pauses]

D = Decimal
BY = ("--by", "Ada Example")
ON_TOP = frozenset({"withdraw", "payout", "submit_scan_to_pay"})


@pytest.fixture
def sandbox(open_sandbox: Callable[..., RunningSandbox]) -> RunningSandbox:
    """Its payments cost thirty times the fee that it estimates, on top."""
    balances = {"USDT": D(1000), "USDT_TRC20": D(1000)}
    return open_sandbox(balances=balances, behaviour=Behaviour(fee_on_top=ON_TOP, fee_times=30))


@pytest.fixture
def office(sandbox: RunningSandbox, open_office: Callable[..., Office], prefect_url: str) -> Office:
    return open_office(sandbox.base_url, TREASURY_FEE_ON_TOP=",".join(sorted(ON_TOP)))


TRON = "TDBaAMzsQ3d7xqqgw8CWCzbAZGPdARHsMa"


def start(office: Office, command: str, key: str, file: Any, *more: str) -> Ended:
    return office.run(command, file, "--run-key", key, "--follow", "20", "--yes", *more)


def rows(office: Office, command: str, *refs: str) -> Any:
    """A sheet of payments of 100 each, to addresses, to an account, or by codes of some 100 USDT."""
    if command == "pay":
        return office.sheet(*((ref, "100", f"1234567{number:04d}") for number, ref in enumerate(refs)))
    if command == "withdraw":
        lines = [f"{ref},USDT_TRC20,{TRON},{100 + number},treasury" for number, ref in enumerate(refs)]
        return office.file("out.csv", "\n".join(["row_ref,currency,address,amount,customer_ref_id", *lines]) + "\n")
    lines = [
        f"{ref},{build_promptpay('0812345678', D(3500 + number))},{3500 + number},owner-1,https://hooks.example.com/p"
        for number, ref in enumerate(refs)
    ]
    return office.file("codes.csv", "\n".join(["row_ref,qrcode,amount,user_xid,notify_url", *lines]) + "\n")


def breaks(office: Office) -> list[dict[str, Any]]:
    assert office.run("reconcile").code in (4, 5)
    report = json.loads(next(office.home.glob("nights/*/reconciliation.json")).read_text())
    return [each for each in report["breaks"] if each["class"] == "above_bound"]


@pytest.mark.parametrize("command", ["withdraw", "pay", "scan-pay"])
def test_it_is_a_break_and_the_rest_of_its_run_waits_for_a_person(
    command: str, office: Office, sandbox: RunningSandbox
) -> None:
    start(office, command, "r", rows(office, command, "a"))
    assert len(sandbox.orders()) == 1
    more = start(office, command, "r", rows(office, command, "a", "b"), "--add")
    assert more.code == 4
    assert "a debited" in more.out + more.err
    assert "more than the plan allowed for" in more.out + more.err
    assert len(sandbox.orders()) == 1

    [found] = breaks(office)
    assert D(found["difference"]) > 20
    assert f"treasury accept {found['id']}" in more.out + more.err
    assert office.run("accept", found["id"], *BY, "--why", "the service raised its fees").code == 0
    start(office, command, "r", rows(office, command, "a", "b"), "--add")
    assert len(sandbox.orders()) == 2


@pytest.mark.parametrize("most", ["", "2000"])
def test_a_quote_whose_fee_on_top_passes_its_ceiling_is_not_confirmed(
    most: str, open_sandbox: Callable[..., RunningSandbox], open_office: Callable[..., Office], prefect_url: str
) -> None:
    """The amount paid, some 1,901, is below the ceiling; with the fee, a hundred times what is usual, it is above."""
    behaviour = Behaviour(fee_on_top=frozenset({"create_fiat_payout"}), fee_times=100)
    sandbox = open_sandbox(balances={"USDT": D(9000)}, behaviour=behaviour)
    office = open_office(sandbox.base_url, TREASURY_FEE_ON_TOP="create_fiat_payout")
    assert start(office, "pay", "r", invoice(office, most)).code == 4
    [row] = office.results("r").values()
    assert (row["outcome"], sandbox.orders()) == ("not_sent", []), row
    assert "the quote's debit with its fee on top is 202" in row["reason"]
    assert office.run("cancel", "r", *BY, "--why", "too dear").code == 0
    assert start(office, "pay", "s", invoice(office, "2100")).code == 0
    assert len(sandbox.orders()) == 1


def invoice(office: Office, most: str) -> Any:
    """The row of the sample that fixes what is received, 1,900 USD, and this ceiling."""
    head, *lines = data.path("beneficiaries.csv").read_text().splitlines()
    row = next(line for line in lines if ",dest," in line)
    return office.file(f"most-{most}.csv", f"{head},max_pay_amount\n{row},{most}\n")
