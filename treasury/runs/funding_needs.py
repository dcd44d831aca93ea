"""What a payout run needs before it is paid, and the conversions that close its gap now."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal

from treasury.errors import InputError, LimitExceeded, NotFunded
from treasury.ledger.day import check_day
from treasury.ledger.in_flight import states_of, waiting_before
from treasury.ledger.payees import what_is_known
from treasury.money import exact
from treasury.orders.states import Hold, State
from treasury.planning.funding import plan_funding, why_unfunded
from treasury.planning.payouts import OPERATIONS, PayoutPlan, plan_payouts
from treasury.planning.policy import Policy
from treasury.planning.position import ZERO, Snapshot
from treasury.planning.rebalancing import Rebalancing
from treasury.planning.rows import PayoutRow
from treasury.planning.tables import BPS
from treasury.planning.trades import Trade
from treasury.provider.funds import EstimateFee
from treasury.runs import market
from treasury.runs.desk import Desk
from treasury.runs.offers import Questions
from treasury.runs.preview import funding_of
from treasury.runs.trade_orders import plan_trade
from treasury.sheets.reading import Sheet


@dataclass(frozen=True)
class Lack:
    """What a run needs, and how what it lacks can be had."""

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


def check_may_fund(desk: Desk) -> None:
    """Raise `InputError` for a service that is not on this machine: runs are funded in rehearsals alone, for now.

    The faults that stand against it are in `docs/rebalancing.md`, "Known faults of fund and pay".
    """
    if not desk.account.is_loopback:
        raise InputError(
            "--fund works with services of this machine alone until its known faults are mended (docs/rebalancing.md): "
            "nothing was sent; convert with treasury rebalance, then pay without --fund"
        )


def rows_to_pay(desk: Desk, plan: PayoutPlan) -> PayoutPlan:
    """The plan with those rows alone that this start sends: recorded and waiting, or not recorded and not held.

    A row that is held, as a duplicate or for any other reason, is not sent: a person decides about it first.
    """
    states = states_of(desk.ledger, plan.run_key)
    known: Mapping[str, str] = {}
    if any(row.row_ref not in states for row in plan.rows):
        known = what_is_known(desk.ledger, plan.run_key, plan.intents, plan.limits.duplicate_days).duplicates
    paid = Sheet[PayoutRow]()
    for row in plan.rows:
        state, hold = states.get(row.row_ref, (None, None))
        if state is None:
            is_sent = row.row_ref not in known or bool(row.duplicate_ok)
        else:
            is_released = (state, hold) == (State.HELD, Hold.DUPLICATE) and bool(row.duplicate_ok)
            is_sent = state is State.PREPARED or is_released
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
    slippage = policy_of(plan).trading.slippage_bps if with_margin else 0
    plan, questions = rows_to_pay(desk, plan), Questions(desk)
    before = waiting_before(desk.ledger, plan.run_key, {row.row_ref for row in plan.rows})
    fees = _fees_on_top(desk, questions, plan)
    needs = {}
    for each in funding_of(questions, plan, {}):
        if each.not_known:
            raise NotFunded(
                f"what {each.not_known} row(s) debit in {each.currency} is not known beforehand: give their "
                "max_pay_amount, or set max_per_payout in the policy"
            )
        estimated = each.estimated * (BPS + slippage) / BPS
        own = each.debit + estimated + fees.get(each.currency, ZERO)
        needs[each.currency] = own + before.get(each.currency, ZERO)
    return needs


def _fees_on_top(desk: Desk, questions: Questions, plan: PayoutPlan) -> dict[str, Decimal]:
    """Currency -> what fees come to that are charged beside the amounts: as often as the largest payment's fee."""
    largest: dict[str, Decimal] = {}
    counts: Counter[str] = Counter()
    for row in plan.rows:
        if OPERATIONS[row.route] in desk.account.rules.fee_on_top:
            amount = row.amount if row.amount is not None else row.ceiling(plan.limits.max_per_payout.get(row.currency))
            largest[row.currency] = max(amount or ZERO, largest.get(row.currency, ZERO))
            counts[row.currency] += 1
    fees = {}
    for currency, amount in largest.items():
        asked = EstimateFee(currency=currency, amount=amount)
        fee: Decimal | None = questions.ask(asked, f"fee estimate of {currency}", lambda reply: reply.fee_amount)
        if fee is None:
            raise NotFunded(f"the fee of payments in {currency} is charged on top, and the service did not say it")
        fees[currency] = counts[currency] * fee
    return fees


def what_it_lacks(desk: Desk, plan: PayoutPlan) -> Lack:
    """What a plan needs, and the conversions that close its gap, planned now; sends nothing that moves money.

    Raises `NotFunded` where they cannot close it, and `InputError` where the policy says nothing of conversions.
    """
    check_may_fund(desk)
    policy, needs = policy_of(plan), needs_of(desk, plan)
    snapshot = market.read_rates(desk, policy, market.read_position(desk, policy, needed=needs), needed=needs)
    if missing := [f"{asset}: {snapshot.missing[asset]}" for asset in needs if asset in snapshot.missing]:
        raise NotFunded("; ".join(missing))
    lack = Lack(needs, snapshot, plan_funding(policy, snapshot, needs, plan.run_key))
    if (why := why_unfunded(lack.found, needs)) is not None:
        raise NotFunded(why)
    _check_day(desk, policy, lack.trades)
    return lack


def _check_day(desk: Desk, policy: Policy, trades: Iterable[Trade]) -> None:
    """Raise `NotFunded` for conversions that do not fit into the limits of the day."""
    most, day = policy.table("conversions").max_per_day, policy.day_of(desk.ledger.now())
    intents = [plan_trade(each, desk.account.rules) for each in trades]
    try:
        desk.ledger.look(lambda connection: check_day(connection, day, most, intents))
    except LimitExceeded as error:
        raise NotFunded(str(error)) from None
