"""Workbooks being written: formats, and tables whose cells are safe, exact and cheap."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

from treasury.money import exact, format_amount
from treasury.orders.states import OUTCOMES
from treasury.sheets.writing import BookFile, printable, safe_cell

MAX_TEXT = 16_000
"""Characters of a cell. Excel holds 32,767 and counts some characters as two; more than this nobody reads there."""

MAX_LINES = 1_048_575
"""Rows of a sheet below its header; a spreadsheet holds no more."""

FLOAT_DIGITS = 15
"""Significant digits that a spreadsheet's number holds."""

INK, HEADER, RULE = "#1b1f24", "#eef1f5", "#c9d1da"

_LEADS = ("=", "+", "-", "@")

_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")


@dataclass(frozen=True)
class Column:
    """One column of a table. `money` makes two: the number to reckon with, and beside it the exact text."""

    title: str
    key: str
    width: int = 14
    kind: Literal["text", "money", "count", "time"] = "text"

    @property
    def cells(self) -> int:
        """How many cells of a row it takes."""
        return 2 if self.kind == "money" else 1


class WrittenBook(BookFile):
    """A workbook of tables for people: its sheets, and cells by kind."""

    def __init__(self, path: Path, as_of: str = "", title: str = "Reconciliation") -> None:
        """`as_of`: UTC text; it stands as the file's time, so that the same inputs give the same bytes."""
        super().__init__(path)
        self.book.set_properties({"title": title, "created": as_time(as_of) or datetime(2000, 1, 1)})  # noqa: DTZ001
        self.plain = self.book.add_format({"valign": "top"})
        header = {"bold": True, "bg_color": HEADER, "bottom": 1, "border_color": RULE, "valign": "top"}
        self.header = self.book.add_format(header)
        self.number_header = self.book.add_format({**header, "align": "right"})
        self.indented = self.book.add_format({"indent": 1, "align": "left", "valign": "top"})
        self.title = self.book.add_format({"bold": True, "font_size": 13})
        self.note = self.book.add_format({"italic": True, "font_color": "#57606a"})
        self._time = self.book.add_format({"num_format": "yyyy-mm-dd hh:mm:ss", "valign": "top", "align": "left"})
        self._count = self.book.add_format({"num_format": "#,##0", "valign": "top"})
        self._exact = self.book.add_format({"align": "right", "num_format": "@", "valign": "top"})
        self._money: dict[str, Any] = {}

    def sheet(self, name: str) -> Any:
        """A new sheet, which prints on A4 across."""
        sheet = self.book.add_worksheet(name)
        sheet.set_landscape()
        sheet.set_paper(9)
        sheet.set_footer("&L&A&RPage &P of &N")
        # Exact amounts and long ids are text on purpose; the green corners would only worry people.
        sheet.ignore_errors({"number_stored_as_text": "A1:XFD1048576"})
        return sheet

    def text(self, sheet: Any, row: int, column: int, value: Any, look: Any = None) -> None:
        """Write text, whatever it looks like: never a formula, a link or a number."""
        # Most texts are plain words, ids and digits: the cheap look first, for there are millions of cells.
        plain = type(value) is str and value.isascii() and value.isprintable() and value[:1] not in _LEADS
        text = value if plain else printable(safe_cell(value))
        if text:
            if len(text) > MAX_TEXT:
                text = text[:MAX_TEXT] + " ... (cut here; a file beside this one has all of it)"
            sheet.write_string(row, column, text, look or self.plain)

    def money(self, sheet: Any, row: int, column: int, value: str | None) -> None:
        """Write an amount (exact text) as a number, showing no digit that the number does not hold."""
        if value is not None and _NUMBER.fullmatch(value):
            sheet.write_number(row, column, float(value), self._money_look(value))

    def exact(self, sheet: Any, row: int, column: int, value: Decimal) -> None:
        """Write an amount as a number; as text where it has more digits than a number holds."""
        text = format_amount(value)
        if len(text.lstrip("-").replace(".", "")) > FLOAT_DIGITS:
            self.text(sheet, row, column, text, self._exact)
        else:
            self.money(sheet, row, column, text)

    def count(self, sheet: Any, row: int, column: int, value: float) -> None:
        """Write a counted number."""
        sheet.write_number(row, column, value, self._count)

    def table(self, sheet: Any, top: int, columns: Sequence[Column], rows: Iterable[Mapping[str, Any]]) -> int:
        """Write a table whose header is at row `top`; returns the first row below it."""
        at = 0
        for column in columns:
            is_number = column.kind in ("money", "count")
            self.text(sheet, top, at, column.title, self.number_header if is_number else self.header)
            at += 1
            if column.kind == "money":
                self.text(sheet, top, at, f"{column.title} (exact)", self.number_header)
                at += 1
        row = top
        for row, record in enumerate(rows, top + 1):
            at = 0
            for column in columns:
                at += self._cell(sheet, row, at, column.kind, record[column.key])
        return row + 1

    def list_sheet(self, name: str, note: str, columns: Sequence[Column], rows: Iterable[Mapping[str, Any]]) -> None:
        """A sheet that is one list: a note, then a table with frozen header and filters."""
        sheet = self.sheet(name)
        set_widths(sheet, columns)
        self.text(sheet, 0, 0, note, self.note)
        below = self.table(sheet, 1, columns, rows)
        sheet.freeze_panes(2, 1)
        sheet.repeat_rows(1)
        sheet.repeat_columns(0)
        sheet.set_print_scale(60)
        sheet.autofilter(1, 0, max(below - 1, 1), width_of(columns) - 1)

    def _cell(self, sheet: Any, row: int, at: int, kind: str, value: Any) -> int:
        """One value of a table; returns how many cells it took."""
        if kind == "money":
            self.money(sheet, row, at, value)
            self.text(sheet, row, at + 1, value, self._exact)
            return 2
        time = as_time(value) if kind == "time" else None
        if time is not None:
            sheet.write_datetime(row, at, time, self._time)
        elif kind == "count" and value is not None:
            self.count(sheet, row, at, value)
        else:
            self.text(sheet, row, at, value)
        return 1

    def _money_look(self, text: str) -> Any:
        whole, _, fraction = text.lstrip("-").partition(".")
        digits = max(0, min(len(fraction), FLOAT_DIGITS - len(whole)))
        look = "#,##0" + ("." + "0" * digits if digits else "") if len(whole) <= FLOAT_DIGITS else "0.00000000E+00"
        if look not in self._money:
            self._money[look] = self.book.add_format({"num_format": look, "valign": "top"})
        return self._money[look]


