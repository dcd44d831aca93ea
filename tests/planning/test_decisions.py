"""Whether a quote may be confirmed: inside its bounds, and nowhere else."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pytest

from treasury.decisions import Bounds, quote_problem
from treasury.ledger.records import Quote
from treasury.planning.policy import parse_policy
from treasury.planning.rebalancing import Rates, plan_trades
from treasury.runs.rebalancing import plan_trade

NOW = 1_790_000_000_000
POLICY = parse_policy(
    {
        "time_zone": "UTC",
        "base_asset": "USDT",
        "slippage_bps": 50,
        "fee_bps": 100,
        "smallest_trade": "10",
        "assets": {"ETH": {"target": "2"}, "USDT": {"target": "1000", "minimum": "0", "maximum": "100000"}},
    },
    "test",
)


def bounds(eth: str, usdt: str) -> Bounds:
    rates = {"ETH-USDT": Rates(buy=Decimal(2010), sell=Decimal(2000))}
    [trade] = plan_trades(POLICY, {"ETH": Decimal(eth), "USDT": Decimal(usdt)}, rates).trades
    return Bounds.from_dict(plan_trade(trade).payload["bounds"])


BOUNDS = {"sale": bounds("3.5", "0"), "purchase": bounds("0.5", "9000")}
QUOTES: Mapping[str, Mapping[str, Any]] = {
    "sale": {
        "quote": "q1",
        "pay_currency": "ETH",
        "pay_amount": "1.500",
        "receive_currency": "USDT",
        "receive_amount": "2983",
        "fee_currency": "USDT",
        "fee": "3",
        "rate": "1995",
        "expires_at": NOW + 1,
    },
    "purchase": {
        "quote": "q1",
        "pay_currency": "USDT",
        "pay_amount": "3015",
        "receive_currency": "ETH",
        "receive_amount": "1.4915",
        "fee_currency": "ETH",
        "fee": "0.0015",
        "rate": "2012",
        "expires_at": NOW + 1,
    },
}


def judge(kind: str, change: Mapping[str, Any]) -> str | None:
    said = {**QUOTES[kind], **change}
    for name in ("pay_amount", "receive_amount", "fee", "rate"):
        said[name] = None if said[name] is None else Decimal(said[name])
    known = {"id": 1, "order_id": 1, "generation": 1, "request_id": "r", "note": None, "created_at": NOW}
    return quote_problem(Quote(**known, **said), BOUNDS[kind], NOW)


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("sale", {}),
        ("purchase", {}),
        ("sale", {"receive_amount": "2982", "fee": "3"}),
        ("sale", {"receive_amount": "2985", "fee": None, "fee_currency": None}),
        ("sale", {"rate": "1990"}),
        ("purchase", {"rate": "2020.05"}),
    ],
)
def test_a_quote_inside_its_bounds_may_be_confirmed(kind: str, change: Mapping[str, Any]) -> None:
    assert judge(kind, change) is None


@pytest.mark.parametrize(
    ("kind", "change", "reason"),
    [
        ("sale", {"rate": "1989.99"}, "rate is 1989.99, less than 1990"),
        ("sale", {"rate": None}, "does not say its rate"),
        ("sale", {"receive_amount": "2981.99"}, "before the fee is 2984.99, less than 2985"),
        ("sale", {"fee": "30.01", "receive_amount": "2983"}, "fee is 30.01, more than 30"),
        ("sale", {"fee": "-1"}, "fee is -1"),
        ("sale", {"fee_currency": "ETH"}, "fee is taken in ETH"),
        ("sale", {"pay_amount": "1.4999"}, "pay amount is 1.4999, not 1.5"),
        ("sale", {"pay_currency": "BTC"}, "pay currency is BTC"),
        ("sale", {"receive_currency": "USDC"}, "receive currency is USDC"),
        ("sale", {"expires_at": NOW}, "expired"),
        ("sale", {"quote": None}, "incomplete"),
        ("sale", {"receive_amount": None}, "incomplete"),
        ("purchase", {"rate": "2020.06"}, "rate is 2020.06, more than 2020.05"),
        ("purchase", {"receive_amount": "1.49"}, "before the fee is 1.4915, less than"),
    ],
)
def test_a_quote_outside_its_bounds_is_refused_with_the_reason(
    kind: str, change: Mapping[str, Any], reason: str
) -> None:
    said = judge(kind, change)
    assert said is not None
    assert reason in said
