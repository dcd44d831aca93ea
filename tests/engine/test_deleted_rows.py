"""Somebody who has the database deletes a payment, and all that counts it: the morning report says what left."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete

from tests.engine.approvers import change, start
from tests.engine.nights import DAY, balance
from tests.engine.runs import night, sheet
from tests.moved_clock import clock_of
from treasury.ledger import schema
from treasury.payments.desk import Desk

pytestmark = pytest.mark.both_databases

TABLES = schema.journal, schema.quotes, schema.answers, schema.orders


@pytest.mark.parametrize("is_reported", [True, False])
def test_a_payment_that_was_deleted_is_a_gap(
    open_desk: Callable[..., Desk], start_sandbox: Any, tmp_path: Path, is_reported: bool
) -> None:
    desk = open_desk(start_sandbox().base_url)
    assert start(desk, sheet(tmp_path, ("a", "10", "12345670001")), "first") == {"a": "settled"}
    assert balance(night(desk, tmp_path / "1"))["unexplained"] == "0"
    clock_of(desk).move(DAY)
    assert start(desk, sheet(tmp_path, ("b", "20", "12345670002")), "second") == {"b": "settled"}
    if is_reported:
        assert balance(night(desk, tmp_path / "2"))["unexplained"] == "0"
        clock_of(desk).move(DAY)
    [order] = desk.ledger.orders(run_key="second")
    for table in TABLES:
        of_order = table.c.id if table is schema.orders else table.c.order_id
        change(desk, delete(table).where(of_order == order.id))
    report = night(desk, tmp_path / "3")
    assert balance(report)["unexplained"] == "-20"
    assert "balance_gap" in [each["class"] for each in report["breaks"]]
