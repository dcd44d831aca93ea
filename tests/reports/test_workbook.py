"""The workbook: the JSON's content cell by cell, exact, harmless, and the same bytes for the same inputs."""

import os
import stat
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import pandas as pd
import pytest
from openpyxl import load_workbook
from openpyxl.workbook import Workbook

from tests.reports.builders import (
    HOSTILE,
    MEANINGS,
    SHEETS,
    a_break,
    empty_machine,
    listed,
    one_order_machine,
    order_frame,
    rich_machine,
    shuffled,
)
from treasury.reports import figures
from treasury.reports import reconciliation_book as written
from treasury.reports.figures import BALANCE_LINES, LINES
from treasury.reports.reconciliation_book import write_workbook
from treasury.reports.spreadsheets import PlainBook
from treasury.sheets.writing import printable, safe_cell


def write(folder: Path, machine: Mapping[str, Any], orders: pd.DataFrame) -> Workbook:
    write_workbook(folder / "reconciliation.xlsx", machine, listed(orders), MEANINGS)
    return load_workbook(folder / "reconciliation.xlsx")


def table(book: Workbook, name: str, top: int = 2) -> list[dict[str, Any]]:
    """The rows of a table beneath its header, up to the first empty one."""
    rows = list(book[name].iter_rows(min_row=top, values_only=True))
    header: list[Any] = [cell for cell in rows[0] if cell is not None]
    found = []
    for row in rows[1:]:
        if not any(cell is not None for cell in row):
            break
        found.append(dict(zip(header, row, strict=False)))
    return found


def shown(value: object) -> str | None:
    """A text of the JSON as a cell shows it: the same, unless it would run or cannot be held."""
    return printable(safe_cell(value)) or None


def number(text: str | None) -> float | None:
    return None if text is None else cast(float, pytest.approx(float(text)))


def as_time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text).replace(tzinfo=None)


def assert_break(row: Mapping[str, Any], each: Mapping[str, Any]) -> None:
    texts = {"Break": "id", "Class": "class", "Severity": "severity", "Currency": "currency", "Age": "age_bucket"}
    texts |= {"Lifecycle": "lifecycle", "Run": "run_key", "Row": "row_ref", "Operation": "operation"}
    texts |= {"Order number": "order_no", "Request id": "request_id", "Evidence": "evidence"}
    texts |= {"Next action": "next_action", "Amount (exact)": "amount", "Difference (exact)": "difference"}
    assert {title: row[title] for title in texts} == {title: shown(each[key]) for title, key in texts.items()}
    assert row["Amount"] == number(each["amount"])
    assert row["Difference"] == number(each["difference"])
    assert row["Days"] == each["age_days"]
    assert row["First seen (UTC)"] == as_time(each["first_seen"])


def test_the_breaks_are_those_of_the_json_in_its_order_and_apart(tmp_path: Path) -> None:
    machine = rich_machine()
    book = write(tmp_path, machine, order_frame(5, 5))
    assert book.sheetnames == SHEETS
    resolved = [each for each in machine["breaks"] if each["lifecycle"] == "resolved"]
    accepted = [each for each in machine["breaks"] if each["accepted"] and each not in resolved]
    stand = [each for each in machine["breaks"] if each not in resolved and each not in accepted]
    for name, breaks in (("Breaks", stand), ("Accepted", accepted), ("Resolved", resolved)):
        rows = table(book, name)
        assert len(rows) == len(breaks)
        for row, each in zip(rows, breaks, strict=True):
            assert_break(row, each)
    for row, each in zip(table(book, "Accepted"), accepted, strict=True):
        assert row["Accepted by"] == each["accepted"]["by"]
        assert row["Why"] == shown(each["accepted"]["why"])
        assert row["Accepted at (UTC)"] == as_time(each["accepted"]["at"])


def test_the_statement_and_the_balance_proof_are_exact(tmp_path: Path) -> None:
    machine = rich_machine()
    book = write(tmp_path, machine, order_frame(1, 1))
    rows = table(book, "Statement")
    told = {(row["Currency"], row["Line"]): row["Amount (exact)"] for row in rows}
    for line in machine["statement"]:
        assert {key: told[line["currency"], title] for key, title in LINES.items()} == {k: line[k] for k in LINES}
    below = len(rows) + 3 + 3  # two rows above, one between, title and note
    told_balances = {(row["Currency"], row["Line"]): row for row in table(book, "Statement", below)}
    for balance in machine["balances"]:
        for key, title in BALANCE_LINES.items():
            row = told_balances[balance["currency"], title]
            assert (row["Amount (exact)"], row["Amount"]) == (balance[key], number(balance[key]))


