"""Rebalancing: plans trades from balances and rates, and records them as orders of the day's run."""

import dataclasses
import json
import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, TypedDict

from treasury.errors import InputError, LimitExceeded
from treasury.ledger.approvals import waiting_plan
from treasury.ledger.intents import commit_plan
from treasury.ledger.policies import is_rehearsal
from treasury.ledger.trade_plans import (
    check_consent,
    check_plan,
    give_consent,
    plan_hash,
    record_plan,
    recorded_plan,
)
from treasury.money import FRACTION_DIGITS, exact, format_amount, round_up
from treasury.orders.decisions import Bounds
from treasury.orders.records import Intent
from treasury.orders.states import State
from treasury.planning.policy import Policy
from treasury.planning.rebalancing import Rates, Side, Trade, TradePlan, check_trades, plan_trades
from treasury.provider.conversion import ConversionExecute, ConversionQuote, ConversionRate
from treasury.provider.funds import PartnerBalance
from treasury.provider.service_rules import ServiceRules
from treasury.reports.results import write_run_results
from treasury.runs.cancelling import cancel_order
from treasury.runs.desk import Desk
from treasury.runs.execution import open_orders
from treasury.runs.governing import govern, governing
from treasury.settings import os_user
from treasury.sheets.balances import read_balances

KIND = "rebalancing"

TABLE = "conversions"
"""The table of the policy that limits trades."""

LOG = logging.getLogger("treasury")


def run_key_of_day(policy: Policy, now: datetime | None = None) -> str:
    """The run key of a rebalancing: its business date in the policy's time zone."""
    return f"rebalance-{policy.business_date(now or datetime.now(UTC)).isoformat()}"


@dataclasses.dataclass(frozen=True)
class Market:
    """What a rebalancing is planned from: available balances by asset, prices by trading pair."""

    balances: Mapping[str, Decimal] = dataclasses.field(default_factory=dict)
    rates: Mapping[str, Rates] = dataclasses.field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """As plain values, amounts as text."""
        rates = {symbol: {"buy": str(each.buy), "sell": str(each.sell)} for symbol, each in self.rates.items()}
        return {"balances": {asset: str(amount) for asset, amount in self.balances.items()}, "rates": rates}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> "Market":
        """The market that `as_dict` wrote."""
        rates = {name: Rates(Decimal(each["buy"]), Decimal(each["sell"])) for name, each in content["rates"].items()}
        return cls({asset: Decimal(amount) for asset, amount in content["balances"].items()}, rates)


class RecordedTrade(TypedDict):
    """A trade recorded in the ledger. Plain values, because Prefect passes it between tasks."""

    run_key: str
    name: str
    """For display: side, pair and amount."""
    ids: list[int]


def plan_rebalancing(desk: Desk, policy_file: Path | None, balances_file: Path | None) -> tuple[str, TradePlan]:
    """The run key and plan of today's rebalancing: the stored plan when today's run began already, else a new one.

    Reads balances (from a file, or from the service: public fact 5.10) and rates; sends nothing that moves money. The
    policy in force applies; `policy_file` may name it, or another one where none is in force.
    """
    return plan_from_market(desk, policy_file, read_market(desk, policy_file, balances_file))


def plan_from_market(desk: Desk, policy_file: Path | None, market: Market) -> tuple[str, TradePlan]:
    """The same as `plan_rebalancing`, from balances and rates that were read before. The ledger keeps the plan."""
    policy, version = _policy(desk, policy_file)
    run_key = run_key_of_day(policy)
    stored = _stored_plan(desk, run_key, version)
    if stored is not None:
        return run_key, stored
    plan = plan_trades(policy, market.balances, market.rates).without(_blocked_symbols(desk))
    LOG.info("run %s: %d trades, %d skipped", run_key, len(plan.trades), len(plan.skipped))
    keep_plan(desk, run_key, plan, policy_file)
    return run_key, plan


def keep_plan(desk: Desk, run_key: str, plan: TradePlan, policy_file: Path | None = None) -> str:
    """Keep a plan that was made just now, so that it can be executed today; returns its hash."""
    governed = governing(desk, policy_file)
    day = _day(desk, governed.policy)
    needed = governed.rules(desk, TABLE, _debits(plan), {}).approvals
    return record_plan(
        desk.ledger, run_key, plan.as_dict(), maker=os_user(), policy=governed.version, day=day, needed=needed
    )


