"""An approval ends when the policy changes, also where the very same policy is adopted again."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.engine import paying
from tests.engine.funded import PAYOUTS, ROWS, adopted, approve
from tests.engine.rounds import kinds, policy
from tests.engine.runs import pay, sheet
from treasury.errors import ApprovalNeeded, InputError
from treasury.ledger.approvals import approve_plan, standing_of, waiting_plan
from treasury.ledger.proposals import newest_plan
from treasury.payments.approving import rules_of
from treasury.payments.desk import Desk

OpenDesk = Callable[..., Desk]

BTC = ("0.2", "0.4", "0.9")


def of(folder: Path, most: str) -> Path:
    """A policy that asks for an approval above so much."""
    place = folder / most
    place.mkdir(exist_ok=True)
    return policy(place, tail=PAYOUTS + f'[payouts.one_approval_above]\nUSDT_TRC20 = "{most}"\n', BTC=BTC)


def proposed(desk: Desk, file: Path, rules: Path) -> None:
    payments = paying.plan_of(desk, file, "run", rules)
    with pytest.raises(ApprovalNeeded):
        paying.propose(desk, payments, rules)


def test_an_approval_does_not_come_back_with_its_policy(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox()
    desk, file = open_desk(sandbox.base_url), sheet(tmp_path, *ROWS)
    rules = adopted(desk, of(tmp_path, "1000"))
    proposed(desk, file, rules)
    approve(desk)
    adopted(desk, of(tmp_path, "100"))
    plan = waiting_plan(desk.ledger, "run")
    assert plan is not None
    assert standing_of(desk.ledger, plan, rules_of(desk, plan))[0].counted == ()  # what `show` says of it
    adopted(desk, rules)
    with pytest.raises(ApprovalNeeded):
        pay(desk, file, tmp_path / "out")
    with pytest.raises(InputError, match="the policy changed since"):
        approve(desk)
    assert kinds(sandbox) == []
    proposed(desk, file, rules)
    approve(desk)
    assert pay(desk, file, tmp_path / "out")["counts"] == {"settled": 3}


def test_a_run_that_was_recorded_and_not_sent_is_approved_anew(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox()
    desk, file = open_desk(sandbox.base_url), sheet(tmp_path, *ROWS)
    rules = adopted(desk, of(tmp_path, "1000"))
    proposed(desk, file, rules)
    approve(desk)
    paying.commit(desk, file, "run", rules)  # and is killed
    adopted(desk, of(tmp_path, "100"))
    adopted(desk, rules)
    with pytest.raises(ApprovalNeeded):
        pay(desk, file, tmp_path / "out")
    proposed(desk, file, rules)
    plan = desk.ledger.look(lambda connection: newest_plan(connection, desk.ledger, "run"))
    assert plan is not None
    approve_plan(desk.ledger, "run", rules_of(desk, plan), "somebody-else", name="Checker")
    assert pay(desk, file, tmp_path / "out")["counts"] == {"settled": 3}
