"""Questions to the service: they that only read, each about something that the interface document leaves open."""

from treasury.proving.adoption import adopt
from treasury.proving.proving import Findings, prove_service

__all__ = ["Findings", "adopt", "prove_service"]
