"""Statuses of an order as the sandbox keeps them (document, States; public fact 2.1)."""

from enum import IntEnum


class OrderStatus(IntEnum):
    """The listed numbers; what is shown of them may be others (`Behaviour.statuses`)."""

    SUBMITTED = 11
    PROCESSING = 22
    FAILED = 44
    CLOSED = 88
    SUCCESS = 99


ENDED = frozenset({OrderStatus.FAILED, OrderStatus.CLOSED, OrderStatus.SUCCESS})
LISTED = tuple(int(status) for status in OrderStatus)
UNLISTED = 12
"""Seen in one public example, explained nowhere (public fact 2.1)."""
