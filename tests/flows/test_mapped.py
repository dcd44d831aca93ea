"""Tasks of one operation in a flow of one's own, mapped over many references on Prefect's own thread runner."""

from pathlib import Path
from typing import Any

import pytest

from blocks.desk import open_desk
from treasury.sandbox import RunningSandbox

COUNT = 12


@pytest.mark.prefect
def test_a_mapped_task_that_moves_money_pays_each_reference_once(home: Path, sandbox: RunningSandbox) -> None:
    from prefect import flow
    from prefect.task_runners import ThreadPoolTaskRunner

    from tasks.operations import withdraw

    withdrawals = [
        {
            "request_id": f"mapped-{number}",
            "currency": "USDT_TRC20",
            "amount": str(number + 1),
            "customer_ref_id": "c",
            "address": "TXYZexampleexampleexampleexample12",
        }
        for number in range(COUNT)
    ]

    runner: Any = ThreadPoolTaskRunner(max_workers=8)  # Prefect's own types do not fit each other here

    @flow(name="mapped", task_runner=runner)
    def mapped() -> list[Any]:
        return [future.result() for future in withdraw.map(withdrawals)]

    for _ in range(2):
        rows = mapped()
        assert sorted(row["request_id"] for row in rows) == sorted(each["request_id"] for each in withdrawals)
        assert {row["outcome"] for row in rows} <= {"in_progress", "settled"}
    sent = [order for order in sandbox.orders() if order["request_id"].startswith("mapped-")]
    assert len(sent) == COUNT
    assert {order["effects"] for order in sent} == {1}
    orders = [open_desk().ledger.orders(run_key=f"call-{each['request_id']}") for each in withdrawals]
    assert {(len(found), found[0].sends) for found in orders} == {(1, 1)}
