"""Statements in the banks' formats, camt.053 (ISO 20022) and MT940 (SWIFT): the fields that are compared."""

import re
from calendar import isleap
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from xml.etree import ElementTree

from treasury.money import exact, format_amount, parse_amount
from treasury.provider.fields import asset_code
from treasury.provider.status import OrderStatus
from treasury.reconciliation.entries import INCOMING, StatementEntry

NO_REFERENCE = frozenset({"", "NONREF", "NOTPROVIDED", "NOTPROVIDED.", "KREF+", "EREF+"})

MAX_REFERENCE = 70
"""Most characters of a reference: twice what ISO 20022 allows."""

MAX_PLACE_DIGITS = 6
"""Most digits of an entry's number that may be its place in the file alone: the next file has the same ones."""

SIGN = {"CRDT": 1, "DBIT": -1, "C": 1, "D": -1, "RD": 1, "RC": -1}
"""Mark of an amount -> its sign; `RD` is a debit that was reversed."""


class NotAStatement(ValueError):
    """The file is none of these, or does not add up; the text says why."""


def is_camt(content: bytes) -> bool:
    """Tell whether it looks like XML, in UTF-8 or UTF-16."""
    return bool(re.match(rb"(\xef\xbb\xbf|\xff\xfe|\xfe\xff)?[\s\0]*<", content))


def is_mt940(content: bytes) -> bool:
    """Tell whether it looks like a SWIFT message."""
    return bool(re.match(rb"(\xef\xbb\xbf)?\s*(\{1:|:20:)", content))


class _Elements(ElementTree.TreeBuilder):
    """Takes no document type, in whatever encoding: without one nothing can be expanded."""

    def doctype(self, *_: str | None) -> None:
        """Refuse it."""
        raise NotAStatement("holds a document type, which no camt.053 file has")


@exact
def read_camt(content: bytes) -> list[StatementEntry]:
    """Read the entries of a camt.053 file. Raises `NotAStatement` for one that cannot be read or does not add up."""
    try:
        root = ElementTree.fromstring(content, ElementTree.XMLParser(target=_Elements()))  # noqa: S314 - it has no entities
    except NotAStatement:
        raise
    except (ElementTree.ParseError, LookupError, ValueError) as error:  # the last two: an encoding that is not known
        raise NotAStatement(f"is no XML that can be read: {error}") from None
    statements = [each for each in root.iter() if _name(each) == "Stmt"]
    if not statements:
        raise NotAStatement("is XML without a statement (Stmt) of a camt.053 file")
    found: list[StatementEntry] = []
    for statement in statements:
        balances = {_text(each, "Tp", "CdOrPrtry", "Cd"): _signed(each) for each in _all(statement, "Bal")}
        lines = _all(statement, "Ntry")
        booked = [_signed(each) for each in lines if _is_booked(each)]
        _check_sum(balances.get("OPBD", balances.get("PRCD")), booked, balances.get("CLBD"))
        found += [entry for each in lines for entry in _camt_entries(each)]
    return _numbered(found)


def _camt_entries(element: ElementTree.Element) -> Iterator[StatementEntry]:
    """Yield an entry, or its transactions where it holds several with amounts of their own."""
    amount, currency = _signed(element)
    details = [each for group in _all(element, "NtryDtls") for each in _all(group, "TxDtls")]
    parts = _parts(element, details, amount, currency) if len(details) > 1 else []
    several = bool(parts)
    number = _text(element, "NtryRef")
    is_place = number.isdecimal() and len(number) <= MAX_PLACE_DIGITS
    names = [] if several else [_text(element, "AcctSvcrRef"), "" if is_place else number]
    charges = _child(element, "Chrgs")
    is_apart = not several and amount < 0  # what comes in is booked without its charges
    fee = _child(charges, "TtlChrgsAndTaxAmt") if charges is not None and is_apart else None
    days = [_text(element, "BookgDt", "Dt"), _text(element, "BookgDt", "DtTm"), _text(element, "ValDt", "Dt")]
    one = details[0] if len(details) == 1 else element
    for detail, moved in parts or [(one, amount)]:
        refs = _child(detail, "Refs")
        yield StatementEntry(
            line=0,
            order_no=_first(_text(refs, "AcctSvcrRef"), _text(refs, "TxId"), *names) or "",
            request_id=_first(_text(refs, "EndToEndId"), _text(refs, "InstrId")),
            order_type=INCOMING[0] if moved > 0 else None,
            currency=currency,
            amount=abs(moved),
            status=OrderStatus.SUCCESS if _is_booked(element) else OrderStatus.PROCESSING,
            booked_on=next((_day(day[:10], "%Y-%m-%d") for day in days if day), None),
            fee=None if fee is None else _number(fee.text or ""),
            fee_currency=None if fee is None else fee.get("Ccy"),
        )


