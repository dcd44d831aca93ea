"""Texts of cells as people type them: hidden characters, decimal commas, units beside an amount, codes with names.

Each function says what is wrong with a text, in words, and the stable code of it; None where nothing is.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from treasury.errors import RowProblem
from treasury.money import family_of
from treasury.provider.fields import country_name
from treasury.provider.reach import PURPOSES
from treasury.texts import as_it_looks, cut_text

Fault = tuple[str, str]
"""The rule in words, and its stable code."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_ROUNDED = r"\d+(?:[.,]\d+)?[eE][+-]\d+"
"""How spreadsheet programs write a long number once they lost its digits, such as 1.23E+10."""
_ERROR = (
    r"#(?:N/A|REF!|VALUE!|DIV/0!|NAME\?|NUM!|NULL!|SPILL!|CALC!|FIELD!|BLOCKED!|CONNECT!|BUSY!|UNKNOWN!|GETTING_DATA"
    r"|NV|BEZUG!|WERT!|ZAHL!|N/D|VALEUR!|NOM\?|NOMBRE!|VALOR!|REF|VALUE)|Err:\d{3}"
)
"""Errors as spreadsheet programs write them, in the languages that change them most."""
_DAMAGES = (
    (
        re.compile(rf"(?:{_ROUNDED})\Z"),
        "was rounded by a spreadsheet program: format the column as text and enter it again",
        "digits_lost",
    ),
    (re.compile("'"), "begins with an apostrophe, which would be sent: remove it", "apostrophe"),
    (
        re.compile(r"#{3,}\Z"),
        "shows only ####, for its column was too narrow: enter the value again",
        "too_narrow",
    ),
    (
        re.compile(rf"(?:{_ERROR})\Z", re.IGNORECASE),
        "is an error of the spreadsheet: write the value that is meant",
        "error_cell",
    ),
    (re.compile("="), "is a formula: paste its value instead", "formula"),
)
_WITH_FRACTION = re.compile(r"\d+[.,]0+")
_LETTER_O = re.compile(r"(?=.*[Oo])(?=(?:[^0-9]*[0-9]){4})[0-9Oo \-]+")

_UNSEEN = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u2800\u3164"
    "\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e007f\ufffe\uffff]"
)
"""Characters without a shape of their own, and those that turn the direction of what follows."""
_JOINER = re.compile("(?<![^\x00-\u02ff])[\u200c\u200d]|[\u200c\u200d](?![^\x00-\u02ff])")
"""Joiners belong into words of Arabic and Indic scripts, and into nothing else."""

HIDDEN = ("holds a character that cannot be seen: type the text again", "hidden_character")
NO_BREAK_SPACE = ("holds a no-break space, as web pages have them: type it again", "no_break_space")
OTHER_DIGITS = ("has digits of another script: type it again with 0 to 9", "other_digits")
LOOK_ALIKE = ("has a character of another alphabet that looks like one of ours: type it again", "look_alike")


def judge_text(text: str) -> Fault | None:
    """Return what is wrong with any text that is not blank and stands in a column that is read."""
    if text.isascii() and text.isalnum():
        return None  # most cells are
    if _CONTROL.search(text):
        # Also how a quotation mark that swallowed the next rows shows itself.
        return "holds a line break or another control character", "control_character"
    if not text.isascii() and (_UNSEEN.search(text) or _JOINER.search(text)):
        return HIDDEN
    first = text[0]
    if first in "'=#Ee" or (first.isdigit() and ("E" in text or "e" in text)):
        return _damaged(text)
    return None


def _damaged(text: str) -> Fault | None:
    """Return what a spreadsheet program made of a value."""
    for pattern, rule, code in _DAMAGES:
        if pattern.match(text):
            return rule, code
    return None


def judge_amount(text: str) -> Fault | None:
    """Return what is wrong with the characters of an amount."""
    return None if text.isascii() else _of_digits(text)


def judge_identifier(text: str) -> Fault | None:
    """Return what is wrong with an identifier of any kind: an account, a document, a phone, a code."""
    if text.isascii():
        if text.isalnum():
            return None
        if _WITH_FRACTION.fullmatch(text):
            rule = "ends in .0, so a program took it for a number: format the column as text and enter it again"
            return rule, "taken_for_a_number"
        return None
    if any(unicodedata.category(each) == "Zs" and each != " " for each in text):
        return NO_BREAK_SPACE
    return _of_digits(text) or (LOOK_ALIKE if _mixes_alphabets(text) else None)


def judge_ascii(text: str) -> Fault | None:
    """Return what is wrong with an identifier that has Latin letters and digits alone."""
    return judge_identifier(text) or (None if text.isascii() else LOOK_ALIKE)


