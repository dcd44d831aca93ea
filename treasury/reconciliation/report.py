"""Pure: builds the report of a night from everything that was read. The same input gives the same report."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

import pandas as pd

from treasury.money import exact
from treasury.policy.model import Policy
from treasury.reconciliation import findings
from treasury.reconciliation.arrivals import Arrivals, judge_arrivals
from treasury.reconciliation.balances import BalanceAccount, BalanceLine, Night, judge_account
from treasury.reconciliation.breaks import Acceptance, Break, Finding, KnownBreak, assign_lifecycle
from treasury.reconciliation.classes import BALANCE_CLASSES, UNREMARKABLE, Verdict, verdict_of
from treasury.reconciliation.comparison import OrderSums, compare_parts
from treasury.reconciliation.entries import Name, StatementEntry, numbers_of
from treasury.reconciliation.order_statement import StatementLine
from treasury.reconciliation.scope import Scope
from treasury.reconciliation.sides import Parts
from treasury.reconciliation.third_side import roll_accounts


@dataclass(frozen=True)
class ReconciliationInput:
    """Everything a report is made from. Times: Unix milliseconds."""

    as_of: int
    both_sides: Parts
    """Both sides of the orders: `sides.COLUMNS`."""
    policy: Policy = Policy()
    scope: Scope = Scope()
    since: int | None = None
    """When the last report was made."""
    last_whole: int | None = None
    """When the last report of everything was made."""
    card_users: Sequence[Mapping[str, Any]] = ()
    receipts: Sequence[Mapping[str, Any]] = ()
    """Both sides of pay-ins of ours, and of deposits that notifications told of."""
    taken_back: Mapping[str, tuple[str, Decimal]] = field(default_factory=dict)
    """Receipt -> currency and amount that it had brought by the whole report before, and has not now."""
    issued: Collection[str] = ()
    """Keyed hashes of the deposit addresses that customers were given."""
    statement: Sequence[StatementLine] = ()
    not_asked: int = 0
    """Orders that were not asked about, because they have long been final."""
    by_age: str | None = None
    """When they are asked about, in words."""
    changed: Mapping[int, tuple[int, str]] = field(default_factory=dict)
    """Reports up to this one that somebody changed in the database: number of the sweep -> when it was made, and what
    stands for what is there now."""
    made_by_hand: Mapping[str, str] = field(default_factory=dict)
    """Triggers, views and rules that somebody gave the database, in words -> a hash of what each does."""
    balances: Mapping[str, Sequence[Night]] = field(default_factory=dict)
    """Currency -> every report of all orders so far."""
    entries: Sequence[StatementEntry] = ()
    """Of the service's own statement: of this report and of earlier ones."""
    explaining: Sequence[StatementEntry] = ()
    """Those that explain what moved, each as it was given last while it could: while no policy listed people."""
    known_numbers: Collection[Name] = ()
    """Every name under which the service may show something that the ledger meant."""
    notices: Sequence[Mapping[str, Any]] = ()
    """The newest notification about each order that no intent stands behind."""
    known_breaks: Mapping[str, KnownBreak] = field(default_factory=dict)
    acceptances: Mapping[str, Acceptance] = field(default_factory=dict)
    fee_on_top: Collection[str] = ()
    """Operations whose fee is debited beside their amount."""
    rehearsal: bool = False
    """True when payments of the ledger were recorded without a policy in force."""
    older: str | None = None
    """Why the ledger may know less than the service, in words; None when nothing says so."""


@dataclass(frozen=True)
class Report:
    """Everything a reconciliation says, before it is written."""

    night: ReconciliationInput
    orders: OrderSums
    breaks: Sequence[Break]
    balances: Sequence[BalanceLine]
    arrivals: Arrivals

    @property
    def verdict(self) -> Verdict:
        """The worst verdict of everything that was not accepted; what is on its way is pending, accepted or not."""
        standing = {each.found.name for each in self.breaks if each.counts}
        standing |= {"in_progress"} if any(line.closing_in_flight for line in self.night.statement) else set()
        unremarkable = {name for name in UNREMARKABLE if name in self.orders.classes}
        return verdict_of(standing | unremarkable, incomplete=self.is_incomplete)

    @property
    def missed_days(self) -> Sequence[str]:
        """Return the days between the last report of everything and this one, in the policy's time zone."""
        if self.night.last_whole is None:
            return ()
        return self.night.policy.days_between(self.night.last_whole, self.night.as_of)

    @property
    def is_incomplete(self) -> bool:
        """Tell whether something besides the orders could not be read, or the sums do not explain themselves."""
        missing = any(line.account.is_unread for line in self.balances)
        return missing or any(line.residual for line in self.night.statement)


