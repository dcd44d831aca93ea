"""Decisions of people about proposals: each approval is bound to one proposal of one plan in one ledger.

A decision carries a keyed checksum; a row that was changed or added by hand counts as none.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection, exists, or_, select, true, update

from treasury.approving.judging import HOUR_MS, Approval, ApprovalJudgement, ApprovalRules, judge_approvals, why_not
from treasury.approving.tokens import Matter, Token, Verb, read_token
from treasury.errors import ApprovalNeeded, ApprovedAlready, InputError, PlanRejected
from treasury.ledger import schema
from treasury.ledger.continuity import identity_of_ledger
from treasury.ledger.database import group_of, serialize
from treasury.ledger.decisions import Found, Proof, RecordedDecision, Word, find_decisions, hear, matter_of, record
from treasury.ledger.in_force import HAS_EFFECT, check_no_recovery
from treasury.ledger.ledger import Ledger
from treasury.ledger.proposals import (
    CANCELLED,
    WaitingPlan,
    add_proposal,
    changed_about,
    check_not_cancelled,
    is_plan_of_run,
    newest_plan,
    plan_of,
    plan_subject,
)
from treasury.ledger.seals import is_sealed
from treasury.ledger.snapshots import of_run, read_content
from treasury.policy.people import Maker, Right, names_somebody, same_person, words_of

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
) -> list[str]:
    """Record a plan that needs approvals, unless it is the one that waits; return whose it has.

    `token`: what its maker signed. `since`: one from before this moment, Unix ms, waits no more. Raises
    `ApprovalNeeded` while it lacks approvals, `PlanRejected` when a person rejected it, and `InputError` when it could
    never get them.
    """
    needed = rules.people.needed(rules.asked, maker, rules.right)
    if (missing := rules.people.missing(needed, maker, rules.right)) is not None:
        raise InputError(f"run {run_key}: {missing}; nothing was sent")

    def work(connection: Connection) -> tuple[WaitingPlan, ApprovalJudgement]:
        serialize(connection)
        check_not_cancelled(connection, run_key)
        plan = newest_plan(connection, ledger, run_key)
        ledger_id = identity_of_ledger(connection)
        if plan is not None and (plan.sha256, plan.policy, plan.ledger) == (sha256, policy, ledger_id):
            is_past = plan.proposed_at < since or is_of_another_time(connection, ledger, plan)
            if not is_past and not is_used(connection, ledger, plan):
                check_not_rejected(connection, ledger, plan)
                is_changed = decisions_of(connection, ledger, plan)[1]
                if not is_changed and (token is None or plan.maker.is_signed):
                    return plan, judge(connection, ledger, plan, rules)
        values = {"needed": needed, "policy": policy, "token": None if token is None else str(token)}
        row = {"run_key": run_key, "plan_sha256": sha256, "maker": maker.name, "os_user": maker.os_user, **values}
        plan = add_proposal(connection, ledger, {**row, "is_listed": maker.is_listed}, shown)
        return plan, judge(connection, ledger, plan, rules)

    plan, judged = ledger.write(work)
    if len(judged.counted) < plan.needed:
        raise ApprovalNeeded(
            run_key, plan.needed, judged.counted, judged.refused, plan.code, is_listed=bool(rules.people)
        )
    return list(judged.counted)


# --- decide ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Approved:
    """The result of an approval."""

    plan: WaitingPlan
    name: str
    judged: ApprovalJudgement

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
    person = words_of(name)
    if token is not None:
        owner = rules.people.with_key(token.key)
        if owner is not None and person and not same_person(person, owner):
            raise InputError(f"the key of this approval is {owner}'s, not {person}'s; nothing was recorded")
        person = owner or person or "somebody"
    elif not names_somebody(person):
        raise InputError("an approval needs the name of a person (--by NAME), or a key (--key FILE)")

    def work(connection: Connection) -> Approved:
        serialize(connection)
        plan = _open_plan(connection, ledger, run_key)
        if rules.people and rules.right is Right.APPROVE:  # a change of the policy itself may be approved meanwhile
            check_no_recovery(connection, ledger.key, ledger.now())
        if plan_named is not None and not plan.is_named(plan_named):
            raise InputError(
                f"another plan of run {run_key} waits than {plan_named[:14]}: {plan.code} (plan {plan.sha256[:12]}); "
                f"look at it with treasury show {run_key}"
            )
        if is_of_another_time(connection, ledger, plan):
            raise InputError(f"run {run_key}: {ANOTHER_TIME}; nothing was recorded")
        now = ledger.now()
        until = now + rules.hours * HOUR_MS
        approval = Approval(person, os_user, now, until if token is None else min(until, token.expires_at), token)
        why = why_not(plan.proposal, approval, rules, now)
        judged = judge(connection, ledger, plan, rules)
        if why is None and any(same_person(person, each) for each in judged.counted):
            raise ApprovedAlready(run_key, person, plan.sha256)
        signed = None if token is None else str(token)
        decided = decisions_of(connection, ledger, plan)[0]
        if why is None and signed is not None and any(each.token == signed for each in decided):
            why = "this token was recorded before, and its approval is expired; sign another one"
        if why is not None:
            raise InputError(f"the approval of run {run_key} by {person} does not count and is not recorded: {why}")
        said = RecordedDecision(Verb.APPROVE, run_key, plan_subject(plan), person, os_user, token=signed)
        record(connection, ledger, replace(said, ends_at=approval.expires_at))
        group_of(connection).decide()
        return Approved(plan, person, judge(connection, ledger, plan, rules))

    return ledger.write(work)


def reject_plan(
    ledger: Ledger, run_key: str, *, by: str = "", why: str, os_user: str, proof: Proof | None = None
) -> WaitingPlan:
    """Reject the newest plan of a run: its approvals end, and it is not paid. Raises `InputError`.

    `proof`: where people are listed, the key of one of them, or a token of it.
    """
    word = Word(Verb.REJECT, by, why, os_user, proof, named=run_key)
    if not word.why:
        raise InputError("a rejection needs a name and a reason: --by NAME --why TEXT")

    def work(connection: Connection) -> WaitingPlan:
        serialize(connection)
        plan = _open_plan(connection, ledger, run_key)
        if is_plan_of_run(connection, plan) or is_used(connection, ledger, plan):
            raise InputError(f"run {run_key} has begun; end what never left with treasury cancel {run_key}")
        hear(connection, ledger, word, plan_subject(plan), ())
        group_of(connection).decide()
        connection.execute(update(schema.plans).where(schema.plans.c.id == plan.id).values(shown=None))
        return plan

    return ledger.write(work)


def matter_of_plan(ledger: Ledger, run_key: str) -> Matter:
    """Return the matter, with its code, that rejecting the plan of a run that waits signs. Raises `InputError`."""

    def work(connection: Connection) -> Matter:
        plan = _open_plan(connection, ledger, run_key)
        return matter_of(connection, ledger, Verb.REJECT, (plan_subject(plan),), "")

    return ledger.look(work)


def decided_by(ledger: Ledger, plan: WaitingPlan) -> str:
    """Who decided last about a proposal."""
    return ledger.look(lambda connection: decisions_of(connection, ledger, plan)[0][-1].name)


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


# --- judge -------------------------------------------------------------------------------------------------------


def decisions_of(connection: Connection, ledger: Ledger, plan: WaitingPlan) -> Found:
    """Return what was decided about a proposal, in order; and what was changed or added by hand about it, or about its
    run since a plan of it was proposed last."""
    about = plan_subject(plan)
    genuine = find_decisions(connection, ledger.key, about=about)[0]
    return genuine, changed_about(connection, ledger, plan.run_key, about)


def _approval(decision: RecordedDecision) -> Approval:
    token = None if decision.token is None else read_token(decision.token)
    return Approval(decision.name, decision.os_user, decision.at, decision.ends_at or 0, token)


def judge(connection: Connection, ledger: Ledger, plan: WaitingPlan, rules: ApprovalRules) -> ApprovalJudgement:
    """Which approvals of a proposal count now."""
    found, forged = decisions_of(connection, ledger, plan)
    approvals = [_approval(each) for each in found if each.verb == Verb.APPROVE]
    if forged:  # one that was changed may have been a rejection
        return ApprovalJudgement((), (BY_HAND,))
    if is_of_another_time(connection, ledger, plan):
        return ApprovalJudgement((), (ANOTHER_TIME,) if approvals else ())
    return judge_approvals(plan.proposal, approvals, rules, ledger.now())


def is_of_another_time(connection: Connection, ledger: Ledger, plan: WaitingPlan) -> bool:
    """Tell whether another policy came into force after a plan was proposed; its own one may be in force again by
    now."""
    table = schema.policies.c
    other = or_(table.version != plan.policy, table.recovery) if plan.policy is not None else true()
    since = select(table.id).where(table.in_force_at > plan.proposed_at, HAS_EFFECT, other).limit(1)
    return connection.execute(since, {"now": ledger.now()}).first() is not None


ANOTHER_TIME = "the policy changed since, which ends its approvals: start it again, so that it is proposed anew"

BY_HAND = (
    "what was decided about it was changed or written into the ledger by hand, so nothing of it counts: start it "
    "again, so that it is proposed anew"
)


def is_used(connection: Connection, ledger: Ledger, plan: WaitingPlan) -> bool:
    """Tell whether payments were recorded under this proposal."""
    return any(each.verb == Verb.CARRY_OUT for each in decisions_of(connection, ledger, plan)[0])


def check_not_rejected(connection: Connection, ledger: Ledger, plan: WaitingPlan) -> None:
    """Raise `PlanRejected` when a person rejected this proposal."""
    for each in decisions_of(connection, ledger, plan)[0]:
        if each.verb == Verb.REJECT:
            raise PlanRejected(plan.run_key, each.name, each.why)


def check_payments_not_rejected(
    connection: Connection, ledger: Ledger, run_key: str, hashes: Collection[str], policy: str | None, asked: int
) -> None:
    """Raise `PlanRejected` where a person rejected one of these plans of a run, also with other conversions.

    `hashes`: of a plan, and of its payments alone; `policy`: the version in force; `asked`: approvals that it needs.
    After another plan was proposed, or another policy adopted, a rejected one may be proposed again, to be approved.
    Without approvals it never leaves; of another policy's time nobody can tell which payments were meant.
    """
    plans = schema.plans
    kept = [read_content(ledger.key, row) for row in connection.execute(of_run(run_key))]
    payments_of = {content.get("plan_sha256"): content.get("payments_sha256") for content, _ in kept}
    is_unknown = not all(genuine for _, genuine in kept)  # whose payments they are
    rows = connection.execute(select(plans).where(plans.c.run_key == run_key).order_by(plans.c.id.desc())).fetchall()
    for row in rows if not asked else rows[:1]:
        is_meant = row.plan_sha256 in hashes or payments_of.get(row.plan_sha256) in hashes or is_unknown
        genuine = is_sealed(ledger.key, plans, row)
        if (is_meant if row.policy == policy else not asked) and genuine:
            check_not_rejected(connection, ledger, plan_of(ledger, row))
        if not asked and not (genuine and not decisions_of(connection, ledger, plan_of(ledger, row))[1]):
            raise InputError(
                f"run {run_key}: what was proposed, or decided about it, was changed in the ledger by hand, so it may "
                "have been rejected; nothing was sent: what is to be paid gets another run key"
            )


def check_no_rejection(ledger: Ledger, run_key: str, hashes: Collection[str], policy: str | None, asked: int) -> None:
    """Check as `check_payments_not_rejected` does, outside of a transaction."""
    ledger.look(lambda connection: check_payments_not_rejected(connection, ledger, run_key, hashes, policy, asked))


# --- waiting plans -----------------------------------------------------------------------------------------------


def waiting_plan(ledger: Ledger, run_key: str) -> WaitingPlan | None:
    """The plan of a run that waits; None when the run began, its plan was ended, or it never had one."""
    return next(iter(waiting_plans(ledger, run_key)), None)


def waiting_plans(ledger: Ledger, run_key: str | None = None) -> list[WaitingPlan]:
    """All plans that wait for approvals, by run key; of one run where it is given.

    Also of a run that was recorded under another policy and never left: it is shown until it was approved anew.
    """
    table = schema.plans.c
    begun, cancelled = select(schema.runs.c.run_key), CANCELLED.with_only_columns(schema.decisions.c.named)
    policies = schema.policies.c
    adopted = exists().where(policies.version == table.plan_sha256, policies.in_force_at >= table.proposed_at)
    query = (
        select(schema.plans)
        .where(table.needed > 0, table.run_key.not_in(cancelled))
        .where(or_(table.run_key.not_in(begun), table.shown.is_not(None)))
        .where(~adopted)
        .order_by(table.run_key, table.id)
    )
    if run_key is not None:
        query = query.where(table.run_key == run_key)

    def work(connection: Connection) -> list[WaitingPlan]:
        rows = {row.run_key: row for row in connection.execute(query) if is_sealed(ledger.key, schema.plans, row)}
        newest = ((row, newest_plan(connection, ledger, row.run_key)) for row in rows.values())
        found = [plan for row, plan in newest if plan is not None and plan.id == row.id]
        return [plan for plan in found if not _is_rejected(connection, ledger, plan)]

    return ledger.look(work)


def _is_rejected(connection: Connection, ledger: Ledger, plan: WaitingPlan) -> bool:
    return any(each.verb == Verb.REJECT for each in decisions_of(connection, ledger, plan)[0])


def is_rejected(ledger: Ledger, plan: WaitingPlan) -> bool:
    """Tell whether a person rejected this proposal."""
    return ledger.look(lambda connection: _is_rejected(connection, ledger, plan))


def why_ended(ledger: Ledger, run_key: str) -> str | None:
    """How a person ended the newest plan of a run, in words; None where nobody did."""

    def work(connection: Connection) -> None:
        check_not_cancelled(connection, run_key)
        plan = newest_plan(connection, ledger, run_key)
        if plan is not None:
            check_not_rejected(connection, ledger, plan)

    try:
        ledger.look(work)
    except InputError as error:
        return str(error)
    return None


def ended_plans(ledger: Ledger) -> dict[str, str]:
    """Run key -> how a person ended the plan of a run that never began, in words."""
    table = schema.plans.c
    query = select(table.run_key).distinct().where(table.run_key.not_in(select(schema.runs.c.run_key)))
    ended = {run_key: why_ended(ledger, run_key) for run_key in sorted(row.run_key for row in ledger.read(query))}
    return {run_key: why for run_key, why in ended.items() if why is not None}


def is_proposed_anew(ledger: Ledger, plan: WaitingPlan) -> bool:
    """Tell whether the next start proposes the plan again: of a ledger before its restore, of another policy's time, or
    changed by hand since."""

    def work(connection: Connection) -> bool:
        is_other = plan.ledger != identity_of_ledger(connection) or is_of_another_time(connection, ledger, plan)
        return is_other or bool(decisions_of(connection, ledger, plan)[1])

    return ledger.look(work)


def standing_of(
    ledger: Ledger, plan: WaitingPlan, rules: ApprovalRules
) -> tuple[ApprovalJudgement, Sequence[RecordedDecision]]:
    """Which approvals of a waiting plan count now, and all that people decided about it."""

    def work(connection: Connection) -> tuple[ApprovalJudgement, Sequence[RecordedDecision]]:
        decided = decisions_of(connection, ledger, plan)[0]
        return judge(connection, ledger, plan, rules), [each for each in decided if each.verb != Verb.CARRY_OUT]

    return ledger.look(work)
