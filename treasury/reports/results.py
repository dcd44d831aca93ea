"""Results of a run: what became of each row, in words that people can act on."""

import csv
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any

from treasury.files import copy_file, write_json
from treasury.ledger.debits import CONVERSION
from treasury.ledger.quotes import USED_UP
from treasury.money import exact, format_amount
from treasury.orders.payment_decisions import settled_amount, was_paid
from treasury.orders.records import CALL, Order
from treasury.orders.rows import COMMANDS, LeftOut
from treasury.orders.states import OUTCOMES, Hold, State
from treasury.reports.details import COLUMNS as DETAILS
from treasury.reports.details import Details
from treasury.reports.spreadsheets import ResultBook
from treasury.reports.starts import start_folder
from treasury.sheets.writing import write_csv
from treasury.texts import with_person, without_markup

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
    "approved_by",
    *DETAILS,
)

PAY_AGAIN = "treasury {command} --only-failed-of {run_key} --run-key {run_key}-again"
"""The command that pays what ended unpaid of a run."""

NEXT_ACTIONS: Mapping[str, str] = {
    "settled": "none",
    "in_progress": "none: the service works on it, and the nightly reconciliation follows it",
    "unknown": "wait: it may have been paid; the next start of this run and every night ask about it; to ask now: "
    "treasury reconcile",
    "failed": "find out why, correct it in remaining.csv and pay that, or pay it as it is: " + PAY_AGAIN,
    "closed": "find out why, correct it in remaining.csv and pay that, or pay it as it is: " + PAY_AGAIN,
    "rejected": "correct the cause, in remaining.csv where it is the row, and pay it: " + PAY_AGAIN,
    "cancelled": "none: it is never sent; a new run may pay it",
    "held": "a person has to decide about it",
    "not_sent": "start the same run again: it is sent then",
}
"""Outcome -> what happens or is to be done next."""

NOT_KEPT = (
    "find out why; the ledger keeps its content no more: copy its other columns into remaining.csv from the sheet that "
    "it was paid from, and pay that under a run key of its own"
)
"""The next action of a row that ended unpaid and of which no command can make the sheet again: it arrived first and
came back, or is old."""

CONVERSION_ACTIONS: Mapping[str, str] = {
    **NEXT_ACTIONS,
    **dict.fromkeys(("failed", "closed", "rejected"), "find out why; the next start plans anew what is still needed"),
    "cancelled": "none: it is never sent; the next start plans anew what is still needed",
    "not_sent": "start it again: it is sent then, or planned anew where less of it is needed",
}
"""Outcome of a conversion, which is never put into a sheet -> what to do next."""

STAYED = ("not_sent", "held", "cancelled")
"""Outcomes of what never left."""

NOT_FUNDED = "not funded: "
"""How the reason of a row begins that waits for money."""

ABOVE_CEILING = "the quote's pay amount is "
"""How the reason of a row begins whose quote asked more than its plan allows."""

DEARER = "its code costs "
"""How the reason of a row begins whose QR code costs more than its plan allows for."""

UNSENT_ACTIONS: Mapping[str, str] = {
    NOT_FUNDED: "see to what its reason names, then start the same run again",
    ABOVE_CEILING: "start the same run again once its quote asks less; or treasury cancel {request_id}{said}, and "
    "pay it under another run key with a higher max_pay_amount",
    DEARER: "start the same run again once it costs less; or treasury cancel {request_id}{said}, and pay it under "
    "another run key with a higher max_pay_amount",
    USED_UP: "no start sends it any more: treasury resolve {request_id} --as not-sent{said} ends this row; then pay it "
    "under another run key, with what its reason names changed",
}
"""How the reason of a row begins that was not sent -> what a person does about it."""

IN_VAIN = "do what its reason says: the service may never show how it ended"
"""The next action of a row whose reason names `treasury resolve`, for the service does not show it."""

DISPUTED = (
    "the service shows its end with another amount or currency than was sent: ask its support, then "
    "treasury resolve {request_id} --as {end}"
)
"""The next action of a row that no waiting ends."""

EXCUSED = " (where the policy lists nobody, duplicate_ok in its row does it, too)"

