"""The verdict in words: what it is, why, and what to do first."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from treasury.money import ZERO, canonical, exact
from treasury.reconciliation.classes import BALANCE_CLASSES
from treasury.reports.figures import IN_FLIGHT, JUDGEMENTS, Machine, in_words, sort_breaks
from treasury.texts import count_of


def headline(machine: Machine) -> str:
    """The verdict as one sentence."""
    orders = machine["orders"]
    stand = len(sort_breaks(machine).open)
    on_the_way = sum(machine["counts"].get(name, 0) for name in IN_FLIGHT)
    said = {
        "incomplete": "Incomplete: this report cannot be signed yet",
        "breaks": f"{count_of(stand, 'break')} to clear",
        "warnings": f"Nothing is broken; {count_of(stand, 'item')} to look at",
        "pending": f"Nothing is wrong; {count_of(on_the_way, 'order')} still on the way",
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
