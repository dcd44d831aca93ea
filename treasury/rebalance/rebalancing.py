"""Rebalancing: plans trades from balances and rates, and records them as orders of the day's run."""

import dataclasses
import itertools
import logging
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, TypedDict

from treasury.approving.tokens import Token
from treasury.errors import InputError, LimitExceeded
from treasury.ledger import obligations, snapshots
from treasury.ledger.approvals import waiting_plan
from treasury.ledger.plans import plan_hash, record_plan, recorded_plan
from treasury.ledger.proposals import is_cancelled
from treasury.ledger.snapshots import snapshot_of
from treasury.money import parse_amount, sums_of
from treasury.orders.records import Order
from treasury.orders.states import State
from treasury.payments.approving import approvals_of, maker_of
from treasury.payments.desk import Desk
from treasury.payments.governing import governing
from treasury.planning.funding_planner import plan_funding
from treasury.planning.position import Snapshot, limited_to
from treasury.planning.round_planner import Rebalancing, plan_rebalancing
from treasury.planning.shown import shown_trades
from treasury.planning.trades import TradePlan, is_still_wanted
from treasury.policy.limits import why_approvals
from treasury.policy.model import Policy
from treasury.rebalance import round_inputs
from treasury.rebalance.consent import KIND, NOBODY_YET, TABLE, is_doubtful, trade_rules, why_stale

LOG = logging.getLogger("treasury")


def run_key_of_day(policy: Policy, now: datetime, number: int = 1) -> str:
    """The run key of a rebalancing: its business date in the policy's time zone; later rounds of a day are numbered."""
    key = run_key_of_date(policy.business_date(now))
    return key if number == 1 else f"{key}-{number}"


def run_key_of_date(day: date) -> str:
    """The run key of the first round of the rebalancing of a business date."""
    return f"rebalance-{day.isoformat()}"


_OF_DAY = r"rebalance-\d{4}-\d\d-\d\d"


def is_key_of_day(run_key: str) -> bool:
    """Tell whether a run key is a name for a round of the rebalancing of a business date."""
    return re.fullmatch(rf"{_OF_DAY}(-\d+)?", run_key) is not None


def first_run_key(run_key: str) -> str:
    """The run key of the first round of a round's day, or of its payment run."""
    found = re.fullmatch(rf"({_OF_DAY}|.+\.fund)(-\d+)?", run_key)
    return run_key if found is None else found[1]


@dataclasses.dataclass(frozen=True)
class Round:
    """One round of a day's rebalancing."""

    run_key: str
    decided: Rebalancing
    snapshot: Snapshot | None = None
    """The position that it was planned from; None where that was not kept."""
    policy: Policy | None = None
    """The policy that it was planned under; None for the one that applies now."""

    @property
    def plan(self) -> TradePlan:
        """Its trades."""
        return self.decided.plan


class Planned(TypedDict):
    """A round before its trades, by the names that the ledger keeps it under: what it trades is read from there."""

    run_key: str
    plan_sha256: str
    policy: str | None
    is_first: bool
    """It is the first round of its start."""
    is_last: bool
    """Its start makes no other one: it made as many as `max_rounds` allows, or its balances are those of a file, which
    does not show what this round brings."""


def position_for(desk: Desk, policy_file: Path | None, balances_file: Path | None, plan: str | None) -> dict[str, Any]:
    """The position that a round is planned from; nothing where a plan was agreed to, or a round is gone on with."""
    if plan is not None or stored_round(desk, policy_file) is not None:
        return {}
    return round_inputs.sealed(desk, _read_position(desk, _policy(desk, policy_file)[0], balances_file))


