"""Warnings to whoever runs this, each said once in a process: the logger `treasury`."""

import functools
import logging


@functools.cache
def warn_once(message: str) -> None:
    """Log a warning, unless this process logged the same one before."""
    logging.getLogger("treasury").warning(message)