def plan_by_hash(desk: Desk, sha256: str) -> tuple[str, TradePlan]:
    """The run key and plan that a person agreed to. Raises `InputError` for one that this ledger never made."""
    run_key, content = recorded_plan(desk.ledger, sha256)
    return run_key, TradePlan.from_dict(content)


def _stored_plan(desk: Desk, run_key: str, version: str | None) -> TradePlan | None:
    """The plan that today's run began with, or that waits for approvals; None when a new one is to be made."""
    run = desk.ledger.run(run_key)
    if run is not None:
        return TradePlan.from_dict(run.plan)
    waiting = waiting_plan(desk.ledger, run_key)
    if waiting is None or waiting.policy != version:
        return None
    return plan_by_hash(desk, waiting.sha256)[1]


def _policy(desk: Desk, policy_file: Path | None) -> tuple[Policy, str | None]:
    governed = governing(desk, policy_file)
    if governed.policy is None:
        raise InputError("no policy says what to trade: name one (--policy FILE), or put one in force")
    return governed.policy, governed.version


def _day(desk: Desk, policy: Policy | None) -> str:
    return (Policy() if policy is None else policy).day_of(desk.ledger.now())


def _debits(plan: TradePlan) -> dict[str, Decimal]:
    sums: dict[str, Decimal] = {}
    for trade in plan.trades:
        sums[trade.currency] = sums.get(trade.currency, Decimal(0)) + trade.amount
    return sums


def read_market(desk: Desk, policy_file: Path | None, balances_file: Path | None) -> Market:
    """Balances and rates of what the policy trades; nothing when today's run began already, for its plan stands."""
    policy, version = _policy(desk, policy_file)
    if _stored_plan(desk, run_key_of_day(policy), version) is not None:
        return Market()
    trading = policy.trading
    assets = sorted({*policy.assets, trading.base_asset})
    balances = read_balances(balances_file) if balances_file else {asset: _balance(desk, asset) for asset in assets}
    for asset, available in balances.items():
        desk.ledger.saw_balance(asset, available)
    symbols = sorted(trading.symbols.values())
    rates = {
        symbol: Rates(buy=_rate(desk, symbol, Side.BUY), sell=_rate(desk, symbol, Side.SELL)) for symbol in symbols
    }
    for symbol, each in rates.items():
        LOG.info("rate %s: buy %s, sell %s", symbol, format_amount(each.buy), format_amount(each.sell))
    return Market(balances, rates)


def _blocked_symbols(desk: Desk) -> frozenset[str]:
    """Pairs with a conversion of unknown outcome: trading one again might do it twice."""
    unknown = desk.ledger.orders(states=(State.SENDING, State.UNKNOWN))
    conversions = (order for order in unknown if order.operation == ConversionExecute.operation_name())
    return frozenset(str(json.loads(order.masked).get("symbol")) for order in conversions)


def _balance(desk: Desk, asset: str) -> Decimal:
    available = desk.client.read(PartnerBalance(currency=asset)).available
    if available is None:
        raise InputError(f"the service's answer shows no available balance of {asset}; give --balances FILE")
    return available


def _rate(desk: Desk, symbol: str, side: Side) -> Decimal:
    rate = desk.client.read(ConversionRate(symbol=symbol, side=side.value)).rate
    if rate is None or rate <= 0:
        raise InputError(f"the service's answer shows no rate for {side.value} {symbol}")
    return rate


def check_said_yes(desk: Desk) -> None:
    """Raise `WaitingForYes` when a schedule starts a rebalancing under a policy under which nobody said yes to one."""
    check_consent(desk.ledger, governing(desk).version, KIND)


def say_yes(desk: Desk) -> None:
    """Record that the person at this command line said yes to a rebalancing under the policy in force."""
    give_consent(desk.ledger, governing(desk).version, KIND, os_user())


