"""Rates that must not be traded at: each guard alone, and a rate that passes all."""

from decimal import Decimal
from typing import Any

import pytest

from treasury.planning.market import Seen, judge_rates
from treasury.planning.trades import Rates
from treasury.policy.model import RebalancingTable

D = Decimal
NOW = 1_790_000_000_000
GOOD = Rates(D(101), D(99))
TERMS = RebalancingTable(min_trade=D(1))


def judged(terms: RebalancingTable = TERMS, rates: Rates = GOOD, at: int | None = NOW, **more: Any) -> str | None:
    return judge_rates({"ETH-USDT": Seen(rates, at, **more)}, terms, NOW).get("ETH-USDT")


def test_a_rate_that_agrees_with_everything_may_be_traded() -> None:
    inverse = Rates(D(1) / 99, D(1) / 101)
    assert judged(last_good=Rates(D(120), D(118)), inverse=inverse, reference=D(100)) is None
    assert judged(at=None) is None


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"at": NOW - 601_000}, "its rate is 601 seconds old"),
        ({"rates": Rates(D(120), D(99))}, "further apart than max_spread_bps, 1000"),
        ({"last_good": Rates(D(50), D(49))}, "was at 50 when it was last good"),
        ({"last_good": Rates(D(101), D(49))}, "it is sold at 99, and was at 49"),
        ({"inverse": Rates(D("0.02"), D("0.0198"))}, "the pair the other way round has another rate"),
        ({"reference": D(90)}, "the reference rate is 90"),
    ],
)
def test_each_guard_stops_a_rate_by_its_own_words(facts: dict[str, Any], said: str) -> None:
    assert said in str(judged(**facts))


def test_a_pair_that_the_second_source_does_not_name_is_stopped() -> None:
    terms = RebalancingTable(min_trade=D(1), reference_rates="rates.csv")
    assert judged(terms) == "the reference rates do not name it"
    assert judged(terms, reference=D(100)) is None
