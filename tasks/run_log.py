"""Puts what the logger `treasury` logs, from INFO on, into the log of the Prefect run."""

import logging

from prefect.context import FlowRunContext, TaskRunContext
from prefect.logging.handlers import APILogHandler, APILogWorker


def show_in_run_log() -> None:
    """Send what `treasury` logs inside a run to Prefect. Done once in a process."""
    log = logging.getLogger("treasury")
    if log.level == logging.NOTSET:
        log.setLevel(logging.INFO)
    if not any(isinstance(handler, APILogHandler) for handler in log.handlers):
        handler = APILogHandler()
        handler.addFilter(_is_in_a_run)
        log.addHandler(handler)


def flush_run_log(seconds: float = 5.0) -> None:
    """Send pending log records before the embedded server ends; later the process would wait for a server that is
    gone."""
    APILogWorker.drain_all(timeout=seconds, at_exit=False)


def _is_in_a_run(_: logging.LogRecord) -> bool:
    return FlowRunContext.get() is not None or TaskRunContext.get() is not None
