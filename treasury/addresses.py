"""Addresses of chains: judged by the format and checksum that each chain publishes, before anything is sent to one."""

import hashlib
import re
from collections.abc import Callable, Mapping

from treasury.errors import Problem

_BITCOIN = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_RIPPLE = "rpshnaf39wBUDNEGHJKLM4PQRST7VWXYZ2bcdeCg65jkm8oFqi1tuvAxyz"
_BECH32 = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
_HEX = re.compile(r"0[xX][0-9a-fA-F]{40}")

Judge = Callable[[str], str | None]
"""Returns why a text is no address; None for one."""


def why_no_address(currency: str, address: str) -> str | None:
    """Why a text is no address of a currency's chain, in words; None for one, and where no rule is known.

    `currency`: an asset code of public fact 7.1, whose suffix names the chain.
    """
    judge = _JUDGES.get(currency.upper())
    return None if judge is None else judge(address)


def is_checked(currency: str) -> bool:
    """Tell whether addresses of a currency are judged: a plain `USDT` names no chain."""
    return currency.upper() in _JUDGES


def canonical_address(address: str) -> str:
    """The one form of an address of which letter case is no part (EIP-55, BIP-173), nor a prefix (CashAddr); any other
    as it is."""
    folded = address.lower()
    if _HEX.fullmatch(address) is not None or folded.startswith(("bc1", "ltc1")):
        return folded
    return folded.removeprefix("bitcoincash:") if _cash(address) is None else address


def key_of_address(address: str) -> str | None:
    """Return the hash that an address of Bitcoin's kind stands for, in whichever of its forms; None of any other one.

    Bitcoin Cash has its own form beside that of Bitcoin (`q...`, `1...`); scripts of Litecoin are `M...` or `3...`.
    """
    if _cash(address) is None:
        text = address.lower().removeprefix("bitcoincash:")
        number = 0
        for each in text[:34]:  # 8 bits of kind, 160 of the hash, 2 that are none; the checksum follows
            number = number << 5 | _BECH32.find(each)
        return f"{_CASH_KINDS.get(number >> 162)}{number >> 2 & (1 << 160) - 1:040x}"
    raw = _decoded58(address, _BITCOIN) if 25 <= len(address) <= 35 else None
    if raw is None or len(raw) != 25 or raw[0] not in _KINDS or _base58(_BITCOIN, (raw[0],), "")(address) is not None:
        return None
    return _KINDS[raw[0]] + raw[1:21].hex()


_KINDS: Mapping[int, str] = {0x00: "key", 0x30: "key", 0x05: "script", 0x32: "script"}
_CASH_KINDS: Mapping[int, str] = {0: "key", 8: "script"}


def listed_as(address: str, tag: str | None) -> str:
    """Return an address as a policy lists it: ADDRESS, or ADDRESS:TAG, because each tag is another customer's."""
    return f"{address}:{tag}" if tag else address


NEEDS_TAG: Mapping[str, str] = {"XRP": "destination tag", "XLM": "memo", "EOS": "memo", "BNB": "memo", "TON": "memo"}
"""Chain -> what names the customer behind an address that many share (document, endpoint 3)."""


def problems_of_destination(currency: str, address: str | None, tag: str | None) -> list[Problem]:
    """Return what is wrong with where a withdrawal goes: its chain's format and checksum, and a tag that it needs."""
    problems = []
    if address is not None and (rule := why_no_address(currency, address)) is not None:
        problems.append(Problem("address", rule, code="no_address"))
    if tag is None and (what := NEEDS_TAG.get(currency.upper())) is not None:
        problems.append(Problem("tag", f"is required: without its {what} nobody knows whose the money is"))
    if tag is not None and currency.upper() == "XRP" and not (_NUMBER.fullmatch(tag) and int(tag) < 2**32):
        problems.append(Problem("tag", "is no destination tag: a whole number of at most 4294967295, no 0 before it"))
    return problems


_NUMBER = re.compile(r"0|[1-9][0-9]{0,9}")
"""A number in one way alone, so that two rows to one customer of an address are seen to be alike."""


def _evm(address: str) -> str | None:
    """Ethereum and its like: 20 bytes; letters of both cases carry a checksum (EIP-55)."""
    if _HEX.fullmatch(address) is None:
        return "is no address of an Ethereum-like chain: 0x and 40 hexadecimal digits"
    digits = address[2:]
    if digits in (digits.lower(), digits.upper()):
        return None
    from Crypto.Hash import keccak

    marks = keccak.new(digest_bits=256, data=digits.lower().encode()).hexdigest()
    right = "".join(each.upper() if mark > "7" else each for each, mark in zip(digits.lower(), marks[:40], strict=True))
    return None if digits == right else _MISTYPED


