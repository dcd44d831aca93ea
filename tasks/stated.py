"""The tasks of this package: each may end in a state of its own, and its result makes no edge by accident."""

import functools
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, ParamSpec, Protocol, TypeVar, cast

from prefect import Task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.states import Cancelled, Completed

from treasury.errors import ApprovalNeeded, InputError
from treasury.ledger.counts import outcomes
from treasury.orders.states import OUTCOMES
from treasury.payments.desk import Desk
from treasury.reports.results import in_words

T = TypeVar("T")
P = ParamSpec("P")
R = TypeVar("R")

RESULTS: ContextVar[list[Any] | None] = ContextVar("RESULTS", default=None)
"""The results of a flow run, kept until it ends: Prefect knows a result by its address alone, and takes another one
that comes to lie there later for the same."""


@contextmanager
def results_kept() -> Iterator[None]:
    """Keep the results of the tasks of a flow run inside."""
    kept = RESULTS.set([])
    try:
        yield
    finally:
        RESULTS.reset(kept)


class StatedTask(Task[..., Any]):
    """A task that may return its state; whoever calls it gets what the state holds, as with any other task.

    Unless it only `reads`, no option makes it one that is cached: its state would say that something was sent, and
    nothing was.
    """

    def __init__(self, fn: Callable[..., Any], *, reads: bool = False, **options: Any) -> None:
        super().__init__(fn, **options)
        self.reads = reads
        self.source_code = f"{fn.__name__}: {self.source_code}"  # a cache takes tasks of one source for the same

    def __call__(self, *args: Any, return_state: bool = False, wait_for: Any = None, **kwargs: Any) -> Any:
        """Run the task: its result, or the error that it holds; with `return_state` its state."""
        result = super().__call__(*args, return_state=return_state, wait_for=wait_for, **kwargs)
        if isinstance(result, State) and not return_state:
            holding: Any = result  # in an asynchronous flow its result would have to be awaited
            result = holding.result(_sync=True)
        if (kept := RESULTS.get()) is not None:
            kept.append(result)
        return result

    def with_options(self, **options: Any) -> "StatedTask":
        """The task with other options. Raises `InputError` for those that would cache what does not only read."""
        changed = cast(StatedTask, super().with_options(**options))
        if not self.reads and (changed.cache_policy not in (None, NO_CACHE) or changed.result_storage_key is not None):
            mend = "leave cache_policy, cache_key_fn and result_storage_key out"
            raise InputError(f"{self.name} is never cached, since nothing would be sent then: {mend}")
        changed.__class__ = StatedTask  # Prefect makes a plain one
        changed.source_code, changed.reads = self.source_code, self.reads
        return changed


class _Decorator(Protocol):
    def __call__(self, function: Callable[P, R], /) -> Task[P, R]: ...


def task(**options: Any) -> _Decorator:
    """Decorate a function as a task of this package; takes the options of `prefect.task`."""
    return cast(_Decorator, lambda function: StatedTask(_waiting(function), **options))


def _waiting(function: Callable[P, Any]) -> Callable[P, Any]:
    """A task that lacks approvals ends `WaitingForApproval` and not red, since its run may be one that is suspended."""

    @functools.wraps(function)
    def told(*args: P.args, **kwargs: P.kwargs) -> Any:
        try:
            return function(*args, **kwargs)
        except ApprovalNeeded as error:
            return Cancelled(name="WaitingForApproval", message=str(error), data=error)

    return told


def state_name(outcome: str) -> str:
    """The name of a state for an outcome: `in_progress` is `InProgress`."""
    return "".join(word.capitalize() for word in outcome.split("_"))


def state_of_orders(desk: Desk, ids: Sequence[int], result: T) -> T:
    """The state of a task that sent some of a run's orders, named for the one that most needs a person.

    It is a completed one: the state of the run says whether a person is needed, once all was followed. Its type is
    that of the result, which is what callers of the task get.
    """
    counts = outcomes(desk.ledger, ids)
    worst = next((each for each in reversed(OUTCOMES) if each in counts), "settled")
    ordered = {each: counts[each] for each in OUTCOMES if each in counts}
    return cast(T, Completed(name=state_name(worst), message=in_words({"counts": ordered}), data=result))


def own(value: T) -> T:
    """Copy plain values, so that a result shares no object with an earlier one: each shared object is an edge."""
    return cast(T, json.loads(json.dumps(value)))