def _read_position(desk: Desk, policy: Policy, balances_file: Path | None) -> Snapshot:
    """The position, for the round that is next before it is read.

    Race: another start may record that round meanwhile, and what it trades would not be counted here. This one is
    refused then, for its round began.
    """
    run_key = _next_run_key(desk, policy)
    desk.standing = desk.check_standing()  # of an older ledger, payments that wait may have been made

    def read() -> Snapshot:
        found = round_inputs.read_position(desk, policy, balances_file, replaced=_replaced(desk))
        today = _keys_of_day(desk, run_key_of_day(policy, _now(desk)))
        proceeds = obligations.proceeds_of(desk.ledger, today)
        return dataclasses.replace(found, brought=proceeds.brought, coming=proceeds.coming)

    found, is_one_moment = round_inputs.at_one_moment(desk, read)
    notes = found.notes if is_one_moment else (*found.notes, MOVED_MEANWHILE)
    return dataclasses.replace(found, notes=notes, run_key=run_key)


def _replaced(desk: Desk) -> list[str]:
    """Earlier rounds with trades that were not sent: `commit_trades` of the next round cancels them."""
    return obligations.unsent_conversions(desk.ledger, KIND)


MOVED_MEANWHILE = "payments left while the balances were read: what left in that moment may count twice"


def rates_for(desk: Desk, policy_file: Path | None, position: Mapping[str, Any]) -> dict[str, Any]:
    """The position with the rates of the pairs that may be traded; nothing for nothing."""
    if not position:
        return {}
    policy, _ = _policy(desk, policy_file)
    return round_inputs.sealed(
        desk, round_inputs.read_rates(desk, policy, round_inputs.opened(desk, position), replaced=_replaced(desk))
    )


def planned_round(
    desk: Desk,
    policy_name: str | None,
    policy_file: Path | None,
    snapshot: Mapping[str, Any],
    plan: str | None,
    before: Sequence[Mapping[str, Any]] = (),
) -> Planned:
    """The round that a person agreed to, that is gone on with, or that is planned from a snapshot.

    `before`: the rounds of the same start, whose pairs that were not settled are not traded again.
    """
    if plan is not None:
        found = round_of(desk, *plan_by_hash(desk, plan))
        is_new = desk.ledger.run(found.run_key) is None
        if (
            is_new
            and is_doubtful(desk, found.plan, found.snapshot)
            and (why := why_not_wanted(desk, policy_file, found)) is not None
        ):
            raise InputError(why)
    else:
        but = {symbol for each in before for symbol in each["unsettled"]}
        stored = None if snapshot else stored_round(desk, policy_file)
        content = round_inputs.opened(desk, snapshot) if snapshot else None
        found = stored or plan_from(desk, policy_file, content or read_market(desk, policy_file), but)
    decisions = decisions_of(desk, found, policy_file)
    keep_snapshot(desk, decisions)
    return Planned(
        run_key=found.run_key,
        plan_sha256=decisions["plan_sha256"],
        policy=policy_name,
        is_first=not before,
        is_last=len(before) + 1 >= _policy(desk, policy_file)[0].trading.max_rounds or _is_of_a_file(found),
    )


def _is_of_a_file(found: Round) -> bool:
    return found.snapshot is not None and found.snapshot.source != Snapshot(0).source


def kept_decisions(desk: Desk, planned: Planned, policy_file: Path | None = None) -> dict[str, Any]:
    """Return what was decided in a round, as the ledger keeps it.

    Where its snapshot was changed by hand, the plan alone, which is sealed. Raises `InputError` for a round that was
    not planned here.
    """
    run_key, sha256 = planned["run_key"], planned["plan_sha256"]
    if (kept := snapshot_of(desk.ledger, run_key, sha256)) is not None:
        return kept
    agreed_key, plan = plan_by_hash(desk, sha256)
    if agreed_key != run_key:
        raise InputError(f"plan {sha256[:12]} is one of run {agreed_key}, not of {run_key}; nothing was traded")
    return decisions_of(desk, Round(run_key, Rebalancing(plan, (), (), {})), policy_file)


