"""Rebalancing: plans trades from balances and rates, and records them as orders of the day's run."""

import dataclasses
import hashlib
import json
import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, TypedDict

from treasury.errors import InputError
from treasury.ledger.intents import commit_plan
from treasury.money import FRACTION_DIGITS, exact, format_amount, round_up
from treasury.orders.decisions import Bounds
from treasury.orders.records import Intent
from treasury.orders.states import State
from treasury.planning.policy import Policy
from treasury.planning.rebalancing import Rates, Side, Trade, TradePlan, plan_trades
from treasury.policy_file import read_policy
from treasury.provider.conversion import ConversionExecute, ConversionQuote, ConversionRate
from treasury.provider.funds import PartnerBalance
from treasury.provider.service_rules import ServiceRules
from treasury.reports.results import write_run_results
from treasury.runs.desk import Desk
from treasury.runs.execution import open_orders
from treasury.sheets.balances import read_balances

KIND = "rebalancing"

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


def plan_rebalancing(desk: Desk, policy_file: Path, balances_file: Path | None) -> tuple[str, TradePlan]:
    """The run key and plan of today's rebalancing: the stored plan when today's run began already, else a new one.

    Reads balances (from a file, or from the service: public fact 5.10) and rates; sends nothing that moves money.
    """
    return plan_from_market(desk, policy_file, read_market(desk, policy_file, balances_file))


def plan_from_market(desk: Desk, policy_file: Path, market: Market) -> tuple[str, TradePlan]:
    """The same as `plan_rebalancing`, from balances and rates that were read before."""
    policy = read_policy(policy_file)
    run_key = run_key_of_day(policy)
    stored = desk.ledger.run(run_key)
    if stored is not None:
        return run_key, TradePlan.from_dict(stored.plan)
    plan = plan_trades(policy, market.balances, market.rates).without(_blocked_symbols(desk))
    LOG.info("run %s: %d trades, %d skipped", run_key, len(plan.trades), len(plan.skipped))
    return run_key, plan


def read_market(desk: Desk, policy_file: Path, balances_file: Path | None) -> Market:
    """Balances and rates of what the policy trades; nothing when today's run began already, for its plan stands."""
    policy = read_policy(policy_file)
    if desk.ledger.run(run_key_of_day(policy)) is not None:
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


def read_plan_file(file: Path) -> tuple[str, TradePlan]:
    """The run key and plan that `treasury rebalance` showed and a person agreed to."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        return str(content["run_key"]), TradePlan.from_dict(content["plan"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{file} is not a rebalancing plan: {type(error).__name__}") from None


def commit_trades(desk: Desk, run_key: str, plan: TradePlan) -> list[int]:
    """Record the intent to make every trade of a plan; returns ids of what is to be sent. Raises `RunHeld`.

    A run that began already keeps the plan it began with.
    """
    with desk.hold(run_key):
        if desk.ledger.run(run_key) is None:
            content = plan.as_dict()
            intents = [plan_trade(trade, desk.account.rules) for trade in plan.trades]
            sha256 = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
            commit_plan(desk.ledger, run_key, KIND, content, sha256, intents)
        return open_orders(desk, run_key)


def record_trades(desk: Desk, run_key: str, plan: TradePlan) -> list[RecordedTrade]:
    """The same as `commit_trades`; returns each trade with its name."""
    named = {
        _row_ref(trade): f"{trade.side.value} {trade.symbol} {format_amount(trade.amount)}" for trade in plan.trades
    }
    orders = desk.ledger.orders(ids=commit_trades(desk, run_key, plan))
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
        return write_run_results(out or desk.settings.run_folder(run_key), run_key, KIND, orders, skipped=skipped)
