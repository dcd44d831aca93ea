"""Tasks of one operation in a flow of one's own, mapped over many references on Prefect's own thread runner."""

from pathlib import Path
from typing import Any

import pytest

from blocks.desk import open_desk
from tests.commands.office import eventually
from tests.flows.shown import asked
from treasury.errors import InputError, NeedsAttention
from treasury.ledger.stops import stop_sending
from treasury.provider.orders import QueryTransaction, Withdraw
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
            "address": "TVk631BotbQQSHGAUSRhDKGzHomE8EyrCW",
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


@pytest.mark.prefect
def test_the_state_of_a_task_that_moves_money_says_what_came_of_it(home: Path, sandbox: RunningSandbox) -> None:
    from prefect import flow

    from tasks.operations import withdraw

    def asks(reference: str, amount: str = "5") -> Withdraw:
        address = "TVk631BotbQQSHGAUSRhDKGzHomE8EyrCW"
        fields = {"request_id": reference, "currency": "USDT_TRC20", "amount": amount, "customer_ref_id": "c"}
        return Withdraw(**fields, address=address)

    @flow(name="told")
    def told(*orders: Withdraw) -> list[Any]:
        return [withdraw(order, return_state=True) for order in orders]

    sent, again = told(asks("told-1"), asks("told-2"))
    assert sent.name in ("InProgress", "Settled")
    assert sent.result()["request_id"] == "told-1"
    assert (again.name, again.type.value) == ("Held", "FAILED")  # as much to the same address
    with pytest.raises(NeedsAttention, match="withdraw told-2 is held: same payee, amount and currency") as caught:
        again.result()
    assert (caught.value.summary["outcome"], caught.value.summary["amount"]) == ("held", 5)
    with pytest.raises(NeedsAttention):
        withdraw.with_options(name="another")(asks("told-2"))
    stop_sending(open_desk().ledger, "Somebody", "a look first")
    [stopped] = told(asks("told-4", "6"))
    assert stopped.is_failed()
    with pytest.raises(InputError, match="withdraw takes a Withdraw or its fields, not a str"):
        withdraw("told-5")
    with pytest.raises(InputError, match="withdraw takes a Withdraw or its fields, not a QueryTransaction"):
        withdraw(QueryTransaction(request_id="told-1"))
    names = {f"withdraw told-{number}" for number in (1, 2, 4)}
    flows = {"name": {"any_": ["told"]}}
    eventually(lambda: {each["name"] for each in asked("task_runs", flows=flows)} == names, 60)
    assert len([order for order in sandbox.orders() if order["request_id"].startswith("told-")]) <= 2
