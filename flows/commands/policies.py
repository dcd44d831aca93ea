"""`treasury policy`: which policy is in force, who adopted it, and what another one would have held."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from flows.commands.approving import signing_key
from flows.commands.common import DONE, configured_desk
from treasury.errors import ConfigurationError, InputError
from treasury.ledger.approvals import waiting_plans
from treasury.ledger.in_force import Adopted, as_time
from treasury.ledger.policies import (
    adopt_policy,
    end_recovery,
    genuine_policy,
    is_policy_key,
    is_rehearsal,
    recover_policy,
    running_recovery,
)
from treasury.payments.deciding import check_recovered
from treasury.payments.desk import Desk
from treasury.payments.policy_check import check_history
from treasury.policy.business_days import without_bank_holidays
from treasury.policy.model import Policy
from treasury.policy.people import Right
from treasury.policy.policy_lines import changes_between, left_open, lines_of
from treasury.policy_file import read_policy
from treasury.settings import os_user
from treasury.texts import count_of

policy = App(name="policy", help="The policy in force: adopt one, show it, or check one against the last 90 days.")


@policy.command
def adopt(
    file: Path | None = None,
    /,
    *,
    by: str,
    recover: Annotated[bool, Parameter(negative=())] = False,
    cancel: Annotated[bool, Parameter(negative=())] = False,
    key: Path | None = None,
) -> int:
    """Put a policy in force: from then on it applies at every door, named or not.

    Changing the one in force takes the approvals that its [changes] table asks for.

    Parameters
    ----------
    file:
        The policy, TOML.
    by:
        Your name.
    recover:
        When the people who may change the policy are gone: it takes effect 72 hours from now, and until then nothing
        that moves money leaves.
    cancel:
        With --recover: end the recovery that runs.
    key:
        Your private key, where the policy in force lists people.

    """
    desk = configured_desk()
    desk.check_standing()  # an older ledger may have forgotten policies
    private = None if key is None else signing_key(key)
    if cancel:
        if not recover or file is not None:
            raise InputError("--cancel goes with --recover, and no file: it ends the recovery that runs")
        ended = end_recovery(desk.ledger, by=by, os_user=os_user(), key=private)
        print(f"the recovery that {ended.adopted_by} asked for is ended; the policy in force stays")
        return DONE
    if file is None:
        raise InputError("name the policy's file")
    wanted = read_policy(file)
    check_recovered(desk)
    if recover:
        found = recover_policy(desk.ledger, wanted, str(file), by=by, os_user=os_user(), now=_service_now(desk))
        print(
            f"{_named(found)} takes effect at {as_time(found.in_force_at)}; until then nothing that moves money leaves"
        )
        return DONE
    before, met = genuine_policy(desk.ledger), _met(desk, wanted, DAYS)
    for change in changes_between(None if before is None else before.policy, wanted):
        print(f"  {change}")
    for line in met:
        print(f"  {line}")
    adopted = adopt_policy(desk.ledger, wanted, str(file), by=by, os_user=os_user(), key=private, met=met)
    print(f"{_named(adopted)} is in force from now on")
    for line in _warnings(desk, wanted, before):
        print(f"warning: {line}")
    return DONE


def _warnings(desk: Desk, policy: Policy, before: Adopted | None) -> Iterator[str]:
    """Say what a policy that was just adopted leaves open."""
    yield from _calendar_warnings(policy)
    yield from left_open(policy)
    if policy.listed and not policy.changes.approvals:
        changers = policy.listed.with_right(Right.CHANGE_POLICY)
        named = f"each of {', '.join(changers)}" if len(changers) > 1 else changers[0]
        others = "" if len(changers) > 1 else ", and let another person change_policy, too"
        yield (
            f"{named} may change every limit of this policy alone; to have another person agree, write [changes] "
            f"approvals = 1{others}"
        )
    plans = [plan.run_key for plan in waiting_plans(desk.ledger) if not is_policy_key(plan.run_key)]
    if plans and (before is None or before.version != policy.version):
        yield (
            f"these plans waited for approvals under the policy before: {', '.join(plans)}; started again they are "
            "judged by this one, which may ask for fewer approvals, or none"
        )


def _calendar_warnings(policy: Policy) -> Iterator[str]:
    """Say of which countries bank holidays are not known."""
    if lacking := without_bank_holidays(policy.holidays):
        yield (
            f"holidays: of {', '.join(lacking)} public holidays are known, and no bank holidays: on some business days "
            "banks there may be closed"
        )


@policy.command
def show() -> int:
    """Show the policy in force, as TOML would hold it, and who adopted it."""
    ledger = configured_desk().ledger
    found, recovery = genuine_policy(ledger), running_recovery(ledger)
    if is_rehearsal(ledger):
        print("REHEARSAL: this ledger recorded payments without a policy in force")
    if recovery is not None:
        print(f"a recovery runs: {_named(recovery)} takes effect at {as_time(recovery.in_force_at)}")
    if found is None:
        print("no policy is in force: treasury policy adopt FILE --by NAME")
        return DONE
    print(f"{_named(found)}, adopted at {as_time(found.adopted_at)}")
    for line in lines_of(found.policy):
        print(line)
    return DONE


@policy.command
def check(file: Path, /, *, days: int = 90) -> int:
    """Say what a policy would have held or refused of what was sent; changes nothing.

    Parameters
    ----------
    file:
        The policy, TOML.
    days:
        How far back.

    """
    if days < 0:
        raise InputError("--days is a number of days, zero or more")
    policy = read_policy(file)
    *lines, last = _met(configured_desk(), policy, days, all_lines=True)
    for line in (*_calendar_warnings(policy), *left_open(policy), *lines):
        print(f"  {line}")
    print(last)
    return DONE


DAYS = 90
"""How far back a policy that is adopted is tried."""

MAX_MET = 5
"""Orders that a policy would have held or refused and that are named to whoever adopts or approves it."""


def _met(desk: Desk, policy: Policy, days: int, *, all_lines: bool = False) -> list[str]:
    """The orders of the last days that a policy would have held or refused, in words; the last line counts them."""
    found = check_history(desk.ledger, policy, days)
    named = found.lines if all_lines else found.lines[:MAX_MET]
    counted = (
        f"of {count_of(found.orders, 'order')} of the last {days} days it would have held or refused {len(found.lines)}"
    )
    if found.orders and found.not_judged:
        counted += f", by its amounts, days and currencies; not judged: {', '.join(found.not_judged)}"
    return [*named, counted]


def _named(found: Adopted) -> str:
    return f"policy {found.version[:12]} of {found.adopted_by}"


def _service_now(desk: Desk) -> int:
    """The service's time, Unix ms. Raises `ConfigurationError` when this machine's clock is off it."""
    desk.check_clock()
    now = desk.client.service_now()
    if now is None:
        skew = desk.client.read_clock()
        if skew is None:
            raise ConfigurationError("the service does not show its time, by which a recovery takes effect")
        now = desk.ledger.now() + int(skew * 1000)
    return now
