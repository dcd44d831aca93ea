"""The log of a run that Prefect ended says what left, whenever that was and wherever the run was to write."""

import logging
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flows.commands.alarms import alarms_of
from tests.engine.funded import above
from tests.engine.rounds import policy
from tests.flows.deployed import Deployed
from tests.flows.waiting import adopted, desk, effects, paying, rebalancing, sheet, trading
from tests.moved_clock import MovedClock
from treasury.ledger.approvals import waiting_plans
from treasury.ledger.policies import recover_policy
from treasury.payments.approving import approve
from treasury.policy.model import Policy
from treasury.sandbox import RunningSandbox
from treasury.settings import read_settings

pytestmark = pytest.mark.prefect

DAY = 86_400


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[[Deployed], str]]:
    """Ends a run as crashed, and returns what its log says of it."""
    log = logging.getLogger("prefect.flow_runs")
    caplog.set_level(logging.WARNING, log.name)
    log.addHandler(caplog.handler)

    def crash(run: Deployed) -> str:
        from prefect.states import Crashed

        caplog.clear()
        for hook in run.flow.on_crashed_hooks or ():
            hook(run.flow, run.run, Crashed())
        return "\n".join(dict.fromkeys(caplog.messages))

    yield crash
    log.removeHandler(caplog.handler)


def test_nothing_is_written_outside_the_home_of_a_run_that_ended_before_its_folder_was_judged(
    home: Path, sandbox: RunningSandbox, said: Callable[[Deployed], str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    adopted(payouts={"duplicate_days": 0})
    assert paying(home, "known").go().name == "Settled"
    outside = tmp_path_factory.mktemp("elsewhere") / "deep"
    for out, why in ((str(outside), "is not inside"), ("a\0b", "can be no path")):
        told = said(paying(home, "known", out=out))
        assert "run known: 1 settled; results could not be written: " in told
        assert why in told
    assert not outside.exists()
    assert "results.csv" in said(paying(home, "known"))


def test_a_rebalancing_that_ends_on_a_later_day_says_what_left_on_the_day_that_it_began(
    home: Path,
    open_sandbox: Callable[..., RunningSandbox],
    monkeypatch: pytest.MonkeyPatch,
    said: Callable[[Deployed], str],
) -> None:
    sandbox = open_sandbox()
    monkeypatch.setenv("TREASURY_BASE_URL", sandbox.base_url)
    trading({})
    run = rebalancing()
    assert run.go().name == "Suspended"
    [plan] = waiting_plans(desk().ledger)
    approve(desk(), plan.run_key, name="Checker")
    assert run.resumed().name == "Settled"
    monkeypatch.setattr(desk(), "clock", MovedClock(datetime.now(UTC).timestamp() + DAY))
    assert f"run {plan.run_key}: " in said(run)
    assert "settled" in said(run)


def test_a_run_that_was_to_be_funded_says_what_was_converted_for_it(
    home: Path,
    open_sandbox: Callable[..., RunningSandbox],
    monkeypatch: pytest.MonkeyPatch,
    said: Callable[[Deployed], str],
) -> None:
    from flows.pay_beneficiaries import pay_beneficiaries

    sandbox = open_sandbox(balances={"USDT": Decimal(50000), "USDT_TRC20": Decimal(5), "BTC": Decimal(2)})
    monkeypatch.setenv("TREASURY_BASE_URL", sandbox.base_url)
    rules = policy(home, tail=above("payouts", "USDT_TRC20", "10"), BTC=("0", "0", "999999"))
    given: dict[str, Any] = {"file": str(sheet(home, "funded", "500")), "run_key": "funded", "policy": str(rules)}
    run = Deployed(pay_beneficiaries, **given, fund=True, follow_seconds=60)
    run.go()
    assert run.resumed(name="Checker").name == "Settled"
    *conversions, payments = said(run).splitlines()
    assert conversions[0].startswith("run funded.fund: 1 settled; what was sent")
    assert payments.startswith("run funded: 1 settled; results: ")


def test_while_a_policy_is_recovered_a_run_fails_so_that_an_alarm_tells_it(home: Path, sandbox: RunningSandbox) -> None:
    adopted(payouts={"duplicate_days": 0})
    recover_policy(desk().ledger, Policy(), "policy.toml", by="Owner", os_user="owner", now=desk().ledger.now())
    before, state = effects(sandbox), paying(home, "recovered").go()
    assert (state.name, "recover" in str(state.message)) == ("Failed", True)
    [failed] = [each for each in alarms_of(read_settings()) if each.name == "a run failed"]
    assert f"prefect.flow-run.{state.name}" in failed.trigger["expect"]
    assert effects(sandbox) == before


def test_a_run_that_a_killed_serve_left_says_what_left_when_the_next_one_starts(
    home: Path, sandbox: RunningSandbox, caplog: pytest.LogCaptureFixture
) -> None:
    from prefect.client.orchestration import get_client
    from prefect.states import Running

    from flows.commands.schedules import end_abandoned_runs, hooks_of_crashed

    adopted(payouts={"duplicate_days": 0})
    assert paying(home, "left").go().name == "Settled"
    run = paying(home, "left", deployed_as="served before")  # other tests' runs go on
    ours = SimpleNamespace(id=run.run.deployment_id, entrypoint="flows.pay_beneficiaries.pay_beneficiaries")
    log = logging.getLogger("prefect.flow_runs")
    with get_client(sync_client=True) as client, caplog.at_level(logging.WARNING, log.name):
        client.set_flow_run_state(run.id, Running(), force=True)
        log.addHandler(caplog.handler)
        assert end_abandoned_runs(client, [ours], hooks_of_crashed([ours])) == 1
        log.removeHandler(caplog.handler)
    assert run.state.name == "Crashed"
    assert any("run left: 1 settled; results: " in each for each in caplog.messages)
    [crashed] = [each for each in alarms_of(read_settings()) if each.name == "a run crashed"]
    assert "where its machine is gone, treasury runs does" in crashed.body  # that one's log says nothing
