"""Plans that are carried out: their approvals are judged when payments are recorded and before the first one leaves.

From then on the approvals are used, and count for nothing else.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

from sqlalchemy import Connection, func, select, update

from treasury.approving.judging import ApprovalRules
from treasury.approving.tokens import Verb
from treasury.errors import ApprovalNeeded
from treasury.ledger import schema
from treasury.ledger.approvals import check_not_rejected, decisions_of, is_of_another_time, is_used, judge
from treasury.ledger.continuity import identity_of_ledger
from treasury.ledger.database import serialize
from treasury.ledger.decisions import RecordedDecision, find_decisions, people_at, record
from treasury.ledger.ledger import Ledger
from treasury.ledger.proposals import (
    WaitingPlan,
    add_proposal,
    is_changed_by_hand,
    is_plan_of_run,
    newest_plan,
    plan_of,
    plan_subject,
    plans_of_run,
)
from treasury.ledger.seals import is_sealed
from treasury.orders.states import NEVER_LEFT, State

BEFORE_RESTORE = "the plan was made before this ledger was restored"
ENDED = "its approvals ended before anything was sent"
"""Why a plan that was carried out is proposed again."""


def why_lapsed(ledger: Ledger, plan: WaitingPlan) -> str:
    """Why the approvals that a plan was carried out with count no more, in words."""
    return ENDED if plan.ledger == ledger.look(identity_of_ledger) else BEFORE_RESTORE


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
        table = schema.plans
        of_before = (table.c.run_key == run_key) & table.c.policy.is_distinct_from(policy)
        connection.execute(update(table).where(of_before).values(shown=None))  # nothing of it is left to approve
        return
    plan = newest_plan(connection, ledger, run_key)
    if plan is None or plan.sha256 != sha256:
        raise ApprovalNeeded(run_key, rules.asked, (), () if plan is None else ("another plan of this run waits",))
    needed = max(rules.people.needed(rules.asked, plan.maker, rules.right), plan.needed)
    _use_approvals(connection, ledger, plan, policy, rules, needed)


def _use_approvals(
    connection: Connection, ledger: Ledger, plan: WaitingPlan, policy: str | None, rules: ApprovalRules, needed: int
) -> None:
    """End a proposal that has as many approvals as are `needed`, and is carried out: they count for nothing else."""
    check_not_rejected(connection, ledger, plan)
    if plan.ledger != identity_of_ledger(connection):
        raise ApprovalNeeded(plan.run_key, plan.needed, (), (BEFORE_RESTORE,))
    if plan.policy != policy:
        raise ApprovalNeeded(plan.run_key, plan.needed, (), ("the plan was made under another policy",))
    judged = judge(connection, ledger, plan, rules)
    if len(judged.counted) < needed:
        said = (judged.counted, judged.refused, plan.code)
        raise ApprovalNeeded(plan.run_key, needed, *said, is_listed=bool(rules.people))
    decided = decisions_of(connection, ledger, plan)[0]
    if decided and decided[-1].verb != Verb.CARRY_OUT:
        record(connection, ledger, RecordedDecision(Verb.CARRY_OUT, plan.run_key, plan_subject(plan), "", ""))
    connection.execute(update(schema.plans).where(schema.plans.c.id == plan.id).values(shown=None))


def check_still_approved(
    connection: Connection, ledger: Ledger, run_key: str, policy: str | None, rules: ApprovalRules
) -> None:
    """Check again what a run was approved by, until its first payment left. Raises `ApprovalNeeded`.

    `policy`: the version in force. A run that was judged by another policy since has what that one asks. Of rows that
    were added, their own plans are judged, too; a later plan of the whole run takes the place of those before it.
    """
    is_changed = is_changed_by_hand(connection, ledger, run_key) or _is_used_one_changed(connection, ledger, run_key)
    if is_changed and not _has_left(connection, run_key):
        raise ApprovalNeeded(run_key, 1, (), ("its proposal was changed in the ledger by hand: cancel this run",))
    for plan in _carried_out(connection, ledger, run_key, policy):
        _use_approvals(connection, ledger, plan, policy, rules, plan.needed)


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
    """Tell whether anything of a run left; what was marked to leave, and was certainly not sent, did not."""
    orders, not_sent = schema.orders.c, [state.value for state in (*NEVER_LEFT, State.CANCELLED)]
    may_have = (orders.sends > 0) & (orders.state.not_in(not_sent) | orders.doubtful)
    return connection.execute(select(orders.id).where(orders.run_key == run_key, may_have).limit(1)).first() is not None


def _was_used(connection: Connection, ledger: Ledger, plan: WaitingPlan) -> bool:
    """Tell whether payments were recorded under this plan, by this proposal or by an earlier one of the same plan."""
    table = schema.plans
    same = (table.c.run_key == plan.run_key) & (table.c.plan_sha256 == plan.sha256)
    rows = connection.execute(select(table).where(same)).fetchall()
    return any(is_used(connection, ledger, plan_of(ledger, row)) for row in rows if is_sealed(ledger.key, table, row))


def _is_used_one_changed(connection: Connection, ledger: Ledger, run_key: str) -> bool:
    """Tell whether a plan that payments were recorded under was changed by hand: it is judged again by nobody."""
    table = schema.plans
    rows = connection.execute(select(table).where(table.c.run_key == run_key)).fetchall()
    known = {plan_subject(plan_of(ledger, row)) for row in rows if is_sealed(ledger.key, table, row)}
    decided = find_decisions(connection, ledger.key, named=run_key)[0]
    return any(each.verb == Verb.CARRY_OUT and each.about not in known for each in decided)


def lapsed_plan(ledger: Ledger, run_key: str, policy: str | None, rules: ApprovalRules) -> WaitingPlan | None:
    """A plan that was carried out, whose approvals ended before anything left; None for none, or where it waits again.

    Approvals are given to the newest proposal alone, and by people who see what it pays: `propose_again` makes it that.
    """

    def work(connection: Connection) -> WaitingPlan | None:
        newest = newest_plan(connection, ledger, run_key)
        for plan in _carried_out(connection, ledger, run_key, policy):
            is_restored = plan.ledger != identity_of_ledger(connection)
            lacks = is_restored or len(judge(connection, ledger, plan, rules).counted) < plan.needed
            is_ended = is_restored or is_of_another_time(connection, ledger, plan)
            is_seen = newest is not None and newest.id == plan.id and newest.shown is not None
            if lacks and newest is not None and (is_ended or not is_seen):
                return plan
        return None

    return ledger.look(work)


def propose_again(ledger: Ledger, plan: WaitingPlan, shown: Mapping[str, Any]) -> NoReturn:
    """Propose a plan again, as it was, whose approvals ended. `shown`: what approvers see of it.

    Raises `ApprovalNeeded` for it.
    """

    def work(connection: Connection) -> WaitingPlan:
        serialize(connection)
        row = connection.execute(select(schema.plans).where(schema.plans.c.id == plan.id)).one()
        kept = ("run_key", "plan_sha256", "maker", "os_user", "is_listed", "needed", "policy", "token")
        return add_proposal(connection, ledger, {name: row._mapping[name] for name in kept}, shown)

    again, why = ledger.write(work), why_lapsed(ledger, plan)
    is_listed = bool(ledger.look(lambda connection: people_at(connection, ledger)))
    raise ApprovalNeeded(again.run_key, again.needed, (), (why,), again.code, is_listed=is_listed)


def approved_by(ledger: Ledger, run_key: str, sha256: str | None = None) -> list[RecordedDecision]:
    """The approvals that a run, and the rows added to it, were recorded with: in the order of their plans.

    `sha256`: of this plan alone.
    """

    def work(connection: Connection) -> list[RecordedDecision]:
        judged_by = select(schema.runs.c.policy).where(schema.runs.c.run_key == run_key)
        policy = connection.execute(judged_by).scalar()
        plans = [plan for plan in plans_of_run(connection, ledger, run_key) if plan.policy == policy]
        meant = [plan for plan in plans if sha256 in (None, plan.sha256)]
        return [each for plan in meant for each in _used(connection, ledger, plan)[0]]

    return ledger.look(work)


def approvers_by_time(ledger: Ledger, run_key: str) -> list[tuple[int, tuple[str, ...]]]:
    """Since when, Unix ms, rows of a run were recorded with the approvals of these people, the earliest first."""

    def work(connection: Connection) -> list[tuple[int, tuple[str, ...]]]:
        found = []
        for plan in plans_of_run(connection, ledger, run_key):
            used, since = _used(connection, ledger, plan)
            if used:
                found.append((since, tuple(each.name for each in used)))
        return sorted(found)

    return ledger.look(work)


def _used(connection: Connection, ledger: Ledger, plan: WaitingPlan) -> tuple[list[RecordedDecision], int]:
    """Return the approvals that a plan was carried out with, and since when, Unix ms."""
    decided = decisions_of(connection, ledger, plan)[0]
    carried = [number for number, each in enumerate(decided) if each.verb == Verb.CARRY_OUT]
    if not carried:
        return [], 0
    return [each for each in decided[: carried[-1]] if each.verb == Verb.APPROVE], decided[carried[0]].at
