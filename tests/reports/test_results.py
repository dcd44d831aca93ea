"""Results: what they say of an order besides where it stands, and the workbook that holds the same rows."""

import csv
import time
import tracemalloc
from collections.abc import Iterator
from dataclasses import fields
from decimal import Decimal
from pathlib import Path
from typing import Any

import openpyxl
import pytest

from tests.parts import DIRECT, QUOTED
from tests.parts import sheet as sheet_of
from treasury.masking import mask
from treasury.orders.records import Order, Quote, Stage
from treasury.orders.states import State
from treasury.reports.details import Details
from treasury.reports.results import COLUMNS, Marks, write_run_results
from treasury.sheets.beneficiaries import read_beneficiaries


def order(number: int, **values: Any) -> Order:
    known = {
        "id": number,
        "run_key": "run",
        "row_ref": f"r{number}",
        "operation": "create_fiat_payout",
        "request_id": f"tf-{number:026d}",
        "state": State.SETTLED,
        "currency": "USDT",
        "amount": Decimal("10.00"),
        "receive_currency": "EUR",
        "receive_amount": Decimal("9.00"),
        "final_at": 1_793_000_000_000,
    }
    return Order.of(dict.fromkeys(field.name for field in fields(Order)) | known | values)


def quote(order_id: int, **values: Any) -> Quote:
    known = {
        "order_id": order_id,
        "quote": "Q-1",
        "pay_currency": "USDT",
        "pay_amount": Decimal(10),
        "receive_currency": "EUR",
        "receive_amount": Decimal("9.1"),
        "rate": Decimal("0.91"),
        "stage": Stage.DONE,
    }
    return Quote.of(Quote.unanswered() | known | values)


def quoted_rows(folder: Path, count: int = 1) -> Any:
    return read_beneficiaries(sheet_of(folder, count, {**QUOTED, "description": "-November"}))


def test_an_order_says_whom_it_pays_and_what_was_asked_quoted_and_final(tmp_path: Path) -> None:
    quotes = [quote(0, receive_amount=Decimal(8)), quote(0), quote(0, quote=None, pay_amount=None)]
    details = Details.of(quoted_rows(tmp_path), quotes, ())
    assert details.cells(order(0)) == {
        "payee_name": "Example Person",
        "account_last4": "0000",
        "reference": "-November",
        "asked_amount": Decimal("10.00"),
        "asked_currency": "USDT",
        "quoted_amount": Decimal(10),
        "quoted_receive_amount": Decimal("9.1"),
        "quoted_rate": Decimal("0.91"),
        "final_amount": Decimal("10.00"),
        "final_receive_amount": Decimal("9.00"),
        "effective_rate": Decimal("0.9"),
        "quote_difference_bps": Decimal("-109.89"),
        "value_date": "2026-10-26",
    }
    assert "Example Person" not in repr(details)


def test_a_fee_on_top_counts_into_the_effective_rate_of_both(tmp_path: Path) -> None:
    fee = {"fee": Decimal(2), "fee_currency": "USDT"}
    for on_top, rate in (({"create_fiat_payout"}, "0.75"), ((), "0.9")):
        cells = Details.of((), [quote(0, receive_amount=Decimal(9), **fee)], on_top).cells(order(0, **fee))
        assert (cells["effective_rate"], cells["quote_difference_bps"]) == (Decimal(rate), Decimal(0))
    other = Details.of((), (), {"create_fiat_payout"}).cells(order(0, fee=Decimal(2), fee_currency="EUR"))
    assert other["effective_rate"] == Decimal("0.9")


@pytest.mark.parametrize("state", [state for state in State if state is not State.SETTLED])
def test_what_did_not_settle_has_no_final_amount_rate_or_date(state: State, tmp_path: Path) -> None:
    cells = Details.of(quoted_rows(tmp_path), [quote(0)], ()).cells(order(0, state=state))
    assert cells["asked_amount"] == Decimal("10.00")
    for name in ("final_amount", "final_receive_amount", "effective_rate", "quote_difference_bps", "value_date"):
        assert cells.get(name) is None


def test_a_row_that_is_not_in_this_sheet_stays_blank(tmp_path: Path) -> None:
    cells = Details.of(quoted_rows(tmp_path), (), ()).cells(order(7))
    assert not {"payee_name", "account_last4", "reference", "asked_amount"} & cells.keys()


def test_a_direct_row_has_its_remark_and_an_account_of_four_digits_is_not_shown(tmp_path: Path) -> None:
    [row] = read_beneficiaries(sheet_of(tmp_path, 1, DIRECT | {"remark": "Invoice 7"}))
    assert Details.of([row], (), ()).rows["r0"].reference == "Invoice 7"
    row.fields["account_no"] = "1234"  # type: ignore[index]
    assert Details.of([row], (), ()).rows["r0"].last == ""


