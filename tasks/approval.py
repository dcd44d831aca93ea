"""Suspends a deployed run that waits for approvals, with a form, and takes what a person gives there.

Anybody can resume a run in Prefect, so a resume is no yes: what is given is judged by the ledger, as everywhere, and a
run that still lacks approvals is suspended again. An answer is taken out of Prefect before it is judged: it counts
once.
"""

import logging
import re
from typing import Any
from uuid import UUID

from prefect.client.schemas.objects import State
from prefect.context import FlowRunContext
from prefect.exceptions import Pause, PrefectHTTPStatusError
from prefect.flow_runs import resume_flow_run, suspend_flow_run
from prefect.input import RunInput
from prefect.input.actions import delete_flow_run_input, read_flow_run_input
from prefect.input.run_input import keyset_from_base_key
from prefect.runtime import flow_run
from pydantic import Field, ValidationError

from blocks.desk import open_desk
from treasury.approving.tokens import MAX_TOKEN, read_token
from treasury.errors import ApprovalNeeded, InputError
from treasury.ledger.approvals import standing_of, waiting_plans
from treasury.ledger.proposals import WaitingPlan
from treasury.payments import approving
from treasury.payments.desk import Desk
from treasury.reports.plan import as_form, waiting_page

LOG = logging.getLogger("treasury")

QUESTION = re.compile(r"([0-9]+)-([0-9]+-[0-9a-f]{64})")
"""The key of a suspension: when it was asked, Unix ms, and the code of the plan that was shown."""

NOTHING_GIVEN = "the run was resumed, and no token and no name was given"

PLAN_CHANGED = "this is another plan than the one that was shown before: look at its payments again"


class ApprovalForm(RunInput):
    """The form of a run that is suspended."""

    token: str = Field(
        default="",
        max_length=MAX_TOKEN,
        title="Token",
        description="Where the policy lists people: what the command above prints, with --print, on your machine.",
    )
    name: str = Field(
        default="",
        max_length=100,
        title="Name",
        description="Where the policy lists nobody: your name. Whoever made the plan cannot approve it.",
    )


def take_approval(account: str | None) -> str | None:
    """Record the approval that a resumed run was given; returns why it does not count, None where it does.

    None, too, of a run that nobody resumed.
    """
    asked = _questions()
    if not asked:
        return None
    desk, (at, code) = open_desk(account), asked[-1]
    given = _take_answer(f"{at}-{code}")
    if given is None or not (given.token or given.name):
        return NOTHING_GIVEN
    waiting = _waiting(desk, code)
    if waiting is None:
        return "the plan that was shown waits no more"
    try:
        token = read_token(given.token) if given.token else None
        approving.approve(desk, waiting.run_key, name=given.name, token=token, plan_named=code)
    except InputError as error:
        return _without_name(str(error), given.name)
    return None


def _without_name(said: str, name: str) -> str:
    """Say why an answer does not count without the name that was typed: the next form stays in Prefect's database."""
    person = re.escape(" ".join(name.split()))
    return re.sub(rf"(?<!\w){person}(?!\w)", "the name given", said) if person else said


def _waiting(desk: Desk, code: str | None) -> WaitingPlan | None:
    return next((plan for plan in waiting_plans(desk.ledger) if plan.code == code), None)


def _take_answer(question: str) -> ApprovalForm | None:
    """Return what was given to a question, and delete it; None where nothing that can be read was."""
    key = keyset_from_base_key(f"suspended-{question}")["response"]
    try:
        given = read_flow_run_input(key)
        delete_flow_run_input(key)
        return ApprovalForm.model_validate(given)
    except (PrefectHTTPStatusError, ValidationError):
        return None


def unless_suspended(state: State[Any], account: str | None, refused: str | None = None) -> State[Any]:
    """Return the state that a run ends in; a deployed run that lacks approvals is suspended until a person decides.

    `refused`: why what was given last does not count. Raises Prefect's `Pause`, which ends the process.
    """
    if not isinstance(state.data, ApprovalNeeded) or not _is_deployed():
        return state
    desk = open_desk(account)
    waiting = _waiting(desk, state.data.code)
    if waiting is not None:
        _suspend(desk, waiting, state.data.needed, refused)
    return state


def _suspend(desk: Desk, waiting: WaitingPlan, needed: int, refused: str | None) -> None:
    rules = approving.rules_of(desk, waiting)
    page = waiting_page(waiting, standing_of(desk.ledger, waiting, rules)[0], approving.note_of(desk, waiting))
    asked = _questions()
    at, before = asked[-1] if asked else (0, waiting.code)
    why = "; ".join(filter(None, (refused, PLAN_CHANGED if before != waiting.code else None)))
    form = ApprovalForm.with_initial_data(description=as_form(page, why))
    LOG.info("run %s waits for an approval: resume it by its form, or approve it by a command", waiting.run_key)
    try:
        # Not how often it was asked: Prefect forgets that where a run that ended is started again, and keeps what was
        # asked and given before.
        key = f"{max(at + 1, desk.ledger.now())}-{waiting.code}"
        suspend_flow_run(form, key=key, timeout=rules.hours * 3600)
    except RuntimeError as error:  # Race: it was cancelled in this moment
        LOG.warning("run %s could not be suspended: %s", waiting.run_key, error)
    except Pause:
        if _is_decided(desk, needed, waiting):  # Race: who decided meanwhile found no suspended run to resume
            _resume_itself(waiting.run_key)
        raise


def _resume_itself(run_key: str) -> None:
    try:
        resume_flow_run(UUID(flow_run.id))
    except Exception as error:  # it is suspended, whatever the server says now, and a person may resume it
        LOG.warning("run %s was decided about, and not resumed (%s): resume it", run_key, type(error).__name__)


def _is_decided(desk: Desk, needed: int, shown: WaitingPlan) -> bool:
    """Tell whether a plan has its approvals, or waits no more."""
    waiting = _waiting(desk, shown.code)
    if waiting is None:
        return True
    return len(standing_of(desk.ledger, waiting, approving.rules_of(desk, waiting))[0].counted) >= needed


def _is_deployed() -> bool:
    """Tell whether this is a run of a deployment, and no part of another run: Prefect starts it again when it is
    resumed. A script's is not meant: it would give its token again."""
    context = FlowRunContext.get()
    if context is None or context.flow_run is None or context.flow is None or context.flow.name == OF_SCRIPTS:
        return False
    return context.flow_run.deployment_id is not None and context.flow_run.parent_task_run_id is None


OF_SCRIPTS = "approve-and-pay"
"""The flow that is given its approval when it is started."""


def is_resumed() -> bool:
    """Tell whether this run was suspended before, and somebody resumed it."""
    return bool(_questions())


def was_asked(code: str | None) -> bool:
    """Tell whether this run was suspended with this plan before."""
    return any(asked == code for _, asked in _questions())


def _questions() -> list[tuple[int, str]]:
    """The questions that this run was suspended with, as it began, in order: when, and the code of the plan."""
    context = FlowRunContext.get()
    if context is None or context.flow_run is None:
        return []
    keys = context.flow_run.empirical_policy.pause_keys or ()
    return sorted((int(found[1]), found[2]) for each in keys if (found := QUESTION.fullmatch(each)))
