"""`treasury keys`, `approvals` and `approve`: who says yes to which plan. None of them sends anything."""

import re
import sys
from getpass import getpass
from pathlib import Path
from typing import Annotated

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cyclopts import App, Parameter

from flows.commands.common import DONE, WAITING, configured_desk
from flows.commands.resuming import resume_suspended
from treasury.approving.tokens import is_code, is_locked, make_key, public_text, read_key, read_token
from treasury.errors import InputError
from treasury.ledger.approvals import standing_of, waiting_plan, waiting_plans
from treasury.ledger.in_force import as_time
from treasury.ledger.policies import is_policy_key
from treasury.ledger.proposals import WaitingPlan, newest_plan
from treasury.payments import approving
from treasury.payments.desk import Desk
from treasury.policy.people import APPROVAL_HOURS
from treasury.reports.plan import as_lines, leaves_of, waiting_page, write_plan
from treasury.settings import os_user, read_settings
from treasury.texts import count_of

keys = App(name="keys", help="Keys of people who approve: make a pair, or another one in its place.")

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,60}")


@keys.command
def new(name: str, /, *, out: Path | None = None, passphrase: Annotated[bool, Parameter(negative=())] = False) -> int:
    """Make a pair of keys: the private half in a file for its owner alone, the public half for the policy.

    Parameters
    ----------
    name:
        The person, as the policy calls them.
    out:
        The file; keys/NAME.key in the home when left out. One that exists is never overwritten.
    passphrase:
        Ask for a passphrase that the private key is locked with.

    """
    return _new_key(name, out or _key_file(name), passphrase=passphrase)


@keys.command
def rotate(name: str, /, *, passphrase: Annotated[bool, Parameter(negative=())] = False) -> int:
    """Make another pair for a person. The old one counts until the policy in force no longer lists it.

    Parameters
    ----------
    name:
        The person, as the policy calls them.
    passphrase:
        Ask for a passphrase that the new private key is locked with.

    """
    first = _key_file(name)
    numbered = (first.with_name(f"{name}-{number}.key") for number in range(2, 1_000))
    code = _new_key(name, next(file for file in numbered if not file.exists()), passphrase=passphrase)
    print("adopt a policy that lists the new key instead of the old one: from then on the old one approves nothing,")
    print("and what it approved and has not begun is approved no more")
    return code


def _key_file(name: str) -> Path:
    if not _NAME.fullmatch(name):
        raise InputError("a name for a key has letters, digits, dots, dashes and underscores")
    return read_settings().home / "keys" / f"{name}.key"


def _new_key(name: str, file: Path, *, passphrase: bool) -> int:
    public = make_key(file, _ask_passphrase("a new passphrase") if passphrase else None)
    print(f"  {file}")
    print("put this into the policy, and adopt it; the file stays with this person:")
    print(f"[people.{name}]")
    print(f'keys = ["{public}"]')
    print(f'os_users = ["{os_user()}"]')
    print('may = ["make", "approve"]')
    return DONE


def _ask_passphrase(what: str) -> str:
    """A passphrase from the terminal, or the next line of the input."""
    said = getpass(f"{what}: ") if sys.stdin.isatty() else sys.stdin.readline().rstrip("\n")
    if not said:
        raise InputError(f"{what} is needed: it was empty")
    return said


def signing_key(file: Path) -> Ed25519PrivateKey:
    """The private key of a file; asks for its passphrase where it has one."""
    return read_key(file, _ask_passphrase(f"passphrase of {file}") if is_locked(file) else None)


def approvals() -> int:
    """List the plans that wait: their key, maker, payments, totals, since when, and what they need."""
    desk = configured_desk()
    plans = waiting_plans(desk.ledger)
    for plan in plans:
        judged, _ = standing_of(desk.ledger, plan, approving.rules_of(desk, plan))
        shown = plan.shown or {}
        totals = [f"{total} {currency}" for currency, total in leaves_of(shown).items()]
        payments = count_of(shown["payments"], "payment") if "payments" in shown else "a policy"
        said = f"approved by {', '.join(judged.counted)}" if judged.counted else "approved by nobody yet"
        parts = [plan.run_key, f"made by {plan.maker.name}", payments, *totals, f"since {as_time(plan.proposed_at)}"]
        if (stale := approving.why_stale(desk, plan)) is not None:
            said = f"{stale}: start the run again"
        print("  ".join([*parts, f"needs {count_of(plan.needed, 'approval')}", said]))
    print(f"waiting: {count_of(len(plans), 'plan')} (treasury show KEY shows one)")
    return DONE


