"""Fund and pay: converts what a payout run lacks before it is paid, in rounds, within what people agreed to."""

import dataclasses
import logging
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from treasury.errors import InputError
from treasury.ledger import snapshots
from treasury.ledger.in_flight import not_sent
from treasury.ledger.payees import what_is_known
from treasury.ledger.snapshots import snapshot_of
from treasury.money import canonical, exact, format_amount
from treasury.orders.records import Order
from treasury.orders.states import State
from treasury.planning.funding import bounded, clipped, gap_of, is_within, plan_funding, shown_gap, why_unfunded
from treasury.planning.funding_trades import FundingTrade
from treasury.planning.payouts import OPERATIONS, PayoutPlan, plan_payouts, with_conversions
from treasury.planning.policy import Policy
from treasury.planning.position import ZERO, Snapshot
from treasury.planning.rebalancing import Rebalancing
from treasury.planning.rows import PayoutRow
from treasury.planning.tables import BPS
from treasury.planning.trades import TradePlan
from treasury.provider.funds import EstimateFee
from treasury.runs import market
from treasury.runs.cancelling import cancel_order
from treasury.runs.desk import Desk
from treasury.runs.execution import follow_orders
from treasury.runs.fills import LOOK_SECONDS, LOOKS, Done, write_decisions
from treasury.runs.governing import governing
from treasury.runs.offers import Questions
from treasury.runs.preview import funding_of
from treasury.runs.rebalancing import Planned, Round, decisions_of
from treasury.runs.trade_orders import PART, RecordedTrade, commit_part, name_trades
from treasury.sheets.reading import Sheet

LOG = logging.getLogger("treasury")

SUFFIX = ".fund"
"""What the run key of a payout run's conversions ends with; later rounds are numbered: `payroll-2026-11.fund-2`."""


def fund_key(run_key: str) -> str:
    """The run key of the first round of a payout run's conversions."""
    return f"{run_key}{SUFFIX}"


# --- what is agreed to -------------------------------------------------------------------------------------------


def plan_with_conversions(desk: Desk, plan: PayoutPlan) -> PayoutPlan:
    """A payout plan together with the conversions that its gap needs now; sends nothing that moves money.

    What was planned for the same payments before is kept while it is enough, so that approvals of it stay true.
    """
    needs = _needs(desk, plan)
    snapshot, found = _decide(desk, plan, needs)
    trades, why = (*found.plan.trades, *found.plan.later), why_unfunded(found, needs)
    kept = with_kept_conversions(desk, plan)
    if why is None and kept.conversions and is_within(trades, kept.conversions, _spent(desk, kept)):
        return kept
    if why is not None and kept.conversions:
        return dataclasses.replace(kept, unfunded=why)  # it may pass, and what was approved is approved then
    terms = _policy(plan).trading
    agreed = () if why else bounded(trades, terms.slippage_bps, terms.min_trade)
    funded = with_conversions(plan, agreed, why)
    if agreed or kept.conversions:
        _keep(desk, funded, plan.sha256, snapshot)
    return funded


def with_kept_conversions(desk: Desk, plan: PayoutPlan) -> PayoutPlan:
    """A payout plan together with the conversions that were planned for it last, if any were."""
    kept = snapshot_of(desk.ledger, plan.run_key)
    if kept is None or kept.get("payments_sha256") != plan.sha256:
        return plan
    return with_conversions(plan, tuple(FundingTrade.from_dict(each) for each in kept["conversions"]))


def _keep(desk: Desk, funded: PayoutPlan, payments_sha256: str, snapshot: Snapshot) -> None:
    content = {
        "run_key": funded.run_key,
        "plan_sha256": funded.sha256,
        "payments_sha256": payments_sha256,
        "conversions": [each.as_dict() for each in funded.conversions],
        "snapshot": snapshot.as_dict(),
    }
    snapshots.keep_snapshot(desk.ledger, funded.run_key, governing(desk).version, content)


def _policy(plan: PayoutPlan) -> Policy:
    if plan.policy is None:
        raise InputError(
            "--fund needs a policy that says what may be converted: name one (--policy FILE), or adopt one"
        )
    return plan.policy


# --- what is needed ----------------------------------------------------------------------------------------------


@exact
def _needs(desk: Desk, plan: PayoutPlan, *, with_margin: bool = True) -> dict[str, Decimal]:
    """Currency -> what has to be there before the plan is paid: its debits, and what was recorded and not sent.

    What only quotes will tell counts by the rate of now, `with_margin` with the slippage that the policy allows.
    """
    slippage = _policy(plan).trading.slippage_bps if with_margin else 0
    plan, questions = _without_duplicates(desk, plan), Questions(desk)
    waiting, fees = not_sent(desk.ledger), _fees_on_top(desk, questions, plan)
    needs = {currency: waiting[currency] for currency in not_sent(desk.ledger, plan.run_key)}
    for each in funding_of(questions, plan, {}):
        if each.not_known:
            raise InputError(
                f"run {plan.run_key}: what {each.not_known} row(s) debit in {each.currency} is not known beforehand: "
                "to fund it, give their max_pay_amount, or set max_per_payout in the policy"
            )
        estimated = each.estimated * (BPS + slippage) / BPS
        own = each.debit + estimated + fees.get(each.currency, ZERO)
        needs[each.currency] = own + waiting.get(each.currency, ZERO)
    return needs


