"""One payee, or one asset, under two names: a payment to it under the other name is held as a duplicate."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.engine import paying
from tests.engine.judged import start
from tests.engine.planned import PlannedService
from tests.engine.runs import sheet
from tests.ibans import german_iban
from treasury.payees import look_of_payee, payee_key
from treasury.payments.desk import Desk

OpenDesk = Callable[..., Desk]


@pytest.mark.parametrize("other", ["USDT", "USDT_ERC20"])
def test_the_same_list_paid_from_the_asset_of_another_network_is_held(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path, other: str
) -> None:
    sandbox = start_sandbox()
    desk = open_desk(sandbox.base_url)
    file = sheet(tmp_path, ("a", "10", "12345670001"))
    start(desk, file, "one")
    file.write_text(file.read_text().replace("USDT_TRC20", other))
    assert start(desk, file, "two") == {"a": "held"}
    assert len(sandbox.orders()) == 1


WALLET, GERMAN = "ID,PHONE,,ovo", "DE,,DEUTDEFF,"
ONE_ACCOUNT = [
    pytest.param((WALLET, "081212345671"), (WALLET, "+62 812-1234-5671"), id="phone"),
    pytest.param(("TH,PHONE,,promptpay", "0812345670"), ("TH,PHONE,,promptpay", "66812345670"), id="without its +"),
    pytest.param(("ID,,1000120,", "0012345670001"), ("ID,,1000120,", "12345670001"), id="zeros that a program dropped"),
    pytest.param(("ID,EMAIL,,dana", "jo@b.example"), ("ID,EMAIL,1,dana", "jo@b.example"), id="a code that is not used"),
    pytest.param((GERMAN, german_iban(1)), ("DE,,DEUTDEFFXXX,", german_iban(1).lower()), id="IBAN"),
]
"""Two spellings of one account: country, account_type, bank_code and wallet_code, with the account."""


@pytest.mark.parametrize(("first", "second"), ONE_ACCOUNT)
def test_an_account_in_another_spelling_is_held_as_a_duplicate(
    open_desk: OpenDesk, service: PlannedService, tmp_path: Path, first: tuple[str, str], second: tuple[str, str]
) -> None:
    columns = (
        "row_ref,route,amount,currency,settle_currency,payout_method,account_name,phone,email,country,account_type"
    )
    columns += ",bank_code,wallet_code,account_no"
    rows = ",direct,10,USDT,EUR,{},Example Person,628120000,p@b.example,{},{}"
    lines = [
        ref + rows.format("wallet_transfer" if "PHONE" in of or "EMAIL" in of else "bank_transfer", of, account)
        for ref, (of, account) in (("a", first), ("b", second))
    ]
    file = tmp_path / "rows.csv"
    file.write_text("\n".join([columns, *lines]) + "\n")
    desk = open_desk(service.base_url)
    paying.commit(desk, file, "run", None)
    assert [each.state.outcome for each in desk.ledger.orders(run_key="run")] == ["not_sent", "held"]


def test_an_account_of_another_bank_or_person_is_no_duplicate() -> None:
    """Of a number that is no IBAN another bank is another account; so is another digit."""
    own = look_of_payee(payee_key("12345670001", "ID", "1000120"))
    others = [("12345670001", "1000121"), ("123456700010", "1000120"), ("120345670001", "1000120")]
    assert own not in {look_of_payee(payee_key(account, "ID", bank)) for account, bank in others}
    assert payee_key(german_iban(1), "DE", "A") != payee_key(german_iban(1), "DE", "B")  # a new payee, none the less
