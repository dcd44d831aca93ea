"""A start of the rebalancing at a desk, without Prefect: its rounds one after the other, as the flow makes them."""

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

from treasury.payments import execution
from treasury.payments.desk import Desk
from treasury.rebalance import rebalancing, round_results, trade_orders
from treasury.rebalance.rebalancing import Planned
from treasury.rebalance.round_results import Done

TABLES = """time_zone = "UTC"
base_asset = "USDT"

[rebalancing]
min_trade = "10"
{more}
[assets.USDT]
target = "1000"
minimum = "500"
maximum = "100000000"
"""


def policy(folder: Path, more: str = "", tail: str = "", **bands: tuple[str, str, str]) -> Path:
    """A policy file: bands of minimum, target and maximum; `more` goes into `[rebalancing]`, `tail` to the end."""
    text = TABLES.format(more=more)
    for asset, (minimum, target, maximum) in bands.items():
        text += f'[assets.{asset}]\nminimum = "{minimum}"\ntarget = "{target}"\nmaximum = "{maximum}"\n'
    file = folder / "policy.toml"
    file.write_text(text + tail)
    return file


def start(
    desk: Desk, file: Path | None, out: Path, *, seconds: float = 10, balances: Path | None = None
) -> Mapping[str, Any]:
    """Plan and make the rounds of one start; returns its summary."""
    planned: list[Planned] = []
    done: list[Done] = []
    while not done or (done[-1]["again"] and not planned[-1]["is_last"]):
        position = rebalancing.position_for(desk, file, balances, None)
        market = rebalancing.rates_for(desk, file, position)
        found = rebalancing.planned_round(desk, None, file, market, None, done)
        with desk.hold(found["run_key"]):
            rebalancing.propose(desk, found, file)
            plan = rebalancing.kept_plan(desk, found)
            ids = [trade["ids"] for trade in trade_orders.record_trades(desk, found["run_key"], plan, file)]
            for each in ids:
                execution.send_orders(desk, found["run_key"], each)
            execution.follow_orders(desk, found["run_key"], [one for each in ids for one in each], seconds)
            planned, done = [*planned, found], [*done, round_results.prove_round(desk, found["run_key"], plan)]
    return round_results.write_decisions(
        desk, [rebalancing.kept_decisions(desk, each, file) for each in planned], done, out
    )


def decided(desk: Desk, file: Path | None = None) -> dict[str, Any]:
    """Return what the next round would do: asset -> its line, as JSON has it."""
    found = rebalancing.plan_round(desk, file, None)
    return {line["asset"]: line for line in found.decided.as_dict()["assets"]}


def traded(desk: Desk) -> list[tuple[str, str, Decimal | None]]:
    """Every trade of the ledger: run key, row, what it spends."""
    return [(order.run_key, order.row_ref, order.amount) for order in desk.ledger.orders()]


def kinds(sandbox: Any) -> list[str]:
    """Return what the service was asked for, oldest first."""
    return [str(order["operation"]) for order in sandbox.orders()]


def available(sandbox: Any, currency: str) -> Decimal:
    """Return what the partner may spend of it at the sandbox."""
    [books] = [each for name, each in sandbox.books()["balances"].items() if "available" in name]
    return Decimal(books.get(currency, 0))
