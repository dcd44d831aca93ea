"""Currencies the sandbox knows, and their rates, which move with the clock (public facts 6 and 7)."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Literal

from treasury.money import format_amount, round_down, round_up
from treasury.sandbox.answers import Refusal, invalid
from treasury.sandbox.dice import draw, fraction

Kind = Literal["coin", "stable", "fiat"]


@dataclass(frozen=True)
class Currency:
    """One asset or fiat currency. `minimum` is the least amount of an order, `usd` a price that never was true."""

    code: str
    kind: Kind
    decimals: int
    minimum: Decimal
    usd: Decimal
    chain: str | None = None
    """The network it lives on; None for fiat and for generic `USDT`, which has none."""


def _crypto(code: str, kind: Kind, decimals: int, minimum: str, usd: str, chain: str | None) -> Currency:
    return Currency(code, kind, decimals, Decimal(minimum), Decimal(usd), chain)


def _fiat(code: str, decimals: int, minimum: int, usd: str) -> Currency:
    return Currency(code, "fiat", decimals, Decimal(minimum), Decimal(usd))


_ALL = (
    _crypto("USDT", "stable", 6, "1", "1", None),
    _crypto("USDT_TRC20", "stable", 6, "1", "1", "tron"),
    _crypto("USDT_ERC20", "stable", 6, "1", "1", "ethereum"),
    _crypto("USDT_BSC", "stable", 18, "1", "1", "ethereum"),
    _crypto("USDT_ARB", "stable", 6, "1", "1", "ethereum"),
    _crypto("USDC_ERC20", "stable", 6, "1", "1", "ethereum"),
    _crypto("USDC_ARB", "stable", 6, "1", "1", "ethereum"),
    _crypto("BTC", "coin", 8, "0.0001", "64000", "bitcoin"),
    _crypto("ETH", "coin", 18, "0.001", "2650", "ethereum"),
    _crypto("TRX", "coin", 18, "15", "0.15", "tron"),
    _crypto("BNB_BSC", "coin", 18, "0.01", "580", "ethereum"),
    _crypto("DOGE", "coin", 8, "5", "0.12", "doge"),
    _crypto("LTC", "coin", 8, "0.01", "70", "litecoin"),
    _crypto("BCH", "coin", 8, "0.01", "330", "bitcoin-cash"),
    _crypto("BTC_TEST", "coin", 8, "0.0001", "64000", "bitcoin"),
    _crypto("ETH_TEST", "coin", 18, "0.001", "2650", "ethereum"),
    _crypto("BNB_TEST", "coin", 18, "0.01", "580", "ethereum"),
    _crypto("USDT_BSC_TEST", "stable", 18, "1", "1", "ethereum"),
    _fiat("BRL", 2, 1, "0.18"),
    _fiat("EUR", 2, 1, "1.09"),
    _fiat("GBP", 2, 1, "1.29"),
    _fiat("HKD", 2, 1, "0.128"),
    _fiat("IDR", 2, 10_000, "0.0000625"),
    _fiat("INR", 2, 10, "0.0119"),
    _fiat("JPY", 0, 100, "0.0068"),
    _fiat("KRW", 0, 1_000, "0.00073"),
    _fiat("PHP", 2, 10, "0.0174"),
    _fiat("PKR", 2, 100, "0.0036"),
    _fiat("SGD", 2, 1, "0.75"),
    _fiat("THB", 2, 1, "0.0305"),
    _fiat("TWD", 2, 10, "0.031"),
    _fiat("USD", 2, 1, "1"),
    _fiat("VND", 0, 10_000, "0.0000395"),
)

CURRENCIES: Mapping[str, Currency] = {currency.code: currency for currency in _ALL}

_BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_VERSIONS: Mapping[str, int] = {"tron": 0x41, "bitcoin": 0x00, "doge": 0x1E, "litecoin": 0x30, "bitcoin-cash": 0x00}
"""Network -> the byte that its Base58Check addresses begin with; those of Ethereum are twenty bytes in hexadecimal."""


def find_currency(code: str, refused_with: int) -> Currency:
    """The currency of this code; an unknown one is refused with `refused_with` (7002 or 202211)."""
    currency = CURRENCIES.get(code)
    if currency is None:
        raise Refusal(refused_with, code)
    return currency


def find_asset(code: str) -> Currency:
    """A crypto asset that lives on a network; anything else is refused with 7002."""
    currency = find_currency(code, 7002)
    if currency.chain is None:
        raise Refusal(7002, f"{code} names no network")
    return currency


def find_deposited(code: str, usdt_deposits: bool) -> Currency:
    """A crypto asset that is deposited; of a plain `USDT`, where that is taken, the network is Tron."""
    currency = CURRENCIES.get(code)
    if usdt_deposits and currency is not None and currency.code == "USDT":
        return replace(currency, chain="tron")
    return find_asset(code)


def new_address(currency: Currency, seed: int, owner: str) -> str:
    """An address of the asset's network, with its checksum, always the same for the same owner."""
    chain = currency.chain or ""
    content = b"".join(draw(seed, chain, owner, half).to_bytes(16) for half in range(2))[:20]
    if chain == "ethereum":
        return f"0x{content.hex()}"
    raw = bytes([_VERSIONS[chain]]) + content
    raw += hashlib.sha256(hashlib.sha256(raw).digest()).digest()[:4]
    number, digits = int.from_bytes(raw, "big"), ""
    while number:
        number, digit = divmod(number, 58)
        digits = _BASE58[digit] + digits
    return _BASE58[0] * (len(raw) - len(raw.lstrip(b"\0"))) + digits


