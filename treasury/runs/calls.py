"""Runs single operations: one that moves money goes through ledger and submission, any other is sent directly."""

import hashlib
from collections.abc import Callable
from typing import Any

from treasury.approving.tokens import Token
from treasury.canonical import canonical_json
from treasury.errors import InputError, LimitExceeded, RunKeyConflict
from treasury.ledger.cooling import cool
from treasury.ledger.intents import commit_plan
from treasury.money import canonical
from treasury.orders.records import Intent, Order
from treasury.planning.limits import why_approvals
from treasury.planning.shown import shown_single
from treasury.planning.single import Judged, debit_of, judge_operation
from treasury.provider.operation import Effect, Operation, Reply
from treasury.runs.approving import is_recorded, propose
from treasury.runs.desk import Desk
from treasury.runs.execution import follow_orders, open_orders, send_orders
from treasury.runs.governing import govern

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


def submit_operation(
    desk: Desk, operation: Operation[Any], sign: Callable[[str, str], Token | None] = lambda *_: None
) -> Order:
    """Send an operation that moves money, at most once for its reference; returns the order, which may be held.

    `sign`: signs its plan, given run key and hash, as its maker; where the policy in force lists people.
    Raises `InputError` when the reference already stands for something else, `LimitExceeded`, `ApprovalNeeded` and
    `RunHeld`.
    """
    run_key, name = run_key_of_call(operation), operation.operation_name()
    governed = govern(desk)
    judged = judge_operation(operation, governed.policy)
    intent = _intent(operation, judged)
    run = desk.ledger.run(run_key)
    recorded = run is not None
    if judged.problems and not recorded:
        raise LimitExceeded(f"{name}: {'; '.join(judged.problems)}; nothing was sent")
    over = {intent.row_ref: "; ".join(judged.problems)} if judged.problems else {}
    rules = governed.rules(desk, operation.limited_by, judged.debits, over)
    sha256 = hashlib.sha256(canonical_json([governed.version, intent.bound_content]).encode()).hexdigest()
    if not is_recorded(desk, governed, run_key):
        why = why_approvals(judged.debits, governed.limits(operation.limited_by))
        shown = shown_single(run_key, name, operation.body(), sha256, why)
        propose(desk, governed, run_key, sha256, rules.approving.asked, shown=shown, token=sign(run_key, sha256))
    with desk.hold(run_key):
        try:
            commit_plan(desk.ledger, run_key, KIND, operation.masked(), sha256, [intent], rules)
        except RunKeyConflict:
            said = f"{operation.reference} {operation.reference_value} already stands for something else here"
            raise InputError(f"{name}: {said}; nothing was sent") from None
        if judged.cooling_hours:
            cool(desk.ledger, run_key, judged.cooling_hours)
        ids = open_orders(desk, run_key)
        send_orders(desk, run_key, ids)
        follow_orders(desk, run_key, ids, 0)
        return desk.ledger.orders(run_key=run_key)[0]


def _intent(operation: Operation[Any], judged: Judged) -> Intent:
    body = operation.body()
    reference = str(operation.reference_value)
    own = {name: value for name, value in body.items() if name != operation.reference}
    currency, amount = debit_of(operation)
    payee = operation.payee
    known = amount if amount is not None else getattr(operation, "amount", None)
    return Intent(
        row_ref=reference,
        operation=operation.operation_name(),
        payload={"confirm": own} if operation.confirms_quote else own,
        bound_content={"operation": operation.operation_name(), **body},
        currency=currency,
        amount=amount,
        ceiling=judged.ceiling,
        request_id=reference,
        confirmation=reference if operation.confirms_quote else None,
        payee=payee,
        duplicate_key=None if payee is None else (payee, currency or "", "" if known is None else canonical(known)),
    )
