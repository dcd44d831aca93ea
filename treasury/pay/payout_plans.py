"""The plan of a payout run: made once from its sheet, kept in the ledger, and passed on by its id."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from decimal import Decimal
from itertools import chain
from pathlib import Path
from typing import Any

from treasury.approving.judging import HOUR_MS
from treasury.errors import InputError, InvalidSheet, RowProblem
from treasury.ledger.debits import recorded_debits
from treasury.ledger.funding_runs import is_fund_key
from treasury.ledger.intents import check_bound
from treasury.ledger.plans import KeptPlan, keep_plan, kept_plan, kept_plans, kept_rows
from treasury.ledger.policies import is_policy_key
from treasury.ledger.proposals import newest_plan
from treasury.ledger.snapshots import check_not_of_invoices
from treasury.money import canonical
from treasury.orders.rows import LeftOut, PayoutRow, Route
from treasury.pay.agreeing import check_limits, plan_as_shown, plan_to_execute, shown_and_signed
from treasury.pay.estimates import Fixed, with_estimates
from treasury.pay.funding_plans import with_recorded
from treasury.pay.remaining import Read, check_replaced, plan_without
from treasury.payments.approving import is_recorded
from treasury.payments.desk import Desk
from treasury.payments.execution import check_run_key
from treasury.payments.governing import governing
from treasury.planning.payout_planner import MadePlan, PayoutPlan, plan_payouts
from treasury.policy.judge import judge_service
from treasury.policy.limits import PayoutLimits
from treasury.policy.model import Policy
from treasury.policy_file import read_policy
from treasury.provider.service_rules import ServiceRules
from treasury.rebalance.rebalancing import is_key_of_day
from treasury.sheets.cells import MAX_BYTES
from treasury.sheets.headers import Mappings, read_mappings
from treasury.sheets.payments import PAYOUTS, SHEETS, PaymentSheet
from treasury.sheets.reading import Sheet

Rows = Sheet[PayoutRow]

FIXED_HOURS = 24
"""So long the estimates of a plan that nobody was asked about are taken by the next plan of its run."""


@dataclass(frozen=True)
class PayRequest:
    """A start of a payout run, as somebody asks for it."""

    file: Path
    run_key: str
    policy: Path | None = None
    """Names the policy in force; where none is in force, on a service of this machine, the one of this start."""
    sheet: str | None = None
    """Which one of a workbook."""
    add: bool = False
    """True: rows that the run does not have are added to it."""
    valid_rows_only: bool = False
    """True: rows with a problem are left out."""
    fund: bool = False
    """True: what the run lacks is converted before it is paid."""
    partly: bool = False
    """True: where not all rows are funded, those that are leave, in the order of the sheet."""
    kind: str = PAYOUTS.way.kind
    """The kind of its sheet: `payout`, `withdrawal` or `scan-to-pay`."""

    @property
    def pays(self) -> PaymentSheet:
        """How its sheet is laid out and read."""
        return SHEETS[self.kind]


def make_plan(
    desk: Desk, request: PayRequest, *, agreed: str | None = None, signed: str | None = None, keep: bool = True
) -> MadePlan:
    """Read a sheet, judge every row, and plan its payment under the policy that applies; sends nothing.

    `agreed`: the hash of a plan that was shown and agreed to; `signed`: its maker's token, which with `fund` names it
    as well. A run that is funded is planned with its conversions. `keep`: so that it can be carried out: a start that
    plans the same payments again takes the plan that is there. Raises `InvalidSheet`, also for rows that the service
    or the limits do not take, `LimitExceeded`, and `InputError` for another plan than was agreed to.
    """
    if keep:
        desk.check_standing()  # what was planned before a restore is not carried out after it
    if request.partly and request.fund:
        raise InputError("--partly pays what is funded, and --fund converts what is missing: choose one of them")
    governed = governing(desk, request.policy)
    check_says_of_payments(request, governed.policy, governed.version)
    payments = _payments(desk, request, governed.policy)
    check_replaced(desk, request.file, payments)
    if desk.ledger.run(request.run_key) is None:
        check_limits(request.file, payments)
    else:
        _check_unchanged(desk, payments, add=request.add)
        payments = _judged_as_a_run(desk, payments)
    if agreed is None and signed is not None and request.fund:
        agreed = shown_and_signed(desk, payments, signed, add=request.add)
    if agreed is not None:
        proposed = plan_as_shown(desk, payments, agreed, add=request.add)
        if proposed is not None and proposed.conversions and not request.fund:
            raise InputError(
                f"run {request.run_key}: what was agreed to converts first; nothing was sent: start it again with fund"
            )
    else:
        proposed = plan_to_execute(desk, payments, add=request.add, fund=request.fund, keep=keep)
    named = None if request.policy is None else str(request.policy)
    made = MadePlan("", payments, proposed, named, add=request.add, fund=request.fund)
    return keep_made(desk, made) if keep else made


def take_plan(desk: Desk, plan_id: str, run_key: str) -> MadePlan:
    """The plan of an id, as it was made. Raises `InputError` where it is kept no more, or is another run's."""
    found = desk.plans.get(plan_id) or _at_hand(desk, _read(desk, kept_plan(desk.ledger, plan_id)))
    if found.payments.run_key != run_key:
        raise InputError(
            f"plan {plan_id[:12]} is of run {found.payments.run_key}, not of run {run_key}; nothing was sent"
        )
    return found


