"""Personal values in texts that others wrote: found however they are written there, and masked.

A value is known by its tokens alone, so that the ledger can keep keyed hashes of these instead of the value.
"""

import re
import unicodedata
from collections.abc import Callable, Collection, Iterator

IsPersonal = Callable[[str], bool]
"""Tells of a normalised token that it is one of a personal value's."""

MIN_TOKEN = 2
"""Characters of a token that is looked for."""
MAX_TOKEN = 120
"""Characters of a token; a longer value is known by its words and by nothing else."""
MAX_GROUPS = 40
"""Groups of letters or digits that one value may be written in."""
MAX_BETWEEN = 3
"""Characters between two groups of one value."""
MIN_INSIDE = 4
"""Characters of a token that is masked inside a longer run of letters and digits."""

_GROUP = re.compile(r"(?:[^\W\d_][\u0300-\u036f]*)+|\d+")
_WORD = re.compile(r"(?:[^\W_][\u0300-\u036f]*)+")
_LONG_RUN = re.compile(r"\d{6,}")
MASKED = "***"

_EMAIL = re.compile(r"[\w.+%'-]{1,64}@[\w.-]{1,190}\w")
_IBAN = re.compile(
    r"(?<![A-Za-z0-9])[A-Za-z]{2}\d{2}(?:[ -]?[A-Za-z0-9]{4}){2,7}(?:[ -]?[A-Za-z0-9]{1,4})?(?![A-Za-z0-9])"
)
_MIN_IBAN_DIGITS = 8
_DIGITS = re.compile(r"(?<![0-9])\d(?:[ ./()-]{0,2}\d){8,}(?![A-Za-z0-9])")
_NUMBER = r"-?\d+(?:\.\d+)?"
_AMOUNT = rf"{_NUMBER} [A-Z][A-Z0-9_]{{2,20}}"
_OURS = re.compile(
    rf"\btf-[a-z2-7]{{26}}\b"  # request ids as the ledger derives them
    rf"|(?:amount|rate|fee|on top) is {_NUMBER}"
    rf"(?: at the service, {_NUMBER} here|, (?:not|less than|more than) {_NUMBER})?"
    rf"|{_AMOUNT}(?:, {_AMOUNT})* (?:missing|cannot be had|less is there|are left)\b"
    rf"|\b(?:max_share_percent\),|lacks|debited) {_AMOUNT}"
    rf"|{_AMOUNT}: (?:it was recorded before|the service may still|{_NUMBER} count already, and it adds {_NUMBER})"
    r"|\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2})?"
)
"""Texts that look like account numbers, or hold what looks like a part of a value, and are not: our own ids, amounts,
times."""


MAX_HIDDEN = 8
"""Digits up to which nothing is shown of a value: a date has eight."""


LAST = 4
"""Characters of an account number that are shown."""

_BETWEEN_GROUPS = re.compile(r"[\s\u2010-\u2015-]+")


def mask(value: object) -> str:
    """Hide a personal value: account-like values keep their last four characters, everything else nothing."""
    text = str(value)
    digits = sum(map(str.isdigit, text))
    return f"***{last_of(text)}" if digits > MAX_HIDDEN else "***"


def last_of(account: str) -> str:
    """The last characters of an account number, however it is grouped; blank where they are all it has."""
    plain = _BETWEEN_GROUPS.sub("", account)
    return plain[-LAST:] if len(plain) > LAST else ""


def normalise(text: str) -> str:
    """Letters and digits alone, without case and accents."""
    plain = unicodedata.normalize("NFKD", text) if not text.isascii() else text
    return "".join(filter(str.isalnum, plain.casefold()))


def tokens_of(value: object) -> Iterator[str]:
    """By what a personal value is known: all of it, each of its words, and each long run of digits, normalised."""
    text = str(value)
    for part in (text, *_WORD.findall(text), *_LONG_RUN.findall(normalise(text))):
        token = normalise(part)
        if MIN_TOKEN <= len(token) <= MAX_TOKEN:
            yield token


