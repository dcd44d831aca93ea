"""A policy tried on what this ledger sent: each order by itself, and each day's account."""

from collections import defaultdict
from dataclasses import dataclass
from decimal import Decimal

from treasury.ledger.debits import NOT_COUNTED
from treasury.ledger.known_payees import DAY_MS
from treasury.ledger.ledger import Ledger
from treasury.money import exact, format_amount
from treasury.orders.records import Order
from treasury.policy.judge import Leaving, judge
from treasury.policy.model import Policy
from treasury.provider.catalogue import CATALOGUE

NOT_KEPT = ("addresses", "countries")
"""Limits that ask what the ledger does not keep of an order in the clear."""


@dataclass(frozen=True)
class PolicyCheck:
    """Orders that were looked at, and a line for each that the policy would have held or refused."""

    orders: int
    lines: list[str]
    not_judged: tuple[str, ...]
    """Lists of the policy that are not judged: the ledger keeps nobody's address or country."""


@exact
def check_history(ledger: Ledger, policy: Policy, days: int) -> PolicyCheck:
    """Judge the orders of the last days by a policy: single amounts, currencies, runs and days, in their sequence."""
    since = ledger.now() - days * DAY_MS
    by_day: dict[tuple[str, str], Decimal] = defaultdict(Decimal)
    by_run: dict[tuple[str, str], Decimal] = defaultdict(Decimal)
    orders, lines = 0, []
    with ledger.each_order(None) as found:
        for order in found:
            if order.created_at < since or order.currency is None or order.state.value in NOT_COUNTED:
                continue
            orders += 1
            why = _why(order, policy, by_day, by_run)
            if why is not None:
                lines.append(f"{order.row_ref} of run {order.run_key} ({order.request_id}): {why}")
    tables = {"payouts": policy.payouts, "withdrawals": policy.withdrawals}
    named = [(table, name) for table in tables for name in NOT_KEPT if getattr(tables[table], name, None) is not None]
    return PolicyCheck(orders, lines, tuple(f"{table}.{name}" for table, name in named))


def _why(
    order: Order,
    policy: Policy,
    by_day: dict[tuple[str, str], Decimal],
    by_run: dict[tuple[str, str], Decimal],
) -> str | None:
    """Why a policy would not have let an order leave; None when it would. What it lets leave counts."""
    currency, amount = str(order.currency), order.amount or order.ceiling or Decimal(0)
    limits = policy.table(CATALOGUE[order.operation].limited_by)
    day, run = (policy.day_of(order.sent_at or order.created_at), currency), (order.run_key, currency)
    of_run, of_day = by_run[run] + amount, by_day[day] + amount
    breach = next(judge(limits, Leaving(currency=currency, debit=amount, of_run=of_run, of_day=of_day)), None)
    if breach is None:
        by_day[day], by_run[run] = of_day, of_run
        return None
    if breach.most is None:
        return f"{currency} is not a currency that it allows"
    return f"{format_amount(amount)} {currency} is over {breach.limit}, {breach.most}"
