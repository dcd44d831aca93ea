"""Random days under this planner beside those under an earlier one: `python -m tests.planning.comparison REVISION`.

The earlier one is taken from git into a temporary directory, and needs what it needed then (`highspy`). Each day has
rounds as two starts make them, at fixed rates. Printed: days whose obligations only one of them meets, what was spent
below a floor, plans that their own start refuses, and what the trades of both cost.
"""

import argparse
import io
import json
import os
import random
import subprocess
import sys
import tarfile
import tempfile
from contextlib import suppress
from decimal import Decimal, localcontext
from pathlib import Path
from typing import Any

from treasury.planning.position import Obligation, Snapshot
from treasury.planning.round_planner import plan_rebalancing
from treasury.planning.trades import Rates, Trade, Traded, TradePlan, check_trades
from treasury.policy.model import Policy

D = Decimal
PRICES = {"ETH": 2000.0, "BTC": 50000.0, "BRL": 0.2, "DOGE": 0.1}
ROUNDS = 8
FEE = D("0.001")


def amount(value: float, asset: str) -> Decimal:
    """An amount worth so much in the base asset."""
    return D(f"{value / PRICES.get(asset, 1):.6f}")


def made_up(seed: int) -> tuple[Policy, dict[str, Decimal], dict[str, Rates], tuple[Obligation, ...]]:
    """A day: a policy, balances, rates and obligations."""
    chance = random.Random(seed)
    floor = chance.choice([0, chance.randint(0, 40_000)])
    assets: dict[str, dict[str, str]] = {"USDT": {"target": str(floor + chance.randint(0, 20_000))}}
    if chance.random() < 0.5:
        assets["USDT"]["floor"] = str(floor)
    balances, owed = {"USDT": amount(chance.uniform(0, 60_000), "USDT")}, []
    for asset in PRICES:
        low, aim, high = sorted(chance.uniform(0, 40_000) for _ in range(3))
        assets[asset] = {"minimum": f"{amount(low, asset)}", "target": f"{amount(aim, asset)}"}
        assets[asset]["maximum"] = f"{amount(high, asset)}"
        if chance.random() < 0.5:
            assets[asset]["floor"] = f"{amount(low / 3, asset)}"
        balances[asset] = amount(chance.uniform(0, 50_000), asset)
        if chance.random() < 0.4:
            owed.append(Obligation(asset, amount(chance.uniform(0, 40_000), asset), "run payroll"))
    rates = {}
    pairs = {"ETH-BTC": PRICES["ETH"] / PRICES["BTC"], **{f"{each}-USDT": price for each, price in PRICES.items()}}
    for symbol, price in pairs.items():
        half = chance.uniform(0.0002, 0.004)
        rates[symbol] = Rates(D(f"{price * (1 + half):.10f}"), D(f"{price * (1 - half):.10f}"))
    limits: dict[str, Any] = {}
    if seed % 3 == 0:
        limits["max_value_per_day"] = str(chance.randint(1000, 60_000))
    if seed % 3 == 1:
        limits["max_per_pair"] = {chance.choice(sorted(rates)): str(chance.randint(1000, 30_000))}
    if seed % 6 == 1:
        limits["max_per_trade"] = {"ETH": "1"}
    content = {"base_asset": "USDT", "assets": assets, "rebalancing": {"min_trade": "10", "pairs": ["ETH-BTC"]}}
    return Policy.model_validate({**content, **({"conversions": limits} if limits else {})}), balances, rates, (*owed,)


def arrives(trade: Trade) -> Decimal:
    """Return what a trade brings after its fee."""
    return (trade.expected_receive * (1 - FEE)).quantize(D("1e-8"), rounding="ROUND_DOWN")


