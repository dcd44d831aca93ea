"""Fund and pay: converts what a payout run lacks before it is sent, in rounds, within what people agreed to.

The rows of the run are recorded first: what is held, or does not fit into a limit, needs nothing; what waits is an
obligation that everybody sees; and of two runs that lack the same money the one that was recorded first has it.
"""

import dataclasses
import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from treasury.errors import InputError, LimitExceeded, NotFunded, Overtaken
from treasury.ledger import snapshots
from treasury.ledger.debits import asked_first
from treasury.ledger.funding_runs import PART, check_name_of_round, fund_key, rounds_of
from treasury.ledger.intents import newest_order
from treasury.money import canonical
from treasury.orders.records import Order
from treasury.orders.states import NEVER_LEFT, OPEN, State
from treasury.pay.funding_needs import Lack, paid_first, policy_of, read_funds, rows_to_pay
from treasury.pay.funding_plans import UNDECIDED, Agreed, agreed_of, is_within_bounds, lack_to_close, why_not_shown
from treasury.payments.approving import dated_by, marks_of
from treasury.payments.cancelling import cancel_order
from treasury.payments.desk import Desk
from treasury.payments.execution import ask_before_converting, follow_orders, open_orders, why_stopped
from treasury.payments.governing import governing
from treasury.planning.funding_planner import clipped, gap_of, on_their_way, shown_gap
from treasury.planning.payout_planner import MadePlan, PayoutPlan
from treasury.planning.position import Snapshot
from treasury.planning.trades import TradePlan, is_still_wanted
from treasury.rebalance.rebalancing import Planned, Round, decisions_of
from treasury.rebalance.round_inputs import NOT_SENT_YET, how_to_end
from treasury.rebalance.round_results import LOOK_SECONDS, LOOKS, Done, breaks_of, round_done, write_rounds
from treasury.rebalance.trade_orders import RecordedTrade, commit_part, name_trades
from treasury.reports.results import NOT_FUNDED, TOLD_AGAIN, summarize_run, write_run_results
from treasury.texts import count_of

LOG = logging.getLogger("treasury")


def next_round(desk: Desk, made: MadePlan, before: Sequence[Done], seconds: float) -> Planned | None:
    """The next round of conversions that a run's gap needs, planned afresh; None when nothing more is converted.

    `made`: its plan, whose rows are recorded. They are asked about first where the ledger may know less than
    the service. What is on its way of earlier starts is followed for so many seconds, and nothing is converted while
    something still is; what they left unsent is cancelled, unless it waits for a second query.
    """
    plan, policy_file = made.payments, _policy_file(made)
    policy = policy_of(plan)
    check_name_of_round(desk.ledger, plan.run_key)
    if not before:
        ask_before_converting(desk, plan.run_key)
        _follow_earlier(desk, plan.run_key, seconds)
    keys = rounds_of(desk.ledger, plan.run_key)
    agreed, newest = agreed_of(desk, plan), desk.ledger.look(newest_order)
    lack = None if agreed is None else _lack(desk, plan, agreed, before)
    if not before and (waiting := _gone_on_with(desk, plan, agreed, lack)) is not None:
        return waiting
    if agreed is None or lack is None or not lack.trades:
        return None
    if not is_within_bounds(desk, plan.run_key, agreed, lack.trades):
        return None
    key = fund_key(plan.run_key, len(keys) + 1)
    decided = Round(key, lack.found, dataclasses.replace(lack.snapshot, run_key=key), policy)
    for trade in lack.trades:
        LOG.info("run %s is funded by %s", plan.run_key, trade.name)
    funds = {"run_key": plan.run_key, "needs": {asset: canonical(amount) for asset, amount in lack.needs.items()}}
    decisions = {**decisions_of(desk, decided, policy_file), "funds": funds, "newest_order": newest}
    snapshots.keep_snapshot(desk.ledger, key, decisions["policy_in_force"], decisions)
    return Planned(
        run_key=key,
        plan_sha256=decisions["plan_sha256"],
        policy=None if policy_file is None else str(policy_file),
        is_first=not before,
        is_last=True,
    )


