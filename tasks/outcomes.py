"""Ends a flow run in a state that is named for its outcome; outcomes that need a person are failures."""

import functools
import inspect
from collections.abc import Callable, Mapping
from datetime import date
from pathlib import Path
from typing import Any, ParamSpec, TypedDict
from uuid import UUID

from prefect import Flow, Task
from prefect.artifacts import create_table_artifact
from prefect.client.schemas.objects import FlowRun, State, TaskRun
from prefect.context import FlowRunContext
from prefect.runtime import deployment, flow_run
from prefect.states import Cancelled, Completed, Failed

from blocks.account import account_name
from blocks.desk import open_desk
from blocks.policy import policy_file
from tasks.approval import take_approval, unless_suspended
from tasks.artifacts import shown
from tasks.stated import results_kept, state_name
from tasks.watched import watched
from treasury.clock import MACHINE
from treasury.errors import (
    ApprovalNeeded,
    ConfigurationError,
    InputError,
    InvalidSheet,
    NeedsAttention,
    NotTrusted,
    PlanRejected,
    RunHeld,
    TreasuryError,
    WaitingForYes,
)
from treasury.files import as_ours, check_folder, path_of
from treasury.payments.governing import governing
from treasury.policy.model import Policy
from treasury.provider.client import may_pass
from treasury.reports.results import has_left, in_words, needs_a_person
from treasury.settings import read_settings


def check_out(out: str | None, *, is_deployed: bool) -> None:
    """Raise `InputError` for what can be no folder, and for a folder outside the home in a form, which anybody fills in
    who sees the dashboard."""
    if out is None:
        return
    path_of(out)
    if is_deployed:
        read_settings().check_out(out)
    check_folder(Path(out))


P = ParamSpec("P")


def dated(words: str) -> Callable[[], str]:
    """A name for each run of a flow: these words and the business date of the policy in force, UTC's without one."""
    return lambda: f"{words} {_business_date()}"


def _business_date() -> date:
    given = flow_run.parameters or {}
    try:
        desk = open_desk(account_name(given.get("account")))
        named = given.get("policy")
        policy = governing(desk, None if named is None else policy_file(named)).policy
    except Exception:  # a name ends no run: whatever is wrong, the run itself meets it and says so
        return MACHINE.now().date()
    return (policy or Policy()).business_date(desk.clock.now())


def ends_in_a_named_state(flow_function: Callable[P, Mapping[str, Any]]) -> Callable[P, Mapping[str, Any]]:
    """Decorate a flow's function so that the run ends in a state named for what it returns or raises.

    A summary of a run becomes `Settled`, `PartlySettled` or `NeedsAttention`; of the errors, input that is not accepted
    becomes `InputRejected`, an approval that lacks `WaitingForApproval` (a deployed run is suspended instead), a run
    that another process holds `RunHeld`, and every other one of ours `Failed`, none with a traceback. Whoever calls the
    flow gets its summary, or the error; of `NeedsAttention` the summary is a member.
    """

    @functools.wraps(flow_function)
    def told(*args: P.args, **kwargs: P.kwargs) -> Any:
        bound = inspect.signature(flow_function).bind(*args, **kwargs)
        given, refused = bound.arguments, list[str | None]()

        def work() -> State[Any]:
            try:
                given["account"] = account_name(given.get("account"))
                out = given.get("out")  # where no deployment is, Prefect asks its server for it
                check_out(out, is_deployed=out is not None and deployment.id is not None)
                refused.append(take_approval(given["account"]))
                with results_kept():
                    result: Any = flow_function(*bound.args, **bound.kwargs)
            except (TreasuryError, OSError) as error:
                return _state_of_error(as_ours(error))
            return result if isinstance(result, State) else _state_of(result)

        ended = watched(flow_function.__name__.replace("_", "-"), given, work)
        return _kept(unless_suspended(ended, given.get("account"), *refused))

    return told


_ENDED: dict[UUID, State[Any]] = {}
"""Flow run -> the state that it ends in, until Prefect's server has taken it."""


def _kept(state: State[Any]) -> State[Any]:
    context = FlowRunContext.get()
    if context is not None and context.flow_run is not None and not state.is_cancelled():  # of which no hook is called
        _ENDED[context.flow_run.id] = state
    return state


def give_result_back(flow: Flow[..., Any], flow_run: FlowRun, state: State[Any]) -> None:  # noqa: ARG001 - Prefect names them
    """Give the last state of a run its result again.

    Where the server's answer to it is lost, Prefect asks once more, and is answered with the state without its result:
    a run that is settled would end in an error.
    """
    ended = _ENDED.pop(flow_run.id, None)
    if ended is not None and state.data is None and (state.type, state.name) == (ended.type, ended.name):
        state.data = ended.data


class Endings(TypedDict, total=False):
    """Hooks of a flow, by how its run ends."""

    on_completion: list[Any]
    on_cancellation: list[Any]
    on_crashed: list[Any]
    on_failure: list[Any]