HELD_ACTIONS: Mapping[str, str] = {
    Hold.DUPLICATE: f"if it is meant: treasury release {{request_id}}{EXCUSED}, and start the run again; if it is not "
    "to be paid: treasury cancel {request_id}",
    Hold.LIMIT: "to have it judged again, on another day or under another policy: treasury release {request_id}, and "
    "start the run again; if it is not to be paid: treasury cancel {request_id}",
    Hold.COOLING: "start its run, or send the call, again after its cooling time; to send it now: treasury release "
    "{request_id} first; if it is not to be paid: treasury cancel {request_id}",
    Hold.KNOWN: "look at the service's portal, or ask its support; if it was paid: treasury resolve {request_id} --as "
    "sent; if it never will be: treasury resolve {request_id} --as failed, or --as not-sent to send it",
    Hold.CHANGED: "find out who changed the ledger; if it never left: treasury cancel {request_id}; else: treasury "
    "resolve {request_id} --as sent, settled or failed",
    Hold.PAYEE: "ask the payee, by a way that you know, whether the account is theirs; then treasury release "
    "{request_id}, and start the run again; if it is not to be paid: treasury cancel {request_id}",
    Hold.REPLACED: "look what became of the payment that it replaces; if it was paid: treasury cancel {request_id}; if "
    "not: treasury release {request_id}, and start the run again",
    Hold.OLDER: "look whether it was paid meanwhile; then treasury release {run_key}, and start the run again; "
    "if it is not to be paid: treasury cancel {request_id}",
}
"""Why an order is held -> what a person does about it."""

UNPAID = ("failed", "closed", "rejected")
"""Outcomes of what left, or was to leave, and was not paid."""

BAD_OUTCOMES = ("rejected", "failed", "closed", "cancelled", "held", "unknown", "not_sent")
"""Outcomes of orders for which a finished run ends with code 4."""

BAD_INVOICES = ("underpaid", "overpaid", "expired")
"""Those of invoices besides."""


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

    def over_unsent(self, rows: Iterable[Mapping[str, object]]) -> Iterator[Mapping[str, object]]:
        """Rows of what was wanted and never recorded, each counted as it passes."""
        for row in rows:
            self._counts[str(row["outcome"])] += 1
            yield row

    @exact
    def _take(self, order: Order) -> None:
        self._counts[order.state.outcome] += 1
        amount = settled_amount(order) if order.state is State.SETTLED else order.amount
        if order.currency is not None and amount is not None:
            self._sums[order.currency][order.state.outcome] += amount

    def as_dict(self, run_key: str, kind: str) -> dict[str, Any]:
        """Return what passed by, amounts as text."""
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


TOLD_AGAIN = ("unknown", "held")
"""Outcomes of conversions of earlier starts that a start tells again: somebody has to see to them."""


def needs_a_person(summary: Mapping[str, Any]) -> bool:
    """Tell whether rows of a finished run ended otherwise than meant, or were left out, or more was debited than was
    allowed for, or a balance did not move by its trades, or nobody knows what became of a conversion."""
    return (
        any(summary.get(name) for name in ("left_out", "breaks", "stopped"))
        or any(summary["counts"].get(outcome) for outcome in (*BAD_OUTCOMES, *BAD_INVOICES))
        or any(summary.get("conversions", {}).get(outcome) for outcome in TOLD_AGAIN)
    )


def in_words(summary: Mapping[str, Any]) -> str:
    """The counts as one line: "28 settled, 2 in progress"."""
    counts = {"settled": 0, **summary["counts"]} if summary.get("orders") else summary["counts"]
    if summary.get("left_out"):
        counts = {**counts, "left out": len(summary["left_out"])}
    for outcome in TOLD_AGAIN:
        if count := summary.get("conversions", {}).get(outcome):
            counts = {**counts, "conversion " + outcome if count == 1 else "conversions " + outcome: count}
    if breaks := len(summary.get("breaks", ())):
        counts = {**counts, "balance break" if breaks == 1 else "balance breaks": breaks}
    said = ", ".join(f"{count} {outcome.replace('_', ' ')}" for outcome, count in counts.items())
    return said or "nothing to do"


def has_left(summary: Mapping[str, Any]) -> bool:
    """Tell whether the service was sent anything of what a summary counts, conversions for it included."""
    return any(outcome not in STAYED for outcome in (*summary["counts"], *summary.get("conversions", {})))


