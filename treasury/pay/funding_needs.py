"""The needs of a payout run before it is paid, the conversions that close its gap, and the check that it is funded."""

import logging
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal

from treasury.errors import InputError, NotFunded
from treasury.ledger.debits import CONVERSION, Waiting, recorded_after, states_of, waiting_before, waiting_beside
from treasury.ledger.funding_runs import rounds_of
from treasury.money import ZERO, exact, format_amount, round_up
from treasury.orders.rows import PayoutRow
from treasury.orders.states import NEVER_LEFT, OPEN, Hold, State
from treasury.pay.estimates import Estimates, FeesOnTop
from treasury.pay.preview import balance_of, debits_of_rows, funding_of, rehearse_plan
from treasury.payments.desk import Desk
from treasury.payments.execution import Part, ask_first_questions, split_run
from treasury.payments.offers import OfferQuestions
from treasury.planning.conversion_model import Purpose
from treasury.planning.funding_planner import plan_funding, why_unfunded
from treasury.planning.payout_planner import PayoutPlan, add_sums, plan_payouts
from treasury.planning.position import Snapshot, limited_to
from treasury.planning.round_planner import Rebalancing
from treasury.planning.trades import Trade
from treasury.policy.model import Policy
from treasury.policy.tables import BPS
from treasury.rebalance import round_inputs
from treasury.rebalance.round_inputs import at_one_moment
from treasury.reports.results import NOT_FUNDED
from treasury.sheets.reading import Sheet
from treasury.texts import count_of


@dataclass(frozen=True)
class Lack:
    """The needs of a run, and how what it lacks can be had."""

    needs: Mapping[str, Decimal]
    """Currency -> what has to be there."""
    snapshot: Snapshot
    found: Rebalancing

    @property
    def trades(self) -> tuple[Trade, ...]:
        """Every conversion that its gap needs, of all rounds."""
        return (*self.found.plan.trades, *self.found.plan.later)


def policy_of(plan: PayoutPlan) -> Policy:
    """The policy that says what may be converted for a plan. Raises `InputError` when there is none."""
    if plan.policy is None:
        raise InputError(
            "--fund needs a policy that says what may be converted: name one (--policy FILE), or adopt one"
        )
    return plan.policy


def rows_to_pay(desk: Desk, plan: PayoutPlan) -> PayoutPlan:
    """The plan with those rows alone that this start sends: recorded and waiting, or not recorded and not held.

    A row that is held, as a duplicate, for its payee or for any other reason, is not sent: a person decides first.
    """
    states = states_of(desk.ledger, plan.run_key)
    is_keyed = plan.policy is not None and bool(plan.policy.listed)
    is_new = any(row.row_ref not in states for row in plan.rows)
    held = rehearse_plan(desk, plan).held if is_new else {}
    paid = Sheet[PayoutRow]()
    for row in plan.rows:
        state, hold = states.get(row.row_ref, (None, None))
        if state is None:
            is_sent = row.row_ref not in held
        else:
            is_excused = (state, hold) == (State.HELD, Hold.DUPLICATE) and bool(row.duplicate_ok)
            is_sent = state is State.PREPARED or (is_excused and not is_keyed)
        if is_sent:
            paid.append(row)
    return plan if len(paid) == len(plan.rows) else plan_payouts(plan.run_key, paid, plan.policy)


@exact
def needs_of(desk: Desk, plan: PayoutPlan, *, with_margin: bool = True) -> dict[str, Decimal]:
    """Currency -> what has to be there before the plan is paid; nothing for one of which nothing is to be sent.

    That is what its rows debit, and what payments of other runs debit that were recorded before them and have not left:
    who is recorded first is paid first. What only quotes will tell counts by the rate of now, `with_margin` with the
    slippage that the policy allows. Raises `NotFunded` for a debit or fee that cannot be known.
    """
    margin = Decimal(BPS + (policy_of(plan).trading.slippage_bps if with_margin else 0)) / BPS
    plan, questions = rows_to_pay(desk, plan), OfferQuestions(desk)
    own, before = funding_of(desk, questions, plan, {}, margin), _before(desk, plan)
    needs = _fees_on_top(desk, questions, plan, before)
    for each in own:
        if each.not_known:
            raise NotFunded(
                f"what {count_of(each.not_known, 'row')} would debit in {each.currency} is not known beforehand: give "
                "their max_pay_amount, or set max_per_payout in the policy"
            )
        needs[each.currency] = needs.get(each.currency, ZERO) + each.debit + each.estimated
    estimates = Estimates(desk, questions, margin)
    for waits in before:
        needs[waits.currency] += _estimated(estimates, waits) if waits.amount is None else waits.amount
    return needs


