"""The lists, charts, sentences and verdict of page and workbook, picked out of the machine form of a report."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from treasury.orders.states import OUTCOMES

if TYPE_CHECKING:
    import pandas as pd

from treasury.money import ZERO, canonical, exact
from treasury.reconciliation.classes import BALANCE_CLASSES
from treasury.texts import count_of

Machine = Mapping[str, Any]
"""The machine form (`reconciliation.json`): amounts exact text, times UTC text, missing values None."""

IN_FLIGHT = ("in_progress", "pending_late", "unknown_outcome", "unclassified_status")
"""Classes of orders that are not final."""

LINES: Mapping[str, str] = {
    "opening_in_flight": "Opening in flight",
    "sent": "Sent",
    "arrived": "Arrived",
    "fees": "Fees, taken from it",
    "failed_and_returned": "Failed and returned",
    "closing_in_flight": "Closing in flight",
    "residual": "Residual",
    "fees_beside": "Fees beside",
    "breaks_gross": "Breaks, gross",
    "breaks_net": "Breaks, net",
}
"""The lines of the statement, as people read them."""

BALANCE_LINES: Mapping[str, str] = {
    "opening": "Opening balance",
    "closing": "Closing balance",
    "change": "Change",
    "explained_low": "Explained, at least",
    "explained_high": "Explained, at most",
    "unexplained": "Unexplained",
    "adjusted": "Accepted by a person",
}

JUDGEMENTS: Mapping[str, str] = {
    "explained": "explained",
    "inflow": "unexplained inflow",
    "outflow": "unexplained outflow",
    "first": "the account is opened with this balance",
    "unreadable": "could not be read",
}

AGES: Mapping[str, str] = {"0-1": "0-1 days", "2-7": "2-7 days", "8-30": "8-30 days", "over 30": "over 30 days"}

_FIRST, _LAST = "0000", "9999"
"""Sort before and after every time."""

MAX_ORDERS = 20_000
"""Rows of In flight and of Matched: a workbook that opens at once; `orders.csv` has all."""


@dataclass(frozen=True)
class Grid:
    """Counts by two things: `cells[row][column]`."""

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    cells: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Breaks:
    """Open, accepted and resolved breaks, each in the machine form's order (priority, then amount)."""

    open: Sequence[Mapping[str, Any]]
    accepted: Sequence[Mapping[str, Any]]
    resolved: Sequence[Mapping[str, Any]]


def sort_breaks(machine: Machine) -> Breaks:
    """Separate open breaks from accepted and resolved ones."""
    breaks = machine["breaks"]
    here = [each for each in breaks if each["lifecycle"] != "resolved"]
    return Breaks(
        open=[each for each in here if not each["accepted"]],
        accepted=[each for each in here if each["accepted"]],
        resolved=[each for each in breaks if each["lifecycle"] == "resolved"],
    )


def in_words(name: object) -> str:
    """A name of the machine form as people read it: `pending_late` is "pending late"."""
    return "" if name is None else str(name).replace("_", " ")


def orders_by_day(machine: Machine, max_days: int) -> Grid:
    """Orders by the day they were made and their outcome: the last `max_days`, days without orders among them."""
    counts: Counter[tuple[str, str]] = Counter()
    for entry in machine["by_day"]:
        counts[entry["day"], entry["outcome"]] += entry["orders"]
    days = _days({day for day, _ in counts}, max_days)
    shown = {outcome for day, outcome in counts if day in set(days)}
    outcomes = tuple(_known_first(OUTCOMES, shown))
    return Grid(days, outcomes, tuple(tuple(counts[day, outcome] for outcome in outcomes) for day in days))


def _days(found: set[str], most: int) -> tuple[str, ...]:
    if not found:
        return ()
    last = date.fromisoformat(max(found))
    first = max(date.fromisoformat(min(found)), last - timedelta(days=most - 1))
    return tuple((first + timedelta(days=n)).isoformat() for n in range((last - first).days + 1))