_MISTYPED = "does not pass its checksum: a character of it is wrong"


def _base58(alphabet: str, versions: tuple[int, ...], chain: str) -> Judge:
    """Base58Check: a version byte, 20 bytes, and four of the double SHA-256 over them."""

    def judge(address: str) -> str | None:
        raw = _decoded58(address, alphabet)
        if raw is None or len(raw) != 25 or raw[0] not in versions:
            return f"is no {chain} address"
        digest = hashlib.sha256(hashlib.sha256(raw[:-4]).digest()).digest()
        return None if digest[:4] == raw[-4:] else _MISTYPED

    return judge


def _decoded58(text: str, alphabet: str) -> bytes | None:
    number = 0
    for character in text:
        place = alphabet.find(character)
        if place < 0:
            return None
        number = number * 58 + place
    zeros = len(text) - len(text.lstrip(alphabet[0]))
    return bytes(zeros) + number.to_bytes((number.bit_length() + 7) // 8, "big")


def _segwit(prefix: str, chain: str) -> Judge:
    """Bech32 for version 0 (BIP-173), Bech32m for later ones (BIP-350); in one case throughout."""

    def judge(address: str) -> str | None:
        text = address.lower()
        data = [_BECH32.find(each) for each in text.removeprefix(f"{prefix}1")]
        if address not in (text, address.upper()) or min(data, default=-1) < 0 or not 14 <= len(data) <= 71:
            return f"is no {chain} address"
        high, low = [ord(each) >> 5 for each in prefix], [ord(each) & 31 for each in prefix]
        constant = 1 if data[0] == 0 else 0x2BC830A3
        return None if _bech32_polymod([*high, 0, *low, *data]) == constant else _MISTYPED

    return judge


def _bech32_polymod(values: list[int]) -> int:
    generator, found = (0x3B6A57B2, 0x26508E6D, 0x1EA119FA, 0x3D4233DD, 0x2A1462B3), 1
    for value in values:
        top, found = found >> 25, (found & 0x1FFFFFF) << 5 ^ value
        for place, each in enumerate(generator):
            found ^= each if (top >> place) & 1 else 0
    return found


def _cash(address: str) -> str | None:
    """CashAddr of Bitcoin Cash, with or without its prefix."""
    text = address.lower().removeprefix("bitcoincash:")
    data = [_BECH32.find(each) for each in text]
    if address not in (address.lower(), address.upper()) or min(data, default=-1) < 0 or len(data) != 42:
        return "is no Bitcoin Cash address"
    generator, found = (0x98F2BC8E61, 0x79B76D99E2, 0xF33E5FB3C4, 0xAE2EABE2A8, 0x1E4F43E470), 1
    for value in [*(ord(each) & 31 for each in "bitcoincash"), 0, *data]:
        top, found = found >> 35, (found & 0x07FFFFFFFF) << 5 ^ value
        for place, each in enumerate(generator):
            found ^= each if (top >> place) & 1 else 0
    return None if found == 1 else _MISTYPED


def _one_of(by_start: Mapping[str, Judge], other: Judge) -> Judge:
    """The judge of an address by how it begins."""

    def judge(address: str) -> str | None:
        chosen = (each for start, each in by_start.items() if address.lower().startswith(start))
        return next(chosen, other)(address)

    return judge


_TRON = _base58(_BITCOIN, (0x41,), "Tron")
_JUDGES: Mapping[str, Judge] = {
    **dict.fromkeys(("ETH", "USDT_ERC20", "USDC_ERC20", "USDT_ARB", "USDC_ARB", "USDT_BSC", "BNB_BSC"), _evm),
    **dict.fromkeys(("TRX", "USDT_TRC20"), _TRON),
    "BTC": _one_of({"bc1": _segwit("bc", "Bitcoin")}, _base58(_BITCOIN, (0x00, 0x05), "Bitcoin")),
    "LTC": _one_of({"ltc1": _segwit("ltc", "Litecoin")}, _base58(_BITCOIN, (0x30, 0x32, 0x05), "Litecoin")),
    "DOGE": _base58(_BITCOIN, (0x1E, 0x16), "Dogecoin"),
    "BCH": _one_of(dict.fromkeys("13", _base58(_BITCOIN, (0x00, 0x05), "Bitcoin Cash")), _cash),
    "XRP": _base58(_RIPPLE, (0x00,), "XRP"),
}
"""Asset code (public fact 7.1) -> the rules of its chain. Of a code that is not here no rule is known."""
