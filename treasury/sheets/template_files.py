"""Templates as files: a workbook with drop-downs, notes and a control, or a CSV file; columns say what they are for."""

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, BeforeValidator

from treasury.errors import InputError
from treasury.files import replacing, write_bytes
from treasury.provider.fields import OneOf
from treasury.provider.operation import Conditional, marks_of
from treasury.sheets.cells import CONTROL, LISTS
from treasury.sheets.control import COLUMNS, MAX_ROWS, ROWS
from treasury.sheets.writing import AS_TEXT, letter_of

if TYPE_CHECKING:
    from xlsxwriter import Workbook

_SOURCE = re.compile(r" \((?:public fact|document)[^)]*\)")
"""The source that a description names, which tells nothing to whoever fills in a sheet."""


class Need(IntEnum):
    """The need of a value in a column."""

    NO = 0
    SOMETIMES = 1
    """On some rows: the note says on which."""
    YES = 2


@dataclass(frozen=True)
class TemplateColumn:
    """One column of a template."""

    name: str
    note: str
    need: Need = Need.NO
    choices: tuple[str, ...] = ()
    is_complete: bool = True
    """False where other values than these choices may be right, too."""
    is_amount: bool = False


@dataclass(frozen=True)
class Template:
    """A sheet before anybody filled it in."""

    kind: str
    columns: tuple[TemplateColumn, ...]
    examples: tuple[Mapping[str, str], ...]
    """Rows that are refused until they are replaced."""
    amounts: tuple[tuple[str, str], ...] = ()
    """Columns that are summed, each with the column of its currency."""
    currencies: tuple[str, ...] = ()
    """Currencies whose sums are shown."""


def column_of(model: type[BaseModel], name: str) -> TemplateColumn:
    """A column that is a field of an operation: its description without a source, and whether it is required."""
    field = model.model_fields[name]
    rules = [rule for rule in getattr(model, "rules", ()) if isinstance(rule, Conditional) and rule.field == name]
    said = _SOURCE.sub("", field.description or "").replace("`", "")
    if field.is_required():
        need, words = Need.YES, "Required."
    elif rules:
        need = Need.SOMETIMES
        words = "" if "Required" in said else " ".join(f"Required when {rule.condition}." for rule in rules)
    else:
        need, words = Need.NO, "Optional."
    is_amount = name == "amount" or name.endswith("_amount")
    return TemplateColumn(name, f"{said} {words}".strip(), need, listed_values(model, name), is_amount=is_amount)


def listed_values(model: type[BaseModel], attribute: str) -> tuple[str, ...]:
    """The values that a field may have, where the interface lists them."""
    field = model.model_fields[attribute]
    marks = (*field.metadata, *marks_of(field.annotation))
    checks = (mark.func for mark in marks if isinstance(mark, BeforeValidator))
    return next((check.values for check in checks if isinstance(check, OneOf)), ())


_INLINE = 250
"""Characters of choices that a cell's own drop-down holds; Excel allows 255."""

_MORE_CURRENCIES = 12
"""Lines of the control for currencies that a person writes."""

_LOOKS: dict[Need, dict[str, Any]] = {
    Need.YES: {"bold": True, "bg_color": "#1f5fa8", "font_color": "#ffffff"},
    Need.SOMETIMES: {"bold": True, "bg_color": "#f2d8a0"},
    Need.NO: {"bg_color": "#eef1f5"},
}

_LEGEND = (
    ("Blue: required on every row.", Need.YES),
    ("Amber: required on some rows; the note on the column says on which.", Need.SOMETIMES),
    ("Grey: optional.", Need.NO),
)


def write_template(template: Template, path: Path) -> None:
    """Write a template as the file's name says: .xlsx or .csv. Raises `InputError` for another name."""
    if path.suffix.lower() == ".xlsx":
        write_bytes(path, workbook(template))
    elif path.suffix.lower() == ".csv":
        with replacing(path) as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow([column.name for column in template.columns])
            writer.writerows([row.get(column.name, "") for column in template.columns] for row in template.examples)
    else:
        raise InputError(f"{path}: a template is a workbook or a CSV file: end its name in .xlsx or .csv")


def workbook(template: Template) -> bytes:
    """The template as a workbook. The same template gives the same bytes."""
    from datetime import datetime

    from xlsxwriter import Workbook

    file = BytesIO()
    book = Workbook(file, {"in_memory": True, **AS_TEXT})
    book.set_properties({"title": f"Template: {template.kind}", "created": datetime(2000, 1, 1)})  # noqa: DTZ001
    _write_table(book, template)
    if template.amounts:
        _write_control(book, template)
    book.close()
    return file.getvalue()


