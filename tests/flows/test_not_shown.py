"""Artifacts that Prefect's server does not take: a run does all the same, ends the same, and tells the same."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.commands.office import eventually
from tests.flows.shown import told
from tests.flows.waiting import adopted, effects, paying, rebalancing, trading
from treasury.sandbox import RunningSandbox

pytestmark = pytest.mark.prefect


@pytest.fixture(autouse=True)
def _server_takes_no_artifact(prefect_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from prefect.client.orchestration import SyncPrefectClient
    from prefect.exceptions import PrefectHTTPStatusError

    def refused(*_: Any, **__: Any) -> Any:
        request = httpx.Request("POST", f"{prefect_url}/artifacts/")
        raise PrefectHTTPStatusError("Server error", request=request, response=httpx.Response(500, request=request))

    monkeypatch.setattr(SyncPrefectClient, "create_artifact", refused)


def test_a_run_waits_is_paid_and_says_its_line(
    home: Path, sandbox: RunningSandbox, caplog: pytest.LogCaptureFixture
) -> None:
    adopted()
    before, run = effects(sandbox), paying(home, "not-shown")
    assert run.go().name == "Suspended"
    assert run.resumed(name="Checker").name == "Settled"
    assert effects(sandbox) == before + 1
    assert "run not-shown could not be shown in Prefect: PrefectHTTPStatusError" in caplog.messages
    assert [each.message for each in caplog.records if each.exc_info] == []
    (home / "wrong.csv").write_text("row_ref,route\nr1,direct\n")
    run = paying(home, "wrong", sheet=None)
    (home / "wrong.csv").write_text("row_ref,route\nr1,direct\n")
    assert run.go().name == "InputRejected"


def test_a_rebalancing_writes_its_decisions_and_a_night_is_told(
    home: Path, open_sandbox: Callable[..., RunningSandbox], monkeypatch: pytest.MonkeyPatch
) -> None:
    from flows.reconcile_transactions import reconcile_transactions

    monkeypatch.setenv("TREASURY_BASE_URL", open_sandbox().base_url)
    trading({})
    run = rebalancing()
    run.go()
    assert run.resumed(name="Checker").name == "Settled"
    assert list((home / "runs").glob("rebalance-*/decisions.json"))
    assert reconcile_transactions(return_state=True).is_completed()
    [folder] = (home / "nights").iterdir()
    eventually(lambda: "treasury.night.reported" in told(f"treasury.night.{folder.name}"), 60, "nobody was told")