def breaks_by_age(machine: Machine) -> Grid:
    """Open breaks by class (in order of priority) and age."""
    counts = Counter((each["class"], each["age_bucket"]) for each in sort_breaks(machine).open)
    classes = tuple(_known_first(tuple(machine["counts"]), {name for name, _ in counts}))
    ages = tuple(_known_first(tuple(AGES), {*AGES, *(age for _, age in counts)}))
    return Grid(classes, ages, tuple(tuple(counts[name, age] for age in ages) for name in classes))


def _known_first(order: Sequence[str], found: set[str]) -> Iterable[str]:
    yield from (name for name in order if name in found)
    yield from sorted(found - set(order))


@dataclass(frozen=True)
class Spread:
    """How far the rates of a pair lay from their average, in basis points (for drawing: two decimals)."""

    pair: str
    lowest_bps: Decimal
    highest_bps: Decimal


def rate_spreads(machine: Machine) -> list[Spread]:
    """The spread of each pair's rates; a pair whose average is zero has none."""
    return [
        Spread(each["pair"], _bps(each["lowest"], each["average"]), _bps(each["highest"], each["average"]))
        for each in machine["rates"]
        if Decimal(each["average"])
    ]


def _bps(rate: str, average: str) -> Decimal:
    return ((Decimal(rate) / Decimal(average) - 1) * 10_000).quantize(Decimal("0.01"))


class ListedOrders:
    """The orders that workbook and page list, of those that are added a part at a time, in any order.

    `flying`: those that are not final, the oldest first. `matched`: those on which both sides agree, the newest first.
    """

    def __init__(self) -> None:
        self.flying = Listed("sent_at", "created_at", newest_first=False)
        self.matched = Listed("created_at", newest_first=True)

    def add(self, orders: "pd.DataFrame") -> None:
        """Add orders as people see them: both sides and `class`, times as text."""
        self.flying.add(orders[orders["class"].isin(IN_FLIGHT)])
        self.matched.add(orders[orders["class"] == "matched"])


class Listed:
    """The first `MAX_ORDERS` orders by time and request id; `count`: how many there are."""

    def __init__(self, *times: str, newest_first: bool) -> None:
        self._times = times
        self._newest_first = newest_first
        self._kept: pd.DataFrame | None = None
        self.count = 0

    def add(self, orders: "pd.DataFrame") -> None:
        """Add orders; what cannot be among the first any more is dropped."""
        import pandas as pd

        self.count += len(orders)
        at = orders[self._times[0]]
        for time in self._times[1:]:
            at = at.where(at.notna(), orders[time])
        orders = orders.assign(_at=at.fillna(_FIRST if self._newest_first else _LAST))
        if self._kept is not None and len(self._kept) == MAX_ORDERS:  # a cheap cut before the sort
            last = self._kept["_at"].iloc[-1]
            orders = orders[orders["_at"] >= last if self._newest_first else orders["_at"] <= last]
        if not orders.empty:
            both = orders if self._kept is None else pd.concat([self._kept, orders])
            both = both.sort_values(["_at", "request_id"], ascending=[not self._newest_first, True], ignore_index=True)
            self._kept = both.head(MAX_ORDERS)

    def first(self, most: int, columns: Sequence[str] | None = None) -> list[dict[str, Any]]:
        """Return the first orders, at most so many, with these columns or all."""
        if self._kept is None:
            return []
        shown = self._kept.head(most)
        return records(shown.drop(columns="_at") if columns is None else shown[list(columns)])


def records(orders: "pd.DataFrame") -> list[dict[str, Any]]:
    """The rows of a frame as values: text, or None where there is none, whichever way the frame says so."""
    found: list[dict[str, Any]] = orders.astype(object).where(orders.notna(), None).to_dict("records")  # type: ignore[assignment]
    return found