def _before(desk: Desk, paid: PayoutPlan) -> list[Waiting]:
    """Return what other runs pay before these rows are paid, in their currencies."""
    is_recorded = _is_recorded(desk, paid)
    currencies = {row.currency for row in paid.rows}
    others = waiting_before(desk.ledger, paid.run_key, is_recorded=is_recorded)
    return [each for each in others if each.currency in currencies]


def _is_recorded(desk: Desk, paid: PayoutPlan) -> bool:
    states = states_of(desk.ledger, paid.run_key)
    return all(row.row_ref in states for row in paid.rows)


@exact
def paid_first(desk: Desk, plan: PayoutPlan) -> tuple[str, ...]:
    """The other runs that were recorded before a plan's rows and have not left, each with what is kept for it."""
    sums: dict[tuple[str, str], Decimal | None] = {}
    for each in _before(desk, rows_to_pay(desk, plan)):
        name, so_far = (each.run_key, each.currency), sums.get((each.run_key, each.currency), ZERO)
        sums[name] = None if so_far is None or each.amount is None else so_far + each.amount
    return tuple(
        f"run {run_key}: {currency + ', as its quotes say' if total is None else f'{format_amount(total)} {currency}'}"
        for (run_key, currency), total in sorted(sums.items())
    )


def _estimated(estimates: Estimates, waits: Waiting) -> Decimal:
    """Return what a payment of another run debits by the rate of now, whose debit only a quote will tell."""
    receives, ceiling = waits.receives, waits.ceiling
    debit = ceiling if receives is None else estimates.debit_of(waits.currency, *receives, ceiling)
    if debit is None:
        raise NotFunded(
            f"what run {waits.run_key} debits in {waits.currency}, which was recorded before and has not left, is not "
            "known beforehand: pay or cancel it first"
        )
    return round_up(debit, 2)


def _fees_on_top(
    desk: Desk, questions: OfferQuestions, plan: PayoutPlan, before: Iterable[Waiting]
) -> dict[str, Decimal]:
    """Currency -> what fees come to that are charged beside the amounts. Raises `NotFunded` for one that is unknown."""
    most = plan.limits.max_per_payout
    payments = [
        (row.way.operation, row.currency, row.ceiling(most.get(row.currency)) if row.amount is None else row.amount)
        for row in plan.rows
    ]
    payments += [(each.operation, each.currency, each.most) for each in before]
    known = [(operation, currency, amount) for operation, currency, amount in payments if amount is not None]
    for operation, currency, amount in payments:
        if amount is None and operation in desk.account.rules.fee_on_top:
            raise NotFunded(
                f"the fee of payments in {currency} is charged on top, and is not known where the amount is not: give "
                "their max_pay_amount, or set max_per_payout in the policy"
            )
    fees: dict[str, Decimal] = defaultdict(Decimal)
    on_top = FeesOnTop(desk, questions, known)
    for operation, currency, amount in known:
        if (fee := on_top.of(operation, currency, amount)) is None:
            raise NotFunded(f"the fee of payments in {currency} is charged on top, and the service did not say it")
        fees[currency] += fee
    return fees


def read_funds(desk: Desk, plan: PayoutPlan, *, with_margin: bool = True) -> tuple[dict[str, Decimal], Snapshot]:
    """Return what has to be there before a plan is paid, by currency, and the position, both of one moment.

    Raises `NotFunded` while others leave again and again.
    """

    def read() -> tuple[dict[str, Decimal], Snapshot]:
        needs = needs_of(desk, plan, with_margin=with_margin)
        replaced = rounds_of(desk.ledger, plan.run_key)  # what was not sent of them is cancelled, and planned anew
        return needs, round_inputs.read_position(desk, policy_of(plan), needed=needs, replaced=replaced)

    found, is_one_moment = round_inputs.at_one_moment(desk, read)
    if not is_one_moment:
        raise NotFunded("other payments leave while the balance is read: start it again once they have ended")
    return found


