"""`treasury approve`, `resolve` and `stop`: what people decide. Nothing here sends anything."""

from typing import Annotated, Literal

from cyclopts import Parameter

from flows.commands.common import DONE, WAITING, configured_desk
from treasury.errors import InputError
from treasury.ledger.approvals import approve_plan
from treasury.ledger.states import Event
from treasury.ledger.stops import lift_stop, stop_sending
from treasury.settings import os_user


def approve(key: str, /, *, by: str) -> int:
    """Approve the newest plan of a run. Binds your name and the OS user to exactly this plan.

    A changed row, bound or policy makes it another plan, which has no approval.

    Parameters
    ----------
    key:
        The run key.
    by:
        Your name; whoever made the plan cannot approve it.

    """
    sha256, needed, approved_by = approve_plan(configured_desk().ledger, key, by, os_user())
    print(f"plan {sha256[:12]} of run {key} is approved by {', '.join(approved_by)}")
    if len(approved_by) < needed:
        print(f"waiting for {needed - len(approved_by)} more approval(s)")
        return WAITING
    print("it has the approvals it needs; start the run again to pay")
    return DONE


def resolve(
    reference: str, /, *, as_: Annotated[Literal["sent", "not-sent"], Parameter(name="--as")], by: str, why: str
) -> int:
    """Tell the ledger what a person found out about an order that is unknown or held.

    `sent`: the service has it; it is followed from here on. `not-sent`: it never acted and never will; it is sent at
    the next start of its run. Only say so when the service confirmed it.

    Parameters
    ----------
    reference:
        Row reference, request id or order number.
    as_:
        What is true.
    by:
        Your name.
    why:
        How you know.

    """
    if not by.strip() or not why.strip():
        raise InputError("a decision needs a name and a reason: --by NAME --why TEXT")
    ledger = configured_desk().ledger
    orders = ledger.orders(reference=reference)
    if len(orders) != 1:
        found = "knows no order" if not orders else f"knows {len(orders)} orders"
        raise InputError(f"the ledger {found} called {reference}; give its request id")
    [order] = orders
    event = Event.RESOLVE_SENT if as_ == "sent" else Event.RESOLVE_NOT_SENT
    with ledger.hold(order.run_key):
        order = ledger.step(order, event, cause=f"{by.strip()} ({os_user()}): {why.strip()}", reason=None)
    print(f"{order.row_ref} ({order.request_id}) is {order.state.outcome} now")
    return DONE


def stop(*, by: str, why: str | None = None, lift: Annotated[bool, Parameter(negative=())] = False) -> int:
    """Stop all sending, of every process, before its next send; or lift the stop.

    Parameters
    ----------
    by:
        Your name.
    why:
        The reason; needed to stop.
    lift:
        Lift the stop that stands.

    """
    ledger = configured_desk().ledger
    if lift:
        print(f"{lift_stop(ledger, by)} stop(s) lifted by {by}")
        return DONE
    stop_sending(ledger, by, why or "")
    print(f"nothing is sent from here on, until: treasury stop --lift --by NAME (stopped by {by}: {why})")
    return DONE
