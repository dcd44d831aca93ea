"""The conversions of a payout run as people agree to them: their bounds, kept with the run."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal

from treasury.errors import NotFunded
from treasury.ledger import snapshots
from treasury.ledger.funding_runs import rounds_of
from treasury.money import exact
from treasury.orders.states import NEVER_LEFT, OPEN
from treasury.planning.funding import bounded, is_within
from treasury.planning.funding_trades import FundingTrade
from treasury.planning.payouts import PayoutPlan, with_conversions
from treasury.planning.position import ZERO
from treasury.planning.trades import Trade, TradePlan
from treasury.runs.desk import Desk
from treasury.runs.funding_needs import Lack, policy_of, what_it_lacks
from treasury.runs.governing import governing


@dataclass(frozen=True)
class Bounds:
    """The conversions of a plan of a run, as they are kept with it."""

    sha256: str
    """Of the plan: of its payments, and of the bounds of its conversions."""
    payments_sha256: str
    approvals: int
    conversions: tuple[FundingTrade, ...]
    is_agreed: bool
    """Whether the plan was proposed; else it was shown, and nobody said yes to it."""


def agreed_of(desk: Desk, run_key: str) -> Bounds | None:
    """What was agreed to last for a run under the policy in force; None where nothing was."""
    return next((each for each in _kept(desk, run_key) if each.is_agreed), None)


def plan_with_conversions(desk: Desk, plan: PayoutPlan, payments: PayoutPlan, *, keep: bool = True) -> PayoutPlan:
    """A plan together with the conversions that the gap of its run needs now; sends nothing that moves money.

    `plan`: the rows that are to be agreed to; `payments`: every row of the sheet. What was agreed to for the same rows
    is kept while it is enough, so that approvals of it stay true. `keep`: so that this plan can be proposed.
    """
    try:
        return _plan_for(desk, plan, what_it_lacks(desk, payments), keep=keep)
    except NotFunded as error:  # it may pass, and what was approved is approved then
        known = next((each for each in _candidates(desk, plan) if each.is_agreed), None)
        return replace(plan if known is None else _with(desk, plan, known), unfunded=str(error))


def more_conversions(desk: Desk, plan: PayoutPlan, *, keep: bool = True) -> PayoutPlan | None:
    """The plan of a run that was recorded, with conversions that its gap needs now and that nobody agreed to yet.

    None where none are needed, and while earlier ones are on their way. Where none would do, it says why.
    """
    if _is_on_its_way(desk, plan.run_key):
        return None
    try:
        lack = what_it_lacks(desk, plan)
    except NotFunded as error:
        return replace(plan, unfunded=str(error))
    agreed = agreed_of(desk, plan.run_key)
    if (
        agreed is not None
        and is_within_bounds(desk, plan.run_key, agreed, lack)
        and is_begun(desk, plan, agreed.sha256)
    ):
        return None
    return _plan_for(desk, plan, lack, keep=keep) if lack.trades else None


def plan_as_shown(desk: Desk, plan: PayoutPlan, sha256: str | None) -> PayoutPlan:
    """The plan with the conversions that were shown with it under a hash; without any where none were."""
    found = next((each for each in _candidates(desk, plan) if each.sha256 == sha256), None)
    return plan if found is None else _with(desk, plan, found)


def agree(desk: Desk, plan: PayoutPlan, payments_sha256: str) -> None:
    """Keep what a person says yes to, or asks approvals for. `payments_sha256`: the hash without conversions."""
    agreed = agreed_of(desk, plan.run_key)
    if (plan.conversions or agreed is not None) and (agreed is None or agreed.sha256 != plan.sha256):
        _keep(desk, plan, payments_sha256, is_agreed=True)


def is_begun(desk: Desk, plan: PayoutPlan, sha256: str) -> bool:
    """Whether the run, or conversions for it, were recorded under this hash."""
    run = desk.ledger.run(plan.run_key)
    return (run is not None and run.plan_sha256 == sha256) or any(
        part is not None and part.plan["part_of"]["plan_sha256"] == sha256
        for part in map(desk.ledger.run, rounds_of(desk.ledger, plan.run_key))
    )


def is_within_bounds(desk: Desk, run_key: str, bounds: Bounds, lack: Lack) -> bool:
    """Whether what a run lacks can be converted inside these bounds, with what was converted inside them before."""
    return is_within(lack.trades, bounds.conversions, _spent_by_pair(desk, run_key, bounds.sha256))


def _plan_for(desk: Desk, plan: PayoutPlan, lack: Lack, *, keep: bool) -> PayoutPlan:
    known = [each for each in _candidates(desk, plan) if each.conversions]
    for each in sorted(known, key=lambda each: not each.is_agreed):
        if is_within_bounds(desk, plan.run_key, each, lack):
            return _with(desk, plan, each)
    terms = policy_of(plan).trading
    found = with_conversions(plan, bounded(lack.trades, terms.slippage_bps, terms.min_trade))
    found = replace(found, converted=_spent(desk, plan.run_key, found.sha256))
    if keep and found.conversions:
        _keep(desk, found, plan.sha256, is_agreed=False)
    return found


def _with(desk: Desk, plan: PayoutPlan, bounds: Bounds) -> PayoutPlan:
    found = with_conversions(plan, bounds.conversions)
    return replace(found, converted=_spent(desk, plan.run_key, found.sha256))


def _candidates(desk: Desk, plan: PayoutPlan) -> list[Bounds]:
    """What was kept for these very payments, the newest first."""
    return [each for each in _kept(desk, plan.run_key) if each.payments_sha256 == plan.sha256]


def _kept(desk: Desk, run_key: str) -> list[Bounds]:
    version = governing(desk).version
    return [
        Bounds(
            content["plan_sha256"],
            content["payments_sha256"],
            content["approvals"],
            tuple(FundingTrade.from_dict(each) for each in content["conversions"]),
            content["is_agreed"],
        )
        for content in snapshots.snapshots_of(desk.ledger, run_key, version)
    ]


def _keep(desk: Desk, plan: PayoutPlan, payments_sha256: str, *, is_agreed: bool) -> None:
    content = {
        "plan_sha256": plan.sha256,
        "payments_sha256": payments_sha256,
        "approvals": plan.approvals,
        "conversions": [each.as_dict() for each in plan.conversions],
        "is_agreed": is_agreed,
    }
    snapshots.keep_snapshot(desk.ledger, plan.run_key, governing(desk).version, content)


# --- what was converted before ------------------------------------------------------------------------------------


def _is_on_its_way(desk: Desk, run_key: str) -> bool:
    return any(desk.ledger.order_ids(key, OPEN) for key in rounds_of(desk.ledger, run_key))


@exact
def _spent(desk: Desk, run_key: str, but: str) -> dict[str, Decimal]:
    """Currency -> what conversions under earlier plans of a run spent, or may have."""
    sums: dict[str, Decimal] = {}
    for sha256, trade in _made(desk, run_key):
        if sha256 != but:
            sums[trade.currency] = sums.get(trade.currency, ZERO) + trade.amount
    return sums


@exact
def _spent_by_pair(desk: Desk, run_key: str, sha256: str) -> dict[tuple[str, str], Decimal]:
    """Pair and currency -> what conversions under this very plan spent, or may have."""
    sums: dict[tuple[str, str], Decimal] = {}
    for under, trade in _made(desk, run_key):
        if under == sha256:
            name = (trade.symbol, trade.currency)
            sums[name] = sums.get(name, ZERO) + trade.amount
    return sums


def _made(desk: Desk, run_key: str) -> Iterator[tuple[str, Trade]]:
    """The conversions that left, or may have left, and did not fail, each with the hash of the plan it is part of."""
    for run in map(desk.ledger.run, rounds_of(desk.ledger, run_key)):
        if run is None:
            continue
        orders = {order.row_ref: order for order in desk.ledger.orders(run_key=run.run_key)}
        for trade in TradePlan.from_dict(run.plan).trades:
            order = orders.get(trade.row_ref)
            if order is not None and order.state not in NEVER_LEFT and not order.state.may_be_replaced:
                yield run.plan["part_of"]["plan_sha256"], trade
