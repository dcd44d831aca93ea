"""Texts from outside, without what a terminal or a database acts on; and the one text of a JSON value."""

import json
import re
import unicodedata
from typing import Any

canonical_json = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode
"""Members sorted by their names, no white space, nothing escaped that need not be."""


MAX_TEXT = 500
"""Characters of a text that says something to people."""

MAX_CODE = 40
"""Characters of a code: what the ledger's columns hold."""

STAND_IN = "\N{REPLACEMENT CHARACTER}"
"""Stands in place of a character that must not be there."""

_UNSAFE = (
    "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"  # C0 but for tab and line ends, DEL, C1: terminal escapes begin so
    "\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e007f"  # direction, and what is not seen
    "\ud800-\udfff\ufffe\uffff"  # what UTF-8, XML or a database cannot hold
)
UNSAFE = re.compile(f"[{_UNSAFE}]")
"""Characters that never reach the ledger, a file or a terminal."""

_SPACES = re.compile("[\t\n\r\u2028\u2029]+")


def clean_text(text: str) -> str:
    """The text on one line: line ends and tabs become a space, every other unsafe character `STAND_IN`."""
    if text.isascii() and text.isprintable():
        return text
    return UNSAFE.sub(STAND_IN, _SPACES.sub(" ", text))


def cut_text(text: str, most: int = MAX_TEXT) -> str:
    """The text, cleaned, in at most so many characters; what was cut is said at its end."""
    if len(text) <= most:
        return clean_text(text)
    mark = f"… (cut, {len(text):,} characters)"
    if len(mark) >= most:
        mark = "…"
    return clean_text(text[: most - len(mark)]) + mark


def clean_members(value: Any) -> Any:
    """A value as JSON holds it, with a stand-in for each unsafe character of its texts and names; line ends stay.

    Goes as deep as the value does: that is bounded where it was read.
    """
    if isinstance(value, str):
        return UNSAFE.sub(STAND_IN, value)
    if isinstance(value, dict):
        return {clean_members(name): clean_members(member) for name, member in value.items()}
    if isinstance(value, list):
        return [clean_members(member) for member in value]
    return value


def is_clean(text: str) -> bool:
    """Tell whether a text, such as an identifier, can be kept as it came: nothing unsafe, no stand-in, one line."""
    return (text.isascii() and text.isprintable()) or not (
        UNSAFE.search(text) or _SPACES.search(text) or STAND_IN in text
    )


_HALF = re.compile("[\ud800-\udfff]")


def is_whole(value: object) -> bool:
    """Tell whether a value is no text with half of a character, which a JSON escape may write and no bytes can hold."""
    return not isinstance(value, str) or value.isascii() or not _HALF.search(value)


_ONE = str.maketrans("oil", "011")
_NOT_SEEN = dict.fromkeys((0x115F, 0x1160, *range(0x2B0, 0x300)))  # letters to Unicode: Hangul fillers, apostrophes
_LOOKS_LIKE = (
    _ONE
    | _NOT_SEEN
    | str.maketrans(
        # Letters that look like Latin ones (Unicode, Security Mechanisms: confusables), case-folded: Cyrillic, Greek,
        # Armenian, and Latin ones of other alphabets.
        "авекмнорстухіјѕԁԛԝүһьӏԍѵѡαβεζηικμνορτυχωγօսոհցզıɑɡ",
        "abekmhopctyxijsdqwyhblgvwabezhikmnoptuxwyounhgqiag".translate(_ONE),
    )
)
"""Character -> the one that it is taken for, or none, so that two texts which look the same are the same."""


def as_it_looks(text: str) -> str:
    """Return what identifies an account, as an eye reads it: letters and digits alone, in one width, case and alphabet.

    Spaces, dashes and what nobody sees do not count; full-width and Arabic-Indic digits are digits; a Cyrillic, Greek
    or Armenian letter is the Latin one that it is taken for. O and 0, I, l and 1 are one character each.
    """
    if text.isascii():
        return "".join(filter(str.isalnum, text)).lower().translate(_LOOKS_LIKE)
    kept = []
    for character in unicodedata.normalize("NFKD", text).casefold():
        if character.isdecimal():
            kept.append(str(unicodedata.decimal(character)))
        elif character.isalnum():
            kept.append(character)
    return "".join(kept).translate(_LOOKS_LIKE)


_BY_NAME = re.compile(r"(?P<adopts>policy adopt [^;,()]*)?--by NAME")


def with_person(text: str, *, is_listed: bool | None) -> str:
    """A text with commands that say "--by NAME", each with how a person is named under the policy in force.

    `is_listed`: it lists people, so that a key counts; None where that is not known here.
    """

    def finish(found: re.Match[str]) -> str:
        adopts = found["adopts"] or ""
        if is_listed is None:
            return f"{found[0]} ({'and' if adopts else 'or'} --key FILE where the policy lists people)"
        if not is_listed:
            return found[0]
        return f"{adopts}--by NAME --key FILE" if adopts else "--key FILE"

    return _BY_NAME.sub(finish, text)


def approval_command(run_key: str, code: str, *, is_listed: bool | None = False) -> str:
    """The whole command that approves a plan which waits, under its code; `is_listed` as for `with_person`."""
    return with_person(f"treasury approve {run_key} --plan {code} --by NAME", is_listed=is_listed)


def without_markup(text: str) -> str:
    """Return a text that others wrote as Markdown that shows it, on one line, also in a table, whatever it holds."""
    return _MARKUP.sub(r"\\\g<0>", " ".join(text.split()))


_MARKUP = re.compile(r"[\\`*\[\]<>~|]|(?<![^\W_])_|_(?![^\W_])")
"""Characters that Markdown acts on; an underscore inside a word is none."""


def count_of(number: int, noun: str) -> str:
    """A counted noun: "1 break", "2,000 breaks"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