def judge_digits(text: str) -> Fault | None:
    """The letter O where only digits are beside it."""
    if not text.isdigit() and _LETTER_O.fullmatch(text):
        return "has the letter O among its digits: write the digit 0", "letter_o"
    return None


def _of_digits(text: str) -> Fault | None:
    other = any((each.isdecimal() or each.isdigit()) and not each.isascii() for each in text)
    return OTHER_DIGITS if other else None


def _mixes_alphabets(text: str) -> bool:
    """Latin letters beside full-width, Cyrillic or Greek ones: nobody means that."""
    if not re.search("[A-Za-z]", text):
        return bool(re.search("[\uff21-\uff3a\uff41-\uff5a]", text))
    return bool(re.search("[\u0370-\u052f\uff01-\uff5e]", text))


EXAMPLE = "EXAMPLE-"
"""How values begin that a template shows; a row that holds one is not meant."""


_RUN = re.compile(r"[=@\t]|[+-](?![0-9][0-9 ().-]*$)")


def looks_run(text: str) -> bool:
    """Tell whether a spreadsheet program would run a cell of CSV as a formula: a phone or a number is none."""
    return _RUN.match(text) is not None


def harmless(cell: object) -> str:
    """A cell of CSV that no spreadsheet program runs; the reader of such a copy takes the apostrophe away again."""
    return marked_apostrophe("" if cell is None else str(cell).strip(), runs=True)


def marked_apostrophe(text: str, *, runs: bool) -> str:
    """The text with an apostrophe before it where it would run, or has one already that must not be taken away."""
    return f"'{text}" if (runs and looks_run(text)) or (text.startswith("'") and looks_run(text[1:])) else text


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


_SIGNS: Mapping[str, tuple[str, ...]] = {
    "$": ("USD",), "US$": ("USD",), "€": ("EUR",), "£": ("GBP",), "¥": ("CNY", "JPY"), "R$": ("BRL",), "RP": ("IDR",),
    "₹": ("INR",), "₫": ("VND",), "₱": ("PHP",), "฿": ("THB",),
}  # fmt: skip
"""Signs that spreadsheet programs show for currencies."""


def unit_fault(column: str, beside: str, values: Mapping[str, str]) -> Fault | None:
    """Why an amount is not what its number format makes of it; None where that shows the currency of its row."""
    currency = values.get(_currency_of(column), "").upper()
    said = beside.upper()
    if currency and (said in (currency, family_of(currency)) or currency in _SIGNS.get(said.rstrip("."), ())):
        return None
    row = f"the row says {cut_text(currency, 20)}" if currency else "the row names no currency for it"
    shown = "the currency of the computer that opens it" if beside == "¤" else repr(cut_text(beside, 20))
    rule = (
        f"is shown with {shown}, and {row}: take that out of the number format of the cell, and write "
        "the amount that is meant"
    )
    return rule, "shown_differs"


def _currency_of(column: str) -> str:
    """The column with the currency of an amount."""
    named = column.removeprefix("max_").replace("amount", "currency")
    return {"fee": "fee_currency", "order_amount": "currency"}.get(column, named if named != column else "currency")


SEPARATOR = ": "

NAMES: Mapping[str, Callable[[str], str | None]] = {
    **dict.fromkeys(("country", "beneficiary_country", "nationality", "address_country"), country_name),
    "document_country": country_name,
    "purpose_code": PURPOSES.get,
    **dict.fromkeys(("bank_code", "beneficiary_bank_id", "wallet_code"), lambda _: None),
}
"""Column -> the name of a code; None where only the service knows it (banks, wallets): the plan shows that one."""


def with_names(column: str, codes: Iterable[str], known: Mapping[str, str]) -> tuple[str, ...]:
    """Codes as the drop-down of a column shows them. `known`: code -> its name at the service."""
    if column not in NAMES:
        return tuple(codes)
    named = ((code, NAMES[column](code) or known.get(code)) for code in codes)
    return tuple(f"{code}{SEPARATOR}{name}" if name else code for code, name in named)


def code_of(column: str, text: str) -> tuple[str, Fault | None]:
    """The code in a cell of a column, and what is wrong with the name beside it."""
    code, separator, name = text.partition(SEPARATOR)
    if not separator or column not in NAMES:
        return text, None
    known = NAMES[column](code)
    if known is None or as_it_looks(known) == as_it_looks(name):
        return code.strip(), None
    return text, (f"{code[:20]} is {known}: write the code that is meant, without a name", "other_name")
