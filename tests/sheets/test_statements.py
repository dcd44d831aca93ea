"""A statement of the service in a sheet: what is read of a line, to its last digit, and what is refused."""

from decimal import Decimal
from pathlib import Path

import pytest

from treasury.errors import InvalidSheet
from treasury.reconciliation.entries import StatementEntry
from treasury.sheets.statement import read_statement


def line(folder: Path, currency: str, amount: str, fee_currency: str = "") -> StatementEntry:
    file = folder / "statement.csv"
    file.write_text(f"order_no,currency,amount,fee,fee_currency\nX1,{currency},{amount},1,{fee_currency}\n")
    [entry] = read_statement(file).entries
    return entry


@pytest.mark.parametrize("sign", ["", "-"])
def test_an_amount_is_read_to_its_last_digit(sign: str, tmp_path: Path) -> None:
    amount = "123456789012345678901234567890.123456789012345678"
    assert line(tmp_path, "ETH", sign + amount).amount == Decimal(amount)


@pytest.mark.parametrize(("currency", "fee_currency"), [("usdt_trc20", ""), ("USDT TRC20", ""), ("USDT", "usdt")])
def test_a_currency_that_is_written_otherwise_than_the_accounts_know_it_is_refused(
    currency: str, fee_currency: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidSheet, match="must be written in capitals, as the service lists it"):
        line(tmp_path, currency, "5", fee_currency)