def a_day(seed: int) -> dict[str, Any]:
    """Return what became of a day."""
    policy, balances, rates, owed = made_up(seed)
    floor = D(str((policy.assets["USDT"].floor or policy.assets["USDT"].minimum).quantity))
    start, low, refused = balances["USDT"], balances["USDT"], None
    done = Traded({}, (), {}, D(0))
    trades = 0
    rounds: list[TradePlan] = []
    for _ in range(ROUNDS):
        today = {"brought": unspent(rounds), "moved": done.moved, "traded": done.value, "cost": done.cost}
        at = Snapshot.from_dict({"at": 1, "available": balances, "rates": rates, "obligations": owed, **today})
        plan = plan_rebalancing(policy, at).plan
        refused = check_trades(plan, policy.conversions, done)
        if not plan.trades or refused is not None:
            break
        with localcontext(prec=60):
            done = Traded(done.moved, (), dict(done.value), done.cost + sum(each.cost for each in plan.trades))
            for trade in plan.trades:
                balances[trade.currency] -= trade.amount
                low = min(low, balances["USDT"])
                balances[trade.receive_currency] += arrives(trade)
                done.value[trade.symbol] = done.value.get(trade.symbol, D(0)) + trade.value  # type: ignore[index]
        rounds.append(plan)
        trades += len(plan.trades)
    lacks = {each.asset: each.amount - balances[each.asset] for each in owed if balances[each.asset] < each.amount}
    value = sum(float(lack) * PRICES[asset] for asset, lack in lacks.items())
    below = float(max(min(floor, start) - low, D(0)))
    return {"lacks": value, "below": below, "refused": refused, "cost": float(done.cost), "trades": trades}


def unspent(rounds: list[TradePlan]) -> dict[Any, Any]:
    """Return what sales for obligations brought, where the planner knows of it."""
    with suppress(ImportError):
        from treasury.planning.fills import MadeRound, unspent_proceeds

        made = [{trade.row_ref: arrives(trade) for trade in plan.trades} for plan in rounds]
        found = unspent_proceeds(MadeRound(plan, each, list(each)) for plan, each in zip(rounds, made, strict=True))
        return dict(found.brought)
    return {}


def earlier(revision: str, days: int) -> list[dict[str, Any]]:
    """Return the days of an earlier planner."""
    with tempfile.TemporaryDirectory() as folder:
        packed = subprocess.run(["git", "archive", revision, "treasury"], capture_output=True, check=True).stdout
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            archive.extractall(folder, filter="data")
        command = [sys.executable, str(Path(__file__)), "--days", str(days), "--as-json"]
        said = subprocess.run(command, env={**os.environ, "PYTHONPATH": folder}, capture_output=True, check=True)
        found: list[dict[str, Any]] = json.loads(said.stdout)
        return found


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser()
    parser.add_argument("revision", nargs="?")
    parser.add_argument("--days", type=int, default=90)
    parser.add_argument("--as-json", action="store_true")
    asked = parser.parse_args()
    mine = [a_day(seed) for seed in range(asked.days)]
    if asked.as_json:
        print(json.dumps(mine))
        return
    before = earlier(asked.revision, asked.days)
    for day, (old, new) in enumerate(zip(before, mine, strict=True)):
        if (old["lacks"] > 1) != (new["lacks"] > 1) or old["below"] > 0.01 or old["refused"] or new["refused"]:
            print(day, "earlier:", old, "now:", new)
    for name, days in (("earlier", before), ("now", mine)):
        met = sum(each["lacks"] <= 1 for each in days)
        below, refused = sum(each["below"] > 0.01 for each in days), sum(each["refused"] is not None for each in days)
        lacks, cost = sum(each["lacks"] for each in days), sum(each["cost"] for each in days)
        trades = sum(each["trades"] for each in days)
        print(
            f"{name}: met {met} of {len(days)}, open {lacks:.2f}, below its floor {below}, own plan refused {refused}, "
            f"{trades} trades, cost {cost:.2f}"
        )
    same = [(a, b) for a, b in zip(before, mine, strict=True) if abs(a["lacks"] - b["lacks"]) < 1 and not a["refused"]]
    print(
        f"{len(same)} days alike in what stays open: cost {sum(a['cost'] for a, _ in same):.2f} earlier, "
        f"{sum(b['cost'] for _, b in same):.2f} now"
    )


if __name__ == "__main__":
    main()