def _parts(
    element: ElementTree.Element, details: list[ElementTree.Element], amount: Decimal, currency: str
) -> list[tuple[ElementTree.Element, Decimal]]:
    """Return the transactions of an entry, each with its signed amount in the entry's currency.

    Empty where money came in and no transaction has an amount: such an entry hides no payment of ours.
    """
    found = []
    for each in details:
        shown = [_child(each, "Amt"), *(_amount_at(each, name) for name in ("TxAmt", "CntrValAmt", "InstdAmt"))]
        own = next((one for one in shown if one is not None and one.get("Ccy") == currency), None)
        if own is not None:
            mark = _text(each, "CdtDbtInd")
            found.append((each, _number(own.text or "") * SIGN.get(mark, 1 if amount > 0 else -1)))
    if not found and amount > 0:
        return []
    charges = _text(element, "Chrgs", "TtlChrgsAndTaxAmt")
    beside = abs(amount - sum(moved for _, moved in found))
    if len(found) < len(details) or (beside and (not charges or beside != _number(charges))):
        raise NotAStatement(
            f"has an entry of {format_amount(amount)} {currency} whose {len(details)} parts do not add up to it: "
            "ask for a statement with the amount of each"
        )
    return found


def _amount_at(detail: ElementTree.Element, name: str) -> ElementTree.Element | None:
    kind = _child(detail, "AmtDtls")
    place = None if kind is None else _child(kind, name)
    return None if place is None else _child(place, "Amt")


def _day(text: str, form: str) -> date:
    try:
        return datetime.strptime(text, form).date()  # noqa: DTZ007 - a bank's day has no zone
    except ValueError:
        raise NotAStatement(f"has a day that is none: {text!r}") from None


def _is_booked(element: ElementTree.Element) -> bool:
    return (_text(element, "Sts", "Cd") or _text(element, "Sts")) in ("BOOK", "")


def _signed(element: ElementTree.Element) -> tuple[Decimal, str]:
    """Return the amount of a balance or an entry, negative for a debit, and its currency."""
    amount, currency = _amount_of(element)
    mark = _text(element, "CdtDbtInd")
    if mark not in ("CRDT", "DBIT"):
        raise NotAStatement(f"has an amount without CRDT or DBIT ({mark or 'nothing'})")
    return SIGN[mark] * amount, currency


def _amount_of(element: ElementTree.Element) -> tuple[Decimal, str]:
    amount = _child(element, "Amt")
    currency = "" if amount is None else amount.get("Ccy") or ""
    if amount is None or not currency:
        raise NotAStatement(f"has a {_name(element)} without an amount and its currency (Amt Ccy)")
    try:
        asset_code(currency)
    except ValueError as error:
        raise NotAStatement(f"has a currency that is none: {currency[:MAX_REFERENCE]!r} {error}") from None
    return _number(amount.text or ""), currency


def _name(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2]


def _all(element: ElementTree.Element, name: str) -> list[ElementTree.Element]:
    return [each for each in element if _name(each) == name]


def _child(element: ElementTree.Element, name: str) -> ElementTree.Element | None:
    return next(iter(_all(element, name)), None)


def _text(element: ElementTree.Element | None, *path: str) -> str:
    for name in path:
        element = None if element is None else _child(element, name)
    return "" if element is None else (element.text or "").strip()


_TAG = re.compile(r"^:(\d{2}[A-Z]?):", re.MULTILINE)
_BALANCE = re.compile(r"([CD])(\d{6})([A-Z]{3})([\d,]+)")
_LINE = re.compile(r"(\d{6})(\d{4})?(R?[CD])([A-Z])?([\d,]+)([A-Z][A-Z0-9]{3})([^\n]*)")
_SUBFIELD = re.compile(r"\?(2\d|6[0-3])")
"""Marks of the parts of a text, each of 27 characters: a reference goes on over them."""
_END_TO_END = re.compile(r"EREF\+([^?+\s]+?)(?=(?:[A-Z]{4}|BIC)\+|[?+\s]|$)|/EREF/([^/\s]+)")


