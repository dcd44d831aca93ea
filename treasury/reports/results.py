"""Results of a run: what became of each row, in words that people can act on."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

from treasury.files import copy_file, write_json
from treasury.money import exact, format_amount
from treasury.orders.records import Order
from treasury.orders.states import OUTCOMES, Hold
from treasury.reports.starts import end_start, start_folder
from treasury.sheets.writing import write_csv

COLUMNS = (
    "row_ref",
    "request_id",
    "outcome",
    "status",
    "reason",
    "order_no",
    "currency",
    "amount",
    "receive_currency",
    "receive_amount",
    "fee",
    "fee_currency",
    "rate",
    "operation",
    "code",
    "next_action",
    "rehearsal",
)

NEXT_ACTIONS: Mapping[str, str] = {
    "settled": "none",
    "in_progress": "none: the service works on it, and the nightly reconciliation follows it",
    "unknown": "wait: it may have been paid; it is asked about at the next start of this run and every night",
    "failed": "find out why, correct it, and put it into a new run",
    "closed": "find out why, correct it, and put it into a new run",
    "rejected": "correct the cause, and put it into a new run",
    "cancelled": "none: it is never sent; a new run may pay it",
    "held": "a person has to decide about it",
    "not_sent": "start the same run again: it is sent then",
}
"""Outcome -> what happens or is to be done next."""

HELD_ACTIONS: Mapping[str, str] = {
    Hold.DUPLICATE: "if it is meant: treasury release {request_id}, or say why in duplicate_ok, and start the run "
    "again; if it is not to be paid: treasury cancel {request_id}",
    Hold.LIMIT: "to have it judged again, on another day or under another policy: treasury release {request_id}, and "
    "start the run again; if it is not to be paid: treasury cancel {request_id}",
    Hold.COOLING: "send it again after its cooling time; to send it now: treasury release {request_id}, and send it "
    "again; if it is not to be paid: treasury cancel {request_id}",
    Hold.KNOWN: "look at the service's portal; if it was paid: treasury resolve {request_id} --as sent",
    Hold.OLDER: "look whether it was paid meanwhile; then treasury release {run_key}, and start the run again; "
    "if it is not to be paid: treasury cancel {request_id}",
}
"""Why an order is held -> what a person does about it; each command wants --by NAME --why TEXT, too."""

BAD_OUTCOMES = ("rejected", "failed", "closed", "cancelled", "held", "unknown", "not_sent")
"""Outcomes for which a finished run ends with code 4."""


class Totals:
    """Counts by outcome and sums by currency and outcome of orders that pass by."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._sums: dict[str, dict[str, Decimal]] = defaultdict(lambda: defaultdict(Decimal))

    def over(self, orders: Iterable[Order], rows: Collection[str] | None = None) -> Iterator[Order]:
        """These orders, each counted as it passes; only those of these rows, if any are given."""
        for order in orders:
            if rows is None or order.row_ref in rows:
                self._take(order)
            yield order

    @exact
    def _take(self, order: Order) -> None:
        self._counts[order.state.outcome] += 1
        if order.currency is not None and order.amount is not None:
            self._sums[order.currency][order.state.outcome] += order.amount

    def as_dict(self, run_key: str, kind: str) -> dict[str, Any]:
        """What passed by, amounts as text."""
        return {
            "run_key": run_key,
            "kind": kind,
            "orders": self._counts.total(),
            "counts": {outcome: self._counts[outcome] for outcome in OUTCOMES if self._counts[outcome]},
            "sums": {
                currency: {outcome: format_amount(total) for outcome, total in sorted(by_outcome.items())}
                for currency, by_outcome in sorted(self._sums.items())
            },
        }


def summarize_run(run_key: str, kind: str, orders: Iterable[Order]) -> dict[str, Any]:
    """Counts by outcome and sums by currency and outcome, amounts as text."""
    totals = Totals()
    for _ in totals.over(orders):
        pass
    return totals.as_dict(run_key, kind)


def in_words(summary: Mapping[str, Any]) -> str:
    """The counts as one line: "28 settled, 2 in progress"."""
    counts = {"settled": 0, **summary["counts"]} if summary.get("orders") else summary["counts"]
    said = ", ".join(f"{count} {outcome.replace('_', ' ')}" for outcome, count in counts.items())
    return said or "nothing to do"


