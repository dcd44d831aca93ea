"""What people decided about proposals: each approval is bound to one proposal of one plan in one ledger.

A decision carries a keyed checksum; a row that was changed or added by hand counts as none.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, exists, func, insert, or_, select, update

from treasury.approving.judging import HOUR_MS, Approval, ApprovalRules, Judgement, judge_approvals, why_not
from treasury.approving.tokens import Token, read_token
from treasury.errors import ApprovalNeeded, InputError, PlanRejected
from treasury.ledger import schema
from treasury.ledger.database import group_of, serialize
from treasury.ledger.identity import identity_of_ledger
from treasury.ledger.ledger import Ledger
from treasury.ledger.proposals import (
    WaitingPlan,
    add_proposal,
    check_not_cancelled,
    is_changed_by_hand,
    is_plan_of_run,
    newest_plan,
    plan_of,
    plans_of_run,
)
from treasury.ledger.seals import is_sealed, seal
from treasury.planning.people import Maker, same_person


@dataclass(frozen=True)
class Decision:
    """An approval or a rejection, as it is kept."""

    decision: str
    name: str
    os_user: str
    at: int
    expires_at: int | None
    token: str | None
    why: str | None
    used_at: int | None

    @property
    def approval(self) -> Approval:
        """The approval that it is."""
        token = None if self.token is None else read_token(self.token)
        return Approval(self.name, self.os_user, self.at, self.expires_at or 0, token)


# --- propose -----------------------------------------------------------------------------------------------------


def propose_plan(
    ledger: Ledger,
    run_key: str,
    sha256: str,
    maker: Maker,
    rules: ApprovalRules,
    *,
    policy: str | None = None,
    shown: Mapping[str, Any] | None = None,
    token: Token | None = None,
    since: int = 0,
) -> None:
    """Record a plan that needs approvals, unless it is the one that waits.

    `token`: what its maker signed. `since`: one from before this moment, Unix ms, waits no more. Raises
    `ApprovalNeeded` while it lacks approvals, `PlanRejected` when a person rejected it, and `InputError` when it could
    never get them.
    """
    needed = rules.people.needed(rules.asked, maker, rules.right)
    if (missing := rules.people.missing(needed, maker, rules.right)) is not None:
        raise InputError(f"run {run_key}: {missing}; nothing was sent")

    def work(connection: Connection) -> tuple[WaitingPlan, Judgement]:
        serialize(connection)
        check_not_cancelled(connection, run_key)
        plan = newest_plan(connection, ledger, run_key)
        ledger_id = identity_of_ledger(connection)
        is_known = plan is not None and (plan.sha256, plan.policy, plan.ledger) == (sha256, policy, ledger_id)
        is_known = is_known and plan is not None and plan.proposed_at >= since
        if plan is not None and is_known and not _is_used(connection, ledger, plan):
            check_not_rejected(connection, ledger, plan)
            is_changed = decisions_of(connection, ledger, plan)[1] > 0
            if not is_changed and (token is None or plan.maker.is_signed):
                return plan, judge(connection, ledger, plan, rules)
        values = {"needed": needed, "policy": policy, "token": None if token is None else str(token)}
        row = {"run_key": run_key, "plan_sha256": sha256, "maker": maker.name, "os_user": maker.os_user, **values}
        plan = add_proposal(connection, ledger, {**row, "is_listed": maker.is_listed}, shown)
        return plan, judge(connection, ledger, plan, rules)

    plan, judged = ledger.write(work)
    if len(judged.counted) < plan.needed:
        raise ApprovalNeeded(run_key, plan.needed, judged.counted, judged.refused, plan.code)


# --- decide ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Approved:
    """What an approval led to."""

    plan: WaitingPlan
    name: str
    judged: Judgement

    @property
    def lacks(self) -> int:
        """How many approvals are still to come."""
        return max(0, self.plan.needed - len(self.judged.counted))


def approve_plan(
    ledger: Ledger,
    run_key: str,
    rules: ApprovalRules,
    os_user: str,
    *,
    name: str = "",
    token: Token | None = None,
    plan_named: str | None = None,
) -> Approved:
    """Record an approval of the newest plan of a run: a token that a key signed, or a typed name.

    `plan_named`: the hash or code of the plan that the approver saw. Raises `InputError` that says why it does not
    count.
    """
    person = " ".join(name.split())
    if token is not None:
        owner = rules.people.with_key(token.key)
        if owner is not None and person and not same_person(person, owner):
            raise InputError(f"the key of this approval is {owner}'s, not {person}'s; nothing was recorded")
        person = owner or person or "somebody"
    elif not as_a_name(person):
        raise InputError("an approval needs the name of a person (--by NAME), or a key (--key FILE)")

    def work(connection: Connection) -> Approved:
        serialize(connection)
        plan = _open_plan(connection, ledger, run_key)
        if plan_named is not None and not plan.is_named(plan_named):
            raise InputError(
                f"another plan of run {run_key} waits than {plan_named[:14]}: {plan.code} (plan {plan.sha256[:12]}); "
                f"look at it with treasury show {run_key}"
            )
        now = ledger.now()
        until = now + rules.hours * HOUR_MS
        approval = Approval(person, os_user, now, until if token is None else min(until, token.expires_at), token)
        why = why_not(plan.proposal, approval, rules, now)
        judged = judge(connection, ledger, plan, rules)
        if why is None and any(same_person(person, each) for each in judged.counted):
            why = "approved this plan already"
        if why is None and token is not None and str(token) in _tokens(connection, ledger, plan):
            why = "this token was recorded before, and its approval is expired; sign another one"
        if why is not None:
            raise InputError(f"the approval of run {run_key} by {person} does not count and is not recorded: {why}")
        _decide(
            connection, ledger, plan, "approve", approval.name, os_user, expires_at=approval.expires_at, token=token
        )
        return Approved(plan, person, judge(connection, ledger, plan, rules))

    return ledger.write(work)


def _tokens(connection: Connection, ledger: Ledger, plan: WaitingPlan) -> set[str | None]:
    return {each.token for each in decisions_of(connection, ledger, plan)[0]}


def reject_plan(ledger: Ledger, run_key: str, *, by: str, why: str, os_user: str) -> WaitingPlan:
    """Reject the newest plan of a run: its approvals end, and it is not paid. Raises `InputError`."""
    person = " ".join(by.split())
    if not as_a_name(person) or not why.strip():
        raise InputError("a rejection needs a name and a reason: --by NAME --why TEXT")

    def work(connection: Connection) -> WaitingPlan:
        serialize(connection)
        plan = _open_plan(connection, ledger, run_key)
        if is_plan_of_run(connection, plan) or _is_used(connection, ledger, plan):
            raise InputError(f"run {run_key} has begun; end what never left with treasury cancel {run_key}")
        _decide(connection, ledger, plan, "reject", person, os_user, why=why.strip())
        connection.execute(update(schema.plans).where(schema.plans.c.id == plan.id).values(shown=None))
        return plan

    return ledger.write(work)


def as_a_name(text: str) -> bool:
    """Whether a text names somebody: it has letters or digits that an eye sees."""
    return same_person(text, text) and not same_person(text, "")


def _open_plan(connection: Connection, ledger: Ledger, run_key: str) -> WaitingPlan:
    check_not_cancelled(connection, run_key)
    plan = newest_plan(connection, ledger, run_key)
    if plan is None:
        raise InputError(f"run {run_key} has no plan that waits for an approval")
    check_not_rejected(connection, ledger, plan)
    if decisions_of(connection, ledger, plan)[1]:
        raise InputError(f"run {run_key}: {BY_HAND}")
    if plan.ledger != identity_of_ledger(connection):
        raise InputError(
            f"the plan of run {run_key} was made before this ledger was restored: start the run again, so that it is "
            "proposed anew"
        )
    return plan


def _decide(
    connection: Connection,
    ledger: Ledger,
    plan: WaitingPlan,
    decision: str,
    name: str,
    os_user: str,
    *,
    expires_at: int | None = None,
    token: Token | None = None,
    why: str | None = None,
) -> None:
    row = {"proposal": plan.id, "decision": decision, "name": name, "os_user": os_user, "at": ledger.now()}
    row |= {"expires_at": expires_at, "token": None if token is None else str(token), "why": why}
    connection.execute(insert(schema.decisions).values(**row, checksum=seal(ledger.key, schema.decisions, row)))
    group_of(connection).marks += 1  # a ledger that forgot it is older than this machine knows


# --- judge -------------------------------------------------------------------------------------------------------


def decisions_of(connection: Connection, ledger: Ledger, plan: WaitingPlan) -> tuple[list[Decision], int]:
    """What was decided about a proposal, in order, and how many rows were changed or added by hand."""
    table = schema.decisions
    rows = connection.execute(select(table).where(table.c.proposal == plan.id).order_by(table.c.id)).fetchall()
    genuine = [row for row in rows if is_sealed(ledger.key, table, row)]
    names = ("decision", "name", "os_user", "at", "expires_at", "token", "why", "used_at")
    return [Decision(*(row._mapping[name] for name in names)) for row in genuine], len(rows) - len(genuine)


def judge(connection: Connection, ledger: Ledger, plan: WaitingPlan, rules: ApprovalRules) -> Judgement:
    """Which approvals of a proposal count now."""
    found, forged = decisions_of(connection, ledger, plan)
    approvals = [each.approval for each in found if each.decision == "approve"]
    if forged:  # one that was changed may have been a rejection
        return Judgement((), (BY_HAND,))
    return judge_approvals(plan.proposal, approvals, rules, ledger.now())


BY_HAND = (
    "what was decided about it was changed or written into the ledger by hand, so nothing of it counts: start it "
    "again, so that it is proposed anew"
)


def check_approved(
    connection: Connection,
    ledger: Ledger,
    run_key: str,
    sha256: str,
    policy: str | None,
    rules: ApprovalRules,
) -> None:
    """Check, in the transaction that records payments, that their plan has its approvals; they are used from then on.

    `policy`: the version in force. Raises `ApprovalNeeded`, which says why each approval that was given does not count,
    and `PlanRejected`.
    """
    if not rules.asked:
        return
    plan = newest_plan(connection, ledger, run_key)
    if plan is None or plan.sha256 != sha256:
        raise ApprovalNeeded(run_key, rules.asked, (), () if plan is None else ("another plan of this run waits",))
    check_not_rejected(connection, ledger, plan)
    if plan.ledger != identity_of_ledger(connection):
        raise ApprovalNeeded(run_key, plan.needed, (), ("the plan was made before this ledger was restored",))
    if plan.policy != policy:
        raise ApprovalNeeded(run_key, plan.needed, (), ("the plan was made under another policy",))
    judged, needed = judge(connection, ledger, plan, rules), rules.people.needed(rules.asked, plan.maker, rules.right)
    if len(judged.counted) < max(needed, plan.needed):
        raise ApprovalNeeded(run_key, max(needed, plan.needed), judged.counted, judged.refused, plan.code)
    use_approvals(connection, ledger, plan)


def use_approvals(connection: Connection, ledger: Ledger, plan: WaitingPlan) -> None:
    """End a proposal that was carried out: its approvals are used, and count for nothing else."""
    table = schema.decisions
    for row in connection.execute(select(table).where(table.c.proposal == plan.id)).fetchall():
        if row.used_at is None and is_sealed(ledger.key, table, row):
            used = {**{str(name): value for name, value in row._mapping.items()}, "used_at": ledger.now()}
            change = update(table).where(table.c.id == row.id)
            connection.execute(change.values(used_at=used["used_at"], checksum=seal(ledger.key, table, used)))
    connection.execute(update(schema.plans).where(schema.plans.c.id == plan.id).values(shown=None))


def _is_used(connection: Connection, ledger: Ledger, plan: WaitingPlan) -> bool:
    return any(each.used_at is not None for each in decisions_of(connection, ledger, plan)[0])


def check_still_approved(
    connection: Connection, ledger: Ledger, run_key: str, policy: str | None, rules: ApprovalRules
) -> None:
    """Check again what a run was approved by, until its first payment left. Raises `ApprovalNeeded`.

    `policy`: the version in force. A run that was judged by another policy since has what that one asks. Of rows that
    were added, their own plans are judged, too; a later plan of the whole run takes the place of those before it.
    """
    if is_changed_by_hand(connection, ledger, run_key) and not _has_left(connection, run_key):
        raise ApprovalNeeded(run_key, 1, (), ("its proposal was changed in the ledger by hand: cancel this run",))
    for plan in _carried_out(connection, ledger, run_key, policy):
        check_not_rejected(connection, ledger, plan)
        judged = judge(connection, ledger, plan, rules)
        if len(judged.counted) < plan.needed:
            raise ApprovalNeeded(run_key, plan.needed, judged.counted, judged.refused, plan.code)
        use_approvals(connection, ledger, plan)


def _carried_out(connection: Connection, ledger: Ledger, run_key: str, policy: str | None) -> Iterator[WaitingPlan]:
    """The plans that a run was recorded under and that are judged again, until its first payment left."""
    if _has_left(connection, run_key):
        return
    plans, table = plans_of_run(connection, ledger, run_key), schema.plans.c
    own = next((plan.sha256 for plan in plans if is_plan_of_run(connection, plan)), None)
    first = select(func.min(table.id)).where(table.run_key == run_key, table.plan_sha256 == own)
    since = connection.execute(first).scalar() or 0
    for plan in plans:
        if plan.sha256 == own and plan.policy != policy:
            why = "the plan was made under another policy: start it again"
            raise ApprovalNeeded(run_key, plan.needed, (), (why,))
        is_meant = plan.sha256 == own or (plan.id > since and _was_used(connection, ledger, plan))
        if plan.policy == policy and is_meant:  # else of another policy's time, or it waits still
            yield plan


def _has_left(connection: Connection, run_key: str) -> bool:
    orders = schema.orders.c
    left = select(orders.id).where(orders.run_key == run_key, orders.sends > 0).limit(1)
    return connection.execute(left).first() is not None


def _was_used(connection: Connection, ledger: Ledger, plan: WaitingPlan) -> bool:
    """Whether payments were recorded under this plan, by this proposal or by an earlier one of the same plan."""
    table = schema.plans
    same = (table.c.run_key == plan.run_key) & (table.c.plan_sha256 == plan.sha256)
    rows = connection.execute(select(table).where(same)).fetchall()
    return any(_is_used(connection, ledger, plan_of(ledger, row)) for row in rows if is_sealed(ledger.key, table, row))


def propose_lapsed(ledger: Ledger, run_key: str, policy: str | None, rules: ApprovalRules) -> None:
    """Propose a plan again that was carried out, whose approvals ended before anything left, while a newer one waits.

    Approvals are given to the newest proposal alone. Raises `ApprovalNeeded` for one.
    """

    def work(connection: Connection) -> WaitingPlan | None:
        serialize(connection)
        newest = newest_plan(connection, ledger, run_key)
        for plan in _carried_out(connection, ledger, run_key, policy):
            lacks = len(judge(connection, ledger, plan, rules).counted) < plan.needed
            if lacks and newest is not None and newest.id != plan.id:
                row = connection.execute(select(schema.plans).where(schema.plans.c.id == plan.id)).one()
                kept = ("run_key", "plan_sha256", "maker", "os_user", "is_listed", "needed", "policy", "token")
                return add_proposal(connection, ledger, {name: row._mapping[name] for name in kept})
        return None

    plan = ledger.write(work)
    if plan is not None:
        raise ApprovalNeeded(run_key, plan.needed, (), ("its approvals ended before anything was sent",), plan.code)


def check_not_rejected(connection: Connection, ledger: Ledger, plan: WaitingPlan) -> None:
    """Raise `PlanRejected` when a person rejected this proposal."""
    for each in decisions_of(connection, ledger, plan)[0]:
        if each.decision == "reject":
            raise PlanRejected(plan.run_key, each.name, each.why or "")


def approved_by(ledger: Ledger, run_key: str) -> list[Decision]:
    """The approvals that a run, and the rows added to it, were recorded with."""

    def work(connection: Connection) -> list[Decision]:
        judged_by = select(schema.runs.c.policy).where(schema.runs.c.run_key == run_key)
        policy = connection.execute(judged_by).scalar()
        plans = [plan for plan in plans_of_run(connection, ledger, run_key) if plan.policy == policy]
        found = [each for plan in plans for each in decisions_of(connection, ledger, plan)[0]]
        return [each for each in found if each.decision == "approve" and each.used_at is not None]

    return ledger.look(work)


# --- waiting plans -----------------------------------------------------------------------------------------------


def waiting_plan(ledger: Ledger, run_key: str) -> WaitingPlan | None:
    """The plan of a run that waits; None when the run began, its plan was ended, or it never had one."""
    return next(iter(waiting_plans(ledger, run_key)), None)


def waiting_plans(ledger: Ledger, run_key: str | None = None) -> list[WaitingPlan]:
    """All plans that wait for approvals, by run key; of one run where it is given.

    Also of a run that was recorded under another policy and never left: it is shown until it was approved anew.
    """
    table = schema.plans.c
    newest = select(func.max(table.id)).group_by(table.run_key)
    begun = select(schema.runs.c.run_key)
    policies = schema.policies.c
    adopted = exists().where(policies.version == table.plan_sha256, policies.adopted_at >= table.proposed_at)
    query = (
        select(schema.plans)
        .where(table.id.in_(newest), table.needed > 0, table.cancelled_at.is_(None))
        .where(or_(table.run_key.not_in(begun), table.shown.is_not(None)))
        .where(~adopted)
        .order_by(table.run_key)
    )
    if run_key is not None:
        query = query.where(table.run_key == run_key)

    def work(connection: Connection) -> list[WaitingPlan]:
        found = [plan_of(ledger, row) for row in connection.execute(query) if is_sealed(ledger.key, schema.plans, row)]
        return [plan for plan in found if not _is_rejected(connection, ledger, plan)]

    return ledger.look(work)


def _is_rejected(connection: Connection, ledger: Ledger, plan: WaitingPlan) -> bool:
    return any(each.decision == "reject" for each in decisions_of(connection, ledger, plan)[0])


def is_rejected(ledger: Ledger, plan: WaitingPlan) -> bool:
    """Whether a person rejected this proposal."""
    return ledger.look(lambda connection: _is_rejected(connection, ledger, plan))


def is_proposed_anew(ledger: Ledger, plan: WaitingPlan) -> bool:
    """Whether the next start proposes the plan again: of a ledger before its restore, or changed by hand since."""

    def work(connection: Connection) -> bool:
        return plan.ledger != identity_of_ledger(connection) or decisions_of(connection, ledger, plan)[1] > 0

    return ledger.look(work)


def standing_of(ledger: Ledger, plan: WaitingPlan, rules: ApprovalRules) -> tuple[Judgement, Sequence[Decision]]:
    """Which approvals of a waiting plan count now, and all that was decided about it."""
    return ledger.look(
        lambda connection: (judge(connection, ledger, plan, rules), decisions_of(connection, ledger, plan)[0])
    )
