"""Proposes plans and approves them: who makes one, which rules it is approved by, what approvers see of it."""

from collections.abc import Callable, Mapping
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from treasury.approving.judging import HOUR_MS, ApprovalRules
from treasury.approving.tokens import Binding, Token, Verb, sign
from treasury.clock import MACHINE, Clock
from treasury.errors import InputError
from treasury.ledger import approvals
from treasury.ledger.approvals import Approved
from treasury.ledger.approved_plans import approved_by, approvers_by_time
from treasury.ledger.continuity import identity_of_ledger
from treasury.ledger.decisions import note_maker
from treasury.ledger.policies import change_rules, is_policy_key, is_rehearsal, policy_in_force
from treasury.ledger.proposals import WaitingPlan, newest_plan
from treasury.payments.desk import Desk
from treasury.payments.governing import Governing, governing
from treasury.payments.preflight import why_above_bound
from treasury.policy.model import Policy
from treasury.policy.people import APPROVAL_HOURS, Maker, People, Right
from treasury.reports.details import Details
from treasury.reports.results import Marks
from treasury.settings import os_user


def binding_of(desk: Desk, run_key: str, sha256: str, policy: str | None) -> Binding:
    """Return what the signature of a plan's maker is bound to."""
    return Binding(desk.account.identity, run_key, sha256, policy)


def sign_proposal(desk: Desk, key: Ed25519PrivateKey, run_key: str, sha256: str) -> Token:
    """Sign a plan as its maker, under the policy in force."""
    policy = governing(desk).version
    until = desk.ledger.now() + APPROVAL_HOURS * HOUR_MS
    return sign(key, Verb.PROPOSE, run_key, binding_of(desk, run_key, sha256, policy).code, until)


def maker_of(desk: Desk, governed: Governing, run_key: str, sha256: str, token: Token | None = None) -> Maker:
    """Who makes a plan: whoever signed it, else the listed person who works as this OS user, else that user.

    Raises `InputError` for a signature that is not theirs, or of another plan, and for a person who may not make plans.
    """
    people = governed.people
    signed_by = None
    if token is not None:
        signed_by = people.with_key(token.key)
        why = None
        if signed_by is None:
            why = "the policy in force does not list its key"
        elif token.purpose is not Verb.PROPOSE or not token.is_genuine:
            why = "it is not genuine"
        elif (token.run_key, token.code) != (run_key, binding_of(desk, run_key, sha256, governed.version).code):
            why = (
                "it is for another plan, run, account or policy (what a run converts may have changed since it was "
                "signed: sign the plan that is shown now)"
            )
        elif desk.ledger.now() >= token.expires_at:
            why = "it is expired"
        if why is not None:
            raise InputError(f"run {run_key}: the maker's signature does not count: {why}; nothing was sent")
    maker = people.maker(os_user(), signed_by)
    if maker.is_listed and not people.may(maker.name, Right.MAKE):
        raise InputError(f"run {run_key}: the policy in force does not let {maker.name} make plans; nothing was sent")
    return maker


def propose(
    desk: Desk,
    governed: Governing,
    run_key: str,
    sha256: str,
    asked: int,
    *,
    shown: Mapping[str, Any] | None = None,
    token: Token | None = None,
) -> list[str]:
    """Record a plan that needs so many approvals, and return whose it has; where it needs none, only who signed it.

    Raises `ApprovalNeeded` while it lacks them, `PlanRejected`, and `InputError` when it can never have them.
    """
    waiting = approvals.waiting_plan(desk.ledger, run_key)
    same = waiting is not None and (waiting.sha256, waiting.policy) == (sha256, governed.version)
    if token is None and waiting is not None and same and not approvals.is_proposed_anew(desk.ledger, waiting):
        maker = waiting.maker  # whoever starts it again made nothing
    else:
        maker = maker_of(desk, governed, run_key, sha256, token)
    if approvals_of(governed, run_key, asked, maker):
        rules = governed.approving(asked)
        policy = governed.version
        asked_of = (desk.ledger, run_key, sha256, maker, rules)
        return approvals.propose_plan(*asked_of, policy=policy, shown=shown, token=token)
    if token is not None:
        desk.ledger.write(lambda connection: note_maker(connection, desk.ledger, run_key, maker, token))
    return []


def is_recorded(desk: Desk, governed: Governing, run_key: str) -> bool:
    """Tell whether a run was recorded under the policy in force, and no plan of it was made under another one since."""
    run = desk.ledger.run(run_key)
    if run is None or run.policy != governed.version:
        return False
    plan = desk.ledger.look(lambda connection: newest_plan(connection, desk.ledger, run_key))
    return plan is None or plan.policy == governed.version