def next_action(order: Order, by: Order | None = None, *, is_listed: bool | None = None) -> str:
    """Return what happens to an order next, or is to be done about it. `by`: the payment that replaces it.

    `is_listed`: the policy in force lists people, so that keys count, and no names; None where it is not known.
    """
    said = _action(order, by)
    if order.run_key.startswith(CALL):
        said = _RUN_AGAIN.sub("send the same call again", said.replace(EXCUSED, ""))
    return with_person(said, is_listed=is_listed)


_RUN_AGAIN = re.compile("start the (same )?run again")


def _action(order: Order, by: Order | None) -> str:
    if by is not None:
        how = REPLACED.get(by.state.outcome, "is to be paid as {row_ref} of {run_key}: treasury show {run_key}")
        return how.format(row_ref=by.row_ref, run_key=by.run_key)
    is_disputed = order.state is State.UNKNOWN and order.status is not None and order.status.is_final
    left = order.state in (State.UNKNOWN, State.ACCEPTED)
    is_in_vain = left and f"treasury resolve {order.request_id} " in (order.reason or "")
    decision = DISPUTED if is_disputed else IN_VAIN if is_in_vain else HELD_ACTIONS.get(order.hold_kind or "")
    if decision is not None:
        end = "settled" if was_paid(order) else "failed"
        return decision.format(request_id=order.request_id + SAID, run_key=order.run_key + SAID, end=end)
    for reason, action in UNSENT_ACTIONS.items() if order.state is State.PREPARED else ():
        if (order.reason or "").startswith(reason):
            return action.format(request_id=order.request_id, said=SAID)
    if order.run_key.startswith(CALL) and order.state.outcome in UNPAID:
        return "find out why, correct it, and send it under another reference"
    if order.payload is None and order.operation != CONVERSION and order.state.outcome in UNPAID:
        return NOT_KEPT
    actions = CONVERSION_ACTIONS if order.operation == CONVERSION else NEXT_ACTIONS
    command = COMMANDS.get(order.operation, "pay")
    return actions[order.state.outcome].format(run_key=order.run_key, command=command)


SAID = " --by NAME --why TEXT"
"""The options that each decision of a person takes."""

REPLACED: Mapping[str, str] = {
    "settled": "none: paid as {row_ref} of {run_key}",
    "in_progress": "none: is being paid as {row_ref} of {run_key}",
    "cancelled": "none: it was to be paid as {row_ref} of {run_key}, and that was cancelled",
}
"""Outcome of the payment that replaces one -> what is said of the one that it replaces."""


MAX_SHOWN_ROWS = 200
"""Rows of a run that Prefect shows; `results.csv` has all."""


def rows_for_people(orders: Iterable[Order], *, is_listed: bool | None = None) -> list[dict[str, str]]:
    """The rows of a run as a table of a few columns: those that need a person first, at most `MAX_SHOWN_ROWS`."""
    bad: list[dict[str, str]] = []
    good: list[dict[str, str]] = []
    for order in orders:
        rows = bad if order.state.outcome in BAD_OUTCOMES else good
        if len(rows) < MAX_SHOWN_ROWS:
            row = result_row(order, is_listed=is_listed)
            rows.append({name: _shown(value) for name, value in row.items() if name in SHOWN_COLUMNS})
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
    lines += [f"| left out | {len(summary['left_out'])} |"] if summary.get("left_out") else []
    lines += ["", "| currency | outcome | sum |", "|---|---|---:|"]
    lines += [
        f"| {currency} | {outcome.replace('_', ' ')} | {total} |"
        for currency, sums in summary["sums"].items()
        for outcome, total in sums.items()
    ]
    lines += [f"\n{summary[name]}" for name in ("rehearsal", "approvals") if summary.get(name)]
    if summary.get("approved_by"):
        lines.append(f"\nApproved by {without_markup(', '.join(summary['approved_by']))}.")
    lines += ["", *(f"- `{file}`" for file in summary["files"])]
    return "\n".join(lines) + "\n"


def result_row(order: Order, by: Order | None = None, *, is_listed: bool | None = None) -> dict[str, object]:
    """One line of `results.csv`. `by` and `is_listed` as for `next_action`."""
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
        "next_action": next_action(order, by, is_listed=is_listed),
    }


