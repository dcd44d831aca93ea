"""Runs of deployments on the tests' Prefect server, each carried out in this process as a worker's process would."""

import json
from contextlib import suppress
from typing import Any

from prefect import Flow
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import FlowRun, State
from prefect.exceptions import Pause
from prefect.flow_engine import run_flow_sync

from treasury.testing import forget_desks


class Deployed:
    """A run of a flow's deployment."""

    def __init__(self, flow: Flow[..., Any], /, deployed_as: Any = "tests", **parameters: Any) -> None:
        self.flow = flow
        with get_client(sync_client=True) as client:
            form: Any = flow.parameters.model_dump()
            deployment = client.create_deployment(
                client.create_flow(flow), deployed_as, entrypoint="tests.flow", parameter_openapi_schema=form
            )
            self.id = client.create_flow_run_from_deployment(deployment, parameters=parameters).id

    @property
    def run(self) -> FlowRun:
        """The run as the server has it."""
        with get_client(sync_client=True) as client:
            return client.read_flow_run(self.id)

    @property
    def state(self) -> State[Any]:
        """Its state there."""
        state = self.run.state
        assert state is not None
        return state

    def go(self) -> State[Any]:
        """Carry it out until it ends or is suspended; returns its state on the server."""
        forget_desks()  # another process would open its own
        run = self.run
        with suppress(Pause):
            run_flow_sync(self.flow, flow_run=run, parameters=run.parameters, return_type="state")
        return self.state

    def resume(self, **given: str) -> str:
        """Resume it as the dashboard's form does; returns what the server says of that."""
        with get_client(sync_client=True) as client:
            return client.resume_flow_run(self.id, run_input=given).status.value

    def resumed(self, **given: str) -> State[Any]:
        """Resume it, and carry it out."""
        assert self.resume(**given) == "ACCEPT"
        return self.go()

    def inputs(self) -> dict[str, Any]:
        """Everything that Prefect keeps of its forms, by key."""
        with get_client(sync_client=True) as client:
            found = client.filter_flow_run_input(self.id, key_prefix="", limit=200, exclude_keys=set())
        return {each.key: json.loads(each.value) for each in found}

    def form(self) -> str:
        """The text above the form that it waits with."""
        key = self.state.state_details.pause_key
        text: str = self.inputs()[f"suspended-{key}-description"]
        return text