@exact
def build_report(night: ReconciliationInput, keep: Callable[[pd.DataFrame], object] | None = None) -> Report:
    """Compare both sides of a night, explain its sums, and assign the findings their life cycle.

    `keep`: is given the orders, sorted by request id, a part at a time: both sides and `class`.
    """
    sums, of_orders = OrderSums(night.policy.time_zone), list[Finding]()
    known, asked = {each.found.subject for each in night.known_breaks.values()}, set[str]()
    for orders in compare_parts(night.both_sides, night.entries, night.policy, night.as_of, night.fee_on_top):
        sums.add(orders)
        of_orders += findings.of_orders(orders)
        asked |= known.intersection(orders["request_id"])
        if keep is not None:
            keep(orders)
    accounts: list[BalanceAccount] = []  # a narrowed report shows none
    if night.scope.is_whole:
        accounts = roll_accounts(night.balances, night.explaining, night.known_numbers, night.policy)
    arrivals = judge_arrivals(night.receipts, night.issued, night.policy.reconciliation, night.as_of)
    of_receipts = list(findings.of_receipts(night.receipts, night.taken_back))
    named = {each.subject for each in of_receipts}
    found = [
        *of_orders,
        *findings.of_changed(night.changed),
        *findings.of_database(night.made_by_hand),
        *findings.of_card_users(night.card_users, night.as_of, night.policy.reconciliation.kyc_unused_days),
        *of_receipts,
        *(each for each in arrivals.findings if each.subject not in named),
        *_of_lines(night),
        *findings.of_notices(night.notices, _shown(night)),
        *findings.of_balances(accounts),
        *findings.of_openings(accounts, night.as_of, night.acceptances),
    ]
    covered = _covered(night, asked, accounts)
    gone = frozenset(key for key, known in night.known_breaks.items() if known.found.subject in covered)
    breaks = assign_lifecycle(
        found,
        night.known_breaks,
        gone,
        night.acceptances,
        night.policy,
        night.as_of,
        is_whole=night.scope.is_whole,
        asked={key for key, known in night.known_breaks.items() if known.found.subject in asked},
    )
    breaks = [findings.with_what_ended_it(each, accounts) for each in breaks]
    accepted = {each.found.id for each in breaks if each.accepted is not None}
    return Report(night, sums, breaks, [_judged(account, accepted) for account in accounts], arrivals)


def _of_lines(night: ReconciliationInput) -> Iterator[Finding]:
    """Yield payments of others that lines show; the first line of one that a notification told keeps that break."""
    known = {each.found.subject: each.found for each in night.known_breaks.values()}
    types = {
        subject: each["order_type"]
        for subject, each in zip(findings.subjects_of(night.notices), night.notices, strict=True)
    }
    told = {
        name: subject
        for subject, found in known.items()
        if subject.startswith(findings.NOTIFICATION)
        for name in (found.request_id, *numbers_of(found.order_no, types.get(subject)))
        if name
    }
    taken = set(known)
    for entry, said in findings.of_statement(night.entries, night.known_numbers):
        line = _in_its_currency(said, known)
        earlier = next((told[name] for name in entry.names if name in told), None)
        goes_on = earlier in taken and line.subject not in known
        taken.discard(earlier or "")
        yield replace(line, subject=earlier) if earlier and goes_on else line


def _in_its_currency(line: Finding, known: Mapping[str, Finding]) -> Finding:
    """Return a line that a later file has in another currency, as of another account, as a break of its own: what was
    accepted of the earlier one says nothing about it.
    """
    before, own = known.get(line.subject), f"{line.subject} {line.currency}"
    is_other = own in known or (before is not None and before.currency != line.currency)
    return replace(line, subject=own) if is_other else line


def _shown(night: ReconciliationInput) -> set[Name]:
    """Return the names of what is known, or shown by a line of the statement already.

    A bank's line has a number of the bank's own, so the request id tells which payment of a notification it shows.
    """
    paid = {entry.request_id for entry in night.entries if entry.request_id and entry.has_effect}
    numbers = (name for entry in night.entries for name in numbers_of(entry.order_no, entry.order_type))
    return {*night.known_numbers, *numbers, *paid}


def _judged(account: BalanceAccount, accepted: Collection[str]) -> BalanceLine:
    return judge_account(account, [lot for lot in account.lots if findings.of_lot(account, lot).id in accepted])


def _covered(night: ReconciliationInput, asked: Collection[str], accounts: Sequence[BalanceAccount]) -> frozenset[str]:
    """Subjects that this report has read, and can therefore show as resolved; a narrowed one shows none."""
    if not night.scope.is_whole:
        return frozenset()
    rolled = {account.currency for account in accounts if account.closing is not None}
    known = [each.found for each in night.known_breaks.values()]
    lots = (found.subject for found in known if found.name in BALANCE_CLASSES)
    numbers = {entry.order_no for entry in night.entries}
    return frozenset(
        {
            *asked,
            *(each["request_id"] for each in (*night.card_users, *night.receipts)),
            *(subject for subject in lots if subject.split()[1] in rolled),
            *(each.subject for each in known if each.subject.startswith(findings.LINE) and each.order_no in numbers),
            *findings.subjects_of(night.notices),
        }
    )
