"""Result files: whole or not at all, for their owner alone, and harmless in a spreadsheet program."""

import csv
import json
import stat
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treasury.errors import InvalidSheet, RowProblem
from treasury.files import write_bytes, write_json, write_text
from treasury.sheets.writing import printable, write_csv, write_errors


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_csv_has_plain_amounts_blank_nones_and_lf(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    rows = [{"ref": "r1", "amount": Decimal("1E+2"), "note": None}, {"ref": "ä,b", "amount": Decimal("-12.50")}]
    write_csv(path, ("ref", "amount", "note"), rows)
    assert path.read_bytes() == 'ref,amount,note\nr1,100,\n"ä,b",-12.50,\n'.encode()


@pytest.mark.parametrize("text", ["=1+1", "+62811", "-x", "@sum", "\tx", "=cmd|'/c calc'!A0", "-1+2"])
def test_what_a_spreadsheet_would_run_is_made_text(tmp_path: Path, text: str) -> None:
    path = tmp_path / "out.csv"
    write_csv(path, ("a",), [{"a": text}])
    with path.open(newline="") as file:
        assert list(csv.reader(file))[1] == [f"'{text}"]


@pytest.mark.parametrize("value", ["-12.50", "-3", Decimal("-0.01"), -4, "a=b", ""])
def test_numbers_stay_numbers(tmp_path: Path, value: object) -> None:
    path = tmp_path / "out.csv"
    write_csv(path, ("a", "b"), [{"a": value, "b": 1}])
    with path.open(newline="") as file:
        assert list(csv.reader(file))[1][0] == str(value)


@settings(deadline=None)  # a busy machine is no reason to fail
@given(cells=st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1))
def test_no_cell_begins_like_a_formula(tmp_path_factory: pytest.TempPathFactory, cells: list[str]) -> None:
    path = tmp_path_factory.mktemp("csv") / "out.csv"
    write_csv(path, ("key", "cell"), [{"key": "k", "cell": cell} for cell in cells])
    with path.open(newline="", encoding="utf-8") as file:
        read = [row["cell"] for row in csv.DictReader(file)]
    assert len(read) == len(cells)
    assert not [cell for cell in read if cell.startswith(tuple("=+@\t\r"))]
    assert not [cell for cell in read if cell.startswith("-") and not cell[1:].replace(".", "", 1).isdigit()]


def test_a_line_break_becomes_a_space(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    write_csv(path, ("a", "b"), [{"a": "one\r\ntwo\rthree", "b": "\r=1+1"}])
    assert path.read_bytes() == b"a,b\none two three, =1+1\n"


def test_an_unknown_column_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="typo"):
        write_csv(tmp_path / "out.csv", ("a",), [{"typo": 1}])


def test_files_and_new_folders_are_for_their_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "runs" / "november" / "out.txt"
    write_text(path, "hello\n")
    assert path.read_bytes() == b"hello\n"
    assert (mode(path), mode(path.parent), mode(path.parent.parent)) == (0o600, 0o700, 0o700)


def test_a_file_is_replaced_and_made_private(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    path.write_text("old")
    path.chmod(0o644)
    write_text(path, "new")
    assert path.read_text() == "new"
    assert mode(path) == 0o600


def test_an_error_while_writing_leaves_what_was_there(tmp_path: Path) -> None:
    def rows() -> Iterator[dict[str, object]]:
        yield {"a": 1}
        raise RuntimeError("the source failed")

    path = tmp_path / "out.csv"
    write_text(path, "old")
    with pytest.raises(RuntimeError):
        write_csv(path, ("a",), rows())
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_json_keeps_amounts_exact(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    write_json(
        path, {"amount": Decimal("1E+2"), "day": date(2026, 11, 3), "at": datetime(2026, 1, 2, tzinfo=UTC), "ü": 1}
    )
    assert json.loads(path.read_text()) == {
        "amount": "100",
        "day": "2026-11-03",
        "at": "2026-01-02T00:00:00+00:00",
        "ü": 1,
    }
    assert "ü" in path.read_text()


@pytest.mark.parametrize("items", [[], [1], [{"x": Decimal("1.50"), "y": [1, {"z": "a\nb"}]}, {}, None, []]])
def test_an_iterator_is_written_as_the_list_it_would_be(tmp_path: Path, items: list[object]) -> None:
    one, other = tmp_path / "one.json", tmp_path / "other.json"
    rest = {"ü": {"deep": [1, 2]}, "empty": {}, "none": None}
    write_json(one, {"before": "x", "items": iter(items), **rest})
    write_json(other, {"before": "x", "items": items, **rest})
    assert one.read_bytes() == other.read_bytes()


def test_an_iterator_that_fails_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    write_json(tmp_path / "out.json", {"items": [1]})
    before = (tmp_path / "out.json").read_bytes()
    with pytest.raises(TypeError):
        write_json(tmp_path / "out.json", {"items": iter([1, object()])})
    assert (tmp_path / "out.json").read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("value", [{"a": object()}, {"a": float("nan")}, {"a": Decimal("NaN")}])
def test_what_has_no_json_form_is_an_error_and_writes_nothing(tmp_path: Path, value: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        write_json(tmp_path / "out.json", value)
    assert list(tmp_path.iterdir()) == []


def test_the_error_report_has_a_line_for_each_problem(tmp_path: Path) -> None:
    path = tmp_path / "errors.csv"
    columns = ("row", "row_ref", "column", "rule", "value", "code")
    problems = [
        RowProblem(2, "r1", "amount", "must be greater than zero", "'-1'", code="not_positive"),
        RowProblem(0, None, "file", "is empty", code="empty"),
    ]
    write_errors(path, InvalidSheet("sheet.csv", problems))
    with path.open(newline="") as file:
        assert list(csv.DictReader(file)) == [
            dict(zip(columns, ("2", "r1", "amount", "must be greater than zero", "'-1'", "not_positive"), strict=True)),
            dict(zip(columns, ("", "", "file", "is empty", "", "empty"), strict=True)),
        ]


def test_bytes_are_written_as_they_are_for_the_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "out.bin"
    write_bytes(path, b"\x00\r\n\xff")
    assert path.read_bytes() == b"\x00\r\n\xff"
    assert mode(path) == 0o600


def test_what_a_page_cannot_hold_is_shown_as_such() -> None:
    assert printable("a\x00b\x1b\ud800\uffff\tc\n") == "a�b���\tc\n"
    assert printable("Zoë 名 😀") == "Zoë 名 😀"
