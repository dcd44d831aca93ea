"""`treasury runs` and `treasury show`: read the ledger, send nothing."""

from datetime import UTC, datetime

from flows.commands.common import DONE, configured_desk
from treasury.errors import InputError
from treasury.ledger.approvals import WaitingPlan, waiting_keys, waiting_plan
from treasury.orders.records import Order
from treasury.reports.results import in_words, result_row, summarize_run
from treasury.runs.desk import Desk

SHOWN_ORDERS = 200


def runs() -> int:
    """List the runs of the ledger, newest first, and what became of their orders."""
    ledger = configured_desk().ledger
    found = ledger.runs()
    for run in found:
        summary = summarize_run(run.run_key, run.kind, ledger.orders(run_key=run.run_key))
        print(f"{run.run_key}  {run.kind}  {_time(run.created_at)}  {in_words(summary)}")
    for key in waiting_keys(ledger):
        plan = waiting_plan(ledger, key)
        if plan is not None:
            print(f"{key}  {_waits(plan)}")
    print(f"{len(found)} runs")
    return DONE


def _waits(plan: WaitingPlan) -> str:
    return f"waits for {plan.needed} approval(s) of the plan {plan.sha256[:12]} that {plan.maker} made"


def show(reference: str, /) -> int:
    """Show an order, or all orders of a run.

    Parameters
    ----------
    reference:
        A run key, row reference, request id or order number.

    """
    desk = configured_desk()
    orders = desk.ledger.orders(reference=reference)
    plan = waiting_plan(desk.ledger, reference)
    if plan is not None:
        print(f"{reference}: {_waits(plan)}")
    if not orders and plan is None and desk.ledger.run(reference) is None:
        raise InputError(f"the ledger knows no {reference}")
    for order in orders[:SHOWN_ORDERS]:
        _show_order(desk, order, journal=len(orders) == 1)
    if len(orders) > SHOWN_ORDERS:
        print(f"and {len(orders) - SHOWN_ORDERS} more")
    print(in_words(summarize_run(reference, "", orders)))
    return DONE


def _show_order(desk: Desk, order: Order, *, journal: bool) -> None:
    if not journal:
        amount = "" if order.amount is None else f"  {order.amount:f} {order.currency}"
        reason = f"  {order.reason}" if order.reason else ""
        print(f"{order.row_ref}  {order.request_id}  {order.state.outcome}{amount}{reason}")
        return
    for name, value in {"run_key": order.run_key, **result_row(order)}.items():
        if value is not None:
            print(f"{name}: {value}")
    print(f"payment: {order.masked}")
    for entry in desk.ledger.journal(order):
        detail = "  ".join(str(part) for part in (entry.cause, entry.code and f"code {entry.code}") if part)
        print(
            f"  {_time(entry.at)}  {entry.source} -> {entry.target}  {entry.event}  {entry.process}  {detail}".rstrip()
        )


def _time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
