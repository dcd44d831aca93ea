"""Pure: what identifies a payee, and what one looks like, however an account or an address is written."""

import re
import unicodedata
from contextlib import suppress

from treasury.addresses import key_of_address
from treasury.texts import as_it_looks

_CHOSEN = "|="
"""Separates how a payee looks from the names of it that somebody chose, as they are written."""

_HASHED = 25
"""Characters from which on an address is a hash of a key: nobody finds another one that looks like it."""


def payee_of_address(address: str, tag: str | None) -> str:
    """Return what identifies an address with its tag or memo, however it is written. Personal: never log it.

    Anybody may choose a memo, or a short address such as those of EOS, that looks like another one.
    """
    bare = as_it_looks(address).removeprefix(as_it_looks("bitcoincash"))  # CashAddr: with it or without, one address
    names = ("" if len(bare) >= _HASHED else address.strip(), (tag or "").strip())
    memo, key = as_it_looks(tag or ""), key_of_address(address.strip())
    whole = f"{bare}|{memo}" + _as_chosen(*names)
    return whole if key is None else f"{key}|{memo}{_CHOSEN}{whole}"


def payee_key(account: object, country: object, bank: object, *, is_phone: bool = False) -> str:
    """Return what identifies a payee, however its account is written. Personal: never log it.

    An alias with an @ is a name that anybody may choose to look like another one; a number is given by a bank. What the
    payee of an IBAN looks like lacks country and bank, which the IBAN names: a bank has a code on each route.
    `is_phone`: of a wallet whose account is a phone number.
    """
    text = str(account)
    chosen = " ".join(text.split()).casefold() if "@" in text else ""
    number = (_phone_meant(text, str(country)) if is_phone else None) or as_it_looks(text)
    places = as_it_looks(str(country)), as_it_looks(str(bank))
    whole = "|".join((number, *places))
    return f"{number}||{_CHOSEN}{whole}" if _is_iban(text) else whole + _as_chosen(chosen)


def _is_iban(text: str) -> bool:
    """Tell whether a text is an IBAN with right check digits (ISO 13616), of whatever country."""
    plain = "".join(filter(str.isalnum, unicodedata.normalize("NFKC", text))).upper()
    if not _IBAN.fullmatch(plain):
        return False
    return int("".join(str(int(each, 36)) for each in plain[4:] + plain[:4])) % 97 == 1


_IBAN = re.compile("[A-Z]{2}[0-9]{2}[A-Z0-9]{11,30}")


def _phone_meant(text: str, country: str) -> str | None:
    """Return a phone number's digits with its country's code, be it written with +, 00 or without; None for none."""
    from phonenumbers import NumberParseException, PhoneNumberFormat, format_number, is_valid_number, parse

    digits = as_it_looks(text)
    ways = [(digits, country.strip().upper()), (f"+{digits.removeprefix('00')}", None)]
    if unicodedata.normalize("NFKC", text).strip().startswith(("+", "00")):
        ways.reverse()
    for written, region in ways if digits.isdigit() else ():
        with suppress(NumberParseException):
            if is_valid_number(number := parse(written, region)):
                return format_number(number, PhoneNumberFormat.E164).removeprefix("+")
    return None


def _as_chosen(*names: str) -> str:
    return "" if all(name == as_it_looks(name) for name in names) else _CHOSEN + "|".join(names)


def look_of_payee(payee: str) -> str:
    """Return what a payee looks like, for duplicates: another one that looks the same may be the same one mistyped.

    Zeros in front do not count: a spreadsheet program drops them.
    """
    parts = payee.partition(_CHOSEN)[0].split("|")
    return "|".join(part.lstrip("0") if part.isdigit() else part for part in parts)