def kept_plan(desk: Desk, planned: Planned) -> TradePlan:
    """Return the trades of a round, as the ledger keeps them. Raises `InputError` as `kept_decisions` does."""
    return TradePlan.from_dict(kept_decisions(desk, planned)["decided"]["plan"])


def propose(desk: Desk, planned: Planned, policy_file: Path | None) -> Planned:
    """Propose a round's plan, which the ledger kept when it was planned: it waits for the approvals that it needs.

    Raises `LimitExceeded` where limits leave nothing of it to trade, `InputError` for one that was not planned today.
    """
    run_key, kept = planned["run_key"], kept_decisions(desk, planned, policy_file)
    if kept["snapshot"] is not None:
        if kept["snapshot"]["at"] < today_of(desk, _policy(desk, policy_file)[0]):
            raise InputError(f"run {run_key}: it was planned on an earlier day; nothing was traded: start it again")
        if planned["is_first"]:
            check_limits(kept)
    plan = TradePlan.from_dict(kept["decided"]["plan"])
    if plan.trades:
        keep_plan(desk, run_key, plan, policy_file)
    return planned


def check_limits(decisions: Mapping[str, Any]) -> None:
    """Raise `LimitExceeded` where limits leave nothing of a round to trade."""
    over = decisions["decided"]["over_limits"]
    if over and not decisions["decided"]["plan"]["trades"]:
        said = "; ".join(f"{asset} is outside its band, and {limit}" for asset, limit in over.items())
        raise LimitExceeded(
            f"run {decisions['run_key']}: {said}; nothing was traded now: look at its target and the limits"
        )


def plan_round(desk: Desk, policy_file: Path | None, balances_file: Path | None) -> Round:
    """The next round of today's rebalancing; sends nothing that moves money.

    A round that began and has trades that were not sent, or one that waits for approvals, is gone on with. Else a new
    one is planned from balances (of a file, or of the service: public fact 5.10), orders on their way, obligations and
    rates of now. The policy in force applies; `policy_file` may name it, or another one where none is in force.
    """
    stored = stored_round(desk, policy_file)
    if stored is not None:
        return stored
    return plan_from(desk, policy_file, read_market(desk, policy_file, balances_file))


def read_market(desk: Desk, policy_file: Path | None, balances_file: Path | None = None) -> Snapshot:
    """Everything that a rebalancing is planned from."""
    policy = _policy(desk, policy_file)[0]
    return round_inputs.read_rates(desk, policy, _read_position(desk, policy, balances_file), replaced=_replaced(desk))


def plan_from(desk: Desk, policy_file: Path | None, snapshot: Snapshot, but: Collection[str] = ()) -> Round:
    """A new round, planned from a snapshot. `but`: pairs that are not traded again in this start."""
    policy, _ = _policy(desk, policy_file)
    said = dict.fromkeys(but, "its trade in the round before was not settled")
    snapshot = dataclasses.replace(snapshot, missing={**snapshot.missing, **said}) if but else snapshot
    decided = plan_rebalancing(policy, snapshot)
    found = Round(snapshot.run_key or _next_run_key(desk, policy), decided, snapshot, policy)
    LOG.info("run %s: trades: %d, skipped: %d", found.run_key, len(found.plan.trades), len(found.plan.skipped))
    for line in decided.lines:
        LOG.info("%s: %s", line.asset, line.why)
    return found


def stored_round(desk: Desk, policy_file: Path | None) -> Round | None:
    """The round of today that is not done: one whose trades were not all sent, or that waits for approvals."""
    policy, version = _policy(desk, policy_file)
    newest = [key for key in _keys_of_day(desk, run_key_of_day(policy, _now(desk))) if desk.ledger.run(key) is not None]
    if newest and desk.ledger.orders(run_key=newest[-1], states=(State.PREPARED,)):
        run = desk.ledger.run(newest[-1])
        found = None if run is None else round_of(desk, newest[-1], TradePlan.from_dict(run.plan))
        return found if found is None or _is_still_wanted(desk, policy_file, found) else None
    run_key = _next_run_key(desk, policy)
    waiting = waiting_plan(desk.ledger, run_key)
    if waiting is None or waiting.policy != version:
        return None
    found = round_of(desk, *plan_by_hash(desk, waiting.sha256))
    return found if why_not_wanted(desk, policy_file, found) is None else None