def test_an_account_in_groups_ends_as_the_same_account_in_one_piece(tmp_path: Path) -> None:
    [row] = read_beneficiaries(sheet_of(tmp_path, 1, DIRECT))
    for account in ("DE02120300000000202051", "DE02 1203 0000 0000 2020 51", "DE02-1203-0000-0000-2020-51"):
        row.fields["account_no"] = account  # type: ignore[index]
        assert Details.of([row], (), ()).rows["r0"].last == "2051"
        assert mask(account) == "***2051"


def write(folder: Path, orders: Any, **more: Any) -> Any:
    write_run_results(folder, "run", "payout", orders, **more)
    return openpyxl.load_workbook(folder / "results.xlsx")


def test_the_workbook_holds_the_rows_of_the_csv_to_the_last_digit(tmp_path: Path) -> None:
    orders = [
        order(0, status=99, reason="=cmd|x"),
        order(1, amount=Decimal("123456789012345678.123456789012345678"), state=State.HELD, receive_amount=None),
        order(2, amount=Decimal("0.000000000000000001"), currency="BTC"),
    ]
    details = Details.of(quoted_rows(tmp_path, 3), (), ())
    book = write(tmp_path / "out", orders, details=details, marks=Marks(approved_by=("Ada",)))
    header, *rows = [[cell.value for cell in row] for row in book["Results"]]
    with (tmp_path / "out" / "results.csv").open(newline="") as file:
        listed, *lines = csv.reader(file)
    assert header == listed == list(COLUMNS)
    for row, line in zip(rows, lines, strict=True):
        shown = ["" if value is None else str(value) for value in row]
        for name, cell, text in zip(header, shown, line, strict=True):
            assert cell == text or Decimal(cell) == Decimal(text), name
    assert not [cell for row in book["Results"] for cell in row if cell.data_type == "f"]
    types = {cell.value: cell.data_type for cell in book["Results"]["H"][1:]}
    assert types == {10: "n", "123456789012345678.123456789012345678": "s", "0.000000000000000001": "s"}
    assert (book["Results"].freeze_panes, book["Results"].auto_filter.ref.startswith("A1:")) == ("B2", True)
    assert (tmp_path / "out" / "results.xlsx").stat().st_mode & 0o777 == 0o600
    [start] = (tmp_path / "out" / "starts").iterdir()
    assert (start / "results.xlsx").read_bytes() == (tmp_path / "out" / "results.xlsx").read_bytes()


def test_totals_stand_per_outcome_and_currency(tmp_path: Path) -> None:
    orders = [order(0), order(1, amount=Decimal("0.10")), order(2, state=State.HELD), order(3, currency="BTC")]
    orders.append(order(4, state=State.FAILED, amount=None))
    book = write(tmp_path, orders)
    assert [[cell.value for cell in row] for row in book["Totals"]] == [
        ["outcome", "currency", "rows", "amount"],
        ["settled", "BTC", 1, 10],
        ["settled", "USDT", 2, 10.1],
        ["failed", "USDT", 1, None],
        ["held", "USDT", 1, 10],
    ]


def test_a_run_that_cannot_be_read_to_its_end_leaves_what_was_there(tmp_path: Path) -> None:
    def broken() -> Iterator[Order]:
        yield order(0)
        raise RuntimeError("the ledger went away")

    write(tmp_path, [order(0)])
    before = {file.name: file.read_bytes() for file in tmp_path.glob("results.*")}
    with pytest.raises(RuntimeError):
        write(tmp_path, broken())
    assert {file.name: file.read_bytes() for file in tmp_path.glob("results.*")} == before


def test_ten_times_the_rows_take_ten_times_as_long_and_little_memory(tmp_path: Path) -> None:
    """Memory of the rows' own: what is written already takes none."""
    details = Details.of((), (), ())
    seconds = {1_000: 0.0, 10_000: 0.0}
    for count in (1_000, 10_000, 1_000):  # the few before and after: a machine that others slow slows both
        started = time.process_time()
        write_run_results(tmp_path, "run", "payout", (order(number) for number in range(count)), details=details)
        seconds[count] = max(seconds[count], time.process_time() - started)
    assert seconds[10_000] < 20 * seconds[1_000]
    most = {}
    for count in (200, 2_000):
        tracemalloc.start()
        write_run_results(tmp_path, "run", "payout", (order(number) for number in range(count)), details=details)
        most[count] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert most[2_000] - most[200] < 2_000 * 600


def test_whom_an_order_pays_is_taken_from_earlier_results_of_that_very_order() -> None:
    said = {"row_ref": "r7", "payee_name": "Ann Example", "account_last4": "0007", "asked_currency": "EUR"}
    ours, other = order(7), order(7)
    details = Details.of((), (), (), [{**said, "request_id": ours.request_id, "asked_amount": "7.00"}])
    assert details.cells(ours)["payee_name"] == "Ann Example"
    details = Details.of((), (), (), [{**said, "request_id": "tf-of-another-run", "asked_amount": "7.00"}])
    assert "payee_name" not in details.cells(other)
