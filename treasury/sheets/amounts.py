"""Amounts as people type them: where a comma certainly is a decimal one, and where a point may be none."""

import re
from dataclasses import dataclass, field

from treasury.errors import RowProblem
from treasury.sheets.characters import Fault

_COMMA = re.compile(r"[+-]?(?:\d+,(?:\d{1,2}|\d{4,18})|0,\d{3})")
"""Digits after the comma, not three of them: no group of thousands."""
_EITHER = re.compile(r"[+-]?[1-9]\d{0,2}([.,])\d{3}")
"""Three digits after the sign: a fraction in one country, a group of thousands in another."""

DECIMAL_COMMA = (";", "\t")
"""Separators of files in which a comma may be a decimal one. The first is what spreadsheet programs separate with
where it is."""

MAX_AMOUNTS = 10
"""Columns of amounts that a line has at most."""


@dataclass
class Amounts:
    """The amounts of one file, read one after the other."""

    separator: str | None
    """Of a text file."""
    commas: int = 0
    """Amounts that were read with a decimal comma."""
    _shows_comma: bool = False
    _unclear: list[tuple[int, str | None, str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._shows_comma = self.separator == ";"

    def read(self, line: int, ref: str | None, column: str, text: str) -> str | Fault:
        """The amount with a decimal point, or what is wrong with it."""
        if text.isdigit():
            return text
        if _COMMA.fullmatch(text):
            self._shows_comma = True
            if self.separator in DECIMAL_COMMA:
                self.commas += 1
                return text.replace(",", ".")
        elif found := _EITHER.fullmatch(text):
            if found[1] == "," and self.separator in DECIMAL_COMMA:
                return _unclear(text)
            if found[1] == ".":
                if self._shows_comma:
                    return _unclear(text)
                self._unclear.append((line, ref, column, text))
        return text

    def unclear(self, line: int) -> set[str]:
        """The columns of a line, just read, whose amounts are unclear where a cell shows a decimal comma."""
        return {column for at, _, column, _ in self._unclear[-MAX_AMOUNTS:] if at == line}

    @property
    def fractions(self) -> int:
        """How many amounts were read with three digits after the point, which elsewhere are a group of thousands."""
        return 0 if self._shows_comma else len(self._unclear)

    def problems(self) -> list[RowProblem]:
        """Amounts that are unclear, as cells further down show a decimal comma."""
        if not self._shows_comma:
            return []
        return [RowProblem(line, ref, column, *_place(text)) for line, ref, column, text in self._unclear]


def _place(text: str) -> tuple[str, str | None, str]:
    rule, code = _unclear(text)
    return rule, None, code


def _unclear(text: str) -> Fault:
    whole, fraction = re.split("[.,]", text)
    decimal = f"{whole}.{fraction.rstrip('0') or '0'}"
    if len(decimal.partition(".")[2]) == 3:
        decimal += "0"
    rule = f"means different amounts in different countries: write {decimal} or {whole}{fraction}"
    return rule, "unclear_amount"
