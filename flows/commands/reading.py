"""`treasury runs`, `show`, `results`, `payees` and `payee`: read the ledger, send nothing."""

from datetime import UTC, datetime
from typing import Annotated

from cyclopts import Parameter

from flows.commands.approving import show_waiting
from flows.commands.common import DONE, OutFolder, configured_desk, finish_run
from treasury.errors import InputError
from treasury.ledger.approvals import ended_plans, waiting_plan, waiting_plans, why_ended
from treasury.ledger.approved_plans import approved_by
from treasury.ledger.funding_runs import rounds_of
from treasury.ledger.known_payees import payees as all_payees
from treasury.ledger.known_payees import payments_to, shown_account
from treasury.ledger.proposals import WaitingPlan
from treasury.ledger.replacements import replacing
from treasury.ledger.snapshots import expected_receipts
from treasury.money import format_amount
from treasury.orders.payment_decisions import settled_amount
from treasury.orders.quoting import PAYMENTS
from treasury.orders.records import Order
from treasury.orders.states import State
from treasury.pay.payouts import write_results_anew
from treasury.payments.desk import Desk
from treasury.payments.execution import check_run_key
from treasury.payments.governing import governing
from treasury.reports.results import in_words, result_row, summarize_run
from treasury.texts import count_of

SHOWN_ORDERS = 200


def runs() -> int:
    """List the runs of the ledger, newest first, and what became of their orders."""
    ledger = configured_desk().ledger
    found = ledger.runs()
    for run in found:
        summary = summarize_run(run.run_key, run.kind, ledger.orders(run_key=run.run_key))
        print(f"{run.run_key}  {run.kind}  {_time(run.created_at)}  {in_words(summary)}")
    for plan in waiting_plans(ledger):
        print(f"{plan.run_key}  {_waits(plan)}")
    for run_key, why in ended_plans(ledger).items():
        print(f"{run_key}  never began: {why}")
    print(count_of(len(found), "run"))
    return DONE


def payees() -> int:
    """List everybody whom payouts name, masked, the last paid first."""
    found = all_payees(configured_desk().ledger)
    for each in found:
        sums = ", ".join(f"{format_amount(total)} {currency}" for currency, total in sorted(each.sums.items()))
        times = f"{_time(each.first_ms)} to {_time(each.last_ms)}" if each.first_ms and each.last_ms else "never"
        names = f"  {len(each.names)} names" if len(each.names) > 1 else ""
        paid = f"{count_of(each.payments, 'payment')}  {times}"
        print(f"{each.shown}  {paid}{names}  {sums}  treasury payee {each.reference}".replace("    ", "  "))
    print(count_of(len(found), "payee"))
    return DONE


def payee(reference: str, /) -> int:
    """Show everything that was paid to one payee, across runs.

    Parameters
    ----------
    reference:
        A row reference, request id or order number of any payment to the payee.

    """
    ledger = configured_desk().ledger
    orders = [order for order in ledger.orders(reference=reference) if order.operation in PAYMENTS]
    if not orders:
        raise InputError(f"the ledger knows no payment {reference}")
    same, named = payments_to(ledger, orders[-1])
    if not same:
        raise InputError(
            f"the ledger does not know whom {reference} pays, because another program asked for its quote: the "
            "service's portal shows it"
        )
    accounts = {shown_account(order.masked) for order in same}
    if any(order.id not in {each.id for each in same} for order in orders):
        print(f"{reference} names several payees; this is the last one")
    print(f"payee {', '.join(sorted(accounts))}")
    for order in same:
        _show_order_line(order)
    if named:
        print("the same name, other accounts:")
        for order in named:
            _show_order_line(order, shown_account(order.masked))
    print(in_words(summarize_run(reference, "", same)))
    return DONE


def _show_order_line(order: Order, *more: str) -> None:
    parts = (_time(order.created_at), order.run_key, order.row_ref, order.request_id, order.state.outcome)
    print("  " + "  ".join(part for part in (*parts, _amount(order), *more) if part))


