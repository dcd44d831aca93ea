"""Pure: the payments of a run beside those of the last run that paid the same people."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from treasury.money import exact, format_amount, sums_of

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
