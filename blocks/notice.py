"""Sends notices through any Prefect notification block, named by type and name: `slack-webhook/treasury`."""

import logging
from collections.abc import Mapping
from typing import Any

from treasury.errors import ConfigurationError
from treasury.reports.notice import compose_notice


def send_notice(name: str | None, report: Mapping[str, Any]) -> bool:
    """Send what is new in a report through a notification block, if anything is; returns whether it was sent.

    A message that cannot be sent is logged; the report is kept. Raises `ConfigurationError` when there is no such
    block.
    """
    notice = compose_notice(report)
    if name is None or notice is None:
        return False
    from prefect.blocks.abstract import NotificationBlock
    from prefect.blocks.core import Block

    try:
        block = Block.load(name)
    except ValueError:
        raise ConfigurationError(f"there is no notification block {name} (TYPE/NAME)") from None
    if not isinstance(block, NotificationBlock):
        raise ConfigurationError(f"{name} is not a notification block")
    subject, body = notice
    try:
        block.notify(body, subject)  # type: ignore[unused-coroutine]  # typed for both worlds; this one is synchronous
    except Exception as error:
        logging.getLogger("treasury").warning("the notification could not be sent: %s", type(error).__name__)
        return False
    return True