def _without_duplicates(desk: Desk, plan: PayoutPlan) -> PayoutPlan:
    """The plan without rows that are held as duplicates of earlier payments: a person decides about these first."""
    known = what_is_known(desk.ledger, plan.run_key, plan.intents, plan.limits.duplicate_days).duplicates
    paid = Sheet[PayoutRow]()
    for row in plan.rows:
        if row.row_ref not in known or row.duplicate_ok:
            paid.append(row)
    return plan if len(paid) == len(plan.rows) else plan_payouts(plan.run_key, paid, plan.policy)


def _fees_on_top(desk: Desk, questions: Questions, plan: PayoutPlan) -> dict[str, Decimal]:
    """Currency -> what fees come to that are charged beside the amounts: as often as the largest payment's fee."""
    largest: dict[str, Decimal] = {}
    counts: Counter[str] = Counter()
    for row in plan.rows:
        if OPERATIONS[row.route] in desk.account.rules.fee_on_top:
            amount = row.amount if row.amount is not None else row.ceiling(plan.limits.max_per_payout.get(row.currency))
            largest[row.currency] = max(amount or ZERO, largest.get(row.currency, ZERO))
            counts[row.currency] += 1
    fees = {}
    for currency, amount in largest.items():
        asked = EstimateFee(currency=currency, amount=amount)
        fee = questions.ask(asked, f"fee estimate of {currency}", lambda reply: reply.fee_amount)
        fees[currency] = counts[currency] * (fee or ZERO)
    return fees


def _decide(desk: Desk, plan: PayoutPlan, needs: Mapping[str, Decimal]) -> tuple[Snapshot, Rebalancing]:
    policy = _policy(plan)
    snapshot = market.read_rates(desk, policy, market.read_position(desk, policy, needed=needs), needed=needs)
    if missing := [f"{asset}: {snapshot.missing[asset]}" for asset in needs if asset in snapshot.missing]:
        raise InputError(f"run {plan.run_key}: {'; '.join(missing)}; nothing was converted or sent")
    return snapshot, plan_funding(policy, snapshot, needs, plan.run_key)


@exact
def _spent(desk: Desk, plan: PayoutPlan) -> dict[tuple[str, str], Decimal]:
    """Pair and currency -> what conversions under this very plan spent, or may have; what never left does not count."""
    sums: dict[tuple[str, str], Decimal] = {}
    for key in _rounds(desk, plan.run_key):
        run = desk.ledger.run(key)
        if run is None or run.plan["part_of"]["plan_sha256"] != plan.sha256:
            continue
        orders = {order.row_ref: order for order in desk.ledger.orders(run_key=key)}
        for trade in TradePlan.from_dict(run.plan).trades:
            order = orders.get(trade.row_ref)
            if order is not None and order.state not in NEVER_LEFT and not order.state.may_be_replaced:
                name = (trade.symbol, trade.currency)
                sums[name] = sums.get(name, ZERO) + trade.amount
    return sums


NEVER_LEFT = (State.PREPARED, State.HELD)


def _rounds(desk: Desk, run_key: str) -> list[str]:
    """The run keys of the rounds of conversions that were recorded for this run.

    Raises `InputError` where another run has the name of one.
    """
    keys = [fund_key(run_key)]
    while (run := desk.ledger.run(keys[-1])) is not None:
        if run.kind != PART:
            raise InputError(f"run {run_key} cannot be funded: its conversions would be {keys[-1]}, a run of its own")
        keys.append(f"{fund_key(run_key)}-{len(keys) + 1}")
    return keys[:-1]


# --- rounds ------------------------------------------------------------------------------------------------------