def _policy_file(made: MadePlan) -> Path | None:
    return None if made.policy_file is None else Path(made.policy_file)


def why_no_round(desk: Desk, plan: PayoutPlan, before: Sequence[Done]) -> str | None:
    """Why nothing more is converted in this start, whatever is missing; None when more may be."""
    return next(_reasons_for_no_round(desk, plan, before), None)


def _reasons_for_no_round(desk: Desk, plan: PayoutPlan, before: Sequence[Done]) -> Iterator[str]:
    made = [each for each in before if desk.ledger.run(each["run_key"]) is not None]
    if made and made[-1]["unsettled"]:
        yield "a conversion of this start was not settled"
    if (stopped := why_stopped(desk, plan.run_key)) is not None:
        yield f"the run was stopped: {stopped}"
    if asked := asked_first(desk.ledger, plan.run_key):
        yield (
            f"{count_of(asked, 'row')} must be asked about before anything is converted, because this ledger may be "
            f"older than the service: a second query, {desk.settings.resend_after_seconds:.0f} s later, has to find "
            "nothing either: start it again then"
        )
    if any(desk.ledger.order_ids(key, UNDECIDED) for key in rounds_of(desk.ledger, plan.run_key)):
        yield "conversions are on their way, or held for somebody to decide"
    if (why := why_not_shown(desk, plan.run_key, made[-1]["proofs"] if made else None)) is not None:
        yield why
    if len(before) < policy_of(plan).trading.max_rounds:
        return
    if len(made) < len(before):
        yield "other orders were recorded at the same moment, again and again: start it again"
    yield "this start made as many rounds as the policy's max_rounds allows: start it again"


def _lack(desk: Desk, plan: PayoutPlan, agreed: Agreed, before: Sequence[Done]) -> Lack | None:
    """Return what a run lacks now; None where nothing may be converted for it in this start, or it cannot be had."""
    if why_no_round(desk, plan, before) is not None:
        return None
    try:
        return lack_to_close(desk, plan, agreed)
    except NotFunded:
        return None


def _gone_on_with(desk: Desk, plan: PayoutPlan, agreed: Agreed | None, lack: Lack | None) -> Planned | None:
    """The newest round, where its conversions wait for another query before they are sent and are still needed.

    One that was planned anew by each start would never leave: each has a reference of its own to be asked about. What
    else earlier starts left unsent is cancelled.
    """
    keys, kept = rounds_of(desk.ledger, plan.run_key), None
    if keys and agreed is not None and lack is not None:
        kept = _waits_to_be_asked_about(desk, keys[-1], agreed, lack)
    for key in keys:
        if kept is None or key != kept["run_key"]:
            for order in desk.ledger.orders(run_key=key, states=NEVER_LEFT):
                cancel_order(desk, order, f"run {plan.run_key}, which plans anew what it lacks")
    return kept


def _waits_to_be_asked_about(desk: Desk, run_key: str, agreed: Agreed, lack: Lack) -> Planned | None:
    """A round as it was planned, if it waits for another query and is still needed under what was agreed to."""
    run, orders = desk.ledger.run(run_key), desk.ledger.orders(run_key=run_key, states=(State.PREPARED,))
    if run is None or not any(order.absences_needed for order in orders):
        return None
    recorded, unsent = TradePlan.from_dict(run.plan), {order.row_ref for order in orders}
    content = snapshots.snapshot_of(desk.ledger, run_key, run.plan_sha256)
    waiting = [trade for trade in recorded.trades if trade.row_ref in unsent]
    is_agreed = run.plan["part_of"]["plan_sha256"] == agreed.sha256
    if content is None or not is_agreed or not is_still_wanted(waiting, lack.trades):
        return None
    return Planned(run_key=run_key, plan_sha256=run.plan_sha256, policy=None, is_first=True, is_last=True)