def ask_own_payments(desk: Desk, run_key: str) -> None:
    """Ask about payments of a run of which nobody knows whether they left. Raises `NotFunded` that names one."""
    doubtful = (State.SENDING, State.UNKNOWN)
    round_inputs.ask_about(desk, desk.ledger.orders(run_key=run_key, states=doubtful))
    for order in desk.ledger.orders(run_key=run_key, states=doubtful):
        raise NotFunded(
            f"nobody knows whether {order.row_ref} was paid, so what is missing is not known: treasury resolve "
            f"{order.request_id}"
        )


def what_it_lacks(desk: Desk, plan: PayoutPlan, symbols: Collection[str] | None = None) -> Lack:
    """Return what a plan needs, and the conversions that close its gap, planned now; sends nothing that moves money.

    `symbols`: the pairs that may be traded, where not all of the policy's are meant. Raises `NotFunded` where they
    cannot close it, and `InputError` where the policy says nothing of conversions.
    """
    policy = policy_of(plan)
    ask_own_payments(desk, plan.run_key)
    needs, position = read_funds(desk, plan)
    try:
        replaced = rounds_of(desk.ledger, plan.run_key)
        snapshot = round_inputs.read_rates(desk, policy, position, needed=needs, replaced=replaced)
    except InputError as error:  # its reference rates cannot be read
        raise NotFunded(str(error)) from None
    snapshot = snapshot if symbols is None else limited_to(snapshot, symbols)
    if missing := [f"{asset}: {snapshot.missing[asset]}" for asset in needs if asset in snapshot.missing]:
        raise NotFunded("; ".join(missing))
    if _is_recorded(desk, rows_to_pay(desk, plan)):  # who is recorded first is paid first, out of every asset
        later = recorded_after(desk.ledger, plan.run_key)
        kept = tuple(each for each in snapshot.obligations if each.run_key not in later)
        snapshot = replace(snapshot, obligations=kept)
    brought = {Purpose.OBLIGATION: _brought(desk, plan.run_key)}
    snapshot = replace(snapshot, spent=add_sums(snapshot.spent, _not_recorded(desk, plan)), brought=brought)
    lack = Lack(needs, snapshot, plan_funding(policy, snapshot, needs, plan.run_key))
    if (why := why_unfunded(lack.found, needs)) is not None:
        raise NotFunded(why)
    return lack


@exact
def _brought(desk: Desk, run_key: str) -> dict[str, Decimal]:
    """Asset -> what conversions for a run brought, less what later ones, and its payments, spent of it, or may have.

    What they spent beyond that was there before, and takes nothing of what is brought after it.
    """
    rounds = [desk.ledger.orders(run_key=key) for key in rounds_of(desk.ledger, run_key)]
    steps = [(min(order.created_at for order in orders), orders) for orders in rounds if orders]
    if steps:
        steps += [(order.sent_at or order.created_at, [order]) for order in desk.ledger.orders(run_key=run_key)]
    left: dict[str, Decimal] = defaultdict(Decimal)
    for _, orders in sorted(steps, key=lambda step: step[0]):
        for order in orders:
            if order.currency is not None and order.state not in NEVER_LEFT and not order.state.may_be_replaced:
                left[order.currency] = max(left[order.currency] - (order.amount or ZERO), ZERO)
        for order in orders:
            if order.operation == CONVERSION and order.state is State.SETTLED and order.receive_currency is not None:
                left[order.receive_currency] += order.receive_amount or ZERO
    return {asset: amount for asset, amount in sorted(left.items()) if amount > 0}


@exact
def _not_recorded(desk: Desk, plan: PayoutPlan) -> Mapping[str, Decimal]:
    """Currency -> what rows that are still to be recorded debit at the most, which counts towards the day, too."""
    recorded, rows = states_of(desk.ledger, plan.run_key), Sheet[PayoutRow]()
    for row in rows_to_pay(desk, plan).rows:
        if row.row_ref not in recorded:
            rows.append(row)
    return plan_payouts(plan.run_key, rows, plan.policy).debits if rows else {}


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
