"""Pure: how far card users have come with their identity check, counted for the morning report."""

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from treasury.provider.card_users import KYC_STATUS, NOT_SET, PASSED

HOUR_MS = 3_600_000


def funnel_of(users: Sequence[Mapping[str, Any]], unused: Sequence[str]) -> dict[str, Any] | None:
    """Count card users by the status that the service shows; None where there are none.

    `median_hours`: from when a user was first seen until the check was first seen as passed, of those who took any time
    under this ledger's eyes. `unused`: who has not used the link for long.
    """
    if not users:
        return None
    counts = Counter(KYC_STATUS.get(_status(user), "not known") for user in users)
    took = [
        (user["passed_at"] - user["first_at"]) / HOUR_MS
        for user in users
        if user.get("passed_at") and user.get("first_at") and user["passed_at"] > user["first_at"]
    ]
    return {
        "created": len(users),
        "counts": {words: counts[words] for words in (*KYC_STATUS.values(), "not known") if counts[words]},
        "handed_in": sum(_status(user) not in (NOT_SET, "") for user in users),
        "passed": sum(_status(user) == PASSED for user in users),
        "median_hours": round(median(took), 1) if took else None,
        "unused": sorted(unused),
    }


def _status(user: Mapping[str, Any]) -> str:
    """Return the status that the service shows now; that of before where it could not be asked."""
    shown = user.get("seen_kyc_status") if user.get("answer") == "found" else user.get("kyc_status")
    return NOT_SET if shown is None else str(shown)
