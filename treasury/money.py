"""Amounts: `Decimal` inside, plain decimal text on the wire and in files; never float, never exponent form."""

import functools
import re
from collections.abc import Callable, Iterable, Mapping
from decimal import ROUND_DOWN, ROUND_UP, Context, Decimal, InvalidOperation, localcontext
from typing import ParamSpec, TypeVar

from treasury.errors import NotWrittenByUs

P = ParamSpec("P")
T = TypeVar("T")
K = TypeVar("K")

ZERO = Decimal(0)

EXACT = Context(prec=120)
"""Sums of any number of amounts, and products of two (30 digits before the point, 18 after), are exact in it; the
default context rounds to 28 digits."""


def exact(function: Callable[P, T]) -> Callable[P, T]:
    """A function that adds, subtracts or multiplies amounts without rounding them."""

    @functools.wraps(function)
    def counted(*args: P.args, **kwargs: P.kwargs) -> T:
        with localcontext(EXACT):
            return function(*args, **kwargs)

    return counted


@exact
def sums_of(amounts: Iterable[tuple[K, Decimal]]) -> dict[K, Decimal]:
    """Return the sum of the amounts of each name, in the order in which names come."""
    sums: dict[K, Decimal] = {}
    for name, amount in amounts:
        sums[name] = sums.get(name, Decimal(0)) + amount
    return sums


FRACTION_DIGITS = 18
"""Most fractional digits of an amount (document, Response envelope)."""

_PLAIN = re.compile(r"[+-]?[0-9]{1,30}(\.[0-9]{1,18})?")


def parse_amount(value: object) -> Decimal:
    """Read an amount from text, `int` or `Decimal`.

    Raises `ValueError` for floats (they cannot hold cents), exponent form, thousands separators, more than 18
    fractional digits, and anything that is not a number.
    """
    if isinstance(value, bool | float):
        raise ValueError('an amount is written as text, for example "12.50"; a floating-point number is not exact')  # noqa: TRY004
    if isinstance(value, Decimal):
        value = format_amount(value)
    text = str(value).strip()
    if not _PLAIN.fullmatch(text):
        raise ValueError("an amount is plain digits with at most 18 after a decimal point, for example 1250.00")
    return Decimal(text)


MAX_DIGITS = 30
"""Most digits of an amount before its point."""

_WRITTEN = re.compile(r"[+-]?[0-9]{1,60}(\.[0-9]{1,60})?([eE][+-]?[0-9]{1,2})?")


def parse_reply_amount(value: object) -> Decimal:
    """Read an amount as a service writes it: as `parse_amount` does, and with an exponent, as Java's BigDecimal prints
    it (`0E-18`, `1E-8`, `1.5E+3`); the result is plain.

    Raises `ValueError` for a float, for what is not a number, and for more than 30 digits before the point or 18 after.
    """
    if isinstance(value, bool | float):
        raise ValueError("an amount is text, or a number that was read exactly")  # noqa: TRY004
    text = str(value).strip()
    if not _WRITTEN.fullmatch(text):
        raise ValueError("an amount is a decimal number")
    amount = Decimal(text)
    if amount.adjusted() >= MAX_DIGITS and amount:
        raise ValueError(f"an amount has at most {MAX_DIGITS} digits before the point")
    plain = format(amount, "f")
    if len(plain.partition(".")[2]) > FRACTION_DIGITS or len(plain) > MAX_DIGITS + FRACTION_DIGITS + 2:
        raise ValueError(f"an amount has at most {FRACTION_DIGITS} digits after the point")
    return Decimal(plain)


@exact
def parse_reply_rate(value: object) -> Decimal:
    """Read a rate as a service writes it: as `parse_reply_amount` does, but with any number of digits after the point,
    for a quotient has no end; it is rounded to 18. Raises `ValueError`."""
    text = str(value).strip()
    if _WRITTEN.fullmatch(text) and int(Decimal(text).as_tuple().exponent) < -FRACTION_DIGITS:
        value = round(Decimal(text), FRACTION_DIGITS)
    return parse_reply_amount(value)


def format_amount(amount: Decimal) -> str:
    """Write an amount as plain text, digits as given: `Decimal("1E+2")` is `"100"`, `Decimal("1.50")` is `"1.50"`."""
    if not amount.is_finite():
        raise ValueError("an amount is a finite number")
    text = str(amount)  # five times as fast as `format`, and the same without an exponent
    return text if "E" not in text else format(amount, "f")


def stored_amount(text: str | None) -> Decimal | None:
    """Read an amount that we wrote ourselves; None where none was known. Raises `NotWrittenByUs`."""
    try:
        return None if text is None else Decimal(text)
    except InvalidOperation:
        raise NotWrittenByUs(text, "an amount") from None


def amount_text(amount: Decimal | None) -> str | None:
    """Write an amount as `format_amount` does; None where none is known."""
    return None if amount is None else format_amount(amount)


def round_down(amount: Decimal, digits: int) -> Decimal:
    """Cut an amount to `digits` after the point, toward zero: what we ask for never exceeds what was meant."""
    return amount.quantize(Decimal(1).scaleb(-digits), rounding=ROUND_DOWN, context=EXACT)


def round_up(amount: Decimal, digits: int) -> Decimal:
    """Round an amount away from zero to `digits` after the point: fees and needed funds are never understated."""
    return amount.quantize(Decimal(1).scaleb(-digits), rounding=ROUND_UP, context=EXACT)


def canonical(amount: Decimal) -> str:
    """The one way to write an amount: 1.50 and 1.5 are `1.5`, 0.00 is `0`."""
    return format_amount(amount.normalize(EXACT))


def family_of(asset: str) -> str:
    """The asset that a code stands for, whatever its network: `USDT` of `USDT_TRC20` (public fact 7.1)."""
    return asset.partition("_")[0]


def of_asset(amounts: Mapping[str, Decimal], currency: str) -> Decimal | None:
    """Return the amount that stands for a currency: under its own code, else under that of its asset."""
    return amounts.get(currency, amounts.get(family_of(currency)))


def is_same_currency(one: str | None, other: str | None) -> bool:
    """Tell whether two currencies are one, as far as both are named."""
    return None in (one, other) or one == other
