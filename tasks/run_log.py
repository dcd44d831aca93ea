"""Puts what the logger `treasury` logs, from INFO on, into the log of the Prefect run; an error of ours is one line."""

import logging
import os

from prefect.context import FlowRunContext, TaskRunContext
from prefect.exceptions import FailedRun
from prefect.logging.handlers import APILogHandler, APILogWorker
from rich.console import Console

from treasury.errors import TreasuryError


def show_in_run_log() -> None:
    """Send what `treasury` logs inside a run to Prefect. Done once in a process."""
    log = logging.getLogger("treasury")
    if log.level == logging.NOTSET:
        log.setLevel(logging.INFO)
    if not any(isinstance(handler, APILogHandler) for handler in log.handlers):
        handler = APILogHandler()
        handler.addFilter(_is_in_a_run)
        log.addHandler(handler)
    for name in ("prefect.flow_runs", "prefect.task_runs", "prefect.engine"):
        logging.getLogger(name).addFilter(_in_one_line)  # a filter that is there already is not added again


def outlive_reader() -> None:
    """Go on when whoever read this process's output is gone, such as a killed `treasury serve`: rich would end it."""
    setattr(Console, "on_broken_pipe", _into_nothing)  # noqa: B010 - the type says that a method is not assigned


def _into_nothing(console: Console) -> None:
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, console.file.fileno())
    os.close(nothing)


def flush_run_log(seconds: float = 5.0) -> None:
    """Send pending log records before the embedded server ends; later the process would wait for a server that is
    gone."""
    APILogWorker.drain_all(timeout=seconds, at_exit=False)


def _is_in_a_run(_: logging.LogRecord) -> bool:
    return FlowRunContext.get() is not None or TaskRunContext.get() is not None


def _in_one_line(record: logging.LogRecord) -> bool:
    """Take the traceback from what Prefect logs of an error of ours: the state of the run says what came of it.

    The line by which Prefect calls it unexpected is left out. A task that waits for an approval ends in a state that
    Prefect logs as an error: it is none. Where Prefect kept the words of a failed state alone, it raises its
    own `FailedRun`. Where a task returned its failed state there is no error, and Prefect would log `NoneType: None`.
    The lines about the hook that gives a run its result back are left out.
    """
    if "'give_result_back'" in str(record.msg) and record.levelno == logging.INFO:
        return False
    if str(record.msg).startswith("Finished in state WaitingForApproval("):
        record.levelno, record.levelname = logging.INFO, "INFO"
    if not (record.exc_info and isinstance(record.exc_info[1], (TreasuryError, FailedRun, type(None)))):
        return True
    record.exc_info = None
    return "unexpected exception" not in str(record.msg)
