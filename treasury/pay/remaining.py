"""Rows of a sheet that are not paid with it: those that ended unpaid, and those that are left out as invalid."""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from treasury.errors import InputError, InvalidRows, InvalidSheet, RowProblem
from treasury.files import copy_file, write_json
from treasury.ledger.debits import recorded_debits
from treasury.ledger.replacements import KEPT_DAYS, find_replaced, remaining_orders
from treasury.orders.rows import WAYS, LeftOut, PayoutRow, Route
from treasury.payments.desk import Desk
from treasury.payments.execution import check_run_key
from treasury.payments.offers import OfferQuestions, judge_by_offers
from treasury.planning.payout_planner import PayoutPlan
from treasury.policy.judge import judge_rows, judge_service, judge_unbounded
from treasury.provider.service_rules import ServiceRules
from treasury.reports.starts import is_changed, start_folder
from treasury.sheets.corrections import FILES, Remaining, write_remaining, write_remaining_csv
from treasury.sheets.payments import PAYOUTS, SHEETS

ROUTES: Mapping[str, Route] = {way.operation: route for route, way in WAYS.items()}


def check_replaced(desk: Desk, file: Path, plan: PayoutPlan) -> None:
    """Raise `InvalidSheet` for rows that replace what cannot be replaced."""
    if problems := not_replaceable(desk, plan):
        raise InvalidSheet(str(file), problems)


def not_replaceable(desk: Desk, plan: PayoutPlan) -> list[RowProblem]:
    """Problems of rows that replace what cannot be replaced."""
    wanted = {row.row_ref: row.replaces for row in plan.rows if row.replaces is not None}
    if not wanted:
        return []
    found = desk.ledger.look(lambda connection: find_replaced(connection, desk.ledger, plan.run_key, wanted)[1])
    return [
        RowProblem(row.line, row.row_ref, "replaces", found[row.row_ref], row.replaces, code="not_replaceable")
        for row in plan.rows
        if row.row_ref in found
    ]


def keep_remaining(desk: Desk, run_key: str, folder: Path, kind: str, left_out: Sequence[LeftOut] = ()) -> list[Path]:
    """Write the sheet of what remains of a run into a folder, and into the one of this start; returns its paths.

    `kind`: of the run; `left_out`: rows that are not in the run, which follow. Nothing is written when nothing remains,
    unless an earlier start wrote it. A sheet that somebody changed since is kept in the folder of this start.
    """
    rows, own = remaining_of(desk, run_key), start_folder(folder)
    if not rows and not left_out and not (folder / FILES[0]).exists():
        return []
    for name in FILES:
        if (folder / name).exists() and is_changed(folder / name):
            copy_file(folder / name, own / f"changed-{name}")
    files = write_remaining(folder, SHEETS[kind].layout, rows, left_out)
    for written in files:
        copy_file(written, own / written.name)
    return files


LEFT_OUT = "left-out.json"
"""Rows that starts of a run left out and that it does not have yet. Personal."""


def keep_left_out_rows(
    desk: Desk, run_key: str, folder: Path, left_out: Sequence[LeftOut], *, add: bool
) -> list[LeftOut]:
    """Rows that this start left out, and those of earlier ones that neither it nor the run has; kept in the folder.

    One without a reference may be among those that are added.
    """
    file = folder / LEFT_OUT
    known = {each.row_ref for each in left_out} | set(recorded_debits(desk.ledger, run_key).rows)
    known |= {""} if add else set()
    rows = [*left_out, *(each for each in _left_out_before(file) if each.row_ref not in known)]
    if rows or file.exists():
        write_json(file, [asdict(each) for each in rows])
    return rows


def _left_out_before(file: Path) -> list[LeftOut]:
    if not file.exists():
        return []
    return [
        LeftOut(each["line"], each["row_ref"], each["cells"], tuple(RowProblem(**one) for one in each["problems"]))
        for each in json.loads(file.read_text())
    ]


def remaining_of(desk: Desk, run_key: str) -> list[Remaining]:
    """Return the rows of a run that ended unpaid and may be paid again.

    One that was paid and came back, that is older than `KEPT_DAYS`, or that was changed by hand, has no content: a
    person copies it from the sheet that it was paid from.
    """
    found = []
    for order in remaining_orders(desk.ledger, run_key):
        content = desk.ledger.kept_payload(order)
        why = NOT_KEPT if content is None else order.reason or ""
        named = order.row_ref, order.request_id, ROUTES[order.operation]
        found.append(Remaining(*named, content, order.state.outcome, why))
    return found


