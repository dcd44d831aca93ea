"""The trades of a rebalancing as orders: recorded once, within the limits of a day, and named."""

import dataclasses
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

from treasury.errors import InputError, LimitExceeded, Overtaken
from treasury.ledger.funding_runs import PART
from treasury.ledger.intents import IntentRules, commit_plan, newest_order
from treasury.ledger.obligations import traded_on
from treasury.ledger.plans import check_plan, plan_hash
from treasury.money import FRACTION_DIGITS, exact, round_up
from treasury.orders.payment_decisions import Bounds
from treasury.orders.records import Intent
from treasury.orders.states import NEVER_LEFT
from treasury.payments.cancelling import cancel_order
from treasury.payments.desk import Desk
from treasury.payments.execution import open_orders
from treasury.payments.governing import Governing, as_part, govern
from treasury.planning.trades import Trade, TradePlan, check_trades
from treasury.policy.model import Policy
from treasury.provider.conversion import ConversionExecute, ConversionQuote
from treasury.provider.service_rules import ServiceRules
from treasury.rebalance.consent import KIND, TABLE, note_yes, trade_rules, why_stale
from treasury.rebalance.rebalancing import Round, counted_debits, round_of, today_of


class RecordedTrade(TypedDict):
    """A trade recorded in the ledger. Plain values, because Prefect passes it between tasks."""

    run_key: str
    name: str
    """For display: side, pair and amount."""
    ids: list[int]


def commit_trades(desk: Desk, run_key: str, plan: TradePlan, policy_file: Path | None = None) -> list[int]:
    """Record the intent to make every trade of a plan; returns ids of what is to be sent.

    Only a plan that this ledger made today, under the policy in force, within its limits; what is left of an earlier
    rebalancing is cancelled. A run that began already keeps the plan it began with; what waits of it when another
    policy is in force is cancelled. Raises `InputError`, `LimitExceeded`, `ApprovalNeeded` and `RunHeld`.
    """
    governed = govern(desk, policy_file)
    rules = trade_rules(desk, governed, plan, counted_debits(desk, run_key, plan))
    if not plan.trades and desk.ledger.run(run_key) is None:
        _cancel_leftovers(desk, run_key)
        return []  # nothing to record: the next start plans anew
    with desk.hold(run_key):
        run = desk.ledger.run(run_key)
        if run is not None and TradePlan.from_dict(run.plan) != plan:
            raise InputError(
                f"run {run_key} began meanwhile with another plan; nothing of this one was traded: start it again"
            )
        if run is not None and run.policy != governed.version:
            why = "another policy is in force than the one that its plan was made under"
            for order in desk.ledger.orders(run_key=run_key, states=NEVER_LEFT):
                cancel_order(desk, order, why)
        if run is None:
            content = plan.as_dict()
            check_plan(desk.ledger, run_key, plan_hash(content), policy=governed.version)
            _cancel_leftovers(desk, run_key)
            planned = round_of(desk, run_key, plan)
            _commit_in_limits(desk, _Trades(run_key, KIND, plan, plan.trades, content, planned), governed, rules)
            note_yes(desk, run_key, governed.version)
        return open_orders(desk, run_key)


@dataclass(frozen=True)
class _Trades:
    """The trades of a plan as a run records them."""

    run_key: str
    kind: str
    plan: TradePlan
    trades: Sequence[Trade]
    """Those of the plan, with the bounds that apply."""
    content: Mapping[str, Any]
    planned: Round | None = None
    """The round that a rebalancing planned, maybe long ago; a part of a payment run is planned in its start."""


