"""The costs of conversions: each trade of the rebalancings as planned and as achieved, and sums by pair, day and
month."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from treasury.ledger.funding_runs import PART
from treasury.ledger.snapshots import snapshot_of
from treasury.money import ZERO, canonical, exact
from treasury.orders.states import State
from treasury.payments.desk import Desk
from treasury.planning.fills import Fill, fill_of
from treasury.planning.market import worth_of
from treasury.planning.position import Snapshot
from treasury.planning.trades import Trade, TradePlan
from treasury.policy.model import Policy
from treasury.policy.tables import BPS
from treasury.rebalance.consent import KIND
from treasury.sheets.writing import write_csv

COLUMNS = ("by", "name", "trades", "value", "slippage", "fee", "cost", "slippage_bps", "fee_bps", "cost_bps")
"""Columns of `costs.csv`; value, slippage, fee and cost in the base asset."""


@dataclass(frozen=True)
class Made:
    """One trade that was made."""

    day: str
    """The business date of its rebalancing, ISO 8601."""
    symbol: str
    value: Decimal
    """In the base asset, at the rates when it was planned; as are the others."""
    slippage: Decimal
    """Against the planned rate; negative: better."""
    fee: Decimal
    spread: Decimal
    """Half of it: what the planned rate is off the middle."""

    @property
    def cost(self) -> Decimal:
        """Against the middle of the rates."""
        return self.slippage + self.fee + self.spread


@exact
def trades_made(desk: Desk) -> list[Made]:
    """Every settled trade of this ledger, in the order of its runs; called conversions have no plan to compare with."""
    found = []
    for run in reversed(desk.ledger.runs()):
        if run.kind not in (KIND, PART):
            continue
        plan = {trade.row_ref: trade for trade in TradePlan.from_dict(run.plan).trades}
        kept = snapshot_of(desk.ledger, run.run_key, run.plan_sha256)
        for order in desk.ledger.orders(run_key=run.run_key, states=(State.SETTLED,)):
            if kept is not None and order.row_ref in plan:
                trade = plan[order.row_ref]
                made = _made(trade, fill_of(trade, order), kept)
                found += [] if made is None else [made]
    return found


def _made(trade: Trade, fill: Fill, kept: Mapping[str, object]) -> Made | None:
    snapshot = Snapshot.from_dict(kept["snapshot"])  # type: ignore[arg-type]
    rates = snapshot.rates.get(trade.symbol)
    if fill.slippage_bps is None or fill.fee_bps is None or rates is None:
        return None
    policy = Policy.model_validate(kept["policy"])
    value = worth_of(policy, snapshot, [(trade.symbol, trade.currency, trade.amount)])[trade.symbol]
    middle = (rates.buy + rates.sell) / 2
    day = policy.day_of(snapshot.at)
    spread = value * abs(trade.rate - middle) / middle
    return Made(day, trade.symbol, value, value * fill.slippage_bps / BPS, value * fill.fee_bps / BPS, spread)


@exact
def sums_of(made: Sequence[Made]) -> Iterator[dict[str, str]]:
    """The sums by pair, by day, by month, and of all; amounts as text, to the cent."""
    groups: dict[tuple[str, str], list[Made]] = defaultdict(list)
    for each in made:
        for by, name in (("pair", each.symbol), ("day", each.day), ("month", each.day[:7]), ("all", "")):
            groups[by, name].append(each)
    for by in ("pair", "day", "month", "all"):
        for (kind, name), some in sorted(groups.items()):
            if kind == by:
                yield _sum(by, name, some)


def _sum(by: str, name: str, made: Sequence[Made]) -> dict[str, str]:
    value = sum((each.value for each in made), ZERO)
    sums = {field: sum((getattr(each, field) for each in made), ZERO) for field in ("slippage", "fee", "cost")}
    bps = {f"{field}_bps": (total * BPS / value if value else ZERO) for field, total in sums.items()}
    said = {field: canonical(each.quantize(Decimal("0.01"))) for field, each in {"value": value, **sums, **bps}.items()}
    return {"by": by, "name": name, "trades": str(len(made)), **said}


def write_costs(desk: Desk, folder: Path) -> tuple[Path, list[dict[str, str]]]:
    """Write `costs.csv` into a folder; returns its path and its rows."""
    rows = list(sums_of(trades_made(desk)))
    path = folder / "costs.csv"
    write_csv(path, COLUMNS, rows)
    return path, rows
