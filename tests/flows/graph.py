"""A flow run as Prefect's server shows it: its tasks, and which result goes where."""

from typing import Any

from tests.commands.office import PATIENCE, eventually
from tests.flows.shown import asked


def await_recorded() -> None:
    """Wait until Prefect's server, which records task runs late and in order, has those of this process until now."""
    from prefect import flow, task

    @task
    def last() -> None:
        """Comes after all others."""

    @flow(name="recorded")
    def recorded() -> None:
        last()

    ran = str(recorded(return_state=True).state_details.flow_run_id)
    eventually(lambda: bool(asked("task_runs", flow_runs={"id": {"any_": [ran]}})), PATIENCE)


class Graph:
    """A flow run as Prefect's server shows it."""

    def __init__(self, state: Any) -> None:
        await_recorded()
        self.id = str(state.state_details.flow_run_id)
        [self.run] = asked("flow_runs", flow_runs={"id": {"any_": [self.id]}})
        self.tasks = {each["name"]: each for each in self._tasks()}

    def _tasks(self) -> list[dict[str, Any]]:
        return asked("task_runs", flow_runs={"id": {"any_": [self.id]}}, sort="EXPECTED_START_TIME_ASC", limit=200)

    def edges(self) -> set[tuple[str, str]]:
        """From the task whose result is used to the task that uses it."""
        names = {each["id"]: name for name, each in self.tasks.items()}
        return {
            (names[given["id"]], name)
            for name, each in self.tasks.items()
            for inputs in each["task_inputs"].values()
            for given in inputs
            if given.get("id") in names
        }

    def log(self) -> str:
        """The run's log, its tasks' included."""
        return "\n".join(
            line["message"] for line in asked("logs", logs={"flow_run_id": {"any_": [self.id]}}, limit=200)
        )

    def order(self, edge: tuple[str, str]) -> tuple[int, int]:
        """Return the places of an edge's tasks, in the order in which they began."""
        places = list(self.tasks)
        return places.index(edge[0]), places.index(edge[1])
