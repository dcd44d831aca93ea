"""Guards of a rate: against its age, its other side, the last good one, the inverse pair and a second
source; pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal

from treasury.money import canonical, exact
from treasury.planning.trades import Rates
from treasury.policy.model import RebalancingTable
from treasury.policy.tables import BPS

GOOD_FOR_MS = 3 * 86_400_000
"""How long a rate counts as the last good one."""


@dataclass(frozen=True)
class Seen:
    """The rates of a pair as they were asked, with what they are compared with. Times are Unix ms."""

    rates: Rates
    at: int | None
    """When the service made them; None where it does not say."""
    last_good: Rates | None = None
    """The last ones that were good, of the past three days."""
    inverse: Rates | None = None
    """Those of the pair the other way round."""
    reference: Decimal | None = None
    """That of the second source."""


def judge_rates(seen: Mapping[str, Seen], terms: RebalancingTable, now_ms: int) -> dict[str, str]:
    """Pair -> why its rates must not be traded at; nothing for a pair whose rates may."""
    found = {symbol: next(_problems(each, terms, now_ms), None) for symbol, each in seen.items()}
    return {symbol: why for symbol, why in found.items() if why is not None}


@exact
def _problems(seen: Seen, terms: RebalancingTable, now_ms: int) -> Iterator[str]:
    rates, spread = seen.rates, terms.max_spread_bps
    if seen.at is not None and now_ms - seen.at > terms.max_rate_age_seconds * 1000:
        age = (now_ms - seen.at) // 1000
        yield f"its rate is {age:,} seconds old, over max_rate_age_seconds, {terms.max_rate_age_seconds:,}"
    if _off(rates.buy, rates.sell, spread):
        yield (
            f"it is bought at {canonical(rates.buy)} and sold at {canonical(rates.sell)}, further apart than "
            f"max_spread_bps, {spread}"
        )
    for side, rate in (("bought", rates.buy), ("sold", rates.sell)):
        if seen.last_good is not None:
            last = seen.last_good.buy if side == "bought" else seen.last_good.sell
            if _off(rate, last, terms.max_rate_move_bps):
                yield (
                    f"it is {side} at {canonical(rate)}, and was at {canonical(last)} when it was last good: further "
                    f"than max_rate_move_bps, {terms.max_rate_move_bps}"
                )
        if seen.reference is not None and _off(rate, seen.reference, terms.max_reference_move_bps):
            yield (
                f"it is {side} at {canonical(rate)}, and the reference rate is {canonical(seen.reference)}: further "
                f"than max_reference_move_bps, {terms.max_reference_move_bps}"
            )
    if seen.inverse is not None and any(
        abs(rate * inverse - 1) * BPS > spread
        for rate, inverse in ((rates.buy, seen.inverse.sell), (rates.sell, seen.inverse.buy))
    ):
        yield f"the pair the other way round has another rate, off by more than max_spread_bps, {spread}"
    if terms.reference_rates is not None and seen.reference is None:
        yield "the reference rates do not name it"


def _off(rate: Decimal, other: Decimal, most_bps: int) -> bool:
    return abs(rate - other) * BPS > most_bps * other
