"""Which policy applies: the one in force, at every door. What is named explicitly is it, or nothing happens."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from treasury.approving.judging import ApprovalRules
from treasury.errors import InputError
from treasury.ledger.intents import IntentRules, PartOf, waiting_operations
from treasury.ledger.policies import check_rehearsal, is_rehearsal, policy_in_force
from treasury.payments.desk import Desk
from treasury.policy.limits import Limits, approvals_needed
from treasury.policy.model import Policy
from treasury.policy.people import APPROVAL_HOURS, People
from treasury.policy_file import read_policy
from treasury.provider.catalogue import CATALOGUE
from treasury.texts import with_person


@dataclass(frozen=True)
class Governing:
    """The policy that applies to what a door is about to do."""

    policy: Policy | None
    """None on this machine's own services, where none is in force and none was named."""
    version: str | None
    """The policy in force; None when none is: what is recorded then is a rehearsal."""
    since: int = 0
    """When it took effect, Unix ms; 0 when none is in force."""

    def rules(self, desk: Desk, table: str, debits: Mapping[str, Decimal], over: Mapping[str, str]) -> IntentRules:
        """Return what payments of a table of the policy, with these sums, are judged by. `over`: see `IntentRules`."""
        if self.policy is None:
            return IntentRules()
        limits = self.policy.table(table)
        return IntentRules(
            version=self.version,
            since=self.since,
            approving=self.approving(approvals_needed(debits, limits)),
            limits=limits,
            day=self.policy.day_of(desk.ledger.now()),
            over=over,
        )

    @property
    def people(self) -> People:
        """Who may make and approve plans; nobody where typed names count."""
        return People() if self.policy is None else self.policy.listed

    def approving(self, asked: int) -> ApprovalRules:
        """Return what so many approvals are judged by."""
        hours = APPROVAL_HOURS if self.policy is None else self.policy.approval_hours
        return ApprovalRules(asked, self.people, hours)

    def limits(self, table: str) -> Limits:
        """The limits of a table of the policy; none where there is no policy."""
        return Limits() if self.policy is None else self.policy.table(table)


BUSINESS_DAYS = "business-days"
"""Tag of a deployment whose schedule means the business days of the policy."""


def closed_today(desk: Desk, named: Path | None = None) -> str | None:
    """Say, where today is no business day of the policy that applies, which days it is that are; None where it is one.

    `named`: the file of a policy that a start names.
    """
    policy = governing(desk, named).policy or Policy()
    today = policy.business_date(desk.clock.now())
    if policy.business_days.is_open(today):
        return None
    return (
        f"{today} is no business day of {', '.join(policy.holidays)}: the service was asked nothing, and nothing left; "
        f"the next one is {policy.business_days.next_open(today)}, and a person can start it before"
    )


def would_rehearse(desk: Desk) -> bool:
    """Tell whether what is recorded now is a rehearsal, or something of this ledger was."""
    return is_rehearsal(desk.ledger) or policy_in_force(desk.ledger) is None


def rules_of_run(desk: Desk, run_key: str) -> IntentRules:
    """Return what the waiting orders of a run are judged by now: the policy in force and the day."""
    governed, run, rules = govern(desk), desk.ledger.run(run_key), IntentRules()
    if governed.version is not None:
        tables = {CATALOGUE[operation].limited_by for operation in waiting_operations(desk.ledger, run_key)}
        rules = governed.rules(desk, min(tables, default="payouts"), {}, {})  # a run is of one kind
    return rules if run is None else as_part(governed, rules, run.plan)


def as_part(governed: Governing, rules: IntentRules, plan: Mapping[str, Any]) -> IntentRules:
    """Return these rules for a part of the plan of another run, as `part_of` says: the approvals are that one's."""
    of = plan.get("part_of")
    if of is None:
        return rules
    approving = governed.approving(int(of["approvals"]))
    return replace(rules, approving=approving, part_of=PartOf(of["run_key"], of["plan_sha256"]))


def govern(desk: Desk, named: Path | None = None) -> Governing:
    """The policy for what moves money: the one in force, which `named` may only name again.

    Where none is in force, on a service of this machine, `named` applies to this start. Raises `InputError` when
    another one is named than the one in force, and `ConfigurationError` when none is and the service is elsewhere.
    """
    return _apply(desk, governing(desk, named))


def govern_plan(desk: Desk, policy: Policy | None) -> Governing:
    """The policy in force; where none is, on a service of this machine, the one that a plan was made under."""
    found = governing(desk)
    return _apply(desk, found if found.version is not None else replace(found, policy=policy))


def _apply(desk: Desk, found: Governing) -> Governing:
    if found.version is None:
        check_rehearsal(desk.account.identity)
    policy = found.policy
    desk.ledger.judged_since = found.since
    desk.ledger.day_of = None if policy is None else policy.day_of
    return found


def governing(desk: Desk, named: Path | None = None) -> Governing:
    """Return the policy for what only reads: where none is in force, none is needed."""
    in_force = policy_in_force(desk.ledger)
    if in_force is None:
        policy = None if named is None else read_policy(named)
        if policy is not None and policy.people:
            raise InputError(
                f"{named} lists people, whose approvals count only once it is in force: treasury policy adopt {named} "
                "--by NAME; nothing was sent"
            )
        return Governing(policy, None)
    if named is not None and read_policy(named).version != in_force.version:
        raise InputError(
            f"{named} is not the policy in force, which {in_force.adopted_by} adopted (treasury policy show); nothing "
            "was sent: leave it out, or put it in force with "
            + with_person(f"treasury policy adopt {named} --by NAME", is_listed=bool(in_force.policy.listed))
        )
    return Governing(in_force.policy, in_force.version, in_force.in_force_at)