def known(values: Collection[object]) -> IsPersonal:
    """A predicate of these values, where they are at hand."""
    return frozenset(token for value in values for token in tokens_of(value)).__contains__


def nobody(_: str) -> bool:
    """A predicate of no values."""
    return False


def mask_text(text: str, is_personal: IsPersonal, own: Collection[str | None] = ()) -> str:
    """The text with personal values masked: those that are known, and always e-mail addresses, what is written like
    an IBAN, and runs of nine or more digits.

    Known values are found in any case, with or without accents, with up to three other characters between their
    groups, and word by word. `own`: ids that stay as they are. What is masked already stays as it is.
    """
    if text.isascii() and text.isalpha():
        return mask(text) if is_personal(text.casefold()) else text
    ids = [name for name in own if name and len(name) > MAX_BETWEEN and not is_personal(normalise(name))]
    kept = [found.span() for name in ids for found in re.finditer(re.escape(name), text)]
    ours = [found.span() for found in _OURS.finditer(text)]
    always = _without(list(_looks_like_accounts(text)), kept + ours)
    personal = _without(list(_known_spans(text, is_personal)), kept)
    parts = [span for span in personal if span[1] - span[0] < MIN_INSIDE]  # 04 of a birthday: no part of our amounts
    found = [span for span in personal if span not in parts] + _without(parts, ours) + always
    return _replaced(text, sorted(found, key=lambda span: (span[0], -span[1])))


def mask_known(text: str, is_personal: IsPersonal) -> str:
    """The text with known values masked, and nothing else."""
    if text.isascii() and text.isdigit():
        return mask(text) if is_personal(text) else text
    return _replaced(text, sorted(_known_spans(text, is_personal)))


def _looks_like_accounts(text: str) -> Iterator[tuple[int, int]]:
    if "@" in text:
        yield from map(re.Match.span, _EMAIL.finditer(text))
    if sum(map(str.isdigit, text)) >= _MIN_IBAN_DIGITS:
        yield from map(re.Match.span, _DIGITS.finditer(text))
        for found in _IBAN.finditer(text):
            if sum(map(str.isdigit, found[0])) >= _MIN_IBAN_DIGITS:
                yield found.span()


def _without(spans: list[tuple[int, int]], kept: list[tuple[int, int]]) -> list[tuple[int, int]]:
    return [span for span in spans if not any(start <= span[0] and span[1] <= end for start, end in kept)]


def _replaced(text: str, spans: list[tuple[int, int]]) -> str:
    parts, at = [], 0
    for start, end in spans:
        if end <= at:
            continue
        begin = max(start, at)
        parts += [text[at:begin], mask("".join(filter(str.isalnum, text[begin:end])))]
        at = end
    return "".join([*parts, text[at:]]) if parts else text


def _known_spans(text: str, is_personal: IsPersonal) -> Iterator[tuple[int, int]]:
    if is_personal is nobody:
        return
    groups = [
        (found.start(), found.end(), normalise(found[0]))
        for found in _GROUP.finditer(text)
        if text[max(0, found.start() - len(MASKED)) : found.start()] != MASKED
    ]
    place = 0
    while place < len(groups):
        last = _longest(text, groups, place, is_personal)
        if last is None:
            place += 1
        else:
            yield groups[place][0], groups[last][1]
            place = last + 1


def _longest(text: str, groups: list[tuple[int, int, str]], first: int, is_personal: IsPersonal) -> int | None:
    """The last group of the longest known value that begins with this group."""
    token, found = "", None
    for place in range(first, min(first + MAX_GROUPS, len(groups))):
        if place > first and groups[place][0] - groups[place - 1][1] > MAX_BETWEEN:
            break
        token += groups[place][2]
        if len(token) > MAX_TOKEN:
            break
        start, end = groups[first][0], groups[place][1]
        whole = not text[max(start - 1, 0) : start].isalnum() and not text[end : end + 1].isalnum()
        if len(token) >= (MIN_TOKEN if whole else MIN_INSIDE) and is_personal(token):
            found = place
    return found
