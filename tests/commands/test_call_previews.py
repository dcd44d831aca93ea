"""`treasury call` before a yes: it says the most that leaves, the service's terms, holds, approvals, limits."""

import json
import re
from collections.abc import Callable
from decimal import ROUND_UP, Decimal
from typing import Any

import pytest

from tests.commands.office import Ended, Office
from treasury.sandbox import Behaviour, RunningSandbox, build_promptpay

ADDRESS = "TVk631BotbQQSHGAUSRhDKGzHomE8EyrCW"
POLICY = """
[withdrawals.max_per_payout]
USDT_TRC20 = "500"
[withdrawals.one_approval_above]
USDT_TRC20 = "100"
[payouts.max_per_payout]
USDT = "500"
"""


@pytest.fixture(scope="module")
def sandbox(open_sandbox: Callable[..., RunningSandbox]) -> RunningSandbox:
    """A service that charges the fees of withdrawals on top."""
    return open_sandbox(behaviour=Behaviour(fee_on_top=frozenset({"withdraw"})))


@pytest.fixture(scope="module")
def office(sandbox: RunningSandbox, open_office: Callable[..., Office]) -> Office:
    nowhere = {"PREFECT_API_URL": "http://127.0.0.1:9/api"}
    office = open_office(sandbox.base_url, prefect=False, TREASURY_FEE_ON_TOP="withdraw", **nowhere)
    assert office.run("policy", "adopt", office.file("policy.toml", POLICY), "--by", "Ada Example").code == 0
    return office


def call(office: Office, operation: str, fields: dict[str, Any], *more: str) -> Ended:
    return office.run("call", operation, "--json", json.dumps(fields), *more)


def withdrawal(reference: str, amount: str) -> dict[str, str]:
    fields = {"request_id": reference, "currency": "USDT_TRC20", "amount": amount, "customer_ref_id": "c"}
    return {**fields, "address": ADDRESS}


def test_the_most_that_leaves_and_what_arrives_are_said(office: Office, sandbox: RunningSandbox) -> None:
    ended = call(office, "withdraw", withdrawal("w-1", "50"))
    assert (ended.code, "nothing was sent" in ended.last) == (3, True)
    margin = "51.51"  # 50, a fee of 0.5, and 2 %
    terms = "about 50 arrive: the fee is 0.5, on top"
    assert ended.out.splitlines()[1:-1] == [f"at the most {margin} USDT_TRC20 leaves", terms]
    assert sandbox.orders() == []
    assert office.desk().ledger.orders() == []


def test_a_code_is_said_with_what_it_costs_and_its_margin(office: Office) -> None:
    code = build_promptpay("0812345678", name="Example Shop")
    fields = {
        "request_id": "q-1",
        "qrcode": code,
        "amount": "350",
        "user_xid": "u-1",
        "notify_url": "https://a.example.com",
    }
    most, terms = call(office, "submit_scan_to_pay", fields).out.splitlines()[1:-1]
    amount, fee = (Decimal(found) for found in re.findall(r"([0-9.]+) USDT at .* fee of ([0-9.]+)", terms)[0])
    ceiling = ((amount + fee) * Decimal("1.02")).quantize(Decimal("0.01"), ROUND_UP)
    assert most == f"at the most {ceiling.normalize():f} USDT leaves"


def test_a_limit_is_said_before_the_yes(office: Office) -> None:
    over = call(office, "withdraw", withdrawal("w-2", "501"))
    assert (over.code, "over the policy's limit of 500" in over.err) == (2, True), over.out + over.err


def test_approvals_are_said_before_the_yes(office: Office) -> None:
    said = call(office, "withdraw", withdrawal("w-3", "101")).out
    assert "approvals needed: 1 (" in said, said


def test_what_looks_like_an_earlier_one_is_said_to_be_held(office: Office) -> None:
    assert call(office, "withdraw", withdrawal("w-4", "20"), "--yes").code == 0
    again = call(office, "withdraw", withdrawal("w-5", "20"))
    assert (again.code, "would be held: " in again.out) == (3, True), again.out
    same = call(office, "withdraw", withdrawal("w-4", "20"))
    assert "was made before, and is in progress" in same.out, same.out