def why_not_wanted(desk: Desk, policy_file: Path | None, found: Round) -> str | None:
    """Why a round that waited may not begin: others bought what it buys, or it is not needed; None while it may."""
    if (why := why_stale(desk, found.run_key, found.plan, found.snapshot)) is not None:
        return why
    if _is_still_wanted(desk, policy_file, found):
        return None
    return (
        f"run {found.run_key}: what it was to trade is not needed any more, or less of it; nothing was traded: start "
        "it again, and it is planned anew"
    )


def _is_still_wanted(desk: Desk, policy_file: Path | None, found: Round) -> bool:
    """Tell whether what is left to be made of a round is still needed.

    It is planned again from what is held now: as well as can be, and with its own pairs alone, where others came to
    cost less. What cannot be read now, or came from a file, says nothing against it.
    """
    if found.snapshot is None or _is_of_a_file(found):
        return True
    policy, now = _policy(desk, policy_file)[0], read_market(desk, policy_file)
    made = {order.row_ref for order in desk.ledger.orders(run_key=found.run_key) if order.state is not State.PREPARED}
    trades = [
        each
        for each in found.plan.trades
        if each.row_ref not in made and not {each.symbol, each.currency, each.receive_currency} & {*now.missing}
    ]
    for snapshot in (now, limited_to(now, {each.symbol for each in found.plan.trades})):
        again = plan_rebalancing(policy, snapshot).plan
        if is_still_wanted(trades, (*again.trades, *again.later)):
            return True
    return False


def round_of(desk: Desk, run_key: str, plan: TradePlan) -> Round:
    """A round that an earlier start planned, with what it was planned from where that was kept."""
    kept = snapshot_of(desk.ledger, run_key, plan_hash(plan.as_dict()))
    if kept is None:
        return Round(run_key, Rebalancing(plan, (), (), {}))
    policy, snapshot = Policy.model_validate(kept["policy"]), Snapshot.from_dict(kept["snapshot"])
    decided = dataclasses.replace(plan_rebalancing(policy, snapshot), plan=plan)  # what was agreed to, whoever planned
    return Round(run_key, decided, snapshot, policy)


def _keys_of_day(desk: Desk, first: str) -> Iterator[str]:
    """The run keys of a day that are used up: of rounds that began, and of those whose plan a person cancelled."""
    for number in itertools.count(1):
        run_key = first if number == 1 else f"{first}-{number}"
        if desk.ledger.run(run_key) is None and not is_cancelled(desk.ledger, run_key):
            return
        yield run_key


def orders_of_day(desk: Desk, run_key: str) -> list[Order]:
    """The trades of every round of a round's day."""
    return [order for key in _keys_of_day(desk, first_run_key(run_key)) for order in desk.ledger.orders(run_key=key)]


def _next_run_key(desk: Desk, policy: Policy) -> str:
    now = _now(desk)
    used = sum(1 for _ in _keys_of_day(desk, run_key_of_day(policy, now)))
    return run_key_of_day(policy, now, used + 1)


def today_of(desk: Desk, policy: Policy) -> int:
    """When the present business date began, Unix ms."""
    return policy.day_start_ms(_now(desk))


def _now(desk: Desk) -> datetime:
    return datetime.fromtimestamp(desk.ledger.now() / 1000, UTC)


def decisions_of(desk: Desk, found: Round, policy_file: Path | None) -> dict[str, Any]:
    """A round as `decisions.json` has it: what it was planned from, under which policy, and what was decided."""
    applies, version = _policy(desk, policy_file)
    policy = found.policy or applies
    return {
        "run_key": found.run_key,
        "plan_sha256": plan_hash(found.plan.as_dict()),
        "policy_in_force": version,
        "policy": policy.model_dump(mode="json", exclude_defaults=True),
        "snapshot": None if found.snapshot is None else found.snapshot.as_dict(),
        "decided": found.decided.as_dict(),
    }


