"""Pure: builds the report of a night from everything that was read. The same input gives the same report."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pandas as pd

from treasury.money import exact
from treasury.planning.policy import Policy
from treasury.reconciliation import findings
from treasury.reconciliation.balances import BalanceLine, BalanceSeen, Flows, Judgement, pool, prove_balance
from treasury.reconciliation.breaks import Acceptance, Break, Known, assign_lifecycle
from treasury.reconciliation.classes import UNREMARKABLE, Verdict, verdict_of
from treasury.reconciliation.comparison import LINE_COLUMNS, compare
from treasury.reconciliation.entries import StatementEntry, by_request
from treasury.reconciliation.scope import Scope
from treasury.reconciliation.statement import StatementLine

ZERO = Decimal(0)


@dataclass(frozen=True)
class ReconciliationInput:
    """Everything a report is made from. Times: Unix milliseconds."""

    as_of: int
    both_sides: pd.DataFrame
    """`comparison.COLUMNS`."""
    policy: Policy = Policy()
    scope: Scope = Scope()
    since: int | None = None
    """When the last report was made."""
    card_users: Sequence[Mapping[str, Any]] = ()
    statement: Sequence[StatementLine] = ()
    flows: Mapping[str, Flows] = field(default_factory=dict)
    balances: Sequence[BalanceSeen] = ()
    entries: Sequence[StatementEntry] = ()
    """Of the service's own statement."""
    known_numbers: Collection[str] = ()
    """Every name under which the service may show something that the ledger meant."""
    known_breaks: Mapping[str, Known] = field(default_factory=dict)
    acceptances: Mapping[str, Acceptance] = field(default_factory=dict)
    fee_on_top: Collection[str] = ()
    """Operations whose fee is debited beside their amount."""
    rehearsal: bool = False
    """Whether payments of the ledger were recorded without a policy in force."""


@dataclass(frozen=True)
class Report:
    """Everything a reconciliation says, before it is written."""

    night: ReconciliationInput
    orders: pd.DataFrame
    """Both sides and `class`, sorted by request id."""
    breaks: Sequence[Break]
    balances: Sequence[BalanceLine]

    @property
    def verdict(self) -> Verdict:
        """The worst verdict of everything that was not accepted."""
        classes = set(self.orders["class"])
        standing = {each.found.name for each in self.breaks if each.counts}
        return verdict_of(standing | {name for name in UNREMARKABLE if name in classes}, incomplete=self.is_incomplete)

    @property
    def is_incomplete(self) -> bool:
        """Whether something besides the orders could not be read, or the sums do not explain themselves."""
        missing = any(seen.after is None and not seen.refused for seen in self.night.balances)
        return missing or any(line.residual for line in self.night.statement)


@exact
def build_report(night: ReconciliationInput) -> Report:
    """Compare both sides of a night, explain its sums, and assign the findings their life cycle."""
    orders = compare(_with_lines(night.both_sides, night.entries), night.policy, night.as_of, night.fee_on_top)
    balances = _prove(night, orders)
    found = [
        *findings.of_orders(orders),
        *findings.of_card_users(night.card_users),
        *findings.of_statement(night.entries, night.known_numbers),
        *findings.of_balances(balances),
    ]
    covered = _covered(night, orders, balances)
    gone = frozenset(key for key, known in night.known_breaks.items() if known.found.subject in covered)
    breaks = assign_lifecycle(found, night.known_breaks, gone, night.acceptances, night.policy, night.as_of)
    return Report(night, orders, breaks, balances)


def _with_lines(both_sides: pd.DataFrame, entries: Sequence[StatementEntry]) -> pd.DataFrame:
    """The third side beside the other two: what the statement shows under each request id."""
    lines = by_request(entries)
    if not lines:
        return both_sides
    third = [_line_columns(lines[request_id]) if request_id in lines else {} for request_id in both_sides["request_id"]]
    return both_sides.join(pd.DataFrame(third, index=both_sides.index, columns=list(LINE_COLUMNS), dtype=object))


def _line_columns(entries: Sequence[StatementEntry]) -> dict[str, Any]:
    first = entries[0]
    return {
        "line_orders": len(entries),
        "line_currency": first.currency,
        "line_amount": first.amount,
        "line_status": first.status,
        "line_words": "; ".join(entry.words for entry in entries),
    }


def _prove(night: ReconciliationInput, orders: pd.DataFrame) -> list[BalanceLine]:
    flows = {
        seen.currency: night.flows.get(seen.currency, Flows()) + _unpriced(orders, seen.currency, night.since)
        for seen in night.balances
    }
    pooled = pool(night.balances, flows)
    return [prove_balance(seen, pooled[seen.currency]) for seen in night.balances]


def _unpriced(orders: pd.DataFrame, currency: str, since: int | None) -> Flows:
    """Orders whose debit nobody knew when they were sent, and that ended since the last report, or have not."""
    total = ZERO
    for record in findings.records(orders[orders["currency"].isna() & (orders["seen_currency"] == currency)]):
        if record["final_at"] is None or since is None or record["final_at"] >= since:
            total += Decimal(record["seen_amount"] or 0) + Decimal(record["seen_fee"] or 0)
    return Flows(unpriced=total)


def _covered(night: ReconciliationInput, orders: pd.DataFrame, balances: Sequence[BalanceLine]) -> frozenset[str]:
    """Subjects that this report has read, and can therefore show as resolved."""
    judged = (Judgement.EXPLAINED, *findings.BALANCE_CLASSES)
    return frozenset(
        {
            *orders["request_id"],
            *(user["request_id"] for user in night.card_users),
            *(f"balance {line.currency}" for line in balances if line.judgement in judged),
            *(f"statement {entry.order_no}" for entry in night.entries),
        }
    )
