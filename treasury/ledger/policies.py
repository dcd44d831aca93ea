"""The policy in force: adopted into the ledger by a named person, so that it applies at every door.

A policy that waits for approvals has a plan of its own in the ledger (`policy_key`), which people approve as they
approve a run. A recovery is for a merchant whose people are gone: it takes effect `RECOVERY_HOURS` after it was asked
for, and until then nothing that moves money leaves.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import replace

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from pydantic import ValidationError
from sqlalchemy import Connection, select, update

from treasury.approving.judging import HOUR_MS, ApprovalRules
from treasury.approving.tokens import Binding, Verb, public_text, sign
from treasury.concurrency.crash_points import crash_point
from treasury.errors import ConfigurationError, InputError, PolicyChanged, RecoveryRuns
from treasury.ledger import schema
from treasury.ledger.approvals import propose_plan
from treasury.ledger.approved_plans import check_approved
from treasury.ledger.database import group_of, serialize
from treasury.ledger.in_force import Adopted, as_time, check_genuine, check_no_recovery, newest_policy, recovery_at
from treasury.ledger.ledger import Ledger
from treasury.ledger.migrations import meta_value, set_meta
from treasury.ledger.proposals import check_not_cancelled
from treasury.ledger.seals import add_sealed, is_sealed, seal
from treasury.policy.model import Policy
from treasury.policy.people import Maker, Right, names_somebody, same_person, words_of
from treasury.policy.policy_lines import changes_between, lines_of
from treasury.provider.address import is_loopback

RECOVERY_HOURS = 72
"""Hours by the service's clock until a recovery takes effect."""

POLICY_KEY = "policy-"
"""The beginning of the key of a policy that waits; some digits of its version follow."""

REHEARSAL = "rehearsal"
"""Row of `meta`: money moved, or was to move, without a policy in force; only on a service of this machine."""


def policy_key(version: str) -> str:
    """Return what a policy that waits for approvals is approved under, as a run is under its run key."""
    return f"{POLICY_KEY}{version[:12]}"


def is_policy_key(run_key: str) -> bool:
    """Tell whether a run key is the key of a policy; `policy-holders` is a run like any other."""
    return re.fullmatch(POLICY_KEY + "[0-9a-f]{12}", run_key) is not None


def policy_in_force(ledger: Ledger) -> Adopted | None:
    """The policy in force; None when none was ever adopted. One that was changed or added by hand counts as none."""
    return ledger.look(lambda connection: newest_policy(connection, ledger.key, ledger.now()))[0]


def genuine_policy(ledger: Ledger) -> Adopted | None:
    """The policy in force. Raises `ConfigurationError` while the newest one is changed or added by hand."""
    return ledger.look(lambda connection: check_genuine(connection, ledger.key, ledger.now()))


def running_recovery(ledger: Ledger) -> Adopted | None:
    """A recovery that has not taken effect yet."""
    return ledger.look(lambda connection: recovery_at(connection, ledger.key, ledger.now()))


def check_policy(connection: Connection, ledger: Ledger, version: str | None) -> None:
    """Check, in the transaction that records payments, that this version is in force; None: that none is.

    Raises `PolicyChanged` when it is not, `RecoveryRuns`, and `ConfigurationError` when none is and the service is not
    on this machine. Without one in force the ledger is marked as a rehearsal for ever.
    """
    check_no_recovery(connection, ledger.key, ledger.now())
    found = check_genuine(connection, ledger.key, ledger.now())
    if found is not None and found.version != version:
        raise PolicyChanged("the policy in force changed meanwhile; nothing was sent: start again")
    if found is None:
        check_rehearsal(ledger.account)
        if meta_value(connection, REHEARSAL) is None:
            set_meta(connection, {REHEARSAL: "1"})


def check_rehearsal(account: str) -> None:
    """Raise `ConfigurationError` for an account whose service is not on this machine: it needs a policy in force."""
    if not is_loopback(account.partition("|")[0]):
        raise ConfigurationError(
            "no policy is in force, so nothing that moves money leaves; nothing was sent: "
            "treasury policy adopt FILE --by NAME"
        )


