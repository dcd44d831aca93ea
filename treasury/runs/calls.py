"""Runs single operations: one that moves money goes through ledger and submission, any other is sent directly."""

from typing import Any

from treasury.errors import InputError, RunKeyConflict
from treasury.ledger.intents import commit_plan
from treasury.orders.records import Intent, Order
from treasury.provider.operation import Effect, Operation, Reply
from treasury.runs.desk import Desk
from treasury.runs.execution import follow_orders, open_orders, send_orders

KIND = "call"


def run_key_of_call(operation: Operation[Any]) -> str:
    """The run key of a single operation: its own reference, so that the same call twice is one order."""
    return f"call-{operation.reference_value}"


def send_operation(desk: Desk, operation: Operation[Any]) -> dict[str, Any]:
    """Send an operation that moves no money; returns the whole answer. Raises as the client does."""
    if operation.effect is Effect.MOVES_MONEY:
        raise AssertionError(f"{operation.operation_name()} moves money")
    reply: Reply = desk.client.read(operation) if operation.effect is Effect.READS else desk.client.send(operation)
    return reply.envelope


def submit_operation(desk: Desk, operation: Operation[Any]) -> Order:
    """Send an operation that moves money, at most once for its reference; returns the order.

    Raises `InputError` when the reference already stands for something else, and `RunHeld`.
    """
    run_key = run_key_of_call(operation)
    with desk.hold(run_key):
        try:
            commit_plan(desk.ledger, run_key, KIND, operation.masked(), "", [_intent(operation)])
        except RunKeyConflict:
            said = f"{operation.reference} {operation.reference_value} already stands for something else here"
            raise InputError(f"{operation.operation_name()}: {said}; nothing was sent") from None
        ids = open_orders(desk, run_key)
        send_orders(desk, run_key, ids)
        follow_orders(desk, run_key, ids, 0)
        return desk.ledger.orders(run_key=run_key)[0]


def _intent(operation: Operation[Any]) -> Intent:
    body = operation.body()
    reference = str(operation.reference_value)
    own = {name: value for name, value in body.items() if name != operation.reference}
    return Intent(
        row_ref=reference,
        operation=operation.operation_name(),
        payload={"confirm": own} if operation.confirms_quote else own,
        bound_content={"operation": operation.operation_name(), **body},
        currency=_asked(operation, "currency"),
        amount=_asked(operation, "amount") if _asked(operation, "currency") else None,
        request_id=reference,
        confirmation=reference if operation.confirms_quote else None,
    )


def _asked(operation: Operation[Any], name: str) -> Any:
    return getattr(operation, name, None)