def keep_snapshot(desk: Desk, decisions: Mapping[str, Any]) -> None:
    """Keep in the ledger what a round was planned from, and what was decided; once."""
    run_key = decisions["run_key"]
    if decisions["snapshot"] is not None and snapshot_of(desk.ledger, run_key, decisions["plan_sha256"]) != decisions:
        snapshots.keep_snapshot(desk.ledger, run_key, decisions["policy_in_force"], decisions)


def explain(content: Mapping[str, Any]) -> tuple[Rebalancing, bool]:
    """Plan a round again from its `decisions.json`; also whether the result is what was decided then."""
    if content.get("snapshot") is None:
        raise InputError(f"what run {content.get('run_key')} was planned from was not kept")
    policy = Policy.model_validate(content["policy"])
    snapshot, funds = Snapshot.from_dict(content["snapshot"]), content.get("funds")
    if funds is None:
        again = plan_rebalancing(policy, snapshot)
    else:
        needs = {asset: parse_amount(amount) for asset, amount in funds["needs"].items()}
        again = plan_funding(policy, snapshot, needs, funds["run_key"])
    return again, again.as_dict() == content["decided"]


def keep_plan(
    desk: Desk,
    run_key: str,
    plan: TradePlan,
    policy_file: Path | None = None,
    sign: Callable[[str, str], Token | None] = lambda *_: None,
    *,
    asked_here: bool = False,
) -> str:
    """Keep a plan that was made just now, so that it can be executed today; returns its hash.

    `sign`: signs it, given run key and hash, as its maker; where the policy in force lists people. `asked_here`: a
    person at the command line is asked for a yes. Raises `WaitingForYes` where nobody else could say it.
    """
    governed, content = governing(desk, policy_file), plan.as_dict()
    sha256, debits = plan_hash(content), counted_debits(desk, run_key, plan)
    token = sign(run_key, sha256)
    maker = maker_of(desk, governed, run_key, sha256, token)
    asked = trade_rules(desk, governed, plan, debits, maker, asked_here=asked_here).approving.asked
    needed = approvals_of(governed, run_key, asked, maker)
    policy = governed.policy or Policy()
    return record_plan(
        desk.ledger,
        run_key,
        content,
        maker,
        policy=governed.version,
        day=policy.day_of(desk.ledger.now()),
        needed=needed,
        ends_at=policy.day_end_ms(desk.ledger.now()),
        shown=shown_trades(run_key, plan, sha256, why_approvals(debits, governed.limits(TABLE)) or [NOBODY_YET]),
        token=token,
    )


def plan_by_hash(desk: Desk, sha256: str) -> tuple[str, TradePlan]:
    """The run key and plan that a person agreed to. Raises `InputError` for one that this ledger never made."""
    run_key, content = recorded_plan(desk.ledger, sha256)
    return run_key, TradePlan.from_dict(content)


def _policy(desk: Desk, policy_file: Path | None) -> tuple[Policy, str | None]:
    governed = governing(desk, policy_file)
    if governed.policy is None:
        raise InputError("no policy says what to trade: name one (--policy FILE), or put one in force")
    return governed.policy, governed.version


def counted_debits(desk: Desk, run_key: str, plan: TradePlan) -> dict[str, Decimal]:
    """Currency -> what approvals count: what the plan spends, and what the day's other rounds spent."""
    spent = [(trade.currency, trade.amount) for trade in plan.trades]
    spent += [
        (order.currency, order.amount)
        for order in orders_of_day(desk, run_key)
        if order.run_key != run_key and order.currency and order.amount and not order.state.may_be_replaced
    ]
    return sums_of(spent)
