"""Pure: what an approver sees of a plan that waits, also beside the last run that paid the same people.

Personal: it is kept encrypted, and only shown.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from treasury.masking import mask
from treasury.money import exact, format_amount, sums_of
from treasury.orders.rows import PayoutRow, Route
from treasury.payees import look_of_payee
from treasury.planning.payout_planner import PayoutPlan
from treasury.planning.trades import TradePlan
from treasury.texts import as_it_looks

HUNDRED = Decimal(100)

TWO_NAMES = "this sheet pays this account under different names"


@dataclass(frozen=True)
class Payment:
    """A payment of a run, for comparing."""

    row_ref: str
    payee: str
    """Keyed hash of the account that it pays."""
    name: str | None
    """Keyed hash of the payee's name."""
    currency: str
    amount: Decimal
    """The amount that its row fixes: what is debited, or what is received."""
    debits: str
    debit: Decimal
    """The amount that it debits, or its ceiling while that is not known, in `debits`."""


@dataclass(frozen=True)
class Beside:
    """The differences of a run to the last one like it."""

    run_key: str
    """The last run like it."""
    gone: tuple[str, ...]
    """Rows of that run whose payee this one does not pay."""
    new: tuple[str, ...]
    """Rows whose payee that run did not pay."""
    changed: Mapping[str, str]
    """Row -> both amounts, where they differ by more than the policy says."""
    renamed: Mapping[str, str]
    """Row -> how the name of its account differs, here or from that run."""
    totals: tuple[str, ...]
    """For each currency: the mean of the last runs like it, and how far this one is above or below."""

    @property
    def differs(self) -> Mapping[str, str]:
        """Row -> every difference of a payee whom both runs pay."""
        rows = dict.fromkeys((*self.renamed, *self.changed))
        return {row: "; ".join(each[row] for each in (self.renamed, self.changed) if row in each) for row in rows}

    def as_dict(self) -> dict[str, Any]:
        """Return it as a plan's page and `plan.json` have it."""
        lists = {name: list(getattr(self, name)) for name in ("gone", "new", "changed", "renamed", "totals")}
        return {"run_key": self.run_key, **lists}


@exact
def compare_runs(
    run: Sequence[Payment],
    run_key: str,
    last: Sequence[Payment],
    earlier: Sequence[Mapping[str, Decimal]],
    percent: Decimal,
) -> Beside:
    """Compare a run with `last`, the payments of run `run_key`.

    `earlier`: currency -> what was debited, of each of the last runs like it. `percent`: how far the sum of a payee may
    be off, up or down, before it is said.
    """
    paid, here = _by_payee(last), _by_payee(run)
    changed: dict[str, str] = {}
    renamed: dict[str, str] = {}
    for payee, payments in here.items():
        before = paid.get(payee, [])
        names, earlier_names = ({each.name for each in some if each.name} for some in (payments, before))
        refs = [each.row_ref for each in payments]
        if len(names) > 1:
            renamed |= dict.fromkeys(refs, TWO_NAMES)
        elif earlier_names and names and not names & earlier_names:
            renamed |= dict.fromkeys(refs, f"this account had another name in run {run_key}")
        if before and (said := ", ".join(_changes(payments, before, percent))):
            changed |= dict.fromkeys(refs, f"{said} in run {run_key}")
    return Beside(
        run_key,
        tuple(each.row_ref for payee, payments in paid.items() if payee not in here for each in payments),
        tuple(each.row_ref for payee, payments in here.items() if payee not in paid for each in payments),
        changed,
        renamed,
        tuple(_totals(run, earlier)),
    )


def _by_payee(payments: Iterable[Payment]) -> dict[str, list[Payment]]:
    found: dict[str, list[Payment]] = defaultdict(list)
    for each in payments:
        found[each.payee].append(each)
    return found


def _changes(now: Iterable[Payment], before: Iterable[Payment], percent: Decimal) -> Iterator[str]:
    """Say the sums of one payee that differ by more than so many percent of the earlier one."""
    ours, theirs = (sums_of((each.currency, each.amount) for each in some) for some in (now, before))
    for currency in sorted({*ours, *theirs}):
        new, old = ours.get(currency, Decimal(0)), theirs.get(currency, Decimal(0))
        if abs(new - old) * HUNDRED > old * percent:
            share = f" ({_share(new, old)})" if new and old else ""
            yield f"{format_amount(new)} {currency}{share} instead of {format_amount(old)}"


