"""The findings about a service: what each entry of its table says, and what its answers showed."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class ProofVerdict(StrEnum):
    """The verdict of the service's answers on an entry of the service table."""

    PROVEN = "proven"
    CONTRADICTED = "contradicted"
    OPEN = "open"
    """No query can show it, or no answer was conclusive."""


AS_CONNECTED = "as connected"
"""The setting of a finding about something outside the table, such as a key."""


@dataclass(frozen=True)
class Proof:
    """The finding about one entry."""

    name: str
    """An entry of the service table, or `partner_id`, `private_key`, `clock` and the like."""
    setting: Any
    """Its present setting in the account."""
    verdict: ProofVerdict
    evidence: str
    """Question and answer, in words."""
    proposed: Any = None
    """The proposed setting; None proposes nothing."""
