"""Tasks of one operation in a flow of one's own, mapped over many references on each of Prefect's runners."""

import asyncio
from decimal import Decimal
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


def on(runner: str, workers: int) -> Any:
    from prefect.task_runners import ThreadPoolTaskRunner

    from tasks.runners import WorkerProcesses

    if runner == "threads":
        return ThreadPoolTaskRunner(max_workers=4 * workers)
    if runner == "processes":
        return WorkerProcesses(workers)
    dask = pytest.importorskip("prefect_dask", reason="the extra [dask] is not there")
    return dask.DaskTaskRunner(
        cluster_kwargs={"n_workers": workers, "threads_per_worker": 4, "dashboard_address": None}
    )


MANY = [pytest.param(runner, 200, marks=pytest.mark.proof) for runner in ("threads", "processes", "dask")]


@pytest.mark.prefect
@pytest.mark.costly("processes that import Prefect, a task for each payment")
@pytest.mark.parametrize(("runner", "count"), [("threads", 12), ("processes", 3), *MANY])
def test_a_mapped_task_that_moves_money_pays_each_reference_once(
    home: Path, open_sandbox: Any, monkeypatch: pytest.MonkeyPatch, runner: str, count: int
) -> None:
    from prefect import flow

    from tasks.operations import withdraw

    sandbox = open_sandbox(balances={"USDT_TRC20": Decimal(100_000)})
    monkeypatch.setenv("TREASURY_BASE_URL", sandbox.base_url)
    withdrawals = [
        {
            "request_id": f"mapped-{number}",
            "currency": "USDT_TRC20",
            "amount": str(number + 1),
            "customer_ref_id": "c",
            "address": "TVk631BotbQQSHGAUSRhDKGzHomE8EyrCW",
        }
        for number in range(count)
    ]

    @flow(name="mapped", task_runner=on(runner, 2 if count > 3 else 1))
    def mapped() -> list[Any]:
        states = withdraw.map(withdrawals, return_state=True)
        assert {state.name for state in states} <= {"InProgress", "Settled"}
        return [state.result() for state in states]

    for _ in range(2):
        rows = mapped()
        assert sorted(row["request_id"] for row in rows) == sorted(each["request_id"] for each in withdrawals)
        assert {row["outcome"] for row in rows} <= {"in_progress", "settled"}
    sent = sandbox.orders()
    assert len(sent) == count
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


@pytest.mark.prefect
def test_an_asynchronous_flow_gets_what_a_task_returns(home: Path, sandbox: RunningSandbox) -> None:
    """There Prefect hands out what a state holds as something to wait for; a task's result is there at once."""
    from prefect import flow

    from tasks.operations import withdraw

    address = "TVk631BotbQQSHGAUSRhDKGzHomE8EyrCW"
    fields = {"request_id": "async-1", "currency": "USDT_TRC20", "amount": "77", "customer_ref_id": "c"}

    @flow(name="asynchronous")
    async def asynchronous() -> list[str]:
        order = withdraw({**fields, "address": address})
        in_a_thread = await asyncio.to_thread(withdraw, {**fields, "address": address})
        return [order["request_id"], in_a_thread["request_id"]]

    assert asyncio.run(asynchronous()) == ["async-1"] * 2
    assert [order["effects"] for order in sandbox.orders() if order["request_id"] == "async-1"] == [1]


def test_what_does_not_only_read_is_never_cached() -> None:
    """A cached task run would end as if its order had been sent, also at another account, and nothing would leave."""
    from prefect.cache_policies import INPUTS

    from tasks.operations import conversion_rate, deposit_address, withdraw
    from tasks.payouts import send_payouts

    for option in ({"cache_policy": INPUTS}, {"cache_key_fn": lambda *_: "one"}, {"result_storage_key": "one"}):
        for task in (withdraw, withdraw.with_options(tags=["ours"]), deposit_address, send_payouts):
            with pytest.raises(InputError, match=f"{task.name} is never cached, since nothing would be sent then"):
                task.with_options(**option)
        assert conversion_rate.with_options(**option).name == "conversion_rate"
    assert withdraw.with_options(persist_result=True, retries=2).retries == 2


def test_an_operation_outside_the_catalogue_gets_no_task() -> None:
    """The ledger would not know how to mask, ask about or reconcile it."""
    from tasks.operations import as_task

    class Elsewhere(Withdraw):
        """Withdraw, of somebody else's package."""

    with pytest.raises(AssertionError, match=r"Elsewhere is not in treasury/provider/catalogue\.py"):
        as_task(Elsewhere)