def show_waiting(desk: Desk, plan: WaitingPlan) -> None:
    """Show a plan that waits as its approvers see it, and write it as a page and a workbook."""
    judged, decisions = standing_of(desk.ledger, plan, approving.rules_of(desk, plan))
    note = approving.note_of(desk, plan)
    for line in as_lines(waiting_page(plan, judged, note)):
        print(line)
    for each in decisions:
        why = f": {each.why}" if each.why else ""
        print(f"  {as_time(each.at)}  {each.verb} by {each.name} ({each.os_user}){why}")
    for file in write_waiting(desk, plan, desk.settings.run_folder(plan.run_key)):
        print(f"  {file}")
    lacks = max(0, plan.needed - len(judged.counted))
    said = f"waiting for {count_of(lacks, 'more approval')}" if lacks else "it has the approvals it needs"
    stale = approving.why_stale(desk, plan)
    print(said if stale is None else f"it was {stale}: start the run again")


def write_waiting(desk: Desk, plan: WaitingPlan, folder: Path) -> list[Path]:
    """Write a plan that waits as a page and a workbook; returns their paths."""
    judged, _ = standing_of(desk.ledger, plan, approving.rules_of(desk, plan))
    return write_plan(folder, waiting_page(plan, judged, approving.note_of(desk, plan)))


def approve(
    key: str,
    /,
    *,
    by: str = "",
    plan: str | None = None,
    key_file: Annotated[Path | None, Parameter(name="--key")] = None,
    token: str | None = None,
    print_token: Annotated[bool, Parameter(name="--print", negative=())] = False,
    hours: int = APPROVAL_HOURS,
) -> int:
    """Approve the plan of a run that waits: with your key, or with your name where the policy lists no people.

    A run of it that is suspended in Prefect goes on once it has the approvals it needs.

    An approval is bound to this proposal: a changed row, bound or policy, a newer proposal or a rejection ends it.

    Parameters
    ----------
    key:
        The run key, as treasury approvals lists it.
    by:
        Your name, where the policy in force lists no people with keys.
    plan:
        The plan that you saw: the code or hash that treasury show KEY prints. On a terminal the plan is shown instead.
    key_file:
        Your private key.
    token:
        A token that --print made on another machine.
    print_token:
        Print a token and record nothing: it is recorded by --token, or in the form of the run that waits in Prefect.
        With the code of the plan it needs neither ledger nor account.
    hours:
        How long the token counts, at most.

    """
    if not 1 <= hours <= 24 * 30:
        raise InputError("--hours is a number from 1 to 720")
    if print_token:
        return _print_token(key, plan, key_file, hours)
    desk = configured_desk()
    if plan is None and token is None:
        plan = _agree_to(desk, key, signed=key_file is not None)
    private = None if key_file is None else signing_key(key_file)
    given = None if token is None else read_token(token)
    done = approving.approve(desk, key, name=by, token=given, key=private, plan_named=plan)
    print(f"plan {done.plan.sha256[:12]} of run {key} is approved by {', '.join(done.judged.counted)}")
    if done.lacks:
        print(f"waiting for {count_of(done.lacks, 'more approval')}")
        return WAITING
    again = "adopt the policy again" if is_policy_key(key) else "start the run again"
    if resume_suspended(done.plan):
        again = "its run goes on"
    print(f"it has the approvals it needs; {again}")
    return DONE


def _agree_to(desk: Desk, run_key: str, *, signed: bool) -> str | None:
    """Show the plan that waits on a terminal and ask; elsewhere a key signs only what is named."""
    waiting = desk.ledger.look(lambda connection: newest_plan(connection, desk.ledger, run_key))
    if waiting is None or not sys.stdin.isatty():
        if signed:
            code = approving.newest(desk, run_key).code
            raise InputError(f"name the plan that you saw: --plan {code} (treasury show {run_key} shows it)")
        return None
    if waiting.shown is None:
        raise InputError(
            f"the payments of run {run_key} were recorded, and its plan is not shown any more: start the run again; "
            "where it needs new approvals, that start shows the plan; nothing was approved"
        )
    show_waiting(desk, waiting)
    if input("Approve this plan? [y/N] ").strip().lower() not in ("y", "yes"):
        raise InputError("not approved; nothing was recorded (treasury reject says no)")
    return waiting.code


def _print_token(run_key: str, plan: str | None, key_file: Path | None, hours: int) -> int:
    if key_file is None or plan is None:
        raise InputError(
            "a token needs --key FILE and --plan CODE, as treasury show KEY prints it where the plan waits"
        )
    private, settings = signing_key(key_file), read_settings()
    if not is_code(plan):
        waiting = waiting_plan(configured_desk().ledger, run_key) if settings.has_account else None
        if waiting is None or not waiting.is_named(plan):
            raise InputError(
                f"{plan[:14]} is no code of a plan that is known here: copy the whole code (NUMBER-HASH) that treasury "
                "show prints where the plan waits"
            )
        plan = waiting.code
    print(approving.print_approval(private, run_key, plan, hours))
    print(f"signed with {public_text(private)}", file=sys.stderr)
    return DONE