def write_run_results(
    out: Path,
    run_key: str,
    kind: str,
    orders: Iterable[Order],
    *,
    rows: Collection[str] | None = None,
    marks: "Marks | None" = None,
    files: Iterable[Path] = (),
    details: Details = Details(),
    unsent: Iterable[Mapping[str, object]] = (),
    left_out: Sequence[LeftOut] = (),
    left_out_now: int = 0,
    replaced: Mapping[str, Order] = MappingProxyType({}),
    **more: Any,
) -> Mapping[str, Any]:
    """Write `results.csv`, `results.xlsx` and `run.json` of a whole run into a folder, and into that of this start.

    `unsent`: rows of what was wanted and never recorded. Returns the summary of these rows, of all where none are
    given, with the paths of both files and of `files` that were written before, and `more`. `left_out`: rows that are
    not in the run; of these the summary has the first `left_out_now`. `replaced`: request id -> the payment that is
    made instead.
    """
    results, totals, asked, own = out / "results.csv", Totals(), Totals(), start_folder(out)
    marks = marks or Marks()
    mark = {"rehearsal": REHEARSAL if marks.rehearsal else None}
    chosen = asked.over(totals.over(orders), rows)
    recorded = (
        {
            **result_row(order, replaced.get(order.request_id), is_listed=marks.is_listed),
            **mark,
            "approved_by": marks.of_row(order.created_at),
            **details.cells(order),
        }
        for order in chosen
    )
    wanted = (dict.fromkeys(COLUMNS) | mark | dict(row) for row in asked.over_unsent(totals.over_unsent(unsent)))
    lines = chain(recorded, wanted)
    book = ResultBook(out / "results.xlsx")
    write_csv(results, COLUMNS, book.over(COLUMNS, lines))
    book.finish()
    written = [results, out / "results.xlsx", out / "run.json", *files]
    more |= {"files": [str(each) for each in written], **marks.as_dict()}
    full = {**totals.as_dict(run_key, kind), **_left_out(left_out), **more}
    write_json(out / "run.json", full)
    for name in ("results.csv", "results.xlsx"):
        copy_file(out / name, own / name)
    write_json(own / "run.json", full)
    return {**asked.as_dict(run_key, kind), **_left_out(left_out[:left_out_now]), **more}


def earlier_results(folder: Path) -> list[dict[str, str]]:
    """The rows of `results.csv` in a folder; none where there is none, or it cannot be read."""
    try:
        with (folder / "results.csv").open(encoding="utf-8", newline="") as file:
            return [row for row in csv.DictReader(file) if row.get("request_id")]
    except (OSError, ValueError, csv.Error):
        return []


def _left_out(rows: Sequence[LeftOut]) -> dict[str, Any]:
    return {"left_out": [each.as_dict() for each in rows]} if rows else {}


@dataclass(frozen=True)
class Marks:
    """The marks on every row of a run's results."""

    rehearsal: bool = False
    approved_by: tuple[str, ...] = ()
    approvals: str | None = None
    """How approvals of this account are given, in words."""
    stopped: str | None = None
    """Why nothing more of the run is sent; None while it is."""
    approvers: tuple[tuple[int, tuple[str, ...]], ...] = ()
    """Since when, Unix ms, rows were recorded with the approvals of these people, the earliest first."""
    is_listed: bool | None = None
    """True: the policy in force lists people, whose keys count. None where it is not known."""

    def of_row(self, recorded_at: int) -> str | None:
        """Return who approved a row that was recorded at a time, Unix ms; None where nobody did."""
        names = next((names for since, names in reversed(self.approvers) if since <= recorded_at), ())
        return ", ".join(names) or None

    def as_dict(self) -> dict[str, Any]:
        """Return what `run.json` says of it."""
        found: dict[str, Any] = {"rehearsal": REHEARSAL} if self.rehearsal else {}
        found |= {"approved_by": list(self.approved_by)} if self.approved_by else {}
        found |= {"approvals": self.approvals} if self.approvals else {}
        return found | ({"stopped": self.stopped} if self.stopped else {})


REHEARSAL = "REHEARSAL: no policy was in force when payments of this ledger were recorded"
"""The remark that plans, results and reports of such a ledger carry."""
