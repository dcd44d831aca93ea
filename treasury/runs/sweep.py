"""The sweep: asks the service about every order the ledger holds, lets the ledger catch up, reports both sides."""

import contextlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from treasury.desk import Desk
from treasury.errors import IllegalTransition, NotConnected, OutcomeUnknown, Refused
from treasury.interface.operation import SeenOrder
from treasury.ledger import sweeps
from treasury.ledger.records import Order
from treasury.runs.execution import CHUNK, in_parallel

DAY_MS = 24 * 3600 * 1000


def start_sweep(desk: Desk, *, run_key: str | None = None, window_days: int | None = None) -> int:
    """Begin a sweep over every request id the ledger holds; returns its id.

    Open and final orders alike, and quotes that were lost or never confirmed. `window_days` leaves out orders that
    became final longer ago; open ones are always asked.
    """
    since = None if window_days is None else desk.ledger.now() - window_days * DAY_MS
    orders = [
        order
        for order in desk.ledger.orders(run_key=run_key)
        if since is None or order.final_at is None or order.final_at >= since
    ]
    scope = {"run_key": run_key, "window_days": window_days}
    return sweeps.start_sweep(desk.ledger, scope, orders, desk.ledger.quotes())


def open_chunks(desk: Desk, sweep_id: int) -> list[list[int]]:
    """What the sweep has not asked yet, in chunks."""
    ids = sweeps.open_questions(desk.ledger, sweep_id)
    return [ids[start : start + CHUNK] for start in range(0, len(ids), CHUNK)]


def ask_orders(desk: Desk, ids: Sequence[int]) -> int:
    """Ask these questions of a sweep and record the answers; returns how many could be asked.

    The ledger catches up with what is seen. Nothing that moves money is sent.
    """
    asked = sweeps.questions(desk.ledger, ids)
    owners = [question.order_id for question in asked if question.order_id is not None]
    orders = {order.id: order for order in desk.ledger.orders(ids=owners)}
    sides = in_parallel(desk, lambda question: _ask(desk, question, orders.get(question.order_id or 0)), asked)
    sweeps.record_answers(desk.ledger, {question.id: side for question, side in zip(asked, sides, strict=True)})
    return sum(side["answer"] != "failed" for side in sides)


def _ask(desk: Desk, question: sweeps.Question, order: Order | None) -> dict[str, Any]:
    try:
        if order is None:
            seen = desk.submission.look_up(question.operation, question.request_id)
        else:
            seen = desk.submission.look(order)
    except (NotConnected, Refused, OutcomeUnknown) as error:
        return {"answer": "failed", "seen_reason": str(error)}
    if order is not None:
        with contextlib.suppress(IllegalTransition):  # its own run moved it meanwhile, and knows more than this answer
            desk.submission.learn(order, seen)
    return service_side(seen)


def service_side(seen: SeenOrder | None) -> dict[str, Any]:
    """The service's side of one order."""
    if seen is None:
        return {"answer": "absent"}
    return {
        "answer": "found",
        "status": None if seen.status is None else int(seen.status),
        "order_no": seen.order_no,
        "seen_currency": seen.currency,
        "seen_amount": seen.amount,
        "seen_receive_currency": seen.receive_currency,
        "seen_receive_amount": seen.receive_amount,
        "fee": seen.fee,
        "seen_reason": seen.reason,
    }


def report_sweep(desk: Desk, sweep_id: int, out: Path | None) -> Mapping[str, Any]:
    """Compare both sides of a sweep and write the report into a folder; returns its machine form with the paths."""
    import pandas as pd

    from treasury.reconciliation import COLUMNS, reconcile
    from treasury.reports.reconciliation import write_reconciliation

    frame = pd.DataFrame(sweeps.both_sides(desk.ledger, sweep_id), columns=list(COLUMNS), dtype=object)
    now = datetime.now(UTC)
    out = out or desk.settings.report_folder(now)
    return write_reconciliation(out, reconcile(frame), now.strftime("%Y-%m-%dT%H:%M:%SZ"))
