"""Rates that move with the clock, and the service's arithmetic with them (public facts 6 and 7.4)."""

from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal

from treasury.money import format_amount, round_down, round_up
from treasury.sandbox.currencies import Currency
from treasury.sandbox.dice import fraction

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