def is_rehearsal(ledger: Ledger) -> bool:
    """Tell whether payments of this ledger were recorded without a policy in force."""
    return ledger.look(lambda connection: meta_value(connection, REHEARSAL)) is not None


def change_rules(before: Adopted | None) -> ApprovalRules:
    """Return what another policy than this one is approved by."""
    if before is None:
        return ApprovalRules(right=Right.CHANGE_POLICY)
    policy = before.policy
    rules = ApprovalRules(policy.changes.approvals, policy.listed, policy.approval_hours, Right.CHANGE_POLICY)
    return rules if policy.people else replace(rules, names=policy.changes.people)


def adopt_policy(
    ledger: Ledger,
    policy: Policy,
    source: str,
    *,
    by: str,
    os_user: str,
    key: Ed25519PrivateKey | None = None,
    met: Sequence[str] = (),
) -> Adopted:
    """Put a policy in force on a person's word; `source` is the name of its file, `key` what the person signs with.

    `met`: what of the past it would have held or refused, for those who approve it. Raises `InputError`,
    `ApprovalNeeded` while it lacks approvals, and `ConfigurationError` while one was changed or added by hand.
    """
    if not policy.limits_money and policy.no_limits is None:
        raise InputError(
            f"{source} limits nothing that moves money (no [payouts], [withdrawals] or [conversions]): if that is "
            'meant, say why in it: no_limits = "..."'
        )
    _check_changeable(policy, source)
    before = genuine_policy(ledger)
    asks: tuple[str, ApprovalRules] | None = None
    maker = Maker(_name(by), os_user) if before is None else _changer(before.policy, by, os_user, key)
    rules = change_rules(before)
    if before is not None and before.version != policy.version and rules.asked:
        run_key = policy_key(policy.version)
        asks = (run_key, rules)
        token = None
        if key is not None:
            binding = Binding(ledger.account, run_key, policy.version, before.version)
            until = ledger.now() + rules.hours * HOUR_MS
            token = sign(key, Verb.PROPOSE, run_key, binding.code, until)
        said = {"changes": changes_between(before.policy, policy), "met": list(met), "policy": lines_of(policy)}
        shown = {"kind": "policy", "run_key": run_key, "why": [], **said}
        version, since = before.version, before.in_force_at  # what brought it here brings nothing here again
        propose_plan(
            ledger, run_key, policy.version, maker, rules, policy=version, shown=shown, token=token, since=since
        )
    return _record(ledger, policy, source, maker.name, os_user, in_force_at=ledger.now(), before=before, asks=asks)


def _check_changeable(policy: Policy, source: str) -> None:
    """Raise `InputError` for a policy under which nobody could ever change it again, also for one made by a script."""
    try:
        why = Policy.model_validate(policy.model_dump(mode="json")).why_never_changed
    except ValidationError as error:
        why = "; ".join(str(each["msg"]).removeprefix("Value error, ") for each in error.errors())
    if why is not None:
        raise InputError(f"{source}: {why}")


def _changer(policy: Policy, by: str, os_user: str, key: Ed25519PrivateKey | None) -> Maker:
    """Who changes this policy, or ends a recovery. Raises `InputError` when it does not let them."""
    person, listed = _name(by), policy.listed
    if not listed:
        if not policy.changes.allows(person):
            may = ", ".join(policy.changes.people or ())
            raise InputError(f"the policy in force does not let {person} change it: {may} may")
        return Maker(person, os_user)
    may = ", ".join(listed.with_right(Right.CHANGE_POLICY))
    if key is None:
        raise InputError(
            f"the policy in force lists people with keys, so a change of it is signed: --key FILE ({may} may)"
        )
    owner = listed.with_key(public_text(key))
    if owner is None:
        raise InputError(f"the policy in force does not list this key; {may} may change it")
    if not same_person(owner, person):
        raise InputError(f"this key is {owner}'s, not {person}'s")
    if not listed.may(owner, Right.CHANGE_POLICY):
        raise InputError(f"the policy in force does not let {owner} change it: {may} may")
    return Maker(owner, os_user, is_listed=True, is_signed=True)