@exact
def read_mt940(text: str) -> list[StatementEntry]:
    """Read the lines of an MT940 file. Raises `NotAStatement` for one that cannot be read or does not add up."""
    parts = _TAG.split(text.replace("\r\n", "\n"))[1:]
    currency = ""
    opening: tuple[Decimal, str] | None = None
    page: tuple[Decimal, str] | None = None
    moved: list[tuple[Decimal, str]] = []
    found: list[StatementEntry] = []
    for tag, value in zip(parts[::2], (each.strip() for each in parts[1::2]), strict=True):
        if tag in ("60F", "60M", "62F", "62M"):
            balance = _BALANCE.match(value)
            if balance is None:
                raise NotAStatement(f"has a balance that cannot be read: :{tag}:{value[:40]}")
            mark, _, currency, amount = balance.groups()
            signed = (SIGN[mark] * _number(amount), currency)
            if tag.startswith("60"):
                _check_is_closed(opening)
                if tag == "60M":
                    _check_sum(page, [], signed)
                opening, page, moved = signed, None, []
            else:
                _check_sum(opening, moved, signed)
                opening, page = None, signed if tag == "62M" else None
        elif tag == "61":
            entry, signed_amount = _mt940_entry(value, currency)
            if opening is None:
                raise NotAStatement(f"has a line outside of its balances (:60F: to :62F:): :61:{value[:40]}")
            moved.append((signed_amount, currency))
            found.append(entry)
        elif tag == "86" and found and found[-1].request_id is None:
            named = _END_TO_END.search(_SUBFIELD.sub("", value.replace("\n", "")))
            if named is not None:
                found[-1] = replace(found[-1], request_id=_first(named.group(1) or named.group(2)))
    _check_is_closed(opening)
    if not currency:
        raise NotAStatement("is a SWIFT message without an opening balance (:60F:)")
    return _numbered(found)


def _mt940_entry(value: str, currency: str) -> tuple[StatementEntry, Decimal]:
    line = _LINE.match(value)
    if line is None:
        raise NotAStatement(f"has a line that cannot be read: :61:{value[:40]}")
    day, booked, mark, _, amount, _, references = line.groups()
    ours, _, theirs = references.partition("//")
    signed = SIGN[mark] * _number(amount)
    valued = _day(day, "%y%m%d")
    booked_on = _nearest(booked, valued) if booked else valued
    entry = StatementEntry(
        line=0,
        order_no=_first(theirs) or "",
        request_id=_first(ours),
        order_type=INCOMING[0] if signed > 0 else None,
        currency=currency,
        amount=abs(signed),
        status=OrderStatus.SUCCESS,
        booked_on=booked_on,
    )
    return entry, signed


def _nearest(booked: str, valued: date) -> date:
    """The day of a month (MMDD) that is nearest to the value date; 29 February is one of leap years alone."""
    years = (valued.year + more for more in (0, 1, -1))
    near = [_day(f"{year}{booked}", "%Y%m%d") for year in years if booked != "0229" or isleap(year)]
    if not near:
        raise NotAStatement(f"has a day that is none: {booked!r} beside {valued}")
    return min(near, key=lambda each: abs((each - valued).days))


def _first(*names: str) -> str | None:
    found = next((name.strip() for name in names if name.strip() not in NO_REFERENCE), None)
    if found is not None and len(found) > MAX_REFERENCE:
        raise NotAStatement(
            f"has a reference of {len(found)} characters, {found[:MAX_REFERENCE]}...: no bank's is as long"
        )
    return found


def _number(text: str) -> Decimal:
    try:
        amount = parse_amount(text.strip().replace(",", ".").rstrip("."))
    except ValueError:
        raise NotAStatement(f"has an amount that is none: {text[:40]!r}") from None
    if amount < 0:
        raise NotAStatement(f"has a negative amount, {text[:40]}: the mark beside an amount says which way it went")
    return amount


def _check_is_closed(opening: tuple[Decimal, str] | None) -> None:
    if opening is not None:
        said = f"from {format_amount(opening[0])} {opening[1]} on it has no closing balance (:62F:)"
        raise NotAStatement(f"is cut off: {said}")


def _check_sum(
    opening: tuple[Decimal, str] | None, moved: list[tuple[Decimal, str]], closing: tuple[Decimal, str] | None
) -> None:
    """Raise `NotAStatement` where the lines do not lead from the opening to the closing balance."""
    if opening is None or closing is None:
        return
    reached = opening[0] + sum((amount for amount, _ in moved), Decimal(0))
    if reached != closing[0]:
        raise NotAStatement(
            f"does not add up: from {format_amount(opening[0])} its lines lead to {format_amount(reached)} "
            f"{opening[1]}, and it closes with {format_amount(closing[0])}: a page of it may be missing"
        )


def _numbered(entries: list[StatementEntry]) -> list[StatementEntry]:
    """Give each its line, and one without a reference of the bank a name of what it says, the same in every file.

    One without such a reference that is not booked yet is left out: nothing tells that it is the same once it is.
    """
    seen: Counter[str] = Counter()
    named = []
    for line, entry in enumerate(entries, 1):
        if not entry.order_no and not entry.has_moved:
            continue
        mark = "+" if entry.is_incoming else "-"
        said = f"{entry.booked_on}{mark}{format_amount(entry.amount)}{entry.currency}"
        # Names that others gave are not of one line alone: a standing order has the same one in every month.
        name = entry.order_no or f"{entry.request_id or ''} {said}".strip()
        seen[name] += 1
        named.append(replace(entry, line=line, order_no=name if seen[name] == 1 else f"{name}#{seen[name]}"))
    return named
