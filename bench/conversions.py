"""How long a plan of conversions takes: `python -m bench.conversions [--assets 20] [--pairs 60] [--plans 20]`.

Made-up treasuries, more than half of whose assets are out of their bands or lack something for an obligation: much
harder than an ordinary evening (`--unrest 0.2`). Seconds of one plan.
"""

import argparse
import random
import time
from decimal import Decimal

from tests.planning.conversion_rules import check_conversions
from treasury.planning.conversion_model import Holding, Pair, Terms
from treasury.planning.conversions import plan_conversions


def made_up(seed: int, assets: int, pairs: int, unrest: float = 0.6) -> tuple[list[Holding], list[Pair], Terms]:
    """A treasury of so many assets; each has a pair with the base asset, the other pairs are drawn.

    `unrest`: standard deviation of the logarithm of balance over target.
    """
    chance = random.Random(seed)  # noqa: S311
    names = ["USDT", *(f"A{number:02d}" for number in range(1, assets))]
    price = {name: Decimal(f"{10 ** chance.uniform(-2, 4.5):.6f}") for name in names} | {"USDT": Decimal(1)}
    holdings = []
    for name in names:
        target = chance.lognormvariate(9, 1)
        minimum, maximum = target * chance.uniform(0.4, 0.8), target * chance.uniform(1.2, 2)
        held = target * chance.lognormvariate(0, unrest)
        need = chance.choice([0.0, 0.0, target * chance.uniform(0, 0.8)])
        values = (held, held, need, minimum * chance.choice([0, 0.5]), minimum, target)
        spendable, expected, needed, floor, least, aim = (Decimal(f"{v / float(price[name]):.8f}") for v in values)
        edge = None if name == "USDT" else Decimal(f"{maximum / float(price[name]):.8f}")
        holdings.append(Holding(name, spendable, expected, needed, floor, least, aim, edge, price[name]))
    symbols = [f"{name}-USDT" for name in names[1:]]
    while len(symbols) < pairs:
        one, other = chance.sample(names[1:], 2)
        if f"{one}-{other}" not in symbols and f"{other}-{one}" not in symbols:
            symbols.append(f"{one}-{other}")
    found = []
    for symbol in symbols:
        asset, against = symbol.split("-")
        middle, half = float(price[asset] / price[against]), chance.uniform(0.0002, 0.004)
        found.append(
            Pair(
                symbol,
                asset,
                against,
                buy=Decimal(f"{middle * (1 + half):.12f}"),
                sell=Decimal(f"{middle * (1 - half):.12f}"),
            )
        )
    terms = Terms("USDT", Decimal(50), Decimal(1), Decimal(10), "edge" if seed % 2 else "target")
    return holdings, found, terms


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--assets", type=int, default=20)
    parser.add_argument("--pairs", type=int, default=60)
    parser.add_argument("--plans", type=int, default=20)
    parser.add_argument("--unrest", type=float, default=0.6, help="how far balances are from targets; 0.2: an evening")
    asked = parser.parse_args()
    seconds, trades = [], 0
    for seed in range(asked.plans):
        treasury = made_up(seed, asked.assets, asked.pairs, asked.unrest)
        began = time.perf_counter()
        plan = plan_conversions(*treasury)
        seconds.append(time.perf_counter() - began)
        trades += len(plan.conversions)
        assert not check_conversions(plan, *treasury)
    seconds.sort()
    middle = seconds[len(seconds) // 2]
    print(f"{asked.assets} assets, {asked.pairs} pairs, {asked.plans} plans, {trades / asked.plans:.1f} trades each")
    print(f"seconds: least {seconds[0]:.3f}, middle {middle:.3f}, most {seconds[-1]:.3f}")


if __name__ == "__main__":
    main()
