"""`treasury rebalance --backtest`: stored nights replayed under several policies, and nights out of this ledger."""

from collections.abc import Callable, Mapping, Sequence
from datetime import date
from decimal import Decimal
from pathlib import Path

from treasury.errors import InputError
from treasury.files import write_text
from treasury.ledger.in_flight import CONVERSION
from treasury.ledger.obligations import paid_by_day
from treasury.ledger.snapshots import snapshots_between
from treasury.money import exact
from treasury.orders.states import State
from treasury.planning.backtest import NightRates, Plan, PlayedNight, PolicyResult, backtest
from treasury.planning.made_up_nights import made_up_nights
from treasury.planning.policy import Policy
from treasury.planning.position import ZERO, Obligation, Snapshot
from treasury.planning.rebalancing import plan_rebalancing
from treasury.planning.trades import Rates, Trade
from treasury.policy_file import read_policy
from treasury.reports.backtest import backtest_table, plot_backtest
from treasury.runs.desk import Desk
from treasury.runs.stored_nights import read_nights, write_nights

MADE_UP = 120
"""Nights that are made up for a ledger that has kept none."""


def nights_in(desk: Desk, folder: Path, policy: Policy) -> tuple[Sequence[PlayedNight], str]:
    """The nights of a folder, and where they are from. One that is not there is written first.

    It gets those that this ledger kept, or, where that kept fewer than two, made-up ones.
    """
    if folder.exists():
        return read_nights(folder), f"nights of {folder}"
    kept, said = nights_of(desk, policy), "nights that this ledger kept"
    if len(kept) < 2:
        kept, said = list(made_up_nights(1, date(2026, 1, 1), MADE_UP)), "MADE-UP nights: this ledger has kept none yet"
    write_nights(folder, kept)
    return read_nights(folder), f"{said}, written into {folder}"


@exact
def nights_of(desk: Desk, policy: Policy) -> list[PlayedNight]:
    """Return what this ledger kept of each day: the first snapshot, payouts, and what came in until the next one."""

    def day_of(ms: int) -> date:
        return date.fromisoformat(policy.day_of(ms))

    first: dict[date, Snapshot] = {}
    for content in snapshots_between(desk.ledger, 0, desk.ledger.now() + 1):
        snapshot = Snapshot.from_dict(content["snapshot"])
        first.setdefault(day_of(snapshot.at), snapshot)
    paid = paid_by_day(desk.ledger, 0, day_of)
    traded = _traded_by_day(desk, day_of)
    days, nights = sorted(first), []
    for place, day in enumerate(days):
        payouts = {asset: by_day[day] for asset, by_day in paid.items() if day in by_day}
        deposits: dict[str, Decimal] = {}
        if place + 1 < len(days):
            for asset, after in first[days[place + 1]].available.items():
                before = first[day].available.get(asset, ZERO)
                came = after - before + payouts.get(asset, ZERO) - traded.get(day, {}).get(asset, ZERO)
                deposits |= {asset: came} if came > 0 else {}
        rates = {symbol: NightRates(each.buy, each.sell) for symbol, each in first[day].rates.items()}
        nights.append(PlayedNight(day, dict(first[day].available), rates, payouts, deposits))
    return nights


def _traded_by_day(desk: Desk, day_of: Callable[[int], date]) -> dict[date, dict[str, Decimal]]:
    """Day -> currency -> what settled conversions brought of it, less what they spent."""
    found: dict[date, dict[str, Decimal]] = {}
    for order in desk.ledger.orders(states=(State.SETTLED,)):
        if order.operation == CONVERSION and order.sent_at is not None:
            sums = found.setdefault(day_of(order.sent_at), {})
            for asset, step in (
                (order.currency, -(order.amount or ZERO)),
                (order.receive_currency, order.receive_amount or ZERO),
            ):
                sums[str(asset)] = sums.get(str(asset), ZERO) + step
    return found


def replay(desk: Desk, folder: Path, files: Sequence[Path], out: Path) -> tuple[str, list[Path], str]:
    """Replay the nights of a folder under each policy file; returns the table, what was written, and a remark.

    Raises `InputError` for policies that have no rebalancing, or not the same base asset.
    """
    policies = {file.stem if _is_alone(file, files) else str(file): read_policy(file) for file in files}
    bases = {policy.trading.base_asset for policy in policies.values()}
    if len(bases) != 1:
        raise InputError(f"a backtest compares policies of one base asset (got {', '.join(sorted(bases))})")
    [base] = bases
    nights, said = nights_in(desk, folder, next(iter(policies.values())))
    plans = {name: _plan(policy, _daily(nights)) for name, policy in policies.items()}
    results = backtest(nights, plans, base_asset=base, fee_bps=Snapshot(0).fee_bps)
    return backtest_table(results, base), _written(out, results, base), said


def _is_alone(file: Path, files: Sequence[Path]) -> bool:
    return sum(each.stem == file.stem for each in files) == 1


def _written(out: Path, results: Sequence[PolicyResult], base: str) -> list[Path]:
    table, plot = out / "backtest.txt", out / "backtest.svg"
    write_text(table, backtest_table(results, base))
    write_text(plot, plot_backtest(results, base))
    return [table, plot]


@exact
def _daily(nights: Sequence[PlayedNight]) -> dict[str, Decimal]:
    """Return what each asset pays on a day, on the average of all nights."""
    assets = {asset for night in nights for asset in night.payouts}
    return {asset: sum((night.payouts.get(asset, ZERO) for night in nights), ZERO) / len(nights) for asset in assets}


def _plan(policy: Policy, daily: Mapping[str, Decimal]) -> Plan:
    def plan(
        balances: Mapping[str, Decimal], needs: Mapping[str, Decimal], rates: Mapping[str, NightRates]
    ) -> Sequence[Trade]:
        known = {
            symbol: Rates(each.buy, each.sell)
            for symbol, each in rates.items()
            if each.buy is not None and each.sell is not None
        }
        owed = tuple(Obligation(asset, amount, "payouts") for asset, amount in sorted(needs.items()) if amount)
        snapshot = Snapshot(0, available=balances, rates=known, obligations=owed, daily=daily)
        decided = plan_rebalancing(policy, snapshot)
        return [*decided.plan.trades, *decided.plan.later]

    return plan
