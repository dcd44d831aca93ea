"""What an answer other than success means: the table of "refused without acting", and of "does not exist"."""

from collections.abc import Mapping
from enum import Enum

from treasury.errors import Refused


class Meaning(Enum):
    """What a refusal says about the request it answers."""

    WITHOUT_ACTING = "refused without acting"
    """Nothing happened, and the same request would be refused again."""
    NOT_NOW = "refused without acting, for a reason that passes"
    """Nothing happened; the same order may be tried again after a pause, with a new nonce and timestamp."""
    UNLISTED = "unlisted"
    """Nothing can be concluded."""


REFUSED_WITHOUT_ACTING: Mapping[str, str] = {
    "400": "malformed, or a field breaks a rule",
    "401": "the key does not match the signature, or lacks permission",
    "403": "the key's permissions are insufficient",
    "406": "wrong signature",
    "5004": "user status invalid",
    "7002": "currency not supported",
    "202203": "insufficient balance",
    "202206": "below the minimum",
    "202211": "unsupported currency",
    "202212": "amount not above the fee",
    "206003": "payout route invalid",
    "2204002": "no fee rule for this amount",
}
"""Codes of the envelope (public facts 3.1 and 3.2). Valid as the answer to a first transmission only.

Not in it, on purpose: 202224 (a repeat: the first one may have acted), 500, 404, and everything unknown.
"""

REFUSED_FOR_NOW: Mapping[str, str] = {"412": "wrong timestamp, or a nonce used before", "429": "too many requests"}

_STATUSES_WITHOUT_ACTING = (400, 401, 403)
_TOO_MANY = 429

NO_SUCH_ORDER = "7000"
"""ORDER_NOT_EXIST (public fact 3.2). Nothing else counts as evidence that an order is not there: a 404 may come
from a proxy or a wrong path."""

NO_SUCH_USER = ("404", "7000")
"""Codes that say a card user does not exist, as HTTP status or in the envelope: an assumption, since neither the
document nor the public facts say how the query answers then."""


def read_refusal(refusal: Refused) -> Meaning:
    """What a refusal means. The envelope's code decides when there is one; a server error never counts."""
    if refusal.http_status == _TOO_MANY:
        return Meaning.NOT_NOW
    if refusal.http_status >= 500:
        return Meaning.UNLISTED
    if refusal.code is None:
        known = refusal.http_status in _STATUSES_WITHOUT_ACTING
        return Meaning.WITHOUT_ACTING if known else Meaning.UNLISTED
    if refusal.code in REFUSED_FOR_NOW:
        return Meaning.NOT_NOW
    return Meaning.WITHOUT_ACTING if refusal.code in REFUSED_WITHOUT_ACTING else Meaning.UNLISTED


def says_no_such_order(refusal: Refused) -> bool:
    """Whether the answer to a query says that the service knows no such order."""
    return refusal.code == NO_SUCH_ORDER and refusal.http_status < 500


def says_no_such_user(refusal: Refused) -> bool:
    """Whether the answer to a query says that there is no such card user."""
    return (refusal.code or str(refusal.http_status)) in NO_SUCH_USER
