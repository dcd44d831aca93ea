"""What is released while the ledger is found to be older than the service is held again, or asked about first."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.engine.runs import sheet
from tests.engine.test_judged_twice import PERSON, adopt, start
from tests.engine.test_moments import meanwhile
from treasury.ledger.epoch import ABSENCES
from treasury.orders.states import Hold
from treasury.payments.desk import Desk
from treasury.payments.resolving import release_orders

pytestmark = pytest.mark.both_databases

OpenDesk = Callable[..., Desk]


def test_a_release_at_the_moment_of_an_epoch_lets_nothing_leave_unasked(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    url = start_sandbox().base_url
    desk, other = open_desk(url), open_desk(url)
    adopt(desk, payouts={"new_payee_above": {"USDT_TRC20": "50"}})
    assert start(desk, sheet(tmp_path, ("a", "60", "12345670001")), "run") == {"a": "held"}
    with meanwhile("SELECT meta.value", lambda: other.begin_epoch("a test")):
        release_orders(desk, "a", None, **PERSON)
    [order] = desk.ledger.orders(reference="a")
    assert order.hold_kind == Hold.OLDER or order.absences_needed == ABSENCES