PLANS_AT_HAND = 4
"""Plans that a process keeps, the newest ones."""


def _at_hand(desk: Desk, made: MadePlan) -> MadePlan:
    desk.plans[made.id] = made
    for old in list(desk.plans)[:-PLANS_AT_HAND]:
        desk.plans.pop(old, None)
    return made


def read_plan(
    file: Path,
    run_key: str,
    policy_file: Path | None = None,
    service: ServiceRules = ServiceRules(),
    sheet: str | None = None,
    *,
    valid_rows_only: bool = False,
    home: Path | None = None,
    kind: str = PAYOUTS.way.kind,
    notify_url: str | None = None,
) -> PayoutPlan:
    """Validate a beneficiaries file and plan its payment; touches neither ledger nor service.

    `sheet`: which one of a workbook. `valid_rows_only`: the others are left out. `home` has what people confirmed of
    their headers. Raises `InvalidSheet` (also for rows over the policy's limits, or that `service` does not take) and
    `LimitExceeded`.
    """
    policy = None if policy_file is None else read_policy(policy_file)
    request = PayRequest(file, run_key, policy_file, sheet, kind=kind)
    check_says_of_payments(request, policy, None)
    read = _reader(request, policy, home, notify_url, lambda rows: rows)
    plan = plan_without(str(file), read, service) if valid_rows_only else _all_rows(file, read, service)
    check_limits(file, plan, is_estimated=False)
    return plan


def check_says_of_payments(request: PayRequest, policy: Policy | None, version: str | None) -> None:
    """Raise `InputError` for a policy that is named for one start, and limits no payments of its kind."""
    table = request.pays.way.table
    if request.policy is not None and version is None and policy is not None and getattr(policy, table) is None:
        raise InputError(f"{request.policy}: the policy has no [{table}] table, so it limits nothing")


# --- rows of a sheet -----------------------------------------------------------------------------------------------


def _payments(desk: Desk, request: PayRequest, policy: Policy | None) -> PayoutPlan:
    check_not_of_invoices(desk.ledger, request.run_key)
    limits = PayoutLimits() if policy is None or policy.payouts is None else policy.payouts
    margin = limits.estimate_margin_percent
    fixed = _fixed_estimates(desk, request.run_key, policy)
    settings = desk.settings
    about = (request, policy, settings.home, settings.notify_url)
    read = _reader(*about, lambda rows: with_estimates(desk, rows, fixed, margin))
    if request.valid_rows_only:
        return plan_without(str(request.file), read, desk.account.rules, desk, add=request.add)
    return _all_rows(request.file, read, desk.account.rules)


def _all_rows(file: Path, read: Read, service: ServiceRules) -> PayoutPlan:
    plan = read(())
    if not_taken := judge_service(plan.rows, service):
        raise InvalidSheet(str(file), not_taken)
    return plan


def _reader(
    request: PayRequest,
    policy: Policy | None,
    home: Path | None,
    notify_url: str | None,
    estimated: Callable[[Rows], Rows],
) -> Read:
    mappings = Mappings() if home is None else read_mappings(home)
    if is_fund_key(request.run_key):
        raise InputError(
            f"{request.run_key} is a name for the conversions of a run: choose a run key that does not end so"
        )
    if is_key_of_day(request.run_key):  # the rebalancing of that day would take it for its own
        raise InputError(f"{request.run_key} is a name for a rebalancing: choose another run key")
    if is_policy_key(request.run_key):  # a plan of its own would end the approvals of a policy that waits
        raise InputError(f"{request.run_key} is a name for a change of the policy: choose another run key")

    def read(leaving: tuple[RowProblem, ...]) -> PayoutPlan:
        before = _digest(request.file)
        rows = request.pays.read(
            request.file, sheet=request.sheet, leaving=leaving, mappings=mappings, notify_url=notify_url
        )
        if _digest(request.file) != before:
            raise InputError(f"{request.file} changed while it was read; nothing was sent")
        run_key = check_run_key(request.run_key)
        left_out, mapped, rows = rows.left_out, rows.mapped, estimated(rows)
        return plan_payouts(run_key, rows, policy, {}, left_out, mapped, partly=request.partly)

    return read


def _fixed_estimates(desk: Desk, run_key: str, policy: Policy | None) -> Fixed:
    """Return what gives the estimates that earlier plans of a run fixed.

    Those of a run that began count, and under the same policy those of one that was proposed, or planned a short while
    ago.
    """
    began, since = desk.ledger.run(run_key) is not None, desk.ledger.now() - FIXED_HOURS * HOUR_MS
    is_proposed = desk.ledger.look(lambda connection: newest_plan(connection, desk.ledger, run_key)) is not None
    known: dict[str, tuple[str, str]] = {}
    for plan in kept_plans(desk.ledger, run_key):
        is_same = plan.content["policy"] == _policy_as_kept(policy)
        if began or (is_same and (is_proposed or plan.content["made_at"] > since)):
            known.update(plan.content["estimates"])

    def fixed(row: PayoutRow) -> Decimal | None:
        meaning, estimate = known.get(row.row_ref, ("", ""))
        return Decimal(estimate) if meaning and meaning == desk.ledger.key.keyed_hash(row.bound_content) else None

    return fixed