def _follow_earlier(desk: Desk, run_key: str, seconds: float) -> None:
    for key in rounds_of(desk.ledger, run_key):
        with desk.hold(key):
            pass  # holds what was changed in it by hand
        if open_ones := desk.ledger.order_ids(key, OPEN):
            follow_orders(desk, key, open_ones, seconds)


def record_round(desk: Desk, planned: Planned, made: MadePlan) -> list[RecordedTrade]:
    """Record the conversions of a round, as part of the plan of the run that was agreed to; returns each with its name.

    None of them where something was recorded since the round was planned, or a limit of the day was reached: then it is
    planned again. What it has is read from the ledger, which kept it when it was planned. Raises `ApprovalNeeded`, and
    `InputError` for a round that this ledger did not plan for this run.
    """
    plan = made.payments
    kept = snapshots.planned_snapshot(desk.ledger, planned["run_key"], planned["plan_sha256"])
    agreed = agreed_of(desk, plan)
    if (kept.get("funds") or {}).get("run_key") != plan.run_key:
        raise InputError(f"run {plan.run_key}: {planned['run_key']} was planned for another run; nothing was recorded")
    trades = TradePlan.from_dict(kept["decided"]["plan"])
    if agreed is None:
        return []
    if desk.ledger.run(planned["run_key"]) is not None:  # it waited for a second query
        return name_trades(desk, trades, open_orders(desk, planned["run_key"]))
    part_of = {"run_key": plan.run_key, "plan_sha256": agreed.sha256, "approvals": agreed.approvals}
    if not is_within_bounds(desk, plan.run_key, agreed, trades.trades):
        raise InputError(f"run {plan.run_key}: more would be converted than was agreed to; nothing was sent")
    with desk.hold(planned["run_key"]):
        bounds = [clipped(trade, agreed.conversions) for trade in trades.trades]
        try:
            ids = commit_part(
                desk, planned["run_key"], trades, bounds, part_of, kept["newest_order"], _policy_file(made)
            )
        except (Overtaken, LimitExceeded) as error:
            LOG.info("run %s: its conversions are planned again: %s", plan.run_key, error)
            return []
        return name_trades(desk, trades, ids)


def why_not_funded(desk: Desk, plan: PayoutPlan, done: Sequence[Done] = ()) -> str | None:
    """Why the waiting rows of a run are not sent yet: what is missing of what they need; None when it is there.

    `done`: the rounds of this start. Balances are read again for a while where conversions were just settled.
    """
    gap: Mapping[str, Decimal] = {}
    for look in range(LOOKS if done else 1):
        if look:
            desk.clock.sleep(LOOK_SECONDS)
        try:
            needs, position = read_funds(desk, plan, with_margin=False)
        except NotFunded as error:
            return _not_funded(desk, plan, str(error))
        gap = gap_of(position, needs)
        if not gap:
            return None
    said = [f"{each}: it was recorded before and is paid first" for each in paid_first(desk, plan)]
    said += [f"{each}: the service may still debit it" for each in on_their_way(position, gap)]
    said += _to_be_brought(position, gap, rounds_of(desk.ledger, plan.run_key))
    said += _why_nothing_more(desk, plan, done)
    said += _what_became_of(desk, rounds_of(desk.ledger, plan.run_key))
    return _not_funded(desk, plan, f"{shown_gap(gap)} missing" + (f" ({'; '.join(said)})" if said else ""))


def _to_be_brought(position: Snapshot, gap: Mapping[str, Decimal], own: Collection[str]) -> Iterator[str]:
    """Conversions of other runs that are to bring what is missing."""
    for each in position.in_flight:
        if each.is_conversion and each.receive_currency in gap and each.run_key not in own:
            how = "is on its way" if each.is_sent else f"is {NOT_SENT_YET}: {how_to_end(each.run_key)}"
            yield f"{each.row_ref} of run {each.run_key} {how}"