def test_the_summary_says_verdict_counts_and_sums(tmp_path: Path) -> None:
    machine = rich_machine("incomplete")
    sheet = write(tmp_path, machine, order_frame(1, 1))["Summary"]
    rows = [row for row in sheet.iter_rows(values_only=True) if row[0] is not None]
    assert rows[0][0] == "INCOMPLETE: Incomplete: this report cannot be signed yet"
    assert sheet["A1"].fill.fgColor.rgb.endswith("7A3E9D")
    by_name = {row[0]: row for row in rows}
    assert by_name["As of (UTC)"][1] == machine["as_of"]
    assert by_name["Since (UTC)"][1] == machine["since"]
    for name, count in machine["counts"].items():
        assert by_name[name][1:3] == (count, MEANINGS.get(name))
    for line in machine["statement"]:
        assert by_name[line["currency"]][1:] == tuple(number(line[key]) for key in LINES)
    assert any("The sums of IDR leave 0.01 unexplained." in row for row in rows)
    assert len(cast(Any, sheet)._charts) == 4


def test_orders_stand_with_exact_amounts_the_oldest_in_flight_first(tmp_path: Path) -> None:
    orders = order_frame(30, 40)
    book = write(tmp_path, rich_machine(), orders)
    expected = {each["request_id"]: each for each in orders.to_dict("records")}
    for name, many in (("In flight", 30), ("Matched", 40)):
        rows = table(book, name)
        assert len(rows) == many
        for row in rows:
            order = expected.pop(row["Request id"])
            for title, key in (("Amount", "amount"), ("Receive amount", "receive_amount"), ("Rate", "seen_rate")):
                text = None if pd.isna(order[key]) else order[key]
                assert (row[f"{title} (exact)"], row[title]) == (text, number(text))
            assert row["Row"] == shown(order["row_ref"])
            assert row["Made (UTC)"] == as_time(order["created_at"])
    assert not expected
    since = [row["Sent (UTC)"] or row["Made (UTC)"] for row in table(book, "In flight")]
    assert since == sorted(since)


def test_a_frame_of_texts_with_holes_is_as_good_as_one_of_objects(tmp_path: Path) -> None:
    orders = order_frame(6, 6)
    write(tmp_path / "a", rich_machine(), orders)
    write(tmp_path / "b", rich_machine(), orders.infer_objects().convert_dtypes())
    a, b = ((tmp_path / name / "reconciliation.xlsx").read_bytes() for name in "ab")
    assert a == b


def test_a_number_shows_no_digit_that_it_does_not_hold(tmp_path: Path) -> None:
    amounts = ["1250000", "12.50", "98765432109876.55", "123456789012345678.5", "-0.000000000000000001"]
    breaks = [a_break(number, amount=amount) for number, amount in enumerate(amounts)]
    sheet = write(tmp_path, empty_machine(breaks=breaks), order_frame(0, 0))["Breaks"]
    looks = [sheet.cell(row, 5).number_format for row in range(3, 8)]
    assert looks == ["#,##0", "#,##0.00", "#,##0.0", "0.00000000E+00", "#,##0.00000000000000"]
    exact = [sheet.cell(row, 6).value for row in range(3, 8)]
    assert [Decimal(str(text)) for text in exact] == [Decimal(text) for text in amounts]
    assert exact == amounts


def cells(book: Workbook) -> Iterator[Any]:
    return (cell for sheet in book for row in sheet.iter_rows() for cell in row if cell.value is not None)


def test_no_cell_runs_nor_will_when_it_is_saved_as_csv(tmp_path: Path) -> None:
    meanings = dict.fromkeys(MEANINGS, HOSTILE[0])
    machine = rich_machine()
    for line, text in zip(machine["balances"], HOSTILE, strict=False):
        line["note"] = line["currency"] = text
    path = tmp_path / "reconciliation.xlsx"
    write_workbook(path, machine, listed(order_frame(20, 20)), meanings)
    book = load_workbook(path)
    for cell in cells(book):
        assert cell.data_type != "f", cell
        assert cell.hyperlink is None
        if isinstance(cell.value, str):
            assert not cell.value.startswith(("=", "+", "@", "\t", "\r")), cell.value
            assert not cell.value.startswith("-") or Decimal(cell.value), cell.value
    with zipfile.ZipFile(path) as parts:
        for name in parts.namelist():
            if name.startswith("xl/worksheets/sheet"):
                assert b"<f>" not in parts.read(name)


def test_the_same_inputs_give_the_same_bytes_whatever_the_order_of_rows(tmp_path: Path) -> None:
    machine, orders = rich_machine(), order_frame(40, 60)
    files = []
    for name, frame in (("a", orders), ("b", orders), ("c", shuffled(orders))):
        write(tmp_path / name, machine, frame)
        files.append((tmp_path / name / "reconciliation.xlsx").read_bytes())
    assert files[0] == files[1] == files[2]


