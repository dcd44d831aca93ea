"""Prefect's server as it shows the flows of one test; other processes' tests report to it at the same time."""

import os
from typing import Any

import httpx


def asked(path: str, **body: Any) -> list[dict[str, Any]]:
    """Return what Prefect's server answers to a filter."""
    found: list[dict[str, Any]] = httpx.post(f"{os.environ['PREFECT_API_URL']}/{path}/filter", json=body).json()
    return found


def artifacts() -> list[dict[str, Any]]:
    """The artifacts of this test's runs in its `home`, newest first."""
    from prefect.context import TagsContext

    tags = sorted(TagsContext.get().current_tags)
    assert tags, "the test has no home"
    return asked("artifacts", flow_runs={"tags": {"all_": tags}}, sort="CREATED_DESC", limit=200)


def artifact(key: str) -> dict[str, Any]:
    """The newest artifact of a key that this test's runs left."""
    return next(each for each in artifacts() if each["key"] == key)


def told(resource: str) -> dict[str, dict[str, str]]:
    """The events about a resource on the server -> its labels."""
    found: Any = asked("events", filter={"resource": {"id": [resource]}}, limit=50)
    return {each["event"]: each["resource"] for each in reversed(found["events"])}  # the newest one counts
