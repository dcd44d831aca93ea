"""Somebody who has the database, and not the ledger's key, writes that an earlier round was worth nothing: no more is
traded on its day than the policy lets."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from tests.engine.approvers import change, later
from tests.engine.rounds import policy, start, traded
from tests.engine.test_rounds import BTC, holding
from treasury.errors import LimitExceeded
from treasury.ledger import schema
from treasury.payments.desk import Desk

pytestmark = pytest.mark.both_databases


@pytest.mark.parametrize("by_hand", [True, False], ids=["changed by hand", "changed by nobody"])
@pytest.mark.parametrize(
    "limit", ['max_value_per_day = "100000"', 'max_per_pair = {"BTC-USDT" = "100000"}', 'max_cost_per_day = "200"']
)
def test_what_an_earlier_round_was_worth_counts(
    open_desk: Callable[..., Desk], start_sandbox: Any, tmp_path: Path, limit: str, by_hand: bool
) -> None:
    sandbox = start_sandbox(balances=holding(BTC="2"))
    desk = open_desk(sandbox.base_url)
    rules = policy(tmp_path, tail=f"[conversions]\n{limit}\n", BTC=BTC)
    start(desk, rules, tmp_path / "one")
    first = traded(desk)
    assert first
    [run_key] = {order.run_key for order in desk.ledger.orders()}
    run = desk.ledger.run(run_key)
    assert run is not None
    if by_hand:
        plan = {**run.plan, "trades": [{**each, "value": "0", "cost": "0"} for each in run.plan["trades"]]}
        change(desk, update(schema.runs).values(plan=json.dumps(plan)))
    sandbox.deposit("BTC", "1")
    with pytest.raises(LimitExceeded, match="changed in the ledger by hand" if by_hand else "max_"):
        start(desk, rules, tmp_path / "two")
    assert traded(desk) == first
    if by_hand:  # the next day counts it no more
        later(desk, 24)
        start(desk, rules, tmp_path / "three")
        assert len(traded(desk)) == 2
