"""A run that was suspended, ended, and is started again in the dashboard (*Retry*): it is asked about anew."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.flows.deployed import Deployed
from tests.flows.waiting import adopted, effects, paying
from treasury.sandbox import RunningSandbox

pytestmark = pytest.mark.prefect


@pytest.fixture
def by_name(home: Path) -> Path:
    """A home whose policy lists nobody, so that typed names count."""
    adopted()
    return home


def ended_and_started_again(run: Deployed) -> None:
    """Cancel a run, and start it again, as the buttons of the dashboard do."""
    from prefect.client.orchestration import get_client
    from prefect.states import AwaitingRetry, Cancelled

    with get_client(sync_client=True) as client:
        states: list[Any] = [Cancelled(), AwaitingRetry()]
        for state in states:
            assert client.set_flow_run_state(run.id, state).status.value == "ACCEPT"


def test_a_run_that_was_cancelled_while_it_waited_asks_again_with_a_form_of_its_own(
    by_name: Path, sandbox: RunningSandbox, caplog: pytest.LogCaptureFixture
) -> None:
    before, run = effects(sandbox), paying(by_name, "again")
    assert run.go().name == "Suspended"
    first = run.state.state_details.pause_key
    ended_and_started_again(run)
    state = run.go()
    assert state.name == "Suspended", state.message
    assert [each.message for each in caplog.records if each.exc_info] == []
    assert run.state.state_details.pause_key != first
    assert run.resumed(name="Checker").name == "Settled"
    assert effects(sandbox) == before + 1


def test_an_answer_to_a_run_that_was_cancelled_before_it_was_heard_counts_for_no_later_start(
    by_name: Path, sandbox: RunningSandbox
) -> None:
    before, run = effects(sandbox), paying(by_name, "unheard")
    run.go()
    assert run.resume(name="Checker") == "ACCEPT"
    ended_and_started_again(run)
    assert run.go().name == "Suspended"
    assert run.resumed().name == "Suspended"  # anybody can resume it
    assert "no token and no name was given" in run.form()
    assert effects(sandbox) == before
    assert "Checker" not in json.dumps(run.run.parameters)