def _commit_in_limits(desk: Desk, wanted: _Trades, governed: Governing, rules: IntentRules) -> None:
    """Record trades that are inside the limits of the day, with everything that was recorded before them.

    Raises `LimitExceeded`; `InputError` where others bought meanwhile what a rebalancing buys; and `Overtaken` where
    something was recorded after the newest order that the rules name, or again and again while the limits were read.
    """
    for _ in range(TRIES):
        newest = desk.ledger.look(newest_order)
        if rules.newest_order is not None and newest > rules.newest_order:
            break
        if governed.policy is not None and (over := _over(desk, wanted.plan, governed.policy)) is not None:
            raise LimitExceeded(f"run {wanted.run_key}: {over}; nothing was traded")
        snapshot = None if wanted.planned is None else wanted.planned.snapshot
        if (why := why_stale(desk, wanted.run_key, wanted.plan, snapshot)) is not None:
            raise InputError(why)
        intents = [plan_trade(trade, desk.account.rules) for trade in wanted.trades]
        beside = dataclasses.replace(rules, newest_order=newest if rules.newest_order is None else rules.newest_order)
        sha256 = plan_hash(wanted.plan.as_dict())
        with suppress(Overtaken):
            commit_plan(desk.ledger, wanted.run_key, wanted.kind, wanted.content, sha256, intents, beside)
            return
    raise Overtaken(f"run {wanted.run_key}: other orders were recorded at the same moment; nothing was traded")


TRIES = 20
"""So often the limits of a day are looked at again when other orders are recorded meanwhile."""


def _over(desk: Desk, plan: TradePlan, policy: Policy) -> str | None:
    """Why a plan, with the trades of the same day before it, breaks the policy's limits of conversions."""
    return check_trades(plan, policy.conversions, traded_on(desk.ledger, today_of(desk, policy)))


def _cancel_leftovers(desk: Desk, run_key: str) -> None:
    """Cancel what never left of earlier rebalancings: their plans are over, and this one plans anew."""
    for run in desk.ledger.runs():
        if run.kind != KIND or run.run_key == run_key:
            continue
        for order in desk.ledger.orders(run_key=run.run_key, states=NEVER_LEFT):
            cancel_order(desk, order, f"its rebalancing is over, and {run_key} plans anew")


def commit_part(
    desk: Desk,
    run_key: str,
    plan: TradePlan,
    trades: Sequence[Trade],
    part_of: Mapping[str, Any],
    newest: int | None,
    policy_file: Path | None = None,
) -> list[int]:
    """Record the intent to make every trade of a round that is part of a payment run's plan; returns ids to send.

    `trades`: those of the plan with the bounds that people agreed to; `part_of`: run key, hash and approvals of that
    plan, which are theirs too; `newest`: the last order that was recorded when it was planned. Raises as
    `commit_trades`, and `Overtaken`.
    """
    governed = govern(desk, policy_file)
    content = {**plan.as_dict(), "part_of": dict(part_of)}
    rules = as_part(governed, governed.rules(desk, TABLE, {}, {}), content)
    rules = dataclasses.replace(rules, newest_order=newest)
    _commit_in_limits(desk, _Trades(run_key, PART, plan, trades, content), governed, rules)
    return open_orders(desk, run_key)


def record_trades(desk: Desk, run_key: str, plan: TradePlan, policy_file: Path | None = None) -> list[RecordedTrade]:
    """Record trades as `commit_trades` does; return each trade with its name."""
    return name_trades(desk, plan, commit_trades(desk, run_key, plan, policy_file))


def name_trades(desk: Desk, plan: TradePlan, ids: Sequence[int]) -> list[RecordedTrade]:
    """Recorded trades of a plan, each with its name."""
    named = {trade.row_ref: trade.name for trade in plan.trades}
    return [
        RecordedTrade(run_key=order.run_key, name=named.get(order.row_ref, order.row_ref), ids=[order.id])
        for order in desk.ledger.orders(ids=ids)
    ]


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
        row_ref=trade.row_ref,
        operation=ConversionExecute.operation_name(),
        payload={"quote": quote, "confirm": {}, "bounds": bounds.as_dict()},
        bound_content=trade.as_text(),
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
