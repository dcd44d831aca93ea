"""Questions to the service: they that only read, each about something that the interface document leaves open."""

from treasury.proving.proving import Findings, prove_service

__all__ = ["Findings", "prove_service"]
