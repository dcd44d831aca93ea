"""Sends notices: through a Prefect notification block, TYPE/NAME, or to an address of Apprise (mail, Slack, Teams)."""

import logging
from collections.abc import Callable
from functools import partial

from treasury.errors import ConfigurationError
from treasury.pings import in_time
from treasury.reports.notice import Message

LOG = logging.getLogger("treasury")

NOTICE_SECONDS = 30.0
"""The longest that the work waits for a notice to be taken."""


def send_notice(place: str, notice: Message) -> bool:
    """Send a notice to a block (TYPE/NAME) or to an address of Apprise (with `://`); returns whether it was taken.

    One that is not taken is a line of the log. Raises `ConfigurationError` when there is no such block or kind of
    address.
    """
    found = in_time(NOTICE_SECONDS, lambda: _why_not(place, notice))
    if isinstance(found, ConfigurationError):
        raise found
    if found != "":
        kind = place.partition("://")[0] if "://" in place else place  # the rest of an address may be a secret
        LOG.warning("the notice to %s did not arrive: %s", kind, found or f"no answer within {NOTICE_SECONDS:g} s")
    return found == ""


def _why_not(place: str, notice: Message) -> str | ConfigurationError:
    try:
        send = _address(place, notice) if "://" in place else _block(place, notice)
        return "" if send() else "it was not taken"
    except ConfigurationError as error:
        return error
    except Exception as error:
        return type(error).__name__


def _address(place: str, notice: Message) -> Callable[[], bool]:
    from apprise import Apprise, NotifyFormat

    apprise = Apprise()
    kind = place.partition("://")[0]
    if not apprise.add(place):
        raise ConfigurationError(f"TREASURY_NOTICES: an address that begins with {kind}:// cannot be used by Apprise")
    page = notice.page if kind in ("mailto", "mailtos") else None
    text = NotifyFormat.TEXT
    return lambda: bool(apprise.notify(notice.body, notice.subject, body_format=text, attach=page))


def _block(name: str, notice: Message) -> Callable[[], bool]:
    from prefect.blocks.abstract import NotificationBlock
    from prefect.blocks.core import Block

    try:
        block = Block.load(name)
    except ValueError:
        raise ConfigurationError(f"there is no notification block {name} (TYPE/NAME)") from None
    if not isinstance(block, NotificationBlock):
        raise ConfigurationError(f"{name} is not a notification block")
    send = partial(block.notify, notice.body, notice.subject)
    return lambda: send() is None