def width_of(columns: Sequence[Column]) -> int:
    """How many cells wide a table of these columns is."""
    return sum(column.cells for column in columns)


def set_widths(sheet: Any, columns: Sequence[Column]) -> None:
    """Give each column its width; the exact text of an amount gets what 18 digits after the point need."""
    at = 0
    for column in columns:
        sheet.set_column(at, at, column.width)
        at += 1
        if column.kind == "money":
            sheet.set_column(at, at, max(column.width, 24))
            at += 1


def as_time(text: object) -> datetime | None:
    """UTC text as a time without zone, as spreadsheets have it; None for what is not a time."""
    try:
        return datetime.fromisoformat(str(text)).replace(tzinfo=None)
    except ValueError:
        return None


class PlainBook:
    """A workbook of tables with a frozen header and a filter. The same rows give the same bytes."""

    def __init__(self, path: Path) -> None:
        self._book = WrittenBook(path, title="")

    def over(
        self, name: str, columns: Sequence[str], rows: Iterable[Mapping[str, object]], widths: Mapping[str, int]
    ) -> Iterator[Mapping[str, object]]:
        """These rows, each written as it passes into a sheet of its own; what a row lacks is blank."""
        book, sheet, last = self._book, self._book.sheet(name), 1
        sheet.freeze_panes(1, 1)
        sheet.repeat_rows(0)
        for at, column in enumerate(columns):
            sheet.set_column(at, at, widths.get(column, max(11, len(column) + 2)))
            book.text(sheet, 0, at, column, book.header)
        for last, row in enumerate(rows, 1):
            if last == MAX_LINES:
                book.text(sheet, last, 0, "cut here; the CSV file beside this one has all rows")
            for at, column in enumerate(columns if last < MAX_LINES else ()):
                value = row.get(column)
                if isinstance(value, Decimal):
                    book.exact(sheet, last, at, value)
                elif type(value) is int:
                    sheet.write_number(last, at, value)
                elif value is not None:
                    book.text(sheet, last, at, value)
            yield row
        sheet.autofilter(0, 0, min(last, MAX_LINES), len(columns) - 1)

    def add(
        self, name: str, columns: Sequence[str], rows: Iterable[Mapping[str, object]], widths: Mapping[str, int]
    ) -> None:
        """Write these rows into a sheet of their own."""
        for _ in self.over(name, columns, rows, widths):
            pass

    def finish(self) -> None:
        """Write the file."""
        self._book.finish()


WIDTHS = {"request_id": 32, "reason": 30, "order_no": 22, "next_action": 50, "payee_name": 26, "reference": 24}

TOTALS = ("outcome", "currency", "rows", "amount")


class ResultBook:
    """A workbook that takes rows as they pass by and keeps none of them."""

    def __init__(self, path: Path) -> None:
        self._book = PlainBook(path)
        self._totals = _Totals()

    def over(self, columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> Iterator[Mapping[str, object]]:
        """These rows, each written as it passes."""
        return self._book.over("Results", columns, self._totals.over(rows), WIDTHS)

    def finish(self) -> None:
        """Write the totals, and the file."""
        self._book.add("Totals", TOTALS, self._totals.lines(), dict.fromkeys(TOTALS, 18))
        self._book.finish()


class _Totals:
    """Rows and amounts per outcome and currency of what passes by."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()
        self._sums: dict[tuple[str, str], Decimal] = defaultdict(Decimal)

    def over(self, rows: Iterable[Mapping[str, object]]) -> Iterator[Mapping[str, object]]:
        """These rows, each counted as it passes."""
        for row in rows:
            self._take(row)
            yield row

    @exact
    def _take(self, row: Mapping[str, object]) -> None:
        key = str(row.get("outcome") or ""), str(row.get("currency") or "")
        self._counts[key] += 1
        amount = row.get("amount")
        if isinstance(amount, Decimal):
            self._sums[key] += amount

    def lines(self) -> Iterator[Mapping[str, object]]:
        """The totals, in the order in which people want to read outcomes."""
        order = {outcome: place for place, outcome in enumerate(OUTCOMES)}
        for key in sorted(self._counts, key=lambda key: (order.get(key[0], len(order)), key[1])):
            yield dict(zip(TOTALS, (*key, self._counts[key], self._sums.get(key)), strict=True))
