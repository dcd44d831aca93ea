"""Thai PromptPay QR codes: EMV TLV with a CRC-16/CCITT-FALSE at the end; read and built."""

import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from treasury.errors import InputError
from treasury.money import format_amount, parse_amount

THB = "764"
"""ISO 4217 numeric code of the Thai baht."""

TRANSFER, BILL = "A000000677010111", "A000000677010112"
"""Application ids of a PromptPay credit transfer (tag 29) and of a bill payment (tag 30)."""

_ACCOUNTS: Mapping[tuple[str, str], Mapping[str, str]] = {
    ("29", TRANSFER): {"01": "phone", "02": "national_id", "03": "ewallet"},
    ("30", BILL): {"01": "biller"},
}
"""Template and application id -> the member that holds the account, and its kind."""

_RESERVED = "04"
"""Member of a transfer for bank accounts; nobody pays to one yet, but a code that has one names another account."""


@dataclass(frozen=True)
class PromptPayCode:
    """The content of a code; `amount`, in THB, is None when the payer chooses it."""

    account: str
    account_type: str
    amount: Decimal | None = None
    name: str | None = None
    reference: str = ""
    """The references of a bill; empty for a transfer."""


def checksum(text: str) -> str:
    """CRC-16/CCITT-FALSE as four hexadecimal digits: polynomial 0x1021, start 0xFFFF."""
    return f"{binascii.crc_hqx(text.encode(), 0xFFFF):04X}"


def read_promptpay(text: str) -> PromptPayCode:
    """Decode a PromptPay code. Raises `InputError` for a wrong checksum and for codes of any other kind."""
    if not text.isascii() or text[-8:-4] != "6304" or checksum(text[:-4]) != text[-4:].upper():
        raise InputError("the checksum of the QR code is wrong")
    return _read_fields(text)


def _read_fields(text: str) -> PromptPayCode:
    """The content of a code, whatever its checksum says. Raises `InputError` for codes of any other kind."""
    fields = _read_tlv(text)
    if fields.get("00") != "01" or fields.get("58") != "TH" or fields.get("53", THB) != THB:
        raise InputError("the QR code is not a Thai PromptPay code")
    account, account_type, reference = _account(fields)
    try:
        amount = parse_amount(fields["54"]) if "54" in fields else None
    except ValueError:
        raise InputError("the amount of the QR code cannot be read") from None
    if amount is not None and amount <= 0:
        raise InputError("the amount of the QR code is not above zero")
    return PromptPayCode(account, account_type, amount, fields.get("59"), reference + fields.get("62", ""))


def payee_of_code(text: str) -> str:
    """Return what identifies whom a code pays, and for what; of a code that cannot be read, the text. Personal.

    A wrong checksum, which a service may let pass, makes it no other payee.
    """
    try:
        code = _read_fields(text)
    except InputError:
        return f"{THB}|{text}"
    return f"{THB}|{code.account}|{code.reference}"


def account_of_code(text: str) -> str:
    """The account that a code pays; of a code that cannot be read, the text. Personal."""
    try:
        return _read_fields(text).account
    except InputError:
        return text


def name_of_code(text: str) -> str | None:
    """The name of whom a code pays; None of a code that does not say it, or cannot be read. Personal."""
    try:
        return _read_fields(text).name
    except InputError:
        return None


def why_not_paid(text: str, amount: Decimal) -> str | None:
    """Say why a code cannot be paid, or not with this amount of THB; None where it can."""
    try:
        code = read_promptpay(text)
    except InputError as error:
        return f"qrcode: cannot be paid: {error}"
    if code.amount in (None, amount):
        return None
    return f"amount: must be the amount of the code, {format_amount(code.amount)} THB"


def _account(fields: Mapping[str, str]) -> tuple[str, str, str]:
    """Account, its kind, and the references of a bill. Raises `InputError` where there is none, or more than one: which
    one is paid nobody could say beforehand."""
    found, named = [], 0
    for (template, application), members in _ACCOUNTS.items():
        inner = _read_tlv(fields.get(template, ""))
        if inner.get("00") != application:
            continue
        reference = "|".join(inner[each] for each in ("02", "03") if template == "30" and each in inner)
        named += len(inner.keys() & {*members, *([_RESERVED] if template == "29" else [])})
        found += [(inner[tag], kind, reference) for tag, kind in members.items() if inner.get(tag, "").isdigit()]
    if not found:
        raise InputError("the QR code is not a PromptPay code that names an account")
    if named > 1:
        raise InputError("the QR code names more than one account")
    return found[0]


def _read_tlv(text: str) -> dict[str, str]:
    """Tag -> value; two digits of tag, two of length, then the value."""
    found: dict[str, str] = {}
    place = 0
    while place < len(text):
        tag, length = text[place : place + 2], text[place + 2 : place + 4]
        if not (tag.isdigit() and length.isdigit()) or place + 4 + int(length) > len(text):
            raise InputError("the QR code is not well-formed EMV data")
        if tag in found:  # one reader takes the first, another the last
            raise InputError(f"the QR code names something twice (tag {tag})")
        found[tag] = text[place + 4 : place + 4 + int(length)]
        place += 4 + int(length)
    return found


def build_promptpay(account: str, amount: Decimal | None = None, name: str | None = None) -> str:
    """A code for a phone (`0812345678`), a national id (13 digits) or an e-wallet (15 digits); `amount` in THB.

    Raises `InputError` for an account of any other shape.
    """
    if not (account.isascii() and account.isdigit() and len(account) in (10, 13, 15)):
        raise InputError("a PromptPay account has 10 (phone), 13 (national id) or 15 (e-wallet) digits")
    tag = {10: "01", 13: "02", 15: "03"}[len(account)]
    number = f"0066{account[1:]}" if tag == "01" else account
    parts = [
        _tlv("00", "01"),
        _tlv("01", "11" if amount is None else "12"),
        _tlv("29", _tlv("00", TRANSFER) + _tlv(tag, number)),
        _tlv("53", THB),
        *([] if amount is None else [_tlv("54", format_amount(amount))]),
        _tlv("58", "TH"),
        *([] if name is None else [_tlv("59", name)]),
        "6304",
    ]
    text = "".join(parts)
    return text + checksum(text)


def _tlv(tag: str, value: str) -> str:
    return f"{tag}{len(value):02d}{value}"