def check_decimals(field: str, amount: Decimal, currency: Currency) -> None:
    """Refuse an amount with more digits after the point than the currency has."""
    if round_down(amount, currency.decimals) != amount:
        raise invalid(field, f"{currency.code} has at most {currency.decimals} digits after the point")


def check_minimum(amount: Decimal, currency: Currency) -> None:
    """Refuse an amount below the currency's minimum with 202206."""
    if amount < currency.minimum:
        raise Refusal(202206, f"at least {currency.minimum} {currency.code}")


STEP_SECONDS = 10
"""A rate stands still for so long."""
SPREAD = Decimal("0.0005")
"""The share by which buying costs more, and selling brings less, than the middle."""
SWING = {"coin": Decimal("0.002"), "fiat": Decimal("0.002"), "stable": Decimal(0)}
"""How far a price moves around its start, either way: two steps differ by 40 bps at the most, inside the 50 bps of
the sample policy, so that a rehearsal does not depend on the second it began."""

FEE_SHARE = Decimal("0.01")
"""Fee of withdrawals, payouts and pay-ins: 1% of the amount (public fact 7.4, examples)."""
CONVERSION_FEE_SHARE = Decimal("0.001")
FIAT_FEE_USD = Decimal("1.25")
"""Fee of a fiat payout in dollars, charged in the pay currency and inside the pay amount (public fact 7.4, example)."""
SCAN_FEE = Decimal(1)
"""Fee of scan-to-pay in USDT, on top of the order amount (public fact 6, row 14)."""

_RATE_DIGITS = Context(prec=8)


def trim(amount: Decimal) -> Decimal:
    """Return an amount without zeros at its end: `1.000000` is `1`, and `100` stays `100`."""
    text = format_amount(amount)
    return Decimal(text.rstrip("0").rstrip(".")) if "." in text else amount


@dataclass(frozen=True)
class Rates:
    """Prices of one seed; every answer is a function of the seed and the time."""

    seed: int

    def _usd(self, currency: Currency, now: float) -> Decimal:
        step = int(now // STEP_SECONDS)
        swing = Decimal(2 * fraction(self.seed, "price", currency.code, step) - 1) * SWING[currency.kind]
        return currency.usd * (1 + swing)

    def rate(self, base: Currency, quote: Currency, side: str, now: float) -> Decimal:
        """Units of `quote` for one `base`, eight significant digits; dearer for `BUY`, cheaper for `SELL`."""
        if base.code == quote.code:
            return Decimal(1)
        spread = SPREAD if side.upper() == "BUY" else -SPREAD
        middle = self._usd(base, now) / self._usd(quote, now)
        return trim(_RATE_DIGITS.plus(middle * (1 + spread)))

    def fiat_fee(self, pay: Currency, now: float) -> Decimal:
        """The fiat payout fee in the pay currency, rounded up to its decimals."""
        return trim(round_up(FIAT_FEE_USD / self._usd(pay, now), pay.decimals))


def share_fee(amount: Decimal, currency: Currency) -> Decimal:
    """One percent of the amount, rounded up to the currency's decimals."""
    return trim(round_up(amount * FEE_SHARE, currency.decimals))


def convert(amount: Decimal, rate: Decimal, side: str, fee_in: str) -> tuple[Decimal, Decimal]:
    """Return what a conversion settles, and its fee in the asset that is `received` or `paid`.

    The fee is rounded up at 8 digits, what settles half-up at 10.
    """
    whole = _exchanged(amount, rate, side) if fee_in == "received" else amount
    fee = round_up(whole * CONVERSION_FEE_SHARE, 8)
    left = whole - fee if fee_in == "received" else _exchanged(amount - fee, rate, side)
    return trim(left.quantize(Decimal(1).scaleb(-10), rounding=ROUND_HALF_UP)), trim(fee)


def _exchanged(amount: Decimal, rate: Decimal, side: str) -> Decimal:
    return amount / rate if side == "BUY" else amount * rate


def received(paid: Decimal, rate: Decimal, currency: Currency) -> Decimal:
    """Return what arrives for what is left of a pay amount: cut to the received currency's decimals."""
    return trim(round_down(paid * rate, currency.decimals))


def needed(receive: Decimal, rate: Decimal, currency: Currency) -> Decimal:
    """Return what must be left of a pay amount for `receive` to arrive: solved upward at the pay currency's
    decimals."""
    return trim(round_up(receive / rate, currency.decimals))


def scan_amount(amount: Decimal, rate: Decimal) -> Decimal:
    """Order amount of scan-to-pay: amount by rate, ten digits (public fact 6, row 14: 32 / 31.86 = 1.0043942247)."""
    return trim((amount / rate).quantize(Decimal(1).scaleb(-10), rounding=ROUND_HALF_UP))
