"""Somebody who has the database, and not the ledger's key, changes what a run says of itself: nothing of it
counts."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from tests.engine.approvers import change, start
from tests.engine.payees import adopt
from tests.engine.runs import sheet
from treasury.ledger import schema
from treasury.ledger.stops import lift_stop, stop_sending
from treasury.payments.desk import Desk

pytestmark = pytest.mark.both_databases


@pytest.mark.parametrize("by_hand", [True, False], ids=["changed by hand", "changed by nobody"])
def test_the_stop_loss_of_the_policy_stops_a_run(
    open_desk: Callable[..., Desk], service: Any, tmp_path: Path, by_hand: bool
) -> None:
    desk = open_desk(service.base_url)
    adopt(desk, stop_after_failures=5, stop_above_percent=5)
    file = sheet(tmp_path, *((f"r{number}", "5", f"123456{number:04d}7") for number in range(150)))
    stop_sending(desk.ledger, "Ada Example", "a look first")
    assert set(start(desk, file).values()) == {"not_sent"}
    lift_stop(desk.ledger, "Ben Example")
    if by_hand:
        run = desk.ledger.run("run")
        assert run is not None
        plan = {**run.plan, "stop_loss": {"alike": 1000, "percent": None}, "partly": True}
        change(desk, update(schema.runs).values(plan=json.dumps(plan)))
    service.plan("/v1/order/payout", (200, {"code": 7002, "message": "CURRENCY_NOT_SUPPORT"}))
    assert list(start(desk, file).values()).count("rejected") <= 5 + desk.in_flight < 150
    run = desk.ledger.run("run")
    assert run is not None
    assert (run.is_changed, bool(run.plan.get("partly"))) == (False, False)
