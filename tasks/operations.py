"""Every operation of the catalogue as a task, for flows of one's own: `from tasks.operations import conversion_rate`.

A task takes the operation's fields by their wire names and, optionally, the name of an account block. What reads or
creates returns the whole answer; what moves money goes through ledger and submission, at most once for its
reference, and returns the order's result row. Only reads are retried by Prefect.
"""

from collections.abc import Mapping
from typing import Any

from prefect import Task, task
from prefect.cache_policies import NO_CACHE

from blocks.desk import open_desk
from treasury.provider.catalogue import CATALOGUE
from treasury.provider.operation import Effect, Operation
from treasury.reports.results import result_row
from treasury.runs.calls import send_operation, submit_operation

READ_RETRIES = 2


def as_task(operation: type[Operation[Any]]) -> Task[..., Mapping[str, Any]]:
    """The task of an operation; its retries follow from its effect."""
    reads = operation.effect is Effect.READS

    def send(fields: Mapping[str, Any], account: str | None = None) -> Mapping[str, Any]:
        if operation.effect is Effect.MOVES_MONEY:
            return result_row(submit_operation(open_desk(account), operation(**fields)))
        return send_operation(open_desk(account), operation(**fields))

    send.__name__ = operation.operation_name()
    send.__doc__ = operation.__doc__
    return task(
        name=operation.operation_name(),
        cache_policy=NO_CACHE,
        retries=READ_RETRIES if reads else 0,
        retry_delay_seconds=2 if reads else 0,
        tags={operation.effect.value.replace(" ", "-")},
    )(send)


OPERATION_TASKS: Mapping[str, Task[..., Mapping[str, Any]]] = {
    name: as_task(operation) for name, operation in CATALOGUE.items()
}


def __getattr__(name: str) -> Task[..., Mapping[str, Any]]:
    try:
        return OPERATION_TASKS[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
