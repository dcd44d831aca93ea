"""Stop-loss: a run stops when its sends or questions keep failing."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from treasury.errors import NotConnected
from treasury.orders.records import Order
from treasury.orders.states import State
from treasury.provider.refusals import TOO_MANY

FAILURES_IN_A_ROW = 50
"""A run stops after this many sends in a row that fail in the same way, unless its policy says otherwise."""
UNREACHED = 40
"""Asking ends after this many questions in a row that found no connection, each after all its retries."""
ENOUGH = 20
"""Number of sends below which the share of failed ones is not judged."""


@dataclass
class StopLoss:
    """Counts the outcomes of sends. Safe to use from several threads."""

    failures_in_a_row: int = FAILURES_IN_A_ROW
    percent: int | None = None
    why: str | None = None
    """Why the run has to stop; None while it may go on."""

    def __post_init__(self) -> None:
        self._guard = threading.Lock()
        self._sent = self._failed = self._in_a_row = self._unreached = 0
        self._last: tuple[object, ...] | None = None

    @classmethod
    def of_plan(cls, plan: Mapping[str, Any]) -> "StopLoss":
        """The stop-loss that a plan asks for."""
        asked = plan.get("stop_loss") or {}
        return cls(asked.get("alike", FAILURES_IN_A_ROW), asked.get("percent"))

    def trip(self, why: str) -> None:
        """Stop the run."""
        with self._guard:
            self.why = self.why or why

    def reached(self) -> None:
        """Record that the service answered a question."""
        # No lock, for speed. Race: a failure counted in the same instant may be lost, or outlive this reset.
        self._unreached = 0

    def could_not_ask(self, error: Exception) -> None:
        """Record a question that failed. Any answer, even a refusal, counts as a connection."""
        if not isinstance(error, NotConnected):
            return self.reached()
        with self._guard:
            self._unreached += 1
            if self._unreached >= UNREACHED:
                self.why = self.why or f"not asked: {self._unreached} questions in a row found no connection"
        return None

    def count(self, order: Order) -> None:
        """Record the outcome of one send."""
        failure = _failure(order)
        with self._guard:
            self._sent += 1
            self._failed += failure is not None
            self._count_in_a_row(order, failure)
            share = 100 * self._failed
            if self.percent is not None and self._sent >= ENOUGH and share > self.percent * self._sent:
                self.why = self.why or f"{self._failed} of {self._sent} sends failed"

    def count_quote(self, order: Order, *, came: bool) -> None:
        """Record whether a quote came. It counts as a send only when its refusal ended the row."""
        if order.state is State.REJECTED:
            self.count(order)
            return
        with self._guard:
            self._count_in_a_row(order, None if came else _failure(order))

    def _count_in_a_row(self, order: Order, failure: tuple[object, ...] | None) -> None:
        self._in_a_row = 0 if failure is None else self._in_a_row + 1 if failure == self._last else 1
        self._last = failure
        if self._in_a_row >= self.failures_in_a_row:
            self.why = (
                self.why or f"{self._in_a_row} sends in a row failed in the same way ({order.code or order.reason})"
            )


def _failure(order: Order) -> tuple[object, ...] | None:
    """The kind of failure of a send; None when the service accepted it."""
    if order.state not in (State.REJECTED, State.UNKNOWN, State.PREPARED) or order.code == TOO_MANY:
        return None  # 429 is handled by `provider.pacing`, which slows down and gives up
    return (order.state, order.code or order.reason)
