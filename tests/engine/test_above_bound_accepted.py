"""A debit above its bound that somebody accepted: as it was then, and no more."""

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

from tests.engine.runs import night, pay, sheet
from treasury.ledger.kept_breaks import accept_break
from treasury.payments.desk import Desk
from treasury.payments.preflight import why_above_bound
from treasury.provider.service_rules import ServiceRules
from treasury.sandbox import Behaviour

D = Decimal
ON_TOP = frozenset({"payout"})


def test_what_was_accepted_lets_no_greater_debit_go_on(
    open_desk: Callable[..., Desk], start_sandbox: Any, tmp_path: Path
) -> None:
    behaviour = Behaviour(fee_on_top=ON_TOP, fee_times=30)
    desk = open_desk(start_sandbox(behaviour=behaviour).base_url, service=ServiceRules(fee_on_top=ON_TOP))
    pay(desk, sheet(tmp_path, ("a", "100", "12345670001")), tmp_path / "out", seconds=20)
    assert "a debited" in str(why_above_bound(desk, "run"))
    [found] = [each for each in night(desk, tmp_path / "1")["breaks"] if each["class"] == "above_bound"]
    accept_break(desk.ledger, found["id"], by="Ada Example", os_user="ada", why="the service raised its fees")
    assert why_above_bound(desk, "run") is None
    [order] = desk.ledger.orders(run_key="run")
    assert order.fee is not None
    desk.ledger.note(order, fee=order.fee + 50)  # what the service shows later
    assert f"a debited {D(found['difference']) + 50}" in str(why_above_bound(desk, "run"))