def approvals_of(governed: Governing, run_key: str, asked: int, maker: Maker) -> int:
    """How many approvals a plan of this maker needs. Raises `InputError` when there is nobody to give them."""
    needed = governed.people.needed(asked, maker)
    if (missing := governed.people.missing(needed, maker)) is not None:
        raise InputError(f"run {run_key}: {missing}; nothing was sent")
    return needed


def rules_of(desk: Desk, plan: WaitingPlan) -> ApprovalRules:
    """Return what a waiting plan is approved by: the policy in force."""
    if is_policy_key(plan.run_key):
        return change_rules(policy_in_force(desk.ledger))
    return governing(desk).approving(plan.needed)


def signer(desk: Desk, key: Ed25519PrivateKey | None) -> Callable[[str, str], Token | None]:
    """Return what signs a plan, given its run key and hash, as its maker; nobody does without a key."""
    return lambda run_key, sha256: None if key is None else sign_proposal(desk, key, run_key, sha256)


def print_approval(
    key: Ed25519PrivateKey, run_key: str, code: str, hours: int = APPROVAL_HOURS, *, clock: Clock = MACHINE
) -> str:
    """A token that approves the proposal with this code. Needs neither ledger nor account."""
    return str(sign(key, Verb.APPROVE, run_key, code, int(clock.wall() * 1000) + hours * HOUR_MS))


def approve(
    desk: Desk,
    run_key: str,
    *,
    name: str = "",
    token: Token | None = None,
    key: Ed25519PrivateKey | None = None,
    plan_named: str | None = None,
) -> Approved:
    """Record an approval of the plan of a run that waits: by a key, a token of one, or a typed name.

    Raises `InputError` that says why it does not count.
    """
    desk.check_standing()  # what an older ledger says of its plans is not to be believed
    plan = newest(desk, run_key)
    if (why := why_stale(desk, plan)) is not None:
        raise InputError(f"the plan of run {run_key} was {why}: start the run again, so that it is proposed anew")
    rules = rules_of(desk, plan)
    if key is not None:
        if plan_named is not None and not plan.is_named(plan_named):
            raise InputError(f"another plan of run {run_key} waits than {plan_named[:14]}: {plan.code}")
        token = sign(key, Verb.APPROVE, run_key, plan.code, desk.ledger.now() + rules.hours * HOUR_MS)
    return approvals.approve_plan(desk.ledger, run_key, rules, os_user(), name=name, token=token, plan_named=plan_named)


def why_stale(desk: Desk, plan: WaitingPlan) -> str | None:
    """Why no approval of a plan counts any more, so that its run has to be started again; None while one does."""
    in_force = policy_in_force(desk.ledger)
    if plan.policy != (None if in_force is None else in_force.version):
        return "made under another policy than the one in force"
    is_of_before = plan.ledger != desk.ledger.look(identity_of_ledger)
    return "made before this ledger was restored" if is_of_before else None


def lacking(desk: Desk, plan: WaitingPlan) -> int:
    """How many approvals a plan that waits still lacks."""
    judged, _ = approvals.standing_of(desk.ledger, plan, rules_of(desk, plan))
    return max(0, plan.needed - len(judged.counted))


def note_of(desk: Desk, plan: WaitingPlan) -> str | None:
    """Return what is said of a waiting plan whose approvals are typed names."""
    return by_name_only(rules_of(desk, plan).people)


def newest(desk: Desk, run_key: str) -> WaitingPlan:
    """The newest plan of a run, whatever became of it. Raises `InputError` when there is none."""
    plan = desk.ledger.look(lambda connection: newest_plan(connection, desk.ledger, run_key))
    if plan is None:
        raise InputError(f"run {run_key} has no plan that waits for an approval (treasury approvals lists them)")
    return plan


def marks_of(desk: Desk, run_key: str) -> Marks:
    """Return what the results of a run say of its ledger and its approvals."""
    names = tuple(each.name for each in approved_by(desk.ledger, run_key))
    approvers = tuple(approvers_by_time(desk.ledger, run_key))
    stopped, people = why_above_bound(desk, run_key), governing(desk).people
    return Marks(is_rehearsal(desk.ledger), names, by_name_only(people), stopped, approvers, bool(people))


def dated_by(policy: Policy | None) -> Details:
    """Return what results say besides states of trades and calls: their value dates, by this policy's business days."""
    return Details() if policy is None else Details(day_of=policy.value_date)


def by_name_only(people: People) -> str | None:
    """Return what every plan, result and report says where typed names count as approvals."""
    return None if people else BY_NAME_ONLY


BY_NAME_ONLY = "approvals are by name only: the policy lists no people with keys"
