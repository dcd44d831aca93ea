"""Resumes the suspended runs of a plan that a person decided about, where a Prefect server is reachable."""

import json
import urllib.request
from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any

from flows.commands.prefect_server import answers, configured_api, identification
from flows.commands.schedules import served_api
from treasury.ledger.proposals import WaitingPlan

SECONDS = 5
"""How long a server may take for an answer."""


def resume_suspended(plan: WaitingPlan) -> list[str]:
    """Resume the suspended runs of a plan's run key, or that show this plan; returns their names.

    A resume is no yes: such a run asks the ledger. Where no server is reachable nothing happens; what is not
    resumed is one line.
    """
    api = configured_api() or served_api()
    if api is None or not answers(f"{api}/health", SECONDS):
        return []
    try:
        meant = [each for each in _suspended(api) if _is_of(each, plan)]
    except (OSError, ValueError) as error:
        print(f"  no run was resumed at {api} ({type(error).__name__}): resume it in Prefect's dashboard")
        return []
    resumed = []
    for each in meant:
        try:
            if _ask(api, f"flow_runs/{each['id']}/resume", {})["status"] == ACCEPTED:
                resumed.append(each["name"])
                print(f"  resumed in Prefect: {each['name']}")
        except (OSError, ValueError) as error:
            print(f"  {each['name']} was not resumed ({type(error).__name__}): resume it in Prefect's dashboard")
    return resumed


ACCEPTED = "ACCEPT"
"""Prefect's word for a change that it made; a run that waited for too long is not resumed."""

PAGE = 200
"""So many runs Prefect's server gives at once."""


def _suspended(api: str) -> Iterator[Mapping[str, Any]]:
    asked = {"flow_runs": {"state": {"name": {"any_": ["Suspended"]}}}, "limit": PAGE, "sort": "ID_DESC"}
    for offset in count(step=PAGE):
        found = _ask(api, "flow_runs/filter", {**asked, "offset": offset})
        yield from found
        if len(found) < PAGE:
            return


def _is_of(run: Mapping[str, Any], plan: WaitingPlan) -> bool:
    question = str(run["state"]["state_details"].get("pause_key"))
    return run["parameters"].get("run_key") == plan.run_key or question.partition("-")[2] == plan.code


def _ask(api: str, path: str, body: Mapping[str, Any]) -> Any:
    request = urllib.request.Request(f"{api}/{path}", json.dumps(body).encode())  # noqa: S310 - of ours, or the operator's
    request.add_header("Content-Type", "application/json")
    for name, value in identification(api).items():
        request.add_header(name, value)
    with urllib.request.urlopen(request, timeout=SECONDS) as answer:  # noqa: S310 - the same
        return json.load(answer)