def _write_table(book: "Workbook", template: Template) -> None:
    sheet = book.add_worksheet(template.kind)
    text, amount = book.add_format({"num_format": "@"}), book.add_format({"align": "right"})
    looks = {need: book.add_format({**look, "border": 1, "valign": "top"}) for need, look in _LOOKS.items()}
    sheet.freeze_panes(1, 1)
    sheet.ignore_errors({"number_stored_as_text": "A1:XFD1048576"})
    lists: list[Sequence[str]] = []
    for at, column in enumerate(template.columns):
        # The format of a whole column reaches every row, also those that nobody filled yet.
        sheet.set_column(at, at, max(14, len(column.name) + 3), amount if column.is_amount else text)
        sheet.write_string(0, at, column.name, looks[column.need])
        lines = column.note.count("\n") + len(column.note) // 45 + 2
        size = {"x_scale": 2.5, "y_scale": max(1.0, lines / 4), "author": "treasury", "font_size": 9}
        sheet.write_comment(0, at, column.note, size)
        if column.choices:
            sheet.data_validation(1, at, MAX_ROWS, at, _drop_down(column, lists))
        for row, values in enumerate(template.examples, 1):
            if value := values.get(column.name):
                if column.is_amount:
                    sheet.write_number(row, at, float(value), amount)
                else:
                    sheet.write_string(row, at, value, text)
    if lists:
        hidden = book.add_worksheet(LISTS)
        hidden.hide()
        for at, choices in enumerate(lists):
            for row, choice in enumerate(choices):
                hidden.write_string(row, at, choice, text)


def _drop_down(column: TemplateColumn, lists: list[Sequence[str]]) -> dict[str, Any]:
    if len(",".join(column.choices)) <= _INLINE:
        source: Any = list(column.choices)
    else:
        lists.append(column.choices)
        letter = letter_of(len(lists) - 1)
        source = f"={LISTS}!${letter}$1:${letter}${len(column.choices)}"
    shown = {"error_title": column.name, "error_message": "This is not one of the values of the list."}
    return {"validate": "list", "source": source, "error_type": "stop" if column.is_complete else "warning", **shown}


def _write_control(book: "Workbook", template: Template) -> None:
    """The sheet that counts rows and sums by formula; its formulas' values are those of the example rows."""
    sheet = book.add_worksheet(CONTROL)
    header = book.add_format({"bold": True, "bg_color": "#eef1f5", "border": 1})
    text, open_cell = book.add_format({"num_format": "@"}), book.add_format({"bg_color": "#fff8dc", "num_format": "@"})
    note = book.add_format({"italic": True, "font_color": "#57606a"})
    sheet.set_column(0, 2, 22)
    sheet.write_string(
        0, 0, "Checked when the file is read: where a number differs from the rows, it is refused.", note
    )
    sheet.write_string(1, 0, "Write what you expect into the column expected; for more currencies, their codes.", note)
    for at, name in enumerate(COLUMNS):
        sheet.write_string(3, at, name, header)
    table, first = f"'{template.kind}'", letter_of(0)
    sheet.write_string(4, 0, ROWS, text)
    count = f"=COUNTA({table}!${first}$2:${first}${MAX_ROWS + 1})"
    sheet.write_formula(4, 1, count, None, len(template.examples))
    sheet.write_blank(4, 2, None, open_cell)
    for row, currency in enumerate((*template.currencies, *([None] * _MORE_CURRENCIES)), 5):
        if currency is None:
            sheet.write_blank(row, 0, None, open_cell)
        else:
            sheet.write_string(row, 0, currency, text)
        sheet.write_array_formula(
            row, 1, row, 1, _sum(template, table, row + 1), None, _example_sum(template, currency)
        )
        sheet.write_blank(row, 2, None, open_cell)
    for row, (words, need) in enumerate(_LEGEND, 7 + len(template.currencies) + _MORE_CURRENCIES):
        sheet.write_string(row, 0, words, book.add_format(_LOOKS[need]))


def _sum(template: Template, table: str, line: int) -> str:
    """The sum of the amounts whose currency stands in this line; those that are text are read with a point."""
    names = [column.name for column in template.columns]

    def area(name: str) -> str:
        letter = letter_of(names.index(name))
        return f"{table}!${letter}$2:${letter}${MAX_ROWS + 1}"

    sums = (
        f"SUM(({area(currency)}=$A{line})*IFERROR(IF(ISNUMBER({area(amount)}),{area(amount)},"
        f'_xlfn.NUMBERVALUE({area(amount)},".",",")),0))'
        for amount, currency in template.amounts
    )
    return f'{{=IF($A{line}="","",{"+".join(sums)})}}'


def _example_sum(template: Template, currency: str | None) -> float | str:
    if currency is None:
        return ""
    rows = [(row.get(amount), row.get(named)) for row in template.examples for amount, named in template.amounts]
    return sum(float(amount) for amount, named in rows if amount and named == currency)
