"""Order status on the wire: the document shows 11, 22 and 99; the rest is public fact 2.1."""

from enum import IntEnum

MAX_STATUS = 2**31 - 1
"""The highest number that a column of the ledger holds."""


class OrderStatus(IntEnum):
    """Status of an order. A number outside this list survives as an unclassified member; one that does not fit into 32
    bits is no status."""

    SUBMITTED = 11
    """Accepted into the system."""
    PROCESSING = 22
    """In progress."""
    FAILED = 44
    """Failed. Final by inference (public fact 2.1): a later change is recorded as a correction."""
    CLOSED = 88
    """Cancelled or rejected. Final by inference (public fact 2.1)."""
    SUCCESS = 99
    """Completed."""

    @classmethod
    def _missing_(cls, value: object) -> "OrderStatus | None":
        if not isinstance(value, int) or isinstance(value, bool) or not -MAX_STATUS <= value <= MAX_STATUS:
            return None
        member = int.__new__(cls, value)
        member._name_ = f"UNCLASSIFIED_{value}"
        member._value_ = value
        return member

    @property
    def is_classified(self) -> bool:
        """Tell whether this number is in the published list."""
        return self.name in OrderStatus.__members__

    @property
    def is_final(self) -> bool:
        """Tell whether no further change is expected."""
        return self in (OrderStatus.FAILED, OrderStatus.CLOSED, OrderStatus.SUCCESS)

    @property
    def is_payment(self) -> bool:
        """Tell whether this status, seen on a quoted order, shows that a confirmation was acted upon.

        An unconfirmed quote may be queryable too (public fact 5.2), with 11 or the unlisted 12.
        """
        return self in (OrderStatus.PROCESSING, OrderStatus.FAILED, OrderStatus.CLOSED, OrderStatus.SUCCESS)
