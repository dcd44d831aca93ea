"""The deployments that `prefect.yaml` declares: read, built for Prefect's server, and when each is due next."""

import importlib
from collections.abc import Collection, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import flows
from treasury.clock import MACHINE
from treasury.errors import ConfigurationError
from treasury.payments.desk import desk_of
from treasury.payments.governing import BUSINESS_DAYS, governing
from treasury.policy.model import Policy
from treasury.settings import read_settings


def without_policy() -> set[str]:
    """Slugs of the schedules that move money, while no policy is in force; they are installed inactive."""
    if _policy() is not None:
        return set()
    return {
        schedule["slug"]
        for declared in read_deployments()
        if MOVES_MONEY in declared["tags"]
        for schedule in declared["schedules"]
    }


def _policy() -> Policy | None:
    settings = read_settings()
    found = governing(desk_of(settings.account(), settings)) if settings.has_account else None
    return None if found is None or found.version is None else found.policy


MOVES_MONEY = "moves-money"
"""Tag of the deployments that move money."""


def read_deployments() -> list[dict[str, Any]]:
    """The deployments that `prefect.yaml` declares; the wheel carries it beside the flows.

    People edit its times. Raises `ConfigurationError` that names what cannot be read.
    """
    import yaml

    here = Path(flows.__file__).parent
    file = next(path for path in (here / "prefect.yaml", here.parent / "prefect.yaml") if path.exists())
    try:
        declared: list[dict[str, Any]] = yaml.safe_load(file.read_text(encoding="utf-8"))["deployments"]
        for each in declared:
            for schedule in each["schedules"]:
                _check_schedule(f"{file}: {each['name']}", str(schedule["cron"]), str(schedule["timezone"]))
    except (OSError, ValueError, TypeError, KeyError, yaml.YAMLError) as error:
        said = f"lacks {error}" if isinstance(error, KeyError) else " ".join(str(error).split())
        raise ConfigurationError(f"{file} cannot be read: {said}") from None
    return declared


def _check_schedule(where: str, cron: str, zone: str) -> None:
    from cronsim import CronSim, CronSimError

    try:
        CronSim(cron, MACHINE.now().astimezone(ZoneInfo(zone)))
    except CronSimError as error:
        raise ConfigurationError(f"{where}: cron {cron!r}: {error}") from None
    except (KeyError, ValueError, OSError):  # a folder of zones is no zone
        raise ConfigurationError(f"{where}: the time zone {zone!r} is not known") from None


def build_deployments(paused: Collection[str] = ()) -> list[Any]:
    """The deployments as Prefect objects; schedules of these slugs stay paused."""
    from prefect.schedules import Cron
    from prefect.types.entrypoint import EntrypointType

    built = []
    for declared in read_deployments():
        module, _, name = declared["entrypoint"].rpartition(".")
        flow = getattr(importlib.import_module(module), name)
        schedules = [
            Cron(
                each["cron"],
                timezone=each["timezone"],
                slug=each["slug"],
                active=(each["active"] or MOVES_MONEY in declared["tags"]) and each["slug"] not in paused,
            )
            for each in declared["schedules"]
        ]
        built.append(
            flow.to_deployment(
                name=declared["name"],
                description=declared["description"],
                tags=declared["tags"],
                parameters=_located(declared["parameters"]),
                schedules=schedules or None,
                entrypoint_type=EntrypointType.MODULE_PATH,
            )
        )
    return built


def _located(parameters: dict[str, Any]) -> dict[str, Any]:
    """Paths of sample data are relative to the project; served from anywhere they must be whole."""
    import data

    return {
        name: str(data.path(value.removeprefix("data/")))
        if isinstance(value, str) and value.startswith("data/")
        else value
        for name, value in parameters.items()
    }


def next_jobs(now: datetime) -> list[dict[str, str]]:
    """When each scheduled deployment is due next, where it is served and nobody paused it: `job`, and `next` in UTC.

    One whose schedule means business days is due on the next of them.
    """
    from cronsim import CronSim

    def due() -> Iterator[tuple[datetime, str]]:
        waiting, policy = without_policy(), _policy() or Policy()
        for declared in read_deployments():
            every_day = BUSINESS_DAYS not in declared["tags"]
            for schedule in declared["schedules"]:
                if schedule["slug"] not in waiting:
                    times = CronSim(schedule["cron"], now.astimezone(ZoneInfo(schedule["timezone"])))
                    is_open = policy.business_days.is_open
                    at = next(at for at in times if every_day or is_open(policy.business_date(at)))
                    yield at.astimezone(UTC), declared["entrypoint"].rpartition(".")[2].replace("_", "-")

    return [{"job": job, "next": f"{at:%Y-%m-%dT%H:%M:%SZ}"} for at, job in sorted(due())]
