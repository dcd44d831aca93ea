"""People with keys at one desk: what each of them does."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.engine import paying
from tests.moved_clock import clock_of
from treasury.approving.tokens import Token, Verb, public_text, sign
from treasury.errors import ApprovalNeeded
from treasury.ledger.approvals import Approved, waiting_plan
from treasury.ledger.policies import adopt_policy, recover_policy
from treasury.ledger.proposals import WaitingPlan
from treasury.payments import approving, execution
from treasury.payments.desk import Desk
from treasury.policy.model import parse_policy

KEYS = {name: Ed25519PrivateKey.generate() for name in ("ada", "ben", "ben-two", "cleo", "mallory")}
HOUR = 3_600_000
ASKS = {"one_approval_above": {"USDT_TRC20": "10"}, "two_approvals_above": {"USDT_TRC20": "100"}}


def person(*keys: str, may: tuple[str, ...] = ("approve",), users: tuple[str, ...] = ()) -> dict[str, Any]:
    return {"keys": [public_text(KEYS[name]) for name in keys], "may": list(may), "os_users": list(users)}


PEOPLE: Mapping[str, Any] = {
    "ada": person("ada", may=("make", "approve", "change_policy")),
    "ben": person("ben", "ben-two"),
    "cleo": person("cleo", may=("approve", "change_policy")),
}


def adopt(desk: Desk, people: Mapping[str, Any] = PEOPLE, key: str | None = None, **tables: Any) -> None:
    policy = parse_policy({"payouts": ASKS, "people": people, **tables}, "policy.toml")
    signed = None if key is None else KEYS[key]
    clock_of(desk).move(1)  # after what was judged by the policy before
    adopt_policy(desk.ledger, policy, "policy.toml", by=key or "ada", os_user="ada", key=signed)


def recover(desk: Desk) -> None:
    """The people are put in force again by a recovery, whose hours pass."""
    policy = parse_policy({"payouts": ASKS, "people": PEOPLE}, "policy.toml")
    recover_policy(desk.ledger, policy, "policy.toml", by="ada", os_user="ada", now=desk.ledger.now())
    later(desk, 73)


def propose(desk: Desk, file: Path, run_key: str = "run", maker: str | None = "ada") -> None:
    plan = paying.plan_of(desk, file, run_key)
    token = None if maker is None else str(approving.sign_proposal(desk, KEYS[maker], run_key, plan.sha256))
    paying.propose(desk, plan, proposal=token)


def waits(desk: Desk, file: Path, run_key: str = "run", maker: str | None = "ada") -> WaitingPlan:
    with pytest.raises(ApprovalNeeded):
        propose(desk, file, run_key, maker)
    found = waiting_plan(desk.ledger, run_key)
    assert found is not None
    return found


def approve(desk: Desk, name: str, run_key: str = "run", token: Token | None = None) -> Approved:
    return approving.approve(desk, run_key, key=None if token else KEYS[name], token=token)


def token_of(plan: WaitingPlan, name: str, hours: float = 1, **changed: Any) -> Token:
    token = sign(KEYS[name], Verb.APPROVE, plan.run_key, plan.code, plan.proposed_at + int(hours * HOUR))
    return replace(token, **changed)


def start(desk: Desk, file: Path, run_key: str = "run") -> dict[str, str]:
    for ids in paying.commit(desk, file, run_key):
        execution.send_orders(desk, run_key, ids)
        execution.follow_orders(desk, run_key, ids, 5)
    return {order.row_ref: order.state.outcome for order in desk.ledger.orders(run_key=run_key)}


def later(desk: Desk, hours: float) -> None:
    clock_of(desk).move(hours * 3600)


def change(desk: Desk, statement: Any) -> None:
    """Somebody with the database writes into it."""
    desk.ledger.write(lambda connection: connection.execute(statement).rowcount)
