"""Runs under a policy that is put in force, without Prefect."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.engine import paying
from tests.moved_clock import clock_of
from treasury.ledger.policies import adopt_policy
from treasury.orders.records import Order
from treasury.payments import execution
from treasury.payments.desk import Desk
from treasury.policy.model import parse_policy

PERSON = {"by": "Ada Example", "why": "a test"}


def adopt(desk: Desk, **tables: Any) -> None:
    clock_of(desk).move(1)  # after what was judged by the policy before
    adopt_policy(desk.ledger, parse_policy(tables, "policy.toml"), "policy.toml", by="Ada Example", os_user="ada")


def start(desk: Desk, file: Path, run_key: str) -> dict[str, str]:
    for ids in paying.commit(desk, file, run_key):
        execution.send_orders(desk, run_key, ids)
        execution.follow_orders(desk, run_key, ids, 5)
    return {order.row_ref: order.state.outcome for order in desk.ledger.orders(run_key=run_key)}


def at_submission(desk: Desk, number: int, act: Callable[[], Any]) -> None:
    """Act once, right before a desk submits the order of this number, the first is 1."""
    submit, seen = desk.submission.submit, list[Order]()

    def act_then_submit(order: Order) -> Order:
        seen.append(order)
        if len(seen) == number:
            act()
        return submit(order)

    desk.submission.submit = act_then_submit  # type: ignore[method-assign]
