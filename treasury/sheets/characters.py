"""Characters that a text must not hold: those that nobody sees, digits that only look like ours, what a spreadsheet
damaged.

Each function says what is wrong with a text, in words, and the stable code of it; None where nothing is.
"""

import re
import unicodedata

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