NOT_KEPT = "copy its other columns from the sheet that it was paid from: they are kept here no more"


def write_failed_of(
    desk: Desk, earlier: str, run_key: str, folder: Path, kind: str = PAYOUTS.way.kind
) -> tuple[Path, list[str]]:
    """Write the sheet of a run that pays what ended unpaid of an earlier one; return its path, and the rows that it
    lacks because their content is kept no more.

    A run that began keeps the sheet that it has. Raises `InputError` when there is nothing to pay.
    """
    file = folder / f"only-failed-of-{check_run_key(earlier)}.csv"
    run = desk.ledger.run(earlier)
    if run is not None and run.kind in SHEETS and run.kind != kind:
        command = SHEETS[run.kind].way.command
        raise InputError(f"run {earlier} paid another sheet: treasury {command} --only-failed-of {earlier}")
    if run is None or run.kind != kind:
        raise InputError(f"there is no {kind} run {earlier} in this ledger: treasury runs lists them")
    if desk.ledger.run(run_key) is not None:
        if not file.exists():
            raise InputError(f"run {run_key} began with another sheet than {file}: start it again with that one")
        return file, []
    rows = remaining_of(desk, earlier)
    kept, others = [row for row in rows if row.payload is not None], [row for row in rows if row.payload is None]
    if not rows:
        raise InputError(f"nothing of run {earlier} failed, or was closed or rejected, that was not replaced already")
    if not kept:
        named = ", ".join(f"{row.row_ref} (replaces {row.replaces})" for row in others[:MAX_NAMED])
        more = f", and {len(others) - MAX_NAMED} more" if len(others) > MAX_NAMED else ""
        raise InputError(
            f"the ledger keeps the content of none of what ended unpaid of run {earlier} (a payment that came back "
            f"after it had arrived, or {KEPT_DAYS} days): copy {named}{more} from the sheet that it was paid from, "
            "with its request id in the column replaces"
        )
    write_remaining_csv(file, SHEETS[kind].layout, kept)
    return file, [row.row_ref for row in others]


MAX_NAMED = 10


Read = Callable[[tuple[RowProblem, ...]], PayoutPlan]
"""Plans the rows of a sheet without those that have a problem in the argument."""


def plan_without(
    file: str, read: Read, rules: ServiceRules, desk: Desk | None = None, *, add: bool = False
) -> PayoutPlan:
    """The plan of the valid rows of a sheet. Without a desk nothing is asked of the ledger and the service.

    Raises `InvalidSheet` when more is wrong than some rows, when none is valid, and for a wrong row of a run that has
    it already: it may have been paid.
    """
    try:
        problems: list[RowProblem] = []
        plan = read(())
    except InvalidRows as error:
        problems = list(error.problems)
        plan = read(tuple(problems))
    recorded: Collection[str] | None = None
    if desk is not None and desk.ledger.run(plan.run_key) is not None:
        recorded = recorded_debits(desk.ledger, plan.run_key).rows
    if more := _refused(plan, rules, desk, recorded, add=add):
        problems += more
        plan = read(tuple(problems))
    in_run = [
        RowProblem(each.line, each.row_ref, "row", f"is in the run already, and is wrong now: {each.problem}")
        for each in plan.left_out
        if each.row_ref in (recorded or ())
    ]
    if in_run or not plan.rows:
        raise InvalidSheet(file, in_run or problems)
    return plan


def _refused(
    plan: PayoutPlan, rules: ServiceRules, desk: Desk | None, recorded: Collection[str] | None, *, add: bool
) -> list[RowProblem]:
    """Problems of rows that can be read: what the service, the limits, the ledger or this start refuses."""
    found = judge_service(plan.rows, rules)
    new = _New(plan.rows, recorded or ())
    found += judge_rows(new, plan.limits)
    if desk is not None:
        found += judge_unbounded(new, plan.limits)
        found += not_replaceable(desk, plan)
        found += judge_by_offers(desk, new, OfferQuestions(desk))[1]
    if recorded is not None and not add:
        rule = "is not in the run, which began without it: --add adds it"
        found += [RowProblem(row.line, row.row_ref, "row", rule, code="not_in_run") for row in new]
    return found


@dataclass(frozen=True)
class _New(Iterable[PayoutRow]):
    """The rows that a run does not have yet; gone through again, they are unpacked again."""

    rows: Iterable[PayoutRow]
    recorded: Collection[str]

    def __iter__(self) -> Iterator[PayoutRow]:
        return (row for row in self.rows if row.row_ref not in self.recorded)
