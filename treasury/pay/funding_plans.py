"""The conversions of a payout run as people agree to them: under one hash with its payments.

What was agreed to is kept with the run, sealed, and only another plan that is agreed to takes its place. What was
shown, or proposed, is kept by its hash until then.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from treasury.approving.tokens import read_token
from treasury.errors import InputError, LimitExceeded, NotFunded
from treasury.ledger import snapshots
from treasury.ledger.approvals import is_rejected
from treasury.ledger.debits import recorded_debits, states_of
from treasury.ledger.funding_runs import FUNDING, check_name_of_round, rounds_of
from treasury.ledger.intents import check_bound
from treasury.ledger.proposals import newest_plan
from treasury.money import ZERO, canonical, exact, parse_amount, sums_of
from treasury.orders.states import NEVER_LEFT, OPEN, State
from treasury.pay.funding_needs import Lack, paid_first, policy_of, rows_to_pay, what_it_lacks
from treasury.payments.approving import binding_of, is_recorded
from treasury.payments.desk import Desk
from treasury.payments.governing import governing
from treasury.planning.fills import FillVerdict
from treasury.planning.funding_planner import bounded, is_within, on_their_way
from treasury.planning.funding_trades import FundingTrade
from treasury.planning.payout_planner import PayoutPlan, with_conversions
from treasury.planning.trades import Trade, TradePlan
from treasury.rebalance.round_results import proofs_of


@dataclass(frozen=True)
class Agreed:
    """The conversions that may be made for a run that began, under its plan."""

    sha256: str
    approvals: int
    conversions: tuple[FundingTrade, ...]


def agreed_of(desk: Desk, plan: PayoutPlan) -> Agreed | None:
    """Return what was agreed to for the run of a plan, if it began, under the same policy; None where nothing was."""
    run = desk.ledger.run(plan.run_key)
    kept = None if run is None else run.plan.get(FUNDING)
    if kept is None or not is_recorded(desk, governing(desk), plan.run_key):
        return None
    if kept["policy"] != policy_of(plan).version:  # where none is in force, another file may be named
        return None
    return Agreed(kept["plan_sha256"], kept["approvals"], _conversions(kept))


def kept_with_run(plan: PayoutPlan) -> dict[str, Any] | None:
    """Return what a run keeps of a plan that was agreed to: what may be converted for it. `agreed_of` reads it."""
    return None if plan.funding is None else {**plan.funding, "policy": policy_of(plan).version}


def is_within_bounds(desk: Desk, run_key: str, agreed: Agreed, trades: Sequence[Trade]) -> bool:
    """Tell whether conversions are inside what was agreed to, with what was converted under it before."""
    return is_within(trades, agreed.conversions, _spent_by_pair(desk, run_key, agreed.sha256))


def lack_within(
    desk: Desk, plan: PayoutPlan, agreed: Iterable[FundingTrade], fits: Callable[[Sequence[Trade]], bool]
) -> Lack:
    """Return what a run lacks, closed by what was agreed to where that still does it; else by what costs least now.

    Raises as `what_it_lacks`.
    """
    lack, symbols = what_it_lacks(desk, plan), {each.symbol for each in agreed}
    if symbols and not fits(lack.trades):
        with suppress(NotFunded):
            same = what_it_lacks(desk, plan, symbols)
            return same if fits(same.trades) else lack
    return lack


# --- plan --------------------------------------------------------------------------------------------------------


def plan_with_conversions(desk: Desk, plan: PayoutPlan, payments: PayoutPlan, *, keep: bool) -> PayoutPlan:
    """A plan together with the conversions that the gap of its run needs now; sends nothing that moves money.

    `plan`: the rows that are to be agreed to; `payments`: every row of the sheet. A proposal for the same rows that
    waits, or was approved, is kept while it is enough, so that approvals of it stay true. `keep`: so that this plan can
    be proposed. A gap that cannot be closed is said in `unfunded`.
    """
    check_name_of_round(desk.ledger, plan.run_key)
    plan = replace(plan, paid_first=paid_first(desk, payments))
    proposed = _proposed(desk, plan)
    try:
        lack = lack_within(desk, payments, *_kept_to(proposed))
    except NotFunded as error:  # it may pass, and what was approved is approved then
        return replace(proposed or plan, unfunded=str(error))
    if not lack.trades and not plan.approvals:
        return plan  # what waited only for its conversions waits no more
    if proposed is not None and is_within(lack.trades, proposed.conversions, {}):
        return proposed
    return _planned(desk, plan, lack, keep=keep)


def more_conversions(desk: Desk, plan: PayoutPlan, *, keep: bool) -> PayoutPlan | None:
    """The plan of a run that began, with conversions that its gap needs now and that nobody agreed to.

    None where none are needed, where no row waits, and while earlier ones are on their way. Raises `RunKeyConflict` for
    other rows, and `InputError` for a sheet without rows that wait: what is agreed to is agreed to for the whole run.
    """
    check_bound(desk.ledger, plan.run_key, plan.intents)
    check_name_of_round(desk.ledger, plan.run_key)
    is_on_its_way = any(desk.ledger.order_ids(key, UNDECIDED) for key in rounds_of(desk.ledger, plan.run_key))
    if is_on_its_way or not rows_to_pay(desk, plan).rows:
        return None
    if (late := why_not_shown(desk, plan.run_key)) is not None:
        return replace(plan, unfunded=late)
    agreed = agreed_of(desk, plan)
    try:
        lack = lack_to_close(desk, plan, agreed)
        if not lack.trades or (agreed is not None and is_within_bounds(desk, plan.run_key, agreed, lack.trades)):
            return None
        whole = replace(whole_run(desk, plan), paid_first=paid_first(desk, plan))
        proposed = _proposed(desk, whole)
        lack = lack_within(desk, plan, *_kept_to(proposed))
    except NotFunded as error:
        return replace(plan, unfunded=str(error))
    if proposed is not None and is_within(lack.trades, proposed.conversions, {}):
        return proposed
    return _planned(desk, whole, lack, keep=keep)


def lack_to_close(desk: Desk, plan: PayoutPlan, agreed: Agreed | None) -> Lack:
    """Return what a run that began lacks, closed by what was agreed to for it where that does it. Raises
    `NotFunded`."""
    if agreed is None:
        return what_it_lacks(desk, plan)
    return lack_within(
        desk, plan, agreed.conversions, lambda trades: is_within_bounds(desk, plan.run_key, agreed, trades)
    )


def _kept_to(proposed: PayoutPlan | None) -> tuple[Iterable[FundingTrade], Callable[[Sequence[Trade]], bool]]:
    conversions = () if proposed is None else proposed.conversions
    return conversions, lambda trades: is_within(trades, conversions, {})


def whole_run(desk: Desk, plan: PayoutPlan) -> PayoutPlan:
    """A plan whose approvals count everything that its run, which began, has recorded. Raises `InputError`."""
    check_whole(desk, plan, "what is converted is agreed to", State.PREPARED)
    return with_recorded(desk, plan)


def check_whole(desk: Desk, plan: PayoutPlan, why: str, *states: State) -> None:
    """Raise `InputError` where rows of the run in these states are not in the sheet of a plan. `why` is for all."""
    rows = {row.row_ref for row in plan.rows}
    found = states_of(desk.ledger, plan.run_key)
    if missing := [row for row, (state, _) in found.items() if state in states and row not in rows]:
        more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
        raise InputError(
            f"run {plan.run_key} has rows that wait and are not in this sheet ({', '.join(missing[:5])}{more}); {why} "
            "for the whole run: start it with its whole sheet; nothing was sent"
        )


@exact
def with_recorded(desk: Desk, plan: PayoutPlan) -> PayoutPlan:
    """A plan whose approvals count what its run has recorded, also rows that its sheet lacks."""
    recorded = recorded_debits(desk.ledger, plan.run_key).sums
    more_sums = {name: total - plan.debits.get(name, ZERO) for name, total in recorded.items()}
    return replace(plan, recorded={name: total for name, total in more_sums.items() if total > 0})


def _planned(desk: Desk, plan: PayoutPlan, lack: Lack, *, keep: bool) -> PayoutPlan:
    terms = policy_of(plan).trading
    bounds = bounded(lack.trades, terms.slippage_bps, terms.min_trade)
    plan = replace(plan, paid_first=(*plan.paid_first, *on_their_way(lack.snapshot, lack.needs)))
    found = with_conversions(plan, bounds, _spent(desk, plan.run_key))
    if keep and found.conversions:
        _keep(desk, found, plan.sha256)
    return found


def _proposed(desk: Desk, plan: PayoutPlan) -> PayoutPlan | None:
    """Return what was proposed last for these payments, with its conversions, where it may still be approved and
    carried out.

    None where it was rejected or changed, its conversions were never kept, or others were made since.
    """
    key = plan.run_key
    found = desk.ledger.look(lambda connection: newest_plan(connection, desk.ledger, key))
    if found is None or found.policy != governing(desk).version or is_rejected(desk.ledger, found):
        return None
    proposed = shown_before(desk, plan, found.sha256)
    return proposed if proposed is None or proposed.conversions else None


# --- what was shown ----------------------------------------------------------------------------------------------


def shown_before(desk: Desk, plan: PayoutPlan, sha256: str) -> PayoutPlan | None:
    """These payments with the conversions that were shown with them under this hash; None where it is another plan's.

    The hash of the payments alone stands for them without any.
    """
    if sha256 == plan.sha256:
        return plan
    for kept in _kept(desk, plan):
        if kept["plan_sha256"] == sha256:
            converted = {currency: parse_amount(amount) for currency, amount in kept.get("converted", {}).items()}
            found = with_conversions(plan, _conversions(kept), converted)
            return found if found.sha256 == sha256 and converted == _spent(desk, plan.run_key) else None
    return None


def was_shown(desk: Desk, plan: PayoutPlan, sha256: str) -> bool:
    """Tell whether a plan of this run was shown, or began, under a hash, whatever became of it."""
    run = desk.ledger.run(plan.run_key)
    kept = snapshots.snapshots_of(desk.ledger, plan.run_key, governing(desk).version)
    return sha256 in {None if run is None else run.plan_sha256, *(each["plan_sha256"] for each in kept)}


def named_by(desk: Desk, plan: PayoutPlan, proposal: str) -> str | None:
    """The hash of the plan that its maker signed, among those that were shown for these payments."""
    code, version = read_token(proposal).code, governing(desk).version
    hashes = [each["plan_sha256"] for each in _kept(desk, plan)]
    return next((each for each in hashes if binding_of(desk, plan.run_key, each, version).code == code), None)


def _kept(desk: Desk, plan: PayoutPlan) -> list[dict[str, Any]]:
    kept = snapshots.snapshots_of(desk.ledger, plan.run_key, governing(desk).version)
    return [each for each in kept if each.get("payments_sha256") == plan.sha256]


def _keep(desk: Desk, plan: PayoutPlan, payments_sha256: str) -> None:
    content = {
        "plan_sha256": plan.sha256,
        "payments_sha256": payments_sha256,
        "conversions": [each.as_dict() for each in plan.conversions],
        "converted": {currency: canonical(amount) for currency, amount in plan.converted.items()},
    }
    snapshots.keep_snapshot(desk.ledger, plan.run_key, governing(desk).version, content)


def _conversions(kept: dict[str, Any]) -> tuple[FundingTrade, ...]:
    return tuple(FundingTrade.from_dict(each) for each in kept["conversions"])


# --- what was converted before ------------------------------------------------------------------------------------


UNDECIDED = (*OPEN, State.HELD)
"""States of a conversion that may have been made: what is held after its run was ended may have left."""


def why_not_shown(desk: Desk, run_key: str, proofs: Iterable[Mapping[str, Any]] | None = None) -> str | None:
    """Return what balances do not show of the last conversions for a run, in words: they may be late; None where they
    do.

    `proofs`: of a round of this start; else balances are read again while those of an earlier one may be late.
    """
    for key in reversed(rounds_of(desk.ledger, run_key)):
        settled = desk.ledger.orders(run_key=key, states=(State.SETTLED,))
        if not settled:
            continue
        since = desk.ledger.now() - SHOWN_WITHIN_MINUTES * 60_000
        if proofs is None and any((order.final_at or 0) >= since for order in settled):
            proofs = [each.as_dict() for each in proofs_of(desk, key)]
        bought = {order.receive_currency for order in settled}
        breaks = [
            each for each in proofs or () if each["verdict"] == FillVerdict.BREAK.value and each["asset"] in bought
        ]
        said = "; ".join(f"{each['asset']}: {each['why']}" for each in breaks)
        if said:
            return (
                f"the balance does not show what was converted ({said}): nothing is converted twice; start it again "
                f"once it does, or in {SHOWN_WITHIN_MINUTES} minutes"
            )
        return None
    return None


SHOWN_WITHIN_MINUTES = 10
"""So long after a conversion a balance that does not show it is taken for late, and not for money that went."""


def _spent(desk: Desk, run_key: str) -> dict[str, Decimal]:
    """Currency -> what conversions for a run spent, or may have."""
    return sums_of((trade.currency, trade.amount) for _, trade in _made(desk, run_key))


def _spent_by_pair(desk: Desk, run_key: str, sha256: str) -> dict[tuple[str, str], Decimal]:
    """Pair and currency -> what conversions under this very plan spent, or may have."""
    made = (trade for under, trade in _made(desk, run_key) if under == sha256)
    return sums_of(((trade.symbol, trade.currency), trade.amount) for trade in made)


def _made(desk: Desk, run_key: str) -> Iterator[tuple[str, Trade]]:
    """The conversions that left, or may have left, and did not fail, each with the hash of the plan it is part of.

    Raises `LimitExceeded` where what a round was to convert was changed by hand.
    """
    for run in map(desk.ledger.run, rounds_of(desk.ledger, run_key)):
        if run is None:
            continue
        if run.is_changed:
            raise LimitExceeded(
                f"run {run.run_key}, which converted for run {run_key}, was changed in the ledger by hand: find out "
                "who did it; nothing more is converted for this run, and without --fund it is paid of what is there"
            )
        orders = {order.row_ref: order for order in desk.ledger.orders(run_key=run.run_key)}
        for trade in TradePlan.from_dict(run.plan).trades:
            order = orders.get(trade.row_ref)
            if order is not None and order.state not in NEVER_LEFT and not order.state.may_be_replaced:
                yield run.plan["part_of"]["plan_sha256"], trade