def _share(new: Decimal, old: Decimal) -> str:
    return f"{((new - old) * HUNDRED / old).quantize(Decimal(1)):+} %"


def _totals(run: Iterable[Payment], earlier: Sequence[Mapping[str, Decimal]]) -> Iterator[str]:
    debits = sums_of((each.debits, each.debit) for each in run)
    of = "the last run" if len(earlier) == 1 else f"the mean of the last {len(earlier)} runs"
    for currency, total in sorted(debits.items()):
        sums = [each.get(currency, Decimal(0)) for each in earlier]
        digits = min((exponent for each in sums if isinstance(exponent := each.as_tuple().exponent, int)), default=0)
        mean = (sum(sums, Decimal(0)) / len(sums)).quantize(Decimal(1).scaleb(min(digits, 0)))
        share = f"; this one is {_share(total, mean)}" if mean else ""
        yield f"{of} like it: {format_amount(mean)} {currency}{share}"


LARGEST = 5
"""How many of the largest payments of each currency are shown first."""

COLUMNS = (
    *("row_ref", "payee", "account", "bank", "country", "amount", "currency", "receive_amount", "receive_currency"),
    *("at_most", "note"),
)
"""Columns that are shown of each payment; `at_most`: its ceiling, where the amount is not known beforehand."""


@dataclass(frozen=True)
class Known:
    """The ledger's knowledge of a payment before it is recorded."""

    new: frozenset[str] = frozenset()
    """Rows whose payee was never paid."""
    changed: Mapping[str, str] = field(default_factory=dict)
    """Row -> the account, masked, that its payee's name was paid to last; this one was never paid."""
    duplicates: Mapping[str, str] = field(default_factory=dict)
    """Row -> the payment that it looks like."""
    holds: Mapping[str, str] = field(default_factory=dict)
    """Row -> why it will be held."""
    said: Mapping[str, str] = field(default_factory=dict)
    """Row -> the service's terms of it, in words."""
    beside: Beside | None = None
    """The run beside the last one that paid the same people."""


def shown_payouts(plan: PayoutPlan, known: Known) -> dict[str, Any]:
    """A payout plan as an approver sees it."""
    renamed = _under_two_names(plan.rows)
    rows = [_payment(row, plan, known, renamed) for row in plan.rows]
    return {
        "kind": "payout",
        **plan.summary(),
        "why": plan.why_approvals,
        "new_payees": len(known.new),
        "changed_payees": len(known.changed),
        "two_names": len(renamed),
        "duplicates": len(known.duplicates),
        "held": sum(row.row_ref in known.holds for row in plan.rows),
        "is_enforced": plan.kind != "scan-to-pay",
        "beside": None if known.beside is None else known.beside.as_dict(),
        "largest": _largest(plan.rows),
        "rows": rows,
    }


def _payment(row: PayoutRow, plan: PayoutPlan, known: Known, renamed: Collection[str]) -> dict[str, Any]:
    amount, receive_amount = row.amount, row.receive_amount
    ceiling = row.ceiling(plan.limits.max_per_payout.get(row.currency))
    cells = {
        "row_ref": row.row_ref,
        "payee": row.payee_name,
        "account": row.account,
        "bank": row.bank,
        "country": row.country,
        "amount": None if amount is None else format_amount(amount),
        "currency": row.currency,
        "receive_amount": None if receive_amount is None else format_amount(receive_amount),
        "receive_currency": None if row.currency == row.receive_currency else row.receive_currency,
        "at_most": None if ceiling is None else format_amount(ceiling),
        "note": "; ".join(_notes(row, known, renamed)) or None,
    }
    return {name: cells[name] for name in COLUMNS}


def _notes(row: PayoutRow, known: Known, renamed: Collection[str]) -> Iterator[str]:
    if row.row_ref in known.changed:
        yield f"this name was paid to another account before: {known.changed[row.row_ref]}, now {mask(row.account)}"
    elif row.row_ref in known.new:
        yield "first payment to this account"
    differs = "" if known.beside is None else known.beside.differs.get(row.row_ref, "")
    if row.row_ref in renamed and TWO_NAMES not in differs:
        yield TWO_NAMES
    if differs:
        yield differs
    if row.row_ref in known.holds:
        yield f"will be held: {known.holds[row.row_ref]}"
    elif row.row_ref in known.duplicates:
        meant = f"; the sheet says why: {row.duplicate_ok}" if row.duplicate_ok else ""
        yield f"looks like {known.duplicates[row.row_ref]}{meant}"
    if said := known.said.get(row.row_ref):
        yield said


