"""Pure: what a payment debits that fixes what is received, before its own quote tells: by the rate, and fees seen."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal

from treasury.money import ZERO, exact, round_up
from treasury.orders.records import Quote


@dataclass(frozen=True)
class SeenFee:
    """The fee that a quote took beside what was received by its rate."""

    receives: Decimal
    """The amount received."""
    fee: Decimal
    """In the currency that is paid."""


@exact
def seen_fees(quotes: Iterable[Quote]) -> tuple[SeenFee, ...]:
    """Return what was charged inside quotes of one pair of currencies; nothing of one that does not say its amounts.

    The larger of the fee that the quote names, in the currency that is paid, and what is paid beyond the amount
    received at the quote's rate: the document does not say how the three hang together, and its example
    contradicts each way (public fact 7.4, "fiat quote example").
    """
    found = []
    for quote in quotes:
        paid, received, rate = quote.pay_amount, quote.receive_amount, quote.rate
        if paid is None or not received:
            continue
        named = quote.fee if quote.fee is not None and quote.fee_currency == quote.pay_currency else ZERO
        beyond = paid - received / rate if rate else ZERO
        found.append(SeenFee(received, max(named, beyond, ZERO)))
    return tuple(found)


@exact
def expected_fee(receives: Decimal, seen: Sequence[SeenFee]) -> Decimal:
    """The most that a quote is expected to take for an amount received, by what others of its pair took.

    Neither more than the largest fee, which grows in proportion beyond the largest amount, nor a larger share than the
    largest one, which is that of the smallest amount below it: right for a fixed fee, and for a share.
    """
    if not seen:
        return ZERO
    amounts = [each.receives for each in seen]
    by_size = max(each.fee for each in seen) * max(Decimal(1), receives / max(amounts))
    by_share = max(each.fee / each.receives for each in seen) * max(receives, min(amounts))
    return min(by_size, by_share)


@exact
def most_expected(receives: Decimal, rate: Decimal, seen: Sequence[SeenFee], margin_percent: Decimal) -> Decimal:
    """Return the most that a payment may debit by its estimate: what it receives at a rate, its fee, and a margin.

    Rounded up, to hundredths where it is one or more.
    """
    debit = (receives / rate + expected_fee(receives, seen)) * (1 + margin_percent / 100)
    return round_up(debit, 2 if debit >= 1 else 8)


@exact
def expected_debit(
    receives: Decimal, rate: Decimal | None, ceiling: Decimal | None, seen: Sequence[SeenFee], margin: Decimal
) -> Decimal | None:
    """Return what a payment debits by the rate of now and the fees seen, with a margin, at most its ceiling; None if
    unknown. Rounded up to 8 decimals.

    `rate`: as many of what is received as one of what is paid gives. Where no quote of its pair was ever seen, its
    ceiling, if it has one: no fee is known, and more is never asked for.
    """
    if rate is None or (ceiling is not None and not seen):
        return ceiling
    debit = round_up((receives / rate + expected_fee(receives, seen)) * margin, 8)
    return debit if ceiling is None else min(debit, ceiling)
