"""Which rows of a sheet are left out, so that the valid ones are paid."""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass

from treasury.errors import InvalidRows, InvalidSheet, RowProblem
from treasury.ledger.in_flight import recorded_debits
from treasury.orders.rows import PayoutRow
from treasury.pay.remaining import not_replaceable
from treasury.payments.desk import Desk
from treasury.payments.offers import OfferQuestions, judge_by_offers
from treasury.planning.payouts import PayoutPlan
from treasury.policy.judge import judge_rows, judge_service, judge_unbounded
from treasury.provider.service_rules import ServiceRules

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
