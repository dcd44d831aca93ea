"""A schedule that means business days, on days that are none by the calendars of the policy in force."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.commands.in_process import fresh_process
from tests.commands.office import Office
from tests.moved_clock import MovedClock

pytestmark = pytest.mark.prefect

DAY = 86_400
PAST = {"start_time": "2026-01-01T00:00:00Z", "end_time": "2026-01-02T00:00:00Z", "min_runs": 1, "max_runs": 1}
POLICY = """
time_zone = "Asia/Bangkok"
holidays = ["TH"]
no_limits = "a test"
base_asset = "USDT"
[rebalancing]
min_trade = "25"
[assets]
BTC = { target = "1" }
USDT = { target = "1" }
"""
NOWHERE = "/nowhere.csv"
"""A file of balances that is not there: a run that does its work ends `InputRejected`, and asks the service nothing."""


@pytest.fixture
def office(open_office: Callable[..., Office]) -> Office:
    """On a Friday in January, at a service that nobody reaches, under a policy that knows Thailand's holidays."""
    office = open_office("http://127.0.0.1:9")
    office.clock = MovedClock()
    policy = office.file("policy.toml", POLICY)
    assert office.run("policy", "adopt", policy, "--by", "Ada Example").code == 0
    return office


def ends(office: Office, *tags: str, scheduled: bool = True) -> tuple[str | None, str | None]:
    """The state in which a run of the rebalancing's deployment ends, by its name and its message."""
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterDeploymentId
    from prefect.client.schemas.schedules import CronSchedule
    from prefect.flow_engine import run_flow_sync

    from flows.rebalance_treasury import rebalance_treasury

    with fresh_process(office.environ, office.home, clock=office.clock), get_client(sync_client=True) as client:
        flow, name = client.create_flow(rebalance_treasury), "-".join((*tags, str(scheduled), str(office.clock.wall())))
        deployment = client.create_deployment(flow, name, schedules=[], tags=[*tags], entrypoint="tests.flow")
        if scheduled:
            daily: list[Any] = [(CronSchedule(cron="30 6 * * *"), True)]
            client.create_deployment_schedules(deployment, daily)
            client.request("POST", "/deployments/{id}/schedule", path_params={"id": deployment}, json=PAST)
        else:
            client.create_flow_run_from_deployment(deployment)
        wanted = FlowRunFilter(deployment_id=FlowRunFilterDeploymentId(any_=[deployment]))
        run, *_ = client.read_flow_runs(flow_run_filter=wanted)
        assert run.auto_scheduled == scheduled
        given = {"balances": NOWHERE}
        state: Any = run_flow_sync(rebalance_treasury, flow_run=run, parameters=given, return_type="state")
    return state.name, state.message


def test_a_scheduled_run_ends_at_once_where_its_schedule_means_business_days(office: Office) -> None:
    assert isinstance(office.clock, MovedClock)
    assert ends(office, "business-days")[0] == "InputRejected"
    office.clock.move(DAY)
    name, said = ends(office, "business-days")
    assert name == "NotABusinessDay"
    assert said == (
        "2027-01-16 is no business day of TH: the service was asked nothing, and nothing left; the next one is "
        "2027-01-18, and a person can start it before"
    )
    assert ends(office)[0] == "InputRejected"
    assert ends(office, "business-days", scheduled=False)[0] == "InputRejected"


def test_the_status_says_the_next_business_day(office: Office) -> None:
    due = {each["job"]: each["next"] for each in json.loads(office.run("status", "--json").out)["scheduled"]}
    assert due == {
        "reconcile-transactions": "2027-01-15T19:00:00Z",  # Saturday, 3 o'clock in Singapore
        "rebalance-treasury": "2027-01-17T22:30:00Z",  # Monday, 6:30 in Singapore
    }