def _policy_as_kept(policy: Policy | None) -> Any:
    return None if policy is None else policy.model_dump(mode="json")


def _digest(file: Path) -> str:
    """The hash of a file's content; empty for one that cannot be read, of which reading its rows says why."""
    try:
        if not file.is_file() or file.stat().st_size > MAX_BYTES:
            return ""
        with file.open("rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest()
    except OSError:
        return ""


def _check_unchanged(desk: Desk, plan: PayoutPlan, *, add: bool) -> None:
    """Raise `RunKeyConflict` for rows of a run that began and changed since, or that it does not have."""
    recorded = recorded_debits(desk.ledger, plan.run_key).rows if add else None
    check_bound(
        desk.ledger,
        plan.run_key,
        (each for each in plan.intents if recorded is None or each.row_ref in recorded),
    )


def _judged_as_a_run(desk: Desk, plan: PayoutPlan) -> PayoutPlan:
    """The plan of a run that began under another policy with all that its run recorded: a sheet may lack what left."""
    run = desk.ledger.run(plan.run_key)
    return plan if run is None or is_recorded(desk, governing(desk), plan.run_key) else with_recorded(desk, plan)


# --- keeping -------------------------------------------------------------------------------------------------------


def keep_made(desk: Desk, made: MadePlan) -> MadePlan:
    """Keep a plan in the ledger, and return it with its id; the newest one of its run where that is the same plan."""
    plan = made.payments
    content: dict[str, Any] = {
        "rows": len(plan.rows) + len(plan.left_out),
        "payments_sha256": plan.sha256,
        "agreed_sha256": made.agreed,
        "policy_file": made.policy_file,
        "policy": _policy_as_kept(plan.policy),
        "estimates": {
            row.row_ref: (desk.ledger.key.keyed_hash(row.bound_content), canonical(row.estimate))
            for row in plan.rows
            if row.estimate is not None
        },
        "add": made.add,
        "fund": made.fund,
        "partly": plan.partly,
        "left_out": desk.ledger.key.keyed_hash([asdict(each) for each in plan.left_out]),
        "mapped": dict(plan.mapped),
        "notes": list(plan.rows.notes) if isinstance(plan.rows, Sheet) else [],
    }
    said = json.loads(json.dumps(content))
    kept = keep_plan(
        desk.ledger,
        plan.run_key,
        said,
        lambda: chain(map(_as_list, plan.rows), map(asdict, plan.left_out)),
        lambda newest: all(newest.content[name] == each for name, each in said.items()),
    )
    return _at_hand(desk, replace(made, id=kept.id))


def _read(desk: Desk, kept: KeptPlan) -> MadePlan:
    said, rows, left_out = kept.content, Sheet[PayoutRow](), []
    for each in kept_rows(desk.ledger, kept):
        if isinstance(each, Mapping):
            problems = tuple(RowProblem(**problem) for problem in each["problems"])
            left_out.append(LeftOut(each["line"], each["row_ref"], each["cells"], problems))
        else:
            rows.append(_as_row(each))
    rows.left_out = tuple(left_out)
    rows.mapped, rows.notes = said["mapped"], tuple(said["notes"])
    policy = None if said["policy"] is None else Policy.model_validate(said["policy"])
    plan = plan_payouts(kept.run_key, rows, policy, {}, rows.left_out, rows.mapped, partly=said["partly"])
    if plan.sha256 != said["payments_sha256"]:
        raise InputError(f"run {kept.run_key}: its plan was changed in the ledger; nothing was sent: start it again")
    plan = _judged_as_a_run(desk, plan)
    if said["agreed_sha256"] is None:
        proposed = plan_to_execute(desk, plan, add=said["add"])
    else:
        proposed = plan_as_shown(desk, plan, said["agreed_sha256"], add=said["add"])
    return MadePlan(kept.id, plan, proposed, said["policy_file"], add=said["add"], fund=said["fund"])


_FIELDS = tuple(each.name for each in fields(PayoutRow))


def _as_list(row: PayoutRow) -> list[Any]:
    values: Mapping[str, Any] = {name: getattr(row, name) for name in _FIELDS}
    return [str(each) if isinstance(each, Decimal) else each for each in values.values()]


def _as_row(values: list[Any]) -> PayoutRow:
    said = dict(zip(_FIELDS, values, strict=True))
    most = said["max_pay_amount"]
    estimate = said["estimate"]
    said |= {"route": Route(said["route"]), "max_pay_amount": None if most is None else Decimal(most)}
    said["estimate"] = None if estimate is None else Decimal(estimate)
    return PayoutRow(**said)