def test_long_lists_are_cut_and_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (written, figures):
        monkeypatch.setattr(module, "MAX_ORDERS", 7)
    monkeypatch.setattr(written, "MAX_BREAKS", 3)
    orders = order_frame(10, 12)
    book = write(tmp_path, rich_machine(), orders)
    assert (len(table(book, "In flight")), len(table(book, "Matched")), len(table(book, "Breaks"))) == (7, 7, 3)
    assert book["In flight"]["A1"].value.endswith("The first 7 are here; orders.csv has all.")
    assert book["Matched"]["A1"].value.startswith("12 orders on which both sides agree")
    assert book["Breaks"]["A1"].value.endswith("The first 3 are here; reconciliation.json has all.")
    made = orders[orders["class"] == "matched"]["created_at"].sort_values(ascending=False).head(7)
    assert [row["Made (UTC)"] for row in table(book, "Matched")] == [as_time(text) for text in made]


def test_a_text_longer_than_a_cell_is_cut_and_says_so(tmp_path: Path) -> None:
    machine = empty_machine(breaks=[a_break(1, evidence="x😀" * 40_000)])
    [row] = table(write(tmp_path, machine, order_frame(0, 0)), "Breaks")
    assert len(row["Evidence"].encode("utf-16-le")) // 2 <= 32_767
    assert row["Evidence"].endswith("(cut here; a file beside this one has all of it)")


def test_a_plain_workbook_names_no_file_that_is_not_there(tmp_path: Path) -> None:
    book = PlainBook(tmp_path / "results.xlsx")
    book.add("Results", ("reason",), [{"reason": "x" * 40_000}], {})
    book.finish()
    cell = load_workbook(tmp_path / "results.xlsx")["Results"]["A2"].value
    assert cell == "x" * 16_000 + " ... (cut here; a file beside this one has all of it)"


@pytest.mark.parametrize("machine", [empty_machine(), one_order_machine()], ids=["empty", "one order"])
def test_little_makes_a_workbook_too(tmp_path: Path, machine: Mapping[str, Any]) -> None:
    orders = order_frame(sum(machine["counts"].values()), 0)
    book = write(tmp_path, machine, orders)
    assert book.sheetnames == SHEETS
    assert table(book, "Breaks") == []
    assert len(table(book, "In flight")) == len(orders)


def test_headers_are_frozen_and_filtered_and_the_file_is_private(tmp_path: Path) -> None:
    book = write(tmp_path, rich_machine(), order_frame(3, 3))
    for name in ("Breaks", "Accepted", "Resolved", "In flight", "Matched", "Settings"):
        assert book[name].freeze_panes == "B3"
        assert book[name].auto_filter.ref.startswith("A2:")
    assert stat.S_IMODE((tmp_path / "reconciliation.xlsx").stat().st_mode) == 0o600


WRITES = """
import resource, sys
from pathlib import Path
from treasury.reports.spreadsheets import PlainBook
path, most = Path(sys.argv[1]), int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
book = PlainBook(path)
for number, _ in enumerate(book.over("Rows", ("name",), ({"name": str(each)} for each in range(100_000)), {})):
    if most > 10_000_000 and number == 50_000:
        print(*Path(sys.argv[3]).iterdir(), flush=True)
        resource.prlimit(0, resource.RLIMIT_CPU, (0, 0))
book.finish()
"""


@pytest.mark.parametrize("most", [100_000, 100_000_000], ids=["full disk", "killed"])
def test_rows_wait_beside_their_workbook_and_a_full_disk_is_said_to_be_so(tmp_path: Path, most: int) -> None:
    own, others = tmp_path / "own", tmp_path / "others"
    others.mkdir()
    arguments = [sys.executable, "-c", WRITES, str(own / "results.xlsx"), str(most), str(others)]
    ended = subprocess.run(
        arguments, env={**os.environ, "TMPDIR": str(others)}, capture_output=True, text=True, check=False, timeout=60
    )
    assert list(others.iterdir()) == []
    if most == 100_000:
        assert (ended.returncode, "OSError: [Errno 27] File too large" in ended.stderr) == (1, True)
        assert list(own.iterdir()) == []
    else:
        assert (ended.returncode < 0, ended.stdout.strip()) == (True, "")
        assert [file.name.startswith(".results.xlsx.") for file in own.iterdir()] == [True]


def test_what_a_sheet_does_not_hold_is_said_to_be_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("treasury.reports.spreadsheets.MAX_LINES", 3)  # of a million, which take a minute
    book = PlainBook(tmp_path / "book.xlsx")
    rows = [{"number": number} for number in range(5)]
    assert list(book.over("Rows", ("number",), rows, {})) == rows
    book.finish()
    [header, *written] = load_workbook(tmp_path / "book.xlsx")["Rows"].iter_rows(values_only=True)
    assert (header, written[:2], len(written)) == (("number",), [(0,), (1,)], 3)
    assert str(written[2][0]).startswith("cut here")