def recover_policy(ledger: Ledger, policy: Policy, source: str, *, by: str, os_user: str, now: int) -> Adopted:
    """Let a policy take effect after `RECOVERY_HOURS`, whatever the one in force asks; `now` by the service's clock.

    Raises `RecoveryRuns` while another one does.
    """
    _check_changeable(policy, source)
    if (running := running_recovery(ledger)) is not None:
        raise RecoveryRuns(running.adopted_by, as_time(running.in_force_at))
    at = now + RECOVERY_HOURS * HOUR_MS
    return _record(ledger, policy, source, _name(by), os_user, in_force_at=at, before=None, recovery=True)


def end_recovery(ledger: Ledger, *, by: str, os_user: str, key: Ed25519PrivateKey | None = None) -> Adopted:
    """End a recovery that runs, as somebody may whom the policy in force lets change policies. Raises `InputError`."""
    running, before = running_recovery(ledger), policy_in_force(ledger)
    if running is None:
        raise InputError("no recovery runs")
    person = _name(by) if before is None else _changer(before.policy, by, os_user, key).name
    table = schema.policies

    def work(connection: Connection) -> None:
        under_it = table.c.in_force_at > running.in_force_at  # adopted by a clock that was ahead
        ended = ((table.c.id == running.id) | under_it) & table.c.ended_at.is_(None)
        for row in connection.execute(select(table).where(ended)).fetchall():
            if not is_sealed(ledger.key, table, row):
                continue
            values = {"ended_at": ledger.now(), "ended_by": person}
            checksum = seal(ledger.key, table, {**dict(row._mapping), **values})
            connection.execute(update(table).where(table.c.id == row.id).values(**values, checksum=checksum))

    ledger.write(work)
    return running


def _record(
    ledger: Ledger,
    policy: Policy,
    source: str,
    person: str,
    os_user: str,
    *,
    in_force_at: int,
    before: Adopted | None,
    recovery: bool = False,
    asks: tuple[str, ApprovalRules] | None = None,
) -> Adopted:
    """Record a policy; `asks`: the key of its plan, and what that is approved by, until now."""
    now = ledger.now()
    row = {
        "version": policy.version,
        "source": source,
        "adopted_by": person,
        "os_user": os_user,
        "adopted_at": now,
        "content": json.dumps(policy.model_dump(mode="json")),
        "recovery": recovery,
    }

    def work(connection: Connection) -> tuple[int, int]:
        serialize(connection)
        found = newest_policy(connection, ledger.key, ledger.now())[0]
        if recovery:
            check_no_recovery(connection, ledger.key, ledger.now())
        else:
            check_genuine(connection, ledger.key, ledger.now())
            if (None if found is None else found.id) != (None if before is None else before.id):
                raise PolicyChanged("another policy was adopted meanwhile: look at it with treasury policy show")
        if asks is not None:
            run_key, rules = asks
            check_not_cancelled(connection, run_key)
            check_approved(connection, ledger, run_key, policy.version, None if found is None else found.version, rules)
        group_of(connection).not_stopped = None  # sends that share this commit come after it
        group_of(connection).decide()
        at = in_force_at if found is None else max(in_force_at, found.in_force_at + 1)  # whatever a clock said then
        return add_sealed(connection, ledger.key, schema.policies, {**row, "in_force_at": at}), at

    crash_point("policy.before")
    number, at = ledger.write(work)
    crash_point("policy.committed")
    return Adopted(number, policy.version, policy, person, now, at, recovery)


def _name(by: str) -> str:
    person = words_of(by)
    if not names_somebody(person):
        raise InputError("a policy needs the name of the person who adopts it: --by NAME")
    return person