def commit_trades(desk: Desk, run_key: str, plan: TradePlan, policy_file: Path | None = None) -> list[int]:
    """Record the intent to make every trade of a plan; returns ids of what is to be sent.

    Only a plan that this ledger made today, under the policy in force, within its limits; what is left of an earlier
    day's rebalancing is cancelled. A run that began already keeps the plan it began with; what waits of it when another
    policy is in force is cancelled. Raises `InputError`, `LimitExceeded`, `ApprovalNeeded` and `RunHeld`.
    """
    governed = govern(desk, policy_file)
    rules = governed.rules(desk, TABLE, _debits(plan), {})
    with desk.hold(run_key):
        run = desk.ledger.run(run_key)
        if run is not None and run.policy != governed.version:
            why = "another policy is in force than the one that its plan was made under"
            for order in desk.ledger.orders(run_key=run_key, states=(State.PREPARED, State.HELD)):
                cancel_order(desk, order, why)
        if run is None:
            content, day = plan.as_dict(), _day(desk, governed.policy)
            check_plan(desk.ledger, run_key, plan_hash(content), policy=governed.version, day=day)
            if governed.policy is not None and (over := check_trades(plan, governed.policy)) is not None:
                raise LimitExceeded(f"run {run_key}: {over}; nothing was traded")
            _cancel_leftovers(desk, run_key)
            intents = [plan_trade(trade, desk.account.rules) for trade in plan.trades]
            commit_plan(desk.ledger, run_key, KIND, content, plan_hash(content), intents, rules)
        return open_orders(desk, run_key)


def _cancel_leftovers(desk: Desk, run_key: str) -> None:
    """Cancel what never left of earlier days' rebalancings: its plan is over, and this one plans anew."""
    for run in desk.ledger.runs():
        if run.kind != KIND or run.run_key == run_key:
            continue
        for order in desk.ledger.orders(run_key=run.run_key, states=(State.PREPARED, State.HELD)):
            cancel_order(desk, order, f"its day is over, and {run_key} plans anew")


def record_trades(desk: Desk, run_key: str, plan: TradePlan, policy_file: Path | None = None) -> list[RecordedTrade]:
    """The same as `commit_trades`; returns each trade with its name."""
    named = {
        _row_ref(trade): f"{trade.side.value} {trade.symbol} {format_amount(trade.amount)}" for trade in plan.trades
    }
    orders = desk.ledger.orders(ids=commit_trades(desk, run_key, plan, policy_file))
    return [
        RecordedTrade(run_key=run_key, name=named.get(order.row_ref, order.row_ref), ids=[order.id]) for order in orders
    ]


def _row_ref(trade: Trade) -> str:
    return f"{trade.side.value.lower()}-{trade.asset}"


def plan_trade(trade: Trade, service: ServiceRules) -> Intent:
    """The order that a trade becomes: a conversion quote, confirmed inside the trade's bounds."""
    operation = ConversionQuote(
        symbol=trade.symbol, amount=trade.amount, currency=trade.currency, side=trade.side.value, xid="0"
    )
    quote = {name: value for name, value in operation.body().items() if name != "xid"}
    bounds = _bounds(trade)
    if service.conversion_fee_in == "paid":
        bounds = _fee_in_paid(trade, bounds)
    return Intent(
        row_ref=_row_ref(trade),
        operation=ConversionExecute.operation_name(),
        payload={"quote": quote, "confirm": {}, "bounds": bounds.as_dict()},
        bound_content={name: str(value) for name, value in dataclasses.asdict(trade).items()},
        currency=trade.currency,
        amount=trade.amount,
        receive_currency=trade.receive_currency,
    )


def _bounds(trade: Trade) -> Bounds:
    return Bounds(
        pay_currency=trade.currency,
        receive_currency=trade.receive_currency,
        pay_amount=trade.amount,
        min_receive=trade.min_receive,
        max_fee=trade.max_fee,
        min_rate=trade.min_rate,
        max_rate=trade.max_rate,
    )


@exact
def _fee_in_paid(trade: Trade, bounds: Bounds) -> Bounds:
    """Bounds for a fee that is part of the amount paid: the least received amount is lower by the highest fee."""
    max_fee = round_up(trade.max_fee * trade.amount / trade.expected_receive, FRACTION_DIGITS)
    min_receive = None if bounds.min_receive is None else bounds.min_receive - trade.max_fee
    return dataclasses.replace(bounds, max_fee=max_fee, fee_currency=trade.currency, min_receive=min_receive)


def write_trade_results(desk: Desk, run_key: str, plan: TradePlan, out: Path | None) -> Mapping[str, Any]:
    """Write `results.csv` and `run.json`; returns the summary."""
    skipped = plan.as_dict()["skipped"]
    with desk.ledger.each_order(run_key) as orders:
        folder, rehearsal = out or desk.settings.run_folder(run_key), is_rehearsal(desk.ledger)
        return write_run_results(folder, run_key, KIND, orders, rehearsal=rehearsal, skipped=skipped)