RESULT_KEPT = Endings(on_completion=[give_result_back], on_failure=[give_result_back])
"""The hooks of flows that move no money."""


def told_after(error: TreasuryError, summary: Mapping[str, Any]) -> TreasuryError:
    """The error that ends a start which recorded something: it has the summary, and says what the start did before.

    `NeedsAttention` where a balance did not move by the orders, or where the error means that nothing was sent and
    something was.
    """
    error.summary = summary
    if not has_left(summary):
        return error
    made = {"conversions": {"counts": summary.get("conversions", {})}, f"run {summary['run_key']}": summary}
    before = "; ".join(f"{name}: {in_words(each)}" for name, each in made.items() if each["counts"])
    said = f"{before}; then: {str(error).replace('nothing was', 'nothing more was')}"
    if summary.get("breaks") or isinstance(error, NOTHING_SENT):
        return NeedsAttention("NeedsAttention", _short(said), summary)
    error.args = (said, *error.args[1:])
    return error


def unless_rejected(task: Task[..., Any], run: TaskRun, state: State[Any]) -> bool:  # noqa: ARG001 - Prefect names them
    """Tell whether a task is tried again: of our own errors only where an answer may come if it is asked again."""
    error = state.data
    return not isinstance(error, TreasuryError) or may_pass(error)


def state_of_order(result: Mapping[str, Any]) -> State[Any]:
    """The state of a task that sent one order: `Settled`, `InProgress`, or a failed one named for its outcome.

    Whoever calls the task gets the result of an order that was sent and not refused; else `NeedsAttention`, whose
    `summary` is that result.
    """
    name = state_name(result["outcome"])
    said = [str(result[each]) for each in ("reason", "next_action") if result[each]]
    if result["outcome"] in ("settled", "in_progress"):
        return Completed(name=name, message="; ".join(said) or None, data=result)
    words = f"{result['operation']} {result['request_id']} is {result['outcome'].replace('_', ' ')}"
    message = _short(": ".join((words, *said)))
    return Failed(name=name, message=message, data=NeedsAttention(name, message, result))


def _state_of_error(error: TreasuryError) -> State[Any]:
    message = str(error)
    match error:
        case PlanRejected():
            name = "Rejected"
        case InputError():
            return _rejected(error)
        case ApprovalNeeded() | WaitingForYes():
            name = "WaitingForApproval"
        case NeedsAttention():
            name = error.state
        case RunHeld():
            return Cancelled(name="RunHeld", message=f"{message}; nothing was done", data=error)
        case _:
            name, message = "Failed", _short(message)
    return Failed(name=name, message=message, data=error)


def _rejected(error: InputError) -> State[Any]:
    _show_problems(error)
    corrected = error.corrected if isinstance(error, InvalidSheet) else None
    where = "" if corrected is None else f"\ncorrected copy: {corrected}"
    return Failed(name="InputRejected", message=_short(str(error)) + where, data=error)


READY = {"provisioning": "Provisioned", "deposit-addresses": "Issued", "collect": "Collected"}
"""Kind of a summary that tells of no payments -> the name of its state where nobody is needed."""


def _state_of(summary: Mapping[str, Any]) -> State[Any]:
    if "verdict" in summary:
        return _verdict(summary)
    message = in_words(summary)
    if needs_a_person(summary):
        return Failed(name="NeedsAttention", message=message, data=NeedsAttention("NeedsAttention", message, summary))
    if (ready := READY.get(summary["kind"])) is not None:
        return Completed(name=ready, message=message, data=summary)
    name = "PartlySettled" if summary["counts"].get("in_progress") else "Settled"
    return Completed(name=name, message=message, data=summary)


def _verdict(report: Mapping[str, Any]) -> State[Any]:
    name = str(report["verdict"]).capitalize()
    counts = ", ".join(f"{count} {each}" for each, count in report["counts"].items()) or "no orders"
    if name in ("Breaks", "Incomplete"):
        return Failed(name=name, message=counts, data=NeedsAttention(name, f"{name}: {counts}", report))
    return Completed(name=name, message=counts, data=report)


def _show_problems(error: InputError) -> None:
    """The problems of a spreadsheet as a table; personal values are masked already."""
    if isinstance(error, InvalidSheet):
        rows = [
            {
                "row": each.row or None,
                "row_ref": each.row_ref,
                "column": each.column,
                "rule": each.rule,
                "code": each.code,
            }
            for each in error.problems[:MAX_PROBLEMS]
        ]
        with shown("what is to correct"):
            create_table_artifact(rows, key="input-problems", description=f"{len(error.problems)} to correct")


NOTHING_SENT = (InputError, ConfigurationError, NotTrusted)
"""Errors that say that nothing was sent."""

MAX_PROBLEMS = 500
"""Problems that the table shows; `errors.csv` has all."""

MAX_MESSAGE = 500


def _short(text: str) -> str:
    return text if len(text) <= MAX_MESSAGE else f"{text[:MAX_MESSAGE]} ..."
