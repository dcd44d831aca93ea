"""The money that a run needs, judged before it is sent: a run that is not funded waits, or leaves as far as it is."""

import logging
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from treasury.ledger.in_flight import waiting_before, waiting_beside
from treasury.money import ZERO, exact, format_amount
from treasury.orders.states import OPEN, State
from treasury.pay.estimates import FeesOnTop
from treasury.pay.funding_needs import rows_to_pay
from treasury.pay.parts import Part, split_run
from treasury.pay.preview import balance_of, debits_of_rows
from treasury.payments.desk import Desk
from treasury.payments.execution import ask_first_questions
from treasury.payments.offers import OfferQuestions
from treasury.planning.payouts import PayoutPlan
from treasury.rebalance.market import at_one_moment
from treasury.reports.results import NOT_FUNDED
from treasury.texts import count_of

LOG = logging.getLogger("treasury")


@dataclass(frozen=True)
class Funds:
    """The money that the waiting rows of a run need, beside what is there."""

    lacks: Mapping[str, Decimal]
    """Currency -> what is missing for all of them."""
    not_known: tuple[str, ...]
    """Currencies whose balance the service does not say."""
    funded: frozenset[str]
    """Rows for which everything is there, in the order of the plan: nobody overtakes a row that waits for money."""


def parts_that_are_funded(desk: Desk, plan: PayoutPlan, parts: list[Part]) -> list[Part]:
    """These parts, as far as they may leave; what left before is followed in any case.

    All of them where the money is there; else none, or where the plan is `partly` those rows that are funded. Raises
    `ConfigurationError` where the service says no balance because it refuses whoever asks.
    """
    waiting = set(desk.ledger.order_ids(plan.run_key, (State.PREPARED,)))
    if not waiting.intersection(each for part in parts for each in part["ids"]):
        return parts
    funds = funds_of(desk, plan)
    is_sent_unknown = plan.policy is None or plan.limits.send_when_funding_is_unknown
    why = why_not_sent(funds, is_sent_unknown=is_sent_unknown)
    if why is None:
        return parts
    if funds.not_known:  # a key, clock or unit that the service refuses is no lack of money, and is named
        ask_first_questions(desk, plan.run_key)
    may_leave = funds.funded if plan.partly else frozenset[str]()
    held_back = [
        order
        for order in desk.ledger.orders(run_key=plan.run_key, states=(State.PREPARED,))
        if order.row_ref not in may_leave
    ]
    LOG.warning("run %s is %s%s: not sent: %s", plan.run_key, NOT_FUNDED, why, count_of(len(held_back), "row"))
    desk.run_concurrently(lambda order: desk.ledger.note(order, reason=NOT_FUNDED + why), held_back)
    leave = (waiting - {order.id for order in held_back}) | set(desk.ledger.order_ids(plan.run_key, OPEN))
    return split_run(desk, plan.run_key, [each for part in parts for each in part["ids"] if each in leave])


def why_not_sent(funds: Funds, *, is_sent_unknown: bool) -> str | None:
    """Why a run is not sent as a whole, in words; None where it is."""
    said = [f"lacks {format_amount(amount)} {currency}" for currency, amount in funds.lacks.items()]
    if funds.not_known and not is_sent_unknown:
        said.append(f"the service does not say the balance of {', '.join(funds.not_known)}")
    return "; ".join(said) or None


def funds_of(desk: Desk, plan: PayoutPlan) -> Funds:
    """Return what the rows of a plan that never left need, beside the balances.

    Rows of its run that its sheet lacks come first: a part of a sheet neither leaves alone nor overtakes them. Payments
    of other runs that were recorded before them and have not left are paid first. What is unknown of any run
    may be debited already, and takes nothing.

    Race: a payment of another run that leaves between the look at the ledger and at the balance counts twice. Where
    money seems to lack, both are read again, until they are of one moment.
    """
    found = _read_funds(desk, plan)
    return at_one_moment(desk, lambda: _read_funds(desk, plan))[0] if found.lacks else found


@exact
def _read_funds(desk: Desk, plan: PayoutPlan) -> Funds:
    questions = OfferQuestions(desk)
    before: dict[str, Decimal] = defaultdict(Decimal)
    for each in waiting_before(desk.ledger, plan.run_key, is_recorded=True):  # read before the balances are
        before[each.currency] += each.most or ZERO
    rest = waiting_beside(desk.ledger, plan.run_key, {row.row_ref for row in plan.rows})
    due = [(row_ref, each.operation, each.currency, each.most or ZERO) for row_ref, each in rest.items()]
    due += [
        (each.row.row_ref, each.row.way.operation, each.row.currency, each.amount or ZERO)
        for each in debits_of_rows(desk, questions, rows_to_pay(desk, plan))
    ]
    on_top = FeesOnTop(desk, questions, [(operation, code, debit) for _, operation, code, debit in due])
    balances = {code: balance_of(questions, code) for code in sorted({code for _, _, code, _ in due})}
    needed: dict[str, Decimal] = defaultdict(Decimal)
    funded = set()
    for row_ref, operation, code, debit in due:
        needed[code] += debit + (on_top.of(operation, code, debit) or ZERO)
        balance = balances[code]
        if balance is not None and before[code] + needed[code] <= balance:
            funded.add(row_ref)
    gaps = {code: before[code] + needed[code] - balance for code, balance in balances.items() if balance is not None}
    unknown = tuple(code for code, balance in balances.items() if balance is None)
    return Funds({code: gap for code, gap in gaps.items() if gap > 0}, unknown, frozenset(funded))