def next_action(order: Order) -> str:
    """What happens to an order next, or is to be done about it."""
    if order.hold_kind is not None and order.hold_kind in HELD_ACTIONS:
        return HELD_ACTIONS[order.hold_kind].format(request_id=order.request_id, run_key=order.run_key)
    return NEXT_ACTIONS[order.state.outcome]


MAX_SHOWN_ROWS = 200
"""Rows of a run that Prefect shows; `results.csv` has all."""


def rows_for_people(orders: Iterable[Order]) -> list[dict[str, str]]:
    """The rows of a run as a table of a few columns: those that need a person first, at most `MAX_SHOWN_ROWS`."""
    bad: list[dict[str, str]] = []
    good: list[dict[str, str]] = []
    for order in orders:
        rows = bad if order.state.outcome in BAD_OUTCOMES else good
        if len(rows) < MAX_SHOWN_ROWS:
            rows.append({name: _shown(value) for name, value in result_row(order).items() if name in SHOWN_COLUMNS})
    return (bad + good)[:MAX_SHOWN_ROWS]


SHOWN_COLUMNS = ("row_ref", "request_id", "outcome", "currency", "amount", "rate", "fee", "reason", "next_action")


def _shown(value: object) -> str:
    if value is None:
        return ""
    return format_amount(value) if isinstance(value, Decimal) else str(value)


def run_as_markdown(summary: Mapping[str, Any]) -> str:
    """A run's page: what became of its rows, and the sums by currency and outcome."""
    lines = [f"# Run {summary['run_key']}: {in_words(summary)}", "", "| outcome | rows |", "|---|---:|"]
    lines += [f"| {outcome.replace('_', ' ')} | {count} |" for outcome, count in summary["counts"].items()]
    lines += ["", "| currency | outcome | sum |", "|---|---|---:|"]
    lines += [
        f"| {currency} | {outcome.replace('_', ' ')} | {total} |"
        for currency, sums in summary["sums"].items()
        for outcome, total in sums.items()
    ]
    lines += ["", *(f"- `{file}`" for file in summary["files"])]
    return "\n".join(lines) + "\n"


def result_row(order: Order) -> dict[str, object]:
    """One line of `results.csv`."""
    outcome = order.state.outcome
    is_charged = outcome in ("settled", "in_progress", "unknown")  # of what came back nothing was kept
    return {
        "row_ref": order.row_ref,
        "request_id": order.request_id,
        "outcome": outcome,
        "status": None if order.status is None else int(order.status),
        "reason": order.reason,
        "order_no": order.order_no,
        "currency": order.currency,
        "amount": order.amount,
        "receive_currency": order.receive_currency,
        "receive_amount": order.receive_amount,
        "fee": order.fee if is_charged else None,
        "fee_currency": order.fee_currency if is_charged else None,
        "rate": order.rate,
        "operation": order.operation,
        "code": order.code,
        "next_action": next_action(order),
    }


def write_run_results(
    out: Path,
    run_key: str,
    kind: str,
    orders: Iterable[Order],
    *,
    rows: Collection[str] | None = None,
    rehearsal: bool = False,
    **more: Any,
) -> Mapping[str, Any]:
    """Write `results.csv` and `run.json` of a whole run into a folder, and into the one of this start.

    Returns the summary of these rows, of all where none are given, with the paths of both files and `more`.
    """
    results, totals, asked, own = out / "results.csv", Totals(), Totals(), start_folder(out)
    mark = {"rehearsal": REHEARSAL if rehearsal else None}
    chosen = asked.over(totals.over(orders), rows)
    write_csv(results, COLUMNS, ({**result_row(order), **mark} for order in chosen))
    more |= {"files": [str(results), str(out / "run.json")], **({"rehearsal": REHEARSAL} if rehearsal else {})}
    full = {**totals.as_dict(run_key, kind), **more}
    write_json(out / "run.json", full)
    copy_file(results, own / "results.csv")
    write_json(own / "run.json", full)
    end_start()
    return {**asked.as_dict(run_key, kind), **more}


REHEARSAL = "REHEARSAL: no policy was in force when payments of this ledger were recorded"
"""What plans, results and reports of such a ledger say."""