def headline(machine: Machine) -> str:
    """The verdict as one sentence."""
    orders = machine["orders"]
    stand = len(sort_breaks(machine).open)
    on_the_way = sum(machine["counts"].get(name, 0) for name in IN_FLIGHT)
    said = {
        "incomplete": "Incomplete: this report cannot be signed yet",
        "breaks": f"{count_of(stand, 'break')} to clear",
        "warnings": f"Nothing is broken; {count_of(stand, 'item')} to look at",
        "pending": f"Nothing is wrong; {count_of(on_the_way, 'order') if on_the_way else 'money is'} still on the way",
        "reconciled": f"Both sides agree on {count_of(orders, 'order')}",
    }
    if not orders and machine["verdict"] == "reconciled":
        return "Nothing to reconcile: the ledger holds no orders here"
    return said.get(machine["verdict"], in_words(machine["verdict"]))


def missed(machine: Machine) -> list[str]:
    """Say which days no report of everything was made on; empty if it was made on each."""
    days = machine["missed_days"]
    named = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}" if days else ""
    return [f"No report of everything was made on {count_of(len(days), 'day')}: {named}."] if days else []


def narrowed(machine: Machine) -> list[str]:
    """Say that the report is narrowed; empty if it is not."""
    is_whole = all(machine["scope"][name] is None for name in ("run_key", "currency", "window_days"))
    return [] if is_whole else ["This report is narrowed: it reads no balances and ends no break."]


def not_asked(machine: Machine) -> list[str]:
    """Say how many orders the policy left out, and when they are asked about; empty if none."""
    left_out = machine["not_asked"]
    if not left_out["orders"]:
        return []
    count = count_of(left_out["orders"], "order")
    return [f"{count} not asked about, so a payment of theirs that came back is not known yet ({left_out['rule']})."]


def older(machine: Machine) -> list[str]:
    """Say that the ledger may know less than the service; empty if nothing says so."""
    if (why := machine["older"]) is None:
        return []
    return [f"This ledger may know less than the service, because {why}. Compare with the service's own list."]


def before_all(machine: Machine) -> list[str]:
    """Say first what did not happen, and what the report may not know."""
    return [*older(machine), *missed(machine), *narrowed(machine), *not_asked(machine)]


def reasons(machine: Machine) -> list[str]:
    """Say what, apart from the breaks, keeps the verdict from being green."""
    found = before_all(machine)
    found += [
        f"The sums of {line['currency']} leave {line['residual']} unexplained."
        for line in machine["statement"]
        if line["residual"] is not None and line["residual"].strip("-0.")
    ]
    for balance in machine["balances"]:
        if balance["judgement"] in ("inflow", "outflow"):
            found.append(f"Balance of {balance['currency']}: {_unexplained(machine, balance)}.")
        elif balance["judgement"] == "unreadable":
            found.append(f"Balance of {balance['currency']}: {JUDGEMENTS[balance['judgement']]}.")
    return found


@exact
def _unexplained(machine: Machine, balance: Mapping[str, Any]) -> str:
    """Say what is unexplained of a balance: what left and what came in, where there is both, for neither pays the other
    back."""
    sums = dict.fromkeys(BALANCE_CLASSES, ZERO)
    for each in sort_breaks(machine).open:
        if each["class"] in sums and each["currency"] == balance["currency"] and each["amount"] is not None:
            sums[each["class"]] += abs(Decimal(each["amount"]))
    if all(sums.values()):
        left, came = (canonical(sums[name]) for name in BALANCE_CLASSES)
        return f"{left} left and {came} came in unexplained"
    return f"{JUDGEMENTS[balance['judgement']]} of {balance['unexplained'] or 'an unknown amount'}"


def first_step(machine: Machine) -> Mapping[str, Any] | None:
    """The break to begin with: the first open one. None when there is none."""
    stand = sort_breaks(machine).open
    return stand[0] if stand else None


def scope_in_words(machine: Machine) -> str:
    """Return what was compared: "run payroll-2026-11, currency PHP", or "everything the ledger holds"."""
    scope = machine["scope"]
    parts = [
        f"run {scope['run_key']}" if scope["run_key"] else "",
        f"currency {scope['currency']}" if scope["currency"] else "",
        f"final orders of the last {scope['window_days']} days" if scope["window_days"] is not None else "",
        f"statement {scope['statement']}" if scope["statement"] else "",
    ]
    return ", ".join(part for part in parts if part) or "everything the ledger holds"
