"""The meaning of an answer other than success: three kinds of refusal, and what each published code is one of.

Which codes are of which kind is a setting of the account (`service_rules`); these tables are its defaults.
"""

from collections.abc import Mapping
from enum import Enum

from treasury.errors import Refused


class RefusalKind(Enum):
    """The kind of a refusal, by what it says about the request it answers."""

    FINAL = "refused for good"
    """Nothing happened, and the same request would be refused again: such an answer depends on the request alone, so
    it cannot be the answer to a request that acted."""
    ASK_FIRST = "refused, and asked about first"
    """The service says that it did not accept it. It may say so of a repeat of a request that acted: the state that it
    judges by changed meanwhile. Believed only after two queries that find nothing."""
    UNDECIDED = "decides nothing"
    """Nothing can be concluded about the payment: only a query decides."""


FINAL: Mapping[str, str] = {
    "406": "wrong signature: the request was not read",
    "7002": "currency not supported",
    "202206": "below the minimum",
    "202211": "unsupported currency",
    "202212": "amount not above the fee",
    "206003": "payout route invalid",
    "2204002": "no fee rule for this amount",
}
"""Envelope codes (public facts 3.1 and 3.2) that depend on nothing but the request's own content."""

ASK_FIRST: Mapping[str, str] = {
    "400": "malformed, or a field breaks a rule; also said of a quote that was used or has expired",
    "401": "the key does not match the signature, or lacks permission; a permission may be withdrawn after the first",
    "403": "the key's permissions are insufficient; the same",
    "5004": "user status invalid; the status may change after the first",
    "202203": "insufficient balance; the first one may have taken it",
}
"""Envelope codes that say "not accepted", but depend on the state of the account."""

DECIDES_NOTHING: Mapping[str, str] = {
    "412": "wrong timestamp, or a nonce used before: a proxy's second transmission of the same bytes is answered so",
    "429": "too many requests: a gateway may say so after the first transmission acted",
    "202224": "a repeat of a request: the first one may have acted",
    "ORDER_STATUS_INVALID": "the order or quote was used before",
    "QUOTE_EXPIRED": "the quote has expired, or was used before",
}
"""Everything unlisted decides nothing, too; these are here because somebody might want to list them elsewhere."""

WRONG_SIGNATURE = "406"
TOO_MANY = "429"
DOUBLE_PAYMENT = "202224"
"""The service knows this reference already."""

ACCOUNT_TROUBLE: Mapping[str, str] = {
    "401": "the key, or the partner id",
    "403": "the key's permissions, or this machine's address",
    "406": "the key, or the hash it signs with",
    "412": "the clock, or the unit of the timestamp",
}
"""Envelope codes that are about who asks, not about what is asked -> what is probably wrong. The first one stops all
sends until a signed question is answered."""


def says_too_many(refusal: Refused) -> bool:
    """Tell whether somebody, the service or a gateway before it, asks for fewer requests."""
    return refusal.http_status == int(TOO_MANY) or refusal.code == TOO_MANY


def says_account_trouble(refusal: Refused) -> bool:
    """Tell whether the service's own envelope refuses us, whatever we ask for."""
    return refusal.code in ACCOUNT_TROUBLE