def _amount(order: Order) -> str:
    """Say what it debits, or where nobody knows that yet, what arrives; blank where neither is known."""
    debit = settled_amount(order) if order.state is State.SETTLED else order.amount
    amount, currency = (debit, order.currency) if debit is not None else (order.receive_amount, order.receive_currency)
    return "" if amount is None else f"{amount:f} {currency}"


def _waits(plan: WaitingPlan) -> str:
    return f"waits for {count_of(plan.needed, 'approval')} of the plan {plan.sha256[:12]} that {plan.maker.name} made"


def show(reference: str, /, *, all_: Annotated[bool, Parameter(name="--all", negative=())] = False) -> int:
    """Show an order, or the orders of a run; an invoice, or the invoices of a run key.

    Parameters
    ----------
    reference:
        A run key, row reference, request id or order number.
    all_:
        Every order of a run, also where there are more than 200.

    """
    desk = configured_desk()
    orders = desk.ledger.orders(reference=reference)
    plan = waiting_plan(desk.ledger, reference)
    if plan is not None:
        print(f"{reference}: {_waits(plan)}")
        show_waiting(desk, plan)
    if not orders and plan is None and desk.ledger.run(reference) is None:
        if _show_receipts(desk, reference):
            return DONE
        if (why := why_ended(desk.ledger, reference)) is None:
            raise InputError(f"the ledger knows no {reference}")
        print(why)
        return DONE
    shown = orders if all_ else orders[:SHOWN_ORDERS]
    for order in shown:
        _show_order(desk, order, journal=len(orders) == 1)
    if len(orders) > len(shown):
        print(f"and {len(orders) - len(shown)} more: treasury show {reference} --all")
    for each in approved_by(desk.ledger, reference):
        print(f"  approved by {each.name} ({each.os_user}) at {_time(each.at)}")
    for key in rounds_of(desk.ledger, reference):
        made = in_words(summarize_run(key, "", desk.ledger.orders(run_key=key)))
        print(f"  conversions for it are run {key}: {made} (treasury show {key})")
    if orders or plan is None:
        print(in_words(summarize_run(reference, "", orders)))
    return DONE


def _show_receipts(desk: Desk, reference: str) -> int:
    """Show the invoices and deposits of this name; returns how many there are."""
    named = ("run_key", "row_ref", "request_id", "order_no")
    found = [each for each in expected_receipts(desk.ledger).values() if reference in map(each.get, named)]
    for each in found:
        kind = "deposit" if each.get("order_type") == "charge" else f"invoice {each.get('row_ref', '')}".rstrip()
        amount = f"{each['amount']} {each['currency']}"
        print(f"{kind}  {each['request_id']}  {amount}  known since {_time(each['created_at'])}")
    for run_key in dict.fromkeys(each["run_key"] for each in found if "run_key" in each):
        print(f"what was paid: treasury collect FILE --run-key {run_key}, or the morning report")
    return len(found)


def _show_order(desk: Desk, order: Order, *, journal: bool) -> None:
    if not journal:
        parts = (order.row_ref, order.request_id, order.state.outcome, _amount(order), order.reason)
        print("  ".join(part for part in parts if part))
        return
    by = replacing(desk.ledger, order.run_key).get(order.request_id)
    row = result_row(order, by, is_listed=bool(governing(desk).people))
    for name, value in {"run_key": order.run_key, "replaces": order.replaces, **row}.items():
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


def results(run_key: str, /, *, out: OutFolder | None = None) -> int:
    """Write the results of a run as the ledger has them now; nothing is asked or sent.

    Exit code 4 where a person is needed, as at the end of the run itself.

    Parameters
    ----------
    run_key:
        The run, for example payroll-2026-11.
    out:
        Folder for the results; the run's own when left out.

    """
    return finish_run(
        write_results_anew(configured_desk(), check_run_key(run_key), None if out is None else out.absolute())
    )