def _under_two_names(rows: Iterable[PayoutRow]) -> frozenset[str]:
    """Rows whose account another row pays under another name, in whatever currency.

    Routes have codes of their own for one bank: on two of them an account of a country is one.
    """
    first: dict[str, str] = {}
    several: dict[str, list[PayoutRow]] = {}
    for row in rows:
        name, account = as_it_looks(row.payee_name), _account_of(row)
        if name and first.setdefault(account, name) != name:
            several[account] = []
    for row in rows if several else ():
        if row.payee_name and (account := _account_of(row)) in several:
            several[account].append(row)
    return frozenset(ref for some in several.values() for ref in _differently_named(some))


def _account_of(row: PayoutRow) -> str:
    return look_of_payee(row.payee_at(""))


def _differently_named(rows: Sequence[PayoutRow]) -> Iterator[str]:
    """Yield those of the rows of one account number that name somebody else than another row does."""
    of_payee: dict[tuple[Route, str], set[str]] = defaultdict(set)
    of_route: dict[Route, set[str]] = defaultdict(set)
    for row in rows:
        for names in (of_payee[row.route, row.payee], of_route[row.route]):
            names.add(as_it_looks(row.payee_name))
    for row in rows:
        others = (names for route, names in of_route.items() if route is not row.route)
        if any(names != {as_it_looks(row.payee_name)} for names in (of_payee[row.route, row.payee], *others)):
            yield row.row_ref


def _largest(rows: Iterable[PayoutRow]) -> list[str]:
    """Name the largest payments of each currency; amounts of different ones are not compared."""
    found: dict[str, list[tuple[Decimal, str]]] = {}
    for row in rows:
        amount, currency = row.amount, row.currency
        if amount is None:
            amount, currency = row.receive_amount or Decimal(0), row.receive_currency
        found.setdefault(currency, []).append((-amount, row.row_ref))
    largest = {currency: sorted(amounts)[:LARGEST] for currency, amounts in sorted(found.items())}
    return [row_ref for amounts in largest.values() for _, row_ref in amounts]


def shown_trades(run_key: str, plan: TradePlan, sha256: str, why: Sequence[str]) -> dict[str, Any]:
    """A rebalancing plan as an approver sees it."""
    rows = [
        {
            "row_ref": f"{trade.side.value} {trade.symbol}",
            "amount": format_amount(trade.amount),
            "currency": trade.currency,
            "receive_amount": format_amount(trade.expected_receive),
            "receive_currency": trade.receive_currency,
            "note": f"at {format_amount(trade.rate)}; at least {format_amount(trade.min_receive)} arrive",
        }
        for trade in plan.trades
    ]
    return {
        "kind": "rebalancing",
        "run_key": run_key,
        "payments": len(rows),
        "debits": _spent(plan),
        "plan_sha256": sha256,
        "why": list(why),
        "rows": [dict.fromkeys(COLUMNS) | row for row in rows],
    }


@exact
def _spent(plan: TradePlan) -> dict[str, str]:
    sums: dict[str, Decimal] = defaultdict(Decimal)
    for trade in plan.trades:
        sums[trade.currency] += trade.amount
    return {currency: format_amount(total) for currency, total in sorted(sums.items())}


def shown_single(
    run_key: str,
    name: str,
    fields: Mapping[str, Any],
    sha256: str,
    why: Sequence[str],
    warnings: Sequence[str],
    at_most: str | None,
) -> dict[str, Any]:
    """A single operation as an approver sees it; `fields`: its body on the wire."""
    said = [f"{key}: {value}" for key, value in sorted(fields.items()) if not isinstance(value, dict)]
    row = {
        "row_ref": name,
        "account": fields.get("address") or fields.get("account_no"),
        "payee": fields.get("account_name"),
        "bank": fields.get("network") or fields.get("bank_code"),
        "country": fields.get("country"),
        "amount": None if fields.get("amount") is None else str(fields["amount"]),
        "currency": fields.get("currency"),
        "at_most": None if at_most == fields.get("amount") else at_most,
        "note": "; ".join([*warnings, ", ".join(said)]),
    }
    return {
        "kind": "call",
        "run_key": run_key,
        "payments": 1,
        "plan_sha256": sha256,
        "why": list(why),
        "rows": [dict.fromkeys(COLUMNS) | row],
    }