def next_round(
    desk: Desk, plan: PayoutPlan, before: Sequence[Done], seconds: float, policy_file: Path | None = None
) -> Planned | None:
    """The next round of conversions that a plan's gap needs, planned afresh; None when nothing more is converted.

    `plan`: with the conversions that were agreed to. What earlier starts left unsent is cancelled, and what is on its
    way is followed for so many seconds first.
    """
    payments = dataclasses.replace(plan, conversions=())
    limit = _policy(plan).trading.max_rounds
    if len(before) == limit or (before and before[-1]["unsettled"]):
        return None
    if not before:
        _end_earlier(desk, plan.run_key, seconds)
    needs = _needs(desk, payments)
    snapshot, found = _decide(desk, payments, needs)
    trades = (*found.plan.trades, *found.plan.later)
    if not trades or why_unfunded(found, needs) is not None:
        return None
    if not is_within(trades, plan.conversions, _spent(desk, plan)):
        LOG.warning("run %s: rates or balances moved: what it needs is more than was agreed to", plan.run_key)
        return None
    number = len(_rounds(desk, plan.run_key)) + 1
    key = fund_key(plan.run_key) if number == 1 else f"{fund_key(plan.run_key)}-{number}"
    decided = Round(key, found, dataclasses.replace(snapshot, run_key=key), _policy(plan))
    for trade in trades:
        LOG.info("run %s is funded by %s", plan.run_key, trade.name)
    funds = {"run_key": plan.run_key, "needs": {asset: canonical(amount) for asset, amount in needs.items()}}
    return Planned(
        run_key=key,
        plan=found.plan.as_dict(),
        policy=None if policy_file is None else str(policy_file),
        decisions={**decisions_of(desk, decided, policy_file), "funds": funds},
        max_rounds=limit,
        is_first=not before,
    )


def _end_earlier(desk: Desk, run_key: str, seconds: float) -> None:
    for key in _rounds(desk, run_key):
        for order in desk.ledger.orders(run_key=key, states=(State.PREPARED, State.HELD)):
            cancel_order(desk, order, f"the conversions of {run_key} are planned again")
        open_ones = desk.ledger.order_ids(key, (State.SENDING, State.UNKNOWN, State.ACCEPTED))
        if open_ones:
            follow_orders(desk, key, open_ones, seconds)


def record_round(
    desk: Desk, planned: Planned, plan: PayoutPlan, policy_file: Path | None = None
) -> list[RecordedTrade]:
    """Record the conversions of a round, as part of the plan that was agreed to; returns each with its name."""
    trades, decisions = TradePlan.from_dict(planned["plan"]), planned["decisions"]
    snapshots.keep_snapshot(desk.ledger, planned["run_key"], decisions["policy_in_force"], decisions)
    part_of = {"run_key": plan.run_key, "plan_sha256": plan.sha256, "approvals": plan.approvals}
    with desk.hold(planned["run_key"]):
        bounds = [clipped(trade, plan.conversions) for trade in trades.trades]
        ids = commit_part(desk, planned["run_key"], trades, bounds, part_of, policy_file)
        return name_trades(desk, trades, ids)


def why_not_funded(desk: Desk, plan: PayoutPlan, *, was_converted: bool) -> str | None:
    """Why a plan is not paid yet: what is missing of what it needs; None when everything is there.

    Balances are read again for a while where conversions were just settled.
    """
    payments = dataclasses.replace(plan, conversions=())
    policy, needs = _policy(plan), _needs(desk, payments, with_margin=False)
    gap: Mapping[str, Decimal] = {}
    for look in range(LOOKS if was_converted else 1):
        if look:
            time.sleep(LOOK_SECONDS)
        gap = gap_of(market.read_position(desk, policy, needed=needs), needs)
        if not gap:
            return None
    said = list(_why_nothing_more(desk, plan))
    said += [_as_words(order) for key in _rounds(desk, plan.run_key) for order in desk.ledger.orders(run_key=key)]
    why = f"not funded: {shown_gap(gap)} missing" + (f" ({'; '.join(said)})" if said else "")
    for order in desk.ledger.orders(run_key=plan.run_key, states=(State.PREPARED,)):
        desk.ledger.note(order, reason=why)
    LOG.warning("run %s is %s; nothing more of it is sent", plan.run_key, why)
    return why


def _why_nothing_more(desk: Desk, plan: PayoutPlan) -> Iterator[str]:
    """Why nothing more is converted for a plan that lacks something."""
    payments = dataclasses.replace(plan, conversions=())
    needs = _needs(desk, payments)
    found = _decide(desk, payments, needs)[1]
    trades = (*found.plan.trades, *found.plan.later)
    if (why := why_unfunded(found, needs)) is not None:
        yield why
    elif trades and not plan.rows:
        yield "its rows are recorded: treasury rebalance converts what they lack"
    elif trades and not is_within(trades, plan.conversions, _spent(desk, plan)):
        yield "more has to be converted than was agreed to: start it again, and it is planned anew"


def _as_words(order: Order) -> str:
    amount = "" if order.amount is None else f" {format_amount(order.amount)} {order.currency}"
    return f"{order.row_ref}{amount}: {order.state.outcome.replace('_', ' ')}" + (
        f", {order.reason}" if order.reason else ""
    )


def write_conversions(desk: Desk, planned: Sequence[Planned], done: Sequence[Done], folder: Path) -> Mapping[str, Any]:
    """Write what was converted for a payment run in this start, into the folder `funding` of its results."""
    decisions = [each["decisions"] for each in planned]
    return write_decisions(desk, decisions, done, folder / "funding", PART)