def _not_funded(desk: Desk, plan: PayoutPlan, what: str) -> str:
    why = f"{NOT_FUNDED}{what}"
    waiting = {row.row_ref for row in rows_to_pay(desk, plan).rows}
    orders = desk.ledger.orders(run_key=plan.run_key, states=(State.PREPARED,))
    chosen = [order for order in orders if order.row_ref in waiting]
    desk.run_concurrently(lambda order: desk.ledger.note(order, reason=why), chosen)  # they share commits
    LOG.warning("run %s is %s; nothing more of it is sent", plan.run_key, why)
    return why


def _why_nothing_more(desk: Desk, plan: PayoutPlan, done: Sequence[Done]) -> Iterator[str]:
    """Why nothing more is converted for a run that lacks something."""
    if any(desk.ledger.order_ids(key, OPEN) for key in rounds_of(desk.ledger, plan.run_key)):
        return  # which is named
    if (why := why_no_round(desk, plan, done)) is not None:
        yield why
        return
    agreed = agreed_of(desk, plan)
    try:
        lack = lack_to_close(desk, plan, agreed)
    except NotFunded as error:
        yield str(error)
        return
    if lack.trades and (agreed is None or not is_within_bounds(desk, plan.run_key, agreed, lack.trades)):
        yield "more has to be converted than was agreed to: start it again, and it is planned anew"


def _what_became_of(desk: Desk, keys: Sequence[str]) -> Iterator[str]:
    """The conversions of a run, the newest first; not what earlier starts left unsent and was planned anew."""
    for key in reversed(keys):
        for order in desk.ledger.orders(run_key=key):
            if order.state is not State.CANCELLED or key == keys[-1]:
                yield _as_words(order)


def _as_words(order: Order) -> str:
    if order.state in (State.SENDING, State.UNKNOWN):
        return f"nobody knows whether {order.row_ref} was made: treasury resolve {order.request_id}"
    reason = f", {order.reason}" if order.reason else ""
    return f"{order.row_ref} ({order.run_key}): {order.state.outcome.replace('_', ' ')}{reason}"


def write_conversions(desk: Desk, run_key: str, done: Sequence[Done], folder: Path) -> dict[str, Any]:
    """Write what was converted for a payment run, by any of its starts, into the folder `funding` of its results.

    `done`: the rounds of this start. Returns what the run's own summary says of it: the runs of the conversions, counts
    of this start's and of those that nobody knows the end of, and the balances that did not move by them.
    """
    if not (keys := rounds_of(desk.ledger, run_key)):
        return {}
    now, contents, rounds = {each["run_key"]: each for each in done}, [], []
    for key in keys:
        run = desk.ledger.run(key)
        content = snapshots.snapshot_of(desk.ledger, key, None if run is None else run.plan_sha256)
        if content is not None:
            contents.append(content)
            plan = TradePlan.from_dict(content["decided"]["plan"])
            rounds.append(now.get(key) or round_done(desk, key, plan))
    files = [write_rounds(folder / FOLDER, contents, rounds)] if contents else []
    orders = [order for key in keys for order in desk.ledger.orders(run_key=key)]
    said: dict[str, Any] = {"breaks": found} if (found := breaks_of(done)) else {}
    marks, details = marks_of(desk, keys[0]), dated_by(governing(desk).policy)
    write_run_results(folder / FOLDER, keys[0], PART, orders, marks=marks, details=details, files=files, **said)
    told = (order for order in orders if order.run_key in now or order.state.outcome in TOLD_AGAIN)
    mine = summarize_run(run_key, PART, told)
    return {"funded_by": keys, **({"conversions": mine["counts"]} if mine["counts"] else {}), **said}


FOLDER = "funding"
"""The folder, in that of a run's results, of files about its conversions."""


def conversion_files(folder: Path) -> list[Path]:
    """The files of what was converted for a run, where anything was."""
    found = [folder / FOLDER / name for name in ("decisions.json", "results.csv", "results.xlsx", "run.json")]
    return [file for file in found if file.exists()]
